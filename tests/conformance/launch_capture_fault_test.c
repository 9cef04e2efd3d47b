// SPDX-License-Identifier: Apache-2.0
// Captures with launches in them that go wrong, and their bounds.
#include "kernel.h"

// --- captures that go wrong

// Breaks the capture of |stream| in both flavours: another one is merged into it.
static void conform_break(conform_kernel_t *kernel, slip_stream_t stream, slip_stream_t helper) {
  slip_graph_exec_t none = NULL;
  slip_event_t event = conform_event(kernel->platform);
  SLIP_CHECK_OK(slip_stream_capture_begin(kernel->platform, stream, SLIP_CAPTURE_MODE_RELAXED));
  SLIP_CHECK_OK(slip_stream_capture_begin(kernel->platform, helper, SLIP_CAPTURE_MODE_RELAXED));
  SLIP_CHECK_OK(slip_event_record(kernel->platform, event, helper));
  CONFORM_NUMBER(slip_stream_wait_event(kernel->platform, stream, event), 902, 107032);
  CONFORM_NUMBER(slip_stream_capture_end(kernel->platform, helper, &none), 901, 507903);
  SLIP_CHECK_OK(slip_event_destroy(kernel->platform, event));
}

SLIP_TEST(capture_that_is_invalidated_refuses_launches) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  _Atomic uint32_t released = 0;
  slip_ticket_t *ticket = NULL;
  slip_graph_exec_t graph = NULL;
  conform_capture_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 3);
  slip_stream_t stream = conform_stream(kernel.platform), helper = conform_stream(kernel.platform);
  for (uint32_t round = 1; round <= 3; ++round) {
    conform_break(&kernel, stream, helper);
    slip_status_t refused = conform_launch_try(&kernel, stream, &cell, 3, 1, 0, &released, &ticket);
    SLIP_CHECK(!slip_status_is_ok(refused) && ticket == NULL);
    slip_status_free(refused);
    SLIP_CHECK_EQ(atomic_load(&released), round);
    SLIP_CHECK_EQ(conform_state(&kernel, stream), SLIP_CAPTURE_INVALIDATED);
    CONFORM_NUMBER(slip_stream_capture_end(kernel.platform, stream, &graph), 901, 507903);
    SLIP_CHECK(graph == NULL);
    conform_launch(&kernel, stream, &cell, 3, 1);  // nothing was poisoned
  }
  // Launches that were recorded before it broke are given back when it ends.
  slip_event_t event = conform_event(kernel.platform);
  SLIP_CHECK_OK(slip_stream_capture_begin(kernel.platform, stream, SLIP_CAPTURE_MODE_RELAXED));
  SLIP_CHECK_OK(conform_launch_try(&kernel, stream, &cell, 3, 1, 0, &released, NULL));
  SLIP_CHECK_OK(slip_stream_capture_begin(kernel.platform, helper, SLIP_CAPTURE_MODE_RELAXED));
  SLIP_CHECK_OK(conform_launch_try(&kernel, helper, &cell, 3, 1, 0, &released, NULL));
  SLIP_CHECK_OK(slip_event_record(kernel.platform, event, helper));
  CONFORM_NUMBER(slip_stream_wait_event(kernel.platform, stream, event), 902, 107032);
  SLIP_CHECK_EQ(atomic_load(&released), 3);
  CONFORM_NUMBER(slip_stream_capture_end(kernel.platform, helper, &graph), 901, 507903);
  CONFORM_NUMBER(slip_stream_capture_end(kernel.platform, stream, &graph), 901, 507903);
  SLIP_CHECK_OK(slip_context_drain(kernel.context));
  SLIP_CHECK_EQ(atomic_load(&released), 5);
  SLIP_CHECK_EQ(conform_kernel_stats(&kernel).captured, 0);
  conform_launch(&kernel, stream, &cell, 3, 1);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, helper));
  SLIP_CHECK_OK(slip_event_destroy(kernel.platform, event));
  conform_cell_check(&kernel, &cell);
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

// Every call that a captured launch makes fails in turn: the capture ends as if nothing were amiss with it, and replays what is in it.
SLIP_TEST(capture_ends_also_when_a_launch_in_it_failed) {
  static const slip__platform_call_e calls[] = {SLIP__PLATFORM_CALL_EVENT_RECORD,      SLIP__PLATFORM_CALL_STREAM_WAIT_EVENT,
                                                SLIP__PLATFORM_CALL_MEMORY_COPY_ASYNC, SLIP__PLATFORM_CALL_STREAM_LAUNCH,
                                                SLIP__PLATFORM_CALL_CAPTURE_RETAIN,    SLIP__PLATFORM_CALL_STREAM_CAPTURE_INFO};
  uint32_t fired = 0;
  for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); ++c) {
    bool hit = true;
    for (uint64_t nth = 1; hit && nth < 10; ++nth) {
      conform_kernel_t kernel;
      conform_cell_t cell;
      _Atomic uint32_t released = 0;
      uint64_t runs = 0;
      conform_capture_open(&kernel, NULL);
      conform_cell_make(&kernel, &cell, 3);
      slip_stream_t stream = conform_stream(kernel.platform);
      conform_begin(&kernel, stream);
      SLIP_CHECK_OK(slip_stream_enqueue_host(kernel.platform, stream, conform_count, &runs));
      slip__platform_fault_set(calls[c], nth, false);
      slip_status_t status = conform_launch_try(&kernel, stream, &cell, 3, 1, 0, &released, NULL);
      slip__platform_fault_clear();
      hit = !slip_status_is_ok(status);
      if (hit) SLIP_CHECK_EQ(slip_status_platform_code(status), SLIP__PLATFORM_INJECTED);
      slip_status_free(status);
      fired += hit;
      SLIP_CHECK_EQ(conform_state(&kernel, stream), SLIP_CAPTURE_ACTIVE);
      SLIP_CHECK_OK(slip_stream_enqueue_host(kernel.platform, stream, conform_count, &runs));
      slip_graph_exec_t graph = conform_end(&kernel, stream);
      SLIP_CHECK_OK(slip_graph_exec_launch(kernel.platform, graph, stream));
      SLIP_CHECK_OK(slip_graph_exec_launch(kernel.platform, graph, stream));
      SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
      SLIP_CHECK_EQ(runs, 4);
      SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, graph));
      SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
      conform_kernel_close(&kernel);
      SLIP_CHECK_EQ(atomic_load(&released), 1);
      conform_cell_free(&kernel, &cell);
    }
  }
  printf("# %u calls of captured launches failed\n", fired);
  SLIP_CHECK(fired >= 6);
}

// --- bounds

SLIP_TEST(capture_bounds_are_busy) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  _Atomic uint32_t released = 0;
  slip_context_options_t options = conform_kernel_options();
  options.max_captured = 3;
  conform_capture_open(&kernel, &options);
  conform_cell_make(&kernel, &cell, 3);
  slip_stream_t stream = conform_stream(kernel.platform);
  conform_begin(&kernel, stream);
  for (int i = 0; i < 3; ++i) conform_launch_silent(&kernel, stream, &cell, 3, i);
  SLIP_CHECK_CODE(conform_launch_try(&kernel, stream, &cell, 3, 3, 0, &released, NULL), SLIP_CODE_BUSY);
  SLIP_CHECK_EQ(atomic_load(&released), 1);
  SLIP_CHECK_EQ(conform_state(&kernel, stream), SLIP_CAPTURE_ACTIVE);
  slip_graph_exec_t graph = conform_end(&kernel, stream);
  SLIP_CHECK_OK(slip_graph_exec_launch(kernel.platform, graph, stream));
  for (int i = 0; i < 3; ++i) cell.expected = conform_affine(cell.expected, 3, i);
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
  conform_cell_check(&kernel, &cell);
  SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, graph));
  SLIP_CHECK_OK(slip_context_drain(kernel.context));
  for (int round = 0; round < 3; ++round) {  // their places have come back
    graph = conform_graph(&kernel, stream, &cell, 7, 7);
    SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, graph));
  }
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

SLIP_TEST(capture_of_more_streams_than_there_are_lanes_is_busy) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  slip_stream_t streams[4];
  slip_context_options_t options = conform_kernel_options();
  options.max_captures = 3;
  conform_capture_open(&kernel, &options);
  conform_cell_make(&kernel, &cell, 3);
  for (int i = 0; i < 4; ++i) {
    streams[i] = conform_stream(kernel.platform);
  }
  for (int i = 0; i < 4; ++i) SLIP_CHECK_OK(slip_stream_capture_begin(kernel.platform, streams[i], SLIP_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < 3; ++i) conform_launch_silent(&kernel, streams[i], &cell, 1, 1);
  SLIP_CHECK_CODE(conform_launch_try(&kernel, streams[3], &cell, 1, 1, 0, NULL, NULL), SLIP_CODE_BUSY);
  SLIP_CHECK_EQ(conform_state(&kernel, streams[3]), SLIP_CAPTURE_ACTIVE);
  SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, conform_end(&kernel, streams[1])));
  conform_launch_silent(&kernel, streams[3], &cell, 1, 1);
  for (int i = 0; i < 4; ++i) {
    if (i != 1) SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, conform_end(&kernel, streams[i])));
    SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, streams[i]));
  }
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}
