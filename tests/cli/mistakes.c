// SPDX-License-Identifier: Apache-2.0
// An orchestration that makes one mistake, chosen by its scalar; 0: none.
#include "slip_program.h"

void copy(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) ((float *)args->tensors[1].data)[i] = ((const float *)args->tensors[0].data)[i];
}

void mistakes_run(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t x = args->tensors[0], y = args->tensors[1];
  slip_task_builder_t task;
  slip_task_begin(&task, SLIP_KERNEL_copy, 1);
  switch (slip_bits_as_i32(args->scalars[0])) {
    case 1:
      slip_task_out_existing(&task, &y);
      slip_task_in(&task, &x);
      break;
    case 2:
      y.view.dtype = SLIP_DTYPE_I32;
      slip_task_in(&task, &x);
      slip_task_out_existing(&task, &y);
      break;
    case 3:
      y = slip_otensor_slice(o, y, 0, 0, x.view.dims[0] - 1);
      slip_task_in(&task, &x);
      slip_task_out_existing(&task, &y);
      break;
    case 4:
      slip_task_in(&task, &y);
      slip_task_out_existing(&task, &x);
      break;
    case 5:
      y = slip_otensor_slice(o, y, 0, 1, x.view.dims[0]);
      slip_task_in(&task, &x);
      slip_task_out_existing(&task, &y);
      break;
    default:
      slip_task_in(&task, &x);
      slip_task_out_existing(&task, &y);
      break;
  }
  slip_task_submit(o, &task);
}
