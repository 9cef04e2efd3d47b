// SPDX-License-Identifier: Apache-2.0
// An array in somebody else's bytes: what the file readers give and the writer takes.
#ifndef SLIPSTREAM_CLI_IO_ARRAY_H_
#define SLIPSTREAM_CLI_IO_ARRAY_H_

#include "slipstream/slipstream.h"

typedef struct cli_array_t {
  slip_dtype_t dtype;
  uint8_t rank;
  int64_t dims[SLIP_MAX_RANK];
  slip_const_bytes_t data;  // row-major, little-endian; any alignment
} cli_array_t;

// Bytes that |rank| dims of |dtype| take; false if negative or beyond 2^63-1.
bool cli_array_size(slip_dtype_t dtype, uint8_t rank, const int64_t *dims, uint64_t *out_bytes);

// A read-only private mapping of a whole regular file. An empty file maps to {NULL, 0}. NOT_FOUND, IO (directories and devices too).
slip_status_t cli_file_map(const char *path, slip_const_bytes_t *out) SLIP_MUST_USE;
void cli_file_unmap(slip_const_bytes_t bytes);

// Writes the |count| pieces to |path|: a new or replaced regular file appears complete or not at all; devices and pipes are written to
// directly. IO with errno.
slip_status_t cli_file_write(const char *path, const slip_const_bytes_t *pieces, size_t count) SLIP_MUST_USE;

#endif  // SLIPSTREAM_CLI_IO_ARRAY_H_
