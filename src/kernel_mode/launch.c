// SPDX-License-Identifier: Apache-2.0
// Launch (30.5): from a validated frame to a run on the caller's stream.
//
// Order of checks, all before anything is enqueued: record, fork, state, poison, id (enters its gate), stream, frame. A refusal calls the
// owner's release callback, counts itself and leaves nothing else behind.
//
//   inline stream                              asynchronous stream
//   take a run slot (wait if all are busy)     admit (max_pending), take a ticket and an argument block from the pools
//   copy the frame into the slot's block       copy the frame into the ticket's block
//   run on this thread                         enqueue: one operation where the platform launches directly, else through a lane (lane.h);
//                                              in stream order it takes a slot and runs
//   give the slot back, leave the gate         the reaper retires the ticket and leaves the gate (ticket.h)
//
// The inline path is four read-modify-writes on words that are uncontended for a single caller, and otherwise plain loads and stores: no
// allocation, no lock, no system call. The stream lives in the record and in registers only.
#include "kernel_mode/launch.h"

#include <inttypes.h>

#include "base/versioned.h"
#include "kernel_mode/lane.h"
#include "kernel_mode/latch.h"
#include "kernel_mode/ticket.h"
#include "platform/dispatch.h"

slip_status_t slip__launch_refuse_id(const slip_context_t *context, int32_t id) {
  // Close shuts the gates after it has changed the state: the state is the better answer.
  if (slip__context_state(context) != SLIP_CONTEXT_READY) return slip__context_refuse_state(context, "launch");
  return SLIP_STATUS(SLIP_CODE_NOT_PREPARED,
                     "callable id %" PRId32 " is unknown, released or of another context; prepare the image on this context first", id);
}

static slip_status_t slip__launch_refuse_frame(const slip_context_t *context, const slip__registration_t *registration,
                                               const slip__frame_view_t *view, int32_t id) {
  if (view->device.platform != context->device.platform || view->device.ordinal != context->device.ordinal) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "the frame was built for device %s:%d, but the context is open on %s:%d; build it for the context's device",
                       slip_platform_name(view->device.platform), view->device.ordinal, slip_platform_name(context->device.platform),
                       context->device.ordinal);
  }
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                     "the frame was built with another signature (hash %016" PRIx64 ") than callable id %" PRId32 " has (%016" PRIx64
                     "); build it with slip_context_signature() of that id",
                     view->signature_hash, id, registration->signature_hash);
}

// The gate of |registration| is entered.
inline slip_status_t slip__launch_check_frame(const slip_context_t *context, const slip__registration_t *registration,
                                              const slip_frame_t *frame, int32_t id, slip__frame_view_t *view) {
  if (__builtin_expect(!frame || !slip__frame_view(frame, view), 0)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "frame is %s, expected one that slip_frame_initialize() has built",
                       frame ? "not initialised" : "NULL");
  }
  bool same = view->signature_hash == registration->signature_hash && view->tensor_count == registration->tensor_count &&
              view->scalar_count == registration->scalar_count && view->device.platform == context->device.platform &&
              view->device.ordinal == context->device.ordinal;
  return __builtin_expect(same, 1) ? slip_ok_status() : slip__launch_refuse_frame(context, registration, view, id);
}

inline slip_status_t slip__launch_run(slip_context_t *context, slip__slot_t *slot, slip__registration_t *registration,
                                      slip_otensor_t *tensors, const uint64_t *scalars) {
  slip__run_t run = {.object = registration->object,
                     .entry = 0,
                     .tensor_count = registration->tensor_count,
                     .tensors = tensors,
                     .scalars = scalars,
                     .scalar_count = registration->scalar_count,
                     .flags = SLIP__RUN_NONE,
                     .site = &registration->site};
  slip_status_t status = slip__engine_run(context->engine, slot->workspace, &run);
  atomic_store_explicit(&slot->tasks, slip__workspace_task_count(slot->workspace), memory_order_relaxed);
  // Summing up the rings would be a tenth of a short launch: done while the workspace warms up, then now and then.
  uint64_t uses = atomic_load_explicit(&slot->uses, memory_order_relaxed);
  if (__builtin_expect(uses < 16 || uses % 64 == 0, 0)) {
    atomic_store_explicit(&slot->committed_bytes, slip__workspace_committed_bytes(slot->workspace), memory_order_relaxed);
  }
  return status;
}

void slip__launch_poison_if_undefined(slip_context_t *context, slip_status_t status) {
  if (slip_status_code(status) == SLIP_CODE_DEVICE) slip__context_poison(context, slip_status_clone(status));
}

static slip_status_t slip__launch_inline(slip_context_t *context, slip__registration_t *registration, const slip_launch_record_t *record,
                                         const slip__frame_view_t *view, bool *out_ran) {
  int32_t index = slip__slot_acquire(context, (record->flags & SLIP_LAUNCH_NO_WAIT) == 0);
  if (__builtin_expect(index < 0, 0)) {
    return SLIP_STATUS(SLIP_CODE_BUSY,
                       "all %" PRIu32 " run slots (max_in_flight) are busy; launch without SLIP_LAUNCH_NO_WAIT or open with more",
                       context->slot_count);
  }
  slip__slot_t *slot = &context->slots[index];
  *out_ran = true;
  slip__launch_copy_arguments(view, slot->tensors, slot->scalars);
  slip_status_t status = slip__launch_run(context, slot, registration, slot->tensors, slot->scalars);
  slip__slot_count(&slot->inline_launches, 1);
  if (__builtin_expect(!slip_status_is_ok(status), 0)) {
    slip__slot_count(&slot->inline_faults, 1);
    slip__launch_poison_if_undefined(context, status);
  }
  slip__slot_release(context, index);
  return status;
}

// In the stream's thread, in stream order.
static void slip__launch_device_side(void *user) {
  slip_ticket_t *ticket = user;
  slip_context_t *context = ticket->context;
  slip__registration_t *registration = ticket->registration;
  slip_otensor_t *tensors = ticket->arguments;
  const uint64_t *scalars = (const uint64_t *)(const void *)(tensors + registration->tensor_count);
  int32_t index = slip__slot_acquire(context, true);
  slip_status_t status = slip__launch_run(context, &context->slots[index], registration, tensors, scalars);
  slip__slot_release(context, index);
  slip__launch_poison_if_undefined(context, status);
  slip__ticket_set_result(ticket, status);
  slip__ticket_finish(ticket);
}

slip_status_t slip__launch_check_stream(slip_context_t *context, slip_stream_t stream, slip_capture_info_t *out_capture) {
  int32_t device = -1;
  if (stream == SLIP_STREAM_INLINE) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "SLIP_STREAM_INLINE was named, but the platform %s has no inline stream; name a stream",
                       context->platform_name);
  }
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip__platform_stream_device(context->platform, stream, &device), "launching on a stream");
  if (device != context->device.ordinal) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "the stream belongs to device %" PRId32 ", but the context is open on %s:%d; launch on a stream of device %d",
                       device, context->platform_name, context->device.ordinal, context->device.ordinal);
  }
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_stream_capture_info(context->platform, stream, out_capture), "launching on a stream");
  if (out_capture->state == SLIP_CAPTURE_INVALIDATED) {
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE,
                       "the stream's capture (%" PRIu64 ") was invalidated by an earlier error; end it, which gives no graph, then launch",
                       out_capture->id);
  }
  if (out_capture->state != SLIP_CAPTURE_NONE && !slip__context_captures(context)) {
    return SLIP_STATUS(SLIP_CODE_CAPTURE_UNSUPPORTED,
                       "the stream is capturing, and the platform %s cannot record a host-native callable; launch outside the capture",
                       context->platform_name);
  }
  return slip_ok_status();
}

// One operation on the caller's stream. |*out_enqueued|: the gate and the owner now belong to the ticket.
static slip_status_t slip__launch_direct(slip_context_t *context, slip__registration_t *registration, const slip_launch_record_t *record,
                                         const slip__frame_view_t *view, slip_ticket_t **out_ticket, bool *out_enqueued) {
  uint32_t epoch = 0;
  slip_ticket_t *ticket = NULL;
  slip_capture_info_t capture;
  bool handle = out_ticket != NULL;
  SLIP_RETURN_IF_ERROR(slip__launch_check_stream(context, record->stream, &capture));
  SLIP_RETURN_IF_ERROR(slip__tickets_admit(context, (record->flags & SLIP_LAUNCH_NO_WAIT) != 0, &epoch));
  slip_status_t status = slip__ticket_create(context, registration, record, SLIP__TICKET_EAGER, handle, &ticket);
  if (!slip_status_is_ok(status)) {
    slip__tickets_revoke(context, epoch);
    return status;
  }
  slip_otensor_t *tensors = ticket->arguments;
  slip__launch_copy_arguments(view, tensors, (uint64_t *)(void *)(tensors + registration->tensor_count));
  ticket->epoch = epoch;
  atomic_fetch_add_explicit(&context->admitted, 1, memory_order_relaxed);
  status = slip__platform_stream_launch(context->platform, record->stream, slip__launch_device_side, ticket);
  if (!slip_status_is_ok(status)) {
    atomic_fetch_sub_explicit(&context->admitted, 1, memory_order_relaxed);
    slip__ticket_discard(ticket, handle);
    slip__tickets_revoke(context, epoch);
    return slip_status_annotate(status, "enqueuing callable id %" PRId32, record->id);
  }
  *out_enqueued = true;
  if (handle) *out_ticket = ticket;
  slip__ticket_publish(ticket, handle);
  return slip_ok_status();
}

slip_status_t slip__launch_async(slip_context_t *context, slip__registration_t *registration, const slip_launch_record_t *record,
                                 const slip__frame_view_t *view, const slip__chain_link_t *link, slip_ticket_t **out_ticket,
                                 bool *out_enqueued) {
  return context->lanes ? slip__lane_launch(context, registration, record, view, link, out_ticket, out_enqueued)
                        : slip__launch_direct(context, registration, record, view, out_ticket, out_enqueued);
}

// An inline launch was the last user of a callable that was released meanwhile: its residency goes back here, but not in a capture, which
// unloading would break.
void slip__launch_sweep(slip_context_t *context) {
  slip_status_t status = slip__context_enter_outside_capture(context, "launch");
  if (slip_status_is_ok(status)) {
    SLIP__CONTEXT_BOUND(status, context, slip__registry_sweep(context));
    slip__context_leave(context);
  }
  slip_status_free(status);  // the registry keeps what could not be unloaded; close tells
}

static slip_status_t slip__launch_refused(const slip_launch_record_t *record, slip_status_t status) {
  if (record->context) atomic_fetch_add_explicit(&record->context->refused, 1, memory_order_relaxed);
  if (record->release) record->release(record->user);
  return status;
}

slip_status_t slip__launch_null_stream(const slip_context_t *context) {
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "stream is NULL, and the platform %s has no default stream; name a stream%s",
                     context->platform_name, context->inline_stream ? " or SLIP_STREAM_INLINE" : "");
}

static slip_status_t slip__launch_refuse_bits(const slip_launch_record_t *record) {
  if (record->reserved != 0)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "reserved is %" PRIu32 ", expected 0; start from a zeroed record", record->reserved);
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "flags is 0x%" PRIx32 ", known is 0x%x", record->flags, (unsigned)SLIP_LAUNCH_NO_WAIT);
}

static inline slip_status_t slip__launch(const slip_launch_record_t *record, slip_ticket_t **out_ticket) {
  slip_context_t *context = record->context;
  if (__builtin_expect(slip__latch_forked(), 0)) {
    // Not even counted: nothing of the parent's context is touched.
    if (record->release) record->release(record->user);
    return slip__latch_refuse("launch");
  }
  if (__builtin_expect(!context, 0))
    return slip__launch_refused(record, SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "context is NULL, expected one that open has given"));
  if (__builtin_expect(((record->flags & ~(uint32_t)SLIP_LAUNCH_NO_WAIT) | record->reserved) != 0, 0))
    return slip__launch_refused(record, slip__launch_refuse_bits(record));
  if (__builtin_expect(slip__context_state(context) != SLIP_CONTEXT_READY, 0))
    return slip__launch_refused(record, slip__context_refuse_state(context, "launch"));
  if (__builtin_expect(atomic_load_explicit(&context->poison, memory_order_acquire) != NULL, 0)) {
    return slip__launch_refused(record, slip__context_refuse_poisoned(context, "launch"));
  }
  slip__registration_t *registration = slip__registry_enter(&context->registry, record->id);
  if (__builtin_expect(!registration, 0)) return slip__launch_refused(record, slip__launch_refuse_id(context, record->id));

  slip__frame_view_t view;
  bool ran = false, enqueued = false;
  slip_status_t status = record->stream ? slip_ok_status() : slip__launch_null_stream(context);
  if (slip_status_is_ok(status)) status = slip__launch_check_frame(context, registration, record->frame, record->id, &view);
  if (slip_status_is_ok(status)) {
    status = record->stream == context->inline_stream
                 ? slip__launch_inline(context, registration, record, &view, &ran)
                 : slip__launch_async(context, registration, record, &view, NULL, out_ticket, &enqueued);
  }
  if (enqueued) return status;
  slip__registry_leave(&context->registry, registration);
  if (__builtin_expect(atomic_load_explicit(&context->registry.sweep_wanted, memory_order_relaxed) != 0, 0)) slip__launch_sweep(context);
  if (__builtin_expect(!ran, 0)) return slip__launch_refused(record, status);
  if (record->release) record->release(record->user);
  if (out_ticket && slip_status_is_ok(status)) *out_ticket = &slip__ticket_finished;
  return status;
}

slip_status_t slip_context_launch(slip_context_t *context, int32_t id, const slip_frame_t *frame, slip_stream_t stream,
                                  slip_ticket_t **out_ticket) {
  slip_launch_record_t record = {.struct_size = (uint32_t)sizeof(record),
                                 .id = id,
                                 .context = context,
                                 .frame = frame,
                                 .stream = stream,
                                 .flags = SLIP_LAUNCH_NONE,
                                 .release = NULL,
                                 .user = NULL};
  if (out_ticket) *out_ticket = NULL;
  return slip__launch(&record, out_ticket);
}

// A record of another size than ours. A longer one is a newer caller's: fine as long as it asks for nothing that is unknown here.
static slip_status_t slip__launch_resized(const slip_launch_record_t *record, slip_ticket_t **out_ticket) {
  if (!record || record->struct_size < sizeof(*record)) {
    SLIP_RETURN_IF_ERROR(slip__latch_check("launch"));
    if (!record) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the launch record is NULL, expected a slip_launch_record_t");
    // Its release is not called: that the fields are there is exactly what the record does not say.
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "slip_launch_record_t.struct_size is %" PRIu32
                       ", expected at least %zu; set it to sizeof(slip_launch_record_t). The record's release was not called",
                       record->struct_size, sizeof(*record));
  }
  if (!slip__latch_forked()) {
    slip_status_t status = slip__versioned_check_tail("slip_launch_record_t", "fields", record, sizeof(*record));
    if (!slip_status_is_ok(status)) return slip__launch_refused(record, status);
  }
  return slip__launch(record, out_ticket);
}

slip_status_t slip_launch(const slip_launch_record_t *record, slip_ticket_t **out_ticket) {
  if (out_ticket) *out_ticket = NULL;
  if (__builtin_expect(!record || record->struct_size != sizeof(*record), 0)) return slip__launch_resized(record, out_ticket);
  return slip__launch(record, out_ticket);
}
