// SPDX-License-Identifier: Apache-2.0
// Overflow-checked arithmetic. Each gives true when the exact result fits |*out|; else false, and |*out| holds the wrapped value: do not
// use it.
#ifndef SLIPSTREAM_SRC_BASE_CHECKED_H_
#define SLIPSTREAM_SRC_BASE_CHECKED_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Any mix of integer types; |out| points to the result's type.
#define slip__checked_add(a, b, out) (!__builtin_add_overflow((a), (b), (out)))
#define slip__checked_sub(a, b, out) (!__builtin_sub_overflow((a), (b), (out)))
#define slip__checked_mul(a, b, out) (!__builtin_mul_overflow((a), (b), (out)))

// |value| rounded up to a multiple of |alignment|, a power of two.
static inline bool slip__checked_align(uint64_t value, uint64_t alignment, uint64_t *out) {
  bool fits = slip__checked_add(value, alignment - 1, out);
  *out &= ~(alignment - 1);
  return fits;
}

// True if [offset, offset + length) lies inside [0, size).
static inline bool slip__checked_range(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

#endif  // SLIPSTREAM_SRC_BASE_CHECKED_H_
