// SPDX-License-Identifier: Apache-2.0
#include "program_mode/program_world_test.h"

#include <sched.h>

slip_worker_options_t slip_program_options(slip_program_world_t *world, const slip_worker_options_t *wanted) {
  slip_worker_options_t options = SLIP_WORKER_OPTIONS_INIT;
  if (wanted) options = *wanted;
  options.platform = world->place == SLIP_PROGRAM_CPU ? "cpu" : "sim";
  options.allocator = slip_test_allocator(&world->memory);
  if (options.scheduler_threads == 0) options.flags |= SLIP_WORKER_SINGLE_THREAD;
  return options;
}

static void slip_program_power_on(const slip_program_world_t *world) {
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  options.flavour = world->place == SLIP_PROGRAM_CUDA ? SLIP_SIM_FLAVOUR_CUDA : SLIP_SIM_FLAVOUR_ASCEND;
  options.seed = slip_test_seed();
  SLIP_CHECK_OK(slip_sim_reset(&options));
}

void slip_program_world_open(slip_program_world_t *world, slip_program_place_e place, const slip_worker_options_t *wanted) {
  *world = (slip_program_world_t){.place = place, .memory = SLIP_TEST_ALLOCATOR_INIT};
  slip_status_t status = slip_platform_find(place == SLIP_PROGRAM_CPU ? "cpu" : "sim", &world->platform);
  if (slip_status_code(status) == SLIP_CODE_NOT_FOUND) {
    slip_status_free(status);
    slip_test_skip("this build has no platform \"sim\"");
  }
  SLIP_CHECK_OK(status);
  if (place != SLIP_PROGRAM_CPU) slip_program_power_on(world);
  slip_worker_options_t options = slip_program_options(world, wanted);
  SLIP_CHECK_OK(slip_worker_create(&options, &world->worker));
}

void slip_program_world_check(slip_program_world_t *world) {
  slip_test_allocator_check_empty(&world->memory);
  if (world->place != SLIP_PROGRAM_CPU) slip_fixture_sim_check_clean("after the test");
}

void slip_program_world_end(slip_program_world_t *world) {
  SLIP_CHECK_OK(slip_worker_close(world->worker));
  SLIP_CHECK_OK(slip_worker_destroy(world->worker));
  slip_program_world_check(world);
}

slip_bytes_t slip_program_image(slip_fixture_t fixture) {
  fixture.image.contract = SLIP_CONTRACT_PROGRAM;
  return slip_fixture_pack(&fixture);
}

int32_t slip_program_register(slip_worker_t *worker, slip_fixture_t fixture) {
  int32_t callable = -1;
  slip_bytes_t image = slip_program_image(fixture);
  SLIP_CHECK_OK(slip_worker_register(worker, slip_fixture_bytes(image), &callable));
  slip_fixture_free(image);
  return callable;
}

slip_worker_stats_t slip_program_stats(slip_worker_t *worker) {
  slip_worker_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_OK(slip_worker_stats(worker, &stats));
  return stats;
}

void slip_program_fill(float *values, int64_t count, float first, float step) {
  for (int64_t i = 0; i < count; ++i) values[i] = first + step * (float)i;
}

void slip_program_expect(const float *values, int64_t count, float first, float step) {
  for (int64_t i = 0; i < count; ++i) {
    if (values[i] == first + step * (float)i) continue;
    slip_test_fail(__FILE__, __LINE__, "element %lld is %g, expected %g", (long long)i, (double)values[i],
                   (double)(first + step * (float)i));
  }
}

slip_tensor_t slip_program_host_f32(float *values, int64_t count) {
  return slip_fixture_tensor(SLIP_DTYPE_F32, values, count, slip_device_cpu());
}

slip_tensor_t slip_program_host_i64(int64_t *values, int64_t count) {
  return slip_fixture_tensor(SLIP_DTYPE_I64, values, count, slip_device_cpu());
}

static void slip_program_affine_args(slip_arg_t *args, const slip_tensor_t *state, int64_t factor, int64_t term) {
  slip_scalar_t scalars[2];
  SLIP_CHECK_OK(slip_scalar_from_i64(SLIP_DTYPE_I64, factor, &scalars[0]));
  SLIP_CHECK_OK(slip_scalar_from_i64(SLIP_DTYPE_I64, term, &scalars[1]));
  args[0] = slip_arg_tensor(state, NULL);
  args[1] = slip_arg_scalar(scalars[0]);
  args[2] = slip_arg_scalar(scalars[1]);
}

slip_status_t slip_program_submit_affine(slip_worker_t *worker, int32_t affine, const slip_tensor_t *state, int64_t factor, int64_t term,
                                         uint32_t flags, slip_run_t **out) {
  slip_arg_t args[3];
  slip_program_affine_args(args, state, factor, term);
  return slip_worker_submit(worker, affine, args, 3, flags, out);
}

slip_status_t slip_program_run_affine(slip_worker_t *worker, int32_t affine, const slip_tensor_t *state, int64_t factor, int64_t term) {
  slip_arg_t args[3];
  slip_program_affine_args(args, state, factor, term);
  return slip_worker_run(worker, affine, args, 3, SLIP_RUN_NONE, NULL);
}

static void slip_program_at_the_door(void *user) {
  slip_program_door_t *door = user;
  while (!atomic_load(&door->open)) (void)slip__futex_wait(&door->open, 0, -1);
}

void slip_program_hold(slip_program_world_t *world, slip_program_door_t *door) {
  *door = (slip_program_door_t){.world = world};
  SLIP_CHECK_OK(slip_worker_open(world->worker));
  door->control = slip_program_register(world->worker, slip_fixture_control());
  slip_tensor_t state = slip_program_host_i64(door->state, 4);
  if (world->worker->stream) {
    door->state[1] = 1;  // the kernel does not wait
    SLIP_CHECK_OK(slip_stream_enqueue_host(world->platform, world->worker->stream, slip_program_at_the_door, door));
  }
  SLIP_CHECK_OK(slip_program_submit_affine(world->worker, door->control, &state, 1, 0, SLIP_RUN_NONE, &door->run));
  if (!world->worker->stream) SLIP_PROGRAM_UNTIL(__atomic_load_n(&door->state[2], __ATOMIC_SEQ_CST) != 0);
}

void slip_program_let_go(slip_program_door_t *door) {
  if (door->world->worker->stream) {
    atomic_store(&door->open, 1);
    slip__futex_wake(&door->open, INT32_MAX);
  } else {
    __atomic_store_n(&door->state[1], 1, __ATOMIC_SEQ_CST);
  }
  SLIP_CHECK_OK(slip_run_wait(door->run, -1));
  slip_run_release(door->run);
  SLIP_CHECK_OK(slip_worker_unregister(door->world->worker, door->control));
}
