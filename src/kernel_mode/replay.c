// SPDX-License-Identifier: Apache-2.0
// Replays of recorded launches (graph.h).
//
//   stream                                       how
//   SLIP_STREAM_INLINE                           all nodes on this thread, in one run slot
//   asynchronous, SLIP_PLATFORM_DIRECT_LAUNCH    one operation on the stream and one ticket; its device side runs all nodes in one run slot
//   asynchronous, other platforms, captures      a launch per node through the ordinary path (chain.c)
//
// The inline path: acquire and release of a version, of a slot, and per node a copy of its tensors and the run. No frame is validated, no
// gate entered: the graph is inside its callables' gates, and close is refused while it lives.
#include <inttypes.h>
#include <string.h>

#include "kernel_mode/graph.h"
#include "kernel_mode/latch.h"
#include "kernel_mode/launch.h"
#include "platform/dispatch.h"

// The first fault ends the replay.
static slip_status_t slip__replay_run(const slip_graph_t *graph, const slip__graph_version_t *version, slip__slot_t *slot) {
  for (uint32_t i = 0; i < graph->node_count; ++i) {
    const slip__graph_node_t *node = &graph->nodes[i];
    // Copied: an orchestration may write to its tensors' descriptions.
    memcpy(slot->tensors, slip__graph_tensors(version, node), node->registration->tensor_count * sizeof(*slot->tensors));
    slip_status_t status = slip__launch_run(graph->context, slot, node->registration, slot->tensors, slip__graph_scalars(version, node));
    if (__builtin_expect(!slip_status_is_ok(status), 0)) return slip__graph_annotate_fault(graph, i, status);
  }
  return slip_ok_status();
}

// From here on add is refused. Read before it is written: replays of several threads share the line.
static void slip__replay_mark(slip_graph_t *graph) {
  if (atomic_load_explicit(&graph->launched, memory_order_relaxed) == 0) atomic_store_explicit(&graph->launched, 1, memory_order_relaxed);
}

static slip_status_t slip__replay_inline(slip_graph_t *graph) {
  slip_context_t *context = graph->context;
  slip__replay_mark(graph);
  slip__graph_version_t *version = slip__graph_acquire(graph);
  int32_t index = slip__slot_acquire(context, true);
  slip__slot_t *slot = &context->slots[index];
  slip_status_t status = slip__replay_run(graph, version, slot);
  slip__slot_count(&slot->inline_launches, graph->node_count);
  if (__builtin_expect(!slip_status_is_ok(status), 0)) {
    slip__slot_count(&slot->inline_faults, 1);
    slip__launch_poison_if_undefined(context, status);
  }
  slip__slot_release(context, index);
  slip__graph_release(version);
  return status;
}

// --- one operation on the stream
// -----------------------------------------------------------------------------------------------------------

// In the stream's thread, in stream order.
static void slip__replay_device_side(void *user) {
  slip_ticket_t *ticket = user;
  slip_context_t *context = ticket->context;
  int32_t index = slip__slot_acquire(context, true);
  slip_status_t status = slip__replay_run(ticket->replay, ticket->arguments, &context->slots[index]);
  slip__slot_release(context, index);
  slip__launch_poison_if_undefined(context, status);
  slip__ticket_set_result(ticket, status);
  slip__ticket_finish(ticket);
}

static void slip__replay_count(_Atomic uint64_t *counter, const slip_graph_t *graph) {
  atomic_fetch_add_explicit(counter, (uint64_t)graph->node_count - 1, memory_order_relaxed);
}

void slip__graph_retire(slip_ticket_t *ticket) {
  slip_graph_t *graph = ticket->replay;
  slip__graph_release(ticket->arguments);
  ticket->replay = NULL;
  slip__replay_count(&graph->context->replay_retired, graph);
  slip__graph_unreference(graph);
}

static void slip__replay_discard(slip_graph_t *graph, slip_ticket_t *ticket, bool handle) {
  slip_context_t *context = graph->context;
  uint32_t epoch = ticket->epoch;
  atomic_fetch_sub_explicit(&context->replay_admitted, (uint64_t)graph->node_count - 1, memory_order_relaxed);
  atomic_fetch_sub_explicit(&context->admitted, 1, memory_order_relaxed);
  slip__graph_release(ticket->arguments);
  slip__graph_unreference(graph);
  slip__ticket_discard(ticket, handle);
  slip__tickets_revoke(context, epoch);
}

static slip_status_t slip__replay_direct(slip_graph_t *graph, slip_stream_t stream, slip_ticket_t **out_ticket) {
  slip_context_t *context = graph->context;
  slip_ticket_t *ticket = NULL;
  slip_capture_info_t capture;
  uint32_t epoch = 0;
  bool handle = out_ticket != NULL;
  SLIP_RETURN_IF_ERROR(slip__launch_check_stream(context, stream, &capture));
  SLIP_RETURN_IF_ERROR(slip__tickets_admit(context, false, &epoch));
  slip_status_t status = slip__ticket_create(context, NULL, NULL, SLIP__TICKET_EAGER, handle, &ticket);
  if (!slip_status_is_ok(status)) {
    slip__tickets_revoke(context, epoch);
    return status;
  }
  ticket->epoch = epoch;
  ticket->replay = graph;
  ticket->arguments = slip__graph_acquire(graph);
  atomic_fetch_add_explicit(&graph->references, 1, memory_order_relaxed);
  slip__replay_count(&context->replay_admitted, graph);
  atomic_fetch_add_explicit(&context->admitted, 1, memory_order_relaxed);
  status = slip__platform_stream_launch(context->platform, stream, slip__replay_device_side, ticket);
  if (!slip_status_is_ok(status)) {
    slip__replay_discard(graph, ticket, handle);
    return slip_status_annotate(status, "enqueuing the replay of a graph");
  }
  if (handle) *out_ticket = ticket;
  slip__ticket_publish(ticket, handle);
  return slip_ok_status();
}

// --- launch
// --------------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__replay_refuse(slip_graph_t *graph, slip_stream_t stream) {
  slip_context_t *context = graph->context;
  slip_status_t status = slip_ok_status();
  if (slip__context_state(context) != SLIP_CONTEXT_READY) {
    status = slip__context_refuse_state(context, "replaying a graph");
  } else if (!stream) {
    status = slip__launch_null_stream(context);
  } else {
    status = slip__context_refuse_poisoned(context, "replaying a graph");
  }
  atomic_fetch_add_explicit(&context->refused, 1, memory_order_relaxed);
  return status;
}

static slip_status_t slip__replay_async(slip_graph_t *graph, slip_stream_t stream, slip_ticket_t **out_ticket) {
  slip_context_t *context = graph->context;
  slip_status_t status = context->lanes ? slip__chain_launch(graph, stream, out_ticket) : slip__replay_direct(graph, stream, out_ticket);
  if (!slip_status_is_ok(status)) {
    atomic_fetch_add_explicit(&context->refused, 1, memory_order_relaxed);
  } else {
    slip__replay_mark(graph);
  }
  return status;
}

slip_status_t slip_graph_launch(slip_graph_t *graph, slip_stream_t stream, slip_ticket_t **out_ticket) {
  if (out_ticket) *out_ticket = NULL;
  SLIP_RETURN_IF_ERROR(slip__latch_check("slip_graph_launch"));
  if (__builtin_expect(!graph, 0))
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "graph is NULL, expected one that slip_graph_create() has given");
  slip_context_t *context = graph->context;
  bool usable =
      slip__context_state(context) == SLIP_CONTEXT_READY && stream && atomic_load_explicit(&context->poison, memory_order_acquire) == NULL;
  if (__builtin_expect(!usable, 0)) return slip__replay_refuse(graph, stream);
  if (stream != context->inline_stream) return slip__replay_async(graph, stream, out_ticket);
  slip_status_t status = slip__replay_inline(graph);
  if (out_ticket && slip_status_is_ok(status)) *out_ticket = &slip__ticket_finished;
  return status;
}
