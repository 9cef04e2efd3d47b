// SPDX-License-Identifier: Apache-2.0
// Where a value stands in JSON text: jansson reports positions for syntax errors only, findings about content need them too.
#ifndef SLIPSTREAM_SRC_COMPILER_FRONT_JSON_LOCATE_H_
#define SLIPSTREAM_SRC_COMPILER_FRONT_JSON_LOCATE_H_

#include <stddef.h>
#include <stdint.h>

// A value inside a document: the member |key| of the parent object, or item |index| of the parent array when |key| is NULL. The root has a
// NULL path.
typedef struct slip__json_path_t {
  const struct slip__json_path_t *parent;
  const char *key;
  size_t index;
} slip__json_path_t;

typedef struct slip__json_position_t {
  uint32_t line;    // 1-based
  uint32_t column;  // 1-based, in bytes
} slip__json_position_t;

// Position of the value at |path| in |text|, which must have been accepted by a JSON parser. A member that is not there gives the position
// of its parent.
slip__json_position_t slip__json_locate(const char *text, size_t size, const slip__json_path_t *path);
// "kernels[0].signature"; "" for the root. Returns the length as snprintf does.
size_t slip__json_path_format(const slip__json_path_t *path, char *buffer, size_t capacity);

#endif  // SLIPSTREAM_SRC_COMPILER_FRONT_JSON_LOCATE_H_
