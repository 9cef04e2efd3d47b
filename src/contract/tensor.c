// SPDX-License-Identifier: Apache-2.0
// Tensor descriptors: making, checking, measuring. Views are in tensor_view.c.
#include "contract/tensor.h"

#include <string.h>

_Static_assert(sizeof(slip_tensor_t) == 128, "the descriptor is ABI");

bool slip__dims_count(const int64_t *dims, uint32_t rank, int64_t *out_count) {
  int64_t count = 1;
  bool empty = false, overflow = false;
  *out_count = 0;
  for (uint32_t i = 0; i < rank; ++i) {
    if (dims[i] < 0) return false;
    if (dims[i] == 0) empty = true;
    overflow |= __builtin_mul_overflow(count, dims[i], &count);
  }
  if (empty) return true;
  if (overflow) return false;
  *out_count = count;
  return true;
}

bool slip__dims_strides(const int64_t *dims, uint32_t rank, int64_t *out_strides) {
  int64_t stride = 1;
  bool overflow = false;
  for (uint32_t i = rank; i-- > 0;) {
    out_strides[i] = stride;
    if (dims[i] > 1) overflow |= __builtin_mul_overflow(stride, dims[i], &stride);
  }
  return !overflow;
}

bool slip__dims_contiguous(const int64_t *dims, const int64_t *strides, uint32_t rank) {
  int64_t expected = 1;
  bool gaps = false, overflow = false;
  for (uint32_t i = 0; i < rank; ++i) {
    if (dims[i] == 0) return true;
  }
  for (uint32_t i = rank; i-- > 0;) {
    if (dims[i] == 1) continue;
    gaps |= overflow || strides[i] != expected;
    overflow |= __builtin_mul_overflow(expected, dims[i], &expected);
  }
  return !gaps;
}

void slip__text_add_shape(slip__text_t *text, slip_dtype_t dtype, const int64_t *dims, uint32_t rank) {
  const char *name = slip_dtype_name(dtype);
  if (*name) {
    slip__text_add(text, "%s", name);
  } else {
    slip__text_add(text, "dtype %u", dtype);
  }
  slip__text_add_list(text, dims, rank);
}

void slip__text_add_device(slip__text_t *text, slip_device_t device) {
  const char *name = slip_platform_name(device.platform);
  if (*name) {
    slip__text_add(text, "%s:%d", name, device.ordinal);
  } else {
    slip__text_add(text, "platform %u:%d", device.platform, device.ordinal);
  }
}

slip_status_t slip_tensor_initialize(slip_tensor_t *out, slip_dtype_t dtype, uint8_t rank, const int64_t *dims, void *data,
                                     slip_device_t device) {
  memset(out, 0, sizeof(*out));
  int64_t size = (int64_t)slip_dtype_size_bytes(dtype);
  if (size == 0) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dtype %u is unknown; pass one of slip_dtype_e", dtype);
  if (rank > SLIP_MAX_RANK) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "rank %u is above %d; reshape the tensor", rank, SLIP_MAX_RANK);
  if (rank > 0 && !dims) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dims are missing for rank %u", rank);
  for (uint32_t i = 0; i < rank; ++i) {
    if (dims[i] < 0) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dim %u is %lld; dims are 0 or more", i, (long long)dims[i]);
  }
  int64_t count, bytes, strides[SLIP_MAX_RANK] = {0};
  if (!slip__dims_count(dims, rank, &count) || __builtin_mul_overflow(count, size, &bytes) || !slip__dims_strides(dims, rank, strides)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the size of the tensor passes 2^63-1 bytes; use smaller dims");
  }
  if ((uint64_t)(uintptr_t)data > UINT64_MAX - (uint64_t)bytes) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%lld bytes at %p pass the end of the address space", (long long)bytes, data);
  }
  out->struct_size = (uint32_t)sizeof(*out);
  out->dtype = dtype;
  out->rank = rank;
  out->format = SLIP_FORMAT_ND;
  out->data = data;
  for (uint32_t i = 0; i < rank; ++i) {
    out->dims[i] = dims[i];
    out->strides[i] = strides[i];
  }
  out->storage_base = data;
  out->storage_bytes = (uint64_t)bytes;
  out->device = device;
  return slip_ok_status();
}

int64_t slip_tensor_element_count(const slip_tensor_t *tensor) {
  int64_t count;
  return tensor->rank <= SLIP_MAX_RANK && slip__dims_count(tensor->dims, tensor->rank, &count) ? count : -1;
}

bool slip_tensor_is_contiguous(const slip_tensor_t *tensor) {
  return tensor->rank <= SLIP_MAX_RANK && slip__dims_contiguous(tensor->dims, tensor->strides, tensor->rank);
}

bool slip_tensor_byte_span(const slip_tensor_t *tensor, uint64_t *out_begin, uint64_t *out_end) {
  *out_begin = *out_end = 0;
  int64_t size = (int64_t)slip_dtype_size_bytes(tensor->dtype);
  int64_t count = slip_tensor_element_count(tensor);
  if (size == 0 || count < 0) return false;
  if (count == 0) return true;
  // Lowest and highest element relative to the first one; strides may be zero or negative.
  int64_t low = 0, high = 0;
  for (uint32_t i = 0; i < tensor->rank; ++i) {
    int64_t reach;
    if (__builtin_mul_overflow(tensor->dims[i] - 1, tensor->strides[i], &reach)) return false;
    if (__builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) return false;
  }
  uint64_t address, begin, end;
  if (__builtin_mul_overflow(low, size, &low) || __builtin_add_overflow(high, 1, &high) || __builtin_mul_overflow(high, size, &high)) {
    return false;
  }
  if (__builtin_add_overflow((uint64_t)(uintptr_t)tensor->data, tensor->byte_offset, &address)) return false;
  if (__builtin_sub_overflow(address, 0 - (uint64_t)low, &begin) || __builtin_add_overflow(address, (uint64_t)high, &end)) return false;
  *out_begin = begin;
  *out_end = end;
  return true;
}

slip_status_t slip_tensor_validate(const slip_tensor_t *tensor) {
  if (tensor->struct_size < sizeof(*tensor)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "struct_size is %u, expected %zu; fill the tensor with slip_tensor_initialize()",
                       tensor->struct_size, sizeof(*tensor));
  }
  if (slip_dtype_size_bytes(tensor->dtype) == 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dtype %u is unknown; pass one of slip_dtype_e", tensor->dtype);
  }
  if (tensor->rank > SLIP_MAX_RANK) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "rank %u is above %d; reshape the tensor", tensor->rank, SLIP_MAX_RANK);
  }
  for (uint32_t i = 0; i < tensor->rank; ++i) {
    if (tensor->dims[i] < 0) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dim %u is %lld; dims are 0 or more", i, (long long)tensor->dims[i]);
    }
  }
  if (tensor->byte_offset > INT64_MAX) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "byte offset %lld is negative; offsets are 0 or more", (long long)tensor->byte_offset);
  }
  uint64_t begin, end;
  if (!slip_tensor_byte_span(tensor, &begin, &end)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dims, strides and offset pass 64 bits; use a smaller view");
  }
  uint64_t base = (uint64_t)(uintptr_t)tensor->storage_base;
  if (base == 0 || begin == end) return slip_ok_status();
  if (begin < base || end - base > tensor->storage_bytes) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "the view accesses bytes [%lld,%lld) of a storage of %llu bytes; pass a view that lies inside its storage",
                       (long long)(begin - base), (long long)(end - base), (unsigned long long)tensor->storage_bytes);
  }
  return slip_ok_status();
}

size_t slip_tensor_format(const slip_tensor_t *tensor, char *buffer, size_t capacity) {
  slip__text_t text = slip__text(buffer, capacity);
  uint32_t rank = tensor->rank <= SLIP_MAX_RANK ? tensor->rank : SLIP_MAX_RANK;
  slip__text_add_shape(&text, tensor->dtype, tensor->dims, rank);
  slip__text_add(&text, " strides ");
  slip__text_add_list(&text, tensor->strides, rank);
  slip__text_add(&text, " at ");
  slip__text_add_device(&text, tensor->device);
  return text.length;
}
