// SPDX-License-Identifier: Apache-2.0
// Running a ready task on the calling thread.
#ifndef SLIPSTREAM_SRC_GRAPH_EXECUTE_H_
#define SLIPSTREAM_SRC_GRAPH_EXECUTE_H_

#include "graph/workspace.h"

// True unless the run has failed or the predicate says no. Read when the task is dispatched.
bool slip__execute_wanted(const slip__slot_t *slot);
// Runs blocks [first, first + count) with the scratch of |seat|.
void slip__execute_blocks(const slip__slot_t *slot, slip__seat_t *seat, uint32_t first, uint32_t count);
// The whole task here and now: no other thread knows of it, and nothing waits for it.
void slip__execute_serial(slip__slot_t *slot, slip__seat_t *seat);

#endif  // SLIPSTREAM_SRC_GRAPH_EXECUTE_H_
