// SPDX-License-Identifier: Apache-2.0
// Recorded launches: a list of launches that is replayed as one, with addresses and scalars that may be bound anew.
//
// For platforms that have no capture of their own, such as cpu; it works on all, also inside a capture: making, adding, binding and
// launching touch no platform but for the launches themselves. A recording is made once, outside any hot path; a replay validates nothing
// again, allocates nothing and, on an inline stream, takes no lock and makes no system call. On an asynchronous stream of a platform such
// as cpu it is one operation of the stream, one ticket and one of max_pending places, however many nodes there are; statistics count its
// nodes as launches. On other platforms, and in a capture, each node is a launch of its own with a place of its own (max_pending; in a
// capture max_captured, and what was captured keeps its arguments whatever is bound later).
//
//   slip_graph_create(context, &graph);
//   slip_graph_add(graph, id, &frame, &node);          // in launch order; the frame may be reused or freed afterwards
//   slip_graph_launch(graph, stream, &ticket);         // any number of times, from any thread
//   slip_graph_bind(graph, node, &other_frame);        // the next replays use these addresses and scalars
//   slip_graph_destroy(graph);
//
// A graph keeps its callables resident: slip_context_release() of an id in it takes effect when the graph is gone and its replays have
// retired. Close is refused (BUSY) while there are graphs that were not destroyed; like any close that fails it has stopped admission by
// then: replays are INVALID_STATE, and what is left is to destroy the graphs and to close again.
#ifndef SLIPSTREAM_GRAPH_H_
#define SLIPSTREAM_GRAPH_H_

#include "slipstream/context.h"

SLIP_EXTERN_C_BEGIN

typedef struct slip_graph_t slip_graph_t;

// An empty recording, which does nothing when launched. Owned by the caller. |*out| is NULL on failure. INVALID_ARGUMENT, INVALID_STATE,
// POISONED, FORKED, OUT_OF_MEMORY.
SLIP_API slip_status_t slip_graph_create(slip_context_t *context, slip_graph_t **out) SLIP_MUST_USE;
// Appends a launch of |id| with the tensors and scalars of |frame|, which is copied. The tensors themselves stay the caller's and must live
// as long as replays read them. |out_node| may be NULL. Not while another thread uses the graph. On failure the graph is unchanged.
// NOT_PREPARED, INVALID_ARGUMENT (frame of another signature or device), INVALID_STATE (the graph was launched before, or the context is
// not READY), POISONED, FORKED, OUT_OF_MEMORY.
SLIP_API slip_status_t slip_graph_add(slip_graph_t *graph, int32_t id, const slip_frame_t *frame, uint32_t *out_node) SLIP_MUST_USE;
SLIP_API uint32_t slip_graph_node_count(const slip_graph_t *graph);

// From the next slip_graph_launch() on, |node| runs with the tensors and scalars of |frame|, which is copied: new addresses, scalars and
// sizes. Replays already enqueued are not affected. Thread-safe against replays and other binds; a replay sees all nodes as of one moment.
// Copies of the arguments are kept for the replays that are enqueued: the 64th that none of them shares makes bind wait for a replay to
// retire. INVALID_ARGUMENT (no such node; frame of another signature or device), OUT_OF_MEMORY, FORKED; nothing changes then.
SLIP_API slip_status_t slip_graph_bind(slip_graph_t *graph, uint32_t node, const slip_frame_t *frame) SLIP_MUST_USE;

// Replays the recording in order on |stream|: all rules of slip_context_launch() hold for the whole. The first launch that faults ends the
// replay; its error, which names the node, is the ticket's (or, inline, the returned one). |out_ticket| may be NULL. Thread-safe.
// INVALID_ARGUMENT (null stream, stream of another device), INVALID_STATE, POISONED, FORKED; the fault (inline). Where each node is a
// launch of its own: BUSY (in a capture: max_captured or max_captures is reached), OUT_OF_MEMORY (only with more than 8 replays of the
// graph in flight or captured); a refusal in the middle says that the nodes before it are enqueued, and a capture should then be ended and
// dropped.
SLIP_API slip_status_t slip_graph_launch(slip_graph_t *graph, slip_stream_t stream, slip_ticket_t **out_ticket) SLIP_MUST_USE;
// Gives the graph up, in any state of the context. Replays already enqueued still run; what they need is freed when they have retired. Not
// while another thread uses the graph. NULL is fine. FORKED (the graph is not touched).
SLIP_API slip_status_t slip_graph_destroy(slip_graph_t *graph) SLIP_MUST_USE;

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_GRAPH_H_
