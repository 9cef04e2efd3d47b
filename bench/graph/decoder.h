// SPDX-License-Identifier: Apache-2.0
// A decoder-layer graph with tasks of realistic size: two layers of a small Llama (64 tokens, hidden 192, 6 heads, MLP 512), f32, in tiles
// of 8 tokens by 32 columns. 864 tasks of 2 to 20 us. The same compiled kernels serve all runtimes.
//
// The task list names for each task the boxes of tiles that it reads and writes; a runtime that knows no boxes gets their tiles.
#ifndef SLIP_BENCH_GRAPH_DECODER_H_
#define SLIP_BENCH_GRAPH_DECODER_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DECODER_TOKENS   64
#define DECODER_HIDDEN   192
#define DECODER_MLP      512
#define DECODER_HEADS    6
#define DECODER_LAYERS   2
#define DECODER_ROWS     8   // of a tile
#define DECODER_COLUMNS  32  // of a tile; also the size of a head
#define DECODER_BANDS    (DECODER_TOKENS / DECODER_ROWS)
#define DECODER_TASKS    (DECODER_LAYERS * DECODER_BANDS * (2 + 18 + 2 * 6 + 16 + 6))
#define DECODER_MAX_READ 4
// Tiles that one task reads at most: a band of the MLP and the tile of the residual.
#define DECODER_MAX_TILES (DECODER_MLP / DECODER_COLUMNS + 2)

typedef enum decoder_matrix_e {
  DECODER_X,         // residual stream: argument and result
  DECODER_NORMED,    // normalised input of attention
  DECODER_QKV,       // queries, keys, values
  DECODER_ATTENDED,  // heads side by side
  DECODER_MIDDLE,    // residual stream after attention
  DECODER_NORMED2,   // normalised input of the MLP
  DECODER_GATED,     // silu(gate) * up
  DECODER_MATRICES,
} decoder_matrix_e;

typedef enum decoder_kind_e {
  DECODER_NORM,    // row-wise RMS normalisation of a band
  DECODER_ROTATE,  // matmul and rotary embedding: a tile of queries or keys
  DECODER_PLAIN,   // matmul: a tile of values
  DECODER_ATTEND,  // causal attention of one head's band
  DECODER_ADD,     // matmul plus residual tile
  DECODER_GATE,    // two matmuls: silu(first) * second
  DECODER_KINDS,
} decoder_kind_e;

// Tiles [band, band + bands) x [column, column + columns) of a matrix.
typedef struct decoder_box_t {
  int matrix, band, bands, column, columns;
} decoder_box_t;

typedef struct decoder_task_t {
  int kind;               // decoder_kind_e
  int64_t weights;        // offset of its panel in decoder_weights(), in floats
  int64_t weight_floats;  // size of the panel; 0: none
  decoder_box_t write;    // overwritten
  decoder_box_t read[DECODER_MAX_READ];
  int read_count;
} decoder_task_t;

// Makes weights and task list. Call once.
void decoder_initialize(void);
const decoder_task_t *decoder_tasks(void);  // DECODER_TASKS, in an order that may be run serially
float *decoder_weights(void);
int64_t decoder_weight_floats(void);
int64_t decoder_width(int matrix);  // columns
float *decoder_matrix(int matrix);
// First float of a tile: names it for runtimes that know addresses only.
float *decoder_tile(int matrix, int band, int column);
// The tiles of |box|; returns how many.
int decoder_box_tiles(const decoder_box_t *box, float **out_tiles);

void decoder_reset(void);          // matrices as before the first layer
void decoder_run_task(int index);  // on the matrices
uint64_t decoder_hash(void);       // of the result

// The kernels. |a| has rows of |a_stride|, |out| of |out_stride| floats; a tile's worth of output. |row| is the first token.
void decoder_norm(float *out, int64_t out_stride, const float *a, int64_t a_stride);
void decoder_matmul(float *out, int64_t out_stride, const float *a, int64_t a_stride, const float *panel, int64_t depth);
void decoder_rotate(float *out, int64_t out_stride, int64_t row);
void decoder_attend(float *out, int64_t out_stride, const float *q, const float *k, const float *v, int64_t stride, int64_t row);
void decoder_add(float *out, int64_t out_stride, const float *residual, int64_t residual_stride);
void decoder_gate(float *out, int64_t out_stride, const float *a, int64_t a_stride, const float *panels, int64_t depth);

#ifdef __cplusplus
}
#endif

#endif  // SLIP_BENCH_GRAPH_DECODER_H_
