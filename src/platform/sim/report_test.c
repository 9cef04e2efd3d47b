// SPDX-License-Identifier: Apache-2.0
#include "platform/sim/sim.h"
#include "slip_test.h"

SLIP_TEST(sim_report_errors_carry_the_flavours_number) {
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  slip_status_t status = slip__sim_error(SLIP__SIM_CAPTURE_UNJOINED, "stream %d", 3);
  SLIP_CHECK_EQ(slip_status_platform_code(status), 904);
  SLIP_CHECK_ERROR(status, SLIP_CODE_DEVICE, "stream 3 (a stream was forked into the capture and not joined again)");
  options.flavour = SLIP_SIM_FLAVOUR_ASCEND;
  SLIP_CHECK_OK(slip__sim_config_set(&options));
  SLIP_CHECK_EQ(slip__sim_error_number(SLIP__SIM_CAPTURE_UNJOINED), 107025);
  SLIP_CHECK_CODE(slip__sim_error(SLIP__SIM_INVALID_HANDLE, "x"), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip__sim_error(SLIP__SIM_OUT_OF_RESOURCES, "x"), SLIP_CODE_OUT_OF_MEMORY);
}

SLIP_TEST(sim_report_keeps_violations_and_the_first_fault) {
  char text[600];
  SLIP_CHECK_EQ(slip__sim_violation_total(), 0);
  SLIP_CHECK_EQ(slip__sim_violation_text(0, text, sizeof(text)), 0);
  slip__sim_violation(1, false, SLIP__SIM_INVALID_VALUE, "mild %d", 1);
  SLIP_CHECK_OK(slip__sim_check_device(1));
  slip__sim_violation(1, true, SLIP__SIM_ILLEGAL_ADDRESS, "grave %d", 2);
  slip__sim_violation(1, true, SLIP__SIM_LAUNCH_FAILED, "later");
  slip__sim_violation(-1, true, SLIP__SIM_NOT_PERMITTED, "nobody's");
  SLIP_CHECK_EQ(slip__sim_violation_total(), 4);
  size_t length = slip__sim_violation_text(0, text, sizeof(text));
  SLIP_CHECK_STR(text, "device 1: mild 1");
  SLIP_CHECK_EQ(length, strlen(text));
  SLIP_CHECK_EQ(slip__sim_violation_text(1, NULL, 0), strlen("device 1: grave 2 (the device is broken now)"));
  SLIP_CHECK_EQ(slip__sim_violation_text(3, text, 7), strlen("nobody's"));
  SLIP_CHECK_STR(text, "nobody");
  for (int i = 0; i < 2; ++i) {
    slip_status_t status = slip__sim_check_device(1);
    SLIP_CHECK_EQ(slip_status_platform_code(status), 700);
    SLIP_CHECK_ERROR(status, SLIP_CODE_DEVICE, "grave 2");
  }
  SLIP_CHECK(slip__sim_device_broken(1) && !slip__sim_device_broken(0));
  SLIP_CHECK_OK(slip__sim_check_device(0));
  slip__sim_device_heal(1);
  SLIP_CHECK_OK(slip__sim_check_device(1));
  for (int i = 0; i < 100; ++i) slip__sim_violation(0, false, SLIP__SIM_INVALID_VALUE, "number %d", i);
  SLIP_CHECK_EQ(slip__sim_violation_total(), 104);
  SLIP_CHECK(slip__sim_violation_text(63, text, sizeof(text)) > 0);
  SLIP_CHECK_EQ(slip__sim_violation_text(64, text, sizeof(text)), 0);
  slip__sim_report_reset();
  SLIP_CHECK_EQ(slip__sim_violation_total(), 0);
}

SLIP_TEST(sim_report_calls_from_functions_are_violations) {
  SLIP_CHECK_OK(slip__sim_enter("memory_allocate"));
  slip__sim_role = SLIP__SIM_ROLE_HOST_FUNCTION;
  SLIP_CHECK_ERROR(slip__sim_enter("memory_allocate"), SLIP_CODE_DEVICE, "memory_allocate was called from inside a host function");
  slip__sim_role = SLIP__SIM_ROLE_DEVICE_FUNCTION;
  SLIP_CHECK_ERROR(slip__sim_enter("memory_free"), SLIP_CODE_DEVICE, "a device function");
  slip__sim_role = SLIP__SIM_ROLE_HOST;
  SLIP_CHECK_EQ(slip__sim_violation_total(), 2);
}
