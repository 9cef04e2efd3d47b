// SPDX-License-Identifier: Apache-2.0
// Program: a registered callable of a worker, and its calls.
//
// A call reads its arguments into one allocation, keeping the storage of host tensors (not only the objects), and lets the interpreter's
// lock go for submit and run. A blocking run gives the storage back at once; what submit accepted is kept by the worker (worker.h).
#include "read.h"
#include "worker.h"

// What one call needs.
typedef struct pyslip_request_t {
  PyObject **values;  // borrowed, one a parameter; NULL: left out
  slip_arg_t *args;
  slip_tensor_t *tensors;
  pyslip_hold_t *hold;
  const pyslip_state_t *state;
  uint32_t flags;  // slip_run_bits_e
  bool submits;    // a submit, which has an option more
  bool omits;      // an output
} pyslip_request_t;

// --- arguments -------------------------------------------------------------------------------------------------------------------------

static int pyslip_request_option(void *user, PyObject *name, PyObject *value) {
  pyslip_request_t *request = user;
  bool zero = PyUnicode_Compare(name, request->state->names.zero_outputs) == 0;
  bool block = request->submits && PyUnicode_Compare(name, request->state->names.block) == 0;
  if (!zero && !block) return 0;
  int truth = PyObject_IsTrue(value);
  if (zero && truth > 0) request->flags |= SLIP_RUN_ZERO_OUTPUTS;
  if (block && truth == 0) request->flags |= SLIP_RUN_NO_WAIT;
  return truth >= 0 ? 1 : -1;
}

static bool pyslip_request_sort(pyslip_program_t *program, PyObject *const *args, size_t count, PyObject *names,
                                pyslip_request_t *request) {
  if (!pyslip_entry_sort(&program->entry, args, count, names, request->values, pyslip_request_option, request)) return false;
  for (uint32_t i = 0; i < program->entry.slot_count; ++i) {
    const pyslip_slot_t *slot = &program->entry.slots[i];
    if (slot->direction == SLIP_DIRECTION_OUT && request->values[i] == Py_None) request->values[i] = NULL;
    if (request->values[i]) continue;
    if (slot->direction == SLIP_DIRECTION_OUT) {
      request->omits = true;
      continue;
    }
    pyslip_raise_format(program->entry.state, PYSLIP_ERROR_ARGUMENT_TYPE,
                        "%s: parameter %u '%s' (%s) is missing; only outputs can be left out, which the worker then allocates",
                        program->entry.name, (unsigned)i, slot->name, pyslip_direction_name(slot->direction));
    return false;
  }
  return true;
}

static bool pyslip_request_worker_tensor(pyslip_program_t *program, const pyslip_place_t *place, PyObject *value, slip_tensor_t *out) {
  pyslip_worker_tensor_t *tensor = (pyslip_worker_tensor_t *)value;
  *out = tensor->tensor;
  if (tensor->worker != program->worker)
    pyslip_refuse(program->entry.state, place, PYSLIP_ERROR_INVALID_ARGUMENT,
                  "expects a tensor of this worker or of the host, got one of another worker; pass x.to_host()");
  else if (pyslip_worker_tensor_freed(tensor))
    pyslip_refuse(program->entry.state, place, PYSLIP_ERROR_INVALID_ARGUMENT, "expects a live tensor, got one that was freed");
  return !PyErr_Occurred();
}

static bool pyslip_request_tensor(pyslip_program_t *program, const pyslip_place_t *place, PyObject *value, slip_tensor_t *out,
                                  pyslip_hold_t *hold) {
  pyslip_state_t *state = program->entry.state;
  if (Py_TYPE(value) == state->worker_tensor) return pyslip_request_worker_tensor(program, place, value, out);
  pyslip_kept_t *kept = &hold->kept[hold->count];
  if (!pyslip_read_tensor(state, place, value, PYSLIP_READ_OWN, out, kept)) return false;
  hold->count += kept->kind != PYSLIP_KEPT_NOTHING;
  if (!(out->flags & SLIP_TENSOR_REQUIRES_GRAD) || !pyslip_grad_enabled(state)) return true;
  return pyslip_refuse(state, place, PYSLIP_ERROR_INVALID_ARGUMENT,
                       "expects a tensor without gradient, got one that requires grad while autograd is on; call under no_grad or pass "
                       "%s.detach()",
                       place->param) != NULL;
}

static bool pyslip_request_bind(pyslip_program_t *program, pyslip_request_t *request) {
  slip_tensor_t *tensor = request->tensors;
  for (uint32_t i = 0; i < program->entry.slot_count; ++i) {
    const pyslip_slot_t *slot = &program->entry.slots[i];
    const pyslip_place_t place = {program->entry.name, slot->name, i, slot->direction};
    PyObject *value = request->values[i];
    if (slot->is_scalar) {
      request->args[i] = slip_arg_scalar((slip_scalar_t){0});
      if (!pyslip_read_scalar(program->entry.state, &place, slot->dtype, value, &request->args[i].value.scalar)) return false;
    } else if (!value) {
      request->args[i] = slip_arg_omitted();
    } else {
      if (!pyslip_request_tensor(program, &place, value, tensor, request->hold)) return false;
      request->args[i] = slip_arg_tensor(tensor++, NULL);
    }
  }
  return true;
}

static bool pyslip_request_create(pyslip_program_t *program, bool submits, pyslip_request_t *request) {
  size_t count = program->entry.slot_count, args = count * sizeof(slip_arg_t),
         tensors = program->entry.tensor_count * sizeof(slip_tensor_t);
  *request = (pyslip_request_t){.state = program->entry.state, .submits = submits};
  request->args = PyMem_Malloc(args + tensors + count * sizeof(PyObject *) + 1);
  if (!request->args) return PyErr_NoMemory() != NULL;
  request->tensors = (slip_tensor_t *)(void *)((char *)request->args + args);
  request->values = (PyObject **)(void *)((char *)request->tensors + tensors);
  request->hold = pyslip_hold_create(NULL, program->entry.tensor_count);
  if (request->hold) return true;
  PyMem_Free(request->args);
  return false;
}

static void pyslip_request_destroy(pyslip_request_t *request) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  pyslip_hold_free(request->hold);
  PyMem_Free(request->args);
  PyErr_Restore(type, value, traceback);
}

// --- calls -----------------------------------------------------------------------------------------------------------------------------

static bool pyslip_program_open(pyslip_program_t *self) {
  if (!pyslip_worker_ready(self->worker)) return false;
  if (__builtin_expect(!self->closed, 1)) return true;
  pyslip_raise_format(self->entry.state, PYSLIP_ERROR_NOT_PREPARED, "%s: the program is closed; register it again", self->entry.name);
  return false;
}

static bool pyslip_program_request(pyslip_program_t *self, PyObject *const *args, size_t count, PyObject *names, bool submits,
                                   pyslip_request_t *request) {
  if (!pyslip_program_open(self) || !pyslip_request_create(self, submits, request)) return false;
  pyslip_worker_reap(self->worker);
  // Reading the arguments may run other code.
  if (pyslip_request_sort(self, args, count, names, request) && pyslip_request_bind(self, request) && pyslip_program_open(self))
    return true;
  pyslip_request_destroy(request);
  return false;
}

static PyObject *pyslip_program_vectorcall(PyObject *object, PyObject *const *args, size_t flagged, PyObject *names) {
  pyslip_program_t *self = (pyslip_program_t *)object;
  pyslip_request_t request;
  slip_run_t *run = NULL;
  slip_status_t status;
  PyObject *result = NULL;
  if (!pyslip_program_request(self, args, flagged & ~PYSLIP_ARGUMENTS_OFFSET, names, false, &request)) return NULL;
  PYSLIP_WITHOUT_LOCK(status = slip_worker_run(self->worker->worker, self->id, request.args, self->entry.slot_count, request.flags,
                                               request.omits ? &run : NULL));
  if (!pyslip_ok(self->entry.state, status)) {
    result = NULL;
  } else if (request.omits) {
    PyObject *handle = pyslip_run_wrap(self, run, request.values);
    result = handle ? pyslip_run_results(handle) : NULL;
    Py_XDECREF(handle);
  } else {
    result = pyslip_entry_result(&self->entry, request.values);
  }
  pyslip_request_destroy(&request);
  pyslip_worker_reap(self->worker);  // it came behind the runs before it
  return result;
}

static PyObject *pyslip_program_call(PyObject *object, PyObject *args, PyObject *named) {
  return pyslip_call_slowly(pyslip_program_vectorcall, object, args, named);
}

static PyObject *pyslip_program_submit(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  pyslip_program_t *self = (pyslip_program_t *)object;
  pyslip_request_t request;
  slip_run_t *run = NULL;
  slip_status_t status;
  PyObject *result = NULL;
  if (!pyslip_program_request(self, args, (size_t)count, names, true, &request)) return NULL;
  pyslip_pending_t *pending = PyMem_Malloc(sizeof(*pending));
  if (!pending) {
    pyslip_request_destroy(&request);
    return PyErr_NoMemory();
  }
  PYSLIP_WITHOUT_LOCK(status =
                          slip_worker_submit(self->worker->worker, self->id, request.args, self->entry.slot_count, request.flags, &run));
  if (slip_status_is_ok(status)) {
    slip_run_retain(run);
    *pending = (pyslip_pending_t){self->worker->pending, run, request.hold};
    self->worker->pending = pending;
    request.hold = NULL;
    result = pyslip_run_wrap(self, run, request.values);
  } else {
    PyMem_Free(pending);
    pyslip_ok(self->entry.state, status);
  }
  pyslip_request_destroy(&request);
  pyslip_worker_reap(self->worker);
  return result;
}

// --- making and ending -----------------------------------------------------------------------------------------------------------------

PyObject *pyslip_program_create(pyslip_worker_t *worker, int32_t id, const char *name) {
  pyslip_state_t *state = worker->state;
  pyslip_program_t *self = PyObject_New(pyslip_program_t, state->program);
  if (!self) return NULL;
  memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
  self->vectorcall = pyslip_program_vectorcall;
  self->entry.state = state;
  Py_INCREF(worker);
  self->worker = worker;
  self->id = id;
  self->closed = true;
  if (!pyslip_ok(state, slip_worker_signature(worker->worker, id, &self->entry.signature)) || !pyslip_entry_learn(&self->entry, name)) {
    Py_DECREF(self);
    return NULL;
  }
  self->closed = false;
  return (PyObject *)self;
}

static PyObject *pyslip_program_close(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_program_t *self = (pyslip_program_t *)object;
  slip_worker_t *worker = self->worker->worker;
  slip_status_t status;
  if (!pyslip_worker_here(self->worker)) return NULL;
  if (self->closed) Py_RETURN_NONE;
  self->closed = true;
  if (slip_worker_state(worker) != SLIP_WORKER_READY) Py_RETURN_NONE;  // it ended with the worker, or is about to
  PYSLIP_WITHOUT_LOCK(status = slip_worker_unregister(worker, self->id));
  if (slip_status_code(status) == SLIP_CODE_INVALID_STATE) {  // the same
    slip_status_free(status);
    Py_RETURN_NONE;
  }
  if (!pyslip_ok(self->entry.state, status)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_program_exit(PyObject *self, PyObject *args) {
  (void)args;
  return pyslip_program_close(self, NULL);
}

static PyObject *pyslip_program_self(PyObject *self, PyObject *none) {
  (void)none;
  return Py_NewRef(self);
}

static void pyslip_program_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_program_t *self = (pyslip_program_t *)object;
  // Refused where the worker is closed or the parent's; code that cannot be unloaded now, close tries again.
  if (!self->closed) slip_status_free(slip_worker_unregister(self->worker->worker, self->id));
  pyslip_entry_forget(&self->entry);
  Py_XDECREF(self->worker);
  PyObject_Free(object);
  Py_DECREF(type);
}

// --- looking ---------------------------------------------------------------------------------------------------------------------------

static PyObject *pyslip_program_id(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromLong(((pyslip_program_t *)self)->id);
}
static PyObject *pyslip_program_name(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(((pyslip_program_t *)self)->entry.name);
}
static PyObject *pyslip_program_worker(PyObject *self, void *closure) {
  (void)closure;
  return Py_NewRef((PyObject *)((pyslip_program_t *)self)->worker);
}
static PyObject *pyslip_program_signature(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_signature_wrap(((pyslip_program_t *)self)->entry.state, ((pyslip_program_t *)self)->entry.signature);
}
static PyObject *pyslip_program_repr(PyObject *object) {
  pyslip_program_t *self = (pyslip_program_t *)object;
  PyObject *signature = pyslip_program_signature(object, NULL);
  PyObject *text = signature ? PyObject_Str(signature) : NULL;
  PyObject *repr = text ? PyUnicode_FromFormat("<slipstream.Program %s%U, id %d on %s:%d%s>", self->entry.name, text, (int)self->id,
                                               self->worker->platform, self->worker->ordinal, self->closed ? ", closed" : "")
                        : NULL;
  Py_XDECREF(text);
  Py_XDECREF(signature);
  return repr;
}

// The member that tells the interpreter where the vectorcall function is.
static PyMemberDef pyslip_program_offsets[] = {
    {"__vectorcalloffset__", 19 /* T_PYSSIZET */, offsetof(pyslip_program_t, vectorcall), 1 /* READONLY */, NULL}, {NULL, 0, 0, 0, NULL}};
static PyGetSetDef pyslip_program_members[] = {
    {"id", pyslip_program_id, NULL, "Handle in the worker: equal for equal content, never reused.", NULL},
    {"name", pyslip_program_name, NULL, "Name of the program.", NULL},
    {"signature", pyslip_program_signature, NULL, "What a call takes and returns.", NULL},
    {"worker", pyslip_program_worker, NULL, "The Worker that registered it.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef pyslip_program_methods[] = {
    {"submit", (PyCFunction)(void (*)(void))pyslip_program_submit, METH_FASTCALL | METH_KEYWORDS,
     "submit($self, /, *args, zero_outputs=False, block=True, **named)\n--\n\nAccepts a run and returns its Run; arguments and refusals "
     "are those of a call, the program's own failure is the run's. While two runs are not done, waits for one, without the GIL; "
     "block=False: BusyError instead. Host tensors are kept alive and exported until the run is done; nobody may write them till then, nor "
     "read what the run writes."},
    {"close", pyslip_program_close, METH_NOARGS,
     "close($self, /)\n--\n\nGives this registration back; the last one of the content unloads the code, once the runs that were accepted "
     "are done. A second close does nothing. ForkedError, DeviceError, IoError."},
    {"__enter__", pyslip_program_self, METH_NOARGS, NULL},
    {"__exit__", pyslip_program_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_program_slots[] = {
    {Py_tp_doc,
     "A registered program. Made by Worker.register(); a context manager that closes. Any thread may call it.\n\np(*args, "
     "zero_outputs=False, **named) checks all arguments, runs without the GIL, and returns what the signature returns: None, one object, "
     "or "
     "a tuple. Runs of a worker execute one after the other, in the order in which they were accepted. A parameter that has the name of an "
     "option takes its place.\n\nTensors: of the host, of any library (see Tensor), which on devices with memory of their own are copied "
     "there and back; or WorkerTensors of the same worker, in place. Outputs may be left out, or be None: the worker allocates them, with "
     "the dims that the other arguments give to the names, and they come back as WorkerTensors; not initialised before the run, unless "
     "zero_outputs. Scalars: see kernel.Callable.\nRaises InvalidArgumentError (also: a dim that nothing gives), ArgumentTypeError, "
     "InvalidStateError, ForkedError, NotPreparedError, OutOfMemoryError, PoisonedError, DeviceError, GraphError."},
    {Py_tp_dealloc, pyslip_program_dealloc},
    {Py_tp_call, pyslip_program_call},
    {Py_tp_repr, pyslip_program_repr},
    {Py_tp_members, pyslip_program_offsets},
    {Py_tp_getset, pyslip_program_members},
    {Py_tp_methods, pyslip_program_methods},
    {0, NULL}};
static PyType_Spec pyslip_program_spec = {
    "slipstream.Program", sizeof(pyslip_program_t), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_VECTORCALL, pyslip_program_slots};

int pyslip_program_init(pyslip_state_t *state) {
  state->program = pyslip_add_type(state, &pyslip_program_spec);
  return state->program ? 0 : -1;
}
