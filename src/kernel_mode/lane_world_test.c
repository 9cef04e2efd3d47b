// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/lane_world_test.h"

#include <unistd.h>

static slip_context_options_t slip_lane_world_options(const slip_lane_world_t *world, const slip_context_options_t *wanted) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  if (wanted) options = *wanted;
  options.platform = world->place == SLIP_LANE_CPU ? "cpu" : "sim";
  options.flags |= SLIP_CONTEXT_SINGLE_THREAD;
  if (options.max_pending == 0) options.max_pending = 64;
  if (options.max_captured == 0) options.max_captured = 64;
  return options;
}

static void slip_lane_world_power_on(slip_lane_world_t *world) {
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  options.flavour = world->place == SLIP_LANE_CUDA ? SLIP_SIM_FLAVOUR_CUDA : SLIP_SIM_FLAVOUR_ASCEND;
  options.seed = slip_test_seed();
  SLIP_CHECK_OK(slip_sim_reset(&options));
}

void slip_lane_world_open(slip_lane_world_t *world, slip_lane_place_e place, bool captures, const slip_context_options_t *wanted) {
  memset(world, 0, sizeof(*world));
  world->place = place;
  slip_status_t status = slip_platform_find(place == SLIP_LANE_CPU ? "cpu" : "sim", &world->platform);
  if (slip_status_code(status) == SLIP_CODE_NOT_FOUND) {
    slip_status_free(status);
    slip_test_skip("this build has no platform \"sim\"");
  }
  SLIP_CHECK_OK(status);
  if (place == SLIP_LANE_CPU) {
    // One process per test: nobody else sees it.
    world->platform->handshake.capabilities &= ~(uint32_t)SLIP_PLATFORM_DIRECT_LAUNCH;
  } else {
    slip_lane_world_power_on(world);
  }
  if (captures && (slip__platform_capabilities(world->platform) & SLIP_PLATFORM_CAN_CAPTURE) == 0)
    slip_test_skip("the platform does not capture");
  slip_context_options_t options = slip_lane_world_options(world, wanted);
  SLIP_CHECK_OK(slip_context_open(&options, &world->context));
  SLIP_CHECK(world->context->lanes != NULL);
  world->stream = slip_lane_stream(world);
  world->add = slip_fixture_prepare(world->context, slip_fixture_add());
}

void slip_lane_world_check(slip_lane_world_t *world) {
  slip_lane_stream_end(world, world->stream);
  SLIP_CHECK_OK(slip_context_destroy(world->context));
  if (world->place == SLIP_LANE_CPU) return;
  slip_fixture_sim_check_clean("after the test");
}

void slip_lane_world_end(slip_lane_world_t *world) {
  SLIP_CHECK_OK(slip_context_close(world->context));
  slip_lane_world_check(world);
}

slip_context_stats_t slip_lane_stats(const slip_lane_world_t *world) {
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_OK(slip_context_stats(world->context, &stats));
  return stats;
}

float *slip_lane_vector(const slip_lane_world_t *world, int64_t count, float first, float step) {
  return slip_fixture_ramp(world->platform, 0, count, first, step);
}

void slip_lane_free(const slip_lane_world_t *world, void *memory) {
  SLIP_CHECK_OK(slip_memory_free(world->platform, 0, memory));
}

void slip_lane_expect(const slip_lane_world_t *world, slip_stream_t stream, const float *vector, int64_t count, float first, float step) {
  void *host = NULL;
  SLIP_CHECK_OK(slip_host_allocate(world->platform, (uint64_t)count * sizeof(float), &host));
  const float *values = host;
  SLIP_CHECK_OK(slip_memory_copy_async(world->platform, stream, host, vector, (uint64_t)count * sizeof(float), SLIP_COPY_DEVICE_TO_HOST));
  SLIP_CHECK_OK(slip_stream_synchronize(world->platform, stream));
  for (int64_t i = 0; i < count; ++i) {
    if (values[i] != first + step * (float)i)
      slip_test_fail(__FILE__, __LINE__, "element %lld is %g, expected %g", (long long)i, (double)values[i],
                     (double)(first + step * (float)i));
  }
  SLIP_CHECK_OK(slip_host_free(world->platform, host));
}

void slip_lane_frame(const slip_lane_world_t *world, slip_frame_t *frame, float *x, float *y, float *z, int64_t count) {
  slip_fixture_frame_add(frame, world->context, world->add, x, y, z, count);
}

static void slip_lane_count(void *user) {
  __atomic_add_fetch((uint32_t *)user, 1, __ATOMIC_SEQ_CST);
}

slip_launch_record_t slip_lane_record(const slip_lane_world_t *world, const slip_frame_t *frame, slip_stream_t stream, uint32_t *released) {
  return (slip_launch_record_t){.struct_size = sizeof(slip_launch_record_t),
                                .id = world->add,
                                .context = world->context,
                                .frame = frame,
                                .stream = stream,
                                .release = released ? slip_lane_count : NULL,
                                .user = released};
}

void slip_lane_launch_add(const slip_lane_world_t *world, slip_stream_t stream, float *x, float *y, float *z, int64_t count,
                          slip_ticket_t **out_ticket) {
  slip_frame_t frame;
  slip_lane_frame(world, &frame, x, y, z, count);
  SLIP_CHECK_OK(slip_context_launch(world->context, world->add, &frame, stream, out_ticket));
  slip_frame_deinitialize(&frame);
}

slip_stream_t slip_lane_stream(const slip_lane_world_t *world) {
  slip_stream_t stream = NULL;
  SLIP_CHECK_OK(slip_stream_create(world->platform, 0, &stream));
  return stream;
}
void slip_lane_stream_end(const slip_lane_world_t *world, slip_stream_t stream) {
  SLIP_CHECK_OK(slip_stream_synchronize(world->platform, stream));
  SLIP_CHECK_OK(slip_stream_destroy(world->platform, stream));
}

static void slip_lane_at_the_door(void *user) {
  slip_lane_door_t *door = user;
  while (!atomic_load(&door->open)) usleep(100);
}
void slip_lane_hold(const slip_lane_world_t *world, slip_stream_t stream, slip_lane_door_t *door) {
  SLIP_CHECK_OK(slip_stream_enqueue_host(world->platform, stream, slip_lane_at_the_door, door));
}
void slip_lane_let_go(slip_lane_door_t *door) {
  atomic_store(&door->open, 1);
}
