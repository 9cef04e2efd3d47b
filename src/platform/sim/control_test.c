// SPDX-License-Identifier: Apache-2.0
// Reset, device management, faults, violations and statistics, through the platform as a program sees it.
#include <unistd.h>
#include <sys/wait.h>

#include "platform/dispatch.h"
#include "slip_test.h"
#include "slip_test_object.h"
#include "slipstream/sim.h"

static slip_platform_t *control_sim(void) {
  slip_platform_t *platform = NULL;
  SLIP_CHECK_OK(slip_platform_find("sim", &platform));
  return platform;
}

static slip_sim_statistics_t control_statistics(void) {
  slip_sim_statistics_t statistics = {.struct_size = sizeof(statistics)};
  SLIP_CHECK_OK(slip_sim_statistics(&statistics));
  return statistics;
}

static void control_violation(uint64_t count, const char *part) {
  char text[600] = "";
  SLIP_CHECK_EQ(slip_sim_violation_count(), count);
  (void)slip_sim_violation(count - 1, text, sizeof(text));
  if (!strstr(text, part)) slip_test_fail(__FILE__, __LINE__, "violation \"%s\" does not say \"%s\"", text, part);
}

SLIP_TEST(sim_control_devices) {
  slip_platform_t *sim = control_sim();
  slip_device_properties_t properties;
  int32_t count = 0, current = -1;
  uint64_t lifecycle = slip_sim_lifecycle_calls();
  SLIP_CHECK_OK(slip_platform_device_count(sim, &count));
  SLIP_CHECK_EQ(count, 2);
  SLIP_CHECK_OK(slip_platform_device_properties(sim, 1, &properties));
  SLIP_CHECK_STR(properties.name, "sim (cuda rules)");
  SLIP_CHECK_EQ(properties.memory_bytes, 1073741824);
  SLIP_CHECK_EQ(slip__platform_capabilities(sim), SLIP_PLATFORM_CAN_STREAMS | SLIP_PLATFORM_CAN_HOST_NATIVE | SLIP_PLATFORM_CAN_CAPTURE);
  SLIP_CHECK_EQ(slip_sim_lifecycle_calls(), lifecycle);
  SLIP_CHECK_OK(slip_sim_set_device(1));
  SLIP_CHECK_OK(slip__platform_device_current(sim, &current));
  SLIP_CHECK_EQ(current, 1);
  SLIP_CHECK_ERROR(slip_sim_set_device(2), SLIP_CODE_INVALID_ARGUMENT, "devices 0 to 1");
  SLIP_CHECK_OK(slip_sim_synchronize_device(1));
  SLIP_CHECK_OK(slip_sim_reset_device(1));
  SLIP_CHECK_EQ(slip_sim_lifecycle_calls(), lifecycle + 4);
  SLIP_CHECK_OK(slip__platform_device_push(sim, 0));
  SLIP_CHECK_OK(slip__platform_device_current(sim, &current));
  SLIP_CHECK_EQ(current, 0);
  SLIP_CHECK_OK(slip__platform_device_pop(sim, 0));
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  options.flavour = SLIP_SIM_FLAVOUR_ASCEND;
  SLIP_CHECK_OK(slip_sim_reset(&options));
  SLIP_CHECK_OK(slip_platform_device_properties(sim, 0, &properties));
  SLIP_CHECK_STR(properties.name, "sim (ascend rules)");
}

SLIP_TEST(sim_control_malformed_environment_is_refused_at_load) {
  slip_platform_t *sim = NULL;
  (void)setenv("SLIP_SIM_FLAVOUR", "hip", 1);
  SLIP_CHECK_ERROR(slip_platform_find("sim", &sim), SLIP_CODE_INVALID_ARGUMENT, "SLIP_SIM_FLAVOUR is \"hip\"");
  SLIP_CHECK(sim == NULL);
  SLIP_CHECK_CODE(slip_sim_reset(NULL), SLIP_CODE_INVALID_ARGUMENT);
  (void)setenv("SLIP_SIM_FLAVOUR", "ascend", 1);
  (void)setenv("SLIP_SIM_DEVICES", "5", 1);
  SLIP_CHECK_OK(slip_platform_find("sim", &sim));
  int32_t count = 0;
  SLIP_CHECK_OK(slip_platform_device_count(sim, &count));
  SLIP_CHECK_EQ(count, 5);
}

SLIP_TEST(sim_control_reset_names_what_is_alive) {
  slip_platform_t *sim = control_sim();
  slip_stream_t stream = NULL;
  slip_event_t event = NULL, other = NULL;
  void *memory = NULL, *pinned = NULL;
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  SLIP_CHECK_OK(slip_stream_create(sim, 0, &stream));
  SLIP_CHECK_OK(slip_event_create(sim, 0, &event));
  SLIP_CHECK_OK(slip_event_create(sim, 0, &other));
  SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 100, &memory));
  SLIP_CHECK_OK(slip_host_allocate(sim, 50, &pinned));
  options.seed = 77;
  SLIP_CHECK_ERROR(
      slip_sim_reset(&options), SLIP_CODE_BUSY,
      "1 stream, 2 events, 1 device allocation, 1 page-locked allocation must be given back first; an open context has some of each");
  slip_sim_statistics_t statistics = control_statistics();
  SLIP_CHECK_EQ(statistics.streams, 1);
  SLIP_CHECK_EQ(statistics.events, 2);
  SLIP_CHECK_EQ(statistics.device_bytes, 100);
  SLIP_CHECK_EQ(statistics.host_bytes, 50);
  SLIP_CHECK_OK(slip_stream_destroy(sim, stream));
  SLIP_CHECK_OK(slip_event_destroy(sim, event));
  SLIP_CHECK_OK(slip_event_destroy(sim, other));
  SLIP_CHECK_OK(slip_memory_free(sim, 0, memory));
  SLIP_CHECK_ERROR(slip_sim_reset(&options), SLIP_CODE_BUSY, "slip_sim_reset: 1 page-locked allocation must");
  SLIP_CHECK_OK(slip_host_free(sim, pinned));
  options.flavour = 9;
  SLIP_CHECK_CODE(slip_sim_reset(&options), SLIP_CODE_INVALID_ARGUMENT);
  options.flavour = 0;
  SLIP_CHECK_OK(slip_sim_reset(&options));
  statistics = control_statistics();
  SLIP_CHECK(statistics.streams == 0 && statistics.events == 0 && statistics.allocations == 0 && statistics.host_allocations == 0);
}

SLIP_TEST(sim_control_modules_belong_to_a_device) {
  slip_platform_t *sim = control_sim();
  slip_module_t module = NULL, other = NULL;
  void *symbol = NULL;
  slip_bytes_t object = slip_test_object_build("int value(void) { return 1; }");
  slip_const_bytes_t binary = {object.data, object.size};
  SLIP_CHECK_OK(slip__platform_module_load(sim, 0, binary, &module));
  slip_status_t status = slip__platform_module_load(sim, 1, binary, &other);
  SLIP_CHECK_EQ(slip_status_platform_code(status), 201);
  SLIP_CHECK(strstr(slip_status_message(status), "module_load is for device 1"));
  slip_status_free(status);
  SLIP_CHECK_EQ(control_statistics().modules, 1);
  SLIP_CHECK_ERROR(slip_sim_reset(NULL), SLIP_CODE_BUSY, "1 module");
  SLIP_CHECK_OK(slip__platform_module_symbol(sim, module, "value", &symbol));
  SLIP_CHECK_OK(slip_sim_set_device(1));
  status = slip__platform_module_unload(sim, module);
  SLIP_CHECK_EQ(slip_status_platform_code(status), 201);
  slip_status_free(status);
  SLIP_CHECK_OK(slip_sim_set_device(0));
  SLIP_CHECK_OK(slip__platform_module_unload(sim, module));
  SLIP_CHECK_ERROR(slip__platform_module_unload(sim, module), SLIP_CODE_INVALID_ARGUMENT, "no loaded module");
  SLIP_CHECK_CODE(slip__platform_module_symbol(sim, module, "value", &symbol), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip__platform_module_load(sim, 0, binary, &module));
  SLIP_CHECK_OK(slip_sim_reset_device(0));  // takes what the device holds
  SLIP_CHECK_EQ(control_statistics().modules, 0);
  SLIP_CHECK_CODE(slip__platform_module_symbol(sim, module, "value", &symbol), SLIP_CODE_INVALID_ARGUMENT);
  free(object.data);
}

// As it frees memory. The cuda flavour breaks the capture.
SLIP_TEST(sim_control_modules_stay_while_a_capture_lasts) {
  slip_platform_t *sim = control_sim();
  slip_module_t module = NULL;
  slip_stream_t stream = NULL;
  slip_graph_exec_t graph = NULL;
  slip_bytes_t object = slip_test_object_build("int value(void) { return 1; }");
  SLIP_CHECK_OK(slip__platform_module_load(sim, 0, (slip_const_bytes_t){object.data, object.size}, &module));
  free(object.data);
  SLIP_CHECK_OK(slip_stream_create(sim, 0, &stream));
  SLIP_CHECK_OK(slip_stream_capture_begin(sim, stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  SLIP_CHECK_ERROR(slip__platform_module_unload(sim, module), SLIP_CODE_DEVICE, "module_unload is not allowed");
  SLIP_CHECK_ERROR(slip_stream_capture_end(sim, stream, &graph), SLIP_CODE_DEVICE, "broken by module_unload");
  SLIP_CHECK_OK(slip__platform_module_unload(sim, module));
  SLIP_CHECK_OK(slip_stream_destroy(sim, stream));
}

SLIP_TEST(sim_control_counts_calls) {
  slip_platform_t *sim = control_sim();
  SLIP_CHECK_OK(slip_sim_reset(NULL));
  void *memory = NULL;
  uint64_t calls = control_statistics().calls;
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 64, &memory));
    SLIP_CHECK_OK(slip_memory_free(sim, 0, memory));
  }
  SLIP_CHECK_EQ(slip_sim_call_count("memory_allocate"), 3);
  SLIP_CHECK_EQ(slip_sim_call_count("memory_free"), 3);
  SLIP_CHECK_EQ(slip_sim_call_count("memory_copy"), 0);
  SLIP_CHECK_EQ(slip_sim_call_count("no_such_call"), 0);
  SLIP_CHECK_EQ(slip_sim_call_count(NULL), 0);
  SLIP_CHECK_EQ(control_statistics().calls, calls + 6);
  slip__platform_counters_reset();  // the dispatch layer's own counters are others
  SLIP_CHECK_EQ(slip_sim_call_count("memory_free"), 3);
  SLIP_CHECK_OK(slip_sim_reset(NULL));
  SLIP_CHECK_EQ(slip_sim_call_count("memory_free"), 0);
  SLIP_CHECK_EQ(control_statistics().calls, calls + 6);
}

SLIP_TEST(sim_control_calls_fail_on_request) {
  slip_platform_t *sim = control_sim();
  void *memory = NULL;
  SLIP_CHECK_OK(slip_sim_fail_call("memory_allocate", 2, false));
  SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 64, &memory));
  SLIP_CHECK_OK(slip_memory_free(sim, 0, memory));
  SLIP_CHECK_CODE(slip_memory_allocate(sim, 0, 64, &memory), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 64, &memory));
  SLIP_CHECK_OK(slip_sim_fail_call("memory_free", 1, true));
  SLIP_CHECK_CODE(slip_memory_free(sim, 0, memory), SLIP_CODE_DEVICE);
  SLIP_CHECK_CODE(slip_memory_free(sim, 0, memory), SLIP_CODE_DEVICE);
  slip_sim_fail_clear();
  SLIP_CHECK_OK(slip_memory_free(sim, 0, memory));
  SLIP_CHECK_OK(slip_sim_fail_call("memory_free", 1, true));
  SLIP_CHECK_OK(slip_sim_reset(NULL));  // ends them, too
  SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 64, &memory));
  SLIP_CHECK_OK(slip_memory_free(sim, 0, memory));
  SLIP_CHECK_ERROR(slip_sim_fail_call("memory_fre", 1, false), SLIP_CODE_INVALID_ARGUMENT, "no platform call \"memory_fre\"");
  SLIP_CHECK_CODE(slip_sim_fail_call(NULL, 1, false), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_sim_fail_call("memory_free", 0, false), SLIP_CODE_INVALID_ARGUMENT);
}

SLIP_TEST(sim_control_a_broken_device_stays_broken) {
  slip_platform_t *sim = control_sim();
  slip_stream_t stream = NULL, on_other = NULL;
  slip_event_t event = NULL;
  slip_graph_exec_t graph = NULL;
  void *memory = NULL, *pinned = NULL;
  uint64_t runs = 0;
  char host[8] = {0};
  SLIP_CHECK_OK(slip_stream_create(sim, 0, &stream));
  SLIP_CHECK_OK(slip_event_create(sim, 0, &event));
  SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 8, &memory));
  SLIP_CHECK_OK(slip_host_allocate(sim, 8, &pinned));
  SLIP_CHECK_CODE(slip_sim_break_device(2), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_sim_break_device(0));
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
  for (int turn = 0; turn < 2; ++turn) {
    slip_status_t answers[] = {
        slip_memory_allocate(sim, 0, 8, &(void *){NULL}),
        slip_memory_free(sim, 0, memory),
        slip_memory_copy(sim, 0, memory, host, 8, SLIP_COPY_HOST_TO_DEVICE),
        slip__platform_memory_fill(sim, 0, memory, 0, 8),
        slip_memory_copy_async(sim, stream, memory, host, 8, SLIP_COPY_HOST_TO_DEVICE),
        slip_stream_create(sim, 0, &(slip_stream_t){NULL}),
        slip_stream_synchronize(sim, stream),
        slip_stream_query(sim, stream),
        slip_stream_enqueue_host(sim, stream, (void (*)(void *))(uintptr_t)0x10, &runs),
        slip_event_create(sim, 0, &(slip_event_t){NULL}),
        slip_event_record(sim, event, stream),
        slip_stream_wait_event(sim, stream, event),
        slip_event_query(sim, event),
        slip_event_synchronize(sim, event),
        slip_stream_capture_begin(sim, stream, 0),
        slip_stream_capture_end(sim, stream, &graph),
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); ++i) {
      if (slip_status_platform_code(answers[i]) != 700) slip_test_fail(__FILE__, __LINE__, "answer %zu is not the sticky fault", i);
      SLIP_CHECK_ERROR(answers[i], SLIP_CODE_DEVICE, "device 0 is broken until it is reset: slip_sim_break_device was called");
    }
  }
  SLIP_CHECK_OK(slip_host_free(sim, pinned));  // the host's own
  SLIP_CHECK_OK(slip_sim_set_device(1));
  SLIP_CHECK_OK(slip_stream_create(sim, 1, &on_other));  // the other device lives
  SLIP_CHECK_OK(slip_stream_destroy(sim, on_other));
  SLIP_CHECK_OK(slip_sim_set_device(0));
  SLIP_CHECK_OK(slip_sim_reset(NULL));  // what the broken device held is gone
  SLIP_CHECK_CODE(slip_stream_query(sim, stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_free(sim, 0, memory), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 8, &memory));
  SLIP_CHECK_OK(slip_memory_free(sim, 0, memory));
}

SLIP_TEST(sim_control_a_device_reset_takes_everything) {
  slip_platform_t *sim = control_sim();
  slip_stream_t stream = NULL;
  slip_event_t event = NULL;
  void *memory = NULL;
  SLIP_CHECK_OK(slip_stream_create(sim, 0, &stream));
  SLIP_CHECK_OK(slip_event_create(sim, 0, &event));
  SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 8, &memory));
  SLIP_CHECK_OK(slip_sim_break_device(0));
  SLIP_CHECK_OK(slip_sim_reset_device(0));
  slip_sim_statistics_t statistics = control_statistics();
  SLIP_CHECK(statistics.streams == 0 && statistics.events == 0 && statistics.allocations == 0);
  SLIP_CHECK_CODE(slip_stream_synchronize(sim, stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_event_query(sim, event), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_ERROR(slip_memory_free(sim, 0, memory), SLIP_CODE_INVALID_ARGUMENT, "freed by slip_sim_reset_device");
  SLIP_CHECK_OK(slip_stream_create(sim, 0, &stream));
  SLIP_CHECK_OK(slip_stream_destroy(sim, stream));
  SLIP_CHECK_OK(slip_sim_reset(NULL));
}

// --- what functions do wrong

typedef struct control_job_t {
  slip_platform_t *sim;
  char *input;
  char *output;
  slip_code_t seen;
} control_job_t;

static void control_add(void *user) {
  control_job_t *job = user;
  void *in = NULL, *out = NULL;
  slip_status_t status = slip__platform_device_map(job->sim, 0, job->input, 256, SLIP_MAP_READ, &in);
  if (slip_status_is_ok(status)) {
    status = slip__platform_device_map(job->sim, 0, job->output, 256, SLIP_MAP_WRITE, &out);
    for (int i = 0; i < 64 && slip_status_is_ok(status); ++i) ((float *)out)[i] = ((float *)in)[i] + 1;
    if (slip_status_is_ok(status)) status = slip__platform_device_unmap(job->sim, 0, job->output, 256, SLIP_MAP_WRITE);
    status = slip_status_join(status, slip__platform_device_unmap(job->sim, 0, job->input, 256, SLIP_MAP_READ));
  }
  job->seen = slip_status_code(status);
  slip_status_free(status);
}

static void control_call_back(void *user) {
  control_job_t *job = user;
  void *memory = NULL;
  slip_status_t status = slip_memory_allocate(job->sim, 0, 8, &memory);
  job->seen = slip_status_code(status);
  slip_status_free(status);
}

SLIP_TEST(sim_control_functions_work_and_are_watched) {
  slip_platform_t *sim = control_sim();
  slip_stream_t stream = NULL;
  void *in = NULL, *out = NULL, *pinned = NULL;
  SLIP_CHECK_OK(slip_stream_create(sim, 0, &stream));
  SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 256, &in));
  SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 256, &out));
  SLIP_CHECK_OK(slip_host_allocate(sim, 256, &pinned));
  float *host = pinned;
  control_job_t job = {sim, in, out, -1};
  for (int i = 0; i < 64; ++i) host[i] = (float)i;
  SLIP_CHECK_OK(slip_memory_copy_async(sim, stream, in, pinned, 256, SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(slip__platform_stream_launch(sim, stream, control_add, &job));
  SLIP_CHECK_OK(slip_memory_copy_async(sim, stream, pinned, out, 256, SLIP_COPY_DEVICE_TO_HOST));
  SLIP_CHECK_OK(slip_stream_synchronize(sim, stream));
  SLIP_CHECK_EQ(job.seen, SLIP_CODE_OK);
  for (int i = 0; i < 64; ++i) SLIP_CHECK(host[i] == (float)i + 1);
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
  SLIP_CHECK_OK(slip_stream_enqueue_host(sim, stream, control_call_back, &job));
  SLIP_CHECK_OK(slip_stream_synchronize(sim, stream));
  SLIP_CHECK_EQ(job.seen, SLIP_CODE_DEVICE);
  control_violation(1, "memory_allocate was called from inside a host function");
  SLIP_CHECK_OK(slip__platform_stream_launch(sim, stream, control_call_back, &job));
  SLIP_CHECK_OK(slip_stream_synchronize(sim, stream));
  control_violation(2, "memory_allocate was called from inside a device function");
  // The input is freed: the function that uses it breaks the device.
  SLIP_CHECK_OK(slip_memory_free(sim, 0, in));
  SLIP_CHECK_OK(slip__platform_stream_launch(sim, stream, control_add, &job));
  slip_status_t status = slip_stream_synchronize(sim, stream);
  SLIP_CHECK_EQ(slip_status_platform_code(status), 700);
  SLIP_CHECK_ERROR(status, SLIP_CODE_DEVICE, "use after free");
  control_violation(3, "(the device is broken now)");
  SLIP_CHECK_OK(slip_host_free(sim, pinned));
  SLIP_CHECK_OK(slip_sim_reset(NULL));
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
}

typedef struct control_gate_t {
  _Atomic uint32_t entered;
  _Atomic uint32_t open;
} control_gate_t;

static void control_wait(void *user) {
  control_gate_t *gate = user;
  atomic_store(&gate->entered, 1);
  while (!atomic_load(&gate->open)) (void)usleep(100);
}

SLIP_TEST(sim_control_what_is_in_use_must_stay) {
  slip_platform_t *sim = control_sim();
  slip_stream_t stream = NULL;
  slip_module_t module = NULL, other = NULL;
  control_gate_t gate = {0};
  void *memory = NULL, *pinned = NULL;
  slip_bytes_t object = slip_test_object_build("int value(void) { return 1; }");
  SLIP_CHECK_OK(slip__platform_module_load(sim, 0, (slip_const_bytes_t){object.data, object.size}, &module));
  SLIP_CHECK_OK(slip_stream_create(sim, 0, &stream));
  SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 64, &memory));
  SLIP_CHECK_OK(slip_host_allocate(sim, 64, &pinned));
  SLIP_CHECK_OK(slip__platform_stream_launch(sim, stream, control_wait, &gate));
  SLIP_CHECK_OK(slip_memory_copy_async(sim, stream, memory, pinned, 64, SLIP_COPY_HOST_TO_DEVICE));
  while (!atomic_load(&gate.entered)) (void)usleep(100);
  // What runs may be the code of the other one.
  SLIP_CHECK_OK(slip__platform_module_load(sim, 0, (slip_const_bytes_t){object.data, object.size}, &other));
  SLIP_CHECK_OK(slip__platform_module_unload(sim, other));
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
  SLIP_CHECK_OK(slip__platform_module_unload(sim, module));
  control_violation(1, "module_unload while 1 function runs on the device");
  SLIP_CHECK_OK(slip_memory_free(sim, 0, memory));
  control_violation(2, "freed while in flight, 0 running and 1 enqueued");
  SLIP_CHECK_OK(slip_host_free(sim, pinned));
  control_violation(3, "host_free of 64 bytes");
  atomic_store(&gate.open, 1);
  SLIP_CHECK_ERROR(slip_stream_synchronize(sim, stream), SLIP_CODE_DEVICE, "a copy in a stream: the target");
  control_violation(4, "use after free");
  SLIP_CHECK_OK(slip_sim_reset(NULL));
  free(object.data);
}

// The child's memory is the parent's copy, but no device came with it.
SLIP_TEST(sim_control_a_forked_child_is_told) {
  slip_platform_t *sim = control_sim();
  void *memory = NULL;
  slip_stream_t stream = NULL;
  SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 64, &memory));
  SLIP_CHECK_OK(slip_stream_create(sim, 0, &stream));
  pid_t child = fork();
  SLIP_CHECK(child >= 0);
  if (child == 0) {
    char host[64] = {0};
    void *own = NULL;
    SLIP_CHECK_CODE(slip_memory_copy(sim, 0, memory, host, 64, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_FORKED);
    SLIP_CHECK_CODE(slip_memory_free(sim, 0, memory), SLIP_CODE_FORKED);
    SLIP_CHECK_CODE(slip_stream_synchronize(sim, stream), SLIP_CODE_FORKED);
    SLIP_CHECK_EQ(control_statistics().allocations, 0);
    SLIP_CHECK_OK(slip_memory_allocate(sim, 0, 64, &own));
    SLIP_CHECK_OK(slip_memory_free(sim, 0, own));
    _exit(0);
  }
  int state = -1;
  SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
  SLIP_CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0);
  SLIP_CHECK_OK(slip_memory_free(sim, 0, memory));
  SLIP_CHECK_OK(slip_stream_destroy(sim, stream));
}
