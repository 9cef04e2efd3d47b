// SPDX-License-Identifier: Apache-2.0
// Platforms, streams, events and memory for programs that have no framework to lend them: the CLI, benchmarks, tests, stand-alone C
// programs.
//
// Kernel mode itself never creates any of these for the caller: it borrows. Handles are the platform's own (a CUstream on cuda); on cpu
// they are made here.
#ifndef SLIPSTREAM_DEVICE_H_
#define SLIPSTREAM_DEVICE_H_

#include "slipstream/status.h"
#include "slipstream/tensor.h"

SLIP_EXTERN_C_BEGIN

// A native stream handle, lent for one call at a time.
typedef void *slip_stream_t;
// A native event handle.
typedef void *slip_event_t;
// A captured graph, instantiated by the platform. Not to be confused with slip_graph_t (graph.h), which is the library's own.
typedef struct slip_graph_exec_s *slip_graph_exec_t;

// cpu: the launch runs to completion on the calling thread. Not a default: it must be named.
#define SLIP_STREAM_INLINE ((slip_stream_t)(uintptr_t)1)

// A platform known to this process; static, never freed, thread-safe.
typedef struct slip_platform_t slip_platform_t;

// Finds and loads a platform by name ("cpu", "null", ...). Loading a vendor's library happens here, never at program start. NOT_FOUND,
// UNSUPPORTED (says what to install).
SLIP_API slip_status_t slip_platform_find(const char *name, slip_platform_t **out) SLIP_MUST_USE;
// The compiled-in platforms by index; NULL past the end. Loads nothing.
SLIP_API const char *slip_platform_name_at(size_t index);
// Whether the platform was built together with this library: OK, or INCOMPATIBLE and how they differ. A context then opens on it only with
// SLIP_CONTEXT_SKIP_BUILD_CHECK. |out_accepted| (may be NULL): how many contexts of this process did.
SLIP_API slip_status_t slip_platform_check_build(slip_platform_t *platform, uint64_t *out_accepted) SLIP_MUST_USE;
SLIP_API slip_status_t slip_platform_device_count(slip_platform_t *platform, int32_t *out_count) SLIP_MUST_USE;

typedef struct slip_device_properties_t {
  char name[128];
  char target[64];  // best target the device runs: "x86-64-v3"
  uint64_t memory_bytes;
  uint32_t core_count;  // cores this process may use
  uint32_t capture_supported;
} slip_device_properties_t;
SLIP_API slip_status_t slip_platform_device_properties(slip_platform_t *platform, int32_t device,
                                                       slip_device_properties_t *out) SLIP_MUST_USE;
// True if code of |target| runs on the device.
SLIP_API bool slip_platform_target_supported(slip_platform_t *platform, int32_t device, const char *target);

// Creates a FIFO stream whose work runs asynchronously. |*out| is NULL on failure. Owned by the caller.
SLIP_API slip_status_t slip_stream_create(slip_platform_t *platform, int32_t device, slip_stream_t *out) SLIP_MUST_USE;
// Waits for the stream's work, then destroys it. From the call on the stream takes no more work (INVALID_ARGUMENT), also from its own
// callbacks; a second destroy is refused alike. INVALID_STATE from one of its own callbacks.
SLIP_API slip_status_t slip_stream_destroy(slip_platform_t *platform, slip_stream_t stream) SLIP_MUST_USE;
// Blocks until all work enqueued before the call has run. The inline stream is always idle.
SLIP_API slip_status_t slip_stream_synchronize(slip_platform_t *platform, slip_stream_t stream) SLIP_MUST_USE;
// OK when idle, NOT_READY while work is left.
SLIP_API slip_status_t slip_stream_query(slip_platform_t *platform, slip_stream_t stream) SLIP_MUST_USE;
// Enqueues a host function. |function| must not call back into the stream's synchronize or destroy. On the inline stream it runs at once.
SLIP_API slip_status_t slip_stream_enqueue_host(slip_platform_t *platform, slip_stream_t stream, void (*function)(void *user),
                                                void *user) SLIP_MUST_USE;

SLIP_API slip_status_t slip_event_create(slip_platform_t *platform, int32_t device, slip_event_t *out) SLIP_MUST_USE;
SLIP_API slip_status_t slip_event_destroy(slip_platform_t *platform, slip_event_t event) SLIP_MUST_USE;
// The last record counts. A wait binds to the record that is last when the wait is called; waiting for a never-recorded event is no
// dependency.
SLIP_API slip_status_t slip_event_record(slip_platform_t *platform, slip_event_t event, slip_stream_t stream) SLIP_MUST_USE;
SLIP_API slip_status_t slip_stream_wait_event(slip_platform_t *platform, slip_stream_t stream, slip_event_t event) SLIP_MUST_USE;
// OK when the last record has been reached (or there is none), NOT_READY before.
SLIP_API slip_status_t slip_event_query(slip_platform_t *platform, slip_event_t event) SLIP_MUST_USE;
SLIP_API slip_status_t slip_event_synchronize(slip_platform_t *platform, slip_event_t event) SLIP_MUST_USE;

typedef enum slip_copy_e {
  SLIP_COPY_HOST_TO_DEVICE = 1,
  SLIP_COPY_DEVICE_TO_HOST = 2,
  SLIP_COPY_DEVICE_TO_DEVICE = 3,
} slip_copy_e;

// Device memory, 64-byte aligned at least; size 0 gives NULL. |*out| is NULL on failure.
SLIP_API slip_status_t slip_memory_allocate(slip_platform_t *platform, int32_t device, uint64_t size_bytes, void **out) SLIP_MUST_USE;
SLIP_API slip_status_t slip_memory_free(slip_platform_t *platform, int32_t device, void *memory) SLIP_MUST_USE;
// Blocks until copied.
SLIP_API slip_status_t slip_memory_copy(slip_platform_t *platform, int32_t device, void *target, const void *source, uint64_t size_bytes,
                                        uint32_t kind) SLIP_MUST_USE;
// Enqueues a copy on |stream|.
SLIP_API slip_status_t slip_memory_copy_async(slip_platform_t *platform, slip_stream_t stream, void *target, const void *source,
                                              uint64_t size_bytes, uint32_t kind) SLIP_MUST_USE;

// Page-locked host memory, 64-byte aligned at least; size 0 gives NULL. Where the platform's memory is not the host's, captured copies need
// it, and asynchronous copies from or to other host memory may be staged or wait, as the vendor has it. |*out| is NULL on failure.
SLIP_API slip_status_t slip_host_allocate(slip_platform_t *platform, uint64_t size_bytes, void **out) SLIP_MUST_USE;
SLIP_API slip_status_t slip_host_free(slip_platform_t *platform, void *memory) SLIP_MUST_USE;

// Capture and replay, for programs that play the framework's part. UNSUPPORTED on a platform without capture.
typedef enum slip_capture_mode_e {
  SLIP_CAPTURE_MODE_GLOBAL = 0,        // calls that are illegal in a capture are illegal on every thread
  SLIP_CAPTURE_MODE_THREAD_LOCAL = 1,  // ... on the thread that began the capture
  SLIP_CAPTURE_MODE_RELAXED = 2,       // ... nowhere; and any thread may end the capture
} slip_capture_mode_e;

typedef enum slip_capture_state_e {
  SLIP_CAPTURE_NONE = 0,
  SLIP_CAPTURE_ACTIVE = 1,
  SLIP_CAPTURE_INVALIDATED = 2,  // an illegal call broke it; it must still be ended, which gives no graph
} slip_capture_state_e;

typedef struct slip_capture_info_t {
  uint32_t state;  // slip_capture_state_e
  uint32_t reserved;
  uint64_t id;  // unique per capture; 0 if none
} slip_capture_info_t;

// From here on work on |stream| is recorded instead of run.
SLIP_API slip_status_t slip_stream_capture_begin(slip_platform_t *platform, slip_stream_t stream, uint32_t mode) SLIP_MUST_USE;
// Ends the capture that began on |stream| and makes what was recorded ready to launch. On failure there is no graph, |*out| is NULL, and
// the capture is over, unless the call came on the wrong stream or, on most platforms, thread.
SLIP_API slip_status_t slip_stream_capture_end(slip_platform_t *platform, slip_stream_t stream, slip_graph_exec_t *out) SLIP_MUST_USE;
SLIP_API slip_status_t slip_stream_capture_info(slip_platform_t *platform, slip_stream_t stream, slip_capture_info_t *out) SLIP_MUST_USE;
// Enqueues one execution of the graph. Executions of one graph never overlap.
SLIP_API slip_status_t slip_graph_exec_launch(slip_platform_t *platform, slip_graph_exec_t graph, slip_stream_t stream) SLIP_MUST_USE;
// Executions that are enqueued still run. NULL is fine.
SLIP_API slip_status_t slip_graph_exec_destroy(slip_platform_t *platform, slip_graph_exec_t graph) SLIP_MUST_USE;

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_DEVICE_H_
