// SPDX-License-Identifier: Apache-2.0
// Cost of a task in the engine, by the shape of the graph.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/engine.h"

#define MANY     100000
#define SIDE     300
#define PHASES   1000
#define LANES    64
#define TILES    24
#define STEPS    50
#define MAX_RUNS 101

static uint64_t values[(SIDE + 1) * (SIDE + 1)], many[MANY], planes[2][TILES * TILES * 16];
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

// --- Kernels ------------------------------------------------------------------------------------------------------------------------

static void set(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  *(uint64_t *)args->tensors[0].data = work(args->scalars[0]);
}
static void update(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  uint64_t *x = args->tensors[0].data;
  *x = work(*x + args->scalars[0]);
}
static void cell(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  *(uint64_t *)args->tensors[2].data = work(*(uint64_t *)args->tensors[0].data + *(uint64_t *)args->tensors[1].data);
}
static void blocks(const slip_kargs_t *args, slip_block_t block) {
  ((uint64_t *)args->tensors[0].data)[block.index] = work(block.index);
}
// out tile = first element of the halo, stirred.
static void halo(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const uint64_t *in = args->tensors[0].data;
  uint64_t *out = args->tensors[1].data;
  uint64_t sum = 0;
  const slip_ktensor_t *t = &args->tensors[0];
  for (int64_t i = 0; i < t->dims[0]; i += 2) sum += in[i * t->strides[0]] + in[i * t->strides[0] + t->dims[1] - 1];
  *out = work(sum + args->scalars[0]);
}
static void nothing(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
}

enum { SET, UPDATE, CELL, BLOCKS, HALO, NOTHING };
static const slip_object_kernel_t kernels[] = {
    {"set", set, 0, 0, 1, 1},       {"update", update, 0, 0, 1, 1}, {"cell", cell, 0, 0, 3, 0},
    {"blocks", blocks, 0, 0, 1, 0}, {"halo", halo, 0, 0, 2, 1},     {"nothing", nothing, 0, 0, 3, 0},
};

// --- Graphs -------------------------------------------------------------------------------------------------------------------------

// Element |index| of a flat tensor, as a tensor of one.
static slip_otensor_t at(const slip_otensor_t *all, int64_t index) {
  slip_otensor_t one = *all;
  one.view.data = (uint64_t *)all->view.data + index;
  one.view.dims[0] = 1;
  return one;
}

static void independent(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  for (int64_t i = 0; i < MANY; ++i) {
    slip_otensor_t x = at(&args->tensors[0], i);
    slip_task_begin(&task, SET, 1);
    slip_task_out_existing(&task, &x);
    slip_task_scalar(&task, (uint64_t)i);
    slip_task_submit(o, &task);
  }
}
static void chain(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_otensor_t x = at(&args->tensors[0], 0);
  for (int64_t i = 0; i < MANY; ++i) {
    slip_task_begin(&task, UPDATE, 1);
    slip_task_inout(&task, &x);
    slip_task_scalar(&task, 0);
    slip_task_submit(o, &task);
  }
}
static void wavefront(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  for (int64_t i = 1; i <= SIDE; ++i) {
    for (int64_t j = 1; j <= SIDE; ++j) {
      slip_otensor_t up = at(&args->tensors[0], (i - 1) * (SIDE + 1) + j), left = at(&args->tensors[0], i * (SIDE + 1) + j - 1);
      slip_otensor_t x = at(&args->tensors[0], i * (SIDE + 1) + j);
      slip_task_begin(&task, CELL, 1);
      slip_task_in(&task, &up);
      slip_task_in(&task, &left);
      slip_task_out_existing(&task, &x);
      slip_task_submit(o, &task);
    }
  }
}
static void phases(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  for (int p = 0; p < PHASES; ++p) {
    for (int64_t t = 0; t < LANES; ++t) {
      slip_otensor_t x = at(&args->tensors[0], t);
      slip_task_begin(&task, UPDATE, 1);
      slip_task_inout(&task, &x);
      slip_task_scalar(&task, (uint64_t)t);
      slip_task_submit(o, &task);
    }
  }
}
static void spmd(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_task_begin(&task, BLOCKS, MANY);
  slip_task_out_existing(&task, &args->tensors[0]);
  slip_task_submit(o, &task);
}
// Two planes of tiles of 4 x 4; each step a tile reads its neighbourhood with a rim of one from one plane and writes itself in the other.
static void halos(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  for (int step = 0; step < STEPS; ++step) {
    slip_otensor_t from = args->tensors[step & 1], to = args->tensors[!(step & 1)];
    for (int64_t i = 0; i < TILES; ++i) {
      for (int64_t j = 0; j < TILES; ++j) {
        int64_t top = i ? i * 4 - 1 : 0, left = j ? j * 4 - 1 : 0;
        int64_t bottom = i + 1 < TILES ? i * 4 + 5 : TILES * 4, right = j + 1 < TILES ? j * 4 + 5 : TILES * 4;
        slip_otensor_t in = slip_otensor_slice(o, slip_otensor_slice(o, from, 0, top, bottom - top), 1, left, right - left);
        slip_otensor_t out = slip_otensor_slice(o, slip_otensor_slice(o, to, 0, i * 4, 4), 1, j * 4, 4);
        slip_task_begin(&task, HALO, 1);
        slip_task_in(&task, &in);
        slip_task_inout(&task, &out);
        slip_task_scalar(&task, (uint64_t)(i * TILES + j));
        slip_task_submit(o, &task);
      }
    }
  }
}
static void single(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_task_begin(&task, NOTHING, 1);
  slip_task_in(&task, &args->tensors[0]);
  slip_task_in(&task, &args->tensors[1]);
  slip_task_out_existing(&task, &args->tensors[2]);
  slip_task_submit(o, &task);
}

typedef struct shape_t {
  const char *name;
  slip_orch_fn_t run;
  uint32_t tensor_count;
  int64_t tasks;
} shape_t;
enum { SHAPE_SINGLE = 6 };
static const shape_t shapes[] = {{"w1d independent", independent, 1, MANY},
                                 {"w2 chain", chain, 1, MANY},
                                 {"w3 wavefront", wavefront, 1, SIDE *SIDE},
                                 {"w4 phases", phases, 1, PHASES *LANES},
                                 {"w1 blocks", spmd, 1, MANY},
                                 {"halos", halos, 2, (int64_t)STEPS *TILES *TILES},
                                 {"single task", single, 3, 1}};
static slip_object_entry_t entries[sizeof(shapes) / sizeof(shapes[0])];

// --- Measurement --------------------------------------------------------------------------------------------------------------------

static void require(slip_status_t status) {
  if (slip_status_is_ok(status)) return;
  char text[1024];
  (void)slip_status_format(status, text, sizeof(text));
  fprintf(stderr, "%s\n", text);
  exit(1);
}

static slip_otensor_t tensor(void *data, int64_t rows, int64_t columns) {
  int64_t dims[2] = {rows ? rows : columns, columns};
  slip_otensor_t t = slip_otensor_describe(SLIP_DTYPE_U64, rows ? 2 : 1, dims);
  t.view.data = t.storage = data;
  t.storage_bytes = 8 * (uint64_t)(rows ? rows * columns : columns);
  return t;
}

static uint64_t fold(void) {
  uint64_t h = 0;
  for (int i = 0; i < (SIDE + 1) * (SIDE + 1); ++i) h = h * 31 + values[i];
  for (int i = 0; i < MANY; ++i) h = h * 31 + many[i];
  for (int i = 0; i < TILES * TILES * 16; ++i) h = h * 31 + planes[0][i] + 17 * planes[1][i];
  return h;
}

static void clear(void) {
  memset(values, 0, sizeof(values));
  memset(many, 0, sizeof(many));
  memset(planes, 0, sizeof(planes));
}

static void run_shape(slip__engine_t *engine, slip__workspace_t *workspace, const slip_object_t *object, uint32_t shape) {
  slip_otensor_t tensors[3];
  switch (shape) {
    case 0:
    case 4:
      tensors[0] = tensor(many, 0, MANY);
      break;
    case 5:
      tensors[0] = tensor(planes[0], TILES * 4, TILES * 4);
      tensors[1] = tensor(planes[1], TILES * 4, TILES * 4);
      break;
    default:
      tensors[0] = tensor(values, 0, (SIDE + 1) * (SIDE + 1));
      tensors[1] = tensor(many, 0, 1000);
      tensors[2] = tensor(planes, 0, 1000);
  }
  slip__run_t run = {.object = object, .entry = shape, .tensor_count = shapes[shape].tensor_count, .tensors = tensors};
  require(slip__engine_run(engine, workspace, &run));
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  uint32_t threads = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
  int runs = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 21;
  if (runs < 1 || runs > MAX_RUNS) runs = 21;
  uint32_t count = sizeof(shapes) / sizeof(shapes[0]);
  for (uint32_t i = 0; i < count; ++i) entries[i] = (slip_object_entry_t){shapes[i].name, shapes[i].run, shapes[i].tensor_count, 0};
  slip_object_t object = {
      SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, entries, kernels, count, sizeof(kernels) / sizeof(kernels[0]), NULL};
  slip__engine_options_t serial_options = {.serial = 1}, options = {.thread_count = threads};
  slip__workspace_options_t workspace_options = {.task_window = {16384, 16384, 16384, 16384},
                                                 .heap_bytes = {1 << 26, 1 << 26, 1 << 26, 1 << 26},
                                                 .dependency_pool = {65536, 65536, 65536, 65536}};
  slip__engine_t *serial, *engine;
  slip__workspace_t *serial_workspace, *workspace;
  require(slip__engine_create(&serial_options, &serial));
  require(slip__engine_create(&options, &engine));
  require(slip__workspace_create(serial, &workspace_options, &serial_workspace));
  require(slip__workspace_create(engine, &workspace_options, &workspace));
  static double times[sizeof(shapes) / sizeof(shapes[0])][MAX_RUNS];
  uint64_t expected[sizeof(shapes) / sizeof(shapes[0])];
  for (uint32_t i = 0; i < count; ++i) {
    clear();
    run_shape(serial, serial_workspace, &object, i);
    expected[i] = fold();
  }
  int wrong = 0;
  for (int r = -1; r < runs; ++r) {  // the first is for warmth
    for (uint32_t i = 0; i < count; ++i) {
      clear();
      int repeats = i == SHAPE_SINGLE ? 10000 : 1;
      double from = now_ns();
      for (int k = 0; k < repeats; ++k) run_shape(engine, workspace, &object, i);
      double ns = (now_ns() - from) / (double)repeats / (double)shapes[i].tasks;
      wrong += fold() != expected[i];
      if (r >= 0) times[i][r] = ns;
    }
  }
  printf("%u threads, %d runs, ns a task (work included, about 47): median best worst\n", slip__engine_thread_count(engine), runs);
  for (uint32_t i = 0; i < count; ++i) {
    qsort(times[i], (size_t)runs, sizeof(double), ascending);
    printf("%-16s %8.1f %8.1f %8.1f\n", shapes[i].name, times[i][runs / 2], times[i][0], times[i][runs - 1]);
  }
  printf("workspace %.1f MB committed\n", (double)slip__workspace_committed_bytes(workspace) / 1e6);
  printf("RESULT wrong=%d w1d_ns=%.1f w2_ns=%.1f w3_ns=%.1f w4_ns=%.1f w1spmd_ns=%.1f halos_ns=%.1f single_ns=%.1f\n", wrong,
         times[0][runs / 2], times[1][runs / 2], times[2][runs / 2], times[3][runs / 2], times[4][runs / 2], times[5][runs / 2],
         times[6][runs / 2]);
  slip__workspace_destroy(workspace);
  slip__workspace_destroy(serial_workspace);
  slip__engine_destroy(engine);
  slip__engine_destroy(serial);
  return wrong != 0;
}
