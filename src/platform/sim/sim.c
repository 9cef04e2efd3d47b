// SPDX-License-Identifier: Apache-2.0
// The simulator's function table. Every entry counts itself and then does what the part it belongs to does.
#include "platform/sim/sim.h"

#include <stdio.h>

#include "os/topology.h"
#include "platform/build.h"
#include "platform/dispatch.h"
#include "platform/registry.h"

// Locks are guarded in the order in which they are taken.
static slip_status_t slip__sim_load(void) {
  SLIP_RETURN_IF_ERROR(slip__sim_config_load());
  slip__sim_stream_watch_fork();
  slip__sim_module_watch_fork();
  slip__sim_memory_watch_fork();
  slip__sim_report_watch_fork();
  return slip_ok_status();
}

static slip_status_t slip__sim_handshake(slip_platform_handshake_t *out) {
  *out = (slip_platform_handshake_t){
      .abi_version = SLIP_PLATFORM_ABI_VERSION,
      .capabilities = SLIP_PLATFORM_CAN_STREAMS | SLIP_PLATFORM_CAN_HOST_NATIVE | SLIP_PLATFORM_CAN_CAPTURE,
      .sanitizer = SLIP__PLATFORM_SANITIZER,
      .build_id = SLIP__PLATFORM_BUILD_ID,
      .version = SLIP_VERSION_STRING,
  };
  return slip_ok_status();
}

static slip_status_t slip__sim_device_count(int32_t *out_count) {
  SLIP_RETURN_IF_ERROR(slip__sim_enter("device_count"));
  *out_count = slip__sim_config()->device_count;
  return slip_ok_status();
}

static slip_status_t slip__sim_device_properties(int32_t device, slip_device_properties_t *out) {
  (void)device;
  SLIP_RETURN_IF_ERROR(slip__sim_enter("device_properties"));
  (void)snprintf(out->name, sizeof(out->name), "sim (%s rules)", slip__sim_is_ascend() ? "ascend" : "cuda");
  (void)snprintf(out->target, sizeof(out->target), "%s", slip__cpu_target_best());
  out->memory_bytes = slip__sim_config()->memory_bytes;
  out->core_count = slip__topology_usable_cores();
  out->capture_supported = 1;
  return slip_ok_status();
}

static slip_status_t slip__sim_device_current(int32_t *out_device) {
  SLIP_RETURN_IF_ERROR(slip__sim_enter("device_current"));
  *out_device = slip__sim_current_device();
  return slip_ok_status();
}

// Device functions are host code.
static bool slip__sim_target_supported(int32_t device, const char *target) {
  (void)device;
  slip__sim_count(SLIP__PLATFORM_CALL_TARGET_SUPPORTED);
  return slip__cpu_target_supported(target);
}

// Selecting touches no device: a broken one can be selected too, so that a close can pop what an open pushed.
static slip_status_t slip__sim_push(int32_t device) {
  SLIP_RETURN_IF_ERROR(slip__sim_enter("device_push"));
  return slip__sim_device_push(device);
}

static slip_status_t slip__sim_pop(int32_t device) {
  SLIP_RETURN_IF_ERROR(slip__sim_enter("device_pop"));
  return slip__sim_device_pop(device);
}

// slip__sim_call_ENTRY: counts, then calls |function|.
#define SLIP__SIM_ENTRY(NAME, entry, function, parameters, arguments) \
  static slip_status_t slip__sim_call_##entry parameters {            \
    slip__sim_count(SLIP__PLATFORM_CALL_##NAME);                      \
    return function arguments;                                        \
  }

SLIP__SIM_ENTRY(DEVICE_COUNT, device_count, slip__sim_device_count, (int32_t * out_count), (out_count))
SLIP__SIM_ENTRY(DEVICE_PROPERTIES, device_properties, slip__sim_device_properties, (int32_t device, slip_device_properties_t *out),
                (device, out))
SLIP__SIM_ENTRY(DEVICE_CURRENT, device_current, slip__sim_device_current, (int32_t * out_device), (out_device))
SLIP__SIM_ENTRY(DEVICE_PUSH, device_push, slip__sim_push, (int32_t device), (device))
SLIP__SIM_ENTRY(DEVICE_POP, device_pop, slip__sim_pop, (int32_t device), (device))
SLIP__SIM_ENTRY(STREAM_CREATE, stream_create, slip__sim_stream_create, (int32_t device, slip_stream_t *out), (device, out))
SLIP__SIM_ENTRY(STREAM_DESTROY, stream_destroy, slip__sim_stream_destroy, (slip_stream_t stream), (stream))
SLIP__SIM_ENTRY(STREAM_SYNCHRONIZE, stream_synchronize, slip__sim_stream_synchronize, (slip_stream_t stream), (stream))
SLIP__SIM_ENTRY(STREAM_QUERY, stream_query, slip__sim_stream_query, (slip_stream_t stream), (stream))
SLIP__SIM_ENTRY(STREAM_DEVICE, stream_device, slip__sim_stream_device, (slip_stream_t stream, int32_t *out_device), (stream, out_device))
SLIP__SIM_ENTRY(STREAM_CAPTURE_INFO, stream_capture_info, slip__sim_stream_capture_info, (slip_stream_t stream, slip_capture_info_t *out),
                (stream, out))
SLIP__SIM_ENTRY(STREAM_ENQUEUE_HOST, stream_enqueue_host, slip__sim_stream_enqueue_host,
                (slip_stream_t stream, void (*function)(void *user), void *user), (stream, function, user))
SLIP__SIM_ENTRY(STREAM_LAUNCH, stream_launch, slip__sim_stream_launch, (slip_stream_t stream, void (*run)(void *user), void *user),
                (stream, run, user))
SLIP__SIM_ENTRY(STREAM_WAIT_EVENT, stream_wait_event, slip__sim_stream_wait_event, (slip_stream_t stream, slip_event_t event),
                (stream, event))
SLIP__SIM_ENTRY(EVENT_CREATE, event_create, slip__sim_event_create, (int32_t device, slip_event_t *out), (device, out))
SLIP__SIM_ENTRY(EVENT_DESTROY, event_destroy, slip__sim_event_destroy, (slip_event_t event), (event))
SLIP__SIM_ENTRY(EVENT_RECORD, event_record, slip__sim_event_record, (slip_event_t event, slip_stream_t stream), (event, stream))
SLIP__SIM_ENTRY(EVENT_QUERY, event_query, slip__sim_event_query, (slip_event_t event), (event))
SLIP__SIM_ENTRY(EVENT_SYNCHRONIZE, event_synchronize, slip__sim_event_synchronize, (slip_event_t event), (event))
SLIP__SIM_ENTRY(MEMORY_ALLOCATE, memory_allocate, slip__sim_memory_allocate, (int32_t device, uint64_t size_bytes, void **out),
                (device, size_bytes, out))
SLIP__SIM_ENTRY(MEMORY_FREE, memory_free, slip__sim_memory_free, (int32_t device, void *memory), (device, memory))
SLIP__SIM_ENTRY(MEMORY_COPY, memory_copy, slip__sim_memory_copy,
                (int32_t device, void *target, const void *source, uint64_t size_bytes, uint32_t kind),
                (device, target, source, size_bytes, kind))
SLIP__SIM_ENTRY(MEMORY_COPY_ASYNC, memory_copy_async, slip__sim_memory_copy_async,
                (slip_stream_t stream, void *target, const void *source, uint64_t size_bytes, uint32_t kind),
                (stream, target, source, size_bytes, kind))
SLIP__SIM_ENTRY(MEMORY_FILL, memory_fill, slip__sim_memory_fill, (int32_t device, void *target, uint8_t value, uint64_t size_bytes),
                (device, target, value, size_bytes))
SLIP__SIM_ENTRY(POINTER_INFO, pointer_info, slip__sim_pointer_info, (const void *pointer, slip_pointer_info_t *out), (pointer, out))
SLIP__SIM_ENTRY(HOST_ALLOCATE, host_allocate, slip__sim_host_allocate, (uint64_t size_bytes, void **out), (size_bytes, out))
SLIP__SIM_ENTRY(HOST_FREE, host_free, slip__sim_host_free, (void *memory), (memory))
SLIP__SIM_ENTRY(DEVICE_MAP, device_map, slip__sim_device_map,
                (int32_t device, void *address, uint64_t size_bytes, uint32_t access, void **out_view),
                (device, address, size_bytes, access, out_view))
SLIP__SIM_ENTRY(DEVICE_UNMAP, device_unmap, slip__sim_device_unmap, (int32_t device, void *address, uint64_t size_bytes, uint32_t access),
                (device, address, size_bytes, access))
SLIP__SIM_ENTRY(MODULE_LOAD, module_load, slip__sim_module_load, (int32_t device, slip_const_bytes_t binary, slip_module_t *out),
                (device, binary, out))
SLIP__SIM_ENTRY(MODULE_UNLOAD, module_unload, slip__sim_module_unload, (slip_module_t module), (module))
SLIP__SIM_ENTRY(MODULE_SYMBOL, module_symbol, slip__sim_module_symbol, (slip_module_t module, const char *name, void **out),
                (module, name, out))
SLIP__SIM_ENTRY(THREAD_CAPTURE_INFO, thread_capture_info, slip__sim_thread_capture_info, (slip_capture_info_t * out), (out))
SLIP__SIM_ENTRY(CAPTURE_BEGIN, capture_begin, slip__sim_capture_begin, (slip_stream_t stream, uint32_t mode), (stream, mode))
SLIP__SIM_ENTRY(CAPTURE_END, capture_end, slip__sim_capture_end, (slip_stream_t stream, slip_graph_exec_t *out), (stream, out))
SLIP__SIM_ENTRY(CAPTURE_RETAIN, capture_retain, slip__sim_capture_retain, (slip_stream_t stream, void (*release)(void *user), void *user),
                (stream, release, user))
SLIP__SIM_ENTRY(GRAPH_LAUNCH, graph_launch, slip__sim_graph_launch, (slip_graph_exec_t graph, slip_stream_t stream), (graph, stream))
SLIP__SIM_ENTRY(GRAPH_DESTROY, graph_destroy, slip__sim_graph_destroy, (slip_graph_exec_t graph), (graph))

const slip_platform_vtable_t slip__sim_platform = {
    .struct_size = sizeof(slip_platform_vtable_t),
    .abi_version = SLIP_PLATFORM_ABI_VERSION,
    .code = SLIP_PLATFORM_SIM,
    .name = "sim",
    .load = slip__sim_load,
    .handshake = slip__sim_handshake,
    .device_count = slip__sim_call_device_count,
    .device_properties = slip__sim_call_device_properties,
    .device_current = slip__sim_call_device_current,
    .target_supported = slip__sim_target_supported,
    .device_push = slip__sim_call_device_push,
    .device_pop = slip__sim_call_device_pop,
    .stream_create = slip__sim_call_stream_create,
    .stream_destroy = slip__sim_call_stream_destroy,
    .stream_synchronize = slip__sim_call_stream_synchronize,
    .stream_query = slip__sim_call_stream_query,
    .stream_device = slip__sim_call_stream_device,
    .stream_capture_info = slip__sim_call_stream_capture_info,
    .stream_enqueue_host = slip__sim_call_stream_enqueue_host,
    .stream_launch = slip__sim_call_stream_launch,
    .stream_wait_event = slip__sim_call_stream_wait_event,
    .event_create = slip__sim_call_event_create,
    .event_destroy = slip__sim_call_event_destroy,
    .event_record = slip__sim_call_event_record,
    .event_query = slip__sim_call_event_query,
    .event_synchronize = slip__sim_call_event_synchronize,
    .memory_allocate = slip__sim_call_memory_allocate,
    .memory_free = slip__sim_call_memory_free,
    .memory_copy = slip__sim_call_memory_copy,
    .memory_copy_async = slip__sim_call_memory_copy_async,
    .memory_fill = slip__sim_call_memory_fill,
    .pointer_info = slip__sim_call_pointer_info,
    .host_allocate = slip__sim_call_host_allocate,
    .host_free = slip__sim_call_host_free,
    .device_map = slip__sim_call_device_map,
    .device_unmap = slip__sim_call_device_unmap,
    .module_load = slip__sim_call_module_load,
    .module_unload = slip__sim_call_module_unload,
    .module_symbol = slip__sim_call_module_symbol,
    .thread_capture_info = slip__sim_call_thread_capture_info,
    .capture_begin = slip__sim_call_capture_begin,
    .capture_end = slip__sim_call_capture_end,
    .capture_retain = slip__sim_call_capture_retain,
    .graph_launch = slip__sim_call_graph_launch,
    .graph_destroy = slip__sim_call_graph_destroy,
};
