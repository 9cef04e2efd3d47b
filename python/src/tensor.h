// SPDX-License-Identifier: Apache-2.0
// Between tensor.c (making, views, copies) and tensor_out.c (buffer protocol, DLPack).
#ifndef PYSLIP_TENSOR_H_
#define PYSLIP_TENSOR_H_

#include "pyslip.h"

// Untracked by the collector until it is filled.
pyslip_tensor_t *pyslip_tensor_allocate(pyslip_state_t *state);
// With memory of its own on |platform|, not initialised.
PyObject *pyslip_tensor_make(pyslip_state_t *state, uint8_t rank, const int64_t *dims, slip_dtype_t dtype, const char *platform,
                             slip_device_t device);
PyObject *pyslip_tensor_to_host(PyObject *object, PyObject *none);
// An int or a sequence of at most SLIP_MAX_RANK. False with an exception.
bool pyslip_shape_parse(pyslip_state_t *state, PyObject *shape, uint8_t *out_rank, int64_t *dims);
// SLIP_DTYPE_NONE with an exception.
slip_dtype_t pyslip_dtype_parse(pyslip_state_t *state, const char *name);
PyObject *pyslip_sizes(const int64_t *sizes, uint8_t rank);

int pyslip_tensor_getbuffer(PyObject *object, Py_buffer *view, int flags);
PyObject *pyslip_tensor_dlpack(PyObject *object, PyObject *args, PyObject *named);
PyObject *pyslip_tensor_dlpack_device(PyObject *object, PyObject *none);
// Puts the exchange table on the type.
int pyslip_tensor_add_exchange(pyslip_state_t *state);

#endif  // PYSLIP_TENSOR_H_
