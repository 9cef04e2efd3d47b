// SPDX-License-Identifier: Apache-2.0
// Argument blocks of asynchronous launches: tensors, then scalars, of one call; in sizes of 1 KiB << class (thread-safe).
//
// Made by prepare when the first callable of a class comes, kept until close: as many of each class as launches that may exist at a time
// (|max_pending|, and |max_captured| where the platform captures), so that a launch finds one without allocating.
//
//   platform                      a block is
//   SLIP_PLATFORM_DIRECT_LAUNCH   host memory of the context's allocator; the callable reads it where launch wrote it
//   others                        a pair: page-locked host memory that launch writes, and device memory, to which the launch's first
//                                 operation copies it. Both belong to the ticket until nothing enqueued can use them any more
//
// |lock| is held across the platform's allocations: by prepare only, which may block on the platform, and innermost.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_ARGUMENTS_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_ARGUMENTS_H_

#include "kernel_mode/pool.h"
#include "os/thread.h"
#include "slipstream/context.h"

#define SLIP__ARGUMENT_CLASSES   7
#define SLIP__ARGUMENT_MIN_BYTES 1024u

typedef struct slip__argument_class_t {
  slip__pool_t pool;  // over |pinned|, or memory of its own
  void *pinned;       // one block after the other; NULL where the platform launches directly
  void *device;       // the same on the device
} slip__argument_class_t;

typedef struct slip__arguments_t {
  pthread_mutex_t lock;
  slip__argument_class_t classes[SLIP__ARGUMENT_CLASSES];
} slip__arguments_t;

uint32_t slip__arguments_class(uint32_t tensors, uint32_t scalars);
// Makes the blocks of |class| unless they are there. OUT_OF_MEMORY, or the platform's failure: what could not be given back is kept for the
// next call and for close.
slip_status_t slip__arguments_fit(slip_context_t *context, uint32_t class) SLIP_MUST_USE;
// A block; |*out_device| its device side (NULL: the block itself is read). NULL if none is left, which only happens while abandoned
// launches hold some.
static inline void *slip__arguments_take(slip__arguments_t *arguments, uint32_t class, void **out_device) {
  slip__argument_class_t *of = &arguments->classes[class];
  void *block = slip__pool_take(&of->pool);
  bool pair = block && of->device;
  *out_device = pair ? (unsigned char *)of->device + slip__pool_index(&of->pool, block) * of->pool.stride : NULL;
  return block;
}
static inline void slip__arguments_give(slip__arguments_t *arguments, uint32_t class, void *block) {
  slip__pool_give(&arguments->classes[class].pool, block);
}
// Close: the first failure; what could not be freed is kept and freed by the next call.
slip_status_t slip__arguments_free(slip_context_t *context) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_ARGUMENTS_H_
