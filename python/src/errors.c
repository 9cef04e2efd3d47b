// SPDX-License-Identifier: Apache-2.0
// Statuses become exceptions: one class a family of codes, with .code, .platform_code and .name.
#include <stdarg.h>
#include <stdio.h>

#include "pyslip.h"

static const char *const pyslip_error_names[] = {
#define PYSLIP_ERROR_NAME(name, text, doc) text,
    PYSLIP_ERROR_TABLE(PYSLIP_ERROR_NAME)
#undef PYSLIP_ERROR_NAME
};
static const char *const pyslip_error_docs[] = {
#define PYSLIP_ERROR_DOC(name, text, doc) doc,
    PYSLIP_ERROR_TABLE(PYSLIP_ERROR_DOC)
#undef PYSLIP_ERROR_DOC
};

static pyslip_error_e pyslip_error_of(slip_code_t code) {
  switch (code) {
#define PYSLIP_ERROR_CASE(name) \
  case SLIP_CODE_##name:        \
    return PYSLIP_ERROR_##name;
    PYSLIP_ERROR_CASE(INTERNAL)
    PYSLIP_ERROR_CASE(UNSUPPORTED)
    PYSLIP_ERROR_CASE(INCOMPATIBLE)
    PYSLIP_ERROR_CASE(INVALID_ARGUMENT)
    PYSLIP_ERROR_CASE(INVALID_STATE)
    PYSLIP_ERROR_CASE(MODE_CONFLICT)
    PYSLIP_ERROR_CASE(CONFLICT)
    PYSLIP_ERROR_CASE(RECURSIVE)
    PYSLIP_ERROR_CASE(FORKED)
    PYSLIP_ERROR_CASE(CAPTURE_UNSUPPORTED)
    PYSLIP_ERROR_CASE(OUT_OF_MEMORY)
    PYSLIP_ERROR_CASE(NOT_FOUND)
    PYSLIP_ERROR_CASE(IO)
    PYSLIP_ERROR_CASE(CORRUPT)
    PYSLIP_ERROR_CASE(TIMEOUT)
    PYSLIP_ERROR_CASE(CANCELLED)
    PYSLIP_ERROR_CASE(NOT_READY)
    PYSLIP_ERROR_CASE(BUSY)
    PYSLIP_ERROR_CASE(DEVICE)
    PYSLIP_ERROR_CASE(POISONED)
    PYSLIP_ERROR_CASE(NOT_PREPARED)
#undef PYSLIP_ERROR_CASE
    case SLIP_CODE_CAPACITY_COUNT:
    case SLIP_CODE_CAPACITY_BYTES:
    case SLIP_CODE_CAPACITY_IMAGE:
      return PYSLIP_ERROR_CAPACITY;
    default:
      return code <= -1101 && code > -1200 ? PYSLIP_ERROR_GRAPH : PYSLIP_ERROR_SLIP;
  }
}

static slip_code_t pyslip_code_of(pyslip_error_e error) {
  switch (error) {
    case PYSLIP_ERROR_ARGUMENT_TYPE:
    case PYSLIP_ERROR_COMPILE:
    case PYSLIP_ERROR_INVALID_ARGUMENT:
      return SLIP_CODE_INVALID_ARGUMENT;
    case PYSLIP_ERROR_INVALID_STATE:
      return SLIP_CODE_INVALID_STATE;
    case PYSLIP_ERROR_UNSUPPORTED:
      return SLIP_CODE_UNSUPPORTED;
    case PYSLIP_ERROR_INCOMPATIBLE:
      return SLIP_CODE_INCOMPATIBLE;
    case PYSLIP_ERROR_NOT_PREPARED:
      return SLIP_CODE_NOT_PREPARED;
    case PYSLIP_ERROR_TIMEOUT:
      return SLIP_CODE_TIMEOUT;
    case PYSLIP_ERROR_BUSY:
      return SLIP_CODE_BUSY;
    case PYSLIP_ERROR_CORRUPT:
      return SLIP_CODE_CORRUPT;
    default:
      return SLIP_CODE_INTERNAL;
  }
}

static void pyslip_raise_text(pyslip_state_t *state, pyslip_error_e error, slip_code_t code, int64_t platform_code, PyObject *text) {
  PyObject *exception = text ? PyObject_CallFunctionObjArgs(state->errors[error], text, NULL) : NULL;
  PyObject *number = exception ? PyLong_FromLong(code) : NULL;
  PyObject *platform = number ? PyLong_FromLongLong(platform_code) : NULL;
  PyObject *name = platform ? PyUnicode_FromString(slip_code_name(code)) : NULL;
  if (name && PyObject_SetAttr(exception, state->names.code, number) == 0 &&
      PyObject_SetAttr(exception, state->names.platform_code, platform) == 0 && PyObject_SetAttr(exception, state->names.name, name) == 0)
    PyErr_SetObject(state->errors[error], exception);
  Py_XDECREF(name);
  Py_XDECREF(platform);
  Py_XDECREF(number);
  Py_XDECREF(exception);
}

PyObject *pyslip_raise(pyslip_state_t *state, slip_status_t status) {
  slip_code_t code = slip_status_code(status);
  size_t length = slip_status_format(status, NULL, 0), head = strlen(slip_code_name(code));
  char *buffer = PyMem_Malloc(length + 1);
  if (!buffer) {
    slip_status_free(status);
    return PyErr_NoMemory();
  }
  slip_status_format(status, buffer, length + 1);
  // The class tells the code, and where in the library it was made is for the library's own tools.
  char *text = buffer, *end;
  if (strncmp(text, slip_code_name(code), head) == 0 && text[head] == ':') text += head + 1;
  while (*text == ' ') ++text;
  end = text + strlen(text);
  if (end > text && end[-1] == ']') {
    char *bracket = end;
    while (bracket > text && *bracket != '[') --bracket;
    if (bracket > text && bracket[-1] == ' ' && strstr(bracket, ".c:")) bracket[-1] = '\0';
  }
  PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  int64_t platform_code = slip_status_platform_code(status);
  PyMem_Free(buffer);
  slip_status_free(status);
  pyslip_raise_text(state, pyslip_error_of(code), code, platform_code, message);
  Py_XDECREF(message);
  return NULL;
}

PyObject *pyslip_raise_format(pyslip_state_t *state, pyslip_error_e error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyObject *message = PyUnicode_FromFormatV(format, arguments);
  va_end(arguments);
  pyslip_raise_text(state, error, pyslip_code_of(error), 0, message);
  Py_XDECREF(message);
  return NULL;
}

static PyObject *pyslip_error_bases(pyslip_state_t *state, size_t error) {
  PyObject *parent = state->errors[PYSLIP_ERROR_SLIP];
  switch (error) {
    case PYSLIP_ERROR_SLIP:
      return Py_BuildValue("(O)", PyExc_RuntimeError);
    case PYSLIP_ERROR_UNSUPPORTED:
      return Py_BuildValue("(OO)", parent, PyExc_NotImplementedError);
    case PYSLIP_ERROR_INVALID_ARGUMENT:
      return Py_BuildValue("(OO)", parent, PyExc_ValueError);
    case PYSLIP_ERROR_ARGUMENT_TYPE:
      return Py_BuildValue("(OO)", state->errors[PYSLIP_ERROR_INVALID_ARGUMENT], PyExc_TypeError);
    case PYSLIP_ERROR_COMPILE:
      return Py_BuildValue("(O)", state->errors[PYSLIP_ERROR_INVALID_ARGUMENT]);
    case PYSLIP_ERROR_OUT_OF_MEMORY:
      return Py_BuildValue("(OO)", parent, PyExc_MemoryError);
    case PYSLIP_ERROR_TIMEOUT:
      return Py_BuildValue("(OO)", parent, PyExc_TimeoutError);
    default:
      return Py_BuildValue("(O)", parent);
  }
}

int pyslip_errors_init(pyslip_state_t *state) {
  for (size_t i = 0; i < PYSLIP_ERROR_COUNT; ++i) {
    char name[64];
    snprintf(name, sizeof(name), "slipstream.%s", pyslip_error_names[i]);
    PyObject *bases = pyslip_error_bases(state, i);
    PyObject *members = i == 0 ? Py_BuildValue("{sOsOsO}", "code", Py_None, "platform_code", Py_None, "name", Py_None) : PyDict_New();
    if (members && i == PYSLIP_ERROR_COMPILE && PyDict_SetItemString(members, "diagnostics", state->no_arguments) < 0) Py_CLEAR(members);
    if (bases && members) state->errors[i] = PyErr_NewExceptionWithDoc(name, pyslip_error_docs[i], bases, members);
    Py_XDECREF(bases);
    Py_XDECREF(members);
    if (!state->errors[i] || PyModule_AddObjectRef(state->module, pyslip_error_names[i], state->errors[i]) < 0) return -1;
  }
  return 0;
}
