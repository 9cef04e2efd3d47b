// SPDX-License-Identifier: Apache-2.0
// Writes an artifact directory: the other end of slip_artifact_open(). Used by the compiler, which carries its own copy of this room.
//
// The directory is built beside |output| under a temporary name, synced, and moved to its place in one step, so that nobody ever sees half
// an artifact. What the writer makes is read back by the reader's parsers before it is published.
#ifndef SLIPSTREAM_SRC_ARTIFACT_ARTIFACT_WRITER_H_
#define SLIPSTREAM_SRC_ARTIFACT_ARTIFACT_WRITER_H_

#include "slipstream/image.h"
#include "slipstream/signature.h"

typedef struct slip__artifact_image_t {
  const char *target;  // as in the image
  slip_const_bytes_t bytes;
} slip__artifact_image_t;

// "src/main.c", "report/compile.json", ...: a plain relative path, not one of the artifact's own files.
typedef struct slip__artifact_file_t {
  const char *path;
  slip_const_bytes_t bytes;
} slip__artifact_file_t;

// One fact of the toolchain's identity: {"compiler", "gcc (Debian 12.2.0-14) 12.2.0"}, {"options", "-O3"}. UTF-8; keys differ.
typedef struct slip__artifact_fact_t {
  const char *key;
  const char *value;
} slip__artifact_fact_t;

typedef struct slip__artifact_entry_t {
  const char *name;
  slip_signature_t *params;          // logical: what callers pass
  slip_signature_t *lowered_params;  // what the image takes; the same object where lowering changes nothing
} slip__artifact_entry_t;

// Everything is borrowed for the call.
typedef struct slip__artifact_desc_t {
  const char *name;
  uint16_t platform;
  uint32_t contract;                      // slip_contract_e; the only capability that is written
  const char *key;                        // slip__identity_finish()
  const slip__artifact_entry_t *entries;  // as in the images; a kernel has one
  size_t entry_count;
  const slip__artifact_fact_t *toolchain;
  size_t toolchain_count;
  const slip__artifact_image_t *images;  // one a target, in any order
  size_t image_count;
  const slip__artifact_file_t *files;  // in any order
  size_t file_count;
} slip__artifact_desc_t;

// Writes the artifact to |output|. The same description gives the same bytes. Files get mode 0644 and directories 0755, less the umask.
// With |replace| an artifact at |output| is exchanged for the new one atomically and removed; anything but an artifact there is left alone.
// INVALID_ARGUMENT: the description is wrong (an image that does not go with it, a bad path, ...); CONFLICT: |output| exists; IO, NOT_FOUND
// (the directory above), OUT_OF_MEMORY. On failure nothing new is left and |output| is as before; should the clean-up fail too, its failure
// is joined and names what is left.
slip_status_t slip__artifact_write(const slip__artifact_desc_t *desc, const char *output, bool replace,
                                   slip_allocator_t allocator) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_ARTIFACT_ARTIFACT_WRITER_H_
