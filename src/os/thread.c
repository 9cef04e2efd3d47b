// SPDX-License-Identifier: Apache-2.0
#include "os/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/fault.h"

// Lives on the starter's stack; the new thread copies it and says so through |taken|, so that starting needs no heap.
typedef struct slip__thread_start_t {
  void (*run)(void *user);
  void *user;
  _Atomic uint32_t taken;
} slip__thread_start_t;

static void *slip__thread_main(void *pointer) {
  slip__thread_start_t *start = pointer;
  void (*run)(void *user) = start->run;
  void *user = start->user;
  // Release: pairs with the acquire in slip__thread_start. The word may be gone when the wake reaches the kernel; a wake of an address
  // nobody waits on does nothing.
  atomic_store_explicit(&start->taken, 1, memory_order_release);
  slip__futex_wake(&start->taken, 1);
  run(user);
  return NULL;
}

static int slip__thread_create(slip__thread_t *thread, slip__thread_start_t *start) {
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error != 0) return error;
  (void)pthread_attr_setstacksize(&attributes, SLIP__THREAD_STACK_BYTES);
  error = pthread_create(&thread->handle, &attributes, slip__thread_main, start);
  (void)pthread_attr_destroy(&attributes);
  return error;
}

slip_status_t slip__thread_start(slip__thread_t *thread, const char *name, void (*run)(void *user), void *user) {
  slip__thread_start_t start = {.run = run, .user = user};
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  sigset_t all, before;
  thread->started = false;
  sigfillset(&all);
  // A thread's own fault is its own: blocked, it would end the process past every handler, a sanitizer's report, a crash reporter's or a
  // sandbox's (SIGSYS) included.
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); ++i) sigdelset(&all, faults[i]);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = slip__os_fault(SLIP__OS_CALL_THREAD);
  if (error == 0) error = slip__thread_create(thread, &start);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error != 0) {
    slip_code_t code = error == EAGAIN || error == ENOMEM ? SLIP_CODE_OUT_OF_MEMORY : SLIP_CODE_UNSUPPORTED;
    return SLIP_STATUS_PLATFORM(code, error,
                                "thread \"%s\" could not be started: %s; look at the limits of processes (ulimit -u) and memory", name,
                                strerror(error));
  }
  char short_name[16];
  (void)snprintf(short_name, sizeof(short_name), "%s", name);
  (void)pthread_setname_np(thread->handle, short_name);
  while (!atomic_load_explicit(&start.taken, memory_order_acquire)) (void)slip__futex_wait(&start.taken, 0, -1);
  thread->started = true;
  return slip_ok_status();
}

void slip__thread_join(slip__thread_t *thread) {
  if (!thread->started) return;
  (void)pthread_join(thread->handle, NULL);
  thread->started = false;
}

bool slip__thread_bind(const slip__thread_t *thread, uint32_t core) {
  cpu_set_t *set = CPU_ALLOC(core + 1u);
  if (!set) return false;
  size_t size = CPU_ALLOC_SIZE(core + 1u);
  CPU_ZERO_S(size, set);
  CPU_SET_S(core, size, set);
  bool bound = pthread_setaffinity_np(thread->handle, size, set) == 0;
  CPU_FREE(set);
  return bound;
}

bool slip__thread_bind_self(uint32_t core) {
  const slip__thread_t self = {.handle = pthread_self()};
  return slip__thread_bind(&self, core);
}

bool slip__futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns) {
  struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000), .tv_nsec = (long)(timeout_ns % 1000000000)};
  long result = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &timeout, NULL, 0);
  return !(result == -1 && errno == ETIMEDOUT);
}

void slip__futex_wake(_Atomic uint32_t *word, uint32_t count) {
  int limit = count > INT32_MAX ? INT32_MAX : (int)count;
  (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, limit, NULL, NULL, 0);
}

void slip__thread_yield(void) {
  (void)sched_yield();
}
