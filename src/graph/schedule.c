// SPDX-License-Identifier: Apache-2.0
#include "graph/schedule.h"

#include "graph/execute.h"
#include "graph/state.h"

void slip__dispatch(slip__workspace_t *workspace, slip__slot_t *slot, slip_task_t task, uint32_t access_count, const slip_task_t *deps,
                    uint32_t dep_count) {
  (void)access_count, (void)deps, (void)dep_count;
  slip__ring_t *ring = &workspace->rings[slip__task_ring(task)];
  slot->edges_end = ring->edge_head;
  ++ring->next;
  slip__execute_serial(slot, workspace->seat);
  slip__ring_retire(ring, &workspace->ran);
}

void slip__release_held_slow(slip__workspace_t *workspace) {
  workspace->held = NULL;
}

void slip__retire_all(slip__workspace_t *workspace) {
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) slip__ring_retire(&workspace->rings[i], &workspace->ran);
}

void slip__wait_retired(slip__workspace_t *workspace, uint32_t index, uint64_t sequence) {
  (void)workspace, (void)index, (void)sequence;
}

void slip__wait_element(slip__workspace_t *workspace, const slip_otensor_t *tensor, const void *address, bool is_write) {
  (void)workspace, (void)tensor, (void)address, (void)is_write;
}

void slip__schedule_begin(slip__workspace_t *workspace) {
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) slip__ring_reset(&workspace->rings[i]);
}

void slip__schedule_finish(slip__workspace_t *workspace) {
  slip__retire_all(workspace);
}
