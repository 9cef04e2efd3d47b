// SPDX-License-Identifier: Apache-2.0
// Who runs ready tasks: whatever is measured, results are right, and long tasks are shared.
#include "graph/balance.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "graph/workspace.h"
#include "slip_test_graph.h"

static _Thread_local bool is_submitter;
static _Atomic uint32_t on_submitter, on_others;

// Adds scalar 0 to the value, after scalar 1 microseconds.
static void add(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  if (args->scalars[1]) (void)usleep((useconds_t)args->scalars[1]);
  *(int64_t *)args->tensors[0].data += (int64_t)args->scalars[0];
  atomic_fetch_add(is_submitter ? &on_submitter : &on_others, 1);
}
// Value 0 becomes the sum of the others.
static void sum(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *from = &args->tensors[1];
  int64_t total = 0;
  for (int64_t i = 0; i < from->dims[0]; ++i) total += ((const int64_t *)from->data)[i * from->strides[0]];
  *(int64_t *)args->tensors[0].data = total;
}
static void fault(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  slip_kernel_fault(args, 7);
}
static const slip_object_kernel_t kernels[] = {{"add", add, 0, 0, 1, 2}, {"sum", sum, 0, 0, 2, 0}, {"fault", fault, 0, 0, 1, 0}};
#define VALUES 64

typedef struct program_t {
  uint32_t submits, delay_us;
} program_t;

static slip_task_t submit_add(slip_orch_t *o, slip_otensor_t tensor, int64_t value, uint64_t delay_us, slip_task_t after) {
  slip_task_builder_t task;
  slip_task_begin(&task, 0, 1);
  slip_task_inout(&task, &tensor);
  slip_task_scalar(&task, (uint64_t)value);
  slip_task_scalar(&task, delay_us);
  if (after) slip_task_after(&task, after);
  return slip_task_submit(o, &task);
}

static void spread(slip_orch_t *o, const slip_oargs_t *args) {
  const program_t *program = graph_test_user(args);
  is_submitter = true;
  for (uint32_t i = 0; i < program->submits; ++i) {
    (void)submit_add(o, slip_otensor_slice(o, args->tensors[0], 0, i % VALUES, 1), 1, program->delay_us, 0);
  }
}

static void run_spread(graph_test_t *test, uint32_t submits, uint32_t delay_us) {
  int64_t data[VALUES] = {0};
  const int64_t dims[1] = {VALUES};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  program_t program = {submits, delay_us};
  SLIP_CHECK_OK(graph_test_run(test, kernels, 3, spread, &tensor, 1, &program, 0));
  for (uint32_t i = 0; i < VALUES; ++i) SLIP_CHECK_EQ(data[i], submits / VALUES + (i < submits % VALUES));
}

// As after a run of tiny tasks.
static void make_alone(graph_test_t *test, bool trial) {
  test->workspace->balance =
      (slip__balance_t){.mode = SLIP__ALONE, .trial = trial, .patience = 8, .until_trial = 8, .cost = {16 * 200, 16 * 100}};
}

// Few long tasks in each run: no measurement is ever complete.
static void share_few(uint32_t tasks, bool trial) {
  graph_test_t test = graph_test_open(2, 64, 4096, 64);
  make_alone(&test, trial);
  atomic_store(&on_others, 0);
  for (int round = 0; round < 50 && atomic_load(&on_others) == 0; ++round) run_spread(&test, tasks, 1000);
  SLIP_CHECK(atomic_load(&on_others) > 0);
  SLIP_CHECK_EQ(test.workspace->balance.mode, SLIP__SHARE);
  graph_test_close(&test);
}
SLIP_TEST(a_few_long_tasks_after_tiny_ones_are_shared) {
  share_few(16, false);
  share_few(8, false);
  share_few(4, true);
}

SLIP_TEST(long_tasks_after_a_phase_of_tiny_ones_are_shared) {
  graph_test_t test = graph_test_open(2, 256, 4096, 256);
  for (int round = 0; round < 3; ++round) {
    run_spread(&test, 5000, 0);
    atomic_store(&on_others, 0);
    for (int again = 0; again < 20 && atomic_load(&on_others) == 0; ++again) run_spread(&test, 40, 500);
    SLIP_CHECK(atomic_load(&on_others) > 0);
  }
  graph_test_close(&test);
}

SLIP_TEST(measurements_that_end_with_a_run_do_no_harm) {
  static const uint32_t windows[] = {4, 64, 1024};
  for (uint32_t w = 0; w < 3; ++w) {
    graph_test_t test = graph_test_open(2, windows[w], 4096, 64);
    for (uint32_t round = 0; round < 60; ++round) {
      for (uint32_t submits = 126; submits < 131; ++submits) run_spread(&test, submits, 0);
      if (round % 10 == 0) make_alone(&test, round % 20 == 0);
    }
    graph_test_close(&test);
  }
}

// Every kind of dependency on tasks that ran inside their submits, and of tasks that do not.
static void mixture(slip_orch_t *o, const slip_oargs_t *args) {
  const slip_otensor_t *all = &args->tensors[0];
  uint64_t random = (uint64_t)(uintptr_t)graph_test_user(args);
  slip_task_t last = 0;
  slip_task_builder_t task;
  for (int i = 0; i < 300; ++i) {
    uint64_t draw = slip_test_random(&random);
    slip_otensor_t one = slip_otensor_slice(o, *all, 0, 1 + (int64_t)(draw % 4), 1);
    slip_otensor_t place = slip_otensor_slice(o, *all, 0, 0, 1), rest = slip_otensor_slice(o, *all, 0, 1, VALUES - 1);
    uint64_t delay = draw >> 32 & 31 ? 0 : 50;
    switch (draw >> 8 & 7) {
      case 0:  // read-modify-write in a manual scope, ordered by hand behind all before
        last = slip_task_join(o, &last, last != 0);
        (void)o->api->read_element(o, all, 1);
        slip_task_begin(&task, 1, 1);
        slip_task_out_existing(&task, &place);
        slip_task_in(&task, &rest);
        last = slip_task_submit(o, &task);
        slip_scope_begin(o, SLIP_SCOPE_MANUAL);
        last = submit_add(o, place, 1, delay, last);
        last = submit_add(o, place, -1, 0, last);
        slip_scope_end(o);
        break;
      case 1:
        (void)submit_add(o, one, 1, delay, last);
        break;
      case 2: {
        uint64_t value = o->api->read_element(o, all, 1 + (int64_t)(draw % 4));
        o->api->write_element(o, all, 1 + (int64_t)(draw % 4), value + 1);
        break;
      }
      default:
        last = submit_add(o, one, 1, delay, 0);
        last = slip_task_join(o, &last, 1);
    }
  }
  slip_otensor_t place = slip_otensor_slice(o, *all, 0, 0, 1), rest = slip_otensor_slice(o, *all, 0, 1, VALUES - 1);
  slip_task_begin(&task, 1, 1);
  slip_task_out_existing(&task, &place);
  slip_task_in(&task, &rest);
  (void)slip_task_submit(o, &task);
}
static void run_mixture(graph_test_t *test, uint64_t seed, int64_t *data) {
  const int64_t dims[1] = {VALUES};
  memset(data, 0, VALUES * sizeof(*data));
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  SLIP_CHECK_OK(graph_test_run(test, kernels, 3, mixture, &tensor, 1, (void *)(uintptr_t)seed, SLIP__RUN_PROGRAM));
}
SLIP_TEST(tasks_that_run_inside_their_submits_are_ordered_with_the_others) {
  static const uint32_t windows[] = {4, 16, 1024};
  uint64_t random = slip_test_seed();
  graph_test_t serial = graph_test_open(0, 16, 4096, 64);
  for (uint32_t w = 0; w < 3; ++w) {
    graph_test_t test = graph_test_open(3, windows[w], 4096, 64);
    for (int round = 0; round < 40; ++round) {
      int64_t expected[VALUES], actual[VALUES];
      uint64_t seed = slip_test_random(&random);
      if (round % 3) make_alone(&test, round % 3 == 1);
      run_mixture(&serial, seed, expected);
      run_mixture(&test, seed, actual);
      for (int i = 0; i < VALUES; ++i) SLIP_CHECK_EQ(actual[i], expected[i]);
    }
    graph_test_close(&test);
  }
  graph_test_close(&serial);
}

static void fault_at(slip_orch_t *o, const slip_oargs_t *args) {
  uint64_t at = (uint64_t)(uintptr_t)graph_test_user(args);
  for (uint64_t i = 0; i < 200; ++i) {
    slip_otensor_t one = slip_otensor_slice(o, args->tensors[0], 0, (int64_t)(i % VALUES), 1);
    if (i != at) {
      (void)submit_add(o, one, 1, 0, 0);
      continue;
    }
    slip_task_builder_t task;
    slip_task_begin(&task, 2, 1);
    slip_task_inout(&task, &one);
    (void)slip_task_submit(o, &task);
  }
}
SLIP_TEST(a_fault_inside_a_submit_ends_the_run_and_nothing_else) {
  graph_test_t test = graph_test_open(2, 64, 4096, 64);
  const int64_t dims[1] = {VALUES};
  for (uint64_t at = 0; at < 200; at += 7) {
    int64_t data[VALUES] = {0};
    slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
    make_alone(&test, at % 2);
    SLIP_CHECK_CODE(graph_test_run(&test, kernels, 3, fault_at, &tensor, 1, (void *)(uintptr_t)at, 0), SLIP_CODE_GRAPH_KERNEL_FAULT);
    SLIP_CHECK_EQ(data[at % VALUES], at / VALUES);  // the earlier ones on that value, and none of the later
    run_spread(&test, 130, 0);
  }
  graph_test_close(&test);
}
