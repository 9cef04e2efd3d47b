// SPDX-License-Identifier: Apache-2.0
// Each line of the table in capture.c, in both flavours.
#include "slip_test_sim.h"

typedef struct sim_world_t {
  uint32_t flavour;
  bool ascend;
  slip_stream_t origin, side, other;
  slip_event_t event, second, outside;
  slip_graph_exec_t graph;
  uint64_t runs, released;
} sim_world_t;

static void sim_world_open(sim_world_t *world, uint32_t flavour) {
  sim_power_on(flavour, 3);
  *world = (sim_world_t){.flavour = flavour,
                         .ascend = flavour == SLIP_SIM_FLAVOUR_ASCEND,
                         .origin = sim_stream(),
                         .side = sim_stream(),
                         .other = sim_stream(),
                         .event = sim_event(),
                         .second = sim_event(),
                         .outside = sim_event()};
  SLIP_CHECK_OK(slip__sim_event_record(world->outside, world->other));
}

// Nothing may be capturing any more.
static void sim_world_close(sim_world_t *world) {
  SLIP_CHECK_EQ(sim_alive().captures, 0);
  if (world->graph) SLIP_CHECK_OK(slip__sim_graph_destroy(world->graph));
  SLIP_CHECK_OK(slip__sim_event_destroy(world->event));
  SLIP_CHECK_OK(slip__sim_event_destroy(world->second));
  SLIP_CHECK_OK(slip__sim_event_destroy(world->outside));
  SLIP_CHECK_OK(slip__sim_stream_destroy(world->origin));
  SLIP_CHECK_OK(slip__sim_stream_destroy(world->side));
  SLIP_CHECK_OK(slip__sim_stream_destroy(world->other));
  SLIP_CHECK_EQ(sim_alive().graphs + sim_alive().streams + sim_alive().events, 0);
}

static void sim_begin(sim_world_t *world, uint32_t mode) {
  SLIP_CHECK_OK(slip__sim_capture_begin(world->origin, mode));
  SLIP_CHECK_OK(slip__sim_capture_retain(world->origin, sim_count, &world->released));
}

// The capture survived in the ascend flavour only. Ends it, and checks what comes out and that it let go once.
static void sim_end_as_flavoured(sim_world_t *world) {
  uint64_t released = world->released;
  SLIP_CHECK_EQ(sim_state(world->origin), world->ascend ? SLIP_CAPTURE_ACTIVE : SLIP_CAPTURE_INVALIDATED);
  if (world->ascend) {
    SLIP_CHECK_OK(slip__sim_capture_end(world->origin, &world->graph));
    SLIP_CHECK(world->graph != NULL);
    SLIP_CHECK_EQ(world->released, released);
    SLIP_CHECK_OK(slip__sim_graph_destroy(world->graph));
    world->graph = NULL;
  } else {
    SIM_CHECK_ERROR(slip__sim_stream_enqueue_host(world->origin, sim_count, &world->runs), CAPTURE_INVALIDATED);
    SIM_CHECK_ERROR(slip__sim_capture_end(world->origin, &world->graph), CAPTURE_INVALIDATED);
    SLIP_CHECK(world->graph == NULL);
  }
  SLIP_CHECK_EQ(world->released, released + 1);
  SLIP_CHECK_EQ(sim_state(world->origin), SLIP_CAPTURE_NONE);
  SIM_CHECK_ERROR(slip__sim_capture_end(world->origin, &world->graph), NOT_CAPTURING);
}

// A test that is run in both flavours.
#define SIM_BOTH(name)                                                                              \
  static void sim_both_##name(sim_world_t *world);                                                  \
  SLIP_TEST(sim_capture_##name) {                                                                   \
    for (uint32_t flavour = SLIP_SIM_FLAVOUR_CUDA; flavour <= SLIP_SIM_FLAVOUR_ASCEND; ++flavour) { \
      sim_world_t world;                                                                            \
      sim_world_open(&world, flavour);                                                              \
      sim_both_##name(&world);                                                                      \
      sim_world_close(&world);                                                                      \
    }                                                                                               \
  }                                                                                                 \
  static void sim_both_##name(sim_world_t *world)

SIM_BOTH(records_instead_of_running) {
  uint64_t id = 0;
  slip_capture_info_t info;
  sim_begin(world, SLIP_CAPTURE_MODE_THREAD_LOCAL);
  SLIP_CHECK_OK(slip__sim_stream_capture_info(world->origin, &info));
  id = info.id;
  SLIP_CHECK_EQ(info.state, SLIP_CAPTURE_ACTIVE);
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(world->origin, sim_count, &world->runs));
  SLIP_CHECK_EQ(sim_state(world->side), SLIP_CAPTURE_NONE);
  sim_order(world->side, world->origin, world->event);
  SLIP_CHECK_OK(slip__sim_stream_capture_info(world->side, &info));  // a member tells its capture
  SLIP_CHECK_EQ(info.state, SLIP_CAPTURE_ACTIVE);
  SLIP_CHECK_EQ(info.id, id);
  SLIP_CHECK_OK(slip__sim_stream_launch(world->side, sim_count, &world->runs));
  sim_order(world->origin, world->side, world->second);
  SLIP_CHECK_EQ(sim_alive().captures, 1);
  SLIP_CHECK_OK(slip__sim_capture_end(world->origin, &world->graph));
  SLIP_CHECK_EQ(sim_state(world->origin), SLIP_CAPTURE_NONE);
  SLIP_CHECK_EQ(sim_state(world->side), SLIP_CAPTURE_NONE);
  SLIP_CHECK_OK(slip__sim_stream_synchronize(world->origin));
  SLIP_CHECK_OK(slip__sim_stream_synchronize(world->side));
  SLIP_CHECK_EQ(world->runs, 0);
  SLIP_CHECK_OK(slip__sim_graph_launch(world->graph, world->other));
  SLIP_CHECK_OK(slip__sim_stream_synchronize(world->other));
  SLIP_CHECK_EQ(world->runs, 2);
  SLIP_CHECK_OK(slip__sim_capture_begin(world->origin, SLIP_CAPTURE_MODE_RELAXED));
  SLIP_CHECK_OK(slip__sim_stream_capture_info(world->origin, &info));
  SLIP_CHECK(info.id != id);
  slip_graph_exec_t second = NULL;
  SLIP_CHECK_OK(slip__sim_capture_end(world->origin, &second));
  SLIP_CHECK_OK(slip__sim_graph_destroy(second));
}

SIM_BOTH(begin_refuses_members_and_unknown_modes) {
  SIM_CHECK_ERROR(slip__sim_capture_begin(world->origin, 3), INVALID_VALUE);
  SIM_CHECK_ERROR(slip__sim_capture_begin(NULL, 0), INVALID_HANDLE);
  sim_begin(world, SLIP_CAPTURE_MODE_GLOBAL);
  SIM_CHECK_ERROR(slip__sim_capture_begin(world->origin, SLIP_CAPTURE_MODE_GLOBAL), ALREADY_CAPTURING);
  sim_order(world->side, world->origin, world->event);
  SIM_CHECK_ERROR(slip__sim_capture_begin(world->side, SLIP_CAPTURE_MODE_GLOBAL), ALREADY_CAPTURING);
  sim_order(world->origin, world->side, world->event);
  SLIP_CHECK_EQ(sim_state(world->origin), SLIP_CAPTURE_ACTIVE);
  SLIP_CHECK_OK(slip__sim_capture_end(world->origin, &world->graph));
}

SIM_BOTH(synchronize_query_destroy_and_launch_are_unsupported) {
  slip_graph_exec_t graph = NULL;
  SLIP_CHECK_OK(slip__sim_capture_begin(world->origin, SLIP_CAPTURE_MODE_RELAXED));
  SLIP_CHECK_OK(slip__sim_capture_end(world->origin, &graph));
  for (int call = 0; call < 4; ++call) {
    sim_begin(world, SLIP_CAPTURE_MODE_RELAXED);
    for (int again = 0; again < 2; ++again) {
      slip_status_t status = call == 0   ? slip__sim_stream_synchronize(world->origin)
                             : call == 1 ? slip__sim_stream_query(world->origin)
                             : call == 2 ? slip__sim_stream_destroy(world->origin)
                                         : slip__sim_graph_launch(graph, world->origin);
      if (again && !world->ascend) {
        SIM_CHECK_ERROR(status, CAPTURE_INVALIDATED);
      } else {
        SIM_CHECK_ERROR(status, ALREADY_CAPTURING);
      }
    }
    sim_end_as_flavoured(world);
  }
  sim_begin(world, SLIP_CAPTURE_MODE_RELAXED);
  SIM_CHECK_ERROR(slip__sim_stream_synchronize_device(0), ALREADY_CAPTURING);
  sim_end_as_flavoured(world);
  SLIP_CHECK_OK(slip__sim_graph_destroy(graph));
}

SIM_BOTH(events_of_a_capture_cannot_be_asked) {
  for (int call = 0; call < 2; ++call) {
    sim_begin(world, SLIP_CAPTURE_MODE_RELAXED);
    SLIP_CHECK_OK(slip__sim_event_record(world->event, world->origin));
    SIM_CHECK_ERROR(call ? slip__sim_event_query(world->event) : slip__sim_event_synchronize(world->event), CAPTURED_EVENT);
    sim_end_as_flavoured(world);
    SIM_CHECK_ERROR(slip__sim_event_query(world->event), CAPTURED_EVENT);  // also afterwards, until it is recorded anew
    SIM_CHECK_ERROR(slip__sim_stream_wait_event(world->other, world->event), CAPTURED_EVENT);
    SLIP_CHECK_OK(slip__sim_event_record(world->event, world->other));
    SLIP_CHECK_OK(slip__sim_event_synchronize(world->event));
  }
}

SIM_BOTH(events_of_outside_are_isolated) {
  sim_begin(world, SLIP_CAPTURE_MODE_THREAD_LOCAL);
  SLIP_CHECK_OK(slip__sim_stream_wait_event(world->origin, world->event));  // never recorded
  SLIP_CHECK_EQ(sim_state(world->origin), SLIP_CAPTURE_ACTIVE);
  SIM_CHECK_ERROR(slip__sim_stream_wait_event(world->origin, world->outside), CAPTURE_ISOLATION);
  sim_end_as_flavoured(world);
  // The same for an event of a capture that is over.
  sim_begin(world, SLIP_CAPTURE_MODE_THREAD_LOCAL);
  SLIP_CHECK_OK(slip__sim_event_record(world->event, world->origin));
  SLIP_CHECK_OK(slip__sim_capture_end(world->origin, &world->graph));
  SLIP_CHECK_OK(slip__sim_graph_destroy(world->graph));
  world->graph = NULL;
  sim_begin(world, SLIP_CAPTURE_MODE_THREAD_LOCAL);
  SIM_CHECK_ERROR(slip__sim_stream_wait_event(world->origin, world->event), CAPTURE_ISOLATION);
  sim_end_as_flavoured(world);
}

SIM_BOTH(captures_do_not_merge) {
  sim_begin(world, SLIP_CAPTURE_MODE_THREAD_LOCAL);
  SLIP_CHECK_OK(slip__sim_capture_begin(world->other, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  SLIP_CHECK_OK(slip__sim_event_record(world->event, world->other));
  SIM_CHECK_ERROR(slip__sim_stream_wait_event(world->origin, world->event), CAPTURE_MERGE);
  SLIP_CHECK_EQ(sim_state(world->origin), SLIP_CAPTURE_INVALIDATED);
  SLIP_CHECK_EQ(sim_state(world->other), SLIP_CAPTURE_INVALIDATED);
  SIM_CHECK_ERROR(slip__sim_stream_wait_event(world->side, world->event), INVALID_VALUE);  // idle, of an invalid capture
  SLIP_CHECK_EQ(sim_state(world->side), SLIP_CAPTURE_NONE);
  SIM_CHECK_ERROR(slip__sim_stream_wait_event(world->origin, world->event), CAPTURE_INVALIDATED);
  SIM_CHECK_ERROR(slip__sim_event_record(world->event, world->origin), CAPTURE_INVALIDATED);
  SIM_CHECK_ERROR(slip__sim_capture_retain(world->origin, sim_count, &world->released), CAPTURE_INVALIDATED);
  SIM_CHECK_ERROR(slip__sim_capture_begin(world->origin, SLIP_CAPTURE_MODE_GLOBAL), ALREADY_CAPTURING);
  SIM_CHECK_ERROR(slip__sim_capture_end(world->origin, &world->graph), CAPTURE_INVALIDATED);
  SIM_CHECK_ERROR(slip__sim_capture_end(world->other, &world->graph), CAPTURE_INVALIDATED);
  SLIP_CHECK_EQ(world->released, 1);
  SIM_CHECK_ERROR(slip__sim_capture_retain(world->origin, sim_count, &world->released), NOT_CAPTURING);
}

// Forks |side|, and lets |what| happen to it after its join.
static void sim_unjoined(sim_world_t *world, int what) {
  sim_begin(world, SLIP_CAPTURE_MODE_GLOBAL);
  sim_order(world->side, world->origin, world->event);
  if (what == 1) SLIP_CHECK_OK(slip__sim_stream_enqueue_host(world->side, sim_count, &world->runs));
  if (what == 2) {
    SLIP_CHECK_OK(slip__sim_stream_enqueue_host(world->side, sim_count, &world->runs));
    sim_order(world->origin, world->side, world->event);
    SLIP_CHECK_OK(slip__sim_stream_enqueue_host(world->side, sim_count, &world->runs));
  }
  if (what == 3) sim_order(world->other, world->side, world->event);  // recorded, and waited for by another side
  if (what == 4) {                                                    // joined, then forked again
    sim_order(world->origin, world->side, world->event);
    sim_order(world->side, world->origin, world->event);
  }
  SIM_CHECK_ERROR(slip__sim_capture_end(world->origin, &world->graph), CAPTURE_UNJOINED);
  SLIP_CHECK(world->graph == NULL);
  SLIP_CHECK_EQ(sim_state(world->origin), SLIP_CAPTURE_NONE);
  SLIP_CHECK_EQ(sim_state(world->side), SLIP_CAPTURE_NONE);
  SLIP_CHECK_EQ(sim_state(world->other), SLIP_CAPTURE_NONE);
}

SIM_BOTH(forks_must_be_joined) {
  for (int what = 0; what <= 4; ++what) {
    sim_unjoined(world, what);
    SLIP_CHECK_EQ(world->released, what + 1);
  }
  // Joined through another side.
  sim_begin(world, SLIP_CAPTURE_MODE_GLOBAL);
  sim_order(world->side, world->origin, world->event);
  sim_order(world->other, world->side, world->event);
  sim_order(world->origin, world->other, world->event);
  SLIP_CHECK_OK(slip__sim_capture_end(world->origin, &world->graph));
}

SIM_BOTH(end_belongs_to_the_origin) {
  sim_begin(world, SLIP_CAPTURE_MODE_GLOBAL);
  sim_order(world->side, world->origin, world->event);
  SIM_CHECK_ERROR(slip__sim_capture_end(world->side, &world->graph), CAPTURE_UNMATCHED);
  SIM_CHECK_ERROR(slip__sim_capture_end(world->other, &world->graph), NOT_CAPTURING);
  SLIP_CHECK_EQ(sim_state(world->origin), SLIP_CAPTURE_ACTIVE);
  sim_order(world->origin, world->side, world->event);
  SLIP_CHECK_OK(slip__sim_capture_end(world->origin, &world->graph));
}

typedef struct sim_ender_t {
  slip_stream_t stream;
  slip_graph_exec_t graph;
  slip_status_t status;
} sim_ender_t;

static void sim_end_elsewhere(void *user) {
  sim_ender_t *ender = user;
  ender->status = slip__sim_capture_end(ender->stream, &ender->graph);
}

static sim_ender_t sim_end_on_another_thread(slip_stream_t stream) {
  sim_ender_t ender = {.stream = stream};
  slip__thread_t thread;
  SLIP_CHECK_OK(slip__thread_start(&thread, "ender", sim_end_elsewhere, &ender));
  slip__thread_join(&thread);
  return ender;
}

SIM_BOTH(end_belongs_to_the_thread_unless_relaxed) {
  for (uint32_t mode = SLIP_CAPTURE_MODE_GLOBAL; mode <= SLIP_CAPTURE_MODE_THREAD_LOCAL; ++mode) {
    sim_begin(world, mode);
    sim_ender_t ender = sim_end_on_another_thread(world->origin);
    SIM_CHECK_ERROR(ender.status, CAPTURE_WRONG_THREAD);
    SLIP_CHECK(ender.graph == NULL);
    SLIP_CHECK_EQ(sim_state(world->origin), world->ascend ? SLIP_CAPTURE_NONE : SLIP_CAPTURE_ACTIVE);
    if (world->ascend) {
      SIM_CHECK_ERROR(slip__sim_capture_end(world->origin, &world->graph), NOT_CAPTURING);
    } else {
      SLIP_CHECK_OK(slip__sim_capture_end(world->origin, &world->graph));
      SLIP_CHECK_OK(slip__sim_graph_destroy(world->graph));
      world->graph = NULL;
    }
    SLIP_CHECK_EQ(world->released, mode + 1);
  }
  sim_begin(world, SLIP_CAPTURE_MODE_RELAXED);
  sim_ender_t ender = sim_end_on_another_thread(world->origin);
  SLIP_CHECK_OK(ender.status);
  world->graph = ender.graph;
}

typedef struct sim_unsafe_t {
  slip_capture_info_t info;
  slip_status_t status;
} sim_unsafe_t;

static void sim_unsafe_elsewhere(void *user) {
  sim_unsafe_t *unsafe = user;
  SLIP_CHECK_OK(slip__sim_thread_capture_info(&unsafe->info));
  unsafe->status = slip__sim_check_unsafe("memory_allocate");
}

static sim_unsafe_t sim_unsafe_on_another_thread(void) {
  sim_unsafe_t unsafe = {.info = {9, 9, 9}};
  slip__thread_t thread;
  SLIP_CHECK_OK(slip__thread_start(&thread, "unsafe", sim_unsafe_elsewhere, &unsafe));
  slip__thread_join(&thread);
  return unsafe;
}

static void sim_unsafe_calls(sim_world_t *world, bool refused) {
  slip_stream_t stream = NULL;
  slip_event_t event = NULL;
  if (!refused) {
    SLIP_CHECK_OK(slip__sim_stream_create(0, &stream));
    SLIP_CHECK_OK(slip__sim_event_create(0, &event));
    SLIP_CHECK_OK(slip__sim_event_query(event));
    SLIP_CHECK_OK(slip__sim_event_destroy(event));
    SLIP_CHECK_OK(slip__sim_stream_synchronize(stream));
    SLIP_CHECK_OK(slip__sim_stream_destroy(stream));
    return;
  }
  SIM_CHECK_ERROR(slip__sim_stream_create(0, &stream), CAPTURE_UNSUPPORTED);
  SIM_CHECK_ERROR(slip__sim_event_create(0, &event), CAPTURE_UNSUPPORTED);
  SIM_CHECK_ERROR(slip__sim_stream_synchronize(world->other), CAPTURE_UNSUPPORTED);
  SIM_CHECK_ERROR(slip__sim_stream_query(world->other), CAPTURE_UNSUPPORTED);
  SIM_CHECK_ERROR(slip__sim_stream_destroy(world->other), CAPTURE_UNSUPPORTED);
  SIM_CHECK_ERROR(slip__sim_event_query(world->outside), CAPTURE_UNSUPPORTED);
  SIM_CHECK_ERROR(slip__sim_event_synchronize(world->outside), CAPTURE_UNSUPPORTED);
  SIM_CHECK_ERROR(slip__sim_event_destroy(world->outside), CAPTURE_UNSUPPORTED);
}

SIM_BOTH(unsafe_calls_depend_on_mode_and_thread) {
  slip_capture_info_t info = {9, 9, 9};
  SLIP_CHECK_OK(slip__sim_thread_capture_info(&info));
  SLIP_CHECK_EQ(info.state, SLIP_CAPTURE_NONE);
  SLIP_CHECK_EQ(info.id, 0);
  SLIP_CHECK_OK(slip__sim_check_unsafe("memory_allocate"));
  for (uint32_t mode = SLIP_CAPTURE_MODE_GLOBAL; mode <= SLIP_CAPTURE_MODE_RELAXED; ++mode) {
    bool here = mode != SLIP_CAPTURE_MODE_RELAXED, there = mode == SLIP_CAPTURE_MODE_GLOBAL;
    sim_begin(world, mode);
    SLIP_CHECK_OK(slip__sim_thread_capture_info(&info));
    SLIP_CHECK_EQ(info.state, here ? SLIP_CAPTURE_ACTIVE : SLIP_CAPTURE_NONE);
    SLIP_CHECK_EQ(info.id != 0, here);
    SLIP_CHECK_EQ(sim_state(world->origin), SLIP_CAPTURE_ACTIVE);  // asking does not disturb
    sim_unsafe_calls(world, here);
    SLIP_CHECK_EQ(sim_state(world->origin), here && !world->ascend ? SLIP_CAPTURE_INVALIDATED : SLIP_CAPTURE_ACTIVE);
    slip_status_t ended = slip__sim_capture_end(world->origin, &world->graph);
    SLIP_CHECK_EQ(slip_status_is_ok(ended), world->graph != NULL);
    slip_status_free(ended);
    SLIP_CHECK_OK(slip__sim_graph_destroy(world->graph));
    world->graph = NULL;

    sim_begin(world, mode);
    sim_unsafe_t unsafe = sim_unsafe_on_another_thread();
    SLIP_CHECK_EQ(unsafe.info.state, there ? SLIP_CAPTURE_ACTIVE : SLIP_CAPTURE_NONE);
    if (there) {
      SIM_CHECK_ERROR(unsafe.status, CAPTURE_UNSUPPORTED);
      sim_end_as_flavoured(world);
    } else {
      SLIP_CHECK_OK(unsafe.status);
      SLIP_CHECK_OK(slip__sim_capture_end(world->origin, &world->graph));
      SLIP_CHECK_OK(slip__sim_graph_destroy(world->graph));
      world->graph = NULL;
    }
  }
}

SIM_BOTH(copies_need_page_locked_memory) {
  void *memory = NULL, *pinned = NULL;
  uint8_t pageable[64] = {0};
  SLIP_CHECK_OK(slip__sim_memory_allocate(0, 64, &memory));
  SLIP_CHECK_OK(slip__sim_host_allocate(64, &pinned));
  sim_begin(world, SLIP_CAPTURE_MODE_RELAXED);
  SIM_CHECK_ERROR(slip__sim_memory_copy_async(world->origin, memory, pageable, 64, SLIP_COPY_HOST_TO_DEVICE), COPY_WOULD_WAIT);
  sim_end_as_flavoured(world);
  sim_begin(world, SLIP_CAPTURE_MODE_RELAXED);
  SLIP_CHECK_OK(slip__sim_memory_copy_async(world->origin, memory, pinned, 64, SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(slip__sim_capture_end(world->origin, &world->graph));
  SLIP_CHECK_OK(slip__sim_memory_free(0, memory));  // never launched
  SLIP_CHECK_OK(slip__sim_host_free(pinned));
}

SIM_BOTH(reset_of_a_device_ends_its_captures_and_breaks_others) {
  slip_stream_t far = NULL;
  slip_event_t far_event = NULL;
  SLIP_CHECK_OK(slip__sim_device_push(1));
  SLIP_CHECK_OK(slip__sim_stream_create(1, &far));
  SLIP_CHECK_OK(slip__sim_event_create(1, &far_event));
  SLIP_CHECK_OK(slip__sim_device_pop(1));
  sim_begin(world, SLIP_CAPTURE_MODE_RELAXED);
  SLIP_CHECK_OK(slip__sim_event_record(world->event, world->origin));
  SLIP_CHECK_OK(slip__sim_device_push(1));
  SLIP_CHECK_OK(slip__sim_stream_wait_event(far, world->event));
  SLIP_CHECK_OK(slip__sim_device_pop(1));
  slip__sim_stream_reset(1);
  SLIP_CHECK_EQ(sim_state(world->origin), SLIP_CAPTURE_INVALIDATED);
  SLIP_CHECK_EQ(world->released, 0);
  slip__sim_stream_reset(0);
  SLIP_CHECK_EQ(world->released, 1);
  SLIP_CHECK_EQ(sim_alive().captures + sim_alive().streams + sim_alive().events, 0);
  uint64_t released = world->released;
  *world = (sim_world_t){.flavour = world->flavour,
                         .ascend = world->ascend,
                         .released = released,
                         .origin = sim_stream(),
                         .side = sim_stream(),
                         .other = sim_stream(),
                         .event = sim_event(),
                         .second = sim_event(),
                         .outside = sim_event()};
}
