// SPDX-License-Identifier: Apache-2.0
// What the tests of recorded launches share: a context with two callables, a stream and an empty graph.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_GRAPH_TEST_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_GRAPH_TEST_H_

#include <unistd.h>

#include "fixture.h"
#include "kernel_mode/graph.h"
#include "os/thread.h"
#include "slip_test_allocator.h"

typedef struct slip_graph_test_t {
  slip_platform_t *platform;
  slip_context_t *context;
  slip_graph_t *graph;
  slip_stream_t stream;
  int32_t add, control;
} slip_graph_test_t;

static inline slip_graph_test_t slip_graph_test_begin_with(uint32_t max_pending, slip_allocator_t allocator) {
  slip_graph_test_t t = {0};
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  options.max_pending = max_pending;
  options.allocator = allocator;
  SLIP_CHECK_OK(slip_platform_find("cpu", &t.platform));
  SLIP_CHECK_OK(slip_stream_create(t.platform, 0, &t.stream));
  SLIP_CHECK_OK(slip_context_open(&options, &t.context));
  t.add = slip_fixture_prepare(t.context, slip_fixture_add());
  t.control = slip_fixture_prepare(t.context, slip_fixture_control());
  SLIP_CHECK_OK(slip_graph_create(t.context, &t.graph));
  return t;
}
static inline slip_graph_test_t slip_graph_test_begin(void) {
  return slip_graph_test_begin_with(0, (slip_allocator_t){NULL, NULL});
}
static inline void slip_graph_test_end(slip_graph_test_t *t) {
  SLIP_CHECK_OK(slip_graph_destroy(t->graph));
  SLIP_CHECK_OK(slip_context_close(t->context));
  SLIP_CHECK_OK(slip_context_destroy(t->context));
  SLIP_CHECK_OK(slip_stream_destroy(t->platform, t->stream));
}

static inline slip_context_stats_t slip_graph_test_stats(const slip_graph_test_t *t) {
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_OK(slip_context_stats(t->context, &stats));
  return stats;
}

// z = x + y as the next node.
static inline void slip_graph_test_sum(slip_graph_test_t *t, float *x, float *y, float *z, int64_t elements) {
  slip_frame_t frame = {0};
  uint32_t node = UINT32_MAX, before = slip_graph_node_count(t->graph);
  slip_fixture_frame_add(&frame, t->context, t->add, x, y, z, elements);
  SLIP_CHECK_OK(slip_graph_add(t->graph, t->add, &frame, &node));
  slip_frame_deinitialize(&frame);
  memset(&frame, 0xee, sizeof(frame));
  SLIP_CHECK_EQ(node, before);
  SLIP_CHECK_EQ(slip_graph_node_count(t->graph), before + 1);
}
static inline void slip_graph_test_step(slip_graph_test_t *t, int64_t *state, int64_t number, int64_t verdict) {
  slip_frame_t frame = {0};
  slip_fixture_frame_control(&frame, t->context, t->control, state, number, verdict);
  SLIP_CHECK_OK(slip_graph_add(t->graph, t->control, &frame, NULL));
  slip_frame_deinitialize(&frame);
}
static inline void slip_graph_test_bind_step(slip_graph_test_t *t, uint32_t node, int64_t *state, int64_t number) {
  slip_frame_t frame = {0};
  slip_fixture_frame_control(&frame, t->context, t->control, state, number, 0);
  SLIP_CHECK_OK(slip_graph_bind(t->graph, node, &frame));
  slip_frame_deinitialize(&frame);
}
static inline void slip_graph_test_replay(slip_graph_test_t *t, slip_stream_t stream) {
  slip_ticket_t *ticket = NULL;
  SLIP_CHECK_OK(slip_graph_launch(t->graph, stream, &ticket));
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  SLIP_CHECK_OK(slip_ticket_query(ticket));
  slip_ticket_release(ticket);
}
static inline void slip_graph_test_open_door(int64_t *state) {
  __atomic_store_n(&state[1], 1, __ATOMIC_SEQ_CST);
}
// A thread that opens the door a little later.
static inline void slip_graph_test_door_opener(void *user) {
  usleep(20000);
  slip_graph_test_open_door(user);
}

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_GRAPH_TEST_H_
