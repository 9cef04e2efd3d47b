// SPDX-License-Identifier: Apache-2.0
// Life of an engine: threads, seats, scratch.
#include "graph/engine.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/allocator.h"
#include "graph/crash.h"
#include "graph/execute.h"
#include "graph/park.h"
#include "graph/recorded/cache.h"
#include "graph/schedule.h"
#include "graph/stall.h"
#include "os/topology.h"

#define SLIP__SCRATCH_HEAD 64u

// Gives |seat| scratch of at least |bytes|; what it had stays valid.
static slip_status_t slip__seat_grow_scratch(slip__engine_t *engine, slip__seat_t *seat, uint32_t bytes) {
  char *old = atomic_load_explicit(&seat->scratch, memory_order_relaxed);  // writers hold the engine's lock
  slip__scratch_t *old_head = old ? (slip__scratch_t *)(void *)(old - SLIP__SCRATCH_HEAD) : NULL;
  if (bytes == 0 || (old_head && old_head->bytes >= bytes)) return slip_ok_status();
  // Straight from the allocator: the helpers zero what they return, which would commit scratch that no kernel may ever use.
  size_t size = (size_t)bytes + SLIP__SCRATCH_HEAD;
  void *memory = engine->allocator.control(engine->allocator.self, NULL, 0, size, 64);
  if (!memory) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for %zu bytes of kernel scratch", size);
  slip__scratch_t *head = memory;
  head->older = old_head;
  head->bytes = bytes;
  atomic_store_explicit(&seat->scratch, (char *)memory + SLIP__SCRATCH_HEAD, memory_order_release);
  return slip_ok_status();
}

static void slip__seat_free(slip__engine_t *engine, slip__seat_t *seat) {
  char *scratch = atomic_load_explicit(&seat->scratch, memory_order_relaxed);
  slip__scratch_t *head = scratch ? (slip__scratch_t *)(void *)(scratch - SLIP__SCRATCH_HEAD) : NULL;
  while (head) {
    slip__scratch_t *older = head->older;
    slip__free_aligned(engine->allocator, head, (size_t)head->bytes + SLIP__SCRATCH_HEAD, 64);
    head = older;
  }
  slip__free_aligned(engine->allocator, seat, sizeof(*seat), 128);
}

// Under the lock, or before any thread has started.
static slip_status_t slip__engine_add_seat(slip__engine_t *engine, slip__seat_t **out) {
  uint32_t index = atomic_load_explicit(&engine->seat_count, memory_order_relaxed);
  void *memory;
  *out = NULL;
  if (index == SLIP__MAX_SEATS) {
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "an engine has room for %d threads and workspaces together; destroy some", SLIP__MAX_SEATS);
  }
  SLIP_RETURN_IF_ERROR(slip__alloc_aligned(engine->allocator, sizeof(slip__seat_t), 128, &memory));
  slip__seat_t *seat = memory;
  seat->index = index;
  seat->engine = engine;
  seat->notes = slip__crash_wanted();
  slip_status_t status = slip__seat_grow_scratch(engine, seat, slip__engine_scratch_bytes(engine));
  if (!slip_status_is_ok(status)) {
    slip__seat_free(engine, seat);
    return status;
  }
  engine->seats[index] = seat;
  atomic_store_explicit(&engine->seat_count, index + 1, memory_order_release);
  *out = seat;
  return slip_ok_status();
}

// Each worker to a core of its own. Never the caller's thread, and never a core outside the caller's mask: workers inherit that. Without a
// core to spare for the caller nobody is pinned: two threads nailed to one core cannot make way for each other.
static void slip__engine_pin(slip__engine_t *engine) {
  uint32_t cores[SLIP__TOPOLOGY_SPREAD_MAX];
  uint32_t count = slip__topology_core_list(cores, SLIP__TOPOLOGY_SPREAD_MAX);
  if (count <= engine->worker_count) return;
  slip__topology_spread("/sys/devices/system/cpu", slip__topology_current_core(), cores, count);
  // A refusal leaves the worker where it may run anyway.
  for (uint32_t i = 0; i < engine->worker_count; ++i) (void)slip__thread_bind(&engine->seats[i]->thread, cores[i]);
}

static slip_status_t slip__engine_start(slip__engine_t *engine, bool pin) {
  for (uint32_t i = 0; i < engine->worker_count; ++i) {
    slip__seat_t *seat;
    SLIP_RETURN_IF_ERROR(slip__engine_add_seat(engine, &seat));
  }
  for (uint32_t i = 0; i < engine->worker_count; ++i) {
    char name[32];
    (void)snprintf(name, sizeof(name), "slip-worker-%" PRIu32, i + 1);
    SLIP_RETURN_IF_ERROR(slip__thread_start(&engine->seats[i]->thread, name, slip__worker_main, engine->seats[i]));
  }
  if (pin) slip__engine_pin(engine);
  return slip_ok_status();
}

slip_status_t slip__engine_create(const slip__engine_options_t *options, slip__engine_t **out) {
  *out = NULL;
  slip_allocator_t allocator = slip__allocator_or_system(options->allocator);
  void *memory;
  SLIP_RETURN_IF_ERROR(slip__alloc_aligned(allocator, sizeof(slip__engine_t), 128, &memory));
  slip__engine_t *engine = memory;
  engine->allocator = allocator;
  uint32_t threads = options->serial ? 1 : options->thread_count ? options->thread_count : slip__topology_usable_cores();
  if (threads > SLIP__MAX_WORKERS) threads = SLIP__MAX_WORKERS;
  engine->thread_count = threads;
  engine->worker_count = threads - 1;
  engine->stall_timeout_ms = options->stall_timeout_ms ? options->stall_timeout_ms : SLIP__STALL_MS;
  engine->element_timeout_ms = options->element_timeout_ms;
  engine->idle_words = (engine->worker_count + 63) / 64;
  atomic_store_explicit(&engine->scratch_bytes, options->scratch_bytes, memory_order_relaxed);
  (void)pthread_mutex_init(&engine->lock, NULL);
  slip__board_initialize(&engine->board);
  slip_status_t status = slip__record_back_create(allocator, &engine->recorded);
  if (slip_status_is_ok(status)) status = slip__engine_start(engine, options->pin_workers != 0);
  if (!slip_status_is_ok(status)) {
    slip__engine_destroy(engine);
    return slip_status_annotate(status, "starting an engine of %" PRIu32 " threads", threads);
  }
  *out = engine;
  return status;
}

void slip__engine_destroy(slip__engine_t *engine) {
  if (!engine) return;
  // Release: pairs with the acquire in slip__park_worker and slip__worker_main. seq_cst with the idle bits, as a task made ready.
  atomic_store_explicit(&engine->stop, 1, memory_order_seq_cst);
  slip__wake_workers(engine, engine->worker_count);
  uint32_t count = atomic_load_explicit(&engine->seat_count, memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) slip__thread_join(&engine->seats[i]->thread);
  for (uint32_t i = 0; i < count; ++i) slip__seat_free(engine, engine->seats[i]);
  slip__record_back_destroy(engine->recorded);
  (void)pthread_mutex_destroy(&engine->lock);
  slip_allocator_t allocator = engine->allocator;
  slip__free_aligned(allocator, engine, sizeof(*engine), 128);
}

uint32_t slip__engine_thread_count(const slip__engine_t *engine) {
  return engine->thread_count;
}

uint32_t slip__engine_scratch_bytes(const slip__engine_t *engine) {
  return atomic_load_explicit(&engine->scratch_bytes, memory_order_relaxed);
}

slip_status_t slip__engine_reserve_scratch(slip__engine_t *engine, uint32_t bytes) {
  slip_status_t status = slip_ok_status();
  (void)pthread_mutex_lock(&engine->lock);
  uint32_t count = atomic_load_explicit(&engine->seat_count, memory_order_relaxed);
  for (uint32_t i = 0; i < count && slip_status_is_ok(status); ++i) status = slip__seat_grow_scratch(engine, engine->seats[i], bytes);
  if (slip_status_is_ok(status) && bytes > slip__engine_scratch_bytes(engine)) {
    atomic_store_explicit(&engine->scratch_bytes, bytes, memory_order_relaxed);
  }
  (void)pthread_mutex_unlock(&engine->lock);
  return slip_status_annotate(status, "reserving %" PRIu32 " bytes of kernel scratch a thread", bytes);
}

slip_status_t slip__engine_take_seat(slip__engine_t *engine, slip__seat_t **out) {
  slip_status_t status = slip_ok_status();
  (void)pthread_mutex_lock(&engine->lock);
  if (engine->free_count) {
    *out = engine->seats[engine->free_seats[--engine->free_count]];
  } else {
    status = slip__engine_add_seat(engine, out);
  }
  (void)pthread_mutex_unlock(&engine->lock);
  return status;
}

void slip__engine_return_seat(slip__engine_t *engine, slip__seat_t *seat) {
  (void)pthread_mutex_lock(&engine->lock);
  engine->free_seats[engine->free_count++] = seat->index;
  (void)pthread_mutex_unlock(&engine->lock);
}

uint64_t slip__engine_next_form_id(slip__engine_t *engine) {
  (void)pthread_mutex_lock(&engine->lock);
  uint64_t space = ++engine->form_spaces;
  (void)pthread_mutex_unlock(&engine->lock);
  return space << 40;
}
