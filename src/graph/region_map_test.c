// SPDX-License-Identifier: Apache-2.0
// The dependency map by itself: random programs of accesses, compared with sets of bytes.
#include "graph/region_map.h"

#include "slip_test.h"

#define TASKS    1600
#define WORDS    (TASKS / 64)
#define SPACE    1024  // bytes of a storage
#define STORAGES 48
#define USES     3

typedef struct use_t {
  slip__access_t access;
  uint32_t storage;
  uint64_t bytes[SPACE / 64];
} use_t;
typedef struct task_t {
  slip_task_t handle;
  uint32_t ring, use_count;
  bool ended, manual;
  use_t uses[USES];
  uint64_t before[WORDS];  // tasks that must have ended before it begins
} task_t;
typedef enum kind_e { TILES, STRIDED_TILES, MIXED, MANUAL } kind_e;

typedef struct model_t {
  slip__producers_t producers;  // first
  slip__region_map_t map;
  void *memory;
  uint64_t random;
  kind_e kind;
  uint32_t storages, resets, drains;
  uint32_t count;            // tasks so far
  uint32_t rings[4][TASKS];  // tasks of each ring
  uint32_t ring_count[4], ring_retired[4];
  uint32_t found[8 * TASKS], found_count;
  int64_t tile[STORAGES];
  task_t tasks[TASKS];
} model_t;
static model_t model;

static uint32_t below(uint32_t n) {
  return (uint32_t)(slip_test_random(&model.random) % n);
}

// Any number of storages whose buckets meet, and which lie far from each other.
static uint64_t base_of(uint32_t storage) {
  return UINT64_C(0x7f0000000000) + storage * UINT64_C(0x404000) + (storage % 3) * 64;
}

static void drain(slip__producers_t *producers) {
  for (uint32_t i = 0; i < producers->count; ++i) {
    uint32_t ring = slip__task_ring(producers->list[i]);
    uint64_t sequence = slip__task_sequence(producers->list[i]);
    SLIP_CHECK(sequence >= 1 && sequence <= model.ring_count[ring]);
    SLIP_CHECK(model.found_count < sizeof(model.found) / sizeof(model.found[0]));
    model.found[model.found_count++] = model.rings[ring][sequence - 1];
  }
  model.drains += producers->count == SLIP__PRODUCERS;
  producers->count = 0;
}

static void open_model(uint32_t capacity, kind_e kind, uint32_t storages) {
  uint64_t random = model.random ? model.random : slip_test_seed();
  memset(&model, 0, sizeof(model));
  model.random = random;
  model.kind = kind;
  model.storages = storages;
  model.memory = calloc(1, (size_t)slip__region_map_bytes(capacity));
  SLIP_CHECK(model.memory != NULL);
  slip__region_map_initialize(&model.map, model.memory, capacity);
  model.producers.drain = drain;
  for (uint32_t i = 0; i < 4; ++i) model.producers.retired[i] = slip__task_pack(1, i);
  static const int64_t tiles[] = {8, 12, 16, 24, 64, 100, 7, 128};
  for (uint32_t i = 0; i < storages; ++i) model.tile[i] = tiles[below(8)];
}
static void close_model(void) {
  free(model.memory);
}

// --- Views --------------------------------------------------------------------------------------------------------------------------

static void mark(use_t *use, const slip_ktensor_t *view) {
  int64_t index[SLIP_MAX_RANK] = {0};
  for (uint32_t i = 0; i < view->rank; ++i) {
    if (view->dims[i] == 0) return;
  }
  for (;;) {
    int64_t at = (int64_t)((uint64_t)(uintptr_t)view->data - base_of(use->storage));
    for (uint32_t i = 0; i < view->rank; ++i) at += index[i] * view->strides[i];
    SLIP_CHECK(at >= 0 && at < SPACE);
    use->bytes[at / 64] |= UINT64_C(1) << at % 64;
    uint32_t d = 0;
    while (d < view->rank && ++index[d] == view->dims[d]) index[d++] = 0;
    if (d == view->rank) return;
  }
}

static slip_ktensor_t run_view(uint64_t base, int64_t offset, int64_t bytes) {
  slip_ktensor_t view = {.data = (void *)(uintptr_t)(base + (uint64_t)offset), .dtype = SLIP_DTYPE_U8, .rank = 1};
  view.dims[0] = bytes;
  view.strides[0] = 1;
  return view;
}

// A part of 16 rows of 64 bytes.
static slip_ktensor_t box_view(uint64_t base, int64_t row, int64_t rows, int64_t column, int64_t columns, bool transposed) {
  slip_ktensor_t view = {.data = (void *)(uintptr_t)(base + (uint64_t)(row * 64 + column)), .dtype = SLIP_DTYPE_U8, .rank = 2};
  view.dims[transposed] = rows;
  view.strides[transposed] = 64;
  view.dims[!transposed] = columns;
  view.strides[!transposed] = 1;
  return view;
}

static slip_ktensor_t random_view(uint32_t storage) {
  uint64_t base = base_of(storage);
  int64_t tile = model.tile[storage];
  if (model.kind == STRIDED_TILES) return box_view(base, below(4) * 4, 4, below(4) * 16, 16, below(2));
  uint32_t which = model.kind == TILES ? 0 : below(9);
  int64_t row = below(16), column = below(64);
  switch (which) {
    case 1:
      return run_view(base, below((uint32_t)(SPACE / tile) - 1) * tile + 1 + below((uint32_t)tile), tile);  // shifted
    case 2: {
      int64_t other = 4 << below(5);
      return run_view(base, below((uint32_t)(SPACE / other)) * other, other);
    }
    case 3: {  // with a halo
      int64_t at = 1 + below((uint32_t)(SPACE / tile) - 2);
      return run_view(base, at * tile - 2, tile + 4);
    }
    case 4:
      return below(4) ? run_view(base, 0, 32) : run_view(base, 0, SPACE);
    case 5:
      return box_view(base, row, 1 + below((uint32_t)(16 - row)), column, 1 + below((uint32_t)(64 - column)), below(2));
    case 6:
      return box_view(base, below(4) * 4, 4, below(4) * 16, 16, below(2));
    case 7: {  // from its last byte to its first
      slip_ktensor_t view = run_view(base, 40 + below(400), 1 + below(40));
      view.strides[0] = -1;
      return view;
    }
    case 8:
      return run_view(base, below(SPACE), below(2));  // often empty
    default:
      return run_view(base, below((uint32_t)(SPACE / tile)) * tile, tile);
  }
}

// --- The oracle ---------------------------------------------------------------------------------------------------------------------

static bool conflict(const task_t *a, const task_t *b) {
  for (uint32_t i = 0; i < a->use_count; ++i) {
    for (uint32_t j = 0; j < b->use_count; ++j) {
      const use_t *x = &a->uses[i], *y = &b->uses[j];
      if (x->storage != y->storage || !(x->access.writes | y->access.writes)) continue;
      for (uint32_t w = 0; w < SPACE / 64; ++w) {
        if (x->bytes[w] & y->bytes[w]) return true;
      }
    }
  }
  return false;
}

static void end_task(uint32_t index) {
  task_t *task = &model.tasks[index];
  for (uint32_t w = 0; w < WORDS; ++w) {
    for (uint64_t bits = task->before[w]; bits; bits &= bits - 1) model.tasks[w * 64 + (uint32_t)__builtin_ctzll(bits)].ended = true;
  }
  task->ended = true;
}
static void retire(uint32_t ring) {
  uint32_t *retired = &model.ring_retired[ring];
  while (*retired < model.ring_count[ring] && model.tasks[model.rings[ring][*retired]].ended) ++*retired;
  model.producers.retired[ring] = slip__task_pack(*retired + 1, ring);
}

static bool access_all(task_t *task) {
  for (uint32_t i = 0; i < task->use_count; ++i) {
    const slip__access_t *access = &task->uses[i].access;
    bool is_free = slip__region_map_is_free(&model.map, &model.producers, access);
    uint32_t before = model.found_count + model.producers.count, drains = model.drains;
    if (!slip__region_map_access(&model.map, &model.producers, access, task->manual)) return false;
    if (is_free && !task->manual) SLIP_CHECK(drains == model.drains && model.found_count + model.producers.count == before);
  }
  drain(&model.producers);
  return true;
}

// What the engine does when the map is full.
static void access_anew(task_t *task) {
  ++model.resets;
  for (uint32_t i = 0; i < model.count; ++i) end_task(i);
  for (uint32_t i = 0; i < 4; ++i) retire(i);
  slip__region_map_reset(&model.map);
  model.found_count = 0;
  model.producers.count = 0;
  SLIP_CHECK(access_all(task));
  SLIP_CHECK_EQ(model.found_count, 0);
}

static void step(bool may_run_alone) {
  uint32_t index = model.count;
  task_t *task = &model.tasks[index];
  task->ring = below(8) ? 0 : below(4);
  task->manual = model.kind == MANUAL && below(3) == 0;
  task->use_count = 1 + below(USES);
  for (uint32_t i = 0; i < task->use_count; ++i) {
    use_t *use = &task->uses[i];
    use->storage = below(4) ? below(model.storages) : below(model.storages < 3 ? model.storages : 3);
    slip_ktensor_t view = random_view(use->storage);
    int64_t low;
    uint64_t extent;
    use->access.shape = slip__region_map_shape(&model.map, &view, &low, &extent);
    use->access.storage = (const void *)(uintptr_t)base_of(use->storage);
    use->access.low = (uint64_t)(uintptr_t)view.data + (uint64_t)low;
    use->access.writes = below(2);
    mark(use, &view);
  }
  bool alone = may_run_alone && !task->manual;
  for (uint32_t i = 0; alone && i < task->use_count; ++i) {
    alone = slip__region_map_is_free(&model.map, &model.producers, &task->uses[i].access);
  }
  model.found_count = 0;
  task->handle = slip__task_pack(model.ring_count[task->ring] + 1, task->ring);
  model.producers.task = task->handle;
  if (!alone && !access_all(task)) access_anew(task);
  for (uint32_t i = 0; i < model.found_count; ++i) {
    uint32_t found = model.found[i];
    const task_t *other = &model.tasks[found];
    SLIP_CHECK(found < index);
    SLIP_CHECK(conflict(task, other));  // nothing is waited for that need not be
    for (uint32_t w = 0; w < WORDS; ++w) task->before[w] |= other->before[w];
    task->before[found / 64] |= UINT64_C(1) << found % 64;
  }
  for (uint32_t i = 0; i < index && !task->manual; ++i) {
    const task_t *other = &model.tasks[i];
    if (other->ended || (task->before[i / 64] >> i % 64 & 1)) continue;
    if (conflict(task, other)) slip_test_fail(__FILE__, __LINE__, "task %u does not wait for task %u%s", index, i, alone ? " (alone)" : "");
  }
  model.rings[task->ring][model.ring_count[task->ring]++] = index;
  ++model.count;
  if (alone) task->ended = true;
}

// |live|: how many tasks are in flight, about.
static void program(uint32_t capacity, kind_e kind, uint32_t storages, uint32_t tasks, uint32_t live, bool alone) {
  open_model(capacity, kind, storages);
  uint32_t oldest = 0;
  while (model.count < tasks) {
    step(alone && below(2));
    while (oldest + live < model.count) end_task(oldest++);
    if (below(4) == 0) end_task(below(model.count));
    if (live < tasks) retire(below(4));
    if (below(400) == 0) {  // a run ends
      for (uint32_t i = 0; i < model.count; ++i) model.tasks[i].ended = true;
      for (uint32_t i = 0; i < 4; ++i) retire(i);
      if (below(2)) {
        if (below(2)) model.map.cell_generation = UINT32_MAX - below(2);  // a wrap is near
        slip__region_map_reset(&model.map);
      }
      for (uint32_t i = 0; i < storages; ++i) model.tile[i] = 4 << below(5);
    }
  }
  close_model();
}

SLIP_TEST(every_conflict_among_tiles_is_ordered_and_nothing_else) {
  for (int i = 0; i < 12; ++i) {
    program(16 + below(600), i % 2 ? TILES : STRIDED_TILES, 1 + below(STORAGES), 800, 1 + below(300), i % 3 == 0);
  }
}
SLIP_TEST(every_conflict_of_mixed_shapes_is_ordered_and_nothing_else) {
  for (int i = 0; i < 12; ++i) program(24 + below(i % 2 ? 60 : 2000), MIXED, 1 + below(8), 800, 1 + below(200), i % 3 == 0);
}
SLIP_TEST(tasks_of_manual_scopes_are_waited_for) {
  for (int i = 0; i < 8; ++i) program(24 + below(i % 2 ? 60 : 2000), MANUAL, 1 + below(6), 600, 1 + below(200), i % 2 == 0);
}
SLIP_TEST(tables_grow_while_hundreds_of_regions_are_live) {
  bool grown = false;  // not if the runs happen to be short
  for (int i = 0; i < 50 && !grown; ++i) {
    program(4096, TILES, STORAGES, TASKS, TASKS, false);
    SLIP_CHECK_EQ(model.resets, 0);
    grown = model.map.bucket_mask + 1 > 256;
  }
  SLIP_CHECK(grown);
}

// --- Large maps ---------------------------------------------------------------------------------------------------------------------

static void note(slip__producers_t *producers) {
  producers->count = 0;
  ++model.drains;
}
static void open_large(uint32_t capacity) {
  open_model(capacity, TILES, 1);
  model.producers.drain = note;
}
static bool touch(uint64_t task, uint64_t low, uint64_t bytes, bool writes) {
  slip__access_t access = {(const void *)(uintptr_t)base_of(0), low, bytes, writes, 0};
  model.producers.task = slip__task_pack(task, 0);
  model.producers.count = 0;
  return slip__region_map_access(&model.map, &model.producers, &access, false);
}
static bool waits_for(uint64_t task) {
  bool found = false;
  for (uint32_t i = 0; i < model.producers.count; ++i) found |= model.producers.list[i] == slip__task_pack(task, 0);
  return found;
}

// Tiles of which all are live, then one that straddles two: more than the grid's first table is made for.
SLIP_TEST(a_storage_of_many_live_tiles_becomes_mixed) {
  static const uint32_t capacities[] = {6000, 20000, 300000};
  for (uint32_t c = 0; c < 3; ++c) {
    uint32_t tiles = capacities[c] < 30000 ? capacities[c] / 3 * 2 : 40000, others = tiles / 8;
    uint64_t base = base_of(0);
    open_large(capacities[c]);
    for (uint64_t i = 0; i < tiles; ++i) {
      SLIP_CHECK(touch(i + 1, base + i * 8, 8, true));
      SLIP_CHECK_EQ(model.producers.count, 0);
    }
    for (uint64_t i = 0; i < others; ++i) {
      SLIP_CHECK(touch(tiles + i + 1, base + i * 16 + 4, 8, i % 2));
      SLIP_CHECK(waits_for(2 * i + 1) && waits_for(2 * i + 2));
      SLIP_CHECK_EQ(model.producers.count, 2);
    }
    // Half are over: a sweep finds room, and the others are still known.
    model.producers.retired[0] = slip__task_pack(tiles / 2 + 1, 0);
    for (uint64_t i = 0; i < others; ++i) {
      SLIP_CHECK(touch(tiles + others + i + 1, base + (tiles + i) * 8 + 2, 8, true));
      SLIP_CHECK_EQ(model.producers.count, 0);
    }
    SLIP_CHECK(touch(tiles + 2 * others + 1, base, tiles * 8, true));
    SLIP_CHECK_EQ(model.drains * SLIP__PRODUCERS + model.producers.count >= tiles / 2, 1);
    close_model();
  }
}

// With a tile whose size is no power of two, addresses before the base are no multiples of it counted from 2^64.
SLIP_TEST(views_before_the_base_of_a_storage_are_not_tiles_of_its_grid) {
  for (uint64_t tile = 2; tile < 40; ++tile) {
    for (uint64_t before = 1; before < tile; ++before) {
      open_large(64);
      SLIP_CHECK(touch(1, base_of(0), tile, true));
      slip__access_t access = {(const void *)(uintptr_t)base_of(0), base_of(0) - before, tile, 1, 0};
      model.producers.task = slip__task_pack(2, 0);
      SLIP_CHECK(!slip__region_map_is_free(&model.map, &model.producers, &access));
      SLIP_CHECK(touch(2, base_of(0) - before, tile, true));
      SLIP_CHECK(waits_for(1));
      close_model();
    }
  }
}

SLIP_TEST(strided_shapes_beyond_the_tables_room_are_ordered_by_their_extent) {
  open_large(300);
  for (int64_t i = 0; i < 5000; ++i) {
    slip_ktensor_t view = {.data = (void *)(uintptr_t)base_of(0), .dtype = SLIP_DTYPE_U8, .rank = 2};
    view.dims[0] = 2 + i % 70;
    view.strides[0] = 3 + i / 70;
    view.dims[1] = 2;
    view.strides[1] = 1;
    int64_t low;
    uint64_t extent, shape = slip__region_map_shape(&model.map, &view, &low, &extent);
    SLIP_CHECK(shape != 0 && low == 0);
    SLIP_CHECK_EQ(extent, (1 + i % 70) * (3 + i / 70) + 2);
    if (!touch((uint64_t)i + 1, base_of(0), shape, true)) {
      model.producers.retired[0] = slip__task_pack((uint64_t)i + 1, 0);
      slip__region_map_reset(&model.map);
      SLIP_CHECK(touch((uint64_t)i + 1, base_of(0), shape, true));
    } else if (i) {
      SLIP_CHECK(waits_for((uint64_t)i) || model.drains);
    }
  }
  close_model();
}

SLIP_TEST(many_readers_of_one_region_are_all_waited_for) {
  open_large(4096);
  SLIP_CHECK(touch(1, base_of(0), 64, true));
  for (uint64_t i = 2; i <= 1000; ++i) {
    SLIP_CHECK(touch(i, base_of(0), 64, false));
    SLIP_CHECK_EQ(model.producers.count, 1);
  }
  SLIP_CHECK(touch(1001, base_of(0), 64, true));
  SLIP_CHECK_EQ(model.drains * SLIP__PRODUCERS + model.producers.count, 1000);
  close_model();
}

SLIP_TEST(storages_are_found_in_few_steps_however_far_apart_they_lie) {
  static const uint32_t shifts[] = {6, 12, 16, 20, 24, 44};
  for (uint32_t s = 0; s < sizeof(shifts) / sizeof(shifts[0]); ++s) {
    uint32_t longest = 0;
    open_large(16384);
    for (uint64_t i = 1; i <= 8192; ++i) {
      slip__access_t access = {(const void *)(uintptr_t)(i << shifts[s]), i << shifts[s], 64, 1, 0};
      model.producers.task = slip__task_pack(i, 0);
      SLIP_CHECK(slip__region_map_access(&model.map, &model.producers, &access, false));
    }
    for (uint32_t b = 0; b <= model.map.bucket_mask; ++b) {
      uint32_t length = 0;
      for (uint32_t i = model.map.storage_buckets[b]; i; i = model.map.storages[i].next) ++length;
      if (length > longest) longest = length;
    }
    SLIP_CHECK(longest <= 32);
    close_model();
  }
}
