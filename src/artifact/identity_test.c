// SPDX-License-Identifier: Apache-2.0
#include "artifact/identity.h"

#include "slip_test.h"
#include "slip_test_allocator.h"

typedef void (*slip_describe_t)(slip__identity_t *identity);

static void slip_key_of(slip_describe_t describe, char out_key[33]) {
  slip__identity_t identity;
  slip__identity_initialize(&identity, slip_allocator_system());
  describe(&identity);
  SLIP_CHECK_OK(slip__identity_finish(&identity, out_key));
  slip__identity_deinitialize(&identity);
}

static slip_signature_t *slip_parse(const char *text) {
  slip_signature_t *signature = NULL;
  SLIP_CHECK_OK(slip_signature_parse(text, strlen(text), slip_allocator_system(), &signature));
  return signature;
}

static void slip_add_signature(slip__identity_t *identity, const char *text) {
  slip_signature_t *signature = slip_parse(text);
  slip__identity_signature(identity, "params", signature);
  slip_signature_release(signature);
}

// Each pair is what a stringifying or length-less encoding would confuse, or a detail that must count.
#define SLIP_DESCRIPTIONS(X)                                                                                            \
  X(nothing, (void)i)                                                                                                   \
  X(empty_text, slip__identity_text(i, "a", ""))                                                                        \
  X(no_text, slip__identity_text(i, "a", NULL))                                                                         \
  X(empty_bytes, slip__identity_bytes(i, "a", (slip_const_bytes_t){NULL, 0}))                                           \
  X(label_b, slip__identity_text(i, "b", ""))                                                                           \
  X(split_1, (slip__identity_text(i, "", "ab"), slip__identity_text(i, "", "c")))                                       \
  X(split_2, (slip__identity_text(i, "", "a"), slip__identity_text(i, "", "bc")))                                       \
  X(joined, slip__identity_text(i, "", "abc"))                                                                          \
  X(label_or_value, slip__identity_text(i, "ab", "c"))                                                                  \
  X(value_or_label, slip__identity_text(i, "a", "bc"))                                                                  \
  X(number, slip__identity_u64(i, "a", 1))                                                                              \
  X(signed_number, slip__identity_i64(i, "a", 1))                                                                       \
  X(true_value, slip__identity_bool(i, "a", true))                                                                      \
  X(false_value, slip__identity_bool(i, "a", false))                                                                    \
  X(text_of_number, slip__identity_text(i, "a", "1"))                                                                   \
  X(float_value, slip__identity_f64(i, "a", 1.0))                                                                       \
  X(zero, slip__identity_f64(i, "a", 0.0))                                                                              \
  X(minus_zero, slip__identity_f64(i, "a", -0.0))                                                                       \
  X(group, (slip__identity_begin(i, "g"), slip__identity_u64(i, "a", 1), slip__identity_end(i)))                        \
  X(beside_group, (slip__identity_begin(i, "g"), slip__identity_end(i), slip__identity_u64(i, "a", 1)))                 \
  X(nested, (slip__identity_begin(i, "g"), slip__identity_begin(i, "g"), slip__identity_end(i), slip__identity_end(i))) \
  X(twice, (slip__identity_begin(i, "g"), slip__identity_end(i), slip__identity_begin(i, "g"), slip__identity_end(i)))  \
  X(signature, slip_add_signature(i, "(in x: f32[M], out y: f32[M]) -> (y)"))                                           \
  X(signature_symbol, slip_add_signature(i, "(in x: f32[N], out y: f32[M]) -> (y)"))                                    \
  X(signature_anonymous, slip_add_signature(i, "(in x: f32[?], out y: f32[M]) -> (y)"))                                 \
  X(signature_static, slip_add_signature(i, "(in x: f32[8], out y: f32[M]) -> (y)"))                                    \
  X(signature_rank, slip_add_signature(i, "(in x: f32[M,M], out y: f32[M]) -> (y)"))                                    \
  X(signature_dtype, slip_add_signature(i, "(in x: f16[M], out y: f32[M]) -> (y)"))                                     \
  X(signature_name, slip_add_signature(i, "(in z: f32[M], out y: f32[M]) -> (y)"))                                      \
  X(signature_direction, slip_add_signature(i, "(inout x: f32[M], out y: f32[M]) -> (y)"))                              \
  X(signature_layout, slip_add_signature(i, "(in x: f32[M] nz, out y: f32[M]) -> (y)"))                                 \
  X(signature_returns, slip_add_signature(i, "(in x: f32[M], out y: f32[M]) -> (y, y)"))

#define SLIP_DESCRIBE(name, body)                         \
  static void slip_describe_##name(slip__identity_t *i) { \
    (body);                                               \
  }
SLIP_DESCRIPTIONS(SLIP_DESCRIBE)

SLIP_TEST(identity_different_descriptions_have_different_keys) {
  static const slip_describe_t all[] = {
#define SLIP_LIST(name, body) slip_describe_##name,
      SLIP_DESCRIPTIONS(SLIP_LIST)};
  enum { COUNT = sizeof(all) / sizeof(all[0]) };
  static char keys[COUNT][33];
  for (size_t i = 0; i < COUNT; ++i) {
    char again[33];
    slip_key_of(all[i], keys[i]);
    slip_key_of(all[i], again);
    SLIP_CHECK_STR(again, keys[i]);
    SLIP_CHECK_EQ(strlen(keys[i]), 32);
    for (size_t j = 0; j < i; ++j) {
      if (strcmp(keys[i], keys[j]) == 0) slip_test_fail(__FILE__, __LINE__, "descriptions %zu and %zu have one key", i, j);
    }
  }
}

// Keys name entries of caches and artifacts: they may only change with SLIP__IDENTITY_VERSION.
SLIP_TEST(identity_keys_are_stable) {
  char key[33];
  slip_key_of(slip_describe_group, key);
  SLIP_CHECK_STR(key, "62d427bf5300139860c154e7b0197c2a");
}

static slip_status_t slip_identity_body(slip_allocator_t allocator, void *user) {
  slip__identity_t identity;
  char key[33];
  (void)user;
  slip__identity_initialize(&identity, allocator);
  for (unsigned i = 0; i < 100; ++i) slip__identity_text(&identity, "text", "a text that makes the encoding grow");
  slip_status_t status = slip__identity_finish(&identity, key);
  SLIP_CHECK_EQ(strlen(key), slip_status_is_ok(status) ? 32 : 0);
  slip__identity_deinitialize(&identity);
  return status;
}

SLIP_TEST(identity_reports_short_memory) {
  SLIP_CHECK(slip_test_allocator_loop(slip_identity_body, NULL) > 4);
}
