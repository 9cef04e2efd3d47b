// SPDX-License-Identifier: Apache-2.0
// Laying a graph out for a number of threads: which node runs on which lane, and in which order.
//
// What is to be avoided is that lanes wait for each other, and then that bytes travel between them: on a machine whose CPUs share no cache,
// one line costs as much as five short nodes. A result from another lane therefore counts as late by SLIP__PLAN_HANDOVER_EIGHTHS of a mean
// node, and each one that a node reads makes it longer by SLIP__PLAN_FETCH_EIGHTHS. Nodes are given to lanes in several ways (planner.h),
// each is laid out in time, and the one that would be over first is taken. What others wait for goes first within a lane, so that most
// results are there long before they are asked for. The time for it grows as n log n, some 3 us a node.
//
// The order in which nodes start is a topological one, and each lane keeps it: therefore no set of lanes can wait for each other in a
// circle, however far each has come.
//
// Of the edges only those between lanes are waited for, and of those only the ones that neither the lane's own order nor an earlier wait
// already brings (vector clocks: what a lane knows of the others when it starts a node).
#ifndef SLIPSTREAM_SRC_GRAPH_RECORDED_PLAN_H_
#define SLIPSTREAM_SRC_GRAPH_RECORDED_PLAN_H_

#include "graph/recorded/definition.h"

// Single-owner; arrays of |allocator|.
typedef struct slip__plan_t {
  slip_allocator_t allocator;
  uint32_t node_count;
  uint32_t lane_count;
  uint32_t wait_count;
  uint32_t wait_capacity;
  slip__definition_lane_t lanes[SLIP__MAX_LANES];
  slip__definition_entry_t *entries;  // |node_count|
  slip__definition_wait_t *waits;
  uint64_t makespan;
} slip__plan_t;

// |nodes| and |successors| as in a definition. OUT_OF_MEMORY; |*out| is then empty.
slip_status_t slip__plan_make(slip_allocator_t allocator, const slip__definition_node_t *nodes, uint32_t node_count,
                              const uint32_t *successors, uint32_t successor_count, uint32_t lane_count, slip__plan_t *out) SLIP_MUST_USE;
void slip__plan_free(slip__plan_t *plan);

#endif  // SLIPSTREAM_SRC_GRAPH_RECORDED_PLAN_H_
