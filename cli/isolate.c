// SPDX-License-Identifier: Apache-2.0
#include "isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slipstream/crash.h"

static void cli_isolate_child(const cli_invocation_t *invocation, int (*run)(const cli_invocation_t *invocation), int descriptor) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  slip_status_t status = slip_crash_report_to(descriptor);
  exit(slip_status_is_ok(status) ? run(invocation) : cli_finish(invocation, status));
}

// Everything until the child has closed its end, which its death does.
static void cli_isolate_read(int descriptor, char *text, size_t capacity) {
  size_t size = 0;
  ssize_t part = 1;
  while (part > 0 && size + 1 < capacity) {
    part = read(descriptor, text + size, capacity - 1 - size);
    if (part < 0 && errno == EINTR)
      part = 1;
    else if (part > 0)
      size += (size_t)part;
  }
  text[size] = '\0';
}

static slip_status_t cli_isolate_cause(int number, const char *report) {
  if (strncmp(report, SLIP_CRASH_KERNEL, strlen(SLIP_CRASH_KERNEL)) == 0) {
    return SLIP_STATUS(SLIP_CODE_GRAPH_KERNEL_FAULT, "the %s", report);
  }
  if (report[0]) return SLIP_STATUS(SLIP_CODE_INTERNAL, "the %s", report);
  return SLIP_STATUS(SLIP_CODE_CANCELLED, "the run was ended by signal %d (%s), about which it could say nothing", number,
                     strsignal(number));
}

int cli_isolate(const cli_invocation_t *invocation, int (*run)(const cli_invocation_t *invocation)) {
  char report[2048];
  int ends[2], ended = 0;
  if (pipe2(ends, O_CLOEXEC) != 0)
    return cli_finish(invocation, SLIP_STATUS_PLATFORM(SLIP_CODE_IO, errno, "no pipe for --isolate: %s", strerror(errno)));
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    cli_isolate_child(invocation, run, ends[1]);
  }
  int error = errno;
  close(ends[1]);
  report[0] = '\0';
  if (child > 0) cli_isolate_read(ends[0], report, sizeof(report));
  close(ends[0]);
  if (child < 0)
    return cli_finish(invocation, SLIP_STATUS_PLATFORM(SLIP_CODE_OUT_OF_MEMORY, error, "no process for --isolate: %s", strerror(error)));
  while (waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
  return WIFSIGNALED(ended) ? cli_finish(invocation, cli_isolate_cause(WTERMSIG(ended), report)) : WEXITSTATUS(ended);
}
