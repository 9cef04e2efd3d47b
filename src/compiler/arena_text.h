// SPDX-License-Identifier: Apache-2.0
// Text in an arena.
#ifndef SLIPSTREAM_SRC_COMPILER_ARENA_TEXT_H_
#define SLIPSTREAM_SRC_COMPILER_ARENA_TEXT_H_

#include <stdarg.h>

#include "base/arena.h"

// A terminated copy of |length| bytes.
slip_status_t slip__arena_copy(slip__arena_t *arena, const char *text, size_t length, const char **out) SLIP_MUST_USE;
slip_status_t slip__arena_format(slip__arena_t *arena, const char **out, const char *format, ...) SLIP_MUST_USE SLIP_PRINTF(3, 4);
slip_status_t slip__arena_vformat(slip__arena_t *arena, const char **out, const char *format, va_list list) SLIP_MUST_USE SLIP_PRINTF(3, 0);

#endif  // SLIPSTREAM_SRC_COMPILER_ARENA_TEXT_H_
