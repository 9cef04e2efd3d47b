// SPDX-License-Identifier: Apache-2.0
// Helpers of the conformance tests.
#ifndef SLIP_CONFORMANCE_H_
#define SLIP_CONFORMANCE_H_

#include <stdatomic.h>

#include "os/thread.h"
#include "platform/dispatch.h"
#include "slip_test.h"

// Like SLIP_CHECK_OK, but UNSUPPORTED ends the test as unsupported.
#define CONFORM_OK(expression)                                                                    \
  do {                                                                                            \
    slip_status_t conform_status_ = (expression);                                                 \
    if (slip_status_code(conform_status_) == SLIP_CODE_UNSUPPORTED) {                             \
      slip_test_unsupported("%s: %s", #expression, slip_status_message(conform_status_));         \
    }                                                                                             \
    slip_test_check_status(conform_status_, SLIP_CODE_OK, NULL, #expression, __FILE__, __LINE__); \
  } while (0)

// The platform under test.
static inline slip_platform_t *conform_platform(void) {
  slip_platform_t *platform = NULL;
  SLIP_CHECK_OK(slip_platform_find(slip_test_parameter(), &platform));
  return platform;
}

static inline slip_stream_t conform_stream(slip_platform_t *platform) {
  slip_stream_t stream = NULL;
  CONFORM_OK(slip_stream_create(platform, 0, &stream));
  SLIP_CHECK(stream != NULL);
  return stream;
}

static inline slip_event_t conform_event(slip_platform_t *platform) {
  slip_event_t event = NULL;
  CONFORM_OK(slip_event_create(platform, 0, &event));
  SLIP_CHECK(event != NULL);
  return event;
}

static inline void *conform_memory(slip_platform_t *platform, uint64_t size_bytes) {
  void *memory = NULL;
  CONFORM_OK(slip_memory_allocate(platform, 0, size_bytes, &memory));
  SLIP_CHECK(memory != NULL);
  return memory;
}

// Ends the test as unsupported unless the platform has the capability.
static inline void conform_need(slip_platform_t *platform, slip_platform_capability_bits_e capability, const char *what) {
  if (!(slip__platform_capabilities(platform) & (uint32_t)capability)) slip_test_unsupported("the platform does not promise %s", what);
}

// Host functions: a gate that holds a stream, and a counter that only the order of the stream protects.
typedef struct conform_gate_t {
  _Atomic uint32_t open;
} conform_gate_t;

static inline void conform_gate_pass(void *user) {
  conform_gate_t *gate = user;
  while (!atomic_load(&gate->open)) (void)slip__futex_wait(&gate->open, 0, -1);
}

static inline void conform_gate_open(conform_gate_t *gate) {
  atomic_store(&gate->open, 1);
  slip__futex_wake(&gate->open, INT32_MAX);
}

static inline void conform_count(void *user) {
  ++*(uint64_t *)user;
}

#endif  // SLIP_CONFORMANCE_H_
