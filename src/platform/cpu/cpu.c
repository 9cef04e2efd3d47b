// SPDX-License-Identifier: Apache-2.0
// The cpu backend: the host itself as device 0.
#include "platform/cpu/cpu.h"

#include <stdio.h>

#include "os/dylib.h"
#include "os/topology.h"
#include "platform/build.h"
#include "platform/registry.h"

static slip_status_t slip__cpu_load(void) {
  slip__cpu_stream_watch_fork();
  slip__cpu_event_watch_fork();
  slip__cpu_memory_watch_fork();
  return slip_ok_status();
}

static slip_status_t slip__cpu_handshake(slip_platform_handshake_t *out) {
  *out = (slip_platform_handshake_t){
      .abi_version = SLIP_PLATFORM_ABI_VERSION,
      .capabilities = SLIP_PLATFORM_CAN_INLINE | SLIP_PLATFORM_CAN_STREAMS | SLIP_PLATFORM_CAN_HOST_NATIVE | SLIP_PLATFORM_HOST_MEMORY |
                      SLIP_PLATFORM_DIRECT_LAUNCH,
      .sanitizer = SLIP__PLATFORM_SANITIZER,
      .build_id = SLIP__PLATFORM_BUILD_ID,
      .version = SLIP_VERSION_STRING,
  };
  return slip_ok_status();
}

static slip_status_t slip__cpu_device_count(int32_t *out_count) {
  *out_count = 1;
  return slip_ok_status();
}

static slip_status_t slip__cpu_device_properties(int32_t device, slip_device_properties_t *out) {
  (void)device;
  slip__cpu_name(out->name, sizeof(out->name));
  (void)snprintf(out->target, sizeof(out->target), "%s", slip__cpu_target_best());
  out->memory_bytes = slip__topology_memory_bytes();
  out->core_count = slip__topology_usable_cores();
  out->capture_supported = 0;
  return slip_ok_status();
}

static slip_status_t slip__cpu_device_current(int32_t *out_device) {
  *out_device = 0;
  return slip_ok_status();
}

static bool slip__cpu_runs_target(int32_t device, const char *target) {
  (void)device;
  return slip__cpu_target_supported(target);
}

// All host memory is alike here: what device memory is made of serves as page-locked memory too.
static slip_status_t slip__cpu_host_allocate(uint64_t size_bytes, void **out) {
  return slip__cpu_memory_allocate(0, size_bytes, out);
}

static slip_status_t slip__cpu_host_free(void *memory) {
  return slip__cpu_memory_free(0, memory);
}

// A module is a shared object loaded from memory; slip_module_t is its slip__dylib_t.
static slip_status_t slip__cpu_module_load(int32_t device, slip_const_bytes_t binary, slip_module_t *out) {
  static _Atomic uint32_t count;
  char label[32];
  slip__dylib_t *library = NULL;
  (void)device;
  (void)snprintf(label, sizeof(label), "slip-module-%u", atomic_fetch_add_explicit(&count, 1, memory_order_relaxed));
  SLIP_RETURN_IF_ERROR(slip__dylib_open_memory(binary, label, slip_allocator_system(), &library));
  *out = (slip_module_t)library;
  return slip_ok_status();
}

static slip_status_t slip__cpu_module_unload(slip_module_t module) {
  return slip__dylib_close((slip__dylib_t *)module);
}

static slip_status_t slip__cpu_module_symbol(slip_module_t module, const char *name, void **out) {
  return slip__dylib_symbol((slip__dylib_t *)module, name, out);
}

const slip_platform_vtable_t slip__cpu_platform = {
    .struct_size = sizeof(slip_platform_vtable_t),
    .abi_version = SLIP_PLATFORM_ABI_VERSION,
    .code = SLIP_PLATFORM_CPU,
    .name = "cpu",
    .load = slip__cpu_load,
    .handshake = slip__cpu_handshake,
    .device_count = slip__cpu_device_count,
    .device_properties = slip__cpu_device_properties,
    .device_current = slip__cpu_device_current,
    .target_supported = slip__cpu_runs_target,
    .stream_create = slip__cpu_stream_create,
    .stream_destroy = slip__cpu_stream_destroy,
    .stream_synchronize = slip__cpu_stream_synchronize,
    .stream_query = slip__cpu_stream_query,
    .stream_device = slip__cpu_stream_device,
    .stream_capture_info = slip__cpu_stream_capture_info,
    .stream_enqueue_host = slip__cpu_stream_enqueue_host,
    .stream_launch = slip__cpu_stream_enqueue_host,
    .stream_wait_event = slip__cpu_stream_wait_event,
    .event_create = slip__cpu_event_create,
    .event_destroy = slip__cpu_event_destroy,
    .event_record = slip__cpu_event_record,
    .event_query = slip__cpu_event_query,
    .event_synchronize = slip__cpu_event_synchronize,
    .memory_allocate = slip__cpu_memory_allocate,
    .memory_free = slip__cpu_memory_free,
    .memory_copy = slip__cpu_memory_copy,
    .memory_copy_async = slip__cpu_memory_copy_async,
    .memory_fill = slip__cpu_memory_fill,
    .pointer_info = slip__cpu_pointer_info,
    .host_allocate = slip__cpu_host_allocate,
    .host_free = slip__cpu_host_free,
    .module_load = slip__cpu_module_load,
    .module_unload = slip__cpu_module_unload,
    .module_symbol = slip__cpu_module_symbol,
};
