// SPDX-License-Identifier: Apache-2.0
#include "platform/dispatch.h"

#include <string.h>

#include "os/fork.h"
#include "os/thread.h"
#include "platform/build.h"
#include "platform/label.h"
#include "platform/watch.h"

_Thread_local slip__platform_label_t slip__platform_label;

// --- loading

slip_status_t slip__platform_handshake_check(const char *name, const slip_platform_handshake_t *handshake, bool skip_build_check) {
  if (handshake->abi_version != SLIP_PLATFORM_ABI_VERSION) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE,
                       "platform \"%s\" speaks platform ABI %u; this library speaks %u: build both from one version", name,
                       handshake->abi_version, SLIP_PLATFORM_ABI_VERSION);
  }
  if (handshake->sanitizer != SLIP__PLATFORM_SANITIZER) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "platform \"%s\" was built with sanitizer %u, this library with %u: build both alike", name,
                       handshake->sanitizer, SLIP__PLATFORM_SANITIZER);
  }
  if (skip_build_check) return slip_ok_status();
  if (!handshake->build_id || handshake->build_id[0] == '\0') {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "platform \"%s\" tells no build identity; rebuild it, or skip the build check", name);
  }
  if (strcmp(handshake->build_id, SLIP__PLATFORM_BUILD_ID) == 0) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE,
                     "platform \"%s\" was built as \"%s\", this library as \"%s\"; rebuild it, or skip the build check", name,
                     handshake->build_id, SLIP__PLATFORM_BUILD_ID);
}

// The table is bound all or nothing.
static slip_status_t slip__platform_table_check(const slip_platform_vtable_t *vtable) {
  if (vtable->struct_size != sizeof(*vtable) || vtable->abi_version != SLIP_PLATFORM_ABI_VERSION || !vtable->name) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE,
                       "a platform's table of %u bytes for ABI %u is not the one of this library (%zu bytes, ABI %u)", vtable->struct_size,
                       vtable->abi_version, sizeof(*vtable), SLIP_PLATFORM_ABI_VERSION);
  }
#define SLIP__NEED_REQUIRED true
#define SLIP__NEED_OPTIONAL false
#define SLIP__PLATFORM_CALL_CHECK(name_, entry, need, code)                                                                          \
  if (SLIP__NEED_##need && !vtable->entry)                                                                                           \
    return SLIP_STATUS(SLIP_CODE_INTERNAL, "platform \"%s\" has no %s entry; fill it in, with UNSUPPORTED if need be", vtable->name, \
                       #entry);
  SLIP__PLATFORM_CALL_TABLE(SLIP__PLATFORM_CALL_CHECK)
#undef SLIP__PLATFORM_CALL_CHECK
  return slip_ok_status();
}

static pthread_mutex_t slip__platform_load_lock = PTHREAD_MUTEX_INITIALIZER;

// Another thread of the parent may have held the lock.
static void slip__platform_fork_reset(void) {
  (void)pthread_mutex_init(&slip__platform_load_lock, NULL);
}

static slip_status_t slip__platform_call_load(slip_platform_t *platform) {
  SLIP__PLATFORM_RETURN(platform, LOAD, platform->vtable->load());
}

static slip_status_t slip__platform_call_handshake(slip_platform_t *platform, slip_platform_handshake_t *out) {
  SLIP__PLATFORM_RETURN(platform, HANDSHAKE, platform->vtable->handshake(out));
}

static slip_status_t slip__platform_call_device_count(slip_platform_t *platform, int32_t *out_count) {
  SLIP__PLATFORM_RETURN(platform, DEVICE_COUNT, platform->vtable->device_count(out_count));
}

static slip_status_t slip__platform_load_locked(slip_platform_t *platform) {
  slip_platform_handshake_t handshake = {0};
  int32_t count = 0;
  SLIP_RETURN_IF_ERROR(slip__platform_table_check(platform->vtable));
  SLIP_RETURN_IF_ERROR(slip__platform_call_load(platform));
  SLIP_RETURN_IF_ERROR(slip__platform_call_handshake(platform, &handshake));
  // The build identity is only kept here: whether another one is accepted is for whoever opens a context to say (device.h).
  SLIP_RETURN_IF_ERROR(slip__platform_handshake_check(platform->vtable->name, &handshake, true));
  SLIP_RETURN_IF_ERROR(slip__platform_call_device_count(platform, &count));
  platform->handshake = handshake;
  platform->device_count = count;
  atomic_store_explicit(&platform->ready, 1, memory_order_release);
  return slip_ok_status();
}

slip_status_t slip__platform_load(slip_platform_t *platform) {
  if (atomic_load_explicit(&platform->ready, memory_order_acquire)) return slip_ok_status();
  slip__fork_watch(slip__platform_fork_reset);
  (void)pthread_mutex_lock(&slip__platform_load_lock);
  slip_status_t status = slip_ok_status();
  if (!atomic_load_explicit(&platform->ready, memory_order_acquire)) status = slip__platform_load_locked(platform);
  (void)pthread_mutex_unlock(&slip__platform_load_lock);
  return status;
}

slip_status_t slip_platform_check_build(slip_platform_t *platform, uint64_t *out_accepted) {
  if (out_accepted) *out_accepted = 0;
  if (!platform) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s was given a null platform", __func__);
  if (out_accepted) *out_accepted = atomic_load_explicit(&platform->build_accepted, memory_order_relaxed);
  return slip__platform_handshake_check(platform->vtable->name, &platform->handshake, false);
}

// --- argument checks

static slip_status_t slip__platform_refuse_null(const char *call, const char *what) {
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s was given a null %s", call, what);
}

// Refuses a null |pointer|, naming the public function.
#define SLIP__PLATFORM_NEED(pointer, what) \
  if (__builtin_expect(!(pointer), 0)) return slip__platform_refuse_null(__func__, what)

static slip_status_t slip__platform_refuse_stream(const char *call) {
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                     "%s was given a null stream; give a stream of the platform, or name SLIP_STREAM_INLINE on cpu", call);
}

#define SLIP__PLATFORM_NEED_STREAM(stream) \
  if (__builtin_expect(!(stream), 0)) return slip__platform_refuse_stream(__func__)

static slip_status_t slip__platform_refuse_device(const slip_platform_t *platform, const char *call, int32_t device) {
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s was given device %d; platform \"%s\" has devices 0 to %d", call, device,
                     platform->vtable->name, platform->device_count - 1);
}

#define SLIP__PLATFORM_NEED_DEVICE(platform, device)                             \
  if (__builtin_expect((device) < 0 || (device) >= (platform)->device_count, 0)) \
  return slip__platform_refuse_device((platform), __func__, (device))

static slip_status_t slip__platform_missing(const slip_platform_t *platform, const char *call) {
  return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "%s: platform \"%s\" cannot do this", call, platform->vtable->name);
}

#define SLIP__PLATFORM_NEED_ENTRY(platform, entry) \
  if (__builtin_expect(!(platform)->vtable->entry, 0)) return slip__platform_missing((platform), __func__)

static slip_status_t slip__platform_check_copy(const char *call, const void *target, const void *source, uint32_t kind) {
  if (!target || !source) return slip__platform_refuse_null(call, !target ? "target" : "source");
  if (kind >= SLIP_COPY_HOST_TO_DEVICE && kind <= SLIP_COPY_DEVICE_TO_DEVICE) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s was given copy kind %u; see slip_copy_e", call, kind);
}

// --- devices

slip_status_t slip_platform_device_count(slip_platform_t *platform, int32_t *out_count) {
  SLIP__PLATFORM_NEED(out_count, "out_count");
  *out_count = 0;
  SLIP__PLATFORM_NEED(platform, "platform");
  return slip__platform_call_device_count(platform, out_count);
}

slip_status_t slip_platform_device_properties(slip_platform_t *platform, int32_t device, slip_device_properties_t *out) {
  SLIP__PLATFORM_NEED(out, "out");
  *out = (slip_device_properties_t){0};
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_DEVICE(platform, device);
  SLIP__PLATFORM_RETURN(platform, DEVICE_PROPERTIES, platform->vtable->device_properties(device, out));
}

static slip_status_t slip__platform_ask_target(slip_platform_t *platform, int32_t device, const char *target, bool *out) {
  SLIP__PLATFORM_RETURN(platform, TARGET_SUPPORTED, (*out = platform->vtable->target_supported(device, target), slip_ok_status()));
}

bool slip_platform_target_supported(slip_platform_t *platform, int32_t device, const char *target) {
  bool supported = false;
  if (!platform || !target || device < 0 || device >= platform->device_count) return false;
  slip_status_free(slip__platform_ask_target(platform, device, target, &supported));
  return supported;
}

slip_status_t slip__platform_device_current(slip_platform_t *platform, int32_t *out_device) {
  *out_device = 0;
  SLIP__PLATFORM_RETURN(platform, DEVICE_CURRENT, platform->vtable->device_current(out_device));
}

slip_status_t slip__platform_device_push(slip_platform_t *platform, int32_t device) {
  SLIP__PLATFORM_NEED_DEVICE(platform, device);
  if (!platform->vtable->device_push) return slip_ok_status();
  SLIP__PLATFORM_RETURN(platform, DEVICE_PUSH, platform->vtable->device_push(device));
}

slip_status_t slip__platform_device_pop(slip_platform_t *platform, int32_t device) {
  SLIP__PLATFORM_NEED_DEVICE(platform, device);
  if (!platform->vtable->device_pop) return slip_ok_status();
  SLIP__PLATFORM_RETURN(platform, DEVICE_POP, platform->vtable->device_pop(device));
}

// --- streams

slip_status_t slip_stream_create(slip_platform_t *platform, int32_t device, slip_stream_t *out) {
  SLIP__PLATFORM_NEED(out, "out");
  *out = NULL;
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_DEVICE(platform, device);
  SLIP__PLATFORM_RETURN(platform, STREAM_CREATE, platform->vtable->stream_create(device, out));
}

slip_status_t slip_stream_destroy(slip_platform_t *platform, slip_stream_t stream) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_RETURN(platform, STREAM_DESTROY, platform->vtable->stream_destroy(stream));
}

slip_status_t slip_stream_synchronize(slip_platform_t *platform, slip_stream_t stream) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_RETURN(platform, STREAM_SYNCHRONIZE, platform->vtable->stream_synchronize(stream));
}

slip_status_t slip_stream_query(slip_platform_t *platform, slip_stream_t stream) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_RETURN(platform, STREAM_QUERY, platform->vtable->stream_query(stream));
}

slip_status_t slip_stream_enqueue_host(slip_platform_t *platform, slip_stream_t stream, void (*function)(void *user), void *user) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_NEED(function, "function");
  SLIP__PLATFORM_RETURN(platform, STREAM_ENQUEUE_HOST, platform->vtable->stream_enqueue_host(stream, function, user));
}

slip_status_t slip__platform_stream_launch(slip_platform_t *platform, slip_stream_t stream, void (*run)(void *user), void *user) {
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_NEED_ENTRY(platform, stream_launch);
  SLIP__PLATFORM_RETURN(platform, STREAM_LAUNCH, platform->vtable->stream_launch(stream, run, user));
}

slip_status_t slip_stream_wait_event(slip_platform_t *platform, slip_stream_t stream, slip_event_t event) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_NEED(event, "event");
  SLIP__PLATFORM_RETURN(platform, STREAM_WAIT_EVENT, platform->vtable->stream_wait_event(stream, event));
}

slip_status_t slip__platform_stream_device(slip_platform_t *platform, slip_stream_t stream, int32_t *out_device) {
  *out_device = 0;
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_RETURN(platform, STREAM_DEVICE, platform->vtable->stream_device(stream, out_device));
}

// --- events

slip_status_t slip_event_create(slip_platform_t *platform, int32_t device, slip_event_t *out) {
  SLIP__PLATFORM_NEED(out, "out");
  *out = NULL;
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_DEVICE(platform, device);
  SLIP__PLATFORM_RETURN(platform, EVENT_CREATE, platform->vtable->event_create(device, out));
}

slip_status_t slip_event_destroy(slip_platform_t *platform, slip_event_t event) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED(event, "event");
  SLIP__PLATFORM_RETURN(platform, EVENT_DESTROY, platform->vtable->event_destroy(event));
}

slip_status_t slip_event_record(slip_platform_t *platform, slip_event_t event, slip_stream_t stream) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED(event, "event");
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_RETURN(platform, EVENT_RECORD, platform->vtable->event_record(event, stream));
}

slip_status_t slip_event_query(slip_platform_t *platform, slip_event_t event) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED(event, "event");
  SLIP__PLATFORM_RETURN(platform, EVENT_QUERY, platform->vtable->event_query(event));
}

slip_status_t slip_event_synchronize(slip_platform_t *platform, slip_event_t event) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED(event, "event");
  SLIP__PLATFORM_RETURN(platform, EVENT_SYNCHRONIZE, platform->vtable->event_synchronize(event));
}

// --- memory

slip_status_t slip_memory_allocate(slip_platform_t *platform, int32_t device, uint64_t size_bytes, void **out) {
  SLIP__PLATFORM_NEED(out, "out");
  *out = NULL;
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_DEVICE(platform, device);
  if (size_bytes == 0) return slip_ok_status();
  if (size_bytes > INT64_MAX) {
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "%llu bytes are more than any device has", (unsigned long long)size_bytes);
  }
  SLIP__PLATFORM_RETURN(platform, MEMORY_ALLOCATE, platform->vtable->memory_allocate(device, size_bytes, out));
}

slip_status_t slip_memory_free(slip_platform_t *platform, int32_t device, void *memory) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_DEVICE(platform, device);
  if (!memory) return slip_ok_status();
  SLIP__PLATFORM_RETURN(platform, MEMORY_FREE, platform->vtable->memory_free(device, memory));
}

slip_status_t slip_memory_copy(slip_platform_t *platform, int32_t device, void *target, const void *source, uint64_t size_bytes,
                               uint32_t kind) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_DEVICE(platform, device);
  if (size_bytes == 0) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__platform_check_copy(__func__, target, source, kind));
  SLIP__PLATFORM_RETURN(platform, MEMORY_COPY, platform->vtable->memory_copy(device, target, source, size_bytes, kind));
}

slip_status_t slip_memory_copy_async(slip_platform_t *platform, slip_stream_t stream, void *target, const void *source, uint64_t size_bytes,
                                     uint32_t kind) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_STREAM(stream);
  if (size_bytes == 0) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__platform_check_copy(__func__, target, source, kind));
  SLIP__PLATFORM_RETURN(platform, MEMORY_COPY_ASYNC, platform->vtable->memory_copy_async(stream, target, source, size_bytes, kind));
}

slip_status_t slip__platform_memory_fill(slip_platform_t *platform, int32_t device, void *target, uint8_t value, uint64_t size_bytes) {
  SLIP__PLATFORM_NEED_DEVICE(platform, device);
  if (size_bytes == 0) return slip_ok_status();
  SLIP__PLATFORM_NEED(target, "target");
  SLIP__PLATFORM_RETURN(platform, MEMORY_FILL, platform->vtable->memory_fill(device, target, value, size_bytes));
}

slip_status_t slip__platform_pointer_info(slip_platform_t *platform, const void *pointer, slip_pointer_info_t *out) {
  *out = (slip_pointer_info_t){0};
  SLIP__PLATFORM_RETURN(platform, POINTER_INFO, platform->vtable->pointer_info(pointer, out));
}

slip_status_t slip_host_allocate(slip_platform_t *platform, uint64_t size_bytes, void **out) {
  SLIP__PLATFORM_NEED(out, "out");
  *out = NULL;
  SLIP__PLATFORM_NEED(platform, "platform");
  if (size_bytes == 0) return slip_ok_status();
  if (size_bytes > INT64_MAX)
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "%llu bytes are more than any host has", (unsigned long long)size_bytes);
  SLIP__PLATFORM_RETURN(platform, HOST_ALLOCATE, platform->vtable->host_allocate(size_bytes, out));
}

slip_status_t slip_host_free(slip_platform_t *platform, void *memory) {
  SLIP__PLATFORM_NEED(platform, "platform");
  if (!memory) return slip_ok_status();
  SLIP__PLATFORM_RETURN(platform, HOST_FREE, platform->vtable->host_free(memory));
}

slip_status_t slip__platform_device_map(slip_platform_t *platform, int32_t device, void *address, uint64_t size_bytes, uint32_t access,
                                        void **out_view) {
  *out_view = address;
  if (size_bytes == 0 || (platform->handshake.capabilities & SLIP_PLATFORM_HOST_MEMORY)) return slip_ok_status();
  SLIP__PLATFORM_NEED_ENTRY(platform, device_map);
  SLIP__PLATFORM_RETURN(platform, DEVICE_MAP, platform->vtable->device_map(device, address, size_bytes, access, out_view));
}

slip_status_t slip__platform_device_unmap(slip_platform_t *platform, int32_t device, void *address, uint64_t size_bytes, uint32_t access) {
  if (size_bytes == 0 || (platform->handshake.capabilities & SLIP_PLATFORM_HOST_MEMORY)) return slip_ok_status();
  SLIP__PLATFORM_NEED_ENTRY(platform, device_unmap);
  SLIP__PLATFORM_RETURN(platform, DEVICE_UNMAP, platform->vtable->device_unmap(device, address, size_bytes, access));
}

// --- code

slip_status_t slip__platform_module_load(slip_platform_t *platform, int32_t device, slip_const_bytes_t binary, slip_module_t *out) {
  *out = NULL;
  SLIP__PLATFORM_NEED_DEVICE(platform, device);
  if (!binary.data || binary.size == 0) return SLIP_STATUS(SLIP_CODE_CORRUPT, "an empty binary cannot be loaded");
  SLIP__PLATFORM_RETURN(platform, MODULE_LOAD, platform->vtable->module_load(device, binary, out));
}

slip_status_t slip__platform_module_unload(slip_platform_t *platform, slip_module_t module) {
  if (!module) return slip_ok_status();
  SLIP__PLATFORM_RETURN(platform, MODULE_UNLOAD, platform->vtable->module_unload(module));
}

slip_status_t slip__platform_module_symbol(slip_platform_t *platform, slip_module_t module, const char *name, void **out) {
  *out = NULL;
  SLIP__PLATFORM_NEED(module, "module");
  SLIP__PLATFORM_NEED(name, "name");
  SLIP__PLATFORM_RETURN(platform, MODULE_SYMBOL, platform->vtable->module_symbol(module, name, out));
}

// --- capture and graphs

slip_status_t slip__platform_thread_capture_info(slip_platform_t *platform, slip_capture_info_t *out) {
  *out = (slip_capture_info_t){0};
  if (!platform->vtable->thread_capture_info) return slip_ok_status();
  SLIP__PLATFORM_RETURN(platform, THREAD_CAPTURE_INFO, platform->vtable->thread_capture_info(out));
}

slip_status_t slip__platform_capture_retain(slip_platform_t *platform, slip_stream_t stream, void (*release)(void *user), void *user) {
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_NEED_ENTRY(platform, capture_retain);
  SLIP__PLATFORM_RETURN(platform, CAPTURE_RETAIN, platform->vtable->capture_retain(stream, release, user));
}

slip_status_t slip_stream_capture_begin(slip_platform_t *platform, slip_stream_t stream, uint32_t mode) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_NEED_ENTRY(platform, capture_begin);
  if (mode > SLIP_CAPTURE_MODE_RELAXED)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s was given capture mode %u; see slip_capture_mode_e", __func__, mode);
  SLIP__PLATFORM_RETURN(platform, CAPTURE_BEGIN, platform->vtable->capture_begin(stream, mode));
}

slip_status_t slip_stream_capture_end(slip_platform_t *platform, slip_stream_t stream, slip_graph_exec_t *out) {
  SLIP__PLATFORM_NEED(out, "out");
  *out = NULL;
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_NEED_ENTRY(platform, capture_end);
  SLIP__PLATFORM_RETURN(platform, CAPTURE_END, platform->vtable->capture_end(stream, out));
}

slip_status_t slip_stream_capture_info(slip_platform_t *platform, slip_stream_t stream, slip_capture_info_t *out) {
  SLIP__PLATFORM_NEED(out, "out");
  *out = (slip_capture_info_t){0};
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_RETURN(platform, STREAM_CAPTURE_INFO, platform->vtable->stream_capture_info(stream, out));
}

slip_status_t slip_graph_exec_launch(slip_platform_t *platform, slip_graph_exec_t graph, slip_stream_t stream) {
  SLIP__PLATFORM_NEED(platform, "platform");
  SLIP__PLATFORM_NEED(graph, "graph");
  SLIP__PLATFORM_NEED_STREAM(stream);
  SLIP__PLATFORM_NEED_ENTRY(platform, graph_launch);
  SLIP__PLATFORM_RETURN(platform, GRAPH_LAUNCH, platform->vtable->graph_launch(graph, stream));
}

slip_status_t slip_graph_exec_destroy(slip_platform_t *platform, slip_graph_exec_t graph) {
  SLIP__PLATFORM_NEED(platform, "platform");
  if (!graph) return slip_ok_status();
  SLIP__PLATFORM_NEED_ENTRY(platform, graph_destroy);
  SLIP__PLATFORM_RETURN(platform, GRAPH_DESTROY, platform->vtable->graph_destroy(graph));
}
