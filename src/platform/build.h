// SPDX-License-Identifier: Apache-2.0
// Who built this: what a backend says of itself in its handshake and the dispatch layer compares with.
#ifndef SLIPSTREAM_SRC_PLATFORM_BUILD_H_
#define SLIPSTREAM_SRC_PLATFORM_BUILD_H_

#include "slipstream/base.h"

#define SLIP__PLATFORM_BUILD_ID "slipstream " SLIP_VERSION_STRING " " __VERSION__

// 0 none, 1 address, 2 thread, 4 memory: gcc tells by macros, clang by features.
#if defined(__SANITIZE_ADDRESS__)
#define SLIP__PLATFORM_SANITIZER 1u
#elif defined(__SANITIZE_THREAD__)
#define SLIP__PLATFORM_SANITIZER 2u
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLIP__PLATFORM_SANITIZER 1u
#elif __has_feature(thread_sanitizer)
#define SLIP__PLATFORM_SANITIZER 2u
#elif __has_feature(memory_sanitizer)
#define SLIP__PLATFORM_SANITIZER 4u
#endif
#endif
#ifndef SLIP__PLATFORM_SANITIZER
#define SLIP__PLATFORM_SANITIZER 0u
#endif

#endif  // SLIPSTREAM_SRC_PLATFORM_BUILD_H_
