// SPDX-License-Identifier: Apache-2.0
// C test runner: one process per test, time-out, filter, seed, TAP lines and a closing "N passed, N failed, N skipped".
#ifndef SLIP_TEST_H_
#define SLIP_TEST_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slipstream/status.h"

typedef struct slip_test_case_t {
  const char *name;
  const char *file;
  void (*run)(void);
  struct slip_test_case_t *next;
  uint32_t timeout_s;  // 0: the runner's
} slip_test_case_t;

void slip_test_register(slip_test_case_t *test);
// Reports and ends the test's process.
_Noreturn void slip_test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
// Ends the test as skipped: say why and what would enable it.
_Noreturn void slip_test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
// The run's parameter (option --with), such as the platform that a suite is run for; "" if none was given.
const char *slip_test_parameter(void);
// Ends the test as not supported by what is tested. Unless that is expected (below), it is a failure.
_Noreturn void slip_test_unsupported(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Calls |function| in the test's process once its function has returned: what must hold at the end of every test. It may fail the test. The
// last one given counts, for this test only.
void slip_test_at_end(void (*function)(void));

typedef enum slip_test_outcome_e {
  SLIP_TEST_EXPECT_UNSUPPORTED = 1,
  SLIP_TEST_EXPECT_FAILURE = 2,
} slip_test_outcome_e;

// What is known not to work yet. A test that passes although it is listed fails: the list must stay true.
typedef struct slip_test_expectation_t {
  const char *parameter;
  const char *test;  // a name, or the beginning of names with "*" at its end
  slip_test_outcome_e outcome;
  const char *reason;
} slip_test_expectation_t;
// Call from a constructor.
void slip_test_expect(const slip_test_expectation_t *expectations, size_t count);

// The run's seed (option --seed), for tests that draw random numbers; mixed with the test's name.
uint64_t slip_test_seed(void);
// A splitmix64 step: the tests' random numbers.
uint64_t slip_test_random(uint64_t *state);
// A fresh directory of this test, removed with its content after the test.
const char *slip_test_temporary_directory(void);

#define SLIP_TEST_TIMEOUT(test_name, seconds)                                                                              \
  static void slip_test_run_##test_name(void);                                                                             \
  static slip_test_case_t slip_test_case_##test_name = {#test_name, __FILE__, slip_test_run_##test_name, NULL, (seconds)}; \
  __attribute__((constructor)) static void slip_test_add_##test_name(void) {                                               \
    slip_test_register(&slip_test_case_##test_name);                                                                       \
  }                                                                                                                        \
  static void slip_test_run_##test_name(void)
#define SLIP_TEST(test_name) SLIP_TEST_TIMEOUT(test_name, 0)

#define SLIP_CHECK(condition)                                                        \
  do {                                                                               \
    if (!(condition)) slip_test_fail(__FILE__, __LINE__, "%s is false", #condition); \
  } while (0)
// Integers (compared as long long).
#define SLIP_CHECK_EQ(actual, expected)                                                                                       \
  do {                                                                                                                        \
    long long slip_actual_ = (long long)(actual), slip_expected_ = (long long)(expected);                                     \
    if (slip_actual_ != slip_expected_)                                                                                       \
      slip_test_fail(__FILE__, __LINE__, "%s is %lld, expected %lld (%s)", #actual, slip_actual_, slip_expected_, #expected); \
  } while (0)
#define SLIP_CHECK_STR(actual, expected)                                                                                   \
  do {                                                                                                                     \
    const char *slip_actual_ = (actual), *slip_expected_ = (expected);                                                     \
    if (!slip_actual_ || strcmp(slip_actual_, slip_expected_) != 0)                                                        \
      slip_test_fail(__FILE__, __LINE__, "%s is \"%s\", expected \"%s\"", #actual, slip_actual_ ? slip_actual_ : "(null)", \
                     slip_expected_);                                                                                      \
  } while (0)
// The status must be OK.
#define SLIP_CHECK_OK(expression) slip_test_check_status((expression), SLIP_CODE_OK, NULL, #expression, __FILE__, __LINE__)
// The status must have exactly this code; it is freed.
#define SLIP_CHECK_CODE(expression, code) slip_test_check_status((expression), (code), NULL, #expression, __FILE__, __LINE__)
// The same, and its full text must contain |part|.
#define SLIP_CHECK_ERROR(expression, code, part) slip_test_check_status((expression), (code), (part), #expression, __FILE__, __LINE__)

void slip_test_check_status(slip_status_t status, slip_code_t code, const char *part, const char *text, const char *file, int line);

#endif  // SLIP_TEST_H_
