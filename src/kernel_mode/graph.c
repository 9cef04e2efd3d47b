// SPDX-License-Identifier: Apache-2.0
// Recorded launches: making, binding and giving up; protocol in graph.h, replays in replay.c.
#include "kernel_mode/graph.h"

#include <inttypes.h>
#include <string.h>

#include "base/allocator.h"
#include "kernel_mode/latch.h"
#include "kernel_mode/launch.h"
#include "kernel_mode/ticket.h"

_Static_assert(_Alignof(slip_otensor_t) <= sizeof(slip__graph_arguments_t), "tensors follow the stamp");

// --- life --------------------------------------------------------------------------------------------------------------------------------

slip_status_t slip_graph_create(slip_context_t *context, slip_graph_t **out) {
  if (!out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out is NULL, expected where to put the graph");
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__context_enter(context, "making a graph"));
  void *memory = NULL;
  slip_status_t status = slip__alloc_aligned(context->allocator, sizeof(slip_graph_t), _Alignof(slip_graph_t), &memory);
  if (slip_status_is_ok(status)) {
    slip_graph_t *graph = memory;
    graph->context = context;
    pthread_mutex_init(&graph->lock, NULL);
    atomic_init(&graph->references, 1);
    atomic_init(&graph->free_chains, (1u << SLIP__GRAPH_CHAINS) - 1);
    // Inside an operation: close, which waits for operations, finds the graph counted or its making refused.
    atomic_fetch_add_explicit(&context->graphs, 1, memory_order_relaxed);
    *out = graph;
  }
  slip__context_leave(context);
  return slip_status_annotate(status, "making a graph");
}

void slip__graph_unreference(slip_graph_t *graph) {
  if (atomic_fetch_sub_explicit(&graph->references, 1, memory_order_acq_rel) != 1) return;
  slip_context_t *context = graph->context;
  // First: close compares users with what they are counted in, and must not take a user of another kind for one of these.
  atomic_fetch_sub_explicit(&context->graph_nodes, graph->node_count, memory_order_seq_cst);
  for (uint32_t i = 0; i < graph->node_count; ++i) slip__registry_leave(&context->registry, graph->nodes[i].registration);
  for (uint32_t i = 0; i < SLIP__GRAPH_VERSIONS; ++i) slip__free(context->allocator, graph->versions[i].bytes, graph->versions[i].capacity);
  slip__free(context->allocator, graph->nodes, graph->node_capacity * sizeof(*graph->nodes));
  pthread_mutex_destroy(&graph->lock);
  slip__free_aligned(context->allocator, graph, sizeof(*graph), _Alignof(slip_graph_t));
}

slip_status_t slip_graph_destroy(slip_graph_t *graph) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("slip_graph_destroy"));
  if (!graph) return slip_ok_status();
  slip_context_t *context = graph->context;
  slip__graph_unreference(graph);
  if (atomic_load_explicit(&context->registry.sweep_wanted, memory_order_relaxed) != 0) slip__launch_sweep(context);
  // The last access: close may free the context from here on. Release: pairs with its acquire.
  atomic_fetch_sub_explicit(&context->graphs, 1, memory_order_release);
  return slip_ok_status();
}

uint32_t slip_graph_node_count(const slip_graph_t *graph) {
  return graph && !slip__latch_forked() ? graph->node_count : 0;
}

slip_status_t slip__graph_annotate_fault(const slip_graph_t *graph, uint32_t node, slip_status_t status) {
  return slip_status_annotate(status, "in node %" PRIu32 " of %" PRIu32 " of a graph (callable id %" PRId32 "); later nodes did not run",
                              node, graph->node_count, graph->nodes[node].id);
}

// --- arguments ---------------------------------------------------------------------------------------------------------------------------

static slip__graph_arguments_t *slip__graph_arguments(const slip__graph_version_t *version, const slip__graph_node_t *node) {
  return (slip__graph_arguments_t *)(void *)(version->bytes + node->offset);
}

static size_t slip__graph_bytes(const slip__registration_t *registration) {
  size_t bytes =
      sizeof(slip__graph_arguments_t) + registration->tensor_count * sizeof(slip_otensor_t) + registration->scalar_count * sizeof(uint64_t);
  return (bytes + 15) & ~(size_t)15;
}

static void slip__graph_write(slip_graph_t *graph, slip__graph_version_t *version, const slip__graph_node_t *node,
                              const slip__frame_view_t *view) {
  slip__graph_arguments(version, node)->stamp = ++graph->stamp;
  memcpy(slip__graph_tensors(version, node), view->tensors, view->tensor_count * sizeof(*view->tensors));
  memcpy(slip__graph_scalars(version, node), view->scalars, view->scalar_count * sizeof(*view->scalars));
}

static slip__graph_version_t *slip__graph_current(slip_graph_t *graph) {
  return &graph->versions[atomic_load_explicit(&graph->current, memory_order_relaxed) >> SLIP__GRAPH_COUNT_BITS];
}

// --- add ---------------------------------------------------------------------------------------------------------------------------------

// Room for one more node and |bytes| of arguments. What was grown stays grown if a later step fails.
static slip_status_t slip__graph_grow(slip_graph_t *graph, slip__graph_version_t *version, size_t bytes) {
  slip_allocator_t allocator = graph->context->allocator;
  if (graph->node_count == graph->node_capacity) {
    if (graph->node_count > UINT32_MAX / 4) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "the graph has too many nodes");
    uint32_t capacity = graph->node_capacity ? graph->node_capacity * 2 : 8;
    void *nodes = graph->nodes;
    SLIP_RETURN_IF_ERROR(slip__realloc(allocator, graph->node_capacity * sizeof(*graph->nodes), capacity * sizeof(*graph->nodes), &nodes));
    graph->nodes = nodes;
    graph->node_capacity = capacity;
  }
  if (graph->argument_bytes + bytes > version->capacity) {
    size_t capacity = version->capacity + version->capacity / 2 + bytes;
    void *grown = version->bytes;
    SLIP_RETURN_IF_ERROR(slip__realloc(allocator, version->capacity, capacity, &grown));
    version->bytes = grown;
    version->capacity = capacity;
  }
  return slip_ok_status();
}

// The gate of |registration| is entered.
static slip_status_t slip__graph_append(slip_graph_t *graph, slip__registration_t *registration, int32_t id, const slip_frame_t *frame) {
  slip__frame_view_t view;
  slip__graph_version_t *version = slip__graph_current(graph);
  size_t bytes = slip__graph_bytes(registration);
  SLIP_RETURN_IF_ERROR(slip__launch_check_frame(graph->context, registration, frame, id, &view));
  SLIP_RETURN_IF_ERROR(slip__graph_grow(graph, version, bytes));
  slip__graph_node_t *node = &graph->nodes[graph->node_count];
  *node = (slip__graph_node_t){.registration = registration, .offset = graph->argument_bytes, .id = id};
  slip__graph_write(graph, version, node, &view);
  graph->argument_bytes += bytes;
  ++graph->node_count;
  atomic_fetch_add_explicit(&graph->context->graph_nodes, 1, memory_order_seq_cst);
  return slip_ok_status();
}

slip_status_t slip_graph_add(slip_graph_t *graph, int32_t id, const slip_frame_t *frame, uint32_t *out_node) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("slip_graph_add"));
  if (!graph) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "graph is NULL, expected one that slip_graph_create() has given");
  if (atomic_load_explicit(&graph->launched, memory_order_relaxed)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE,
                       "the graph was launched, which ended its recording (nodes: %" PRIu32 "); make another graph", graph->node_count);
  }
  slip_context_t *context = graph->context;
  SLIP_RETURN_IF_ERROR(slip__context_enter(context, "adding to a graph"));
  slip__registration_t *registration = slip__registry_enter(&context->registry, id);
  slip_status_t status = slip_ok_status();
  if (!registration) {
    status = slip__launch_refuse_id(context, id);
  } else {
    status = slip__graph_append(graph, registration, id, frame);
    if (!slip_status_is_ok(status)) slip__registry_leave(&context->registry, registration);
  }
  if (slip_status_is_ok(status) && out_node) *out_node = graph->node_count - 1;
  slip__context_leave(context);
  return slip_status_annotate(status, "adding to a graph");
}

// --- bind --------------------------------------------------------------------------------------------------------------------------------

// Lock held. One that no replay reads, an allocated one rather than a fresh one; NULL: all are read.
static slip__graph_version_t *slip__graph_find_free(slip_graph_t *graph) {
  slip__graph_version_t *current = slip__graph_current(graph), *fresh = NULL;
  for (uint32_t i = 0; i < SLIP__GRAPH_VERSIONS; ++i) {
    slip__graph_version_t *version = &graph->versions[i];
    if (version == current || atomic_load_explicit(&version->uses, memory_order_acquire) != 0) continue;
    if (version->bytes) return version;
    if (!fresh) fresh = version;
  }
  return fresh;
}

static slip__graph_version_t *slip__graph_wait_free(slip_graph_t *graph) {
  enum { POLL_NS = 100000 };  // inline replays end without raising the signal
  slip__graph_version_t *version = slip__graph_find_free(graph);
  if (version) return version;
  slip__signal_t *signal = &graph->context->signal;
  uint32_t key = slip__signal_enter(signal);
  for (;;) {
    slip__tickets_reap_outside_capture(graph->context);
    version = slip__graph_find_free(graph);
    if (version) break;
    (void)slip__signal_sleep(signal, &key, POLL_NS);
  }
  slip__signal_leave(signal);
  return version;
}

// Lock held. Brings |version| to the state of the current one; both stamps equal means equal arguments.
static slip_status_t slip__graph_refresh(slip_graph_t *graph, slip__graph_version_t *version) {
  const slip__graph_version_t *current = slip__graph_current(graph);
  if (version->capacity < graph->argument_bytes) {
    void *grown = version->bytes;
    SLIP_RETURN_IF_ERROR(slip__realloc(graph->context->allocator, version->capacity, graph->argument_bytes, &grown));
    version->bytes = grown;
    version->capacity = graph->argument_bytes;
  }
  for (uint32_t i = 0; i < graph->node_count; ++i) {
    const slip__graph_node_t *node = &graph->nodes[i];
    slip__graph_arguments_t *to = slip__graph_arguments(version, node);
    const slip__graph_arguments_t *from = slip__graph_arguments(current, node);
    if (to->stamp != from->stamp) memcpy(to, from, slip__graph_bytes(node->registration));
  }
  return slip_ok_status();
}

static void slip__graph_publish(slip_graph_t *graph, const slip__graph_version_t *version) {
  uint64_t fresh = (uint64_t)(version - graph->versions) << SLIP__GRAPH_COUNT_BITS;
  uint64_t before = atomic_exchange_explicit(&graph->current, fresh, memory_order_acq_rel);
  uint64_t acquired = before & ((UINT64_C(1) << SLIP__GRAPH_COUNT_BITS) - 1);
  atomic_fetch_add_explicit(&graph->versions[before >> SLIP__GRAPH_COUNT_BITS].uses, (int64_t)acquired, memory_order_acq_rel);
}

slip_status_t slip_graph_bind(slip_graph_t *graph, uint32_t node, const slip_frame_t *frame) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("slip_graph_bind"));
  if (!graph) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "graph is NULL, expected one that slip_graph_create() has given");
  if (node >= graph->node_count) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "the graph has %" PRIu32 " node%s, hence no node %" PRIu32 " to bind; nodes are counted from 0", graph->node_count,
                       graph->node_count == 1 ? "" : "s", node);
  }
  // A bind that waits for a version holds the lock, and what it waits for may be retired only after that release.
  if (slip__ticket_releasing(graph->context)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE, "a graph was bound in an owner's release, which cannot wait for replays; bind after it");
  }
  slip__frame_view_t view;
  const slip__graph_node_t *target = &graph->nodes[node];
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip__launch_check_frame(graph->context, target->registration, frame, target->id, &view),
                                 "binding node %" PRIu32 " of a graph", node);
  pthread_mutex_lock(&graph->lock);
  slip__graph_version_t *version = slip__graph_wait_free(graph);
  slip_status_t status = slip__graph_refresh(graph, version);
  if (slip_status_is_ok(status)) {
    slip__graph_write(graph, version, target, &view);
    slip__graph_publish(graph, version);
  }
  pthread_mutex_unlock(&graph->lock);
  return slip_status_annotate(status, "binding node %" PRIu32 " of a graph", node);
}
