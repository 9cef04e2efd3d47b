// SPDX-License-Identifier: Apache-2.0
// Recorded launches where each node is a launch through a lane: eager, and inside the platform's own captures.
#include "kernel_mode/graph.h"
#include "kernel_mode/lane_world_test.h"

enum { SLIP_CHAIN_COUNT = 50 };

static slip_graph_t *slip_chain_graph(const slip_lane_world_t *world) {
  slip_graph_t *graph = NULL;
  SLIP_CHECK_OK(slip_graph_create(world->context, &graph));
  return graph;
}
static void slip_chain_add(const slip_lane_world_t *world, slip_graph_t *graph, float *x, float *y, float *z) {
  slip_frame_t frame;
  slip_lane_frame(world, &frame, x, y, z, SLIP_CHAIN_COUNT);
  SLIP_CHECK_OK(slip_graph_add(graph, world->add, &frame, NULL));
  slip_frame_deinitialize(&frame);
}
static void slip_chain_bind(const slip_lane_world_t *world, slip_graph_t *graph, uint32_t node, float *x, float *y, float *z) {
  slip_frame_t frame;
  slip_lane_frame(world, &frame, x, y, z, SLIP_CHAIN_COUNT);
  SLIP_CHECK_OK(slip_graph_bind(graph, node, &frame));
  slip_frame_deinitialize(&frame);
}
static float *slip_chain_vector(const slip_lane_world_t *world, float first, float step) {
  return slip_lane_vector(world, SLIP_CHAIN_COUNT, first, step);
}
static void slip_chain_expect(const slip_lane_world_t *world, const float *vector, float first, float step) {
  slip_lane_expect(world, world->stream, vector, SLIP_CHAIN_COUNT, first, step);
}

// A callable without kernel work that fails: the frame of "control" with verdict 1.
static void slip_chain_fail_frame(const slip_lane_world_t *world, slip_frame_t *frame, int32_t id, float *state) {
  memset(frame, 0, sizeof(*frame));
  slip_fixture_frame_control(frame, world->context, id, (int64_t *)(void *)state, 1, 1);
}

SLIP_LANE_TEST(graph_replays_in_order) {
  float *one = slip_chain_vector(world, 1, 0), *a = slip_chain_vector(world, 0, 1), *b = slip_chain_vector(world, 0, 0);
  slip_graph_t *graph = slip_chain_graph(world);
  slip_ticket_t *ticket = NULL;
  enum { NODES = 10, REPLAYS = 12 };  // more replays than the graph has chains
  for (int i = 0; i < NODES; ++i) slip_chain_add(world, graph, i % 2 ? b : a, one, i % 2 ? a : b);
  for (int i = 0; i < REPLAYS; ++i) SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, i + 1 == REPLAYS ? &ticket : NULL));
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  SLIP_CHECK_OK(slip_ticket_query(ticket));
  slip_ticket_release(ticket);
  slip_chain_expect(world, a, NODES * REPLAYS, 1);
  SLIP_CHECK_OK(slip_context_drain(world->context));
  slip_context_stats_t stats = slip_lane_stats(world);
  SLIP_CHECK_EQ(stats.launches, NODES * REPLAYS);
  SLIP_CHECK_EQ(stats.retired, NODES * REPLAYS);
  SLIP_CHECK_EQ(stats.faulted, 0);
  SLIP_CHECK_EQ(atomic_load(&graph->references), 1);
  SLIP_CHECK_EQ(atomic_load(&graph->free_chains), (1u << SLIP__GRAPH_CHAINS) - 1);
  SLIP_CHECK_CODE(slip_graph_launch(graph, (slip_stream_t)(uintptr_t)0x5555, &ticket), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK(ticket == NULL);
  SLIP_CHECK_OK(slip_graph_destroy(graph));
  slip_lane_free(world, one);
  slip_lane_free(world, a);
  slip_lane_free(world, b);
}

SLIP_LANE_TEST(graph_without_nodes_has_finished) {
  slip_graph_t *graph = slip_chain_graph(world);
  slip_ticket_t *ticket = NULL;
  SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, &ticket));
  SLIP_CHECK_OK(slip_ticket_query(ticket));
  slip_ticket_release(ticket);
  SLIP_CHECK_OK(slip_graph_destroy(graph));
}

SLIP_LANE_TEST(graph_binds_while_replays_pend_and_goes_before_them) {
  slip_lane_door_t door = {0};
  float *x = slip_chain_vector(world, 0, 1), *y = slip_chain_vector(world, 10, 0), *z = slip_chain_vector(world, 0, 0),
        *w = slip_chain_vector(world, 0, 0);
  slip_graph_t *graph = slip_chain_graph(world);
  slip_chain_add(world, graph, x, y, z);
  slip_lane_hold(world, world->stream, &door);
  SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, NULL));
  slip_chain_bind(world, graph, 0, y, y, w);
  SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, NULL));
  SLIP_CHECK_OK(slip_context_release(world->context, world->add));
  SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, NULL));  // the id is dead, the graph is not
  SLIP_CHECK_OK(slip_graph_destroy(graph));
  SLIP_CHECK(slip_lane_stats(world).resident_bytes > 0);
  slip_lane_let_go(&door);
  SLIP_CHECK_OK(slip_context_drain(world->context));
  SLIP_CHECK_EQ(slip_lane_stats(world).resident_bytes, 0);
  SLIP_CHECK_EQ(slip_lane_stats(world).launches, 3);
  slip_chain_expect(world, z, 10, 1);
  slip_chain_expect(world, w, 20, 0);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
  slip_lane_free(world, w);
}

SLIP_LANE_TEST(graph_fault_ends_the_replay) {
  int32_t control = slip_fixture_prepare(world->context, slip_fixture_control());
  float *x = slip_chain_vector(world, 0, 1), *before = slip_chain_vector(world, 5, 0), *after = slip_chain_vector(world, 6, 0),
        *state = slip_lane_vector(world, 8, 0, 0);
  slip_graph_t *graph = slip_chain_graph(world);
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  slip_chain_add(world, graph, x, before, before);
  slip_chain_fail_frame(world, &frame, control, state);
  SLIP_CHECK_OK(slip_graph_add(graph, control, &frame, NULL));
  slip_frame_deinitialize(&frame);
  slip_chain_add(world, graph, x, after, after);
  slip_chain_add(world, graph, x, after, after);
  for (int round = 1; round <= 2; ++round) {
    SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, &ticket));
    SLIP_CHECK_ERROR(slip_ticket_wait(ticket, -1), SLIP_CODE_GRAPH_USER_FAIL, "node 1 of 4");
    slip_ticket_release(ticket);
    slip_chain_expect(world, before, 5, (float)round);
    slip_chain_expect(world, after, 6, 0);
    SLIP_CHECK_OK(slip_context_drain(world->context));
    SLIP_CHECK_EQ(slip_lane_stats(world).faulted, round);
  }
  SLIP_CHECK_OK(slip_graph_destroy(graph));
  slip_lane_free(world, x);
  slip_lane_free(world, before);
  slip_lane_free(world, after);
  slip_lane_free(world, state);
}

SLIP_LANE_TEST(graph_refused_in_the_middle_says_so) {
  float *x = slip_chain_vector(world, 0, 1), *y = slip_chain_vector(world, 1, 0);
  slip_graph_t *graph = slip_chain_graph(world);
  slip_ticket_t *ticket = NULL;
  for (int i = 0; i < 3; ++i) slip_chain_add(world, graph, x, y, y);
  // The second launch's first question about the caller's stream: where there are captures, each asks three times.
  slip__platform_fault_set(SLIP__PLATFORM_CALL_STREAM_CAPTURE_INFO, slip__context_captures(world->context) ? 4 : 2, false);
  SLIP_CHECK_ERROR(slip_graph_launch(graph, world->stream, &ticket), SLIP_CODE_DEVICE, "node 1 of 3");
  slip__platform_fault_clear();
  SLIP_CHECK(ticket == NULL);
  SLIP_CHECK_OK(slip_context_drain(world->context));
  SLIP_CHECK_EQ(slip_lane_stats(world).launches, 1);
  slip_chain_expect(world, y, 1, 1);
  SLIP_CHECK_EQ(atomic_load(&graph->references), 1);
  SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, NULL));
  slip_chain_expect(world, y, 1, 4);
  SLIP_CHECK_OK(slip_graph_destroy(graph));
  slip_lane_free(world, x);
  slip_lane_free(world, y);
}

// --- in a capture ------------------------------------------------------------------------------------------------------------------------

SLIP_CAPTURE_TEST(graph_is_recorded_and_replayed_inside_a_capture) {
  slip_graph_exec_t exec = NULL;
  slip_ticket_t *ticket = NULL;
  float *x = slip_chain_vector(world, 0, 1), *y = slip_chain_vector(world, 1, 0), *z = slip_chain_vector(world, 2, 0);
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_GLOBAL));
  slip_graph_t *graph = slip_chain_graph(world);
  slip_chain_add(world, graph, x, y, y);
  slip_chain_add(world, graph, x, y, y);
  SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, &ticket));
  slip_chain_bind(world, graph, 1, x, z, z);
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &exec));
  SLIP_CHECK_EQ(slip_lane_stats(world).captured, 2);
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, exec, world->stream));
  slip_chain_expect(world, y, 1, 6);  // the capture keeps the arguments it was made with
  slip_chain_expect(world, z, 2, 0);
  SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, NULL));
  slip_chain_expect(world, y, 1, 7);
  slip_chain_expect(world, z, 2, 1);
  SLIP_CHECK_CODE(slip_ticket_query(ticket), SLIP_CODE_NOT_READY);
  SLIP_CHECK_OK(slip_graph_destroy(graph));  // the capture goes on without it
  SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, exec, world->stream));
  slip_chain_expect(world, y, 1, 9);
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, exec));
  SLIP_CHECK_OK(slip_context_drain(world->context));
  SLIP_CHECK_OK(slip_ticket_query(ticket));
  slip_ticket_release(ticket);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}

SLIP_CAPTURE_TEST(graph_fault_ends_each_execution_of_a_capture) {
  int32_t control = slip_fixture_prepare(world->context, slip_fixture_control());
  slip_graph_exec_t exec = NULL;
  slip_ticket_t *ticket = NULL;
  float *x = slip_chain_vector(world, 0, 1), *before = slip_chain_vector(world, 5, 0), *after = slip_chain_vector(world, 6, 0),
        *state = slip_lane_vector(world, 8, 0, 0);
  slip_graph_t *graph = slip_chain_graph(world);
  slip_frame_t frame;
  slip_chain_add(world, graph, x, before, before);
  slip_chain_fail_frame(world, &frame, control, state);
  SLIP_CHECK_OK(slip_graph_add(graph, control, &frame, NULL));
  slip_frame_deinitialize(&frame);
  slip_chain_add(world, graph, x, after, after);
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, &ticket));
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &exec));
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, exec, world->stream));
  slip_chain_expect(world, before, 5, 3);
  slip_chain_expect(world, after, 6, 0);
  SLIP_CHECK_ERROR(slip_ticket_query(ticket), SLIP_CODE_GRAPH_USER_FAIL, "node 1 of 3");
  slip_ticket_release(ticket);
  SLIP_CHECK_OK(slip_graph_destroy(graph));
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, exec));
  slip_lane_free(world, x);
  slip_lane_free(world, before);
  slip_lane_free(world, after);
  slip_lane_free(world, state);
}

SLIP_CAPTURE_TEST(graph_captured_more_often_than_it_has_chains) {
  enum { CAPTURES = SLIP__GRAPH_CHAINS + 3 };
  slip_graph_exec_t execs[CAPTURES];
  float *x = slip_chain_vector(world, 0, 1), *y = slip_chain_vector(world, 1, 0);
  slip_graph_t *graph = slip_chain_graph(world);
  slip_chain_add(world, graph, x, y, y);
  slip_chain_add(world, graph, x, y, y);
  for (int i = 0; i < CAPTURES; ++i) {
    SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_RELAXED));
    SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, NULL));
    SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &execs[i]));
  }
  for (int i = 0; i < CAPTURES; ++i) SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, execs[i], world->stream));
  slip_chain_expect(world, y, 1, 2 * CAPTURES);
  SLIP_CHECK_OK(slip_graph_destroy(graph));
  for (int i = 0; i < CAPTURES; ++i) SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, execs[i]));
  slip_lane_free(world, x);
  slip_lane_free(world, y);
}

// Room for three captured launches: the graph of four is refused, and the capture can be ended and dropped.
SLIP_CAPTURE_TEST(graph_captured_beyond_max_captured_is_busy) {
  slip_graph_exec_t exec = NULL;
  float *x = slip_chain_vector(world, 0, 1), *y = slip_chain_vector(world, 1, 0);
  slip_graph_t *graph = slip_chain_graph(world);
  uint32_t room = world->context->options.max_captured;
  for (uint32_t i = 0; i < room + 1; ++i) slip_chain_add(world, graph, x, y, y);
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_ERROR(slip_graph_launch(graph, world->stream, NULL), SLIP_CODE_BUSY, "earlier nodes are enqueued");
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &exec));
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, exec));
  SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, NULL));
  slip_chain_expect(world, y, 1, (float)(room + 1));
  SLIP_CHECK_OK(slip_graph_destroy(graph));
  slip_lane_free(world, x);
  slip_lane_free(world, y);
}

// The code of a released callable is not unloaded inside a capture, which that would break, but by the next call that may block.
SLIP_CAPTURE_TEST(graph_destroyed_inside_a_capture) {
  slip_graph_exec_t exec = NULL;
  float *x = slip_chain_vector(world, 0, 1), *y = slip_chain_vector(world, 1, 0);
  slip_graph_t *graph = slip_chain_graph(world), *idle = slip_chain_graph(world);
  int32_t control = slip_fixture_prepare(world->context, slip_fixture_control());
  float *state = slip_lane_vector(world, 8, 0, 0);
  slip_frame_t frame;
  slip_chain_add(world, graph, x, y, y);
  slip_chain_fail_frame(world, &frame, control, state);
  SLIP_CHECK_OK(slip_graph_add(idle, control, &frame, NULL));
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_OK(slip_context_release(world->context, control));
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip_graph_launch(graph, world->stream, NULL));
  SLIP_CHECK_OK(slip_graph_destroy(idle));
  SLIP_CHECK_OK(slip_graph_destroy(graph));
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &exec));
  uint64_t resident = slip_lane_stats(world).resident_bytes;
  SLIP_CHECK_OK(slip_context_drain(world->context));
  SLIP_CHECK(slip_lane_stats(world).resident_bytes < resident);
  SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, exec, world->stream));
  slip_chain_expect(world, y, 1, 1);
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, exec));
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, state);
}

// --- many threads ------------------------------------------------------------------------------------------------------------------------

typedef struct slip_chain_worker_t {
  const slip_lane_world_t *world;
  slip_graph_t *graph;
  slip__thread_t thread;
  slip_stream_t stream;  // NULL: binds
  float *in[2], *out[2];
} slip_chain_worker_t;

enum { SLIP_CHAIN_ROUNDS = 25 };

static void slip_chain_work(void *user) {
  slip_chain_worker_t *worker = user;
  for (uint32_t i = 0; i < SLIP_CHAIN_ROUNDS; ++i) {
    if (worker->stream) {
      SLIP_CHECK_OK(slip_graph_launch(worker->graph, worker->stream, NULL));
    } else {
      slip_chain_bind(worker->world, worker->graph, i % 2, worker->in[0], worker->in[1], worker->out[i % 2]);
    }
  }
}

// Replays on one stream, since replays on two would write the same tensors; launched by two threads while a third one binds.
SLIP_LANE_TEST(graph_replayed_by_threads_while_another_binds) {
  slip_chain_worker_t workers[3] = {0};
  float *x = slip_chain_vector(world, 0, 1), *y = slip_chain_vector(world, 7, 0), *a = slip_chain_vector(world, 0, 0),
        *b = slip_chain_vector(world, 0, 0);
  slip_graph_t *graph = slip_chain_graph(world);
  slip_chain_add(world, graph, x, y, a);
  slip_chain_add(world, graph, x, y, b);
  for (int i = 0; i < 3; ++i) {
    workers[i] = (slip_chain_worker_t){.world = world, .graph = graph, .stream = i < 2 ? world->stream : NULL, .in = {x, y}, .out = {a, b}};
    SLIP_CHECK_OK(slip__thread_start(&workers[i].thread, "replayer", slip_chain_work, &workers[i]));
  }
  for (int i = 0; i < 3; ++i) slip__thread_join(&workers[i].thread);
  SLIP_CHECK_OK(slip_context_drain(world->context));
  SLIP_CHECK_EQ(slip_lane_stats(world).launches, 2 * 2 * SLIP_CHAIN_ROUNDS);
  slip_chain_expect(world, a, 7, 1);
  slip_chain_expect(world, b, 7, 1);
  SLIP_CHECK_OK(slip_graph_destroy(graph));
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, a);
  slip_lane_free(world, b);
}
