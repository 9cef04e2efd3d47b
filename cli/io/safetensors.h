// SPDX-License-Identifier: Apache-2.0
// The .safetensors format: a JSON header and one buffer.
#ifndef SLIPSTREAM_CLI_IO_SAFETENSORS_H_
#define SLIPSTREAM_CLI_IO_SAFETENSORS_H_

#include <jansson.h>

#include "array.h"

typedef struct cli_safetensor_t {
  const char *name;  // borrowed from the header
  const char *type;  // "F32"
  const json_t *shape;
  uint64_t begin, end;  // in the buffer
} cli_safetensor_t;

typedef struct cli_safetensors_t {
  json_t *header;
  cli_safetensor_t *items;  // in the order of their data
  size_t count;
  slip_const_bytes_t buffer;
} cli_safetensors_t;

// Reads the header of |bytes|, one complete file that outlives |*out|, and checks all of it: lengths, types, no duplicate names, shapes
// that fit their bytes, a buffer that is covered without holes or overlap. CORRUPT names the tensor. Deinitialise |*out| after success.
slip_status_t cli_safetensors_parse(slip_const_bytes_t bytes, cli_safetensors_t *out) SLIP_MUST_USE;
void cli_safetensors_deinitialize(cli_safetensors_t *file);
// The tensor called |name|; NULL if there is none.
const cli_safetensor_t *cli_safetensors_find(const cli_safetensors_t *file, const char *name);
// |item| as an array. UNSUPPORTED: a dtype or rank that has no counterpart here.
slip_status_t cli_safetensors_array(const cli_safetensors_t *file, const cli_safetensor_t *item, cli_array_t *out) SLIP_MUST_USE;

#endif  // SLIPSTREAM_CLI_IO_SAFETENSORS_H_
