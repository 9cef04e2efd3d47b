// SPDX-License-Identifier: Apache-2.0
// Plans against an oracle: what happens before what, by lanes and waits alone, and what the graph asks for.
#include "graph/recorded/plan.h"

#include "slip_test.h"

#include <stdlib.h>
#include <string.h>

#define MOST_NODES 240
#define WORDS      ((MOST_NODES + 63) / 64)

// A graph as lists of producers, and what the planner takes.
typedef struct shape_t {
  uint32_t count, edge_count, capacity;
  slip__definition_node_t *nodes;
  uint32_t *from, *to;  // edges; |to| never falls
  uint32_t *successors;
} shape_t;

static shape_t shape_begin(uint32_t nodes, uint32_t edges) {
  shape_t shape = {.count = nodes, .capacity = edges};
  shape.nodes = calloc(nodes ? nodes : 1, sizeof(shape.nodes[0]));
  shape.from = calloc(edges ? edges : 1, sizeof(uint32_t));
  shape.to = calloc(edges ? edges : 1, sizeof(uint32_t));
  shape.successors = calloc(edges ? edges : 1, sizeof(uint32_t));
  SLIP_CHECK(shape.nodes && shape.from && shape.to && shape.successors);
  for (uint32_t i = 0; i < nodes; ++i) shape.nodes[i].weight = 1;
  return shape;
}
static void shape_edge(shape_t *shape, uint32_t from, uint32_t to) {
  SLIP_CHECK(from < to && shape->edge_count < shape->capacity);
  shape->from[shape->edge_count] = from;
  shape->to[shape->edge_count++] = to;
}
static void shape_end(shape_t *shape) {
  uint32_t sum = 0;
  for (uint32_t e = 0; e < shape->edge_count; ++e) {
    ++shape->nodes[shape->from[e]].successor_count;
    ++shape->nodes[shape->to[e]].indegree;
  }
  for (uint32_t i = 0; i < shape->count; ++i) {
    shape->nodes[i].first_successor = sum;
    sum += shape->nodes[i].successor_count;
    shape->nodes[i].successor_count = 0;
  }
  for (uint32_t e = 0; e < shape->edge_count; ++e) {
    slip__definition_node_t *node = &shape->nodes[shape->from[e]];
    shape->successors[node->first_successor + node->successor_count++] = shape->to[e];
  }
}
static slip__plan_t shape_plan(const shape_t *shape, uint32_t lanes) {
  slip__plan_t plan;
  SLIP_CHECK_OK(slip__plan_make(slip_allocator_system(), shape->nodes, shape->count, shape->successors, shape->edge_count, lanes, &plan));
  return plan;
}
static void shape_free(shape_t *shape) {
  free(shape->nodes);
  free(shape->from);
  free(shape->to);
  free(shape->successors);
}

static uint32_t lane_of(const slip__plan_t *plan, uint32_t entry) {
  uint32_t lane = 0;
  while (entry >= plan->lanes[lane].first_entry + plan->lanes[lane].count) ++lane;
  return lane;
}

// --- The oracle ---------------------------------------------------------------------------------------------------------------------

// Of each entry the set of entries that are over when it starts, as bits, worked out from lanes and waits alone.
typedef struct before_t {
  uint64_t sets[MOST_NODES][WORDS];
  bool known[MOST_NODES];
} before_t;

static void add_before(before_t *before, uint32_t entry, uint32_t earlier) {
  for (uint32_t w = 0; w < WORDS; ++w) before->sets[entry][w] |= before->sets[earlier][w];
  before->sets[entry][earlier / 64] |= UINT64_C(1) << (earlier % 64);
}

// Fills in |before|. False if lanes would wait for each other in a circle.
static bool find_before(const slip__plan_t *plan, before_t *before) {
  memset(before, 0, sizeof(*before));
  uint32_t at[SLIP__MAX_LANES] = {0}, left = plan->node_count;
  for (bool moved = true; left && moved;) {
    moved = false;
    for (uint32_t lane = 0; lane < plan->lane_count; ++lane) {
      if (at[lane] == plan->lanes[lane].count) continue;
      uint32_t entry = plan->lanes[lane].first_entry + at[lane];
      bool can = true;
      for (uint32_t w = 0; w < plan->entries[entry].wait_count; ++w) {
        const slip__definition_wait_t *wait = &plan->waits[plan->entries[entry].first_wait + w];
        can &= at[wait->lane] >= wait->position;
      }
      if (!can) continue;
      if (at[lane]) add_before(before, entry, entry - 1);
      for (uint32_t w = 0; w < plan->entries[entry].wait_count; ++w) {
        const slip__definition_wait_t *wait = &plan->waits[plan->entries[entry].first_wait + w];
        uint32_t last = plan->lanes[wait->lane].first_entry + wait->position - 1;
        SLIP_CHECK(wait->lane != lane && wait->position > 0 && wait->position <= plan->lanes[wait->lane].count);
        SLIP_CHECK_EQ(plan->entries[last].signals, 1);  // else nobody would see it in time
        add_before(before, entry, last);
      }
      ++at[lane];
      --left;
      moved = true;
    }
  }
  return left == 0;
}

static void check_plan(const shape_t *shape, const slip__plan_t *plan) {
  static before_t before;
  uint32_t entry_of[MOST_NODES], signals = 0, sum = 0;
  bool seen[MOST_NODES] = {false};
  for (uint32_t lane = 0; lane < plan->lane_count; ++lane) {
    SLIP_CHECK_EQ(plan->lanes[lane].first_entry, sum);
    sum += plan->lanes[lane].count;
  }
  SLIP_CHECK_EQ(sum, shape->count);
  for (uint32_t e = 0; e < shape->count; ++e) {
    uint32_t node = plan->entries[e].node;
    SLIP_CHECK(node < shape->count && !seen[node]);
    seen[node] = true;
    entry_of[node] = e;
    signals += plan->entries[e].signals;
  }
  SLIP_CHECK(find_before(plan, &before));
  for (uint32_t e = 0; e < shape->edge_count; ++e) {
    uint32_t first = entry_of[shape->from[e]], then = entry_of[shape->to[e]];
    SLIP_CHECK(before.sets[then][first / 64] >> (first % 64) & 1);
  }
  SLIP_CHECK(signals <= plan->wait_count);
  SLIP_CHECK(plan->wait_count <= shape->edge_count);
}

// No wait can be left out: what it is for does not happen before without it.
static void check_waits_are_needed(const slip__plan_t *plan) {
  static before_t before;
  SLIP_CHECK(find_before(plan, &before));
  for (uint32_t e = 0; e < plan->node_count; ++e) {
    uint32_t lane = lane_of(plan, e);
    for (uint32_t w = 0; w < plan->entries[e].wait_count; ++w) {
      const slip__definition_wait_t *wait = &plan->waits[plan->entries[e].first_wait + w];
      uint32_t last = plan->lanes[wait->lane].first_entry + wait->position - 1;
      bool by_lane = e > plan->lanes[lane].first_entry && (before.sets[e - 1][last / 64] >> (last % 64) & 1);
      SLIP_CHECK(!by_lane);
    }
  }
}

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

static shape_t random_shape(uint64_t *random) {
  uint32_t count = 1 + (uint32_t)(next_random(random) >> 20) % MOST_NODES, reach = 1 + (uint32_t)(next_random(random) >> 20) % 64;
  shape_t shape = shape_begin(count, 4 * count);
  for (uint32_t i = 1; i < count; ++i) {
    uint32_t wanted = (uint32_t)(next_random(random) >> 20) % 5, first = i > reach ? i - reach : 0, last = SLIP__NONE;
    for (uint32_t k = 0; k < wanted; ++k) {
      uint32_t from = first + (uint32_t)(next_random(random) >> 20) % (i - first);
      if (from != last) shape_edge(&shape, from, i);  // the same edge twice, but not in a row, is fine, too
      last = from;
    }
  }
  for (uint32_t i = 0; i < count; ++i) shape.nodes[i].weight = next_random(random) & 1 ? 1 : (uint32_t)(next_random(random) >> 50);
  shape_end(&shape);
  return shape;
}

SLIP_TEST(plans_of_random_graphs_keep_every_dependency) {
  uint64_t random = 88172645463325252u;
  for (int graph = 0; graph < 300; ++graph) {
    shape_t shape = random_shape(&random);
    uint32_t lanes = graph % 10 == 9 ? SLIP__MAX_LANES : 1 + (uint32_t)graph % 6;
    slip__plan_t plan = shape_plan(&shape, lanes);
    SLIP_CHECK_EQ(plan.lane_count, lanes);
    check_plan(&shape, &plan);
    check_waits_are_needed(&plan);
    if (lanes == 1) SLIP_CHECK_EQ(plan.wait_count, 0);
    slip__plan_free(&plan);
    shape_free(&shape);
  }
}

SLIP_TEST(a_graph_has_one_plan) {
  uint64_t random = 4711;
  for (int graph = 0; graph < 40; ++graph) {
    shape_t shape = random_shape(&random);
    slip__plan_t a = shape_plan(&shape, 3), b = shape_plan(&shape, 3);
    SLIP_CHECK_EQ(a.wait_count, b.wait_count);
    SLIP_CHECK_EQ(a.makespan, b.makespan);
    SLIP_CHECK(memcmp(a.lanes, b.lanes, sizeof(a.lanes)) == 0);
    SLIP_CHECK(memcmp(a.entries, b.entries, shape.count * sizeof(a.entries[0])) == 0);
    SLIP_CHECK(a.wait_count == 0 || memcmp(a.waits, b.waits, a.wait_count * sizeof(a.waits[0])) == 0);
    slip__plan_free(&a);
    slip__plan_free(&b);
    shape_free(&shape);
  }
}

SLIP_TEST(the_empty_graph_has_a_plan) {
  shape_t shape = shape_begin(0, 0);
  slip__plan_t plan = shape_plan(&shape, 4);
  SLIP_CHECK_EQ(plan.wait_count, 0);
  SLIP_CHECK_EQ(plan.makespan, 0);
  slip__plan_free(&plan);
  shape_free(&shape);
}

// --- Known shapes -------------------------------------------------------------------------------------------------------------------

static uint32_t largest_lane(const slip__plan_t *plan) {
  uint32_t most = 0;
  for (uint32_t lane = 0; lane < plan->lane_count; ++lane) most = plan->lanes[lane].count > most ? plan->lanes[lane].count : most;
  return most;
}

SLIP_TEST(a_chain_stays_on_one_lane) {
  shape_t shape = shape_begin(100, 99);
  for (uint32_t i = 1; i < 100; ++i) shape_edge(&shape, i - 1, i);
  shape_end(&shape);
  slip__plan_t plan = shape_plan(&shape, 4);
  check_plan(&shape, &plan);
  SLIP_CHECK_EQ(plan.wait_count, 0);
  SLIP_CHECK_EQ(largest_lane(&plan), 100);
  SLIP_CHECK_EQ(plan.makespan, 100);
  slip__plan_free(&plan);
  shape_free(&shape);
}

SLIP_TEST(independent_nodes_and_phases_share_nothing) {
  for (uint32_t phases = 1; phases <= 3; ++phases) {
    const uint32_t width = 80;
    shape_t shape = shape_begin(width * phases, width * (phases - 1));
    for (uint32_t i = width; i < width * phases; ++i) shape_edge(&shape, i - width, i);
    shape_end(&shape);
    slip__plan_t plan = shape_plan(&shape, 4);
    check_plan(&shape, &plan);
    SLIP_CHECK_EQ(plan.wait_count, 0);
    SLIP_CHECK_EQ(largest_lane(&plan), width * phases / 4);
    slip__plan_free(&plan);
    shape_free(&shape);
  }
}

static shape_t wavefront(uint32_t side) {
  shape_t shape = shape_begin(side * side, 2 * side * (side - 1));
  for (uint32_t i = 0; i < side * side; ++i) {
    if (i >= side) shape_edge(&shape, i - side, i);
    if (i % side) shape_edge(&shape, i - 1, i);
  }
  shape_end(&shape);
  return shape;
}

SLIP_TEST(lanes_of_a_wavefront_meet_at_their_border_only) {
  shape_t small = wavefront(15);
  for (uint32_t lanes = 1; lanes <= 4; ++lanes) {
    slip__plan_t plan = shape_plan(&small, lanes);
    check_plan(&small, &plan);
    slip__plan_free(&plan);
  }
  shape_free(&small);
  // With a share of a diagonal each, a border has about one cell a diagonal to either side.
  shape_t large = wavefront(100);
  for (uint32_t lanes = 2; lanes <= 4; ++lanes) {
    slip__plan_t plan = shape_plan(&large, lanes);
    SLIP_CHECK(plan.wait_count <= (lanes - 1) * 4 * 100);
    SLIP_CHECK(largest_lane(&plan) <= 100 * 100 / lanes * 11 / 10);
    SLIP_CHECK(plan.makespan * lanes <= 100 * 100 * 4 / 3);
    slip__plan_free(&plan);
  }
  shape_free(&large);
}

SLIP_TEST(weights_count_and_not_nodes) {
  // One heavy node and eight light ones, all independent: the heavy one has a lane of its own.
  shape_t shape = shape_begin(9, 0);
  shape.nodes[4].weight = 800;
  for (uint32_t i = 0; i < 9; ++i) {
    if (i != 4) shape.nodes[i].weight = 100;
  }
  shape_end(&shape);
  slip__plan_t plan = shape_plan(&shape, 2);
  check_plan(&shape, &plan);
  SLIP_CHECK_EQ(plan.makespan, 800);
  SLIP_CHECK_EQ(largest_lane(&plan), 8);
  slip__plan_free(&plan);
  shape_free(&shape);
}
