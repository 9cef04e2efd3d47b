// SPDX-License-Identifier: Apache-2.0
#include "base/allocator.h"

#include "slip_test.h"
#include "slip_test_allocator.h"

SLIP_TEST(allocator_zeroes_grows_and_frees) {
  slip_test_allocator_t state = SLIP_TEST_ALLOCATOR_INIT;
  slip_allocator_t allocator = slip_test_allocator(&state);
  void *memory = &state;
  SLIP_CHECK_OK(slip__alloc(allocator, 0, &memory));
  SLIP_CHECK(memory == NULL);
  SLIP_CHECK_OK(slip__alloc(allocator, 24, &memory));
  for (int i = 0; i < 24; ++i) SLIP_CHECK_EQ(((char *)memory)[i], 0);
  memset(memory, 7, 24);
  SLIP_CHECK_OK(slip__realloc(allocator, 24, 4096, &memory));
  SLIP_CHECK_EQ(((char *)memory)[23], 7);
  for (int i = 24; i < 4096; ++i) SLIP_CHECK_EQ(((char *)memory)[i], 0);
  slip_test_allocator_fail(&state, 1, false);
  SLIP_CHECK_CODE(slip__realloc(allocator, 4096, 8192, &memory), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK_EQ(((char *)memory)[23], 7);
  SLIP_CHECK_OK(slip__realloc(allocator, 4096, 0, &memory));
  SLIP_CHECK(memory == NULL);
  slip_test_allocator_check_empty(&state);
}

SLIP_TEST(allocator_keeps_alignment) {
  slip_allocator_t allocators[2];
  slip_test_allocator_t state = SLIP_TEST_ALLOCATOR_INIT;
  allocators[0] = slip_allocator_system();
  allocators[1] = slip_test_allocator(&state);
  for (int i = 0; i < 2; ++i) {
    for (size_t alignment = 8; alignment <= 4096; alignment *= 2) {
      void *memory = NULL;
      SLIP_CHECK_OK(slip__alloc_aligned(allocators[i], 100, alignment, &memory));
      SLIP_CHECK_EQ((uintptr_t)memory % alignment, 0);
      slip__free_aligned(allocators[i], memory, 100, alignment);
    }
  }
  slip_test_allocator_check_empty(&state);
}

SLIP_TEST(allocator_refuses_sizes_that_overflow) {
  void *memory = NULL;
  slip_allocator_t system = slip_allocator_system();
  SLIP_CHECK_CODE(slip__alloc_array(system, SIZE_MAX / 2, 3, &memory), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK_CODE(slip__alloc(system, SIZE_MAX, &memory), SLIP_CODE_OUT_OF_MEMORY);
  char *text = NULL;
  SLIP_CHECK_CODE(slip__strndup(system, "x", SIZE_MAX, &text), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK(memory == NULL && text == NULL);
}
