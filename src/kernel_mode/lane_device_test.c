// SPDX-License-Identifier: Apache-2.0
// Lanes and their device: which one is bound, what a broken one does, and captures of other threads.
#include <unistd.h>

#include "kernel_mode/lane_world_test.h"

enum { COUNT = 16 };

// --- binding -----------------------------------------------------------------------------------------------------------------------------

typedef struct slip_lane_elsewhere_t {
  slip_lane_world_t *world;
  slip_frame_t *frame;
  slip_stream_t stream;
} slip_lane_elsewhere_t;

// Launches, waits and closes on a thread whose current device is another one, which stays so.
static void slip_lane_elsewhere(void *user) {
  slip_lane_elsewhere_t *e = user;
  slip_context_t *context = e->world->context;
  slip_ticket_t *ticket = NULL;
  int32_t current = -1;
  SLIP_CHECK_OK(slip__platform_device_current(e->world->platform, &current));
  SLIP_CHECK_EQ(current, 0);
  for (int i = 0; i < 5; ++i) {
    SLIP_CHECK_OK(slip_context_launch(context, e->world->add, e->frame, e->stream, &ticket));
    SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
    slip_ticket_release(ticket);
  }
  SLIP_CHECK_OK(slip_context_release(context, e->world->add));
  SLIP_CHECK_OK(slip_context_drain(context));
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip__platform_device_current(e->world->platform, &current));
  SLIP_CHECK_EQ(current, 0);
}

SLIP_TEST(lane_device_is_bound_whatever_the_threads_own_is) {
  slip_lane_world_t world = {.place = SLIP_LANE_CUDA};
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_sim_options_t simulation = SLIP_SIM_OPTIONS_INIT;
  slip_frame_t frame;
  slip_stream_t stream = NULL;
  slip__thread_t thread = {0};
  void *vectors[3] = {NULL, NULL, NULL};
  SLIP_CHECK_OK(slip_platform_find("sim", &world.platform));
  SLIP_CHECK_OK(slip_sim_reset(&simulation));
  SLIP_CHECK_OK(slip_sim_set_device(1));
  options.platform = "sim";
  options.device = 1;
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  SLIP_CHECK_OK(slip_context_open(&options, &world.context));
  world.add = slip_fixture_prepare(world.context, slip_fixture_add());
  SLIP_CHECK_OK(slip_stream_create(world.platform, 1, &stream));
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_OK(slip_memory_allocate(world.platform, 1, COUNT * sizeof(float), &vectors[i]));
    SLIP_CHECK_OK(slip__platform_memory_fill(world.platform, 1, vectors[i], 0, COUNT * sizeof(float)));
  }
  slip_lane_frame(&world, &frame, vectors[0], vectors[1], vectors[2], COUNT);
  slip_stream_t other = NULL;
  SLIP_CHECK_ERROR(slip_context_launch(world.context, world.add, &frame, NULL, NULL), SLIP_CODE_INVALID_ARGUMENT, "; name a stream [");
  SLIP_CHECK_OK(slip_sim_set_device(0));
  SLIP_CHECK_OK(slip_stream_create(world.platform, 0, &other));
  SLIP_CHECK_ERROR(slip_context_launch(world.context, world.add, &frame, other, NULL), SLIP_CODE_INVALID_ARGUMENT,
                   "the stream belongs to device 0, but the context is open on sim:1; launch on a stream of device 1");
  SLIP_CHECK_OK(slip_stream_destroy(world.platform, other));
  SLIP_CHECK_OK(slip_sim_set_device(1));
  slip_lane_elsewhere_t elsewhere = {&world, &frame, stream};
  SLIP_CHECK_OK(slip__thread_start(&thread, "elsewhere", slip_lane_elsewhere, &elsewhere));
  slip__thread_join(&thread);
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_OK(slip_context_destroy(world.context));
  SLIP_CHECK_OK(slip_stream_synchronize(world.platform, stream));
  SLIP_CHECK_OK(slip_stream_destroy(world.platform, stream));
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip_memory_free(world.platform, 1, vectors[i]));
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
  SLIP_CHECK_EQ(slip_sim_lifecycle_calls(), 3);  // the test's own
}

SLIP_CAPTURE_TEST(a_stream_of_another_device_is_refused) {
  slip_stream_t other = NULL;
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  float *x = slip_lane_vector(world, COUNT, 0, 1);
  SLIP_CHECK_OK(slip__platform_device_push(world->platform, 1));
  SLIP_CHECK_OK(slip_stream_create(world->platform, 1, &other));
  SLIP_CHECK_OK(slip__platform_device_pop(world->platform, 1));
  slip_lane_frame(world, &frame, x, x, x + 0, COUNT);
  SLIP_CHECK_ERROR(slip_context_launch(world->context, world->add, &frame, other, &ticket), SLIP_CODE_INVALID_ARGUMENT, "device 1");
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_OK(slip__platform_device_push(world->platform, 1));
  SLIP_CHECK_OK(slip_stream_destroy(world->platform, other));
  SLIP_CHECK_OK(slip__platform_device_pop(world->platform, 1));
  slip_lane_free(world, x);
}

SLIP_CAPTURE_TEST(a_binding_that_fails_is_told) {
  static uint32_t released;  // counted until the world ends
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 9, 0);
  slip_lane_frame(world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, world->stream, &released);
  slip__platform_fault_set(SLIP__PLATFORM_CALL_DEVICE_PUSH, 1, false);
  SLIP_CHECK_CODE(slip_launch(&record, &ticket), SLIP_CODE_DEVICE);
  SLIP_CHECK_EQ(released, 1);  // refused: nothing happened
  SLIP_CHECK_OK(slip_launch(&record, &ticket));
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  slip_ticket_release(ticket);
  SLIP_CHECK_EQ(released, 2);
  ticket = NULL;
  slip__platform_fault_set(SLIP__PLATFORM_CALL_DEVICE_POP, 1, false);
  SLIP_CHECK_CODE(slip_launch(&record, &ticket), SLIP_CODE_DEVICE);
  SLIP_CHECK(ticket == NULL);
  SLIP_CHECK_CODE(slip_launch(&record, &ticket), SLIP_CODE_POISONED);  // it was enqueued, and this thread's binding is owed
  SLIP_CHECK(slip__context_bound(world->context));                     // close takes the binding over and gives it back
  slip_frame_deinitialize(&frame);
  slip_lane_expect(world, world->stream, z, COUNT, 3, 1);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}

// --- broken devices ----------------------------------------------------------------------------------------------------------------------

static void slip_lane_test_broken(slip_lane_place_e place) {
  uint32_t released = 0;
  slip_lane_world_t world;
  slip_lane_door_t door = {0};
  slip_frame_t frame;
  slip_ticket_t *tickets[4], *late = NULL;
  slip_lane_world_open(&world, place, false, NULL);
  float *x = slip_lane_vector(&world, COUNT, 0, 1), *y = slip_lane_vector(&world, COUNT, 3, 0), *z = slip_lane_vector(&world, COUNT, 9, 0);
  slip_lane_frame(&world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(&world, &frame, world.stream, &released);
  slip_lane_hold(&world, world.stream, &door);
  for (int i = 0; i < 4; ++i) SLIP_CHECK_OK(slip_launch(&record, &tickets[i]));
  SLIP_CHECK_OK(slip_sim_break_device(0));
  // Not poisoned yet: the platform's own answer, and nothing of the launch is left.
  slip_status_t status = slip_launch(&record, &late);
  SLIP_CHECK(slip_status_platform_code(status) != 0);
  SLIP_CHECK_CODE(status, SLIP_CODE_DEVICE);
  SLIP_CHECK_EQ(released, 1);
  slip_lane_let_go(&door);
  for (int i = 0; i < 4; ++i) {
    SLIP_CHECK_ERROR(slip_ticket_wait(tickets[i], -1), SLIP_CODE_DEVICE, "did not run the launch");
    slip_ticket_release(tickets[i]);
  }
  SLIP_CHECK_EQ(released, 5);
  SLIP_CHECK_CODE(slip_launch(&record, &late), SLIP_CODE_POISONED);
  SLIP_CHECK_CODE(slip_context_drain(world.context), SLIP_CODE_POISONED);
  SLIP_CHECK_EQ(slip_lane_stats(&world).faulted, 4);
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_CODE(slip_context_close(world.context), SLIP_CODE_DEVICE);
    SLIP_CHECK_EQ(slip_context_state(world.context), SLIP_CONTEXT_CLOSING);
  }
  // The device's owner resets it: what we had there is gone, which close tells once.
  SLIP_CHECK_OK(slip_sim_reset_device(0));
  SLIP_CHECK_CODE(slip_context_close(world.context), SLIP_CODE_DEVICE);
  SLIP_CHECK_EQ(slip_context_state(world.context), SLIP_CONTEXT_CLOSED);
  SLIP_CHECK_OK(slip_context_close(world.context));
  SLIP_CHECK_OK(slip_context_destroy(world.context));
  slip_frame_deinitialize(&frame);
  slip_fixture_sim_check_empty();
}
SLIP_TEST(lane_broken_device_is_told_by_every_ticket_cuda) {
  slip_lane_test_broken(SLIP_LANE_CUDA);
}
SLIP_TEST(lane_broken_device_is_told_by_every_ticket_ascend) {
  slip_lane_test_broken(SLIP_LANE_ASCEND);
}

// --- captures of other threads -----------------------------------------------------------------------------------------------------------

static void slip_lane_wait_long(void *user) {
  SLIP_CHECK_OK(slip_ticket_wait(user, -1));
}

SLIP_CAPTURE_TEST(a_waiting_thread_disturbs_no_global_capture) {
  slip_lane_door_t door = {0};
  slip_ticket_t *ticket = NULL;
  slip_graph_exec_t graph = NULL;
  slip__thread_t waiter = {0};
  slip_stream_t held = slip_lane_stream(world);
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 9, 0),
        *w = slip_lane_vector(world, COUNT, 9, 0);
  slip_lane_hold(world, held, &door);
  slip_lane_launch_add(world, held, x, y, z, COUNT, &ticket);
  SLIP_CHECK_OK(slip__thread_start(&waiter, "waiter", slip_lane_wait_long, ticket));
  usleep(20000);
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_GLOBAL));
  slip_lane_launch_add(world, world->stream, x, y, w, COUNT, NULL);
  usleep(200000);                                           // the waiter asks for the device several times
  slip_lane_launch_add(world, held, x, y, z, COUNT, NULL);  // an eager launch is legal, and reaps nothing here
  slip_lane_let_go(&door);
  slip__thread_join(&waiter);
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &graph));
  SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, graph, world->stream));
  slip_lane_expect(world, world->stream, w, COUNT, 3, 1);
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, graph));
  slip_ticket_release(ticket);
  slip_lane_stream_end(world, held);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
  slip_lane_free(world, w);
}

// Owners are somebody else's code: none is released by a thread in a capture.
SLIP_CAPTURE_TEST(nothing_is_reaped_in_a_capture) {
  uint32_t released = 0;
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  slip_graph_exec_t graph = NULL;
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 9, 0);
  slip_lane_frame(world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, world->stream, &released);
  SLIP_CHECK_OK(slip_launch(&record, &ticket));
  SLIP_CHECK_OK(slip_stream_synchronize(world->platform, world->stream));
  SLIP_CHECK_OK(slip_context_release(world->context, world->add));  // reaps: but the ticket may not be done yet
  uint32_t before = __atomic_load_n(&released, __ATOMIC_SEQ_CST);
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  usleep(20000);
  SLIP_CHECK_CODE(slip_launch(&record, NULL), SLIP_CODE_NOT_PREPARED);  // a refusal sweeps nothing either
  SLIP_CHECK_CODE(slip_ticket_query(ticket), before ? SLIP_CODE_OK : SLIP_CODE_NOT_READY);
  SLIP_CHECK_EQ(released, before + 1);
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &graph));
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  SLIP_CHECK_EQ(released, 2);
  SLIP_CHECK_EQ(slip_lane_stats(world).resident_bytes, 0);
  slip_ticket_release(ticket);
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, graph));
  slip_frame_deinitialize(&frame);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}

SLIP_CAPTURE_TEST(a_full_queue_is_busy_in_a_capture_of_the_same_thread) {
  enum { PLACES = 64 };
  slip_lane_door_t door = {0};
  static uint32_t released;  // counted until the world ends
  slip_frame_t frame;
  slip_graph_exec_t graph = NULL;
  slip_stream_t held = slip_lane_stream(world);
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 9, 0);
  slip_lane_frame(world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, held, &released);
  slip_lane_hold(world, held, &door);
  for (int i = 0; i < PLACES; ++i) SLIP_CHECK_OK(slip_launch(&record, NULL));
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  SLIP_CHECK_ERROR(slip_launch(&record, NULL), SLIP_CODE_BUSY, "in a capture");
  SLIP_CHECK_EQ(released, 1);
  record.stream = world->stream;
  SLIP_CHECK_OK(slip_launch(&record, NULL));  // captured ones have places of their own
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &graph));
  slip_lane_let_go(&door);
  SLIP_CHECK_OK(slip_context_drain(world->context));
  SLIP_CHECK_EQ(released, PLACES + 1);
  SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, graph, world->stream));
  slip_lane_expect(world, world->stream, z, COUNT, 3, 1);
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, graph));
  slip_lane_stream_end(world, held);
  slip_frame_deinitialize(&frame);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}
