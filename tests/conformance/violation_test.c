// SPDX-License-Identifier: Apache-2.0
// What code may not do and a strict platform finds: each is refused or recorded as a violation, and what device code did breaks the device.
#include <errno.h>
#include <unistd.h>

#include "device_work.h"

typedef struct conform_scene_t {
  slip_platform_t *platform;
  slip_stream_t stream;
  uint8_t *memory;  // 256 bytes, 1 each
} conform_scene_t;

static conform_scene_t conform_scene(void) {
  slip_platform_t *platform = conform_platform();
  conform_need_own_memory(platform);
  conform_scene_t scene = {platform, conform_stream(platform), conform_memory(platform, 256)};
  SLIP_CHECK_OK(slip__platform_memory_fill(platform, 0, scene.memory, 1, 256));
  return scene;
}

static void conform_scene_end(const conform_scene_t *scene) {
  SLIP_CHECK_OK(slip_stream_destroy(scene->platform, scene->stream));
  SLIP_CHECK_OK(slip_memory_free(scene->platform, 0, scene->memory));
}

// Runs |work| as device code and waits for its end; what the stream says of it is the caller's to judge.
static slip_status_t conform_work_do(const conform_scene_t *scene, conform_work_t *work) {
  work->platform = scene->platform;
  SLIP_CHECK_OK(slip__platform_stream_launch(scene->platform, scene->stream, conform_work_run, work));
  slip_status_t status = slip_stream_synchronize(scene->platform, scene->stream);
  for (int i = 0; i < 5000 && atomic_load(&work->ended) == 0; ++i) usleep(1000);
  SLIP_CHECK_EQ(atomic_load(&work->ended), 1);
  return status;
}

// The device is broken: every call on it fails with the same number, the other device works, and a reset makes all well.
static void conform_check_broken(conform_scene_t *scene, int64_t cuda, int64_t ascend) {
  slip_platform_t *platform = scene->platform;
  slip_stream_t stream = NULL;
  void *memory = NULL;
  for (int round = 0; round < 2; ++round) {
    CONFORM_NUMBER(slip_stream_synchronize(platform, scene->stream), cuda, ascend);
    SLIP_CHECK_CODE(slip_stream_query(platform, scene->stream), SLIP_CODE_DEVICE);
    SLIP_CHECK_CODE(slip_stream_enqueue_host(platform, scene->stream, conform_nothing, NULL), SLIP_CODE_DEVICE);
    CONFORM_NUMBER(slip_stream_create(platform, 0, &stream), cuda, ascend);
    CONFORM_NUMBER(slip_memory_allocate(platform, 0, 64, &memory), cuda, ascend);
    SLIP_CHECK_CODE(slip__platform_memory_fill(platform, 0, scene->memory, 1, 1), SLIP_CODE_DEVICE);
    SLIP_CHECK(!stream && !memory);
  }
  SLIP_CHECK_OK(slip__platform_device_push(platform, 1));
  SLIP_CHECK_OK(slip_memory_allocate(platform, 1, 64, &memory));
  SLIP_CHECK_OK(slip_memory_free(platform, 1, memory));
  SLIP_CHECK_OK(slip__platform_device_pop(platform, 1));
  conform_reset_device(0);
  SLIP_CHECK_CODE(slip_stream_query(platform, scene->stream), SLIP_CODE_INVALID_ARGUMENT);  // gone with the reset
  SLIP_CHECK_CODE(slip_memory_free(platform, 0, scene->memory), SLIP_CODE_INVALID_ARGUMENT);
  *scene = conform_scene();
  conform_scene_end(scene);
}

SLIP_TEST(violation_free_device_work_is_fine) {
  conform_scene_t scene = conform_scene();
  uint8_t back[256];
  conform_work_t work = {
      .address = scene.memory, .size_bytes = 256, .access = SLIP_MAP_READ | SLIP_MAP_WRITE, .write_bytes = 256, .value = 5};
  SLIP_CHECK_OK(conform_work_do(&scene, &work));
  SLIP_CHECK(work.runs == 1 && work.mapped == SLIP_CODE_OK && work.unmapped == SLIP_CODE_OK && work.seen == 1);
  SLIP_CHECK_OK(slip_memory_copy(scene.platform, 0, back, scene.memory, 256, SLIP_COPY_DEVICE_TO_HOST));
  for (int i = 0; i < 256; ++i) SLIP_CHECK_EQ(back[i], (uint8_t)(5 + i));
  conform_scene_end(&scene);
}

SLIP_TEST(violation_device_addresses_do_not_dereference) {
  conform_scene_t scene = conform_scene();
  int pipes[2];
  SLIP_CHECK_EQ(pipe(pipes), 0);
  SLIP_CHECK_EQ(write(pipes[1], scene.memory, 1), -1);  // the kernel reads it for us, and tells instead of a signal
  SLIP_CHECK_EQ(errno, EFAULT);
  close(pipes[0]);
  close(pipes[1]);
  conform_scene_end(&scene);
}

// Ranges that belong to no allocation, or reach over its end, are refused by the call itself.
SLIP_TEST(violation_copies_out_of_range_are_refused) {
  conform_scene_t scene = conform_scene();
  slip_platform_t *platform = scene.platform;
  uint8_t *pinned = conform_pinned(platform, 4096), host[4096] = {0};
  memset(pinned, 0, 4096);
  const struct {
    uint64_t offset, size;
  } wrong[] = {{0, 257}, {255, 2}, {256, 1}, {0, UINT64_MAX}, {UINT64_MAX, 1}, {128, UINT64_MAX - 100}};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
    uint8_t *at = (uint8_t *)((uintptr_t)scene.memory + wrong[i].offset);
    uint64_t size = wrong[i].size;
    CONFORM_NUMBER(slip_memory_copy(platform, 0, at, host, size, SLIP_COPY_HOST_TO_DEVICE), 1, 107000);
    SLIP_CHECK_CODE(slip_memory_copy(platform, 0, host, at, size, SLIP_COPY_DEVICE_TO_HOST), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_memory_copy(platform, 0, scene.memory, at, size, SLIP_COPY_DEVICE_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_memory_copy_async(platform, scene.stream, at, pinned, size, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_memory_copy_async(platform, scene.stream, pinned, at, size, SLIP_COPY_DEVICE_TO_HOST), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip__platform_memory_fill(platform, 0, at, 1, size), SLIP_CODE_INVALID_ARGUMENT);
  }
  // The two sides exchanged.
  SLIP_CHECK_CODE(slip_memory_copy(platform, 0, host, scene.memory, 16, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_copy(platform, 0, scene.memory, pinned, 16, SLIP_COPY_DEVICE_TO_HOST), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_copy(platform, 0, scene.memory, pinned, 16, SLIP_COPY_DEVICE_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
  // Page-locked memory has an end too.
  SLIP_CHECK_CODE(slip_memory_copy_async(platform, scene.stream, scene.memory, pinned + 4000, 200, SLIP_COPY_HOST_TO_DEVICE),
                  SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_host_free(platform, pinned));
  conform_scene_end(&scene);
}

// A pageable source has been read when the call returns.
SLIP_TEST(violation_free_reuse_of_a_pageable_source) {
  conform_scene_t scene = conform_scene();
  conform_gate_t gate = {0};
  uint8_t bytes[64], back[64] = {0};
  SLIP_CHECK_OK(slip_stream_enqueue_host(scene.platform, scene.stream, conform_gate_pass, &gate));
  memset(bytes, 9, sizeof(bytes));
  SLIP_CHECK_OK(slip_memory_copy_async(scene.platform, scene.stream, scene.memory, bytes, sizeof(bytes), SLIP_COPY_HOST_TO_DEVICE));
  memset(bytes, 8, sizeof(bytes));
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_stream_synchronize(scene.platform, scene.stream));
  SLIP_CHECK_OK(slip_memory_copy(scene.platform, 0, back, scene.memory, sizeof(back), SLIP_COPY_DEVICE_TO_HOST));
  for (int i = 0; i < 64; ++i) SLIP_CHECK_EQ(back[i], 9);
  conform_scene_end(&scene);
}

// --- device memory freed too early

SLIP_TEST(violation_free_while_a_copy_is_enqueued) {
  conform_scene_t scene = conform_scene();
  uint8_t *pinned = conform_pinned(scene.platform, 64);
  conform_gate_t gate = {0};
  memset(pinned, 3, 64);
  SLIP_CHECK_OK(slip_stream_enqueue_host(scene.platform, scene.stream, conform_gate_pass, &gate));
  SLIP_CHECK_OK(slip_memory_copy_async(scene.platform, scene.stream, scene.memory, pinned, 64, SLIP_COPY_HOST_TO_DEVICE));
  slip_status_free(slip_memory_free(scene.platform, 0, scene.memory));
  SLIP_CHECK(conform_new_violations() > 0);
  conform_gate_open(&gate);
  slip_status_free(slip_stream_synchronize(scene.platform, scene.stream));
  conform_expect_violations(conform_new_violations());
  conform_reset_device(0);
  SLIP_CHECK_OK(slip_host_free(scene.platform, pinned));
}

SLIP_TEST(violation_free_of_pinned_memory_in_use) {
  conform_scene_t scene = conform_scene();
  uint8_t *pinned = conform_pinned(scene.platform, 64);
  conform_gate_t gate = {0};
  memset(pinned, 3, 64);
  SLIP_CHECK_OK(slip_stream_enqueue_host(scene.platform, scene.stream, conform_gate_pass, &gate));
  SLIP_CHECK_OK(slip_memory_copy_async(scene.platform, scene.stream, scene.memory, pinned, 64, SLIP_COPY_HOST_TO_DEVICE));
  slip_status_t freed = slip_host_free(scene.platform, pinned);
  SLIP_CHECK(conform_new_violations() > 0);
  conform_gate_open(&gate);
  slip_status_free(slip_stream_synchronize(scene.platform, scene.stream));
  conform_expect_violations(conform_new_violations());
  conform_reset_device(0);
  if (!slip_status_is_ok(freed)) SLIP_CHECK_OK(slip_host_free(scene.platform, pinned));
  slip_status_free(freed);
}

SLIP_TEST(violation_use_after_free_breaks_the_device) {
  conform_scene_t scene = conform_scene();
  void *gone = conform_memory(scene.platform, 128);
  SLIP_CHECK_OK(slip__platform_memory_fill(scene.platform, 0, gone, 1, 128));
  SLIP_CHECK_OK(slip_memory_free(scene.platform, 0, gone));
  conform_work_t work = {.address = gone, .size_bytes = 128, .access = SLIP_MAP_READ};
  CONFORM_NUMBER(conform_work_do(&scene, &work), 700, 507015);
  SLIP_CHECK_EQ(work.runs, 1);
  SLIP_CHECK(work.mapped != SLIP_CODE_OK);
  conform_expect_violations(1);
  conform_check_broken(&scene, 700, 507015);
}

SLIP_TEST(violation_use_after_free_by_the_host_is_refused) {
  conform_scene_t scene = conform_scene();
  uint8_t bytes[64] = {0};
  void *gone = conform_memory(scene.platform, 128);
  SLIP_CHECK_OK(slip_memory_free(scene.platform, 0, gone));
  SLIP_CHECK_CODE(slip_memory_copy(scene.platform, 0, gone, bytes, 64, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_copy_async(scene.platform, scene.stream, gone, bytes, 64, SLIP_COPY_HOST_TO_DEVICE),
                  SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip__platform_memory_fill(scene.platform, 0, gone, 0, 64), SLIP_CODE_INVALID_ARGUMENT);
  conform_expect_violations(3);
  conform_scene_end(&scene);
}

// --- device code out of bounds

SLIP_TEST(violation_write_behind_an_allocation_breaks_the_device) {
  conform_scene_t scene = conform_scene();
  conform_work_t work = {.address = scene.memory, .size_bytes = 256, .access = SLIP_MAP_WRITE, .write_bytes = 272, .value = 0x40};
  CONFORM_NUMBER(conform_work_do(&scene, &work), 700, 507015);
  SLIP_CHECK_EQ(work.mapped, SLIP_CODE_OK);
  SLIP_CHECK(work.unmapped != SLIP_CODE_OK);
  conform_expect_violations(1);
  conform_check_broken(&scene, 700, 507015);
}

SLIP_TEST(violation_write_before_an_allocation_breaks_the_device) {
  conform_scene_t scene = conform_scene();
  conform_work_t work = {.address = scene.memory,
                         .size_bytes = 256,
                         .access = SLIP_MAP_READ | SLIP_MAP_WRITE,
                         .write_from = -16,
                         .write_bytes = 17,
                         .value = 0x40};
  CONFORM_NUMBER(conform_work_do(&scene, &work), 700, 507015);
  conform_expect_violations(1);
  conform_check_broken(&scene, 700, 507015);
}

SLIP_TEST(violation_mapping_over_the_end_breaks_the_device) {
  conform_scene_t scene = conform_scene();
  conform_work_t work = {.address = scene.memory + 200, .size_bytes = 57, .access = SLIP_MAP_READ};
  CONFORM_NUMBER(conform_work_do(&scene, &work), 700, 507015);
  SLIP_CHECK(work.mapped != SLIP_CODE_OK);
  conform_expect_violations(1);
  conform_check_broken(&scene, 700, 507015);
}

SLIP_TEST(violation_mapping_host_memory_breaks_the_device) {
  conform_scene_t scene = conform_scene();
  static uint8_t host[64];
  conform_work_t work = {.address = host, .size_bytes = 64, .access = SLIP_MAP_READ};
  CONFORM_NUMBER(conform_work_do(&scene, &work), 700, 507015);
  conform_expect_violations(1);
  conform_check_broken(&scene, 700, 507015);
}

// --- what was never written

SLIP_TEST(violation_read_of_undefined_bytes_by_device_code) {
  conform_scene_t scene = conform_scene();
  void *fresh = conform_memory(scene.platform, 64);
  conform_work_t work = {.address = fresh, .size_bytes = 64, .access = SLIP_MAP_READ};
  slip_status_free(conform_work_do(&scene, &work));
  conform_expect_violations(1);
  conform_reset_device(0);
}

SLIP_TEST(violation_read_of_undefined_bytes_by_a_copy) {
  conform_scene_t scene = conform_scene();
  uint8_t *pinned = conform_pinned(scene.platform, 64), *fresh = conform_memory(scene.platform, 64);
  SLIP_CHECK_OK(slip__platform_memory_fill(scene.platform, 0, fresh, 1, 63));
  SLIP_CHECK_OK(slip_memory_copy(scene.platform, 0, pinned, fresh, 63, SLIP_COPY_DEVICE_TO_HOST));
  conform_expect_violations(0);  // what is defined may be read
  SLIP_CHECK_OK(slip_memory_copy_async(scene.platform, scene.stream, pinned, fresh, 64, SLIP_COPY_DEVICE_TO_HOST));
  slip_status_free(slip_stream_synchronize(scene.platform, scene.stream));
  conform_expect_violations(1);
  conform_reset_device(0);
  SLIP_CHECK_OK(slip_host_free(scene.platform, pinned));
}

// A mapping for writing defines what was written and nothing else.
SLIP_TEST(violation_read_of_an_output_left_unwritten) {
  conform_scene_t scene = conform_scene();
  void *fresh = conform_memory(scene.platform, 64);
  uint8_t back[64];
  conform_work_t work = {.address = fresh, .size_bytes = 64, .access = SLIP_MAP_WRITE, .write_bytes = 40, .value = 1};
  SLIP_CHECK_OK(conform_work_do(&scene, &work));
  SLIP_CHECK_OK(slip_memory_copy(scene.platform, 0, back, fresh, 40, SLIP_COPY_DEVICE_TO_HOST));
  for (int i = 0; i < 40; ++i) SLIP_CHECK_EQ(back[i], 1 + i);
  conform_expect_violations(0);
  slip_status_free(slip_memory_copy(scene.platform, 0, back, fresh, 41, SLIP_COPY_DEVICE_TO_HOST));
  conform_expect_violations(1);
  conform_reset_device(0);
}

// --- calls from where no call may be made

typedef struct conform_caller_t {
  slip_platform_t *platform;
  slip_stream_t stream;
  uint64_t refused;
} conform_caller_t;

static void conform_call_platform(void *user) {
  conform_caller_t *caller = user;
  void *out = NULL;
  slip_status_t answers[4] = {slip_stream_query(caller->platform, caller->stream), slip_memory_allocate(caller->platform, 0, 64, &out),
                              slip_stream_enqueue_host(caller->platform, caller->stream, conform_nothing, NULL),
                              slip_stream_synchronize(caller->platform, caller->stream)};
  for (int i = 0; i < 4; ++i) {
    caller->refused += slip_status_code(answers[i]) == SLIP_CODE_DEVICE &&
                       slip_status_platform_code(answers[i]) == (conform_flavour() == SLIP_SIM_FLAVOUR_ASCEND ? 107030 : 800);
    slip_status_free(answers[i]);
  }
}

SLIP_TEST(violation_calls_from_a_host_function) {
  conform_scene_t scene = conform_scene();
  slip_stream_t other = conform_stream(scene.platform);
  conform_caller_t caller = {scene.platform, other, 0};
  SLIP_CHECK_OK(slip_stream_enqueue_host(scene.platform, scene.stream, conform_call_platform, &caller));
  SLIP_CHECK_OK(slip_stream_synchronize(scene.platform, scene.stream));
  SLIP_CHECK_EQ(caller.refused, 4);
  conform_expect_violations(4);
  SLIP_CHECK_OK(slip_stream_destroy(scene.platform, other));
  conform_scene_end(&scene);
}

SLIP_TEST(violation_calls_from_device_code) {
  conform_scene_t scene = conform_scene();
  slip_stream_t other = conform_stream(scene.platform);
  conform_caller_t caller = {scene.platform, other, 0};
  SLIP_CHECK_OK(slip__platform_stream_launch(scene.platform, scene.stream, conform_call_platform, &caller));
  slip_status_free(slip_stream_synchronize(scene.platform, scene.stream));
  SLIP_CHECK_EQ(caller.refused, 4);
  conform_expect_violations(4);
  conform_reset_device(0);
}

// --- a device that breaks

SLIP_TEST(violation_free_break_of_a_device_is_sticky) {
  conform_scene_t scene = conform_scene();
  conform_need_simulated();
  SLIP_CHECK_OK(slip_sim_break_device(0));
  conform_expect_violations(conform_new_violations());
  conform_check_broken(&scene, 700, 507015);
}
