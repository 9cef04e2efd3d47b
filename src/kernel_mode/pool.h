// SPDX-License-Identifier: Apache-2.0
// A fixed pool of equal blocks, taken and given back from any thread without a lock or an allocation (thread-safe).
//
// The free blocks form a stack of indices: |head| holds the top's index + 1 (0: empty) in its low half and a tag in its high half;
// |next[i]| links them.
//   take   acquire: pairs with give, so the taker sees the block as its last owner left it
//   give   release
// The tag grows with every successful take or give, so that a head read before the top was taken and given back by others never matches
// again (ABA). Last in, first out: a steady load touches few blocks. The blocks themselves are address space until used: their memory is
// not zeroed.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_POOL_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_POOL_H_

#include <stdatomic.h>
#include <stdbool.h>

#include "slipstream/status.h"

#define SLIP__POOL_ALIGNMENT 64

typedef struct slip__pool_t {
  _Alignas(64) _Atomic uint64_t head;
  _Atomic uint32_t *next;
  unsigned char *blocks;
  size_t stride;  // bytes, a multiple of SLIP__POOL_ALIGNMENT
  uint32_t count;
  bool borrowed;  // |blocks| are somebody else's
} slip__pool_t;

// The bytes that |count| blocks take. OUT_OF_MEMORY on overflow.
slip_status_t slip__pool_bytes(uint32_t count, size_t block_bytes, size_t *out_stride, size_t *out_bytes) SLIP_MUST_USE;

// OUT_OF_MEMORY; |pool| is zeroed on failure. |block_bytes| is rounded up to the alignment.
slip_status_t slip__pool_initialize(slip__pool_t *pool, uint32_t count, size_t block_bytes, slip_allocator_t allocator) SLIP_MUST_USE;
// The same over |blocks|, slip__pool_bytes() of them, aligned to SLIP__POOL_ALIGNMENT, which outlive the pool.
slip_status_t slip__pool_initialize_over(slip__pool_t *pool, uint32_t count, size_t block_bytes, void *blocks,
                                         slip_allocator_t allocator) SLIP_MUST_USE;
// All blocks must be back. A zeroed pool is fine.
void slip__pool_deinitialize(slip__pool_t *pool, slip_allocator_t allocator);
// NULL when empty.
void *slip__pool_take(slip__pool_t *pool);
void slip__pool_give(slip__pool_t *pool, void *block);
static inline uint32_t slip__pool_index(const slip__pool_t *pool, const void *block) {
  return (uint32_t)((size_t)((const unsigned char *)block - pool->blocks) / pool->stride);
}

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_POOL_H_
