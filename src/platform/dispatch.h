// SPDX-License-Identifier: Apache-2.0
// The thin layer in front of every backend: arguments checked, outputs zeroed, calls counted, logged and made to fail on request.
//
// The public calls of slipstream/device.h are this layer; here are those that only the library itself uses. All are thread-safe. While
// nothing is counted, logged or failed on purpose, a call costs one relaxed load more than the backend's own; it never locks or allocates
// here.
#ifndef SLIPSTREAM_SRC_PLATFORM_DISPATCH_H_
#define SLIPSTREAM_SRC_PLATFORM_DISPATCH_H_

#include <stdatomic.h>

#include "slipstream/platform/platform.h"

// X(NAME, entry, need, code): the entries of the function table in its order; need REQUIRED or OPTIONAL; the code of an injected failure.
#define SLIP__PLATFORM_CALL_TABLE(X)                            \
  X(LOAD, load, REQUIRED, UNSUPPORTED)                          \
  X(HANDSHAKE, handshake, REQUIRED, UNSUPPORTED)                \
  X(DEVICE_COUNT, device_count, REQUIRED, DEVICE)               \
  X(DEVICE_PROPERTIES, device_properties, REQUIRED, DEVICE)     \
  X(DEVICE_CURRENT, device_current, REQUIRED, DEVICE)           \
  X(TARGET_SUPPORTED, target_supported, REQUIRED, DEVICE)       \
  X(DEVICE_PUSH, device_push, OPTIONAL, DEVICE)                 \
  X(DEVICE_POP, device_pop, OPTIONAL, DEVICE)                   \
  X(STREAM_CREATE, stream_create, REQUIRED, DEVICE)             \
  X(STREAM_DESTROY, stream_destroy, REQUIRED, DEVICE)           \
  X(STREAM_SYNCHRONIZE, stream_synchronize, REQUIRED, DEVICE)   \
  X(STREAM_QUERY, stream_query, REQUIRED, DEVICE)               \
  X(STREAM_DEVICE, stream_device, REQUIRED, DEVICE)             \
  X(STREAM_CAPTURE_INFO, stream_capture_info, REQUIRED, DEVICE) \
  X(STREAM_ENQUEUE_HOST, stream_enqueue_host, REQUIRED, DEVICE) \
  X(STREAM_LAUNCH, stream_launch, OPTIONAL, DEVICE)             \
  X(STREAM_WAIT_EVENT, stream_wait_event, REQUIRED, DEVICE)     \
  X(EVENT_CREATE, event_create, REQUIRED, DEVICE)               \
  X(EVENT_DESTROY, event_destroy, REQUIRED, DEVICE)             \
  X(EVENT_RECORD, event_record, REQUIRED, DEVICE)               \
  X(EVENT_QUERY, event_query, REQUIRED, DEVICE)                 \
  X(EVENT_SYNCHRONIZE, event_synchronize, REQUIRED, DEVICE)     \
  X(MEMORY_ALLOCATE, memory_allocate, REQUIRED, OUT_OF_MEMORY)  \
  X(MEMORY_FREE, memory_free, REQUIRED, DEVICE)                 \
  X(MEMORY_COPY, memory_copy, REQUIRED, DEVICE)                 \
  X(MEMORY_COPY_ASYNC, memory_copy_async, REQUIRED, DEVICE)     \
  X(MEMORY_FILL, memory_fill, REQUIRED, DEVICE)                 \
  X(POINTER_INFO, pointer_info, REQUIRED, DEVICE)               \
  X(HOST_ALLOCATE, host_allocate, REQUIRED, OUT_OF_MEMORY)      \
  X(HOST_FREE, host_free, REQUIRED, DEVICE)                     \
  X(DEVICE_MAP, device_map, OPTIONAL, DEVICE)                   \
  X(DEVICE_UNMAP, device_unmap, OPTIONAL, DEVICE)               \
  X(MODULE_LOAD, module_load, REQUIRED, OUT_OF_MEMORY)          \
  X(MODULE_UNLOAD, module_unload, REQUIRED, DEVICE)             \
  X(MODULE_SYMBOL, module_symbol, REQUIRED, DEVICE)             \
  X(THREAD_CAPTURE_INFO, thread_capture_info, OPTIONAL, DEVICE) \
  X(CAPTURE_BEGIN, capture_begin, OPTIONAL, DEVICE)             \
  X(CAPTURE_END, capture_end, OPTIONAL, DEVICE)                 \
  X(CAPTURE_RETAIN, capture_retain, OPTIONAL, DEVICE)           \
  X(GRAPH_LAUNCH, graph_launch, OPTIONAL, DEVICE)               \
  X(GRAPH_DESTROY, graph_destroy, OPTIONAL, DEVICE)

typedef enum slip__platform_call_e {
#define SLIP__PLATFORM_CALL_ENUM(name, entry, need, code) SLIP__PLATFORM_CALL_##name,
  SLIP__PLATFORM_CALL_TABLE(SLIP__PLATFORM_CALL_ENUM)
#undef SLIP__PLATFORM_CALL_ENUM
      SLIP__PLATFORM_CALL_COUNT
} slip__platform_call_e;

// A backend bound to this process. Static or, in tests, anybody's: {.vtable = ...} and zero. Never changes once |ready|.
struct slip_platform_t {
  const slip_platform_vtable_t *vtable;
  slip_platform_handshake_t handshake;
  int32_t device_count;
  _Atomic uint32_t ready;           // release: pairs with the acquire of slip__platform_load
  _Atomic uint64_t build_accepted;  // contexts opened although the build identity is not ours
};

// The number beside SLIP_CODE_DEVICE in injected failures.
#define SLIP__PLATFORM_INJECTED (-987654)

// -- loading
// Loads |platform| once: table complete, library loaded, ABI and sanitizer accepted. The build identity is kept, not judged:
// slip_platform_check_build(). Later calls return OK at once. A failure leaves nothing and
// may be repeated. UNSUPPORTED (library), INCOMPATIBLE (handshake), INTERNAL (the table has a hole).
slip_status_t slip__platform_load(slip_platform_t *platform) SLIP_MUST_USE;
// INCOMPATIBLE: ABI version, sanitizer, or build identity differ. A missing identity is refused too, unless |skip_build_check|.
slip_status_t slip__platform_handshake_check(const char *name, const slip_platform_handshake_t *handshake,
                                             bool skip_build_check) SLIP_MUST_USE;

// -- what a platform is; all borrowed from the loaded platform
static inline const char *slip__platform_name(const slip_platform_t *platform) {
  return platform->vtable->name;
}
static inline uint16_t slip__platform_code(const slip_platform_t *platform) {
  return platform->vtable->code;
}
static inline uint32_t slip__platform_capabilities(const slip_platform_t *platform) {
  return platform->handshake.capabilities;
}
static inline const slip_platform_handshake_t *slip__platform_handshake(const slip_platform_t *platform) {
  return &platform->handshake;
}

// -- calls beyond those of device.h; the table's comments say what they do
slip_status_t slip__platform_device_current(slip_platform_t *platform, int32_t *out_device) SLIP_MUST_USE;
// OK where the platform needs no binding (the entry is NULL).
slip_status_t slip__platform_device_push(slip_platform_t *platform, int32_t device) SLIP_MUST_USE;
slip_status_t slip__platform_device_pop(slip_platform_t *platform, int32_t device) SLIP_MUST_USE;
// INVALID_ARGUMENT for what is no stream of the platform.
slip_status_t slip__platform_stream_device(slip_platform_t *platform, slip_stream_t stream, int32_t *out_device) SLIP_MUST_USE;
// Device work of a host-native callable, in stream order.
slip_status_t slip__platform_stream_launch(slip_platform_t *platform, slip_stream_t stream, void (*run)(void *user),
                                           void *user) SLIP_MUST_USE;
// From |run| of such a launch only. On a platform with SLIP_PLATFORM_HOST_MEMORY the view is the address itself.
slip_status_t slip__platform_device_map(slip_platform_t *platform, int32_t device, void *address, uint64_t size_bytes, uint32_t access,
                                        void **out_view) SLIP_MUST_USE;
slip_status_t slip__platform_device_unmap(slip_platform_t *platform, int32_t device, void *address, uint64_t size_bytes,
                                          uint32_t access) SLIP_MUST_USE;
slip_status_t slip__platform_memory_fill(slip_platform_t *platform, int32_t device, void *target, uint8_t value,
                                         uint64_t size_bytes) SLIP_MUST_USE;
// OK with SLIP_POINTER_UNKNOWN for memory that the platform did not make.
slip_status_t slip__platform_pointer_info(slip_platform_t *platform, const void *pointer, slip_pointer_info_t *out) SLIP_MUST_USE;
slip_status_t slip__platform_module_load(slip_platform_t *platform, int32_t device, slip_const_bytes_t binary,
                                         slip_module_t *out) SLIP_MUST_USE;
// NULL is fine. A failure keeps the module; unload may be repeated.
slip_status_t slip__platform_module_unload(slip_platform_t *platform, slip_module_t module) SLIP_MUST_USE;
slip_status_t slip__platform_module_symbol(slip_platform_t *platform, slip_module_t module, const char *name, void **out) SLIP_MUST_USE;
// State NONE where the platform has no capture.
slip_status_t slip__platform_thread_capture_info(slip_platform_t *platform, slip_capture_info_t *out) SLIP_MUST_USE;
slip_status_t slip__platform_capture_retain(slip_platform_t *platform, slip_stream_t stream, void (*release)(void *user),
                                            void *user) SLIP_MUST_USE;

// -- counting, logging, failing on purpose; over all platforms of the process
const char *slip__platform_call_name(slip__platform_call_e call);
// Zeroes the counters and starts counting; slip__platform_counter then tells how often a call was made (those that were made to fail
// included).
void slip__platform_counters_reset(void);
void slip__platform_counters_stop(void);
uint64_t slip__platform_counter(slip__platform_call_e call);
// The |nth| call of this kind from now on, counted from 1, fails instead of reaching the backend; all later ones too if |persistent|. 0:
// none. The code is the table's; SLIP__PLATFORM_INJECTED is the platform code.
void slip__platform_fault_set(slip__platform_call_e call, uint64_t nth, bool persistent);
void slip__platform_fault_clear(void);
// Called after each call with its result, which it must not keep or free; NULL ends it. Set and ended while no call is running.
typedef void (*slip__platform_log_fn_t)(void *user, const char *platform, slip__platform_call_e call, slip_code_t code);
void slip__platform_log_set(slip__platform_log_fn_t log, void *user);

#endif  // SLIPSTREAM_SRC_PLATFORM_DISPATCH_H_
