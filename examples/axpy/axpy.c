// SPDX-License-Identifier: Apache-2.0
// y += a * x: the smallest program that has both planes, an orchestration that cuts the vectors into chunks and a kernel that computes one.
#include "slip_program.h"  // made by slip compile: numbers and prototypes of what the manifest lists

// Large enough that a task's work outweighs its submission (about a microsecond), small enough for the first-level cache.
#define CHUNK 4096

void axpy_orchestrate(slip_orch_t *o, const slip_oargs_t *args) {
  int64_t n = args->tensors[0].view.dims[0];
  for (int64_t first = 0; first < n; first += CHUNK) {
    int64_t length = n - first < CHUNK ? n - first : CHUNK;
    slip_otensor_t x = slip_otensor_slice(o, args->tensors[0], 0, first, length);
    slip_otensor_t y = slip_otensor_slice(o, args->tensors[1], 0, first, length);
    slip_task_builder_t task;
    slip_task_begin(&task, SLIP_KERNEL_axpy_tile, 1);
    slip_task_in(&task, &x);
    slip_task_inout(&task, &y);
    slip_task_scalar(&task, args->scalars[0]);
    slip_task_submit(o, &task);
  }
}

// x and y may be the same memory (an exact alias is allowed): no restrict.
void axpy_tile(const slip_kargs_t *args, slip_block_t block) {
  const float *x = args->tensors[0].data;
  float *y = args->tensors[1].data;
  const float a = slip_bits_as_f32(args->scalars[0]);
  (void)block;
  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) y[i] += a * x[i];
}
