// SPDX-License-Identifier: Apache-2.0
// A status is NULL (OK), a bare code tagged by its lowest bit ((code << 1) | 1), or a pointer to the object below.
#include "slipstream/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLIP__STATUS_COMPARED 16

// Status texts come from malloc and not from a slip_allocator_t: a failure of the caller's allocator must still be reportable.
struct slip_status_s {
  slip_code_t code;
  uint32_t line;
  int64_t platform_code;
  const char *file;
  char *text;  // message, then each annotation, as consecutive terminated strings
  size_t text_size;
  slip_status_t follow_up;
};

static bool slip__status_is_bare(slip_status_t status) {
  return ((uintptr_t)status & 1u) != 0;
}

slip_code_t slip_status_code(slip_status_t status) {
  if (!status) return SLIP_CODE_OK;
  if (slip__status_is_bare(status)) return (slip_code_t)((intptr_t)status >> 1);
  return status->code;
}

int64_t slip_status_platform_code(slip_status_t status) {
  return !status || slip__status_is_bare(status) ? 0 : status->platform_code;
}

const char *slip_code_name(slip_code_t code) {
  switch (code) {
#define SLIP__CODE_NAME(name, number, meaning) \
  case (number):                               \
    return #name;
    SLIP_CODE_TABLE(SLIP__CODE_NAME)
#undef SLIP__CODE_NAME
    default:
      return "UNKNOWN";
  }
}

const char *slip_code_meaning(slip_code_t code) {
  switch (code) {
#define SLIP__CODE_MEANING(name, number, meaning) \
  case (number):                                  \
    return meaning;
    SLIP_CODE_TABLE(SLIP__CODE_MEANING)
#undef SLIP__CODE_MEANING
    default:
      return "";
  }
}

const char *slip_status_message(slip_status_t status) {
  if (!status) return "";
  return slip__status_is_bare(status) ? slip_code_meaning(slip_status_code(status)) : status->text;
}

// Appends one formatted, terminated string. On failure |status| is unchanged and false is returned.
static bool slip__status_append(slip_status_t status, const char *format, va_list arguments) SLIP_PRINTF(2, 0);
static bool slip__status_append(slip_status_t status, const char *format, va_list arguments) {
  va_list measured;
  va_copy(measured, arguments);
  int length = vsnprintf(NULL, 0, format, measured);
  va_end(measured);
  if (length < 0) return false;
  size_t need = (size_t)length + 1;
  char *text = realloc(status->text, status->text_size + need);
  if (!text) return false;
  (void)vsnprintf(text + status->text_size, need, format, arguments);
  status->text = text;
  status->text_size += need;
  return true;
}

slip_status_t slip_status_make(slip_code_t code, int64_t platform_code, const char *file, uint32_t line, const char *format, ...) {
  if (code == SLIP_CODE_OK) return NULL;
  slip_status_t status = calloc(1, sizeof(*status));
  if (!status) return slip_status_from_code(code);
  status->code = code;
  status->platform_code = platform_code;
  status->file = file;
  status->line = line;
  va_list arguments;
  va_start(arguments, format);
  bool appended = slip__status_append(status, format, arguments);
  va_end(arguments);
  if (appended) return status;
  free(status);
  return slip_status_from_code(code);
}

slip_status_t slip_status_annotate(slip_status_t status, const char *format, ...) {
  if (!status || slip__status_is_bare(status)) return status;
  va_list arguments;
  va_start(arguments, format);
  (void)slip__status_append(status, format, arguments);
  va_end(arguments);
  return status;
}

static bool slip__status_says(slip_status_t status, const char *annotation) {
  for (size_t at = 0; at < status->text_size; at += strlen(status->text + at) + 1) {
    if (strcmp(status->text + at, annotation) == 0) return true;
  }
  return false;
}

// The element of |chain| that tells the same cause as |status|; NULL if none does.
static slip_status_t slip__status_find(slip_status_t chain, slip_status_t status) {
  for (; chain && !slip__status_is_bare(chain); chain = chain->follow_up) {
    if (chain->code == status->code && chain->platform_code == status->platform_code && strcmp(chain->text, status->text) == 0)
      return chain;
  }
  return NULL;
}

static void slip__status_add(slip_status_t status, const char *format, ...) SLIP_PRINTF(2, 3);
static void slip__status_add(slip_status_t status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)slip__status_append(status, format, arguments);
  va_end(arguments);
}

// Gives what |same| knows besides the cause to |to|, and frees it alone.
static void slip__status_absorb(slip_status_t to, slip_status_t same) {
  for (size_t at = strlen(same->text) + 1; at < same->text_size; at += strlen(same->text + at) + 1) {
    if (!slip__status_says(to, same->text + at)) slip__status_add(to, "%s", same->text + at);
  }
  free(same->text);
  free(same);
}

// |second| without what |first| tells already: a broken device gives every call the same answer. A long chain is compared only in front,
// so that cleanup of many things does not become quadratic.
static slip_status_t slip__status_news(slip_status_t first, slip_status_t second) {
  slip_status_t *at = &second;
  for (uint32_t i = 0; i < SLIP__STATUS_COMPARED && *at && !slip__status_is_bare(*at); ++i) {
    slip_status_t same = slip__status_find(first, *at), looked_at = *at;
    if (!same) {
      at = &looked_at->follow_up;
      continue;
    }
    *at = looked_at->follow_up;
    slip__status_absorb(same, looked_at);
  }
  return second;
}

slip_status_t slip_status_join(slip_status_t first, slip_status_t second) {
  if (!first) return second;
  if (!second) return first;
  if (slip__status_is_bare(first)) {
    slip_status_free(second);
    return first;
  }
  second = slip__status_news(first, second);
  slip_status_t *tail = &first->follow_up;
  while (*tail) {
    if (slip__status_is_bare(*tail)) {
      slip_status_free(second);
      return first;
    }
    tail = &(*tail)->follow_up;
  }
  *tail = second;
  return first;
}

// One status without its follow-ups; the bare code when memory is short.
static slip_status_t slip__status_clone_one(slip_status_t status) {
  if (slip__status_is_bare(status)) return status;
  slip_status_t copy = calloc(1, sizeof(*copy));
  char *text = malloc(status->text_size);
  if (!copy || !text) {
    free(copy);
    free(text);
    return slip_status_from_code(status->code);
  }
  *copy = *status;
  memcpy(text, status->text, status->text_size);
  copy->text = text;
  copy->follow_up = NULL;
  return copy;
}

slip_status_t slip_status_clone(slip_status_t status) {
  slip_status_t first = NULL;
  slip_status_t *tail = &first;
  for (; status; status = status->follow_up) {
    *tail = slip__status_clone_one(status);
    // A bare code has no place for what follows.
    if (slip__status_is_bare(*tail)) break;
    tail = &(*tail)->follow_up;
  }
  return first;
}

void slip_status_free(slip_status_t status) {
  while (status && !slip__status_is_bare(status)) {
    slip_status_t next = status->follow_up;
    free(status->text);
    free(status);
    status = next;
  }
}

// Writes at |*length| (if there is room) and advances it by what the whole text needs.
static void slip__status_print(char *buffer, size_t capacity, size_t *length, const char *format, ...) SLIP_PRINTF(4, 5);
static void slip__status_print(char *buffer, size_t capacity, size_t *length, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  bool room = *length < capacity;
  int written = vsnprintf(room ? buffer + *length : NULL, room ? capacity - *length : 0, format, arguments);
  va_end(arguments);
  if (written > 0) *length += (size_t)written;
}

size_t slip_status_format(slip_status_t status, char *buffer, size_t capacity) {
  size_t length = 0;
  if (capacity > 0) buffer[0] = '\0';
  if (!status) {
    slip__status_print(buffer, capacity, &length, "OK");
    return length;
  }
  for (slip_status_t s = status; s;) {
    slip_code_t code = slip_status_code(s);
    slip__status_print(buffer, capacity, &length, "%s%s: %s", s == status ? "" : "; then ", slip_code_name(code), slip_status_message(s));
    if (slip__status_is_bare(s)) break;
    if (s->platform_code != 0) slip__status_print(buffer, capacity, &length, " (platform code %lld)", (long long)s->platform_code);
    for (size_t at = strlen(s->text) + 1; at < s->text_size; at += strlen(s->text + at) + 1) {
      slip__status_print(buffer, capacity, &length, "; %s", s->text + at);
    }
    const char *slash = strrchr(s->file, '/');
    slip__status_print(buffer, capacity, &length, " [%s:%u]", slash ? slash + 1 : s->file, s->line);
    s = s->follow_up;
  }
  return length;
}
