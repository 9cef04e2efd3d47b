// SPDX-License-Identifier: Apache-2.0
// Which device is current (30.10): whatever a public call does and wherever it fails, the thread finds its own device again, and each
// binding was undone. On the simulator, by a thread whose own device is not the context's.
#include <stdatomic.h>
#include <unistd.h>

#include "kernel_mode/context.h"
#include "kernel_mode/lane_world_test.h"
#include "slipstream/graph.h"

enum { COUNT = 8, OWN = 1 };  // OWN: the calling thread's device; the context is on device 0

static _Atomic int64_t slip_bind_depth;       // pushes less pops that succeeded
static _Atomic uint64_t slip_bind_pushes;     // that succeeded
static _Atomic uint64_t slip_bind_lost_pops;  // that failed

static void slip_bind_log(void *user, const char *platform, slip__platform_call_e call, slip_code_t code) {
  (void)user;
  (void)platform;
  if (call == SLIP__PLATFORM_CALL_DEVICE_POP && code != SLIP_CODE_OK) atomic_fetch_add(&slip_bind_lost_pops, 1);
  if (code != SLIP_CODE_OK) return;
  if (call == SLIP__PLATFORM_CALL_DEVICE_PUSH) {
    atomic_fetch_add(&slip_bind_pushes, 1);
    atomic_fetch_add(&slip_bind_depth, 1);
  }
  if (call == SLIP__PLATFORM_CALL_DEVICE_POP) atomic_fetch_sub(&slip_bind_depth, 1);
}

typedef struct slip_bind_t {
  slip_platform_t *platform;
  const slip_platform_vtable_t *sim;  // the test's own calls: neither counted nor made to fail
  slip_context_t *context;
  slip_stream_t stream;
  slip_frame_t frame;
  slip_bytes_t image;
  int32_t add;
  int32_t own;  // the thread's device; 0 if open could not undo its binding, and the thread hence not choose another one
  void *vectors[3];
} slip_bind_t;

static int32_t slip_bind_current(const slip_bind_t *bind) {
  int32_t current = -1;
  SLIP_CHECK_OK(bind->sim->device_current(&current));
  return current;
}

// After each call. A binding whose undoing failed is owed by the thread, and only then may the device be the context's.
static void slip_bind_check(const slip_bind_t *bind, const char *call, int line) {
  int32_t current = slip_bind_current(bind);
  int64_t depth = atomic_load(&slip_bind_depth);
  bool owed = atomic_load(&slip_bind_lost_pops) > 0;
  if (depth == 0 ? current == bind->own : owed && depth == 1 && current == 0) return;
  slip_test_fail(__FILE__, line, "after %s the current device is %d with %lld bindings, expected %d with none", call, current,
                 (long long)depth, bind->own);
}

#define SLIP_BIND(call)                     \
  do {                                      \
    slip_status_free(call);                 \
    slip_bind_check(bind, #call, __LINE__); \
  } while (0)
#define SLIP_BIND_FACT(call)                \
  do {                                      \
    (void)(call);                           \
    slip_bind_check(bind, #call, __LINE__); \
  } while (0)

static void slip_bind_home(bool home) {
  SLIP_CHECK_OK(slip_sim_set_device(home ? 0 : OWN));
}

static void slip_bind_begin(slip_bind_t *bind, uint32_t flavour) {
  slip_sim_options_t simulation = SLIP_SIM_OPTIONS_INIT;
  slip_fixture_t fixture = slip_fixture_add();
  memset(bind, 0, sizeof(*bind));
  slip_status_t status = slip_platform_find("sim", &bind->platform);
  if (slip_status_code(status) == SLIP_CODE_NOT_FOUND) {
    slip_status_free(status);
    slip_test_skip("this build has no platform \"sim\"");
  }
  SLIP_CHECK_OK(status);
  bind->sim = bind->platform->vtable;
  simulation.flavour = flavour;
  simulation.delay_ns = UINT64_MAX;
  SLIP_CHECK_OK(slip_sim_reset(&simulation));
  bind->image = slip_fixture_pack(&fixture);
  SLIP_CHECK_OK(bind->sim->stream_create(0, &bind->stream));
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_OK(bind->sim->memory_allocate(0, COUNT * sizeof(float), &bind->vectors[i]));
    SLIP_CHECK_OK(bind->sim->memory_fill(0, bind->vectors[i], 0, COUNT * sizeof(float)));
  }
  slip__platform_log_set(slip_bind_log, NULL);
}

static void slip_bind_end(slip_bind_t *bind) {
  slip__platform_log_set(NULL, NULL);
  slip_bind_home(true);
  SLIP_CHECK_OK(bind->sim->stream_synchronize(bind->stream));
  SLIP_CHECK_OK(bind->sim->stream_destroy(bind->stream));
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(bind->sim->memory_free(0, bind->vectors[i]));
  slip_fixture_free(bind->image);
  slip_sim_statistics_t left = {.struct_size = sizeof(left)};
  SLIP_CHECK_OK(slip_sim_statistics(&left));
  SLIP_CHECK_EQ(left.streams + left.events + left.allocations + left.host_allocations + left.modules + left.graphs + left.captures, 0);
}

// Open needs the device to be current; its own bindings end with it, too.
static void slip_bind_open(slip_bind_t *bind) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_frame_t none = {0};
  options.platform = "sim";
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  options.max_pending = options.max_captured = 16;
  bind->context = NULL;
  bind->add = -1;
  bind->frame = none;
  slip_bind_home(true);
  slip_status_free(slip_context_open(&options, &bind->context));
  SLIP_CHECK_EQ(slip_bind_current(bind), 0);
  SLIP_CHECK(atomic_load(&slip_bind_depth) == 0 || atomic_load(&slip_bind_lost_pops) > 0);
  bind->own = atomic_load(&slip_bind_depth) == 0 ? OWN : 0;
  if (bind->own == OWN) slip_bind_home(false);
  slip_context_t *other = NULL;
  SLIP_BIND(slip_context_open(&options, &other));
  SLIP_CHECK(other == NULL || bind->own == 0);
  if (other) slip_status_free(slip_context_destroy(other));
}

static void slip_bind_frame(slip_bind_t *bind) {
  slip_signature_t *signature = NULL;
  SLIP_BIND(slip_context_signature(bind->context, bind->add, &signature));
  if (!signature) return;
  slip_lane_world_t world = {.platform = bind->platform, .context = bind->context, .add = bind->add};
  slip_lane_frame(&world, &bind->frame, bind->vectors[0], bind->vectors[1], bind->vectors[2], COUNT);
  slip_signature_release(signature);
}

static void slip_bind_launches(slip_bind_t *bind) {
  slip_ticket_t *ticket = NULL;
  slip_launch_record_t record = {.struct_size = sizeof(record),
                                 .id = bind->add,
                                 .context = bind->context,
                                 .frame = &bind->frame,
                                 .stream = bind->stream,
                                 .flags = SLIP_LAUNCH_NO_WAIT};
  SLIP_BIND(slip_context_launch(bind->context, bind->add, &bind->frame, bind->stream, &ticket));
  if (ticket) {
    SLIP_BIND(slip_ticket_query(ticket));
    SLIP_BIND(slip_ticket_wait(ticket, -1));
  }
  SLIP_BIND_FACT((slip_ticket_release(ticket), 0));
  SLIP_BIND(slip_launch(&record, NULL));
  SLIP_BIND(slip_context_launch(bind->context, 99, &bind->frame, bind->stream, NULL));
  SLIP_BIND(slip_context_launch(bind->context, bind->add, NULL, bind->stream, NULL));
  SLIP_BIND(slip_context_launch(bind->context, bind->add, &bind->frame, SLIP_STREAM_INLINE, NULL));
  SLIP_BIND(slip_context_launch(bind->context, bind->add, &bind->frame, (slip_stream_t)(uintptr_t)0x77, NULL));
}

static void slip_bind_graphs(slip_bind_t *bind) {
  slip_graph_t *graph = NULL;
  slip_ticket_t *ticket = NULL;
  SLIP_BIND(slip_graph_create(bind->context, &graph));
  if (!graph) return;
  for (int i = 0; i < 2; ++i) SLIP_BIND(slip_graph_add(graph, bind->add, &bind->frame, NULL));
  SLIP_BIND_FACT(slip_graph_node_count(graph));
  SLIP_BIND(slip_graph_launch(graph, bind->stream, &ticket));
  SLIP_BIND(slip_graph_bind(graph, 1, &bind->frame));
  if (ticket) SLIP_BIND(slip_ticket_wait(ticket, -1));
  slip_ticket_release(ticket);
  SLIP_BIND(slip_graph_launch(graph, bind->stream, NULL));
  SLIP_BIND(slip_graph_destroy(graph));
}

// The caller's own part of a capture needs its device.
static slip_status_t slip_bind_own(slip_bind_t *bind, bool begin, slip_graph_exec_t *out) {
  SLIP_CHECK_OK(bind->sim->device_push(0));
  slip_status_t status =
      begin ? bind->sim->capture_begin(bind->stream, SLIP_CAPTURE_MODE_THREAD_LOCAL) : bind->sim->capture_end(bind->stream, out);
  SLIP_CHECK_OK(bind->sim->device_pop(0));
  return status;
}

static void slip_bind_capture(slip_bind_t *bind) {
  slip_graph_exec_t graph = NULL;
  int32_t id = 0;
  slip_const_bytes_t image = slip_fixture_bytes(bind->image);
  SLIP_CHECK_OK(slip_bind_own(bind, true, NULL));
  SLIP_BIND(slip_context_launch(bind->context, bind->add, &bind->frame, bind->stream, NULL));
  // With the question unanswerable, these would have to guess: a close might go on, which is another test's.
  SLIP_BIND(slip_context_prepare(bind->context, image, &id));
  SLIP_BIND(slip_context_release(bind->context, bind->add));
  SLIP_BIND(slip_context_drain(bind->context));
  slip_status_free(slip_bind_own(bind, false, &graph));
  if (graph) SLIP_CHECK_OK(bind->sim->graph_destroy(graph));
}

static void slip_bind_facts(slip_bind_t *bind) {
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_BIND(slip_context_stats(bind->context, &stats));
  SLIP_BIND_FACT(slip_context_state(bind->context));
  SLIP_BIND_FACT(slip_context_initialized(bind->context));
  SLIP_BIND_FACT(slip_context_generation(bind->context));
  SLIP_BIND_FACT(slip_context_device(bind->context));
  SLIP_BIND_FACT(slip_process_mode());
}

// Every public function of context.h and graph.h, well and badly.
static void slip_bind_everything(slip_bind_t *bind) {
  int32_t id = -1;
  slip_const_bytes_t image = slip_fixture_bytes(bind->image);
  slip_bind_open(bind);
  if (!bind->context) return;
  SLIP_BIND(slip_context_prepare(bind->context, image, &bind->add));
  SLIP_BIND(slip_context_prepare(bind->context, (slip_const_bytes_t){(const uint8_t *)"x", 1}, &id));
  SLIP_BIND(slip_context_prepare_artifact(bind->context, NULL, &id));
  slip_bind_facts(bind);
  slip_bind_frame(bind);
  slip_bind_launches(bind);
  slip_bind_graphs(bind);
  slip_bind_capture(bind);
  SLIP_BIND(slip_context_prepare(bind->context, image, &id));
  SLIP_BIND(slip_context_release(bind->context, id));
  SLIP_BIND(slip_context_drain(bind->context));
  SLIP_BIND(slip_context_destroy(bind->context));  // not closed: refused
  SLIP_BIND(slip_context_close(bind->context));
}

// The fault is over; what is owed comes back.
static void slip_bind_settle(slip_bind_t *bind) {
  slip__platform_fault_clear();
  if (bind->context) {
    SLIP_BIND(slip_context_close(bind->context));
    SLIP_CHECK_EQ(slip_context_state(bind->context), SLIP_CONTEXT_CLOSED);
    SLIP_CHECK_OK(slip_context_destroy(bind->context));
  }
  slip_frame_deinitialize(&bind->frame);
}

static void slip_bind_one(slip_bind_t *bind, slip__platform_call_e call, uint64_t nth, bool persistent) {
  atomic_store(&slip_bind_lost_pops, 0);
  slip__platform_fault_set(call, nth, persistent);
  slip_bind_everything(bind);
  slip_bind_settle(bind);
  if (slip_bind_current(bind) != bind->own || atomic_load(&slip_bind_depth) != 0)
    slip_test_fail(__FILE__, __LINE__, "%s, %llu: the device is lost", slip__platform_call_name(call), (unsigned long long)nth);
}

static void slip_bind_sweep(uint32_t flavour) {
  slip_bind_t bind;
  uint64_t calls[SLIP__PLATFORM_CALL_COUNT], faults = 0;
  slip_bind_begin(&bind, flavour);
  slip__platform_counters_reset();
  atomic_store(&slip_bind_pushes, 0);
  slip_bind_everything(&bind);
  for (int i = 0; i < SLIP__PLATFORM_CALL_COUNT; ++i) calls[i] = slip__platform_counter((slip__platform_call_e)i);
  slip_bind_settle(&bind);
  slip__platform_counters_stop();
  SLIP_CHECK(atomic_load(&slip_bind_pushes) >= 10);  // open, prepare, launches, replays, release, drain, close
  SLIP_CHECK_EQ(atomic_load(&slip_bind_lost_pops), 0);
  for (int call = 0; call < SLIP__PLATFORM_CALL_COUNT; ++call) {
    for (uint64_t nth = 1; nth <= calls[call]; ++nth) {
      slip_bind_one(&bind, (slip__platform_call_e)call, nth, false);
      if (nth <= 3) slip_bind_one(&bind, (slip__platform_call_e)call, nth, true);
      ++faults;
    }
  }
  slip_bind_end(&bind);
  printf("RESULT faults=%llu\n", (unsigned long long)faults);
  SLIP_CHECK(faults > 150);
}

SLIP_TEST_TIMEOUT(bind_every_call_gives_the_device_back_cuda, 240) {
  slip_bind_sweep(SLIP_SIM_FLAVOUR_CUDA);
}
SLIP_TEST_TIMEOUT(bind_every_call_gives_the_device_back_ascend, 240) {
  slip_bind_sweep(SLIP_SIM_FLAVOUR_ASCEND);
}

// --- while it waits, close asks the device, which it has bound already -------------------------------------------------------------------

typedef struct slip_bind_closing_t {
  slip_context_t *context;
  slip_lane_door_t *door;
} slip_bind_closing_t;

// When close waits, and has asked since then.
static void slip_bind_opens_door(void *user) {
  const slip_bind_closing_t *closing = user;
  while (atomic_load(&closing->context->signal.waiters) == 0) usleep(1000);
  uint64_t asked = slip__platform_counter(SLIP__PLATFORM_CALL_STREAM_CAPTURE_INFO);
  for (int i = 0; i < 20000 && slip__platform_counter(SLIP__PLATFORM_CALL_STREAM_CAPTURE_INFO) == asked; ++i) usleep(1000);
  slip_lane_let_go(closing->door);
}
static void slip_bind_at_door(void *user) {
  slip_lane_door_t *door = user;
  while (!atomic_load(&door->open)) usleep(100);
}

SLIP_TEST(bind_close_that_asks_while_it_waits) {
  slip_bind_t world, *bind = &world;
  slip_lane_door_t door = {0};
  slip__thread_t thread;
  slip_bind_begin(bind, SLIP_SIM_FLAVOUR_CUDA);
  slip_bind_open(bind);
  SLIP_CHECK_OK(slip_context_prepare(bind->context, slip_fixture_bytes(bind->image), &bind->add));
  slip_bind_frame(bind);
  SLIP_CHECK_OK(bind->sim->device_push(0));
  SLIP_CHECK_OK(bind->sim->stream_enqueue_host(bind->stream, slip_bind_at_door, &door));
  SLIP_CHECK_OK(bind->sim->device_pop(0));
  SLIP_CHECK_OK(slip_context_launch(bind->context, bind->add, &bind->frame, bind->stream, NULL));
  slip_bind_closing_t closing = {bind->context, &door};
  slip__platform_counters_reset();
  SLIP_CHECK_OK(slip__thread_start(&thread, "door", slip_bind_opens_door, &closing));
  slip__platform_fault_set(SLIP__PLATFORM_CALL_DEVICE_POP, 1, false);
  SLIP_CHECK_CODE(slip_context_close(bind->context), SLIP_CODE_DEVICE);
  SLIP_CHECK(slip__platform_counter(SLIP__PLATFORM_CALL_STREAM_CAPTURE_INFO) > 0);  // it did ask
  slip__platform_counters_stop();
  slip__thread_join(&thread);
  slip_bind_settle(bind);
  SLIP_CHECK_EQ(slip_bind_current(bind), OWN);
  SLIP_CHECK_EQ(atomic_load(&slip_bind_depth), 0);
  slip_bind_end(bind);
}
