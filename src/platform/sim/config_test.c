// SPDX-License-Identifier: Apache-2.0
#include "platform/sim/sim.h"
#include "slip_test.h"

// The tests of this program name the settings they need.
__attribute__((constructor)) static void config_forget_environment(void) {
  static const char *const names[] = {"SLIP_SIM_DEVICES", "SLIP_SIM_FLAVOUR", "SLIP_SIM_SEED", "SLIP_SIM_DELAY_NS", "SLIP_SIM_MEMORY"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) (void)unsetenv(names[i]);
}

SLIP_TEST(sim_config_defaults) {
  const slip__sim_config_t *config = slip__sim_config();
  SLIP_CHECK_EQ(config->device_count, 2);
  SLIP_CHECK_EQ(config->flavour, SLIP_SIM_FLAVOUR_CUDA);
  SLIP_CHECK_EQ(config->seed, 1);
  SLIP_CHECK_EQ(config->memory_bytes, 1073741824);
  SLIP_CHECK_EQ(config->delay_ns, 20000);
  SLIP_CHECK_EQ(config->max_streams, 256);
  SLIP_CHECK_EQ(config->max_events, 4096);
}

SLIP_TEST(sim_config_reads_the_environment) {
  (void)setenv("SLIP_SIM_DEVICES", "7", 1);
  (void)setenv("SLIP_SIM_FLAVOUR", "ascend", 1);
  (void)setenv("SLIP_SIM_SEED", "0x10", 1);
  (void)setenv("SLIP_SIM_DELAY_NS", "0", 1);
  (void)setenv("SLIP_SIM_MEMORY", "65536", 1);
  SLIP_CHECK_OK(slip__sim_config_load());
  SLIP_CHECK_EQ(slip__sim_config()->device_count, 7);
  SLIP_CHECK(slip__sim_is_ascend());
  SLIP_CHECK_EQ(slip__sim_config()->seed, 16);
  SLIP_CHECK_EQ(slip__sim_config()->delay_ns, 0);
  SLIP_CHECK_EQ(slip__sim_config()->memory_bytes, 65536);
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  options.seed = 5;
  options.delay_ns = 10;
  options.max_events = 3;
  SLIP_CHECK_OK(slip__sim_config_set(&options));
  SLIP_CHECK_EQ(slip__sim_config()->seed, 5);
  SLIP_CHECK_EQ(slip__sim_config()->delay_ns, 10);
  SLIP_CHECK_EQ(slip__sim_config()->max_events, 3);
  SLIP_CHECK_EQ(slip__sim_config()->device_count, 7);
  options.delay_ns = UINT64_MAX;
  SLIP_CHECK_OK(slip__sim_config_set(&options));
  SLIP_CHECK_EQ(slip__sim_config()->delay_ns, 0);
  SLIP_CHECK_OK(slip__sim_config_set(NULL));
  SLIP_CHECK_EQ(slip__sim_config()->seed, 16);
}

SLIP_TEST(sim_config_names_what_is_malformed) {
  static const char *const wrong[][2] = {
      {"SLIP_SIM_DEVICES", "0"},
      {"SLIP_SIM_DEVICES", "17"},
      {"SLIP_SIM_DEVICES", "two"},
      {"SLIP_SIM_FLAVOUR", "Cuda"},
      {"SLIP_SIM_SEED", "-1"},
      {"SLIP_SIM_SEED", "1x"},
      {"SLIP_SIM_DELAY_NS", "10000000000"},
      {"SLIP_SIM_MEMORY", "1"},
      {"SLIP_SIM_SEED", "99999999999999999999"},
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
    (void)setenv(wrong[i][0], wrong[i][1], 1);
    SLIP_CHECK_ERROR(slip__sim_config_load(), SLIP_CODE_INVALID_ARGUMENT, wrong[i][0]);
    SLIP_CHECK_EQ(slip__sim_config()->device_count, 2);  // the defaults until it is mended
    (void)unsetenv(wrong[i][0]);
  }
  SLIP_CHECK_OK(slip__sim_config_load());
}

SLIP_TEST(sim_config_refuses_wrong_options) {
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  options.flavour = 3;
  SLIP_CHECK_ERROR(slip__sim_config_set(&options), SLIP_CODE_INVALID_ARGUMENT, "flavour");
  options = (slip_sim_options_t)SLIP_SIM_OPTIONS_INIT;
  options.memory_bytes = 1;
  SLIP_CHECK_ERROR(slip__sim_config_set(&options), SLIP_CODE_INVALID_ARGUMENT, "memory_bytes");
  options = (slip_sim_options_t)SLIP_SIM_OPTIONS_INIT;
  options.delay_ns = UINT64_MAX - 1;
  SLIP_CHECK_ERROR(slip__sim_config_set(&options), SLIP_CODE_INVALID_ARGUMENT, "delay_ns");
  options = (slip_sim_options_t){0};
  SLIP_CHECK_ERROR(slip__sim_config_set(&options), SLIP_CODE_INVALID_ARGUMENT, "struct_size");
}

SLIP_TEST(sim_config_current_device_is_a_stack) {
  SLIP_CHECK_EQ(slip__sim_current_device(), 0);
  slip__sim_choose_device(1);
  SLIP_CHECK_EQ(slip__sim_current_device(), 1);
  SLIP_CHECK_OK(slip__sim_check_current(1, "call"));
  SLIP_CHECK_ERROR(slip__sim_check_current(0, "call"), SLIP_CODE_INVALID_ARGUMENT, "call is for device 0");
  SLIP_CHECK_OK(slip__sim_device_push(0));
  SLIP_CHECK_EQ(slip__sim_current_device(), 0);
  slip_status_t status = slip__sim_device_pop(1);
  SLIP_CHECK_EQ(slip_status_platform_code(status), 201);
  SLIP_CHECK_ERROR(status, SLIP_CODE_INVALID_ARGUMENT, "the last pushed is device 0");
  SLIP_CHECK_OK(slip__sim_device_pop(0));
  SLIP_CHECK_ERROR(slip__sim_device_pop(1), SLIP_CODE_INVALID_ARGUMENT, "nothing is pushed");
  SLIP_CHECK_EQ(slip__sim_current_device(), 1);
  for (int i = 0; i < 16; ++i) SLIP_CHECK_OK(slip__sim_device_push(i % 2));
  SLIP_CHECK_CODE(slip__sim_device_push(0), SLIP_CODE_OUT_OF_MEMORY);
  for (int i = 15; i >= 0; --i) SLIP_CHECK_OK(slip__sim_device_pop(i % 2));
}

SLIP_TEST(sim_config_random_depends_on_seed_place_and_turn) {
  uint64_t first = slip__sim_random(1, 2);
  SLIP_CHECK(first == slip__sim_random(1, 2));
  SLIP_CHECK(first != slip__sim_random(2, 1) && first != slip__sim_random(1, 3) && first != slip__sim_random(2, 2));
  uint32_t ones = 0;
  for (uint64_t i = 0; i < 1000; ++i) ones += (uint32_t)__builtin_popcountll(slip__sim_random(7, i));
  SLIP_CHECK(ones > 31000 && ones < 33000);
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  options.seed = 2;
  SLIP_CHECK_OK(slip__sim_config_set(&options));
  SLIP_CHECK(first != slip__sim_random(1, 2));
  for (uint64_t i = 0; i < 200; ++i) slip__sim_delay(1, i);
}
