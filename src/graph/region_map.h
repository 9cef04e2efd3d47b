// SPDX-License-Identifier: Apache-2.0
// Who last wrote and who has since read which bytes: from it a task's dependencies are inferred. Single-owner: the submitter's.
//
//   region    the bytes of one view of one storage: where they begin, and their shape (a run of so many bytes, or a strided box). Views of
//             the same bytes are one region, whatever their dims and dtypes. Its last writer and its readers since then.
//   storage   the regions with one base address. As long as all of them have one shape and lie on its grid, as tiles do, two of them are
//             the same bytes or share none: nothing needs to be compared (*tiled*). The first region that does not fit makes the storage
//             *mixed* for the rest of the run.
//   link      two regions of one mixed storage that share bytes, noted in both when the later one first appears. From SLIP__GRID_FROM
//             regions on, a mixed storage has a grid of address cells, so that a new region is compared only with its neighbourhood.
//
//   access    waits for                                           leaves behind
//   read      the writer of the region and of its linked ones     one more reader
//   write     their writers and all their readers                 itself as writer, no readers; the same in linked regions that it
//                                                                 covers wholly
//   in a manual scope: nothing                                    one more reader, marked as writing if it does (others may write
//                                                                 beside it)
//
// A task that has retired is no longer waited for, so nothing is taken out when a task ends: handles below the retire mark are skipped when
// met. Regions of tiled storages whose tasks have all retired are dropped when a neighbour in their hash bucket is added; those of mixed
// storages stay, with their links, until a sweep, since most come again. A run starts with an empty map.
#ifndef SLIPSTREAM_SRC_GRAPH_REGION_MAP_H_
#define SLIPSTREAM_SRC_GRAPH_REGION_MAP_H_

#include "graph/box.h"
#include "graph/handle.h"

#define SLIP__GRID_FROM  16  // below, a scan of all is faster
#define SLIP__GRID_CELLS 4   // a region over more cells is looked at by every query

// What the map is told of one argument.
typedef struct slip__access_t {
  const void *storage;
  uint64_t low;    // address of the first byte
  uint64_t shape;  // slip__region_map_shape; 0: no byte is touched
  uint32_t writes;
  uint32_t reserved;
} slip__access_t;

#define SLIP__PRODUCERS 64

// The tasks that one task must wait for. Some may be in it more than once.
typedef struct slip__producers_t {
  slip_task_t task;                       // the waiting one
  slip_task_t retired[SLIP__RING_COUNT];  // handles below their ring's are over; all are above 0
  uint32_t count;
  void (*drain)(struct slip__producers_t *producers);  // the list is full: takes all and sets |count| to 0
  slip_task_t list[SLIP__PRODUCERS];
} slip__producers_t;

static inline bool slip__producer_is_live(const slip__producers_t *producers, slip_task_t task) {
  return task >= producers->retired[slip__task_ring(task)];
}
static inline void slip__producers_add(slip__producers_t *producers, slip_task_t task) {
  if (!slip__producer_is_live(producers, task) || task == producers->task) return;
  if (__builtin_expect(producers->count == SLIP__PRODUCERS, 0)) producers->drain(producers);
  producers->list[producers->count++] = task;
}

typedef struct slip__record_t {
  uint64_t value;  // a reader's task; a linked region's index
  uint32_t next;   // index, 0 ends the list
  uint32_t writes;
} slip__record_t;

// One cache line.
typedef struct slip__region_t {
  uint64_t low;    // address of the first byte
  uint64_t shape;  // bytes of a run, or SLIP__STRIDED | index of a box
  slip_task_t writer;
  slip_task_t readers[2];  // over or 0: free
  uint32_t more;           // records of further readers
  uint32_t more_count;
  uint32_t links;  // records
  uint32_t storage;
  uint32_t next;  // in its bucket, or among the free ones
  uint32_t bits;  // slip__region_bits_e
} slip__region_t;

// Only of regions in mixed storages.
typedef struct slip__mixed_t {
  uint32_t next;     // in the storage's list
  uint32_t mark;     // the last query that met it
  uint32_t touched;  // the sweep after which it was last used
} slip__mixed_t;

typedef struct slip__storage_t {
  const void *base;
  uint64_t tile;        // the regions' common shape; 0: no region yet
  uint32_t tile_shift;  // of the tile's bytes, for hashing
  uint32_t count;       // regions in the map
  uint32_t next;        // in its bucket, or among the free ones
  uint32_t in_use;
  uint32_t mixed;
  // If mixed:
  uint32_t regions;     // list
  uint32_t wide;        // cell records of regions over more than SLIP__GRID_CELLS cells
  uint32_t list_count;  // of |regions|
  uint32_t cell_shift;  // log2 of a cell's bytes; 0: no grid
  uint32_t reserved[2];
} slip__storage_t;

typedef struct slip__cell_t {
  uint32_t region;
  uint32_t next;
} slip__cell_t;

// A bucket of the grid's table: open addressing, linear probing; entries of another generation are free.
typedef struct slip__cell_entry_t {
  uint64_t key;
  uint32_t generation;
  uint32_t cells;
} slip__cell_entry_t;

typedef struct slip__shape_t {
  slip__box_t box;
  uint64_t hash;
  uint32_t next;  // in its bucket
} slip__shape_t;

#define SLIP__SHAPE_BUCKETS 64

typedef struct slip__region_map_t {
  uint32_t capacity;  // regions
  uint32_t used;      // something was put in since the last reset
  // Index 0 of each array is unused. |_used| is one past the last in use, |_high| the most so far.
  uint32_t *buckets;  // of regions
  uint32_t *storage_buckets;
  uint32_t bucket_mask, bucket_high;  // of both tables
  slip__region_t *regions;
  slip__mixed_t *mixed;  // parallel to |regions|
  uint32_t region_used, region_high, region_free, region_count;
  uint32_t mixed_count, sweep_at, sweeps, mark;
  slip__storage_t *storages;
  uint32_t storage_used, storage_high, storage_free;
  const void *last_base;  // the storage looked up last
  uint32_t last_storage;
  slip__record_t *records;
  uint32_t record_used, record_high, record_capacity, record_free;
  slip__cell_t *cells;
  uint32_t cell_used, cell_high, cell_generation;
  slip__cell_entry_t *cell_table;
  uint32_t cell_mask;
  slip__shape_t *shapes;
  uint32_t shape_used, shape_high;
  uint32_t shape_buckets[SLIP__SHAPE_BUCKETS];
} slip__region_map_t;

// Bytes of memory for a map of |capacity| regions; 0 if that overflows.
uint64_t slip__region_map_bytes(uint64_t capacity);
// Lays the map out in |memory|, which is zeroed and of that size.
void slip__region_map_initialize(slip__region_map_t *map, void *memory, uint32_t capacity);
// Empties the map.
void slip__region_map_reset_slow(slip__region_map_t *map);
static inline void slip__region_map_reset(slip__region_map_t *map) {
  if (map->used) slip__region_map_reset_slow(map);
}
// The shape of |view|, which has passed the checks of a submit, and where its first byte lies from |view->data|. 0: it touches nothing.
// Shapes stay until slip__region_map_drop_shapes(); when there is no room for one more, a run over the whole extent stands for it, which
// orders more than it must.
uint64_t slip__region_map_shape(slip__region_map_t *map, const slip_ktensor_t *view, int64_t *out_low, uint64_t *out_extent);
// Of an empty map.
void slip__region_map_drop_shapes(slip__region_map_t *map);
// Adds to |producers| what |access| waits for (nothing if |manual|) and notes it. False if the map is full; it must then be reset.
bool slip__region_map_access(slip__region_map_t *map, slip__producers_t *producers, const slip__access_t *access, bool manual);
// True if |access| waits for nothing. False also where only slip__region_map_access() could tell.
bool slip__region_map_is_free(const slip__region_map_t *map, const slip__producers_t *producers, const slip__access_t *access);
// Calls |wait| for each task that an access of the |bytes| at |address| in the storage at |base| must follow. The map does not change
// meanwhile.
void slip__region_map_visit(slip__region_map_t *map, const void *base, const void *address, uint64_t bytes, bool is_write,
                            void (*wait)(void *user, slip_task_t task), void *user);
uint64_t slip__region_map_committed_bytes(const slip__region_map_t *map);

#endif  // SLIPSTREAM_SRC_GRAPH_REGION_MAP_H_
