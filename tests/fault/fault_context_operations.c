// SPDX-License-Identifier: Apache-2.0
// Operations on contexts: open, prepare, release, drain, close, destroy.
#include "fault_operations.h"

// --- open --------------------------------------------------------------------------------------------------------------------------------

// As if nobody had used the platform yet: loading it is part of open.
static void fault_begin_open(fault_world_t *world) {
  atomic_store(&world->platform->ready, 0);
}

static slip_status_t fault_run_open(fault_world_t *world) {
  return slip_context_open(&world->options, &world->context);
}

static void fault_failed_open(fault_world_t *world, fault_t fault) {
  (void)fault;
  if (!world->context) {
    if (world->memory.live_blocks != 0) fault_wrong(world, "a failed open left %llu blocks", (unsigned long long)world->memory.live_blocks);
    return;
  }
  if (slip_context_state(world->context) != SLIP_CONTEXT_FAILED) fault_wrong(world, "a failed open gave a context that is not FAILED");
  fault_check(world, slip_context_destroy(world->context), SLIP_CODE_INVALID_STATE, "destroying a failed open before close");
}

// --- prepare, release --------------------------------------------------------------------------------------------------------------------

static slip_status_t fault_run_prepare(fault_world_t *world) {
  world->prepared = 99;
  return slip_context_prepare(world->context, slip_fixture_bytes(world->scratch_image), &world->prepared);
}

static void fault_failed_prepare(fault_world_t *world, fault_t fault) {
  slip_context_stats_t stats = fault_stats(world);
  // An id that was minted before the device could not be unbound is not used again.
  int32_t next = fault_is(fault, SLIP__PLATFORM_CALL_DEVICE_POP) ? 3 : 2;
  if (world->prepared != -1) fault_wrong(world, "a failed prepare gave the id %d", world->prepared);
  if (stats.callables != 2) fault_wrong(world, "%u callables after a failed prepare, expected 2", stats.callables);
  fault_check(world, fault_run_prepare(world), SLIP_CODE_OK, "preparing again");
  if (world->prepared != next) fault_wrong(world, "the next id is %d, expected %d", world->prepared, next);
}

static void fault_done_prepare(fault_world_t *world) {
  if (world->prepared != 2) fault_wrong(world, "prepare gave the id %d, expected 2", world->prepared);
}

static slip_status_t fault_run_release(fault_world_t *world) {
  return slip_context_release(world->context, world->control);
}

static void fault_done_release(fault_world_t *world) {
  slip_context_stats_t stats = fault_stats(world);
  fault_check(world, slip_context_release(world->context, world->control), SLIP_CODE_NOT_PREPARED, "releasing again");
  if (stats.callables != 1) fault_wrong(world, "%u callables after a release, expected 1", stats.callables);
}

static void fault_failed_release(fault_world_t *world, fault_t fault) {
  // What comes before the release itself refuses it. Otherwise the id is dead; its residency is owed and comes back with the next sweep.
  bool refused = fault_is(fault, SLIP__PLATFORM_CALL_THREAD_CAPTURE_INFO) || fault_is(fault, SLIP__PLATFORM_CALL_DEVICE_PUSH);
  if (refused) fault_check(world, slip_context_release(world->context, world->control), SLIP_CODE_OK, "releasing once more");
  fault_check(world, slip_context_drain(world->context), SLIP_CODE_OK, "drain");
  fault_done_release(world);
}

// --- drain, close, destroy ---------------------------------------------------------------------------------------------------------------

// A launch is under way.
static void fault_begin_busy(fault_world_t *world) {
  fault_blank(world);
  fault_check(world, fault_launch(world, &world->frame, world->stream, &world->ticket), SLIP_CODE_OK, "a launch");
}

static slip_status_t fault_run_drain(fault_world_t *world) {
  return slip_context_drain(world->context);
}

static void fault_done_drain(fault_world_t *world) {
  slip_context_stats_t stats = fault_stats(world);
  if (stats.pending != 0) fault_wrong(world, "%llu launches are pending after a drain", (unsigned long long)stats.pending);
  fault_check(world, slip_ticket_query(world->ticket), SLIP_CODE_OK, "a ticket after a drain");
  fault_expect_sum(world, "the launch before the drain");
}

static void fault_failed_drain(fault_world_t *world, fault_t fault) {
  (void)fault;
  if (world->poisoned) return;
  fault_check(world, slip_context_drain(world->context), SLIP_CODE_OK, "draining again");
  fault_done_drain(world);
}

static slip_status_t fault_run_close(fault_world_t *world) {
  return slip_context_close(world->context);
}

static void fault_done_close(fault_world_t *world) {
  if (slip_context_state(world->context) != SLIP_CONTEXT_CLOSED)
    fault_wrong(world, "a close that succeeded left another state than CLOSED");
  fault_check(world, slip_context_close(world->context), SLIP_CODE_OK, "closing again");
}

static void fault_failed_close(fault_world_t *world, fault_t fault) {
  int32_t id = 0;
  (void)fault;
  if (slip_context_state(world->context) != SLIP_CONTEXT_CLOSING)
    fault_wrong(world, "a failed close left the state %d", (int)slip_context_state(world->context));
  fault_check(world, slip_context_destroy(world->context), SLIP_CODE_INVALID_STATE, "destroying a half-closed context");
  fault_check(world, slip_context_prepare(world->context, slip_fixture_bytes(world->scratch_image), &id), SLIP_CODE_INVALID_STATE,
              "preparing on a half-closed context");
  fault_check(world, slip_context_close(world->context), SLIP_CODE_OK, "closing again");
  fault_done_close(world);
}

// Close goes on where the platform cannot tell of captures.
static bool fault_tolerates_close(fault_t fault) {
  return fault_is_of_the_device(fault) || fault_is(fault, SLIP__PLATFORM_CALL_THREAD_CAPTURE_INFO);
}

static void fault_begin_destroy(fault_world_t *world) {
  fault_check(world, slip_context_close(world->context), SLIP_CODE_OK, "close");
}

static slip_status_t fault_run_destroy(fault_world_t *world) {
  SLIP_RETURN_IF_ERROR(slip_context_destroy(world->context));
  world->context = NULL;
  return slip_ok_status();
}

const fault_operation_t fault_context_operations[] = {
    {"open", FAULT_ALL, false, fault_begin_open, fault_run_open, fault_failed_open, NULL, NULL, false},
    {"prepare", FAULT_ALL, true, NULL, fault_run_prepare, fault_failed_prepare, fault_done_prepare, NULL, false},
    {"release", FAULT_ALL, true, NULL, fault_run_release, fault_failed_release, fault_done_release, NULL, false},
    {"drain", FAULT_ALL, true, fault_begin_busy, fault_run_drain, fault_failed_drain, fault_done_drain, fault_is_of_the_device, false},
    {"close", FAULT_ALL, true, fault_begin_busy, fault_run_close, fault_failed_close, fault_done_close, fault_tolerates_close, false},
    {"destroy", FAULT_ALL, true, fault_begin_destroy, fault_run_destroy, NULL, NULL, NULL, false},
    {NULL, 0, false, NULL, NULL, NULL, NULL, NULL, false},
};
