// SPDX-License-Identifier: Apache-2.0
// Eager launches through lanes.
#include <unistd.h>

#include "kernel_mode/lane_world_test.h"

SLIP_LANE_TEST(launches_are_ordered_in_their_stream) {
  enum { COUNT = 100, LAUNCHES = 40 };
  float *x = slip_lane_vector(world, COUNT, 1, 0), *a = slip_lane_vector(world, COUNT, 0, 1), *b = slip_lane_vector(world, COUNT, 0, 0);
  slip_ticket_t *ticket = NULL;
  // A chain a -> b -> a ..., each one more: any that overtook another would be seen.
  for (int i = 0; i < LAUNCHES; ++i) {
    slip_ticket_t **out = i + 1 == LAUNCHES ? &ticket : NULL;
    slip_lane_launch_add(world, world->stream, i % 2 ? b : a, x, i % 2 ? a : b, COUNT, out);
  }
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  SLIP_CHECK_OK(slip_ticket_query(ticket));
  slip_ticket_release(ticket);
  slip_lane_expect(world, world->stream, a, COUNT, LAUNCHES, 1);
  SLIP_CHECK_OK(slip_context_drain(world->context));
  slip_context_stats_t stats = slip_lane_stats(world);
  SLIP_CHECK_EQ(stats.launches, LAUNCHES);
  SLIP_CHECK_EQ(stats.retired, LAUNCHES);
  SLIP_CHECK_EQ(stats.tasks, LAUNCHES);
  SLIP_CHECK_EQ(stats.pending, 0);
  SLIP_CHECK_EQ(stats.faulted, 0);
  slip_lane_free(world, x);
  slip_lane_free(world, a);
  slip_lane_free(world, b);
}

SLIP_LANE_TEST(work_before_is_seen_and_work_after_sees) {
  enum { COUNT = 5000 };
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 0, 2), *z = slip_lane_vector(world, COUNT, 0, 0);
  float *source = slip_lane_vector(world, COUNT, 5, 1);
  for (int round = 0; round < 20; ++round) {
    SLIP_CHECK_OK(slip_memory_copy_async(world->platform, world->stream, x, round % 2 ? y : source, COUNT * sizeof(float),
                                         SLIP_COPY_DEVICE_TO_DEVICE));
    slip_lane_launch_add(world, world->stream, x, y, z, COUNT, NULL);
    slip_lane_expect(world, world->stream, z, COUNT, round % 2 ? 0 : 5, round % 2 ? 4 : 3);
  }
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
  slip_lane_free(world, source);
}

SLIP_LANE_TEST(views_of_one_allocation_keep_their_distance) {
  enum { COUNT = 64 };
  // x, y, z are three parts of one allocation, z overlapping nothing.
  float *all = slip_lane_vector(world, 3 * COUNT, 0, 1);
  slip_lane_launch_add(world, world->stream, all, all + COUNT, all + 2 * COUNT, COUNT, NULL);
  slip_lane_expect(world, world->stream, all + 2 * COUNT, COUNT, COUNT, 2);
  slip_lane_expect(world, world->stream, all, 2 * COUNT, 0, 1);
  slip_lane_free(world, all);
}

SLIP_LANE_TEST(a_stream_that_is_held_up_holds_up_no_other) {
  enum { COUNT = 8 };
  slip_lane_door_t door = {0};
  slip_stream_t held = slip_lane_stream(world);
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 0, 0),
        *w = slip_lane_vector(world, COUNT, 0, 0);
  slip_ticket_t *stuck[6], *ticket = NULL;
  slip_lane_hold(world, held, &door);
  for (int i = 0; i < 6; ++i) slip_lane_launch_add(world, held, x, y, z, COUNT, &stuck[i]);
  for (int i = 0; i < 6; ++i) {
    slip_lane_launch_add(world, world->stream, x, y, w, COUNT, &ticket);
    SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
    slip_ticket_release(ticket);
  }
  slip_lane_expect(world, world->stream, w, COUNT, 3, 1);
  for (int i = 0; i < 6; ++i) SLIP_CHECK_CODE(slip_ticket_query(stuck[i]), SLIP_CODE_NOT_READY);
  SLIP_CHECK_CODE(slip_ticket_wait(stuck[0], 60000000), SLIP_CODE_TIMEOUT);
  slip_lane_let_go(&door);
  for (int i = 0; i < 6; ++i) {
    SLIP_CHECK_OK(slip_ticket_wait(stuck[i], -1));
    slip_ticket_release(stuck[i]);
  }
  slip_lane_expect(world, held, z, COUNT, 3, 1);
  slip_lane_stream_end(world, held);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
  slip_lane_free(world, w);
}

SLIP_LANE_TEST(more_launches_than_places_wait_or_are_busy) {
  enum { COUNT = 8, PLACES = 64 };
  slip_lane_door_t door = {0};
  uint32_t released = 0;
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 0, 0);
  slip_lane_frame(world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, world->stream, &released);
  slip_lane_hold(world, world->stream, &door);
  for (int i = 0; i < PLACES; ++i) SLIP_CHECK_OK(slip_launch(&record, NULL));
  record.flags = SLIP_LAUNCH_NO_WAIT;
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_BUSY, "max_pending");
  SLIP_CHECK(ticket == NULL);
  SLIP_CHECK_EQ(released, 1);
  SLIP_CHECK_EQ(slip_lane_stats(world).pending, PLACES);
  slip_lane_let_go(&door);
  record.flags = 0;
  for (int i = 0; i < 3 * PLACES; ++i) SLIP_CHECK_OK(slip_launch(&record, NULL));
  SLIP_CHECK_OK(slip_context_drain(world->context));
  SLIP_CHECK_EQ(__atomic_load_n(&released, __ATOMIC_SEQ_CST), 4 * PLACES + 1);
  SLIP_CHECK_EQ(slip_lane_stats(world).retired, 4 * PLACES);
  slip_frame_deinitialize(&frame);
  slip_lane_expect(world, world->stream, z, COUNT, 3, 1);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}

SLIP_LANE_TEST(a_callable_that_fails_tells_through_the_ticket) {
  int32_t id = slip_fixture_prepare(world->context, slip_fixture_control());
  float *state = slip_lane_vector(world, 8, 0, 0);
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  slip_fixture_frame_control(&frame, world->context, id, (int64_t *)(void *)state, 1, 1);
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_OK(slip_context_launch(world->context, id, &frame, world->stream, &ticket));
    SLIP_CHECK_ERROR(slip_ticket_wait(ticket, -1), SLIP_CODE_GRAPH_USER_FAIL, "asked to fail");
    slip_ticket_release(ticket);
  }
  SLIP_CHECK_EQ(slip_lane_stats(world).faulted, 3);  // and the context goes on
  slip_frame_deinitialize(&frame);
  slip_lane_free(world, state);
}

SLIP_LANE_TEST(refusals_leave_no_trace) {
  enum { COUNT = 4 };
  uint32_t released = 0;
  slip_frame_t frame;
  slip_ticket_t *ticket = NULL;
  float *x = slip_lane_vector(world, COUNT, 0, 1), *y = slip_lane_vector(world, COUNT, 3, 0), *z = slip_lane_vector(world, COUNT, 9, 0);
  slip_lane_frame(world, &frame, x, y, z, COUNT);
  slip_launch_record_t record = slip_lane_record(world, &frame, NULL, &released);
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_INVALID_ARGUMENT, "stream is NULL");
  record.stream = (slip_stream_t)(uintptr_t)0x5550;
  SLIP_CHECK_CODE(slip_launch(&record, &ticket), SLIP_CODE_INVALID_ARGUMENT);
  record.stream = world->stream;
  record.id = 77;
  SLIP_CHECK_CODE(slip_launch(&record, &ticket), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK(ticket == NULL);
  SLIP_CHECK_EQ(released, 3);
  if (world->place != SLIP_LANE_CPU) {
    record.id = world->add;
    record.stream = SLIP_STREAM_INLINE;
    SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_INVALID_ARGUMENT, "no inline stream");
  }
  SLIP_CHECK_EQ(slip_lane_stats(world).launches, 0);
  slip_frame_deinitialize(&frame);
  slip_lane_expect(world, world->stream, z, COUNT, 9, 0);
  slip_lane_free(world, x);
  slip_lane_free(world, y);
  slip_lane_free(world, z);
}

// --- many threads and streams ------------------------------------------------------------------------------------------------------------

typedef struct slip_lane_worker_t {
  slip__thread_t thread;
  const slip_lane_world_t *world;
  slip_stream_t stream;
  float *x, *y, *z;
  int rounds;
} slip_lane_worker_t;

static void slip_lane_work(void *user) {
  slip_lane_worker_t *w = user;
  for (int i = 0; i < w->rounds; ++i) {
    slip_ticket_t *ticket = NULL;
    slip_lane_launch_add(w->world, w->stream, w->x, w->y, w->z, 16, i % 4 ? NULL : &ticket);
    if (ticket) SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
    slip_ticket_release(ticket);
  }
}

SLIP_LANE_TEST(threads_and_streams_share_the_lanes) {
  enum { WORKERS = 5, ROUNDS = 60 };
  slip_lane_worker_t workers[WORKERS] = {{{0}, NULL, NULL, NULL, NULL, NULL, 0}};
  slip_stream_t streams[3] = {world->stream, slip_lane_stream(world), slip_lane_stream(world)};
  for (int i = 0; i < WORKERS; ++i) {
    slip_lane_worker_t *w = &workers[i];
    w->world = world;
    w->rounds = ROUNDS;
    w->stream = streams[i % 3];
    w->x = slip_lane_vector(world, 16, (float)i, 1);
    w->y = slip_lane_vector(world, 16, 1, 1);
    w->z = slip_lane_vector(world, 16, 0, 0);
  }
  for (int i = 0; i < WORKERS; ++i) SLIP_CHECK_OK(slip__thread_start(&workers[i].thread, "launcher", slip_lane_work, &workers[i]));
  for (int i = 0; i < WORKERS; ++i) slip__thread_join(&workers[i].thread);
  SLIP_CHECK_OK(slip_context_drain(world->context));
  SLIP_CHECK_EQ(slip_lane_stats(world).retired, WORKERS * ROUNDS);
  for (int i = 0; i < WORKERS; ++i) {
    slip_lane_expect(world, workers[i].stream, workers[i].z, 16, (float)(i + 1), 2);
    slip_lane_free(world, workers[i].x);
    slip_lane_free(world, workers[i].y);
    slip_lane_free(world, workers[i].z);
  }
  slip_lane_stream_end(world, streams[1]);
  slip_lane_stream_end(world, streams[2]);
}

// --- waiting and closing -----------------------------------------------------------------------------------------------------------------

typedef struct slip_lane_waiter_t {
  slip__thread_t thread;
  slip_ticket_t *ticket;
} slip_lane_waiter_t;

static void slip_lane_wait(void *user) {
  slip_lane_waiter_t *waiter = user;
  SLIP_CHECK_OK(slip_ticket_wait(waiter->ticket, -1));
  slip_ticket_release(waiter->ticket);
}

// Close retires the launches and gives the lanes back, while threads that waited for one have still to notice that it is over.
static void slip_lane_close_on_waiters(slip_lane_place_e place) {
  enum { COUNT = 8, WAITERS = 4, ROUNDS = 12 };
  for (int round = 0; round < ROUNDS; ++round) {
    slip_lane_world_t world;
    slip_lane_waiter_t waiters[WAITERS];
    slip_lane_door_t door = {0};
    slip_lane_world_open(&world, place, false, NULL);
    float *x = slip_lane_vector(&world, COUNT, 1, 1), *z = slip_lane_vector(&world, COUNT, 0, 0);
    slip_lane_hold(&world, world.stream, &door);
    for (int i = 0; i < WAITERS; ++i) {
      slip_lane_launch_add(&world, world.stream, x, x, z, COUNT, &waiters[i].ticket);
      SLIP_CHECK_OK(slip__thread_start(&waiters[i].thread, "waiter", slip_lane_wait, &waiters[i]));
    }
    if (round % 2) usleep(2000);
    slip_lane_let_go(&door);
    SLIP_CHECK_OK(slip_context_close(world.context));
    for (int i = 0; i < WAITERS; ++i) slip__thread_join(&waiters[i].thread);
    slip_lane_expect(&world, world.stream, z, COUNT, 2, 2);
    slip_lane_free(&world, x);
    slip_lane_free(&world, z);
    slip_lane_world_end(&world);
  }
}
SLIP_TEST(lane_close_while_threads_wait_for_tickets_cpu) {
  slip_lane_close_on_waiters(SLIP_LANE_CPU);
}
SLIP_TEST(lane_close_while_threads_wait_for_tickets_cuda) {
  slip_lane_close_on_waiters(SLIP_LANE_CUDA);
}
SLIP_TEST(lane_close_while_threads_wait_for_tickets_ascend) {
  slip_lane_close_on_waiters(SLIP_LANE_ASCEND);
}
