// SPDX-License-Identifier: Apache-2.0
#include "cli_support.h"
#include "slipstream/status.h"

SLIP_TEST(explain_knows_every_code){
#define EXPLAIN(name, number, meaning)                                              \
  {                                                                                 \
    SLIP(0, #name " (" #number "): " meaning, "explain", #name);                    \
    json_t *document = SLIP_JSON(0, "explain", #name);                              \
    SLIP_CHECK_STR(json_string_value(json_object_get(document, "code")), #name);    \
    SLIP_CHECK_EQ(json_integer_value(json_object_get(document, "number")), number); \
    SLIP_CHECK(json_string_length(json_object_get(document, "explanation")) > 0);   \
    SLIP_CHECK(json_string_length(json_object_get(document, "state")) > 0);         \
    SLIP_CHECK(json_string_length(json_object_get(document, "remedy")) > 0);        \
    json_decref(document);                                                          \
  }
    SLIP_CODE_TABLE(EXPLAIN)
#undef EXPLAIN
}

SLIP_TEST(explain_takes_names_and_numbers_as_they_are_written) {
  SLIP(0, "BUSY (-18): ", "explain", "busy");
  SLIP(0, "BUSY (-18): ", "explain", "SLIP_CODE_BUSY");
  SLIP(0, "BUSY (-18): ", "explain", "18");
  SLIP(0, "More, with an example: docs/status-codes/BUSY.md", "explain", "BUSY");
  SLIP(0, "OK (0): success", "explain", "0");
  SLIP(0, "BUSY (-18): ", "explain", "-18");
  SLIP(0, "GRAPH_STALE_TENSOR (-1113): ", "explain", "--", "-1113");
  json_t *document = SLIP_JSON(0, "explain", "-1113");
  SLIP_CHECK_EQ(json_integer_value(json_object_get(document, "number")), -1113);
  json_decref(document);
  SLIP(0, "\"number\": -18", "explain", "--json", "-18");
}

SLIP_TEST(explain_breaks_lines) {
  const char *text = SLIP(0, NULL, "explain", "DEVICE");
  size_t longest = 0;
  for (const char *line = text; *line;) {
    size_t length = strcspn(line, "\n");
    if (length > longest) longest = length;
    line += length + (line[length] == '\n');
  }
  SLIP_CHECK(longest > 80 && longest <= 100);
}

SLIP_TEST(explain_refuses_what_is_no_code) {
  SLIP(1, "NOT_FOUND: there is no status code \"SUCCESS\"", "explain", "SUCCESS");
  SLIP(1, "there is no status code \"19\"", "explain", "19");
  SLIP(1, "there is no status code \"19\"", "explain", "-19");
  SLIP(2, "there is no option '-x'", "explain", "-x");
  SLIP(1, "there is no status code \"\"", "explain", "");
  SLIP(2, NULL, "explain");
  SLIP(2, NULL, "explain", "BUSY", "OK");
}
