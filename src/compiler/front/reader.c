// SPDX-License-Identifier: Apache-2.0
#include "compiler/front/reader.h"

#include <stdio.h>
#include <string.h>

void slip__reader_error(slip__reader_t *r, const slip__path_t *path, const char *code, const char *hint, const char *format, ...) {
  slip__json_position_t position = slip__json_locate((const char *)r->text.data, r->text.size, path);
  slip__finding_t finding = {SLIP_SEVERITY_ERROR, r->file, position.line, position.column, code, hint};
  char name[256], message[1024];
  slip__json_path_format(path, name, sizeof(name));
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof(message), format, list);
  va_end(list);
  slip__diagnostics_add(r->diagnostics, &finding, "%s%s%s", name, name[0] ? ": " : "", message);
}

bool slip__reader_type(slip__reader_t *r, const slip__path_t *path, const json_t *value, json_type type, const char *expected) {
  if (json_typeof(value) == type) return true;
  slip__reader_error(r, path, "manifest-type", NULL, "expected %s, found %s", expected, slip__json_type_name(value));
  return false;
}

void slip__reader_keys(slip__reader_t *r, const slip__path_t *path, json_t *object, const char *const *allowed) {
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    bool known = false;
    for (size_t i = 0; allowed[i]; ++i) known = known || strcmp(allowed[i], key) == 0;
    slip__path_t at = slip__member(path, key);
    if (!known) slip__reader_error(r, &at, "manifest-unknown-key", "the keys are listed in docs/manifest.md", "unknown key");
  }
}

void slip__reader_keep(slip__reader_t *r, slip_status_t status) {
  r->status = slip_status_join(r->status, status);
}

const char *slip__reader_string(slip__reader_t *r, const slip__path_t *path, const json_t *object, const char *key, bool required) {
  json_t *value = json_object_get(object, key);
  slip__path_t at = slip__member(path, key);
  if (!value && required) slip__reader_error(r, path, "manifest-missing-key", NULL, "the key \"%s\" is missing", key);
  if (!value || !slip__reader_ok(r) || !slip__reader_type(r, &at, value, JSON_STRING, "a string")) return NULL;
  const char *copy = NULL;
  slip__reader_keep(r, slip__arena_copy(r->arena, json_string_value(value), json_string_length(value), &copy));
  return copy;
}

uint32_t slip__reader_integer(slip__reader_t *r, const slip__path_t *path, const json_t *object, const char *key, int64_t maximum,
                              uint32_t absent) {
  json_t *value = json_object_get(object, key);
  slip__path_t at = slip__member(path, key);
  if (!value || !slip__reader_type(r, &at, value, JSON_INTEGER, "an integer")) return absent;
  json_int_t number = json_integer_value(value);
  if (number >= 0 && number <= maximum) return (uint32_t)number;
  slip__reader_error(r, &at, "manifest-range", NULL, "%lld is outside 0..%lld", (long long)number, (long long)maximum);
  return absent;
}

bool slip__reader_is_identifier(const char *text) {
  const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  size_t length = strlen(text);
  if (length == 0 || length > 127 || !strchr(letters, text[0])) return false;
  for (size_t i = 1; i < length; ++i) {
    if (!strchr(letters, text[i]) && (text[i] < '0' || text[i] > '9')) return false;
  }
  return true;
}

const char *slip__reader_identifier(slip__reader_t *r, const slip__path_t *path, const json_t *object, const char *key, bool required) {
  const char *text = slip__reader_string(r, path, object, key, required);
  if (!text || slip__reader_is_identifier(text)) return text;
  slip__path_t at = slip__member(path, key);
  slip__reader_error(r, &at, "manifest-identifier", "use letters, digits and _, at most 127 of them", "\"%s\" is not a C identifier", text);
  return NULL;
}

json_t *slip__reader_array(slip__reader_t *r, const slip__path_t *path, const json_t *object, const char *key, bool required,
                           size_t minimum, size_t maximum, size_t item_size, void **out_items) {
  json_t *value = json_object_get(object, key);
  slip__path_t at = slip__member(path, key);
  if (!value && required) slip__reader_error(r, path, "manifest-missing-key", NULL, "the key \"%s\" is missing", key);
  if (!value || !slip__reader_ok(r) || !slip__reader_type(r, &at, value, JSON_ARRAY, "an array")) return NULL;
  size_t count = json_array_size(value);
  if (count < minimum || count > maximum) {
    slip__reader_error(r, &at, "manifest-range", NULL, "%zu items, expected %zu to %zu", count, minimum, maximum);
    return NULL;
  }
  slip__reader_keep(r, slip__arena_alloc(r->arena, count * item_size, out_items));
  return slip__reader_ok(r) ? value : NULL;
}

void slip__reader_strings(slip__reader_t *r, const slip__path_t *path, const json_t *object, const char *key, bool required, size_t minimum,
                          size_t maximum, const char ***out_items, size_t *out_count) {
  void *items = NULL;
  json_t *array = slip__reader_array(r, path, object, key, required, minimum, maximum, sizeof(char *), &items);
  slip__path_t list = slip__member(path, key);
  *out_items = items;
  for (size_t i = 0; array && slip__reader_ok(r) && i < json_array_size(array); ++i) {
    slip__path_t at = slip__item(&list, i);
    const json_t *value = json_array_get(array, i);
    if (!slip__reader_type(r, &at, value, JSON_STRING, "a string")) continue;
    const char *copy = NULL;
    slip__reader_keep(r, slip__arena_copy(r->arena, json_string_value(value), json_string_length(value), &copy));
    if (!copy) return;
    for (size_t j = 0; j < *out_count; ++j) {
      if (strcmp((*out_items)[j], copy) == 0) slip__reader_error(r, &at, "manifest-duplicate", NULL, "\"%s\" stands here twice", copy);
    }
    (*out_items)[(*out_count)++] = copy;
  }
}
