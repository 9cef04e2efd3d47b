// SPDX-License-Identifier: Apache-2.0
// Control of the simulator: the platform "sim", a strict virtual accelerator for tests on machines without one.
//
// Its devices have memory of their own (a device address never dereferences on the host), first-in-first-out streams, events and capture by
// the rules of a vendor, and they punish what real devices punish: use of freed memory, free while in use, writes out of bounds, reads of
// what was never written, unsafe calls in a capture. Each such *violation* is recorded with a sentence, and those of device code break the
// device (every later call on it fails, as on hardware).
//
// Streams, events, memory and capture are used through slipstream/device.h. This header is what a vendor's device management would be, and
// what a test needs besides. The environment sets the defaults:
//   SLIP_SIM_DEVICES   virtual devices, 1 to 16 (2)
//   SLIP_SIM_FLAVOUR   cuda or ascend: whose capture rules and error numbers apply (cuda)
//   SLIP_SIM_SEED      of every random decision: delays, yields, poison (1)
//   SLIP_SIM_DELAY_NS  longest random delay before an operation of a stream (20000; 0: none)
//   SLIP_SIM_MEMORY    bytes of a device (1073741824)
//
// Thread-safe unless stated otherwise.
#ifndef SLIPSTREAM_SIM_H_
#define SLIPSTREAM_SIM_H_

#include "slipstream/device.h"

SLIP_EXTERN_C_BEGIN

typedef enum slip_sim_flavour_e {
  SLIP_SIM_FLAVOUR_CUDA = 1,  // an illegal call breaks the capture; platform codes are CUresult's (900 ...)
  SLIP_SIM_FLAVOUR_ASCEND =
      2,  // waiting for an event of before the capture is refused, and the capture goes on; codes are ACL's (107024 ...)
} slip_sim_flavour_e;

// Zero always means "the environment's, or the default". Append-only.
typedef struct slip_sim_options_t {
  uint32_t struct_size;
  uint32_t flavour;  // slip_sim_flavour_e
  uint64_t seed;
  uint64_t memory_bytes;  // of a device
  uint64_t delay_ns;      // longest random delay; UINT64_MAX: none
  uint32_t max_streams;   // of a device; 0: 256
  uint32_t max_events;    // of a device; 0: 4096
} slip_sim_options_t;

#ifdef __cplusplus
#define SLIP_SIM_OPTIONS_INIT (slip_initial<slip_sim_options_t>())
#else
#define SLIP_SIM_OPTIONS_INIT \
  { .struct_size = (uint32_t)sizeof(slip_sim_options_t) }
#endif

// Power-on: heals broken devices, forgets violations, faults to come and captures, and applies |options| (NULL: defaults). Streams, events,
// memory, graphs and modules must have been given back: else BUSY, naming what is alive, and nothing happens. Not while other threads call.
SLIP_API slip_status_t slip_sim_reset(const slip_sim_options_t *options) SLIP_MUST_USE;

// --- what a vendor calls device management. All are lifecycle calls, which the library itself never makes.
// The calling thread's current device; 0 at first. INVALID_ARGUMENT.
SLIP_API slip_status_t slip_sim_set_device(int32_t device) SLIP_MUST_USE;
// Waits for all streams of the device.
SLIP_API slip_status_t slip_sim_synchronize_device(int32_t device) SLIP_MUST_USE;
// Destroys what the device holds, under everybody's feet, and heals it. Handles and addresses go stale.
SLIP_API slip_status_t slip_sim_reset_device(int32_t device) SLIP_MUST_USE;
// How often the above were called in this process (slip_sim_reset not counted).
SLIP_API uint64_t slip_sim_lifecycle_calls(void);

// --- what went wrong
// Violations since the last slip_sim_reset.
SLIP_API uint64_t slip_sim_violation_count(void);
// The |index|th of them (the first 64 are kept), as snprintf: its length, text cut to |capacity|. 0 for what is not kept.
SLIP_API size_t slip_sim_violation(uint64_t index, char *buffer, size_t capacity);

// --- making calls fail
// The |nth| platform call named |call| ("memory_allocate", see slip_platform_vtable_t) from now on fails, counted from 1 over all platforms
// of the process; all later ones too if |persistent|. INVALID_ARGUMENT for an unknown name.
SLIP_API slip_status_t slip_sim_fail_call(const char *call, uint64_t nth, bool persistent) SLIP_MUST_USE;
// Ends all failures asked for.
SLIP_API void slip_sim_fail_clear(void);
// Breaks a device as an illegal access by a kernel would: every later call on it fails with SLIP_CODE_DEVICE until
// slip_sim_reset_device or slip_sim_reset.
SLIP_API slip_status_t slip_sim_break_device(int32_t device) SLIP_MUST_USE;

// --- what is there, over all devices
typedef struct slip_sim_statistics_t {
  uint32_t struct_size;
  uint32_t streams;
  uint32_t events;
  uint32_t allocations;  // of device memory
  uint32_t host_allocations;
  uint32_t modules;
  uint32_t graphs;    // instantiated and not destroyed, or with executions to come
  uint32_t captures;  // begun and not ended
  uint64_t device_bytes;
  uint64_t host_bytes;
  uint64_t calls;       // made to the platform so far
  uint64_t operations;  // that streams have executed so far
} slip_sim_statistics_t;
// Fills the first |out->struct_size| bytes.
SLIP_API slip_status_t slip_sim_statistics(slip_sim_statistics_t *out) SLIP_MUST_USE;
// How often the platform's entry |call| was called since the last slip_sim_reset; 0 for unknown names.
SLIP_API uint64_t slip_sim_call_count(const char *call);

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_SIM_H_
