// SPDX-License-Identifier: Apache-2.0
#include "graph/region_map_mixed.h"

#include <string.h>

#define SLIP__MAP_BUCKETS    256u    // to begin with
#define SLIP__MAP_SWEEP      16384u  // regions of mixed storages before the first sweep
#define SLIP__MAP_PRUNE_FROM 8u      // further readers of a region before they are looked through

// --- Memory -------------------------------------------------------------------------------------------------------------------------

// Sizes that follow from the capacity in regions.
static uint64_t slip__map_records(uint64_t capacity) {
  return 2 * capacity + 1;
}
static uint64_t slip__map_cells(uint64_t capacity) {
  return SLIP__GRID_CELLS * capacity + 1;
}
static uint64_t slip__map_bucket_count(uint64_t capacity) {
  uint64_t count = slip__map_power_of_two(capacity / 2);
  return count < SLIP__MAP_BUCKETS ? SLIP__MAP_BUCKETS : count;
}
#define SLIP__MAP_SHAPES 4096u

uint64_t slip__region_map_bytes(uint64_t capacity) {
  if (capacity > UINT32_MAX / 16) return 0;
  return (capacity + 1) * (sizeof(slip__region_t) + sizeof(slip__mixed_t) + sizeof(slip__storage_t)) +
         slip__map_records(capacity) * sizeof(slip__record_t) + slip__map_cells(capacity) * sizeof(slip__cell_t) +
         slip__map_cell_entries(capacity) * sizeof(slip__cell_entry_t) + 2 * slip__map_bucket_count(capacity) * sizeof(uint32_t) +
         SLIP__MAP_SHAPES * sizeof(slip__shape_t) + 9 * 4096;
}

static void *slip__map_carve(char **inout_memory, uint64_t bytes) {
  void *memory = *inout_memory;
  *inout_memory += (bytes + 4095) & ~(uint64_t)4095;
  return memory;
}

void slip__region_map_initialize(slip__region_map_t *map, void *memory, uint32_t capacity) {
  char *at = memory;
  map->capacity = capacity;
  map->record_capacity = (uint32_t)slip__map_records(capacity);
  map->regions = slip__map_carve(&at, ((uint64_t)capacity + 1) * sizeof(slip__region_t));
  map->mixed = slip__map_carve(&at, ((uint64_t)capacity + 1) * sizeof(slip__mixed_t));
  map->storages = slip__map_carve(&at, ((uint64_t)capacity + 1) * sizeof(slip__storage_t));
  map->records = slip__map_carve(&at, map->record_capacity * sizeof(slip__record_t));
  map->cells = slip__map_carve(&at, slip__map_cells(capacity) * sizeof(slip__cell_t));
  map->cell_table = slip__map_carve(&at, slip__map_cell_entries(capacity) * sizeof(slip__cell_entry_t));
  map->buckets = slip__map_carve(&at, slip__map_bucket_count(capacity) * sizeof(uint32_t));
  map->storage_buckets = slip__map_carve(&at, slip__map_bucket_count(capacity) * sizeof(uint32_t));
  map->shapes = slip__map_carve(&at, SLIP__MAP_SHAPES * sizeof(slip__shape_t));
  map->bucket_mask = SLIP__MAP_BUCKETS - 1;
  map->cell_generation = 1;
  slip__region_map_drop_shapes(map);
  slip__region_map_reset_slow(map);
}

static void slip__map_clear_buckets(slip__region_map_t *map) {
  memset(map->buckets, 0, ((size_t)map->bucket_mask + 1) * sizeof(uint32_t));
  memset(map->storage_buckets, 0, ((size_t)map->bucket_mask + 1) * sizeof(uint32_t));
  if (map->bucket_mask >= map->bucket_high) map->bucket_high = map->bucket_mask + 1;
}

void slip__region_map_reset_slow(slip__region_map_t *map) {
  map->bucket_mask = SLIP__MAP_BUCKETS - 1;
  slip__map_clear_buckets(map);
  map->region_used = 1;
  map->region_free = 0;
  map->region_count = 0;
  map->mixed_count = 0;
  map->sweep_at = SLIP__MAP_SWEEP < map->capacity ? SLIP__MAP_SWEEP : map->capacity;
  map->storage_used = 1;
  map->storage_free = 0;
  map->last_base = NULL;
  map->last_storage = 0;
  map->record_used = 1;
  map->record_free = 0;
  slip__map_clear_cells(map, map->sweep_at);
  map->used = 0;
}

void slip__region_map_drop_shapes(slip__region_map_t *map) {
  map->shape_used = 1;
  memset(map->shape_buckets, 0, sizeof(map->shape_buckets));
}

uint64_t slip__region_map_committed_bytes(const slip__region_map_t *map) {
  uint64_t bytes = map->region_high * (sizeof(slip__region_t) + sizeof(slip__mixed_t)) + map->storage_high * sizeof(slip__storage_t) +
                   map->record_high * sizeof(slip__record_t) + map->cell_high * (sizeof(slip__cell_t) + 2 * sizeof(slip__cell_entry_t)) +
                   map->shape_high * sizeof(slip__shape_t) + 2 * (uint64_t)map->bucket_high * sizeof(uint32_t);
  return (bytes + 4095) & ~(uint64_t)4095;
}

// --- Shapes -------------------------------------------------------------------------------------------------------------------------

static uint64_t slip__map_shape(slip__region_map_t *map, const slip__box_t *box) {
  if (box->rank == 0) return (uint64_t)box->run;
  uint64_t hash = (uint64_t)box->run;
  for (int32_t i = 0; i < box->rank; ++i) {
    hash = slip__map_mix(hash, (uint64_t)box->counts[i]);
    hash = slip__map_mix(hash, (uint64_t)box->strides[i]);
  }
  uint32_t *bucket = &map->shape_buckets[(hash >> 32) % SLIP__SHAPE_BUCKETS];
  for (uint32_t i = *bucket; i; i = map->shapes[i].next) {
    const slip__shape_t *shape = &map->shapes[i];
    if (shape->hash != hash || shape->box.run != box->run || shape->box.rank != box->rank) continue;
    bool same = true;
    for (int32_t d = 0; d < box->rank; ++d) {
      same &= shape->box.counts[d] == box->counts[d] && shape->box.strides[d] == box->strides[d];
    }
    if (same) return SLIP__STRIDED | i;
  }
  if (map->shape_used == SLIP__MAP_SHAPES) return (uint64_t)box->extent;
  uint32_t index = map->shape_used++;
  if (map->shape_used > map->shape_high) map->shape_high = map->shape_used;
  map->shapes[index] = (slip__shape_t){.box = *box, .hash = hash, .next = *bucket};
  *bucket = index;
  return SLIP__STRIDED | index;
}

// True if every byte of |inner| is certainly in |outer|.
static bool slip__map_covers(const slip__region_map_t *map, const slip__region_t *outer, const slip__region_t *inner) {
  if (outer->shape & SLIP__STRIDED) return false;
  return outer->low <= inner->low && inner->low + (uint64_t)slip__map_extent(map, inner->shape) <= outer->low + outer->shape;
}

// --- Storages -----------------------------------------------------------------------------------------------------------------------

// Bases may be 64 bytes apart, or 2^44 (recorded/infer.c): the product's high bits depend on all of them.
static inline uint32_t *slip__map_storage_bucket(const slip__region_map_t *map, const void *base) {
  uint64_t product = (uint64_t)(uintptr_t)base * UINT64_C(0x9e3779b97f4a7c15);
  return &map->storage_buckets[(uint32_t)(product >> 44) & map->bucket_mask];
}

__attribute__((noinline)) static uint32_t slip__map_add_storage(slip__region_map_t *map, uint32_t *bucket, const void *base) {
  // Storages without regions, as those of intermediates long gone, make room.
  for (uint32_t *link = bucket; *link;) {
    uint32_t index = *link;
    slip__storage_t *storage = &map->storages[index];
    if (storage->count == 0) {
      *link = storage->next;
      storage->in_use = 0;
      storage->next = map->storage_free;
      map->storage_free = index;
    } else {
      link = &storage->next;
    }
  }
  uint32_t index = map->storage_free;
  if (index) {
    map->storage_free = map->storages[index].next;
  } else {
    if (map->storage_used > map->capacity) return 0;
    index = map->storage_used++;
    if (map->storage_used > map->storage_high) map->storage_high = map->storage_used;
  }
  map->storages[index] = (slip__storage_t){.base = base, .next = *bucket, .in_use = 1};
  *bucket = index;
  return index;
}

// 0 if there is no room for one more.
static inline uint32_t slip__map_storage(slip__region_map_t *map, const void *base) {
  if (map->last_base == base && map->last_storage) return map->last_storage;
  uint32_t *bucket = slip__map_storage_bucket(map, base);
  uint32_t index = *bucket;
  while (index && map->storages[index].base != base) index = map->storages[index].next;
  if (!index) index = slip__map_add_storage(map, bucket, base);
  map->last_base = base;
  map->last_storage = index;
  return index;
}

// Tiles that lie side by side have buckets side by side.
static inline uint32_t *slip__map_bucket(const slip__region_map_t *map, uint32_t storage, uint64_t low) {
  uint32_t place = (uint32_t)((low - (uint64_t)(uintptr_t)map->storages[storage].base) >> map->storages[storage].tile_shift);
  return &map->buckets[(place + (place >> 8) * 0x9e3779b1u + storage * 0x85ebca6bu) & map->bucket_mask];
}

static inline uint32_t slip__map_find(const slip__region_map_t *map, uint32_t bucket, uint32_t storage, uint64_t low, uint64_t shape) {
  uint32_t index = bucket;
  for (; index; index = map->regions[index].next) {
    const slip__region_t *region = &map->regions[index];
    if (region->low == low && region->shape == shape && region->storage == storage) break;
  }
  return index;
}

// Tables twice as large, for all regions there are.
__attribute__((noinline)) static void slip__map_grow(slip__region_map_t *map) {
  uint32_t old = map->bucket_mask;
  map->bucket_mask = old * 2 + 1;
  slip__map_clear_buckets(map);
  for (uint32_t i = 1; i < map->storage_used; ++i) {
    slip__storage_t *storage = &map->storages[i];
    if (!storage->in_use) continue;
    uint32_t *bucket = slip__map_storage_bucket(map, storage->base);
    storage->next = *bucket;
    *bucket = i;
  }
  for (uint32_t i = 1; i < map->region_used; ++i) {
    slip__region_t *region = &map->regions[i];
    if (region->low == SLIP__REGION_IS_DEAD) continue;
    uint32_t *bucket = slip__map_bucket(map, region->storage, region->low);
    region->next = *bucket;
    *bucket = i;
  }
}

// --- Access -------------------------------------------------------------------------------------------------------------------------

// True if a sweep at the capacity's end has freed a quarter. If not, the next ones would come ever sooner: better to begin anew.
static bool slip__map_has_room(const slip__region_map_t *map) {
  return map->region_count <= map->capacity - map->capacity / 4;
}

// A free region, or 0.
static uint32_t slip__map_take_region(slip__region_map_t *map, const slip__producers_t *producers) {
  if (!map->region_free && map->region_used > map->capacity) {
    slip__map_sweep(map, producers, false);
    if (!slip__map_has_room(map)) return 0;
  }
  uint32_t index = map->region_free;
  if (index) {
    map->region_free = map->regions[index].next;
    return index;
  }
  index = map->region_used++;
  if (map->region_used > map->region_high) map->region_high = map->region_used;
  return index;
}

static inline bool slip__map_is_on_grid(const slip__region_map_t *map, const slip__storage_t *storage, uint64_t low, uint64_t shape) {
  uint64_t offset = low - (uint64_t)(uintptr_t)storage->base;
  if (shape != storage->tile || (int64_t)offset < 0) return false;  // before the base, where the size is unknown: no tile begins there
  if (!(shape & SLIP__STRIDED)) return (shape & (shape - 1)) == 0 ? (offset & (shape - 1)) == 0 : offset % shape == 0;
  return slip__box_is_aligned(&map->shapes[shape & ~SLIP__STRIDED].box, (int64_t)offset);
}

// True if the region lies on the grid of the storage's tiles. The first region of a storage sets the grid.
static inline bool slip__map_fits_tiles(slip__region_map_t *map, slip__storage_t *storage, uint64_t low, uint64_t shape) {
  if (__builtin_expect(storage->count == 0 && storage->tile != shape, 0)) {
    slip__box_t run;
    const slip__box_t *box = slip__map_box(map, shape, &run);
    if (!slip__box_is_tile(box)) return false;
    storage->tile = shape;
    storage->tile_shift = 63 - (uint32_t)__builtin_clzll((uint64_t)box->run);
  }
  return slip__map_is_on_grid(map, storage, low, shape);
}

// A tile in |bucket| that is over, for the tile that comes now; 0 if there is none.
static inline uint32_t slip__map_find_over(slip__region_map_t *map, const slip__producers_t *producers, uint32_t bucket) {
  uint32_t index = bucket;
  for (; index; index = map->regions[index].next) {
    slip__region_t *region = &map->regions[index];
    if (slip__map_is_over(map, producers, region) && !map->storages[region->storage].mixed) break;
  }
  return index;
}

static void slip__map_enter(slip__region_map_t *map, uint32_t index) {
  if (++map->region_count > 2 * map->bucket_mask && map->bucket_mask + 1 < slip__map_bucket_count(map->capacity)) {
    slip__map_grow(map);
    return;
  }
  slip__region_t *region = &map->regions[index];
  uint32_t *bucket = slip__map_bucket(map, region->storage, region->low);
  region->next = *bucket;
  *bucket = index;
}

// A region of a mixed storage not met before; 0 if the map is full.
__attribute__((noinline)) static uint32_t slip__map_add_mixed(slip__region_map_t *map, const slip__producers_t *producers,
                                                              uint32_t storage_index, uint64_t low, uint64_t shape) {
  slip__storage_t *storage = &map->storages[storage_index];
  if (!storage->mixed) slip__map_make_mixed(map, storage_index);
  if (map->mixed_count >= map->sweep_at) {
    bool at_end = map->sweep_at == map->capacity;
    slip__map_sweep(map, producers, !at_end);
    if (at_end && !slip__map_has_room(map)) return 0;
  }
  uint32_t index = slip__map_take_region(map, producers);
  if (!index) return 0;
  map->regions[index] = (slip__region_t){.low = low, .shape = shape, .storage = storage_index};
  if (!slip__map_link_all(map, index)) return 0;
  ++storage->count;
  ++map->mixed_count;
  slip__map_enter(map, index);
  slip__map_add_to_list(map, index);
  return index;
}

// A region not met before; 0 if the map is full.
static inline uint32_t slip__map_add(slip__region_map_t *map, const slip__producers_t *producers, uint32_t bucket, uint32_t storage_index,
                                     uint64_t low, uint64_t shape) {
  slip__storage_t *storage = &map->storages[storage_index];
  if (__builtin_expect(storage->mixed || !slip__map_fits_tiles(map, storage, low, shape), 0)) {
    return slip__map_add_mixed(map, producers, storage_index, low, shape);
  }
  if (storage->count++ == 0) bucket = *slip__map_bucket(map, storage_index, low);  // the tile's size may have changed
  uint32_t index = slip__map_find_over(map, producers, bucket);
  if (__builtin_expect(index != 0, 1)) {  // it stays in its bucket
    slip__region_t *region = &map->regions[index];
    --map->storages[region->storage].count;
    region->low = low;
    region->shape = shape;
    region->storage = storage_index;
    region->writer = 0;
    region->readers[0] = 0;
    region->readers[1] = 0;
    return index;
  }
  index = slip__map_take_region(map, producers);
  if (!index) return 0;
  map->regions[index] = (slip__region_t){.low = low, .shape = shape, .storage = storage_index};
  slip__map_enter(map, index);
  return index;
}

static void slip__map_wait_more(const slip__region_map_t *map, slip__producers_t *producers, const slip__region_t *region,
                                bool writing_only) {
  for (uint32_t i = region->more; i; i = map->records[i].next) {
    if (!writing_only || map->records[i].writes) slip__producers_add(producers, map->records[i].value);
  }
}

static inline void slip__map_wait_writer(const slip__region_map_t *map, slip__producers_t *producers, const slip__region_t *region) {
  slip__producers_add(producers, region->writer);
  if (__builtin_expect(region->bits & SLIP__REGION_MANUAL, 0)) slip__map_wait_more(map, producers, region, true);
}

static inline void slip__map_wait_all(const slip__region_map_t *map, slip__producers_t *producers, const slip__region_t *region) {
  slip__producers_add(producers, region->writer);
  slip__producers_add(producers, region->readers[0]);
  slip__producers_add(producers, region->readers[1]);
  if (__builtin_expect(region->more != 0, 0)) slip__map_wait_more(map, producers, region, false);
}

// Readers beyond those that the region has room for, and those of manual scopes. False if there is no record left.
__attribute__((noinline)) static bool slip__map_add_more(slip__region_map_t *map, const slip__producers_t *producers,
                                                         slip__region_t *region, bool writes) {
  uint32_t newest = region->more, count = region->more_count;
  if (newest && map->records[newest].value == producers->task && map->records[newest].writes >= (uint32_t)writes) return true;
  if (count >= SLIP__MAP_PRUNE_FROM && (count & (count - 1)) == 0) slip__map_prune(map, producers, region);
  uint32_t index = slip__map_take_record(map);
  if (!index) return false;
  map->records[index] = (slip__record_t){.value = producers->task, .next = region->more, .writes = writes};
  region->more = index;
  ++region->more_count;
  if (writes) region->bits |= SLIP__REGION_MANUAL;
  return true;
}

static inline bool slip__map_add_reader(slip__region_map_t *map, const slip__producers_t *producers, slip__region_t *region) {
  slip_task_t task = producers->task;
  if (region->readers[0] == task || region->readers[1] == task) return true;
  if (!slip__producer_is_live(producers, region->readers[0])) {
    region->readers[0] = task;
  } else if (!slip__producer_is_live(producers, region->readers[1])) {
    region->readers[1] = task;
  } else {
    return slip__map_add_more(map, producers, region, false);
  }
  return true;
}

static inline void slip__map_set_writer(slip__region_map_t *map, slip__region_t *region, slip_task_t task) {
  region->writer = task;
  region->readers[0] = 0;
  region->readers[1] = 0;
  if (__builtin_expect(region->more != 0, 0)) {
    slip__map_give_list(map, &region->more);
    region->more_count = 0;
    region->bits = 0;
  }
}

__attribute__((noinline)) static void slip__map_wait_links(slip__region_map_t *map, slip__producers_t *producers, slip__region_t *region,
                                                           bool writes) {
  for (uint32_t i = region->links; i; i = map->records[i].next) {
    slip__region_t *other = &map->regions[map->records[i].value];
    if (!writes) {
      slip__map_wait_writer(map, producers, other);
      continue;
    }
    slip__map_wait_all(map, producers, other);
    // Whoever comes after this task comes after all those, too.
    if (slip__map_covers(map, region, other)) slip__map_set_writer(map, other, producers->task);
  }
}

uint64_t slip__region_map_shape(slip__region_map_t *map, const slip_ktensor_t *view, int64_t *out_low, uint64_t *out_extent) {
  slip__box_t box;
  int64_t low;
  *out_low = 0;
  *out_extent = 0;
  if (!slip__box_from_view(view, &box, &low)) return 0;
  *out_low = low - (int64_t)(uintptr_t)view->data;
  *out_extent = (uint64_t)box.extent;
  return slip__map_shape(map, &box);
}

bool slip__region_map_access(slip__region_map_t *map, slip__producers_t *producers, const slip__access_t *access, bool manual) {
  uint64_t low = access->low, shape = access->shape;
  if (__builtin_expect(shape == 0, 0)) return true;
  map->used = 1;
  uint32_t storage = slip__map_storage(map, access->storage);
  if (__builtin_expect(!storage, 0)) return false;
  uint32_t bucket = *slip__map_bucket(map, storage, low);
  uint32_t index = slip__map_find(map, bucket, storage, low, shape);
  if (!index) index = slip__map_add(map, producers, bucket, storage, low, shape);
  if (__builtin_expect(!index, 0)) return false;
  slip__region_t *region = &map->regions[index];
  if (__builtin_expect(map->storages[storage].mixed != 0, 0)) map->mixed[index].touched = map->sweeps;
  bool writes = access->writes != 0;
  if (__builtin_expect(manual, 0)) return slip__map_add_more(map, producers, region, writes);
  if (writes) {
    slip__map_wait_all(map, producers, region);
    slip__map_set_writer(map, region, producers->task);
  } else {
    slip__map_wait_writer(map, producers, region);
  }
  if (region->links) slip__map_wait_links(map, producers, region, writes);
  return writes || slip__map_add_reader(map, producers, region);
}

static inline bool slip__map_region_is_free(const slip__producers_t *producers, const slip__region_t *region, bool writes) {
  if (slip__producer_is_live(producers, region->writer)) return false;
  if (__builtin_expect(region->more != 0, 0)) return false;
  return !writes || (!slip__producer_is_live(producers, region->readers[0]) && !slip__producer_is_live(producers, region->readers[1]));
}

bool slip__region_map_is_free(const slip__region_map_t *map, const slip__producers_t *producers, const slip__access_t *access) {
  if (access->shape == 0) return true;
  uint32_t storage_index = map->last_storage;
  if (!storage_index || map->last_base != access->storage) {
    storage_index = *slip__map_storage_bucket(map, access->storage);
    while (storage_index && map->storages[storage_index].base != access->storage) storage_index = map->storages[storage_index].next;
  }
  const slip__storage_t *storage = &map->storages[storage_index];
  if (!storage_index || storage->count == 0) return true;
  uint32_t index = slip__map_find(map, *slip__map_bucket(map, storage_index, access->low), storage_index, access->low, access->shape);
  if (!index) return !storage->mixed && slip__map_is_on_grid(map, storage, access->low, access->shape);
  const slip__region_t *region = &map->regions[index];
  bool writes = access->writes != 0, free = slip__map_region_is_free(producers, region, writes);
  for (uint32_t i = region->links; free && i; i = map->records[i].next) {
    free = slip__map_region_is_free(producers, &map->regions[map->records[i].value], writes);
  }
  return free;
}

void slip__region_map_visit(slip__region_map_t *map, const void *base, const void *address, uint64_t bytes, bool is_write,
                            void (*wait)(void *user, slip_task_t task), void *user) {
  uint32_t storage = *slip__map_storage_bucket(map, base);
  while (storage && map->storages[storage].base != base) storage = map->storages[storage].next;
  if (!storage) return;
  for (uint32_t i = 1, left = map->storages[storage].count; left && i < map->region_used; ++i) {
    const slip__region_t *region = &map->regions[i];
    if (region->low == SLIP__REGION_IS_DEAD || region->storage != storage) continue;
    --left;
    if (!slip__map_shares(map, region->shape, region->low, bytes, (uint64_t)(uintptr_t)address)) continue;
    wait(user, region->writer);
    if (is_write) {
      wait(user, region->readers[0]);
      wait(user, region->readers[1]);
    }
    for (uint32_t j = region->more; j; j = map->records[j].next) {
      if (is_write || map->records[j].writes) wait(user, map->records[j].value);
    }
  }
}
