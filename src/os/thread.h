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

// Stack of a thread, below which a guard page lies. Less than a huge page, so that the system never makes one of an almost unused stack,
// and so that a host that locks its memory does not pay 8 MiB a thread. Sanitizers need more of everything.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLIP__THREAD_STACK_BYTES ((size_t)8 << 20)
#else
#define SLIP__THREAD_STACK_BYTES ((size_t)1 << 20)
#endif

// Starts |run|(|user|) on a thread that has all signals blocked but those that its own instructions raise (SIGSEGV and kin) and the name
// |name| (cut to 15 bytes).
// OUT_OF_MEMORY or UNSUPPORTED with errno.
slip_status_t slip__thread_start(slip__thread_t *thread, const char *name, void (*run)(void *user), void *user) SLIP_MUST_USE;
// Joins a started thread; a thread that never started is fine.
void slip__thread_join(slip__thread_t *thread);
// Binds the calling thread, or a started one, to |core|; false if that is not allowed.
bool slip__thread_bind_self(uint32_t core);
bool slip__thread_bind(const slip__thread_t *thread, uint32_t core);

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
