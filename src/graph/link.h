// SPDX-License-Identifier: Apache-2.0
// Collecting what a task waits for, then linking it to all of that at once.
#ifndef SLIPSTREAM_SRC_GRAPH_LINK_H_
#define SLIPSTREAM_SRC_GRAPH_LINK_H_

#include "graph/workspace.h"

// The task being submitted. Edges 0 .. |count|; the producer waits in |next| of an edge until it is linked.
struct slip__linker_t {
  slip__workspace_t *workspace;
  slip__slot_t *slot;
  slip__ring_t *ring;  // the task's
  slip_task_t task;
  uint64_t first_extra;  // position in the ring's edge pool
  uint32_t count;
};

// A place for one more edge when the pool is full: helps until |producer| is over. NULL: no edge is needed any more. (schedule.c)
slip__edge_t *slip__linker_wait(slip__linker_t *linker, slip__slot_t *producer);

static inline slip__edge_t *slip__linker_edge(slip__linker_t *linker, uint32_t index) {
  if (index < SLIP__SLOT_EDGES) return &linker->slot->edges[index];
  return &linker->ring->edges[(linker->first_extra + index - SLIP__SLOT_EDGES) % linker->ring->edge_capacity];
}

// True while |task|, of this run, may still be running.
static inline bool slip__task_is_live(slip__workspace_t *workspace, slip_task_t task) {
  return slip__task_sequence(task) >= workspace->rings[slip__task_ring(task)].retired;
}

// The task waits for |producer|: 0, itself, a retired one or one it waits for already add nothing.
static inline void slip__linker_add(slip__linker_t *linker, slip_task_t producer) {
  if (producer == 0 || producer == linker->task || !slip__task_is_live(linker->workspace, producer)) return;
  slip__slot_t *slot = slip__ring_slot(&linker->workspace->rings[slip__task_ring(producer)], slip__task_sequence(producer));
  if (slot->last_consumer == linker->task) return;
  slot->last_consumer = linker->task;
  slip__edge_t *edge;
  if (linker->count < SLIP__SLOT_EDGES) {
    edge = &linker->slot->edges[linker->count];
  } else {
    slip__ring_t *ring = linker->ring;
    if (ring->edge_head - ring->edge_tail < ring->edge_capacity) {
      edge = slip__linker_edge(linker, linker->count);
    } else {
      edge = slip__linker_wait(linker, slot);
      if (!edge) return;
    }
    ++ring->edge_head;
    if (ring->edge_head > ring->edge_high) ring->edge_high = ring->edge_head < ring->edge_capacity ? ring->edge_head : ring->edge_capacity;
  }
  edge->consumer = linker->slot;
  edge->next = (slip__edge_t *)(void *)slot;
  ++linker->count;
}

#endif  // SLIPSTREAM_SRC_GRAPH_LINK_H_
