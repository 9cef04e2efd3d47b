// SPDX-License-Identifier: Apache-2.0
// Fitting values to a declared dtype. Every conversion rounds once, to nearest with ties to even, in integer arithmetic: the floating-point
// environment (rounding mode, flushing of subnormals, traps) is the caller's and changes nothing here.
#include "slipstream/scalar.h"

#include <math.h>
#include <string.h>

#include "contract/scalar.h"

static const char *const slip__scalar_names = "bool, i8..i64, u8..u64, f16, bf16, f32, f64";

bool slip__dtype_is_scalar(slip_dtype_t dtype) {
  slip_dtype_kind_e kind = slip_dtype_kind(dtype);
  return kind != SLIP_DTYPE_KIND_NONE && kind != SLIP_DTYPE_KIND_FLOAT8 && kind != SLIP_DTYPE_KIND_FLOAT4;
}

static void slip__scalar_set(slip_scalar_t *out, slip_dtype_t dtype, uint64_t bits) {
  memset(out, 0, sizeof(*out));
  out->dtype = dtype;
  out->bits = bits;
}

static slip_status_t slip__scalar_not_one(slip_dtype_t dtype) {
  const char *name = slip_dtype_name(dtype);
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dtype %u '%s' is no scalar type; scalars are %s", dtype, name, slip__scalar_names);
}

// Bits of |value| in a small binary float format, rounded to nearest even; overflow gives the format's infinity.
static uint64_t slip__float_encode(double value, uint32_t exponent_bits, uint32_t mantissa_bits) {
  uint64_t source;
  memcpy(&source, &value, sizeof(source));
  uint64_t sign = (source >> 63) << (exponent_bits + mantissa_bits);
  uint64_t infinity = ((1ull << exponent_bits) - 1) << mantissa_bits;
  int32_t exponent = (int32_t)((source >> 52) & 0x7ff);
  uint64_t mantissa = source & ((1ull << 52) - 1);
  if (exponent == 0x7ff) return sign | infinity | (mantissa ? 1ull << (mantissa_bits - 1) : 0);
  if (exponent == 0) return sign;  // zero, or below half of any smaller format's least subnormal
  mantissa |= 1ull << 52;
  int32_t bias = (1 << (exponent_bits - 1)) - 1;
  int32_t target = exponent - 1023 + bias;
  // A subnormal result keeps fewer bits: shift further by how far the exponent lies below 1.
  int32_t shift = (int32_t)(52 - mantissa_bits) + (target < 1 ? 1 - target : 0);
  if (shift > 54) return sign;
  uint64_t kept = mantissa >> shift;
  uint64_t rest = mantissa & ((1ull << shift) - 1);
  uint64_t half = 1ull << (shift - 1);
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  // A carry out of the mantissa moves into the exponent by itself.
  uint64_t bits = target < 1 ? kept : ((uint64_t)(target - 1) << mantissa_bits) + kept;
  return sign | (bits > infinity ? infinity : bits);
}

static double slip__float_decode(uint64_t bits, uint32_t exponent_bits, uint32_t mantissa_bits) {
  uint64_t mantissa = bits & ((1ull << mantissa_bits) - 1);
  int32_t exponent = (int32_t)((bits >> mantissa_bits) & ((1ull << exponent_bits) - 1));
  int32_t bias = (1 << (exponent_bits - 1)) - 1;
  double value;
  if (exponent == (1 << exponent_bits) - 1) {
    value = mantissa ? (double)NAN : (double)INFINITY;
  } else if (exponent == 0) {
    value = ldexp((double)mantissa, 1 - bias - (int32_t)mantissa_bits);
  } else {
    value = ldexp((double)(mantissa | (1ull << mantissa_bits)), exponent - bias - (int32_t)mantissa_bits);
  }
  return bits >> (exponent_bits + mantissa_bits) & 1 ? -value : value;
}

uint64_t slip__f16_bits(double value) {
  return slip__float_encode(value, 5, 10);
}
uint64_t slip__bf16_bits(double value) {
  return slip__float_encode(value, 8, 7);
}

// |value| in the bits of a float dtype.
static uint64_t slip__float_bits(slip_dtype_t dtype, double value) {
  uint64_t bits;
  switch (dtype) {
    case SLIP_DTYPE_F16:
      return slip__f16_bits(value);
    case SLIP_DTYPE_BF16:
      return slip__bf16_bits(value);
    case SLIP_DTYPE_F32:
      return slip__float_encode(value, 8, 23);
    default:
      memcpy(&bits, &value, sizeof(bits));
      return bits;
  }
}

double slip_scalar_to_f64(slip_scalar_t scalar) {
  double f64;
  switch (scalar.dtype) {
    case SLIP_DTYPE_F32:
      return slip__float_decode(scalar.bits & 0xffffffff, 8, 23);
    case SLIP_DTYPE_F16:
      return slip__float_decode(scalar.bits & 0xffff, 5, 10);
    case SLIP_DTYPE_BF16:
      return slip__float_decode(scalar.bits & 0xffff, 8, 7);
    case SLIP_DTYPE_F64:
      memcpy(&f64, &scalar.bits, sizeof(f64));
      return f64;
    default:
      break;
  }
  switch (slip_dtype_kind(scalar.dtype)) {
    case SLIP_DTYPE_KIND_INT:
      return (double)slip__scalar_signed(scalar);
    case SLIP_DTYPE_KIND_UINT:
    case SLIP_DTYPE_KIND_BOOL:
      return (double)slip__scalar_unsigned(scalar);
    default:
      return 0.0;
  }
}

uint64_t slip__scalar_mask(slip_dtype_t dtype) {
  if (dtype == SLIP_DTYPE_BOOL) return 1;
  size_t size = slip_dtype_size_bytes(dtype);
  return size >= 8 ? UINT64_MAX : (1ull << (8 * size)) - 1;
}

int64_t slip__scalar_signed(slip_scalar_t scalar) {
  uint32_t unused = 64 - 8 * (uint32_t)slip_dtype_size_bytes(scalar.dtype);
  return unused >= 64 ? 0 : (int64_t)(scalar.bits << unused) >> unused;
}

uint64_t slip__scalar_unsigned(slip_scalar_t scalar) {
  return scalar.bits & slip__scalar_mask(scalar.dtype);
}

bool slip__scalar_is_wellformed(slip_scalar_t scalar) {
  if (!slip__dtype_is_scalar(scalar.dtype)) return false;
  return scalar.bits <= slip__scalar_mask(scalar.dtype);
}

static slip_status_t slip__scalar_integer_range(slip_dtype_t dtype, bool negative, uint64_t magnitude) {
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "integer %s%llu is out of range for %s; pass a value that fits or declare a wider type",
                     negative ? "-" : "", (unsigned long long)magnitude, slip_dtype_name(dtype));
}

// |magnitude| rounded to the 53 bits of a double; to odd where a narrower format will round it again.
static double slip__integer_round(uint64_t magnitude, bool to_odd) {
  if (!(magnitude >> 53)) return (double)magnitude;
  int shift = 11 - __builtin_clzll(magnitude);
  uint64_t kept = magnitude >> shift, rest = magnitude & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  if (to_odd) {
    kept |= rest != 0;
  } else if (rest > half || (rest == half && (kept & 1))) {
    ++kept;
  }
  return ldexp((double)kept, shift);
}

// An integer given as sign and magnitude.
static slip_status_t slip__scalar_from_integer(slip_dtype_t dtype, bool negative, uint64_t magnitude, slip_scalar_t *out) {
  memset(out, 0, sizeof(*out));
  uint32_t bits = 8 * (uint32_t)slip_dtype_size_bytes(dtype);
  uint64_t value = negative ? 0 - magnitude : magnitude;
  switch (slip_dtype_kind(dtype)) {
    case SLIP_DTYPE_KIND_BOOL:
      if (negative || magnitude > 1) {
        return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "integer %s%llu is no bool; pass 0 or 1", negative ? "-" : "",
                           (unsigned long long)magnitude);
      }
      break;
    case SLIP_DTYPE_KIND_UINT:
      if (negative || magnitude > slip__scalar_mask(dtype)) return slip__scalar_integer_range(dtype, negative, magnitude);
      break;
    case SLIP_DTYPE_KIND_INT:
      if (magnitude > (1ull << (bits - 1)) - (negative ? 0 : 1)) return slip__scalar_integer_range(dtype, negative, magnitude);
      break;
    case SLIP_DTYPE_KIND_FLOAT: {
      double rounded = slip__integer_round(magnitude, dtype != SLIP_DTYPE_F64);
      slip__scalar_set(out, dtype, slip__float_bits(dtype, negative ? -rounded : rounded));
      if (!isinf(slip_scalar_to_f64(*out))) return slip_ok_status();
      memset(out, 0, sizeof(*out));
      return slip__scalar_integer_range(dtype, negative, magnitude);
    }
    default:
      return slip__scalar_not_one(dtype);
  }
  slip__scalar_set(out, dtype, value & slip__scalar_mask(dtype));
  return slip_ok_status();
}

slip_status_t slip_scalar_from_i64(slip_dtype_t dtype, int64_t value, slip_scalar_t *out) {
  return slip__scalar_from_integer(dtype, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, out);
}

slip_status_t slip_scalar_from_u64(slip_dtype_t dtype, uint64_t value, slip_scalar_t *out) {
  return slip__scalar_from_integer(dtype, false, value, out);
}

slip_status_t slip_scalar_from_f64(slip_dtype_t dtype, double value, slip_scalar_t *out) {
  memset(out, 0, sizeof(*out));
  if (!slip__dtype_is_scalar(dtype)) return slip__scalar_not_one(dtype);
  if (slip_dtype_kind(dtype) != SLIP_DTYPE_KIND_FLOAT) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "float %.17g where %s is declared; floats are never truncated: pass an integer", value,
                       slip_dtype_name(dtype));
  }
  slip__scalar_set(out, dtype, slip__float_bits(dtype, value));
  if (!isfinite(value) || isfinite(slip_scalar_to_f64(*out))) return slip_ok_status();
  memset(out, 0, sizeof(*out));
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "finite value %.17g overflows %s; pass a smaller value, or infinity itself", value,
                     slip_dtype_name(dtype));
}

slip_status_t slip_scalar_from_bool(slip_dtype_t dtype, bool value, slip_scalar_t *out) {
  memset(out, 0, sizeof(*out));
  if (!slip__dtype_is_scalar(dtype)) return slip__scalar_not_one(dtype);
  if (dtype != SLIP_DTYPE_BOOL) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "bool %s where %s is declared; pass a number", value ? "true" : "false",
                       slip_dtype_name(dtype));
  }
  slip__scalar_set(out, dtype, value);
  return slip_ok_status();
}
