// SPDX-License-Identifier: Apache-2.0
#include "os/thread.h"

#include <errno.h>
#include <signal.h>

#include "os/clock.h"
#include "os/fault.h"
#include "slip_test.h"

typedef struct thread_limits_t {
  size_t stack, guard;
  uint32_t open_signals;
} thread_limits_t;

static void thread_measure(void *user) {
  thread_limits_t *limits = user;
  pthread_attr_t attributes;
  sigset_t mask;
  SLIP_CHECK_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  SLIP_CHECK_EQ(pthread_attr_getstacksize(&attributes, &limits->stack), 0);
  SLIP_CHECK_EQ(pthread_attr_getguardsize(&attributes, &limits->guard), 0);
  SLIP_CHECK_EQ(pthread_attr_destroy(&attributes), 0);
  SLIP_CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
  for (int i = 1; i < SIGRTMIN; ++i) {
    // The C library keeps two for itself; nobody can block the other two.
    if (i < 32 && i != SIGKILL && i != SIGSTOP && sigismember(&mask, i) == 0) limits->open_signals |= 1u << i;
  }
}

SLIP_TEST(thread_has_a_small_guarded_stack_and_its_own_faults_only) {
  slip__thread_t thread;
  thread_limits_t limits = {0};
  SLIP_CHECK_OK(slip__thread_start(&thread, "measure", thread_measure, &limits));
  slip__thread_join(&thread);
  SLIP_CHECK(limits.stack <= SLIP__THREAD_STACK_BYTES && limits.stack >= SLIP__THREAD_STACK_BYTES / 2);
  SLIP_CHECK(limits.guard >= 4096);
  SLIP_CHECK_EQ(limits.open_signals, 1u << SIGSEGV | 1u << SIGBUS | 1u << SIGFPE | 1u << SIGILL | 1u << SIGTRAP | 1u << SIGSYS);
}

typedef struct thread_state_t {
  _Atomic uint32_t turn;
  uint32_t count;
  bool signals_blocked;
  char name[16];
} thread_state_t;

static void thread_note(void *user) {
  thread_state_t *state = user;
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, NULL, &mask);
  state->signals_blocked = sigismember(&mask, SIGTERM) == 1;
  // The starter names the thread after it has begun.
  for (int i = 0; i < 1000 && state->name[0] != 's'; ++i) {
    pthread_getname_np(pthread_self(), state->name, sizeof(state->name));
    struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
  }
}

SLIP_TEST(thread_blocks_signals_and_cuts_its_name) {
  slip__thread_t thread;
  thread_state_t state = {0};
  SLIP_CHECK_OK(slip__thread_start(&thread, "slip-a-rather-long-name", thread_note, &state));
  slip__thread_join(&thread);
  SLIP_CHECK(state.signals_blocked);
  SLIP_CHECK_STR(state.name, "slip-a-rather-l");
  slip__thread_join(&thread);
}

static void thread_pong(void *user) {
  thread_state_t *state = user;
  for (uint32_t i = 0; i < state->count; ++i) {
    while (atomic_load(&state->turn) != 1) (void)slip__futex_wait(&state->turn, 0, -1);
    atomic_store(&state->turn, 0);
    slip__futex_wake(&state->turn, 1);
  }
}

SLIP_TEST(futex_hands_turns_over_without_losing_a_wake) {
  slip__thread_t thread;
  thread_state_t state = {.count = 2000};
  SLIP_CHECK_OK(slip__thread_start(&thread, "pong", thread_pong, &state));
  for (uint32_t i = 0; i < state.count; ++i) {
    atomic_store(&state.turn, 1);
    slip__futex_wake(&state.turn, 1);
    while (atomic_load(&state.turn) != 0) (void)slip__futex_wait(&state.turn, 1, -1);
  }
  slip__thread_join(&thread);
}

SLIP_TEST(futex_times_out) {
  _Atomic uint32_t word = 7;
  uint64_t before = slip__clock_now_ns();
  SLIP_CHECK(!slip__futex_wait(&word, 7, 20000000));
  SLIP_CHECK(slip__clock_now_ns() - before >= 19000000u);
  SLIP_CHECK(slip__futex_wait(&word, 8, 20000000));
}

SLIP_TEST(thread_start_failure_is_a_status) {
  slip__thread_t thread;
  slip__os_fault_plan_t plan = {.kinds = SLIP__OS_CALL_BIT(THREAD), .nth = 1, .error = EAGAIN};
  slip__os_fault_set(&plan);
  SLIP_CHECK_ERROR(slip__thread_start(&thread, "x", thread_note, NULL), SLIP_CODE_OUT_OF_MEMORY, "ulimit");
  plan.error = EPERM;
  plan.seen = 0;
  SLIP_CHECK_CODE(slip__thread_start(&thread, "x", thread_note, NULL), SLIP_CODE_UNSUPPORTED);
  slip__os_fault_set(NULL);
  SLIP_CHECK(!thread.started);
  slip__thread_join(&thread);
}
