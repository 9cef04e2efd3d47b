// SPDX-License-Identifier: Apache-2.0
// Why a call is refused, in words: callable, parameter index, name and direction; what was expected, what came; the remedy. Also the rules
// that a plain tensor never meets.
#include <string.h>

#include "contract/frame_internal.h"
#include "contract/scalar.h"
#include "contract/tensor.h"

#define SLIP__REFUSAL_BYTES 768

// Starts a refusal: "rmsnorm: parameter 2 'y' (out): ".
static slip__text_t slip__refusal(const slip__frame_build_t *build, uint32_t index, char *buffer) {
  const slip_param_t *param = &build->signature->params[index];
  slip__text_t text = slip__text(buffer, SLIP__REFUSAL_BYTES);
  slip__text_add(&text, "%.128s: parameter %u '%.128s' (%s): ", build->name, index, param->name, slip__direction_name(param->direction));
  return text;
}

#define SLIP__REFUSE(buffer) SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s", (buffer))

// A one-sentence refusal.
#define SLIP__REFUSE_WITH(build, index, ...)                    \
  do {                                                          \
    char refusal_[SLIP__REFUSAL_BYTES];                         \
    slip__text_t text_ = slip__refusal(build, index, refusal_); \
    slip__text_add(&text_, __VA_ARGS__);                        \
    return SLIP__REFUSE(refusal_);                              \
  } while (0)

// "bf16[M,2048]" as declared.
static void slip__text_add_declared(slip__text_t *text, const slip_param_t *param) {
  slip__text_add(text, "%s[", slip_dtype_name(param->dtype));
  for (uint32_t d = 0; d < param->rank; ++d) {
    if (d) slip__text_add(text, ",");
    if (param->dims[d] != SLIP_DIM_DYNAMIC) {
      slip__text_add(text, "%lld", (long long)param->dims[d]);
    } else {
      slip__text_add(text, "%s", param->dim_names[d] ? param->dim_names[d] : "?");
    }
  }
  slip__text_add(text, "]");
}

static uint32_t slip__came_rank(const slip_tensor_t *tensor) {
  return tensor->rank <= SLIP_MAX_RANK ? tensor->rank : SLIP_MAX_RANK;
}

static bool slip__is_writer(const slip_param_t *param) {
  return param->direction == SLIP_DIRECTION_OUT || param->direction == SLIP_DIRECTION_INOUT;
}

// --- complete -------------------------------------------------------------------------------------------------------------------------

slip_status_t slip__frame_refuse_count(const slip__frame_build_t *build, size_t arg_count) {
  uint32_t count = build->signature->param_count;
  if (arg_count < count) {
    SLIP__REFUSE_WITH(build, (uint32_t)arg_count, "missing: %zu arguments came, expected %u; pass every parameter, outputs included",
                      arg_count, count);
  }
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%.128s: %zu arguments came, expected %u; leave the last %zu out", build->name, arg_count,
                     count, arg_count - count);
}

slip_status_t slip__frame_refuse_kind(const slip__frame_build_t *build, uint32_t index) {
  const slip_param_t *param = &build->signature->params[index];
  const slip_arg_t *arg = &build->args[index];
  char refusal[SLIP__REFUSAL_BYTES];
  slip__text_t text = slip__refusal(build, index, refusal);
  bool wants_tensor = param->direction != SLIP_DIRECTION_SCALAR;
  bool missing = arg->kind == SLIP_ARG_MISSING || (arg->kind == SLIP_ARG_TENSOR && !arg->value.tensor);
  slip__text_add(&text, "expected ");
  if (wants_tensor) {
    slip__text_add_declared(&text, param);
  } else {
    slip__text_add(&text, "a %s scalar", slip_dtype_name(param->dtype));
  }
  if (missing) {
    slip__text_add(&text, ", came nothing (missing); pass it%s", slip__is_writer(param) ? ": nothing is allocated for the caller" : "");
  } else if (arg->kind == SLIP_ARG_TENSOR || arg->kind == SLIP_ARG_SCALAR) {
    slip__text_add(&text, ", came a %s; pass a %s", wants_tensor ? "scalar" : "tensor", wants_tensor ? "tensor" : "scalar");
  } else {
    slip__text_add(&text, ", came an argument of unknown kind %u; use slip_arg_tensor() or slip_arg_scalar()", arg->kind);
  }
  return SLIP__REFUSE(refusal);
}

slip_status_t slip__frame_refuse_scalar(const slip__frame_build_t *build, uint32_t index) {
  const slip_param_t *param = &build->signature->params[index];
  slip_scalar_t scalar = build->args[index].value.scalar;
  const char *came = slip_dtype_name(scalar.dtype);
  if (scalar.dtype == param->dtype) {
    SLIP__REFUSE_WITH(build, index, "expected a %s scalar, came bits 0x%llx outside the type; make it with slip_scalar_from_*()", came,
                      (unsigned long long)scalar.bits);
  }
  SLIP__REFUSE_WITH(build, index, "expected a %s scalar, came dtype %u '%s'; pass a scalar of the declared dtype",
                    slip_dtype_name(param->dtype), scalar.dtype, came);
}

// --- residence, flags, dtype, rank, format --------------------------------------------------------------------------------------------

static slip_status_t slip__check_residence(const slip__frame_build_t *build, uint32_t index, const slip_tensor_t *tensor) {
  if (tensor->flags & SLIP_TENSOR_FAKE) {
    SLIP__REFUSE_WITH(build, index, "expected a real tensor, came a fake (meta) one without storage; pass a tensor with memory");
  }
  if (tensor->flags & SLIP_TENSOR_WORKER_OWNED) {
    SLIP__REFUSE_WITH(build, index,
                      "expected the caller's own tensor, came one owned by a Slipstream worker; copy it into a tensor of your own");
  }
  if (tensor->device.platform == build->device.platform && tensor->device.ordinal == build->device.ordinal) return slip_ok_status();
  char refusal[SLIP__REFUSAL_BYTES];
  slip__text_t text = slip__refusal(build, index, refusal);
  slip__text_add(&text, "expected a tensor on ");
  slip__text_add_device(&text, build->device);
  slip__text_add(&text, ", came one on ");
  slip__text_add_device(&text, tensor->device);
  slip__text_add(&text, "; move it to ");
  slip__text_add_device(&text, build->device);
  slip__text_add(&text, " first");
  return SLIP__REFUSE(refusal);
}

static slip_status_t slip__check_flags(const slip__frame_build_t *build, uint32_t index, const slip_tensor_t *tensor) {
  const slip_param_t *param = &build->signature->params[index];
  if (tensor->flags & SLIP_TENSOR_CONJ) {
    SLIP__REFUSE_WITH(build, index, "expected a plain tensor, came a conj view; pass %s.resolve_conj() of your own making", param->name);
  }
  if (tensor->flags & SLIP_TENSOR_NEG) {
    SLIP__REFUSE_WITH(build, index, "expected a plain tensor, came a neg view; pass %s.resolve_neg() of your own making", param->name);
  }
  if ((tensor->flags & SLIP_TENSOR_READ_ONLY) && slip__is_writer(param)) {
    SLIP__REFUSE_WITH(build, index, "expected a writable tensor, came a read-only one; pass a writable copy");
  }
  if ((tensor->flags & SLIP_TENSOR_REQUIRES_GRAD) && (build->flags & SLIP_FRAME_GRAD_ENABLED)) {
    SLIP__REFUSE_WITH(
        build, index,
        "expected a tensor without gradient, came one that requires grad while autograd is on; call under no_grad or pass %s.detach()",
        param->name);
  }
  uint32_t known =
      SLIP_TENSOR_REQUIRES_GRAD | SLIP_TENSOR_CONJ | SLIP_TENSOR_NEG | SLIP_TENSOR_READ_ONLY | SLIP_TENSOR_WORKER_OWNED | SLIP_TENSOR_FAKE;
  if (tensor->flags & ~known) {
    SLIP__REFUSE_WITH(build, index, "expected flags of slip_tensor_bits_e, came 0x%02x; clear the unknown ones", tensor->flags);
  }
  return slip_ok_status();
}

static slip_status_t slip__check_type(const slip__frame_build_t *build, uint32_t index, const slip_tensor_t *tensor) {
  const slip_param_t *param = &build->signature->params[index];
  if (tensor->dtype == param->dtype && tensor->rank == param->rank) return slip_ok_status();
  char refusal[SLIP__REFUSAL_BYTES];
  slip__text_t text = slip__refusal(build, index, refusal);
  bool dtype = tensor->dtype != param->dtype;
  slip__text_add(&text, "%s differs: expected ", dtype ? "dtype" : "rank");
  slip__text_add_declared(&text, param);
  slip__text_add(&text, ", came ");
  slip__text_add_shape(&text, tensor->dtype, tensor->dims, slip__came_rank(tensor));
  if (tensor->rank > SLIP_MAX_RANK) slip__text_add(&text, " and more (rank %u)", tensor->rank);
  if (dtype) {
    slip__text_add(&text, "; convert it to %s first", slip_dtype_name(param->dtype));
  } else {
    slip__text_add(&text, "; pass a view of rank %u", param->rank);
  }
  return SLIP__REFUSE(refusal);
}

// An NZ weight is [.., K, N] in blocks of 16 x C0, C0 being 32 bytes: stored as [.., N/C0, K/16, 16, C0]. The framework is asked for that
// physical shape only here.
static slip_status_t slip__check_nz_physical(const slip__frame_build_t *build, uint32_t index, const slip_tensor_t *tensor) {
  if (!build->hooks || build->hooks->struct_size < sizeof(slip_frame_hooks_t) || !build->hooks->physical) return slip_ok_status();
  slip_physical_t came = {0};
  slip_status_t status = build->hooks->physical(build->hooks->user, tensor, build->args[index].object, &came);
  const char *name = build->signature->params[index].name;
  SLIP_RETURN_IF_ERROR_ANNOTATED(status, "%.128s: parameter %u '%.128s': asking for the physical shape", build->name, index, name);
  int64_t expected[8];
  uint32_t rank = tensor->rank, block = 32 / (uint32_t)slip_dtype_size_bytes(tensor->dtype);
  memcpy(expected, tensor->dims, (rank - 2) * sizeof(int64_t));
  expected[rank - 2] = tensor->dims[rank - 1] / block;
  expected[rank - 1] = tensor->dims[rank - 2] / 16;
  expected[rank] = 16;
  expected[rank + 1] = block;
  if (came.rank == rank + 2 && memcmp(came.dims, expected, (rank + 2) * sizeof(int64_t)) == 0) return slip_ok_status();
  char refusal[SLIP__REFUSAL_BYTES];
  slip__text_t text = slip__refusal(build, index, refusal);
  slip__text_add(&text, "expected NZ blocks ");
  slip__text_add_list(&text, expected, rank + 2);
  slip__text_add(&text, ", came ");
  slip__text_add_list(&text, came.dims, came.rank <= 8 ? came.rank : 8);
  slip__text_add(&text, "; convert the weight to NZ again");
  return SLIP__REFUSE(refusal);
}

static slip_status_t slip__check_nz(const slip__frame_build_t *build, uint32_t index, const slip_tensor_t *tensor) {
  const slip_param_t *param = &build->signature->params[index];
  if (build->device.platform != SLIP_PLATFORM_ASCEND) {
    SLIP__REFUSE_WITH(build, index, "layout NZ exists on ascend only, the call is for %s; compile the program with layout ND",
                      slip_platform_name(build->device.platform));
  }
  if (tensor->format != SLIP_FORMAT_NZ) {
    SLIP__REFUSE_WITH(build, index, "expected format NZ (29), came format %u; convert the weight to NZ first", tensor->format);
  }
  if (param->direction != SLIP_DIRECTION_IN) {
    SLIP__REFUSE_WITH(build, index, "layout NZ is read-only; declare the parameter IN or give it layout ND");
  }
  if (tensor->dtype != SLIP_DTYPE_F16 && tensor->dtype != SLIP_DTYPE_BF16 && tensor->dtype != SLIP_DTYPE_I8) {
    SLIP__REFUSE_WITH(build, index, "layout NZ takes f16, bf16 or i8, came %s; give the parameter layout ND",
                      slip_dtype_name(tensor->dtype));
  }
  if (tensor->byte_offset != 0 || (tensor->storage_base && tensor->data != tensor->storage_base)) {
    SLIP__REFUSE_WITH(build, index, "layout NZ needs a whole storage (offset 0), came a view at a non-zero offset; pass the weight itself");
  }
  int64_t block = 32 / (int64_t)slip_dtype_size_bytes(tensor->dtype);
  if (tensor->rank < 2 || tensor->dims[tensor->rank - 2] % 16 != 0 || tensor->dims[tensor->rank - 1] % block != 0) {
    char refusal[SLIP__REFUSAL_BYTES];
    slip__text_t text = slip__refusal(build, index, refusal);
    slip__text_add(&text, "layout NZ needs complete blocks of 16x%lld, came ", (long long)block);
    slip__text_add_shape(&text, tensor->dtype, tensor->dims, tensor->rank);
    slip__text_add(&text, "; pad the weight yourself");
    return SLIP__REFUSE(refusal);
  }
  return slip__check_nz_physical(build, index, tensor);
}

slip_status_t slip__frame_check_head(const slip__frame_build_t *build, uint32_t index) {
  const slip_tensor_t *tensor = build->args[index].value.tensor;
  if (tensor->struct_size < sizeof(*tensor)) {
    SLIP__REFUSE_WITH(build, index, "expected a tensor of struct_size %zu, came %u; fill it with slip_tensor_initialize()", sizeof(*tensor),
                      tensor->struct_size);
  }
  SLIP_RETURN_IF_ERROR(slip__check_residence(build, index, tensor));
  SLIP_RETURN_IF_ERROR(slip__check_flags(build, index, tensor));
  SLIP_RETURN_IF_ERROR(slip__check_type(build, index, tensor));
  if (build->signature->params[index].layout == SLIP_LAYOUT_NZ) return slip__check_nz(build, index, tensor);
  if (tensor->format == SLIP_FORMAT_ND || tensor->format == SLIP_FORMAT_NCHW) return slip_ok_status();
  SLIP__REFUSE_WITH(build, index, "expected format ND (2) or NCHW (0), came format %u%s; convert it to ND first", tensor->format,
                    tensor->format == SLIP_FORMAT_NZ ? " (NZ)" : "");
}

// --- dims, strides, bounds ------------------------------------------------------------------------------------------------------------

slip_status_t slip__frame_refuse_shape(const slip__frame_build_t *build, uint32_t index) {
  const slip_param_t *param = &build->signature->params[index];
  const slip_tensor_t *tensor = build->args[index].value.tensor;
  const slip__param_rule_t *rule = &build->signature->rules[index];
  char refusal[SLIP__REFUSAL_BYTES];
  slip__text_t text = slip__refusal(build, index, refusal);
  for (uint32_t d = 0; d < param->rank; ++d) {
    bool dynamic = param->dims[d] == SLIP_DIM_DYNAMIC;
    bool fits = dynamic ? tensor->dims[d] >= 0 : tensor->dims[d] == param->dims[d];
    if (fits) continue;
    slip__text_add(&text, "dim %u differs: expected ", d);
    slip__text_add_declared(&text, param);
    slip__text_add(&text, ", came ");
    slip__text_add_shape(&text, tensor->dtype, tensor->dims, tensor->rank);
    slip__text_add(&text, dynamic ? "; dims are 0 or more" : "; pass a tensor of the declared size, or compile for a dynamic dim");
    return SLIP__REFUSE(refusal);
  }
  for (uint32_t d = 0; d < param->rank; ++d) {
    uint32_t peer = rule->peers[d];
    if (peer == SLIP__NO_PEER) continue;
    int64_t first = build->frame->tensors[peer >> 3].view.dims[peer & 7];
    if (tensor->dims[d] == first) continue;
    uint32_t from = 0;
    while (build->signature->params[from].direction == SLIP_DIRECTION_SCALAR || build->signature->rules[from].slot != peer >> 3) ++from;
    slip__text_add(&text, "dim %u: expected %s = %lld as in dim %u of parameter %u '%.128s', came %lld; pass tensors that agree in %s", d,
                   param->dim_names[d], (long long)first, peer & 7, from, build->signature->params[from].name, (long long)tensor->dims[d],
                   param->dim_names[d]);
    return SLIP__REFUSE(refusal);
  }
  return SLIP_STATUS(SLIP_CODE_INTERNAL, "%s: a shape was refused without reason", refusal);
}

// True if some order of the dims makes the view row-major.
static bool slip__is_transposed(const slip_tensor_t *tensor) {
  int64_t expected = 1;
  uint32_t used = 0;
  for (uint32_t step = 0; step < tensor->rank; ++step) {
    uint32_t d = 0;
    // Dims of size 1 fit anywhere and go first.
    while (d < tensor->rank && ((used >> d & 1) || (tensor->dims[d] != 1 && tensor->strides[d] != expected))) ++d;
    if (d == tensor->rank) return false;
    used |= 1u << d;
    if (tensor->dims[d] != 1 && __builtin_mul_overflow(expected, tensor->dims[d], &expected)) return false;
  }
  return true;
}

slip_status_t slip__frame_refuse_strides(const slip__frame_build_t *build, uint32_t index) {
  const slip_tensor_t *tensor = build->args[index].value.tensor;
  const char *name = build->signature->params[index].name;
  char refusal[SLIP__REFUSAL_BYTES];
  slip__text_t text = slip__refusal(build, index, refusal);
  if (slip_tensor_is_contiguous(tensor)) {
    slip__text_add(&text, "the size of shape ");
    slip__text_add_list(&text, tensor->dims, tensor->rank);
    slip__text_add(&text, " passes 2^63-1 bytes; pass a smaller tensor");
    return SLIP__REFUSE(refusal);
  }
  slip__text_add(&text, "strides ");
  slip__text_add_list(&text, tensor->strides, tensor->rank);
  slip__text_add(&text, " are not contiguous for shape ");
  slip__text_add_list(&text, tensor->dims, tensor->rank);
  slip__text_add(&text, "%s; pass %s.contiguous() of your own making", slip__is_transposed(tensor) ? " (a transposed view)" : "", name);
  return SLIP__REFUSE(refusal);
}

slip_status_t slip__frame_refuse_address(const slip__frame_build_t *build, uint32_t index) {
  const slip_tensor_t *tensor = build->args[index].value.tensor;
  int64_t count = slip_tensor_element_count(tensor);
  if (tensor->byte_offset > INT64_MAX) {
    SLIP__REFUSE_WITH(build, index, "expected an offset of 0 or more, came byte offset %lld; pass a view inside its storage",
                      (long long)tensor->byte_offset);
  }
  if (!tensor->data) {
    SLIP__REFUSE_WITH(build, index, "expected memory for %lld elements, came a null address; pass a tensor with memory", (long long)count);
  }
  uint64_t begin, end, base = (uint64_t)(uintptr_t)tensor->storage_base;
  if (!slip_tensor_byte_span(tensor, &begin, &end)) {
    SLIP__REFUSE_WITH(build, index, "%lld elements at byte offset %llu pass the end of the address space; pass a smaller view",
                      (long long)count, (unsigned long long)tensor->byte_offset);
  }
  SLIP__REFUSE_WITH(build, index,
                    "expected an access inside the storage of %llu bytes, came bytes [%lld,%lld); pass a view that lies inside it",
                    (unsigned long long)tensor->storage_bytes, (long long)(begin - base), (long long)(end - base));
}

// --- aliasing -------------------------------------------------------------------------------------------------------------------------

static uint32_t slip__tensor_param(const slip_signature_t *signature, uint32_t slot) {
  uint32_t index = 0;
  while (signature->params[index].direction == SLIP_DIRECTION_SCALAR || signature->rules[index].slot != slot) ++index;
  return index;
}

slip_status_t slip__frame_refuse_overlap(const slip__frame_build_t *build, uint32_t writer_slot, uint32_t other_slot) {
  const slip_signature_t *signature = build->signature;
  uint32_t index = slip__tensor_param(signature, writer_slot), other = slip__tensor_param(signature, other_slot);
  uint64_t begin, end, other_begin, other_end;
  (void)slip_tensor_byte_span(build->args[index].value.tensor, &begin, &end);
  (void)slip_tensor_byte_span(build->args[other].value.tensor, &other_begin, &other_end);
  SLIP__REFUSE_WITH(
      build, index,
      "its bytes [0x%llx,0x%llx) partially overlap [0x%llx,0x%llx) of parameter %u '%.128s' (%s); pass tensors that are disjoint or cover "
      "exactly the same bytes",
      (unsigned long long)begin, (unsigned long long)end, (unsigned long long)other_begin, (unsigned long long)other_end, other,
      signature->params[other].name, slip__direction_name(signature->params[other].direction));
}
