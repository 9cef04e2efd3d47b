// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/pool.h"

#include <pthread.h>

#include "slip_test.h"

SLIP_TEST(pool_gives_each_block_once) {
  slip__pool_t pool;
  SLIP_CHECK_OK(slip__pool_initialize(&pool, 5, 100, slip_allocator_system()));
  void *blocks[5];
  for (int i = 0; i < 5; ++i) {
    blocks[i] = slip__pool_take(&pool);
    SLIP_CHECK(blocks[i] != NULL);
    SLIP_CHECK_EQ((uintptr_t)blocks[i] % SLIP__POOL_ALIGNMENT, 0);
    for (int k = 0; k < i; ++k) SLIP_CHECK((char *)blocks[k] + 100 <= (char *)blocks[i] || (char *)blocks[i] + 100 <= (char *)blocks[k]);
  }
  SLIP_CHECK(slip__pool_take(&pool) == NULL);
  slip__pool_give(&pool, blocks[3]);
  SLIP_CHECK(slip__pool_take(&pool) == blocks[3]);
  for (int i = 0; i < 5; ++i) slip__pool_give(&pool, blocks[i]);
  SLIP_CHECK(slip__pool_take(&pool) == blocks[4]);  // last in, first out
  slip__pool_deinitialize(&pool, slip_allocator_system());
  slip__pool_deinitialize(&pool, slip_allocator_system());
}

SLIP_TEST(pool_too_large_is_refused) {
  slip__pool_t pool;
  SLIP_CHECK_CODE(slip__pool_initialize(&pool, UINT32_MAX, SIZE_MAX / 2, slip_allocator_system()), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK(pool.blocks == NULL);
}

static slip__pool_t slip_pool_test_shared;

// Owners write their block; two owners of one block would race on it.
static void *slip_pool_test_worker(void *user) {
  uint64_t mark = (uint64_t)(uintptr_t)user;
  for (int i = 0; i < 20000; ++i) {
    volatile uint64_t *block = slip__pool_take(&slip_pool_test_shared);
    if (!block) continue;
    *block = mark;
    if (*block != mark) abort();
    slip__pool_give(&slip_pool_test_shared, (void *)(uintptr_t)block);
  }
  return NULL;
}

SLIP_TEST(pool_blocks_have_one_owner_under_contention) {
  SLIP_CHECK_OK(slip__pool_initialize(&slip_pool_test_shared, 3, 64, slip_allocator_system()));
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i) SLIP_CHECK_EQ(pthread_create(&threads[i], NULL, slip_pool_test_worker, (void *)(i + 1)), 0);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 3; ++i) SLIP_CHECK(slip__pool_take(&slip_pool_test_shared) != NULL);
  SLIP_CHECK(slip__pool_take(&slip_pool_test_shared) == NULL);
  slip__pool_deinitialize(&slip_pool_test_shared, slip_allocator_system());
}
