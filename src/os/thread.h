// SPDX-License-Identifier: Apache-2.0
// Threads, locks and the futex: thin names over POSIX and Linux.
#ifndef SLIPSTREAM_SRC_OS_THREAD_H_
#define SLIPSTREAM_SRC_OS_THREAD_H_

#include <pthread.h>
#include <stdatomic.h>

#include "slipstream/status.h"

typedef struct slip__thread_t {
  pthread_t handle;
  bool started;
} slip__thread_t;

// Starts |run|(|user|) on a thread that has all signals but its own faults (SIGSEGV and kin) blocked and the name |name| (cut to 15 bytes).
// OUT_OF_MEMORY or UNSUPPORTED with errno.
slip_status_t slip__thread_start(slip__thread_t *thread, const char *name, void (*run)(void *user), void *user) SLIP_MUST_USE;
// Joins a started thread; a thread that never started is fine.
void slip__thread_join(slip__thread_t *thread);
// Binds the calling thread to |core|; false if that is not allowed.
bool slip__thread_bind_self(uint32_t core);

// Lets another runnable thread have this core.
void slip__thread_yield(void);

// Sleeps while |*word| is |expected|, until woken or |timeout_ns| (< 0: for ever) is over. May return early. False on time-out.
bool slip__futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
// Wakes at most |count| sleepers.
void slip__futex_wake(_Atomic uint32_t *word, uint32_t count);

// A pause inside a spin loop.
static inline void slip__cpu_relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif  // SLIPSTREAM_SRC_OS_THREAD_H_
