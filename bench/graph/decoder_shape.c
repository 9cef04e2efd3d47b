// SPDX-License-Identifier: Apache-2.0
// The decoder as an orchestration: matrices and weights are arguments, tasks take views of them.
#include "decoder.h"
#include "shapes.h"

static void decoder_kernel_norm(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *t = args->tensors;
  decoder_norm(t[1].data, t[1].strides[0], t[0].data, t[0].strides[0]);
}
static void decoder_kernel_plain(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *t = args->tensors;
  decoder_matmul(t[2].data, t[2].strides[0], t[0].data, t[0].strides[0], t[1].data, t[0].dims[1]);
}
static void decoder_kernel_rotate(const slip_kargs_t *args, slip_block_t block) {
  decoder_kernel_plain(args, block);
  decoder_rotate(args->tensors[2].data, args->tensors[2].strides[0], (int64_t)args->scalars[0]);
}
static void decoder_kernel_attend(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *t = args->tensors;
  decoder_attend(t[3].data, t[3].strides[0], t[0].data, t[1].data, t[2].data, t[0].strides[0], (int64_t)args->scalars[0]);
}
static void decoder_kernel_add(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *t = args->tensors;
  decoder_matmul(t[3].data, t[3].strides[0], t[0].data, t[0].strides[0], t[2].data, t[0].dims[1]);
  decoder_add(t[3].data, t[3].strides[0], t[1].data, t[1].strides[0]);
}
static void decoder_kernel_gate(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const slip_ktensor_t *t = args->tensors;
  decoder_gate(t[2].data, t[2].strides[0], t[0].data, t[0].strides[0], t[1].data, t[0].dims[1]);
}

static const slip_object_kernel_t kernels[DECODER_KINDS] = {
    [DECODER_NORM] = {"norm", decoder_kernel_norm, 0, 0, 2, 0},    [DECODER_ROTATE] = {"rotate", decoder_kernel_rotate, 0, 0, 3, 1},
    [DECODER_PLAIN] = {"plain", decoder_kernel_plain, 0, 0, 3, 0}, [DECODER_ATTEND] = {"attend", decoder_kernel_attend, 0, 0, 4, 1},
    [DECODER_ADD] = {"add", decoder_kernel_add, 0, 0, 4, 0},       [DECODER_GATE] = {"gate", decoder_kernel_gate, 0, 0, 3, 0},
};

static slip_otensor_t decoder_view(slip_orch_t *o, const slip_oargs_t *args, const decoder_box_t *box) {
  slip_otensor_t rows = slip_otensor_slice(o, args->tensors[box->matrix], 0, box->band * DECODER_ROWS, (int64_t)box->bands * DECODER_ROWS);
  return slip_otensor_slice(o, rows, 1, box->column * DECODER_COLUMNS, (int64_t)box->columns * DECODER_COLUMNS);
}

static void decoder_layers(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t builder;
  const decoder_task_t *tasks = decoder_tasks();
  for (int i = 0; i < DECODER_TASKS; ++i) {
    const decoder_task_t *t = &tasks[i];
    slip_otensor_t read[DECODER_MAX_READ], panel, write = decoder_view(o, args, &t->write);
    slip_task_begin(&builder, (uint32_t)t->kind, 1);
    for (int k = 0; k < t->read_count; ++k) {
      read[k] = decoder_view(o, args, &t->read[k]);
      slip_task_in(&builder, &read[k]);
    }
    if (t->weight_floats) {
      panel = slip_otensor_slice(o, args->tensors[DECODER_MATRICES], 0, t->weights, t->weight_floats);
      slip_task_in(&builder, &panel);
    }
    slip_task_out_existing(&builder, &write);
    if (kernels[t->kind].scalar_count) slip_task_scalar(&builder, (uint64_t)t->write.band * DECODER_ROWS);
    slip_task_submit(o, &builder);
  }
}

static const slip_object_entry_t entries[] = {{"decoder", decoder_layers, DECODER_MATRICES + 1, 0}};
const slip_object_t bench_decoder_object = {
    SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, entries, kernels, 1, DECODER_KINDS, NULL};
