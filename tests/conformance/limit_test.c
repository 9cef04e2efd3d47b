// SPDX-License-Identifier: Apache-2.0
// Bounded resources: used up, refused as OUT_OF_MEMORY, and all there again after they were given back. Limits can only be set where the
// platform is simulated.
#include "conformance.h"

SLIP_TEST(limit_of_streams) {
  slip_sim_options_t limits = SLIP_SIM_OPTIONS_INIT;
  limits.max_streams = 24;
  slip_platform_t *platform = conform_limited(&limits);
  slip_stream_t streams[24], more = NULL;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 24; ++i) streams[i] = conform_stream(platform);
    CONFORM_NUMBER(slip_stream_create(platform, 0, &more), 701, 207005);
    SLIP_CHECK_CODE(slip_stream_create(platform, 0, &more), SLIP_CODE_OUT_OF_MEMORY);
    SLIP_CHECK(more == NULL);
    // One given back is one more to be had.
    SLIP_CHECK_OK(slip_stream_destroy(platform, streams[7]));
    streams[7] = conform_stream(platform);
    SLIP_CHECK_CODE(slip_stream_create(platform, 0, &more), SLIP_CODE_OUT_OF_MEMORY);
    for (int i = 0; i < 24; ++i) SLIP_CHECK_OK(slip_stream_destroy(platform, streams[i]));
  }
}

SLIP_TEST(limit_of_events) {
  slip_sim_options_t limits = SLIP_SIM_OPTIONS_INIT;
  limits.max_events = 40;
  slip_platform_t *platform = conform_limited(&limits);
  slip_event_t events[40], more = NULL;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 40; ++i) events[i] = conform_event(platform);
    SLIP_CHECK_CODE(slip_event_create(platform, 0, &more), SLIP_CODE_OUT_OF_MEMORY);
    SLIP_CHECK(more == NULL);
    SLIP_CHECK_OK(slip_event_destroy(platform, events[round]));
    events[round] = conform_event(platform);
    for (int i = 0; i < 40; ++i) SLIP_CHECK_OK(slip_event_destroy(platform, events[i]));
  }
}

SLIP_TEST(limit_of_memory) {
  slip_sim_options_t limits = SLIP_SIM_OPTIONS_INIT;
  limits.memory_bytes = 1u << 20;
  slip_platform_t *platform = conform_limited(&limits);
  void *blocks[256], *more = NULL;
  for (int round = 0; round < 3; ++round) {
    int count = 0;
    SLIP_CHECK_CODE(slip_memory_allocate(platform, 0, (1u << 20) + 1, &more), SLIP_CODE_OUT_OF_MEMORY);
    for (;; ++count) {
      slip_status_t status = slip_memory_allocate(platform, 0, 60000, &blocks[count]);
      if (slip_status_is_ok(status)) continue;
      CONFORM_NUMBER(status, 2, 207001);
      break;
    }
    SLIP_CHECK(count >= 8 && count <= 17);
    SLIP_CHECK_CODE(slip_memory_allocate(platform, 0, 60000, &more), SLIP_CODE_OUT_OF_MEMORY);
    SLIP_CHECK(more == NULL);
    SLIP_CHECK_OK(slip_memory_free(platform, 0, blocks[count / 2]));
    blocks[count / 2] = conform_memory(platform, 60000);
    for (int i = 0; i < count; ++i) SLIP_CHECK_OK(slip_memory_free(platform, 0, blocks[i]));
  }
  // Fragments have grown together again.
  void *large = conform_memory(platform, 900000);
  SLIP_CHECK_OK(slip_memory_free(platform, 0, large));
}

// What is used up on one device is there on the other.
SLIP_TEST(limit_is_a_devices_own) {
  slip_sim_options_t limits = SLIP_SIM_OPTIONS_INIT;
  limits.max_streams = 2;
  limits.memory_bytes = 1u << 20;
  slip_platform_t *platform = conform_limited(&limits);
  conform_need_devices(platform, 2);
  slip_stream_t a = conform_stream(platform), b = conform_stream(platform), c = NULL;
  void *near = conform_memory(platform, 900000), *far = NULL;
  SLIP_CHECK_CODE(slip_stream_create(platform, 0, &c), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK_OK(slip__platform_device_push(platform, 1));
  SLIP_CHECK_OK(slip_stream_create(platform, 1, &c));
  SLIP_CHECK_OK(slip_memory_allocate(platform, 1, 900000, &far));
  SLIP_CHECK_OK(slip_memory_free(platform, 1, far));
  SLIP_CHECK_OK(slip_stream_destroy(platform, c));
  SLIP_CHECK_OK(slip__platform_device_pop(platform, 1));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, near));
  SLIP_CHECK_OK(slip_stream_destroy(platform, a));
  SLIP_CHECK_OK(slip_stream_destroy(platform, b));
}
