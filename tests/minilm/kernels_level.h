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
                         finish_e finish) {
  if (finish == FINISH_GELU) {
    minilm_linear(w, bias, MINILM_HIDDEN, MINILM_INNER, x, panels, y, MINILM_FINISH_GELU);
  } else if (finish == FINISH_RESIDUAL && depth == MINILM_INNER) {
    minilm_linear(w, bias, MINILM_INNER, MINILM_HIDDEN, x, panels, y, MINILM_FINISH_RESIDUAL);
  } else if (finish == FINISH_RESIDUAL) {
    minilm_linear(w, bias, MINILM_HIDDEN, MINILM_HIDDEN, x, panels, y, MINILM_FINISH_RESIDUAL);
  } else {
    minilm_linear(w, bias, depth, rows, x, panels, y, MINILM_FINISH_BIAS);
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
