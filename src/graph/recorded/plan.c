// SPDX-License-Identifier: Apache-2.0
#include "graph/recorded/plan.h"

#include <string.h>

#include "base/allocator.h"
#include "graph/recorded/planner.h"

// Costs between lanes, in eighths of a mean node: the nodes worth planning are about as short as a hand-over. Measured
// (docs/design/engine.md).
#define SLIP__PLAN_HANDOVER_EIGHTHS 24u
#define SLIP__PLAN_FETCH_EIGHTHS    12u

static void slip__plan_producers(slip__planner_t *p) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < p->node_count; ++i) {
    p->first_producer[i] = sum;
    sum += p->nodes[i].indegree;
  }
  p->first_producer[p->node_count] = sum;
  memset(p->open, 0, (size_t)p->node_count * sizeof(uint32_t));  // as fill count
  for (uint32_t i = 0; i < p->node_count; ++i) {
    for (uint32_t s = 0; s < p->nodes[i].successor_count; ++s) {
      uint32_t consumer = p->successors[p->nodes[i].first_successor + s];
      p->producers[p->first_producer[consumer] + p->open[consumer]++] = i;
    }
  }
}

static void slip__plan_choose(slip__planner_t *p) {
  p->best_makespan = UINT64_MAX;  // of no nodes: 0
  slip__planner_earliest(p);
  slip__planner_lay_out(p);
  if (p->lane_count == 1) return;
  slip__planner_bands(p);
  slip__planner_lay_out(p);
  slip__planner_smooth(p);
  slip__planner_lay_out(p);
}

static bool slip__plan_add_wait(slip__plan_t *plan, slip__definition_entry_t *entry, uint32_t lane, uint32_t position) {
  if (plan->wait_count == plan->wait_capacity) return false;  // cannot be: at most one for each edge
  plan->waits[plan->wait_count++] = (slip__definition_wait_t){.lane = lane, .position = position};
  ++entry->wait_count;
  return true;
}

// What the waits are worked out with, once lanes and order are fixed.
typedef struct slip__plan_scratch_t {
  uint32_t *position;  // of a node in its lane
  uint32_t *known;     // |node_count| * |lane_count|: entries of each lane that are over when the node is
} slip__plan_scratch_t;

// Places in lanes.
static void slip__plan_positions(const slip__planner_t *p, slip__plan_t *plan, uint32_t *position) {
  for (uint32_t i = 0; i < p->node_count; ++i) {
    uint32_t node = p->best_order[i];
    position[node] = plan->lanes[p->best_lane[node]].count++;
  }
  for (uint32_t lane = 1; lane < plan->lane_count; ++lane) {
    plan->lanes[lane].first_entry = plan->lanes[lane - 1].first_entry + plan->lanes[lane - 1].count;
  }
}

// Entries and the waits that are left. The order is topological, so that what producers know is complete when their consumers ask.
static void slip__plan_waits(const slip__planner_t *p, const slip__plan_scratch_t *scratch, slip__plan_t *plan) {
  uint32_t clocks[SLIP__MAX_LANES][SLIP__MAX_LANES] = {{0}};  // of each lane: what it knows of the others
  const uint32_t *position = scratch->position;
  for (uint32_t i = 0; i < p->node_count; ++i) {
    uint32_t node = p->best_order[i], lane = p->best_lane[node], *clock = clocks[lane];
    slip__definition_entry_t *entry = &plan->entries[plan->lanes[lane].first_entry + position[node]];
    entry->node = node;
    entry->first_wait = plan->wait_count;
    uint32_t needs[SLIP__MAX_LANES] = {0}, from[SLIP__MAX_LANES] = {0};
    for (uint32_t e = p->first_producer[node]; e < p->first_producer[node + 1]; ++e) {
      uint32_t producer = p->producers[e], other = p->best_lane[producer];
      if (other == lane || position[producer] + 1 <= needs[other]) continue;
      needs[other] = position[producer] + 1;
      from[other] = producer;
    }
    for (uint32_t other = 0; other < p->lane_count; ++other) {
      if (needs[other] <= clock[other]) continue;
      bool implied = false;  // by what another producer knew
      for (uint32_t third = 0; third < p->lane_count && !implied; ++third) {
        if (third == other || needs[third] == 0) continue;
        implied = scratch->known[(size_t)from[third] * p->lane_count + other] >= needs[other];
      }
      if (implied) continue;
      (void)slip__plan_add_wait(plan, entry, other, needs[other]);
      plan->entries[plan->lanes[other].first_entry + needs[other] - 1].signals = 1;
    }
    for (uint32_t other = 0; other < p->lane_count; ++other) {
      if (needs[other] == 0) continue;
      const uint32_t *known = &scratch->known[(size_t)from[other] * p->lane_count];
      for (uint32_t k = 0; k < p->lane_count; ++k) {
        if (known[k] > clock[k]) clock[k] = known[k];
      }
    }
    clock[lane] = position[node] + 1;
    memcpy(&scratch->known[(size_t)node * p->lane_count], clock, p->lane_count * sizeof(uint32_t));
  }
}

static slip_status_t slip__planner_allocate(slip__planner_t *p, slip__plan_scratch_t *scratch, slip_allocator_t allocator,
                                            uint32_t successor_count, void **out_memory, size_t *out_bytes) {
  size_t n = p->node_count;
  *out_bytes = n * 4 * sizeof(uint64_t) + (n * 10 + 1 + successor_count + n * p->lane_count) * sizeof(uint32_t) + 64;
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, *out_bytes, out_memory));
  p->level = *out_memory;
  p->ready = p->level + n;
  p->finish = p->ready + n;
  p->place = p->finish + n;
  uint32_t *words = (uint32_t *)(p->place + n);
  uint32_t **const arrays[] = {&p->depth, &p->lane,    &p->order,   &p->best_lane,     &p->best_order,
                               &p->open,  &p->heap[0], &p->heap[1], &scratch->position};
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); ++i, words += n) *arrays[i] = words;
  p->first_producer = words;
  p->producers = p->first_producer + n + 1;
  scratch->known = p->producers + successor_count;
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
  slip__plan_scratch_t scratch = {0};
  void *entries = NULL, *waits = NULL, *memory = NULL;
  size_t bytes = 0;
  slip_status_t status = slip__alloc_array(allocator, node_count, sizeof(slip__definition_entry_t), &entries);
  out->entries = entries;
  if (slip_status_is_ok(status)) status = slip__alloc_array(allocator, successor_count, sizeof(slip__definition_wait_t), &waits);
  out->waits = waits;
  if (slip_status_is_ok(status)) status = slip__planner_allocate(&p, &scratch, allocator, successor_count, &memory, &bytes);
  if (!slip_status_is_ok(status)) {
    slip__plan_free(out);
    return status;
  }
  uint64_t sum = 0;
  for (uint32_t i = 0; i < node_count; ++i) sum += slip__planner_weight(&p, i);
  p.handover = node_count ? sum * SLIP__PLAN_HANDOVER_EIGHTHS / 8 / node_count : 0;
  p.fetch = node_count ? sum * SLIP__PLAN_FETCH_EIGHTHS / 8 / node_count : 0;
  slip__plan_producers(&p);
  slip__plan_choose(&p);
  out->makespan = p.best_makespan;
  slip__plan_positions(&p, out, scratch.position);
  slip__plan_waits(&p, &scratch, out);
  slip__free(allocator, memory, bytes);
  return slip_ok_status();
}

void slip__plan_free(slip__plan_t *plan) {
  slip__free(plan->allocator, plan->entries, (size_t)plan->node_count * sizeof(slip__definition_entry_t));
  slip__free(plan->allocator, plan->waits, (size_t)plan->wait_capacity * sizeof(slip__definition_wait_t));
  plan->entries = NULL;
  plan->waits = NULL;
}
