// SPDX-License-Identifier: Apache-2.0
// slipstream._torch.Frame: a validated call, built from what Python read off the tensors.
//
// Frame(signature, name, platform, ordinal, args, grad, physical)
//   args      per parameter either ("f32", value) for a scalar, or (dtype, shape, strides, base, byte_offset, storage_bytes, platform,
//   ordinal,
//             format, flags, object) for a tensor
//   physical  None, or a function: object -> dims of the blocked layout; asked for NZ parameters only
#include "frame.h"

#include <string.h>

typedef struct slip__torch_frame_t {
  PyObject_HEAD slip_frame_t frame;
  bool built;
} slip__torch_frame_t;

static int slip__torch_parse_dims(PyObject *tuple, int64_t *dims, const char *what) {
  const Py_ssize_t count = PyTuple_Size(tuple);
  if (count < 0) return -1;
  for (Py_ssize_t i = 0; i < count && i < SLIP_MAX_RANK; ++i) {
    const long long value = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (value == -1 && PyErr_Occurred()) return -1;
    dims[i] = value;
  }
  if (count > SLIP_MAX_RANK) {
    slip__torch_raise(
        SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s has rank %lld, expected at most %d", what, (long long)count, SLIP_MAX_RANK));
    return -1;
  }
  return (int)count;
}

static int slip__torch_parse_tensor(PyObject *item, slip_tensor_t *out, slip_arg_t *arg) {
  const char *dtype, *platform;
  PyObject *shape, *strides, *object;
  unsigned long long base, offset, bytes;
  int ordinal, format, flags;
  *out = (slip_tensor_t){.struct_size = (uint32_t)sizeof(*out)};
  if (!PyArg_ParseTuple(item, "sO!O!KKKsiiiO", &dtype, &PyTuple_Type, &shape, &PyTuple_Type, &strides, &base, &offset, &bytes, &platform,
                        &ordinal, &format, &flags, &object)) {
    return -1;
  }
  const int rank = slip__torch_parse_dims(shape, out->dims, "a tensor");
  if (rank < 0 || slip__torch_parse_dims(strides, out->strides, "a tensor") < 0) return -1;
  out->dtype = slip_dtype_from_name(dtype, strlen(dtype));
  out->rank = (uint8_t)rank;
  out->format = (uint8_t)format;
  out->flags = (uint8_t)flags;
  out->data = out->storage_base = (void *)(uintptr_t)base;
  out->byte_offset = offset;
  out->storage_bytes = base ? bytes : 0;
  out->device.platform = slip_platform_from_name(platform);
  out->device.ordinal = (int16_t)ordinal;
  *arg = slip_arg_tensor(out, object);
  return 0;
}

static int slip__torch_parse_scalar(PyObject *item, const char *name, Py_ssize_t index, slip_arg_t *arg) {
  const char *dtype;
  PyObject *value;
  slip_scalar_t scalar = {0};
  slip_status_t status;
  if (!PyArg_ParseTuple(item, "sO", &dtype, &value)) return -1;
  const slip_dtype_t type = slip_dtype_from_name(dtype, strlen(dtype));
  if (PyBool_Check(value)) {
    status = slip_scalar_from_bool(type, value == Py_True, &scalar);
  } else if (PyFloat_Check(value)) {
    status = slip_scalar_from_f64(type, PyFloat_AsDouble(value), &scalar);
  } else {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (number == -1 && PyErr_Occurred()) return -1;
    if (overflow > 0) {
      const unsigned long long large = PyLong_AsUnsignedLongLong(value);
      if (PyErr_Occurred()) {
        PyErr_Clear();
        status = SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the integer is above 2^64-1, expected one that %s holds", dtype);
      } else {
        status = slip_scalar_from_u64(type, large, &scalar);
      }
    } else if (overflow < 0) {
      status = SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the integer is below -2^63, expected one that %s holds", dtype);
    } else {
      status = slip_scalar_from_i64(type, number, &scalar);
    }
  }
  if (!slip_status_is_ok(status)) {
    slip__torch_raise(slip_status_annotate(status, "%s: parameter %lld", name, (long long)index));
    return -1;
  }
  *arg = slip_arg_scalar(scalar);
  return 0;
}

slip_status_t slip__torch_status_of_exception(slip_code_t code, const char *what) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
  slip_status_t status = SLIP_STATUS(code, "%s: %s", what, bytes ? PyBytes_AsString(bytes) : "the answer is of another type");
  Py_XDECREF(bytes);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  PyErr_Clear();
  return status;
}

static slip_status_t slip__torch_physical(void *user, const slip_tensor_t *tensor, void *object, slip_physical_t *out) {
  (void)tensor;
  PyObject *dims = PyObject_CallFunctionObjArgs(user, object, NULL);
  slip_status_t status = slip_ok_status();
  const Py_ssize_t count = dims && PyTuple_Check(dims) ? PyTuple_Size(dims) : -1;
  const char *what = "the framework did not tell the physical shape of an NZ tensor";
  if (count < 0 || count > 8) {
    status = slip__torch_status_of_exception(SLIP_CODE_INVALID_ARGUMENT, what);
  } else {
    out->rank = (uint32_t)count;
    for (Py_ssize_t i = 0; i < count; ++i) out->dims[i] = PyLong_AsLongLong(PyTuple_GetItem(dims, i));
    if (PyErr_Occurred()) status = slip__torch_status_of_exception(SLIP_CODE_INVALID_ARGUMENT, what);
  }
  Py_XDECREF(dims);
  return status;
}

static PyObject *slip__torch_frame_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
  unsigned long long signature;
  const char *name, *platform;
  int ordinal, grad;
  PyObject *items, *physical;
  (void)named;
  if (!PyArg_ParseTuple(arguments, "KssiO!pO", &signature, &name, &platform, &ordinal, &PyTuple_Type, &items, &grad, &physical))
    return NULL;
  const Py_ssize_t count = PyTuple_Size(items);
  slip__torch_frame_t *self = (slip__torch_frame_t *)PyType_GenericAlloc(type, 0);
  slip_arg_t *args = PyMem_Calloc((size_t)count + 1, sizeof(*args));
  slip_tensor_t *tensors = PyMem_Calloc((size_t)count + 1, sizeof(*tensors));
  int failed = !self || !args || !tensors;
  if (failed) PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count && !failed; ++i) {
    PyObject *item = PyTuple_GetItem(items, i);
    if (!PyTuple_Check(item)) {
      failed = 1;
      PyErr_SetString(PyExc_TypeError, "args holds something that is no tuple");
    } else {
      failed = PyTuple_Size(item) == 2 ? slip__torch_parse_scalar(item, name, i, &args[i])
                                       : slip__torch_parse_tensor(item, &tensors[i], &args[i]);
    }
  }
  if (!failed) {
    slip_frame_hooks_t hooks = SLIP_FRAME_HOOKS_INIT;
    hooks.physical = physical == Py_None ? NULL : slip__torch_physical;
    hooks.user = physical;
    const slip_device_t device = {slip_platform_from_name(platform), (int16_t)ordinal};
    slip_status_t status = slip_frame_initialize_hooked(&self->frame, (slip_signature_t *)(uintptr_t)signature, name, device, args,
                                                        (size_t)count, grad ? SLIP_FRAME_GRAD_ENABLED : SLIP_FRAME_NONE, &hooks);
    self->built = slip_status_is_ok(status);
    if (!self->built) {
      slip_frame_deinitialize(&self->frame);
      slip__torch_raise(status);
      failed = 1;
    }
  }
  PyMem_Free(args);
  PyMem_Free(tensors);
  if (!failed) return (PyObject *)self;
  Py_XDECREF((PyObject *)self);
  return NULL;
}

static void slip__torch_frame_free(PyObject *object) {
  slip__torch_frame_t *self = (slip__torch_frame_t *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->built) slip_frame_deinitialize(&self->frame);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF((PyObject *)type);
}

// Any thread, with or without the GIL. At the interpreter's end the owner is left to the operating system.
static void slip__torch_owner_release(void *user) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF((PyObject *)user);
  PyGILState_Release(state);
}

// launch(gate, context, id, stream, owner): |owner| is kept until the device is done.
static PyObject *slip__torch_frame_launch(PyObject *object, PyObject *arguments) {
  slip__torch_frame_t *self = (slip__torch_frame_t *)object;
  unsigned long long gate, context, stream;
  int id;
  PyObject *owner;
  if (!PyArg_ParseTuple(arguments, "KKiKO", &gate, &context, &id, &stream, &owner)) return NULL;
  slip_launch_record_t record = {.struct_size = (uint32_t)sizeof(record),
                                 .id = id,
                                 .context = (slip_context_t *)(uintptr_t)context,
                                 .frame = &self->frame,
                                 .stream = (slip_stream_t)(uintptr_t)stream,
                                 .release = slip__torch_owner_release,
                                 .user = owner};
  slip_status_t status;
  if (!slip__torch_gate_enter((slip__torch_gate_t *)(uintptr_t)gate)) {
    return slip__torch_raise(SLIP_STATUS(SLIP_CODE_INVALID_STATE, "launched after close; call init() and load the artifact again"));
  }
  Py_INCREF(owner);
  Py_BEGIN_ALLOW_THREADS;
  status = slip_launch(&record, NULL);
  slip__torch_gate_leave((slip__torch_gate_t *)(uintptr_t)gate);
  Py_END_ALLOW_THREADS;
  if (!slip_status_is_ok(status)) return slip__torch_raise(status);
  Py_RETURN_NONE;
}

static PyMethodDef slip__torch_frame_methods[] = {
    {"launch", slip__torch_frame_launch, METH_VARARGS,
     "launch(gate, context, id, stream, owner): enqueues the call; |owner| lives until it is done."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slip__torch_frame_slots[] = {
    {Py_tp_new, (void *)slip__torch_frame_new},
    {Py_tp_dealloc, (void *)slip__torch_frame_free},
    {Py_tp_methods, slip__torch_frame_methods},
    {Py_tp_doc, (void *)"A validated call: Frame(signature, name, platform, ordinal, args, grad, physical)."},
    {0, NULL},
};

static PyType_Spec slip__torch_frame_spec = {"slipstream._torch.Frame", (int)sizeof(slip__torch_frame_t), 0, Py_TPFLAGS_DEFAULT,
                                             slip__torch_frame_slots};

int slip__torch_frame_type(PyObject *module) {
  PyObject *type = PyType_FromSpec(&slip__torch_frame_spec);
  if (!type) return -1;
  const int result = PyModule_AddObjectRef(module, "Frame", type);
  Py_DECREF(type);
  return result;
}
