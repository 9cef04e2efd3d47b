// SPDX-License-Identifier: Apache-2.0
// Signature: what a callable takes and returns.
#include "pyslip.h"

PyObject *pyslip_signature_wrap(pyslip_state_t *state, slip_signature_t *signature) {
  pyslip_signature_t *self = PyObject_New(pyslip_signature_t, state->signature);
  if (!self) return NULL;
  slip_signature_retain(signature);
  self->signature = signature;
  return (PyObject *)self;
}

static PyObject *pyslip_signature_new(PyTypeObject *type, PyObject *args, PyObject *named) {
  static char *names[] = {"text", NULL};
  const char *text;
  Py_ssize_t length;
  pyslip_state_t *state = pyslip_state_of(type);
  slip_signature_t *signature = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, named, "s#", names, &text, &length)) return NULL;
  if (!pyslip_ok(state, slip_signature_parse(text, (size_t)length, slip_allocator_system(), &signature))) return NULL;
  PyObject *self = pyslip_signature_wrap(state, signature);
  slip_signature_release(signature);
  return self;
}

static void pyslip_signature_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  slip_signature_release(((pyslip_signature_t *)self)->signature);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject *pyslip_signature_str(PyObject *self) {
  slip_signature_t *signature = ((pyslip_signature_t *)self)->signature;
  size_t length = slip_signature_format(signature, NULL, 0);
  char *text = PyMem_Malloc(length + 1);
  if (!text) return PyErr_NoMemory();
  slip_signature_format(signature, text, length + 1);
  PyObject *result = PyUnicode_FromStringAndSize(text, (Py_ssize_t)length);
  PyMem_Free(text);
  return result;
}

static PyObject *pyslip_signature_repr(PyObject *self) {
  PyObject *text = pyslip_signature_str(self);
  PyObject *result = text ? PyUnicode_FromFormat("slipstream.Signature(%R)", text) : NULL;
  Py_XDECREF(text);
  return result;
}

static PyObject *pyslip_param_shape(const slip_param_t *param) {
  PyObject *shape = PyTuple_New(param->rank);
  for (uint8_t d = 0; shape && d < param->rank; ++d) {
    PyObject *dim = param->dims[d] != SLIP_DIM_DYNAMIC ? PyLong_FromLongLong(param->dims[d])
                    : param->dim_names[d]              ? PyUnicode_FromString(param->dim_names[d])
                                                       : Py_NewRef(Py_None);
    if (!dim || PyTuple_SetItem(shape, d, dim) < 0) Py_CLEAR(shape);
  }
  return shape;
}

static PyObject *pyslip_param_wrap(pyslip_state_t *state, const slip_param_t *param) {
  bool scalar = param->direction == SLIP_DIRECTION_SCALAR;
  PyObject *item = PyStructSequence_New(state->param);
  PyObject *fields[] = {PyUnicode_FromString(param->name), PyUnicode_FromString(pyslip_direction_name(param->direction)),
                        PyUnicode_FromString(slip_dtype_name(param->dtype)), scalar ? Py_NewRef(Py_None) : pyslip_param_shape(param),
                        scalar ? Py_NewRef(Py_None) : PyUnicode_FromString(param->layout == SLIP_LAYOUT_NZ ? "nz" : "nd")};
  bool ok = item != NULL;
  for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); ++i) {
    ok = ok && fields[i];
    if (item)
      PyStructSequence_SetItem(item, (Py_ssize_t)i, fields[i]);
    else
      Py_XDECREF(fields[i]);
  }
  if (!ok) Py_CLEAR(item);
  return item;
}

static PyObject *pyslip_signature_params(PyObject *self, void *closure) {
  (void)closure;
  slip_signature_t *signature = ((pyslip_signature_t *)self)->signature;
  size_t count = slip_signature_param_count(signature);
  PyObject *params = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; params && i < count; ++i) {
    PyObject *param = pyslip_param_wrap(pyslip_state_of(Py_TYPE(self)), slip_signature_param(signature, i));
    if (!param || PyTuple_SetItem(params, (Py_ssize_t)i, param) < 0) Py_CLEAR(params);
  }
  return params;
}

static PyObject *pyslip_signature_returns(PyObject *self, void *closure) {
  (void)closure;
  const int32_t *indices;
  size_t count = slip_signature_return_aliases(((pyslip_signature_t *)self)->signature, &indices);
  PyObject *returns = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; returns && i < count; ++i) {
    PyObject *index = PyLong_FromLong(indices[i]);
    if (!index || PyTuple_SetItem(returns, (Py_ssize_t)i, index) < 0) Py_CLEAR(returns);
  }
  return returns;
}

static PyObject *pyslip_signature_handle(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((pyslip_signature_t *)self)->signature);
}

static PyObject *pyslip_signature_to_json(PyObject *self, PyObject *none) {
  (void)none;
  slip_allocator_t allocator = slip_allocator_system();
  slip_bytes_t text = {NULL, 0};
  if (!pyslip_ok(pyslip_state_of(Py_TYPE(self)), slip_signature_to_json(((pyslip_signature_t *)self)->signature, allocator, &text)))
    return NULL;
  PyObject *result = PyUnicode_FromStringAndSize((const char *)text.data, (Py_ssize_t)text.size);
  allocator.control(allocator.self, text.data, text.size + 1, 0, sizeof(void *));
  return result;
}

static Py_ssize_t pyslip_signature_length(PyObject *self) {
  return (Py_ssize_t)slip_signature_param_count(((pyslip_signature_t *)self)->signature);
}

static PyObject *pyslip_signature_compare(PyObject *self, PyObject *other, int operation) {
  if (Py_TYPE(other) != Py_TYPE(self) || (operation != Py_EQ && operation != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  bool equal = slip_signature_equal(((pyslip_signature_t *)self)->signature, ((pyslip_signature_t *)other)->signature);
  return PyBool_FromLong(equal == (operation == Py_EQ));
}

static Py_hash_t pyslip_signature_hash(PyObject *self) {
  Py_hash_t hash = (Py_hash_t)slip_signature_hash(((pyslip_signature_t *)self)->signature);
  return hash == -1 ? -2 : hash;
}

static PyGetSetDef pyslip_signature_members[] = {
    {"params", pyslip_signature_params, NULL, "Tuple of Param, one a parameter, in order.", NULL},
    {"returns", pyslip_signature_returns, NULL, "Indices into params of the returned values, in order; repeats are allowed.", NULL},
    {"handle", pyslip_signature_handle, NULL, "Address of the slip_signature_t; lives as long as this object.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef pyslip_signature_methods[] = {{"to_json", pyslip_signature_to_json, METH_NOARGS,
                                                  "to_json($self, /)\n--\n\nThe JSON form of the signature, as in compiled_meta.json."},
                                                 {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_signature_slots[] = {
    {Py_tp_doc,
     "Signature(text)\n--\n\nWhat a callable takes and returns: '(in x: f32[N], inout y: f32[N], a: f32) -> (y)'.\n\nImmutable; compares "
     "and hashes "
     "by content; str() gives the text back. InvalidArgumentError names the column of a mistake."},
    {Py_tp_new, pyslip_signature_new},
    {Py_tp_dealloc, pyslip_signature_dealloc},
    {Py_tp_str, pyslip_signature_str},
    {Py_tp_repr, pyslip_signature_repr},
    {Py_tp_richcompare, pyslip_signature_compare},
    {Py_tp_hash, pyslip_signature_hash},
    {Py_sq_length, pyslip_signature_length},
    {Py_tp_getset, pyslip_signature_members},
    {Py_tp_methods, pyslip_signature_methods},
    {0, NULL}};
static PyType_Spec pyslip_signature_spec = {"slipstream.Signature", sizeof(pyslip_signature_t), 0,
                                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, pyslip_signature_slots};

int pyslip_signature_init(pyslip_state_t *state) {
  state->signature = pyslip_add_type(state, &pyslip_signature_spec);
  return state->signature ? 0 : -1;
}
