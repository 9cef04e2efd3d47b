// SPDX-License-Identifier: Apache-2.0
// The region map of the submit path, given names instead of addresses and told that no task ever retires.
#include "graph/recorded/infer.h"

#include "base/allocator.h"
#include "graph/region_map.h"
#include "os/memory.h"

#define SLIP__INFER_STORAGE_SHIFT 44  // each storage has that many bits of addresses of its own

struct slip__infer_t {
  slip__producers_t producers;  // first: its drain gets all of this by its address
  slip_allocator_t allocator;
  slip__builder_t *builder;
  bool full;  // a dependency did not fit the builder
  void *memory;
  uint64_t bytes;
  slip__region_map_t map;
};

// Handles are those of ring 0: node + 1, which is what the map is told of the task, too.
static void slip__infer_drain(slip__producers_t *producers) {
  slip__infer_t *infer = (slip__infer_t *)producers;
  for (uint32_t i = 0; i < producers->count; ++i) {
    uint32_t producer = (uint32_t)slip__task_sequence(producers->list[i]) - 1;
    if (!slip__builder_depend(infer->builder, producer)) infer->full = true;
  }
  producers->count = 0;
}

slip_status_t slip__infer_create(slip_allocator_t allocator, uint32_t region_count, slip__infer_t **out) {
  void *memory;
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, sizeof(slip__infer_t), &memory));
  slip__infer_t *infer = memory;
  infer->allocator = allocator;
  infer->bytes = slip__region_map_bytes(region_count);
  slip_status_t status = slip__memory_reserve((size_t)infer->bytes, &infer->memory);
  if (!slip_status_is_ok(status)) {
    slip__free(allocator, infer, sizeof(*infer));
    return status;
  }
  slip__region_map_initialize(&infer->map, infer->memory, region_count);
  infer->producers.drain = slip__infer_drain;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) infer->producers.retired[i] = 1;  // all tasks live
  *out = infer;
  return status;
}

void slip__infer_destroy(slip__infer_t *infer) {
  if (!infer) return;
  slip__memory_release(infer->memory, (size_t)infer->bytes);
  slip__free(infer->allocator, infer, sizeof(*infer));
}

bool slip__infer_access(slip__infer_t *infer, slip__builder_t *builder, uint32_t node, uint32_t storage, const slip_ktensor_t *view,
                        bool writes, bool manual) {
  uintptr_t base = (uintptr_t)(storage + 1) << SLIP__INFER_STORAGE_SHIFT, offset = (uintptr_t)view->data;
  if (offset >> SLIP__INFER_STORAGE_SHIFT != 0) return false;  // no storage is so large: a view that lies before its storage
  slip_ktensor_t named = *view;
  named.data = (void *)(base + offset);
  int64_t low;
  uint64_t extent, shape = slip__region_map_shape(&infer->map, &named, &low, &extent);
  slip__access_t access = {.storage = (const void *)base, .low = base + offset + (uint64_t)low, .shape = shape, .writes = writes};
  infer->builder = builder;
  infer->producers.task = slip__task_pack((uint64_t)node + 1, 0);
  bool noted = slip__region_map_access(&infer->map, &infer->producers, &access, manual);
  slip__infer_drain(&infer->producers);
  return noted && !infer->full;
}
