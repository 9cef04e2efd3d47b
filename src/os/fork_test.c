// SPDX-License-Identifier: Apache-2.0
#include "os/fork.h"

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
