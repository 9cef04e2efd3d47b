// SPDX-License-Identifier: Apache-2.0
// What an open asks of a platform, with tables that lack something, claim too much or come from another build.
#include "kernel_mode/preflight.h"

#include <unistd.h>

#include "platform/dispatch.h"
#include "platform/registry.h"
#include "slip_test.h"

static slip_platform_vtable_t slip_preflight_table;
static slip_platform_handshake_t slip_preflight_handshake;  // what the table's own handshake tells

static slip_status_t slip_preflight_shake(slip_platform_handshake_t *out) {
  *out = slip_preflight_handshake;
  return slip_ok_status();
}

// "cpu" becomes a table of the test's, to be loaded anew.
static slip_platform_t *slip_preflight_install(void) {
  slip_platform_t *platform = NULL;
  SLIP_CHECK_OK(slip_platform_find("cpu", &platform));
  slip_preflight_table = slip__cpu_platform;
  slip_preflight_handshake = *slip__platform_handshake(platform);
  slip_preflight_table.handshake = slip_preflight_shake;
  platform->vtable = &slip_preflight_table;
  atomic_store(&platform->ready, 0);
  return platform;
}

static slip_status_t slip_preflight_try(slip_platform_t *platform, uint32_t flags) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip__plan_t plan;
  options.flags = flags;
  atomic_store(&platform->ready, 0);
  slip_status_t status = slip__preflight(&options, &plan);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  return status;
}

static slip_status_t slip_preflight_any(void) {
  return slip_ok_status();
}
#define SLIP_PREFLIGHT_FILL(entry) slip_preflight_table.entry = (__typeof__(slip_preflight_table.entry))(void (*)(void))slip_preflight_any

SLIP_TEST(preflight_memory_out_of_reach_needs_maps) {
  slip_platform_t *platform = slip_preflight_install();
  SLIP_CHECK_OK(slip_preflight_try(platform, 0));
  slip_preflight_handshake.capabilities &= ~(uint32_t)SLIP_PLATFORM_HOST_MEMORY;
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "no device_map entry");
  SLIP_PREFLIGHT_FILL(device_map);
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "no device_unmap entry");
  SLIP_PREFLIGHT_FILL(device_unmap);
  SLIP_CHECK_OK(slip_preflight_try(platform, 0));
  slip_preflight_table.stream_launch = NULL;
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "no stream_launch entry");
  slip_preflight_handshake.capabilities &= ~(uint32_t)SLIP_PLATFORM_CAN_STREAMS;  // inline alone needs none
  SLIP_CHECK_OK(slip_preflight_try(platform, 0));
  slip_preflight_handshake.capabilities &= ~(uint32_t)SLIP_PLATFORM_CAN_INLINE;
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "neither inline nor asynchronous");
  slip_preflight_handshake.capabilities = SLIP_PLATFORM_CAN_INLINE;
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "cannot run host-native");
}

static slip_status_t slip_preflight_no_capture(slip_capture_info_t *out) {
  (void)out;
  return slip_ok_status();
}

// The self-declared bit alone is worth nothing, and half a group neither.
SLIP_TEST(preflight_capture_is_whole_or_absent) {
  slip_platform_t *platform = slip_preflight_install();
  slip_preflight_handshake.capabilities |= SLIP_PLATFORM_CAN_CAPTURE;
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "no thread_capture_info entry");
  slip_preflight_table.thread_capture_info = slip_preflight_no_capture;
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "no capture_begin entry");
  SLIP_PREFLIGHT_FILL(capture_begin);
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "no capture_end entry");
  SLIP_PREFLIGHT_FILL(capture_end);
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "no capture_retain entry");
  slip_preflight_handshake.capabilities &= ~(uint32_t)SLIP_PLATFORM_CAN_CAPTURE;
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "no capture_retain entry");
  SLIP_PREFLIGHT_FILL(capture_retain);
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "no graph_launch entry");
  SLIP_PREFLIGHT_FILL(graph_launch);
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "no graph_destroy entry");
  SLIP_PREFLIGHT_FILL(graph_destroy);
  SLIP_CHECK_OK(slip_preflight_try(platform, 0));
}

SLIP_TEST(preflight_binding_comes_in_pairs) {
  slip_platform_t *platform = slip_preflight_install();
  SLIP_PREFLIGHT_FILL(device_pop);
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_UNSUPPORTED, "no device_push entry");
  SLIP_PREFLIGHT_FILL(device_push);
  SLIP_CHECK_OK(slip_preflight_try(platform, 0));
}

// Load keeps what another build says of itself; each open decides, and one that accepts it says so.
SLIP_TEST(preflight_build_identity_is_the_callers_to_accept) {
  slip_platform_t *platform = slip_preflight_install();
  uint64_t accepted = 7;
  SLIP_CHECK_OK(slip_preflight_try(platform, 0));
  SLIP_CHECK_OK(slip_platform_check_build(platform, &accepted));
  SLIP_CHECK_EQ(accepted, 0);
  slip_preflight_handshake.build_id = "out of tree";
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_INCOMPATIBLE, "out of tree");
  SLIP_CHECK_OK(slip_preflight_try(platform, SLIP_CONTEXT_SKIP_BUILD_CHECK));
  slip_preflight_handshake.build_id = NULL;
  SLIP_CHECK_ERROR(slip_preflight_try(platform, 0), SLIP_CODE_INCOMPATIBLE, "no build identity");
  SLIP_CHECK_OK(slip_preflight_try(platform, SLIP_CONTEXT_SKIP_BUILD_CHECK));
  SLIP_CHECK_ERROR(slip_platform_check_build(platform, &accepted), SLIP_CODE_INCOMPATIBLE, "no build identity");
  SLIP_CHECK_EQ(accepted, 0);  // a preflight is not an open
  SLIP_CHECK_CODE(slip_platform_check_build(NULL, NULL), SLIP_CODE_INVALID_ARGUMENT);
  // What no option can make right.
  slip_preflight_handshake.build_id = "out of tree";
  slip_preflight_handshake.sanitizer ^= 1;
  SLIP_CHECK_ERROR(slip_preflight_try(platform, SLIP_CONTEXT_SKIP_BUILD_CHECK), SLIP_CODE_INCOMPATIBLE, "sanitizer");
  slip_preflight_handshake.sanitizer ^= 1;
  slip_preflight_handshake.abi_version = 1;
  SLIP_CHECK_ERROR(slip_preflight_try(platform, SLIP_CONTEXT_SKIP_BUILD_CHECK), SLIP_CODE_INCOMPATIBLE, "ABI 1");
}

SLIP_TEST(preflight_accepted_build_is_logged_and_counted) {
  slip_platform_t *platform = slip_preflight_install();
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *first = NULL, *second = NULL;
  uint64_t accepted = 0;
  int pipes[2];
  char text[1024] = {0};
  slip_preflight_handshake.build_id = "out of tree";
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  SLIP_CHECK_ERROR(slip_context_open(&options, &first), SLIP_CODE_INCOMPATIBLE, "out of tree");
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  options.flags |= SLIP_CONTEXT_SKIP_BUILD_CHECK;
  SLIP_CHECK_EQ(pipe(pipes), 0);
  int saved = dup(2);
  (void)dup2(pipes[1], 2);
  SLIP_CHECK_OK(slip_context_open(&options, &first));
  SLIP_CHECK_OK(slip_context_open(&options, &second));  // the same context: said once
  (void)dup2(saved, 2);
  (void)close(pipes[1]);
  SLIP_CHECK(read(pipes[0], text, sizeof(text) - 1) > 0);
  const char *line = strstr(text, "cpu:0 was opened with SLIP_CONTEXT_SKIP_BUILD_CHECK");
  SLIP_CHECK(line != NULL && strstr(line, "out of tree") != NULL);
  SLIP_CHECK(strstr(line + 1, "SKIP_BUILD_CHECK: ") == strstr(line, "SKIP_BUILD_CHECK: ") && strchr(line, '\n')[1] == '\0');
  SLIP_CHECK_CODE(slip_platform_check_build(platform, &accepted), SLIP_CODE_INCOMPATIBLE);
  SLIP_CHECK_EQ(accepted, 1);
  SLIP_CHECK_OK(slip_context_close(first));
  SLIP_CHECK_OK(slip_context_destroy(first));
  SLIP_CHECK_OK(slip_context_destroy(second));
}
