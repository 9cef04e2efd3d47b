// SPDX-License-Identifier: Apache-2.0
// The public function: artifacts, their keys, and what failure leaves.
#include "slipstream/compile.h"

#include "compiler/program_test.h"
#include "os/file.h"
#include "slip_test.h"
#include "slipstream/artifact.h"

static const char *path_in_test(const char *name) {
  static char paths[8][700];
  static int next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof(paths[0]), "%s/%s", slip_test_temporary_directory(), name);
  return path;
}

static slip_compile_options_t options_for(const char *output) {
  slip_compile_options_t options = SLIP_COMPILE_OPTIONS_INIT;
  options.output = output;
  options.targets = "cpu";
  return options;
}

static slip_status_t compile(const char *directory, const slip_compile_options_t *options) {
  char manifest[700];
  snprintf(manifest, sizeof(manifest), "%s/m.json", directory);
  slip_status_t status = slip_compile_manifest(manifest, options, NULL);
  if (slip_status_code(status) == SLIP_CODE_UNSUPPORTED) slip_test_skip("%s", slip_status_message(status));
  return status;
}

// The key of the program in |directory|, compiled to |output| and opened.
static void key_of(const char *directory, const slip_compile_options_t *options, char out_key[33]) {
  slip_artifact_t *artifact = NULL;
  slip_const_bytes_t image;
  SLIP_CHECK_OK(compile(directory, options));
  SLIP_CHECK_OK(slip_artifact_open(options->output, NULL, slip_allocator_system(), &artifact));
  SLIP_CHECK_OK(slip_artifact_verify(artifact));
  SLIP_CHECK_OK(slip_artifact_image(artifact, &image));
  SLIP_CHECK_STR(slip_artifact_name(artifact), "t");
  snprintf(out_key, 33, "%s", slip_artifact_key(artifact));
  SLIP_CHECK_EQ(strlen(out_key), 32);
  slip_artifact_release(artifact);
}

SLIP_TEST_TIMEOUT(compile_key_depends_on_content_and_not_on_place, 300) {
  char base[33], other[33];
  slip_compile_options_t options = options_for(path_in_test("0.slipc"));
  key_of(test_program_make("p", test_program_kernel), &options, base);

  options.output = path_in_test("1.slipc");
  key_of(test_program_make("far/away/q", test_program_kernel), &options, other);
  SLIP_CHECK_STR(other, base);

  options.output = path_in_test("2.slipc");  // another kernel
  char changed[2048];
  snprintf(changed, sizeof(changed), "%s\n// changed\n", test_program_kernel);
  key_of(test_program_make("r", changed), &options, other);
  SLIP_CHECK(strcmp(other, base) != 0);

  options.output = path_in_test("3.slipc");  // another header of the closure
  const char *directory = test_program_make("s", test_program_kernel);
  char header[700];
  snprintf(header, sizeof(header), "%s/inc/scale.h", directory);
  SLIP_CHECK_EQ(remove(header), 0);
  test_program_write(directory, "inc/scale.h", "static inline float scale(float x) { return 2 * x * FACTOR; }\n");
  key_of(directory, &options, other);
  SLIP_CHECK(strcmp(other, base) != 0);

  options.output = path_in_test("4.slipc");
  options.contract = SLIP_CONTRACT_PROGRAM;
  key_of(test_program_make("u", test_program_kernel), &options, other);
  SLIP_CHECK(strcmp(other, base) != 0);

  options = options_for(path_in_test("5.slipc"));
  options.debug = 1;
  key_of(test_program_make("v", test_program_kernel), &options, other);
  SLIP_CHECK(strcmp(other, base) != 0);
}

SLIP_TEST_TIMEOUT(compile_never_overwrites_unasked, 120) {
  const char *directory = test_program_make("p", test_program_kernel);
  slip_compile_options_t options = options_for(path_in_test("a.slipc"));
  SLIP_CHECK_OK(compile(directory, &options));
  SLIP_CHECK_CODE(compile(directory, &options), SLIP_CODE_CONFLICT);
  options.replace = 1;
  SLIP_CHECK_OK(compile(directory, &options));
  SLIP_CHECK_OK(slip__directory_make(path_in_test("mine"), 0700));
  options.output = path_in_test("mine");  // a directory, but no artifact
  SLIP_CHECK_ERROR(compile(directory, &options), SLIP_CODE_CONFLICT, "mine");
  SLIP_CHECK(slip__path_is_directory(path_in_test("mine")));
}

SLIP_TEST_TIMEOUT(compile_failure_leaves_the_old_artifact, 120) {
  slip_diagnostics_t *diagnostics = NULL;
  slip_artifact_t *artifact = NULL;
  slip_compile_options_t options = options_for(path_in_test("a.slipc"));
  SLIP_CHECK_OK(compile(test_program_make("p", test_program_kernel), &options));
  options.replace = 1;
  char manifest[700];
  snprintf(manifest, sizeof(manifest), "%s/m.json", test_program_make("bad", "void k_run(void) { broken }\n"));
  SLIP_CHECK_CODE(slip_compile_manifest(manifest, &options, &diagnostics), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK(slip_diagnostics_count(diagnostics) > 0);
  slip_diagnostics_free(diagnostics);
  SLIP_CHECK_OK(slip_artifact_open(path_in_test("a.slipc"), NULL, slip_allocator_system(), &artifact));
  SLIP_CHECK_OK(slip_artifact_verify(artifact));
  slip_artifact_release(artifact);
}

SLIP_TEST(compile_refuses_wrong_options) {
  slip_compile_options_t options = SLIP_COMPILE_OPTIONS_INIT;
  SLIP_CHECK_ERROR(slip_compile_manifest("m.json", &options, NULL), SLIP_CODE_INVALID_ARGUMENT, "no output");
  SLIP_CHECK_ERROR(slip_compile_manifest(NULL, &options, NULL), SLIP_CODE_INVALID_ARGUMENT, "no manifest");
  SLIP_CHECK_CODE(slip_compile_manifest("m.json", NULL, NULL), SLIP_CODE_INVALID_ARGUMENT);
  options = options_for("x");
  options.contract = 9;
  SLIP_CHECK_ERROR(slip_compile_manifest("m.json", &options, NULL), SLIP_CODE_INVALID_ARGUMENT, "contract 9");
  struct {
    slip_compile_options_t options;
    uint64_t more;
  } newer = {options_for("x"), 1};
  newer.options.struct_size = (uint32_t)sizeof(newer);
  SLIP_CHECK_ERROR(slip_compile_manifest("m.json", &newer.options, NULL), SLIP_CODE_UNSUPPORTED, "newer");
  newer.more = 0;
  SLIP_CHECK_CODE(slip_compile_manifest(path_in_test("none.json"), &newer.options, NULL), SLIP_CODE_NOT_FOUND);
}

SLIP_TEST(compile_probe_finds_a_compiler_or_says_what_to_do) {
  slip_compile_toolchain_t toolchain = SLIP_COMPILE_TOOLCHAIN_INIT;
  SLIP_CHECK_ERROR(slip_compile_probe("no-such-compiler", &toolchain), SLIP_CODE_UNSUPPORTED, "no-such-compiler");
  SLIP_CHECK_ERROR(slip_compile_probe("/bin/false", &toolchain), SLIP_CODE_UNSUPPORTED, "/bin/false");
  SLIP_CHECK_OK(slip_compile_probe(NULL, &toolchain));
  SLIP_CHECK(toolchain.version[0] && toolchain.machine[0] && toolchain.include_dir[0] == '/');
  toolchain.struct_size = 4;
  SLIP_CHECK_CODE(slip_compile_probe(NULL, &toolchain), SLIP_CODE_INVALID_ARGUMENT);
}

static slip_status_t count_entry(void *user, const char *name, bool is_directory) {
  (void)name, (void)is_directory;
  ++*(size_t *)user;
  return slip_ok_status();
}

static uint32_t steps_left;
static bool cancel_after_some(void *user) {
  (void)user;
  return steps_left-- == 0;
}

SLIP_TEST_TIMEOUT(compile_cancelled_at_any_step_leaves_nothing, 300) {
  char manifest[700];
  slip_compile_options_t options = options_for(path_in_test("c.slipc"));
  options.jobs = 2;
  options.cancelled = cancel_after_some;
  SLIP_CHECK_EQ(setenv("TMPDIR", slip_test_temporary_directory(), 1), 0);
  snprintf(manifest, sizeof(manifest), "%s/m.json", test_program_make("p", test_program_kernel));
  slip_code_t code = SLIP_CODE_CANCELLED;
  uint32_t cancelled = 0;
  for (uint32_t steps = 0; code == SLIP_CODE_CANCELLED; ++steps) {
    SLIP_CHECK(!slip__path_exists(options.output));
    steps_left = steps;
    slip_status_t status = slip_compile_manifest(manifest, &options, NULL);
    code = slip_status_code(status);
    if (code == SLIP_CODE_UNSUPPORTED) slip_test_skip("%s", slip_status_message(status));
    slip_status_free(status);
    cancelled += code == SLIP_CODE_CANCELLED;
    size_t entries = 0;
    SLIP_CHECK_OK(slip__directory_list(slip_test_temporary_directory(), count_entry, &entries));
    SLIP_CHECK_EQ(entries, code == SLIP_CODE_OK ? 2 : 1);  // the program, and its artifact
  }
  SLIP_CHECK_EQ(code, SLIP_CODE_OK);
  SLIP_CHECK(cancelled > 2);
}
