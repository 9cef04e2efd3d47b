// SPDX-License-Identifier: Apache-2.0
// A kernel that does what it must not, chosen by its scalar; 0: nothing.
#include "slip_program.h"

void work(const slip_kargs_t *args, slip_block_t block) {
  const float *x = args->tensors[0].data;
  float *y = args->tensors[1].data;
  int64_t n = args->tensors[0].dims[0];
  int32_t kind = slip_bits_as_i32(args->scalars[0]);
  (void)block;
  for (int64_t i = 0; i < n; ++i) y[i] = x[i];
  if (kind == 1) *(volatile float *)&y[n] = 7;   // behind the output
  if (kind == 2) *(volatile float *)&y[-1] = 7;  // in front of it
}

void rogue_run(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t x = args->tensors[0], y = args->tensors[1];
  slip_task_builder_t task;
  if (slip_bits_as_i32(args->scalars[0]) == 3) return;  // the output stays unwritten
  slip_task_begin(&task, SLIP_KERNEL_work, 1);
  slip_task_in(&task, &x);
  slip_task_out_existing(&task, &y);
  slip_task_scalar(&task, args->scalars[0]);
  slip_task_submit(o, &task);
}
