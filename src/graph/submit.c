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

// The places of a task's tensors, whose form is known: checked and, for outputs, allocated. What the map needs to know goes to
// |workspace->accesses|; a |no_dep| argument keeps the edge to its creator: that becomes an explicit dependency. False: the error is
// latched.
static inline bool slip__submit_places(slip__workspace_t *workspace, const slip_submit_t *submit, const slip__form_t *form,
                                       slip_task_t task, void **data, uint32_t *out_access_count, slip_task_t *deps,
                                       uint32_t *inout_dep_count) {
  slip__access_t *access = workspace->accesses;
  for (uint32_t i = 0; i < form->tensor_count; ++i) {
    slip_otensor_t *tensor = submit->tensors[i].tensor;
    const slip__form_tensor_t *known = &form->tensors[i];
    if (__builtin_expect(known->access == SLIP_ACCESS_OUT, 0)) {
      // An output that is given once more is judged there as it was, whether or not the form is known.
      for (uint32_t j = i + 1; j < form->tensor_count; ++j) {
        if (submit->tensors[j].tensor == tensor && !slip__check_tensor(workspace, submit, j)) return false;
      }
      if (!slip__heap_allocate(workspace, tensor, known->extent ? known->extent : 1, submit)) return false;
      tensor->creator = task;
    }
    uint64_t low = (uint64_t)(uintptr_t)tensor->view.data + (uint64_t)known->low, offset = low - (uint64_t)(uintptr_t)tensor->storage;
    bool inside = tensor->storage_bytes == 0 || (offset <= tensor->storage_bytes && known->extent <= tensor->storage_bytes - offset);
    bool plain = inside && tensor->view.data && !(known->writes && tensor->depth == SLIP_OTENSOR_READ_ONLY) &&
                 !slip__tensor_is_stale(workspace, tensor);
    if (__builtin_expect(!plain, 0) && !slip__check_tensor(workspace, submit, i)) return false;
    data[i] = tensor->view.data;
    if (__builtin_expect(known->access == SLIP_ACCESS_NO_DEP, 0)) {
      if (tensor->creator) deps[(*inout_dep_count)++] = tensor->creator;
      continue;
    }
    access->storage = tensor->storage;
    access->low = low;
    access->shape = known->shape;
    access->writes = known->writes;
    ++access;
  }
  if (__builtin_expect(submit->predicate != NULL, 0)) {
    const slip_otensor_t *tensor = submit->predicate->tensor;
    int64_t low;
    uint64_t extent;
    access->shape = slip__region_map_shape(&workspace->map, &tensor->view, &low, &extent);
    access->storage = tensor->storage;
    access->low = (uint64_t)(uintptr_t)tensor->view.data + (uint64_t)low;
    access->writes = 0;
    ++access;
  }
  *out_access_count = (uint32_t)(access - workspace->accesses);
  return true;
}

slip_task_t slip__orch_submit(slip_orch_t *o, const slip_submit_t *submit) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  if (__builtin_expect(slip__workspace_failed(workspace), 0)) return 0;
  const slip_object_kernel_t *kernel = slip__check_submit(workspace, submit);
  if (__builtin_expect(!kernel, 0)) return 0;
  slip__release_held(workspace);

  uint32_t index = slip__workspace_ring_of(workspace->depth);
  slip__ring_t *ring = &workspace->rings[index];
  slip__slot_t *slot = slip__submit_take_slot(workspace, ring, index);
  slip_task_t task = slip__task_pack(ring->next, index);
  slip__slot_note_t *note = slip__ring_note(ring, ring->next);
  void **data = slot->own_data;
  uint64_t *scalars = slot->own_scalars;
  slip__argument_block_t *block = NULL;
  slot->flags = (uint8_t)submit->flags;
  const slip__form_t *form = slip__forms_find(&workspace->forms, workspace->object_serial, submit);
  bool own_form = false;
  if (__builtin_expect(!form || submit->tensor_count > SLIP__SLOT_TENSORS || submit->scalar_count > SLIP__SLOT_SCALARS, 0)) {
    block = slip__ring_take_block(ring);
    if (!form) form = slip__forms_add(workspace, submit, (slip__form_t *)(void *)block->form, &own_form);
    if (!own_form && submit->tensor_count <= SLIP__SLOT_TENSORS && submit->scalar_count <= SLIP__SLOT_SCALARS) {
      slip__ring_give_block(ring, block);
      block = NULL;
    } else {
      data = block->data;
      scalars = block->scalars;
      slot->flags |= SLIP__SLOT_BLOCK;
    }
  }
  note->arguments = block;
  note->file = submit->file;
  note->line = submit->line;

  slip_task_t deps[SLIP_TASK_MAX_DEPS + SLIP_KERNEL_MAX_TENSORS];
  uint32_t access_count, dep_count = 0;
  for (; dep_count < submit->dep_count; ++dep_count) deps[dep_count] = submit->deps[dep_count];
  if (__builtin_expect(!form || !slip__submit_places(workspace, submit, form, task, data, &access_count, deps, &dep_count), 0)) {
    if (block) slip__ring_give_block(ring, block);
    slip__ring_give_slot(ring);
    return 0;
  }
  for (uint32_t i = 0; i < submit->scalar_count; ++i) scalars[i] = submit->scalars[i];
  slot->form = form;
  slot->arguments = data;
  slot->kernel = kernel;
  slot->block_count = submit->block_count ? submit->block_count : 1;
  slot->workspace = workspace;
  slot->depth = (uint16_t)workspace->depth;
  slip__submit_fill_predicate(slot, submit->predicate);
  slip__dispatch(workspace, slot, task, access_count, deps, dep_count);
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
  if (!slip__check_deps(workspace, NULL, deps, dep_count)) return 0;
  slip__release_held(workspace);
  uint32_t index = slip__workspace_ring_of(workspace->depth);
  slip__ring_t *ring = &workspace->rings[index];
  slip__slot_t *slot = slip__submit_take_slot(workspace, ring, index);
  slip_task_t task = slip__task_pack(ring->next, index);
  slip__ring_note(ring, ring->next)->arguments = NULL;
  slot->kernel = NULL;
  slot->predicate_op = 0;
  slot->block_count = 1;
  slot->flags = 0;
  slot->workspace = workspace;
  slot->depth = (uint16_t)workspace->depth;
  slip__dispatch(workspace, slot, task, 0, deps, dep_count);
  return task;
}
