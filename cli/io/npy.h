// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy format, versions 1 to 3.
#ifndef SLIPSTREAM_CLI_IO_NPY_H_
#define SLIPSTREAM_CLI_IO_NPY_H_

#include "array.h"

// Reads the array in |bytes|, which must be one complete file; |out->data| points into it. |declared| is the dtype that the caller expects:
// it decides what NumPy's untyped '<V2' and '|V1' (how ml_dtypes' bfloat16 and float8 are saved) mean; SLIP_DTYPE_NONE refuses them. Pure.
// CORRUPT: no such file; UNSUPPORTED: another byte order, Fortran order, a structured or unknown dtype, rank above SLIP_MAX_RANK; each
// names the remedy.
slip_status_t cli_npy_parse(slip_const_bytes_t bytes, slip_dtype_t declared, cli_array_t *out) SLIP_MUST_USE;
// Writes |array| to |path| as cli_file_write() does.
slip_status_t cli_npy_write(const char *path, const cli_array_t *array) SLIP_MUST_USE;

#endif  // SLIPSTREAM_CLI_IO_NPY_H_
