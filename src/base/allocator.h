// SPDX-License-Identifier: Apache-2.0
// Allocation helpers over slip_allocator_t: the only way the library takes heap memory.
#ifndef SLIPSTREAM_SRC_BASE_ALLOCATOR_H_
#define SLIPSTREAM_SRC_BASE_ALLOCATOR_H_

#include "slipstream/base.h"
#include "slipstream/status.h"

// {NULL, NULL} means the system's allocator.
static inline slip_allocator_t slip__allocator_or_system(slip_allocator_t allocator) {
  return allocator.control ? allocator : slip_allocator_system();
}

// Zeroed memory, aligned to 16. Size 0 gives NULL and OK. On failure |*out| is NULL and the status is OUT_OF_MEMORY.
slip_status_t slip__alloc(slip_allocator_t allocator, size_t size, void **out) SLIP_MUST_USE;
slip_status_t slip__alloc_aligned(slip_allocator_t allocator, size_t size, size_t alignment, void **out) SLIP_MUST_USE;
// |count| * |size|, overflow-checked.
slip_status_t slip__alloc_array(slip_allocator_t allocator, size_t count, size_t size, void **out) SLIP_MUST_USE;
// Grows or shrinks; new bytes are zero. On failure |*inout| stays as it was. Alignment 16.
slip_status_t slip__realloc(slip_allocator_t allocator, size_t old_size, size_t new_size, void **inout) SLIP_MUST_USE;
// NULL is fine. |size| is the size asked for.
void slip__free(slip_allocator_t allocator, void *ptr, size_t size);
void slip__free_aligned(slip_allocator_t allocator, void *ptr, size_t size, size_t alignment);
// Copy of |length| bytes with a terminator; its size is |length| + 1.
slip_status_t slip__strndup(slip_allocator_t allocator, const char *text, size_t length, char **out) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_BASE_ALLOCATOR_H_
