// SPDX-License-Identifier: Apache-2.0
// Giving nodes to lanes. See planner.h.
#include <string.h>

#include "graph/recorded/planner.h"

#define SLIP__PLAN_STRETCH 16u  // nodes of a lane in a stretch that is kept balanced
#define SLIP__PLAN_PASSES  4

// Bottom-up merge sort.
void slip__planner_sort(uint32_t *items, uint32_t *other, uint32_t count, const uint64_t *keys) {
  uint32_t *from = items, *to = other;
  for (uint64_t width = 1; width < count; width *= 2) {
    for (uint64_t start = 0; start < count; start += 2 * width) {
      uint64_t a = start, a_end = start + width < count ? start + width : count;
      uint64_t b = a_end, b_end = start + 2 * width < count ? start + 2 * width : count;
      for (uint64_t i = start; i < b_end; ++i) {
        bool left = a < a_end && (b >= b_end || keys[from[a]] >= keys[from[b]]);
        to[i] = left ? from[a++] : from[b++];
      }
    }
    uint32_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != items) memcpy(items, from, (size_t)count * sizeof(uint32_t));
}

// --- Earliest -----------------------------------------------------------------------------------------------------------------------

// When |node| would be over on |lane|, which is free from |busy| on.
static uint64_t slip__planner_over(const slip__planner_t *p, uint32_t node, uint32_t lane, uint64_t busy) {
  uint64_t start = busy, cost = slip__planner_weight(p, node);
  for (uint32_t e = p->first_producer[node]; e < p->first_producer[node + 1]; ++e) {
    uint32_t producer = p->producers[e];
    uint64_t at = p->finish[producer];
    if (p->lane[producer] != lane) {
      at += p->handover;
      cost += p->fetch;
    }
    if (at > start) start = at;
  }
  return start + cost;
}

void slip__planner_earliest(slip__planner_t *p) {
  uint64_t busy[SLIP__MAX_LANES] = {0};
  for (uint32_t i = p->node_count; i-- > 0;) {  // levels without hand-overs
    uint64_t below = 0;
    for (uint32_t s = 0; s < p->nodes[i].successor_count; ++s) {
      uint64_t level = p->level[p->successors[p->nodes[i].first_successor + s]];
      if (level > below) below = level;
    }
    p->level[i] = below + slip__planner_weight(p, i);
    p->order[i] = i;
  }
  slip__planner_sort(p->order, p->open, p->node_count, p->level);
  for (uint32_t i = 0; i < p->node_count; ++i) {
    uint32_t node = p->order[i], best = 0;
    uint64_t best_over = UINT64_MAX;
    for (uint32_t lane = 0; lane < p->lane_count; ++lane) {
      uint64_t over = slip__planner_over(p, node, lane, busy[lane]);
      if (over < best_over) {
        best_over = over;
        best = lane;
      }
    }
    p->lane[node] = best;
    p->finish[node] = busy[best] = best_over;
  }
}

// --- Bands --------------------------------------------------------------------------------------------------------------------------

// Sorts the nodes of one depth by where their producers lie, spreads them evenly, and cuts them into parts of equal weight.
static void slip__planner_cut(slip__planner_t *p, uint32_t *nodes, uint32_t count) {
  uint64_t sum = 0, before = 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t node = nodes[i], first = p->first_producer[node], end = p->first_producer[node + 1];
    uint64_t place = 0;
    for (uint32_t e = first; e < end; ++e) place += p->place[p->producers[e]];
    // Descending keys: the first node of a depth is the one that lies highest. A root lies where it was recorded.
    p->place[node] = end > first ? place / (end - first) : ((uint64_t)(count - i) << 32) / (count + 1);
    sum += slip__planner_weight(p, node);
  }
  slip__planner_sort(nodes, p->open, count, p->place);
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t weight = slip__planner_weight(p, nodes[i]);
    if (count >= 2 * p->lane_count) p->place[nodes[i]] = ((uint64_t)(count - i) << 32) / (count + 1);
    uint64_t middle = 2 * before + weight;  // of 2 * sum
    uint64_t lane =
        count >= 2 * p->lane_count ? middle * p->lane_count / (2 * sum) : (UINT64_C(0xffffffff) - p->place[nodes[i]]) * p->lane_count >> 32;
    p->lane[nodes[i]] = lane < p->lane_count ? (uint32_t)lane : p->lane_count - 1;
    before += weight;
  }
}

void slip__planner_bands(slip__planner_t *p) {
  uint32_t deepest = 0;
  memset(p->open, 0, (size_t)p->node_count * sizeof(uint32_t));  // as counts of each depth, then as their starts
  for (uint32_t i = 0; i < p->node_count; ++i) {
    uint32_t depth = 0;
    for (uint32_t e = p->first_producer[i]; e < p->first_producer[i + 1]; ++e) {
      if (p->depth[p->producers[e]] >= depth) depth = p->depth[p->producers[e]] + 1;
    }
    p->depth[i] = depth;
    if (depth > deepest) deepest = depth;
    ++p->open[depth];
  }
  uint32_t sum = 0;
  for (uint32_t d = 0; d <= deepest; ++d) {
    uint32_t count = p->open[d];
    p->open[d] = sum;
    sum += count;
  }
  for (uint32_t i = 0; i < p->node_count; ++i) p->order[p->open[p->depth[i]]++] = i;
  for (uint32_t start = 0, end; start < p->node_count; start = end) {
    for (end = start + 1; end < p->node_count && p->depth[p->order[end]] == p->depth[p->order[start]];) ++end;
    slip__planner_cut(p, p->order + start, end - start);
  }
}

// --- Smoothing ----------------------------------------------------------------------------------------------------------------------

// The lane that most neighbours of |node| are on; its own if none has more.
static uint32_t slip__planner_pull(const slip__planner_t *p, uint32_t node) {
  uint32_t near[SLIP__MAX_LANES] = {0}, best = p->lane[node];
  for (uint32_t e = p->first_producer[node]; e < p->first_producer[node + 1]; ++e) ++near[p->lane[p->producers[e]]];
  for (uint32_t s = 0; s < p->nodes[node].successor_count; ++s) ++near[p->lane[p->successors[p->nodes[node].first_successor + s]]];
  for (uint32_t lane = 0; lane < p->lane_count; ++lane) {
    if (near[lane] > near[best]) best = lane;
  }
  return best;
}

void slip__planner_smooth(slip__planner_t *p) {
  const uint32_t stretch = SLIP__PLAN_STRETCH * p->lane_count;
  memcpy(p->lane, p->best_lane, (size_t)p->node_count * sizeof(uint32_t));
  for (int pass = 0; pass < SLIP__PLAN_PASSES; ++pass) {
    for (uint32_t start = 0; start < p->node_count; start += stretch) {
      uint32_t end = p->node_count - start > stretch ? start + stretch : p->node_count;
      uint64_t load[SLIP__MAX_LANES] = {0}, sum = 0;
      for (uint32_t i = start; i < end; ++i) {
        load[p->lane[p->best_order[i]]] += slip__planner_weight(p, p->best_order[i]);
        sum += slip__planner_weight(p, p->best_order[i]);
      }
      for (uint32_t i = start; i < end; ++i) {
        uint32_t node = p->best_order[i], to = slip__planner_pull(p, node);
        uint64_t weight = slip__planner_weight(p, node);
        if (to == p->lane[node] || 8 * p->lane_count * (load[to] + weight) > 9 * sum) continue;
        load[p->lane[node]] -= weight;
        load[to] += weight;
        p->lane[node] = to;
      }
    }
  }
}
