// SPDX-License-Identifier: Apache-2.0
// Capture: the table of rules, and what a graph does when it is launched.
#include "capture_rules.h"
#include "device_work.h"

static slip_platform_t *conform_capturing(void) {
  slip_platform_t *platform = conform_platform();
  conform_need(platform, SLIP_PLATFORM_CAN_CAPTURE, "capture");
  return platform;
}

static slip_graph_exec_t conform_end_capture(slip_platform_t *platform, slip_stream_t stream) {
  slip_graph_exec_t graph = NULL;
  SLIP_CHECK_OK(slip_stream_capture_end(platform, stream, &graph));
  SLIP_CHECK(graph != NULL);
  return graph;
}

static slip_capture_info_t conform_capture_of(slip_platform_t *platform, slip_stream_t stream) {
  slip_capture_info_t info = {9, 9, 9};
  SLIP_CHECK_OK(slip_stream_capture_info(platform, stream, &info));
  return info;
}

// Every rule of the table, each on fresh streams. All are tried before the test fails.
SLIP_TEST_TIMEOUT(capture_rules, 120) {
  slip_platform_t *platform = conform_capturing();
  bool ascend = conform_flavour() == SLIP_SIM_FLAVOUR_ASCEND;
  unsigned wrong = 0, count = 0;
  for (const conform_rule_t *rule; (rule = conform_rule_at(count)) != NULL; ++count) {
    conform_answer_t answer, expected = ascend ? rule->ascend : rule->cuda;
    char problem[512], got[96], wanted[96];
    bool played = conform_rule_run(rule, platform, &answer, problem, sizeof(problem));
    (void)conform_answer_format(answer, got, sizeof(got));
    (void)conform_answer_format(expected, wanted, sizeof(wanted));
    if (played && strcmp(got, wanted) == 0) continue;
    ++wrong;
    printf("# rule \"%s\" (%s)\n#   %s\n#   gave %s, expected %s%s%s\n", rule->text, rule->source, rule->calls, got, wanted,
           played ? "" : "; ", played ? "" : problem);
  }
  printf("# %u rules, %u wrong\n", count, wrong);
  SLIP_CHECK_EQ(wrong, 0);
  SLIP_CHECK(count > 50);
}

SLIP_TEST(capture_tells_who_captures) {
  slip_platform_t *platform = conform_capturing();
  slip_stream_t a = conform_stream(platform), b = conform_stream(platform), c = conform_stream(platform);
  slip_event_t fork = conform_event(platform), join = conform_event(platform);
  uint64_t ids[2];
  for (int round = 0; round < 2; ++round) {
    CONFORM_OK(slip_stream_capture_begin(platform, a, SLIP_CAPTURE_MODE_THREAD_LOCAL));
    slip_capture_info_t first = conform_capture_of(platform, a);
    SLIP_CHECK_EQ(first.state, SLIP_CAPTURE_ACTIVE);
    SLIP_CHECK(first.id != 0);
    SLIP_CHECK_OK(slip_event_record(platform, fork, a));
    SLIP_CHECK_OK(slip_stream_wait_event(platform, b, fork));
    // Members are in the same capture, whose id stays as work is added.
    SLIP_CHECK_EQ(conform_capture_of(platform, b).id, first.id);
    SLIP_CHECK_EQ(conform_capture_of(platform, b).state, SLIP_CAPTURE_ACTIVE);
    SLIP_CHECK_EQ(conform_capture_of(platform, c).state, SLIP_CAPTURE_NONE);
    SLIP_CHECK_EQ(conform_capture_of(platform, c).id, 0);
    SLIP_CHECK_OK(slip_stream_enqueue_host(platform, b, conform_nothing, NULL));
    SLIP_CHECK_OK(slip_event_record(platform, join, b));
    SLIP_CHECK_OK(slip_stream_wait_event(platform, a, join));
    SLIP_CHECK_EQ(conform_capture_of(platform, a).id, first.id);
    ids[round] = first.id;
    SLIP_CHECK_OK(slip_graph_exec_destroy(platform, conform_end_capture(platform, a)));
    SLIP_CHECK_EQ(conform_capture_of(platform, a).state, SLIP_CAPTURE_NONE);
    SLIP_CHECK_EQ(conform_capture_of(platform, b).state, SLIP_CAPTURE_NONE);
  }
  SLIP_CHECK(ids[0] != ids[1]);
  SLIP_CHECK_OK(slip_stream_destroy(platform, a));
  SLIP_CHECK_OK(slip_stream_destroy(platform, b));
  SLIP_CHECK_OK(slip_stream_destroy(platform, c));
  SLIP_CHECK_OK(slip_event_destroy(platform, fork));
  SLIP_CHECK_OK(slip_event_destroy(platform, join));
}

typedef struct conform_asker_t {
  slip_platform_t *platform;
  slip_capture_info_t info;
} conform_asker_t;

static void conform_ask_thread(void *user) {
  conform_asker_t *asker = user;
  SLIP_CHECK_OK(slip__platform_thread_capture_info(asker->platform, &asker->info));
}

// What a thread is told about captures that would forbid it unsafe calls: {own thread, another thread} per mode.
SLIP_TEST(capture_tells_a_thread_what_forbids_it_calls) {
  slip_platform_t *platform = conform_capturing();
  slip_stream_t stream = conform_stream(platform);
  static const uint32_t expected[3][2] = {[SLIP_CAPTURE_MODE_GLOBAL] = {SLIP_CAPTURE_ACTIVE, SLIP_CAPTURE_ACTIVE},
                                          [SLIP_CAPTURE_MODE_THREAD_LOCAL] = {SLIP_CAPTURE_ACTIVE, SLIP_CAPTURE_NONE},
                                          [SLIP_CAPTURE_MODE_RELAXED] = {SLIP_CAPTURE_NONE, SLIP_CAPTURE_NONE}};
  for (uint32_t mode = 0; mode < 3; ++mode) {
    conform_asker_t own = {platform, {9, 9, 9}}, other = {platform, {9, 9, 9}};
    CONFORM_OK(slip_stream_capture_begin(platform, stream, mode));
    conform_ask_thread(&own);
    conform_on_thread(conform_ask_thread, &other);
    SLIP_CHECK_EQ(own.info.state, expected[mode][0]);
    SLIP_CHECK_EQ(other.info.state, expected[mode][1]);
    SLIP_CHECK_EQ(conform_capture_of(platform, stream).state, SLIP_CAPTURE_ACTIVE);
    SLIP_CHECK_OK(slip_graph_exec_destroy(platform, conform_end_capture(platform, stream)));
    conform_ask_thread(&own);
    SLIP_CHECK_EQ(own.info.state, SLIP_CAPTURE_NONE);
  }
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

// --- what a graph does

SLIP_TEST(capture_records_and_every_launch_runs) {
  slip_platform_t *platform = conform_capturing();
  slip_stream_t stream = conform_stream(platform);
  uint64_t *source = conform_pinned(platform, sizeof(uint64_t)), *target = conform_pinned(platform, sizeof(uint64_t));
  void *memory = conform_memory(platform, sizeof(uint64_t));
  uint64_t hosts = 0, kernels = 0;
  *source = 5;
  *target = 0;
  CONFORM_OK(slip_stream_capture_begin(platform, stream, SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip_memory_copy_async(platform, stream, memory, source, sizeof(uint64_t), SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(slip_stream_enqueue_host(platform, stream, conform_count, &hosts));
  SLIP_CHECK_OK(slip__platform_stream_launch(platform, stream, conform_count, &kernels));
  SLIP_CHECK_OK(slip_memory_copy_async(platform, stream, target, memory, sizeof(uint64_t), SLIP_COPY_DEVICE_TO_HOST));
  slip_graph_exec_t graph = conform_end_capture(platform, stream);
  SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
  SLIP_CHECK(hosts == 0 && kernels == 0 && *target == 0);  // recorded, not run
  for (uint64_t i = 1; i <= 10; ++i) {
    *source = 100 * i;  // addresses are frozen, what is there is not
    SLIP_CHECK_OK(slip_graph_exec_launch(platform, graph, stream));
    SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
    SLIP_CHECK(hosts == i && kernels == i && *target == 100 * i);
  }
  SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
  SLIP_CHECK_OK(slip_graph_exec_destroy(platform, NULL));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, memory));
  SLIP_CHECK_OK(slip_host_free(platform, source));
  SLIP_CHECK_OK(slip_host_free(platform, target));
}

SLIP_TEST(capture_device_work_runs_in_a_graph) {
  slip_platform_t *platform = conform_capturing();
  slip_stream_t stream = conform_stream(platform);
  uint8_t back = 0;
  conform_work_t work = {.platform = platform,
                         .address = conform_memory(platform, 64),
                         .size_bytes = 64,
                         .access = SLIP_MAP_READ | SLIP_MAP_WRITE,
                         .write_bytes = 64};
  CONFORM_OK(slip__platform_memory_fill(platform, 0, work.address, 1, 64));
  CONFORM_OK(slip_stream_capture_begin(platform, stream, SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip__platform_stream_launch(platform, stream, conform_work_run, &work));
  slip_graph_exec_t graph = conform_end_capture(platform, stream);
  for (int i = 0; i < 5; ++i) {
    work.value = (uint8_t)(10 * i);
    SLIP_CHECK_OK(slip_graph_exec_launch(platform, graph, stream));
    SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
    SLIP_CHECK(work.mapped == SLIP_CODE_OK && work.unmapped == SLIP_CODE_OK);
    SLIP_CHECK_OK(slip_memory_copy(platform, 0, &back, work.address, 1, SLIP_COPY_DEVICE_TO_HOST));
    SLIP_CHECK_EQ(back, 10 * i);
  }
  SLIP_CHECK_EQ(work.runs, 5);
  SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, work.address));
}

// --- order inside a graph: random forks and joins against the order that they demand

typedef struct conform_vertex_t {
  uint64_t runs;
  struct conform_vertex_t *before[2];
  _Atomic uint64_t *wrong;
} conform_vertex_t;

static void conform_vertex_run(void *user) {
  conform_vertex_t *vertex = user;
  ++vertex->runs;
  for (int i = 0; i < 2; ++i) {
    if (vertex->before[i] && vertex->before[i]->runs != vertex->runs) atomic_fetch_add(vertex->wrong, 1);
  }
}

SLIP_TEST(capture_random_graphs_keep_their_order) {
  slip_platform_t *platform = conform_capturing();
  slip_stream_t streams[4];
  slip_event_t events[4];
  static conform_vertex_t vertices[300];
  conform_vertex_t *last[4] = {NULL}, *waited[4] = {NULL};
  uint64_t random = slip_test_seed();
  _Atomic uint64_t wrong = 0;
  for (int i = 0; i < 4; ++i) {
    streams[i] = conform_stream(platform);
    events[i] = conform_event(platform);
  }
  CONFORM_OK(slip_stream_capture_begin(platform, streams[0], SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip_event_record(platform, events[0], streams[0]));
  for (int i = 1; i < 4; ++i) SLIP_CHECK_OK(slip_stream_wait_event(platform, streams[i], events[0]));
  for (size_t n = 0; n < 300; ++n) {
    size_t s = slip_test_random(&random) % 4, t = slip_test_random(&random) % 4;
    if (s != t && slip_test_random(&random) % 2) {
      SLIP_CHECK_OK(slip_event_record(platform, events[t], streams[t]));
      SLIP_CHECK_OK(slip_stream_wait_event(platform, streams[s], events[t]));
      waited[s] = last[t];
    }
    vertices[n] = (conform_vertex_t){.before = {last[s], waited[s]}, .wrong = &wrong};
    SLIP_CHECK_OK(slip_stream_enqueue_host(platform, streams[s], conform_vertex_run, &vertices[n]));
    last[s] = &vertices[n];
  }
  for (int i = 1; i < 4; ++i) {
    SLIP_CHECK_OK(slip_event_record(platform, events[i], streams[i]));
    SLIP_CHECK_OK(slip_stream_wait_event(platform, streams[0], events[i]));
  }
  slip_graph_exec_t graph = conform_end_capture(platform, streams[0]);
  for (int round = 0; round < 5; ++round) SLIP_CHECK_OK(slip_graph_exec_launch(platform, graph, streams[round % 4]));
  for (int i = 0; i < 4; ++i) SLIP_CHECK_OK(slip_stream_synchronize(platform, streams[i]));
  for (size_t n = 0; n < 300; ++n) SLIP_CHECK_EQ(vertices[n].runs, 5);
  SLIP_CHECK_EQ(atomic_load(&wrong), 0);
  SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
  for (int i = 0; i < 4; ++i) {
    SLIP_CHECK_OK(slip_stream_destroy(platform, streams[i]));
    SLIP_CHECK_OK(slip_event_destroy(platform, events[i]));
  }
}

// --- executions

typedef struct conform_overlap_t {
  _Atomic uint32_t inside, overlaps, runs;
} conform_overlap_t;

static void conform_overlap_enter(void *user) {
  conform_overlap_t *overlap = user;
  if (atomic_fetch_add(&overlap->inside, 1) != 0) atomic_fetch_add(&overlap->overlaps, 1);
}
static void conform_overlap_leave(void *user) {
  conform_overlap_t *overlap = user;
  atomic_fetch_sub(&overlap->inside, 1);
  atomic_fetch_add(&overlap->runs, 1);
}

static slip_graph_exec_t conform_overlap_graph(slip_platform_t *platform, slip_stream_t stream, conform_overlap_t *overlap) {
  CONFORM_OK(slip_stream_capture_begin(platform, stream, SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip_stream_enqueue_host(platform, stream, conform_overlap_enter, overlap));
  SLIP_CHECK_OK(slip_stream_enqueue_host(platform, stream, conform_nothing, NULL));
  SLIP_CHECK_OK(slip_stream_enqueue_host(platform, stream, conform_overlap_leave, overlap));
  return conform_end_capture(platform, stream);
}

SLIP_TEST(capture_executions_of_one_graph_never_overlap) {
  slip_platform_t *platform = conform_capturing();
  slip_stream_t streams[3];
  conform_overlap_t overlap = {0};
  for (int i = 0; i < 3; ++i) streams[i] = conform_stream(platform);
  slip_graph_exec_t graph = conform_overlap_graph(platform, streams[0], &overlap);
  for (int i = 0; i < 60; ++i) SLIP_CHECK_OK(slip_graph_exec_launch(platform, graph, streams[i % 3]));
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip_stream_destroy(platform, streams[i]));
  SLIP_CHECK_EQ(atomic_load(&overlap.runs), 60);
  SLIP_CHECK_EQ(atomic_load(&overlap.overlaps), 0);
  SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
}

SLIP_TEST(capture_launch_is_in_stream_order) {
  slip_platform_t *platform = conform_capturing();
  slip_stream_t stream = conform_stream(platform), other = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  conform_gate_t gate = {0};
  uint64_t runs = 0;
  CONFORM_OK(slip_stream_capture_begin(platform, stream, SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip_stream_enqueue_host(platform, stream, conform_count, &runs));
  slip_graph_exec_t graph = conform_end_capture(platform, stream);
  SLIP_CHECK_OK(slip_stream_enqueue_host(platform, other, conform_gate_pass, &gate));
  SLIP_CHECK_OK(slip_event_record(platform, event, other));
  SLIP_CHECK_OK(slip_stream_wait_event(platform, stream, event));
  SLIP_CHECK_OK(slip_graph_exec_launch(platform, graph, stream));
  SLIP_CHECK_OK(slip_event_record(platform, event, stream));
  SLIP_CHECK_CODE(slip_stream_query(platform, stream), SLIP_CODE_NOT_READY);
  SLIP_CHECK_CODE(slip_event_query(platform, event), SLIP_CODE_NOT_READY);
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_event_synchronize(platform, event));
  SLIP_CHECK_EQ(runs, 1);
  SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_stream_destroy(platform, other));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
}

// --- what a graph keeps

SLIP_TEST(capture_retained_things_live_until_the_device_is_quiet) {
  slip_platform_t *platform = conform_capturing();
  slip_stream_t stream = conform_stream(platform);
  conform_gate_t gate = {0};
  conform_overlap_t kept = {0};
  uint64_t runs = 0;
  CONFORM_OK(slip_stream_capture_begin(platform, stream, SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip_stream_enqueue_host(platform, stream, conform_count, &runs));
  SLIP_CHECK_OK(slip__platform_capture_retain(platform, stream, conform_overlap_leave, &kept));
  SLIP_CHECK_OK(slip__platform_capture_retain(platform, stream, conform_overlap_leave, &kept));
  slip_graph_exec_t graph = conform_end_capture(platform, stream);
  SLIP_CHECK_OK(slip_stream_enqueue_host(platform, stream, conform_gate_pass, &gate));
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip_graph_exec_launch(platform, graph, stream));
  SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
  SLIP_CHECK_CODE(slip_graph_exec_launch(platform, graph, stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_EQ(atomic_load(&kept.runs), 0);  // executions are still to come
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_EQ(runs, 3);
  for (int i = 0; i < 300000 && atomic_load(&kept.runs) < 2; ++i) (void)slip__futex_wait(&gate.open, 1, 100000);
  SLIP_CHECK_EQ(atomic_load(&kept.runs), 2);
}

// A capture that comes to nothing gives back at once.
SLIP_TEST(capture_that_fails_gives_back_what_it_retained) {
  slip_platform_t *platform = conform_capturing();
  slip_stream_t a = conform_stream(platform), b = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  conform_overlap_t kept = {0};
  slip_graph_exec_t graph = NULL;
  CONFORM_OK(slip_stream_capture_begin(platform, a, SLIP_CAPTURE_MODE_RELAXED));
  SLIP_CHECK_OK(slip__platform_capture_retain(platform, a, conform_overlap_leave, &kept));
  SLIP_CHECK_OK(slip_event_record(platform, event, a));
  SLIP_CHECK_OK(slip_stream_wait_event(platform, b, event));
  SLIP_CHECK_OK(slip__platform_capture_retain(platform, b, conform_overlap_leave, &kept));
  SLIP_CHECK_OK(slip_stream_enqueue_host(platform, b, conform_nothing, NULL));
  CONFORM_NUMBER(slip_stream_capture_end(platform, a, &graph), 904, 107025);
  SLIP_CHECK(graph == NULL);
  SLIP_CHECK_EQ(atomic_load(&kept.runs), 2);
  // Outside of a capture there is nothing to hand things to.
  slip_status_t outside = slip__platform_capture_retain(platform, a, conform_overlap_leave, &kept);
  SLIP_CHECK(!slip_status_is_ok(outside));
  slip_status_free(outside);
  SLIP_CHECK_EQ(atomic_load(&kept.runs), 2);
  SLIP_CHECK_OK(slip_stream_destroy(platform, a));
  SLIP_CHECK_OK(slip_stream_destroy(platform, b));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
}

SLIP_TEST(capture_stale_graphs_are_refused) {
  slip_platform_t *platform = conform_capturing();
  slip_stream_t stream = conform_stream(platform);
  CONFORM_OK(slip_stream_capture_begin(platform, stream, SLIP_CAPTURE_MODE_GLOBAL));
  slip_graph_exec_t graph = conform_end_capture(platform, stream);
  SLIP_CHECK_OK(slip_graph_exec_launch(platform, graph, stream));  // nothing in it, which is fine
  SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
  SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
  SLIP_CHECK_CODE(slip_graph_exec_launch(platform, graph, stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_graph_exec_destroy(platform, graph), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_capture_begin(platform, stream, 3), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

// --- captures of several threads at once, each of its own stream

typedef struct conform_capturer_t {
  slip_platform_t *platform;
  slip_stream_t stream, side;
  slip_event_t event;
  uint64_t runs;
} conform_capturer_t;

static void conform_capture_often(void *user) {
  conform_capturer_t *one = user;
  slip_platform_t *platform = one->platform;
  for (uint64_t i = 0; i < 30; ++i) {
    SLIP_CHECK_OK(slip_stream_capture_begin(platform, one->stream, SLIP_CAPTURE_MODE_RELAXED));
    SLIP_CHECK_OK(slip_event_record(platform, one->event, one->stream));
    SLIP_CHECK_OK(slip_stream_wait_event(platform, one->side, one->event));
    SLIP_CHECK_OK(slip_stream_enqueue_host(platform, one->side, conform_count, &one->runs));
    SLIP_CHECK_OK(slip_event_record(platform, one->event, one->side));
    SLIP_CHECK_OK(slip_stream_wait_event(platform, one->stream, one->event));
    slip_graph_exec_t graph = conform_end_capture(platform, one->stream);
    SLIP_CHECK_OK(slip_graph_exec_launch(platform, graph, one->stream));
    SLIP_CHECK_OK(slip_graph_exec_launch(platform, graph, one->side));
    SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
    SLIP_CHECK_OK(slip_stream_synchronize(platform, one->stream));
    SLIP_CHECK_OK(slip_stream_synchronize(platform, one->side));
    SLIP_CHECK_EQ(one->runs, 2 * (i + 1));
  }
}

SLIP_TEST(capture_of_several_threads_at_once) {
  slip_platform_t *platform = conform_capturing();
  static conform_capturer_t capturers[3];
  slip__thread_t threads[3];
  for (int i = 0; i < 3; ++i) {
    capturers[i] = (conform_capturer_t){platform, conform_stream(platform), conform_stream(platform), conform_event(platform), 0};
  }
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip__thread_start(&threads[i], "capturer", conform_capture_often, &capturers[i]));
  for (int i = 0; i < 3; ++i) slip__thread_join(&threads[i]);
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_OK(slip_stream_destroy(platform, capturers[i].stream));
    SLIP_CHECK_OK(slip_stream_destroy(platform, capturers[i].side));
    SLIP_CHECK_OK(slip_event_destroy(platform, capturers[i].event));
  }
}
