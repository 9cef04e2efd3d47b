// SPDX-License-Identifier: Apache-2.0
#include "artifact/file_list.h"

#include <string.h>

#include "artifact/artifact_json.h"
#include "base/string_builder.h"

bool slip__file_path_valid(const char *path) {
  size_t length = strnlen(path, SLIP__FILE_PATH_MAX + 1);
  if (length == 0 || length > SLIP__FILE_PATH_MAX) return false;
  for (const char *at = path;;) {
    size_t part = strcspn(at, "/");
    if (part == 0 || part > 255 || (part == 1 && at[0] == '.') || (part == 2 && at[0] == '.' && at[1] == '.')) return false;
    for (size_t i = 0; i < part; ++i) {
      if ((unsigned char)at[i] < 0x20 || at[i] == 0x7f || at[i] == '\\' || at[i] == '"') return false;
    }
    if (at[part] == '\0') return true;
    at += part + 1;
  }
}

static bool slip__file_parse_hash(const char *text, slip__hash128_t *out) {
  uint64_t halves[2] = {0, 0};
  if (strlen(text) != 32) return false;
  for (size_t i = 0; i < 32; ++i) {
    char c = text[i];
    uint64_t digit;
    if (c >= '0' && c <= '9') {
      digit = (uint64_t)(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = (uint64_t)(c - 'a' + 10);
    } else {
      return false;
    }
    halves[i / 16] = halves[i / 16] << 4 | digit;
  }
  *out = (slip__hash128_t){.low = halves[1], .high = halves[0]};
  return true;
}

// "0644": four octal digits.
static bool slip__file_parse_mode(const char *text, uint32_t *out) {
  *out = 0;
  if (strlen(text) != 4 || text[0] != '0') return false;
  for (size_t i = 1; i < 4; ++i) {
    if (text[i] < '0' || text[i] > '7') return false;
    *out = *out << 3 | (uint32_t)(text[i] - '0');
  }
  return true;
}

static slip_status_t slip__file_list_corrupt(size_t index, const char *field, const char *expected) {
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "manifest.json, files entry %zu, field '%s': expected %s; recompile", index, field, expected);
}

static slip_status_t slip__file_list_parse_record(const json_t *object, size_t index, slip__arena_t *arena, slip__file_record_t *out) {
  json_t *path = json_object_get(object, "path"), *size = json_object_get(object, "size");
  json_t *hash = json_object_get(object, "hash"), *mode = json_object_get(object, "mode");
  char *copy = NULL;
  if (!json_is_object(object) || json_object_size(object) != 4) {
    return slip__file_list_corrupt(index, "(all)", "an object of path, size, hash and mode");
  }
  if (!json_is_string(path) || !slip__file_path_valid(json_string_value(path)) ||
      strcmp(json_string_value(path), SLIP__FILE_LIST_NAME) == 0) {
    return slip__file_list_corrupt(index, "path", "a plain relative path without '..'");
  }
  if (!json_is_integer(size) || json_integer_value(size) < 0) return slip__file_list_corrupt(index, "size", "an integer, not negative");
  if (!json_is_string(hash) || !slip__file_parse_hash(json_string_value(hash), &out->hash)) {
    return slip__file_list_corrupt(index, "hash", "32 hexadecimal digits");
  }
  if (!json_is_string(mode) || !slip__file_parse_mode(json_string_value(mode), &out->mode)) {
    return slip__file_list_corrupt(index, "mode", "four octal digits such as \"0644\"");
  }
  SLIP_RETURN_IF_ERROR(slip__arena_strndup(arena, json_string_value(path), json_string_length(path), &copy));
  out->path = copy;
  out->size = (uint64_t)json_integer_value(size);
  return slip_ok_status();
}

static slip_status_t slip__file_list_read(const json_t *root, slip__file_list_t *list) {
  json_t *schema = json_object_get(root, "schema"), *files = json_object_get(root, "files");
  void *records = NULL;
  if (!json_is_object(root) || !json_is_integer(schema)) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "manifest.json, field 'schema': expected an integer, came %s; recompile",
                       slip__json_type_name(schema));
  }
  if (json_integer_value(schema) != SLIP__FILE_LIST_SCHEMA) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "manifest.json, field 'schema': %lld is unknown, this library reads %d; recompile",
                       (long long)json_integer_value(schema), SLIP__FILE_LIST_SCHEMA);
  }
  if (!json_is_array(files) || json_object_size(root) != 2 || json_array_size(files) > SLIP__FILE_LIST_MAX_FILES) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "manifest.json, field 'files': expected an array of at most %d, and no other field; recompile",
                       SLIP__FILE_LIST_MAX_FILES);
  }
  size_t count = json_array_size(files);
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&list->arena, count, sizeof(slip__file_record_t), &records));
  list->records = records;
  for (size_t i = 0; i < count; ++i) {
    SLIP_RETURN_IF_ERROR(slip__file_list_parse_record(json_array_get(files, i), i, &list->arena, &list->records[i]));
    if (i > 0 && strcmp(list->records[i - 1].path, list->records[i].path) >= 0) {
      return slip__file_list_corrupt(i, "path", "paths in ascending order, each once");
    }
  }
  list->count = count;
  return slip_ok_status();
}

slip_status_t slip__file_list_parse(slip_const_bytes_t text, slip_allocator_t allocator, slip__file_list_t *out) {
  json_t *root = NULL;
  memset(out, 0, sizeof(*out));
  SLIP_RETURN_IF_ERROR(slip__artifact_json_load(text, SLIP__FILE_LIST_NAME, &root));
  slip__arena_initialize(&out->arena, allocator, 0);
  slip_status_t status = slip__file_list_read(root, out);
  json_decref(root);
  if (!slip_status_is_ok(status)) slip__file_list_deinitialize(out);
  return status;
}

void slip__file_list_deinitialize(slip__file_list_t *list) {
  slip__arena_deinitialize(&list->arena);
  list->records = NULL;
  list->count = 0;
}

const slip__file_record_t *slip__file_list_find(const slip__file_list_t *list, const char *path) {
  size_t low = 0, high = list->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(list->records[middle].path, path);
    if (order == 0) return &list->records[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return NULL;
}

slip_status_t slip__file_record_check(const slip__file_record_t *record, slip_const_bytes_t bytes) {
  if (bytes.size != record->size) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "\"%s\" has %zu bytes, manifest.json says %llu; the file is damaged, recompile", record->path,
                       bytes.size, (unsigned long long)record->size);
  }
  slip__hash128_t hash = slip__hash128(bytes);
  if (slip__hash128_equal(hash, record->hash)) return slip_ok_status();
  char actual[33], expected[33];
  slip__hash128_format(hash, actual);
  slip__hash128_format(record->hash, expected);
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "\"%s\" has hash %s, manifest.json says %s; the file is damaged, recompile", record->path, actual,
                     expected);
}

slip_status_t slip__file_list_write(const slip__file_record_t *records, size_t count, slip_allocator_t allocator, slip_bytes_t *out) {
  slip__string_builder_t builder;
  slip__string_builder_initialize(&builder, allocator);
  slip__string_builder_printf(&builder, "{\n  \"schema\": %d,\n  \"files\": [", SLIP__FILE_LIST_SCHEMA);
  for (size_t i = 0; i < count; ++i) {
    char hash[33];
    slip__hash128_format(records[i].hash, hash);
    // Valid paths need no escapes.
    slip__string_builder_printf(&builder, "%s\n    {\"path\": \"%s\", \"size\": %llu, \"hash\": \"%s\", \"mode\": \"0%03o\"}", i ? "," : "",
                                records[i].path, (unsigned long long)records[i].size, hash, records[i].mode & 0777u);
  }
  slip__string_builder_append_text(&builder, count ? "\n  ]\n}\n" : "]\n}\n");
  return slip__string_builder_take(&builder, out);
}
