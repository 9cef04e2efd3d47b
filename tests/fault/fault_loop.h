// SPDX-License-Identifier: Apache-2.0
// The loops: operation x variant x kind of fault x transient or persistent x n.
#ifndef SLIP_FAULT_LOOP_H_
#define SLIP_FAULT_LOOP_H_

#include "fault_operations.h"

typedef struct fault_counts_t {
  uint64_t faults, leaks, hangs, wrong;
} fault_counts_t;

// Tries the operation |name| in all its variants and prints the counts; fails the test unless all but |faults| are 0 and those are at least
// |least| (fewer where the run is thinned out); |least| 0: there are none at all.
void fault_try(const char *name, uint64_t least);

// Runs |body| in a child with a time-out, and adds what it counted.
void fault_in_child(const char *what, void (*body)(fault_counts_t *counts, const fault_rest_t *rest), fault_counts_t *total);
void fault_report(const fault_counts_t *total);
const fault_variant_t *fault_variant_at(uint32_t index);

#endif  // SLIP_FAULT_LOOP_H_
