// SPDX-License-Identifier: Apache-2.0
// An event count: lets a thread sleep until "something changed", at no cost to the changer while nobody sleeps.
//
//   changer                                        sleeper
//   C1 change the condition (seq_cst RMW)          S1 waiters += 1 (seq_cst)
//   C2 load waiters (seq_cst); 0: done             S2 key = sequence (seq_cst load)
//   C3 sequence += 1, wake all                     S3 check the condition (seq_cst or acquire load); true: go on
//                                                  S4 futex wait while sequence == key
// No wake-up is lost: if S3 does not see C1, then S3 precedes C1 in the order of sequentially consistent operations, hence S1 precedes C2,
// which sees the sleeper; C3 then changes |sequence| after S2 read it, so S4 does not sleep or is woken. An acquire load at S3 is no member
// of that order, but no machine lets it pass S2, the seq_cst load before it. Checked by signal.pml, also with store buffers.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_SIGNAL_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_SIGNAL_H_

#include <limits.h>

#include "os/thread.h"

typedef struct slip__signal_t {
  _Atomic uint32_t sequence;
  _Atomic uint32_t waiters;
} slip__signal_t;

// C2, C3: after the condition was changed by a sequentially consistent read-modify-write.
static inline void slip__signal_raise(slip__signal_t *signal) {
  if (__builtin_expect(atomic_load_explicit(&signal->waiters, memory_order_seq_cst) == 0, 1)) return;
  atomic_fetch_add_explicit(&signal->sequence, 1, memory_order_seq_cst);
  slip__futex_wake(&signal->sequence, INT_MAX);
}

// S1, S2. Each call is followed by exactly one slip__signal_leave(), with any number of slip__signal_sleep() in between.
static inline uint32_t slip__signal_enter(slip__signal_t *signal) {
  atomic_fetch_add_explicit(&signal->waiters, 1, memory_order_seq_cst);
  return atomic_load_explicit(&signal->sequence, memory_order_seq_cst);
}
// S4. False on time-out. Returns the next key through |inout_key|.
static inline bool slip__signal_sleep(slip__signal_t *signal, uint32_t *inout_key, int64_t timeout_ns) {
  bool woken = slip__futex_wait(&signal->sequence, *inout_key, timeout_ns);
  *inout_key = atomic_load_explicit(&signal->sequence, memory_order_seq_cst);
  return woken;
}
static inline void slip__signal_leave(slip__signal_t *signal) {
  atomic_fetch_sub_explicit(&signal->waiters, 1, memory_order_relaxed);
}

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_SIGNAL_H_
