// SPDX-License-Identifier: Apache-2.0
#include "os/dylib.h"

#include <errno.h>
#include <unistd.h>

#include "os/fault.h"
#include "slip_test.h"
#include "slip_test_object.h"

static slip_const_bytes_t dylib_const(slip_bytes_t bytes) {
  return (slip_const_bytes_t){bytes.data, bytes.size};
}

static int dylib_call(slip__dylib_t *library) {
  void *symbol = NULL;
  SLIP_CHECK_OK(slip__dylib_symbol(library, "value", &symbol));
  int (*function)(void);
  memcpy(&function, &symbol, sizeof(function));
  return function();
}

SLIP_TEST(dylib_loads_from_memory_and_forgets_the_bytes) {
  slip__dylib_t *one = NULL, *two = NULL, *again = NULL;
  slip_allocator_t system = slip_allocator_system();
  slip_bytes_t first = slip_test_object_build("int value(void) { static int n = 1; return n++; }");
  slip_bytes_t second = slip_test_object_build("int value(void) { return 22; }");
  SLIP_CHECK_OK(slip__dylib_open_memory(dylib_const(first), "one", system, &one));
  // The descriptor number is free again: a loader that goes by the path would hand out the first object here.
  SLIP_CHECK_OK(slip__dylib_open_memory(dylib_const(second), "two", system, &two));
  SLIP_CHECK_OK(slip__dylib_open_memory(dylib_const(first), "one", system, &again));
  memset(first.data, 0xee, first.size);
  free(first.data);
  free(second.data);
  SLIP_CHECK_EQ(dylib_call(one), 1);
  SLIP_CHECK_EQ(dylib_call(one), 2);
  SLIP_CHECK_EQ(dylib_call(two), 22);
  SLIP_CHECK_EQ(dylib_call(again), 1);
  void *symbol = &one;
  SLIP_CHECK_ERROR(slip__dylib_symbol(two, "nothing", &symbol), SLIP_CODE_NOT_FOUND, "\"two\" has no symbol \"nothing\"");
  SLIP_CHECK(symbol == NULL);
  SLIP_CHECK_OK(slip__dylib_close(one));
  SLIP_CHECK_OK(slip__dylib_close(two));
  SLIP_CHECK_OK(slip__dylib_close(again));
  SLIP_CHECK_OK(slip__dylib_close(NULL));
}

SLIP_TEST(dylib_refuses_what_is_no_object) {
  slip__dylib_t *library = NULL;
  slip_allocator_t system = slip_allocator_system();
  static const uint8_t text[128] = "not an object";
  SLIP_CHECK_CODE(slip__dylib_open_memory((slip_const_bytes_t){text, sizeof(text)}, "text", system, &library), SLIP_CODE_CORRUPT);
  SLIP_CHECK_CODE(slip__dylib_open_memory((slip_const_bytes_t){NULL, 0}, "empty", system, &library), SLIP_CODE_CORRUPT);
  SLIP_CHECK_CODE(slip__dylib_open("libslip-there-is-no-such-library.so.9", system, &library), SLIP_CODE_NOT_FOUND);
  SLIP_CHECK(library == NULL);
  slip_bytes_t object = slip_test_object_build("int table[4096] = {1}; int value(void) { return table[4095]; }");
  for (size_t size = 0; size < object.size * 3 / 4; size += 509) {
    SLIP_CHECK_CODE(slip__dylib_open_memory((slip_const_bytes_t){object.data, size}, "cut", system, &library), SLIP_CODE_CORRUPT);
    SLIP_CHECK(library == NULL);
  }
  free(object.data);
}

SLIP_TEST(dylib_reports_each_failing_call_and_keeps_what_is_open) {
  slip__dylib_t *library = NULL;
  slip_allocator_t system = slip_allocator_system();
  slip_bytes_t object = slip_test_object_build("int value(void) { return 5; }");
  slip__os_fault_plan_t plan = {.kinds = SLIP__OS_CALL_BIT(MEMFD), .nth = 1, .error = EMFILE};
  slip__os_fault_set(&plan);
  slip_status_t status = slip__dylib_open_memory(dylib_const(object), "x", system, &library);
  SLIP_CHECK_EQ(slip_status_platform_code(status), EMFILE);
  SLIP_CHECK_CODE(status, SLIP_CODE_IO);
  plan = (slip__os_fault_plan_t){.kinds = SLIP__OS_CALL_BIT(WRITE), .nth = 1, .error = ENOSPC};
  SLIP_CHECK_CODE(slip__dylib_open_memory(dylib_const(object), "x", system, &library), SLIP_CODE_OUT_OF_MEMORY);
  plan = (slip__os_fault_plan_t){.kinds = SLIP__OS_CALL_BIT(LOAD), .nth = 1, .error = EIO};
  SLIP_CHECK_CODE(slip__dylib_open_memory(dylib_const(object), "x", system, &library), SLIP_CODE_CORRUPT);
  SLIP_CHECK(library == NULL);
  plan = (slip__os_fault_plan_t){.kinds = SLIP__OS_CALL_BIT(UNLOAD), .nth = 1, .error = EBUSY};
  SLIP_CHECK_OK(slip__dylib_open_memory(dylib_const(object), "x", system, &library));
  SLIP_CHECK_CODE(slip__dylib_close(library), SLIP_CODE_IO);
  SLIP_CHECK_EQ(dylib_call(library), 5);
  SLIP_CHECK_OK(slip__dylib_close(library));
  slip__os_fault_set(NULL);
  free(object.data);
}

SLIP_TEST(dylib_leaves_no_descriptor_open) {
  slip__dylib_t *library = NULL;
  slip_bytes_t object = slip_test_object_build("int value(void) { return 5; }");
  int before = dup(0);
  close(before);
  SLIP_CHECK_OK(slip__dylib_open_memory(dylib_const(object), "x", slip_allocator_system(), &library));
  int after = dup(0);
  close(after);
  SLIP_CHECK_EQ(after, before);
  SLIP_CHECK_OK(slip__dylib_close(library));
  free(object.data);
}
