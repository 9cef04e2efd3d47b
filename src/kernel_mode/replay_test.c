// SPDX-License-Identifier: Apache-2.0
// Recorded launches: who outlives whom, without memory, and from many threads.
#include <sys/wait.h>

#include "kernel_mode/graph_test.h"

// --- lifetimes ---------------------------------------------------------------------------------------------------------------------------

SLIP_TEST(graph_keeps_released_callables_resident) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t state[4] = {0, 1, 0, 0}, other[4] = {0, 1, 0, 0};
  slip_frame_t frame = {0};
  slip_fixture_frame_control(&frame, t.context, t.control, other, 9, 0);
  slip_graph_test_step(&t, state, 1, 0);
  slip_graph_test_step(&t, state, 2, 0);
  SLIP_CHECK_OK(slip_context_release(t.context, t.add));
  SLIP_CHECK_OK(slip_context_release(t.context, t.control));
  SLIP_CHECK_EQ(slip_graph_test_stats(&t).callables, 0);
  SLIP_CHECK(slip_graph_test_stats(&t).resident_bytes > 0);
  SLIP_CHECK_CODE(slip_graph_add(t.graph, t.control, &frame, NULL), SLIP_CODE_NOT_PREPARED);
  slip_graph_test_replay(&t, SLIP_STREAM_INLINE);
  slip_graph_test_replay(&t, t.stream);
  SLIP_CHECK_EQ(state[0], 4);
  SLIP_CHECK_OK(slip_graph_bind(t.graph, 1, &frame));
  slip_graph_test_replay(&t, t.stream);
  SLIP_CHECK_EQ(other[3], 9);
  SLIP_CHECK_OK(slip_graph_destroy(t.graph));
  SLIP_CHECK_EQ(slip_graph_test_stats(&t).resident_bytes, 0);
  t.graph = NULL;
  slip_frame_deinitialize(&frame);
  slip_graph_test_end(&t);
}

SLIP_TEST(graph_destroyed_while_replays_pend) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t state[4] = {0};
  slip_ticket_t *ticket = NULL;
  slip_graph_test_step(&t, state, 1, 0);
  slip_graph_test_step(&t, state, 2, 0);
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip_graph_launch(t.graph, t.stream, i == 2 ? &ticket : NULL));
  SLIP_CHECK_EQ(slip_graph_test_stats(&t).pending, 3);
  SLIP_CHECK_EQ(slip_graph_test_stats(&t).launches, 6);
  SLIP_CHECK_OK(slip_graph_destroy(t.graph));
  t.graph = NULL;
  SLIP_CHECK_OK(slip_context_release(t.context, t.control));
  SLIP_CHECK_OK(slip_context_release(t.context, t.add));
  SLIP_CHECK(slip_graph_test_stats(&t).resident_bytes > 0);
  SLIP_CHECK_CODE(slip_ticket_wait(ticket, 1000000), SLIP_CODE_TIMEOUT);
  slip_graph_test_open_door(state);
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  slip_ticket_release(ticket);
  SLIP_CHECK_EQ(state[0], 6);
  SLIP_CHECK_EQ(slip_graph_test_stats(&t).resident_bytes, 0);
  slip_graph_test_end(&t);
}

SLIP_TEST(graph_close_waits_for_replays_of_destroyed_graphs) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t state[4] = {0};
  slip__thread_t opener = {0};
  slip_graph_test_step(&t, state, 1, 0);
  SLIP_CHECK_OK(slip_graph_launch(t.graph, t.stream, NULL));
  SLIP_CHECK_OK(slip_graph_launch(t.graph, t.stream, NULL));
  SLIP_CHECK_OK(slip__thread_start(&opener, "opener", slip_graph_test_door_opener, state));
  SLIP_CHECK_OK(slip_graph_destroy(t.graph));
  t.graph = NULL;
  slip_graph_test_end(&t);
  SLIP_CHECK_EQ(state[0], 2);
  slip__thread_join(&opener);
}

SLIP_TEST(graph_close_is_refused_while_graphs_live) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t state[4] = {0};
  slip_graph_t *second = NULL, *third = NULL;
  slip_frame_t frame = {0};
  slip_fixture_frame_control(&frame, t.context, t.control, state, 1, 0);
  slip_graph_test_step(&t, state, 1, 0);
  SLIP_CHECK_OK(slip_graph_create(t.context, &second));
  SLIP_CHECK_OK(slip_graph_launch(t.graph, t.stream, NULL));  // waits at the door
  SLIP_CHECK_ERROR(slip_context_close(t.context), SLIP_CODE_BUSY, "2 recorded graphs");
  SLIP_CHECK_EQ(slip_context_state(t.context), SLIP_CONTEXT_CLOSING);
  SLIP_CHECK_ERROR(slip_graph_launch(t.graph, SLIP_STREAM_INLINE, NULL), SLIP_CODE_INVALID_STATE, "CLOSING");
  SLIP_CHECK_CODE(slip_graph_launch(t.graph, t.stream, NULL), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_graph_add(second, t.control, &frame, NULL), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_graph_create(t.context, &third), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_OK(slip_graph_bind(t.graph, 0, &frame));
  SLIP_CHECK_OK(slip_graph_destroy(second));
  SLIP_CHECK_ERROR(slip_context_close(t.context), SLIP_CODE_BUSY, "1 recorded graph ");
  SLIP_CHECK_CODE(slip_context_destroy(t.context), SLIP_CODE_INVALID_STATE);
  slip_graph_test_open_door(state);
  slip_frame_deinitialize(&frame);
  slip_graph_test_end(&t);
  SLIP_CHECK_EQ(state[0], 1);
}

SLIP_TEST(graph_on_a_poisoned_context_can_only_go) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t state[4] = {0, 1, 0, 0};
  slip_graph_t *graph = NULL;
  slip_frame_t frame = {0};
  slip_fixture_frame_control(&frame, t.context, t.control, state, 1, 0);
  slip_graph_test_step(&t, state, 1, 0);
  slip_graph_test_replay(&t, t.stream);
  slip__context_poison(t.context, SLIP_STATUS_PLATFORM(SLIP_CODE_DEVICE, 719, "the device fell over"));
  SLIP_CHECK_ERROR(slip_graph_launch(t.graph, SLIP_STREAM_INLINE, NULL), SLIP_CODE_POISONED, "the device fell over");
  SLIP_CHECK_ERROR(slip_graph_launch(t.graph, t.stream, NULL), SLIP_CODE_POISONED, "the device fell over");
  SLIP_CHECK_CODE(slip_graph_create(t.context, &graph), SLIP_CODE_POISONED);
  SLIP_CHECK(graph == NULL);
  SLIP_CHECK_EQ(state[0], 1);
  slip_frame_deinitialize(&frame);
  slip_graph_test_end(&t);
}

static int slip_graph_test_child(slip_graph_test_t *t, const slip_frame_t *frame) {
  slip_graph_t *graph = NULL;
  slip_ticket_t *ticket = NULL;
  slip_status_t all[] = {slip_graph_create(t->context, &graph), slip_graph_add(t->graph, t->control, frame, NULL),
                         slip_graph_bind(t->graph, 0, frame),   slip_graph_launch(t->graph, SLIP_STREAM_INLINE, &ticket),
                         slip_graph_destroy(t->graph),          slip_graph_launch(t->graph, t->stream, NULL)};
  int wrong = 0;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
    if (slip_status_code(all[i]) != SLIP_CODE_FORKED) wrong |= 1 << i;
    slip_status_free(all[i]);
  }
  return wrong || graph || ticket || slip_graph_node_count(t->graph) != 0 || t->graph->node_count != 1;
}

SLIP_TEST(graph_in_a_forked_child_is_not_touched) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t state[4] = {0, 1, 0, 0};
  slip_frame_t frame = {0};
  slip_fixture_frame_control(&frame, t.context, t.control, state, 1, 0);
  slip_graph_test_step(&t, state, 1, 0);
  pthread_mutex_lock(&t.graph->lock);  // as if another thread were binding
  pid_t child = fork();
  if (child == 0) _exit(slip_graph_test_child(&t, &frame));
  int result = -1;
  SLIP_CHECK(child > 0 && waitpid(child, &result, 0) == child);
  SLIP_CHECK(WIFEXITED(result));
  SLIP_CHECK_EQ(WEXITSTATUS(result), 0);
  pthread_mutex_unlock(&t.graph->lock);
  slip_graph_test_replay(&t, t.stream);
  slip_frame_deinitialize(&frame);
  slip_graph_test_end(&t);
}

// --- memory ------------------------------------------------------------------------------------------------------------------------------

// Every request of create, add and bind fails once; the call then leaves the graph as it was and works when repeated.
SLIP_TEST(graph_calls_without_memory_change_nothing) {
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_graph_test_t t = slip_graph_test_begin_with(0, slip_test_allocator(&memory));
  int64_t states[20][4] = {{0}};
  slip_graph_t *graph = NULL;
  slip_frame_t frame = {0};
  uint32_t failures = 0;
  slip_test_allocator_fail(&memory, 1, false);
  SLIP_CHECK_CODE(slip_graph_create(t.context, &graph), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK(graph == NULL);
  for (uint32_t i = 0; i < 20; ++i) {
    states[i][1] = 1;
    slip_fixture_frame_control(&frame, t.context, t.control, states[i], i, 0);
    for (uint64_t nth = 1;; ++nth) {
      slip_test_allocator_fail(&memory, nth, false);
      slip_status_t status = slip_graph_add(t.graph, t.control, &frame, NULL);
      if (slip_status_is_ok(status)) break;
      SLIP_CHECK_CODE(status, SLIP_CODE_OUT_OF_MEMORY);
      SLIP_CHECK_EQ(slip_graph_node_count(t.graph), i);
      ++failures;
    }
    slip_frame_deinitialize(&frame);
  }
  SLIP_CHECK(failures >= 6);
  slip_fixture_frame_control(&frame, t.context, t.control, states[3], 300, 0);
  slip_test_allocator_fail(&memory, 1, false);
  SLIP_CHECK_ERROR(slip_graph_bind(t.graph, 3, &frame), SLIP_CODE_OUT_OF_MEMORY, "node 3");
  slip_graph_test_replay(&t, SLIP_STREAM_INLINE);
  SLIP_CHECK_EQ(states[3][3], 3);
  SLIP_CHECK_OK(slip_graph_bind(t.graph, 3, &frame));
  slip_test_allocator_fail(&memory, 1, true);
  SLIP_CHECK_OK(slip_graph_bind(t.graph, 3, &frame));  // the version before is free again
  slip_graph_test_replay(&t, t.stream);
  slip_test_allocator_fail(&memory, 0, false);
  for (int64_t i = 0; i < 20; ++i) {
    SLIP_CHECK_EQ(states[i][0], 2);
    SLIP_CHECK_EQ(states[i][3], i == 3 ? 300 : i);
  }
  slip_frame_deinitialize(&frame);
  slip_graph_test_end(&t);
  slip_test_allocator_check_empty(&memory);
}

// --- many threads ------------------------------------------------------------------------------------------------------------------------

enum { SLIP_GRAPH_TEST_SETS = 4, SLIP_GRAPH_TEST_ROUNDS = 400 };

typedef struct slip_graph_test_crowd_t {
  slip_graph_test_t *test;
  slip__thread_t thread;
  slip_stream_t stream;  // NULL: binds instead of replaying
  uint32_t number;
  float (*sets)[3];
} slip_graph_test_crowd_t;

static void slip_graph_test_crowd_bind(const slip_graph_test_crowd_t *member, uint32_t round) {
  float *set = member->sets[(round + member->number) % SLIP_GRAPH_TEST_SETS];
  slip_frame_t frame = {0};
  slip_fixture_frame_add(&frame, member->test->context, member->test->add, &set[0], &set[1], &set[2], 1);
  SLIP_CHECK_OK(slip_graph_bind(member->test->graph, round % 3, &frame));
  slip_frame_deinitialize(&frame);
}
static void slip_graph_test_crowd_member(void *user) {
  slip_graph_test_crowd_t *member = user;
  for (uint32_t i = 0; i < SLIP_GRAPH_TEST_ROUNDS; ++i) {
    if (!member->stream) {
      slip_graph_test_crowd_bind(member, i);
    } else if (i % 5 == 0) {
      slip_graph_test_replay(member->test, member->stream);
    } else {
      SLIP_CHECK_OK(slip_graph_launch(member->test->graph, member->stream, NULL));
    }
  }
}

// A torn bind would add numbers of different sets.
SLIP_TEST(graph_binds_and_replays_of_many_threads) {
  slip_graph_test_t t = slip_graph_test_begin_with(64, (slip_allocator_t){NULL, NULL});
  float sets[SLIP_GRAPH_TEST_SETS][3];
  slip_graph_test_crowd_t crowd[6];
  for (int k = 0; k < SLIP_GRAPH_TEST_SETS; ++k) {
    sets[k][0] = (float)(k + 1);
    sets[k][1] = 100.0f * (float)(k + 1);
    sets[k][2] = 0;
  }
  for (int i = 0; i < 3; ++i) slip_graph_test_sum(&t, &sets[0][0], &sets[0][1], &sets[0][2], 1);
  for (uint32_t i = 0; i < 6; ++i) {
    crowd[i] = (slip_graph_test_crowd_t){.test = &t,
                                         .stream = i < 2   ? NULL
                                                   : i < 4 ? SLIP_STREAM_INLINE
                                                           : t.stream,
                                         .number = i,
                                         .sets = sets};
    SLIP_CHECK_OK(slip__thread_start(&crowd[i].thread, "crowd", slip_graph_test_crowd_member, &crowd[i]));
  }
  for (int i = 0; i < 6; ++i) slip__thread_join(&crowd[i].thread);
  SLIP_CHECK_OK(slip_context_drain(t.context));
  for (int k = 0; k < SLIP_GRAPH_TEST_SETS; ++k) SLIP_CHECK(sets[k][2] == 0 || sets[k][2] == sets[k][0] + sets[k][1]);
  slip_context_stats_t stats = slip_graph_test_stats(&t);
  SLIP_CHECK_EQ(stats.launches, 4 * 3 * SLIP_GRAPH_TEST_ROUNDS);
  SLIP_CHECK_EQ(stats.retired, stats.launches);
  SLIP_CHECK_EQ(stats.tasks, stats.launches);
  slip_graph_test_end(&t);
}

typedef struct slip_graph_test_steady_t {
  slip_graph_test_t *test;
  int64_t (*states)[4];
  _Atomic uint32_t stop;
} slip_graph_test_steady_t;

static void slip_graph_test_binder(void *user) {
  slip_graph_test_steady_t *steady = user;
  for (int64_t i = 1; !atomic_load(&steady->stop); ++i) {
    for (uint32_t node = 0; node < 2; ++node) slip_graph_test_bind_step(steady->test, node, steady->states[node], i);
  }
}

// The second node is bound after the first: a replay sees both as of one moment.
SLIP_TEST(graph_replay_sees_all_nodes_as_of_one_moment) {
  slip_graph_test_t t = slip_graph_test_begin();
  int64_t states[2][4] = {{0, 1, 0, 0}, {0, 1, 0, 0}}, latest = 0;
  slip_graph_test_steady_t steady = {.test = &t, .states = states};
  slip__thread_t binder = {0};
  for (int i = 0; i < 2; ++i) slip_graph_test_step(&t, states[i], 0, 0);
  SLIP_CHECK_OK(slip__thread_start(&binder, "binder", slip_graph_test_binder, &steady));
  for (int i = 0; i < 3000 || latest < 3; ++i) {
    SLIP_CHECK_OK(slip_graph_launch(t.graph, SLIP_STREAM_INLINE, NULL));
    SLIP_CHECK(states[0][3] >= latest);
    SLIP_CHECK(states[1][3] == states[0][3] || states[1][3] == states[0][3] - 1);
    latest = states[0][3];
  }
  atomic_store(&steady.stop, 1);
  slip__thread_join(&binder);
  slip_graph_test_end(&t);
}

static void slip_graph_test_replays_until_closed(void *user) {
  slip_graph_test_crowd_t *member = user;
  slip_code_t code = SLIP_CODE_OK;
  while (code == SLIP_CODE_OK) {
    slip_status_t status = slip_graph_launch(member->test->graph, member->stream, NULL);
    code = slip_status_code(status);
    slip_status_free(status);
    if (code == SLIP_CODE_OK) __atomic_fetch_add(&member->number, 1, __ATOMIC_SEQ_CST);
  }
  SLIP_CHECK_EQ(code, SLIP_CODE_INVALID_STATE);
}

SLIP_TEST(graph_replays_race_with_close) {
  for (int round = 0; round < 10; ++round) {
    slip_graph_test_t t = slip_graph_test_begin();
    slip_graph_test_crowd_t crowd[3];
    int64_t states[3][4] = {{0}};
    slip_graph_t *graphs[3];
    slip_graph_test_t tests[3];
    for (int i = 0; i < 3; ++i) {
      tests[i] = t;
      if (i > 0) SLIP_CHECK_OK(slip_graph_create(t.context, &tests[i].graph));
      graphs[i] = tests[i].graph;
      states[i][1] = 1;
      slip_graph_test_step(&tests[i], states[i], 1, 0);
      crowd[i] = (slip_graph_test_crowd_t){.test = &tests[i], .stream = i ? t.stream : SLIP_STREAM_INLINE};
      SLIP_CHECK_OK(slip__thread_start(&crowd[i].thread, "replayer", slip_graph_test_replays_until_closed, &crowd[i]));
    }
    for (int i = 0; i < 3; ++i) {
      while (__atomic_load_n(&crowd[i].number, __ATOMIC_SEQ_CST) == 0) usleep(100);
    }
    SLIP_CHECK_CODE(slip_context_close(t.context), SLIP_CODE_BUSY);
    for (int i = 0; i < 3; ++i) slip__thread_join(&crowd[i].thread);
    for (int i = 1; i < 3; ++i) SLIP_CHECK_OK(slip_graph_destroy(graphs[i]));
    slip_graph_test_end(&t);
    for (int i = 0; i < 3; ++i) SLIP_CHECK_EQ(states[i][0], crowd[i].number);
  }
}
