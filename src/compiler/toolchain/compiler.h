// SPDX-License-Identifier: Apache-2.0
// The C compiler: finding it, and the command lines it is given.
#ifndef SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_COMPILER_H_
#define SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_COMPILER_H_

#include "compiler/front/manifest.h"
#include "compiler/toolchain/target.h"

// A compiler that answered. Strings are in the arena that was given to slip__compiler_find().
typedef struct slip__compiler_t {
  const char *program;       // argv[0]
  const char *identity;      // whole text of --version
  const char *version_line;  // its first line
  const char *machine;       // -dumpmachine: "x86_64-linux-gnu"
  const char *include_dir;   // holds slipstream/kernel/*.h
} slip__compiler_t;

// |program| or, if NULL, $SLIP_CC, else the first of gcc, clang and cc that runs. Runs it twice (10 ms). UNSUPPORTED says what to install
// or set.
slip_status_t slip__compiler_find(const char *program, slip__arena_t *arena, slip__compiler_t *out) SLIP_MUST_USE;
bool slip__compiler_targets(const slip__compiler_t *compiler, const slip__target_t *target);

// The flags of every compilation, whatever its target: part of the content key.
const char *const *slip__compiler_flags(size_t *out_count);

// What all command lines of one build share.
typedef struct slip__build_paths_t {
  const char *build_dir;    // private; absolute
  const char *program_dir;  // real path of the manifest's directory
} slip__build_paths_t;

// A NULL-terminated argument list in |arena|. |source| is relative to the program's directory, or absolute for the glue unit.
slip_status_t slip__compiler_compile_line(const slip__compiler_t *compiler, const slip__manifest_t *manifest, const slip__target_t *target,
                                          const slip__build_paths_t *paths, bool debug, const char *source, const char *object,
                                          const char *depfile, slip__arena_t *arena, const char *const **out) SLIP_MUST_USE;
slip_status_t slip__compiler_link_line(const slip__compiler_t *compiler, const slip__build_paths_t *paths, const char *const *objects,
                                       size_t object_count, const char *output, slip__arena_t *arena,
                                       const char *const **out) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_COMPILER_H_
