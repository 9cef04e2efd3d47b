// SPDX-License-Identifier: Apache-2.0
// Recorded launches: replays, binding, refusals. Lifetimes and threads: replay_test.c.
#include "kernel_mode/graph_test.h"
#include "slip_test_malloc.h"

// --- replays -----------------------------------------------------------------------------------------------------------------------------

enum { SLIP_GRAPH_TEST_CHAIN = 40 };

// Each node reads what the one before it wrote.
static void slip_graph_test_chain(slip_graph_test_t *t, float cells[][2], float *one) {
  for (int i = 0; i < SLIP_GRAPH_TEST_CHAIN; ++i) slip_graph_test_sum(t, cells[i], one, cells[i + 1], 2);
}

static void slip_graph_test_chain_on(bool inline_stream) {
  slip_graph_test_t t = slip_graph_test_begin();
  float cells[SLIP_GRAPH_TEST_CHAIN + 1][2] = {{0}}, one[2] = {1, 1};
  slip_graph_test_chain(&t, cells, one);
  for (int round = 1; round <= 3; ++round) {
    cells[0][0] = (float)round;
    slip_graph_test_replay(&t, inline_stream ? SLIP_STREAM_INLINE : t.stream);
    SLIP_CHECK(cells[SLIP_GRAPH_TEST_CHAIN][0] == (float)(SLIP_GRAPH_TEST_CHAIN + round));
    SLIP_CHECK(cells[SLIP_GRAPH_TEST_CHAIN][1] == (float)SLIP_GRAPH_TEST_CHAIN);
  }
  slip_context_stats_t stats = slip_graph_test_stats(&t);
  SLIP_CHECK_EQ(stats.launches, 3 * SLIP_GRAPH_TEST_CHAIN);
  SLIP_CHECK_EQ(stats.retired, 3 * SLIP_GRAPH_TEST_CHAIN);
  SLIP_CHECK_EQ(stats.tasks, 3 * SLIP_GRAPH_TEST_CHAIN);
  SLIP_CHECK_EQ(stats.pending, 0);
  SLIP_CHECK_EQ(stats.faulted, 0);
  slip_graph_test_end(&t);
}
SLIP_TEST(graph_replays_in_order_inline) {
  slip_graph_test_chain_on(true);
}
SLIP_TEST(graph_replays_in_order_on_a_stream) {
  slip_graph_test_chain_on(false);
}

SLIP_TEST(graph_without_nodes_does_nothing) {
  slip_graph_test_t t = slip_graph_test_begin();
  SLIP_CHECK_EQ(slip_graph_node_count(t.graph), 0);
  SLIP_CHECK_EQ(slip_graph_node_count(NULL), 0);
  slip_graph_test_replay(&t, SLIP_STREAM_INLINE);
  slip_graph_test_replay(&t, t.stream);
  slip_context_stats_t stats = slip_graph_test_stats(&t);
  SLIP_CHECK_EQ(stats.launches, 0);
  SLIP_CHECK_EQ(stats.retired, 0);
  slip_graph_test_end(&t);
}

SLIP_TEST(graph_replays_between_eager_launches_in_stream_order) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t state[4] = {0, 1, 0, 0};
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  slip_graph_test_step(&t, state, 5, 0);
  slip_graph_test_step(&t, state, 6, 0);
  slip_fixture_frame_control(&frame, t.context, t.control, state, 7, 0);
  for (int i = 0; i < 50; ++i) {
    SLIP_CHECK_OK(slip_context_launch(t.context, t.control, &frame, t.stream, NULL));
    SLIP_CHECK_OK(slip_graph_launch(t.graph, t.stream, &ticket));
    if (i < 49) slip_ticket_release(ticket);
  }
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  slip_ticket_release(ticket);
  SLIP_CHECK_EQ(state[0], 150);
  SLIP_CHECK_EQ(state[3], 6);
  slip_frame_deinitialize(&frame);
  slip_graph_test_end(&t);
}

SLIP_TEST(graph_fault_ends_the_replay_and_names_the_node) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t state[4] = {0, 1, 0, 0};
  slip_ticket_t *ticket = NULL;
  slip_graph_test_step(&t, state, 1, 0);
  slip_graph_test_step(&t, state, 2, 1);
  slip_graph_test_step(&t, state, 3, 0);
  for (int64_t round = 1; round <= 4; ++round) {
    if (round % 2) {
      SLIP_CHECK_ERROR(slip_graph_launch(t.graph, SLIP_STREAM_INLINE, &ticket), SLIP_CODE_GRAPH_USER_FAIL, "node 1 of 3");
      SLIP_CHECK(ticket == NULL);
    } else {
      SLIP_CHECK_OK(slip_graph_launch(t.graph, t.stream, &ticket));
      SLIP_CHECK_ERROR(slip_ticket_wait(ticket, -1), SLIP_CODE_GRAPH_USER_FAIL, "node 1 of 3");
      SLIP_CHECK_ERROR(slip_ticket_query(ticket), SLIP_CODE_GRAPH_USER_FAIL, "asked to fail");
      slip_ticket_release(ticket);
    }
    SLIP_CHECK_EQ(state[0], round);
    SLIP_CHECK_EQ(state[3], 1);
  }
  slip_graph_test_bind_step(&t, 1, state, 2);
  slip_graph_test_replay(&t, SLIP_STREAM_INLINE);
  SLIP_CHECK_EQ(state[0], 7);
  SLIP_CHECK_EQ(state[3], 3);
  SLIP_CHECK_EQ(slip_graph_test_stats(&t).faulted, 4);
  SLIP_CHECK_EQ(slip_graph_test_stats(&t).launches, 15);
  slip_graph_test_end(&t);
}

SLIP_TEST(graph_replay_asks_for_no_memory) {
  if (!slip_test_malloc_works()) slip_test_skip("a sanitizer stands before malloc; run it without");
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_graph_test_t t = slip_graph_test_begin_with(0, slip_test_allocator(&memory));
  float cells[SLIP_GRAPH_TEST_CHAIN + 1][2] = {{0}}, one[2] = {1, 1};
  slip_graph_test_chain(&t, cells, one);
  uint64_t asked = slip_test_malloc_count(), requests = memory.requests;
  for (int i = 0; i < 200; ++i) SLIP_CHECK_OK(slip_graph_launch(t.graph, SLIP_STREAM_INLINE, NULL));
  SLIP_CHECK_EQ(slip_test_malloc_count(), asked);
  for (int i = 0; i < 200; ++i) SLIP_CHECK_OK(slip_graph_launch(t.graph, t.stream, NULL));
  SLIP_CHECK_EQ(slip_test_malloc_count(), asked);
  SLIP_CHECK_EQ(memory.requests, requests);
  SLIP_CHECK_OK(slip_context_drain(t.context));
  slip_graph_test_end(&t);
  slip_test_allocator_check_empty(&memory);
}

// --- bind --------------------------------------------------------------------------------------------------------------------------------

SLIP_TEST(graph_bind_counts_for_later_replays_only) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t door[4] = {0}, first[4] = {0, 1, 0, 0}, second[4] = {0, 1, 0, 0};
  slip_graph_test_step(&t, door, 1, 0);
  slip_graph_test_step(&t, first, 2, 0);
  slip_graph_test_bind_step(&t, 1, first, 3);  // before the first replay
  SLIP_CHECK_OK(slip_graph_launch(t.graph, t.stream, NULL));
  slip_graph_test_bind_step(&t, 1, second, 4);
  slip_graph_test_bind_step(&t, 0, door, 5);
  SLIP_CHECK_OK(slip_graph_launch(t.graph, t.stream, NULL));
  slip_graph_test_bind_step(&t, 1, first, 6);
  SLIP_CHECK_EQ(first[0] + second[0], 0);
  slip_graph_test_open_door(door);
  SLIP_CHECK_OK(slip_context_drain(t.context));
  SLIP_CHECK_EQ(first[0], 1);
  SLIP_CHECK_EQ(first[3], 3);
  SLIP_CHECK_EQ(second[0], 1);
  SLIP_CHECK_EQ(second[3], 4);
  SLIP_CHECK_EQ(door[3], 5);
  slip_graph_test_replay(&t, SLIP_STREAM_INLINE);
  SLIP_CHECK_EQ(first[3], 6);
  slip_graph_test_end(&t);
}

SLIP_TEST(graph_add_after_bind_keeps_both) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t states[20][4] = {{0}};
  for (int64_t i = 0; i < 20; ++i) {
    states[i][1] = 1;
    slip_graph_test_step(&t, states[i], i, 0);
    slip_graph_test_bind_step(&t, (uint32_t)i / 2, states[i / 2], 100 + i);
  }
  slip_graph_test_replay(&t, SLIP_STREAM_INLINE);
  for (int64_t i = 0; i < 20; ++i) {
    SLIP_CHECK_EQ(states[i][0], 1);
    SLIP_CHECK_EQ(states[i][3], i < 10 ? 101 + 2 * i : i);
  }
  slip_graph_test_end(&t);
}

SLIP_TEST(graph_bind_waits_while_replays_use_every_version) {
  slip_graph_test_t t = slip_graph_test_begin();
  enum { ROUNDS = SLIP__GRAPH_VERSIONS + 8 };
  int64_t door[4] = {0}, states[ROUNDS][4] = {{0}};
  slip__thread_t opener = {0};
  slip_graph_test_step(&t, door, 0, 0);
  slip_graph_test_step(&t, states[0], 0, 0);
  for (int64_t i = 0; i < ROUNDS; ++i) {
    if (i == SLIP__GRAPH_VERSIONS - 2) SLIP_CHECK_OK(slip__thread_start(&opener, "opener", slip_graph_test_door_opener, door));
    states[i][1] = 1;
    slip_graph_test_bind_step(&t, 1, states[i], 10 + i);
    SLIP_CHECK_OK(slip_graph_launch(t.graph, t.stream, NULL));
  }
  SLIP_CHECK_OK(slip_context_drain(t.context));
  slip__thread_join(&opener);
  for (int64_t i = 0; i < ROUNDS; ++i) {
    SLIP_CHECK_EQ(states[i][0], 1);
    SLIP_CHECK_EQ(states[i][3], 10 + i);
  }
  slip_graph_test_end(&t);
}

// --- refusals ----------------------------------------------------------------------------------------------------------------------------

SLIP_TEST(graph_refuses_wrong_arguments) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t state[4] = {0, 1, 0, 0};
  slip_frame_t frame = {0}, none = {0};
  uint32_t node = 77;
  slip_ticket_t *ticket = (slip_ticket_t *)(uintptr_t)8;
  slip_graph_t *graph = (slip_graph_t *)(uintptr_t)8;
  slip_fixture_frame_control(&frame, t.context, t.control, state, 1, 0);
  SLIP_CHECK_CODE(slip_graph_create(t.context, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_ERROR(slip_graph_create(NULL, &graph), SLIP_CODE_INVALID_ARGUMENT, "context is NULL");
  SLIP_CHECK(graph == NULL);
  SLIP_CHECK_ERROR(slip_graph_add(NULL, t.control, &frame, &node), SLIP_CODE_INVALID_ARGUMENT, "graph is NULL");
  SLIP_CHECK_ERROR(slip_graph_add(t.graph, 99, &frame, &node), SLIP_CODE_NOT_PREPARED, "99");
  SLIP_CHECK_CODE(slip_graph_add(t.graph, -1, &frame, &node), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK_ERROR(slip_graph_add(t.graph, t.add, &frame, &node), SLIP_CODE_INVALID_ARGUMENT, "another signature");
  SLIP_CHECK_ERROR(slip_graph_add(t.graph, t.control, NULL, &node), SLIP_CODE_INVALID_ARGUMENT, "NULL");
  SLIP_CHECK_ERROR(slip_graph_add(t.graph, t.control, &none, &node), SLIP_CODE_INVALID_ARGUMENT, "not initialised");
  SLIP_CHECK_EQ(node, 77);
  SLIP_CHECK_EQ(slip_graph_node_count(t.graph), 0);
  SLIP_CHECK_OK(slip_graph_add(t.graph, t.control, &frame, &node));
  SLIP_CHECK_EQ(node, 0);
  SLIP_CHECK_CODE(slip_graph_bind(NULL, 0, &frame), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_ERROR(slip_graph_bind(t.graph, 1, &frame), SLIP_CODE_INVALID_ARGUMENT, "no node 1");
  SLIP_CHECK_ERROR(slip_graph_bind(t.graph, 0, &none), SLIP_CODE_INVALID_ARGUMENT, "node 0");
  SLIP_CHECK_CODE(slip_graph_launch(NULL, SLIP_STREAM_INLINE, &ticket), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK(ticket == NULL);
  SLIP_CHECK_ERROR(slip_graph_launch(t.graph, NULL, &ticket), SLIP_CODE_INVALID_ARGUMENT, "stream is NULL");
  SLIP_CHECK_CODE(slip_graph_launch(t.graph, (slip_stream_t)(uintptr_t)0x5555, &ticket), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK(ticket == NULL);
  SLIP_CHECK_EQ(slip_graph_test_stats(&t).refused, 2);
  SLIP_CHECK_EQ(slip_graph_test_stats(&t).launches, 0);
  SLIP_CHECK_OK(slip_graph_add(t.graph, t.control, &frame, &node));  // refused launches do not end the recording
  slip_graph_test_replay(&t, t.stream);
  SLIP_CHECK_ERROR(slip_graph_add(t.graph, t.control, &frame, &node), SLIP_CODE_INVALID_STATE, "was launched");
  SLIP_CHECK_EQ(state[0], 2);
  SLIP_CHECK_OK(slip_graph_destroy(NULL));
  slip_frame_deinitialize(&frame);
  slip_graph_test_end(&t);
}

SLIP_TEST(graph_refuses_a_frame_of_another_device) {
  slip_graph_test_t t = slip_graph_test_begin();
  slip_signature_t *signature = NULL;
  slip_frame_t frame = {0};
  float x[1] = {1}, y[1] = {2}, z[1] = {0};
  slip_device_t other = {SLIP_PLATFORM_SIM, 0};
  int64_t dims[1] = {1};
  slip_tensor_t in, out;
  SLIP_CHECK_OK(slip_tensor_initialize(&in, SLIP_DTYPE_F32, 1, dims, x, other));
  SLIP_CHECK_OK(slip_tensor_initialize(&out, SLIP_DTYPE_F32, 1, dims, z, other));
  slip_arg_t args[3] = {slip_arg_tensor(&in, NULL), slip_arg_tensor(&in, NULL), slip_arg_tensor(&out, NULL)};
  SLIP_CHECK_OK(slip_context_signature(t.context, t.add, &signature));
  SLIP_CHECK_OK(slip_frame_initialize(&frame, signature, "add", other, args, 3, 0));
  slip_signature_release(signature);
  SLIP_CHECK_ERROR(slip_graph_add(t.graph, t.add, &frame, NULL), SLIP_CODE_INVALID_ARGUMENT, "sim:0");
  slip_graph_test_sum(&t, x, y, z, 1);
  SLIP_CHECK_ERROR(slip_graph_bind(t.graph, 0, &frame), SLIP_CODE_INVALID_ARGUMENT, "sim:0");
  slip_graph_test_replay(&t, SLIP_STREAM_INLINE);
  SLIP_CHECK(z[0] == 3);
  slip_frame_deinitialize(&frame);
  slip_graph_test_end(&t);
}

SLIP_TEST(graph_refused_enqueue_leaves_no_trace) {
  slip_graph_test_t t = slip_graph_test_begin_with(2, (slip_allocator_t){NULL, NULL});
  int64_t state[4] = {0, 1, 0, 0};
  slip_ticket_t *ticket = NULL;
  slip_graph_test_step(&t, state, 1, 0);
  slip__platform_fault_set(SLIP__PLATFORM_CALL_STREAM_LAUNCH, 1, true);
  for (int i = 0; i < 5; ++i) {  // more often than there are places
    SLIP_CHECK_ERROR(slip_graph_launch(t.graph, t.stream, i % 2 ? &ticket : NULL), SLIP_CODE_DEVICE, "replay of a graph");
    SLIP_CHECK(ticket == NULL);
  }
  slip__platform_fault_clear();
  slip_context_stats_t stats = slip_graph_test_stats(&t);
  SLIP_CHECK_EQ(stats.pending, 0);
  SLIP_CHECK_EQ(stats.launches, 0);
  SLIP_CHECK_EQ(stats.refused, 5);
  SLIP_CHECK_EQ(atomic_load(&t.graph->references), 1);
  slip_graph_test_step(&t, state, 2, 0);
  for (int i = 0; i < 5; ++i) SLIP_CHECK_OK(slip_graph_launch(t.graph, t.stream, NULL));  // waits for places
  SLIP_CHECK_OK(slip_context_drain(t.context));
  SLIP_CHECK_EQ(state[0], 10);
  slip_graph_test_end(&t);
}
