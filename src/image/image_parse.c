// SPDX-License-Identifier: Apache-2.0
#include "image/image_parse.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/hash.h"
#include "contract/scalar.h"
#include "contract/signature.h"
#include "image/image_hash.h"

static const char *slip__image_section_name(slip__image_section_e section) {
  static const char *const names[] = {
#define SLIP__IMAGE_SECTION_NAME(name, text, record) text,
      SLIP__IMAGE_SECTION_TABLE(SLIP__IMAGE_SECTION_NAME)
#undef SLIP__IMAGE_SECTION_NAME
          "header",
  };
  return names[section];
}

slip_status_t slip__image_corrupt(slip__image_section_e section, uint64_t offset, const char *format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "callable image, %s, offset %llu: %s" SLIP__IMAGE_REMEDY, slip__image_section_name(section),
                     (unsigned long long)offset, text);
}

slip_status_t slip__image_check_zero(const slip__image_parser_t *parser, slip__image_section_e section, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; ++at) {
    if (parser->data[at] != 0) return slip__image_corrupt(section, at, "reserved byte is %u, expected 0", parser->data[at]);
  }
  return slip_ok_status();
}

// --- header and layout ----------------------------------------------------------------------------------------------------------------

slip_status_t slip__image_check_header(const slip__image_parser_t *parser) {
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

slip_status_t slip__image_check_layout(slip__image_parser_t *parser) {
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

slip_status_t slip__image_check_records(const slip__image_parser_t *parser, slip__image_section_e section, uint64_t record_bytes,
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

slip_status_t slip__image_take_string(slip__image_parser_t *parser, slip__image_section_e section, uint64_t at, bool target) {
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

#define SLIP__IMAGE_MOST_NAMES 1024
#define SLIP__IMAGE_NAME_SLOTS (2 * SLIP__IMAGE_MOST_NAMES)
_Static_assert(SLIP__IMAGE_MOST_NAMES >= SLIP_IMAGE_MAX_KERNELS && SLIP__IMAGE_MOST_NAMES >= SLIP_IMAGE_MAX_ENTRIES &&
                   SLIP__IMAGE_MOST_NAMES >= SLIP_ENTRY_MAX_TENSORS + SLIP_ENTRY_MAX_SCALARS,
               "every list of names fits the table of slip__image_check_unique");
slip_status_t slip__image_check_unique(const slip__image_parser_t *parser, slip__image_section_e section, uint64_t at,
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
