// SPDX-License-Identifier: Apache-2.0
#include "artifact/metadata.h"

#include "artifact/file_list.h"
#include "slip_test.h"
#include "slip_test_allocator.h"
#include "slipstream/tensor.h"

static const char slip_kernel_text[] =
    "{\"schema\": 3, \"name\": \"sample\", \"platform\": \"cpu\", \"target\": [\"x86-64-v2\", \"x86-64-v3\"],"
    " \"params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 8], \"dim_names\": [\"M\", null], "
    "\"layout\": \"nd\"},"
    " {\"name\": \"y\", \"direction\": \"out\", \"dtype\": \"f32\", \"dims\": [-1, 8], \"layout\": \"nd\"},"
    " {\"name\": \"eps\", \"direction\": \"scalar\", \"dtype\": \"f32\"}],"
    " \"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 8], \"layout\": \"nd\"},"
    " {\"name\": \"y\", \"direction\": \"out\", \"dtype\": \"f32\", \"dims\": [-1, 8], \"layout\": \"nd\"},"
    " {\"name\": \"eps\", \"direction\": \"scalar\", \"dtype\": \"f32\"}],"
    " \"return_count\": 1, \"return_aliases\": [1], \"contract\": \"kernel\", \"execution_mode\": \"onboard\", \"capabilities\": "
    "[\"kernel\"],"
    " \"toolchain\": {\"compiler\": \"gcc 12\"}, \"key\": \"0123456789abcdef0123456789abcdef\"}";

static slip_const_bytes_t slip_bytes_of(const char *text) {
  return (slip_const_bytes_t){(const uint8_t *)text, strlen(text)};
}

// |text| with the first |from| replaced by |to|; freed by the caller.
static char *slip_replaced(const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  if (!at) slip_test_fail(__FILE__, __LINE__, "the sample has no %s", from);
  char *result = malloc(strlen(text) + strlen(to) + 1);
  (void)sprintf(result, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  return result;
}

SLIP_TEST(metadata_of_a_kernel) {
  slip__metadata_t metadata;
  char text[128];
  SLIP_CHECK_OK(slip__metadata_parse(slip_bytes_of(slip_kernel_text), slip_allocator_system(), &metadata));
  SLIP_CHECK_EQ(metadata.schema, 3);
  SLIP_CHECK_STR(metadata.name, "sample");
  SLIP_CHECK_EQ(metadata.platform, SLIP_PLATFORM_CPU);
  SLIP_CHECK_EQ(metadata.contract, SLIP_CONTRACT_KERNEL);
  SLIP_CHECK_EQ(metadata.capabilities, SLIP__CAPABILITY_KERNEL);
  SLIP_CHECK_EQ(metadata.target_count, 2);
  SLIP_CHECK_STR(metadata.targets[1], "x86-64-v3");
  SLIP_CHECK_STR(metadata.key, "0123456789abcdef0123456789abcdef");
  SLIP_CHECK_EQ(metadata.entry_count, 1);
  slip_signature_format(metadata.entries[0].params, text, sizeof(text));
  SLIP_CHECK_STR(text, "(in x: f32[M,8], out y: f32[?,8], eps: f32) -> (y)");
  slip_signature_format(metadata.entries[0].lowered_params, text, sizeof(text));
  SLIP_CHECK_STR(text, "(in x: f32[?,8], out y: f32[?,8], eps: f32) -> (y)");
  slip__metadata_deinitialize(&metadata);
}

// A refusal is INCOMPATIBLE, names the field and says what to do.
SLIP_TEST(metadata_refusals_name_the_field) {
  static const struct {
    const char *from, *to, *field;
  } cases[] = {
      {"\"schema\": 3", "\"schema\": 4", "'schema': 4 is unknown"},
      {"\"schema\": 3", "\"schema\": 0", "'schema'"},
      {"\"schema\": 3", "\"schema\": -3", "'schema'"},
      {"\"schema\": 3", "\"schema\": 3.0", "'schema': expected an integer, came a real number"},
      {"\"schema\": 3", "\"schema\": \"3\"", "'schema': expected an integer, came a string"},
      {"\"schema\": 3, ", "", "'schema': missing"},
      {"\"schema\": 3", "\"schema\": 3, \"schema\": 3", "schema"},
      {"\"schema\": 3", "\"schema\": 3, \"extra\": 1", "'extra': unknown"},
      {"\"schema\": 3", "\"schema\": 2", "'target': expected a string"},
      {"\"name\": \"sample\"", "\"name\": 7", "'name'"},
      {"\"name\": \"sample\"", "\"name\": \"../up\"", "'name'"},
      {"\"name\": \"sample\"", "\"name\": \"\"", "'name'"},
      {"\"name\": \"sample\"", "\"name\": \"sample\", \"name\": \"again\"", "name"},
      {"\"name\": \"sample\", ", "", "'name': missing"},
      {"\"platform\": \"cpu\"", "\"platform\": \"toaster\"", "'platform'"},
      {"\"platform\": \"cpu\"", "\"platform\": null", "'platform'"},
      {"\"platform\": \"cpu\"", "\"platform\": \"sim\"", "'execution_mode'"},
      {"[\"x86-64-v2\", \"x86-64-v3\"]", "[]", "'target'"},
      {"[\"x86-64-v2\", \"x86-64-v3\"]", "\"x86-64-v3\"", "'target'"},
      {"[\"x86-64-v2\", \"x86-64-v3\"]", "[3]", "'target'"},
      {"[\"x86-64-v2\", \"x86-64-v3\"]", "[\"a/b\"]", "'target'"},
      {"[\"x86-64-v2\", \"x86-64-v3\"]", "[\"..\"]", "'target'"},
      {"[\"x86-64-v2\", \"x86-64-v3\"]", "[\"b\", \"a\"]", "'target'"},
      {"[\"x86-64-v2\", \"x86-64-v3\"]", "[\"a\", \"a\"]", "'target'"},
      {"\"dims\": [-1, 8], \"dim_names\"", "\"dims\": [-2, 8], \"dim_names\"", "'params'"},
      {"\"dims\": [-1, 8], \"dim_names\"", "\"dims\": [-1, 0], \"dim_names\"", "'params'"},
      {"\"dims\": [-1, 8], \"dim_names\"", "\"dims\": [-1, 8.0], \"dim_names\"", "'params'"},
      {"\"dims\": [-1, 8], \"dim_names\"", "\"dims\": [-1, 99999999999999999999999], \"dim_names\"", "recompile"},
      {"\"dims\": [-1, 8], \"dim_names\"", "\"dims\": [1,1,1,1,1,1], \"dim_names\"", "'params'"},
      {"\"dims\": [-1, 8], \"dim_names\"", "\"dim_names\"", "'params'"},
      {"\"dtype\": \"f32\"", "\"dtype\": \"f31\"", "'params'"},
      {"\"direction\": \"in\"", "\"direction\": \"sideways\"", "'params'"},
      {"\"direction\": \"in\"", "\"direction\": \"in\", \"shape\": []", "'params'"},
      {"\"direction\": \"in\"", "\"direction\": \"in\", \"direction\": \"in\"", "direction"},
      {"{\"name\": \"x\"", "{\"name\": \"y\"", "'params'"},
      {"\"params\": [{", "\"params\": [7, {", "'params'"},
      {"\"lowered_params\": [{\"name\": \"x\"", "\"lowered_params\": [{\"name\": \"z\"", "'lowered_params'"},
      {"\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\"", "\"lowered_params\": [{\"name\": \"x\", \"direction\": \"inout\"",
       "'lowered_params'"},
      {"\"lowered_params\": [", "\"lowered_params\": [{\"name\": \"w\", \"direction\": \"scalar\", \"dtype\": \"i8\"}, ",
       "'lowered_params'"},
      {"\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 8]",
       "\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 4]", "'x' describes other bytes"},
      {"\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 8]",
       "\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, -1]", "'x' describes other bytes"},
      {"\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 8]",
       "\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [8]", "'x' describes other bytes"},
      {"\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 8]",
       "\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 8], \"dim_names\": [\"K\", null]",
       "'x' describes other bytes"},
      {"\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 8]",
       "\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [9223372036854775807, "
       "9223372036854775807]",
       "'x' describes other bytes"},
      {"\"lowered_params\"", "\"lowered\"", "'lowered'"},
      {"\"return_count\": 1", "\"return_count\": 2", "'return_count'"},
      {"\"return_count\": 1", "\"return_count\": -1", "'return_count'"},
      {"\"return_count\": 1, ", "", "'return_count': missing"},
      {"\"return_aliases\": [1]", "\"return_aliases\": [0]", "IN tensor"},
      {"\"return_aliases\": [1]", "\"return_aliases\": [2]", "scalar"},
      {"\"return_aliases\": [1]", "\"return_aliases\": [3]", "out of range"},
      {"\"return_aliases\": [1]", "\"return_aliases\": [-1]", "out of range"},
      {"\"return_aliases\": [1]", "\"return_aliases\": [4294967297]", "out of range"},
      {"\"return_aliases\": [1]", "\"return_aliases\": [\"y\"]", "return_aliases"},
      {"\"return_aliases\": [1]", "\"return_aliases\": 1", "'return_aliases'"},
      {"\"contract\": \"kernel\"", "\"contract\": \"both\"", "'contract'"},
      {"\"contract\": \"kernel\", ", "", "'contract': missing"},
      {"\"contract\": \"kernel\"", "\"contract\": \"program\"", "'capabilities'"},
      {"\"execution_mode\": \"onboard\"", "\"execution_mode\": \"sim\"", "'execution_mode'"},
      {"[\"kernel\"]", "[]", "'capabilities'"},
      {"[\"kernel\"]", "[\"program\"]", "'capabilities'"},
      {"[\"kernel\"]", "[\"kernel\", \"kernel\"]", "'capabilities'"},
      {"[\"kernel\"]", "[\"kernel\", \"magic\"]", "'capabilities'"},
      {"[\"kernel\"]", "[true]", "'capabilities'"},
      {"\"key\": \"0123456789abcdef", "\"key\": \"0123456789ABCDEF", "'key'"},
      {"\"key\": \"0123456789abcdef", "\"key\": \"", "'key'"},
      {"{\"compiler\": \"gcc 12\"}", "{}", "'toolchain'"},
      {"{\"compiler\": \"gcc 12\"}", "{\"compiler\": 12}", "'toolchain'"},
      {"{\"compiler\": \"gcc 12\"}", "\"gcc\"", "'toolchain'"},
      {"\"toolchain\"", "\"entries\": [], \"toolchain\"", "'entries'"},
      {"\"toolchain\"", "\"entries\": [{}], \"toolchain\"", "'entries'"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    slip__metadata_t metadata, empty;
    char *text = slip_replaced(slip_kernel_text, cases[i].from, cases[i].to), full[1024];
    memset(&empty, 0, sizeof(empty));
    slip_status_t status = slip__metadata_parse(slip_bytes_of(text), slip_allocator_system(), &metadata);
    (void)slip_status_format(status, full, sizeof(full));
    if (slip_status_code(status) != SLIP_CODE_INCOMPATIBLE || !strstr(full, cases[i].field) || !strstr(full, "recompile")) {
      slip_test_fail(__FILE__, __LINE__, "case %zu (%s): \"%s\", expected INCOMPATIBLE with %s", i, cases[i].to, full, cases[i].field);
    }
    SLIP_CHECK(memcmp(&metadata, &empty, sizeof(empty)) == 0);
    slip_status_free(status);
    free(text);
  }
}

SLIP_TEST(metadata_that_is_no_json_is_corrupt) {
  slip__metadata_t metadata;
  static const char *const texts[] = {"", "{", "{\"schema\": 3", "nonsense", "{\"schema\": 3}x", "\xff\xfe", "{\"a\": \"\\u0000\"}"};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
    SLIP_CHECK_CODE(slip__metadata_parse(slip_bytes_of(texts[i]), slip_allocator_system(), &metadata), SLIP_CODE_CORRUPT);
  }
  SLIP_CHECK_CODE(slip__metadata_parse((slip_const_bytes_t){NULL, 0}, slip_allocator_system(), &metadata), SLIP_CODE_CORRUPT);
  SLIP_CHECK_CODE(slip__metadata_parse(slip_bytes_of("[]"), slip_allocator_system(), &metadata), SLIP_CODE_INCOMPATIBLE);
  // Every truncation.
  for (size_t size = 0; size < sizeof(slip_kernel_text) - 1; ++size) {
    slip_const_bytes_t part = {(const uint8_t *)slip_kernel_text, size};
    SLIP_CHECK_CODE(slip__metadata_parse(part, slip_allocator_system(), &metadata), SLIP_CODE_CORRUPT);
  }
}

SLIP_TEST(metadata_of_older_schemas_are_programs) {
  static const char schema_1[] =
      "{\"schema\": 1, \"name\": \"old\", \"platform\": \"cpu\", \"target\": \"x86-64-v2\","
      " \"params\": [{\"name\": \"y\", \"direction\": \"out\", \"dtype\": \"f32\", \"dims\": [4]}]}";
  slip__metadata_t metadata;
  SLIP_CHECK_OK(slip__metadata_parse(slip_bytes_of(schema_1), slip_allocator_system(), &metadata));
  SLIP_CHECK_EQ(metadata.contract, SLIP_CONTRACT_PROGRAM);
  SLIP_CHECK_EQ(metadata.capabilities, SLIP__CAPABILITY_PROGRAM);
  SLIP_CHECK_STR(metadata.key, "");
  SLIP_CHECK(metadata.entries[0].params == metadata.entries[0].lowered_params);
  slip__metadata_deinitialize(&metadata);
  char *schema_2 = slip_replaced(schema_1, "\"schema\": 1", "\"schema\": 2, \"return_aliases\": [0]");
  SLIP_CHECK_OK(slip__metadata_parse(slip_bytes_of(schema_2), slip_allocator_system(), &metadata));
  SLIP_CHECK_EQ(metadata.contract, SLIP_CONTRACT_PROGRAM);
  slip__metadata_deinitialize(&metadata);
  // Kernel rights are never inferred, and not granted by a field that the schema does not have.
  static const char *const more[] = {"\"schema\": 1, \"contract\": \"kernel\"", "\"schema\": 1, \"capabilities\": [\"kernel\"]",
                                     "\"schema\": 1, \"return_aliases\": [0]", "\"schema\": 1, \"lowered_params\": []"};
  for (size_t i = 0; i < 4; ++i) {
    char *text = slip_replaced(schema_1, "\"schema\": 1", more[i]);
    SLIP_CHECK_ERROR(slip__metadata_parse(slip_bytes_of(text), slip_allocator_system(), &metadata), SLIP_CODE_INCOMPATIBLE,
                     "this schema does not have it");
    free(text);
  }
  free(schema_2);
}

SLIP_TEST(metadata_of_a_program_with_several_entries) {
  static const char entry[] =
      "\"entries\": [{\"name\": \"second\", \"params\": [{\"name\": \"b\", \"direction\": \"out\", \"dtype\": \"i8\", \"dims\": []}],"
      " \"lowered_params\": [{\"name\": \"n\", \"direction\": \"scalar\", \"dtype\": \"i8\"},"
      " {\"name\": \"b\", \"direction\": \"out\", \"dtype\": \"i8\", \"dims\": []}], \"return_aliases\": [0, 0]}], \"toolchain\"";
  slip__metadata_t metadata;
  char text[128];
  char *a = slip_replaced(slip_kernel_text, "\"toolchain\"", entry);
  SLIP_CHECK_ERROR(slip__metadata_parse(slip_bytes_of(a), slip_allocator_system(), &metadata), SLIP_CODE_INCOMPATIBLE, "a kernel has one");
  char *b = slip_replaced(a, "\"contract\": \"kernel\"", "\"contract\": \"program\"");
  char *c = slip_replaced(b, "[\"kernel\"]", "[\"kernel\", \"program\"]");
  SLIP_CHECK_OK(slip__metadata_parse(slip_bytes_of(c), slip_allocator_system(), &metadata));
  SLIP_CHECK_EQ(metadata.contract, SLIP_CONTRACT_PROGRAM);
  SLIP_CHECK_EQ(metadata.capabilities, SLIP__CAPABILITY_PROGRAM | SLIP__CAPABILITY_KERNEL);
  SLIP_CHECK_EQ(metadata.entry_count, 2);
  SLIP_CHECK_STR(metadata.entries[1].name, "second");
  // Aliases follow their names through lowering.
  slip_signature_format(metadata.entries[1].lowered_params, text, sizeof(text));
  SLIP_CHECK_STR(text, "(n: i8, out b: i8[]) -> (b, b)");
  slip__metadata_deinitialize(&metadata);
  char *d = slip_replaced(c, "{\"name\": \"b\", \"direction\": \"out\", \"dtype\": \"i8\", \"dims\": []}], \"return_aliases\"",
                          "{\"name\": \"q\", \"direction\": \"out\", \"dtype\": \"i8\", \"dims\": []}], \"return_aliases\"");
  SLIP_CHECK_ERROR(slip__metadata_parse(slip_bytes_of(d), slip_allocator_system(), &metadata), SLIP_CODE_INCOMPATIBLE, "'lowered_params'");
  free(a);
  free(b);
  free(c);
  free(d);
}

static slip_status_t slip_metadata_body(slip_allocator_t allocator, void *user) {
  slip__metadata_t metadata;
  slip_status_t status = slip__metadata_parse(slip_bytes_of(user), allocator, &metadata);
  if (slip_status_is_ok(status)) slip__metadata_deinitialize(&metadata);
  return status;
}

SLIP_TEST(metadata_survive_every_failing_allocation) {
  static char text[sizeof(slip_kernel_text)];
  memcpy(text, slip_kernel_text, sizeof(text));
  SLIP_CHECK(slip_test_allocator_loop(slip_metadata_body, text) > 10);
}

// Blocks of 16 x C0 hold the same bytes in another shape; a dynamic batch may stand in front.
SLIP_TEST(metadata_take_a_lowered_shape_of_the_same_bytes) {
  static const char from[] = "\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 8]";
  static const char to[] = "\"lowered_params\": [{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 2, 2, 2]";
  slip__metadata_t metadata;
  char *text = slip_replaced(slip_kernel_text, from, to);
  SLIP_CHECK_OK(slip__metadata_parse(slip_bytes_of(text), slip_allocator_system(), &metadata));
  slip__metadata_deinitialize(&metadata);
  free(text);
}
