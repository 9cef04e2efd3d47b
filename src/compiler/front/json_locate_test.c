// SPDX-License-Identifier: Apache-2.0
#include "compiler/front/json_locate.h"

#include "slip_test.h"

static const char document[] =
    "{\n"
    "  \"a\": [1, {\"b\": \"x,]}\\\"\", \"c\": [true, null]}],\n"
    "  \"d\" : {\"a\": 3}\n"
    "}\n";

static void check(const slip__json_path_t *path, uint32_t line, uint32_t column, const char *name) {
  char text[64];
  slip__json_position_t position = slip__json_locate(document, strlen(document), path);
  SLIP_CHECK_EQ(position.line, line);
  SLIP_CHECK_EQ(position.column, column);
  SLIP_CHECK_EQ(slip__json_path_format(path, text, sizeof(text)), strlen(text));
  SLIP_CHECK_STR(text, name);
}

SLIP_TEST(json_locate_finds_values_behind_nested_ones) {
  const slip__json_path_t a = {NULL, "a", 0}, a1 = {&a, NULL, 1}, b = {&a1, "b", 0}, c = {&a1, "c", 0}, c1 = {&c, NULL, 1};
  const slip__json_path_t d = {NULL, "d", 0}, da = {&d, "a", 0};
  check(NULL, 1, 1, "");
  check(&a, 2, 8, "a");
  check(&a1, 2, 12, "a[1]");
  check(&b, 2, 18, "a[1].b");
  check(&c, 2, 33, "a[1].c");
  check(&c1, 2, 40, "a[1].c[1]");
  check(&d, 3, 9, "d");
  check(&da, 3, 15, "d.a");
}

SLIP_TEST(json_locate_gives_the_parent_of_what_is_absent) {
  const slip__json_path_t a = {NULL, "a", 0}, a9 = {&a, NULL, 9}, d = {NULL, "d", 0}, dx = {&d, "x", 0}, wrong = {&d, NULL, 0};
  check(&a9, 2, 8, "a[9]");
  check(&dx, 3, 9, "d.x");
  check(&wrong, 3, 9, "d[0]");
}

SLIP_TEST(json_locate_survives_text_that_is_no_json) {
  static const char *const texts[] = {"", "{", "{\"a\"", "{\"a\":", "[", "[1", "\"", "{\"a\":\"\\", "]", "}{"};
  const slip__json_path_t a = {NULL, "a", 0}, a1 = {&a, NULL, 1}, i = {NULL, NULL, 1};
  for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); ++t) {
    SLIP_CHECK(slip__json_locate(texts[t], strlen(texts[t]), &a1).line >= 1);
    SLIP_CHECK(slip__json_locate(texts[t], strlen(texts[t]), &i).line >= 1);
  }
}
