// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "slip_test.h"
#include "slip_test_malloc.h"
#include "slipstream/status.h"

SLIP_TEST(status_ok_is_null) {
  SLIP_CHECK(slip_status_is_ok(slip_ok_status()));
  SLIP_CHECK_EQ(slip_status_code(slip_ok_status()), SLIP_CODE_OK);
  SLIP_CHECK_EQ(slip_status_format(slip_ok_status(), NULL, 0), 2);
  slip_status_free(slip_ok_status());
}

SLIP_TEST(status_carries_code_sentence_and_annotations) {
  slip_status_t status = SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "parameter %d is wrong", 3);
  status = slip_status_annotate(status, "preparing for %s", "cpu:0");
  SLIP_CHECK_EQ(slip_status_code(status), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_STR(slip_status_message(status), "parameter 3 is wrong");
  char text[256];
  size_t length = slip_status_format(status, text, sizeof(text));
  SLIP_CHECK_EQ(length, strlen(text));
  SLIP_CHECK(strstr(text, "INVALID_ARGUMENT: parameter 3 is wrong; preparing for cpu:0 [status_test.c:") == text);
  char small[8];
  SLIP_CHECK_EQ(slip_status_format(status, small, sizeof(small)), length);
  SLIP_CHECK_STR(small, "INVALID");
  slip_status_free(status);
}

SLIP_TEST(status_join_keeps_the_first) {
  slip_status_t first = SLIP_STATUS(SLIP_CODE_IO, "first");
  slip_status_t joined = slip_status_join(slip_ok_status(), slip_status_join(first, SLIP_STATUS_PLATFORM(SLIP_CODE_DEVICE, 700, "second")));
  SLIP_CHECK_EQ(slip_status_code(joined), SLIP_CODE_IO);
  slip_status_t copy = slip_status_clone(joined);
  slip_status_free(joined);
  char text[256];
  slip_status_format(copy, text, sizeof(text));
  SLIP_CHECK(strstr(text, "then DEVICE: second (platform code 700)") != NULL);
  slip_status_free(copy);
}

static size_t slip_status_test_count(const char *text, const char *part) {
  size_t count = 0;
  for (; (text = strstr(text, part)) != NULL; ++text) ++count;
  return count;
}

SLIP_TEST(status_join_tells_a_cause_once) {
  char text[512];
  slip_status_t first = slip_status_annotate(SLIP_STATUS_PLATFORM(SLIP_CODE_DEVICE, 700, "the device is broken"), "launching");
  slip_status_t second = slip_status_annotate(SLIP_STATUS_PLATFORM(SLIP_CODE_DEVICE, 700, "the device is broken"), "freeing");
  second = slip_status_annotate(second, "launching");
  second = slip_status_join(second, SLIP_STATUS(SLIP_CODE_IO, "a file"));
  first = slip_status_join(first, second);
  slip_status_format(first, text, sizeof(text));
  SLIP_CHECK_EQ(slip_status_test_count(text, "the device is broken"), 1);
  SLIP_CHECK(strstr(text, "DEVICE: the device is broken (platform code 700); launching; freeing [") == text);
  SLIP_CHECK_EQ(slip_status_test_count(text, "then IO: a file"), 1);
  first = slip_status_join(first, SLIP_STATUS(SLIP_CODE_IO, "a file"));
  SLIP_CHECK_EQ(slip_status_format(first, NULL, 0), strlen(text));
  // Another code, platform code or sentence is news.
  first = slip_status_join(first, SLIP_STATUS_PLATFORM(SLIP_CODE_DEVICE, 701, "the device is broken"));
  first = slip_status_join(first, SLIP_STATUS_PLATFORM(SLIP_CODE_POISONED, 700, "the device is broken"));
  first = slip_status_join(first, SLIP_STATUS_PLATFORM(SLIP_CODE_DEVICE, 700, "the device is on fire"));
  slip_status_format(first, text, sizeof(text));
  SLIP_CHECK_EQ(slip_status_test_count(text, "; then "), 4);
  slip_status_free(first);
}

SLIP_TEST(status_without_text_is_its_code) {
  char text[128];
  slip_status_t status = slip_status_annotate(slip_status_from_code(SLIP_CODE_NOT_READY), "dropped: there is no room for it");
  SLIP_CHECK_EQ(slip_status_code(status), SLIP_CODE_NOT_READY);
  slip_status_format(status, text, sizeof(text));
  SLIP_CHECK_STR(text, "NOT_READY: not finished yet");
  SLIP_CHECK_EQ(slip_status_code(slip_status_from_code(SLIP_CODE_CAPACITY_IMAGE)), SLIP_CODE_CAPACITY_IMAGE);
  SLIP_CHECK(slip_status_is_ok(slip_status_from_code(SLIP_CODE_OK)));
  slip_status_t joined = slip_status_join(status, SLIP_STATUS(SLIP_CODE_IO, "lost"));
  SLIP_CHECK_EQ(slip_status_code(joined), SLIP_CODE_NOT_READY);
  slip_status_free(joined);
}

SLIP_TEST(status_keeps_its_code_when_memory_is_short) {
  if (!slip_test_malloc_works()) slip_test_skip("requests are made to fail in builds without sanitizers");
  for (uint64_t nth = 1; nth <= 8; ++nth) {
    slip_test_malloc_fail(nth, true);
    slip_status_t status = SLIP_STATUS(SLIP_CODE_CORRUPT, "a sentence");
    status = slip_status_annotate(status, "an annotation");
    status = slip_status_join(status, SLIP_STATUS(SLIP_CODE_IO, "a second one"));
    slip_status_t copy = slip_status_clone(status);
    slip_test_malloc_fail(0, false);
    char text[256];
    SLIP_CHECK_EQ(slip_status_code(status), SLIP_CODE_CORRUPT);
    SLIP_CHECK_EQ(slip_status_code(copy), SLIP_CODE_CORRUPT);
    slip_status_format(status, text, sizeof(text));
    SLIP_CHECK(strncmp(text, "CORRUPT: ", 9) == 0);
    SLIP_CHECK_EQ(strstr(text, "a sentence") != NULL, nth > 2);  // two requests make a status
    slip_status_free(status);
    slip_status_free(copy);
  }
}

// Follow-ups are a list, not a recursion: cleanup of many things may fail one after the other.
SLIP_TEST(status_long_chains_need_no_stack) {
  enum { LINKS = 300000 };
  slip_status_t chain = NULL;
  // Each joined in front: behind would walk the whole chain every time.
  for (uint32_t i = 0; i < LINKS; ++i) chain = slip_status_join(SLIP_STATUS(SLIP_CODE_IO, "%u", i), chain);
  slip_status_t copy = slip_status_clone(chain);
  SLIP_CHECK_EQ(slip_status_format(copy, NULL, 0), slip_status_format(chain, NULL, 0));
  SLIP_CHECK(slip_status_format(copy, NULL, 0) > LINKS);
  slip_status_free(copy);
  slip_status_free(chain);
}
