// SPDX-License-Identifier: Apache-2.0
// The products with weights. Each works on some panels of tokens and on nothing else, so a chunk of tokens flows through them by itself.
#include "kernels.h"
#include "linear.h"

// project(x[P, H, 16], plan, Wq[H, H], bq[H], Wk, bk, Wv, bv; first panel) -> q[P, H, 16], k, v
void minilm_project(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *t = args->tensors;
  minilm_plan_t plan = minilm_plan_read(t[1].data);
  ptrdiff_t live = minilm_live_panels(&plan, (ptrdiff_t)args->scalars[0], (ptrdiff_t)t[0].dims[0]);
  for (int i = 0; i < 3; ++i) {
    minilm_linear(t[2 + 2 * i].data, t[3 + 2 * i].data, MINILM_HIDDEN, MINILM_HIDDEN, t[0].data, live, t[8 + i].data, MINILM_FINISH_BIAS);
  }
}

// expand(x[P, H, 16], plan, W[4H, H], b[4H]; first panel) -> y[P, 4H, 16] = gelu(x W^T + b)
void minilm_expand(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *t = args->tensors;
  minilm_plan_t plan = minilm_plan_read(t[1].data);
  ptrdiff_t live = minilm_live_panels(&plan, (ptrdiff_t)args->scalars[0], (ptrdiff_t)t[0].dims[0]);
  minilm_linear(t[2].data, t[3].data, MINILM_HIDDEN, MINILM_INNER, t[0].data, live, t[4].data, MINILM_FINISH_GELU);
}

// contract(x[P, D, 16], plan, W[H, D], b[H], gain[H], bias[H], y[P, H, 16]; first panel) -> y = layer_norm(y + x W^T + b), D = H or 4H
void minilm_contract(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *t = args->tensors;
  minilm_plan_t plan = minilm_plan_read(t[1].data);
  ptrdiff_t live = minilm_live_panels(&plan, (ptrdiff_t)args->scalars[0], (ptrdiff_t)t[0].dims[0]);
  float *y = t[6].data;
  if (t[0].dims[1] == MINILM_HIDDEN) {
    minilm_linear(t[2].data, t[3].data, MINILM_HIDDEN, MINILM_HIDDEN, t[0].data, live, y, MINILM_FINISH_RESIDUAL);
  } else {
    minilm_linear(t[2].data, t[3].data, MINILM_INNER, MINILM_HIDDEN, t[0].data, live, y, MINILM_FINISH_RESIDUAL);
  }
  for (ptrdiff_t p = 0; p < live; ++p) minilm_layer_norm(y + p * MINILM_HIDDEN * MINILM_PANEL, t[4].data, t[5].data);
}
