// SPDX-License-Identifier: Apache-2.0
#include "os/fork.h"

#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slip_test.h"

static int fork_resets;
static void fork_reset(void) {
  ++fork_resets;
}

SLIP_TEST(fork_is_counted_in_the_child_alone) {
  slip__fork_watch(fork_reset);
  slip__fork_watch(fork_reset);
  slip__fork_watch(NULL);
  uint32_t before = slip__fork_epoch();
  pid_t child = fork();
  if (child == 0) _exit(slip__fork_epoch() == before + 1 && fork_resets == 1 ? 0 : 1);
  int state = -1;
  SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
  SLIP_CHECK_EQ(state, 0);
  SLIP_CHECK_EQ(slip__fork_epoch(), before);
  SLIP_CHECK_EQ(fork_resets, 0);
}

// Two numbers that are equal whenever the lock is free.
static pthread_mutex_t fork_pair_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t fork_pair[2];
static _Atomic bool fork_stop;

static void *fork_count_pair(void *user) {
  (void)user;
  while (!atomic_load(&fork_stop)) {
    (void)pthread_mutex_lock(&fork_pair_lock);
    for (int i = 0; i < 100; ++i) fork_pair[0] = fork_pair[0] + 1;
    for (int i = 0; i < 100; ++i) fork_pair[1] = fork_pair[1] + 1;
    (void)pthread_mutex_unlock(&fork_pair_lock);
  }
  return NULL;
}

SLIP_TEST(fork_never_cuts_a_guarded_section) {
  pthread_t thread;
  slip__fork_guard(&fork_pair_lock);
  slip__fork_guard(&fork_pair_lock);
  SLIP_CHECK_EQ(pthread_create(&thread, NULL, fork_count_pair, NULL), 0);
  int failures = 0;
  for (int i = 0; i < 100; ++i) {
    pid_t child = fork();
    if (child == 0) _exit(pthread_mutex_trylock(&fork_pair_lock) == 0 && fork_pair[0] == fork_pair[1] ? 0 : 1);
    int state = -1;
    failures += child < 0 || waitpid(child, &state, 0) != child || state != 0;
  }
  atomic_store(&fork_stop, true);
  (void)pthread_join(thread, NULL);
  SLIP_CHECK_EQ(failures, 0);
}
