// SPDX-License-Identifier: Apache-2.0
// The loops: operation x kind of fault x transient or persistent x n.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault_world.h"

#define FAULT_CELL_SECONDS 60
#define FAULT_MOST_CALLS   2000  // more than any operation makes: a loop that does not end is a defect

typedef struct fault_counts_t {
  uint64_t faults, leaks, hangs, wrong;
} fault_counts_t;

typedef struct fault_operation_t {
  const char *name;
  bool opened;  // runs in an opened world
  slip_status_t (*run)(fault_world_t *world);
  // The operation failed with the fault |armed| or disarmed: which state, and does the retry work?
  void (*failed)(fault_world_t *world, fault_t fault);
} fault_operation_t;

// --- operations --------------------------------------------------------------------------------------------------------------------------

static slip_context_stats_t fault_stats(fault_world_t *world) {
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  fault_check(world, slip_context_stats(world->context, &stats), SLIP_CODE_OK, "stats");
  return stats;
}

static slip_status_t fault_run_open(fault_world_t *world) {
  return slip_context_open(&world->options, &world->context);
}

static void fault_failed_open(fault_world_t *world, fault_t fault) {
  (void)fault;
  if (world->context) {  // teardown is owed
    if (slip_context_state(world->context) != SLIP_CONTEXT_FAILED) fault_wrong(world, "a failed open gave a context that is not FAILED");
    fault_check(world, slip_context_close(world->context), SLIP_CODE_OK, "closing a failed open");
    fault_check(world, slip_context_destroy(world->context), SLIP_CODE_OK, "destroying a failed open");
    world->context = NULL;
  } else if (world->memory.live_blocks != 0) {
    fault_wrong(world, "a failed open left %llu blocks", (unsigned long long)world->memory.live_blocks);
  }
}

static int32_t fault_prepared;
static slip_status_t fault_run_prepare(fault_world_t *world) {
  fault_prepared = 99;
  return slip_context_prepare(world->context, slip_fixture_bytes(world->scratch_image), &fault_prepared);
}

static void fault_failed_prepare(fault_world_t *world, fault_t fault) {
  (void)fault;
  slip_context_stats_t stats = fault_stats(world);
  if (fault_prepared != -1) fault_wrong(world, "a failed prepare gave the id %d", fault_prepared);
  if (stats.callables != 2) fault_wrong(world, "%u callables after a failed prepare, expected 2", stats.callables);
  fault_check(world, fault_run_prepare(world), SLIP_CODE_OK, "preparing again");
  if (fault_prepared != 2) fault_wrong(world, "the next id is %d, expected 2: a failure minted one", fault_prepared);
}

static slip_status_t fault_run_launch_inline(fault_world_t *world) {
  slip_status_t result = slip_ok_status(), status = fault_launch(world, world->add, SLIP_STREAM_INLINE, &result);
  return slip_status_join(status, result);
}

static slip_status_t fault_run_launch_async(fault_world_t *world) {
  slip_status_t result = slip_ok_status(), status = fault_launch(world, world->add, world->stream, &result);
  return slip_status_join(status, result);
}

static void fault_failed_launch(fault_world_t *world, fault_t fault) {
  (void)fault;
  slip_context_stats_t stats = fault_stats(world);
  if (stats.pending != 0 || stats.launches != 0)
    fault_wrong(world, "a refused launch left a trace: %llu pending", (unsigned long long)stats.pending);
}

static slip_status_t fault_run_release(fault_world_t *world) {
  return slip_context_release(world->context, world->control);
}

static void fault_failed_release(fault_world_t *world, fault_t fault) {
  (void)fault;
  // The id is dead; its residency is owed and comes back with the next operation that sweeps.
  fault_check(world, slip_context_release(world->context, world->control), SLIP_CODE_NOT_PREPARED, "releasing again");
  fault_check(world, slip_context_drain(world->context), SLIP_CODE_OK, "drain");
  slip_context_stats_t stats = fault_stats(world);
  if (stats.callables != 1) fault_wrong(world, "%u callables after a release, expected 1", stats.callables);
}

static slip_status_t fault_run_drain(fault_world_t *world) {
  return slip_context_drain(world->context);
}
static void fault_failed_drain(fault_world_t *world, fault_t fault) {
  (void)fault;
  fault_check(world, slip_context_drain(world->context), SLIP_CODE_OK, "draining again");
}

static slip_status_t fault_run_close(fault_world_t *world) {
  return slip_context_close(world->context);
}
static void fault_failed_close(fault_world_t *world, fault_t fault) {
  (void)fault;
  int32_t id = 0;
  if (slip_context_state(world->context) != SLIP_CONTEXT_CLOSING) fault_wrong(world, "a failed close left another state than CLOSING");
  fault_check(world, slip_context_destroy(world->context), SLIP_CODE_INVALID_STATE, "destroying a half-closed context");
  fault_check(world, slip_context_prepare(world->context, slip_fixture_bytes(world->scratch_image), &id), SLIP_CODE_INVALID_STATE,
              "preparing on a half-closed context");
}

static const fault_operation_t fault_operations[] = {
    {"open", false, fault_run_open, fault_failed_open},
    {"prepare", true, fault_run_prepare, fault_failed_prepare},
    {"launch_inline", true, fault_run_launch_inline, fault_failed_launch},
    {"launch_async", true, fault_run_launch_async, fault_failed_launch},
    {"release", true, fault_run_release, fault_failed_release},
    {"drain", true, fault_run_drain, fault_failed_drain},
    {"close", true, fault_run_close, fault_failed_close},
};

// --- one fault
// -----------------------------------------------------------------------------------------------------------------------------

// What the operation is for must work at the end, whatever happened.
static void fault_finish(fault_world_t *world, const fault_operation_t *operation) {
  if (!operation->opened && !world->context) fault_check(world, fault_run_open(world), SLIP_CODE_OK, "opening again");
  if (!operation->opened && world->context) {
    fault_check(world, slip_context_close(world->context), SLIP_CODE_OK, "close");
    fault_check(world, slip_context_destroy(world->context), SLIP_CODE_OK, "destroy");
    fault_world_open(world);
  }
  if (operation->run != fault_run_close) fault_world_use(world);
}

// Returns whether the fault hit.
static bool fault_one(const fault_operation_t *operation, slip_context_options_t options, fault_t fault, uint64_t nth,
                      fault_counts_t *counts) {
  fault_world_t world;
  char what[160];
  bool tolerated = false;
  slip_code_t code = fault_expected_code(fault, &tolerated);
  (void)snprintf(what, sizeof(what), "%s with %s %llu failing%s", operation->name, fault_name(fault), (unsigned long long)nth,
                 fault.persistent ? " and all later ones" : "");
  fault_world_begin(&world, options, what);
  if (operation->opened) fault_world_open(&world);
  fault_arm(&world, fault, nth);
  slip_status_t status = operation->run(&world);
  slip_code_t got = slip_status_code(status);
  slip_status_t second = slip_ok_status();
  bool again = operation->run == fault_run_close && fault.persistent && got != SLIP_CODE_OK;
  if (again) second = operation->run(&world);
  bool hit = fault_disarm(&world, fault);
  if (again) fault_check(&world, second, code, "the second close under the same fault");
  bool fine = hit && !(tolerated && got == SLIP_CODE_OK);
  fault_check(&world, status, fine ? code : SLIP_CODE_OK, operation->name);
  if (got != SLIP_CODE_OK) operation->failed(&world, fault);
  fault_finish(&world, operation);
  fault_world_end(&world);
  counts->faults += hit;
  counts->leaks += world.leaks;
  counts->wrong += world.wrong;
  return hit;
}

static fault_counts_t fault_cell(const fault_operation_t *operation, slip_context_options_t options, fault_t fault) {
  fault_counts_t counts = {0};
  uint64_t nth = 1;
  while (nth < FAULT_MOST_CALLS && fault_one(operation, options, fault, nth, &counts)) ++nth;
  if (nth == FAULT_MOST_CALLS) {
    printf("# %s with %s failing: no end\n", operation->name, fault_name(fault));
    ++counts.wrong;
  }
  return counts;
}

// --- cells in children
// -----------------------------------------------------------------------------------------------------------------------

static void fault_wait_cell(pid_t child, int results, fault_counts_t *total, const char *what) {
  fault_counts_t counts = {0};
  int state = 0;
  bool told = read(results, &counts, sizeof(counts)) == (ssize_t)sizeof(counts);
  SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
  total->faults += counts.faults;
  total->leaks += counts.leaks;
  total->wrong += counts.wrong;
  if (WIFSIGNALED(state) && WTERMSIG(state) == SIGALRM) {
    printf("# %s hangs\n", what);
    ++total->hangs;
  } else if (!told || !WIFEXITED(state) || WEXITSTATUS(state) != 0) {
    printf("# %s ended badly (state 0x%x)\n", what, (unsigned)state);
    ++total->wrong;
  }
}

static void fault_run_cell(const fault_operation_t *operation, slip_context_options_t options, fault_t fault, fault_counts_t *total) {
  int pipes[2];
  char what[160];
  (void)snprintf(what, sizeof(what), "%s with %s failing", operation->name, fault_name(fault));
  SLIP_CHECK_EQ(pipe(pipes), 0);
  fflush(stdout);
  pid_t child = fork();
  SLIP_CHECK(child >= 0);
  if (child == 0) {
    (void)alarm(FAULT_CELL_SECONDS);
    fault_counts_t counts = fault_cell(operation, options, fault);
    fflush(stdout);
    exit(write(pipes[1], &counts, sizeof(counts)) == (ssize_t)sizeof(counts) ? 0 : 1);
  }
  (void)close(pipes[1]);
  fault_wait_cell(child, pipes[0], total, what);
  (void)close(pipes[0]);
}

static slip_context_options_t fault_variant(uint32_t index) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.max_pending = 16;
  if (index == 0) options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  if (index == 1) options.scheduler_threads = 2;
  if (index == 2) {
    options.scheduler_threads = 3;
    options.max_in_flight = 5;
  }
  return options;
}

static void fault_run_operation(const char *name) {
  const fault_operation_t *operation = fault_operations;
  const char *limit = getenv("SLIP_FAULT_VARIANTS");
  uint32_t variants = limit ? (uint32_t)strtoul(limit, NULL, 10) : 3;
  fault_counts_t total = {0};
  while (strcmp(operation->name, name) != 0) ++operation;
  for (uint32_t variant = 0; variant < variants && variant < 3; ++variant) {
    for (int persistent = 0; persistent < 2; ++persistent) {
      slip_context_options_t options = fault_variant(variant);
      fault_run_cell(operation, options, (fault_t){FAULT_ALLOCATION, 0, persistent}, &total);
      for (uint32_t call = 0; call < SLIP__PLATFORM_CALL_COUNT; ++call) {
        fault_run_cell(operation, options, (fault_t){FAULT_PLATFORM, call, persistent}, &total);
      }
      for (uint32_t call = 0; call < SLIP__OS_CALL_COUNT; ++call)
        fault_run_cell(operation, options, (fault_t){FAULT_SYSTEM, call, persistent}, &total);
    }
  }
  printf("RESULT faults=%llu leaks=%llu hangs=%llu wrong=%llu\n", (unsigned long long)total.faults, (unsigned long long)total.leaks,
         (unsigned long long)total.hangs, (unsigned long long)total.wrong);
  fflush(stdout);
  SLIP_CHECK_EQ(total.leaks, 0);
  SLIP_CHECK_EQ(total.hangs, 0);
  SLIP_CHECK_EQ(total.wrong, 0);
  // Inline launches and drains have nothing that can fail: a fault there would be a new dependency.
  if (strcmp(name, "launch_inline") == 0 || strcmp(name, "drain") == 0) SLIP_CHECK_EQ(total.faults, 0);
  if (strcmp(name, "open") == 0 || strcmp(name, "prepare") == 0) SLIP_CHECK(total.faults > 20);
}

SLIP_TEST_TIMEOUT(fault_open, 800) {
  fault_run_operation("open");
}
SLIP_TEST_TIMEOUT(fault_prepare, 800) {
  fault_run_operation("prepare");
}
SLIP_TEST_TIMEOUT(fault_launch_inline, 800) {
  fault_run_operation("launch_inline");
}
SLIP_TEST_TIMEOUT(fault_launch_async, 800) {
  fault_run_operation("launch_async");
}
SLIP_TEST_TIMEOUT(fault_release, 800) {
  fault_run_operation("release");
}
SLIP_TEST_TIMEOUT(fault_drain, 800) {
  fault_run_operation("drain");
}
SLIP_TEST_TIMEOUT(fault_close, 800) {
  fault_run_operation("close");
}

// --- an open that fails and cannot give back either
// ------------------------------------------------------------------------------------------

static int fault_owed_body(uint64_t *out_owed) {
  fault_counts_t counts = {0};
  uint64_t owed = 0;
  fault_t fault = {FAULT_ALLOCATION, 0, false};
  for (uint64_t nth = 1; nth < FAULT_MOST_CALLS; ++nth) {
    fault_world_t world;
    fault_world_begin(&world, fault_variant(1), "open that owes its teardown");
    fault_arm(&world, fault, nth);
    slip__platform_fault_set(SLIP__PLATFORM_CALL_MEMORY_FREE, 1, true);
    slip_status_t status = fault_run_open(&world);
    bool hit = fault_disarm(&world, fault);
    slip_code_t code = hit ? SLIP_CODE_OUT_OF_MEMORY : SLIP_CODE_OK;
    fault_check(&world, status, code, "open");
    if (hit && world.context) {
      ++owed;
      fault_check(&world, slip_context_close(world.context), SLIP_CODE_DEVICE, "close while the platform still refuses");
      fault_check(&world, slip_context_destroy(world.context), SLIP_CODE_INVALID_STATE, "destroy before close");
    }
    slip__platform_fault_clear();
    fault_world_end(&world);
    counts.leaks += world.leaks;
    counts.wrong += world.wrong;
    if (!hit) break;
  }
  *out_owed = owed;
  return counts.leaks == 0 && counts.wrong == 0 ? 0 : 1;
}

SLIP_TEST_TIMEOUT(fault_open_that_owes_its_teardown, 300) {
  uint64_t owed = 0;
  SLIP_CHECK_EQ(fault_owed_body(&owed), 0);
  printf("RESULT faults=%llu\n", (unsigned long long)(2 * owed));
  SLIP_CHECK(owed > 0);
}
