// SPDX-License-Identifier: Apache-2.0
// From a filled slot to a task that has run: what the submitter asks of the scheduler.
#ifndef SLIPSTREAM_SRC_GRAPH_SCHEDULE_H_
#define SLIPSTREAM_SRC_GRAPH_SCHEDULE_H_

#include "graph/state.h"
#include "graph/workspace.h"

// Once a submit, before all below. True: it is cheaper to run the task here and now, if it is ready and short (balance.h), or nobody else
// could.
static inline bool slip__submit_alone(slip__workspace_t *workspace) {
  return workspace->engine->worker_count == 0 || slip__balance_alone(&workspace->balance);
}
// True if all tasks of the run have retired.
static inline bool slip__nothing_in_flight(const slip__workspace_t *workspace) {
  uint64_t live = 0;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) live += slip__ring_live(&workspace->rings[i]);
  return live == 0;
}
// Hands the filled slot of the next task over, which has been taken, with |workspace->accesses|: finds what it depends on, and queues it
// now or leaves that to its last producer. A task that comes when nothing else is in flight is held instead, so that a run of one task
// never leaves its thread. |alone|: what slip__submit_alone() said.
void slip__dispatch(slip__workspace_t *workspace, slip__slot_t *slot, slip_task_t task, uint32_t access_count, const slip_task_t *deps,
                    uint32_t dep_count, bool alone);
// Hands over the held task, if there is one.
void slip__release_held_slow(slip__workspace_t *workspace);
static inline void slip__release_held(slip__workspace_t *workspace) {
  if (workspace->held) slip__release_held_slow(workspace);
}
// Retires what has completed in every ring.
void slip__retire_all(slip__workspace_t *workspace);
// Executes tasks of any run until all tasks of ring |index| below |sequence| have retired.
void slip__wait_retired(slip__workspace_t *workspace, uint32_t index, uint64_t sequence);
// Executes tasks until those are over that an access of the element at |address| must follow.
void slip__wait_element(slip__workspace_t *workspace, const slip_otensor_t *tensor, const void *address, bool is_write);
// Executes tasks until those are over that an access of the |bytes| at |address|, anywhere in them, must follow.
void slip__wait_region(slip__workspace_t *workspace, const void *storage, const void *address, uint64_t bytes, bool is_write);
// Starts a run: nothing is in flight.
void slip__schedule_begin(slip__workspace_t *workspace);
// Executes tasks until all of this run are over, and empties the rings.
void slip__schedule_finish(slip__workspace_t *workspace);

// A seat for a submitter, kept until it is given back. OUT_OF_MEMORY. (engine.c)
slip_status_t slip__engine_take_seat(slip__engine_t *engine, slip__seat_t **out) SLIP_MUST_USE;
// Where the form ids of one more workspace begin.
uint64_t slip__engine_next_form_id(slip__engine_t *engine);
// Scratch that every thread has.
uint32_t slip__engine_scratch_bytes(const slip__engine_t *engine);
void slip__engine_return_seat(slip__engine_t *engine, slip__seat_t *seat);

#endif  // SLIPSTREAM_SRC_GRAPH_SCHEDULE_H_
