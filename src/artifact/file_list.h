// SPDX-License-Identifier: Apache-2.0
// manifest.json: every file of an artifact but itself, with size, hash and mode.
//
//   {"schema": 1, "files": [{"path": "image/x86-64-v3.img", "size": 81920, "hash": "<32 hex digits, XXH3-128>", "mode": "0644"}, ...]}
//
// Paths are relative, plain (no "", ".", ".." component, no '\', no control characters) and in ascending byte order.
#ifndef SLIPSTREAM_SRC_ARTIFACT_FILE_LIST_H_
#define SLIPSTREAM_SRC_ARTIFACT_FILE_LIST_H_

#include "base/arena.h"
#include "base/hash.h"

#define SLIP__FILE_LIST_NAME      "manifest.json"
#define SLIP__FILE_LIST_SCHEMA    1
#define SLIP__FILE_LIST_MAX_FILES 65536
#define SLIP__FILE_PATH_MAX       1024

typedef struct slip__file_record_t {
  const char *path;
  uint64_t size;
  slip__hash128_t hash;
  uint32_t mode;
} slip__file_record_t;

// Owns its memory.
typedef struct slip__file_list_t {
  slip__arena_t arena;
  slip__file_record_t *records;
  size_t count;
} slip__file_list_t;

// CORRUPT names the record; INCOMPATIBLE: another schema, a key twice. On failure |*out| is empty. Deinitialise on success.
slip_status_t slip__file_list_parse(slip_const_bytes_t text, slip_allocator_t allocator, slip__file_list_t *out) SLIP_MUST_USE;
void slip__file_list_deinitialize(slip__file_list_t *list);
// NULL if |path| is not listed.
const slip__file_record_t *slip__file_list_find(const slip__file_list_t *list, const char *path);
// CORRUPT unless |bytes| have the record's size and hash.
slip_status_t slip__file_record_check(const slip__file_record_t *record, slip_const_bytes_t bytes) SLIP_MUST_USE;
// True for a path that a list may hold.
bool slip__file_path_valid(const char *path);
// The text of a list of |records|, which are in order. size + 1 bytes, terminated.
slip_status_t slip__file_list_write(const slip__file_record_t *records, size_t count, slip_allocator_t allocator,
                                    slip_bytes_t *out) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_ARTIFACT_FILE_LIST_H_
