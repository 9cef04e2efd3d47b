// SPDX-License-Identifier: Apache-2.0
#include "os/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "os/fault.h"

static slip_status_t slip__memory_map(size_t size, int protection, void **out) {
  *out = NULL;
  int error = slip__os_fault(SLIP__OS_CALL_MAP);
  void *memory = MAP_FAILED;
  if (error == 0) {
    memory = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  if (error != 0) {
    return SLIP_STATUS_PLATFORM(SLIP_CODE_OUT_OF_MEMORY, error, "%zu bytes of address space could not be reserved: %s; look at ulimit -v",
                                size, strerror(error));
  }
  *out = memory;
  return slip_ok_status();
}

slip_status_t slip__memory_reserve(size_t size, void **out) {
  return slip__memory_map(size, PROT_READ | PROT_WRITE, out);
}

slip_status_t slip__memory_reserve_unreachable(size_t size, void **out) {
  return slip__memory_map(size, PROT_NONE, out);
}

void slip__memory_release(void *memory, size_t size) {
  if (memory) (void)munmap(memory, size);
}
