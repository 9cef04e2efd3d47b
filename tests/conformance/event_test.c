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

SLIP_TEST(event_stale_handles_are_refused) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  SLIP_CHECK_OK(slip_event_record(platform, event, stream));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
  slip_event_t next = conform_event(platform);
  SLIP_CHECK(next != event);
  SLIP_CHECK_CODE(slip_event_query(platform, event), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_event_synchronize(platform, event), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_event_record(platform, event, stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_wait_event(platform, stream, event), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_event_destroy(platform, event), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_event_destroy(platform, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_event_destroy(platform, next));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

SLIP_TEST(event_destroyed_with_waits_pending) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t a = conform_stream(platform), waiters[3];
  slip_event_t event = conform_event(platform);
  conform_gate_t gate = {0};
  uint64_t runs[3] = {0};
  CONFORM_OK(slip_stream_enqueue_host(platform, a, conform_gate_pass, &gate));
  SLIP_CHECK_OK(slip_event_record(platform, event, a));
  for (int i = 0; i < 3; ++i) {
    waiters[i] = conform_stream(platform);
    SLIP_CHECK_OK(slip_stream_wait_event(platform, waiters[i], event));
    CONFORM_OK(slip_stream_enqueue_host(platform, waiters[i], conform_count, &runs[i]));
  }
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
  for (int i = 0; i < 3; ++i) SLIP_CHECK_CODE(slip_stream_query(platform, waiters[i]), SLIP_CODE_NOT_READY);
  conform_gate_open(&gate);
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_OK(slip_stream_destroy(platform, waiters[i]));
    SLIP_CHECK_EQ(runs[i], 1);
  }
  SLIP_CHECK_OK(slip_stream_destroy(platform, a));
}

SLIP_TEST(event_wait_on_the_same_stream_is_no_deadlock) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  uint64_t runs = 0;
  for (int i = 0; i < 100; ++i) {
    CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_count, &runs));
    SLIP_CHECK_OK(slip_event_record(platform, event, stream));
    SLIP_CHECK_OK(slip_stream_wait_event(platform, stream, event));
  }
  SLIP_CHECK_OK(slip_event_synchronize(platform, event));
  SLIP_CHECK_EQ(runs, 100);
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

// --- several threads, each waiting for its own stream's work through an event

#define CONFORM_RELAY_ROUNDS 200

typedef struct conform_relay_t {
  slip_platform_t *platform;
  slip_stream_t mine;
  slip_event_t event;
  uint64_t runs;
} conform_relay_t;

static void conform_relay(void *user) {
  conform_relay_t *relay = user;
  for (uint64_t i = 0; i < CONFORM_RELAY_ROUNDS; ++i) {
    SLIP_CHECK_OK(slip_stream_enqueue_host(relay->platform, relay->mine, conform_count, &relay->runs));
    SLIP_CHECK_OK(slip_event_record(relay->platform, relay->event, relay->mine));
    SLIP_CHECK_OK(slip_event_synchronize(relay->platform, relay->event));
    SLIP_CHECK_EQ(relay->runs, i + 1);
  }
}

SLIP_TEST(event_is_waited_for_by_many_threads) {
  slip_platform_t *platform = conform_platform();
  static conform_relay_t relays[4];
  slip__thread_t threads[4];
  for (int i = 0; i < 4; ++i) {
    relays[i] = (conform_relay_t){.platform = platform, .mine = conform_stream(platform), .event = conform_event(platform)};
  }
  for (int i = 0; i < 4; ++i) SLIP_CHECK_OK(slip__thread_start(&threads[i], "relay", conform_relay, &relays[i]));
  for (int i = 0; i < 4; ++i) slip__thread_join(&threads[i]);
  for (int i = 0; i < 4; ++i) {
    SLIP_CHECK_OK(slip_stream_destroy(platform, relays[i].mine));
    SLIP_CHECK_OK(slip_event_destroy(platform, relays[i].event));
  }
}

// Many events at once, recorded in two streams that wait for each other: a chain through all of them.
SLIP_TEST(event_chain_through_many_events) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t streams[2] = {conform_stream(platform), conform_stream(platform)};
  enum { COUNT = 512 };
  static slip_event_t events[COUNT];
  uint64_t runs = 0;  // the chain protects it
  for (int i = 0; i < COUNT; ++i) {
    events[i] = conform_event(platform);
    CONFORM_OK(slip_stream_enqueue_host(platform, streams[i % 2], conform_count, &runs));
    SLIP_CHECK_OK(slip_event_record(platform, events[i], streams[i % 2]));
    SLIP_CHECK_OK(slip_stream_wait_event(platform, streams[(i + 1) % 2], events[i]));
  }
  for (int i = 0; i < 2; ++i) SLIP_CHECK_OK(slip_stream_destroy(platform, streams[i]));
  SLIP_CHECK_EQ(runs, COUNT);
  for (int i = 0; i < COUNT; ++i) SLIP_CHECK_OK(slip_event_destroy(platform, events[i]));
}
