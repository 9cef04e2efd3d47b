// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "op.h"

static const char *slip__torch_direction(const slip_param_t *param) {
  return param->direction == SLIP_DIRECTION_IN ? "in" : param->direction == SLIP_DIRECTION_OUT ? "out" : "inout";
}

#define SLIP_TORCH_REFUSE(text, ...)                                                                                                    \
  SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: parameter %zu '%s' (%s): " text, name, index, param->name, slip__torch_direction(param), \
              __VA_ARGS__)

// Why PyTorch's tensor cannot be described.
static slip_status_t slip__torch_tensor_refuse(slip__torch_tensor_t handle, const char *name, size_t index, const slip_param_t *param) {
  const slip__torch_shim_t *shim = &slip__torch_shim;
  int32_t dtype = -1, layout = -1;
  int64_t rank = 0, *unused = NULL;
  int32_t wrong = shim->aoti_torch_get_layout(handle, &layout);
  if (wrong == 0 && layout != shim->strided) {
    return SLIP_TORCH_REFUSE(
        "a tensor of PyTorch's layout number %" PRId32 " (sparse or blocked), expected a dense strided one; pass x.to_dense()", layout);
  }
  wrong = wrong != 0 || shim->aoti_torch_get_dtype(handle, &dtype) != 0 || shim->aoti_torch_get_dim(handle, &rank) != 0 ||
          shim->aoti_torch_get_sizes(handle, &unused) != 0 || shim->aoti_torch_get_strides(handle, &unused) != 0;
  if (wrong != 0)
    return SLIP_TORCH_REFUSE("an undefined, nested or symbolic tensor, expected %s of a known shape; pass a plain tensor", "one");
  if (rank > SLIP_MAX_RANK) return SLIP_TORCH_REFUSE("rank is %" PRId64 ", expected %u; pass a tensor of that rank", rank, param->rank);
  if (dtype < 0 || dtype >= SLIP_TORCH_DTYPE_COUNT || !shim->dtypes[dtype]) {
    return SLIP_TORCH_REFUSE("PyTorch's dtype number %" PRId32 " has no counterpart, expected %s; pass x.to(...)", dtype,
                             slip_dtype_name(param->dtype));
  }
  return SLIP_TORCH_REFUSE("PyTorch gives no address for the tensor (fake, or without storage), expected %s; pass a real tensor", "memory");
}

slip_status_t slip__torch_tensor_read(slip__torch_tensor_t handle, bool grad, uint16_t privateuse1, const char *name, size_t index,
                                      const slip_param_t *param, slip_tensor_t *out) {
  if (!slip__torch_describe(handle, privateuse1, out)) return slip__torch_tensor_refuse(handle, name, index, param);
  if (grad && slip__torch_shim.believes_requires_grad && slip__torch_requires_grad(handle)) out->flags |= SLIP_TENSOR_REQUIRES_GRAD;
  return slip_ok_status();
}
