// SPDX-License-Identifier: Apache-2.0
// Element types: names, sizes, DLPack codes. All functions are pure and thread-safe; an unknown code gives 0, "" or NONE, never a crash.
#ifndef SLIPSTREAM_DTYPE_H_
#define SLIPSTREAM_DTYPE_H_

#include "slipstream/base.h"
#include "slipstream/kernel/dtype_table.h"

SLIP_EXTERN_C_BEGIN

typedef uint8_t slip_dtype_t;  // slip_dtype_e

typedef enum slip_dtype_kind_e {
  SLIP_DTYPE_KIND_NONE = 0,
  SLIP_DTYPE_KIND_FLOAT = 1,  // f16 bf16 f32 f64
  SLIP_DTYPE_KIND_INT = 2,    // signed
  SLIP_DTYPE_KIND_UINT = 3,   // unsigned
  SLIP_DTYPE_KIND_BOOL = 4,
  SLIP_DTYPE_KIND_FLOAT8 = 5,
  SLIP_DTYPE_KIND_FLOAT4 = 6,  // packed, two per carrier byte
} slip_dtype_kind_e;

// "f32" and so on; "" if unknown. Static storage.
SLIP_API const char *slip_dtype_name(slip_dtype_t dtype);
// The dtype of a name of |length| bytes; SLIP_DTYPE_NONE if there is none. Names are those of SLIP_DTYPE_TABLE.
SLIP_API slip_dtype_t slip_dtype_from_name(const char *name, size_t length);
// Bytes of one carrier element; 0 if unknown.
SLIP_API size_t slip_dtype_size_bytes(slip_dtype_t dtype);
SLIP_API slip_dtype_kind_e slip_dtype_kind(slip_dtype_t dtype);
// DLPack {code, bits, lanes} of |dtype|; false (outputs zeroed) if unknown.
SLIP_API bool slip_dtype_to_dlpack(slip_dtype_t dtype, uint8_t *out_code, uint8_t *out_bits, uint16_t *out_lanes);
// SLIP_DTYPE_NONE where this library has no such type.
SLIP_API slip_dtype_t slip_dtype_from_dlpack(uint8_t code, uint8_t bits, uint16_t lanes);

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_DTYPE_H_
