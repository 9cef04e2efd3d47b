// SPDX-License-Identifier: Apache-2.0
// What the two halves of the dependency map share: region_map.c, which is asked and looks after tiles, and region_map_mixed.c, which knows
// the storages whose regions overlap: lists, grid, links and sweeps.
#ifndef SLIPSTREAM_SRC_GRAPH_REGION_MAP_MIXED_H_
#define SLIPSTREAM_SRC_GRAPH_REGION_MAP_MIXED_H_

#include "graph/region_map.h"

#define SLIP__STRIDED        (UINT64_C(1) << 63)
#define SLIP__REGION_IS_DEAD SLIP__STRIDED  // a |low| that no address has, of a region that is not in use

typedef enum slip__region_bits_e {
  SLIP__REGION_MANUAL = 1,   // some of the further readers write
  SLIP__REGION_DROPPED = 2,  // while sweeping
} slip__region_bits_e;

// --- Mixed storages (region_map_mixed.c) -------------------------------------------------------------------------------------------------

// Makes a storage of tiles mixed. Tiles of one shape share nothing among themselves: they only get a list.
void slip__map_make_mixed(slip__region_map_t *map, uint32_t storage_index);
// Adds a region to its storage's list and, from SLIP__GRID_FROM on, grid. The size of a cell follows the region that starts the grid:
// mostly the others are about as large.
void slip__map_add_to_list(slip__region_map_t *map, uint32_t index);
// Compares a new region with those of its storage that may share bytes with it. False if there is no record left.
bool slip__map_link_all(slip__region_map_t *map, uint32_t added);
// Drops the regions that are over; with |spare|, of those in mixed storages only the ones that have not been used since the last sweep.
void slip__map_sweep(slip__region_map_t *map, const slip__producers_t *producers, bool spare);
// An empty grid, for that many regions of mixed storages.
void slip__map_clear_cells(slip__region_map_t *map, uint64_t regions);

// --- Sizes and hashes --------------------------------------------------------------------------------------------------------------------

static inline uint64_t slip__map_power_of_two(uint64_t at_least) {
  uint64_t size = 1;
  while (size < at_least) size *= 2;
  return size;
}
static inline uint64_t slip__map_cell_entries(uint64_t capacity) {
  return slip__map_power_of_two(2 * SLIP__GRID_CELLS * capacity);
}
static inline uint64_t slip__map_mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
  return x ^ (x >> 29);
}

// --- Records -----------------------------------------------------------------------------------------------------------------------------

// 0 if there is none left.
static inline uint32_t slip__map_take_record(slip__region_map_t *map) {
  uint32_t index = map->record_free;
  if (index) {
    map->record_free = map->records[index].next;
    return index;
  }
  if (map->record_used == map->record_capacity) return 0;
  index = map->record_used++;
  if (map->record_used > map->record_high) map->record_high = map->record_used;
  return index;
}

static inline void slip__map_give_record(slip__region_map_t *map, uint32_t index) {
  map->records[index].next = map->record_free;
  map->record_free = index;
}

static inline void slip__map_give_list(slip__region_map_t *map, uint32_t *inout_list) {
  for (uint32_t index = *inout_list; index;) {
    uint32_t next = map->records[index].next;
    slip__map_give_record(map, index);
    index = next;
  }
  *inout_list = 0;
}

// --- Shapes ------------------------------------------------------------------------------------------------------------------------------

// The box of |shape|; one of a run is made in |run|.
static inline const slip__box_t *slip__map_box(const slip__region_map_t *map, uint64_t shape, slip__box_t *run) {
  if (shape & SLIP__STRIDED) return &map->shapes[shape & ~SLIP__STRIDED].box;
  *run = slip__box_of_run((int64_t)shape);
  return run;
}

static inline int64_t slip__map_extent(const slip__region_map_t *map, uint64_t shape) {
  return shape & SLIP__STRIDED ? map->shapes[shape & ~SLIP__STRIDED].box.extent : (int64_t)shape;
}

static inline bool slip__map_shares(const slip__region_map_t *map, uint64_t shape_a, uint64_t low_a, uint64_t shape_b, uint64_t low_b) {
  if (!((shape_a | shape_b) & SLIP__STRIDED)) return low_a < low_b + shape_b && low_b < low_a + shape_a;
  slip__box_t run_a, run_b;
  return slip__box_overlaps(slip__map_box(map, shape_a, &run_a), slip__map_box(map, shape_b, &run_b), (int64_t)(low_b - low_a));
}

// --- Regions -----------------------------------------------------------------------------------------------------------------------------

// Drops further readers that are over.
static inline void slip__map_prune(slip__region_map_t *map, const slip__producers_t *producers, slip__region_t *region) {
  uint32_t *link = &region->more, live = 0;
  while (*link) {
    uint32_t index = *link;
    if (slip__producer_is_live(producers, map->records[index].value)) {
      link = &map->records[index].next;
      ++live;
      continue;
    }
    *link = map->records[index].next;
    slip__map_give_record(map, index);
  }
  region->more_count = live;
  if (live == 0) region->bits &= ~(uint32_t)SLIP__REGION_MANUAL;
}

static inline bool slip__map_is_over(slip__region_map_t *map, const slip__producers_t *producers, slip__region_t *region) {
  if (slip__producer_is_live(producers, region->writer) || slip__producer_is_live(producers, region->readers[0]) ||
      slip__producer_is_live(producers, region->readers[1])) {
    return false;
  }
  if (region->more) slip__map_prune(map, producers, region);
  return region->more == 0;
}

static inline void slip__map_free_region(slip__region_map_t *map, uint32_t index) {
  slip__region_t *region = &map->regions[index];
  --map->storages[region->storage].count;
  region->low = SLIP__REGION_IS_DEAD;
  region->next = map->region_free;
  map->region_free = index;
  --map->region_count;
}

#endif  // SLIPSTREAM_SRC_GRAPH_REGION_MAP_MIXED_H_
