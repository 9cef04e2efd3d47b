// SPDX-License-Identifier: Apache-2.0
// Tensors on their way out: buffer protocol, __dlpack__, exchange table.
#include "tensor.h"

// --- buffer protocol -------------------------------------------------------------------------------------------------------------------

static const char *pyslip_buffer_format(slip_dtype_t dtype) {
  static const char *const formats[] = {[SLIP_DTYPE_F32] = "f", [SLIP_DTYPE_F16] = "e", [SLIP_DTYPE_F64] = "d", [SLIP_DTYPE_I8] = "b",
                                        [SLIP_DTYPE_I16] = "h", [SLIP_DTYPE_I32] = "i", [SLIP_DTYPE_I64] = "q", [SLIP_DTYPE_U8] = "B",
                                        [SLIP_DTYPE_U16] = "H", [SLIP_DTYPE_U32] = "I", [SLIP_DTYPE_U64] = "Q", [SLIP_DTYPE_BOOL] = "?"};
  return dtype < sizeof(formats) / sizeof(formats[0]) ? formats[dtype] : NULL;
}

int pyslip_tensor_getbuffer(PyObject *object, Py_buffer *view, int flags) {
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
  else if (!contiguous && ((flags & PyBUF_STRIDES) != PyBUF_STRIDES || (flags & 0xE0)))
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

PyObject *pyslip_tensor_dlpack(PyObject *object, PyObject *args, PyObject *named) {
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

PyObject *pyslip_tensor_dlpack_device(PyObject *object, PyObject *none) {
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

int pyslip_tensor_add_exchange(pyslip_state_t *state) {
  PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&pyslip_tensor_exchange, PYSLIP_EXCHANGE_NAME, NULL);
  int failed = !capsule || PyObject_SetAttr((PyObject *)state->tensor, state->names.__dlpack_c_exchange_api__, capsule) < 0;
  Py_XDECREF(capsule);
  return failed ? -1 : 0;
}
