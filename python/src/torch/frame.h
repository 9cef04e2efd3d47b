// SPDX-License-Identifier: Apache-2.0
#ifndef SLIPSTREAM_PYTHON_TORCH_FRAME_H_
#define SLIPSTREAM_PYTHON_TORCH_FRAME_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "op.h"

// Sets the Python exception of |status| and frees it; returns NULL. GIL.
PyObject *slip__torch_raise(slip_status_t status);
// Makes a status of the Python exception that is set, if there is one, and clears it: "|what|: its text". GIL.
slip_status_t slip__torch_status_of_exception(slip_code_t code, const char *what) SLIP_MUST_USE;
// Creates the type slipstream._torch.Frame in |module|; -1 on failure.
int slip__torch_frame_type(PyObject *module);

#endif  // SLIPSTREAM_PYTHON_TORCH_FRAME_H_
