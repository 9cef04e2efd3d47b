// SPDX-License-Identifier: Apache-2.0
// Tells the child of a fork from its parent: threads and locks do not survive a fork, and who owns some must notice.
#ifndef SLIPSTREAM_SRC_OS_FORK_H_
#define SLIPSTREAM_SRC_OS_FORK_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint32_t slip__fork_count;

// Starts counting forks, and registers |reset| (may be NULL) to run in each child, still single-threaded, to make its locks anew. Call
// before anything that must notice a fork is made; calling again with the same |reset| does nothing. At most 8 different ones.
void slip__fork_watch(void (*reset)(void));

// Holds |lock| across every fork from now on, so that the child finds whole what it guards, and the lock free. For locks under which
// nothing forks and no other guarded lock is taken. Calling again with the same |lock| does nothing. At most 8 different ones.
void slip__fork_guard(pthread_mutex_t *lock);

// Forks between the first process that watched and this one. Two equal numbers: the same process.
static inline uint32_t slip__fork_epoch(void) {
  return atomic_load_explicit(&slip__fork_count, memory_order_relaxed);
}

#endif  // SLIPSTREAM_SRC_OS_FORK_H_
