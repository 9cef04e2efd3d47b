// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli_support.h"

#define AXPY in_source("examples/axpy/axpy.json")

static void write_text(const char *name, const char *text) {
  write_file(name, text, strlen(text));
}

SLIP_TEST_TIMEOUT(compile_makes_an_artifact_once, 120) {
  SLIP(0, "a.slipc", "compile", AXPY, "-o", "a.slipc");
  SLIP_CHECK_EQ(access(in_test("a.slipc/compiled_meta.json"), R_OK), 0);
  SLIP(1, "CONFLICT", "compile", AXPY, "-o", "a.slipc");
  SLIP(0, NULL, "compile", AXPY, "-o", "a.slipc", "--force");
  SLIP(0, "axpy.slipc", "compile", AXPY);
  SLIP_CHECK_EQ(count_files("slip"), 2);  // nothing temporary is left beside them
  json_t *document = SLIP_JSON(0, "compile", AXPY, "-o", "b.slipc", "--target", "cpu", "--jobs", "1", "--contract", "kernel", "--debug");
  SLIP_CHECK_STR(json_string_value(json_object_get(document, "artifact")), "b.slipc");
  SLIP_CHECK_EQ(json_array_size(json_object_get(document, "diagnostics")), 0);
  json_decref(document);
}

SLIP_TEST_TIMEOUT(compile_same_program_gives_the_same_key_and_bytes, 120) {
  char first[2][65536];
  SLIP(0, NULL, "compile", AXPY, "-o", "a.slipc");
  SLIP(0, NULL, "compile", AXPY, "-o", "b.slipc", "-j", "1");
  static const char *const files[] = {"manifest.json", "compiled_meta.json"};
  for (size_t i = 0; i < 2; ++i) {
    char name[64];
    snprintf(name, sizeof(name), "a.slipc/%s", files[i]);
    size_t size = read_file(name, first[0], sizeof(first[0]));
    snprintf(name, sizeof(name), "b.slipc/%s", files[i]);
    SLIP_CHECK_EQ(read_file(name, first[1], sizeof(first[1])), size);
    SLIP_CHECK(memcmp(first[0], first[1], size) == 0);
  }
}

SLIP_TEST_TIMEOUT(compile_findings_show_the_place, 120) {
  write_text("bad.json",
             "{\n  \"slip\": 1,\n  \"name\": \"bad-name\",\n  \"kernels\": [],\n  \"sources\": [\"none.c\"],\n"
             "  \"entry\": {\"name\": \"e\", \"signature\": \"(in x: f32[N])\"}\n}\n");
  const char *output =
      SLIP(3, "bad.json:3:11: error: name: \"bad-name\" is not a C identifier [manifest-identifier]", "compile", "bad.json");
  SLIP_CHECK(strstr(output, "     3 |   \"name\": \"bad-name\",\n       |           ^\n  hint:") != NULL);
  SLIP_CHECK(strstr(output, "slip: 2 errors") != NULL);
  SLIP_CHECK_EQ(count_files("slipc"), 0);
  json_t *document = SLIP_JSON(3, "compile", "bad.json");
  SLIP_CHECK_EQ(json_array_size(json_object_get(document, "diagnostics")), 2);
  SLIP_CHECK_STR(json_string_value(json_object_get(json_object_get(document, "error"), "code")), "INVALID_ARGUMENT");
  json_decref(document);
}

SLIP_TEST_TIMEOUT(compile_errors_of_the_c_compiler_show_the_place, 120) {
  write_text("p.json",
             "{\"slip\": 1, \"name\": \"p\", \"kernels\": [], \"sources\": [\"p.c\"],\n"
             "\"entry\": {\"name\": \"e\", \"signature\": \"(in x: f32[N])\"}}\n");
  write_text("p.c", "#include \"slip_program.h\"\nvoid e(slip_orch_t *o, const slip_oargs_t *args) {\n  (void)o; return args;\n}\n");
  SLIP(3, "p.c:3:", "compile", "p.json");
  write_text("p.c",
             "#include \"slip_program.h\"\nint puts(const char *);\nvoid e(slip_orch_t *o, const slip_oargs_t *args) { (void)o, "
             "(void)args, puts(\"\"); }\n");
  SLIP(3, "\"puts\" is not defined", "compile", "p.json");
  SLIP_CHECK_EQ(count_files("slipc"), 0);
}

SLIP_TEST_TIMEOUT(compile_inputs_that_are_none, 120) {
  SLIP(1, "NOT_FOUND: cannot open \"none.json\"", "compile", "none.json");
  SLIP(1, "is a directory", "compile", ".");
  SLIP(1, "not a regular file", "compile", "/dev/null");
}

SLIP_TEST_TIMEOUT(compile_outputs_that_cannot_be, 120) {
  SLIP(1, "none", "compile", AXPY, "-o", "none/a.slipc");
  write_text("file", "x");
  SLIP(1, "CONFLICT", "compile", AXPY, "-o", "file");
  SLIP(1, NULL, "compile", AXPY, "-o", "/proc/a.slipc");
  SLIP(1, "UNSUPPORTED: the C compiler \"no-such-cc\" does not run", "compile", AXPY, "--compiler", "no-such-cc");
  SLIP(3, "x86-64-v9", "compile", AXPY, "--target", "x86-64-v9");
}

SLIP_TEST_TIMEOUT(compile_unreadable_files, 120) {
  write_text("secret.json", "{}");
  write_text("p.json",
             "{\"slip\": 1, \"name\": \"p\", \"kernels\": [], \"sources\": [\"secret.c\"],\n"
             "\"entry\": {\"name\": \"e\", \"signature\": \"(in x: f32[N])\"}}\n");
  write_text("secret.c", "");
  SLIP_CHECK_EQ(mkdir(in_test("closed"), 0555), 0);
  SLIP_CHECK_EQ(chmod(in_test("secret.json"), 0), 0);
  SLIP_CHECK_EQ(chmod(in_test("secret.c"), 0), 0);
  become_nobody();
  SLIP(1, "IO: cannot open \"secret.json\": Permission denied", "compile", "secret.json");
  SLIP(3, "Permission denied", "compile", "p.json");
  SLIP(1, "Permission denied", "compile", AXPY, "-o", "closed/a.slipc");
}

SLIP_TEST_TIMEOUT(compile_full_disk_leaves_nothing, 120) {
  mount_small("disk", 16384);
  SLIP(1, "No space left on device", "compile", AXPY, "-o", "disk/a.slipc");
  SLIP_CHECK(access(in_test("disk/a.slipc"), F_OK) != 0);
  SLIP(0, NULL, "compile", AXPY, "-o", "a.slipc");  // and the program is as good as before
}

SLIP_TEST(usage_errors) {
  SLIP(2, "there is no command 'fly'", "fly");
  SLIP(2, "there is no option '--fly'", "compile", "x.json", "--fly");
  SLIP(2, "there is no option '-x'", "compile", "x.json", "-x");
  SLIP(2, "option --json takes no value", "compile", "x.json", "--json=3");
  SLIP(2, "option '--j' is ambiguous: --jobs, --json", "compile", "x.json", "--j");
  SLIP(2, "needs a value", "compile", "x.json", "--output");
  SLIP(2, "given twice", "compile", "x.json", "-o", "a", "-o", "b");
  SLIP(2, "unexpected argument 'y.json'", "compile", "x.json", "y.json");
  SLIP(2, "expected MANIFEST.json", "compile");
  SLIP(2, "--contract is kernel or program", "compile", "x.json", "--contract", "both");
  SLIP(2, "--stream is inline or async", "run", "x.slipc", "--stream", "fast");
  SLIP(2, "--jobs '-1' has not the form of a whole number", "compile", "x.json", "--jobs", "-1");
  SLIP(2, "--jobs '1x' has not the form", "compile", "x.json", "--jobs", "1x");
  SLIP(2, "--arg 'x' has not the form NAME=VALUE", "run", "x.slipc", "--arg", "x");
  SLIP(2, "--arg 'k=' has not the form", "run", "x.slipc", "--arg", "k=");
  SLIP(2, "--dim '=3' has not the form", "run", "x.slipc", "--dim", "=3");
  SLIP(2, "--out 'y=y.npy' has not the form NAME=@FILE", "run", "x.slipc", "--out", "y=y.npy");
  SLIP(2, "--out 'y=@' has not the form NAME=@FILE", "run", "x.slipc", "--out", "y=@");
  json_t *document = SLIP_JSON(2, "run", "x.slipc", "--bench", "-5");
  SLIP_CHECK_STR(json_string_value(json_object_get(json_object_get(document, "error"), "code")), "USAGE");
  json_decref(document);
}

static void wait_for_step(const char *path) {
  for (int i = 0; access(path, F_OK) != 0; ++i) {
    SLIP_CHECK(i < 3000);
    usleep(10000);
  }
}

SLIP_TEST_TIMEOUT(compile_interrupted_leaves_nothing, 120) {
  static const int numbers[] = {SIGINT, SIGTERM};
  char script[2048];  // a compiler that tells when it is running
  snprintf(script, sizeof(script), "#!/bin/sh\ncase \"$*\" in *' -c '*) : >'%s'; sleep 0.3;; esac\nexec cc \"$@\"\n", in_test("running"));
  write_text("slow-cc", script);
  SLIP_CHECK_EQ(chmod(in_test("slow-cc"), 0755), 0);
  SLIP_CHECK_EQ(mkdir(in_test("temporary"), 0700), 0);
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i) {
    const char *const arguments[] = {"compile", AXPY, "-o", "a.slipc", "--compiler", in_test("slow-cc"), "-j", "1", NULL};
    int state = 0;
    (void)unlink(in_test("running"));
    pid_t child = slip_start("TMPDIR", in_test("temporary"), arguments);
    wait_for_step(in_test("running"));
    SLIP_CHECK_EQ(kill(child, numbers[i]), 0);
    SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
    SLIP_CHECK(WIFSIGNALED(state) && WTERMSIG(state) == numbers[i]);
    SLIP_CHECK_EQ(rmdir(in_test("temporary")), 0);  // empty
    SLIP_CHECK_EQ(mkdir(in_test("temporary"), 0700), 0);
    SLIP_CHECK_EQ(count_files("slipc"), 0);
  }
}
