// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "op.h"

static const char *slip__torch_direction(const slip_param_t *param) {
  return param->direction == SLIP_DIRECTION_IN ? "in" : param->direction == SLIP_DIRECTION_OUT ? "out" : "inout";
}

static uint16_t slip__torch_platform(int32_t device_type, uint16_t privateuse1) {
  if (device_type == slip__torch_shim.cpu) return SLIP_PLATFORM_CPU;
  if (device_type == slip__torch_shim.cuda) return SLIP_PLATFORM_CUDA;
  if (device_type == slip__torch_shim.privateuse1) return privateuse1;
  return SLIP_PLATFORM_NONE;
}

#define SLIP_TORCH_REFUSE(text, ...)                                                                                                    \
  SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: parameter %zu '%s' (%s): " text, name, index, param->name, slip__torch_direction(param), \
              __VA_ARGS__)

// Dtype, shape, strides and device.
static slip_status_t slip__torch_read_shape(slip__torch_tensor_t handle, uint16_t privateuse1, const char *name, size_t index,
                                            const slip_param_t *param, slip_tensor_t *out) {
  const slip__torch_shim_t *shim = &slip__torch_shim;
  int32_t dtype = -1, device_type = -1, device_index = -1, layout = -1;
  int64_t rank = 0, *dims = NULL, *strides = NULL;
  int32_t wrong = shim->aoti_torch_get_layout(handle, &layout);
  if (wrong == 0 && layout != shim->strided) {
    return SLIP_TORCH_REFUSE(
        "a tensor of PyTorch's layout number %" PRId32 " (sparse or blocked), expected a dense strided one; pass x.to_dense()", layout);
  }
  wrong |= shim->aoti_torch_get_dtype(handle, &dtype);
  wrong |= shim->aoti_torch_get_dim(handle, &rank);
  wrong |= shim->aoti_torch_get_sizes(handle, &dims);
  wrong |= shim->aoti_torch_get_strides(handle, &strides);
  wrong |= shim->aoti_torch_get_device_type(handle, &device_type);
  wrong |= shim->aoti_torch_get_device_index(handle, &device_index);
  if (wrong != 0)
    return SLIP_TORCH_REFUSE("an undefined, nested or symbolic tensor, expected %s of a known shape; pass a plain tensor", "one");
  if (rank > SLIP_MAX_RANK) return SLIP_TORCH_REFUSE("rank is %" PRId64 ", expected %u; pass a tensor of that rank", rank, param->rank);
  *out = (slip_tensor_t){.struct_size = (uint32_t)sizeof(*out), .rank = (uint8_t)rank, .format = SLIP_FORMAT_ND};
  out->dtype = dtype >= 0 && dtype < SLIP_TORCH_DTYPE_COUNT ? shim->dtypes[dtype] : 0;
  if (!out->dtype) {
    return SLIP_TORCH_REFUSE("PyTorch's dtype number %" PRId32 " has no counterpart, expected %s; pass x.to(...)", dtype,
                             slip_dtype_name(param->dtype));
  }
  for (int64_t i = 0; i < rank; ++i) {
    out->dims[i] = dims[i];
    out->strides[i] = strides[i];
  }
  out->device.platform = slip__torch_platform(device_type, privateuse1);
  out->device.ordinal = (int16_t)(device_index < 0 ? 0 : device_index);
  if (device_type == shim->meta) out->flags |= SLIP_TENSOR_FAKE;
  return slip_ok_status();
}

slip_status_t slip__torch_tensor_read(slip__torch_tensor_t handle, bool grad, uint16_t privateuse1, const char *name, size_t index,
                                      const slip_param_t *param, slip_tensor_t *out) {
  const slip__torch_shim_t *shim = &slip__torch_shim;
  int64_t storage_bytes = 0, offset = 0;
  void *data = NULL;
  SLIP_RETURN_IF_ERROR(slip__torch_read_shape(handle, privateuse1, name, index, param, out));
  if (grad && shim->believes_requires_grad && shim->_ZNK3c1010TensorImpl13requires_gradEv(*(void *const *)(const void *)handle)) {
    out->flags |= SLIP_TENSOR_REQUIRES_GRAD;
  }
  if (out->flags & SLIP_TENSOR_FAKE) return slip_ok_status();
  if (shim->aoti_torch_get_data_ptr(handle, &data) != 0 || shim->aoti_torch_get_storage_size(handle, &storage_bytes) != 0 ||
      shim->aoti_torch_get_storage_offset(handle, &offset) != 0 || offset < 0 || storage_bytes < 0) {
    return SLIP_TORCH_REFUSE("PyTorch gives no address for the tensor (fake, or without storage), expected %s; pass a real tensor",
                             "memory");
  }
  // The address that PyTorch gives has the offset in it, except for an empty tensor, which has none.
  out->byte_offset = (uint64_t)offset * slip_dtype_size_bytes(out->dtype);
  if (data) {
    out->data = (char *)data - out->byte_offset;
    out->storage_base = out->data;
    out->storage_bytes = (uint64_t)storage_bytes;
  }
  return slip_ok_status();
}
