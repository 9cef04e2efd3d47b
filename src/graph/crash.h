// SPDX-License-Identifier: Apache-2.0
// What a thread is running, for the report of a crash (slipstream/crash.h). Seats made while reports are wanted say so; only their threads
// note what they run.
#ifndef SLIPSTREAM_SRC_GRAPH_CRASH_H_
#define SLIPSTREAM_SRC_GRAPH_CRASH_H_

#include "graph/slot.h"

// Whether seats made from now on are to note what they run.
bool slip__crash_wanted(void);
// The calling thread runs block |block| of |slot|; NULL: it runs no kernel.
void slip__crash_note(const slip__slot_t *slot, uint32_t block);

#endif  // SLIPSTREAM_SRC_GRAPH_CRASH_H_
