// SPDX-License-Identifier: Apache-2.0
// DLPack in and out. The structures below are this library's own declarations of the DLPack 1.x ABI (names as in the public specification,
// guarded so that a program that also includes dlpack.h gets only one set).
#ifndef SLIPSTREAM_DLPACK_H_
#define SLIPSTREAM_DLPACK_H_

#include "slipstream/tensor.h"

SLIP_EXTERN_C_BEGIN

typedef struct slip_dl_version_t {
  uint32_t major;
  uint32_t minor;
} slip_dl_version_t;

typedef struct slip_dl_device_t {
  int32_t device_type;
  int32_t device_id;
} slip_dl_device_t;

typedef struct slip_dl_data_type_t {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} slip_dl_data_type_t;

// Layout of DLTensor.
typedef struct slip_dl_tensor_t {
  void *data;
  slip_dl_device_t device;
  int32_t ndim;
  slip_dl_data_type_t dtype;
  int64_t *shape;
  int64_t *strides;  // NULL: compact row-major
  uint64_t byte_offset;
} slip_dl_tensor_t;

// Layout of DLManagedTensorVersioned.
typedef struct slip_dl_managed_t {
  slip_dl_version_t version;
  void *manager_ctx;
  void (*deleter)(struct slip_dl_managed_t *self);
  uint64_t flags;
  slip_dl_tensor_t tensor;
} slip_dl_managed_t;

typedef enum slip_dl_flag_bits_e {
  SLIP_DL_READ_ONLY = 1,
  SLIP_DL_IS_COPIED = 2,
  SLIP_DL_SUBBYTE_PADDED = 4,
} slip_dl_flag_bits_e;

// Describes the tensor behind |source| in |*out|; nothing is copied, |source| must stay alive as long as the memory is used.
// |storage_bytes| (0: unknown) is the extent of the allocation at |source->data|, where the producer knows it.
// INVALID_ARGUMENT: rank, shape, strides or dtype lanes that make no sense; UNSUPPORTED: a device or dtype this library has no name for.
// |*out| is zeroed on failure.
SLIP_API slip_status_t slip_tensor_from_dlpack(const slip_dl_tensor_t *source, uint64_t storage_bytes, slip_tensor_t *out) SLIP_MUST_USE;
// As above for a managed tensor: the version's major must be 1 (else INCOMPATIBLE: the caller may only call the deleter) and READ_ONLY
// becomes SLIP_TENSOR_READ_ONLY.
SLIP_API slip_status_t slip_tensor_from_dlpack_managed(const slip_dl_managed_t *source, slip_tensor_t *out) SLIP_MUST_USE;
// Makes a managed tensor that describes |tensor|. |release| (may be NULL) is called once with |user| when the consumer calls the deleter.
// |*out| is owned by the consumer. OUT_OF_MEMORY, UNSUPPORTED (device without a DLPack number), INVALID_ARGUMENT.
SLIP_API slip_status_t slip_tensor_to_dlpack(const slip_tensor_t *tensor, slip_allocator_t allocator, void (*release)(void *user),
                                             void *user, slip_dl_managed_t **out) SLIP_MUST_USE;

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_DLPACK_H_
