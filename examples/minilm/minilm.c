// SPDX-License-Identifier: Apache-2.0
// all-MiniLM-L6-v2 as one callable: token ids and mask in, one unit vector per sentence out. One launch per batch, any batch and sequence
// length.
//
//   mask -> plan -+-> embed -> project --> attend --> add -> expand -> add -> (project of the next layer) ... -> pool -> out
//                 |   \__ per chunk __/          \____________ per chunk ___________/          add: contract, norm
//                 +-> every kernel asks it how many tokens there really are
//
// Everything but attention works on a chunk of tokens alone, so the chunks run through a layer independently and only attention waits for
// all of them. A product is a task of several blocks, each for some rows of the weights: the thread that works on a chunk runs them itself,
// its input in its cache, unless another has nothing to do and helps.
#include "kernels/kernels.h"

// Positions in the manifest's parameter list. The sixteen weights of a layer follow each other in the order of minilm_layer_e.
enum { ARG_IDS, ARG_MASK, ARG_WORD, ARG_POSITION, ARG_TYPE, ARG_GAIN, ARG_BIAS, ARG_LAYERS };
typedef enum minilm_layer_e {
  QUERY_W,
  QUERY_B,
  KEY_W,
  KEY_B,
  VALUE_W,
  VALUE_B,
  OUTPUT_W,
  OUTPUT_B,
  OUTPUT_GAIN,
  OUTPUT_BIAS,
  EXPAND_W,
  EXPAND_B,
  CONTRACT_W,
  CONTRACT_B,
  CONTRACT_GAIN,
  CONTRACT_BIAS,
  LAYER_ARGS,
} minilm_layer_e;
#define LAYERS  6
#define ARG_OUT (ARG_LAYERS + LAYERS * LAYER_ARGS)

#define CHUNK_PANELS   4  // 64 tokens: a wide intermediate of them fits a second-level cache, and weights that were fetched serve them all
#define PRODUCT_BLOCKS 8  // some 100 us each

// What the helpers below share.
typedef struct minilm_run_t {
  slip_orch_t *o;
  slip_otensor_t *args;
  slip_otensor_t plan;
  slip_otensor_t x, q, k, v;  // [panels, H, 16]
  int64_t batch, sequence;
  int64_t panels;
} minilm_run_t;

static slip_otensor_t minilm_chunk_of(minilm_run_t *run, slip_otensor_t tensor, int64_t first) {
  int64_t left = run->panels - first;
  return slip_otensor_slice(run->o, tensor, 0, first, left < CHUNK_PANELS ? left : CHUNK_PANELS);
}

static void minilm_submit_embed(minilm_run_t *run, int64_t first) {
  slip_task_builder_t task;
  slip_otensor_t x = minilm_chunk_of(run, run->x, first);
  slip_task_begin(&task, SLIP_KERNEL_embed, 1);
  slip_task_in(&task, &run->args[ARG_IDS]);
  slip_task_in(&task, &run->plan);
  for (int i = ARG_WORD; i <= ARG_BIAS; ++i) slip_task_in(&task, &run->args[i]);
  slip_task_out_existing(&task, &x);
  slip_task_scalar(&task, (uint64_t)first);
  slip_task_submit(run->o, &task);
}

static void minilm_submit_project(minilm_run_t *run, slip_otensor_t *layer, int64_t first) {
  slip_task_builder_t task;
  slip_otensor_t x = minilm_chunk_of(run, run->x, first);
  slip_otensor_t q = minilm_chunk_of(run, run->q, first);
  slip_otensor_t k = minilm_chunk_of(run, run->k, first);
  slip_otensor_t v = minilm_chunk_of(run, run->v, first);
  slip_task_begin(&task, SLIP_KERNEL_project, PRODUCT_BLOCKS);
  slip_task_in(&task, &x);
  slip_task_in(&task, &run->plan);
  for (int i = QUERY_W; i <= VALUE_B; ++i) slip_task_in(&task, &layer[i]);
  slip_task_out_existing(&task, &q);
  slip_task_out_existing(&task, &k);
  slip_task_out_existing(&task, &v);
  slip_task_scalar(&task, (uint64_t)first);
  slip_task_submit(run->o, &task);
}

static void minilm_submit_attend(minilm_run_t *run) {
  slip_task_builder_t task;
  // Blocks of some 30 to 500 us: a head of a long sentence, or several short sentences.
  int64_t heads = run->batch < 8 ? 1 : MINILM_HEADS;
  int64_t sentences = run->sequence >= 128 || run->sequence == 0 ? 1 : 128 / run->sequence;
  int64_t groups = (run->batch + sentences - 1) / sentences;
  slip_task_begin(&task, SLIP_KERNEL_attend, (uint32_t)(groups * (MINILM_HEADS / heads)));
  slip_task_inout(&task, &run->q);
  slip_task_in(&task, &run->k);
  slip_task_in(&task, &run->v);
  slip_task_in(&task, &run->plan);
  slip_task_scalar(&task, (uint64_t)heads);
  slip_task_scalar(&task, (uint64_t)sentences);
  slip_task_submit(run->o, &task);
}

// |weights|: matrix, its bias, gain and bias of the layer norm.
static void minilm_submit_contract(minilm_run_t *run, slip_otensor_t *in, slip_otensor_t *weights, int64_t first) {
  slip_task_builder_t task;
  slip_otensor_t x = minilm_chunk_of(run, run->x, first);
  slip_task_begin(&task, SLIP_KERNEL_contract, PRODUCT_BLOCKS);
  slip_task_in(&task, in);
  slip_task_in(&task, &run->plan);
  slip_task_in(&task, &weights[0]);
  slip_task_in(&task, &weights[1]);
  slip_task_inout(&task, &x);
  slip_task_scalar(&task, (uint64_t)first);
  slip_task_submit(run->o, &task);
  slip_task_begin(&task, SLIP_KERNEL_norm, 1);
  slip_task_inout(&task, &x);
  slip_task_in(&task, &run->plan);
  slip_task_in(&task, &weights[2]);
  slip_task_in(&task, &weights[3]);
  slip_task_scalar(&task, (uint64_t)first);
  slip_task_submit(run->o, &task);
}

// The feed-forward half of a layer for one chunk. Its wide intermediate lives in a scope of its own, so that its memory is used again soon,
// while still cached.
static void minilm_submit_feed_forward(minilm_run_t *run, slip_otensor_t *layer, int64_t first) {
  slip_task_builder_t task;
  slip_otensor_t x = minilm_chunk_of(run, run->x, first);
  int64_t dims[3] = {x.view.dims[0], MINILM_INNER, MINILM_PANEL};
  slip_otensor_t inner = slip_otensor_describe(SLIP_DTYPE_F32, 3, dims);
  slip_scope_begin(run->o, SLIP_SCOPE_AUTO);
  slip_task_begin(&task, SLIP_KERNEL_expand, PRODUCT_BLOCKS);
  slip_task_in(&task, &x);
  slip_task_in(&task, &run->plan);
  slip_task_in(&task, &layer[EXPAND_W]);
  slip_task_in(&task, &layer[EXPAND_B]);
  slip_task_out(&task, &inner);
  slip_task_scalar(&task, (uint64_t)first);
  slip_task_submit(run->o, &task);
  minilm_submit_contract(run, &inner, &layer[CONTRACT_W], first);
  slip_scope_end(run->o);
}

// encode(ids i32[B, S], mask i32[B, S], weights ...) -> out f32[B, 384]
void minilm_encode(slip_orch_t *o, const slip_oargs_t *args) {
  minilm_run_t run = {.o = o, .args = args->tensors};
  run.batch = run.args[ARG_IDS].view.dims[0];
  run.sequence = run.args[ARG_IDS].view.dims[1];
  if (run.batch == 0) return;
  if (run.sequence > MINILM_MAX_SEQUENCE) {
    slip_orch_fail(o, 1, "the sequence is longer than the 512 positions of the model: truncate it");
    return;
  }
  if (run.batch * run.sequence > INT32_MAX / 2) {
    slip_orch_fail(o, 2, "the batch holds more tokens than a plan can number: split it");
    return;
  }
  run.panels = (run.batch * run.sequence + MINILM_PANEL - 1) / MINILM_PANEL;
  if (run.panels == 0) run.panels = 1;

  int64_t words[1] = {2 + run.batch + 1 + run.batch * run.sequence};
  int64_t dims[3] = {run.panels, MINILM_HIDDEN, MINILM_PANEL};
  slip_task_builder_t task;
  run.plan = slip_otensor_describe(SLIP_DTYPE_I32, 1, words);
  slip_task_begin(&task, SLIP_KERNEL_plan, 1);
  slip_task_in(&task, &run.args[ARG_MASK]);
  slip_task_out(&task, &run.plan);
  slip_task_submit(o, &task);
  run.x = slip_otensor_create(o, SLIP_DTYPE_F32, 3, dims);
  run.q = slip_otensor_create(o, SLIP_DTYPE_F32, 3, dims);
  run.k = slip_otensor_create(o, SLIP_DTYPE_F32, 3, dims);
  run.v = slip_otensor_create(o, SLIP_DTYPE_F32, 3, dims);

  for (int64_t first = 0; first < run.panels; first += CHUNK_PANELS) {
    minilm_submit_embed(&run, first);
    minilm_submit_project(&run, &run.args[ARG_LAYERS], first);
  }
  for (int i = 0; i < LAYERS; ++i) {
    slip_otensor_t *layer = &run.args[ARG_LAYERS + i * LAYER_ARGS];
    minilm_submit_attend(&run);
    for (int64_t first = 0; first < run.panels; first += CHUNK_PANELS) {
      slip_otensor_t context = minilm_chunk_of(&run, run.q, first);
      minilm_submit_contract(&run, &context, &layer[OUTPUT_W], first);
      minilm_submit_feed_forward(&run, layer, first);
      if (i + 1 < LAYERS) minilm_submit_project(&run, layer + LAYER_ARGS, first);
    }
  }

  slip_task_begin(&task, SLIP_KERNEL_pool, (uint32_t)(run.batch < 16 ? 1 : run.batch / 8));
  slip_task_in(&task, &run.x);
  slip_task_in(&task, &run.plan);
  slip_task_out_existing(&task, &run.args[ARG_OUT]);
  slip_task_submit(o, &task);
}
