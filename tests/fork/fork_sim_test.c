// SPDX-License-Identifier: Apache-2.0
// Forks of a process with a context on the simulator: helper streams with threads of their own, launches in flight, captures. The child is
// refused by everything that is the parent's, at once, and may exec, exit and use devices of its own; the parent goes on, captures
// included.
#include <unistd.h>

#include "fork_world.h"
#include "platform/build.h"
#include "slipstream/sim.h"

#define FORK_COUNT 8

typedef struct fork_sim_t {
  fork_world_t world;  // what fork_everything_is_refused takes
  float *x, *y, *z;
  void *pinned;
  slip_event_t event;
  slip_graph_exec_t graph;  // one launch
  _Atomic uint32_t door;
} fork_sim_t;

static void fork_sim_result(void) {
  printf("RESULT forks=%llu\n", (unsigned long long)fork_count());
}

// --- the parent --------------------------------------------------------------------------------------------------------------------------

static float *fork_sim_vector(const fork_sim_t *sim, float first, float step) {
  void *memory = NULL;
  float host[FORK_COUNT];
  for (int i = 0; i < FORK_COUNT; ++i) host[i] = first + step * (float)i;
  SLIP_CHECK_OK(slip_memory_allocate(sim->world.platform, 0, sizeof(host), &memory));
  SLIP_CHECK_OK(slip_memory_copy(sim->world.platform, 0, memory, host, sizeof(host), SLIP_COPY_HOST_TO_DEVICE));
  return memory;
}

static void fork_sim_frame(const fork_sim_t *sim, slip_frame_t *frame) {
  static const int64_t count = FORK_COUNT;
  slip_device_t device = slip_context_device(sim->world.context);
  slip_signature_t *signature = NULL;
  slip_tensor_t tensors[3];
  slip_arg_t args[3];
  float *const data[3] = {sim->x, sim->y, sim->z};
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_OK(slip_tensor_initialize(&tensors[i], SLIP_DTYPE_F32, 1, &count, data[i], device));
    args[i] = slip_arg_tensor(&tensors[i], data[i]);
  }
  SLIP_CHECK_OK(slip_context_signature(sim->world.context, sim->world.add, &signature));
  SLIP_CHECK_OK(slip_frame_initialize(frame, signature, "add", device, args, 3, 0));
  slip_signature_release(signature);
}

static void fork_sim_launch(const fork_sim_t *sim, slip_stream_t stream, slip_ticket_t **out_ticket) {
  SLIP_CHECK_OK(slip_context_launch(sim->world.context, sim->world.add, &sim->world.frame, stream, out_ticket));
}

// z = x + y, or 0 where the launch has not run.
static void fork_sim_check_sum(fork_sim_t *sim) {
  float host[FORK_COUNT], none[FORK_COUNT] = {0};
  slip_platform_t *platform = sim->world.platform;
  SLIP_CHECK_OK(slip_stream_synchronize(platform, sim->world.stream));
  SLIP_CHECK_OK(slip_memory_copy(platform, 0, host, sim->z, sizeof(host), SLIP_COPY_DEVICE_TO_HOST));
  for (int i = 0; i < FORK_COUNT; ++i) SLIP_CHECK(host[i] == 10.0f + (float)i);
  SLIP_CHECK_OK(slip_memory_copy(platform, 0, sim->z, none, sizeof(none), SLIP_COPY_HOST_TO_DEVICE));
}

static void fork_sim_open(fork_sim_t *sim, uint32_t flavour) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_sim_options_t simulation = SLIP_SIM_OPTIONS_INIT;
  fork_world_t *world = &sim->world;
  memset(sim, 0, sizeof(*sim));
  slip_status_t status = slip_platform_find("sim", &world->platform);
  if (slip_status_code(status) == SLIP_CODE_NOT_FOUND) {
    slip_status_free(status);
    slip_test_skip("this build has no platform \"sim\"");
  }
  SLIP_CHECK_OK(status);
  simulation.flavour = flavour;
  simulation.seed = slip_test_seed();
  SLIP_CHECK_OK(slip_sim_reset(&simulation));
  options.platform = "sim";
  options.scheduler_threads = 2;
  options.max_captured = 256;
  SLIP_CHECK_OK(slip_context_open(&options, &world->context));
  world->add = slip_fixture_prepare(world->context, slip_fixture_add());
  SLIP_CHECK_OK(slip_stream_create(world->platform, 0, &world->stream));
  SLIP_CHECK_OK(slip_event_create(world->platform, 0, &sim->event));
  SLIP_CHECK_OK(slip_host_allocate(world->platform, sizeof(float) * FORK_COUNT, &sim->pinned));
  sim->x = fork_sim_vector(sim, 0, 1);
  sim->y = fork_sim_vector(sim, 10, 0);
  sim->z = fork_sim_vector(sim, 0, 0);
  fork_sim_frame(sim, &world->frame);
  SLIP_CHECK_OK(slip_graph_create(world->context, &world->graph));
  SLIP_CHECK_OK(slip_graph_add(world->graph, world->add, &world->frame, NULL));
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  fork_sim_launch(sim, world->stream, NULL);
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &sim->graph));
  SLIP_CHECK_OK(slip_event_record(world->platform, sim->event, world->stream));
  fork_sim_launch(sim, world->stream, &world->ticket);
  SLIP_CHECK_OK(slip_ticket_wait(world->ticket, -1));
  fork_sim_check_sum(sim);
}

// Everything works as if there had been no fork.
static void fork_sim_check(fork_sim_t *sim) {
  fork_world_t *world = &sim->world;
  slip_graph_exec_t graph = NULL;
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_KERNEL);
  SLIP_CHECK_EQ(slip_context_state(world->context), SLIP_CONTEXT_READY);
  SLIP_CHECK_OK(slip_ticket_wait(world->ticket, -1));
  SLIP_CHECK_OK(slip_event_synchronize(world->platform, sim->event));
  fork_sim_launch(sim, world->stream, NULL);
  fork_sim_check_sum(sim);
  SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, sim->graph, world->stream));
  fork_sim_check_sum(sim);
  SLIP_CHECK_OK(slip_graph_launch(world->graph, world->stream, NULL));
  fork_sim_check_sum(sim);
  SLIP_CHECK_OK(slip_stream_capture_begin(world->platform, world->stream, SLIP_CAPTURE_MODE_GLOBAL));
  fork_sim_launch(sim, world->stream, NULL);
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &graph));
  SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, graph, world->stream));
  fork_sim_check_sum(sim);
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, graph));
  SLIP_CHECK_OK(slip_context_drain(world->context));
}

static void fork_sim_close(fork_sim_t *sim) {
  fork_world_t *world = &sim->world;
  slip_ticket_release(world->ticket);
  slip_frame_deinitialize(&world->frame);
  SLIP_CHECK_OK(slip_graph_destroy(world->graph));
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, sim->graph));
  SLIP_CHECK_OK(slip_stream_synchronize(world->platform, world->stream));
  SLIP_CHECK_OK(slip_context_close(world->context));
  world->ticket = NULL;
  world->graph = NULL;
}

static void fork_sim_end(fork_sim_t *sim) {
  slip_platform_t *platform = sim->world.platform;
  slip_sim_statistics_t left = {.struct_size = sizeof(left)};
  SLIP_CHECK_OK(slip_context_destroy(sim->world.context));
  SLIP_CHECK_OK(slip_stream_destroy(platform, sim->world.stream));
  SLIP_CHECK_OK(slip_event_destroy(platform, sim->event));
  SLIP_CHECK_OK(slip_host_free(platform, sim->pinned));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, sim->x));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, sim->y));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, sim->z));
  SLIP_CHECK_OK(slip_sim_statistics(&left));
  SLIP_CHECK_EQ(left.streams + left.events + left.allocations + left.host_allocations + left.modules + left.graphs + left.captures, 0);
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
  SLIP_CHECK_EQ(slip_sim_lifecycle_calls(), 0);
}

// --- the child ---------------------------------------------------------------------------------------------------------------------------

static void fork_sim_nothing(void *user) {
  (void)user;
}

#define FORK_SIM_REFUSED(call)                                                            \
  do {                                                                                    \
    slip_code_t code_ = fork_code(call);                                                  \
    if (code_ != SLIP_CODE_FORKED) {                                                      \
      (void)fprintf(stderr, "%s gives %d in a forked child, not FORKED\n", #call, code_); \
      return 50;                                                                          \
    }                                                                                     \
  } while (0)
#define FORK_SIM_WORKS(call)                                                  \
  do {                                                                        \
    slip_code_t code_ = fork_code(call);                                      \
    if (code_ != SLIP_CODE_OK) {                                              \
      (void)fprintf(stderr, "%s gives %d in a forked child\n", #call, code_); \
      return 51;                                                              \
    }                                                                         \
  } while (0)

// device.h with what is the parent's.
static int fork_sim_refuses_the_parents(const fork_sim_t *sim) {
  slip_platform_t *platform = sim->world.platform;
  slip_stream_t stream = sim->world.stream;
  slip_capture_info_t info;
  slip_graph_exec_t graph = NULL;
  float host[FORK_COUNT] = {0};
  FORK_SIM_REFUSED(slip_stream_query(platform, stream));
  FORK_SIM_REFUSED(slip_stream_synchronize(platform, stream));
  FORK_SIM_REFUSED(slip_stream_enqueue_host(platform, stream, fork_sim_nothing, NULL));
  FORK_SIM_REFUSED(slip_stream_wait_event(platform, stream, sim->event));
  FORK_SIM_REFUSED(slip_event_record(platform, sim->event, stream));
  FORK_SIM_REFUSED(slip_memory_copy_async(platform, stream, sim->pinned, sim->x, sizeof(host), SLIP_COPY_DEVICE_TO_HOST));
  FORK_SIM_REFUSED(slip_stream_capture_info(platform, stream, &info));
  FORK_SIM_REFUSED(slip_stream_capture_begin(platform, stream, SLIP_CAPTURE_MODE_RELAXED));
  FORK_SIM_REFUSED(slip_stream_capture_end(platform, stream, &graph));
  FORK_SIM_REFUSED(slip_graph_exec_launch(platform, sim->graph, stream));
  FORK_SIM_REFUSED(slip_memory_copy(platform, 0, host, sim->x, sizeof(host), SLIP_COPY_DEVICE_TO_HOST));
  FORK_SIM_REFUSED(slip_memory_free(platform, 0, sim->x));
  FORK_SIM_REFUSED(slip_host_free(platform, sim->pinned));
  FORK_SIM_REFUSED(slip_stream_destroy(platform, stream));
  FORK_SIM_REFUSED(slip_event_query(platform, sim->event));
  FORK_SIM_REFUSED(slip_event_synchronize(platform, sim->event));
  FORK_SIM_REFUSED(slip_event_destroy(platform, sim->event));
  return graph ? 52 : 0;
}

// The simulator's own controls, and a device of the child's.
static int fork_sim_works_afresh(const fork_sim_t *sim) {
  slip_platform_t *platform = sim->world.platform;
  slip_sim_statistics_t left = {.struct_size = sizeof(left)};
  slip_stream_t stream = NULL;
  void *memory = NULL;
  char text[256];
  FORK_SIM_WORKS(slip_sim_statistics(&left));
  if (left.streams + left.events + left.allocations + left.host_allocations + left.modules + left.graphs + left.captures != 0) return 53;
  if (slip_sim_violation(0, text, sizeof(text)) > 0) (void)fprintf(stderr, "violation: %s\n", text);
  if (slip_sim_violation_count() != 0) return 54;
  if (slip_sim_lifecycle_calls() != 0 || slip_sim_call_count("stream_create") == 0) return 55;
  FORK_SIM_WORKS(slip_sim_fail_call("memory_free", 1, false));
  slip_sim_fail_clear();
  FORK_SIM_WORKS(slip_sim_set_device(1));
  FORK_SIM_WORKS(slip_sim_set_device(0));
  FORK_SIM_WORKS(slip_sim_synchronize_device(0));
  FORK_SIM_WORKS(slip_sim_break_device(0));
  FORK_SIM_WORKS(slip_sim_reset_device(0));
  FORK_SIM_WORKS(slip_memory_allocate(platform, 0, 64, &memory));
  FORK_SIM_WORKS(slip_memory_free(platform, 0, memory));
  if (SLIP__PLATFORM_SANITIZER != 2) {  // the thread sanitizer does not know threads that such a child starts
    FORK_SIM_WORKS(slip_stream_create(platform, 0, &stream));
    FORK_SIM_WORKS(slip_stream_enqueue_host(platform, stream, fork_sim_nothing, NULL));
    FORK_SIM_WORKS(slip_stream_synchronize(platform, stream));
    FORK_SIM_WORKS(slip_stream_destroy(platform, stream));
  }
  FORK_SIM_WORKS(slip_sim_reset(NULL));
  return 0;
}

static int fork_sim_child(void *user) {
  fork_sim_t *sim = user;
  int code = fork_everything_is_refused(&sim->world);
  if (code == 0) code = fork_sim_refuses_the_parents(sim);
  return code == 0 ? fork_sim_works_afresh(sim) : code;
}

// And again, in whatever the first round left.
static int fork_sim_child_twice(void *user) {
  fork_sim_t *sim = user;
  int code = fork_sim_child(user);
  return code == 0 ? fork_everything_is_refused(&sim->world) : code;
}

static void fork_sim_each_end(fork_sim_t *sim) {
  for (int end = 0; end < FORK_END_COUNT; ++end) fork_run(fork_sim_child_twice, sim, (fork_end_e)end);
}

// --- states ------------------------------------------------------------------------------------------------------------------------------

#define FORK_SIM_TEST(test_name)                         \
  static void fork_sim_##test_name(fork_sim_t *sim);     \
  static void fork_sim_run_##test_name(uint32_t rules) { \
    fork_sim_t sim;                                      \
    fork_sim_open(&sim, rules);                          \
    fork_sim_##test_name(&sim);                          \
    fork_sim_end(&sim);                                  \
    fork_sim_result();                                   \
  }                                                      \
  SLIP_TEST(fork_sim_##test_name##_cuda) {               \
    fork_sim_run_##test_name(SLIP_SIM_FLAVOUR_CUDA);     \
  }                                                      \
  SLIP_TEST(fork_sim_##test_name##_ascend) {             \
    fork_sim_run_##test_name(SLIP_SIM_FLAVOUR_ASCEND);   \
  }                                                      \
  static void fork_sim_##test_name(fork_sim_t *sim)

FORK_SIM_TEST(idle) {
  fork_sim_each_end(sim);
  fork_sim_check(sim);
  fork_sim_each_end(sim);
  fork_sim_close(sim);
}

FORK_SIM_TEST(after_close) {
  fork_sim_check(sim);
  fork_sim_close(sim);
  fork_sim_each_end(sim);  // CLOSED, not destroyed
  SLIP_CHECK_EQ(slip_context_state(sim->world.context), SLIP_CONTEXT_CLOSED);
}

static void fork_sim_waits(void *user) {
  fork_sim_t *sim = user;
  while (atomic_load(&sim->door) == 0) usleep(100);
}

// The caller's stream is held up with launches, a replay and a recorded graph behind it, so that each stream of ours waits for something.
FORK_SIM_TEST(with_launches_in_flight) {
  fork_world_t *world = &sim->world;
  slip_ticket_release(world->ticket);
  SLIP_CHECK_OK(slip_stream_enqueue_host(world->platform, world->stream, fork_sim_waits, sim));
  for (int i = 0; i < 5; ++i) fork_sim_launch(sim, world->stream, NULL);
  SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, sim->graph, world->stream));
  SLIP_CHECK_OK(slip_graph_launch(world->graph, world->stream, NULL));
  fork_sim_launch(sim, world->stream, &world->ticket);
  fork_sim_each_end(sim);
  SLIP_CHECK_CODE(slip_ticket_query(world->ticket), SLIP_CODE_NOT_READY);
  atomic_store(&sim->door, 1);
  SLIP_CHECK_OK(slip_ticket_wait(world->ticket, -1));
  fork_sim_check_sum(sim);
  fork_sim_check(sim);
  fork_sim_close(sim);
}

static void fork_sim_end_capture(fork_sim_t *sim) {
  fork_world_t *world = &sim->world;
  slip_capture_info_t info;
  slip_graph_exec_t graph = NULL;
  SLIP_CHECK_OK(slip_stream_capture_info(world->platform, world->stream, &info));
  SLIP_CHECK_EQ(info.state, SLIP_CAPTURE_ACTIVE);
  fork_sim_launch(sim, world->stream, NULL);  // into the same capture
  SLIP_CHECK_OK(slip_stream_capture_end(world->platform, world->stream, &graph));
  SLIP_CHECK(graph != NULL);
  for (int i = 0; i < 2; ++i) {
    SLIP_CHECK_OK(slip_graph_exec_launch(world->platform, graph, world->stream));
    fork_sim_check_sum(sim);
  }
  SLIP_CHECK_OK(slip_graph_exec_destroy(world->platform, graph));
}

FORK_SIM_TEST(in_a_capture) {
  for (uint32_t mode = SLIP_CAPTURE_MODE_GLOBAL; mode <= SLIP_CAPTURE_MODE_RELAXED; ++mode) {
    SLIP_CHECK_OK(slip_stream_capture_begin(sim->world.platform, sim->world.stream, mode));
    fork_sim_each_end(sim);  // nothing is recorded yet
    fork_sim_launch(sim, sim->world.stream, NULL);
    fork_sim_each_end(sim);
    fork_sim_end_capture(sim);
    fork_sim_check(sim);
  }
  fork_sim_close(sim);
}

typedef struct fork_sim_capturer_t {
  slip__thread_t thread;
  fork_sim_t *sim;
  uint32_t mode;
  _Atomic uint32_t begun, end;
} fork_sim_capturer_t;

static void fork_sim_captures(void *user) {
  fork_sim_capturer_t *capturer = user;
  fork_sim_t *sim = capturer->sim;
  SLIP_CHECK_OK(slip_stream_capture_begin(sim->world.platform, sim->world.stream, capturer->mode));
  fork_sim_launch(sim, sim->world.stream, NULL);
  atomic_store(&capturer->begun, 1);
  while (atomic_load(&capturer->end) == 0) usleep(100);
  fork_sim_end_capture(sim);
}

FORK_SIM_TEST(in_a_capture_of_another_thread) {
  for (uint32_t mode = SLIP_CAPTURE_MODE_GLOBAL; mode <= SLIP_CAPTURE_MODE_RELAXED; ++mode) {
    fork_sim_capturer_t capturer = {.sim = sim, .mode = mode};
    SLIP_CHECK_OK(slip__thread_start(&capturer.thread, "capturer", fork_sim_captures, &capturer));
    while (atomic_load(&capturer.begun) == 0) usleep(100);
    fork_sim_each_end(sim);
    atomic_store(&capturer.end, 1);
    slip__thread_join(&capturer.thread);
    fork_sim_check(sim);
  }
  fork_sim_close(sim);
}

// --- threads anywhere inside -------------------------------------------------------------------------------------------------------------

typedef struct fork_sim_worker_t {
  slip__thread_t thread;
  fork_sim_t *sim;
  void (*round)(fork_sim_t *sim, slip_stream_t stream);
  _Atomic uint32_t *stop;
  uint64_t rounds;
} fork_sim_worker_t;

static void fork_sim_round_launches(fork_sim_t *sim, slip_stream_t stream) {
  slip_ticket_t *ticket = NULL;
  fork_sim_launch(sim, stream, NULL);
  fork_sim_launch(sim, stream, &ticket);
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  slip_ticket_release(ticket);
}

static void fork_sim_round_captures(fork_sim_t *sim, slip_stream_t stream) {
  slip_graph_exec_t graph = NULL;
  SLIP_CHECK_OK(slip_stream_capture_begin(sim->world.platform, stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  fork_sim_launch(sim, stream, NULL);
  SLIP_CHECK_OK(slip_stream_capture_end(sim->world.platform, stream, &graph));
  SLIP_CHECK_OK(slip_graph_exec_launch(sim->world.platform, graph, stream));
  SLIP_CHECK_OK(slip_graph_exec_destroy(sim->world.platform, graph));
  // Retires what earlier rounds have captured: where the other threads starve nobody else would, until max_captured is reached.
  fork_sim_launch(sim, stream, NULL);
}

static void fork_sim_round_prepares(fork_sim_t *sim, slip_stream_t stream) {
  int32_t id = slip_fixture_prepare(sim->world.context, slip_fixture_control());
  (void)stream;
  SLIP_CHECK_OK(slip_context_release(sim->world.context, id));
}

static void fork_sim_work(void *user) {
  fork_sim_worker_t *worker = user;
  slip_platform_t *platform = worker->sim->world.platform;
  slip_stream_t stream = NULL;
  do {  // once at least, however late it starts
    fork_round_begin();
    if (!stream) SLIP_CHECK_OK(slip_stream_create(platform, 0, &stream));
    worker->round(worker->sim, stream);
    SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
    ++worker->rounds;
    fork_round_end();
  } while (atomic_load(worker->stop) == 0);
  fork_round_begin();
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  fork_round_end();
}

static void fork_sim_threads(uint32_t flavour) {
  static void (*const rounds[])(fork_sim_t *, slip_stream_t) = {fork_sim_round_launches, fork_sim_round_launches, fork_sim_round_captures,
                                                                fork_sim_round_prepares};
  enum { WORKERS = sizeof(rounds) / sizeof(rounds[0]) };
  fork_sim_worker_t workers[WORKERS];
  _Atomic uint32_t stop = 0;
  fork_sim_t sim;
  fork_sim_open(&sim, flavour);
  for (int i = 0; i < WORKERS; ++i) {
    workers[i] = (fork_sim_worker_t){.sim = &sim, .round = rounds[i], .stop = &stop};
    SLIP_CHECK_OK(slip__thread_start(&workers[i].thread, "worker", fork_sim_work, &workers[i]));
  }
  uint32_t forks = fork_rounds(60);
  for (uint32_t i = 0; i < forks; ++i) {
    fork_run(fork_sim_child, &sim, i % 2 ? FORK_END_BY_EXEC : FORK_END_AT_ONCE);
    usleep(i % 7 * 100);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < WORKERS; ++i) {
    slip__thread_join(&workers[i].thread);
    SLIP_CHECK(workers[i].rounds > 0);
  }
  fork_sim_check(&sim);
  fork_sim_close(&sim);
  fork_sim_end(&sim);
  fork_sim_result();
}

SLIP_TEST_TIMEOUT(fork_sim_while_threads_use_the_context_cuda, 300) {
  fork_sim_threads(SLIP_SIM_FLAVOUR_CUDA);
}
SLIP_TEST_TIMEOUT(fork_sim_while_threads_use_the_context_ascend, 300) {
  fork_sim_threads(SLIP_SIM_FLAVOUR_ASCEND);
}
