// SPDX-License-Identifier: Apache-2.0
// Asynchronous streams and the inline stream.
#include "conformance.h"

typedef struct conform_step_t {
  uint64_t *at;  // order of the stream protects it
  uint64_t number;
  bool ok;
} conform_step_t;

static void conform_step(void *user) {
  conform_step_t *step = user;
  step->ok = (*step->at)++ == step->number;
}

SLIP_TEST(stream_is_first_in_first_out) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  static conform_step_t steps[5000];  // more than any ring holds
  uint64_t at = 0;
  for (uint64_t i = 0; i < 5000; ++i) {
    steps[i] = (conform_step_t){&at, i, false};
    CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_step, &steps[i]));
  }
  SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
  SLIP_CHECK_EQ(at, 5000);
  for (uint64_t i = 0; i < 5000; ++i) SLIP_CHECK(steps[i].ok);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

SLIP_TEST(stream_is_asynchronous_and_answers_queries) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  conform_gate_t gate = {0};
  SLIP_CHECK_OK(slip_stream_query(platform, stream));
  CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_gate_pass, &gate));
  for (int i = 0; i < 100; ++i) SLIP_CHECK_CODE(slip_stream_query(platform, stream), SLIP_CODE_NOT_READY);
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
  SLIP_CHECK_OK(slip_stream_query(platform, stream));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

SLIP_TEST(stream_destroy_waits_for_its_work) {
  slip_platform_t *platform = conform_platform();
  uint64_t runs = 0;
  for (int i = 0; i < 50; ++i) {
    slip_stream_t stream = conform_stream(platform);
    for (int k = 0; k < 20; ++k) CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_count, &runs));
    SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
    SLIP_CHECK_EQ(runs, 20 * (i + 1));
  }
}

SLIP_TEST(stream_tells_device_and_capture_state) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  int32_t device = -1;
  slip_capture_info_t info = {9, 9, 9};
  SLIP_CHECK_OK(slip__platform_stream_device(platform, stream, &device));
  SLIP_CHECK_EQ(device, 0);
  SLIP_CHECK_OK(slip_stream_capture_info(platform, stream, &info));
  SLIP_CHECK_EQ(info.state, SLIP_CAPTURE_NONE);
  SLIP_CHECK_EQ(info.id, 0);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

SLIP_TEST(stream_null_is_refused) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);  // unsupported without streams
  uint64_t runs = 0;
  SLIP_CHECK_CODE(slip_stream_enqueue_host(platform, NULL, conform_count, &runs), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_synchronize(platform, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_query(platform, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_destroy(platform, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_EQ(runs, 0);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

SLIP_TEST(stream_many_at_once_are_independent) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t streams[16];
  uint64_t runs[16] = {0};
  conform_gate_t gate = {0};
  for (int i = 0; i < 16; ++i) streams[i] = conform_stream(platform);
  CONFORM_OK(slip_stream_enqueue_host(platform, streams[0], conform_gate_pass, &gate));
  for (int k = 0; k < 100; ++k) {
    for (int i = 0; i < 16; ++i) CONFORM_OK(slip_stream_enqueue_host(platform, streams[i], conform_count, &runs[i]));
  }
  for (int i = 1; i < 16; ++i) SLIP_CHECK_OK(slip_stream_synchronize(platform, streams[i]));
  for (int i = 1; i < 16; ++i) SLIP_CHECK_EQ(runs[i], 100);
  SLIP_CHECK_CODE(slip_stream_query(platform, streams[0]), SLIP_CODE_NOT_READY);
  conform_gate_open(&gate);
  for (int i = 0; i < 16; ++i) SLIP_CHECK_OK(slip_stream_destroy(platform, streams[i]));
  SLIP_CHECK_EQ(runs[0], 100);
}

SLIP_TEST(inline_stream_runs_on_the_caller) {
  slip_platform_t *platform = conform_platform();
  conform_need(platform, SLIP_PLATFORM_CAN_INLINE, "an inline stream");
  uint64_t runs = 0;
  int32_t device = -1;
  for (uint64_t i = 1; i <= 10; ++i) {
    SLIP_CHECK_OK(slip_stream_enqueue_host(platform, SLIP_STREAM_INLINE, conform_count, &runs));
    SLIP_CHECK_EQ(runs, i);
  }
  SLIP_CHECK_OK(slip_stream_query(platform, SLIP_STREAM_INLINE));
  SLIP_CHECK_OK(slip_stream_synchronize(platform, SLIP_STREAM_INLINE));
  SLIP_CHECK_OK(slip__platform_stream_device(platform, SLIP_STREAM_INLINE, &device));
  SLIP_CHECK_EQ(device, 0);
  SLIP_CHECK_CODE(slip_stream_destroy(platform, SLIP_STREAM_INLINE), SLIP_CODE_INVALID_ARGUMENT);
}

SLIP_TEST(stream_stale_handles_are_refused) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  uint64_t *value = conform_pinned(platform, sizeof(*value));
  void *memory = conform_memory(platform, sizeof(*value));
  slip_capture_info_t info;
  int32_t device = 0;
  uint64_t runs = 0;
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  for (int round = 0; round < 2; ++round) {
    SLIP_CHECK_CODE(slip_stream_query(platform, stream), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_stream_synchronize(platform, stream), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_stream_destroy(platform, stream), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_stream_enqueue_host(platform, stream, conform_count, &runs), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_stream_wait_event(platform, stream, event), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_event_record(platform, event, stream), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_memory_copy_async(platform, stream, memory, value, sizeof(*value), SLIP_COPY_HOST_TO_DEVICE),
                    SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_stream_capture_info(platform, stream, &info), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip__platform_stream_device(platform, stream, &device), SLIP_CODE_INVALID_ARGUMENT);
    // A new stream in the old one's place does not bring the handle back.
    slip_stream_t next = conform_stream(platform);
    SLIP_CHECK(next != stream);
    SLIP_CHECK_OK(slip_stream_destroy(platform, next));
  }
  SLIP_CHECK_EQ(runs, 0);
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, memory));
  SLIP_CHECK_OK(slip_host_free(platform, value));
}

SLIP_TEST(stream_handles_of_another_kind_are_refused) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  SLIP_CHECK_CODE(slip_stream_query(platform, event), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_destroy(platform, event), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_event_query(platform, stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_event_destroy(platform, stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_query(platform, (slip_stream_t)(uintptr_t)0x5550), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_query(platform, &stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
}

SLIP_TEST(stream_synchronize_waits_for_what_came_before_it) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  uint64_t runs = 0;
  for (uint64_t round = 1; round <= 100; ++round) {
    for (int i = 0; i < 5; ++i) CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_count, &runs));
    SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
    SLIP_CHECK_EQ(runs, 5 * round);
    SLIP_CHECK_OK(slip_stream_query(platform, stream));
  }
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

// --- several threads on one stream

#define CONFORM_THREADS    4
#define CONFORM_PER_THREAD 500

typedef struct conform_feeder_t {
  slip_platform_t *platform;
  slip_stream_t stream;
  uint64_t at;  // what ran last of this thread's, kept by the stream's order
  conform_step_t steps[CONFORM_PER_THREAD];
  uint64_t synchronized;
} conform_feeder_t;

static void conform_feed(void *user) {
  conform_feeder_t *feeder = user;
  for (uint64_t i = 0; i < CONFORM_PER_THREAD; ++i) {
    feeder->steps[i] = (conform_step_t){&feeder->at, i, false};
    SLIP_CHECK_OK(slip_stream_enqueue_host(feeder->platform, feeder->stream, conform_step, &feeder->steps[i]));
    if (i % 100 != 99) continue;
    SLIP_CHECK_OK(slip_stream_synchronize(feeder->platform, feeder->stream));
    feeder->synchronized += feeder->at == i + 1;
  }
}

SLIP_TEST(stream_takes_work_from_many_threads) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  static conform_feeder_t feeders[CONFORM_THREADS];
  slip__thread_t threads[CONFORM_THREADS];
  for (int i = 0; i < CONFORM_THREADS; ++i) {
    feeders[i].platform = platform;
    feeders[i].stream = stream;
    SLIP_CHECK_OK(slip__thread_start(&threads[i], "feeder", conform_feed, &feeders[i]));
  }
  for (int i = 0; i < CONFORM_THREADS; ++i) slip__thread_join(&threads[i]);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  for (int i = 0; i < CONFORM_THREADS; ++i) {
    SLIP_CHECK_EQ(feeders[i].at, CONFORM_PER_THREAD);
    SLIP_CHECK_EQ(feeders[i].synchronized, CONFORM_PER_THREAD / 100);
    for (int k = 0; k < CONFORM_PER_THREAD; ++k) SLIP_CHECK(feeders[i].steps[k].ok);
  }
}

static void conform_churn(void *user) {
  slip_platform_t *platform = user;
  uint64_t runs = 0;
  for (uint64_t i = 1; i <= 50; ++i) {
    slip_stream_t stream = conform_stream(platform);
    SLIP_CHECK_OK(slip_stream_enqueue_host(platform, stream, conform_count, &runs));
    SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
    SLIP_CHECK_EQ(runs, i);
  }
}

SLIP_TEST(stream_is_made_and_destroyed_by_many_threads) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t probe = conform_stream(platform);  // unsupported without streams
  slip__thread_t threads[CONFORM_THREADS];
  for (int i = 0; i < CONFORM_THREADS; ++i) SLIP_CHECK_OK(slip__thread_start(&threads[i], "churn", conform_churn, platform));
  for (int i = 0; i < CONFORM_THREADS; ++i) slip__thread_join(&threads[i]);
  SLIP_CHECK_OK(slip_stream_destroy(platform, probe));
}

// --- device work

SLIP_TEST(stream_device_work_keeps_the_order) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  conform_need(platform, SLIP_PLATFORM_CAN_HOST_NATIVE, "to run host-native code");
  static conform_step_t steps[400];
  uint64_t at = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    steps[i] = (conform_step_t){&at, i, false};
    if (i % 2) {
      CONFORM_OK(slip__platform_stream_launch(platform, stream, conform_step, &steps[i]));
    } else {
      CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_step, &steps[i]));
    }
  }
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  for (uint64_t i = 0; i < 400; ++i) SLIP_CHECK(steps[i].ok);
}
