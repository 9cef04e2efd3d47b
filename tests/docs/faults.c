// SPDX-License-Identifier: Apache-2.0
// An orchestration that makes one mistake, chosen by its scalar: what the pages of docs/status-codes about task graphs show.
#include "slip_program.h"

#define MIB (INT64_C(1) << 20)

void add(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) ((float *)args->tensors[1].data)[i] += ((const float *)args->tensors[0].data)[i];
}

void step(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) ((float *)args->tensors[0].data)[i] += 1;
}

void look(const slip_kargs_t *args, slip_block_t block) {
  (void)args;
  (void)block;
}

// Refuses what it is given.
void picky(const slip_kargs_t *args, slip_block_t block) {
  if (((const float *)args->tensors[0].data)[block.index] > 2) slip_kernel_fault(args, 42);
}

static slip_task_t submit_step(slip_orch_t *o, slip_otensor_t t) {
  slip_task_builder_t task;
  slip_task_begin(&task, SLIP_KERNEL_step, 1);
  slip_task_inout(&task, &t);
  return slip_task_submit(o, &task);
}

static void scope_deadlock(slip_orch_t *o) {
  const int64_t dims[1] = {10 * MIB};  // 40 MiB each, in a ring of 64
  for (int i = 0; i < 2; ++i) submit_step(o, slip_otensor_create(o, SLIP_DTYPE_F32, 1, dims));
}

static void heap_exhausted(slip_orch_t *o) {
  const int64_t dims[1] = {32 * MIB};  // 128 MiB in a ring of 64
  submit_step(o, slip_otensor_create(o, SLIP_DTYPE_F32, 1, dims));
}

// 24 tensors, each its own region: more than four pools of four records hold.
static void dependency_pool(slip_orch_t *o) {
  slip_otensor_t elements[24];
  slip_task_builder_t task;
  const int64_t dims[1] = {24};
  const slip_otensor_t all = slip_otensor_create(o, SLIP_DTYPE_F32, 1, dims);
  slip_task_begin(&task, SLIP_KERNEL_look, 1);
  for (int i = 0; i < 24; ++i) {
    elements[i] = slip_otensor_slice(o, all, 0, i, 1);
    slip_task_in(&task, &elements[i]);
  }
  slip_task_submit(o, &task);
  slip_task_submit(o, &task);  // a task that stays alone needs no records
}

static void too_many_dependencies(slip_orch_t *o, slip_otensor_t y) {
  slip_task_builder_t task;
  slip_task_begin(&task, SLIP_KERNEL_step, 1);
  slip_task_inout(&task, &y);
  for (int i = 0; i < 70; ++i) slip_task_after(&task, 0);
  slip_task_submit(o, &task);
}

static void gang_too_large(slip_orch_t *o, slip_otensor_t y) {
  slip_task_builder_t task;
  slip_task_begin(&task, SLIP_KERNEL_step, 1000);
  slip_task_inout(&task, &y);
  slip_task_gang(&task);
  slip_task_submit(o, &task);
}

static void predicate_unreadable(slip_orch_t *o, slip_otensor_t x, slip_otensor_t y) {
  const slip_predicate_t predicate = {.tensor = &x, .index = 0, .literal = 1, .op = SLIP_PREDICATE_EQ};
  slip_task_builder_t task;
  slip_task_begin(&task, SLIP_KERNEL_step, 1);
  slip_task_inout(&task, &y);
  slip_task_if(&task, &predicate);
  slip_task_submit(o, &task);
}

static void stale_tensor(slip_orch_t *o) {
  const int64_t dims[1] = {4};
  slip_scope_begin(o, SLIP_SCOPE_AUTO);
  slip_otensor_t inner = slip_otensor_create(o, SLIP_DTYPE_F32, 1, dims);
  submit_step(o, inner);
  slip_scope_end(o);
  submit_step(o, inner);
}

static void invalid_task(slip_orch_t *o, slip_otensor_t x, slip_otensor_t y) {
  slip_task_builder_t task;
  slip_task_begin(&task, SLIP_KERNEL_add, 1);
  slip_task_inout(&task, &y);  // the kernel declares (in x, inout y)
  slip_task_in(&task, &x);
  slip_task_submit(o, &task);
}

static void kernel_fault(slip_orch_t *o, slip_otensor_t x) {
  slip_task_builder_t task;
  slip_task_begin(&task, SLIP_KERNEL_picky, 4);
  slip_task_in(&task, &x);
  slip_task_submit(o, &task);
}

void faults_run(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t x = args->tensors[0], y = args->tensors[1];
  switch (slip_bits_as_i32(args->scalars[0])) {
    case 1101:
      scope_deadlock(o);
      break;
    case 1102:
      heap_exhausted(o);
      break;
    case 1104:
      dependency_pool(o);
      break;
    case 1105:
      invalid_task(o, x, y);
      break;
    case 1106:
      too_many_dependencies(o, y);
      break;
    case 1107:
      gang_too_large(o, y);
      break;
    case 1109:
      slip_orch_fail(o, 7, "the batch is empty");
      break;
    case 1111:
      kernel_fault(o, x);
      break;
    case 1112:
      predicate_unreadable(o, x, y);
      break;
    case 1113:
      stale_tensor(o);
      break;
    default:
      submit_step(o, y);
      break;
  }
}
