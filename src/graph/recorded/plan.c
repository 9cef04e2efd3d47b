// SPDX-License-Identifier: Apache-2.0
#include "graph/recorded/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"

// What a result of another lane costs, in eighths of a mean node. A hand-over takes about as long as the smallest kernels worth planning;
// more than that, and lanes wait less but are laid out less evenly. Measured (docs/design/engine.md).
#define SLIP__PLAN_HANDOVER_EIGHTHS 16u

// Scratch of one planning; all arrays have |node_count| elements unless said otherwise.
typedef struct slip__planner_t {
  const slip__definition_node_t *nodes;
  const uint32_t *successors;
  uint32_t node_count, lane_count;
  uint64_t handover;
  uint64_t *level;   // distance to the end
  uint64_t *finish;  // planned
  uint32_t *lane;
  uint32_t *position;        // in its lane
  uint32_t *order;           // nodes by descending level
  uint32_t *first_producer;  // |node_count| + 1; into |producers|
  uint32_t *producers;       // one per edge
  uint32_t *known;           // |node_count| * |lane_count|: entries of each lane that are over when the node is
} slip__planner_t;

static uint32_t slip__plan_weight(const slip__definition_node_t *node) {
  return node->weight ? node->weight : 1;
}

static void slip__plan_levels(slip__planner_t *p) {
  for (uint32_t i = p->node_count; i-- > 0;) {
    const slip__definition_node_t *node = &p->nodes[i];
    uint64_t below = 0;
    for (uint32_t s = 0; s < node->successor_count; ++s) {
      uint64_t level = p->level[p->successors[node->first_successor + s]];
      if (level > below) below = level;
    }
    p->level[i] = below + slip__plan_weight(node);
  }
}

// Sorts |order| by descending level, equal ones by index: bottom-up merge sort with |other| as second array, so that equal keys keep their
// order.
static void slip__plan_sort(slip__planner_t *p, uint32_t *other) {
  uint32_t *from = p->order, *to = other;
  for (uint32_t i = 0; i < p->node_count; ++i) from[i] = i;
  for (uint64_t width = 1; width < p->node_count; width *= 2) {
    for (uint64_t start = 0; start < p->node_count; start += 2 * width) {
      uint64_t a = start, a_end = start + width < p->node_count ? start + width : p->node_count;
      uint64_t b = a_end, b_end = start + 2 * width < p->node_count ? start + 2 * width : p->node_count;
      for (uint64_t i = start; i < b_end; ++i) {
        bool left = a < a_end && (b >= b_end || p->level[from[a]] >= p->level[from[b]]);
        to[i] = left ? from[a++] : from[b++];
      }
    }
    uint32_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != p->order) memcpy(p->order, from, (size_t)p->node_count * sizeof(uint32_t));
}

static void slip__plan_producers(slip__planner_t *p) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < p->node_count; ++i) {
    p->first_producer[i] = sum;
    sum += p->nodes[i].indegree;
  }
  p->first_producer[p->node_count] = sum;
  memset(p->position, 0, (size_t)p->node_count * sizeof(uint32_t));  // as fill count
  for (uint32_t i = 0; i < p->node_count; ++i) {
    for (uint32_t s = 0; s < p->nodes[i].successor_count; ++s) {
      uint32_t consumer = p->successors[p->nodes[i].first_successor + s];
      p->producers[p->first_producer[consumer] + p->position[consumer]++] = i;
    }
  }
}

// When |node| could start on |lane|, for the producers alone.
static uint64_t slip__plan_inputs_ready(const slip__planner_t *p, uint32_t node, uint32_t lane) {
  uint64_t ready = 0;
  for (uint32_t e = p->first_producer[node]; e < p->first_producer[node + 1]; ++e) {
    uint32_t producer = p->producers[e];
    uint64_t at = p->finish[producer] + (p->lane[producer] == lane ? 0 : p->handover);
    if (at > ready) ready = at;
  }
  return ready;
}

static void slip__plan_assign(slip__planner_t *p, slip__plan_t *plan) {
  uint64_t busy[SLIP__MAX_LANES] = {0};
  for (uint32_t i = 0; i < p->node_count; ++i) {
    uint32_t node = p->order[i], best = 0;
    uint64_t best_start = UINT64_MAX;
    for (uint32_t lane = 0; lane < p->lane_count; ++lane) {
      uint64_t start = slip__plan_inputs_ready(p, node, lane);
      if (start < busy[lane]) start = busy[lane];
      if (start < best_start) {
        best_start = start;
        best = lane;
      }
    }
    p->lane[node] = best;
    p->finish[node] = best_start + slip__plan_weight(&p->nodes[node]);
    busy[best] = p->finish[node];
    if (busy[best] > plan->makespan) plan->makespan = busy[best];
    p->position[node] = plan->lanes[best].count++;
  }
}

static bool slip__plan_add_wait(slip__plan_t *plan, slip__definition_entry_t *entry, uint32_t lane, uint32_t position) {
  if (plan->wait_count == plan->wait_capacity) return false;  // cannot be: at most one for each edge
  plan->waits[plan->wait_count++] = (slip__definition_wait_t){.lane = lane, .position = position};
  ++entry->wait_count;
  return true;
}

// Entries and the waits that are left. |order| is topological, so that what producers know is complete when their consumers ask.
static void slip__plan_waits(slip__planner_t *p, slip__plan_t *plan) {
  uint32_t clocks[SLIP__MAX_LANES][SLIP__MAX_LANES] = {{0}};  // of each lane: what it knows of the others
  for (uint32_t i = 0; i < p->node_count; ++i) {
    uint32_t node = p->order[i], lane = p->lane[node], *clock = clocks[lane];
    slip__definition_entry_t *entry = &plan->entries[plan->lanes[lane].first_entry + p->position[node]];
    entry->node = node;
    entry->first_wait = plan->wait_count;
    uint32_t needs[SLIP__MAX_LANES] = {0}, from[SLIP__MAX_LANES] = {0};
    for (uint32_t e = p->first_producer[node]; e < p->first_producer[node + 1]; ++e) {
      uint32_t producer = p->producers[e], other = p->lane[producer];
      if (other == lane || p->position[producer] + 1 <= needs[other]) continue;
      needs[other] = p->position[producer] + 1;
      from[other] = producer;
    }
    for (uint32_t other = 0; other < p->lane_count; ++other) {
      if (needs[other] <= clock[other]) continue;
      bool implied = false;  // by what another producer knew
      for (uint32_t third = 0; third < p->lane_count && !implied; ++third) {
        if (third == other || needs[third] == 0) continue;
        implied = p->known[(size_t)from[third] * p->lane_count + other] >= needs[other];
      }
      if (implied) continue;
      (void)slip__plan_add_wait(plan, entry, other, needs[other]);
      plan->entries[plan->lanes[other].first_entry + needs[other] - 1].signals = 1;
    }
    for (uint32_t other = 0; other < p->lane_count; ++other) {
      if (needs[other] == 0) continue;
      const uint32_t *known = &p->known[(size_t)from[other] * p->lane_count];
      for (uint32_t k = 0; k < p->lane_count; ++k) {
        if (known[k] > clock[k]) clock[k] = known[k];
      }
    }
    clock[lane] = p->position[node] + 1;
    memcpy(&p->known[(size_t)node * p->lane_count], clock, p->lane_count * sizeof(uint32_t));
  }
}

static slip_status_t slip__planner_allocate(slip__planner_t *p, slip_allocator_t allocator, uint32_t successor_count, char **out_memory,
                                            size_t *out_bytes) {
  size_t n = p->node_count;
  *out_bytes = n * 16 + (n * 4 + 1 + successor_count + n * p->lane_count) * sizeof(uint32_t) + 64;
  void *memory;
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, *out_bytes, &memory));
  *out_memory = memory;
  p->level = memory;
  p->finish = p->level + n;
  p->lane = (uint32_t *)(p->finish + n);
  p->position = p->lane + n;
  p->order = p->position + n;
  p->first_producer = p->order + n;
  p->producers = p->first_producer + n + 1;
  p->known = p->producers + successor_count;
  return slip_ok_status();
}

slip_status_t slip__plan_make(slip_allocator_t allocator, const slip__definition_node_t *nodes, uint32_t node_count,
                              const uint32_t *successors, uint32_t successor_count, uint32_t lane_count, slip__plan_t *out) {
  memset(out, 0, sizeof(*out));
  out->allocator = allocator;
  out->node_count = node_count;
  out->lane_count = lane_count < 1 ? 1 : lane_count > SLIP__MAX_LANES ? SLIP__MAX_LANES : lane_count;
  out->wait_capacity = successor_count;
  slip__planner_t p = {.nodes = nodes, .successors = successors, .node_count = node_count, .lane_count = out->lane_count};
  void *entries = NULL, *waits = NULL;
  char *memory = NULL;
  size_t bytes = 0;
  slip_status_t status = slip__alloc_array(allocator, node_count, sizeof(slip__definition_entry_t), &entries);
  out->entries = entries;
  if (slip_status_is_ok(status)) status = slip__alloc_array(allocator, successor_count, sizeof(slip__definition_wait_t), &waits);
  out->waits = waits;
  if (slip_status_is_ok(status)) status = slip__planner_allocate(&p, allocator, successor_count, &memory, &bytes);
  if (!slip_status_is_ok(status)) {
    slip__plan_free(out);
    return status;
  }
  uint64_t sum = 0;
  for (uint32_t i = 0; i < node_count; ++i) sum += slip__plan_weight(&nodes[i]);
  p.handover = node_count ? (sum * SLIP__PLAN_HANDOVER_EIGHTHS / 8) / node_count : 0;
  slip__plan_levels(&p);
  slip__plan_sort(&p, p.lane);
  slip__plan_producers(&p);
  slip__plan_assign(&p, out);
  for (uint32_t lane = 1; lane < out->lane_count; ++lane) {
    out->lanes[lane].first_entry = out->lanes[lane - 1].first_entry + out->lanes[lane - 1].count;
  }
  slip__plan_waits(&p, out);
  slip__free(allocator, memory, bytes);
  return slip_ok_status();
}

void slip__plan_free(slip__plan_t *plan) {
  slip__free(plan->allocator, plan->entries, (size_t)plan->node_count * sizeof(slip__definition_entry_t));
  slip__free(plan->allocator, plan->waits, (size_t)plan->wait_capacity * sizeof(slip__definition_wait_t));
  plan->entries = NULL;
  plan->waits = NULL;
}
