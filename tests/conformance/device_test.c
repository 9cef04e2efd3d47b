// SPDX-License-Identifier: Apache-2.0
// Loading, handshake, devices, targets, capture questions.
#include "conformance.h"

SLIP_TEST(platform_handshake_is_complete) {
  slip_platform_t *platform = conform_platform();
  const slip_platform_handshake_t *handshake = slip__platform_handshake(platform);
  SLIP_CHECK_EQ(handshake->abi_version, SLIP_PLATFORM_ABI_VERSION);
  SLIP_CHECK(handshake->build_id && *handshake->build_id);
  SLIP_CHECK(handshake->version && *handshake->version);
  SLIP_CHECK_STR(slip__platform_name(platform), conform_platform_name());
}

SLIP_TEST(platform_promises_are_kept) {
  slip_platform_t *platform = conform_platform();
  uint32_t can = slip__platform_capabilities(platform);
  uint64_t runs = 0;
  slip_stream_t stream = NULL;
  slip_status_t made = slip_stream_create(platform, 0, &stream);
  SLIP_CHECK_EQ(slip_status_is_ok(made), (can & SLIP_PLATFORM_CAN_STREAMS) != 0);
  if (slip_status_is_ok(made)) SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  slip_status_free(made);
  slip_status_t called = slip_stream_enqueue_host(platform, SLIP_STREAM_INLINE, conform_count, &runs);
  SLIP_CHECK_EQ(slip_status_is_ok(called), (can & SLIP_PLATFORM_CAN_INLINE) != 0);
  SLIP_CHECK_EQ(runs, (can & SLIP_PLATFORM_CAN_INLINE) ? 1 : 0);
  slip_status_free(called);
}

SLIP_TEST(device_list_and_properties) {
  slip_platform_t *platform = conform_platform();
  int32_t count = -1, current = -1;
  SLIP_CHECK_OK(slip_platform_device_count(platform, &count));
  SLIP_CHECK(count >= 1);
  for (int32_t device = 0; device < count; ++device) {
    slip_device_properties_t properties;
    SLIP_CHECK_OK(slip_platform_device_properties(platform, device, &properties));
    SLIP_CHECK(properties.name[0] != '\0');
    SLIP_CHECK(memchr(properties.name, 0, sizeof(properties.name)) && memchr(properties.target, 0, sizeof(properties.target)));
    SLIP_CHECK_EQ(properties.capture_supported != 0, (slip__platform_capabilities(platform) & SLIP_PLATFORM_CAN_CAPTURE) != 0);
  }
  SLIP_CHECK_OK(slip__platform_device_current(platform, &current));
  SLIP_CHECK(current >= 0 && current < count);
}

SLIP_TEST(device_out_of_range_is_refused) {
  slip_platform_t *platform = conform_platform();
  int32_t count = 0;
  slip_device_properties_t properties;
  void *out = NULL;
  SLIP_CHECK_OK(slip_platform_device_count(platform, &count));
  const int32_t wrong[] = {-1, count, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < 4; ++i) {
    SLIP_CHECK_CODE(slip_platform_device_properties(platform, wrong[i], &properties), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_stream_create(platform, wrong[i], &out), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_event_create(platform, wrong[i], &out), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_memory_allocate(platform, wrong[i], 64, &out), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK(!slip_platform_target_supported(platform, wrong[i], "x86-64-v2"));
  }
}

SLIP_TEST(device_runs_its_own_target) {
  slip_platform_t *platform = conform_platform();
  slip_device_properties_t properties;
  SLIP_CHECK_OK(slip_platform_device_properties(platform, 0, &properties));
  if (properties.target[0] == '\0') slip_test_unsupported("the device names no target");
  SLIP_CHECK(slip_platform_target_supported(platform, 0, properties.target));
}

SLIP_TEST(device_refuses_unknown_targets) {
  slip_platform_t *platform = conform_platform();
  SLIP_CHECK(!slip_platform_target_supported(platform, 0, "no-such-target"));
  SLIP_CHECK(!slip_platform_target_supported(platform, 0, ""));
}

SLIP_TEST(device_binding_is_undone) {
  slip_platform_t *platform = conform_platform();
  int32_t before = -1, after = -2;
  SLIP_CHECK_OK(slip__platform_device_current(platform, &before));
  SLIP_CHECK_OK(slip__platform_device_push(platform, 0));
  SLIP_CHECK_OK(slip__platform_device_pop(platform, 0));
  SLIP_CHECK_OK(slip__platform_device_current(platform, &after));
  SLIP_CHECK_EQ(after, before);
}
