// SPDX-License-Identifier: Apache-2.0
#include "compiler/arena_text.h"

#include <stdio.h>

slip_status_t slip__arena_copy(slip__arena_t *arena, const char *text, size_t length, const char **out) {
  char *copy = NULL;
  slip_status_t status = slip__arena_strndup(arena, text, length, &copy);
  *out = copy;
  return status;
}

slip_status_t slip__arena_vformat(slip__arena_t *arena, const char **out, const char *format, va_list list) {
  *out = NULL;
  va_list again;
  va_copy(again, list);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (length < 0) return SLIP_STATUS(SLIP_CODE_INTERNAL, "the format \"%s\" cannot be printed", format);
  void *text = NULL;
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_aligned(arena, (size_t)length + 1, 1, &text));
  vsnprintf(text, (size_t)length + 1, format, list);
  *out = text;
  return slip_ok_status();
}

slip_status_t slip__arena_format(slip__arena_t *arena, const char **out, const char *format, ...) {
  va_list list;
  va_start(list, format);
  slip_status_t status = slip__arena_vformat(arena, out, format, list);
  va_end(list);
  return status;
}
