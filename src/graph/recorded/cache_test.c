// SPDX-License-Identifier: Apache-2.0
// Runs that come again: recorded, compared, replayed; and those that must not be.
#include "graph/recorded/cache.h"

#include "graph/workspace.h"
#include "slip_test_graph.h"

#define CELLS 64

// to = sum of the others * 3 + scalar + what was there
static void mix(const slip_kargs_t *args, slip_block_t block) {
  uint32_t last = args->tensor_count - 1;
  int64_t sum = (int64_t)args->scalars[0];
  for (uint32_t t = 0; t < last; ++t) sum += ((const int64_t *)args->tensors[t].data)[0];
  int64_t *to = (int64_t *)args->tensors[last].data + block.index * args->tensors[last].strides[0];
  *to = *to + 3 * sum;
}
enum { MIX1, MIX2, PUT, FAULTY };
static const slip_object_kernel_t kernels[] = {
    {"mix1", mix, 0, 0, 1, 1}, {"mix2", mix, 0, 0, 2, 1}, {"put", graph_test_put, 0, 0, 1, 1}, {"faulty", graph_test_faulty, 0, 0, 1, 0}};

static slip_otensor_t part(slip_orch_t *o, slip_otensor_t t, int64_t start, int64_t length) {
  return slip_otensor_slice(o, t, 0, start, length);
}
static slip_task_t do_mix(slip_orch_t *o, slip_otensor_t *from, slip_otensor_t to, uint64_t scalar, uint32_t blocks) {
  slip_task_builder_t task;
  slip_task_begin(&task, from ? MIX2 : MIX1, blocks);
  if (from) slip_task_in(&task, from);
  slip_task_inout(&task, &to);
  slip_task_scalar(&task, scalar);
  return slip_task_submit(o, &task);
}

// Scopes, intermediates that die, overlapping slices, blocks, a predicate, a join, a manual scope. Scalar 0 shapes the graph.
static void everything(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t data = args->tensors[0], other = args->tensors[1];
  int64_t rounds = (int64_t)(args->scalars[0] % 7) + 3;
  for (int64_t r = 0; r < rounds; ++r) {
    slip_scope_begin(o, SLIP_SCOPE_AUTO);
    const int64_t dims[1] = {1024 + r * 16};
    slip_otensor_t made = slip_otensor_describe(SLIP_DTYPE_I64, 1, dims);
    slip_task_builder_t task;
    slip_task_begin(&task, PUT, 1);
    slip_task_out(&task, &made);
    slip_task_scalar(&task, args->scalars[0] + (uint64_t)r);
    slip_task_submit(o, &task);
    slip_otensor_t middle = part(o, made, r * 3, 8);
    do_mix(o, &middle, part(o, data, r * 4 % 32, 8), 1, 4);
    do_mix(o, &data, part(o, other, r % 16, 4), (uint64_t)r, 1);
    slip_predicate_t predicate = {.tensor = &data, .index = r, .op = SLIP_PREDICATE_GT, .literal = 200};
    slip_task_begin(&task, MIX1, 1);
    slip_otensor_t target = part(o, other, 20, 2);
    slip_task_inout(&task, &target);
    slip_task_scalar(&task, 5);
    slip_task_if(&task, &predicate);
    slip_task_submit(o, &task);
    slip_scope_end(o);
  }
  slip_scope_begin(o, SLIP_SCOPE_MANUAL);
  slip_task_t first = do_mix(o, NULL, part(o, data, 40, 1), 3, 1), second = do_mix(o, NULL, part(o, data, 41, 1), 4, 1);
  const slip_task_t both[2] = {first, second};
  slip_task_t joined = slip_task_join(o, both, 2);
  slip_task_builder_t task;
  slip_otensor_t from = part(o, data, 40, 1), to = part(o, data, 42, 1);
  slip_task_begin(&task, MIX2, 1);
  slip_task_in(&task, &from);
  slip_task_inout(&task, &to);
  slip_task_scalar(&task, 1);
  slip_task_after(&task, joined);
  slip_task_submit(o, &task);
  slip_scope_end(o);
  do_mix(o, &to, part(o, data, 43, 1), 1, 1);
}

typedef struct call_t {
  slip_orch_fn_t orchestrate;
  slip__run_site_t *site;
  int64_t (*data)[CELLS];  // two
  uint64_t scalar;
  int64_t length;
  uint32_t flags;
} call_t;

static slip_status_t run_call(graph_test_t *test, const call_t *call) {
  const int64_t dims[1] = {call->length ? call->length : CELLS};
  slip_otensor_t tensors[2] = {graph_test_tensor(call->data[0], SLIP_DTYPE_I64, 1, dims),
                               graph_test_tensor(call->data[1], SLIP_DTYPE_I64, 1, dims)};
  slip_object_entry_t entry = {"test", call->orchestrate, 2, 1};
  slip_object_t object = {SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, &entry, kernels, 1, 4, NULL};
  slip__run_t run = {.object = &object,
                     .tensor_count = 2,
                     .tensors = tensors,
                     .scalars = &call->scalar,
                     .scalar_count = 1,
                     .flags = call->flags,
                     .site = call->site};
  return slip__engine_run(test->engine, test->workspace, &run);
}

SLIP_TEST(runs_that_come_again_are_replayed) {
  graph_test_t oracle = graph_test_open(0, 64, 1 << 20, 64);
  for (uint32_t threads = 1; threads <= 3; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 1 << 20, 256);
    slip__run_site_t site = {.id = threads};
    static int64_t data[4][2][CELLS], expected[2][CELLS];
    for (int round = 0; round < 150; ++round) {
      int set = round % 4;  // other addresses each time
      for (int i = 0; i < CELLS; ++i) expected[0][i] = data[set][0][i] = round + i, expected[1][i] = data[set][1][i] = round * i;
      uint64_t scalar = (uint64_t)(round / 2 % 3);  // three contracts
      call_t call = {.orchestrate = everything, .site = &site, .data = data[set], .scalar = scalar};
      call_t serial = {.orchestrate = everything, .data = expected, .scalar = scalar};
      uint64_t before = slip__workspace_task_count(test.workspace), serial_before = slip__workspace_task_count(oracle.workspace);
      SLIP_CHECK_OK(run_call(&test, &call));
      SLIP_CHECK_OK(run_call(&oracle, &serial));
      SLIP_CHECK(memcmp(data[set], expected, sizeof(expected)) == 0);
      SLIP_CHECK_EQ(slip__workspace_task_count(test.workspace) - before, slip__workspace_task_count(oracle.workspace) - serial_before);
    }
    slip__record_stats_t stats = slip__record_stats(test.engine);
    SLIP_CHECK_EQ(stats.recorded, 3);
    SLIP_CHECK_EQ(stats.refused, 0);
    SLIP_CHECK_EQ(slip__record_replays(test.workspace), 150 - 1 - 3 * 3);  // once unknown; each contract seen, recorded, compared
    graph_test_close(&test);
  }
  graph_test_close(&oracle);
}

static int64_t calls;
static void fickle(slip_orch_t *o, const slip_oargs_t *args) {
  ++calls;
  for (int64_t i = 0; i < 8; ++i) do_mix(o, NULL, part(o, args->tensors[0], (i * calls) % CELLS, 1), 1, 1);
}
static void nosy(slip_orch_t *o, const slip_oargs_t *args) {
  for (int64_t i = 0; i < 8; ++i) do_mix(o, NULL, part(o, args->tensors[0], i, 1), 1, 1);
  uint64_t value = o->api->read_element(o, &args->tensors[0], 3);
  do_mix(o, NULL, part(o, args->tensors[0], (int64_t)(value % 8), 1), 1, 1);
}
SLIP_TEST(what_must_not_be_replayed_is_not) {
  graph_test_t test = graph_test_open(2, 64, 1 << 20, 64);
  static int64_t data[2][CELLS];
  slip__run_site_t sites[2] = {{.id = 1}, {.id = 2}};
  for (int round = 0; round < 10; ++round) {
    call_t call = {.orchestrate = fickle, .site = &sites[0], .data = data};
    SLIP_CHECK_OK(run_call(&test, &call));
    SLIP_CHECK_EQ(calls, round + 1);
  }
  SLIP_CHECK_STR(slip__record_stats(test.engine).reason, "two runs with the same arguments submitted different tasks");
  int64_t expected = data[0][3];
  for (int round = 0; round < 10; ++round) {
    call_t call = {.orchestrate = nosy, .site = &sites[1], .data = data, .flags = SLIP__RUN_PROGRAM};
    SLIP_CHECK_OK(run_call(&test, &call));
  }
  SLIP_CHECK(data[0][3] >= expected + 30);
  SLIP_CHECK_STR(slip__record_stats(test.engine).reason, "it looks at tensor data");
  SLIP_CHECK_EQ(slip__record_stats(test.engine).refused, 2);
  SLIP_CHECK_EQ(slip__record_replays(test.workspace), 0);
  graph_test_close(&test);
}

// Fails in the orchestration if |scalar| is 9, in a kernel if the first element is 77.
static void failing(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  for (int i = 0; i < 8; ++i) {
    slip_otensor_t cell = part(o, args->tensors[0], 0, 1);
    slip_task_begin(&task, FAULTY, 1);
    slip_task_inout(&task, &cell);
    slip_task_submit(o, &task);
  }
  if (args->scalars[0] == 9) slip_orch_fail(o, 1, "nine");
}
SLIP_TEST(failures_of_replays_are_failures_of_runs_and_leave_nothing) {
  graph_test_t test = graph_test_open(2, 64, 1 << 20, 64);
  static int64_t data[2][CELLS];
  slip__run_site_t site = {.id = 1};
  for (int round = 0; round < 300; ++round) {
    bool faults = round % 10 == 7, fails = round % 10 == 3;
    data[0][0] = faults ? 77 - round % 8 : 1000;
    call_t call = {.orchestrate = failing, .site = &site, .data = data, .scalar = fails ? 9 : 1};
    slip_status_t status = run_call(&test, &call);
    if (fails) {
      SLIP_CHECK_ERROR(status, SLIP_CODE_GRAPH_USER_FAIL, "nine");
    } else if (faults) {
      SLIP_CHECK_ERROR(status, SLIP_CODE_GRAPH_KERNEL_FAULT, "faulty");
      SLIP_CHECK_EQ(data[0][0], 78);  // the kernel itself counts on; the tasks behind it do not run
    } else {
      uint64_t before = slip__workspace_task_count(test.workspace);
      SLIP_CHECK_OK(status);
      SLIP_CHECK_EQ(data[0][0], 1008);
      SLIP_CHECK_OK(run_call(&test, &call));
      SLIP_CHECK_EQ(slip__workspace_task_count(test.workspace) - before, 8);
    }
  }
  SLIP_CHECK(slip__record_replays(test.workspace) > 400);
  graph_test_close(&test);
}

static void simple(slip_orch_t *o, const slip_oargs_t *args) {
  for (int64_t i = 0; i < 8; ++i) do_mix(o, NULL, part(o, args->tensors[0], i, 1), args->scalars[0], 1);
}
SLIP_TEST(recordings_are_bounded_in_number) {
  graph_test_t test = graph_test_open(2, 64, 1 << 20, 64);
  static int64_t data[2][CELLS];
  slip__run_site_t site = {.id = 1};
  int64_t sum = 0;
  for (uint64_t contract = 0; contract < 2 * SLIP__RECORD_BACK_COUNT; ++contract) {
    for (int round = 0; round < 6; ++round) {
      call_t call = {.orchestrate = simple, .site = &site, .data = data, .scalar = contract};
      SLIP_CHECK_OK(run_call(&test, &call));
      sum += 3 * (int64_t)contract;
      SLIP_CHECK_EQ(data[0][7], sum);
    }
  }
  slip__record_stats_t stats = slip__record_stats(test.engine);
  SLIP_CHECK_EQ(stats.recorded, 2 * SLIP__RECORD_BACK_COUNT);
  SLIP_CHECK_EQ(stats.count, SLIP__RECORD_BACK_COUNT);
  SLIP_CHECK_EQ(stats.evicted, SLIP__RECORD_BACK_COUNT);
  SLIP_CHECK(slip__record_front_bytes(test.workspace) < (1 << 20));
  graph_test_close(&test);
}
