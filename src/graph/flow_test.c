// SPDX-License-Identifier: Apache-2.0
// Flow through small rings, blocks, gangs, predicates, elements, scratch, two runs at once.
#include <sched.h>
#include <stdatomic.h>

#include "slip_test_graph.h"
#include "os/thread.h"

static void add(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  *(int64_t *)args->tensors[0].data += (int64_t)args->scalars[0];
}
// Adds tensor 0 to tensor 1 and leaves rubbish in tensor 0.
static void drain(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  int64_t *from = args->tensors[0].data, *to = args->tensors[1].data;
  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) *to += from[i];
  memset(from, 0x55, (size_t)args->tensors[0].dims[0] * 8);
}
static void ones(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  int64_t *to = args->tensors[0].data;
  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) to[i] = 1;
}
static void each_block(const slip_kargs_t *args, slip_block_t block) {
  SLIP_CHECK_EQ(block.count, args->tensors[0].dims[0]);
  SLIP_CHECK(block.index < block.count);
  ((int64_t *)args->tensors[0].data)[block.index] += 1;
}
static _Atomic uint32_t arrived;
static void barrier(const slip_kargs_t *args, slip_block_t block) {
  (void)args;
  atomic_fetch_add(&arrived, 1);
  while (atomic_load(&arrived) % block.count != 0 && atomic_load(&arrived) < args->scalars[0] + block.count) (void)sched_yield();
}
static void use_scratch(const slip_kargs_t *args, slip_block_t block) {
  SLIP_CHECK(((uintptr_t)args->scratch & 63) == 0);
  SLIP_CHECK_EQ(args->scratch_bytes, 1000);
  memset(args->scratch, (int)block.index & 0xff, args->scratch_bytes);
  for (volatile int i = 0; i < 100; ++i) continue;
  for (uint32_t i = 0; i < args->scratch_bytes; ++i) SLIP_CHECK(((uint8_t *)args->scratch)[i] == (block.index & 0xff));
}
enum { ADD, DRAIN, ONES, EACH_BLOCK, BARRIER, SCRATCH };
static const slip_object_kernel_t kernels[] = {{"add", add, 0, 0, 1, 1},         {"drain", drain, 0, 0, 2, 0},
                                               {"ones", ones, 0, 0, 1, 0},       {"each", each_block, 0, 0, 1, 0},
                                               {"barrier", barrier, 0, 0, 1, 1}, {"scratch", use_scratch, 0, 1000, 0, 0}};
#define KERNELS 6

typedef struct flow_t {
  int64_t count;
  int64_t seen;
} flow_t;

static void submit_add(slip_orch_t *o, slip_otensor_t *t, int64_t value, const slip_predicate_t *predicate) {
  slip_task_builder_t task;
  slip_task_begin(&task, ADD, 1);
  slip_task_inout(&task, t);
  slip_task_scalar(&task, (uint64_t)value);
  task.submit.predicate = predicate;
  slip_task_submit(o, &task);
}

static void flood(slip_orch_t *o, const slip_oargs_t *args) {
  flow_t *flow = graph_test_user(args);
  for (int64_t i = 0; i < flow->count; ++i) {
    slip_otensor_t one = slip_otensor_slice(o, args->tensors[0], 0, i * 7 % 64, 1 + i % 3 % (64 - i * 7 % 64));
    submit_add(o, &one, 1, NULL);
  }
}
SLIP_TEST(floods_pass_small_windows_in_flat_memory) {
  static const uint32_t windows[] = {4, 16, 256}, pools[] = {4, 64, 4096};
  const int64_t dims[1] = {64};
  for (int i = 0; i < 3; ++i) {
    graph_test_t test = graph_test_open(2, windows[i], 4096, pools[i]);
    for (int round = 0; round < 2; ++round) {
      flow_t flow = {.count = 100000};
      int64_t data[64] = {0}, sum = 0;
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
      SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, flood, &tensor, 1, &flow, 0));
      for (int j = 0; j < 64; ++j) sum += data[j];
      SLIP_CHECK_EQ(sum, flow.count);
      SLIP_CHECK_EQ(slip__workspace_task_count(test.workspace), (round + 1) * flow.count);
      // How far a ring has been used depends on the schedule; what the windows allow does not. One record a task would be 10 MB.
      SLIP_CHECK(slip__workspace_committed_bytes(test.workspace) < 2 << 20);
    }
    graph_test_close(&test);
  }
}

// Intermediates of many sibling scopes go round a heap that holds a few of them.
static void rounds(slip_orch_t *o, const slip_oargs_t *args) {
  flow_t *flow = graph_test_user(args);
  for (int64_t i = 0; i < flow->count; ++i) {
    int64_t dims[1] = {1 + i * 37 % 150};
    slip_otensor_t made = slip_otensor_describe(SLIP_DTYPE_I64, 1, dims);
    slip_task_builder_t task;
    for (int64_t d = 0; d <= i % 5; ++d) slip_scope_begin(o, SLIP_SCOPE_AUTO);
    slip_task_begin(&task, ONES, 1);
    slip_task_out(&task, &made);
    slip_task_submit(o, &task);
    slip_task_begin(&task, DRAIN, 1);
    slip_task_inout(&task, &made);
    slip_task_inout(&task, &args->tensors[0]);
    slip_task_submit(o, &task);
    for (int64_t d = 0; d <= i % 5; ++d) slip_scope_end(o);
    flow->seen += dims[0];
  }
}
SLIP_TEST(intermediates_go_round_a_small_heap) {
  const int64_t dims[1] = {1};
  for (uint32_t threads = 0; threads <= 3; ++threads) {
    graph_test_t test = graph_test_open(threads, 16, 4096, 64);
    flow_t flow = {.count = 20000};
    int64_t data = 0;
    slip_otensor_t tensor = graph_test_tensor(&data, SLIP_DTYPE_I64, 1, dims);
    SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, rounds, &tensor, 1, &flow, 0));
    SLIP_CHECK_EQ(data, flow.seen);
    graph_test_close(&test);
  }
}

static void blocks(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  for (int i = 0; i < 30; ++i) {
    slip_task_begin(&task, EACH_BLOCK, (uint32_t)args->tensors[0].view.dims[0]);
    slip_task_inout(&task, &args->tensors[0]);
    slip_task_submit(o, &task);
  }
}
SLIP_TEST(each_block_runs_once) {
  static int64_t data[5000];
  const int64_t sizes[] = {1, 2, 3, 17, 5000};
  for (uint32_t threads = 0; threads <= 4; ++threads) {
    graph_test_t test = graph_test_open(threads, 16, 4096, 64);
    for (int i = 0; i < 5; ++i) {
      memset(data, 0, sizeof(data));
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, &sizes[i]);
      SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, blocks, &tensor, 1, NULL, 0));
      for (int64_t j = 0; j < sizes[i]; ++j) SLIP_CHECK_EQ(data[j], 30);
    }
    graph_test_close(&test);
  }
}

// Tasks of quickly changing block counts, so that an entry of the board is opened again while threads still look at it.
static void changing(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  uint64_t state = (uint64_t)(uintptr_t)graph_test_user(args);
  for (int i = 0; i < 300; ++i) {
    int64_t count = 2 + (int64_t)(slip_test_random(&state) % 12), start = (int64_t)(slip_test_random(&state) % 50);
    slip_otensor_t part = slip_otensor_slice(o, args->tensors[0], 0, start, count);
    slip_task_begin(&task, EACH_BLOCK, (uint32_t)count);
    slip_task_inout(&task, &part);
    slip_task_submit(o, &task);
  }
}
SLIP_TEST(entries_of_the_board_change_hands_quickly) {
  const int64_t dims[1] = {64};
  graph_test_t serial = graph_test_open(0, 64, 4096, 64), test = graph_test_open(4, 64, 4096, 64);
  uint64_t state = slip_test_seed();
  for (int round = 0; round < 200; ++round) {
    int64_t expected[64] = {0}, actual[64] = {0};
    void *seed = (void *)(uintptr_t)slip_test_random(&state);
    slip_otensor_t tensor = graph_test_tensor(expected, SLIP_DTYPE_I64, 1, dims);
    SLIP_CHECK_OK(graph_test_run(&serial, kernels, KERNELS, changing, &tensor, 1, seed, 0));
    tensor = graph_test_tensor(actual, SLIP_DTYPE_I64, 1, dims);
    SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, changing, &tensor, 1, seed, 0));
    for (int i = 0; i < 64; ++i) SLIP_CHECK_EQ(actual[i], expected[i]);
  }
  graph_test_close(&serial);
  graph_test_close(&test);
}

// More tasks with blocks at once than the board has places.
static void wide(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  for (int64_t i = 0; i < 40; ++i) {
    slip_otensor_t part = slip_otensor_slice(o, args->tensors[0], 0, i * 100, 100);
    slip_task_begin(&task, EACH_BLOCK, 100);
    slip_task_inout(&task, &part);
    slip_task_submit(o, &task);
  }
}
SLIP_TEST(many_tasks_with_blocks_at_once) {
  static int64_t data[4000];
  const int64_t dims[1] = {4000};
  graph_test_t test = graph_test_open(3, 64, 4096, 64);
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  for (int round = 1; round <= 50; ++round) {
    SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, wide, &tensor, 1, NULL, 0));
    for (int i = 0; i < 4000; ++i) SLIP_CHECK_EQ(data[i], round);
  }
  graph_test_close(&test);
}

// Gangs whose blocks wait for each other, among ordinary tasks; independent gangs do not take each other's threads.
static void gangs(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  uint32_t cores = o->api->available_cores(o, SLIP_CORE_ANY);
  for (uint32_t i = 0; i < 10; ++i) {
    slip_otensor_t own = slip_otensor_slice(o, args->tensors[0], 0, i, 1);
    for (int j = 0; j < 5; ++j) submit_add(o, &own, 1, NULL);
    slip_task_begin(&task, BARRIER, cores);
    slip_task_inout(&task, &own);
    slip_task_scalar(&task, (uint64_t)i * cores);
    task.submit.flags = SLIP_SUBMIT_GANG;
    slip_task_submit(o, &task);
    submit_add(o, &own, 1, NULL);
  }
}
SLIP_TEST(gang_blocks_run_together) {
  const int64_t dims[1] = {10};
  for (uint32_t threads = 1; threads <= 4; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 4096, 64);
    for (int round = 0; round < 30; ++round) {
      int64_t data[10] = {0};
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
      atomic_store(&arrived, 0);
      SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, gangs, &tensor, 1, NULL, 0));
      SLIP_CHECK_EQ(atomic_load(&arrived), 10 * threads);
      for (int i = 0; i < 10; ++i) SLIP_CHECK_EQ(data[i], 6);
    }
    graph_test_close(&test);
  }
}

// Every operator against a value that the task before has just written; a false predicate releases its consumers.
static void predicates(slip_orch_t *o, const slip_oargs_t *args) {
  for (int64_t value = -2; value <= 2; ++value) {
    slip_otensor_t flag = slip_otensor_slice(o, args->tensors[0], 0, 0, 1);
    submit_add(o, &flag, value == -2 ? -2 : 1, NULL);
    for (uint32_t op = SLIP_PREDICATE_EQ; op <= SLIP_PREDICATE_GE; ++op) {
      slip_otensor_t count = slip_otensor_slice(o, args->tensors[0], 0, op, 1);
      slip_predicate_t predicate = {.tensor = &args->tensors[0], .index = 0, .literal = 1, .op = op};
      submit_add(o, &count, 1, &predicate);
      submit_add(o, &count, 100, NULL);
    }
  }
}
SLIP_TEST(predicates_compare_when_dispatched) {
  const int64_t dims[1] = {7};
  for (uint32_t threads = 0; threads <= 3; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 4096, 64);
    for (int round = 0; round < 50; ++round) {
      int64_t data[7] = {0};
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
      SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, predicates, &tensor, 1, NULL, 0));
      const int64_t expected[7] = {2, 501, 504, 503, 504, 501, 502};
      for (int i = 0; i < 7; ++i) SLIP_CHECK_EQ(data[i], expected[i]);
    }
    graph_test_close(&test);
  }
}

// One value of each dtype, and the edge of unsigned 64-bit values.
static uint8_t predicate_dtype;
static int64_t predicate_literal;
static void one_predicate(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t value = args->tensors[0];
  value.view.dtype = predicate_dtype;
  value.view.dims[0] = 1;
  slip_predicate_t predicate = {.tensor = &value, .literal = predicate_literal, .op = SLIP_PREDICATE_GT};
  submit_add(o, &args->tensors[1], 1, &predicate);
}
SLIP_TEST(predicates_read_each_integer_dtype) {
  graph_test_t test = graph_test_open(1, 64, 4096, 64);
  const int64_t dims[1] = {1};
  const struct {
    uint8_t dtype;
    uint64_t bits;
    int64_t literal;
    int greater;
  } cases[] = {{SLIP_DTYPE_I8, 0xff, -2, 1},
               {SLIP_DTYPE_I8, 0xff, -1, 0},
               {SLIP_DTYPE_U8, 0xff, 254, 1},
               {SLIP_DTYPE_I16, 0x8000, 0, 0},
               {SLIP_DTYPE_U16, 0x8000, 0, 1},
               {SLIP_DTYPE_I32, 0x80000000, 0, 0},
               {SLIP_DTYPE_U32, 0x80000000, 0, 1},
               {SLIP_DTYPE_BOOL, 1, 0, 1},
               {SLIP_DTYPE_BOOL, 0, 0, 0},
               {SLIP_DTYPE_I64, UINT64_MAX, 0, 0},
               {SLIP_DTYPE_U64, UINT64_MAX, INT64_MAX, 1}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    int64_t data[2] = {(int64_t)cases[i].bits, 0};
    slip_otensor_t tensors[2] = {graph_test_tensor(&data[0], SLIP_DTYPE_I64, 1, dims),
                                 graph_test_tensor(&data[1], SLIP_DTYPE_I64, 1, dims)};
    predicate_dtype = cases[i].dtype;
    predicate_literal = cases[i].literal;
    SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, one_predicate, tensors, 2, NULL, 0));
    SLIP_CHECK_EQ(data[1], cases[i].greater);
  }
  graph_test_close(&test);
}

static void elements(slip_orch_t *o, const slip_oargs_t *args) {
  flow_t *flow = graph_test_user(args);
  slip_otensor_t left = slip_otensor_slice(o, args->tensors[0], 0, 0, 2), right = slip_otensor_slice(o, args->tensors[0], 0, 2, 2);
  for (int i = 0; i < 50; ++i) submit_add(o, &left, 1, NULL);
  for (int i = 0; i < 50; ++i) submit_add(o, &right, 1, NULL);
  flow->seen = (int64_t)o->api->read_element(o, &left, 0);
  o->api->write_element(o, &left, 0, 1000);
  submit_add(o, &left, 1, NULL);
}
SLIP_TEST(elements_wait_for_their_producer) {
  const int64_t dims[1] = {4};
  for (uint32_t threads = 0; threads <= 3; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 4096, 64);
    for (int round = 0; round < 100; ++round) {
      flow_t flow = {0};
      int64_t data[4] = {0};
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
      SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, elements, &tensor, 1, &flow, SLIP__RUN_PROGRAM));
      SLIP_CHECK_EQ(flow.seen, 50);
      SLIP_CHECK_EQ(data[0], 1001);
      SLIP_CHECK_EQ(data[2], 50);
    }
    graph_test_close(&test);
  }
}

static void scratches(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  (void)args;
  for (int i = 0; i < 20; ++i) {
    slip_task_begin(&task, SCRATCH, 50);
    slip_task_submit(o, &task);
  }
}
SLIP_TEST(scratch_is_private_aligned_and_grows) {
  for (uint32_t threads = 0; threads <= 3; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 4096, 64);
    SLIP_CHECK_ERROR(graph_test_run(&test, kernels, KERNELS, scratches, NULL, 0, NULL, 0), SLIP_CODE_GRAPH_INVALID_TASK,
                     "1000 bytes of scratch");
    SLIP_CHECK_OK(slip__engine_reserve_scratch(test.engine, 1000));
    SLIP_CHECK_OK(slip__engine_reserve_scratch(test.engine, 10));
    SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, scratches, NULL, 0, NULL, 0));
    graph_test_close(&test);
  }
}

// Two callers on one engine.
typedef struct caller_t {
  slip__engine_t *engine;
  slip__workspace_options_t options;
} caller_t;
static void call_often(void *user) {
  caller_t *caller = user;
  graph_test_t test = {.engine = caller->engine};
  const int64_t dims[1] = {64};
  for (int opened = 0; opened < 5; ++opened) {
    SLIP_CHECK_OK(slip__workspace_create(test.engine, &caller->options, &test.workspace));
    for (int round = 0; round < 100; ++round) {
      flow_t flow = {.count = round};
      int64_t data[64] = {0}, sum = 0;
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
      SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, flood, &tensor, 1, &flow, 0));
      for (int j = 0; j < 64; ++j) sum += data[j];
      SLIP_CHECK_EQ(sum, round);
    }
    slip__workspace_destroy(test.workspace);
  }
}
SLIP_TEST(two_runs_share_an_engine) {
  slip__engine_options_t options = {.thread_count = 3};
  caller_t caller = {.options = graph_test_options(16, 4096, 64)};
  slip__thread_t threads[3];
  SLIP_CHECK_OK(slip__engine_create(&options, &caller.engine));
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip__thread_start(&threads[i], "caller", call_often, &caller));
  for (int i = 0; i < 3; ++i) slip__thread_join(&threads[i]);
  slip__engine_destroy(caller.engine);
}
