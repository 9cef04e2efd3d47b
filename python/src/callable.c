// SPDX-License-Identifier: Apache-2.0
// Callable: a prepared callable, called by vectorcall.
//
// The interpreter's lock. Letting it go and taking it back costs more than a small launch, and a thread that lets it go in every call loses
// it to every other one; keeping it through a long launch stops them all. So each callable remembers up to which size (elements of all
// tensors together) an inline launch of it has been seen to be short:
//
//   size <= short_elements   kept, and the launch must not wait: BUSY means once more without the lock. Timed by the cycle counter; a
//   launch that
//                            was long takes the size out again, and counts: a callable with three of those among few short ones always lets
//                            go, since its time depends on more than its size
//   else                     let go, and timed; if it was short, short_elements grows
//
// An asynchronous launch only enqueues: the lock is kept, and let go if the context is full.
#include "pyslip.h"

#define PYSLIP_SHORT_NS 10000u
#define PYSLIP_LONG_NS  40000u
#define PYSLIP_STRIKE   256u
#define PYSLIP_STRIKES  (3 * PYSLIP_STRIKE)

// --- launching -------------------------------------------------------------------------------------------------------------------------

static slip_status_t pyslip_launch_unlocked(slip_launch_record_t *record, slip_ticket_t **out_ticket, uint64_t *out_ns) {
  slip_status_t status;
  record->flags = SLIP_LAUNCH_NONE;
  PyThreadState *thread = PyEval_SaveThread();
  uint64_t start = pyslip_now_ns();
  status = slip_launch(record, out_ticket);
  *out_ns = pyslip_now_ns() - start;
  PyEval_RestoreThread(thread);
  return status;
}

static slip_status_t pyslip_launch_inline(pyslip_callable_t *self, pyslip_call_t *call, slip_launch_record_t *record,
                                          slip_ticket_t **out_ticket) {
  pyslip_context_object_t *context = self->context;
  uint64_t ns;
  if (__builtin_expect(call->elements <= self->short_elements, 1)) {
    record->flags = SLIP_LAUNCH_NO_WAIT;
    uint64_t start = pyslip_ticks();
    slip_status_t status = slip_launch(record, out_ticket);
    uint64_t ticks = pyslip_ticks() - start;
    if (__builtin_expect(ticks > context->long_ticks, 0)) {
      self->short_elements = call->elements - 1;
      self->strikes += PYSLIP_STRIKE;
    } else if (__builtin_expect(self->strikes != 0, 0)) {
      --self->strikes;
    }
    if (__builtin_expect(slip_status_code(status) != SLIP_CODE_BUSY, 1)) return status;
    slip_status_free(status);
    return pyslip_launch_unlocked(record, out_ticket, &ns);
  }
  slip_status_t status = pyslip_launch_unlocked(record, out_ticket, &ns);
  if (ns >= PYSLIP_SHORT_NS) return status;
  if (self->strikes) --self->strikes;
  if (self->strikes < PYSLIP_STRIKES) {
    self->short_elements = call->elements;
    uint64_t passed_ns = pyslip_now_ns() - context->open_ns, passed_ticks = pyslip_ticks() - context->open_ticks;
    context->long_ticks = passed_ns ? (uint64_t)((double)passed_ticks / (double)passed_ns * PYSLIP_LONG_NS) : UINT64_MAX;
  }
  return status;
}

// Consumes |hold|, which the library or this function gives back.
static slip_status_t pyslip_launch_stream(pyslip_hold_t *hold, slip_launch_record_t *record, slip_ticket_t **out_ticket) {
  uint64_t ns;
  record->release = pyslip_hold_released;
  record->user = hold;
  record->flags = SLIP_LAUNCH_NO_WAIT;
  slip_status_t status = slip_launch(record, out_ticket);
  if (slip_status_code(status) == SLIP_CODE_BUSY) {
    slip_status_free(status);
    atomic_store_explicit(&hold->state, PYSLIP_HOLD_LAUNCHING, memory_order_relaxed);
    status = pyslip_launch_unlocked(record, out_ticket, &ns);
  }
  if (atomic_exchange_explicit(&hold->state, PYSLIP_HOLD_LAUNCHED, memory_order_acq_rel) == PYSLIP_HOLD_RELEASED) pyslip_hold_free(hold);
  return status;
}

static bool pyslip_callable_open(pyslip_callable_t *self) {
  if (__builtin_expect(!self->closed, 1))
    return __builtin_expect(self->context->context && !self->context->closed, 1) || pyslip_context_ready(self->context);
  if (self->context->closed) return pyslip_context_ready(self->context);
  pyslip_raise_format(self->entry.state, PYSLIP_ERROR_NOT_PREPARED, "%s: the callable is closed; prepare it again", self->entry.name);
  return false;
}

// |stream| NULL: the default of the device. |out_ticket| NULL: nobody will ask.
static bool pyslip_callable_launch(pyslip_callable_t *self, PyObject *const *values, PyObject *stream, slip_ticket_t **out_ticket) {
  pyslip_state_t *state = self->entry.state;
  pyslip_context_object_t *context = self->context;
  pyslip_stream_t *owner = NULL;
  slip_launch_record_t record = {
      .struct_size = (uint32_t)sizeof(record), .id = self->id, .context = context->context, .stream = SLIP_STREAM_INLINE};
  pyslip_call_t call;
  if (!pyslip_callable_open(self)) return false;
  pyslip_reap(context->reaper);
  if (stream) {
    if (!pyslip_stream_of(state, stream, &record.stream, &owner)) return false;
  } else if (context->device.platform != SLIP_PLATFORM_CPU) {
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "%s: a launch on %s:%d names its stream; pass stream=", self->entry.name,
                        slip_platform_name(context->device.platform), (int)context->device.ordinal);
    return false;
  }
  bool is_inline = record.stream == SLIP_STREAM_INLINE;
  pyslip_hold_t *hold = NULL;
  if (!is_inline && !(hold = pyslip_hold_create(context->reaper, self->entry.tensor_count))) return false;
  record.frame = &call.frame;
  if (!pyslip_call_bind(self, values, hold, &call)) {
    pyslip_hold_free(hold);
    return false;
  }
  // Reading the arguments may have run other code.
  slip_status_t status = slip_ok_status();
  if (__builtin_expect(!pyslip_callable_open(self) || (owner && !pyslip_stream_open(owner)), 0)) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    pyslip_call_end(&call);
    PyErr_Restore(type, value, traceback);
    pyslip_hold_free(hold);
    return false;
  }
  ++context->users;
  if (owner) ++owner->users;
  status = is_inline ? pyslip_launch_inline(self, &call, &record, out_ticket) : pyslip_launch_stream(hold, &record, out_ticket);
  if (owner) --owner->users;
  pyslip_call_end(&call);
  pyslip_context_leave(context);
  return pyslip_ok(state, status);
}

static PyObject **pyslip_values(pyslip_callable_t *self, PyObject **fast) {
  return self->entry.slot_count <= PYSLIP_FAST_ARGUMENTS ? fast : PyMem_Malloc(self->entry.slot_count * sizeof(PyObject *));
}

static PyObject *pyslip_callable_vectorcall(PyObject *object, PyObject *const *args, size_t flagged, PyObject *names) {
  pyslip_callable_t *self = (pyslip_callable_t *)object;
  size_t count = flagged & ~PYSLIP_ARGUMENTS_OFFSET;
  if (__builtin_expect(!names && count == self->entry.slot_count, 1))
    return pyslip_callable_launch(self, args, NULL, NULL) ? pyslip_entry_result(&self->entry, args) : NULL;
  PyObject *fast[PYSLIP_FAST_ARGUMENTS], *stream = NULL, *result = NULL;
  PyObject **values = pyslip_values(self, fast);
  if (!values) return PyErr_NoMemory();
  if (pyslip_call_sort(self, args, count, names, values, &stream) && pyslip_callable_launch(self, values, stream, NULL))
    result = pyslip_entry_result(&self->entry, values);
  if (values != fast) PyMem_Free(values);
  return result;
}

static PyObject *pyslip_callable_call(PyObject *object, PyObject *args, PyObject *named) {
  return pyslip_call_slowly(pyslip_callable_vectorcall, object, args, named);
}

static PyObject *pyslip_callable_launch_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  pyslip_callable_t *self = (pyslip_callable_t *)object;
  PyObject *fast[PYSLIP_FAST_ARGUMENTS], *result = NULL;
  if (count < 1)
    return pyslip_raise_format(self->entry.state, PYSLIP_ERROR_ARGUMENT_TYPE, "%s: launch() expects a stream, then the arguments",
                               self->entry.name);
  PyObject **values = pyslip_values(self, fast);
  slip_ticket_t *ticket = NULL;
  if (!values) return PyErr_NoMemory();
  if (pyslip_call_sort(self, args + 1, (size_t)count - 1, names, values, NULL) && pyslip_callable_launch(self, values, args[0], &ticket)) {
    PyObject *alias = pyslip_entry_result(&self->entry, values);
    result = alias ? pyslip_ticket_wrap(self->context, ticket, alias) : NULL;
    if (!alias) slip_ticket_release(ticket);
    Py_XDECREF(alias);
  }
  if (values != fast) PyMem_Free(values);
  return result;
}

static PyObject *pyslip_callable_check(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  pyslip_callable_t *self = (pyslip_callable_t *)object;
  PyObject *fast[PYSLIP_FAST_ARGUMENTS], *result = NULL;
  PyObject **values = pyslip_values(self, fast);
  pyslip_call_t call;
  if (!values) return PyErr_NoMemory();
  if (pyslip_call_sort(self, args, (size_t)count, names, values, NULL) && pyslip_call_bind(self, values, NULL, &call)) {
    pyslip_call_end(&call);
    result = pyslip_entry_result(&self->entry, values);
  }
  if (values != fast) PyMem_Free(values);
  return result;
}

// --- making and ending -----------------------------------------------------------------------------------------------------------------

static void pyslip_callable_unlink(pyslip_callable_t *self) {
  if (self->closed) return;
  self->closed = true;
  if (self->next) self->next->previous = self->previous;
  if (self->previous)
    self->previous->next = self->next;
  else
    self->context->callables = self->next;
  self->next = self->previous = NULL;
}

void pyslip_callable_end_all(pyslip_context_object_t *context, bool release) {
  while (context->callables) {
    pyslip_callable_t *self = context->callables;
    if (release) slip_status_free(slip_context_release(context->context, self->id));
    pyslip_callable_unlink(self);
  }
}

PyObject *pyslip_callable_create(pyslip_context_object_t *context, int32_t id, const char *name) {
  pyslip_state_t *state = context->state;
  pyslip_callable_t *self = PyObject_New(pyslip_callable_t, state->callable);
  if (!self) return NULL;
  memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
  self->vectorcall = pyslip_callable_vectorcall;
  self->entry.state = state;
  Py_INCREF(context);
  self->context = context;
  self->id = id;
  self->closed = true;
  self->short_elements = -1;
  if (!pyslip_ok(state, slip_context_signature(context->context, id, &self->entry.signature)) || !pyslip_entry_learn(&self->entry, name)) {
    Py_DECREF(self);
    return NULL;
  }
  self->closed = false;
  self->next = context->callables;
  if (self->next) self->next->previous = self;
  context->callables = self;
  return (PyObject *)self;
}

static PyObject *pyslip_callable_close(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_callable_t *self = (pyslip_callable_t *)object;
  if (self->closed) Py_RETURN_NONE;
  if (!pyslip_context_ready(self->context)) return NULL;
  if (!pyslip_ok(self->entry.state, slip_context_release(self->context->context, self->id))) return NULL;
  pyslip_callable_unlink(self);
  Py_RETURN_NONE;
}

static PyObject *pyslip_callable_exit(PyObject *self, PyObject *args) {
  (void)args;
  return pyslip_callable_close(self, NULL);
}

static PyObject *pyslip_callable_self(PyObject *self, PyObject *none) {
  (void)none;
  return Py_NewRef(self);
}

static void pyslip_callable_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_callable_t *self = (pyslip_callable_t *)object;
  if (!self->closed && self->context->context) slip_status_free(slip_context_release(self->context->context, self->id));
  pyslip_callable_unlink(self);
  pyslip_entry_forget(&self->entry);
  Py_XDECREF(self->context);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject *pyslip_callable_id(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromLong(((pyslip_callable_t *)self)->id);
}
static PyObject *pyslip_callable_name(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(((pyslip_callable_t *)self)->entry.name);
}
static PyObject *pyslip_callable_context(PyObject *self, void *closure) {
  (void)closure;
  return Py_NewRef((PyObject *)((pyslip_callable_t *)self)->context);
}
static PyObject *pyslip_callable_signature(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_signature_wrap(((pyslip_callable_t *)self)->entry.state, ((pyslip_callable_t *)self)->entry.signature);
}
static PyObject *pyslip_callable_repr(PyObject *object) {
  pyslip_callable_t *self = (pyslip_callable_t *)object;
  PyObject *signature = pyslip_callable_signature(object, NULL);
  PyObject *text = signature ? PyObject_Str(signature) : NULL;
  PyObject *repr = text ? PyUnicode_FromFormat("<slipstream.kernel.Callable %s%U, id %d on %s:%d%s>", self->entry.name, text, (int)self->id,
                                               slip_platform_name(self->context->device.platform), (int)self->context->device.ordinal,
                                               self->closed ? ", closed" : "")
                        : NULL;
  Py_XDECREF(text);
  Py_XDECREF(signature);
  return repr;
}

// The member that tells the interpreter where the vectorcall function is.
static PyMemberDef pyslip_callable_offsets[] = {
    {"__vectorcalloffset__", 19 /* T_PYSSIZET */, offsetof(pyslip_callable_t, vectorcall), 1 /* READONLY */, NULL}, {NULL, 0, 0, 0, NULL}};
static PyGetSetDef pyslip_callable_members[] = {{"id", pyslip_callable_id, NULL, "Id in the context; never reused.", NULL},
                                                {"name", pyslip_callable_name, NULL, "Name of the program.", NULL},
                                                {"signature", pyslip_callable_signature, NULL, "What a call takes and returns.", NULL},
                                                {"context", pyslip_callable_context, NULL, "The Context that prepared it.", NULL},
                                                {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef pyslip_callable_methods[] = {
    {"launch", (PyCFunction)(void (*)(void))pyslip_callable_launch_method, METH_FASTCALL | METH_KEYWORDS,
     "launch($self, stream, /, *args, **named)\n--\n\nEnqueues one call on stream and returns its Ticket. The tensors' memory is kept "
     "alive until the "
     "device is through with it."},
    {"check", (PyCFunction)(void (*)(void))pyslip_callable_check, METH_FASTCALL | METH_KEYWORDS,
     "check($self, /, *args, **named)\n--\n\nRuns every check of a call, launches nothing, and returns what the call would return."},
    {"close", pyslip_callable_close, METH_NOARGS,
     "close($self, /)\n--\n\nGives the residency back once its launches have retired. A second close does nothing. "
     "CaptureUnsupportedError, "
     "PoisonedError."},
    {"__enter__", pyslip_callable_self, METH_NOARGS, NULL},
    {"__exit__", pyslip_callable_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_callable_slots[] = {
    {Py_tp_doc,
     "A prepared callable. Made by Context.prepare(); a context manager that closes. Any thread may call it.\n\nf(*args, stream=None, "
     "**named) checks "
     "all arguments (completeness, device, dtype, rank, dims, contiguity, bounds, overlaps, gradients, scalars), launches, and returns the "
     "caller's own "
     "objects for the return aliases: None, one object, or a tuple. Outputs are passed like inputs. stream: a Stream, a native handle as "
     "an int, or "
     "an object with __cuda_stream__(); default on cpu: INLINE, on which the call has finished when it returns, and a fault of the "
     "callable is "
     "raised.\n\nTensors: see Tensor. Scalars by the declared dtype: int for integers (no bool, no float), int or float for floats, bool "
     "for bool, "
     "NumPy's scalars by their kind, a ctypes box of the very type; out of range is refused.\nRaises InvalidArgumentError, "
     "ArgumentTypeError, "
     "InvalidStateError, ForkedError, BusyError, PoisonedError, DeviceError, NotPreparedError, GraphError."},
    {Py_tp_dealloc, pyslip_callable_dealloc},
    {Py_tp_call, pyslip_callable_call},
    {Py_tp_repr, pyslip_callable_repr},
    {Py_tp_members, pyslip_callable_offsets},
    {Py_tp_getset, pyslip_callable_members},
    {Py_tp_methods, pyslip_callable_methods},
    {0, NULL}};
static PyType_Spec pyslip_callable_spec = {
    "slipstream.kernel.Callable", sizeof(pyslip_callable_t), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_VECTORCALL, pyslip_callable_slots};

int pyslip_callable_init(pyslip_state_t *state) {
  state->callable = pyslip_add_type(state, &pyslip_callable_spec);
  return state->callable ? 0 : -1;
}
