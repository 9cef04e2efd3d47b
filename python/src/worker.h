// SPDX-License-Identifier: Apache-2.0
// Program mode: worker.c (Worker, its life), worker_tensor.c (memory), program.c (registered programs, calls), run.c (runs).
//
// What refers to what: a WorkerTensor, a Program and a Run keep their Worker; a Worker keeps none of them. It keeps what runs borrow, with
// a reference to each such run, until it finds the run done: in every later call of it or of its programs and runs, with the interpreter's
// lock held. At most SLIP_WORKER_DEPTH runs are not done, so the list is short. The threads of the library never come here.
//
// The memory of a WorkerTensor is lent out by capsules (leases), each of which counts as an export of the tensor and of the worker: neither
// the one is freed nor the other closed under it.
#ifndef PYSLIP_WORKER_H_
#define PYSLIP_WORKER_H_

#include <sys/types.h>

#include "pyslip.h"
#include "slipstream/worker.h"

typedef struct pyslip_pending_t {
  struct pyslip_pending_t *next;
  slip_run_t *run;  // a reference of its own
  pyslip_hold_t *hold;
} pyslip_pending_t;

typedef struct pyslip_worker_t {
  PyObject_HEAD pyslip_state_t *state;
  slip_worker_t *worker;
  pyslip_pending_t *pending;
  struct pyslip_worker_t *next, *previous;  // in state->workers, which holds no references
  char platform[32];
  int ordinal;
  pid_t process;
  Py_ssize_t exports;  // leases on memory of its tensors
  uint32_t closing;    // calls of close() in progress
  bool listed;
} pyslip_worker_t;

typedef struct pyslip_worker_tensor_t {
  PyObject_HEAD pyslip_worker_t *worker;  // strong
  struct pyslip_worker_tensor_t *base;    // views: the tensor that has the memory, strong; NULL: this one
  slip_tensor_t tensor;
  Py_ssize_t exports;  // of the memory; in the tensor that has it
  bool freed;          // likewise
} pyslip_worker_tensor_t;

typedef struct pyslip_program_t {
  PyObject_HEAD pyslip_vectorcall_t vectorcall;
  pyslip_entry_t entry;
  pyslip_worker_t *worker;  // strong
  int32_t id;
  bool closed;
} pyslip_program_t;

// --- worker.c --------------------------------------------------------------------------------------------------------------------------
// False with ForkedError in a child of the process that made the worker.
bool pyslip_worker_here(pyslip_worker_t *worker);
// The worker is READY, opened if need be (without the interpreter's lock). False with an exception.
bool pyslip_worker_ready(pyslip_worker_t *worker);
// Lets go of what runs borrowed that are done.
void pyslip_worker_reap(pyslip_worker_t *worker);
// The exit hook's part.
void pyslip_worker_close_all(pyslip_state_t *state);

// --- worker_tensor.c -------------------------------------------------------------------------------------------------------------------
// Owns the memory of |tensor|, which is freed if there is no memory for the object.
PyObject *pyslip_worker_tensor_wrap(pyslip_worker_t *worker, const slip_tensor_t *tensor);
PyObject *pyslip_worker_tensor_make(pyslip_worker_t *worker, uint8_t rank, const int64_t *dims, slip_dtype_t dtype, uint32_t flags);
// A copy of |source|: any tensor of the host, or one of the same worker.
PyObject *pyslip_worker_tensor_upload(pyslip_worker_t *worker, PyObject *source);
bool pyslip_worker_tensor_freed(const pyslip_worker_tensor_t *tensor);
// How everybody but a program of the worker reads it. As an argument: its descriptor, which kernel mode refuses by its flag. Elsewhere:
// memory of the host, lent.
bool pyslip_worker_tensor_read(pyslip_state_t *state, const pyslip_place_t *place, PyObject *object, slip_tensor_t *out,
                               pyslip_kept_t *kept);

int pyslip_worker_tensor_init(pyslip_state_t *state);

// --- program.c, run.c ------------------------------------------------------------------------------------------------------------------
PyObject *pyslip_program_create(pyslip_worker_t *worker, int32_t id, const char *name);
// Consumes |run|. |values|: what came for each parameter; NULL or None for outputs that were left out.
PyObject *pyslip_run_wrap(pyslip_program_t *program, slip_run_t *run, PyObject *const *values);
// The results of a run that is done and well: None, one, or a tuple.
PyObject *pyslip_run_results(PyObject *run);
int pyslip_program_init(pyslip_state_t *state);
int pyslip_run_init(pyslip_state_t *state);

#endif  // PYSLIP_WORKER_H_
