// SPDX-License-Identifier: Apache-2.0
// The parser: proves that every byte of an image is what slip_image_pack() would have written. How it works: image_parse.h.
#include "base/checked.h"
#include "image/image_hash.h"
#include "image/image_parse.h"
#include "slipstream/kernel/tile.h"
#include "slipstream/tensor.h"

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

static bool slip__image_is_build_id(const uint8_t *text, uint64_t length) {
  if (length == 0 || length > SLIP_IMAGE_MAX_NAME) return false;
  for (uint64_t i = 0; i < length; ++i) {
    if (text[i] < 0x20 || text[i] > 0x7e) return false;
  }
  return true;
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
  SLIP_RETURN_IF_ERROR(slip__image_check_header(parser));
  SLIP_RETURN_IF_ERROR(slip__image_check_layout(parser));
  SLIP_RETURN_IF_ERROR(slip__image_check_target(parser));
  SLIP_RETURN_IF_ERROR(slip__image_check_entries(parser));
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
