// SPDX-License-Identifier: Apache-2.0
// Structs that grow from release to release, by their first member, uint32_t struct_size: the caller's may be shorter or longer than what
// this library knows. |type| is the struct's name, for sentences.
#ifndef SLIPSTREAM_SRC_BASE_VERSIONED_H_
#define SLIPSTREAM_SRC_BASE_VERSIONED_H_

#include <stddef.h>

#include "slipstream/status.h"

// Refuses (INVALID_ARGUMENT) a |given| struct with something set beyond the |known_bytes|: what was asked for would be left out. |parts| is
// what the struct has: "options", "fields".
slip_status_t slip__versioned_check_tail(const char *type, const char *parts, const void *given, size_t known_bytes) SLIP_MUST_USE;
// Copies the options |given| into |out| of |known_bytes|, with struct_size set to that; whatever a shorter struct lacks is zero. Refuses
// what is shorter than |first_bytes|, those of the first release, naming |initializer|, and what check_tail refuses. |given| NULL: all
// zero.
slip_status_t slip__versioned_take(const char *type, const char *initializer, const void *given, size_t first_bytes, void *out,
                                   size_t known_bytes) SLIP_MUST_USE;
// Fills |out|, of the caller's struct_size, from |known| and leaves struct_size; a longer struct has zeros where this library knows
// nothing.
void slip__versioned_give(const void *known, size_t known_bytes, void *out);

#endif  // SLIPSTREAM_SRC_BASE_VERSIONED_H_
