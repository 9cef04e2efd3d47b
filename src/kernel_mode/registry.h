// SPDX-License-Identifier: Apache-2.0
// The prepared callables of a context (30.4): ids, capacities, shared residency. Thread-safe.
//
// A *registration* is one id with its signature. A *resident* is one loaded image, shared by all registrations of the same content.
//
//   id -> place   places[id mod size], size >= 2 * max_callables: an array that never grows or moves, read by launch without a lock.
//                 The place's gate holds the id, so that a place given to a younger id refuses an older one. Ids go up and skip places
//                 that are taken; a dead id therefore costs no memory, ever.
//   registration  FREE -> OPEN    prepare, its last step
//                 OPEN -> CLOSED  release or close; launches may be inside
//                 CLOSED -> FREE  swept once nobody is inside
//   resident      LOADING -> LOADED     one prepare loads, others of the same content wait for its result
//                 LOADING -> FAILED     each waiter takes a copy of the failure; then gone
//                 LOADED -> UNLOADING   the last registration was swept; then gone
//                 UNLOADING -> OWED     the unload failed: record, module and bytes stay, no prepare finds it, each later sweep and
//                                       close tries again
//
// |lock| guards everything but the gates and the fields of an OPEN registration, which are immutable and published by its gate. It is not
// held across platform calls: LOADING and UNLOADING are states for that reason. Memory order of launch: gate.h.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_REGISTRY_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_REGISTRY_H_

#include "graph/engine.h"
#include "kernel_mode/arguments.h"
#include "kernel_mode/gate.h"
#include "os/thread.h"
#include "slipstream/context.h"
#include "slipstream/image.h"
#include "slipstream/kernel/object.h"
#include "slipstream/platform/platform.h"

typedef enum slip__resident_state_e {
  SLIP__RESIDENT_LOADING,
  SLIP__RESIDENT_LOADED,
  SLIP__RESIDENT_FAILED,
  SLIP__RESIDENT_UNLOADING,
  SLIP__RESIDENT_OWED,
} slip__resident_state_e;

typedef struct slip__resident_t {
  struct slip__resident_t *next;
  struct slip__resident_t *next_unload;  // private list of the sweep that set UNLOADING
  uint64_t content_hash[2];
  uint64_t bytes;
  uint32_t state;       // slip__resident_state_e
  uint32_t references;  // registrations, plus prepares that wait or have not committed yet
  slip_status_t failure;
  slip_module_t module;
  const slip_object_t *object;
  uint32_t scratch_bytes;  // most that one of its kernels asks for
} slip__resident_t;

typedef struct slip__registration_t {
  slip__gate_t gate;
  // Immutable while the gate is open or somebody is inside.
  const slip_object_t *object;
  uint64_t signature_hash;
  uint32_t tensor_count;
  uint32_t scalar_count;
  uint32_t argument_class;
  slip__run_site_t site;  // the engine's
  // Under the registry's lock.
  uint32_t used;
  slip_signature_t *signature;
  slip__resident_t *resident;
  struct slip__registration_t *next_closed;
} slip__registration_t;

typedef struct slip__registry_t {
  _Atomic(slip__registration_t *) *places;
  uint32_t place_mask;
  _Atomic uint32_t sweep_wanted;  // 1: the last user of a closed registration has left
  pthread_mutex_t lock;
  pthread_cond_t loaded;  // some resident left LOADING
  uint64_t next_id;
  uint32_t callables;  // OPEN, plus prepares that hold a place in the count
  uint64_t resident_bytes;
  slip__resident_t *residents;
  slip__registration_t *closed;
  slip__arguments_t arguments;
} slip__registry_t;

// OUT_OF_MEMORY. On failure nothing is left.
slip_status_t slip__registry_initialize(slip_context_t *context) SLIP_MUST_USE;
// With the context's memory, not at close: a launch that saw READY just before close may still be about to look at a gate, and must find
// it shut. Safe on a registry that was never initialised.
void slip__registry_deinitialize(slip_context_t *context);

slip_status_t slip__registry_prepare(slip_context_t *context, const slip_image_view_t *view, int32_t *out_id) SLIP_MUST_USE;
// NOT_PREPARED; or the failure of an unload (the id is dead all the same).
slip_status_t slip__registry_release(slip_context_t *context, int32_t id) SLIP_MUST_USE;
// Enters |id|'s gate: the registration stays as it is until slip__registry_leave(). NULL: not prepared. No lock.
static inline slip__registration_t *slip__registry_enter(slip__registry_t *registry, int32_t id) {
  if (__builtin_expect(id < 0, 0)) return NULL;
  // Acquire: pairs with the release of prepare, so that a fresh registration's gate is initialised.
  slip__registration_t *registration = atomic_load_explicit(&registry->places[(uint32_t)id & registry->place_mask], memory_order_acquire);
  if (__builtin_expect(!registration || !slip__gate_enter(&registration->gate, (uint32_t)id), 0)) return NULL;
  return registration;
}
static inline void slip__registry_leave(slip__registry_t *registry, slip__registration_t *registration) {
  // An exchange, as the sweeper's is: if the sweeper's comes later it sees that nobody is inside, else |sweep_wanted| stays 1.
  if (__builtin_expect(slip__gate_leave(&registration->gate), 0))
    (void)atomic_exchange_explicit(&registry->sweep_wanted, 1, memory_order_acq_rel);
}
// Gives back closed registrations that nobody uses and unloads what they leave behind. The first failure; the rest is done all the same.
// Blocks on the platform.
slip_status_t slip__registry_sweep(slip_context_t *context) SLIP_MUST_USE;
// Close: shuts all gates. Afterwards slip__registry_users() only falls.
void slip__registry_shut(slip_context_t *context);
uint64_t slip__registry_users(slip_context_t *context);

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_REGISTRY_H_
