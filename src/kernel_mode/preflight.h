// SPDX-License-Identifier: Apache-2.0
// Everything that can be known to be wrong before an open touches any state (30.2). Nothing is claimed, created or selected here; a refusal
// needs no undoing.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_PREFLIGHT_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_PREFLIGHT_H_

#include "slipstream/context.h"

// What an open was found to mean. Strings are borrowed from the caller's options, the platform or this struct.
typedef struct slip__plan_t {
  slip_context_options_t options;  // resolved
  slip_platform_t *platform;
  slip_device_t device;
  slip_device_properties_t properties;
  bool program;        // for a worker
  bool build_skipped;  // the platform is of another build, which SLIP_CONTEXT_SKIP_BUILD_CHECK accepted
} slip__plan_t;

// Order: struct size, ranges, platform library and handshake, capture, capabilities and runtime kind, device, target.
// INVALID_ARGUMENT, UNSUPPORTED, INCOMPATIBLE (handshake), NOT_FOUND (no such platform), CAPTURE_UNSUPPORTED, DEVICE.
slip_status_t slip__preflight(const slip_context_options_t *options, slip__plan_t *out) SLIP_MUST_USE;

// The same for a worker, which binds its device itself: any device of the platform will do.
slip_status_t slip__preflight_program(const slip_context_options_t *options, slip__plan_t *out) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_PREFLIGHT_H_
