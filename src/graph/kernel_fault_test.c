// SPDX-License-Identifier: Apache-2.0
// Kernels that report a fault: alone, in blocks and gangs, on several threads at once, behind predicates, in nested scopes; what the
// message names, and that the next run is whole.
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "os/thread.h"
#include "slip_test_graph.h"

static _Atomic uint64_t ran;

// Faults with the code of its scalar in the block of its second scalar.
static void faulty(const slip_kargs_t *args, slip_block_t block) {
  atomic_fetch_add(&ran, 1);
  if (args->scalars[1] == block.index) slip_kernel_fault(args, (uint32_t)args->scalars[0]);
}
// All blocks fault.
static void hopeless(const slip_kargs_t *args, slip_block_t block) {
  slip_kernel_fault(args, 100 + block.index);
  slip_kernel_fault(args, 1);  // the first counts
}
static void add(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  atomic_fetch_add(&ran, 1);
  *(int64_t *)args->tensors[0].data += 1;
}
// Waits for all blocks of its gang, faults in the last one.
static _Atomic uint32_t arrived;
static void gang(const slip_kargs_t *args, slip_block_t block) {
  if (block.index + 1 == block.count) slip_kernel_fault(args, 9);
  atomic_fetch_add(&arrived, 1);
  while (atomic_load(&arrived) < block.count) (void)sched_yield();
}
static const slip_object_kernel_t kernels[] = {
    {"faulty", faulty, 0, 0, 1, 2}, {"hopeless", hopeless, 0, 0, 1, 0}, {"add", add, 0, 0, 1, 0}, {"gang", gang, 0, 0, 1, 0}};
enum { FAULTY, HOPELESS, ADD, GANG, KERNELS };

static void submit(slip_orch_t *o, uint32_t kernel, uint32_t blocks, slip_otensor_t t, uint64_t code, uint64_t block) {
  slip_task_builder_t task;
  slip_task_begin_at(&task, kernel, blocks, "model.c", 40 + kernel);
  slip_task_inout(&task, &t);
  if (kernel == FAULTY) {
    slip_task_scalar(&task, code);
    slip_task_scalar(&task, block);
  }
  if (kernel == GANG) slip_task_gang(&task);
  slip_task_submit(o, &task);
}

static void good(slip_orch_t *o, const slip_oargs_t *args) {
  for (int i = 0; i < 10; ++i) submit(o, ADD, 1, args->tensors[0], 0, 0);
}

static void expect(slip_orch_fn_t orchestrate, const char *const *parts) {
  const int64_t dims[1] = {4};
  for (uint32_t threads = 0; threads <= 3; ++threads) {
    graph_test_t test = graph_test_open(threads, 8, 4096, 64);
    for (int round = 0; round < 50; ++round) {
      int64_t data[4] = {0};
      char text[1024];
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
      atomic_store(&arrived, threads == 0 || threads == 1 ? 1000 : 0);
      slip_status_t status = graph_test_run(&test, kernels, KERNELS, orchestrate, &tensor, 1, NULL, 0);
      slip_status_format(status, text, sizeof(text));
      for (const char *const *part = parts; *part; ++part) {
        if (!strstr(text, *part)) slip_test_fail(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", *part, text);
      }
      SLIP_CHECK_CODE(status, SLIP_CODE_GRAPH_KERNEL_FAULT);
      uint64_t before = slip__workspace_task_count(test.workspace);
      data[0] = 0;
      atomic_store(&ran, 0);
      SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, good, &tensor, 1, NULL, 0));
      SLIP_CHECK_EQ(data[0], 10);
      SLIP_CHECK_EQ(atomic_load(&ran), 10);
      SLIP_CHECK_EQ(slip__workspace_task_count(test.workspace) - before, 10);
    }
    graph_test_close(&test);
  }
}

#define EXPECT(orchestrate, ...) expect((orchestrate), (const char *const[]){__VA_ARGS__, NULL})

static void one_alone(slip_orch_t *o, const slip_oargs_t *args) {
  submit(o, FAULTY, 1, args->tensors[0], 7, 0);
}
SLIP_TEST(kernel_fault_of_a_single_task) {
  EXPECT(one_alone, "fault 7 in block 0 of 1", "task of kernel 0 (faulty) in ring 0, scope depth 0, submitted at model.c:40");
}

static void in_the_middle(slip_orch_t *o, const slip_oargs_t *args) {
  for (int i = 0; i < 5; ++i) submit(o, ADD, 1, args->tensors[0], 0, 0);
  submit(o, FAULTY, 1, args->tensors[0], 0, 0);
  atomic_store(&ran, 0);
  for (int i = 0; i < 100; ++i) submit(o, ADD, 1, args->tensors[0], 0, 0);
}
SLIP_TEST(kernel_fault_zero_is_a_fault_too) {
  EXPECT(in_the_middle, "fault 4294967295 in block 0 of 1");
}

static void one_block(slip_orch_t *o, const slip_oargs_t *args) {
  submit(o, ADD, 1, args->tensors[0], 0, 0);
  submit(o, FAULTY, 64, args->tensors[0], 3, 17);
  submit(o, ADD, 1, args->tensors[0], 0, 0);
}
SLIP_TEST(kernel_fault_of_one_block) {
  EXPECT(one_block, "fault 3 in block 17 of 64", "kernel 0 (faulty)");
}

static void all_blocks(slip_orch_t *o, const slip_oargs_t *args) {
  submit(o, ADD, 1, args->tensors[0], 0, 0);
  for (int i = 0; i < 8; ++i) submit(o, HOPELESS, 64, slip_otensor_slice(o, args->tensors[0], 0, i % 4, 1), 0, 0);
}
SLIP_TEST(kernel_faults_on_several_threads_at_once) {
  EXPECT(all_blocks, "the kernel reported fault 1", "of 64", "kernel 1 (hopeless)");
}

static void in_a_gang(slip_orch_t *o, const slip_oargs_t *args) {
  submit(o, ADD, 1, args->tensors[0], 0, 0);
  submit(o, GANG, slip_orch_available_cores(o, SLIP_CORE_ANY), args->tensors[0], 0, 0);
  submit(o, ADD, 1, args->tensors[0], 0, 0);
}
SLIP_TEST(kernel_fault_in_a_gang) {
  EXPECT(in_a_gang, "fault 9 in block", "kernel 3 (gang)");
}

static void in_nested_scopes(slip_orch_t *o, const slip_oargs_t *args) {
  for (int i = 0; i < 5; ++i) {
    slip_scope_begin(o, i % 2 ? SLIP_SCOPE_MANUAL : SLIP_SCOPE_AUTO);
    // In a manual scope nothing orders a task but what it names: one on a tensor of its own.
    submit(o, ADD, 1, i % 2 ? slip_otensor_create(o, SLIP_DTYPE_I64, 1, args->tensors[0].view.dims) : args->tensors[0], 0, 0);
  }
  submit(o, FAULTY, 1, slip_otensor_create(o, SLIP_DTYPE_I64, 1, args->tensors[0].view.dims), 5, 0);
  for (int i = 0; i < 5; ++i) slip_scope_end(o);
  submit(o, ADD, 1, args->tensors[0], 0, 0);
}
SLIP_TEST(kernel_fault_in_nested_scopes) {
  EXPECT(in_nested_scopes, "fault 5 in block 0 of 1", "in ring 3, scope depth 5, submitted at model.c:40");
}

// The predicate reads what the faulty kernel's predecessor wrote: true, so it runs and faults; the second one is false and must not.
static void behind_predicates(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t t = args->tensors[0];
  submit(o, ADD, 1, t, 0, 0);
  for (int64_t literal = 2; literal >= 1; --literal) {
    slip_predicate_t predicate = {.tensor = &args->tensors[0], .literal = literal, .op = SLIP_PREDICATE_EQ};
    slip_task_builder_t task;
    slip_task_begin(&task, FAULTY, 2);
    slip_task_inout(&task, &t);
    slip_task_scalar(&task, literal == 1 ? 11 : 12);
    slip_task_scalar(&task, 1);
    slip_task_if(&task, &predicate);
    slip_task_submit(o, &task);
  }
}
SLIP_TEST(kernel_fault_behind_a_predicate) {
  EXPECT(behind_predicates, "fault 11 in block 1 of 2");
}

// A run that goes on beside faulting ones is not touched by them.
typedef struct neighbour_t {
  graph_test_t test;
  _Atomic uint32_t stop;
  uint64_t runs;
} neighbour_t;

static void neighbour_main(void *user) {
  neighbour_t *neighbour = user;
  const int64_t dims[1] = {4};
  while (!atomic_load(&neighbour->stop) || neighbour->runs == 0) {
    int64_t data[4] = {0};
    slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
    uint64_t before = slip__workspace_task_count(neighbour->test.workspace);
    SLIP_CHECK_OK(graph_test_run(&neighbour->test, kernels, KERNELS, good, &tensor, 1, NULL, 0));
    SLIP_CHECK_EQ(data[0], 10);
    SLIP_CHECK_EQ(slip__workspace_task_count(neighbour->test.workspace) - before, 10);
    ++neighbour->runs;
  }
}

SLIP_TEST(kernel_faults_beside_a_good_run) {
  static const slip_orch_fn_t faults[] = {one_alone, in_the_middle, one_block, all_blocks, in_nested_scopes, behind_predicates};
  graph_test_t test = graph_test_open(3, 8, 4096, 64);
  slip__workspace_options_t options = graph_test_options(8, 4096, 64);
  neighbour_t neighbour = {.test.engine = test.engine};
  slip__thread_t thread = {0};
  const int64_t dims[1] = {4};
  SLIP_CHECK_OK(slip__workspace_create(test.engine, &options, &neighbour.test.workspace));
  SLIP_CHECK_OK(slip__thread_start(&thread, "neighbour", neighbour_main, &neighbour));
  for (int round = 0; round < 200; ++round) {
    int64_t data[4] = {0};
    slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
    SLIP_CHECK_CODE(graph_test_run(&test, kernels, KERNELS, faults[round % 6], &tensor, 1, NULL, 0), SLIP_CODE_GRAPH_KERNEL_FAULT);
    data[0] = 0;
    uint64_t before = slip__workspace_task_count(test.workspace);
    SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, good, &tensor, 1, NULL, 0));
    SLIP_CHECK_EQ(data[0], 10);
    SLIP_CHECK_EQ(slip__workspace_task_count(test.workspace) - before, 10);
  }
  atomic_store(&neighbour.stop, 1);
  slip__thread_join(&thread);
  slip__workspace_destroy(neighbour.test.workspace);
  graph_test_close(&test);
}
