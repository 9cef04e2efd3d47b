// SPDX-License-Identifier: Apache-2.0
// What goes wrong below a worker: each allocation and each platform call of a whole life fails, alone and with all after it; devices break
// or are reset. Afterwards the status is right, close gives everything back, and the next worker works.
#include <inttypes.h>

#include "program_mode/program_world_test.h"

// The images, made once: packing them allocates too.
typedef struct slip_fault_images_t {
  slip_bytes_t add, affine;
} slip_fault_images_t;

static void slip_fault_images_make(slip_fault_images_t *images) {
  images->add = slip_program_image(slip_fixture_add());
  images->affine = slip_program_image(slip_fixture_affine());
}
static void slip_fault_images_free(const slip_fault_images_t *images) {
  slip_fixture_free(images->add);
  slip_fixture_free(images->affine);
}

// A return-style run, its result read and taken. |t| holds 1, 2, ...
static slip_status_t slip_fault_return_style(slip_worker_t *w, int32_t add, const slip_tensor_t *t, float *x) {
  slip_run_t *run = NULL;
  slip_tensor_t host = slip_program_host_f32(x, 8), result;
  float back[8];
  slip_arg_t args[3] = {slip_arg_tensor(t, NULL), slip_arg_tensor(&host, NULL), slip_arg_omitted()};
  SLIP_RETURN_IF_ERROR(slip_worker_run(w, add, args, 3, SLIP_RUN_ZERO_OUTPUTS, &run));
  slip_status_t status = slip_run_take(run, 2, &result);
  slip_run_release(run);
  SLIP_RETURN_IF_ERROR(status);
  SLIP_RETURN_IF_ERROR(slip_worker_tensor_read(w, &result, back, sizeof(back)));
  slip_program_expect(back, 8, 2, 2);
  return slip_worker_tensor_free(w, &result);
}

// Two runs in flight over host memory that the second one reads from the first.
static slip_status_t slip_fault_pipeline(slip_worker_t *w, int32_t affine) {
  int64_t state[4] = {1, 1, 1, 1};
  slip_tensor_t tensor = slip_program_host_i64(state, 4);
  slip_run_t *runs[2] = {NULL, NULL};
  slip_status_t status = slip_program_submit_affine(w, affine, &tensor, 10, 2, SLIP_RUN_NONE, &runs[0]);
  if (slip_status_is_ok(status)) status = slip_program_submit_affine(w, affine, &tensor, 10, 3, SLIP_RUN_NONE, &runs[1]);
  for (int i = 0; i < 2; ++i) {
    if (runs[i]) status = slip_status_join(status, slip_run_wait(runs[i], -1));
    slip_run_release(runs[i]);
  }
  if (slip_status_is_ok(status)) SLIP_CHECK_EQ(state[2], 123);
  return status;
}

// Everything that a worker does between create and close. What fails is left for close.
static slip_status_t slip_fault_use(slip_worker_t *w, const slip_fault_images_t *images) {
  float x[8];
  int64_t dims[1] = {8};
  slip_tensor_t t;
  int32_t add = -1, affine = -1, again = -1;
  slip_program_fill(x, 8, 1, 1);
  SLIP_RETURN_IF_ERROR(slip_worker_register(w, slip_fixture_bytes(images->add), &add));
  SLIP_RETURN_IF_ERROR(slip_worker_register(w, slip_fixture_bytes(images->affine), &affine));
  SLIP_RETURN_IF_ERROR(slip_worker_register(w, slip_fixture_bytes(images->add), &again));
  SLIP_RETURN_IF_ERROR(slip_worker_tensor_create(w, SLIP_DTYPE_F32, 1, dims, SLIP_WORKER_TENSOR_ZERO, &t));
  SLIP_RETURN_IF_ERROR(slip_worker_tensor_write(w, &t, x, sizeof(x)));
  SLIP_RETURN_IF_ERROR(slip_fault_return_style(w, add, &t, x));
  SLIP_RETURN_IF_ERROR(slip_fault_pipeline(w, affine));
  SLIP_RETURN_IF_ERROR(slip_worker_unregister(w, add));
  SLIP_RETURN_IF_ERROR(slip_worker_unregister(w, again));
  return slip_worker_tensor_free(w, &t);
}

// --- allocations -------------------------------------------------------------------------------------------------------------------------

typedef struct slip_fault_life_t {
  slip_program_world_t *world;
  slip_fault_images_t images;
} slip_fault_life_t;

static slip_status_t slip_fault_life(slip_allocator_t allocator, void *user) {
  slip_fault_life_t *life = user;
  slip_worker_options_t options = slip_program_options(life->world, NULL);
  slip_worker_t *worker = NULL;
  options.allocator = allocator;
  SLIP_RETURN_IF_ERROR(slip_worker_create(&options, &worker));
  slip_status_t status = slip_fault_use(worker, &life->images);
  SLIP_CHECK_OK(slip_worker_close(worker));
  SLIP_CHECK_OK(slip_worker_destroy(worker));
  return status;
}

SLIP_PROGRAM_TEST(fault_allocations) {
  slip_fault_life_t life = {.world = world};
  slip_fault_images_make(&life.images);
  uint64_t runs = slip_test_allocator_loop(slip_fault_life, &life);
  SLIP_CHECK(runs > 40);
  slip_fault_images_free(&life.images);
}

// --- platform calls ----------------------------------------------------------------------------------------------------------------------

static bool slip_fault_expected(slip_code_t code, slip__platform_call_e call) {
  return code == SLIP_CODE_OK || code == SLIP_CODE_DEVICE || code == SLIP_CODE_OUT_OF_MEMORY || code == SLIP_CODE_POISONED ||
         (call == SLIP__PLATFORM_CALL_TARGET_SUPPORTED && (code == SLIP_CODE_INCOMPATIBLE || code == SLIP_CODE_UNSUPPORTED));
}

// One life with the |nth| call of its kind failing. False once there are fewer.
static bool slip_fault_call(slip_program_world_t *world, const slip_fault_images_t *images, slip__platform_call_e call, uint64_t nth,
                            bool persistent) {
  slip_worker_options_t options = slip_program_options(world, NULL);
  slip_worker_t *worker = NULL;
  SLIP_CHECK_OK(slip_worker_create(&options, &worker));
  slip__platform_counters_reset();
  slip__platform_fault_set(call, nth, persistent);
  slip_status_t status = slip_fault_use(worker, images);
  if (!slip_fault_expected(slip_status_code(status), call)) {
    char text[1024];
    (void)slip_status_format(status, text, sizeof(text));
    slip_test_fail(__FILE__, __LINE__, "call %" PRIu64 " of %s failed%s: %s", nth, slip__platform_call_name(call),
                   persistent ? " and all after it" : "", text);
  }
  slip_status_free(status);
  slip_status_t first = slip_worker_close(worker);  // may itself meet the fault
  bool fired = slip__platform_counter(call) >= nth;
  SLIP_CHECK(slip_status_is_ok(first) || (fired && slip_worker_state(worker) == SLIP_WORKER_CLOSING));
  slip_status_free(first);
  slip__platform_fault_clear();
  slip__platform_counters_stop();
  SLIP_CHECK_OK(slip_worker_close(worker));
  SLIP_CHECK_OK(slip_worker_destroy(worker));
  slip_program_world_check(world);
  return fired;
}

static void slip_fault_calls(slip_program_world_t *world, bool persistent) {
  enum { MOST = 60 };  // of one kind, so that a polling one ends
  slip_fault_images_t images;
  uint64_t fired = 0;
  slip_fault_images_make(&images);
  SLIP_CHECK_OK(slip_worker_destroy(world->worker));  // so that nothing may be left after each
  for (int call = 0; call < SLIP__PLATFORM_CALL_COUNT; ++call) {
    for (uint64_t nth = 1; nth <= MOST; ++nth) {
      if (!slip_fault_call(world, &images, (slip__platform_call_e)call, nth, persistent)) break;
      ++fired;
    }
  }
  SLIP_CHECK(fired > 10);
  slip_worker_options_t options = slip_program_options(world, NULL);
  SLIP_CHECK_OK(slip_worker_create(&options, &world->worker));
  SLIP_CHECK_OK(slip_fault_use(world->worker, &images));
  slip_fault_images_free(&images);
}

SLIP_PROGRAM_TEST(fault_platform_calls_once) {
  slip_fault_calls(world, false);
}
SLIP_PROGRAM_TEST(fault_platform_calls_for_good) {
  slip_fault_calls(world, true);
}

// --- devices -----------------------------------------------------------------------------------------------------------------------------

#define SLIP_FAULT_SIM_TEST(test_name)                                 \
  static void slip_fault_sim_##test_name(slip_program_world_t *world); \
  SLIP_TEST(program_fault_##test_name##_cuda) {                        \
    slip_program_world_t world;                                        \
    slip_program_world_open(&world, SLIP_PROGRAM_CUDA, NULL);          \
    slip_fault_sim_##test_name(&world);                                \
  }                                                                    \
  SLIP_TEST(program_fault_##test_name##_ascend) {                      \
    slip_program_world_t world;                                        \
    slip_program_world_open(&world, SLIP_PROGRAM_ASCEND, NULL);        \
    slip_fault_sim_##test_name(&world);                                \
  }                                                                    \
  static void slip_fault_sim_##test_name(slip_program_world_t *world)

// A broken device gives nothing back: each close says so, until somebody resets it.
SLIP_FAULT_SIM_TEST(broken_device) {
  slip_worker_t *w = world->worker;
  int64_t state[4] = {1, 1, 1, 1};
  slip_tensor_t tensor = slip_program_host_i64(state, 4);
  void *memory = NULL;
  slip_run_t *run = NULL;
  int32_t affine = slip_program_register(w, slip_fixture_affine());
  SLIP_CHECK_OK(slip_worker_allocate(w, 64, &memory));
  SLIP_CHECK_OK(slip_sim_break_device(0));
  SLIP_CHECK_CODE(slip_program_submit_affine(w, affine, &tensor, 1, 1, SLIP_RUN_NONE, &run), SLIP_CODE_DEVICE);
  SLIP_CHECK_CODE(slip_worker_close(w), SLIP_CODE_DEVICE);
  SLIP_CHECK_EQ(slip_worker_state(w), SLIP_WORKER_CLOSING);
  SLIP_CHECK_CODE(slip_worker_allocate(w, 64, &memory), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_worker_close(w), SLIP_CODE_DEVICE);
  SLIP_CHECK_CODE(slip_worker_destroy(w), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_OK(slip_sim_reset_device(0));
  // The handles mean nothing any more: closed, and told once.
  SLIP_CHECK_ERROR(slip_worker_close(w), SLIP_CODE_DEVICE, "no longer knew");
  SLIP_CHECK_EQ(slip_worker_state(w), SLIP_WORKER_CLOSED);
  SLIP_CHECK_OK(slip_worker_close(w));
  SLIP_CHECK_OK(slip_worker_destroy(w));
  slip_test_allocator_check_empty(&world->memory);
  slip_fixture_sim_check_empty();
}

// Poisoned only if a launch was under way when it broke, which is a race here.
static void slip_fault_check_broken(slip_status_t status) {
  SLIP_CHECK(slip_status_code(status) == SLIP_CODE_POISONED || slip_status_code(status) == SLIP_CODE_DEVICE);
  slip_status_free(status);
}

// Broken while runs are in flight: both end, with the device's fault.
SLIP_FAULT_SIM_TEST(broken_in_flight) {
  slip_worker_t *w = world->worker;
  slip_program_door_t door;
  int64_t state[4] = {1, 1, 1, 1};
  slip_tensor_t tensor = slip_program_host_i64(state, 4);
  slip_run_t *second = NULL, *third = NULL;
  int32_t affine = slip_program_register(w, slip_fixture_affine());
  slip_program_hold(world, &door);
  SLIP_CHECK_OK(slip_program_submit_affine(w, affine, &tensor, 1, 1, SLIP_RUN_NONE, &second));
  SLIP_CHECK_OK(slip_sim_break_device(0));
  atomic_store(&door.open, 1);
  slip__futex_wake(&door.open, INT32_MAX);
  SLIP_CHECK_CODE(slip_run_wait(door.run, -1), SLIP_CODE_DEVICE);
  slip_fault_check_broken(slip_run_wait(second, -1));
  slip_fault_check_broken(slip_program_submit_affine(w, affine, &tensor, 1, 1, SLIP_RUN_NONE, &third));
  SLIP_CHECK(third == NULL);
  slip_run_release(door.run);
  slip_run_release(second);
  SLIP_CHECK_EQ(state[0], 1);
  SLIP_CHECK_CODE(slip_worker_close(w), SLIP_CODE_DEVICE);
  SLIP_CHECK_OK(slip_sim_reset_device(0));
  slip_status_free(slip_worker_close(w));
  SLIP_CHECK_EQ(slip_worker_state(w), SLIP_WORKER_CLOSED);
  SLIP_CHECK_OK(slip_worker_destroy(w));
  slip_test_allocator_check_empty(&world->memory);
}

// An open that fails and cannot undo: FAILED, and close is owed.
SLIP_FAULT_SIM_TEST(owed_open) {
  slip_worker_t *w = world->worker;
  void *memory = NULL;
  slip__platform_fault_set(SLIP__PLATFORM_CALL_EVENT_CREATE, 1, false);
  SLIP_CHECK_OK(slip_sim_fail_call("stream_destroy", 1, true));
  slip_status_t status = slip_worker_open(w);
  SLIP_CHECK_EQ(slip_status_code(status), SLIP_CODE_DEVICE);
  slip_status_free(status);
  SLIP_CHECK_EQ(slip_worker_state(w), SLIP_WORKER_FAILED);
  SLIP_CHECK_ERROR(slip_worker_allocate(w, 8, &memory), SLIP_CODE_INVALID_STATE, "FAILED");
  SLIP_CHECK_CODE(slip_worker_destroy(w), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_worker_close(w), SLIP_CODE_DEVICE);
  slip_sim_fail_clear();
  slip__platform_fault_clear();
  slip_program_world_end(world);
}
