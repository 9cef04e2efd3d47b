// SPDX-License-Identifier: Apache-2.0
// The products with weights. Each works on some panels of tokens and on nothing else, so a chunk of tokens flows through them by itself.
// Blocks share the rows of the weights evenly.
#include "kernels.h"
#include "linear.h"

// project(x[P, H, 16], plan, Wq[H, H], bq[H], Wk, bk, Wv, bv; first panel) -> q[P, H, 16], k, v
void minilm_project(const slip_kargs_t *args, slip_block_t block) {
  const slip_ktensor_t *t = args->tensors;
  minilm_plan_t plan = minilm_plan_read(t[1].data);
  ptrdiff_t live = minilm_live_panels(&plan, (ptrdiff_t)args->scalars[0], (ptrdiff_t)t[0].dims[0]);
  // The three matrices stand one below the other; a block's rows may fall into two of them.
  ptrdiff_t first = minilm_share(3 * MINILM_HIDDEN, block.index, block.count);
  ptrdiff_t end = minilm_share(3 * MINILM_HIDDEN, block.index + 1, block.count);
  for (ptrdiff_t i = 0; i < 3; ++i, first -= MINILM_HIDDEN, end -= MINILM_HIDDEN) {
    minilm_linear(t[2 + 2 * i].data, t[3 + 2 * i].data, MINILM_HIDDEN, MINILM_HIDDEN, first > 0 ? first : 0,
                  end < MINILM_HIDDEN ? end : MINILM_HIDDEN, t[0].data, live, t[8 + i].data, MINILM_FINISH_BIAS);
  }
}

// expand(x[P, H, 16], plan, W[4H, H], b[4H]; first panel) -> y[P, 4H, 16] = gelu(x W^T + b)
void minilm_expand(const slip_kargs_t *args, slip_block_t block) {
  const slip_ktensor_t *t = args->tensors;
  minilm_plan_t plan = minilm_plan_read(t[1].data);
  ptrdiff_t live = minilm_live_panels(&plan, (ptrdiff_t)args->scalars[0], (ptrdiff_t)t[0].dims[0]);
  ptrdiff_t first = minilm_share(MINILM_INNER, block.index, block.count), end = minilm_share(MINILM_INNER, block.index + 1, block.count);
  minilm_linear(t[2].data, t[3].data, MINILM_HIDDEN, MINILM_INNER, first, end, t[0].data, live, t[4].data, MINILM_FINISH_GELU);
}

// contract(x[P, D, 16], plan, W[H, D], b[H], y[P, H, 16]; first panel) -> y = y + x W^T + b, D = H or 4H
void minilm_contract(const slip_kargs_t *args, slip_block_t block) {
  const slip_ktensor_t *t = args->tensors;
  minilm_plan_t plan = minilm_plan_read(t[1].data);
  ptrdiff_t live = minilm_live_panels(&plan, (ptrdiff_t)args->scalars[0], (ptrdiff_t)t[0].dims[0]);
  ptrdiff_t first = minilm_share(MINILM_HIDDEN, block.index, block.count), end = minilm_share(MINILM_HIDDEN, block.index + 1, block.count);
  if (t[0].dims[1] == MINILM_HIDDEN) {
    minilm_linear(t[2].data, t[3].data, MINILM_HIDDEN, MINILM_HIDDEN, first, end, t[0].data, live, t[4].data, MINILM_FINISH_RESIDUAL);
  } else {
    minilm_linear(t[2].data, t[3].data, MINILM_INNER, MINILM_HIDDEN, first, end, t[0].data, live, t[4].data, MINILM_FINISH_RESIDUAL);
  }
}

// norm(y[P, H, 16], plan, gain[H], bias[H]; first panel) -> y = layer_norm(y)
void minilm_norm(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *t = args->tensors;
  minilm_plan_t plan = minilm_plan_read(t[1].data);
  ptrdiff_t live = minilm_live_panels(&plan, (ptrdiff_t)args->scalars[0], (ptrdiff_t)t[0].dims[0]);
  float *y = t[0].data;
  for (ptrdiff_t p = 0; p < live; ++p) minilm_layer_norm(y + p * MINILM_HIDDEN * MINILM_PANEL, t[2].data, t[3].data);
}
