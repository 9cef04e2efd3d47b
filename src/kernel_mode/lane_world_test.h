// SPDX-License-Identifier: Apache-2.0
// Where the tests of lanes run: each is a body over a world, made into one test per world.
//
//   cpu     the cpu without SLIP_PLATFORM_DIRECT_LAUNCH: the protocol itself, on memory that the host reaches
//   cuda    the simulator with the rules of cuda
//   ascend  the simulator with those of ascend
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_LANE_WORLD_TEST_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_LANE_WORLD_TEST_H_

#include "device_fixture.h"
#include "kernel_mode/lane.h"
#include "kernel_mode/ticket.h"

typedef enum slip_lane_place_e { SLIP_LANE_CPU, SLIP_LANE_CUDA, SLIP_LANE_ASCEND } slip_lane_place_e;

typedef struct slip_lane_world_t {
  slip_lane_place_e place;
  slip_platform_t *platform;
  slip_context_t *context;
  slip_stream_t stream;
  int32_t add;  // prepared
} slip_lane_world_t;

// Opens a context (|options| NULL: small defaults) and prepares "add". Skips the test where the build lacks the platform, or
// (|captures|) the platform captures.
void slip_lane_world_open(slip_lane_world_t *world, slip_lane_place_e place, bool captures, const slip_context_options_t *options);
// Closes; on the simulator nothing may be left and nothing may have been violated.
void slip_lane_world_end(slip_lane_world_t *world);
// The second half, after a test that closed the context itself.
void slip_lane_world_check(slip_lane_world_t *world);

slip_context_stats_t slip_lane_stats(const slip_lane_world_t *world);

// A vector of |count| floats on the device, filled with first, first + step, ...
float *slip_lane_vector(const slip_lane_world_t *world, int64_t count, float first, float step);
void slip_lane_free(const slip_lane_world_t *world, void *memory);
// Fails the test unless the vector reads first, first + step, ... The stream is waited for.
void slip_lane_expect(const slip_lane_world_t *world, slip_stream_t stream, const float *vector, int64_t count, float first, float step);
// z = x + y over |count| elements.
void slip_lane_frame(const slip_lane_world_t *world, slip_frame_t *frame, float *x, float *y, float *z, int64_t count);
slip_launch_record_t slip_lane_record(const slip_lane_world_t *world, const slip_frame_t *frame, slip_stream_t stream, uint32_t *released);
// Launches z = x + y.
void slip_lane_launch_add(const slip_lane_world_t *world, slip_stream_t stream, float *x, float *y, float *z, int64_t count,
                          slip_ticket_t **out_ticket);
slip_stream_t slip_lane_stream(const slip_lane_world_t *world);
void slip_lane_stream_end(const slip_lane_world_t *world, slip_stream_t stream);

// Holds up a stream until it is opened.
typedef struct slip_lane_door_t {
  _Atomic uint32_t open;
} slip_lane_door_t;
void slip_lane_hold(const slip_lane_world_t *world, slip_stream_t stream, slip_lane_door_t *door);
void slip_lane_let_go(slip_lane_door_t *door);

#define SLIP_LANE_TEST_AT(test_name, place, place_name, captures) \
  SLIP_TEST(lane_##test_name##_##place_name) {                    \
    slip_lane_world_t world;                                      \
    slip_lane_world_open(&world, place, captures, NULL);          \
    slip_lane_test_##test_name(&world);                           \
    slip_lane_world_end(&world);                                  \
  }
// A body that runs everywhere, or only where there are captures.
#define SLIP_LANE_TEST(test_name)                                   \
  static void slip_lane_test_##test_name(slip_lane_world_t *world); \
  SLIP_LANE_TEST_AT(test_name, SLIP_LANE_CPU, cpu, false)           \
  SLIP_LANE_TEST_AT(test_name, SLIP_LANE_CUDA, cuda, false)         \
  SLIP_LANE_TEST_AT(test_name, SLIP_LANE_ASCEND, ascend, false)     \
  static void slip_lane_test_##test_name(slip_lane_world_t *world)
#define SLIP_CAPTURE_TEST(test_name)                                \
  static void slip_lane_test_##test_name(slip_lane_world_t *world); \
  SLIP_LANE_TEST_AT(test_name, SLIP_LANE_CUDA, cuda, true)          \
  SLIP_LANE_TEST_AT(test_name, SLIP_LANE_ASCEND, ascend, true)      \
  static void slip_lane_test_##test_name(slip_lane_world_t *world)

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_LANE_WORLD_TEST_H_
