// SPDX-License-Identifier: Apache-2.0
// Another library's tensor with a DLPack exchange table on its type, to test and measure against: a vector of floats. It counts how it was
// read.
//
//   Vector(n)            n floats, zeroed; buffer protocol for looking at them
//   Old, Newer           the same with the table as an int (an earlier spelling), and behind a table of major version 2
//   counts()             (views, managed tensors made, managed tensors deleted, calls of __dlpack__)
//   Vector.requires_grad, .is_neg(), set by .ask(requires_grad, is_neg); .fail = 1: reading raises
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "slipstream/dlpack.h"

typedef struct exchange_t {
  slip_dl_version_t version;
  const void *previous;
  void *allocate;
  int (*managed)(void *object, slip_dl_managed_t **out);
  void *wrap;
  int (*view)(void *object, slip_dl_tensor_t *out);
  int (*stream)(int32_t type, int32_t id, void **out);
} exchange_t;

typedef struct vector_t {
  PyObject_HEAD float *data;
  int64_t count;
  int64_t stride;
  int fail;
  int grad;
  int neg;
} vector_t;

static long views, made, deleted, slow;

static void describe(vector_t *v, slip_dl_tensor_t *out) {
  *out = (slip_dl_tensor_t){v->data, {1, 0}, 1, {2, 32, 1}, &v->count, &v->stride, 0};
}

static int view(void *object, slip_dl_tensor_t *out) {
  vector_t *v = object;
  ++views;
  if (v->fail) return PyErr_SetString(PyExc_RuntimeError, "asked to fail"), -1;
  describe(v, out);
  return 0;
}

static void end(slip_dl_managed_t *managed) {
  PyGILState_STATE lock = PyGILState_Ensure();
  ++deleted;
  Py_DECREF((PyObject *)managed->manager_ctx);
  PyMem_Free(managed);
  PyGILState_Release(lock);
}

static int managed(void *object, slip_dl_managed_t **out) {
  vector_t *v = object;
  if (v->fail) return PyErr_SetString(PyExc_RuntimeError, "asked to fail"), -1;
  slip_dl_managed_t *m = PyMem_Calloc(1, sizeof(*m));
  if (!m) return PyErr_NoMemory(), -1;
  m->version = (slip_dl_version_t){1, 3};
  describe(v, &m->tensor);
  m->manager_ctx = v;
  m->deleter = end;
  Py_INCREF(object);
  ++made;
  *out = m;
  return 0;
}

static int stream(int32_t type, int32_t id, void **out) {
  (void)type;
  (void)id;
  *out = NULL;
  return 0;
}

static exchange_t table = {{1, 3}, NULL, NULL, managed, NULL, view, stream};
static exchange_t newer = {{2, 0}, &table, NULL, NULL, NULL, NULL, NULL};

static int vector_init(PyObject *self, PyObject *args, PyObject *named) {
  vector_t *v = (vector_t *)self;
  (void)named;
  if (!PyArg_ParseTuple(args, "L", &v->count)) return -1;
  PyMem_Free(v->data);
  v->data = PyMem_Calloc((size_t)v->count + 1, sizeof(float));
  v->stride = 1;
  return v->data ? 0 : (PyErr_NoMemory(), -1);
}

static void vector_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyMem_Free(((vector_t *)self)->data);
  type->tp_free(self);
  Py_DECREF(type);
}

static int vector_buffer(PyObject *self, Py_buffer *out, int flags) {
  vector_t *v = (vector_t *)self;
  int failed = PyBuffer_FillInfo(out, self, v->data, (Py_ssize_t)v->count * 4, 0, flags);
  return failed;
}

static PyObject *vector_dlpack(PyObject *self, PyObject *args, PyObject *named) {
  (void)self;
  (void)args;
  (void)named;
  ++slow;
  PyErr_SetString(PyExc_AssertionError, "the table is there to be used");
  return NULL;
}
static PyObject *vector_ask(PyObject *self, PyObject *args) {
  if (!PyArg_ParseTuple(args, "pp", &((vector_t *)self)->grad, &((vector_t *)self)->neg)) return NULL;
  Py_RETURN_NONE;
}
static PyObject *vector_is_neg(PyObject *self, PyObject *none) {
  (void)none;
  return PyBool_FromLong(((vector_t *)self)->neg);
}
static PyObject *vector_grad(PyObject *self, void *closure) {
  (void)closure;
  return PyBool_FromLong(((vector_t *)self)->grad);
}

static PyMethodDef methods[] = {{"__dlpack__", (PyCFunction)(void (*)(void))vector_dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
                                {"ask", vector_ask, METH_VARARGS, NULL},
                                {"is_neg", vector_is_neg, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static PyGetSetDef getters[] = {{"requires_grad", vector_grad, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef members[] = {{"fail", T_INT, offsetof(vector_t, fail), 0, NULL}, {NULL, 0, 0, 0, NULL}};
static PyType_Slot slots[] = {
    {Py_tp_init, vector_init}, {Py_tp_new, PyType_GenericNew},   {Py_tp_dealloc, vector_dealloc}, {Py_tp_methods, methods},
    {Py_tp_members, members},  {Py_bf_getbuffer, vector_buffer}, {Py_tp_getset, getters},         {0, NULL}};
// Without the questions of a framework with autograd.
static PyType_Slot plain_slots[] = {{Py_tp_init, vector_init}, {Py_tp_new, PyType_GenericNew},   {Py_tp_dealloc, vector_dealloc},
                                    {Py_tp_members, members},  {Py_bf_getbuffer, vector_buffer}, {0, NULL}};
static PyType_Spec spec = {"foreign.Vector", sizeof(vector_t), 0, Py_TPFLAGS_DEFAULT, slots};
static PyType_Spec plain = {"foreign.Plain", sizeof(vector_t), 0, Py_TPFLAGS_DEFAULT, plain_slots};

static PyObject *counts(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  return Py_BuildValue("(llll)", views, made, deleted, slow);
}

static int add(PyObject *module, PyType_Spec *from, const char *name, PyObject *value) {
  PyObject *type = PyType_FromSpec(from);
  int failed = !type || !value || PyObject_SetAttrString(type, "__dlpack_c_exchange_api__", value) < 0 ||
               PyModule_AddObjectRef(module, name, type) < 0;
  Py_XDECREF(type);
  Py_XDECREF(value);
  return failed ? -1 : 0;
}

static PyMethodDef functions[] = {{"counts", counts, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "foreign", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_foreign(void);
PyMODINIT_FUNC PyInit_foreign(void) {
  PyObject *module = PyModule_Create(&definition);
  if (!module || add(module, &spec, "Vector", PyCapsule_New(&table, "dlpack_exchange_api", NULL)) ||
      add(module, &plain, "Plain", PyCapsule_New(&table, "dlpack_exchange_api", NULL)) ||
      add(module, &spec, "Old", PyLong_FromVoidPtr(&table)) ||
      add(module, &spec, "Newer", PyCapsule_New(&newer, "dlpack_exchange_api", NULL)))
    Py_CLEAR(module);
  return module;
}
