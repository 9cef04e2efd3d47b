// SPDX-License-Identifier: Apache-2.0
// The null backend: the recipe. It has one device that can do nothing.
//
// To add a platform: copy this folder, rename "null" in it, give it a line in registry.h, registry.c, CMakeLists.txt and
// SLIP_PLATFORM_TABLE, and fill in the entries from top to bottom; docs/porting.md describes each. After each group run
// `test_conformance_<name>`: its list of what is still unsupported shrinks, and a test that passes although it is on the list fails, so the
// list stays true.
//
// What may be assumed: pointers are not NULL, outputs are zeroed, the device is in range, sizes are not 0. What must be kept: failures are
// statuses (the vendor's number by SLIP_STATUS_PLATFORM beside SLIP_CODE_DEVICE), no printing, no exit, any thread may call, no device
// lifecycle call of any kind.
#include <stdio.h>

#include "platform/build.h"
#include "platform/registry.h"

// One sentence that names the call; a real backend says what to install or which device can.
static slip_status_t slip__null_cannot(const char *what) {
  return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "the null platform cannot %s", what);
}

// --- library

// Load the vendor's library (slip__dylib_open) and bind all its symbols into a temporary table; publish the table only when nothing is
// missing. UNSUPPORTED with what to install if the library is not there. Nothing may be left behind by a failure: the dispatch layer calls
// again. No device is touched here.
static slip_status_t slip__null_load(void) {
  return slip_ok_status();
}

// Capabilities are promises that the conformance suite checks. The build identity and sanitizer are those of this library for a compiled-in
// backend.
static slip_status_t slip__null_handshake(slip_platform_handshake_t *out) {
  out->abi_version = SLIP_PLATFORM_ABI_VERSION;
  out->capabilities = SLIP_PLATFORM_CAN_NOTHING;
  out->sanitizer = SLIP__PLATFORM_SANITIZER;
  out->build_id = SLIP__PLATFORM_BUILD_ID;
  out->version = SLIP_VERSION_STRING;
  return slip_ok_status();
}

// --- devices

// 0 devices is an answer too: every call with a device is then refused before it gets here.
static slip_status_t slip__null_device_count(int32_t *out_count) {
  *out_count = 1;
  return slip_ok_status();
}

static slip_status_t slip__null_device_properties(int32_t device, slip_device_properties_t *out) {
  (void)device;
  (void)snprintf(out->name, sizeof(out->name), "null");
  return slip_ok_status();
}

// Ask the runtime for the calling thread's current device. Never select one, never initialise a context by asking.
static slip_status_t slip__null_device_current(int32_t *out_device) {
  *out_device = 0;
  return slip_ok_status();
}

static bool slip__null_target_supported(int32_t device, const char *target) {
  (void)device;
  (void)target;
  return false;
}

// device_push, device_pop: leave NULL if any thread may use the device; else bind the caller's context and undo it on the same thread.

// --- streams

static slip_status_t slip__null_stream_create(int32_t device, slip_stream_t *out) {
  (void)device;
  (void)out;
  return slip__null_cannot("create streams");
}

// Waits for the stream's work first. INVALID_STATE from a callback of the stream.
static slip_status_t slip__null_stream_destroy(slip_stream_t stream) {
  (void)stream;
  return slip__null_cannot("destroy streams");
}

static slip_status_t slip__null_stream_synchronize(slip_stream_t stream) {
  (void)stream;
  return slip__null_cannot("synchronise streams");
}

// slip_status_from_code(SLIP_CODE_NOT_READY) while work is left: no text, no allocation.
static slip_status_t slip__null_stream_query(slip_stream_t stream) {
  (void)stream;
  return slip__null_cannot("query streams");
}

// INVALID_ARGUMENT for what is no stream; say so without touching what the handle points to, if the vendor allows.
static slip_status_t slip__null_stream_device(slip_stream_t stream, int32_t *out_device) {
  (void)stream;
  (void)out_device;
  return slip__null_cannot("tell a stream's device");
}

// SLIP_CAPTURE_NONE if the vendor has no capture. Must not disturb a capture.
static slip_status_t slip__null_stream_capture_info(slip_stream_t stream, slip_capture_info_t *out) {
  (void)stream;
  (void)out;
  return slip__null_cannot("tell a stream's capture state");
}

// The launch path: no allocation, no lock. The function runs after all earlier and before all later work of the stream.
static slip_status_t slip__null_stream_enqueue_host(slip_stream_t stream, void (*function)(void *user), void *user) {
  (void)stream;
  (void)function;
  (void)user;
  return slip__null_cannot("enqueue host functions");
}

// stream_launch: only for a platform that runs host-native callables.

// Binds to the record that is last now. An event that was never recorded is no dependency.
static slip_status_t slip__null_stream_wait_event(slip_stream_t stream, slip_event_t event) {
  (void)stream;
  (void)event;
  return slip__null_cannot("make a stream wait");
}

// --- events

static slip_status_t slip__null_event_create(int32_t device, slip_event_t *out) {
  (void)device;
  (void)out;
  return slip__null_cannot("create events");
}

// Waits that were made before stay valid.
static slip_status_t slip__null_event_destroy(slip_event_t event) {
  (void)event;
  return slip__null_cannot("destroy events");
}

static slip_status_t slip__null_event_record(slip_event_t event, slip_stream_t stream) {
  (void)event;
  (void)stream;
  return slip__null_cannot("record events");
}

static slip_status_t slip__null_event_query(slip_event_t event) {
  (void)event;
  return slip__null_cannot("query events");
}

static slip_status_t slip__null_event_synchronize(slip_event_t event) {
  (void)event;
  return slip__null_cannot("wait for events");
}

// --- memory

// Aligned to 64 at least; contents undefined.
static slip_status_t slip__null_memory_allocate(int32_t device, uint64_t size_bytes, void **out) {
  (void)device;
  (void)size_bytes;
  (void)out;
  return slip__null_cannot("allocate memory");
}

// INVALID_ARGUMENT for what was not allocated here.
static slip_status_t slip__null_memory_free(int32_t device, void *memory) {
  (void)device;
  (void)memory;
  return slip__null_cannot("free memory");
}

static slip_status_t slip__null_memory_copy(int32_t device, void *target, const void *source, uint64_t size_bytes, uint32_t kind) {
  (void)device;
  (void)target;
  (void)source;
  (void)size_bytes;
  (void)kind;
  return slip__null_cannot("copy memory");
}

static slip_status_t slip__null_memory_copy_async(slip_stream_t stream, void *target, const void *source, uint64_t size_bytes,
                                                  uint32_t kind) {
  (void)stream;
  (void)target;
  (void)source;
  (void)size_bytes;
  (void)kind;
  return slip__null_cannot("enqueue copies");
}

static slip_status_t slip__null_memory_fill(int32_t device, void *target, uint8_t value, uint64_t size_bytes) {
  (void)device;
  (void)target;
  (void)value;
  (void)size_bytes;
  return slip__null_cannot("fill memory");
}

// Pointers that the platform knows nothing of are SLIP_POINTER_UNKNOWN and OK, which is trivially right here.
static slip_status_t slip__null_pointer_info(const void *pointer, slip_pointer_info_t *out) {
  (void)pointer;
  out->kind = SLIP_POINTER_UNKNOWN;
  return slip_ok_status();
}

// Page-locked, aligned to 64 at least.
static slip_status_t slip__null_host_allocate(uint64_t size_bytes, void **out) {
  (void)size_bytes;
  (void)out;
  return slip__null_cannot("allocate page-locked memory");
}

static slip_status_t slip__null_host_free(void *memory) {
  (void)memory;
  return slip__null_cannot("free page-locked memory");
}

// device_map, device_unmap: only for a platform that runs host-native callables without sharing the host's memory.

// --- code

// |binary| is borrowed for the call. Load completely: nothing may be loaded lazily in a launch or a capture.
static slip_status_t slip__null_module_load(int32_t device, slip_const_bytes_t binary, slip_module_t *out) {
  (void)device;
  (void)binary;
  (void)out;
  return slip__null_cannot("load code");
}

static slip_status_t slip__null_module_unload(slip_module_t module) {
  (void)module;
  return slip__null_cannot("unload code");
}

static slip_status_t slip__null_module_symbol(slip_module_t module, const char *name, void **out) {
  (void)module;
  (void)name;
  (void)out;
  return slip__null_cannot("look up symbols");
}

// --- capture and graphs: all six or none, with SLIP_PLATFORM_CAN_CAPTURE; NULL is answered UNSUPPORTED by the dispatch layer.

const slip_platform_vtable_t slip__null_platform = {
    .struct_size = sizeof(slip_platform_vtable_t),
    .abi_version = SLIP_PLATFORM_ABI_VERSION,
    .code = SLIP_PLATFORM_NULL,
    .name = "null",
    .load = slip__null_load,
    .handshake = slip__null_handshake,
    .device_count = slip__null_device_count,
    .device_properties = slip__null_device_properties,
    .device_current = slip__null_device_current,
    .target_supported = slip__null_target_supported,
    .stream_create = slip__null_stream_create,
    .stream_destroy = slip__null_stream_destroy,
    .stream_synchronize = slip__null_stream_synchronize,
    .stream_query = slip__null_stream_query,
    .stream_device = slip__null_stream_device,
    .stream_capture_info = slip__null_stream_capture_info,
    .stream_enqueue_host = slip__null_stream_enqueue_host,
    .stream_wait_event = slip__null_stream_wait_event,
    .event_create = slip__null_event_create,
    .event_destroy = slip__null_event_destroy,
    .event_record = slip__null_event_record,
    .event_query = slip__null_event_query,
    .event_synchronize = slip__null_event_synchronize,
    .memory_allocate = slip__null_memory_allocate,
    .memory_free = slip__null_memory_free,
    .memory_copy = slip__null_memory_copy,
    .memory_copy_async = slip__null_memory_copy_async,
    .memory_fill = slip__null_memory_fill,
    .pointer_info = slip__null_pointer_info,
    .host_allocate = slip__null_host_allocate,
    .host_free = slip__null_host_free,
    .module_load = slip__null_module_load,
    .module_unload = slip__null_module_unload,
    .module_symbol = slip__null_module_symbol,
};
