// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share.
#ifndef SLIP_FUZZ_H_
#define SLIP_FUZZ_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slipstream/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Must hold for every input.
#define SLIP_FUZZ_CHECK(condition)                                             \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      abort();                                                                 \
    }                                                                          \
  } while (0)

// Must succeed for every input that came so far.
#define SLIP_FUZZ_OK(expression)                                                           \
  do {                                                                                     \
    slip_status_t slip_status_ = (expression);                                             \
    if (!slip_status_is_ok(slip_status_)) {                                                \
      char slip_text_[1024];                                                               \
      slip_status_format(slip_status_, slip_text_, sizeof(slip_text_));                    \
      fprintf(stderr, "%s:%d: %s gave %s\n", __FILE__, __LINE__, #expression, slip_text_); \
      abort();                                                                             \
    }                                                                                      \
  } while (0)

#endif  // SLIP_FUZZ_H_
