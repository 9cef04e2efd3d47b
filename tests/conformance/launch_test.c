// SPDX-License-Identifier: Apache-2.0
// Launches through a context: order with the caller's own work, several streams and threads, more launches than slots, refusals.
#include "kernel.h"

SLIP_TEST(launch_sees_earlier_work_and_later_work_sees_it) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  conform_gate_t gate = {0};
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 1);
  slip_platform_t *platform = kernel.platform;
  slip_stream_t stream = conform_stream(platform);
  int64_t *source = conform_pinned(platform, sizeof(int64_t)), *target = conform_pinned(platform, sizeof(int64_t));
  SLIP_CHECK_OK(slip_stream_enqueue_host(platform, stream, conform_gate_pass, &gate));
  *target = 0;
  *source = 20;
  SLIP_CHECK_OK(slip_memory_copy_async(platform, stream, cell.state, source, sizeof(int64_t), SLIP_COPY_HOST_TO_DEVICE));
  conform_launch_silent(&kernel, stream, &cell, 2, 2);
  SLIP_CHECK_OK(slip_memory_copy_async(platform, stream, target, cell.state, sizeof(int64_t), SLIP_COPY_DEVICE_TO_HOST));
  SLIP_CHECK_CODE(slip_stream_query(platform, stream), SLIP_CODE_NOT_READY);
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
  SLIP_CHECK_EQ(*target, 42);
  // The stream waits for the launch: no drain was needed.
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_host_free(platform, source));
  SLIP_CHECK_OK(slip_host_free(platform, target));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

SLIP_TEST(launch_keeps_the_order_of_a_stream) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  uint64_t random = slip_test_seed();
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 3);
  slip_stream_t stream = conform_stream(kernel.platform);
  for (int i = 0; i < 200; ++i) {
    conform_launch(&kernel, stream, &cell, (int64_t)(slip_test_random(&random) | 1), (int64_t)slip_test_random(&random));
  }
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
  conform_cell_check(&kernel, &cell);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

// One cell handed from stream to stream by the caller's events.
SLIP_TEST(launch_is_ordered_across_streams_by_the_callers_events) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  slip_stream_t streams[3];
  slip_event_t event;
  uint64_t random = slip_test_seed();
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 5);
  for (int i = 0; i < 3; ++i) streams[i] = conform_stream(kernel.platform);
  event = conform_event(kernel.platform);
  size_t at = 0;
  for (int i = 0; i < 120; ++i) {
    conform_launch(&kernel, streams[at], &cell, 3, i);
    size_t next = slip_test_random(&random) % 3;
    SLIP_CHECK_OK(slip_event_record(kernel.platform, event, streams[at]));
    SLIP_CHECK_OK(slip_stream_wait_event(kernel.platform, streams[next], event));
    at = next;
  }
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, streams[at]));
  conform_cell_check(&kernel, &cell);
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, streams[i]));
  SLIP_CHECK_OK(slip_event_destroy(kernel.platform, event));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

// --- several threads

typedef struct conform_launcher_t {
  conform_kernel_t *kernel;
  slip_stream_t stream;
  conform_cell_t cell;
  uint64_t random;
} conform_launcher_t;

static void conform_launch_many(void *user) {
  conform_launcher_t *launcher = user;
  for (int i = 0; i < 80; ++i)
    conform_launch(launcher->kernel, launcher->stream, &launcher->cell, 5, (int64_t)(slip_test_random(&launcher->random) % 99));
}

static void conform_launch_from_threads(bool one_stream) {
  conform_kernel_t kernel;
  conform_launcher_t launchers[4];
  slip__thread_t threads[4];
  conform_kernel_open(&kernel, NULL);
  slip_stream_t shared = conform_stream(kernel.platform);
  for (int i = 0; i < 4; ++i) {
    launchers[i] = (conform_launcher_t){.kernel = &kernel, .random = slip_test_seed() + (uint64_t)i};
    launchers[i].stream = one_stream ? shared : conform_stream(kernel.platform);
    conform_cell_make(&kernel, &launchers[i].cell, i);
  }
  for (int i = 0; i < 4; ++i) SLIP_CHECK_OK(slip__thread_start(&threads[i], "launcher", conform_launch_many, &launchers[i]));
  for (int i = 0; i < 4; ++i) slip__thread_join(&threads[i]);
  SLIP_CHECK_OK(slip_context_drain(kernel.context));
  slip_context_stats_t stats = conform_kernel_stats(&kernel);
  SLIP_CHECK_EQ(stats.launches, 320);
  SLIP_CHECK_EQ(stats.retired, 320);
  SLIP_CHECK_EQ(stats.pending, 0);
  for (int i = 0; i < 4; ++i) {
    conform_cell_check(&kernel, &launchers[i].cell);
    conform_cell_free(&kernel, &launchers[i].cell);
    if (!one_stream) SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, launchers[i].stream));
  }
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, shared));
  conform_kernel_close(&kernel);
}

SLIP_TEST(launch_from_several_threads_on_their_own_streams) {
  conform_launch_from_threads(false);
}
SLIP_TEST(launch_from_several_threads_on_one_stream) {
  conform_launch_from_threads(true);
}

// --- slots and places

SLIP_TEST(launch_more_than_there_are_slots) {
  conform_kernel_t kernel;
  conform_cell_t cells[4];
  slip_stream_t streams[4];
  conform_gate_t gate = {0};
  _Atomic uint32_t released = 0;
  slip_context_options_t options = conform_kernel_options();
  options.max_in_flight = 1;
  conform_kernel_open(&kernel, &options);
  for (int i = 0; i < 4; ++i) {
    conform_cell_make(&kernel, &cells[i], i);
    streams[i] = conform_stream(kernel.platform);
    SLIP_CHECK_OK(slip_stream_enqueue_host(kernel.platform, streams[i], conform_gate_pass, &gate));
  }
  // None of these waits for the device.
  for (int i = 0; i < 100; ++i) {
    conform_cell_t *cell = &cells[i % 4];
    SLIP_CHECK_OK(conform_launch_try(&kernel, streams[i % 4], cell, 7, i, 0, &released, NULL));
    cell->expected = conform_affine(cell->expected, 7, i);
  }
  SLIP_CHECK_EQ(atomic_load(&released), 0);
  SLIP_CHECK_EQ(conform_kernel_stats(&kernel).pending, 100);
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_context_drain(kernel.context));
  SLIP_CHECK_EQ(atomic_load(&released), 100);
  for (int i = 0; i < 4; ++i) {
    conform_cell_check(&kernel, &cells[i]);
    conform_cell_free(&kernel, &cells[i]);
    SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, streams[i]));
  }
  conform_kernel_close(&kernel);
}

typedef struct conform_blocked_t {
  conform_kernel_t *kernel;
  slip_stream_t stream;
  conform_cell_t *cell;
  _Atomic bool through;
} conform_blocked_t;

static void conform_launch_blocked(void *user) {
  conform_blocked_t *blocked = user;
  conform_launch(blocked->kernel, blocked->stream, blocked->cell, 2, 1);
  atomic_store(&blocked->through, true);
}

SLIP_TEST(launch_that_may_not_wait_is_busy) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  conform_gate_t gate = {0}, pause = {0};
  _Atomic uint32_t released = 0;
  slip__thread_t thread;
  slip_ticket_t *ticket = (slip_ticket_t *)&kernel;
  slip_context_options_t options = conform_kernel_options();
  options.max_pending = 4;
  conform_kernel_open(&kernel, &options);
  conform_cell_make(&kernel, &cell, 1);
  slip_stream_t stream = conform_stream(kernel.platform);
  SLIP_CHECK_OK(slip_stream_enqueue_host(kernel.platform, stream, conform_gate_pass, &gate));
  for (int i = 0; i < 4; ++i) conform_launch(&kernel, stream, &cell, 2, i);
  for (uint32_t i = 1; i <= 3; ++i) {
    SLIP_CHECK_CODE(conform_launch_try(&kernel, stream, &cell, 9, 9, SLIP_LAUNCH_NO_WAIT, &released, &ticket), SLIP_CODE_BUSY);
    SLIP_CHECK(ticket == NULL);
    SLIP_CHECK_EQ(atomic_load(&released), i);  // a refused launch has given its owner back
  }
  // One that may wait does, until a place is free.
  conform_blocked_t blocked = {&kernel, stream, &cell, false};
  SLIP_CHECK_OK(slip__thread_start(&thread, "blocked", conform_launch_blocked, &blocked));
  for (int i = 0; i < 20; ++i) (void)slip__futex_wait(&pause.open, 0, 1000000);
  SLIP_CHECK(!atomic_load(&blocked.through));
  conform_gate_open(&gate);
  slip__thread_join(&thread);
  SLIP_CHECK_OK(slip_context_drain(kernel.context));
  SLIP_CHECK_OK(conform_launch_try(&kernel, stream, &cell, 1, 0, SLIP_LAUNCH_NO_WAIT, &released, NULL));
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
  conform_cell_check(&kernel, &cell);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
  SLIP_CHECK_EQ(atomic_load(&released), 4);
}

// --- refusals

SLIP_TEST(launch_refused_leaves_no_trace) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  _Atomic uint32_t released = 0;
  slip_ticket_t *ticket = NULL;
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 8);
  slip_stream_t stream = conform_stream(kernel.platform), stale = conform_stream(kernel.platform);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stale));
  const int32_t id = kernel.id;
  uint64_t launches = conform_kernel_stats(&kernel).launches;
  kernel.id = 77;
  SLIP_CHECK_CODE(conform_launch_try(&kernel, stream, &cell, 2, 2, 0, &released, &ticket), SLIP_CODE_NOT_PREPARED);
  kernel.id = -1;
  SLIP_CHECK_CODE(conform_launch_try(&kernel, stream, &cell, 2, 2, 0, &released, &ticket), SLIP_CODE_NOT_PREPARED);
  kernel.id = id;
  SLIP_CHECK_CODE(conform_launch_try(&kernel, NULL, &cell, 2, 2, 0, &released, &ticket), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(conform_launch_try(&kernel, stale, &cell, 2, 2, 0, &released, &ticket), SLIP_CODE_INVALID_ARGUMENT);
  // The frame of another callable.
  kernel.id = slip_fixture_prepare(kernel.context, slip_fixture_add());
  SLIP_CHECK_CODE(conform_launch_try(&kernel, stream, &cell, 2, 2, 0, &released, &ticket), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_context_release(kernel.context, kernel.id));
  SLIP_CHECK_CODE(conform_launch_try(&kernel, stream, &cell, 2, 2, 0, &released, &ticket), SLIP_CODE_NOT_PREPARED);
  kernel.id = id;
  SLIP_CHECK(ticket == NULL);
  SLIP_CHECK_EQ(atomic_load(&released), 6);
  SLIP_CHECK_EQ(conform_kernel_stats(&kernel).launches, launches);
  SLIP_CHECK_OK(slip_stream_query(kernel.platform, stream));
  conform_launch(&kernel, stream, &cell, 2, 2);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_check(&kernel, &cell);
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

// --- the end of a callable, of a context

SLIP_TEST(launch_outlives_the_release_of_its_callable) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  conform_gate_t gate = {0};
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 4);
  slip_stream_t stream = conform_stream(kernel.platform);
  SLIP_CHECK_OK(slip_stream_enqueue_host(kernel.platform, stream, conform_gate_pass, &gate));
  for (int i = 0; i < 5; ++i) conform_launch(&kernel, stream, &cell, 3, i);
  SLIP_CHECK_OK(slip_context_release(kernel.context, kernel.id));
  SLIP_CHECK_CODE(conform_launch_try(&kernel, stream, &cell, 2, 2, 0, NULL, NULL), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK(conform_kernel_stats(&kernel).resident_bytes > 0);
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_context_drain(kernel.context));
  SLIP_CHECK_EQ(conform_kernel_stats(&kernel).resident_bytes, 0);
  conform_cell_check(&kernel, &cell);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

static void conform_open_slowly(void *user) {
  struct timespec pause = {0, 20000000};
  (void)nanosleep(&pause, NULL);
  conform_gate_open(user);
}

SLIP_TEST(launch_is_finished_by_close) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  conform_gate_t gate = {0};
  slip__thread_t thread;
  _Atomic uint32_t released = 0;
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 4);
  slip_stream_t stream = conform_stream(kernel.platform);
  SLIP_CHECK_OK(slip_stream_enqueue_host(kernel.platform, stream, conform_gate_pass, &gate));
  for (int i = 0; i < 10; ++i) SLIP_CHECK_OK(conform_launch_try(&kernel, stream, &cell, 3, i, 0, &released, NULL));
  for (int i = 0; i < 10; ++i) cell.expected = conform_affine(cell.expected, 3, i);
  SLIP_CHECK_OK(slip__thread_start(&thread, "opener", conform_open_slowly, &gate));
  SLIP_CHECK_OK(slip_context_close(kernel.context));
  SLIP_CHECK_EQ(atomic_load(&released), 10);
  slip__thread_join(&thread);
  SLIP_CHECK_CODE(conform_launch_try(&kernel, stream, &cell, 3, 1, 0, NULL, NULL), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
  conform_cell_check(&kernel, &cell);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);  // closing again is fine
}

// The borrowed stream may be destroyed as soon as the launch was made.
SLIP_TEST(launch_outlives_its_stream) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 4);
  for (int i = 0; i < 20; ++i) {
    slip_stream_t stream = conform_stream(kernel.platform);
    conform_launch(&kernel, stream, &cell, 3, i);
    SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
    conform_cell_check(&kernel, &cell);
  }
  conform_cell_free(&kernel, &cell);
  conform_kernel_close(&kernel);
}

// --- a launch that fails half-way

SLIP_TEST(launch_that_fails_half_way_poisons_and_joins_first) {
  conform_kernel_t kernel;
  conform_cell_t cell;
  _Atomic uint32_t released = 0;
  uint64_t runs = 0;
  conform_kernel_open(&kernel, NULL);
  conform_cell_make(&kernel, &cell, 4);
  bool direct = (slip__platform_capabilities(kernel.platform) & SLIP_PLATFORM_DIRECT_LAUNCH) != 0;
  slip_stream_t stream = conform_stream(kernel.platform);
  conform_launch(&kernel, stream, &cell, 3, 1);
  slip__platform_fault_set(SLIP__PLATFORM_CALL_STREAM_LAUNCH, 1, false);
  slip_status_t failed = conform_launch_try(&kernel, stream, &cell, 3, 2, 0, &released, NULL);
  SLIP_CHECK_EQ(slip_status_platform_code(failed), SLIP__PLATFORM_INJECTED);
  slip_status_free(failed);
  slip__platform_fault_clear();
  if (direct) {  // nothing was enqueued
    SLIP_CHECK_EQ(atomic_load(&released), 1);
    conform_launch(&kernel, stream, &cell, 3, 3);
  } else {
    SLIP_CHECK_CODE(conform_launch_try(&kernel, stream, &cell, 3, 3, 0, NULL, NULL), SLIP_CODE_POISONED);
    SLIP_CHECK_CODE(slip_context_drain(kernel.context), SLIP_CODE_POISONED);
  }
  // The caller's stream is as good as ever.
  SLIP_CHECK_OK(slip_stream_enqueue_host(kernel.platform, stream, conform_count, &runs));
  SLIP_CHECK_OK(slip_stream_synchronize(kernel.platform, stream));
  SLIP_CHECK_EQ(runs, 1);
  conform_cell_check(&kernel, &cell);
  conform_kernel_close(&kernel);
  SLIP_CHECK_EQ(atomic_load(&released), 1);
  SLIP_CHECK_OK(slip_stream_destroy(kernel.platform, stream));
  conform_cell_free(&kernel, &cell);
}
