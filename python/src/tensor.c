// SPDX-License-Identifier: Apache-2.0
// Tensor: a view of memory on a device, its own or another library's. Goes out by buffer protocol, __dlpack__ and the exchange table.
#include <stdio.h>

#include "tensor.h"

#include "read.h"

pyslip_tensor_t *pyslip_tensor_allocate(pyslip_state_t *state) {
  pyslip_tensor_t *self = PyObject_GC_New(pyslip_tensor_t, state->tensor);
  if (!self) return NULL;
  self->kept.kind = PYSLIP_KEPT_NOTHING;
  self->platform = NULL;
  self->memory = NULL;
  self->base = NULL;
  self->exports = 0;
  memset(&self->tensor, 0, sizeof(self->tensor));
  return self;
}

static int pyslip_tensor_traverse(PyObject *object, visitproc visit, void *arg) {
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->base);
  if (self->kept.kind == PYSLIP_KEPT_OBJECT) Py_VISIT(self->kept.value.object);
  if (self->kept.kind == PYSLIP_KEPT_BUFFER) Py_VISIT(self->kept.value.buffer.obj);
  return 0;
}

// Nothing to clear: the memory must stay while anybody can reach the tensor, and a cycle through its owner is broken at that owner.

static void pyslip_tensor_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  PyObject_GC_UnTrack(object);
  pyslip_kept_release(&self->kept, 1);
  if (self->memory) slip_status_free(slip_memory_free(self->platform, self->tensor.device.ordinal, self->memory));
  Py_XDECREF(self->base);
  PyObject_GC_Del(object);
  Py_DECREF(type);
}

static PyObject *pyslip_tensor_read(pyslip_state_t *state, PyObject *source) {
  pyslip_tensor_t *self = pyslip_tensor_allocate(state);
  if (!self) return NULL;
  if (!pyslip_read_tensor(state, NULL, source, PYSLIP_READ_OWN, &self->tensor, &self->kept)) {
    Py_DECREF(self);
    return NULL;
  }
  PyObject_GC_Track((PyObject *)self);
  return (PyObject *)self;
}

static PyObject *pyslip_tensor_new(PyTypeObject *type, PyObject *args, PyObject *named) {
  static char *names[] = {"source", "dtype", NULL};
  pyslip_state_t *state = pyslip_state_of(type);
  PyObject *source;
  const char *dtype = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, named, "O|$z:Tensor", names, &source, &dtype)) return NULL;
  pyslip_tensor_t *self = (pyslip_tensor_t *)pyslip_tensor_read(state, source);
  if (!self || !dtype) return (PyObject *)self;
  slip_dtype_t wanted = slip_dtype_from_name(dtype, strlen(dtype));
  if (wanted == SLIP_DTYPE_NONE || slip_dtype_size_bytes(wanted) != slip_dtype_size_bytes(self->tensor.dtype)) {
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT,
                        "dtype '%s' cannot stand for the bytes of %s; pass a dtype of the same size, such as 'bf16' for 'u16'", dtype,
                        slip_dtype_name(self->tensor.dtype));
    Py_DECREF(self);
    return NULL;
  }
  self->tensor.dtype = wanted;
  return (PyObject *)self;
}

// --- making ----------------------------------------------------------------------------------------------------------------------------

bool pyslip_shape_parse(pyslip_state_t *state, PyObject *shape, uint8_t *out_rank, int64_t *dims) {
  PyObject *tuple = PyLong_Check(shape) ? Py_BuildValue("(O)", shape) : PySequence_Tuple(shape);
  if (!tuple) return false;
  Py_ssize_t rank = PyTuple_Size(tuple);
  if (rank > SLIP_MAX_RANK)
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "shape %R has rank %zd; at most %d is possible", shape, rank, SLIP_MAX_RANK);
  for (Py_ssize_t i = 0; i < rank && !PyErr_Occurred(); ++i) dims[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
  Py_DECREF(tuple);
  *out_rank = (uint8_t)rank;
  return !PyErr_Occurred();
}

slip_dtype_t pyslip_dtype_parse(pyslip_state_t *state, const char *name) {
  slip_dtype_t dtype = slip_dtype_from_name(name, strlen(name));
  if (dtype == SLIP_DTYPE_NONE)
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "dtype '%s' is unknown; such as 'f32', 'bf16', 'i64'", name);
  return dtype;
}

PyObject *pyslip_tensor_make(pyslip_state_t *state, uint8_t rank, const int64_t *dims, slip_dtype_t dtype, const char *platform,
                             slip_device_t device) {
  slip_tensor_t tensor;
  slip_platform_t *found = NULL;
  void *memory = NULL;
  if (!pyslip_ok(state, slip_tensor_initialize(&tensor, dtype, rank, dims, NULL, device))) return NULL;
  uint64_t bytes = (uint64_t)slip_tensor_element_count(&tensor) * slip_dtype_size_bytes(dtype);
  slip_status_t status;
  PyThreadState *thread = PyEval_SaveThread();
  status = slip_platform_find(platform, &found);
  if (slip_status_is_ok(status)) status = slip_memory_allocate(found, device.ordinal, bytes, &memory);
  PyEval_RestoreThread(thread);
  if (!pyslip_ok(state, status)) return NULL;
  pyslip_tensor_t *self = pyslip_tensor_allocate(state);
  if (!self) {
    if (memory) slip_status_free(slip_memory_free(found, device.ordinal, memory));
    return NULL;
  }
  tensor.data = memory;
  tensor.storage_base = memory;
  tensor.storage_bytes = memory ? bytes : 0;
  self->tensor = tensor;
  self->platform = found;
  self->memory = memory;
  PyObject_GC_Track((PyObject *)self);
  return (PyObject *)self;
}

static PyObject *pyslip_tensor_empty(PyObject *module, PyObject *args, PyObject *named) {
  static char *names[] = {"shape", "dtype", "device", NULL};
  pyslip_state_t *state = pyslip_module_state(module);
  PyObject *shape;
  const char *dtype_name = "f32", *device_name = "cpu:0";
  char platform[32];
  int64_t dims[SLIP_MAX_RANK];
  uint8_t rank;
  slip_device_t device;
  if (!PyArg_ParseTupleAndKeywords(args, named, "O|s$s:empty", names, &shape, &dtype_name, &device_name)) return NULL;
  if (!pyslip_shape_parse(state, shape, &rank, dims) || !pyslip_device_parse(state, device_name, platform, &device)) return NULL;
  slip_dtype_t dtype = pyslip_dtype_parse(state, dtype_name);
  if (dtype == SLIP_DTYPE_NONE) return NULL;
  return pyslip_tensor_make(state, rank, dims, dtype, platform, device);
}

static PyObject *pyslip_from_dlpack(PyObject *module, PyObject *source) {
  return pyslip_tensor_read(pyslip_module_state(module), source);
}

// A view of |self|'s memory; |status| made |tensor|.
static PyObject *pyslip_tensor_view(pyslip_tensor_t *self, slip_status_t status, const slip_tensor_t *tensor) {
  pyslip_state_t *state = pyslip_state_of(Py_TYPE(self));
  if (!pyslip_ok(state, status)) return NULL;
  pyslip_tensor_t *view = pyslip_tensor_allocate(state);
  if (!view) return NULL;
  view->tensor = *tensor;
  view->base = Py_NewRef(self->base ? self->base : (PyObject *)self);
  PyObject_GC_Track((PyObject *)view);
  return (PyObject *)view;
}

// An axis among arguments, for a function that refuses what is not below the rank; false with an exception for what 32 bits do not hold.
static bool pyslip_tensor_axis(pyslip_tensor_t *self, long long axis, uint32_t *out) {
  *out = (uint32_t)axis;
  if (axis >= 0 && axis <= UINT32_MAX) return true;
  pyslip_raise_format(pyslip_state_of(Py_TYPE(self)), PYSLIP_ERROR_INVALID_ARGUMENT, "axis %lld of a tensor of rank %u; pass one from 0",
                      axis, (unsigned)self->tensor.rank);
  return false;
}

static PyObject *pyslip_tensor_slice(PyObject *object, PyObject *args, PyObject *named) {
  static char *names[] = {"axis", "start", "length", "step", NULL};
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  slip_tensor_t view;
  uint32_t axis;
  long long wanted, start, length, step = 1;
  if (!PyArg_ParseTupleAndKeywords(args, named, "LLL|L:slice", names, &wanted, &start, &length, &step)) return NULL;
  if (!pyslip_tensor_axis(self, wanted, &axis)) return NULL;
  slip_status_t status = slip_tensor_slice(&self->tensor, axis, start, length, step, &view);
  return pyslip_tensor_view(self, status, &view);
}

static PyObject *pyslip_tensor_transpose(PyObject *object, PyObject *args, PyObject *named) {
  static char *names[] = {"a", "b", NULL};
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  slip_tensor_t view;
  long long first, second;
  uint32_t a, b;
  if (!PyArg_ParseTupleAndKeywords(args, named, "LL:transpose", names, &first, &second)) return NULL;
  if (!pyslip_tensor_axis(self, first, &a) || !pyslip_tensor_axis(self, second, &b)) return NULL;
  slip_status_t status = slip_tensor_transpose(&self->tensor, a, b, &view);
  return pyslip_tensor_view(self, status, &view);
}

static PyObject *pyslip_tensor_permute(PyObject *object, PyObject *args) {
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  pyslip_state_t *state = pyslip_state_of(Py_TYPE(self));
  slip_tensor_t view;
  int64_t dims[SLIP_MAX_RANK];
  uint32_t order[SLIP_MAX_RANK];
  uint8_t rank;
  if (!pyslip_shape_parse(state, args, &rank, dims)) return NULL;
  for (uint8_t i = 0; i < rank; ++i) order[i] = dims[i] < 0 || dims[i] > SLIP_MAX_RANK ? SLIP_MAX_RANK : (uint32_t)dims[i];
  if (rank != self->tensor.rank)
    return pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "permute() expects the %u axes of the tensor in a new order, got %u",
                               (unsigned)self->tensor.rank, (unsigned)rank);
  slip_status_t status = slip_tensor_permute(&self->tensor, order, &view);
  return pyslip_tensor_view(self, status, &view);
}

static PyObject *pyslip_tensor_reshape(PyObject *object, PyObject *args) {
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  slip_tensor_t view;
  int64_t dims[SLIP_MAX_RANK];
  uint8_t rank;
  if (!pyslip_shape_parse(pyslip_state_of(Py_TYPE(self)), args, &rank, dims)) return NULL;
  slip_status_t status = slip_tensor_reshape(&self->tensor, rank, dims, &view);
  return pyslip_tensor_view(self, status, &view);
}

// --- copying ---------------------------------------------------------------------------------------------------------------------------

static bool pyslip_tensor_same(const slip_tensor_t *a, const slip_tensor_t *b) {
  return a->dtype == b->dtype && a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof(a->dims[0])) == 0;
}

static bool pyslip_tensor_copy(pyslip_state_t *state, const slip_tensor_t *target, const slip_tensor_t *source) {
  bool to_host = target->device.platform == SLIP_PLATFORM_CPU, from_host = source->device.platform == SLIP_PLATFORM_CPU;
  slip_device_t device = to_host ? source->device : target->device;
  if (!to_host && !from_host && (target->device.platform != source->device.platform || target->device.ordinal != source->device.ordinal))
    pyslip_raise_format(state, PYSLIP_ERROR_UNSUPPORTED,
                        "copies go between the host and a device or inside one device; copy by way of the host");
  else if (!pyslip_tensor_same(target, source) || !slip_tensor_is_contiguous(target) || !slip_tensor_is_contiguous(source)) {
    char a[160], b[160];
    slip_tensor_format(target, a, sizeof(a));
    slip_tensor_format(source, b, sizeof(b));
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "a copy expects contiguous tensors of one dtype and shape, got %s from %s", a,
                        b);
  } else if (target->flags & SLIP_TENSOR_READ_ONLY)
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "the tensor is read-only; copy into another");
  if (PyErr_Occurred()) return false;
  uint64_t bytes = (uint64_t)slip_tensor_element_count(target) * slip_dtype_size_bytes(target->dtype);
  uint32_t kind = to_host ? SLIP_COPY_DEVICE_TO_HOST : from_host ? SLIP_COPY_HOST_TO_DEVICE : SLIP_COPY_DEVICE_TO_DEVICE;
  void *to = (char *)target->data + target->byte_offset;
  const void *from = (const char *)source->data + source->byte_offset;
  slip_platform_t *platform = NULL;
  slip_status_t status = slip_ok_status();
  if (!bytes) return true;
  PyThreadState *thread = PyEval_SaveThread();
  if (to_host && from_host)
    memmove(to, from, bytes);
  else {
    status = slip_platform_find(slip_platform_name(device.platform), &platform);
    if (slip_status_is_ok(status)) status = slip_memory_copy(platform, device.ordinal, to, from, bytes, kind);
  }
  PyEval_RestoreThread(thread);
  return pyslip_ok(state, status);
}

static PyObject *pyslip_tensor_copy_from(PyObject *object, PyObject *source) {
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  pyslip_state_t *state = pyslip_state_of(Py_TYPE(self));
  slip_tensor_t tensor;
  pyslip_kept_t kept;
  if (!pyslip_read_tensor(state, NULL, source, PYSLIP_READ_OWN, &tensor, &kept)) return NULL;
  bool ok = pyslip_tensor_copy(state, &self->tensor, &tensor);
  pyslip_kept_release(&kept, 1);
  return ok ? Py_NewRef(object) : NULL;
}

PyObject *pyslip_tensor_to_host(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  pyslip_state_t *state = pyslip_state_of(Py_TYPE(self));
  PyObject *copy = pyslip_tensor_make(state, self->tensor.rank, self->tensor.dims, self->tensor.dtype, "cpu", slip_device_cpu());
  if (copy && !pyslip_tensor_copy(state, &((pyslip_tensor_t *)copy)->tensor, &self->tensor)) Py_CLEAR(copy);
  return copy;
}

static PyObject *pyslip_tensor_numpy(PyObject *object, PyObject *none) {
  (void)none;
  PyObject *module = PyImport_ImportModule("slipstream._numpy");
  PyObject *function = module ? PyObject_GetAttrString(module, "to_numpy") : NULL;
  PyObject *array = function ? PyObject_CallFunctionObjArgs(function, object, NULL) : NULL;
  Py_XDECREF(function);
  Py_XDECREF(module);
  return array;
}

// --- looking ---------------------------------------------------------------------------------------------------------------------------

PyObject *pyslip_sizes(const int64_t *sizes, uint8_t rank) {
  PyObject *tuple = PyTuple_New(rank);
  for (uint8_t i = 0; tuple && i < rank; ++i) {
    PyObject *size = PyLong_FromLongLong(sizes[i]);
    if (!size || PyTuple_SetItem(tuple, i, size) < 0) Py_CLEAR(tuple);
  }
  return tuple;
}

static slip_tensor_t *pyslip_tensor_of(PyObject *self) {
  return &((pyslip_tensor_t *)self)->tensor;
}

static PyObject *pyslip_tensor_shape(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_sizes(pyslip_tensor_of(self)->dims, pyslip_tensor_of(self)->rank);
}
static PyObject *pyslip_tensor_strides(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_sizes(pyslip_tensor_of(self)->strides, pyslip_tensor_of(self)->rank);
}
static PyObject *pyslip_tensor_dtype(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(slip_dtype_name(pyslip_tensor_of(self)->dtype));
}
static PyObject *pyslip_tensor_device(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_device_text(pyslip_tensor_of(self)->device);
}
static PyObject *pyslip_tensor_ndim(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromLong(pyslip_tensor_of(self)->rank);
}
static PyObject *pyslip_tensor_itemsize(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromSize_t(slip_dtype_size_bytes(pyslip_tensor_of(self)->dtype));
}
static PyObject *pyslip_tensor_nbytes(PyObject *self, void *closure) {
  (void)closure;
  const slip_tensor_t *tensor = pyslip_tensor_of(self);
  return PyLong_FromUnsignedLongLong((uint64_t)slip_tensor_element_count(tensor) * slip_dtype_size_bytes(tensor->dtype));
}
static PyObject *pyslip_tensor_pointer(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromUnsignedLongLong((uintptr_t)pyslip_tensor_of(self)->data + pyslip_tensor_of(self)->byte_offset);
}
static PyObject *pyslip_tensor_read_only(PyObject *self, void *closure) {
  (void)closure;
  return PyBool_FromLong((pyslip_tensor_of(self)->flags & SLIP_TENSOR_READ_ONLY) != 0);
}
static PyObject *pyslip_tensor_contiguous(PyObject *self, void *closure) {
  (void)closure;
  return PyBool_FromLong(slip_tensor_is_contiguous(pyslip_tensor_of(self)));
}

static PyObject *pyslip_tensor_repr(PyObject *self) {
  char text[256];
  slip_tensor_format(pyslip_tensor_of(self), text, sizeof(text));
  return PyUnicode_FromFormat("<slipstream.Tensor %s%s>", text,
                              (pyslip_tensor_of(self)->flags & SLIP_TENSOR_READ_ONLY) ? ", read-only" : "");
}

static Py_ssize_t pyslip_tensor_length(PyObject *self) {
  if (pyslip_tensor_of(self)->rank) return (Py_ssize_t)pyslip_tensor_of(self)->dims[0];
  PyErr_SetString(PyExc_TypeError, "len() of a tensor of rank 0");
  return -1;
}

static PyGetSetDef pyslip_tensor_members[] = {
    {"shape", pyslip_tensor_shape, NULL, "Tuple of dimensions.", NULL},
    {"strides", pyslip_tensor_strides, NULL, "Tuple of strides, in elements.", NULL},
    {"dtype", pyslip_tensor_dtype, NULL, "'f32' and so on.", NULL},
    {"device", pyslip_tensor_device, NULL, "'cpu:0' and so on.", NULL},
    {"ndim", pyslip_tensor_ndim, NULL, "Number of dimensions, 0 to 5.", NULL},
    {"itemsize", pyslip_tensor_itemsize, NULL, "Bytes of one element.", NULL},
    {"nbytes", pyslip_tensor_nbytes, NULL, "Bytes of all elements.", NULL},
    {"data_ptr", pyslip_tensor_pointer, NULL, "Address of the first element, on its device.", NULL},
    {"read_only", pyslip_tensor_read_only, NULL, "True if no callable may write it.", NULL},
    {"contiguous", pyslip_tensor_contiguous, NULL, "True if row-major without gaps, which is what callables take.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef pyslip_tensor_methods[] = {
    {"slice", (PyCFunction)(void (*)(void))pyslip_tensor_slice, METH_VARARGS | METH_KEYWORDS,
     "slice($self, axis, start, length, step=1)\n--\n\nView of length elements of an axis, from start, each step-th. "
     "InvalidArgumentError."},
    {"transpose", (PyCFunction)(void (*)(void))pyslip_tensor_transpose, METH_VARARGS | METH_KEYWORDS,
     "transpose($self, a, b)\n--\n\nView with two axes exchanged. InvalidArgumentError."},
    {"permute", pyslip_tensor_permute, METH_VARARGS,
     "permute($self, *order)\n--\n\nView with the axes in a new order. InvalidArgumentError."},
    {"reshape", pyslip_tensor_reshape, METH_VARARGS,
     "reshape($self, *shape)\n--\n\nView of another shape, only where no copy is needed; one dimension may be -1. InvalidArgumentError."},
    {"copy_from", pyslip_tensor_copy_from, METH_O,
     "copy_from($self, source, /)\n--\n\nCopies a tensor of the same dtype and shape, of the host or the same device, into this one; "
     "returns it. Blocks, "
     "without the GIL. InvalidArgumentError, UnsupportedError."},
    {"to_host", pyslip_tensor_to_host, METH_NOARGS,
     "to_host($self, /)\n--\n\nA copy on the cpu. The tensor must be contiguous. Blocks, without the GIL."},
    {"numpy", pyslip_tensor_numpy, METH_NOARGS,
     "numpy($self, /)\n--\n\nA NumPy array: of the same memory on the cpu, of a copy otherwise. bf16 and f8 types need the package "
     "ml_dtypes."},
    {"__dlpack__", (PyCFunction)(void (*)(void))pyslip_tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nDLPack capsule; versioned (1.x) if max_version "
     "says so. "
     "BufferError: another dl_device, or read-only without max_version."},
    {"__dlpack_device__", pyslip_tensor_dlpack_device, METH_NOARGS, "__dlpack_device__($self, /)\n--\n\nDLPack's (device type, ordinal)."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_tensor_slots[] = {{Py_tp_doc,
                                             "Tensor(source, *, dtype=None)\n--\n\nA view of memory on a device, without a "
                                             "copy.\n\nsource: an object with a DLPack exchange table on its type, "
                                             "the buffer protocol (NumPy, memoryview), a NumPy array of a dtype of ml_dtypes, or "
                                             "__dlpack__(). It is kept alive.\ndtype: take the bytes for "
                                             "another dtype of the same size, such as 'bf16' for uint16.\nRaises ArgumentTypeError (no "
                                             "tensor), InvalidArgumentError (rank above 5, a dtype "
                                             "without a name here), UnsupportedError (device).\nGoes out by the buffer protocol, "
                                             "__dlpack__() and the exchange table on this type."},
                                            {Py_tp_new, pyslip_tensor_new},
                                            {Py_tp_dealloc, pyslip_tensor_dealloc},
                                            {Py_tp_traverse, pyslip_tensor_traverse},
                                            {Py_tp_repr, pyslip_tensor_repr},
                                            {Py_sq_length, pyslip_tensor_length},
                                            {Py_bf_getbuffer, pyslip_tensor_getbuffer},
                                            {Py_tp_getset, pyslip_tensor_members},
                                            {Py_tp_methods, pyslip_tensor_methods},
                                            {0, NULL}};
static PyType_Spec pyslip_tensor_spec = {"slipstream.Tensor", sizeof(pyslip_tensor_t), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                         pyslip_tensor_slots};

static PyMethodDef pyslip_tensor_functions[] = {
    {"empty", (PyCFunction)(void (*)(void))pyslip_tensor_empty, METH_VARARGS | METH_KEYWORDS,
     "empty($module, shape, dtype='f32', *, device='cpu:0')\n--\n\nA contiguous Tensor with memory of its own, 64-byte aligned, not "
     "initialised.\n\n"
     "shape: an int or a sequence of at most 5. Raises InvalidArgumentError, OutOfMemoryError, NotFoundError (platform), DeviceError."},
    {"from_dlpack", pyslip_from_dlpack, METH_O, "from_dlpack($module, source, /)\n--\n\nTensor(source)."},
    {NULL, NULL, 0, NULL}};

int pyslip_tensor_init(pyslip_state_t *state) {
  if (!(state->tensor = pyslip_add_type(state, &pyslip_tensor_spec))) return -1;
  return pyslip_tensor_add_exchange(state) < 0 ? -1 : PyModule_AddFunctions(state->module, pyslip_tensor_functions);
}
