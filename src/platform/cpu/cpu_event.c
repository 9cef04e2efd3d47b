// SPDX-License-Identifier: Apache-2.0
// Events: see cpu.h. An event holds one word, the mark of its last record.
#include "base/allocator.h"
#include "os/fork.h"
#include "os/thread.h"
#include "platform/cpu/cpu.h"

#define SLIP__CPU_EVENT_TAG   0xe5u
#define SLIP__CPU_EVENT_CHUNK 256u

typedef struct slip__cpu_event_t {
  _Atomic uint64_t mark;
  _Atomic uint32_t generation;  // of the handle that is valid now; even: no handle is
  uint32_t next_free;           // index + 1; guarded by slip__cpu_event_lock
} slip__cpu_event_t;

// Chunks are made when first needed and stay until the process ends, so a stale handle never leads to freed memory.
static _Atomic(slip__cpu_event_t *) slip__cpu_event_chunks[SLIP__CPU_MAX_EVENTS / SLIP__CPU_EVENT_CHUNK];
static pthread_mutex_t slip__cpu_event_lock = PTHREAD_MUTEX_INITIALIZER;  // creation and destruction only
static uint32_t slip__cpu_event_free;                                     // index + 1 of the first free event; 0: none
static uint32_t slip__cpu_event_chunk_count;

void slip__cpu_event_watch_fork(void) {
  slip__fork_guard(&slip__cpu_event_lock);
}

static slip__cpu_event_t *slip__cpu_event_at(uint32_t index) {
  slip__cpu_event_t *chunk = atomic_load_explicit(&slip__cpu_event_chunks[index / SLIP__CPU_EVENT_CHUNK], memory_order_acquire);
  return chunk ? &chunk[index % SLIP__CPU_EVENT_CHUNK] : NULL;
}

static slip_status_t slip__cpu_event_resolve(slip_event_t handle, slip__cpu_event_t **out) {
  uint32_t index = slip__cpu_handle_index(handle), generation = slip__cpu_handle_generation(handle);
  bool plausible = slip__cpu_handle_tag(handle) == SLIP__CPU_EVENT_TAG && index < SLIP__CPU_MAX_EVENTS && (generation & 1u);
  slip__cpu_event_t *event = plausible ? slip__cpu_event_at(index) : NULL;
  if (!event || atomic_load_explicit(&event->generation, memory_order_acquire) != generation) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%p is no event of the cpu platform, or was destroyed; use slip_event_create", handle);
  }
  *out = event;
  return slip_ok_status();
}

// Adds a chunk of free events. Locked.
static slip_status_t slip__cpu_event_grow(void) {
  void *memory = NULL;
  if (slip__cpu_event_chunk_count == SLIP__CPU_MAX_EVENTS / SLIP__CPU_EVENT_CHUNK) {
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "the process has %u cpu events, which is the most; destroy some", SLIP__CPU_MAX_EVENTS);
  }
  SLIP_RETURN_IF_ERROR(slip__alloc_array(slip_allocator_system(), SLIP__CPU_EVENT_CHUNK, sizeof(slip__cpu_event_t), &memory));
  slip__cpu_event_t *chunk = memory;
  uint32_t first = slip__cpu_event_chunk_count * SLIP__CPU_EVENT_CHUNK;
  for (uint32_t i = 0; i < SLIP__CPU_EVENT_CHUNK; ++i) chunk[i].next_free = i + 1 < SLIP__CPU_EVENT_CHUNK ? first + i + 2 : 0;
  atomic_store_explicit(&slip__cpu_event_chunks[slip__cpu_event_chunk_count++], chunk, memory_order_release);
  slip__cpu_event_free = first + 1;
  return slip_ok_status();
}

static slip_status_t slip__cpu_event_create_locked(slip_event_t *out) {
  if (slip__cpu_event_free == 0) SLIP_RETURN_IF_ERROR(slip__cpu_event_grow());
  uint32_t index = slip__cpu_event_free - 1;
  slip__cpu_event_t *event = slip__cpu_event_at(index);
  slip__cpu_event_free = event->next_free;
  atomic_store_explicit(&event->mark, SLIP__CPU_NEVER, memory_order_relaxed);
  uint32_t generation = 1 + atomic_fetch_add_explicit(&event->generation, 1, memory_order_release);
  *out = slip__cpu_handle(SLIP__CPU_EVENT_TAG, index, generation);
  return slip_ok_status();
}

slip_status_t slip__cpu_event_create(int32_t device, slip_event_t *out) {
  (void)device;
  (void)pthread_mutex_lock(&slip__cpu_event_lock);
  slip_status_t status = slip__cpu_event_create_locked(out);
  (void)pthread_mutex_unlock(&slip__cpu_event_lock);
  return status;
}

slip_status_t slip__cpu_event_destroy(slip_event_t handle) {
  slip__cpu_event_t *event = NULL;
  (void)pthread_mutex_lock(&slip__cpu_event_lock);
  slip_status_t status = slip__cpu_event_resolve(handle, &event);
  if (slip_status_is_ok(status)) {
    atomic_fetch_add_explicit(&event->generation, 1, memory_order_release);
    event->next_free = slip__cpu_event_free;
    slip__cpu_event_free = slip__cpu_handle_index(handle) + 1;
  }
  (void)pthread_mutex_unlock(&slip__cpu_event_lock);
  return status;
}

slip_status_t slip__cpu_event_record(slip_event_t handle, slip_stream_t stream) {
  slip__cpu_event_t *event = NULL;
  slip__cpu_mark_t mark = SLIP__CPU_NEVER;
  SLIP_RETURN_IF_ERROR(slip__cpu_event_resolve(handle, &event));
  SLIP_RETURN_IF_ERROR(slip__cpu_stream_mark(stream, &mark));
  // Release and acquire: a thread that sees the record also sees what the recording thread enqueued before it.
  atomic_store_explicit(&event->mark, mark, memory_order_release);
  return slip_ok_status();
}

slip_status_t slip__cpu_event_query(slip_event_t handle) {
  slip__cpu_event_t *event = NULL;
  SLIP_RETURN_IF_ERROR(slip__cpu_event_resolve(handle, &event));
  bool reached = slip__cpu_mark_reached(atomic_load_explicit(&event->mark, memory_order_acquire));
  return reached ? slip_ok_status() : slip_status_from_code(SLIP_CODE_NOT_READY);
}

slip_status_t slip__cpu_event_synchronize(slip_event_t handle) {
  slip__cpu_event_t *event = NULL;
  SLIP_RETURN_IF_ERROR(slip__cpu_event_resolve(handle, &event));
  return slip__cpu_mark_wait(atomic_load_explicit(&event->mark, memory_order_acquire));
}

slip_status_t slip__cpu_stream_wait_event(slip_stream_t stream, slip_event_t handle) {
  slip__cpu_event_t *event = NULL;
  SLIP_RETURN_IF_ERROR(slip__cpu_event_resolve(handle, &event));
  return slip__cpu_stream_wait_mark(stream, atomic_load_explicit(&event->mark, memory_order_acquire));
}
