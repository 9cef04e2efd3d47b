// SPDX-License-Identifier: Apache-2.0
// WorkerTensor: memory of a worker, or a view of it. It lives until it is freed, forgotten, or the worker is closed.
#include "read.h"
#include "tensor.h"
#include "worker.h"

static pyslip_worker_tensor_t *pyslip_worker_tensor_root(const pyslip_worker_tensor_t *self) {
  return self->base ? self->base : (pyslip_worker_tensor_t *)(uintptr_t)self;
}

bool pyslip_worker_tensor_freed(const pyslip_worker_tensor_t *self) {
  return pyslip_worker_tensor_root(self)->freed;
}

// Its memory can be used. False with an exception.
static bool pyslip_worker_tensor_ready(pyslip_worker_tensor_t *self) {
  if (!pyslip_worker_ready(self->worker)) return false;
  if (!pyslip_worker_tensor_freed(self)) return true;
  pyslip_raise_format(self->worker->state, PYSLIP_ERROR_INVALID_ARGUMENT, "the tensor was freed; make another with Worker.empty()");
  return false;
}

static uint64_t pyslip_worker_tensor_bytes(const slip_tensor_t *tensor) {
  return (uint64_t)slip_tensor_element_count(tensor) * slip_dtype_size_bytes(tensor->dtype);
}

static void *pyslip_worker_tensor_address(const slip_tensor_t *tensor) {
  return (char *)tensor->data + tensor->byte_offset;
}

// --- making ----------------------------------------------------------------------------------------------------------------------------

static pyslip_worker_tensor_t *pyslip_worker_tensor_allocate(pyslip_worker_t *worker, const slip_tensor_t *tensor) {
  pyslip_worker_tensor_t *self = PyObject_New(pyslip_worker_tensor_t, worker->state->worker_tensor);
  if (!self) return NULL;
  memset((char *)self + sizeof(PyObject), 0, sizeof(*self) - sizeof(PyObject));
  Py_INCREF(worker);
  self->worker = worker;
  self->tensor = *tensor;
  return self;
}

PyObject *pyslip_worker_tensor_wrap(pyslip_worker_t *worker, const slip_tensor_t *tensor) {
  pyslip_worker_tensor_t *self = pyslip_worker_tensor_allocate(worker, tensor);
  if (!self) slip_status_free(slip_worker_tensor_free(worker->worker, tensor));
  return (PyObject *)self;
}

PyObject *pyslip_worker_tensor_make(pyslip_worker_t *worker, uint8_t rank, const int64_t *dims, slip_dtype_t dtype, uint32_t flags) {
  slip_tensor_t tensor;
  slip_status_t status;
  if (!pyslip_worker_ready(worker)) return NULL;
  PYSLIP_WITHOUT_LOCK(status = slip_worker_tensor_create(worker->worker, dtype, rank, dims, flags, &tensor));
  return pyslip_ok(worker->state, status) ? pyslip_worker_tensor_wrap(worker, &tensor) : NULL;
}

// A view that |status| made.
static PyObject *pyslip_worker_tensor_view(pyslip_worker_tensor_t *self, slip_status_t status, const slip_tensor_t *tensor) {
  if (!pyslip_ok(self->worker->state, status)) return NULL;
  pyslip_worker_tensor_t *view = pyslip_worker_tensor_allocate(self->worker, tensor);
  if (!view) return NULL;
  view->base = pyslip_worker_tensor_root(self);
  Py_INCREF(view->base);
  return (PyObject *)view;
}

static PyObject *pyslip_worker_tensor_slice(PyObject *object, PyObject *args, PyObject *named) {
  static char *names[] = {"axis", "start", "length", "step", NULL};
  pyslip_worker_tensor_t *self = (pyslip_worker_tensor_t *)object;
  slip_tensor_t view;
  unsigned axis;
  long long start, length, step = 1;
  if (!PyArg_ParseTupleAndKeywords(args, named, "ILL|L:slice", names, &axis, &start, &length, &step)) return NULL;
  slip_status_t status = slip_tensor_slice(&self->tensor, axis, start, length, step, &view);
  return pyslip_worker_tensor_view(self, status, &view);
}

static PyObject *pyslip_worker_tensor_reshape(PyObject *object, PyObject *args) {
  pyslip_worker_tensor_t *self = (pyslip_worker_tensor_t *)object;
  slip_tensor_t view;
  int64_t dims[SLIP_MAX_RANK];
  uint8_t rank;
  if (!pyslip_shape_parse(self->worker->state, args, &rank, dims)) return NULL;
  slip_status_t status = slip_tensor_reshape(&self->tensor, rank, dims, &view);
  return pyslip_worker_tensor_view(self, status, &view);
}

// --- the end ---------------------------------------------------------------------------------------------------------------------------

static PyObject *pyslip_worker_tensor_free(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_worker_tensor_t *self = (pyslip_worker_tensor_t *)object, *root = pyslip_worker_tensor_root(self);
  pyslip_state_t *state = self->worker->state;
  slip_worker_t *worker = self->worker->worker;
  if (!pyslip_worker_here(self->worker)) return NULL;
  if (root->exports)
    return pyslip_raise_format(
        state, PYSLIP_ERROR_BUSY,
        "the tensor's memory is lent out, to %zd arrays or buffers (DLPack, memoryview); drop them and free it again", root->exports);
  if (root->freed) Py_RETURN_NONE;
  root->freed = true;
  slip_status_t status = slip_ok_status();
  if (slip_worker_state(worker) == SLIP_WORKER_READY)  // else its memory went with the worker, or is about to
    PYSLIP_WITHOUT_LOCK(status = slip_worker_tensor_free(worker, &root->tensor));
  if (slip_status_code(status) == SLIP_CODE_INVALID_STATE) {
    slip_status_free(status);
    status = slip_ok_status();
  }
  if (!pyslip_ok(state, status)) return NULL;
  Py_RETURN_NONE;
}

static void pyslip_worker_tensor_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  pyslip_worker_tensor_t *self = (pyslip_worker_tensor_t *)object;
  // Refused where the worker is closed or the parent's; what the platform does not take back now, close tries again.
  if (!self->base && !self->freed) slip_status_free(slip_worker_tensor_free(self->worker->worker, &self->tensor));
  Py_XDECREF(self->base);
  Py_DECREF(self->worker);
  PyObject_Free(object);
  Py_DECREF(type);
}

// --- copying ---------------------------------------------------------------------------------------------------------------------------

static bool pyslip_worker_tensor_same(pyslip_state_t *state, const slip_tensor_t *target, const slip_tensor_t *source) {
  char a[160], b[160];
  if (target->dtype == source->dtype && target->rank == source->rank &&
      memcmp(target->dims, source->dims, target->rank * sizeof(target->dims[0])) == 0 && slip_tensor_is_contiguous(target) &&
      slip_tensor_is_contiguous(source))
    return true;
  slip_tensor_format(target, a, sizeof(a));
  slip_tensor_format(source, b, sizeof(b));
  pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "a copy expects contiguous tensors of one dtype and shape, got %s from %s", a,
                      b);
  return false;
}

// What a copy takes from or brings to the host.
static bool pyslip_worker_tensor_host(pyslip_state_t *state, const slip_tensor_t *host, bool writes) {
  if (host->device.platform != SLIP_PLATFORM_CPU)
    pyslip_raise_format(state, PYSLIP_ERROR_UNSUPPORTED,
                        "copies go between the host and a worker, got a tensor on %s:%d; copy by way of the host",
                        slip_platform_name(host->device.platform), (int)host->device.ordinal);
  else if (host->flags & (SLIP_TENSOR_NEG | SLIP_TENSOR_CONJ))
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "a copy expects a plain tensor, got a neg or conj view; resolve it first");
  else if (writes && (host->flags & SLIP_TENSOR_READ_ONLY))
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "the tensor is read-only; copy into another");
  return !PyErr_Occurred();
}

// Between tensors of one worker.
static bool pyslip_worker_tensor_move(pyslip_worker_tensor_t *target, pyslip_worker_tensor_t *source) {
  slip_worker_t *worker = target->worker->worker;
  pyslip_state_t *state = target->worker->state;
  if (target->worker != source->worker) {
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "copies go inside one worker; copy by way of the host, with to_host()");
    return false;
  }
  if (!pyslip_worker_tensor_ready(target) || !pyslip_worker_tensor_ready(source)) return false;
  if (!pyslip_worker_tensor_same(state, &target->tensor, &source->tensor)) return false;
  uint64_t bytes = pyslip_worker_tensor_bytes(&target->tensor);
  void *to = pyslip_worker_tensor_address(&target->tensor), *from = pyslip_worker_tensor_address(&source->tensor);
  slip_status_t status;
  if (!bytes || to == from) return true;
  PYSLIP_WITHOUT_LOCK(status = slip_worker_copy(worker, to, from, bytes, SLIP_COPY_DEVICE_TO_DEVICE));
  return pyslip_ok(state, status);
}

// |host| describes memory that stays: from it, or with |reads| into it.
static bool pyslip_worker_tensor_transfer(pyslip_worker_tensor_t *self, const slip_tensor_t *host, bool reads) {
  pyslip_worker_t *worker = self->worker;
  if (!pyslip_worker_tensor_host(worker->state, host, reads)) return false;
  if (!pyslip_worker_tensor_same(worker->state, reads ? host : &self->tensor, reads ? &self->tensor : host)) return false;
  uint64_t bytes = pyslip_worker_tensor_bytes(host);
  void *address = pyslip_worker_tensor_address(host);
  slip_status_t status;
  if (!bytes || address == pyslip_worker_tensor_address(&self->tensor)) return true;  // of itself, lent out
  PyThreadState *thread = PyEval_SaveThread();
  status = reads ? slip_worker_tensor_read(worker->worker, &self->tensor, address, bytes)
                 : slip_worker_tensor_write(worker->worker, &self->tensor, address, bytes);
  PyEval_RestoreThread(thread);
  pyslip_worker_reap(worker);  // it waited for runs
  return pyslip_ok(worker->state, status);
}

// With |object|, a tensor of any library.
static bool pyslip_worker_tensor_exchange(pyslip_worker_tensor_t *self, PyObject *object, bool reads) {
  pyslip_state_t *state = self->worker->state;
  slip_tensor_t host;
  pyslip_kept_t kept;
  if (Py_TYPE(object) == state->worker_tensor) {
    pyslip_worker_tensor_t *other = (pyslip_worker_tensor_t *)object;
    return reads ? pyslip_worker_tensor_move(other, self) : pyslip_worker_tensor_move(self, other);
  }
  if (!pyslip_worker_tensor_ready(self) || !pyslip_read_tensor(state, NULL, object, PYSLIP_READ_OWN, &host, &kept)) return false;
  bool ok = pyslip_worker_tensor_transfer(self, &host, reads);
  pyslip_kept_release(&kept, 1);
  return ok;
}

static PyObject *pyslip_worker_tensor_copy_from(PyObject *self, PyObject *source) {
  return pyslip_worker_tensor_exchange((pyslip_worker_tensor_t *)self, source, false) ? Py_NewRef(self) : NULL;
}
static PyObject *pyslip_worker_tensor_copy_to(PyObject *self, PyObject *target) {
  return pyslip_worker_tensor_exchange((pyslip_worker_tensor_t *)self, target, true) ? Py_NewRef(target) : NULL;
}

PyObject *pyslip_worker_tensor_upload(pyslip_worker_t *worker, PyObject *source) {
  pyslip_state_t *state = worker->state;
  slip_tensor_t like;
  pyslip_kept_t kept = {.kind = PYSLIP_KEPT_NOTHING};
  if (Py_TYPE(source) == state->worker_tensor)
    like = ((pyslip_worker_tensor_t *)source)->tensor;
  else if (!pyslip_read_tensor(state, NULL, source, PYSLIP_READ_OWN, &like, &kept))
    return NULL;
  PyObject *self = pyslip_worker_tensor_make(worker, like.rank, like.dims, like.dtype, SLIP_WORKER_TENSOR_NONE);
  bool ok = self && (Py_TYPE(source) == state->worker_tensor
                         ? pyslip_worker_tensor_move((pyslip_worker_tensor_t *)self, (pyslip_worker_tensor_t *)source)
                         : pyslip_worker_tensor_transfer((pyslip_worker_tensor_t *)self, &like, false));
  pyslip_kept_release(&kept, 1);
  if (!ok) Py_CLEAR(self);
  return self;
}

static PyObject *pyslip_worker_tensor_to_host(PyObject *object, PyObject *none) {
  (void)none;
  pyslip_worker_tensor_t *self = (pyslip_worker_tensor_t *)object;
  const slip_tensor_t *tensor = &self->tensor;
  if (!pyslip_worker_tensor_ready(self)) return NULL;
  PyObject *copy = pyslip_tensor_make(self->worker->state, tensor->rank, tensor->dims, tensor->dtype, "cpu", slip_device_cpu());
  if (copy && !pyslip_worker_tensor_transfer(self, &((pyslip_tensor_t *)copy)->tensor, true)) Py_CLEAR(copy);
  return copy;
}

static PyObject *pyslip_worker_tensor_numpy(PyObject *object, PyObject *none) {
  PyObject *copy = pyslip_worker_tensor_to_host(object, none);
  PyObject *array = copy ? PyObject_CallMethod(copy, "numpy", NULL) : NULL;
  Py_XDECREF(copy);
  return array;
}

// --- lending memory of the host --------------------------------------------------------------------------------------------------------

static void pyslip_lease_end(PyObject *capsule) {
  pyslip_worker_tensor_t *root = PyCapsule_GetPointer(capsule, NULL);
  if (!root) return;
  --root->exports;
  --root->worker->exports;
  Py_DECREF(root);
}

static bool pyslip_worker_tensor_lend(pyslip_worker_tensor_t *self, slip_tensor_t *out, pyslip_kept_t *kept) {
  pyslip_worker_tensor_t *root = pyslip_worker_tensor_root(self);
  if (!pyslip_worker_tensor_ready(self)) return false;
  PyObject *lease = PyCapsule_New(root, NULL, pyslip_lease_end);
  if (!lease) return false;
  Py_INCREF(root);
  ++root->exports;
  ++root->worker->exports;
  *out = self->tensor;
  kept->kind = PYSLIP_KEPT_OBJECT;
  kept->value.object = lease;
  return true;
}

bool pyslip_worker_tensor_read(pyslip_state_t *state, const pyslip_place_t *place, PyObject *object, slip_tensor_t *out,
                               pyslip_kept_t *kept) {
  pyslip_worker_tensor_t *self = (pyslip_worker_tensor_t *)object;
  if (place) {
    *out = self->tensor;
    return true;
  }
  if (self->tensor.device.platform == SLIP_PLATFORM_CPU) return pyslip_worker_tensor_lend(self, out, kept);
  return pyslip_refuse(state, NULL, PYSLIP_ERROR_UNSUPPORTED,
                       "expects memory that the host reaches, got a worker's on %s:%d; take x.to_host(), or copy with x.copy_to(tensor)",
                       slip_platform_name(self->tensor.device.platform), (int)self->tensor.device.ordinal) != NULL;
}

// The same memory as a slipstream.Tensor, through which it goes out.
static PyObject *pyslip_worker_tensor_face(PyObject *object) {
  pyslip_worker_tensor_t *self = (pyslip_worker_tensor_t *)object;
  if (self->tensor.device.platform != SLIP_PLATFORM_CPU) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not in memory that the host reaches; take x.numpy() or x.to_host()");
    return NULL;
  }
  pyslip_tensor_t *face = pyslip_tensor_allocate(self->worker->state);
  if (!face) return NULL;
  if (!pyslip_worker_tensor_lend(self, &face->tensor, &face->kept)) {
    Py_DECREF(face);
    return NULL;
  }
  PyObject_GC_Track((PyObject *)face);
  return (PyObject *)face;
}

static int pyslip_worker_tensor_getbuffer(PyObject *object, Py_buffer *view, int flags) {
  view->obj = NULL;
  PyObject *face = pyslip_worker_tensor_face(object);
  int result = face ? PyObject_GetBuffer(face, view, flags) : -1;
  Py_XDECREF(face);
  return result;
}

static PyObject *pyslip_worker_tensor_dlpack(PyObject *object, PyObject *args, PyObject *named) {
  PyObject *face = pyslip_worker_tensor_face(object);
  PyObject *capsule = face ? pyslip_tensor_dlpack(face, args, named) : NULL;
  Py_XDECREF(face);
  return capsule;
}

static PyObject *pyslip_worker_tensor_dlpack_device(PyObject *object, PyObject *none) {
  PyObject *face = pyslip_worker_tensor_face(object);
  PyObject *pair = face ? pyslip_tensor_dlpack_device(face, none) : NULL;
  Py_XDECREF(face);
  return pair;
}

// --- looking ---------------------------------------------------------------------------------------------------------------------------

static const slip_tensor_t *pyslip_worker_tensor_of(PyObject *self) {
  return &((pyslip_worker_tensor_t *)self)->tensor;
}

static PyObject *pyslip_worker_tensor_shape(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_sizes(pyslip_worker_tensor_of(self)->dims, pyslip_worker_tensor_of(self)->rank);
}
static PyObject *pyslip_worker_tensor_strides(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_sizes(pyslip_worker_tensor_of(self)->strides, pyslip_worker_tensor_of(self)->rank);
}
static PyObject *pyslip_worker_tensor_dtype(PyObject *self, void *closure) {
  (void)closure;
  return PyUnicode_FromString(slip_dtype_name(pyslip_worker_tensor_of(self)->dtype));
}
static PyObject *pyslip_worker_tensor_device(PyObject *self, void *closure) {
  (void)closure;
  return pyslip_device_text(pyslip_worker_tensor_of(self)->device);
}
static PyObject *pyslip_worker_tensor_ndim(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromLong(pyslip_worker_tensor_of(self)->rank);
}
static PyObject *pyslip_worker_tensor_itemsize(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromSize_t(slip_dtype_size_bytes(pyslip_worker_tensor_of(self)->dtype));
}
static PyObject *pyslip_worker_tensor_nbytes(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromUnsignedLongLong(pyslip_worker_tensor_bytes(pyslip_worker_tensor_of(self)));
}
static PyObject *pyslip_worker_tensor_pointer(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromUnsignedLongLong((uintptr_t)pyslip_worker_tensor_address(pyslip_worker_tensor_of(self)));
}
static PyObject *pyslip_worker_tensor_contiguous(PyObject *self, void *closure) {
  (void)closure;
  return PyBool_FromLong(slip_tensor_is_contiguous(pyslip_worker_tensor_of(self)));
}
static PyObject *pyslip_worker_tensor_is_freed(PyObject *object, void *closure) {
  (void)closure;
  pyslip_worker_tensor_t *self = (pyslip_worker_tensor_t *)object;
  return PyBool_FromLong(pyslip_worker_tensor_freed(self) || slip_worker_state(self->worker->worker) == SLIP_WORKER_CLOSED);
}
static PyObject *pyslip_worker_tensor_worker(PyObject *self, void *closure) {
  (void)closure;
  return Py_NewRef((PyObject *)((pyslip_worker_tensor_t *)self)->worker);
}

static PyObject *pyslip_worker_tensor_repr(PyObject *object) {
  pyslip_worker_tensor_t *self = (pyslip_worker_tensor_t *)object;
  char text[256];
  bool closed = slip_worker_state(self->worker->worker) == SLIP_WORKER_CLOSED;
  slip_tensor_format(&self->tensor, text, sizeof(text));
  return PyUnicode_FromFormat("<slipstream.WorkerTensor %s%s>", text,
                              pyslip_worker_tensor_freed(self) ? ", freed"
                              : closed                         ? ", worker closed"
                                                               : "");
}

static Py_ssize_t pyslip_worker_tensor_length(PyObject *self) {
  if (pyslip_worker_tensor_of(self)->rank) return (Py_ssize_t)pyslip_worker_tensor_of(self)->dims[0];
  PyErr_SetString(PyExc_TypeError, "len() of a tensor of rank 0");
  return -1;
}

static PyGetSetDef pyslip_worker_tensor_members[] = {
    {"shape", pyslip_worker_tensor_shape, NULL, "Tuple of dimensions.", NULL},
    {"strides", pyslip_worker_tensor_strides, NULL, "Tuple of strides, in elements.", NULL},
    {"dtype", pyslip_worker_tensor_dtype, NULL, "'f32' and so on.", NULL},
    {"device", pyslip_worker_tensor_device, NULL, "'cpu:0' and so on.", NULL},
    {"ndim", pyslip_worker_tensor_ndim, NULL, "Number of dimensions, 0 to 5.", NULL},
    {"itemsize", pyslip_worker_tensor_itemsize, NULL, "Bytes of one element.", NULL},
    {"nbytes", pyslip_worker_tensor_nbytes, NULL, "Bytes of all elements.", NULL},
    {"data_ptr", pyslip_worker_tensor_pointer, NULL, "Address of the first element, on its device.", NULL},
    {"contiguous", pyslip_worker_tensor_contiguous, NULL, "True if row-major without gaps, which is what programs and copies take.", NULL},
    {"freed", pyslip_worker_tensor_is_freed, NULL, "True once the memory was freed, or the worker closed.", NULL},
    {"worker", pyslip_worker_tensor_worker, NULL, "The Worker that owns the memory.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef pyslip_worker_tensor_methods[] = {
    {"slice", (PyCFunction)(void (*)(void))pyslip_worker_tensor_slice, METH_VARARGS | METH_KEYWORDS,
     "slice($self, axis, start, length, step=1)\n--\n\nView of length elements of an axis, from start, each step-th. "
     "InvalidArgumentError."},
    {"reshape", pyslip_worker_tensor_reshape, METH_VARARGS,
     "reshape($self, *shape)\n--\n\nView of another shape, only where no copy is needed; one dimension may be -1. InvalidArgumentError."},
    {"copy_from", pyslip_worker_tensor_copy_from, METH_O,
     "copy_from($self, source, /)\n--\n\nCopies a contiguous tensor of the same dtype and shape, of the host or of this worker, into this "
     "one; returns this one. "
     "Comes behind the runs that were accepted before and use the memory, for which it waits. Blocks, without the GIL. "
     "InvalidArgumentError, InvalidStateError, PoisonedError, DeviceError."},
    {"copy_to", pyslip_worker_tensor_copy_to, METH_O,
     "copy_to($self, target, /)\n--\n\nThe other way round; returns target, which must be writable."},
    {"to_host", pyslip_worker_tensor_to_host, METH_NOARGS,
     "to_host($self, /)\n--\n\nA copy on the host, as a Tensor. Waits and raises as copy_from()."},
    {"numpy", pyslip_worker_tensor_numpy, METH_NOARGS,
     "numpy($self, /)\n--\n\nA copy on the host, as a NumPy array, which outlives the worker. Waits and raises as copy_from(). bf16 and f8 "
     "types need the package ml_dtypes."},
    {"free", pyslip_worker_tensor_free, METH_NOARGS,
     "free($self, /)\n--\n\nFrees the memory, that of all views too: from now on they are refused. Runs that were accepted with it keep "
     "it until they are done. A second free does nothing. BusyError (arrays or buffers of others lie in it), ForkedError, DeviceError."},
    {"__dlpack__", (PyCFunction)(void (*)(void))pyslip_worker_tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nDLPack capsule of the memory itself, where "
     "the host reaches it (cpu); BufferError elsewhere. Waits for no run."},
    {"__dlpack_device__", pyslip_worker_tensor_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nDLPack's (device type, ordinal). BufferError where the host does not reach the memory."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot pyslip_worker_tensor_slots[] = {
    {Py_tp_doc,
     "Memory of a Worker, or a view of it. Made by Worker.empty(), zeros() and tensor(), and by programs whose outputs were left out. It "
     "lives until free(), until nobody has it any more, or until the worker is closed. Programs of the worker take it in place; kernel "
     "mode and other workers refuse it.\n\nOn the cpu it goes out without a copy by the buffer protocol, __dlpack__() and Tensor(x): while "
     "such a view is alive, free() and Worker.close() raise BusyError, and order against runs is the reader's: wait for them first."},
    {Py_tp_dealloc, pyslip_worker_tensor_dealloc},
    {Py_tp_repr, pyslip_worker_tensor_repr},
    {Py_sq_length, pyslip_worker_tensor_length},
    {Py_bf_getbuffer, pyslip_worker_tensor_getbuffer},
    {Py_tp_getset, pyslip_worker_tensor_members},
    {Py_tp_methods, pyslip_worker_tensor_methods},
    {0, NULL}};
static PyType_Spec pyslip_worker_tensor_spec = {"slipstream.WorkerTensor", sizeof(pyslip_worker_tensor_t), 0,
                                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                                pyslip_worker_tensor_slots};

int pyslip_worker_tensor_init(pyslip_state_t *state) {
  state->worker_tensor = pyslip_add_type(state, &pyslip_worker_tensor_spec);
  return state->worker_tensor ? 0 : -1;
}
