// SPDX-License-Identifier: Apache-2.0
#include "slipstream/artifact.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "artifact/file_list.h"
#include "os/fault.h"
#include "slip_test_allocator.h"
#include "slip_test_artifact.h"

static slip_status_t slip_open(const char *name, slip_artifact_t **out) {
  return slip_artifact_open(slip_test_artifact_path(name), NULL, slip_allocator_system(), out);
}

static const char *slip_sample(const char *name) {
  return slip_test_artifact_write(name, SLIP_PLATFORM_CPU, SLIP_CONTRACT_KERNEL);
}

static slip_bytes_t slip_read(const char *name) {
  slip_bytes_t bytes;
  SLIP_CHECK_OK(slip__file_read(slip_test_artifact_path(name), 1 << 24, slip_allocator_system(), &bytes));
  return bytes;
}

static void slip_overwrite(const char *name, const void *bytes, size_t size) {
  SLIP_CHECK_OK(slip__directory_remove_all(slip_test_artifact_path(name)));
  SLIP_CHECK_OK(slip__file_write(slip_test_artifact_path(name), (slip_const_bytes_t){bytes, size}, 0644, false));
}

// Brings the record of |file| in "a/manifest.json" up to date, so that what stands behind the hash is tested.
static void slip_relist(const char *file) {
  slip__file_list_t list;
  char path[128];
  slip_bytes_t text = slip_read("a/manifest.json"), again;
  SLIP_CHECK_OK(slip__file_list_parse((slip_const_bytes_t){text.data, text.size}, slip_allocator_system(), &list));
  (void)snprintf(path, sizeof(path), "a/%s", file);
  slip_bytes_t bytes = slip_read(path);
  slip__file_record_t *record = (slip__file_record_t *)(uintptr_t)slip__file_list_find(&list, file);
  SLIP_CHECK(record != NULL);
  record->size = bytes.size;
  record->hash = slip__hash128((slip_const_bytes_t){bytes.data, bytes.size});
  SLIP_CHECK_OK(slip__file_list_write(list.records, list.count, slip_allocator_system(), &again));
  slip_overwrite("a/manifest.json", again.data, again.size);
  slip__file_list_deinitialize(&list);
  free(again.data);
  free(bytes.data);
  free(text.data);
}

// Replaces |from| by |to| in "a/<file>".
static void slip_edit(const char *file, const char *from, const char *to) {
  char path[128];
  (void)snprintf(path, sizeof(path), "a/%s", file);
  slip_bytes_t text = slip_read(path);
  const char *at = strstr((char *)text.data, from);
  if (!at) slip_test_fail(__FILE__, __LINE__, "%s has no %s", file, from);
  char *edited = malloc(text.size + strlen(to) + 1);
  (void)sprintf(edited, "%.*s%s%s", (int)(at - (char *)text.data), (char *)text.data, to, at + strlen(from));
  slip_overwrite(path, edited, strlen(edited));
  free(edited);
  free(text.data);
}

SLIP_TEST(artifact_open_says_what_was_written) {
  slip_artifact_t *artifact = NULL;
  slip_const_bytes_t image, again;
  slip_image_view_t view;
  char text[256];
  slip_sample("a");
  SLIP_CHECK_OK(slip_open("a", &artifact));
  SLIP_CHECK_STR(slip_artifact_name(artifact), "sample");
  SLIP_CHECK_EQ(slip_artifact_platform(artifact), SLIP_PLATFORM_CPU);
  SLIP_CHECK_EQ(slip_artifact_contract(artifact), SLIP_CONTRACT_KERNEL);
  SLIP_CHECK_STR(slip_artifact_target(artifact), slip__cpu_target_best());
  SLIP_CHECK_EQ(slip_artifact_target_count(artifact), slip__cpu_target_count() + 1);
  SLIP_CHECK(slip_artifact_target_at(artifact, slip__cpu_target_count() + 1) == NULL);
  SLIP_CHECK_STR(slip_artifact_key(artifact), SLIP_TEST_ARTIFACT_KEY);
  slip_signature_format(slip_artifact_params(artifact), text, sizeof(text));
  SLIP_CHECK_STR(text, SLIP_TEST_ARTIFACT_PARAMS);
  SLIP_CHECK(slip_signature_equal(slip_artifact_params(artifact), slip_artifact_lowered_params(artifact)));
  slip_bytes_t json = slip_read("a/compiled_meta.json");
  SLIP_CHECK_STR(slip_artifact_metadata_json(artifact), (char *)json.data);
  free(json.data);
  SLIP_CHECK_OK(slip_artifact_image(artifact, &image));
  SLIP_CHECK_OK(slip_artifact_image(artifact, &again));
  SLIP_CHECK(image.data == again.data && image.size == again.size);
  SLIP_CHECK_OK(slip_image_open(image, &view));
  SLIP_CHECK_STR(view.target, slip__cpu_target_best());
  SLIP_CHECK_OK(slip_artifact_verify(artifact));
  slip_artifact_retain(artifact);
  slip_artifact_release(artifact);
  SLIP_CHECK_STR(slip_artifact_name(artifact), "sample");
  slip_artifact_release(artifact);
  slip_artifact_release(NULL);
}

SLIP_TEST(artifact_target_is_the_best_or_the_one_named) {
  slip_artifact_options_t options = SLIP_ARTIFACT_OPTIONS_INIT;
  slip_artifact_t *artifact = NULL;
  slip_const_bytes_t image;
  slip_image_view_t view;
  const char *path = slip_sample("a");
  options.target = "x86-64-v99";
  SLIP_CHECK_OK(slip_artifact_open(path, &options, slip_allocator_system(), &artifact));
  SLIP_CHECK_STR(slip_artifact_target(artifact), "x86-64-v99");
  SLIP_CHECK_OK(slip_artifact_image(artifact, &image));
  SLIP_CHECK_OK(slip_image_open(image, &view));
  SLIP_CHECK_STR(view.target, "x86-64-v99");
  slip_artifact_release(artifact);
  options.target = "none-such";
  SLIP_CHECK_ERROR(slip_artifact_open(path, &options, slip_allocator_system(), &artifact), SLIP_CODE_INCOMPATIBLE, "none-such");
  SLIP_CHECK(artifact == NULL);
  options.struct_size = 3;
  SLIP_CHECK_CODE(slip_artifact_open(path, &options, slip_allocator_system(), &artifact), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_artifact_open(NULL, NULL, slip_allocator_system(), &artifact), SLIP_CODE_INVALID_ARGUMENT);
  // Only what this machine does not run.
  slip_test_artifact_t only;
  slip_test_artifact_initialize(&only, SLIP_PLATFORM_CPU, SLIP_CONTRACT_KERNEL);
  only.desc.image_count = 1;
  SLIP_CHECK_OK(slip__artifact_write(&only.desc, slip_test_artifact_path("b"), false, slip_allocator_system()));
  SLIP_CHECK_ERROR(slip_open("b", &artifact), SLIP_CODE_INCOMPATIBLE, "none of which this machine runs");
  slip_test_artifact_deinitialize(&only);
}

SLIP_TEST(artifact_open_refuses_what_is_no_artifact) {
  slip_artifact_t *artifact = (slip_artifact_t *)1;
  SLIP_CHECK_CODE(slip_open("none", &artifact), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK(artifact == NULL);
  SLIP_CHECK_OK(slip__directory_make(slip_test_artifact_path("empty"), 0700));
  SLIP_CHECK_ERROR(slip_open("empty", &artifact), SLIP_CODE_NOT_FOUND, "manifest.json");
  slip_overwrite("file", "x", 1);
  SLIP_CHECK_CODE(slip_open("file", &artifact), SLIP_CODE_IO);
  // A directory instead of each file, then nothing instead of it.
  static const char *const files[] = {"a/manifest.json", "a/compiled_meta.json"};
  for (size_t i = 0; i < 2; ++i) {
    slip_sample("a");
    slip_bytes_t bytes = slip_read(files[i]);
    SLIP_CHECK_OK(slip__directory_remove_all(slip_test_artifact_path(files[i])));
    SLIP_CHECK_CODE(slip_open("a", &artifact), SLIP_CODE_NOT_FOUND);
    SLIP_CHECK_OK(slip__directory_make(slip_test_artifact_path(files[i]), 0700));
    SLIP_CHECK_ERROR(slip_open("a", &artifact), SLIP_CODE_IO, "is a directory");
    slip_overwrite(files[i], "", 0);
    SLIP_CHECK_CODE(slip_open("a", &artifact), SLIP_CODE_CORRUPT);
    slip_overwrite(files[i], bytes.data, bytes.size - 3);
    SLIP_CHECK_CODE(slip_open("a", &artifact), SLIP_CODE_CORRUPT);
    free(bytes.data);
    SLIP_CHECK_OK(slip__directory_remove_all(slip_test_artifact_path("a")));
  }
}

SLIP_TEST(artifact_with_changed_metadata_is_refused) {
  slip_artifact_t *artifact = NULL;
  slip_sample("a");
  slip_edit("compiled_meta.json", "\"sample\"", "\"simple\"");
  SLIP_CHECK_ERROR(slip_open("a", &artifact), SLIP_CODE_CORRUPT, "manifest.json says");
  slip_relist("compiled_meta.json");
  SLIP_CHECK_OK(slip_open("a", &artifact));
  slip_artifact_release(artifact);
  // The field is named also where the hash is wrong.
  slip_edit("compiled_meta.json", "\"schema\": 3", "\"schema\": 9");
  SLIP_CHECK_ERROR(slip_open("a", &artifact), SLIP_CODE_INCOMPATIBLE, "'schema'");
  slip_relist("compiled_meta.json");
  SLIP_CHECK_ERROR(slip_open("a", &artifact), SLIP_CODE_INCOMPATIBLE, "recompile");
}

SLIP_TEST(artifact_and_image_must_be_of_one_build) {
  static const struct {
    const char *from, *to, *part;
  } cases[] = {
      {"\"contract\": \"kernel\"", "\"contract\": \"program\"", "contract"},
      {"\"dtype\": \"i32\"", "\"dtype\": \"u32\"", "signature"},
      {"\"name\": \"eps\"", "\"name\": \"epsilon\"", "signature"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    slip_artifact_t *artifact = NULL;
    slip_const_bytes_t image;
    slip_sample("a");
    slip_edit("compiled_meta.json", cases[i].from, cases[i].to);
    // Both lists of parameters, so that the metadata agree with themselves; and the capability.
    if (i == 0) slip_edit("compiled_meta.json", "\"kernel\"", "\"program\"");
    if (i > 0) slip_edit("compiled_meta.json", cases[i].from, cases[i].to);
    slip_relist("compiled_meta.json");
    SLIP_CHECK_OK(slip_open("a", &artifact));
    SLIP_CHECK_ERROR(slip_artifact_image(artifact, &image), SLIP_CODE_CORRUPT, cases[i].part);
    slip_artifact_release(artifact);
    SLIP_CHECK_OK(slip__directory_remove_all(slip_test_artifact_path("a")));
  }
  // An image of another target under this name; an artifact of another platform.
  slip_artifact_t *artifact = NULL;
  slip_const_bytes_t image;
  char path[128], file[64];
  slip_sample("a");
  (void)snprintf(file, sizeof(file), "image/%s.img", slip__cpu_target_best());
  (void)snprintf(path, sizeof(path), "a/%s", file);
  slip_bytes_t other = slip_read("a/image/x86-64-v99.img");
  slip_overwrite(path, other.data, other.size);
  free(other.data);
  slip_relist(file);
  SLIP_CHECK_OK(slip_open("a", &artifact));
  SLIP_CHECK_ERROR(slip_artifact_image(artifact, &image), SLIP_CODE_CORRUPT, "target");
  slip_artifact_release(artifact);
  SLIP_CHECK_OK(slip__directory_remove_all(slip_test_artifact_path("a")));
  slip_sample("a");
  slip_edit("compiled_meta.json", "\"cpu\"", "\"sim\"");
  slip_edit("compiled_meta.json", "\"onboard\"", "\"sim\"");
  slip_relist("compiled_meta.json");
  SLIP_CHECK_OK(slip_open("a", &artifact));
  SLIP_CHECK_ERROR(slip_artifact_image(artifact, &image), SLIP_CODE_CORRUPT, "platform");
  slip_artifact_release(artifact);
}

// Schema 2 is opened as a program; a kernel image in it is not accepted.
SLIP_TEST(artifact_of_an_older_schema_gets_no_kernel_rights) {
  slip_artifact_t *artifact = NULL;
  slip_const_bytes_t image;
  slip_sample("a");
  char text[1024];
  (void)snprintf(
      text, sizeof(text),
      "{\"schema\": 2, \"name\": \"old\", \"platform\": \"cpu\", \"target\": \"x86-64-v99\", \"return_aliases\": [1, 2], \"params\": ["
      "{\"name\": \"x\", \"direction\": \"in\", \"dtype\": \"f32\", \"dims\": [-1, 8], \"dim_names\": [\"M\", null]},"
      "{\"name\": \"y\", \"direction\": \"out\", \"dtype\": \"f32\", \"dims\": [-1, 8], \"dim_names\": [\"M\", null]},"
      "{\"name\": \"s\", \"direction\": \"inout\", \"dtype\": \"i32\", \"dims\": []},"
      "{\"name\": \"eps\", \"direction\": \"scalar\", \"dtype\": \"f32\"}]}");
  slip_overwrite("a/compiled_meta.json", text, strlen(text));
  slip_relist("compiled_meta.json");
  SLIP_CHECK_ERROR(slip_open("a", &artifact), SLIP_CODE_CORRUPT, "images");
  // Leave one image only.
  slip_bytes_t manifest = slip_read("a/manifest.json");
  slip__file_list_t list;
  SLIP_CHECK_OK(slip__file_list_parse((slip_const_bytes_t){manifest.data, manifest.size}, slip_allocator_system(), &list));
  slip__file_record_t records[2] = {*slip__file_list_find(&list, "compiled_meta.json"),
                                    *slip__file_list_find(&list, "image/x86-64-v99.img")};
  slip_bytes_t again;
  SLIP_CHECK_OK(slip__file_list_write(records, 2, slip_allocator_system(), &again));
  slip_overwrite("a/manifest.json", again.data, again.size);
  slip__file_list_deinitialize(&list);
  free(manifest.data);
  free(again.data);
  slip_artifact_options_t options = SLIP_ARTIFACT_OPTIONS_INIT;
  options.target = "x86-64-v99";
  SLIP_CHECK_OK(slip_artifact_open(slip_test_artifact_path("a"), &options, slip_allocator_system(), &artifact));
  SLIP_CHECK_EQ(slip_artifact_contract(artifact), SLIP_CONTRACT_PROGRAM);
  SLIP_CHECK_STR(slip_artifact_key(artifact), "");
  SLIP_CHECK_ERROR(slip_artifact_image(artifact, &image), SLIP_CODE_CORRUPT, "contract");
  slip_artifact_release(artifact);
}

// A failed load of the image is reported, leaves nothing, and may be repeated.
SLIP_TEST(artifact_image_can_be_retried) {
  slip_artifact_t *artifact = NULL;
  slip_const_bytes_t image;
  char path[128];
  slip_sample("a");
  (void)snprintf(path, sizeof(path), "a/image/%s.img", slip__cpu_target_best());
  slip_bytes_t bytes = slip_read(path);
  SLIP_CHECK_OK(slip_open("a", &artifact));
  for (size_t at = 0; at < bytes.size; at += bytes.size / 16) {  // flipped
    bytes.data[at] ^= 0x10;
    slip_overwrite(path, bytes.data, bytes.size);
    SLIP_CHECK_ERROR(slip_artifact_image(artifact, &image), SLIP_CODE_CORRUPT, "hash");
    SLIP_CHECK(image.data == NULL && image.size == 0);
    SLIP_CHECK_CODE(slip_artifact_verify(artifact), SLIP_CODE_CORRUPT);
    bytes.data[at] ^= 0x10;
  }
  slip_overwrite(path, bytes.data, bytes.size - 1);  // truncated; the byte behind the text is its terminator
  SLIP_CHECK_ERROR(slip_artifact_image(artifact, &image), SLIP_CODE_CORRUPT, "bytes, manifest.json says");
  slip_overwrite(path, bytes.data, bytes.size + 1);  // extended
  SLIP_CHECK_ERROR(slip_artifact_image(artifact, &image), SLIP_CODE_CORRUPT, "bytes, manifest.json says");
  slip_overwrite(path, "", 0);
  SLIP_CHECK_CODE(slip_artifact_image(artifact, &image), SLIP_CODE_CORRUPT);
  SLIP_CHECK_OK(slip__directory_remove_all(slip_test_artifact_path(path)));
  SLIP_CHECK_CODE(slip_artifact_image(artifact, &image), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK_OK(slip__directory_make(slip_test_artifact_path(path), 0700));
  SLIP_CHECK_ERROR(slip_artifact_image(artifact, &image), SLIP_CODE_IO, "is a directory");
  slip_overwrite("elsewhere.img", bytes.data, bytes.size);
  SLIP_CHECK_OK(slip__directory_remove_all(slip_test_artifact_path(path)));
  SLIP_CHECK_EQ(symlink(slip_test_artifact_path("elsewhere.img"), slip_test_artifact_path(path)), 0);
  SLIP_CHECK_ERROR(slip_artifact_image(artifact, &image), SLIP_CODE_IO, "symbolic link");
  slip_overwrite(path, bytes.data, bytes.size);
  if (geteuid() != 0) {  // root reads all
    SLIP_CHECK_EQ(chmod(slip_test_artifact_path(path), 0), 0);
    slip_status_t status = slip_artifact_image(artifact, &image);
    SLIP_CHECK_EQ(slip_status_platform_code(status), EACCES);
    SLIP_CHECK_CODE(status, SLIP_CODE_IO);
    SLIP_CHECK_EQ(chmod(slip_test_artifact_path(path), 0644), 0);
  }
  SLIP_CHECK_OK(slip_artifact_image(artifact, &image));
  SLIP_CHECK(image.size == bytes.size && memcmp(image.data, bytes.data, bytes.size) == 0);
  free(bytes.data);
  slip_artifact_release(artifact);
}

SLIP_TEST(artifact_file_calls_fail_one_by_one) {
  static const uint32_t kinds[] = {SLIP__OS_CALL_BIT(OPEN), SLIP__OS_CALL_BIT(STAT), SLIP__OS_CALL_BIT(MAP), SLIP__OS_CALL_BIT(LIST)};
  static const int errors[] = {EACCES, EIO, EIO, EIO};
  slip_sample("a");
  unsigned failures = 0;
  for (size_t kind = 0; kind < 4; ++kind) {
    for (uint32_t nth = 1;; ++nth) {
      slip_artifact_t *artifact = NULL;
      slip_const_bytes_t image;
      slip__os_fault_plan_t plan = {.kinds = kinds[kind], .nth = nth, .error = errors[kind]};
      slip__os_fault_set(&plan);
      slip_status_t status = slip_open("a", &artifact);
      if (slip_status_is_ok(status)) status = slip_artifact_image(artifact, &image);
      if (slip_status_is_ok(status)) status = slip_artifact_verify(artifact);
      slip__os_fault_set(NULL);
      if (slip_status_is_ok(status)) {
        slip_artifact_release(artifact);
        break;
      }
      SLIP_CHECK_EQ(slip_status_platform_code(status), errors[kind]);
      SLIP_CHECK_CODE(status, SLIP_CODE_IO);
      ++failures;
      if (artifact) {  // the same object works once the fault is gone
        SLIP_CHECK_OK(slip_artifact_image(artifact, &image));
        SLIP_CHECK_OK(slip_artifact_verify(artifact));
      }
      slip_artifact_release(artifact);
    }
  }
  SLIP_CHECK(failures > 30);
}

SLIP_TEST(artifact_verify_finds_every_difference) {
  slip_artifact_t *artifact = NULL;
  slip_sample("a");
  SLIP_CHECK_OK(slip_open("a", &artifact));
  slip_overwrite("a/unlisted", "x", 1);
  SLIP_CHECK_ERROR(slip_artifact_verify(artifact), SLIP_CODE_CORRUPT, "\"unlisted\" is not in manifest.json");
  SLIP_CHECK_OK(slip__directory_remove_all(slip_test_artifact_path("a/unlisted")));
  slip_overwrite("a/src/deep/unlisted", "x", 1);
  SLIP_CHECK_ERROR(slip_artifact_verify(artifact), SLIP_CODE_CORRUPT, "src/deep/unlisted");
  SLIP_CHECK_OK(slip__directory_remove_all(slip_test_artifact_path("a/src/deep/unlisted")));
  SLIP_CHECK_EQ(chmod(slip_test_artifact_path("a/src/deep/main.c"), 0755), 0);
  SLIP_CHECK_ERROR(slip_artifact_verify(artifact), SLIP_CODE_CORRUPT, "mode");
  SLIP_CHECK_EQ(chmod(slip_test_artifact_path("a/src/deep/main.c"), 0600), 0);
  SLIP_CHECK_OK(slip_artifact_verify(artifact));
  slip_overwrite("a/src/deep/main.c", "int main_entrx;\n", 16);
  SLIP_CHECK_ERROR(slip_artifact_verify(artifact), SLIP_CODE_CORRUPT, "src/deep/main.c");
  SLIP_CHECK_EQ(rename(slip_test_artifact_path("a/src/deep"), slip_test_artifact_path("a/src/other")), 0);
  SLIP_CHECK_CODE(slip_artifact_verify(artifact), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK_EQ(symlink("other", slip_test_artifact_path("a/src/deep")), 0);
  SLIP_CHECK_ERROR(slip_artifact_verify(artifact), SLIP_CODE_IO, "symbolic link");
  slip_artifact_release(artifact);
}

SLIP_TEST(artifact_manifest_with_a_path_outside_is_refused) {
  slip_artifact_t *artifact = NULL;
  slip_sample("a");
  slip_edit("manifest.json", "\"report/compile.json\"", "\"report/../../file\"");
  SLIP_CHECK_ERROR(slip_open("a", &artifact), SLIP_CODE_CORRUPT, "'path'");
}

#define SLIP_THREADS 8
typedef struct slip_race_t {
  slip_artifact_t *artifact;
  pthread_barrier_t barrier;
  _Atomic(const uint8_t *) first;
  atomic_uint failed;
} slip_race_t;

static void *slip_race(void *user) {
  slip_race_t *race = user;
  slip_const_bytes_t image;
  const uint8_t *none = NULL;
  (void)pthread_barrier_wait(&race->barrier);
  slip_status_t status = slip_artifact_image(race->artifact, &image);
  if (!slip_status_is_ok(status)) atomic_fetch_add(&race->failed, 1);
  slip_status_free(status);
  if (image.data && !atomic_compare_exchange_strong(&race->first, &none, image.data) && none != image.data) {
    atomic_fetch_add(&race->failed, 1);
  }
  return NULL;
}

SLIP_TEST(artifact_image_is_loaded_once_by_many_threads) {
  slip_sample("a");
  for (unsigned round = 0; round < 20; ++round) {
    slip_race_t race = {.artifact = NULL};
    pthread_t threads[SLIP_THREADS];
    SLIP_CHECK_OK(slip_open("a", &race.artifact));
    SLIP_CHECK_EQ(pthread_barrier_init(&race.barrier, NULL, SLIP_THREADS), 0);
    slip__os_fault_plan_t plan = {.kinds = SLIP__OS_CALL_BIT(MAP)};  // counts
    slip__os_fault_set(&plan);
    for (unsigned i = 0; i < SLIP_THREADS; ++i) SLIP_CHECK_EQ(pthread_create(&threads[i], NULL, slip_race, &race), 0);
    for (unsigned i = 0; i < SLIP_THREADS; ++i) SLIP_CHECK_EQ(pthread_join(threads[i], NULL), 0);
    slip__os_fault_set(NULL);
    SLIP_CHECK_EQ(race.failed, 0);
    SLIP_CHECK_EQ(plan.seen, 1);
    (void)pthread_barrier_destroy(&race.barrier);
    slip_artifact_release(race.artifact);
  }
}

static slip_status_t slip_open_body(slip_allocator_t allocator, void *user) {
  slip_artifact_t *artifact = NULL;
  slip_const_bytes_t image;
  slip_status_t status = slip_artifact_open(user, NULL, allocator, &artifact);
  if (slip_status_is_ok(status)) status = slip_artifact_image(artifact, &image);
  if (slip_status_is_ok(status)) status = slip_artifact_verify(artifact);
  slip_artifact_release(artifact);
  return status;
}

SLIP_TEST_TIMEOUT(artifact_survives_every_failing_allocation, 120) {
  char path[512];
  (void)snprintf(path, sizeof(path), "%s", slip_sample("a"));
  SLIP_CHECK(slip_test_allocator_loop(slip_open_body, path) > 30);
}

SLIP_TEST(artifact_image_outlives_what_happens_to_its_file) {
  slip_artifact_t *artifact = NULL;
  slip_const_bytes_t image, again;
  slip_image_view_t view;
  char path[128];
  slip_sample("a");
  (void)snprintf(path, sizeof(path), "a/image/%s.img", slip__cpu_target_best());
  SLIP_CHECK_OK(slip_open("a", &artifact));
  SLIP_CHECK_OK(slip_artifact_image(artifact, &image));
  SLIP_CHECK_EQ(truncate(slip_test_artifact_path(path), 5), 0);  // in place: a mapping would fault below
  SLIP_CHECK_OK(slip_artifact_image(artifact, &again));
  SLIP_CHECK(again.data == image.data && again.size == image.size);
  SLIP_CHECK_OK(slip_image_open(image, &view));
  slip_artifact_release(artifact);
}
