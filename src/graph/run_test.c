// SPDX-License-Identifier: Apache-2.0
#include "graph/engine.h"
#include "slip_test.h"

static void scale(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  const float *x = args->tensors[0].data;
  float *y = args->tensors[1].data;
  for (int64_t i = 0; i < args->tensors[0].dims[0]; ++i) y[i] = x[i] * slip_bits_as_f32(args->scalars[0]);
}

static const slip_object_kernel_t kernels[] = {{"scale", scale, SLIP_CORE_ANY, 0, 2, 1}};

// out = in * 2 * 3, through an intermediate.
static void twice(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_otensor_t middle = slip_otensor_describe(SLIP_DTYPE_F32, 1, args->tensors[0].view.dims);
  slip_task_begin(&task, 0, 1);
  slip_task_in(&task, &args->tensors[0]);
  slip_task_out(&task, &middle);
  slip_task_scalar(&task, slip_bits_from_f32(2));
  slip_task_submit(o, &task);
  slip_task_begin(&task, 0, 1);
  slip_task_in(&task, &middle);
  slip_task_out_existing(&task, &args->tensors[1]);
  slip_task_scalar(&task, slip_bits_from_f32(3));
  slip_task_submit(o, &task);
}

static const slip_object_entry_t entries[] = {{"twice", twice, 2, 0}};
static const slip_object_t object = {SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, entries, kernels, 1, 1, NULL};

SLIP_TEST(two_tasks_through_an_intermediate) {
  slip__engine_options_t engine_options = {.serial = 1};
  slip__workspace_options_t options = {
      .task_window = {16, 16, 16, 16}, .heap_bytes = {4096, 4096, 4096, 4096}, .dependency_pool = {16, 16, 16, 16}};
  slip__engine_t *engine;
  slip__workspace_t *workspace;
  SLIP_CHECK_OK(slip__engine_create(&engine_options, &engine));
  SLIP_CHECK_OK(slip__workspace_create(engine, &options, &workspace));
  float in[4] = {1, 2, 3, 4}, out[4] = {0};
  int64_t dims[1] = {4};
  slip_otensor_t tensors[2] = {slip_otensor_describe(SLIP_DTYPE_F32, 1, dims), slip_otensor_describe(SLIP_DTYPE_F32, 1, dims)};
  tensors[0].view.data = tensors[0].storage = in;
  tensors[1].view.data = tensors[1].storage = out;
  tensors[0].storage_bytes = tensors[1].storage_bytes = sizeof(in);
  slip__run_t run = {.object = &object, .tensor_count = 2, .tensors = tensors};
  for (int i = 1; i <= 3; ++i) {
    SLIP_CHECK_OK(slip__engine_run(engine, workspace, &run));
    for (int j = 0; j < 4; ++j) SLIP_CHECK(out[j] == in[j] * 6);
    SLIP_CHECK_EQ(slip__workspace_task_count(workspace), 2 * i);
  }
  slip__workspace_destroy(workspace);
  slip__engine_destroy(engine);
}
