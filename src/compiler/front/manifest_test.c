// SPDX-License-Identifier: Apache-2.0
#include "compiler/front/manifest.h"

#include "base/allocator.h"
#include "compiler/codegen/glue.h"
#include "os/file.h"
#include "slip_test.h"
#include "slip_test_allocator.h"
#include "slipstream/kernel/orch.h"

static const char *path_in_test(const char *name) {
  static char path[4][512];
  static int next;
  char *p = path[next++ % 4];
  snprintf(p, sizeof(path[0]), "%s/%s", slip_test_temporary_directory(), name);
  return p;
}

static void write_text(const char *name, const char *text) {
  SLIP_CHECK_OK(slip__file_write(path_in_test(name), (slip_const_bytes_t){(const uint8_t *)text, strlen(text)}, 0600, false));
}

#define HEAD    "{\"slip\": 1, \"name\": \"t\",\n"
#define ENTRY   "\"entry\": {\"name\": \"e\", \"signature\": \"(in x: f32[N], out y: f32[N]) -> (y)\"},\n"
#define KERNELS "\"kernels\": [{\"name\": \"k\", \"signature\": \"(in x: f32[N])\"}],\n"
#define SOURCES "\"sources\": [\"a.c\"]}\n"

// Reads |text| as a manifest beside a.c; the status and the first finding are checked.
static void check_refused(const char *text, const char *code, const char *message, uint32_t line) {
  static int count;
  char name[32];
  snprintf(name, sizeof(name), "m%d.json", count++);
  write_text(name, text);
  slip_diagnostics_t *list = NULL;
  slip__manifest_t manifest;
  slip__manifest_initialize(&manifest, slip_allocator_system());
  SLIP_CHECK_OK(slip__diagnostics_create(slip_allocator_system(), &list));
  slip_status_t status = slip__manifest_read(path_in_test(name), 0, list, &manifest);
  if (slip_status_code(status) != SLIP_CODE_INVALID_ARGUMENT) slip_test_fail(__FILE__, __LINE__, "accepted: %s", text);
  slip_status_free(status);
  const slip_diagnostic_t *first = slip_diagnostics_at(list, 0);
  SLIP_CHECK_STR(first->code, code);
  if (!strstr(first->message, message)) slip_test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", first->message, message);
  SLIP_CHECK_EQ(first->line, line);
  SLIP_CHECK(first->column > 0);
  slip_diagnostics_free(list);
  slip__manifest_deinitialize(&manifest);
}

SLIP_TEST(manifest_is_read_whole) {
  write_text("a.c", "");
  write_text("b.c", "");
  SLIP_CHECK_OK(slip__directory_make(path_in_test("inc"), 0700));
  write_text("m.json",
             "{\"slip\": 1, \"name\": \"prog\", \"contract\": \"program\",\n"
             "\"entries\": [{\"name\": \"e\", \"symbol\": \"e_run\", \"signature\": \"(in x: f32[N], a: f32) -> ()\"},\n"
             "              {\"name\": \"f\", \"signature\": \"(in x: f32[N])\"}],\n"
             "\"kernels\": [{\"name\": \"k\", \"symbol\": \"k_run\", \"core\": \"matrix\", \"scratch_bytes\": 4096,\n"
             "              \"signature\": \"(in x: f32[N], out y: f32[N], a: i32, b: f32)\"}],\n"
             "\"sources\": [\"a.c\", \"b.c\"], \"include_dirs\": [\"inc\", \".\"],\n"
             "\"defines\": {\"Z\": \"1 + 2\", \"A\": 3, \"M\": null}, \"options\": {\"cflags\": [\"-O2\", \"-Wno-unused\"]},\n"
             "\"targets\": [\"x86-64-v3\"]}\n");
  slip_diagnostics_t *list = NULL;
  slip__manifest_t m;
  slip__manifest_initialize(&m, slip_allocator_system());
  SLIP_CHECK_OK(slip__diagnostics_create(slip_allocator_system(), &list));
  SLIP_CHECK_OK(slip__manifest_read(path_in_test("m.json"), 0, list, &m));
  SLIP_CHECK_EQ(slip_diagnostics_count(list), 0);
  SLIP_CHECK_STR(m.name, "prog");
  SLIP_CHECK_STR(m.directory, slip_test_temporary_directory());
  SLIP_CHECK_EQ(m.contract, SLIP_CONTRACT_PROGRAM);
  SLIP_CHECK_EQ(m.entry_count, 2);
  SLIP_CHECK_STR(m.entries[0].symbol, "e_run");
  SLIP_CHECK_STR(m.entries[1].symbol, "f");
  SLIP_CHECK_EQ(m.entries[0].scalar_count, 1);
  SLIP_CHECK_EQ(m.kernel_count, 1);
  SLIP_CHECK_EQ(m.kernels[0].core, SLIP_CORE_MATRIX);
  SLIP_CHECK_EQ(m.kernels[0].scratch_bytes, 4096);
  SLIP_CHECK_EQ(m.kernels[0].tensor_count, 2);
  SLIP_CHECK_EQ(m.kernels[0].scalar_count, 2);
  SLIP_CHECK_EQ(m.source_count, 2);
  SLIP_CHECK_EQ(m.include_dir_count, 2);
  SLIP_CHECK_EQ(m.define_count, 3);
  SLIP_CHECK_STR(m.defines[0].name, "A");
  SLIP_CHECK_STR(m.defines[0].value, "3");
  SLIP_CHECK(m.defines[1].value == NULL);
  SLIP_CHECK_STR(m.defines[2].value, "1 + 2");
  SLIP_CHECK_EQ(m.cflag_count, 2);
  SLIP_CHECK_EQ(m.target_count, 1);
  slip_diagnostics_free(list);
  slip__manifest_deinitialize(&m);
}

SLIP_TEST(manifest_refuses_each_fault_at_its_place) {
  write_text("a.c", "");
  SLIP_CHECK_OK(slip__directory_make(path_in_test("d.c"), 0700));
  check_refused("{\"slip\": 1,\n \"name\" \"t\"}", "manifest-json", "", 2);
  check_refused(HEAD "\"name\": \"u\"}", "manifest-json", "duplicate", 2);
  check_refused("", "manifest-json", "", 1);
  check_refused("[1]", "manifest-type", "expected an object", 1);
  check_refused("{\"name\": \"t\",\n" ENTRY KERNELS SOURCES, "manifest-version", "missing", 1);
  check_refused("{\"slip\": 2}", "manifest-version", "only version 1", 1);
  check_refused("{\"slip\": 1.0}", "manifest-version", "only version 1", 1);
  check_refused(HEAD "\"flags\": [],\n" ENTRY KERNELS SOURCES, "manifest-unknown-key", "flags: unknown key", 2);
  check_refused(HEAD ENTRY KERNELS "\"sources\": \"a.c\"}", "manifest-type", "sources: expected an array, found a string", 4);
  check_refused(HEAD ENTRY KERNELS "\"sources\": []}", "manifest-range", "0 items", 4);
  check_refused(HEAD ENTRY KERNELS "\"sources\": [\"a.c\",\n\"none.c\"]}", "manifest-source", "sources[1]: there is no file", 5);
  check_refused(HEAD ENTRY KERNELS "\"sources\": [\"d.c\"]}", "manifest-source", "is a directory", 4);
  check_refused(HEAD ENTRY KERNELS "\"sources\": [\"/a.c\"]}", "manifest-path", "is absolute", 4);
  check_refused(HEAD ENTRY KERNELS "\"sources\": [\"-a.c\"]}", "manifest-path", "compiler option", 4);
  check_refused(HEAD ENTRY KERNELS "\"sources\": [\"a.o\"]}", "manifest-source", "no C source", 4);
  check_refused(HEAD ENTRY KERNELS "\"sources\": [\"a.c\", \"a.c\"]}", "manifest-duplicate", "twice", 4);
  check_refused(HEAD KERNELS SOURCES, "manifest-missing-key", "\"entry\"", 1);
  check_refused(HEAD "\"entries\": [],\n" ENTRY KERNELS SOURCES, "manifest-entry", "both", 2);
  check_refused(HEAD "\"entry\": {\"name\": \"e\"},\n" KERNELS SOURCES, "manifest-missing-key", "entry: the key \"signature\"", 2);
  check_refused(HEAD "\"entry\": {\"name\": \"e-\", \"signature\": \"(in x: f32[N])\"},\n" KERNELS SOURCES, "manifest-identifier",
                "entry.name", 2);
  check_refused(HEAD "\"entry\": {\"name\": \"memcpy\", \"signature\": \"(in x: f32[N])\"},\n" KERNELS SOURCES, "manifest-symbol", "memcpy",
                2);
  check_refused(HEAD "\"entry\": {\"name\": \"e\",\n\"signature\": \"(in x: f33[N])\"},\n" KERNELS SOURCES, "manifest-signature", "f33", 3);
  check_refused(HEAD "\"entry\": {\"name\": \"e\", \"signature\": \"(in x: f32[N]) -> (x)\"},\n" KERNELS SOURCES, "manifest-signature", "x",
                2);
  check_refused(HEAD "\"entry\": {\"name\": \"e\", \"signature\": \"(in x: f16[64,64] nz)\"},\n" KERNELS SOURCES, "manifest-layout", "nz",
                2);
  check_refused(HEAD ENTRY "\"kernels\": [{\"name\": \"k\", \"signature\": \"(in x: f32[N], out y: f32[N]) -> (y)\"}],\n" SOURCES,
                "manifest-signature", "returns nothing", 3);
  check_refused(HEAD ENTRY "\"kernels\": [{\"name\": \"k\", \"signature\": \"(in x: f32[N])\", \"core\": \"gpu\"}],\n" SOURCES,
                "manifest-core", "gpu", 3);
  check_refused(HEAD ENTRY "\"kernels\": [{\"name\": \"k\", \"signature\": \"(in x: f32[N])\", \"scratch_bytes\": -1}],\n" SOURCES,
                "manifest-range", "-1", 3);
  check_refused(HEAD ENTRY
                "\"kernels\": [{\"name\": \"k\", \"signature\": \"(in x: f32[N])\"},\n{\"name\": \"k\", \"signature\": \"(in x: "
                "f32[N])\"}],\n" SOURCES,
                "manifest-duplicate", "kernels[1]", 4);
  check_refused(HEAD "\"contract\": \"both\",\n" ENTRY KERNELS SOURCES, "manifest-contract", "both", 2);
  check_refused(
      HEAD
      "\"entries\": [{\"name\": \"e\", \"signature\": \"(in x: f32[N])\"}, {\"name\": \"f\", \"signature\": \"(in x: f32[N])\"}],\n" KERNELS
          SOURCES,
      "kernel-contract", "one entry", 2);
  check_refused(HEAD "\"defines\": {\"1A\": 1},\n" ENTRY KERNELS SOURCES, "manifest-identifier", "1A", 2);
  check_refused(HEAD "\"defines\": {\"A\": 1.5},\n" ENTRY KERNELS SOURCES, "manifest-type", "a real number", 2);
  check_refused(HEAD "\"defines\": {\"A\": \"1\\n2\"},\n" ENTRY KERNELS SOURCES, "manifest-define", "line break", 2);
  check_refused(HEAD "\"options\": {\"cflags\": [\"-fplugin=x.so\"]},\n" ENTRY KERNELS SOURCES, "manifest-cflag", "-fplugin", 2);
  check_refused(HEAD "\"include_dirs\": [\"none\"],\n" ENTRY KERNELS SOURCES, "manifest-include-dir", "none", 2);
  check_refused(HEAD "\"targets\": [],\n" ENTRY KERNELS SOURCES, "manifest-range", "targets", 2);
}

SLIP_TEST(manifest_shows_all_findings_at_once) {
  write_text("m.json", "{\"slip\": 1, \"name\": 3, \"entry\": {}, \"kernels\": [], \"sources\": [\"none.c\"], \"x\": 1}");
  slip_diagnostics_t *list = NULL;
  slip__manifest_t m;
  slip__manifest_initialize(&m, slip_allocator_system());
  SLIP_CHECK_OK(slip__diagnostics_create(slip_allocator_system(), &list));
  SLIP_CHECK_ERROR(slip__manifest_read(path_in_test("m.json"), 0, list, &m), SLIP_CODE_INVALID_ARGUMENT, "(and 4 more errors)");
  slip_diagnostics_free(list);
  slip__manifest_deinitialize(&m);
}

SLIP_TEST(manifest_kernel_limits) {
  char text[4096], signature[2048] = "(in ";
  write_text("a.c", "");
  for (int i = 0; i <= SLIP_KERNEL_MAX_TENSORS; ++i)
    snprintf(signature + strlen(signature), sizeof(signature) - strlen(signature), "%st%d: f32[N]", i ? ", " : "", i);
  snprintf(text, sizeof(text), HEAD ENTRY "\"kernels\": [{\"name\": \"k\", \"signature\": \"%s)\"}],\n" SOURCES, signature);
  check_refused(text, "manifest-capacity", "33 tensors", 3);
}

SLIP_TEST(manifest_files_that_cannot_be_read) {
  slip_diagnostics_t *list = NULL;
  slip__manifest_t m;
  SLIP_CHECK_OK(slip__diagnostics_create(slip_allocator_system(), &list));
  slip__manifest_initialize(&m, slip_allocator_system());
  SLIP_CHECK_ERROR(slip__manifest_read(path_in_test("none.json"), 0, list, &m), SLIP_CODE_NOT_FOUND, "none.json");
  slip__manifest_deinitialize(&m);
  SLIP_CHECK_ERROR(slip__manifest_read(slip_test_temporary_directory(), 0, list, &m), SLIP_CODE_IO, "directory");
  slip__manifest_deinitialize(&m);
  slip_diagnostics_free(list);
}

SLIP_TEST(cflags_allow_optimisation_and_warnings_only) {
  static const char *const good[] = {"-O3", "-ffast-math", "-funroll-loops", "-Wno-shadow", "-Wformat=2", "-Werror=vla"};
  static const char *const bad[] = {"-Wl,-rpath,/x", "-Wa,x",         "-Wp,-MD,/etc/x", "-W",   "-o", "-include",  "@file",
                                    "x.c",           "-march=native", "-I/usr",         "-B/x", "",   "-fplugin=x"};
  for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); ++i) SLIP_CHECK(slip__cflag_allowed(good[i]));
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) SLIP_CHECK(!slip__cflag_allowed(bad[i]));
}

// Reads a good manifest (user NULL) or a bad one, and makes the generated files of a good one.
static slip_status_t read_with(slip_allocator_t allocator, void *user) {
  slip_diagnostics_t *list = NULL;
  slip__manifest_t m;
  const char *text = NULL;
  slip__manifest_initialize(&m, allocator);
  slip_status_t status = slip__diagnostics_create(allocator, &list);
  if (slip_status_is_ok(status)) status = slip__manifest_read(path_in_test(user ? user : "m.json"), 0, list, &m);
  if (slip_status_is_ok(status)) status = slip__glue_header(&m, &m.arena, &text);
  if (slip_status_is_ok(status)) status = slip__glue_source(&m, &m.arena, &text);
  if (slip_status_code(status) == SLIP_CODE_INVALID_ARGUMENT) {
    SLIP_CHECK_EQ(slip_diagnostics_count(list), 3);  // none is lost without a word
    slip_status_free(status);
    status = slip_ok_status();
  }
  slip_diagnostics_free(list);
  slip__manifest_deinitialize(&m);
  return status;
}

SLIP_TEST(manifest_survives_each_failing_allocation) {
  write_text("a.c", "");
  write_text("m.json", HEAD ENTRY KERNELS
             "\"defines\": {\"A\": 1}, \"include_dirs\": [\".\"], \"options\": {\"cflags\": [\"-O2\"]}, \"targets\": [\"cpu\"],\n" SOURCES);
  write_text("bad.json", HEAD "\"x\": 1, \"y\": 2, \"z\": 3,\n" ENTRY KERNELS SOURCES);
  SLIP_CHECK(slip_test_allocator_loop(read_with, NULL) > 10);
  SLIP_CHECK(slip_test_allocator_loop(read_with, (void *)(uintptr_t) "bad.json") > 10);
}
