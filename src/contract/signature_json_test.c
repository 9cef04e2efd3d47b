// SPDX-License-Identifier: Apache-2.0
#include "base/allocator.h"
#include "slip_test.h"
#include "slip_test_allocator.h"
#include "slip_test_malloc.h"
#include "slipstream/signature.h"

static slip_signature_t *parse(const char *text) {
  slip_signature_t *signature;
  SLIP_CHECK_OK(slip_signature_parse(text, strlen(text), slip_allocator_system(), &signature));
  return signature;
}

// |text| (text form) writes as |json| and comes back equal.
static void round_trip(const char *text, const char *json) {
  slip_signature_t *signature = parse(text), *back;
  slip_bytes_t bytes;
  SLIP_CHECK_OK(slip_signature_to_json(signature, slip_allocator_system(), &bytes));
  SLIP_CHECK_EQ(strlen((char *)bytes.data), bytes.size);
  SLIP_CHECK_STR((char *)bytes.data, json);
  SLIP_CHECK_OK(slip_signature_from_json((char *)bytes.data, bytes.size, slip_allocator_system(), &back));
  SLIP_CHECK(slip_signature_equal(signature, back));
  slip__free(slip_allocator_system(), bytes.data, bytes.size + 1);
  slip_signature_release(back);
  slip_signature_release(signature);
}

SLIP_TEST(signature_json_round_trips) {
  round_trip("(in x: bf16[M,2048], inout y: f32[] nz, eps: f32) -> (y, y)",
             "{\"params\":[{\"name\":\"x\",\"direction\":\"in\",\"dtype\":\"bf16\",\"dims\":[-1,2048],\"dim_names\":[\"M\",null],"
             "\"layout\":\"nd\"},"
             "{\"name\":\"y\",\"direction\":\"inout\",\"dtype\":\"f32\",\"dims\":[],\"layout\":\"nz\"},"
             "{\"name\":\"eps\",\"direction\":\"scalar\",\"dtype\":\"f32\"}],\"return_aliases\":[1,1]}");
  round_trip("()", "{\"params\":[],\"return_aliases\":[]}");
  round_trip("(in x: u8[9223372036854775807,?])",
             "{\"params\":[{\"name\":\"x\",\"direction\":\"in\",\"dtype\":\"u8\",\"dims\":[9223372036854775807,-1],\"layout\":\"nd\"}],"
             "\"return_aliases\":[]}");
}

static void reads_as(const char *json, const char *text) {
  slip_signature_t *signature;
  SLIP_CHECK_OK(slip_signature_from_json(json, strlen(json), slip_allocator_system(), &signature));
  char buffer[256];
  slip_signature_format(signature, buffer, sizeof(buffer));
  SLIP_CHECK_STR(buffer, text);
  slip_signature_release(signature);
}

#define TENSOR(rest) "{\"params\":[{\"name\":\"x\",\"direction\":\"out\",\"dtype\":\"f32\"" rest "}],\"return_aliases\":[]}"
#define SCALAR(rest) "{\"params\":[{\"name\":\"x\",\"direction\":\"scalar\",\"dtype\":\"f32\"" rest "}],\"return_aliases\":[]}"

SLIP_TEST(signature_json_layout_and_names_may_be_left_out) {
  reads_as(TENSOR(",\"dims\":[2,-1]"), "(out x: f32[2,?])");
  reads_as(" { \"return_aliases\" : [0], \"params\":[{\"dims\":[], \"dtype\":\"f32\", \"direction\":\"out\", \"name\":\"x\"}]}\n",
           "(out x: f32[]) -> (x)");
}

static void refused(const char *json, const char *part) {
  slip_signature_t *signature = (slip_signature_t *)(uintptr_t)1;
  SLIP_CHECK_ERROR(slip_signature_from_json(json, strlen(json), slip_allocator_system(), &signature), SLIP_CODE_CORRUPT, part);
  SLIP_CHECK(signature == NULL);
}

SLIP_TEST(signature_json_refuses_what_is_no_json) {
  refused("", "line 1");
  refused("{", "line 1 column 1");
  refused("{}x", "end of file expected");
  refused("{\"params\":[],\"return_aliases\":[],}", "line 1");
  refused("{\"params\":[],\"return_aliases\":[9223372036854775808]}", "too big integer");
  refused("{\"params\":[],\"return_aliases\":[],\"a\\u0000\":1}", "line 1");
  refused("{\"params\":[],\"return_aliases\":[],\"\xff\":1}", "unable to decode byte 0xff");
}

SLIP_TEST(signature_json_refuses_keys) {
  refused("{\"params\":[],\"return_aliases\":[],\"more\":1}", "field 'more' is unknown");
  refused("{\"params\":[],\"return_aliases\":[],\"params\":[]}", "duplicate object key");
  refused(TENSOR(",\"dims\":[],\"dims\":[]"), "duplicate object key");
  refused(TENSOR(",\"dims\":[],\"shape\":[]"), "field 'shape' is unknown here; remove it or recompile; in 'params' entry 0");
  refused(SCALAR(",\"dims\":[]"), "field 'dims' is unknown");
  refused(SCALAR(",\"layout\":\"nd\""), "field 'layout' is unknown");
  refused(SCALAR(",\"dim_names\":[]"), "field 'dim_names' is unknown");
}

SLIP_TEST(signature_json_refuses_types) {
  refused("[]", "a signature is an object, came an array");
  refused("{\"return_aliases\":[]}", "field 'params': expected an array, came nothing");
  refused("{\"params\":{},\"return_aliases\":[]}", "field 'params': expected an array, came an object");
  refused("{\"params\":[]}", "field 'return_aliases': expected an array, came nothing");
  refused("{\"params\":[],\"return_aliases\":null}", "field 'return_aliases': expected an array, came null");
  refused("{\"params\":[],\"return_aliases\":[\"x\"]}", "field 'return_aliases' entry 0: expected an integer, came a string");
  refused("{\"params\":[],\"return_aliases\":[4294967296]}", "field 'return_aliases' entry 0: 4294967296 is out of range");
  refused("{\"params\":[1],\"return_aliases\":[]}", "expected an object, came an integer; in 'params' entry 0");
  refused("{\"params\":[{\"direction\":\"in\",\"dtype\":\"f32\",\"dims\":[]}],\"return_aliases\":[]}",
          "field 'name': expected a string, came nothing");
  refused("{\"params\":[{\"name\":1,\"direction\":\"in\",\"dtype\":\"f32\",\"dims\":[]}],\"return_aliases\":[]}",
          "field 'name': expected a string, came an integer");
  refused("{\"params\":[{\"name\":\"x\",\"dtype\":\"f32\",\"dims\":[]}],\"return_aliases\":[]}", "field 'direction': expected a string");
  refused("{\"params\":[{\"name\":\"x\",\"direction\":\"up\",\"dtype\":\"f32\",\"dims\":[]}],\"return_aliases\":[]}",
          "field 'direction': expected in, out, inout or scalar, came 'up'");
  refused("{\"params\":[{\"name\":\"x\",\"direction\":\"in\",\"dims\":[]}],\"return_aliases\":[]}", "field 'dtype': expected a string");
  refused("{\"params\":[{\"name\":\"x\",\"direction\":\"in\",\"dtype\":\"f33\",\"dims\":[]}],\"return_aliases\":[]}",
          "field 'dtype': 'f33' is unknown");
  refused(TENSOR(""), "field 'dims': expected an array of integers, came nothing");
  refused(TENSOR(",\"dims\":2"), "field 'dims': expected an array of integers, came an integer");
  refused(TENSOR(",\"dims\":[2.0]"), "field 'dims' entry 0: expected an integer, came a real number");
  refused(TENSOR(",\"dims\":[true]"), "came true");
  refused(TENSOR(",\"dims\":[1,1,1,1,1,1]"), "field 'dims': expected at most 5 entries, came 6");
  refused(TENSOR(",\"dims\":[-1],\"dim_names\":\"M\""), "field 'dim_names': expected an array of strings and nulls, came a string");
  refused(TENSOR(",\"dims\":[-1],\"dim_names\":[]"), "field 'dim_names': expected 1 entries as in 'dims', came 0");
  refused(TENSOR(",\"dims\":[-1],\"dim_names\":[1]"), "field 'dim_names' entry 0: expected a string or null, came an integer");
  refused(TENSOR(",\"dims\":[-1],\"layout\":1"), "field 'layout': expected a string, came an integer");
  refused(TENSOR(",\"dims\":[-1],\"layout\":\"nc\""), "field 'layout': expected nd or nz, came 'nc'");
}

SLIP_TEST(signature_json_refuses_broken_rules) {
  refused(TENSOR(",\"dims\":[0]"), "dim 0 is 0");
  refused(TENSOR(",\"dims\":[-2]"), "dim 0 is -2");
  refused(TENSOR(",\"dims\":[2],\"dim_names\":[\"M\"]"), "static size 2");
  refused("{\"params\":[],\"return_aliases\":[0]}", "return alias 0 is 0, out of range");
  refused("{\"params\":[],\"return_aliases\":[-1]}", "return alias 0 is -1, out of range");
  refused("{\"params\":[{\"name\":\"x\",\"direction\":\"in\",\"dtype\":\"f32\",\"dims\":[]}],\"return_aliases\":[0]}", "an IN tensor");
  refused("{\"params\":[{\"name\":\"\",\"direction\":\"in\",\"dtype\":\"f32\",\"dims\":[]}],\"return_aliases\":[]}", "the name is empty");
}

SLIP_TEST(signature_json_null_text) {
  slip_signature_t *signature;
  SLIP_CHECK_CODE(slip_signature_from_json(NULL, 0, slip_allocator_system(), &signature), SLIP_CODE_INVALID_ARGUMENT);
}

static slip_status_t json_body(slip_allocator_t allocator, void *user) {
  slip_bytes_t bytes;
  slip_signature_t *back = NULL;
  SLIP_RETURN_IF_ERROR(slip_signature_to_json(user, allocator, &bytes));
  slip_status_t status = slip_signature_from_json((char *)bytes.data, bytes.size, allocator, &back);
  slip__free(allocator, bytes.data, bytes.size + 1);
  slip_signature_release(back);
  return status;
}
SLIP_TEST(signature_json_survives_failing_allocations) {
  slip_signature_t *signature = parse("(in x: bf16[M,2048], out y: bf16[M,2048]) -> (y)");
  SLIP_CHECK(slip_test_allocator_loop(json_body, signature) > 4);
  slip_signature_release(signature);
}

// The JSON library takes its memory from malloc: each of its requests may fail. It calls some of these failures bad
// syntax; where it says nothing, we must not read what it did not write.
SLIP_TEST(signature_json_survives_short_memory_of_the_parser) {
  static const char text[] =
      "{\"params\":[{\"name\":\"x\",\"direction\":\"in\",\"dtype\":\"f32\",\"dims\":[-1,4],\"dim_names\":"
      "[\"M\",null]}],\"return_aliases\":[]}";
  if (!slip_test_malloc_works()) slip_test_skip("a sanitizer stands before malloc");
  bool failed = true;
  uint64_t nth = 1;
  for (; failed && nth < 1000; ++nth) {
    slip_signature_t *signature = NULL;
    slip_test_malloc_fail(nth, true);
    slip_status_t status = slip_signature_from_json(text, sizeof(text) - 1, slip_allocator_system(), &signature);
    slip_test_malloc_fail(0, false);
    failed = !slip_status_is_ok(status);
    slip_code_t code = slip_status_code(status);
    SLIP_CHECK(!failed || code == SLIP_CODE_OUT_OF_MEMORY || (nth > 3 && code == SLIP_CODE_CORRUPT));
    slip_status_free(status);
    slip_signature_release(signature);
  }
  SLIP_CHECK(nth > 10 && nth < 1000);
}
