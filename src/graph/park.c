// SPDX-License-Identifier: Apache-2.0
#include "graph/park.h"

#include "graph/execute.h"
#include "os/chaos.h"
#include "os/clock.h"

static void slip__unpark(slip__seat_t *seat) {
  atomic_store_explicit(&seat->parked, 0, memory_order_release);
  slip__futex_wake(&seat->parked, 1);
}

void slip__wake_workers_slow(slip__engine_t *engine, uint32_t count) {
  for (uint32_t word = 0; word < engine->idle_words && count; ++word) {
    uint64_t idle = atomic_load_explicit(&engine->idle[word], memory_order_relaxed);
    while (idle && count) {
      uint64_t bit = idle & (~idle + 1u);
      idle &= ~bit;
      // The bit is the right to wake that worker, and it is taken once.
      if (!(atomic_fetch_and_explicit(&engine->idle[word], ~bit, memory_order_seq_cst) & bit)) continue;
      slip__chaos_point(SLIP__CHAOS_WAKE);
      slip__unpark(engine->seats[word * 64 + (uint32_t)__builtin_ctzll(bit)]);
      --count;
    }
  }
}

void slip__wake_submitter_slow(slip__seat_t *seat) {
  if (atomic_exchange_explicit(&seat->parked, 0, memory_order_acq_rel)) slip__futex_wake(&seat->parked, 1);
}

// How long this thread spins; 0: it has learnt nothing yet. It belongs to the thread, not to its seat: what it tells is who else wants the
// core that the thread runs on.
static _Thread_local uint32_t slip__spin_budget_ns;

// True if it is time to sleep, because others want the core (a stretch of spinning took much longer than it does alone) or because the
// budget is spent.
static bool slip__spin_is_over(slip__idle_t *idle, uint64_t now) {
  uint32_t budget = slip__spin_budget_ns ? slip__spin_budget_ns : SLIP__SPIN_NS;
  bool shared = now - idle->looked_ns > SLIP__SPIN_STRETCH_NS;
  uint32_t learnt = shared ? budget / 4 : budget + budget / 8;
  if (learnt < SLIP__SPIN_LEAST_NS) learnt = SLIP__SPIN_LEAST_NS;
  if (learnt > SLIP__SPIN_NS) learnt = SLIP__SPIN_NS;
  slip__spin_budget_ns = learnt;
  return shared || now - idle->since_ns > budget;
}

bool slip__idle_spin(slip__idle_t *idle) {
  // Each look at the queues takes their cache lines from the threads that fill them: look less often the longer nothing has come.
  uint32_t pauses = idle->rounds < 16 ? 1 : 16;
  for (uint32_t i = 0; i < pauses; ++i) slip__cpu_relax();
  if (++idle->rounds % 32 != 0) return false;
  uint64_t now = slip__clock_now_ns();
  if (idle->since_ns == 0) idle->since_ns = idle->looked_ns = now;
  if (slip__spin_is_over(idle, now)) return true;
  idle->looked_ns = now;
  if (now - idle->since_ns > SLIP__SPIN_YIELD_NS) slip__thread_yield();
  return false;
}

void slip__park_worker(slip__engine_t *engine, slip__seat_t *seat) {
  _Atomic uint64_t *word = &engine->idle[seat->index / 64];
  uint64_t bit = UINT64_C(1) << (seat->index % 64);
  atomic_store_explicit(&seat->parked, 1, memory_order_relaxed);  // before the bit, by the order of that exchange
  (void)atomic_fetch_or_explicit(word, bit, memory_order_seq_cst);
  slip__chaos_point(SLIP__CHAOS_PARK);
  if (!slip__work_is_visible(engine) && !atomic_load_explicit(&engine->stop, memory_order_seq_cst)) {
    slip__chaos_point(SLIP__CHAOS_SLEEP);
    while (atomic_load_explicit(&seat->parked, memory_order_acquire)) (void)slip__futex_wait(&seat->parked, 1, -1);
  }
  // The waker has taken the bit; or there is something to do; or a waker of an earlier sleep came late. The bit must not outlive the sleep:
  // it would draw wakes that others need. A waker that takes it right now sets |parked| to 0 as well: the same value.
  if (atomic_load_explicit(word, memory_order_relaxed) & bit) (void)atomic_fetch_and_explicit(word, ~bit, memory_order_seq_cst);
  atomic_store_explicit(&seat->parked, 0, memory_order_relaxed);
}

bool slip__park_submitter(slip__seat_t *seat, slip__slot_t *oldest, int64_t timeout_ns) {
  bool in_time = true;
  atomic_store_explicit(&seat->parked, 1, memory_order_seq_cst);
  slip__chaos_point(SLIP__CHAOS_PARK);
  if (atomic_load_explicit(&oldest->successors, memory_order_seq_cst) != SLIP__SUCCESSORS_CLOSED && !slip__work_is_visible(seat->engine)) {
    slip__chaos_point(SLIP__CHAOS_SLEEP);
    while (in_time && atomic_load_explicit(&seat->parked, memory_order_acquire)) in_time = slip__futex_wait(&seat->parked, 1, timeout_ns);
  }
  // On time-out a waker may be just about to come: it then finds 0, or wakes nobody.
  atomic_store_explicit(&seat->parked, 0, memory_order_relaxed);
  return in_time;
}
