// SPDX-License-Identifier: Apache-2.0
// The encoder's inner functions, once per instruction set: kernels_<level>.c each make one of these from the same headers.
#ifndef MINILM_TEST_KERNELS_H_
#define MINILM_TEST_KERNELS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum finish_e { FINISH_BIAS, FINISH_GELU, FINISH_RESIDUAL } finish_e;  // as minilm_finish_e

typedef struct kernels_t {
  const char *name;
  bool (*supported)(void);
  // In |blocks| blocks, one after the other.
  void (*linear)(const float *w, const float *bias, ptrdiff_t depth, ptrdiff_t rows, const float *x, ptrdiff_t panels, float *y,
                 finish_e finish, uint32_t blocks);
  void (*layer_norm)(float *x, const float *gain, const float *bias);
  // |scratch| is of |scratch_floats|.
  void (*attend_head)(float *q, const float *k, const float *v, ptrdiff_t head, ptrdiff_t begin, ptrdiff_t end, float *scratch);
  size_t scratch_floats;
} kernels_t;

extern const kernels_t kernels_baseline, kernels_v3, kernels_v4;

#endif  // MINILM_TEST_KERNELS_H_
