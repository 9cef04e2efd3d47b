// SPDX-License-Identifier: Apache-2.0
#include "shim.h"

static uint16_t slip__torch_platform(int32_t device_type, uint16_t privateuse1) {
  if (device_type == slip__torch_shim.cpu) return SLIP_PLATFORM_CPU;
  if (device_type == slip__torch_shim.cuda) return SLIP_PLATFORM_CUDA;
  if (device_type == slip__torch_shim.privateuse1) return privateuse1;
  return SLIP_PLATFORM_NONE;
}

// Stops at the first question that PyTorch does not answer: it writes a line of its own to stderr for each.
bool slip__torch_describe(slip__torch_tensor_t handle, uint16_t privateuse1, slip_tensor_t *out) {
  const slip__torch_shim_t *shim = &slip__torch_shim;
  int32_t dtype, device_type, device_index = 0, layout;
  int64_t rank, *dims, *strides, storage_bytes, offset;
  void *data;
  if (shim->aoti_torch_get_layout(handle, &layout) != 0 || layout != shim->strided) return false;
  if (shim->aoti_torch_get_dtype(handle, &dtype) != 0 || dtype < 0 || dtype >= SLIP_TORCH_DTYPE_COUNT || !shim->dtypes[dtype]) return false;
  if (shim->aoti_torch_get_dim(handle, &rank) != 0 || rank < 0 || rank > SLIP_MAX_RANK) return false;
  if (shim->aoti_torch_get_sizes(handle, &dims) != 0 || shim->aoti_torch_get_strides(handle, &strides) != 0) return false;
  if (shim->aoti_torch_get_device_type(handle, &device_type) != 0) return false;
  if (device_type != shim->cpu && shim->aoti_torch_get_device_index(handle, &device_index) != 0) return false;
  *out = shim->blank;
  out->dtype = shim->dtypes[dtype];
  out->rank = (uint8_t)rank;
  for (int64_t i = 0; i < rank; ++i) {
    out->dims[i] = dims[i];
    out->strides[i] = strides[i];
  }
  out->device.platform = slip__torch_platform(device_type, privateuse1);
  out->device.ordinal = (int16_t)(device_index < 0 ? 0 : device_index);
  if (device_type == shim->meta) {
    out->flags = SLIP_TENSOR_FAKE;
    return true;
  }
  if (shim->aoti_torch_get_data_ptr(handle, &data) != 0 || shim->aoti_torch_get_storage_size(handle, &storage_bytes) != 0 ||
      shim->aoti_torch_get_storage_offset(handle, &offset) != 0 || offset < 0 || storage_bytes < 0) {
    return false;
  }
  // The address that PyTorch gives has the offset in it, except for an empty tensor, which has none.
  if (offset != 0) out->byte_offset = (uint64_t)offset * slip_dtype_size_bytes(out->dtype);
  if (data) {
    out->data = (char *)data - out->byte_offset;
    out->storage_base = out->data;
    out->storage_bytes = (uint64_t)storage_bytes;
  }
  return true;
}
