// SPDX-License-Identifier: Apache-2.0
// Code modules, on platforms that run host-native objects.
#include "conformance.h"
#include "slip_test_object.h"

static slip_platform_t *conform_native(void) {
  slip_platform_t *platform = conform_platform();
  conform_need(platform, SLIP_PLATFORM_CAN_HOST_NATIVE, "to run host-native objects");
  return platform;
}

static int conform_call(slip_platform_t *platform, slip_module_t module) {
  void *symbol = NULL;
  CONFORM_OK(slip__platform_module_symbol(platform, module, "value", &symbol));
  int (*function)(void);
  memcpy(&function, &symbol, sizeof(function));
  return function();
}

SLIP_TEST(module_loads_are_separate_and_outlive_their_bytes) {
  slip_platform_t *platform = conform_native();
  slip_module_t one = NULL, two = NULL;
  slip_bytes_t object = slip_test_object_build("int value(void) { static int n; return ++n; }");
  slip_const_bytes_t binary = {object.data, object.size};
  CONFORM_OK(slip__platform_module_load(platform, 0, binary, &one));
  CONFORM_OK(slip__platform_module_load(platform, 0, binary, &two));
  memset(object.data, 0, object.size);
  free(object.data);
  SLIP_CHECK_EQ(conform_call(platform, one), 1);
  SLIP_CHECK_EQ(conform_call(platform, one), 2);
  SLIP_CHECK_EQ(conform_call(platform, two), 1);
  SLIP_CHECK_OK(slip__platform_module_unload(platform, one));
  SLIP_CHECK_EQ(conform_call(platform, two), 2);
  SLIP_CHECK_OK(slip__platform_module_unload(platform, two));
}

SLIP_TEST(module_missing_symbol_is_not_found) {
  slip_platform_t *platform = conform_native();
  slip_module_t module = NULL;
  void *symbol = &module;
  slip_bytes_t object = slip_test_object_build("int value(void) { return 1; }");
  CONFORM_OK(slip__platform_module_load(platform, 0, (slip_const_bytes_t){object.data, object.size}, &module));
  SLIP_CHECK_ERROR(slip__platform_module_symbol(platform, module, "no_such_symbol", &symbol), SLIP_CODE_NOT_FOUND, "no_such_symbol");
  SLIP_CHECK(symbol == NULL);
  SLIP_CHECK_OK(slip__platform_module_unload(platform, module));
  free(object.data);
}

SLIP_TEST(module_damaged_binaries_are_corrupt) {
  slip_platform_t *platform = conform_native();
  slip_bytes_t object = slip_test_object_build("int value(void) { return 1; }");
  const size_t sizes[] = {0, 1, 63, 64, 200, object.size / 2};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    slip_module_t module = (slip_module_t)&sizes;
    SLIP_CHECK_CODE(slip__platform_module_load(platform, 0, (slip_const_bytes_t){object.data, sizes[i]}, &module), SLIP_CODE_CORRUPT);
    SLIP_CHECK(module == NULL);
  }
  slip_module_t module = NULL;
  memset(object.data, 'x', 16);
  SLIP_CHECK_CODE(slip__platform_module_load(platform, 0, (slip_const_bytes_t){object.data, object.size}, &module), SLIP_CODE_CORRUPT);
  free(object.data);
}
