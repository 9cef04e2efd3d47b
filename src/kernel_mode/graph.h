// SPDX-License-Identifier: Apache-2.0
// Recorded launches (slipstream/graph.h): nodes made by add, arguments in versions, replays that read one version each.
//
//   nodes      fixed once the graph was launched. Each is inside its callable's gate from add until the graph is freed, so that a replay
//              needs no gate of its own.
//   version    the arguments of all nodes, immutable while it is current or a replay reads it. Bind writes another one and makes that
//              current: a replay sees all or nothing of a bind, and copies nothing at the launch.
//   references one of the owner, one per replay that is enqueued. The last one frees the graph: destroy, or whoever reaps.
//   context->graphs   counts the owners' references alone: while it is not 0, close is refused.
//
// Readers and bind, without a lock for readers:
//   |current|       index of the current version in the high 16 bits, how often it was acquired in the low 48
//   |version.uses|  current: minus the releases so far; afterwards: acquisitions not yet released
//   step      by       what                                             order
//   acquire   replay   current += 1, which also gives the index         acquire: pairs with publish
//   release   replay   uses -= 1                                        release: the reads precede the reuse
//   publish   bind     exchange current by (new index, 0); then         release: the new version is written
//                      old uses += the old count
//   reuse     bind     a version that is not current with uses = 0      acquire: pairs with release
// Bind runs under |lock| and may wait until a version is free; readers never look at the lock. Model: graph.pml.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_GRAPH_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_GRAPH_H_

#include "kernel_mode/context.h"
#include "kernel_mode/ticket.h"
#include "slipstream/graph.h"

#define SLIP__GRAPH_VERSIONS   64
#define SLIP__GRAPH_COUNT_BITS 48
#define SLIP__GRAPH_CHAINS     8

typedef struct slip__graph_node_t {
  slip__registration_t *registration;
  size_t offset;  // of its slip__graph_arguments_t in each version
  int32_t id;
} slip__graph_node_t;

// Followed by the tensors, then the scalars.
typedef struct slip__graph_arguments_t {
  uint64_t stamp;  // of the add or bind that wrote it; 0 in fresh memory
  uint64_t reserved;
} slip__graph_arguments_t;

typedef struct slip__graph_version_t {
  _Alignas(64) _Atomic int64_t uses;
  unsigned char *bytes;  // NULL: never used
  size_t capacity;
} slip__graph_version_t;

// What the launches of one replay share where each node is a launch of its own: chain.c.
struct slip__chain_t {
  slip_graph_t *graph;
  _Atomic uint32_t references;
  bool from_heap;
  slip_status_t failure;
};

struct slip_graph_t {
  slip_context_t *context;
  slip__graph_node_t *nodes;
  uint32_t node_count;
  uint32_t node_capacity;
  size_t argument_bytes;
  _Atomic uint32_t launched;
  _Atomic uint32_t references;
  _Alignas(64) _Atomic uint64_t current;
  pthread_mutex_t lock;
  uint64_t stamp;
  slip__graph_version_t versions[SLIP__GRAPH_VERSIONS];
  _Atomic uint32_t free_chains;  // a bit each
  slip__chain_t chains[SLIP__GRAPH_CHAINS];
};

static inline slip__graph_version_t *slip__graph_acquire(slip_graph_t *graph) {
  return &graph->versions[atomic_fetch_add_explicit(&graph->current, 1, memory_order_acquire) >> SLIP__GRAPH_COUNT_BITS];
}
static inline void slip__graph_release(slip__graph_version_t *version) {
  atomic_fetch_sub_explicit(&version->uses, 1, memory_order_release);
}
static inline slip_otensor_t *slip__graph_tensors(const slip__graph_version_t *version, const slip__graph_node_t *node) {
  return (slip_otensor_t *)(void *)(version->bytes + node->offset + sizeof(slip__graph_arguments_t));
}
static inline uint64_t *slip__graph_scalars(const slip__graph_version_t *version, const slip__graph_node_t *node) {
  return (uint64_t *)(void *)(slip__graph_tensors(version, node) + node->registration->tensor_count);
}

// Frees the graph when the last reference goes. Does not block.
void slip__graph_unreference(slip_graph_t *graph);
// The fault of |node|, which ended a replay, told with its place. Consumes |status|.
slip_status_t slip__graph_annotate_fault(const slip_graph_t *graph, uint32_t node, slip_status_t status) SLIP_MUST_USE;
// Reaper: gives back what the replay of |ticket| holds.
void slip__graph_retire(slip_ticket_t *ticket);

// A launch per node. On a refusal in the middle the earlier ones are enqueued, which the message says.
slip_status_t slip__chain_launch(slip_graph_t *graph, slip_stream_t stream, slip_ticket_t **out_ticket) SLIP_MUST_USE;
// Makes |ticket| part of the chain; it gives its reference back when it retires or is discarded.
void slip__chain_bind(const slip__chain_link_t *link, slip_ticket_t *ticket);
void slip__chain_unreference(slip__chain_t *chain);
// Device side: false if a node before has failed and this one must not run; then what becomes of its result. Consumes |status|; the
// returned one is the ticket's.
bool slip__chain_begin(const slip__chain_link_t *link);
slip_status_t slip__chain_end(const slip__chain_link_t *link, slip_status_t status) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_GRAPH_H_
