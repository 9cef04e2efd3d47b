// SPDX-License-Identifier: Apache-2.0
// The workloads as OpenMP tasks: one submitter inside a parallel region, which helps when it waits. Built once with gcc (libgomp) and once
// with clang (libomp).
#include <omp.h>

#include "decoder.h"
#include "work.h"

// --- Independent --------------------------------------------------------------------------------------------------------------------

// Tasks without dependences: less than what the others are asked for.
static void omp_tasks(uint64_t *v, int64_t count) {
#pragma omp parallel
#pragma omp single
  for (int64_t i = 0; i < count; ++i) {
#pragma omp task firstprivate(v, i)
    bench_task_own(v, i);
  }
}
static void omp_independent(uint64_t *v, int64_t count) {
#pragma omp parallel
#pragma omp single
  for (int64_t i = 0; i < count; ++i) {
#pragma omp task firstprivate(v, i) depend(inout : v[i])
    bench_task_own(v, i);
  }
}
static void omp_loop(uint64_t *v, int64_t count) {
#pragma omp parallel
#pragma omp single
#pragma omp taskloop
  for (int64_t i = 0; i < count; ++i) bench_task_own(v, i);
}

// --- Chain, wavefront, phases, random graph -----------------------------------------------------------------------------------------

static void omp_chain(uint64_t *v, int64_t count) {
#pragma omp parallel
#pragma omp single
  for (int64_t i = 0; i < count; ++i) {
#pragma omp task firstprivate(v) depend(inout : v[0])
    bench_task_link(v);
  }
}
static void omp_wavefront(uint64_t *v, int64_t side) {
#pragma omp parallel
#pragma omp single
  for (int64_t i = 1; i <= side; ++i) {
    for (int64_t j = 1; j <= side; ++j) {
      uint64_t *cell = v + i * (side + 1) + j, *up = cell - (side + 1), *left = cell - 1;
#pragma omp task firstprivate(cell, up, left) depend(in : up[0], left[0]) depend(out : cell[0])
      *cell = bench_work(*up + *left);
    }
  }
}
// The usual way to write phases: a barrier for the tasks of each.
static void omp_phases(uint64_t *v, int64_t phases) {
#pragma omp parallel
#pragma omp single
  for (int64_t p = 0; p < phases; ++p) {
    for (int64_t i = 0; i < BENCH_LANES; ++i) {
#pragma omp task firstprivate(v, i)
      bench_task_own(v, i);
    }
#pragma omp taskwait
  }
}
static void omp_node(uint64_t *v, int i) {
  const int *p = bench_nodes[i].parents;
  switch (bench_nodes[i].parent_count) {
    case 0:
#pragma omp task firstprivate(v, i) depend(inout : v[i])
      bench_task_node(v, i);
      break;
    case 1:
#pragma omp task firstprivate(v, i) depend(inout : v[i]) depend(in : v[p[0]])
      bench_task_node(v, i);
      break;
    case 2:
#pragma omp task firstprivate(v, i) depend(inout : v[i]) depend(in : v[p[0]], v[p[1]])
      bench_task_node(v, i);
      break;
    default:
#pragma omp task firstprivate(v, i) depend(inout : v[i]) depend(in : v[p[0]], v[p[1]], v[p[2]])
      bench_task_node(v, i);
  }
}
static void omp_random_graph(uint64_t *v, int64_t repeats) {
#pragma omp parallel
#pragma omp single
  for (int64_t r = 0; r < repeats; ++r) {
    for (int i = 0; i < BENCH_NODES; ++i) omp_node(v, i);
#pragma omp taskwait
  }
}

// Boxes are not known here: the task is given the first word of each tile that its neighbourhood meets.
static void omp_halo(uint64_t *v, int64_t step, int64_t i, int64_t j) {
  uint64_t *met[9], *own = v + !(step & 1) * BENCH_PLANE + i * 16 * BENCH_TILES + j * 4;
  int count = 0;
  for (int64_t y = i ? i - 1 : 0; y <= i + 1 && y < BENCH_TILES; ++y) {
    for (int64_t x = j ? j - 1 : 0; x <= j + 1 && x < BENCH_TILES; ++x) {
      met[count++] = v + (step & 1) * BENCH_PLANE + y * 16 * BENCH_TILES + x * 4;
    }
  }
#pragma omp task firstprivate(v, step, i, j) depend(iterator(k = 0 : count), in : met[k][0]) depend(inout : own[0])
  bench_task_halo(v, step, i, j);
}
static void omp_halos(uint64_t *v, int64_t steps) {
#pragma omp parallel
#pragma omp single
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < BENCH_TILES; ++i) {
      for (int64_t j = 0; j < BENCH_TILES; ++j) omp_halo(v, step, i, j);
    }
  }
}

// --- Decoder: the tiles that a box covers, listed before the clock starts -------------------------------------------------------------

static float *omp_reads[DECODER_TASKS][DECODER_MAX_TILES], *omp_writes[DECODER_TASKS][DECODER_MAX_TILES];
static int omp_read_counts[DECODER_TASKS], omp_write_counts[DECODER_TASKS];

static void omp_list_tiles(void) {
  for (int i = 0; i < DECODER_TASKS; ++i) {
    const decoder_task_t *t = &decoder_tasks()[i];
    for (int k = 0; k < t->read_count; ++k) omp_read_counts[i] += decoder_box_tiles(&t->read[k], omp_reads[i] + omp_read_counts[i]);
    omp_write_counts[i] = decoder_box_tiles(&t->write, omp_writes[i]);
  }
}
static void omp_decoder(uint64_t *v, int64_t size) {
  (void)size;
  decoder_reset();
#pragma omp parallel
#pragma omp single
  for (int i = 0; i < DECODER_TASKS; ++i) {
    float **reads = omp_reads[i], **writes = omp_writes[i];
    int in = omp_read_counts[i], out = omp_write_counts[i];
#pragma omp task firstprivate(i) depend(iterator(k = 0 : in), in : reads[k][0]) depend(iterator(k = 0 : out), out : writes[k][0])
    decoder_run_task(i);
  }
  v[0] = decoder_hash();
}
static void plain_decoder(uint64_t *v, int64_t size) {
  (void)size;
  decoder_reset();
  for (int i = 0; i < DECODER_TASKS; ++i) decoder_run_task(i);
  v[0] = decoder_hash();
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const char *name = argv[1];
  int runs = (int)strtol(argv[2], NULL, 10);
  const struct {
    const char *name;
    int workload;
    bench_run_t run;
  } table[] = {{"w1", BENCH_W1, omp_tasks},        {"w1d", BENCH_W1, omp_independent}, {"w1loop", BENCH_W1, omp_loop},
               {"w2", BENCH_W2, omp_chain},        {"w3", BENCH_W3, omp_wavefront},    {"w4", BENCH_W4, omp_phases},
               {"w5", BENCH_W5, omp_random_graph}, {"halos", BENCH_HALOS, omp_halos}};
  (void)bench_make_nodes();
  if (strcmp(name, "smallest") == 0) return bench_report(name, bench_smallest(runs, omp_wavefront), 1);
  if (strcmp(name, "decoder") == 0) {
    const bench_workload_t decoder = {"decoder", 0, DECODER_TASKS, 1, plain_decoder};
    decoder_initialize();
    omp_list_tiles();
    return bench_rows(name, &decoder, runs, omp_decoder) != 0;
  }
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); ++i) {
    if (strcmp(name, table[i].name) == 0) return bench_rows(name, &bench_workloads[table[i].workload], runs, table[i].run) != 0;
  }
  return 2;
}
