// SPDX-License-Identifier: Apache-2.0
// The compiled-in backends. Each is one function table; nothing of a backend is known outside its folder but this.
#ifndef SLIPSTREAM_SRC_PLATFORM_REGISTRY_H_
#define SLIPSTREAM_SRC_PLATFORM_REGISTRY_H_

#include "slipstream/platform/platform.h"

extern const slip_platform_vtable_t slip__null_platform;
extern const slip_platform_vtable_t slip__cpu_platform;
extern const slip_platform_vtable_t slip__sim_platform;

#endif  // SLIPSTREAM_SRC_PLATFORM_REGISTRY_H_
