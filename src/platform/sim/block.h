// SPDX-License-Identifier: Apache-2.0
// Allocations of the simulator: where they lie, what of them was ever written, and what became of them. Everything here is guarded by the
// memory lock unless it says otherwise.
//
// Addresses. A device has a range of address space that nothing can read or write. Addresses are given out in a circle, so that one that
// was freed stays unused for long. The bytes of an allocation lie elsewhere, between two guards; page-locked memory has guards too, and its
// address is where its bytes are.
//
// Definedness. One bit a byte: was it ever written. A byte that was not always holds the *pattern* of its place, so a function that may
// write a range needs no preparation: what holds its pattern afterwards was not written. Compared are groups of 8 bytes; of fewer than 4
// undefined bytes in a group nothing can be concluded (a right value may happen to equal the pattern), so these count as written.
//
// Freed allocations go through a quarantine, oldest out first: the record tells who uses an address after its end, and poisoned bytes tell
// who writes through a view after its end. Allocations in use do not leave it.
#ifndef SLIPSTREAM_SRC_PLATFORM_SIM_BLOCK_H_
#define SLIPSTREAM_SRC_PLATFORM_SIM_BLOCK_H_

#include "platform/sim/sim.h"

#define SLIP__SIM_ALIGNMENT         256u
#define SLIP__SIM_GUARD             256u
#define SLIP__SIM_PINNED            (-1)  // stands for a device where page-locked host memory is meant
#define SLIP__SIM_ELSEWHERE         (-2)  // neither
#define SLIP__SIM_QUARANTINE_BLOCKS 256u
#define SLIP__SIM_QUARANTINE_BYTES  ((uint64_t)16 << 20)

typedef struct slip__sim_block_t {
  uintptr_t address;
  uint64_t size;
  uint8_t *bytes;                // NULL: given back while in quarantine
  uint8_t *defined;              // byte g: of bytes 8g to 8g+7 those that were written; NULL: page-locked
  uint64_t key;                  // of the pattern
  int32_t device;                // or SLIP__SIM_PINNED
  uint32_t epoch;                // slip__fork_epoch() of the process that allocated
  uint32_t uses;                 // copies and functions that use the bytes at this moment
  uint32_t holds;                // enqueued operations that will
  uint32_t copies;               // that write into it at this moment
  struct slip__sim_map_t *maps;  // of functions that run
  bool poisoned;
  const char *freed_by;  // the call; NULL: it lives
  uint64_t freed_at;     // slip__sim_call_total() then
  struct slip__sim_block_t *younger;
} slip__sim_block_t;

extern pthread_mutex_t slip__sim_memory_lock;

// A block with its bytes, not placed yet. Unlocked. OUT_OF_MEMORY of the host.
slip_status_t slip__sim_block_create(int32_t device, uint64_t size, slip__sim_block_t **out) SLIP_MUST_USE;
// Not placed, or taken out again.
void slip__sim_block_destroy(slip__sim_block_t *block);
// Gives the block its address. OUT_OF_MEMORY: beyond the device's bound, or no address is left.
slip_status_t slip__sim_block_place(slip__sim_block_t *block) SLIP_MUST_USE;
// The block, living or in quarantine, that contains |pointer|; NULL. |*out_device|: whose memory the address is, even where no block lies.
slip__sim_block_t *slip__sim_block_find(const void *pointer, int32_t *out_device);
// Ends the block's life: it goes into quarantine.
void slip__sim_block_retire(slip__sim_block_t *block, const char *freed_by);
// After |uses| or |holds| fell: lets go of what was freed meanwhile.
void slip__sim_block_settle_retired(slip__sim_block_t *block);
// Reports damaged guards (which breaks the device) and mends them; false if there were any.
bool slip__sim_block_intact(slip__sim_block_t *block, const char *call);
// Retires all living blocks of |device|.
void slip__sim_space_retire(int32_t device, const char *freed_by);
// Drops all records of all devices, quarantine included, but those in use.
void slip__sim_space_clear(void);
// Adds up what lives, made by this process.
void slip__sim_space_count(int32_t device, uint32_t *inout_blocks, uint64_t *inout_bytes);
bool slip__sim_space_has_room(int32_t device, uint64_t size);

// --- definedness (defined.c); ranges lie inside the block
void slip__sim_pattern_write(slip__sim_block_t *block, uint64_t offset, uint64_t size);
void slip__sim_define(slip__sim_block_t *block, uint64_t offset, uint64_t size);
// True if every byte of the range was written; else |*out_first| is the offset of the first that was not.
bool slip__sim_defined(const slip__sim_block_t *block, uint64_t offset, uint64_t size, uint64_t *out_first);
// After code might have written the range: what no longer holds its pattern is defined.
void slip__sim_define_changed(slip__sim_block_t *block, uint64_t offset, uint64_t size);
// After the bytes were copied: the target becomes as defined as the source is.
void slip__sim_define_copied(slip__sim_block_t *target, uint64_t target_offset, const slip__sim_block_t *source, uint64_t source_offset,
                             uint64_t size);

// --- use.c
// What a call takes for one side of a copy, or for a range that code uses.
typedef struct slip__sim_side_t {
  const char *name;  // "source"
  const void *pointer;
  slip__sim_block_t *block;  // NULL: pageable
  uint64_t offset;
  bool freed;  // why it failed
} slip__sim_side_t;
// Finds [pointer, pointer + size) in one living block of |device|, or, for SLIP__SIM_PINNED, in one of page-locked memory or outside of
// all. INVALID_VALUE says what is there instead; FORKED.
slip_status_t slip__sim_side_resolve(slip__sim_side_t *side, const char *call, int32_t device, uint64_t size) SLIP_MUST_USE;
void *slip__sim_side_bytes(const slip__sim_side_t *side);
// The bytes stay while they are used. The end, after |call|: guards are checked, and what was freed meanwhile goes.
void slip__sim_side_begin(const slip__sim_side_t *side);
void slip__sim_side_end(const slip__sim_side_t *side, const char *call);
void slip__sim_report_undefined(const slip__sim_side_t *side, const char *call, uint64_t size, uint64_t first, bool fatal);
// A copy between two resolved sides; the memory lock is not held meanwhile. Violations name |call|.
void slip__sim_sides_copy(slip__sim_side_t *target, slip__sim_side_t *source, const char *call, uint64_t size);

// --- map.c
// Somebody writes the range rightfully, from now until the end: who has it mapped for reading only is not to blame for changes.
void slip__sim_write_begin(const slip__sim_side_t *side, uint64_t size);
void slip__sim_write_end(const slip__sim_side_t *side);

#endif  // SLIPSTREAM_SRC_PLATFORM_SIM_BLOCK_H_
