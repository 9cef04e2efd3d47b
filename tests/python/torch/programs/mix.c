// SPDX-License-Identifier: Apache-2.0
// y = x * a + count + small (negated if on); s[0] += 1, s[1] += 2: each kind of scalar, an output, an inout of another type.
#include "slip_program.h"

void mix_orchestrate(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_task_begin(&task, SLIP_KERNEL_mix_fill, 1);
  slip_task_in(&task, &args->tensors[0]);
  slip_task_out_existing(&task, &args->tensors[1]);
  for (int i = 0; i < 4; ++i) slip_task_scalar(&task, args->scalars[i]);
  slip_task_submit(o, &task);
  slip_task_begin(&task, SLIP_KERNEL_mix_step, 1);
  slip_task_inout(&task, &args->tensors[2]);
  slip_task_submit(o, &task);
}

void mix_fill(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const float *x = args->tensors[0].data;
  const float add = (float)slip_bits_as_i64(args->scalars[0]) + (float)args->scalars[1], a = slip_bits_as_f32(args->scalars[3]);
  float *y = args->tensors[1].data;
  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) y[i] = args->scalars[2] ? -(x[i] * a + add) : x[i] * a + add;
}

void mix_step(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  int32_t *s = args->tensors[0].data;
  s[0] += 1;
  s[1] += 2;
}
