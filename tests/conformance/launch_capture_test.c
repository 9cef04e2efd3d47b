// SPDX-License-Identifier: Apache-2.0
// Launches while a stream is capturing, and what replays of the graph do. Names begin with capture_: unsupported where there is no capture.
#include "kernel.h"

static void conform_replay(conform_kernel_t *kernel, slip_graph_exec_t graph, slip_stream_t stream, conform_cell_t *cell, int64_t factor,
                           int64_t term) {
  SLIP_CHECK_OK(slip_graph_exec_launch(kernel->platform, graph, stream));
  cell->expected = conform_affine(cell->expected, factor, term);
}

SLIP_TEST(capture_of_launches_replays_a_b_a_b_a_a_b) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  conform_capture_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 3);
  slip_stream_t stream = conform_stream(kernel.platform);
  slip_graph_exec_t a = conform_graph(&kernel, stream, &cell, 3, 1), b = conform_graph(&kernel, stream, &cell, 5, 2);
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
  conform_cell_check(&kernel, &cell);  // nothing ran while capturing
  for (const char *turn = "ABABAAB"; *turn; ++turn) {
    conform_replay(&kernel, *turn == 'A' ? a : b, stream, &cell, *turn == 'A' ? 3 : 5, *turn == 'A' ? 1 : 2);
  }
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
  conform_cell_check(&kernel, &cell);
  // Eager launches between replays, and a third graph after them.
  for (int i = 0; i < 5; ++i) {
    conform_launch(&kernel, stream, &cell, 7, i);
    conform_replay(&kernel, a, stream, &cell, 3, 1);
    conform_launch(&kernel, stream, &cell, 9, i);
    conform_replay(&kernel, b, stream, &cell, 5, 2);
  }
  slip_graph_exec_t c = conform_graph(&kernel, stream, &cell, 11, 4);
  for (const char *turn = "CABCCBA"; *turn; ++turn) {
    int64_t factor = *turn == 'A' ? 3 : *turn == 'B' ? 5 : 11, term = *turn == 'A' ? 1 : *turn == 'B' ? 2 : 4;
    conform_replay(&kernel, *turn == 'A' ? a : *turn == 'B' ? b : c, stream, &cell, factor, term);
  }
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
  conform_cell_check(&kernel, &cell);
  SLIP_CHECK_EQ(conform_kernel_stats(&kernel).captured, 3);
  SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, a));
  SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, b));
  SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, c));
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

// Many launches in one graph, among copies and host functions of the caller.
SLIP_TEST(capture_of_launches_among_the_callers_work) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  uint64_t runs = 0;
  conform_capture_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 1);
  slip_platform_t *platform = kernel.platform;
  slip_stream_t stream = conform_stream(platform);
  int64_t *source = conform_pinned(platform, sizeof(int64_t)), *target = conform_pinned(platform, sizeof(int64_t));
  conform_begin(&kernel, stream);
  SLIP_CHECK_OK(slip_memory_copy_async(platform, stream, cell.state, source, sizeof(int64_t), SLIP_COPY_HOST_TO_DEVICE));
  for (int i = 0; i < 10; ++i) conform_launch_silent(&kernel, stream, &cell, 3, i);
  SLIP_CHECK_OK(slip_stream_enqueue_host(platform, stream, conform_count, &runs));
  SLIP_CHECK_OK(slip_memory_copy_async(platform, stream, target, cell.state, sizeof(int64_t), SLIP_COPY_DEVICE_TO_HOST));
  slip_graph_exec_t graph = conform_end(&kernel, stream);
  for (int64_t round = 0; round < 10; ++round) {
    uint64_t expected = (uint64_t)round;
    *source = round;
    for (int i = 0; i < 10; ++i) expected = conform_affine(expected, 3, i);
    SLIP_CHECK_OK(slip_graph_exec_launch(platform, graph, stream));
    SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
    SLIP_CHECK_EQ(*target, (int64_t)expected);
  }
  SLIP_CHECK_EQ(runs, 10);
  SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_host_free(platform, source));
  SLIP_CHECK_OK(slip_host_free(platform, target));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

// The caller forks his own stream into the capture and launches on both.
SLIP_TEST(capture_of_launches_on_forked_streams) {
  conform_kernel_t kernel;
  conform_cell_t cells[2];
  conform_capture_open(&kernel, NULL);
  slip_platform_t *platform = kernel.platform;
  slip_stream_t stream = conform_stream(platform), side = conform_stream(platform);
  slip_event_t event = conform_event(platform);
  for (int i = 0; i < 2; ++i) conform_cell_make(&kernel, &cells[i], i);
  conform_begin(&kernel, stream);
  SLIP_CHECK_OK(slip_event_record(platform, event, stream));
  SLIP_CHECK_OK(slip_stream_wait_event(platform, side, event));
  for (int i = 0; i < 6; ++i) conform_launch_silent(&kernel, i % 2 ? side : stream, &cells[i % 2], 3, i);
  SLIP_CHECK_OK(slip_event_record(platform, event, side));
  SLIP_CHECK_OK(slip_stream_wait_event(platform, stream, event));
  conform_launch_silent(&kernel, stream, &cells[1], 13, 1);
  slip_graph_exec_t graph = conform_end(&kernel, stream);
  for (int round = 0; round < 8; ++round) {
    SLIP_CHECK_OK(slip_graph_exec_launch(platform, graph, round % 2 ? side : stream));
    for (int i = 0; i < 6; ++i) cells[i % 2].expected = conform_affine(cells[i % 2].expected, 3, i);
    cells[1].expected = conform_affine(cells[1].expected, 13, 1);
  }
  SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
  SLIP_CHECK_OK(slip_stream_synchronize(platform, side));
  SLIP_CHECK_OK(slip_graph_exec_destroy(platform, graph));
  for (int i = 0; i < 2; ++i) {
    conform_cell_check(&kernel, &cells[i]);
    conform_cell_free(&kernel, &cells[i]);
  }
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_stream_destroy(platform, side));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
  conform_kernel_close(&kernel);
}

// Replays at the same time on different streams, of one graph and of two.
SLIP_TEST(capture_of_launches_replayed_on_two_streams_at_once) {
  conform_kernel_t kernel;
  conform_cell_t cells[2];
  slip_stream_t streams[2];
  slip_graph_exec_t graphs[2];
  conform_capture_open(&kernel, NULL);
  for (int i = 0; i < 2; ++i) {
    conform_cell_make(&kernel, &cells[i], i);
    streams[i] = conform_stream(kernel.platform);
    graphs[i] = conform_graph(&kernel, streams[i], &cells[i], 1, 1);
  }
  for (int i = 0; i < 40; ++i) conform_replay(&kernel, graphs[0], streams[i % 2], &cells[0], 1, 1);
  for (int i = 0; i < 40; ++i) {
    conform_replay(&kernel, graphs[i % 2], streams[i % 2], &cells[i % 2], 1, 1);
    conform_launch(&kernel, streams[1], &cells[1], 1, 3);
  }
  for (int i = 0; i < 2; ++i) {
    SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, streams[0]));
    SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, streams[1]));
    conform_cell_check(&kernel, &cells[i]);
    SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, graphs[i]));
    conform_cell_free(&kernel, &cells[i]);
  }
  for (int i = 0; i < 2; ++i) SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, streams[i]));
  conform_kernel_close(&kernel);
}

SLIP_TEST(capture_of_launches_outlives_the_graph_while_replays_are_pending) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  conform_gate_t gate = {0};
  _Atomic uint32_t released = 0;
  slip_ticket_t *ticket = NULL;
  conform_capture_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 3);
  slip_stream_t stream = conform_stream(kernel.platform);
  conform_begin(&kernel, stream);
  SLIP_CHECK_OK(conform_launch_try(&kernel, stream, &cell, 3, 1, 0, &released, &ticket));
  SLIP_CHECK_OK(conform_launch_try(&kernel, stream, &cell, 5, 1, 0, &released, NULL));
  slip_graph_exec_t graph = conform_end(&kernel, stream);
  SLIP_CHECK_CODE(slip_ticket_query(ticket), SLIP_CODE_NOT_READY);
  SLIP_CHECK_CODE(slip_ticket_wait(ticket, 0), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_OK(slip_stream_enqueue_host(kernel.platform, stream, conform_gate_pass, &gate));
  for (int i = 0; i < 4; ++i) {
    conform_replay(&kernel, graph, stream, &cell, 3, 1);
    cell.expected = conform_affine(cell.expected, 5, 1);
  }
  SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, graph));
  SLIP_CHECK_OK(slip_context_release(kernel.context, kernel.id));
  SLIP_CHECK_EQ(atomic_load(&released), 0);
  SLIP_CHECK_CODE(slip_ticket_query(ticket), SLIP_CODE_NOT_READY);
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_check(&kernel, &cell);
  SLIP_CHECK_OK(slip_context_drain(kernel.context));
  SLIP_CHECK_EQ(atomic_load(&released), 2);
  SLIP_CHECK_OK(slip_ticket_query(ticket));
  SLIP_CHECK_EQ(conform_kernel_stats(&kernel).captured, 0);
  slip_ticket_release(ticket);
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
  SLIP_CHECK_EQ(atomic_load(&released), 2);
}

// A live graph holds close up, and works on meanwhile: the device's memory and code are still there.
SLIP_TEST(capture_of_launches_holds_up_close_while_its_graph_lives) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  conform_capture_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 3);
  slip_stream_t stream = conform_stream(kernel.platform);
  slip_graph_exec_t graph = conform_graph(&kernel, stream, &cell, 3, 1);
  for (int round = 0; round < 2; ++round) {
    conform_replay(&kernel, graph, stream, &cell, 3, 1);
    SLIP_CHECK_CODE(slip_context_close(kernel.context), SLIP_CODE_BUSY);
    SLIP_CHECK_EQ(slip_context_state(kernel.context), SLIP_CONTEXT_CLOSING);
    conform_replay(&kernel, graph, stream, &cell, 3, 1);
    SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
    conform_cell_check(&kernel, &cell);
  }
  SLIP_CHECK_CODE(conform_launch_try(&kernel, stream, &cell, 3, 1, 0, NULL, NULL), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, graph));
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

// --- what is not allowed while capturing

typedef struct conform_illegal_t {
  conform_kernel_t *kernel;
  slip_bytes_t image;
  slip_ticket_t *ticket;
} conform_illegal_t;

// Each is refused, and nothing is done.
static void conform_call_illegally(void *user) {
  conform_illegal_t *illegal = user;
  conform_kernel_t *kernel = illegal->kernel;
  slip_context_options_t options = conform_kernel_options();
  slip_context_t *context = NULL;
  int32_t id = 5;
  SLIP_CHECK_CODE(slip_context_open(&options, &context), SLIP_CODE_CAPTURE_UNSUPPORTED);
  SLIP_CHECK(context == NULL);
  SLIP_CHECK_CODE(slip_context_prepare(kernel->context, slip_fixture_bytes(illegal->image), &id), SLIP_CODE_CAPTURE_UNSUPPORTED);
  SLIP_CHECK_EQ(id, -1);
  SLIP_CHECK_CODE(slip_context_release(kernel->context, kernel->id), SLIP_CODE_CAPTURE_UNSUPPORTED);
  SLIP_CHECK_CODE(slip_context_drain(kernel->context), SLIP_CODE_CAPTURE_UNSUPPORTED);
  SLIP_CHECK_CODE(slip_context_close(kernel->context), SLIP_CODE_CAPTURE_UNSUPPORTED);
  SLIP_CHECK_CODE(slip_ticket_wait(illegal->ticket, -1), SLIP_CODE_CAPTURE_UNSUPPORTED);
}

SLIP_TEST(capture_refuses_open_prepare_release_drain_close_wait) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  conform_gate_t gate = {0};
  conform_capture_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 3);
  slip_fixture_t fixture = slip_fixture_add();
  conform_illegal_t illegal = {&kernel, slip_fixture_pack(&fixture), NULL};
  slip_stream_t stream = conform_stream(kernel.platform), other = conform_stream(kernel.platform);
  SLIP_CHECK_OK(slip_stream_enqueue_host(kernel.platform, other, conform_gate_pass, &gate));
  SLIP_CHECK_OK(conform_launch_try(&kernel, other, &cell, 1, 0, 0, NULL, &illegal.ticket));
  for (uint32_t mode = SLIP_CAPTURE_MODE_GLOBAL; mode <= SLIP_CAPTURE_MODE_THREAD_LOCAL; ++mode) {
    SLIP_CHECK_OK(slip_stream_capture_begin(kernel.platform, stream, mode));
    conform_launch_silent(&kernel, stream, &cell, 3, 1);
    conform_call_illegally(&illegal);
    if (mode == SLIP_CAPTURE_MODE_GLOBAL) conform_on_thread(conform_call_illegally, &illegal);
    SLIP_CHECK_EQ(conform_state(&kernel, stream), SLIP_CAPTURE_ACTIVE);
    conform_launch_silent(&kernel, stream, &cell, 3, 1);
    slip_graph_exec_t graph = conform_end(&kernel, stream);
    SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, graph));
  }
  SLIP_CHECK_EQ(slip_context_state(kernel.context), SLIP_CONTEXT_READY);
  SLIP_CHECK_EQ(conform_kernel_stats(&kernel).callables, 1);
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_ticket_wait(illegal.ticket, -1));
  slip_ticket_release(illegal.ticket);
  slip_fixture_free(illegal.image);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, other));
  conform_cell_check(&kernel, &cell);
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

// Launches on a stream that does not capture are eager and break nobody's capture, on the capturing thread and on others.
typedef struct conform_eager_t {
  conform_kernel_t *kernel;
  slip_stream_t stream;
  conform_cell_t *cell;
} conform_eager_t;

static void conform_launch_eagerly(void *user) {
  conform_eager_t *eager = user;
  for (int i = 0; i < 20; ++i) conform_launch(eager->kernel, eager->stream, eager->cell, 3, i);
}

SLIP_TEST(capture_is_not_disturbed_by_eager_launches) {
  conform_kernel_t kernel;
  conform_cell_t cells[2];
  conform_capture_open(&kernel, NULL);
  for (int i = 0; i < 2; ++i) conform_cell_make(&kernel, &cells[i], i);
  slip_stream_t stream = conform_stream(kernel.platform), other = conform_stream(kernel.platform);
  conform_eager_t eager = {&kernel, other, &cells[1]};
  conform_launch_eagerly(&eager);
  conform_begin(&kernel, stream);
  conform_launch_silent(&kernel, stream, &cells[0], 3, 1);
  conform_launch_eagerly(&eager);
  conform_on_thread(conform_launch_eagerly, &eager);
  conform_launch_silent(&kernel, stream, &cells[0], 5, 1);
  SLIP_CHECK_EQ(conform_state(&kernel, stream), SLIP_CAPTURE_ACTIVE);
  SLIP_CHECK_EQ(conform_state(&kernel, other), SLIP_CAPTURE_NONE);
  slip_graph_exec_t graph = conform_end(&kernel, stream);
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, other));
  conform_cell_check(&kernel, &cells[1]);
  for (int i = 0; i < 3; ++i) {
    conform_replay(&kernel, graph, stream, &cells[0], 3, 1);
    cells[0].expected = conform_affine(cells[0].expected, 5, 1);
  }
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
  SLIP_CHECK_OK(slip_graph_exec_destroy(kernel.platform, graph));
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, other));
  for (int i = 0; i < 2; ++i) {
    conform_cell_check(&kernel, &cells[i]);
    conform_cell_free(&kernel, &cells[i]);
  }
  conform_kernel_close(&kernel);
}
