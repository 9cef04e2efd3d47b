// SPDX-License-Identifier: Apache-2.0
// Artifacts for tests, with images that hold no real code: all CPU targets of this machine's architecture and one that no machine runs.
#ifndef SLIP_TEST_ARTIFACT_H_
#define SLIP_TEST_ARTIFACT_H_

#include "artifact/artifact_writer.h"
#include "os/file.h"
#include "os/topology.h"
#include "slip_test.h"
#include "slip_test_image.h"

#define SLIP_TEST_ARTIFACT_MAX_IMAGES 8
#define SLIP_TEST_ARTIFACT_KEY        "0123456789abcdef0123456789abcdef"
#define SLIP_TEST_ARTIFACT_PARAMS     "(in x: f32[M,8], out y: f32[M,8], inout s: i32[], eps: f32) -> (y, s)"

// A description that owns what it points to.
typedef struct slip_test_artifact_t {
  slip__artifact_desc_t desc;
  slip__artifact_entry_t entries[2];
  slip__artifact_fact_t facts[2];
  slip__artifact_image_t images[SLIP_TEST_ARTIFACT_MAX_IMAGES];
  slip__artifact_file_t files[2];
  slip_bytes_t owned[SLIP_TEST_ARTIFACT_MAX_IMAGES];
} slip_test_artifact_t;

// One image of the description's entries.
static inline slip_bytes_t slip_test_artifact_image(const slip_test_artifact_t *artifact, const char *target) {
  uint8_t elf[4000];
  slip_image_entry_t entries[2] = {{NULL, NULL}};
  slip_bytes_t image;
  slip_test_image_fill_elf(elf, sizeof(elf));
  for (size_t i = 0; i < artifact->desc.entry_count; ++i) {
    entries[i] = (slip_image_entry_t){artifact->entries[i].name, artifact->entries[i].lowered_params};
  }
  slip_image_kernel_t kernel = {.name = "tile", .tensor_count = 2};
  slip_image_desc_t desc = {.platform = artifact->desc.platform,
                            .contract = artifact->desc.contract,
                            .runtime_kind = SLIP_RUNTIME_HOST_NATIVE,
                            .entry_count = (uint32_t)artifact->desc.entry_count,
                            .target = target,
                            .build_id = "test",
                            .entries = entries,
                            .kernels = &kernel,
                            .kernel_count = 1,
                            .orchestration = {elf, sizeof(elf)}};
  SLIP_CHECK_OK(slip_image_pack(&desc, slip_allocator_system(), &image));
  return image;
}

// A kernel has one entry, a program two.
static inline void slip_test_artifact_initialize(slip_test_artifact_t *artifact, uint16_t platform, uint32_t contract) {
  static const char source[] = "int main_entry;\n", report[] = "{}\n";
  memset(artifact, 0, sizeof(*artifact));
  artifact->entries[0].name = "main_entry";
  artifact->entries[0].params = artifact->entries[0].lowered_params = slip_test_image_signature(SLIP_TEST_ARTIFACT_PARAMS);
  artifact->entries[1].name = "other_entry";
  artifact->entries[1].params = artifact->entries[1].lowered_params = slip_test_image_signature("(in a: u8[], out b: u8[3]) -> (b)");
  artifact->facts[0] = (slip__artifact_fact_t){"compiler", "cc \"quoted\" 1.0"};
  artifact->facts[1] = (slip__artifact_fact_t){"options", "-O2"};
  artifact->files[0] = (slip__artifact_file_t){"src/deep/main.c", {(const uint8_t *)source, sizeof(source) - 1}};
  artifact->files[1] = (slip__artifact_file_t){"report/compile.json", {(const uint8_t *)report, sizeof(report) - 1}};
  artifact->desc = (slip__artifact_desc_t){.name = "sample",
                                           .platform = platform,
                                           .contract = contract,
                                           .key = SLIP_TEST_ARTIFACT_KEY,
                                           .entries = artifact->entries,
                                           .entry_count = contract == SLIP_CONTRACT_KERNEL ? 1 : 2,
                                           .toolchain = artifact->facts,
                                           .toolchain_count = 2,
                                           .images = artifact->images,
                                           .files = artifact->files,
                                           .file_count = 2};
  for (size_t i = 0; i <= slip__cpu_target_count() && i < SLIP_TEST_ARTIFACT_MAX_IMAGES; ++i) {
    const char *target = i == 0 ? "x86-64-v99" : slip__cpu_target_at(i - 1);
    slip_bytes_t image = slip_test_artifact_image(artifact, target);
    artifact->owned[i] = image;
    artifact->images[i] = (slip__artifact_image_t){target, {image.data, image.size}};
    artifact->desc.image_count = i + 1;
  }
}

static inline void slip_test_artifact_deinitialize(slip_test_artifact_t *artifact) {
  for (size_t i = 0; i < SLIP_TEST_ARTIFACT_MAX_IMAGES; ++i) slip_test_image_free(slip_allocator_system(), artifact->owned[i]);
  slip_signature_release(artifact->entries[0].params);
  slip_signature_release(artifact->entries[1].params);
}

// "<test's directory>/<name>"; valid until four more calls.
static inline const char *slip_test_artifact_path(const char *name) {
  static char paths[4][512];
  static unsigned next;
  char *path = paths[next++ % 4];
  (void)snprintf(path, sizeof(paths[0]), "%s/%s", slip_test_temporary_directory(), name);
  return path;
}

// Writes the sample to |name| in the test's directory and returns its path.
static inline const char *slip_test_artifact_write(const char *name, uint16_t platform, uint32_t contract) {
  slip_test_artifact_t artifact;
  const char *path = slip_test_artifact_path(name);
  slip_test_artifact_initialize(&artifact, platform, contract);
  SLIP_CHECK_OK(slip__artifact_write(&artifact.desc, path, false, slip_allocator_system()));
  slip_test_artifact_deinitialize(&artifact);
  return path;
}

#endif  // SLIP_TEST_ARTIFACT_H_
