// SPDX-License-Identifier: Apache-2.0
// Memory while it is used: copies in streams. map.c: device functions.
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "os/fork.h"
#include "platform/sim/block.h"

// --- one side of a copy

static slip_status_t slip__sim_side_freed(const slip__sim_side_t *side, const char *call, const slip__sim_block_t *block) {
  uint64_t ago = slip__sim_call_total() - block->freed_at;
  return slip__sim_error(SLIP__SIM_INVALID_VALUE,
                         "%s: the %s %p lies in %llu bytes at %p that were freed by %s, %llu call%s ago: use after free", call, side->name,
                         side->pointer, (unsigned long long)block->size, (void *)block->address, block->freed_by, (unsigned long long)ago,
                         ago == 1 ? "" : "s");
}

// |owner|: whose address it is; |device|: whose it should be.
static slip_status_t slip__sim_side_wrong(const slip__sim_side_t *side, const char *call, int32_t device, int32_t owner, bool allocated) {
  char wanted[32] = "host memory";
  if (device >= 0) (void)snprintf(wanted, sizeof(wanted), "memory of device %d", device);
  if (owner >= 0 && owner != device)
    return slip__sim_error(SLIP__SIM_INVALID_VALUE, "%s: the %s %p is memory of device %d where %s is needed", call, side->name,
                           side->pointer, owner, wanted);
  if (owner >= 0 && !allocated)
    return slip__sim_error(SLIP__SIM_INVALID_VALUE, "%s: the %s %p is an address of device %d, but in no allocation", call, side->name,
                           side->pointer, owner);
  return slip__sim_error(SLIP__SIM_INVALID_VALUE, "%s: the %s %p is %s host memory where %s is needed%s", call, side->name, side->pointer,
                         owner == SLIP__SIM_PINNED ? "page-locked" : "pageable", wanted,
                         device >= 0 ? ": allocate that with slip_memory_allocate() and copy with slip_memory_copy()" : "");
}

slip_status_t slip__sim_side_resolve(slip__sim_side_t *side, const char *call, int32_t device, uint64_t size) {
  int32_t owner = SLIP__SIM_ELSEWHERE;
  slip__sim_block_t *block = slip__sim_block_find(side->pointer, &owner);
  side->block = NULL;
  side->freed = false;
  if (device == SLIP__SIM_PINNED && owner == SLIP__SIM_ELSEWHERE) return slip_ok_status();
  if (owner != device || !block) return slip__sim_side_wrong(side, call, device, owner, block != NULL);
  if (block->epoch != slip__fork_epoch())
    return SLIP_STATUS(SLIP_CODE_FORKED, "%s: the %s %p was allocated before the process was forked; the child has no device", call,
                       side->name, side->pointer);
  if (block->freed_by) {
    side->freed = true;
    return slip__sim_side_freed(side, call, block);
  }
  side->block = block;
  side->offset = (uintptr_t)side->pointer - block->address;
  if (slip__checked_range(side->offset, size, block->size)) return slip_ok_status();
  return slip__sim_error(SLIP__SIM_INVALID_VALUE, "%s: the %s %p and %llu bytes from there leave its allocation of %llu bytes at %p", call,
                         side->name, side->pointer, (unsigned long long)size, (unsigned long long)block->size, (void *)block->address);
}

void *slip__sim_side_bytes(const slip__sim_side_t *side) {
  return side->block ? side->block->bytes + side->offset : (void *)(uintptr_t)side->pointer;
}

void slip__sim_side_begin(const slip__sim_side_t *side) {
  if (side->block) side->block->uses += 1;
}

void slip__sim_side_end(const slip__sim_side_t *side, const char *call) {
  if (!side->block) return;
  (void)slip__sim_block_intact(side->block, call);
  side->block->uses -= 1;
  slip__sim_block_settle_retired(side->block);
}

void slip__sim_report_undefined(const slip__sim_side_t *side, const char *call, uint64_t size, uint64_t first, bool fatal) {
  const slip__sim_block_t *block = side->block;
  slip__sim_violation(block->device, fatal, SLIP__SIM_LAUNCH_FAILED,
                      "%s read %llu bytes at %p (offset %llu of an allocation of %llu), but the byte at offset %llu was never written",
                      call, (unsigned long long)size, side->pointer, (unsigned long long)side->offset, (unsigned long long)block->size,
                      (unsigned long long)first);
}

void slip__sim_sides_copy(slip__sim_side_t *target, slip__sim_side_t *source, const char *call, uint64_t size) {
  uint64_t first = 0;
  bool from_device = source->block && source->block->defined, to_device = target->block && target->block->defined;
  slip__sim_side_begin(target);
  slip__sim_side_begin(source);
  slip__sim_write_begin(target, size);
  if (from_device && !to_device && !slip__sim_defined(source->block, source->offset, size, &first))
    slip__sim_report_undefined(source, call, size, first, false);
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  memmove(slip__sim_side_bytes(target), slip__sim_side_bytes(source), size);
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  if (to_device && from_device) slip__sim_define_copied(target->block, target->offset, source->block, source->offset, size);
  if (to_device && !from_device) slip__sim_define(target->block, target->offset, size);
  slip__sim_write_end(target);
  slip__sim_side_end(source, call);
  slip__sim_side_end(target, call);
}

// --- copies in streams

static slip_status_t slip__sim_copy_resolve(int32_t device, const slip__sim_copy_t *copy, const char *call, slip__sim_side_t *target,
                                            slip__sim_side_t *source) {
  int32_t to = copy->kind == SLIP_COPY_DEVICE_TO_HOST ? SLIP__SIM_PINNED : device;
  int32_t from = copy->kind == SLIP_COPY_HOST_TO_DEVICE ? SLIP__SIM_PINNED : device;
  *target = (slip__sim_side_t){.name = "target", .pointer = copy->target};
  *source = (slip__sim_side_t){.name = "source", .pointer = copy->staged ? copy->staged : copy->source};
  slip_status_t status = slip__sim_side_resolve(target, call, to, copy->size_bytes);
  return slip_status_is_ok(status) ? slip__sim_side_resolve(source, call, from, copy->size_bytes) : status;
}

slip_status_t slip__sim_copy_prepare(int32_t device, slip__sim_copy_t *copy, bool capturing) {
  slip__sim_side_t target, source;
  copy->staged = NULL;
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  slip_status_t status = slip__sim_copy_resolve(device, copy, "memory_copy_async", &target, &source);
  bool freed = target.freed || source.freed;
  const slip__sim_side_t *host = copy->kind == SLIP_COPY_HOST_TO_DEVICE ? &source : &target;
  bool pageable = copy->kind != SLIP_COPY_DEVICE_TO_DEVICE && !host->block;
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  if (freed) slip__sim_violation(device, false, SLIP__SIM_INVALID_VALUE, "%s", slip_status_message(status));
  if (!slip_status_is_ok(status) || !pageable) return status;
  if (capturing) {
    return slip__sim_error(
        SLIP__SIM_COPY_WOULD_WAIT,
        "memory_copy_async: the %s %p of a captured copy is pageable host memory; a replay needs page-locked memory (slip_host_allocate)",
        host->name, host->pointer);
  }
  if (copy->kind != SLIP_COPY_HOST_TO_DEVICE) return status;
  // As drivers do: pageable bytes are read before the call returns.
  SLIP_RETURN_IF_ERROR(slip__alloc(slip_allocator_system(), copy->size_bytes, &copy->staged));
  memcpy(copy->staged, copy->source, copy->size_bytes);
  return status;
}

void slip__sim_copy_discard(slip__sim_copy_t *copy) {
  slip__free(slip_allocator_system(), copy->staged, copy->size_bytes);
  copy->staged = NULL;
}

void slip__sim_copy_execute(int32_t device, const slip__sim_copy_t *copy) {
  static const char call[] = "a copy in a stream";
  slip__sim_side_t target, source;
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  slip_status_t status = slip__sim_copy_resolve(device, copy, call, &target, &source);
  if (slip_status_is_ok(status)) slip__sim_sides_copy(&target, &source, call, copy->size_bytes);
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
  if (!slip_status_is_ok(status)) slip__sim_violation(device, true, SLIP__SIM_ILLEGAL_ADDRESS, "%s", slip_status_message(status));
  slip_status_free(status);
}

void slip__sim_memory_hold(const void *pointer) {
  int32_t owner;
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  slip__sim_block_t *block = slip__sim_block_find(pointer, &owner);
  if (block) block->holds += 1;
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
}

void slip__sim_memory_release(const void *pointer) {
  int32_t owner;
  (void)pthread_mutex_lock(&slip__sim_memory_lock);
  slip__sim_block_t *block = slip__sim_block_find(pointer, &owner);
  if (block && block->holds > 0) {
    block->holds -= 1;
    slip__sim_block_settle_retired(block);
  }
  (void)pthread_mutex_unlock(&slip__sim_memory_lock);
}
