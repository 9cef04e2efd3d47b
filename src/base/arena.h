// SPDX-License-Identifier: Apache-2.0
// Bump arena: many small objects that die together. Thread-compatible.
//
// Under the address sanitizer each object is an allocation of its own, so that a step beyond one is seen.
#ifndef SLIPSTREAM_SRC_BASE_ARENA_H_
#define SLIPSTREAM_SRC_BASE_ARENA_H_

#include "slipstream/base.h"
#include "slipstream/status.h"

typedef struct slip__arena_block_t slip__arena_block_t;

typedef struct slip__arena_t {
  slip_allocator_t allocator;
  slip__arena_block_t *blocks;  // newest first
  size_t block_bytes;
} slip__arena_t;

// Takes no memory yet. |block_bytes| 0: 4096. Larger objects get a block of their own.
void slip__arena_initialize(slip__arena_t *arena, slip_allocator_t allocator, size_t block_bytes);
// Frees everything; the arena is then as after initialize.
void slip__arena_deinitialize(slip__arena_t *arena);
// Zeroed memory, aligned to |alignment| (a power of two, at most 64). Size 0 gives NULL and OK. On failure |*out| is NULL. OUT_OF_MEMORY.
slip_status_t slip__arena_alloc_aligned(slip__arena_t *arena, size_t size, size_t alignment, void **out) SLIP_MUST_USE;
// Aligned to 16.
slip_status_t slip__arena_alloc(slip__arena_t *arena, size_t size, void **out) SLIP_MUST_USE;
// |count| * |size|, overflow-checked.
slip_status_t slip__arena_alloc_array(slip__arena_t *arena, size_t count, size_t size, void **out) SLIP_MUST_USE;
// A terminated copy of |length| bytes.
slip_status_t slip__arena_strndup(slip__arena_t *arena, const char *text, size_t length, char **out) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_BASE_ARENA_H_
