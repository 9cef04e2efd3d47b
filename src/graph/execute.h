// SPDX-License-Identifier: Apache-2.0
// Running ready tasks on the calling thread.
#ifndef SLIPSTREAM_SRC_GRAPH_EXECUTE_H_
#define SLIPSTREAM_SRC_GRAPH_EXECUTE_H_

#include <string.h>

#include "graph/workspace.h"

// Sets the addresses in the views that |seat| keeps of |form|, the form it met last.
static inline const slip_ktensor_t *slip__execute_views(const slip__form_t *form, slip__seat_t *seat, void *const *data) {
  if (__builtin_expect(seat->form_id != form->id, 0)) {
    seat->form_id = form->id;
    memcpy(seat->views, form->views, form->tensor_count * sizeof(slip_ktensor_t));
  }
  for (uint32_t i = 0; i < form->tensor_count; ++i) seat->views[i].data = data[i];
  return seat->views;
}
// What a kernel is called with. Acquire: pairs with the release in slip__seat_grow_scratch.
static inline slip_kargs_t slip__execute_arguments(const slip_object_kernel_t *kernel, slip__seat_t *seat, const slip_ktensor_t *tensors,
                                                   const uint64_t *scalars) {
  return (slip_kargs_t){
      .tensors = tensors,
      .scalars = scalars,
      .scratch = atomic_load_explicit(&seat->scratch, memory_order_acquire),
      .tensor_count = kernel->tensor_count,
      .scalar_count = kernel->scalar_count,
      .scratch_bytes = kernel->scratch_bytes,
  };
}

// Runs blocks [first, first + count) with the scratch of |seat|.
void slip__execute_blocks(const slip__slot_t *slot, slip__seat_t *seat, uint32_t first, uint32_t count);
// The whole task here and now, unless the run has failed or its predicate says no; nobody else knows of it, and it is not closed.
void slip__execute_here(slip__slot_t *slot, slip__seat_t *seat);
// The same, and closes it: no other thread knows of it, and nothing waits for it.
void slip__execute_alone(slip__slot_t *slot, slip__seat_t *seat);
// Closes a task and releases its consumers: the first that has become ready is returned for this thread to run next, the others are queued.
slip__slot_t *slip__complete(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *slot);
// Runs a ready task, then the consumers it releases, one after the other.
void slip__execute_chain(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *slot);
// A gang waits for threads: takes part in it.
void slip__execute_gang(slip__engine_t *engine, slip__seat_t *seat);
// Reads the predicate of a slot that has one.
bool slip__predicate_holds(const slip__slot_t *slot);
// Puts a ready task into the queue of the calling thread's seat.
void slip__make_ready(slip__seat_t *seat, slip__slot_t *slot);
// Finds something to do and does it: blocks on the board, the thread's own queue, those of the others. False if there was nothing.
bool slip__help(slip__engine_t *engine, slip__seat_t *seat);
// True if a sweep of the board and all queues sees a task. Its loads are seq_cst (park.h).
bool slip__work_is_visible(slip__engine_t *engine);
// A worker's life.
void slip__worker_main(void *seat);

#endif  // SLIPSTREAM_SRC_GRAPH_EXECUTE_H_
