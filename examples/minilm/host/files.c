// SPDX-License-Identifier: Apache-2.0
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

slip_status_t minilm_map(const char *path, minilm_map_t *out) {
  struct stat info;
  *out = (minilm_map_t){NULL, 0};
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    slip_code_t code = errno == ENOENT ? SLIP_CODE_NOT_FOUND : SLIP_CODE_IO;
    return SLIP_STATUS_PLATFORM(code, errno, "cannot open '%s': %s", path, strerror(errno));
  }
  slip_status_t status = slip_ok_status();
  void *data = NULL;
  if (fstat(file, &info) != 0) {
    status = SLIP_STATUS_PLATFORM(SLIP_CODE_IO, errno, "cannot examine '%s': %s", path, strerror(errno));
  } else if (!S_ISREG(info.st_mode)) {
    status = SLIP_STATUS(SLIP_CODE_IO, "'%s' is not a regular file", path);
  } else if (info.st_size > 0) {
    data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) status = SLIP_STATUS_PLATFORM(SLIP_CODE_IO, errno, "cannot map '%s': %s", path, strerror(errno));
  }
  close(file);
  if (slip_status_is_ok(status) && data) *out = (minilm_map_t){data, (size_t)info.st_size};
  return status;
}

void minilm_unmap(minilm_map_t *map) {
  if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
  *map = (minilm_map_t){NULL, 0};
}

static slip_status_t minilm_view(const minilm_map_t *map, const char *what, slip_dtype_t dtype, uint8_t rank, const int64_t *dims,
                                 uint64_t begin, uint64_t end, slip_tensor_t *out) {
  memset(out, 0, sizeof(*out));
  if (begin > end || end > map->size)
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "%s: its bytes lie outside the file of %zu bytes", what, map->size);
  void *data = (void *)(uintptr_t)(map->data + begin);
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_tensor_initialize(out, dtype, rank, dims, data, slip_device_cpu()), "%s", what);
  if (out->storage_bytes != end - begin) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "%s: the shape needs %llu bytes, the file has %llu", what, (unsigned long long)out->storage_bytes,
                       (unsigned long long)(end - begin));
  }
  return slip_ok_status();
}

// The header is the text of a Python dictionary of fixed form: {'descr': '<f4', 'fortran_order': False, 'shape': (349, 384), }
slip_status_t minilm_npy_view(const minilm_map_t *map, const char *path, slip_dtype_t dtype, slip_tensor_t *out) {
  char text[256], type[8];
  long long rows, columns;
  const char *expected = dtype == SLIP_DTYPE_F32 ? "<f4" : "<i4";
  memset(out, 0, sizeof(*out));
  if (map->size < 10 || memcmp(map->data, "\x93NUMPY\x01", 7) != 0)
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "'%s' is no .npy file of version 1", path);
  size_t length = (size_t)(unsigned char)map->data[8] | (size_t)(unsigned char)map->data[9] << 8;
  if (length > map->size - 10 || length >= sizeof(text)) return SLIP_STATUS(SLIP_CODE_CORRUPT, "'%s': the header does not fit", path);
  memcpy(text, map->data + 10, length);
  text[length] = '\0';
  if (sscanf(text, "{'descr': '%7[^']', 'fortran_order': False, 'shape': (%lld, %lld)", type, &rows, &columns) != 3) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "'%s' is no C-ordered matrix: %s", path, text);
  }
  if (strcmp(type, expected) != 0) return SLIP_STATUS(SLIP_CODE_CORRUPT, "'%s' holds %s, expected %s", path, type, expected);
  const int64_t dims[2] = {rows, columns};
  return minilm_view(map, path, dtype, 2, dims, 10 + length, map->size, out);
}

// --- Weights -------------------------------------------------------------------------------------------------------

struct minilm_weights_t {
  minilm_map_t map;
  json_t *header;
  uint64_t data_begin;  // in the file
};

slip_status_t minilm_weights_open(const char *path, minilm_weights_t **out) {
  *out = NULL;
  minilm_weights_t *w = calloc(1, sizeof(*w));
  if (!w) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for '%s'", path);
  slip_status_t status = minilm_map(path, &w->map);
  uint64_t length = 0;
  if (slip_status_is_ok(status) && w->map.size < 8)
    status = SLIP_STATUS(SLIP_CODE_CORRUPT, "'%s' is too short for a .safetensors file", path);
  if (slip_status_is_ok(status)) {
    memcpy(&length, w->map.data, 8);
    if (length > w->map.size - 8) status = SLIP_STATUS(SLIP_CODE_CORRUPT, "'%s': the header is longer than the file", path);
  }
  if (slip_status_is_ok(status)) {
    json_error_t error;
    w->data_begin = 8 + length;
    w->header = json_loadb(w->map.data + 8, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(w->header)) status = SLIP_STATUS(SLIP_CODE_CORRUPT, "'%s': the header is no JSON object", path);
  }
  if (slip_status_is_ok(status)) {
    *out = w;
  } else {
    minilm_weights_close(w);
  }
  return status;
}

static bool minilm_same_name(const char *file_name, const char *name) {
  for (; *file_name && *name; ++file_name, ++name) {
    if ((*file_name == '.' ? '_' : *file_name) != *name) return false;
  }
  return *file_name == *name;
}

static slip_status_t minilm_weights_view(const minilm_weights_t *w, const char *name, json_t *item, slip_tensor_t *out) {
  const char *type = NULL;
  json_t *shape = NULL;
  json_int_t begin = 0, end = 0;
  int64_t dims[SLIP_MAX_RANK] = {0};
  if (json_unpack(item, "{s:s,s:o,s:[I,I]}", "dtype", &type, "shape", &shape, "data_offsets", &begin, &end) != 0 || !json_is_array(shape) ||
      json_array_size(shape) > SLIP_MAX_RANK) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "weight '%s': no dtype, shape and data_offsets in the header", name);
  }
  if (strcmp(type, "F32") != 0) return SLIP_STATUS(SLIP_CODE_CORRUPT, "weight '%s' is %s, expected F32", name, type);
  for (size_t i = 0; i < json_array_size(shape); ++i) dims[i] = json_integer_value(json_array_get(shape, i));
  if (begin < 0 || end < begin || (uint64_t)end > w->map.size - w->data_begin) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "weight '%s': its bytes %lld..%lld lie beyond the end of the file", name, (long long)begin,
                       (long long)end);
  }
  return minilm_view(&w->map, name, SLIP_DTYPE_F32, (uint8_t)json_array_size(shape), dims, w->data_begin + (uint64_t)begin,
                     w->data_begin + (uint64_t)end, out);
}

slip_status_t minilm_weights_find(const minilm_weights_t *w, const char *name, slip_tensor_t *out) {
  const char *key;
  json_t *item;
  memset(out, 0, sizeof(*out));
  json_object_foreach(w->header, key, item) {
    if (minilm_same_name(key, name)) return minilm_weights_view(w, name, item, out);
  }
  return SLIP_STATUS(SLIP_CODE_NOT_FOUND, "the weights have no tensor '%s'", name);
}

void minilm_weights_close(minilm_weights_t *w) {
  if (!w) return;
  json_decref(w->header);
  minilm_unmap(&w->map);
  free(w);
}
