// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/pool.h"

#include <string.h>

#include "base/allocator.h"

static uint64_t slip__pool_head(uint64_t previous, uint32_t top) {
  return (((previous >> 32) + 1) << 32) | top;
}

slip_status_t slip__pool_bytes(uint32_t count, size_t block_bytes, size_t *out_stride, size_t *out_bytes) {
  *out_stride = (block_bytes + SLIP__POOL_ALIGNMENT - 1) / SLIP__POOL_ALIGNMENT * SLIP__POOL_ALIGNMENT;
  if (__builtin_mul_overflow(*out_stride, (size_t)count, out_bytes) || *out_bytes > PTRDIFF_MAX)
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "a pool of %u blocks of %zu bytes overflows", count, block_bytes);
  return slip_ok_status();
}

slip_status_t slip__pool_initialize_over(slip__pool_t *pool, uint32_t count, size_t block_bytes, void *blocks, slip_allocator_t allocator) {
  size_t stride = 0, bytes = 0;
  void *next = NULL;
  memset(pool, 0, sizeof(*pool));
  SLIP_RETURN_IF_ERROR(slip__pool_bytes(count, block_bytes, &stride, &bytes));
  SLIP_RETURN_IF_ERROR(slip__alloc_array(allocator, count, sizeof(*pool->next), &next));
  pool->blocks = blocks;
  pool->next = next;
  pool->stride = stride;
  pool->count = count;
  pool->borrowed = true;
  for (uint32_t i = 0; i < count; ++i) atomic_init(&pool->next[i], i + 1 < count ? i + 2 : 0);
  atomic_store_explicit(&pool->head, 1, memory_order_release);
  return slip_ok_status();
}

slip_status_t slip__pool_initialize(slip__pool_t *pool, uint32_t count, size_t block_bytes, slip_allocator_t allocator) {
  size_t stride = 0, bytes = 0;
  memset(pool, 0, sizeof(*pool));
  SLIP_RETURN_IF_ERROR(slip__pool_bytes(count, block_bytes, &stride, &bytes));
  // Straight from the allocator: the helpers zero what they return, which would commit every page of blocks that may never be used.
  void *blocks = allocator.control(allocator.self, NULL, 0, bytes, SLIP__POOL_ALIGNMENT);
  if (!blocks) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for a pool of %u blocks of %zu bytes", count, stride);
  slip_status_t status = slip__pool_initialize_over(pool, count, block_bytes, blocks, allocator);
  if (slip_status_is_ok(status)) {
    pool->borrowed = false;
  } else {
    slip__free_aligned(allocator, blocks, bytes, SLIP__POOL_ALIGNMENT);
  }
  return status;
}

void slip__pool_deinitialize(slip__pool_t *pool, slip_allocator_t allocator) {
  if (!pool->blocks) return;
  if (!pool->borrowed) slip__free_aligned(allocator, pool->blocks, pool->stride * pool->count, SLIP__POOL_ALIGNMENT);
  slip__free(allocator, pool->next, pool->count * sizeof(*pool->next));
  memset(pool, 0, sizeof(*pool));
}

void *slip__pool_take(slip__pool_t *pool) {
  uint64_t head = atomic_load_explicit(&pool->head, memory_order_acquire), fresh;
  uint32_t top;
  do {
    top = (uint32_t)head;
    if (top == 0) return NULL;
    // May be stale if another thread took |top| meanwhile; the tag then makes the exchange fail.
    fresh = slip__pool_head(head, atomic_load_explicit(&pool->next[top - 1], memory_order_relaxed));
  } while (!atomic_compare_exchange_weak_explicit(&pool->head, &head, fresh, memory_order_acquire, memory_order_acquire));
  return pool->blocks + (size_t)(top - 1) * pool->stride;
}

void slip__pool_give(slip__pool_t *pool, void *block) {
  uint32_t index = slip__pool_index(pool, block);
  uint64_t head = atomic_load_explicit(&pool->head, memory_order_relaxed);
  do {
    atomic_store_explicit(&pool->next[index], (uint32_t)head, memory_order_relaxed);
  } while (!atomic_compare_exchange_weak_explicit(&pool->head, &head, slip__pool_head(head, index + 1), memory_order_release,
                                                  memory_order_relaxed));
}
