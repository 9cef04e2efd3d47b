// SPDX-License-Identifier: Apache-2.0
// Graphs that an orchestration names: recorded, compared, replayed, and those that must not be.
#include "graph/recorded/begin.h"

#include "graph/recorded/cache.h"
#include "os/log.h"
#include "slip_test_graph.h"

#define CELLS 64
#define SETS  8

// to[i] = to[i] * 3 + from[i] + scalar, for the elements of this block
static void mix(const slip_kargs_t *args, slip_block_t block) {
  const slip_ktensor_t *from = &args->tensors[0], *to = &args->tensors[1];
  for (int64_t i = (int64_t)block.index; i < to->dims[0]; i += (int64_t)block.count) {
    int64_t *cell = (int64_t *)to->data + i * to->strides[0];
    *cell =
        (int64_t)((uint64_t)*cell * 3 + (uint64_t)((const int64_t *)from->data)[i % from->dims[0] * from->strides[0]] + args->scalars[0]);
  }
}
static void put(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *t = &args->tensors[0];
  for (int64_t i = 0; i < t->dims[0]; ++i) ((int64_t *)t->data)[i * t->strides[0]] = (int64_t)args->scalars[0] + i;
}
static void faulty(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  int64_t *cell = args->tensors[0].data;
  if (*cell == 77) slip_kernel_fault(args, 5);
  *cell += 1;
}
enum { MIX, PUT, FAULTY };
static const slip_object_kernel_t kernels[] = {{"mix", mix, 0, 0, 2, 1}, {"put", put, 0, 0, 1, 1}, {"faulty", faulty, 0, 0, 1, 0}};

static slip_otensor_t part(slip_orch_t *o, slip_otensor_t t, int64_t start, int64_t length) {
  return slip_otensor_slice(o, t, 0, start, length);
}
static void mix_begin(slip_task_builder_t *task, slip_otensor_t *from, slip_otensor_t *to, uint32_t blocks) {
  slip_task_begin(task, MIX, blocks);
  slip_task_in(task, from);
  slip_task_inout(task, to);
}
static void do_mix(slip_orch_t *o, slip_otensor_t from, slip_otensor_t to, uint64_t scalar) {
  slip_task_builder_t task;
  mix_begin(&task, &from, &to, 1);
  slip_task_scalar(&task, scalar);
  slip_task_submit(o, &task);
}

// What an orchestration of a test is to do; one run at a time.
typedef struct plan_t {
  bool plain;  // never recorded
  int round;
  int64_t (*sets)[CELLS];
} plan_t;
static plan_t plan;

static bool begin(slip_orch_t *o, uint64_t key, const slip_otensor_t *tensors, uint32_t tensor_count, const uint64_t *scalars,
                  uint32_t scalar_count) {
  return plan.plain || slip_graph_begin(o, key, tensors, tensor_count, scalars, scalar_count);
}
static void end(slip_orch_t *o) {
  if (!plan.plain) slip_graph_end(o);
}
static void scalar_from(slip_orch_t *o, slip_task_builder_t *b, const uint64_t *scalars, uint32_t index, uint64_t mul, uint64_t add) {
  if (plan.plain) {
    slip_task_scalar(b, scalars[index] * mul + add);
  } else {
    slip_task_scalar_from(o, b, index, mul, add);
  }
}

// Intermediates, scopes, blocks, a predicate, overlapping slices, a join; |kind| shapes it.
static void layer(slip_orch_t *o, uint64_t kind, slip_otensor_t in, slip_otensor_t weights, slip_otensor_t out, const uint64_t *scalars) {
  const slip_otensor_t tensors[3] = {in, weights, out};
  if (begin(o, kind, tensors, 3, scalars, 2)) {
    for (int64_t r = 0; r < 3 + (int64_t)kind; ++r) {
      slip_scope_begin(o, SLIP_SCOPE_AUTO);
      const int64_t dims[1] = {16 + 8 * r};
      slip_otensor_t made = slip_otensor_describe(SLIP_DTYPE_I64, 1, dims);
      slip_task_builder_t task;
      slip_task_begin(&task, PUT, 1);
      slip_task_out(&task, &made);
      scalar_from(o, &task, scalars, 0, 3, (uint64_t)r - 2);
      slip_task_submit(o, &task);
      slip_otensor_t some = part(o, made, r, 8), place = part(o, out, r % 4, 4);
      mix_begin(&task, &in, &some, 2);
      scalar_from(o, &task, scalars, 1, 1, 0);
      slip_task_t first = slip_task_submit(o, &task);
      mix_begin(&task, &weights, &made, 1);
      slip_task_scalar(&task, 1);
      slip_task_after(&task, slip_task_join(o, &first, 1));
      slip_task_submit(o, &task);
      slip_predicate_t predicate = {.tensor = &in, .index = 1, .op = SLIP_PREDICATE_GT, .literal = 100};
      mix_begin(&task, &made, &place, 1);
      slip_task_scalar(&task, 0);
      slip_task_if(&task, &predicate);
      slip_task_submit(o, &task);
      do_mix(o, part(o, made, 2, 4), part(o, out, (r + 2) % 4, 4), kind);
      slip_scope_end(o);
    }
  }
  end(o);
}

// A B A B A A B among tasks that produce and consume what the graphs do; one of the outputs is an intermediate of the run.
static void model(slip_orch_t *o, const slip_oargs_t *args) {
  static const uint64_t kinds[14] = {0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0};
  slip_otensor_t data = args->tensors[0], weights = args->tensors[1];
  const int64_t dims[1] = {24};
  slip_otensor_t kept = slip_otensor_describe(SLIP_DTYPE_I64, 1, dims);
  slip_task_builder_t task;
  slip_task_begin(&task, PUT, 1);
  slip_task_out(&task, &kept);
  slip_task_scalar(&task, 7);
  slip_task_submit(o, &task);
  for (int64_t i = 0; i < 14; ++i) {
    const uint64_t scalars[2] = {40 + (uint64_t)(plan.round * 5 + i), 90 + (uint64_t)(i / 3)};
    slip_otensor_t in = part(o, i % 2 ? kept : data, 8, 8), out = part(o, i % 2 ? data : kept, i % 5 * 2, 8);
    do_mix(o, part(o, weights, i, 8), in, (uint64_t)i);
    layer(o, kinds[i], in, part(o, weights, i * 3, 8), out, scalars);
    if (i % 4 != 3) do_mix(o, out, part(o, data, 30, 8), 2);
    do_mix(o, in, part(o, data, 40 + i % 3, 8), 3);
  }
  do_mix(o, kept, part(o, data, 20, 24), 1);
}

static slip_status_t run_plan(graph_test_t *test, slip_orch_fn_t orchestrate, slip__run_site_t *site, int64_t (*data)[CELLS], bool plain,
                              int round) {
  const int64_t dims[1] = {CELLS};
  slip_otensor_t tensors[2] = {graph_test_tensor(data[0], SLIP_DTYPE_I64, 1, dims), graph_test_tensor(data[1], SLIP_DTYPE_I64, 1, dims)};
  slip_object_entry_t entry = {"test", orchestrate, 2, 1};
  slip_object_t object = {SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, &entry, kernels, 1, 3, NULL};
  uint64_t scalar = (uint64_t)round;
  slip__run_t run = {
      .object = &object, .tensor_count = 2, .tensors = tensors, .scalars = &scalar, .scalar_count = 1, .flags = 0, .site = site};
  plan.plain = plain;
  plan.round = round;
  return slip__engine_run(test->engine, test->workspace, &run);
}

static void fill(int64_t (*data)[CELLS], int64_t seed) {
  for (int64_t i = 0; i < 2 * CELLS; ++i) data[i / CELLS][i % CELLS] = seed * i + i % 7;
}

SLIP_TEST(named_graphs_do_what_their_bodies_do) {
  graph_test_t oracle = graph_test_open(0, 64, 1 << 20, 128);
  for (uint32_t threads = 0; threads <= 3; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 1 << 20, 256);
    slip__run_site_t site = {.id = 5};
    static int64_t data[SETS][2][CELLS], expected[2][CELLS];
    for (int round = 0; round < 60; ++round) {
      fill(data[round % SETS], round);
      fill(expected, round);
      uint64_t before = slip__workspace_task_count(test.workspace), oracle_before = slip__workspace_task_count(oracle.workspace);
      SLIP_CHECK_OK(run_plan(&test, model, &site, data[round % SETS], false, round));
      SLIP_CHECK_OK(run_plan(&oracle, model, NULL, expected, true, round));
      SLIP_CHECK(memcmp(data[round % SETS], expected, sizeof(expected)) == 0);
      SLIP_CHECK_EQ(slip__workspace_task_count(test.workspace) - before, slip__workspace_task_count(oracle.workspace) - oracle_before);
    }
    slip__begin_stats_t stats = slip__begin_stats(test.workspace);
    SLIP_CHECK_EQ(stats.refused, 0);
    SLIP_CHECK(stats.replayed > 600);
    SLIP_CHECK(stats.bytes > 0 && slip__workspace_committed_bytes(test.workspace) > stats.bytes);
    graph_test_close(&test);
  }
  graph_test_close(&oracle);
}

// The same launch again and again: first its graphs are replayed, then all of it.
SLIP_TEST(launches_that_are_recorded_take_their_graphs_along) {
  graph_test_t test = graph_test_open(2, 64, 1 << 20, 256), oracle = graph_test_open(0, 64, 1 << 20, 128);
  slip__run_site_t site = {.id = 5};
  static int64_t data[2][CELLS], expected[2][CELLS];
  for (int call = 0; call < 30; ++call) {
    fill(data, call);
    fill(expected, call);
    SLIP_CHECK_OK(run_plan(&test, model, &site, data, false, call / 15));
    SLIP_CHECK_OK(run_plan(&oracle, model, NULL, expected, true, call / 15));
    SLIP_CHECK(memcmp(data, expected, sizeof(expected)) == 0);
  }
  SLIP_CHECK_EQ(slip__record_replays(test.workspace), 30 - 1 - 2 * 3);
  graph_test_close(&test);
  graph_test_close(&oracle);
}

// --- What must not be replayed ------------------------------------------------------------------------------------------------------

enum { TWICE_PLUS_ONE, RAW, DIFFERENCE, HALF, OTHER_TENSOR, OTHER_TASK, NESTED, EMPTY, OVERWRITTEN };
static int trick;
static int64_t bodies;

static void tricky(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t data = args->tensors[0], other = args->tensors[1], cells = part(o, data, 8, 8), from = part(o, other, 8, 8);
  slip_task_builder_t task;
  slip_otensor_t early = part(o, data, 40, 2);
  mix_begin(&task, &from, &early, 1);
  slip_task_scalar(&task, 4);
  slip_task_t before = slip_task_submit(o, &task);
  for (uint64_t i = 0; i < 12; ++i) {
    uint64_t s = 100 + (uint64_t)plan.round * 12 + (trick == HALF ? i : i / 3);
    const uint64_t scalars[2] = {s, s + 16 + (i % 6 == 5)};
    const slip_otensor_t tensors[2] = {cells, from};
    if (begin(o, 1, tensors, 2, scalars, 2)) {
      ++bodies;
      uint64_t plain = trick == TWICE_PLUS_ONE ? 2 * s + 1
                       : trick == RAW          ? s
                       : trick == DIFFERENCE   ? scalars[1] - scalars[0]
                       : trick == HALF         ? s / 2
                                               : 5;
      for (int n = 0; n < 5 && trick != EMPTY; ++n) {
        mix_begin(&task, trick == OTHER_TENSOR ? &other : &from, &cells, 1);
        slip_task_scalar(&task, plain);
        if (trick == OTHER_TASK) slip_task_after(&task, before);
        if (trick == OVERWRITTEN) {
          task.submit.scalar_count = 0;
          scalar_from(o, &task, scalars, 0, 1, 0);
          task.scalars[0] = 9;
        }
        slip_task_submit(o, &task);
      }
      if (trick == NESTED) {
        if (begin(o, 2, &cells, 1, scalars, 1)) {
          for (int n = 0; n < 4; ++n) {
            mix_begin(&task, &cells, &cells, 1);
            scalar_from(o, &task, scalars, 0, 5, 1);
            slip_task_submit(o, &task);
          }
        }
        end(o);
      }
    }
    end(o);
    do_mix(o, cells, part(o, data, 20, 8), i);
  }
}

static slip__begin_stats_t trick_with(int which) {
  graph_test_t oracle = graph_test_open(0, 64, 1 << 20, 128), test = graph_test_open(2, 64, 1 << 20, 256);
  slip__run_site_t site = {.id = 9};
  static int64_t data[2][CELLS], expected[2][CELLS];
  trick = which;
  for (int round = 0; round < 6; ++round) {
    fill(data, round);
    fill(expected, round);
    bodies = 0;
    SLIP_CHECK_OK(run_plan(&oracle, tricky, NULL, expected, true, round));
    bodies = 0;
    SLIP_CHECK_OK(run_plan(&test, tricky, &site, data, false, round));
    SLIP_CHECK(memcmp(data, expected, sizeof(expected)) == 0);
  }
  slip__begin_stats_t stats = slip__begin_stats(test.workspace);
  graph_test_close(&test);
  graph_test_close(&oracle);
  return stats;
}

SLIP_TEST(what_scalars_leave_in_a_graph_is_never_baked) {
  static const struct {
    int trick;
    const char *reason;
  } cases[] = {
      {TWICE_PLUS_ONE, "two calls with the same contract submitted different tasks"},
      {RAW, "a task's plain scalar has the value of a boundary scalar; pass it by slip_task_scalar_from()"},
      {DIFFERENCE, "two calls with the same contract submitted different tasks"},
      {HALF, "two calls with the same contract submitted different tasks"},
      {OTHER_TENSOR, "it uses a tensor that is neither the graph's nor made in it"},
      {OTHER_TASK,
       "a task in it depends by name on one from before it (slip_task_after(), slip_task_join()), whose place no replay knows; submit both "
       "in "
       "it, or let their tensors say the order"},
      {EMPTY, "it has no tasks"},
      {OVERWRITTEN, "a derived scalar was changed or copied before its task was submitted"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    slip__begin_stats_t stats = trick_with(cases[i].trick);
    SLIP_CHECK_EQ(stats.refused, 1);
    SLIP_CHECK_STR(stats.reason, cases[i].reason);
    SLIP_CHECK(stats.replayed <= 3);  // with the very values recorded
    SLIP_CHECK_EQ(stats.bytes, 0);
  }
}

SLIP_TEST(inner_graphs_are_replayed_where_outer_ones_cannot_be) {
  slip__begin_stats_t stats = trick_with(NESTED);
  SLIP_CHECK_STR(stats.reason, "a graph begins in it");
  SLIP_CHECK_EQ(stats.refused, 1);
  SLIP_CHECK(stats.replayed > 30);
}

// --- What is said -------------------------------------------------------------------------------------------------------------------

typedef struct lines_t {
  int count;
  char last[SLIP__LOG_LINE];
} lines_t;

static void keep_line(void *user, slip__log_level_e level, const char *line) {
  lines_t *lines = user;
  (void)level;
  ++lines->count;
  (void)snprintf(lines->last, sizeof(lines->last), "%s", line);
}

// Two workspaces of one engine, many calls: one line.
SLIP_TEST(a_graph_that_is_not_replayed_is_said_once) {
  static const struct {
    int trick;
    const char *parts[3];
  } cases[] = {{TWICE_PLUS_ONE,
                {"graph 1 of entry \"test\" is never replayed with this contract: ", "task 0 is mix, whose scalar 0 was 201, and is 203",
                 "its body runs each time"}},
               {OTHER_TASK, {"graph 1 of entry \"test\"", "depends by name on one from before it", "its body runs each time"}},
               {EMPTY, {"graph 1 of entry \"test\"", "it has no tasks", "its body runs each time"}}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    graph_test_t tests[2] = {graph_test_open(2, 64, 1 << 20, 256)};
    slip__workspace_options_t options = graph_test_options(64, 1 << 20, 256);
    slip__run_site_t site = {.id = 9};
    static int64_t data[2][CELLS];
    lines_t lines = {0};
    tests[1].engine = tests[0].engine;
    SLIP_CHECK_OK(slip__workspace_create(tests[0].engine, &options, &tests[1].workspace));
    slip__log_capture(SLIP__LOG_WARN, keep_line, &lines);
    trick = cases[i].trick;
    for (int round = 0; round < 6; ++round) {
      for (int w = 0; w < 2; ++w) SLIP_CHECK_OK(run_plan(&tests[w], tricky, &site, data, false, round));
    }
    slip__log_capture(0, NULL, NULL);
    SLIP_CHECK_EQ(lines.count, 1);
    for (int part_index = 0; part_index < 3; ++part_index) SLIP_CHECK(strstr(lines.last, cases[i].parts[part_index]) != NULL);
    SLIP_CHECK_EQ(atomic_load(&slip__record_counts(tests[0].engine)->refused), 2);  // each workspace finds out for itself
    slip__workspace_destroy(tests[1].workspace);
    graph_test_close(&tests[0]);
  }
}

// Keys 0 to 2 come with shapes, then other shapes; key 3 in a manual scope; key 4 with too much.
static void reshaped(slip_orch_t *o, const slip_oargs_t *args) {
  static uint64_t many[SLIP__BEGIN_SCALARS + 1];
  for (uint64_t i = 0; i < 24; ++i) {
    slip_otensor_t cells = part(o, args->tensors[0], 0, i < 12 ? 8 : 6);
    if (begin(o, i % 3, &cells, 1, NULL, 0)) do_mix(o, cells, cells, i % 3);
    end(o);
    slip_scope_begin(o, SLIP_SCOPE_MANUAL);
    if (begin(o, 3, &cells, 1, NULL, 0)) do_mix(o, cells, part(o, args->tensors[1], 0, 4), 1);
    end(o);
    slip_scope_end(o);
    if (begin(o, 4, &cells, 1, many, SLIP__BEGIN_SCALARS + 1)) do_mix(o, cells, cells, 2);
    end(o);
  }
}
static void count_kinds(void *user, slip__log_level_e level, const char *line) {
  int *counts = user;
  (void)level;
  counts[0] +=
      strstr(line, "has another contract than before: tensor 0 was i64 [8] with strides (1) when it was recorded, and is i64 [6]") != NULL;
  counts[1] += strstr(line, "graph 3 of entry \"test\" is not recorded: it begins inside SLIP_SCOPE_MANUAL") != NULL;
  counts[2] += strstr(line, "graph 4 of entry \"test\" is not recorded: it has more than 64 scalars") != NULL;
  ++counts[3];
}
SLIP_TEST(other_contracts_and_places_are_said_once_a_key) {
  graph_test_t test = graph_test_open(1, 64, 1 << 20, 256);
  slip__run_site_t site = {.id = 9};
  static int64_t data[2][CELLS];
  int counts[4] = {0};
  slip__log_capture(SLIP__LOG_WARN, count_kinds, counts);
  for (int round = 0; round < 4; ++round) SLIP_CHECK_OK(run_plan(&test, reshaped, &site, data, false, round));
  slip__log_capture(0, NULL, NULL);
  SLIP_CHECK_EQ(counts[0], 3);
  SLIP_CHECK_EQ(counts[1], 1);
  SLIP_CHECK_EQ(counts[2], 1);
  SLIP_CHECK_EQ(counts[3], 5);
  graph_test_close(&test);
}

static void many_kinds(slip_orch_t *o, const slip_oargs_t *args) {
  for (uint64_t key = 0; key < 400; ++key) {
    if (begin(o, key, args->tensors, 1, NULL, 0)) bodies += 1;
    end(o);
  }
}
SLIP_TEST(lines_about_graphs_are_bounded) {
  graph_test_t test = graph_test_open(1, 64, 1 << 20, 256);
  slip__run_site_t site = {.id = 9};
  static int64_t data[2][CELLS];
  lines_t lines = {0};
  slip__log_capture(SLIP__LOG_WARN, keep_line, &lines);
  for (int round = 0; round < 3; ++round) SLIP_CHECK_OK(run_plan(&test, many_kinds, &site, data, false, round));
  slip__log_capture(0, NULL, NULL);
  SLIP_CHECK_EQ(lines.count, 256 + 1);
  SLIP_CHECK(strstr(lines.last, "further ones are counted only") != NULL);
  graph_test_close(&test);
}

// --- Contracts ----------------------------------------------------------------------------------------------------------------------

static void shifted(slip_orch_t *o, const slip_oargs_t *args) {
  // Same key, other contracts: apart, overlapping by some, by others, the same bytes, shorter, strided.
  static const int64_t shapes[6][3] = {{0, 16, 8}, {0, 3, 8}, {0, 5, 8}, {0, 0, 8}, {0, 16, 6}, {0, 20, 8}};
  for (int64_t i = 0; i < 48; ++i) {
    const int64_t *shape = shapes[i % 6];
    int64_t start = i % 7;
    slip_otensor_t a = part(o, args->tensors[0], start + shape[0], shape[2]), b = part(o, args->tensors[0], start + shape[1], shape[2]);
    if (i % 6 == 5) a = part(o, args->tensors[0], start, 16), a.view.strides[0] = 2, a.view.dims[0] = 8;
    const slip_otensor_t tensors[2] = {a, b};
    if (begin(o, 3, tensors, 2, NULL, 0)) {
      for (int64_t n = 0; n < 6; ++n) do_mix(o, part(o, a, n % 3, 3), part(o, b, (n + 1) % 4, 2), (uint64_t)n);
    }
    end(o);
    do_mix(o, b, part(o, args->tensors[1], i % 20, 8), 1);
  }
}
SLIP_TEST(contracts_tell_shapes_and_aliases_apart) {
  graph_test_t oracle = graph_test_open(0, 64, 1 << 20, 128);
  for (uint32_t threads = 1; threads <= 3; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 1 << 20, 256);
    slip__run_site_t site = {.id = 9};
    static int64_t data[2][CELLS], expected[2][CELLS];
    for (int round = 0; round < 10; ++round) {
      fill(data, round);
      fill(expected, round);
      SLIP_CHECK_OK(run_plan(&test, shifted, &site, data, false, round));
      SLIP_CHECK_OK(run_plan(&oracle, shifted, NULL, expected, true, round));
      SLIP_CHECK(memcmp(data, expected, sizeof(expected)) == 0);
    }
    slip__begin_stats_t stats = slip__begin_stats(test.workspace);
    SLIP_CHECK_EQ(stats.refused, 0);
    SLIP_CHECK_EQ(stats.recorded, 12);
    SLIP_CHECK_EQ(stats.replayed, 480 - 12);
    graph_test_close(&test);
  }
  graph_test_close(&oracle);
}

static void many(slip_orch_t *o, const slip_oargs_t *args) {
  for (uint64_t i = 0; i < 3 * SLIP__BEGIN_COUNT; ++i) {
    for (int call = 0; call < 4; ++call) {
      if (begin(o, i, args->tensors, 1, NULL, 0)) {
        for (int64_t n = 0; n < 6; ++n) do_mix(o, part(o, args->tensors[0], n, 4), part(o, args->tensors[0], (n + 8) % 32, 2), i);
      }
      end(o);
    }
  }
}
SLIP_TEST(named_graphs_are_bounded_in_number) {
  graph_test_t oracle = graph_test_open(0, 64, 1 << 20, 128), test = graph_test_open(2, 64, 1 << 20, 256);
  slip__run_site_t site = {.id = 9};
  static int64_t data[2][CELLS], expected[2][CELLS];
  for (int round = 0; round < 3; ++round) {
    SLIP_CHECK_OK(run_plan(&test, many, &site, data, false, round));
    SLIP_CHECK_OK(run_plan(&oracle, many, NULL, expected, true, round));
    SLIP_CHECK(memcmp(data, expected, sizeof(expected)) == 0);
  }
  slip__begin_stats_t stats = slip__begin_stats(test.workspace);
  SLIP_CHECK_EQ(stats.evicted, 3 * 3 * SLIP__BEGIN_COUNT - SLIP__BEGIN_COUNT);
  SLIP_CHECK_EQ(stats.replayed, 3 * 3 * SLIP__BEGIN_COUNT * 2);
  SLIP_CHECK(stats.bytes < (1 << 20));
  graph_test_close(&test);
  graph_test_close(&oracle);
}

// --- Errors -------------------------------------------------------------------------------------------------------------------------

static void failing(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t cell = part(o, args->tensors[0], 0, 1);
  for (int i = 0; i < 5; ++i) {
    if (begin(o, 1, &cell, 1, NULL, 0)) {
      for (int n = 0; n < 4; ++n) {
        slip_task_builder_t task;
        slip_task_begin(&task, FAULTY, 1);
        slip_task_inout(&task, &cell);
        slip_task_submit(o, &task);
      }
    }
    end(o);
  }
}
SLIP_TEST(faults_in_named_graphs_are_faults_of_the_run) {
  graph_test_t test = graph_test_open(2, 64, 1 << 20, 64);
  slip__run_site_t site = {.id = 1};
  static int64_t data[2][CELLS];
  for (int round = 0; round < 200; ++round) {
    bool faults = round % 10 == 7;
    data[0][0] = faults ? 77 - round % 20 : 1000;
    slip_status_t status = run_plan(&test, failing, &site, data, false, round);
    if (faults) {
      SLIP_CHECK_ERROR(status, SLIP_CODE_GRAPH_KERNEL_FAULT, "faulty");
      SLIP_CHECK_EQ(data[0][0], 78);
    } else {
      SLIP_CHECK_OK(status);
      SLIP_CHECK_EQ(data[0][0], 1020);
    }
  }
  SLIP_CHECK(slip__begin_stats(test.workspace).replayed > 800);
  graph_test_close(&test);
}

static int misuse;
static void misused(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t cells = part(o, args->tensors[0], 0, 8);
  slip_task_builder_t task;
  const uint64_t scalar = 3, key = 1000 + (uint64_t)plan.round;
  const int64_t dims[1] = {4};
  slip_otensor_t made = slip_otensor_describe(SLIP_DTYPE_I64, 1, dims);
  switch (misuse) {
    case 0:
      slip_graph_end(o);
      break;
    case 1:
      (void)slip_graph_begin(o, key, &cells, 1, NULL, 0);
      break;
    case 2:
      (void)slip_graph_begin(o, key, &cells, 1, NULL, 0);
      slip_scope_begin(o, SLIP_SCOPE_AUTO);
      slip_graph_end(o);
      break;
    case 3:
      (void)slip_graph_begin(o, key, NULL, 1, NULL, 0);
      break;
    case 4:
      mix_begin(&task, &cells, &cells, 1);
      slip_task_scalar_from(o, &task, 0, 1, 0);
      break;
    case 5:
      (void)slip_graph_begin(o, key, &cells, 1, &scalar, 1);
      mix_begin(&task, &cells, &cells, 1);
      slip_task_scalar_from(o, &task, 1, 1, 0);
      break;
    case 6:
      for (int i = 0; i < 17; ++i) (void)slip_graph_begin(o, (uint64_t)i, &cells, 1, NULL, 0);
      break;
    case 7:
      (void)slip_graph_begin(o, key, &cells, 1, NULL, 0);
      slip_task_begin(&task, PUT, 1);
      slip_task_out(&task, &made);
      slip_task_scalar(&task, 7);
      slip_task_submit(o, &task);
      slip_graph_end(o);
      do_mix(o, made, cells, 1);
      break;
    case 8:
      for (int i = 0; i < 4; ++i) {
        if (slip_graph_begin(o, key, &cells, 1, NULL, 0)) do_mix(o, cells, cells, 0);
        if (i < 2) slip_graph_end(o);
      }
      break;
  }
}
SLIP_TEST(misuse_of_named_graphs_is_refused_and_leaves_nothing) {
  graph_test_t test = graph_test_open(2, 64, 1 << 20, 256);
  slip__run_site_t site = {.id = 1};
  static int64_t data[2][CELLS];
  static const struct {
    slip_code_t code;
    const char *text;
  } cases[] = {{SLIP_CODE_GRAPH_INVALID_TASK, "graph_end() without a graph_begin()"},
               {SLIP_CODE_GRAPH_INVALID_TASK, "with a graph still open"},
               {SLIP_CODE_GRAPH_INVALID_TASK, "graph_end() at scope depth 2, but the graph began at 0"},
               {SLIP_CODE_GRAPH_INVALID_TASK, "1 tensors at NULL"},
               {SLIP_CODE_GRAPH_INVALID_TASK, "boundary scalar 0 of no graph"},
               {SLIP_CODE_GRAPH_INVALID_TASK, "boundary scalar 1 of the graph, which has 1"},
               {SLIP_CODE_GRAPH_INVALID_TASK, "graph_begin() inside 16 graphs"},
               {SLIP_CODE_GRAPH_STALE_TENSOR, "scope"},
               {SLIP_CODE_GRAPH_INVALID_TASK, "before the graph_end() of a graph that was replayed"}};
  for (int round = 0; round < 3; ++round) {
    for (misuse = 0; misuse < (int)(sizeof(cases) / sizeof(cases[0])); ++misuse) {
      SLIP_CHECK_ERROR(run_plan(&test, misused, &site, data, false, round * 100 + misuse), cases[misuse].code, cases[misuse].text);
      data[0][0] = 1000;
      SLIP_CHECK_OK(run_plan(&test, failing, &site, data, false, round * 100 + 50 + misuse));
      SLIP_CHECK_EQ(data[0][0], 1020);
    }
  }
  graph_test_close(&test);
}
