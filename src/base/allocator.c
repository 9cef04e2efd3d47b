// SPDX-License-Identifier: Apache-2.0
#include "base/allocator.h"

#include <stdlib.h>
#include <string.h>

#define SLIP__ALLOCATION_ALIGNMENT 16

static void *slip__allocator_system_control(void *self, void *ptr, size_t old_size, size_t new_size, size_t alignment) {
  (void)self;
  if (new_size == 0) {
    free(ptr);
    return NULL;
  }
  if (alignment <= SLIP__ALLOCATION_ALIGNMENT) return realloc(ptr, new_size);
  void *fresh = NULL;
  if (posix_memalign(&fresh, alignment, new_size) != 0) return NULL;
  if (ptr) {
    memcpy(fresh, ptr, old_size < new_size ? old_size : new_size);
    free(ptr);
  }
  return fresh;
}

slip_allocator_t slip_allocator_system(void) {
  return (slip_allocator_t){NULL, slip__allocator_system_control};
}

const char *slip_version(void) {
  return SLIP_VERSION_STRING;
}

slip_status_t slip__alloc_aligned(slip_allocator_t allocator, size_t size, size_t alignment, void **out) {
  *out = NULL;
  if (size == 0) return slip_ok_status();
  if (size > PTRDIFF_MAX) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "an allocation of %zu bytes is larger than any object may be", size);
  void *ptr = allocator.control(allocator.self, NULL, 0, size, alignment);
  if (!ptr) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for %zu bytes", size);
  memset(ptr, 0, size);
  *out = ptr;
  return slip_ok_status();
}

slip_status_t slip__alloc(slip_allocator_t allocator, size_t size, void **out) {
  return slip__alloc_aligned(allocator, size, SLIP__ALLOCATION_ALIGNMENT, out);
}

slip_status_t slip__alloc_array(slip_allocator_t allocator, size_t count, size_t size, void **out) {
  size_t bytes = 0;
  *out = NULL;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "an array of %zu elements of %zu bytes overflows", count, size);
  }
  return slip__alloc(allocator, bytes, out);
}

slip_status_t slip__realloc(slip_allocator_t allocator, size_t old_size, size_t new_size, void **inout) {
  if (new_size == 0) {
    slip__free(allocator, *inout, old_size);
    *inout = NULL;
    return slip_ok_status();
  }
  if (!*inout) return slip__alloc(allocator, new_size, inout);
  if (new_size > PTRDIFF_MAX)
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "an allocation of %zu bytes is larger than any object may be", new_size);
  void *ptr = allocator.control(allocator.self, *inout, old_size, new_size, SLIP__ALLOCATION_ALIGNMENT);
  if (!ptr) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory to grow %zu to %zu bytes", old_size, new_size);
  if (new_size > old_size) memset((char *)ptr + old_size, 0, new_size - old_size);
  *inout = ptr;
  return slip_ok_status();
}

void slip__free_aligned(slip_allocator_t allocator, void *ptr, size_t size, size_t alignment) {
  if (ptr) (void)allocator.control(allocator.self, ptr, size, 0, alignment);
}

void slip__free(slip_allocator_t allocator, void *ptr, size_t size) {
  slip__free_aligned(allocator, ptr, size, SLIP__ALLOCATION_ALIGNMENT);
}

slip_status_t slip__strndup(slip_allocator_t allocator, const char *text, size_t length, char **out) {
  void *copy = NULL;
  *out = NULL;
  if (length == SIZE_MAX) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "a string of %zu bytes overflows", length);
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, length + 1, &copy));
  memcpy(copy, text, length);
  *out = copy;
  return slip_ok_status();
}
