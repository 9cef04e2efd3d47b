// SPDX-License-Identifier: Apache-2.0
#include "fault_world.h"

#include <dirent.h>
#include <stdarg.h>
#include <unistd.h>

#include "os/thread.h"

void fault_wrong(fault_world_t *world, const char *format, ...) {
  va_list arguments;
  printf("# %s: ", world->what);
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  putchar('\n');
  ++world->wrong;
}

void fault_check(fault_world_t *world, slip_status_t status, slip_code_t code, const char *what) {
  char text[1024];
  if (slip_status_code(status) != code) {
    slip_status_format(status, text, sizeof(text));
    fault_wrong(world, "%s gave %s, expected %s", what, text, slip_code_name(code));
  }
  slip_status_free(status);
}

// --- the process at rest -----------------------------------------------------------------------------------------------------------------

static uint32_t fault_count_entries(const char *path) {
  DIR *directory = opendir(path);
  uint32_t count = 0;
  while (directory && readdir(directory)) ++count;
  if (directory) (void)closedir(directory);
  return count;
}

// Threads that were joined may still be listed for a moment.
static uint32_t fault_count_threads(uint32_t expected) {
  uint32_t count = 0;
  for (int i = 0; i < 20000; ++i) {
    count = fault_count_entries("/proc/self/task");
    if (count == expected) break;
    usleep(500);
  }
  return count;
}

static void fault_name_thread(void *user) {
  (void)snprintf(user, 64, "/proc/self/task/%d", (int)gettid());
}

fault_rest_t fault_rest(void) {
  // A sanitizer starts a thread of its own beside the first one.
  slip__thread_t thread = {0};
  char task[64];
  SLIP_CHECK_OK(slip__thread_start(&thread, "first", fault_name_thread, task));
  slip__thread_join(&thread);
  for (int i = 0; i < 20000 && access(task, F_OK) == 0; ++i) usleep(500);
  fault_rest_t rest = {.threads = fault_count_entries("/proc/self/task"), .descriptors = fault_count_entries("/proc/self/fd")};
  return rest;
}

// --- begin -------------------------------------------------------------------------------------------------------------------------------

// Runs on the platform's threads too, but not for these calls.
static void fault_log(void *user, const char *platform, slip__platform_call_e call, slip_code_t code) {
  fault_world_t *world = user;
  (void)platform;
  if (code != SLIP_CODE_OK) return;
  switch ((int)call) {
#define FAULT_PAIR(resource, TAKE, GIVE) \
  case SLIP__PLATFORM_CALL_##TAKE:       \
    ++world->taken[resource];            \
    break;                               \
  case SLIP__PLATFORM_CALL_##GIVE:       \
    ++world->given[resource];            \
    break;
    FAULT_PAIR(FAULT_STREAMS, STREAM_CREATE, STREAM_DESTROY)
    FAULT_PAIR(FAULT_EVENTS, EVENT_CREATE, EVENT_DESTROY)
    FAULT_PAIR(FAULT_MEMORY, MEMORY_ALLOCATE, MEMORY_FREE)
    FAULT_PAIR(FAULT_HOST_MEMORY, HOST_ALLOCATE, HOST_FREE)
    FAULT_PAIR(FAULT_MODULES, MODULE_LOAD, MODULE_UNLOAD)
#undef FAULT_PAIR
    default:
      break;
  }
}

static void fault_power_on(const fault_variant_t *variant) {
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  options.flavour = variant->place == FAULT_CUDA ? SLIP_SIM_FLAVOUR_CUDA : SLIP_SIM_FLAVOUR_ASCEND;
  options.seed = slip_test_seed();
  options.delay_ns = UINT64_MAX;
  options.memory_bytes = 64u << 20;
  SLIP_CHECK_OK(slip_sim_reset(&options));
}

// Packed once in a process, and kept.
static slip_bytes_t fault_pack(slip_bytes_t *image, slip_fixture_t fixture) {
  if (!image->data) *image = slip_fixture_pack(&fixture);
  return *image;
}

static void fault_world_begin_images(fault_world_t *world) {
  static slip_bytes_t images[3];
  world->add_image = fault_pack(&images[0], slip_fixture_add());
  world->control_image = fault_pack(&images[1], slip_fixture_control());
  world->scratch_image = fault_pack(&images[2], slip_fixture_scratch());
}

static void fault_world_begin_caller(fault_world_t *world) {
  void *memory[4], *host = NULL;
  const uint64_t bytes = FAULT_ELEMENTS * sizeof(float);
  SLIP_CHECK_OK(slip_host_allocate(world->platform, 2 * bytes, &host));
  SLIP_CHECK_OK(slip_stream_create(world->platform, 0, &world->stream));
  world->host = host;
  for (int v = 0; v < 4; ++v) {
    static const float steps[4] = {1, 10, 0, 0};
    for (int i = 0; i < FAULT_ELEMENTS; ++i) world->host[i] = steps[v] * (float)(i + 1);
    SLIP_CHECK_OK(slip_memory_allocate(world->platform, 0, bytes, &memory[v]));
    SLIP_CHECK_OK(slip_memory_copy(world->platform, 0, memory[v], world->host, bytes, SLIP_COPY_HOST_TO_DEVICE));
  }
  world->x = memory[0];
  world->y = memory[1];
  world->z = memory[2];
  world->spare = memory[3];
}

void fault_world_begin(fault_world_t *world, const fault_variant_t *variant, const char *what) {
  memset(world, 0, sizeof(*world));
  world->memory = (slip_test_allocator_t)SLIP_TEST_ALLOCATOR_INIT;
  (void)snprintf(world->what, sizeof(world->what), "%s", what);
  world->variant = variant;
  world->plan.memory = &world->memory;
  world->options = variant->options;
  world->options.allocator = slip_test_allocator(&world->memory);
  world->options.platform = variant->place == FAULT_CPU ? "cpu" : "sim";
  world->add = world->control = world->prepared = -1;
  if (fault_on_sim(world)) fault_power_on(variant);
  SLIP_CHECK_OK(slip_platform_find(world->options.platform, &world->platform));
  fault_world_begin_images(world);
  slip__platform_log_set(fault_log, world);
  fault_world_begin_caller(world);
}

// --- open --------------------------------------------------------------------------------------------------------------------------------

static void fault_world_frame(fault_world_t *world, slip_frame_t *frame, float *x, float *y, float *z) {
  const int64_t count = FAULT_ELEMENTS;
  float *data[3] = {x, y, z};
  slip_signature_t *signature = NULL;
  slip_tensor_t tensors[3];
  slip_arg_t args[3];
  for (int i = 0; i < 3; ++i) {
    SLIP_CHECK_OK(slip_tensor_initialize(&tensors[i], SLIP_DTYPE_F32, 1, &count, data[i], slip_context_device(world->context)));
    args[i] = slip_arg_tensor(&tensors[i], data[i]);
  }
  SLIP_CHECK_OK(slip_context_signature(world->context, world->add, &signature));
  SLIP_CHECK_OK(slip_frame_initialize(frame, signature, "add", slip_context_device(world->context), args, 3, 0));
  slip_signature_release(signature);
}

static void fault_world_unframe(fault_world_t *world) {
  if (!world->framed) return;
  slip_frame_deinitialize(&world->frame);
  slip_frame_deinitialize(&world->frame_twice);
  world->framed = false;
}

void fault_world_build_frames(fault_world_t *world) {
  fault_world_unframe(world);
  fault_world_frame(world, &world->frame, world->x, world->y, world->z);
  fault_world_frame(world, &world->frame_twice, world->y, world->y, world->z);
  world->framed = true;
}

void fault_world_prepare_add(fault_world_t *world) {
  SLIP_CHECK_OK(slip_context_prepare(world->context, slip_fixture_bytes(world->add_image), &world->add));
  fault_world_build_frames(world);
}

void fault_world_open(fault_world_t *world) {
  SLIP_CHECK_OK(slip_context_open(&world->options, &world->context));
  fault_world_prepare_add(world);
  SLIP_CHECK_OK(slip_context_prepare(world->context, slip_fixture_bytes(world->control_image), &world->control));
}

// --- end ---------------------------------------------------------------------------------------------------------------------------------

void fault_world_let_go(fault_world_t *world) {
  slip_graph_exec_t exec = NULL;
  if (world->capturing) {
    slip_status_t status = slip_stream_capture_end(world->platform, world->stream, &exec);
    if (world->unjoined) {
      if (slip_status_is_ok(status)) fault_wrong(world, "a capture ended well although its streams were not joined");
      slip_status_free(status);
    } else {
      fault_check(world, status, SLIP_CODE_OK, "ending the capture");
    }
    fault_check(world, slip_graph_exec_destroy(world->platform, exec), SLIP_CODE_OK, "destroying the graph of the capture");
    world->capturing = false;
  }
  fault_check(world, slip_graph_exec_destroy(world->platform, world->exec), SLIP_CODE_OK, "destroying the graph");
  world->exec = NULL;
  fault_check(world, slip_stream_synchronize(world->platform, world->stream), SLIP_CODE_OK, "waiting for the caller's stream");
  slip_ticket_release(world->ticket);
  world->ticket = NULL;
  fault_check(world, slip_graph_destroy(world->graph), SLIP_CODE_OK, "destroying the recording");
  world->graph = NULL;
}

static void fault_leak(fault_world_t *world, const char *what, uint64_t taken, uint64_t given) {
  if (taken == given) return;
  printf("# %s: %lld %s left\n", world->what, (long long)(taken - given), what);
  ++world->leaks;
}

static void fault_world_end_caller(fault_world_t *world) {
  slip_platform_t *platform = world->platform;
  fault_check(world, slip_stream_destroy(platform, world->stream), SLIP_CODE_OK, "destroying the caller's stream");
  fault_check(world, slip_memory_free(platform, 0, world->x), SLIP_CODE_OK, "freeing x");
  fault_check(world, slip_memory_free(platform, 0, world->y), SLIP_CODE_OK, "freeing y");
  fault_check(world, slip_memory_free(platform, 0, world->z), SLIP_CODE_OK, "freeing z");
  fault_check(world, slip_memory_free(platform, 0, world->spare), SLIP_CODE_OK, "freeing the spare");
  fault_check(world, slip_host_free(platform, world->host), SLIP_CODE_OK, "freeing page-locked memory");
}

static void fault_world_check_sim(fault_world_t *world) {
  slip_sim_statistics_t left = {.struct_size = sizeof(left)};
  char text[512] = "";
  fault_check(world, slip_sim_statistics(&left), SLIP_CODE_OK, "statistics of the simulator");
  fault_leak(world, "streams of the simulator", left.streams, 0);
  fault_leak(world, "events of the simulator", left.events, 0);
  fault_leak(world, "allocations of the simulator", left.allocations, 0);
  fault_leak(world, "page-locked allocations of the simulator", left.host_allocations, 0);
  fault_leak(world, "modules of the simulator", left.modules, 0);
  fault_leak(world, "graphs of the simulator", left.graphs, 0);
  fault_leak(world, "captures of the simulator", left.captures, 0);
  (void)slip_sim_violation(0, text, sizeof(text));
  // An unmap that was made to fail never reached the simulator, for which the launch goes on: it must complain that its memory goes.
  bool expected =
      fault_is(world->plan.fault, SLIP__PLATFORM_CALL_DEVICE_UNMAP) && world->plan.hits > 0 && strstr(text, "freed while in flight");
  if (slip_sim_violation_count() != 0 && !expected) fault_wrong(world, "violation: %s", text);
}

// A binding that could not be undone is the library's to undo, with the next call at the latest.
static void fault_world_check_bindings(fault_world_t *world) {
  uint64_t left = 0;
  slip_status_t status = slip__platform_device_pop(world->platform, 0);
  for (; slip_status_is_ok(status) && left < 100; ++left) status = slip__platform_device_pop(world->platform, 0);
  fault_leak(world, "bindings of the device", left, 0);
  slip_status_free(status);
}

void fault_world_check_nothing_left(fault_world_t *world, const fault_rest_t *rest) {
  if (atomic_load(&world->released) != world->records)
    fault_wrong(world, "owners were released %u times after %u launches", atomic_load(&world->released), world->records);
  fault_leak(world, "blocks of the context's allocator", world->memory.live_blocks, 0);
  if (fault_on_sim(world)) {
    fault_world_check_bindings(world);
    fault_world_check_sim(world);
  }
  fault_leak(world, "descriptors", fault_count_entries("/proc/self/fd"), rest->descriptors);
  fault_leak(world, "threads", fault_count_threads(rest->threads), rest->threads);
}

void fault_world_end(fault_world_t *world, const fault_rest_t *rest) {
  static const char *const names[] = {"streams", "events", "blocks of the device", "page-locked blocks", "modules"};
  fault_world_let_go(world);
  fault_world_unframe(world);
  if (world->context) {
    fault_check(world, slip_context_close(world->context), SLIP_CODE_OK, "close at the end");
    fault_check(world, slip_context_destroy(world->context), SLIP_CODE_OK, "destroy at the end");
  }
  fault_world_end_caller(world);
  slip__platform_log_set(NULL, NULL);
  for (int r = 0; r < FAULT_RESOURCES; ++r) fault_leak(world, names[r], world->taken[r], world->given[r]);
  fault_world_check_nothing_left(world, rest);
}

void fault_world_end_after_reset(fault_world_t *world, const fault_rest_t *rest) {
  fault_world_unframe(world);
  // Page-locked memory is the host's.
  fault_check(world, slip_host_free(world->platform, world->host), SLIP_CODE_OK, "freeing page-locked memory");
  slip__platform_log_set(NULL, NULL);
  fault_world_check_nothing_left(world, rest);
}
