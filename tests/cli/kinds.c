// SPDX-License-Identifier: Apache-2.0
// y[i] = x[0] * w[0] + k + e (negated if flag); s[0] += 1, s[1] += 2.
#include "slip_program.h"

void kinds_orchestrate(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_task_begin(&task, SLIP_KERNEL_fill, 1);
  slip_task_in(&task, &args->tensors[0]);
  slip_task_in(&task, &args->tensors[1]);
  slip_task_out_existing(&task, &args->tensors[2]);
  for (int i = 0; i < 3; ++i) slip_task_scalar(&task, args->scalars[i]);
  slip_task_submit(o, &task);
  slip_task_begin(&task, SLIP_KERNEL_count, 1);
  slip_task_inout(&task, &args->tensors[3]);
  slip_task_submit(o, &task);
}

void fill(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const float *x = args->tensors[0].data, *w = args->tensors[1].data;
  float value = x[0] * w[0] + (float)slip_bits_as_i32(args->scalars[0]) + slip_bits_as_f32(args->scalars[1]);
  for (int64_t i = 0; i < args->tensors[2].dims[0]; ++i) ((float *)args->tensors[2].data)[i] = args->scalars[2] ? -value : value;
}

void count(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  int32_t *s = args->tensors[0].data;
  s[0] += 1;
  s[1] += 2;
}
