// SPDX-License-Identifier: Apache-2.0
// The runner's main: see slip_test.h.
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "slip_test.h"

#define SLIP_TEST_EXIT_SKIPPED     77
#define SLIP_TEST_EXIT_UNSUPPORTED 78
#define SLIP_TEST_EXIT_TIMED_OUT   1000  // no process can end with it

static slip_test_case_t *slip_test_first;
static slip_test_case_t **slip_test_tail = &slip_test_first;
static uint64_t slip_test_run_seed = 1;
static uint64_t slip_test_name_hash;
static char slip_test_directory[64];
static const char *slip_test_with = "";
static const slip_test_expectation_t *slip_test_expectations;
static size_t slip_test_expectation_count;
static void (*slip_test_end)(void);  // of the test that is running

// What the sanitizers ask the program for (weakly): tests request memory that cannot be had, and fork children that start threads.
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1:detect_stack_use_after_return=1";
}
const char *__tsan_default_options(void) {
  return "allocator_may_return_null=1:die_after_fork=0";
}

void slip_test_register(slip_test_case_t *test) {
  *slip_test_tail = test;
  slip_test_tail = &test->next;
}

void slip_test_fail(const char *file, int line, const char *format, ...) {
  va_list arguments;
  fprintf(stdout, "# %s:%d: ", file, line);
  va_start(arguments, format);
  vfprintf(stdout, format, arguments);
  va_end(arguments);
  fputc('\n', stdout);
  fflush(stdout);
  _exit(1);
}

void slip_test_skip(const char *format, ...) {
  va_list arguments;
  fputs("# skipped: ", stdout);
  va_start(arguments, format);
  vfprintf(stdout, format, arguments);
  va_end(arguments);
  fputc('\n', stdout);
  fflush(stdout);
  _exit(SLIP_TEST_EXIT_SKIPPED);
}

void slip_test_unsupported(const char *format, ...) {
  va_list arguments;
  fputs("# unsupported: ", stdout);
  va_start(arguments, format);
  vfprintf(stdout, format, arguments);
  va_end(arguments);
  fputc('\n', stdout);
  fflush(stdout);
  _exit(SLIP_TEST_EXIT_UNSUPPORTED);
}

const char *slip_test_parameter(void) {
  return slip_test_with;
}

void slip_test_expect(const slip_test_expectation_t *expectations, size_t count) {
  slip_test_expectations = expectations;
  slip_test_expectation_count = count;
}

void slip_test_at_end(void (*function)(void)) {
  slip_test_end = function;
}

static void slip_test_perform(const slip_test_case_t *test) {
  slip_test_end = NULL;
  test->run();
  if (slip_test_end) slip_test_end();
}

static const slip_test_expectation_t *slip_test_expected(const char *name) {
  for (size_t i = 0; i < slip_test_expectation_count; ++i) {
    const slip_test_expectation_t *entry = &slip_test_expectations[i];
    size_t length = strlen(entry->test);
    bool prefix = length > 0 && entry->test[length - 1] == '*';
    bool named = prefix ? strncmp(entry->test, name, length - 1) == 0 : strcmp(entry->test, name) == 0;
    if (named && strcmp(entry->parameter, slip_test_with) == 0) return entry;
  }
  return NULL;
}

uint64_t slip_test_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t slip_test_seed(void) {
  uint64_t state = slip_test_run_seed ^ slip_test_name_hash;
  return slip_test_random(&state);
}

const char *slip_test_temporary_directory(void) {
  return slip_test_directory;
}

void slip_test_check_status(slip_status_t status, slip_code_t code, const char *part, const char *text, const char *file, int line) {
  char buffer[2048];
  slip_status_format(status, buffer, sizeof(buffer));
  if (slip_status_code(status) != code) slip_test_fail(file, line, "%s gave %s, expected %s", text, buffer, slip_code_name(code));
  if (part && !strstr(buffer, part)) slip_test_fail(file, line, "%s gave \"%s\", expected it to say \"%s\"", text, buffer, part);
  slip_status_free(status);
}

static int slip_test_remove(const char *path, const struct stat *info, int type, struct FTW *where) {
  (void)info;
  (void)type;
  (void)where;
  return remove(path);
}

static uint64_t slip_test_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Runs one test in a child. Returns its exit code, or 128 + signal, or SLIP_TEST_EXIT_TIMED_OUT.
static int slip_test_run_one(const slip_test_case_t *test, uint32_t timeout_s) {
  snprintf(slip_test_directory, sizeof(slip_test_directory), "/tmp/slip-test-XXXXXX");
  if (!mkdtemp(slip_test_directory)) {
    printf("# no temporary directory: %s\n", strerror(errno));
    return 1;
  }
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    slip_test_perform(test);
    fflush(stdout);
    // exit and not _exit: a leak checker reports at exit.
    exit(0);
  }
  if (child < 0) return 1;
  setpgid(child, child);
  int result = -1;
  struct timespec pause = {0, 500000};
  const uint64_t deadline_ns = slip_test_now_ns() + (uint64_t)timeout_s * 1000000000u;
  while (result < 0) {
    int state = 0;
    pid_t done = waitpid(child, &state, WNOHANG);
    if (done == child) {
      result = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    } else if (slip_test_now_ns() > deadline_ns) {
      kill(-child, SIGKILL);
      waitpid(child, &state, 0);
      printf("# timed out after %u s and was killed\n", timeout_s);
      result = SLIP_TEST_EXIT_TIMED_OUT;
    } else {
      nanosleep(&pause, NULL);
      if (pause.tv_nsec < 5000000) pause.tv_nsec += 250000;
    }
  }
  kill(-child, SIGKILL);  // whatever the test left behind in its group
  nftw(slip_test_directory, slip_test_remove, 16, FTW_DEPTH | FTW_PHYS);
  return result;
}

typedef struct slip_test_tally_t {
  unsigned number, passed, failed, skipped, unsupported, expected_failures;
} slip_test_tally_t;

// Counts one result and prints its line.
static void slip_test_judge(const slip_test_case_t *test, int result, slip_test_tally_t *tally) {
  const slip_test_expectation_t *expected = slip_test_expected(test->name);
  unsigned number = ++tally->number;
  bool failure = result != 0 && result != SLIP_TEST_EXIT_SKIPPED && result != SLIP_TEST_EXIT_UNSUPPORTED;
  if (result == SLIP_TEST_EXIT_SKIPPED) {
    ++tally->skipped;
    printf("ok %u - %s # SKIP\n", number, test->name);
  } else if (result == SLIP_TEST_EXIT_UNSUPPORTED && expected && expected->outcome == SLIP_TEST_EXPECT_UNSUPPORTED) {
    ++tally->unsupported;
    printf("ok %u - %s # SKIP unsupported: %s\n", number, test->name, expected->reason);
  } else if (failure && expected && expected->outcome == SLIP_TEST_EXPECT_FAILURE) {
    ++tally->expected_failures;
    printf("ok %u - %s # SKIP expected failure: %s\n", number, test->name, expected->reason);
  } else if (result == 0 && !expected) {
    ++tally->passed;
    printf("ok %u - %s\n", number, test->name);
  } else {
    ++tally->failed;
    if (result == 0) printf("# passed although it is listed: take it off the list (%s)\n", expected->reason);
    if (result == SLIP_TEST_EXIT_UNSUPPORTED) printf("# unsupported, which is not expected here\n");
    if (result > 128 && result != SLIP_TEST_EXIT_TIMED_OUT) printf("# ended by signal %d\n", result - 128);
    printf("not ok %u - %s (--filter %s --seed %llu%s%s)\n", number, test->name, test->name, (unsigned long long)slip_test_run_seed,
           *slip_test_with ? " --with " : "", slip_test_with);
  }
}

// One RESULT line of a program with expectations; its keys begin with the run's parameter, so that the runs of one suite stay apart.
static void slip_test_print_result(const slip_test_tally_t *tally) {
  char prefix[64] = "";
  if (*slip_test_with) snprintf(prefix, sizeof(prefix), "%s_", slip_test_with);
  for (char *c = prefix; *c; ++c) {
    if (*c == '-') *c = '_';
  }
  printf("RESULT %spassed=%u %sfailed=%u %sunsupported=%u %sexpected_failures=%u\n", prefix, tally->passed, prefix, tally->failed, prefix,
         tally->unsupported, prefix, tally->expected_failures);
}

// Prints the closing lines and returns the exit code.
static int slip_test_close(const slip_test_tally_t *tally) {
  unsigned listed = tally->unsupported + tally->expected_failures;
  if (slip_test_expectations) slip_test_print_result(tally);
  printf("1..%u\n%u passed, %u failed, %u skipped\n", tally->number, tally->passed, tally->failed, tally->skipped + listed);
  if (tally->number == 0) return 1;  // a filter that selects nothing is a mistake
  if (tally->failed) return 1;
  return tally->passed == 0 && listed == 0 && tally->skipped > 0 ? SLIP_TEST_EXIT_SKIPPED : 0;
}

static int slip_test_usage(const char *program) {
  fprintf(stderr, "usage: %s [--filter TEXT] [--seed N] [--timeout SECONDS] [--repeat N] [--with PARAMETER] [--list] [--no-fork]\n",
          program);
  return 2;
}

int main(int argc, char **argv) {
  const char *filter = "";
  uint32_t timeout_s = 180, repeat = 1;
  bool list = false, no_fork = false;
  for (int i = 1; i < argc; ++i) {
    bool more = i + 1 < argc;
    if (!strcmp(argv[i], "--list")) {
      list = true;
    } else if (!strcmp(argv[i], "--no-fork")) {
      no_fork = true;  // for a debugger
    } else if (!strcmp(argv[i], "--filter") && more) {
      filter = argv[++i];
    } else if (!strcmp(argv[i], "--with") && more) {
      slip_test_with = argv[++i];
    } else if (!strcmp(argv[i], "--seed") && more) {
      slip_test_run_seed = strtoull(argv[++i], NULL, 0);
    } else if (!strcmp(argv[i], "--timeout") && more) {
      timeout_s = (uint32_t)strtoul(argv[++i], NULL, 0);
    } else if (!strcmp(argv[i], "--repeat") && more) {
      repeat = (uint32_t)strtoul(argv[++i], NULL, 0);
    } else {
      return slip_test_usage(argv[0]);
    }
  }
  slip_test_tally_t tally = {0};
  for (uint32_t round = 0; round < repeat; ++round) {
    for (const slip_test_case_t *test = slip_test_first; test; test = test->next) {
      if (!strstr(test->name, filter)) continue;
      if (list) {
        puts(test->name);
        continue;
      }
      slip_test_name_hash = 0;
      for (const char *c = test->name; *c; ++c) slip_test_name_hash = slip_test_name_hash * 31u + (uint8_t)*c;
      slip_test_name_hash += round;
      if (no_fork) {
        ++tally.number;
        slip_test_perform(test);
        continue;
      }
      slip_test_judge(test, slip_test_run_one(test, test->timeout_s ? test->timeout_s : timeout_s), &tally);
    }
  }
  if (list) return 0;
  return slip_test_close(&tally);
}
