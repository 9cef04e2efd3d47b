// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include "slip_test.h"

// Stored hashes must never change: values of the shared library of xxhash 0.8.1 for the same bytes.
SLIP_TEST(hash_values_are_those_of_xxh3) {
  char text[33];
  slip_const_bytes_t empty = {NULL, 0}, name = {(const uint8_t *)"slipstream", 10};
  SLIP_CHECK(slip__hash64(empty) == 0x2d06800538d394c2u);
  slip__hash128_format(slip__hash128(empty), text);
  SLIP_CHECK_STR(text, "99aa06d3014798d86001c324468d497f");
  SLIP_CHECK(!slip__hash128_equal(slip__hash128(empty), slip__hash128(name)));
  SLIP_CHECK(slip__hash128_equal(slip__hash128(name), slip__hash128(name)));
  slip__hash128_format(slip__hash128(name), text);
  SLIP_CHECK_STR(text, "63f9f3930839dcc0522c95da000aca3d");
}

SLIP_TEST(hash_of_parts_is_the_hash_of_the_whole) {
  uint8_t bytes[1000];
  for (size_t i = 0; i < sizeof(bytes); ++i) bytes[i] = (uint8_t)(i * 31);
  slip__hash128_t whole = slip__hash128((slip_const_bytes_t){bytes, sizeof(bytes)});
  for (size_t at = 0; at <= sizeof(bytes); at += 37) {
    slip_const_bytes_t parts[3] = {{bytes, at}, {NULL, 0}, {bytes + at, sizeof(bytes) - at}};
    SLIP_CHECK(slip__hash128_equal(slip__hash128_parts(parts, 3), whole));
  }
  SLIP_CHECK(slip__hash128_equal(slip__hash128_parts(NULL, 0), slip__hash128((slip_const_bytes_t){NULL, 0})));
}
