// SPDX-License-Identifier: Apache-2.0
#include "base/versioned.h"

#include <inttypes.h>
#include <string.h>

static uint32_t slip__versioned_size(const void *structure) {
  uint32_t size;
  memcpy(&size, structure, sizeof(size));
  return size;
}

slip_status_t slip__versioned_check_tail(const char *type, const char *parts, const void *given, size_t known_bytes) {
  const unsigned char *bytes = given;
  const uint32_t size = slip__versioned_size(given);
  for (size_t i = known_bytes; i < size; ++i) {
    if (bytes[i] == 0) continue;
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "%s.struct_size is %" PRIu32
                       " and byte %zu is set, but this library (%s) knows %zu bytes; upgrade it or leave the newer %s zero",
                       type, size, i, SLIP_VERSION_STRING, known_bytes, parts);
  }
  return slip_ok_status();
}

slip_status_t slip__versioned_take(const char *type, const char *initializer, const void *given, size_t first_bytes, void *out,
                                   size_t known_bytes) {
  const uint32_t known = (uint32_t)known_bytes;
  memset(out, 0, known_bytes);
  if (given) {
    const uint32_t size = slip__versioned_size(given);
    if (size < first_bytes) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s.struct_size is %" PRIu32 ", expected at least %zu; start from %s", type, size,
                         first_bytes, initializer);
    }
    SLIP_RETURN_IF_ERROR(slip__versioned_check_tail(type, "options", given, known_bytes));
    memcpy(out, given, size < known_bytes ? size : known_bytes);
  }
  memcpy(out, &known, sizeof(known));
  return slip_ok_status();
}

void slip__versioned_give(const void *known, size_t known_bytes, void *out) {
  const uint32_t size = slip__versioned_size(out);
  memcpy(out, known, size < known_bytes ? size : known_bytes);
  if (size > known_bytes) memset((char *)out + known_bytes, 0, size - known_bytes);
  memcpy(out, &size, sizeof(size));
}
