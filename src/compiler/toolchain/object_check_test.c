// SPDX-License-Identifier: Apache-2.0
#include "compiler/toolchain/object_check.h"

#include <elf.h>

#include "base/allocator.h"
#include "os/file.h"
#include "os/process.h"
#include "slip_test.h"

#if defined(__x86_64__)
#define HERE EM_X86_64
#else
#define HERE EM_AARCH64
#endif

#define TABLE "__attribute__((visibility(\"default\"))) const long slip_object[6] = {1};\n"

// Compiles |text| into a shared object and maps it.
static void make(const char *text, slip__mapping_t *out) {
  static int count;
  char source[512], object[512];
  snprintf(source, sizeof(source), "%s/%d.c", slip_test_temporary_directory(), count);
  snprintf(object, sizeof(object), "%s/%d.so", slip_test_temporary_directory(), count++);
  SLIP_CHECK_OK(slip__file_write(source, (slip_const_bytes_t){(const uint8_t *)text, strlen(text)}, 0600, false));
  const char *const arguments[] = {"cc", "-shared", "-fPIC", "-nostdlib", "-fvisibility=hidden", "-O1", source, "-o", object, NULL};
  slip__process_result_t result;
  SLIP_CHECK_OK(slip__process_run(arguments, NULL, 60000000000ull, slip_allocator_system(), &result));
  SLIP_CHECK_EQ(result.exit_code, 0);
  slip__free(slip_allocator_system(), result.output.data, result.output.size + 1);
  SLIP_CHECK_OK(slip__file_map(object, out));
}

static void check_refused(const char *text, const char *part) {
  slip__mapping_t object;
  make(text, &object);
  SLIP_CHECK_ERROR(slip__object_check(object.bytes, HERE), SLIP_CODE_INVALID_ARGUMENT, part);
  slip__file_unmap(&object);
}

SLIP_TEST(object_check_takes_only_closed_passive_objects) {
  slip__mapping_t object;
  make(TABLE, &object);
  SLIP_CHECK_OK(slip__object_check(object.bytes, HERE));
  SLIP_CHECK_ERROR(slip__object_check(object.bytes, EM_S390), SLIP_CODE_INVALID_ARGUMENT, "machine");
  slip__file_unmap(&object);
  check_refused("const long other[4] = {0};\n", "does not export slip_object");
  check_refused(TABLE "__attribute__((visibility(\"default\"))) int f(void) { return 1; }\n", "\"f\" is exported");
  check_refused(TABLE "int puts(const char *); __attribute__((used)) static int g(void) { return puts(\"\"); }\n", "\"puts\" is undefined");
  check_refused(TABLE "int x; __attribute__((constructor)) static void h(void) { x = 1; }\n", "constructor");
}

SLIP_TEST(object_check_survives_every_truncation_and_bit_flips) {
  slip__mapping_t object;
  make(TABLE, &object);
  for (size_t size = 0; size < object.bytes.size; size += size < 4096 ? 1 : 97) {
    slip_status_t status = slip__object_check((slip_const_bytes_t){object.bytes.data, size}, HERE);
    SLIP_CHECK(!slip_status_is_ok(status));  // the section table is at the end
    slip_status_free(status);
  }
  uint8_t *copy = malloc(object.bytes.size);
  uint64_t seed = slip_test_seed();
  for (int i = 0; i < 20000; ++i) {
    memcpy(copy, object.bytes.data, object.bytes.size);
    for (int j = 0; j < 3; ++j) {
      size_t at = slip_test_random(&seed) % object.bytes.size;
      copy[at] ^= (uint8_t)(1u << (slip_test_random(&seed) % 8));
    }
    slip_status_free(slip__object_check((slip_const_bytes_t){copy, object.bytes.size}, HERE));  // any answer, no crash
  }
  free(copy);
  slip__file_unmap(&object);
}
