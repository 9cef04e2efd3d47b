// SPDX-License-Identifier: Apache-2.0
// A thread's place in the engine. A worker keeps its own; a workspace brings one along for whichever thread submits in it. Seats live until
// the engine is destroyed: others may look into any of them at any time.
#ifndef SLIPSTREAM_SRC_GRAPH_SEAT_H_
#define SLIPSTREAM_SRC_GRAPH_SEAT_H_

#include <stdatomic.h>

#include "graph/engine.h"

// Kernel scratch. Outgrown memory stays until the engine goes, so that running kernels keep theirs.
typedef struct slip__scratch_t {
  struct slip__scratch_t *older;
  uint32_t bytes;
} slip__scratch_t;

typedef struct slip__seat_t {
  // Release: pairs with the acquire in slip__execute_block. 64-aligned; its slip__scratch_t lies 64 bytes before it.
  _Atomic(void *) scratch;
  uint32_t index;
} slip__seat_t;

#endif  // SLIPSTREAM_SRC_GRAPH_SEAT_H_
