// SPDX-License-Identifier: Apache-2.0
// Prepare, launch, tickets, drain and release on the cpu, inline and asynchronous.
#include <unistd.h>

#include "fixture.h"
#include "kernel_mode/context.h"
#include "os/clock.h"
#include "os/thread.h"
#include "slip_test_allocator.h"

static slip_context_t *slip_launch_test_open_with(void (*change)(slip_context_options_t *options)) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  if (change) change(&options);
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  return context;
}
static slip_context_t *slip_launch_test_open(void) {
  return slip_launch_test_open_with(NULL);
}

static void slip_launch_test_end(slip_context_t *context) {
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip_context_destroy(context));
}

static slip_context_stats_t slip_launch_test_stats(slip_context_t *context) {
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_OK(slip_context_stats(context, &stats));
  return stats;
}

static slip_stream_t slip_launch_test_stream(void) {
  slip_platform_t *platform = NULL;
  slip_stream_t stream = NULL;
  SLIP_CHECK_OK(slip_platform_find("cpu", &platform));
  SLIP_CHECK_OK(slip_stream_create(platform, 0, &stream));
  return stream;
}
static void slip_launch_test_stream_end(slip_stream_t stream) {
  slip_platform_t *platform = NULL;
  SLIP_CHECK_OK(slip_platform_find("cpu", &platform));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
}

static void slip_launch_test_add(slip_context_t *context, int32_t id, slip_stream_t stream, float scale) {
  float x[4], y[4], z[4] = {0};
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  for (int i = 0; i < 4; ++i) {
    x[i] = scale * (float)i;
    y[i] = 10.0f * (float)i;
  }
  slip_fixture_frame_add(&frame, context, id, x, y, z, 4);
  SLIP_CHECK_OK(slip_context_launch(context, id, &frame, stream, &ticket));
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  SLIP_CHECK_OK(slip_ticket_query(ticket));
  slip_ticket_release(ticket);
  for (int i = 0; i < 4; ++i) SLIP_CHECK(z[i] == x[i] + y[i]);
}

SLIP_TEST(launch_inline_runs_before_it_returns) {
  slip_context_t *context = slip_launch_test_open();
  int32_t id = slip_fixture_prepare(context, slip_fixture_add());
  SLIP_CHECK_EQ(id, 0);
  float x[3] = {1, 2, 3}, y[3] = {10, 20, 30}, z[3] = {0};
  slip_frame_t frame = {0};
  slip_fixture_frame_add(&frame, context, id, x, y, z, 3);
  SLIP_CHECK_OK(slip_context_launch(context, id, &frame, SLIP_STREAM_INLINE, NULL));
  SLIP_CHECK(z[0] == 11 && z[1] == 22 && z[2] == 33);
  slip_frame_deinitialize(&frame);
  slip_launch_test_add(context, id, SLIP_STREAM_INLINE, 3.0f);
  slip_context_stats_t stats = slip_launch_test_stats(context);
  SLIP_CHECK_EQ(stats.launches, 2);
  SLIP_CHECK_EQ(stats.retired, 2);
  SLIP_CHECK_EQ(stats.pending, 0);
  SLIP_CHECK_EQ(stats.tasks, 2);
  SLIP_CHECK_EQ(stats.callables, 1);
  slip_launch_test_end(context);
}

SLIP_TEST(launch_async_runs_in_stream_order) {
  slip_context_t *context = slip_launch_test_open();
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  slip_stream_t stream = slip_launch_test_stream();
  int64_t state[4] = {0, 1, 0, 0};
  slip_ticket_t *tickets[100];
  for (int64_t i = 0; i < 100; ++i) {
    slip_frame_t frame = {0};
    slip_fixture_frame_control(&frame, context, id, state, i, 0);
    SLIP_CHECK_OK(slip_context_launch(context, id, &frame, stream, &tickets[i]));
    slip_frame_deinitialize(&frame);
    memset(&frame, 0xee, sizeof(frame));  // launch has copied what it needs
  }
  for (int i = 0; i < 100; ++i) SLIP_CHECK_OK(slip_ticket_wait(tickets[i], -1));
  SLIP_CHECK_EQ(state[0], 100);
  SLIP_CHECK_EQ(state[3], 99);
  for (int i = 0; i < 100; ++i) slip_ticket_release(tickets[i]);
  slip_launch_test_add(context, slip_fixture_prepare(context, slip_fixture_add()), stream, 2.0f);
  slip_launch_test_end(context);
  slip_launch_test_stream_end(stream);
}

SLIP_TEST(launch_ticket_states_and_timeouts) {
  slip_context_t *context = slip_launch_test_open();
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  slip_stream_t stream = slip_launch_test_stream();
  int64_t state[4] = {0};
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  slip_fixture_frame_control(&frame, context, id, state, 7, 0);
  SLIP_CHECK_OK(slip_context_launch(context, id, &frame, stream, &ticket));
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_CODE(slip_ticket_query(ticket), SLIP_CODE_NOT_READY);
  uint64_t start = slip__clock_now_ns();
  SLIP_CHECK_CODE(slip_ticket_wait(ticket, 20000000), SLIP_CODE_TIMEOUT);
  SLIP_CHECK(slip__clock_now_ns() - start >= 20000000);
  SLIP_CHECK_CODE(slip_ticket_wait(ticket, 0), SLIP_CODE_TIMEOUT);
  SLIP_CHECK_EQ(slip_launch_test_stats(context).pending, 1);
  __atomic_store_n(&state[1], 1, __ATOMIC_SEQ_CST);
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  SLIP_CHECK_EQ(state[3], 7);
  SLIP_CHECK_EQ(slip_launch_test_stats(context).pending, 0);
  // The handle outlives the context.
  slip_launch_test_end(context);
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  SLIP_CHECK_OK(slip_ticket_query(ticket));
  slip_ticket_release(ticket);
  slip_ticket_release(NULL);
  slip_launch_test_stream_end(stream);
}

SLIP_TEST(launch_fault_of_a_callable_does_not_poison) {
  slip_context_t *context = slip_launch_test_open();
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  slip_stream_t stream = slip_launch_test_stream();
  int64_t state[4] = {0, 1, 0, 0};
  for (int round = 0; round < 3; ++round) {
    slip_frame_t frame = {0};
    slip_ticket_t *ticket = NULL;
    slip_fixture_frame_control(&frame, context, id, state, 1, 1);
    SLIP_CHECK_ERROR(slip_context_launch(context, id, &frame, SLIP_STREAM_INLINE, &ticket), SLIP_CODE_GRAPH_USER_FAIL, "asked to fail");
    SLIP_CHECK(ticket == NULL);
    SLIP_CHECK_OK(slip_context_launch(context, id, &frame, stream, &ticket));
    SLIP_CHECK_ERROR(slip_ticket_wait(ticket, -1), SLIP_CODE_GRAPH_USER_FAIL, "asked to fail");
    SLIP_CHECK_CODE(slip_ticket_query(ticket), SLIP_CODE_GRAPH_USER_FAIL);  // each call has its own copy
    slip_ticket_release(ticket);
    slip_frame_deinitialize(&frame);
    slip_fixture_frame_control(&frame, context, id, state, 1, 2);
    SLIP_CHECK_CODE(slip_context_launch(context, id, &frame, SLIP_STREAM_INLINE, NULL), SLIP_CODE_GRAPH_INVALID_TASK);
    slip_frame_deinitialize(&frame);
    slip_fixture_frame_control(&frame, context, id, state, 1, 0);
    SLIP_CHECK_OK(slip_context_launch(context, id, &frame, SLIP_STREAM_INLINE, NULL));
    slip_frame_deinitialize(&frame);
  }
  SLIP_CHECK_EQ(state[0], 3);
  SLIP_CHECK_EQ(slip_launch_test_stats(context).faulted, 9);
  slip_launch_test_end(context);
  slip_launch_test_stream_end(stream);
}

// --- refusals --------------------------------------------------------------------------------------------------------------------------

static void slip_launch_test_count(void *user) {
  ++*(uint32_t *)user;
}

SLIP_TEST(launch_refusals_leave_no_trace) {
  slip_context_t *context = slip_launch_test_open();
  int32_t add = slip_fixture_prepare(context, slip_fixture_add()), control = slip_fixture_prepare(context, slip_fixture_control());
  float x[2] = {1, 2}, y[2] = {3, 4}, z[2] = {0};
  uint32_t released = 0;
  slip_frame_t frame = {0}, none = {0};
  slip_ticket_t *ticket = NULL;
  slip_fixture_frame_add(&frame, context, add, x, y, z, 2);
  slip_launch_record_t good = {.struct_size = sizeof(good),
                               .id = add,
                               .context = context,
                               .frame = &frame,
                               .stream = SLIP_STREAM_INLINE,
                               .release = slip_launch_test_count,
                               .user = &released};
  slip_launch_record_t record = good;
  SLIP_CHECK_CODE(slip_launch(NULL, &ticket), SLIP_CODE_INVALID_ARGUMENT);
  record.struct_size = 4;
  SLIP_CHECK_ERROR(slip_launch(&record, NULL), SLIP_CODE_INVALID_ARGUMENT, "struct_size is 4, expected at least");
  SLIP_CHECK_EQ(released, 0);  // a record of another shape is not read
  record = good;
  record.context = NULL;
  SLIP_CHECK_ERROR(slip_launch(&record, NULL), SLIP_CODE_INVALID_ARGUMENT, "context is NULL");
  SLIP_CHECK_EQ(released, 1);
  record = good;
  record.stream = NULL;
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_INVALID_ARGUMENT, "name a stream or SLIP_STREAM_INLINE");
  SLIP_CHECK_EQ(released, 2);
  record = good;
  record.stream = (slip_stream_t)(uintptr_t)0x5555;
  SLIP_CHECK_CODE(slip_launch(&record, &ticket), SLIP_CODE_INVALID_ARGUMENT);
  record = good;
  record.id = -1;
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_NOT_PREPARED, "-1");
  record.id = 2;
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_NOT_PREPARED, "2");
  record.id = INT32_MAX;
  SLIP_CHECK_CODE(slip_launch(&record, &ticket), SLIP_CODE_NOT_PREPARED);
  record.id = control;
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_INVALID_ARGUMENT, "another signature");
  record = good;
  record.frame = NULL;
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_INVALID_ARGUMENT, "NULL");
  record.frame = &none;
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_INVALID_ARGUMENT, "not initialised");
  record = good;
  record.flags = 0x40;
  SLIP_CHECK_CODE(slip_launch(&record, &ticket), SLIP_CODE_INVALID_ARGUMENT);
  record = good;
  record.reserved = 3;
  SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_INVALID_ARGUMENT, "reserved is 3");
  SLIP_CHECK(ticket == NULL);
  SLIP_CHECK_EQ(released, 11);
  SLIP_CHECK_EQ(slip_launch_test_stats(context).refused, 10);
  SLIP_CHECK_EQ(slip_launch_test_stats(context).launches, 0);
  SLIP_CHECK(z[0] == 0 && z[1] == 0);
  SLIP_CHECK_OK(slip_launch(&good, NULL));
  SLIP_CHECK_EQ(released, 12);
  SLIP_CHECK(z[0] == 4 && z[1] == 6);
  SLIP_CHECK_OK(slip_context_release(context, add));
  SLIP_CHECK_CODE(slip_launch(&good, NULL), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK_EQ(released, 13);
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_ERROR(slip_launch(&good, NULL), SLIP_CODE_INVALID_STATE, "CLOSED");
  SLIP_CHECK_EQ(released, 14);
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_OK(slip_context_destroy(context));
}

// A program built with a newer release: what it leaves zero is no request; anything else must not be left out in silence.
SLIP_TEST(launch_longer_records_and_statistics) {
  slip_context_t *context = slip_launch_test_open();
  int32_t add = slip_fixture_prepare(context, slip_fixture_add());
  float x[2] = {1, 2}, y[2] = {3, 4}, z[2] = {0};
  uint32_t released = 0;
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  slip_fixture_frame_add(&frame, context, add, x, y, z, 2);
  struct {
    slip_launch_record_t record;
    unsigned char newer[24];
  } longer = {.record = {.struct_size = sizeof(longer),
                         .id = add,
                         .context = context,
                         .frame = &frame,
                         .stream = SLIP_STREAM_INLINE,
                         .release = slip_launch_test_count,
                         .user = &released}};
  SLIP_CHECK_OK(slip_launch(&longer.record, &ticket));
  slip_ticket_release(ticket);
  SLIP_CHECK(z[0] == 4 && z[1] == 6);
  SLIP_CHECK_EQ(released, 1);
  z[0] = 0;
  for (size_t i = 0; i < sizeof(longer.newer); ++i) {
    char part[64];
    longer.newer[i] = 1;
    (void)snprintf(part, sizeof(part), "byte %zu is set", sizeof(longer.record) + i);
    SLIP_CHECK_ERROR(slip_launch(&longer.record, &ticket), SLIP_CODE_INVALID_ARGUMENT, part);
    longer.newer[i] = 0;
    SLIP_CHECK(ticket == NULL);
    SLIP_CHECK_EQ(released, 2 + i);
    SLIP_CHECK_EQ(slip_launch_test_stats(context).refused, 1 + i);
  }
  longer.newer[0] = 1;
  longer.record.struct_size = sizeof(longer.record);  // what lies behind the record is not the library's to read
  SLIP_CHECK_OK(slip_launch(&longer.record, NULL));
  SLIP_CHECK(z[0] == 4);

  struct {
    slip_context_stats_t stats;
    unsigned char newer[16], behind;
  } out;
  memset(&out, 0xaa, sizeof(out));
  out.stats.struct_size = (uint32_t)(sizeof(out.stats) + sizeof(out.newer));
  SLIP_CHECK_OK(slip_context_stats(context, &out.stats));
  SLIP_CHECK_EQ(out.stats.struct_size, sizeof(out.stats) + sizeof(out.newer));
  SLIP_CHECK_EQ(out.stats.launches, 2);
  for (size_t i = 0; i < sizeof(out.newer); ++i) SLIP_CHECK_EQ(out.newer[i], 0);
  SLIP_CHECK_EQ(out.behind, 0xaa);
  memset(&out, 0xaa, sizeof(out));
  out.stats.struct_size = (uint32_t)offsetof(slip_context_stats_t, launches);  // an older one
  SLIP_CHECK_OK(slip_context_stats(context, &out.stats));
  SLIP_CHECK_EQ(out.stats.callables, 1);
  SLIP_CHECK_EQ(out.stats.launches, UINT64_C(0xaaaaaaaaaaaaaaaa));
  out.stats.struct_size = 3;
  SLIP_CHECK_ERROR(slip_context_stats(context, &out.stats), SLIP_CODE_INVALID_ARGUMENT, "struct_size is 3");
  slip_frame_deinitialize(&frame);
  slip_launch_test_end(context);
}

SLIP_TEST(launch_frame_of_another_device_is_refused) {
  slip_context_t *context = slip_launch_test_open();
  int32_t id = slip_fixture_prepare(context, slip_fixture_add());
  slip_signature_t *signature = NULL;
  slip_frame_t frame = {0};
  float data[2] = {0}, out[2] = {0};
  slip_device_t other = {SLIP_PLATFORM_SIM, 0};
  int64_t dims[1] = {2};
  slip_tensor_t x, z;
  SLIP_CHECK_OK(slip_tensor_initialize(&x, SLIP_DTYPE_F32, 1, dims, data, other));
  SLIP_CHECK_OK(slip_tensor_initialize(&z, SLIP_DTYPE_F32, 1, dims, out, other));
  slip_arg_t args[3] = {slip_arg_tensor(&x, NULL), slip_arg_tensor(&x, NULL), slip_arg_tensor(&z, NULL)};
  SLIP_CHECK_OK(slip_context_signature(context, id, &signature));
  SLIP_CHECK_OK(slip_frame_initialize(&frame, signature, "add", other, args, 3, 0));
  SLIP_CHECK_ERROR(slip_context_launch(context, id, &frame, SLIP_STREAM_INLINE, NULL), SLIP_CODE_INVALID_ARGUMENT, "sim:0");
  slip_frame_deinitialize(&frame);
  slip_signature_release(signature);
  slip_launch_test_end(context);
}

SLIP_TEST(launch_owner_is_released_once_after_retirement) {
  slip_context_t *context = slip_launch_test_open();
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  slip_stream_t stream = slip_launch_test_stream();
  int64_t state[4] = {0};
  uint32_t released = 0;
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  slip_fixture_frame_control(&frame, context, id, state, 0, 0);
  slip_launch_record_t record = {.struct_size = sizeof(record),
                                 .id = id,
                                 .context = context,
                                 .frame = &frame,
                                 .stream = stream,
                                 .release = slip_launch_test_count,
                                 .user = &released};
  SLIP_CHECK_OK(slip_launch(&record, &ticket));
  slip_frame_deinitialize(&frame);
  usleep(2000);
  SLIP_CHECK_EQ(released, 0);
  __atomic_store_n(&state[1], 1, __ATOMIC_SEQ_CST);
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  SLIP_CHECK_EQ(released, 1);
  slip_ticket_release(ticket);
  slip_launch_test_end(context);
  SLIP_CHECK_EQ(released, 1);
  slip_launch_test_stream_end(stream);
}

// --- back-pressure, drain, poison ------------------------------------------------------------------------------------------------------

static void slip_launch_test_two_pending(slip_context_options_t *options) {
  options->max_pending = 2;
}

static void slip_launch_test_door_opener(void *user) {
  usleep(20000);
  __atomic_store_n((int64_t *)user, 1, __ATOMIC_SEQ_CST);
}

SLIP_TEST(launch_full_queue_is_busy_or_waits) {
  slip_context_t *context = slip_launch_test_open_with(slip_launch_test_two_pending);
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  slip_stream_t stream = slip_launch_test_stream();
  int64_t state[4] = {0};
  uint32_t released = 0;
  slip_frame_t frame = {0};
  slip_fixture_frame_control(&frame, context, id, state, 0, 0);
  slip_launch_record_t record = {.struct_size = sizeof(record),
                                 .id = id,
                                 .context = context,
                                 .frame = &frame,
                                 .stream = stream,
                                 .flags = SLIP_LAUNCH_NO_WAIT,
                                 .release = slip_launch_test_count,
                                 .user = &released};
  SLIP_CHECK_OK(slip_launch(&record, NULL));
  SLIP_CHECK_OK(slip_launch(&record, NULL));
  SLIP_CHECK_ERROR(slip_launch(&record, NULL), SLIP_CODE_BUSY, "max_pending");
  SLIP_CHECK_EQ(released, 1);
  slip__thread_t opener = {0};
  SLIP_CHECK_OK(slip__thread_start(&opener, "opener", slip_launch_test_door_opener, &state[1]));
  record.flags = 0;
  SLIP_CHECK_OK(slip_launch(&record, NULL));  // waits until the door is open
  SLIP_CHECK(__atomic_load_n(&state[1], __ATOMIC_SEQ_CST) == 1);
  slip__thread_join(&opener);
  SLIP_CHECK_OK(slip_context_drain(context));
  SLIP_CHECK_EQ(released, 4);
  SLIP_CHECK_EQ(state[0], 3);
  SLIP_CHECK_EQ(slip_launch_test_stats(context).pending, 0);
  slip_frame_deinitialize(&frame);
  slip_launch_test_end(context);
  slip_launch_test_stream_end(stream);
}

static void slip_launch_test_slot_releaser(void *user) {
  usleep(20000);
  slip__slot_release(user, 0);
}

SLIP_TEST(launch_inline_waits_for_a_slot_or_is_busy) {
  slip_context_t *context = slip_launch_test_open();
  int32_t id = slip_fixture_prepare(context, slip_fixture_add());
  float x[1] = {1}, y[1] = {2}, z[1] = {0};
  uint32_t released = 0;
  slip_frame_t frame = {0};
  slip_fixture_frame_add(&frame, context, id, x, y, z, 1);
  slip_launch_record_t record = {.struct_size = sizeof(record),
                                 .id = id,
                                 .context = context,
                                 .frame = &frame,
                                 .stream = SLIP_STREAM_INLINE,
                                 .flags = SLIP_LAUNCH_NO_WAIT,
                                 .release = slip_launch_test_count,
                                 .user = &released};
  SLIP_CHECK_EQ(slip__slot_acquire(context, false), 0);
  SLIP_CHECK_OK(slip_launch(&record, NULL));  // the other slot
  SLIP_CHECK_EQ(slip__slot_acquire(context, false), 1);
  SLIP_CHECK_EQ(slip__slot_acquire(context, false), -1);
  SLIP_CHECK_ERROR(slip_launch(&record, NULL), SLIP_CODE_BUSY, "max_in_flight");
  SLIP_CHECK_EQ(released, 2);
  slip__thread_t releaser = {0};
  record.flags = 0;
  SLIP_CHECK_OK(slip__thread_start(&releaser, "releaser", slip_launch_test_slot_releaser, context));
  SLIP_CHECK_OK(slip_launch(&record, NULL));
  slip__thread_join(&releaser);
  SLIP_CHECK_EQ(released, 3);
  SLIP_CHECK(z[0] == 3);
  slip__slot_release(context, 1);
  slip_frame_deinitialize(&frame);
  slip_launch_test_end(context);
}

SLIP_TEST(launch_more_handles_than_pending_still_works) {
  slip_context_t *context = slip_launch_test_open_with(slip_launch_test_two_pending);
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  slip_stream_t stream = slip_launch_test_stream();
  int64_t state[4] = {0, 1, 0, 0};
  slip_frame_t frame = {0};
  slip_ticket_t *tickets[9];
  slip_fixture_frame_control(&frame, context, id, state, 0, 0);
  for (int i = 0; i < 9; ++i) SLIP_CHECK_OK(slip_context_launch(context, id, &frame, stream, &tickets[i]));
  for (int i = 8; i >= 0; --i) SLIP_CHECK_OK(slip_ticket_wait(tickets[i], -1));
  slip_frame_deinitialize(&frame);
  slip_launch_test_end(context);
  for (int i = 0; i < 9; ++i) slip_ticket_release(tickets[i]);
  SLIP_CHECK_EQ(state[0], 9);
  slip_launch_test_stream_end(stream);
}

SLIP_TEST(launch_refused_enqueue_leaves_no_trace) {
  slip_context_t *context = slip_launch_test_open_with(slip_launch_test_two_pending);
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  slip_stream_t stream = slip_launch_test_stream();
  int64_t state[4] = {0, 1, 0, 0};
  uint32_t released = 0;
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  slip_fixture_frame_control(&frame, context, id, state, 0, 0);
  slip_launch_record_t record = {.struct_size = sizeof(record),
                                 .id = id,
                                 .context = context,
                                 .frame = &frame,
                                 .stream = stream,
                                 .release = slip_launch_test_count,
                                 .user = &released};
  slip__platform_fault_set(SLIP__PLATFORM_CALL_STREAM_LAUNCH, 1, true);
  for (uint32_t i = 0; i < 5; ++i) {  // more often than there are places: none may be lost
    SLIP_CHECK_ERROR(slip_launch(&record, &ticket), SLIP_CODE_DEVICE, "enqueuing");
    SLIP_CHECK(ticket == NULL);
    SLIP_CHECK_EQ(released, i + 1);
  }
  slip__platform_fault_clear();
  SLIP_CHECK_EQ(slip_launch_test_stats(context).pending, 0);
  SLIP_CHECK_OK(slip_launch(&record, &ticket));
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  slip_ticket_release(ticket);
  slip_frame_deinitialize(&frame);
  slip_launch_test_end(context);
  slip_launch_test_stream_end(stream);
}

SLIP_TEST(launch_on_a_poisoned_context_chains_the_first_error) {
  slip_context_t *context = slip_launch_test_open();
  int32_t id = slip_fixture_prepare(context, slip_fixture_add()), other = 0;
  float x[1] = {1}, y[1] = {2}, z[1] = {0};
  slip_frame_t frame = {0};
  slip_fixture_frame_add(&frame, context, id, x, y, z, 1);
  slip__context_poison(context, SLIP_STATUS_PLATFORM(SLIP_CODE_DEVICE, 719, "the device fell over"));
  slip__context_poison(context, SLIP_STATUS(SLIP_CODE_INTERNAL, "a later one"));
  SLIP_CHECK_ERROR(slip_context_launch(context, id, &frame, SLIP_STREAM_INLINE, NULL), SLIP_CODE_POISONED, "the device fell over");
  SLIP_CHECK_ERROR(slip_context_drain(context), SLIP_CODE_POISONED, "the device fell over");
  SLIP_CHECK_CODE(slip_context_release(context, id), SLIP_CODE_POISONED);
  SLIP_CHECK_CODE(slip_context_prepare(context, (slip_const_bytes_t){NULL, 0}, &other), SLIP_CODE_POISONED);
  SLIP_CHECK_EQ(slip_launch_test_stats(context).refused, 1);
  slip_frame_deinitialize(&frame);
  slip_launch_test_end(context);
}

SLIP_TEST(launch_drain_waits_for_all_streams) {
  slip_context_t *context = slip_launch_test_open();
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  slip_stream_t streams[3];
  int64_t states[3][4] = {{0}};
  for (int i = 0; i < 3; ++i) {
    slip_frame_t frame = {0};
    streams[i] = slip_launch_test_stream();
    slip_fixture_frame_control(&frame, context, id, states[i], 0, 0);
    for (int k = 0; k < 5; ++k) SLIP_CHECK_OK(slip_context_launch(context, id, &frame, streams[i], NULL));
    slip_frame_deinitialize(&frame);
  }
  slip__thread_t openers[3] = {{0}};
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip__thread_start(&openers[i], "opener", slip_launch_test_door_opener, &states[2 - i][1]));
  SLIP_CHECK_OK(slip_context_drain(context));
  for (int i = 0; i < 3; ++i) SLIP_CHECK_EQ(states[i][0], 5);
  SLIP_CHECK_OK(slip_context_drain(context));
  for (int i = 0; i < 3; ++i) slip__thread_join(&openers[i]);
  slip_launch_test_end(context);
  for (int i = 0; i < 3; ++i) slip_launch_test_stream_end(streams[i]);
}

SLIP_TEST(launch_close_waits_for_what_is_pending) {
  slip_context_t *context = slip_launch_test_open();
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  slip_stream_t stream = slip_launch_test_stream();
  int64_t state[4] = {0};
  slip_frame_t frame = {0};
  slip_fixture_frame_control(&frame, context, id, state, 0, 0);
  for (int i = 0; i < 4; ++i) SLIP_CHECK_OK(slip_context_launch(context, id, &frame, stream, NULL));
  slip__thread_t opener = {0};
  SLIP_CHECK_OK(slip__thread_start(&opener, "opener", slip_launch_test_door_opener, &state[1]));
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_EQ(state[0], 4);
  slip__thread_join(&opener);
  SLIP_CHECK_ERROR(slip_context_launch(context, id, &frame, stream, NULL), SLIP_CODE_INVALID_STATE, "CLOSED");
  slip_frame_deinitialize(&frame);
  SLIP_CHECK_OK(slip_context_destroy(context));
  slip_launch_test_stream_end(stream);
}

// --- many threads ------------------------------------------------------------------------------------------------------------------------

typedef struct slip_launch_test_worker_t {
  slip__thread_t thread;
  slip_context_t *context;
  slip_stream_t stream;
  int32_t id;
  uint32_t rounds;
  uint32_t refused;
  _Atomic uint32_t started;
  float x[1], y[1], z[1];  // they outlive the thread: launches of it may still run when it has ended
} slip_launch_test_worker_t;

static void slip_launch_test_worker(void *user) {
  slip_launch_test_worker_t *w = user;
  for (uint32_t i = 0; i < w->rounds; ++i) slip_launch_test_add(w->context, w->id, w->stream, (float)i);
}

SLIP_TEST(launch_from_several_threads_and_streams) {
  slip_context_t *context = slip_launch_test_open();
  slip_launch_test_worker_t workers[4] = {0};
  int32_t id = slip_fixture_prepare(context, slip_fixture_add());
  slip_stream_t shared = slip_launch_test_stream();
  for (int i = 0; i < 4; ++i) {
    workers[i] = (slip_launch_test_worker_t){.context = context, .id = id, .rounds = 300, .stream = i < 2 ? SLIP_STREAM_INLINE : shared};
    SLIP_CHECK_OK(slip__thread_start(&workers[i].thread, "launcher", slip_launch_test_worker, &workers[i]));
  }
  for (int i = 0; i < 4; ++i) slip__thread_join(&workers[i].thread);
  slip_context_stats_t stats = slip_launch_test_stats(context);
  SLIP_CHECK_EQ(stats.launches, 1200);
  SLIP_CHECK_EQ(stats.retired, 1200);
  SLIP_CHECK_EQ(stats.tasks, 1200);
  slip_launch_test_end(context);
  slip_launch_test_stream_end(shared);
}

static void slip_launch_test_until_closed(void *user) {
  slip_launch_test_worker_t *w = user;
  slip_frame_t frame = {0};
  slip_fixture_frame_add(&frame, w->context, w->id, w->x, w->y, w->z, 1);
  for (;;) {
    slip_status_t status = slip_context_launch(w->context, w->id, &frame, w->stream, NULL);
    slip_code_t code = slip_status_code(status);
    slip_status_free(status);
    if (code == SLIP_CODE_OK) {
      ++w->rounds;
      atomic_store(&w->started, 1);
      continue;
    }
    w->refused = code == SLIP_CODE_INVALID_STATE;
    break;
  }
  slip_frame_deinitialize(&frame);
}

SLIP_TEST(launch_races_with_close_without_loss) {
  for (int round = 0; round < 20; ++round) {
    slip_context_t *context = slip_launch_test_open();
    slip_launch_test_worker_t workers[3] = {0};
    int32_t id = slip_fixture_prepare(context, slip_fixture_add());
    slip_stream_t stream = slip_launch_test_stream();
    for (int i = 0; i < 3; ++i) {
      workers[i] = (slip_launch_test_worker_t){.context = context, .id = id, .stream = i == 0 ? SLIP_STREAM_INLINE : stream};
      SLIP_CHECK_OK(slip__thread_start(&workers[i].thread, "launcher", slip_launch_test_until_closed, &workers[i]));
    }
    for (int i = 0; i < 3; ++i) {
      while (!atomic_load(&workers[i].started)) usleep(100);
    }
    SLIP_CHECK_OK(slip_context_close(context));
    for (int i = 0; i < 3; ++i) {
      slip__thread_join(&workers[i].thread);
      SLIP_CHECK_EQ(workers[i].refused, 1);
    }
    SLIP_CHECK_EQ(atomic_load(&context->admitted), workers[1].rounds + workers[2].rounds);
    SLIP_CHECK_EQ(atomic_load(&context->retired), workers[1].rounds + workers[2].rounds);
    SLIP_CHECK_OK(slip_context_destroy(context));
    slip_launch_test_stream_end(stream);
  }
}

// Launches while the callable is released and prepared again under other ids: each launch either computes or is NOT_PREPARED.
typedef struct slip_launch_test_churn_t {
  slip_launch_test_worker_t workers[3];
  _Atomic int32_t id;
  _Atomic uint32_t stop;
  _Atomic uint32_t launched;
} slip_launch_test_churn_t;

static slip_launch_test_churn_t slip_launch_test_churn;

static void slip_launch_test_churner(void *user) {
  slip_launch_test_worker_t *w = user;
  float x[1] = {1}, y[1] = {2}, z[1] = {0};
  slip_frame_t frame = {0};
  slip_fixture_frame_add(&frame, w->context, w->id, x, y, z, 1);
  while (!atomic_load(&slip_launch_test_churn.stop)) {
    slip_status_t status = slip_context_launch(w->context, atomic_load(&slip_launch_test_churn.id), &frame, w->stream, NULL);
    slip_code_t code = slip_status_code(status);
    slip_status_free(status);
    if (code != SLIP_CODE_OK && code != SLIP_CODE_NOT_PREPARED) {
      w->refused = 1;
      break;
    }
    if (code == SLIP_CODE_OK) atomic_fetch_add(&slip_launch_test_churn.launched, 1);
  }
  SLIP_CHECK_OK(slip_context_drain(w->context));
  slip_frame_deinitialize(&frame);
}

SLIP_TEST(launch_races_with_release_and_prepare) {
  slip_context_t *context = slip_launch_test_open();
  slip_stream_t stream = slip_launch_test_stream();
  slip_fixture_t fixture = slip_fixture_add();
  slip_bytes_t image = slip_fixture_pack(&fixture);
  int32_t keep = slip_fixture_prepare(context, slip_fixture_add()), id = slip_fixture_prepare(context, slip_fixture_add());
  atomic_store(&slip_launch_test_churn.id, id);
  for (int i = 0; i < 3; ++i) {
    slip_launch_test_worker_t *w = &slip_launch_test_churn.workers[i];
    *w = (slip_launch_test_worker_t){.context = context, .id = keep, .stream = i == 0 ? SLIP_STREAM_INLINE : stream};
    SLIP_CHECK_OK(slip__thread_start(&w->thread, "churner", slip_launch_test_churner, w));
  }
  for (int round = 0; round < 200; ++round) {
    uint32_t launched = atomic_load(&slip_launch_test_churn.launched);
    while (round % 10 == 0 && atomic_load(&slip_launch_test_churn.launched) < launched + 3) usleep(50);
    SLIP_CHECK_OK(slip_context_release(context, id));
    SLIP_CHECK_OK(slip_context_prepare(context, slip_fixture_bytes(image), &id));
    atomic_store(&slip_launch_test_churn.id, id);
  }
  atomic_store(&slip_launch_test_churn.stop, 1);
  for (int i = 0; i < 3; ++i) {
    slip__thread_join(&slip_launch_test_churn.workers[i].thread);
    SLIP_CHECK_EQ(slip_launch_test_churn.workers[i].refused, 0);
  }
  slip_context_stats_t stats = slip_launch_test_stats(context);
  SLIP_CHECK_EQ(stats.callables, 2);
  SLIP_CHECK_EQ(stats.launches, atomic_load(&slip_launch_test_churn.launched));
  SLIP_CHECK_EQ(stats.retired, stats.launches);
  slip_fixture_free(image);
  slip_launch_test_end(context);
  slip_launch_test_stream_end(stream);
}

SLIP_TEST(launch_residency_returns_when_the_last_launch_has_retired) {
  slip_context_t *context = slip_launch_test_open();
  int32_t id = slip_fixture_prepare(context, slip_fixture_control());
  slip_stream_t stream = slip_launch_test_stream();
  int64_t state[4] = {0};
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  slip_fixture_frame_control(&frame, context, id, state, 3, 0);
  SLIP_CHECK_OK(slip_context_launch(context, id, &frame, stream, &ticket));
  SLIP_CHECK_OK(slip_context_release(context, id));
  SLIP_CHECK_CODE(slip_context_launch(context, id, &frame, stream, NULL), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK(slip_launch_test_stats(context).resident_bytes > 0);  // its code is running
  __atomic_store_n(&state[1], 1, __ATOMIC_SEQ_CST);
  SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
  SLIP_CHECK_EQ(slip_launch_test_stats(context).resident_bytes, 0);
  SLIP_CHECK_EQ(state[3], 3);
  slip_ticket_release(ticket);
  slip_frame_deinitialize(&frame);
  slip_launch_test_end(context);
  slip_launch_test_stream_end(stream);
}
