// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/registry.h"

#include <inttypes.h>
#include <string.h>

#include "base/allocator.h"
#include "kernel_mode/context.h"
#include "kernel_mode/resident.h"

slip_status_t slip__registry_initialize(slip_context_t *context) {
  slip__registry_t *registry = &context->registry;
  uint32_t size = 2;
  while (size < 2 * context->options.max_callables) size *= 2;
  void *places = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc_array(context->allocator, size, sizeof(*registry->places), &places));
  registry->places = places;
  registry->place_mask = size - 1;
  pthread_mutex_init(&registry->lock, NULL);
  pthread_cond_init(&registry->loaded, NULL);
  pthread_mutex_init(&registry->arguments.lock, NULL);
  return slip_ok_status();
}

void slip__registry_deinitialize(slip_context_t *context) {
  slip__registry_t *registry = &context->registry;
  if (!registry->places) return;
  for (uint32_t i = 0; i <= registry->place_mask; ++i) {
    slip__registration_t *registration = atomic_load_explicit(&registry->places[i], memory_order_relaxed);
    slip__free_aligned(context->allocator, registration, sizeof(*registration), 64);
  }
  slip__free(context->allocator, registry->places, (registry->place_mask + (size_t)1) * sizeof(*registry->places));
  registry->places = NULL;
  pthread_mutex_destroy(&registry->arguments.lock);
  pthread_cond_destroy(&registry->loaded);
  pthread_mutex_destroy(&registry->lock);
}

// --- residents ---------------------------------------------------------------------------------------------------------------------------

static slip__resident_t *slip__registry_find(slip__registry_t *registry, const slip_image_view_t *view) {
  for (slip__resident_t *r = registry->residents; r; r = r->next) {
    bool usable = r->state == SLIP__RESIDENT_LOADING || r->state == SLIP__RESIDENT_LOADED;
    if (usable && r->bytes == view->bytes.size && memcmp(r->content_hash, view->content_hash, sizeof(r->content_hash)) == 0) return r;
  }
  return NULL;
}

static void slip__registry_unlink(slip__registry_t *registry, slip__resident_t *resident) {
  slip__resident_t **link = &registry->residents;
  while (*link != resident) link = &(*link)->next;
  *link = resident->next;
  registry->resident_bytes -= resident->bytes;
}

// Lock held. True if the caller must unload |resident| after unlocking.
static bool slip__registry_drop(slip_context_t *context, slip__resident_t *resident) {
  if (--resident->references > 0) return false;
  if (resident->state == SLIP__RESIDENT_LOADED) {
    resident->state = SLIP__RESIDENT_UNLOADING;
    return true;
  }
  slip_status_free(resident->failure);
  resident->failure = NULL;
  if (resident->module) {  // a failed load whose unload failed too
    resident->state = SLIP__RESIDENT_OWED;
  } else {
    slip__registry_unlink(&context->registry, resident);
    slip__free(context->allocator, resident, sizeof(*resident));
  }
  return false;
}

// Lock not held; |resident| is UNLOADING, hence ours alone.
static slip_status_t slip__registry_unload(slip_context_t *context, slip__resident_t *resident) {
  slip__registry_t *registry = &context->registry;
  slip_status_t status = slip__resident_unload(context, resident);
  pthread_mutex_lock(&registry->lock);
  if (slip_status_is_ok(status)) {
    slip__registry_unlink(registry, resident);
  } else {
    resident->state = SLIP__RESIDENT_OWED;
    status = slip_status_annotate(status, "%" PRIu64 " bytes stay resident until a later release or close succeeds in unloading them",
                                  resident->bytes);
  }
  pthread_mutex_unlock(&registry->lock);
  if (slip_status_is_ok(status)) slip__free(context->allocator, resident, sizeof(*resident));
  return status;
}

static slip_status_t slip__registry_check_room(const slip_context_t *context, const slip_image_view_t *view, bool resident) {
  const slip__registry_t *registry = &context->registry;
  const slip_context_options_t *options = &context->options;
  uint64_t bytes = view->bytes.size;
  if (bytes > options->max_image_bytes || bytes > options->max_resident_bytes) {
    return SLIP_STATUS(SLIP_CODE_CAPACITY_IMAGE,
                       "the image has %" PRIu64 " bytes, but max_image_bytes is %" PRIu64 " and max_resident_bytes %" PRIu64
                       "; open with more",
                       bytes, options->max_image_bytes, options->max_resident_bytes);
  }
  if (registry->callables >= options->max_callables) {
    return SLIP_STATUS(SLIP_CODE_CAPACITY_COUNT,
                       "%" PRIu32 " callables are prepared, which is max_callables; release some or open with more", registry->callables);
  }
  if (!resident && registry->resident_bytes > options->max_resident_bytes - bytes) {
    return SLIP_STATUS(SLIP_CODE_CAPACITY_BYTES,
                       "%" PRIu64 " bytes are resident and the image needs %" PRIu64 " more, but max_resident_bytes is %" PRIu64
                       "; release callables or open with more",
                       registry->resident_bytes, bytes, options->max_resident_bytes);
  }
  return slip_ok_status();
}

// Finds or makes the resident of |view|, with a reference and a place in the count for the caller. |*out_owner|: the caller must load it.
static slip_status_t slip__registry_reserve(slip_context_t *context, const slip_image_view_t *view, slip__resident_t **out,
                                            bool *out_owner) {
  slip__registry_t *registry = &context->registry;
  void *memory = NULL;
  *out = NULL;
  *out_owner = false;
  SLIP_RETURN_IF_ERROR(slip__alloc(context->allocator, sizeof(slip__resident_t), &memory));
  slip__resident_t *fresh = memory;
  pthread_mutex_lock(&registry->lock);
  slip__resident_t *resident = slip__registry_find(registry, view);
  slip_status_t status = slip__registry_check_room(context, view, resident != NULL);
  if (slip_status_is_ok(status)) {
    if (!resident) {
      resident = fresh;
      fresh = NULL;
      memcpy(resident->content_hash, view->content_hash, sizeof(resident->content_hash));
      resident->bytes = view->bytes.size;
      resident->state = SLIP__RESIDENT_LOADING;
      resident->next = registry->residents;
      registry->residents = resident;
      registry->resident_bytes += resident->bytes;
      *out_owner = true;
    }
    ++resident->references;
    ++registry->callables;
    *out = resident;
  }
  pthread_mutex_unlock(&registry->lock);
  slip__free(context->allocator, fresh, sizeof(*fresh));
  return status;
}

static slip_status_t slip__registry_obtain(slip_context_t *context, const slip_image_view_t *view, slip__resident_t *resident, bool owner) {
  slip__registry_t *registry = &context->registry;
  slip_status_t status = slip_ok_status();
  if (owner) status = slip__resident_load(context, view, resident);
  pthread_mutex_lock(&registry->lock);
  if (owner) {
    resident->state = slip_status_is_ok(status) ? SLIP__RESIDENT_LOADED : SLIP__RESIDENT_FAILED;
    resident->failure = slip_status_clone(status);
    pthread_cond_broadcast(&registry->loaded);
  } else {
    while (resident->state == SLIP__RESIDENT_LOADING) pthread_cond_wait(&registry->loaded, &registry->lock);
    if (resident->state == SLIP__RESIDENT_FAILED) status = slip_status_clone(resident->failure);
  }
  pthread_mutex_unlock(&registry->lock);
  return status;
}

// --- registrations -----------------------------------------------------------------------------------------------------------------------

// Lock held. The engine's scratch may only grow while no run can use it; nothing is waited for (30.4).
static slip_status_t slip__registry_fit_scratch(slip_context_t *context, uint32_t bytes) {
  if (bytes <= context->scratch_bytes) return slip_ok_status();
  if (!slip__slot_acquire_all(context)) {
    return SLIP_STATUS(SLIP_CODE_BUSY,
                       "the image's kernels need %" PRIu32 " bytes of scratch, more than the %" PRIu32
                       " reserved, and launches are running; drain the context and prepare again",
                       bytes, context->scratch_bytes);
  }
  slip_status_t status = slip__engine_reserve_scratch(context->engine, bytes);
  if (slip_status_is_ok(status)) context->scratch_bytes = bytes;
  slip__slot_release_all(context);
  return status;
}

// Lock held. The free place with the lowest id that was not used yet.
static slip_status_t slip__registry_find_place(slip_context_t *context, uint64_t *out_id, slip__registration_t **out) {
  slip__registry_t *registry = &context->registry;
  for (uint64_t id = registry->next_id; id <= registry->next_id + registry->place_mask; ++id) {
    _Atomic(slip__registration_t *) *place = &registry->places[id & registry->place_mask];
    slip__registration_t *registration = atomic_load_explicit(place, memory_order_relaxed);
    if (id > INT32_MAX) return SLIP_STATUS(SLIP_CODE_CAPACITY_COUNT, "all ids of this context are used up; close it and open a new one");
    if (registration && registration->used) continue;
    if (!registration) {
      void *memory = NULL;
      SLIP_RETURN_IF_ERROR(slip__alloc_aligned(context->allocator, sizeof(*registration), 64, &memory));
      registration = memory;
      atomic_init(&registration->gate, SLIP__GATE_SHUT);
      atomic_store_explicit(place, registration, memory_order_release);
    }
    *out_id = id;
    *out = registration;
    return slip_ok_status();
  }
  return SLIP_STATUS(SLIP_CODE_BUSY,
                     "all %" PRIu32
                     " places are held by released callables whose launches have not retired; drain the context and prepare again",
                     registry->place_mask + 1);
}

// The last step: cannot fail once a place is found. Consumes the references to |signature| and |resident| on success.
static slip_status_t slip__registry_commit(slip_context_t *context, slip__resident_t *resident, slip_signature_t *signature,
                                           int32_t *out_id) {
  slip__registry_t *registry = &context->registry;
  uint32_t tensors = (uint32_t)slip_signature_tensor_count(signature), scalars = (uint32_t)slip_signature_scalar_count(signature),
           class = slip__arguments_class(tensors, scalars);
  slip__registration_t *registration = NULL;
  uint64_t id = 0;
  SLIP_RETURN_IF_ERROR(slip__arguments_fit(context, class));
  pthread_mutex_lock(&registry->lock);
  slip_status_t status = slip__registry_fit_scratch(context, resident->scratch_bytes);
  if (slip_status_is_ok(status)) status = slip__registry_find_place(context, &id, &registration);
  if (slip_status_is_ok(status)) {
    registration->used = 1;
    registration->object = resident->object;
    registration->signature_hash = slip_signature_hash(signature);
    registration->site.id = id;
    atomic_store_explicit(&registration->site.worth, 0, memory_order_relaxed);
    registration->tensor_count = tensors;
    registration->scalar_count = scalars;
    registration->argument_class = class;
    registration->signature = signature;
    registration->resident = resident;
    registry->next_id = id + 1;
    *out_id = (int32_t)id;
    slip__gate_open(&registration->gate, (uint32_t)id);
  }
  pthread_mutex_unlock(&registry->lock);
  return status;
}

static slip_status_t slip__registry_abandon(slip_context_t *context, slip__resident_t *resident) {
  slip__registry_t *registry = &context->registry;
  pthread_mutex_lock(&registry->lock);
  --registry->callables;
  bool unload = slip__registry_drop(context, resident);
  pthread_mutex_unlock(&registry->lock);
  return unload ? slip__registry_unload(context, resident) : slip_ok_status();
}

slip_status_t slip__registry_prepare(slip_context_t *context, const slip_image_view_t *view, int32_t *out_id) {
  slip_signature_t *signature = NULL;
  slip__resident_t *resident = NULL;
  bool owner = false;
  SLIP_RETURN_IF_ERROR(slip__registry_reserve(context, view, &resident, &owner));
  slip_status_t status = slip__registry_obtain(context, view, resident, owner);
  if (slip_status_is_ok(status)) status = slip_image_entry_signature(view, 0, context->allocator, &signature);
  if (slip_status_is_ok(status)) status = slip_signature_check_capacity(signature);
  if (slip_status_is_ok(status)) status = slip__registry_commit(context, resident, signature, out_id);
  if (!slip_status_is_ok(status)) {
    slip_signature_release(signature);
    status = slip_status_join(status, slip__registry_abandon(context, resident));
  }
  return status;
}

// --- the end of registrations ------------------------------------------------------------------------------------------------------------

// Lock held. False if |id| is not open.
static bool slip__registry_close_gate(slip__registry_t *registry, slip__registration_t *registration, uint32_t id) {
  bool last = false;
  if (!slip__gate_close(&registration->gate, id, &last)) return false;
  registration->next_closed = registry->closed;
  registry->closed = registration;
  --registry->callables;
  return true;
}

// Lock held. Takes apart what nobody uses any more; returns the residents to unload.
static slip__resident_t *slip__registry_collect(slip_context_t *context) {
  slip__registry_t *registry = &context->registry;
  slip__resident_t *list = NULL;
  for (slip__resident_t *r = registry->residents; r; r = r->next) {
    if (r->state != SLIP__RESIDENT_OWED) continue;
    r->state = SLIP__RESIDENT_UNLOADING;
    r->next_unload = list;
    list = r;
  }
  for (slip__registration_t **link = &registry->closed; *link;) {
    slip__registration_t *registration = *link;
    if (slip__gate_inside(&registration->gate) > 0) {
      link = &registration->next_closed;
      continue;
    }
    *link = registration->next_closed;
    slip__resident_t *resident = registration->resident;
    slip_signature_release(registration->signature);
    registration->signature = NULL;
    registration->resident = NULL;
    registration->object = NULL;
    registration->used = 0;
    if (slip__registry_drop(context, resident)) {
      resident->next_unload = list;
      list = resident;
    }
  }
  return list;
}

slip_status_t slip__registry_sweep(slip_context_t *context) {
  slip__registry_t *registry = &context->registry;
  slip_status_t status = slip_ok_status();
  pthread_mutex_lock(&registry->lock);
  // An exchange and no store: that could reach memory after the look at the gates, and wipe out the request of a user who left in between.
  (void)atomic_exchange_explicit(&registry->sweep_wanted, 0, memory_order_acq_rel);
  slip__resident_t *list = slip__registry_collect(context);
  pthread_mutex_unlock(&registry->lock);
  while (list) {
    slip__resident_t *resident = list;
    list = list->next_unload;
    status = slip_status_join(status, slip__registry_unload(context, resident));
  }
  return status;
}

slip_status_t slip__registry_release(slip_context_t *context, int32_t id) {
  slip__registry_t *registry = &context->registry;
  pthread_mutex_lock(&registry->lock);
  slip__registration_t *registration =
      id < 0 ? NULL : atomic_load_explicit(&registry->places[(uint32_t)id & registry->place_mask], memory_order_relaxed);
  bool closed = registration && slip__registry_close_gate(registry, registration, (uint32_t)id);
  pthread_mutex_unlock(&registry->lock);
  if (!closed) return SLIP_STATUS(SLIP_CODE_NOT_PREPARED, "callable id %" PRId32 " is unknown, released or of another context", id);
  return slip__registry_sweep(context);
}

void slip__registry_shut(slip_context_t *context) {
  slip__registry_t *registry = &context->registry;
  pthread_mutex_lock(&registry->lock);
  for (uint32_t i = 0; i <= registry->place_mask; ++i) {
    slip__registration_t *registration = atomic_load_explicit(&registry->places[i], memory_order_relaxed);
    if (!registration) continue;
    uint64_t word = atomic_load_explicit(&registration->gate, memory_order_relaxed);
    (void)slip__registry_close_gate(registry, registration, (uint32_t)(word >> 32));  // false: closed before
  }
  pthread_mutex_unlock(&registry->lock);
}

uint64_t slip__registry_users(slip_context_t *context) {
  slip__registry_t *registry = &context->registry;
  uint64_t users = 0;
  pthread_mutex_lock(&registry->lock);
  for (slip__registration_t *r = registry->closed; r; r = r->next_closed) users += slip__gate_inside(&r->gate);
  pthread_mutex_unlock(&registry->lock);
  return users;
}
