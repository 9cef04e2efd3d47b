// SPDX-License-Identifier: Apache-2.0
#include "slipstream/dlpack.h"

#include <string.h>

#include "base/allocator.h"
#include "contract/tensor.h"

// What we read and write. Consumers of 1.2 and later want strides to be set: they always are.
#define SLIP__DL_VERSION_MAJOR 1
#define SLIP__DL_VERSION_MINOR 1

// X(DLPack device type, platform, whether its memory is the host's). The first row of a platform is the one written. DLPack has no number
// for ascend: frameworks lend it ExtDev.
#define SLIP__DL_DEVICE_TABLE(X)   \
  X(1, SLIP_PLATFORM_CPU, true)    \
  X(3, SLIP_PLATFORM_CPU, true)    \
  X(11, SLIP_PLATFORM_CPU, true)   \
  X(2, SLIP_PLATFORM_CUDA, false)  \
  X(13, SLIP_PLATFORM_CUDA, false) \
  X(12, SLIP_PLATFORM_ASCEND, false)

typedef struct slip__dl_device_row_t {
  int32_t device_type;
  uint16_t platform;
  bool host;
} slip__dl_device_row_t;

static const slip__dl_device_row_t slip__dl_devices[] = {
#define SLIP__DL_DEVICE_ROW(device_type, platform, host) {device_type, platform, host},
    SLIP__DL_DEVICE_TABLE(SLIP__DL_DEVICE_ROW)
#undef SLIP__DL_DEVICE_ROW
};
#define SLIP__DL_DEVICE_COUNT (sizeof(slip__dl_devices) / sizeof(slip__dl_devices[0]))

static slip_status_t slip__dl_read_device(slip_dl_device_t device, slip_device_t *out) {
  for (size_t i = 0; i < SLIP__DL_DEVICE_COUNT; ++i) {
    const slip__dl_device_row_t *row = &slip__dl_devices[i];
    if (row->device_type != device.device_type) continue;
    if (device.device_id < 0 || device.device_id > INT16_MAX) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "DLPack device id %d is out of range; expected 0 to %d", device.device_id, INT16_MAX);
    }
    // Host memory has one ordinal, whichever device it is pinned for.
    out->platform = row->platform;
    out->ordinal = row->host ? 0 : (int16_t)device.device_id;
    return slip_ok_status();
  }
  return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "DLPack device type %d has no platform here; move the tensor to the host first",
                     device.device_type);
}

static slip_status_t slip__dl_read(const slip_dl_tensor_t *source, uint64_t storage_bytes, slip_tensor_t *out) {
  slip_dl_data_type_t type = source->dtype;
  if (source->ndim < 0 || source->ndim > SLIP_MAX_RANK) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "DLPack ndim is %d; expected 0 to %d: reshape the tensor", source->ndim, SLIP_MAX_RANK);
  }
  if (source->ndim > 0 && !source->shape) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "DLPack shape is null for ndim %d", source->ndim);
  if (type.lanes == 0 || type.bits == 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "DLPack dtype has %u bits and %u lanes; both are above 0", type.bits, type.lanes);
  }
  out->dtype = slip_dtype_from_dlpack(type.code, type.bits, type.lanes);
  if (out->dtype == SLIP_DTYPE_NONE) {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "DLPack dtype {code %u, bits %u, lanes %u} has no name here; convert the tensor first",
                       type.code, type.bits, type.lanes);
  }
  SLIP_RETURN_IF_ERROR(slip__dl_read_device(source->device, &out->device));
  out->struct_size = (uint32_t)sizeof(*out);
  out->rank = (uint8_t)source->ndim;
  out->format = SLIP_FORMAT_ND;
  out->data = source->data;
  out->byte_offset = source->byte_offset;
  if (storage_bytes > 0) {
    out->storage_base = source->data;
    out->storage_bytes = storage_bytes;
  }
  for (uint32_t i = 0; i < out->rank; ++i) {
    out->dims[i] = source->shape[i];
    if (source->strides) out->strides[i] = source->strides[i];
    if (out->dims[i] < 0)
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "DLPack dim %u is %lld; dims are 0 or more", i, (long long)out->dims[i]);
  }
  if (!source->strides && !slip__dims_strides(out->dims, out->rank, out->strides)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the DLPack shape passes 2^63-1 elements");
  }
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_tensor_validate(out), "reading a DLPack tensor");
  if (!out->data && slip_tensor_element_count(out) > 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "DLPack data is null for a tensor that is not empty; pass a tensor with memory");
  }
  return slip_ok_status();
}

slip_status_t slip_tensor_from_dlpack(const slip_dl_tensor_t *source, uint64_t storage_bytes, slip_tensor_t *out) {
  memset(out, 0, sizeof(*out));
  if (!source) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "no DLPack tensor given");
  slip_status_t status = slip__dl_read(source, storage_bytes, out);
  if (!slip_status_is_ok(status)) memset(out, 0, sizeof(*out));
  return status;
}

slip_status_t slip_tensor_from_dlpack_managed(const slip_dl_managed_t *source, slip_tensor_t *out) {
  memset(out, 0, sizeof(*out));
  if (!source) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "no DLPack tensor given");
  if (source->version.major != SLIP__DL_VERSION_MAJOR) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "DLPack version %u.%u; expected %d.x: only its deleter may be called", source->version.major,
                       source->version.minor, SLIP__DL_VERSION_MAJOR);
  }
  SLIP_RETURN_IF_ERROR(slip_tensor_from_dlpack(&source->tensor, 0, out));
  if ((source->flags & SLIP_DL_SUBBYTE_PADDED) && slip_dtype_kind(out->dtype) == SLIP_DTYPE_KIND_FLOAT4) {
    slip_dtype_t dtype = out->dtype;
    memset(out, 0, sizeof(*out));
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "%s elements padded to bytes; pass them packed, two per byte", slip_dtype_name(dtype));
  }
  if (source->flags & SLIP_DL_READ_ONLY) out->flags |= SLIP_TENSOR_READ_ONLY;
  return slip_ok_status();
}

// What |slip_dl_managed_t| points at, in one block with it.
typedef struct slip__dl_export_t {
  slip_dl_managed_t managed;
  int64_t shape[SLIP_MAX_RANK];
  int64_t strides[SLIP_MAX_RANK];
  slip_allocator_t allocator;
  void (*release)(void *user);
  void *user;
} slip__dl_export_t;

static void slip__dl_delete(slip_dl_managed_t *managed) {
  if (!managed) return;
  slip__dl_export_t *self = managed->manager_ctx;
  if (self->release) self->release(self->user);
  slip__free(self->allocator, self, sizeof(*self));
}

static slip_status_t slip__dl_check_export(const slip_tensor_t *tensor, slip_dl_device_t *out_device) {
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_tensor_validate(tensor), "giving a tensor to DLPack");
  if (tensor->flags & (SLIP_TENSOR_CONJ | SLIP_TENSOR_NEG | SLIP_TENSOR_FAKE)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "a conj, neg or fake tensor (flags 0x%02x) has no DLPack form; resolve it first",
                       tensor->flags);
  }
  if (tensor->format == SLIP_FORMAT_NZ) {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "the blocked NZ format has no DLPack form; convert the tensor to ND first");
  }
  for (size_t i = 0; i < SLIP__DL_DEVICE_COUNT; ++i) {
    if (slip__dl_devices[i].platform != tensor->device.platform) continue;
    out_device->device_type = slip__dl_devices[i].device_type;
    out_device->device_id = tensor->device.ordinal;
    return slip_ok_status();
  }
  return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "platform %u '%s' has no DLPack device number; copy the tensor to cpu first",
                     tensor->device.platform, slip_platform_name(tensor->device.platform));
}

slip_status_t slip_tensor_to_dlpack(const slip_tensor_t *tensor, slip_allocator_t allocator, void (*release)(void *user), void *user,
                                    slip_dl_managed_t **out) {
  *out = NULL;
  slip_dl_device_t device = {0, 0};
  SLIP_RETURN_IF_ERROR(slip__dl_check_export(tensor, &device));
  void *block = NULL;
  allocator = slip__allocator_or_system(allocator);
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip__alloc(allocator, sizeof(slip__dl_export_t), &block), "giving a tensor to DLPack");
  slip__dl_export_t *self = block;
  self->allocator = allocator;
  self->release = release;
  self->user = user;
  memcpy(self->shape, tensor->dims, sizeof(self->shape));
  memcpy(self->strides, tensor->strides, sizeof(self->strides));
  slip_dl_managed_t *managed = &self->managed;
  managed->version = (slip_dl_version_t){SLIP__DL_VERSION_MAJOR, SLIP__DL_VERSION_MINOR};
  managed->manager_ctx = self;
  managed->deleter = slip__dl_delete;
  managed->flags = tensor->flags & SLIP_TENSOR_READ_ONLY ? SLIP_DL_READ_ONLY : 0;
  managed->tensor.data = tensor->data;
  managed->tensor.device = device;
  managed->tensor.ndim = tensor->rank;
  (void)slip_dtype_to_dlpack(tensor->dtype, &managed->tensor.dtype.code, &managed->tensor.dtype.bits, &managed->tensor.dtype.lanes);
  managed->tensor.shape = self->shape;
  managed->tensor.strides = self->strides;
  managed->tensor.byte_offset = tensor->byte_offset;
  *out = managed;
  return slip_ok_status();
}
