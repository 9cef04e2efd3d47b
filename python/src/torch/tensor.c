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

slip_status_t slip__torch_tensor_read(slip__torch_tensor_t handle, bool grad, uint16_t privateuse1, const char *name, size_t index,
                                      const slip_param_t *param, slip_tensor_t *out) {
  const slip__torch_shim_t *shim = &slip__torch_shim;
  int32_t dtype = -1, device_type = -1, device_index = -1, layout = -1;
  int64_t rank = 0, storage_bytes = 0, offset = 0;
  int64_t *dims = NULL, *strides = NULL;
  void *data = NULL;
  int32_t wrong = shim->aoti_torch_get_layout(handle, &layout);
  if (wrong == 0 && layout != shim->strided) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "%s: parameter %zu '%s' (%s): a tensor of PyTorch's layout number %" PRId32
                       " (sparse or blocked), expected a dense strided one; pass x.to_dense()",
                       name, index, param->name, slip__torch_direction(param), layout);
  }
  wrong |= shim->aoti_torch_get_dtype(handle, &dtype);
  wrong |= shim->aoti_torch_get_dim(handle, &rank);
  wrong |= shim->aoti_torch_get_sizes(handle, &dims);
  wrong |= shim->aoti_torch_get_strides(handle, &strides);
  wrong |= shim->aoti_torch_get_device_type(handle, &device_type);
  wrong |= shim->aoti_torch_get_device_index(handle, &device_index);
  if (wrong != 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "%s: parameter %zu '%s' (%s): PyTorch cannot say what shape and storage the tensor has (undefined, nested or "
                       "symbolic), expected a dense one; pass a plain tensor",
                       name, index, param->name, slip__torch_direction(param));
  }
  if (rank > SLIP_MAX_RANK) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "%s: parameter %zu '%s' (%s): rank is %" PRId64 ", expected %u; pass a tensor of that rank", name, index,
                       param->name, slip__torch_direction(param), rank, param->rank);
  }
  *out = (slip_tensor_t){.struct_size = (uint32_t)sizeof(*out), .rank = (uint8_t)rank, .format = SLIP_FORMAT_ND};
  out->dtype = dtype >= 0 && dtype < SLIP_TORCH_DTYPE_COUNT ? shim->dtypes[dtype] : 0;
  if (!out->dtype) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "%s: parameter %zu '%s' (%s): PyTorch's dtype number %" PRId32 " has no counterpart, expected %s; pass x.to(...)",
                       name, index, param->name, slip__torch_direction(param), dtype, slip_dtype_name(param->dtype));
  }
  for (int64_t i = 0; i < rank; ++i) {
    out->dims[i] = dims[i];
    out->strides[i] = strides[i];
  }
  out->device.platform = slip__torch_platform(device_type, privateuse1);
  out->device.ordinal = (int16_t)(device_index < 0 ? 0 : device_index);
  if (grad && shim->believes_requires_grad && shim->_ZNK3c1010TensorImpl13requires_gradEv(*(void *const *)(const void *)handle)) {
    out->flags |= SLIP_TENSOR_REQUIRES_GRAD;
  }
  if (device_type == shim->meta) {
    out->flags |= SLIP_TENSOR_FAKE;
    return slip_ok_status();
  }
  wrong |= shim->aoti_torch_get_data_ptr(handle, &data);
  wrong |= shim->aoti_torch_get_storage_size(handle, &storage_bytes);
  wrong |= shim->aoti_torch_get_storage_offset(handle, &offset);
  if (wrong != 0 || offset < 0 || storage_bytes < 0) {
    return SLIP_STATUS(
        SLIP_CODE_INVALID_ARGUMENT,
        "%s: parameter %zu '%s' (%s): PyTorch gives no address for the tensor (fake, or without storage), expected memory; pass "
        "a real tensor",
        name, index, param->name, slip__torch_direction(param));
  }
  // The address that PyTorch gives has the offset in it, except for an empty tensor, which has none.
  uint64_t offset_bytes = (uint64_t)offset * slip_dtype_size_bytes(out->dtype);
  out->byte_offset = offset_bytes;
  if (data) {
    out->data = (char *)data - offset_bytes;
    out->storage_base = out->data;
    out->storage_bytes = (uint64_t)storage_bytes;
  }
  return slip_ok_status();
}
