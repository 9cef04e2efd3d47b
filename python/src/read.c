// SPDX-License-Identifier: Apache-2.0
// Tensors of other libraries become descriptors. How the tensors of a type are read is decided once a type and cached: an exchange table on
// the type (a C call for each tensor, nothing of Python's), else the buffer protocol, else __dlpack__. A buffer comes before __dlpack__
// where a type has both (NumPy): it tells the same for memory of the host, costs less, and knows read-only.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

#include "direct.h"
#include "read.h"
#include "worker.h"

const char *pyslip_direction_name(uint32_t direction) {
  static const char *const names[] = {"", "in", "out", "inout", "scalar"};
  return direction < sizeof(names) / sizeof(names[0]) ? names[direction] : "";
}

void *pyslip_refuse(pyslip_state_t *state, const pyslip_place_t *place, pyslip_error_e error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyObject *text = PyUnicode_FromFormatV(format, arguments);
  va_end(arguments);
  if (!text) return NULL;
  if (place)
    pyslip_raise_format(state, error, "%s: parameter %u '%s' (%s): %U", place->callable, (unsigned)place->index, place->param,
                        pyslip_direction_name(place->direction), text);
  else
    pyslip_raise_format(state, error, "tensor: %U", text);
  Py_DECREF(text);
  return NULL;
}

void *pyslip_refuse_because(pyslip_state_t *state, const pyslip_place_t *place, const char *what) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  // Not a matter of this tensor.
  if (!value || !PyErr_GivenExceptionMatches(value, PyExc_Exception) || PyErr_GivenExceptionMatches(value, PyExc_MemoryError)) {
    PyErr_Restore(type, value, traceback);
    return NULL;
  }
  // The first line: what follows, such as a backtrace in C++, is in the cause.
  PyObject *text = PyObject_Str(value), *lines = text ? PyUnicode_Splitlines(text, 0) : NULL;
  PyObject *line = lines && PyList_Size(lines) > 0 ? PyList_GetItem(lines, 0) : NULL;
  PyErr_Clear();
  if (line)
    pyslip_refuse(state, place, PYSLIP_ERROR_INVALID_ARGUMENT, "%s: %U", what, line);
  else
    pyslip_refuse(state, place, PYSLIP_ERROR_INVALID_ARGUMENT, "%s", what);
  Py_XDECREF(lines);
  Py_XDECREF(text);
  PyObject *type2, *value2, *traceback2;
  PyErr_Fetch(&type2, &value2, &traceback2);
  PyErr_NormalizeException(&type2, &value2, &traceback2);
  if (value2)
    PyException_SetCause(value2, value);  // takes the reference
  else
    Py_XDECREF(value);
  PyErr_Restore(type2, value2, traceback2);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return NULL;
}

PyObject *pyslip_imported(const char *name) {
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *module = modules ? PyDict_GetItemString(modules, name) : NULL;
  return module == Py_None ? NULL : module;
}

bool pyslip_grad_enabled(pyslip_state_t *state) {
  PyObject *torch = pyslip_imported("torch");
  PyObject *function = torch ? PyObject_GetAttr(torch, state->names.is_grad_enabled) : NULL;
  PyObject *answer = function ? PyObject_CallObject(function, NULL) : NULL;
  bool enabled = !answer || PyObject_IsTrue(answer) != 0;  // unknown: the safe answer
  Py_XDECREF(function);
  Py_XDECREF(answer);
  PyErr_Clear();
  return enabled;
}

// --- what a type offers ----------------------------------------------------------------------------------------------------------------

static const pyslip_exchange_t *pyslip_exchange_of(pyslip_state_t *state, PyTypeObject *type) {
  PyObject *capsule = PyObject_GetAttr((PyObject *)type, state->names.__dlpack_c_exchange_api__);
  const void *pointer = NULL;
  if (capsule && PyCapsule_IsValid(capsule, PYSLIP_EXCHANGE_NAME))
    pointer = PyCapsule_GetPointer(capsule, PYSLIP_EXCHANGE_NAME);
  else if (capsule && PyLong_Check(capsule))
    pointer = PyLong_AsVoidPtr(capsule);
  Py_XDECREF(capsule);
  PyErr_Clear();
  const pyslip_exchange_header_t *header = pointer;
  while (header && header->version.major > 1) header = header->previous;
  if (!header || header->version.major != 1) return NULL;
  const pyslip_exchange_t *exchange = (const pyslip_exchange_t *)header;
  return exchange->managed_from_object ? exchange : NULL;
}

// A subclass of torch.Tensor with a __torch_dispatch__ of its own (fake, functional, wrapper tensors) has the table by inheritance, but no
// storage that it could describe.
static bool pyslip_type_is_fake(pyslip_state_t *state, PyTypeObject *type) {
  PyObject *torch = pyslip_imported("torch");
  PyObject *base = torch ? PyObject_GetAttrString(torch, "Tensor") : NULL;
  PyObject *usual = base ? PyObject_GetAttr(base, state->names.__torch_dispatch__) : NULL;
  PyObject *own = usual ? PyObject_GetAttr((PyObject *)type, state->names.__torch_dispatch__) : NULL;
  bool fake = own && own != usual && PyObject_IsSubclass((PyObject *)type, base) == 1;
  Py_XDECREF(own);
  Py_XDECREF(usual);
  Py_XDECREF(base);
  PyErr_Clear();
  return fake;
}

// torch's own answer to whether autograd is on, by the C interface that it keeps stable, where the type is one of torch's: with autograd
// off no tensor need be asked.
static bool (*pyslip_type_grad_mode(PyTypeObject *type))(void) {
  PyObject *torch = pyslip_imported("torch");
  PyObject *base = torch ? PyObject_GetAttrString(torch, "Tensor") : NULL;
  bool (*function)(void) = NULL;
  if (base && PyObject_IsSubclass((PyObject *)type, base) == 1) {
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library) {
      void *symbol = dlsym(library, "aoti_torch_grad_mode_is_enabled");
      memcpy(&function, &symbol, sizeof(function));
      dlclose(library);  // torch itself keeps it
    }
  }
  Py_XDECREF(base);
  PyErr_Clear();
  return function;
}

static bool pyslip_type_has(PyTypeObject *type, PyObject *name) {
  PyObject *attribute = PyObject_GetAttr((PyObject *)type, name);
  bool has = attribute && attribute != Py_None;
  Py_XDECREF(attribute);
  PyErr_Clear();
  return has;
}

// What tensors of the type must be asked at each call, since DLPack does not tell it.
static void pyslip_type_questions(pyslip_state_t *state, pyslip_type_t *type) {
  if (pyslip_type_has(type->type, state->names.requires_grad)) {
    type->asks |= PYSLIP_ASK_GRAD;
    type->grad_mode = pyslip_type_grad_mode(type->type);
  }
  if (pyslip_type_is_fake(state, type->type)) type->asks |= PYSLIP_ASK_FAKE;
  if (!(type->asks & PYSLIP_ASK_FAKE)) type->direct = (uint8_t)pyslip_direct_of(state, type->type);
  type->is_neg = PyObject_GetAttr((PyObject *)type->type, state->names.is_neg);
  PyErr_Clear();
  if (type->is_neg) type->asks |= PYSLIP_ASK_NEG;
}

pyslip_type_t *pyslip_type_learn(pyslip_state_t *state, PyTypeObject *type) {
  pyslip_type_t fresh = {.type = type};
  Py_INCREF(type);  // the questions may run other code
  if (type == state->tensor)
    fresh.reader = PYSLIP_READER_OWN;
  else if (type == state->worker_tensor)
    fresh.reader = PYSLIP_READER_WORKER;
  else if ((fresh.exchange = pyslip_exchange_of(state, type)) != NULL)
    fresh.reader = PYSLIP_READER_EXCHANGE;
  else if (PyType_GetSlot(type, Py_bf_getbuffer))
    fresh.reader = PYSLIP_READER_BUFFER;
  else if (pyslip_type_has(type, state->names.__dlpack__))
    fresh.reader = PYSLIP_READER_DLPACK;
  else {
    Py_DECREF(type);
    return &state->no_type;  // not cached: it may be taught later
  }
  if (fresh.reader == PYSLIP_READER_EXCHANGE || fresh.reader == PYSLIP_READER_DLPACK) pyslip_type_questions(state, &fresh);
  uintptr_t address = (uintptr_t)type;
  pyslip_type_t *entry = &state->types[(address >> 4 ^ address >> 10) % PYSLIP_TYPES];
  // What leaves the place may run other code, which may fill it again.
  while (entry->type) {
    pyslip_type_t old = *entry;
    memset(entry, 0, sizeof(*entry));
    Py_XDECREF(old.is_neg);
    Py_DECREF(old.type);
  }
  *entry = fresh;
  return entry;
}

bool pyslip_is_tensor(pyslip_state_t *state, PyObject *object) {
  return pyslip_type_find(state, Py_TYPE(object))->reader != PYSLIP_READER_NONE;
}

// --- readers ---------------------------------------------------------------------------------------------------------------------------

static slip_dtype_t pyslip_buffer_dtype(const char *format, Py_ssize_t itemsize) {
  static const slip_dtype_t ints[] = {0, SLIP_DTYPE_I8, SLIP_DTYPE_I16, 0, SLIP_DTYPE_I32, 0, 0, 0, SLIP_DTYPE_I64};
  static const slip_dtype_t uints[] = {0, SLIP_DTYPE_U8, SLIP_DTYPE_U16, 0, SLIP_DTYPE_U32, 0, 0, 0, SLIP_DTYPE_U64};
  if (!format) return itemsize == 1 ? SLIP_DTYPE_U8 : SLIP_DTYPE_NONE;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (!format[0] || format[1] || itemsize < 1 || itemsize > 8) return SLIP_DTYPE_NONE;
  if (strchr("bhilqn", *format)) return ints[itemsize];
  if (strchr("BHILQNc", *format)) return uints[itemsize];
  if (*format == '?' && itemsize == 1) return SLIP_DTYPE_BOOL;
  if (*format == 'e' && itemsize == 2) return SLIP_DTYPE_F16;
  if (*format == 'f' && itemsize == 4) return SLIP_DTYPE_F32;
  if (*format == 'd' && itemsize == 8) return SLIP_DTYPE_F64;
  return SLIP_DTYPE_NONE;
}

static slip_dtype_t pyslip_ml_dtype(const char *name) {
  static const struct {
    const char *name;
    slip_dtype_t dtype;
  } table[] = {{"bfloat16", SLIP_DTYPE_BF16},
               {"float8_e4m3fn", SLIP_DTYPE_F8E4M3FN},
               {"float8_e5m2", SLIP_DTYPE_F8E5M2},
               {"float8_e8m0fnu", SLIP_DTYPE_F8E8M0}};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); ++i)
    if (strcmp(table[i].name, name) == 0) return table[i].dtype;
  return SLIP_DTYPE_NONE;
}

// |dtype| NONE: as the format says.
static bool pyslip_read_view(pyslip_state_t *state, const pyslip_place_t *place, const Py_buffer *view, slip_dtype_t dtype,
                             slip_tensor_t *out) {
  if (dtype == SLIP_DTYPE_NONE) dtype = pyslip_buffer_dtype(view->format, view->itemsize);
  if (dtype == SLIP_DTYPE_NONE)
    return pyslip_refuse(
        state, place, PYSLIP_ERROR_INVALID_ARGUMENT,
        "elements of format '%s' with %zd bytes have no dtype here; pass a native-order array of a dtype in the manual's list",
        view->format ? view->format : "B", view->itemsize);
  if (view->ndim > SLIP_MAX_RANK)
    return pyslip_refuse(state, place, PYSLIP_ERROR_INVALID_ARGUMENT, "rank %d is above %d; reshape it", view->ndim, SLIP_MAX_RANK);
  memset(out, 0, sizeof(*out));
  out->struct_size = (uint32_t)sizeof(*out);
  out->dtype = dtype;
  out->rank = (uint8_t)view->ndim;
  out->format = SLIP_FORMAT_ND;
  out->flags = view->readonly ? SLIP_TENSOR_READ_ONLY : SLIP_TENSOR_NONE;
  out->data = view->buf;
  out->device = slip_device_cpu();
  int64_t stride = 1;
  for (int i = view->ndim - 1; i >= 0; --i) {
    out->dims[i] = view->shape ? view->shape[i] : view->len / view->itemsize;
    if (!view->strides) {
      out->strides[i] = stride;
    } else if (view->strides[i] % view->itemsize == 0) {
      out->strides[i] = view->strides[i] / view->itemsize;
    } else if (out->dims[i] > 1) {
      return pyslip_refuse(state, place, PYSLIP_ERROR_INVALID_ARGUMENT,
                           "dimension %d has a stride of %zd bytes, no multiple of the element's %zd; pass a copy", i, view->strides[i],
                           view->itemsize);
    }
    stride *= out->dims[i];
  }
  return true;
}

static bool pyslip_read_buffer_of(pyslip_state_t *state, const pyslip_place_t *place, PyObject *object, slip_dtype_t dtype,
                                  slip_tensor_t *out, pyslip_kept_t *kept) {
  if (PyObject_GetBuffer(object, &kept->value.buffer, PyBUF_STRIDES | PyBUF_FORMAT) < 0) return false;
  kept->kind = PYSLIP_KEPT_BUFFER;
  if (pyslip_read_view(state, place, &kept->value.buffer, dtype, out)) return true;
  kept->kind = PYSLIP_KEPT_NOTHING;
  PyBuffer_Release(&kept->value.buffer);
  return false;
}

// An array of NumPy's with a dtype of ml_dtypes has no buffer of that dtype, but one of its carrier.
static bool pyslip_read_ml_dtype(pyslip_state_t *state, const pyslip_place_t *place, PyObject *object, slip_dtype_t *out_dtype,
                                 slip_tensor_t *out, pyslip_kept_t *kept) {
  PyObject *dtype = PyObject_GetAttr(object, state->names.dtype);
  PyObject *name = dtype ? PyObject_GetAttr(dtype, state->names.name) : NULL;
  const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  *out_dtype = text ? pyslip_ml_dtype(text) : SLIP_DTYPE_NONE;
  PyObject *carrier = NULL;
  PyErr_Clear();
  if (*out_dtype != SLIP_DTYPE_NONE) {
    PyObject *view = PyObject_GetAttr(object, state->names.view);
    carrier = view ? PyObject_CallFunction(view, "s", slip_dtype_size_bytes(*out_dtype) == 2 ? "uint16" : "uint8") : NULL;
    Py_XDECREF(view);
  }
  Py_XDECREF(name);
  Py_XDECREF(dtype);
  bool ok = carrier && pyslip_read_buffer_of(state, place, carrier, *out_dtype, out, kept);
  Py_XDECREF(carrier);
  return ok;
}

static bool pyslip_take_managed(pyslip_state_t *state, const pyslip_place_t *place, slip_dl_managed_t *managed, slip_tensor_t *out,
                                pyslip_kept_t *kept) {
  slip_status_t status = slip_tensor_from_dlpack_managed(managed, out);
  if (slip_status_is_ok(status)) {
    kept->kind = PYSLIP_KEPT_MANAGED;
    kept->value.managed = managed;
    return true;
  }
  if (managed->deleter) managed->deleter(managed);
  return pyslip_refuse_status(state, place, status);
}

static bool pyslip_read_dlpack(pyslip_state_t *state, const pyslip_place_t *place, PyObject *object, slip_tensor_t *out,
                               pyslip_kept_t *kept) {
  PyObject *const arguments[] = {object, state->dlpack_version};
  PyObject *capsule = PyObject_VectorcallMethod(state->names.__dlpack__, arguments, 1, state->dlpack_names);
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {  // a producer of before DLPack 1.0
    PyErr_Clear();
    capsule = PyObject_VectorcallMethod(state->names.__dlpack__, arguments, 1, NULL);
  }
  if (!capsule) return pyslip_refuse_because(state, place, "its __dlpack__() gives nothing");
  bool ok = false;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    slip_dl_managed_t *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed && PyCapsule_SetName(capsule, "used_dltensor_versioned") == 0) ok = pyslip_take_managed(state, place, managed, out, kept);
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    pyslip_dl_old_t *old = PyCapsule_GetPointer(capsule, "dltensor");
    slip_status_t status = slip_tensor_from_dlpack(&old->tensor, 0, out);
    ok = slip_status_is_ok(status) ? PyCapsule_SetName(capsule, "used_dltensor") == 0 : pyslip_refuse_status(state, place, status) != NULL;
    if (ok) {
      kept->kind = PYSLIP_KEPT_OLD;
      kept->value.old = old;
    }
  } else {
    pyslip_refuse(state, place, PYSLIP_ERROR_ARGUMENT_TYPE, "its __dlpack__() gave %.100R, which is no DLPack capsule that is still unused",
                  capsule);
  }
  Py_DECREF(capsule);
  return ok;
}

static bool pyslip_read_buffer(pyslip_state_t *state, const pyslip_place_t *place, PyObject *object, slip_tensor_t *out,
                               pyslip_kept_t *kept) {
  if (pyslip_read_buffer_of(state, place, object, SLIP_DTYPE_NONE, out, kept)) return true;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (type && PyErr_GivenExceptionMatches(type, state->errors[PYSLIP_ERROR_SLIP])) {  // our own refusal
    PyErr_Restore(type, value, traceback);
    return false;
  }
  slip_dtype_t dtype;
  bool ok = pyslip_read_ml_dtype(state, place, object, &dtype, out, kept);
  if (ok || dtype != SLIP_DTYPE_NONE || pyslip_type_has(Py_TYPE(object), state->names.__dlpack__)) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return ok || (dtype == SLIP_DTYPE_NONE && pyslip_read_dlpack(state, place, object, out, kept));
  }
  PyErr_Restore(type, value, traceback);
  return pyslip_refuse_because(state, place, "its buffer cannot be had");
}

// What a framework's tensor is asked: each is a call into Python, which may change the cache that |type| lies in.
static bool pyslip_read_asks(pyslip_state_t *state, const pyslip_place_t *place, const pyslip_type_t *type, PyObject *object,
                             uint8_t *flags) {
  uint8_t asks = type->asks;
  PyObject *is_neg = type->is_neg, *answer;
  bool ok = true;
  if (asks & PYSLIP_ASK_FAKE)
    return pyslip_refuse(state, place, PYSLIP_ERROR_INVALID_ARGUMENT,
                         "expects a tensor with storage, got a %R, which has none; call through slipstream.torch when tracing", type->type);
  if (type->grad_mode && !type->grad_mode()) asks &= (uint8_t)~PYSLIP_ASK_GRAD;
  Py_XINCREF(is_neg);
  if (asks & PYSLIP_ASK_GRAD) {
    answer = PyObject_GetAttr(object, state->names.requires_grad);
    if (answer && answer != Py_False && PyObject_IsTrue(answer) != 0) *flags |= SLIP_TENSOR_REQUIRES_GRAD;
    ok = answer != NULL;
    Py_XDECREF(answer);
  }
  if (ok && is_neg) {
    answer = PyObject_CallFunctionObjArgs(is_neg, object, NULL);
    if (answer && answer != Py_False && PyObject_IsTrue(answer) != 0) *flags |= SLIP_TENSOR_NEG;
    ok = answer != NULL;
    Py_XDECREF(answer);
  }
  Py_XDECREF(is_neg);
  return ok || pyslip_refuse_because(state, place, "it cannot be asked about gradients and negation");
}

// The usual tensor: on the host, complete, of a dtype that was seen with this type before. Leaves the checks to slip_frame_initialize(),
// which validates every descriptor; false: to be read by slip_tensor_from_dlpack(), which tells what is wrong.
static bool pyslip_read_plain(pyslip_type_t *type, const slip_dl_tensor_t *view, slip_tensor_t *out) {
  uint32_t key = (uint32_t)view->dtype.code << 24 | (uint32_t)view->dtype.bits << 16 | view->dtype.lanes;
  if (view->device.device_type != 1 || !view->data || !view->shape || !view->strides || (uint32_t)view->ndim > SLIP_MAX_RANK) return false;
  if (__builtin_expect(key != type->dl_key, 0)) {
    type->dl_dtype = slip_dtype_from_dlpack(view->dtype.code, view->dtype.bits, view->dtype.lanes);
    type->dl_key = key;
  }
  if (type->dl_dtype == SLIP_DTYPE_NONE) return false;
  memset(out, 0, sizeof(*out));
  out->struct_size = (uint32_t)sizeof(*out);
  out->dtype = type->dl_dtype;
  out->rank = (uint8_t)view->ndim;
  out->format = SLIP_FORMAT_ND;
  out->data = view->data;
  out->byte_offset = view->byte_offset;
  out->device = slip_device_cpu();
  for (int32_t i = 0; i < view->ndim; ++i) {
    out->dims[i] = view->shape[i];
    out->strides[i] = view->strides[i];
  }
  return true;
}

static bool pyslip_read_exchange(pyslip_state_t *state, const pyslip_place_t *place, const pyslip_exchange_t *exchange, pyslip_type_t *type,
                                 PyObject *object, uint32_t bits, slip_tensor_t *out, pyslip_kept_t *kept) {
  if (!(bits & PYSLIP_READ_OWN) && exchange->tensor_from_object) {
    slip_dl_tensor_t view;
    if (exchange->tensor_from_object(object, &view) != 0) return pyslip_refuse_because(state, place, "it cannot be described");
    if (!pyslip_read_plain(type, &view, out)) {
      slip_status_t status = slip_tensor_from_dlpack(&view, 0, out);
      if (__builtin_expect(!slip_status_is_ok(status), 0)) return pyslip_refuse_status(state, place, status);
    }
  } else {
    slip_dl_managed_t *managed = NULL;
    if (exchange->managed_from_object(object, &managed) != 0 || !managed)
      return pyslip_refuse_because(state, place, "it cannot be described");
    return pyslip_take_managed(state, place, managed, out, kept);
  }
  return true;
}

static bool pyslip_read_asking(pyslip_state_t *state, const pyslip_place_t *place, pyslip_type_t *type, PyObject *object, uint32_t bits,
                               slip_tensor_t *out, pyslip_kept_t *kept) {
  const pyslip_exchange_t *exchange = type->exchange;
  uint8_t flags = 0;
  if (!pyslip_read_asks(state, place, type, object, &flags)) return false;
  bool ok = exchange ? pyslip_read_exchange(state, place, exchange, type, object, bits, out, kept)
                     : pyslip_read_dlpack(state, place, object, out, kept);
  if (ok) out->flags |= flags;
  return ok;
}

bool pyslip_read_usual(pyslip_state_t *state, const pyslip_place_t *place, PyObject *object, uint32_t bits, slip_tensor_t *out,
                       pyslip_kept_t *kept) {
  return pyslip_read_asking(state, place, pyslip_type_find(state, Py_TYPE(object)), object, bits, out, kept);
}

bool pyslip_read_tensor(pyslip_state_t *state, const pyslip_place_t *place, PyObject *object, uint32_t bits, slip_tensor_t *out,
                        pyslip_kept_t *kept) {
  pyslip_type_t *type = pyslip_type_find(state, Py_TYPE(object));
  kept->kind = PYSLIP_KEPT_NOTHING;
  if (__builtin_expect(type->direct == PYSLIP_DIRECT_OPEN, 0)) {
    pyslip_direct_probe(state);
    type = pyslip_type_find(state, Py_TYPE(object));
    type->direct = (uint8_t)pyslip_direct_of(state, Py_TYPE(object));
  }
  if (type->direct == PYSLIP_DIRECT_YES) {
    bool read = bits & PYSLIP_READ_OWN ? pyslip_direct_keep(object, out, kept) : pyslip_direct_read(object, out);
    if (__builtin_expect(read, 1)) return true;
  }
  if (type->asks) return pyslip_read_asking(state, place, type, object, bits, out, kept);
  switch (type->reader) {
    case PYSLIP_READER_EXCHANGE:
      return pyslip_read_exchange(state, place, type->exchange, type, object, bits, out, kept);
    case PYSLIP_READER_OWN:
      *out = ((pyslip_tensor_t *)object)->tensor;
      if (bits & PYSLIP_READ_OWN) {
        kept->kind = PYSLIP_KEPT_OBJECT;
        kept->value.object = Py_NewRef(object);
      }
      return true;
    case PYSLIP_READER_BUFFER:
      return pyslip_read_buffer(state, place, object, out, kept);
    case PYSLIP_READER_DLPACK:
      return pyslip_read_dlpack(state, place, object, out, kept);
    case PYSLIP_READER_WORKER:
      return pyslip_worker_tensor_read(state, place, object, out, kept);
    default:
      return pyslip_refuse(state, place, PYSLIP_ERROR_ARGUMENT_TYPE,
                           "expects a tensor, got %.100R of type %R; pass an object with DLPack or a buffer, such as an array of NumPy or "
                           "a slipstream.Tensor",
                           object, Py_TYPE(object));
  }
}
