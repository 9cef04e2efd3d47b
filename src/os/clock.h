// SPDX-License-Identifier: Apache-2.0
#ifndef SLIPSTREAM_SRC_OS_CLOCK_H_
#define SLIPSTREAM_SRC_OS_CLOCK_H_

#include <stdint.h>

// Monotonic time in nanoseconds.
uint64_t slip__clock_now_ns(void);

#endif  // SLIPSTREAM_SRC_OS_CLOCK_H_
