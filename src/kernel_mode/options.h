// SPDX-License-Identifier: Apache-2.0
// The options of a context as one table: defaults, comparison and their names in messages come from it.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_OPTIONS_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_OPTIONS_H_

#include "slipstream/context.h"

#define SLIP__MAX_SLOTS     64  // run slots are one bit each of a 64-bit word
#define SLIP__MAX_PENDING   (1u << 20)
#define SLIP__MAX_CALLABLES (1u << 16)
#define SLIP__MAX_CAPTURES  16

// The struct of the first release ended behind |synchronize_user|. What was appended since is zero for its callers.
#define SLIP__OPTIONS_FIRST_SIZE offsetof(slip_context_options_t, max_captured)

// X(kind, field, default): every option that makes two opens differ, in the order in which a difference is reported. The defaults replace a
// zero; TEXT and ADDRESS have none.
#define SLIP__OPTION_TABLE(X)                      \
  X(NUMBER, device, 0)                             \
  X(TEXT, platform, 0)                             \
  X(TEXT, target, 0)                               \
  X(NUMBER, generation, 0)                         \
  X(RING, task_window, 16384)                      \
  X(RING, heap_bytes, UINT64_C(64) << 20)          \
  X(RING, dependency_pool, 65536)                  \
  X(NUMBER, scheduler_threads, 0)                  \
  X(NUMBER, max_in_flight, 2)                      \
  X(NUMBER, max_pending, 1024)                     \
  X(NUMBER, max_callables, 1024)                   \
  X(NUMBER, max_resident_bytes, UINT64_C(1) << 30) \
  X(NUMBER, max_image_bytes, UINT64_C(256) << 20)  \
  X(NUMBER, workspace_budget_bytes, 0)             \
  X(NUMBER, runtime_kind, 0)                       \
  X(NUMBER, diagnostics, 0)                        \
  X(TEXT, output_directory, 0)                     \
  X(NUMBER, flags, 0)                              \
  X(NUMBER, stall_timeout_ms, 500)                 \
  X(ADDRESS, allocator.self, 0)                    \
  X(ADDRESS, allocator.control, 0)                 \
  X(ADDRESS, synchronize_hook, 0)                  \
  X(ADDRESS, synchronize_user, 0)                  \
  X(NUMBER, max_captured, 4096)                    \
  X(NUMBER, max_captures, 2)

// Copies what the caller gave (an older, shorter struct keeps its meaning) and replaces zeros by defaults. |options| NULL: all defaults.
// Strings stay borrowed. INVALID_ARGUMENT: a struct size that is too small, or larger than this library's with something in the part it
// does not know.
slip_status_t slip__options_resolve(const slip_context_options_t *options, slip_context_options_t *out) SLIP_MUST_USE;
// Ranges and combinations that need no platform (30.2). INVALID_ARGUMENT or UNSUPPORTED, naming the field. |options| is resolved.
slip_status_t slip__options_check(const slip_context_options_t *options) SLIP_MUST_USE;
// The first field in which two resolved option sets differ, written as "task_window[2]" into |buffer|; false if they are the same.
bool slip__options_differ(const slip_context_options_t *a, const slip_context_options_t *b, char *buffer, size_t capacity);

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_OPTIONS_H_
