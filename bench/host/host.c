// SPDX-License-Identifier: Apache-2.0
// The engine inside a process that has OpenMP threads of its own.
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/engine.h"

#define LANES   64
#define ENGINES 4

static __attribute__((noinline)) uint64_t work(uint64_t x, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    x ^= x >> 29;
  }
  return x;
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void require(slip_status_t status) {
  if (slip_status_is_ok(status)) return;
  char text[1024];
  (void)slip_status_format(status, text, sizeof(text));
  fprintf(stderr, "%s\n", text);
  exit(1);
}

// --- Ours ---

static void update(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  uint64_t *x = args->tensors[0].data;
  *x = work(*x + args->scalars[0], 25);
}
static void phases(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  for (uint64_t p = 0; p < args->scalars[0]; ++p) {
    for (int64_t lane = 0; lane < LANES; ++lane) {
      slip_otensor_t x = args->tensors[0];
      x.view.data = (uint64_t *)x.view.data + lane;
      x.view.dims[0] = 1;
      slip_task_begin(&task, 0, 1);
      slip_task_inout(&task, &x);
      slip_task_scalar(&task, (uint64_t)lane);
      slip_task_submit(o, &task);
    }
  }
}
static const slip_object_kernel_t kernels[] = {{.name = "update", .run = update, .tensor_count = 1, .scalar_count = 1}};
static const slip_object_entry_t entries[] = {{.name = "phases", .run = phases, .tensor_count = 1, .scalar_count = 1}};
static const slip_object_t object = {.magic = SLIP_OBJECT_MAGIC,
                                     .struct_size = sizeof(slip_object_t),
                                     .abi_version = SLIP_ORCH_ABI_VERSION,
                                     .entries = entries,
                                     .kernels = kernels,
                                     .entry_count = 1,
                                     .kernel_count = 1};

typedef struct graph_t {
  slip__engine_t *engine;
  slip__workspace_t *workspace;
  uint64_t lanes[LANES];
} graph_t;

static graph_t graph_open(bool serial) {
  graph_t graph = {0};
  slip__engine_options_t options = {.serial = serial};
  slip__workspace_options_t workspace = {0};
  for (int i = 0; i < SLIP__RING_COUNT; ++i) {
    workspace.task_window[i] = 1024;
    workspace.heap_bytes[i] = 1 << 16;
    workspace.dependency_pool[i] = 4096;
  }
  require(slip__engine_create(&options, &graph.engine));
  require(slip__workspace_create(graph.engine, &workspace, &graph.workspace));
  return graph;
}

static void graph_run(graph_t *graph, uint64_t count) {
  const int64_t dims[1] = {LANES};
  slip_otensor_t tensor = slip_otensor_describe(SLIP_DTYPE_U64, 1, dims);
  tensor.view.data = tensor.storage = graph->lanes;
  tensor.storage_bytes = sizeof(graph->lanes);
  slip__run_t run = {.object = &object, .tensor_count = 1, .tensors = &tensor, .scalars = &count, .scalar_count = 1};
  require(slip__engine_run(graph->engine, graph->workspace, &run));
}

// Runs of |count| phases for |seconds|; ns a task. A wrong result ends the program.
static double graph_measure(graph_t *graph, uint64_t count, double seconds) {
  uint64_t runs = 0, expected[LANES];
  double from = now_s(), to = from;
  memset(graph->lanes, 0, sizeof(graph->lanes));
  for (; to - from < seconds; to = now_s(), ++runs) graph_run(graph, count);
  for (uint64_t lane = 0; lane < LANES; ++lane) {
    expected[lane] = 0;
    for (uint64_t i = 0; i < runs * count; ++i) expected[lane] = work(expected[lane] + lane, 25);
  }
  if (memcmp(expected, graph->lanes, sizeof(expected)) != 0) {
    fprintf(stderr, "wrong result\n");
    exit(1);
  }
  return (to - from) * 1e9 / (double)(runs * count * LANES);
}

// --- The host's ---

static volatile uint64_t sink;
static void region(void) {
  uint64_t sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
  for (int i = 0; i < 64; ++i) sum += work((uint64_t)i, 1700);
  sink = sum;
}

typedef struct host_t {
  _Atomic bool stop;
  _Atomic uint64_t regions;
} host_t;
static void *host_main(void *user) {
  host_t *host = user;
  while (!atomic_load(&host->stop)) {
    region();
    atomic_fetch_add(&host->regions, 1);
  }
  return NULL;
}

static double region_measure(double seconds) {
  uint64_t count = 0;
  double from = now_s(), to = from;
  for (; to - from < seconds; to = now_s(), ++count) region();
  return (to - from) * 1e6 / (double)count;
}

// --- Together ---

static double in_turn(graph_t *graph, double seconds) {
  uint64_t count = 0;
  double from = now_s(), to = from;
  for (; to - from < seconds; to = now_s(), ++count) {
    graph_run(graph, 3);
    region();
  }
  return (to - from) * 1e6 / (double)count;
}

static double at_once(graph_t *graph, double seconds, double *region_us) {
  host_t host = {false};
  pthread_t thread;
  (void)pthread_create(&thread, NULL, host_main, &host);
  while (atomic_load(&host.regions) < 3) continue;
  uint64_t before = atomic_load(&host.regions);
  double from = now_s(), task_ns = graph_measure(graph, 1000, seconds);
  *region_us = (now_s() - from) * 1e6 / (double)(atomic_load(&host.regions) - before);
  atomic_store(&host.stop, true);
  (void)pthread_join(thread, NULL);
  return task_ns;
}

typedef struct member_t {
  graph_t graph;
  double seconds, task_ns;
  pthread_t thread;
} member_t;
static void *member_main(void *user) {
  member_t *member = user;
  member->task_ns = graph_measure(&member->graph, 1000, member->seconds);
  return NULL;
}
static double crowd(double seconds) {
  static member_t members[ENGINES];
  double per_ns = 0;
  for (int i = 0; i < ENGINES; ++i) members[i] = (member_t){.graph = graph_open(false), .seconds = seconds};
  for (int i = 0; i < ENGINES; ++i) (void)pthread_create(&members[i].thread, NULL, member_main, &members[i]);
  for (int i = 0; i < ENGINES; ++i) (void)pthread_join(members[i].thread, NULL);
  for (int i = 0; i < ENGINES; ++i) {
    per_ns += 1 / members[i].task_ns;
    slip__workspace_destroy(members[i].graph.workspace);
    slip__engine_destroy(members[i].graph.engine);
  }
  return 1 / per_ns;
}

int main(int argc, char **argv) {
  double seconds = argc > 1 ? strtod(argv[1], NULL) : 1, region_us = 0;
  graph_t graph = graph_open(false);
  (void)graph_measure(&graph, 1000, 0.1);
  double graph_alone = graph_measure(&graph, 1000, seconds), small_alone = graph_measure(&graph, 3, seconds) * 3 * LANES * 1e-3;
  double crowd_ns = crowd(seconds);
  double region_alone = region_measure(seconds), turn = in_turn(&graph, seconds);
  double beside = at_once(&graph, seconds, &region_us);
  printf("%u threads of ours, %d of OpenMP\n", slip__engine_thread_count(graph.engine), omp_get_max_threads());
  printf("alone     %8.1f ns a task   %8.1f us a region   %8.1f us a graph of %d tasks\n", graph_alone, region_alone, small_alone,
         3 * LANES);
  printf("in turn   %8.1f us for a graph of %d tasks and a region, %.1f alone\n", turn, 3 * LANES, small_alone + region_alone);
  printf("at once   %8.1f ns a task   %8.1f us a region\n", beside, region_us);
  printf("crowd     %8.1f ns a task over %d engines\n", crowd_ns, ENGINES);
  printf("RESULT alone_ns=%.1f region_us=%.1f turn_us=%.1f turn_alone_us=%.1f once_ns=%.1f once_region_us=%.1f crowd_ns=%.1f\n",
         graph_alone, region_alone, turn, small_alone + region_alone, beside, region_us, crowd_ns);
  slip__workspace_destroy(graph.workspace);
  slip__engine_destroy(graph.engine);
  return 0;
}
