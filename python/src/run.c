// SPDX-License-Identifier: Apache-2.0
// Run: one accepted run of a program, to be asked about and waited for by any number of threads.
#include "worker.h"

#define PYSLIP_WAIT_SLICE_NS 50000000  // between looks at signals

typedef struct pyslip_run_t {
  PyObject_HEAD pyslip_program_t *program;  // strong
  slip_run_t *run;
  PyObject **objects;  // one a parameter: what came for one that is returned, or the output that was taken; NULL: nothing yet, or not ours
} pyslip_run_t;

static pyslip_state_t *pyslip_run_state(const pyslip_run_t *self) {
  return self->program->entry.state;
}

PyObject *pyslip_run_wrap(pyslip_program_t *program, slip_run_t *run, PyObject *const *values) {
  pyslip_run_t *self = PyObject_GC_New(pyslip_run_t, program->entry.state->run);
  uint32_t count = program->entry.slot_count;
  if (!self) {
    slip_run_release(run);
    return NULL;
  }
  Py_INCREF(program);
  self->program = program;
  self->run = run;
  self->objects = PyMem_Malloc((count ? count : 1) * sizeof(*self->objects));
  if (!self->objects) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  for (uint32_t i = 0; i < count; ++i) self->objects[i] = NULL;
  for (size_t i = 0; i < program->entry.return_count; ++i) {
    int32_t index = program->entry.returns[i];
    if (values[index] && !self->objects[index]) self->objects[index] = Py_NewRef(values[index]);
  }
  PyObject_GC_Track((PyObject *)self);
  return (PyObject *)self;
}

static int pyslip_run_traverse(PyObject *object, visitproc visit, void *arg) {
  pyslip_run_t *self = (pyslip_run_t *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->program);
  for (uint32_t i = 0; self->objects && i < self->program->entry.slot_count; ++i) Py_VISIT(self->objects[i]);
  return 0;
}

static int pyslip_run_clear(PyObject *object) {
  pyslip_run_t *self = (pyslip_run_t *)object;
  for (uint32_t i = 0; self->objects && i < self->program->entry.slot_count; ++i) Py_CLEAR(self->objects[i]);
  return 0;
}

static void pyslip_run_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_run_t *self = (pyslip_run_t *)object;
  PyObject_GC_UnTrack(object);
  pyslip_run_clear(object);
  PyMem_Free(self->objects);
  slip_run_release(self->run);
  Py_DECREF(self->program);
  PyObject_GC_Del(object);
  Py_DECREF(type);
}

// --- results ---------------------------------------------------------------------------------------------------------------------------

// The object of parameter |index|, of a run that is done. A reference; NULL with an exception.
static PyObject *pyslip_run_object(pyslip_run_t *self, uint32_t index) {
  slip_tensor_t tensor;
  if (!self->objects[index]) {
    if (!pyslip_ok(pyslip_run_state(self), slip_run_take(self->run, index, &tensor))) return NULL;
    self->objects[index] = pyslip_worker_tensor_wrap(self->program->worker, &tensor);
  }
  return self->objects[index] ? Py_NewRef(self->objects[index]) : NULL;
}

PyObject *pyslip_run_results(PyObject *object) {
  pyslip_run_t *self = (pyslip_run_t *)object;
  const pyslip_program_t *program = self->program;
  if (program->entry.return_count == 0) return Py_NewRef(Py_None);
  if (program->entry.return_count == 1) return pyslip_run_object(self, (uint32_t)program->entry.returns[0]);
  PyObject *tuple = PyTuple_New((Py_ssize_t)program->entry.return_count);
  for (size_t i = 0; tuple && i < program->entry.return_count; ++i) {
    PyObject *item = pyslip_run_object(self, (uint32_t)program->entry.returns[i]);
    if (!item || PyTuple_SetItem(tuple, (Py_ssize_t)i, item) < 0) Py_CLEAR(tuple);
  }
  return tuple;
}

// --- waiting ---------------------------------------------------------------------------------------------------------------------------

// |timeout| NULL or None: for ever.
static bool pyslip_run_limit(pyslip_state_t *state, PyObject *timeout, uint64_t *out_ns) {
  *out_ns = UINT64_MAX;
  if (!timeout || timeout == Py_None) return true;
  double seconds = PyFloat_AsDouble(timeout);
  if (PyErr_Occurred()) return false;
  if (seconds >= 0) {
    if (seconds < 9e9) *out_ns = (uint64_t)(seconds * 1e9);
    return true;
  }
  pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "timeout: %R is not a number of seconds of at least 0, or None", timeout);
  return false;
}

// How the run ended, in |*out_status|. False with an exception.
static bool pyslip_run_await(pyslip_run_t *self, PyObject *timeout, slip_status_t *out_status) {
  pyslip_state_t *state = pyslip_run_state(self);
  pyslip_worker_t *worker = self->program->worker;
  uint64_t start = pyslip_now_ns(), limit;
  if (!pyslip_worker_here(worker) || !pyslip_run_limit(state, timeout, &limit)) return false;
  for (;;) {
    uint64_t passed = pyslip_now_ns() - start, left = passed < limit ? limit - passed : 0;
    int64_t slice = (int64_t)(left < PYSLIP_WAIT_SLICE_NS ? left : PYSLIP_WAIT_SLICE_NS);
    slip_status_t status;
    PYSLIP_WITHOUT_LOCK(status = slip_run_wait(self->run, slice));
    pyslip_worker_reap(worker);
    if (slip_run_done(self->run)) {  // maybe only now
      slip_status_free(status);
      *out_status = slip_run_error(self->run);
      return true;
    }
    if (slip_status_code(status) != SLIP_CODE_TIMEOUT) return pyslip_ok(state, status);
    slip_status_free(status);
    if (left <= PYSLIP_WAIT_SLICE_NS)
      return pyslip_raise_format(state, PYSLIP_ERROR_TIMEOUT, "%s: the run is not done within %R s; it goes on", self->program->entry.name,
                                 timeout) != NULL;
    if (PyErr_CheckSignals() < 0) return false;
  }
}

static bool pyslip_run_timeout(PyObject *args, PyObject *named, const char *format, PyObject **out) {
  static char *names[] = {"timeout", NULL};
  *out = NULL;
  return PyArg_ParseTupleAndKeywords(args, named, format, names, out) != 0;
}

static PyObject *pyslip_run_wait(PyObject *object, PyObject *args, PyObject *named) {
  pyslip_run_t *self = (pyslip_run_t *)object;
  slip_status_t status;
  PyObject *timeout;
  if (!pyslip_run_timeout(args, named, "|O:wait", &timeout) || !pyslip_run_await(self, timeout, &status)) return NULL;
  if (!pyslip_ok(pyslip_run_state(self), status)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_run_result(PyObject *object, PyObject *args, PyObject *named) {
  pyslip_run_t *self = (pyslip_run_t *)object;
  slip_status_t status;
  PyObject *timeout;
  if (!pyslip_run_timeout(args, named, "|O:result", &timeout) || !pyslip_run_await(self, timeout, &status)) return NULL;
  return pyslip_ok(pyslip_run_state(self), status) ? pyslip_run_results(object) : NULL;
}

static PyObject *pyslip_run_exception(PyObject *object, PyObject *args, PyObject *named) {
  pyslip_run_t *self = (pyslip_run_t *)object;
  slip_status_t status;
  PyObject *timeout, *type, *value, *traceback;
  if (!pyslip_run_timeout(args, named, "|O:exception", &timeout) || !pyslip_run_await(self, timeout, &status)) return NULL;
  if (pyslip_ok(pyslip_run_state(self), status)) Py_RETURN_NONE;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return value;
}

static PyObject *pyslip_run_done(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_run_t *self = (pyslip_run_t *)object;
  if (!pyslip_worker_here(self->program->worker)) return NULL;
  pyslip_worker_reap(self->program->worker);
  return PyBool_FromLong(slip_run_done(self->run));
}

static PyObject *pyslip_run_output(PyObject *object, PyObject *name) {
  pyslip_run_t *self = (pyslip_run_t *)object;
  const pyslip_program_t *program = self->program;
  if (!pyslip_worker_here(program->worker)) return NULL;
  for (uint32_t i = 0; PyUnicode_Check(name) && i < program->entry.slot_count; ++i) {
    if (PyUnicode_Compare(program->entry.slots[i].key, name) != 0) continue;
    if (!pyslip_ok(pyslip_run_state(self), slip_run_error(self->run))) return NULL;
    return pyslip_run_object(self, i);
  }
  return pyslip_raise_format(pyslip_run_state(self), PYSLIP_ERROR_INVALID_ARGUMENT, "%s: there is no parameter %R; see its signature",
                             program->entry.name, name);
}

static PyObject *pyslip_run_program(PyObject *self, void *closure) {
  (void)closure;
  return Py_NewRef((PyObject *)((pyslip_run_t *)self)->program);
}

static PyObject *pyslip_run_repr(PyObject *object) {
  pyslip_run_t *self = (pyslip_run_t *)object;
  slip_status_t status = slip_run_error(self->run);
  const char *text = !slip_run_done(self->run) ? "not done" : slip_status_is_ok(status) ? "done" : slip_code_name(slip_status_code(status));
  PyObject *repr = PyUnicode_FromFormat("<slipstream.Run of %s, %s>", self->program->entry.name, text);
  slip_status_free(status);
  return repr;
}

static PyGetSetDef pyslip_run_members[] = {{"program", pyslip_run_program, NULL, "The Program that it is a run of.", NULL},
                                           {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef pyslip_run_methods[] = {
    {"done", pyslip_run_done, METH_NOARGS, "done($self, /)\n--\n\nTrue once the run is done, well or not. Never blocks. ForkedError."},
    {"wait", (PyCFunction)(void (*)(void))pyslip_run_wait, METH_VARARGS | METH_KEYWORDS,
     "wait($self, timeout=None)\n--\n\nBlocks, without the GIL, until the run is done. timeout in seconds; None: for ever. Signals are "
     "looked at meanwhile.\nRaises TimedOutError (the run goes on), the run's failure, ForkedError."},
    {"result", (PyCFunction)(void (*)(void))pyslip_run_result, METH_VARARGS | METH_KEYWORDS,
     "result($self, timeout=None)\n--\n\nWaits and returns what a call would return; the same objects each time. An output that the worker "
     "allocated is gone once the worker is closed: InvalidStateError.\nRaises what wait() raises."},
    {"exception", (PyCFunction)(void (*)(void))pyslip_run_exception, METH_VARARGS | METH_KEYWORDS,
     "exception($self, timeout=None)\n--\n\nWaits and returns the run's failure as an exception, or None. TimedOutError, ForkedError."},
    {"output", pyslip_run_output, METH_O,
     "output($self, name, /)\n--\n\nThe tensor of an output that the call left out, by the parameter's name; needed for those that the "
     "signature does not return. NotReadyError, InvalidArgumentError (no such tensor), InvalidStateError (the caller passed it), the run's "
     "failure."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_run_slots[] = {
    {Py_tp_doc,
     "One accepted run. Made by Program.submit(). Dropping it changes nothing: the run goes on. Any thread may use it, and each one that "
     "waits gets the failure."},
    {Py_tp_dealloc, pyslip_run_dealloc},
    {Py_tp_traverse, pyslip_run_traverse},
    {Py_tp_clear, pyslip_run_clear},
    {Py_tp_repr, pyslip_run_repr},
    {Py_tp_getset, pyslip_run_members},
    {Py_tp_methods, pyslip_run_methods},
    {0, NULL}};
static PyType_Spec pyslip_run_spec = {
    "slipstream.Run", sizeof(pyslip_run_t), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, pyslip_run_slots};

int pyslip_run_init(pyslip_state_t *state) {
  state->run = pyslip_add_type(state, &pyslip_run_spec);
  return state->run ? 0 : -1;
}
