// SPDX-License-Identifier: Apache-2.0
#include "measure.h"

#include "decoder.h"
#include "replay.h"
#include "shapes.h"
#include "slipstream/context.h"

static slip__engine_t *bench_engine;
static slip__workspace_t *bench_workspace;

void bench_require(slip_status_t status) {
  if (slip_status_is_ok(status)) return;
  char text[1024];
  (void)slip_status_format(status, text, sizeof(text));
  fprintf(stderr, "%s\n", text);
  exit(1);
}

void bench_engine_start(uint32_t threads) {
  const slip__engine_options_t options = {.thread_count = threads};
  // The defaults of a context but for the dependency pool.
  const slip__workspace_options_t workspace = {.task_window = {16384, 16384, 16384, 16384},
                                               .heap_bytes = {1 << 26, 1 << 26, 1 << 26, 1 << 26},
                                               .dependency_pool = {65536, 65536, 65536, 65536}};
  bench_shapes_initialize();
  (void)bench_make_nodes();
  decoder_initialize();
  bench_require(slip__engine_create(&options, &bench_engine));
  bench_require(slip__workspace_create(bench_engine, &workspace, &bench_workspace));
}
void bench_engine_stop(void) {
  bench_replay_stop(bench_workspace);
  slip__workspace_destroy(bench_workspace);
  slip__engine_destroy(bench_engine);
}
uint32_t bench_engine_threads(void) {
  return slip__engine_thread_count(bench_engine);
}
double bench_committed_mb(void) {
  return (double)slip__workspace_committed_bytes(bench_workspace) / 1e6;
}

// --- Runs ---------------------------------------------------------------------------------------------------------------------------

// |rows| 0: flat.
static slip_otensor_t bench_tensor_of(uint8_t dtype, void *data, int64_t rows, int64_t columns) {
  int64_t dims[2] = {rows ? rows : columns, columns};
  slip_otensor_t t = slip_otensor_describe(dtype, rows ? 2 : 1, dims);
  t.view.data = t.storage = data;
  t.storage_bytes = (uint64_t)(slip_dtype_carrier_bytes(dtype) * (rows ? rows * columns : columns));
  return t;
}
static slip_otensor_t bench_tensor(void *data, int64_t rows, int64_t columns) {
  return bench_tensor_of(SLIP_DTYPE_U64, data, rows, columns);
}

// |site|: NULL for runs that are never recorded, however often they come.
static void bench_run_object(const slip_object_t *object, uint32_t entry, slip_otensor_t *tensors, uint32_t tensor_count, int64_t size,
                             slip__run_site_t *site) {
  const uint64_t scalars[1] = {(uint64_t)size};
  const slip__run_t run = {.object = object,
                           .entry = entry,
                           .tensor_count = tensor_count,
                           .tensors = tensors,
                           .scalar_count = object->entries[entry].scalar_count,
                           .scalars = scalars,
                           .site = site};
  bench_require(slip__engine_run(bench_engine, bench_workspace, &run));
}
static void bench_run_entry(uint32_t entry, slip_otensor_t *tensors, uint32_t tensor_count, int64_t size) {
  bench_run_object(&bench_object, entry, tensors, tensor_count, size, NULL);
}

static double bench_run_plain(const bench_case_t *test, uint64_t *v) {
  slip_otensor_t tensor = bench_tensor(v, 0, test->workload.words);
  double from = bench_now_ns();
  for (uint32_t r = 0; r < test->repeats; ++r) bench_run_entry(test->entry, &tensor, 1, test->workload.size);
  return bench_now_ns() - from;
}
static double bench_run_dynamic(const bench_case_t *test, uint64_t *v) {
  slip_otensor_t tensor = bench_tensor(v, 0, test->workload.words);
  return bench_replay(bench_engine, bench_workspace, test->entry, false, &tensor, test->repeats);
}
static double bench_run_planned(const bench_case_t *test, uint64_t *v) {
  slip_otensor_t tensor = bench_tensor(v, 0, test->workload.words);
  return bench_replay(bench_engine, bench_workspace, test->entry, true, &tensor, test->repeats);
}
static double bench_run_halos(const bench_case_t *test, uint64_t *v) {
  slip_otensor_t tensors[2] = {bench_tensor(v, BENCH_TILES * 4, BENCH_TILES * 4),
                               bench_tensor(v + BENCH_PLANE, BENCH_TILES * 4, BENCH_TILES * 4)};
  double from = bench_now_ns();
  bench_run_entry(test->entry, tensors, 2, test->workload.size);
  return bench_now_ns() - from;
}
static double bench_run_submit(const bench_case_t *test, uint64_t *v) {
  slip_otensor_t tensor = bench_tensor(v, 0, test->workload.words);
  bench_run_entry(test->entry, &tensor, 1, test->workload.size);
  return bench_submit_ns();
}
// As a prepared callable runs: what was checked once is known. One task is too few to be recorded.
static double bench_run_single(const bench_case_t *test, uint64_t *v) {
  static slip__run_site_t site = {.id = 1};
  slip_otensor_t tensors[3];
  for (int i = 0; i < 3; ++i) tensors[i] = bench_tensor(v + i * 1000, 0, 1000);
  double from = bench_now_ns();
  for (uint32_t r = 0; r < test->repeats; ++r) bench_run_object(&bench_object, test->entry, tensors, 3, 1, &site);
  return bench_now_ns() - from;
}
static double bench_run_decoder(const bench_case_t *test, uint64_t *v) {
  slip_otensor_t tensors[DECODER_MATRICES + 1];
  for (int i = 0; i < DECODER_MATRICES; ++i)
    tensors[i] = bench_tensor_of(SLIP_DTYPE_F32, decoder_matrix(i), DECODER_TOKENS, decoder_width(i));
  tensors[DECODER_MATRICES] = bench_tensor_of(SLIP_DTYPE_F32, decoder_weights(), 0, decoder_weight_floats());
  tensors[DECODER_MATRICES].depth = SLIP_OTENSOR_READ_ONLY;
  decoder_reset();
  double from = bench_now_ns();
  bench_run_object(&bench_decoder_object, test->entry, tensors, DECODER_MATRICES + 1, 0, NULL);
  double ns = bench_now_ns() - from;
  v[0] = decoder_hash();
  return ns;
}
static void bench_plain_decoder(uint64_t *v, int64_t size) {
  (void)size;
  decoder_reset();
  for (int i = 0; i < DECODER_TASKS; ++i) decoder_run_task(i);
  v[0] = decoder_hash();
}

#define SIDE BENCH_SIDE
#define MANY BENCH_MANY
const bench_case_t bench_cases[] = {
    {"w1d", "independent", {"", MANY, MANY, MANY, bench_plain_independent}, BENCH_ENTRY_INDEPENDENT, 1, bench_run_plain},
    {"w1spmd", "blocks of one task", {"", MANY, MANY, MANY, bench_plain_independent}, BENCH_ENTRY_BLOCKS, 1, bench_run_plain},
    {"w2", "chain", {"", MANY, MANY, 1, bench_plain_chain}, BENCH_ENTRY_CHAIN, 1, bench_run_plain},
    {"w3", "wavefront", {"", SIDE, SIDE *SIDE, BENCH_WORDS(SIDE), bench_plain_wavefront}, BENCH_ENTRY_WAVEFRONT, 1, bench_run_plain},
    {"w4",
     "phases",
     {"", BENCH_PHASES, BENCH_PHASES *BENCH_LANES, BENCH_LANES, bench_plain_phases},
     BENCH_ENTRY_PHASES,
     1,
     bench_run_plain},
    {"w5",
     "random graph",
     {"", 1, BENCH_REPEATS *BENCH_NODES, BENCH_NODES, bench_plain_nodes},
     BENCH_ENTRY_NODES,
     BENCH_REPEATS,
     bench_run_plain},
    {"w5replay",
     "replayed, dynamic",
     {"", 1, BENCH_REPEATS *BENCH_NODES, BENCH_NODES, bench_plain_nodes},
     BENCH_RECORDED_NODES,
     BENCH_REPEATS,
     bench_run_dynamic},
    {"w5planned",
     "replayed, planned",
     {"", 1, BENCH_REPEATS *BENCH_NODES, BENCH_NODES, bench_plain_nodes},
     BENCH_RECORDED_NODES,
     BENCH_REPEATS,
     bench_run_planned},
    {"w3replay",
     "wavefront, dynamic",
     {"", SIDE, SIDE *SIDE, BENCH_WORDS(SIDE), bench_plain_wavefront},
     BENCH_RECORDED_WAVEFRONT,
     1,
     bench_run_dynamic},
    {"w3planned",
     "wavefront, planned",
     {"", SIDE, SIDE *SIDE, BENCH_WORDS(SIDE), bench_plain_wavefront},
     BENCH_RECORDED_WAVEFRONT,
     1,
     bench_run_planned},
    {"replay1", "replay of one task", {"", 1, 10000, 1, bench_plain_chain}, BENCH_RECORDED_SINGLE, 10000, bench_run_dynamic},
    {"halos",
     "overlapping halos",
     {"", BENCH_STEPS, BENCH_STEPS *BENCH_TILES *BENCH_TILES, 2 * BENCH_PLANE, bench_plain_halos},
     BENCH_ENTRY_HALOS,
     1,
     bench_run_halos},
    {"decoder", "decoder, 2-20 us", {"", 1, DECODER_TASKS, 1, bench_plain_decoder}, 0, 1, bench_run_decoder},
    {"submit", "submit, 3 tensors", {"", BENCH_SUBMIT, BENCH_SUBMIT, 192, NULL}, BENCH_ENTRY_SUBMIT, 1, bench_run_submit},
    {"single", "run of one task", {"", 1, 10000, 3000, NULL}, BENCH_ENTRY_SINGLE, 10000, bench_run_single},
};
const int bench_case_count = sizeof(bench_cases) / sizeof(bench_cases[0]);

const bench_case_t *bench_find_case(const char *name) {
  for (int i = 0; i < bench_case_count; ++i) {
    if (strcmp(bench_cases[i].name, name) == 0) return &bench_cases[i];
  }
  return NULL;
}

int bench_measure(const bench_case_t *test, bool warm, int runs, double *out_ns) {
  const bench_workload_t *w = &test->workload;
  uint64_t *v = bench_array(w->words);
  bench_start(v, w->words);
  if (w->plain) w->plain(v, w->size * test->repeats);
  const uint64_t expected = bench_fold(v, w->words);
  int wrong = 0;
  for (int r = warm ? -1 : 0; r < runs; ++r) {
    bench_start(v, w->words);
    double ns = test->run(test, v) / (double)w->tasks;
    wrong += bench_fold(v, w->words) != expected;
    if (r >= 0) out_ns[r] = ns;
  }
  free(v);
  return wrong;
}

// --- Curves, smallest task, contexts ------------------------------------------------------------------------------------------------

static int bench_print_curve(const char *name, const bench_case_t *model, int64_t most) {
  int wrong = 0;
  for (int64_t tasks = 100; tasks <= most; tasks *= 10) {
    bench_case_t test = *model;
    if (test.entry == BENCH_ENTRY_WAVEFRONT) {
      int64_t side = 1;
      while ((side + 1) * (side + 1) <= tasks) ++side;
      test.workload.size = side;
      test.workload.tasks = side * side;
      test.workload.words = BENCH_WORDS(side);
    } else {
      test.workload.size = test.workload.tasks = tasks;
      if (test.entry == BENCH_ENTRY_INDEPENDENT) test.workload.words = tasks;
    }
    double ns[11];
    int runs = tasks <= 100000 ? 11 : 1;
    wrong += bench_measure(&test, tasks <= 100000, runs, ns);
    printf("curve,%s,%lld,%.1f,%.1f\n", name, (long long)test.workload.tasks, bench_median(ns, runs), bench_committed_mb());
    fflush(stdout);
  }
  return wrong;
}
int bench_print_curves(int64_t most) {
  int wrong = 0;
  const char *const names[] = {"w1d", "w2", "w3"};
  for (int i = 0; i < 3; ++i) wrong += bench_print_curve(names[i], bench_find_case(names[i]), most);
  return wrong;
}

static void bench_run_wavefront(uint64_t *v, int64_t side) {
  slip_otensor_t tensor = bench_tensor(v, 0, BENCH_WORDS(side));
  bench_shapes_set_rounds(bench_rounds);
  bench_run_entry(BENCH_ENTRY_WAVEFRONT, &tensor, 1, side);
}
double bench_smallest_ours(int runs) {
  double grain = bench_smallest(runs, bench_run_wavefront);
  bench_shapes_set_rounds(BENCH_ROUNDS);
  return grain;
}

double bench_open_close_us(int runs) {
  double us[101];
  if (runs > 101) runs = 101;
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.platform = "cpu";
  for (int r = -1; r < runs; ++r) {
    slip_context_t *context = NULL;
    double from = bench_now_ns();
    bench_require(slip_context_open(&options, &context));
    bench_require(slip_context_close(context));
    bench_require(slip_context_destroy(context));
    if (r >= 0) us[r] = (bench_now_ns() - from) / 1e3;
  }
  return bench_median(us, runs);
}
