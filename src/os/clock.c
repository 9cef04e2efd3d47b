// SPDX-License-Identifier: Apache-2.0
#include "os/clock.h"

#include <time.h>

uint64_t slip__clock_now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
