// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include "slip_test.h"
#include "slip_test_allocator.h"

// Many random objects: zeroed, aligned, disjoint and stable.
static slip_status_t arena_fill(slip_allocator_t allocator, void *user) {
  slip__arena_t arena;
  uint64_t random = *(uint64_t *)user;
  unsigned char *objects[200];
  size_t sizes[200];
  size_t count = 0;
  slip__arena_initialize(&arena, allocator, 1024);
  slip_status_t status = slip_ok_status();
  while (count < 200 && slip_status_is_ok(status)) {
    size_t alignment = (size_t)1 << (slip_test_random(&random) % 7);
    sizes[count] = slip_test_random(&random) % 16 == 0 ? 3000 : 1 + slip_test_random(&random) % 120;
    void *memory = NULL;
    status = slip__arena_alloc_aligned(&arena, sizes[count], alignment, &memory);
    if (!slip_status_is_ok(status)) {
      SLIP_CHECK(memory == NULL);
      break;
    }
    objects[count] = memory;
    SLIP_CHECK_EQ((uintptr_t)memory % alignment, 0);
    for (size_t i = 0; i < sizes[count]; ++i) SLIP_CHECK_EQ(objects[count][i], 0);
    memset(objects[count], (int)(1 + count % 255), sizes[count]);
    ++count;
  }
  for (size_t n = 0; n < count; ++n) {
    for (size_t i = 0; i < sizes[n]; ++i) SLIP_CHECK_EQ(objects[n][i], 1 + n % 255);
  }
  slip__arena_deinitialize(&arena);
  return status;
}

SLIP_TEST(arena_objects_are_zeroed_aligned_and_disjoint) {
  uint64_t seed = slip_test_seed();
  SLIP_CHECK(slip_test_allocator_loop(arena_fill, &seed) > 3);
}

SLIP_TEST(arena_refuses_overflow_and_copies_text) {
  slip__arena_t arena;
  void *memory = NULL;
  char *text = NULL;
  slip__arena_initialize(&arena, slip_allocator_system(), 0);
  SLIP_CHECK_CODE(slip__arena_alloc_array(&arena, SIZE_MAX, 2, &memory), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK_CODE(slip__arena_alloc(&arena, SIZE_MAX - 8, &memory), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK_OK(slip__arena_alloc(&arena, 0, &memory));
  SLIP_CHECK(memory == NULL);
  SLIP_CHECK_OK(slip__arena_strndup(&arena, "stream", 3, &text));
  SLIP_CHECK_STR(text, "str");
  slip__arena_deinitialize(&arena);
  slip__arena_deinitialize(&arena);
}
