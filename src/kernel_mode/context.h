// SPDX-License-Identifier: Apache-2.0
// The context's memory, and what its parts share. Each part's protocol stands at the head of its own file: gate.h, signal.h, pool.h,
// registry.h,
// arguments.h, ticket.h, lane.h, launch.c, open.c, close.c.
//
// Who may touch what:
//   fields of "fixed"         written while INITIALIZING by the opening thread, then read by all; |state| (release/acquire) publishes them
//   |references|, |result|, |next|, |attempt_done|   under the process table's lock
//   the rest                  atomics, or as the part says
//
// Lifetime of the memory: |shell| counts one for all references of open together, and one per ticket handle that a caller holds. The last
// one frees it.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_CONTEXT_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_CONTEXT_H_

#include "graph/engine.h"
#include "kernel_mode/gate.h"
#include "kernel_mode/options.h"
#include "kernel_mode/pool.h"
#include "kernel_mode/registry.h"
#include "kernel_mode/signal.h"
#include "platform/dispatch.h"
#include "slipstream/context.h"
#include "slipstream/kernel/orch.h"

// The gate of slow operations admits this id while the context is READY.
#define SLIP__OPERATIONS_ID 1u

// A run slot: one launch at a time. Its counters have one writer, the holder of the slot, and are read by statistics (relaxed).
typedef struct slip__slot_t {
  _Alignas(64) slip__workspace_t *workspace;
  // SLIP_ENTRY_MAX_TENSORS of them, then the scalars: the argument block of inline launches; of launches through lanes, the tensors as the
  // callable's code finds them.
  slip_otensor_t *tensors;
  uint64_t *scalars;
  _Atomic uint64_t inline_launches;
  _Atomic uint64_t inline_faults;
  _Atomic uint64_t tasks;
  _Atomic uint64_t committed_bytes;
  _Atomic uint64_t uses;  // launches of either kind that left the slot
} slip__slot_t;

struct slip_context_t {
  // fixed
  _Atomic uint32_t state;  // slip_context_state_e
  slip_device_t device;
  uint64_t generation;
  slip_platform_t *platform;
  slip_allocator_t allocator;
  slip__engine_t *engine;
  slip__slot_t *slots;
  uint32_t slot_count;
  uint64_t all_slots;  // a bit per slot
  void *device_block;  // the slots' argument blocks: memory of the platform where the host reaches it, else of the allocator
  uint64_t device_block_bytes;
  slip_stream_t inline_stream;     // SLIP_STREAM_INLINE; NULL where the platform has none
  slip_context_options_t options;  // resolved; strings below
  char platform_name[16];
  char target[64];
  char *output_directory;

  slip__registry_t registry;
  _Atomic(slip_status_t) poison;  // the first error; never changes again

  // lanes: see lane.h
  struct slip__lane_t *lanes;  // fixed; NULL on a platform with SLIP_PLATFORM_DIRECT_LAUNCH
  uint32_t lane_count;         // |slot_count| for eager launches, then those for captures
  slip__gate_t lane_askers;    // threads in slip__lanes_ask; close shuts it before the lanes go
  pthread_mutex_t lane_lock;   // leases, and the list of abandoned tickets
  pthread_cond_t lane_idle;    // a leased lane is submitted to by nobody
  _Atomic uint64_t free_lanes;
  slip__signal_t lane_signal;
  slip_ticket_t *abandoned;  // under |lane_lock|
  _Atomic uint32_t abandoned_count;
  _Atomic uint32_t captured;  // captured launches that have not retired

  // run slots
  _Alignas(64) _Atomic uint64_t free_slots;
  slip__signal_t slot_signal;

  // tickets: see ticket.h. What the launching and reaping side writes, then what the device side writes: apart, since each is another
  // core's.
  _Alignas(64) _Atomic uint32_t pending;  // admitted asynchronous launches that have not retired
  _Atomic uint32_t epoch;                 // 0 or 1
  _Atomic uint32_t epoch_pending[2];
  _Atomic uint64_t admitted, retired, faulted, refused;
  // Recorded launches (graph.c): what replays of n nodes add to the statistics beyond their one ticket, n - 1 each, modulo 2^64.
  _Atomic uint64_t replay_admitted, replay_retired;
  _Alignas(64) _Atomic(slip_ticket_t *) done;
  _Atomic uint64_t left;               // device sides that have made their last access to the context
  _Alignas(64) slip__signal_t signal;  // anything that close, drain, wait or a full queue waits for
  slip__pool_t tickets;
  _Atomic uint32_t shell;

  // slow operations, drain and close
  slip__gate_t operations;
  pthread_mutex_t drain_lock;
  bool locks_made;                // this and the lanes'
  _Atomic uint32_t closing;       // 1: some thread is in close; stays 1 once the context is CLOSED
  uint32_t close_stage;           // the closing thread's
  bool program;                   // fixed: a worker's (program mode), for callables of the program contract; no open finds it
  bool platform_used;             // fixed: open got as far as asking the platform for something to keep
  _Atomic uint32_t stale;         // handles that the platform no longer knew when they were to be given back
  _Atomic(slip_status_t) staled;  // what it said to the first of them
  uint32_t scratch_bytes;         // reserved in the engine; under the registry's lock
  _Atomic uint32_t graphs;        // recordings that their owner has not destroyed
  _Atomic uint64_t graph_nodes;   // gates that recordings are inside, those of their owners and those that only launches still keep

  // the process table's
  slip_context_t *next;
  uint32_t references;
  bool attempt_done;
  slip_status_t result;  // of the open that made (or failed to make) this context
};

// Binds the borrowed device to the thread where the platform needs that, and undoes it. A binding that could not be undone is remembered by
// its thread: the next bind of the same device takes it over, so that failures do not pile up bindings, and its unbind tries again.
slip_status_t slip__context_bind(const slip_context_t *context) SLIP_MUST_USE;
slip_status_t slip__context_unbind(const slip_context_t *context) SLIP_MUST_USE;
// Whether the calling thread still owes the unbinding of the context's device.
bool slip__context_bound(const slip_context_t *context);

// Sets |status| to |body|'s, run with the device bound.
#define SLIP__CONTEXT_BOUND(status, context, body)                          \
  do {                                                                      \
    (status) = slip__context_bind(context);                                 \
    if (slip_status_is_ok(status)) {                                        \
      (status) = (body);                                                    \
      (status) = slip_status_join((status), slip__context_unbind(context)); \
    }                                                                       \
  } while (0)

static inline slip_context_state_e slip__context_state(const slip_context_t *context) {
  return (slip_context_state_e)atomic_load_explicit(&context->state, memory_order_acquire);
}

// Adds to one of a slot's counters, whose only writer is the holder of the slot.
static inline void slip__slot_count(_Atomic uint64_t *counter, uint64_t more) {
  atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

static inline bool slip__context_uses_lanes(const slip_context_t *context) {
  return (slip__platform_capabilities(context->platform) & SLIP_PLATFORM_DIRECT_LAUNCH) == 0;
}
static inline bool slip__context_captures(const slip_context_t *context) {
  return slip__context_uses_lanes(context) && (slip__platform_capabilities(context->platform) & SLIP_PLATFORM_CAN_CAPTURE) != 0;
}
// Launches that may exist at a time, handles of retired ones aside.
static inline uint32_t slip__context_max_tickets(const slip_context_t *context) {
  return context->options.max_pending + (slip__context_captures(context) ? context->options.max_captured : 0);
}

// Makes the context unusable for all but close. The first error stays; |status| is consumed.
void slip__context_poison(slip_context_t *context, slip_status_t status);
// INVALID_STATE, INVALID_ARGUMENT (NULL), FORKED or POISONED, as the case may be, else OK. |what| is the caller's verb ("launch").
slip_status_t slip__context_require_ready(const slip_context_t *context, const char *what) SLIP_MUST_USE;
slip_status_t slip__context_refuse_state(const slip_context_t *context, const char *what) SLIP_MUST_USE;
slip_status_t slip__context_refuse_poisoned(const slip_context_t *context, const char *what) SLIP_MUST_USE;

// Slow operations (prepare, release, drain ...): close waits until they have left. Not counted: launch (its registration's gate counts it).
slip_status_t slip__context_enter(slip_context_t *context, const char *what) SLIP_MUST_USE;
void slip__context_leave(slip_context_t *context);
// CAPTURE_UNSUPPORTED if the calling thread is in a capture that forbids |what| ("close"); asking disturbs no capture. OK on a platform
// without captures.
slip_status_t slip__context_refuse_capture(slip_platform_t *platform, const char *what) SLIP_MUST_USE;
// Enters, for what must not be done in a capture.
slip_status_t slip__context_enter_outside_capture(slip_context_t *context, const char *what) SLIP_MUST_USE;
// The context in whose operation the calling thread is; NULL if none. Close is one, though it does not enter.
const slip_context_t *slip__context_inside(void);
void slip__context_inside_begin(const slip_context_t *context);
void slip__context_inside_end(const slip_context_t *context);

// Frees the memory when the last shell reference goes.
void slip__context_shell_release(slip_context_t *context);

// Run slots. -1: all are busy and |wait| was false.
int32_t slip__slot_acquire(slip_context_t *context, bool wait);
void slip__slot_release(slip_context_t *context, int32_t slot);
// All slots at once, without waiting; false if one is busy.
bool slip__slot_acquire_all(slip_context_t *context);
void slip__slot_release_all(slip_context_t *context);

// What a platform call that gives back a resource of the context returned. OK also if the platform does not know the handle any more
// (INVALID_ARGUMENT: somebody reset the device under us): then there is nothing left to give back, the record goes, and close tells. Any
// other failure: the caller keeps its record and tries again. Consumes |status|.
slip_status_t slip__context_given_back(slip_context_t *context, slip_status_t status) SLIP_MUST_USE;

// The stages of close from |close_stage| on (close.c); open uses them to undo what it did. The failed stage is repeated by the next call.
slip_status_t slip__context_teardown(slip_context_t *context) SLIP_MUST_USE;
// Takes the context out of the process table (close, failed open).
void slip__context_forget(slip_context_t *context);

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_CONTEXT_H_
