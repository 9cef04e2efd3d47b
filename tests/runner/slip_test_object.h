// SPDX-License-Identifier: Apache-2.0
// Builds a small shared object from C text, for tests that load code.
#ifndef SLIP_TEST_OBJECT_H_
#define SLIP_TEST_OBJECT_H_

#include "os/file.h"
#include "os/process.h"
#include "slip_test.h"

// Compiles |source| with "cc" into the test's directory and returns the object's bytes: |size| + 1 bytes of the system's allocator.
static inline slip_bytes_t slip_test_object_build(const char *source) {
  char source_path[256], object_path[256];
  slip_bytes_t object = {NULL, 0};
  slip__process_result_t result;
  (void)snprintf(source_path, sizeof(source_path), "%s/object.c", slip_test_temporary_directory());
  (void)snprintf(object_path, sizeof(object_path), "%s/object.so", slip_test_temporary_directory());
  SLIP_CHECK_OK(slip__file_write(source_path, (slip_const_bytes_t){(const uint8_t *)source, strlen(source)}, 0600, false));
  const char *const command[] = {"cc", "-shared", "-fPIC", "-O1", "-o", object_path, source_path, NULL};
  SLIP_CHECK_OK(slip__process_run(command, NULL, 60000000000u, slip_allocator_system(), &result));
  if (result.exit_code != 0) slip_test_fail(__FILE__, __LINE__, "cc gave %d: %s", result.exit_code, (char *)result.output.data);
  free(result.output.data);
  SLIP_CHECK_OK(slip__file_read(object_path, 1u << 24, slip_allocator_system(), &object));
  SLIP_CHECK_OK(slip__directory_remove_all(source_path));
  SLIP_CHECK_OK(slip__directory_remove_all(object_path));
  return object;
}

#endif  // SLIP_TEST_OBJECT_H_
