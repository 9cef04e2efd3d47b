// SPDX-License-Identifier: Apache-2.0
// Cost of a node when a recorded graph is replayed: serially, dynamically, planned. A random graph of 1000 nodes, a wavefront, and one
// node.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/recorded/replay.h"
#include "graph/workspace.h"

#define NODES    1000
#define WINDOW   64
#define SIDE     100
#define REPEATS  200
#define MAX_RUNS 101

static uint64_t values[SIDE * SIDE];
static int work_rounds = 25;

static __attribute__((noinline)) uint64_t work(uint64_t x) {
  for (int i = 0; i < work_rounds; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    x ^= x >> 29;
  }
  return x;
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// The last tensor = work(scalar + sum of the others).
static void node(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  uint64_t sum = args->scalars[0];
  uint32_t last = args->tensor_count - 1;
  for (uint32_t i = 0; i < last; ++i) sum += *(const uint64_t *)args->tensors[i].data;
  *(uint64_t *)args->tensors[last].data = work(sum);
}
static const slip_object_kernel_t kernels[] = {
    {"node1", node, 0, 0, 1, 1}, {"node2", node, 0, 0, 2, 1}, {"node3", node, 0, 0, 3, 1}, {"node4", node, 0, 0, 4, 1}};
static const slip_object_t object = {SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, NULL, kernels, 0, 4, NULL};

static void require(slip_status_t status) {
  if (slip_status_is_ok(status)) return;
  char text[1024];
  (void)slip_status_format(status, text, sizeof(text));
  fprintf(stderr, "%s\n", text);
  exit(1);
}

static void add(slip__builder_t *builder, const uint32_t *cells, uint32_t count, uint64_t scalar) {
  slip__definition_tensor_t tensors[4];
  slip__definition_scalar_t value = {.add = scalar, .source = SLIP__NONE};
  for (uint32_t i = 0; i < count; ++i) {
    tensors[i] = (slip__definition_tensor_t){.offset = cells[i] * 8u, .dtype = SLIP_DTYPE_U64, .rank = 1};
    for (int d = 0; d < SLIP_MAX_RANK; ++d) tensors[i].dims[d] = 1;
    tensors[i].strides[0] = 1;
  }
  slip__builder_node_t added = {
      .kernel = count - 1, .block_count = 1, .tensors = tensors, .scalars = &value, .tensor_count = count, .scalar_count = 1};
  if (slip__builder_add(builder, &added) == SLIP__NONE) exit(1);
  for (uint32_t i = 0; i + 1 < count; ++i) {
    if (!slip__builder_depend(builder, cells[i])) exit(1);
  }
}

// The graph of the peers' harness: up to three producers among the 64 nodes before.
static void random_graph(slip__builder_t *builder) {
  uint64_t s = 88172645463325252u;
  for (uint32_t i = 0; i < NODES; ++i) {
    uint32_t cells[4], count = 0, want = i == 0 ? 0 : (uint32_t)(i < 8 ? 1 : 1 + (s >> 7) % 3);
    for (uint32_t k = 0; k < want; ++k) {
      s ^= s << 13;
      s ^= s >> 7;
      s ^= s << 17;
      uint32_t low = i > WINDOW ? i - WINDOW : 0, cell = low + (uint32_t)((s >> 11) % (i - low));
      bool twice = false;
      for (uint32_t q = 0; q < count; ++q) twice |= cells[q] == cell;
      if (!twice) cells[count++] = cell;
    }
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    cells[count++] = i;
    add(builder, cells, count, i);
  }
}
static void wavefront(slip__builder_t *builder) {
  for (uint32_t i = 0; i < SIDE; ++i) {
    for (uint32_t j = 0; j < SIDE; ++j) {
      uint32_t cells[4], count = 0;
      if (i) cells[count++] = (i - 1) * SIDE + j;
      if (j) cells[count++] = i * SIDE + j - 1;
      cells[count++] = i * SIDE + j;
      add(builder, cells, count, 5);
    }
  }
}
static void single(slip__builder_t *builder) {
  const uint32_t cell = 0;
  add(builder, &cell, 1, 5);
}

static uint64_t fold(void) {
  uint64_t h = 0;
  for (uint32_t i = 0; i < SIDE * SIDE; ++i) h = h * 31 + values[i];
  return h;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  uint32_t threads = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
  int runs = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 21;
  if (argc > 3) work_rounds = (int)strtol(argv[3], NULL, 10);
  if (runs < 1 || runs > MAX_RUNS) runs = 21;
  static const struct {
    const char *name;
    void (*build)(slip__builder_t *builder);
    int repeats;
  } shapes[] = {{"w5 random", random_graph, REPEATS}, {"w3 wavefront", wavefront, REPEATS / 10}, {"single", single, REPEATS}};
  static const char *const modes[] = {"auto", "serial", "dynamic", "planned"};
  slip__engine_options_t options = {.thread_count = threads};
  slip__workspace_options_t workspace_options = {
      .task_window = {1024, 4, 4, 4}, .heap_bytes = {4096, 4096, 4096, 4096}, .dependency_pool = {64, 4, 4, 4}};
  slip__engine_t *engine;
  slip__workspace_t *workspace;
  require(slip__engine_create(&options, &engine));
  require(slip__workspace_create(engine, &workspace_options, &workspace));
  static const slip__builder_limits_t limits = {.max_nodes = 100000, .max_edges = 1000000, .max_bytes = 1 << 28};
  slip__replay_t *replays[3];
  static double times[3][4][MAX_RUNS];
  uint64_t expected[3];
  int wrong = 0;
  slip_otensor_t tensor = {.storage = values};
  for (int i = 0; i < 3; ++i) {
    slip__builder_t *builder;
    slip__definition_t *definition;
    require(slip__builder_create(slip_allocator_system(), &limits, 1, 0, &builder));
    shapes[i].build(builder);
    require(slip__builder_finish(builder, slip__engine_thread_count(engine), &definition));
    require(slip__replay_create(engine, definition, &object, &replays[i]));
    printf("%s: %u nodes, %u edges, plan of %u lanes: %.0f %% of the mean load, %u waits, %.0f KiB an instance\n", shapes[i].name,
           definition->block->node_count, definition->block->successor_count, definition->block->lane_count,
           100.0 * (double)definition->block->makespan * definition->block->lane_count / (double)definition->block->weight,
           definition->block->wait_count, (double)replays[i]->bytes / 1024);
    slip__definition_release(definition);
    slip__replay_bind(replays[i], &tensor, NULL);
    memset(values, 0, sizeof(values));
    slip__replay_run(replays[i], workspace, SLIP__REPLAY_SERIAL);
    expected[i] = fold();
  }
  for (int r = -1; r < runs; ++r) {  // the first is for warmth
    for (int i = 0; i < 3; ++i) {
      for (int mode = 0; mode < 4; ++mode) {
        memset(values, 0, sizeof(values));
        double start = now_ns();
        for (int k = 0; k < shapes[i].repeats; ++k) slip__replay_run(replays[i], workspace, (slip__replay_mode_e)mode);
        double ns = now_ns() - start;
        wrong += fold() != expected[i];
        if (r >= 0) times[i][mode][r] = ns / shapes[i].repeats / replays[i]->block->node_count;
      }
    }
  }
  for (int i = 0; i < 3; ++i) {
    for (int mode = 0; mode < 4; ++mode) {
      qsort(times[i][mode], (size_t)runs, sizeof(double), ascending);
      printf("%-14s %-8s %8.1f ns a node (best %.1f)\n", shapes[i].name, modes[mode], times[i][mode][runs / 2], times[i][mode][0]);
    }
    slip__replay_destroy(replays[i], workspace->seat);
  }
  slip__workspace_destroy(workspace);
  slip__engine_destroy(engine);
  if (wrong) printf("%d WRONG RESULTS\n", wrong);
  return wrong != 0;
}
