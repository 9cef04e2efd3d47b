// SPDX-License-Identifier: Apache-2.0
// Typed access to the values of a manifest: what is wrong becomes a finding at the value's place, and reading goes on, so that one run
// shows them all.
#ifndef SLIPSTREAM_SRC_COMPILER_FRONT_READER_H_
#define SLIPSTREAM_SRC_COMPILER_FRONT_READER_H_

#include <jansson.h>

#include "compiler/arena_text.h"
#include "compiler/diagnostics.h"
#include "compiler/front/json_locate.h"
#include "contract/json_type.h"

// One reading. |status| holds what stops it: memory or files, not content.
typedef struct slip__reader_t {
  const char *file;         // for findings
  slip_const_bytes_t text;  // the whole document
  slip__arena_t *arena;     // of the strings handed out
  slip_diagnostics_t *diagnostics;
  slip_status_t status;
} slip__reader_t;

typedef slip__json_path_t slip__path_t;

static inline slip__path_t slip__member(const slip__path_t *parent, const char *key) {
  return (slip__path_t){parent, key, 0};
}
static inline slip__path_t slip__item(const slip__path_t *parent, size_t index) {
  return (slip__path_t){parent, NULL, index};
}
static inline bool slip__reader_ok(const slip__reader_t *r) {
  return slip_status_is_ok(r->status);
}
// Keeps |status| as the reader's failure, behind an earlier one; consumes it. Reading goes on after a failure, so nothing may simply be
// assigned.
void slip__reader_keep(slip__reader_t *r, slip_status_t status);

bool slip__reader_is_identifier(const char *text);

// Adds "kernels[0].core: <message>" at the value's place.
void slip__reader_error(slip__reader_t *r, const slip__path_t *path, const char *code, const char *hint, const char *format, ...)
    SLIP_PRINTF(5, 6);
// True if |value| is of |type|; else a finding.
bool slip__reader_type(slip__reader_t *r, const slip__path_t *path, const json_t *value, json_type type, const char *expected);
// A finding for each key of |object| that is not in the NULL-terminated list |allowed|.
void slip__reader_keys(slip__reader_t *r, const slip__path_t *path, json_t *object, const char *const *allowed);
// The member's string, copied; NULL if it is absent (a finding where |required|) or wrong.
const char *slip__reader_string(slip__reader_t *r, const slip__path_t *path, const json_t *object, const char *key, bool required);
// The same, and it must be a C identifier.
const char *slip__reader_identifier(slip__reader_t *r, const slip__path_t *path, const json_t *object, const char *key, bool required);
// The member's integer in 0..|maximum|; |absent| if it is absent or wrong.
uint32_t slip__reader_integer(slip__reader_t *r, const slip__path_t *path, const json_t *object, const char *key, int64_t maximum,
                              uint32_t absent);
// The array |key| of |minimum| to |maximum| items, with room for them in |*out_items|; NULL if it is absent, wrong, or memory is short.
json_t *slip__reader_array(slip__reader_t *r, const slip__path_t *path, const json_t *object, const char *key, bool required,
                           size_t minimum, size_t maximum, size_t item_size, void **out_items);
// An array of different strings, copied.
void slip__reader_strings(slip__reader_t *r, const slip__path_t *path, const json_t *object, const char *key, bool required, size_t minimum,
                          size_t maximum, const char ***out_items, size_t *out_count);

#endif  // SLIPSTREAM_SRC_COMPILER_FRONT_READER_H_
