// SPDX-License-Identifier: Apache-2.0
// What callables do wrong with memory on the simulator: who did it is named, once; and failures of mapping that are nobody's fault.
#include "kernel_mode/lane_world_test.h"

enum { COUNT = 16 };

// How often |part| occurs.
static int slip_memory_occurrences(const char *text, const char *part) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, part)) != NULL; ++at) ++count;
  return count;
}

// |status| is the device's, names |who| and |what| once. Consumes it.
static void slip_memory_accused(slip_status_t status, const char *who, const char *what) {
  char text[4000];
  SLIP_CHECK_EQ(slip_status_code(status), SLIP_CODE_DEVICE);
  (void)slip_status_format(status, text, sizeof(text));
  slip_status_free(status);
  if (slip_memory_occurrences(text, who) != 1 || slip_memory_occurrences(text, what) != 1)
    slip_test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\" and \"%s\", each once", text, who, what);
}

// After a launch that broke the device.
static void slip_memory_end_broken(slip_lane_world_t *world, const char *who) {
  char text[1000] = "";
  slip_stream_t none = NULL;
  SLIP_CHECK_EQ(slip_sim_violation_count(), 1);
  (void)slip_sim_violation(0, text, sizeof(text));
  SLIP_CHECK_EQ(slip_memory_occurrences(text, who), 1);
  slip_memory_accused(slip_stream_create(world->platform, 0, &none), who, "until it is reset");  // later calls name the cause, too
  SLIP_CHECK_OK(slip_sim_reset_device(0));
  slip_status_free(slip_context_close(world->context));
  SLIP_CHECK_OK(slip_context_close(world->context));
  SLIP_CHECK_OK(slip_context_destroy(world->context));
  slip_fixture_sim_check_empty();
}

static slip_status_t slip_memory_launch(slip_lane_world_t *world, int32_t id, const char *name, const slip_arg_t *args, uint32_t count) {
  slip_signature_t *signature = NULL;
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  slip_lane_door_t door = {0};
  SLIP_CHECK_OK(slip_context_signature(world->context, id, &signature));
  SLIP_CHECK_OK(slip_frame_initialize(&frame, signature, name, slip_context_device(world->context), args, count, 0));
  slip_signature_release(signature);
  slip_lane_hold(world, world->stream, &door);  // the device breaks after the launch was enqueued
  SLIP_CHECK_OK(slip_context_launch(world->context, id, &frame, world->stream, &ticket));
  slip_lane_let_go(&door);
  slip_status_t status = slip_ticket_wait(ticket, -1);
  slip_ticket_release(ticket);
  slip_frame_deinitialize(&frame);
  return status;
}

static slip_status_t slip_memory_add(slip_lane_world_t *world, int32_t id, void *x, void *y, void *z, int64_t z_count) {
  slip_device_t device = slip_context_device(world->context);
  slip_tensor_t tx = slip_fixture_tensor(SLIP_DTYPE_F32, x, COUNT, device), ty = slip_fixture_tensor(SLIP_DTYPE_F32, y, COUNT, device),
                tz = slip_fixture_tensor(SLIP_DTYPE_F32, z, z_count, device);
  slip_arg_t args[3] = {slip_arg_tensor(&tx, x), slip_arg_tensor(&ty, y), slip_arg_tensor(&tz, z)};
  return slip_memory_launch(world, id, "add", args, 3);
}

// z ends where x begins, and the kernel writes one element more than z has.
static void slip_memory_test_input(slip_lane_place_e place) {
  slip_lane_world_t world;
  slip_lane_world_open(&world, place, false, NULL);
  slip_fixture_t fixture = slip_fixture_add();
  fixture.signature = "(in x: f32[N], y: f32[N], out z: f32[M]) -> (z)";
  int32_t id = slip_fixture_prepare(world.context, fixture);
  float *both = slip_lane_vector(&world, 2 * COUNT, 0, 1), *y = slip_lane_vector(&world, COUNT, 3, 0);
  slip_memory_accused(slip_memory_add(&world, id, both + COUNT - 1, y, both, COUNT - 1), "tensor \"x\" of callable \"add\"",
                      "wrote what it has for reading only: 64 bytes");
  slip_memory_end_broken(&world, "tensor \"x\" of callable \"add\"");
}
SLIP_TEST(lane_memory_a_callable_that_writes_its_input_is_named_cuda) {
  slip_memory_test_input(SLIP_LANE_CUDA);
}
SLIP_TEST(lane_memory_a_callable_that_writes_its_input_is_named_ascend) {
  slip_memory_test_input(SLIP_LANE_ASCEND);
}

SLIP_TEST(lane_memory_a_write_out_of_bounds_is_named) {
  slip_lane_world_t world;
  slip_lane_world_open(&world, SLIP_LANE_CUDA, false, NULL);
  slip_fixture_t fixture = slip_fixture_add();
  fixture.signature = "(in x: f32[N], y: f32[N], out z: f32[M]) -> (z)";
  int32_t id = slip_fixture_prepare(world.context, fixture);
  float *x = slip_lane_vector(&world, COUNT, 0, 1), *y = slip_lane_vector(&world, COUNT, 3, 0),
        *z = slip_lane_vector(&world, COUNT - 1, 9, 0);
  slip_memory_accused(slip_memory_add(&world, id, x, y, z, COUNT - 1), "tensor \"z\" of callable \"add\"", "out of bounds: byte 60 of");
  slip_memory_end_broken(&world, "tensor \"z\" of callable \"add\"");
}

SLIP_TEST(lane_memory_a_host_pointer_is_named) {
  slip_lane_world_t world;
  static float host[COUNT];
  slip_lane_world_open(&world, SLIP_LANE_CUDA, false, NULL);
  float *x = slip_lane_vector(&world, COUNT, 0, 1), *z = slip_lane_vector(&world, COUNT, 9, 0);
  slip_memory_accused(slip_memory_add(&world, world.add, x, host, z, COUNT), "tensor \"y\" of callable \"add\"",
                      "is pageable host memory where memory of device 0 is needed: allocate that with slip_memory_allocate()");
  slip_memory_end_broken(&world, "tensor \"y\" of callable \"add\"");
}

// The platform's failure is not the library's mistake: nothing stays in use that is not.
static void slip_memory_test_fault(slip__platform_call_e call, const char *say) {
  for (uint64_t nth = 1; nth <= 4; ++nth) {
    slip_lane_world_t world;
    slip_lane_world_open(&world, SLIP_LANE_CUDA, false, NULL);
    float *x = slip_lane_vector(&world, COUNT, 0, 1), *y = slip_lane_vector(&world, COUNT, 3, 0),
          *z = slip_lane_vector(&world, COUNT, 9, 0);
    slip__platform_fault_set(call, nth, false);
    SLIP_CHECK_ERROR(slip_memory_add(&world, world.add, x, y, z, COUNT), SLIP_CODE_DEVICE, say ? say : "fails on request");
    slip__platform_fault_clear();
    SLIP_CHECK_OK(slip_context_close(world.context));
    slip_lane_free(&world, x);
    slip_lane_free(&world, y);
    slip_lane_free(&world, z);
    slip_lane_world_check(&world);
  }
}
SLIP_TEST(lane_memory_a_map_that_fails_leaves_nothing_in_use) {
  slip_memory_test_fault(SLIP__PLATFORM_CALL_DEVICE_MAP, "of callable \"add\"");
}
SLIP_TEST(lane_memory_an_unmap_that_fails_leaves_nothing_in_use) {
  slip_memory_test_fault(SLIP__PLATFORM_CALL_DEVICE_UNMAP, NULL);
}

SLIP_LANE_TEST(a_symbol_that_the_platform_cannot_give_is_no_broken_image) {
  slip_fixture_t fixture = slip_fixture_affine();
  slip_bytes_t image = slip_fixture_pack(&fixture);
  int32_t id = -1;
  slip__platform_fault_set(SLIP__PLATFORM_CALL_MODULE_SYMBOL, 1, false);
  SLIP_CHECK_CODE(slip_context_prepare(world->context, slip_fixture_bytes(image), &id), SLIP_CODE_DEVICE);
  slip__platform_fault_clear();
  SLIP_CHECK_OK(slip_context_prepare(world->context, slip_fixture_bytes(image), &id));
  slip_fixture_free(image);
}
