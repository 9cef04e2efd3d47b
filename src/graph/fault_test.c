// SPDX-License-Identifier: Apache-2.0
// Each fault: its exact code, what its message names, and a next run that executes exactly its own tasks.
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "graph/workspace.h"
#include "slip_test_graph.h"
#include "slip_test_allocator.h"

static _Atomic uint64_t ran;
static void add(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  atomic_fetch_add(&ran, 1);
  *(int64_t *)args->tensors[0].data += 1;
}
static void many(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
}
static const slip_object_kernel_t kernels[] = {{"add", add, 0, 0, 1, 0}, {"many", many, 0, 0, 32, 0}};
enum { ADD, MANY };

static slip_task_t add_to(slip_orch_t *o, slip_otensor_t t) {
  slip_task_builder_t task;
  slip_task_begin(&task, ADD, 1);
  slip_task_inout(&task, &t);
  return slip_task_submit(o, &task);
}

static void good(slip_orch_t *o, const slip_oargs_t *args) {
  for (int i = 0; i < 10; ++i) add_to(o, args->tensors[0]);
}

// Runs |orchestrate|, then the good one, on engines of 1 to 3 threads; each several times, since a leftover may need a second run to show.
static void expect(slip_orch_fn_t orchestrate, uint32_t flags, slip_code_t code, const char *part) {
  const int64_t dims[1] = {4};
  for (uint32_t threads = 1; threads <= 3; ++threads) {
    graph_test_t test = graph_test_open(threads, 8, 4096, 4);
    for (int round = 0; round < 20; ++round) {
      int64_t data[4] = {0};
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
      slip_status_t status = graph_test_run(&test, kernels, 2, orchestrate, &tensor, 1, NULL, flags);
      if (threads == 1 && code == SLIP_CODE_GRAPH_DEPENDENCY_POOL) {
        SLIP_CHECK_OK(status);  // a single thread needs no dependencies
      } else {
        SLIP_CHECK_ERROR(status, code, part);
      }
      for (int i = 0; i < SLIP__RING_COUNT; ++i) {
        const slip__ring_t *ring = &test.workspace->rings[i];
        SLIP_CHECK(ring->slot_high <= ring->mask + 1);
        SLIP_CHECK(ring->block_high <= ring->slot_high);  // a block that is lost is lost for ever
      }
      uint64_t before = slip__workspace_task_count(test.workspace);
      data[0] = 0;
      atomic_store(&ran, 0);
      SLIP_CHECK_OK(graph_test_run(&test, kernels, 2, good, &tensor, 1, NULL, 0));
      SLIP_CHECK_EQ(data[0], 10);
      SLIP_CHECK_EQ(atomic_load(&ran), 10);
      SLIP_CHECK_EQ(slip__workspace_task_count(test.workspace) - before, 10);
    }
    graph_test_close(&test);
  }
}

#define FAULT(name, flags, code, part, ...)                           \
  static void name##_body(slip_orch_t *o, const slip_oargs_t *args) { \
    slip_task_builder_t task;                                         \
    slip_otensor_t t = args->tensors[0];                              \
    (void)t;                                                          \
    add_to(o, t);                                                     \
    slip_task_begin(&task, ADD, 1);                                   \
    __VA_ARGS__                                                       \
    for (int after = 0; after < 3; ++after) add_to(o, t);             \
  }                                                                   \
  SLIP_TEST(name) {                                                   \
    expect(name##_body, (flags), SLIP_CODE_##code, (part));           \
  }

// A refused task with more tensors than a slot holds had taken an argument block. There are as many as the window has slots; the harness's
// rounds are more.
FAULT(last_of_many_tensors, 0, GRAPH_INVALID_TASK, "tensor 31 reaches outside its storage", slip_otensor_t outside = t;
      outside.view.dims[0] = 5; slip_task_begin(&task, MANY, 1); for (int i = 0; i < 31; ++i) slip_task_in(&task, &t);
      slip_task_in(&task, &outside); slip_task_submit(o, &task);)
FAULT(last_of_many_outputs, 0, GRAPH_HEAP_EXHAUSTED, "an output of 8000 bytes", const int64_t dims[1] = {1000};
      slip_otensor_t large = slip_otensor_describe(SLIP_DTYPE_I64, 1, dims); slip_task_begin(&task, MANY, 1);
      for (int i = 0; i < 31; ++i) slip_task_in(&task, &t); slip_task_out(&task, &large); slip_task_submit(o, &task);)
FAULT(unknown_kernel, 0, GRAPH_INVALID_TASK, "kernel 9 does not exist", slip_task_inout(&task, &t); task.submit.kernel = 9;
      slip_task_submit(o, &task);)
FAULT(missing_tensor, 0, GRAPH_INVALID_TASK, "0 tensors and 0 scalars were given, the kernel declares 1 and 0", slip_task_submit(o, &task);)
FAULT(null_tensor, 0, GRAPH_INVALID_TASK, "tensor 0 is NULL", slip_task_inout(&task, NULL); slip_task_submit(o, &task);)
FAULT(unknown_access, 0, GRAPH_INVALID_TASK, "access 6", slip_task_tensor(&task, 6, &t); slip_task_submit(o, &task);)
FAULT(unknown_dtype, 0, GRAPH_INVALID_TASK, "dtype 99", t.view.dtype = 99; slip_task_inout(&task, &t); slip_task_submit(o, &task);
      t.view.dtype = SLIP_DTYPE_I64;)
FAULT(negative_dimension, 0, GRAPH_INVALID_TASK, "dimension 0 of -1", t.view.dims[0] = -1; slip_task_inout(&task, &t);
      slip_task_submit(o, &task);)
FAULT(view_outside_storage, 0, GRAPH_INVALID_TASK, "outside its storage of 32 bytes", t.view.dims[0] = 5; slip_task_inout(&task, &t);
      slip_task_submit(o, &task);)
FAULT(view_before_storage, 0, GRAPH_INVALID_TASK, "outside its storage", t.view.strides[0] = -1; slip_task_inout(&task, &t);
      slip_task_submit(o, &task);)
FAULT(huge_view, 0, GRAPH_INVALID_TASK, "outside its storage", t.view.dims[0] = INT64_MAX; slip_task_inout(&task, &t);
      slip_task_submit(o, &task);)
FAULT(huge_output, 0, GRAPH_INVALID_TASK, "output tensor 0", t.view.dims[0] = INT64_MAX; slip_task_out(&task, &t);
      slip_task_submit(o, &task);)
FAULT(short_struct, 0, GRAPH_INVALID_TASK, "struct_size 8", slip_task_inout(&task, &t); task.submit.struct_size = 8;
      slip_task_submit(o, &task);)
FAULT(unknown_flag, 0, GRAPH_INVALID_TASK, "flags 0x80", slip_task_inout(&task, &t); task.submit.flags = 0x80; slip_task_submit(o, &task);)
FAULT(unknown_dependency, 0, GRAPH_INVALID_TASK, "has not submitted", slip_task_inout(&task, &t); slip_task_after(&task, 4000);
      slip_task_submit(o, &task);)
FAULT(too_many_dependencies, 0, GRAPH_TOO_MANY_DEPENDENCIES, "70 explicit dependencies", slip_task_inout(&task, &t);
      for (int i = 0; i < 70; ++i) slip_task_after(&task, 0); slip_task_submit(o, &task);)
FAULT(too_many_joined, 0, GRAPH_TOO_MANY_DEPENDENCIES, "65 dependencies", slip_task_t deps[65] = {0}; o->api->join(o, deps, 65);)
FAULT(gang_too_large, 0, GRAPH_GANG_TOO_LARGE, "a gang of 4 blocks", slip_task_inout(&task, &t); task.submit.block_count = 4;
      task.submit.flags = SLIP_SUBMIT_GANG; slip_task_submit(o, &task);)
FAULT(absurd_blocks, 0, GRAPH_INVALID_TASK, "4000000000 blocks, at most 16777216 (SLIP_TASK_MAX_BLOCKS)", slip_task_inout(&task, &t);
      task.submit.block_count = 4000000000u; slip_task_submit(o, &task);)
FAULT(one_block_too_many, 0, GRAPH_INVALID_TASK, "16777217 blocks", slip_task_inout(&task, &t); task.submit.block_count = 16777217;
      slip_task_submit(o, &task);)
FAULT(user_fail, 0, GRAPH_USER_FAIL, "code -42: no more ideas", slip_orch_fail(o, -42, "no more ideas");)
FAULT(scope_end_too_many, 0, GRAPH_INVALID_TASK, "without a scope_begin", slip_scope_end(o);)
FAULT(scope_left_open, 0, GRAPH_INVALID_TASK, "1 scopes still open", slip_scope_begin(o, SLIP_SCOPE_AUTO);)
FAULT(scope_mode, 0, GRAPH_INVALID_TASK, "mode 7", slip_scope_begin(o, 7);)
FAULT(slice_out_of_range, 0, GRAPH_USER_FAIL, "slice of 2 elements from 3 leaves dimension 0, which has 4",
      slip_otensor_slice(o, t, 0, 3, 2);)
FAULT(create_of_nothing, 0, GRAPH_INVALID_TASK, "create() was given NULL", o->api->create(o, NULL);)
FAULT(element_of_a_launch, 0, UNSUPPORTED, "read_element() is for PROGRAM callables", o->api->read_element(o, &t, 0);)
FAULT(element_outside, SLIP__RUN_PROGRAM, GRAPH_INVALID_TASK, "element 4 of a tensor of 4", o->api->write_element(o, &t, 4, 1);)
FAULT(predicate_index, 0, GRAPH_PREDICATE_UNREADABLE, "element 4 of 4",
      slip_predicate_t p = {.tensor = &t, .index = 4, .op = SLIP_PREDICATE_EQ};
      slip_task_inout(&task, &t); task.submit.predicate = &p; slip_task_submit(o, &task);)
FAULT(predicate_dtype, 0, GRAPH_PREDICATE_UNREADABLE, "integer or bool", slip_otensor_t f = t; f.view.dtype = SLIP_DTYPE_F64;
      slip_predicate_t p = {.tensor = &f, .op = SLIP_PREDICATE_EQ}; slip_task_inout(&task, &t); task.submit.predicate = &p;
      slip_task_submit(o, &task);)
FAULT(predicate_op, 0, GRAPH_INVALID_TASK, "op 0", slip_predicate_t p = {.tensor = &t}; slip_task_inout(&task, &t);
      task.submit.predicate = &p; slip_task_submit(o, &task);)
FAULT(stale_tensor, 0, GRAPH_STALE_TENSOR, "scope of depth 1 that has ended", const int64_t dims[1] = {4};
      slip_scope_begin(o, SLIP_SCOPE_AUTO); slip_otensor_t inner = slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims); add_to(o, inner);
      slip_scope_end(o); add_to(o, inner);)
FAULT(stale_tensor_of_a_sibling_scope, 0, GRAPH_STALE_TENSOR, "has ended", const int64_t dims[1] = {4};
      slip_scope_begin(o, SLIP_SCOPE_AUTO); slip_otensor_t inner = slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims); slip_scope_end(o);
      slip_scope_begin(o, SLIP_SCOPE_AUTO); add_to(o, inner); slip_scope_end(o);)
FAULT(too_large_for_the_heap, 0, GRAPH_HEAP_EXHAUSTED, "raise heap_bytes[1]", const int64_t dims[1] = {513};
      slip_scope_begin(o, SLIP_SCOPE_AUTO); slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims); slip_scope_end(o);)
FAULT(heap_held_by_the_open_scope, 0, GRAPH_SCOPE_DEADLOCK, "end scopes sooner or raise heap_bytes[2]", const int64_t dims[1] = {200};
      slip_scope_begin(o, SLIP_SCOPE_AUTO); slip_scope_begin(o, SLIP_SCOPE_AUTO);
      for (int i = 0; i < 3; ++i) add_to(o, slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims)); slip_scope_end(o); slip_scope_end(o);)
// 32 slices of one byte are more regions than four pools of four hold.
FAULT(
    dependency_pool, 0, GRAPH_DEPENDENCY_POOL, "raise dependency_pool[0]", slip_otensor_t bytes[32]; slip_task_begin(&task, MANY, 1);
    for (int i = 0; i < 32; ++i) {
      bytes[i] = t;
      bytes[i].view.dtype = SLIP_DTYPE_U8;
      bytes[i].view.dims[0] = 1;
      bytes[i].view.data = (char *)t.view.data + i;
      slip_task_in(&task, &bytes[i]);
    } slip_task_submit(o, &task);)

// What is seen structurally, on each ring; depth 4 shares ring 3. The scopes' depth is the run's scalar.
static uint32_t ring_depth(slip_orch_t *o, const slip_oargs_t *args) {
  uint32_t depth = (uint32_t)args->scalars[0];
  for (uint32_t i = 0; i < depth; ++i) slip_scope_begin(o, SLIP_SCOPE_AUTO);
  for (int i = 0; i < 5; ++i) add_to(o, args->tensors[0]);
  return depth;
}
static void ring_end(slip_orch_t *o, uint32_t depth) {
  for (uint32_t i = 0; i < depth; ++i) slip_scope_end(o);
}
static void ring_deadlock(slip_orch_t *o, const slip_oargs_t *args) {
  const int64_t dims[1] = {200};
  uint32_t depth = ring_depth(o, args);
  for (int i = 0; i < 3; ++i) {  // a scope deeper than the ring's first one frees nothing of it
    if (depth > 3) slip_scope_begin(o, SLIP_SCOPE_AUTO);
    add_to(o, slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims));
    if (depth > 3) slip_scope_end(o);
  }
  ring_end(o, depth);
}
static void ring_too_large(slip_orch_t *o, const slip_oargs_t *args) {
  const int64_t dims[1] = {513};
  uint32_t depth = ring_depth(o, args);
  slip_task_builder_t task;
  slip_otensor_t t = slip_otensor_describe(SLIP_DTYPE_I64, 1, dims);
  slip_task_begin_at(&task, ADD, 1, "ring.c", 9);
  slip_task_out(&task, &t);
  slip_task_submit(o, &task);
  ring_end(o, depth);
}
static void ring_pool(slip_orch_t *o, const slip_oargs_t *args) {
  uint32_t depth = ring_depth(o, args);
  slip_otensor_t bytes[32], t = args->tensors[0];
  slip_task_builder_t task;
  slip_task_begin_at(&task, MANY, 1, "ring.c", 10);
  for (int i = 0; i < 32; ++i) {
    bytes[i] = t;
    bytes[i].view.dtype = SLIP_DTYPE_U8;
    bytes[i].view.dims[0] = 1;
    bytes[i].view.data = (char *)t.view.data + i;
    slip_task_in(&task, &bytes[i]);
  }
  slip_task_submit(o, &task);
  slip_task_submit(o, &task);
  ring_end(o, depth);
}
// A full window and a full heap whose scopes have ended are no faults: they drain.
static void ring_drains(slip_orch_t *o, const slip_oargs_t *args) {
  const int64_t dims[1] = {200};
  uint32_t depth = ring_depth(o, args);
  for (int i = 0; i < 40; ++i) {
    slip_scope_begin(o, SLIP_SCOPE_AUTO);
    add_to(o, depth < 3 ? slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims) : args->tensors[0]);
    add_to(o, args->tensors[0]);
    slip_scope_end(o);
  }
  ring_end(o, depth);
}
SLIP_TEST_TIMEOUT(waits_that_could_never_end_are_seen_on_each_ring, 60) {
  static const struct {
    slip_orch_fn_t orchestrate;
    slip_code_t code;
    const char *what, *option, *where;
  } cases[] = {
      {ring_deadlock, SLIP_CODE_GRAPH_SCOPE_DEADLOCK, "finds heap ring %u full with ", "raise heap_bytes[%u]",
       "(add) in ring %u submitted at "},
      {ring_too_large, SLIP_CODE_GRAPH_HEAP_EXHAUSTED, "does not fit heap ring %u of 4096 bytes", "raise heap_bytes[%u]",
       "(add) in ring %u, scope depth"},
      {ring_pool, SLIP_CODE_GRAPH_DEPENDENCY_POOL, "the pool of ring %u holds", "raise dependency_pool[%u]",
       "(many) in ring %u, scope depth"},
      {ring_drains, SLIP_CODE_OK, NULL, NULL, NULL},
  };
  const int64_t dims[1] = {4};
  graph_test_t test = graph_test_open(2, 8, 4096, 4);
  for (uint32_t depth = 0; depth <= 5; ++depth) {
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
      int64_t data[4] = {0};
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
      slip_status_t status = graph_test_run(&test, kernels, 2, cases[i].orchestrate, &tensor, 1, (void *)(uintptr_t)depth, 0);
      const char *const formats[] = {cases[i].what, cases[i].option, cases[i].where};
      char text[1024], part[96];
      (void)slip_status_format(status, text, sizeof(text));
      for (int k = 0; k < 3 && formats[k]; ++k) {
        const char *mark = strstr(formats[k], "%u");
        (void)snprintf(part, sizeof(part), "%.*s%u%s", (int)(mark - formats[k]), formats[k], depth < 3 ? depth : 3, mark + 2);
        if (!strstr(text, part)) slip_test_fail(__FILE__, __LINE__, "depth %u: \"%s\" is not in \"%s\"", depth, part, text);
      }
      if (cases[i].code == SLIP_CODE_GRAPH_SCOPE_DEADLOCK && depth > 3) {
        SLIP_CHECK(strstr(text, "lives until the scope of depth 3 ends") != NULL);
      }
      SLIP_CHECK_CODE(status, cases[i].code);
      uint64_t before = slip__workspace_task_count(test.workspace);
      data[0] = 0;
      SLIP_CHECK_OK(graph_test_run(&test, kernels, 2, good, &tensor, 1, NULL, 0));
      SLIP_CHECK_EQ(data[0], 10);
      SLIP_CHECK_EQ(slip__workspace_task_count(test.workspace) - before, 10);
    }
  }
  graph_test_close(&test);
}

// The first error is the one that counts, and everything after it is refused quietly.
static void two_errors(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t t = args->tensors[0];
  SLIP_CHECK(!o->api->failed(o));
  slip_orch_fail(o, 1, "first");
  slip_orch_fail(o, 2, "second");
  SLIP_CHECK(o->api->failed(o));
  SLIP_CHECK_EQ(add_to(o, t), 0);
  SLIP_CHECK_EQ(o->api->join(o, NULL, 0), 0);
  slip_scope_end(o);
  slip_otensor_t made = slip_otensor_describe(SLIP_DTYPE_I64, 1, t.view.dims);
  o->api->create(o, &made);
  SLIP_CHECK(made.view.data == NULL);
}
SLIP_TEST(the_first_error_is_latched) {
  expect(two_errors, 0, SLIP_CODE_GRAPH_USER_FAIL, "first");
}

// No task runs after the error, though they wait in queues.
static _Atomic int release_first;
static void wait_then_count(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
  atomic_fetch_add(&ran, 1);
  while (!atomic_load(&release_first)) (void)sched_yield();
}
static const slip_object_kernel_t waiting[] = {{"wait", wait_then_count, 0, 0, 1, 0}};
static void fail_while_running(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  for (int i = 0; i < 24; ++i) {  // one after the other; enough of them to be worth waking a worker
    slip_task_begin(&task, 0, 1);
    slip_task_inout(&task, &args->tensors[0]);
    slip_task_submit(o, &task);
  }
  while (!atomic_load(&ran)) (void)sched_yield();
  slip_orch_fail(o, 1, "while the first runs");
  atomic_store(&release_first, 1);
}
SLIP_TEST(tasks_in_flight_drain_unrun) {
  graph_test_t test = graph_test_open(2, 64, 4096, 64);
  int64_t data = 0;
  const int64_t dims[1] = {1};
  slip_otensor_t tensor = graph_test_tensor(&data, SLIP_DTYPE_I64, 1, dims);
  for (int round = 0; round < 20; ++round) {
    uint64_t before = slip__workspace_task_count(test.workspace);
    atomic_store(&ran, 0);
    atomic_store(&release_first, 0);
    SLIP_CHECK_CODE(graph_test_run(&test, waiting, 1, fail_while_running, &tensor, 1, NULL, 0), SLIP_CODE_GRAPH_USER_FAIL);
    SLIP_CHECK_EQ(atomic_load(&ran), 1);
    SLIP_CHECK_EQ(slip__workspace_task_count(test.workspace) - before, 1);
  }
  graph_test_close(&test);
}

// A tensor kept from one run to the next is not of that run.
static slip_otensor_t kept;
static void keep(slip_orch_t *o, const slip_oargs_t *args) {
  kept = slip_otensor_create(o, SLIP_DTYPE_I64, 1, args->tensors[0].view.dims);
}
static void use_kept(slip_orch_t *o, const slip_oargs_t *args) {
  (void)args;
  add_to(o, kept);
}
SLIP_TEST(a_tensor_of_an_earlier_run_is_stale) {
  graph_test_t test = graph_test_open(2, 8, 4096, 64);
  int64_t data[4];
  const int64_t dims[1] = {4};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  SLIP_CHECK_OK(graph_test_run(&test, kernels, 2, keep, &tensor, 1, NULL, 0));
  SLIP_CHECK_CODE(graph_test_run(&test, kernels, 2, use_kept, &tensor, 1, NULL, 0), SLIP_CODE_GRAPH_STALE_TENSOR);
  graph_test_close(&test);
}

SLIP_TEST(a_budget_limits_the_heap) {
  slip__engine_options_t engine_options = {.thread_count = 2};
  slip__workspace_options_t options = graph_test_options(8, 65536, 64);
  graph_test_t test;
  int64_t data[1024];
  const int64_t dims[1] = {1024};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  SLIP_CHECK_OK(slip__engine_create(&engine_options, &test.engine));
  options.budget_bytes = 512;
  SLIP_CHECK_CODE(slip__workspace_create(test.engine, &options, &test.workspace), SLIP_CODE_CAPACITY_BYTES);
  options.budget_bytes = 8191;
  SLIP_CHECK_OK(slip__workspace_create(test.engine, &options, &test.workspace));
  SLIP_CHECK_ERROR(graph_test_run(&test, kernels, 2, keep, &tensor, 1, NULL, 0), SLIP_CODE_GRAPH_HEAP_EXHAUSTED,
                   "raise workspace_budget_bytes");
  graph_test_close(&test);
}

SLIP_TEST(wrong_objects_are_refused) {
  graph_test_t test = graph_test_open(0, 8, 4096, 4);
  slip_object_entry_t entry = {"good", good, 1, 0};
  slip_object_t object = {SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, &entry, kernels, 1, 2, NULL};
  slip__run_t run = {.object = &object};
  SLIP_CHECK_ERROR(slip__engine_run(test.engine, test.workspace, &run), SLIP_CODE_INVALID_ARGUMENT, "takes 1 tensors");
  run.entry = 1;
  SLIP_CHECK_CODE(slip__engine_run(test.engine, test.workspace, &run), SLIP_CODE_INVALID_ARGUMENT);
  object.abi_version = 2;
  SLIP_CHECK_CODE(slip__engine_run(test.engine, test.workspace, &run), SLIP_CODE_INCOMPATIBLE);
  object.magic = 1;
  SLIP_CHECK_CODE(slip__engine_run(test.engine, test.workspace, &run), SLIP_CODE_INCOMPATIBLE);
  graph_test_close(&test);
  slip__workspace_options_t odd = graph_test_options(12, 4096, 4);
  slip__engine_options_t serial = {.serial = 1};
  SLIP_CHECK_OK(slip__engine_create(&serial, &test.engine));
  SLIP_CHECK_CODE(slip__workspace_create(test.engine, &odd, &test.workspace), SLIP_CODE_INVALID_ARGUMENT);
  slip__engine_destroy(test.engine);
}

static slip_status_t open_and_run(slip_allocator_t allocator, void *user) {
  (void)user;
  slip__engine_options_t options = {.thread_count = 3, .scratch_bytes = 64, .allocator = allocator};
  slip__workspace_options_t workspace_options = graph_test_options(8, 4096, 64);
  graph_test_t test = {0};
  int64_t data[4] = {0};
  const int64_t dims[1] = {4};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  slip_status_t status = slip__engine_create(&options, &test.engine);
  if (slip_status_is_ok(status)) status = slip__workspace_create(test.engine, &workspace_options, &test.workspace);
  if (slip_status_is_ok(status)) status = slip__engine_reserve_scratch(test.engine, 4096);
  if (slip_status_is_ok(status)) status = graph_test_run(&test, kernels, 2, good, &tensor, 1, NULL, 0);
  slip__workspace_destroy(test.workspace);
  slip__engine_destroy(test.engine);
  return status;
}
SLIP_TEST(every_allocation_may_fail) {
  SLIP_CHECK(slip_test_allocator_loop(open_and_run, NULL) > 5);
}
