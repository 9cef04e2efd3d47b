// SPDX-License-Identifier: Apache-2.0
// Judges the runner by a program whose tests fail: see victim.c.
#include <signal.h>
#include <unistd.h>

#include "os/process.h"
#include "slip_test.h"

// Runs the victim with some arguments and gives its output, to be freed.
static char *runner_run(const char *a, const char *b, const char *c, const char *d, int *out_code) {
  char path[512];
  slip__process_result_t result;
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof("runner_victim"));
  SLIP_CHECK(length > 0);
  path[length] = '\0';
  snprintf(strrchr(path, '/') + 1, sizeof("runner_victim"), "runner_victim");
  const char *const command[] = {path, a, b, c, d, NULL};
  SLIP_CHECK_OK(slip__process_run(command, NULL, 30000000000u, slip_allocator_system(), &result));
  *out_code = result.exit_code;
  return (char *)result.output.data;
}

static void runner_expect(const char *output, const char *line) {
  if (!strstr(output, line)) slip_test_fail(__FILE__, __LINE__, "the runner did not print \"%s\" but:\n%s", line, output);
}

SLIP_TEST(runner_reports_every_way_to_fail) {
  int code = 0, parent = 0, child = 0;
  char *output = runner_run("--timeout", "1", "--seed", "3", &code);
  SLIP_CHECK_EQ(code, 1);
  runner_expect(output, "ok 1 - victim_passes\n");
  runner_expect(output, "1 + 1 is 2, expected 3");
  runner_expect(output, "not ok 2 - victim_fails (");
  runner_expect(output, "gave IO: no");
  runner_expect(output, "not ok 3 - victim_fails_on_a_status (");
  runner_expect(output, "# ended by signal 11\nnot ok 4 - victim_crashes (");
  runner_expect(output, "# timed out after 1 s and was killed\nnot ok 5 - victim_hangs (");
  runner_expect(output, "# skipped: no reason but to be skipped\nok 6 - victim_skips # SKIP\n");
  runner_expect(output, "1..11\n3 passed, 7 failed, 1 skipped\n");
  const char *children = strstr(output, "# children ");
  SLIP_CHECK(children && sscanf(children, "# children %d %d", &parent, &child) == 2);
  SLIP_CHECK(parent > 1 && kill(parent, 0) != 0);
  free(output);
}

SLIP_TEST(runner_exit_codes) {
  int code = 0;
  free(runner_run("--filter", "passes", NULL, NULL, &code));
  SLIP_CHECK_EQ(code, 0);
  free(runner_run("--filter", "no_such_test", NULL, NULL, &code));
  SLIP_CHECK_EQ(code, 1);
  free(runner_run("--filter", "skips", NULL, NULL, &code));
  SLIP_CHECK_EQ(code, 77);
  free(runner_run("--nonsense", NULL, NULL, NULL, &code));
  SLIP_CHECK_EQ(code, 2);
}

SLIP_TEST(runner_seed_is_reproducible) {
  int code = 0;
  char *one = runner_run("--filter", "seed", "--seed", "5", &code);
  char *same = runner_run("--filter", "seed", "--seed", "5", &code);
  char *other = runner_run("--filter", "seed", "--seed", "6", &code);
  SLIP_CHECK_STR(same, one);
  SLIP_CHECK(strcmp(one, other) != 0);
  free(one);
  free(same);
  free(other);
}

SLIP_TEST(runner_keeps_the_lists_of_what_does_not_work_true) {
  int code = 0;
  char *output = runner_run("--filter", "victim_is", "--with", "some", &code);
  SLIP_CHECK_EQ(code, 1);
  runner_expect(output,
                "# passed although it is listed: take it off the list (to see what happens)\nnot ok 1 - victim_is_listed_and_passes (");
  runner_expect(output, "ok 2 - victim_is_listed_and_fails # SKIP expected failure: to see what happens\n");
  runner_expect(output, "# unsupported: for some\nok 3 - victim_is_unsupported # SKIP unsupported: nothing is\n");
  runner_expect(output,
                "RESULT some_passed=0 some_failed=1 some_unsupported=1 some_expected_failures=1\n1..3\n0 passed, 1 failed, 2 skipped\n");
  free(output);
  output = runner_run("--filter", "victim_is_unsupported", "--with", "other", &code);
  SLIP_CHECK_EQ(code, 1);
  runner_expect(output, "# unsupported, which is not expected here\nnot ok 1 - victim_is_unsupported (");
  free(output);
}

SLIP_TEST(runner_calls_what_must_hold_at_the_end) {
  int code = 0;
  char *output = runner_run("--filter", "victim_ends", "--seed", "1", &code);
  SLIP_CHECK_EQ(code, 1);
  runner_expect(output, "the end was reached");
  runner_expect(output, "not ok 1 - victim_ends_badly (");
  free(output);
}
