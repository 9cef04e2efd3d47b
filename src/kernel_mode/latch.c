// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/latch.h"

#include <stddef.h>

#include "os/fork.h"

#define SLIP__LATCH_MAX_RESETS 4

_Atomic uint32_t slip__latch_word = SLIP_MODE_UNCLAIMED;

static void (*slip__latch_resets[SLIP__LATCH_MAX_RESETS])(void);
static size_t slip__latch_reset_count;

// Single-threaded here; async-signal-safe: plain stores and initialisers only.
static void slip__latch_child(void) {
  uint32_t word = atomic_load_explicit(&slip__latch_word, memory_order_relaxed);
  if (word == SLIP_MODE_KERNEL || word == SLIP__LATCH_FORKED) {
    atomic_store_explicit(&slip__latch_word, SLIP__LATCH_FORKED, memory_order_relaxed);
    return;
  }
  atomic_store_explicit(&slip__latch_word, SLIP_MODE_UNCLAIMED, memory_order_relaxed);
  for (size_t i = 0; i < slip__latch_reset_count; ++i) slip__latch_resets[i]();
}

// In a constructor and not at the first claim: a fork that races with the first claim would find the callback half-registered.
__attribute__((constructor)) static void slip__latch_install(void) {
  slip__fork_watch(slip__latch_child);
}

void slip__latch_on_fork(void (*reset)(void)) {
  if (slip__latch_reset_count < SLIP__LATCH_MAX_RESETS) slip__latch_resets[slip__latch_reset_count++] = reset;
}

slip_status_t slip__latch_refuse(const char *what) {
  return SLIP_STATUS(SLIP_CODE_FORKED,
                     "%s in a process forked from one that had claimed kernel mode: device, threads and locks stayed in the parent; start "
                     "workers with spawn (or fork before "
                     "the first slip_context_open)",
                     what);
}

slip_status_t slip__latch_claim(slip_mode_e mode) {
  uint32_t seen = SLIP_MODE_UNCLAIMED;
  if (atomic_compare_exchange_strong_explicit(&slip__latch_word, &seen, (uint32_t)mode, memory_order_relaxed, memory_order_relaxed))
    return slip_ok_status();
  if (seen == (uint32_t)mode) return slip_ok_status();
  const char *wanted = mode == SLIP_MODE_KERNEL ? "kernel" : "program";
  if (seen == SLIP__LATCH_FORKED) return slip__latch_refuse(mode == SLIP_MODE_KERNEL ? "claiming kernel mode" : "claiming program mode");
  return SLIP_STATUS(SLIP_CODE_MODE_CONFLICT,
                     "%s mode was asked for, but this process is claimed for %s mode, which lasts until it ends; use another process",
                     wanted, seen == SLIP_MODE_KERNEL ? "kernel" : "program");
}

slip_mode_e slip_process_mode(void) {
  uint32_t word = atomic_load_explicit(&slip__latch_word, memory_order_relaxed);
  return word == SLIP__LATCH_FORKED ? SLIP_MODE_KERNEL : (slip_mode_e)word;
}
