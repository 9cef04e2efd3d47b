// SPDX-License-Identifier: Apache-2.0
// Scalars of a call: a dtype and its value, held as little-endian object bytes zero-extended to 64 bits.
#ifndef SLIPSTREAM_SCALAR_H_
#define SLIPSTREAM_SCALAR_H_

#include "slipstream/dtype.h"
#include "slipstream/status.h"

SLIP_EXTERN_C_BEGIN

// Copied by value. |bits| above the dtype's own size are zero.
typedef struct slip_scalar_t {
  uint64_t bits;
  slip_dtype_t dtype;
  uint8_t reserved[7];
} slip_scalar_t;

// Where a value comes from, before it is fitted to a declared dtype.
// The three constructors check the value against |dtype| and refuse (INVALID_ARGUMENT, |*out| zeroed) what would not survive:
//   from_i64 / from_u64: an integer outside the range of an integer dtype; for a float dtype, a finite value that overflows to infinity;
//   for bool, not 0 or 1 from_f64: any float (3.0 too) where an integer or bool is declared; a finite value that overflows to infinity. NaN
//   and infinities are fine for floats.
// Floats are rounded to nearest, ties to even. Scalars are bool, i8..i64, u8..u64, f16, bf16, f32, f64. Thread-safe, never block.
SLIP_API slip_status_t slip_scalar_from_i64(slip_dtype_t dtype, int64_t value, slip_scalar_t *out) SLIP_MUST_USE;
SLIP_API slip_status_t slip_scalar_from_u64(slip_dtype_t dtype, uint64_t value, slip_scalar_t *out) SLIP_MUST_USE;
SLIP_API slip_status_t slip_scalar_from_f64(slip_dtype_t dtype, double value, slip_scalar_t *out) SLIP_MUST_USE;
SLIP_API slip_status_t slip_scalar_from_bool(slip_dtype_t dtype, bool value, slip_scalar_t *out) SLIP_MUST_USE;
// Parses text ("1e-5", "-3", "0x10", "true", "inf", "nan") as |dtype|, by the same rules; the whole text must be used.
SLIP_API slip_status_t slip_scalar_parse(slip_dtype_t dtype, const char *text, slip_scalar_t *out) SLIP_MUST_USE;
// Writes the value as text that slip_scalar_parse() reads back to the same bits (NaN payloads aside); returns the length as snprintf does.
SLIP_API size_t slip_scalar_format(slip_scalar_t scalar, char *buffer, size_t capacity);
// The value as a double (integers rounded); 0 for a dtype that is no scalar.
SLIP_API double slip_scalar_to_f64(slip_scalar_t scalar);

// Unchecked conversions that are always exact or have one rounding.
static inline slip_scalar_t slip_scalar_f32(float value) {
  union {
    float f;
    uint32_t u;
  } bits;
  slip_scalar_t scalar = {0, SLIP_DTYPE_F32, {0, 0, 0, 0, 0, 0, 0}};
  bits.f = value;
  scalar.bits = bits.u;
  return scalar;
}
static inline slip_scalar_t slip_scalar_f64(double value) {
  union {
    double f;
    uint64_t u;
  } bits;
  slip_scalar_t scalar = {0, SLIP_DTYPE_F64, {0, 0, 0, 0, 0, 0, 0}};
  bits.f = value;
  scalar.bits = bits.u;
  return scalar;
}
static inline slip_scalar_t slip_scalar_i32(int32_t value) {
  slip_scalar_t scalar = {(uint32_t)value, SLIP_DTYPE_I32, {0, 0, 0, 0, 0, 0, 0}};
  return scalar;
}
static inline slip_scalar_t slip_scalar_i64(int64_t value) {
  slip_scalar_t scalar = {(uint64_t)value, SLIP_DTYPE_I64, {0, 0, 0, 0, 0, 0, 0}};
  return scalar;
}
static inline slip_scalar_t slip_scalar_u32(uint32_t value) {
  slip_scalar_t scalar = {value, SLIP_DTYPE_U32, {0, 0, 0, 0, 0, 0, 0}};
  return scalar;
}
static inline slip_scalar_t slip_scalar_u64(uint64_t value) {
  slip_scalar_t scalar = {value, SLIP_DTYPE_U64, {0, 0, 0, 0, 0, 0, 0}};
  return scalar;
}
static inline slip_scalar_t slip_scalar_bool(bool value) {
  slip_scalar_t scalar = {value ? 1u : 0u, SLIP_DTYPE_BOOL, {0, 0, 0, 0, 0, 0, 0}};
  return scalar;
}

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_SCALAR_H_
