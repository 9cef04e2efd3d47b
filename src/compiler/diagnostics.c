// SPDX-License-Identifier: Apache-2.0
#include "compiler/diagnostics.h"

#include <stdarg.h>
#include <string.h>

#include "base/allocator.h"
#include "compiler/arena_text.h"

// More findings than anyone reads; the rest are dropped so that a broken header does not fill memory.
#define SLIP__DIAGNOSTICS_LIMIT 500

struct slip_diagnostics_t {
  slip_allocator_t allocator;
  slip__arena_t arena;
  slip_diagnostic_t *items;
  size_t count;
  size_t capacity;
  bool short_of_memory;
};

slip_status_t slip__diagnostics_create(slip_allocator_t allocator, slip_diagnostics_t **out) {
  *out = NULL;
  slip_diagnostics_t *list = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, sizeof(*list), (void **)&list));
  list->allocator = allocator;
  slip__arena_initialize(&list->arena, allocator, 0);
  *out = list;
  return slip_ok_status();
}

void slip_diagnostics_free(slip_diagnostics_t *list) {
  if (!list) return;
  slip_allocator_t allocator = list->allocator;
  slip__free(allocator, list->items, list->capacity * sizeof(*list->items));
  slip__arena_deinitialize(&list->arena);
  slip__free(allocator, list, sizeof(*list));
}

size_t slip_diagnostics_count(const slip_diagnostics_t *list) {
  return list ? list->count : 0;
}

const slip_diagnostic_t *slip_diagnostics_at(const slip_diagnostics_t *list, size_t index) {
  return list && index < list->count ? &list->items[index] : NULL;
}

static bool slip__diagnostics_has(const slip_diagnostics_t *list, const slip_diagnostic_t *item) {
  for (size_t i = 0; i < list->count; ++i) {
    const slip_diagnostic_t *other = &list->items[i];
    if (other->line == item->line && other->column == item->column && other->severity == item->severity &&
        strcmp(other->file, item->file) == 0 && strcmp(other->message, item->message) == 0) {
      return true;
    }
  }
  return false;
}

static slip_status_t slip__diagnostics_push(slip_diagnostics_t *list, const slip_diagnostic_t *item) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? list->capacity * 2 : 8;
    SLIP_RETURN_IF_ERROR(slip__realloc(list->allocator, list->capacity * sizeof(*item), capacity * sizeof(*item), (void **)&list->items));
    list->capacity = capacity;
  }
  list->items[list->count++] = *item;
  return slip_ok_status();
}

static slip_status_t slip__diagnostics_copy(slip__arena_t *arena, const char *text, const char **out) {
  return slip__arena_copy(arena, text ? text : "", text ? strlen(text) : 0, out);
}

void slip__diagnostics_add(slip_diagnostics_t *list, const slip__finding_t *finding, const char *format, ...) {
  if (list->count >= SLIP__DIAGNOSTICS_LIMIT) return;
  slip_diagnostic_t item = {.severity = (uint32_t)finding->severity, .line = finding->line, .column = finding->column};
  va_list arguments;
  va_start(arguments, format);
  slip_status_t status = slip__arena_vformat(&list->arena, &item.message, format, arguments);
  va_end(arguments);
  if (slip_status_is_ok(status)) status = slip__diagnostics_copy(&list->arena, finding->file, &item.file);
  if (slip_status_is_ok(status)) status = slip__diagnostics_copy(&list->arena, finding->code, &item.code);
  if (slip_status_is_ok(status)) status = slip__diagnostics_copy(&list->arena, finding->hint, &item.hint);
  if (slip_status_is_ok(status) && !slip__diagnostics_has(list, &item)) status = slip__diagnostics_push(list, &item);
  if (!slip_status_is_ok(status)) list->short_of_memory = true;
  slip_status_free(status);
}

size_t slip__diagnostics_error_count(const slip_diagnostics_t *list) {
  size_t count = 0;
  for (size_t i = 0; i < list->count; ++i) count += list->items[i].severity == SLIP_SEVERITY_ERROR;
  return count;
}

slip_status_t slip__diagnostics_status(const slip_diagnostics_t *list, const char *subject) {
  if (list->short_of_memory)
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "memory ran short while findings about %s were collected", subject);
  size_t errors = slip__diagnostics_error_count(list);
  if (errors == 0) return slip_ok_status();
  const slip_diagnostic_t *first = NULL;
  for (size_t i = 0; !first; ++i) {
    if (list->items[i].severity == SLIP_SEVERITY_ERROR) first = &list->items[i];
  }
  if (errors == 1) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: %s", subject, first->message);
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: %s (and %zu more errors)", subject, first->message, errors - 1);
}
