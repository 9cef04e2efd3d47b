// SPDX-License-Identifier: Apache-2.0
// Options of open() that are numbers: read strictly, so that a value that does not fit is refused and not cut.
#include "pyslip.h"

bool pyslip_option_rings(pyslip_state_t *state, const char *name, PyObject *value, uint64_t limit, uint64_t out[SLIP_RING_COUNT]) {
  for (size_t i = 0; i < SLIP_RING_COUNT; ++i) out[i] = 0;
  if (!value) return true;
  PyObject *tuple = PyLong_Check(value) ? Py_BuildValue("(OOOO)", value, value, value, value) : PySequence_Tuple(value);
  bool ok = tuple != NULL;
  if (ok && PyTuple_Size(tuple) != SLIP_RING_COUNT)
    ok = pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "%s: expects an int or %d of them, one a scope depth, got %R", name,
                             SLIP_RING_COUNT, value) != NULL;
  for (size_t i = 0; ok && i < SLIP_RING_COUNT; ++i) {
    out[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(tuple, (Py_ssize_t)i));
    if (PyErr_Occurred() || out[i] > limit) {
      PyErr_Clear();
      ok = pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "%s: %R is not an int from 0 to %llu", name, value,
                               (unsigned long long)limit) != NULL;
    }
  }
  Py_XDECREF(tuple);
  return ok;
}

bool pyslip_option_number(pyslip_state_t *state, const char *name, PyObject *value, uint64_t limit, uint64_t *out) {
  *out = 0;
  if (!value) return true;
  *out = PyLong_Check(value) ? PyLong_AsUnsignedLongLong(value) : UINT64_MAX;
  if (!PyLong_Check(value) || PyErr_Occurred() || *out > limit) {
    PyErr_Clear();
    pyslip_raise_format(state, PYSLIP_ERROR_INVALID_ARGUMENT, "%s: %R is not an int from 0 to %llu", name, value,
                        (unsigned long long)limit);
    return false;
  }
  return true;
}

bool pyslip_context_options(pyslip_state_t *state, PyObject *const *values, slip_context_options_t *options) {
  uint64_t window[SLIP_RING_COUNT], heap[SLIP_RING_COUNT], pool[SLIP_RING_COUNT], numbers[11];
  static const struct {
    const char *name;
    uint64_t limit;
  } table[11] = {{"generation", INT64_MAX},        {"scheduler_threads", UINT32_MAX},
                 {"max_in_flight", UINT32_MAX},    {"max_pending", UINT32_MAX},
                 {"max_callables", UINT32_MAX},    {"max_resident_bytes", UINT64_MAX},
                 {"max_image_bytes", UINT64_MAX},  {"workspace_budget_bytes", UINT64_MAX},
                 {"stall_timeout_ms", UINT32_MAX}, {"max_captured", UINT32_MAX},
                 {"max_captures", UINT32_MAX}};
  if (!pyslip_option_rings(state, "task_window", values[0], UINT32_MAX, window) ||
      !pyslip_option_rings(state, "heap_bytes", values[1], UINT64_MAX, heap) ||
      !pyslip_option_rings(state, "dependency_pool", values[2], UINT32_MAX, pool))
    return false;
  for (size_t i = 0; i < 11; ++i)
    if (!pyslip_option_number(state, table[i].name, values[3 + i], table[i].limit, &numbers[i])) return false;
  for (size_t i = 0; i < SLIP_RING_COUNT; ++i) {
    options->task_window[i] = (uint32_t)window[i];
    options->heap_bytes[i] = heap[i];
    options->dependency_pool[i] = (uint32_t)pool[i];
  }
  options->generation = numbers[0];
  options->scheduler_threads = (uint32_t)numbers[1];
  options->max_in_flight = (uint32_t)numbers[2];
  options->max_pending = (uint32_t)numbers[3];
  options->max_callables = (uint32_t)numbers[4];
  options->max_resident_bytes = numbers[5];
  options->max_image_bytes = numbers[6];
  options->workspace_budget_bytes = numbers[7];
  options->stall_timeout_ms = (uint32_t)numbers[8];
  options->max_captured = (uint32_t)numbers[9];
  options->max_captures = (uint32_t)numbers[10];
  return true;
}
