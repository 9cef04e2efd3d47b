// SPDX-License-Identifier: Apache-2.0
// Runs of the engine with a fault in every tenth, all codes in turn, from two threads on one engine: each good run executes exactly its own
// tasks, and memory stays flat. The codes that no program can cause are made by breaking a dependency count (src/graph/stall_test.c).
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "faults.h"
#include "graph/execute.h"
#include "graph/state.h"
#include "graph/workspace.h"
#include "slip_test_allocator.h"
#include "slip_test_graph.h"
#include "soak.h"

#define GRAPH_SOAK_THREADS 2

static void graph_soak_wait(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  while (!atomic_load((_Atomic uint32_t *)(uintptr_t)args->scalars[0])) (void)sched_yield();
}
enum { GRAPH_SOAK_WAIT = SLIP_FAULTS_KERNELS };
static const slip_object_kernel_t graph_soak_kernels[] = {SLIP_FAULTS_KERNEL_ROWS, {"wait", graph_soak_wait, 0, 0, 1, 1}};

typedef struct graph_soak_t {
  graph_test_t test;
  slip__thread_t thread;
  uint64_t runs, faults, seen[14];
  int64_t code, depth;
} graph_soak_t;

// A task that never becomes ready, then a wait of the kind that |code| is about.
static void graph_soak_stick(slip_orch_t *o, slip_otensor_t t, int64_t code) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  _Atomic uint32_t go = 0;
  slip_task_builder_t task;
  slip_task_begin(&task, GRAPH_SOAK_WAIT, 1);
  slip_task_inout(&task, &t);
  slip_task_scalar(&task, (uint64_t)(uintptr_t)&go);
  slip_task_submit(o, &task);
  slip_faults_begin(&task, &t, 0, 1);
  slip_task_t stuck = slip_task_submit(o, &task);
  slip__ring_t *ring = &workspace->rings[slip__task_ring(stuck)];
  SLIP_CHECK_EQ(atomic_fetch_add(&slip__ring_slot(ring, slip__task_sequence(stuck))->pending, 1), 1);
  atomic_store(&go, 1);
  // |go| lies here: its reader must be gone before this returns.
  slip_task_t before = slip__task_pack(slip__task_sequence(stuck) - 1, slip__task_ring(stuck));
  while (!slip__slot_is_closed(slip__ring_slot(ring, slip__task_sequence(before)))) {
    if (!slip__help(workspace->engine, workspace->seat)) (void)sched_yield();
  }
  for (int i = 0; code == 1103 && i < 20; ++i) slip_faults_submit(o, t, 0, 1);
  if (code == 1108) (void)o->api->read_element(o, &t, 0);
}

static void graph_soak_run(slip_orch_t *o, const slip_oargs_t *args) {
  const graph_soak_t *soak = graph_test_user(args);
  if (soak->code == 0) {
    slip_faults_good(o, args->tensors[0]);
  } else if (soak->code == 1103 || soak->code == 1108 || soak->code == 1110) {
    for (int64_t i = 0; i < soak->depth; ++i) slip_scope_begin(o, SLIP_SCOPE_AUTO);
    graph_soak_stick(o, args->tensors[0], soak->code);
    for (int64_t i = 0; i < soak->depth; ++i) slip_scope_end(o);
  } else {
    slip_faults_bad(o, args->tensors[0], soak->code, soak->depth);
  }
}

static slip_status_t graph_soak_once(graph_soak_t *soak, int64_t *state) {
  const int64_t dims[1] = {4};
  slip_otensor_t tensor = graph_test_tensor(state, SLIP_DTYPE_I64, 1, dims);
  return graph_test_run(&soak->test, graph_soak_kernels, 3, graph_soak_run, &tensor, 1, soak, SLIP__RUN_PROGRAM);
}

static void graph_soak_main(void *user) {
  graph_soak_t *soak = user;
  for (uint64_t i = 0; i < soak->runs; ++i) {
    int64_t state[4] = {0};
    soak->code = i % 10 == 9 ? 1101 + (int64_t)(soak->faults % 13) : 0;
    soak->depth = (int64_t)(soak->faults / 13 % 6);
    if (soak->code != 0) {
      slip_status_t status = graph_soak_once(soak, state);
      SLIP_CHECK_EQ(slip_status_code(status), -soak->code);
      slip_status_free(status);
      ++soak->seen[soak->code - 1100];
      ++soak->faults;
    } else {
      uint64_t before = slip__workspace_task_count(soak->test.workspace);
      SLIP_CHECK_OK(graph_soak_once(soak, state));
      SLIP_CHECK_EQ(state[0], SLIP_FAULTS_GOOD_TASKS);
      SLIP_CHECK_EQ(slip__workspace_task_count(soak->test.workspace) - before, SLIP_FAULTS_GOOD_TASKS);
    }
  }
}

// |runs| of them, on all threads together.
static void graph_soak_round(graph_soak_t *soaks, uint64_t runs) {
  for (int i = 0; i < GRAPH_SOAK_THREADS; ++i) {
    soaks[i].runs = runs / GRAPH_SOAK_THREADS;
    SLIP_CHECK_OK(slip__thread_start(&soaks[i].thread, "soak", graph_soak_main, &soaks[i]));
  }
  for (int i = 0; i < GRAPH_SOAK_THREADS; ++i) slip__thread_join(&soaks[i].thread);
}

SLIP_TEST_TIMEOUT(soak_graph_runs_after_faults_are_whole, 1500) {
  static slip_test_allocator_t memory = SLIP_TEST_ALLOCATOR_INIT;
  static graph_soak_t soaks[GRAPH_SOAK_THREADS];
  uint64_t runs = soak_size("SLIP_SOAK_GRAPH_RUNS", 100000), warm = runs / 10 + 2600, committed = 0, faults = 0;
  slip__engine_options_t engine = {.thread_count = 2, .stall_timeout_ms = 1, .allocator = slip_test_allocator(&memory)};
  slip__workspace_options_t options = graph_test_options(8, 4096, 4);
  SLIP_CHECK_OK(slip__engine_create(&engine, &soaks[0].test.engine));
  for (int i = 0; i < GRAPH_SOAK_THREADS; ++i) {
    soaks[i].test.engine = soaks[0].test.engine;
    SLIP_CHECK_OK(slip__workspace_create(soaks[i].test.engine, &options, &soaks[i].test.workspace));
  }
  graph_soak_round(soaks, warm);
  for (int i = 0; i < GRAPH_SOAK_THREADS; ++i) committed += slip__workspace_committed_bytes(soaks[i].test.workspace);
  for (int i = 0; i < GRAPH_SOAK_THREADS; ++i) faults += soaks[i].faults;
  uint64_t bytes = memory.live_bytes, resident = soak_resident_kib();
  graph_soak_round(soaks, runs);
  uint64_t after = soak_resident_kib(), growth = after > resident ? after - resident : 0, seen = 0, high = 0;
  SLIP_CHECK_EQ(memory.live_bytes, bytes);
  for (int i = 0; i < GRAPH_SOAK_THREADS; ++i) {
    for (int code = 1; code <= 13; ++code) SLIP_CHECK(soaks[i].seen[code] >= soaks[i].faults / 13);
    high += slip__workspace_committed_bytes(soaks[i].test.workspace);
    seen += soaks[i].faults;
    slip__workspace_destroy(soaks[i].test.workspace);
  }
  SLIP_CHECK(high - committed < SOAK_FLAT_KIB << 10);  // high water: what is in flight together is not the same in each round
  slip__engine_destroy(soaks[0].test.engine);
  slip_test_allocator_check_empty(&memory);
  printf("RESULT graph_runs=%llu graph_faults=%llu rss_growth_kib=%llu\n", (unsigned long long)runs, (unsigned long long)(seen - faults),
         (unsigned long long)growth);
  fflush(stdout);
  SLIP_CHECK(growth < SOAK_FLAT_KIB);
}
