// SPDX-License-Identifier: Apache-2.0
// Entry: the name and signature of what is called, at hand, and what every call does with them.
#include "pyslip.h"

bool pyslip_entry_learn(pyslip_entry_t *entry, const char *name) {
  size_t count = slip_signature_param_count(entry->signature), length = strlen(name) + 1;
  entry->name = PyMem_Malloc(length);
  entry->slots = PyMem_Malloc((count ? count : 1) * sizeof(*entry->slots));
  if (!entry->name || !entry->slots) return PyErr_NoMemory() != NULL;
  memcpy(entry->name, name, length);
  for (size_t i = 0; i < count; ++i) {
    const slip_param_t *param = slip_signature_param(entry->signature, i);
    entry->slots[i] = (pyslip_slot_t){param->name, PyUnicode_InternFromString(param->name), param->direction, param->dtype,
                                      param->direction == SLIP_DIRECTION_SCALAR};
    entry->slot_count = (uint32_t)(i + 1);
    if (!entry->slots[i].key) return false;
    entry->tensor_count += !entry->slots[i].is_scalar;
  }
  entry->return_count = slip_signature_return_aliases(entry->signature, &entry->returns);
  return true;
}

void pyslip_entry_forget(pyslip_entry_t *entry) {
  for (uint32_t i = 0; i < entry->slot_count; ++i) Py_XDECREF(entry->slots[i].key);
  PyMem_Free(entry->slots);
  PyMem_Free(entry->name);
  slip_signature_release(entry->signature);
}

static bool pyslip_entry_named(const pyslip_entry_t *entry, PyObject *name, PyObject *value, PyObject **values, pyslip_option_t option,
                               void *user) {
  if (!PyUnicode_Check(name)) {  // f.__call__(**{1: 2}) gets this far
    pyslip_raise_format(entry->state, PYSLIP_ERROR_ARGUMENT_TYPE, "%s: %R names no parameter; names are strings", entry->name, name);
    return false;
  }
  for (uint32_t i = 0; i < entry->slot_count; ++i) {
    if (entry->slots[i].key != name && PyUnicode_Compare(entry->slots[i].key, name) != 0) continue;
    if (values[i]) {
      pyslip_raise_format(entry->state, PYSLIP_ERROR_ARGUMENT_TYPE, "%s: parameter %u '%s' is given twice, by position and by name",
                          entry->name, (unsigned)i, entry->slots[i].name);
      return false;
    }
    values[i] = value;
    return true;
  }
  int taken = option ? option(user, name, value) : 0;
  if (taken == 0)
    pyslip_raise_format(entry->state, PYSLIP_ERROR_ARGUMENT_TYPE, "%s: there is no parameter '%U'; see its signature", entry->name, name);
  return taken > 0;
}

bool pyslip_entry_sort(const pyslip_entry_t *entry, PyObject *const *args, size_t count, PyObject *names, PyObject **values,
                       pyslip_option_t option, void *user) {
  size_t named = names ? (size_t)PyTuple_Size(names) : 0;
  if (count > entry->slot_count) {
    pyslip_raise_format(entry->state, PYSLIP_ERROR_ARGUMENT_TYPE, "%s: takes %u arguments, got %zu; see its signature", entry->name,
                        (unsigned)entry->slot_count, count);
    return false;
  }
  for (size_t i = 0; i < entry->slot_count; ++i) values[i] = i < count ? args[i] : NULL;
  for (size_t i = 0; i < named; ++i)
    if (!pyslip_entry_named(entry, PyTuple_GetItem(names, (Py_ssize_t)i), args[count + i], values, option, user)) return false;
  return true;
}

PyObject *pyslip_entry_result(const pyslip_entry_t *entry, PyObject *const *values) {
  if (entry->return_count == 0) return Py_NewRef(Py_None);
  if (entry->return_count == 1) return Py_NewRef(values[entry->returns[0]]);
  PyObject *tuple = PyTuple_New((Py_ssize_t)entry->return_count);
  for (size_t i = 0; tuple && i < entry->return_count; ++i)
    if (PyTuple_SetItem(tuple, (Py_ssize_t)i, Py_NewRef(values[entry->returns[i]])) < 0) Py_CLEAR(tuple);
  return tuple;
}
