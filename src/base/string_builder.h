// SPDX-License-Identifier: Apache-2.0
// Text that grows. Thread-compatible.
//
// A failed append is remembered: later appends do nothing, and take reports it once. So a printer needs one check, at its end.
#ifndef SLIPSTREAM_SRC_BASE_STRING_BUILDER_H_
#define SLIPSTREAM_SRC_BASE_STRING_BUILDER_H_

#include <stdarg.h>

#include "slipstream/base.h"
#include "slipstream/status.h"

typedef struct slip__string_builder_t {
  slip_allocator_t allocator;
  char *data;       // terminated when not NULL
  size_t size;      // without the terminator
  size_t capacity;  // bytes allocated
  bool failed;
} slip__string_builder_t;

// Takes no memory yet.
void slip__string_builder_initialize(slip__string_builder_t *builder, slip_allocator_t allocator);
// Frees the text; the builder is then as after initialize.
void slip__string_builder_deinitialize(slip__string_builder_t *builder);
void slip__string_builder_append(slip__string_builder_t *builder, const char *text, size_t length);
void slip__string_builder_append_text(slip__string_builder_t *builder, const char *text);
void slip__string_builder_printf(slip__string_builder_t *builder, const char *format, ...) SLIP_PRINTF(2, 3);
void slip__string_builder_vprintf(slip__string_builder_t *builder, const char *format, va_list arguments) SLIP_PRINTF(2, 0);
// Hands the text over, as |size| + 1 bytes of the builder's allocator; the builder is then as after initialize. OUT_OF_MEMORY (|*out|
// zeroed) if any append failed.
slip_status_t slip__string_builder_take(slip__string_builder_t *builder, slip_bytes_t *out) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_BASE_STRING_BUILDER_H_
