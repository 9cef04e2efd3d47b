// SPDX-License-Identifier: Apache-2.0
// Address space: reserved at once, committed page by page as it is touched.
#ifndef SLIPSTREAM_SRC_OS_MEMORY_H_
#define SLIPSTREAM_SRC_OS_MEMORY_H_

#include "slipstream/status.h"

// |size| bytes of zeroed, page-aligned address space that costs memory only where it is touched. OUT_OF_MEMORY with errno; |*out| is then
// NULL.
slip_status_t slip__memory_reserve(size_t size, void **out) SLIP_MUST_USE;
// The same, but nothing may read or write there: addresses that stand for something else. Costs no memory.
slip_status_t slip__memory_reserve_unreachable(size_t size, void **out) SLIP_MUST_USE;
// NULL is fine. |size| is the size asked for.
void slip__memory_release(void *memory, size_t size);

#endif  // SLIPSTREAM_SRC_OS_MEMORY_H_
