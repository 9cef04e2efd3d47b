// SPDX-License-Identifier: Apache-2.0
// Tests that end in every way a test can end. runner_test.c runs this program; it is no test of its own.
#include <signal.h>
#include <unistd.h>

#include "slip_test.h"

SLIP_TEST(victim_passes) {
  SLIP_CHECK(true);
}

SLIP_TEST(victim_fails) {
  SLIP_CHECK_EQ(1 + 1, 3);
}

SLIP_TEST(victim_fails_on_a_status) {
  SLIP_CHECK_CODE(SLIP_STATUS(SLIP_CODE_IO, "no"), SLIP_CODE_CORRUPT);
}

SLIP_TEST(victim_crashes) {
  signal(SIGSEGV, SIG_DFL);  // a sanitizer would turn it into an exit code
  raise(SIGSEGV);
}

// Leaves a child behind as well: both must be gone afterwards.
SLIP_TEST(victim_hangs) {
  pid_t child = fork();
  if (child != 0) {
    printf("# children %d %d\n", (int)getpid(), (int)child);
    fflush(stdout);
  }
  for (;;) pause();
}

SLIP_TEST(victim_skips) {
  slip_test_skip("no reason but to be skipped");
}

SLIP_TEST(victim_prints_its_seed) {
  printf("# seed %llu\n", (unsigned long long)slip_test_seed());
}

static void victim_end(void) {
  slip_test_fail(__FILE__, __LINE__, "the end was reached");
}

SLIP_TEST(victim_ends_badly) {
  slip_test_at_end(victim_end);
}

SLIP_TEST(victim_is_listed_and_passes) {}

SLIP_TEST(victim_is_listed_and_fails) {
  SLIP_CHECK(false);
}

SLIP_TEST(victim_is_unsupported) {
  slip_test_unsupported("for %s", slip_test_parameter());
}

static const slip_test_expectation_t victim_expectations[] = {
    {"some", "victim_is_listed*", SLIP_TEST_EXPECT_FAILURE, "to see what happens"},
    {"some", "victim_is_unsupported", SLIP_TEST_EXPECT_UNSUPPORTED, "nothing is"},
};

__attribute__((constructor)) static void victim_expect(void) {
  slip_test_expect(victim_expectations, 2);
}
