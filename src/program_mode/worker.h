// SPDX-License-Identifier: Apache-2.0
// The worker's memory, and what its parts share: worker.c (life), close.c, memory.c, callable.c, run.c (order, execution), bind.c
// (arguments), result.c.
//
// A worker runs on a context of its own (kernel_mode, slip__context_open_program), which it never lends: engine, run slot, code, lanes and
// their teardown are a context's. What is added here is ownership of memory and the order of runs.
//
// One lock. It is held for a few lines at a time and never across a platform call, an engine run or a wait other than for |changed|:
//
//   guarded by |lock|                         changed by
//   state, inside, closing, open_*            open, close; |inside| by whoever is in an operation: close waits for 0
//   memory (memory.h), callables              operations
//   first .. last, unfinished, preparing      submit adds at the end, one at a time (|preparing|); the executor takes from the front
//   executing                                 whoever executes a run: the runner, or a thread in slip_worker_run(); or keeps runs from it
//   accepted, completed                       submit; executor. Runs complete in order, so that run n is done once |completed| >= n
//
//   atomics           order                                     pairs with
//   state             release by who holds the lock             acquire in queries without the lock (|device| is published by it)
//   run->done         release by the executor, under the lock   acquire in slip_run_done() and whoever then reads |status| and results
//   run->references, shell   acq_rel                            the last one frees
//
// |changed| is raised whenever something of the above falls or a state changes; |work| when there is a first run and nobody executes it.
// Lock order: |lock|, then nothing. The context's locks are taken without it.
//
// In the child of a fork a worker of the parent is told by |fork_epoch|, which is all that is read of it there.
#ifndef SLIPSTREAM_SRC_PROGRAM_MODE_WORKER_H_
#define SLIPSTREAM_SRC_PROGRAM_MODE_WORKER_H_

#include <stdatomic.h>

#include "kernel_mode/context.h"
#include "os/thread.h"
#include "program_mode/callable.h"
#include "program_mode/memory.h"
#include "slipstream/worker.h"

struct slip_worker_t {
  // fixed by create
  slip_allocator_t allocator;
  slip_worker_options_t options;
  char platform_name[64];
  char target[64];
  uint32_t fork_epoch;
  _Atomic uint32_t shell;  // one of create, one of each run that exists: the last one frees the memory

  // fixed while READY, made by open
  slip_context_t *context;
  slip_platform_t *platform;
  slip_device_t device;
  slip_stream_t stream;  // NULL: runs execute inline
  bool host_memory;      // the host reaches the device's memory
  slip__thread_t runner;

  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_cond_t work;
  // under |lock|
  _Atomic uint32_t state;  // slip_worker_state_e
  uint64_t open_attempts;
  slip_status_t open_result;  // of the last attempt, if it failed
  uint32_t inside;
  bool closing;
  bool stopping;  // the runner ends once no run is left
  uint32_t close_stage;
  slip__memory_t memory;
  slip__callable_t *callables;
  slip_run_t *first, *last;
  uint32_t unfinished;
  bool preparing;
  bool executing;
  uint64_t accepted, completed, failed, refused;
  uint64_t uploaded_bytes, downloaded_bytes;
};

static inline slip_worker_state_e slip__worker_state(const slip_worker_t *worker) {
  return (slip_worker_state_e)atomic_load_explicit(&worker->state, memory_order_acquire);
}

// INVALID_ARGUMENT (NULL) or FORKED, before anything of the worker is touched. |what| is the caller's verb ("allocate").
slip_status_t slip__worker_check(const slip_worker_t *worker, const char *what) SLIP_MUST_USE;
slip_status_t slip__worker_refuse_state(const slip_worker_t *worker, const char *what) SLIP_MUST_USE;
// Begins an operation on a READY worker that is not poisoned, opening a NEW one if |opens|. Each success needs one leave.
slip_status_t slip__worker_enter(slip_worker_t *worker, const char *what, bool opens) SLIP_MUST_USE;
void slip__worker_leave(slip_worker_t *worker);
// The same for giving back, lock held: false if the worker is not READY, and close sees to it.
bool slip__worker_enter_quietly(slip_worker_t *worker);

// The stages of close from |close_stage| on; open uses them to undo what it did. Lock not held.
slip_status_t slip__worker_teardown(slip_worker_t *worker) SLIP_MUST_USE;

void slip__worker_shell_release(slip_worker_t *worker);

// The thread that executes runs; |user| is the worker.
void slip__runner_main(void *user);

#endif  // SLIPSTREAM_SRC_PROGRAM_MODE_WORKER_H_
