// SPDX-License-Identifier: Apache-2.0
// Cells run one after the other in a child. When a cell hangs (an alarm ends the child) or crashes, it is counted and named, and a new
// child goes on behind it.
#include "fault_loop.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAULT_MOST_CALLS 3000  // more than any operation makes: a loop that does not end is a defect

#if defined(__SANITIZE_THREAD__)
#define FAULT_SECONDS 60
#define FAULT_STRIDE  5
#elif defined(__SANITIZE_ADDRESS__)
#define FAULT_SECONDS 60
#define FAULT_STRIDE  2
#else
#define FAULT_SECONDS 30
#define FAULT_STRIDE  1
#endif

// --- variants ----------------------------------------------------------------------------------------------------------------------------

#define FAULT_OPTIONS(...)                                                                                                        \
  {                                                                                                                               \
    .struct_size = (uint32_t)sizeof(slip_context_options_t), .max_pending = 16, .max_captured = 16, .max_callables = 8,           \
    .task_window = {16, 16, 16, 16}, .heap_bytes = {65536, 65536, 65536, 65536}, .dependency_pool = {64, 64, 64, 64}, __VA_ARGS__ \
  }

static const fault_variant_t fault_variants[] = {
    {"cpu, one thread", FAULT_CPU, FAULT_OPTIONS(.flags = SLIP_CONTEXT_SINGLE_THREAD)},
    {"cuda, one thread", FAULT_CUDA, FAULT_OPTIONS(.flags = SLIP_CONTEXT_SINGLE_THREAD, .max_captures = 1)},
    {"ascend, one thread", FAULT_ASCEND, FAULT_OPTIONS(.flags = SLIP_CONTEXT_SINGLE_THREAD, .max_in_flight = 1, .max_captures = 1)},
    {"cpu, two threads", FAULT_CPU, FAULT_OPTIONS(.scheduler_threads = 2)},
    {"cpu, three threads", FAULT_CPU, FAULT_OPTIONS(.scheduler_threads = 3, .max_in_flight = 5)},
    {"cuda, two threads", FAULT_CUDA, FAULT_OPTIONS(.scheduler_threads = 2, .max_in_flight = 3, .max_captures = 2)},
};

const fault_variant_t *fault_variant_at(uint32_t index) {
  return index < sizeof(fault_variants) / sizeof(fault_variants[0]) ? &fault_variants[index] : NULL;
}

// --- one fault ---------------------------------------------------------------------------------------------------------------------------

// Of the step of lane.h that a status tells of; 0: none.
static int fault_step(const char *text) {
  const char *at = strstr(text, "(step ");
  return at ? atoi(at + strlen("(step ")) : 0;
}

static bool fault_is_poisoned(const fault_world_t *world) {
  return world->context && atomic_load(&world->context->poison) != NULL;
}

// Poisoned are those contexts alone whose device may be in a state that nobody knows: lane.h.
static void fault_check_poison(fault_world_t *world, const char *text) {
  fault_t fault = world->plan.fault;
  int step = fault_step(text);
  bool on_device = fault_is_of_the_device(fault);
  bool unbound = fault_is(fault, SLIP__PLATFORM_CALL_DEVICE_POP) || fault.class == FAULT_MALLOC;
  bool expected = step >= 3 || (on_device && world->plan.hits > 0);
  world->poisoned = fault_is_poisoned(world);
  if (unbound || world->poisoned == expected) return;
  fault_wrong(world, "the context is %s after: %s", world->poisoned ? "poisoned" : "not poisoned", text);
}

// A launch that the device could not run tells so by its ticket, whoever waits for what.
static void fault_check_ticket(fault_world_t *world) {
  fault_t fault = world->plan.fault;
  bool on_device = fault_is_of_the_device(fault);
  if (!on_device || world->plan.hits == 0 || !world->ticket || !world->context) return;
  fault_check(world, slip_ticket_query(world->ticket), SLIP_CODE_DEVICE, "the ticket of a launch that the device could not run");
}

static bool fault_fits(const fault_operation_t *operation, const fault_world_t *world, bool hit, slip_status_t status, const char *text) {
  fault_t fault = world->plan.fault;
  bool tolerated = false;
  slip_code_t code = fault_expected_code(fault, &tolerated), got = slip_status_code(status);
  if (!hit) return got == SLIP_CODE_OK;
  // An operation of several calls: a later one may tell, with the first error behind its own.
  if (got == SLIP_CODE_POISONED && operation->several) return fault_is_of_the_device(fault) && strstr(text, "fails on request");
  if (got == SLIP_CODE_OK) return code == SLIP_CODE_OK || tolerated || (operation->tolerates && operation->tolerates(fault));
  // The loader and the system say what they like when they have no memory.
  if (fault.class == FAULT_MALLOC) return got == SLIP_CODE_OUT_OF_MEMORY || got == SLIP_CODE_CORRUPT || got == SLIP_CODE_IO;
  return got == code && (!fault_has_platform_code(fault) || slip_status_platform_code(status) == SLIP__PLATFORM_INJECTED);
}

// A capture whose end fails in the platform is over all the same. An injected failure never reaches it, other than one of malloc.
static void fault_look_for_capture(fault_world_t *world) {
  slip_capture_info_t info = {0, 0, 0};
  if (!world->capturing || world->plan.fault.class != FAULT_MALLOC) return;
  fault_check(world, slip_stream_capture_info(world->platform, world->stream, &info), SLIP_CODE_OK, "asking for the capture");
  world->capturing = info.state != SLIP_CAPTURE_NONE;
}

static void fault_judge(const fault_operation_t *operation, fault_world_t *world, bool hit, slip_status_t status) {
  char text[2048] = "";
  slip_status_format(status, text, sizeof(text));
  if (!fault_fits(operation, world, hit, status, text)) fault_wrong(world, "gave %s", text);
  fault_look_for_capture(world);
  world->unjoined = world->capturing && strstr(text, "could not be joined") != NULL;
  if (world->unjoined && !world->plan.fault.persistent) fault_wrong(world, "a single fault left streams unjoined: %s", text);
  fault_check_poison(world, text);
  bool failed = !slip_status_is_ok(status);
  slip_status_free(status);
  fault_check_ticket(world);
  if (failed && operation->failed) operation->failed(world, world->plan.fault);
  if (!failed && !world->poisoned && operation->done) operation->done(world);
}

// What the operation is for must work at the end, whatever happened.
static void fault_finish(const fault_operation_t *operation, fault_world_t *world) {
  fault_world_let_go(world);
  fault_use_stream(world);
  if (!operation->opened) {
    if (world->context) {
      fault_check(world, slip_context_close(world->context), SLIP_CODE_OK, "close");
      fault_check(world, slip_context_destroy(world->context), SLIP_CODE_OK, "destroy");
      world->context = NULL;
      world->poisoned = false;
    }
    fault_world_open(world);
  }
  if (slip_context_initialized(world->context)) fault_use(world, world->poisoned);
}

// Without a fault: does it work, and which calls does it make?
static void fault_none(const fault_operation_t *operation, const fault_variant_t *variant, const fault_rest_t *rest, fault_counts_t *counts,
                       bool out_used[FAULT_KINDS]) {
  fault_world_t world;
  char what[200];
  (void)snprintf(what, sizeof(what), "%s (%s) without a fault", operation->name, variant->name);
  fault_world_begin(&world, variant, what);
  if (operation->opened) fault_world_open(&world);
  if (operation->begin) operation->begin(&world);
  fault_watch(&world.plan);
  slip_status_t status = operation->run(&world);
  fault_unwatch(&world.plan, out_used);
  fault_judge(operation, &world, false, status);
  fault_finish(operation, &world);
  fault_world_end(&world, rest);
  counts->leaks += world.leaks;
  counts->wrong += world.wrong;
}

// Returns whether the fault hit.
static bool fault_one(const fault_operation_t *operation, const fault_variant_t *variant, fault_t fault, uint64_t nth,
                      const fault_rest_t *rest, fault_counts_t *counts) {
  fault_world_t world;
  char what[200];
  (void)snprintf(what, sizeof(what), "%s (%s) with %s %llu failing%s", operation->name, variant->name, fault_name(fault),
                 (unsigned long long)nth, fault.persistent ? " and all later ones" : "");
  fault_world_begin(&world, variant, what);
  if (operation->opened) fault_world_open(&world);
  if (operation->begin) operation->begin(&world);
  fault_arm(&world.plan, fault, nth);
  slip_status_t status = operation->run(&world);
  bool hit = fault_disarm(&world.plan);
  fault_judge(operation, &world, hit, status);
  fault_finish(operation, &world);
  fault_world_end(&world, rest);
  counts->faults += hit;
  counts->leaks += world.leaks;
  counts->wrong += world.wrong;
  return hit;
}

// --- cells in children -------------------------------------------------------------------------------------------------------------------

// Shared with the children.
typedef struct fault_progress_t {
  fault_counts_t counts;
  uint32_t cell;  // under way
  uint64_t nth;
  bool finished;
} fault_progress_t;

#define FAULT_CELLS (2 * FAULT_KINDS)

static uint32_t fault_stride(void) {
  const char *text = getenv("SLIP_FAULT_STRIDE");
  uint32_t stride = text ? (uint32_t)strtoul(text, NULL, 10) : FAULT_STRIDE;
  return stride > 0 ? stride : 1;
}

static void fault_cell(const fault_operation_t *operation, const fault_variant_t *variant, const fault_rest_t *rest,
                       fault_progress_t *progress) {
  fault_t fault = fault_at(progress->cell / 2, progress->cell % 2);
  uint32_t stride = fault_stride();
  for (progress->nth = 1; progress->nth < FAULT_MOST_CALLS; progress->nth += stride) {
    (void)alarm(FAULT_SECONDS);
    if (!fault_one(operation, variant, fault, progress->nth, rest, &progress->counts)) return;
  }
  printf("# %s with %s failing: no end\n", operation->name, fault_name(fault));
  ++progress->counts.wrong;
}

static void fault_cells(const fault_operation_t *operation, const fault_variant_t *variant, fault_progress_t *progress) {
  fault_rest_t rest = fault_rest();
  bool used[FAULT_KINDS];
  (void)alarm(FAULT_SECONDS);
  progress->nth = 0;
  fault_none(operation, variant, &rest, &progress->counts, used);
  for (; progress->cell < FAULT_CELLS; ++progress->cell) {
    if (used[progress->cell / 2]) fault_cell(operation, variant, &rest, progress);
  }
  progress->finished = true;
}

static void fault_add(fault_counts_t *total, const fault_counts_t *counts) {
  total->faults += counts->faults;
  total->leaks += counts->leaks;
  total->hangs += counts->hangs;
  total->wrong += counts->wrong;
}

static fault_progress_t *fault_progress_create(void) {
  fault_progress_t *progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SLIP_CHECK(progress != MAP_FAILED);
  return progress;
}

// Waits; true if the child has finished, else the cell is named and counted.
static bool fault_wait(pid_t child, const char *what, fault_progress_t *progress) {
  int state = 0;
  fault_t fault = {FAULT_ALLOCATION, 0, false};
  SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
  if (progress->finished && WIFEXITED(state) && WEXITSTATUS(state) == 0) return true;
  bool hangs = WIFSIGNALED(state) && WTERMSIG(state) == SIGALRM;
  fault = fault_at(progress->cell / 2, progress->cell % 2);
  printf("# %s with %s %llu failing%s: %s (state 0x%x)\n", what, fault_name(fault), (unsigned long long)progress->nth,
         fault.persistent ? " and all later ones" : "", hangs ? "hangs" : "ended badly", (unsigned)state);
  if (hangs) {
    ++progress->counts.hangs;
  } else {
    ++progress->counts.wrong;
  }
  ++progress->cell;
  return progress->finished || progress->cell >= FAULT_CELLS || progress->nth == 0;  // 0: not even without a fault
}

static void fault_try_variant(const fault_operation_t *operation, const fault_variant_t *variant, fault_counts_t *total) {
  char what[128];
  fault_progress_t *progress = fault_progress_create();
  (void)snprintf(what, sizeof(what), "%s (%s)", operation->name, variant->name);
  for (bool finished = false; !finished;) {
    (void)fflush(stdout);
    pid_t child = fork();
    SLIP_CHECK(child >= 0);
    if (child == 0) {
      fault_cells(operation, variant, progress);
      exit(0);
    }
    finished = fault_wait(child, what, progress);
  }
  fault_add(total, &progress->counts);
  (void)munmap(progress, sizeof(*progress));
}

void fault_in_child(const char *what, void (*body)(fault_counts_t *counts, const fault_rest_t *rest), fault_counts_t *total) {
  fault_progress_t *progress = fault_progress_create();
  (void)fflush(stdout);
  pid_t child = fork();
  SLIP_CHECK(child >= 0);
  if (child == 0) {
    (void)alarm(4 * FAULT_SECONDS);  // not one cell, but many
    fault_rest_t rest = fault_rest();
    body(&progress->counts, &rest);
    progress->finished = true;
    exit(0);
  }
  (void)fault_wait(child, what, progress);
  fault_add(total, &progress->counts);
  (void)munmap(progress, sizeof(*progress));
}

void fault_report(const fault_counts_t *total) {
  printf("RESULT faults=%llu leaks=%llu hangs=%llu wrong=%llu", (unsigned long long)total->faults, (unsigned long long)total->leaks,
         (unsigned long long)total->hangs, (unsigned long long)total->wrong);
  if (fault_stride() > 1) printf(" thinned=every_%u", fault_stride());
  printf("\n");
  (void)fflush(stdout);
  SLIP_CHECK_EQ(total->leaks, 0);
  SLIP_CHECK_EQ(total->hangs, 0);
  SLIP_CHECK_EQ(total->wrong, 0);
}

void fault_try(const char *name, uint64_t least) {
  const fault_operation_t *operation = fault_operation_find(name);
  const char *only = getenv("SLIP_FAULT_VARIANTS");
  uint32_t variants = only ? (uint32_t)strtoul(only, NULL, 10) : UINT32_MAX;
  fault_counts_t total = {0, 0, 0, 0};
  SLIP_CHECK(operation != NULL);
  for (uint32_t i = 0; i < variants && fault_variant_at(i); ++i) {
    const fault_variant_t *variant = fault_variant_at(i);
    if (operation->places & variant->place) fault_try_variant(operation, variant, &total);
  }
  fault_report(&total);
  if (!only) SLIP_CHECK(total.faults * fault_stride() >= least);
  // What has nothing that can fail: a fault there would be a new dependency.
  if (least == 0) SLIP_CHECK_EQ(total.faults, 0);
}
