// SPDX-License-Identifier: Apache-2.0
// The process's contexts, one per device, and the shared result of opening one.
//
//   found for the device            open with the same options                              open with other options
//   nothing                         opens; the table holds it, INITIALIZING                 the same
//   INITIALIZING                    waits for the opener's result and shares it             CONFLICT
//   READY                           the same context, one reference more                    CONFLICT
//   FAILED (teardown owed)          the first result again, with the context to close       CONFLICT
//   CLOSING, a close is running     BUSY                                                    BUSY
//   CLOSING, close failed           INVALID_STATE: the owner of the handle must close       INVALID_STATE
// A context leaves the table when it is CLOSED, or when its open failed and nothing is owed.
// Contexts of workers are in the table for the report at the process's end only: no open finds them.
//
// Lock order: this table, then a registry. The lock is not held while opening or closing.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_OPEN_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_OPEN_H_

#include "kernel_mode/context.h"
#include "kernel_mode/preflight.h"

// Opens a context for a worker and claims program mode instead: always a new one, on a device that need not be the calling thread's current
// one, for callables of the program contract. Close and destroy are a context's own. As slip_context_open(), |*out| is also set by a
// failure that owes teardown.
slip_status_t slip__context_open_program(const slip_context_options_t *options, slip_context_t **out) SLIP_MUST_USE;

// The table's lock, for references (context.c).
void slip__contexts_lock(void);
void slip__contexts_unlock(void);

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_OPEN_H_
