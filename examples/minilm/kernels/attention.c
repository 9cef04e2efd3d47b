// SPDX-License-Identifier: Apache-2.0
// Attention of each sentence to itself, and the pooling of a sentence into its embedding.
#include "attention.h"

#include "kernels.h"

// attend(q[P, H, 16], k, v, plan; heads per block, sentences per block) -> q becomes the context
// In place: a head of a sentence reads its queries into scratch before it writes over them, and nobody else reads them.
// Blocks cover sentence groups x head groups, heads fastest.
void minilm_attend(const slip_kargs_t *args, slip_block_t block) {
  const slip_ktensor_t *t = args->tensors;
  minilm_plan_t plan = minilm_plan_read(t[3].data);
  ptrdiff_t heads = (ptrdiff_t)args->scalars[0], sentences = (ptrdiff_t)args->scalars[1];
  ptrdiff_t head_groups = MINILM_HEADS / heads;
  ptrdiff_t head = (ptrdiff_t)block.index % head_groups * heads, sentence = (ptrdiff_t)block.index / head_groups * sentences;
  for (ptrdiff_t b = sentence; b < sentence + sentences && b < plan.batch; ++b) {
    if (plan.starts[b] == plan.starts[b + 1]) continue;
    for (ptrdiff_t h = head; h < head + heads; ++h) {
      minilm_attend_head(t[0].data, t[1].data, t[2].data, h, plan.starts[b], plan.starts[b + 1], args->scratch);
    }
  }
}

// pool(x[P, H, 16], plan) -> out[B, H]: the mean over the tokens of a sentence, scaled to length 1. A sentence without tokens gives zeros.
// Blocks share the sentences evenly.
void minilm_pool(const slip_kargs_t *args, slip_block_t block) {
  const slip_ktensor_t *t = args->tensors, *out = &t[2];
  minilm_plan_t plan = minilm_plan_read(t[1].data);
  for (ptrdiff_t b = block.index; b < plan.batch; b += block.count) {
    float *row = (float *)out->data + b * out->strides[0];
    ptrdiff_t begin = plan.starts[b], end = plan.starts[b + 1];
    float square = 0.0f;
    for (ptrdiff_t i = 0; i < MINILM_HIDDEN; ++i) {
      float lanes[MINILM_PANEL] = {0};
      for (ptrdiff_t token = begin; token < end;) {
        ptrdiff_t lane = token % MINILM_PANEL, stop = end - token < MINILM_PANEL - lane ? lane + end - token : MINILM_PANEL;
        const float *x = (const float *)t[0].data + ((token / MINILM_PANEL) * MINILM_HIDDEN + i) * MINILM_PANEL;
        if (stop - lane == MINILM_PANEL) {
          for (int l = 0; l < MINILM_PANEL; ++l) lanes[l] += x[l];
        } else {
          for (ptrdiff_t l = lane; l < stop; ++l) lanes[l] += x[l];
        }
        token += stop - lane;
      }
      float sum = 0.0f;
      for (int l = 0; l < MINILM_PANEL; ++l) sum += lanes[l];
      row[i * out->strides[1]] = sum;
      square += sum * sum;
    }
    // The count divides out of the direction.
    float scale = square > 0.0f ? minilm_rsqrt(minilm_splat(square))[0] : 0.0f;
    for (ptrdiff_t i = 0; i < MINILM_HIDDEN; ++i) row[i * out->strides[1]] *= scale;
  }
}
