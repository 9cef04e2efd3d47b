// SPDX-License-Identifier: Apache-2.0
// Tensor descriptor: a borrowed view of somebody else's memory.
//
// A descriptor owns nothing and is copied freely (thread-compatible). Its address is |data| + |byte_offset|; strides are in elements.
// A null |storage_base| means the storage's extent is unknown: bounds are then not checked, and overlap is judged by address alone.
#ifndef SLIPSTREAM_TENSOR_H_
#define SLIPSTREAM_TENSOR_H_

#include "slipstream/dtype.h"
#include "slipstream/status.h"

SLIP_EXTERN_C_BEGIN

// Platforms by number (stable; in images). X(NAME, text, number)
#define SLIP_PLATFORM_TABLE(X) \
  X(NULL, "null", 1)           \
  X(CPU, "cpu", 2)             \
  X(SIM, "sim", 3)             \
  X(CUDA, "cuda", 4)           \
  X(ASCEND, "ascend", 5)

typedef enum slip_platform_e {
  SLIP_PLATFORM_NONE = 0,
#define SLIP_PLATFORM_ENUM(name, text, number) SLIP_PLATFORM_##name = (number),
  SLIP_PLATFORM_TABLE(SLIP_PLATFORM_ENUM)
#undef SLIP_PLATFORM_ENUM
} slip_platform_e;

// "cpu" and so on; "" if unknown. Static storage.
SLIP_API const char *slip_platform_name(uint16_t platform);
// SLIP_PLATFORM_NONE if |name| is none of the table's.
SLIP_API uint16_t slip_platform_from_name(const char *name);

// A device: platform and ordinal.
typedef struct slip_device_t {
  uint16_t platform;  // slip_platform_e
  int16_t ordinal;
} slip_device_t;

static inline slip_device_t slip_device_cpu(void) {
  slip_device_t device = {SLIP_PLATFORM_CPU, 0};
  return device;
}

typedef enum slip_format_e {
  SLIP_FORMAT_NCHW = 0,
  SLIP_FORMAT_ND = 2,
  SLIP_FORMAT_NZ = 29,
} slip_format_e;

// What the adapter saw on the framework's tensor.
typedef enum slip_tensor_bits_e {
  SLIP_TENSOR_NONE = 0,
  SLIP_TENSOR_REQUIRES_GRAD = 1,
  SLIP_TENSOR_CONJ = 2,
  SLIP_TENSOR_NEG = 4,
  SLIP_TENSOR_READ_ONLY = 8,
  SLIP_TENSOR_WORKER_OWNED = 16,  // memory of a Slipstream worker (program mode): refused in kernel mode
  SLIP_TENSOR_FAKE = 32,          // no storage behind it (fake, meta): refused by real calls
} slip_tensor_bits_e;

typedef struct slip_tensor_t {
  uint32_t struct_size;  // sizeof(slip_tensor_t)
  slip_dtype_t dtype;
  uint8_t rank;
  uint8_t format;  // slip_format_e
  uint8_t flags;   // slip_tensor_bits_e
  void *data;
  uint64_t byte_offset;
  int64_t dims[SLIP_MAX_RANK];
  int64_t strides[SLIP_MAX_RANK];  // elements
  void *storage_base;
  uint64_t storage_bytes;
  slip_device_t device;
  uint32_t reserved;
} slip_tensor_t;

// Fills |*out| with a contiguous row-major tensor at |data| whose storage is exactly the tensor. |dims| may be NULL for rank 0.
// INVALID_ARGUMENT (|*out| zeroed): unknown dtype, rank > SLIP_MAX_RANK, negative dim, byte size beyond 2^63-1.
SLIP_API slip_status_t slip_tensor_initialize(slip_tensor_t *out, slip_dtype_t dtype, uint8_t rank, const int64_t *dims, void *data,
                                              slip_device_t device) SLIP_MUST_USE;
// Refuses a descriptor that is malformed in itself: struct size, dtype, rank, negative dims, arithmetic that overflows 64 bits, and, where
// the storage is known and the tensor is not empty, an accessed range outside it. INVALID_ARGUMENT.
SLIP_API slip_status_t slip_tensor_validate(const slip_tensor_t *tensor) SLIP_MUST_USE;
// Elements; 1 for rank 0. -1 if it overflows 63 bits.
SLIP_API int64_t slip_tensor_element_count(const slip_tensor_t *tensor);
// True for row-major contiguous (strides of dimensions of size 0 or 1 do not matter; empty tensors are contiguous).
SLIP_API bool slip_tensor_is_contiguous(const slip_tensor_t *tensor);
// The half-open byte range [*out_begin, *out_end) that any element access touches, as addresses; both 0 for an empty tensor. False on
// overflow.
SLIP_API bool slip_tensor_byte_span(const slip_tensor_t *tensor, uint64_t *out_begin, uint64_t *out_end);

// Views: |*out| shares the storage of |tensor| and may be |tensor| itself. All arithmetic is overflow-checked. INVALID_ARGUMENT leaves
// |*out| unchanged. |length| elements of |axis| from |start| with |step| >= 1.
SLIP_API slip_status_t slip_tensor_slice(const slip_tensor_t *tensor, uint32_t axis, int64_t start, int64_t length, int64_t step,
                                         slip_tensor_t *out) SLIP_MUST_USE;
SLIP_API slip_status_t slip_tensor_transpose(const slip_tensor_t *tensor, uint32_t a, uint32_t b, slip_tensor_t *out) SLIP_MUST_USE;
// |order| has |tensor->rank| entries, a permutation of 0..rank-1.
SLIP_API slip_status_t slip_tensor_permute(const slip_tensor_t *tensor, const uint32_t *order, slip_tensor_t *out) SLIP_MUST_USE;
// Only when no copy is needed; one dim may be -1.
SLIP_API slip_status_t slip_tensor_reshape(const slip_tensor_t *tensor, uint8_t rank, const int64_t *dims,
                                           slip_tensor_t *out) SLIP_MUST_USE;
// "f32[16,2048] strides [2048,1] at cpu:0"; returns the length as snprintf does.
SLIP_API size_t slip_tensor_format(const slip_tensor_t *tensor, char *buffer, size_t capacity);

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_TENSOR_H_
