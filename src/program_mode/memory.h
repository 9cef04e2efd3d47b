// SPDX-License-Identifier: Apache-2.0
// The device memory of a worker: a table of blocks, sorted by address.
//
//   block      becomes so by                                             found by its address
//   LIVE       allocate                                                  yes
//   DEAD       free while pinned; or the platform failed to take it back no: refused as freed
//   gone       free when not pinned, or the last unpin of a DEAD one     no
//
// A pin is held by a run that uses the block, from admission until it is done, and by a copy while it copies. Whoever makes a block unused
// takes it out of the table, gives it back to the platform without the lock, and frees the record; if the platform fails, the record
// returns to the table DEAD, in the place that was kept for it (|promised|), and close tries again. It is out of the table before the
// platform has it back, since the platform may hand the same address out at once.
#ifndef SLIPSTREAM_SRC_PROGRAM_MODE_MEMORY_H_
#define SLIPSTREAM_SRC_PROGRAM_MODE_MEMORY_H_

#include "slipstream/worker.h"

typedef enum slip__block_owner_e {
  SLIP__BLOCK_CALLER,   // allocate, tensor_create, taken outputs
  SLIP__BLOCK_RUN,      // an output that a run allocated
  SLIP__BLOCK_STAGING,  // the device's copy of a host tensor: nobody outside knows it
} slip__block_owner_e;

typedef struct slip__block_t {
  void *address;
  uint64_t bytes;
  uint64_t last_run;  // the number of the last run that was accepted with it; 0: none
  uint32_t pins;
  uint8_t owner;  // slip__block_owner_e
  bool dead;
} slip__block_t;

typedef struct slip__memory_t {
  slip__block_t **blocks;
  size_t count;
  size_t promised;  // places kept for blocks on their way in or out
  size_t capacity;
  uint64_t bytes;  // on their way in or out included
  uint64_t peak_bytes;
} slip__memory_t;

// |bytes| > 0 of device memory, LIVE, with one pin if |pinned|. OUT_OF_MEMORY (budget, device, host), DEVICE. Lock not held.
slip_status_t slip__block_allocate(slip_worker_t *worker, uint64_t bytes, slip__block_owner_e owner, bool pinned,
                                   slip__block_t **out) SLIP_MUST_USE;
// Lock held. The LIVE block that contains [|address|, |address| + |bytes|), staging left out; NULL.
slip__block_t *slip__block_find(slip_worker_t *worker, uint64_t address, uint64_t bytes);
// Lock held. Both are true if the caller must call slip__block_return() after unlocking.
bool slip__block_kill(slip_worker_t *worker, slip__block_t *block);
bool slip__block_unpin(slip_worker_t *worker, slip__block_t *block);
// Lock not held. Gives the platform back what kill or unpin took out of the table.
slip_status_t slip__block_return(slip_worker_t *worker, slip__block_t *block) SLIP_MUST_USE;
// Close, alone with the worker: all blocks. The first failure; what is left stays in the table.
slip_status_t slip__memory_clear(slip_worker_t *worker) SLIP_MUST_USE;

// A blocking copy with the device bound; |bytes| may be 0. Lock not held.
slip_status_t slip__worker_transfer(slip_worker_t *worker, void *target, const void *source, uint64_t bytes, uint32_t kind) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_PROGRAM_MODE_MEMORY_H_
