// SPDX-License-Identifier: Apache-2.0
// Platform SDK: the function table a backend fills in.
//
// A thin dispatch layer stands in front of every call: it checks arguments, zeroes outputs, counts, traces and injects faults. A backend
// therefore may assume: pointers that must not be NULL are not, outputs are zeroed, the device ordinal is in range. It must: return
// failures as statuses (vendor numbers beside SLIP_CODE_DEVICE), never print, never exit, be callable from any thread unless the entry says
// otherwise, and make no device lifecycle call (set, reset, device-wide synchronise, runtime finalise).
//
// The table is bound all or nothing. An entry marked [optional] may be NULL: the dispatch layer then answers UNSUPPORTED.
#ifndef SLIPSTREAM_PLATFORM_PLATFORM_H_
#define SLIPSTREAM_PLATFORM_PLATFORM_H_

#include "slipstream/device.h"
#include "slipstream/status.h"

SLIP_EXTERN_C_BEGIN

#define SLIP_PLATFORM_ABI_VERSION 2

typedef enum slip_platform_capability_bits_e {
  SLIP_PLATFORM_CAN_NOTHING = 0,
  SLIP_PLATFORM_CAN_INLINE = 1,       // SLIP_STREAM_INLINE
  SLIP_PLATFORM_CAN_STREAMS = 2,      // asynchronous streams and events
  SLIP_PLATFORM_CAN_HOST_NATIVE = 4,  // runs host-native objects (SLIP_RUNTIME_HOST_NATIVE)
  SLIP_PLATFORM_CAN_CAPTURE = 8,
  SLIP_PLATFORM_HOST_MEMORY = 16,  // device memory may be dereferenced by the host
  // A whole launch is one operation on the caller's stream. Without it, launches go through the context's own control and compute streams
  // (kernel_mode/lane.h).
  SLIP_PLATFORM_DIRECT_LAUNCH = 32,
} slip_platform_capability_bits_e;

typedef enum slip_pointer_kind_e {
  SLIP_POINTER_UNKNOWN = 0,
  SLIP_POINTER_HOST = 1,
  SLIP_POINTER_HOST_PINNED = 2,
  SLIP_POINTER_DEVICE = 3,
} slip_pointer_kind_e;

typedef struct slip_pointer_info_t {
  uint32_t kind;  // slip_pointer_kind_e
  int32_t device;
  void *base;  // allocation that contains the pointer; NULL: unknown
  uint64_t size_bytes;
} slip_pointer_info_t;

// What a platform says of itself before anything is used.
typedef struct slip_platform_handshake_t {
  uint32_t abi_version;   // SLIP_PLATFORM_ABI_VERSION
  uint32_t capabilities;  // slip_platform_capability_bits_e
  uint32_t sanitizer;     // 0 none, 1 address, 2 thread, 4 memory
  uint32_t reserved;
  const char *build_id;  // empty is refused
  const char *version;   // of the vendor's library, for people
} slip_platform_handshake_t;

typedef struct slip_module_s *slip_module_t;

typedef enum slip_map_bits_e {
  SLIP_MAP_READ = 1,
  SLIP_MAP_WRITE = 2,
} slip_map_bits_e;

typedef struct slip_platform_vtable_t {
  uint32_t struct_size;
  uint32_t abi_version;
  uint16_t code;  // slip_platform_e
  uint16_t reserved0;
  uint32_t reserved1;
  const char *name;

  // -- library: load once, before any other entry; thread-safety by the dispatch layer. A failed load leaves nothing behind and may be
  // repeated.
  slip_status_t (*load)(void);
  slip_status_t (*handshake)(slip_platform_handshake_t *out);

  // -- devices
  slip_status_t (*device_count)(int32_t *out_count);
  slip_status_t (*device_properties)(int32_t device, slip_device_properties_t *out);
  slip_status_t (*device_current)(int32_t *out_device);  // the calling thread's current device; never changes it
  bool (*target_supported)(int32_t device, const char *target);
  // Bind the borrowed device context to the calling thread and undo it [optional: not needed by this platform].
  slip_status_t (*device_push)(int32_t device);
  slip_status_t (*device_pop)(int32_t device);

  // -- streams
  slip_status_t (*stream_create)(int32_t device, slip_stream_t *out);
  slip_status_t (*stream_destroy)(slip_stream_t stream);
  slip_status_t (*stream_synchronize)(slip_stream_t stream);
  slip_status_t (*stream_query)(slip_stream_t stream);
  slip_status_t (*stream_device)(slip_stream_t stream, int32_t *out_device);
  slip_status_t (*stream_capture_info)(slip_stream_t stream, slip_capture_info_t *out);
  // A host function: it must not call the platform. In a capture it becomes a node that every replay runs.
  slip_status_t (*stream_enqueue_host)(slip_stream_t stream, void (*function)(void *user), void *user);  // no allocation
  // Device work of a host-native callable: |run| does on the host what a device would do; it may call device_map and device_unmap, and
  // nothing else of the platform. In a capture it becomes a node. [optional: SLIP_PLATFORM_CAN_HOST_NATIVE]
  slip_status_t (*stream_launch)(slip_stream_t stream, void (*run)(void *user), void *user);  // no allocation
  slip_status_t (*stream_wait_event)(slip_stream_t stream, slip_event_t event);

  // -- events
  slip_status_t (*event_create)(int32_t device, slip_event_t *out);
  slip_status_t (*event_destroy)(slip_event_t event);
  slip_status_t (*event_record)(slip_event_t event, slip_stream_t stream);
  slip_status_t (*event_query)(slip_event_t event);
  slip_status_t (*event_synchronize)(slip_event_t event);

  // -- memory
  slip_status_t (*memory_allocate)(int32_t device, uint64_t size_bytes, void **out);
  slip_status_t (*memory_free)(int32_t device, void *memory);
  slip_status_t (*memory_copy)(int32_t device, void *target, const void *source, uint64_t size_bytes, uint32_t kind);
  slip_status_t (*memory_copy_async)(slip_stream_t stream, void *target, const void *source, uint64_t size_bytes, uint32_t kind);
  slip_status_t (*memory_fill)(int32_t device, void *target, uint8_t value, uint64_t size_bytes);
  slip_status_t (*pointer_info)(const void *pointer, slip_pointer_info_t *out);
  // Page-locked host memory, 64-byte aligned at least, which asynchronous copies may read and write while a capture replays.
  slip_status_t (*host_allocate)(uint64_t size_bytes, void **out);
  slip_status_t (*host_free)(void *memory);
  // Where the code of a host-native callable finds [address, address + size_bytes) of device memory while it runs, and the end of that use.
  // |access|: slip_map_bits_e. An unmap that fails found what the code did wrong (a write out of bounds).
  // [optional: SLIP_PLATFORM_CAN_HOST_NATIVE without SLIP_PLATFORM_HOST_MEMORY]
  slip_status_t (*device_map)(int32_t device, void *address, uint64_t size_bytes, uint32_t access, void **out_view);
  slip_status_t (*device_unmap)(int32_t device, void *address, uint64_t size_bytes, uint32_t access);

  // -- code: |binary| is borrowed for the call.
  slip_status_t (*module_load)(int32_t device, slip_const_bytes_t binary, slip_module_t *out);
  slip_status_t (*module_unload)(slip_module_t module);
  slip_status_t (*module_symbol)(slip_module_t module, const char *name, void **out);

  // -- capture and graphs [optional as a group: SLIP_PLATFORM_CAN_CAPTURE]
  // Whether a call that is illegal in a capture would now be illegal on the calling thread: some stream is in a capture that this thread
  // began, or in one of global mode that another thread began. Must not disturb a capture.
  slip_status_t (*thread_capture_info)(slip_capture_info_t *out);
  slip_status_t (*capture_begin)(slip_stream_t stream, uint32_t mode);
  slip_status_t (*capture_end)(slip_stream_t stream, slip_graph_exec_t *out);
  // Hands |user| to the graph that |stream| is capturing into: |release| is called once, on any thread, when no execution of it can begin
  // or is running any more (the graph was destroyed and the device is through with it, or the capture came to nothing). |release| must not
  // call the platform. No allocation that could fail after success was returned.
  slip_status_t (*capture_retain)(slip_stream_t stream, void (*release)(void *user), void *user);
  slip_status_t (*graph_launch)(slip_graph_exec_t graph, slip_stream_t stream);
  // The graph takes no more launches; those enqueued still run.
  slip_status_t (*graph_destroy)(slip_graph_exec_t graph);
} slip_platform_vtable_t;

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_PLATFORM_PLATFORM_H_
