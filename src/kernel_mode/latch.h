// SPDX-License-Identifier: Apache-2.0
// The process mode latch (30.1): which contract this process runs under. One atomic word and no lock, so that nothing about it can be
// inherited half-done.
//
//   word        becomes so by                                            claim(PROGRAM)   claim(KERNEL)    after fork, in the child
//   UNCLAIMED   program start                                            -> PROGRAM       -> KERNEL        UNCLAIMED
//   PROGRAM     claim                                                    OK               MODE_CONFLICT    UNCLAIMED
//   KERNEL      claim                                                    MODE_CONFLICT    OK               FORKED
//   FORKED      fork child callback (os/fork.h) of a KERNEL process      FORKED           FORKED           FORKED
//
// The claim is one compare-and-swap from UNCLAIMED: of racing claims exactly one wins and the others see its mode before they have touched
// anything. No transition leaves PROGRAM, KERNEL or FORKED except the child callback, which runs in the child while it is single-threaded,
// before fork() returns there. Memory order: the word orders nothing but itself (relaxed), since what a claim protects is made afterwards
// by the thread that claimed, and handed to others through the context's own state.
//
// Every entry of kernel mode asks slip__latch_check() first and touches nothing else in a FORKED process: locks may have been held by
// threads that do not exist here.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_LATCH_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_LATCH_H_

#include <stdatomic.h>

#include "slipstream/context.h"

#define SLIP__LATCH_FORKED 3u  // beyond slip_mode_e: never shown outside

extern _Atomic uint32_t slip__latch_word;

// MODE_CONFLICT or FORKED leave everything as it was; claiming the held mode again is OK.
slip_status_t slip__latch_claim(slip_mode_e mode) SLIP_MUST_USE;

static inline bool slip__latch_forked(void) {
  return __builtin_expect(atomic_load_explicit(&slip__latch_word, memory_order_relaxed) == SLIP__LATCH_FORKED, 0);
}
// The FORKED refusal, naming |what| was asked.
slip_status_t slip__latch_refuse(const char *what) SLIP_MUST_USE;
static inline SLIP_MUST_USE slip_status_t slip__latch_check(const char *what) {
  return slip__latch_forked() ? slip__latch_refuse(what) : slip_ok_status();
}

// Registers |reset| to run in the fork child of a process that did not claim kernel mode, where it re-makes locks and tables as at program
// start. Called by constructors only.
void slip__latch_on_fork(void (*reset)(void));

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_LATCH_H_
