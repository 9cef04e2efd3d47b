// SPDX-License-Identifier: Apache-2.0
// One call: arguments sorted, read straight into the arrays that slip_frame_initialize() takes, frame built.
#include "read.h"

static bool pyslip_call_missing(pyslip_callable_t *callable, PyObject *const *values, size_t given) {
  for (uint32_t i = 0; i < callable->entry.slot_count; ++i)
    if (!values[i]) {
      const pyslip_slot_t *slot = &callable->entry.slots[i];
      pyslip_raise_format(callable->entry.state, PYSLIP_ERROR_ARGUMENT_TYPE,
                          "%s: parameter %u '%s' (%s) is missing; it takes %u arguments and got %zu (outputs are passed too)",
                          callable->entry.name, (unsigned)i, slot->name, pyslip_direction_name(slot->direction),
                          (unsigned)callable->entry.slot_count, given);
      return false;
    }
  return true;
}

typedef struct pyslip_stream_option_t {
  const pyslip_state_t *state;
  PyObject **out;
} pyslip_stream_option_t;

static int pyslip_call_option(void *user, PyObject *name, PyObject *value) {
  const pyslip_stream_option_t *stream = user;
  if (name != stream->state->names.stream && PyUnicode_Compare(name, stream->state->names.stream) != 0) return 0;
  *stream->out = value;
  return 1;
}

bool pyslip_call_sort(pyslip_callable_t *callable, PyObject *const *args, size_t count, PyObject *names, PyObject **values,
                      PyObject **out_stream) {
  size_t named = names ? (size_t)PyTuple_Size(names) : 0;
  pyslip_stream_option_t stream = {callable->entry.state, out_stream};
  if (!pyslip_entry_sort(&callable->entry, args, count, names, values, out_stream ? pyslip_call_option : NULL, &stream)) return false;
  return pyslip_call_missing(callable, values, count + named - (out_stream && *out_stream ? 1 : 0));
}

static bool pyslip_call_arrays(pyslip_callable_t *callable, pyslip_call_t *call) {
  call->args = call->fast_args;
  call->tensors = call->fast_tensors;
  call->kept = call->fast_kept;
  call->memory = NULL;
  if (__builtin_expect(callable->entry.slot_count <= PYSLIP_FAST_ARGUMENTS && callable->entry.tensor_count <= PYSLIP_FAST_TENSORS, 1))
    return true;
  size_t args = callable->entry.slot_count * sizeof(*call->args), tensors = callable->entry.tensor_count * sizeof(*call->tensors);
  char *memory = PyMem_Malloc(args + tensors + callable->entry.tensor_count * sizeof(*call->kept));
  if (!memory) {
    PyErr_NoMemory();
    return false;
  }
  call->memory = memory;
  call->args = (slip_arg_t *)memory;
  call->tensors = (slip_tensor_t *)(memory + args);
  call->kept = (pyslip_kept_t *)(memory + args + tensors);
  return true;
}

static void pyslip_call_unbind(pyslip_call_t *call, pyslip_hold_t *hold) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (hold) {
    pyslip_kept_release(hold->kept, hold->count);
    hold->count = 0;
  }
  pyslip_kept_release(call->kept, call->kept_count);
  PyMem_Free(call->memory);
  PyErr_Restore(type, value, traceback);
}

// Whether reading |object| as a scalar runs no code but the interpreter's.
static inline bool pyslip_call_plain(PyObject *object) {
  return PyFloat_CheckExact(object) || PyLong_CheckExact(object) || PyBool_Check(object);
}

// Views of an exchange table are good until other code runs, such as the __index__() of a later argument: reads them once more.
static bool pyslip_call_refresh(pyslip_callable_t *callable, PyObject *const *values, pyslip_call_t *call) {
  slip_tensor_t *tensor = call->tensors;
  for (uint32_t i = 0; i < callable->entry.slot_count; ++i) {
    const pyslip_slot_t *slot = &callable->entry.slots[i];
    const pyslip_place_t place = {callable->entry.name, slot->name, i, slot->direction};
    slip_tensor_t fresh;
    pyslip_kept_t kept;
    if (slot->is_scalar) continue;
    if (pyslip_type_find(callable->entry.state, Py_TYPE(values[i]))->reader == PYSLIP_READER_EXCHANGE) {
      if (!pyslip_read_tensor(callable->entry.state, &place, values[i], PYSLIP_READ_VIEW, &fresh, &kept)) return false;
      if (kept.kind == PYSLIP_KEPT_NOTHING) *tensor = fresh;
      pyslip_kept_release(&kept, 1);
    }
    ++tensor;
  }
  return true;
}

bool pyslip_call_bind(pyslip_callable_t *callable, PyObject *const *values, pyslip_hold_t *hold, pyslip_call_t *call) {
  pyslip_state_t *state = callable->entry.state;
  if (!pyslip_call_arrays(callable, call)) return false;
  pyslip_kept_t *kept = hold ? hold->kept : call->kept;
  slip_tensor_t *tensor = call->tensors;
  uint32_t kept_count = 0, bits = hold ? PYSLIP_READ_OWN : PYSLIP_READ_VIEW;
  uint64_t total = 0;
  uint8_t flags = 0;
  bool ok = true, views = false, stale = false;
  for (uint32_t i = 0; ok && i < callable->entry.slot_count; ++i) {
    const pyslip_slot_t *slot = &callable->entry.slots[i];
    const pyslip_place_t place = {callable->entry.name, slot->name, i, slot->direction};
    if (slot->is_scalar) {
      if (views && !pyslip_call_plain(values[i])) stale = true;
      call->args[i] = slip_arg_scalar((slip_scalar_t){0});
      ok = pyslip_read_scalar(state, &place, slot->dtype, values[i], &call->args[i].value.scalar);
      continue;
    }
    ok = pyslip_read_tensor(state, &place, values[i], bits, tensor, &kept[kept_count]);
    if (!ok) break;
    if (kept[kept_count].kind != PYSLIP_KEPT_NOTHING) {
      ++kept_count;
      stale = views;
    } else if (Py_TYPE(values[i]) != state->tensor) {
      views = true;
    }
    uint64_t elements = 1;
    for (uint8_t d = 0; d < tensor->rank; ++d) elements *= (uint64_t)tensor->dims[d];
    total += elements;
    flags |= tensor->flags;
    call->args[i] = slip_arg_tensor(tensor++, NULL);
  }
  call->kept_count = hold ? 0 : kept_count;
  if (hold) hold->count = kept_count;
  call->elements = (int64_t)(total & INT64_MAX);
  uint32_t frame_flags = (flags & SLIP_TENSOR_REQUIRES_GRAD) && pyslip_grad_enabled(state) ? SLIP_FRAME_GRAD_ENABLED : SLIP_FRAME_NONE;
  if (__builtin_expect(ok && stale, 0)) ok = pyslip_call_refresh(callable, values, call);
  if (__builtin_expect(ok, 1)) {
    slip_status_t status = slip_frame_initialize(&call->frame, callable->entry.signature, callable->entry.name, callable->context->device,
                                                 call->args, callable->entry.slot_count, frame_flags);
    if (__builtin_expect(slip_status_is_ok(status), 1)) return true;
    slip_frame_deinitialize(&call->frame);
    pyslip_raise(state, status);
  }
  pyslip_call_unbind(call, hold);
  return false;
}

void pyslip_call_end(pyslip_call_t *call) {
  slip_frame_deinitialize(&call->frame);
  if (__builtin_expect(call->kept_count != 0, 0)) pyslip_kept_release(call->kept, call->kept_count);
  if (__builtin_expect(call->memory != NULL, 0)) PyMem_Free(call->memory);
}

PyObject *pyslip_call_slowly(pyslip_vectorcall_t function, PyObject *object, PyObject *args, PyObject *named) {
  size_t count = (size_t)PyTuple_Size(args), extra = named ? (size_t)PyDict_Size(named) : 0;
  PyObject **values = PyMem_Malloc((count + extra + 1) * sizeof(*values));
  PyObject *names = extra ? PyTuple_New((Py_ssize_t)extra) : NULL;
  PyObject *key, *value, *result = NULL;
  Py_ssize_t position = 0;
  if (values && (names || !extra)) {
    for (size_t i = 0; i < count; ++i) values[i] = PyTuple_GetItem(args, (Py_ssize_t)i);
    for (size_t i = 0; extra && PyDict_Next(named, &position, &key, &value); ++i) {
      values[count + i] = value;
      PyTuple_SetItem(names, (Py_ssize_t)i, Py_NewRef(key));
    }
    result = function(object, values, count, names);
  } else {
    PyErr_NoMemory();
  }
  Py_XDECREF(names);
  PyMem_Free(values);
  return result;
}
