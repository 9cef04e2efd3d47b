// SPDX-License-Identifier: Apache-2.0
// The pipeline up to linked objects, with the machine's C compiler.
#include "compiler/build.h"

#include <stdlib.h>

#include "base/hash.h"
#include "compiler/program_test.h"
#include "slip_test.h"

typedef struct test_build_t {
  slip__manifest_t manifest;
  slip__build_t build;
  slip_diagnostics_t *diagnostics;
  slip_compile_options_t options;
  slip_status_t status;
} test_build_t;

static void run(test_build_t *t, const char *directory) {
  char path[600];
  snprintf(path, sizeof(path), "%s/m.json", directory);
  SLIP_CHECK_OK(slip__diagnostics_create(slip_allocator_system(), &t->diagnostics));
  slip__manifest_initialize(&t->manifest, slip_allocator_system());
  SLIP_CHECK_OK(slip__manifest_read(path, 0, t->diagnostics, &t->manifest));
  t->status = slip__build_run(&t->manifest, &t->options, t->diagnostics, slip_allocator_system(), &t->build);
  if (slip_status_code(t->status) == SLIP_CODE_UNSUPPORTED) slip_test_skip("%s", slip_status_message(t->status));
}

static void finish(test_build_t *t) {
  slip__build_deinitialize(&t->build);
  slip__manifest_deinitialize(&t->manifest);
  slip_diagnostics_free(t->diagnostics);
  *t = (test_build_t){0};
}

static test_build_t new_build(const char *targets) {
  return (test_build_t){.options = {.targets = targets}};
}

SLIP_TEST_TIMEOUT(build_makes_checked_objects_for_each_target, 120) {
  test_build_t t = new_build("cpu");
  run(&t, test_program_make("p", test_program_kernel));
  SLIP_CHECK_OK(t.status);
  SLIP_CHECK(t.build.target_count >= 1);
  SLIP_CHECK_EQ(t.build.progress.done, t.build.progress.total);
  for (size_t i = 0; i < t.build.target_count; ++i) SLIP_CHECK(t.build.targets[i].object.bytes.size > 1000);
  size_t own = 0, foreign = 0;
  for (size_t i = 0; i < t.build.closure_count; ++i) {
    const char *name = t.build.closure[i].name;
    if (name) SLIP_CHECK(strcmp(name, "src/a.c") == 0 || strcmp(name, "src/k.c") == 0 || strcmp(name, "inc/scale.h") == 0);
    own += name != NULL;
    foreign += name == NULL;
  }
  SLIP_CHECK_EQ(own, 3);
  SLIP_CHECK(foreign >= 3);  // kernel headers and the compiler's
  char build_dir[512];
  snprintf(build_dir, sizeof(build_dir), "%s", t.build.paths.build_dir);
  finish(&t);
  SLIP_CHECK(!slip__path_exists(build_dir));
}

SLIP_TEST_TIMEOUT(build_same_program_elsewhere_gives_the_same_bytes, 120) {
  slip__hash128_t hash[2];
  for (int i = 0; i < 2; ++i) {
    test_build_t t = new_build(NULL);
    t.options.jobs = (uint32_t)(i + 1);
    t.options.debug = 1;
    char directory[16];
    snprintf(directory, sizeof(directory), "%s", i ? "b/longer" : "a");
    run(&t, test_program_make(directory, test_program_kernel));
    SLIP_CHECK_OK(t.status);
    hash[i] = slip__hash128(t.build.targets[0].object.bytes);
    finish(&t);
  }
  SLIP_CHECK(slip__hash128_equal(hash[0], hash[1]));
}

static void check_refused(const char *kernel_text, const char *code, const char *message, const char *file, uint32_t line) {
  static int count;
  char name[16];
  snprintf(name, sizeof(name), "r%d", count++);
  test_build_t t = new_build(NULL);
  run(&t, test_program_make(name, kernel_text));
  SLIP_CHECK_CODE(t.status, SLIP_CODE_INVALID_ARGUMENT);
  const slip_diagnostic_t *first = NULL;
  for (size_t i = 0; !first; ++i) {
    first = slip_diagnostics_at(t.diagnostics, i);
    SLIP_CHECK(first != NULL);
    if (first->severity != SLIP_SEVERITY_ERROR) first = NULL;
  }
  SLIP_CHECK_STR(first->code, code);
  if (!strstr(first->message, message)) slip_test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", first->message, message);
  SLIP_CHECK(strstr(first->file, file) != NULL);
  SLIP_CHECK_EQ(first->line, line);
  finish(&t);
}

#define KERNEL_HEAD "#include \"slip_program.h\"\n"
#define KERNEL_OPEN "void k_run(const slip_kargs_t *a, slip_block_t b) { (void)a, (void)b;\n"

SLIP_TEST_TIMEOUT(build_errors_are_findings, 240) {
  check_refused(KERNEL_HEAD KERNEL_OPEN "  foo bar;\n}\n", "c-compiler", "foo", "src/k.c", 3);
  check_refused(KERNEL_HEAD "void k_run(const slip_kargs_t *a) { (void)a; }\n", "c-compiler", "k_run", "src/k.c", 2);
  check_refused(KERNEL_HEAD "const char *when = __DATE__;\n" KERNEL_OPEN "}\n", "c-compiler", "reproducible", "src/k.c", 2);
  check_refused("void k_run(void) {}\n", "c-compiler", "k_run", "src/k.c", 1);  // also where the header is not asked for
  check_refused("int unused_name;\n", "undefined-symbol", "k_run", "m.json", 0);
  check_refused(KERNEL_HEAD "float expf(float);\n" KERNEL_OPEN "*(float *)a->scratch = expf(*(float *)a->scratch);\n}\n",
                "undefined-symbol", "expf", "src/k.c", 0);
  check_refused(KERNEL_HEAD "int x; __attribute__((constructor)) static void c(void) { x = 1; }\n" KERNEL_OPEN "}\n", "object",
                "constructor", "m.json", 0);
}

SLIP_TEST_TIMEOUT(build_library_calls_of_the_compiler_are_there, 120) {
  test_build_t t = new_build(NULL);
  run(&t,
      test_program_make("p", KERNEL_HEAD
                        "#include <assert.h>\n#include <string.h>\nstruct big { char c[9000]; };\n" KERNEL_OPEN
                        "struct big *s = a->scratch; s[0] = s[1]; memmove(s, &s[2], sizeof(s[0]) - b.index); memset(&s[3], 7, b.index);\n"
                        "s[4].c[0] = (char)memcmp(s, &s[1], b.count); assert(b.count > 0);\n"
                        "unsigned __int128 *w = a->scratch; w[0] = w[1] / w[2];\n}\n"));
  SLIP_CHECK_OK(t.status);
  finish(&t);
}

SLIP_TEST(build_refuses_targets_and_compilers_that_are_none) {
  static const struct {
    const char *targets;
    const char *message;
  } cases[] = {{"x86-64-v9", "no such target"}, {"", "empty"}, {"cpu,gpu", "no such target"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    char name[16];
    snprintf(name, sizeof(name), "t%zu", i);
    test_build_t t = new_build(cases[i].targets);
    run(&t, test_program_make(name, test_program_kernel));
    SLIP_CHECK_ERROR(t.status, SLIP_CODE_INVALID_ARGUMENT, cases[i].message);
    finish(&t);
  }
  test_build_t t = new_build(NULL);
  t.options.compiler = "no-such-compiler";
  slip__manifest_initialize(&t.manifest, slip_allocator_system());
  SLIP_CHECK_OK(slip__diagnostics_create(slip_allocator_system(), &t.diagnostics));
  t.status = slip__build_run(&t.manifest, &t.options, t.diagnostics, slip_allocator_system(), &t.build);
  SLIP_CHECK_ERROR(t.status, SLIP_CODE_UNSUPPORTED, "no-such-compiler");
  finish(&t);
}
