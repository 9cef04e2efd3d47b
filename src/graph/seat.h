// SPDX-License-Identifier: Apache-2.0
// A thread's place in the engine. A worker keeps its own; a workspace brings one along for whichever thread submits in it. Seats live until
// the engine is destroyed: others may look into any of them at any time.
#ifndef SLIPSTREAM_SRC_GRAPH_SEAT_H_
#define SLIPSTREAM_SRC_GRAPH_SEAT_H_

#include "graph/engine.h"
#include "graph/queue.h"
#include "os/thread.h"

#define SLIP__MAX_SEATS 1024  // workers and workspaces of an engine

// Kernel scratch. Outgrown memory stays until the engine goes, so that running kernels keep theirs.
typedef struct slip__scratch_t {
  struct slip__scratch_t *older;
  uint32_t bytes;
} slip__scratch_t;

typedef struct slip__seat_t {
  slip__queue_t queue;
  // 1 while the thread sleeps or is about to; protocol in park.h.
  _Alignas(128) _Atomic uint32_t parked;
  // 1 while a run's submitter sits here and is not asleep; how often the thread was between tasks. Protocol in stall.h.
  _Atomic uint32_t active;
  _Atomic uint32_t turns;
  // Release: pairs with the acquire in slip__execute_blocks. 64-aligned; its slip__scratch_t lies 64 bytes before it.
  _Alignas(128) _Atomic(void *) scratch;
  // The owner's.
  slip__engine_t *engine;
  slip__slot_t *overflow;  // ready tasks that found the queue full
  uint32_t notes;          // 1: what runs is noted for the report of a crash (crash.h)
  uint32_t index;
  uint32_t victim;  // where the last search for tasks ended
  slip__thread_t thread;
  // The views of the task that ran here last (form.h).
  uint64_t form_id;
  slip_ktensor_t views[SLIP_KERNEL_MAX_TENSORS];
} slip__seat_t;

#endif  // SLIPSTREAM_SRC_GRAPH_SEAT_H_
