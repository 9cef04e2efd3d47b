// SPDX-License-Identifier: Apache-2.0
// Intermediates: where they lie and what happens when the heap ring is full.
#include <inttypes.h>

#include "graph/fault.h"
#include "graph/orch.h"
#include "graph/schedule.h"

static const char *slip__heap_what(const slip_submit_t *submit) {
  return submit ? "an output" : "an intermediate";
}

static bool slip__heap_refuse(slip__workspace_t *workspace, const slip_submit_t *submit, slip_status_t status) {
  slip__workspace_fail(workspace, submit ? slip__fault_at_submit(workspace, submit, status) : slip__fault_here(workspace, status));
  return false;
}

// Structural: the ring is full, and no scope of it that has ended waits for tasks; so only the end of an open scope could free anything,
// and that is the submitter's own to do.
__attribute__((noinline, cold)) static bool slip__heap_deadlock(slip__workspace_t *workspace, uint32_t index, uint64_t bytes,
                                                                const slip_submit_t *submit) {
  const slip__ring_t *ring = &workspace->rings[index];
  bool shared = workspace->depth >= SLIP__RING_COUNT;
  return slip__heap_refuse(
      workspace, submit,
      SLIP_STATUS(SLIP_CODE_GRAPH_SCOPE_DEADLOCK,
                  "%s of %" PRIu64 " bytes finds heap ring %" PRIu32 " full with %" PRIu64 " of %" PRIu64
                  " bytes held by scopes still open (scope depth %" PRIu32 ", %" PRIu64
                  " tasks of the ring in flight), so waiting could never end; end scopes sooner%s or raise heap_bytes[%" PRIu32 "]",
                  slip__heap_what(submit), bytes, index, ring->heap_head - ring->heap_tail, ring->heap_capacity, workspace->depth,
                  slip__ring_live(ring), shared ? " (what is made at depth 3 and deeper lives until the scope of depth 3 ends)" : "",
                  index));
}

__attribute__((noinline, cold)) static bool slip__heap_too_large(slip__workspace_t *workspace, uint32_t index, uint64_t bytes,
                                                                 const slip_submit_t *submit) {
  const slip__ring_t *ring = &workspace->rings[index];
  return slip__heap_refuse(workspace, submit,
                           SLIP_STATUS(SLIP_CODE_GRAPH_HEAP_EXHAUSTED,
                                       "%s of %" PRIu64 " bytes does not fit heap ring %" PRIu32 " of %" PRIu64
                                       " bytes (scope depth %" PRIu32 "); raise heap_bytes[%" PRIu32 "]",
                                       slip__heap_what(submit), bytes, index, ring->heap_capacity, workspace->depth, index));
}

static uint64_t slip__heap_high(const slip__workspace_t *workspace) {
  uint64_t high = 0;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) high += workspace->rings[i].heap_high;
  return high;
}

__attribute__((noinline)) static void *slip__heap_wait(slip__workspace_t *workspace, uint32_t index, uint64_t bytes,
                                                       const slip_submit_t *submit) {
  slip__ring_t *ring = &workspace->rings[index];
  workspace->stall.waits_for = SLIP__WAITS_FOR_HEAP;
  for (;;) {
    slip__retire_all(workspace);
    slip__ring_reclaim(workspace->rings, index);
    void *memory = slip__ring_allocate(ring, bytes);
    if (memory) return memory;
    if (ring->ended_head == ring->ended_tail) return (void)slip__heap_deadlock(workspace, index, bytes, submit), NULL;
    const slip__ended_scope_t *scope = &ring->ended[ring->ended_head % SLIP__ENDED_SCOPES];
    for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) slip__wait_retired(workspace, i, scope->task_end[i]);
  }
}

bool slip__heap_allocate(slip__workspace_t *workspace, slip_otensor_t *tensor, uint64_t bytes, const slip_submit_t *submit) {
  uint32_t index = slip__workspace_ring_of(workspace->depth);
  slip__ring_t *ring = &workspace->rings[index];
  if (__builtin_expect(bytes > ring->heap_capacity, 0)) return slip__heap_too_large(workspace, index, bytes, submit);
  void *memory = slip__ring_allocate(ring, bytes);
  if (__builtin_expect(!memory, 0)) {
    memory = slip__heap_wait(workspace, index, bytes, submit);
    if (!memory) return false;
  }
  if (__builtin_expect(workspace->budget_bytes != 0, 0) && slip__heap_high(workspace) > workspace->budget_bytes) {
    return slip__heap_refuse(workspace, submit,
                             SLIP_STATUS(SLIP_CODE_GRAPH_HEAP_EXHAUSTED,
                                         "%s of %" PRIu64 " bytes in ring %" PRIu32 " takes the heap rings to %" PRIu64
                                         " bytes, the budget is %" PRIu64 "; raise workspace_budget_bytes or end scopes sooner",
                                         slip__heap_what(submit), bytes, index, slip__heap_high(workspace), workspace->budget_bytes));
  }
  int64_t stride = 1;
  for (int i = SLIP_MAX_RANK - 1; i >= 0; --i) {
    bool used = i < tensor->view.rank;
    if (!used) tensor->view.dims[i] = 1;
    tensor->view.strides[i] = used ? stride : 0;
    if (used) stride *= tensor->view.dims[i];
  }
  tensor->view.data = memory;
  tensor->storage = memory;
  tensor->storage_bytes = bytes;
  tensor->creator = 0;
  tensor->generation = workspace->scopes[workspace->depth].generation;
  tensor->depth = workspace->depth;
  return true;
}
