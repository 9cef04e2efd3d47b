// SPDX-License-Identifier: Apache-2.0
#include "shapes.h"

#include "work.h"

static double bench_last_submit_ns;

void bench_shapes_initialize(void) {
  (void)bench_make_nodes();
}
double bench_submit_ns(void) {
  return bench_last_submit_ns;
}
void bench_shapes_set_rounds(int rounds) {
  bench_rounds = rounds;
}

// --- Kernels ------------------------------------------------------------------------------------------------------------------------

static void bench_kernel_own(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  uint64_t *x = args->tensors[0].data;
  *x = bench_work(*x + args->scalars[0]);
}
static void bench_kernel_blocks(const slip_kargs_t *args, slip_block_t block) {
  bench_task_own(args->tensors[0].data, block.index);
}
static void bench_kernel_link(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  bench_task_link(args->tensors[0].data);
}
static void bench_kernel_cell(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  *(uint64_t *)args->tensors[2].data = bench_work(*(uint64_t *)args->tensors[0].data + *(uint64_t *)args->tensors[1].data);
}
static void bench_kernel_node(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  uint64_t *x = args->tensors[0].data, sum = *x + args->scalars[0];
  for (uint32_t k = 1; k < args->tensor_count; ++k) sum += *(uint64_t *)args->tensors[k].data;
  *x = bench_work(sum);
}
static void bench_kernel_halo(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *in = &args->tensors[0];
  bench_halo(args->tensors[1].data, in->data, in->dims[0], in->dims[1], in->strides[0], args->scalars[0]);
}
static void bench_kernel_nothing(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
}

enum { OWN, BLOCKS, LINK, CELL, NODE0, NODE1, NODE2, NODE3, HALO, NOTHING };
static const slip_object_kernel_t kernels[] = {
    {"own", bench_kernel_own, 0, 0, 1, 1},         {"blocks", bench_kernel_blocks, 0, 0, 1, 0}, {"link", bench_kernel_link, 0, 0, 1, 0},
    {"cell", bench_kernel_cell, 0, 0, 3, 0},       {"node0", bench_kernel_node, 0, 0, 1, 1},    {"node1", bench_kernel_node, 0, 0, 2, 1},
    {"node2", bench_kernel_node, 0, 0, 3, 1},      {"node3", bench_kernel_node, 0, 0, 4, 1},    {"halo", bench_kernel_halo, 0, 0, 2, 1},
    {"nothing", bench_kernel_nothing, 0, 0, 3, 0},
};

uint32_t bench_node_kernel(int parent_count) {
  return NODE0 + (uint32_t)parent_count;
}
uint32_t bench_cell_kernel(void) {
  return CELL;
}

// --- Orchestrations -----------------------------------------------------------------------------------------------------------------

// One word of |all|: moved on by bench_move().
static slip_otensor_t bench_word(const slip_otensor_t *all) {
  slip_otensor_t one = *all;
  one.view.dims[0] = 1;
  return one;
}
static inline void bench_move(slip_otensor_t *word, int64_t index) {
  word->view.data = (uint64_t *)word->storage + index;
}

static void bench_independent(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_otensor_t x = bench_word(&args->tensors[0]);
  for (int64_t i = 0, n = (int64_t)args->scalars[0]; i < n; ++i) {
    bench_move(&x, i);
    slip_task_begin(&task, OWN, 1);
    slip_task_inout(&task, &x);
    slip_task_scalar(&task, (uint64_t)i);
    slip_task_submit(o, &task);
  }
}
static void bench_blocks(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_task_begin(&task, BLOCKS, (uint32_t)args->scalars[0]);
  slip_task_inout(&task, &args->tensors[0]);
  slip_task_submit(o, &task);
}
static void bench_chain(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_otensor_t x = bench_word(&args->tensors[0]);
  for (int64_t i = 0, n = (int64_t)args->scalars[0]; i < n; ++i) {
    slip_task_begin(&task, LINK, 1);
    slip_task_inout(&task, &x);
    slip_task_submit(o, &task);
  }
}
static void bench_wavefront(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  const int64_t side = (int64_t)args->scalars[0], row = side + 1;
  slip_otensor_t up = bench_word(&args->tensors[0]), left = up, x = up;
  for (int64_t i = 1; i <= side; ++i) {
    for (int64_t j = 1; j <= side; ++j) {
      bench_move(&up, (i - 1) * row + j);
      bench_move(&left, i * row + j - 1);
      bench_move(&x, i * row + j);
      slip_task_begin(&task, CELL, 1);
      slip_task_in(&task, &up);
      slip_task_in(&task, &left);
      slip_task_out_existing(&task, &x);
      slip_task_submit(o, &task);
    }
  }
}
static void bench_phases(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_otensor_t x = bench_word(&args->tensors[0]);
  for (int64_t p = 0, n = (int64_t)args->scalars[0]; p < n; ++p) {
    for (int64_t i = 0; i < BENCH_LANES; ++i) {
      bench_move(&x, i);
      slip_task_begin(&task, OWN, 1);
      slip_task_inout(&task, &x);
      slip_task_scalar(&task, (uint64_t)i);
      slip_task_submit(o, &task);
    }
  }
}
static void bench_random_graph(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_otensor_t x = bench_word(&args->tensors[0]), parents[BENCH_PARENTS] = {x, x, x};
  for (int i = 0; i < BENCH_NODES; ++i) {
    const bench_node_t *node = &bench_nodes[i];
    bench_move(&x, i);
    slip_task_begin(&task, NODE0 + (uint32_t)node->parent_count, 1);
    slip_task_inout(&task, &x);
    for (int k = 0; k < node->parent_count; ++k) {
      bench_move(&parents[k], node->parents[k]);
      slip_task_in(&task, &parents[k]);
    }
    slip_task_scalar(&task, (uint64_t)i);
    slip_task_submit(o, &task);
  }
}

// Each step a tile reads its neighbourhood in one plane and writes itself in the other.
static void bench_halos(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  for (int64_t step = 0, n = (int64_t)args->scalars[0]; step < n; ++step) {
    slip_otensor_t from = args->tensors[step & 1], to = args->tensors[!(step & 1)];
    for (int64_t i = 0; i < BENCH_TILES; ++i) {
      for (int64_t j = 0; j < BENCH_TILES; ++j) {
        int64_t top, rows, left, columns;
        bench_rim(i, &top, &rows);
        bench_rim(j, &left, &columns);
        slip_otensor_t in = slip_otensor_slice(o, slip_otensor_slice(o, from, 0, top, rows), 1, left, columns);
        slip_otensor_t out = slip_otensor_slice(o, slip_otensor_slice(o, to, 0, i * 4, 4), 1, j * 4, 4);
        slip_task_begin(&task, HALO, 1);
        slip_task_in(&task, &in);
        slip_task_inout(&task, &out);
        slip_task_scalar(&task, (uint64_t)(i * BENCH_TILES + j));
        slip_task_submit(o, &task);
      }
    }
  }
}

static void bench_submit(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_otensor_t a = bench_word(&args->tensors[0]), b = a, c = a;
  double from = bench_now_ns();
  for (int64_t i = 0, n = (int64_t)args->scalars[0]; i < n; ++i) {
    bench_move(&a, i & 63);
    bench_move(&b, 64 + (i & 63));
    bench_move(&c, 128 + (i & 63));
    slip_task_begin(&task, NOTHING, 1);
    slip_task_in(&task, &a);
    slip_task_in(&task, &b);
    slip_task_inout(&task, &c);
    slip_task_submit(o, &task);
  }
  bench_last_submit_ns = bench_now_ns() - from;
}
static void bench_single(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_task_begin(&task, NOTHING, 1);
  slip_task_in(&task, &args->tensors[0]);
  slip_task_in(&task, &args->tensors[1]);
  slip_task_out_existing(&task, &args->tensors[2]);
  slip_task_submit(o, &task);
}

static const slip_object_entry_t entries[BENCH_ENTRY_COUNT] = {
    [BENCH_ENTRY_INDEPENDENT] = {"independent", bench_independent, 1, 1},
    [BENCH_ENTRY_BLOCKS] = {"blocks", bench_blocks, 1, 1},
    [BENCH_ENTRY_CHAIN] = {"chain", bench_chain, 1, 1},
    [BENCH_ENTRY_WAVEFRONT] = {"wavefront", bench_wavefront, 1, 1},
    [BENCH_ENTRY_PHASES] = {"phases", bench_phases, 1, 1},
    [BENCH_ENTRY_NODES] = {"nodes", bench_random_graph, 1, 1},
    [BENCH_ENTRY_HALOS] = {"halos", bench_halos, 2, 1},
    [BENCH_ENTRY_SUBMIT] = {"submit", bench_submit, 1, 1},
    [BENCH_ENTRY_SINGLE] = {"single", bench_single, 3, 1},
};
const slip_object_t bench_object = {SLIP_OBJECT_MAGIC,
                                    sizeof(slip_object_t),
                                    SLIP_ORCH_ABI_VERSION,
                                    entries,
                                    kernels,
                                    BENCH_ENTRY_COUNT,
                                    sizeof(kernels) / sizeof(kernels[0]),
                                    NULL};
