// SPDX-License-Identifier: Apache-2.0
// Platforms, streams, events and captured graphs, for programs that have no framework to lend them.
#include <stdio.h>
#include <stdlib.h>

#include "stream.h"

// --- devices ---------------------------------------------------------------------------------------------------------------------------

bool pyslip_device_parse(pyslip_state_t *state, const char *text, char platform[32], slip_device_t *out) {
  const char *colon = strchr(text, ':');
  size_t length = colon ? (size_t)(colon - text) : strlen(text);
  char *end = NULL;
  long ordinal = colon ? strtol(colon + 1, &end, 10) : 0;
  if (length == 0 || length >= 32 || (colon && (end == colon + 1 || *end || ordinal < 0 || ordinal > INT16_MAX))) {
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "device '%s' is not of the form 'cpu' or 'cpu:0'", text);
    return false;
  }
  memcpy(platform, text, length);
  platform[length] = '\0';
  out->platform = slip_platform_from_name(platform);
  out->ordinal = (int16_t)ordinal;
  return true;
}

PyObject *pyslip_device_text(slip_device_t device) {
  return PyUnicode_FromFormat("%s:%d", slip_platform_name(device.platform), (int)device.ordinal);
}

bool pyslip_platform_of(pyslip_state_t *state, const char *text, slip_platform_t **out, slip_device_t *out_device) {
  char name[32];
  if (!pyslip_device_parse(state, text, name, out_device)) return false;
  slip_status_t status;
  PYSLIP_WITHOUT_LOCK(status = slip_platform_find(name, out));
  return pyslip_ok(state, status);
}

static PyObject *pyslip_platforms(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  PyObject *list = PyList_New(0);
  const char *name;
  for (size_t i = 0; list && (name = slip_platform_name_at(i)) != NULL; ++i) {
    PyObject *item = PyUnicode_FromString(name);
    if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
  Py_XDECREF(list);
  return tuple;
}

static PyObject *pyslip_device_count(PyObject *module, PyObject *args, PyObject *named) {
  static char *names[] = {"platform", NULL};
  pyslip_state_t *state = pyslip_module_state(module);
  const char *text = "cpu";
  slip_platform_t *platform;
  slip_device_t device;
  int32_t count = 0;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|s:device_count", names, &text)) return NULL;
  if (!pyslip_platform_of(state, text, &platform, &device) || !pyslip_ok(state, slip_platform_device_count(platform, &count))) return NULL;
  return PyLong_FromLong(count);
}

static PyObject *pyslip_device_info(PyObject *module, PyObject *args, PyObject *named) {
  static char *names[] = {"device", NULL};
  pyslip_state_t *state = pyslip_module_state(module);
  const char *text = "cpu:0";
  slip_platform_t *platform;
  slip_device_t device;
  slip_device_properties_t p;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|s:device_info", names, &text)) return NULL;
  if (!pyslip_platform_of(state, text, &platform, &device)) return NULL;
  if (!pyslip_ok(state, slip_platform_device_properties(platform, device.ordinal, &p))) return NULL;
  PyObject *info = PyStructSequence_New(state->platform_info);
  if (!info) return NULL;
  PyStructSequence_SetItem(info, 0, PyUnicode_FromString(slip_platform_name(device.platform)));
  PyStructSequence_SetItem(info, 1, PyLong_FromLong(device.ordinal));
  PyStructSequence_SetItem(info, 2, PyUnicode_FromString(p.name));
  PyStructSequence_SetItem(info, 3, PyUnicode_FromString(p.target));
  PyStructSequence_SetItem(info, 4, PyLong_FromUnsignedLongLong(p.memory_bytes));
  PyStructSequence_SetItem(info, 5, PyLong_FromUnsignedLong(p.core_count));
  PyStructSequence_SetItem(info, 6, PyBool_FromLong(p.capture_supported != 0));
  if (PyErr_Occurred()) Py_CLEAR(info);
  return info;
}

static PyObject *pyslip_process_mode(PyObject *module, PyObject *none) {
  static const char *const names[] = {"unclaimed", "program", "kernel"};
  (void)module;
  (void)none;
  return PyUnicode_FromString(names[slip_process_mode()]);
}

// --- streams ---------------------------------------------------------------------------------------------------------------------------

static PyObject *pyslip_stream_new(PyTypeObject *type, PyObject *args, PyObject *named) {
  static char *names[] = {"device", NULL};
  pyslip_state_t *state = pyslip_state_of(type);
  const char *text = "cpu:0";
  slip_platform_t *platform;
  slip_device_t device;
  slip_stream_t stream = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|s:Stream", names, &text)) return NULL;
  if (!pyslip_platform_of(state, text, &platform, &device) || !pyslip_ok(state, slip_stream_create(platform, device.ordinal, &stream)))
    return NULL;
  pyslip_stream_t *self = PyObject_New(pyslip_stream_t, type);
  if (!self) {
    slip_status_free(slip_stream_destroy(platform, stream));
    return NULL;
  }
  self->platform = platform;
  self->stream = stream;
  self->device = device;
  self->users = 0;
  self->is_inline = false;
  return (PyObject *)self;
}

bool pyslip_stream_open(pyslip_stream_t *self) {
  if (self->is_inline && !self->platform) return pyslip_ok(pyslip_state_of(Py_TYPE(self)), slip_platform_find("cpu", &self->platform));
  if (self->stream) return true;
  pyslip_raise_format(pyslip_state_of(Py_TYPE(self)), PYSLIP_ERROR_INVALID_STATE, "the stream is closed; make another");
  return false;
}

// Runs |expression| without the lock, on a stream that is not destroyed meanwhile.
#define PYSLIP_STREAM_CALL(self, status, expression) \
  do {                                               \
    ++(self)->users;                                 \
    PyThreadState *thread_ = PyEval_SaveThread();    \
    (status) = (expression);                         \
    PyEval_RestoreThread(thread_);                   \
    --(self)->users;                                 \
  } while (0)

static PyObject *pyslip_stream_close(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_stream_t *self = (pyslip_stream_t *)object;
  pyslip_state_t *state = pyslip_state_of(Py_TYPE(self));
  if (self->is_inline || !self->stream) Py_RETURN_NONE;
  if (self->users) return pyslip_raise_format(state, PYSLIP_ERROR_BUSY, "another thread is in a call on the stream; close it afterwards");
  slip_stream_t stream = self->stream;
  slip_status_t status;
  self->stream = NULL;
  PYSLIP_STREAM_CALL(self, status, slip_stream_destroy(self->platform, stream));
  if (!slip_status_is_ok(status)) self->stream = stream;
  if (!pyslip_ok(state, status)) return NULL;
  Py_RETURN_NONE;
}

static void pyslip_stream_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_stream_t *self = (pyslip_stream_t *)object;
  slip_status_t status = slip_ok_status();
  if (!self->is_inline && self->stream) PYSLIP_STREAM_CALL(self, status, slip_stream_destroy(self->platform, self->stream));
  slip_status_free(status);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject *pyslip_stream_synchronize(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_stream_t *self = (pyslip_stream_t *)object;
  if (!pyslip_stream_open(self)) return NULL;
  slip_status_t status;
  PYSLIP_STREAM_CALL(self, status, slip_stream_synchronize(self->platform, self->stream));
  if (!pyslip_ok(pyslip_state_of(Py_TYPE(self)), status)) return NULL;
  Py_RETURN_NONE;
}

PyObject *pyslip_ready(pyslip_state_t *state, slip_status_t status) {
  if (slip_status_code(status) == SLIP_CODE_NOT_READY) {
    slip_status_free(status);
    Py_RETURN_FALSE;
  }
  if (!pyslip_ok(state, status)) return NULL;
  Py_RETURN_TRUE;
}

static PyObject *pyslip_stream_query(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_stream_t *self = (pyslip_stream_t *)object;
  return pyslip_stream_open(self) ? pyslip_ready(pyslip_state_of(Py_TYPE(self)), slip_stream_query(self->platform, self->stream)) : NULL;
}

static PyObject *pyslip_stream_wait_event(PyObject *object, PyObject *argument) {
  pyslip_stream_t *self = (pyslip_stream_t *)object;
  pyslip_state_t *state = pyslip_state_of(Py_TYPE(self));
  if (!pyslip_stream_open(self)) return NULL;
  if (Py_TYPE(argument) != state->event || !((pyslip_event_t *)argument)->event)
    return pyslip_raise_format(state, PYSLIP_ERROR_ARGUMENT_TYPE, "wait_event() expects an Event that is open, got %R", argument);
  if (!pyslip_ok(state, slip_stream_wait_event(self->platform, self->stream, ((pyslip_event_t *)argument)->event))) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_stream_capture_begin(PyObject *object, PyObject *args, PyObject *named) {
  static char *names[] = {"mode", NULL};
  static const char *const modes[] = {"global", "thread_local", "relaxed"};
  pyslip_stream_t *self = (pyslip_stream_t *)object;
  pyslip_state_t *state = pyslip_state_of(Py_TYPE(self));
  const char *text = "global";
  uint32_t mode = 0;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|s:capture_begin", names, &text) || !pyslip_stream_open(self)) return NULL;
  while (mode < 3 && strcmp(text, modes[mode]) != 0) ++mode;
  if (mode == 3)
    return pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "capture mode '%s' is none of global, thread_local, relaxed", text);
  if (!pyslip_ok(state, slip_stream_capture_begin(self->platform, self->stream, mode))) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_stream_capture_end(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_stream_t *self = (pyslip_stream_t *)object;
  pyslip_state_t *state = pyslip_state_of(Py_TYPE(self));
  slip_graph_exec_t graph = NULL;
  if (!pyslip_stream_open(self) || !pyslip_ok(state, slip_stream_capture_end(self->platform, self->stream, &graph))) return NULL;
  pyslip_graph_exec_t *exec = PyObject_New(pyslip_graph_exec_t, state->graph_exec);
  if (!exec) {
    slip_status_free(slip_graph_exec_destroy(self->platform, graph));
    return NULL;
  }
  exec->platform = self->platform;
  exec->graph = graph;
  return (PyObject *)exec;
}

static PyObject *pyslip_stream_capture_state(PyObject *object, PyObject *none) {
  static const char *const names[] = {"none", "active", "invalidated"};
  (void)none;
  pyslip_stream_t *self = (pyslip_stream_t *)object;
  slip_capture_info_t info = {0, 0, 0};
  if (!pyslip_stream_open(self)) return NULL;
  if (!pyslip_ok(pyslip_state_of(Py_TYPE(self)), slip_stream_capture_info(self->platform, self->stream, &info))) return NULL;
  return PyUnicode_FromString(names[info.state < 3 ? info.state : 0]);
}

PyObject *pyslip_self_enter(PyObject *self, PyObject *none) {
  (void)none;
  return Py_NewRef(self);
}
static PyObject *pyslip_stream_exit(PyObject *self, PyObject *args) {
  (void)args;
  return pyslip_stream_close(self, NULL);
}

static PyObject *pyslip_stream_handle(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((pyslip_stream_t *)self)->stream);
}
static PyObject *pyslip_stream_device(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_device_text(((pyslip_stream_t *)self)->device);
}
static PyObject *pyslip_stream_repr(PyObject *object) {
  pyslip_stream_t *self = (pyslip_stream_t *)object;
  if (self->is_inline) return PyUnicode_FromString("slipstream.INLINE");
  return PyUnicode_FromFormat("<slipstream.Stream %p on %s:%d%s>", self->stream, slip_platform_name(self->device.platform),
                              (int)self->device.ordinal, self->stream ? "" : ", closed");
}

bool pyslip_stream_of(pyslip_state_t *state, PyObject *argument, slip_stream_t *out, pyslip_stream_t **out_object) {
  *out_object = NULL;
  if (Py_TYPE(argument) == state->stream) {
    *out_object = (pyslip_stream_t *)argument;
    *out = (*out_object)->stream;
    return pyslip_stream_open(*out_object);
  }
  if (PyLong_CheckExact(argument)) {
    *out = PyLong_AsVoidPtr(argument);
    return !PyErr_Occurred();
  }
  PyObject *method = PyObject_GetAttr(argument, state->names.__cuda_stream__);
  PyErr_Clear();
  PyObject *pair = method ? PyObject_CallObject(method, NULL) : NULL;
  PyObject *handle = pair && PyTuple_Check(pair) && PyTuple_Size(pair) == 2 ? PyTuple_GetItem(pair, 1) : NULL;
  if (handle)
    *out = PyLong_AsVoidPtr(handle);
  else if (!PyErr_Occurred())
    pyslip_raise_format(state, PYSLIP_ERROR_ARGUMENT_TYPE,
                        "stream: expects a slipstream.Stream, a native handle as an int, or an object with __cuda_stream__(), got %R",
                        argument);
  Py_XDECREF(pair);
  Py_XDECREF(method);
  return !PyErr_Occurred();
}

static PyGetSetDef pyslip_stream_members[] = {{"handle", pyslip_stream_handle, NULL, "The native handle as an int; 0 when closed.", NULL},
                                              {"device", pyslip_stream_device, NULL, "'cpu:0' and so on.", NULL},
                                              {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef pyslip_stream_methods[] = {
    {"synchronize", pyslip_stream_synchronize, METH_NOARGS,
     "synchronize($self, /)\n--\n\nBlocks, without the GIL, until all work enqueued before the call has run."},
    {"query", pyslip_stream_query, METH_NOARGS, "query($self, /)\n--\n\nTrue when the stream is idle. Never blocks."},
    {"wait_event", pyslip_stream_wait_event, METH_O,
     "wait_event($self, event, /)\n--\n\nWork enqueued from now on waits for the last record of event. Does not block."},
    {"capture_begin", (PyCFunction)(void (*)(void))pyslip_stream_capture_begin, METH_VARARGS | METH_KEYWORDS,
     "capture_begin($self, mode='global')\n--\n\nFrom here on work on the stream is recorded instead of run. mode: where calls that are "
     "illegal in a "
     "capture are refused: 'global' (every thread), 'thread_local', 'relaxed'.\nRaises UnsupportedError on a platform without capture "
     "(cpu)."},
    {"capture_end", pyslip_stream_capture_end, METH_NOARGS,
     "capture_end($self, /)\n--\n\nEnds the capture and returns what was recorded as a GraphExec."},
    {"capture_state", pyslip_stream_capture_state, METH_NOARGS, "capture_state($self, /)\n--\n\n'none', 'active' or 'invalidated'."},
    {"close", pyslip_stream_close, METH_NOARGS,
     "close($self, /)\n--\n\nWaits for the stream's work, without the GIL, and destroys it. A second close does nothing. BusyError while "
     "another "
     "thread is in a call on it."},
    {"__enter__", pyslip_self_enter, METH_NOARGS, NULL},
    {"__exit__", pyslip_stream_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_stream_slots[] = {{Py_tp_doc,
                                             "Stream(device='cpu:0')\n--\n\nAn asynchronous first-in-first-out queue of a platform. "
                                             "Frameworks lend their own streams instead; INLINE is "
                                             "the calling thread of platform cpu. Any thread may use it."},
                                            {Py_tp_new, pyslip_stream_new},
                                            {Py_tp_dealloc, pyslip_stream_dealloc},
                                            {Py_tp_repr, pyslip_stream_repr},
                                            {Py_tp_getset, pyslip_stream_members},
                                            {Py_tp_methods, pyslip_stream_methods},
                                            {0, NULL}};
static PyType_Spec pyslip_stream_spec = {"slipstream.Stream", sizeof(pyslip_stream_t), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                         pyslip_stream_slots};

// --- the module's part -----------------------------------------------------------------------------------------------------------------

static PyMethodDef pyslip_stream_functions[] = {
    {"platforms", pyslip_platforms, METH_NOARGS, "platforms($module, /)\n--\n\nNames of the compiled-in platforms. Loads nothing."},
    {"device_count", (PyCFunction)(void (*)(void))pyslip_device_count, METH_VARARGS | METH_KEYWORDS,
     "device_count($module, platform='cpu')\n--\n\nNumber of devices; loads the platform. NotFoundError, UnsupportedError."},
    {"device_info", (PyCFunction)(void (*)(void))pyslip_device_info, METH_VARARGS | METH_KEYWORDS,
     "device_info($module, device='cpu:0')\n--\n\nPlatformInfo of a device. NotFoundError, UnsupportedError, InvalidArgumentError."},
    {"process_mode", pyslip_process_mode, METH_NOARGS,
     "process_mode($module, /)\n--\n\nWhat the process has been claimed for: 'unclaimed', 'program' or 'kernel'. Opening a context claims "
     "it."},
    {NULL, NULL, 0, NULL}};

int pyslip_stream_init(pyslip_state_t *state) {
  if (!(state->stream = pyslip_add_type(state, &pyslip_stream_spec))) return -1;
  if (pyslip_event_init(state) < 0) return -1;
  pyslip_stream_t *stream = PyObject_New(pyslip_stream_t, state->stream);
  if (!stream) return -1;
  stream->platform = NULL;
  stream->stream = SLIP_STREAM_INLINE;
  stream->device = slip_device_cpu();
  stream->users = 0;
  stream->is_inline = true;
  state->inline_stream = (PyObject *)stream;
  if (PyModule_AddObjectRef(state->module, "INLINE", state->inline_stream) < 0) return -1;
  return PyModule_AddFunctions(state->module, pyslip_stream_functions);
}
