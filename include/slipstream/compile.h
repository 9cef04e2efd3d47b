// SPDX-License-Identifier: Apache-2.0
// libslipc: programs in, artifacts out. A second library; it never prints, never exits, never touches a device.
#ifndef SLIPSTREAM_COMPILE_H_
#define SLIPSTREAM_COMPILE_H_

#include "slipstream/status.h"

SLIP_EXTERN_C_BEGIN

typedef enum slip_severity_e {
  SLIP_SEVERITY_ERROR = 1,
  SLIP_SEVERITY_WARNING = 2,
  SLIP_SEVERITY_NOTE = 3,
} slip_severity_e;

// One finding. All strings are owned by the list.
typedef struct slip_diagnostic_t {
  uint32_t severity;  // slip_severity_e
  uint32_t line;      // 1-based; 0: unknown
  uint32_t column;    // 1-based; 0: unknown
  uint32_t reserved;
  const char *file;  // "" if none
  const char *code;  // stable short name: "manifest-type", "c-compiler"
  const char *message;
  const char *hint;  // remedy; "" if none
} slip_diagnostic_t;

typedef struct slip_diagnostics_t slip_diagnostics_t;
SLIP_API size_t slip_diagnostics_count(const slip_diagnostics_t *list);
// Borrowed from the list; NULL if out of range.
SLIP_API const slip_diagnostic_t *slip_diagnostics_at(const slip_diagnostics_t *list, size_t index);
// NULL is fine.
SLIP_API void slip_diagnostics_free(slip_diagnostics_t *list);

// Called from the compiling threads, one call at a time: |done| of |total| steps, with the name of the step just finished.
typedef void (*slip_compile_progress_fn_t)(void *user, uint32_t done, uint32_t total, const char *step);

typedef struct slip_compile_options_t {
  uint32_t struct_size;
  uint32_t contract;     // slip_contract_e; 0: the manifest's
  const char *output;    // artifact directory to make; must not exist unless |replace|
  const char *targets;   // comma-separated: "cpu" (all of this architecture's), "x86-64-v3", ...; NULL: the manifest's, else "cpu"
  const char *compiler;  // C compiler; NULL: $SLIP_CC, else gcc, else clang, else cc
  uint32_t jobs;         // 0: as many as the process may use
  uint32_t replace;      // 1: replace an existing artifact at |output| atomically
  uint32_t debug;        // 1: -g -O1 and checked builds
  uint32_t reserved;
  slip_compile_progress_fn_t progress;
  void *progress_user;  // also of |cancelled|
  // Asked from the compiling threads before each step, one call at a time: true ends the compilation (CANCELLED) once the steps that run
  // have ended. May be NULL.
  bool (*cancelled)(void *user);
} slip_compile_options_t;

#ifdef __cplusplus
#define SLIP_COMPILE_OPTIONS_INIT (slip_initial<slip_compile_options_t>())
#else
#define SLIP_COMPILE_OPTIONS_INIT \
  { .struct_size = (uint32_t)sizeof(slip_compile_options_t) }
#endif

// Compiles the all-C program described by the manifest at |manifest_path| into an artifact directory. The format of the manifest is in
// docs/manifest.md.
// |*out_diagnostics| (may be NULL) receives the findings, also on success (warnings); free with slip_diagnostics_free().
// Status: INVALID_ARGUMENT (the program is wrong: see the diagnostics), IO, NOT_FOUND, UNSUPPORTED (no C compiler), CONFLICT (output
// exists), CANCELLED, OUT_OF_MEMORY. On failure nothing is left at |output|. Thread-safe; blocks while the C compiler runs (no shell is
// involved).
SLIP_API slip_status_t slip_compile_manifest(const char *manifest_path, const slip_compile_options_t *options,
                                             slip_diagnostics_t **out_diagnostics) SLIP_MUST_USE;

// The C compiler that slip_compile_manifest() would use. Texts that do not fit are cut.
typedef struct slip_compile_toolchain_t {
  uint32_t struct_size;
  uint32_t reserved;
  char program[256];       // as it is started
  char version[256];       // first line of --version
  char machine[64];        // "x86_64-linux-gnu"
  char include_dir[1024];  // where the kernel headers are
} slip_compile_toolchain_t;

#ifdef __cplusplus
#define SLIP_COMPILE_TOOLCHAIN_INIT (slip_initial<slip_compile_toolchain_t>())
#else
#define SLIP_COMPILE_TOOLCHAIN_INIT \
  { .struct_size = (uint32_t)sizeof(slip_compile_toolchain_t) }
#endif

// Looks for |compiler| (NULL: as slip_compile_options_t says). Runs it twice. |*out| is zeroed but for its size on failure. Thread-safe.
// Status: UNSUPPORTED (none found, or no kernel headers; says what to install or set), INVALID_ARGUMENT, OUT_OF_MEMORY.
SLIP_API slip_status_t slip_compile_probe(const char *compiler, slip_compile_toolchain_t *out) SLIP_MUST_USE;

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_COMPILE_H_
