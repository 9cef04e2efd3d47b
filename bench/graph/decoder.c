// SPDX-License-Identifier: Apache-2.0
#include "decoder.h"

#include <math.h>
#include <string.h>

#define ROWS         DECODER_ROWS
#define COLUMNS      DECODER_COLUMNS
#define HIDDEN       DECODER_HIDDEN
#define MLP          DECODER_MLP
#define LAYER_FLOATS (HIDDEN * (3 * HIDDEN + HIDDEN + 2 * MLP) + MLP * HIDDEN)

static const int widths[DECODER_MATRICES] = {HIDDEN, HIDDEN, 3 * HIDDEN, HIDDEN, HIDDEN, HIDDEN, MLP};
static float matrices[DECODER_MATRICES][DECODER_TOKENS * 3 * HIDDEN];
static float weights[DECODER_LAYERS * LAYER_FLOATS];
static float cosines[DECODER_TOKENS][COLUMNS / 2], sines[DECODER_TOKENS][COLUMNS / 2];
static decoder_task_t tasks[DECODER_TASKS];

const decoder_task_t *decoder_tasks(void) {
  return tasks;
}
float *decoder_weights(void) {
  return weights;
}
int64_t decoder_weight_floats(void) {
  return DECODER_LAYERS * LAYER_FLOATS;
}
int64_t decoder_width(int matrix) {
  return widths[matrix];
}
float *decoder_matrix(int matrix) {
  return matrices[matrix];
}
float *decoder_tile(int matrix, int band, int column) {
  return matrices[matrix] + band * ROWS * widths[matrix] + column * COLUMNS;
}
int decoder_box_tiles(const decoder_box_t *box, float **out_tiles) {
  int count = 0;
  for (int i = 0; i < box->bands; ++i) {
    for (int j = 0; j < box->columns; ++j) out_tiles[count++] = decoder_tile(box->matrix, box->band + i, box->column + j);
  }
  return count;
}

// --- Kernels ------------------------------------------------------------------------------------------------------------------------

void decoder_norm(float *out, int64_t out_stride, const float *a, int64_t a_stride) {
  for (int i = 0; i < ROWS; ++i) {
    float squares = 0;
    for (int j = 0; j < HIDDEN; ++j) squares += a[i * a_stride + j] * a[i * a_stride + j];
    float scale = 1 / sqrtf(squares / HIDDEN + 1e-5f);
    for (int j = 0; j < HIDDEN; ++j) out[i * out_stride + j] = a[i * a_stride + j] * scale;
  }
}

typedef float decoder_v4_t __attribute__((vector_size(16), aligned(4)));

// Two rows by sixteen columns at a time: eight vectors of sums, which the smallest machine has registers for.
static void decoder_matmul_block(float *out, int64_t out_stride, const float *a, int64_t a_stride, const float *panel, int64_t depth) {
  decoder_v4_t sums[2][4] = {{{0}}};
  for (int64_t k = 0; k < depth; ++k) {
    const decoder_v4_t *w = (const decoder_v4_t *)(const void *)(panel + k * COLUMNS);
    for (int j = 0; j < 4; ++j) {
      sums[0][j] += a[k] * w[j];
      sums[1][j] += a[a_stride + k] * w[j];
    }
  }
  memcpy(out, sums[0], sizeof(sums[0]));
  memcpy(out + out_stride, sums[1], sizeof(sums[1]));
}
void decoder_matmul(float *out, int64_t out_stride, const float *a, int64_t a_stride, const float *panel, int64_t depth) {
  for (int i = 0; i < ROWS; i += 2) {
    for (int half = 0; half < COLUMNS; half += 16) {
      decoder_matmul_block(out + i * out_stride + half, out_stride, a + i * a_stride, a_stride, panel + half, depth);
    }
  }
}

void decoder_rotate(float *out, int64_t out_stride, int64_t row) {
  for (int i = 0; i < ROWS; ++i) {
    float *head = out + i * out_stride;
    for (int j = 0; j < COLUMNS / 2; ++j) {
      float c = cosines[row + i][j], s = sines[row + i][j], x = head[j], y = head[j + COLUMNS / 2];
      head[j] = x * c - y * s;
      head[j + COLUMNS / 2] = x * s + y * c;
    }
  }
}

void decoder_attend(float *out, int64_t out_stride, const float *q, const float *k, const float *v, int64_t stride, int64_t row) {
  for (int i = 0; i < ROWS; ++i) {
    float scores[DECODER_TOKENS], most = -INFINITY, sum = 0, mix[COLUMNS] = {0};
    int64_t seen = row + i + 1;
    for (int64_t t = 0; t < seen; ++t) {
      float dot = 0;
      for (int j = 0; j < COLUMNS; ++j) dot += q[i * stride + j] * k[t * stride + j];
      scores[t] = dot * 0.17677669f;  // 1 / sqrt(32)
      if (scores[t] > most) most = scores[t];
    }
    for (int64_t t = 0; t < seen; ++t) {
      float weight = expf(scores[t] - most);
      sum += weight;
      for (int j = 0; j < COLUMNS; ++j) mix[j] += weight * v[t * stride + j];
    }
    for (int j = 0; j < COLUMNS; ++j) out[i * out_stride + j] = mix[j] / sum;
  }
}

void decoder_add(float *out, int64_t out_stride, const float *residual, int64_t residual_stride) {
  for (int i = 0; i < ROWS; ++i) {
    for (int j = 0; j < COLUMNS; ++j) out[i * out_stride + j] += residual[i * residual_stride + j];
  }
}

void decoder_gate(float *out, int64_t out_stride, const float *a, int64_t a_stride, const float *panels, int64_t depth) {
  float up[ROWS * COLUMNS];
  decoder_matmul(out, out_stride, a, a_stride, panels, depth);
  decoder_matmul(up, COLUMNS, a, a_stride, panels + depth * COLUMNS, depth);
  for (int i = 0; i < ROWS; ++i) {
    for (int j = 0; j < COLUMNS; ++j) {
      float gate = out[i * out_stride + j];
      out[i * out_stride + j] = gate / (1 + expf(-gate)) * up[i * COLUMNS + j];
    }
  }
}

void decoder_run_task(int index) {
  const decoder_task_t *t = &tasks[index];
  int64_t width = widths[t->write.matrix], row = (int64_t)t->write.band * ROWS;
  float *out = decoder_tile(t->write.matrix, t->write.band, t->write.column);
  const float *read[DECODER_MAX_READ], *panel = weights + t->weights;
  for (int i = 0; i < t->read_count; ++i) read[i] = decoder_tile(t->read[i].matrix, t->read[i].band, t->read[i].column);
  int64_t depth = widths[t->read[0].matrix];  // also the stride of its rows
  switch (t->kind) {
    case DECODER_NORM:
      decoder_norm(out, width, read[0], depth);
      break;
    case DECODER_ATTEND:
      decoder_attend(out, width, read[0], read[1], read[2], depth, row);
      break;
    case DECODER_GATE:
      decoder_gate(out, width, read[0], depth, panel, depth);
      break;
    default:
      decoder_matmul(out, width, read[0], depth, panel, depth);
      if (t->kind == DECODER_ROTATE) decoder_rotate(out, width, row);
      if (t->kind == DECODER_ADD) decoder_add(out, width, read[1], widths[t->read[1].matrix]);
  }
}

// --- Task list and data -------------------------------------------------------------------------------------------------------------

static decoder_task_t *next_task;
static int64_t next_weights;

static decoder_task_t *decoder_task(int kind, int band, int column, int columns, int to, int from) {
  decoder_task_t *t = next_task++;
  t->kind = kind;
  t->write = (decoder_box_t){to, band, 1, column, columns};
  t->read[0] = (decoder_box_t){from, band, 1, 0, widths[from] / COLUMNS};
  t->read_count = 1;
  return t;
}
// One matmul: all tiles of matrix |to|, columns [column, column + columns), from the bands of |from|; |residual| < 0: none.
static void decoder_layer_matmul(int kind, int to, int from, int column, int columns, int residual) {
  int64_t panel = (int64_t)widths[from] * COLUMNS * (kind == DECODER_GATE ? 2 : 1);
  for (int band = 0; band < DECODER_BANDS; ++band) {
    for (int c = 0; c < columns; ++c) {
      decoder_task_t *t = decoder_task(kind, band, column + c, 1, to, from);
      t->weights = next_weights + c * panel;
      t->weight_floats = panel;
      if (residual >= 0) t->read[t->read_count++] = (decoder_box_t){residual, band, 1, c, 1};
    }
  }
  next_weights += columns * panel;
}
static void decoder_layer(void) {
  const int heads = DECODER_HEADS;
  for (int band = 0; band < DECODER_BANDS; ++band) decoder_task(DECODER_NORM, band, 0, heads, DECODER_NORMED, DECODER_X);
  decoder_layer_matmul(DECODER_ROTATE, DECODER_QKV, DECODER_NORMED, 0, 2 * heads, -1);
  decoder_layer_matmul(DECODER_PLAIN, DECODER_QKV, DECODER_NORMED, 2 * heads, heads, -1);
  for (int band = 0; band < DECODER_BANDS; ++band) {
    for (int head = 0; head < heads; ++head) {
      decoder_task_t *t = decoder_task(DECODER_ATTEND, band, head, 1, DECODER_ATTENDED, DECODER_QKV);
      t->read[0] = (decoder_box_t){DECODER_QKV, band, 1, head, 1};
      t->read[1] = (decoder_box_t){DECODER_QKV, 0, band + 1, heads + head, 1};
      t->read[2] = (decoder_box_t){DECODER_QKV, 0, band + 1, 2 * heads + head, 1};
      t->read_count = 3;
    }
  }
  decoder_layer_matmul(DECODER_ADD, DECODER_MIDDLE, DECODER_ATTENDED, 0, heads, DECODER_X);
  for (int band = 0; band < DECODER_BANDS; ++band) decoder_task(DECODER_NORM, band, 0, heads, DECODER_NORMED2, DECODER_MIDDLE);
  decoder_layer_matmul(DECODER_GATE, DECODER_GATED, DECODER_NORMED2, 0, MLP / COLUMNS, -1);
  decoder_layer_matmul(DECODER_ADD, DECODER_X, DECODER_GATED, 0, heads, DECODER_MIDDLE);
}

static float decoder_noise(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(int32_t)*state * (1.0f / 2147483648.0f);
}

void decoder_initialize(void) {
  uint32_t state = 1;
  for (int64_t i = 0; i < decoder_weight_floats(); ++i) weights[i] = 0.1f * decoder_noise(&state);
  for (int t = 0; t < DECODER_TOKENS; ++t) {
    for (int j = 0; j < COLUMNS / 2; ++j) {
      float angle = (float)t * powf(10000, -2.0f * (float)j / COLUMNS);
      cosines[t][j] = cosf(angle);
      sines[t][j] = sinf(angle);
    }
  }
  next_task = tasks;
  next_weights = 0;
  for (int layer = 0; layer < DECODER_LAYERS; ++layer) decoder_layer();
}

void decoder_reset(void) {
  uint32_t state = 2;
  memset(matrices, 0, sizeof(matrices));
  for (int i = 0; i < DECODER_TOKENS * HIDDEN; ++i) matrices[DECODER_X][i] = decoder_noise(&state);
}

uint64_t decoder_hash(void) {
  uint64_t h = 0;
  for (int i = 0; i < DECODER_TOKENS * HIDDEN; ++i) {
    uint32_t bits;
    memcpy(&bits, &matrices[DECODER_X][i], sizeof(bits));
    h = h * 31 + bits;
  }
  return h;
}
