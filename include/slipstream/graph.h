// SPDX-License-Identifier: Apache-2.0
// Recorded launches: a list of launches that is replayed as one, with addresses and scalars that may be bound anew.
//
// For platforms that have no capture of their own, such as cpu; it works on all, also inside a capture. A recording is made once, outside
// any hot path; a replay validates nothing again, allocates nothing and, on an inline stream, takes no lock and makes no system call.
//
//   slip_graph_create(context, &graph);
//   slip_graph_add(graph, id, &frame, &node);          // in launch order; the frame may be reused or freed afterwards
//   slip_graph_launch(graph, stream, &ticket);         // any number of times, from any thread
//   slip_graph_bind(graph, node, &other_frame);        // the next replays use these addresses and scalars
//   slip_graph_destroy(graph);
//
// A graph keeps its callables resident: slip_context_release() of an id in it takes effect when the graph is gone, and close is refused
// (BUSY) while graphs live.
#ifndef SLIPSTREAM_GRAPH_H_
#define SLIPSTREAM_GRAPH_H_

#include "slipstream/context.h"

SLIP_EXTERN_C_BEGIN

typedef struct slip_graph_t slip_graph_t;

// An empty recording. Owned by the caller. |*out| is NULL on failure. INVALID_ARGUMENT, INVALID_STATE, POISONED, CAPTURE_UNSUPPORTED,
// FORKED, OUT_OF_MEMORY.
SLIP_API slip_status_t slip_graph_create(slip_context_t *context, slip_graph_t **out) SLIP_MUST_USE;
// Appends a launch of |id| with the tensors and scalars of |frame|, which is copied. The tensors themselves stay the caller's and must live
// as long as replays read them. |out_node| may be NULL. Not while another thread uses the graph. On failure the graph is unchanged.
// NOT_PREPARED, INVALID_ARGUMENT (frame of another signature or device), INVALID_STATE (the graph was launched before), OUT_OF_MEMORY.
SLIP_API slip_status_t slip_graph_add(slip_graph_t *graph, int32_t id, const slip_frame_t *frame, uint32_t *out_node) SLIP_MUST_USE;
SLIP_API uint32_t slip_graph_node_count(const slip_graph_t *graph);

// From the next slip_graph_launch() on, |node| runs with the tensors and scalars of |frame|, which is copied: new addresses, scalars and
// sizes. Replays already enqueued are not affected. Thread-safe against replays. INVALID_ARGUMENT (no such node; frame of another signature
// or device); nothing changes then.
SLIP_API slip_status_t slip_graph_bind(slip_graph_t *graph, uint32_t node, const slip_frame_t *frame) SLIP_MUST_USE;

// Replays the recording in order on |stream|: all rules of slip_context_launch() hold for the whole. The first launch that faults ends the
// replay; its error is the ticket's (or, inline, the returned one). |out_ticket| may be NULL.
SLIP_API slip_status_t slip_graph_launch(slip_graph_t *graph, slip_stream_t stream, slip_ticket_t **out_ticket) SLIP_MUST_USE;
// Gives the graph up. Replays already enqueued still run; what they need is freed when they have retired. NULL is fine. FORKED.
SLIP_API slip_status_t slip_graph_destroy(slip_graph_t *graph) SLIP_MUST_USE;

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_GRAPH_H_
