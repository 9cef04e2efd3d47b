// SPDX-License-Identifier: Apache-2.0
// Helpers of the conformance tests.
//
// The parameter of a run (--with) names what is tested: a platform ("cpu", "null"), or a platform in a flavour ("sim-cuda", "sim-ascend").
#ifndef SLIP_CONFORMANCE_H_
#define SLIP_CONFORMANCE_H_

#include <stdatomic.h>

#include "os/thread.h"
#include "platform/dispatch.h"
#include "slip_test.h"
#include "slipstream/sim.h"

// Like SLIP_CHECK_OK, but UNSUPPORTED ends the test as unsupported.
#define CONFORM_OK(expression)                                                                    \
  do {                                                                                            \
    slip_status_t conform_status_ = (expression);                                                 \
    if (slip_status_code(conform_status_) == SLIP_CODE_UNSUPPORTED) {                             \
      slip_test_unsupported("%s: %s", #expression, slip_status_message(conform_status_));         \
    }                                                                                             \
    slip_test_check_status(conform_status_, SLIP_CODE_OK, NULL, #expression, __FILE__, __LINE__); \
  } while (0)

// The status must be a failure with this vendor's number; |ascend| in the ascend flavour.
#define CONFORM_NUMBER(expression, cuda, ascend) conform_check_number((expression), (cuda), (ascend), #expression, __FILE__, __LINE__)
void conform_check_number(slip_status_t status, int64_t cuda, int64_t ascend, const char *text, const char *file, int line);

// The platform under test, set up at the first call of each test. From then on, at the end of the test: nothing of it is alive, no
// lifecycle call was made but those the test counts, and no violation was recorded but those the test expects (where the platform can
// tell).
slip_platform_t *conform_platform(void);
const char *conform_platform_name(void);
// Whose capture rules and error numbers apply; 0: no vendor's.
uint32_t conform_flavour(void);
// Whether the platform is the simulator, which records violations and whose limits can be set.
bool conform_is_simulated(void);
// Ends the test as unsupported unless it is.
void conform_need_simulated(void);
// The platform with other limits. Ends the test as unsupported where they cannot be set.
slip_platform_t *conform_limited(const slip_sim_options_t *limits);
void conform_need_devices(slip_platform_t *platform, int32_t count);

// |count| violations more must have been recorded by now; they are accounted for.
void conform_expect_violations(uint64_t count);
// Violations beyond those accounted for.
uint64_t conform_new_violations(void);
// Repairs a device that a test broke. A lifecycle call, accounted for. What lived on it is gone.
void conform_reset_device(int32_t device);
void conform_set_device(int32_t device);

slip_stream_t conform_stream(slip_platform_t *platform);
slip_event_t conform_event(slip_platform_t *platform);
void *conform_memory(slip_platform_t *platform, uint64_t size_bytes);
void *conform_pinned(slip_platform_t *platform, uint64_t size_bytes);

// Ends the test as unsupported unless the platform has the capability.
void conform_need(slip_platform_t *platform, slip_platform_capability_bits_e capability, const char *what);
// ... unless device memory is its own, so that the platform can judge how it is used.
void conform_need_own_memory(slip_platform_t *platform);

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

static inline void conform_nothing(void *user) {
  (void)user;
}

// Runs |function| on a thread of its own and waits for it.
static inline void conform_on_thread(void (*function)(void *user), void *user) {
  slip__thread_t thread;
  SLIP_CHECK_OK(slip__thread_start(&thread, "conform", function, user));
  slip__thread_join(&thread);
}

#endif  // SLIP_CONFORMANCE_H_
