// SPDX-License-Identifier: Apache-2.0
#include "platform/dispatch.h"

#include "os/file.h"
#include "platform/build.h"
#include "platform/registry.h"
#include "slip_test.h"

static slip_platform_t *dispatch_find(const char *name) {
  slip_platform_t *platform = NULL;
  SLIP_CHECK_OK(slip_platform_find(name, &platform));
  return platform;
}

// Allocates nothing, so the counter below proves that a check came before the call.
static void dispatch_note(void *user) {
  ++*(int *)user;
}

SLIP_TEST(registry_finds_by_name) {
  slip_platform_t *platform = (slip_platform_t *)&platform;
  SLIP_CHECK_ERROR(slip_platform_find("abacus", &platform), SLIP_CODE_NOT_FOUND, "it has \"cpu\", \"sim\", \"null\"");
  SLIP_CHECK(platform == NULL);
  SLIP_CHECK_CODE(slip_platform_find(NULL, &platform), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_platform_find("cpu", NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_STR(slip_platform_name_at(0), "cpu");
  size_t count = 0;
  while (slip_platform_name_at(count)) {
    SLIP_CHECK_STR(slip__platform_name(dispatch_find(slip_platform_name_at(count))), slip_platform_name_at(count));
    ++count;
  }
  SLIP_CHECK_EQ(count, 3);
  SLIP_CHECK(dispatch_find("cpu") == dispatch_find("cpu"));
  SLIP_CHECK_EQ(slip__platform_code(dispatch_find("cpu")), SLIP_PLATFORM_CPU);
  SLIP_CHECK_EQ(slip__platform_code(dispatch_find("sim")), SLIP_PLATFORM_SIM);
  SLIP_CHECK_EQ(slip__platform_code(dispatch_find("null")), SLIP_PLATFORM_NULL);
}

SLIP_TEST(dispatch_refuses_null_and_range_before_the_backend) {
  slip_platform_t *cpu = dispatch_find("cpu");
  void *out = &out;
  int runs = 0, number = 0;
  slip_device_properties_t properties;
  slip__platform_counters_reset();
  SLIP_CHECK_CODE(slip_stream_create(NULL, 0, &out), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK(out == NULL);
  SLIP_CHECK_CODE(slip_stream_create(cpu, 0, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_ERROR(slip_stream_create(cpu, 1, &out), SLIP_CODE_INVALID_ARGUMENT, "devices 0 to 0");
  SLIP_CHECK_CODE(slip_stream_create(cpu, -1, &out), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_ERROR(slip_stream_enqueue_host(cpu, NULL, dispatch_note, &runs), SLIP_CODE_INVALID_ARGUMENT, "null stream");
  SLIP_CHECK_CODE(slip_stream_enqueue_host(cpu, SLIP_STREAM_INLINE, NULL, &runs), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_synchronize(cpu, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_query(cpu, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_destroy(cpu, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_event_record(cpu, NULL, SLIP_STREAM_INLINE), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_event_destroy(cpu, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_copy(cpu, 0, NULL, &runs, 4, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_copy(cpu, 0, &runs, &runs, 4, 9), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_copy_async(cpu, NULL, &runs, &runs, 4, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_allocate(cpu, 0, UINT64_MAX, &out), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK_CODE(slip_platform_device_properties(cpu, 7, &properties), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_platform_device_count(cpu, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip__platform_module_load(cpu, 0, (slip_const_bytes_t){NULL, 0}, (slip_module_t *)&out), SLIP_CODE_CORRUPT);
  SLIP_CHECK(!slip_platform_target_supported(cpu, 5, "x86-64-v2"));
  SLIP_CHECK(!slip_platform_target_supported(cpu, 0, NULL));
  // These are fine and need no backend either.
  SLIP_CHECK_OK(slip_memory_allocate(cpu, 0, 0, &out));
  SLIP_CHECK(out == NULL);
  SLIP_CHECK_OK(slip_memory_free(cpu, 0, NULL));
  SLIP_CHECK_OK(slip_memory_copy(cpu, 0, NULL, NULL, 0, SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(slip__platform_module_unload(cpu, NULL));
  SLIP_CHECK_OK(slip__platform_device_push(cpu, 0));
  SLIP_CHECK_OK(slip__platform_device_pop(cpu, 0));
  for (number = 0; number < SLIP__PLATFORM_CALL_COUNT; ++number) SLIP_CHECK_EQ(slip__platform_counter((slip__platform_call_e)number), 0);
  SLIP_CHECK_EQ(runs, 0);
}

SLIP_TEST(dispatch_answers_for_missing_optional_entries) {
  slip_platform_t *cpu = dispatch_find("cpu");
  slip_graph_exec_t graph = NULL;
  SLIP_CHECK_ERROR(slip_stream_capture_begin(cpu, SLIP_STREAM_INLINE, 0), SLIP_CODE_UNSUPPORTED, "capture_begin");
  SLIP_CHECK_CODE(slip_stream_capture_end(cpu, SLIP_STREAM_INLINE, &graph), SLIP_CODE_UNSUPPORTED);
  SLIP_CHECK_CODE(slip_graph_exec_launch(cpu, (slip_graph_exec_t)&graph, SLIP_STREAM_INLINE), SLIP_CODE_UNSUPPORTED);
  SLIP_CHECK_CODE(slip_graph_exec_destroy(cpu, (slip_graph_exec_t)&graph), SLIP_CODE_UNSUPPORTED);
}

SLIP_TEST(dispatch_counts_and_fails_the_nth_call) {
  slip_platform_t *cpu = dispatch_find("cpu");
  int runs = 0;
  slip__platform_counters_reset();
  slip__platform_fault_set(SLIP__PLATFORM_CALL_STREAM_ENQUEUE_HOST, 3, false);
  for (int i = 1; i <= 5; ++i) {
    slip_status_t status = slip_stream_enqueue_host(cpu, SLIP_STREAM_INLINE, dispatch_note, &runs);
    SLIP_CHECK_EQ(slip_status_platform_code(status), i == 3 ? SLIP__PLATFORM_INJECTED : 0);
    SLIP_CHECK_CODE(status, i == 3 ? SLIP_CODE_DEVICE : SLIP_CODE_OK);
  }
  SLIP_CHECK_EQ(runs, 4);
  SLIP_CHECK_EQ(slip__platform_counter(SLIP__PLATFORM_CALL_STREAM_ENQUEUE_HOST), 5);
  slip__platform_fault_set(SLIP__PLATFORM_CALL_MEMORY_ALLOCATE, 2, true);
  for (int i = 1; i <= 4; ++i) {
    void *memory = &memory;
    SLIP_CHECK_CODE(slip_memory_allocate(cpu, 0, 64, &memory), i >= 2 ? SLIP_CODE_OUT_OF_MEMORY : SLIP_CODE_OK);
    SLIP_CHECK_EQ(memory == NULL, i >= 2);
    SLIP_CHECK_OK(slip_memory_free(cpu, 0, memory));
  }
  slip__platform_fault_clear();
  SLIP_CHECK_OK(slip_stream_enqueue_host(cpu, SLIP_STREAM_INLINE, dispatch_note, &runs));
  slip__platform_counters_stop();
  SLIP_CHECK_OK(slip_stream_enqueue_host(cpu, SLIP_STREAM_INLINE, dispatch_note, &runs));
  SLIP_CHECK_EQ(slip__platform_counter(SLIP__PLATFORM_CALL_STREAM_ENQUEUE_HOST), 6);
  SLIP_CHECK_EQ(runs, 6);
}

static void dispatch_log(void *user, const char *platform, slip__platform_call_e call, slip_code_t code) {
  char *text = user;
  size_t used = strlen(text);
  snprintf(text + used, 200 - used, "%s.%s=%d ", platform, slip__platform_call_name(call), code);
}

SLIP_TEST(dispatch_logs_calls_with_their_codes) {
  slip_platform_t *cpu = dispatch_find("cpu");
  char text[200] = "";
  slip__platform_log_set(dispatch_log, text);
  SLIP_CHECK_OK(slip_stream_query(cpu, SLIP_STREAM_INLINE));
  SLIP_CHECK_CODE(slip_stream_destroy(cpu, SLIP_STREAM_INLINE), SLIP_CODE_INVALID_ARGUMENT);
  slip__platform_log_set(NULL, NULL);
  SLIP_CHECK_OK(slip_stream_query(cpu, SLIP_STREAM_INLINE));
  SLIP_CHECK_STR(text, "cpu.stream_query=0 cpu.stream_destroy=-4 ");
}

SLIP_TEST(handshake_mismatches_are_refused) {
  const slip_platform_handshake_t good = {SLIP_PLATFORM_ABI_VERSION, 0, SLIP__PLATFORM_SANITIZER, 0, SLIP__PLATFORM_BUILD_ID, "1"};
  slip_platform_handshake_t bad = good;
  SLIP_CHECK_OK(slip__platform_handshake_check("x", &good, false));
  bad.abi_version = 99;
  SLIP_CHECK_ERROR(slip__platform_handshake_check("x", &bad, true), SLIP_CODE_INCOMPATIBLE, "ABI 99");
  bad = good;
  bad.sanitizer = good.sanitizer + 1;
  SLIP_CHECK_ERROR(slip__platform_handshake_check("x", &bad, true), SLIP_CODE_INCOMPATIBLE, "sanitizer");
  bad = good;
  bad.build_id = "";
  SLIP_CHECK_ERROR(slip__platform_handshake_check("x", &bad, false), SLIP_CODE_INCOMPATIBLE, "no build identity");
  bad.build_id = NULL;
  SLIP_CHECK_CODE(slip__platform_handshake_check("x", &bad, false), SLIP_CODE_INCOMPATIBLE);
  SLIP_CHECK_OK(slip__platform_handshake_check("x", &bad, true));
  bad.build_id = "another build";
  SLIP_CHECK_ERROR(slip__platform_handshake_check("x", &bad, false), SLIP_CODE_INCOMPATIBLE, "another build");
  SLIP_CHECK_OK(slip__platform_handshake_check("x", &bad, true));
}

SLIP_TEST(load_binds_all_or_nothing_and_may_be_repeated) {
  slip_platform_vtable_t table = slip__null_platform;
  slip_platform_t platform = {.vtable = &table};
  table.pointer_info = NULL;
  SLIP_CHECK_ERROR(slip__platform_load(&platform), SLIP_CODE_INTERNAL, "pointer_info");
  table = slip__null_platform;
  table.struct_size -= 8;
  SLIP_CHECK_CODE(slip__platform_load(&platform), SLIP_CODE_INCOMPATIBLE);
  table = slip__null_platform;
  const slip__platform_call_e calls[] = {SLIP__PLATFORM_CALL_LOAD, SLIP__PLATFORM_CALL_HANDSHAKE, SLIP__PLATFORM_CALL_DEVICE_COUNT};
  const slip_code_t codes[] = {SLIP_CODE_UNSUPPORTED, SLIP_CODE_UNSUPPORTED, SLIP_CODE_DEVICE};
  for (size_t i = 0; i < 3; ++i) {
    slip__platform_fault_set(calls[i], 1, false);
    SLIP_CHECK_CODE(slip__platform_load(&platform), codes[i]);
    SLIP_CHECK(!platform.ready);
  }
  SLIP_CHECK_OK(slip__platform_load(&platform));
  slip__platform_counters_reset();
  SLIP_CHECK_OK(slip__platform_load(&platform));
  SLIP_CHECK_EQ(slip__platform_counter(SLIP__PLATFORM_CALL_LOAD), 0);
  SLIP_CHECK_EQ(platform.device_count, 1);
}

static slip_status_t dispatch_foreign_handshake(slip_platform_handshake_t *out) {
  SLIP_RETURN_IF_ERROR(slip__null_platform.handshake(out));
  out->build_id = "of another build";
  return slip_ok_status();
}

SLIP_TEST(load_keeps_a_foreign_build_identity_for_others_to_judge) {
  slip_platform_vtable_t table = slip__null_platform;
  slip_platform_t platform = {.vtable = &table};
  table.handshake = dispatch_foreign_handshake;
  SLIP_CHECK_OK(slip__platform_load(&platform));
  SLIP_CHECK_ERROR(slip_platform_check_build(&platform, NULL), SLIP_CODE_INCOMPATIBLE, "of another build");
}

SLIP_TEST(porting_guide_lists_every_call) {
  char path[1024];
  slip_bytes_t guide;
  snprintf(path, sizeof(path), "%s", __FILE__);
  char *source = strstr(path, "src/platform/dispatch_test.c");
  SLIP_CHECK(source != NULL);
  snprintf(source, sizeof(path) - (size_t)(source - path), "docs/porting.md");
  SLIP_CHECK_OK(slip__file_read(path, 1u << 20, slip_allocator_system(), &guide));
  for (int call = 0; call < SLIP__PLATFORM_CALL_COUNT; ++call) {
    char row[64];
    snprintf(row, sizeof(row), "\n| `%s` | ", slip__platform_call_name((slip__platform_call_e)call));
    if (!strstr((char *)guide.data, row)) slip_test_fail(__FILE__, __LINE__, "docs/porting.md has no row for %s", row + 3);
  }
  free(guide.data);
}

// The recipe answers every call that it cannot do, with the exact code.
SLIP_TEST(null_platform_answers_unsupported) {
  slip_platform_t *null = dispatch_find("null");
  void *out = NULL, *some = &out;
  slip_capture_info_t capture;
  slip_pointer_info_t pointer;
  int32_t device = 0;
  int runs = 0;
  slip_const_bytes_t bytes = {(const uint8_t *)"x", 1};
  const slip_status_t answers[] = {
      slip_stream_create(null, 0, &out),
      slip_stream_destroy(null, some),
      slip_stream_synchronize(null, some),
      slip_stream_query(null, some),
      slip__platform_stream_device(null, some, &device),
      slip_stream_capture_info(null, some, &capture),
      slip_stream_enqueue_host(null, some, dispatch_note, &runs),
      slip_stream_wait_event(null, some, some),
      slip_event_create(null, 0, &out),
      slip_event_destroy(null, some),
      slip_event_record(null, some, some),
      slip_event_query(null, some),
      slip_event_synchronize(null, some),
      slip_memory_allocate(null, 0, 8, &out),
      slip_memory_free(null, 0, some),
      slip_memory_copy(null, 0, some, some, 8, SLIP_COPY_HOST_TO_DEVICE),
      slip_memory_copy_async(null, some, some, some, 8, SLIP_COPY_HOST_TO_DEVICE),
      slip__platform_memory_fill(null, 0, some, 0, 8),
      slip__platform_module_load(null, 0, bytes, (slip_module_t *)&out),
      slip__platform_module_unload(null, some),
      slip__platform_module_symbol(null, some, "x", &out),
      slip_stream_capture_begin(null, some, 0),
  };
  for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); ++i) SLIP_CHECK_CODE(answers[i], SLIP_CODE_UNSUPPORTED);
  SLIP_CHECK(out == NULL && runs == 0);
  SLIP_CHECK_OK(slip__platform_pointer_info(null, some, &pointer));
  SLIP_CHECK_EQ(pointer.kind, SLIP_POINTER_UNKNOWN);
}
