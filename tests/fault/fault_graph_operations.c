// SPDX-License-Identifier: Apache-2.0
// Operations on recorded launches (slipstream/graph.h), and a whole life from open to close.
#include "fault_operations.h"

static void fault_replay_expect(fault_world_t *world, float x, float y, const char *what) {
  slip_ticket_t *ticket = NULL;
  fault_blank(world);
  slip_status_t status = slip_graph_launch(world->graph, world->stream, &ticket);
  bool launched = slip_status_is_ok(status);
  fault_check(world, status, SLIP_CODE_OK, what);
  if (!launched) return;
  fault_check(world, slip_ticket_wait(ticket, -1), SLIP_CODE_OK, what);
  slip_ticket_release(ticket);
  fault_expect(world, x, y, what);
}

static slip_status_t fault_run_create(fault_world_t *world) {
  return slip_graph_create(world->context, &world->graph);
}
static slip_status_t fault_run_add(fault_world_t *world) {
  return slip_graph_add(world->graph, world->add, &world->frame, NULL);
}

static void fault_begin_created(fault_world_t *world) {
  fault_check(world, fault_run_create(world), SLIP_CODE_OK, "making a recording");
}
static void fault_begin_one(fault_world_t *world) {
  fault_begin_created(world);
  fault_check(world, fault_run_add(world), SLIP_CODE_OK, "adding");
}
static void fault_begin_two(fault_world_t *world) {
  fault_begin_one(world);
  fault_check(world, fault_run_add(world), SLIP_CODE_OK, "adding");
  fault_blank(world);
}

static void fault_failed_create(fault_world_t *world, fault_t fault) {
  (void)fault;
  if (world->graph) fault_wrong(world, "a failed slip_graph_create gave a graph");
  fault_check(world, fault_run_create(world), SLIP_CODE_OK, "making a recording again");
}

static void fault_done_add(fault_world_t *world) {
  if (slip_graph_node_count(world->graph) != 1) fault_wrong(world, "%u nodes after one add", slip_graph_node_count(world->graph));
  fault_replay_expect(world, 1, 1, "the recording");
}

static void fault_failed_add(fault_world_t *world, fault_t fault) {
  (void)fault;
  if (slip_graph_node_count(world->graph) != 0) fault_wrong(world, "a failed add left a node");
  fault_check(world, fault_run_add(world), SLIP_CODE_OK, "adding again");
  fault_done_add(world);
}

static slip_status_t fault_run_bind(fault_world_t *world) {
  return slip_graph_bind(world->graph, 0, &world->frame_twice);
}

static void fault_done_bind(fault_world_t *world) {
  fault_replay_expect(world, 0, 2, "the recording as bound");
}

static void fault_failed_bind(fault_world_t *world, fault_t fault) {
  (void)fault;
  fault_replay_expect(world, 1, 1, "the recording as before the bind that failed");
  fault_check(world, fault_run_bind(world), SLIP_CODE_OK, "binding again");
  fault_done_bind(world);
}

// --- launching
// -----------------------------------------------------------------------------------------------------------------------------

static slip_status_t fault_run_graph_launch(fault_world_t *world) {
  slip_status_t status = slip_graph_launch(world->graph, world->stream, &world->ticket);
  return slip_status_is_ok(status) ? slip_ticket_wait(world->ticket, -1) : status;
}

static void fault_done_graph_launch(fault_world_t *world) {
  fault_expect_sum(world, "the replay");
  fault_check(world, slip_ticket_wait(world->ticket, -1), SLIP_CODE_OK, "its ticket, again");
}

static void fault_failed_graph_launch(fault_world_t *world, fault_t fault) {
  (void)fault;
  if (world->poisoned) return;
  if (world->ticket) fault_done_graph_launch(world);
  fault_replay_expect(world, 1, 1, "replaying again");
}

static slip_status_t fault_run_graph_inline(fault_world_t *world) {
  return slip_graph_launch(world->graph, SLIP_STREAM_INLINE, &world->ticket);
}

static void fault_begin_graph_captured(fault_world_t *world) {
  fault_begin_two(world);
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  world->capturing = true;
}

static slip_status_t fault_run_graph_captured(fault_world_t *world) {
  return slip_graph_launch(world->graph, world->stream, &world->ticket);
}

static void fault_done_graph_captured(fault_world_t *world) {
  fault_check_capture(world);
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &world->exec));
  world->capturing = false;
  fault_check(world, slip_graph_exec_launch(world->platform, world->exec, world->stream), SLIP_CODE_OK, "executing the capture");
  fault_expect_sum(world, "the captured replay");
  fault_check(world, slip_ticket_query(world->ticket), SLIP_CODE_NOT_READY, "the ticket of a captured launch");
}

static void fault_failed_graph_captured(fault_world_t *world, fault_t fault) {
  (void)fault;
  fault_check_capture(world);
  if (world->ticket) fault_wrong(world, "a failed launch gave a ticket");
}

static bool fault_graph_puts_off(fault_t fault) {
  return fault_is(fault, SLIP__PLATFORM_CALL_THREAD_CAPTURE_INFO);
}

// --- destroying: the last user of a callable that was released
// ------------------------------------------------------------------------------

static void fault_begin_graph_destroy(fault_world_t *world) {
  fault_begin_one(world);
  fault_check(world, slip_context_release(world->context, world->add), SLIP_CODE_OK, "releasing the callable of a recording");
  fault_replay_expect(world, 1, 1, "a recording whose callable was released");
}

static slip_status_t fault_run_graph_destroy(fault_world_t *world) {
  SLIP_RETURN_IF_ERROR(slip_graph_destroy(world->graph));
  world->graph = NULL;
  return slip_ok_status();
}

static void fault_done_graph_destroy(fault_world_t *world) {
  uint64_t before = world->taken[FAULT_MODULES] - world->given[FAULT_MODULES];
  fault_check(world, slip_context_drain(world->context), SLIP_CODE_OK, "a drain that unloads what is owed");
  uint64_t after = world->taken[FAULT_MODULES] - world->given[FAULT_MODULES];
  if (after != 1)
    fault_wrong(world, "%llu modules after the drain (%llu before), expected 1", (unsigned long long)after, (unsigned long long)before);
  fault_world_prepare_add(world);
}

static bool fault_tolerates_all(fault_t fault) {
  (void)fault;
  return true;
}

// --- a whole life
// --------------------------------------------------------------------------------------------------------------------------

static slip_status_t fault_live_launch(fault_world_t *world) {
  SLIP_RETURN_IF_ERROR(fault_launch(world, &world->frame, world->stream, &world->ticket));
  SLIP_RETURN_IF_ERROR(slip_ticket_wait(world->ticket, -1));
  slip_ticket_release(world->ticket);
  world->ticket = NULL;
  return slip_ok_status();
}

static slip_status_t fault_live_callable(fault_world_t *world) {
  SLIP_RETURN_IF_ERROR(slip_context_prepare(world->context, slip_fixture_bytes(world->scratch_image), &world->prepared));
  return slip_context_release(world->context, world->prepared);
}

static slip_status_t fault_live_capture(fault_world_t *world) {
  if (!fault_on_sim(world)) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  world->capturing = true;
  SLIP_RETURN_IF_ERROR(fault_launch(world, &world->frame, world->stream, NULL));
  SLIP_RETURN_IF_ERROR(slip_graph_launch(world->graph, world->stream, NULL));
  SLIP_RETURN_IF_ERROR(slip_stream_capture_end(world->platform, world->stream, &world->exec));
  world->capturing = false;
  SLIP_RETURN_IF_ERROR(slip_graph_exec_launch(world->platform, world->exec, world->stream));
  SLIP_RETURN_IF_ERROR(slip_stream_synchronize(world->platform, world->stream));
  SLIP_RETURN_IF_ERROR(slip_graph_exec_destroy(world->platform, world->exec));
  world->exec = NULL;
  return slip_ok_status();
}

static slip_status_t fault_live_graph(fault_world_t *world) {
  SLIP_RETURN_IF_ERROR(fault_run_create(world));
  SLIP_RETURN_IF_ERROR(fault_run_add(world));
  SLIP_RETURN_IF_ERROR(slip_graph_launch(world->graph, world->stream, NULL));
  SLIP_RETURN_IF_ERROR(fault_run_bind(world));
  return slip_graph_launch(world->graph, world->stream, NULL);
}

// Ends at the first failure; the world's end then takes over from wherever that was.
static slip_status_t fault_run_life(fault_world_t *world) {
  SLIP_RETURN_IF_ERROR(slip_context_open(&world->options, &world->context));
  SLIP_RETURN_IF_ERROR(slip_context_prepare(world->context, slip_fixture_bytes(world->add_image), &world->add));
  fault_world_build_frames(world);
  SLIP_RETURN_IF_ERROR(fault_live_launch(world));
  SLIP_RETURN_IF_ERROR(fault_live_callable(world));
  SLIP_RETURN_IF_ERROR(fault_live_graph(world));
  SLIP_RETURN_IF_ERROR(fault_live_capture(world));
  SLIP_RETURN_IF_ERROR(fault_live_launch(world));
  SLIP_RETURN_IF_ERROR(slip_context_drain(world->context));
  SLIP_RETURN_IF_ERROR(fault_run_graph_destroy(world));
  return slip_context_close(world->context);
}

// Faults of the device are told by the next call, unless nothing comes after it.
static bool fault_life_puts_off(fault_t fault) {
  return fault_puts_off_sweeping(fault) || fault_is(fault, SLIP__PLATFORM_CALL_DEVICE_MAP) ||
         fault_is(fault, SLIP__PLATFORM_CALL_DEVICE_UNMAP);
}

const fault_operation_t fault_graph_operations[] = {
    {"graph_create", FAULT_ALL, true, NULL, fault_run_create, fault_failed_create, NULL, NULL, false},
    {"graph_add", FAULT_ALL, true, fault_begin_created, fault_run_add, fault_failed_add, fault_done_add, NULL, false},
    {"graph_bind", FAULT_ALL, true, fault_begin_one, fault_run_bind, fault_failed_bind, fault_done_bind, NULL, false},
    {"graph_inline", FAULT_CPU, true, fault_begin_two, fault_run_graph_inline, fault_failed_graph_launch, fault_done_graph_launch, NULL,
     false},
    {"graph_launch", FAULT_ALL, true, fault_begin_two, fault_run_graph_launch, fault_failed_graph_launch, fault_done_graph_launch,
     fault_graph_puts_off, false},
    {"graph_captured", FAULT_SIM, true, fault_begin_graph_captured, fault_run_graph_captured, fault_failed_graph_captured,
     fault_done_graph_captured, fault_graph_puts_off, false},
    {"graph_destroy", FAULT_ALL, true, fault_begin_graph_destroy, fault_run_graph_destroy, NULL, fault_done_graph_destroy,
     fault_tolerates_all, false},
    {"life", FAULT_ALL, false, NULL, fault_run_life, NULL, NULL, fault_life_puts_off, true},
    {NULL, 0, false, NULL, NULL, NULL, NULL, NULL, false},
};
