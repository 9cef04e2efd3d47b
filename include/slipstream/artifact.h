// SPDX-License-Identifier: Apache-2.0
// Artifact: a read-only directory that holds one compiled program: compiled_meta.json, manifest.json, image/<target>.img.
//
// Opening reads metadata only: it runs no native code, claims no process mode and touches no device. An opened artifact is immutable and
// thread-safe.
#ifndef SLIPSTREAM_ARTIFACT_H_
#define SLIPSTREAM_ARTIFACT_H_

#include "slipstream/image.h"
#include "slipstream/signature.h"
#include "slipstream/status.h"

SLIP_EXTERN_C_BEGIN

typedef struct slip_artifact_t slip_artifact_t;

typedef struct slip_artifact_options_t {
  uint32_t struct_size;
  uint32_t reserved;
  const char *target;  // use this target only; NULL: the best one this machine runs
} slip_artifact_options_t;

#define SLIP_ARTIFACT_OPTIONS_INIT \
  { (uint32_t)sizeof(slip_artifact_options_t), 0, NULL }

// Opens the artifact directory at |path| and checks metadata and manifest strictly (unknown schema, wrong type, duplicate key, bad index
// ... name the field; INCOMPATIBLE says recompile). |options| may be NULL. NOT_FOUND, IO, CORRUPT, INCOMPATIBLE (also: no image for this
// machine), OUT_OF_MEMORY. |*out| is NULL on failure; else one reference.
SLIP_API slip_status_t slip_artifact_open(const char *path, const slip_artifact_options_t *options, slip_allocator_t allocator,
                                          slip_artifact_t **out) SLIP_MUST_USE;
SLIP_API void slip_artifact_retain(slip_artifact_t *artifact);
SLIP_API void slip_artifact_release(slip_artifact_t *artifact);

// All borrowed from the artifact.
SLIP_API const char *slip_artifact_name(const slip_artifact_t *artifact);
SLIP_API uint16_t slip_artifact_platform(const slip_artifact_t *artifact);
// The effective target, an override included.
SLIP_API const char *slip_artifact_target(const slip_artifact_t *artifact);
SLIP_API uint32_t slip_artifact_contract(const slip_artifact_t *artifact);
SLIP_API size_t slip_artifact_target_count(const slip_artifact_t *artifact);
SLIP_API const char *slip_artifact_target_at(const slip_artifact_t *artifact, size_t index);
// What the caller passes (logical) and what the image takes.
SLIP_API slip_signature_t *slip_artifact_params(const slip_artifact_t *artifact);
SLIP_API slip_signature_t *slip_artifact_lowered_params(const slip_artifact_t *artifact);
// Content key of the build, hex; and the metadata as JSON text.
SLIP_API const char *slip_artifact_key(const slip_artifact_t *artifact);
SLIP_API const char *slip_artifact_metadata_json(const slip_artifact_t *artifact);
// Reads, checks (size and hash of the manifest, full validation) and returns the image of the effective target. The bytes live as long as
// the artifact. Done once; a failed attempt may be repeated. Blocks on files. IO, CORRUPT, INCOMPATIBLE, NOT_FOUND, OUT_OF_MEMORY.
// They are a copy of the file: what was checked stays as it was, whatever happens to the file.
SLIP_API slip_status_t slip_artifact_image(slip_artifact_t *artifact, slip_const_bytes_t *out_bytes) SLIP_MUST_USE;
// Checks every file against the manifest. Blocks on files.
SLIP_API slip_status_t slip_artifact_verify(slip_artifact_t *artifact) SLIP_MUST_USE;

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_ARTIFACT_H_
