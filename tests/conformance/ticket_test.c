// SPDX-License-Identifier: Apache-2.0
// Tickets of asynchronous launches: states, time-outs, results, owners.
#include "kernel.h"
#include "os/clock.h"

typedef struct conform_wait_t {
  slip_ticket_t *ticket;
  slip_code_t code;
} conform_wait_t;

static void conform_wait(void *user) {
  conform_wait_t *wait = user;
  slip_status_t status = slip_ticket_wait(wait->ticket, -1);
  wait->code = slip_status_code(status);
  slip_status_free(status);
}

SLIP_TEST(ticket_states_and_timeouts) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  conform_gate_t gate = {0};
  conform_wait_t waits[3];
  slip__thread_t threads[3];
  slip_ticket_t *ticket = NULL;
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 2);
  slip_stream_t stream = conform_stream(kernel.platform);
  SLIP_CHECK_OK(slip_stream_enqueue_host(kernel.platform, stream, conform_gate_pass, &gate));
  SLIP_CHECK_OK(conform_launch_try(&kernel, stream, &cell, 5, 5, 0, NULL, &ticket));
  SLIP_CHECK(ticket != NULL);
  SLIP_CHECK_CODE(slip_ticket_query(ticket), SLIP_CODE_NOT_READY);
  SLIP_CHECK_CODE(slip_ticket_wait(ticket, 0), SLIP_CODE_TIMEOUT);
  uint64_t start = slip__clock_now_ns();
  SLIP_CHECK_CODE(slip_ticket_wait(ticket, 10000000), SLIP_CODE_TIMEOUT);
  SLIP_CHECK(slip__clock_now_ns() - start >= 10000000);
  SLIP_CHECK_CODE(slip_ticket_query(ticket), SLIP_CODE_NOT_READY);
  for (int i = 0; i < 3; ++i) {
    waits[i] = (conform_wait_t){ticket, SLIP_CODE_INTERNAL};
    SLIP_CHECK_OK(slip__thread_start(&threads[i], "waiter", conform_wait, &waits[i]));
  }
  conform_gate_open(&gate);
  for (int i = 0; i < 3; ++i) slip__thread_join(&threads[i]);
  for (int i = 0; i < 3; ++i) SLIP_CHECK_EQ(waits[i].code, SLIP_CODE_OK);
  SLIP_CHECK_OK(slip_ticket_query(ticket));
  SLIP_CHECK_OK(slip_ticket_wait(ticket, 0));
  SLIP_CHECK_EQ(conform_cell_read(&kernel, &cell), 15);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
  SLIP_CHECK_OK(slip_ticket_query(ticket));  // it outlives the context
  slip_ticket_release(ticket);
  slip_ticket_release(NULL);
}

SLIP_TEST(ticket_given_back_early_changes_nothing) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  conform_gate_t gate = {0};
  _Atomic uint32_t released = 0;
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 2);
  slip_stream_t stream = conform_stream(kernel.platform);
  SLIP_CHECK_OK(slip_stream_enqueue_host(kernel.platform, stream, conform_gate_pass, &gate));
  for (int i = 0; i < 10; ++i) {
    slip_ticket_t *ticket = NULL;
    SLIP_CHECK_OK(conform_launch_try(&kernel, stream, &cell, 5, i, 0, &released, &ticket));
    cell.expected = conform_affine(cell.expected, 5, i);
    slip_ticket_release(ticket);
  }
  SLIP_CHECK_EQ(atomic_load(&released), 0);
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_context_drain(kernel.context));
  SLIP_CHECK_EQ(atomic_load(&released), 10);
  conform_cell_check(&kernel, &cell);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
  SLIP_CHECK_EQ(atomic_load(&released), 10);
}

// A callable that fails tells it through its ticket, to everyone who asks, and harms nobody else.
SLIP_TEST(ticket_carries_the_failure_of_its_callable) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  _Atomic uint32_t released = 0;
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 2);
  slip_stream_t stream = conform_stream(kernel.platform);
  for (int i = 0; i < 3; ++i) {
    slip_ticket_t *ticket = NULL, *next = NULL;
    SLIP_CHECK_OK(conform_launch_try(&kernel, stream, &cell, 0, -1, 0, &released, &ticket));
    SLIP_CHECK_OK(conform_launch_try(&kernel, stream, &cell, 3, i, 0, &released, &next));
    cell.expected = conform_affine(cell.expected, 3, i);
    SLIP_CHECK_ERROR(slip_ticket_wait(ticket, -1), SLIP_CODE_GRAPH_USER_FAIL, "asked to fail");
    SLIP_CHECK_CODE(slip_ticket_query(ticket), SLIP_CODE_GRAPH_USER_FAIL);
    SLIP_CHECK_OK(slip_ticket_wait(next, -1));
    slip_ticket_release(ticket);
    slip_ticket_release(next);
  }
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
  SLIP_CHECK_OK(slip_context_drain(kernel.context));
  SLIP_CHECK_EQ(conform_kernel_stats(&kernel).faulted, 3);
  SLIP_CHECK_EQ(atomic_load(&released), 6);
  conform_cell_check(&kernel, &cell);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

// The owner is given back exactly once, after the device was through, whoever finds out.
SLIP_TEST(ticket_owner_is_released_once) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  enum { COUNT = 64 };
  static _Atomic uint32_t released[COUNT];
  slip_ticket_t *tickets[COUNT];
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 2);
  slip_stream_t streams[2] = {conform_stream(kernel.platform), conform_stream(kernel.platform)};
  for (int i = 0; i < COUNT; ++i) {
    SLIP_CHECK_OK(conform_launch_try(&kernel, streams[i % 2], &cell, 1, 0, 0, &released[i], &tickets[i]));
    if (i % 3 == 0) SLIP_CHECK_OK(slip_ticket_wait(tickets[i], -1));
    if (i % 3 == 0) SLIP_CHECK_EQ(atomic_load(&released[i]), 1);
  }
  for (int i = COUNT; i-- > 0;) SLIP_CHECK_OK(slip_ticket_wait(tickets[i], -1));
  for (int i = 0; i < COUNT; ++i) slip_ticket_release(tickets[i]);
  SLIP_CHECK_OK(slip_context_drain(kernel.context));
  for (int i = 0; i < COUNT; ++i) SLIP_CHECK_EQ(atomic_load(&released[i]), 1);
  for (int i = 0; i < 2; ++i) SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, streams[i]));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
  for (int i = 0; i < COUNT; ++i) SLIP_CHECK_EQ(atomic_load(&released[i]), 1);
}
