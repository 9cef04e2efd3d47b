// SPDX-License-Identifier: Apache-2.0
// A program that crashes as its scalar says: 1 a wild pointer in the third of four blocks, 2 an overflow of the stack, 3 in the
// orchestration, 4 a division by zero; 0 not at all.
#include "slip_program.h"

void wild(const slip_kargs_t *args, slip_block_t block) {
  float *y = args->tensors[0].data;
  if (block.index == 2) y = (float *)(uintptr_t)args->scalars[0];
  y[block.index % 2] += 1;
}

static int deep(volatile int depth) {
  volatile char frame[4096];
  frame[0] = (char)depth;
  return depth ? deep(depth + 1) + frame[0] : 0;
}

void overflow(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  ((float *)args->tensors[0].data)[0] = (float)deep(1);
}

void divide(const slip_kargs_t *args, slip_block_t block) {
  volatile int divisor = (int)args->scalars[0], dividend = 100;
  (void)block;
  ((float *)args->tensors[0].data)[0] = (float)(dividend / divisor);
}

void crash_run(slip_orch_t *o, const slip_oargs_t *args) {
  static const uint32_t kernels[5] = {SLIP_KERNEL_wild, SLIP_KERNEL_wild, SLIP_KERNEL_overflow, SLIP_KERNEL_wild, SLIP_KERNEL_divide};
  static const uint32_t blocks[5] = {1, 4, 1, 1, 1};
  uint32_t which = (uint32_t)slip_bits_as_i32(args->scalars[0]) % 5;
  slip_otensor_t y = args->tensors[0];
  slip_task_builder_t task;
  if (which == 3) *(volatile int *)(uintptr_t)args->scalars[0] = 1;
  slip_task_begin(&task, kernels[which], blocks[which]);
  slip_task_inout(&task, &y);
  if (which != 2) slip_task_scalar(&task, which == 1 ? 64 : 0);
  slip_task_submit(o, &task);
}
