// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <unistd.h>

#include "cli_support.h"

// The path of one image of |artifact|, relative to the test's directory.
static const char *image_of(const char *artifact) {
  static char path[512];
  char folder[256];
  snprintf(folder, sizeof(folder), "%s/image", artifact);
  DIR *directory = opendir(in_test(folder));
  SLIP_CHECK(directory != NULL);
  path[0] = '\0';
  for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
    if (strstr(entry->d_name, ".img")) snprintf(path, sizeof(path), "%s/%.200s", folder, entry->d_name);
  }
  closedir(directory);
  SLIP_CHECK(path[0] != '\0');
  return path;
}

SLIP_TEST_TIMEOUT(inspect_artifact_and_image, 120) {
  SLIP(0, NULL, "compile", in_source("examples/axpy/axpy.json"), "-o", "a.slipc");
  SLIP(0, "(in x: f32[N], inout y: f32[N], a: f32) -> (y)", "inspect", "a.slipc");
  SLIP(0, "kernel 0   axpy_tile", "inspect", image_of("a.slipc"));
  json_t *document = SLIP_JSON(0, "inspect", "a.slipc");
  SLIP_CHECK_STR(json_string_value(json_object_get(document, "name")), "axpy");
  SLIP_CHECK_STR(json_string_value(json_object_get(document, "contract")), "kernel");
  SLIP_CHECK(json_array_size(json_object_get(document, "images")) >= 1);
  json_decref(document);
  document = SLIP_JSON(0, "inspect", image_of("a.slipc"));
  SLIP_CHECK_EQ(json_array_size(json_object_get(document, "kernels")), 1);
  json_decref(document);
}

SLIP_TEST_TIMEOUT(inspect_refuses_damaged_images, 120) {
  static char bytes[1 << 20];
  SLIP(0, NULL, "compile", in_source("examples/axpy/axpy.json"), "-o", "a.slipc");
  size_t size = read_file(image_of("a.slipc"), bytes, sizeof(bytes));
  write_file("short.img", bytes, size - 1);
  SLIP(1, "CORRUPT", "inspect", "short.img");
  bytes[size] = 0;
  write_file("long.img", bytes, size + 1);
  SLIP(1, "CORRUPT", "inspect", "long.img");
  bytes[size / 2] ^= 1;
  write_file("flipped.img", bytes, size);
  SLIP(1, "CORRUPT", "inspect", "flipped.img");
  write_file("empty.img", "", 0);
  SLIP(1, "CORRUPT", "inspect", "empty.img");
  SLIP(1, "NOT_FOUND", "inspect", "none");
  SLIP(1, NULL, "inspect", ".");
}

SLIP_TEST(doctor_and_help) {
  SLIP(0, "platform cpu", "doctor");
  SLIP(0, "slip run --skip-build-check accepts it", "doctor");
  json_t *document = SLIP_JSON(0, "doctor");
  SLIP_CHECK_STR(json_string_value(json_object_get(document, "version")), SLIP_VERSION_STRING);
  SLIP_CHECK(json_array_size(json_object_get(document, "platforms")) >= 1);
  json_decref(document);
  SLIP(0, "slip " SLIP_VERSION_STRING, "--version");
  SLIP(0, "Commands:", "help");
  SLIP(0, "Usage: slip run", "help", "run");
  SLIP(0, "Usage: slip compile", "compile", "--help");
  SLIP(2, "there is no command 'fly'", "help", "fly");
}

SLIP_TEST_TIMEOUT(inspect_artifact_of_another_machine, 120) {
  if (access("/usr/bin/aarch64-linux-gnu-gcc", X_OK) != 0) slip_test_skip("needs aarch64-linux-gnu-gcc (Debian: gcc-aarch64-linux-gnu)");
#if defined(__aarch64__)
  slip_test_skip("this is that machine");
#endif
  SLIP(3, "name a cross compiler", "compile", in_source("examples/axpy/axpy.json"), "-o", "a.slipc", "--target", "aarch64", "--compiler",
       "gcc");
  SLIP(0, NULL, "compile", in_source("examples/axpy/axpy.json"), "-o", "a.slipc", "--target", "aarch64", "--compiler",
       "aarch64-linux-gnu-gcc");
  SLIP(0, "does not run here, only on aarch64", "inspect", "a.slipc");
  SLIP(1, "INCOMPATIBLE", "run", "a.slipc");
}
