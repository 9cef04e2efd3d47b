// SPDX-License-Identifier: Apache-2.0
// The scratch of one planning (plan.h), and its steps. Single-owner; no step allocates, all are deterministic.
//
//   ways of giving nodes to lanes (plan_lanes.c)          what they suit
//   earliest   in the order of their levels, each where   chains, trees, irregular graphs
//              it can be over first
//   bands      depth by depth: nodes sorted by where      grids, phases, pipelines: what depends on each other lies side by side, and lanes
//              their producers lie, cut into equal parts   share only the borders
//   smoothed   what came out best, each node moved to     all
//              the lane of its neighbours if that leaves
//              its stretch of the graph balanced
//
// Each is laid out in time and judged by when it would be over (plan_order.c); the best one counts.
#ifndef SLIPSTREAM_SRC_GRAPH_RECORDED_PLANNER_H_
#define SLIPSTREAM_SRC_GRAPH_RECORDED_PLANNER_H_

#include "graph/recorded/definition.h"

// All arrays have |node_count| elements unless said otherwise.
typedef struct slip__planner_t {
  const slip__definition_node_t *nodes;
  const uint32_t *successors;
  uint32_t node_count, lane_count;
  uint64_t handover;  // from the end of a node to a start on another lane
  uint64_t fetch;     // what a node takes longer for each producer on another lane
  uint64_t *level;    // distance to the end, hand-overs included
  uint64_t *ready;    // when all that a node waits for is there
  uint64_t *finish;
  uint64_t *place;      // bands: where a node lies, 0 .. 2^32
  uint32_t *depth;      // edges from the farthest root
  uint32_t *lane;       // as given last
  uint32_t *order;      // as laid out last: by start
  uint32_t *best_lane;  // the best so far
  uint32_t *best_order;
  uint64_t best_makespan;
  uint32_t *open;            // producers still to be laid out
  uint32_t *heap[2];         // of each lane one after the other: nodes that wait, and nodes that can start
  uint32_t *first_producer;  // |node_count| + 1; into |producers|
  uint32_t *producers;       // one per edge
} slip__planner_t;

static inline uint64_t slip__planner_weight(const slip__planner_t *p, uint32_t node) {
  return p->nodes[node].weight ? p->nodes[node].weight : 1;
}
// What |node| takes on |lane|, with all its producers on lanes.
static inline uint64_t slip__planner_cost(const slip__planner_t *p, uint32_t node, uint32_t lane) {
  uint64_t cost = slip__planner_weight(p, node);
  for (uint32_t e = p->first_producer[node]; e < p->first_producer[node + 1]; ++e) {
    if (p->lane[p->producers[e]] != lane) cost += p->fetch;
  }
  return cost;
}

void slip__planner_earliest(slip__planner_t *planner);
void slip__planner_bands(slip__planner_t *planner);
// Begins with the best so far.
void slip__planner_smooth(slip__planner_t *planner);
// Lays the nodes out in time, each on the lane it was given, and keeps this as the best if it is.
void slip__planner_lay_out(slip__planner_t *planner);

// Sorts |items| by descending |keys| (one per node), equal ones as they were; |other| is as large.
void slip__planner_sort(uint32_t *items, uint32_t *other, uint32_t count, const uint64_t *keys);

#endif  // SLIPSTREAM_SRC_GRAPH_RECORDED_PLANNER_H_
