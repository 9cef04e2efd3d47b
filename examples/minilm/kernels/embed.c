// SPDX-License-Identifier: Apache-2.0
// From token ids to the first activations: the packing plan, then embeddings and their layer norm.
#include "kernels.h"

// plan(mask[B, S] i32) -> plan[...] i32: which tokens are kept, and where each sentence starts among them.
// A token is kept where the mask is not 0, wherever that is: a masked token influences nothing in this model, so leaving it out is exact.
void minilm_plan(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *mask = &args->tensors[0];
  const int32_t *m = mask->data;
  int32_t *words = args->tensors[1].data;
  int64_t batch = mask->dims[0], sequence = mask->dims[1];
  int32_t *starts = words + 2, *sources = words + 2 + batch + 1;
  int32_t tokens = 0;
  for (int64_t b = 0; b < batch; ++b) {
    starts[b] = tokens;
    for (int64_t s = 0; s < sequence; ++s) {
      if (m[b * mask->strides[0] + s * mask->strides[1]] != 0) sources[tokens++] = (int32_t)(b * sequence + s);
    }
  }
  starts[batch] = tokens;
  words[0] = tokens;
  words[1] = (int32_t)batch;
}

// embed(ids[B, S] i32, plan, word[V, H], position[512, H], type[2, H], gain[H], bias[H]; first panel) -> x[panels, H, 16]
// An id outside the vocabulary reads as the unknown token. Lanes past the last token are zero, so that nothing downstream meets a NaN.
void minilm_embed(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *ids = &args->tensors[0], *word = &args->tensors[2];
  const int32_t *id = ids->data;
  const float *position = args->tensors[3].data, *type = args->tensors[4].data;
  const float *gain = args->tensors[5].data, *bias = args->tensors[6].data;
  float *x = args->tensors[7].data;
  ptrdiff_t first = (ptrdiff_t)args->scalars[0];
  minilm_plan_t plan = minilm_plan_read(args->tensors[1].data);
  ptrdiff_t live = minilm_live_panels(&plan, first, (ptrdiff_t)args->tensors[7].dims[0]);
  for (ptrdiff_t p = 0; p < live; ++p) {
    float *panel = x + p * MINILM_HIDDEN * MINILM_PANEL;
    for (ptrdiff_t lane = 0; lane < MINILM_PANEL; ++lane) {
      ptrdiff_t t = (first + p) * MINILM_PANEL + lane;
      if (t >= plan.tokens) {
        for (ptrdiff_t i = 0; i < MINILM_HIDDEN; ++i) panel[i * MINILM_PANEL + lane] = 0.0f;
        continue;
      }
      int64_t b = plan.sources[t] / ids->dims[1], s = plan.sources[t] % ids->dims[1];
      int32_t token = id[b * ids->strides[0] + s * ids->strides[1]];
      if (token < 0 || token >= word->dims[0]) token = MINILM_UNKNOWN_TOKEN;
      const float *w = (const float *)word->data + (ptrdiff_t)token * MINILM_HIDDEN;
      const float *q = position + s * MINILM_HIDDEN;
      for (ptrdiff_t i = 0; i < MINILM_HIDDEN; ++i) panel[i * MINILM_PANEL + lane] = (w[i] + type[i]) + q[i];
    }
    minilm_layer_norm(panel, gain, bias);
  }
}
