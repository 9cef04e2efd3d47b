// SPDX-License-Identifier: Apache-2.0
// Control of the simulator; slipstream.sim is its face.
#include "slipstream/sim.h"

#include "pyslip.h"

static PyObject *pyslip_sim_done(PyObject *module, slip_status_t status) {
  if (!pyslip_ok(pyslip_module_state(module), status)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *pyslip_sim_reset(PyObject *module, PyObject *args, PyObject *named) {
  static char *names[] = {"flavour", "seed", "memory_bytes", "delay_ns", NULL};
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  const char *flavour = NULL;
  unsigned long long seed = 0, memory = 0;
  PyObject *delay = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|zKKO:_sim_reset", names, &flavour, &seed, &memory, &delay)) return NULL;
  if (flavour && strcmp(flavour, "cuda") == 0)
    options.flavour = SLIP_SIM_FLAVOUR_CUDA;
  else if (flavour && strcmp(flavour, "ascend") == 0)
    options.flavour = SLIP_SIM_FLAVOUR_ASCEND;
  else if (flavour)
    return pyslip_raise_format(pyslip_module_state(module), PYSLIP_ERROR_INVALID_ARGUMENT, "flavour '%s' is neither 'cuda' nor 'ascend'",
                               flavour);
  options.seed = seed;
  options.memory_bytes = memory;
  if (delay != Py_None) {
    options.delay_ns = PyLong_AsUnsignedLongLong(delay);
    if (PyErr_Occurred()) return NULL;
    if (!options.delay_ns) options.delay_ns = UINT64_MAX;  // none
  }
  return pyslip_sim_done(module, slip_sim_reset(&options));
}

static PyObject *pyslip_sim_violations(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  PyObject *list = PyList_New(0);
  char text[1024];
  for (uint64_t i = 0; list && slip_sim_violation(i, text, sizeof(text)) > 0; ++i) {
    PyObject *item = PyUnicode_FromString(text);
    if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
  Py_XDECREF(list);
  return tuple;
}

static PyObject *pyslip_sim_set_device(PyObject *module, PyObject *argument) {
  long device = PyLong_AsLong(argument);
  if (PyErr_Occurred()) return NULL;
  return pyslip_sim_done(module, slip_sim_set_device(device < INT32_MIN || device > INT32_MAX ? -1 : (int32_t)device));
}

static PyObject *pyslip_sim_fail_call(PyObject *module, PyObject *args) {
  const char *call;
  unsigned long long nth;
  int persistent;
  if (!PyArg_ParseTuple(args, "sKp:_sim_fail_call", &call, &nth, &persistent)) return NULL;
  return pyslip_sim_done(module, slip_sim_fail_call(call, nth, persistent != 0));
}

static PyObject *pyslip_sim_fail_clear(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  slip_sim_fail_clear();
  Py_RETURN_NONE;
}

static PyObject *pyslip_sim_break_device(PyObject *module, PyObject *argument) {
  long device = PyLong_AsLong(argument);
  if (PyErr_Occurred()) return NULL;
  return pyslip_sim_done(module, slip_sim_break_device(device < INT32_MIN || device > INT32_MAX ? -1 : (int32_t)device));
}

static PyMethodDef pyslip_sim_functions[] = {
    {"_sim_reset", (PyCFunction)(void (*)(void))pyslip_sim_reset, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_sim_violations", pyslip_sim_violations, METH_NOARGS, NULL},
    {"_sim_set_device", pyslip_sim_set_device, METH_O, NULL},
    {"_sim_fail_call", pyslip_sim_fail_call, METH_VARARGS, NULL},
    {"_sim_fail_clear", pyslip_sim_fail_clear, METH_NOARGS, NULL},
    {"_sim_break_device", pyslip_sim_break_device, METH_O, NULL},
    {NULL, NULL, 0, NULL}};

int pyslip_sim_init(pyslip_state_t *state) {
  return PyModule_AddFunctions(state->module, pyslip_sim_functions);
}
