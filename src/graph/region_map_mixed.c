// SPDX-License-Identifier: Apache-2.0
#include "graph/region_map_mixed.h"

#include <string.h>

// --- Lists, grid and links ---------------------------------------------------------------------------------------------------------------

void slip__map_clear_cells(slip__region_map_t *map, uint64_t regions) {
  if (++map->cell_generation == 0) {
    memset(map->cell_table, 0, (size_t)slip__map_cell_entries(map->capacity) * sizeof(slip__cell_entry_t));
    map->cell_generation = 1;
  }
  map->cell_mask = (uint32_t)slip__map_cell_entries(regions < map->capacity ? regions : map->capacity) - 1;
  map->cell_used = 1;
}

static uint64_t slip__map_cell_key(uint32_t storage, uint64_t cell) {
  return ((uint64_t)storage << 40) ^ (cell * 4 + 1);
}

// The entry that holds |key|, or the free one where it would lie.
static slip__cell_entry_t *slip__map_probe(const slip__region_map_t *map, uint64_t key) {
  uint32_t at = (uint32_t)(slip__map_mix(key, 0) >> 32) & map->cell_mask;
  while (map->cell_table[at].generation == map->cell_generation && map->cell_table[at].key != key) at = (at + 1) & map->cell_mask;
  return &map->cell_table[at];
}

static void slip__map_add_cell(slip__region_map_t *map, uint32_t *list, uint32_t region) {
  uint32_t index = map->cell_used++;
  if (map->cell_used > map->cell_high) map->cell_high = map->cell_used;
  map->cells[index] = (slip__cell_t){.region = region, .next = *list};
  *list = index;
}

static uint64_t slip__map_last_cell(const slip__region_map_t *map, const slip__storage_t *storage, const slip__region_t *region) {
  return (region->low + (uint64_t)slip__map_extent(map, region->shape) - 1) >> storage->cell_shift;
}

static bool slip__map_is_wide(const slip__region_map_t *map, const slip__storage_t *storage, const slip__region_t *region) {
  return slip__map_last_cell(map, storage, region) - (region->low >> storage->cell_shift) >= SLIP__GRID_CELLS;
}

static void slip__map_add_to_grid(slip__region_map_t *map, uint32_t index) {
  const slip__region_t *region = &map->regions[index];
  slip__storage_t *storage = &map->storages[region->storage];
  if (slip__map_is_wide(map, storage, region)) {
    slip__map_add_cell(map, &storage->wide, index);
    return;
  }
  uint64_t last = slip__map_last_cell(map, storage, region);
  for (uint64_t cell = region->low >> storage->cell_shift; cell <= last; ++cell) {
    uint64_t key = slip__map_cell_key(region->storage, cell);
    slip__cell_entry_t *entry = slip__map_probe(map, key);
    if (entry->generation != map->cell_generation) *entry = (slip__cell_entry_t){.key = key, .generation = map->cell_generation};
    slip__map_add_cell(map, &entry->cells, index);
  }
}

void slip__map_add_to_list(slip__region_map_t *map, uint32_t index) {
  const slip__region_t *region = &map->regions[index];
  slip__storage_t *storage = &map->storages[region->storage];
  map->mixed[index].next = storage->regions;
  storage->regions = index;
  ++storage->list_count;
  if (storage->cell_shift) {
    slip__map_add_to_grid(map, index);
  } else if (storage->list_count > SLIP__GRID_FROM) {
    uint64_t extent = (uint64_t)slip__map_extent(map, region->shape);
    storage->cell_shift = extent <= 8 ? 3 : 64 - (uint32_t)__builtin_clzll(extent - 1);
    for (uint32_t i = storage->regions; i; i = map->mixed[i].next) slip__map_add_to_grid(map, i);
  }
}

// Notes in both regions that they share bytes, if they do. False if there is no record left.
static bool slip__map_link(slip__region_map_t *map, uint32_t added, uint32_t other) {
  if (map->mixed[other].mark == map->mark) return true;
  map->mixed[other].mark = map->mark;
  slip__region_t *a = &map->regions[added], *b = &map->regions[other];
  if (!slip__map_shares(map, a->shape, a->low, b->shape, b->low)) return true;
  uint32_t in_a = slip__map_take_record(map), in_b = in_a ? slip__map_take_record(map) : 0;
  if (!in_b) {
    if (in_a) slip__map_give_record(map, in_a);
    return false;
  }
  map->records[in_a] = (slip__record_t){.value = other, .next = a->links};
  map->records[in_b] = (slip__record_t){.value = added, .next = b->links};
  a->links = in_a;
  b->links = in_b;
  return true;
}

static bool slip__map_link_cells(slip__region_map_t *map, uint32_t added, uint32_t list) {
  for (uint32_t i = list; i; i = map->cells[i].next) {
    if (!slip__map_link(map, added, map->cells[i].region)) return false;
  }
  return true;
}

bool slip__map_link_all(slip__region_map_t *map, uint32_t added) {
  const slip__region_t *region = &map->regions[added];
  const slip__storage_t *storage = &map->storages[region->storage];
  if (++map->mark == 0) {  // a mark of four thousand million queries ago could be taken for this one's
    for (uint32_t i = 1; i < map->region_used; ++i) map->mixed[i].mark = 0;
    map->mark = 1;
  }
  map->mixed[added].mark = map->mark;
  if (!storage->cell_shift || slip__map_is_wide(map, storage, region)) {
    for (uint32_t i = storage->regions; i; i = map->mixed[i].next) {
      if (!slip__map_link(map, added, i)) return false;
    }
    return true;
  }
  uint64_t last = slip__map_last_cell(map, storage, region);
  for (uint64_t cell = region->low >> storage->cell_shift; cell <= last; ++cell) {
    const slip__cell_entry_t *entry = slip__map_probe(map, slip__map_cell_key(region->storage, cell));
    if (entry->generation == map->cell_generation && !slip__map_link_cells(map, added, entry->cells)) return false;
  }
  return slip__map_link_cells(map, added, storage->wide);
}

// --- Sweep -------------------------------------------------------------------------------------------------------------------------------

static void slip__map_sweep_links(slip__region_map_t *map, slip__region_t *region) {
  uint32_t *link = &region->links;
  while (*link) {
    uint32_t index = *link;
    if (!(map->regions[map->records[index].value].bits & SLIP__REGION_DROPPED)) {
      link = &map->records[index].next;
      continue;
    }
    *link = map->records[index].next;
    slip__map_give_record(map, index);
  }
}

// Takes the dropped regions out of all buckets.
static void slip__map_sweep_buckets(slip__region_map_t *map) {
  for (uint32_t b = 0; b <= map->bucket_mask; ++b) {
    for (uint32_t *link = &map->buckets[b]; *link;) {
      uint32_t index = *link;
      slip__region_t *region = &map->regions[index];
      if (region->bits & SLIP__REGION_DROPPED) {
        *link = region->next;
        slip__map_give_list(map, &region->links);
        slip__map_free_region(map, index);
      } else {
        link = &region->next;
      }
    }
  }
}

// Lists and grids of the mixed storages, from nothing.
static void slip__map_rebuild_mixed(slip__region_map_t *map) {
  uint32_t count = 0;
  for (uint32_t i = 1; i < map->storage_used; ++i) {
    slip__storage_t *storage = &map->storages[i];
    storage->regions = 0;
    storage->wide = 0;
    storage->list_count = 0;
    storage->cell_shift = 0;
  }
  for (uint32_t i = 1; i < map->region_used; ++i) {
    if (map->regions[i].low != SLIP__REGION_IS_DEAD) count += map->storages[map->regions[i].storage].mixed;
  }
  map->mixed_count = count;
  uint64_t wanted = count > map->sweep_at / 2 ? 2 * ((uint64_t)count > map->sweep_at ? count : map->sweep_at) : map->sweep_at;
  map->sweep_at = wanted < map->capacity ? (uint32_t)wanted : map->capacity;
  slip__map_clear_cells(map, map->sweep_at);
  for (uint32_t i = 1; i < map->region_used; ++i) {
    const slip__region_t *region = &map->regions[i];
    if (region->low != SLIP__REGION_IS_DEAD && map->storages[region->storage].mixed) slip__map_add_to_list(map, i);
  }
}

void slip__map_sweep(slip__region_map_t *map, const slip__producers_t *producers, bool spare) {
  for (uint32_t i = 1; i < map->region_used; ++i) {
    slip__region_t *region = &map->regions[i];
    if (region->low == SLIP__REGION_IS_DEAD || !slip__map_is_over(map, producers, region)) continue;
    if (spare && map->storages[region->storage].mixed && map->mixed[i].touched == map->sweeps) continue;
    region->bits |= SLIP__REGION_DROPPED;
  }
  for (uint32_t i = 1; i < map->region_used; ++i) {
    slip__region_t *region = &map->regions[i];
    if (region->low != SLIP__REGION_IS_DEAD && !(region->bits & SLIP__REGION_DROPPED)) slip__map_sweep_links(map, region);
  }
  slip__map_sweep_buckets(map);
  ++map->sweeps;
  slip__map_rebuild_mixed(map);
}

void slip__map_make_mixed(slip__region_map_t *map, uint32_t storage_index) {
  slip__storage_t *storage = &map->storages[storage_index];
  storage->mixed = 1;
  if ((uint64_t)map->mixed_count + storage->count > map->sweep_at) {  // more than the grid's table is made for
    slip__map_rebuild_mixed(map);
    return;
  }
  for (uint32_t i = 1; i < map->region_used && storage->list_count < storage->count; ++i) {
    if (map->regions[i].low == SLIP__REGION_IS_DEAD || map->regions[i].storage != storage_index) continue;
    map->mixed[i] = (slip__mixed_t){.touched = map->sweeps};
    ++map->mixed_count;
    slip__map_add_to_list(map, i);
  }
}
