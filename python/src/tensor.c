// SPDX-License-Identifier: Apache-2.0
// Tensor: a view of memory on a device, its own or another library's. Goes out by buffer protocol, __dlpack__ and the exchange table.
#include <stdio.h>

#include "read.h"

static const pyslip_exchange_t pyslip_tensor_exchange;

static pyslip_tensor_t *pyslip_tensor_allocate(pyslip_state_t *state) {
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

static bool pyslip_shape_parse(pyslip_state_t *state, PyObject *shape, uint8_t *out_rank, int64_t *dims) {
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

static PyObject *pyslip_tensor_make(pyslip_state_t *state, uint8_t rank, const int64_t *dims, slip_dtype_t dtype, const char *platform,
                                    slip_device_t device) {
  slip_tensor_t tensor;
  slip_platform_t *found = NULL;
  void *memory = NULL;
  if (!pyslip_ok(state, slip_tensor_initialize(&tensor, dtype, rank, dims, NULL, device))) return NULL;
  uint64_t bytes = (uint64_t)slip_tensor_element_count(&tensor) * slip_dtype_size_bytes(dtype);
  slip_status_t status;
  Py_BEGIN_ALLOW_THREADS  //
      status = slip_platform_find(platform, &found);
  if (slip_status_is_ok(status)) status = slip_memory_allocate(found, device.ordinal, bytes, &memory);
  Py_END_ALLOW_THREADS  //
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
  slip_dtype_t dtype = slip_dtype_from_name(dtype_name, strlen(dtype_name));
  if (dtype == SLIP_DTYPE_NONE)
    return pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "dtype '%s' is unknown; such as 'f32', 'bf16', 'i64'", dtype_name);
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

static PyObject *pyslip_tensor_slice(PyObject *object, PyObject *args, PyObject *named) {
  static char *names[] = {"axis", "start", "length", "step", NULL};
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  slip_tensor_t view;
  unsigned axis;
  long long start, length, step = 1;
  if (!PyArg_ParseTupleAndKeywords(args, named, "ILL|L:slice", names, &axis, &start, &length, &step)) return NULL;
  slip_status_t status = slip_tensor_slice(&self->tensor, axis, start, length, step, &view);
  return pyslip_tensor_view(self, status, &view);
}

static PyObject *pyslip_tensor_transpose(PyObject *object, PyObject *args, PyObject *named) {
  static char *names[] = {"a", "b", NULL};
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  slip_tensor_t view;
  unsigned a, b;
  if (!PyArg_ParseTupleAndKeywords(args, named, "II:transpose", names, &a, &b)) return NULL;
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
  Py_BEGIN_ALLOW_THREADS  //
      if (to_host && from_host) memmove(to, from, bytes);
  else {
    status = slip_platform_find(slip_platform_name(device.platform), &platform);
    if (slip_status_is_ok(status)) status = slip_memory_copy(platform, device.ordinal, to, from, bytes, kind);
  }
  Py_END_ALLOW_THREADS  //
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

static PyObject *pyslip_tensor_to_host(PyObject *object, PyObject *none) {
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

// --- buffer protocol -------------------------------------------------------------------------------------------------------------------

static const char *pyslip_buffer_format(slip_dtype_t dtype) {
  static const char *const formats[] = {[SLIP_DTYPE_F32] = "f", [SLIP_DTYPE_F16] = "e", [SLIP_DTYPE_F64] = "d", [SLIP_DTYPE_I8] = "b",
                                        [SLIP_DTYPE_I16] = "h", [SLIP_DTYPE_I32] = "i", [SLIP_DTYPE_I64] = "q", [SLIP_DTYPE_U8] = "B",
                                        [SLIP_DTYPE_U16] = "H", [SLIP_DTYPE_U32] = "I", [SLIP_DTYPE_U64] = "Q", [SLIP_DTYPE_BOOL] = "?"};
  return dtype < sizeof(formats) / sizeof(formats[0]) ? formats[dtype] : NULL;
}

static int pyslip_tensor_getbuffer(PyObject *object, Py_buffer *view, int flags) {
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  const slip_tensor_t *tensor = &self->tensor;
  const char *format = pyslip_buffer_format(tensor->dtype);
  bool contiguous = slip_tensor_is_contiguous(tensor);
  view->obj = NULL;
  if (tensor->device.platform != SLIP_PLATFORM_CPU)
    PyErr_SetString(PyExc_BufferError, "the tensor is not on the host; take x.to_host()");
  else if (!format)
    PyErr_Format(PyExc_BufferError, "%s has no buffer format; take x.numpy() or slipstream.Tensor(x, dtype='u%d')",
                 slip_dtype_name(tensor->dtype), (int)(8 * slip_dtype_size_bytes(tensor->dtype)));
  else if ((flags & PyBUF_WRITABLE) && (tensor->flags & SLIP_TENSOR_READ_ONLY))
    PyErr_SetString(PyExc_BufferError, "the tensor is read-only");
  else if (!contiguous && ((flags & PyBUF_STRIDES) != PyBUF_STRIDES || (flags & 0x20)))
    PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
  else if ((flags & 0x40) && !(flags & 0x20) && tensor->rank > 1)
    PyErr_SetString(PyExc_BufferError, "the tensor is not column-major");
  if (PyErr_Occurred()) return -1;
  Py_ssize_t size = (Py_ssize_t)slip_dtype_size_bytes(tensor->dtype);
  for (uint8_t i = 0; i < tensor->rank; ++i) {
    self->sizes[i] = (Py_ssize_t)tensor->dims[i];
    self->sizes[SLIP_MAX_RANK + i] = (Py_ssize_t)tensor->strides[i] * size;
  }
  view->buf = (char *)tensor->data + tensor->byte_offset;
  view->obj = Py_NewRef(object);
  view->len = (Py_ssize_t)slip_tensor_element_count(tensor) * size;
  view->itemsize = size;
  view->readonly = (tensor->flags & SLIP_TENSOR_READ_ONLY) != 0;
  view->ndim = (flags & PyBUF_ND) ? tensor->rank : 1;
  view->format = (flags & PyBUF_FORMAT) ? (char *)(uintptr_t)format : NULL;
  view->shape = (flags & PyBUF_ND) ? self->sizes : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->sizes + SLIP_MAX_RANK : NULL;
  view->suboffsets = NULL;
  view->internal = NULL;
  return 0;
}

// --- DLPack out ------------------------------------------------------------------------------------------------------------------------

// The deleter of a consumer: on any thread, with or without the interpreter's lock.
static void pyslip_tensor_let_go(void *user) {
  if (!Py_IsInitialized()) return;  // the process ends; so does the memory
  PyGILState_STATE lock = PyGILState_Ensure();
  Py_DECREF((PyObject *)user);
  PyGILState_Release(lock);
}

static slip_dl_managed_t *pyslip_tensor_managed(pyslip_tensor_t *self) {
  slip_dl_managed_t *managed = NULL;
  slip_status_t status = slip_tensor_to_dlpack(&self->tensor, slip_allocator_system(), pyslip_tensor_let_go, self, &managed);
  if (!pyslip_ok(pyslip_state_of(Py_TYPE(self)), status)) return NULL;
  Py_INCREF(self);
  return managed;
}

static void pyslip_capsule_end(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;  // taken
  slip_dl_managed_t *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
  if (managed && managed->deleter) managed->deleter(managed);
}

static void pyslip_old_delete(pyslip_dl_old_t *old) {
  slip_dl_managed_t *managed = old->manager_ctx;
  slip_allocator_t allocator = slip_allocator_system();
  allocator.control(allocator.self, old, sizeof(*old), 0, sizeof(void *));
  managed->deleter(managed);
}

static void pyslip_old_capsule_end(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  pyslip_dl_old_t *old = PyCapsule_GetPointer(capsule, "dltensor");
  if (old && old->deleter) old->deleter(old);
}

static PyObject *pyslip_tensor_old_capsule(slip_dl_managed_t *managed) {
  slip_allocator_t allocator = slip_allocator_system();  // no lock of the interpreter's where the deleter is called
  pyslip_dl_old_t *old = allocator.control(allocator.self, NULL, 0, sizeof(*old), sizeof(void *));
  if (!old) {
    managed->deleter(managed);
    return PyErr_NoMemory();
  }
  old->tensor = managed->tensor;
  old->manager_ctx = managed;
  old->deleter = pyslip_old_delete;
  PyObject *capsule = PyCapsule_New(old, "dltensor", pyslip_old_capsule_end);
  if (!capsule) pyslip_old_delete(old);
  return capsule;
}

static PyObject *pyslip_tensor_dlpack(PyObject *object, PyObject *args, PyObject *named) {
  static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  pyslip_tensor_t *self = (pyslip_tensor_t *)object;
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None, *source = NULL;
  long major = 0, type = 0, ordinal = 0;
  if (!PyArg_ParseTupleAndKeywords(args, named, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy)) return NULL;
  if (version != Py_None && !PyArg_ParseTuple(version, "ll:max_version", &major, &ordinal)) return NULL;
  if (copy == Py_True)
    source = pyslip_tensor_to_host(object, NULL);
  else
    source = Py_NewRef(object);
  slip_dl_managed_t *managed = source ? pyslip_tensor_managed((pyslip_tensor_t *)source) : NULL;
  Py_XDECREF(source);
  if (!managed) return NULL;
  if (copy == Py_True) managed->flags |= SLIP_DL_IS_COPIED;
  if (device != Py_None && PyArg_ParseTuple(device, "ll:dl_device", &type, &ordinal) &&
      (type != managed->tensor.device.device_type || ordinal != managed->tensor.device.device_id))
    PyErr_SetString(PyExc_BufferError, "the tensor is on another device than dl_device; copy it there first");
  if (major < 1 && (self->tensor.flags & SLIP_TENSOR_READ_ONLY))
    PyErr_SetString(PyExc_BufferError, "the tensor is read-only, which DLPack before 1.0 cannot say; ask with max_version=(1, 0)");
  if (PyErr_Occurred()) {
    managed->deleter(managed);
    return NULL;
  }
  if (major < 1) return pyslip_tensor_old_capsule(managed);
  PyObject *capsule = PyCapsule_New(managed, "dltensor_versioned", pyslip_capsule_end);
  if (!capsule) managed->deleter(managed);
  return capsule;
}

static PyObject *pyslip_tensor_dlpack_device(PyObject *object, PyObject *none) {
  (void)none;
  slip_dl_managed_t *managed = pyslip_tensor_managed((pyslip_tensor_t *)object);
  if (!managed) return NULL;
  PyObject *pair = Py_BuildValue("(ii)", (int)managed->tensor.device.device_type, (int)managed->tensor.device.device_id);
  managed->deleter(managed);
  return pair;
}

static int pyslip_exchange_managed(void *object, slip_dl_managed_t **out) {
  *out = pyslip_tensor_managed(object);
  return *out ? 0 : -1;
}

static int pyslip_exchange_view(void *object, slip_dl_tensor_t *out) {
  pyslip_tensor_t *self = object;
  slip_tensor_t *tensor = &self->tensor;
  if ((tensor->flags & SLIP_TENSOR_READ_ONLY) || tensor->device.platform != SLIP_PLATFORM_CPU) {
    PyErr_SetString(PyExc_BufferError, "a read-only tensor, or one of a device without a number in DLPack, has no plain view");
    return -1;
  }
  out->data = tensor->data;
  out->device.device_type = 1;
  out->device.device_id = tensor->device.ordinal;
  out->ndim = tensor->rank;
  slip_dtype_to_dlpack(tensor->dtype, &out->dtype.code, &out->dtype.bits, &out->dtype.lanes);
  out->shape = tensor->dims;
  out->strides = tensor->strides;
  out->byte_offset = tensor->byte_offset;
  return 0;
}

static pyslip_state_t *pyslip_exchange_state(PyObject **out_module) {
  *out_module = PyImport_ImportModule("slipstream._core");
  return *out_module ? pyslip_module_state(*out_module) : NULL;
}

static int pyslip_exchange_wrap(slip_dl_managed_t *managed, void **out_object) {
  PyObject *module;
  pyslip_state_t *state = pyslip_exchange_state(&module);
  pyslip_tensor_t *self = state ? pyslip_tensor_allocate(state) : NULL;
  *out_object = NULL;
  if (self && pyslip_ok(state, slip_tensor_from_dlpack_managed(managed, &self->tensor))) {
    self->kept.kind = PYSLIP_KEPT_MANAGED;
    self->kept.value.managed = managed;
    PyObject_GC_Track((PyObject *)self);
    *out_object = self;
  } else {
    Py_XDECREF(self);
  }
  Py_XDECREF(module);
  return *out_object ? 0 : -1;
}

static int pyslip_exchange_allocate(slip_dl_tensor_t *prototype, slip_dl_managed_t **out, void *error_context,
                                    void (*set_error)(void *error_context, const char *kind, const char *message)) {
  PyGILState_STATE lock = PyGILState_Ensure();
  PyObject *module;
  pyslip_state_t *state = pyslip_exchange_state(&module);
  slip_dtype_t dtype = slip_dtype_from_dlpack(prototype->dtype.code, prototype->dtype.bits, prototype->dtype.lanes);
  PyObject *tensor = NULL;
  *out = NULL;
  if (state && prototype->device.device_type == 1 && prototype->ndim >= 0 && prototype->ndim <= SLIP_MAX_RANK)
    tensor = pyslip_tensor_make(state, (uint8_t)prototype->ndim, prototype->shape, dtype, "cpu", slip_device_cpu());
  if (tensor) *out = pyslip_tensor_managed((pyslip_tensor_t *)tensor);
  Py_XDECREF(tensor);
  Py_XDECREF(module);
  PyErr_Clear();
  PyGILState_Release(lock);
  if (!*out && set_error)
    set_error(error_context, "BufferError", "slipstream allocates tensors of its dtypes, of rank 5 at most, on the cpu only");
  return *out ? 0 : -1;
}

static int pyslip_exchange_stream(int32_t device_type, int32_t device_id, void **out_stream) {
  (void)device_id;
  *out_stream = NULL;
  if (device_type == 1) return 0;
  PyErr_SetString(PyExc_BufferError, "slipstream has no current stream of this device");
  return -1;
}

static const pyslip_exchange_t pyslip_tensor_exchange = {{{1, 3}, NULL},       pyslip_exchange_allocate, pyslip_exchange_managed,
                                                         pyslip_exchange_wrap, pyslip_exchange_view,     pyslip_exchange_stream};

// --- looking ---------------------------------------------------------------------------------------------------------------------------

static PyObject *pyslip_sizes(const int64_t *sizes, uint8_t rank) {
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
  PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&pyslip_tensor_exchange, PYSLIP_EXCHANGE_NAME, NULL);
  int failed = !capsule || PyObject_SetAttr((PyObject *)state->tensor, state->names.__dlpack_c_exchange_api__, capsule) < 0;
  Py_XDECREF(capsule);
  return failed ? -1 : PyModule_AddFunctions(state->module, pyslip_tensor_functions);
}
