// SPDX-License-Identifier: Apache-2.0
#ifndef SLIPSTREAM_PYTHON_TORCH_FRAME_H_
#define SLIPSTREAM_PYTHON_TORCH_FRAME_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "op.h"

// Sets the Python exception of |status| and frees it; returns NULL. GIL.
PyObject *slip__torch_raise(slip_status_t status);
// Creates the type slipstream._torch.Frame in |module|; -1 on failure.
int slip__torch_frame_type(PyObject *module);

#endif  // SLIPSTREAM_PYTHON_TORCH_FRAME_H_
