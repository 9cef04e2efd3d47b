// SPDX-License-Identifier: Apache-2.0
// The product of activations with a weight matrix. The choice and its evidence: docs/design/minilm.md; measured by bench/matrix.
#ifndef MINILM_KERNELS_LINEAR_H_
#define MINILM_KERNELS_LINEAR_H_

#include "panel.h"

// y = x W^T + bias over |panels| panels, for the rows |first| .. |end| of a weight matrix of |rows| rows of |depth|; |finish| says what
// happens to a finished tile. |depth| is a multiple of MINILM_STEPS, |first| and |end| are multiples of MINILM_SHARE_ROWS.
//
// Loop order: a tile of weights (ROWS * depth) is used for every panel before the next is touched, so weights are read once from afar and
// panels stream from the second-level cache. Blocking over depth was measured and gains nothing (102 GF/s per core with and without, depth
// 384 and 1536).
typedef enum minilm_finish_e {
  MINILM_FINISH_BIAS,      // y = product + bias
  MINILM_FINISH_GELU,      // y = gelu(product + bias)
  MINILM_FINISH_RESIDUAL,  // y += product + bias
} minilm_finish_e;

// GELU of the last |MINILM_GELU_TILES| tiles of a panel: enough for their chains of dependent operations to overlap. Not inlined: its
// constants would take registers from the tiles.
#define MINILM_GELU_TILES 4
static __attribute__((noinline)) void minilm_gelu_tiles(float *y) {
  for (int i = 0; i < MINILM_GELU_TILES * MINILM_ROWS * MINILM_PANEL; i += MINILM_LANES) {
    minilm_store(y + i, minilm_gelu(minilm_load(y + i)));
  }
}

// Rows come in shares of so many: whole tiles, and whole groups of GELU, for any MINILM_ROWS.
#define MINILM_SHARE_ROWS 48
_Static_assert(MINILM_SHARE_ROWS % (MINILM_GELU_TILES * MINILM_ROWS) == 0, "a share is made of whole groups of tiles");
_Static_assert(MINILM_HIDDEN % MINILM_SHARE_ROWS == 0 && MINILM_INNER % MINILM_SHARE_ROWS == 0, "every product divides into whole shares");

// Where the part of block |index| of |count| begins among |rows| rows (that of block |count| is the end).
MINILM_INLINE ptrdiff_t minilm_share(ptrdiff_t rows, uint32_t index, uint32_t count) {
  return rows / MINILM_SHARE_ROWS * (ptrdiff_t)index / (ptrdiff_t)count * MINILM_SHARE_ROWS;
}

MINILM_INLINE void minilm_linear(const float *w, const float *bias, ptrdiff_t depth, ptrdiff_t rows, ptrdiff_t first, ptrdiff_t end,
                                 const float *x, ptrdiff_t panels, float *y, minilm_finish_e finish) {
  for (ptrdiff_t n = first; n < end; n += MINILM_ROWS) {
    for (ptrdiff_t p = 0; p < panels; ++p) {
      minilm_tile_t tile;
      for (int r = 0; r < MINILM_ROWS; ++r) {
        for (int j = 0; j < MINILM_VECS; ++j) tile.v[r][j] = minilm_splat(bias[n + r]);
      }
      const float *a = w + n * depth, *b = x + p * depth * MINILM_PANEL;
      // The tile after this one is contiguous with it: 16 bytes a step fetch it during the first two panels (10 % at batch 1).
      const char *ahead = (const char *)(a + MINILM_ROWS * depth) + (p < 2 ? p : 0) * (depth / 4) * 64;
      for (ptrdiff_t k = 0; k < depth; k += MINILM_STEPS) {
        for (int i = 0; i < MINILM_STEPS * 16; i += 64) __builtin_prefetch(ahead + k * 16 + i, 0, 2);
#pragma GCC unroll 8
        for (int i = 0; i < MINILM_STEPS; ++i) minilm_tile_step(&tile, MINILM_ROWS, a + k + i, depth, b + (k + i) * MINILM_PANEL);
      }
      ptrdiff_t at = (p * rows + n) * MINILM_PANEL;
      for (int r = 0; r < MINILM_ROWS; ++r) {
        for (int j = 0; j < MINILM_VECS; ++j) {
          ptrdiff_t i = at + r * MINILM_PANEL + j * MINILM_LANES;
          minilm_vec_t v = tile.v[r][j];
          if (finish == MINILM_FINISH_RESIDUAL) v += minilm_load(y + i);
          minilm_store(y + i, v);
        }
      }
      if (finish == MINILM_FINISH_GELU && (n / MINILM_ROWS + 1) % MINILM_GELU_TILES == 0) {
        minilm_gelu_tiles(y + at - (MINILM_GELU_TILES - 1) * MINILM_ROWS * MINILM_PANEL);
      }
    }
  }
}

#endif  // MINILM_KERNELS_LINEAR_H_
