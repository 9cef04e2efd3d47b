// SPDX-License-Identifier: Apache-2.0
#include "fault_use.h"

static void fault_released(void *user) {
  atomic_fetch_add((_Atomic uint32_t *)user, 1);
}

slip_status_t fault_launch(fault_world_t *world, const slip_frame_t *frame, slip_stream_t stream, slip_ticket_t **out_ticket) {
  slip_launch_record_t record = {.struct_size = sizeof(record),
                                 .id = world->add,
                                 .context = world->context,
                                 .frame = frame,
                                 .stream = stream,
                                 .release = fault_released,
                                 .user = &world->released};
  ++world->records;
  return slip_launch(&record, out_ticket);
}

// --- values ------------------------------------------------------------------------------------------------------------------------------

static const uint64_t fault_bytes = FAULT_ELEMENTS * sizeof(float);

void fault_blank(fault_world_t *world) {
  for (int i = 0; i < FAULT_ELEMENTS; ++i) world->host[i] = -1;
  fault_check(world, slip_memory_copy_async(world->platform, world->stream, world->z, world->host, fault_bytes, SLIP_COPY_HOST_TO_DEVICE),
              SLIP_CODE_OK, "a copy on the caller's stream");
  fault_check(world, slip_stream_synchronize(world->platform, world->stream), SLIP_CODE_OK, "waiting for the caller's stream");
}

void fault_expect(fault_world_t *world, float x_factor, float y_factor, const char *what) {
  float *got = world->host + FAULT_ELEMENTS;
  fault_check(world, slip_memory_copy_async(world->platform, world->stream, got, world->z, fault_bytes, SLIP_COPY_DEVICE_TO_HOST),
              SLIP_CODE_OK, "a copy on the caller's stream");
  fault_check(world, slip_stream_synchronize(world->platform, world->stream), SLIP_CODE_OK, "waiting for the caller's stream");
  for (int i = 0; i < FAULT_ELEMENTS; ++i) {
    float expected = (x_factor + 10 * y_factor) * (float)(i + 1);
    if (got[i] == expected) continue;
    fault_wrong(world, "%s: element %d is %g, expected %g", what, i, (double)got[i], (double)expected);
    break;
  }
}

void fault_expect_sum(fault_world_t *world, const char *what) {
  fault_expect(world, 1, 1, what);
}

slip_context_stats_t fault_stats(fault_world_t *world) {
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  fault_check(world, slip_context_stats(world->context, &stats), SLIP_CODE_OK, "stats");
  return stats;
}

// --- afterwards --------------------------------------------------------------------------------------------------------------------------

void fault_use_stream(fault_world_t *world) {
  float *in = world->host, *out = world->host + FAULT_ELEMENTS;
  slip_platform_t *platform = world->platform;
  for (int i = 0; i < FAULT_ELEMENTS; ++i) {
    in[i] = 100 + (float)i;
    out[i] = 0;
  }
  fault_check(world, slip_memory_copy_async(platform, world->stream, world->spare, in, fault_bytes, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_OK,
              "a later copy to the device");
  fault_check(world, slip_memory_copy_async(platform, world->stream, out, world->spare, fault_bytes, SLIP_COPY_DEVICE_TO_HOST),
              SLIP_CODE_OK, "a later copy from the device");
  fault_check(world, slip_stream_synchronize(platform, world->stream), SLIP_CODE_OK, "waiting for the caller's stream");
  if (memcmp(in, out, fault_bytes) != 0) fault_wrong(world, "copies on the caller's stream lost their order");
}

static void fault_use_launch(fault_world_t *world, slip_stream_t stream, const char *what) {
  slip_ticket_t *ticket = NULL;
  fault_blank(world);
  slip_status_t status = fault_launch(world, &world->frame, stream, &ticket);
  bool launched = slip_status_is_ok(status);
  fault_check(world, status, SLIP_CODE_OK, what);
  if (!launched) return;
  fault_expect_sum(world, what);  // ordered by the stream alone
  fault_check(world, slip_ticket_wait(ticket, -1), SLIP_CODE_OK, "its ticket");
  slip_ticket_release(ticket);
}

static void fault_use_poisoned(fault_world_t *world) {
  slip_ticket_t *ticket = NULL;
  int32_t id = 0;
  fault_check(world, fault_launch(world, &world->frame, world->stream, &ticket), SLIP_CODE_POISONED, "a launch on a poisoned context");
  if (ticket) fault_wrong(world, "a launch on a poisoned context gave a ticket");
  fault_check(world, slip_context_prepare(world->context, slip_fixture_bytes(world->scratch_image), &id), SLIP_CODE_POISONED,
              "prepare on a poisoned context");
  if (id != -1) fault_wrong(world, "a refused prepare gave the id %d", id);
  fault_check(world, slip_context_drain(world->context), SLIP_CODE_POISONED, "drain of a poisoned context");
}

void fault_use(fault_world_t *world, bool poisoned) {
  fault_use_stream(world);
  if (poisoned) {
    fault_use_poisoned(world);
    return;
  }
  if (!fault_on_sim(world)) fault_use_launch(world, SLIP_STREAM_INLINE, "a later inline launch");
  fault_use_launch(world, world->stream, "a later launch on the stream");
}

void fault_check_capture(fault_world_t *world) {
  slip_capture_info_t info = {0, 0, 0};
  uint32_t expected = world->capturing ? SLIP_CAPTURE_ACTIVE : SLIP_CAPTURE_NONE;
  fault_check(world, slip_stream_capture_info(world->platform, world->stream, &info), SLIP_CODE_OK, "asking for the capture");
  if (info.state != expected) fault_wrong(world, "the capture's state is %u, expected %u", info.state, expected);
}
