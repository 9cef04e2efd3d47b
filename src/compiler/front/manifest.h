// SPDX-License-Identifier: Apache-2.0
// The manifest of an all-C program (docs/manifest.md), read and checked.
#ifndef SLIPSTREAM_SRC_COMPILER_FRONT_MANIFEST_H_
#define SLIPSTREAM_SRC_COMPILER_FRONT_MANIFEST_H_

#include "compiler/diagnostics.h"
#include "compiler/arena_text.h"
#include "slipstream/image.h"
#include "slipstream/signature.h"

#define SLIP__MANIFEST_VERSION     1
#define SLIP__MANIFEST_LIMIT_BYTES (1u << 20)
#define SLIP__MANIFEST_MAX_SOURCES 256

typedef struct slip__manifest_entry_t {
  const char *name;
  const char *symbol;
  slip_signature_t *signature;
  uint32_t tensor_count;
  uint32_t scalar_count;
} slip__manifest_entry_t;

typedef struct slip__manifest_kernel_t {
  const char *name;
  const char *symbol;
  const char *signature_text;
  slip_signature_t *signature;
  uint32_t core;  // slip_core_e
  uint32_t scratch_bytes;
  uint32_t tensor_count;
  uint32_t scalar_count;
} slip__manifest_kernel_t;

typedef struct slip__manifest_define_t {
  const char *name;
  const char *value;  // NULL: defined without a value
} slip__manifest_define_t;

// Strings are in |arena|; paths are relative to |directory| unless they say otherwise.
typedef struct slip__manifest_t {
  slip_allocator_t allocator;
  slip__arena_t arena;
  const char *path;       // as the caller gave it
  const char *directory;  // of |path|; "." if it has none
  slip_const_bytes_t text;
  const char *name;
  uint32_t contract;  // slip_contract_e
  slip__manifest_entry_t *entries;
  size_t entry_count;
  slip__manifest_kernel_t *kernels;
  size_t kernel_count;
  const char **sources;
  size_t source_count;
  const char **include_dirs;
  size_t include_dir_count;
  slip__manifest_define_t *defines;  // in byte order of the names
  size_t define_count;
  const char **cflags;
  size_t cflag_count;
  const char **targets;  // empty: "cpu"
  size_t target_count;
} slip__manifest_t;

// An empty manifest.
void slip__manifest_initialize(slip__manifest_t *manifest, slip_allocator_t allocator);
// Reads |path|. What is wrong with the content goes to |diagnostics|, all of it; the status then quotes the first. |contract|
// (slip_contract_e) overrides the manifest's if not 0.
// |*out| was initialised; deinitialise it in any case. NOT_FOUND, IO, INVALID_ARGUMENT, OUT_OF_MEMORY.
slip_status_t slip__manifest_read(const char *path, uint32_t contract, slip_diagnostics_t *diagnostics,
                                  slip__manifest_t *out) SLIP_MUST_USE;
void slip__manifest_deinitialize(slip__manifest_t *manifest);

// True if |flag| is a C flag that a manifest may ask for.
bool slip__cflag_allowed(const char *flag);

#endif  // SLIPSTREAM_SRC_COMPILER_FRONT_MANIFEST_H_
