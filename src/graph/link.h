// SPDX-License-Identifier: Apache-2.0
// Collecting what a task waits for, then linking it to all of that at once.
#ifndef SLIPSTREAM_SRC_GRAPH_LINK_H_
#define SLIPSTREAM_SRC_GRAPH_LINK_H_

#include "graph/workspace.h"

// Begins the links of |task|, whose slot is |slot|. The map and explicit dependencies then fill |linker->producers|.
static inline void slip__linker_begin(slip__linker_t *linker, slip__workspace_t *workspace, slip__slot_t *slot, slip_task_t task) {
  linker->producers.task = task;
  linker->producers.count = 0;
  linker->slot = slot;
  linker->ring = &workspace->rings[slip__task_ring(task)];
  linker->first_extra = linker->ring->edge_head;
  linker->count = 0;
}

static inline slip__edge_t *slip__linker_edge(slip__linker_t *linker, uint32_t index) {
  if (__builtin_expect(index < SLIP__SLOT_EDGES, 1)) return &linker->slot->edges[index];
  return &linker->ring->edges[(linker->first_extra + index - SLIP__SLOT_EDGES) % linker->ring->edge_capacity];
}

// Turns the producers found so far into edges: those of tasks that are over, and second ones to the same task, fall away. An edge's
// producer waits in its |next| until it is linked. May execute tasks, where the edge pool is full. (schedule.c)
void slip__linker_drain(slip__producers_t *producers);

#endif  // SLIPSTREAM_SRC_GRAPH_LINK_H_
