// SPDX-License-Identifier: Apache-2.0
// What compilers and linkers print, as findings.
#ifndef SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_MESSAGES_H_
#define SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_MESSAGES_H_

#include "compiler/diagnostics.h"

// Reads "file:line:column: error|warning|note: text" lines of gcc and clang; the excerpt lines below them are left out. Relative files get
// "|directory|/" in front; generated ones lose "|build_dir|/". A failed run whose output has no such line gives one finding with the first
// line of the output.
void slip__messages_compiler(const char *output, const char *directory, const char *build_dir, bool failed, slip_diagnostics_t *list);

// What a linker's messages are about.
typedef struct slip__link_names_t {
  const char *target;
  const char *manifest;   // path; stands for the generated file, which refers to what the manifest names
  const char *directory;  // of the manifest
  const char *const *sources;
  size_t source_count;
} slip__link_names_t;

// Reads the output of a failed link: each undefined symbol once for each source that uses it, with what to do about it; else the first
// line.
void slip__messages_linker(const char *output, const slip__link_names_t *names, slip_diagnostics_t *list);

#endif  // SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_MESSAGES_H_
