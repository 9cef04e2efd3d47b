// SPDX-License-Identifier: Apache-2.0
#include "compiler/build.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "compiler/codegen/glue.h"
#include "compiler/toolchain/depfile.h"
#include "compiler/toolchain/messages.h"
#include "compiler/toolchain/object_check.h"
#include "os/topology.h"

// --- Targets ---------------------------------------------------------------------------------------------------------

static void slip__build_target_error(slip__build_t *build, const char *hint, const char *reason, const char *name) {
  slip__finding_t finding = {SLIP_SEVERITY_ERROR, build->manifest->path, 0, 0, "target", hint};
  slip__diagnostics_add(build->diagnostics, &finding, "target \"%s\": %s", name, reason);
}

static void slip__build_add_target(slip__build_t *build, const slip__target_t *target) {
  for (size_t i = 0; i < build->target_count; ++i) {
    if (build->targets[i].target == target) return;
  }
  build->targets[build->target_count++].target = target;  // fits: there are fewer known targets than places
}

static void slip__build_add_target_name(slip__build_t *build, const char *name) {
  if (strcmp(name, "cpu") == 0) {
    bool any = false;
    for (size_t i = 0; i < slip__target_count(); ++i) {
      if (!slip__compiler_targets(&build->compiler, slip__target_at(i))) continue;
      slip__build_add_target(build, slip__target_at(i));
      any = true;
    }
    if (!any)
      slip__build_target_error(build, "use a compiler for x86-64 or aarch64", "the C compiler makes code for another architecture", name);
    return;
  }
  const slip__target_t *target = slip__target_find(name);
  if (!target) {
    slip__build_target_error(build, "the targets are cpu, x86-64-v2, x86-64-v3, x86-64-v4 and aarch64", "there is no such target", name);
  } else if (!slip__compiler_targets(&build->compiler, target)) {
    slip__build_target_error(build, "name a cross compiler (option --compiler or SLIP_CC), such as aarch64-linux-gnu-gcc",
                             "the C compiler makes code for another architecture", name);
  } else {
    slip__build_add_target(build, target);
  }
}

static slip_status_t slip__build_select_targets(slip__build_t *build) {
  const slip__manifest_t *m = build->manifest;
  const char *list = build->options->targets;
  if (!list && m->target_count == 0) list = "cpu";
  for (size_t i = 0; !list && i < m->target_count; ++i) slip__build_add_target_name(build, m->targets[i]);
  while (list && *list) {
    const char *name = NULL;
    size_t length = strcspn(list, ",");
    SLIP_RETURN_IF_ERROR(slip__arena_copy(&build->arena, list, length, &name));
    slip__build_add_target_name(build, name);
    list += length + (list[length] == ',');
  }
  SLIP_RETURN_IF_ERROR(slip__diagnostics_status(build->diagnostics, m->path));
  if (build->target_count == 0) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the list of targets is empty");
  return slip_ok_status();
}

// --- Build directory -------------------------------------------------------------------------------------------------

static slip_status_t slip__build_write(slip__build_t *build, const char *name, const char *text) {
  const char *path = NULL;
  SLIP_RETURN_IF_ERROR(slip__arena_format(&build->arena, &path, "%s/%s", build->paths.build_dir, name));
  return slip__file_write(path, (slip_const_bytes_t){(const uint8_t *)text, strlen(text)}, 0600, false);
}

static slip_status_t slip__build_real_path(slip__build_t *build, const char *path, const char **out) {
  char *real = NULL;
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__path_real(path, build->allocator, &real));
  slip_status_t status = slip__arena_copy(&build->arena, real, strlen(real), out);
  slip__free(build->allocator, real, strlen(real) + 1);
  return status;
}

static slip_status_t slip__build_make_directory(slip__build_t *build) {
  const char *parent = getenv("TMPDIR"), *include = NULL;
  char *made = NULL;
  if (!parent || !parent[0]) parent = "/tmp";
  SLIP_RETURN_IF_ERROR(slip__build_real_path(build, build->manifest->directory, &build->paths.program_dir));
  SLIP_RETURN_IF_ERROR(slip__directory_make_temporary(parent, "slipc-", build->allocator, &made));
  slip_status_t status = slip__build_real_path(build, made, &build->paths.build_dir);
  slip__free(build->allocator, made, strlen(made) + 1);
  SLIP_RETURN_IF_ERROR(status);
  SLIP_RETURN_IF_ERROR(slip__arena_format(&build->arena, &include, "%s/include", build->paths.build_dir));
  SLIP_RETURN_IF_ERROR(slip__directory_make(include, 0700));
  SLIP_RETURN_IF_ERROR(slip__glue_header(build->manifest, &build->arena, &build->header_text));
  SLIP_RETURN_IF_ERROR(slip__glue_source(build->manifest, &build->arena, &build->glue_text));
  SLIP_RETURN_IF_ERROR(slip__build_write(build, "include/slip_program.h", build->header_text));
  SLIP_RETURN_IF_ERROR(slip__build_write(build, "slip_glue.c", build->glue_text));
  return slip__build_write(build, "exports.map", "{ global: slip_object; local: *; };\n");
}

// --- Compiling -------------------------------------------------------------------------------------------------------

// The files of unit |unit| for target |target|: "<build>/<target>-<unit>.<suffix>". Unit |source_count| is the glue.
static slip_status_t slip__build_unit_path(slip__build_t *build, size_t target, size_t unit, const char *suffix, const char **out) {
  return slip__arena_format(&build->arena, out, "%s/%zu-%zu.%s", build->paths.build_dir, target, unit, suffix);
}

static slip_status_t slip__build_compile_job(slip__build_t *build, size_t target, size_t unit, slip__job_t *job) {
  const slip__manifest_t *m = build->manifest;
  const char *object = NULL, *depfile = NULL, *source = NULL;
  SLIP_RETURN_IF_ERROR(slip__build_unit_path(build, target, unit, "o", &object));
  SLIP_RETURN_IF_ERROR(slip__build_unit_path(build, target, unit, "d", &depfile));
  if (unit < m->source_count) {
    source = m->sources[unit];
  } else {
    SLIP_RETURN_IF_ERROR(slip__arena_format(&build->arena, &source, "%s/slip_glue.c", build->paths.build_dir));
  }
  SLIP_RETURN_IF_ERROR(slip__arena_format(&build->arena, &job->name, "%s (%s)", unit < m->source_count ? source : "slip_glue.c",
                                          build->targets[target].target->name));
  return slip__compiler_compile_line(&build->compiler, m, build->targets[target].target, &build->paths, build->options->debug != 0, source,
                                     object, depfile, &build->arena, &job->arguments);
}

static uint32_t slip__build_parallel(const slip__build_t *build) {
  return build->options->jobs ? build->options->jobs : slip__topology_usable_cores();
}

// That the caller has cancelled, or the first job that could not be run at all.
static slip_status_t slip__build_jobs_status(const slip__build_t *build, const slip__job_t *jobs, size_t count) {
  if (build->progress.cancelled) return SLIP_STATUS(SLIP_CODE_CANCELLED, "the compilation was cancelled; nothing of it is left");
  for (size_t i = 0; i < count; ++i) {
    if (!slip_status_is_ok(jobs[i].status)) return slip_status_annotate(slip_status_clone(jobs[i].status), "compiling %s", jobs[i].name);
  }
  return slip_ok_status();
}

static slip_status_t slip__build_compile(slip__build_t *build) {
  size_t units = build->manifest->source_count + 1, count = units * build->target_count;
  slip__job_t *jobs = NULL;
  SLIP_RETURN_IF_ERROR(slip__arena_alloc(&build->arena, count * sizeof(*jobs), (void **)&jobs));
  for (size_t i = 0; i < count; ++i) SLIP_RETURN_IF_ERROR(slip__build_compile_job(build, i / units, i % units, &jobs[i]));
  slip__jobs_run(jobs, count, build->paths.program_dir, slip__build_parallel(build), build->allocator, &build->progress);
  slip_status_t status = slip__build_jobs_status(build, jobs, count);
  for (size_t i = 0; i < count && slip_status_is_ok(status); ++i) {
    if (!jobs[i].ran) continue;
    slip__messages_compiler((const char *)jobs[i].result.output.data, build->manifest->directory, build->paths.build_dir,
                            jobs[i].result.exit_code != 0, build->diagnostics);
  }
  slip__jobs_free(jobs, count, build->allocator);
  SLIP_RETURN_IF_ERROR(status);
  return slip__diagnostics_status(build->diagnostics, build->manifest->path);
}

static slip_status_t slip__build_link_job(slip__build_t *build, size_t target, slip__job_t *job) {
  size_t units = build->manifest->source_count + 1;
  const char **objects = NULL;
  SLIP_RETURN_IF_ERROR(slip__arena_alloc(&build->arena, units * sizeof(*objects), (void **)&objects));
  for (size_t i = 0; i < units; ++i) SLIP_RETURN_IF_ERROR(slip__build_unit_path(build, target, i, "o", &objects[i]));
  SLIP_RETURN_IF_ERROR(slip__arena_format(&build->arena, &build->targets[target].object_path, "%s/%zu.so", build->paths.build_dir, target));
  SLIP_RETURN_IF_ERROR(slip__arena_format(&build->arena, &job->name, "link (%s)", build->targets[target].target->name));
  return slip__compiler_link_line(&build->compiler, &build->paths, objects, units, build->targets[target].object_path, &build->arena,
                                  &job->arguments);
}

static slip_status_t slip__build_link(slip__build_t *build) {
  slip__job_t jobs[SLIP__BUILD_MAX_TARGETS] = {0};
  for (size_t i = 0; i < build->target_count; ++i) SLIP_RETURN_IF_ERROR(slip__build_link_job(build, i, &jobs[i]));
  slip__jobs_run(jobs, build->target_count, build->paths.program_dir, slip__build_parallel(build), build->allocator, &build->progress);
  slip_status_t status = slip__build_jobs_status(build, jobs, build->target_count);
  for (size_t i = 0; i < build->target_count && slip_status_is_ok(status); ++i) {
    if (!jobs[i].ran || jobs[i].result.exit_code == 0) continue;
    const slip__manifest_t *m = build->manifest;
    const slip__link_names_t names = {build->targets[i].target->name, m->path, m->directory, m->sources, m->source_count};
    slip__messages_linker((const char *)jobs[i].result.output.data, &names, build->diagnostics);
  }
  slip__jobs_free(jobs, build->target_count, build->allocator);
  SLIP_RETURN_IF_ERROR(status);
  return slip__diagnostics_status(build->diagnostics, build->manifest->path);
}

static slip_status_t slip__build_check_objects(slip__build_t *build) {
  for (size_t i = 0; i < build->target_count; ++i) {
    slip__build_target_t *built = &build->targets[i];
    SLIP_RETURN_IF_ERROR(slip__file_map(built->object_path, &built->object));
    slip_status_t status = slip__object_check(built->object.bytes, built->target->elf_machine);
    if (slip_status_code(status) != SLIP_CODE_INVALID_ARGUMENT) SLIP_RETURN_IF_ERROR(status);
    if (slip_status_is_ok(status)) continue;
    slip__finding_t finding = {SLIP_SEVERITY_ERROR, build->manifest->path, 0, 0, "object", NULL};
    slip__diagnostics_add(build->diagnostics, &finding, "%s (target %s)", slip_status_message(status), built->target->name);
    slip_status_free(status);
  }
  return slip__diagnostics_status(build->diagnostics, build->manifest->path);
}

// --- Include closure -------------------------------------------------------------------------------------------------

typedef struct slip__closure_visit_t {
  slip__build_t *build;
  size_t capacity;
} slip__closure_visit_t;

// |real| as seen from |directory| ("a/b.h", "../c.h"), at most two levels up: what lies farther away is no part of the program.
static slip_status_t slip__closure_name(slip__arena_t *arena, const char *directory, const char *real, const char **out) {
  static const char *const up[] = {"", "../", "../../"};
  size_t length = strlen(directory);
  *out = NULL;
  for (size_t level = 0; level < sizeof(up) / sizeof(up[0]) && length > 1; ++level) {
    if (strncmp(real, directory, length) == 0 && real[length] == '/')
      return slip__arena_format(arena, out, "%s%s", up[level], real + length + 1);
    while (length > 0 && directory[length - 1] != '/') --length;
    if (length > 0) --length;
  }
  return slip_ok_status();
}

static slip_status_t slip__closure_push(slip__closure_visit_t *visit, const slip__closure_file_t *file) {
  slip__build_t *build = visit->build;
  for (size_t i = 0; i < build->closure_count; ++i) {
    if (strcmp(build->closure[i].path, file->path) == 0) return slip_ok_status();
  }
  if (build->closure_count == visit->capacity) {
    size_t capacity = visit->capacity ? visit->capacity * 2 : 64;
    void *items = NULL;
    SLIP_RETURN_IF_ERROR(slip__arena_alloc(&build->arena, capacity * sizeof(*file), &items));
    if (build->closure_count) memcpy(items, build->closure, build->closure_count * sizeof(*file));
    build->closure = items;
    visit->capacity = capacity;
  }
  build->closure[build->closure_count++] = *file;
  return slip_ok_status();
}

static slip_status_t slip__closure_visit(void *user, const char *path) {
  slip__closure_visit_t *visit = user;
  slip__build_t *build = visit->build;
  slip__closure_file_t file = {NULL, NULL};
  const char *whole = path;
  if (path[0] != '/') SLIP_RETURN_IF_ERROR(slip__arena_format(&build->arena, &whole, "%s/%s", build->paths.program_dir, path));
  SLIP_RETURN_IF_ERROR(slip__build_real_path(build, whole, &file.path));
  // What the manifest reaches by relative paths is the program's own; the rest belongs to the toolchain.
  if (path[0] != '/') SLIP_RETURN_IF_ERROR(slip__closure_name(&build->arena, build->paths.program_dir, file.path, &file.name));
  return slip__closure_push(visit, &file);
}

static int slip__closure_order(const void *a, const void *b) {
  return strcmp(((const slip__closure_file_t *)a)->path, ((const slip__closure_file_t *)b)->path);
}

// All targets read: a header may be included under #ifdef __AVX2__ only.
static slip_status_t slip__build_collect_closure(slip__build_t *build) {
  slip__closure_visit_t visit = {build, 0};
  for (size_t target = 0; target < build->target_count; ++target) {
    for (size_t unit = 0; unit <= build->manifest->source_count; ++unit) {
      const char *path = NULL;
      slip_bytes_t text;
      SLIP_RETURN_IF_ERROR(slip__build_unit_path(build, target, unit, "d", &path));
      SLIP_RETURN_IF_ERROR(slip__file_read(path, 16u << 20, build->allocator, &text));
      slip_status_t status = slip__depfile_read((const char *)text.data, slip__closure_visit, &visit);
      slip__free(build->allocator, text.data, text.size + 1);
      SLIP_RETURN_IF_ERROR(status);
    }
  }
  qsort(build->closure, build->closure_count, sizeof(*build->closure), slip__closure_order);
  return slip_ok_status();
}

// --- Pipeline --------------------------------------------------------------------------------------------------------

slip_status_t slip__build_run(slip__manifest_t *manifest, const slip_compile_options_t *options, slip_diagnostics_t *diagnostics,
                              slip_allocator_t allocator, slip__build_t *build) {
  *build = (slip__build_t){.allocator = allocator, .options = options, .diagnostics = diagnostics, .manifest = manifest};
  slip__arena_initialize(&build->arena, allocator, 0);
  SLIP_RETURN_IF_ERROR(slip__compiler_find(options->compiler, &build->arena, &build->compiler));
  SLIP_RETURN_IF_ERROR(slip__build_select_targets(build));
  build->progress.report = options->progress;
  build->progress.user = options->progress_user;
  build->progress.ask_cancelled = options->cancelled;
  build->progress.total = (uint32_t)((manifest->source_count + 2) * build->target_count);
  SLIP_RETURN_IF_ERROR(slip__build_make_directory(build));
  SLIP_RETURN_IF_ERROR(slip__build_compile(build));
  SLIP_RETURN_IF_ERROR(slip__build_link(build));
  SLIP_RETURN_IF_ERROR(slip__build_check_objects(build));
  return slip__build_collect_closure(build);
}

void slip__build_deinitialize(slip__build_t *build) {
  for (size_t i = 0; i < build->target_count; ++i) slip__file_unmap(&build->targets[i].object);
  // A leftover in the temporary directory is no reason to fail a compilation that has a result.
  if (build->paths.build_dir) slip_status_free(slip__directory_remove_all(build->paths.build_dir));
  slip__arena_deinitialize(&build->arena);
}
