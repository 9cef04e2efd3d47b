// SPDX-License-Identifier: Apache-2.0
// The kernels of the encoder. Each file's comments give the arguments: tensors; scalars -> the tensors written.
#ifndef MINILM_KERNELS_KERNELS_H_
#define MINILM_KERNELS_KERNELS_H_

#include "slipstream/kernel/tile.h"
#include "panel.h"

#define MINILM_UNKNOWN_TOKEN 100  // "[UNK]" of the vocabulary
#define MINILM_MAX_SEQUENCE  512  // rows of the position table

void minilm_plan(const slip_kargs_t *args, slip_block_t block);
void minilm_embed(const slip_kargs_t *args, slip_block_t block);
void minilm_project(const slip_kargs_t *args, slip_block_t block);
void minilm_attend(const slip_kargs_t *args, slip_block_t block);
void minilm_expand(const slip_kargs_t *args, slip_block_t block);
void minilm_contract(const slip_kargs_t *args, slip_block_t block);
void minilm_pool(const slip_kargs_t *args, slip_block_t block);

// Scratch of minilm_attend for one head of a sentence of the longest length: q, k, v [32][512 + 16] and the scores of one panel of queries
// [512 + 16][16].
#define MINILM_ATTEND_STRIDE  (MINILM_MAX_SEQUENCE + MINILM_PANEL)
#define MINILM_ATTEND_SCRATCH ((3 * MINILM_HEAD + MINILM_PANEL) * MINILM_ATTEND_STRIDE * 4)

#endif  // MINILM_KERNELS_KERNELS_H_
