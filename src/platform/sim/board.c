// SPDX-License-Identifier: Apache-2.0
// The board: one lock, its waiting, its tables.
#include "platform/sim/board.h"

#include <threads.h>

#include "base/allocator.h"
#include "os/fork.h"

static pthread_mutex_t slip__sim_board = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t slip__sim_progress;
static uint32_t slip__sim_progress_waiters;  // guarded by the board

// The waiters are the parent's.
static void slip__sim_board_fork_reset(void) {
  slip__sim_progress_waiters = 0;
  slip__sim_role = SLIP__SIM_ROLE_HOST;
  slip__sim_running_device = -1;
  for (size_t i = 0; i < SLIP__SIM_MAX_DEVICES; ++i) atomic_store_explicit(&slip__sim_running[i], 0, memory_order_relaxed);
}

void slip__sim_stream_watch_fork(void) {
  slip__fork_watch(slip__sim_board_fork_reset);
  slip__fork_guard(&slip__sim_board);
}

void slip__sim_board_lock(void) {
  (void)pthread_mutex_lock(&slip__sim_board);
}

void slip__sim_board_unlock(void) {
  (void)pthread_mutex_unlock(&slip__sim_board);
}

void slip__sim_board_wait(void) {
  uint32_t seen = atomic_load_explicit(&slip__sim_progress, memory_order_relaxed);
  ++slip__sim_progress_waiters;
  slip__sim_board_unlock();
  (void)slip__futex_wait(&slip__sim_progress, seen, -1);
  slip__sim_board_lock();
  --slip__sim_progress_waiters;
}

void slip__sim_board_notify(void) {
  // Relaxed: the lock orders it; a sleeper that read the old number does not fall asleep on the new one.
  atomic_fetch_add_explicit(&slip__sim_progress, 1, memory_order_relaxed);
  if (slip__sim_progress_waiters > 0) slip__futex_wake(&slip__sim_progress, INT32_MAX);
}

slip_status_t slip__sim_board_enter(const char *call) {
  static _Atomic uint64_t ordinal;
  SLIP_RETURN_IF_ERROR(slip__sim_enter(call));
  uint64_t number = atomic_fetch_add_explicit(&ordinal, 1, memory_order_relaxed);
  if (slip__sim_config()->delay_ns > 0 && slip__sim_random((uint64_t)(unsigned char)call[0] << 56, number) % 8 == 0) thrd_yield();
  return slip_ok_status();
}

slip_status_t slip__sim_table_add(slip__sim_table_t *table, size_t size_bytes, void **out, uint32_t *out_index) {
  *out = NULL;
  *out_index = 0;
  if (table->count == SLIP__SIM_MAX_HANDLES) return slip__sim_error(SLIP__SIM_OUT_OF_RESOURCES, "%u objects of one kind", table->count);
  if (table->count == table->capacity) {
    uint32_t capacity = table->capacity ? 2 * table->capacity : 64;
    void *slots = table->slots;
    SLIP_RETURN_IF_ERROR(slip__realloc(slip_allocator_system(), table->capacity * sizeof(void *), capacity * sizeof(void *), &slots));
    table->slots = slots;
    table->capacity = capacity;
  }
  SLIP_RETURN_IF_ERROR(slip__alloc(slip_allocator_system(), size_bytes, out));
  *out_index = table->count;
  table->slots[table->count++] = *out;
  return slip_ok_status();
}
