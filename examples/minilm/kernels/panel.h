// SPDX-License-Identifier: Apache-2.0
// The layout of every activation, and the register tile that all matrix products here are made of.
//
// Activations lie in *panels* of 16 tokens: tensor [panels][features][16], so that a vector holds one feature of neighbouring tokens. In
// this layout y = x W^T needs no packing and no transposition at either end: a row tile of W, as stored in the file, is broadcast element
// by element against the panel, and the result is a panel again. Sums over features (layer norm, softmax, pooling) run down a lane and need
// no horizontal step.
//
// Tokens of all sentences of the batch follow each other without gaps: padding is never computed, whatever the mask looks like.
#ifndef MINILM_KERNELS_PANEL_H_
#define MINILM_KERNELS_PANEL_H_

#include "simd.h"

#define MINILM_PANEL        16                             // tokens per panel
#define MINILM_VECS         (MINILM_PANEL / MINILM_LANES)  // vectors per panel row
#define MINILM_STEPS        8                              // of a product's sum, without a branch between them
#define MINILM_HIDDEN       384
#define MINILM_INNER        1536
#define MINILM_HEADS        12
#define MINILM_HEAD         32   // features per head
#define MINILM_MAX_SEQUENCE 512  // rows of the position table

typedef struct minilm_row_t {
  minilm_vec_t v[MINILM_VECS];
} minilm_row_t;  // one feature of a panel

MINILM_INLINE minilm_row_t minilm_row_load(const float *p) {
  minilm_row_t r;
  for (int j = 0; j < MINILM_VECS; ++j) r.v[j] = minilm_load(p + j * MINILM_LANES);
  return r;
}
MINILM_INLINE void minilm_row_store(float *p, minilm_row_t r) {
  for (int j = 0; j < MINILM_VECS; ++j) minilm_store(p + j * MINILM_LANES, r.v[j]);
}

// Accumulators of a tile of |rows| (a constant) weight rows by one panel. Members past |rows| are never touched, so they take no register.
typedef struct minilm_tile_t {
  minilm_vec_t v[MINILM_ROWS][MINILM_VECS];
} minilm_tile_t;

MINILM_INLINE void minilm_tile_clear(minilm_tile_t *tile, int rows) {
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < MINILM_VECS; ++j) tile->v[r][j] = minilm_splat(0.0f);
  }
}

// tile[r][:] += w[r * row_stride] * x[:], one step of a product; |rows| and |row_stride| should be constants at the call.
MINILM_INLINE void minilm_tile_step(minilm_tile_t *tile, int rows, const float *w, ptrdiff_t row_stride, const float *x) {
  minilm_vec_t b[MINILM_VECS];
#pragma GCC unroll 4
  for (int j = 0; j < MINILM_VECS; ++j) b[j] = minilm_load(x + j * MINILM_LANES);
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) {
    minilm_vec_t a = minilm_splat(w[r * row_stride]);
#pragma GCC unroll 4
    for (int j = 0; j < MINILM_VECS; ++j) tile->v[r][j] = minilm_fma(a, b[j], tile->v[r][j]);
  }
}

// |count| such steps, the operands moving on by |w_step| and |x_step| elements; unrolled, so that the loop costs little beside the
// products.
MINILM_INLINE void minilm_tile_steps(minilm_tile_t *tile, int rows, const float *w, ptrdiff_t row_stride, ptrdiff_t w_step, const float *x,
                                     ptrdiff_t x_step, ptrdiff_t count) {
  ptrdiff_t k = 0;
  for (; k + MINILM_STEPS <= count; k += MINILM_STEPS) {
#pragma GCC unroll 8
    for (int i = 0; i < MINILM_STEPS; ++i) minilm_tile_step(tile, rows, w + (k + i) * w_step, row_stride, x + (k + i) * x_step);
  }
  for (; k < count; ++k) minilm_tile_step(tile, rows, w + k * w_step, row_stride, x + k * x_step);
}

// Normalises each token of a panel over its features, in place; two passes, as the reference does.
MINILM_INLINE void minilm_layer_norm(float *x, const float *gain, const float *bias) {
  for (int j = 0; j < MINILM_VECS; ++j) {
    float *lane = x + j * MINILM_LANES;
    minilm_vec_t sum[4] = {{0}, {0}, {0}, {0}};  // four chains hide the latency of the addition
    for (ptrdiff_t i = 0; i < MINILM_HIDDEN; i += 4) {
      for (int c = 0; c < 4; ++c) sum[c] += minilm_load(lane + (i + c) * MINILM_PANEL);
    }
    minilm_vec_t mean = ((sum[0] + sum[1]) + (sum[2] + sum[3])) * (1.0f / MINILM_HIDDEN);
    minilm_vec_t square[4] = {{0}, {0}, {0}, {0}};
    for (ptrdiff_t i = 0; i < MINILM_HIDDEN; i += 4) {
      for (int c = 0; c < 4; ++c) {
        minilm_vec_t d = minilm_load(lane + (i + c) * MINILM_PANEL) - mean;
        square[c] += d * d;
      }
    }
    minilm_vec_t variance = ((square[0] + square[1]) + (square[2] + square[3])) * (1.0f / MINILM_HIDDEN);
    minilm_vec_t scale = minilm_rsqrt(variance + 1e-12f);
    for (ptrdiff_t i = 0; i < MINILM_HIDDEN; ++i) {
      minilm_vec_t v = minilm_load(lane + i * MINILM_PANEL);
      minilm_store(lane + i * MINILM_PANEL, (v - mean) * (scale * gain[i]) + bias[i]);
    }
  }
}

// What the kernels know of the batch, made by the first of them: int32 plan[2 + batch + 1 + tokens].
// Sentence b has the packed tokens starts[b] .. starts[b + 1]; packed token t stands at element sources[t] of the [batch, sequence] inputs.
typedef struct minilm_plan_t {
  int32_t tokens;  // kept tokens of the whole batch
  int32_t batch;
  const int32_t *starts;   // batch + 1
  const int32_t *sources;  // tokens
} minilm_plan_t;

MINILM_INLINE minilm_plan_t minilm_plan_read(const void *data) {
  const int32_t *words = data;
  minilm_plan_t plan = {.tokens = words[0], .batch = words[1], .starts = words + 2, .sources = words + 2 + words[1] + 1};
  return plan;
}

// How many of |panels| panels from |first| hold a token of the batch: the rest is padding that nobody reads.
MINILM_INLINE ptrdiff_t minilm_live_panels(const minilm_plan_t *plan, ptrdiff_t first, ptrdiff_t panels) {
  ptrdiff_t live = ((ptrdiff_t)plan->tokens + MINILM_PANEL - 1) / MINILM_PANEL - first;
  return live < 0 ? 0 : live < panels ? live : panels;
}

#endif  // MINILM_KERNELS_PANEL_H_
