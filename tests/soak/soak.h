// SPDX-License-Identifier: Apache-2.0
// What the soak tests share: their sizes, and the process's resident memory.
#ifndef SLIP_SOAK_H_
#define SLIP_SOAK_H_

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "slip_test.h"

#define SOAK_FLAT_KIB 1024

// The environment variable |name|, or |standard|.
static inline uint64_t soak_size(const char *name, uint64_t standard) {
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : standard;
}

static inline uint64_t soak_resident_kib(void) {
  unsigned long total = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  SLIP_CHECK(file != NULL);
  SLIP_CHECK_EQ(fscanf(file, "%lu %lu", &total, &resident), 2);
  fclose(file);
  return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

#endif  // SLIP_SOAK_H_
