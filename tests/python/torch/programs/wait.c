// SPDX-License-Identifier: Apache-2.0
// Runs until another thread sets flag[0], at most about as long as 2^33 looks take; done[0] then says whether it saw it.
#include "slip_program.h"

void wait_orchestrate(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_task_begin(&task, SLIP_KERNEL_wait_look, 1);
  slip_task_in(&task, &args->tensors[0]);
  slip_task_out_existing(&task, &args->tensors[1]);
  slip_task_submit(o, &task);
}

void wait_look(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const volatile int32_t *flag = args->tensors[0].data;
  int32_t *done = args->tensors[1].data;
  for (uint64_t i = 0; i < (1ull << 33) && !*flag; ++i) continue;
  done[0] = *flag ? 1 : -1;
}
