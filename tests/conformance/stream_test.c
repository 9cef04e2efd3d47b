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
