// SPDX-License-Identifier: Apache-2.0
// The backstop of a run: what it does when nothing happens any more.
//
// By construction every wait ends: tasks wait for earlier ones only, and what no end of a task can free is refused at once (heap.c,
// schedule.c). What is left are causes outside of that argument: a defect of this engine, or memory that a kernel has overwritten. A
// submitter that has slept for a while therefore looks around, five times in a time-out. A run is stalled if in five looks in a row
//
//   - none of its tasks has ended since the look before,
//   - none lies where a thread could find it (queues, board), and no gang is about,
//   - every thread has been without a task since the look before: a worker sleeps or has turned, another run's submitter sleeps, has turned
//     or is gone.
//
// Looks are counted and not timed, since one may come as late as it likes, and a thread may turn, then take a task, in the middle of one.
// What can hide a task for how long, from a look (0) that saw progress on:
//
//   0  a finisher has closed a task and not yet put its successor into a queue
//   1  it has turned, so that the successor is in a queue: there, it is seen; or a thread has turned and taken it, unseen, meanwhile
//   2  that thread had turned before it took it
//   3  it has turned again: the task has ended, which is progress; or is on the board: there, it is seen, until its last block is taken
//   4  who took that block had turned before
//   5  has turned again: the block has ended, and the task with it
//
// So a long kernel is no stall, of whatever run: its thread does not turn. And the answer is safe: no thread knows a task of the run any
// more, so its slots can be taken back. Other runs may go on all the while. A wake that was lost is made good by the first look, since
// whoever looks helps.
//
//   word            operation                             order     pairs with
//   seat->turns     its thread, between tasks (store)     release   the look's acquire: what it ran before is over, and seen to be over
//   seat->active    its submitter is in a run (store 1)   relaxed   nothing: a late sight is corrected by the next look
//                   asleep, looking, or out (store 0)     release   as |turns|
//
// Everything here happens where a thread has nothing to do: nothing is added to a submit or a task.
#ifndef SLIPSTREAM_SRC_GRAPH_STALL_H_
#define SLIPSTREAM_SRC_GRAPH_STALL_H_

#include "graph/workspace.h"

#define SLIP__STALL_MS    500u        // default time-out
#define SLIP__STALL_NEVER UINT32_MAX  // as time-out: the submitter never looks

// Sleeps as submitter until a task of the run ends, |slot| for one; looks around when it has slept for long. A stalled run fails, and all
// its tasks are over afterwards, except the one being linked.
void slip__stall_sleep(slip__workspace_t *workspace, slip__slot_t *slot);
// Waits for |slot|, which an element access must follow. Returns early if the run has failed, or fails it when the time that the engine
// allows an element access (from |started_ns| on) is over.
void slip__stall_wait_element(slip__workspace_t *workspace, slip__slot_t *slot, uint64_t started_ns);

// The thread of |seat| has no task in its hands.
static inline void slip__stall_turn(slip__seat_t *seat) {
  if (__builtin_expect(seat->overflow != NULL, 0)) return;
  atomic_store_explicit(&seat->turns, atomic_load_explicit(&seat->turns, memory_order_relaxed) + 1, memory_order_release);
}
// The submitter's runs begin and end.
static inline void slip__stall_begin(slip__workspace_t *workspace) {
  atomic_store_explicit(&workspace->seat->active, 1, memory_order_relaxed);
}
static inline void slip__stall_end(slip__workspace_t *workspace) {
  slip__stall_turn(workspace->seat);
  atomic_store_explicit(&workspace->seat->active, 0, memory_order_release);
}

#endif  // SLIPSTREAM_SRC_GRAPH_STALL_H_
