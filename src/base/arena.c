// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"

#define SLIP__ARENA_ALIGNMENT 64

#if defined(__SANITIZE_ADDRESS__)
#define SLIP__ARENA_ONE_BLOCK_EACH 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLIP__ARENA_ONE_BLOCK_EACH 1
#endif
#endif
#ifndef SLIP__ARENA_ONE_BLOCK_EACH
#define SLIP__ARENA_ONE_BLOCK_EACH 0
#endif

// The header fills one alignment unit; the objects follow.
struct slip__arena_block_t {
  _Alignas(SLIP__ARENA_ALIGNMENT) slip__arena_block_t *next;
  size_t size;  // bytes with the header
  size_t used;
};

void slip__arena_initialize(slip__arena_t *arena, slip_allocator_t allocator, size_t block_bytes) {
  *arena = (slip__arena_t){.allocator = allocator, .block_bytes = block_bytes ? block_bytes : 4096};
}

void slip__arena_deinitialize(slip__arena_t *arena) {
  while (arena->blocks) {
    slip__arena_block_t *block = arena->blocks;
    arena->blocks = block->next;
    slip__free_aligned(arena->allocator, block, block->size, SLIP__ARENA_ALIGNMENT);
  }
}

// A new block with room for |size| bytes, which are taken at once. A block for one large object goes behind the current one, whose rest
// stays usable.
static slip_status_t slip__arena_grow(slip__arena_t *arena, size_t size, void **out) {
  void *memory = NULL;
  size_t bytes = 0;
  bool alone = SLIP__ARENA_ONE_BLOCK_EACH || size > arena->block_bytes / 4;
  if (!slip__checked_add(alone ? size : arena->block_bytes, sizeof(slip__arena_block_t), &bytes)) {
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "an object of %zu bytes overflows its arena block", size);
  }
  SLIP_RETURN_IF_ERROR(slip__alloc_aligned(arena->allocator, bytes, SLIP__ARENA_ALIGNMENT, &memory));
  slip__arena_block_t *block = memory;
  block->size = bytes;
  block->used = sizeof(*block) + size;
  bool behind = alone && arena->blocks;
  block->next = behind ? arena->blocks->next : arena->blocks;
  *(behind ? &arena->blocks->next : &arena->blocks) = block;
  *out = block + 1;
  return slip_ok_status();
}

slip_status_t slip__arena_alloc_aligned(slip__arena_t *arena, size_t size, size_t alignment, void **out) {
  *out = NULL;
  if (size == 0) return slip_ok_status();
  slip__arena_block_t *block = arena->blocks;
  if (block && !SLIP__ARENA_ONE_BLOCK_EACH) {
    size_t at = (block->used + alignment - 1) & ~(alignment - 1);
    if (at <= block->size && size <= block->size - at) {
      block->used = at + size;
      *out = (char *)block + at;
      return slip_ok_status();
    }
  }
  return slip__arena_grow(arena, size, out);
}

slip_status_t slip__arena_alloc(slip__arena_t *arena, size_t size, void **out) {
  return slip__arena_alloc_aligned(arena, size, 16, out);
}

slip_status_t slip__arena_alloc_array(slip__arena_t *arena, size_t count, size_t size, void **out) {
  size_t bytes = 0;
  *out = NULL;
  if (!slip__checked_mul(count, size, &bytes)) {
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "an array of %zu elements of %zu bytes overflows", count, size);
  }
  return slip__arena_alloc(arena, bytes, out);
}

slip_status_t slip__arena_strndup(slip__arena_t *arena, const char *text, size_t length, char **out) {
  void *copy = NULL;
  *out = NULL;
  if (length == SIZE_MAX) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "a string of %zu bytes overflows", length);
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_aligned(arena, length + 1, 1, &copy));
  memcpy(copy, text, length);
  *out = copy;
  return slip_ok_status();
}
