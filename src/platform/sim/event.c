// SPDX-License-Identifier: Apache-2.0
// Events. The last record is a mark in a stream, or a node of a capture.
#include "os/fork.h"
#include "platform/sim/board.h"

// Guarded by the board.
static slip__sim_table_t slip__sim_events;

static bool slip__sim_event_is_ours(const slip__sim_event_t *event) {
  return event->used && event->epoch == slip__fork_epoch();
}

slip_status_t slip__sim_event_resolve(slip_event_t handle, slip__sim_event_t **out) {
  uint32_t generation = 0;
  slip__sim_event_t *event = slip__sim_table_find(&slip__sim_events, SLIP__SIM_EVENT_TAG, handle, &generation);
  *out = NULL;
  if (!event || !event->used || event->generation != generation) {
    return slip__sim_error(SLIP__SIM_INVALID_HANDLE, "%p is no event of the sim platform, or was destroyed; use slip_event_create", handle);
  }
  if (event->epoch != slip__fork_epoch())
    return SLIP_STATUS(SLIP_CODE_FORKED,
                       "the event was made before fork() and belongs to the parent; make events in the child, or use spawn");
  *out = event;
  return slip_ok_status();
}

static slip_status_t slip__sim_event_resolve_current(slip_event_t handle, const char *call, slip__sim_event_t **out) {
  SLIP_RETURN_IF_ERROR(slip__sim_event_resolve(handle, out));
  SLIP_RETURN_IF_ERROR(slip__sim_check_current((*out)->device, call));
  return slip__sim_check_device((*out)->device);
}

// --- creation and destruction

static slip_status_t slip__sim_event_create_locked(int32_t device, slip_event_t *out) {
  slip__sim_event_t *event = NULL;
  uint32_t alive = 0;
  SLIP_RETURN_IF_ERROR(slip__sim_check_current(device, "event_create"));
  SLIP_RETURN_IF_ERROR(slip__sim_check_device(device));
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check_unsafe("event_create"));
  for (uint32_t i = 0; i < slip__sim_events.count; ++i) {
    slip__sim_event_t *slot = slip__sim_events.slots[i];
    if (!slot->used && !event) event = slot;
    alive += slip__sim_event_is_ours(slot) && slot->device == device;
  }
  if (alive >= slip__sim_config()->max_events) {
    return slip__sim_error(SLIP__SIM_OUT_OF_RESOURCES, "device %d has %u event%s, which is the most; destroy some", device, alive,
                           alive == 1 ? "" : "s");
  }
  if (!event) {
    void *slot = NULL;
    uint32_t index = 0;
    SLIP_RETURN_IF_ERROR(slip__sim_table_add(&slip__sim_events, sizeof(*event), &slot, &index));
    event = slot;
    event->index = index;
  }
  *event = (slip__sim_event_t){
      .index = event->index, .generation = event->generation + 1, .device = device, .epoch = slip__fork_epoch(), .used = true};
  *out = slip__sim_handle(SLIP__SIM_EVENT_TAG, event->index, event->generation);
  return slip_ok_status();
}

slip_status_t slip__sim_event_create(int32_t device, slip_event_t *out) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("event_create"));
  slip__sim_stream_watch_fork();
  slip__sim_board_lock();
  slip_status_t status = slip__sim_event_create_locked(device, out);
  slip__sim_board_unlock();
  return status;
}

// Waits that are enqueued keep the record.
static slip_status_t slip__sim_event_destroy_locked(slip_event_t handle) {
  slip__sim_event_t *event = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_event_resolve_current(handle, "event_destroy", &event));
  SLIP_RETURN_IF_ERROR(slip__sim_capture_check_unsafe("event_destroy"));
  event->used = false;
  return slip_ok_status();
}

slip_status_t slip__sim_event_destroy(slip_event_t event) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("event_destroy"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_event_destroy_locked(event);
  slip__sim_board_unlock();
  return status;
}

uint32_t slip__sim_event_alive(void) {
  uint32_t alive = 0;
  for (uint32_t i = 0; i < slip__sim_events.count; ++i) alive += slip__sim_event_is_ours(slip__sim_events.slots[i]);
  return alive;
}

void slip__sim_event_drop(int32_t device) {
  for (uint32_t i = 0; i < slip__sim_events.count; ++i) {
    slip__sim_event_t *event = slip__sim_events.slots[i];
    if (device < 0 || event->device == device) event->used = false;
  }
}

// --- records and waits

static slip_status_t slip__sim_event_record_locked(slip_event_t handle, slip_stream_t stream_handle) {
  slip__sim_event_t *event = NULL;
  slip__sim_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_stream_admit(stream_handle, "event_record", &stream));
  SLIP_RETURN_IF_ERROR(slip__sim_event_resolve(handle, &event));
  if (event->device != stream->device) {
    return slip__sim_error(SLIP__SIM_INVALID_HANDLE,
                           "an event of device %d cannot be recorded on a stream of device %d; record events of the stream's device",
                           event->device, stream->device);
  }
  if (stream->capture) return slip__sim_capture_record(stream, event);
  slip__sim_work_t work = {.kind = SLIP__SIM_WORK_NONE, .device = stream->device};
  event->captured = false;
  event->mark = slip__sim_stream_append(stream, &work);
  return slip_ok_status();
}

slip_status_t slip__sim_event_record(slip_event_t event, slip_stream_t stream) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("event_record"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_event_record_locked(event, stream);
  slip__sim_board_unlock();
  return status;
}

static slip_status_t slip__sim_stream_wait_event_locked(slip_stream_t stream_handle, slip_event_t handle) {
  slip__sim_event_t *event = NULL;
  slip__sim_stream_t *stream = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_stream_admit(stream_handle, "stream_wait_event", &stream));
  SLIP_RETURN_IF_ERROR(slip__sim_event_resolve(handle, &event));
  if (stream->capture || event->captured) return slip__sim_capture_wait(stream, event);
  if (event->mark.position == 0) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__sim_mark_check(event->mark));
  slip__sim_work_t work = {.kind = SLIP__SIM_WORK_WAIT, .device = stream->device, .mark = event->mark};
  (void)slip__sim_stream_append(stream, &work);
  return slip_ok_status();
}

slip_status_t slip__sim_stream_wait_event(slip_stream_t stream, slip_event_t event) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("stream_wait_event"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_stream_wait_event_locked(stream, event);
  slip__sim_board_unlock();
  return status;
}

// --- questions

// The mark to ask for.
static slip_status_t slip__sim_event_look(slip_event_t handle, const char *call, slip__sim_event_t **out) {
  SLIP_RETURN_IF_ERROR(slip__sim_event_resolve_current(handle, call, out));
  if ((*out)->captured) {
    slip__sim_capture_offend((*out)->capture_id, call);
    return slip__sim_error(SLIP__SIM_CAPTURED_EVENT,
                           "%s: the event was last recorded in capture %llu, where nothing runs; keep an event of "
                           "its own for this and record it outside captures",
                           call, (unsigned long long)(*out)->capture_id);
  }
  return slip__sim_capture_check_unsafe(call);
}

static slip_status_t slip__sim_event_query_locked(slip_event_t handle) {
  slip__sim_event_t *event = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_event_look(handle, "event_query", &event));
  SLIP_RETURN_IF_ERROR(slip__sim_mark_check(event->mark));
  return slip__sim_mark_reached(event->mark) ? slip_ok_status() : slip_status_from_code(SLIP_CODE_NOT_READY);
}

slip_status_t slip__sim_event_query(slip_event_t event) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("event_query"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_event_query_locked(event);
  slip__sim_board_unlock();
  return status;
}

static slip_status_t slip__sim_event_synchronize_locked(slip_event_t handle) {
  slip__sim_event_t *event = NULL;
  SLIP_RETURN_IF_ERROR(slip__sim_event_look(handle, "event_synchronize", &event));
  int32_t device = event->device;
  SLIP_RETURN_IF_ERROR(slip__sim_mark_wait(event->mark));
  return slip__sim_check_device(device);
}

slip_status_t slip__sim_event_synchronize(slip_event_t event) {
  SLIP_RETURN_IF_ERROR(slip__sim_board_enter("event_synchronize"));
  slip__sim_board_lock();
  slip_status_t status = slip__sim_event_synchronize_locked(event);
  slip__sim_board_unlock();
  return status;
}
