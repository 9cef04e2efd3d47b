// SPDX-License-Identifier: Apache-2.0
// Memory: aligned host memory, and a sorted table of what was handed out so that any pointer into it tells its allocation.
#include <string.h>

#include "base/allocator.h"
#include "os/fork.h"
#include "os/thread.h"
#include "platform/cpu/cpu.h"

// A cache line, and what the widest vector load likes.
#define SLIP__CPU_ALIGNMENT 64

typedef struct slip__cpu_block_t {
  char *base;
  size_t size;
} slip__cpu_block_t;

// Sorted by address. Guarded by the lock; a list of a few thousand blocks moves in well under the time of an allocation.
static pthread_mutex_t slip__cpu_memory_lock = PTHREAD_MUTEX_INITIALIZER;
static slip__cpu_block_t *slip__cpu_blocks;
static size_t slip__cpu_block_count;
static size_t slip__cpu_block_capacity;

void slip__cpu_memory_watch_fork(void) {
  slip__fork_guard(&slip__cpu_memory_lock);
}

// Index of the first block that begins above |pointer|. Locked.
static size_t slip__cpu_block_above(const void *pointer) {
  size_t low = 0, high = slip__cpu_block_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((uintptr_t)slip__cpu_blocks[middle].base > (uintptr_t)pointer) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

static slip_status_t slip__cpu_block_insert(void *base, size_t size) {
  if (slip__cpu_block_count == slip__cpu_block_capacity) {
    size_t capacity = slip__cpu_block_capacity ? 2 * slip__cpu_block_capacity : 64;
    void *blocks = slip__cpu_blocks;
    SLIP_RETURN_IF_ERROR(slip__realloc(slip_allocator_system(), slip__cpu_block_capacity * sizeof(*slip__cpu_blocks),
                                       capacity * sizeof(*slip__cpu_blocks), &blocks));
    slip__cpu_blocks = blocks;
    slip__cpu_block_capacity = capacity;
  }
  size_t at = slip__cpu_block_above(base);
  memmove(&slip__cpu_blocks[at + 1], &slip__cpu_blocks[at], (slip__cpu_block_count - at) * sizeof(*slip__cpu_blocks));
  slip__cpu_blocks[at] = (slip__cpu_block_t){base, size};
  slip__cpu_block_count += 1;
  return slip_ok_status();
}

slip_status_t slip__cpu_memory_allocate(int32_t device, uint64_t size_bytes, void **out) {
  (void)device;
  // The allocator itself and not slip__alloc, which would zero: device memory has no defined contents, and gigabytes take seconds.
  slip_allocator_t system = slip_allocator_system();
  void *memory = system.control(system.self, NULL, 0, size_bytes, SLIP__CPU_ALIGNMENT);
  if (!memory) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "the host has no memory for %llu bytes", (unsigned long long)size_bytes);
  (void)pthread_mutex_lock(&slip__cpu_memory_lock);
  slip_status_t status = slip__cpu_block_insert(memory, size_bytes);
  (void)pthread_mutex_unlock(&slip__cpu_memory_lock);
  if (!slip_status_is_ok(status)) {
    slip__free_aligned(system, memory, size_bytes, SLIP__CPU_ALIGNMENT);
    return status;
  }
  *out = memory;
  return status;
}

slip_status_t slip__cpu_memory_free(int32_t device, void *memory) {
  (void)device;
  size_t size = 0;
  (void)pthread_mutex_lock(&slip__cpu_memory_lock);
  size_t above = slip__cpu_block_above(memory);
  if (above > 0 && slip__cpu_blocks[above - 1].base == memory) {
    size = slip__cpu_blocks[above - 1].size;
    memmove(&slip__cpu_blocks[above - 1], &slip__cpu_blocks[above], (slip__cpu_block_count - above) * sizeof(*slip__cpu_blocks));
    slip__cpu_block_count -= 1;
  }
  (void)pthread_mutex_unlock(&slip__cpu_memory_lock);
  if (size == 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%p was not allocated by slip_memory_allocate, or was freed before", memory);
  }
  slip__free_aligned(slip_allocator_system(), memory, size, SLIP__CPU_ALIGNMENT);
  return slip_ok_status();
}

slip_status_t slip__cpu_memory_copy(int32_t device, void *target, const void *source, uint64_t size_bytes, uint32_t kind) {
  (void)device;
  (void)kind;
  memmove(target, source, size_bytes);
  return slip_ok_status();
}

slip_status_t slip__cpu_memory_fill(int32_t device, void *target, uint8_t value, uint64_t size_bytes) {
  (void)device;
  memset(target, value, size_bytes);
  return slip_ok_status();
}

slip_status_t slip__cpu_pointer_info(const void *pointer, slip_pointer_info_t *out) {
  (void)pthread_mutex_lock(&slip__cpu_memory_lock);
  size_t above = slip__cpu_block_above(pointer);
  if (above > 0) {
    slip__cpu_block_t block = slip__cpu_blocks[above - 1];
    if ((uintptr_t)pointer - (uintptr_t)block.base < block.size) {
      *out = (slip_pointer_info_t){.kind = SLIP_POINTER_DEVICE, .device = 0, .base = block.base, .size_bytes = block.size};
    }
  }
  (void)pthread_mutex_unlock(&slip__cpu_memory_lock);
  return slip_ok_status();
}
