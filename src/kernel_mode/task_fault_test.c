// SPDX-License-Identifier: Apache-2.0
// Each task-graph fault that a program can cause, through launches: its code, what the message names, and that the next launch on the same
// context executes exactly its own tasks; on every kind of stream, alone and beside a launch that is in flight. The three that no program
// can cause are in src/graph/stall_test.c.
#include <sched.h>

#include "device_fixture.h"

typedef struct task_fault_t {
  slip_code_t code;
  const char *what;    // in the first sentence
  const char *where;   // in an annotation
  const char *remedy;  // which option or change helps
} task_fault_t;

// At scope depth 2, ring 2.
static const task_fault_t task_faults[] = {
    {SLIP_CODE_GRAPH_SCOPE_DEADLOCK, "heap ring 2 full with", "after the task of kernel 0 (step) in ring 2", "raise heap_bytes[2]"},
    {SLIP_CODE_GRAPH_HEAP_EXHAUSTED, "does not fit heap ring 2 of 4096 bytes", "in scope depth 2, after the task of kernel 0 (step)",
     "raise heap_bytes[2]"},
    {SLIP_CODE_GRAPH_DEPENDENCY_POOL, "a task with 24 tensors",
     "task of kernel 1 (look) in ring 2, scope depth 2, submitted at faults.h:78", "raise dependency_pool[2]"},
    {SLIP_CODE_GRAPH_INVALID_TASK, "kernel 9 does not exist: the object has 2", "in ring 2, scope depth 2, submitted at faults.h:77", ""},
    {SLIP_CODE_GRAPH_TOO_MANY_DEPENDENCIES, "70 explicit dependencies, at most 64", "task of kernel 0 (step) in ring 2", "join()"},
    {SLIP_CODE_GRAPH_GANG_TOO_LARGE, "a gang of 4000 blocks", "task of kernel 0 (step) in ring 2", "raise scheduler_threads"},
    {SLIP_CODE_GRAPH_USER_FAIL, "failed with code 7: as asked", "in scope depth 2, after the task of kernel 0 (step)", ""},
    {SLIP_CODE_GRAPH_KERNEL_FAULT, "reported fault 42 in block 4 of 8", "task of kernel 0 (step) in ring 2, scope depth 2, submitted at",
     "slip_kernel_fault()"},
    {SLIP_CODE_GRAPH_PREDICATE_UNREADABLE, "element 4 of 4", "task of kernel 0 (step) in ring 2", "an index inside"},
    {SLIP_CODE_GRAPH_STALE_TENSOR, "a scope of depth 3 that has ended", "task of kernel 0 (step) in ring 2", "create it in the scope"},
};
#define TASK_FAULTS (sizeof(task_faults) / sizeof(task_faults[0]))

typedef struct task_fault_world_t {
  slip_platform_t *platform;
  slip_context_t *context;
  slip_stream_t stream;
  int32_t id;
  int64_t *state;  // on the device
} task_fault_world_t;

static task_fault_world_t task_fault_open(const char *platform, bool is_inline, uint32_t threads) {
  task_fault_world_t world = {.stream = SLIP_STREAM_INLINE};
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  void *memory = NULL;
  options.platform = platform;
  options.flags = threads == 1 ? SLIP_CONTEXT_SINGLE_THREAD : SLIP_CONTEXT_NONE;
  options.scheduler_threads = threads == 1 ? 0 : threads;
  for (int ring = 0; ring < SLIP_RING_COUNT; ++ring) {
    options.task_window[ring] = 8;
    options.heap_bytes[ring] = 4096;
    options.dependency_pool[ring] = 4;
  }
  SLIP_CHECK_OK(slip_platform_find(platform, &world.platform));
  SLIP_CHECK_OK(slip_context_open(&options, &world.context));
  if (!is_inline) SLIP_CHECK_OK(slip_stream_create(world.platform, 0, &world.stream));
  world.id = slip_fixture_prepare(world.context, slip_fixture_faults());
  SLIP_CHECK_OK(slip_memory_allocate(world.platform, 0, 4 * sizeof(int64_t), &memory));
  world.state = memory;
  return world;
}

static void task_fault_close(task_fault_world_t *world, bool is_inline) {
  SLIP_CHECK_OK(slip_context_close(world->context));
  SLIP_CHECK_OK(slip_context_destroy(world->context));
  SLIP_CHECK_OK(slip_memory_free(world->platform, 0, world->state));
  if (!is_inline) SLIP_CHECK_OK(slip_stream_destroy(world->platform, world->stream));
}

// The result of one launch, waited for.
static slip_status_t task_fault_launch(task_fault_world_t *world, int64_t code) {
  static const int64_t zeros[4] = {0};
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  SLIP_CHECK_OK(slip_memory_copy(world->platform, 0, world->state, zeros, sizeof(zeros), SLIP_COPY_HOST_TO_DEVICE));
  slip_fixture_frame_faults(&frame, world->context, world->id, world->state, code, 2);
  slip_status_t status = slip_context_launch(world->context, world->id, &frame, world->stream, &ticket);
  if (slip_status_is_ok(status)) status = slip_ticket_wait(ticket, -1);
  slip_ticket_release(ticket);
  slip_frame_deinitialize(&frame);
  return status;
}

static void task_fault_check_text(slip_status_t status, const task_fault_t *fault) {
  const char *const parts[] = {fault->what, fault->where, fault->remedy};
  char text[1024];
  (void)slip_status_format(status, text, sizeof(text));
  for (int i = 0; i < 3; ++i) {
    if (!strstr(text, parts[i])) slip_test_fail(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", parts[i], text);
  }
}

static uint64_t task_fault_tasks(const task_fault_world_t *world) {
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_OK(slip_context_stats(world->context, &stats));
  return stats.tasks;
}

static void task_fault_check_good(task_fault_world_t *world) {
  int64_t state[4] = {0};
  uint64_t before = task_fault_tasks(world);
  SLIP_CHECK_OK(task_fault_launch(world, 0));
  SLIP_CHECK_OK(slip_memory_copy(world->platform, 0, state, world->state, sizeof(state), SLIP_COPY_DEVICE_TO_HOST));
  SLIP_CHECK_EQ(state[0], 10);
  SLIP_CHECK_EQ(task_fault_tasks(world) - before, 10);
}

static void task_fault_all(task_fault_world_t *world, uint32_t threads) {
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < TASK_FAULTS; ++i) {
      slip_status_t status = task_fault_launch(world, -(int64_t)task_faults[i].code);
      if (threads == 1 && task_faults[i].code == SLIP_CODE_GRAPH_DEPENDENCY_POOL) {
        SLIP_CHECK_OK(status);  // a single thread needs no dependencies
      } else {
        task_fault_check_text(status, &task_faults[i]);
        SLIP_CHECK_CODE(status, task_faults[i].code);
      }
      for (int k = 0; k < 3; ++k) task_fault_check_good(world);
    }
  }
}

static void task_fault_everywhere(const char *platform, bool is_inline) {
  for (uint32_t threads = 1; threads <= 3; ++threads) {
    task_fault_world_t world = task_fault_open(platform, is_inline, threads);
    task_fault_all(&world, threads);
    task_fault_close(&world, is_inline);
  }
}
SLIP_TEST_TIMEOUT(task_faults_of_inline_launches, 60) {
  task_fault_everywhere("cpu", true);
}
SLIP_TEST_TIMEOUT(task_faults_of_launches_on_a_stream, 60) {
  task_fault_everywhere("cpu", false);
}
SLIP_TEST_TIMEOUT(task_faults_of_launches_on_the_simulator, 120) {
  SLIP_CHECK_OK(slip_sim_reset(NULL));
  task_fault_everywhere("sim", false);
  slip_fixture_sim_check_clean("task faults");
}

// A launch that waits in its kernel holds one run slot and one thread all the while.
SLIP_TEST_TIMEOUT(task_faults_beside_a_launch_in_flight, 120) {
  int64_t door[4] = {0};
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  slip_stream_t other;
  task_fault_world_t world = task_fault_open("cpu", true, 3);
  int32_t control = slip_fixture_prepare(world.context, slip_fixture_control());
  SLIP_CHECK_OK(slip_stream_create(world.platform, 0, &other));
  slip_fixture_frame_control(&frame, world.context, control, door, 5, 0);
  SLIP_CHECK_OK(slip_context_launch(world.context, control, &frame, other, &ticket));
  while (!__atomic_load_n(&door[2], __ATOMIC_SEQ_CST)) (void)sched_yield();
  task_fault_all(&world, 3);
  __atomic_store_n(&door[1], 1, __ATOMIC_SEQ_CST);
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  SLIP_CHECK_EQ(door[0], 1);
  slip_ticket_release(ticket);
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_OK(slip_stream_destroy(world.platform, other));
  task_fault_close(&world, true);
}

// The same launch again and again: run twice, recorded twice, then replayed; a failing one in between is none of these. All of it is
// counted.
SLIP_TEST(launches_that_come_again_are_replayed_and_counted) {
  task_fault_world_t world = task_fault_open("cpu", true, 2);
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  for (int i = 0; i < 8; ++i) {
    task_fault_check_good(&world);
    if (i == 5) SLIP_CHECK_CODE(task_fault_launch(&world, -SLIP_CODE_GRAPH_USER_FAIL), SLIP_CODE_GRAPH_USER_FAIL);
  }
  SLIP_CHECK_OK(slip_context_stats(world.context, &stats));
  SLIP_CHECK_EQ(stats.recordings, 1);
  SLIP_CHECK_EQ(stats.recordings_refused, 0);
  SLIP_CHECK_EQ(stats.replays, 4);
  task_fault_close(&world, true);
}
