// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/latch.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slip_test.h"

// Runs |body| in a forked child; it must return 0.
static void slip_latch_test_in_child(int (*body)(void)) {
  pid_t child = fork();
  SLIP_CHECK(child >= 0);
  if (child == 0) _exit(body());
  int state = 0;
  SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
  SLIP_CHECK(WIFEXITED(state));
  SLIP_CHECK_EQ(WEXITSTATUS(state), 0);
}

SLIP_TEST(latch_is_unclaimed_at_start) {
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
}

SLIP_TEST(latch_kernel_is_write_once) {
  SLIP_CHECK_OK(slip__latch_claim(SLIP_MODE_KERNEL));
  SLIP_CHECK_OK(slip__latch_claim(SLIP_MODE_KERNEL));
  SLIP_CHECK_ERROR(slip__latch_claim(SLIP_MODE_PROGRAM), SLIP_CODE_MODE_CONFLICT, "claimed for kernel mode");
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_KERNEL);
}

SLIP_TEST(latch_program_is_write_once) {
  SLIP_CHECK_OK(slip__latch_claim(SLIP_MODE_PROGRAM));
  SLIP_CHECK_OK(slip__latch_claim(SLIP_MODE_PROGRAM));
  SLIP_CHECK_ERROR(slip__latch_claim(SLIP_MODE_KERNEL), SLIP_CODE_MODE_CONFLICT, "claimed for program mode");
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_PROGRAM);
}

static int slip_latch_test_child_claims_kernel(void) {
  if (slip_process_mode() != SLIP_MODE_UNCLAIMED) return 1;
  slip_status_t status = slip__latch_claim(SLIP_MODE_KERNEL);
  return slip_status_is_ok(status) ? 0 : 2;
}

SLIP_TEST(latch_child_of_unclaimed_starts_unclaimed) {
  slip_latch_test_in_child(slip_latch_test_child_claims_kernel);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);  // the child's claim is the child's own
}

SLIP_TEST(latch_child_of_program_starts_unclaimed) {
  SLIP_CHECK_OK(slip__latch_claim(SLIP_MODE_PROGRAM));
  slip_latch_test_in_child(slip_latch_test_child_claims_kernel);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_PROGRAM);
}

static int slip_latch_test_grandchild_is_forked(void) {
  slip_status_t status = slip__latch_check("testing");
  bool forked = slip_status_code(status) == SLIP_CODE_FORKED;
  slip_status_free(status);
  return forked && slip__latch_forked() ? 0 : 3;
}

static int slip_latch_test_child_is_forked(void) {
  if (slip_process_mode() != SLIP_MODE_KERNEL) return 1;
  for (slip_mode_e mode = SLIP_MODE_PROGRAM; mode <= SLIP_MODE_KERNEL; ++mode) {
    slip_status_t status = slip__latch_claim(mode);
    if (slip_status_code(status) != SLIP_CODE_FORKED) return 2;
    slip_status_free(status);
  }
  pid_t child = fork();
  if (child == 0) _exit(slip_latch_test_grandchild_is_forked());
  int state = 0;
  if (waitpid(child, &state, 0) != child || !WIFEXITED(state)) return 4;
  return WEXITSTATUS(state);
}

SLIP_TEST(latch_child_of_kernel_is_forked_for_ever) {
  SLIP_CHECK_OK(slip__latch_claim(SLIP_MODE_KERNEL));
  slip_latch_test_in_child(slip_latch_test_child_is_forked);
  SLIP_CHECK_OK(slip__latch_check("testing"));
}

static _Atomic uint32_t slip_latch_test_won[3];
static _Atomic uint32_t slip_latch_test_go;

static void *slip_latch_test_racer(void *user) {
  slip_mode_e mode = *(slip_mode_e *)user;
  while (!atomic_load(&slip_latch_test_go)) {
  }
  slip_status_t status = slip__latch_claim(mode);
  if (slip_status_is_ok(status)) {
    atomic_fetch_add(&slip_latch_test_won[mode], 1);
  } else if (slip_status_code(status) != SLIP_CODE_MODE_CONFLICT) {
    abort();
  }
  slip_status_free(status);
  return NULL;
}

static int slip_latch_test_race(void) {
  slip_mode_e modes[8];
  pthread_t threads[8];
  for (int i = 0; i < 8; ++i) {
    modes[i] = i % 2 ? SLIP_MODE_PROGRAM : SLIP_MODE_KERNEL;
    if (pthread_create(&threads[i], NULL, slip_latch_test_racer, &modes[i]) != 0) return 1;
  }
  atomic_store(&slip_latch_test_go, 1);
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  uint32_t kernel = atomic_load(&slip_latch_test_won[SLIP_MODE_KERNEL]), program = atomic_load(&slip_latch_test_won[SLIP_MODE_PROGRAM]);
  if (!((kernel == 4 && program == 0) || (kernel == 0 && program == 4))) return 2;
  return slip_process_mode() == (kernel ? SLIP_MODE_KERNEL : SLIP_MODE_PROGRAM) ? 0 : 3;
}

SLIP_TEST(latch_racing_claims_in_children_have_one_winner) {
  for (int round = 0; round < 50; ++round) slip_latch_test_in_child(slip_latch_test_race);
}

static int slip_latch_test_resets;
static void slip_latch_test_reset(void) {
  ++slip_latch_test_resets;
}
static int slip_latch_test_child_was_reset(void) {
  return slip_latch_test_resets == 1 ? 0 : 1;
}
static int slip_latch_test_child_was_not_reset(void) {
  return slip_latch_test_resets == 0 ? 0 : 1;
}

SLIP_TEST(latch_child_resets_only_what_it_may_use) {
  slip__latch_on_fork(slip_latch_test_reset);
  slip_latch_test_in_child(slip_latch_test_child_was_reset);
  SLIP_CHECK_OK(slip__latch_claim(SLIP_MODE_KERNEL));
  slip_latch_test_in_child(slip_latch_test_child_was_not_reset);
}
