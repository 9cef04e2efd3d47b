// SPDX-License-Identifier: Apache-2.0
// Between stream.c and event.c.
#ifndef PYSLIP_STREAM_H_
#define PYSLIP_STREAM_H_

#include "pyslip.h"

typedef struct pyslip_event_t {
  PyObject_HEAD slip_platform_t *platform;
  slip_event_t event;  // NULL: closed
  slip_device_t device;
  uint32_t users;  // calls in progress
} pyslip_event_t;

typedef struct pyslip_graph_exec_t {
  PyObject_HEAD slip_platform_t *platform;
  slip_graph_exec_t graph;  // NULL: closed
} pyslip_graph_exec_t;

// The platform and device of "cpu:0" and so on. False with an exception.
bool pyslip_platform_of(pyslip_state_t *state, const char *text, slip_platform_t **out, slip_device_t *out_device);
// True, False (NOT_READY) or an exception. Consumes |status|.
PyObject *pyslip_ready(pyslip_state_t *state, slip_status_t status);
// __enter__ that returns the object itself.
PyObject *pyslip_self_enter(PyObject *self, PyObject *none);
int pyslip_event_init(pyslip_state_t *state);

#endif  // PYSLIP_STREAM_H_
