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
