// SPDX-License-Identifier: Apache-2.0
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/allocator.h"
#include "os/clock.h"
#include "os/fault.h"

extern char **environ;

// How often a child is looked at where the kernel has no pidfd (before Linux 5.3).
#define SLIP__PROCESS_POLL_MS 10

typedef struct slip__process_t {
  pid_t pid;
  int output;   // read end of the child's stdout and stderr; -1 at its end
  int exit_fd;  // pidfd; -1: none
  uint64_t deadline_ns;
  slip_allocator_t allocator;
  uint8_t *data;
  size_t size;
  size_t capacity;
} slip__process_t;

// posix_spawn of |arguments| in a process group of its own. Returns 0 or errno.
static int slip__process_spawn(const char *const *arguments, const char *directory, int output, pid_t *out_pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  int error = slip__os_fault(SLIP__OS_CALL_SPAWN);
  if (error) return error;
  error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (error) {
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
  }
  if (!error && directory) error = posix_spawn_file_actions_addchdir_np(&actions, directory);
  if (!error) error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (!error) error = posix_spawn_file_actions_adddup2(&actions, output, 1);
  if (!error) error = posix_spawn_file_actions_adddup2(&actions, output, 2);
  if (!error) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (!error) error = posix_spawnattr_setpgroup(&attributes, 0);
  if (!error) error = posix_spawnattr_setsigmask(&attributes, &none);
  if (!error) error = posix_spawnattr_setsigdefault(&attributes, &all);
  if (!error) error = posix_spawnp(out_pid, arguments[0], &actions, &attributes, (char *const *)(uintptr_t)arguments, environ);
  (void)posix_spawnattr_destroy(&attributes);
  (void)posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Reads what is there. At the end of the output |process->output| is closed and -1.
static slip_status_t slip__process_collect(slip__process_t *process) {
  for (;;) {
    if (process->capacity - process->size < 4096) {
      size_t grown = process->capacity ? process->capacity * 2 : 8192;
      void *data = process->data;
      SLIP_RETURN_IF_ERROR(slip__realloc(process->allocator, process->capacity, grown, &data));
      process->data = data;
      process->capacity = grown;
    }
    ssize_t count = read(process->output, process->data + process->size, process->capacity - process->size - 1);
    if (count > 0) {
      process->size += (size_t)count;
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return slip_ok_status();
    } else {
      (void)close(process->output);
      process->output = -1;
      return slip_ok_status();
    }
  }
}

// Collects output until the child has ended. Output of a grandchild that outlives the child is not waited for.
static slip_status_t slip__process_watch(slip__process_t *process, const char *name, int *out_state) {
  for (;;) {
    uint64_t now = slip__clock_now_ns();
    if (now >= process->deadline_ns) {
      return SLIP_STATUS(SLIP_CODE_TIMEOUT, "program \"%s\" did not end in the time given and was killed", name);
    }
    uint64_t left_ms = (process->deadline_ns - now) / 1000000u + 1;
    int wait_ms = left_ms > 60000 ? 60000 : (int)left_ms;
    if (process->exit_fd < 0 && wait_ms > SLIP__PROCESS_POLL_MS) wait_ms = SLIP__PROCESS_POLL_MS;
    struct pollfd watched[2] = {{.fd = process->output, .events = POLLIN}, {.fd = process->exit_fd, .events = POLLIN}};
    (void)poll(watched, 2, wait_ms);
    if (process->output >= 0) SLIP_RETURN_IF_ERROR(slip__process_collect(process));
    pid_t done = waitpid(process->pid, out_state, WNOHANG);
    if (done < 0 && errno != EINTR) {
      process->pid = -1;
      return SLIP_STATUS_PLATFORM(SLIP_CODE_IO, errno, "program \"%s\" was waited for by somebody else (is SIGCHLD ignored?): %s", name,
                                  strerror(errno));
    }
    if (done == process->pid) {
      process->pid = -1;
      return process->output >= 0 ? slip__process_collect(process) : slip_ok_status();
    }
  }
}

// The output, cut to its exact size. On failure nothing is left to free.
static slip_status_t slip__process_finish(slip__process_t *process, slip_bytes_t *out) {
  void *data = process->data;
  slip_status_t status = slip__realloc(process->allocator, process->capacity, process->size + 1, &data);
  if (!slip_status_is_ok(status)) {
    slip__free(process->allocator, process->data, process->capacity);
    return status;
  }
  ((char *)data)[process->size] = '\0';
  *out = (slip_bytes_t){data, process->size};
  return status;
}

slip_status_t slip__process_run(const char *const *arguments, const char *directory, uint64_t timeout_ns, slip_allocator_t allocator,
                                slip__process_result_t *out) {
  int ends[2];
  *out = (slip__process_result_t){0, {NULL, 0}};
  uint64_t now = slip__clock_now_ns();
  slip__process_t process = {.pid = -1, .output = -1, .exit_fd = -1, .allocator = allocator};
  process.deadline_ns = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return SLIP_STATUS_PLATFORM(SLIP_CODE_IO, errno, "no pipe for program \"%s\": %s", arguments[0], strerror(errno));
  }
  int error = slip__process_spawn(arguments, directory, ends[1], &process.pid);
  (void)close(ends[1]);
  if (error != 0) {
    (void)close(ends[0]);
    slip_code_t code = error == ENOENT ? SLIP_CODE_NOT_FOUND : error == ENOMEM || error == EAGAIN ? SLIP_CODE_OUT_OF_MEMORY : SLIP_CODE_IO;
    return SLIP_STATUS_PLATFORM(code, error, "program \"%s\" could not be started: %s", arguments[0], strerror(error));
  }
  process.output = ends[0];
  (void)fcntl(process.output, F_SETFL, O_NONBLOCK);
  process.exit_fd = (int)syscall(SYS_pidfd_open, process.pid, 0);
  pid_t group = process.pid;
  int state = 0;
  slip_status_t status = slip__process_watch(&process, arguments[0], &state);
  if (process.pid > 0) {
    (void)kill(-group, SIGKILL);
    while (waitpid(process.pid, &state, 0) < 0 && errno == EINTR) {
    }
  }
  if (process.output >= 0) (void)close(process.output);
  if (process.exit_fd >= 0) (void)close(process.exit_fd);
  if (!slip_status_is_ok(status)) {
    slip__free(allocator, process.data, process.capacity);
    return status;
  }
  out->exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  status = slip__process_finish(&process, &out->output);
  if (!slip_status_is_ok(status)) out->exit_code = 0;
  return status;
}
