// SPDX-License-Identifier: Apache-2.0
// The parser: proves that every byte of an image is what slip_image_pack() would have written.
//
// It walks the sections in order with one cursor for the layout and one for the string table. Each offset in the image has exactly one
// right value, so offsets are compared, never followed: overlap, gaps, loops and aliasing cannot be expressed. All loops are bounded by
// counts that were checked against the section's size before.
#include <stdarg.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/hash.h"
#include "contract/scalar.h"
#include "contract/signature.h"
#include "image/image_hash.h"
#include "slipstream/kernel/tile.h"

typedef struct slip__image_span_t {
  uint64_t offset;
  uint64_t size;
  uint32_t count;
} slip__image_span_t;

typedef struct slip__image_parser_t {
  const uint8_t *data;
  uint64_t size;
  slip__image_span_t sections[SLIP__IMAGE_SECTION_COUNT];
  uint64_t string_cursor;  // end of the strings named so far
  uint32_t string_count;
  uint32_t runtime_kind;
} slip__image_parser_t;

static const char *slip__image_section_name(slip__image_section_e section) {
  static const char *const names[] = {
#define SLIP__IMAGE_SECTION_NAME(name, text, record) text,
      SLIP__IMAGE_SECTION_TABLE(SLIP__IMAGE_SECTION_NAME)
#undef SLIP__IMAGE_SECTION_NAME
          "header",
  };
  return names[section];
}
// What messages call the part before the sections.
#define SLIP__IMAGE_HEADER SLIP__IMAGE_SECTION_COUNT

static slip_status_t slip__image_corrupt(slip__image_section_e section, uint64_t offset, const char *format, ...) SLIP_PRINTF(3, 4);
static slip_status_t slip__image_corrupt(slip__image_section_e section, uint64_t offset, const char *format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "callable image, %s, offset %llu: %s" SLIP__IMAGE_REMEDY, slip__image_section_name(section),
                     (unsigned long long)offset, text);
}

static slip_status_t slip__image_check_zero(const slip__image_parser_t *parser, slip__image_section_e section, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; ++at) {
    if (parser->data[at] != 0) return slip__image_corrupt(section, at, "reserved byte is %u, expected 0", parser->data[at]);
  }
  return slip_ok_status();
}

// --- header and layout ----------------------------------------------------------------------------------------------------------------

static slip_status_t slip__image_check_header(const slip__image_parser_t *parser) {
  const uint8_t *data = parser->data;
  if (parser->size < SLIP__IMAGE_HEADER_BYTES) {
    return slip__image_corrupt(SLIP__IMAGE_HEADER, 0, "%llu bytes given, a header alone has %d", (unsigned long long)parser->size,
                               SLIP__IMAGE_HEADER_BYTES);
  }
  if (memcmp(data + SLIP__HEADER_MAGIC, SLIP__IMAGE_MAGIC, SLIP__IMAGE_MAGIC_SIZE) != 0) {
    return slip__image_corrupt(SLIP__IMAGE_HEADER, SLIP__HEADER_MAGIC, "magic bytes are wrong: this is no callable image");
  }
  uint32_t version = slip__load_u32(data + SLIP__HEADER_VERSION);
  if (version != SLIP__IMAGE_FORMAT_VERSION) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "callable image, header, offset %d: format version is %u, this library reads %d; recompile",
                       SLIP__HEADER_VERSION, version, SLIP__IMAGE_FORMAT_VERSION);
  }
  uint32_t header_bytes = slip__load_u32(data + SLIP__HEADER_BYTES);
  if (header_bytes != SLIP__IMAGE_HEADER_BYTES) {
    return slip__image_corrupt(SLIP__IMAGE_HEADER, SLIP__HEADER_BYTES, "header size is %u, expected %d", header_bytes,
                               SLIP__IMAGE_HEADER_BYTES);
  }
  uint64_t total = slip__load_u64(data + SLIP__HEADER_TOTAL);
  if (total != parser->size) {
    return slip__image_corrupt(SLIP__IMAGE_HEADER, SLIP__HEADER_TOTAL, "total size is %llu, but %llu bytes were given (%s)",
                               (unsigned long long)total, (unsigned long long)parser->size,
                               total > parser->size ? "truncated" : "extended");
  }
  uint32_t sections = slip__load_u32(data + SLIP__HEADER_SECTION_COUNT);
  if (sections != SLIP__IMAGE_SECTION_COUNT) {
    return slip__image_corrupt(SLIP__IMAGE_HEADER, SLIP__HEADER_SECTION_COUNT, "section count is %u, expected %d", sections,
                               SLIP__IMAGE_SECTION_COUNT);
  }
  SLIP_RETURN_IF_ERROR(slip__image_check_zero(parser, SLIP__IMAGE_HEADER, SLIP__HEADER_RESERVED, SLIP__HEADER_SECTIONS));
  return slip__image_check_zero(parser, SLIP__IMAGE_HEADER, SLIP__HEADER_SECTIONS + SLIP__IMAGE_SECTION_COUNT * SLIP__SECTION_BYTES,
                                SLIP__IMAGE_HEADER_BYTES);
}

// Reads the section table: right kinds, each section directly after the one before, zeros between, nothing behind.
static slip_status_t slip__image_check_layout(slip__image_parser_t *parser) {
  uint64_t end = SLIP__IMAGE_HEADER_BYTES;
  for (unsigned i = 0; i < SLIP__IMAGE_SECTION_COUNT; ++i) {
    uint64_t record = SLIP__HEADER_SECTIONS + (uint64_t)i * SLIP__SECTION_BYTES, start = end;
    const uint8_t *at = parser->data + record;
    slip__image_span_t *span = &parser->sections[i];
    uint32_t kind = slip__load_u32(at + SLIP__SECTION_KIND);
    if (kind != i + 1) return slip__image_corrupt(i, record + SLIP__SECTION_KIND, "section kind is %u, expected %u", kind, i + 1);
    span->count = slip__load_u32(at + SLIP__SECTION_COUNT);
    span->offset = slip__load_u64(at + SLIP__SECTION_OFFSET);
    span->size = slip__load_u64(at + SLIP__SECTION_SIZE);
    if (!slip__checked_align(end, SLIP_IMAGE_ALIGNMENT, &start) || span->offset != start) {
      return slip__image_corrupt(i, record + SLIP__SECTION_OFFSET, "section lies at %llu, expected %llu", (unsigned long long)span->offset,
                                 (unsigned long long)start);
    }
    if (!slip__checked_range(span->offset, span->size, parser->size)) {
      return slip__image_corrupt(i, record + SLIP__SECTION_SIZE, "section of %llu bytes at %llu leaves the image of %llu bytes",
                                 (unsigned long long)span->size, (unsigned long long)span->offset, (unsigned long long)parser->size);
    }
    SLIP_RETURN_IF_ERROR(slip__image_check_zero(parser, i, end, start));
    end = span->offset + span->size;
  }
  uint64_t total = end;
  if (!slip__checked_align(end, SLIP_IMAGE_ALIGNMENT, &total) || total != parser->size) {
    return slip__image_corrupt(SLIP__IMAGE_HEADER, SLIP__HEADER_TOTAL, "sections end at %llu, total size is %llu", (unsigned long long)end,
                               (unsigned long long)parser->size);
  }
  return slip__image_check_zero(parser, SLIP__IMAGE_BUILD_ID, end, total);
}

// A section of |count| records, |count| between |least| and |most|, and |tail| bytes behind them.
static slip_status_t slip__image_check_records(const slip__image_parser_t *parser, slip__image_section_e section, uint64_t record_bytes,
                                               uint32_t least, uint32_t most, uint64_t tail) {
  const slip__image_span_t *span = &parser->sections[section];
  uint64_t descriptor = SLIP__HEADER_SECTIONS + (uint64_t)section * SLIP__SECTION_BYTES;
  if (span->count < least || span->count > most) {
    return slip__image_corrupt(section, descriptor + SLIP__SECTION_COUNT, "record count is %u, expected %u to %u", span->count, least,
                               most);
  }
  uint64_t expected = span->count * record_bytes + tail;
  if (span->size != expected) {
    return slip__image_corrupt(section, descriptor + SLIP__SECTION_SIZE, "section has %llu bytes, its records need %llu",
                               (unsigned long long)span->size, (unsigned long long)expected);
  }
  return slip_ok_status();
}

// --- strings --------------------------------------------------------------------------------------------------------------------------

static bool slip__image_is_identifier(const uint8_t *text, uint32_t length) {
  if (length == 0 || !slip__is_identifier_start((char)text[0])) return false;
  for (uint32_t i = 1; i < length; ++i) {
    if (!slip__is_identifier_part((char)text[i])) return false;
  }
  return true;
}

bool slip__image_is_target(const uint8_t *text, size_t length) {
  if (length == 0 || length > SLIP_IMAGE_MAX_TARGET || text[0] == '.') return false;
  for (size_t i = 0; i < length; ++i) {
    if (!slip__is_identifier_part((char)text[i]) && text[i] != '-' && text[i] != '.' && text[i] != '+') return false;
  }
  return true;
}

static bool slip__image_is_build_id(const uint8_t *text, uint64_t length) {
  if (length == 0 || length > SLIP_IMAGE_MAX_NAME) return false;
  for (uint64_t i = 0; i < length; ++i) {
    if (text[i] < 0x20 || text[i] > 0x7e) return false;
  }
  return true;
}

// The string that the reference at image offset |at| names: the next one of the table, terminated, an identifier (or a target name).
static slip_status_t slip__image_take_string(slip__image_parser_t *parser, slip__image_section_e section, uint64_t at, bool target) {
  const slip__image_span_t *strings = &parser->sections[SLIP__IMAGE_STRINGS];
  uint32_t offset = slip__load_u32(parser->data + at), length = slip__load_u32(parser->data + at + 4);
  if (offset != parser->string_cursor) {
    return slip__image_corrupt(section, at, "name lies at %u of the string table, expected %llu", offset,
                               (unsigned long long)parser->string_cursor);
  }
  if (length > SLIP_IMAGE_MAX_NAME || !slip__checked_range(offset, (uint64_t)length + 1, strings->size)) {
    return slip__image_corrupt(section, at + 4, "name of %u bytes leaves the string table of %llu (a name has at most %d)", length,
                               (unsigned long long)strings->size, SLIP_IMAGE_MAX_NAME);
  }
  const uint8_t *text = parser->data + strings->offset + offset;
  if (text[length] != 0) return slip__image_corrupt(SLIP__IMAGE_STRINGS, strings->offset + offset + length, "name has no terminator");
  if (target ? !slip__image_is_target(text, length) : !slip__image_is_identifier(text, length)) {
    return slip__image_corrupt(SLIP__IMAGE_STRINGS, strings->offset + offset, "name is no %s", target ? "target" : "identifier");
  }
  parser->string_cursor = (uint64_t)offset + length + 1;
  parser->string_count++;
  return slip_ok_status();
}

// Names must differ. |at| is the image offset of the first of |count| records, each starting with a string reference that was taken.
#define SLIP__IMAGE_MOST_NAMES 1024
#define SLIP__IMAGE_NAME_SLOTS (2 * SLIP__IMAGE_MOST_NAMES)
_Static_assert(SLIP__IMAGE_MOST_NAMES >= SLIP_IMAGE_MAX_KERNELS && SLIP__IMAGE_MOST_NAMES >= SLIP_IMAGE_MAX_ENTRIES &&
                   SLIP__IMAGE_MOST_NAMES >= SLIP_ENTRY_MAX_TENSORS + SLIP_ENTRY_MAX_SCALARS,
               "every list of names fits the table of slip__image_check_unique");
static slip_status_t slip__image_check_unique(const slip__image_parser_t *parser, slip__image_section_e section, uint64_t at,
                                              uint64_t record_bytes, uint32_t count) {
  uint16_t slots[SLIP__IMAGE_NAME_SLOTS];  // index + 1; 0 is free
  const uint8_t *strings = parser->data + parser->sections[SLIP__IMAGE_STRINGS].offset;
  uint32_t mask = 1;
  while (mask < 2 * count) mask *= 2;
  memset(slots, 0, mask * sizeof(slots[0]));
  mask -= 1;
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t *record = parser->data + at + i * record_bytes;
    slip_const_bytes_t name = {strings + slip__load_u32(record), slip__load_u32(record + 4)};
    uint32_t slot = (uint32_t)slip__hash64(name) & mask;
    for (; slots[slot]; slot = (slot + 1) & mask) {
      const uint8_t *other = parser->data + at + (slots[slot] - 1u) * record_bytes;
      if (slip__load_u32(other + 4) == name.size && memcmp(strings + slip__load_u32(other), name.data, name.size) == 0) {
        return slip__image_corrupt(section, at + i * record_bytes, "records %u and %u have the same name '%.64s'", slots[slot] - 1u, i,
                                   (const char *)name.data);
      }
    }
    slots[slot] = (uint16_t)(i + 1);
  }
  return slip_ok_status();
}

// --- entries and signatures -----------------------------------------------------------------------------------------------------------

// Counts of the entries add up to the signature section. Parameter and alias ranges follow each other.
static slip_status_t slip__image_check_entries(slip__image_parser_t *parser, uint32_t *out_alias_count) {
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
  *out_alias_count = aliases;
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

static slip_status_t slip__image_check_signatures(slip__image_parser_t *parser) {
  uint64_t aliases_at = parser->sections[SLIP__IMAGE_SIGNATURES].offset +
                        (uint64_t)parser->sections[SLIP__IMAGE_SIGNATURES].count * SLIP__IMAGE_SIGNATURES_RECORD;
  for (uint32_t i = 0; i < parser->sections[SLIP__IMAGE_ENTRIES].count; ++i) {
    uint64_t entry_at = parser->sections[SLIP__IMAGE_ENTRIES].offset + (uint64_t)i * SLIP__IMAGE_ENTRIES_RECORD;
    SLIP_RETURN_IF_ERROR(slip__image_check_signature(parser, entry_at, aliases_at));
    aliases_at += (uint64_t)slip__load_u32(parser->data + entry_at + SLIP__ENTRY_ALIAS_COUNT) * SLIP__ALIAS_BYTES;
  }
  return slip_ok_status();
}

// --- code -----------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__image_check_orchestration(const slip__image_parser_t *parser) {
  const slip__image_span_t *span = &parser->sections[SLIP__IMAGE_ORCHESTRATION];
  SLIP_RETURN_IF_ERROR(slip__image_check_records(parser, SLIP__IMAGE_ORCHESTRATION, span->size, 1, 1, 0));
  if (parser->runtime_kind != SLIP_RUNTIME_HOST_NATIVE) return slip_ok_status();
  if (span->size < SLIP__ELF_HEADER_BYTES || memcmp(parser->data + span->offset, SLIP__ELF_IDENT, SLIP__ELF_IDENT_BYTES) != 0) {
    return slip__image_corrupt(SLIP__IMAGE_ORCHESTRATION, span->offset,
                               "host-native code of %llu bytes does not begin with a 64-bit little-endian ELF header",
                               (unsigned long long)span->size);
  }
  return slip_ok_status();
}

// One kernel's code. |inout_end| is the end of the code before it, from the start of the section.
static slip_status_t slip__image_check_kernel_binary(const slip__image_parser_t *parser, uint64_t at, uint64_t *inout_end) {
  const slip__image_span_t *span = &parser->sections[SLIP__IMAGE_KERNEL_BINARIES];
  uint64_t offset = slip__load_u64(parser->data + at + SLIP__KERNEL_BINARY_OFFSET);
  uint64_t size = slip__load_u64(parser->data + at + SLIP__KERNEL_BINARY_SIZE), start = 0;
  bool separate = parser->runtime_kind == SLIP_RUNTIME_DEVICE_KERNELS;
  if (separate != (size != 0)) {
    return slip__image_corrupt(SLIP__IMAGE_KERNELS, at + SLIP__KERNEL_BINARY_SIZE, "kernel has %llu bytes of code of its own, expected %s",
                               (unsigned long long)size, separate ? "some" : "none (host-native)");
  }
  if (separate && !slip__checked_align(*inout_end, SLIP_IMAGE_ALIGNMENT, &start)) start = UINT64_MAX;
  if (offset != start || !slip__checked_range(offset, size, span->size)) {
    return slip__image_corrupt(SLIP__IMAGE_KERNELS, at + SLIP__KERNEL_BINARY_OFFSET,
                               "kernel code of %llu bytes lies at %llu of %llu, expected %llu", (unsigned long long)size,
                               (unsigned long long)offset, (unsigned long long)span->size, (unsigned long long)start);
  }
  if (!separate) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__image_check_zero(parser, SLIP__IMAGE_KERNEL_BINARIES, span->offset + *inout_end, span->offset + start));
  *inout_end = offset + size;
  return slip_ok_status();
}

static slip_status_t slip__image_check_kernel(slip__image_parser_t *parser, uint64_t at, uint32_t index) {
  const uint8_t *record = parser->data + at;
  SLIP_RETURN_IF_ERROR(slip__image_take_string(parser, SLIP__IMAGE_KERNELS, at + SLIP__KERNEL_NAME, false));
  uint32_t id = slip__load_u32(record + SLIP__KERNEL_FUNCTION_ID), core = slip__load_u32(record + SLIP__KERNEL_CORE);
  uint32_t tensors = slip__load_u32(record + SLIP__KERNEL_TENSOR_COUNT), scalars = slip__load_u32(record + SLIP__KERNEL_SCALAR_COUNT);
  if (id != index) {
    return slip__image_corrupt(SLIP__IMAGE_KERNELS, at + SLIP__KERNEL_FUNCTION_ID, "function id is %u, expected %u", id, index);
  }
  if (core > SLIP_CORE_MIXED) return slip__image_corrupt(SLIP__IMAGE_KERNELS, at + SLIP__KERNEL_CORE, "core type is %u", core);
  if (tensors > SLIP_KERNEL_MAX_TENSORS || scalars > SLIP_KERNEL_MAX_SCALARS) {
    return slip__image_corrupt(SLIP__IMAGE_KERNELS, at + SLIP__KERNEL_TENSOR_COUNT,
                               "kernel %u takes %u tensors and %u scalars, at most %d and %d", index, tensors, scalars,
                               SLIP_KERNEL_MAX_TENSORS, SLIP_KERNEL_MAX_SCALARS);
  }
  return slip__image_check_zero(parser, SLIP__IMAGE_KERNELS, at + SLIP__KERNEL_RESERVED, at + SLIP__KERNEL_BINARY_OFFSET);
}

static slip_status_t slip__image_check_kernels(slip__image_parser_t *parser) {
  const slip__image_span_t *span = &parser->sections[SLIP__IMAGE_KERNELS];
  uint64_t binaries_end = 0;
  SLIP_RETURN_IF_ERROR(slip__image_check_records(parser, SLIP__IMAGE_KERNELS, SLIP__IMAGE_KERNELS_RECORD, 0, SLIP_IMAGE_MAX_KERNELS, 0));
  for (uint32_t i = 0; i < span->count; ++i) {
    uint64_t at = span->offset + (uint64_t)i * SLIP__IMAGE_KERNELS_RECORD;
    SLIP_RETURN_IF_ERROR(slip__image_check_kernel(parser, at, i));
    SLIP_RETURN_IF_ERROR(slip__image_check_kernel_binary(parser, at, &binaries_end));
  }
  SLIP_RETURN_IF_ERROR(slip__image_check_unique(parser, SLIP__IMAGE_KERNELS, span->offset, SLIP__IMAGE_KERNELS_RECORD, span->count));
  uint32_t binaries = parser->runtime_kind == SLIP_RUNTIME_DEVICE_KERNELS ? span->count : 0;
  return slip__image_check_records(parser, SLIP__IMAGE_KERNEL_BINARIES, 0, binaries, binaries, binaries_end);
}

// --- target, build id, hash -----------------------------------------------------------------------------------------------------------

// The numbers of the target record; its name comes last in the string table and is checked there.
static slip_status_t slip__image_check_target(slip__image_parser_t *parser) {
  uint64_t at = parser->sections[SLIP__IMAGE_TARGET].offset;
  SLIP_RETURN_IF_ERROR(slip__image_check_records(parser, SLIP__IMAGE_TARGET, SLIP__IMAGE_TARGET_RECORD, 1, 1, 0));
  const uint8_t *record = parser->data + at;
  uint16_t platform = slip__load_u16(record + SLIP__TARGET_PLATFORM);
  uint32_t contract = slip__load_u32(record + SLIP__TARGET_CONTRACT), kind = slip__load_u32(record + SLIP__TARGET_RUNTIME_KIND);
  if (*slip_platform_name(platform) == '\0') {
    return slip__image_corrupt(SLIP__IMAGE_TARGET, at + SLIP__TARGET_PLATFORM, "platform is %u", platform);
  }
  SLIP_RETURN_IF_ERROR(slip__image_check_zero(parser, SLIP__IMAGE_TARGET, at + SLIP__TARGET_RESERVED0, at + SLIP__TARGET_CONTRACT));
  if (contract != SLIP_CONTRACT_PROGRAM && contract != SLIP_CONTRACT_KERNEL) {
    return slip__image_corrupt(SLIP__IMAGE_TARGET, at + SLIP__TARGET_CONTRACT, "contract is %u", contract);
  }
  if (contract == SLIP_CONTRACT_KERNEL && parser->sections[SLIP__IMAGE_ENTRIES].count != 1) {
    return slip__image_corrupt(SLIP__IMAGE_TARGET, at + SLIP__TARGET_CONTRACT, "a kernel-contract image has one entry, this one %u",
                               parser->sections[SLIP__IMAGE_ENTRIES].count);
  }
  bool host = platform == SLIP_PLATFORM_NULL || platform == SLIP_PLATFORM_CPU || platform == SLIP_PLATFORM_SIM;
  if (kind != (host ? SLIP_RUNTIME_HOST_NATIVE : SLIP_RUNTIME_DEVICE_KERNELS)) {
    return slip__image_corrupt(SLIP__IMAGE_TARGET, at + SLIP__TARGET_RUNTIME_KIND, "runtime kind is %u, which platform %s does not have",
                               kind, slip_platform_name(platform));
  }
  parser->runtime_kind = kind;
  return slip__image_check_zero(parser, SLIP__IMAGE_TARGET, at + SLIP__TARGET_RESERVED1, at + SLIP__TARGET_NAME);
}

static slip_status_t slip__image_check_strings_end(const slip__image_parser_t *parser) {
  const slip__image_span_t *span = &parser->sections[SLIP__IMAGE_STRINGS];
  if (span->size != parser->string_cursor) {
    return slip__image_corrupt(SLIP__IMAGE_STRINGS, span->offset + parser->string_cursor, "%llu bytes belong to no name",
                               (unsigned long long)(span->size - parser->string_cursor));
  }
  return slip__image_check_records(parser, SLIP__IMAGE_STRINGS, 0, parser->string_count, parser->string_count, span->size);
}

static slip_status_t slip__image_check_build_id(const slip__image_parser_t *parser) {
  const slip__image_span_t *span = &parser->sections[SLIP__IMAGE_BUILD_ID];
  const uint8_t *text = parser->data + span->offset;
  SLIP_RETURN_IF_ERROR(slip__image_check_records(parser, SLIP__IMAGE_BUILD_ID, span->size, 1, 1, 0));
  if (span->size < 2 || text[span->size - 1] != 0 || !slip__image_is_build_id(text, span->size - 1)) {
    return slip__image_corrupt(SLIP__IMAGE_BUILD_ID, span->offset, "build id is no terminated printable text of 1 to %d bytes",
                               SLIP_IMAGE_MAX_NAME);
  }
  return slip_ok_status();
}

static slip_status_t slip__image_check_hash(const slip__image_parser_t *parser) {
  slip__hash128_t actual = slip__image_hash((slip_const_bytes_t){parser->data, (size_t)parser->size});
  slip__hash128_t stored = {slip__load_u64(parser->data + SLIP__HEADER_HASH), slip__load_u64(parser->data + SLIP__HEADER_HASH + 8)};
  if (slip__hash128_equal(actual, stored)) return slip_ok_status();
  char actual_text[33], stored_text[33];
  slip__hash128_format(actual, actual_text);
  slip__hash128_format(stored, stored_text);
  return slip__image_corrupt(SLIP__IMAGE_HEADER, SLIP__HEADER_HASH, "content hash is %s, the bytes have %s", stored_text, actual_text);
}

static slip_status_t slip__image_check(slip__image_parser_t *parser) {
  uint32_t alias_count = 0;
  SLIP_RETURN_IF_ERROR(slip__image_check_header(parser));
  SLIP_RETURN_IF_ERROR(slip__image_check_layout(parser));
  SLIP_RETURN_IF_ERROR(slip__image_check_target(parser));
  SLIP_RETURN_IF_ERROR(slip__image_check_entries(parser, &alias_count));
  SLIP_RETURN_IF_ERROR(slip__image_check_signatures(parser));
  SLIP_RETURN_IF_ERROR(slip__image_check_orchestration(parser));
  SLIP_RETURN_IF_ERROR(slip__image_check_kernels(parser));
  SLIP_RETURN_IF_ERROR(
      slip__image_take_string(parser, SLIP__IMAGE_TARGET, parser->sections[SLIP__IMAGE_TARGET].offset + SLIP__TARGET_NAME, true));
  SLIP_RETURN_IF_ERROR(slip__image_check_strings_end(parser));
  SLIP_RETURN_IF_ERROR(slip__image_check_build_id(parser));
  // Last, so that a damaged field is named where it can be; nothing of the image has been used before this line.
  return slip__image_check_hash(parser);
}

slip_status_t slip_image_open(slip_const_bytes_t bytes, slip_image_view_t *out) {
  memset(out, 0, sizeof(*out));
  slip__image_parser_t parser = {.data = bytes.data, .size = bytes.data ? bytes.size : 0};
  SLIP_RETURN_IF_ERROR(slip__image_check(&parser));
  const slip__image_span_t *sections = parser.sections;
  const uint8_t *target = bytes.data + sections[SLIP__IMAGE_TARGET].offset, *strings = bytes.data + sections[SLIP__IMAGE_STRINGS].offset;
  const uint8_t *params = bytes.data + sections[SLIP__IMAGE_SIGNATURES].offset;
  out->bytes = bytes;
  out->platform = slip__load_u16(target + SLIP__TARGET_PLATFORM);
  out->contract = slip__load_u32(target + SLIP__TARGET_CONTRACT);
  out->runtime_kind = parser.runtime_kind;
  out->entry_count = sections[SLIP__IMAGE_ENTRIES].count;
  out->kernel_count = sections[SLIP__IMAGE_KERNELS].count;
  out->target = (const char *)strings + slip__load_u32(target + SLIP__TARGET_NAME);
  out->build_id = (const char *)bytes.data + sections[SLIP__IMAGE_BUILD_ID].offset;
  out->orchestration.data = bytes.data + sections[SLIP__IMAGE_ORCHESTRATION].offset;
  out->orchestration.size = (size_t)sections[SLIP__IMAGE_ORCHESTRATION].size;
  out->content_hash[0] = slip__load_u64(bytes.data + SLIP__HEADER_HASH);
  out->content_hash[1] = slip__load_u64(bytes.data + SLIP__HEADER_HASH + 8);
  out->internal[SLIP__VIEW_ENTRIES] = bytes.data + sections[SLIP__IMAGE_ENTRIES].offset;
  out->internal[SLIP__VIEW_PARAMS] = params;
  out->internal[SLIP__VIEW_ALIASES] = params + (uint64_t)sections[SLIP__IMAGE_SIGNATURES].count * SLIP__IMAGE_SIGNATURES_RECORD;
  out->internal[SLIP__VIEW_KERNELS] = bytes.data + sections[SLIP__IMAGE_KERNELS].offset;
  out->internal[SLIP__VIEW_KERNEL_BINARIES] = bytes.data + sections[SLIP__IMAGE_KERNEL_BINARIES].offset;
  out->internal[SLIP__VIEW_STRINGS] = strings;
  return slip_ok_status();
}
