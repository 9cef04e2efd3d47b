// SPDX-License-Identifier: Apache-2.0
// The compiler, from Python. The wrapper slipstream.compile() adds defaults, the progress line and the artifact.
#include "slipstream/compile.h"

#include <unistd.h>

#include "pyslip.h"

// What the compiling threads share with the caller, who waits without the interpreter's lock.
typedef struct pyslip_compile_t {
  PyObject *step;  // called with (done, total, name); may be None
  PyObject *error, *value, *traceback;
  bool cancelled;
} pyslip_compile_t;

// Called from the compiling threads, one call at a time.
static void pyslip_compile_progress(void *user, uint32_t done, uint32_t total, const char *step) {
  pyslip_compile_t *self = user;
  PyGILState_STATE lock = PyGILState_Ensure();
  PyObject *result = self->cancelled ? NULL : PyObject_CallFunction(self->step, "IIs", (unsigned)done, (unsigned)total, step);
  if (!result && PyErr_Occurred() && !self->error) {
    PyErr_Fetch(&self->error, &self->value, &self->traceback);
    self->cancelled = true;
  }
  Py_XDECREF(result);
  PyGILState_Release(lock);
}

static bool pyslip_compile_cancelled(void *user) {
  pyslip_compile_t *self = user;
  PyGILState_STATE lock = PyGILState_Ensure();
  bool cancelled = self->cancelled;
  PyGILState_Release(lock);
  return cancelled;
}

static PyObject *pyslip_diagnostics_wrap(pyslip_state_t *state, const slip_diagnostics_t *list) {
  static const char *const severities[] = {"note", "error", "warning", "note"};
  size_t count = slip_diagnostics_count(list);
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; tuple && i < count; ++i) {
    const slip_diagnostic_t *found = slip_diagnostics_at(list, i);
    PyObject *item = PyStructSequence_New(state->diagnostic);
    if (item) {
      PyStructSequence_SetItem(item, 0, PyUnicode_FromString(severities[found->severity < 4 ? found->severity : 0]));
      PyStructSequence_SetItem(item, 1, PyUnicode_DecodeFSDefault(found->file));
      PyStructSequence_SetItem(item, 2, PyLong_FromUnsignedLong(found->line));
      PyStructSequence_SetItem(item, 3, PyLong_FromUnsignedLong(found->column));
      PyStructSequence_SetItem(item, 4, PyUnicode_FromString(found->code));
      PyStructSequence_SetItem(item, 5, PyUnicode_DecodeUTF8(found->message, (Py_ssize_t)strlen(found->message), "replace"));
      PyStructSequence_SetItem(item, 6, PyUnicode_DecodeUTF8(found->hint, (Py_ssize_t)strlen(found->hint), "replace"));
    }
    if (!item || PyErr_Occurred() || PyTuple_SetItem(tuple, (Py_ssize_t)i, item) < 0) Py_CLEAR(tuple);
  }
  return tuple;
}

// Raises the failure; a wrong program as CompileError with its findings. Consumes |status|.
static void pyslip_compile_fail(pyslip_state_t *state, slip_status_t status, PyObject *findings) {
  bool wrong = slip_status_code(status) == SLIP_CODE_INVALID_ARGUMENT && PyTuple_Size(findings) > 0;
  pyslip_raise(state, status);
  if (!wrong) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject *lines = PyObject_Str(value);
  for (Py_ssize_t i = 0; lines && i < PyTuple_Size(findings) && i < 20; ++i) {
    PyObject *found = PyTuple_GetItem(findings, i), *fields[5], *more;
    static const int order[5] = {1, 2, 0, 5, 4};
    for (int k = 0; k < 5; ++k) fields[k] = PyStructSequence_GetItem(found, order[k]);
    more = PyUnicode_FromFormat("%U\n  %S:%S: %S: %S [%S]", lines, fields[0], fields[1], fields[2], fields[3], fields[4]);
    Py_DECREF(lines);
    lines = more;
  }
  if (lines) pyslip_raise_format(state, PYSLIP_ERROR_COMPILE, "%U", lines);
  Py_XDECREF(lines);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value && PyObject_SetAttr(value, state->names.diagnostics, findings) < 0) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

static PyObject *pyslip_compile(PyObject *module, PyObject *args, PyObject *named) {
  static char *names[] = {"manifest", "output", "targets", "contract", "compiler", "jobs", "replace", "debug", "step", NULL};
  pyslip_state_t *state = pyslip_module_state(module);
  slip_compile_options_t options = SLIP_COMPILE_OPTIONS_INIT;
  pyslip_compile_t self = {Py_None, NULL, NULL, NULL, false};
  PyObject *manifest = NULL, *output = NULL;
  const char *contract = NULL;
  unsigned jobs = 0;
  int replace = 0, debug = 0;
  if (!PyArg_ParseTupleAndKeywords(args, named, "O&O&|zzzIppO:_compile", names, PyUnicode_FSConverter, &manifest, PyUnicode_FSConverter,
                                   &output, &options.targets, &contract, &options.compiler, &jobs, &replace, &debug, &self.step))
    goto out;
  options.jobs = jobs;
  options.replace = replace != 0;
  options.debug = debug != 0;
  if (contract && strcmp(contract, "kernel") == 0)
    options.contract = SLIP_CONTRACT_KERNEL;
  else if (contract && strcmp(contract, "program") == 0)
    options.contract = SLIP_CONTRACT_PROGRAM;
  else if (contract) {
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "contract '%s' is neither 'kernel' nor 'program'", contract);
    goto out;
  }
  options.output = PyBytes_AsString(output);
  options.progress_user = &self;
  if (self.step != Py_None) {
    options.progress = pyslip_compile_progress;
    options.cancelled = pyslip_compile_cancelled;
  }
  const char *path = PyBytes_AsString(manifest);
  slip_diagnostics_t *list = NULL;
  slip_status_t status;
  PYSLIP_WITHOUT_LOCK(status = slip_compile_manifest(path, &options, &list));
  PyObject *findings = pyslip_diagnostics_wrap(state, list);
  slip_diagnostics_free(list);
  if (self.error) {  // the caller's own, out of |step|
    slip_status_free(status);
    PyErr_Restore(self.error, self.value, self.traceback);
    Py_CLEAR(findings);
  } else if (!findings) {
    slip_status_free(status);
  } else if (!slip_status_is_ok(status)) {
    pyslip_compile_fail(state, status, findings);
    Py_CLEAR(findings);
  }
  Py_DECREF(manifest);
  Py_DECREF(output);
  return findings;
out:
  Py_XDECREF(manifest);
  Py_XDECREF(output);
  return NULL;
}

static PyMethodDef pyslip_compile_functions[] = {{"_compile", (PyCFunction)(void (*)(void))pyslip_compile, METH_VARARGS | METH_KEYWORDS,
                                                  "_compile($module, manifest, output, targets=None, contract=None, compiler=None, jobs=0, "
                                                  "replace=False, debug=False, step=None)\n--\n\nSee "
                                                  "slipstream.compile(). Returns the findings."},
                                                 {NULL, NULL, 0, NULL}};

int pyslip_compile_init(pyslip_state_t *state) {
  return PyModule_AddFunctions(state->module, pyslip_compile_functions);
}
