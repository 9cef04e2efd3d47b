// SPDX-License-Identifier: Apache-2.0
#include "graph/fault.h"

#include <inttypes.h>
#include <stdio.h>

void slip__workspace_fail(slip__workspace_t *workspace, slip_status_t status) {
  uint32_t none = 0;
  if (atomic_compare_exchange_strong_explicit(&workspace->failed, &none, 1, memory_order_relaxed, memory_order_relaxed)) {
    workspace->status = status;
  } else {
    slip_status_free(status);
  }
}

static const char *slip__fault_kernel(const slip__workspace_t *workspace, uint32_t kernel) {
  const slip_object_t *object = workspace->run ? workspace->run->object : NULL;
  const char *name = object && kernel < object->kernel_count ? object->kernels[kernel].name : NULL;
  return name ? name : "?";
}

static const char *slip__fault_name(const slip_object_kernel_t *kernel) {
  return kernel->name ? kernel->name : "?";
}

slip_status_t slip__fault_at_submit(const slip__workspace_t *workspace, const slip_submit_t *submit, slip_status_t status) {
  const slip_object_t *object = workspace->run->object;
  return slip_status_annotate(
      status, "task of kernel %" PRIu32 " (%s) in ring %" PRIu32 ", scope depth %" PRIu32 ", submitted at %s:%" PRIu32, submit->kernel,
      submit->kernel < object->kernel_count ? slip__fault_name(&object->kernels[submit->kernel]) : "?",
      slip__workspace_ring_of(workspace->depth), workspace->depth, submit->file ? submit->file : "?", submit->line);
}

slip_status_t slip__fault_at_node(const slip__workspace_t *workspace, uint32_t kernel, uint32_t node, slip_status_t status) {
  return slip_status_annotate(status, "task of kernel %" PRIu32 " (%s), node %" PRIu32 " of a recorded graph", kernel,
                              slip__fault_kernel(workspace, kernel), node);
}

void slip__fault_place(const slip__slot_t *slot, char *text, size_t capacity) {
  const slip__workspace_t *workspace = slot->workspace;
  uint32_t index = slip__workspace_ring_of(slot->depth);
  const slip__ring_t *ring = &workspace->rings[index];
  if (slot->flags & SLIP__SLOT_OF_NODE) {
    (void)snprintf(text, capacity, "task of kernel %" PRIu32 " (%s), node %" PRIu32 " of a recorded graph", slot->node_kernel,
                   slip__fault_kernel(workspace, slot->node_kernel), slot->node_index);
  } else if (!slot->kernel) {
    (void)snprintf(text, capacity, "a join in ring %" PRIu32 ", scope depth %u", index, slot->depth);
  } else {
    const slip__slot_note_t *note = &ring->notes[slot - ring->slots];
    (void)snprintf(text, capacity, "task of kernel %td (%s) in ring %" PRIu32 ", scope depth %u, submitted at %s:%" PRIu32,
                   slot->kernel - workspace->run->object->kernels, slip__fault_name(slot->kernel), index, slot->depth,
                   note->file ? note->file : "?", note->line);
  }
}

slip_status_t slip__fault_at_task(const slip__slot_t *slot, slip_status_t status) {
  char place[512];
  slip__fault_place(slot, place, sizeof(place));
  return slip_status_annotate(status, "%s", place);
}

slip_status_t slip__fault_here(slip__workspace_t *workspace, slip_status_t status) {
  uint32_t index = slip__workspace_ring_of(workspace->depth);
  slip__ring_t *ring = &workspace->rings[index];
  const slip__slot_t *last = ring->next == ring->base ? NULL : slip__ring_slot(ring, ring->next - 1);
  if (!last)
    return slip_status_annotate(status, "in scope depth %" PRIu32 ", before the first task of ring %" PRIu32, workspace->depth, index);
  if (!last->kernel)
    return slip_status_annotate(status, "in scope depth %" PRIu32 ", after a join in ring %" PRIu32, workspace->depth, index);
  const slip__slot_note_t *note = slip__ring_note(ring, ring->next - 1);
  return slip_status_annotate(status,
                              "in scope depth %" PRIu32 ", after the task of kernel %td (%s) in ring %" PRIu32 " submitted at %s:%" PRIu32,
                              workspace->depth, last->kernel - workspace->run->object->kernels, slip__fault_name(last->kernel), index,
                              note->file ? note->file : "?", note->line);
}

static slip_status_t slip__kernel_fault_status(uint32_t code, uint32_t block, uint32_t block_count) {
  return SLIP_STATUS(SLIP_CODE_GRAPH_KERNEL_FAULT,
                     "the kernel reported fault %" PRIu32 " in block %" PRIu32 " of %" PRIu32
                     "; the number is its own: look for slip_kernel_fault() in its source, and at the data it was given",
                     code, block, block_count);
}

__attribute__((noinline, cold)) void slip__kernel_fault(const slip__slot_t *slot, uint32_t code, uint32_t block) {
  slip__workspace_fail(slot->workspace, slip__fault_at_task(slot, slip__kernel_fault_status(code, block, slot->block_count)));
}

__attribute__((noinline, cold)) void slip__kernel_fault_in_node(slip__workspace_t *workspace, uint32_t kernel, uint32_t node,
                                                                uint32_t code) {
  slip__workspace_fail(workspace, slip__fault_at_node(workspace, kernel, node, slip__kernel_fault_status(code, 0, 1)));
}
