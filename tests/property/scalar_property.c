// SPDX-License-Identifier: Apache-2.0
// Scalars near the edges of every type.
#include "slipstream/scalar.h"

#include <math.h>

#include "slip_test.h"

__extension__ typedef __int128 wide_t;

static const slip_dtype_t dtypes[] = {SLIP_DTYPE_BOOL, SLIP_DTYPE_I8,  SLIP_DTYPE_I16, SLIP_DTYPE_I32, SLIP_DTYPE_I64,
                                      SLIP_DTYPE_U8,   SLIP_DTYPE_U16, SLIP_DTYPE_U32, SLIP_DTYPE_U64, SLIP_DTYPE_F16,
                                      SLIP_DTYPE_BF16, SLIP_DTYPE_F32, SLIP_DTYPE_F64};
#define DTYPE_COUNT (sizeof(dtypes) / sizeof(dtypes[0]))

// A number whose edges matter: one power of two or the sum of two (ties of the shorter formats), give or take a little; or any bits.
static uint64_t edge(uint64_t *state) {
  uint64_t r = slip_test_random(state);
  if (r % 4 == 0) return slip_test_random(state);
  uint64_t tie = r >> 20 & 1 ? 1ull << (r >> 24 & 63) : 0;
  return (1ull << (r / 4 % 64)) + tie + slip_test_random(state) % 5 - 2;
}

static bool integer_range(slip_dtype_t dtype, wide_t *low, wide_t *high) {
  uint32_t bits = 8 * (uint32_t)slip_dtype_size_bytes(dtype);
  switch (slip_dtype_kind(dtype)) {
    case SLIP_DTYPE_KIND_BOOL:
      *low = 0;
      *high = 1;
      return true;
    case SLIP_DTYPE_KIND_UINT:
      *low = 0;
      *high = ((wide_t)1 << bits) - 1;
      return true;
    case SLIP_DTYPE_KIND_INT:
      *low = -((wide_t)1 << (bits - 1));
      *high = -*low - 1;
      return true;
    default:
      return false;
  }
}

SLIP_TEST(property_integers_pass_exactly_in_range) {
  uint64_t state = slip_test_seed();
  for (int i = 0; i < 200000; ++i) {
    slip_dtype_t dtype = dtypes[slip_test_random(&state) % DTYPE_COUNT];
    uint64_t bits = edge(&state);
    bool as_signed = slip_test_random(&state) % 2;
    wide_t value = as_signed ? (wide_t)(int64_t)bits : (wide_t)bits, low, high;
    slip_scalar_t scalar;
    slip_status_t status = as_signed ? slip_scalar_from_i64(dtype, (int64_t)bits, &scalar) : slip_scalar_from_u64(dtype, bits, &scalar);
    bool passed = slip_status_is_ok(status);
    slip_status_free(status);
    if (integer_range(dtype, &low, &high)) {
      SLIP_CHECK_EQ(passed, value >= low && value <= high);
      uint32_t unused = 64 - 8 * (uint32_t)slip_dtype_size_bytes(dtype);
      if (passed) SLIP_CHECK(scalar.bits == (bits << unused) >> unused);
    } else if (dtype == SLIP_DTYPE_F32) {
      float direct = as_signed ? (float)(int64_t)bits : (float)bits;
      SLIP_CHECK(passed && scalar.bits == slip_scalar_f32(direct).bits);
    } else if (dtype == SLIP_DTYPE_F64) {
      SLIP_CHECK(passed && slip_scalar_to_f64(scalar) == (as_signed ? (double)(int64_t)bits : (double)bits));
    } else if (passed) {
      // No other value of the 16-bit type may be nearer.
      wide_t here = (wide_t)slip_scalar_to_f64(scalar), error = here > value ? here - value : value - here;
      for (int d = -1; d <= 1; d += 2) {
        slip_scalar_t neighbour = scalar;
        neighbour.bits = (scalar.bits + (uint64_t)d) & 0xffff;
        double there = slip_scalar_to_f64(neighbour);
        if (!isfinite(there)) continue;
        wide_t other = (wide_t)there > value ? (wide_t)there - value : value - (wide_t)there;
        SLIP_CHECK(error <= other);
        if (error == other && error != 0) SLIP_CHECK((scalar.bits & 1) == 0);
      }
    } else {
      SLIP_CHECK(dtype == SLIP_DTYPE_F16 && (value >= 65520 || value <= -65520));
    }
  }
}

SLIP_TEST(property_floats_round_like_the_hardware) {
  uint64_t state = slip_test_seed();
  for (int i = 0; i < 200000; ++i) {
    uint64_t bits = edge(&state);
    double value;
    memcpy(&value, &bits, sizeof(value));
    if (slip_test_random(&state) % 2) value = (double)(float)value;
    slip_scalar_t scalar;
    slip_status_t status = slip_scalar_from_f64(SLIP_DTYPE_F32, value, &scalar);
    bool overflow = isfinite(value) && isinf((float)value);
    SLIP_CHECK_EQ(slip_status_is_ok(status), !overflow);
    slip_status_free(status);
    if (!overflow && !isnan(value)) SLIP_CHECK(scalar.bits == slip_scalar_f32((float)value).bits);
    for (size_t d = 0; d < DTYPE_COUNT; ++d) {
      if (slip_dtype_kind(dtypes[d]) == SLIP_DTYPE_KIND_FLOAT) continue;
      SLIP_CHECK_CODE(slip_scalar_from_f64(dtypes[d], value, &scalar), SLIP_CODE_INVALID_ARGUMENT);
      SLIP_CHECK(scalar.bits == 0 && scalar.dtype == 0);
      if (i > 1000) break;
    }
  }
}

SLIP_TEST(property_scalar_text_round_trips) {
  uint64_t state = slip_test_seed();
  for (int i = 0; i < 60000; ++i) {
    slip_dtype_t dtype = dtypes[slip_test_random(&state) % DTYPE_COUNT];
    uint32_t unused = 64 - 8 * (uint32_t)slip_dtype_size_bytes(dtype);
    slip_scalar_t scalar = {(edge(&state) << unused) >> unused, dtype, {0}}, back;
    if (dtype == SLIP_DTYPE_BOOL) scalar.bits &= 1;
    char text[64];
    SLIP_CHECK(slip_scalar_format(scalar, text, sizeof(text)) < sizeof(text));
    SLIP_CHECK_OK(slip_scalar_parse(dtype, text, &back));
    if (isnan(slip_scalar_to_f64(scalar))) {
      SLIP_CHECK(isnan(slip_scalar_to_f64(back)));
    } else if (back.bits != scalar.bits) {
      slip_test_fail(__FILE__, __LINE__, "%s 0x%llx printed as %s reads 0x%llx", slip_dtype_name(dtype), (unsigned long long)scalar.bits,
                     text, (unsigned long long)back.bits);
    }
  }
}
