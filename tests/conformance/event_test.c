// SPDX-License-Identifier: Apache-2.0
// Events: the last record counts, a wait binds when it is called, no record is no dependency.
#include "conformance.h"

SLIP_TEST(event_never_recorded_is_no_dependency) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  SLIP_CHECK_OK(slip_event_query(platform, event));
  SLIP_CHECK_OK(slip_event_synchronize(platform, event));
  SLIP_CHECK_OK(slip_stream_wait_event(platform, stream, event));
  SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

SLIP_TEST(event_marks_the_work_before_it) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  conform_gate_t first = {0}, second = {0};
  CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_gate_pass, &first));
  SLIP_CHECK_OK(slip_event_record(platform, event, stream));
  CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_gate_pass, &second));
  SLIP_CHECK_CODE(slip_event_query(platform, event), SLIP_CODE_NOT_READY);
  conform_gate_open(&first);
  SLIP_CHECK_OK(slip_event_synchronize(platform, event));
  SLIP_CHECK_OK(slip_event_query(platform, event));
  SLIP_CHECK_CODE(slip_stream_query(platform, stream), SLIP_CODE_NOT_READY);
  conform_gate_open(&second);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
}

SLIP_TEST(event_last_record_counts) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t slow = conform_stream(platform), fast = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  conform_gate_t gate = {0};
  CONFORM_OK(slip_stream_enqueue_host(platform, slow, conform_gate_pass, &gate));
  SLIP_CHECK_OK(slip_event_record(platform, event, slow));
  SLIP_CHECK_CODE(slip_event_query(platform, event), SLIP_CODE_NOT_READY);
  SLIP_CHECK_OK(slip_event_record(platform, event, fast));
  SLIP_CHECK_OK(slip_event_synchronize(platform, event));  // the record on |slow| no longer counts
  SLIP_CHECK_OK(slip_event_record(platform, event, slow));
  SLIP_CHECK_CODE(slip_event_query(platform, event), SLIP_CODE_NOT_READY);
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_event_synchronize(platform, event));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
  SLIP_CHECK_OK(slip_stream_destroy(platform, slow));
  SLIP_CHECK_OK(slip_stream_destroy(platform, fast));
}

SLIP_TEST(event_wait_binds_to_the_record_at_its_call) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t a = conform_stream(platform), b = conform_stream(platform), waiter = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  conform_gate_t first = {0}, later = {0};
  uint64_t runs = 0;
  CONFORM_OK(slip_stream_enqueue_host(platform, a, conform_gate_pass, &first));
  SLIP_CHECK_OK(slip_event_record(platform, event, a));
  SLIP_CHECK_OK(slip_stream_wait_event(platform, waiter, event));
  CONFORM_OK(slip_stream_enqueue_host(platform, waiter, conform_count, &runs));
  // Neither the new record nor the event's end change what the wait is bound to.
  CONFORM_OK(slip_stream_enqueue_host(platform, b, conform_gate_pass, &later));
  SLIP_CHECK_OK(slip_event_record(platform, event, b));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
  SLIP_CHECK_CODE(slip_stream_query(platform, waiter), SLIP_CODE_NOT_READY);
  conform_gate_open(&first);
  SLIP_CHECK_OK(slip_stream_synchronize(platform, waiter));
  SLIP_CHECK_EQ(runs, 1);
  SLIP_CHECK_CODE(slip_stream_query(platform, b), SLIP_CODE_NOT_READY);
  conform_gate_open(&later);
  SLIP_CHECK_OK(slip_stream_destroy(platform, a));
  SLIP_CHECK_OK(slip_stream_destroy(platform, b));
  SLIP_CHECK_OK(slip_stream_destroy(platform, waiter));
}

SLIP_TEST(event_outlives_the_stream_it_was_recorded_on) {
  slip_platform_t *platform = conform_platform();
  slip_event_t event = conform_event(platform);
  uint64_t runs = 0;
  slip_stream_t stream = conform_stream(platform);
  CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_count, &runs));
  SLIP_CHECK_OK(slip_event_record(platform, event, stream));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_event_query(platform, event));
  slip_stream_t next = conform_stream(platform);
  SLIP_CHECK_OK(slip_stream_wait_event(platform, next, event));
  SLIP_CHECK_OK(slip_stream_destroy(platform, next));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
}

typedef struct conform_opener_t {
  conform_gate_t *gate;
  _Atomic bool opened;
} conform_opener_t;

static void conform_open_later(void *user) {
  conform_opener_t *opener = user;
  struct timespec pause = {0, 20000000};
  (void)nanosleep(&pause, NULL);
  atomic_store(&opener->opened, true);
  conform_gate_open(opener->gate);
}

SLIP_TEST(event_and_the_inline_stream) {
  slip_platform_t *platform = conform_platform();
  conform_need(platform, SLIP_PLATFORM_CAN_INLINE, "an inline stream");
  slip_stream_t stream = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  conform_gate_t gate = {0};
  conform_opener_t opener = {&gate, false};
  slip__thread_t thread;
  SLIP_CHECK_OK(slip_event_record(platform, event, SLIP_STREAM_INLINE));
  SLIP_CHECK_OK(slip_event_query(platform, event));
  CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_gate_pass, &gate));
  SLIP_CHECK_OK(slip_event_record(platform, event, stream));
  SLIP_CHECK_OK(slip__thread_start(&thread, "opener", conform_open_later, &opener));
  SLIP_CHECK_OK(slip_stream_wait_event(platform, SLIP_STREAM_INLINE, event));
  SLIP_CHECK(atomic_load(&opener.opened));
  slip__thread_join(&thread);
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

// Random records and waits over a few streams against the order they demand: each step stores the steps that must have run before.
typedef struct conform_node_t {
  _Atomic bool done;
  struct conform_node_t *before[2];
  _Atomic bool *wrong;
} conform_node_t;

static void conform_node_run(void *user) {
  conform_node_t *node = user;
  for (int i = 0; i < 2; ++i) {
    if (node->before[i] && !atomic_load(&node->before[i]->done)) atomic_store(node->wrong, true);
  }
  atomic_store(&node->done, true);
}

SLIP_TEST(event_random_graphs_keep_their_order) {
  slip_platform_t *platform = conform_platform();
  uint64_t random = slip_test_seed();
  slip_stream_t streams[4];
  slip_event_t events[8];
  conform_node_t *recorded[8] = {NULL}, *last[4] = {NULL}, *waited[4] = {NULL};
  static conform_node_t nodes[4000];
  _Atomic bool wrong = false;
  for (int i = 0; i < 4; ++i) streams[i] = conform_stream(platform);
  for (int i = 0; i < 8; ++i) events[i] = conform_event(platform);
  for (size_t n = 0; n < 4000; ++n) {
    size_t s = slip_test_random(&random) % 4, e = slip_test_random(&random) % 8;
    if (slip_test_random(&random) % 2) {
      SLIP_CHECK_OK(slip_stream_wait_event(platform, streams[s], events[e]));
      waited[s] = recorded[e];
    }
    nodes[n] = (conform_node_t){.before = {last[s], waited[s]}, .wrong = &wrong};
    CONFORM_OK(slip_stream_enqueue_host(platform, streams[s], conform_node_run, &nodes[n]));
    last[s] = &nodes[n];
    if (slip_test_random(&random) % 2) {
      e = slip_test_random(&random) % 8;
      SLIP_CHECK_OK(slip_event_record(platform, events[e], streams[s]));
      recorded[e] = last[s];
    }
  }
  for (int i = 0; i < 4; ++i) SLIP_CHECK_OK(slip_stream_destroy(platform, streams[i]));
  for (int i = 0; i < 8; ++i) SLIP_CHECK_OK(slip_event_destroy(platform, events[i]));
  for (size_t n = 0; n < 4000; ++n) SLIP_CHECK(atomic_load(&nodes[n].done));
  SLIP_CHECK(!atomic_load(&wrong));
}
