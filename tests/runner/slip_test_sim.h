// SPDX-License-Identifier: Apache-2.0
// What the tests of streams, events, captures and graphs share. They call the entries themselves, not the dispatch layer.
#ifndef SLIP_TEST_SIM_H_
#define SLIP_TEST_SIM_H_

#include <time.h>

#include "platform/sim/sim.h"
#include "slip_test.h"

static inline void sim_power_on(uint32_t flavour, uint64_t seed) {
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  options.flavour = flavour;
  options.seed = seed;
  options.max_streams = 32;
  options.max_events = 32;
  SLIP_CHECK_OK(slip_sim_reset(&options));
}

// Fails with exactly this error of the flavour.
static inline void sim_check_error(slip_status_t status, slip__sim_error_e error, const char *file, int line) {
  char text[512];
  if (slip_status_platform_code(status) != slip__sim_error_number(error)) {
    (void)slip_status_format(status, text, sizeof(text));
    slip_test_fail(file, line, "platform code %lld, expected %lld; %s", (long long)slip_status_platform_code(status),
                   (long long)slip__sim_error_number(error), text);
  }
  slip_status_free(status);
}
#define SIM_CHECK_ERROR(expression, name) sim_check_error((expression), SLIP__SIM_##name, __FILE__, __LINE__)

static inline slip_stream_t sim_stream(void) {
  slip_stream_t stream = NULL;
  SLIP_CHECK_OK(slip__sim_stream_create(0, &stream));
  return stream;
}

static inline slip_event_t sim_event(void) {
  slip_event_t event = NULL;
  SLIP_CHECK_OK(slip__sim_event_create(0, &event));
  return event;
}

static inline uint32_t sim_state(slip_stream_t stream) {
  slip_capture_info_t info = {0};
  SLIP_CHECK_OK(slip__sim_stream_capture_info(stream, &info));
  SLIP_CHECK_EQ(info.id != 0, info.state != SLIP_CAPTURE_NONE);
  return info.state;
}

// The next work of |stream| comes after what |other| has so far.
static inline void sim_order(slip_stream_t stream, slip_stream_t other, slip_event_t event) {
  SLIP_CHECK_OK(slip__sim_event_record(event, other));
  SLIP_CHECK_OK(slip__sim_stream_wait_event(stream, event));
}

typedef struct sim_gate_t {
  _Atomic uint32_t open;
} sim_gate_t;

static inline void sim_gate_pass(void *user) {
  sim_gate_t *gate = user;
  while (!atomic_load(&gate->open)) (void)slip__futex_wait(&gate->open, 0, -1);
}

static inline void sim_gate_open(sim_gate_t *gate) {
  atomic_store(&gate->open, 1);
  slip__futex_wake(&gate->open, INT32_MAX);
}

static inline void sim_count(void *user) {
  ++*(uint64_t *)user;
}

static inline void sim_count_atomic(void *user) {
  atomic_fetch_add((_Atomic uint64_t *)user, 1);
}

static inline slip_sim_statistics_t sim_alive(void) {
  slip_sim_statistics_t statistics = {0};
  slip__sim_stream_statistics(&statistics);
  return statistics;
}

#endif  // SLIP_TEST_SIM_H_
