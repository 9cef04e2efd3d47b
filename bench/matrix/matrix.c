// SPDX-License-Identifier: Apache-2.0
// Four ways to compute y = x W^T for a matrix W as it is stored, [outputs][inputs]. See README.md.
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../examples/minilm/kernels/linear.h"

#define ROUNDS 25
#define LANES  MINILM_LANES
typedef minilm_vec_t vec_t;

typedef struct shape_t {
  ptrdiff_t tokens, outputs, inputs;
} shape_t;
static const shape_t shapes[] = {{32, 384, 384}, {32, 1536, 384}, {32, 384, 1536}, {128, 384, 384}, {128, 1536, 384}, {128, 384, 1536}};

typedef enum way_e { PANEL, STEPWISE, DOT, PACKED, OPENBLAS, WAYS } way_e;
static const char *const way_names[WAYS] = {"panel", "stepwise", "dot", "packed", "openblas"};

typedef struct problem_t {
  shape_t shape;
  const float *w;       // of one layer
  const float *x;       // [tokens][inputs]
  const float *panels;  // the same in panels
  const float *bias;
  float *y;
  float *pack;  // [inputs][2 * LANES]
} problem_t;

typedef void (*sgemm_fn_t)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                           const float *b, int ldb, float beta, float *c, int ldc);
static sgemm_fn_t sgemm;

static void way_panel(const problem_t *p) {
  const ptrdiff_t panels = p->shape.tokens / MINILM_PANEL;
  if (p->shape.inputs == 1536) {
    minilm_linear(p->w, p->bias, 1536, 384, 0, 384, p->panels, panels, p->y, MINILM_FINISH_BIAS);
  } else if (p->shape.outputs == 1536) {
    minilm_linear(p->w, p->bias, 384, 1536, 0, 1536, p->panels, panels, p->y, MINILM_FINISH_BIAS);
  } else {
    minilm_linear(p->w, p->bias, 384, 384, 0, 384, p->panels, panels, p->y, MINILM_FINISH_BIAS);
  }
}

// The panel tile with a branch after each step and the sums where the compiler wants them: what the unrolled steps save.
MINILM_INLINE void stepwise(const problem_t *p, ptrdiff_t depth, ptrdiff_t rows) {
  for (ptrdiff_t n = 0; n < rows; n += MINILM_ROWS) {
    for (ptrdiff_t panel = 0; panel < p->shape.tokens / MINILM_PANEL; ++panel) {
      minilm_tile_t tile;
      const float *a = p->w + n * depth, *b = p->panels + panel * depth * MINILM_PANEL;
      const char *ahead = (const char *)(a + MINILM_ROWS * depth) + (panel < 2 ? panel : 0) * (depth / 4) * 64;
      for (int r = 0; r < MINILM_ROWS; ++r) {
        for (int j = 0; j < MINILM_VECS; ++j) tile.v[r][j] = minilm_splat(p->bias[n + r]);
      }
      for (ptrdiff_t k = 0; k < depth; ++k) {
        __builtin_prefetch(ahead + k * 16, 0, 2);
#pragma GCC unroll 12
        for (int r = 0; r < MINILM_ROWS; ++r) {
#pragma GCC unroll 4
          for (int j = 0; j < MINILM_VECS; ++j) tile.v[r][j] += a[r * depth + k] * minilm_load(b + k * MINILM_PANEL + j * LANES);
        }
      }
      for (int r = 0; r < MINILM_ROWS; ++r) {
        for (int j = 0; j < MINILM_VECS; ++j) minilm_store(p->y + (panel * rows + n + r) * MINILM_PANEL + j * LANES, tile.v[r][j]);
      }
    }
  }
}

static void way_stepwise(const problem_t *p) {
  if (p->shape.inputs == 1536) {
    stepwise(p, 1536, 384);
  } else if (p->shape.outputs == 1536) {
    stepwise(p, 384, 1536);
  } else {
    stepwise(p, 384, 384);
  }
}

MINILM_INLINE float sum_lanes(vec_t v) {
#pragma GCC unroll 4
  for (int half = LANES / 2; half > 0; half /= 2) {
    minilm_ivec_t partner;
#pragma GCC unroll 16
    for (int l = 0; l < LANES; ++l) partner[l] = l ^ half;
    v += __builtin_shuffle(v, partner);
  }
  return v[0];
}

// 4 tokens x 3 outputs, vectors along the sum, summed horizontally at the end: nothing is packed.
static void way_dot(const problem_t *p) {
  const ptrdiff_t depth = p->shape.inputs;
  for (ptrdiff_t n = 0; n < p->shape.outputs; n += 3) {
    for (ptrdiff_t m = 0; m < p->shape.tokens; m += 4) {
      vec_t acc[4][3];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 3
        for (int j = 0; j < 3; ++j) acc[i][j] = minilm_splat(0.0f);
      }
      for (ptrdiff_t k = 0; k < depth; k += LANES) {
        vec_t w[3];
#pragma GCC unroll 3
        for (int j = 0; j < 3; ++j) w[j] = minilm_load(p->w + (n + j) * depth + k);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          vec_t x = minilm_load(p->x + (m + i) * depth + k);
#pragma GCC unroll 3
          for (int j = 0; j < 3; ++j) acc[i][j] += x * w[j];
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 3
        for (int j = 0; j < 3; ++j) p->y[(m + i) * p->shape.outputs + n + j] = sum_lanes(acc[i][j]) + p->bias[n + j];
      }
    }
  }
}

// 6 tokens (4 at the end) x 2 vectors of outputs, from a packed panel of W.
MINILM_INLINE void packed_tile(const problem_t *p, ptrdiff_t m, ptrdiff_t n, int tokens) {
  const ptrdiff_t depth = p->shape.inputs;
  vec_t acc[6][2];
#pragma GCC unroll 6
  for (int i = 0; i < tokens; ++i) {
    acc[i][0] = minilm_load(p->bias + n);
    acc[i][1] = minilm_load(p->bias + n + LANES);
  }
  for (ptrdiff_t k = 0; k < depth; ++k) {
    vec_t w0 = minilm_load(p->pack + k * 2 * LANES), w1 = minilm_load(p->pack + k * 2 * LANES + LANES);
#pragma GCC unroll 6
    for (int i = 0; i < tokens; ++i) {
      float x = p->x[(m + i) * depth + k];
      acc[i][0] += x * w0;
      acc[i][1] += x * w1;
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < tokens; ++i) {
    minilm_store(p->y + (m + i) * p->shape.outputs + n, acc[i][0]);
    minilm_store(p->y + (m + i) * p->shape.outputs + n + LANES, acc[i][1]);
  }
}

// Transposes LANES rows of W by LANES columns in registers: log2(LANES) rounds of shuffles.
MINILM_INLINE void pack_square(const float *w, ptrdiff_t depth, float *pack) {
  vec_t r[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; ++i) r[i] = minilm_load(w + i * depth);
#pragma GCC unroll 4
  for (int half = 1; half < LANES; half *= 2) {
    // Rows i and i + half exchange their off-diagonal blocks of |half| lanes.
    minilm_ivec_t upper, lower;
#pragma GCC unroll 16
    for (int l = 0; l < LANES; ++l) {
      upper[l] = (l & half) ? LANES + l - half : l;
      lower[l] = (l & half) ? LANES + l : l + half;
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) {
      if (i & half) continue;
      vec_t a = r[i], b = r[i + half];
      r[i] = __builtin_shuffle(a, b, upper);
      r[i + half] = __builtin_shuffle(a, b, lower);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < LANES; ++i) minilm_store(pack + i * 2 * LANES, r[i]);
}

static void way_packed(const problem_t *p) {
  const ptrdiff_t depth = p->shape.inputs;
  for (ptrdiff_t n = 0; n < p->shape.outputs; n += 2 * LANES) {
    for (ptrdiff_t k = 0; k < depth; k += LANES) {
      pack_square(p->w + n * depth + k, depth, p->pack + k * 2 * LANES);
      pack_square(p->w + (n + LANES) * depth + k, depth, p->pack + k * 2 * LANES + LANES);
    }
    ptrdiff_t m = 0;
    for (; m + 6 <= p->shape.tokens; m += 6) packed_tile(p, m, n, 6);
    for (; m < p->shape.tokens; m += 2) packed_tile(p, m, n, 2);
  }
}

static void way_openblas(const problem_t *p) {
  const int m = (int)p->shape.tokens, n = (int)p->shape.outputs, k = (int)p->shape.inputs;
  sgemm(101, 111, 112, m, n, k, 1.0f, p->x, k, p->w, k, 0.0f, p->y, n);  // row-major, plain, transposed
}

static void (*const ways[WAYS])(const problem_t *) = {way_panel, way_stepwise, way_dot, way_packed, way_openblas};

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static float *numbers(ptrdiff_t count) {
  float *p = aligned_alloc(64, (size_t)((count * 4 + 63) / 64 * 64));
  if (!p) {
    fprintf(stderr, "matrix: out of memory\n");
    _Exit(1);
  }
  for (ptrdiff_t i = 0; i < count; ++i) p[i] = (float)((i * 7919) % 1000) * 1e-3f - 0.5f;
  return p;
}

// Largest difference of |way|'s result from sums in double.
static double error_of(const problem_t *p, way_e way) {
  double worst = 0.0;
  ways[way](p);
  for (ptrdiff_t m = 0; m < p->shape.tokens; m += 5) {
    for (ptrdiff_t n = 0; n < p->shape.outputs; ++n) {
      double sum = way == OPENBLAS ? 0.0 : (double)p->bias[n];
      for (ptrdiff_t k = 0; k < p->shape.inputs; ++k) sum += (double)p->x[m * p->shape.inputs + k] * (double)p->w[n * p->shape.inputs + k];
      ptrdiff_t at =
          way <= STEPWISE ? (m / MINILM_PANEL * p->shape.outputs + n) * MINILM_PANEL + m % MINILM_PANEL : m * p->shape.outputs + n;
      worst = fmax(worst, fabs(sum - (double)p->y[at]));
    }
  }
  return worst;
}

static int time_order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

// Seconds of each way for |shape|: per layer the best of the rounds, averaged over the layers, and the median of all. False if a result is
// wrong.
static int measure(shape_t shape, double *out_best_s, double *out_median_s) {
  const ptrdiff_t size = shape.outputs * shape.inputs, layers = size > 384 * 384 ? 20 : 40;
  static double best[WAYS][40], all[WAYS][40 * ROUNDS];
  float *w = numbers(layers * size), *x = numbers(shape.tokens * shape.inputs), *panels = numbers(shape.tokens * shape.inputs);
  problem_t p = {shape, w, x, panels, numbers(1536), numbers(shape.tokens * shape.outputs), numbers(shape.inputs * 2 * LANES)};
  int right = 1;
  for (ptrdiff_t m = 0; m < shape.tokens; ++m) {
    for (ptrdiff_t k = 0; k < shape.inputs; ++k) {
      panels[(m / MINILM_PANEL * shape.inputs + k) * MINILM_PANEL + m % MINILM_PANEL] = x[m * shape.inputs + k];
    }
  }
  for (int way = 0; way < WAYS; ++way) {
    if (way == OPENBLAS && !sgemm) continue;
    double error = error_of(&p, (way_e)way);
    if (!(error < 1e-3)) {
      fprintf(stderr, "matrix: %s is wrong by %g\n", way_names[way], error);
      right = 0;
    }
  }
  for (int round = 0; round < ROUNDS; ++round) {
    for (int way = 0; way < WAYS; ++way) {
      if (way == OPENBLAS && !sgemm) continue;
      for (ptrdiff_t layer = 0; layer < layers; ++layer) {
        p.w = w + layer * size;
        double start = now_s();
        ways[way](&p);
        double time = now_s() - start;
        all[way][round * layers + layer] = time;
        if (round == 0 || time < best[way][layer]) best[way][layer] = time;
      }
    }
  }
  for (int way = 0; way < WAYS; ++way) {
    out_best_s[way] = 0.0;
    for (ptrdiff_t layer = 0; layer < layers; ++layer) out_best_s[way] += best[way][layer] / (double)layers;
    qsort(all[way], (size_t)(ROUNDS * layers), sizeof(double), time_order);
    out_median_s[way] = all[way][ROUNDS * layers / 2];
  }
  free(w);
  free(x);
  free(panels);
  free((void *)(uintptr_t)p.bias);
  free(p.y);
  free(p.pack);
  return right;
}

int main(void) {
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, "cblas_sgemm") : NULL;
  memcpy(&sgemm, &symbol, sizeof(sgemm));
  if (!sgemm) printf("OpenBLAS is not installed: left out\n");
  double logs[WAYS] = {0}, median_logs[WAYS] = {0}, count = sizeof(shapes) / sizeof(shapes[0]);
  printf("%-24s", "tokens outputs inputs");
  for (int way = 0; way < WAYS; ++way) printf(" %15s", way_names[way]);
  printf("   GF/s, best and median\n");
  for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); ++i) {
    double best[WAYS], median[WAYS], flops = 2.0 * (double)(shapes[i].tokens * shapes[i].outputs * shapes[i].inputs);
    if (!measure(shapes[i], best, median)) return 1;
    printf("%6td x %5td x %5td  ", shapes[i].tokens, shapes[i].outputs, shapes[i].inputs);
    for (int way = 0; way < WAYS; ++way) {
      if (way == OPENBLAS && !sgemm) continue;
      printf(" %7.1f %7.1f", flops / best[way] * 1e-9, flops / median[way] * 1e-9);
      logs[way] += log(flops / best[way] * 1e-9) / count;
      median_logs[way] += log(flops / median[way] * 1e-9) / count;
    }
    printf("\n");
  }
  printf(
      "RESULT panel_gflops=%.1f panel_median_gflops=%.1f ratio_stepwise=%.2f ratio_stepwise_median=%.2f ratio_dot=%.2f ratio_packed=%.2f",
      exp(logs[PANEL]), exp(median_logs[PANEL]), exp(logs[PANEL] - logs[STEPWISE]), exp(median_logs[PANEL] - median_logs[STEPWISE]),
      exp(logs[PANEL] - logs[DOT]), exp(logs[PANEL] - logs[PACKED]));
  if (sgemm) printf(" ratio_openblas=%.2f", exp(logs[PANEL] - logs[OPENBLAS]));
  printf("\n");
  return 0;
}
