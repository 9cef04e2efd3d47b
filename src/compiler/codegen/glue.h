// SPDX-License-Identifier: Apache-2.0
// The two files that the compiler adds to a program: slip_program.h (kernel numbers and prototypes, for the program's own sources) and the
// glue unit, which defines slip_object and the few C library functions that compilers call on their own.
#ifndef SLIPSTREAM_SRC_COMPILER_CODEGEN_GLUE_H_
#define SLIPSTREAM_SRC_COMPILER_CODEGEN_GLUE_H_

#include "compiler/front/manifest.h"

// Both are pure functions of the manifest: equal manifests give equal text. The text is in |arena|.
slip_status_t slip__glue_header(const slip__manifest_t *manifest, slip__arena_t *arena, const char **out) SLIP_MUST_USE;
slip_status_t slip__glue_source(const slip__manifest_t *manifest, slip__arena_t *arena, const char **out) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_COMPILER_CODEGEN_GLUE_H_
