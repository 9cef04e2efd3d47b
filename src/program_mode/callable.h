// SPDX-License-Identifier: Apache-2.0
// The callables of a worker: content to handle, counted. A handle is the id of the worker's context, where the code is resident.
//
//   references   registers that were not matched by an unregister; 0: the handle is dead to callers and its content is not found any more
//   pins         runs that were accepted and are not done
// The record goes, and the id is released, when both are 0.
#ifndef SLIPSTREAM_SRC_PROGRAM_MODE_CALLABLE_H_
#define SLIPSTREAM_SRC_PROGRAM_MODE_CALLABLE_H_

#include "slipstream/worker.h"

typedef struct slip__callable_t {
  struct slip__callable_t *next;
  uint64_t content_hash[2];
  uint64_t image_bytes;
  slip_signature_t *params;   // what callers pass
  slip_signature_t *lowered;  // what the image takes; often the same contents
  char *name;
  int32_t id;
  uint32_t references;
  uint32_t pins;
} slip__callable_t;

// Lock held. The callable that |id| names, with a pin for the caller; NULL.
slip__callable_t *slip__callable_pin(slip_worker_t *worker, int32_t id);
// Lock not held. Gives the pin back. A failure to unload is kept by the context, which tries again.
void slip__callable_unpin(slip_worker_t *worker, slip__callable_t *callable);
// Close, alone with the worker: frees the records. The context unloads the code.
void slip__callables_clear(slip_worker_t *worker);

#endif  // SLIPSTREAM_SRC_PROGRAM_MODE_CALLABLE_H_
