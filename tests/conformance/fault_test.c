// SPDX-License-Identifier: Apache-2.0
// Every call of a working program made to fail, each in turn: the failure comes back as such, and the same program works afterwards.
#include "conformance.h"

// Frees what is there, trying twice: a failed release keeps the object and may be repeated.
static slip_status_t conform_give_back(slip_platform_t *platform, slip_stream_t stream, slip_event_t event, void *memory) {
  slip_status_t status = slip_ok_status();
  for (int attempt = 0; attempt < 2; ++attempt) {
    slip_status_t step = stream ? slip_stream_destroy(platform, stream) : slip_ok_status();
    if (slip_status_is_ok(step)) stream = NULL;
    status = slip_status_join(status, step);
    step = event ? slip_event_destroy(platform, event) : slip_ok_status();
    if (slip_status_is_ok(step)) event = NULL;
    status = slip_status_join(status, step);
    step = memory ? slip_memory_free(platform, 0, memory) : slip_ok_status();
    if (slip_status_is_ok(step)) memory = NULL;
    status = slip_status_join(status, step);
  }
  SLIP_CHECK(!stream && !event && !memory);
  return status;
}

// Uses every stream, event and memory call at least once.
static slip_status_t conform_program(slip_platform_t *platform) {
  slip_stream_t stream = NULL;
  slip_event_t event = NULL;
  void *memory = NULL;
  uint64_t value = 41, back = 0, runs = 0;
  slip_pointer_info_t pointer;
  slip_capture_info_t capture;
  int32_t device = 0;
  slip_status_t status = slip_stream_create(platform, 0, &stream);
  if (slip_status_is_ok(status)) status = slip_event_create(platform, 0, &event);
  if (slip_status_is_ok(status)) status = slip_memory_allocate(platform, 0, sizeof(value), &memory);
  if (slip_status_is_ok(status)) status = slip__platform_pointer_info(platform, memory, &pointer);
  if (slip_status_is_ok(status)) status = slip__platform_memory_fill(platform, 0, memory, 0, sizeof(value));
  if (slip_status_is_ok(status)) status = slip__platform_stream_device(platform, stream, &device);
  if (slip_status_is_ok(status)) status = slip_stream_capture_info(platform, stream, &capture);
  if (slip_status_is_ok(status)) status = slip_memory_copy_async(platform, stream, memory, &value, sizeof(value), SLIP_COPY_HOST_TO_DEVICE);
  if (slip_status_is_ok(status)) status = slip_stream_enqueue_host(platform, stream, conform_count, &runs);
  if (slip_status_is_ok(status)) status = slip_event_record(platform, event, stream);
  if (slip_status_is_ok(status)) status = slip_stream_wait_event(platform, stream, event);
  if (slip_status_is_ok(status)) status = slip_event_synchronize(platform, event);
  if (slip_status_is_ok(status)) status = slip_event_query(platform, event);
  if (slip_status_is_ok(status)) status = slip_stream_synchronize(platform, stream);
  if (slip_status_is_ok(status)) status = slip_stream_query(platform, stream);
  if (slip_status_is_ok(status)) status = slip_memory_copy(platform, 0, &back, memory, sizeof(back), SLIP_COPY_DEVICE_TO_HOST);
  if (slip_status_is_ok(status)) SLIP_CHECK(back == 41 && runs == 1);
  return slip_status_join(status, conform_give_back(platform, stream, event, memory));
}

SLIP_TEST(fault_of_every_call_comes_back_and_leaves_nothing) {
  slip_platform_t *platform = conform_platform();
  uint64_t counts[SLIP__PLATFORM_CALL_COUNT], kinds = 0;
  slip__platform_counters_reset();
  CONFORM_OK(conform_program(platform));
  for (int call = 0; call < SLIP__PLATFORM_CALL_COUNT; ++call) counts[call] = slip__platform_counter((slip__platform_call_e)call);
  for (int call = 0; call < SLIP__PLATFORM_CALL_COUNT; ++call) {
    kinds += counts[call] > 0;
    // Where giving back fails for ever, nothing can be given back: these fail once only.
    bool releases =
        call == SLIP__PLATFORM_CALL_STREAM_DESTROY || call == SLIP__PLATFORM_CALL_EVENT_DESTROY || call == SLIP__PLATFORM_CALL_MEMORY_FREE;
    for (uint64_t turn = 0; turn < counts[call] * (releases ? 1 : 2); ++turn) {
      uint64_t nth = 1 + turn % counts[call];
      slip__platform_fault_set((slip__platform_call_e)call, nth, turn >= counts[call]);
      slip_status_t status = conform_program(platform);
      if (slip_status_platform_code(status) != SLIP__PLATFORM_INJECTED) {
        slip_test_fail(__FILE__, __LINE__, "%s number %llu was made to fail, but the program gave code %d",
                       slip__platform_call_name((slip__platform_call_e)call), (unsigned long long)nth, slip_status_code(status));
      }
      slip_status_free(status);
      slip__platform_fault_clear();
      SLIP_CHECK_OK(conform_program(platform));
    }
  }
  SLIP_CHECK_EQ(kinds, 19);  // 8 of streams, 5 of events, 6 of memory
}
