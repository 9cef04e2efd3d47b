// SPDX-License-Identifier: Apache-2.0
// Open, states, close, destroy, fork: the life of a context on the cpu.
#include "kernel_mode/context.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "kernel_mode/latch.h"
#include "kernel_mode/open.h"
#include "os/thread.h"
#include "slip_test_allocator.h"

static slip_context_options_t slip_context_test_options(void) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  return options;
}

static slip_context_t *slip_context_test_open(const slip_context_options_t *options) {
  slip_context_t *context = NULL;
  SLIP_CHECK_OK(slip_context_open(options, &context));
  SLIP_CHECK(context != NULL);
  return context;
}

static void slip_context_test_end(slip_context_t *context) {
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip_context_destroy(context));
}

SLIP_TEST(context_states_from_open_to_close) {
  slip_context_options_t options = slip_context_test_options();
  SLIP_CHECK_EQ(slip_context_state(NULL), SLIP_CONTEXT_UNINITIALIZED);
  SLIP_CHECK(!slip_context_initialized(NULL));
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  slip_context_t *context = slip_context_test_open(&options);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_KERNEL);
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_READY);
  SLIP_CHECK(slip_context_initialized(context));
  SLIP_CHECK_EQ(slip_context_device(context).platform, SLIP_PLATFORM_CPU);
  SLIP_CHECK_EQ(slip_context_generation(context), 1);
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_CLOSED);
  SLIP_CHECK(!slip_context_initialized(context));
  SLIP_CHECK_OK(slip_context_close(context));  // terminal, not an error
  int32_t id = 5;
  SLIP_CHECK_ERROR(slip_context_prepare(context, (slip_const_bytes_t){NULL, 0}, &id), SLIP_CODE_INVALID_STATE, "CLOSED");
  SLIP_CHECK_EQ(id, -1);
  SLIP_CHECK_CODE(slip_context_drain(context), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_OK(slip_context_destroy(context));
  SLIP_CHECK_OK(slip_context_destroy(NULL));
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_KERNEL);  // closing never gives the claim back
}

SLIP_TEST(context_reopens_with_a_new_generation) {
  slip_context_options_t options = slip_context_test_options();
  slip_context_t *first = slip_context_test_open(&options);
  uint64_t generation = slip_context_generation(first);
  SLIP_CHECK_OK(slip_context_close(first));
  slip_context_t *second = slip_context_test_open(&options);
  SLIP_CHECK(second != first);
  SLIP_CHECK_EQ(slip_context_generation(second), generation + 1);
  SLIP_CHECK_EQ(slip_context_state(first), SLIP_CONTEXT_CLOSED);
  slip_context_test_end(second);
  SLIP_CHECK_OK(slip_context_destroy(first));
  options.generation = 41;
  slip_context_t *third = slip_context_test_open(&options);
  SLIP_CHECK_EQ(slip_context_generation(third), 41);
  slip_context_test_end(third);
  options.generation = 0;
  slip_context_t *fourth = slip_context_test_open(&options);
  SLIP_CHECK_EQ(slip_context_generation(fourth), 42);
  slip_context_test_end(fourth);
}

SLIP_TEST(context_same_options_give_the_same_context) {
  slip_context_options_t options = slip_context_test_options();
  slip_context_t *first = slip_context_test_open(&options);
  options.platform = "cpu";  // the default, spelt out
  options.max_pending = 1024;
  slip_context_t *second = slip_context_test_open(&options);
  SLIP_CHECK(first == second);
  SLIP_CHECK_OK(slip_context_destroy(second));  // one reference of two
  SLIP_CHECK_ERROR(slip_context_destroy(first), SLIP_CODE_INVALID_STATE, "close it first");
  SLIP_CHECK_EQ(slip_context_state(first), SLIP_CONTEXT_READY);
  slip_context_test_end(first);
}

SLIP_TEST(context_other_options_conflict_by_name) {
  slip_context_options_t options = slip_context_test_options();
  slip_context_t *context = slip_context_test_open(&options), *other = context;
  options.max_in_flight = 3;
  SLIP_CHECK_ERROR(slip_context_open(&options, &other), SLIP_CODE_CONFLICT, "max_in_flight");
  SLIP_CHECK(other == NULL);
  options = slip_context_test_options();
  options.heap_bytes[1] = 4096;
  SLIP_CHECK_ERROR(slip_context_open(&options, &other), SLIP_CODE_CONFLICT, "heap_bytes[1]");
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_READY);
  slip_context_test_end(context);
}

SLIP_TEST(context_preflight_refusals_claim_nothing) {
  slip_context_t *context = NULL;
  slip_context_options_t options = slip_context_test_options();
  SLIP_CHECK_CODE(slip_context_open(&options, NULL), SLIP_CODE_INVALID_ARGUMENT);
  options.task_window[0] = 3;
  SLIP_CHECK_ERROR(slip_context_open(&options, &context), SLIP_CODE_INVALID_ARGUMENT, "task_window[0] is 3");
  options = slip_context_test_options();
  options.platform = "abacus";
  SLIP_CHECK_ERROR(slip_context_open(&options, &context), SLIP_CODE_NOT_FOUND, "abacus");
  options.platform = "null";
  SLIP_CHECK_ERROR(slip_context_open(&options, &context), SLIP_CODE_UNSUPPORTED, "null");
  options = slip_context_test_options();
  options.device = 1;
  SLIP_CHECK_ERROR(slip_context_open(&options, &context), SLIP_CODE_INVALID_ARGUMENT, "device is 1");
  options.device = -1;
  SLIP_CHECK_ERROR(slip_context_open(&options, &context), SLIP_CODE_INVALID_ARGUMENT, "device is -1");
  options = slip_context_test_options();
  options.target = "pdp-11";
  SLIP_CHECK_ERROR(slip_context_open(&options, &context), SLIP_CODE_UNSUPPORTED, "pdp-11");
  options = slip_context_test_options();
  options.runtime_kind = 9;
  SLIP_CHECK_ERROR(slip_context_open(&options, &context), SLIP_CODE_UNSUPPORTED, "runtime_kind is 9");
  SLIP_CHECK(context == NULL);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
}

SLIP_TEST(context_open_in_a_program_process_conflicts) {
  slip_context_t *context = NULL;
  SLIP_CHECK_OK(slip__latch_claim(SLIP_MODE_PROGRAM));
  slip_context_options_t options = slip_context_test_options();
  SLIP_CHECK_CODE(slip_context_open(&options, &context), SLIP_CODE_MODE_CONFLICT);
  SLIP_CHECK(context == NULL);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_PROGRAM);
}

static slip_code_t slip_context_test_recursive_code;
static void *slip_context_test_recursive_control(void *self, void *ptr, size_t old_size, size_t new_size, size_t alignment) {
  slip_allocator_t system = slip_allocator_system();
  if (!ptr && slip_context_test_recursive_code == SLIP_CODE_OK) {
    slip_context_t *context = NULL;
    slip_status_t status = slip_context_open(NULL, &context);
    slip_context_test_recursive_code = slip_status_code(status);
    slip_status_free(status);
  }
  return system.control(self, ptr, old_size, new_size, alignment);
}

SLIP_TEST(context_open_inside_an_open_is_recursive) {
  slip_context_options_t options = slip_context_test_options();
  options.allocator.control = slip_context_test_recursive_control;
  slip_context_t *context = slip_context_test_open(&options);
  SLIP_CHECK_EQ(slip_context_test_recursive_code, SLIP_CODE_RECURSIVE);
  slip_context_test_end(context);
}

// --- concurrent opens ------------------------------------------------------------------------------------------------------------------

typedef struct slip_context_test_opener_t {
  slip__thread_t thread;
  slip_context_options_t options;
  slip_context_t *context;
  slip_status_t status;
} slip_context_test_opener_t;

static void slip_context_test_opener(void *user) {
  slip_context_test_opener_t *opener = user;
  opener->status = slip_context_open(&opener->options, &opener->context);
}

SLIP_TEST(context_concurrent_opens_share_one_context) {
  slip_context_test_opener_t openers[6] = {0};
  for (int i = 0; i < 6; ++i) {
    openers[i].options = slip_context_test_options();
    SLIP_CHECK_OK(slip__thread_start(&openers[i].thread, "opener", slip_context_test_opener, &openers[i]));
  }
  for (int i = 0; i < 6; ++i) {
    slip__thread_join(&openers[i].thread);
    SLIP_CHECK_OK(openers[i].status);
    SLIP_CHECK(openers[i].context == openers[0].context);
  }
  SLIP_CHECK_OK(slip_context_close(openers[0].context));
  for (int i = 0; i < 6; ++i) SLIP_CHECK_OK(slip_context_destroy(openers[i].context));
}

// Holds the opening thread inside an allocation until the others wait for it, then fails it. The first block is the context.
static _Atomic uint32_t slip_context_test_hold, slip_context_test_held;
static const slip_context_t *slip_context_test_shell;
static void *slip_context_test_holding_control(void *self, void *ptr, size_t old_size, size_t new_size, size_t alignment) {
  slip_test_allocator_t *state = self;
  if (!ptr && new_size > 0 && state->requests >= 2 && atomic_load(&slip_context_test_hold)) {
    atomic_store(&slip_context_test_held, 1);
    while (atomic_load(&slip_context_test_hold)) (void)sched_yield();
    return NULL;
  }
  void *block = slip_test_allocator(state).control(self, ptr, old_size, new_size, alignment);
  if (!slip_context_test_shell) slip_context_test_shell = block;
  return block;
}

SLIP_TEST(context_concurrent_opens_share_one_failure) {
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_context_test_opener_t openers[3] = {0};
  atomic_store(&slip_context_test_hold, 1);
  for (int i = 0; i < 3; ++i) {
    openers[i].options = slip_context_test_options();
    openers[i].options.allocator = (slip_allocator_t){&memory, slip_context_test_holding_control};
    SLIP_CHECK_OK(slip__thread_start(&openers[i].thread, "opener", slip_context_test_opener, &openers[i]));
    while (!atomic_load(&slip_context_test_held)) (void)sched_yield();
  }
  for (uint32_t openers_in = 0; openers_in < 3; usleep(100)) {  // one opens, two wait: before that, they would open afresh
    slip__contexts_lock();
    openers_in = slip_context_test_shell->references;
    slip__contexts_unlock();
  }
  atomic_store(&slip_context_test_hold, 0);
  for (int i = 0; i < 3; ++i) {
    slip__thread_join(&openers[i].thread);
    SLIP_CHECK_ERROR(openers[i].status, SLIP_CODE_OUT_OF_MEMORY, "opening a context on cpu:0");
    SLIP_CHECK(openers[i].context == NULL);
  }
  slip_test_allocator_check_empty(&memory);
  slip_context_options_t options = slip_context_test_options();
  slip_context_test_end(slip_context_test_open(&options));
}

// --- owed teardown ---------------------------------------------------------------------------------------------------------------------

SLIP_TEST(context_failed_open_with_owed_teardown_can_be_closed) {
  slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  slip_context_options_t options = slip_context_test_options();
  options.allocator = slip_test_allocator(&memory);
  slip_context_t *context = slip_context_test_open(&options);
  uint64_t requests = memory.requests;
  slip_context_test_end(context);
  slip_test_allocator_check_empty(&memory);
  // The last allocation of open fails, with the device block already taken, and giving that back fails too.
  slip_test_allocator_fail(&memory, requests, false);
  slip__platform_fault_set(SLIP__PLATFORM_CALL_MEMORY_FREE, 1, true);
  SLIP_CHECK_ERROR(slip_context_open(&options, &context), SLIP_CODE_OUT_OF_MEMORY, "the teardown is owed");
  SLIP_CHECK(context != NULL);
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_FAILED);
  SLIP_CHECK(!slip_context_initialized(context));
  int32_t id = 0;
  SLIP_CHECK_ERROR(slip_context_prepare(context, (slip_const_bytes_t){NULL, 0}, &id), SLIP_CODE_INVALID_STATE, "FAILED");
  slip_context_t *again = NULL;
  SLIP_CHECK_CODE(slip_context_open(&options, &again), SLIP_CODE_OUT_OF_MEMORY);  // the same result, and the handle is not lost
  SLIP_CHECK(again == context);
  SLIP_CHECK_OK(slip_context_destroy(again));
  SLIP_CHECK_CODE(slip_context_destroy(context), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_ERROR(slip_context_close(context), SLIP_CODE_DEVICE, "freeing device memory");
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_CLOSING);
  slip__platform_fault_clear();
  slip_context_test_end(context);
  slip_test_allocator_check_empty(&memory);
  slip_context_test_end(slip_context_test_open(&options));
}

SLIP_TEST(context_failed_close_is_repeated_from_where_it_stopped) {
  slip_context_options_t options = slip_context_test_options();
  slip_context_t *context = slip_context_test_open(&options), *other = NULL;
  slip__platform_fault_set(SLIP__PLATFORM_CALL_MEMORY_FREE, 1, false);
  SLIP_CHECK_ERROR(slip_context_close(context), SLIP_CODE_DEVICE, "close again");
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_CLOSING);
  SLIP_CHECK(!slip_context_initialized(context));
  SLIP_CHECK_CODE(slip_context_destroy(context), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_ERROR(slip_context_open(&options, &other), SLIP_CODE_INVALID_STATE, "repeat slip_context_close");
  SLIP_CHECK(other == NULL);
  slip__platform_fault_clear();
  slip_context_test_end(context);
}

typedef struct slip_context_test_hook_t {
  slip_context_t *context;
  uint32_t calls;
  uint32_t failures;
  slip_code_t close_code;
} slip_context_test_hook_t;

static slip_status_t slip_context_test_hook(void *user) {
  slip_context_test_hook_t *hook = user;
  ++hook->calls;
  if (hook->context) {
    slip_status_t status = slip_context_close(hook->context);
    hook->close_code = slip_status_code(status);
    slip_status_free(status);
  }
  if (hook->failures == 0) return slip_ok_status();
  --hook->failures;
  return SLIP_STATUS(SLIP_CODE_DEVICE, "the framework's queue is broken");
}

SLIP_TEST(context_hook_failure_leaves_the_context_open) {
  slip_context_test_hook_t hook = {.failures = 2};
  slip_context_options_t options = slip_context_test_options();
  options.synchronize_hook = slip_context_test_hook;
  options.synchronize_user = &hook;
  slip_context_t *context = slip_context_test_open(&options);
  SLIP_CHECK_ERROR(slip_context_drain(context), SLIP_CODE_DEVICE, "queue is broken");
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_READY);
  SLIP_CHECK_ERROR(slip_context_close(context), SLIP_CODE_DEVICE, "it is still open");
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_READY);
  SLIP_CHECK_OK(slip_context_drain(context));
  slip_context_test_end(context);
  SLIP_CHECK_EQ(hook.calls, 4);
}

SLIP_TEST(context_poisoned_closes_although_its_hook_fails) {
  slip_context_test_hook_t hook = {.failures = 1};
  slip_context_options_t options = slip_context_test_options();
  options.synchronize_hook = slip_context_test_hook;
  options.synchronize_user = &hook;
  slip_context_t *context = slip_context_test_open(&options);
  slip__context_poison(context, SLIP_STATUS(SLIP_CODE_DEVICE, "something broke"));
  slip_context_test_end(context);
  SLIP_CHECK_EQ(hook.calls, 1);
}

// A framework's queue: what is in it when close is called is launched by the hook, before admission stops.
typedef struct slip_context_test_queue_t {
  slip_context_t *context;
  int32_t id;
  float x[4], y[4], z[4];
  uint32_t released;
} slip_context_test_queue_t;

static void slip_context_test_released(void *user) {
  ++*(uint32_t *)user;
}

static slip_status_t slip_context_test_flush(void *user) {
  slip_context_test_queue_t *queue = user;
  slip_frame_t frame;
  slip_fixture_frame_add(&frame, queue->context, queue->id, queue->x, queue->y, queue->z, 4);
  slip_launch_record_t record = {.struct_size = (uint32_t)sizeof(record),
                                 .id = queue->id,
                                 .context = queue->context,
                                 .frame = &frame,
                                 .stream = SLIP_STREAM_INLINE,
                                 .release = slip_context_test_released,
                                 .user = &queue->released};
  slip_status_t status = slip_launch(&record, NULL);
  slip_frame_deinitialize(&frame);
  return status;
}

SLIP_TEST(context_hook_of_close_may_launch) {
  slip_context_test_queue_t queue = {.x = {1, 2, 3, 4}, .y = {10, 20, 30, 40}};
  slip_context_options_t options = slip_context_test_options();
  options.synchronize_hook = slip_context_test_flush;
  options.synchronize_user = &queue;
  queue.context = slip_context_test_open(&options);
  queue.id = slip_fixture_prepare(queue.context, slip_fixture_add());
  slip_context_test_end(queue.context);
  for (int i = 0; i < 4; ++i) SLIP_CHECK(queue.z[i] == 11 * (float)(i + 1));
  SLIP_CHECK_EQ(queue.released, 1);
}

SLIP_TEST(context_close_from_inside_is_refused) {
  slip_context_test_hook_t hook = {0};
  slip_context_options_t options = slip_context_test_options();
  options.synchronize_hook = slip_context_test_hook;
  options.synchronize_user = &hook;
  slip_context_t *context = slip_context_test_open(&options);
  hook.context = context;
  SLIP_CHECK_OK(slip_context_drain(context));
  SLIP_CHECK_EQ(hook.close_code, SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_READY);
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_EQ(hook.close_code, SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_OK(slip_context_destroy(context));
}

// --- fork --------------------------------------------------------------------------------------------------------------------------------

static int slip_context_test_code(slip_status_t status) {
  slip_code_t code = slip_status_code(status);
  slip_status_free(status);
  return code;
}

static int slip_context_test_everything_is_forked(slip_context_t *context, slip_ticket_t *ticket, int32_t id) {
  slip_context_t *other = NULL;
  slip_signature_t *signature = NULL;
  slip_frame_t frame = {0};
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  if (slip_context_test_code(slip_context_open(NULL, &other)) != SLIP_CODE_FORKED) return 1;
  if (slip_context_test_code(slip_context_prepare(context, (slip_const_bytes_t){NULL, 0}, &id)) != SLIP_CODE_FORKED) return 2;
  if (slip_context_test_code(slip_context_launch(context, 0, &frame, SLIP_STREAM_INLINE, NULL)) != SLIP_CODE_FORKED) return 3;
  if (slip_context_test_code(slip_context_release(context, 0)) != SLIP_CODE_FORKED) return 4;
  if (slip_context_test_code(slip_context_signature(context, 0, &signature)) != SLIP_CODE_FORKED) return 5;
  if (slip_context_test_code(slip_context_drain(context)) != SLIP_CODE_FORKED) return 6;
  if (slip_context_test_code(slip_context_close(context)) != SLIP_CODE_FORKED) return 7;
  if (slip_context_test_code(slip_context_destroy(context)) != SLIP_CODE_FORKED) return 8;
  if (slip_context_test_code(slip_context_stats(context, &stats)) != SLIP_CODE_FORKED) return 9;
  if (slip_context_test_code(slip_ticket_wait(ticket, -1)) != SLIP_CODE_FORKED) return 10;
  if (slip_context_test_code(slip_ticket_query(ticket)) != SLIP_CODE_FORKED) return 11;
  slip_ticket_release(ticket);
  if (slip_context_initialized(context)) return 12;
  return 0;
}

// Locks are held when the parent forks, as another thread might hold them: a child that touched one would hang.
SLIP_TEST(context_child_of_an_open_context_refuses_everything) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = slip_context_test_open(&options);
  slip_platform_t *platform = NULL;
  slip_stream_t stream = NULL;
  slip_ticket_t *ticket = NULL;
  slip_frame_t frame = {0};
  int64_t door[4] = {0};
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  SLIP_CHECK_OK(slip_platform_find("cpu", &platform));
  SLIP_CHECK_OK(slip_stream_create(platform, 0, &stream));
  slip_fixture_frame_control(&frame, context, id, door, 0, 0);
  SLIP_CHECK_OK(slip_context_launch(context, id, &frame, stream, &ticket));
  slip_frame_deinitialize(&frame);
  pthread_mutex_lock(&context->registry.lock);
  pthread_mutex_lock(&context->drain_lock);
  pid_t child = fork();
  if (child == 0) _exit(slip_context_test_everything_is_forked(context, ticket, -1));
  pthread_mutex_unlock(&context->drain_lock);
  pthread_mutex_unlock(&context->registry.lock);
  int state = 0;
  SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
  SLIP_CHECK(WIFEXITED(state));
  SLIP_CHECK_EQ(WEXITSTATUS(state), 0);
  // The parent's launch, context and ticket are untouched.
  __atomic_store_n(&door[1], 1, __ATOMIC_SEQ_CST);
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  slip_ticket_release(ticket);
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_READY);
  slip_context_test_end(context);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

static int slip_context_test_child_opens(void) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  if (slip_context_test_code(slip_context_open(&options, &context)) != SLIP_CODE_OK) return 1;
  if (slip_context_test_code(slip_context_close(context)) != SLIP_CODE_OK) return 2;
  if (slip_context_test_code(slip_context_destroy(context)) != SLIP_CODE_OK) return 3;
  return 0;
}

SLIP_TEST(context_child_of_an_unclaimed_parent_opens) {
  for (int i = 0; i < 3; ++i) {
    pid_t child = fork();
    if (child == 0) _exit(slip_context_test_child_opens());
    int state = 0;
    SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
    SLIP_CHECK(WIFEXITED(state));
    SLIP_CHECK_EQ(WEXITSTATUS(state), 0);
  }
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  SLIP_CHECK_EQ(slip_context_test_child_opens(), 0);
}

// --- the end of the process
// ----------------------------------------------------------------------------------------------------------------

// Ends with a launch that will never finish, on a stream of its own thread, and with the context's workers alive.
static int slip_context_test_leave_running(void) {
  static int64_t state[4];
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_platform_t *platform = NULL;
  slip_stream_t stream = NULL;
  slip_frame_t frame = {0};
  options.scheduler_threads = 2;
  slip_context_t *context = slip_context_test_open(&options);
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  SLIP_CHECK_OK(slip_platform_find("cpu", &platform));
  SLIP_CHECK_OK(slip_stream_create(platform, 0, &stream));
  slip_fixture_frame_control(&frame, context, id, state, 0, 0);
  SLIP_CHECK_OK(slip_context_launch(context, id, &frame, stream, NULL));
  while (__atomic_load_n(&state[2], __ATOMIC_SEQ_CST) == 0) usleep(100);
  slip_frame_deinitialize(&frame);
  return 0;
}

SLIP_TEST(context_left_open_at_exit_is_reported_and_left) {
  int pipes[2];
  SLIP_CHECK_EQ(pipe(pipes), 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    (void)dup2(pipes[1], 2);
    exit(slip_context_test_leave_running());
  }
  close(pipes[1]);
  char text[512] = {0};
  size_t used = 0;
  for (ssize_t got; used < sizeof(text) - 1 && (got = read(pipes[0], text + used, sizeof(text) - 1 - used)) > 0;) used += (size_t)got;
  int state = 0;
  SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
  SLIP_CHECK(WIFEXITED(state));
  SLIP_CHECK_EQ(WEXITSTATUS(state), 0);
  SLIP_CHECK(strstr(text, "was not closed") != NULL);
}

static slip_status_t slip_context_test_open_close(slip_allocator_t allocator, void *user) {
  (void)user;
  slip_context_options_t options = slip_context_test_options();
  options.allocator = allocator;
  slip_context_t *context = NULL;
  SLIP_RETURN_IF_ERROR(slip_context_open(&options, &context));
  slip_status_t status = slip_context_close(context);
  return slip_status_join(status, slip_context_destroy(context));
}

SLIP_TEST(context_open_survives_every_failing_allocation) {
  SLIP_CHECK(slip_test_allocator_loop(slip_context_test_open_close, NULL) > 6);
}

// --- every option that an open accepts, against one that is open -------------------------------------------------------------------------

typedef struct slip_context_test_other_t {
  size_t offset, size;
  uint64_t value;
  const char *name;
} slip_context_test_other_t;
#define SLIP_CONTEXT_OTHER(field, value) \
  { offsetof(slip_context_options_t, field), sizeof(((slip_context_options_t *)0)->field), (uint64_t)(value), #field }

SLIP_TEST(context_conflict_names_each_option) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.scheduler_threads = 2;
  slip_context_t *context = slip_context_test_open(&options), *other = NULL;
  const char *target = slip__cpu_target_at(0);
  const slip_context_test_other_t cases[] = {
      SLIP_CONTEXT_OTHER(target, (uintptr_t)target),
      SLIP_CONTEXT_OTHER(generation, 99),
      SLIP_CONTEXT_OTHER(task_window[3], 64),
      SLIP_CONTEXT_OTHER(heap_bytes[0], 4096),
      SLIP_CONTEXT_OTHER(dependency_pool[2], 128),
      SLIP_CONTEXT_OTHER(scheduler_threads, 3),
      SLIP_CONTEXT_OTHER(max_in_flight, 5),
      SLIP_CONTEXT_OTHER(max_pending, 5),
      SLIP_CONTEXT_OTHER(max_callables, 5),
      SLIP_CONTEXT_OTHER(max_resident_bytes, 5),
      SLIP_CONTEXT_OTHER(max_image_bytes, 5),
      SLIP_CONTEXT_OTHER(workspace_budget_bytes, UINT64_C(1) << 40),
      SLIP_CONTEXT_OTHER(output_directory, (uintptr_t) "elsewhere"),
      SLIP_CONTEXT_OTHER(flags, SLIP_CONTEXT_SKIP_BUILD_CHECK),
      SLIP_CONTEXT_OTHER(allocator.control, (uintptr_t)slip_context_test_recursive_control),
      SLIP_CONTEXT_OTHER(synchronize_hook, (uintptr_t)slip_context_test_hook),
      SLIP_CONTEXT_OTHER(synchronize_user, (uintptr_t)&options),
      SLIP_CONTEXT_OTHER(stall_timeout_ms, 5),
      SLIP_CONTEXT_OTHER(max_captured, 5),
      SLIP_CONTEXT_OTHER(max_captures, 5),
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    slip_context_options_t changed = options;
    char part[80];
    memcpy((char *)&changed + cases[i].offset, &cases[i].value, cases[i].size);
    (void)snprintf(part, sizeof(part), "other options: %s differs", cases[i].name);
    SLIP_CHECK_ERROR(slip_context_open(&changed, &other), SLIP_CODE_CONFLICT, part);
    SLIP_CHECK(other == NULL);
  }
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_READY);
  slip_context_test_end(context);
}
