// SPDX-License-Identifier: Apache-2.0
// What the parts of the parser share.
//
//   image_parse.c       the steps that every section takes: header, layout, records, names
//   image_signatures.c  entries, their parameters and return aliases
//   image_open.c        code, target, build id, hash; the order of it all; the view
//
// It walks the sections in order with one cursor for the layout and one for the string table. Each offset in the image has exactly one
// right value, so offsets are compared, never followed: overlap, gaps, loops and aliasing cannot be expressed. All loops are bounded by
// counts that were checked against the section's size before.
#ifndef SLIPSTREAM_SRC_IMAGE_IMAGE_PARSE_H_
#define SLIPSTREAM_SRC_IMAGE_IMAGE_PARSE_H_

#include "image/image_format.h"

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

// What messages call the part before the sections.
#define SLIP__IMAGE_HEADER SLIP__IMAGE_SECTION_COUNT

// CORRUPT: "callable image, <section>, offset <offset>: ...".
slip_status_t slip__image_corrupt(slip__image_section_e section, uint64_t offset, const char *format, ...) SLIP_MUST_USE SLIP_PRINTF(3, 4);
// The bytes from |from| to |to| are zero.
slip_status_t slip__image_check_zero(const slip__image_parser_t *parser, slip__image_section_e section, uint64_t from,
                                     uint64_t to) SLIP_MUST_USE;
slip_status_t slip__image_check_header(const slip__image_parser_t *parser) SLIP_MUST_USE;
// Reads the section table: right kinds, each section directly after the one before, zeros between, nothing behind.
slip_status_t slip__image_check_layout(slip__image_parser_t *parser) SLIP_MUST_USE;
// A section of |count| records, |count| between |least| and |most|, and |tail| bytes behind them.
slip_status_t slip__image_check_records(const slip__image_parser_t *parser, slip__image_section_e section, uint64_t record_bytes,
                                        uint32_t least, uint32_t most, uint64_t tail) SLIP_MUST_USE;
// The string that the reference at image offset |at| names: the next one of the table, terminated, an identifier (or a target name).
slip_status_t slip__image_take_string(slip__image_parser_t *parser, slip__image_section_e section, uint64_t at, bool target) SLIP_MUST_USE;
// Names must differ. |at| is the image offset of the first of |count| records, each starting with a string reference that was taken.
slip_status_t slip__image_check_unique(const slip__image_parser_t *parser, slip__image_section_e section, uint64_t at,
                                       uint64_t record_bytes, uint32_t count) SLIP_MUST_USE;

// The entry table, then the signatures of all entries.
slip_status_t slip__image_check_entries(slip__image_parser_t *parser) SLIP_MUST_USE;
slip_status_t slip__image_check_signatures(slip__image_parser_t *parser) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_IMAGE_IMAGE_PARSE_H_
