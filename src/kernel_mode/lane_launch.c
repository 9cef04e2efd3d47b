// SPDX-License-Identifier: Apache-2.0
// Launch through a lane: admission, submission, and who owns what after a failure (the table in lane.h).
#include <inttypes.h>

#include "kernel_mode/graph.h"
#include "kernel_mode/lane.h"
#include "kernel_mode/launch.h"
#include "kernel_mode/ticket.h"

typedef struct slip__lane_call_t {
  slip_context_t *context;
  slip__registration_t *registration;
  const slip_launch_record_t *record;
  const slip__frame_view_t *view;
  const slip__chain_link_t *link;  // NULL: not of a replay
  bool handle;
  bool admitted;  // among |max_pending|, in |epoch|
  bool full;      // no place was free: wait for one, without the device bound, then come back
  uint32_t epoch;
  slip_ticket_t *ticket;  // enqueued well; the calling thread's reference is still there
  bool enqueued;          // gate and owner are not the caller's concern any more
} slip__lane_call_t;

static slip_status_t slip__lane_ticket(slip__lane_call_t *call, slip__ticket_kind_e kind, slip_ticket_t **out) {
  SLIP_RETURN_IF_ERROR(slip__ticket_create(call->context, call->registration, call->record, kind, call->handle, out));
  slip_otensor_t *tensors = (*out)->arguments;
  slip__launch_copy_arguments(call->view, tensors, (uint64_t *)(void *)(tensors + call->registration->tensor_count));
  (*out)->epoch = call->epoch;
  if (call->link) slip__chain_bind(call->link, *out);
  atomic_fetch_add_explicit(&call->context->admitted, 1, memory_order_relaxed);
  return slip_ok_status();
}

static void slip__lane_drop(slip__lane_call_t *call, slip_ticket_t *ticket) {
  atomic_fetch_sub_explicit(&call->context->admitted, 1, memory_order_relaxed);
  slip__ticket_discard(ticket, call->handle);
}

// --- eager -------------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__lane_eager_failed(slip__lane_call_t *call, const slip__submission_t *submission, slip_status_t status) {
  slip_context_t *context = call->context;
  slip_ticket_t *ticket = submission->ticket;
  slip__lane_step_e step = submission->step;
  if (step >= SLIP__LANE_STAGE && !submission->moved) slip__context_poison(context, slip_status_clone(status));
  if (step <= SLIP__LANE_STAGE) {
    slip__lane_drop(call, ticket);
    return status;
  }
  call->enqueued = true;
  call->admitted = false;
  if (step <= SLIP__LANE_FINISH) slip__ticket_abandon(ticket, slip_status_clone(status));
  slip__ticket_forsake(ticket, call->handle);
  return status;
}

static slip_status_t slip__lane_eager(slip__lane_call_t *call) {
  slip_ticket_t *ticket = NULL;
  slip_context_t *context = call->context;
  SLIP_RETURN_IF_ERROR(slip__lane_ticket(call, SLIP__TICKET_EAGER, &ticket));
  slip__lane_t *lane = slip__lane_take(context, call->record->stream);
  slip__submission_t submission = {.context = context, .lane = lane, .stream = call->record->stream, .ticket = ticket};
  slip_status_t status = slip__lane_submit(&submission);
  slip__lane_give(context, lane);
  if (!slip_status_is_ok(status)) return slip__lane_eager_failed(call, &submission, status);
  call->enqueued = true;
  call->admitted = false;
  call->ticket = ticket;
  return slip_ok_status();
}

// --- in a capture ------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__lane_captured_failed(slip__lane_call_t *call, const slip__submission_t *submission, slip_status_t status) {
  slip_ticket_t *ticket = submission->ticket;
  slip__lane_step_e step = submission->step;
  if (step >= SLIP__LANE_STAGE && !submission->moved) slip__context_poison(call->context, slip_status_clone(status));
  if (step <= SLIP__LANE_STAGE) {
    slip__ticket_give_back(ticket);
    atomic_fetch_add_explicit(&call->context->refused, 1, memory_order_relaxed);
  }
  slip__ticket_forsake(ticket, call->handle);
  return status;
}

// |status|, unless the capture was ended or broken meanwhile: then that. Consumes it.
static slip_status_t slip__lane_refuse_ended(const slip__lane_call_t *call, uint64_t capture, slip_status_t status) {
  slip_capture_info_t info = {SLIP_CAPTURE_NONE, 0, 0};
  slip_status_t asked = slip_stream_capture_info(call->context->platform, call->record->stream, &info);
  bool same = !slip_status_is_ok(asked) || (info.id == capture && info.state == SLIP_CAPTURE_ACTIVE);
  slip_status_free(asked);
  if (same) return status;
  return slip_status_join(
      SLIP_STATUS(SLIP_CODE_INVALID_STATE, "capture %" PRIu64 " was ended or broken by another thread; launch again", capture), status);
}

static slip_status_t slip__lane_submit_captured(slip__lane_call_t *call, slip__lane_t *lane, uint64_t capture, slip_ticket_t *ticket) {
  // Before the graph has it, which may be gone at any time.
  atomic_store_explicit(&ticket->holders, 2, memory_order_relaxed);
  slip_status_t status = slip__platform_capture_retain(call->context->platform, call->record->stream, slip__lane_end_captured, ticket);
  if (!slip_status_is_ok(status)) {
    slip__lane_drop(call, ticket);
    slip__tickets_revoke_captured(call->context);
    return slip_status_annotate(slip__lane_refuse_ended(call, capture, status), "tying the launch to the capture");
  }
  call->enqueued = true;  // the ticket is the capture's: it cannot be taken back
  slip__submission_t submission = {
      .context = call->context, .lane = lane, .stream = call->record->stream, .ticket = ticket, .capture = capture};
  status = slip__lane_submit(&submission);
  if (!submission.torn) slip__ticket_finish_captured(ticket);
  if (!slip_status_is_ok(status)) return slip__lane_captured_failed(call, &submission, status);
  call->ticket = ticket;
  return slip_ok_status();
}

static slip_status_t slip__lane_captured(slip__lane_call_t *call, uint64_t capture) {
  slip_context_t *context = call->context;
  slip_ticket_t *ticket = NULL;
  slip__lane_t *lane = NULL;
  SLIP_RETURN_IF_ERROR(slip__tickets_admit_captured(context));
  slip_status_t status = slip__lane_ticket(call, SLIP__TICKET_CAPTURED, &ticket);
  if (slip_status_is_ok(status)) status = slip__lane_lease(context, capture, &lane);
  if (!slip_status_is_ok(status)) {
    if (ticket) slip__lane_drop(call, ticket);
    slip__tickets_revoke_captured(context);
    return status;
  }
  status = slip__lane_submit_captured(call, lane, capture, ticket);
  slip__lane_return(context, lane);
  return status;
}

// --- both --------------------------------------------------------------------------------------------------------------------------------

// The device is bound.
static slip_status_t slip__lane_call(slip__lane_call_t *call) {
  slip_capture_info_t capture;
  call->full = false;
  SLIP_RETURN_IF_ERROR(slip__launch_check_stream(call->context, call->record->stream, &capture));
  if (capture.state == SLIP_CAPTURE_ACTIVE) return slip__lane_captured(call, capture.id);
  if (!call->admitted) call->admitted = slip__tickets_try_admit(call->context, &call->epoch);
  call->full = !call->admitted;
  return call->admitted ? slip__lane_eager(call) : slip_ok_status();
}

// A thread that captures on another stream may neither wait nor reap.
static slip_status_t slip__lane_wait_for_room(slip__lane_call_t *call) {
  bool no_wait = (call->record->flags & SLIP_LAUNCH_NO_WAIT) != 0;
  slip_status_t status = slip__context_refuse_capture(call->context->platform, "waiting for room");
  if (!slip_status_is_ok(status)) {
    slip_status_free(status);
    return SLIP_STATUS(SLIP_CODE_BUSY,
                       "%" PRIu32
                       " launches are in flight, which is max_pending, and this thread is in a capture, where it cannot wait; launch again "
                       "after the capture or open with more",
                       call->context->options.max_pending);
  }
  SLIP_RETURN_IF_ERROR(slip__tickets_admit(call->context, no_wait, &call->epoch));
  call->admitted = true;
  return slip_ok_status();
}

// The binding could not be undone, after the launch was enqueued in full.
static slip_status_t slip__lane_unbind_failed(slip__lane_call_t *call, slip_status_t status) {
  if (!call->ticket) return status;
  slip__context_poison(call->context, slip_status_clone(status));
  slip__ticket_forsake(call->ticket, call->handle);
  call->ticket = NULL;
  return status;
}

slip_status_t slip__lane_launch(slip_context_t *context, slip__registration_t *registration, const slip_launch_record_t *record,
                                const slip__frame_view_t *view, const slip__chain_link_t *link, slip_ticket_t **out_ticket,
                                bool *out_enqueued) {
  slip__lane_call_t call = {
      .context = context, .registration = registration, .record = record, .view = view, .link = link, .handle = out_ticket != NULL};
  slip_status_t status = slip_ok_status();
  SLIP__CONTEXT_BOUND(status, context, slip__lane_call(&call));
  if (slip_status_is_ok(status) && call.full) {
    status = slip__lane_wait_for_room(&call);
    if (slip_status_is_ok(status)) SLIP__CONTEXT_BOUND(status, context, slip__lane_call(&call));
  }
  if (call.admitted) slip__tickets_revoke(context, call.epoch);
  *out_enqueued = call.enqueued;
  if (!slip_status_is_ok(status)) {
    status = slip__lane_unbind_failed(&call, status);
    return slip_status_annotate(status, "enqueuing callable id %" PRId32, record->id);
  }
  if (out_ticket) *out_ticket = call.ticket;
  slip__ticket_publish(call.ticket, call.handle);
  slip__tickets_reap_outside_capture(context);
  return slip_ok_status();
}
