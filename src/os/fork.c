// SPDX-License-Identifier: Apache-2.0
#include "os/fork.h"

#include <assert.h>
#include <pthread.h>
#include <stddef.h>

#define SLIP__FORK_RESETS 8

_Atomic uint32_t slip__fork_count;

// Filled from the front; an entry never changes again.
static _Atomic(void (*)(void)) slip__fork_resets[SLIP__FORK_RESETS];
static pthread_once_t slip__fork_once = PTHREAD_ONCE_INIT;

static void slip__fork_child(void) {
  atomic_fetch_add_explicit(&slip__fork_count, 1, memory_order_relaxed);
  for (size_t i = 0; i < SLIP__FORK_RESETS; ++i) {
    void (*reset)(void) = atomic_load_explicit(&slip__fork_resets[i], memory_order_acquire);
    if (reset) reset();
  }
}

static void slip__fork_register(void) {
  (void)pthread_atfork(NULL, NULL, slip__fork_child);
}

void slip__fork_watch(void (*reset)(void)) {
  (void)pthread_once(&slip__fork_once, slip__fork_register);
  for (size_t i = 0; reset && i < SLIP__FORK_RESETS; ++i) {
    void (*expected)(void) = NULL;
    // Release: pairs with the acquire of slip__fork_child.
    if (atomic_compare_exchange_strong_explicit(&slip__fork_resets[i], &expected, reset, memory_order_release, memory_order_relaxed))
      return;
    if (expected == reset) return;
  }
  assert(!reset && "SLIP__FORK_RESETS is too small");
}
