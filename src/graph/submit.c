// SPDX-License-Identifier: Apache-2.0
// The submit path: check, take a slot, allocate outputs, fill the slot, hand it over.
#include <inttypes.h>
#include <string.h>

#include "graph/execute.h"
#include "graph/fault.h"
#include "graph/orch.h"
#include "graph/schedule.h"
#include "graph/state.h"

// Helping goes on until a quarter is free: one in, one out would alternate between the submitter's data and the tasks'.
__attribute__((noinline)) static void slip__submit_wait_window(slip__workspace_t *workspace, slip__ring_t *ring) {
  workspace->stall.waits_for = SLIP__WAITS_FOR_WINDOW;
  uint64_t quarter = ((uint64_t)ring->mask + 1) / 4;
  slip__wait_retired(workspace, ring->index, ring->retired + (quarter ? quarter : 1));
}

// The place of the next task's slot, once the window has room.
static inline uint32_t slip__submit_slot(slip__workspace_t *workspace, slip__ring_t *ring) {
  if (__builtin_expect(slip__ring_window_full(ring), 0)) slip__submit_wait_window(workspace, ring);
  return slip__ring_free_slot(ring);
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

// Any other submit: every rule is checked. 0: the error is latched.
__attribute__((noinline)) static slip_task_t slip__submit_any(slip__workspace_t *workspace, const slip_submit_t *submit, bool alone) {
  const slip_object_kernel_t *kernel = slip__check_submit(workspace, submit);
  if (__builtin_expect(!kernel, 0)) return 0;
  slip__release_held(workspace);

  slip__ring_t *ring = workspace->ring;
  uint32_t place = slip__submit_slot(workspace, ring);
  slip__ring_take_slot(ring, place);
  slip__slot_t *slot = &ring->slots[place];
  slip_task_t task = slip__task_pack(ring->next, ring->index);
  slip__slot_note_t *note = &ring->notes[place];
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
    slip__ring_give_slot(ring, place);
    return 0;
  }
  for (uint32_t i = 0; i < submit->scalar_count; ++i) scalars[i] = submit->scalars[i];
  slot->form = form;
  slot->arguments = data;
  slot->kernel = kernel;
  slot->block_count = submit->block_count ? submit->block_count : 1;
  slot->workspace = workspace;
  slot->depth = (uint16_t)workspace->depth;
  slot->ran = 0;
  slip__submit_fill_predicate(slot, submit->predicate);
  slip__dispatch(workspace, slot, task, access_count, deps, dep_count, alone);
  return task;
}

// True if |submit|, but for its tensors, is one of those that |form| was checked for, without dependencies, predicate or gang.
static inline bool slip__submit_is_plain(const slip__form_t *form, uint64_t object_serial, const slip_submit_t *submit) {
  uint32_t other = (form->kernel ^ submit->kernel) | (form->tensor_count ^ submit->tensor_count) |
                   (form->scalar_count ^ submit->scalar_count) | submit->flags | submit->dep_count |
                   (submit->core & ~(uint32_t)SLIP_CORE_MIXED);
  return other == 0 && form->plain && form->object_serial == object_serial && submit->struct_size >= sizeof(slip_submit_t) &&
         submit->block_count <= SLIP_TASK_MAX_BLOCKS && !submit->predicate && submit->tensors &&
         (submit->scalars || form->scalar_count == 0);
}

// False: the tensor, of a scope's intermediates or read-only, cannot be used as |known| says.
static inline bool slip__submit_may_use(const slip__workspace_t *workspace, const slip_otensor_t *tensor,
                                        const slip__form_tensor_t *known) {
  if (tensor->generation == 0) return !known->writes || tensor->depth != SLIP_OTENSOR_READ_ONLY;
  return !slip__tensor_is_stale(workspace, tensor);
}

// The places of the tensors of a plain submit, if they look as the plain |form| says and nothing is wrong with them. What the map needs to
// know goes to |access|, unless that is NULL. False: not this form, or not this simple; nothing has been latched.
static inline bool slip__submit_fits(const slip__workspace_t *workspace, const slip__form_t *form, const slip_submit_t *submit, void **data,
                                     slip__access_t *access) {
  const slip__form_tensor_t *known = form->tensors;
  const slip_ktensor_t *shape = form->views;
  const slip_oarg_t *argument = submit->tensors, *end = argument + form->tensor_count;
  do {
    const slip_otensor_t *tensor = argument->tensor;
    if (__builtin_expect(!tensor || argument->access != known->access || !slip__form_looks(&tensor->view, shape), 0)) return false;
    if ((tensor->generation | tensor->depth) != 0 && !slip__submit_may_use(workspace, tensor, known)) return false;
    void *at = tensor->view.data;
    uint64_t low = (uint64_t)(uintptr_t)at + (uint64_t)known->low, offset = low - (uint64_t)(uintptr_t)tensor->storage;
    uint64_t last = tensor->storage_bytes - 1;  // where the size is not known (0), the greatest number
    if (__builtin_expect(!at || offset > last || known->extent - 1 > last - offset, 0)) return false;
    *data++ = at;
    if (access) {
      access->storage = tensor->storage;
      access->low = low;
      access->shape = known->shape;
      access->writes = known->writes;
      ++access;
    }
    ++known;
    ++shape;
  } while (++argument != end);
  return true;
}

// The first form from |form| on that fits, as slip__submit_fits(); NULL if there is none.
__attribute__((noinline)) static const slip__form_t *slip__submit_find(const slip__workspace_t *workspace, const slip__form_t *form,
                                                                       const slip_submit_t *submit, void **data, slip__access_t *access) {
  for (uint32_t i = 1; form && i < SLIP__FORM_WALK; ++i, form = form->next) {
    if (slip__submit_is_plain(form, workspace->object_serial, submit) && slip__submit_fits(workspace, form, submit, data, access)) {
      return form;
    }
  }
  return NULL;
}

// Runs the task in the slot at |place|, which it does not take. Nothing else is in flight: it has nothing to follow, and who comes later
// finds it over, so that neither the map nor another thread hears of it.
static inline void slip__submit_now(slip__workspace_t *workspace, slip__ring_t *ring, uint32_t place, const slip__form_t *form) {
  slip__seat_t *seat = workspace->seat;
  slip__slot_t *slot = &ring->slots[place];
  ring->order[(uint32_t)ring->next & ring->mask] = place;
  ++ring->next;
  ++workspace->ran;
  if (__builtin_expect(slot->block_count == 1 && !seat->notes, 1)) {
    slip_kargs_t arguments =
        slip__execute_arguments(slot->kernel, seat, slip__execute_views(form, seat, slot->own_data), slot->own_scalars);
    slot->kernel->run(&arguments, (slip_block_t){.index = 0, .count = 1});
    if (__builtin_expect(arguments.fault != 0, 0)) slip__kernel_fault(slot, arguments.fault, 0);
  } else {
    slip__execute_blocks(slot, seat, 0, slot->block_count);
  }
  slip__ring_retire_newest(ring);
}

// A submit as there was one before, which needs no more than what a slot holds. 0: it is none, and nothing is done about it.
static inline slip_task_t slip__submit_again(slip__workspace_t *workspace, const slip_submit_t *submit, const slip__form_t *form,
                                             bool alone) {
  slip__release_held(workspace);
  slip__ring_t *ring = workspace->ring;
  uint32_t place = slip__submit_slot(workspace, ring), block_count = submit->block_count ? submit->block_count : 1;
  slip__slot_t *slot = &ring->slots[place];
  bool now = alone && slip__nothing_in_flight(workspace) && (block_count == 1 || workspace->engine->worker_count == 0);
  slip__access_t *accesses = now ? NULL : workspace->accesses;
  if (__builtin_expect(!slip__submit_fits(workspace, form, submit, slot->own_data, accesses), 0)) {
    form = slip__submit_find(workspace, form->next, submit, slot->own_data, accesses);
    if (!form) return 0;
  }
  for (uint32_t i = 0; i < form->scalar_count; ++i) slot->own_scalars[i] = submit->scalars[i];
  slip__slot_note_t *note = &ring->notes[place];
  note->arguments = NULL;
  note->file = submit->file;
  note->line = submit->line;
  slot->form = form;
  slot->arguments = slot->own_data;
  slot->kernel = &workspace->run->object->kernels[form->kernel];
  slot->block_count = block_count;
  slot->workspace = workspace;
  slot->depth = (uint16_t)workspace->depth;
  slot->flags = 0;
  slot->predicate_op = 0;
  slot->predicate_dtype = 0;
  slot->ran = 0;
  slip_task_t task = slip__task_pack(ring->next, ring->index);
  if (now) {
    slip__submit_now(workspace, ring, place, form);
  } else {
    slip__ring_take_slot(ring, place);
    slip__dispatch(workspace, slot, task, form->tensor_count, NULL, 0, alone);
  }
  return task;
}

slip_task_t slip__orch_submit(slip_orch_t *o, const slip_submit_t *submit) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  if (__builtin_expect(slip__workspace_failed(workspace), 0)) return 0;
  bool alone = slip__submit_alone(workspace);
  const slip__form_t *form = slip__forms_first(&workspace->forms, workspace->object_serial, submit->kernel);
  if (__builtin_expect(form && slip__submit_is_plain(form, workspace->object_serial, submit), 1)) {
    slip_task_t task = slip__submit_again(workspace, submit, form, alone);
    if (__builtin_expect(task != 0, 1)) return task;
  }
  return slip__submit_any(workspace, submit, alone);
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
  slip__ring_t *ring = workspace->ring;
  uint32_t place = slip__submit_slot(workspace, ring);
  slip__ring_take_slot(ring, place);
  slip__slot_t *slot = &ring->slots[place];
  slip_task_t task = slip__task_pack(ring->next, ring->index);
  ring->notes[place].arguments = NULL;
  slot->kernel = NULL;
  slot->predicate_op = 0;
  slot->block_count = 1;
  slot->flags = 0;
  slot->ran = 0;
  slot->workspace = workspace;
  slot->depth = (uint16_t)workspace->depth;
  slip__dispatch(workspace, slot, task, 0, deps, dep_count, slip__submit_alone(workspace));
  return task;
}
