// SPDX-License-Identifier: Apache-2.0
// Forks from one thread in each state of the latch and of a context; a second thread is held where the state is a passing one.
#include <unistd.h>

#include "fork_world.h"
#include "kernel_mode/latch.h"
#include "platform/dispatch.h"

static void fork_result(void) {
  printf("RESULT forks=%llu\n", (unsigned long long)fork_count());
}

static void fork_each_end(int (*body)(void *user), void *user) {
  for (int end = 0; end < FORK_END_COUNT; ++end) fork_run(body, user, (fork_end_e)end);
}

SLIP_TEST(fork_table_names_every_function) {
  fork_check_table();
}

SLIP_TEST(fork_of_an_unclaimed_process_starts_afresh) {
  fork_each_end(fork_everything_works, NULL);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  SLIP_CHECK_EQ(fork_everything_works(NULL), 0);  // and the parent may still open
  fork_result();
}

SLIP_TEST(fork_of_a_program_process_starts_afresh) {
  SLIP_CHECK_OK(slip__latch_claim(SLIP_MODE_PROGRAM));
  fork_each_end(fork_everything_works, NULL);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_PROGRAM);
  SLIP_CHECK_CODE(slip__latch_claim(SLIP_MODE_KERNEL), SLIP_CODE_MODE_CONFLICT);
  fork_result();
}

// An open that was refused before the claim left nothing behind, neither here nor there.
SLIP_TEST(fork_after_a_refused_open_starts_afresh) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  options.device = 5;
  SLIP_CHECK_CODE(slip_context_open(&options, &context), SLIP_CODE_INVALID_ARGUMENT);
  fork_each_end(fork_everything_works, NULL);
  fork_result();
}

SLIP_TEST(fork_of_an_open_context_refuses_everything) {
  fork_world_t world;
  fork_world_open(&world);
  fork_each_end(fork_everything_is_refused, &world);
  fork_world_check(&world);
  fork_each_end(fork_everything_is_refused, &world);
  fork_world_close(&world);
  fork_result();
}

SLIP_TEST(fork_after_close_is_still_refused) {
  fork_world_t world, none = {.add = 0};
  fork_world_open(&world);
  fork_world_check(&world);
  slip_ticket_release(world.ticket);
  world.ticket = NULL;
  SLIP_CHECK_OK(slip_graph_destroy(world.graph));
  world.graph = NULL;
  SLIP_CHECK_OK(slip_context_close(world.context));
  fork_each_end(fork_everything_is_refused, &world);  // CLOSED, not destroyed
  slip_frame_deinitialize(&world.frame);
  SLIP_CHECK_OK(slip_context_destroy(world.context));
  SLIP_CHECK_OK(slip_stream_destroy(world.platform, world.stream));
  fork_each_end(fork_everything_is_refused, &none);
  fork_world_open(&world);
  fork_world_check(&world);
  fork_world_close(&world);
  fork_result();
}

static int fork_refused_twice(void *user) {
  int code = fork_everything_is_refused(user);
  if (code != 0) return code;
  fork_run(fork_everything_is_refused, user, FORK_END_NORMALLY);
  return 0;
}

SLIP_TEST(fork_of_a_fork_is_refused_too) {
  fork_world_t world;
  fork_world_open(&world);
  fork_each_end(fork_refused_twice, &world);
  fork_world_check(&world);
  fork_world_close(&world);
  fork_result();
}

static int fork_works_in_a_fork(void *user) {
  (void)user;
  fork_run(fork_everything_works, NULL, FORK_END_NORMALLY);
  return fork_everything_works(NULL);
}

SLIP_TEST(fork_of_an_unclaimed_fork_starts_afresh) {
  fork_each_end(fork_works_in_a_fork, NULL);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  fork_result();
}

// --- passing states ----------------------------------------------------------------------------------------------------------------------

// Where the other thread is held: 0 passes, 1 holds whoever comes, 2 somebody is held.
static _Atomic uint32_t fork_held;
static void fork_hold(void) {
  uint32_t armed = 1;
  if (!atomic_compare_exchange_strong(&fork_held, &armed, 2)) return;
  while (atomic_load(&fork_held) == 2) usleep(100);
}

static uint32_t fork_hold_request;  // the allocation of the open at which it is held, from 1
static uint32_t fork_requests;
static void *fork_holding_control(void *self, void *ptr, size_t old_size, size_t new_size, size_t alignment) {
  if (!ptr && new_size > 0 && ++fork_requests == fork_hold_request) fork_hold();
  return slip_allocator_system().control(self, ptr, old_size, new_size, alignment);
}

// Holds whoever gives memory back.
static void *fork_holding_free(void *self, void *ptr, size_t old_size, size_t new_size, size_t alignment) {
  if (ptr && new_size == 0) fork_hold();
  return slip_allocator_system().control(self, ptr, old_size, new_size, alignment);
}

static int fork_count_requests(void *user) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  options.allocator.control = fork_holding_control;
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  *(uint32_t *)user = fork_requests;
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip_context_destroy(context));
  return 0;
}

static slip_status_t fork_holding_hook(void *user) {
  (void)user;
  fork_hold();
  return slip_ok_status();
}

typedef struct fork_other_t {
  slip__thread_t thread;
  slip_context_options_t options;
  slip_context_t *context;
  slip_status_t status;
} fork_other_t;

static void fork_other_opens(void *user) {
  fork_other_t *other = user;
  other->status = slip_context_open(&other->options, &other->context);
}
static void fork_other_closes(void *user) {
  fork_other_t *other = user;
  other->status = slip_context_close(other->context);
}

static void fork_other_begin(fork_other_t *other, void (*run)(void *user)) {
  atomic_store(&fork_held, 1);
  SLIP_CHECK_OK(slip__thread_start(&other->thread, "other", run, other));
  while (atomic_load(&fork_held) != 2) usleep(100);
}
static void fork_other_end(fork_other_t *other) {
  atomic_store(&fork_held, 0);
  slip__thread_join(&other->thread);
  SLIP_CHECK_OK(other->status);
}

// A process of its own, since its claim lasts. |user|: at which allocation of the open the other thread is held.
static int fork_process_during_open(void *user) {
  fork_world_t none = {.add = 0};
  fork_other_t other = {.options = SLIP_CONTEXT_OPTIONS_INIT};
  other.options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  other.options.allocator.control = fork_holding_control;
  fork_hold_request = *(uint32_t *)user;
  fork_other_begin(&other, fork_other_opens);
  if (slip_process_mode() == SLIP_MODE_UNCLAIMED) {
    fork_run(fork_everything_works_after_threads, NULL, FORK_END_AT_ONCE);
  } else {
    fork_run(fork_everything_is_refused, &none, FORK_END_AT_ONCE);
    fork_run(fork_everything_is_refused, &none, FORK_END_BY_EXEC);
  }
  fork_other_end(&other);
  SLIP_CHECK_OK(slip_context_close(other.context));
  SLIP_CHECK_OK(slip_context_destroy(other.context));
  return 0;
}

// Each allocation of an open is one moment; the first is that of the context itself, before the claim.
SLIP_TEST_TIMEOUT(fork_during_an_open, 300) {
  uint32_t *total = fork_shared_word();
  fork_run(fork_count_requests, total, FORK_END_AT_ONCE);
  SLIP_CHECK(*total >= 4);
  for (uint32_t n = 1; n <= *total; ++n) fork_run(fork_process_during_open, &n, FORK_END_AT_ONCE);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  fork_result();
}

// |other| is inside close, where |state| is.
static void fork_held_in_close(fork_other_t *other, slip_context_state_e state) {
  fork_world_t world = {.add = 0};
  SLIP_CHECK_OK(slip_context_open(&other->options, &other->context));
  world.context = other->context;
  fork_other_begin(other, fork_other_closes);
  SLIP_CHECK_EQ(slip_context_state(other->context), state);
  for (int end = 0; end < FORK_END_COUNT; ++end) fork_run(fork_everything_is_refused, &world, (fork_end_e)end);
  fork_other_end(other);
  SLIP_CHECK_EQ(slip_context_state(other->context), SLIP_CONTEXT_CLOSED);
  SLIP_CHECK_OK(slip_context_destroy(other->context));
  fork_result();
}

SLIP_TEST(fork_during_the_hook_of_a_close) {
  fork_other_t other = {.options = SLIP_CONTEXT_OPTIONS_INIT};
  other.options.synchronize_hook = fork_holding_hook;
  fork_held_in_close(&other, SLIP_CONTEXT_READY);
}

SLIP_TEST(fork_during_a_close) {
  fork_other_t other = {.options = SLIP_CONTEXT_OPTIONS_INIT};
  other.options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  other.options.allocator.control = fork_holding_free;
  fork_held_in_close(&other, SLIP_CONTEXT_CLOSING);
}

// A close that failed is owed by the parent; its child has nothing to do with it.
SLIP_TEST(fork_while_a_close_is_owed) {
  fork_world_t world = {.add = 0};
  SLIP_CHECK_OK(slip_context_open(NULL, &world.context));
  slip__platform_fault_set(SLIP__PLATFORM_CALL_MEMORY_FREE, 1, false);
  SLIP_CHECK_CODE(slip_context_close(world.context), SLIP_CODE_DEVICE);
  fork_each_end(fork_everything_is_refused, &world);
  SLIP_CHECK_OK(slip_context_close(world.context));
  SLIP_CHECK_OK(slip_context_destroy(world.context));
  fork_result();
}
