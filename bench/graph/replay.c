// SPDX-License-Identifier: Apache-2.0
#include "replay.h"

#include "graph/recorded/replay.h"
#include "graph/workspace.h"
#include "measure.h"
#include "shapes.h"

typedef void (*bench_build_fn_t)(slip__builder_t *builder);

static slip__definition_tensor_t bench_recorded_word(int64_t index) {
  slip__definition_tensor_t t = {.offset = (uint64_t)index * 8, .base = 0, .dtype = SLIP_DTYPE_U64, .rank = 1};
  for (int i = 0; i < SLIP_MAX_RANK; ++i) t.dims[i] = 1;
  t.strides[0] = 1;
  return t;
}
static void bench_add(slip__builder_t *builder, uint32_t kernel, const int64_t *words, uint32_t count, const uint64_t *scalar) {
  slip__definition_tensor_t tensors[BENCH_PARENTS + 1];
  slip__definition_scalar_t value = {.add = scalar ? *scalar : 0, .source = SLIP__NONE};
  for (uint32_t i = 0; i < count; ++i) tensors[i] = bench_recorded_word(words[i]);
  const slip__builder_node_t node = {
      .kernel = kernel, .block_count = 1, .tensors = tensors, .scalars = &value, .tensor_count = count, .scalar_count = scalar ? 1 : 0};
  if (slip__builder_add(builder, &node) == SLIP__NONE) exit(1);
}
static void bench_depend(slip__builder_t *builder, int64_t producer) {
  if (!slip__builder_depend(builder, (uint32_t)producer)) exit(1);
}

static void bench_build_nodes(slip__builder_t *builder) {
  for (int i = 0; i < BENCH_NODES; ++i) {
    const bench_node_t *node = &bench_nodes[i];
    const uint64_t salt = (uint64_t)i;
    int64_t words[BENCH_PARENTS + 1] = {i};
    for (int k = 0; k < node->parent_count; ++k) words[1 + k] = node->parents[k];
    bench_add(builder, bench_node_kernel(node->parent_count), words, (uint32_t)node->parent_count + 1, &salt);
    for (int k = 0; k < node->parent_count; ++k) bench_depend(builder, node->parents[k]);
  }
}
static void bench_build_wavefront(slip__builder_t *builder) {
  const int64_t side = BENCH_SIDE, row = side + 1;
  for (int64_t i = 0; i < side; ++i) {
    for (int64_t j = 0; j < side; ++j) {
      int64_t self = (i + 1) * row + j + 1, words[3] = {self - row, self - 1, self};
      bench_add(builder, bench_cell_kernel(), words, 3, NULL);
      if (i > 0) bench_depend(builder, (i - 1) * side + j);
      if (j > 0) bench_depend(builder, i * side + j - 1);
    }
  }
}
static void bench_build_single(slip__builder_t *builder) {
  const int64_t words[1] = {0};
  const uint64_t salt = 0;
  bench_add(builder, bench_node_kernel(0), words, 1, &salt);
}

static const bench_build_fn_t builds[BENCH_RECORDED_COUNT] = {bench_build_nodes, bench_build_wavefront, bench_build_single};
static slip__replay_t *replays[BENCH_RECORDED_COUNT];

static slip__replay_t *bench_replay_of(slip__engine_t *engine, bench_recorded_e graph) {
  static const slip__builder_limits_t limits = {.max_nodes = 1 << 20, .max_edges = 1 << 22, .max_bytes = 1 << 30};
  if (!replays[graph]) {
    slip__builder_t *builder;
    slip__definition_t *definition;
    bench_require(slip__builder_create(slip_allocator_system(), &limits, 1, 0, &builder));
    (void)bench_make_nodes();
    builds[graph](builder);
    bench_require(slip__builder_finish(builder, slip__engine_thread_count(engine), &definition));
    bench_require(slip__replay_create(engine, definition, &bench_object, &replays[graph]));
    slip__definition_release(definition);
  }
  return replays[graph];
}

double bench_replay(slip__engine_t *engine, slip__workspace_t *workspace, bench_recorded_e graph, bool planned, slip_otensor_t *words,
                    uint32_t repeats) {
  slip__replay_t *replay = bench_replay_of(engine, graph);
  double from = bench_now_ns();
  for (uint32_t r = 0; r < repeats; ++r) {
    slip__replay_bind(replay, words, NULL);
    (void)slip__replay_run(replay, workspace, planned ? SLIP__REPLAY_PLANNED : SLIP__REPLAY_DYNAMIC);
  }
  return bench_now_ns() - from;
}

void bench_replay_stop(slip__workspace_t *workspace) {
  for (int i = 0; i < BENCH_RECORDED_COUNT; ++i) {
    slip__replay_destroy(replays[i], workspace->seat);
    replays[i] = NULL;
  }
}
