// SPDX-License-Identifier: Apache-2.0
// Kernel ABI: what a tile kernel, hand-written or generated, is given.
//
// A kernel is a pure function of its arguments: no global state, no allocation, no system call, no locale, no floating-point environment
// change. The same kernel may run on several threads at once, with different blocks of one task or different tasks. Alignment: only the
// element's own alignment may be assumed of |data|.
#ifndef SLIPSTREAM_KERNEL_TILE_H_
#define SLIPSTREAM_KERNEL_TILE_H_

#include <stddef.h>
#include <stdint.h>

#include "slipstream/kernel/dtype_table.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLIP_KERNEL_MAX_TENSORS 32
#define SLIP_KERNEL_MAX_SCALARS 16

// One tensor as a kernel sees it. |data| is the logical address (offsets applied); strides are in elements of |dtype|.
// Entries of |dims| and |strides| at and above |rank| are 1 and 0.
typedef struct slip_ktensor_t {
  void *data;
  int64_t dims[SLIP_MAX_RANK];
  int64_t strides[SLIP_MAX_RANK];
  uint8_t dtype;  // slip_dtype_e
  uint8_t rank;
  uint16_t reserved0;
  uint32_t reserved1;
} slip_ktensor_t;

// Tensors then scalars, each in declared order. Scalars are little-endian object bytes zero-extended to 64 bits.
// |scratch| holds |scratch_bytes| bytes as declared for the kernel, aligned to 64, private to the running block, contents undefined.
typedef struct slip_kargs_t {
  const slip_ktensor_t *tensors;
  const uint64_t *scalars;
  void *scratch;
  uint32_t tensor_count;
  uint32_t scalar_count;
  uint32_t scratch_bytes;
  uint32_t fault;  // 0 when the kernel is called; slip_kernel_fault() sets it
} slip_kargs_t;

// Which part of an SPMD task this call computes: 0 <= index < count.
typedef struct slip_block_t {
  uint32_t index;
  uint32_t count;
} slip_block_t;

typedef void (*slip_kernel_fn_t)(const slip_kargs_t *args, slip_block_t block);

// Says that this block cannot do its work (data it cannot use, a check that failed): the run ends with SLIP_CODE_GRAPH_KERNEL_FAULT, whose
// message names |code|, kernel, block and submit. The kernel then returns; what it has written is undefined. |code| is the kernel's own, 0
// counts as UINT32_MAX; the first of a block counts. |args| are those the kernel was called with. Costs nothing where it is not called.
// Blocks of a gang that others wait for must still come to where they are waited for.
static inline void slip_kernel_fault(const slip_kargs_t *args, uint32_t code) {
  slip_kargs_t *mine = (slip_kargs_t *)(uintptr_t)args;  // the caller's own copy for this thread, never constant
  if (mine->fault == 0) mine->fault = code ? code : UINT32_MAX;
}

// Core types a task may ask for. The cpu platform runs every type on any worker.
typedef enum slip_core_e {
  SLIP_CORE_ANY = 0,
  SLIP_CORE_MATRIX = 1,
  SLIP_CORE_VECTOR = 2,
  SLIP_CORE_MIXED = 3,
} slip_core_e;

static inline float slip_bits_as_f32(uint64_t bits) {
  union {
    uint32_t u;
    float f;
  } value;
  value.u = (uint32_t)bits;
  return value.f;
}
static inline double slip_bits_as_f64(uint64_t bits) {
  union {
    uint64_t u;
    double f;
  } value;
  value.u = bits;
  return value.f;
}
static inline int32_t slip_bits_as_i32(uint64_t bits) {
  return (int32_t)(uint32_t)bits;
}
static inline int64_t slip_bits_as_i64(uint64_t bits) {
  return (int64_t)bits;
}
static inline uint64_t slip_bits_from_f32(float value) {
  union {
    uint32_t u;
    float f;
  } bits;
  bits.f = value;
  return bits.u;
}
static inline uint64_t slip_bits_from_f64(double value) {
  union {
    uint64_t u;
    double f;
  } bits;
  bits.f = value;
  return bits.u;
}
static inline uint64_t slip_bits_from_i32(int32_t value) {
  return (uint32_t)value;
}
static inline uint64_t slip_bits_from_i64(int64_t value) {
  return (uint64_t)value;
}

#ifdef __cplusplus
}
#endif

#endif  // SLIPSTREAM_KERNEL_TILE_H_
