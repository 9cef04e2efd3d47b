// SPDX-License-Identifier: Apache-2.0
// Writes the first seeds of the corpora into the folder given; needed again when the image format changes:
//   cmake --build --preset dev --target fuzz_seeds && build/dev/fuzz_seeds tests/fuzz/corpus
#include "slip_fuzz.h"
#include "os/file.h"
#include "slip_test_image.h"

static slip_status_t slip_seed(const char *folder, const char *name, const void *bytes, size_t size) {
  char path[1024];
  (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
  SLIP_RETURN_IF_ERROR(slip__directory_remove_all(path));
  return slip__file_write(path, (slip_const_bytes_t){bytes, size}, 0644, false);
}

int main(int argc, char **argv) {
  static const char *const names[SLIP_TEST_IMAGE_SAMPLES] = {"image/kernel_cpu.img", "image/program_sim.img", "image/device_cuda.img",
                                                             "image/smallest.img"};
  if (argc != 2) return 2;
  for (unsigned i = 0; i < SLIP_TEST_IMAGE_SAMPLES; ++i) {
    slip_bytes_t image;
    SLIP_FUZZ_CHECK(slip_fuzz_code(slip_test_image_sample(i, slip_allocator_system(), &image)) == SLIP_CODE_OK);
    SLIP_FUZZ_CHECK(slip_fuzz_code(slip_seed(argv[1], names[i], image.data, image.size)) == SLIP_CODE_OK);
    slip_test_image_free(slip_allocator_system(), image);
  }
  return 0;
}
