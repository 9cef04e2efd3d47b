// SPDX-License-Identifier: Apache-2.0
#include "fault_world.h"

#include <dirent.h>
#include <errno.h>
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
  slip_status_format(status, text, sizeof(text));
  if (slip_status_code(status) != code) fault_wrong(world, "%s gave %s, expected %s", what, text, slip_code_name(code));
  slip_status_free(status);
}

// --- faults ------------------------------------------------------------------------------------------------------------------------------

const char *fault_name(fault_t fault) {
  if (fault.class == FAULT_PLATFORM) return slip__platform_call_name((slip__platform_call_e)fault.call);
  return fault.class == FAULT_SYSTEM ? slip__os_call_name((slip__os_call_e)fault.call) : "allocation";
}

static slip_code_t fault_platform_code(uint32_t call) {
  switch (call) {
#define FAULT_CODE(name, entry, need, code) \
  case SLIP__PLATFORM_CALL_##name:          \
    return SLIP_CODE_##code;
    SLIP__PLATFORM_CALL_TABLE(FAULT_CODE)
#undef FAULT_CODE
    default:
      return SLIP_CODE_INTERNAL;
  }
}

slip_code_t fault_expected_code(fault_t fault, bool *out_tolerated) {
  *out_tolerated = false;
  if (fault.class == FAULT_ALLOCATION) return SLIP_CODE_OUT_OF_MEMORY;
  if (fault.class == FAULT_PLATFORM) {
    // An object without its table is corrupt; a target that the platform does not know is incompatible.
    if (fault.call == SLIP__PLATFORM_CALL_MODULE_SYMBOL) return SLIP_CODE_CORRUPT;
    if (fault.call == SLIP__PLATFORM_CALL_TARGET_SUPPORTED) return SLIP_CODE_INCOMPATIBLE;
    return fault_platform_code(fault.call);
  }
  switch (fault.call) {
    case SLIP__OS_CALL_LOAD:
      return SLIP_CODE_CORRUPT;
    case SLIP__OS_CALL_MAP:
    case SLIP__OS_CALL_THREAD:
      return SLIP_CODE_OUT_OF_MEMORY;
    case SLIP__OS_CALL_MEMFD:
    case SLIP__OS_CALL_WRITE:
    case SLIP__OS_CALL_UNLOAD:
      return SLIP_CODE_IO;
    default:
      *out_tolerated = true;  // topology files: their absence only costs knowledge
      return SLIP_CODE_OK;
  }
}

void fault_arm(fault_world_t *world, fault_t fault, uint64_t nth) {
  if (fault.class == FAULT_ALLOCATION) {
    world->memory.failed = 0;
    slip_test_allocator_fail(&world->memory, nth, fault.persistent);
  } else if (fault.class == FAULT_PLATFORM) {
    slip__platform_counters_reset();
    slip__platform_fault_set((slip__platform_call_e)fault.call, nth, fault.persistent);
  } else {
    bool memory = fault.call == SLIP__OS_CALL_MAP || fault.call == SLIP__OS_CALL_THREAD;
    world->plan = (slip__os_fault_plan_t){.kinds = 1u << fault.call,
                                          .nth = (uint32_t)nth,
                                          .persistent = fault.persistent,
                                          .error = !memory                           ? EIO
                                                   : fault.call == SLIP__OS_CALL_MAP ? ENOMEM
                                                                                     : EAGAIN};
    slip__os_fault_set(&world->plan);
  }
  world->fired = nth;
}

bool fault_disarm(fault_world_t *world, fault_t fault) {
  if (fault.class == FAULT_ALLOCATION) {
    bool hit = world->memory.failed > 0;
    slip_test_allocator_fail(&world->memory, 0, false);
    return hit;
  }
  if (fault.class == FAULT_PLATFORM) {
    slip__platform_fault_clear();
    slip__platform_counters_stop();
    return slip__platform_counter((slip__platform_call_e)fault.call) >= world->fired;
  }
  slip__os_fault_set(NULL);
  return world->plan.failed > 0;
}

// --- the world ---------------------------------------------------------------------------------------------------------------------------

static uint32_t fault_count_entries(const char *path) {
  DIR *directory = opendir(path);
  uint32_t count = 0;
  while (directory && readdir(directory)) ++count;
  if (directory) (void)closedir(directory);
  return count;
}

static void fault_nothing(void *user) {
  (void)user;
}

// A sanitizer starts a thread of its own beside the first one.
static void fault_start_any_thread(void) {
  slip__thread_t thread = {0};
  SLIP_CHECK_OK(slip__thread_start(&thread, "first", fault_nothing, NULL));
  slip__thread_join(&thread);
}

// Threads that were joined may still be listed for a moment. |expected| 0: whatever is there after that moment.
static uint32_t fault_count_threads(uint32_t expected) {
  uint32_t count = 0;
  for (int i = 0; i < (expected ? 200 : 5); ++i) {
    count = fault_count_entries("/proc/self/task");
    if (count == expected) break;
    usleep(500);
  }
  return count;
}

static void fault_log(void *user, const char *platform, slip__platform_call_e call, slip_code_t code) {
  fault_world_t *world = user;
  (void)platform;
  if (code != SLIP_CODE_OK) return;
  if (call == SLIP__PLATFORM_CALL_MODULE_LOAD) ++world->taken[0];
  if (call == SLIP__PLATFORM_CALL_MODULE_UNLOAD) ++world->given[0];
  if (call == SLIP__PLATFORM_CALL_MEMORY_ALLOCATE) ++world->taken[1];
  if (call == SLIP__PLATFORM_CALL_MEMORY_FREE) ++world->given[1];
}

void fault_world_begin(fault_world_t *world, slip_context_options_t options, const char *what) {
  *world = (fault_world_t){.options = options, .memory = SLIP_TEST_ALLOCATOR_INIT, .add = -1, .control = -1};
  (void)snprintf(world->what, sizeof(world->what), "%s", what);
  world->options.allocator = slip_test_allocator(&world->memory);
  slip_fixture_t scratch = slip_fixture_scratch();
  world->scratch_image = slip_fixture_pack(&scratch);
  fault_start_any_thread();
  world->threads = fault_count_threads(0);
  world->descriptors = fault_count_entries("/proc/self/fd");
  slip__platform_log_set(fault_log, world);
}

void fault_world_open(fault_world_t *world) {
  slip_platform_t *platform = NULL;
  SLIP_CHECK_OK(slip_context_open(&world->options, &world->context));
  world->add = slip_fixture_prepare(world->context, slip_fixture_add());
  world->control = slip_fixture_prepare(world->context, slip_fixture_control());
  SLIP_CHECK_OK(slip_platform_find("cpu", &platform));
  SLIP_CHECK_OK(slip_stream_create(platform, 0, &world->stream));
}

static void fault_released(void *user) {
  ++*(uint32_t *)user;
}

slip_status_t fault_launch(fault_world_t *world, int32_t id, slip_stream_t stream, slip_status_t *out_result) {
  float x[4] = {1, 2, 3, 4}, y[4] = {10, 20, 30, 40}, z[4] = {0};
  slip_frame_t frame = {0};
  slip_ticket_t *ticket = NULL;
  slip_fixture_frame_add(&frame, world->context, id, x, y, z, 4);
  slip_launch_record_t record = {.struct_size = sizeof(record),
                                 .id = id,
                                 .context = world->context,
                                 .frame = &frame,
                                 .stream = stream,
                                 .release = fault_released,
                                 .user = &world->released};
  slip_status_t status = slip_launch(&record, &ticket);
  slip_frame_deinitialize(&frame);
  ++world->expected_released;
  *out_result = slip_ok_status();
  if (slip_status_is_ok(status)) {
    *out_result = slip_ticket_wait(ticket, -1);
    for (int i = 0; i < 4; ++i) {
      if (z[i] != x[i] + y[i]) fault_wrong(world, "the launch computed %f, expected %f", (double)z[i], (double)(x[i] + y[i]));
    }
  } else if (ticket) {
    fault_wrong(world, "a refused launch gave a ticket");
  }
  slip_ticket_release(ticket);
  if (world->released != world->expected_released) {
    fault_wrong(world, "the owner was released %u times after %u launches", world->released, world->expected_released);
  }
  return status;
}

void fault_world_use(fault_world_t *world) {
  slip_status_t result = slip_ok_status();
  fault_check(world, fault_launch(world, world->add, SLIP_STREAM_INLINE, &result), SLIP_CODE_OK, "a later inline launch");
  fault_check(world, result, SLIP_CODE_OK, "its result");
  fault_check(world, fault_launch(world, world->add, world->stream, &result), SLIP_CODE_OK, "a later launch on the stream");
  fault_check(world, result, SLIP_CODE_OK, "its result");
}

static void fault_leak(fault_world_t *world, const char *what, uint64_t left) {
  printf("# %s: %llu %s left\n", world->what, (unsigned long long)left, what);
  ++world->leaks;
}

void fault_world_end(fault_world_t *world) {
  slip_platform_t *platform = NULL;
  if (world->context) {
    fault_check(world, slip_context_close(world->context), SLIP_CODE_OK, "close at the end");
    fault_check(world, slip_context_destroy(world->context), SLIP_CODE_OK, "destroy");
  }
  if (world->stream) {
    fault_check(world, slip_platform_find("cpu", &platform), SLIP_CODE_OK, "finding the platform");
    fault_check(world, slip_stream_destroy(platform, world->stream), SLIP_CODE_OK, "destroying the caller's stream");
  }
  slip__platform_log_set(NULL, NULL);
  slip_fixture_free(world->scratch_image);
  if (world->memory.live_blocks) fault_leak(world, "blocks of memory", world->memory.live_blocks);
  if (world->taken[0] != world->given[0]) fault_leak(world, "modules", world->taken[0] - world->given[0]);
  if (world->taken[1] != world->given[1]) fault_leak(world, "blocks of the platform", world->taken[1] - world->given[1]);
  uint32_t descriptors = fault_count_entries("/proc/self/fd"), threads = fault_count_threads(world->threads);
  if (descriptors != world->descriptors) fault_leak(world, "descriptors", descriptors - world->descriptors);
  if (threads != world->threads) fault_leak(world, "threads", threads - world->threads);
}
