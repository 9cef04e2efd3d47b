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
// A target may define it: makes a hash or a size right again after a mutation, so that the parser gets past it.
void slip_fuzz_mend(uint8_t *data, size_t size, uint64_t seed) __attribute__((weak));

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

// The code of |status|, which is freed. A refusal must have words.
static inline slip_code_t slip_fuzz_code(slip_status_t status) {
  char text[2048];
  slip_code_t code = slip_status_code(status);
  size_t length = slip_status_format(status, text, sizeof(text));
  SLIP_FUZZ_CHECK(code == SLIP_CODE_OK || length > 10);
  slip_status_free(status);
  return code;
}

#endif  // SLIP_FUZZ_H_
