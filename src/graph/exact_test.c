// SPDX-License-Identifier: Apache-2.0
// Sentences about dependencies, each with the one task graph that would show it to be false.
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "slip_test_graph.h"

// --- What tasks do ------------------------------------------------------------------------------------------------------------------

static _Thread_local bool is_submitter;
static _Atomic uint32_t arrived;

// Takes long on a worker and no time on the submitter.
static void slow_on_workers(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
  if (!is_submitter) (void)usleep(2000);
}
// All blocks wait for each other.
static void together(const slip_kargs_t *args, slip_block_t block) {
  atomic_fetch_add(&arrived, 1);
  while (atomic_load(&arrived) < args->scalars[0] + block.count) (void)sched_yield();
}
static const slip_object_kernel_t gang_kernels[] = {{"slow", slow_on_workers, 0, 0, 1, 0}, {"together", together, 0, 0, 1, 1}};

// --- Gangs --------------------------------------------------------------------------------------------------------------------------

// The submitter sleeps in front of a full window when the gang becomes ready, and the gang needs it.
static void gang_of_all(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  uint32_t cores = o->api->available_cores(o, SLIP_CORE_ANY);
  is_submitter = true;
  for (int64_t i = 0; i < 6; ++i) {
    slip_otensor_t one = slip_otensor_slice(o, args->tensors[0], 0, i, 1);
    slip_task_begin(&task, 0, 1);
    slip_task_inout(&task, &one);
    slip_task_submit(o, &task);
  }
  slip_task_begin(&task, 1, cores);
  slip_task_inout(&task, &args->tensors[0]);
  slip_task_scalar(&task, 0);
  slip_task_gang(&task);
  slip_task_submit(o, &task);
  for (int i = 0; i < 6; ++i) {
    slip_task_begin(&task, 0, 1);
    slip_task_inout(&task, &args->tensors[0]);
    slip_task_submit(o, &task);
  }
}
SLIP_TEST(a_gang_of_all_threads_wakes_its_submitter) {
  graph_test_t test = graph_test_open(3, 8, 4096, 64);
  int64_t data[6] = {0};
  const int64_t dims[1] = {6};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  for (int round = 0; round < 30; ++round) {
    atomic_store(&arrived, 0);
    SLIP_CHECK_OK(graph_test_run(&test, gang_kernels, 2, gang_of_all, &tensor, 1, NULL, 0));
    SLIP_CHECK_EQ(atomic_load(&arrived), 3);
  }
  graph_test_close(&test);
}
