// SPDX-License-Identifier: Apache-2.0
// The memory entries of the function table.
#include <string.h>

#include "os/fork.h"
#include "platform/sim/block.h"

void slip__sim_memory_watch_fork(void) {
  slip__fork_guard(&slip__sim_memory_lock);
}

// May the calling thread make this blocking call now?
static slip_status_t slip__sim_memory_enter(int32_t device, const char *call) {
  SLIP_RETURN_IF_ERROR(slip__sim_enter(call));
  SLIP_RETURN_IF_ERROR(slip__sim_check_device(device));
  SLIP_RETURN_IF_ERROR(slip__sim_check_current(device, call));
  return slip__sim_check_unsafe(call);
}

static slip_status_t slip__sim_allocate(int32_t device, uint64_t size_bytes, void **out) {
  slip__sim_block_t *block = NULL;
  *out = NULL;
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  bool room = slip__sim_space_has_room(device, size_bytes);
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  // A size that has no room now is refused before the host must find memory for it; the answer that counts comes with the address.
  if (!room)
    return slip__sim_error(SLIP__SIM_OUT_OF_MEMORY, "device %d has %llu bytes: no room for %llu more", device,
                           (unsigned long long)slip__sim_config()->memory_bytes, (unsigned long long)size_bytes);
  SLIP_RETURN_IF_ERROR(slip__sim_block_create(device, size_bytes, &block));
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  slip_status_t status = slip__sim_block_place(block);
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  if (!slip_status_is_ok(status)) {
    slip__sim_block_destroy(block);
    return status;
  }
  // Nobody else knows the address yet.
  slip__sim_pattern_write(block, 0, size_bytes);
  *out = (void *)block->address;
  return status;
}

slip_status_t slip__sim_memory_allocate(int32_t device, uint64_t size_bytes, void **out) {
  SLIP_RETURN_IF_ERROR(slip__sim_memory_enter(device, "memory_allocate"));
  return slip__sim_allocate(device, size_bytes, out);
}

slip_status_t slip__sim_host_allocate(uint64_t size_bytes, void **out) {
  SLIP_RETURN_IF_ERROR(slip__sim_memory_enter(slip__sim_current_device(), "host_allocate"));
  return slip__sim_allocate(SLIP__SIM_PINNED, size_bytes, out);
}

// Frees |memory|, which must be where a living allocation of |device| begins. Locked.
static slip_status_t slip__sim_free_locked(int32_t device, const char *call, const void *memory) {
  slip__sim_side_t side = {.name = "pointer", .pointer = memory};
  SLIP_RETURN_IF_ERROR(slip__sim_side_resolve(&side, call, device, 0));
  slip__sim_block_t *block = side.block;
  if (!block)
    return slip__sim_error(SLIP__SIM_INVALID_VALUE, "%s: the pointer %p is pageable host memory, which this platform did not make", call,
                           memory);
  if (side.offset != 0)
    return slip__sim_error(SLIP__SIM_INVALID_VALUE, "%s: the pointer %p points %llu bytes into an allocation of %llu bytes; give its begin",
                           call, memory, (unsigned long long)side.offset, (unsigned long long)block->size);
  (void)slip__sim_block_intact(block, call);
  if (block->uses > 0 || block->holds > 0) {
    slip__sim_violation(device, false, SLIP__SIM_ILLEGAL_ADDRESS,
                        "%s of %llu bytes at %p: freed while in flight, %u running and %u enqueued operation%s", call,
                        (unsigned long long)block->size, memory, block->uses, block->holds,
                        block->uses + block->holds == 1 ? " uses it" : "s use it");
  }
  slip__sim_block_retire(block, call);
  return slip_ok_status();
}

static slip_status_t slip__sim_free(int32_t device, const char *call, const void *memory) {
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  slip_status_t status = slip__sim_free_locked(device, call, memory);
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  return status;
}

slip_status_t slip__sim_memory_free(int32_t device, void *memory) {
  SLIP_RETURN_IF_ERROR(slip__sim_memory_enter(device, "memory_free"));
  return slip__sim_free(device, "memory_free", memory);
}

// Belongs to no device: a broken one does not keep it.
slip_status_t slip__sim_host_free(void *memory) {
  SLIP_RETURN_IF_ERROR(slip__sim_enter("host_free"));
  SLIP_RETURN_IF_ERROR(slip__sim_check_unsafe("host_free"));
  return slip__sim_free(SLIP__SIM_PINNED, "host_free", memory);
}

static slip_status_t slip__sim_copy_locked(int32_t device, void *target, const void *source, uint64_t size_bytes, uint32_t kind) {
  static const char call[] = "memory_copy";
  slip__sim_side_t to = {.name = "target", .pointer = target}, from = {.name = "source", .pointer = source};
  slip_status_t status = slip__sim_side_resolve(&to, call, kind == SLIP_COPY_DEVICE_TO_HOST ? SLIP__SIM_PINNED : device, size_bytes);
  if (slip_status_is_ok(status))
    status = slip__sim_side_resolve(&from, call, kind == SLIP_COPY_HOST_TO_DEVICE ? SLIP__SIM_PINNED : device, size_bytes);
  if (slip_status_is_ok(status)) slip__sim_sides_copy(&to, &from, call, size_bytes);
  if (to.freed || from.freed) slip__sim_violation(device, false, SLIP__SIM_INVALID_VALUE, "%s", slip_status_message(status));
  return status;
}

slip_status_t slip__sim_memory_copy(int32_t device, void *target, const void *source, uint64_t size_bytes, uint32_t kind) {
  SLIP_RETURN_IF_ERROR(slip__sim_memory_enter(device, "memory_copy"));
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  slip_status_t status = slip__sim_copy_locked(device, target, source, size_bytes, kind);
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  return status;
}

slip_status_t slip__sim_memory_fill(int32_t device, void *target, uint8_t value, uint64_t size_bytes) {
  slip__sim_side_t side = {.name = "target", .pointer = target};
  SLIP_RETURN_IF_ERROR(slip__sim_memory_enter(device, "memory_fill"));
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  slip_status_t status = slip__sim_side_resolve(&side, "memory_fill", device, size_bytes);
  if (slip_status_is_ok(status)) {
    slip__sim_write_begin(&side, size_bytes);
    memset(side.block->bytes + side.offset, value, size_bytes);
    slip__sim_write_end(&side);
    slip__sim_define(side.block, side.offset, size_bytes);
  }
  if (side.freed) slip__sim_violation(device, false, SLIP__SIM_INVALID_VALUE, "%s", slip_status_message(status));
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  return status;
}

slip_status_t slip__sim_pointer_info(const void *pointer, slip_pointer_info_t *out) {
  int32_t owner = SLIP__SIM_ELSEWHERE;
  SLIP_RETURN_IF_ERROR(slip__sim_enter("pointer_info"));
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  const slip__sim_block_t *block = slip__sim_block_find(pointer, &owner);
  if (block && !block->freed_by) {
    bool pinned = owner == SLIP__SIM_PINNED;
    *out = (slip_pointer_info_t){.kind = pinned ? SLIP_POINTER_HOST_PINNED : SLIP_POINTER_DEVICE,
                                 .device = pinned ? 0 : owner,
                                 .base = (void *)block->address,
                                 .size_bytes = block->size};
  }
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  return slip_ok_status();
}

void slip__sim_memory_statistics(slip_sim_statistics_t *out) {
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  for (int32_t device = 0; device < SLIP__SIM_MAX_DEVICES; ++device) {
    slip__sim_space_count(device, &out->allocations, &out->device_bytes);
  }
  slip__sim_space_count(SLIP__SIM_PINNED, &out->host_allocations, &out->host_bytes);
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
}

void slip__sim_memory_reset(int32_t device) {
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  if (device >= 0) {
    slip__sim_space_retire(device, "slip_sim_reset_device");
  } else {
    slip__sim_space_clear();
  }
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
}
