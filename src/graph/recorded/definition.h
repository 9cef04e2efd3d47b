// SPDX-License-Identifier: Apache-2.0
// A recorded graph: what runs, in which order, on which bytes, without a single address.
//
// The definition is one block that refers to everything by index and offset, so that it can be copied, stored, hashed and handed to a
// device. It never changes once it is made; |hash| covers all that follows it. Addresses and boundary scalars come in when it is
// instantiated (replay.h).
//
//   nodes        in a topological order (the order in which they were submitted)
//   successors   of all nodes one after the other; no edge twice, none that a path makes superfluous (within SLIP__REDUCE_WINDOW nodes)
//   tensors      base (a boundary tensor's storage or the definition's own heap) + byte offset + geometry
//   scalars      a constant, or boundary scalar * mul + add modulo 2^64
//   lanes        the nodes laid out for |lane_count| threads, with the waits between them that are left (plan.h)
//
// slip__definition_t is reference-counted and thread-safe; slip__builder_t is single-owner.
#ifndef SLIPSTREAM_SRC_GRAPH_RECORDED_DEFINITION_H_
#define SLIPSTREAM_SRC_GRAPH_RECORDED_DEFINITION_H_

#include <stdatomic.h>

#include "slipstream/kernel/object.h"
#include "slipstream/status.h"

#define SLIP__NONE          UINT32_MAX  // no index; of a node's kernel: a join; of a scalar's source: a constant
#define SLIP__BASE_HEAP     UINT32_MAX  // base of a tensor that is not a boundary tensor
#define SLIP__REDUCE_WINDOW 512
#define SLIP__MAX_LANES     32

typedef struct slip__definition_node_t {
  uint32_t kernel;       // index into the object's kernels, or SLIP__NONE
  uint32_t block_count;  // at least 1
  uint32_t flags;        // slip_submit_bits_e
  uint32_t indegree;
  uint32_t first_successor, successor_count;
  uint32_t first_tensor, tensor_count;
  uint32_t first_scalar, scalar_count;
  uint32_t predicate;  // index, or SLIP__NONE
  uint32_t weight;     // what it is thought to cost, in any unit
} slip__definition_node_t;

typedef struct slip__definition_tensor_t {
  uint64_t offset;  // in bytes, from the base
  int64_t dims[SLIP_MAX_RANK];
  int64_t strides[SLIP_MAX_RANK];
  uint32_t base;  // boundary tensor whose storage it lies in, or SLIP__BASE_HEAP
  uint8_t dtype;
  uint8_t rank;
  uint16_t reserved;
} slip__definition_tensor_t;

typedef struct slip__definition_scalar_t {
  uint64_t mul, add;
  uint32_t source;  // boundary scalar, or SLIP__NONE: the value is |add|
  uint32_t reserved;
} slip__definition_scalar_t;

typedef struct slip__definition_predicate_t {
  uint64_t offset;
  int64_t literal;
  uint32_t base;  // as a tensor's
  uint8_t op;
  uint8_t dtype;
  uint16_t reserved;
} slip__definition_predicate_t;

// Where a node runs in the planned layout; entries are sorted by lane, then position.
typedef struct slip__definition_entry_t {
  uint32_t node;
  uint32_t first_wait, wait_count;
  uint32_t signals;  // 1: some other lane waits for it
} slip__definition_entry_t;

// At least the first |position| entries of |lane| are over.
typedef struct slip__definition_wait_t {
  uint32_t lane;
  uint32_t position;
} slip__definition_wait_t;

typedef struct slip__definition_lane_t {
  uint32_t first_entry, count;
} slip__definition_lane_t;

// The head of the block; |at_...| are byte offsets from here.
typedef struct slip__definition_block_t {
  uint64_t hash;   // of everything behind it
  uint64_t bytes;  // of the whole block
  uint64_t heap_bytes;
  uint64_t weight;    // of all nodes
  uint64_t makespan;  // of the plan, in the same unit
  uint32_t boundary_count, boundary_scalar_count;
  uint32_t node_count, successor_count, tensor_count, scalar_count, predicate_count;
  uint32_t lane_count, wait_count;
  uint32_t kernel_count;  // kernels are below it
  uint32_t special;       // nodes that have several blocks
  uint32_t runnable;      // nodes that have a kernel
  uint64_t at_nodes, at_successors, at_tensors, at_scalars, at_predicates, at_lanes, at_entries, at_waits;
} slip__definition_block_t;

// What is known about how fast it runs, in which way (replay.h). Relaxed atomics: advice, and each word stands alone.
typedef struct slip__definition_trials_t {
  _Atomic uint32_t count;
  _Atomic uint32_t mode;  // the one that won; 0: not known yet
  _Atomic uint64_t best_ns[4];
} slip__definition_trials_t;

typedef struct slip__definition_t {
  _Atomic uint32_t references;  // release on giving back, acquire of the last
  slip_allocator_t allocator;
  slip__definition_trials_t trials;
  slip__definition_block_t *block;
} slip__definition_t;

#define SLIP__DEFINITION_ARRAY(name, type)                                                        \
  static inline const type *slip__definition_##name(const slip__definition_block_t *definition) { \
    return (const type *)(const void *)((const char *)definition + definition->at_##name);        \
  }
SLIP__DEFINITION_ARRAY(nodes, slip__definition_node_t)
SLIP__DEFINITION_ARRAY(successors, uint32_t)
SLIP__DEFINITION_ARRAY(tensors, slip__definition_tensor_t)
SLIP__DEFINITION_ARRAY(scalars, slip__definition_scalar_t)
SLIP__DEFINITION_ARRAY(predicates, slip__definition_predicate_t)
SLIP__DEFINITION_ARRAY(lanes, slip__definition_lane_t)
SLIP__DEFINITION_ARRAY(entries, slip__definition_entry_t)
SLIP__DEFINITION_ARRAY(waits, slip__definition_wait_t)

static inline slip__definition_t *slip__definition_retain(slip__definition_t *definition) {
  atomic_fetch_add_explicit(&definition->references, 1, memory_order_relaxed);
  return definition;
}
// NULL is fine.
void slip__definition_release(slip__definition_t *definition);
// CORRUPT if the hash does not fit the content, or an index or offset points outside.
slip_status_t slip__definition_verify(const slip__definition_block_t *block) SLIP_MUST_USE;

// --- Making one ---------------------------------------------------------------------------------------------------------------------

typedef struct slip__builder_t slip__builder_t;

typedef struct slip__builder_limits_t {
  uint32_t max_nodes;
  uint32_t max_edges;
  uint64_t max_bytes;  // of the block and the heap together
} slip__builder_limits_t;

typedef struct slip__builder_node_t {
  uint32_t kernel;
  uint32_t block_count;
  uint32_t flags;
  uint32_t weight;  // 0 counts as 1
  const slip__definition_tensor_t *tensors;
  const slip__definition_scalar_t *scalars;
  const slip__definition_predicate_t *predicate;  // NULL: always runs
  uint32_t tensor_count;
  uint32_t scalar_count;
} slip__builder_node_t;

// An empty graph with |boundary_count| boundary tensors and |boundary_scalar_count| boundary scalars. OUT_OF_MEMORY.
slip_status_t slip__builder_create(slip_allocator_t allocator, const slip__builder_limits_t *limits, uint32_t boundary_count,
                                   uint32_t boundary_scalar_count, slip__builder_t **out) SLIP_MUST_USE;
void slip__builder_destroy(slip__builder_t *builder);  // NULL is fine
// Appends a node, which is copied. SLIP__NONE once a limit or the memory's end is reached; the builder then stays as it was.
uint32_t slip__builder_add(slip__builder_t *builder, const slip__builder_node_t *node);
// The last node waits for |producer|, an earlier one. False at a limit.
bool slip__builder_depend(slip__builder_t *builder, uint32_t producer);
// The definition's heap holds |bytes|.
void slip__builder_set_heap(slip__builder_t *builder, uint64_t bytes);
uint32_t slip__builder_node_count(const slip__builder_t *builder);
void slip__builder_set_weight(slip__builder_t *builder, uint32_t node, uint32_t weight);
// Makes the definition, laid out for |lane_count| threads (1 .. SLIP__MAX_LANES). The builder is used up, whatever comes out.
// OUT_OF_MEMORY, CAPACITY_BYTES (max_bytes).
slip_status_t slip__builder_finish(slip__builder_t *builder, uint32_t lane_count, slip__definition_t **out) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_GRAPH_RECORDED_DEFINITION_H_
