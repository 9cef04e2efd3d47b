// SPDX-License-Identifier: Apache-2.0
// Each row of the call rules: what passes, and every refusal with its code and the key part of its sentence.
#include "slipstream/frame.h"

#include "contract/call_frame.h"
#include "slip_test.h"
#include "slip_test_allocator.h"

#define RMSNORM "(in x: bf16[M,8], w: bf16[8], out y: bf16[M,8], eps: f32) -> (y)"

static slip_signature_t *parse(const char *text) {
  slip_signature_t *signature;
  SLIP_CHECK_OK(slip_signature_parse(text, strlen(text), slip_allocator_system(), &signature));
  return signature;
}

// A call of RMSNORM with M = 4 that passes; tests spoil one thing. Each tensor has memory of its own.
typedef struct call_t {
  slip_signature_t *signature;
  _Alignas(64) uint8_t memory[4][256];
  slip_tensor_t x, w, y;
  slip_arg_t args[4];
  slip_device_t device;
  uint32_t flags;
  slip_frame_t frame;
} call_t;

static void call_begin(call_t *call) {
  memset(call, 0, sizeof(*call));
  call->signature = parse(RMSNORM);
  call->device = slip_device_cpu();
  SLIP_CHECK_OK(slip_tensor_initialize(&call->x, SLIP_DTYPE_BF16, 2, (int64_t[]){4, 8}, call->memory[0], call->device));
  SLIP_CHECK_OK(slip_tensor_initialize(&call->w, SLIP_DTYPE_BF16, 1, (int64_t[]){8}, call->memory[1], call->device));
  SLIP_CHECK_OK(slip_tensor_initialize(&call->y, SLIP_DTYPE_BF16, 2, (int64_t[]){4, 8}, call->memory[2], call->device));
  call->args[0] = slip_arg_tensor(&call->x, &call->x);
  call->args[1] = slip_arg_tensor(&call->w, &call->w);
  call->args[2] = slip_arg_tensor(&call->y, &call->y);
  call->args[3] = slip_arg_scalar(slip_scalar_f32(1e-5f));
}

static slip_status_t call_run(call_t *call) {
  return slip_frame_initialize(&call->frame, call->signature, "rmsnorm", call->device, call->args, 4, call->flags);
}

// Runs the call, which must pass, and lets go of everything.
static void call_pass(call_t *call) {
  SLIP_CHECK_OK(call_run(call));
  slip_frame_deinitialize(&call->frame);
  slip_signature_release(call->signature);
}

// The call must be refused and say |part|.
static void call_refused(call_t *call, const char *part) {
  SLIP_CHECK_ERROR(call_run(call), SLIP_CODE_INVALID_ARGUMENT, part);
  slip__frame_view_t view;
  SLIP_CHECK(!slip__frame_view(&call->frame, &view));
  slip_frame_deinitialize(&call->frame);
  slip_signature_release(call->signature);
}

SLIP_TEST(frame_holds_tensors_and_scalars_in_signature_order) {
  call_t call;
  call_begin(&call);
  SLIP_CHECK_OK(call_run(&call));
  slip__frame_view_t view;
  SLIP_CHECK(slip__frame_view(&call.frame, &view));
  SLIP_CHECK_EQ(view.tensor_count, 3);
  SLIP_CHECK_EQ(view.scalar_count, 1);
  SLIP_CHECK(view.signature == call.signature);
  SLIP_CHECK(view.signature_hash == slip_signature_hash(call.signature));
  SLIP_CHECK_EQ(view.device.platform, SLIP_PLATFORM_CPU);
  const slip_otensor_t *y = &view.tensors[2];
  SLIP_CHECK(y->view.data == call.memory[2]);
  SLIP_CHECK(y->storage == call.memory[2]);
  SLIP_CHECK_EQ(y->storage_bytes, 64);
  SLIP_CHECK_EQ(y->view.dtype, SLIP_DTYPE_BF16);
  SLIP_CHECK_EQ(y->view.rank, 2);
  const int64_t dims[5] = {4, 8, 1, 1, 1}, strides[5] = {8, 1, 0, 0, 0};
  SLIP_CHECK(memcmp(y->view.dims, dims, sizeof(dims)) == 0);
  SLIP_CHECK(memcmp(y->view.strides, strides, sizeof(strides)) == 0);
  SLIP_CHECK_EQ(view.tensors[0].depth, SLIP_OTENSOR_READ_ONLY);  // an IN parameter
  SLIP_CHECK(y->creator == 0 && y->generation == 0 && y->depth == 0 && y->view.reserved0 == 0 && y->view.reserved1 == 0);
  SLIP_CHECK(view.scalars[0] == slip_scalar_f32(1e-5f).bits);
  slip_frame_deinitialize(&call.frame);
  SLIP_CHECK(!slip__frame_view(&call.frame, &view));
  slip_signature_release(call.signature);
}

SLIP_TEST(frame_alias_gives_back_the_very_objects) {
  int a = 0, b = 0;
  float memory[2][4];
  slip_tensor_t x, y;
  slip_signature_t *signature = parse("(n: i32, out a: f32[4], inout b: f32[4]) -> (b, a, b)");
  SLIP_CHECK_OK(slip_tensor_initialize(&x, SLIP_DTYPE_F32, 1, (int64_t[]){4}, memory[0], slip_device_cpu()));
  SLIP_CHECK_OK(slip_tensor_initialize(&y, SLIP_DTYPE_F32, 1, (int64_t[]){4}, memory[1], slip_device_cpu()));
  slip_arg_t args[] = {slip_arg_scalar(slip_scalar_i32(3)), slip_arg_tensor(&x, &a), slip_arg_tensor(&y, &b)};
  slip_frame_t frame;
  SLIP_CHECK_OK(slip_frame_initialize(&frame, signature, NULL, slip_device_cpu(), args, 3, 0));
  void *objects[3] = {NULL, NULL, NULL};
  SLIP_CHECK_EQ(slip_frame_alias(&frame, objects, 3), 3);
  SLIP_CHECK(objects[0] == &b && objects[1] == &a && objects[2] == &b);
  void *one[2] = {NULL, NULL};
  SLIP_CHECK_EQ(slip_frame_alias(&frame, one, 1), 3);
  SLIP_CHECK(one[0] == &b && one[1] == NULL);
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_EQ(slip_frame_alias(&frame, objects, 3), 0);
  slip_signature_release(signature);
}

SLIP_TEST(frame_without_return_values_gives_nothing) {
  slip_signature_t *signature = parse("()");
  slip_frame_t frame;
  SLIP_CHECK_OK(slip_frame_initialize(&frame, signature, "nop", slip_device_cpu(), NULL, 0, 0));
  SLIP_CHECK_EQ(slip_frame_alias(&frame, NULL, 0), 0);
  slip_frame_deinitialize(&frame);
  slip_frame_t zero;
  memset(&zero, 0, sizeof(zero));
  slip_frame_deinitialize(&zero);
  slip_signature_release(signature);
}

SLIP_TEST(frame_keeps_its_signature) {
  call_t call;
  call_begin(&call);
  SLIP_CHECK_OK(call_run(&call));
  slip_signature_release(call.signature);
  slip__frame_view_t view;
  SLIP_CHECK(slip__frame_view(&call.frame, &view));
  SLIP_CHECK_EQ(slip_signature_param_count(view.signature), 4);
  slip_frame_deinitialize(&call.frame);
}

// --- complete -------------------------------------------------------------------------------------------------------------------------

SLIP_TEST(frame_refuses_incomplete_calls) {
  call_t call;
  call_begin(&call);
  SLIP_CHECK_ERROR(slip_frame_initialize(&call.frame, call.signature, "rmsnorm", call.device, call.args, 2, 0), SLIP_CODE_INVALID_ARGUMENT,
                   "rmsnorm: parameter 2 'y' (out): missing: 2 arguments came, expected 4");
  SLIP_CHECK_ERROR(slip_frame_initialize(&call.frame, call.signature, "rmsnorm", call.device, call.args, 5, 0), SLIP_CODE_INVALID_ARGUMENT,
                   "rmsnorm: 5 arguments came, expected 4");
  SLIP_CHECK_ERROR(slip_frame_initialize(&call.frame, call.signature, NULL, call.device, NULL, 4, 0), SLIP_CODE_INVALID_ARGUMENT,
                   "call: parameter 0 'x' (in): missing");
  SLIP_CHECK_ERROR(slip_frame_initialize(&call.frame, NULL, "rmsnorm", call.device, call.args, 4, 0), SLIP_CODE_INVALID_ARGUMENT,
                   "no signature");
  call.args[2].kind = SLIP_ARG_MISSING;
  call_refused(&call, "rmsnorm: parameter 2 'y' (out): expected bf16[M,8], came nothing (missing); pass it: nothing is allocated");
}

SLIP_TEST(frame_refuses_null_tensor) {
  call_t call;
  call_begin(&call);
  call.args[0].value.tensor = NULL;
  call_refused(&call, "parameter 0 'x' (in): expected bf16[M,8], came nothing");
}

SLIP_TEST(frame_refuses_missing_inout) {
  slip_signature_t *signature = parse("(inout s: f32[4])");
  slip_arg_t arg;
  memset(&arg, 0, sizeof(arg));
  slip_frame_t frame;
  SLIP_CHECK_ERROR(slip_frame_initialize(&frame, signature, "f", slip_device_cpu(), &arg, 1, 0), SLIP_CODE_INVALID_ARGUMENT,
                   "f: parameter 0 's' (inout): expected f32[4], came nothing (missing); pass it: nothing is allocated");
  slip_signature_release(signature);
}

SLIP_TEST(frame_refuses_missing_scalar) {
  call_t call;
  call_begin(&call);
  call.args[3].kind = SLIP_ARG_MISSING;
  call_refused(&call, "parameter 3 'eps' (scalar): expected a f32 scalar, came nothing");
}

SLIP_TEST(frame_refuses_scalar_for_tensor) {
  call_t call;
  call_begin(&call);
  call.args[1] = call.args[3];
  call_refused(&call, "parameter 1 'w' (in): expected bf16[8], came a scalar; pass a tensor");
}

SLIP_TEST(frame_refuses_tensor_for_scalar) {
  call_t call;
  call_begin(&call);
  call.args[3] = call.args[1];
  call_refused(&call, "parameter 3 'eps' (scalar): expected a f32 scalar, came a tensor; pass a scalar");
}

SLIP_TEST(frame_refuses_unknown_kind) {
  call_t call;
  call_begin(&call);
  call.args[0].kind = 77;
  call_refused(&call, "unknown kind 77");
}

SLIP_TEST(frame_refuses_scalar_of_other_dtype) {
  call_t call;
  call_begin(&call);
  call.args[3] = slip_arg_scalar(slip_scalar_i32(1));
  call_refused(&call, "parameter 3 'eps' (scalar): expected a f32 scalar, came dtype 7 'i32'");
}

SLIP_TEST(frame_refuses_scalar_bits_outside_its_type) {
  call_t call;
  call_begin(&call);
  call.args[3].value.scalar.bits |= 1ull << 32;
  call_refused(&call, "outside the type");
}

// --- residence ------------------------------------------------------------------------------------------------------------------------

SLIP_TEST(frame_refuses_other_platform) {
  call_t call;
  call_begin(&call);
  call.w.device.platform = SLIP_PLATFORM_CUDA;
  call_refused(&call, "parameter 1 'w' (in): expected a tensor on cpu:0, came one on cuda:0; move it to cpu:0 first");
}

SLIP_TEST(frame_refuses_cpu_tensor_elsewhere) {
  call_t call;
  call_begin(&call);
  call.device.platform = SLIP_PLATFORM_CUDA;
  call.device.ordinal = 1;
  call_refused(&call, "parameter 0 'x' (in): expected a tensor on cuda:1, came one on cpu:0");
}

SLIP_TEST(frame_refuses_other_ordinal) {
  call_t call;
  call_begin(&call);
  call.y.device.ordinal = 3;
  call_refused(&call, "parameter 2 'y' (out): expected a tensor on cpu:0, came one on cpu:3");
}

SLIP_TEST(frame_refuses_fake) {
  call_t call;
  call_begin(&call);
  call.x.flags = SLIP_TENSOR_FAKE;
  call_refused(&call, "came a fake (meta) one");
}

SLIP_TEST(frame_refuses_worker_owned) {
  call_t call;
  call_begin(&call);
  call.x.flags = SLIP_TENSOR_WORKER_OWNED;
  call_refused(&call, "owned by a Slipstream worker");
}

SLIP_TEST(frame_refuses_memory_less) {
  call_t call;
  call_begin(&call);
  call.x.data = NULL;
  call_refused(&call, "came a null address");
}

SLIP_TEST(frame_refuses_short_struct) {
  call_t call;
  call_begin(&call);
  call.x.struct_size = 64;
  call_refused(&call, "expected a tensor of struct_size 128, came 64");
}

SLIP_TEST(frame_takes_longer_struct) {
  call_t call;
  call_begin(&call);
  call.x.struct_size = 160;  // a caller built against a later header
  call_pass(&call);
}

// --- dtype, rank, dims ----------------------------------------------------------------------------------------------------------------

SLIP_TEST(frame_refuses_dtype) {
  call_t call;
  call_begin(&call);
  call.x.dtype = SLIP_DTYPE_F16;
  call_refused(&call, "parameter 0 'x' (in): dtype differs: expected bf16[M,8], came f16[4,8]; convert it to bf16 first");
}

SLIP_TEST(frame_refuses_unknown_dtype) {
  call_t call;
  call_begin(&call);
  call.x.dtype = 200;
  call_refused(&call, "came dtype 200[4,8]");
}

SLIP_TEST(frame_refuses_rank) {
  call_t call;
  call_begin(&call);
  call.w.rank = 2;
  call_refused(&call, "parameter 1 'w' (in): rank differs: expected bf16[8]");
}

SLIP_TEST(frame_refuses_rank_above_five) {
  call_t call;
  call_begin(&call);
  call.w.rank = 200;
  call_refused(&call, "rank 200");
}

SLIP_TEST(frame_refuses_static_dim) {
  call_t call;
  call_begin(&call);
  call.w.dims[0] = 7;
  call_refused(&call, "parameter 1 'w' (in): dim 0 differs: expected bf16[8], came bf16[7]");
}

SLIP_TEST(frame_refuses_negative_dynamic_dim) {
  call_t call;
  call_begin(&call);
  call.x.dims[0] = -1;
  call_refused(&call, "dim 0 differs: expected bf16[M,8], came bf16[-1,8]; dims are 0 or more");
}

SLIP_TEST(frame_refuses_disagreeing_symbols) {
  call_t call;
  call_begin(&call);
  call.y.dims[0] = 3;
  call_refused(&call, "parameter 2 'y' (out): dim 0: expected M = 4 as in dim 0 of parameter 0 'x', came 3; pass tensors that agree in M");
}

SLIP_TEST(frame_compares_symbols_inside_one_tensor) {
  float memory[16];
  slip_tensor_t x;
  slip_signature_t *signature = parse("(a: i8, in x: f32[N,N])");
  slip_scalar_t a;
  SLIP_CHECK_OK(slip_scalar_from_i64(SLIP_DTYPE_I8, 1, &a));
  SLIP_CHECK_OK(slip_tensor_initialize(&x, SLIP_DTYPE_F32, 2, (int64_t[]){4, 4}, memory, slip_device_cpu()));
  slip_arg_t args[] = {slip_arg_scalar(a), slip_arg_tensor(&x, NULL)};
  slip_frame_t frame;
  SLIP_CHECK_OK(slip_frame_initialize(&frame, signature, "sq", slip_device_cpu(), args, 2, 0));
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_OK(slip_tensor_initialize(&x, SLIP_DTYPE_F32, 2, (int64_t[]){4, 2}, memory, slip_device_cpu()));
  SLIP_CHECK_ERROR(slip_frame_initialize(&frame, signature, "sq", slip_device_cpu(), args, 2, 0), SLIP_CODE_INVALID_ARGUMENT,
                   "dim 1: expected N = 4 as in dim 0 of parameter 1 'x', came 2");
  slip_signature_release(signature);
}

SLIP_TEST(frame_anonymous_dims_need_not_agree) {
  float memory[2][16];
  slip_tensor_t x, y;
  slip_signature_t *signature = parse("(in x: f32[?], y: f32[?])");
  SLIP_CHECK_OK(slip_tensor_initialize(&x, SLIP_DTYPE_F32, 1, (int64_t[]){4}, memory[0], slip_device_cpu()));
  SLIP_CHECK_OK(slip_tensor_initialize(&y, SLIP_DTYPE_F32, 1, (int64_t[]){5}, memory[1], slip_device_cpu()));
  slip_arg_t args[] = {slip_arg_tensor(&x, NULL), slip_arg_tensor(&y, NULL)};
  slip_frame_t frame;
  SLIP_CHECK_OK(slip_frame_initialize(&frame, signature, "f", slip_device_cpu(), args, 2, 0));
  slip_frame_deinitialize(&frame);
  slip_signature_release(signature);
}

SLIP_TEST(frame_checks_packed_types_by_their_carrier) {
  uint8_t memory[64];
  slip_tensor_t x;
  // [16,8] values of 4 bits are the carrier shape [16,4]; it is not halved again.
  slip_signature_t *signature = parse("(in x: f4e2m1x2[16,4])");
  SLIP_CHECK_OK(slip_tensor_initialize(&x, SLIP_DTYPE_F4E2M1X2, 2, (int64_t[]){16, 4}, memory, slip_device_cpu()));
  slip_arg_t args[] = {slip_arg_tensor(&x, NULL)};
  slip_frame_t frame;
  SLIP_CHECK_OK(slip_frame_initialize(&frame, signature, "f", slip_device_cpu(), args, 1, 0));
  slip__frame_view_t view;
  SLIP_CHECK(slip__frame_view(&frame, &view));
  SLIP_CHECK_EQ(view.tensors[0].storage_bytes, 64);
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_OK(slip_tensor_initialize(&x, SLIP_DTYPE_F4E2M1X2, 2, (int64_t[]){16, 8}, memory, slip_device_cpu()));
  SLIP_CHECK_ERROR(slip_frame_initialize(&frame, signature, "f", slip_device_cpu(), args, 1, 0), SLIP_CODE_INVALID_ARGUMENT,
                   "dim 1 differs");
  slip_signature_release(signature);
}

// --- contiguity -----------------------------------------------------------------------------------------------------------------------

SLIP_TEST(frame_refuses_transposed_by_name) {
  call_t call;
  call_begin(&call);
  call.y.strides[0] = 1;
  call.y.strides[1] = 4;
  call_refused(
      &call,
      "rmsnorm: parameter 2 'y' (out): strides [1,4] are not contiguous for shape [4,8] (a transposed view); pass y.contiguous() of "
      "your own making");
}

SLIP_TEST(frame_refuses_gaps) {
  call_t call;
  call_begin(&call);
  call.x.strides[0] = 9;
  call_refused(&call, "parameter 0 'x' (in): strides [9,1] are not contiguous for shape [4,8]; pass x.contiguous()");
}

SLIP_TEST(frame_refuses_broadcast_and_negative_strides) {
  call_t call;
  call_begin(&call);
  call.w.strides[0] = 0;
  call_refused(&call, "strides [0] are not contiguous for shape [8]");
  call_begin(&call);
  call.w.strides[0] = -1;
  call_refused(&call, "strides [-1] are not contiguous for shape [8]");
}

SLIP_TEST(frame_refuses_conj_and_neg_by_name) {
  call_t call;
  call_begin(&call);
  call.x.flags = SLIP_TENSOR_CONJ;
  call_refused(&call, "came a conj view; pass x.resolve_conj()");
  call_begin(&call);
  call.y.flags = SLIP_TENSOR_NEG;
  call_refused(&call, "came a neg view; pass y.resolve_neg()");
}

SLIP_TEST(frame_refuses_unknown_flag) {
  call_t call;
  call_begin(&call);
  call.x.flags = 128;
  call_refused(&call, "came 0x80");
}

SLIP_TEST(frame_keeps_offsets) {
  call_t call;
  call_begin(&call);
  call.x.byte_offset = 32;
  call.x.storage_bytes = 96;
  SLIP_CHECK_OK(call_run(&call));
  slip__frame_view_t view;
  SLIP_CHECK(slip__frame_view(&call.frame, &view));
  SLIP_CHECK(view.tensors[0].view.data == call.memory[0] + 32);
  SLIP_CHECK(view.tensors[0].storage == call.memory[0]);
  SLIP_CHECK_EQ(view.tensors[0].storage_bytes, 96);
  slip_frame_deinitialize(&call.frame);
  slip_signature_release(call.signature);
}

SLIP_TEST(frame_ignores_strides_of_single_and_empty_dims) {
  call_t call;
  call_begin(&call);
  call.x.dims[0] = 1;
  call.x.strides[0] = 12345;
  call.y.dims[0] = 1;
  SLIP_CHECK_OK(call_run(&call));
  slip__frame_view_t view;
  SLIP_CHECK(slip__frame_view(&call.frame, &view));
  SLIP_CHECK_EQ(view.tensors[0].view.strides[0], 8);  // the canonical stride
  slip_frame_deinitialize(&call.frame);
  call.x.dims[0] = 0;
  call.y.dims[0] = 0;
  call_pass(&call);
}

// --- format ---------------------------------------------------------------------------------------------------------------------------

SLIP_TEST(frame_takes_nchw_and_refuses_other_formats) {
  call_t call;
  call_begin(&call);
  call.x.format = SLIP_FORMAT_NCHW;
  call_pass(&call);
  call_begin(&call);
  call.x.format = SLIP_FORMAT_NZ;
  call_refused(&call, "expected format ND (2) or NCHW (0), came format 29 (NZ)");
  call_begin(&call);
  call.x.format = 3;
  call_refused(&call, "came format 3;");
}

// A call of one NZ weight on ascend that passes.
typedef struct nz_call_t {
  slip_signature_t *signature;
  slip_tensor_t w;
  slip_device_t device;
  slip_frame_hooks_t hooks;
  slip_physical_t physical;
  uint32_t asked;
} nz_call_t;

static slip_status_t nz_physical(void *user, const slip_tensor_t *tensor, void *object, slip_physical_t *out) {
  nz_call_t *call = user;
  SLIP_CHECK(tensor == &call->w && object == call);
  ++call->asked;
  *out = call->physical;
  return out->rank == 99 ? SLIP_STATUS(SLIP_CODE_DEVICE, "the driver did not answer") : NULL;
}

static void nz_begin(nz_call_t *call, const char *text, slip_dtype_t dtype, int64_t k, int64_t n) {
  memset(call, 0, sizeof(*call));
  call->signature = parse(text);
  call->device.platform = SLIP_PLATFORM_ASCEND;
  SLIP_CHECK_OK(slip_tensor_initialize(&call->w, dtype, 2, (int64_t[]){k, n}, (void *)(uintptr_t)0x10000, call->device));
  call->w.format = SLIP_FORMAT_NZ;
  call->hooks = (slip_frame_hooks_t)SLIP_FRAME_HOOKS_INIT;
  call->hooks.physical = nz_physical;
  call->hooks.user = call;
  call->physical = (slip_physical_t){4, 0, {2, 2, 16, 16}};
}

static void nz_check(nz_call_t *call, slip_code_t code, const char *part) {
  slip_frame_t frame;
  slip_arg_t arg = slip_arg_tensor(&call->w, call);
  SLIP_CHECK_ERROR(slip_frame_initialize_hooked(&frame, call->signature, "mm", call->device, &arg, 1, 0, &call->hooks), code, part);
  slip_frame_deinitialize(&frame);
  slip_signature_release(call->signature);
}

SLIP_TEST(frame_takes_nz_weights_on_ascend) {
  nz_call_t call;
  nz_begin(&call, "(in w: f16[32,32] nz)", SLIP_DTYPE_F16, 32, 32);
  nz_check(&call, SLIP_CODE_OK, NULL);
  SLIP_CHECK_EQ(call.asked, 1);
  nz_begin(&call, "(in w: i8[32,64] nz)", SLIP_DTYPE_I8, 32, 64);  // 32 bytes a row of a block
  call.physical = (slip_physical_t){4, 0, {2, 2, 16, 32}};
  nz_check(&call, SLIP_CODE_OK, NULL);
  nz_begin(&call, "(in w: bf16[32,32] nz)", SLIP_DTYPE_BF16, 32, 32);
  call.hooks.physical = NULL;
  nz_check(&call, SLIP_CODE_OK, NULL);
  SLIP_CHECK_EQ(call.asked, 0);
}

SLIP_TEST(frame_asks_for_physical_dims_only_for_nz) {
  nz_call_t call;
  nz_begin(&call, "(in w: f16[32,32])", SLIP_DTYPE_F16, 32, 32);
  call.w.format = SLIP_FORMAT_ND;
  nz_check(&call, SLIP_CODE_OK, NULL);
  SLIP_CHECK_EQ(call.asked, 0);
}

// A tensor that nobody filled has a head of zeros, or of anything: it must not pass for one that needs no closer look.
SLIP_TEST(frame_looks_closely_at_every_nz_tensor) {
  static const uint8_t heads[] = {0, 0xff};
  for (size_t i = 0; i < sizeof(heads); ++i) {
    nz_call_t call;
    nz_begin(&call, "(in w: f16[32,32] nz)", SLIP_DTYPE_F16, 32, 32);
    memset(&call.w, heads[i], offsetof(slip_tensor_t, data));
    nz_check(&call, SLIP_CODE_INVALID_ARGUMENT, NULL);
  }
}

SLIP_TEST(frame_refuses_nz_rules_one_by_one) {
  nz_call_t call;
  nz_begin(&call, "(in w: f16[32,32] nz)", SLIP_DTYPE_F16, 32, 32);
  call.device = call.w.device = slip_device_cpu();
  nz_check(&call, SLIP_CODE_INVALID_ARGUMENT, "layout NZ exists on ascend only, the call is for cpu");
  nz_begin(&call, "(in w: f16[32,32] nz)", SLIP_DTYPE_F16, 32, 32);
  call.w.format = SLIP_FORMAT_ND;
  nz_check(&call, SLIP_CODE_INVALID_ARGUMENT, "expected format NZ (29), came format 2");
  nz_begin(&call, "(out w: f16[32,32] nz)", SLIP_DTYPE_F16, 32, 32);
  nz_check(&call, SLIP_CODE_INVALID_ARGUMENT, "layout NZ is read-only");
  nz_begin(&call, "(in w: f32[32,32] nz)", SLIP_DTYPE_F32, 32, 32);
  nz_check(&call, SLIP_CODE_INVALID_ARGUMENT, "layout NZ takes f16, bf16 or i8, came f32");
  nz_begin(&call, "(in w: f16[32,32] nz)", SLIP_DTYPE_F16, 32, 32);
  call.w.byte_offset = 32;
  call.w.storage_bytes += 32;
  nz_check(&call, SLIP_CODE_INVALID_ARGUMENT, "came a view at a non-zero offset");
  nz_begin(&call, "(in w: f16[32,?] nz)", SLIP_DTYPE_F16, 32, 24);
  nz_check(&call, SLIP_CODE_INVALID_ARGUMENT, "complete blocks of 16x16, came f16[32,24]");
  nz_begin(&call, "(in w: f16[?,32] nz)", SLIP_DTYPE_F16, 8, 32);
  nz_check(&call, SLIP_CODE_INVALID_ARGUMENT, "complete blocks of 16x16, came f16[8,32]");
  nz_begin(&call, "(in w: f16[32,32] nz)", SLIP_DTYPE_F16, 32, 32);
  call.physical.dims[0] = 3;
  nz_check(&call, SLIP_CODE_INVALID_ARGUMENT, "expected NZ blocks [2,2,16,16], came [3,2,16,16]");
  nz_begin(&call, "(in w: f16[32,32] nz)", SLIP_DTYPE_F16, 32, 32);
  call.physical.rank = 99;
  nz_check(&call, SLIP_CODE_DEVICE, "asking for the physical shape");
}

// --- bounds ---------------------------------------------------------------------------------------------------------------------------

SLIP_TEST(frame_refuses_access_outside_storage) {
  call_t call;
  call_begin(&call);
  call.x.storage_bytes = 63;
  call_refused(&call, "expected an access inside the storage of 63 bytes, came bytes [0,64)");
  call_begin(&call);
  call.x.storage_base = call.memory[0] + 2;
  call_refused(&call, "came bytes [-2,62)");
  call_begin(&call);
  call.x.byte_offset = 2;
  call_refused(&call, "came bytes [2,66)");
}

SLIP_TEST(frame_does_not_check_unknown_storage) {
  call_t call;
  call_begin(&call);
  call.x.storage_base = NULL;
  call.x.storage_bytes = 0;
  call.x.byte_offset = 64;
  call_pass(&call);
}

SLIP_TEST(frame_refuses_sizes_that_overflow) {
  float memory[4];
  slip_tensor_t x;
  slip_signature_t *signature = parse("(in x: f32[A,B])");
  SLIP_CHECK_OK(slip_tensor_initialize(&x, SLIP_DTYPE_F32, 2, (int64_t[]){2, 2}, memory, slip_device_cpu()));
  slip_arg_t args[] = {slip_arg_tensor(&x, NULL)};
  slip_frame_t frame;
  x.storage_base = NULL;
  x.dims[0] = x.dims[1] = x.strides[0] = 1ll << 32;
  SLIP_CHECK_ERROR(slip_frame_initialize(&frame, signature, "f", slip_device_cpu(), args, 1, 0), SLIP_CODE_INVALID_ARGUMENT,
                   "passes 2^63-1 bytes");
  x.dims[0] = 1ll << 30;
  x.dims[1] = x.strides[0] = 1ll << 31;
  SLIP_CHECK_ERROR(slip_frame_initialize(&frame, signature, "f", slip_device_cpu(), args, 1, 0), SLIP_CODE_INVALID_ARGUMENT,
                   "passes 2^63-1 bytes");
  x.dims[0] = 2;
  x.dims[1] = x.strides[0] = 2;
  x.data = (void *)(uintptr_t)(UINT64_MAX - 8);
  SLIP_CHECK_ERROR(slip_frame_initialize(&frame, signature, "f", slip_device_cpu(), args, 1, 0), SLIP_CODE_INVALID_ARGUMENT,
                   "pass the end of the address space");
  slip_signature_release(signature);
}

SLIP_TEST(frame_empty_tensor_accesses_nothing) {
  call_t call;
  call_begin(&call);
  call.x.dims[0] = call.y.dims[0] = 0;
  call.x.data = NULL;
  call.x.byte_offset = 1u << 20;  // far outside its storage, and harmless
  call.x.storage_base = call.memory[0];
  call.x.storage_bytes = 1;
  SLIP_CHECK_OK(call_run(&call));
  slip_frame_deinitialize(&call.frame);
  call.y.data = call.w.data;  // overlaps nothing
  SLIP_CHECK_OK(call_run(&call));
  slip_frame_deinitialize(&call.frame);
  call.x.byte_offset = (uint64_t)-2;
  call_refused(&call, "parameter 0 'x' (in): expected an offset of 0 or more, came byte offset -2");
}

SLIP_TEST(frame_refuses_negative_offset) {
  call_t call;
  call_begin(&call);
  call.x.byte_offset = (uint64_t)-2;
  call_refused(&call, "came byte offset -2");
}

// --- aliasing -------------------------------------------------------------------------------------------------------------------------

SLIP_TEST(frame_allows_exact_alias_of_input_and_output) {
  call_t call;
  call_begin(&call);
  call.y.data = call.y.storage_base = call.memory[0];
  SLIP_CHECK_OK(call_run(&call));
  slip__frame_view_t view;
  SLIP_CHECK(slip__frame_view(&call.frame, &view));
  SLIP_CHECK(view.tensors[0].storage == view.tensors[2].storage);
  SLIP_CHECK_EQ(view.tensors[0].storage_bytes, view.tensors[2].storage_bytes);
  slip_frame_deinitialize(&call.frame);
  slip_signature_release(call.signature);
}

SLIP_TEST(frame_refuses_partial_overlap_with_a_writer) {
  call_t call;
  call_begin(&call);
  call.y.data = call.y.storage_base = call.memory[0] + 2;
  call_refused(&call, "rmsnorm: parameter 2 'y' (out): its bytes [");
  call_begin(&call);
  call.y.data = call.y.storage_base = call.memory[0] + 2;
  call_refused(&call, ") of parameter 0 'x' (in); pass tensors that are disjoint or cover exactly the same bytes");
  // The same with storages unknown, and with the smaller one inside the larger.
  call_begin(&call);
  call.y.data = call.memory[1] + 8;
  call.y.storage_base = call.w.storage_base = NULL;
  call_refused(&call, "partially overlap");
}

SLIP_TEST(frame_allows_exact_span_of_other_dtype_and_shape) {
  float memory[8];
  slip_tensor_t x, y;
  slip_signature_t *signature = parse("(in x: f32[8], out y: f16[2,8])");
  SLIP_CHECK_OK(slip_tensor_initialize(&x, SLIP_DTYPE_F32, 1, (int64_t[]){8}, memory, slip_device_cpu()));
  SLIP_CHECK_OK(slip_tensor_initialize(&y, SLIP_DTYPE_F16, 2, (int64_t[]){2, 8}, memory, slip_device_cpu()));
  slip_arg_t args[] = {slip_arg_tensor(&x, NULL), slip_arg_tensor(&y, NULL)};
  slip_frame_t frame;
  SLIP_CHECK_OK(slip_frame_initialize(&frame, signature, "f", slip_device_cpu(), args, 2, 0));
  slip_frame_deinitialize(&frame);
  slip_signature_release(signature);
}

// Three views of one storage of 96 bytes: |begins| are byte offsets, each view 8 floats.
static slip_status_t three_views(const char *text, const uint64_t begins[3], bool storage_known, slip_frame_t *frame) {
  static float memory[32];
  slip_tensor_t tensors[3];
  slip_arg_t args[3];
  slip_signature_t *signature = parse(text);
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_OK(slip_tensor_initialize(&tensors[i], SLIP_DTYPE_F32, 1, (int64_t[]){8}, memory, slip_device_cpu()));
    tensors[i].byte_offset = begins[i];
    tensors[i].storage_base = storage_known ? memory : NULL;
    tensors[i].storage_bytes = storage_known ? sizeof(memory) : 0;
    args[i] = slip_arg_tensor(&tensors[i], NULL);
  }
  slip_status_t status = slip_frame_initialize(frame, signature, "f", slip_device_cpu(), args, 3, 0);
  slip_signature_release(signature);
  return status;
}

SLIP_TEST(frame_allows_disjoint_views_of_one_storage) {
  slip_frame_t frame;
  for (int known = 0; known < 2; ++known) {
    SLIP_CHECK_OK(three_views("(in a: f32[8], out b: f32[8], inout c: f32[8])", (uint64_t[]){64, 0, 32}, known, &frame));
    slip__frame_view_t view;
    SLIP_CHECK(slip__frame_view(&frame, &view));
    // A known storage is one; unknown ones that only touch are three.
    SLIP_CHECK_EQ(view.tensors[0].storage == view.tensors[1].storage, known);
    SLIP_CHECK_EQ(view.tensors[0].storage_bytes, known ? 128 : 32);
    slip_frame_deinitialize(&frame);
  }
}

SLIP_TEST(frame_allows_overlapping_readers) {
  slip_frame_t frame;
  for (int known = 0; known < 2; ++known) {
    SLIP_CHECK_OK(three_views("(in a: f32[8], b: f32[8], out c: f32[8])", (uint64_t[]){16, 0, 48}, known, &frame));
    slip__frame_view_t view;
    SLIP_CHECK(slip__frame_view(&frame, &view));
    SLIP_CHECK(view.tensors[0].storage == view.tensors[1].storage);
    SLIP_CHECK_EQ(view.tensors[0].storage_bytes, known ? 128 : 48);
    slip_frame_deinitialize(&frame);
  }
}

SLIP_TEST(frame_refuses_overlapping_writers) {
  slip_frame_t frame;
  for (int known = 0; known < 2; ++known) {
    SLIP_CHECK_ERROR(three_views("(in a: f32[8], out b: f32[8], out c: f32[8])", (uint64_t[]){64, 0, 16}, known, &frame),
                     SLIP_CODE_INVALID_ARGUMENT, "parameter 2 'c' (out): its bytes");
    SLIP_CHECK_ERROR(three_views("(inout a: f32[8], in b: f32[8], c: f32[8])", (uint64_t[]){0, 64, 28}, known, &frame),
                     SLIP_CODE_INVALID_ARGUMENT, "of parameter 2 'c' (in)");
  }
}

// --- gradients, read-only -------------------------------------------------------------------------------------------------------------

SLIP_TEST(frame_gradients) {
  call_t call;
  call_begin(&call);
  call.x.flags = SLIP_TENSOR_REQUIRES_GRAD;
  call_pass(&call);  // under no-grad
  call_begin(&call);
  call.x.flags = SLIP_TENSOR_REQUIRES_GRAD;
  call.flags = SLIP_FRAME_GRAD_ENABLED;
  call_refused(&call, "requires grad while autograd is on; call under no_grad or pass x.detach()");
  call_begin(&call);
  call.flags = SLIP_FRAME_GRAD_ENABLED;
  call_pass(&call);
}

SLIP_TEST(frame_read_only) {
  call_t call;
  call_begin(&call);
  call.x.flags = SLIP_TENSOR_READ_ONLY;
  call_pass(&call);
  call_begin(&call);
  call.y.flags = SLIP_TENSOR_READ_ONLY;
  call_refused(&call, "parameter 2 'y' (out): expected a writable tensor, came a read-only one");
}

// --- large calls ----------------------------------------------------------------------------------------------------------------------

// |count| tensors of 8 bytes in one buffer, the last written, |shift| bytes off its own place.
static slip_status_t many(uint32_t count, uint64_t shift, slip_allocator_t allocator, bool check_objects) {
  static uint8_t memory[4096];
  slip_param_t params[200];
  slip_tensor_t tensors[200];
  slip_arg_t args[200];
  char names[200][8];
  memset(params, 0, sizeof(params));
  for (uint32_t i = 0; i < count; ++i) {
    snprintf(names[i], sizeof(names[i]), "p%u", i);
    params[i] = (slip_param_t){.name = names[i],
                               .direction = i + 1 == count ? SLIP_DIRECTION_OUT : SLIP_DIRECTION_IN,
                               .layout = SLIP_LAYOUT_ND,
                               .dtype = SLIP_DTYPE_U8,
                               .rank = 1,
                               .dims = {8}};
    SLIP_CHECK_OK(slip_tensor_initialize(&tensors[i], SLIP_DTYPE_U8, 1, (int64_t[]){8}, memory + 16 * (count - i), slip_device_cpu()));
    args[i] = slip_arg_tensor(&tensors[i], &tensors[i]);
  }
  tensors[count - 1].data = tensors[count - 1].storage_base = (uint8_t *)tensors[count - 1].data + shift;
  slip_signature_t *signature;
  SLIP_RETURN_IF_ERROR(slip_signature_create(params, count, (int32_t[]){(int32_t)count - 1}, 1, allocator, &signature));
  slip_frame_t frame;
  slip_status_t status = slip_frame_initialize(&frame, signature, "many", slip_device_cpu(), args, count, 0);
  slip_signature_release(signature);
  if (!slip_status_is_ok(status)) return status;
  slip__frame_view_t view;
  SLIP_CHECK(slip__frame_view(&frame, &view));
  SLIP_CHECK_EQ(view.tensor_count, count);
  for (uint32_t i = 0; i + 1 < count; ++i) SLIP_CHECK(view.tensors[i].view.data == tensors[i].data);
  void *object = NULL;
  SLIP_CHECK_EQ(slip_frame_alias(&frame, &object, 1), 1);
  SLIP_CHECK(!check_objects || object == &tensors[count - 1]);
  slip_frame_deinitialize(&frame);
  return NULL;
}

SLIP_TEST(frame_above_the_inline_capacity) {
  for (uint32_t count = 30; count <= 200; count += 17) {
    SLIP_CHECK_OK(many(count, 0, slip_allocator_system(), true));
    SLIP_CHECK_OK(many(count, 16, slip_allocator_system(), true));  // exactly its neighbour
    SLIP_CHECK_ERROR(many(count, 12, slip_allocator_system(), true), SLIP_CODE_INVALID_ARGUMENT, "partially overlap");
  }
}

static slip_status_t many_body(slip_allocator_t allocator, void *user) {
  (void)user;
  return many(40, 0, allocator, true);
}
SLIP_TEST(frame_survives_failing_allocations) {
  SLIP_CHECK(slip_test_allocator_loop(many_body, NULL) > 3);
}

SLIP_TEST(frame_allocates_nothing_up_to_32_tensors) {
  slip_test_allocator_t state = SLIP_TEST_ALLOCATOR_INIT;
  SLIP_CHECK_OK(many(32, 0, slip_test_allocator(&state), true));
  SLIP_CHECK_EQ(state.requests, 2);  // the signature's block and its symbol table
  SLIP_CHECK_OK(many(33, 0, slip_test_allocator(&state), true));
  SLIP_CHECK_EQ(state.requests, 5);
  slip_test_allocator_check_empty(&state);
}
