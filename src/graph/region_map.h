// SPDX-License-Identifier: Apache-2.0
// Who last wrote and who has since read which bytes: from it a task's dependencies are inferred. Single-owner: the submitter's.
//
//   region    one distinct view of one storage (exact key: storage, address, dims, strides, element size), its last writer and its
//             readers since then
//   link      two regions of one storage that share bytes, noted in both when the later one first appears
//   storage   the regions with one base address; beyond SLIP__GRID_FROM of them also in a grid of address cells, so that a new region
//             is compared only with its neighbourhood
//
//   access    waits for                                           leaves behind
//   read      the writer of the region and of its linked ones     one more reader
//   write     their writers and all their readers                 itself as writer, no readers; the same in linked regions that it
//                                                                 covers wholly
//   in a manual scope: nothing                                    one more reader, marked as writing if it does (others may write
//                                                                 beside it)
//
// A task that has retired is no longer waited for, so nothing is taken out when a task ends: handles below the retire mark are skipped when
// met. Regions whose tasks have all retired are swept when the map reaches |sweep_at|, which stays near twice the live ones: the map is as
// small as the run's present. A run starts with an empty map; emptying is one step of |generation|, which entries of the tables are
// compared with.
#ifndef SLIPSTREAM_SRC_GRAPH_REGION_MAP_H_
#define SLIPSTREAM_SRC_GRAPH_REGION_MAP_H_

#include "graph/box.h"
#include "graph/slot.h"

#define SLIP__GRID_FROM  16  // below, a scan of all is faster
#define SLIP__GRID_CELLS 4   // a region over more cells is looked at by every query

typedef struct slip__record_t {
  uint64_t value;  // a reader's task; a linked region's index
  uint32_t next;   // index, 0 ends the list
  uint32_t writes;
} slip__record_t;

typedef struct slip__region_t {
  uint64_t hash;
  slip_task_t writer;  // 0: none
  uint32_t readers;    // records
  uint32_t reader_count;
  uint32_t reader_limit;  // at this count the list is pruned
  uint32_t links;         // records
  uint32_t manual;        // some readers write
  uint32_t storage;
  uint32_t next;     // in the storage's list
  uint32_t mark;     // the last query that met it
  uint32_t forward;  // while sweeping: its new index
  uint32_t element_bytes;
  const void *base;  // of the storage
  slip_ktensor_t view;
  slip__box_t box;
} slip__region_t;

typedef struct slip__storage_t {
  const void *base;
  uint32_t regions;  // list
  uint32_t wide;     // cell records of regions over more than SLIP__GRID_CELLS cells
  uint32_t count;
  uint32_t shift;  // log2 of a cell's bytes; 0: no grid
} slip__storage_t;

typedef struct slip__table_entry_t {
  uint64_t key;
  uint32_t generation;
  uint32_t value;
} slip__table_entry_t;

// Open addressing, linear probing; entries of another generation are free.
typedef struct slip__table_t {
  slip__table_entry_t *entries;
  uint32_t mask;
} slip__table_t;

typedef struct slip__cell_t {
  uint32_t region;
  uint32_t next;
} slip__cell_t;

typedef struct slip__region_map_t {
  uint32_t generation;
  uint32_t capacity;  // regions
  uint32_t sweep_at;
  uint32_t stamp;
  // Index 0 of each is unused. |_used| is one past the last in use, |_high| the most so far.
  slip__region_t *regions;
  uint32_t region_used, region_high;
  slip__storage_t *storages;
  uint32_t storage_used;
  slip__record_t *records;
  uint32_t record_used, record_high, record_capacity;
  uint32_t record_free;
  uint32_t record_live;
  uint32_t record_sweep_at;
  slip__cell_t *cells;
  uint32_t cell_used, cell_high;
  slip__table_t region_table, storage_table, cell_table;
  const void *last_base;  // the storage looked up last
  uint32_t last_storage;
} slip__region_map_t;

typedef struct slip__linker_t slip__linker_t;
typedef struct slip__access_t slip__access_t;

// Bytes of memory for a map of |capacity| regions; 0 if that overflows.
uint64_t slip__region_map_bytes(uint64_t capacity);
// Lays the map out in |memory|, which is zeroed and of that size.
void slip__region_map_initialize(slip__region_map_t *map, void *memory, uint32_t capacity);
void slip__region_map_reset(slip__region_map_t *map);
// Tells |linker| what |access| waits for (nothing if |manual|) and notes it. False if the map is full; it must then be reset.
bool slip__region_map_access(slip__region_map_t *map, slip__linker_t *linker, const slip__access_t *access, bool manual);
// Calls |wait| for each task that an access of |box| in the storage at |base| must follow. The map does not change meanwhile.
void slip__region_map_visit(slip__region_map_t *map, const void *base, const slip__box_t *box, bool is_write,
                            void (*wait)(void *user, slip_task_t task), void *user);
uint64_t slip__region_map_committed_bytes(const slip__region_map_t *map);

#endif  // SLIPSTREAM_SRC_GRAPH_REGION_MAP_H_
