// SPDX-License-Identifier: Apache-2.0
#include "os/process.h"

#include <errno.h>

#include "os/clock.h"
#include "os/fault.h"
#include "slip_test.h"

#define A_MINUTE 60000000000u

static slip_status_t process_shell(const char *script, uint64_t timeout_ns, slip__process_result_t *out) {
  const char *const command[] = {"sh", "-c", script, NULL};
  return slip__process_run(command, NULL, timeout_ns, slip_allocator_system(), out);
}

SLIP_TEST(process_collects_output_and_exit_code) {
  slip__process_result_t result;
  SLIP_CHECK_OK(process_shell("echo out; echo err >&2; cat; exit 3", A_MINUTE, &result));
  SLIP_CHECK_EQ(result.exit_code, 3);
  SLIP_CHECK_STR((char *)result.output.data, "out\nerr\n");
  SLIP_CHECK_EQ(result.output.size, 8);
  free(result.output.data);
  SLIP_CHECK_OK(process_shell("kill -TERM $$", A_MINUTE, &result));
  SLIP_CHECK_EQ(result.exit_code, 128 + 15);
  SLIP_CHECK_EQ(result.output.size, 0);
  free(result.output.data);
}

SLIP_TEST(process_runs_in_a_directory_and_reads_much) {
  slip__process_result_t result;
  const char *const command[] = {"pwd", NULL};
  SLIP_CHECK_OK(slip__process_run(command, "/usr", A_MINUTE, slip_allocator_system(), &result));
  SLIP_CHECK_STR((char *)result.output.data, "/usr\n");
  free(result.output.data);
  SLIP_CHECK_OK(process_shell("head -c 3000000 /dev/zero | tr '\\0' x", A_MINUTE, &result));
  SLIP_CHECK_EQ(result.output.size, 3000000);
  SLIP_CHECK_EQ(result.output.data[2999999], 'x');
  free(result.output.data);
}

SLIP_TEST(process_kills_what_takes_too_long) {
  slip__process_result_t result;
  uint64_t before = slip__clock_now_ns();
  SLIP_CHECK_CODE(process_shell("sleep 100 & sleep 100", 100000000u, &result), SLIP_CODE_TIMEOUT);
  SLIP_CHECK(slip__clock_now_ns() - before < A_MINUTE);
  SLIP_CHECK(result.output.data == NULL);
}

SLIP_TEST(process_does_not_wait_for_a_grandchild) {
  slip__process_result_t result;
  uint64_t before = slip__clock_now_ns();
  SLIP_CHECK_OK(process_shell("echo early; sleep 100 & exit 0", A_MINUTE, &result));
  SLIP_CHECK(slip__clock_now_ns() - before < A_MINUTE);
  SLIP_CHECK_STR((char *)result.output.data, "early\n");
  free(result.output.data);
}

SLIP_TEST(process_start_failures_are_told_apart) {
  slip__process_result_t result;
  const char *const missing[] = {"slip-there-is-no-such-program", NULL};
  SLIP_CHECK_CODE(slip__process_run(missing, NULL, A_MINUTE, slip_allocator_system(), &result), SLIP_CODE_NOT_FOUND);
  slip__os_fault_plan_t plan = {.kinds = SLIP__OS_CALL_BIT(SPAWN), .nth = 1, .error = EAGAIN};
  slip__os_fault_set(&plan);
  SLIP_CHECK_CODE(process_shell("true", A_MINUTE, &result), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK_OK(process_shell("true", A_MINUTE, &result));
  slip__os_fault_set(NULL);
  free(result.output.data);
}
