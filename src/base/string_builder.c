// SPDX-License-Identifier: Apache-2.0
#include "base/string_builder.h"

#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"

void slip__string_builder_initialize(slip__string_builder_t *builder, slip_allocator_t allocator) {
  *builder = (slip__string_builder_t){.allocator = allocator};
}

void slip__string_builder_deinitialize(slip__string_builder_t *builder) {
  slip__free(builder->allocator, builder->data, builder->capacity);
  slip__string_builder_initialize(builder, builder->allocator);
}

// Makes room for |length| more bytes and the terminator.
static bool slip__string_builder_reserve(slip__string_builder_t *builder, size_t length) {
  size_t need = 0, capacity = builder->capacity ? builder->capacity : 64;
  if (builder->failed) return false;
  if (!slip__checked_add(builder->size, length, &need) || !slip__checked_add(need, 1u, &need) || need > PTRDIFF_MAX) {
    builder->failed = true;
    return false;
  }
  if (need <= builder->capacity) return true;
  while (capacity < need) capacity *= 2;
  void *data = builder->data;
  slip_status_t status = slip__realloc(builder->allocator, builder->capacity, capacity, &data);
  if (!slip_status_is_ok(status)) {
    slip_status_free(status);
    builder->failed = true;
    return false;
  }
  builder->data = data;
  builder->capacity = capacity;
  return true;
}

void slip__string_builder_append(slip__string_builder_t *builder, const char *text, size_t length) {
  if (length == 0 || !slip__string_builder_reserve(builder, length)) return;
  memcpy(builder->data + builder->size, text, length);
  builder->size += length;
  builder->data[builder->size] = '\0';
}

void slip__string_builder_append_text(slip__string_builder_t *builder, const char *text) {
  slip__string_builder_append(builder, text, strlen(text));
}

void slip__string_builder_vprintf(slip__string_builder_t *builder, const char *format, va_list arguments) {
  va_list measured;
  va_copy(measured, arguments);
  int length = vsnprintf(NULL, 0, format, measured);
  va_end(measured);
  if (length < 0) builder->failed = true;
  if (length <= 0 || !slip__string_builder_reserve(builder, (size_t)length)) return;
  (void)vsnprintf(builder->data + builder->size, (size_t)length + 1, format, arguments);
  builder->size += (size_t)length;
}

void slip__string_builder_printf(slip__string_builder_t *builder, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  slip__string_builder_vprintf(builder, format, arguments);
  va_end(arguments);
}

slip_status_t slip__string_builder_take(slip__string_builder_t *builder, slip_bytes_t *out) {
  *out = (slip_bytes_t){NULL, 0};
  void *data = builder->data;
  slip_status_t status = builder->failed
                             ? SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for a text of more than %zu bytes", builder->size)
                             : slip__realloc(builder->allocator, builder->capacity, builder->size + 1, &data);
  if (slip_status_is_ok(status)) {
    *out = (slip_bytes_t){data, builder->size};
    slip__string_builder_initialize(builder, builder->allocator);
  } else {
    slip__string_builder_deinitialize(builder);
  }
  return status;
}
