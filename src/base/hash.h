// SPDX-License-Identifier: Apache-2.0
// Hashes of bytes: XXH3 from xxhash, seed 0. Stable across machines and versions, so the values may be stored. Not for secrets.
#ifndef SLIPSTREAM_SRC_BASE_HASH_H_
#define SLIPSTREAM_SRC_BASE_HASH_H_

#include "slipstream/base.h"

typedef struct slip__hash128_t {
  uint64_t low;
  uint64_t high;
} slip__hash128_t;

uint64_t slip__hash64(slip_const_bytes_t bytes);
slip__hash128_t slip__hash128(slip_const_bytes_t bytes);
// The same as slip__hash128 of the |count| parts put together.
slip__hash128_t slip__hash128_parts(const slip_const_bytes_t *parts, size_t count);
static inline bool slip__hash128_equal(slip__hash128_t a, slip__hash128_t b) {
  return a.low == b.low && a.high == b.high;
}
// 32 hexadecimal digits, high half first (the canonical form of xxhsum -H2), and a terminator.
void slip__hash128_format(slip__hash128_t hash, char out_text[33]);

#endif  // SLIPSTREAM_SRC_BASE_HASH_H_
