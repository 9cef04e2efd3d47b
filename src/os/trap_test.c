// SPDX-License-Identifier: Apache-2.0
#include "os/trap.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slip_test.h"

static size_t trap_describe(const slip__trap_t *trap, char *text, size_t capacity) {
  return (size_t)snprintf(text, capacity, "%s at %p", trap->signal, trap->address);
}

static volatile uintptr_t trap_nowhere = 64;
static void trap_wild(void) {
  *(volatile int *)trap_nowhere = 1;
}
static void trap_divide(void) {
  (void)raise(SIGFPE);  // as a division does; sent, so that the handler must end the process itself
}
static void *trap_thread(void *user) {
  slip__trap_thread();
  trap_wild();
  return user;
}
static void trap_on_a_thread(void) {
  pthread_t thread;
  (void)pthread_create(&thread, NULL, trap_thread, NULL);
  (void)pthread_join(thread, NULL);
}
static int trap_deep(volatile int depth) {
  volatile char frame[4096];
  frame[0] = (char)depth;
  return depth ? trap_deep(depth + 1) + frame[0] : 0;
}
static void trap_overflow(void) {
  (void)trap_deep(1);
}

// What a child writes that does |crash|, and the signal that ends it.
static int trap_child(void (*crash)(void), char *text, size_t capacity) {
  int ends[2], ended = 0;
  SLIP_CHECK_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    slip_status_free(slip__trap_install(ends[1], trap_describe));
    crash();
    _exit(0);
  }
  SLIP_CHECK(child > 0);
  close(ends[1]);
  ssize_t size = read(ends[0], text, capacity - 1);
  text[size > 0 ? size : 0] = '\0';
  close(ends[0]);
  SLIP_CHECK_EQ(waitpid(child, &ended, 0), child);
  return WIFSIGNALED(ended) ? WTERMSIG(ended) : 0;
}

SLIP_TEST(trap_tells_a_signal_and_lets_it_end_the_process) {
  char text[256];
  SLIP_CHECK_EQ(trap_child(trap_wild, text, sizeof(text)), SIGSEGV);
  SLIP_CHECK(strcmp(text, "SIGSEGV at 0x40") == 0);
  SLIP_CHECK_EQ(trap_child(trap_on_a_thread, text, sizeof(text)), SIGSEGV);
  SLIP_CHECK(strcmp(text, "SIGSEGV at 0x40") == 0);
  SLIP_CHECK_EQ(trap_child(trap_divide, text, sizeof(text)), SIGFPE);
  SLIP_CHECK(strncmp(text, "SIGFPE at ", 10) == 0);
}

SLIP_TEST(trap_tells_an_overflow_of_the_stack) {
  char text[256];
  SLIP_CHECK_EQ(trap_child(trap_overflow, text, sizeof(text)), SIGSEGV);
  SLIP_CHECK(strncmp(text, "SIGSEGV at 0x", 13) == 0);
}

SLIP_TEST(trap_needs_a_descriptor) {
  SLIP_CHECK_ERROR(slip__trap_install(-1, trap_describe), SLIP_CODE_INVALID_ARGUMENT, "descriptor -1 is not open");
}
