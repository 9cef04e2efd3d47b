// SPDX-License-Identifier: Apache-2.0
#include "os/fork.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#define SLIP__FORK_RESETS 8
#define SLIP__FORK_GUARDS 8

_Atomic uint32_t slip__fork_count;

// Filled from the front; an entry never changes again.
static _Atomic(void (*)(void)) slip__fork_resets[SLIP__FORK_RESETS];
static pthread_once_t slip__fork_once = PTHREAD_ONCE_INIT;

// As slip__fork_resets. |slip__fork_held| of them are locked while a fork is under way, which slip__fork_lock keeps to one at a time.
static _Atomic(pthread_mutex_t *) slip__fork_guards[SLIP__FORK_GUARDS];
static pthread_mutex_t slip__fork_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t slip__fork_held;

static void slip__fork_prepare(void) {
  (void)pthread_mutex_lock(&slip__fork_lock);
  for (slip__fork_held = 0; slip__fork_held < SLIP__FORK_GUARDS; ++slip__fork_held) {
    pthread_mutex_t *lock = atomic_load_explicit(&slip__fork_guards[slip__fork_held], memory_order_acquire);
    if (!lock) break;
    (void)pthread_mutex_lock(lock);
  }
}

// The child is a copy of the thread that locked, so it may unlock as well as the parent.
static void slip__fork_unlock(void) {
  while (slip__fork_held > 0) {
    (void)pthread_mutex_unlock(atomic_load_explicit(&slip__fork_guards[--slip__fork_held], memory_order_relaxed));
  }
  (void)pthread_mutex_unlock(&slip__fork_lock);
}

static void slip__fork_child(void) {
  slip__fork_unlock();
  atomic_fetch_add_explicit(&slip__fork_count, 1, memory_order_relaxed);
  for (size_t i = 0; i < SLIP__FORK_RESETS; ++i) {
    void (*reset)(void) = atomic_load_explicit(&slip__fork_resets[i], memory_order_acquire);
    if (reset) reset();
  }
}

static void slip__fork_register(void) {
  (void)pthread_atfork(slip__fork_prepare, slip__fork_unlock, slip__fork_child);
}

void slip__fork_guard(pthread_mutex_t *lock) {
  (void)pthread_once(&slip__fork_once, slip__fork_register);
  for (size_t i = 0; i < SLIP__FORK_GUARDS; ++i) {
    pthread_mutex_t *expected = NULL;
    // Release: pairs with the acquire of slip__fork_prepare.
    if (atomic_compare_exchange_strong_explicit(&slip__fork_guards[i], &expected, lock, memory_order_release, memory_order_relaxed)) return;
    if (expected == lock) return;
  }
  assert(false && "SLIP__FORK_GUARDS is too small");
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
