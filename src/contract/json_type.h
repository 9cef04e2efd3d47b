// SPDX-License-Identifier: Apache-2.0
// What a JSON value is, in the words of every refusal: "expected an integer, came a string".
#ifndef SLIPSTREAM_SRC_CONTRACT_JSON_TYPE_H_
#define SLIPSTREAM_SRC_CONTRACT_JSON_TYPE_H_

#include <jansson.h>

// "a string" and so on; "nothing" for NULL.
static inline const char *slip__json_type_name(const json_t *value) {
  static const char *const names[] = {"an object", "an array", "a string", "an integer", "a real number", "true", "false", "null"};
  return value ? names[json_typeof(value)] : "nothing";
}

#endif  // SLIPSTREAM_SRC_CONTRACT_JSON_TYPE_H_
