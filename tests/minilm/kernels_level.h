// SPDX-License-Identifier: Apache-2.0
// The body of kernels_<level>.c, which defines KERNELS_LEVEL and KERNELS_SUPPORTED (an expression) first.
#ifndef MINILM_TEST_KERNELS_LEVEL_H_
#define MINILM_TEST_KERNELS_LEVEL_H_

#include "../../examples/minilm/kernels/attention.h"
#include "../../examples/minilm/kernels/linear.h"
#include "kernels.h"

static bool level_supported(void) {
  return KERNELS_SUPPORTED;
}

// The shapes are constants, as in the kernels.
static void level_linear(const float *w, const float *bias, ptrdiff_t depth, ptrdiff_t rows, const float *x, ptrdiff_t panels, float *y,
                         finish_e finish, uint32_t blocks) {
  for (uint32_t block = 0; block < blocks; ++block) {
    ptrdiff_t first = minilm_share(rows, block, blocks), end = minilm_share(rows, block + 1, blocks);
    if (finish == FINISH_GELU) {
      minilm_linear(w, bias, MINILM_HIDDEN, MINILM_INNER, first, end, x, panels, y, MINILM_FINISH_GELU);
    } else if (finish == FINISH_RESIDUAL && depth == MINILM_INNER) {
      minilm_linear(w, bias, MINILM_INNER, MINILM_HIDDEN, first, end, x, panels, y, MINILM_FINISH_RESIDUAL);
    } else if (finish == FINISH_RESIDUAL) {
      minilm_linear(w, bias, MINILM_HIDDEN, MINILM_HIDDEN, first, end, x, panels, y, MINILM_FINISH_RESIDUAL);
    } else {
      minilm_linear(w, bias, depth, rows, first, end, x, panels, y, MINILM_FINISH_BIAS);
    }
  }
}

static void level_layer_norm(float *x, const float *gain, const float *bias) {
  minilm_layer_norm(x, gain, bias);
}

const kernels_t KERNELS_LEVEL = {
    .supported = level_supported,
    .name = KERNELS_NAME,
    .linear = level_linear,
    .layer_norm = level_layer_norm,
    .attend_head = minilm_attend_head,
    .scratch_floats = MINILM_ATTEND_SCRATCH / sizeof(float),
};

#endif  // MINILM_TEST_KERNELS_LEVEL_H_
