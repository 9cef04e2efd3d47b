// SPDX-License-Identifier: Apache-2.0
// The list of findings behind slip_diagnostics_t. Single-owner.
#ifndef SLIPSTREAM_SRC_COMPILER_DIAGNOSTICS_H_
#define SLIPSTREAM_SRC_COMPILER_DIAGNOSTICS_H_

#include "slipstream/compile.h"

slip_status_t slip__diagnostics_create(slip_allocator_t allocator, slip_diagnostics_t **out) SLIP_MUST_USE;

// Where a finding stands and what it is; the message comes as a format.
typedef struct slip__finding_t {
  slip_severity_e severity;
  const char *file;  // NULL: none
  uint32_t line;
  uint32_t column;
  const char *code;
  const char *hint;  // NULL: none
} slip__finding_t;

// Copies the finding into the list. An equal one (same place, severity and message: the same error met for another target) is kept once.
// Memory that runs short is remembered: see slip__diagnostics_status().
void slip__diagnostics_add(slip_diagnostics_t *list, const slip__finding_t *finding, const char *format, ...) SLIP_PRINTF(3, 4);
size_t slip__diagnostics_error_count(const slip_diagnostics_t *list);
// OK, OUT_OF_MEMORY if a finding was lost, or INVALID_ARGUMENT that quotes the first error and counts the others.
slip_status_t slip__diagnostics_status(const slip_diagnostics_t *list, const char *subject) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_COMPILER_DIAGNOSTICS_H_
