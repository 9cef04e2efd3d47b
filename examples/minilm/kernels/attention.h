// SPDX-License-Identifier: Apache-2.0
// Attention of one sentence to itself, one head at a time.
#ifndef MINILM_KERNELS_ATTENTION_H_
#define MINILM_KERNELS_ATTENTION_H_

#include "panel.h"

// Scratch for one head of the longest sentence: q, k, v [32][STRIDE] and the scores of one panel of queries [STRIDE][16].
#define MINILM_ATTEND_STRIDE  (MINILM_MAX_SEQUENCE + MINILM_PANEL)
#define MINILM_ATTEND_SCRATCH ((3 * MINILM_HEAD + MINILM_PANEL) * MINILM_ATTEND_STRIDE * 4)
_Static_assert(MINILM_ATTEND_SCRATCH == 236544, "scratch_bytes of 'attend' in minilm.json");

// Copies head |head| of the tokens begin .. end out of panels into rows: to[d * STRIDE + i] = scale * from(token begin + i). Pads with
// copies of the first token up to |padded|.
MINILM_INLINE void minilm_gather_head(const float *from, ptrdiff_t head, ptrdiff_t begin, ptrdiff_t end, ptrdiff_t padded, float scale,
                                      float *to) {
  for (ptrdiff_t t = begin; t < end;) {
    ptrdiff_t lane = t % MINILM_PANEL;
    ptrdiff_t run = MINILM_PANEL - lane < end - t ? MINILM_PANEL - lane : end - t;
    const float *source = from + ((t / MINILM_PANEL) * MINILM_HIDDEN + head * MINILM_HEAD) * MINILM_PANEL + lane;
    for (ptrdiff_t d = 0; d < MINILM_HEAD; ++d) {
      float *out = to + d * MINILM_ATTEND_STRIDE + (t - begin);
      if (run == MINILM_PANEL) {
        for (int j = 0; j < MINILM_VECS; ++j)
          minilm_store(out + j * MINILM_LANES, scale * minilm_load(source + d * MINILM_PANEL + j * MINILM_LANES));
      } else {
        for (ptrdiff_t i = 0; i < run; ++i) out[i] = scale * source[d * MINILM_PANEL + i];
      }
    }
    t += run;
  }
  for (ptrdiff_t d = 0; d < MINILM_HEAD; ++d) {
    for (ptrdiff_t i = end - begin; i < padded; ++i) to[d * MINILM_ATTEND_STRIDE + i] = to[d * MINILM_ATTEND_STRIDE];
  }
}

// scores[key][:] = sum over d of k[d][key] * q[d][:] for one panel of queries, q with row stride STRIDE. Returns the largest of each
// query. Keys are padded to whole tiles with copies of a key, which change no maximum.
MINILM_INLINE minilm_row_t minilm_scores(const float *q, const float *k, ptrdiff_t keys, float *scores) {
  minilm_row_t top;
  for (int j = 0; j < MINILM_VECS; ++j) top.v[j] = minilm_splat(-__FLT_MAX__);
  for (ptrdiff_t key = 0; key < keys; key += MINILM_ROWS) {
    minilm_tile_t tile;
    minilm_tile_clear(&tile, MINILM_ROWS);
    minilm_tile_steps(&tile, MINILM_ROWS, k + key, 1, MINILM_ATTEND_STRIDE, q, MINILM_ATTEND_STRIDE, MINILM_HEAD);
    for (int r = 0; r < MINILM_ROWS; ++r) {
      for (int j = 0; j < MINILM_VECS; ++j) {
        minilm_store(scores + (key + r) * MINILM_PANEL + j * MINILM_LANES, tile.v[r][j]);
        top.v[j] = minilm_max(top.v[j], tile.v[r][j]);
      }
    }
  }
  return top;
}

// scores <- 2^(scores - top) per query; returns 1 / sum. The factor log2(e) is already in the queries.
MINILM_INLINE minilm_row_t minilm_softmax(float *scores, ptrdiff_t keys, minilm_row_t top) {
  minilm_row_t scale;
  for (int j = 0; j < MINILM_VECS; ++j) {
    float *lane = scores + j * MINILM_LANES;
    minilm_vec_t sum = {0};
    for (ptrdiff_t key = 0; key < keys; ++key) {
      minilm_vec_t e = minilm_exp2(minilm_max(minilm_splat(-126.0f), minilm_load(lane + key * MINILM_PANEL) - top.v[j]));
      minilm_store(lane + key * MINILM_PANEL, e);
      sum += e;
    }
    scale.v[j] = 1.0f / sum;
  }
  return scale;
}

// out[d][:] = scale * sum over keys of v[d][key] * p[key][:], for |rows| (a constant) features from |d|. |out| has row stride PANEL.
MINILM_INLINE void minilm_mix(const float *v, const float *p, ptrdiff_t keys, int rows, minilm_row_t scale, float *out) {
  minilm_tile_t tile;
  minilm_tile_clear(&tile, rows);
  minilm_tile_steps(&tile, rows, v, MINILM_ATTEND_STRIDE, 1, p, MINILM_PANEL, keys);
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < MINILM_VECS; ++j) minilm_store(out + r * MINILM_PANEL + j * MINILM_LANES, tile.v[r][j] * scale.v[j]);
  }
}

// One head of the sentence begin .. end; the context replaces the queries.
static void minilm_attend_head(float *q, const float *k, const float *v, ptrdiff_t head, ptrdiff_t begin, ptrdiff_t end, float *scratch) {
  const ptrdiff_t plane = (ptrdiff_t)MINILM_HEAD * MINILM_ATTEND_STRIDE;
  float *qs = scratch, *ks = qs + plane, *vs = ks + plane, *scores = vs + plane;
  ptrdiff_t keys = end - begin;
  ptrdiff_t queries = (keys + MINILM_PANEL - 1) / MINILM_PANEL * MINILM_PANEL;
  ptrdiff_t tiled = (keys + MINILM_ROWS - 1) / MINILM_ROWS * MINILM_ROWS;
  minilm_gather_head(q, head, begin, end, queries, MINILM_LOG2E * 0.17677669529663689f, qs);  // 1 / sqrt(32)
  minilm_gather_head(k, head, begin, end, tiled, 1.0f, ks);
  minilm_gather_head(v, head, begin, end, keys, 1.0f, vs);
  for (ptrdiff_t first = 0; first < keys; first += MINILM_PANEL) {
    float out[MINILM_HEAD * MINILM_PANEL];
    minilm_row_t top = minilm_scores(qs + first, ks, tiled, scores);
    minilm_row_t scale = minilm_softmax(scores, keys, top);
    ptrdiff_t d = 0;
    for (; d + MINILM_ROWS <= MINILM_HEAD; d += MINILM_ROWS) {
      minilm_mix(vs + d * MINILM_ATTEND_STRIDE, scores, keys, MINILM_ROWS, scale, out + d * MINILM_PANEL);
    }
    minilm_mix(vs + d * MINILM_ATTEND_STRIDE, scores, keys, MINILM_HEAD % MINILM_ROWS, scale, out + d * MINILM_PANEL);
    // Back to the packed panels: the lanes of one panel of queries may fall into two of them.
    ptrdiff_t count = keys - first < MINILM_PANEL ? keys - first : MINILM_PANEL;
    for (ptrdiff_t i = 0; i < count;) {
      ptrdiff_t t = begin + first + i, lane = t % MINILM_PANEL;
      ptrdiff_t run = MINILM_PANEL - lane < count - i ? MINILM_PANEL - lane : count - i;
      float *to = q + ((t / MINILM_PANEL) * MINILM_HIDDEN + head * MINILM_HEAD) * MINILM_PANEL + lane;
      for (ptrdiff_t f = 0; f < MINILM_HEAD; ++f) {
        if (run == MINILM_PANEL) {
          minilm_row_store(to + f * MINILM_PANEL, minilm_row_load(out + f * MINILM_PANEL));
        } else {
          for (ptrdiff_t l = 0; l < run; ++l) to[f * MINILM_PANEL + l] = out[f * MINILM_PANEL + i + l];
        }
      }
      i += run;
    }
  }
}

#endif  // MINILM_KERNELS_ATTENTION_H_
