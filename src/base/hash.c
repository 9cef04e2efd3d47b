// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

// xxhash may not be given NULL in every version, also not with length 0.
static const void *slip__hash_data(slip_const_bytes_t bytes) {
  return bytes.data ? (const void *)bytes.data : "";
}

uint64_t slip__hash64(slip_const_bytes_t bytes) {
  return XXH3_64bits(slip__hash_data(bytes), bytes.size);
}

slip__hash128_t slip__hash128(slip_const_bytes_t bytes) {
  XXH128_hash_t hash = XXH3_128bits(slip__hash_data(bytes), bytes.size);
  return (slip__hash128_t){hash.low64, hash.high64};
}

slip__hash128_t slip__hash128_parts(const slip_const_bytes_t *parts, size_t count) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  (void)XXH3_128bits_reset(&state);
  for (size_t i = 0; i < count; ++i) (void)XXH3_128bits_update(&state, slip__hash_data(parts[i]), parts[i].size);
  XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return (slip__hash128_t){hash.low64, hash.high64};
}

void slip__hash128_format(slip__hash128_t hash, char out_text[33]) {
  (void)snprintf(out_text, 33, "%016llx%016llx", (unsigned long long)hash.high, (unsigned long long)hash.low);
}
