// SPDX-License-Identifier: Apache-2.0
// Artifact: one compiled program on disk. Opening reads metadata only.
#include "pyslip.h"

static PyObject *pyslip_artifact_load(PyObject *module, PyObject *args, PyObject *named) {
  static char *names[] = {"path", "target", NULL};
  pyslip_state_t *state = pyslip_module_state(module);
  PyObject *path = NULL;
  slip_artifact_options_t options = SLIP_ARTIFACT_OPTIONS_INIT;
  slip_artifact_t *artifact = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, named, "O&|$z:load", names, PyUnicode_FSConverter, &path, &options.target)) return NULL;
  const char *text = PyBytes_AsString(path);
  slip_status_t status;
  PYSLIP_WITHOUT_LOCK(status = slip_artifact_open(text, &options, slip_allocator_system(), &artifact));
  pyslip_artifact_t *self = pyslip_ok(state, status) ? PyObject_New(pyslip_artifact_t, state->artifact) : NULL;
  if (self) {
    self->artifact = artifact;
    self->path = PyUnicode_DecodeFSDefault(text);
    if (!self->path) Py_CLEAR(self);
  } else {
    slip_artifact_release(artifact);
  }
  Py_DECREF(path);
  return (PyObject *)self;
}

static void pyslip_artifact_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  slip_artifact_release(((pyslip_artifact_t *)self)->artifact);
  Py_XDECREF(((pyslip_artifact_t *)self)->path);
  PyObject_Free(self);
  Py_DECREF(type);
}

static slip_artifact_t *pyslip_artifact_of(PyObject *self) {
  return ((pyslip_artifact_t *)self)->artifact;
}

static PyObject *pyslip_artifact_name(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(slip_artifact_name(pyslip_artifact_of(self)));
}
static PyObject *pyslip_artifact_path(PyObject *self, void *closure) {
  (void)closure;
  return Py_NewRef(((pyslip_artifact_t *)self)->path);
}
static PyObject *pyslip_artifact_platform(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(slip_platform_name(slip_artifact_platform(pyslip_artifact_of(self))));
}
static PyObject *pyslip_artifact_target(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(slip_artifact_target(pyslip_artifact_of(self)));
}
static PyObject *pyslip_artifact_targets(PyObject *self, void *closure) {
  (void)closure;
  size_t count = slip_artifact_target_count(pyslip_artifact_of(self));
  PyObject *targets = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; targets && i < count; ++i) {
    PyObject *target = PyUnicode_FromString(slip_artifact_target_at(pyslip_artifact_of(self), i));
    if (!target || PyTuple_SetItem(targets, (Py_ssize_t)i, target) < 0) Py_CLEAR(targets);
  }
  return targets;
}
static PyObject *pyslip_artifact_contract(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(slip_artifact_contract(pyslip_artifact_of(self)) == SLIP_CONTRACT_KERNEL ? "kernel" : "program");
}
static PyObject *pyslip_artifact_key(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(slip_artifact_key(pyslip_artifact_of(self)));
}
static PyObject *pyslip_artifact_signature(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_signature_wrap(pyslip_state_of(Py_TYPE(self)), slip_artifact_params(pyslip_artifact_of(self)));
}
static PyObject *pyslip_artifact_lowered(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_signature_wrap(pyslip_state_of(Py_TYPE(self)), slip_artifact_lowered_params(pyslip_artifact_of(self)));
}
static PyObject *pyslip_artifact_metadata(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(slip_artifact_metadata_json(pyslip_artifact_of(self)));
}
static PyObject *pyslip_artifact_handle(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromVoidPtr(pyslip_artifact_of(self));
}

static PyObject *pyslip_artifact_kernels(PyObject *self, void *closure) {
  (void)closure;
  pyslip_state_t *state = pyslip_state_of(Py_TYPE(self));
  slip_artifact_t *artifact = pyslip_artifact_of(self);
  slip_const_bytes_t bytes;
  slip_image_view_t view;
  slip_status_t status;
  PyThreadState *thread = PyEval_SaveThread();
  status = slip_artifact_image(artifact, &bytes);
  if (slip_status_is_ok(status)) status = slip_image_open(bytes, &view);
  PyEval_RestoreThread(thread);
  if (!pyslip_ok(state, status)) return NULL;
  PyObject *kernels = PyTuple_New((Py_ssize_t)view.kernel_count);
  for (uint32_t i = 0; kernels && i < view.kernel_count; ++i) {
    slip_image_kernel_t kernel;
    if (!slip_image_kernel(&view, i, &kernel)) kernel = (slip_image_kernel_t){.name = ""};
    PyObject *item = PyStructSequence_New(state->kernel_info);
    if (item) {
      PyStructSequence_SetItem(item, 0, PyUnicode_FromString(kernel.name));
      PyStructSequence_SetItem(item, 1, PyLong_FromUnsignedLong(kernel.core));
      PyStructSequence_SetItem(item, 2, PyLong_FromUnsignedLong(kernel.tensor_count));
      PyStructSequence_SetItem(item, 3, PyLong_FromUnsignedLong(kernel.scalar_count));
      PyStructSequence_SetItem(item, 4, PyLong_FromUnsignedLong(kernel.scratch_bytes));
    }
    if (!item || PyErr_Occurred() || PyTuple_SetItem(kernels, i, item) < 0) Py_CLEAR(kernels);
  }
  return kernels;
}

static PyObject *pyslip_artifact_verify(PyObject *self, PyObject *none) {
  (void)none;
  slip_artifact_t *artifact = pyslip_artifact_of(self);
  slip_status_t status;
  PYSLIP_WITHOUT_LOCK(status = slip_artifact_verify(artifact));
  if (!pyslip_ok(pyslip_state_of(Py_TYPE(self)), status)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_artifact_repr(PyObject *self) {
  slip_artifact_t *artifact = pyslip_artifact_of(self);
  PyObject *signature = pyslip_artifact_signature(self, NULL);
  PyObject *text = signature ? PyObject_Str(signature) : NULL;
  PyObject *repr = text ? PyUnicode_FromFormat("<slipstream.Artifact %s%U for %s %s>", slip_artifact_name(artifact), text,
                                               slip_platform_name(slip_artifact_platform(artifact)), slip_artifact_target(artifact))
                        : NULL;
  Py_XDECREF(text);
  Py_XDECREF(signature);
  return repr;
}

static PyGetSetDef pyslip_artifact_members[] = {
    {"name", pyslip_artifact_name, NULL, "Name of the program.", NULL},
    {"path", pyslip_artifact_path, NULL, "The directory, as it was given.", NULL},
    {"platform", pyslip_artifact_platform, NULL, "'cpu' and so on.", NULL},
    {"target", pyslip_artifact_target, NULL, "The target in use: the best one of this machine, or the one asked for.", NULL},
    {"targets", pyslip_artifact_targets, NULL, "Names of all targets in the artifact.", NULL},
    {"contract", pyslip_artifact_contract, NULL, "'kernel' or 'program'.", NULL},
    {"key", pyslip_artifact_key, NULL, "Content key of the build, in hex.", NULL},
    {"signature", pyslip_artifact_signature, NULL, "What a caller passes.", NULL},
    {"lowered_signature", pyslip_artifact_lowered, NULL, "What the image takes.", NULL},
    {"kernels", pyslip_artifact_kernels, NULL, "Tuple of KernelInfo. Reads and checks the image the first time: IoError, CorruptError.",
     NULL},
    {"metadata", pyslip_artifact_metadata, NULL, "compiled_meta.json as text.", NULL},
    {"handle", pyslip_artifact_handle, NULL, "Address of the slip_artifact_t; lives as long as this object.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef pyslip_artifact_methods[] = {{"verify", pyslip_artifact_verify, METH_NOARGS,
                                                 "verify($self, /)\n--\n\nChecks every file against the manifest (size and hash). "
                                                 "CorruptError, IoError. Blocks on files, without the GIL."},
                                                {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_artifact_slots[] = {
    {Py_tp_doc, "An opened artifact: one compiled program. Made by load() and compile(). Immutable; any thread may use it."},
    {Py_tp_dealloc, pyslip_artifact_dealloc},
    {Py_tp_repr, pyslip_artifact_repr},
    {Py_tp_getset, pyslip_artifact_members},
    {Py_tp_methods, pyslip_artifact_methods},
    {0, NULL}};
static PyType_Spec pyslip_artifact_spec = {"slipstream.Artifact", sizeof(pyslip_artifact_t), 0,
                                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                           pyslip_artifact_slots};

static PyMethodDef pyslip_artifact_functions[] = {{"load", (PyCFunction)(void (*)(void))pyslip_artifact_load, METH_VARARGS | METH_KEYWORDS,
                                                   "load($module, path, *, target=None)\n--\n\nOpens the artifact directory at path and "
                                                   "checks its metadata; runs no native code, claims no mode, "
                                                   "touches no device.\n\ntarget: use this target only ('x86-64-v3'); default: the best "
                                                   "one this machine runs.\nRaises NotFoundError, IoError, "
                                                   "CorruptError, IncompatibleError (also: nothing for this machine)."},
                                                  {NULL, NULL, 0, NULL}};

int pyslip_artifact_init(pyslip_state_t *state) {
  state->artifact = pyslip_add_type(state, &pyslip_artifact_spec);
  return state->artifact ? PyModule_AddFunctions(state->module, pyslip_artifact_functions) : -1;
}
