// SPDX-License-Identifier: Apache-2.0
// What a capture forbids (30.7), on a cpu platform that claims to be capturing: refused, with nothing asked of the platform but that.
#include "fixture.h"
#include "kernel_mode/context.h"
#include "platform/registry.h"

static uint32_t slip_refusal_state;  // slip_capture_state_e
static slip_status_t slip_refusal_capture_info(slip_capture_info_t *out) {
  out->state = slip_refusal_state;
  out->id = slip_refusal_state == SLIP_CAPTURE_NONE ? 0 : 77;
  return slip_ok_status();
}

static slip_status_t slip_refusal_begin(slip_stream_t stream, uint32_t mode) {
  (void)stream;
  (void)mode;
  return slip_ok_status();
}
static slip_status_t slip_refusal_end(slip_stream_t stream, slip_graph_exec_t *out) {
  (void)stream;
  (void)out;
  return slip_ok_status();
}
static slip_status_t slip_refusal_retain(slip_stream_t stream, void (*release)(void *user), void *user) {
  (void)stream;
  (void)release;
  (void)user;
  return slip_ok_status();
}
static slip_status_t slip_refusal_launch(slip_graph_exec_t graph, slip_stream_t stream) {
  (void)graph;
  (void)stream;
  return slip_ok_status();
}
static slip_status_t slip_refusal_destroy(slip_graph_exec_t graph) {
  (void)graph;
  return slip_ok_status();
}

// From here on "cpu" has captures. The test's process ends with the test.
static slip_platform_t *slip_refusal_install(void) {
  static slip_platform_vtable_t table;
  slip_platform_t *platform = NULL;
  SLIP_CHECK_OK(slip_platform_find("cpu", &platform));
  table = slip__cpu_platform;
  table.thread_capture_info = slip_refusal_capture_info;
  table.capture_begin = slip_refusal_begin;
  table.capture_end = slip_refusal_end;
  table.capture_retain = slip_refusal_retain;
  table.graph_launch = slip_refusal_launch;
  table.graph_destroy = slip_refusal_destroy;
  platform->vtable = &table;
  return platform;
}

// Calls of anything that could disturb a capture, since the counters were reset.
static uint64_t slip_refusal_unsafe_calls(void) {
  uint64_t calls = 0;
  for (uint32_t i = 0; i < SLIP__PLATFORM_CALL_COUNT; ++i) {
    bool safe = i == SLIP__PLATFORM_CALL_LOAD || i == SLIP__PLATFORM_CALL_HANDSHAKE || i == SLIP__PLATFORM_CALL_DEVICE_COUNT ||
                i == SLIP__PLATFORM_CALL_THREAD_CAPTURE_INFO;
    if (!safe) calls += slip__platform_counter((slip__platform_call_e)i);
  }
  return calls;
}

#define SLIP_REFUSAL_CHECK(expression)                                                 \
  do {                                                                                 \
    slip__platform_counters_reset();                                                   \
    SLIP_CHECK_ERROR((expression), SLIP_CODE_CAPTURE_UNSUPPORTED, "capture 77");       \
    SLIP_CHECK_EQ(slip_refusal_unsafe_calls(), 0);                                     \
    SLIP_CHECK_EQ(slip__platform_counter(SLIP__PLATFORM_CALL_THREAD_CAPTURE_INFO), 1); \
  } while (0)

static slip_context_t *slip_refusal_open(void) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  return context;
}

SLIP_TEST(refusal_open_in_a_capture_claims_nothing) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  (void)slip_refusal_install();
  for (slip_refusal_state = SLIP_CAPTURE_ACTIVE; slip_refusal_state <= SLIP_CAPTURE_INVALIDATED; ++slip_refusal_state) {
    SLIP_REFUSAL_CHECK(slip_context_open(&options, &context));
    SLIP_CHECK(context == NULL);
    SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  }
  slip_refusal_state = SLIP_CAPTURE_NONE;
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  slip_refusal_state = SLIP_CAPTURE_ACTIVE;
  slip_context_t *again = context;
  SLIP_REFUSAL_CHECK(slip_context_open(&options, &again));  // also where the answer would need no work
  SLIP_CHECK(again == NULL);
  slip_refusal_state = SLIP_CAPTURE_NONE;
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip_context_destroy(context));
}

SLIP_TEST(refusal_operations_in_a_capture_do_nothing) {
  (void)slip_refusal_install();
  slip_context_t *context = slip_refusal_open();
  slip_fixture_t fixture = slip_fixture_add();
  int32_t kept = slip_fixture_prepare(context, fixture), id = 0;
  slip_bytes_t image = slip_fixture_pack(&fixture);
  for (slip_refusal_state = SLIP_CAPTURE_ACTIVE; slip_refusal_state <= SLIP_CAPTURE_INVALIDATED; ++slip_refusal_state) {
    id = 5;
    SLIP_REFUSAL_CHECK(slip_context_prepare(context, slip_fixture_bytes(image), &id));
    SLIP_CHECK_EQ(id, -1);
    id = 5;
    SLIP_REFUSAL_CHECK(slip_context_prepare_artifact(context, NULL, &id));
    SLIP_CHECK_EQ(id, -1);
    SLIP_REFUSAL_CHECK(slip_context_release(context, kept));
    SLIP_REFUSAL_CHECK(slip_context_drain(context));
    SLIP_REFUSAL_CHECK(slip_context_close(context));
    SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_READY);
  }
  slip_refusal_state = SLIP_CAPTURE_NONE;
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_OK(slip_context_stats(context, &stats));
  SLIP_CHECK_EQ(stats.callables, 1);
  SLIP_CHECK_OK(slip_context_prepare(context, slip_fixture_bytes(image), &id));
  SLIP_CHECK_EQ(id, kept + 1);  // the refused ones minted nothing
  SLIP_CHECK_OK(slip_context_release(context, kept));
  SLIP_CHECK_OK(slip_context_drain(context));
  SLIP_CHECK_OK(slip_context_close(context));
  slip_refusal_state = SLIP_CAPTURE_ACTIVE;
  SLIP_CHECK_OK(slip_context_close(context));  // closed already: nothing that a capture could mind
  SLIP_CHECK_OK(slip_context_destroy(context));
  slip_fixture_free(image);
}

// Asking may fail, too: then nothing was done either. Close alone asks again, and then goes on.
SLIP_TEST(refusal_when_the_platform_cannot_tell) {
  (void)slip_refusal_install();
  slip_context_t *context = slip_refusal_open(), *again = NULL;
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  int32_t id = 5;
  slip__platform_fault_set(SLIP__PLATFORM_CALL_THREAD_CAPTURE_INFO, 1, true);
  SLIP_CHECK_ERROR(slip_context_open(&options, &again), SLIP_CODE_DEVICE, "asking for captures before open");
  SLIP_CHECK_ERROR(slip_context_prepare(context, (slip_const_bytes_t){NULL, 0}, &id), SLIP_CODE_DEVICE, "before prepare");
  SLIP_CHECK_EQ(id, -1);
  SLIP_CHECK_ERROR(slip_context_release(context, 0), SLIP_CODE_DEVICE, "before release");
  SLIP_CHECK_ERROR(slip_context_drain(context), SLIP_CODE_DEVICE, "before drain");
  slip__platform_fault_clear();
  // Once: the second answer counts.
  slip_refusal_state = SLIP_CAPTURE_ACTIVE;
  slip__platform_fault_set(SLIP__PLATFORM_CALL_THREAD_CAPTURE_INFO, 1, false);
  SLIP_CHECK_ERROR(slip_context_close(context), SLIP_CODE_CAPTURE_UNSUPPORTED, "capture 77");
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_READY);
  // For good: no close could ever begin.
  slip__platform_counters_reset();
  slip__platform_fault_set(SLIP__PLATFORM_CALL_THREAD_CAPTURE_INFO, 1, true);
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK(slip__platform_counter(SLIP__PLATFORM_CALL_THREAD_CAPTURE_INFO) >= 2);  // asked anew before each stage
  slip__platform_fault_clear();
  slip__platform_counters_stop();
  SLIP_CHECK_EQ(slip_context_state(context), SLIP_CONTEXT_CLOSED);
  SLIP_CHECK_OK(slip_context_destroy(context));
}
