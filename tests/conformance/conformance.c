// SPDX-License-Identifier: Apache-2.0
#include "conformance.h"

#include "device_fixture.h"

// What --with may name.
static const struct {
  const char *parameter, *platform;
  uint32_t flavour;
  bool simulated;
} conform_targets[] = {
    {"sim-cuda", "sim", SLIP_SIM_FLAVOUR_CUDA, true},
    {"sim-ascend", "sim", SLIP_SIM_FLAVOUR_ASCEND, true},
    {"cuda", "cuda", SLIP_SIM_FLAVOUR_CUDA, false},
    {"ascend", "ascend", SLIP_SIM_FLAVOUR_ASCEND, false},
    {"cpu", "cpu", 0, false},
    {"null", "null", 0, false},
};

// Of the test that runs in this process.
static slip_platform_t *conform_tested;
static uint64_t conform_violations_seen, conform_lifecycle_made;

static size_t conform_target(void) {
  for (size_t i = 0; i < sizeof(conform_targets) / sizeof(conform_targets[0]); ++i) {
    if (!strcmp(conform_targets[i].parameter, slip_test_parameter())) return i;
  }
  slip_test_fail(__FILE__, __LINE__, "there is no \"%s\" to test", slip_test_parameter());
}

const char *conform_platform_name(void) {
  return conform_targets[conform_target()].platform;
}
uint32_t conform_flavour(void) {
  return conform_targets[conform_target()].flavour;
}
bool conform_is_simulated(void) {
  return conform_targets[conform_target()].simulated;
}

static void conform_print_violations(void) {
  char text[512];
  for (uint64_t i = 0; i < slip_sim_violation_count() && slip_sim_violation(i, text, sizeof(text)) > 0; ++i) {
    printf("# violation %llu: %s\n", (unsigned long long)i, text);
  }
}

uint64_t conform_new_violations(void) {
  return conform_is_simulated() ? slip_sim_violation_count() - conform_violations_seen : 0;
}

void conform_expect_violations(uint64_t count) {
  uint64_t found = conform_new_violations();
  if (found != count) {
    conform_print_violations();
    slip_test_fail(__FILE__, __LINE__, "%llu violations were recorded, expected %llu", (unsigned long long)found,
                   (unsigned long long)count);
  }
  char text[512];
  for (uint64_t i = 0; i < count && i < 64; ++i) SLIP_CHECK(slip_sim_violation(conform_violations_seen + i, text, sizeof(text)) > 10);
  conform_violations_seen += count;
}

static void conform_end(void) {
  conform_expect_violations(0);
  slip_fixture_sim_check_empty();
  SLIP_CHECK_EQ(slip_sim_lifecycle_calls(), conform_lifecycle_made);
}

static void conform_power_on(const slip_sim_options_t *limits) {
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  if (limits) options = *limits;
  options.flavour = conform_flavour();
  options.seed = slip_test_seed();
  SLIP_CHECK_OK(slip_sim_reset(&options));
  conform_violations_seen = 0;
  slip_test_at_end(conform_end);
}

slip_platform_t *conform_platform(void) {
  if (!conform_tested && conform_is_simulated()) conform_power_on(NULL);
  if (!conform_tested) SLIP_CHECK_OK(slip_platform_find(conform_platform_name(), &conform_tested));
  return conform_tested;
}

void conform_need_simulated(void) {
  (void)conform_platform();
  if (!conform_is_simulated()) slip_test_unsupported("the platform is not simulated");
}

slip_platform_t *conform_limited(const slip_sim_options_t *limits) {
  conform_need_simulated();
  conform_power_on(limits);
  return conform_tested;
}

void conform_need_devices(slip_platform_t *platform, int32_t count) {
  int32_t there = 0;
  SLIP_CHECK_OK(slip_platform_device_count(platform, &there));
  if (there < count) slip_test_unsupported("the platform has %d devices of the %d needed", there, count);
}

void conform_reset_device(int32_t device) {
  ++conform_lifecycle_made;
  SLIP_CHECK_OK(slip_sim_reset_device(device));
}

void conform_set_device(int32_t device) {
  ++conform_lifecycle_made;
  SLIP_CHECK_OK(slip_sim_set_device(device));
}

void conform_check_number(slip_status_t status, int64_t cuda, int64_t ascend, const char *text, const char *file, int line) {
  char buffer[1024];
  int64_t expected = conform_flavour() == SLIP_SIM_FLAVOUR_ASCEND ? ascend : cuda;
  slip_status_format(status, buffer, sizeof(buffer));
  if (slip_status_is_ok(status)) slip_test_fail(file, line, "%s succeeded, expected a failure with number %lld", text, (long long)expected);
  if (conform_flavour() != 0 && slip_status_platform_code(status) != expected) {
    slip_test_fail(file, line, "%s gave number %lld (%s), expected %lld", text, (long long)slip_status_platform_code(status), buffer,
                   (long long)expected);
  }
  slip_status_free(status);
}

slip_stream_t conform_stream(slip_platform_t *platform) {
  slip_stream_t stream = NULL;
  CONFORM_OK(slip_stream_create(platform, 0, &stream));
  SLIP_CHECK(stream != NULL);
  return stream;
}

slip_event_t conform_event(slip_platform_t *platform) {
  slip_event_t event = NULL;
  CONFORM_OK(slip_event_create(platform, 0, &event));
  SLIP_CHECK(event != NULL);
  return event;
}

void *conform_memory(slip_platform_t *platform, uint64_t size_bytes) {
  void *memory = NULL;
  CONFORM_OK(slip_memory_allocate(platform, 0, size_bytes, &memory));
  SLIP_CHECK(memory != NULL);
  return memory;
}

void *conform_pinned(slip_platform_t *platform, uint64_t size_bytes) {
  void *memory = NULL;
  CONFORM_OK(slip_host_allocate(platform, size_bytes, &memory));
  SLIP_CHECK(memory != NULL);
  return memory;
}

void conform_need(slip_platform_t *platform, slip_platform_capability_bits_e capability, const char *what) {
  if (!(slip__platform_capabilities(platform) & (uint32_t)capability)) slip_test_unsupported("the platform does not promise %s", what);
}

void conform_need_own_memory(slip_platform_t *platform) {
  if (!(slip__platform_capabilities(platform) & SLIP_PLATFORM_CAN_STREAMS)) slip_test_unsupported("the platform has no memory");
  if (slip__platform_capabilities(platform) & SLIP_PLATFORM_HOST_MEMORY) slip_test_unsupported("device memory is the host's");
}
