// SPDX-License-Identifier: Apache-2.0
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

// The reference implementation's limit.
#define CLI_SAFETENSORS_MAX_HEADER 100000000

static const struct {
  const char *name;
  slip_dtype_t dtype;
} cli_safetensors_types[] = {
    {"F32", SLIP_DTYPE_F32},   {"F16", SLIP_DTYPE_F16},          {"BF16", SLIP_DTYPE_BF16},      {"F64", SLIP_DTYPE_F64},
    {"I8", SLIP_DTYPE_I8},     {"I16", SLIP_DTYPE_I16},          {"I32", SLIP_DTYPE_I32},        {"I64", SLIP_DTYPE_I64},
    {"U8", SLIP_DTYPE_U8},     {"U16", SLIP_DTYPE_U16},          {"U32", SLIP_DTYPE_U32},        {"U64", SLIP_DTYPE_U64},
    {"BOOL", SLIP_DTYPE_BOOL}, {"F8_E4M3", SLIP_DTYPE_F8E4M3FN}, {"F8_E5M2", SLIP_DTYPE_F8E5M2}, {"F8_E8M0", SLIP_DTYPE_F8E8M0},
};

static slip_dtype_t cli_safetensors_dtype(const char *name) {
  for (size_t i = 0; i < sizeof(cli_safetensors_types) / sizeof(cli_safetensors_types[0]); ++i) {
    if (strcmp(cli_safetensors_types[i].name, name) == 0) return cli_safetensors_types[i].dtype;
  }
  return SLIP_DTYPE_NONE;
}

static bool cli_safetensors_offset(const json_t *value, uint64_t *out) {
  if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
  *out = (uint64_t)json_integer_value(value);
  return true;
}

// Elements of |shape|; false if it is no list of non-negative integers or overflows.
static bool cli_safetensors_count(const json_t *shape, uint64_t *out) {
  bool empty = false, fits = true;
  *out = 1;
  if (!json_is_array(shape)) return false;
  for (size_t i = 0; i < json_array_size(shape); ++i) {
    uint64_t dim = 0;
    if (!cli_safetensors_offset(json_array_get(shape, i), &dim)) return false;
    empty = empty || dim == 0;
    fits = fits && !__builtin_mul_overflow(*out, dim, out);
  }
  if (empty) *out = 0;
  return empty || fits;
}

static slip_status_t cli_safetensors_item(const char *name, json_t *value, uint64_t buffer_size, cli_safetensor_t *out) {
  const json_t *type = json_object_get(value, "dtype"), *shape = json_object_get(value, "shape"),
               *range = json_object_get(value, "data_offsets");
  uint64_t count = 0, size = 0;
  if (!json_is_object(value) || !json_is_string(type) || !json_is_array(shape) || !json_is_array(range) || json_object_size(value) != 3) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "tensor '%s' is not described by exactly dtype, shape and data_offsets", name);
  }
  *out = (cli_safetensor_t){.name = name, .type = json_string_value(type), .shape = shape};
  if (json_array_size(range) != 2 || !cli_safetensors_offset(json_array_get(range, 0), &out->begin) ||
      !cli_safetensors_offset(json_array_get(range, 1), &out->end) || out->end < out->begin) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "tensor '%s': data_offsets is no pair of ascending offsets", name);
  }
  if (out->end > buffer_size) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "tensor '%s' ends at byte %llu of the data, the file has %llu: it is cut short", name,
                       (unsigned long long)out->end, (unsigned long long)buffer_size);
  }
  if (!cli_safetensors_count(shape, &count))
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "tensor '%s': shape is no list of dimensions that fits 2^64", name);
  uint64_t element = slip_dtype_size_bytes(cli_safetensors_dtype(out->type));
  if (element && (__builtin_mul_overflow(count, element, &size) || size != out->end - out->begin)) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "tensor '%s': its shape takes %llu elements of %llu bytes, data_offsets hold %llu bytes", name,
                       (unsigned long long)count, (unsigned long long)element, (unsigned long long)(out->end - out->begin));
  }
  return slip_ok_status();
}

static int cli_safetensors_order(const void *a, const void *b) {
  const cli_safetensor_t *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

static slip_status_t cli_safetensors_cover(const cli_safetensors_t *file) {
  uint64_t at = 0;
  for (size_t i = 0; i < file->count; ++i) {
    const cli_safetensor_t *item = &file->items[i];
    if (item->begin != at) {
      return SLIP_STATUS(SLIP_CODE_CORRUPT, "tensor '%s' begins at byte %llu of the data, the one before ends at %llu: %s", item->name,
                         (unsigned long long)item->begin, (unsigned long long)at, item->begin < at ? "they overlap" : "there is a hole");
    }
    at = item->end;
  }
  if (at == file->buffer.size) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "the tensors end at byte %llu of the data, the file has %zu", (unsigned long long)at,
                     file->buffer.size);
}

static slip_status_t cli_safetensors_metadata(json_t *value) {
  const char *key;
  json_t *text;
  if (!json_is_object(value)) return SLIP_STATUS(SLIP_CODE_CORRUPT, "__metadata__ is no object of strings");
  json_object_foreach(value, key, text) {
    if (!json_is_string(text)) return SLIP_STATUS(SLIP_CODE_CORRUPT, "__metadata__ '%s' is no string", key);
  }
  return slip_ok_status();
}

static slip_status_t cli_safetensors_items(cli_safetensors_t *file) {
  const char *name;
  json_t *value;
  if (!json_is_object(file->header)) return SLIP_STATUS(SLIP_CODE_CORRUPT, "the .safetensors header is no JSON object");
  file->items = calloc(json_object_size(file->header) + 1, sizeof(*file->items));
  if (!file->items) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for the list of tensors");
  json_object_foreach(file->header, name, value) {
    if (strcmp(name, "__metadata__") == 0) {
      SLIP_RETURN_IF_ERROR(cli_safetensors_metadata(value));
      continue;
    }
    SLIP_RETURN_IF_ERROR(cli_safetensors_item(name, value, file->buffer.size, &file->items[file->count]));
    ++file->count;
  }
  qsort(file->items, file->count, sizeof(*file->items), cli_safetensors_order);
  return cli_safetensors_cover(file);
}

slip_status_t cli_safetensors_parse(slip_const_bytes_t bytes, cli_safetensors_t *out) {
  uint64_t length = 0;
  json_error_t error = {.line = 0};  // left untouched when memory is short at once
  *out = (cli_safetensors_t){0};
  if (bytes.size < 8)
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "not a .safetensors file: it has %zu bytes, fewer than its length field", bytes.size);
  for (int i = 7; i >= 0; --i) length = length << 8 | bytes.data[i];
  if (length > CLI_SAFETENSORS_MAX_HEADER || length > bytes.size - 8) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "not a .safetensors file, or cut short: its header claims %llu bytes, the file has %zu",
                       (unsigned long long)length, bytes.size - 8);
  }
  out->buffer = (slip_const_bytes_t){bytes.data + 8 + length, bytes.size - 8 - (size_t)length};
  out->header = json_loadb((const char *)bytes.data + 8, (size_t)length, JSON_REJECT_DUPLICATES, &error);
  if (!out->header) return SLIP_STATUS(SLIP_CODE_CORRUPT, "the .safetensors header is no JSON: %s", error.text);
  slip_status_t status = cli_safetensors_items(out);
  if (!slip_status_is_ok(status)) cli_safetensors_deinitialize(out);
  return status;
}

void cli_safetensors_deinitialize(cli_safetensors_t *file) {
  json_decref(file->header);
  free(file->items);
  *file = (cli_safetensors_t){0};
}

const cli_safetensor_t *cli_safetensors_find(const cli_safetensors_t *file, const char *name) {
  for (size_t i = 0; i < file->count; ++i) {
    if (strcmp(file->items[i].name, name) == 0) return &file->items[i];
  }
  return NULL;
}

slip_status_t cli_safetensors_array(const cli_safetensors_t *file, const cli_safetensor_t *item, cli_array_t *out) {
  size_t rank = json_array_size(item->shape);
  *out = (cli_array_t){.dtype = cli_safetensors_dtype(item->type)};
  if (out->dtype == SLIP_DTYPE_NONE)
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "tensor '%s' has dtype %s, which has no counterpart here", item->name, item->type);
  if (rank > SLIP_MAX_RANK)
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "tensor '%s' has rank %zu; the highest is %d", item->name, rank, SLIP_MAX_RANK);
  out->rank = (uint8_t)rank;
  for (size_t i = 0; i < rank; ++i) out->dims[i] = json_integer_value(json_array_get(item->shape, i));
  out->data = (slip_const_bytes_t){file->buffer.data + item->begin, (size_t)(item->end - item->begin)};
  return slip_ok_status();
}
