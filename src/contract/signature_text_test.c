// SPDX-License-Identifier: Apache-2.0
#include "slip_test.h"
#include "slip_test_allocator.h"
#include "slipstream/signature.h"

static void round_trip(const char *text) {
  slip_signature_t *signature;
  SLIP_CHECK_OK(slip_signature_parse(text, strlen(text), slip_allocator_system(), &signature));
  char buffer[512];
  SLIP_CHECK_EQ(slip_signature_format(signature, buffer, sizeof(buffer)), strlen(text));
  SLIP_CHECK_STR(buffer, text);
  slip_signature_release(signature);
}

// |text| reads as |canonical| prints.
static void reads_as(const char *text, const char *canonical) {
  slip_signature_t *signature;
  SLIP_CHECK_OK(slip_signature_parse(text, strlen(text), slip_allocator_system(), &signature));
  char buffer[512];
  slip_signature_format(signature, buffer, sizeof(buffer));
  SLIP_CHECK_STR(buffer, canonical);
  slip_signature_release(signature);
}

static void refused(const char *text, const char *part) {
  slip_signature_t *signature = (slip_signature_t *)(uintptr_t)1;
  SLIP_CHECK_ERROR(slip_signature_parse(text, strlen(text), slip_allocator_system(), &signature), SLIP_CODE_INVALID_ARGUMENT, part);
  SLIP_CHECK(signature == NULL);
}

SLIP_TEST(signature_text_round_trips) {
  round_trip("(in x: bf16[M,2048], w: bf16[2048], out y: bf16[M,2048], eps: f32) -> (y)");
  round_trip("()");
  round_trip("(eps: f32)");
  round_trip("(in s: f32[])");
  round_trip("(in x: f32[?], inout s: f32[?,N,3] nz, n: i64, out y: bool[1,2,3,4,5]) -> (y, s, y)");
  round_trip("(in in: f32[in], out out: f32[out], nz: i8)");
  round_trip("(in w: f4e2m1x2[16,4], a: f8e4m3fn[1], b: f8e5m2[1], c: f8e8m0[1])");
  round_trip("(in x: u8[9223372036854775807])");
}

SLIP_TEST(signature_text_is_read_freely) {
  reads_as(" ( x:f32[ 2 , M ] ,\n\tout y :f32[M]nz,in z:i8 )->( y ) ", "(in x: f32[2,M], out y: f32[M] nz, z: i8) -> (y)");
  reads_as("(x: f32[2] nd) -> ()", "(in x: f32[2])");
  reads_as("(x: f32[007])", "(in x: f32[7])");
}

SLIP_TEST(signature_text_measures_without_buffer) {
  slip_signature_t *signature;
  const char *text = "(in x: f32[2])";
  SLIP_CHECK_OK(slip_signature_parse(text, strlen(text), slip_allocator_system(), &signature));
  SLIP_CHECK_EQ(slip_signature_format(signature, NULL, 0), 14);
  char buffer[6];
  SLIP_CHECK_EQ(slip_signature_format(signature, buffer, sizeof(buffer)), 14);
  SLIP_CHECK_STR(buffer, "(in x");
  slip_signature_release(signature);
}

SLIP_TEST(signature_text_names_the_column) {
  refused("", "column 1: expected '(', came the end of the text");
  refused("x", "column 1: expected '(', came 'x'");
  refused("(", "column 2: expected a parameter name, came the end of the text");
  refused("(1: f32)", "column 2: expected a parameter name, came '1'");
  refused("(x f32)", "column 4: expected ':' after the parameter name, came 'f'");
  refused("(x: )", "column 5: expected a dtype, came ')'");
  refused("(x: f33)", "column 5: dtype 'f33' of 'x' is unknown");
  refused("(x: f32[)", "column 9: expected a dim (a number, a symbol or ?), came ')'");
  refused("(x: f32[2)", "column 10: expected ',' or ']' after a dim, came ')'");
  refused("(x: f32[0])", "column 9: dim 0");
  refused("(x: f32[-1])", "column 9: expected a dim");
  refused("(x: f32[9223372036854775808])", "column 9: the dim is beyond 2^63-1");
  refused("(x: f32[1,2,3,4,5,6])", "column 19: 'x' has more than 5 dims");
  refused("(x: f32[2] nn)", "column 12: layout 'nn' is unknown");
  refused("(x: f32 nz)", "column 9: expected ',' or ')' after a parameter, came 'n'");
  refused("(out x: f32)", "column 9: 'x' is a scalar and cannot be out");
  refused("(x: f32[2],)", "column 12: expected a parameter name, came ')'");
  refused("(x: f32[2]", "column 11: expected ',' or ')' after a parameter, came the end");
  refused("(x: f32[2]) y", "column 13: expected the end of the text, came 'y'");
  refused("(x: f32[2]) -y", "column 14: expected '>' of '->'");
  refused("(x: f32[2]) -> y", "column 16: expected '(' after '->'");
  refused("(out x: f32[2]) -> (x,)", "column 23: expected the name of a returned parameter");
  refused("(out x: f32[2]) -> (x", "column 22: expected ',' or ')' after a returned parameter");
  refused("(out x: f32[2]) -> (y)", "column 21: 'y' is no parameter");
  refused("(x: f32[\x01])", "column 9: expected a dim (a number, a symbol or ?), came byte 0x01");
}

SLIP_TEST(signature_text_rules_of_creation_apply) {
  refused("(x: f32[2], x: f32[2])", "parameters 0 and 1 are both called 'x'");
  refused("(x: f32[2]) -> (x)", "an IN tensor");
  refused("(x: f32) -> (x)", "a scalar");
  refused("(x: f8e5m2)", "no scalar type");
}

SLIP_TEST(signature_text_length_counts) {
  slip_signature_t *signature;
  SLIP_CHECK_OK(slip_signature_parse("(x: f32)garbage", 8, slip_allocator_system(), &signature));
  slip_signature_release(signature);
  SLIP_CHECK_ERROR(slip_signature_parse("(x: f32)\0", 9, slip_allocator_system(), &signature), SLIP_CODE_INVALID_ARGUMENT,
                   "column 9: expected the end of the text, came byte 0x00");
}

static slip_status_t parse_body(slip_allocator_t allocator, void *user) {
  (void)user;
  slip_signature_t *signature;
  const char *text = "(in x: bf16[M,2048], w: bf16[2048], out y: bf16[M,2048], eps: f32) -> (y)";
  SLIP_RETURN_IF_ERROR(slip_signature_parse(text, strlen(text), allocator, &signature));
  slip_signature_release(signature);
  return NULL;
}
SLIP_TEST(signature_text_survives_failing_allocations) {
  SLIP_CHECK(slip_test_allocator_loop(parse_body, NULL) > 5);
}
