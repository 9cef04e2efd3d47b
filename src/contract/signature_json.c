// SPDX-License-Identifier: Apache-2.0
// The JSON form of a signature. Reading is strict: no unknown, duplicate or missing key, no wrong type; every refusal names the field.
#include <jansson.h>
#include <string.h>

#include "base/allocator.h"
#include "contract/json_type.h"
#include "contract/signature.h"
#include "contract/text.h"

// --- writing --------------------------------------------------------------------------------------------------------------------------
// Written directly: names are identifiers and need no escapes, and the key order is part of the form.

static void slip__json_add_dims(slip__text_t *text, const slip_param_t *param) {
  bool named = false;
  slip__text_add(text, ",\"dims\":");
  slip__text_add_list(text, param->dims, param->rank);
  for (uint32_t d = 0; d < param->rank; ++d) named |= param->dim_names[d] != NULL;
  if (named) {
    slip__text_add(text, ",\"dim_names\":[");
    for (uint32_t d = 0; d < param->rank; ++d) {
      const char *quote = param->dim_names[d] ? "\"" : "";
      slip__text_add(text, "%s%s%s%s", d ? "," : "", quote, param->dim_names[d] ? param->dim_names[d] : "null", quote);
    }
    slip__text_add(text, "]");
  }
  slip__text_add(text, ",\"layout\":\"%s\"", slip__layout_name(param->layout));
}

static void slip__json_write(slip__text_t *text, const slip_signature_t *signature) {
  slip__text_add(text, "{\"params\":[");
  for (uint32_t i = 0; i < signature->param_count; ++i) {
    const slip_param_t *param = &signature->params[i];
    slip__text_add(text, "%s{\"name\":\"%s\",\"direction\":\"%s\",\"dtype\":\"%s\"", i ? "," : "", param->name,
                   slip__direction_name(param->direction), slip_dtype_name(param->dtype));
    if (param->direction != SLIP_DIRECTION_SCALAR) slip__json_add_dims(text, param);
    slip__text_add(text, "}");
  }
  slip__text_add(text, "],\"return_aliases\":[");
  for (uint32_t i = 0; i < signature->alias_count; ++i) slip__text_add(text, "%s%d", i ? "," : "", signature->aliases[i]);
  slip__text_add(text, "]}");
}

slip_status_t slip_signature_to_json(const slip_signature_t *signature, slip_allocator_t allocator, slip_bytes_t *out_text) {
  *out_text = (slip_bytes_t){NULL, 0};
  slip__text_t text = slip__text(NULL, 0);
  slip__json_write(&text, signature);
  void *buffer = NULL;
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip__alloc(slip__allocator_or_system(allocator), text.length + 1, &buffer),
                                 "writing a signature as JSON");
  text = slip__text(buffer, text.length + 1);
  slip__json_write(&text, signature);
  *out_text = (slip_bytes_t){buffer, text.length};
  return slip_ok_status();
}

// --- reading --------------------------------------------------------------------------------------------------------------------------

// The member |key| of |object|, which must be of |type|; |expected| says so in words.
static slip_status_t slip__json_get(const json_t *object, const char *key, json_type type, const char *expected, json_t **out) {
  *out = json_object_get(object, key);
  if (*out && json_typeof(*out) == type) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "field '%s': expected %s, came %s", key, expected, slip__json_type_name(*out));
}

static slip_status_t slip__json_refuse_unknown(json_t *object, const char *const *known) {
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    size_t i = 0;
    while (known[i] && strcmp(known[i], key) != 0) ++i;
    if (!known[i]) return SLIP_STATUS(SLIP_CODE_CORRUPT, "field '%.64s' is unknown here; remove it or recompile", key);
  }
  return slip_ok_status();
}

static slip_status_t slip__json_read_dims(const json_t *object, slip_param_t *param) {
  json_t *dims, *names = json_object_get(object, "dim_names");
  SLIP_RETURN_IF_ERROR(slip__json_get(object, "dims", JSON_ARRAY, "an array of integers", &dims));
  size_t rank = json_array_size(dims);
  if (rank > SLIP_MAX_RANK)
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "field 'dims': expected at most %d entries, came %zu", SLIP_MAX_RANK, rank);
  if (names) {
    SLIP_RETURN_IF_ERROR(slip__json_get(object, "dim_names", JSON_ARRAY, "an array of strings and nulls", &names));
    if (json_array_size(names) != rank) {
      return SLIP_STATUS(SLIP_CODE_CORRUPT, "field 'dim_names': expected %zu entries as in 'dims', came %zu", rank, json_array_size(names));
    }
  }
  param->rank = (uint8_t)rank;
  for (size_t d = 0; d < rank; ++d) {
    const json_t *dim = json_array_get(dims, d), *name = names ? json_array_get(names, d) : NULL;
    if (!json_is_integer(dim)) {
      return SLIP_STATUS(SLIP_CODE_CORRUPT, "field 'dims' entry %zu: expected an integer, came %s", d, slip__json_type_name(dim));
    }
    if (name && !json_is_string(name) && !json_is_null(name)) {
      return SLIP_STATUS(SLIP_CODE_CORRUPT, "field 'dim_names' entry %zu: expected a string or null, came %s", d,
                         slip__json_type_name(name));
    }
    param->dims[d] = json_integer_value(dim);
    param->dim_names[d] = name ? json_string_value(name) : NULL;
  }
  return slip_ok_status();
}

static slip_status_t slip__json_read_layout(const json_t *object, slip_param_t *param) {
  json_t *layout = json_object_get(object, "layout");
  param->layout = SLIP_LAYOUT_ND;
  if (!layout) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__json_get(object, "layout", JSON_STRING, "a string", &layout));
  const char *name = json_string_value(layout);
  if (strcmp(name, "nz") == 0) param->layout = SLIP_LAYOUT_NZ;
  if (strcmp(name, slip__layout_name(param->layout)) == 0) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "field 'layout': expected nd or nz, came '%.32s'", name);
}

static slip_status_t slip__json_read_param(json_t *object, slip_param_t *param) {
  static const char *const tensor_keys[] = {"name", "direction", "dtype", "dims", "dim_names", "layout", NULL};
  static const char *const scalar_keys[] = {"name", "direction", "dtype", NULL};
  json_t *name, *direction, *dtype;
  if (!json_is_object(object)) return SLIP_STATUS(SLIP_CODE_CORRUPT, "expected an object, came %s", slip__json_type_name(object));
  SLIP_RETURN_IF_ERROR(slip__json_get(object, "name", JSON_STRING, "a string", &name));
  SLIP_RETURN_IF_ERROR(slip__json_get(object, "direction", JSON_STRING, "a string", &direction));
  SLIP_RETURN_IF_ERROR(slip__json_get(object, "dtype", JSON_STRING, "a string", &dtype));
  param->name = json_string_value(name);
  param->dtype = slip_dtype_from_name(json_string_value(dtype), json_string_length(dtype));
  if (param->dtype == SLIP_DTYPE_NONE) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "field 'dtype': '%.32s' is unknown; it is one of f32, bf16, i32, ...", json_string_value(dtype));
  }
  for (uint32_t i = SLIP_DIRECTION_IN; i <= SLIP_DIRECTION_SCALAR; ++i) {
    if (strcmp(json_string_value(direction), slip__direction_name(i)) == 0) param->direction = i;
  }
  if (param->direction == 0) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "field 'direction': expected in, out, inout or scalar, came '%.32s'",
                       json_string_value(direction));
  }
  bool scalar = param->direction == SLIP_DIRECTION_SCALAR;
  SLIP_RETURN_IF_ERROR(slip__json_refuse_unknown(object, scalar ? scalar_keys : tensor_keys));
  if (scalar) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__json_read_layout(object, param));
  return slip__json_read_dims(object, param);
}

static slip_status_t slip__json_read_aliases(const json_t *array, int32_t *aliases) {
  for (size_t i = 0; i < json_array_size(array); ++i) {
    const json_t *value = json_array_get(array, i);
    if (!json_is_integer(value)) {
      return SLIP_STATUS(SLIP_CODE_CORRUPT, "field 'return_aliases' entry %zu: expected an integer, came %s", i,
                         slip__json_type_name(value));
    }
    json_int_t index = json_integer_value(value);
    if (index < INT32_MIN || index > INT32_MAX) {
      return SLIP_STATUS(SLIP_CODE_CORRUPT, "field 'return_aliases' entry %zu: %lld is out of range", i, (long long)index);
    }
    aliases[i] = (int32_t)index;
  }
  return slip_ok_status();
}

// What the rules of a signature refuse is, in a file, a corrupt file.
static slip_status_t slip__json_as_corrupt(slip_status_t status) {
  if (slip_status_code(status) != SLIP_CODE_INVALID_ARGUMENT) return status;
  char text[1024];
  slip_status_format(status, text, sizeof(text));
  slip_status_free(status);
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "the signature breaks a rule: %s", text);
}

static slip_status_t slip__json_read(json_t *root, slip_allocator_t allocator, slip_signature_t **out) {
  static const char *const keys[] = {"params", "return_aliases", NULL};
  json_t *params, *aliases;
  if (!json_is_object(root)) return SLIP_STATUS(SLIP_CODE_CORRUPT, "a signature is an object, came %s", slip__json_type_name(root));
  SLIP_RETURN_IF_ERROR(slip__json_refuse_unknown(root, keys));
  SLIP_RETURN_IF_ERROR(slip__json_get(root, "params", JSON_ARRAY, "an array", &params));
  SLIP_RETURN_IF_ERROR(slip__json_get(root, "return_aliases", JSON_ARRAY, "an array", &aliases));
  size_t param_count = json_array_size(params), alias_count = json_array_size(aliases);
  void *param_block = NULL, *alias_block = NULL;
  slip_status_t status = slip__alloc_array(allocator, param_count, sizeof(slip_param_t), &param_block);
  if (slip_status_is_ok(status)) status = slip__alloc_array(allocator, alias_count, sizeof(int32_t), &alias_block);
  for (size_t i = 0; slip_status_is_ok(status) && i < param_count; ++i) {
    status = slip__json_read_param(json_array_get(params, i), (slip_param_t *)param_block + i);
    status = slip_status_annotate(status, "in 'params' entry %zu", i);
  }
  if (slip_status_is_ok(status)) status = slip__json_read_aliases(aliases, alias_block);
  if (slip_status_is_ok(status)) {
    status = slip__json_as_corrupt(slip_signature_create(param_block, param_count, alias_block, alias_count, allocator, out));
  }
  slip__free(allocator, alias_block, alias_count * sizeof(int32_t));
  slip__free(allocator, param_block, param_count * sizeof(slip_param_t));
  return status;
}

slip_status_t slip_signature_from_json(const char *text, size_t length, slip_allocator_t allocator, slip_signature_t **out) {
  *out = NULL;
  json_error_t error = {.line = 0};  // left untouched when memory is short at once
  // The parser's tree comes from malloc (the library's allocator is process-wide and not ours to set) and is gone on return.
  json_t *root = text ? json_loadb(text, length, JSON_REJECT_DUPLICATES, &error) : NULL;
  if (!text) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "no JSON text given");
  // Unknown: jansson says nothing where one of its own small blocks could not be had.
  if (!root && (json_error_code(&error) == json_error_out_of_memory || json_error_code(&error) == json_error_unknown))
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "reading a signature's JSON");
  if (!root) return SLIP_STATUS(SLIP_CODE_CORRUPT, "line %d column %d: %s", error.line, error.column, error.text);
  slip_status_t status = slip__json_read(root, slip__allocator_or_system(allocator), out);
  json_decref(root);
  return status;
}
