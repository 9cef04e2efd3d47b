// SPDX-License-Identifier: Apache-2.0
#include "graph/box.h"
#include "slip_test_graph.h"

#define STORAGES      3
#define ROWS          8
#define COLUMNS       12
#define MAX_TASKS     60  // all of them may be named as explicit dependencies
#define MAX_TENSORS   64
#define MAX_ARGUMENTS 4
#define MAX_PER_RING  12  // intermediates; keeps within the smallest heap
#define MAX_DEPTH     5

// --- The kernel ---------------------------------------------------------------------------------------------------------------------

static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x632be59bd9b4e019);
  return x ^ (x >> 31);
}

static int64_t *element(const slip_ktensor_t *t, int64_t i, int64_t j) {
  return (int64_t *)t->data + i * t->strides[0] + j * t->strides[1];
}

// Scalars: two bits an argument (0 read, 1 overwrite, 2 update), salt, length of the delay. Reads what is only read, writes its share of
// the rest.
static void stir(const slip_kargs_t *args, slip_block_t block) {
  uint64_t kinds = args->scalars[0], hash = args->scalars[1];
  for (uint64_t i = 0; i < args->scalars[2]; ++i) hash = mix(hash, 1);
  for (uint32_t a = 0; a < args->tensor_count; ++a) {
    const slip_ktensor_t *t = &args->tensors[a];
    if ((kinds >> (2 * a) & 3) != 0) continue;
    for (int64_t i = 0; i < t->dims[0]; ++i) {
      for (int64_t j = 0; j < t->dims[1]; ++j) hash = mix(hash, (uint64_t)*element(t, i, j));
    }
  }
  for (uint32_t a = 0; a < args->tensor_count; ++a) {
    const slip_ktensor_t *t = &args->tensors[a];
    uint64_t kind = kinds >> (2 * a) & 3;
    for (int64_t i = 0; kind != 0 && i < t->dims[0]; ++i) {
      for (int64_t j = 0; j < t->dims[1]; ++j) {
        uint64_t number = (uint64_t)(i * t->dims[1] + j);
        if (number % block.count != block.index) continue;
        *element(t, i, j) = (int64_t)mix(mix(hash, number), kind == 2 ? (uint64_t)*element(t, i, j) : 7);
      }
    }
  }
}

static const slip_object_kernel_t kernels[MAX_ARGUMENTS + 1] = {
    {"stir0", stir, 0, 0, 0, 3}, {"stir1", stir, 0, 64, 1, 3}, {"stir2", stir, 0, 0, 2, 3},
    {"stir3", stir, 0, 0, 3, 3}, {"stir4", stir, 0, 0, 4, 3},
};

// --- The generator ------------------------------------------------------------------------------------------------------------------

typedef struct dag_access_t {
  slip__box_t box;
  bool touches, writes;
} dag_access_t;

typedef struct dag_task_t {
  slip_task_t handle;
  uint32_t count;
  dag_access_t accesses[MAX_ARGUMENTS + 1];
} dag_task_t;

typedef struct dag_tensor_t {
  slip_otensor_t tensor;
  uint32_t depth;
  bool once;  // written by its creator only
} dag_tensor_t;

typedef struct dag_t {
  // Given.
  uint64_t seed;
  uint32_t fail_at;  // this many tasks in, the orchestration fails; 0: never
  uint32_t cores;    // for gangs: the same for all engines, so that the graph is
  // While it runs.
  uint64_t random;
  slip_orch_t *o;
  uint32_t depth, modes[MAX_DEPTH + 1];
  uint32_t allocated[4];  // intermediates of a ring's open scopes
  uint32_t tensor_count, task_count, joins;
  uint32_t submitted;
  dag_tensor_t tensors[MAX_TENSORS];
  dag_task_t tasks[MAX_TASKS];
} dag_t;

static int64_t below(dag_t *dag, int64_t n) {
  return (int64_t)(slip_test_random(&dag->random) % (uint64_t)n);
}

static uint32_t ring_of(uint32_t depth) {
  return depth < 3 ? depth : 3;
}

static slip_otensor_t random_view(dag_t *dag, slip_otensor_t t) {
  if (below(dag, 3) == 0) return t;
  for (uint32_t axis = 0; axis < 2; ++axis) {
    if (below(dag, 3) == 0) continue;
    int64_t tile = below(dag, 2) ? 2 : 1 + below(dag, t.view.dims[axis]);
    if (tile > t.view.dims[axis]) tile = t.view.dims[axis];
    int64_t start = below(dag, 2) ? below(dag, t.view.dims[axis] / tile) * tile : below(dag, t.view.dims[axis] - tile + 1);
    t = slip_otensor_slice(dag->o, t, axis, start, tile);
    if (below(dag, 40) == 0) t.view.dims[axis] = 0;
    if (t.view.dims[axis] > 2 && below(dag, 8) == 0) {  // every second
      t.view.dims[axis] /= 2;
      t.view.strides[axis] *= 2;
    }
    if (t.view.dims[axis] == 0) break;
  }
  return below(dag, 6) == 0 ? slip_otensor_transpose(dag->o, t, 0, 1) : t;
}

static dag_access_t access_of(const slip_otensor_t *tensor, bool writes) {
  dag_access_t access = {.writes = writes};
  access.touches = slip__box_from_view(&tensor->view, &access.box);
  return access;
}

static bool conflict(const dag_access_t *a, const dag_access_t *b) {
  return a->touches && b->touches && (a->writes || b->writes) && slip__box_overlaps(&a->box, &b->box);
}

// In a manual scope: every earlier task that the new one conflicts with, by name or through a join.
static void explicit_dependencies(dag_t *dag, slip_task_builder_t *builder, const dag_task_t *task) {
  slip_task_t deps[MAX_TASKS];
  uint32_t count = 0;
  for (uint32_t i = 0; i < dag->task_count; ++i) {
    bool found = false;
    for (uint32_t a = 0; a < task->count; ++a) {
      for (uint32_t b = 0; b < dag->tasks[i].count; ++b) found = found || conflict(&task->accesses[a], &dag->tasks[i].accesses[b]);
    }
    if (found) deps[count++] = dag->tasks[i].handle;
  }
  if (count > 1 && below(dag, 2)) {
    slip_task_after(builder, dag->o->api->join(dag->o, deps, count));
  } else {
    for (uint32_t i = 0; i < count; ++i) slip_task_after(builder, deps[i]);
  }
}

static slip_otensor_t describe(dag_t *dag) {
  int64_t dims[2] = {1 + below(dag, 4), 1 + below(dag, 8)};
  return slip_otensor_describe(SLIP_DTYPE_I64, 2, dims);
}

static bool may_allocate(const dag_t *dag) {
  return dag->allocated[ring_of(dag->depth)] < MAX_PER_RING && dag->tensor_count < MAX_TENSORS;
}

static void keep(dag_t *dag, slip_otensor_t tensor, bool once) {
  dag->tensors[dag->tensor_count++] = (dag_tensor_t){tensor, dag->depth, once};
}

static void submit(dag_t *dag, slip_task_builder_t *builder, dag_task_t *task, uint64_t kinds, bool with_output) {
  slip_otensor_t flag;
  slip_predicate_t predicate = {.tensor = &flag};
  slip_task_scalar(builder, kinds);
  slip_task_scalar(builder, (uint64_t)dag->submitted + 1);
  slip_task_scalar(builder, below(dag, 4) == 0 ? (uint64_t)below(dag, 3000) : (uint64_t)below(dag, 50));
  if (!with_output && below(dag, 5) == 0) {
    flag = dag->tensors[below(dag, dag->tensor_count)].tensor;
    predicate.index = below(dag, flag.view.dims[0] * flag.view.dims[1]);
    predicate.op = 1 + (uint32_t)below(dag, 6);
    builder->submit.predicate = &predicate;
    slip_otensor_t all = flag;  // the whole tensor: more than the one element, so that the dependency is there
    task->accesses[task->count++] = access_of(&all, false);
  }
  if (dag->modes[dag->depth] == SLIP_SCOPE_MANUAL)
    explicit_dependencies(dag, builder, task);
  else if (dag->task_count && below(dag, 8) == 0)
    slip_task_after(builder, dag->tasks[below(dag, dag->task_count)].handle);
  if (below(dag, 12) == 0) builder->submit.block_count = 1 + (uint32_t)below(dag, 40);
  if (below(dag, 25) == 0) {
    builder->submit.block_count = 1 + (uint32_t)below(dag, dag->cores);
    if (dag->o->api->available_cores(dag->o, SLIP_CORE_ANY) >= dag->cores) builder->submit.flags = SLIP_SUBMIT_GANG;
  }
  task->handle = slip_task_submit(dag->o, builder);
  ++dag->submitted;
  if (dag->fail_at == dag->submitted) slip_orch_fail(dag->o, 77, "on purpose");
}

static void random_task(dag_t *dag) {
  slip_task_builder_t builder;
  slip_otensor_t views[MAX_ARGUMENTS];
  dag_task_t *task = &dag->tasks[dag->task_count];
  uint32_t count = (uint32_t)below(dag, MAX_ARGUMENTS) + 1, used = 0;
  uint64_t kinds = 0;
  slip_otensor_t out = describe(dag);
  bool with_output = may_allocate(dag) && below(dag, 4) == 0;
  task->count = 0;
  slip_task_begin(&builder, 0, 1);
  for (uint32_t i = 0; i < count; ++i) {
    const dag_tensor_t *from = &dag->tensors[below(dag, dag->tensor_count)];
    bool writes = !from->once && below(dag, 2),
         no_dep = from->once && from->tensor.creator && dag->modes[dag->depth] == SLIP_SCOPE_AUTO && below(dag, 2);
    views[used] = random_view(dag, from->tensor);
    dag_access_t access = access_of(&views[used], writes);
    bool clash = false;  // blocks of one task must not race with each other
    for (uint32_t j = 0; j < task->count; ++j) clash = clash || conflict(&access, &task->accesses[j]);
    if (clash) continue;
    uint64_t kind = writes ? 1 + (uint64_t)below(dag, 2) : 0;
    slip_task_tensor(&builder,
                     no_dep      ? SLIP_ACCESS_NO_DEP
                     : kind == 0 ? SLIP_ACCESS_IN
                     : kind == 1 ? SLIP_ACCESS_OUT_EXISTING
                                 : SLIP_ACCESS_INOUT,
                     &views[used]);
    kinds |= kind << (2 * used);
    ++used;
    task->accesses[task->count++] = access;
  }
  if (with_output && used < MAX_ARGUMENTS) {
    slip_task_out(&builder, &out);
    kinds |= UINT64_C(1) << (2 * used++);
  } else {
    with_output = false;
  }
  builder.submit.kernel = used;
  submit(dag, &builder, task, kinds, with_output);
  ++dag->task_count;
  if (!with_output) return;
  task->accesses[task->count++] = access_of(&out, true);
  ++dag->allocated[ring_of(dag->depth)];
  keep(dag, out, below(dag, 2) != 0);
}

// An intermediate by create(), and the task that gives it its first values.
static void random_create(dag_t *dag) {
  slip_task_builder_t builder;
  dag_task_t *task = &dag->tasks[dag->task_count];
  slip_otensor_t tensor = describe(dag);
  dag->o->api->create(dag->o, &tensor);
  ++dag->allocated[ring_of(dag->depth)];
  slip_task_begin(&builder, 1, 1);
  slip_task_out_existing(&builder, &tensor);
  task->count = 0;
  task->accesses[task->count++] = access_of(&tensor, true);
  submit(dag, &builder, task, 1, true);
  ++dag->task_count;
  keep(dag, tensor, false);
}

static void begin(dag_t *dag) {
  uint32_t mode = below(dag, 4) == 0 ? SLIP_SCOPE_MANUAL : SLIP_SCOPE_AUTO;
  slip_scope_begin(dag->o, mode);
  dag->modes[++dag->depth] = mode;
  if (dag->depth <= 3) dag->allocated[dag->depth] = 0;
}

static void end(dag_t *dag) {
  slip_scope_end(dag->o);
  while (dag->tensor_count && dag->tensors[dag->tensor_count - 1].depth == dag->depth) --dag->tensor_count;
  --dag->depth;
}

static void orchestrate(slip_orch_t *o, const slip_oargs_t *args) {
  dag_t *dag = graph_test_user(args);
  dag->random = dag->seed;
  dag->o = o;
  dag->depth = dag->tensor_count = dag->task_count = dag->submitted = 0;
  dag->modes[0] = SLIP_SCOPE_AUTO;
  memset(dag->allocated, 0, sizeof(dag->allocated));
  for (uint32_t i = 0; i < args->tensor_count; ++i) keep(dag, args->tensors[i], false);
  uint32_t steps = 5 + (uint32_t)below(dag, MAX_TASKS - 5);
  for (uint32_t step = 0; step < steps && !o->api->failed(o); ++step) {
    int64_t what = below(dag, 20);
    if (what == 0 && dag->depth < MAX_DEPTH) {
      begin(dag);
    } else if (what == 1 && dag->depth > 0) {
      end(dag);
    } else if (what == 2 && may_allocate(dag)) {
      random_create(dag);
    } else {
      random_task(dag);
    }
  }
  while (dag->depth) end(dag);
}

// --- The comparison -----------------------------------------------------------------------------------------------------------------

typedef struct data_t {
  int64_t values[STORAGES][ROWS * COLUMNS];
} data_t;

static void fill(data_t *data, uint64_t seed) {
  for (int s = 0; s < STORAGES; ++s) {
    for (int i = 0; i < ROWS * COLUMNS; ++i) data->values[s][i] = (int64_t)mix(seed, (uint64_t)(s * 1000 + i)) % 3;
  }
}

static slip_status_t run(graph_test_t *test, dag_t *dag, data_t *data) {
  const int64_t dims[2] = {ROWS, COLUMNS};
  slip_otensor_t tensors[STORAGES];
  for (int s = 0; s < STORAGES; ++s) tensors[s] = graph_test_tensor(data->values[s], SLIP_DTYPE_I64, 2, dims);
  return graph_test_run(test, kernels, MAX_ARGUMENTS + 1, orchestrate, tensors, STORAGES, dag, 0);
}

typedef struct engines_t {
  slip__engine_t *serial, *threaded[3];
} engines_t;

static graph_test_t with_workspace(slip__engine_t *engine, uint64_t seed) {
  static const uint32_t windows[4] = {4, 8, 32, 1024}, pools[4] = {8, 12, 64, 4096};
  graph_test_t test = {.engine = engine};
  slip__workspace_options_t options = graph_test_options(windows[seed >> 8 & 3], seed >> 12 & 1 ? 8192 : 1 << 20, pools[seed >> 16 & 3]);
  SLIP_CHECK_OK(slip__workspace_create(engine, &options, &test.workspace));
  return test;
}

static bool one_dag(const engines_t *engines, uint64_t seed, bool complain) {
  static dag_t dag;
  static data_t expected, actual;
  uint64_t state = seed;
  uint64_t config = slip_test_random(&state);
  dag.seed = slip_test_random(&state);
  dag.cores = 2;
  dag.fail_at = 0;
  graph_test_t serial = with_workspace(engines->serial, config), test = with_workspace(engines->threaded[config % 3], config);
  fill(&expected, seed);
  SLIP_CHECK_OK(run(&serial, &dag, &expected));
  uint64_t tasks = slip__workspace_task_count(serial.workspace);
  bool same = true;
  for (int round = 0; round < 2 && same; ++round) {
    if (dag.submitted > 1 && (config >> 20 & 3) == 0) {  // a failed run in between leaves nothing behind
      fill(&actual, seed);
      dag.fail_at = 1 + (uint32_t)(config >> 32) % dag.submitted;
      SLIP_CHECK_CODE(run(&test, &dag, &actual), SLIP_CODE_GRAPH_USER_FAIL);
      dag.fail_at = 0;
    }
    uint64_t before = slip__workspace_task_count(test.workspace);
    fill(&actual, seed);
    slip_status_t status = run(&test, &dag, &actual);
    if (!slip_status_is_ok(status)) {
      char text[1024];
      (void)slip_status_format(status, text, sizeof(text));
      slip_test_fail(__FILE__, __LINE__, "SLIP_DAG_SEED=%llu: %s", (unsigned long long)seed, text);
    }
    same = memcmp(&expected, &actual, sizeof(expected)) == 0 && slip__workspace_task_count(test.workspace) - before == tasks;
    if (!same && complain) {
      printf("# SLIP_DAG_SEED=%llu: bytes %s, %llu tasks ran, expected %llu\n", (unsigned long long)seed,
             memcmp(&expected, &actual, sizeof(expected)) ? "differ" : "agree",
             (unsigned long long)(slip__workspace_task_count(test.workspace) - before), (unsigned long long)tasks);
    }
  }
  slip__workspace_destroy(serial.workspace);
  slip__workspace_destroy(test.workspace);
  return same;
}

static unsigned long long environment(const char *name, unsigned long long otherwise) {
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

SLIP_TEST_TIMEOUT(random_graphs_agree_with_the_serial_oracle, 3500) {
  engines_t engines;
  slip__engine_options_t options = {.serial = 1, .scratch_bytes = 256};
  SLIP_CHECK_OK(slip__engine_create(&options, &engines.serial));
  for (uint32_t i = 0; i < 3; ++i) {
    options = (slip__engine_options_t){.thread_count = i + 2, .scratch_bytes = 256};
    SLIP_CHECK_OK(slip__engine_create(&options, &engines.threaded[i]));
  }
  unsigned long long count = environment("SLIP_DAGS", 2000), errors = 0, first = environment("SLIP_DAG_SEED", slip_test_seed());
  if (getenv("SLIP_DAG_SEED") && !getenv("SLIP_DAGS")) count = 1;
  for (unsigned long long i = 0; i < count; ++i) errors += !one_dag(&engines, first + i, errors < 10);
  slip__engine_destroy(engines.serial);
  for (uint32_t i = 0; i < 3; ++i) slip__engine_destroy(engines.threaded[i]);
  printf("RESULT dags=%llu errors=%llu\n", count, errors);
  SLIP_CHECK_EQ(errors, 0);
}
