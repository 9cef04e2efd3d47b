// SPDX-License-Identifier: Apache-2.0
// Lanes whose steps, opening or closing fail.
#include <unistd.h>

#include "kernel_mode/lane_world_test.h"

// --- steps that fail ---------------------------------------------------------------------------------------------------------------------

typedef struct slip_lane_fault_t {
  slip__platform_call_e call;
  uint64_t nth;  // of this kind in one launch
  int step;      // 0: before the first
  bool poisons;
  bool abandoned;
} slip_lane_fault_t;

static const slip_lane_fault_t slip_lane_faults[] = {
    {SLIP__PLATFORM_CALL_STREAM_DEVICE, 1, 0, false, false},     {SLIP__PLATFORM_CALL_STREAM_CAPTURE_INFO, 1, 0, false, false},
    {SLIP__PLATFORM_CALL_EVENT_RECORD, 1, 1, false, false},      {SLIP__PLATFORM_CALL_STREAM_WAIT_EVENT, 1, 2, false, false},
    {SLIP__PLATFORM_CALL_MEMORY_COPY_ASYNC, 1, 3, true, false},  {SLIP__PLATFORM_CALL_EVENT_RECORD, 2, 4, true, true},
    {SLIP__PLATFORM_CALL_STREAM_WAIT_EVENT, 2, 5, true, true},   {SLIP__PLATFORM_CALL_STREAM_LAUNCH, 1, 6, true, true},
    {SLIP__PLATFORM_CALL_EVENT_RECORD, 3, 7, true, true},        {SLIP__PLATFORM_CALL_STREAM_WAIT_EVENT, 3, 8, true, true},
    {SLIP__PLATFORM_CALL_STREAM_ENQUEUE_HOST, 1, 9, true, true}, {SLIP__PLATFORM_CALL_EVENT_RECORD, 4, 10, true, false},
    {SLIP__PLATFORM_CALL_STREAM_WAIT_EVENT, 4, 11, true, false}, {SLIP__PLATFORM_CALL_EVENT_RECORD, 5, 12, true, false},
};

// One fault at |fault|; everything that can be promised afterwards is checked, close included.
static void slip_lane_test_fault(slip_lane_place_e place, const slip_lane_fault_t *fault, bool persistent) {
  enum { COUNT = 16 };
  slip_lane_world_t world;
  uint32_t released = 0;
  char step[32];
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  slip_lane_world_open(&world, place, false, NULL);
  float *x = slip_lane_vector(&world, COUNT, 0, 1), *y = slip_lane_vector(&world, COUNT, 3, 0), *z = slip_lane_vector(&world, COUNT, 9, 0);
  slip_lane_frame(&world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(&world, &frame, world.stream, &released);
  (void)snprintf(step, sizeof(step), fault->step ? "(step %d of 12:" : "enqueuing", fault->step);
  slip__platform_fault_set(fault->call, fault->nth, persistent);
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_DEVICE, step);
  slip__platform_fault_clear();
  SLIP_CHECK(ticket == NULL);
  if (fault->step <= 3) SLIP_CHECK_EQ(released, 1);
  SLIP_CHECK_EQ(slip_lane_stats(&world).launches, fault->step > 3);
  SLIP_CHECK_EQ(atomic_load(&world.context->abandoned_count), fault->abandoned);
  if (fault->poisons) {
    SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_POISONED, step);
    SLIP_CHECK_ERROR(slip_context_drain(world.context), SLIP_CODE_POISONED, step);
  } else {
    SLIP_CHECK_OK(slip_launch(&record, &ticket));
    SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
    slip_ticket_release(ticket);
  }
  // The caller's stream goes on, in order: whatever ran has run before the copy.
  slip_lane_expect(&world, world.stream, z, COUNT, fault->poisons && fault->step <= 6 ? 9 : 3, fault->poisons && fault->step <= 6 ? 0 : 1);
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_OK(slip_context_close(world.context));
  SLIP_CHECK_EQ(released, 2);  // each of the two records once
  slip_lane_free(&world, x);
  slip_lane_free(&world, y);
  slip_lane_free(&world, z);
  slip_lane_world_check(&world);
}

static void slip_lane_test_all_faults(slip_lane_place_e place, bool persistent) {
  for (size_t i = 0; i < sizeof(slip_lane_faults) / sizeof(slip_lane_faults[0]); ++i) {
    // A joining that fails too leaves the caller's stream unordered, which is another test's.
    bool joins =
        slip_lane_faults[i].call != SLIP__PLATFORM_CALL_EVENT_RECORD && slip_lane_faults[i].call != SLIP__PLATFORM_CALL_STREAM_WAIT_EVENT;
    if (!persistent || joins || slip_lane_faults[i].step <= 2) slip_lane_test_fault(place, &slip_lane_faults[i], persistent);
  }
}

SLIP_TEST(lane_each_step_may_fail_once_cpu) {
  slip_lane_test_all_faults(SLIP_LANE_CPU, false);
}
SLIP_TEST(lane_each_step_may_fail_for_good_cpu) {
  slip_lane_test_all_faults(SLIP_LANE_CPU, true);
}
SLIP_TEST(lane_each_step_may_fail_once_cuda) {
  slip_lane_test_all_faults(SLIP_LANE_CUDA, false);
}
SLIP_TEST(lane_each_step_may_fail_for_good_cuda) {
  slip_lane_test_all_faults(SLIP_LANE_CUDA, true);
}
SLIP_TEST(lane_each_step_may_fail_once_ascend) {
  slip_lane_test_all_faults(SLIP_LANE_ASCEND, false);
}

SLIP_LANE_TEST(a_join_that_fails_is_told) {
  enum { COUNT = 16 };
  uint32_t released = 0;
  slip_frame_t frame;
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 9, 0);
  slip_lane_frame(world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, world->stream, &released);
  slip__platform_fault_set(SLIP__PLATFORM_CALL_EVENT_RECORD, 3, true);
  SLIP_CHECK_ERROR(slip_launch(&record, NULL), SLIP_CODE_DEVICE, "could not be joined");
  slip__platform_fault_clear();
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_EQ(released, 0);
  SLIP_CHECK_OK(slip_context_close(world->context));  // which waits for what was enqueued
  SLIP_CHECK_EQ(released, 1);
  slip_lane_expect(world, world->stream, z, COUNT, 3, 1);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}

// A drain that began before a launch was abandoned must not wait for it.
static void slip_lane_drain(void *user) {
  const slip_lane_world_t *world = user;
  SLIP_CHECK_OK(slip_context_drain(world->context));
}

SLIP_LANE_TEST(drain_does_not_wait_for_the_abandoned) {
  enum { COUNT = 16 };
  slip_lane_door_t door = {0};
  slip_frame_t frame;
  slip__thread_t drainer = {0};
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 9, 0);
  slip_lane_frame(world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, world->stream, NULL);
  slip_lane_hold(world, world->stream, &door);
  SLIP_CHECK_OK(slip_launch(&record, NULL));
  SLIP_CHECK_OK(slip__thread_start(&drainer, "drainer", slip_lane_drain, world));
  while (atomic_load(&world->context->signal.waiters) == 0) usleep(100);  // nobody else waits
  slip__platform_fault_set(SLIP__PLATFORM_CALL_STREAM_ENQUEUE_HOST, 1, false);
  SLIP_CHECK_CODE(slip_launch(&record, NULL), SLIP_CODE_DEVICE);
  slip_lane_let_go(&door);
  slip__thread_join(&drainer);
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_EQ(atomic_load(&world->context->abandoned_count), 1);
  slip_lane_expect(world, world->stream, z, COUNT, 3, 1);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}

// --- close -------------------------------------------------------------------------------------------------------------------------------

static void slip_lane_test_close_retries(slip_lane_place_e place) {
  static const slip__platform_call_e calls[] = {SLIP__PLATFORM_CALL_EVENT_SYNCHRONIZE, SLIP__PLATFORM_CALL_EVENT_DESTROY,
                                                SLIP__PLATFORM_CALL_STREAM_DESTROY,    SLIP__PLATFORM_CALL_HOST_FREE,
                                                SLIP__PLATFORM_CALL_MEMORY_FREE,       SLIP__PLATFORM_CALL_MODULE_UNLOAD};
  uint32_t faults = 0;
  for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); ++c) {
    for (uint64_t nth = 1; nth < 100; ++nth) {
      slip_lane_world_t world;
      slip_lane_world_open(&world, place, false, NULL);
      float *x = slip_lane_vector(&world, 8, 0, 1), *z = slip_lane_vector(&world, 8, 0, 0);
      slip_lane_launch_add(&world, world.stream, x, x, z, 8, NULL);
      slip_lane_expect(&world, world.stream, z, 8, 0, 2);
      slip_lane_free(&world, x);
      slip_lane_free(&world, z);
      slip__platform_fault_set(calls[c], nth, false);
      slip_status_t status = slip_context_close(world.context);
      bool failed = !slip_status_is_ok(status);
      slip__platform_fault_clear();
      if (failed) {
        ++faults;
        SLIP_CHECK_EQ(slip_context_state(world.context), SLIP_CONTEXT_CLOSING);
        SLIP_CHECK_CODE(status, SLIP_CODE_DEVICE);
        SLIP_CHECK_OK(slip_context_close(world.context));
      }
      slip_lane_world_check(&world);
      if (!failed) break;
    }
  }
  SLIP_CHECK(faults >= 20);
}
SLIP_TEST(lane_close_may_fail_anywhere_and_be_repeated_cpu) {
  slip_lane_test_close_retries(SLIP_LANE_CPU);
}
SLIP_TEST(lane_close_may_fail_anywhere_and_be_repeated_cuda) {
  slip_lane_test_close_retries(SLIP_LANE_CUDA);
}

static void slip_lane_test_open_faults(slip_lane_place_e place) {
  static const slip__platform_call_e calls[] = {SLIP__PLATFORM_CALL_STREAM_CREATE, SLIP__PLATFORM_CALL_EVENT_CREATE,
                                                SLIP__PLATFORM_CALL_HOST_ALLOCATE, SLIP__PLATFORM_CALL_MEMORY_ALLOCATE};
  uint32_t faults = 0;
  slip_lane_world_t world;
  slip_lane_world_open(&world, place, false, NULL);
  slip_context_options_t options = world.context->options;
  SLIP_CHECK_OK(slip_context_close(world.context));
  slip_lane_world_check(&world);
  for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); ++c) {
    for (uint64_t nth = 1; nth < 100; ++nth) {
      slip_context_t *context = NULL;
      slip_fixture_t fixture = slip_fixture_add();
      slip_bytes_t image = slip_fixture_pack(&fixture);
      int32_t id = -1;
      slip__platform_fault_set(calls[c], nth, false);
      options.platform = place == SLIP_LANE_CPU ? "cpu" : "sim";
      slip_status_t status = slip_context_open(&options, &context);
      if (slip_status_is_ok(status)) status = slip_context_prepare(context, slip_fixture_bytes(image), &id);
      slip__platform_fault_clear();
      bool failed = !slip_status_is_ok(status);
      faults += failed;
      slip_status_free(status);
      SLIP_CHECK_EQ(id, failed ? -1 : 0);
      if (context && failed) SLIP_CHECK_OK(slip_context_prepare(context, slip_fixture_bytes(image), &id));
      slip_fixture_free(image);
      if (context) {
        SLIP_CHECK_OK(slip_context_close(context));
        SLIP_CHECK_OK(slip_context_destroy(context));
      }
      if (!failed) break;
    }
  }
  SLIP_CHECK(faults >= 12);
  if (place == SLIP_LANE_CPU) return;
  slip_fixture_sim_check_empty();
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
}
SLIP_TEST(lane_open_and_prepare_may_fail_anywhere_cpu) {
  slip_lane_test_open_faults(SLIP_LANE_CPU);
}
SLIP_TEST(lane_open_and_prepare_may_fail_anywhere_cuda) {
  slip_lane_test_open_faults(SLIP_LANE_CUDA);
}
