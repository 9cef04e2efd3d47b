// SPDX-License-Identifier: Apache-2.0
// What each platform cannot do yet. New platforms start with the lines of "null" and take them away one by one.
#include "slip_test.h"

#define NULL_CANNOT(what) "the recipe backend has no " what

static const slip_test_expectation_t conform_expectations[] = {
    {"null", "stream_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("streams")},
    {"null", "inline_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("inline stream")},
    {"null", "event_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("events")},
    {"null", "memory_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("memory")},
    {"null", "module_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("modules")},
    {"null", "fault_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("call that could fail half-way")},
    {"null", "device_runs_its_own_target", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("target")},
    {"null", "capture_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("capture")},
    {"null", "violation_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("memory")},
    {"null", "thread_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("second device")},
    {"null", "limit_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("limits that could be set")},
    {"sim-cuda", "inline_*", SLIP_TEST_EXPECT_UNSUPPORTED, "a device runs nothing on the caller's thread"},
    {"sim-cuda", "event_and_the_inline_stream", SLIP_TEST_EXPECT_UNSUPPORTED, "a device runs nothing on the caller's thread"},
    {"sim-ascend", "inline_*", SLIP_TEST_EXPECT_UNSUPPORTED, "a device runs nothing on the caller's thread"},
    {"sim-ascend", "event_and_the_inline_stream", SLIP_TEST_EXPECT_UNSUPPORTED, "a device runs nothing on the caller's thread"},
    {"null", "launch_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("streams")},
    {"null", "ticket_*", SLIP_TEST_EXPECT_UNSUPPORTED, NULL_CANNOT("streams")},
    {"cpu", "violation_*", SLIP_TEST_EXPECT_UNSUPPORTED, "device memory is the host's: nobody watches how it is used"},
    {"cpu", "thread_*", SLIP_TEST_EXPECT_UNSUPPORTED, "the host is one device"},
    {"cpu", "event_of_another_device_cannot_be_recorded", SLIP_TEST_EXPECT_UNSUPPORTED, "the host is one device"},
    {"cpu", "event_wait_crosses_devices", SLIP_TEST_EXPECT_UNSUPPORTED, "the host is one device"},
    {"cpu", "memory_of_another_device_is_refused", SLIP_TEST_EXPECT_UNSUPPORTED, "the host is one device"},
    {"cpu", "limit_*", SLIP_TEST_EXPECT_UNSUPPORTED, "limits are the process's and cannot be set; the unit tests reach them"},
    {"cpu", "capture_*", SLIP_TEST_EXPECT_UNSUPPORTED, "the host has no capture; recorded graphs of the library take its place"},
};

__attribute__((constructor)) static void conform_expect(void) {
  slip_test_expect(conform_expectations, sizeof(conform_expectations) / sizeof(conform_expectations[0]));
}
