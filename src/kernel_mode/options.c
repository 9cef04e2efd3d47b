// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/versioned.h"

slip_status_t slip__options_resolve(const slip_context_options_t *options, slip_context_options_t *out) {
  SLIP_RETURN_IF_ERROR(
      slip__versioned_take("slip_context_options_t", "SLIP_CONTEXT_OPTIONS_INIT", options, SLIP__OPTIONS_FIRST_SIZE, out, sizeof(*out)));
#define SLIP__DEFAULT_NUMBER(field, value) \
  if (out->field == 0) out->field = (value);
#define SLIP__DEFAULT_RING(field, value) \
  for (int i = 0; i < SLIP_RING_COUNT; ++i) SLIP__DEFAULT_NUMBER(field[i], value)
#define SLIP__DEFAULT_TEXT(field, value)
#define SLIP__DEFAULT_ADDRESS(field, value)
#define SLIP__DEFAULT(kind, field, value) SLIP__DEFAULT_##kind(field, value)
  SLIP__OPTION_TABLE(SLIP__DEFAULT)
#undef SLIP__DEFAULT
  if (!out->platform) out->platform = "cpu";
  if (!out->allocator.control) out->allocator = slip_allocator_system();
  return slip_ok_status();
}

static slip_status_t slip__options_check_ring(const slip_context_options_t *options, int ring) {
  uint32_t window = options->task_window[ring], pool = options->dependency_pool[ring];
  if (window < 4 || window > INT32_MAX || (window & (window - 1)) != 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "task_window[%d] is %" PRIu32 ", expected a power of two in [4, 2^30] or 0 for the default", ring, window);
  }
  if (options->heap_bytes[ring] < 1024) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "heap_bytes[%d] is %" PRIu64 ", expected at least 1024 or 0 for the default", ring,
                       options->heap_bytes[ring]);
  }
  if (pool < 4 || pool > INT32_MAX) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dependency_pool[%d] is %" PRIu32 ", expected a count in [4, %d] or 0 for the default",
                       ring, pool, INT32_MAX);
  }
  return slip_ok_status();
}

static slip_status_t slip__options_check_limit(const char *name, uint64_t value, uint64_t limit) {
  if (value <= limit) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s is %" PRIu64 ", expected at most %" PRIu64, name, value, limit);
}

slip_status_t slip__options_check(const slip_context_options_t *options) {
  const uint32_t known = SLIP_CONTEXT_SINGLE_THREAD | SLIP_CONTEXT_SKIP_BUILD_CHECK | SLIP_CONTEXT_PIN_WORKERS;
  for (int ring = 0; ring < SLIP_RING_COUNT; ++ring) SLIP_RETURN_IF_ERROR(slip__options_check_ring(options, ring));
  if (options->scheduler_threads == 1) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "scheduler_threads is 1, expected 0 (as many as the process may use) or at least 2; for no worker threads set "
                       "SLIP_CONTEXT_SINGLE_THREAD");
  }
  if ((options->flags & ~known) != 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "flags is 0x%" PRIx32 ", of which 0x%" PRIx32 " is unknown; known are 0x%" PRIx32,
                       options->flags, options->flags & ~known, known);
  }
  if ((options->flags & SLIP_CONTEXT_SINGLE_THREAD) != 0 && options->scheduler_threads != 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "scheduler_threads is %" PRIu32 " together with SLIP_CONTEXT_SINGLE_THREAD, which has none; leave it 0",
                       options->scheduler_threads);
  }
  if (options->workspace_budget_bytes != 0 && options->workspace_budget_bytes < 1024) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "workspace_budget_bytes is %" PRIu64 ", expected 0 (no limit) or at least 1024",
                       options->workspace_budget_bytes);
  }
  // Numbers minted later are larger and must not wrap to 0.
  SLIP_RETURN_IF_ERROR(slip__options_check_limit("generation", options->generation, INT64_MAX));
  SLIP_RETURN_IF_ERROR(slip__options_check_limit("scheduler_threads", options->scheduler_threads, 1024));
  SLIP_RETURN_IF_ERROR(slip__options_check_limit("max_in_flight", options->max_in_flight, SLIP__MAX_SLOTS));
  SLIP_RETURN_IF_ERROR(slip__options_check_limit("max_pending", options->max_pending, SLIP__MAX_PENDING));
  SLIP_RETURN_IF_ERROR(slip__options_check_limit("max_callables", options->max_callables, SLIP__MAX_CALLABLES));
  SLIP_RETURN_IF_ERROR(slip__options_check_limit("max_captured", options->max_captured, SLIP__MAX_PENDING));
  SLIP_RETURN_IF_ERROR(slip__options_check_limit("max_captures", options->max_captures, SLIP__MAX_CAPTURES));
  if (options->diagnostics != 0 && (!options->output_directory || options->output_directory[0] == '\0')) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "diagnostics is 0x%" PRIx32 " without an output_directory; name the directory that receives them",
                       options->diagnostics);
  }
  if (options->diagnostics != 0) {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "diagnostics is 0x%" PRIx32 ", but this build has no collectors; set it to 0",
                       options->diagnostics);
  }
  return slip_ok_status();
}

static bool slip__options_same_text(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

bool slip__options_differ(const slip_context_options_t *a, const slip_context_options_t *b, char *buffer, size_t capacity) {
#define SLIP__DIFFER(name)                         \
  do {                                             \
    (void)snprintf(buffer, capacity, "%s", #name); \
    return true;                                   \
  } while (0)
#define SLIP__COMPARE_NUMBER(field) \
  if (a->field != b->field) SLIP__DIFFER(field);
#define SLIP__COMPARE_ADDRESS(field) SLIP__COMPARE_NUMBER(field)
#define SLIP__COMPARE_TEXT(field) \
  if (!slip__options_same_text(a->field, b->field)) SLIP__DIFFER(field);
#define SLIP__COMPARE_RING(field)                            \
  for (int i = 0; i < SLIP_RING_COUNT; ++i) {                \
    if (a->field[i] != b->field[i]) {                        \
      (void)snprintf(buffer, capacity, "%s[%d]", #field, i); \
      return true;                                           \
    }                                                        \
  }
#define SLIP__COMPARE(kind, field, value) SLIP__COMPARE_##kind(field)
  SLIP__OPTION_TABLE(SLIP__COMPARE)
#undef SLIP__COMPARE
  if (capacity > 0) buffer[0] = '\0';
  return false;
}
