// SPDX-License-Identifier: Apache-2.0
// Operations that launch: inline, on a stream, in a capture; waiting; and the replay of a capture.
#include "fault_operations.h"

static void fault_begin_launch(fault_world_t *world) {
  fault_blank(world);
}

static slip_status_t fault_run_launch_inline(fault_world_t *world) {
  return fault_launch(world, &world->frame, SLIP_STREAM_INLINE, &world->ticket);
}

static slip_status_t fault_run_launch(fault_world_t *world) {
  slip_status_t status = fault_launch(world, &world->frame, world->stream, &world->ticket);
  return slip_status_is_ok(status) ? slip_ticket_wait(world->ticket, -1) : status;
}

static void fault_done_launch(fault_world_t *world) {
  fault_expect_sum(world, "the launch");
  fault_check(world, slip_ticket_wait(world->ticket, -1), SLIP_CODE_OK, "its ticket, again");
}

static void fault_failed_launch(fault_world_t *world, fault_t fault) {
  (void)fault;
  slip_context_stats_t stats = fault_stats(world);
  if (world->poisoned) return;
  if (world->ticket) {  // enqueued well, but not waited for
    fault_done_launch(world);
    return;
  }
  if (stats.pending != 0 || stats.launches != 0 || stats.refused != 1) {
    fault_wrong(world, "a refused launch left a trace: %llu launches, %llu pending, %llu refused", (unsigned long long)stats.launches,
                (unsigned long long)stats.pending, (unsigned long long)stats.refused);
  }
  if (atomic_load(&world->released) != world->records) fault_wrong(world, "a refused launch did not release its owner at once");
}

// The wait ends the last launch of a callable that was released meanwhile, which it then unloads.
static void fault_begin_wait(fault_world_t *world) {
  fault_blank(world);
  fault_check(world, fault_launch(world, &world->frame, world->stream, &world->ticket), SLIP_CODE_OK, "a launch");
  fault_check(world, slip_context_release(world->context, world->add), SLIP_CODE_OK, "a release");
}

static void fault_done_wait(fault_world_t *world) {
  fault_done_launch(world);
  fault_check(world, slip_context_drain(world->context), SLIP_CODE_OK, "a drain that unloads what is owed");
  uint64_t modules = world->taken[FAULT_MODULES] - world->given[FAULT_MODULES];
  if (modules != 1) fault_wrong(world, "%llu modules after the drain, expected 1", (unsigned long long)modules);
  fault_world_prepare_add(world);
}

static void fault_failed_wait(fault_world_t *world, fault_t fault) {
  (void)fault;
  if (!world->poisoned) fault_done_wait(world);
}

static slip_status_t fault_run_wait(fault_world_t *world) {
  SLIP_RETURN_IF_ERROR(slip_ticket_wait(world->ticket, -1));
  return slip_ticket_query(world->ticket);
}

// --- in a capture ------------------------------------------------------------------------------------------------------------------------

static void fault_begin_capture(fault_world_t *world) {
  fault_blank(world);
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  world->capturing = true;
}

static slip_status_t fault_run_captured(fault_world_t *world) {
  return fault_launch(world, &world->frame, world->stream, &world->ticket);
}

static slip_status_t fault_replay(fault_world_t *world) {
  if (world->capturing) {
    SLIP_RETURN_IF_ERROR(slip_stream_capture_end(world->platform, world->stream, &world->exec));
    world->capturing = false;
  }
  SLIP_RETURN_IF_ERROR(slip_graph_exec_launch(world->platform, world->exec, world->stream));
  SLIP_RETURN_IF_ERROR(slip_stream_synchronize(world->platform, world->stream));
  slip_status_t fault = slip_ticket_query(world->ticket);
  if (slip_status_code(fault) != SLIP_CODE_NOT_READY) return fault;
  slip_status_free(fault);
  return slip_ok_status();
}

static void fault_done_captured(fault_world_t *world) {
  fault_check_capture(world);
  fault_check(world, fault_replay(world), SLIP_CODE_OK, "a replay");
  fault_expect_sum(world, "the replay");
}

static void fault_failed_captured(fault_world_t *world, fault_t fault) {
  (void)fault;
  fault_check_capture(world);
  if (world->ticket) fault_wrong(world, "a failed launch gave a ticket");
  if (!world->poisoned && atomic_load(&world->released) != world->records)
    fault_wrong(world, "a refused launch did not release its owner at once");
}

static void fault_begin_replay(fault_world_t *world) {
  fault_begin_capture(world);
  fault_check(world, fault_run_captured(world), SLIP_CODE_OK, "a launch in the capture");
}

static void fault_failed_replay(fault_world_t *world, fault_t fault) {
  (void)fault;
  fault_check_capture(world);
  if (!world->poisoned && (world->capturing || world->exec)) fault_done_captured(world);
}

static void fault_done_replay(fault_world_t *world) {
  fault_expect_sum(world, "the replay");
}

// The query that finds the capture's state unknown reaps nothing, which is put off.
static bool fault_puts_off_reaping(fault_t fault) {
  return fault_is(fault, SLIP__PLATFORM_CALL_THREAD_CAPTURE_INFO);
}

bool fault_puts_off_sweeping(fault_t fault) {
  return fault_puts_off_reaping(fault) || fault_is(fault, SLIP__PLATFORM_CALL_DEVICE_PUSH) ||
         fault_is(fault, SLIP__PLATFORM_CALL_DEVICE_POP) || fault_is(fault, SLIP__PLATFORM_CALL_MODULE_UNLOAD) ||
         (fault.class == FAULT_SYSTEM && fault.call == SLIP__OS_CALL_UNLOAD);
}

static slip_status_t fault_run_end_of_graph(fault_world_t *world) {
  SLIP_RETURN_IF_ERROR(slip_graph_exec_destroy(world->platform, world->exec));
  world->exec = NULL;
  return slip_context_drain(world->context);
}

static void fault_begin_end_of_graph(fault_world_t *world) {
  fault_begin_replay(world);
  fault_check(world, fault_replay(world), SLIP_CODE_OK, "a replay");
}

const fault_operation_t fault_launch_operations[] = {
    {"launch_inline", FAULT_CPU, true, fault_begin_launch, fault_run_launch_inline, fault_failed_launch, fault_done_launch, NULL, false},
    {"launch", FAULT_ALL, true, fault_begin_launch, fault_run_launch, fault_failed_launch, fault_done_launch, fault_puts_off_reaping,
     false},
    {"wait", FAULT_ALL, true, fault_begin_wait, fault_run_wait, fault_failed_wait, fault_done_wait, fault_puts_off_sweeping, false},
    {"captured", FAULT_SIM, true, fault_begin_capture, fault_run_captured, fault_failed_captured, fault_done_captured,
     fault_puts_off_reaping, false},
    {"replay", FAULT_SIM, true, fault_begin_replay, fault_replay, fault_failed_replay, fault_done_replay, fault_puts_off_reaping, false},
    {"end_of_graph", FAULT_SIM, true, fault_begin_end_of_graph, fault_run_end_of_graph, NULL, NULL, fault_puts_off_reaping, false},
    {NULL, 0, false, NULL, NULL, NULL, NULL, NULL, false},
};
