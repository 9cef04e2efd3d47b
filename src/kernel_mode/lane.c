// SPDX-License-Identifier: Apache-2.0
// Lanes: making and unmaking them, choosing one, and the steps of a launch (lane.h).
#include "kernel_mode/lane.h"

#include <inttypes.h>

#include "base/allocator.h"
#include "kernel_mode/ticket.h"
#include "os/thread.h"

#define SLIP__LANE_ASKERS_ID 1u  // the one occupant of that gate

// --- open and close ----------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__lane_create(slip_context_t *context, slip__lane_t *lane) {
  int32_t device = context->device.ordinal;
  SLIP_RETURN_IF_ERROR(slip_stream_create(context->platform, device, &lane->control));
  SLIP_RETURN_IF_ERROR(slip_stream_create(context->platform, device, &lane->compute));
  for (int i = 0; i < SLIP__LANE_EVENT_COUNT; ++i) SLIP_RETURN_IF_ERROR(slip_event_create(context->platform, device, &lane->events[i]));
  return slip_ok_status();
}

slip_status_t slip__lanes_create(slip_context_t *context) {
  if (!slip__context_uses_lanes(context)) return slip_ok_status();
  void *lanes = NULL;
  uint32_t count = context->slot_count + (slip__context_captures(context) ? context->options.max_captures : 0);
  SLIP_RETURN_IF_ERROR(slip__alloc_array(context->allocator, count, sizeof(slip__lane_t), &lanes));
  context->lanes = lanes;
  context->lane_count = count;
  atomic_store_explicit(&context->free_lanes, context->all_slots, memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    SLIP_RETURN_IF_ERROR_ANNOTATED(slip__lane_create(context, &context->lanes[i]),
                                   "making the streams and events of lane %" PRIu32 " of %" PRIu32, i, count);
  }
  slip__gate_open(&context->lane_askers, SLIP__LANE_ASKERS_ID);
  return slip_ok_status();
}

// Somebody reset the device: there is no such stream or event any more, and nothing that it could still do. Its destruction will tell.
static slip_status_t slip__lane_waited(slip_status_t status) {
  if (slip_status_code(status) != SLIP_CODE_INVALID_ARGUMENT) return status;
  slip_status_free(status);
  return slip_ok_status();
}

static slip_status_t slip__lane_synchronize(slip_context_t *context, const slip__lane_t *lane) {
  slip_platform_t *platform = context->platform;
  if (!lane->rough) {
    slip_event_t quiet = lane->events[SLIP__LANE_QUIET];
    return quiet ? slip__lane_waited(slip_event_synchronize(platform, quiet)) : slip_ok_status();
  }
  slip_status_t status = lane->compute ? slip__lane_waited(slip_stream_synchronize(platform, lane->compute)) : slip_ok_status();
  if (lane->control) status = slip_status_join(status, slip__lane_waited(slip_stream_synchronize(platform, lane->control)));
  return status;
}

slip_status_t slip__lanes_synchronize(slip_context_t *context) {
  slip_status_t status = slip_ok_status();
  for (uint32_t i = 0; context->lanes && i < context->lane_count; ++i)
    status = slip_status_join(status, slip__lane_synchronize(context, &context->lanes[i]));
  return slip_status_annotate(status, "waiting for the context's own streams");
}

bool slip__lanes_idle(slip_context_t *context) {
  if (!context->lanes) return true;
  // Acquire (seq_cst): pairs with slip__lane_give, so that the submission has made its last call.
  bool idle = atomic_load_explicit(&context->free_lanes, memory_order_seq_cst) == context->all_slots;
  pthread_mutex_lock(&context->lane_lock);
  for (uint32_t i = context->slot_count; i < context->lane_count; ++i) idle = idle && !context->lanes[i].busy;
  pthread_mutex_unlock(&context->lane_lock);
  return idle;
}

// An event may be recorded on the streams until they are quiet, and a stream is needed by nothing once its events are gone.
static slip_status_t slip__lane_destroy(slip_context_t *context, slip__lane_t *lane) {
  SLIP_RETURN_IF_ERROR(slip__lane_synchronize(context, lane));
  for (int i = 0; i < SLIP__LANE_EVENT_COUNT; ++i) {
    if (lane->events[i]) SLIP_RETURN_IF_ERROR(slip__context_given_back(context, slip_event_destroy(context->platform, lane->events[i])));
    lane->events[i] = NULL;
  }
  if (lane->compute) SLIP_RETURN_IF_ERROR(slip__context_given_back(context, slip_stream_destroy(context->platform, lane->compute)));
  lane->compute = NULL;
  if (lane->control) SLIP_RETURN_IF_ERROR(slip__context_given_back(context, slip_stream_destroy(context->platform, lane->control)));
  lane->control = NULL;
  return slip_ok_status();
}

slip_status_t slip__lanes_destroy(slip_context_t *context) {
  if (!context->lanes) return slip_ok_status();
  slip_status_t status = slip_ok_status();
  bool last = false;
  // All launches have retired, but a thread that waited for one may not have noticed yet. It asks, and never waits, in there.
  (void)slip__gate_close(&context->lane_askers, SLIP__LANE_ASKERS_ID, &last);
  while (slip__gate_inside(&context->lane_askers) > 0) slip__thread_yield();
  for (uint32_t i = 0; i < context->lane_count; ++i) status = slip_status_join(status, slip__lane_destroy(context, &context->lanes[i]));
  if (!slip_status_is_ok(status)) return status;
  slip__free(context->allocator, context->lanes, context->lane_count * sizeof(slip__lane_t));
  context->lanes = NULL;
  return slip_ok_status();
}

slip_status_t slip__lanes_ask_bound(slip_context_t *context) {
  for (uint32_t i = 0; context->lanes && i < context->slot_count; ++i) {
    const slip__lane_t *lane = &context->lanes[i];
    slip_capture_info_t info;
    if (atomic_load_explicit(&lane->outstanding, memory_order_relaxed) == 0) continue;
    SLIP_RETURN_IF_ERROR_ANNOTATED(slip_stream_capture_info(context->platform, lane->control, &info),
                                   "the device does not tell of launches under way, so that none is known to have ended");
  }
  return slip_ok_status();
}

slip_status_t slip__lanes_ask(slip_context_t *context) {
  slip_status_t status = slip_ok_status();
  if (!slip__gate_enter(&context->lane_askers, SLIP__LANE_ASKERS_ID)) return status;
  SLIP__CONTEXT_BOUND(status, context, slip__lanes_ask_bound(context));
  (void)slip__gate_leave(&context->lane_askers);
  return status;
}

// --- eager lanes -------------------------------------------------------------------------------------------------------------------------

// The best one of |free_lanes|, which is not 0.
static uint32_t slip__lane_choose(const slip_context_t *context, uint64_t free_lanes, uint32_t affinity) {
  uint32_t best = 0, fewest = UINT32_MAX;
  for (uint64_t rest = free_lanes; rest != 0; rest &= rest - 1) {
    uint32_t i = (uint32_t)__builtin_ctzll(rest);
    uint32_t outstanding = atomic_load_explicit(&context->lanes[i].outstanding, memory_order_relaxed);
    bool attracts = outstanding > 0 && outstanding < SLIP__LANE_DEPTH;
    if (attracts && atomic_load_explicit(&context->lanes[i].affinity, memory_order_relaxed) == affinity) return i;
    if (outstanding < fewest) {
      fewest = outstanding;
      best = i;
    }
  }
  return best;
}

static slip__lane_t *slip__lane_try(slip_context_t *context, uint32_t affinity) {
  uint64_t free_lanes = atomic_load_explicit(&context->free_lanes, memory_order_seq_cst);
  while (free_lanes != 0) {
    uint32_t index = slip__lane_choose(context, free_lanes, affinity);
    // seq_cst for signal.h; acquire: pairs with the release of slip__lane_give, so that one submission follows the other.
    if (atomic_compare_exchange_weak_explicit(&context->free_lanes, &free_lanes, free_lanes & ~(UINT64_C(1) << index), memory_order_seq_cst,
                                              memory_order_seq_cst)) {
      atomic_store_explicit(&context->lanes[index].affinity, affinity, memory_order_relaxed);
      return &context->lanes[index];
    }
  }
  return NULL;
}

slip__lane_t *slip__lane_take(slip_context_t *context, slip_stream_t stream) {
  enum { SPINS = 200 };  // about 10 us, which is what a submission takes
  uint32_t affinity = (uint32_t)(((uint64_t)(uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
  slip__lane_t *lane = slip__lane_try(context, affinity);
  for (int i = 0; i < SPINS && !lane; ++i) {
    slip__cpu_relax();
    lane = slip__lane_try(context, affinity);
  }
  if (lane) return lane;
  uint32_t key = slip__signal_enter(&context->lane_signal);
  while (!(lane = slip__lane_try(context, affinity))) (void)slip__signal_sleep(&context->lane_signal, &key, -1);
  slip__signal_leave(&context->lane_signal);
  return lane;
}

void slip__lane_give(slip_context_t *context, slip__lane_t *lane) {
  atomic_fetch_or_explicit(&context->free_lanes, UINT64_C(1) << (lane - context->lanes), memory_order_seq_cst);
  slip__signal_raise(&context->lane_signal);
}

// --- leases ------------------------------------------------------------------------------------------------------------------------------

// Lock held. Of the capture's own lane, else of one whose capture has ended.
static slip_status_t slip__lane_find(slip_context_t *context, uint64_t id, slip__lane_t **out) {
  slip__lane_t *end = context->lanes + context->lane_count;
  for (slip__lane_t *lane = context->lanes + context->slot_count; lane < end; ++lane) {
    if (lane->capture == id) *out = lane;
  }
  for (slip__lane_t *lane = context->lanes + context->slot_count; lane < end && !*out; ++lane) {
    slip_capture_info_t info = {SLIP_CAPTURE_NONE, 0, 0};
    if (lane->busy) continue;
    if (lane->capture != 0) SLIP_RETURN_IF_ERROR(slip_stream_capture_info(context->platform, lane->control, &info));
    if (info.state == SLIP_CAPTURE_NONE) *out = lane;
  }
  if (*out) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_BUSY,
                     "captures in progress that hold launches: %" PRIu32 ", which is max_captures; end one or open with more",
                     context->options.max_captures);
}

slip_status_t slip__lane_lease(slip_context_t *context, uint64_t id, slip__lane_t **out) {
  *out = NULL;
  pthread_mutex_lock(&context->lane_lock);
  slip_status_t status = slip__lane_find(context, id, out);
  while (*out && (*out)->busy) {  // another thread launches in the same capture: microseconds
    pthread_cond_wait(&context->lane_idle, &context->lane_lock);
    *out = NULL;
    status = slip__lane_find(context, id, out);
  }
  if (*out) {
    (*out)->capture = id;
    (*out)->busy = true;
  }
  pthread_mutex_unlock(&context->lane_lock);
  return status;
}

void slip__lane_return(slip_context_t *context, slip__lane_t *lane) {
  pthread_mutex_lock(&context->lane_lock);
  lane->busy = false;
  pthread_cond_broadcast(&context->lane_idle);
  pthread_mutex_unlock(&context->lane_lock);
}

// --- steps -------------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__lane_stage(const slip__submission_t *s) {
  const slip__registration_t *registration = s->ticket->registration;
  uint64_t bytes = registration->tensor_count * sizeof(slip_otensor_t) + registration->scalar_count * sizeof(uint64_t);
  if (bytes == 0) return slip_ok_status();
  return slip_memory_copy_async(s->context->platform, s->lane->control, s->ticket->device_arguments, s->ticket->arguments, bytes,
                                SLIP_COPY_HOST_TO_DEVICE);
}

static slip_status_t slip__lane_take_step(const slip__submission_t *s, slip__lane_step_e step) {
  slip_platform_t *platform = s->context->platform;
  const slip__lane_t *lane = s->lane;
  switch (step) {
    case SLIP__LANE_RECORD_IN:
      return slip_event_record(platform, lane->events[SLIP__LANE_IN], s->stream);
    case SLIP__LANE_WAIT_IN:
      return slip_stream_wait_event(platform, lane->control, lane->events[SLIP__LANE_IN]);
    case SLIP__LANE_STAGE:
      return slip__lane_stage(s);
    case SLIP__LANE_RECORD_STAGED:
      return slip_event_record(platform, lane->events[SLIP__LANE_STAGED], lane->control);
    case SLIP__LANE_WAIT_STAGED:
      return slip_stream_wait_event(platform, lane->compute, lane->events[SLIP__LANE_STAGED]);
    case SLIP__LANE_LAUNCH:
      return slip__platform_stream_launch(platform, lane->compute, slip__lane_run, s->ticket);
    case SLIP__LANE_RECORD_RAN:
      return slip_event_record(platform, lane->events[SLIP__LANE_RAN], lane->compute);
    case SLIP__LANE_WAIT_RAN:
      return slip_stream_wait_event(platform, lane->control, lane->events[SLIP__LANE_RAN]);
    case SLIP__LANE_FINISH:
      return s->capture ? slip_ok_status() : slip_stream_enqueue_host(platform, lane->control, slip__lane_finish, s->ticket);
    case SLIP__LANE_RECORD_OUT:
      return slip_event_record(platform, lane->events[SLIP__LANE_OUT], lane->control);
    case SLIP__LANE_WAIT_OUT:
      return slip_stream_wait_event(platform, s->stream, lane->events[SLIP__LANE_OUT]);
    case SLIP__LANE_RECORD_QUIET:
      return s->capture ? slip_ok_status() : slip_event_record(platform, lane->events[SLIP__LANE_QUIET], lane->control);
    case SLIP__LANE_DONE:
      break;
  }
  return slip_ok_status();
}

static const char *slip__lane_step_name(slip__lane_step_e step) {
  static const char *const names[] = {"",
                                      "recording IN on the caller's stream",
                                      "waiting for IN on control",
                                      "copying the arguments on control",
                                      "recording STAGED on control",
                                      "waiting for STAGED on compute",
                                      "launching on compute",
                                      "recording RAN on compute",
                                      "waiting for RAN on control",
                                      "enqueuing the end on control",
                                      "recording OUT on control",
                                      "waiting for OUT on the caller's stream",
                                      "recording QUIET on control"};
  return names[step];
}

static slip_status_t slip__lane_join_one(const slip__submission_t *s, slip_stream_t helper, slip__lane_event_e event) {
  SLIP_RETURN_IF_ERROR(slip_event_record(s->context->platform, s->lane->events[event], helper));
  return slip_stream_wait_event(s->context->platform, s->stream, s->lane->events[event]);
}

// After |failed|: what has been forked off the caller's stream goes back to it.
static slip_status_t slip__lane_join(const slip__submission_t *s, slip__lane_step_e failed) {
  slip_status_t status = slip_ok_status();
  // Nothing can be joined to a stream that captures by now: the attempt would break that capture.
  if (s->moved && s->capture == 0) return status;
  if (failed > SLIP__LANE_WAIT_STAGED) status = slip__lane_join_one(s, s->lane->compute, SLIP__LANE_RAN);
  if (failed > SLIP__LANE_WAIT_IN) status = slip_status_join(status, slip__lane_join_one(s, s->lane->control, SLIP__LANE_OUT));
  return slip_status_annotate(status,
                              "the context's own streams could not be joined to the caller's either: later work on it is not ordered after "
                              "what was enqueued, and a capture cannot be ended well");
}

// --- captures that change meanwhile

static slip_status_t slip__lane_refuse_moved(const slip__submission_t *s) {
  if (s->capture == 0) {
    return SLIP_STATUS(
        SLIP_CODE_INVALID_STATE,
        "another thread began a capture on the stream while the launch was being enqueued%s; launch before or in the capture",
        s->step > SLIP__LANE_WAIT_IN ? ": it runs, but nothing on the stream is ordered after it" : "");
  }
  return SLIP_STATUS(SLIP_CODE_INVALID_STATE,
                     "capture %" PRIu64
                     " was ended or broken by another thread while the launch was being recorded; end it after its launches",
                     s->capture);
}

// Whether |stream| is in the launch's capture; eager: in none.
static slip_status_t slip__lane_ask_capture(const slip__submission_t *s, slip_stream_t stream, bool *out_same, bool *out_broken) {
  slip_capture_info_t info = {SLIP_CAPTURE_NONE, 0, 0};
  slip_status_t status = slip_stream_capture_info(s->context->platform, stream, &info);
  *out_same = info.id == s->capture;
  *out_broken = info.state == SLIP_CAPTURE_INVALIDATED;
  return status;
}

// The questions of lane.h, before |step|.
static slip_status_t slip__lane_look(const slip__submission_t *s, slip__lane_step_e step) {
  bool same = true, broken = false;
  if (!slip__context_captures(s->context)) return slip_ok_status();
  if (step == SLIP__LANE_WAIT_IN || (step == SLIP__LANE_WAIT_OUT && !s->capture))
    SLIP_RETURN_IF_ERROR(slip__lane_ask_capture(s, s->stream, &same, &broken));
  if (step == SLIP__LANE_WAIT_OUT && s->capture) {
    SLIP_RETURN_IF_ERROR(slip__lane_ask_capture(s, s->lane->control, &same, &broken));
    // Release: pairs with the acquire of slip__lane_run.
    if (same) atomic_store_explicit(&s->ticket->armed, 1, memory_order_release);
  }
  return same ? slip_ok_status() : slip__lane_refuse_moved(s);
}

// Step |s->step| failed. Where the platform does not tell, the capture is taken to be as it was.
static void slip__lane_judge(slip__submission_t *s) {
  bool same = true, broken = false;
  if (s->capture && s->step > SLIP__LANE_WAIT_IN) {
    slip_status_t status = slip__lane_ask_capture(s, s->lane->control, &same, &broken);
    if (slip_status_is_ok(status) && same) atomic_store_explicit(&s->ticket->armed, 1, memory_order_release);
    s->torn = slip_status_is_ok(status) && !same;
    slip_status_free(status);
  }
  if (s->capture || (s->step == SLIP__LANE_WAIT_OUT && slip__context_captures(s->context))) {
    slip_status_t status = slip__lane_ask_capture(s, s->stream, &same, &broken);
    s->moved = s->torn || (slip_status_is_ok(status) && (!same || broken));
    slip_status_free(status);
  }
}

// The ticket, which is not armed, is finished behind whatever was executed at once.
static slip_status_t slip__lane_settle(const slip__submission_t *s) {
  slip_platform_t *platform = s->context->platform;
  const slip__lane_t *lane = s->lane;
  s->lane->rough = true;
  SLIP_RETURN_IF_ERROR(slip_event_record(platform, lane->events[SLIP__LANE_RAN], lane->compute));
  SLIP_RETURN_IF_ERROR(slip_stream_wait_event(platform, lane->control, lane->events[SLIP__LANE_RAN]));
  return slip_stream_enqueue_host(platform, lane->control, slip__lane_end_captured, s->ticket);
}

// After step |s->step| failed with |status|.
static slip_status_t slip__lane_failed(slip__submission_t *s, slip_status_t status) {
  slip__lane_judge(s);
  if (s->moved && slip_status_code(status) != SLIP_CODE_INVALID_STATE) status = slip_status_join(slip__lane_refuse_moved(s), status);
  status = slip_status_annotate(status, "in the launch's own operations (step %d of %d: %s)", s->step, SLIP__LANE_DONE - 1,
                                slip__lane_step_name(s->step));
  status = slip_status_join(status, slip__lane_join(s, s->step));
  // If even that fails, the ticket is kept, and with it the context: nobody knows whether the device still uses it.
  return s->torn ? slip_status_join(status, slip__lane_settle(s)) : status;
}

slip_status_t slip__lane_submit(slip__submission_t *s) {
  bool eager = s->capture == 0;
  slip_status_t status = slip_ok_status();
  s->ticket->lane = s->lane;
  atomic_store_explicit(&s->ticket->armed, eager, memory_order_relaxed);
  if (eager) atomic_fetch_add_explicit(&s->lane->outstanding, 1, memory_order_relaxed);
  for (s->step = SLIP__LANE_RECORD_IN; s->step < SLIP__LANE_DONE; ++s->step) {
    status = slip__lane_look(s, s->step);
    if (slip_status_is_ok(status)) status = slip__lane_take_step(s, s->step);
    if (!slip_status_is_ok(status)) break;
  }
  if (s->step == SLIP__LANE_DONE) return slip_ok_status();
  if (s->step >= SLIP__LANE_STAGE && eager) s->lane->rough = true;
  // Step 9 was not reached: nothing will count it out.
  if (eager && s->step <= SLIP__LANE_FINISH) atomic_fetch_sub_explicit(&s->lane->outstanding, 1, memory_order_relaxed);
  return slip__lane_failed(s, status);
}
