// SPDX-License-Identifier: Apache-2.0
// Ticket: one launch, to be asked about and waited for.
#include "pyslip.h"

typedef struct pyslip_ticket_t {
  PyObject_HEAD pyslip_context_object_t *context;
  slip_ticket_t *ticket;
  PyObject *result;
} pyslip_ticket_t;

#define PYSLIP_WAIT_SLICE_NS 50000000  // between looks at signals

PyObject *pyslip_ticket_wrap(pyslip_context_object_t *context, slip_ticket_t *ticket, PyObject *result) {
  pyslip_ticket_t *self = PyObject_GC_New(pyslip_ticket_t, context->state->ticket);
  if (!self) {
    slip_ticket_release(ticket);
    return NULL;
  }
  Py_INCREF(context);
  self->context = context;
  self->ticket = ticket;
  self->result = Py_NewRef(result);
  PyObject_GC_Track((PyObject *)self);
  return (PyObject *)self;
}

slip_ticket_t *pyslip_ticket_of(PyObject *ticket) {
  return ((pyslip_ticket_t *)ticket)->ticket;
}

static int pyslip_ticket_traverse(PyObject *object, visitproc visit, void *arg) {
  pyslip_ticket_t *self = (pyslip_ticket_t *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->context);
  Py_VISIT(self->result);
  return 0;
}

static int pyslip_ticket_clear(PyObject *object) {
  Py_CLEAR(((pyslip_ticket_t *)object)->result);
  return 0;
}

static void pyslip_ticket_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_ticket_t *self = (pyslip_ticket_t *)object;
  PyObject_GC_UnTrack(object);
  slip_ticket_release(self->ticket);
  Py_XDECREF(self->result);
  Py_XDECREF(self->context);
  PyObject_GC_Del(object);
  Py_DECREF(type);
}

static PyObject *pyslip_ticket_result(PyObject *object, void *closure) {
  (void)closure;
  pyslip_ticket_t *self = (pyslip_ticket_t *)object;
  return Py_NewRef(self->result ? self->result : Py_None);
}

static PyObject *pyslip_ticket_query(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_ticket_t *self = (pyslip_ticket_t *)object;
  slip_status_t status = slip_ticket_query(self->ticket);
  pyslip_reap(self->context->reaper);
  if (slip_status_code(status) == SLIP_CODE_NOT_READY) {
    slip_status_free(status);
    Py_RETURN_FALSE;
  }
  if (!pyslip_ok(self->context->state, status)) return NULL;
  Py_RETURN_TRUE;
}

static PyObject *pyslip_ticket_wait(PyObject *object, PyObject *args, PyObject *named) {
  static char *names[] = {"timeout", NULL};
  pyslip_ticket_t *self = (pyslip_ticket_t *)object;
  pyslip_state_t *state = self->context->state;
  PyObject *timeout = Py_None;
  double seconds = -1;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|O:wait", names, &timeout)) return NULL;
  if (timeout != Py_None) {
    seconds = PyFloat_AsDouble(timeout);
    if (PyErr_Occurred()) return NULL;
    if (!(seconds >= 0))
      return pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "timeout: %R is not a number of seconds of at least 0, or None",
                                 timeout);
  }
  uint64_t start = pyslip_now_ns(), limit = seconds < 0 || seconds > 9e9 ? UINT64_MAX : (uint64_t)(seconds * 1e9);
  for (;;) {
    uint64_t passed = pyslip_now_ns() - start, left = passed < limit ? limit - passed : 0;
    slip_status_t status;
    // The context is kept by this object, and tickets outlive contexts.
    PYSLIP_WITHOUT_LOCK(status = slip_ticket_wait(self->ticket, (int64_t)(left < PYSLIP_WAIT_SLICE_NS ? left : PYSLIP_WAIT_SLICE_NS)));
    pyslip_reap(self->context->reaper);
    if (slip_status_code(status) != SLIP_CODE_TIMEOUT || left <= PYSLIP_WAIT_SLICE_NS)
      return pyslip_ok(state, status) ? pyslip_ticket_result(object, NULL) : NULL;
    slip_status_free(status);
    if (PyErr_CheckSignals() < 0) return NULL;
  }
}

static PyGetSetDef pyslip_ticket_members[] = {
    {"result", pyslip_ticket_result, NULL, "The caller's own objects for the return aliases, finished or not.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef pyslip_ticket_methods[] = {{"query", pyslip_ticket_query, METH_NOARGS,
                                               "query($self, /)\n--\n\nTrue when the launch has retired, False before. Raises its failure, "
                                               "each time. In a capture that forbids it, False."},
                                              {"wait", (PyCFunction)(void (*)(void))pyslip_ticket_wait, METH_VARARGS | METH_KEYWORDS,
                                               "wait($self, timeout=None)\n--\n\nBlocks, without the GIL, until the launch has retired, "
                                               "and returns its result. timeout in seconds; None: for ever. "
                                               "Signals are looked at meanwhile.\nRaises TimedOutError, the launch's failure, "
                                               "CaptureUnsupportedError, InvalidStateError (a captured launch)."},
                                              {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_ticket_slots[] = {
    {Py_tp_doc,
     "One launch. Made by Callable.launch() and Graph.launch(). Dropping it changes nothing: the launch goes on. Any thread may use it."},
    {Py_tp_dealloc, pyslip_ticket_dealloc},
    {Py_tp_traverse, pyslip_ticket_traverse},
    {Py_tp_clear, pyslip_ticket_clear},
    {Py_tp_getset, pyslip_ticket_members},
    {Py_tp_methods, pyslip_ticket_methods},
    {0, NULL}};
static PyType_Spec pyslip_ticket_spec = {
    "slipstream.kernel.Ticket", sizeof(pyslip_ticket_t), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, pyslip_ticket_slots};

int pyslip_ticket_init(pyslip_state_t *state) {
  state->ticket = pyslip_add_type(state, &pyslip_ticket_spec);
  return state->ticket ? 0 : -1;
}
