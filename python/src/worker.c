// SPDX-License-Identifier: Apache-2.0
// Worker: program mode. It owns device, memory and lifetime.
//
// Nothing is claimed before open(), which every use that needs the device does first. A worker that is forgotten is closed when its last
// tensor, program and run are gone; one that is still there at the interpreter's exit is closed by the exit hook, which the first open
// registers. The C worker is destroyed with the object: whoever is inside a call keeps the object.
#include "worker.h"

#include <stdio.h>
#include <unistd.h>

#include "tensor.h"

// --- list of those that are not closed -------------------------------------------------------------------------------------------------

static void pyslip_worker_enlist(pyslip_worker_t *self) {
  pyslip_state_t *state = self->state;
  self->previous = NULL;
  self->next = state->workers;
  if (self->next) self->next->previous = self;
  state->workers = self;
  self->listed = true;
}

static void pyslip_worker_delist(pyslip_worker_t *self) {
  if (!self->listed) return;
  if (self->next) self->next->previous = self->previous;
  if (self->previous)
    self->previous->next = self->next;
  else
    self->state->workers = self->next;
  self->next = self->previous = NULL;
  self->listed = false;
}

// --- use -------------------------------------------------------------------------------------------------------------------------------

bool pyslip_worker_here(pyslip_worker_t *self) {
  if (__builtin_expect(self->process == getpid(), 1)) return true;
  slip_status_t status = slip_worker_open(self->worker);  // FORKED, in the library's words
  if (!pyslip_ok(self->state, status)) return false;
  pyslip_raise_format(self->state, PYSLIP_ERROR_INVALID_STATE, "the worker of %s:%d belongs to another process", self->platform,
                      self->ordinal);
  return false;
}

static bool pyslip_worker_refuse(pyslip_worker_t *self, slip_worker_state_e state) {
  const char *text = state == SLIP_WORKER_CLOSED ? "is closed, and a closed worker stays closed; make another"
                     : state == SLIP_WORKER_FAILED
                         ? "could not be opened, and what it took could not be given back; close() it, repeatedly if need be"
                         : "is closing; make another";
  pyslip_raise_format(self->state, PYSLIP_ERROR_INVALID_STATE, "the worker of %s:%d %s", self->platform, self->ordinal, text);
  return false;
}

bool pyslip_worker_ready(pyslip_worker_t *self) {
  slip_worker_state_e state = slip_worker_state(self->worker);
  if (!pyslip_worker_here(self)) return false;
  if (__builtin_expect(state == SLIP_WORKER_READY && !self->closing, 1)) return true;
  if (self->closing || (state != SLIP_WORKER_NEW && state != SLIP_WORKER_INITIALIZING)) return pyslip_worker_refuse(self, state);
  if (!pyslip_exit_hook(self->state)) return false;
  slip_worker_t *worker = self->worker;
  slip_status_t status;
  PYSLIP_WITHOUT_LOCK(status = slip_worker_open(worker));
  return pyslip_ok(self->state, status);
}

static void pyslip_pending_free(pyslip_pending_t *pending) {
  while (pending) {
    pyslip_pending_t *next = pending->next;
    pyslip_hold_free(pending->hold);
    slip_run_release(pending->run);
    PyMem_Free(pending);
    pending = next;
  }
}

void pyslip_worker_reap(pyslip_worker_t *self) {
  pyslip_pending_t *done = NULL, **link = &self->pending;
  while (*link) {
    pyslip_pending_t *pending = *link;
    if (!slip_run_done(pending->run)) {
      link = &pending->next;
      continue;
    }
    *link = pending->next;
    pending->next = done;
    done = pending;
  }
  // Giving objects back may run other code, which may come here again.
  if (done) pyslip_pending_free(done);
}

// --- making ----------------------------------------------------------------------------------------------------------------------------

static PyObject *pyslip_worker_create(PyTypeObject *type, const slip_worker_options_t *options) {
  pyslip_state_t *state = pyslip_state_of(type);
  pyslip_worker_t *self = PyObject_New(pyslip_worker_t, type);
  if (!self) return NULL;
  memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
  self->state = state;
  self->process = getpid();
  self->ordinal = options->device;
  snprintf(self->platform, sizeof(self->platform), "%s", options->platform);
  if (!pyslip_ok(state, slip_worker_create(options, &self->worker))) {
    Py_DECREF(self);
    return NULL;
  }
  pyslip_worker_enlist(self);
  return (PyObject *)self;
}

static PyObject *pyslip_worker_new(PyTypeObject *type, PyObject *args, PyObject *named) {
  static char *names[] = {"device",
                          "target",
                          "scheduler_threads",
                          "single_thread",
                          "memory_budget_bytes",
                          "workspace_budget_bytes",
                          "max_callables",
                          "stall_timeout_ms",
                          "task_window",
                          "heap_bytes",
                          "dependency_pool",
                          "pin_workers",
                          "skip_build_check",
                          NULL};
  static const struct {
    const char *name;
    uint64_t limit;
  } table[8] = {{"scheduler_threads", UINT32_MAX}, {"memory_budget_bytes", UINT64_MAX}, {"workspace_budget_bytes", UINT64_MAX},
                {"max_callables", UINT32_MAX},     {"stall_timeout_ms", UINT32_MAX},    {"task_window", UINT32_MAX},
                {"heap_bytes", UINT64_MAX},        {"dependency_pool", UINT32_MAX}};
  pyslip_state_t *state = pyslip_state_of(type);
  slip_worker_options_t options = SLIP_WORKER_OPTIONS_INIT;
  const char *text = "cpu:0";
  char platform[32];
  PyObject *v[8] = {NULL};
  uint64_t numbers[5], rings[3][SLIP_RING_COUNT];
  int single = 0, pin = 0, skip = 0;
  slip_device_t device;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|s$zOpOOOOOOOpp:Worker", names, &text, &options.target, &v[0], &single, &v[1], &v[2],
                                   &v[3], &v[4], &v[5], &v[6], &v[7], &pin, &skip))
    return NULL;
  if (!pyslip_device_parse(state, text, platform, &device)) return NULL;
  for (size_t i = 0; i < 5; ++i)
    if (!pyslip_option_number(state, table[i].name, v[i], table[i].limit, &numbers[i])) return NULL;
  for (size_t i = 0; i < 3; ++i)
    if (!pyslip_option_rings(state, table[5 + i].name, v[5 + i], table[5 + i].limit, rings[i])) return NULL;
  options.platform = platform;
  options.device = device.ordinal;
  options.flags =
      (single ? SLIP_WORKER_SINGLE_THREAD : 0u) | (pin ? SLIP_WORKER_PIN_WORKERS : 0u) | (skip ? SLIP_WORKER_SKIP_BUILD_CHECK : 0u);
  options.scheduler_threads = (uint32_t)numbers[0];
  options.memory_budget_bytes = numbers[1];
  options.workspace_budget_bytes = numbers[2];
  options.max_callables = (uint32_t)numbers[3];
  options.stall_timeout_ms = (uint32_t)numbers[4];
  for (size_t i = 0; i < SLIP_RING_COUNT; ++i) {
    options.task_window[i] = (uint32_t)rings[0][i];
    options.heap_bytes[i] = rings[1][i];
    options.dependency_pool[i] = (uint32_t)rings[2][i];
  }
  return pyslip_worker_create(type, &options);
}

static PyObject *pyslip_worker_open(PyObject *object, PyObject *none) {
  (void)none;
  return pyslip_worker_ready((pyslip_worker_t *)object) ? Py_NewRef(object) : NULL;
}

// --- closing ---------------------------------------------------------------------------------------------------------------------------

// Waits for the runs that were accepted here until now, and lets go of what they borrowed.
static void pyslip_worker_settle(pyslip_worker_t *self) {
  size_t count = 0;
  for (const pyslip_pending_t *pending = self->pending; pending; pending = pending->next) ++count;
  for (; count > 0 && self->pending; --count) {
    slip_run_t *run = self->pending->run;
    slip_status_t status;
    slip_run_retain(run);
    PYSLIP_WITHOUT_LOCK(status = slip_run_wait(run, -1));
    slip_status_free(status);
    slip_run_release(run);
    pyslip_worker_reap(self);
  }
}

static bool pyslip_worker_end(pyslip_worker_t *self) {
  slip_worker_t *worker = self->worker;
  slip_status_t status;
  if (!pyslip_worker_here(self)) return false;
  if (self->exports) pyslip_worker_settle(self);  // runs may be what they are for
  if (self->exports) {
    pyslip_raise_format(
        self->state, PYSLIP_ERROR_BUSY,
        "the worker of %s:%d has memory lent out, to %zd arrays or buffers (DLPack, memoryview); drop them and close again, and take "
        "x.numpy() for a copy that stays",
        self->platform, self->ordinal, self->exports);
    return false;
  }
  ++self->closing;
  PYSLIP_WITHOUT_LOCK(status = slip_worker_close(worker));
  --self->closing;
  if (slip_worker_state(worker) == SLIP_WORKER_CLOSED) pyslip_worker_delist(self);
  pyslip_worker_reap(self);
  return pyslip_ok(self->state, status);
}

static PyObject *pyslip_worker_close(PyObject *self, PyObject *none) {
  (void)none;
  if (!pyslip_worker_end((pyslip_worker_t *)self)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_worker_exit(PyObject *self, PyObject *args) {
  (void)args;
  return pyslip_worker_close(self, NULL);
}

void pyslip_worker_close_all(pyslip_state_t *state) {
  while (state->workers) {
    pyslip_worker_t *self = state->workers;
    Py_INCREF(self);
    if (!pyslip_worker_end(self)) {
      // A child of a fork has nothing to close. Memory that others still look at stays until the process ends; no run is left. Everything
      // else is worth a word.
      if (self->exports || PyErr_ExceptionMatches(state->errors[PYSLIP_ERROR_FORKED]))
        PyErr_Clear();
      else
        PyErr_WriteUnraisable((PyObject *)self);
    }
    pyslip_worker_delist(self);  // this was its turn, whatever became of it
    Py_DECREF(self);
  }
}

static void pyslip_worker_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_worker_t *self = (pyslip_worker_t *)object;
  slip_worker_t *worker = self->worker;
  slip_status_t status = slip_ok_status();
  pyslip_worker_delist(self);
  if (slip_worker_state(worker) == SLIP_WORKER_NEW || slip_worker_state(worker) == SLIP_WORKER_CLOSED)
    status = slip_worker_destroy(worker);
  else
    PYSLIP_WITHOUT_LOCK(status = slip_status_join(slip_worker_close(worker), slip_worker_destroy(worker)));
  // In the child of a fork all of it stays the parent's. What else fails here can be told to nobody, and stays until the process ends.
  slip_status_free(status);
  pyslip_pending_free(self->pending);
  PyObject_Free(object);
  Py_DECREF(type);
}

// --- memory ----------------------------------------------------------------------------------------------------------------------------

static PyObject *pyslip_worker_allocate(PyObject *object, PyObject *args, PyObject *named, const char *format, uint32_t flags) {
  static char *names[] = {"shape", "dtype", NULL};
  pyslip_worker_t *self = (pyslip_worker_t *)object;
  PyObject *shape;
  const char *dtype_name = "f32";
  int64_t dims[SLIP_MAX_RANK];
  uint8_t rank;
  if (!PyArg_ParseTupleAndKeywords(args, named, format, names, &shape, &dtype_name)) return NULL;
  if (!pyslip_shape_parse(self->state, shape, &rank, dims)) return NULL;
  slip_dtype_t dtype = pyslip_dtype_parse(self->state, dtype_name);
  if (dtype == SLIP_DTYPE_NONE) return NULL;
  return pyslip_worker_tensor_make(self, rank, dims, dtype, flags);
}

static PyObject *pyslip_worker_empty(PyObject *self, PyObject *args, PyObject *named) {
  return pyslip_worker_allocate(self, args, named, "O|s:empty", SLIP_WORKER_TENSOR_NONE);
}
static PyObject *pyslip_worker_zeros(PyObject *self, PyObject *args, PyObject *named) {
  return pyslip_worker_allocate(self, args, named, "O|s:zeros", SLIP_WORKER_TENSOR_ZERO);
}
static PyObject *pyslip_worker_tensor(PyObject *self, PyObject *source) {
  return pyslip_worker_tensor_upload((pyslip_worker_t *)self, source);
}

// --- the rest --------------------------------------------------------------------------------------------------------------------------

static PyObject *pyslip_worker_register(PyObject *object, PyObject *argument) {
  pyslip_worker_t *self = (pyslip_worker_t *)object;
  pyslip_state_t *state = self->state;
  if (Py_TYPE(argument) != state->artifact)
    return pyslip_raise_format(state, PYSLIP_ERROR_ARGUMENT_TYPE, "register() expects an Artifact, got %R; load() or compile() makes one",
                               argument);
  if (!pyslip_worker_ready(self)) return NULL;
  slip_artifact_t *artifact = ((pyslip_artifact_t *)argument)->artifact;
  slip_worker_t *worker = self->worker;
  int32_t id = -1;
  slip_status_t status;
  PYSLIP_WITHOUT_LOCK(status = slip_worker_register_artifact(worker, artifact, &id));
  PyObject *program = pyslip_ok(state, status) ? pyslip_program_create(self, id, slip_artifact_name(artifact)) : NULL;
  if (!program && id >= 0) slip_status_free(slip_worker_unregister(worker, id));
  return program;
}

static PyObject *pyslip_worker_stats(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_worker_t *self = (pyslip_worker_t *)object;
  slip_worker_stats_t s = {.struct_size = (uint32_t)sizeof(s)};
  pyslip_worker_reap(self);
  if (!pyslip_ok(self->state, slip_worker_stats(self->worker, &s))) return NULL;
  const uint64_t values[] = {
      s.callables, s.resident_bytes, s.memory_bytes,   s.memory_peak_bytes, s.allocations,     s.runs,   s.refused, s.completed,
      s.failed,    s.tasks,          s.uploaded_bytes, s.downloaded_bytes,  s.workspace_bytes, s.threads};
  PyObject *stats = PyStructSequence_New(self->state->worker_stats);
  for (size_t i = 0; stats && i < sizeof(values) / sizeof(values[0]); ++i)
    PyStructSequence_SetItem(stats, (Py_ssize_t)i, PyLong_FromUnsignedLongLong(values[i]));
  if (stats && PyErr_Occurred()) Py_CLEAR(stats);
  return stats;
}

static const char *pyslip_worker_state_name(const pyslip_worker_t *self) {
  static const char *const names[] = {"new", "initializing", "ready", "failed", "closing", "closed"};
  slip_worker_state_e state = slip_worker_state(self->worker);
  return names[(unsigned)state < 6 ? (unsigned)state : 0];
}

static PyObject *pyslip_worker_state(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(pyslip_worker_state_name((pyslip_worker_t *)self));
}
static PyObject *pyslip_worker_device(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromFormat("%s:%d", ((pyslip_worker_t *)self)->platform, ((pyslip_worker_t *)self)->ordinal);
}
static PyObject *pyslip_worker_handle(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((pyslip_worker_t *)self)->worker);
}

static void pyslip_worker_bytes_text(uint64_t bytes, char *out, size_t capacity) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double size = (double)bytes;
  size_t unit = 0;
  while (size >= 1024 && unit < 4) size /= 1024, ++unit;
  snprintf(out, capacity, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

static PyObject *pyslip_worker_repr(PyObject *object) {
  pyslip_worker_t *self = (pyslip_worker_t *)object;
  slip_worker_stats_t s = {.struct_size = (uint32_t)sizeof(s)};
  char memory[32];
  if (self->process != getpid())
    return PyUnicode_FromFormat("<slipstream.Worker on %s:%d, of another process>", self->platform, self->ordinal);
  slip_status_t status = slip_worker_stats(self->worker, &s);
  bool known = slip_status_is_ok(status);
  slip_status_free(status);
  if (!known)
    return PyUnicode_FromFormat("<slipstream.Worker on %s:%d, %s>", self->platform, self->ordinal, pyslip_worker_state_name(self));
  pyslip_worker_bytes_text(s.memory_bytes, memory, sizeof(memory));
  return PyUnicode_FromFormat("<slipstream.Worker on %s:%d, %s; programs %u, allocations %llu (%s), runs %llu>", self->platform,
                              self->ordinal, pyslip_worker_state_name(self), (unsigned)s.callables, (unsigned long long)s.allocations,
                              memory, (unsigned long long)s.runs);
}

static PyGetSetDef pyslip_worker_members[] = {
    {"state", pyslip_worker_state, NULL, "'new', 'initializing', 'ready', 'failed', 'closing' or 'closed'. Never raises.", NULL},
    {"device", pyslip_worker_device, NULL, "'cpu:0' and so on.", NULL},
    {"handle", pyslip_worker_handle, NULL, "Address of the slip_worker_t; lives as long as this object.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef pyslip_worker_methods[] = {
    {"open", pyslip_worker_open, METH_NOARGS,
     "open($self, /)\n--\n\nTakes the device and claims the process for program mode; returns the worker. Everything that needs the "
     "device, "
     "and `with`, does this first. Does nothing on an open worker. May block, without the GIL.\nRaises InvalidArgumentError (no such "
     "device), NotFoundError (platform), UnsupportedError, IncompatibleError, ModeConflictError (a kernel-mode context was opened in this "
     "process), OutOfMemoryError, InvalidStateError (closed), ForkedError, DeviceError. The worker is new again after a failure, unless "
     "its state is 'failed'."},
    {"register", pyslip_worker_register, METH_O,
     "register($self, artifact, /)\n--\n\nValidates and loads an artifact of the program contract and returns a Program. The same content "
     "is loaded once: "
     "its Programs have one id, and each is closed by itself. May block, without the GIL.\nRaises IncompatibleError (contract, platform, "
     "target), CorruptError, CapacityError, OutOfMemoryError, InvalidStateError, PoisonedError, DeviceError, and what open() raises."},
    {"empty", (PyCFunction)(void (*)(void))pyslip_worker_empty, METH_VARARGS | METH_KEYWORDS,
     "empty($self, shape, dtype='f32')\n--\n\nA contiguous WorkerTensor, 64-byte aligned, not initialised.\n\nshape: an int or a sequence "
     "of at most 5. Raises InvalidArgumentError, OutOfMemoryError (device or memory_budget_bytes), InvalidStateError, PoisonedError, "
     "DeviceError, and what open() raises."},
    {"zeros", (PyCFunction)(void (*)(void))pyslip_worker_zeros, METH_VARARGS | METH_KEYWORDS,
     "zeros($self, shape, dtype='f32')\n--\n\nThe same, filled with zeros."},
    {"tensor", pyslip_worker_tensor, METH_O,
     "tensor($self, source, /)\n--\n\nA WorkerTensor with a copy of source: a contiguous tensor of the host of any library, or of this "
     "worker. Blocks, without the GIL. Raises what empty() raises, and ArgumentTypeError (no tensor)."},
    {"stats", pyslip_worker_stats, METH_NOARGS,
     "stats($self, /)\n--\n\nWorkerStats. Never waits for the device. InvalidStateError unless the worker is open."},
    {"close", pyslip_worker_close, METH_NOARGS,
     "close($self, /)\n--\n\nStops admission, waits (without the GIL) for the runs that were accepted, gives everything back: programs, "
     "tensors, threads. A closed worker stays closed; a second close does nothing; a failed one may be repeated, and goes on where it "
     "stopped.\nRaises BusyError (arrays or buffers of others lie in its memory, or another thread is closing), InvalidStateError (another "
     "thread is opening), ForkedError, DeviceError."},
    {"__enter__", pyslip_worker_open, METH_NOARGS, NULL},
    {"__exit__", pyslip_worker_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_worker_slots[] = {
    {Py_tp_doc,
     "Worker(device='cpu:0', *, target=None, scheduler_threads=0, single_thread=False, memory_budget_bytes=0, workspace_budget_bytes=0, "
     "max_callables=0, stall_timeout_ms=0, task_window=0, heap_bytes=0, dependency_pool=0, pin_workers=False, "
     "skip_build_check=False)\n--\n\nProgram mode: owns a device's threads, memory and programs, for programs that have no framework to "
     "ride in. A context manager that opens and closes. Any thread may use it.\n\nMaking one claims and loads nothing; open(), or the "
     "first "
     "use, does. A process is in one mode for its life: program mode or kernel mode. It may have several workers, also on one "
     "device.\n\nZero always means the default. scheduler_threads: 0 (as many as the process may use) or at least 2; single_thread: a run "
     "takes one thread. memory_budget_bytes: of tensors, outputs and copies on the device together, 0 for no limit. task_window, "
     "heap_bytes, dependency_pool: as kernel.open(). Sizes are in bytes, stall_timeout_ms in milliseconds.\nRaises InvalidArgumentError "
     "(names the option), ForkedError."},
    {Py_tp_new, pyslip_worker_new},
    {Py_tp_dealloc, pyslip_worker_dealloc},
    {Py_tp_repr, pyslip_worker_repr},
    {Py_tp_getset, pyslip_worker_members},
    {Py_tp_methods, pyslip_worker_methods},
    {0, NULL}};
static PyType_Spec pyslip_worker_spec = {"slipstream.Worker", sizeof(pyslip_worker_t), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                         pyslip_worker_slots};

int pyslip_worker_init(pyslip_state_t *state) {
  state->worker = pyslip_add_type(state, &pyslip_worker_spec);
  if (!state->worker || pyslip_worker_tensor_init(state) < 0 || pyslip_program_init(state) < 0) return -1;
  return pyslip_run_init(state);
}
