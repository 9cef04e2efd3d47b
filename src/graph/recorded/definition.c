// SPDX-License-Identifier: Apache-2.0
// Checking a definition: nothing of it is trusted before the hash and all indices have been seen.
#include "graph/recorded/definition.h"

#include <inttypes.h>

#include "base/checked.h"
#include "base/hash.h"

static bool slip__array_is_inside(const slip__definition_block_t *block, uint64_t at, uint64_t count, uint64_t item_bytes) {
  uint64_t bytes, end;
  return at >= sizeof(*block) && at % 8 == 0 && slip__checked_mul(count, item_bytes, &bytes) && slip__checked_add(at, bytes, &end) &&
         end <= block->bytes;
}

static bool slip__arrays_are_inside(const slip__definition_block_t *block) {
  return slip__array_is_inside(block, block->at_nodes, block->node_count, sizeof(slip__definition_node_t)) &&
         slip__array_is_inside(block, block->at_successors, block->successor_count, sizeof(uint32_t)) &&
         slip__array_is_inside(block, block->at_tensors, block->tensor_count, sizeof(slip__definition_tensor_t)) &&
         slip__array_is_inside(block, block->at_scalars, block->scalar_count, sizeof(slip__definition_scalar_t)) &&
         slip__array_is_inside(block, block->at_predicates, block->predicate_count, sizeof(slip__definition_predicate_t)) &&
         slip__array_is_inside(block, block->at_lanes, block->lane_count, sizeof(slip__definition_lane_t)) &&
         slip__array_is_inside(block, block->at_entries, block->node_count, sizeof(slip__definition_entry_t)) &&
         slip__array_is_inside(block, block->at_waits, block->wait_count, sizeof(slip__definition_wait_t));
}

static bool slip__range_is_inside(uint32_t first, uint32_t count, uint32_t size) {
  return first <= size && count <= size - first;
}

static bool slip__nodes_are_good(const slip__definition_block_t *block) {
  const slip__definition_node_t *nodes = slip__definition_nodes(block);
  const uint32_t *successors = slip__definition_successors(block);
  for (uint32_t i = 0; i < block->node_count; ++i) {
    const slip__definition_node_t *node = &nodes[i];
    if (!slip__range_is_inside(node->first_successor, node->successor_count, block->successor_count) ||
        !slip__range_is_inside(node->first_tensor, node->tensor_count, block->tensor_count) ||
        !slip__range_is_inside(node->first_scalar, node->scalar_count, block->scalar_count) ||
        node->tensor_count > SLIP_KERNEL_MAX_TENSORS || node->scalar_count > SLIP_KERNEL_MAX_SCALARS || node->block_count == 0 ||
        (node->kernel != SLIP__NONE && node->kernel >= block->kernel_count) ||
        (node->predicate != SLIP__NONE && node->predicate >= block->predicate_count)) {
      return false;
    }
    for (uint32_t s = 0; s < node->successor_count; ++s) {
      uint32_t successor = successors[node->first_successor + s];
      if (successor <= i || successor >= block->node_count) return false;
    }
  }
  return true;
}

static bool slip__arguments_are_good(const slip__definition_block_t *block) {
  const slip__definition_tensor_t *tensors = slip__definition_tensors(block);
  const slip__definition_scalar_t *scalars = slip__definition_scalars(block);
  const slip__definition_predicate_t *predicates = slip__definition_predicates(block);
  for (uint32_t i = 0; i < block->tensor_count; ++i) {
    if (tensors[i].rank > SLIP_MAX_RANK) return false;
    if (tensors[i].base == SLIP__BASE_HEAP ? tensors[i].offset > block->heap_bytes : tensors[i].base >= block->boundary_count) return false;
  }
  for (uint32_t i = 0; i < block->scalar_count; ++i) {
    if (scalars[i].source != SLIP__NONE && scalars[i].source >= block->boundary_scalar_count) return false;
  }
  for (uint32_t i = 0; i < block->predicate_count; ++i) {
    const slip__definition_predicate_t *p = &predicates[i];
    if (p->base == SLIP__BASE_HEAP ? p->offset >= block->heap_bytes : p->base >= block->boundary_count) return false;
  }
  return true;
}

static bool slip__plan_is_good(const slip__definition_block_t *block) {
  const slip__definition_lane_t *lanes = slip__definition_lanes(block);
  const slip__definition_entry_t *entries = slip__definition_entries(block);
  const slip__definition_wait_t *waits = slip__definition_waits(block);
  uint32_t next = 0;
  for (uint32_t i = 0; i < block->lane_count; ++i) {
    if (lanes[i].first_entry != next || lanes[i].count > block->node_count - next) return false;
    next += lanes[i].count;
  }
  if (next != block->node_count) return false;
  for (uint32_t i = 0; i < block->node_count; ++i) {
    if (entries[i].node >= block->node_count || !slip__range_is_inside(entries[i].first_wait, entries[i].wait_count, block->wait_count))
      return false;
  }
  for (uint32_t i = 0; i < block->wait_count; ++i) {
    if (waits[i].lane >= block->lane_count || waits[i].position > lanes[waits[i].lane].count) return false;
  }
  return true;
}

slip_status_t slip__definition_verify(const slip__definition_block_t *block) {
  slip_const_bytes_t content = {.data = (const uint8_t *)block + sizeof(block->hash), .size = 0};
  if (block->bytes >= sizeof(*block)) content.size = block->bytes - sizeof(block->hash);
  if (content.size == 0 || slip__hash64(content) != block->hash) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT,
                       "a recorded graph of %" PRIu64 " bytes does not have the hash %016" PRIx64 " it names; record anew", block->bytes,
                       block->hash);
  }
  if (block->lane_count < 1 || block->lane_count > SLIP__MAX_LANES || !slip__arrays_are_inside(block) || !slip__nodes_are_good(block) ||
      !slip__arguments_are_good(block) || !slip__plan_is_good(block)) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "a recorded graph of %" PRIu32 " nodes refers to what it does not have; record anew",
                       block->node_count);
  }
  return slip_ok_status();
}
