// SPDX-License-Identifier: Apache-2.0
// Replays on platforms without SLIP_PLATFORM_DIRECT_LAUNCH, and in captures: a launch per node, tied together by a chain.
//
// The launches are ordered on the caller's stream, hence so are their device sides, which alone use |failure|:
//   node     before its run                            after its run
//   first    frees |failure|: a new execution begins   a fault becomes |failure|
//   others   do not run if there is a |failure|        the same
//   last                                               its ticket takes a copy of |failure|: the ticket is that of the whole
// Executions of a captured graph do not overlap; each begins with the first node. A node's own ticket stays without fault, so that a fault
// counts once.
//
// A chain lives in its graph while one is free, else on the heap. Each of its tickets has a reference, given back when it retires; the
// chain has one to the graph.
#include <inttypes.h>

#include "base/allocator.h"
#include "kernel_mode/graph.h"
#include "kernel_mode/launch.h"

static slip_status_t slip__chain_create(slip_graph_t *graph, slip__chain_t **out) {
  slip__chain_t *chain = NULL;
  uint32_t free_chains = atomic_load_explicit(&graph->free_chains, memory_order_acquire);
  while (!chain && free_chains != 0) {
    if (atomic_compare_exchange_weak_explicit(&graph->free_chains, &free_chains, free_chains & (free_chains - 1), memory_order_acquire,
                                              memory_order_acquire)) {
      chain = &graph->chains[__builtin_ctz(free_chains)];
    }
  }
  bool from_heap = !chain;
  if (from_heap) {
    void *memory = NULL;
    SLIP_RETURN_IF_ERROR(slip__alloc(graph->context->allocator, sizeof(*chain), &memory));
    chain = memory;
  }
  chain->graph = graph;
  chain->failure = NULL;
  chain->from_heap = from_heap;
  atomic_store_explicit(&chain->references, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&graph->references, 1, memory_order_relaxed);
  *out = chain;
  return slip_ok_status();
}

void slip__chain_unreference(slip__chain_t *chain) {
  if (atomic_fetch_sub_explicit(&chain->references, 1, memory_order_acq_rel) != 1) return;
  slip_graph_t *graph = chain->graph;
  slip_status_free(chain->failure);
  if (chain->from_heap) {
    slip__free(graph->context->allocator, chain, sizeof(*chain));
  } else {
    atomic_fetch_or_explicit(&graph->free_chains, 1u << (chain - graph->chains), memory_order_release);
  }
  slip__graph_unreference(graph);
}

void slip__chain_bind(const slip__chain_link_t *link, slip_ticket_t *ticket) {
  atomic_fetch_add_explicit(&link->chain->references, 1, memory_order_relaxed);
  ticket->link = *link;
}

// --- device side
// ---------------------------------------------------------------------------------------------------------------------------

bool slip__chain_begin(const slip__chain_link_t *link) {
  slip__chain_t *chain = link->chain;
  if (link->node == 0) {
    slip_status_free(chain->failure);
    chain->failure = NULL;
  }
  return slip_status_is_ok(chain->failure);
}

slip_status_t slip__chain_end(const slip__chain_link_t *link, slip_status_t status) {
  slip__chain_t *chain = link->chain;
  const slip_graph_t *graph = chain->graph;
  if (!slip_status_is_ok(status)) chain->failure = slip__graph_annotate_fault(graph, link->node, status);
  return link->node + 1 == graph->node_count ? slip_status_clone(chain->failure) : slip_ok_status();
}

// --- launch
// --------------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__chain_launch_node(slip__chain_t *chain, const slip__graph_version_t *version, uint32_t index,
                                             slip_stream_t stream, slip_ticket_t **out_ticket) {
  slip_graph_t *graph = chain->graph;
  slip_context_t *context = graph->context;
  const slip__graph_node_t *node = &graph->nodes[index];
  slip__registration_t *registration = node->registration;
  slip_launch_record_t record = {.struct_size = (uint32_t)sizeof(record), .id = node->id, .context = context, .stream = stream};
  slip__chain_link_t link = {.chain = chain, .node = index};
  slip__frame_view_t view = {.signature_hash = registration->signature_hash,
                             .device = context->device,
                             .tensor_count = registration->tensor_count,
                             .scalar_count = registration->scalar_count,
                             .tensors = slip__graph_tensors(version, node),
                             .scalars = slip__graph_scalars(version, node)};
  bool enqueued = false;
  slip__gate_share(&registration->gate);
  slip_status_t status = slip__launch_async(context, registration, &record, &view, &link, out_ticket, &enqueued);
  if (!enqueued) slip__registry_leave(&context->registry, registration);
  return slip_status_annotate(status, "in node %" PRIu32 " of %" PRIu32 " of a graph (callable id %" PRId32 ")%s", index, graph->node_count,
                              node->id, index > 0 ? "; earlier nodes are enqueued" : "");
}

slip_status_t slip__chain_launch(slip_graph_t *graph, slip_stream_t stream, slip_ticket_t **out_ticket) {
  if (graph->node_count == 0) {
    if (out_ticket) *out_ticket = &slip__ticket_finished;
    return slip_ok_status();
  }
  slip__chain_t *chain = NULL;
  SLIP_RETURN_IF_ERROR(slip__chain_create(graph, &chain));
  slip_status_t status = slip_ok_status();
  slip__graph_version_t *version = slip__graph_acquire(graph);
  for (uint32_t i = 0; i < graph->node_count && slip_status_is_ok(status); ++i) {
    status = slip__chain_launch_node(chain, version, i, stream, i + 1 == graph->node_count ? out_ticket : NULL);
  }
  slip__graph_release(version);
  slip__chain_unreference(chain);
  return status;
}
