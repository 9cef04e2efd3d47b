// SPDX-License-Identifier: Apache-2.0
#include "base/versioned.h"

#include <string.h>

#include "slip_test.h"

typedef struct versioned_known_t {
  uint32_t struct_size;
  uint32_t first;
  uint64_t second;
} versioned_known_t;

typedef struct versioned_newer_t {
  versioned_known_t known;
  uint64_t newer;
} versioned_newer_t;

static slip_status_t versioned_take(const void *given, versioned_known_t *out) {
  return slip__versioned_take("some_options_t", "SOME_OPTIONS_INIT", given, 8, out, sizeof(*out));
}

SLIP_TEST(versioned_take_of_every_size) {
  versioned_known_t given = {sizeof(given), 3, 5}, out;
  versioned_newer_t newer = {{sizeof(newer), 3, 5}, 0};
  memset(&out, 7, sizeof(out));
  SLIP_CHECK_OK(versioned_take(NULL, &out));
  SLIP_CHECK_EQ(out.struct_size, sizeof(out));
  SLIP_CHECK_EQ(out.first + out.second, 0);
  SLIP_CHECK_OK(versioned_take(&given, &out));
  SLIP_CHECK_EQ(out.second, 5);
  given.struct_size = 8;  // an older caller's: what it lacks is zero, whatever lies behind it
  SLIP_CHECK_OK(versioned_take(&given, &out));
  SLIP_CHECK_EQ(out.struct_size, sizeof(out));
  SLIP_CHECK_EQ(out.first, 3);
  SLIP_CHECK_EQ(out.second, 0);
  SLIP_CHECK_OK(versioned_take(&newer, &out));
  SLIP_CHECK_EQ(out.struct_size, sizeof(out));
  SLIP_CHECK_EQ(out.second, 5);
}

SLIP_TEST(versioned_take_refuses) {
  versioned_known_t given = {7, 3, 5}, out;
  versioned_newer_t newer = {{sizeof(newer), 3, 5}, 1};
  SLIP_CHECK_ERROR(versioned_take(&given, &out), SLIP_CODE_INVALID_ARGUMENT,
                   "some_options_t.struct_size is 7, expected at least 8; start from SOME_OPTIONS_INIT");
  SLIP_CHECK_ERROR(versioned_take(&newer, &out), SLIP_CODE_INVALID_ARGUMENT, "struct_size is 24 and byte 16 is set");
  SLIP_CHECK_ERROR(slip__versioned_check_tail("some_record_t", "fields", &newer, sizeof(out)), SLIP_CODE_INVALID_ARGUMENT,
                   "knows 16 bytes; upgrade it or leave the newer fields zero");
}

SLIP_TEST(versioned_give_to_every_size) {
  const versioned_known_t known = {0, 3, 5};
  versioned_newer_t out;
  memset(&out, 7, sizeof(out));
  out.known.struct_size = sizeof(out);
  slip__versioned_give(&known, sizeof(known), &out);
  SLIP_CHECK_EQ(out.known.struct_size, sizeof(out));
  SLIP_CHECK_EQ(out.known.second, 5);
  SLIP_CHECK_EQ(out.newer, 0);
  out.known = (versioned_known_t){8, 1, 9};
  slip__versioned_give(&known, sizeof(known), &out);
  SLIP_CHECK_EQ(out.known.struct_size, 8);
  SLIP_CHECK_EQ(out.known.first, 3);
  SLIP_CHECK_EQ(out.known.second, 9);  // not the caller's to lose
  out.known.struct_size = 4;
  slip__versioned_give(&known, sizeof(known), &out);
  SLIP_CHECK_EQ(out.known.struct_size, 4);
}
