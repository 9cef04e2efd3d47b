// SPDX-License-Identifier: Apache-2.0
#include "program_mode/memory.h"

#include <inttypes.h>
#include <string.h>

#include "base/allocator.h"
#include "program_mode/worker.h"

// --- the table; lock held ----------------------------------------------------------------------------------------------------------------

// Index of the first block that begins above |address|.
static size_t slip__memory_above(const slip__memory_t *memory, uint64_t address) {
  size_t low = 0, high = memory->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((uint64_t)(uintptr_t)memory->blocks[middle]->address > address) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Keeps a place for one more block.
static slip_status_t slip__memory_promise(slip_worker_t *worker) {
  slip__memory_t *memory = &worker->memory;
  if (memory->count + memory->promised == memory->capacity) {
    size_t capacity = memory->capacity ? 2 * memory->capacity : 16;
    void *blocks = memory->blocks;
    SLIP_RETURN_IF_ERROR(
        slip__realloc(worker->allocator, memory->capacity * sizeof(*memory->blocks), capacity * sizeof(*memory->blocks), &blocks));
    memory->blocks = blocks;
    memory->capacity = capacity;
  }
  ++memory->promised;
  return slip_ok_status();
}

// Into the place that was kept.
static void slip__memory_insert(slip__memory_t *memory, slip__block_t *block) {
  size_t at = slip__memory_above(memory, (uint64_t)(uintptr_t)block->address);
  memmove(&memory->blocks[at + 1], &memory->blocks[at], (memory->count - at) * sizeof(*memory->blocks));
  memory->blocks[at] = block;
  ++memory->count;
  --memory->promised;
}

// Its place is kept.
static void slip__memory_remove(slip__memory_t *memory, const slip__block_t *block) {
  size_t at = slip__memory_above(memory, (uint64_t)(uintptr_t)block->address) - 1;
  memmove(&memory->blocks[at], &memory->blocks[at + 1], (memory->count - at - 1) * sizeof(*memory->blocks));
  --memory->count;
  ++memory->promised;
}

// The block that contains |address|, of whatever kind; NULL.
static slip__block_t *slip__memory_at(const slip__memory_t *memory, uint64_t address) {
  size_t above = slip__memory_above(memory, address);
  if (above == 0) return NULL;
  slip__block_t *block = memory->blocks[above - 1];
  return address - (uint64_t)(uintptr_t)block->address < block->bytes ? block : NULL;
}

slip__block_t *slip__block_find(slip_worker_t *worker, uint64_t address, uint64_t bytes) {
  slip__block_t *block = slip__memory_at(&worker->memory, address);
  if (!block || block->dead || block->owner == SLIP__BLOCK_STAGING) return NULL;
  uint64_t offset = address - (uint64_t)(uintptr_t)block->address;
  return bytes <= block->bytes - offset ? block : NULL;
}

bool slip__block_kill(slip_worker_t *worker, slip__block_t *block) {
  block->dead = true;
  if (block->pins > 0) return false;
  slip__memory_remove(&worker->memory, block);
  return true;
}

bool slip__block_unpin(slip_worker_t *worker, slip__block_t *block) {
  if (--block->pins > 0 || !block->dead) return false;
  slip__memory_remove(&worker->memory, block);
  return true;
}

// --- taking and giving back; lock not held -----------------------------------------------------------------------------------------------

static slip_status_t slip__memory_refuse_budget(const slip_worker_t *worker, uint64_t bytes) {
  return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY,
                     "%" PRIu64 " bytes of device memory were asked for and %" PRIu64 " are held, but memory_budget_bytes is %" PRIu64
                     "; free some or create the worker with more",
                     bytes, worker->memory.bytes, worker->options.memory_budget_bytes);
}

// Counts |bytes| in and keeps a place for their block.
static slip_status_t slip__memory_admit(slip_worker_t *worker, uint64_t bytes) {
  slip__memory_t *memory = &worker->memory;
  uint64_t budget = worker->options.memory_budget_bytes;
  slip_status_t status = slip_ok_status();
  pthread_mutex_lock(&worker->lock);
  bool over = bytes > INT64_MAX || (budget != 0 && (bytes > budget || memory->bytes > budget - bytes));
  if (over && budget != 0) {
    status = slip__memory_refuse_budget(worker, bytes);
  } else if (over) {
    status = SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "%" PRIu64 " bytes are more than any device has", bytes);
  } else {
    status = slip__memory_promise(worker);
  }
  if (slip_status_is_ok(status)) {
    memory->bytes += bytes;
    if (memory->bytes > memory->peak_bytes) memory->peak_bytes = memory->bytes;
  }
  pthread_mutex_unlock(&worker->lock);
  return status;
}

static void slip__memory_revoke(slip_worker_t *worker, uint64_t bytes) {
  pthread_mutex_lock(&worker->lock);
  worker->memory.bytes -= bytes;
  --worker->memory.promised;
  pthread_mutex_unlock(&worker->lock);
}

// The device is bound. |*out| is in the table on success.
static slip_status_t slip__block_take(slip_worker_t *worker, slip__block_t *block) {
  SLIP_RETURN_IF_ERROR(slip_memory_allocate(worker->platform, worker->device.ordinal, block->bytes, &block->address));
  pthread_mutex_lock(&worker->lock);
  slip__memory_insert(&worker->memory, block);
  pthread_mutex_unlock(&worker->lock);
  return slip_ok_status();
}

slip_status_t slip__block_allocate(slip_worker_t *worker, uint64_t bytes, slip__block_owner_e owner, bool pinned, slip__block_t **out) {
  void *memory = NULL;
  slip_status_t status = slip_ok_status();
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc(worker->allocator, sizeof(slip__block_t), &memory));
  slip__block_t *block = memory;
  *block = (slip__block_t){.bytes = bytes, .pins = pinned, .owner = (uint8_t)owner};
  status = slip__memory_admit(worker, bytes);
  if (!slip_status_is_ok(status)) {
    slip__free(worker->allocator, block, sizeof(*block));
    return status;
  }
  SLIP__CONTEXT_BOUND(status, worker->context, slip__block_take(worker, block));
  if (!slip_status_is_ok(status) && !block->address) {
    slip__memory_revoke(worker, bytes);
    slip__free(worker->allocator, block, sizeof(*block));
    return slip_status_annotate(status, "allocating %" PRIu64 " bytes on %s:%d", bytes, worker->platform_name, worker->device.ordinal);
  }
  if (!slip_status_is_ok(status)) {  // the device binding could not be undone
    pthread_mutex_lock(&worker->lock);
    block->pins = 0;
    (void)slip__block_kill(worker, block);
    pthread_mutex_unlock(&worker->lock);
    return slip_status_join(status, slip__block_return(worker, block));
  }
  *out = block;
  return status;
}

// |*out_free|: the platform has the memory back.
static slip_status_t slip__block_free(slip_worker_t *worker, const slip__block_t *block, bool *out_free) {
  slip_context_t *context = worker->context;
  *out_free = false;
  SLIP_RETURN_IF_ERROR(slip__context_bind(context));
  slip_status_t status = slip__context_given_back(context, slip_memory_free(worker->platform, worker->device.ordinal, block->address));
  *out_free = slip_status_is_ok(status);
  return slip_status_join(status, slip__context_unbind(context));
}

slip_status_t slip__block_return(slip_worker_t *worker, slip__block_t *block) {
  bool gone = false;
  slip_status_t status = slip__block_free(worker, block, &gone);
  pthread_mutex_lock(&worker->lock);
  if (gone) {
    worker->memory.bytes -= block->bytes;
    --worker->memory.promised;
  } else {
    slip__memory_insert(&worker->memory, block);
  }
  pthread_mutex_unlock(&worker->lock);
  if (gone) slip__free(worker->allocator, block, sizeof(*block));
  return slip_status_annotate(status, "giving device memory of the worker back");
}

slip_status_t slip__memory_clear(slip_worker_t *worker) {
  slip_status_t status = slip_ok_status();
  pthread_mutex_lock(&worker->lock);
  for (size_t left = worker->memory.count; left > 0; --left) {
    slip__block_t *block = worker->memory.blocks[left - 1];
    block->pins = 0;
    (void)slip__block_kill(worker, block);
    pthread_mutex_unlock(&worker->lock);
    status = slip_status_join(status, slip__block_return(worker, block));
    pthread_mutex_lock(&worker->lock);
  }
  pthread_mutex_unlock(&worker->lock);
  return status;
}

slip_status_t slip__worker_transfer(slip_worker_t *worker, void *target, const void *source, uint64_t bytes, uint32_t kind) {
  slip_status_t status = slip_ok_status();
  if (bytes == 0) return status;
  SLIP__CONTEXT_BOUND(status, worker->context, slip_memory_copy(worker->platform, worker->device.ordinal, target, source, bytes, kind));
  return status;
}

// --- public ------------------------------------------------------------------------------------------------------------------------------

slip_status_t slip_worker_allocate(slip_worker_t *worker, uint64_t size_bytes, void **out) {
  slip__block_t *block = NULL;
  if (out) *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "allocate"));
  if (!out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out is NULL, expected where to put the address");
  SLIP_RETURN_IF_ERROR(slip__worker_enter(worker, "allocate", true));
  slip_status_t status = slip_ok_status();
  if (size_bytes > 0) status = slip__block_allocate(worker, size_bytes, SLIP__BLOCK_CALLER, false, &block);
  if (block) *out = block->address;
  slip__worker_leave(worker);
  return status;
}

// Lock held. Why |memory| is not the beginning of a block that a caller may free.
static slip_status_t slip__memory_refuse_free(const slip_worker_t *worker, const void *memory) {
  const slip__block_t *block = slip__memory_at(&worker->memory, (uint64_t)(uintptr_t)memory);
  if (!block || block->owner == SLIP__BLOCK_STAGING || (block->dead && block->address == memory)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "%p is no memory of this worker: it was never given out, or was freed before; pass what slip_worker_allocate() gave",
                       memory);
  }
  if (block->address != memory) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%p points %" PRIu64 " bytes into an allocation of %" PRIu64 "; pass its beginning, %p",
                       memory, (uint64_t)((uintptr_t)memory - (uintptr_t)block->address), block->bytes, block->address);
  }
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%p is an output that a run still holds; slip_run_take() it first, or release the run",
                     memory);
}

slip_status_t slip_worker_free(slip_worker_t *worker, void *memory) {
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "free"));
  if (!memory) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__worker_enter(worker, "free", false));
  slip_status_t status = slip_ok_status();
  bool last = false;
  pthread_mutex_lock(&worker->lock);
  slip__block_t *block = slip__block_find(worker, (uint64_t)(uintptr_t)memory, 0);
  if (block && block->address == memory && block->owner == SLIP__BLOCK_CALLER) {
    last = slip__block_kill(worker, block);
  } else {
    status = slip__memory_refuse_free(worker, memory);
  }
  pthread_mutex_unlock(&worker->lock);
  if (last) status = slip__block_return(worker, block);
  slip__worker_leave(worker);
  return status;
}

// Lock held. Why [|address|, + |bytes|) is not inside one block.
static slip_status_t slip__memory_refuse_range(const slip_worker_t *worker, const char *side, const void *address, uint64_t bytes) {
  const slip__block_t *block = slip__memory_at(&worker->memory, (uint64_t)(uintptr_t)address);
  if (!block || block->dead || block->owner == SLIP__BLOCK_STAGING) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "the %s %p is no memory of this worker: it was never given out, or was freed before; pass memory of "
                       "slip_worker_allocate() or of a tensor of this worker",
                       side, address);
  }
  uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)block->address);
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                     "the %s %p with %" PRIu64 " bytes ends %" PRIu64 " bytes behind its allocation of %" PRIu64
                     " bytes; copy at most %" PRIu64,
                     side, address, bytes, bytes - (block->bytes - offset), block->bytes, block->bytes - offset);
}

// One side of a copy: pins the block and waits for the runs that were accepted with it.
static slip_status_t slip__memory_pin_range(slip_worker_t *worker, const char *side, const void *address, uint64_t bytes,
                                            slip__block_t **out) {
  slip_status_t status = slip_ok_status();
  pthread_mutex_lock(&worker->lock);
  slip__block_t *block = slip__block_find(worker, (uint64_t)(uintptr_t)address, bytes);
  if (block) {
    uint64_t run = block->last_run;
    ++block->pins;
    while (worker->completed < run) pthread_cond_wait(&worker->changed, &worker->lock);
    *out = block;
  } else {
    status = slip__memory_refuse_range(worker, side, address, bytes);
  }
  pthread_mutex_unlock(&worker->lock);
  return status;
}

// NULL is fine.
static slip_status_t slip__memory_unpin(slip_worker_t *worker, slip__block_t *block) {
  if (!block) return slip_ok_status();
  pthread_mutex_lock(&worker->lock);
  bool last = slip__block_unpin(worker, block);
  pthread_mutex_unlock(&worker->lock);
  return last ? slip__block_return(worker, block) : slip_ok_status();
}

static slip_status_t slip__memory_copy(slip_worker_t *worker, void *target, const void *source, uint64_t size_bytes, uint32_t kind) {
  slip__block_t *to = NULL, *from = NULL;
  slip_status_t status = slip_ok_status();
  if (kind != SLIP_COPY_DEVICE_TO_HOST) status = slip__memory_pin_range(worker, "target", target, size_bytes, &to);
  if (slip_status_is_ok(status) && kind != SLIP_COPY_HOST_TO_DEVICE)
    status = slip__memory_pin_range(worker, "source", source, size_bytes, &from);
  if (slip_status_is_ok(status)) status = slip__worker_transfer(worker, target, source, size_bytes, kind);
  // The memory may have been freed meanwhile; what could not be given back then, close gives back.
  slip_status_free(slip__memory_unpin(worker, to));
  slip_status_free(slip__memory_unpin(worker, from));
  return status;
}

static slip_status_t slip__memory_check_copy(const void *target, const void *source, uint64_t size_bytes, uint32_t kind) {
  if (kind < SLIP_COPY_HOST_TO_DEVICE || kind > SLIP_COPY_DEVICE_TO_DEVICE)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "kind is %" PRIu32 ", expected a slip_copy_e (1 to 3)", kind);
  if (size_bytes > 0 && (!target || !source))
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s is NULL, but %" PRIu64 " bytes are to be copied", target ? "source" : "target",
                       size_bytes);
  uint64_t a = (uint64_t)(uintptr_t)target, b = (uint64_t)(uintptr_t)source;
  if (kind == SLIP_COPY_DEVICE_TO_DEVICE && (a < b ? b - a : a - b) < size_bytes)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "target %p and source %p overlap within %" PRIu64 " bytes; copy through other memory or in smaller pieces", target,
                       source, size_bytes);
  return slip_ok_status();
}

slip_status_t slip_worker_copy(slip_worker_t *worker, void *target, const void *source, uint64_t size_bytes, uint32_t kind) {
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "copy"));
  SLIP_RETURN_IF_ERROR(slip__memory_check_copy(target, source, size_bytes, kind));
  SLIP_RETURN_IF_ERROR(slip__worker_enter(worker, "copy", false));
  slip_status_t status = size_bytes > 0 ? slip__memory_copy(worker, target, source, size_bytes, kind) : slip_ok_status();
  slip__worker_leave(worker);
  return slip_status_annotate(status, "copying %" PRIu64 " bytes", size_bytes);
}
