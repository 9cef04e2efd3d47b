// SPDX-License-Identifier: Apache-2.0
// The module slipstream._core. Everything of it lives in its state, so that each interpreter that shares the lock has its own; importing
// claims nothing and asks nothing.
#include <dlfcn.h>

#include "pyslip.h"

pyslip_state_t *pyslip_state_of(PyTypeObject *type) {
  return (pyslip_state_t *)PyType_GetModuleState(type);
}

PyTypeObject *pyslip_add_type(pyslip_state_t *state, PyType_Spec *spec) {
  PyObject *type = PyType_FromModuleAndSpec(state->module, spec, NULL);
  const char *name = strrchr(spec->name, '.') + 1;
  if (type && PyModule_AddObjectRef(state->module, name, type) < 0) Py_CLEAR(type);
  return (PyTypeObject *)type;
}

static PyObject *pyslip_library_path(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  Dl_info info;
  if (!dladdr((void *)(uintptr_t)slip_version, &info) || !info.dli_fname) Py_RETURN_NONE;
  return PyUnicode_DecodeFSDefault(info.dli_fname);
}

static PyMethodDef pyslip_module_functions[] = {{"library_path", pyslip_library_path, METH_NOARGS,
                                                 "library_path($module, /)\n--\n\nThe file of the libslipstream that this process uses."},
                                                {NULL, NULL, 0, NULL}};

static int pyslip_names_init(pyslip_state_t *state) {
#define PYSLIP_NAME_INIT(text) \
  if (!(state->names.text = PyUnicode_InternFromString(#text))) return -1;
  PYSLIP_NAME_TABLE(PYSLIP_NAME_INIT)
#undef PYSLIP_NAME_INIT
  state->no_arguments = PyTuple_New(0);
  state->dlpack_version = Py_BuildValue("(ii)", 1, 1);
  state->dlpack_names = Py_BuildValue("(O)", state->names.max_version);
  return state->no_arguments && state->dlpack_version && state->dlpack_names ? 0 : -1;
}

// The process may hold another libslipstream.so.0 already: of the system, or of LD_LIBRARY_PATH. Before 1.0 a minor version may break.
static int pyslip_library_check(pyslip_state_t *state) {
  if (strcmp(slip_version(), SLIP_VERSION_STRING) == 0) return 0;
  PyObject *path = pyslip_library_path(state->module, NULL);
  if (path)
    PyErr_Format(PyExc_ImportError,
                 "slipstream %s was loaded with another libslipstream, %s from %S; take that one out of LD_LIBRARY_PATH and LD_PRELOAD, "
                 "or install the package that fits it",
                 SLIP_VERSION_STRING, slip_version(), path);
  Py_XDECREF(path);
  return -1;
}

// A free-threaded interpreter turns its GIL on for an extension that does not say that it can do without, as this one: much here is guarded
// by the GIL. Only -X gil=0 keeps it off all the same.
static int pyslip_lock_check(pyslip_state_t *state) {
  (void)state;
#ifdef Py_GIL_DISABLED
  PyObject *is_enabled = PySys_GetObject("_is_gil_enabled"), *enabled = is_enabled ? PyObject_CallNoArgs(is_enabled) : NULL;
  if (enabled == Py_False)
    PyErr_SetString(PyExc_ImportError,
                    "slipstream needs the GIL, which this free-threaded interpreter was told to leave off; start it without "
                    "-X gil=0 and PYTHON_GIL=0, and it is turned on at the import");
  Py_XDECREF(enabled);
#endif
  return PyErr_Occurred() ? -1 : 0;
}

static int pyslip_module_exec(PyObject *module) {
  static int (*const parts[])(pyslip_state_t *) = {pyslip_lock_check,     pyslip_library_check, pyslip_names_init,     pyslip_errors_init,
                                                   pyslip_sequences_init, pyslip_tensor_init,   pyslip_signature_init, pyslip_artifact_init,
                                                   pyslip_stream_init,    pyslip_context_init,  pyslip_callable_init,  pyslip_ticket_init,
                                                   pyslip_graph_init,     pyslip_compile_init,  pyslip_sim_init,       pyslip_worker_init};
  pyslip_state_t *state = pyslip_module_state(module);
  memset(state, 0, sizeof(*state));
  state->module = module;
  state->direct = PYSLIP_DIRECT_OPEN;
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i)
    if (parts[i](state) < 0) return -1;
  return PyModule_AddStringConstant(module, "__version__", slip_version());
}

static int pyslip_module_traverse(PyObject *module, visitproc visit, void *arg) {
  pyslip_state_t *state = pyslip_module_state(module);
  if (!state) return 0;
  for (size_t i = 0; i < PYSLIP_TYPES; ++i) Py_VISIT(state->types[i].type);
  for (size_t i = 0; i < PYSLIP_ERROR_COUNT; ++i) Py_VISIT(state->errors[i]);
  Py_VISIT(state->direct_base);
  Py_VISIT(state->tensor);
  Py_VISIT(state->signature);
  Py_VISIT(state->artifact);
  Py_VISIT(state->stream);
  Py_VISIT(state->event);
  Py_VISIT(state->graph_exec);
  Py_VISIT(state->context);
  Py_VISIT(state->callable);
  Py_VISIT(state->ticket);
  Py_VISIT(state->graph);
  Py_VISIT(state->worker);
  Py_VISIT(state->program);
  Py_VISIT(state->run);
  Py_VISIT(state->worker_tensor);
  return 0;
}

// Objects may outlive the module's dictionary, and find the state through their types, which keep the module. Types are therefore not
// cleared here: only what could keep the module in a cycle by way of user code.
static int pyslip_module_clear(PyObject *module) {
  pyslip_state_t *state = pyslip_module_state(module);
  if (!state) return 0;
  for (size_t i = 0; i < PYSLIP_TYPES; ++i) {
    pyslip_type_t old = state->types[i];
    memset(&state->types[i], 0, sizeof(state->types[i]));
    Py_XDECREF(old.is_neg);
    Py_XDECREF((PyObject *)old.type);
  }
  state->direct = PYSLIP_DIRECT_NO;
  Py_CLEAR(state->direct_base);
  return 0;
}

static PyModuleDef_Slot pyslip_module_slots[] = {{Py_mod_exec, (void *)(uintptr_t)pyslip_module_exec}, {0, NULL}};
static PyModuleDef pyslip_module = {PyModuleDef_HEAD_INIT,  "slipstream._core",      "The C extension behind the package slipstream.",
                                    sizeof(pyslip_state_t), pyslip_module_functions, pyslip_module_slots,
                                    pyslip_module_traverse, pyslip_module_clear,     NULL};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
  return PyModuleDef_Init(&pyslip_module);
}
