// SPDX-License-Identifier: Apache-2.0
// A device that breaks while it is used: sticky until its owner resets it.
#include "fault_loop.h"

// Where the device breaks.
typedef enum fault_moment_e {
  FAULT_BEFORE_LAUNCH,
  FAULT_AFTER_LAUNCH,   // enqueued, perhaps run
  FAULT_IN_CAPTURE,     // between two captured launches
  FAULT_BEFORE_REPLAY,  // the capture has ended well
  FAULT_AFTER_REPLAY,
  FAULT_IN_RECORDING,  // slip_graph_launch
  FAULT_BEFORE_PREPARE,
  FAULT_BEFORE_RELEASE,
  FAULT_BEFORE_DRAIN,
  FAULT_BEFORE_CLOSE,
  FAULT_MOMENTS
} fault_moment_e;

static const char *fault_moment_name(fault_moment_e moment) {
  static const char *const names[] = {"before a launch",    "after a launch",   "in a capture",     "before a replay", "after a replay",
                                      "before a recording", "before a prepare", "before a release", "before a drain",  "before close"};
  return names[moment];
}

// The platform's own number is passed on: some sticky fault of the flavour, whatever it calls it.
static void fault_check_sticky(fault_world_t *world, slip_status_t status, const char *what) {
  if (slip_status_code(status) == SLIP_CODE_DEVICE && slip_status_platform_code(status) == 0) fault_wrong(world, "%s told no number", what);
  fault_check(world, status, SLIP_CODE_DEVICE, what);
}

static void fault_break(fault_world_t *world) {
  fault_check(world, slip_sim_break_device(0), SLIP_CODE_OK, "breaking the device");
}

// The launch ran before the device broke, or tells that it did not.
static void fault_break_after_launch(fault_world_t *world) {
  fault_check(world, fault_launch(world, &world->frame, world->stream, &world->ticket), SLIP_CODE_OK, "a launch");
  fault_break(world);
  slip_status_t status = slip_ticket_wait(world->ticket, -1);
  if (!slip_status_is_ok(status) && slip_status_code(status) != SLIP_CODE_DEVICE) fault_wrong(world, "the ticket told another failure");
  slip_status_free(status);
}

static void fault_break_capture(fault_world_t *world, fault_moment_e moment) {
  slip_capture_info_t info = {0, 0, 0};
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  fault_check(world, fault_launch(world, &world->frame, world->stream, &world->ticket), SLIP_CODE_OK, "a launch in the capture");
  if (moment == FAULT_IN_CAPTURE) {
    slip_ticket_t *ticket = NULL;
    fault_break(world);
    fault_check_sticky(world, fault_launch(world, &world->frame, world->stream, &ticket), "a launch in a capture on a broken device");
    if (ticket) fault_wrong(world, "a failed launch gave a ticket");
    slip_status_free(slip_stream_capture_info(world->platform, world->stream, &info));
    slip_status_free(slip_stream_capture_end(world->platform, world->stream, &world->exec));
    return;
  }
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &world->exec));
  if (moment == FAULT_AFTER_REPLAY) SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, world->exec, world->stream));
  fault_break(world);
  fault_check_sticky(world, slip_graph_exec_launch(world->platform, world->exec, world->stream), "a replay on a broken device");
}

static void fault_break_recording(fault_world_t *world) {
  fault_check(world, slip_graph_create(world->context, &world->graph), SLIP_CODE_OK, "making a recording");
  fault_check(world, slip_graph_add(world->graph, world->add, &world->frame, NULL), SLIP_CODE_OK, "adding");
  fault_break(world);
  fault_check_sticky(world, slip_graph_launch(world->graph, world->stream, &world->ticket), "a recording on a broken device");
  if (world->ticket) fault_wrong(world, "a failed launch gave a ticket");
}

static void fault_break_at(fault_world_t *world, fault_moment_e moment) {
  int32_t id = 0;
  slip_ticket_t *ticket = NULL;
  bool capture = moment == FAULT_IN_CAPTURE || moment == FAULT_BEFORE_REPLAY || moment == FAULT_AFTER_REPLAY;
  if (moment == FAULT_AFTER_LAUNCH) fault_break_after_launch(world);
  if (capture) fault_break_capture(world, moment);
  if (moment == FAULT_IN_RECORDING) fault_break_recording(world);
  if (moment == FAULT_AFTER_LAUNCH || capture || moment == FAULT_IN_RECORDING) return;
  fault_break(world);
  if (moment == FAULT_BEFORE_LAUNCH) fault_check_sticky(world, fault_launch(world, &world->frame, world->stream, &ticket), "a launch");
  if (moment == FAULT_BEFORE_PREPARE) {
    fault_check_sticky(world, slip_context_prepare(world->context, slip_fixture_bytes(world->scratch_image), &id), "prepare");
    if (id != -1) fault_wrong(world, "a failed prepare gave the id %d", id);
  }
  if (moment == FAULT_BEFORE_RELEASE) fault_check_sticky(world, slip_context_release(world->context, world->control), "release");
  // Nothing is under way, so that the device is asked for nothing.
  if (moment == FAULT_BEFORE_DRAIN) fault_check(world, slip_context_drain(world->context), SLIP_CODE_OK, "drain");
}

// Each close keeps everything until the owner of the device resets it; the next one ends and tells so, once. The caller's own captures and
// graphs, which he cannot end on that device either, are told first.
static void fault_break_close(fault_world_t *world, fault_moment_e moment) {
  bool captures = moment == FAULT_IN_CAPTURE, replays = moment == FAULT_BEFORE_REPLAY || moment == FAULT_AFTER_REPLAY;
  slip_context_state_e state = captures ? SLIP_CONTEXT_READY : SLIP_CONTEXT_CLOSING;
  for (int i = 0; i < 3; ++i) {
    slip_status_t status = slip_context_close(world->context);
    if (captures || replays) {
      fault_check(world, status, captures ? SLIP_CODE_CAPTURE_UNSUPPORTED : SLIP_CODE_BUSY, "close on a broken device");
    } else {
      fault_check_sticky(world, status, "close on a broken device");
    }
    if (slip_context_state(world->context) != state) fault_wrong(world, "close on a broken device left another state");
    fault_check(world, slip_context_destroy(world->context), SLIP_CODE_INVALID_STATE, "destroy before close has ended");
  }
  fault_check(world, slip_sim_reset_device(0), SLIP_CODE_OK, "resetting the device");
  slip_status_t status = slip_context_close(world->context);
  fault_check(world, status, SLIP_CODE_DEVICE, "the close that tells of the reset");
  if (slip_context_state(world->context) != SLIP_CONTEXT_CLOSED) fault_wrong(world, "the owed close did not end");
  fault_check(world, slip_context_close(world->context), SLIP_CODE_OK, "closing again");
  fault_check(world, slip_context_destroy(world->context), SLIP_CODE_OK, "destroy");
  world->context = NULL;
}

// A fresh context on the device works.
static void fault_break_reopen(const fault_variant_t *variant, const char *what, const fault_rest_t *rest, fault_counts_t *counts) {
  fault_world_t world;
  fault_world_begin(&world, variant, what);
  fault_world_open(&world);
  fault_use(&world, false);
  fault_world_end(&world, rest);
  counts->leaks += world.leaks;
  counts->wrong += world.wrong;
}

static void fault_break_once(const fault_variant_t *variant, fault_moment_e moment, const fault_rest_t *rest, fault_counts_t *counts) {
  fault_world_t world;
  char what[160];
  (void)snprintf(what, sizeof(what), "a device (%s) that breaks %s", variant->name, fault_moment_name(moment));
  fault_world_begin(&world, variant, what);
  fault_world_open(&world);
  fault_break_at(&world, moment);
  // Which a broken device refuses, so that the launches in it stay.
  slip_status_free(slip_graph_exec_destroy(world.platform, world.exec));
  world.exec = NULL;
  slip_ticket_release(world.ticket);
  world.ticket = NULL;
  fault_check(&world, slip_graph_destroy(world.graph), SLIP_CODE_OK, "destroying the recording");
  world.graph = NULL;
  fault_break_close(&world, moment);
  fault_world_end_after_reset(&world, rest);
  counts->faults += 1;
  counts->leaks += world.leaks;
  counts->wrong += world.wrong;
  fault_break_reopen(variant, what, rest, counts);
}

static void fault_break_all(fault_counts_t *counts, const fault_rest_t *rest) {
  for (uint32_t v = 0; fault_variant_at(v); ++v) {
    if (fault_variant_at(v)->place == FAULT_CPU) continue;
    for (int moment = 0; moment < FAULT_MOMENTS; ++moment) fault_break_once(fault_variant_at(v), (fault_moment_e)moment, rest, counts);
  }
}

SLIP_TEST_TIMEOUT(fault_a_device_that_breaks, 300) {
  fault_counts_t total = {0, 0, 0, 0};
  fault_in_child("devices that break", fault_break_all, &total);
  fault_report(&total);
}
