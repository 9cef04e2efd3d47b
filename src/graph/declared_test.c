// SPDX-License-Identifier: Apache-2.0
// A submit against what the kernel declares of its tensors: direction, dtype, rank, dimensions; and entry parameters that are only read.
#include "slip_test_graph.h"

static void nothing(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
}

// k(in x: f32[M,N], out s: f32[M,2], inout z: i32[?])
static const slip_object_kernel_t kernels[] = {{"k", nothing, 0, 0, 3, 0}, {"free", nothing, 0, 0, 1, 0}};
static const slip_object_param_t params_k[] = {{"x", 1, SLIP_DTYPE_F32, 2, {0}, {-2, -3, -1, -1, -1}},
                                               {"s", 2, SLIP_DTYPE_F32, 2, {0}, {-2, 2, -1, -1, -1}},
                                               {"z", 3, SLIP_DTYPE_I32, 1, {0}, {-1, -1, -1, -1, -1}}};
static const slip_object_param_t *const params[] = {params_k, NULL};

typedef struct declared_t {
  slip_otensor_t t[3];
  uint32_t access[3];
} declared_t;

static void submit_k(slip_orch_t *o, const slip_oargs_t *args) {
  declared_t *call = graph_test_user(args);
  slip_task_builder_t task;
  slip_task_begin(&task, 0, 1);
  for (int i = 0; i < 3; ++i) slip_task_tensor(&task, call->access[i], &call->t[i]);
  slip_task_submit(o, &task);
}

static slip_status_t run_with(slip_orch_fn_t orchestrate, void *user, const slip_object_param_t *const *declared) {
  graph_test_t test = graph_test_open(1, 8, 4096, 4);
  slip_object_entry_t entry = {"test", orchestrate, 0, 1};
  slip_object_t object = {SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, &entry, kernels, 1, 2, declared};
  uint64_t scalar = (uint64_t)(uintptr_t)user;
  slip__run_t run = {.object = &object, .scalars = &scalar, .scalar_count = 1};
  slip_status_t status = slip__engine_run(test.engine, test.workspace, &run);
  graph_test_close(&test);
  return status;
}

static float x_data[12], s_data[6];
static int32_t z_data[4];

static declared_t right_call(void) {
  declared_t call;
  call.t[0] = graph_test_tensor(x_data, SLIP_DTYPE_F32, 2, (const int64_t[]){3, 4});
  call.t[1] = graph_test_tensor(s_data, SLIP_DTYPE_F32, 2, (const int64_t[]){3, 2});
  call.t[2] = graph_test_tensor(z_data, SLIP_DTYPE_I32, 1, (const int64_t[]){4});
  call.access[0] = SLIP_ACCESS_IN;
  call.access[1] = SLIP_ACCESS_OUT_EXISTING;
  call.access[2] = SLIP_ACCESS_INOUT;
  return call;
}

SLIP_TEST(declared_access_must_serve_the_direction) {
  static const bool fits[3][6] = {{0, 1, 0, 0, 1, 1}, {0, 0, 1, 1, 1, 1}, {0, 0, 0, 0, 1, 1}};
  for (uint32_t position = 0; position < 3; ++position) {
    for (uint32_t access = SLIP_ACCESS_IN; access <= SLIP_ACCESS_NO_DEP; ++access) {
      declared_t call = right_call();
      call.access[position] = access;
      slip_status_t status = run_with(submit_k, &call, params);
      if (fits[position][access]) {
        SLIP_CHECK_OK(status);
      } else {
        SLIP_CHECK_ERROR(status, SLIP_CODE_GRAPH_INVALID_TASK, "but the kernel declares");
      }
      call = right_call();
      call.access[position] = access;
      SLIP_CHECK_OK(run_with(submit_k, &call, NULL));  // nothing declared, nothing checked
    }
  }
  declared_t call = right_call();
  call.access[2] = SLIP_ACCESS_IN;
  SLIP_CHECK_ERROR(run_with(submit_k, &call, params), SLIP_CODE_GRAPH_INVALID_TASK, "declares 'z' as inout; use slip_task_inout()");
}

SLIP_TEST(declared_dtype_rank_and_dims_must_agree) {
  declared_t call = right_call();
  call.t[1] = graph_test_tensor(s_data, SLIP_DTYPE_I32, 2, (const int64_t[]){3, 2});
  SLIP_CHECK_ERROR(run_with(submit_k, &call, params), SLIP_CODE_GRAPH_INVALID_TASK,
                   "tensor 1 has dtype i32 and rank 2, but the kernel declares 's' with dtype f32 and rank 2");
  call = right_call();
  call.t[1] = graph_test_tensor(s_data, SLIP_DTYPE_F32, 1, (const int64_t[]){3});
  SLIP_CHECK_ERROR(run_with(submit_k, &call, params), SLIP_CODE_GRAPH_INVALID_TASK, "rank 1, but the kernel declares 's'");
  call = right_call();
  call.t[1] = graph_test_tensor(s_data, SLIP_DTYPE_F32, 2, (const int64_t[]){2, 3});
  SLIP_CHECK_ERROR(run_with(submit_k, &call, params), SLIP_CODE_GRAPH_INVALID_TASK, "as an earlier tensor with the same symbol");
  call.t[1] = graph_test_tensor(s_data, SLIP_DTYPE_F32, 2, (const int64_t[]){3, 1});
  SLIP_CHECK_ERROR(run_with(submit_k, &call, params), SLIP_CODE_GRAPH_INVALID_TASK,
                   "dimension 1 of tensor 1 is 1, but 's' must have 2 there");
  call = right_call();
  call.t[2] = graph_test_tensor(z_data, SLIP_DTYPE_I32, 1, (const int64_t[]){1});
  SLIP_CHECK_OK(run_with(submit_k, &call, params));  // '?' takes any
}

SLIP_TEST(boundary_tensors_declared_in_are_never_written) {
  for (uint32_t access = SLIP_ACCESS_IN; access <= SLIP_ACCESS_NO_DEP; ++access) {
    if (access == SLIP_ACCESS_OUT) continue;  // makes a new tensor
    declared_t call = right_call();
    call.access[2] = access;
    call.t[2].depth = SLIP_OTENSOR_READ_ONLY;
    slip_status_t status = run_with(submit_k, &call, NULL);
    if (access == SLIP_ACCESS_IN || access == SLIP_ACCESS_NO_DEP) {
      SLIP_CHECK_OK(status);
    } else {
      SLIP_CHECK_ERROR(status, SLIP_CODE_GRAPH_INVALID_TASK, "tensor 2 would be written");
    }
  }
  declared_t call = right_call();
  call.access[2] = SLIP_ACCESS_NO_DEP;  // the declaration says that it writes
  call.t[2].depth = SLIP_OTENSOR_READ_ONLY;
  SLIP_CHECK_ERROR(run_with(submit_k, &call, params), SLIP_CODE_GRAPH_INVALID_TASK, "tensor 2 would be written");
}

static void view_and_write(slip_orch_t *o, const slip_oargs_t *args) {
  declared_t *call = graph_test_user(args);
  slip_otensor_t view = slip_otensor_slice(o, call->t[0], 0, 1, 2);
  view = slip_otensor_transpose(o, slip_otensor_reshape(o, view, 2, (const int64_t[]){4, 2}), 0, 1);
  slip_task_builder_t task;
  slip_task_begin(&task, 1, 1);
  slip_task_inout(&task, &view);
  slip_task_submit(o, &task);
}

SLIP_TEST(views_of_a_read_only_tensor_are_read_only) {
  declared_t call = right_call();
  SLIP_CHECK_OK(run_with(view_and_write, &call, NULL));
  call.t[0].depth = SLIP_OTENSOR_READ_ONLY;
  SLIP_CHECK_ERROR(run_with(view_and_write, &call, NULL), SLIP_CODE_GRAPH_INVALID_TASK, "would be written");
}

static int slice_line;
static void slice_outside(slip_orch_t *o, const slip_oargs_t *args) {
  declared_t *call = graph_test_user(args);
  slice_line = __LINE__ + 1;
  (void)slip_otensor_slice(o, call->t[0], 1, 2, 3);
}

static void transpose_outside(slip_orch_t *o, const slip_oargs_t *args) {
  declared_t *call = graph_test_user(args);
  (void)slip_otensor_transpose(o, call->t[0], 0, 2);
}

static void reshape_to_more(slip_orch_t *o, const slip_oargs_t *args) {
  declared_t *call = graph_test_user(args);
  (void)slip_otensor_reshape(o, call->t[0], 1, (const int64_t[]){13});
}

SLIP_TEST(wrong_views_say_where_and_what) {
  declared_t call = right_call();
  slip_status_t status = run_with(slice_outside, &call, NULL);
  char part[128];
  snprintf(part, sizeof(part), "declared_test.c:%d: slice of 3 elements from 2 leaves dimension 1, which has 4", slice_line);
  SLIP_CHECK_ERROR(status, SLIP_CODE_GRAPH_USER_FAIL, part);
  SLIP_CHECK_ERROR(run_with(transpose_outside, &call, NULL), SLIP_CODE_GRAPH_USER_FAIL,
                   ": transpose of dimensions 0 and 2 of a tensor of rank 2");
  SLIP_CHECK_ERROR(run_with(reshape_to_more, &call, NULL), SLIP_CODE_GRAPH_USER_FAIL, "reshape of 12 elements to 13");
}
