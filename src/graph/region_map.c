// SPDX-License-Identifier: Apache-2.0
#include "graph/region_map.h"

#include <string.h>

#include "graph/link.h"

#define SLIP__MAP_FIRST_SWEEP   128u
#define SLIP__MAP_READERS_FIRST 8u

// --- Memory -------------------------------------------------------------------------------------------------------------------------

static uint64_t slip__map_power_of_two(uint64_t at_least) {
  uint64_t size = 1;
  while (size < at_least) size *= 2;
  return size;
}

// Sizes that follow from the capacity: (regions), records, cells, and the three tables at a quarter full or less (cells: half).
static uint64_t slip__map_records(uint64_t capacity) {
  return 2 * capacity + 1;
}
static uint64_t slip__map_cells(uint64_t capacity) {
  return SLIP__GRID_CELLS * capacity + 1;
}
static uint64_t slip__map_table(uint64_t regions) {
  return slip__map_power_of_two(4 * regions);
}
static uint64_t slip__map_cell_table(uint64_t regions) {
  return slip__map_power_of_two(2 * SLIP__GRID_CELLS * regions);
}

uint64_t slip__region_map_bytes(uint64_t capacity) {
  if (capacity > UINT32_MAX / 16) return 0;
  return (capacity + 1) * (sizeof(slip__region_t) + sizeof(slip__storage_t)) + slip__map_records(capacity) * sizeof(slip__record_t) +
         slip__map_cells(capacity) * sizeof(slip__cell_t) +
         (2 * slip__map_table(capacity) + slip__map_cell_table(capacity)) * sizeof(slip__table_entry_t) + 7 * 4096;
}

static void *slip__map_carve(char **inout_memory, uint64_t bytes) {
  void *memory = *inout_memory;
  *inout_memory += (bytes + 4095) & ~(uint64_t)4095;
  return memory;
}

// Tables as large as |sweep_at| regions need, and no larger, so that a small map touches little memory.
static void slip__map_size_tables(slip__region_map_t *map, uint32_t sweep_at) {
  map->sweep_at = sweep_at < map->capacity ? sweep_at : map->capacity;
  map->region_table.mask = (uint32_t)slip__map_table(map->sweep_at) - 1;
  map->storage_table.mask = map->region_table.mask;
  map->cell_table.mask = (uint32_t)slip__map_cell_table(map->sweep_at) - 1;
}

void slip__region_map_initialize(slip__region_map_t *map, void *memory, uint32_t capacity) {
  char *at = memory;
  map->capacity = capacity;
  map->record_capacity = (uint32_t)slip__map_records(capacity);
  map->regions = slip__map_carve(&at, ((uint64_t)capacity + 1) * sizeof(slip__region_t));
  map->storages = slip__map_carve(&at, ((uint64_t)capacity + 1) * sizeof(slip__storage_t));
  map->records = slip__map_carve(&at, map->record_capacity * sizeof(slip__record_t));
  map->cells = slip__map_carve(&at, slip__map_cells(capacity) * sizeof(slip__cell_t));
  map->region_table.entries = slip__map_carve(&at, slip__map_table(capacity) * sizeof(slip__table_entry_t));
  map->storage_table.entries = slip__map_carve(&at, slip__map_table(capacity) * sizeof(slip__table_entry_t));
  map->cell_table.entries = slip__map_carve(&at, slip__map_cell_table(capacity) * sizeof(slip__table_entry_t));
  map->record_sweep_at = map->record_capacity;
  slip__map_size_tables(map, SLIP__MAP_FIRST_SWEEP);
  slip__region_map_reset(map);
}

// The tables' entries, and the storages and cells they lead to, are gone.
static void slip__map_clear_tables(slip__region_map_t *map) {
  if (++map->generation == 0) {
    size_t entries = (size_t)slip__map_table(map->capacity), cells = (size_t)slip__map_cell_table(map->capacity);
    memset(map->region_table.entries, 0, entries * sizeof(slip__table_entry_t));
    memset(map->storage_table.entries, 0, entries * sizeof(slip__table_entry_t));
    memset(map->cell_table.entries, 0, cells * sizeof(slip__table_entry_t));
    map->generation = 1;
  }
  map->storage_used = 1;
  map->cell_used = 1;
  map->last_base = NULL;
  map->last_storage = 0;
}

void slip__region_map_reset(slip__region_map_t *map) {
  slip__map_clear_tables(map);
  map->region_used = 1;
  map->record_used = 1;
  map->record_free = 0;
  map->record_live = 0;
}

uint64_t slip__region_map_committed_bytes(const slip__region_map_t *map) {
  uint64_t bytes = map->region_high * (sizeof(slip__region_t) + sizeof(slip__storage_t)) + map->record_high * sizeof(slip__record_t) +
                   map->cell_high * sizeof(slip__cell_t) +
                   (2 * (uint64_t)map->region_table.mask + map->cell_table.mask + 3) * sizeof(slip__table_entry_t);
  return (bytes + 4095) & ~(uint64_t)4095;
}

static uint64_t slip__map_mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
  return x ^ (x >> 29);
}

// The entry that holds |key|, or the free one where it would lie. Keys of the region table are hashes and may be equal for different
// regions.
static slip__table_entry_t *slip__map_probe(const slip__region_map_t *map, const slip__table_t *table, uint64_t key) {
  uint32_t at = (uint32_t)(slip__map_mix(key, 0) >> 32) & table->mask;
  while (table->entries[at].generation == map->generation && table->entries[at].key != key) at = (at + 1) & table->mask;
  return &table->entries[at];
}

// 0 if there is none left.
static uint32_t slip__map_take_record(slip__region_map_t *map) {
  uint32_t index = map->record_free;
  if (index) {
    map->record_free = map->records[index].next;
  } else {
    if (map->record_used == map->record_capacity) return 0;
    index = map->record_used++;
    if (map->record_used > map->record_high) map->record_high = map->record_used;
  }
  ++map->record_live;
  return index;
}

static void slip__map_give_record(slip__region_map_t *map, uint32_t index) {
  map->records[index].next = map->record_free;
  map->record_free = index;
  --map->record_live;
}

static void slip__map_give_list(slip__region_map_t *map, uint32_t *inout_list) {
  for (uint32_t index = *inout_list; index;) {
    uint32_t next = map->records[index].next;
    slip__map_give_record(map, index);
    index = next;
  }
  *inout_list = 0;
}

// --- Storages and their grid --------------------------------------------------------------------------------------------------------

static uint32_t slip__map_storage(slip__region_map_t *map, const void *base) {
  if (map->last_storage && map->last_base == base) return map->last_storage;
  uint64_t key = (uint64_t)(uintptr_t)base;
  slip__table_entry_t *entry = slip__map_probe(map, &map->storage_table, key);
  if (entry->generation != map->generation) {
    entry->generation = map->generation;
    entry->key = key;
    entry->value = map->storage_used++;
    map->storages[entry->value] = (slip__storage_t){.base = base};
  }
  map->last_base = base;
  map->last_storage = entry->value;
  return entry->value;
}

static uint64_t slip__map_cell_key(uint32_t storage, int64_t cell) {
  return ((uint64_t)storage << 40) ^ ((uint64_t)cell * 4 + 1);
}

static void slip__map_add_cell(slip__region_map_t *map, uint32_t *list, uint32_t region) {
  uint32_t index = map->cell_used++;
  if (map->cell_used > map->cell_high) map->cell_high = map->cell_used;
  map->cells[index] = (slip__cell_t){.region = region, .next = *list};
  *list = index;
}

static bool slip__map_is_wide(const slip__storage_t *storage, const slip__box_t *box) {
  return ((box->high - 1) >> storage->shift) - (box->low >> storage->shift) >= SLIP__GRID_CELLS;
}

static void slip__map_add_to_grid(slip__region_map_t *map, uint32_t storage_index, uint32_t region) {
  slip__storage_t *storage = &map->storages[storage_index];
  const slip__box_t *box = &map->regions[region].box;
  if (slip__map_is_wide(storage, box)) {
    slip__map_add_cell(map, &storage->wide, region);
    return;
  }
  for (int64_t cell = box->low >> storage->shift; cell <= (box->high - 1) >> storage->shift; ++cell) {
    uint64_t key = slip__map_cell_key(storage_index, cell);
    slip__table_entry_t *entry = slip__map_probe(map, &map->cell_table, key);
    if (entry->generation != map->generation) {
      entry->generation = map->generation;
      entry->key = key;
      entry->value = 0;
    }
    slip__map_add_cell(map, &entry->value, region);
  }
}

// Adds |region| to its storage's list and, from SLIP__GRID_FROM on, grid. The size of a cell follows the region that starts the grid:
// mostly the others are about as large.
static void slip__map_add_to_storage(slip__region_map_t *map, uint32_t region) {
  slip__region_t *added = &map->regions[region];
  slip__storage_t *storage = &map->storages[added->storage];
  added->next = storage->regions;
  storage->regions = region;
  ++storage->count;
  if (storage->shift) {
    slip__map_add_to_grid(map, added->storage, region);
  } else if (storage->count > SLIP__GRID_FROM) {
    uint64_t span = (uint64_t)(added->box.high - added->box.low);
    storage->shift = span <= 8 ? 3 : 64 - (uint32_t)__builtin_clzll(span - 1);
    for (uint32_t i = storage->regions; i; i = map->regions[i].next) slip__map_add_to_grid(map, added->storage, i);
  }
}

// --- Sweep --------------------------------------------------------------------------------------------------------------------------

// Drops readers that have retired. True if one is left.
static bool slip__map_prune_readers(slip__region_map_t *map, slip__workspace_t *workspace, slip__region_t *region) {
  uint32_t *link = &region->readers, live = 0;
  while (*link) {
    uint32_t index = *link;
    if (slip__task_is_live(workspace, map->records[index].value)) {
      link = &map->records[index].next;
      ++live;
      continue;
    }
    *link = map->records[index].next;
    slip__map_give_record(map, index);
  }
  region->reader_count = live;
  region->reader_limit = live * 2 < SLIP__MAP_READERS_FIRST ? SLIP__MAP_READERS_FIRST : live * 2;
  if (live == 0) region->manual = 0;
  return live != 0;
}

static void slip__map_sweep_links(slip__region_map_t *map, slip__region_t *region) {
  uint32_t *link = &region->links;
  while (*link) {
    uint32_t index = *link;
    uint32_t forward = map->regions[map->records[index].value].forward;
    if (forward) {
      map->records[index].value = forward;
      link = &map->records[index].next;
      continue;
    }
    *link = map->records[index].next;
    slip__map_give_record(map, index);
  }
}

static void slip__map_enter(slip__region_map_t *map, uint32_t index) {
  // Equal hashes of different regions lie one after the other: the free entry is looked for past them.
  slip__region_t *region = &map->regions[index];
  uint32_t at = (uint32_t)(slip__map_mix(region->hash, 0) >> 32) & map->region_table.mask;
  while (map->region_table.entries[at].generation == map->generation) at = (at + 1) & map->region_table.mask;
  map->region_table.entries[at] = (slip__table_entry_t){.key = region->hash, .generation = map->generation, .value = index};
}

// Drops all regions whose tasks have retired, and moves the others together.
__attribute__((noinline)) static void slip__map_sweep(slip__region_map_t *map, slip__workspace_t *workspace) {
  uint32_t live = 1;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) slip__ring_retire(&workspace->rings[i], &workspace->ran);
  for (uint32_t i = 1; i < map->region_used; ++i) {
    slip__region_t *region = &map->regions[i];
    bool read = slip__map_prune_readers(map, workspace, region);
    if (region->writer && !slip__task_is_live(workspace, region->writer)) region->writer = 0;
    region->forward = read || region->writer ? live++ : 0;
  }
  for (uint32_t i = 1; i < map->region_used; ++i) {
    if (map->regions[i].forward) {
      slip__map_sweep_links(map, &map->regions[i]);
    } else {
      slip__map_give_list(map, &map->regions[i].links);
    }
  }
  uint32_t used = map->region_used;
  for (uint32_t i = 1; i < used; ++i) {
    slip__region_t *region = &map->regions[i];
    if (region->forward && region->forward != i) map->regions[region->forward] = *region;
  }
  map->region_used = live;
  slip__map_clear_tables(map);
  if (live > map->sweep_at / 2) slip__map_size_tables(map, map->sweep_at * 2);
  if (live < map->sweep_at / 8 && map->sweep_at > SLIP__MAP_FIRST_SWEEP) slip__map_size_tables(map, map->sweep_at / 2);
  for (uint32_t i = 1; i < live; ++i) {
    slip__region_t *region = &map->regions[i];
    region->storage = slip__map_storage(map, region->base);
    slip__map_enter(map, i);
    slip__map_add_to_storage(map, i);
  }
  uint64_t records = 2 * (uint64_t)map->record_live + 256;
  map->record_sweep_at = records < map->record_capacity ? (uint32_t)records : map->record_capacity;
}

// --- Access -------------------------------------------------------------------------------------------------------------------------

// False for an empty view: it touches nothing.
static bool slip__map_hash(const slip__access_t *access, uint64_t *out_hash) {
  const slip_ktensor_t *view = access->view;
  uint64_t hash = slip__map_mix((uint64_t)(uintptr_t)view->data, (uint64_t)(uintptr_t)access->storage);
  hash = slip__map_mix(hash, (uint64_t)slip_dtype_carrier_bytes(view->dtype) << 8 | view->rank);
  for (uint32_t i = 0; i < view->rank; ++i) {
    if (view->dims[i] == 0) return false;
    hash = slip__map_mix(hash, (uint64_t)view->dims[i] ^ (uint64_t)view->strides[i] << 32);
  }
  *out_hash = hash;
  return true;
}

static bool slip__map_is_region(const slip__region_t *region, const slip__access_t *access, uint64_t hash) {
  const slip_ktensor_t *view = access->view;
  if (region->hash != hash || region->view.data != view->data || region->base != access->storage || region->view.rank != view->rank ||
      region->element_bytes != (uint32_t)slip_dtype_carrier_bytes(view->dtype)) {
    return false;
  }
  for (uint32_t i = 0; i < view->rank; ++i) {
    if (region->view.dims[i] != view->dims[i] || region->view.strides[i] != view->strides[i]) return false;
  }
  return true;
}

static uint32_t slip__map_find(const slip__region_map_t *map, const slip__access_t *access, uint64_t hash) {
  const slip__table_t *table = &map->region_table;
  uint32_t at = (uint32_t)(slip__map_mix(hash, 0) >> 32) & table->mask;
  for (; table->entries[at].generation == map->generation; at = (at + 1) & table->mask) {
    if (table->entries[at].key == hash && slip__map_is_region(&map->regions[table->entries[at].value], access, hash))
      return table->entries[at].value;
  }
  return 0;
}

// Notes in both regions that they share bytes, if they do. False if there is no record left.
static bool slip__map_link(slip__region_map_t *map, uint32_t added, uint32_t other) {
  slip__region_t *a = &map->regions[added], *b = &map->regions[other];
  if (b->mark == map->stamp) return true;
  b->mark = map->stamp;
  if (!slip__box_overlaps(&a->box, &b->box)) return true;
  uint32_t in_a = slip__map_take_record(map), in_b = in_a ? slip__map_take_record(map) : 0;
  if (!in_b) return false;
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

// Compares a new region with those of its storage that may share bytes with it.
static bool slip__map_link_all(slip__region_map_t *map, uint32_t added) {
  const slip__region_t *region = &map->regions[added];
  const slip__storage_t *storage = &map->storages[region->storage];
  if (!storage->shift || slip__map_is_wide(storage, &region->box)) {
    for (uint32_t i = storage->regions; i; i = map->regions[i].next) {
      if (!slip__map_link(map, added, i)) return false;
    }
    return true;
  }
  for (int64_t cell = region->box.low >> storage->shift; cell <= (region->box.high - 1) >> storage->shift; ++cell) {
    const slip__table_entry_t *entry = slip__map_probe(map, &map->cell_table, slip__map_cell_key(region->storage, cell));
    if (entry->generation == map->generation && !slip__map_link_cells(map, added, entry->value)) return false;
  }
  return slip__map_link_cells(map, added, storage->wide);
}

// A region not met before; 0 if the map is full.
static uint32_t slip__map_add(slip__region_map_t *map, slip__workspace_t *workspace, const slip__access_t *access, uint64_t hash) {
  if (map->region_used > map->sweep_at) {
    slip__map_sweep(map, workspace);
    // At the capacity's end a sweep must free a quarter, or the next ones would come ever sooner: better to begin anew.
    if (map->sweep_at == map->capacity && map->region_used > map->capacity - map->capacity / 4) return 0;
  }
  uint32_t index = map->region_used++;
  if (map->region_used > map->region_high) map->region_high = map->region_used;
  slip__region_t *region = &map->regions[index];
  region->hash = hash;
  region->writer = 0;
  region->readers = 0;
  region->reader_count = 0;
  region->reader_limit = SLIP__MAP_READERS_FIRST;
  region->links = 0;
  region->manual = 0;
  region->element_bytes = (uint32_t)slip_dtype_carrier_bytes(access->view->dtype);
  region->base = access->storage;
  region->view = *access->view;
  (void)slip__box_from_view(access->view, &region->box);
  region->storage = slip__map_storage(map, access->storage);
  if (++map->stamp == 0) {  // a mark of four thousand million queries ago could be taken for this one's
    for (uint32_t i = 1; i < map->region_used; ++i) map->regions[i].mark = 0;
    map->stamp = 1;
  }
  region->mark = map->stamp;
  if (!slip__map_link_all(map, index)) return 0;
  slip__map_enter(map, index);
  slip__map_add_to_storage(map, index);
  return index;
}

static void slip__map_wait_readers(const slip__region_map_t *map, slip__linker_t *linker, const slip__region_t *region, bool writing_only) {
  for (uint32_t i = region->readers; i; i = map->records[i].next) {
    if (!writing_only || map->records[i].writes) slip__linker_add(linker, map->records[i].value);
  }
}

static bool slip__map_add_reader(slip__region_map_t *map, slip__linker_t *linker, slip__region_t *region, bool writes) {
  uint32_t newest = region->readers;
  if (newest && map->records[newest].value == linker->task && map->records[newest].writes >= (uint32_t)writes) return true;
  if (region->reader_count >= region->reader_limit) (void)slip__map_prune_readers(map, linker->workspace, region);
  uint32_t index = slip__map_take_record(map);
  if (!index) return false;
  map->records[index] = (slip__record_t){.value = linker->task, .next = region->readers, .writes = writes};
  region->readers = index;
  ++region->reader_count;
  if (writes) region->manual = 1;
  return true;
}

static void slip__map_set_writer(slip__region_map_t *map, slip__region_t *region, slip_task_t task) {
  slip__map_give_list(map, &region->readers);
  region->reader_count = 0;
  region->manual = 0;
  region->writer = task;
}

static bool slip__map_read(slip__region_map_t *map, slip__linker_t *linker, slip__region_t *region) {
  slip__linker_add(linker, region->writer);
  if (region->manual) slip__map_wait_readers(map, linker, region, true);
  for (uint32_t i = region->links; i; i = map->records[i].next) {
    const slip__region_t *other = &map->regions[map->records[i].value];
    slip__linker_add(linker, other->writer);
    if (other->manual) slip__map_wait_readers(map, linker, other, true);
  }
  return slip__map_add_reader(map, linker, region, false);
}

static void slip__map_write(slip__region_map_t *map, slip__linker_t *linker, slip__region_t *region) {
  slip__linker_add(linker, region->writer);
  slip__map_wait_readers(map, linker, region, false);
  slip__map_set_writer(map, region, linker->task);
  for (uint32_t i = region->links; i; i = map->records[i].next) {
    slip__region_t *other = &map->regions[map->records[i].value];
    slip__linker_add(linker, other->writer);
    slip__map_wait_readers(map, linker, other, false);
    // Whoever comes after this task comes after all those, too.
    if (slip__box_covers(&region->box, &other->box)) slip__map_set_writer(map, other, linker->task);
  }
}

bool slip__region_map_access(slip__region_map_t *map, slip__linker_t *linker, const slip__access_t *access, bool manual) {
  uint64_t hash;
  if (!slip__map_hash(access, &hash)) return true;
  if (__builtin_expect(map->record_live > map->record_sweep_at, 0)) slip__map_sweep(map, linker->workspace);
  uint32_t index = slip__map_find(map, access, hash);
  if (!index) index = slip__map_add(map, linker->workspace, access, hash);
  if (!index) return false;
  slip__region_t *region = &map->regions[index];
  bool writes = access->access != SLIP_ACCESS_IN;
  if (__builtin_expect(manual, 0)) return slip__map_add_reader(map, linker, region, writes);
  if (!writes) return slip__map_read(map, linker, region);
  slip__map_write(map, linker, region);
  return true;
}

void slip__region_map_visit(slip__region_map_t *map, const void *base, const slip__box_t *box, bool is_write,
                            void (*wait)(void *user, slip_task_t task), void *user) {
  slip__table_entry_t *entry = slip__map_probe(map, &map->storage_table, (uint64_t)(uintptr_t)base);
  if (entry->generation != map->generation) return;
  for (uint32_t i = map->storages[entry->value].regions; i; i = map->regions[i].next) {
    const slip__region_t *region = &map->regions[i];
    if (!slip__box_overlaps(&region->box, box)) continue;
    if (region->writer) wait(user, region->writer);
    for (uint32_t j = region->readers; j; j = map->records[j].next) {
      if (is_write || map->records[j].writes) wait(user, map->records[j].value);
    }
  }
}
