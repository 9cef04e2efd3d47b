// SPDX-License-Identifier: Apache-2.0
// Events and captured graphs.
#include "stream.h"

// --- events ----------------------------------------------------------------------------------------------------------------------------

static PyObject *pyslip_event_new(PyTypeObject *type, PyObject *args, PyObject *named) {
  static char *names[] = {"device", NULL};
  pyslip_state_t *state = pyslip_state_of(type);
  const char *text = "cpu:0";
  slip_platform_t *platform;
  slip_device_t device;
  slip_event_t event = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|s:Event", names, &text)) return NULL;
  if (!pyslip_platform_of(state, text, &platform, &device) || !pyslip_ok(state, slip_event_create(platform, device.ordinal, &event)))
    return NULL;
  pyslip_event_t *self = PyObject_New(pyslip_event_t, type);
  if (!self) {
    slip_status_free(slip_event_destroy(platform, event));
    return NULL;
  }
  self->platform = platform;
  self->event = event;
  self->device = device;
  self->users = 0;
  return (PyObject *)self;
}

static bool pyslip_event_open(pyslip_event_t *self) {
  if (self->event) return true;
  pyslip_raise_format(pyslip_state_of(Py_TYPE(self)), PYSLIP_ERROR_INVALID_STATE, "the event is closed; make another");
  return false;
}

static PyObject *pyslip_event_close(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_event_t *self = (pyslip_event_t *)object;
  slip_event_t event = self->event;
  if (self->users)
    return pyslip_raise_format(pyslip_state_of(Py_TYPE(self)), PYSLIP_ERROR_BUSY,
                               "another thread is in a call on the event; close it afterwards");
  self->event = NULL;
  if (event && !pyslip_ok(pyslip_state_of(Py_TYPE(self)), slip_event_destroy(self->platform, event))) return NULL;
  Py_RETURN_NONE;
}

static void pyslip_event_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_event_t *self = (pyslip_event_t *)object;
  if (self->event) slip_status_free(slip_event_destroy(self->platform, self->event));
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject *pyslip_event_record(PyObject *object, PyObject *argument) {
  pyslip_event_t *self = (pyslip_event_t *)object;
  pyslip_state_t *state = pyslip_state_of(Py_TYPE(self));
  slip_stream_t stream;
  pyslip_stream_t *owner;
  // The event second: asking for the stream may run other code.
  if (!pyslip_stream_of(state, argument, &stream, &owner) || !pyslip_event_open(self)) return NULL;
  if (!pyslip_ok(state, slip_event_record(self->platform, self->event, stream))) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_event_query(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_event_t *self = (pyslip_event_t *)object;
  return pyslip_event_open(self) ? pyslip_ready(pyslip_state_of(Py_TYPE(self)), slip_event_query(self->platform, self->event)) : NULL;
}

static PyObject *pyslip_event_synchronize(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_event_t *self = (pyslip_event_t *)object;
  if (!pyslip_event_open(self)) return NULL;
  slip_event_t event = self->event;
  slip_status_t status;
  ++self->users;
  PYSLIP_WITHOUT_LOCK(status = slip_event_synchronize(self->platform, event));
  --self->users;
  if (!pyslip_ok(pyslip_state_of(Py_TYPE(self)), status)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_event_exit(PyObject *self, PyObject *args) {
  (void)args;
  return pyslip_event_close(self, NULL);
}

static PyMethodDef pyslip_event_methods[] = {
    {"record", pyslip_event_record, METH_O,
     "record($self, stream, /)\n--\n\nMarks the end of the work enqueued on stream so far; the last record counts."},
    {"query", pyslip_event_query, METH_NOARGS, "query($self, /)\n--\n\nTrue when the last record has been reached, or there is none."},
    {"synchronize", pyslip_event_synchronize, METH_NOARGS,
     "synchronize($self, /)\n--\n\nBlocks, without the GIL, until the last record has been reached."},
    {"close", pyslip_event_close, METH_NOARGS,
     "close($self, /)\n--\n\nDestroys the event. A second close does nothing. BusyError while another thread is in a call on it."},
    {"__enter__", pyslip_self_enter, METH_NOARGS, NULL},
    {"__exit__", pyslip_event_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_event_slots[] = {{Py_tp_doc, "Event(device='cpu:0')\n--\n\nA point in a stream that others can wait for."},
                                           {Py_tp_new, pyslip_event_new},
                                           {Py_tp_dealloc, pyslip_event_dealloc},
                                           {Py_tp_methods, pyslip_event_methods},
                                           {0, NULL}};
static PyType_Spec pyslip_event_spec = {"slipstream.Event", sizeof(pyslip_event_t), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                        pyslip_event_slots};

// --- captured graphs -------------------------------------------------------------------------------------------------------------------

static PyObject *pyslip_graph_exec_launch(PyObject *object, PyObject *argument) {
  pyslip_graph_exec_t *self = (pyslip_graph_exec_t *)object;
  pyslip_state_t *state = pyslip_state_of(Py_TYPE(self));
  slip_stream_t stream;
  pyslip_stream_t *owner;
  if (!pyslip_stream_of(state, argument, &stream, &owner)) return NULL;
  if (!self->graph) return pyslip_raise_format(state, PYSLIP_ERROR_INVALID_STATE, "the captured graph is closed; capture another");
  if (!pyslip_ok(state, slip_graph_exec_launch(self->platform, self->graph, stream))) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_graph_exec_close(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_graph_exec_t *self = (pyslip_graph_exec_t *)object;
  slip_graph_exec_t graph = self->graph;
  slip_status_t status;
  self->graph = NULL;
  PYSLIP_WITHOUT_LOCK(status = slip_graph_exec_destroy(self->platform, graph));
  if (!pyslip_ok(pyslip_state_of(Py_TYPE(self)), status)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_graph_exec_exit(PyObject *self, PyObject *args) {
  (void)args;
  return pyslip_graph_exec_close(self, NULL);
}

static void pyslip_graph_exec_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_graph_exec_t *self = (pyslip_graph_exec_t *)object;
  if (self->graph) slip_status_free(slip_graph_exec_destroy(self->platform, self->graph));
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyMethodDef pyslip_graph_exec_methods[] = {
    {"launch", pyslip_graph_exec_launch, METH_O,
     "launch($self, stream, /)\n--\n\nEnqueues one execution. Executions of one graph never overlap."},
    {"close", pyslip_graph_exec_close, METH_NOARGS,
     "close($self, /)\n--\n\nGives the graph up; executions that are enqueued still run. A second close does nothing."},
    {"__enter__", pyslip_self_enter, METH_NOARGS, NULL},
    {"__exit__", pyslip_graph_exec_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_graph_exec_slots[] = {
    {Py_tp_doc, "What Stream.capture_end() recorded, ready to launch. Tensors of launches in it are kept alive until it is gone."},
    {Py_tp_dealloc, pyslip_graph_exec_dealloc},
    {Py_tp_methods, pyslip_graph_exec_methods},
    {0, NULL}};
static PyType_Spec pyslip_graph_exec_spec = {"slipstream.GraphExec", sizeof(pyslip_graph_exec_t), 0,
                                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                             pyslip_graph_exec_slots};

int pyslip_event_init(pyslip_state_t *state) {
  if (!(state->event = pyslip_add_type(state, &pyslip_event_spec))) return -1;
  return (state->graph_exec = pyslip_add_type(state, &pyslip_graph_exec_spec)) ? 0 : -1;
}
