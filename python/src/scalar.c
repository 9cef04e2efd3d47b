// SPDX-License-Identifier: Apache-2.0
// Python values become scalars of the declared dtype. Nothing is converted that would not survive: no int for a bool or the other way
// round, no float for an int (3.0 too), nothing out of range. Values in a typed box of ctypes must be of the very dtype; NumPy's scalars
// count by their kind.
#include "read.h"

void *pyslip_refuse_status(pyslip_state_t *state, const pyslip_place_t *place, slip_status_t status) {
  slip_code_t code = slip_status_code(status);
  if (!place || code == SLIP_CODE_OUT_OF_MEMORY) return pyslip_raise(state, status);
  // The place leads, as in every other refusal.
  slip_status_t placed =
      slip_status_make(code, slip_status_platform_code(status), __FILE__, __LINE__, "%s: parameter %u '%s' (%s): %s", place->callable,
                       (unsigned)place->index, place->param, pyslip_direction_name(place->direction), slip_status_message(status));
  slip_status_free(status);
  return pyslip_raise(state, placed);
}

static bool pyslip_scalar_done(pyslip_state_t *state, const pyslip_place_t *place, slip_status_t status) {
  return __builtin_expect(slip_status_is_ok(status), 1) || pyslip_refuse_status(state, place, status) != NULL;
}

static bool pyslip_scalar_wrong(pyslip_state_t *state, const pyslip_place_t *place, slip_dtype_t dtype, PyObject *object,
                                const char *remedy) {
  return pyslip_refuse(state, place, PYSLIP_ERROR_ARGUMENT_TYPE, "expects a %s, got %.100R of type %R; %s", slip_dtype_name(dtype), object,
                       Py_TYPE(object), remedy) != NULL;
}

static bool pyslip_scalar_int(pyslip_state_t *state, const pyslip_place_t *place, slip_dtype_t dtype, PyObject *object,
                              slip_scalar_t *out) {
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (__builtin_expect(!overflow, 1)) {
    if (value == -1 && PyErr_Occurred()) return false;
    return pyslip_scalar_done(state, place, slip_scalar_from_i64(dtype, value, out));
  }
  slip_dtype_kind_e kind = slip_dtype_kind(dtype);
  if (overflow > 0 && kind != SLIP_DTYPE_KIND_FLOAT) {
    unsigned long long large = PyLong_AsUnsignedLongLong(object);
    if (!PyErr_Occurred()) return pyslip_scalar_done(state, place, slip_scalar_from_u64(dtype, large, out));
    PyErr_Clear();
  }
  if (kind == SLIP_DTYPE_KIND_FLOAT) {
    double large = PyLong_AsDouble(object);
    if (!PyErr_Occurred()) return pyslip_scalar_done(state, place, slip_scalar_from_f64(dtype, large, out));
    PyErr_Clear();
  }
  return pyslip_refuse(state, place, PYSLIP_ERROR_INVALID_ARGUMENT, "%.100R is outside the range of %s; pass a value that fits", object,
                       slip_dtype_name(dtype)) != NULL;
}

static bool pyslip_scalar_float(pyslip_state_t *state, const pyslip_place_t *place, slip_dtype_t dtype, PyObject *object,
                                slip_scalar_t *out) {
  double value = PyFloat_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred()) return false;
  if (__builtin_expect(slip_dtype_kind(dtype) != SLIP_DTYPE_KIND_FLOAT, 0))
    return pyslip_scalar_wrong(state, place, dtype, object,
                               dtype == SLIP_DTYPE_BOOL ? "pass True or False" : "a float is not cut to an integer here; pass int(value)");
  return pyslip_scalar_done(state, place, slip_scalar_from_f64(dtype, value, out));
}

static bool pyslip_scalar_bool(pyslip_state_t *state, const pyslip_place_t *place, slip_dtype_t dtype, PyObject *object, bool value,
                               slip_scalar_t *out) {
  if (dtype != SLIP_DTYPE_BOOL)
    return pyslip_scalar_wrong(state, place, dtype, object, "a bool is no number here; pass int(value) or float(value)");
  *out = slip_scalar_bool(value);
  return true;
}

// 1: an instance; 0: not, or the module is not imported.
static bool pyslip_is_instance(const char *module, const char *type, PyObject *object) {
  PyObject *owner = pyslip_imported(module);
  PyObject *class = owner ? PyObject_GetAttrString(owner, type) : NULL;
  bool is = class && PyObject_IsInstance(object, class) == 1;
  Py_XDECREF(class);
  PyErr_Clear();
  return is;
}

static slip_dtype_t pyslip_ctypes_dtype(char code) {
  static const slip_dtype_t ints[] = {0, SLIP_DTYPE_I8, SLIP_DTYPE_I16, 0, SLIP_DTYPE_I32, 0, 0, 0, SLIP_DTYPE_I64};
  static const slip_dtype_t uints[] = {0, SLIP_DTYPE_U8, SLIP_DTYPE_U16, 0, SLIP_DTYPE_U32, 0, 0, 0, SLIP_DTYPE_U64};
  switch (code) {
    case '?':
      return SLIP_DTYPE_BOOL;
    case 'f':
      return SLIP_DTYPE_F32;
    case 'd':
      return SLIP_DTYPE_F64;
    case 'b':
      return ints[sizeof(signed char)];
    case 'h':
      return ints[sizeof(short)];
    case 'i':
      return ints[sizeof(int)];
    case 'l':
      return ints[sizeof(long)];
    case 'q':
      return ints[sizeof(long long)];
    case 'B':
      return uints[sizeof(unsigned char)];
    case 'H':
      return uints[sizeof(unsigned short)];
    case 'I':
      return uints[sizeof(unsigned)];
    case 'L':
      return uints[sizeof(unsigned long)];
    case 'Q':
      return uints[sizeof(unsigned long long)];
    default:
      return SLIP_DTYPE_NONE;
  }
}

static bool pyslip_scalar_box(pyslip_state_t *state, const pyslip_place_t *place, slip_dtype_t dtype, PyObject *object,
                              slip_scalar_t *out) {
  PyObject *code = PyObject_GetAttr(object, state->names._type_);
  const char *text = code && PyUnicode_Check(code) ? PyUnicode_AsUTF8AndSize(code, NULL) : NULL;
  slip_dtype_t boxed = text && text[0] && !text[1] ? pyslip_ctypes_dtype(text[0]) : SLIP_DTYPE_NONE;
  Py_XDECREF(code);
  PyErr_Clear();
  if (boxed != dtype)
    return pyslip_scalar_wrong(state, place, dtype, object, "a box of ctypes must be of the declared type; pass its value");
  PyObject *value = PyObject_GetAttr(object, state->names.value);
  if (!value) return false;
  bool ok = pyslip_read_scalar(state, place, dtype, value, out);
  Py_DECREF(value);
  return ok;
}

// The kind of a scalar of NumPy's, or of ml_dtypes, whose scalars are NumPy's too: 'b', 'i', 'u', 'f', or '?' for others.
static char pyslip_numpy_kind(pyslip_state_t *state, PyObject *object) {
  PyObject *described = PyObject_GetAttr(object, state->names.dtype);
  PyObject *kind = described ? PyObject_GetAttr(described, state->names.kind) : NULL;
  const char *letter = kind && PyUnicode_Check(kind) ? PyUnicode_AsUTF8AndSize(kind, NULL) : NULL;
  char what = letter && strchr("biuf", letter[0]) ? letter[0] : '?';
  if (letter && letter[0] == 'V') {  // ml_dtypes: only the name tells, which NumPy makes up slowly
    PyObject *name = PyObject_GetAttr(described, state->names.name);
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (text && (strcmp(text, "bfloat16") == 0 || strncmp(text, "float", 5) == 0)) what = 'f';
    Py_XDECREF(name);
  }
  Py_XDECREF(kind);
  Py_XDECREF(described);
  PyErr_Clear();
  return what;
}

static bool pyslip_scalar_numpy(pyslip_state_t *state, const pyslip_place_t *place, slip_dtype_t dtype, PyObject *object, char what,
                                slip_scalar_t *out) {
  if (what == 'b') {
    int value = PyObject_IsTrue(object);
    return value >= 0 && pyslip_scalar_bool(state, place, dtype, object, value != 0, out);
  }
  if (what == 'f') return pyslip_scalar_float(state, place, dtype, object, out);
  if (what == '?') return pyslip_scalar_wrong(state, place, dtype, object, "pass a number of Python's or of a numeric dtype");
  PyObject *value = PyNumber_Index(object);
  if (!value) return false;
  bool ok = pyslip_read_scalar(state, place, dtype, value, out);
  Py_DECREF(value);
  return ok;
}

static bool pyslip_scalar_other(pyslip_state_t *state, const pyslip_place_t *place, slip_dtype_t dtype, PyObject *object,
                                slip_scalar_t *out) {
  if (PyLong_Check(object))
    return dtype == SLIP_DTYPE_BOOL ? pyslip_scalar_wrong(state, place, dtype, object, "pass True or False")
                                    : pyslip_scalar_int(state, place, dtype, object, out);
  pyslip_type_t *type = pyslip_type_find(state, Py_TYPE(object));
  if (!type->scalar_kind && pyslip_is_instance("numpy", "generic", object)) {
    char what = pyslip_numpy_kind(state, object);
    type = pyslip_type_find(state, Py_TYPE(object));  // the table may have changed
    if (type == &state->no_type) return pyslip_scalar_numpy(state, place, dtype, object, what, out);
    type->scalar_kind = what;
  }
  if (type->scalar_kind) return pyslip_scalar_numpy(state, place, dtype, object, type->scalar_kind, out);
  if (PyFloat_Check(object)) return pyslip_scalar_float(state, place, dtype, object, out);
  if (pyslip_is_instance("_ctypes", "_SimpleCData", object)) return pyslip_scalar_box(state, place, dtype, object, out);
  if (pyslip_is_tensor(state, object)) {
    // Its repr may be long, or wait for a device.
    pyslip_refuse(state, place, PYSLIP_ERROR_ARGUMENT_TYPE, "expects a %s, got a tensor of type %R; pass its value, such as x.item()",
                  slip_dtype_name(dtype), Py_TYPE(object));
    return false;
  }
  PyObject *index = PyObject_GetAttr(object, state->names.__index__);
  PyErr_Clear();
  Py_XDECREF(index);
  if (!index || dtype == SLIP_DTYPE_BOOL) return pyslip_scalar_wrong(state, place, dtype, object, "pass a value of Python's");
  PyObject *value = PyNumber_Index(object);
  if (!value) return false;
  bool ok = pyslip_scalar_int(state, place, dtype, value, out);
  Py_DECREF(value);
  return ok;
}

bool pyslip_read_scalar(pyslip_state_t *state, const pyslip_place_t *place, slip_dtype_t dtype, PyObject *object, slip_scalar_t *out) {
  if (PyFloat_CheckExact(object)) {
    double value = PyFloat_AsDouble(object);
    if (dtype == SLIP_DTYPE_F64) {
      *out = slip_scalar_f64(value);
      return true;
    }
    // Exact, so that neither rounding nor the processor's treatment of subnormals matters.
    if (dtype == SLIP_DTYPE_F32 && (double)(float)value == value) {
      *out = slip_scalar_f32((float)value);
      return true;
    }
    return pyslip_scalar_float(state, place, dtype, object, out);
  }
  if (object == Py_True || object == Py_False) return pyslip_scalar_bool(state, place, dtype, object, object == Py_True, out);
  if (PyLong_CheckExact(object) && dtype != SLIP_DTYPE_BOOL) return pyslip_scalar_int(state, place, dtype, object, out);
  return pyslip_scalar_other(state, place, dtype, object, out);
}
