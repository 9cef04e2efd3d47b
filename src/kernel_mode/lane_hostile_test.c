// SPDX-License-Identifier: Apache-2.0
// What other threads do to a stream or a capture between two steps of a launch (lane.h). The steps are the platform's calls, so that a
// table of our own in front of the platform's places the deed exactly.
#include <unistd.h>

#include "kernel_mode/lane_world_test.h"
#include "slipstream/graph.h"

enum { COUNT = 16, STEPS = 12 };

typedef struct slip_hostile_t {
  slip_lane_world_t *world;
  int before;  // the step; 0: none
  int step;
  void (*deed)(struct slip_hostile_t *hostile);
} slip_hostile_t;

static slip_hostile_t *slip_hostile;
static const slip_platform_vtable_t *slip_hostile_behind;
static slip_platform_vtable_t slip_hostile_table;

static void slip_hostile_thread(void *user) {
  slip_hostile_t *hostile = user;
  hostile->deed(hostile);
}

static void slip_hostile_step(void) {
  slip_hostile_t *hostile = slip_hostile;
  slip__thread_t thread = {0};
  if (!hostile || ++hostile->step != hostile->before) return;
  slip_hostile = NULL;
  SLIP_CHECK_OK(slip__thread_start(&thread, "hostile", slip_hostile_thread, hostile));
  slip__thread_join(&thread);
}

static slip_status_t slip_hostile_event_record(slip_event_t event, slip_stream_t stream) {
  slip_hostile_step();
  return slip_hostile_behind->event_record(event, stream);
}
static slip_status_t slip_hostile_wait_event(slip_stream_t stream, slip_event_t event) {
  slip_hostile_step();
  return slip_hostile_behind->stream_wait_event(stream, event);
}
static slip_status_t slip_hostile_copy(slip_stream_t stream, void *target, const void *source, uint64_t size, uint32_t kind) {
  slip_hostile_step();
  return slip_hostile_behind->memory_copy_async(stream, target, source, size, kind);
}
static slip_status_t slip_hostile_launch(slip_stream_t stream, void (*run)(void *user), void *user) {
  slip_hostile_step();
  return slip_hostile_behind->stream_launch(stream, run, user);
}
static slip_status_t slip_hostile_host(slip_stream_t stream, void (*function)(void *user), void *user) {
  slip_hostile_step();
  return slip_hostile_behind->stream_enqueue_host(stream, function, user);
}

// From here on |deed| is done before step |before| of the next launch.
static void slip_hostile_arm(slip_hostile_t *hostile, slip_lane_world_t *world, int before, void (*deed)(slip_hostile_t *)) {
  if (!slip_hostile_behind) {
    slip_hostile_behind = world->platform->vtable;
    slip_hostile_table = *slip_hostile_behind;
    slip_hostile_table.event_record = slip_hostile_event_record;
    slip_hostile_table.stream_wait_event = slip_hostile_wait_event;
    slip_hostile_table.memory_copy_async = slip_hostile_copy;
    slip_hostile_table.stream_launch = slip_hostile_launch;
    slip_hostile_table.stream_enqueue_host = slip_hostile_host;
    world->platform->vtable = &slip_hostile_table;
  }
  *hostile = (slip_hostile_t){.world = world, .before = before, .deed = deed};
  slip_hostile = hostile;
}

static void slip_hostile_close(slip_lane_world_t *world) {
  for (int i = 0; slip_context_state(world->context) != SLIP_CONTEXT_CLOSED; ++i) {
    slip_status_t status = slip_context_close(world->context);
    if (i > 50000) SLIP_CHECK_OK(status);  // what the device still has may take its time
    slip_status_free(status);
    usleep(200);
  }
}

typedef void (*slip_hostile_body_t)(slip_lane_world_t *world, int step);
static void slip_hostile_each(slip_lane_place_e place, slip_hostile_body_t body) {
  for (int step = 1; step <= STEPS; ++step) {
    slip_lane_world_t world;
    slip_lane_world_open(&world, place, true, NULL);
    body(&world, step);
    slip_hostile = NULL;
    slip_lane_world_check(&world);
  }
}
#define SLIP_HOSTILE_TEST(name)                                             \
  static void slip_hostile_test_##name(slip_lane_world_t *world, int step); \
  SLIP_TEST(hostile_##name##_cuda) {                                        \
    slip_hostile_each(SLIP_LANE_CUDA, slip_hostile_test_##name);            \
  }                                                                         \
  SLIP_TEST(hostile_##name##_ascend) {                                      \
    slip_hostile_each(SLIP_LANE_ASCEND, slip_hostile_test_##name);          \
  }                                                                         \
  static void slip_hostile_test_##name(slip_lane_world_t *world, int step)

typedef struct slip_hostile_data_t {
  float *x, *y, *z;
  slip_frame_t frame;
  uint32_t released;
  slip_launch_record_t record;
} slip_hostile_data_t;

static void slip_hostile_data(slip_hostile_data_t *data, slip_lane_world_t *world) {
  data->x = slip_lane_vector(world, COUNT, 0, 1);
  data->y = slip_lane_vector(world, COUNT, 3, 0);
  data->z = slip_lane_vector(world, COUNT, 9, 0);
  data->released = 0;
  slip_lane_frame(world, &data->frame, data->x, data->y, data->z, COUNT);
  data->record = slip_lane_record(world, &data->frame, world->stream, &data->released);
}
static void slip_hostile_data_end(slip_hostile_data_t *data, slip_lane_world_t *world) {
  slip_frame_deinitialize(&data->frame);
  slip_lane_free(world, data->x);
  slip_lane_free(world, data->y);
  slip_lane_free(world, data->z);
}

// --- the deeds

static void slip_hostile_invalidate(slip_hostile_t *hostile) {
  void *memory = NULL;
  SLIP_CHECK_CODE(slip_memory_allocate(hostile->world->platform, 0, 64, &memory), SLIP_CODE_DEVICE);
}

// In a capture a launch makes ten calls: no host function, no QUIET.
enum { CALLS_CAPTURED = 10, CALLS_EAGER = 12 };

// Ascend's captures survive the call.
SLIP_HOSTILE_TEST(capture_broken_in_the_middle) {
  slip_hostile_t hostile;
  slip_hostile_data_t data;
  slip_graph_exec_t graph = NULL;
  bool broken = world->place == SLIP_LANE_CUDA && step <= CALLS_CAPTURED;
  slip_hostile_data(&data, world);
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_GLOBAL));
  slip_hostile_arm(&hostile, world, step, slip_hostile_invalidate);
  SLIP_CHECK_CODE(slip_launch(&data.record, NULL), broken ? SLIP_CODE_INVALID_STATE : SLIP_CODE_OK);
  slip_hostile = NULL;
  SLIP_CHECK_CODE(slip_stream_capture_end(world->platform, world->stream, &graph), broken ? SLIP_CODE_DEVICE : SLIP_CODE_OK);
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, graph));
  SLIP_CHECK_OK(slip_launch(&data.record, NULL));  // not poisoned: nothing is wrong with the device
  slip_lane_expect(world, world->stream, data.z, COUNT, 3, 1);
  slip_hostile_close(world);
  SLIP_CHECK_EQ(data.released, 2);
  slip_hostile_data_end(&data, world);
}

// Ends it, forgets the graph and has the launches given back, all before the launch goes on.
static void slip_hostile_end_capture(slip_hostile_t *hostile) {
  const slip_lane_world_t *world = hostile->world;
  slip_graph_exec_t graph = NULL;
  slip_status_free(slip_stream_capture_end(world->platform, world->stream, &graph));  // nothing is joined at some steps
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, graph));
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_OK(slip_context_drain(world->context));
    usleep(500);
  }
}

SLIP_HOSTILE_TEST(capture_ended_in_the_middle) {
  slip_hostile_t hostile;
  slip_hostile_data_t data;
  slip_graph_exec_t graph = NULL;
  slip_ticket_t *ticket = NULL;
  bool ended = step <= CALLS_CAPTURED;
  slip_hostile_data(&data, world);
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_RELAXED));
  slip_hostile_arm(&hostile, world, step, slip_hostile_end_capture);
  SLIP_CHECK_CODE(slip_launch(&data.record, &ticket), ended ? SLIP_CODE_INVALID_STATE : SLIP_CODE_OK);
  SLIP_CHECK_EQ(ticket == NULL, ended);
  slip_hostile = NULL;
  slip_ticket_release(ticket);
  if (!ended) SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &graph));
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, graph));
  slip_lane_expect(world, world->stream, data.z, COUNT, 9, 0);  // it ran never, not even at once
  SLIP_CHECK_OK(slip_launch(&data.record, NULL));
  slip_lane_expect(world, world->stream, data.z, COUNT, 3, 1);
  slip_hostile_close(world);
  SLIP_CHECK_EQ(data.released, 2);
  slip_hostile_data_end(&data, world);
}

static void slip_hostile_begin_capture(slip_hostile_t *hostile) {
  SLIP_CHECK_OK(slip_stream_capture_begin(hostile->world->platform, hostile->world->stream, SLIP_CAPTURE_MODE_RELAXED));
}

SLIP_HOSTILE_TEST(capture_begun_in_the_middle) {
  slip_hostile_t hostile;
  slip_hostile_data_t data;
  slip_ticket_t *ticket = NULL;
  slip_graph_exec_t graph = NULL;
  bool runs = step > 1, joined = step == CALLS_EAGER;
  slip_hostile_data(&data, world);
  slip_hostile_arm(&hostile, world, step, slip_hostile_begin_capture);
  SLIP_CHECK_CODE(slip_launch(&data.record, &ticket), joined ? SLIP_CODE_OK : SLIP_CODE_INVALID_STATE);
  slip_status_t status = slip_stream_capture_end(world->platform, world->stream, &graph);
  if (step < CALLS_EAGER - 1 || joined) SLIP_CHECK_OK(slip_status_clone(status));  // step 11 itself comes too late to be left out
  slip_status_free(status);
  for (int i = 0; graph && i < 3; ++i) SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, graph, world->stream));
  SLIP_CHECK_OK(slip_stream_synchronize(world->platform, world->stream));
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, graph));
  if (joined) SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  slip_ticket_release(ticket);
  SLIP_CHECK_OK(slip_context_drain(world->context));
  SLIP_CHECK_EQ(data.released, 1);
  slip_lane_expect(world, world->stream, data.z, COUNT, runs ? 3 : 9, runs ? 1 : 0);
  slip_hostile_close(world);
  slip_hostile_data_end(&data, world);
}

static void slip_hostile_destroy_stream(slip_hostile_t *hostile) {
  SLIP_CHECK_OK(slip_stream_destroy(hostile->world->platform, hostile->world->stream));
}

SLIP_HOSTILE_TEST(stream_destroyed_in_the_middle) {
  slip_hostile_t hostile;
  slip_hostile_data_t data;
  bool joined = step == CALLS_EAGER;
  slip_hostile_data(&data, world);
  slip_hostile_arm(&hostile, world, step, slip_hostile_destroy_stream);
  SLIP_CHECK_CODE(slip_launch(&data.record, NULL), joined ? SLIP_CODE_OK : SLIP_CODE_INVALID_ARGUMENT);
  slip_hostile = NULL;
  world->stream = slip_lane_stream(world);
  slip_hostile_close(world);
  SLIP_CHECK_EQ(data.released, 1);
  slip_hostile_data_end(&data, world);
}

// --- captures that begin while somebody waits

typedef slip_status_t (*slip_hostile_wait_t)(slip_context_t *context, slip_ticket_t *ticket);
typedef struct slip_hostile_waiter_t {
  slip_lane_world_t *world;
  slip_ticket_t *ticket;
  slip_hostile_wait_t wait;
  _Atomic uint32_t waits;
} slip_hostile_waiter_t;

static slip_status_t slip_hostile_wait_for_ticket(slip_context_t *context, slip_ticket_t *ticket) {
  (void)context;
  return slip_ticket_wait(ticket, -1);
}
static slip_status_t slip_hostile_wait_for_drain(slip_context_t *context, slip_ticket_t *ticket) {
  (void)ticket;
  return slip_context_drain(context);
}
static slip_status_t slip_hostile_wait_for_close(slip_context_t *context, slip_ticket_t *ticket) {
  (void)ticket;
  return slip_context_close(context);
}

static void slip_hostile_waiting(void *user) {
  slip_hostile_waiter_t *waiter = user;
  atomic_store(&waiter->waits, 1);
  slip_status_t status = waiter->wait(waiter->world->context, waiter->ticket);
  if (slip_status_code(status) != SLIP_CODE_CAPTURE_UNSUPPORTED) SLIP_CHECK_OK(slip_status_clone(status));
  slip_status_free(status);
}

// The launch's callable was released: its code is unloaded by whoever waits, but not in somebody's capture.
static void slip_hostile_outlast(slip_hostile_wait_t wait) {
  slip_lane_world_t world;
  slip_lane_door_t door = {0};
  slip__thread_t thread = {0};
  slip_hostile_data_t data;
  slip_graph_exec_t graph = NULL;
  slip_lane_world_open(&world, SLIP_LANE_CUDA, true, NULL);
  slip_stream_t other = slip_lane_stream(&world);
  slip_hostile_waiter_t waiter = {.world = &world, .wait = wait};
  slip_hostile_data(&data, &world);
  slip_lane_hold(&world, world.stream, &door);
  SLIP_CHECK_OK(slip_launch(&data.record, &waiter.ticket));
  SLIP_CHECK_OK(slip_context_release(world.context, world.add));
  SLIP_CHECK_OK(slip__thread_start(&thread, "waiter", slip_hostile_waiting, &waiter));
  while (!atomic_load(&waiter.waits)) usleep(100);
  usleep(20000);
  SLIP_CHECK_OK(slip_stream_capture_begin(world.platform, other, SLIP_CAPTURE_MODE_GLOBAL));
  slip_lane_let_go(&door);
  slip__thread_join(&thread);
  SLIP_CHECK_OK(slip_stream_capture_end(world.platform, other, &graph));
  SLIP_CHECK_OK(slip_graph_exec_destroy(world.platform, graph));
  slip_ticket_release(waiter.ticket);
  slip_hostile_close(&world);
  SLIP_CHECK_EQ(data.released, 1);
  slip_hostile_data_end(&data, &world);
  slip_lane_stream_end(&world, other);
  slip_lane_world_check(&world);
}

SLIP_TEST(hostile_a_wait_leaves_a_capture_that_began_meanwhile_alone) {
  slip_hostile_outlast(slip_hostile_wait_for_ticket);
}
SLIP_TEST(hostile_a_drain_leaves_a_capture_that_began_meanwhile_alone) {
  slip_hostile_outlast(slip_hostile_wait_for_drain);
}
SLIP_TEST(hostile_a_close_leaves_a_capture_that_began_meanwhile_alone) {
  slip_hostile_outlast(slip_hostile_wait_for_close);
}

// --- an owner's release that calls the library
// --------------------------------------------------------------------------------------------- It runs in whichever call reaps, before its
// own launch is counted out: what waits is refused, the rest works.

typedef enum slip_hostile_call_e {
  DRAIN,
  CLOSE,
  WAIT,
  BIND,
  QUERY,
  LAUNCH,
  MANY,
  RELEASE,
  PREPARE,
  FORGET,
  CALL_COUNT
} slip_hostile_call_e;
typedef enum slip_hostile_site_e { IN_DRAIN, IN_WAIT, IN_LAUNCH, SITE_COUNT } slip_hostile_site_e;

typedef struct slip_hostile_owner_t {
  slip_lane_world_t *world;
  slip_frame_t *frame;
  slip_ticket_t *ticket;
  slip_graph_t *graph;
  slip_hostile_call_e call;
  _Atomic int calls;
} slip_hostile_owner_t;

static slip_status_t slip_hostile_relaunch(const slip_hostile_owner_t *owner) {
  return slip_context_launch(owner->world->context, owner->world->add, owner->frame, owner->world->stream, NULL);
}

// There may be room or not.
static void slip_hostile_fill(const slip_hostile_owner_t *owner, int launches) {
  for (int i = 0; i < launches; ++i) {
    slip_status_t status = slip_hostile_relaunch(owner);
    if (slip_status_code(status) != SLIP_CODE_BUSY) SLIP_CHECK_OK(slip_status_clone(status));
    slip_status_free(status);
  }
}

static void slip_hostile_release(void *user) {
  slip_hostile_owner_t *owner = user;
  slip_context_t *context = owner->world->context;
  int32_t id = -1;
  if (atomic_fetch_add(&owner->calls, 1) > 0) return;
  if (owner->call == DRAIN) SLIP_CHECK_CODE(slip_context_drain(context), SLIP_CODE_INVALID_STATE);
  if (owner->call == CLOSE) SLIP_CHECK_CODE(slip_context_close(context), SLIP_CODE_INVALID_STATE);
  if (owner->call == WAIT) SLIP_CHECK_CODE(slip_ticket_wait(owner->ticket, -1), SLIP_CODE_INVALID_STATE);
  if (owner->call == BIND) SLIP_CHECK_CODE(slip_graph_bind(owner->graph, 0, owner->frame), SLIP_CODE_INVALID_STATE);
  if (owner->call == QUERY) SLIP_CHECK_CODE(slip_ticket_query(owner->ticket), SLIP_CODE_NOT_READY);
  if (owner->call == LAUNCH) slip_hostile_fill(owner, 1);
  if (owner->call == MANY) slip_hostile_fill(owner, 8);
  if (owner->call == RELEASE) SLIP_CHECK_OK(slip_context_release(context, owner->world->add));
  if (owner->call == PREPARE)
    SLIP_CHECK_CODE(slip_context_prepare(context, (slip_const_bytes_t){(const uint8_t *)"x", 1}, &id), SLIP_CODE_CORRUPT);
  if (owner->call != FORGET) return;
  slip_ticket_release(owner->ticket);
  owner->ticket = NULL;
}

static void slip_hostile_own(slip_hostile_call_e call, slip_hostile_site_e site) {
  slip_lane_world_t world;
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_hostile_data_t data;
  options.max_pending = 2;
  slip_lane_world_open(&world, SLIP_LANE_CUDA, true, &options);
  slip_hostile_data(&data, &world);
  slip_hostile_owner_t owner = {.world = &world, .frame = &data.frame, .call = call};
  data.record.release = slip_hostile_release;
  data.record.user = &owner;
  SLIP_CHECK_OK(slip_graph_create(world.context, &owner.graph));
  SLIP_CHECK_OK(slip_graph_add(owner.graph, world.add, &data.frame, NULL));
  SLIP_CHECK_OK(slip_launch(&data.record, &owner.ticket));
  if (site == IN_DRAIN || call == FORGET) SLIP_CHECK_OK(slip_context_drain(world.context));
  if (site == IN_WAIT && call != FORGET) SLIP_CHECK_OK(slip_ticket_wait(owner.ticket, -1));
  while (atomic_load(&owner.calls) == 0) slip_status_free(slip_hostile_relaunch(&owner));
  slip_ticket_release(owner.ticket);
  SLIP_CHECK_OK(slip_graph_destroy(owner.graph));
  slip_hostile_close(&world);
  SLIP_CHECK_EQ(atomic_load(&owner.calls), 1);
  slip_hostile_data_end(&data, &world);
  slip_lane_world_check(&world);
}

SLIP_TEST_TIMEOUT(hostile_an_owners_release_never_waits_for_itself, 60) {
  for (int call = 0; call < CALL_COUNT; ++call)
    for (int site = 0; site < SITE_COUNT; ++site) slip_hostile_own((slip_hostile_call_e)call, (slip_hostile_site_e)site);
}

// --- code that goes while other code runs

static void slip_hostile_churn(void *user) {
  slip_hostile_waiter_t *churn = user;
  for (int i = 0; i < 40; ++i) {
    int32_t id = slip_fixture_prepare(churn->world->context, slip_fixture_affine());
    SLIP_CHECK_OK(slip_context_release(churn->world->context, id));
  }
  atomic_store(&churn->waits, 1);
}

SLIP_LANE_TEST(one_callable_goes_while_another_runs) {
  slip_hostile_data_t data;
  slip__thread_t thread = {0};
  slip_hostile_waiter_t churn = {.world = world};
  slip_hostile_data(&data, world);
  SLIP_CHECK_OK(slip__thread_start(&thread, "churn", slip_hostile_churn, &churn));
  do {
    for (int i = 0; i < 8; ++i) SLIP_CHECK_OK(slip_launch(&data.record, NULL));
    SLIP_CHECK_OK(slip_context_drain(world->context));
  } while (!atomic_load(&churn.waits));
  slip__thread_join(&thread);
  slip_hostile_data_end(&data, world);
}
