// SPDX-License-Identifier: Apache-2.0
// Life of a workspace: one reservation of address space holds everything, so that addresses are stable and memory is used only where it is
// touched.
#include "graph/workspace.h"

#include <inttypes.h>

#include "base/checked.h"
#include "graph/link.h"
#include "graph/orch.h"
#include "graph/recorded/begin.h"
#include "graph/recorded/cache.h"
#include "graph/schedule.h"
#include "os/memory.h"

// Adds |count| * |size| bytes, cache-line aligned, to |inout_total|.
static bool slip__workspace_add(uint64_t *inout_total, uint64_t count, uint64_t size, uint64_t *out_offset) {
  uint64_t bytes, total = *inout_total;
  if (!slip__checked_mul(count, size, &bytes) || !slip__checked_align(total, 4096, &total)) return false;
  *out_offset = total;
  return slip__checked_add(total, bytes, inout_total) && *inout_total <= INT64_MAX;
}

typedef struct slip__workspace_layout_t {
  uint64_t slots[SLIP__RING_COUNT], notes[SLIP__RING_COUNT], order[SLIP__RING_COUNT], blocks[SLIP__RING_COUNT], heap[SLIP__RING_COUNT],
      edges[SLIP__RING_COUNT];
  uint64_t map, map_capacity, forms;
  uint64_t total;
} slip__workspace_layout_t;

static bool slip__workspace_plan(const slip__workspace_options_t *options, slip__workspace_layout_t *layout) {
  layout->total = sizeof(slip__workspace_t);
  bool fits = true;
  for (uint32_t i = 0; i < SLIP__RING_COUNT && fits; ++i) {
    fits = slip__workspace_add(&layout->total, options->task_window[i], sizeof(slip__slot_t), &layout->slots[i]) &&
           slip__workspace_add(&layout->total, options->task_window[i], sizeof(slip__slot_note_t), &layout->notes[i]) &&
           slip__workspace_add(&layout->total, options->task_window[i], 2 * sizeof(uint32_t), &layout->order[i]) &&
           slip__workspace_add(&layout->total, options->task_window[i], sizeof(slip__argument_block_t), &layout->blocks[i]) &&
           slip__workspace_add(&layout->total, options->heap_bytes[i], 1, &layout->heap[i]) &&
           slip__workspace_add(&layout->total, options->dependency_pool[i], sizeof(slip__edge_t), &layout->edges[i]);
  }
  layout->map_capacity = 0;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) layout->map_capacity += options->dependency_pool[i];
  uint64_t map_bytes = slip__region_map_bytes(layout->map_capacity);
  return fits && map_bytes && slip__workspace_add(&layout->total, map_bytes, 1, &layout->map) &&
         slip__workspace_add(&layout->total, SLIP__FORM_BYTES, 1, &layout->forms);
}

static slip_status_t slip__workspace_check(const slip__workspace_options_t *options) {
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) {
    uint32_t window = options->task_window[i];
    if (window < 4 || (window & (window - 1)) != 0 || options->heap_bytes[i] < SLIP__HEAP_ALIGNMENT || options->dependency_pool[i] < 4) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                         "ring %" PRIu32 " has a task window of %" PRIu32 ", a heap of %" PRIu64 " bytes and a dependency pool of %" PRIu32
                         "; expected a power of two >= 4, >= %d and >= 4",
                         i, window, options->heap_bytes[i], options->dependency_pool[i], SLIP__HEAP_ALIGNMENT);
    }
  }
  return slip_ok_status();
}

static void slip__workspace_place(slip__workspace_t *workspace, const slip__workspace_options_t *options,
                                  const slip__workspace_layout_t *layout) {
  char *base = (char *)workspace;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) {
    slip__ring_t *ring = &workspace->rings[i];
    ring->slots = (slip__slot_t *)(base + layout->slots[i]);
    ring->notes = (slip__slot_note_t *)(base + layout->notes[i]);
    ring->order = (uint32_t *)(base + layout->order[i]);
    ring->free_slots = ring->order + options->task_window[i];
    ring->mask = options->task_window[i] - 1;
    ring->blocks = (slip__argument_block_t *)(base + layout->blocks[i]);
    ring->heap = base + layout->heap[i];
    ring->heap_capacity = options->heap_bytes[i] & ~(uint64_t)(SLIP__HEAP_ALIGNMENT - 1);
    ring->edges = (slip__edge_t *)(base + layout->edges[i]);
    ring->edge_capacity = options->dependency_pool[i];
    ring->index = i;
    ring->next = 1;  // a handle is never 0
    ring->retired_task = &workspace->linker.producers.retired[i];
    *ring->retired_task = slip__task_pack(1, i);
  }
}

slip_status_t slip__workspace_create(slip__engine_t *engine, const slip__workspace_options_t *options, slip__workspace_t **out) {
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__workspace_check(options));
  slip__workspace_layout_t layout;
  if (!slip__workspace_plan(options, &layout))
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "the rings are larger than the address space; lower their options");
  if (options->budget_bytes != 0 && options->budget_bytes < 1024) {
    return SLIP_STATUS(SLIP_CODE_CAPACITY_BYTES, "the workspace budget of %" PRIu64 " bytes holds no heap; expected 0 (none) or >= 1024",
                       options->budget_bytes);
  }
  void *memory;
  SLIP_RETURN_IF_ERROR(slip__memory_reserve((size_t)layout.total, &memory));
  slip__workspace_t *workspace = memory;
  workspace->engine = engine;
  workspace->orch.api = &slip__orch_api;
  workspace->budget_bytes = options->budget_bytes;
  workspace->reserved_bytes = (size_t)layout.total;
  workspace->linker.workspace = workspace;
  workspace->linker.producers.drain = slip__linker_drain;
  slip__workspace_place(workspace, options, &layout);
  slip__region_map_initialize(&workspace->map, (char *)memory + layout.map, (uint32_t)layout.map_capacity);
  workspace->forms.memory = (char *)memory + layout.forms;
  slip_status_t status = slip__engine_take_seat(engine, &workspace->seat);
  if (!slip_status_is_ok(status)) {
    slip__memory_release(memory, (size_t)layout.total);
    return status;
  }
  workspace->forms.next_id = slip__engine_next_form_id(engine);
  *out = workspace;
  return slip_ok_status();
}

void slip__workspace_destroy(slip__workspace_t *workspace) {
  if (!workspace) return;
  slip__record_front_destroy(workspace);
  slip__begins_destroy(workspace);
  slip__engine_return_seat(workspace->engine, workspace->seat);
  slip__memory_release(workspace, workspace->reserved_bytes);
}

uint64_t slip__workspace_committed_bytes(const slip__workspace_t *workspace) {
  uint64_t bytes = ((sizeof(*workspace) + 4095) & ~(uint64_t)4095) + slip__region_map_committed_bytes(&workspace->map) +
                   ((workspace->forms.high + 4095) & ~(uint64_t)4095) + slip__record_front_bytes(workspace) +
                   slip__begin_stats(workspace).bytes;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) bytes += slip__ring_committed_bytes(&workspace->rings[i]);
  return bytes;
}

uint64_t slip__workspace_task_count(const slip__workspace_t *workspace) {
  return workspace->ran;
}

uint64_t slip__workspace_replay_count(const slip__workspace_t *workspace) {
  return atomic_load_explicit(&workspace->replays, memory_order_relaxed);
}
