// SPDX-License-Identifier: Apache-2.0
// What is owed when giving back fails too: an open whose undo fails, a release whose unload fails, a close on a device that is broken or
// was reset by somebody else. On the cpu and on the simulator.
#include <stdatomic.h>
#include <unistd.h>

#include "kernel_mode/lane_world_test.h"
#include "slip_test_allocator.h"

// --- what was taken from the platform and given back, by successful calls ----------------------------------------------------------------

typedef enum slip_owed_kind_e {
  SLIP_OWED_STREAM,
  SLIP_OWED_EVENT,
  SLIP_OWED_MEMORY,
  SLIP_OWED_HOST,
  SLIP_OWED_MODULE,
  SLIP_OWED_KINDS
} slip_owed_kind_e;
static _Atomic int64_t slip_owed_balance[SLIP_OWED_KINDS];

static void slip_owed_log(void *user, const char *platform, slip__platform_call_e call, slip_code_t code) {
  static const slip__platform_call_e calls[SLIP_OWED_KINDS][2] = {{SLIP__PLATFORM_CALL_STREAM_CREATE, SLIP__PLATFORM_CALL_STREAM_DESTROY},
                                                                  {SLIP__PLATFORM_CALL_EVENT_CREATE, SLIP__PLATFORM_CALL_EVENT_DESTROY},
                                                                  {SLIP__PLATFORM_CALL_MEMORY_ALLOCATE, SLIP__PLATFORM_CALL_MEMORY_FREE},
                                                                  {SLIP__PLATFORM_CALL_HOST_ALLOCATE, SLIP__PLATFORM_CALL_HOST_FREE},
                                                                  {SLIP__PLATFORM_CALL_MODULE_LOAD, SLIP__PLATFORM_CALL_MODULE_UNLOAD}};
  (void)user;
  (void)platform;
  if (code != SLIP_CODE_OK) return;
  for (int i = 0; i < SLIP_OWED_KINDS; ++i) {
    if (call == calls[i][0]) atomic_fetch_add(&slip_owed_balance[i], 1);
    if (call == calls[i][1]) atomic_fetch_sub(&slip_owed_balance[i], 1);
  }
}

static void slip_owed_check_balance(void) {
  for (int i = 0; i < SLIP_OWED_KINDS; ++i) SLIP_CHECK_EQ(atomic_load(&slip_owed_balance[i]), 0);
}

static bool slip_owed_is_sim(const char *name) {
  return strcmp(name, "sim") == 0;
}

static void slip_owed_power_on(const char *name) {
  slip_platform_t *platform = NULL;
  slip_status_t status = slip_platform_find(name, &platform);
  if (slip_status_code(status) == SLIP_CODE_NOT_FOUND) {
    slip_status_free(status);
    slip_test_skip("this build has no platform \"%s\"", name);
  }
  SLIP_CHECK_OK(status);
  if (slip_owed_is_sim(name)) SLIP_CHECK_OK(slip_sim_reset(NULL));
  slip__platform_log_set(slip_owed_log, NULL);
}

static void slip_owed_check_sim(const char *name) {
  slip_sim_statistics_t left = {.struct_size = sizeof(left)};
  if (!slip_owed_is_sim(name)) return;
  SLIP_CHECK_OK(slip_sim_statistics(&left));
  SLIP_CHECK_EQ(left.streams + left.events + left.allocations + left.host_allocations + left.modules + left.graphs + left.captures, 0);
  SLIP_CHECK_EQ(slip_sim_lifecycle_calls(), 0);
}

static slip_context_options_t slip_owed_options(const char *name, slip_test_allocator_t *memory) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.platform = name;
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  options.max_pending = 16;
  options.max_captured = 16;
  options.allocator = slip_test_allocator(memory);
  return options;
}

// --- open fails at one call, its undo at another
// ------------------------------------------------------------------------------------------

static const slip__platform_call_e slip_owed_undo_calls[] = {SLIP__PLATFORM_CALL_STREAM_DESTROY, SLIP__PLATFORM_CALL_STREAM_SYNCHRONIZE,
                                                             SLIP__PLATFORM_CALL_EVENT_DESTROY,  SLIP__PLATFORM_CALL_MEMORY_FREE,
                                                             SLIP__PLATFORM_CALL_HOST_FREE,      SLIP__PLATFORM_CALL_DEVICE_PUSH,
                                                             SLIP__PLATFORM_CALL_DEVICE_POP};

// An owed context: only close reaches it, as often as needed, and then the device is free again.
static void slip_owed_settle(const slip_context_options_t *options, slip_context_t *context, bool persistent, uint64_t *last_generation) {
  slip_context_t *again = NULL;
  int32_t id = 0;
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_FAILED);
  SLIP_CHECK(!slip_context_initialized(context));
  SLIP_CHECK_CODE(slip_context_prepare(context, (slip_const_bytes_t){NULL, 0}, &id), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_context_drain(context), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_context_destroy(context), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK(slip_context_generation(context) > *last_generation);
  *last_generation = slip_context_generation(context);
  for (int i = 0; persistent && i < 2; ++i) {
    slip_status_t status = slip_context_close(context);
    bool failed = !slip_status_is_ok(status);
    slip_status_free(status);
    if (!failed) break;  // all that could not be given back was the device binding
    SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_CLOSING);
    SLIP_CHECK_CODE(slip_context_destroy(context), SLIP_CODE_INVALID_STATE);
  }
  slip__platform_fault_clear();
  if (slip_context_state(context) == SLIP_CONTEXT_CLOSING) SLIP_CHECK_CODE(slip_context_open(options, &again), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK(again == NULL);
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_CLOSED);
  SLIP_CHECK_OK(slip_context_destroy(context));
}

// Returns whether the open failed at all.
static bool slip_owed_one(const char *name, slip__platform_call_e call, uint64_t nth, slip__platform_call_e undo, bool persistent,
                          uint64_t *owed, uint64_t *last_generation) {
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_context_options_t options = slip_owed_options(name, &memory);
  slip_context_t *context = NULL;
  slip__platform_fault_set(call, nth, false);
  // The first binding is the open's own.
  if (undo != call) slip__platform_fault_set(undo, undo == SLIP__PLATFORM_CALL_DEVICE_PUSH ? 2 : 1, persistent);
  slip_status_t status = slip_context_open(&options, &context);
  bool failed = !slip_status_is_ok(status);
  slip_status_free(status);
  if (!failed) {
    slip__platform_fault_clear();
    SLIP_CHECK_OK(slip_context_close(context));
    SLIP_CHECK_OK(slip_context_destroy(context));
  } else if (context) {
    ++*owed;
    slip_owed_settle(&options, context, persistent, last_generation);
  } else {
    slip__platform_fault_clear();
  }
  slip_test_allocator_check_empty(&memory);
  slip_owed_check_balance();
  return failed;
}

static void slip_owed_open_matrix(const char *name) {
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_context_options_t options = slip_owed_options(name, &memory);
  slip_context_t *context = NULL;
  uint64_t calls[SLIP__PLATFORM_CALL_COUNT], failures = 0, owed = 0, last_generation = 0;
  slip_owed_power_on(name);
  slip__platform_counters_reset();
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  for (uint32_t i = 0; i < SLIP__PLATFORM_CALL_COUNT; ++i) calls[i] = slip__platform_counter((slip__platform_call_e)i);
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip_context_destroy(context));
  for (uint32_t call = 0; call < SLIP__PLATFORM_CALL_COUNT; ++call) {
    for (uint64_t nth = 1; nth <= calls[call]; ++nth) {
      for (size_t u = 0; u < sizeof(slip_owed_undo_calls) / sizeof(slip_owed_undo_calls[0]); ++u) {
        for (int persistent = 0; persistent < 2; ++persistent)
          failures += slip_owed_one(name, (slip__platform_call_e)call, nth, slip_owed_undo_calls[u], persistent, &owed, &last_generation);
      }
    }
  }
  SLIP_CHECK_OK(slip_context_open(&options, &context));  // the device is free
  SLIP_CHECK(slip_context_generation(context) > last_generation);
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip_context_destroy(context));
  slip_owed_check_sim(name);
  printf("RESULT faults=%llu\n", (unsigned long long)(failures + owed));
  SLIP_CHECK(failures > 20);
  if (slip_owed_is_sim(name)) SLIP_CHECK(owed > 50);
}

SLIP_TEST_TIMEOUT(owed_open_fails_and_its_undo_too_cpu, 120) {
  slip_owed_open_matrix("cpu");
}
SLIP_TEST_TIMEOUT(owed_open_fails_and_its_undo_too_sim, 240) {
  slip_owed_open_matrix("sim");
}

// --- two bugs that such code has had elsewhere, by name ----------------------------------------------------------------------------------

// An init that fails after it took resources, and then loses the handle through which they could be given back.
SLIP_TEST(owed_bug_init_fails_and_loses_its_handle) {
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_context_options_t options = slip_owed_options("sim", &memory);
  slip_context_t *first = NULL, *second = NULL;
  slip_sim_statistics_t now = {.struct_size = sizeof(now)};
  slip_owed_power_on("sim");
  SLIP_CHECK_OK(slip_sim_fail_call("event_create", 7, false));
  SLIP_CHECK_OK(slip_sim_fail_call("stream_destroy", 1, true));
  SLIP_CHECK_ERROR(slip_context_open(&options, &first), SLIP_CODE_DEVICE, "the teardown is owed");
  SLIP_CHECK(first != NULL);
  SLIP_CHECK_OK(slip_sim_statistics(&now));
  SLIP_CHECK(now.streams > 0);
  // Whoever ignored the handle finds it again by opening again.
  SLIP_CHECK_ERROR(slip_context_open(&options, &second), SLIP_CODE_DEVICE, "the teardown is owed");
  SLIP_CHECK(second == first);
  SLIP_CHECK_CODE(slip_context_close(second), SLIP_CODE_DEVICE);
  slip_sim_fail_clear();
  SLIP_CHECK_OK(slip_context_close(second));
  SLIP_CHECK_OK(slip_context_destroy(first));
  SLIP_CHECK_OK(slip_context_destroy(second));
  slip_test_allocator_check_empty(&memory);
  slip_owed_check_sim("sim");
}

// A release that fails, and whose allocator forgets the block: nobody could ever free it.
SLIP_TEST(owed_bug_release_fails_and_forgets_its_block) {
  static const char *const calls[] = {"module_unload", "event_destroy", "stream_destroy", "memory_free", "host_free"};
  slip_owed_power_on("sim");
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); ++i) {
    for (uint64_t nth = 1; nth <= 3; ++nth) {
      slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
      slip_context_options_t options = slip_owed_options("sim", &memory);
      slip_context_t *context = NULL;
      slip_fixture_t fixture = slip_fixture_add();
      fixture.image.platform = SLIP_PLATFORM_SIM;
      SLIP_CHECK_OK(slip_context_open(&options, &context));
      int32_t id = slip_fixture_prepare(context, fixture);
      SLIP_CHECK_OK(slip_sim_fail_call(calls[i], nth, true));
      slip_status_t released = slip_context_release(context, id);
      slip_code_t code = slip_status_code(released);
      slip_status_free(released);
      SLIP_CHECK_EQ(code, i == 0 && nth == 1 ? SLIP_CODE_DEVICE : SLIP_CODE_OK);
      slip_status_t closed = slip_context_close(context);
      bool failed = !slip_status_is_ok(closed);
      slip_status_free(closed);
      slip_sim_fail_clear();
      if (failed) SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_CLOSING);
      if (nth == 1 && i != 0) SLIP_CHECK(failed);
      SLIP_CHECK_OK(slip_context_close(context));
      SLIP_CHECK_OK(slip_context_destroy(context));
      slip_test_allocator_check_empty(&memory);
      slip_owed_check_balance();
      slip_owed_check_sim("sim");
    }
  }
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);  // nothing was given back twice
}

// --- devices that are broken, or reset under us ------------------------------------------------------------------------------------------

SLIP_TEST(owed_broken_device_is_owed_until_somebody_resets_it) {
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_context_options_t options = slip_owed_options("sim", &memory);
  slip_context_t *context = NULL, *again = NULL;
  slip_fixture_t fixture = slip_fixture_add();
  slip_owed_power_on("sim");
  fixture.image.platform = SLIP_PLATFORM_SIM;
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  (void)slip_fixture_prepare(context, fixture);
  uint64_t generation = slip_context_generation(context);
  SLIP_CHECK_OK(slip_sim_break_device(0));
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_CODE(slip_context_close(context), SLIP_CODE_DEVICE);
    SLIP_CHECK_CODE(slip_context_destroy(context), SLIP_CODE_INVALID_STATE);
  }
  SLIP_CHECK_EQ(slip_sim_lifecycle_calls(), 0);  // no recovery of ours: the device is not ours
  SLIP_CHECK_OK(slip_sim_reset_device(0));       // somebody else's
  SLIP_CHECK_ERROR(slip_context_close(context), SLIP_CODE_DEVICE, "somebody reset the device");
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_CLOSED);
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip_context_open(&options, &again));
  SLIP_CHECK(slip_context_generation(again) > generation);
  SLIP_CHECK_OK(slip_context_close(again));
  SLIP_CHECK_OK(slip_context_destroy(again));
  SLIP_CHECK_OK(slip_context_destroy(context));
  slip_test_allocator_check_empty(&memory);
  SLIP_CHECK_EQ(slip_sim_lifecycle_calls(), 1);
}

SLIP_TEST(owed_device_reset_under_an_open_context) {
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_context_options_t options = slip_owed_options("sim", &memory);
  slip_context_t *context = NULL;
  slip_fixture_t fixture = slip_fixture_add();
  slip_owed_power_on("sim");
  fixture.image.platform = SLIP_PLATFORM_SIM;
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  (void)slip_fixture_prepare(context, fixture);
  SLIP_CHECK_OK(slip_sim_reset_device(0));
  SLIP_CHECK_ERROR(slip_context_close(context), SLIP_CODE_DEVICE, "somebody reset the device");
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_CLOSED);
  SLIP_CHECK_OK(slip_context_destroy(context));
  slip_test_allocator_check_empty(&memory);
}

// The same answer means something else while another device is current: then the handle is good, and must not be forgotten.
SLIP_TEST(owed_wrong_current_device_is_no_stale_handle) {
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_context_options_t options = slip_owed_options("sim", &memory);
  slip_context_t *context = NULL;
  slip_owed_power_on("sim");
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  SLIP_CHECK_ERROR(slip__context_given_back(context, SLIP_STATUS(SLIP_CODE_DEVICE, "no")), SLIP_CODE_DEVICE, "no");
  SLIP_CHECK_OK(slip_sim_set_device(1));
  SLIP_CHECK_CODE(slip__context_given_back(context, SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "stale?")), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_EQ(context->stale, 0);
  SLIP_CHECK_OK(slip_context_close(context));  // binds its own device
  SLIP_CHECK_OK(slip_context_destroy(context));
  SLIP_CHECK_OK(slip_sim_set_device(0));
  slip_test_allocator_check_empty(&memory);
  slip_owed_check_balance();
}

// --- refused in a capture, which stays valid ---------------------------------------------------------------------------------------------

static void slip_owed_capture(uint32_t flavour) {
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_context_options_t options = slip_owed_options("sim", &memory), second = options;
  slip_sim_options_t sim = SLIP_SIM_OPTIONS_INIT;
  slip_platform_t *platform = NULL;
  slip_context_t *context = NULL, *other = NULL;
  slip_stream_t stream = NULL;
  slip_graph_exec_t graph = NULL;
  slip_capture_info_t info;
  int32_t id = 0;
  slip_fixture_t fixture = slip_fixture_add();
  slip_owed_power_on("sim");
  sim.flavour = flavour;
  SLIP_CHECK_OK(slip_sim_reset(&sim));
  SLIP_CHECK_OK(slip_platform_find("sim", &platform));
  fixture.image.platform = SLIP_PLATFORM_SIM;
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  int32_t kept = slip_fixture_prepare(context, fixture);
  slip_bytes_t image = slip_fixture_pack(&fixture);
  SLIP_CHECK_OK(slip_stream_create(platform, 0, &stream));
  second.max_pending = 3;
  for (uint32_t mode = SLIP_CAPTURE_MODE_GLOBAL; mode <= SLIP_CAPTURE_MODE_THREAD_LOCAL; ++mode) {
    SLIP_CHECK_OK(slip_stream_capture_begin(platform, stream, mode));
    SLIP_CHECK_CODE(slip_context_open(&options, &other), SLIP_CODE_CAPTURE_UNSUPPORTED);
    SLIP_CHECK_CODE(slip_context_open(&second, &other), SLIP_CODE_CAPTURE_UNSUPPORTED);
    SLIP_CHECK_CODE(slip_context_prepare(context, slip_fixture_bytes(image), &id), SLIP_CODE_CAPTURE_UNSUPPORTED);
    SLIP_CHECK_EQ(id, -1);
    SLIP_CHECK_CODE(slip_context_prepare_artifact(context, NULL, &id), SLIP_CODE_CAPTURE_UNSUPPORTED);
    SLIP_CHECK_CODE(slip_context_release(context, kept), SLIP_CODE_CAPTURE_UNSUPPORTED);
    SLIP_CHECK_CODE(slip_context_drain(context), SLIP_CODE_CAPTURE_UNSUPPORTED);
    SLIP_CHECK_CODE(slip_context_close(context), SLIP_CODE_CAPTURE_UNSUPPORTED);
    SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_READY);
    SLIP_CHECK_OK(slip_stream_capture_info(platform, stream, &info));
    SLIP_CHECK_EQ(info.state, SLIP_CAPTURE_ACTIVE);
    SLIP_CHECK_OK(slip_stream_capture_end(platform, stream, &graph));
    SLIP_CHECK(graph != NULL);
    SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
  }
  SLIP_CHECK_OK(slip_context_release(context, kept));
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip_context_destroy(context));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  slip_fixture_free(image);
  slip_owed_check_sim("sim");
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
}

SLIP_TEST(owed_nothing_after_refusals_in_a_capture_cuda) {
  slip_owed_capture(SLIP_SIM_FLAVOUR_CUDA);
}
SLIP_TEST(owed_nothing_after_refusals_in_a_capture_ascend) {
  slip_owed_capture(SLIP_SIM_FLAVOUR_ASCEND);
}

// Nobody can tell whether the thread is in a capture, and it is: close goes on, the platform refuses, and after the capture close ends.
static void slip_owed_untold_capture(uint32_t flavour) {
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_context_options_t options = slip_owed_options("sim", &memory);
  slip_sim_options_t sim = SLIP_SIM_OPTIONS_INIT;
  slip_platform_t *platform = NULL;
  slip_context_t *context = NULL;
  slip_stream_t stream = NULL;
  slip_graph_exec_t graph = NULL;
  slip_owed_power_on("sim");
  sim.flavour = flavour;
  SLIP_CHECK_OK(slip_sim_reset(&sim));
  SLIP_CHECK_OK(slip_platform_find("sim", &platform));
  SLIP_CHECK_OK(slip_stream_create(platform, 0, &stream));
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  SLIP_CHECK_OK(slip_sim_fail_call("thread_capture_info", 1, true));
  SLIP_CHECK_OK(slip_stream_capture_begin(platform, stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  SLIP_CHECK_CODE(slip_context_close(context), SLIP_CODE_DEVICE);  // the vendor's own answer to an unsafe call
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_CLOSING);
  slip_status_t ended = slip_stream_capture_end(platform, stream, &graph);
  SLIP_CHECK_EQ(slip_status_code(ended), flavour == SLIP_SIM_FLAVOUR_CUDA ? SLIP_CODE_DEVICE : SLIP_CODE_OK);  // cuda's was broken
  slip_status_free(ended);
  SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
  SLIP_CHECK_OK(slip_context_close(context));  // still without an answer
  slip_sim_fail_clear();
  SLIP_CHECK_OK(slip_context_destroy(context));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  slip_test_allocator_check_empty(&memory);
  slip_owed_check_balance();
}

SLIP_TEST(owed_close_in_a_capture_that_nobody_tells_of_cuda) {
  slip_owed_untold_capture(SLIP_SIM_FLAVOUR_CUDA);
}
SLIP_TEST(owed_close_in_a_capture_that_nobody_tells_of_ascend) {
  slip_owed_untold_capture(SLIP_SIM_FLAVOUR_ASCEND);
}
