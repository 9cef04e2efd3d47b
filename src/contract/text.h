// SPDX-License-Identifier: Apache-2.0
// A text that may not fit: writes what there is room for and counts what the whole needs, as snprintf does.
#ifndef SLIPSTREAM_SRC_CONTRACT_TEXT_H_
#define SLIPSTREAM_SRC_CONTRACT_TEXT_H_

#include <stdarg.h>
#include <stdio.h>

#include "slipstream/base.h"

typedef struct slip__text_t {
  char *buffer;
  size_t capacity;
  size_t length;
} slip__text_t;

static inline slip__text_t slip__text(char *buffer, size_t capacity) {
  slip__text_t text = {buffer, capacity, 0};
  if (capacity > 0) buffer[0] = '\0';
  return text;
}

static inline void slip__text_add(slip__text_t *text, const char *format, ...) SLIP_PRINTF(2, 3);
static inline void slip__text_add(slip__text_t *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  bool room = text->length < text->capacity;
  int written = vsnprintf(room ? text->buffer + text->length : NULL, room ? text->capacity - text->length : 0, format, arguments);
  va_end(arguments);
  if (written > 0) text->length += (size_t)written;
}

// "[16,2048]"
static inline void slip__text_add_list(slip__text_t *text, const int64_t *values, uint32_t count) {
  slip__text_add(text, "[");
  for (uint32_t i = 0; i < count; ++i) slip__text_add(text, "%s%lld", i ? "," : "", (long long)values[i]);
  slip__text_add(text, "]");
}

#endif  // SLIPSTREAM_SRC_CONTRACT_TEXT_H_
