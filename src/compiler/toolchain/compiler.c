// SPDX-License-Identifier: Apache-2.0
#include "compiler/toolchain/compiler.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "os/dylib.h"
#include "os/file.h"
#include "os/process.h"

#define SLIP__COMPILER_ASK_NS (20ull * 1000 * 1000 * 1000)

// Runs |program| |option| and copies what it prints. NOT_FOUND if it does not run or fails.
static slip_status_t slip__compiler_ask(const char *program, const char *option, slip__arena_t *arena, const char **out) {
  const char *const arguments[] = {"env", "LC_ALL=C", program, option, NULL};
  slip__process_result_t result = {0, {NULL, 0}};
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__process_run(arguments, NULL, SLIP__COMPILER_ASK_NS, arena->allocator, &result));
  slip_status_t status = slip_ok_status();
  if (result.exit_code != 0) {
    status = SLIP_STATUS(SLIP_CODE_NOT_FOUND, "\"%s %s\" ended with exit code %d", program, option, result.exit_code);
  } else {
    status = slip__arena_copy(arena, (const char *)result.output.data, result.output.size, out);
  }
  slip__free(arena->allocator, result.output.data, result.output.size + 1);
  return status;
}

static slip_status_t slip__compiler_first_line(slip__arena_t *arena, const char *text, const char **out) {
  return slip__arena_copy(arena, text, strcspn(text, "\r\n"), out);
}

static slip_status_t slip__compiler_real_path(slip__arena_t *arena, const char *path, const char **out) {
  char *real = NULL;
  SLIP_RETURN_IF_ERROR(slip__path_real(path, arena->allocator, &real));
  slip_status_t status = slip__arena_copy(arena, real, strlen(real), out);
  slip__free(arena->allocator, real, strlen(real) + 1);
  return status;
}

static slip_status_t slip__compiler_try(const char *program, slip__arena_t *arena, slip__compiler_t *out) {
  const char *machine = NULL;
  SLIP_RETURN_IF_ERROR(slip__compiler_ask(program, "--version", arena, &out->identity));
  SLIP_RETURN_IF_ERROR(slip__compiler_ask(program, "-dumpmachine", arena, &machine));
  SLIP_RETURN_IF_ERROR(slip__compiler_first_line(arena, out->identity, &out->version_line));
  SLIP_RETURN_IF_ERROR(slip__compiler_first_line(arena, machine, &out->machine));
  if (strchr(program, '/')) return slip__compiler_real_path(arena, program, &out->program);  // compilations run in the program's directory
  return slip__arena_copy(arena, program, strlen(program), &out->program);
}

// $SLIP_INCLUDE_DIR; else "include" or "../include" beside the library that holds this code; else where the build was told to install or
// found the headers.
static slip_status_t slip__compiler_headers(slip__arena_t *arena, const char **out) {
  const char *candidates[5] = {getenv("SLIP_INCLUDE_DIR"), NULL, NULL, SLIP_INSTALL_INCLUDE_DIR, SLIP_SOURCE_INCLUDE_DIR};
  char *home = NULL;
  *out = NULL;
  slip_status_t status = slip__dylib_directory_of((const void *)(uintptr_t)slip__compiler_headers, arena->allocator, &home);
  if (slip_status_code(status) == SLIP_CODE_OUT_OF_MEMORY) return status;
  slip_status_free(status);  // unknown: two candidates less
  if (home) {
    status = slip__arena_format(arena, &candidates[1], "%s/../include", home);
    if (slip_status_is_ok(status)) status = slip__arena_format(arena, &candidates[2], "%s/../../include", home);  // lib/<triplet>/
    slip__free(arena->allocator, home, strlen(home) + 1);
    SLIP_RETURN_IF_ERROR(status);
  }
  for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); ++i) {
    const char *header = NULL;
    if (!candidates[i] || !candidates[i][0]) continue;
    SLIP_RETURN_IF_ERROR(slip__arena_format(arena, &header, "%s/slipstream/kernel/object.h", candidates[i]));
    if (!slip__path_exists(header)) continue;
    return slip__compiler_real_path(arena, candidates[i], out);
  }
  return SLIP_STATUS(
      SLIP_CODE_UNSUPPORTED,
      "the kernel headers (slipstream/kernel/object.h) are not found in %s; set SLIP_INCLUDE_DIR to the directory that holds them",
      SLIP_INSTALL_INCLUDE_DIR);
}

slip_status_t slip__compiler_find(const char *program, slip__arena_t *arena, slip__compiler_t *out) {
  static const char *const defaults[] = {"gcc", "clang", "cc"};
  const char *asked = program && program[0] ? program : getenv("SLIP_CC");
  if (asked && !asked[0]) asked = NULL;
  *out = (slip__compiler_t){0};
  slip_status_t status = slip_ok_status();
  if (asked) {
    status = slip__compiler_try(asked, arena, out);
  } else {
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); ++i) {
      slip_status_free(status);
      status = slip__compiler_try(defaults[i], arena, out);
      if (slip_status_is_ok(status)) break;
    }
  }
  if (slip_status_code(status) == SLIP_CODE_OUT_OF_MEMORY) return status;
  if (!slip_status_is_ok(status)) {
    slip_status_free(status);
    if (asked)
      return SLIP_STATUS(SLIP_CODE_UNSUPPORTED,
                         "the C compiler \"%s\" does not run; name one that does (it is a program, not a command line)", asked);
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "no C compiler (gcc, clang or cc) is in PATH; install gcc or set SLIP_CC");
  }
  return slip__compiler_headers(arena, &out->include_dir);
}

bool slip__compiler_targets(const slip__compiler_t *compiler, const slip__target_t *target) {
  size_t length = strlen(target->architecture);
  return strncmp(compiler->machine, target->architecture, length) == 0 && (compiler->machine[length] == '-' || !compiler->machine[length]);
}

// A growing argument list. Like slip__text_t it keeps the first failure for the end.
typedef struct slip__arguments_t {
  slip__arena_t *arena;
  const char **items;
  size_t count;
  size_t capacity;
  slip_status_t status;
} slip__arguments_t;

static void slip__arguments_push(slip__arguments_t *list, const char *item) {
  if (!slip_status_is_ok(list->status)) return;
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? list->capacity * 2 : 64;
    void *items = NULL;
    list->status = slip__arena_alloc(list->arena, capacity * sizeof(*list->items), &items);
    if (!items) return;
    if (list->count) memcpy(items, list->items, list->count * sizeof(*list->items));
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = item;
}

static void slip__arguments_format(slip__arguments_t *list, const char *format, ...) SLIP_PRINTF(2, 3);
static void slip__arguments_format(slip__arguments_t *list, const char *format, ...) {
  const char *item = NULL;
  va_list arguments;
  va_start(arguments, format);
  if (slip_status_is_ok(list->status)) list->status = slip__arena_vformat(list->arena, &item, format, arguments);
  va_end(arguments);
  slip__arguments_push(list, item);
}

static void slip__arguments_push_all(slip__arguments_t *list, const char *const *items, size_t count) {
  for (size_t i = 0; i < count; ++i) slip__arguments_push(list, items[i]);
}

static slip_status_t slip__arguments_finish(slip__arguments_t *list, const char *const **out) {
  slip__arguments_push(list, NULL);
  *out = slip_status_is_ok(list->status) ? list->items : NULL;
  return list->status;
}

// Why each: -fno-math-errno, -fno-trapping-math and contraction let loops with sqrt, selects and a*b+c vectorise without the value changes
// of -ffast-math. Not -ffreestanding: it would turn sqrtf, fmaf and memcpy from builtins into calls. No stack protector and no fortify:
// both call into the C library, which the object does not have.
static const char *const slip__compile_flags[] = {
    "-std=gnu17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-semantic-interposition",
    "-fno-plt",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fno-ident",
    "-fno-common",
    "-ftls-model=local-dynamic",
    "-fdiagnostics-color=never",
    "-Wall",
    "-Wextra",
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-Werror=return-type",
    "-Werror=date-time",
};

const char *const *slip__compiler_flags(size_t *out_count) {
  *out_count = sizeof(slip__compile_flags) / sizeof(slip__compile_flags[0]);
  return slip__compile_flags;
}

slip_status_t slip__compiler_compile_line(const slip__compiler_t *compiler, const slip__manifest_t *m, const slip__target_t *target,
                                          const slip__build_paths_t *paths, bool debug, const char *source, const char *object,
                                          const char *depfile, slip__arena_t *arena, const char *const **out) {
  slip__arguments_t list = {.arena = arena};
  bool glue = source[0] == '/';
  slip__arguments_push(&list, "env");
  slip__arguments_push(&list, "LC_ALL=C");  // messages are parsed: English, please
  slip__arguments_push(&list, compiler->program);
  slip__arguments_push_all(&list, slip__compile_flags, sizeof(slip__compile_flags) / sizeof(slip__compile_flags[0]));
  for (size_t i = 0; i < SLIP__TARGET_MAX_FLAGS && target->flags[i]; ++i) slip__arguments_push(&list, target->flags[i]);
  slip__arguments_push(&list, debug ? "-O1" : "-O3");
  slip__arguments_push(&list, debug ? "-g" : "-g0");
  slip__arguments_push(&list, debug ? "-DSLIP_DEBUG" : "-DNDEBUG");
  // Paths of this machine stay out of the object: the same program gives the same bytes anywhere.
  slip__arguments_format(&list, "-ffile-prefix-map=%s=.", paths->program_dir);
  slip__arguments_format(&list, "-ffile-prefix-map=%s=slip-build", paths->build_dir);
  slip__arguments_format(&list, "-ffile-prefix-map=%s=slip-include", compiler->include_dir);
  // Loop-to-call conversion inside memcpy itself would recurse.
  if (glue) slip__arguments_push(&list, "-fno-builtin");
  if (glue && !strstr(compiler->identity, "clang")) slip__arguments_push(&list, "-fno-tree-loop-distribute-patterns");
  for (size_t i = 0; !glue && i < m->cflag_count; ++i) slip__arguments_push(&list, m->cflags[i]);
  for (size_t i = 0; !glue && i < m->define_count; ++i) {
    slip__arguments_format(&list, "-D%s%s%s", m->defines[i].name, m->defines[i].value ? "=" : "",
                           m->defines[i].value ? m->defines[i].value : "");
  }
  slip__arguments_format(&list, "-I%s/include", paths->build_dir);
  slip__arguments_format(&list, "-I%s", compiler->include_dir);
  for (size_t i = 0; i < m->include_dir_count; ++i) slip__arguments_format(&list, "-I%s", m->include_dirs[i]);
  // Ahead of each source, whether it asks for it or not: a function whose type is not the ABI's must not link by its name alone.
  slip__arguments_push(&list, "-include");
  slip__arguments_push(&list, "slip_program.h");
  slip__arguments_push(&list, "-MD");
  slip__arguments_push(&list, "-MF");
  slip__arguments_push(&list, depfile);
  slip__arguments_push(&list, "-c");
  slip__arguments_push(&list, source);
  slip__arguments_push(&list, "-o");
  slip__arguments_push(&list, object);
  return slip__arguments_finish(&list, out);
}

slip_status_t slip__compiler_link_line(const slip__compiler_t *compiler, const slip__build_paths_t *paths, const char *const *objects,
                                       size_t object_count, const char *output, slip__arena_t *arena, const char *const **out) {
  static const char *const flags[] = {
      "-shared",    "-nostdlib",   "-nostartfiles",        "-Wl,-z,defs",    "-Wl,--build-id=none",    "-Wl,-z,noexecstack", "-Wl,-z,relro",
      "-Wl,-z,now", "-Wl,-z,text", "-Wl,--hash-style=gnu", "-Wl,-Bsymbolic", "-Wl,--exclude-libs,ALL", "-Wl,--no-undefined",
  };
  slip__arguments_t list = {.arena = arena};
  slip__arguments_push(&list, "env");
  slip__arguments_push(&list, "LC_ALL=C");  // messages are parsed: English, please
  slip__arguments_push(&list, compiler->program);
  slip__arguments_push_all(&list, flags, sizeof(flags) / sizeof(flags[0]));
  slip__arguments_push(&list, "-Xlinker");  // not -Wl: a comma in the path would end it
  slip__arguments_format(&list, "--version-script=%s/exports.map", paths->build_dir);
  slip__arguments_push_all(&list, objects, object_count);
  slip__arguments_push(&list, "-lgcc");  // static: 128-bit division, half-precision conversions
  slip__arguments_push(&list, "-o");
  slip__arguments_push(&list, output);
  return slip__arguments_finish(&list, out);
}
