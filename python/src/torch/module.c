// SPDX-License-Identifier: Apache-2.0
// The module slipstream._torch. Importing it does nothing; PyTorch is touched by attach().
#include "frame.h"

// (code, platform_code, name, text) -> exception; set once by slipstream.torch.
static PyObject *slip__torch_exception;

PyObject *slip__torch_raise(slip_status_t status) {
  slip__torch_failure_set(status);
  const slip__torch_failure_t *failure = &slip__torch_failure;
  PyObject *error = slip__torch_exception
                        ? PyObject_CallFunction(slip__torch_exception, "iLss", failure->code, (long long)failure->platform_code,
                                                slip_code_name(failure->code), failure->text)
                        : NULL;
  if (error) {
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
  } else if (!PyErr_Occurred()) {
    PyErr_SetString(PyExc_RuntimeError, failure->text);
  }
  slip__torch_failure.code = 0;
  return NULL;
}

static PyObject *slip__torch_attach(PyObject *module, PyObject *arguments) {
  const char *cpu, *c10, *cuda;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "ssz", &cpu, &c10, &cuda)) return NULL;
  const char *missing = slip__torch_shim_load(cpu, c10, cuda);
  if (missing) return PyUnicode_FromFormat("%s", missing);
  if (!slip__torch_shim_fits()) return PyUnicode_FromString("an ABI of 2.9 to before 3.0");
  Py_RETURN_NONE;
}

static PyObject *slip__torch_exceptions(PyObject *module, PyObject *exception) {
  (void)module;
  Py_INCREF(exception);
  Py_XDECREF(slip__torch_exception);
  slip__torch_exception = exception;
  Py_RETURN_NONE;
}

static PyObject *slip__torch_abi(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  if (!slip__torch_shim.aoti_torch_abi_version) return PyLong_FromLong(0);
  return PyLong_FromUnsignedLongLong(slip__torch_shim.aoti_torch_abi_version());
}

// believe(requires_grad, version): whether the probes (see shim.h) answered rightly; None: as before. Returns what will be done.
static PyObject *slip__torch_believe(PyObject *module, PyObject *arguments) {
  slip__torch_shim_t *shim = &slip__torch_shim;
  PyObject *grad, *version;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "OO", &grad, &version)) return NULL;
  if (grad != Py_None) shim->believes_requires_grad = grad == Py_True && shim->_ZNK3c1010TensorImpl13requires_gradEv;
  if (version != Py_None) {
    shim->believes_version = version == Py_True && shim->torch_parallel_for && shim->_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE;
  }
  return Py_BuildValue("(NN)", PyBool_FromLong(shim->believes_requires_grad), PyBool_FromLong(shim->believes_version));
}

// Which probes this PyTorch has functions for: 1 requires_grad, 2 version.
static PyObject *slip__torch_probes(PyObject *module, PyObject *none) {
  const slip__torch_shim_t *shim = &slip__torch_shim;
  (void)module;
  (void)none;
  return PyLong_FromLong((shim->_ZNK3c1010TensorImpl13requires_gradEv ? 1 : 0) |
                         (shim->torch_parallel_for && shim->_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE ? 2 : 0));
}

// Python answers (current device, stream), or raises.
static slip_status_t slip__torch_ask(void *user, int32_t device, int32_t *out_current, slip_stream_t *out_stream) {
  slip_status_t status = slip_ok_status();
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *answer = PyObject_CallFunction(user, "i", device);
  int current = -1;
  unsigned long long stream = 0;
  if (answer && PyTuple_Check(answer) && PyArg_ParseTuple(answer, "iK", &current, &stream)) {
    *out_current = current;
    *out_stream = (slip_stream_t)(uintptr_t)stream;
  } else {
    status = slip__torch_status_of_exception(SLIP_CODE_DEVICE, "the framework did not tell its current device and stream");
  }
  Py_XDECREF(answer);
  PyGILState_Release(state);
  return status;
}

static PyObject *slip__torch_create(PyObject *module, PyObject *arguments) {
  unsigned long long gate, context, signature;
  const char *name, *platform;
  int id, stream, hold, packed_first, packed_count;
  PyObject *ask, *keep;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "KKiKsispiiOO", &gate, &context, &id, &signature, &name, &stream, &platform, &hold, &packed_first,
                        &packed_count, &ask, &keep))
    return NULL;
  const slip__torch_op_options_t options = {.gate = (slip__torch_gate_t *)(uintptr_t)gate,
                                            .context = (slip_context_t *)(uintptr_t)context,
                                            .signature = (slip_signature_t *)(uintptr_t)signature,
                                            .name = name,
                                            .id = id,
                                            .stream = stream,
                                            .privateuse1 = slip_platform_from_name(platform),
                                            .hold = hold != 0,
                                            .packed_first = packed_first,
                                            .packed_count = packed_count,
                                            .ask = slip__torch_ask,
                                            .user = ask};
  const int32_t op = slip__torch_op_create(&options);
  if (op >= 0) {  // for ever: see op.h
    Py_INCREF(ask);
    Py_INCREF(keep);
  }
  return PyLong_FromLong(op);
}

static PyObject *slip__torch_gate(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  slip__torch_gate_t *gate = slip__torch_gate_create();
  return gate ? PyLong_FromVoidPtr(gate) : PyErr_NoMemory();
}

static PyObject *slip__torch_reopen(PyObject *module, PyObject *handle) {
  (void)module;
  slip__torch_gate_t *gate = PyLong_AsVoidPtr(handle);
  if (PyErr_Occurred()) return NULL;
  slip__torch_gate_open(gate);
  Py_RETURN_NONE;
}

static PyObject *slip__torch_shut(PyObject *module, PyObject *handle) {
  (void)module;
  slip__torch_gate_t *gate = PyLong_AsVoidPtr(handle);
  if (PyErr_Occurred()) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  slip__torch_gate_shut(gate);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

// implement(op, namespace, name, key) -> library handle; op -1, -2: the probes.
static PyObject *slip__torch_implement(PyObject *module, PyObject *arguments) {
  const slip__torch_shim_t *shim = &slip__torch_shim;
  int op;
  const char *space, *name, *key;
  slip__torch_library_t library = NULL;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "isss", &op, &space, &name, &key)) return NULL;
  slip__torch_kernel_t kernel = op == -1 ? slip__torch_op_probe : op == -2 ? slip__torch_op_bump_probe : slip__torch_op_kernel(op);
  int32_t failed = shim->aoti_torch_library_init_impl(space, key, "slipstream", 0, &library);
  if (!failed) {
    failed = shim->torch_library_impl ? shim->torch_library_impl(library, name, kernel, shim->aoti_torch_abi_version())
                                      : shim->aoti_torch_library_impl(library, name, kernel);
    if (failed) shim->aoti_torch_delete_library_object(library);
  }
  if (failed) {
    PyErr_Format(PyExc_RuntimeError, "PyTorch refused a kernel for %s::%s and dispatch key %s", space, name, key);
    return NULL;
  }
  return PyLong_FromVoidPtr(library);
}

static PyObject *slip__torch_forget(PyObject *module, PyObject *handle) {
  (void)module;
  slip__torch_library_t library = PyLong_AsVoidPtr(handle);
  if (library) slip__torch_shim.aoti_torch_delete_library_object(library);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

static PyObject *slip__torch_failure_take(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  slip__torch_failure_t *failure = &slip__torch_failure;
  if (!failure->code) Py_RETURN_NONE;
  PyObject *result =
      Py_BuildValue("(iLss)", failure->code, (long long)failure->platform_code, slip_code_name(failure->code), failure->text);
  failure->code = 0;
  return result;
}

static PyMethodDef slip__torch_methods[] = {
    {"attach", slip__torch_attach, METH_VARARGS, "attach(cpu, c10, cuda): binds the loaded PyTorch; None, or what is missing."},
    {"exceptions", slip__torch_exceptions, METH_O,
     "exceptions(make): make(code, platform code, name, text) makes the exceptions raised here."},
    {"abi", slip__torch_abi, METH_NOARGS, "abi(): PyTorch's ABI version, major << 56 | minor << 48; 0 before attach()."},
    {"believe", slip__torch_believe, METH_VARARGS,
     "believe(requires_grad, version): whether the probes answered rightly; returns what will be done."},
    {"probes", slip__torch_probes, METH_NOARGS, "probes(): which probes can be made: 1 requires_grad, 2 version."},
    {"create", slip__torch_create, METH_VARARGS,
     "create(gate, context, id, signature, name, stream, platform, hold, packed first, packed count, ask, keep): the number of a new "
     "operator, -1 if there is no more "
     "room."},
    {"gate", slip__torch_gate, METH_NOARGS, "gate(): a new gate, for the calls on one context."},
    {"reopen", slip__torch_reopen, METH_O, "reopen(gate): after a close that did nothing."},
    {"shut", slip__torch_shut, METH_O, "shut(gate): refuses calls from now on and waits for those that run."},
    {"implement", slip__torch_implement, METH_VARARGS, "implement(op, namespace, name, key): registers the kernel; a handle for forget()."},
    {"forget", slip__torch_forget, METH_O, "forget(handle): takes a registration back."},
    {"take_failure", slip__torch_failure_take, METH_NOARGS,
     "take_failure(): (code, platform code, name, text) of this thread's last failure, or None."},
    {NULL, NULL, 0, NULL},
};

static int slip__torch_exec(PyObject *module) {
  return slip__torch_frame_type(module);
}

static PyModuleDef_Slot slip__torch_slots[] = {
    {Py_mod_exec, (void *)slip__torch_exec},
    {0, NULL},
};

static struct PyModuleDef slip__torch_module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "slipstream._torch",
    .m_doc = "Operators of PyTorch without the interpreter. Used by slipstream.torch.",
    .m_size = 0,
    .m_methods = slip__torch_methods,
    .m_slots = slip__torch_slots,
};

PyMODINIT_FUNC PyInit__torch(void);
PyMODINIT_FUNC PyInit__torch(void) {
  return PyModuleDef_Init(&slip__torch_module);
}
