// SPDX-License-Identifier: Apache-2.0
#include "meter.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Two calls that fail and that nobody else makes.
#define BENCH_MARK_BEGIN (-77001)
#define BENCH_MARK_END   (-77002)

static __thread int bench_counting __attribute__((tls_model("initial-exec")));
static __thread bench_counts_t bench_counts __attribute__((tls_model("initial-exec")));

void bench_meter_start(void) {
  bench_counts = (bench_counts_t){0, 0};
  bench_counting = 1;
}

bench_counts_t bench_meter_stop(void) {
  bench_counting = 0;
  return bench_counts;
}

// --- standing in for the C library ---------------------------------------------------------------------------------------------------

// Seen by the library: everything else of this program is hidden.
#define BENCH_SEEN __attribute__((visibility("default")))

#define BENCH_COUNT(field)                    \
  do {                                        \
    if (bench_counting) ++bench_counts.field; \
  } while (0)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void __libc_free(void *memory);
extern void *__libc_memalign(size_t alignment, size_t size);

BENCH_SEEN void *malloc(size_t size) {
  BENCH_COUNT(allocations);
  return __libc_malloc(size);
}
BENCH_SEEN void *calloc(size_t count, size_t size) {
  BENCH_COUNT(allocations);
  return __libc_calloc(count, size);
}
BENCH_SEEN void *realloc(void *memory, size_t size) {
  BENCH_COUNT(allocations);
  return __libc_realloc(memory, size);
}
BENCH_SEEN void free(void *memory) {
  BENCH_COUNT(allocations);
  __libc_free(memory);
}
void *memalign(size_t alignment, size_t size);
BENCH_SEEN void *memalign(size_t alignment, size_t size) {
  BENCH_COUNT(allocations);
  return __libc_memalign(alignment, size);
}
BENCH_SEEN void *aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}
BENCH_SEEN int posix_memalign(void **out, size_t alignment, size_t size) {
  void *memory = memalign(alignment, size);
  if (!memory) return ENOMEM;
  *out = memory;
  return 0;
}

#define BENCH_STAND_IN(name, parameters, arguments)         \
  BENCH_SEEN int name parameters {                          \
    static int(*real) parameters;                           \
    if (!real) *(void **)(&real) = dlsym(RTLD_NEXT, #name); \
    BENCH_COUNT(locks);                                     \
    return real arguments;                                  \
  }
BENCH_STAND_IN(pthread_mutex_lock, (pthread_mutex_t * m), (m))
BENCH_STAND_IN(pthread_mutex_trylock, (pthread_mutex_t * m), (m))
BENCH_STAND_IN(pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))
BENCH_STAND_IN(pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))
BENCH_STAND_IN(pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))

// --- system calls ------------------------------------------------------------------------------------------------------------------------

void bench_meter_mark_begin(void) {
  (void)syscall(SYS_close, BENCH_MARK_BEGIN);
}
void bench_meter_mark_end(void) {
  (void)syscall(SYS_close, BENCH_MARK_END);
}

// Follows |child| to its end. Returns the count, or -1.
static int64_t bench_meter_follow(pid_t child) {
  int64_t count = -1;
  int state = 0, counting = 0;
  if (waitpid(child, &state, 0) != child || !WIFSTOPPED(state)) return -1;
  if (ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) return -1;
  for (int pass = 0;;) {
    if (ptrace(PTRACE_SYSCALL, child, NULL, pass) != 0) return -1;
    if (waitpid(child, &state, 0) != child) return -1;
    if (WIFEXITED(state)) return WEXITSTATUS(state) == 0 && !counting ? count : -1;
    if (WIFSIGNALED(state)) return -1;
    pass = 0;
    if (WSTOPSIG(state) != (SIGTRAP | 0x80)) {
      pass = WSTOPSIG(state) == SIGTRAP ? 0 : WSTOPSIG(state);
      continue;
    }
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0) return -1;
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    int mark = info.entry.nr == SYS_close ? (int)info.entry.args[0] : 0;
    if (mark == BENCH_MARK_BEGIN) {
      counting = 1;
      count = 0;
    } else if (mark == BENCH_MARK_END) {
      counting = 0;
    } else if (counting) {
      ++count;
    }
  }
}

int64_t bench_meter_system_calls(int (*body)(void *user), void *user) {
  pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(3);
    (void)raise(SIGSTOP);
    _exit(body(user));
  }
  int64_t count = bench_meter_follow(child);
  if (count < 0) {
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
  }
  return count;
}
