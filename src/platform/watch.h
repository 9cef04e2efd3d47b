// SPDX-License-Identifier: Apache-2.0
// Between dispatch.c and watch.c: how each call of the layer is counted, logged and made to fail on purpose.
//
// While nothing is watched a call reads one word, relaxed, and goes straight to the backend. dispatch.h has what switches it on.
#ifndef SLIPSTREAM_SRC_PLATFORM_WATCH_H_
#define SLIPSTREAM_SRC_PLATFORM_WATCH_H_

#include "platform/dispatch.h"

typedef enum slip__platform_watch_bits_e {
  SLIP__PLATFORM_WATCH_COUNT = 1,
  SLIP__PLATFORM_WATCH_FAULT = 2,
  SLIP__PLATFORM_WATCH_LOG = 4,
} slip__platform_watch_bits_e;

// What is being watched; 0 in production. Written with release by watch.c.
extern _Atomic uint32_t slip__platform_watched;

// Before a watched call: counts it and, if it is its turn, makes the failure to return instead of calling.
slip_status_t slip__platform_enter(const slip_platform_t *platform, slip__platform_call_e call, uint32_t watched) SLIP_MUST_USE;
// After it: logs |status| and hands it back.
slip_status_t slip__platform_leave(const slip_platform_t *platform, slip__platform_call_e call, uint32_t watched,
                                   slip_status_t status) SLIP_MUST_USE;

// Returns the backend's answer from the calling function. The acquire pairs with the release of slip__platform_watch.
#define SLIP__PLATFORM_RETURN(platform, KIND, invoke)                                                                   \
  do {                                                                                                                  \
    if (__builtin_expect(atomic_load_explicit(&slip__platform_watched, memory_order_relaxed) == 0, 1)) return (invoke); \
    uint32_t watched_ = atomic_load_explicit(&slip__platform_watched, memory_order_acquire);                            \
    slip_status_t status_ = slip__platform_enter((platform), SLIP__PLATFORM_CALL_##KIND, watched_);                     \
    if (slip_status_is_ok(status_)) status_ = (invoke);                                                                 \
    return slip__platform_leave((platform), SLIP__PLATFORM_CALL_##KIND, watched_, status_);                             \
  } while (0)

#endif  // SLIPSTREAM_SRC_PLATFORM_WATCH_H_
