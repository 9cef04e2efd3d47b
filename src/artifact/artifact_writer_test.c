// SPDX-License-Identifier: Apache-2.0
#include "artifact/artifact_writer.h"

#include <errno.h>
#include <sys/stat.h>

#include "os/fault.h"
#include "slip_test_allocator.h"
#include "slip_test_artifact.h"
#include "slipstream/artifact.h"

static slip_status_t slip_count_entry(void *user, const char *name, bool is_directory) {
  (void)name;
  (void)is_directory;
  ++*(unsigned *)user;
  return slip_ok_status();
}

// Entries of the test's directory.
static unsigned slip_left(void) {
  unsigned count = 0;
  SLIP_CHECK_OK(slip__directory_list(slip_test_temporary_directory(), slip_count_entry, &count));
  return count;
}

static slip_status_t slip_write(const slip_test_artifact_t *artifact, const char *name, bool replace) {
  return slip__artifact_write(&artifact->desc, slip_test_artifact_path(name), replace, slip_allocator_system());
}

static void slip_check_opens(const char *name, const char *expected_name) {
  slip_artifact_t *opened = NULL;
  slip_const_bytes_t image;
  SLIP_CHECK_OK(slip_artifact_open(slip_test_artifact_path(name), NULL, slip_allocator_system(), &opened));
  SLIP_CHECK_STR(slip_artifact_name(opened), expected_name);
  SLIP_CHECK_OK(slip_artifact_image(opened, &image));
  SLIP_CHECK_OK(slip_artifact_verify(opened));
  slip_artifact_release(opened);
}

SLIP_TEST(artifact_writer_makes_what_the_reader_opens) {
  slip_test_artifact_t artifact;
  slip_test_artifact_initialize(&artifact, SLIP_PLATFORM_CPU, SLIP_CONTRACT_KERNEL);
  SLIP_CHECK_OK(slip_write(&artifact, "a.slipc", false));
  SLIP_CHECK_EQ(slip_left(), 1);
  slip_check_opens("a.slipc", "sample");
  SLIP_CHECK(slip__path_exists(slip_test_artifact_path("a.slipc/src/deep/main.c")));
  SLIP_CHECK(slip__path_exists(slip_test_artifact_path("a.slipc/report/compile.json")));
  struct stat info;
  SLIP_CHECK_EQ(stat(slip_test_artifact_path("a.slipc"), &info), 0);
  SLIP_CHECK_EQ(info.st_mode & 0500u, 0500u);
  slip_test_artifact_deinitialize(&artifact);
  slip_test_artifact_initialize(&artifact, SLIP_PLATFORM_SIM, SLIP_CONTRACT_PROGRAM);
  SLIP_CHECK_OK(slip_write(&artifact, "b.slipc/", false));
  slip_check_opens("b.slipc", "sample");
  slip_test_artifact_deinitialize(&artifact);
}

SLIP_TEST(artifact_writer_is_deterministic) {
  static const char *const files[] = {"compiled_meta.json", "manifest.json"};
  slip_test_artifact_t artifact;
  slip_test_artifact_initialize(&artifact, SLIP_PLATFORM_CPU, SLIP_CONTRACT_KERNEL);
  SLIP_CHECK_OK(slip_write(&artifact, "a", false));
  // The order of images and files does not count.
  slip__artifact_image_t image = artifact.images[0];
  artifact.images[0] = artifact.images[1];
  artifact.images[1] = image;
  slip__artifact_file_t file = artifact.files[0];
  artifact.files[0] = artifact.files[1];
  artifact.files[1] = file;
  SLIP_CHECK_OK(slip_write(&artifact, "b", false));
  for (size_t i = 0; i < 2; ++i) {
    char path[64];
    slip_bytes_t texts[2];
    for (unsigned side = 0; side < 2; ++side) {
      (void)snprintf(path, sizeof(path), "%s/%s", side ? "b" : "a", files[i]);
      SLIP_CHECK_OK(slip__file_read(slip_test_artifact_path(path), 1 << 20, slip_allocator_system(), &texts[side]));
    }
    SLIP_CHECK_STR((char *)texts[0].data, (char *)texts[1].data);
    free(texts[0].data);
    free(texts[1].data);
  }
  slip_test_artifact_deinitialize(&artifact);
}

SLIP_TEST(artifact_writer_replaces_only_when_asked_and_only_artifacts) {
  slip_test_artifact_t artifact;
  slip_test_artifact_initialize(&artifact, SLIP_PLATFORM_CPU, SLIP_CONTRACT_KERNEL);
  SLIP_CHECK_OK(slip_write(&artifact, "a", true));  // nothing there: fine
  artifact.desc.name = "second";
  SLIP_CHECK_ERROR(slip_write(&artifact, "a", false), SLIP_CODE_CONFLICT, "exists");
  slip_check_opens("a", "sample");
  SLIP_CHECK_OK(slip_write(&artifact, "a", true));
  slip_check_opens("a", "second");
  SLIP_CHECK_EQ(slip_left(), 1);
  SLIP_CHECK_OK(slip__directory_make_all(slip_test_artifact_path("home/precious"), 0700));
  SLIP_CHECK_ERROR(slip_write(&artifact, "home", true), SLIP_CODE_CONFLICT, "no artifact");
  SLIP_CHECK(slip__path_exists(slip_test_artifact_path("home/precious")));
  SLIP_CHECK_EQ(slip_left(), 2);
  SLIP_CHECK_CODE(slip_write(&artifact, "none/a", false), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK_CODE(slip_write(&artifact, "..", true), SLIP_CODE_INVALID_ARGUMENT);
  slip_test_artifact_deinitialize(&artifact);
}

SLIP_TEST(artifact_writer_refuses_wrong_descriptions) {
  slip_test_artifact_t artifact;
  slip_test_artifact_initialize(&artifact, SLIP_PLATFORM_CPU, SLIP_CONTRACT_KERNEL);
  const slip_test_artifact_t good = artifact;
  slip_signature_t *other = slip_test_image_signature("(in x: f32[M,8], out y: f32[M,8], inout s: i32[], eps: f32) -> (s, y)");
#define SLIP_REFUSED(part)                                                                 \
  do {                                                                                     \
    SLIP_CHECK_ERROR(slip_write(&artifact, "a", false), SLIP_CODE_INVALID_ARGUMENT, part); \
    SLIP_CHECK_EQ(slip_left(), 0);                                                         \
    artifact = good;                                                                       \
    artifact.desc.entries = artifact.entries;                                              \
  } while (0)
  artifact.desc.name = "a/b";
  SLIP_REFUSED("is no name");
  artifact.desc.name = NULL;
  SLIP_REFUSED("are needed");
  artifact.desc.key = "abc";
  SLIP_REFUSED("32 hexadecimal");
  artifact.desc.image_count = 0;
  SLIP_REFUSED("are needed");
  artifact.desc.entry_count = 2;
  SLIP_REFUSED("unlike the description");
  artifact.desc.platform = SLIP_PLATFORM_SIM;
  SLIP_REFUSED("unlike the description");
  artifact.desc.contract = SLIP_CONTRACT_PROGRAM;
  SLIP_REFUSED("unlike the description");
  artifact.desc.toolchain_count = 0;
  SLIP_REFUSED("toolchain");
  artifact.facts[1].value = "\xff\xfe";
  SLIP_REFUSED("UTF-8");
  artifact.facts[1].value = NULL;
  SLIP_REFUSED("UTF-8");
  artifact.images[1] = artifact.images[0];
  SLIP_REFUSED("target");
  artifact.images[1].target = NULL;
  SLIP_REFUSED("unlike the description");
  artifact.images[1].target = "another";
  SLIP_REFUSED("unlike the description");
  artifact.images[1].bytes.size -= 64;
  SLIP_REFUSED("truncated");
  artifact.entries[0].lowered_params = other;
  SLIP_REFUSED("another name or signature");
  artifact.entries[0].params = other;
  SLIP_REFUSED("return others");
  artifact.entries[0].name = "renamed";
  SLIP_REFUSED("another name or signature");
  static const char *const paths[] = {"../x",
                                      "/x",
                                      "a//b",
                                      "a/./b",
                                      "a/../b",
                                      "",
                                      "a\\b",
                                      "a\nb",
                                      "a\"b",
                                      "image/x",
                                      "a/",
                                      NULL,
                                      "manifest.json",
                                      "compiled_meta.json",
                                      "report/compile.json"};
  for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); ++i) {
    artifact.files[0].path = paths[i];
    SLIP_REFUSED("path");
  }
#undef SLIP_REFUSED
  // A file where a directory is needed.
  artifact.files[0].path = "report";
  SLIP_CHECK_CODE(slip_write(&artifact, "a", false), SLIP_CODE_IO);
  SLIP_CHECK_EQ(slip_left(), 0);
  slip_signature_release(other);
  slip_test_artifact_deinitialize(&artifact);
}

static slip_status_t slip_write_body(slip_allocator_t allocator, void *user) {
  const char *path = slip_test_artifact_path("a");
  slip_status_t status = slip__artifact_write(&((const slip_test_artifact_t *)user)->desc, path, false, allocator);
  SLIP_CHECK_EQ(slip_left(), slip_status_is_ok(status) ? 1 : 0);
  SLIP_CHECK_OK(slip__directory_remove_all(path));
  return status;
}

SLIP_TEST_TIMEOUT(artifact_writer_survives_every_failing_allocation, 120) {
  slip_test_artifact_t artifact;
  slip_test_artifact_initialize(&artifact, SLIP_PLATFORM_CPU, SLIP_CONTRACT_KERNEL);
  artifact.desc.image_count = 1;
  SLIP_CHECK(slip_test_allocator_loop(slip_write_body, &artifact) > 20);
  slip_test_artifact_deinitialize(&artifact);
}

// A full disk, an I/O error, ... at every call, once and for ever: an error, nothing new left, the old artifact whole; then it works.
static void slip_fault_loop(int error, bool persistent, bool replace) {
  slip_test_artifact_t artifact;
  slip_test_artifact_initialize(&artifact, SLIP_PLATFORM_CPU, SLIP_CONTRACT_KERNEL);
  unsigned failures = 0;
  if (replace) SLIP_CHECK_OK(slip_write(&artifact, "a", false));
  artifact.desc.name = "second";
  for (uint32_t nth = 1;; ++nth) {
    slip__os_fault_plan_t plan = {.kinds = SLIP__OS_CALL_BIT(OPEN) | SLIP__OS_CALL_BIT(WRITE) | SLIP__OS_CALL_BIT(SYNC) |
                                           SLIP__OS_CALL_BIT(CLOSE) | SLIP__OS_CALL_BIT(MAKE) |
                                           (persistent ? 0 : SLIP__OS_CALL_BIT(RENAME)),
                                  .nth = nth,
                                  .persistent = persistent,
                                  .error = error};
    slip__os_fault_set(&plan);
    slip_status_t status = slip_write(&artifact, "a", replace);
    slip__os_fault_set(NULL);
    if (slip_status_is_ok(status) && plan.failed == 0) break;
    if (slip_status_is_ok(status)) {  // making a directory that was there already may fail
      SLIP_CHECK_OK(slip__directory_remove_all(slip_test_artifact_path("a")));
      artifact.desc.name = "sample";
      if (replace) SLIP_CHECK_OK(slip_write(&artifact, "a", false));
      artifact.desc.name = "second";
      continue;
    }
    SLIP_CHECK_EQ(slip_status_platform_code(status), error);
    slip_status_free(status);
    SLIP_CHECK(plan.failed > 0);
    SLIP_CHECK_EQ(slip_left(), replace ? 1 : 0);
    if (replace) slip_check_opens("a", "sample");
    ++failures;
  }
  SLIP_CHECK(failures > 20);
  slip_check_opens("a", "second");
  SLIP_CHECK_EQ(slip_left(), 1);
  slip_test_artifact_deinitialize(&artifact);
}

SLIP_TEST_TIMEOUT(artifact_writer_full_disk_at_every_call, 120) {
  slip_fault_loop(ENOSPC, false, false);
}
SLIP_TEST_TIMEOUT(artifact_writer_full_disk_for_ever, 120) {
  slip_fault_loop(ENOSPC, true, false);
}
SLIP_TEST_TIMEOUT(artifact_writer_io_error_at_every_call_of_a_replacement, 120) {
  slip_fault_loop(EIO, false, true);
}
SLIP_TEST_TIMEOUT(artifact_writer_io_error_for_ever_in_a_replacement, 120) {
  slip_fault_loop(EIO, true, true);
}

// Two writers race for one path: one wins, the other is told.
SLIP_TEST(artifact_writer_loses_a_race_cleanly) {
  slip_test_artifact_t artifact;
  slip_test_artifact_initialize(&artifact, SLIP_PLATFORM_CPU, SLIP_CONTRACT_KERNEL);
  // EEXIST from the rename stands for a winner that came after the first look.
  slip__os_fault_plan_t plan = {.kinds = SLIP__OS_CALL_BIT(RENAME), .nth = 1, .error = EEXIST};
  slip__os_fault_set(&plan);
  slip_status_t status = slip_write(&artifact, "a", false);
  slip__os_fault_set(NULL);
  SLIP_CHECK_CODE(status, SLIP_CODE_CONFLICT);
  SLIP_CHECK_EQ(slip_left(), 0);
  slip_test_artifact_deinitialize(&artifact);
}
