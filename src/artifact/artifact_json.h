// SPDX-License-Identifier: Apache-2.0
// JSON files of an artifact: strict reading, text out. The parser's tree comes from malloc (its allocator is process-wide and not ours to
// set); give it to json_decref().
#ifndef SLIPSTREAM_SRC_ARTIFACT_ARTIFACT_JSON_H_
#define SLIPSTREAM_SRC_ARTIFACT_ARTIFACT_JSON_H_

#include <jansson.h>

#include "contract/json_type.h"
#include "slipstream/base.h"
#include "slipstream/status.h"

// Parses |text|; |file| is for messages. CORRUPT: no JSON; INCOMPATIBLE (recompile): a key twice in one object, a number that is too big.
slip_status_t slip__artifact_json_load(slip_const_bytes_t text, const char *file, json_t **out) SLIP_MUST_USE;
// Compact or indented text, allocated with |allocator|: size + 1 bytes, terminated.
slip_status_t slip__artifact_json_text(const json_t *value, bool indented, slip_allocator_t allocator, slip_bytes_t *out) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_ARTIFACT_ARTIFACT_JSON_H_
