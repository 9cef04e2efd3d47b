// SPDX-License-Identifier: Apache-2.0
#include "slipstream/dtype.h"

#include <string.h>

typedef struct slip__dtype_row_t {
  const char *name;
  uint8_t name_length;
  uint8_t size_bytes;
  uint8_t kind;
  uint8_t dl_code;
  uint8_t dl_bits;
  uint8_t dl_lanes;
} slip__dtype_row_t;

// Indexed by dtype number; unused numbers have no name.
static const slip__dtype_row_t slip__dtype_rows[] = {
#define SLIP__DTYPE_ROW(name, text, number, bytes, kind, dl_code, dl_bits, dl_lanes) \
  [number] = {text, sizeof(text) - 1, bytes, SLIP_DTYPE_KIND_##kind, dl_code, dl_bits, dl_lanes},
    SLIP_DTYPE_TABLE(SLIP__DTYPE_ROW)
#undef SLIP__DTYPE_ROW
};
#define SLIP__DTYPE_ROW_COUNT (sizeof(slip__dtype_rows) / sizeof(slip__dtype_rows[0]))

static const slip__dtype_row_t *slip__dtype_row(slip_dtype_t dtype) {
  return dtype < SLIP__DTYPE_ROW_COUNT && slip__dtype_rows[dtype].name ? &slip__dtype_rows[dtype] : NULL;
}

const char *slip_dtype_name(slip_dtype_t dtype) {
  const slip__dtype_row_t *row = slip__dtype_row(dtype);
  return row ? row->name : "";
}

slip_dtype_t slip_dtype_from_name(const char *name, size_t length) {
  for (size_t i = 0; name && i < SLIP__DTYPE_ROW_COUNT; ++i) {
    const slip__dtype_row_t *row = slip__dtype_row((slip_dtype_t)i);
    if (row && row->name_length == length && memcmp(row->name, name, length) == 0) return (slip_dtype_t)i;
  }
  return SLIP_DTYPE_NONE;
}

size_t slip_dtype_size_bytes(slip_dtype_t dtype) {
  const slip__dtype_row_t *row = slip__dtype_row(dtype);
  return row ? row->size_bytes : 0;
}

slip_dtype_kind_e slip_dtype_kind(slip_dtype_t dtype) {
  const slip__dtype_row_t *row = slip__dtype_row(dtype);
  return row ? (slip_dtype_kind_e)row->kind : SLIP_DTYPE_KIND_NONE;
}

bool slip_dtype_to_dlpack(slip_dtype_t dtype, uint8_t *out_code, uint8_t *out_bits, uint16_t *out_lanes) {
  const slip__dtype_row_t *row = slip__dtype_row(dtype);
  *out_code = row ? row->dl_code : 0;
  *out_bits = row ? row->dl_bits : 0;
  *out_lanes = row ? row->dl_lanes : 0;
  return row != NULL;
}

slip_dtype_t slip_dtype_from_dlpack(uint8_t code, uint8_t bits, uint16_t lanes) {
  for (size_t i = 0; i < SLIP__DTYPE_ROW_COUNT; ++i) {
    const slip__dtype_row_t *row = slip__dtype_row((slip_dtype_t)i);
    if (row && row->dl_code == code && row->dl_bits == bits && row->dl_lanes == lanes) return (slip_dtype_t)i;
  }
  return SLIP_DTYPE_NONE;
}
