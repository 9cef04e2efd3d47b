// SPDX-License-Identifier: Apache-2.0
// compiled_meta.json, schema 3 (docs/artifact.md), and the older schemas 1 and 2.
#ifndef SLIPSTREAM_SRC_ARTIFACT_METADATA_H_
#define SLIPSTREAM_SRC_ARTIFACT_METADATA_H_

#include "base/arena.h"
#include "slipstream/image.h"

#define SLIP__METADATA_NAME        "compiled_meta.json"
#define SLIP__METADATA_SCHEMA      3
#define SLIP__METADATA_MAX_TARGETS 64

// Bits of slip__metadata_t.capabilities.
typedef enum slip__capability_bits_e {
  SLIP__CAPABILITY_PROGRAM = 1,
  SLIP__CAPABILITY_KERNEL = 2,
} slip__capability_bits_e;

typedef struct slip__metadata_entry_t {
  const char *name;  // NULL for the first entry: only its image knows
  slip_signature_t *params;
  slip_signature_t *lowered_params;
} slip__metadata_entry_t;

// Owns its memory; strings are in the arena.
typedef struct slip__metadata_t {
  slip__arena_t arena;
  uint32_t schema;
  uint32_t contract;      // slip_contract_e; PROGRAM for schema 1 and 2
  uint32_t capabilities;  // slip__capability_bits_e
  uint16_t platform;
  const char *name;
  const char *key;  // 32 hexadecimal digits; "" in schema 1
  const char **targets;
  size_t target_count;
  slip__metadata_entry_t *entries;  // at least one
  size_t entry_count;
} slip__metadata_t;

// INCOMPATIBLE ("recompile") names the field: unknown schema or key, missing field, wrong type or value, a key twice, bad index,
// a capability that does not go with the contract. CORRUPT: no JSON. OUT_OF_MEMORY. On failure |*out| is empty; deinitialise on success.
slip_status_t slip__metadata_parse(slip_const_bytes_t text, slip_allocator_t allocator, slip__metadata_t *out) SLIP_MUST_USE;
void slip__metadata_deinitialize(slip__metadata_t *metadata);

// [A-Za-z0-9_][A-Za-z0-9_.-]*, at most 255 bytes: a name is a directory name too.
bool slip__metadata_name_valid(const char *name);
// 32 lower-case hexadecimal digits.
bool slip__metadata_key_valid(const char *key);

#endif  // SLIPSTREAM_SRC_ARTIFACT_METADATA_H_
