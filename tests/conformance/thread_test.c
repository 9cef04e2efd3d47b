// SPDX-License-Identifier: Apache-2.0
// The current device: every thread has its own, the platform compares and never changes it.
#include "conformance.h"

typedef struct conform_look_t {
  slip_platform_t *platform;
  int32_t device;
} conform_look_t;

static void conform_look(void *user) {
  conform_look_t *look = user;
  SLIP_CHECK_OK(slip__platform_device_current(look->platform, &look->device));
}

static int32_t conform_current(slip_platform_t *platform) {
  int32_t device = -1;
  SLIP_CHECK_OK(slip__platform_device_current(platform, &device));
  return device;
}

SLIP_TEST(thread_binding_nests_and_is_the_threads_own) {
  slip_platform_t *platform = conform_platform();
  conform_need_devices(platform, 2);
  conform_look_t other = {platform, -1};
  SLIP_CHECK_EQ(conform_current(platform), 0);
  SLIP_CHECK_OK(slip__platform_device_push(platform, 1));
  SLIP_CHECK_EQ(conform_current(platform), 1);
  SLIP_CHECK_OK(slip__platform_device_push(platform, 0));
  SLIP_CHECK_OK(slip__platform_device_push(platform, 1));
  conform_on_thread(conform_look, &other);
  SLIP_CHECK_EQ(other.device, 0);
  SLIP_CHECK_OK(slip__platform_device_pop(platform, 1));
  SLIP_CHECK_EQ(conform_current(platform), 0);
  SLIP_CHECK_OK(slip__platform_device_pop(platform, 0));
  SLIP_CHECK_EQ(conform_current(platform), 1);
  SLIP_CHECK_OK(slip__platform_device_pop(platform, 1));
  SLIP_CHECK_EQ(conform_current(platform), 0);
}

SLIP_TEST(thread_unbinding_what_is_not_bound_is_refused) {
  slip_platform_t *platform = conform_platform();
  conform_need_devices(platform, 2);
  SLIP_CHECK_CODE(slip__platform_device_pop(platform, 0), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip__platform_device_push(platform, 1));
  SLIP_CHECK_CODE(slip__platform_device_pop(platform, 0), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_EQ(conform_current(platform), 1);
  SLIP_CHECK_OK(slip__platform_device_pop(platform, 1));
  SLIP_CHECK_EQ(conform_current(platform), 0);
}

SLIP_TEST(thread_current_device_survives_a_binding) {
  slip_platform_t *platform = conform_platform();
  conform_need_devices(platform, 2);
  conform_need_simulated();
  conform_set_device(1);
  SLIP_CHECK_EQ(conform_current(platform), 1);
  SLIP_CHECK_OK(slip__platform_device_push(platform, 0));
  SLIP_CHECK_EQ(conform_current(platform), 0);
  SLIP_CHECK_OK(slip__platform_device_pop(platform, 0));
  SLIP_CHECK_EQ(conform_current(platform), 1);
  conform_look_t other = {platform, -1};
  conform_on_thread(conform_look, &other);
  SLIP_CHECK_EQ(other.device, 0);
  conform_set_device(0);
}

#define CONFORM_OF_ANOTHER(expression)                       \
  do {                                                       \
    CONFORM_NUMBER(expression, 201, 107002);                 \
    SLIP_CHECK_CODE(expression, SLIP_CODE_INVALID_ARGUMENT); \
  } while (0)

// Nothing is done on a device that is not the thread's current one: not silently on another, and not with a hidden switch.
SLIP_TEST(thread_calls_on_another_device_are_refused) {
  slip_platform_t *platform = conform_platform();
  conform_need_devices(platform, 2);
  slip_stream_t stream = conform_stream(platform), made = NULL;
  slip_event_t event = conform_event(platform);
  void *memory = conform_memory(platform, 64), *more = NULL, *pinned = conform_pinned(platform, 64);
  uint64_t runs = 0;
  memset(pinned, 7, 64);
  SLIP_CHECK_OK(slip__platform_device_push(platform, 1));
  CONFORM_OF_ANOTHER(slip_stream_create(platform, 0, &made));
  CONFORM_OF_ANOTHER(slip_event_create(platform, 0, &made));
  CONFORM_OF_ANOTHER(slip_memory_allocate(platform, 0, 64, &more));
  CONFORM_OF_ANOTHER(slip_memory_free(platform, 0, memory));
  CONFORM_OF_ANOTHER(slip_memory_copy(platform, 0, memory, pinned, 64, SLIP_COPY_HOST_TO_DEVICE));
  CONFORM_OF_ANOTHER(slip__platform_memory_fill(platform, 0, memory, 1, 64));
  CONFORM_OF_ANOTHER(slip_memory_copy_async(platform, stream, memory, pinned, 64, SLIP_COPY_HOST_TO_DEVICE));
  CONFORM_OF_ANOTHER(slip_stream_enqueue_host(platform, stream, conform_count, &runs));
  CONFORM_OF_ANOTHER(slip_event_record(platform, event, stream));
  SLIP_CHECK(!made && !more);
  SLIP_CHECK_EQ(conform_current(platform), 1);
  SLIP_CHECK_OK(slip__platform_device_pop(platform, 1));
  SLIP_CHECK_OK(slip_memory_copy(platform, 0, memory, pinned, 64, SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, memory));
  SLIP_CHECK_OK(slip_host_free(platform, pinned));
  SLIP_CHECK_EQ(runs, 0);
}

static slip_stream_t conform_stream_of(slip_platform_t *platform, int32_t device, slip_event_t *out_event) {
  slip_stream_t stream = NULL;
  SLIP_CHECK_OK(slip__platform_device_push(platform, device));
  SLIP_CHECK_OK(slip_stream_create(platform, device, &stream));
  SLIP_CHECK_OK(slip_event_create(platform, device, out_event));
  SLIP_CHECK_OK(slip__platform_device_pop(platform, device));
  return stream;
}

static void conform_stream_of_end(slip_platform_t *platform, int32_t device, slip_stream_t stream, slip_event_t event) {
  SLIP_CHECK_OK(slip__platform_device_push(platform, device));
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_event_destroy(platform, event));
  SLIP_CHECK_OK(slip__platform_device_pop(platform, device));
}

SLIP_TEST(event_of_another_device_cannot_be_recorded) {
  slip_platform_t *platform = conform_platform();
  conform_need_devices(platform, 2);
  slip_event_t near = NULL, far = NULL;
  slip_stream_t here = conform_stream_of(platform, 0, &near), there = conform_stream_of(platform, 1, &far);
  SLIP_CHECK_CODE(slip_event_record(platform, far, here), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_event_record(platform, near, here));
  SLIP_CHECK_OK(slip_event_synchronize(platform, near));
  conform_stream_of_end(platform, 0, here, near);
  conform_stream_of_end(platform, 1, there, far);
}

// A wait may cross devices: both streams keep one order.
SLIP_TEST(event_wait_crosses_devices) {
  slip_platform_t *platform = conform_platform();
  conform_need_devices(platform, 2);
  slip_event_t near = NULL, far = NULL;
  slip_stream_t here = conform_stream_of(platform, 0, &near), there = conform_stream_of(platform, 1, &far);
  conform_gate_t gate = {0};
  uint64_t runs = 0;
  CONFORM_OK(slip_stream_enqueue_host(platform, here, conform_gate_pass, &gate));
  for (int i = 0; i < 20; ++i) {
    CONFORM_OK(slip_stream_enqueue_host(platform, here, conform_count, &runs));
    SLIP_CHECK_OK(slip_event_record(platform, near, here));
    SLIP_CHECK_OK(slip__platform_device_push(platform, 1));
    SLIP_CHECK_OK(slip_stream_wait_event(platform, there, near));
    CONFORM_OK(slip_stream_enqueue_host(platform, there, conform_count, &runs));
    SLIP_CHECK_OK(slip_event_record(platform, far, there));
    SLIP_CHECK_OK(slip__platform_device_pop(platform, 1));
    SLIP_CHECK_OK(slip_stream_wait_event(platform, here, far));
  }
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_stream_synchronize(platform, here));
  SLIP_CHECK_EQ(runs, 40);
  conform_stream_of_end(platform, 0, here, near);
  conform_stream_of_end(platform, 1, there, far);
}

SLIP_TEST(memory_of_another_device_is_refused) {
  slip_platform_t *platform = conform_platform();
  conform_need_devices(platform, 2);
  void *near = conform_memory(platform, 64), *far = NULL;
  uint8_t bytes[64] = {1};
  SLIP_CHECK_OK(slip__platform_device_push(platform, 1));
  SLIP_CHECK_OK(slip_memory_allocate(platform, 1, 64, &far));
  SLIP_CHECK(far != near);
  SLIP_CHECK_CODE(slip_memory_free(platform, 1, near), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_memory_copy(platform, 1, far, bytes, 64, SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(slip_memory_free(platform, 1, far));
  SLIP_CHECK_OK(slip__platform_device_pop(platform, 1));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, near));
}
