// SPDX-License-Identifier: Apache-2.0
// From nodes and edges as they come to a definition: edges are thinned out, laid out as successors, planned, and packed into one block.
#include <inttypes.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/hash.h"
#include "graph/recorded/plan.h"

// An array that grows by doubling.
typedef struct slip__array_t {
  void *items;
  uint32_t count, capacity;
  uint32_t item_bytes;
} slip__array_t;

struct slip__builder_t {
  slip_allocator_t allocator;
  slip__builder_limits_t limits;
  uint32_t boundary_count, boundary_scalar_count;
  uint64_t heap_bytes;
  uint32_t kernel_count;
  uint32_t special;
  // Of a node here, |first_successor| and |indegree| say where its producers lie in |producers|.
  slip__array_t nodes, tensors, scalars, predicates, producers;
};

static bool slip__array_reserve(slip_allocator_t allocator, slip__array_t *array, uint32_t more) {
  if (more > UINT32_MAX - array->count) return false;
  if (array->count + more <= array->capacity) return true;
  uint64_t capacity = array->capacity ? array->capacity : 64;
  while (capacity < array->count + more) capacity *= 2;
  if (capacity > UINT32_MAX) return false;
  slip_status_t status =
      slip__realloc(allocator, (size_t)array->capacity * array->item_bytes, (size_t)capacity * array->item_bytes, &array->items);
  if (!slip_status_is_ok(status)) {
    slip_status_free(status);
    return false;
  }
  array->capacity = (uint32_t)capacity;
  return true;
}

static void slip__array_append(slip__array_t *array, const void *items, uint32_t count) {
  if (count == 0) return;
  memcpy((char *)array->items + (size_t)array->count * array->item_bytes, items, (size_t)count * array->item_bytes);
  array->count += count;
}

static void slip__array_free(slip_allocator_t allocator, slip__array_t *array) {
  slip__free(allocator, array->items, (size_t)array->capacity * array->item_bytes);
}

slip_status_t slip__builder_create(slip_allocator_t allocator, const slip__builder_limits_t *limits, uint32_t boundary_count,
                                   uint32_t boundary_scalar_count, slip__builder_t **out) {
  void *memory;
  *out = NULL;
  allocator = slip__allocator_or_system(allocator);
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, sizeof(slip__builder_t), &memory));
  slip__builder_t *builder = memory;
  builder->allocator = allocator;
  builder->limits = *limits;
  builder->boundary_count = boundary_count;
  builder->boundary_scalar_count = boundary_scalar_count;
  builder->nodes.item_bytes = sizeof(slip__definition_node_t);
  builder->tensors.item_bytes = sizeof(slip__definition_tensor_t);
  builder->scalars.item_bytes = sizeof(slip__definition_scalar_t);
  builder->predicates.item_bytes = sizeof(slip__definition_predicate_t);
  builder->producers.item_bytes = sizeof(uint32_t);
  *out = builder;
  return slip_ok_status();
}

void slip__builder_destroy(slip__builder_t *builder) {
  if (!builder) return;
  slip_allocator_t allocator = builder->allocator;
  slip__array_free(allocator, &builder->nodes);
  slip__array_free(allocator, &builder->tensors);
  slip__array_free(allocator, &builder->scalars);
  slip__array_free(allocator, &builder->predicates);
  slip__array_free(allocator, &builder->producers);
  slip__free(allocator, builder, sizeof(*builder));
}

static uint64_t slip__builder_bytes(const slip__builder_t *builder) {
  return builder->nodes.count * (sizeof(slip__definition_node_t) + sizeof(slip__definition_entry_t)) +
         builder->tensors.count * sizeof(slip__definition_tensor_t) + builder->scalars.count * sizeof(slip__definition_scalar_t) +
         builder->predicates.count * sizeof(slip__definition_predicate_t) +
         builder->producers.count * (sizeof(uint32_t) + sizeof(slip__definition_wait_t)) + builder->heap_bytes;
}

uint32_t slip__builder_add(slip__builder_t *builder, const slip__builder_node_t *node) {
  if (builder->nodes.count >= builder->limits.max_nodes || slip__builder_bytes(builder) > builder->limits.max_bytes) return SLIP__NONE;
  slip_allocator_t allocator = builder->allocator;
  if (!slip__array_reserve(allocator, &builder->nodes, 1) || !slip__array_reserve(allocator, &builder->tensors, node->tensor_count) ||
      !slip__array_reserve(allocator, &builder->scalars, node->scalar_count) || !slip__array_reserve(allocator, &builder->predicates, 1)) {
    return SLIP__NONE;
  }
  slip__definition_node_t added = {
      .kernel = node->kernel,
      .block_count = node->block_count ? node->block_count : 1,
      .flags = node->flags,
      .first_successor = builder->producers.count,
      .first_tensor = builder->tensors.count,
      .tensor_count = node->tensor_count,
      .first_scalar = builder->scalars.count,
      .scalar_count = node->scalar_count,
      .predicate = node->predicate ? builder->predicates.count : SLIP__NONE,
      .weight = node->weight ? node->weight : 1,
  };
  if (node->kernel != SLIP__NONE && node->kernel >= builder->kernel_count) builder->kernel_count = node->kernel + 1;
  if (added.block_count > 1) ++builder->special;
  slip__array_append(&builder->tensors, node->tensors, node->tensor_count);
  slip__array_append(&builder->scalars, node->scalars, node->scalar_count);
  if (node->predicate) slip__array_append(&builder->predicates, node->predicate, 1);
  slip__array_append(&builder->nodes, &added, 1);
  return builder->nodes.count - 1;
}

static slip__definition_node_t *slip__builder_nodes(const slip__builder_t *builder) {
  return builder->nodes.items;
}

bool slip__builder_depend(slip__builder_t *builder, uint32_t producer) {
  slip__definition_node_t *node = &slip__builder_nodes(builder)[builder->nodes.count - 1];
  if (producer >= builder->nodes.count - 1 || builder->producers.count >= builder->limits.max_edges) return false;
  if (!slip__array_reserve(builder->allocator, &builder->producers, 1)) return false;
  slip__array_append(&builder->producers, &producer, 1);
  ++node->indegree;
  return true;
}

void slip__builder_set_heap(slip__builder_t *builder, uint64_t bytes) {
  builder->heap_bytes = bytes;
}
uint32_t slip__builder_node_count(const slip__builder_t *builder) {
  return builder->nodes.count;
}
void slip__builder_set_weight(slip__builder_t *builder, uint32_t node, uint32_t weight) {
  slip__builder_nodes(builder)[node].weight = weight ? weight : 1;
}

// --- Thinning out -------------------------------------------------------------------------------------------------------------------

#define SLIP__REDUCE_WORDS (SLIP__REDUCE_WINDOW / 64)

// The ancestors of a node among the SLIP__REDUCE_WINDOW nodes before it: bit d - 1 is the node d places back.
typedef struct slip__ancestors_t {
  uint64_t bits[SLIP__REDUCE_WORDS];
} slip__ancestors_t;

static bool slip__ancestors_have(const slip__ancestors_t *ancestors, uint32_t distance) {
  return distance >= 1 && distance <= SLIP__REDUCE_WINDOW && (ancestors->bits[(distance - 1) / 64] >> ((distance - 1) % 64) & 1u) != 0;
}

// Adds |other|, the ancestors of the node |distance| places back, and that node itself.
static void slip__ancestors_add(slip__ancestors_t *ancestors, const slip__ancestors_t *other, uint32_t distance) {
  if (distance > SLIP__REDUCE_WINDOW) return;
  uint32_t words = distance / 64, bits = distance % 64;
  for (uint32_t i = words; i < SLIP__REDUCE_WORDS; ++i) {
    uint64_t low = other->bits[i - words] << bits;
    uint64_t carry = bits && i > words ? other->bits[i - words - 1] >> (64 - bits) : 0;
    ancestors->bits[i] |= low | carry;
  }
  ancestors->bits[(distance - 1) / 64] |= UINT64_C(1) << ((distance - 1) % 64);
}

// Nearest producers first; few, so by insertion. Returns how many are left without doubles.
static uint32_t slip__sort_producers(uint32_t *producers, uint32_t count) {
  uint32_t kept = 0;
  for (uint32_t i = 1; i < count; ++i) {
    uint32_t value = producers[i], at = i;
    for (; at > 0 && producers[at - 1] < value; --at) producers[at] = producers[at - 1];
    producers[at] = value;
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (kept == 0 || producers[kept - 1] != producers[i]) producers[kept++] = producers[i];
  }
  return kept;
}

// A producer that a nearer one follows anyway brings nothing. (Only a nearer one can: nodes are in topological order.)
static void slip__builder_thin_out(slip__builder_t *builder, slip__ancestors_t *ancestors) {
  slip__definition_node_t *nodes = slip__builder_nodes(builder);
  uint32_t *all = builder->producers.items;
  for (uint32_t i = 0; i < builder->nodes.count; ++i) {
    uint32_t *producers = all ? all + nodes[i].first_successor : NULL, kept = 0;
    uint32_t count = slip__sort_producers(producers, nodes[i].indegree);
    for (uint32_t k = 0; k < count; ++k) {
      uint32_t distance = i - producers[k];
      if (slip__ancestors_have(&ancestors[i], distance)) continue;
      slip__ancestors_add(&ancestors[i], &ancestors[producers[k]], distance);
      producers[kept++] = producers[k];
    }
    nodes[i].indegree = kept;
  }
}

// --- Packing ------------------------------------------------------------------------------------------------------------------------

// Turns producers into successors. |cursor| has a word for each node.
static void slip__builder_turn_edges(slip__builder_t *builder, uint32_t *successors, uint32_t *cursor) {
  slip__definition_node_t *nodes = slip__builder_nodes(builder);
  const uint32_t *producers = builder->producers.items;
  for (uint32_t i = 0; i < builder->nodes.count; ++i) {
    for (uint32_t k = 0; k < nodes[i].indegree; ++k) ++cursor[producers[nodes[i].first_successor + k]];
  }
  uint32_t sum = 0;
  for (uint32_t i = 0; i < builder->nodes.count; ++i) {
    nodes[i].successor_count = cursor[i];
    cursor[i] = sum;
    sum += nodes[i].successor_count;
  }
  for (uint32_t i = 0; i < builder->nodes.count; ++i) {
    uint32_t first = nodes[i].first_successor;
    for (uint32_t k = 0; k < nodes[i].indegree; ++k) successors[cursor[producers[first + k]]++] = i;
  }
  for (uint32_t i = 0; i < builder->nodes.count; ++i) nodes[i].first_successor = cursor[i] - nodes[i].successor_count;
}

static bool slip__block_place(uint64_t *inout_total, uint64_t count, uint64_t item_bytes, uint64_t *out_at) {
  uint64_t bytes;
  if (!slip__checked_align(*inout_total, 16, inout_total) || !slip__checked_mul(count, item_bytes, &bytes)) return false;
  *out_at = *inout_total;
  return slip__checked_add(*inout_total, bytes, inout_total);
}

// Sizes and offsets; false if they overflow.
static bool slip__block_layout(slip__definition_block_t *head) {
  uint64_t total = sizeof(*head);
  bool fits = slip__block_place(&total, head->node_count, sizeof(slip__definition_node_t), &head->at_nodes) &&
              slip__block_place(&total, head->successor_count, sizeof(uint32_t), &head->at_successors) &&
              slip__block_place(&total, head->tensor_count, sizeof(slip__definition_tensor_t), &head->at_tensors) &&
              slip__block_place(&total, head->scalar_count, sizeof(slip__definition_scalar_t), &head->at_scalars) &&
              slip__block_place(&total, head->predicate_count, sizeof(slip__definition_predicate_t), &head->at_predicates) &&
              slip__block_place(&total, head->lane_count, sizeof(slip__definition_lane_t), &head->at_lanes) &&
              slip__block_place(&total, head->node_count, sizeof(slip__definition_entry_t), &head->at_entries) &&
              slip__block_place(&total, head->wait_count, sizeof(slip__definition_wait_t), &head->at_waits);
  head->bytes = total;
  return fits;
}

static uint64_t slip__block_hash(const slip__definition_block_t *block) {
  return slip__hash64(
      (slip_const_bytes_t){.data = (const uint8_t *)block + sizeof(block->hash), .size = block->bytes - sizeof(block->hash)});
}

static void slip__block_fill(slip__definition_block_t *block, const void *items, uint64_t at, uint64_t bytes) {
  if (bytes) memcpy((char *)block + at, items, (size_t)bytes);
}

static slip_status_t slip__builder_pack(slip__builder_t *builder, const slip__plan_t *plan, const uint32_t *successors,
                                        uint32_t successor_count, slip__definition_t **out) {
  const slip__definition_node_t *nodes = slip__builder_nodes(builder);
  slip__definition_block_t head = {
      .heap_bytes = builder->heap_bytes,
      .makespan = plan->makespan,
      .boundary_count = builder->boundary_count,
      .boundary_scalar_count = builder->boundary_scalar_count,
      .node_count = builder->nodes.count,
      .successor_count = successor_count,
      .tensor_count = builder->tensors.count,
      .scalar_count = builder->scalars.count,
      .predicate_count = builder->predicates.count,
      .lane_count = plan->lane_count,
      .wait_count = plan->wait_count,
      .kernel_count = builder->kernel_count,
      .special = builder->special,
  };
  for (uint32_t i = 0; i < head.node_count; ++i) {
    head.weight += nodes[i].weight;
    head.runnable += nodes[i].kernel != SLIP__NONE;
  }
  if (!slip__block_layout(&head) || head.bytes > builder->limits.max_bytes || head.heap_bytes > builder->limits.max_bytes - head.bytes) {
    return SLIP_STATUS(SLIP_CODE_CAPACITY_BYTES, "a recorded graph of %" PRIu32 " nodes needs more than %" PRIu64 " bytes", head.node_count,
                       builder->limits.max_bytes);
  }
  void *memory;
  SLIP_RETURN_IF_ERROR(slip__alloc(builder->allocator, sizeof(slip__definition_t) + 64 + head.bytes, &memory));
  slip__definition_t *definition = memory;
  definition->allocator = builder->allocator;
  atomic_store_explicit(&definition->references, 1, memory_order_relaxed);
  slip__definition_block_t *block = (void *)(((uintptr_t)(definition + 1) + 63) & ~(uintptr_t)63);
  definition->block = block;
  *block = head;
  slip__block_fill(block, nodes, head.at_nodes, head.node_count * sizeof(slip__definition_node_t));
  slip__block_fill(block, successors, head.at_successors, successor_count * sizeof(uint32_t));
  slip__block_fill(block, builder->tensors.items, head.at_tensors, head.tensor_count * sizeof(slip__definition_tensor_t));
  slip__block_fill(block, builder->scalars.items, head.at_scalars, head.scalar_count * sizeof(slip__definition_scalar_t));
  slip__block_fill(block, builder->predicates.items, head.at_predicates, head.predicate_count * sizeof(slip__definition_predicate_t));
  slip__block_fill(block, plan->lanes, head.at_lanes, head.lane_count * sizeof(slip__definition_lane_t));
  slip__block_fill(block, plan->entries, head.at_entries, head.node_count * sizeof(slip__definition_entry_t));
  slip__block_fill(block, plan->waits, head.at_waits, head.wait_count * sizeof(slip__definition_wait_t));
  block->hash = slip__block_hash(block);
  *out = definition;
  return slip_ok_status();
}

// |memory| holds the ancestors, then the cursors, then the successors.
static slip_status_t slip__builder_make(slip__builder_t *builder, uint32_t lane_count, void *memory, slip__definition_t **out) {
  uint32_t node_count = builder->nodes.count;
  slip__ancestors_t *ancestors = memory;
  uint32_t *cursor = (uint32_t *)(void *)(ancestors + node_count), *successors = cursor + node_count;
  slip__builder_thin_out(builder, ancestors);
  slip__builder_turn_edges(builder, successors, cursor);
  uint32_t successor_count = 0;
  for (uint32_t i = 0; i < node_count; ++i) successor_count += slip__builder_nodes(builder)[i].indegree;
  slip__plan_t plan;
  SLIP_RETURN_IF_ERROR(
      slip__plan_make(builder->allocator, slip__builder_nodes(builder), node_count, successors, successor_count, lane_count, &plan));
  slip_status_t status = slip__builder_pack(builder, &plan, successors, successor_count, out);
  slip__plan_free(&plan);
  return status;
}

slip_status_t slip__builder_finish(slip__builder_t *builder, uint32_t lane_count, slip__definition_t **out) {
  *out = NULL;
  size_t bytes = (size_t)builder->nodes.count * (sizeof(slip__ancestors_t) + sizeof(uint32_t)) +
                 (size_t)builder->producers.count * sizeof(uint32_t) + sizeof(uint64_t);
  void *memory;
  slip_allocator_t allocator = builder->allocator;
  slip_status_t status = slip__alloc(allocator, bytes, &memory);
  if (slip_status_is_ok(status)) {
    status = slip__builder_make(builder, lane_count, memory, out);
    slip__free(allocator, memory, bytes);
  }
  slip__builder_destroy(builder);
  return status;
}

void slip__definition_release(slip__definition_t *definition) {
  if (!definition || atomic_fetch_sub_explicit(&definition->references, 1, memory_order_acq_rel) != 1) return;
  slip_allocator_t allocator = definition->allocator;
  slip__free(allocator, definition, sizeof(*definition) + 64 + definition->block->bytes);
}
