// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "slipstream/tensor.h"

const char *slip_platform_name(uint16_t platform) {
  switch (platform) {
#define SLIP__PLATFORM_NAME(name, text, number) \
  case (number):                                \
    return text;
    SLIP_PLATFORM_TABLE(SLIP__PLATFORM_NAME)
#undef SLIP__PLATFORM_NAME
    default:
      return "";
  }
}

uint16_t slip_platform_from_name(const char *name) {
  if (!name) return SLIP_PLATFORM_NONE;
#define SLIP__PLATFORM_MATCH(platform, text, number) \
  if (strcmp(name, text) == 0) return (number);
  SLIP_PLATFORM_TABLE(SLIP__PLATFORM_MATCH)
#undef SLIP__PLATFORM_MATCH
  return SLIP_PLATFORM_NONE;
}
