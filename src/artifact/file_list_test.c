// SPDX-License-Identifier: Apache-2.0
#include "artifact/file_list.h"

#include "slip_test.h"
#include "slip_test_allocator.h"

#define SLIP_HASH "00112233445566778899aabbccddeeff"

static slip_status_t slip_parse(const char *text, slip__file_list_t *out) {
  return slip__file_list_parse((slip_const_bytes_t){(const uint8_t *)text, strlen(text)}, slip_allocator_system(), out);
}

SLIP_TEST(file_list_round_trip) {
  static const slip__file_record_t records[] = {
      {"a", 0, {1, 2}, 0644},
      {"a b/\xc3\xa9", UINT32_MAX, {UINT64_MAX, 0}, 0755},
      {"image/x86-64-v3.img", INT64_MAX, {0, UINT64_MAX}, 0600},
  };
  slip__file_list_t list;
  slip_bytes_t text;
  SLIP_CHECK_OK(slip__file_list_write(records, 3, slip_allocator_system(), &text));
  SLIP_CHECK_OK(slip__file_list_parse((slip_const_bytes_t){text.data, text.size}, slip_allocator_system(), &list));
  SLIP_CHECK_EQ(list.count, 3);
  for (size_t i = 0; i < 3; ++i) {
    const slip__file_record_t *record = slip__file_list_find(&list, records[i].path);
    SLIP_CHECK(record == &list.records[i]);
    SLIP_CHECK_EQ(record->size, records[i].size);
    SLIP_CHECK_EQ(record->mode, records[i].mode);
    SLIP_CHECK(slip__hash128_equal(record->hash, records[i].hash));
  }
  SLIP_CHECK(slip__file_list_find(&list, "b") == NULL);
  SLIP_CHECK(slip__file_list_find(&list, "") == NULL);
  slip__file_list_deinitialize(&list);
  free(text.data);
  SLIP_CHECK_OK(slip__file_list_write(NULL, 0, slip_allocator_system(), &text));
  SLIP_CHECK_OK(slip__file_list_parse((slip_const_bytes_t){text.data, text.size}, slip_allocator_system(), &list));
  SLIP_CHECK_EQ(list.count, 0);
  slip__file_list_deinitialize(&list);
  free(text.data);
}

SLIP_TEST(file_list_checks_size_and_hash) {
  uint8_t bytes[100] = {1, 2, 3};
  slip_const_bytes_t whole = {bytes, sizeof(bytes)};
  slip__file_record_t record = {"x", sizeof(bytes), slip__hash128(whole), 0644};
  SLIP_CHECK_OK(slip__file_record_check(&record, whole));
  SLIP_CHECK_ERROR(slip__file_record_check(&record, (slip_const_bytes_t){bytes, 99}), SLIP_CODE_CORRUPT, "\"x\" has 99 bytes");
  bytes[50] ^= 1;
  SLIP_CHECK_ERROR(slip__file_record_check(&record, whole), SLIP_CODE_CORRUPT, "\"x\" has hash");
}

SLIP_TEST(file_list_refuses_what_is_wrong) {
  static const struct {
    const char *record;
    const char *part;
  } cases[] = {
      {"{\"path\": \"../up\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'path'"},
      {"{\"path\": \"a/../b\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'path'"},
      {"{\"path\": \"/a\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'path'"},
      {"{\"path\": \"a//b\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'path'"},
      {"{\"path\": \"a/\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'path'"},
      {"{\"path\": \".\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'path'"},
      {"{\"path\": \"\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'path'"},
      {"{\"path\": \"a\\\\b\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'path'"},
      {"{\"path\": \"a\\nb\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'path'"},
      {"{\"path\": \"manifest.json\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'path'"},
      {"{\"path\": 1, \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'path'"},
      {"{\"path\": \"a\", \"size\": -1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'size'"},
      {"{\"path\": \"a\", \"size\": 1.0, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}", "'size'"},
      {"{\"path\": \"a\", \"size\": 1, \"hash\": \"" SLIP_HASH "0\", \"mode\": \"0644\"}", "'hash'"},
      {"{\"path\": \"a\", \"size\": 1, \"hash\": \"g0112233445566778899aabbccddeeff\", \"mode\": \"0644\"}", "'hash'"},
      {"{\"path\": \"a\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": 420}", "'mode'"},
      {"{\"path\": \"a\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0948\"}", "'mode'"},
      {"{\"path\": \"a\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"4755\"}", "'mode'"},
      {"{\"path\": \"a\", \"size\": 1, \"hash\": \"" SLIP_HASH "\"}", "(all)"},
      {"{\"path\": \"a\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\", \"x\": 1}", "(all)"},
      {"7", "(all)"},
      {"{\"path\": \"b\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}, "
       "{\"path\": \"a\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}",
       "entry 1"},
      {"{\"path\": \"a\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}, "
       "{\"path\": \"a\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}",
       "entry 1"},
  };
  slip__file_list_t list;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    char text[512];
    (void)snprintf(text, sizeof(text), "{\"schema\": 1, \"files\": [%s]}", cases[i].record);
    SLIP_CHECK_ERROR(slip_parse(text, &list), SLIP_CODE_CORRUPT, cases[i].part);
    SLIP_CHECK(list.records == NULL && list.count == 0);
  }
  SLIP_CHECK_CODE(slip_parse("", &list), SLIP_CODE_CORRUPT);
  SLIP_CHECK_CODE(slip_parse("[]", &list), SLIP_CODE_CORRUPT);
  SLIP_CHECK_CODE(slip_parse("{\"schema\": 1}", &list), SLIP_CODE_CORRUPT);
  SLIP_CHECK_CODE(slip_parse("{\"schema\": 1, \"files\": {}}", &list), SLIP_CODE_CORRUPT);
  SLIP_CHECK_CODE(slip_parse("{\"schema\": 1, \"files\": [], \"more\": 1}", &list), SLIP_CODE_CORRUPT);
  SLIP_CHECK_CODE(slip_parse("{\"schema\": \"1\", \"files\": []}", &list), SLIP_CODE_CORRUPT);
  SLIP_CHECK_ERROR(slip_parse("{\"schema\": 2, \"files\": []}", &list), SLIP_CODE_INCOMPATIBLE, "'schema'");
  SLIP_CHECK_CODE(slip_parse("{\"schema\": 1, \"schema\": 1, \"files\": []}", &list), SLIP_CODE_INCOMPATIBLE);
}

static slip_status_t slip_list_body(slip_allocator_t allocator, void *user) {
  static const char text[] =
      "{\"schema\": 1, \"files\": [{\"path\": \"a\", \"size\": 1, \"hash\": \"" SLIP_HASH "\", \"mode\": \"0644\"}]}";
  slip__file_list_t list;
  (void)user;
  slip_status_t status = slip__file_list_parse((slip_const_bytes_t){(const uint8_t *)text, sizeof(text) - 1}, allocator, &list);
  if (slip_status_is_ok(status)) slip__file_list_deinitialize(&list);
  return status;
}

SLIP_TEST(file_list_survives_every_failing_allocation) {
  SLIP_CHECK(slip_test_allocator_loop(slip_list_body, NULL) > 1);
}
