// SPDX-License-Identifier: Apache-2.0
// Cache lines that will be written soon.
#ifndef SLIPSTREAM_SRC_BASE_PREFETCH_H_
#define SLIPSTREAM_SRC_BASE_PREFETCH_H_

// Fetches the line at |address| for writing. Any address is fine. (The compiler makes this a fetch for reading on x86-64 without a flag
// that would also change other code; the instruction itself does nothing where it is unknown.)
static inline void slip__prefetch_write(const void *address) {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw (%0)" : : "r"(address));
#else
  __builtin_prefetch(address, 1);
#endif
}

#endif  // SLIPSTREAM_SRC_BASE_PREFETCH_H_
