// SPDX-License-Identifier: Apache-2.0
// The parts of launch that the ways of launching share: launch.c (inline, direct), lane_launch.c and lane_run.c (through lanes), graph.c
// and replay.c (recorded). Protocol: launch.c.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_LAUNCH_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_LAUNCH_H_

#include <string.h>

#include "contract/call_frame.h"
#include "kernel_mode/context.h"
#include "kernel_mode/ticket.h"

// Why |id| could not be entered: INVALID_STATE once close began, else NOT_PREPARED.
slip_status_t slip__launch_refuse_id(const slip_context_t *context, int32_t id) SLIP_MUST_USE;
// INVALID_ARGUMENT unless |frame| was built for |registration|, whose gate is entered, and for the context's device.
slip_status_t slip__launch_check_frame(const slip_context_t *context, const slip__registration_t *registration, const slip_frame_t *frame,
                                       int32_t id, slip__frame_view_t *out_view) SLIP_MUST_USE;
slip_status_t slip__launch_null_stream(const slip_context_t *context) SLIP_MUST_USE;
// Asynchronous streams: of the context's device, and one that launches can go to now. |*out_capture|: state NONE or ACTIVE. The device is
// bound to the thread where the platform needs that.
slip_status_t slip__launch_check_stream(slip_context_t *context, slip_stream_t stream, slip_capture_info_t *out_capture) SLIP_MUST_USE;

static inline void slip__launch_copy_arguments(const slip__frame_view_t *view, slip_otensor_t *tensors, uint64_t *scalars) {
  memcpy(tensors, view->tensors, view->tensor_count * sizeof(*tensors));
  memcpy(scalars, view->scalars, view->scalar_count * sizeof(*scalars));
}

// Runs one callable on this thread in |slot|, which the caller holds; |tensors| and |scalars| are the run's own.
slip_status_t slip__launch_run(slip_context_t *context, slip__slot_t *slot, slip__registration_t *registration, slip_otensor_t *tensors,
                               const uint64_t *scalars) SLIP_MUST_USE;
// DEVICE means that the platform no longer knows what state the device is in; all other faults end with the run. |status| stays the
// caller's.
void slip__launch_poison_if_undefined(slip_context_t *context, slip_status_t status);

// Enqueues one launch on |record->stream| with the tensors and scalars of |view|, which are copied. |registration|'s gate is entered; once
// |*out_enqueued| it is the ticket's to leave, also on failure. |link| (the launch is part of a replay) and |out_ticket| may be NULL.
slip_status_t slip__launch_async(slip_context_t *context, slip__registration_t *registration, const slip_launch_record_t *record,
                                 const slip__frame_view_t *view, const slip__chain_link_t *link, slip_ticket_t **out_ticket,
                                 bool *out_enqueued) SLIP_MUST_USE;

// The residency of callables whose last user has left goes back, unless the context is no longer READY; close does it then.
void slip__launch_sweep(slip_context_t *context);

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_LAUNCH_H_
