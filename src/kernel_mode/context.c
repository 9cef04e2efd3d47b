// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/context.h"

#include <inttypes.h>

#include "base/allocator.h"
#include "kernel_mode/latch.h"
#include "kernel_mode/open.h"
#include "kernel_mode/ticket.h"
#include "platform/dispatch.h"

// The outermost context that the thread is in, and how often: a hook may come back to the same one.
static _Thread_local const slip_context_t *slip__inside;
static _Thread_local uint32_t slip__inside_depth;

static const char *slip__context_state_name(slip_context_state_e state) {
  static const char *const names[] = {"UNINITIALIZED", "INITIALIZING", "READY", "FAILED", "CLOSING", "CLOSED"};
  return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

slip_status_t slip__context_refuse_state(const slip_context_t *context, const char *what) {
  return SLIP_STATUS(SLIP_CODE_INVALID_STATE, "%s needs a READY context, but that of %s:%d is %s", what, context->platform_name,
                     context->device.ordinal, slip__context_state_name(slip__context_state(context)));
}

slip_status_t slip__context_refuse_poisoned(const slip_context_t *context, const char *what) {
  slip_status_t first = slip_status_clone(atomic_load_explicit(&context->poison, memory_order_acquire));
  return slip_status_join(
      SLIP_STATUS(SLIP_CODE_POISONED, "%s on a context that an earlier error made unusable; only close works (the first error follows)",
                  what),
      first);
}

void slip__context_poison(slip_context_t *context, slip_status_t status) {
  slip_status_t none = NULL;
  // Release: the status is complete; pairs with the acquire of whoever clones it.
  if (!atomic_compare_exchange_strong_explicit(&context->poison, &none, status, memory_order_acq_rel, memory_order_relaxed))
    slip_status_free(status);
}

slip_status_t slip__context_require_ready(const slip_context_t *context, const char *what) {
  SLIP_RETURN_IF_ERROR(slip__latch_check(what));
  if (!context) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "context is NULL, expected one that slip_context_open has given");
  if (slip__context_state(context) != SLIP_CONTEXT_READY) return slip__context_refuse_state(context, what);
  if (atomic_load_explicit(&context->poison, memory_order_acquire)) return slip__context_refuse_poisoned(context, what);
  return slip_ok_status();
}

void slip__context_inside_begin(const slip_context_t *context) {
  if (!slip__inside) slip__inside = context;
  if (slip__inside == context) ++slip__inside_depth;
}

void slip__context_inside_end(const slip_context_t *context) {
  if (slip__inside == context && --slip__inside_depth == 0) slip__inside = NULL;
}

// The device whose unbinding failed on this thread; NULL: none is owed.
static _Thread_local const slip_platform_t *slip__bound_platform;
static _Thread_local int32_t slip__bound_device;

bool slip__context_bound(const slip_context_t *context) {
  return slip__bound_platform == context->platform && slip__bound_device == context->device.ordinal;
}

slip_status_t slip__context_bind(const slip_context_t *context) {
  if (!slip__context_bound(context)) return slip__platform_device_push(context->platform, context->device.ordinal);
  // Still the current one? The thread's owner may have bound another on top.
  int32_t current = -1;
  SLIP_RETURN_IF_ERROR(slip__platform_device_current(context->platform, &current));
  if (current != context->device.ordinal) return slip__platform_device_push(context->platform, context->device.ordinal);
  slip__bound_platform = NULL;
  return slip_ok_status();
}

slip_status_t slip__context_unbind(const slip_context_t *context) {
  slip_status_t status = slip__platform_device_pop(context->platform, context->device.ordinal);
  if (!slip_status_is_ok(status)) {
    slip__bound_platform = context->platform;
    slip__bound_device = context->device.ordinal;
  } else if (slip__context_bound(context)) {
    slip__bound_platform = NULL;
  }
  return status;
}

slip_status_t slip__context_given_back(slip_context_t *context, slip_status_t status) {
  slip_status_t none = NULL;
  int32_t current = -1;
  if (slip_status_code(status) != SLIP_CODE_INVALID_ARGUMENT) return status;
  // With another device current the answer says nothing of the handle, and the handle is kept.
  slip_status_t asked = slip__platform_device_current(context->platform, &current);
  bool here = slip_status_is_ok(asked) && current == context->device.ordinal;
  slip_status_free(asked);
  if (!here) return status;
  atomic_fetch_add_explicit(&context->stale, 1, memory_order_relaxed);
  // Release: pairs with the acquire of close, which tells.
  if (!atomic_compare_exchange_strong_explicit(&context->staled, &none, status, memory_order_acq_rel, memory_order_relaxed))
    slip_status_free(status);
  return slip_ok_status();
}

slip_status_t slip__context_refuse_capture(slip_platform_t *platform, const char *what) {
  slip_capture_info_t capture;
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip__platform_thread_capture_info(platform, &capture), "asking for captures before %s", what);
  if (capture.state == SLIP_CAPTURE_NONE) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_CAPTURE_UNSUPPORTED,
                     "%s while a stream is capturing (capture %" PRIu64
                     ", %s) in a way that forbids it on this thread; nothing was done: %s",
                     what, capture.id, capture.state == SLIP_CAPTURE_ACTIVE ? "active" : "invalidated",
                     capture.state == SLIP_CAPTURE_ACTIVE ? "end the capture first, or do it before the capture begins"
                                                          : "end the capture, which an earlier call broke, first");
}

slip_status_t slip__context_enter(slip_context_t *context, const char *what) {
  SLIP_RETURN_IF_ERROR(slip__context_require_ready(context, what));
  if (!slip__gate_enter(&context->operations, SLIP__OPERATIONS_ID)) return slip__context_refuse_state(context, what);
  slip__context_inside_begin(context);
  return slip_ok_status();
}

slip_status_t slip__context_enter_outside_capture(slip_context_t *context, const char *what) {
  SLIP_RETURN_IF_ERROR(slip__context_enter(context, what));
  slip_status_t status = slip__context_refuse_capture(context->platform, what);
  if (!slip_status_is_ok(status)) slip__context_leave(context);
  return status;
}

void slip__context_leave(slip_context_t *context) {
  slip__context_inside_end(context);
  // seq_cst by the fence: close changes the gate, then sleeps on |signal|.
  if (slip__gate_leave(&context->operations)) {
    atomic_thread_fence(memory_order_seq_cst);
    slip__signal_raise(&context->signal);
  }
}

const slip_context_t *slip__context_inside(void) {
  return slip__inside;
}

// --- memory
// --------------------------------------------------------------------------------------------------------------------------------

void slip__context_shell_release(slip_context_t *context) {
  if (atomic_fetch_sub_explicit(&context->shell, 1, memory_order_acq_rel) != 1) return;
  slip_allocator_t allocator = context->allocator;
  slip__pool_deinitialize(&context->tickets, allocator);
  slip__registry_deinitialize(context);
  if (context->locks_made) {
    pthread_mutex_destroy(&context->drain_lock);
    pthread_mutex_destroy(&context->lane_lock);
    pthread_cond_destroy(&context->lane_idle);
  }
  if (context->output_directory) slip__free(allocator, context->output_directory, __builtin_strlen(context->output_directory) + 1);
  slip_status_free(context->result);
  slip_status_free(atomic_load_explicit(&context->poison, memory_order_relaxed));
  slip_status_free(atomic_load_explicit(&context->staled, memory_order_relaxed));
  slip__free_aligned(allocator, context, sizeof(*context), _Alignof(slip_context_t));
}

slip_status_t slip_context_destroy(slip_context_t *context) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("slip_context_destroy"));
  if (!context) return slip_ok_status();
  slip__contexts_lock();
  slip_context_state_e state = slip__context_state(context);
  bool last = context->references == 1, refused = last && state != SLIP_CONTEXT_CLOSED;
  if (!refused) --context->references;
  slip__contexts_unlock();
  if (refused) {
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE,
                       "the last reference to the context of %s:%d is given back while it is %s; close it first (nothing was freed)",
                       context->platform_name, context->device.ordinal, slip__context_state_name(state));
  }
  if (last) slip__context_shell_release(context);
  return slip_ok_status();
}

// --- facts
// ---------------------------------------------------------------------------------------------------------------------------------

slip_context_state_e slip_context_state(const slip_context_t *context) {
  return context ? slip__context_state(context) : SLIP_CONTEXT_UNINITIALIZED;
}

bool slip_context_initialized(const slip_context_t *context) {
  return context && !slip__latch_forked() && slip__context_state(context) == SLIP_CONTEXT_READY;
}

uint64_t slip_context_generation(const slip_context_t *context) {
  return context ? context->generation : 0;
}

slip_device_t slip_context_device(const slip_context_t *context) {
  slip_device_t none = {SLIP_PLATFORM_NONE, 0};
  return context ? context->device : none;
}

// --- operations
// ----------------------------------------------------------------------------------------------------------------------------

// The simulator executes host-native code, so that every artifact of the cpu can be tried on it as it is.
static bool slip__context_takes_platform(const slip_context_t *context, const slip_image_view_t *view) {
  if (view->platform == context->device.platform) return true;
  return context->device.platform == SLIP_PLATFORM_SIM && view->platform == SLIP_PLATFORM_CPU &&
         view->runtime_kind == SLIP_RUNTIME_HOST_NATIVE;
}

// Before anything else happens: is this image for here?
static slip_status_t slip__context_check_image(slip_context_t *context, const slip_image_view_t *view) {
  if (view->contract != (context->program ? SLIP_CONTRACT_PROGRAM : SLIP_CONTRACT_KERNEL)) {
    const char *wanted = context->program ? "program" : "kernel", *came = context->program ? "kernel" : "program";
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE,
                       "the image was compiled for the %s contract (%" PRIu32 "), expected the %s contract; recompile it for %s mode", came,
                       view->contract, wanted, wanted);
  }
  if (!slip__context_takes_platform(context, view)) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE,
                       "the image is for platform \"%s\", but the context is open on \"%s\"; recompile it for that platform",
                       slip_platform_name(view->platform), context->platform_name);
  }
  if (view->runtime_kind != context->options.runtime_kind) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "the image has runtime kind %" PRIu32 ", but the context runs %" PRIu32 "; recompile it",
                       view->runtime_kind, context->options.runtime_kind);
  }
  const char *only = context->options.target;
  if (only ? __builtin_strcmp(only, view->target) != 0
           : !slip_platform_target_supported(context->platform, context->device.ordinal, view->target)) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "the image is for target \"%s\", which %s; recompile it for a target that does run",
                       view->target, only ? "is not the one that the context was opened for" : "this device does not run");
  }
  if (view->entry_count != 1) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "the image has %" PRIu32 " entries, but a %s-mode callable has one; compile one entry",
                       view->entry_count, context->program ? "program" : "kernel");
  }
  return slip_ok_status();
}

slip_status_t slip_context_prepare(slip_context_t *context, slip_const_bytes_t image, int32_t *out_id) {
  if (out_id) *out_id = -1;
  SLIP_RETURN_IF_ERROR(slip__latch_check("prepare"));
  if (!out_id) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out_id is NULL, expected where to put the id");
  SLIP_RETURN_IF_ERROR(slip__context_enter_outside_capture(context, "prepare"));
  slip_image_view_t view;
  slip_status_t status = slip_image_open(image, &view);
  if (slip_status_is_ok(status)) status = slip__context_check_image(context, &view);
  if (slip_status_is_ok(status)) SLIP__CONTEXT_BOUND(status, context, slip__registry_prepare(context, &view, out_id));
  if (!slip_status_is_ok(status) && *out_id >= 0) {  // the device binding could not be undone
    status = slip_status_join(status, slip__registry_release(context, *out_id));
    *out_id = -1;
  }
  slip__context_leave(context);
  return slip_status_annotate(status, "preparing for %s:%d", context->platform_name, context->device.ordinal);
}

slip_status_t slip_context_prepare_artifact(slip_context_t *context, slip_artifact_t *artifact, int32_t *out_id) {
  slip_const_bytes_t image = {NULL, 0};
  if (out_id) *out_id = -1;
  SLIP_RETURN_IF_ERROR(slip__latch_check("prepare"));
  if (!out_id) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out_id is NULL, expected where to put the id");
  SLIP_RETURN_IF_ERROR(slip__context_enter_outside_capture(context, "prepare"));
  slip__context_leave(context);
  if (!artifact) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "artifact is NULL, expected one that slip_artifact_open() has given");
  if (slip_artifact_contract(artifact) != SLIP_CONTRACT_KERNEL) {  // told from the metadata, before the image is even read
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE,
                       "artifact \"%s\" was compiled for the program contract, expected the kernel contract; recompile it",
                       slip_artifact_name(artifact));
  }
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_artifact_image(artifact, &image), "preparing artifact \"%s\"", slip_artifact_name(artifact));
  return slip_status_annotate(slip_context_prepare(context, image, out_id), "preparing artifact \"%s\"", slip_artifact_name(artifact));
}

slip_status_t slip_context_release(slip_context_t *context, int32_t id) {
  SLIP_RETURN_IF_ERROR(slip__context_enter_outside_capture(context, "release"));
  slip_status_t status = slip_ok_status();
  (void)slip__tickets_reap(context);  // launches that have finished must not keep the callable resident
  SLIP__CONTEXT_BOUND(status, context, slip__registry_release(context, id));
  slip__context_leave(context);
  return status;
}

slip_status_t slip_context_signature(slip_context_t *context, int32_t id, slip_signature_t **out) {
  if (out) *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__latch_check("signature"));
  if (!out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out is NULL, expected where to put the signature");
  SLIP_RETURN_IF_ERROR(slip__context_enter(context, "signature"));
  slip_status_t status = slip_ok_status();
  slip__registration_t *registration = slip__registry_enter(&context->registry, id);
  if (registration) {
    slip_signature_retain(registration->signature);
    *out = registration->signature;
    slip__registry_leave(&context->registry, registration);
  } else {
    status = SLIP_STATUS(SLIP_CODE_NOT_PREPARED, "callable id %" PRId32 " is unknown, released or of another context", id);
  }
  slip__context_leave(context);
  return status;
}

slip_status_t slip_context_drain(slip_context_t *context) {
  if (context && slip__context_inside() == context && !slip__latch_forked())
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE, "drain was called from inside another call on the same context; return from it first");
  SLIP_RETURN_IF_ERROR(slip__context_enter_outside_capture(context, "drain"));
  slip_status_t status = slip_ok_status();
  if (context->options.synchronize_hook)
    status = slip_status_annotate(context->options.synchronize_hook(context->options.synchronize_user), "in the synchronize hook");
  if (slip_status_is_ok(status)) {
    status = slip__tickets_drain(context);
  }
  if (slip_status_is_ok(status)) {
    // Asked again: what another thread has begun to capture meanwhile, unloading would break. It is owed then.
    status = slip__context_refuse_capture(context->platform, "drain");
    if (slip_status_code(status) == SLIP_CODE_CAPTURE_UNSUPPORTED) {
      slip_status_free(status);
      status = slip_ok_status();
    } else if (slip_status_is_ok(status)) {
      SLIP__CONTEXT_BOUND(status, context, slip__registry_sweep(context));
    }
  }
  slip__context_leave(context);
  return status;
}
