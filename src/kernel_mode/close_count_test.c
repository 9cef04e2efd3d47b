// SPDX-License-Identifier: Apache-2.0
// A close that fails and is repeated (30.8): over all closes together every resource is given back by exactly one successful call, and the
// one that would not go was asked once more than it failed.
#include <stdatomic.h>

#include "kernel_mode/lane_world_test.h"
#include "slipstream/graph.h"

static const struct {
  slip__platform_call_e make, give;
} slip_count_kinds[] = {{SLIP__PLATFORM_CALL_STREAM_CREATE, SLIP__PLATFORM_CALL_STREAM_DESTROY},
                        {SLIP__PLATFORM_CALL_EVENT_CREATE, SLIP__PLATFORM_CALL_EVENT_DESTROY},
                        {SLIP__PLATFORM_CALL_MEMORY_ALLOCATE, SLIP__PLATFORM_CALL_MEMORY_FREE},
                        {SLIP__PLATFORM_CALL_HOST_ALLOCATE, SLIP__PLATFORM_CALL_HOST_FREE},
                        {SLIP__PLATFORM_CALL_MODULE_LOAD, SLIP__PLATFORM_CALL_MODULE_UNLOAD},
                        {SLIP__PLATFORM_CALL_DEVICE_PUSH, SLIP__PLATFORM_CALL_DEVICE_POP}};
enum { KINDS = sizeof(slip_count_kinds) / sizeof(slip_count_kinds[0]) };

static _Atomic uint64_t slip_count_good[SLIP__PLATFORM_CALL_COUNT];
static _Atomic uint64_t slip_count_bad[SLIP__PLATFORM_CALL_COUNT];

static void slip_count_log(void *user, const char *platform, slip__platform_call_e call, slip_code_t code) {
  (void)user;
  (void)platform;
  atomic_fetch_add(code == SLIP_CODE_OK ? &slip_count_good[call] : &slip_count_bad[call], 1);
}

static void slip_count_begin(void) {
  for (int i = 0; i < SLIP__PLATFORM_CALL_COUNT; ++i) {
    atomic_store(&slip_count_good[i], 0);
    atomic_store(&slip_count_bad[i], 0);
  }
  slip__platform_log_set(slip_count_log, NULL);
}

// What gave back nothing is not counted; |failing| failed |times| times, and no other one did.
static void slip_count_check(slip__platform_call_e failing, uint64_t times) {
  for (int i = 0; i < KINDS; ++i) {
    uint64_t made = atomic_load(&slip_count_good[slip_count_kinds[i].make]),
             given = atomic_load(&slip_count_good[slip_count_kinds[i].give]);
    uint64_t refused = atomic_load(&slip_count_bad[slip_count_kinds[i].give]), expected = slip_count_kinds[i].give == failing ? times : 0;
    if (made != given || refused != expected) {
      slip_test_fail(__FILE__, __LINE__, "%s: made %llu, given back %llu, failed %llu of %llu times",
                     slip__platform_call_name(slip_count_kinds[i].give), (unsigned long long)made, (unsigned long long)given,
                     (unsigned long long)refused, (unsigned long long)expected);
    }
  }
}

static uint64_t slip_count_given(void) {
  uint64_t given = 0;
  for (int i = 0; i < KINDS - 1; ++i) given += atomic_load(&slip_count_good[slip_count_kinds[i].give]);  // bindings are no resource
  return given;
}

// Two callables of different argument classes, and a launch that has run.
static void slip_count_open(slip_lane_world_t *world, slip_lane_place_e place, const slip_context_options_t *options) {
  slip_count_begin();
  slip_lane_world_open(world, place, false, options);
  (void)slip_fixture_prepare(world->context, slip_fixture_control());
  float *x = slip_lane_vector(world, 8, 0, 1), *z = slip_lane_vector(world, 8, 0, 0);
  slip_lane_launch_add(world, world->stream, x, x, z, 8, NULL);
  slip_lane_expect(world, world->stream, z, 8, 0, 2);
  slip_lane_free(world, x);
  slip_lane_free(world, z);
}

// The |nth| |call| of the first close fails, and again in each of |times| closes. False: there are not so many.
static bool slip_count_one(slip_lane_place_e place, slip__platform_call_e call, uint64_t nth, uint64_t times) {
  slip_lane_world_t world;
  slip_count_open(&world, place, NULL);
  slip__platform_fault_set(call, nth, false);
  slip_status_t status = slip_context_close(world.context);
  bool failed = !slip_status_is_ok(status);
  if (failed) SLIP_CHECK_CODE(status, SLIP_CODE_DEVICE);
  uint64_t given = slip_count_given();
  for (uint64_t i = 1; failed && i < times; ++i) {
    slip__platform_fault_set(call, 1, false);  // what is left begins with it
    SLIP_CHECK_CODE(slip_context_close(world.context), SLIP_CODE_DEVICE);
    SLIP_CHECK_EQ(slip_context_state(world.context), SLIP_CONTEXT_CLOSING);
    SLIP_CHECK_EQ(slip_count_given(), given);
  }
  slip__platform_fault_clear();
  SLIP_CHECK_OK(slip_context_close(world.context));
  slip_lane_world_check(&world);
  slip_count_check(call, failed ? times : 0);
  return failed;
}

static void slip_count_sweep(slip_lane_place_e place) {
  static const slip__platform_call_e calls[] = {SLIP__PLATFORM_CALL_MODULE_UNLOAD, SLIP__PLATFORM_CALL_EVENT_SYNCHRONIZE,
                                                SLIP__PLATFORM_CALL_EVENT_DESTROY, SLIP__PLATFORM_CALL_STREAM_DESTROY,
                                                SLIP__PLATFORM_CALL_MEMORY_FREE,   SLIP__PLATFORM_CALL_HOST_FREE,
                                                SLIP__PLATFORM_CALL_DEVICE_PUSH,   SLIP__PLATFORM_CALL_DEVICE_POP};
  uint64_t points = 0;
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); ++i) {
    uint64_t nth = 1;
    for (; slip_count_one(place, calls[i], nth, 1 + nth % 3); ++nth) ++points;
    bool binds = calls[i] == SLIP__PLATFORM_CALL_DEVICE_PUSH || calls[i] == SLIP__PLATFORM_CALL_DEVICE_POP;
    SLIP_CHECK(nth > 1 || (binds && place == SLIP_LANE_CPU));  // each stage can fail
  }
  printf("RESULT faults=%llu\n", (unsigned long long)points);
  SLIP_CHECK(points >= 20);
}

SLIP_TEST(close_count_each_resource_goes_once_cpu) {
  slip_count_sweep(SLIP_LANE_CPU);
}
SLIP_TEST(close_count_each_resource_goes_once_cuda) {
  slip_count_sweep(SLIP_LANE_CUDA);
}
SLIP_TEST(close_count_each_resource_goes_once_ascend) {
  slip_count_sweep(SLIP_LANE_ASCEND);
}

// The stages before the first resource: the hook, and what others must end.
static uint32_t slip_count_hooks, slip_count_hook_failures;
static slip_status_t slip_count_hook(void *user) {
  (void)user;
  return slip_count_hooks++ < slip_count_hook_failures ? SLIP_STATUS(SLIP_CODE_IO, "the queue is stuck") : slip_ok_status();
}

SLIP_TEST(close_count_nothing_goes_before_its_stage) {
  slip_lane_world_t world;
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_graph_t *graph = NULL;
  options.synchronize_hook = slip_count_hook;
  slip_count_hook_failures = 3;
  slip_count_open(&world, SLIP_LANE_CUDA, &options);
  SLIP_CHECK_OK(slip_graph_create(world.context, &graph));
  uint64_t given = slip_count_given();
  for (int i = 0; i < 3; ++i) SLIP_CHECK_CODE(slip_context_close(world.context), SLIP_CODE_IO);
  for (int i = 0; i < 3; ++i) SLIP_CHECK_CODE(slip_context_close(world.context), SLIP_CODE_BUSY);
  SLIP_CHECK_EQ(slip_count_given(), given);
  SLIP_CHECK_OK(slip_graph_destroy(graph));
  SLIP_CHECK_OK(slip_context_close(world.context));
  SLIP_CHECK_EQ(slip_count_hooks, 4);  // the stage that succeeded is not repeated
  slip_lane_world_check(&world);
  slip_count_check(SLIP__PLATFORM_CALL_LOAD, 0);
}

// A release that could not unload, a drain that tried again, and the close that did.
SLIP_TEST(close_count_failed_release_is_made_up_for) {
  slip_lane_world_t world;
  slip_count_open(&world, SLIP_LANE_CUDA, NULL);
  slip__platform_fault_set(SLIP__PLATFORM_CALL_MODULE_UNLOAD, 1, true);
  SLIP_CHECK_CODE(slip_context_release(world.context, world.add), SLIP_CODE_DEVICE);
  SLIP_CHECK_CODE(slip_context_release(world.context, world.add), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK_CODE(slip_context_drain(world.context), SLIP_CODE_DEVICE);
  slip__platform_fault_clear();
  SLIP_CHECK_OK(slip_context_close(world.context));
  slip_lane_world_check(&world);
  slip_count_check(SLIP__PLATFORM_CALL_MODULE_UNLOAD, 2);
}
