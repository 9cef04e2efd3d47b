// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include "platform/build.h"
#include "platform/sim/board.h"
#include "slip_test_sim.h"

typedef struct sim_step_t {
  uint64_t *at;
  uint64_t number;
} sim_step_t;

static void sim_step(void *user) {
  sim_step_t *step = user;
  SLIP_CHECK_EQ((*step->at)++, step->number);
}

SLIP_TEST(sim_stream_runs_in_order_also_when_full) {
  static sim_step_t steps[SLIP__SIM_RING + 1000];
  uint64_t at = 0;
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  options.delay_ns = UINT64_MAX;
  SLIP_CHECK_OK(slip_sim_reset(&options));
  slip_stream_t stream = sim_stream();
  for (uint64_t i = 0; i < SLIP__SIM_RING + 1000; ++i) {
    steps[i] = (sim_step_t){&at, i};
    SLIP_CHECK_OK((i & 1 ? slip__sim_stream_enqueue_host : slip__sim_stream_launch)(stream, sim_step, &steps[i]));
  }
  SLIP_CHECK_OK(slip__sim_stream_synchronize(stream));
  SLIP_CHECK_EQ(at, SLIP__SIM_RING + 1000);
  SLIP_CHECK_EQ(sim_alive().operations, at);
  SLIP_CHECK_OK(slip__sim_stream_destroy(stream));
}

typedef struct sim_producer_t {
  slip_stream_t stream;
  slip_status_t status;
  uint64_t runs;
} sim_producer_t;

static void sim_produce(void *user) {
  sim_producer_t *producer = user;
  while (slip_status_is_ok(producer->status)) {
    producer->status = slip__sim_stream_enqueue_host(producer->stream, sim_count_atomic, &producer->runs);
  }
}

SLIP_TEST(sim_stream_destroy_runs_what_it_took_and_refuses_the_rest) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 1);
  sim_producer_t producers[3];
  slip__thread_t threads[3];
  sim_gate_t gate = {0};
  slip_stream_t stream = sim_stream();
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(stream, sim_gate_pass, &gate));
  for (int i = 0; i < 3; ++i) {
    producers[i] = (sim_producer_t){.stream = stream};
    SLIP_CHECK_OK(slip__thread_start(&threads[i], "producer", sim_produce, &producers[i]));
  }
  sim_gate_open(&gate);
  struct timespec pause = {0, 2000000};
  (void)nanosleep(&pause, NULL);
  SLIP_CHECK_OK(slip__sim_stream_destroy(stream));
  for (int i = 0; i < 3; ++i) {
    slip__thread_join(&threads[i]);
    SIM_CHECK_ERROR(producers[i].status, INVALID_HANDLE);
  }
  SLIP_CHECK_CODE(slip__sim_stream_destroy(stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip__sim_stream_synchronize(stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_EQ(sim_alive().streams, 0);
}

SLIP_TEST(sim_stream_stale_handles_stay_stale_when_the_slot_is_used_again) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 1);
  slip_stream_t first = sim_stream();
  int32_t device = -1;
  SLIP_CHECK_OK(slip__sim_stream_destroy(first));
  slip_stream_t second = sim_stream();
  SLIP_CHECK(first != second);
  SIM_CHECK_ERROR(slip__sim_stream_query(first), INVALID_HANDLE);
  SIM_CHECK_ERROR(slip__sim_stream_device(first, &device), INVALID_HANDLE);
  SIM_CHECK_ERROR(slip__sim_stream_query(NULL), INVALID_HANDLE);
  SIM_CHECK_ERROR(slip__sim_stream_query(SLIP_STREAM_INLINE), INVALID_HANDLE);
  slip_event_t event = sim_event();
  SIM_CHECK_ERROR(slip__sim_stream_query(event), INVALID_HANDLE);  // of another kind
  SIM_CHECK_ERROR(slip__sim_event_query(second), INVALID_HANDLE);
  SLIP_CHECK_OK(slip__sim_stream_device(second, &device));
  SLIP_CHECK_EQ(device, 0);
  SLIP_CHECK_OK(slip__sim_event_destroy(event));
  SLIP_CHECK_OK(slip__sim_stream_destroy(second));
}

SLIP_TEST(sim_stream_count_is_bounded_for_each_device) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 1);
  slip_stream_t streams[32], more = NULL;
  for (int i = 0; i < 32; ++i) streams[i] = sim_stream();
  SIM_CHECK_ERROR(slip__sim_stream_create(0, &more), OUT_OF_RESOURCES);
  SLIP_CHECK(more == NULL);
  SLIP_CHECK_OK(slip__sim_device_push(1));
  SLIP_CHECK_OK(slip__sim_stream_create(1, &more));
  SLIP_CHECK_EQ(sim_alive().streams, 33);
  SLIP_CHECK_OK(slip__sim_stream_destroy(more));
  SLIP_CHECK_OK(slip__sim_device_pop(1));
  SLIP_CHECK_OK(slip__sim_stream_destroy(streams[7]));
  streams[7] = sim_stream();
  for (int i = 0; i < 32; ++i) SLIP_CHECK_OK(slip__sim_stream_destroy(streams[i]));
}

SLIP_TEST(sim_stream_calls_need_the_streams_device_to_be_current) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 1);
  slip_stream_t stream = sim_stream(), other = NULL;
  slip_event_t event = sim_event();
  slip_capture_info_t info;
  uint64_t runs = 0;
  int32_t device = -1;
  SIM_CHECK_ERROR(slip__sim_stream_create(1, &other), INVALID_CONTEXT);
  SLIP_CHECK_OK(slip__sim_device_push(1));
  SIM_CHECK_ERROR(slip__sim_stream_enqueue_host(stream, sim_count, &runs), INVALID_CONTEXT);
  SIM_CHECK_ERROR(slip__sim_stream_launch(stream, sim_count, &runs), INVALID_CONTEXT);
  SIM_CHECK_ERROR(slip__sim_stream_synchronize(stream), INVALID_CONTEXT);
  SIM_CHECK_ERROR(slip__sim_stream_query(stream), INVALID_CONTEXT);
  SIM_CHECK_ERROR(slip__sim_stream_wait_event(stream, event), INVALID_CONTEXT);
  SIM_CHECK_ERROR(slip__sim_stream_destroy(stream), INVALID_CONTEXT);
  SIM_CHECK_ERROR(slip__sim_capture_begin(stream, SLIP_CAPTURE_MODE_GLOBAL), INVALID_CONTEXT);
  SIM_CHECK_ERROR(slip__sim_event_record(event, stream), INVALID_CONTEXT);
  SIM_CHECK_ERROR(slip__sim_event_query(event), INVALID_CONTEXT);
  SIM_CHECK_ERROR(slip__sim_event_synchronize(event), INVALID_CONTEXT);
  SIM_CHECK_ERROR(slip__sim_event_destroy(event), INVALID_CONTEXT);
  SLIP_CHECK_OK(slip__sim_stream_device(stream, &device));
  SLIP_CHECK_OK(slip__sim_stream_capture_info(stream, &info));
  SLIP_CHECK_OK(slip__sim_device_pop(1));
  SLIP_CHECK_EQ(device, 0);
  SLIP_CHECK_EQ(runs, 0);
  SLIP_CHECK_OK(slip__sim_event_destroy(event));
  SLIP_CHECK_OK(slip__sim_stream_destroy(stream));
}

typedef struct sim_inside_t {
  slip_stream_t stream;
  slip_event_t event;
  uint64_t refused;
  uint64_t role;
  int32_t device;
} sim_inside_t;

static void sim_inside(void *user) {
  sim_inside_t *inside = user;
  slip_capture_info_t info;
  slip_status_t answers[] = {slip__sim_stream_synchronize(inside->stream),
                             slip__sim_stream_destroy(inside->stream),
                             slip__sim_stream_query(inside->stream),
                             slip__sim_stream_enqueue_host(inside->stream, sim_inside, inside),
                             slip__sim_stream_capture_info(inside->stream, &info),
                             slip__sim_thread_capture_info(&info),
                             slip__sim_event_record(inside->event, inside->stream),
                             slip__sim_event_synchronize(inside->event),
                             slip__sim_graph_destroy(NULL)};
  for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); ++i) {
    inside->refused += slip_status_platform_code(answers[i]) == slip__sim_error_number(SLIP__SIM_NOT_PERMITTED);
    slip_status_free(answers[i]);
  }
  inside->role = slip__sim_role;
  inside->device = slip__sim_running_device;
}

SLIP_TEST(sim_stream_functions_cannot_call_back) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 1);
  sim_inside_t inside = {sim_stream(), sim_event(), 0, 0, -7};
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(inside.stream, sim_inside, &inside));
  SLIP_CHECK_OK(slip__sim_stream_synchronize(inside.stream));
  SLIP_CHECK_EQ(inside.refused, 9);
  SLIP_CHECK_EQ(inside.role, SLIP__SIM_ROLE_HOST_FUNCTION);
  SLIP_CHECK_EQ(inside.device, -1);
  SLIP_CHECK_OK(slip__sim_stream_launch(inside.stream, sim_inside, &inside));
  SLIP_CHECK_OK(slip__sim_stream_synchronize(inside.stream));
  SLIP_CHECK_EQ(inside.refused, 18);
  SLIP_CHECK_EQ(inside.role, SLIP__SIM_ROLE_DEVICE_FUNCTION);
  SLIP_CHECK_EQ(inside.device, 0);
  SLIP_CHECK_OK(slip__sim_event_destroy(inside.event));
  SLIP_CHECK_OK(slip__sim_stream_destroy(inside.stream));
}

static void sim_break(void *user) {
  (void)user;
  slip__sim_violation(0, true, SLIP__SIM_ILLEGAL_ADDRESS, "on purpose");
}

SLIP_TEST(sim_stream_on_a_broken_device_runs_host_functions_only) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 1);
  sim_gate_t gate = {0};
  uint64_t host = 0, device = 0;
  slip_stream_t stream = sim_stream(), other = NULL;
  slip_event_t event = sim_event();
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(stream, sim_gate_pass, &gate));
  SLIP_CHECK_OK(slip__sim_stream_launch(stream, sim_break, NULL));
  SLIP_CHECK_OK(slip__sim_stream_launch(stream, sim_count, &device));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(stream, sim_count, &host));
  SLIP_CHECK_OK(slip__sim_event_record(event, stream));
  sim_gate_open(&gate);
  SIM_CHECK_ERROR(slip__sim_event_synchronize(event), ILLEGAL_ADDRESS);
  SIM_CHECK_ERROR(slip__sim_stream_synchronize(stream), ILLEGAL_ADDRESS);
  SIM_CHECK_ERROR(slip__sim_stream_enqueue_host(stream, sim_count, &host), ILLEGAL_ADDRESS);
  SIM_CHECK_ERROR(slip__sim_stream_destroy(stream), ILLEGAL_ADDRESS);
  SIM_CHECK_ERROR(slip__sim_stream_create(0, &other), ILLEGAL_ADDRESS);
  slip__sim_stream_reset(0);
  SLIP_CHECK_EQ(host, 1);
  SLIP_CHECK_EQ(device, 0);
  SIM_CHECK_ERROR(slip__sim_stream_query(stream), INVALID_HANDLE);
  SLIP_CHECK_EQ(sim_alive().streams + sim_alive().events, 0);
}

SLIP_TEST(sim_stream_reset_ends_one_devices_streams_even_where_they_wait) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 1);
  sim_gate_t gate = {0};
  uint64_t host = 0, device = 0, kept = 0;
  slip_stream_t stream = sim_stream(), other = NULL;
  slip_event_t event = NULL;
  SLIP_CHECK_OK(slip__sim_device_push(1));
  SLIP_CHECK_OK(slip__sim_stream_create(1, &other));
  SLIP_CHECK_OK(slip__sim_event_create(1, &event));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(other, sim_gate_pass, &gate));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(other, sim_count, &kept));
  SLIP_CHECK_OK(slip__sim_event_record(event, other));
  SLIP_CHECK_OK(slip__sim_device_pop(1));
  SLIP_CHECK_OK(slip__sim_stream_wait_event(stream, event));
  SLIP_CHECK_OK(slip__sim_stream_launch(stream, sim_count, &device));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(stream, sim_count, &host));
  slip__sim_stream_reset(0);
  SIM_CHECK_ERROR(slip__sim_stream_query(stream), INVALID_HANDLE);
  SLIP_CHECK_EQ(host, 1);
  SLIP_CHECK_EQ(device, 0);
  sim_gate_open(&gate);
  SLIP_CHECK_OK(slip__sim_device_push(1));
  SLIP_CHECK_OK(slip__sim_stream_synchronize_device(1));
  SLIP_CHECK_EQ(kept, 1);
  SLIP_CHECK_OK(slip__sim_event_destroy(event));
  SLIP_CHECK_OK(slip__sim_stream_destroy(other));
  SLIP_CHECK_OK(slip__sim_device_pop(1));
}

static slip_code_t sim_code(slip_status_t status) {
  slip_code_t code = slip_status_code(status);
  slip_status_free(status);
  return code;
}

// In the child the parent's streams are refused, and new ones work.
static int sim_child(slip_stream_t stream, slip_event_t event, slip_graph_exec_t graph) {
  uint64_t runs = 0;
  slip_stream_t own = NULL;
  slip_event_t mine = NULL;
  if (sim_code(slip__sim_stream_synchronize(stream)) != SLIP_CODE_FORKED) return 1;
  if (sim_code(slip__sim_stream_enqueue_host(stream, sim_count, &runs)) != SLIP_CODE_FORKED) return 2;
  if (sim_code(slip__sim_stream_destroy(stream)) != SLIP_CODE_FORKED) return 3;
  if (sim_code(slip__sim_event_synchronize(event)) != SLIP_CODE_FORKED) return 4;
  if (sim_code(slip__sim_graph_destroy(graph)) != SLIP_CODE_FORKED) return 5;
  if (sim_alive().streams + sim_alive().events + sim_alive().graphs + sim_alive().captures != 0) return 6;
  // The thread sanitizer cannot start threads in the child of a process that has several.
  if (SLIP__PLATFORM_SANITIZER == 2u) return 0;
  if (sim_code(slip__sim_stream_create(0, &own)) != SLIP_CODE_OK) return 7;
  if (sim_code(slip__sim_stream_wait_event(own, event)) != SLIP_CODE_FORKED) return 8;
  if (sim_code(slip__sim_stream_enqueue_host(own, sim_count, &runs)) != SLIP_CODE_OK) return 9;
  if (sim_code(slip__sim_event_record(event, own)) != SLIP_CODE_FORKED) return 10;
  if (sim_code(slip__sim_event_create(0, &mine)) != SLIP_CODE_OK || sim_alive().events != 1) return 11;
  if (sim_code(slip__sim_event_record(mine, own)) != SLIP_CODE_OK) return 12;
  if (sim_code(slip__sim_event_synchronize(mine)) != SLIP_CODE_OK || runs != 1) return 13;
  if (sim_code(slip__sim_event_destroy(mine)) != SLIP_CODE_OK) return 14;
  if (sim_code(slip__sim_stream_destroy(own)) != SLIP_CODE_OK) return 15;
  return sim_code(slip_sim_reset(NULL)) == SLIP_CODE_OK ? 0 : 16;  // all is given back
}

SLIP_TEST(sim_stream_parents_are_refused_in_a_forked_child) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 1);
  sim_gate_t gate = {0};
  slip_stream_t stream = sim_stream(), capturing = sim_stream();
  slip_event_t event = sim_event();
  slip_graph_exec_t graph = NULL;
  SLIP_CHECK_OK(slip__sim_capture_begin(stream, SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip__sim_capture_end(stream, &graph));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(stream, sim_gate_pass, &gate));
  SLIP_CHECK_OK(slip__sim_event_record(event, stream));
  SLIP_CHECK_OK(slip__sim_capture_begin(capturing, SLIP_CAPTURE_MODE_GLOBAL));
  pid_t child = fork();
  if (child == 0) _exit(sim_child(stream, event, graph));
  int result = -1;
  SLIP_CHECK_EQ(waitpid(child, &result, 0), child);
  SLIP_CHECK(WIFEXITED(result));
  SLIP_CHECK_EQ(WEXITSTATUS(result), 0);
  sim_gate_open(&gate);
  slip_graph_exec_t empty = NULL;
  SLIP_CHECK_OK(slip__sim_capture_end(capturing, &empty));
  SLIP_CHECK_OK(slip__sim_graph_destroy(empty));
  SLIP_CHECK_OK(slip__sim_graph_destroy(graph));
  SLIP_CHECK_OK(slip__sim_stream_destroy(stream));
  SLIP_CHECK_OK(slip__sim_stream_destroy(capturing));
  SLIP_CHECK_OK(slip__sim_event_destroy(event));
}

// Copies are tested with memory of the simulation.
SLIP_TEST(sim_stream_copies_in_order) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 1);
  void *a = NULL, *b = NULL, *pinned = NULL;
  uint8_t pageable[256];
  slip_stream_t stream = sim_stream();
  SLIP_CHECK_OK(slip__sim_memory_allocate(0, 256, &a));
  SLIP_CHECK_OK(slip__sim_memory_allocate(0, 256, &b));
  SLIP_CHECK_OK(slip__sim_host_allocate(256, &pinned));
  for (int i = 0; i < 256; ++i) pageable[i] = (uint8_t)i;
  memset(pinned, 0, 256);
  SLIP_CHECK_OK(slip__sim_memory_copy_async(stream, a, pageable, 256, SLIP_COPY_HOST_TO_DEVICE));
  memset(pageable, 99, 256);  // its bytes were taken at the call
  SLIP_CHECK_OK(slip__sim_memory_copy_async(stream, b, a, 256, SLIP_COPY_DEVICE_TO_DEVICE));
  SLIP_CHECK_OK(slip__sim_memory_copy_async(stream, pinned, b, 256, SLIP_COPY_DEVICE_TO_HOST));
  SLIP_CHECK_OK(slip__sim_stream_synchronize(stream));
  for (int i = 0; i < 256; ++i) SLIP_CHECK_EQ(((uint8_t *)pinned)[i], i);
  SLIP_CHECK_CODE(slip__sim_memory_copy_async(stream, pinned, a, 256, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
  SLIP_CHECK_OK(slip__sim_stream_destroy(stream));
  SLIP_CHECK_OK(slip__sim_memory_free(0, a));
  SLIP_CHECK_OK(slip__sim_memory_free(0, b));
  SLIP_CHECK_OK(slip__sim_host_free(pinned));
}
