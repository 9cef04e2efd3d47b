// SPDX-License-Identifier: Apache-2.0
// One compilation, from a checked manifest to linked objects: the state that its stages share. Single-owner.
#ifndef SLIPSTREAM_SRC_COMPILER_BUILD_H_
#define SLIPSTREAM_SRC_COMPILER_BUILD_H_

#include "compiler/front/manifest.h"
#include "compiler/toolchain/compiler.h"
#include "compiler/toolchain/jobs.h"
#include "os/file.h"

#define SLIP__BUILD_MAX_TARGETS 16

// A file that a compilation read.
typedef struct slip__closure_file_t {
  const char *path;  // absolute
  const char *name;  // relative to the program's directory (may begin with "../"); NULL for a system or generated file
} slip__closure_file_t;

// What one target became.
typedef struct slip__build_target_t {
  const slip__target_t *target;
  const char *object_path;  // the linked object
  slip__mapping_t object;
} slip__build_target_t;

typedef struct slip__build_t {
  slip_allocator_t allocator;
  slip__arena_t arena;
  const slip_compile_options_t *options;
  slip_diagnostics_t *diagnostics;
  slip__manifest_t *manifest;
  slip__compiler_t compiler;
  slip__build_paths_t paths;  // build_dir is removed by slip__build_deinitialize()
  slip__progress_t progress;
  slip__build_target_t targets[SLIP__BUILD_MAX_TARGETS];
  size_t target_count;
  const char *header_text;  // the generated files
  const char *glue_text;
  slip__closure_file_t *closure;  // of all sources, each file once, in byte order of the paths
  size_t closure_count;
} slip__build_t;

// Compiles and links |manifest| for all targets that |options| ask for and checks the objects. What is wrong goes to |diagnostics|.
// Deinitialise |*out| in any case.
slip_status_t slip__build_run(slip__manifest_t *manifest, const slip_compile_options_t *options, slip_diagnostics_t *diagnostics,
                              slip_allocator_t allocator, slip__build_t *out) SLIP_MUST_USE;
// Frees all and removes the build directory.
void slip__build_deinitialize(slip__build_t *build);

// Packs an image for each target and writes the artifact directory (package.c).
slip_status_t slip__build_package(slip__build_t *build) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_COMPILER_BUILD_H_
