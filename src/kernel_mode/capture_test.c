// SPDX-License-Identifier: Apache-2.0
// Launches in captures, and their replays.
#include <unistd.h>

#include "kernel_mode/lane_world_test.h"

enum { COUNT = 32 };

static void slip_capture_begin(const slip_lane_world_t *world, slip_stream_t stream) {
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
}
static slip_graph_exec_t slip_capture_end(const slip_lane_world_t *world, slip_stream_t stream) {
  slip_graph_exec_t graph = NULL;
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, stream, &graph));
  SLIP_CHECK(graph != NULL);
  return graph;
}
static void slip_capture_replay(const slip_lane_world_t *world, slip_graph_exec_t graph, slip_stream_t stream) {
  SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, graph, stream));
}
static void slip_capture_destroy(const slip_lane_world_t *world, slip_graph_exec_t graph) {
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, graph));
}
// a = a + x, |launches| times: through b, so that no launch reads what it writes.
static slip_graph_exec_t slip_capture_chain(const slip_lane_world_t *world, float *a, float *b, float *x, float *zero, int launches) {
  slip_capture_begin(world, world->stream);
  for (int i = 0; i < launches; ++i) {
    slip_lane_launch_add(world, world->stream, a, x, b, COUNT, NULL);
    slip_lane_launch_add(world, world->stream, b, zero, a, COUNT, NULL);
  }
  return slip_capture_end(world, world->stream);
}
// Until |released| owners were: they are in whichever call reaps.
static void slip_capture_await_released(const slip_lane_world_t *world, const uint32_t *released, uint32_t expected) {
  for (int i = 0; i < 30000 && __atomic_load_n(released, __ATOMIC_SEQ_CST) < expected; ++i) {
    SLIP_CHECK_OK(slip_context_drain(world->context));
    usleep(1000);
  }
  SLIP_CHECK_EQ(__atomic_load_n(released, __ATOMIC_SEQ_CST), expected);
}

SLIP_CAPTURE_TEST(replays_a_b_a_b_a_a_b) {
  float *a = slip_lane_vector(world, COUNT, 0, 1), *b = slip_lane_vector(world, COUNT, 0, 0), *c = slip_lane_vector(world, COUNT, 0, 0),
        *one = slip_lane_vector(world, COUNT, 1, 0), *ten = slip_lane_vector(world, COUNT, 10, 0),
        *zero = slip_lane_vector(world, COUNT, 0, 0);
  slip_graph_exec_t graph_a = slip_capture_chain(world, a, b, one, zero, 1), graph_b = slip_capture_chain(world, a, c, ten, zero, 2);
  slip_lane_expect(world, world->stream, a, COUNT, 0, 1);  // nothing has run yet
  SLIP_CHECK_EQ(slip_lane_stats(world).captured, 6);
  const char *order = "ABABAAB";
  for (const char *g = order; *g; ++g) slip_capture_replay(world, *g == 'A' ? graph_a : graph_b, world->stream);  // back to back
  slip_lane_expect(world, world->stream, a, COUNT, 4 + 3 * 20, 1);
  // Eager ones between, a capture after replays.
  slip_lane_launch_add(world, world->stream, a, one, b, COUNT, NULL);
  slip_lane_launch_add(world, world->stream, b, zero, a, COUNT, NULL);
  slip_capture_replay(world, graph_a, world->stream);
  slip_graph_exec_t graph_c = slip_capture_chain(world, a, b, ten, zero, 1);
  slip_capture_replay(world, graph_c, world->stream);
  slip_capture_replay(world, graph_b, world->stream);
  slip_lane_expect(world, world->stream, a, COUNT, 64 + 1 + 1 + 10 + 20, 1);
  SLIP_CHECK_ERROR(slip_context_close(world->context), SLIP_CODE_BUSY, "8 captured launches belong to graphs");
  SLIP_CHECK_EQ(slip_context_state(world->context), SLIP_CONTEXT_CLOSING);
  slip_capture_destroy(world, graph_a);
  SLIP_CHECK_ERROR(slip_context_close(world->context), SLIP_CODE_BUSY, "6 captured launches belong to graphs");
  slip_capture_replay(world, graph_b, world->stream);  // graphs that live go on
  slip_lane_expect(world, world->stream, a, COUNT, 64 + 1 + 1 + 10 + 20 + 20, 1);
  slip_capture_destroy(world, graph_b);
  slip_capture_destroy(world, graph_c);
  slip_lane_free(world, a);
  slip_lane_free(world, b);
  slip_lane_free(world, c);
  slip_lane_free(world, one);
  slip_lane_free(world, ten);
  slip_lane_free(world, zero);
}

SLIP_CAPTURE_TEST(arguments_are_frozen_and_owners_stay_with_the_graph) {
  uint32_t released = 0;
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 9, 0);
  slip_lane_frame(world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, world->stream, &released);
  slip_capture_begin(world, world->stream);
  SLIP_CHECK_OK(slip_launch(&record, &ticket));
  SLIP_CHECK(ticket != NULL);
  SLIP_CHECK_CODE(slip_ticket_query(ticket), SLIP_CODE_NOT_READY);
  SLIP_CHECK_CODE(slip_ticket_wait(ticket, 0), SLIP_CODE_CAPTURE_UNSUPPORTED);
  SLIP_CHECK_CODE(slip_context_drain(world->context), SLIP_CODE_CAPTURE_UNSUPPORTED);
  SLIP_CHECK_CODE(slip_context_close(world->context), SLIP_CODE_CAPTURE_UNSUPPORTED);
  slip_graph_exec_t graph = slip_capture_end(world, world->stream);
  slip_frame_deinitialize(&frame);
  memset(&frame, 0xee, sizeof(frame));
  SLIP_CHECK_OK(slip_context_release(world->context, world->add));  // the code stays: the graph needs it
  SLIP_CHECK(slip_lane_stats(world).resident_bytes > 0);
  for (int i = 0; i < 3; ++i) {
    slip_capture_replay(world, graph, world->stream);
    slip_lane_expect(world, world->stream, z, COUNT, 3, 1);
    SLIP_CHECK_CODE(slip_ticket_query(ticket), SLIP_CODE_NOT_READY);
    SLIP_CHECK_ERROR(slip_ticket_wait(ticket, -1), SLIP_CODE_INVALID_STATE, "wait for the stream that replays it");
    SLIP_CHECK_OK(slip_context_drain(world->context));  // does not wait for graphs
  }
  SLIP_CHECK_EQ(released, 0);
  slip_context_stats_t stats = slip_lane_stats(world);
  SLIP_CHECK_EQ(stats.captured, 1);
  SLIP_CHECK_EQ(stats.pending, 0);
  SLIP_CHECK_EQ(stats.launches, 1);
  SLIP_CHECK_EQ(stats.tasks, 3);
  slip_capture_destroy(world, graph);
  slip_capture_await_released(world, &released, 1);
  SLIP_CHECK_OK(slip_ticket_query(ticket));
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  slip_ticket_release(ticket);
  stats = slip_lane_stats(world);
  SLIP_CHECK_EQ(stats.captured, 0);
  SLIP_CHECK_EQ(stats.retired, 1);
  SLIP_CHECK_EQ(stats.resident_bytes, 0);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}

SLIP_CAPTURE_TEST(a_graph_may_be_destroyed_while_a_replay_is_queued) {
  uint32_t released = 0;
  slip_lane_door_t door = {0};
  slip_frame_t frame;
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 9, 0);
  slip_lane_frame(world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, world->stream, &released);
  slip_capture_begin(world, world->stream);
  SLIP_CHECK_OK(slip_launch(&record, NULL));
  slip_graph_exec_t graph = slip_capture_end(world, world->stream);
  slip_frame_deinitialize(&frame);
  slip_lane_hold(world, world->stream, &door);
  slip_capture_replay(world, graph, world->stream);
  slip_capture_destroy(world, graph);
  usleep(5000);
  SLIP_CHECK_OK(slip_context_drain(world->context));
  SLIP_CHECK_EQ(released, 0);  // its arguments are still to be read
  SLIP_CHECK_ERROR(slip_context_close(world->context), SLIP_CODE_BUSY,
                   "1 captured launch belongs to graphs that are alive or being replayed; destroy the graphs and wait for the streams that "
                   "replay them, then close again");
  slip_lane_let_go(&door);
  slip_lane_expect(world, world->stream, z, COUNT, 3, 1);
  for (int i = 0; i < 30000; ++i) {
    slip_status_t status = slip_context_close(world->context);
    slip_code_t code = slip_status_code(status);
    slip_status_free(status);
    if (code == SLIP_CODE_OK) break;
    SLIP_CHECK_EQ(code, SLIP_CODE_BUSY);
    usleep(1000);
  }
  SLIP_CHECK_EQ(slip_context_state(world->context), SLIP_CONTEXT_CLOSED);
  SLIP_CHECK_EQ(released, 1);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}

// --- leases ------------------------------------------------------------------------------------------------------------------------------

SLIP_CAPTURE_TEST(a_third_capture_is_busy_until_one_ends) {
  slip_stream_t streams[3] = {world->stream, slip_lane_stream(world), slip_lane_stream(world)};
  slip_graph_exec_t graphs[3] = {NULL, NULL, NULL};
  uint32_t released = 0;
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *w = slip_lane_vector(world, COUNT, 0, 0),
        *z[3];
  for (int i = 0; i < 3; ++i) z[i] = slip_lane_vector(world, COUNT, 0, 0);
  for (int i = 0; i < 3; ++i) slip_capture_begin(world, streams[i]);
  slip_lane_launch_add(world, streams[0], x, y, z[0], COUNT, NULL);
  slip_lane_launch_add(world, streams[1], x, y, z[1], COUNT, NULL);
  slip_lane_launch_add(world, streams[0], x, z[0], w, COUNT, NULL);  // the same capture again: its own lane
  slip_lane_frame(world, &frame, x, y, z[2], COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, streams[2], &released);
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_BUSY, "max_captures");
  SLIP_CHECK(ticket == NULL);
  SLIP_CHECK_EQ(released, 1);
  SLIP_CHECK_EQ(slip_lane_stats(world).captured, 3);
  slip_capture_info_t info;
  SLIP_CHECK_OK(slip_stream_capture_info(world->platform, streams[2], &info));
  SLIP_CHECK_EQ(info.state, SLIP_CAPTURE_ACTIVE);  // untouched by the refusal
  graphs[0] = slip_capture_end(world, streams[0]);
  SLIP_CHECK_OK(slip_launch(&record, NULL));  // the lane of the one that ended
  graphs[1] = slip_capture_end(world, streams[1]);
  graphs[2] = slip_capture_end(world, streams[2]);
  slip_frame_deinitialize(&frame);
  for (int i = 0; i < 3; ++i) slip_capture_replay(world, graphs[i], streams[i]);
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip_stream_synchronize(world->platform, streams[i]));
  slip_lane_expect(world, streams[0], z[0], COUNT, 3, 1);
  slip_lane_expect(world, streams[0], w, COUNT, 3, 2);
  slip_lane_expect(world, streams[1], z[1], COUNT, 3, 1);
  slip_lane_expect(world, streams[2], z[2], COUNT, 3, 1);
  for (int i = 0; i < 3; ++i) slip_capture_destroy(world, graphs[i]);
  slip_capture_await_released(world, &released, 2);
  SLIP_CHECK_EQ(slip_lane_stats(world).captured, 0);
  for (int i = 0; i < 3; ++i) slip_lane_free(world, z[i]);
  slip_lane_free(world, w);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_stream_end(world, streams[1]);
  slip_lane_stream_end(world, streams[2]);
}

SLIP_CAPTURE_TEST(max_captured_is_busy_and_comes_back) {
  uint32_t released = 0;
  slip_frame_t frame;
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 9, 0);
  slip_lane_frame(world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, world->stream, &released);
  for (uint32_t round = 1; round <= 3; ++round) {
    slip_capture_begin(world, world->stream);
    for (int i = 0; i < 64; ++i) SLIP_CHECK_OK(slip_launch(&record, NULL));
    SLIP_CHECK_ERROR(slip_launch(&record, NULL), SLIP_CODE_BUSY, "max_captured");
    slip_graph_exec_t graph = slip_capture_end(world, world->stream);
    SLIP_CHECK_OK(slip_launch(&record, NULL));  // eager ones have places of their own
    slip_capture_replay(world, graph, world->stream);
    slip_lane_expect(world, world->stream, z, COUNT, 3, 1);
    slip_capture_destroy(world, graph);
    slip_capture_await_released(world, &released, round * 66);
  }
  slip_frame_deinitialize(&frame);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}

// --- several threads ---------------------------------------------------------------------------------------------------------------------

typedef struct slip_capture_worker_t {
  slip__thread_t thread;
  const slip_lane_world_t *world;
  slip_stream_t stream;
  float *a, *b, *x, *zero;
  bool captures;
} slip_capture_worker_t;

// One thread's rounds: two captures, replays of both in turn; or eager launches all the while.
static void slip_capture_work(void *user) {
  slip_capture_worker_t *w = user;
  for (int round = 0; round < 8; ++round) {
    slip_graph_exec_t graph = NULL;
    if (w->captures) slip_capture_begin(w->world, w->stream);
    slip_lane_launch_add(w->world, w->stream, w->a, w->x, w->b, COUNT, NULL);
    slip_lane_launch_add(w->world, w->stream, w->b, w->zero, w->a, COUNT, NULL);
    if (!w->captures) continue;
    graph = slip_capture_end(w->world, w->stream);
    slip_capture_replay(w->world, graph, w->stream);
    slip_capture_destroy(w->world, graph);
  }
}

SLIP_CAPTURE_TEST(two_threads_capture_while_two_launch) {
  enum { WORKERS = 4 };
  slip_capture_worker_t workers[WORKERS];
  for (int i = 0; i < WORKERS; ++i) {
    workers[i] = (slip_capture_worker_t){.world = world, .captures = i < 2, .stream = slip_lane_stream(world)};
    workers[i].a = slip_lane_vector(world, COUNT, 0, 1);
    workers[i].b = slip_lane_vector(world, COUNT, 0, 0);
    workers[i].x = slip_lane_vector(world, COUNT, 1, 0);
    workers[i].zero = slip_lane_vector(world, COUNT, 0, 0);
  }
  for (int i = 0; i < WORKERS; ++i) SLIP_CHECK_OK(slip__thread_start(&workers[i].thread, "capturer", slip_capture_work, &workers[i]));
  for (int i = 0; i < WORKERS; ++i) slip__thread_join(&workers[i].thread);
  for (int i = 0; i < WORKERS; ++i) {
    slip_lane_expect(world, workers[i].stream, workers[i].a, COUNT, 8, 1);
    slip_lane_stream_end(world, workers[i].stream);
    slip_lane_free(world, workers[i].a);
    slip_lane_free(world, workers[i].b);
    slip_lane_free(world, workers[i].x);
    slip_lane_free(world, workers[i].zero);
  }
  for (int i = 0; i < 30000 && slip_lane_stats(world).captured > 0; ++i) {
    SLIP_CHECK_OK(slip_context_drain(world->context));
    usleep(1000);
  }
  SLIP_CHECK_EQ(slip_lane_stats(world).captured, 0);
}

// --- faults ------------------------------------------------------------------------------------------------------------------------------

SLIP_CAPTURE_TEST(the_first_fault_of_a_replay_stays_in_the_ticket) {
  int32_t id = slip_fixture_prepare(world->context, slip_fixture_control());
  float *state = slip_lane_vector(world, 8, 0, 0);
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  slip_fixture_frame_control(&frame, world->context, id, (int64_t *)(void *)state, 1, 1);
  slip_capture_begin(world, world->stream);
  SLIP_CHECK_OK(slip_context_launch(world->context, id, &frame, world->stream, &ticket));
  slip_graph_exec_t graph = slip_capture_end(world, world->stream);
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_CODE(slip_ticket_query(ticket), SLIP_CODE_NOT_READY);
  for (int i = 0; i < 3; ++i) slip_capture_replay(world, graph, world->stream);
  SLIP_CHECK_OK(slip_stream_synchronize(world->platform, world->stream));
  SLIP_CHECK_ERROR(slip_ticket_query(ticket), SLIP_CODE_GRAPH_USER_FAIL, "asked to fail");
  SLIP_CHECK_EQ(slip_lane_stats(world).faulted, 0);  // not retired
  slip_capture_destroy(world, graph);
  while (slip_lane_stats(world).captured > 0) SLIP_CHECK_OK(slip_context_drain(world->context));
  SLIP_CHECK_ERROR(slip_ticket_wait(ticket, -1), SLIP_CODE_GRAPH_USER_FAIL, "asked to fail");
  SLIP_CHECK_EQ(slip_lane_stats(world).faulted, 1);
  slip_ticket_release(ticket);
  slip_lane_free(world, state);
}

SLIP_CAPTURE_TEST(a_capture_that_comes_to_nothing_gives_its_launches_back) {
  uint32_t released = 0;
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  slip_graph_exec_t graph = NULL;
  slip_event_t event = NULL;
  slip_stream_t other = slip_lane_stream(world);
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 9, 0);
  slip_lane_frame(world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, world->stream, &released);
  SLIP_CHECK_OK(slip_event_create(world->platform, 0, &event));
  slip_capture_begin(world, world->stream);
  SLIP_CHECK_OK(slip_launch(&record, &ticket));
  // A stream that is forked and not joined: in both flavours the capture ends without a graph.
  SLIP_CHECK_OK(slip_event_record(world->platform, event, world->stream));
  SLIP_CHECK_OK(slip_stream_wait_event(world->platform, other, event));
  record.stream = other;  // a launch on a forked stream is in the same capture
  SLIP_CHECK_OK(slip_launch(&record, NULL));
  SLIP_CHECK_CODE(slip_stream_capture_end(world->platform, world->stream, &graph), SLIP_CODE_DEVICE);
  SLIP_CHECK(graph == NULL);
  slip_capture_await_released(world, &released, 2);
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  slip_ticket_release(ticket);
  // The context is as new, also for captures.
  record.stream = world->stream;
  SLIP_CHECK_OK(slip_launch(&record, NULL));
  slip_lane_expect(world, world->stream, z, COUNT, 3, 1);
  slip_capture_begin(world, world->stream);
  SLIP_CHECK_OK(slip_launch(&record, NULL));
  graph = slip_capture_end(world, world->stream);
  slip_capture_replay(world, graph, world->stream);
  slip_capture_destroy(world, graph);
  slip_frame_deinitialize(&frame);
  slip_lane_stream_end(world, other);
  SLIP_CHECK_OK(slip_stream_synchronize(world->platform, world->stream));
  slip_capture_await_released(world, &released, 4);
  SLIP_CHECK_OK(slip_event_destroy(world->platform, event));
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}

SLIP_TEST(lane_an_invalidated_capture_refuses_launches) {
  slip_lane_world_t world;
  void *memory = NULL;
  slip_graph_exec_t graph = NULL;
  uint32_t released = 0;
  slip_frame_t frame;
  slip_lane_world_open(&world, SLIP_LANE_CUDA, true, NULL);
  float *x = slip_lane_vector(&world, COUNT, 0, 1), *y = slip_lane_vector(&world, COUNT, 3, 0), *z = slip_lane_vector(&world, COUNT, 9, 0);
  slip_lane_frame(&world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(&world, &frame, world.stream, &released);
  slip_capture_begin(&world, world.stream);
  SLIP_CHECK_CODE(slip_memory_allocate(world.platform, 0, 64, &memory), SLIP_CODE_DEVICE);  // which breaks it
  SLIP_CHECK_ERROR(slip_launch(&record, NULL), SLIP_CODE_INVALID_STATE, "invalidated");
  SLIP_CHECK_EQ(released, 1);
  SLIP_CHECK_CODE(slip_stream_capture_end(world.platform, world.stream, &graph), SLIP_CODE_DEVICE);
  SLIP_CHECK_OK(slip_launch(&record, NULL));
  slip_frame_deinitialize(&frame);
  slip_lane_expect(&world, world.stream, z, COUNT, 3, 1);
  slip_lane_free(&world, x);
  slip_lane_free(&world, y);
  slip_lane_free(&world, z);
  slip_lane_world_end(&world);
}

typedef struct slip_capture_fault_t {
  slip__platform_call_e call;
  uint64_t nth;  // of this kind in one launch
  int step;      // 0: before the first
} slip_capture_fault_t;

static const slip_capture_fault_t slip_capture_faults[] = {
    {SLIP__PLATFORM_CALL_STREAM_DEVICE, 1, 0},      {SLIP__PLATFORM_CALL_STREAM_CAPTURE_INFO, 1, 0},
    {SLIP__PLATFORM_CALL_CAPTURE_RETAIN, 1, 0},     {SLIP__PLATFORM_CALL_EVENT_RECORD, 1, 1},
    {SLIP__PLATFORM_CALL_STREAM_WAIT_EVENT, 1, 2},  {SLIP__PLATFORM_CALL_MEMORY_COPY_ASYNC, 1, 3},
    {SLIP__PLATFORM_CALL_EVENT_RECORD, 2, 4},       {SLIP__PLATFORM_CALL_STREAM_WAIT_EVENT, 2, 5},
    {SLIP__PLATFORM_CALL_STREAM_LAUNCH, 1, 6},      {SLIP__PLATFORM_CALL_EVENT_RECORD, 3, 7},
    {SLIP__PLATFORM_CALL_STREAM_WAIT_EVENT, 3, 8},  {SLIP__PLATFORM_CALL_EVENT_RECORD, 4, 10},
    {SLIP__PLATFORM_CALL_STREAM_WAIT_EVENT, 4, 11},
};

// The capture can be ended well after any of them: joined first, told after.
static void slip_capture_test_fault(slip_lane_place_e place, const slip_capture_fault_t *fault) {
  slip_lane_world_t world;
  uint32_t released = 0;
  char step[32];
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  slip_lane_world_open(&world, place, true, NULL);
  float *x = slip_lane_vector(&world, COUNT, 0, 1), *y = slip_lane_vector(&world, COUNT, 3, 0), *z = slip_lane_vector(&world, COUNT, 9, 0);
  bool poisons = fault->step >= 3, runs = fault->step > 6;
  slip_lane_frame(&world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(&world, &frame, world.stream, &released);
  (void)snprintf(step, sizeof(step), fault->step ? "(step %d of 12:" : "enqueuing", fault->step);
  slip_capture_begin(&world, world.stream);
  slip__platform_fault_set(fault->call, fault->nth, false);
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_DEVICE, step);
  slip__platform_fault_clear();
  SLIP_CHECK(ticket == NULL);
  SLIP_CHECK_EQ(released, fault->step <= 3);
  slip_capture_info_t info;
  SLIP_CHECK_OK(slip_stream_capture_info(world.platform, world.stream, &info));
  SLIP_CHECK_EQ(info.state, SLIP_CAPTURE_ACTIVE);
  if (poisons) {
    SLIP_CHECK_ERROR(slip_launch(&record, NULL), SLIP_CODE_POISONED, step);
  } else {
    SLIP_CHECK_OK(slip_launch(&record, NULL));
  }
  slip_graph_exec_t graph = slip_capture_end(&world, world.stream);
  slip_capture_replay(&world, graph, world.stream);
  slip_lane_expect(&world, world.stream, z, COUNT, runs || !poisons ? 3 : 9, runs || !poisons ? 1 : 0);
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_CODE(slip_context_close(world.context), SLIP_CODE_BUSY);  // the graph holds one at least
  slip_capture_destroy(&world, graph);
  while (slip_context_state(world.context) != SLIP_CONTEXT_CLOSED) {
    slip_status_t status = slip_context_close(world.context);
    SLIP_CHECK(slip_status_is_ok(status) || slip_status_code(status) == SLIP_CODE_BUSY);
    slip_status_free(status);
    usleep(200);
  }
  SLIP_CHECK_EQ(released, 2);  // each of the two records once
  slip_lane_free(&world, x);
  slip_lane_free(&world, y);
  slip_lane_free(&world, z);
  slip_lane_world_check(&world);
}

SLIP_TEST(lane_each_step_may_fail_in_a_capture_cuda) {
  for (size_t i = 0; i < sizeof(slip_capture_faults) / sizeof(slip_capture_faults[0]); ++i)
    slip_capture_test_fault(SLIP_LANE_CUDA, &slip_capture_faults[i]);
}
SLIP_TEST(lane_each_step_may_fail_in_a_capture_ascend) {
  for (size_t i = 0; i < sizeof(slip_capture_faults) / sizeof(slip_capture_faults[0]); ++i)
    slip_capture_test_fault(SLIP_LANE_ASCEND, &slip_capture_faults[i]);
}
