// SPDX-License-Identifier: Apache-2.0
// What every program of this benchmark shares: the unit of work, the workloads as plain loops, timing, checking and the row format.
// C and C++; everything inline, because each peer is a program of its own, built by its own compiler.
//
// A workload computes on one array of 64-bit words. Its plain loop is the reference: whatever order a runtime finds, each word must come
// out the same. All depend on the words' earlier contents, so that a task that runs too early or twice is seen.
#ifndef SLIP_BENCH_GRAPH_WORK_H_
#define SLIP_BENCH_GRAPH_WORK_H_

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BENCH_MANY       100000  // tasks of w1, w1d and w2
#define BENCH_SIDE       300     // w3: SIDE x SIDE cells inside a border
#define BENCH_GRAIN_SIDE 150     // the wavefront in the search for the smallest useful task
#define BENCH_PHASES     1000    // w4
#define BENCH_LANES      64      // w4: tasks a phase
#define BENCH_NODES      1000    // w5: tasks of the random graph
#define BENCH_REPEATS    200     // w5: times that it is run, each to its end
#define BENCH_PARENTS    3       // w5: most predecessors of a task
#define BENCH_REACH      64      // w5: how far back a predecessor may lie
#define BENCH_TILES      24      // halos: tiles a side, of 4 x 4 words
#define BENCH_STEPS      50      // halos: steps between the two planes
#define BENCH_PLANE      (BENCH_TILES * BENCH_TILES * 16)
#define BENCH_ROUNDS     25  // about 47 ns on a Zen 3 core at 3.4 GHz

static int bench_rounds = BENCH_ROUNDS;

// A chain of dependent multiplications: no compiler or core can make it shorter.
static __attribute__((noinline, unused)) uint64_t bench_work(uint64_t x) {
  for (int i = 0; i < bench_rounds; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    x ^= x >> 29;
  }
  return x;
}

static inline double bench_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int bench_ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static inline double bench_median(double *values, int count) {
  qsort(values, (size_t)count, sizeof(double), bench_ascending);
  return values[count / 2];
}

// --- The random graph of w5: always the same one ------------------------------------------------------------------------------------

typedef struct bench_node_t {
  int parent_count;
  int parents[BENCH_PARENTS];
} bench_node_t;
static bench_node_t bench_nodes[BENCH_NODES];

static inline uint64_t bench_random(uint64_t *state) {  // splitmix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Each task but the first has one to three different predecessors among the BENCH_REACH before it. Returns the number of edges.
static inline int bench_make_nodes(void) {
  uint64_t state = 2026;
  int edges = 0;
  for (int i = 1; i < BENCH_NODES; ++i) {
    bench_node_t *node = &bench_nodes[i];
    int first = i > BENCH_REACH ? i - BENCH_REACH : 0, wanted = 1 + (int)(bench_random(&state) % BENCH_PARENTS);
    node->parent_count = 0;
    for (int k = 0; k < wanted; ++k) {
      int parent = first + (int)(bench_random(&state) % (uint64_t)(i - first)), known = 0;
      for (int q = 0; q < node->parent_count; ++q) known |= node->parents[q] == parent;
      if (!known) node->parents[node->parent_count++] = parent;
    }
    edges += node->parent_count;
  }
  return edges;
}

// --- One task of each workload ------------------------------------------------------------------------------------------------------

// w1, w1d and w4: word |i| from itself.
static inline void bench_task_own(uint64_t *v, int64_t i) {
  v[i] = bench_work(v[i] + (uint64_t)i);
}
// w2: word 0 from itself.
static inline void bench_task_link(uint64_t *v) {
  v[0] = bench_work(v[0]);
}
// w3: a cell from the one above and the one to the left. Rows are |side| + 1 words; row 0 and column 0 are the border.
static inline void bench_task_cell(uint64_t *v, int64_t side, int64_t row, int64_t column) {
  uint64_t *cell = v + row * (side + 1) + column;
  *cell = bench_work(*(cell - (side + 1)) + *(cell - 1));
}
// w5: word |i| from its predecessors' and itself.
static inline void bench_task_node(uint64_t *v, int i) {
  uint64_t sum = v[i] + (uint64_t)i;
  for (int k = 0; k < bench_nodes[i].parent_count; ++k) sum += v[bench_nodes[i].parents[k]];
  v[i] = bench_work(sum);
}
// halos: a tile's first word from the rim of its neighbourhood in the other plane.
static inline void bench_halo(uint64_t *out, const uint64_t *in, int64_t rows, int64_t columns, int64_t stride, uint64_t salt) {
  uint64_t sum = salt;
  for (int64_t i = 0; i < rows; ++i) sum += in[i * stride] + 3 * in[i * stride + columns - 1];
  *out = bench_work(sum);
}
// Rows or columns of a tile's neighbourhood: its own four and a rim of one, as far as there is one.
static inline void bench_rim(int64_t tile, int64_t *out_first, int64_t *out_count) {
  int64_t first = tile ? tile * 4 - 1 : 0, end = tile + 1 < BENCH_TILES ? tile * 4 + 5 : BENCH_TILES * 4;
  *out_first = first;
  *out_count = end - first;
}
// Tile |i|, |j| in step |step|; |v| holds both planes.
static inline void bench_task_halo(uint64_t *v, int64_t step, int64_t i, int64_t j) {
  const int64_t stride = (int64_t)BENCH_TILES * 4;
  const uint64_t *from = v + (step & 1) * BENCH_PLANE;
  uint64_t *to = v + !(step & 1) * BENCH_PLANE;
  int64_t top, rows, left, columns;
  bench_rim(i, &top, &rows);
  bench_rim(j, &left, &columns);
  bench_halo(to + i * 4 * stride + j * 4, from + top * stride + left, rows, columns, stride, (uint64_t)(i * BENCH_TILES + j));
}

// --- The workloads as plain loops: reference and lower bound of one thread ------------------------------------------------------------

static inline void bench_plain_independent(uint64_t *v, int64_t count) {
  for (int64_t i = 0; i < count; ++i) bench_task_own(v, i);
}
static inline void bench_plain_chain(uint64_t *v, int64_t count) {
  for (int64_t i = 0; i < count; ++i) bench_task_link(v);
}
static inline void bench_plain_wavefront(uint64_t *v, int64_t side) {
  for (int64_t i = 1; i <= side; ++i) {
    for (int64_t j = 1; j <= side; ++j) bench_task_cell(v, side, i, j);
  }
}
static inline void bench_plain_phases(uint64_t *v, int64_t phases) {
  for (int64_t p = 0; p < phases; ++p) {
    for (int64_t i = 0; i < BENCH_LANES; ++i) bench_task_own(v, i);
  }
}
static inline void bench_plain_nodes(uint64_t *v, int64_t repeats) {
  for (int64_t r = 0; r < repeats; ++r) {
    for (int i = 0; i < BENCH_NODES; ++i) bench_task_node(v, i);
  }
}
static inline void bench_plain_halos(uint64_t *v, int64_t steps) {
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < BENCH_TILES; ++i) {
      for (int64_t j = 0; j < BENCH_TILES; ++j) bench_task_halo(v, step, i, j);
    }
  }
}

// --- Rows ---------------------------------------------------------------------------------------------------------------------------

typedef void (*bench_run_t)(uint64_t *words, int64_t size);

typedef struct bench_workload_t {
  const char *name;
  int64_t size;   // what |plain| takes: tasks, cells a side, phases or repeats
  int64_t tasks;  // of one run
  int64_t words;  // of the array
  bench_run_t plain;
} bench_workload_t;

#define BENCH_WORDS(side) (((int64_t)(side) + 1) * ((int64_t)(side) + 1))
enum { BENCH_W1, BENCH_W2, BENCH_W3, BENCH_W4, BENCH_W5, BENCH_HALOS };
static const bench_workload_t bench_workloads[] = {
    {"w1", BENCH_MANY, BENCH_MANY, BENCH_MANY, bench_plain_independent},
    {"w2", BENCH_MANY, BENCH_MANY, 1, bench_plain_chain},
    {"w3", BENCH_SIDE, (int64_t)BENCH_SIDE *BENCH_SIDE, BENCH_WORDS(BENCH_SIDE), bench_plain_wavefront},
    {"w4", BENCH_PHASES, (int64_t)BENCH_PHASES *BENCH_LANES, BENCH_LANES, bench_plain_phases},
    {"w5", BENCH_REPEATS, (int64_t)BENCH_REPEATS *BENCH_NODES, BENCH_NODES, bench_plain_nodes},
    {"halos", BENCH_STEPS, (int64_t)BENCH_STEPS *BENCH_TILES *BENCH_TILES, 2 * BENCH_PLANE, bench_plain_halos},
};

// The array before a run: small different numbers, the border of the wavefront among them.
static inline void bench_start(uint64_t *v, int64_t words) {
  for (int64_t i = 0; i < words; ++i) v[i] = (uint64_t)(i & 1023);
}
static inline uint64_t bench_fold(const uint64_t *v, int64_t words) {
  uint64_t h = 0;
  for (int64_t i = 0; i < words; ++i) h = h * 31 + v[i];
  return h;
}
static inline uint64_t bench_expected(const bench_workload_t *workload, uint64_t *v) {
  bench_start(v, workload->words);
  workload->plain(v, workload->size);
  return bench_fold(v, workload->words);
}
static inline uint64_t *bench_array(int64_t words) {
  uint64_t *v = (uint64_t *)calloc((size_t)words, sizeof(uint64_t));
  if (!v) {
    fprintf(stderr, "no memory for %lld words\n", (long long)words);
    exit(1);
  }
  return v;
}

// One measured run, for the driver (`compare.py`): workload, ns a task, whether the result was right.
static inline int bench_report(const char *name, double ns_per_task, int right) {
  printf("row,%s,%.2f,%s\n", name, ns_per_task, right ? "ok" : "WRONG");
  fflush(stdout);
  return !right;
}

// Runs |run| once for warmth and |runs| times measured, each checked against the plain loop, and reports them as |name|.
// Returns the number of wrong results.
static inline int bench_rows(const char *name, const bench_workload_t *workload, int runs, bench_run_t run) {
  uint64_t *v = bench_array(workload->words);
  uint64_t expected = bench_expected(workload, v);
  int wrong = 0;
  for (int r = -1; r < runs; ++r) {
    bench_start(v, workload->words);
    double from = bench_now_ns();
    run(v, workload->size);
    double ns = (bench_now_ns() - from) / (double)workload->tasks;
    int right = bench_fold(v, workload->words) == expected;
    if (r >= 0) wrong += bench_report(name, ns, right);
  }
  free(v);
  return wrong;
}

// --- The smallest useful task -------------------------------------------------------------------------------------------------------

// Medians of |runs| wavefronts, plain and with |run|, at the present number of rounds: ns a task. A wrong result ends the program.
static inline void bench_compare(uint64_t *v, int runs, bench_run_t run, double *out_plain, double *out_run) {
  const int64_t side = BENCH_GRAIN_SIDE, words = BENCH_WORDS(side);
  double plain[15], other[15];
  for (int r = 0; r < runs; ++r) {
    bench_start(v, words);
    double from = bench_now_ns();
    bench_plain_wavefront(v, side);
    plain[r] = (bench_now_ns() - from) / (double)(side * side);
    uint64_t expected = bench_fold(v, words);
    bench_start(v, words);
    from = bench_now_ns();
    run(v, side);
    other[r] = (bench_now_ns() - from) / (double)(side * side);
    if (bench_fold(v, words) != expected) {
      fprintf(stderr, "wrong result of the wavefront with %d rounds\n", bench_rounds);
      exit(1);
    }
  }
  *out_plain = bench_median(plain, runs);
  *out_run = bench_median(other, runs);
}

// The plain loop's ns a task from which on two threads with |run|, which does the wavefront, are no slower than the plain loop on one: half
// of what they could give. Found by doubling the rounds, then halving the range.
static inline double bench_smallest(int runs, bench_run_t run) {
  uint64_t *v = bench_array(BENCH_WORDS(BENCH_GRAIN_SIDE));
  double plain = 0, other, grain = 0;
  int low = 0, high = 4;
  if (runs > 15) runs = 15;
  for (;; low = high, high *= 2) {
    bench_rounds = high;
    bench_compare(v, runs, run, &plain, &other);
    if (other <= plain || high >= 1 << 12) break;
  }
  grain = plain;
  while (high - low > 1 + low / 16) {
    bench_rounds = (low + high) / 2;
    bench_compare(v, runs, run, &plain, &other);
    if (other <= plain) {
      high = bench_rounds;
      grain = plain;
    } else {
      low = bench_rounds;
    }
  }
  bench_rounds = BENCH_ROUNDS;
  free(v);
  return grain;
}

#endif  // SLIP_BENCH_GRAPH_WORK_H_
