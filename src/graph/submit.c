// SPDX-License-Identifier: Apache-2.0
// The submit path: check, take a slot, allocate outputs, fill the slot, hand it over.
#include <inttypes.h>
#include <string.h>

#include "graph/fault.h"
#include "graph/orch.h"
#include "graph/schedule.h"

// The slot of the next task, once the window has room. Helping goes on until a quarter is free: one in, one out would alternate between the
// submitter's data and the tasks'.
static slip__slot_t *slip__submit_take_slot(slip__workspace_t *workspace, slip__ring_t *ring, uint32_t index) {
  if (__builtin_expect(slip__ring_window_full(ring), 0)) {
    workspace->stall.waits_for = SLIP__WAITS_FOR_WINDOW;
    uint64_t quarter = ((uint64_t)ring->mask + 1) / 4;
    slip__wait_retired(workspace, index, ring->retired + (quarter ? quarter : 1));
  }
  return slip__ring_take_slot(ring);
}

static bool slip__submit_allocate_outputs(slip__workspace_t *workspace, const slip_submit_t *submit, slip_task_t task) {
  for (uint32_t i = 0; i < submit->tensor_count; ++i) {
    if (submit->tensors[i].access != SLIP_ACCESS_OUT) continue;
    slip_otensor_t *tensor = submit->tensors[i].tensor;
    uint64_t bytes;
    if (!slip__tensor_bytes(&tensor->view, &bytes) || !slip__heap_allocate(workspace, tensor, bytes, submit)) return false;
    tensor->creator = task;
  }
  return true;
}

static void slip__submit_fill_arguments(slip__slot_t *slot, slip__ring_t *ring, const slip_submit_t *submit) {
  slip_ktensor_t *tensors = slot->own_tensors;
  uint64_t *scalars = slot->own_scalars;
  slot->arguments = NULL;
  if (submit->tensor_count > SLIP__SLOT_TENSORS || submit->scalar_count > SLIP__SLOT_SCALARS) {
    slot->arguments = slip__ring_take_block(ring);
    tensors = slot->arguments->arguments.tensors;
    scalars = slot->arguments->arguments.scalars;
  }
  for (uint32_t i = 0; i < submit->tensor_count; ++i) tensors[i] = submit->tensors[i].tensor->view;
  for (uint32_t i = 0; i < submit->scalar_count; ++i) scalars[i] = submit->scalars[i];
  slot->tensors = tensors;
  slot->scalars = scalars;
  slot->tensor_count = (uint16_t)submit->tensor_count;
  slot->scalar_count = (uint16_t)submit->scalar_count;
}

void *slip__element_address(const slip_ktensor_t *view, int64_t index) {
  int64_t offset = 0;
  for (uint32_t i = view->rank; i-- > 0;) {
    offset += index % view->dims[i] * view->strides[i];
    index /= view->dims[i];
  }
  return (char *)view->data + offset * slip_dtype_carrier_bytes(view->dtype);
}

static void slip__submit_fill_predicate(slip__slot_t *slot, const slip_predicate_t *predicate) {
  slot->predicate_op = 0;
  if (__builtin_expect(!predicate, 1)) return;
  slot->predicate_op = (uint8_t)predicate->op;
  slot->predicate_dtype = predicate->tensor->view.dtype;
  slot->predicate_literal = predicate->literal;
  slot->predicate_address = slip__element_address(&predicate->tensor->view, predicate->index);
}

// The list that the dependency map gets. A |no_dep| argument keeps the edge to its creator: that becomes an explicit dependency.
static uint32_t slip__submit_accesses(slip__slot_t *slot, const slip_submit_t *submit, slip_ktensor_t *predicate_view,
                                      slip__access_t *accesses, slip_task_t *creators, uint32_t *out_creator_count) {
  uint32_t count = 0, creator_count = 0;
  for (uint32_t i = 0; i < submit->tensor_count; ++i) {
    const slip_oarg_t *argument = &submit->tensors[i];
    if (argument->access == SLIP_ACCESS_NO_DEP) {
      if (argument->tensor->creator) creators[creator_count++] = argument->tensor->creator;
      continue;
    }
    accesses[count].view = &slot->tensors[i];
    accesses[count].storage = argument->tensor->storage;
    accesses[count].access = argument->access;
    ++count;
  }
  if (submit->predicate) {
    *predicate_view = submit->predicate->tensor->view;
    accesses[count].view = predicate_view;
    accesses[count].storage = submit->predicate->tensor->storage;
    accesses[count].access = SLIP_ACCESS_IN;
    ++count;
  }
  *out_creator_count = creator_count;
  return count;
}

// Explicit dependencies, of |submit| or (NULL) of a join, must name tasks of this run; 0 names none.
static bool slip__submit_check_deps(slip__workspace_t *workspace, const slip_submit_t *submit, const slip_task_t *deps,
                                    uint32_t dep_count) {
  for (uint32_t i = 0; i < dep_count; ++i) {
    const slip__ring_t *ring = &workspace->rings[slip__task_ring(deps[i])];
    uint64_t sequence = slip__task_sequence(deps[i]);
    if (deps[i] == 0 || (sequence >= ring->base && sequence < ring->next)) continue;
    slip_status_t status = SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                                       "dependency %" PRIu32 " names task 0x%" PRIx64
                                       ", which this run has not submitted; pass what submit() or join() returned",
                                       i, deps[i]);
    slip__workspace_fail(workspace, submit ? slip__fault_at_submit(workspace, submit, status) : slip__fault_here(workspace, status));
    return false;
  }
  return true;
}

slip_task_t slip__orch_submit(slip_orch_t *o, const slip_submit_t *submit) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  if (__builtin_expect(slip__workspace_failed(workspace), 0)) return 0;
  if (!slip__submit_check(workspace, submit) || !slip__submit_check_deps(workspace, submit, submit->deps, submit->dep_count)) return 0;
  slip__release_held(workspace);

  uint32_t index = slip__workspace_ring_of(workspace->depth);
  slip__ring_t *ring = &workspace->rings[index];
  slip__slot_t *slot = slip__submit_take_slot(workspace, ring, index);
  slip_task_t task = slip__task_pack(ring->next, index);
  if (!slip__submit_allocate_outputs(workspace, submit, task)) {
    slip__ring_give_slot(ring);
    return 0;
  }
  slip__submit_fill_arguments(slot, ring, submit);
  slip__submit_fill_predicate(slot, submit->predicate);
  const slip_object_kernel_t *kernel = &workspace->run->object->kernels[submit->kernel];
  slot->run = kernel->run;
  slot->scratch_bytes = kernel->scratch_bytes;
  slot->block_count = submit->block_count ? submit->block_count : 1;
  slot->flags = submit->flags;
  slot->workspace = workspace;
  slot->depth = (uint16_t)workspace->depth;
  slot->kernel = submit->kernel;
  slot->line = submit->line;
  slot->file = submit->file;

  slip_task_t deps[SLIP_TASK_MAX_DEPS + SLIP_KERNEL_MAX_TENSORS];
  uint32_t creator_count;
  uint32_t access_count = slip__submit_accesses(slot, submit, &workspace->predicate_view, workspace->accesses, deps, &creator_count);
  for (uint32_t i = 0; i < submit->dep_count; ++i) deps[creator_count + i] = submit->deps[i];
  slip__dispatch(workspace, slot, task, access_count, deps, creator_count + submit->dep_count);
  return task;
}

slip_task_t slip__orch_join(slip_orch_t *o, const slip_task_t *deps, uint32_t dep_count) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  if (__builtin_expect(slip__workspace_failed(workspace), 0)) return 0;
  if (dep_count > SLIP_TASK_MAX_DEPS || (dep_count && !deps)) {
    slip_code_t code = dep_count > SLIP_TASK_MAX_DEPS ? SLIP_CODE_GRAPH_TOO_MANY_DEPENDENCIES : SLIP_CODE_GRAPH_INVALID_TASK;
    slip_status_t status = SLIP_STATUS(code, "join() was given %" PRIu32 " dependencies at %s, expected an array of at most %d; join joins",
                                       dep_count, deps ? "an array" : "NULL", SLIP_TASK_MAX_DEPS);
    slip__workspace_fail(workspace, slip__fault_here(workspace, status));
    return 0;
  }
  if (!slip__submit_check_deps(workspace, NULL, deps, dep_count)) return 0;
  slip__release_held(workspace);
  uint32_t index = slip__workspace_ring_of(workspace->depth);
  slip__ring_t *ring = &workspace->rings[index];
  slip__slot_t *slot = slip__submit_take_slot(workspace, ring, index);
  slip_task_t task = slip__task_pack(ring->next, index);
  slot->run = NULL;
  slot->arguments = NULL;
  slot->predicate_op = 0;
  slot->block_count = 1;
  slot->flags = 0;
  slot->workspace = workspace;
  slot->depth = (uint16_t)workspace->depth;
  slot->kernel = SLIP__NO_KERNEL;
  slip__dispatch(workspace, slot, task, 0, deps, dep_count);
  return task;
}
