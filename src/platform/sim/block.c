// SPDX-License-Identifier: Apache-2.0
// Allocations, their addresses, guards and quarantine.
#include "platform/sim/block.h"

#include <string.h>

#include "base/allocator.h"
#include "os/fork.h"
#include "os/memory.h"

#define SLIP__SIM_POISON 0xdd
// Addresses of a device per byte of its memory: so many times its memory must be allocated before one is used again.
#define SLIP__SIM_ADDRESS_FACTOR 4
#define SLIP__SIM_MIN_ADDRESSES  ((uint64_t)1 << 26)

// The records of one device, or of page-locked memory, sorted by address; living and freed ones.
typedef struct slip__sim_space_t {
  slip__sim_block_t **blocks;
  size_t count;
  size_t capacity;
  uintptr_t base;  // of the device's addresses; 0: not reserved yet
  uint64_t range;
  uintptr_t next;  // where the next allocation may begin
  uint64_t live_bytes;
  uint64_t placed;            // allocations so far: the same ones get the same patterns, wherever they lie
  slip__sim_block_t *oldest;  // of the quarantine
  slip__sim_block_t *youngest;
  uint64_t quarantined_bytes;  // of those that still have bytes
  uint32_t quarantined;
} slip__sim_space_t;

pthread_mutex_t slip__sim_memory_lock = PTHREAD_MUTEX_INITIALIZER;

// [0] is page-locked memory, then the devices.
static slip__sim_space_t slip__sim_spaces[1 + SLIP__SIM_MAX_DEVICES];

static slip__sim_space_t *slip__sim_space(int32_t device) {
  return &slip__sim_spaces[1 + device];
}

// --- a block's bytes

// No zero byte, and no two neighbours alike: a shifted write is seen too.
static inline uint8_t slip__sim_guard_byte(uint32_t at) {
  return (uint8_t)((at * 29u) ^ 0xa5u) ? (uint8_t)((at * 29u) ^ 0xa5u) : 0x5a;
}

static void slip__sim_guard_write(uint8_t *guard) {
  for (uint32_t i = 0; i < SLIP__SIM_GUARD; ++i) guard[i] = slip__sim_guard_byte(i);
}

// The first byte that is not the guard's; SLIP__SIM_GUARD if all are. A function may be damaging it right now: that race is its own.
__attribute__((no_sanitize("thread"))) static uint32_t slip__sim_guard_damage(const uint8_t *guard) {
  uint32_t i = 0;
  while (i < SLIP__SIM_GUARD && guard[i] == slip__sim_guard_byte(i)) ++i;
  return i;
}

static uint64_t slip__sim_raw_size(const slip__sim_block_t *block) {
  return SLIP__SIM_GUARD + block->size + SLIP__SIM_GUARD;
}

static void slip__sim_block_drop_bytes(slip__sim_block_t *block) {
  slip_allocator_t system = slip_allocator_system();
  if (block->bytes) slip__free_aligned(system, block->bytes - SLIP__SIM_GUARD, slip__sim_raw_size(block), SLIP__SIM_ALIGNMENT);
  slip__free(system, block->defined, (block->size + 7) / 8);
  block->bytes = block->defined = NULL;
}

void slip__sim_block_destroy(slip__sim_block_t *block) {
  slip__sim_block_drop_bytes(block);
  slip__free(slip_allocator_system(), block, sizeof(*block));
}

slip_status_t slip__sim_block_create(int32_t device, uint64_t size, slip__sim_block_t **out) {
  slip_allocator_t system = slip_allocator_system();
  void *block = NULL, *defined = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc(system, sizeof(**out), &block));
  slip_status_t status = device == SLIP__SIM_PINNED ? slip_ok_status() : slip__alloc(system, (size + 7) / 8, &defined);
  *out = block;
  **out = (slip__sim_block_t){.size = size, .device = device, .epoch = slip__fork_epoch(), .defined = defined};
  if (slip_status_is_ok(status)) {
    // The allocator itself and not slip__alloc, which would zero: the pattern comes here.
    uint8_t *raw = system.control(system.self, NULL, 0, slip__sim_raw_size(*out), SLIP__SIM_ALIGNMENT);
    if (raw) (*out)->bytes = raw + SLIP__SIM_GUARD;
    if (!raw) status = slip__sim_error(SLIP__SIM_OUT_OF_MEMORY, "the host has no memory for %llu bytes", (unsigned long long)size);
  }
  if (!slip_status_is_ok(status)) {
    slip__sim_block_destroy(*out);
    *out = NULL;
    return status;
  }
  slip__sim_guard_write((*out)->bytes - SLIP__SIM_GUARD);
  slip__sim_guard_write((*out)->bytes + size);
  return status;
}

bool slip__sim_block_intact(slip__sim_block_t *block, const char *call) {
  bool intact = true;
  for (int side = 0; side < 2 && block->bytes; ++side) {
    uint8_t *guard = side == 0 ? block->bytes - SLIP__SIM_GUARD : block->bytes + block->size;
    uint32_t damage = slip__sim_guard_damage(guard);
    if (damage == SLIP__SIM_GUARD) continue;
    intact = false;
    long long at = side == 0 ? (long long)damage - SLIP__SIM_GUARD : (long long)(block->size + damage);
    slip__sim_violation(block->device, block->device >= 0, SLIP__SIM_ILLEGAL_ADDRESS,
                        "%s found a write out of bounds: byte %lld of the %s allocation of %llu bytes at %p was overwritten; correct the "
                        "code that writes past what it was given",
                        call, at, block->device >= 0 ? "device" : "page-locked", (unsigned long long)block->size, (void *)block->address);
    slip__sim_guard_write(guard);
  }
  return intact;
}

// --- the sorted table

// Index of the first block that begins above |address|.
static size_t slip__sim_above(const slip__sim_space_t *space, uintptr_t address) {
  size_t low = 0, high = space->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (space->blocks[middle]->address > address) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

static slip_status_t slip__sim_space_grow(slip__sim_space_t *space) {
  if (space->count < space->capacity) return slip_ok_status();
  size_t capacity = space->capacity ? 2 * space->capacity : 64;
  void *blocks = space->blocks;
  SLIP_RETURN_IF_ERROR(
      slip__realloc(slip_allocator_system(), space->capacity * sizeof(*space->blocks), capacity * sizeof(*space->blocks), &blocks));
  space->blocks = blocks;
  space->capacity = capacity;
  return slip_ok_status();
}

static void slip__sim_space_insert(slip__sim_space_t *space, slip__sim_block_t *block) {
  size_t at = slip__sim_above(space, block->address);
  memmove(&space->blocks[at + 1], &space->blocks[at], (space->count - at) * sizeof(*space->blocks));
  space->blocks[at] = block;
  space->count += 1;
  space->live_bytes += block->size;
}

static void slip__sim_space_remove(slip__sim_space_t *space, const slip__sim_block_t *block) {
  size_t above = slip__sim_above(space, block->address);
  memmove(&space->blocks[above - 1], &space->blocks[above], (space->count - above) * sizeof(*space->blocks));
  space->count -= 1;
}

slip__sim_block_t *slip__sim_block_find(const void *pointer, int32_t *out_device) {
  uintptr_t address = (uintptr_t)pointer;
  *out_device = SLIP__SIM_ELSEWHERE;
  for (int32_t device = SLIP__SIM_PINNED; device < SLIP__SIM_MAX_DEVICES; ++device) {
    slip__sim_space_t *space = slip__sim_space(device);
    bool ours = address - space->base < space->range;
    if (device != SLIP__SIM_PINNED && !ours) continue;
    if (ours) *out_device = device;
    size_t above = slip__sim_above(space, address);
    if (above == 0 || address - space->blocks[above - 1]->address >= space->blocks[above - 1]->size) continue;
    *out_device = device;
    return space->blocks[above - 1];
  }
  return NULL;
}

// --- the end of a block

static void slip__sim_block_poison(slip__sim_block_t *block) {
  memset(block->bytes, SLIP__SIM_POISON, block->size);
  block->poisoned = true;
}

static void slip__sim_block_check_poison(const slip__sim_block_t *block) {
  uint64_t i = 0;
  while (i < block->size && block->bytes[i] == SLIP__SIM_POISON) ++i;
  if (i == block->size) return;
  slip__sim_violation(block->device, block->device >= 0, SLIP__SIM_ILLEGAL_ADDRESS,
                      "byte %llu of the allocation of %llu bytes at %p was written after %s had freed it", (unsigned long long)i,
                      (unsigned long long)block->size, (void *)block->address, block->freed_by);
}

static bool slip__sim_block_in_use(const slip__sim_block_t *block) {
  return block->uses > 0 || block->holds > 0;
}

static void slip__sim_quarantine_unlink(slip__sim_space_t *space, slip__sim_block_t *block) {
  slip__sim_block_t *before = NULL;
  for (slip__sim_block_t *at = space->oldest; at != block; at = at->younger) before = at;
  *(before ? &before->younger : &space->oldest) = block->younger;
  if (space->youngest == block) space->youngest = before;
  space->quarantined -= 1;
}

static void slip__sim_quarantine_drop_bytes(slip__sim_space_t *space, slip__sim_block_t *block) {
  if (!block->bytes) return;
  if (block->poisoned) slip__sim_block_check_poison(block);
  slip__sim_block_drop_bytes(block);
  space->quarantined_bytes -= block->size;
}

static void slip__sim_quarantine_forget(slip__sim_space_t *space, slip__sim_block_t *block) {
  slip__sim_quarantine_drop_bytes(space, block);
  slip__sim_quarantine_unlink(space, block);
  slip__sim_space_remove(space, block);
  slip__sim_block_destroy(block);
}

// Lets the oldest go until the quarantine is within bounds; false if no record went. Page-locked memory goes with its record: its address
// may come back at once.
static bool slip__sim_quarantine_trim(slip__sim_space_t *space, uint32_t blocks, uint64_t bytes) {
  uint32_t before = space->quarantined;
  slip__sim_block_t *younger = NULL;
  for (slip__sim_block_t *block = space->oldest; block; block = younger) {
    younger = block->younger;
    bool many = space->quarantined > blocks, large = space->quarantined_bytes > bytes;
    if (!many && !large) break;
    if (slip__sim_block_in_use(block)) continue;
    if (many || block->device == SLIP__SIM_PINNED) {
      slip__sim_quarantine_forget(space, block);
    } else {
      slip__sim_quarantine_drop_bytes(space, block);
    }
  }
  return space->quarantined < before;
}

// --- addresses

bool slip__sim_space_has_room(int32_t device, uint64_t size) {
  uint64_t bound = slip__sim_config()->memory_bytes, used = slip__sim_space(device)->live_bytes;
  return device == SLIP__SIM_PINNED || (used <= bound && size <= bound - used);
}

static slip_status_t slip__sim_space_reserve(slip__sim_space_t *space) {
  uint64_t range = slip__sim_config()->memory_bytes * SLIP__SIM_ADDRESS_FACTOR;
  if (range < SLIP__SIM_MIN_ADDRESSES) range = SLIP__SIM_MIN_ADDRESSES;
  void *base = NULL;
  if (space->base) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__memory_reserve_unreachable(range, &base));
  space->base = space->next = (uintptr_t)base;
  space->range = range;
  return slip_ok_status();
}

// The first free place of |length| bytes in [from, to); 0.
static uintptr_t slip__sim_space_gap(const slip__sim_space_t *space, uintptr_t from, uintptr_t to, uint64_t length) {
  size_t i = slip__sim_above(space, from);
  if (i > 0) {
    // An allocation keeps the guard behind it, too.
    uintptr_t end = space->blocks[i - 1]->address + space->blocks[i - 1]->size + SLIP__SIM_GUARD;
    end = (end + SLIP__SIM_ALIGNMENT - 1) & ~(uintptr_t)(SLIP__SIM_ALIGNMENT - 1);
    if (end > from) from = end;
  }
  for (; from < to && to - from >= length; ++i) {
    uintptr_t limit = i < space->count && space->blocks[i]->address < to ? space->blocks[i]->address : to;
    if (limit >= from && limit - from >= length) return from;
    if (limit == to) break;
    from = (space->blocks[i]->address + space->blocks[i]->size + SLIP__SIM_GUARD + SLIP__SIM_ALIGNMENT - 1) &
           ~(uintptr_t)(SLIP__SIM_ALIGNMENT - 1);
  }
  return 0;
}

static slip_status_t slip__sim_block_choose_address(slip__sim_space_t *space, slip__sim_block_t *block) {
  SLIP_RETURN_IF_ERROR(slip__sim_space_reserve(space));
  uintptr_t end = space->base + space->range;
  uint64_t length = (block->size + SLIP__SIM_GUARD + SLIP__SIM_ALIGNMENT - 1) & ~(uint64_t)(SLIP__SIM_ALIGNMENT - 1);
  uintptr_t at = slip__sim_space_gap(space, space->next, end, length);
  if (at == 0) at = slip__sim_space_gap(space, space->base + SLIP__SIM_GUARD, end, length);
  while (at == 0 && slip__sim_quarantine_trim(space, space->quarantined / 2, UINT64_MAX)) {
    at = slip__sim_space_gap(space, space->base + SLIP__SIM_GUARD, end, length);
  }
  if (at == 0)
    return slip__sim_error(SLIP__SIM_OUT_OF_MEMORY, "device %d is too fragmented for %llu bytes", block->device,
                           (unsigned long long)block->size);
  block->address = at;
  space->next = at + length;
  return slip_ok_status();
}

slip_status_t slip__sim_block_place(slip__sim_block_t *block) {
  slip__sim_space_t *space = slip__sim_space(block->device);
  if (!slip__sim_space_has_room(block->device, block->size)) {
    return slip__sim_error(SLIP__SIM_OUT_OF_MEMORY, "device %d has %llu bytes, of which %llu are in use: no room for %llu more",
                           block->device, (unsigned long long)slip__sim_config()->memory_bytes, (unsigned long long)space->live_bytes,
                           (unsigned long long)block->size);
  }
  SLIP_RETURN_IF_ERROR(slip__sim_space_grow(space));
  if (block->device == SLIP__SIM_PINNED) {
    block->address = (uintptr_t)block->bytes;
  } else {
    SLIP_RETURN_IF_ERROR(slip__sim_block_choose_address(space, block));
  }
  block->key = slip__sim_random((uint64_t)'m' << 56 | (uint64_t)(uint32_t)block->device, space->placed++);
  slip__sim_space_insert(space, block);
  return slip_ok_status();
}

// --- retiring

void slip__sim_block_retire(slip__sim_block_t *block, const char *freed_by) {
  slip__sim_space_t *space = slip__sim_space(block->device);
  block->freed_by = freed_by;
  block->freed_at = slip__sim_call_total();
  space->live_bytes -= block->size;
  *(space->youngest ? &space->youngest->younger : &space->oldest) = block;
  space->youngest = block;
  space->quarantined += 1;
  space->quarantined_bytes += block->size;
  slip__sim_block_settle_retired(block);
}

void slip__sim_block_settle_retired(slip__sim_block_t *block) {
  if (!block->freed_by || block->uses > 0) return;
  if (!block->poisoned) slip__sim_block_poison(block);
  (void)slip__sim_quarantine_trim(slip__sim_space(block->device), SLIP__SIM_QUARANTINE_BLOCKS, SLIP__SIM_QUARANTINE_BYTES);
}

void slip__sim_space_retire(int32_t device, const char *freed_by) {
  slip__sim_space_t *space = slip__sim_space(device);
  for (size_t i = 0; i < space->count;) {
    if (space->blocks[i]->freed_by) {
      ++i;
      continue;
    }
    slip__sim_block_retire(space->blocks[i], freed_by);  // may take records out: begin again
    i = 0;
  }
}

void slip__sim_space_clear(void) {
  for (int32_t device = SLIP__SIM_PINNED; device < SLIP__SIM_MAX_DEVICES; ++device) {
    slip__sim_space_t *space = slip__sim_space(device);
    (void)slip__sim_quarantine_trim(space, 0, 0);
    if (space->count > 0) continue;
    slip__free(slip_allocator_system(), space->blocks, space->capacity * sizeof(*space->blocks));
    slip__memory_release((void *)space->base, space->range);
    *space = (slip__sim_space_t){0};
  }
}

void slip__sim_space_count(int32_t device, uint32_t *inout_blocks, uint64_t *inout_bytes) {
  const slip__sim_space_t *space = slip__sim_space(device);
  for (size_t i = 0; i < space->count; ++i) {
    const slip__sim_block_t *block = space->blocks[i];
    if (block->freed_by || block->epoch != slip__fork_epoch()) continue;
    *inout_blocks += 1;
    *inout_bytes += block->size;
  }
}
