// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "contract/scalar.h"
#include "contract/signature.h"
#include "image/image_parse.h"
#include "slipstream/kernel/tile.h"

// Counts of the entries add up to the signature section. Parameter and alias ranges follow each other.
slip_status_t slip__image_check_entries(slip__image_parser_t *parser) {
  const slip__image_span_t *span = &parser->sections[SLIP__IMAGE_ENTRIES];
  uint32_t params = 0, aliases = 0;
  SLIP_RETURN_IF_ERROR(slip__image_check_records(parser, SLIP__IMAGE_ENTRIES, SLIP__IMAGE_ENTRIES_RECORD, 1, SLIP_IMAGE_MAX_ENTRIES, 0));
  for (uint32_t i = 0; i < span->count; ++i) {
    uint64_t at = span->offset + (uint64_t)i * SLIP__IMAGE_ENTRIES_RECORD;
    const uint8_t *record = parser->data + at;
    SLIP_RETURN_IF_ERROR(slip__image_take_string(parser, SLIP__IMAGE_ENTRIES, at + SLIP__ENTRY_NAME, false));
    uint32_t param_count = slip__load_u32(record + SLIP__ENTRY_PARAM_COUNT), alias_count = slip__load_u32(record + SLIP__ENTRY_ALIAS_COUNT);
    uint32_t tensors = slip__load_u32(record + SLIP__ENTRY_TENSOR_COUNT), scalars = slip__load_u32(record + SLIP__ENTRY_SCALAR_COUNT);
    if (tensors > SLIP_ENTRY_MAX_TENSORS || scalars > SLIP_ENTRY_MAX_SCALARS || tensors + scalars != param_count) {
      return slip__image_corrupt(SLIP__IMAGE_ENTRIES, at + SLIP__ENTRY_TENSOR_COUNT,
                                 "entry %u has %u tensors and %u scalars in %u parameters; at most %d and %d, and their sum", i, tensors,
                                 scalars, param_count, SLIP_ENTRY_MAX_TENSORS, SLIP_ENTRY_MAX_SCALARS);
    }
    if (alias_count > SLIP_IMAGE_MAX_RETURNS) {
      return slip__image_corrupt(SLIP__IMAGE_ENTRIES, at + SLIP__ENTRY_ALIAS_COUNT, "entry %u has %u return aliases, at most %d", i,
                                 alias_count, SLIP_IMAGE_MAX_RETURNS);
    }
    if (slip__load_u32(record + SLIP__ENTRY_FIRST_PARAM) != params || slip__load_u32(record + SLIP__ENTRY_FIRST_ALIAS) != aliases) {
      return slip__image_corrupt(SLIP__IMAGE_ENTRIES, at + SLIP__ENTRY_FIRST_PARAM,
                                 "signature of entry %u begins elsewhere than at parameter %u and alias %u", i, params, aliases);
    }
    params += param_count;
    aliases += alias_count;
  }
  SLIP_RETURN_IF_ERROR(slip__image_check_unique(parser, SLIP__IMAGE_ENTRIES, span->offset, SLIP__IMAGE_ENTRIES_RECORD, span->count));
  return slip__image_check_records(parser, SLIP__IMAGE_SIGNATURES, SLIP__IMAGE_SIGNATURES_RECORD, params, params,
                                   (uint64_t)aliases * SLIP__ALIAS_BYTES);
}

static slip_status_t slip__image_check_dims(slip__image_parser_t *parser, uint64_t at, uint32_t rank) {
  for (uint32_t d = 0; d < SLIP_MAX_RANK; ++d) {
    uint64_t dim_at = at + SLIP__PARAM_DIMS + 8 * (uint64_t)d, name_at = at + SLIP__PARAM_DIM_NAMES + SLIP__STRING_REF_BYTES * (uint64_t)d;
    int64_t dim = (int64_t)slip__load_u64(parser->data + dim_at);
    if (d >= rank ? dim != 0 : (dim < 1 && dim != SLIP_DIM_DYNAMIC)) {
      return slip__image_corrupt(SLIP__IMAGE_SIGNATURES, dim_at, "dim %u of a parameter of rank %u is %lld", d, rank, (long long)dim);
    }
    if (slip__load_u64(parser->data + name_at) == 0) continue;
    if (d >= rank || dim != SLIP_DIM_DYNAMIC) {
      return slip__image_corrupt(SLIP__IMAGE_SIGNATURES, name_at, "dim %u has a name but is not dynamic", d);
    }
    SLIP_RETURN_IF_ERROR(slip__image_take_string(parser, SLIP__IMAGE_SIGNATURES, name_at, false));
  }
  return slip_ok_status();
}

static slip_status_t slip__image_check_param(slip__image_parser_t *parser, uint64_t at, bool *out_is_scalar) {
  const uint8_t *record = parser->data + at;
  uint32_t direction = record[SLIP__PARAM_DIRECTION], layout = record[SLIP__PARAM_LAYOUT], rank = record[SLIP__PARAM_RANK];
  slip_dtype_t dtype = record[SLIP__PARAM_DTYPE];
  bool scalar = direction == SLIP_DIRECTION_SCALAR;
  *out_is_scalar = scalar;
  SLIP_RETURN_IF_ERROR(slip__image_take_string(parser, SLIP__IMAGE_SIGNATURES, at + SLIP__PARAM_NAME, false));
  if (direction < SLIP_DIRECTION_IN || direction > SLIP_DIRECTION_SCALAR) {
    return slip__image_corrupt(SLIP__IMAGE_SIGNATURES, at + SLIP__PARAM_DIRECTION, "direction is %u", direction);
  }
  if (scalar ? layout != 0 : (layout != SLIP_LAYOUT_ND && layout != SLIP_LAYOUT_NZ)) {
    return slip__image_corrupt(SLIP__IMAGE_SIGNATURES, at + SLIP__PARAM_LAYOUT, "layout of a %s is %u", scalar ? "scalar" : "tensor",
                               layout);
  }
  if (scalar ? !slip__dtype_is_scalar(dtype) : slip_dtype_size_bytes(dtype) == 0) {
    return slip__image_corrupt(SLIP__IMAGE_SIGNATURES, at + SLIP__PARAM_DTYPE, "dtype of a %s is %u", scalar ? "scalar" : "tensor", dtype);
  }
  if (rank > (scalar ? 0 : SLIP_MAX_RANK)) {
    return slip__image_corrupt(SLIP__IMAGE_SIGNATURES, at + SLIP__PARAM_RANK, "rank of a %s is %u", scalar ? "scalar" : "tensor", rank);
  }
  SLIP_RETURN_IF_ERROR(slip__image_check_zero(parser, SLIP__IMAGE_SIGNATURES, at + SLIP__PARAM_RESERVED, at + SLIP__PARAM_DIMS));
  return slip__image_check_dims(parser, at, rank);
}

// Parameters and aliases of the entry whose record is at |entry_at|: what slip_signature_create() would refuse is refused here.
static slip_status_t slip__image_check_signature(slip__image_parser_t *parser, uint64_t entry_at, uint64_t aliases_at) {
  const uint8_t *entry = parser->data + entry_at;
  uint32_t param_count = slip__load_u32(entry + SLIP__ENTRY_PARAM_COUNT), alias_count = slip__load_u32(entry + SLIP__ENTRY_ALIAS_COUNT);
  uint64_t params_at = parser->sections[SLIP__IMAGE_SIGNATURES].offset +
                       (uint64_t)slip__load_u32(entry + SLIP__ENTRY_FIRST_PARAM) * SLIP__IMAGE_SIGNATURES_RECORD;
  uint32_t scalars = 0;
  for (uint32_t i = 0; i < param_count; ++i) {
    bool scalar = false;
    SLIP_RETURN_IF_ERROR(slip__image_check_param(parser, params_at + (uint64_t)i * SLIP__IMAGE_SIGNATURES_RECORD, &scalar));
    scalars += scalar;
  }
  if (scalars != slip__load_u32(entry + SLIP__ENTRY_SCALAR_COUNT)) {
    return slip__image_corrupt(SLIP__IMAGE_ENTRIES, entry_at + SLIP__ENTRY_SCALAR_COUNT, "the signature has %u scalars", scalars);
  }
  SLIP_RETURN_IF_ERROR(slip__image_check_unique(parser, SLIP__IMAGE_SIGNATURES, params_at, SLIP__IMAGE_SIGNATURES_RECORD, param_count));
  for (uint32_t i = 0; i < alias_count; ++i) {
    uint64_t at = aliases_at + (uint64_t)i * SLIP__ALIAS_BYTES;
    uint32_t index = slip__load_u32(parser->data + at);
    uint32_t direction = 0;
    if (index < param_count) {
      direction = parser->data[params_at + (uint64_t)index * SLIP__IMAGE_SIGNATURES_RECORD + SLIP__PARAM_DIRECTION];
    }
    if (direction != SLIP_DIRECTION_OUT && direction != SLIP_DIRECTION_INOUT) {
      return slip__image_corrupt(SLIP__IMAGE_SIGNATURES, at, "return alias %u is %d, which names no OUT or INOUT tensor of %u parameters",
                                 i, (int32_t)index, param_count);
    }
  }
  return slip_ok_status();
}

slip_status_t slip__image_check_signatures(slip__image_parser_t *parser) {
  uint64_t aliases_at = parser->sections[SLIP__IMAGE_SIGNATURES].offset +
                        (uint64_t)parser->sections[SLIP__IMAGE_SIGNATURES].count * SLIP__IMAGE_SIGNATURES_RECORD;
  for (uint32_t i = 0; i < parser->sections[SLIP__IMAGE_ENTRIES].count; ++i) {
    uint64_t entry_at = parser->sections[SLIP__IMAGE_ENTRIES].offset + (uint64_t)i * SLIP__IMAGE_ENTRIES_RECORD;
    SLIP_RETURN_IF_ERROR(slip__image_check_signature(parser, entry_at, aliases_at));
    aliases_at += (uint64_t)slip__load_u32(parser->data + entry_at + SLIP__ENTRY_ALIAS_COUNT) * SLIP__ALIAS_BYTES;
  }
  return slip_ok_status();
}
