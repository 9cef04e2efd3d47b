// SPDX-License-Identifier: Apache-2.0
// Scalars as text, in the C locale and with default rounding, whatever the program has set.
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "contract/scalar.h"
#include "contract/text.h"

static slip_status_t slip__scalar_no_number(slip_dtype_t dtype, const char *text) {
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "'%.64s' is no %s; pass a whole number or text like 1e-5, -3, 0x10, true, inf, nan", text,
                     slip_dtype_name(dtype));
}

static int slip__digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

typedef enum slip__integer_e { SLIP__INTEGER_OK, SLIP__INTEGER_NONE, SLIP__INTEGER_HUGE } slip__integer_e;

// Sign and magnitude of a decimal or 0x number that is all of |text|.
static slip__integer_e slip__integer_parse(const char *text, bool *out_negative, uint64_t *out_magnitude) {
  *out_negative = *text == '-';
  *out_magnitude = 0;
  if (*text == '-' || *text == '+') ++text;
  int base = 10;
  if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    base = 16;
    text += 2;
  }
  if (slip__digit(*text) >= base) return SLIP__INTEGER_NONE;
  bool overflow = false;
  for (; *text; ++text) {
    int digit = slip__digit(*text);
    if (digit >= base) return SLIP__INTEGER_NONE;
    overflow |= __builtin_mul_overflow(*out_magnitude, (uint64_t)base, out_magnitude);
    overflow |= __builtin_add_overflow(*out_magnitude, (uint64_t)digit, out_magnitude);
  }
  return overflow ? SLIP__INTEGER_HUGE : SLIP__INTEGER_OK;
}

static slip_status_t slip__scalar_parse_integer(slip_dtype_t dtype, const char *text, slip_scalar_t *out) {
  bool negative;
  uint64_t magnitude;
  slip__integer_e result = slip__integer_parse(text, &negative, &magnitude);
  if (result == SLIP__INTEGER_NONE) return slip__scalar_no_number(dtype, text);
  // INT64_MIN's magnitude still fits; anything larger is out of every signed type.
  if (result == SLIP__INTEGER_HUGE || (negative && magnitude > 1ull << 63)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "integer %.64s is out of range for %s; pass a value that fits or declare a wider type",
                       text, slip_dtype_name(dtype));
  }
  return negative ? slip_scalar_from_i64(dtype, (int64_t)(0 - magnitude), out) : slip_scalar_from_u64(dtype, magnitude, out);
}

static slip_status_t slip__scalar_parse_float(slip_dtype_t dtype, const char *text, slip_scalar_t *out) {
  // Leading space, which strtod would skip, is refused like trailing space.
  bool starts = *text && strchr("+-.0123456789iInN", *text);
  locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);  // glibc and musl: a static object, cannot fail
  if (!locale) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for the C locale");
  char *end = NULL;
  fenv_t before;
  (void)feholdexcept(&before);  // no traps
  (void)fesetround(FE_TONEAREST);
  double value = strtod_l(text, &end, locale);
  // f32 is read directly: through double it would round twice. Its bits are taken as they are: where the program flushes subnormals, a
  // conversion would be zero.
  float narrow = dtype == SLIP_DTYPE_F32 ? strtof_l(text, &end, locale) : 0;
  (void)fesetenv(&before);
  freelocale(locale);
  if (!starts || end == text || *end != '\0') return slip__scalar_no_number(dtype, text);
  if (isinf(value) && !strchr("iI", text[*text == '-' || *text == '+'])) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "finite value %.64s overflows %s; pass a smaller value, or infinity itself", text,
                       slip_dtype_name(dtype));
  }
  if (dtype == SLIP_DTYPE_F32 && isfinite(value) && isfinite(narrow)) {
    *out = slip_scalar_f32(narrow);
    return slip_ok_status();
  }
  return slip_scalar_from_f64(dtype, value, out);
}

slip_status_t slip_scalar_parse(slip_dtype_t dtype, const char *text, slip_scalar_t *out) {
  memset(out, 0, sizeof(*out));
  if (!text) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "no text given for a %s", slip_dtype_name(dtype));
  if (dtype == SLIP_DTYPE_BOOL && strcmp(text, "true") == 0) return slip_scalar_from_bool(dtype, true, out);
  if (dtype == SLIP_DTYPE_BOOL && strcmp(text, "false") == 0) return slip_scalar_from_bool(dtype, false, out);
  if (slip_dtype_kind(dtype) == SLIP_DTYPE_KIND_FLOAT) return slip__scalar_parse_float(dtype, text, out);
  if (!slip__dtype_is_scalar(dtype)) return slip_scalar_from_i64(dtype, 0, out);  // says what a scalar is
  return slip__scalar_parse_integer(dtype, text, out);
}

// The shortest that reads back to the same bits, whole numbers below 1e9 without an exponent.
static void slip__scalar_format_float(slip_scalar_t scalar, char *buffer, size_t capacity) {
  double value = slip_scalar_to_f64(scalar);
  locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  locale_t before = locale ? uselocale(locale) : (locale_t)0;
  fenv_t environment;
  (void)feholdexcept(&environment);
  (void)fesetround(FE_TONEAREST);
  for (int digits = 1; digits <= 17; ++digits) {
    snprintf(buffer, capacity, "%.*g", digits, value);
    slip_scalar_t back;
    slip_status_t status = slip_scalar_parse(scalar.dtype, buffer, &back);
    bool same = slip_status_is_ok(status) && back.bits == scalar.bits;
    slip_status_free(status);
    if (same) break;
  }
  // Ten is "10", not "1e+01": what an exponent would hide is written out, as far as one reads it at a glance.
  if (strstr(buffer, "e+") && fabs(value) < 1e9 && value == rint(value)) snprintf(buffer, capacity, "%.0f", value);
  (void)fesetenv(&environment);
  if (before) uselocale(before);
  if (locale) freelocale(locale);
}

size_t slip_scalar_format(slip_scalar_t scalar, char *buffer, size_t capacity) {
  slip__text_t text = slip__text(buffer, capacity);
  char number[64];
  double value = slip_scalar_to_f64(scalar);
  switch (slip_dtype_kind(scalar.dtype)) {
    case SLIP_DTYPE_KIND_BOOL:
      slip__text_add(&text, "%s", scalar.bits & 1 ? "true" : "false");
      break;
    case SLIP_DTYPE_KIND_INT:
      slip__text_add(&text, "%lld", (long long)slip__scalar_signed(scalar));
      break;
    case SLIP_DTYPE_KIND_UINT:
      slip__text_add(&text, "%llu", (unsigned long long)slip__scalar_unsigned(scalar));
      break;
    case SLIP_DTYPE_KIND_FLOAT:
      if (isfinite(value)) {
        slip__scalar_format_float(scalar, number, sizeof(number));
        slip__text_add(&text, "%s", number);
      } else {
        slip__text_add(&text, "%s%s", signbit(value) ? "-" : "", isnan(value) ? "nan" : "inf");
      }
      break;
    default:
      slip__text_add(&text, "?");
  }
  return text.length;
}
