// SPDX-License-Identifier: Apache-2.0
// Where the tests of program mode run: each is a body over a world, made into one test per world.
//
//   cpu     host memory is the device's: used in place
//   cuda    the simulator with the rules of cuda: memory that the host does not reach
//   ascend  the simulator with those of ascend
#ifndef SLIPSTREAM_SRC_PROGRAM_MODE_PROGRAM_WORLD_TEST_H_
#define SLIPSTREAM_SRC_PROGRAM_MODE_PROGRAM_WORLD_TEST_H_

#include "device_fixture.h"
#include "program_mode/run.h"
#include "slip_test_allocator.h"
#include "slipstream/worker.h"

typedef enum slip_program_place_e { SLIP_PROGRAM_CPU, SLIP_PROGRAM_CUDA, SLIP_PROGRAM_ASCEND } slip_program_place_e;

typedef struct slip_program_world_t {
  slip_program_place_e place;
  slip_platform_t *platform;
  slip_worker_t *worker;
  slip_test_allocator_t memory;
} slip_program_world_t;

// Powers the simulator on (or skips where the build has none) and creates a worker. |wanted| NULL: small defaults.
void slip_program_world_open(slip_program_world_t *world, slip_program_place_e place, const slip_worker_options_t *wanted);
// Options as slip_program_world_open() would use them.
slip_worker_options_t slip_program_options(slip_program_world_t *world, const slip_worker_options_t *wanted);
// Closes and destroys; nothing may be left, and on the simulator nothing may have been violated.
void slip_program_world_end(slip_program_world_t *world);
// The second half, after a test that closed and destroyed the worker itself.
void slip_program_world_check(slip_program_world_t *world);

// Registers |fixture| under the program contract.
int32_t slip_program_register(slip_worker_t *worker, slip_fixture_t fixture);
slip_bytes_t slip_program_image(slip_fixture_t fixture);
slip_worker_stats_t slip_program_stats(slip_worker_t *worker);

// A vector of the host with first, first + step, ... and a tensor over it.
void slip_program_fill(float *values, int64_t count, float first, float step);
void slip_program_expect(const float *values, int64_t count, float first, float step);
slip_tensor_t slip_program_host_f32(float *values, int64_t count);
slip_tensor_t slip_program_host_i64(int64_t *values, int64_t count);
// state = state * factor + term by "affine", submitted or run.
slip_status_t slip_program_submit_affine(slip_worker_t *worker, int32_t affine, const slip_tensor_t *state, int64_t factor, int64_t term,
                                         uint32_t flags, slip_run_t **out);
slip_status_t slip_program_run_affine(slip_worker_t *worker, int32_t affine, const slip_tensor_t *state, int64_t factor, int64_t term);

// Holds the execution of the worker's runs up until it is opened: by a kernel that waits on the cpu, by its stream elsewhere.
typedef struct slip_program_door_t {
  slip_program_world_t *world;
  int32_t control;
  int64_t state[4];  // of "control", on the cpu
  slip_run_t *run;
  _Atomic uint32_t open;
} slip_program_door_t;
// Takes one place among the runs that are accepted; returns once it executes.
void slip_program_hold(slip_program_world_t *world, slip_program_door_t *door);
void slip_program_let_go(slip_program_door_t *door);
// Until |condition| reads true; the runner's time-out ends a test where it never does.
#define SLIP_PROGRAM_UNTIL(condition) \
  while (!(condition)) (void)sched_yield()

#define SLIP_PROGRAM_TEST_AT(test_name, place, place_name) \
  SLIP_TEST(program_##test_name##_##place_name) {          \
    slip_program_world_t world;                            \
    slip_program_world_open(&world, place, NULL);          \
    slip_program_test_##test_name(&world);                 \
    slip_program_world_end(&world);                        \
  }
#define SLIP_PROGRAM_TEST(test_name)                                      \
  static void slip_program_test_##test_name(slip_program_world_t *world); \
  SLIP_PROGRAM_TEST_AT(test_name, SLIP_PROGRAM_CPU, cpu)                  \
  SLIP_PROGRAM_TEST_AT(test_name, SLIP_PROGRAM_CUDA, cuda)                \
  SLIP_PROGRAM_TEST_AT(test_name, SLIP_PROGRAM_ASCEND, ascend)            \
  static void slip_program_test_##test_name(slip_program_world_t *world)

#endif  // SLIPSTREAM_SRC_PROGRAM_MODE_PROGRAM_WORLD_TEST_H_
