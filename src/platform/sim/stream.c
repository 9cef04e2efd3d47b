// SPDX-License-Identifier: Apache-2.0
// Streams: their handles, queues and entries. worker.c has their threads.
#include "base/allocator.h"
#include "os/fork.h"
#include "platform/sim/board.h"

#define SLIP__SIM_RING_BYTES (SLIP__SIM_RING * sizeof(slip__sim_work_t))

// Guarded by the board.
static slip__sim_table_t slip__sim_streams;
static uint64_t slip__sim_streams_created;  // since the last reset

// --- handles

static bool slip__sim_stream_is_ours(const slip__sim_stream_t *stream) {
  return stream->used && stream->epoch == slip__fork_epoch();
}

slip_status_t slip__sim_stream_resolve(slip_stream_t handle, slip__sim_stream_t **out) {
  uint32_t generation = 0;
  slip__sim_stream_t *stream = slip__sim_table_find(&slip__sim_streams, SLIP__SIM_STREAM_TAG, handle, &generation);
  *out = NULL;
  if (!stream || !stream->used || stream->closing || stream->generation != generation) {
    return slip__sim_error(SLIP__SIM_INVALID_HANDLE, "%p is no stream of the sim platform, or was destroyed; use slip_stream_create",
                           handle);
  }
  if (stream->epoch != slip__fork_epoch()) {
    return SLIP_STATUS(SLIP_CODE_FORKED,
                       "the stream was made before fork() and its thread is in the parent; make streams in the child, or use spawn");
  }
  *out = stream;
  return slip_ok_status();
}

slip_status_t slip__sim_stream_resolve_current(slip_stream_t handle, const char *call, slip__sim_stream_t **out) {
  SLIP_RETURN_IF_ERROR(slip__sim_stream_resolve(handle, out));
  SLIP_RETURN_IF_ERROR(slip__sim_check_current((*out)->device, call));
  return slip__sim_check_device((*out)->device);
}

slip__sim_stream_t *slip__sim_stream_at(uint32_t index, bool *out_end) {
  *out_end = index >= slip__sim_streams.count;
  if (*out_end) return NULL;
  slip__sim_stream_t *stream = slip__sim_streams.slots[index];
  return slip__sim_stream_is_ours(stream) && !stream->closing ? stream : NULL;
}

// --- marks

bool slip__sim_mark_reached(slip__sim_mark_t mark) {
  if (mark.position == 0) return true;
  return ((const slip__sim_stream_t *)slip__sim_streams.slots[mark.slot])->done >= mark.position;
}

slip_status_t slip__sim_mark_check(slip__sim_mark_t mark) {
  if (slip__sim_mark_reached(mark)) return slip_ok_status();
  const slip__sim_stream_t *stream = slip__sim_streams.slots[mark.slot];
  if (stream->epoch == slip__fork_epoch()) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_FORKED, "the work was enqueued before fork() and its thread is in the parent; wait in the parent");
}

slip_status_t slip__sim_mark_wait(slip__sim_mark_t mark) {
  while (!slip__sim_mark_reached(mark)) {
    SLIP_RETURN_IF_ERROR(slip__sim_mark_check(mark));
    slip__sim_board_wait();
  }
  return slip_ok_status();
}

// --- enqueueing

slip_status_t slip__sim_stream_admit(slip_stream_t handle, const char *call, slip__sim_stream_t **out) {
  for (;;) {
    SLIP_RETURN_IF_ERROR(slip__sim_stream_resolve_current(handle, call, out));
    if ((*out)->capture || (*out)->tail - (*out)->done < SLIP__SIM_RING) return slip_ok_status();
    slip__sim_board_wait();
  }
}

static void slip__sim_stream_wake(slip__sim_stream_t *stream) {
  atomic_fetch_add_explicit(&stream->wake, 1, memory_order_relaxed);
  if (stream->asleep) slip__futex_wake(&stream->wake, 1);
}

slip__sim_mark_t slip__sim_stream_append(slip__sim_stream_t *stream, const slip__sim_work_t *work) {
  stream->ring[stream->tail++ % SLIP__SIM_RING] = *work;
  slip__sim_stream_wake(stream);
  return (slip__sim_mark_t){stream->index, stream->tail};
}

// Puts work into an admitted stream or into its capture.
static slip_status_t slip__sim_stream_put(slip__sim_stream_t *stream, slip__sim_work_t *work) {
  work->device = stream->device;
  if (stream->capture) SLIP_RETURN_IF_ERROR(slip__sim_capture_check(stream));
  if (work->kind == SLIP__SIM_WORK_COPY) {
    slip_status_t prepared = slip__sim_copy_prepare(stream->device, &work->copy, stream->capture != NULL);
    // A copy that would have to wait is an illegal call; one with wrong arguments is merely refused.
    if (stream->capture && slip_status_code(prepared) == SLIP_CODE_DEVICE)
      slip__sim_capture_break_by_flavour(stream->capture, "memory_copy_async");
    SLIP_RETURN_IF_ERROR(prepared);
  }
  if (!stream->capture) {
    slip__sim_work_hold(work);
    (void)slip__sim_stream_append(stream, work);
    return slip_ok_status();
  }
  slip_status_t status = slip__sim_capture_add(stream, work);
  if (!slip_status_is_ok(status) && work->kind == SLIP__SIM_WORK_COPY) slip__sim_copy_discard(&work->copy);
  return status;
}

static slip_status_t slip__sim_stream_submit(slip_stream_t handle, const char *call, slip__sim_work_t *work) {
  slip__sim_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter(call));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_stream_admit(handle, call, &stream);
  if (slip_status_is_ok(status)) status = slip__sim_stream_put(stream, work);
  slip__sim_board_unlock();
  return status;
}

slip_status_t slip__sim_stream_enqueue_host(slip_stream_t stream, void (*function)(void *user), void *user) {
  slip__sim_work_t work = {.kind = SLIP__SIM_WORK_HOST, .call = {function, user}};
  return slip__sim_stream_submit(stream, "stream_enqueue_host", &work);
}

slip_status_t slip__sim_stream_launch(slip_stream_t stream, void (*run)(void *user), void *user) {
  slip__sim_work_t work = {.kind = SLIP__SIM_WORK_DEVICE, .call = {run, user}};
  return slip__sim_stream_submit(stream, "stream_launch", &work);
}

slip_status_t slip__sim_memory_copy_async(slip_stream_t stream, void *target, const void *source, uint64_t size_bytes, uint32_t kind) {
  slip__sim_work_t work = {.kind = SLIP__SIM_WORK_COPY,
                           .copy = {.target = target, .source = source, .size_bytes = size_bytes, .kind = kind}};
  return slip__sim_stream_submit(stream, "memory_copy_async", &work);
}

// --- synchronisation and questions

static slip_status_t slip__sim_stream_synchronize_locked(slip_stream_t handle) {
  slip__sim_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_stream_resolve_current(handle, "stream_synchronize", &stream));
  SLIP_RETURN_IF_ERROR(slip__sim_capture_forbid(stream, "stream_synchronize"));
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check_unsafe("stream_synchronize"));
  int32_t device = stream->device;
  SLIP_RETURN_IF_ERROR(slip__sim_mark_wait((slip__sim_mark_t){stream->index, stream->tail}));
  return slip__sim_check_device(device);  // what the work itself broke
}

slip_status_t slip__sim_stream_synchronize(slip_stream_t stream) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("stream_synchronize"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_stream_synchronize_locked(stream);
  slip__sim_board_unlock();
  return status;
}

static slip_status_t slip__sim_stream_query_locked(slip_stream_t handle) {
  slip__sim_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_stream_resolve_current(handle, "stream_query", &stream));
  SLIP_RETURN_IF_ERROR(slip__sim_capture_forbid(stream, "stream_query"));
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check_unsafe("stream_query"));
  return stream->done == stream->tail ? slip_ok_status() : slip_status_from_code(SLIP_CODE_NOT_READY);
}

slip_status_t slip__sim_stream_query(slip_stream_t stream) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("stream_query"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_stream_query_locked(stream);
  slip__sim_board_unlock();
  return status;
}

slip_status_t slip__sim_stream_device(slip_stream_t handle, int32_t *out_device) {
  slip__sim_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("stream_device"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_stream_resolve(handle, &stream);
  if (slip_status_is_ok(status)) *out_device = stream->device;
  slip__sim_board_unlock();
  return status;
}

static slip_status_t slip__sim_stream_synchronize_device_locked(int32_t device) {
  bool end = false;
  for (uint32_t i = 0; !end; ++i) {
    slip__sim_stream_t *stream = slip__sim_stream_at(i, &end);
    if (stream && stream->device == device) SLIP_RETURN_IF_ERROR(slip__sim_capture_forbid(stream, "synchronize_device"));
  }
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check_unsafe("synchronize_device"));
  for (uint32_t i = 0; i < slip__sim_streams.count; ++i) {
    slip__sim_stream_t *stream = slip__sim_streams.slots[i];
    if (!slip__sim_stream_is_ours(stream) || stream->device != device) continue;
    SLIP_RETURN_IF_ERROR(slip__sim_mark_wait((slip__sim_mark_t){stream->index, stream->tail}));
  }
  return slip__sim_check_device(device);
}

slip_status_t slip__sim_stream_synchronize_device(int32_t device) {
  SLIP_RETURN_IF_ERROR(slip__sim_check_device(device));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_stream_synchronize_device_locked(device);
  slip__sim_board_unlock();
  return status;
}

void slip__sim_stream_statistics(slip_sim_statistics_t *out) {
  slip__sim_board_lock();
  out->streams = 0;
  for (uint32_t i = 0; i < slip__sim_streams.count; ++i) out->streams += slip__sim_stream_is_ours(slip__sim_streams.slots[i]);
  out->events = slip__sim_event_alive();
  out->graphs = slip__sim_exec_alive();
  out->captures = slip__sim_capture_alive();
  out->operations = slip__sim_worker_operations();
  slip__sim_board_unlock();
}

// --- creation and destruction

// A slot for the caller alone, within what the device has.
static slip_status_t slip__sim_stream_take_slot(int32_t device, slip__sim_stream_t **out) {
  uint32_t alive = 0;
  slip__sim_stream_t *found = NULL;
  for (uint32_t i = 0; i < slip__sim_streams.count; ++i) {
    slip__sim_stream_t *stream = slip__sim_streams.slots[i];
    if (!stream->used && !found) found = stream;
    alive += slip__sim_stream_is_ours(stream) && stream->device == device;
  }
  if (alive >= slip__sim_config()->max_streams) {
    return slip__sim_error(SLIP__SIM_OUT_OF_RESOURCES, "device %d has %u stream%s, which is the most; destroy some", device, alive,
                           alive == 1 ? "" : "s");
  }
  if (!found) {
    void *slot = NULL;
    uint32_t index = 0;
    SLIP_RETURN_IF_ERROR(slip__sim_table_add(&slip__sim_streams, sizeof(*found), &slot, &index));
    found = slot;
    found->index = index;
    found->generation = 1;
  }
  *out = found;
  return slip_ok_status();
}

static slip_status_t slip__sim_stream_create_locked(int32_t device, slip_stream_t *out) {
  slip__sim_stream_t *stream = NULL;
  void *ring = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_check_current(device, "stream_create"));
  SLIP_RETURN_IF_ERROR(slip__sim_check_device(device));
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check_unsafe("stream_create"));
  SLIP_RETURN_IF_ERROR(slip__sim_stream_take_slot(device, &stream));
  SLIP_RETURN_IF_ERROR(slip__alloc(slip_allocator_system(), SLIP__SIM_RING_BYTES, &ring));
  stream->device = device;
  stream->epoch = slip__fork_epoch();
  stream->closing = stream->abandoned = stream->asleep = false;
  stream->capture = NULL;
  stream->ring = ring;
  stream->base = stream->done = stream->tail;
  stream->ordinal = slip__sim_streams_created;
  // The thread waits for the board first.
  slip_status_t status = slip__thread_start(&stream->thread, "slip-sim", slip__sim_worker_run, stream);
  if (!slip_status_is_ok(status)) {
    slip__free(slip_allocator_system(), ring, SLIP__SIM_RING_BYTES);
    stream->ring = NULL;
    return status;
  }
  stream->used = true;
  ++slip__sim_streams_created;
  *out = slip__sim_handle(SLIP__SIM_STREAM_TAG, stream->index, stream->generation);
  return slip_ok_status();
}

slip_status_t slip__sim_stream_create(int32_t device, slip_stream_t *out) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("stream_create"));
  slip__sim_stream_watch_fork();
  slip__sim_board_lock();
  slip_status_t status = slip__sim_stream_create_locked(device, out);
  slip__sim_board_unlock();
  return status;
}

static void slip__sim_stream_close(slip__sim_stream_t *stream) {
  stream->closing = true;
  slip__sim_stream_wake(stream);
  slip__sim_board_notify();  // who waits for room is refused
}

// After slip__sim_stream_close, by the same caller.
static void slip__sim_stream_retire(slip__sim_stream_t *stream) {
  slip__sim_board_unlock();
  slip__thread_join(&stream->thread);
  slip__sim_board_lock();
  slip__free(slip_allocator_system(), stream->ring, SLIP__SIM_RING_BYTES);
  stream->ring = NULL;
  stream->used = false;
  ++stream->generation;
}

static slip_status_t slip__sim_stream_destroy_locked(slip_stream_t handle) {
  slip__sim_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_stream_resolve_current(handle, "stream_destroy", &stream));
  SLIP_RETURN_IF_ERROR(slip__sim_capture_forbid(stream, "stream_destroy"));
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check_unsafe("stream_destroy"));
  slip__sim_stream_close(stream);
  slip__sim_stream_retire(stream);
  return slip_ok_status();
}

slip_status_t slip__sim_stream_destroy(slip_stream_t stream) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("stream_destroy"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_stream_destroy_locked(stream);
  slip__sim_board_unlock();
  return status;
}

// First all streams are abandoned, then each is waited for: one may wait for another's work.
static void slip__sim_stream_drop(int32_t device) {
  bool end = false;
  for (uint32_t i = 0; !end; ++i) {
    slip__sim_stream_t *stream = slip__sim_stream_at(i, &end);
    if (!stream || (device >= 0 && stream->device != device)) continue;
    stream->abandoned = true;
    slip__sim_stream_close(stream);
  }
  for (uint32_t i = 0; i < slip__sim_streams.count; ++i) {
    slip__sim_stream_t *stream = slip__sim_streams.slots[i];
    if (slip__sim_stream_is_ours(stream) && stream->abandoned && (device < 0 || stream->device == device)) slip__sim_stream_retire(stream);
  }
}

void slip__sim_stream_reset(int32_t device) {
  slip__sim_retain_t *retains = NULL;
  slip__sim_board_lock();
  slip__sim_capture_drop(device, &retains);
  slip__sim_stream_drop(device);
  slip__sim_exec_drop(device, &retains);
  slip__sim_event_drop(device);
  if (device < 0) slip__sim_streams_created = 0;
  slip__sim_board_unlock();
  slip__sim_retains_run(retains);
}
