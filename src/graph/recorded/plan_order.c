// SPDX-License-Identifier: Apache-2.0
// Laying nodes out in time, each on the lane it was given: list scheduling. See planner.h.
#include <string.h>

#include "graph/recorded/planner.h"

// A heap of nodes: the one with the least key is at the top, of equal ones the one recorded first.
typedef struct slip__plan_heap_t {
  uint32_t *items;
  uint32_t count;
} slip__plan_heap_t;

static inline bool slip__plan_heap_less(const uint64_t *keys, uint32_t a, uint32_t b) {
  return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
}
static void slip__plan_heap_push(slip__plan_heap_t *heap, const uint64_t *keys, uint32_t node) {
  uint32_t at = heap->count++;
  for (; at > 0 && slip__plan_heap_less(keys, node, heap->items[(at - 1) / 2]); at = (at - 1) / 2)
    heap->items[at] = heap->items[(at - 1) / 2];
  heap->items[at] = node;
}
static uint32_t slip__plan_heap_pop(slip__plan_heap_t *heap, const uint64_t *keys) {
  uint32_t top = heap->items[0], last = heap->items[--heap->count], at = 0;
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= heap->count) break;
    if (child + 1 < heap->count && slip__plan_heap_less(keys, heap->items[child + 1], heap->items[child])) ++child;
    if (!slip__plan_heap_less(keys, heap->items[child], last)) break;
    heap->items[at] = heap->items[child];
    at = child;
  }
  heap->items[at] = last;
  return top;
}

// Lanes while nodes are laid out.
typedef struct slip__plan_clock_t {
  uint64_t busy[SLIP__MAX_LANES];
  slip__plan_heap_t waiting[SLIP__MAX_LANES], startable[SLIP__MAX_LANES];  // by |ready|; by |level|, inverted
} slip__plan_clock_t;

// Inverted, so that the least is the most urgent: what others wait for goes first, and early if they are on another lane.
static void slip__planner_urgency(slip__planner_t *p) {
  for (uint32_t i = p->node_count; i-- > 0;) {
    uint64_t below = UINT64_MAX;
    for (uint32_t s = 0; s < p->nodes[i].successor_count; ++s) {
      uint32_t consumer = p->successors[p->nodes[i].first_successor + s];
      uint64_t level = p->level[consumer] - (p->lane[consumer] == p->lane[i] ? 0 : p->handover + p->fetch);
      if (level < below) below = level;
    }
    p->level[i] = below - slip__planner_weight(p, i);
  }
}

static void slip__planner_begin(slip__planner_t *p, slip__plan_clock_t *clock) {
  uint32_t counts[SLIP__MAX_LANES] = {0}, sum = 0;
  memset(clock, 0, sizeof(*clock));
  for (uint32_t i = 0; i < p->node_count; ++i) ++counts[p->lane[i]];
  for (uint32_t lane = 0; lane < p->lane_count; ++lane) {
    clock->waiting[lane].items = p->heap[0] + sum;
    clock->startable[lane].items = p->heap[1] + sum;
    sum += counts[lane];
  }
  for (uint32_t i = 0; i < p->node_count; ++i) {
    p->ready[i] = 0;
    p->open[i] = p->nodes[i].indegree;
    if (p->open[i] == 0) slip__plan_heap_push(&clock->waiting[p->lane[i]], p->ready, i);
  }
}

// The lane that can start something first, and when. There is one: the graph has no circle.
static uint32_t slip__planner_next_lane(const slip__planner_t *p, const slip__plan_clock_t *clock, uint64_t *out_start) {
  uint32_t best = 0;
  *out_start = UINT64_MAX;
  for (uint32_t lane = 0; lane < p->lane_count; ++lane) {
    uint64_t start = clock->busy[lane];
    if (clock->startable[lane].count == 0) {
      if (clock->waiting[lane].count == 0) continue;
      uint64_t ready = p->ready[clock->waiting[lane].items[0]];
      if (ready > start) start = ready;
    }
    if (start >= *out_start) continue;
    *out_start = start;
    best = lane;
  }
  return best;
}

static void slip__planner_release(slip__planner_t *p, slip__plan_clock_t *clock, uint32_t node) {
  for (uint32_t s = 0; s < p->nodes[node].successor_count; ++s) {
    uint32_t consumer = p->successors[p->nodes[node].first_successor + s];
    uint64_t at = p->finish[node] + (p->lane[consumer] == p->lane[node] ? 0 : p->handover);
    if (at > p->ready[consumer]) p->ready[consumer] = at;
    if (--p->open[consumer] == 0) slip__plan_heap_push(&clock->waiting[p->lane[consumer]], p->ready, consumer);
  }
}

void slip__planner_lay_out(slip__planner_t *p) {
  slip__plan_clock_t clock;
  uint64_t makespan = 0;
  slip__planner_urgency(p);
  slip__planner_begin(p, &clock);
  for (uint32_t i = 0; i < p->node_count; ++i) {
    uint64_t start;
    uint32_t lane = slip__planner_next_lane(p, &clock, &start);
    slip__plan_heap_t *waiting = &clock.waiting[lane], *startable = &clock.startable[lane];
    while (waiting->count && p->ready[waiting->items[0]] <= start)
      slip__plan_heap_push(startable, p->level, slip__plan_heap_pop(waiting, p->ready));
    uint32_t node = slip__plan_heap_pop(startable, p->level);
    p->order[i] = node;
    p->finish[node] = clock.busy[lane] = start + slip__planner_cost(p, node, lane);
    if (p->finish[node] > makespan) makespan = p->finish[node];
    slip__planner_release(p, &clock, node);
  }
  if (makespan >= p->best_makespan) return;
  p->best_makespan = makespan;
  memcpy(p->best_lane, p->lane, (size_t)p->node_count * sizeof(uint32_t));
  memcpy(p->best_order, p->order, (size_t)p->node_count * sizeof(uint32_t));
}
