// SPDX-License-Identifier: Apache-2.0
#include "artifact/artifact_json.h"

#include "base/allocator.h"

slip_status_t slip__artifact_json_load(slip_const_bytes_t text, const char *file, json_t **out) {
  json_error_t error = {.line = 0};  // left untouched when memory is short at once
  *out = json_loadb(text.data ? (const char *)text.data : "", text.size, JSON_REJECT_DUPLICATES, &error);
  if (*out) return slip_ok_status();
  switch (json_error_code(&error)) {
    case json_error_out_of_memory:
    case json_error_unknown:  // jansson says nothing where one of its own small blocks could not be had
      return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "reading %s", file);
    case json_error_duplicate_key:
    case json_error_numeric_overflow:
      return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "%s, line %d column %d: %s; recompile", file, error.line, error.column, error.text);
    default:
      return SLIP_STATUS(SLIP_CODE_CORRUPT, "%s is no JSON: line %d column %d: %s; the file is damaged, recompile", file, error.line,
                         error.column, error.text);
  }
}

slip_status_t slip__artifact_json_text(const json_t *value, bool indented, slip_allocator_t allocator, slip_bytes_t *out) {
  size_t flags = indented ? JSON_INDENT(2) : JSON_COMPACT, size = json_dumpb(value, NULL, 0, flags);
  void *buffer = NULL;
  *out = (slip_bytes_t){NULL, 0};
  if (size == 0) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "writing JSON");
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, size + 1, &buffer));
  if (json_dumpb(value, buffer, size, flags) != size) {
    slip__free(allocator, buffer, size + 1);
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "writing JSON");
  }
  *out = (slip_bytes_t){buffer, size};
  return slip_ok_status();
}
