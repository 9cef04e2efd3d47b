// SPDX-License-Identifier: Apache-2.0
// Processes that end with a context open: from main, from an exit handler, from another thread; with streams busy, launches in flight, a
// graph alive. Nothing is torn down, nothing crashes or hangs, and exactly one line on stderr says so.
#include <sys/wait.h>
#include <unistd.h>

#include "kernel_mode/lane_world_test.h"
#include "slipstream/graph.h"

typedef enum slip_exit_way_e { SLIP_EXIT_MAIN, SLIP_EXIT_HANDLER, SLIP_EXIT_THREAD, SLIP_EXIT_WAYS } slip_exit_way_e;

static slip_context_t *slip_exit_context;
static slip_code_t slip_exit_code;

// An adapter's handler: registered after the library was loaded, so that it runs before the library's own report.
static void slip_exit_closes(void) {
  slip_status_t status = slip_context_close(slip_exit_context);
  slip_exit_code = slip_status_code(status);
  slip_status_free(status);
  if (slip_exit_code == SLIP_CODE_OK) slip_status_free(slip_context_destroy(slip_exit_context));
}

static void slip_exit_looks(void) {
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  slip_status_t status = slip_context_stats(slip_exit_context, &stats);  // READY until the very end
  if (!slip_status_is_ok(status) || slip_context_state(slip_exit_context) != SLIP_CONTEXT_READY) _exit(9);
}

static void slip_exit_from_a_thread(void *user) {
  (void)user;
  exit(0);
}

static void slip_exit_end(slip_exit_way_e way) {
  slip__thread_t thread;
  if (way == SLIP_EXIT_HANDLER && atexit(slip_exit_looks) != 0) _exit(8);
  if (way == SLIP_EXIT_THREAD) {
    if (!slip_status_is_ok(slip__thread_start(&thread, "exit", slip_exit_from_a_thread, NULL))) _exit(8);
    for (;;) pause();
  }
  exit(0);
}

static int64_t slip_exit_state[4];  // of the launch that never ends

static void slip_exit_cpu_world(void) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_platform_t *platform = NULL;
  slip_stream_t stream = NULL;
  slip_frame_t frame = {0};
  slip_graph_t *graph = NULL;
  options.scheduler_threads = 2;
  SLIP_CHECK_OK(slip_context_open(&options, &slip_exit_context));
  int32_t id = slip_fixture_prepare(slip_exit_context, slip_fixture_control());
  SLIP_CHECK_OK(slip_platform_find("cpu", &platform));
  SLIP_CHECK_OK(slip_stream_create(platform, 0, &stream));
  slip_fixture_frame_control(&frame, slip_exit_context, id, slip_exit_state, 0, 0);
  SLIP_CHECK_OK(slip_graph_create(slip_exit_context, &graph));
  SLIP_CHECK_OK(slip_graph_add(graph, id, &frame, NULL));
  SLIP_CHECK_OK(slip_context_launch(slip_exit_context, id, &frame, stream, NULL));
  SLIP_CHECK_OK(slip_graph_launch(graph, stream, NULL));  // waits behind it
  while (__atomic_load_n(&slip_exit_state[2], __ATOMIC_SEQ_CST) == 0) usleep(100);
  slip_frame_deinitialize(&frame);
}

static slip_lane_door_t slip_exit_door;

// A held stream with launches behind it, and a captured graph with an execution enqueued.
static void slip_exit_sim_world(void) {
  static slip_lane_world_t world;
  slip_graph_exec_t graph = NULL;
  slip_lane_world_open(&world, SLIP_LANE_CUDA, true, NULL);
  slip_exit_context = world.context;
  float *x = slip_lane_vector(&world, 8, 0, 1), *y = slip_lane_vector(&world, 8, 0, 1), *z = slip_lane_vector(&world, 8, 0, 0);
  SLIP_CHECK_OK(slip_stream_capture_begin(world.platform, world.stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  slip_lane_launch_add(&world, world.stream, x, y, z, 8, NULL);
  SLIP_CHECK_OK(slip_stream_capture_end(world.platform, world.stream, &graph));
  slip_lane_hold(&world, world.stream, &slip_exit_door);
  for (int i = 0; i < 4; ++i) slip_lane_launch_add(&world, world.stream, x, y, z, 8, NULL);
  SLIP_CHECK_OK(slip_graph_exec_launch(world.platform, graph, world.stream));
}

// Runs |make| in a child that ends |way|; returns what it wrote to stderr.
static void slip_exit_child(void (*make)(void), slip_exit_way_e way, char *text, size_t capacity) {
  int pipes[2], state = 0;
  size_t used = 0;
  SLIP_CHECK_EQ(pipe(pipes), 0);
  (void)fflush(NULL);
  pid_t child = fork();
  SLIP_CHECK(child >= 0);
  if (child == 0) {
    (void)alarm(120);
    (void)dup2(pipes[1], 2);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    make();
    slip_exit_end(way);
  }
  (void)close(pipes[1]);
  for (ssize_t got; used < capacity - 1 && (got = read(pipes[0], text + used, capacity - 1 - used)) > 0;) used += (size_t)got;
  text[used] = '\0';
  (void)close(pipes[0]);
  SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
    slip_test_fail(__FILE__, __LINE__, "way %d: a child ended with state 0x%x: %s", (int)way, (unsigned)state, text);
}

static void slip_exit_check_one_line(const char *text, const char *device) {
  char begin[64];
  (void)snprintf(begin, sizeof(begin), "slipstream: the context of %s (generation 1) was not closed", device);
  const char *line = strstr(text, begin);
  if (!line || strstr(line + 1, "slipstream:")) slip_test_fail(__FILE__, __LINE__, "expected one line \"%s...\", got: %s", begin, text);
}

static void slip_exit_every_way(void (*make)(void), const char *device) {
  char text[2048];
  for (int way = 0; way < SLIP_EXIT_WAYS; ++way) {
    slip_exit_child(make, (slip_exit_way_e)way, text, sizeof(text));
    slip_exit_check_one_line(text, device);
  }
}

SLIP_TEST(exit_with_launches_in_flight_cpu) {
  slip_exit_every_way(slip_exit_cpu_world, "cpu:0");
}

SLIP_TEST(exit_with_launches_in_flight_sim) {
  slip_platform_t *platform = NULL;
  slip_status_t status = slip_platform_find("sim", &platform);
  if (slip_status_code(status) == SLIP_CODE_NOT_FOUND) slip_test_skip("this build has no platform \"sim\"");
  SLIP_CHECK_OK(status);
  slip_exit_every_way(slip_exit_sim_world, "sim:0");
}

static void slip_exit_world_that_closes(void) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  SLIP_CHECK_OK(slip_context_open(&options, &slip_exit_context));
  (void)slip_fixture_prepare(slip_exit_context, slip_fixture_add());
  if (atexit(slip_exit_closes) != 0) _exit(8);
}

// The documented order: whoever closes in a handler of his own leaves nothing to report.
SLIP_TEST(exit_handler_of_an_adapter_may_close) {
  char text[2048];
  slip_exit_child(slip_exit_world_that_closes, SLIP_EXIT_MAIN, text, sizeof(text));
  SLIP_CHECK_STR(text, "");
  slip_exit_child(slip_exit_world_that_closes, SLIP_EXIT_THREAD, text, sizeof(text));
  SLIP_CHECK_STR(text, "");
}

static void slip_exit_owed_world(void) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  SLIP_CHECK_OK(slip_context_open(&options, &slip_exit_context));
  slip__platform_fault_set(SLIP__PLATFORM_CALL_MEMORY_FREE, 1, true);
  SLIP_CHECK_CODE(slip_context_close(slip_exit_context), SLIP_CODE_DEVICE);
}

SLIP_TEST(exit_with_an_owed_close_is_told_once) {
  char text[2048];
  slip_exit_child(slip_exit_owed_world, SLIP_EXIT_MAIN, text, sizeof(text));
  slip_exit_check_one_line(text, "cpu:0");
}

// Another thread opens and closes all the time while the process ends.
static void slip_exit_churns(void *user) {
  (void)user;
  for (;;) {
    slip_context_t *context = NULL;
    slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
    options.flags = SLIP_CONTEXT_SINGLE_THREAD;
    if (!slip_status_is_ok(slip_context_open(&options, &context))) _exit(7);
    if (!slip_status_is_ok(slip_context_close(context))) _exit(7);
    if (!slip_status_is_ok(slip_context_destroy(context))) _exit(7);
  }
}
static void slip_exit_churning_world(void) {
  static slip__thread_t thread;
  SLIP_CHECK_OK(slip__thread_start(&thread, "churn", slip_exit_churns, NULL));
  usleep(3000);
}

SLIP_TEST(exit_while_another_thread_opens_and_closes) {
  char text[2048];
  for (int i = 0; i < 20; ++i) {
    slip_exit_child(slip_exit_churning_world, SLIP_EXIT_MAIN, text, sizeof(text));
    const char *line = strstr(text, "slipstream:");
    SLIP_CHECK(!line || !strstr(line + 1, "slipstream:"));
  }
}
