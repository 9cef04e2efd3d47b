// SPDX-License-Identifier: Apache-2.0
// Every call of a working program made to fail, each in turn: the failure comes back as it is, with its code and number, and the same
// program works afterwards with what it had.
#include "device_work.h"
#include "slip_test_object.h"

// What a program holds. Each is given back once; a failed release keeps it and is repeated.
typedef struct conform_held_t {
  slip_platform_t *platform;
  slip_const_bytes_t object;  // a module's bytes
  slip_stream_t stream;
  slip_event_t event;
  void *memory, *pinned;
  slip_module_t module;
  slip_graph_exec_t graph;
  bool bound, capturing;
  uint32_t retained, released;
} conform_held_t;

static void conform_fault_released(void *user) {
  ++((conform_held_t *)user)->released;
}

// --- giving back

static slip_status_t conform_give(slip_status_t status, slip_status_t step, void **what) {
  if (slip_status_is_ok(step)) *what = NULL;
  return slip_status_join(status, step);
}

static slip_status_t conform_fault_end_capture(conform_held_t *held) {
  if (!held->capturing) return slip_ok_status();
  slip_status_t status = slip_stream_capture_end(held->platform, held->stream, &held->graph);
  if (slip_status_is_ok(status)) held->capturing = false;
  return status;
}

static slip_status_t conform_fault_pop(conform_held_t *held) {
  if (!held->bound) return slip_ok_status();
  slip_status_t status = slip__platform_device_pop(held->platform, 0);
  if (slip_status_is_ok(status)) held->bound = false;
  return status;
}

static slip_status_t conform_give_back(conform_held_t *held) {
  slip_platform_t *platform = held->platform;
  slip_status_t status = slip_ok_status();
  for (int attempt = 0; attempt < 2; ++attempt) {
    status = slip_status_join(status, conform_fault_end_capture(held));
    if (held->graph) status = conform_give(status, slip_graph_exec_destroy(platform, held->graph), (void **)&held->graph);
    if (held->stream) status = conform_give(status, slip_stream_destroy(platform, held->stream), &held->stream);
    if (held->event) status = conform_give(status, slip_event_destroy(platform, held->event), &held->event);
    if (held->memory) status = conform_give(status, slip_memory_free(platform, 0, held->memory), &held->memory);
    if (held->pinned) status = conform_give(status, slip_host_free(platform, held->pinned), &held->pinned);
    if (held->module) status = conform_give(status, slip__platform_module_unload(platform, held->module), (void **)&held->module);
    status = slip_status_join(status, conform_fault_pop(held));
  }
  SLIP_CHECK(!held->stream && !held->event && !held->memory && !held->pinned && !held->module && !held->graph);
  SLIP_CHECK(!held->bound && !held->capturing);
  SLIP_CHECK_EQ(held->released, held->retained);
  return status;
}

// --- the program, in parts that each do nothing where |status| is a failure already

static slip_status_t conform_fault_devices(conform_held_t *held) {
  int32_t number = 0;
  slip_device_properties_t properties;
  slip_status_t status = slip_platform_device_count(held->platform, &number);
  if (slip_status_is_ok(status)) status = slip_platform_device_properties(held->platform, 0, &properties);
  if (slip_status_is_ok(status)) status = slip__platform_device_current(held->platform, &number);
  if (slip_status_is_ok(status)) status = slip__platform_device_push(held->platform, 0);
  if (slip_status_is_ok(status)) held->bound = true;
  return status;
}

static slip_status_t conform_fault_make(conform_held_t *held) {
  slip_platform_t *platform = held->platform;
  slip_pointer_info_t pointer;
  slip_status_t status = slip_stream_create(platform, 0, &held->stream);
  if (slip_status_is_ok(status)) status = slip_event_create(platform, 0, &held->event);
  if (slip_status_is_ok(status)) status = slip_memory_allocate(platform, 0, sizeof(uint64_t), &held->memory);
  if (slip_status_is_ok(status)) status = slip_host_allocate(platform, sizeof(uint64_t), &held->pinned);
  if (slip_status_is_ok(status)) status = slip__platform_pointer_info(platform, held->memory, &pointer);
  return status;
}

// Waits for the stream as a step of the program; if that is made to fail or was not reached, as the test's own wait.
static slip_status_t conform_fault_settle(conform_held_t *held, slip_status_t status) {
  if (slip_status_is_ok(status)) status = slip_stream_synchronize(held->platform, held->stream);
  if (slip_status_is_ok(status)) return status;
  slip__platform_fault_clear();
  SLIP_CHECK_OK(slip_stream_synchronize(held->platform, held->stream));
  return status;
}

static slip_status_t conform_fault_streams(conform_held_t *held) {
  slip_platform_t *platform = held->platform;
  uint64_t value = 41, back = 0, runs = 0;
  slip_capture_info_t capture;
  int32_t device = 0;
  slip_status_t status = slip__platform_memory_fill(platform, 0, held->memory, 0, sizeof(value));
  if (slip_status_is_ok(status)) status = slip__platform_stream_device(platform, held->stream, &device);
  if (slip_status_is_ok(status)) status = slip_stream_capture_info(platform, held->stream, &capture);
  if (slip_status_is_ok(status)) status = slip__platform_thread_capture_info(platform, &capture);
  *(uint64_t *)held->pinned = value;
  if (slip_status_is_ok(status))
    status = slip_memory_copy_async(platform, held->stream, held->memory, held->pinned, sizeof(value), SLIP_COPY_HOST_TO_DEVICE);
  if (slip_status_is_ok(status)) status = slip_stream_enqueue_host(platform, held->stream, conform_count, &runs);
  if (slip_status_is_ok(status)) status = slip_event_record(platform, held->event, held->stream);
  if (slip_status_is_ok(status)) status = slip_stream_wait_event(platform, held->stream, held->event);
  if (slip_status_is_ok(status)) status = slip_event_synchronize(platform, held->event);
  if (slip_status_is_ok(status)) status = slip_event_query(platform, held->event);
  status = conform_fault_settle(held, status);  // what was enqueued uses |runs|
  if (slip_status_is_ok(status)) status = slip_stream_query(platform, held->stream);
  if (slip_status_is_ok(status)) status = slip_memory_copy(platform, 0, &back, held->memory, sizeof(back), SLIP_COPY_DEVICE_TO_HOST);
  if (slip_status_is_ok(status)) SLIP_CHECK(back == 41 && runs == 1);
  return status;
}

static slip_status_t conform_fault_native(conform_held_t *held) {
  slip_platform_t *platform = held->platform;
  void *symbol = NULL;
  conform_work_t work = {.platform = platform, .address = held->memory, .size_bytes = 8, .access = SLIP_MAP_WRITE, .write_bytes = 8};
  if (!(slip__platform_capabilities(platform) & SLIP_PLATFORM_CAN_HOST_NATIVE)) return slip_ok_status();
  slip_status_t status = slip__platform_module_load(platform, 0, held->object, &held->module);
  if (slip_status_is_ok(status)) status = slip__platform_module_symbol(platform, held->module, "value", &symbol);
  if (slip_status_is_ok(status)) status = slip__platform_stream_launch(platform, held->stream, conform_work_run, &work);
  if (!slip_status_is_ok(status)) return status;
  status = conform_fault_settle(held, status);
  if (!slip_status_is_ok(status)) return status;
  SLIP_CHECK_EQ(work.runs, 1);
  // A failed mapping is the device code's to report.
  if (work.mapped == SLIP_CODE_OK && work.unmapped == SLIP_CODE_OK) return status;
  return SLIP_STATUS_PLATFORM(work.mapped != SLIP_CODE_OK ? work.mapped : work.unmapped, work.number, "device code could not map memory");
}

static slip_status_t conform_fault_capture(conform_held_t *held) {
  slip_platform_t *platform = held->platform;
  if (!(slip__platform_capabilities(platform) & SLIP_PLATFORM_CAN_CAPTURE)) return slip_ok_status();
  slip_status_t status = slip_stream_capture_begin(platform, held->stream, SLIP_CAPTURE_MODE_GLOBAL);
  if (!slip_status_is_ok(status)) return status;
  held->capturing = true;
  status = slip_stream_enqueue_host(platform, held->stream, conform_nothing, NULL);
  if (slip_status_is_ok(status)) {
    status = slip__platform_capture_retain(platform, held->stream, conform_fault_released, held);
    held->retained += slip_status_is_ok(status);
  }
  if (slip_status_is_ok(status)) status = conform_fault_end_capture(held);
  if (slip_status_is_ok(status)) status = slip_graph_exec_launch(platform, held->graph, held->stream);
  return status;
}

// Uses every call that the platform has.
static slip_status_t conform_program(slip_platform_t *platform, slip_const_bytes_t object) {
  conform_held_t held = {.platform = platform, .object = object};
  slip_status_t status = conform_fault_devices(&held);
  if (slip_status_is_ok(status)) status = conform_fault_make(&held);
  if (slip_status_is_ok(status)) status = conform_fault_streams(&held);
  if (slip_status_is_ok(status)) status = conform_fault_native(&held);
  if (slip_status_is_ok(status)) status = conform_fault_capture(&held);
  return slip_status_join(status, conform_give_back(&held));
}

// --- the faults

static slip_code_t conform_fault_code(slip__platform_call_e call) {
  static const slip_code_t codes[] = {
#define CONFORM_FAULT_CODE(name, entry, need, code) SLIP_CODE_##code,
      SLIP__PLATFORM_CALL_TABLE(CONFORM_FAULT_CODE)
#undef CONFORM_FAULT_CODE
  };
  return codes[call];
}

// Where giving back fails for ever, nothing can be given back: these fail once only.
static bool conform_fault_is_a_release(slip__platform_call_e call) {
  switch (call) {
    case SLIP__PLATFORM_CALL_STREAM_DESTROY:
    case SLIP__PLATFORM_CALL_EVENT_DESTROY:
    case SLIP__PLATFORM_CALL_MEMORY_FREE:
    case SLIP__PLATFORM_CALL_HOST_FREE:
    case SLIP__PLATFORM_CALL_MODULE_UNLOAD:
    case SLIP__PLATFORM_CALL_DEVICE_POP:
    case SLIP__PLATFORM_CALL_DEVICE_UNMAP:
    case SLIP__PLATFORM_CALL_CAPTURE_END:
    case SLIP__PLATFORM_CALL_GRAPH_DESTROY:
      return true;
    default:
      return false;
  }
}

static void conform_fault_try(slip_platform_t *platform, slip_const_bytes_t object, slip__platform_call_e call, uint64_t nth,
                              bool persistent) {
  slip__platform_fault_set(call, nth, persistent);
  slip_status_t status = conform_program(platform, object);
  slip__platform_fault_clear();
  if (slip_status_platform_code(status) != SLIP__PLATFORM_INJECTED || slip_status_code(status) != conform_fault_code(call)) {
    slip_test_fail(__FILE__, __LINE__, "%s number %llu was made to fail, but the program gave code %d, number %lld",
                   slip__platform_call_name(call), (unsigned long long)nth, slip_status_code(status),
                   (long long)slip_status_platform_code(status));
  }
  slip_status_free(status);
  SLIP_CHECK_OK(conform_program(platform, object));
}

SLIP_TEST_TIMEOUT(fault_of_every_call_comes_back_and_leaves_nothing, 120) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t probe = conform_stream(platform);  // unsupported without streams
  SLIP_CHECK_OK(slip_stream_destroy(platform, probe));
  slip_bytes_t object = slip_test_object_build("int value(void) { return 1; }");
  slip_const_bytes_t bytes = {object.data, object.size};
  uint64_t counts[SLIP__PLATFORM_CALL_COUNT], faults = 0;
  slip__platform_counters_reset();
  SLIP_CHECK_OK(conform_program(platform, bytes));
  for (int call = 0; call < SLIP__PLATFORM_CALL_COUNT; ++call) counts[call] = slip__platform_counter((slip__platform_call_e)call);
  for (int i = 0; i < SLIP__PLATFORM_CALL_COUNT; ++i) {
    slip__platform_call_e call = (slip__platform_call_e)i;
    for (uint64_t nth = 1; nth <= counts[i]; ++nth) {
      conform_fault_try(platform, bytes, call, nth, false);
      ++faults;
      if (conform_fault_is_a_release(call)) continue;
      conform_fault_try(platform, bytes, call, nth, true);
      ++faults;
    }
    // Every call that the platform has must have been used, but for those that find or load it.
    bool looks = call == SLIP__PLATFORM_CALL_LOAD || call == SLIP__PLATFORM_CALL_HANDSHAKE || call == SLIP__PLATFORM_CALL_TARGET_SUPPORTED;
    if (counts[i] == 0 && !looks) printf("# %s was not used\n", slip__platform_call_name(call));
  }
  printf("# %llu faults\n", (unsigned long long)faults);
  free(object.data);
  uint32_t can = slip__platform_capabilities(platform);
  uint64_t kinds = 0, expected = 24;  // 3 of devices, 8 of streams, 5 of events, 8 of memory
  for (int i = 0; i < SLIP__PLATFORM_CALL_COUNT; ++i) kinds += counts[i] > 0;
  if (platform->vtable->device_push) expected += 2;
  if (can & SLIP_PLATFORM_CAN_HOST_NATIVE) expected += 4;                                          // stream_launch, modules
  if ((can & SLIP_PLATFORM_CAN_HOST_NATIVE) && !(can & SLIP_PLATFORM_HOST_MEMORY)) expected += 2;  // mappings
  if (can & SLIP_PLATFORM_CAN_CAPTURE) expected += 6;
  SLIP_CHECK_EQ(kinds, expected);
}
