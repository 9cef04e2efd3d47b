// SPDX-License-Identifier: Apache-2.0
#include "slipstream/compile.h"

#include <stdio.h>
#include <string.h>

#include "compiler/build.h"

// An older caller's shorter options get our defaults for the rest; a newer caller's longer ones must be zero behind what is known.
static slip_status_t slip__compile_options(const slip_compile_options_t *given, slip_compile_options_t *out) {
  *out = (slip_compile_options_t)SLIP_COMPILE_OPTIONS_INIT;
  if (!given || given->struct_size < sizeof(uint32_t)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "compile options are missing or not initialised; start from SLIP_COMPILE_OPTIONS_INIT");
  }
  size_t size = given->struct_size < sizeof(*out) ? given->struct_size : sizeof(*out);
  memcpy(out, given, size);
  out->struct_size = (uint32_t)sizeof(*out);
  for (size_t i = sizeof(*out); i < given->struct_size; ++i) {
    if (((const char *)given)[i] != 0)
      return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "the compile options are of a newer library than %s", slip_version());
  }
  if (!out->output || !out->output[0]) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "no output directory is named");
  if (out->contract != 0 && out->contract != SLIP_CONTRACT_PROGRAM && out->contract != SLIP_CONTRACT_KERNEL) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "there is no contract %u", out->contract);
  }
  if (!out->replace && slip__path_exists(out->output)) {
    return SLIP_STATUS(SLIP_CODE_CONFLICT,
                       "\"%s\" exists; name another output, or ask for it to be replaced (option replace, on the command line --force)",
                       out->output);
  }
  return slip_ok_status();
}

static slip_status_t slip__compile(const char *path, const slip_compile_options_t *options, slip_diagnostics_t *diagnostics,
                                   slip_allocator_t allocator) {
  slip__manifest_t manifest;
  slip__build_t build = {0};
  slip__manifest_initialize(&manifest, allocator);
  slip_status_t status = slip__manifest_read(path, options->contract, diagnostics, &manifest);
  if (slip_status_is_ok(status)) status = slip__build_run(&manifest, options, diagnostics, allocator, &build);
  if (slip_status_is_ok(status)) status = slip__build_package(&build);
  if (build.manifest) slip__build_deinitialize(&build);
  slip__manifest_deinitialize(&manifest);
  return status;
}

slip_status_t slip_compile_manifest(const char *manifest_path, const slip_compile_options_t *options,
                                    slip_diagnostics_t **out_diagnostics) {
  slip_allocator_t allocator = slip_allocator_system();
  slip_diagnostics_t *diagnostics = NULL;
  slip_compile_options_t checked;
  if (out_diagnostics) *out_diagnostics = NULL;
  if (!manifest_path || !manifest_path[0]) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "no manifest is named");
  SLIP_RETURN_IF_ERROR(slip__compile_options(options, &checked));
  SLIP_RETURN_IF_ERROR(slip__diagnostics_create(allocator, &diagnostics));
  slip_status_t status = slip__compile(manifest_path, &checked, diagnostics, allocator);
  if (out_diagnostics) {
    *out_diagnostics = diagnostics;
  } else {
    slip_diagnostics_free(diagnostics);
  }
  return status;
}

static void slip__compile_text(char *target, size_t capacity, const char *text) {
  snprintf(target, capacity, "%s", text);
}

slip_status_t slip_compile_probe(const char *compiler, slip_compile_toolchain_t *out) {
  slip__arena_t arena;
  slip__compiler_t found;
  if (!out || out->struct_size != sizeof(*out)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "the toolchain record is missing or not initialised; start from SLIP_COMPILE_TOOLCHAIN_INIT");
  }
  *out = (slip_compile_toolchain_t)SLIP_COMPILE_TOOLCHAIN_INIT;
  slip__arena_initialize(&arena, slip_allocator_system(), 0);
  slip_status_t status = slip__compiler_find(compiler, &arena, &found);
  if (slip_status_is_ok(status)) {
    slip__compile_text(out->program, sizeof(out->program), found.program);
    slip__compile_text(out->version, sizeof(out->version), found.version_line);
    slip__compile_text(out->machine, sizeof(out->machine), found.machine);
    slip__compile_text(out->include_dir, sizeof(out->include_dir), found.include_dir);
  }
  slip__arena_deinitialize(&arena);
  return status;
}
