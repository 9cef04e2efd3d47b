// SPDX-License-Identifier: Apache-2.0
#include "slipstream/scalar.h"

#include <fenv.h>
#include <float.h>
#include <locale.h>
#include <math.h>

#include "contract/scalar.h"
#include "slip_test.h"

#define INVALID SLIP_CODE_INVALID_ARGUMENT

// The scalar must have been zeroed by a refusal.
static void is_zero(slip_scalar_t scalar) {
  SLIP_CHECK(scalar.bits == 0 && scalar.dtype == SLIP_DTYPE_NONE);
}

static slip_scalar_t from_i64(slip_dtype_t dtype, int64_t value) {
  slip_scalar_t scalar;
  SLIP_CHECK_OK(slip_scalar_from_i64(dtype, value, &scalar));
  SLIP_CHECK(scalar.dtype == dtype && slip__scalar_is_wellformed(scalar));
  return scalar;
}

static slip_scalar_t from_f64(slip_dtype_t dtype, double value) {
  slip_scalar_t scalar;
  SLIP_CHECK_OK(slip_scalar_from_f64(dtype, value, &scalar));
  SLIP_CHECK(scalar.dtype == dtype && slip__scalar_is_wellformed(scalar));
  return scalar;
}

static void same(slip_scalar_t a, slip_scalar_t b) {
  SLIP_CHECK_EQ(a.bits, b.bits);
  SLIP_CHECK_EQ(a.dtype, b.dtype);
}

static void refuses_i64(slip_dtype_t dtype, int64_t value, const char *part) {
  slip_scalar_t scalar = slip_scalar_f32(1);
  SLIP_CHECK_ERROR(slip_scalar_from_i64(dtype, value, &scalar), INVALID, part);
  is_zero(scalar);
}

static void refuses_f64(slip_dtype_t dtype, double value, const char *part) {
  slip_scalar_t scalar = slip_scalar_f32(1);
  SLIP_CHECK_ERROR(slip_scalar_from_f64(dtype, value, &scalar), INVALID, part);
  is_zero(scalar);
}

// Each shorthand gives what the checked constructor gives.
SLIP_TEST(scalar_shorthands_equal_the_checked_constructors) {
  static const int64_t integers[] = {0, 1, -1, 255, INT32_MIN, INT32_MAX, UINT32_MAX, INT64_MIN, INT64_MAX};
  static const double floats[] = {0.0, -0.0, 1.5, -1e300, DBL_TRUE_MIN, (double)INFINITY, (double)NAN};
  slip_scalar_t checked;
  for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); ++i) {
    int64_t value = integers[i];
    same(slip_scalar_i64(value), from_i64(SLIP_DTYPE_I64, value));
    if (value >= INT32_MIN && value <= INT32_MAX) same(slip_scalar_i32((int32_t)value), from_i64(SLIP_DTYPE_I32, value));
    if (value >= 0 && value <= UINT32_MAX) same(slip_scalar_u32((uint32_t)value), from_i64(SLIP_DTYPE_U32, value));
    SLIP_CHECK_OK(slip_scalar_from_u64(SLIP_DTYPE_U64, (uint64_t)value, &checked));
    same(slip_scalar_u64((uint64_t)value), checked);
  }
  for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); ++i) {
    same(slip_scalar_f64(floats[i]), from_f64(SLIP_DTYPE_F64, floats[i]));
    if (floats[i] > -1e30) same(slip_scalar_f32((float)floats[i]), from_f64(SLIP_DTYPE_F32, floats[i]));
  }
  for (int value = 0; value < 2; ++value) {
    SLIP_CHECK_OK(slip_scalar_from_bool(SLIP_DTYPE_BOOL, value != 0, &checked));
    same(slip_scalar_bool(value != 0), checked);
  }
}

SLIP_TEST(scalar_integers_keep_their_range) {
  static const struct {
    slip_dtype_t dtype;
    int64_t low, high;
  } rows[] = {{SLIP_DTYPE_I8, -128, 127}, {SLIP_DTYPE_I16, -32768, 32767}, {SLIP_DTYPE_I32, INT32_MIN, INT32_MAX},
              {SLIP_DTYPE_U8, 0, 255},    {SLIP_DTYPE_U16, 0, 65535},      {SLIP_DTYPE_U32, 0, UINT32_MAX},
              {SLIP_DTYPE_BOOL, 0, 1}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    uint64_t mask = (1ull << (8 * slip_dtype_size_bytes(rows[i].dtype))) - 1;
    SLIP_CHECK(from_i64(rows[i].dtype, rows[i].low).bits == ((uint64_t)rows[i].low & mask));
    SLIP_CHECK(from_i64(rows[i].dtype, rows[i].high).bits == ((uint64_t)rows[i].high & mask));
    refuses_i64(rows[i].dtype, rows[i].low - 1, rows[i].dtype == SLIP_DTYPE_BOOL ? "is no bool" : "is out of range for");
    refuses_i64(rows[i].dtype, rows[i].high + 1, rows[i].dtype == SLIP_DTYPE_BOOL ? "is no bool" : "is out of range for");
    refuses_i64(rows[i].dtype, INT64_MIN, NULL);
    refuses_i64(rows[i].dtype, INT64_MAX, NULL);
  }
}

SLIP_TEST(scalar_64_bit_integers) {
  slip_scalar_t scalar;
  SLIP_CHECK(from_i64(SLIP_DTYPE_I64, INT64_MIN).bits == 1ull << 63);
  SLIP_CHECK(from_i64(SLIP_DTYPE_I64, INT64_MAX).bits == INT64_MAX);
  SLIP_CHECK_ERROR(slip_scalar_from_u64(SLIP_DTYPE_I64, 1ull << 63, &scalar), INVALID,
                   "integer 9223372036854775808 is out of range for i64");
  SLIP_CHECK_OK(slip_scalar_from_u64(SLIP_DTYPE_U64, UINT64_MAX, &scalar));
  SLIP_CHECK(scalar.bits == UINT64_MAX);
  refuses_i64(SLIP_DTYPE_U64, -1, "integer -1 is out of range for u64");
  SLIP_CHECK_ERROR(slip_scalar_from_u64(SLIP_DTYPE_U32, 1ull << 32, &scalar), INVALID, "out of range for u32");
}

SLIP_TEST(scalar_refuses_floats_for_integers) {
  refuses_f64(SLIP_DTYPE_I32, 3.0, "float 3 where i32 is declared; floats are never truncated");
  refuses_f64(SLIP_DTYPE_U64, 0.5, "where u64 is declared");
  refuses_f64(SLIP_DTYPE_BOOL, 1.0, "where bool is declared");
  refuses_f64(SLIP_DTYPE_I8, (double)NAN, "where i8 is declared");
}

SLIP_TEST(scalar_refuses_types_that_are_none) {
  refuses_f64(SLIP_DTYPE_F8E5M2, 1.0, "'f8e5m2' is no scalar type");
  refuses_i64(SLIP_DTYPE_F4E2M1X2, 1, "'f4e2m1x2' is no scalar type");
  refuses_i64(SLIP_DTYPE_NONE, 1, "is no scalar type");
  refuses_i64(99, 1, "dtype 99 '' is no scalar type");
  slip_scalar_t scalar;
  SLIP_CHECK_CODE(slip_scalar_from_bool(99, true, &scalar), INVALID);
  SLIP_CHECK_CODE(slip_scalar_parse(99, "1", &scalar), INVALID);
  SLIP_CHECK_CODE(slip_scalar_parse(SLIP_DTYPE_I8, NULL, &scalar), INVALID);
  SLIP_CHECK(slip_scalar_to_f64((slip_scalar_t){7, 99, {0}}) == 0.0);
}

SLIP_TEST(scalar_bool) {
  slip_scalar_t scalar;
  SLIP_CHECK_OK(slip_scalar_from_bool(SLIP_DTYPE_BOOL, true, &scalar));
  SLIP_CHECK(scalar.bits == 1);
  SLIP_CHECK_ERROR(slip_scalar_from_bool(SLIP_DTYPE_I32, true, &scalar), INVALID, "bool true where i32 is declared");
  is_zero(scalar);
}

SLIP_TEST(scalar_floats_overflow_is_refused_at_the_rounding_boundary) {
  // Largest value that still rounds to the largest finite one, and the tie, which rounds to infinity.
  static const struct {
    slip_dtype_t dtype;
    double largest, tie;
    uint64_t bits;
  } rows[] = {{SLIP_DTYPE_F16, 65504.0, 65520.0, 0x7bff},
              {SLIP_DTYPE_BF16, 0x1.fep127, 0x1.ffp127, 0x7f7f},
              {SLIP_DTYPE_F32, (double)FLT_MAX, 0x1.ffffffp127, 0x7f7fffff}};
  for (size_t i = 0; i < 3; ++i) {
    SLIP_CHECK(from_f64(rows[i].dtype, rows[i].largest).bits == rows[i].bits);
    SLIP_CHECK(from_f64(rows[i].dtype, nextafter(rows[i].tie, 0)).bits == rows[i].bits);
    refuses_f64(rows[i].dtype, rows[i].tie, "overflows");
    refuses_f64(rows[i].dtype, -rows[i].tie, "overflows");
    refuses_f64(rows[i].dtype, DBL_MAX, "overflows");
  }
  SLIP_CHECK(slip_scalar_to_f64(from_f64(SLIP_DTYPE_F64, DBL_MAX)) == DBL_MAX);
  refuses_i64(SLIP_DTYPE_F16, 65520, "integer 65520 is out of range for f16");
  refuses_i64(SLIP_DTYPE_F16, INT64_MIN, "integer -9223372036854775808 is out of range for f16");
  SLIP_CHECK(from_i64(SLIP_DTYPE_F16, -65519).bits == 0xfbff);
}

SLIP_TEST(scalar_nan_and_infinity_are_fine_for_floats) {
  static const slip_dtype_t dtypes[] = {SLIP_DTYPE_F16, SLIP_DTYPE_BF16, SLIP_DTYPE_F32, SLIP_DTYPE_F64};
  for (size_t i = 0; i < 4; ++i) {
    SLIP_CHECK(isnan(slip_scalar_to_f64(from_f64(dtypes[i], (double)NAN))));
    SLIP_CHECK(slip_scalar_to_f64(from_f64(dtypes[i], (double)INFINITY)) == (double)INFINITY);
    SLIP_CHECK(slip_scalar_to_f64(from_f64(dtypes[i], (double)-INFINITY)) == (double)-INFINITY);
    SLIP_CHECK(signbit(slip_scalar_to_f64(from_f64(dtypes[i], -0.0))) != 0);
  }
  SLIP_CHECK(from_f64(SLIP_DTYPE_F16, (double)NAN).bits == 0x7e00);
  SLIP_CHECK(from_f64(SLIP_DTYPE_BF16, (double)-INFINITY).bits == 0xff80);
}

// Every value of a 16-bit format comes back, and between neighbours the nearer one wins, the even one at a tie.
static void rounds_to_nearest_even(slip_dtype_t dtype, uint64_t (*encode)(double), uint64_t infinity) {
  for (uint64_t bits = 0; bits < infinity; ++bits) {
    double value = slip_scalar_to_f64((slip_scalar_t){bits, dtype, {0}});
    SLIP_CHECK(encode(value) == bits);
    SLIP_CHECK(encode(-value) == (bits | 0x8000));
    if (bits + 1 == infinity) break;
    double above = slip_scalar_to_f64((slip_scalar_t){bits + 1, dtype, {0}});
    double middle = (value + above) / 2;
    SLIP_CHECK(value < middle && middle < above);
    SLIP_CHECK(encode(middle) == (bits & 1 ? bits + 1 : bits));
    SLIP_CHECK(encode(nextafter(middle, 0)) == bits);
    SLIP_CHECK(encode(nextafter(middle, (double)INFINITY)) == bits + 1);
  }
}
SLIP_TEST(scalar_f16_rounds_to_nearest_even_everywhere) {
  rounds_to_nearest_even(SLIP_DTYPE_F16, slip__f16_bits, 0x7c00);
}
SLIP_TEST(scalar_bf16_rounds_to_nearest_even_everywhere) {
  rounds_to_nearest_even(SLIP_DTYPE_BF16, slip__bf16_bits, 0x7f80);
}

SLIP_TEST(scalar_tiny_values_round_to_zero) {
  SLIP_CHECK(from_f64(SLIP_DTYPE_F16, 0x1p-25).bits == 0);  // half of the least subnormal: a tie, to even
  SLIP_CHECK(from_f64(SLIP_DTYPE_F16, nextafter(0x1p-25, 1)).bits == 1);
  SLIP_CHECK(from_f64(SLIP_DTYPE_F16, -DBL_MIN).bits == 0x8000);
  SLIP_CHECK(from_f64(SLIP_DTYPE_BF16, 5e-324).bits == 0);
}

SLIP_TEST(scalar_integers_round_once_into_floats) {
  // 2^62 + 2^54 is a tie for bf16; one more makes it round up, which a detour over double would lose.
  SLIP_CHECK(from_i64(SLIP_DTYPE_BF16, (1ll << 62) + (1ll << 54)).bits == 0x5e80);
  SLIP_CHECK(from_i64(SLIP_DTYPE_BF16, (1ll << 62) + (1ll << 54) + 1).bits == 0x5e81);
  SLIP_CHECK(from_i64(SLIP_DTYPE_BF16, -((1ll << 62) + (1ll << 54) + 1)).bits == 0xde81);
  for (int i = 24; i < 63; ++i) {
    for (int64_t d = -1; d <= 1; ++d) {
      int64_t value = (1ll << i) + (1ll << (i - 24)) + d;
      float direct = (float)value;
      SLIP_CHECK(from_i64(SLIP_DTYPE_F32, value).bits == slip_scalar_f32(direct).bits);
    }
  }
  SLIP_CHECK(slip_scalar_to_f64(from_i64(SLIP_DTYPE_F64, (1ll << 53) + 1)) == 0x1p53);
}

static void parses(slip_dtype_t dtype, const char *text, uint64_t bits) {
  slip_scalar_t scalar;
  SLIP_CHECK_OK(slip_scalar_parse(dtype, text, &scalar));
  if (scalar.bits != bits) slip_test_fail(__FILE__, __LINE__, "'%s' gave 0x%llx", text, (unsigned long long)scalar.bits);
  SLIP_CHECK_EQ(scalar.dtype, dtype);
}

static void refuses_text(slip_dtype_t dtype, const char *text, const char *part) {
  slip_scalar_t scalar = slip_scalar_f32(1);
  SLIP_CHECK_ERROR(slip_scalar_parse(dtype, text, &scalar), INVALID, part);
  is_zero(scalar);
}

SLIP_TEST(scalar_parses_text) {
  parses(SLIP_DTYPE_I32, "-3", 0xfffffffd);
  parses(SLIP_DTYPE_I32, "+7", 7);
  parses(SLIP_DTYPE_U8, "0xff", 255);
  parses(SLIP_DTYPE_I8, "-0x80", 0x80);
  parses(SLIP_DTYPE_I16, "010", 10);
  parses(SLIP_DTYPE_I64, "-9223372036854775808", 1ull << 63);
  parses(SLIP_DTYPE_U64, "18446744073709551615", UINT64_MAX);
  parses(SLIP_DTYPE_BOOL, "true", 1);
  parses(SLIP_DTYPE_BOOL, "false", 0);
  parses(SLIP_DTYPE_BOOL, "1", 1);
  parses(SLIP_DTYPE_F32, "1e-5", slip_scalar_f32(1e-5f).bits);
  parses(SLIP_DTYPE_F32, "3", slip_scalar_f32(3.0f).bits);
  parses(SLIP_DTYPE_F32, "0x10", slip_scalar_f32(16.0f).bits);
  parses(SLIP_DTYPE_F32, "-inf", 0xff800000);
  parses(SLIP_DTYPE_F16, "nan", 0x7e00);
  parses(SLIP_DTYPE_BF16, "Infinity", 0x7f80);
  parses(SLIP_DTYPE_F64, ".5", 0x3fe0000000000000);
  // Nearest to f32, where the detour over double would round twice.
  parses(SLIP_DTYPE_F32, "1.000000059604644775390626", 0x3f800001);
}

SLIP_TEST(scalar_refuses_text) {
  refuses_text(SLIP_DTYPE_I32, "3.0", "'3.0' is no i32");
  refuses_text(SLIP_DTYPE_I32, "1e3", "is no i32");
  refuses_text(SLIP_DTYPE_I32, "", "is no i32");
  refuses_text(SLIP_DTYPE_I32, "-", "is no i32");
  refuses_text(SLIP_DTYPE_I32, "0x", "is no i32");
  refuses_text(SLIP_DTYPE_I32, " 1", "is no i32");
  refuses_text(SLIP_DTYPE_I32, "1 ", "is no i32");
  refuses_text(SLIP_DTYPE_I32, "true", "is no i32");
  refuses_text(SLIP_DTYPE_I32, "2147483648", "out of range for i32");
  refuses_text(SLIP_DTYPE_I64, "9223372036854775808", "out of range for i64");
  refuses_text(SLIP_DTYPE_U64, "18446744073709551616", "out of range for u64");
  refuses_text(SLIP_DTYPE_I64, "-9223372036854775809", "out of range for i64");
  refuses_text(SLIP_DTYPE_U8, "-1", "out of range for u8");
  refuses_text(SLIP_DTYPE_BOOL, "2", "is no bool");
  refuses_text(SLIP_DTYPE_BOOL, "True", "is no bool");
  refuses_text(SLIP_DTYPE_F32, "", "is no f32");
  refuses_text(SLIP_DTYPE_F32, " 1", "is no f32");
  refuses_text(SLIP_DTYPE_F32, "1 ", "is no f32");
  refuses_text(SLIP_DTYPE_F32, "1,5", "is no f32");
  refuses_text(SLIP_DTYPE_F32, "true", "is no f32");
  refuses_text(SLIP_DTYPE_F32, "1e39", "overflows f32");
  refuses_text(SLIP_DTYPE_F64, "1e400", "finite value 1e400 overflows f64");
  refuses_text(SLIP_DTYPE_F64, "-1e400", "overflows f64");
  refuses_text(SLIP_DTYPE_F16, "65520", "overflows f16");
}

static void prints(slip_scalar_t scalar, const char *text) {
  char buffer[64];
  SLIP_CHECK_EQ(slip_scalar_format(scalar, buffer, sizeof(buffer)), strlen(text));
  SLIP_CHECK_STR(buffer, text);
}

SLIP_TEST(scalar_prints_the_shortest_text) {
  prints(slip_scalar_f32(0.1f), "0.1");
  prints(slip_scalar_f32(FLT_MAX), "3.4028235e+38");
  prints(slip_scalar_f32(10), "10");
  prints(slip_scalar_f32(-1200000), "-1200000");
  prints(slip_scalar_f32(999999936), "999999936");
  prints(slip_scalar_f32(1e9f), "1e+09");
  prints(from_f64(SLIP_DTYPE_F64, 100000000), "100000000");
  prints(slip_scalar_f32(-0.0f), "-0");
  prints(from_f64(SLIP_DTYPE_F64, 0.1), "0.1");
  prints(from_f64(SLIP_DTYPE_F16, 65504), "65504");
  prints(from_f64(SLIP_DTYPE_BF16, (double)-INFINITY), "-inf");
  prints(from_f64(SLIP_DTYPE_F16, (double)NAN), "nan");
  prints(from_i64(SLIP_DTYPE_I8, -128), "-128");
  prints(from_i64(SLIP_DTYPE_U64, 5), "5");
  prints(from_i64(SLIP_DTYPE_BOOL, 1), "true");
  prints((slip_scalar_t){0, 99, {0}}, "?");
  char small[3];
  SLIP_CHECK_EQ(slip_scalar_format(slip_scalar_i32(12345), small, sizeof(small)), 5);
  SLIP_CHECK_STR(small, "12");
}

SLIP_TEST(scalar_text_does_not_depend_on_the_locale) {
  if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
    slip_test_skip("no locale with a decimal comma; install de_DE.UTF-8");
  prints(slip_scalar_f32(0.5f), "0.5");
  parses(SLIP_DTYPE_F32, "0.5", slip_scalar_f32(0.5f).bits);
  refuses_text(SLIP_DTYPE_F32, "0,5", "is no f32");
}

SLIP_TEST(scalar_wellformed_bits) {
  SLIP_CHECK(!slip__scalar_is_wellformed((slip_scalar_t){256, SLIP_DTYPE_U8, {0}}));
  SLIP_CHECK(!slip__scalar_is_wellformed((slip_scalar_t){2, SLIP_DTYPE_BOOL, {0}}));
  SLIP_CHECK(!slip__scalar_is_wellformed((slip_scalar_t){0, SLIP_DTYPE_F8E5M2, {0}}));
  SLIP_CHECK(slip__scalar_is_wellformed((slip_scalar_t){UINT64_MAX, SLIP_DTYPE_U64, {0}}));
  SLIP_CHECK_EQ(slip__scalar_signed(slip_scalar_i32(-5)), -5);
}

// Values whose conversion the floating-point environment could change: subnormals, ties, integers of more than 53 bits.
static void check_environment_values(void) {
  SLIP_CHECK_EQ(from_f64(SLIP_DTYPE_F32, 0x1p-149).bits, 1u);
  SLIP_CHECK_EQ(from_f64(SLIP_DTYPE_F32, 1 + 0x1p-24).bits, 0x3f800000u);
  SLIP_CHECK_EQ(from_f64(SLIP_DTYPE_F32, -1 - 0x1p-25).bits, 0xbf800000u);
  SLIP_CHECK_EQ(from_f64(SLIP_DTYPE_BF16, 0x1p-133).bits, 1u);
  SLIP_CHECK_EQ(from_i64(SLIP_DTYPE_F64, (1ll << 53) + 1).bits, 0x4340000000000000u);
  SLIP_CHECK_EQ(from_i64(SLIP_DTYPE_F64, -(1ll << 53) - 3).bits, 0xc340000000000002u);
  SLIP_CHECK_EQ(from_i64(SLIP_DTYPE_F32, (1ll << 40) + (1ll << 16) + 1).bits, 0x53800001u);
  SLIP_CHECK_EQ(from_i64(SLIP_DTYPE_F64, INT64_MAX).bits, 0x43e0000000000000u);
  parses(SLIP_DTYPE_F32, "1e-45", 1);
  parses(SLIP_DTYPE_F32, "0.1", 0x3dcccccd);
  parses(SLIP_DTYPE_F64, "0.1", 0x3fb999999999999a);
  prints((slip_scalar_t){1, SLIP_DTYPE_F32, {0}}, "1e-45");
  prints((slip_scalar_t){0x3fb999999999999a, SLIP_DTYPE_F64, {0}}, "0.1");
  SLIP_CHECK(slip_scalar_to_f64((slip_scalar_t){1, SLIP_DTYPE_F32, {0}}) > 1e-45);
  refuses_f64(SLIP_DTYPE_F32, 1e39, "overflows f32");
}

SLIP_TEST(scalar_does_not_depend_on_the_rounding_mode) {
  static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
  for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); ++i) {
    SLIP_CHECK_EQ(fesetround(modes[i]), 0);
    check_environment_values();
    SLIP_CHECK_EQ(fegetround(), modes[i]);
  }
}

#if defined(__x86_64__)
// Flush-to-zero and denormals-are-zero, as frameworks set them; and no exception masked, so that one raised would be a SIGFPE.
SLIP_TEST(scalar_does_not_depend_on_flushing_and_traps) {
  unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040u);
  check_environment_values();
  __builtin_ia32_ldmxcsr(before & ~0x0e80u);  // overflow, underflow, division by zero, invalid
  slip_scalar_t scalar;
  slip_status_t status = slip_scalar_from_f64(SLIP_DTYPE_F32, 1e300, &scalar);
  slip_status_t tiny = slip_scalar_from_f64(SLIP_DTYPE_F32, 1e-300, &scalar);
  __builtin_ia32_ldmxcsr(before);
  SLIP_CHECK_ERROR(status, INVALID, "overflows f32");
  SLIP_CHECK_OK(tiny);
  SLIP_CHECK_EQ(scalar.bits, 0);
}
#endif
