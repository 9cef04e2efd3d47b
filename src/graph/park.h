// SPDX-License-Identifier: Apache-2.0
// Sleeping and waking.
//
// A worker without work spins for at most SLIP__SPIN_NS, then sleeps until a task is made ready. A submitter that waits for its run helps,
// then spins, then sleeps until a task of its run ends. Neither may sleep through what it waits for:
//
//   worker                                        whoever wakes for tasks: a finisher, or a submitter that begins to wait
//   parked = 1
//   idle bit set               (seq_cst)          task made visible: slip__queue_settle, or a board bit          (seq_cst)
//   looks at queues and board  (seq_cst)          looks at the idle bits                                         (seq_cst)
//   nothing: sleeps while parked is 1             clears a bit it found; if it was set: parked = 0, wake
//
// While it submits, a submitter only publishes (release) and looks: a worker that falls asleep at that moment may miss the task, and is
// seen at the next submit, or when the submitter begins to wait.
//
//   submitter                                     whoever completes one of its tasks, or opens a gang of its run
//   parked = 1                 (seq_cst)          successor list closed, or the gang's board bit set     (seq_cst)
//   looks at its oldest task, queues and board    looks at parked                                        (seq_cst)
//                              (seq_cst)
//   not over: sleeps while parked is 1            1: parked = 0, wake
//
// Each is store, then load, on both sides, in the one order of seq_cst operations: at least one side sees the other's store. A park word
// lies in a seat, which lives as long as the engine: a wake may come after the run is over, and then does nothing (a sleep that ends early
// is looked at and repeated). |parked| itself is published by release and read by acquire; nothing travels with it.
#ifndef SLIPSTREAM_SRC_GRAPH_PARK_H_
#define SLIPSTREAM_SRC_GRAPH_PARK_H_

#include "graph/state.h"

// A futex wake takes 12-36 us to arrive, so spinning about twice that long loses less than it saves.
#define SLIP__SPIN_NS 60000u
// Others may want the core: the host's own threads, another context's, another process. After SLIP__SPIN_YIELD_NS the spinner offers it at
// every look at the clock (a few us apart). A look that comes SLIP__SPIN_STRETCH_NS late shows that somebody took it: then the thread
// sleeps at once, and spins for a quarter of the time from now on, but for SLIP__SPIN_LEAST_NS at least; looks that come in time win it
// back by eighths.
#define SLIP__SPIN_YIELD_NS   10000u
#define SLIP__SPIN_STRETCH_NS 100000u
#define SLIP__SPIN_LEAST_NS   2000u

// Wakes at most |count| sleeping workers.
void slip__wake_workers_slow(slip__engine_t *engine, uint32_t count);
static inline bool slip__workers_sleep(slip__engine_t *engine) {
  for (uint32_t i = 0; i < engine->idle_words; ++i) {
    if (atomic_load_explicit(&engine->idle[i], memory_order_seq_cst) != 0) return true;
  }
  return false;
}
static inline void slip__wake_workers(slip__engine_t *engine, uint32_t count) {
  if (__builtin_expect(slip__workers_sleep(engine), 0)) slip__wake_workers_slow(engine, count);
}
// Wakes workers for |count| tasks that the calling thread has put into its queue.
static inline void slip__wake_for_queued(slip__engine_t *engine, slip__seat_t *seat, uint32_t count) {
  slip__queue_settle(&seat->queue);
  slip__wake_workers(engine, count);
}
// Wakes the submitter of |seat| if it sleeps.
void slip__wake_submitter_slow(slip__seat_t *seat);
static inline void slip__wake_submitter(slip__seat_t *seat) {
  if (__builtin_expect(atomic_load_explicit(&seat->parked, memory_order_seq_cst) != 0, 0)) slip__wake_submitter_slow(seat);
}

// How long a thread has been without work.
typedef struct slip__idle_t {
  uint64_t since_ns;   // 0: it has just begun
  uint64_t looked_ns;  // the last look at the clock
  uint32_t rounds;
} slip__idle_t;
// One round of waiting. True once the time for spinning is over.
bool slip__idle_spin(slip__idle_t *idle);

// Sleeps as worker until woken. Returns at once if there is something to do.
void slip__park_worker(slip__engine_t *engine, slip__seat_t *seat);
// Sleeps as submitter until a task of its run ends, unless |oldest| has ended already, at most |timeout_ns| (< 0: for ever). False on
// time-out.
bool slip__park_submitter(slip__seat_t *seat, slip__slot_t *oldest, int64_t timeout_ns);

#endif  // SLIPSTREAM_SRC_GRAPH_PARK_H_
