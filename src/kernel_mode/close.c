// SPDX-License-Identifier: Apache-2.0
// Close (30.8): stages in a fixed order, each remembered by |close_stage|.
//
// Before the first stage, while the context is READY, the adapter's synchronize hook hands over what the framework still has in its own
// queue. If it fails, nothing has begun and the context stays READY; except that a poisoned context, whose launches are refused anyway, is
// closed all the same.
//
//   stage      does                                                   fails by   afterwards
//   ADMISSION  state CLOSING; shuts the operations' gate              -          launch, prepare, release, drain are refused
//   DRAIN      shuts the callables' gates, waits for all inside       graphs,    no thread uses what follows; owners are released
//                                                                     device
//   CALLABLES  unloads the residents, owed ones too                   unload     no code is loaded
//   LANES      waits for and destroys the streams and events          platform   nothing of ours is enqueued
//   ENGINE     workspaces, then workers                               -          no thread of ours runs
//   DEVICE     argument blocks, the platform's memory                 free       nothing of the platform is held
//   HOST       slots                                                  -          only the shell is left, with all gates shut
//
// DRAIN is BUSY while graphs, or replays of destroyed ones, hold captured launches: nobody but their owner can end them. Admission stays
// shut meanwhile.
//
// A failed stage keeps what it could not give back, and the stages after it, which may need it, do not run; the next close begins with it.
// A failed open runs the same stages over what it had made: each skips what is not there.
//
// Device errors change nothing here: there is no reset to try, the device is not ours. On a broken device the frees fail, so that each
// close returns DEVICE and the context stays CLOSING until the process ends (open.c reports it and leaves it to the system). If somebody
// else resets the device, our handles are gone: the platform answers INVALID_ARGUMENT to each, which counts as given back (there is nothing
// to keep or to try again), close ends with the context CLOSED and tells once, as DEVICE.
#include <inttypes.h>

#include "base/allocator.h"
#include "kernel_mode/context.h"
#include "kernel_mode/lane.h"
#include "kernel_mode/latch.h"
#include "kernel_mode/ticket.h"
#include "os/thread.h"
#include "platform/dispatch.h"

static slip_status_t slip__close_admission(slip_context_t *context) {
  bool last = false;
  (void)slip__gate_close(&context->operations, SLIP__OPERATIONS_ID, &last);
  // Launches that wait for room look at the state again when woken.
  atomic_thread_fence(memory_order_seq_cst);
  slip__signal_raise(&context->signal);
  return slip_ok_status();
}

// The gates are shut, so that once nobody but captured and abandoned launches is inside, every thread has left launch, and |pending| can
// only fall. The order matters (capture.pml): the abandoned before the users, since a launch that is inside and becomes abandoned in
// between would count as its own excuse while it is still on its way to the list of the abandoned; |pending| after both, which falls when
// it is on the list; the captured last, since a launch in a capture may leave its gate early and stay captured. |*out_captured| is what was
// compared.
static bool slip__close_quiet(slip_context_t *context, uint32_t *out_captured) {
  uint32_t abandoned = atomic_load_explicit(&context->abandoned_count, memory_order_seq_cst);
  uint64_t users = slip__registry_users(context);
  if (slip__gate_inside(&context->operations) != 0 || atomic_load_explicit(&context->pending, memory_order_seq_cst) != 0) return false;
  *out_captured = atomic_load_explicit(&context->captured, memory_order_seq_cst);
  // Step 9 may have run and its ticket be retired while the launching thread is still at the steps behind it: a lane is idle last.
  // Recordings that their owners gave up, kept by captured or abandoned launches: read after the users, since it falls before they do.
  uint64_t kept = atomic_load_explicit(&context->graph_nodes, memory_order_seq_cst);
  return users <= abandoned + kept + *out_captured && slip__lanes_idle(context);
}

static slip_status_t slip__close_wait_quiet(slip_context_t *context, uint32_t *out_captured) {
  enum {
    POLL_NS = 100000,
    ASK = 500
  };  // inline launches leave their gate without raising the signal, which would cost each of them a load
  slip_status_t status = slip_ok_status();
  uint32_t key = slip__signal_enter(&context->signal);
  // Operations first: a prepare that is inside may still open a gate.
  while (slip__gate_inside(&context->operations) > 0) (void)slip__signal_sleep(&context->signal, &key, POLL_NS);
  slip__registry_shut(context);
  // Only falls: making one is an operation. Their replays are not waited for either, which may go on while a graph lives.
  uint32_t graphs = atomic_load_explicit(&context->graphs, memory_order_acquire);
  if (graphs > 0) {
    status =
        SLIP_STATUS(SLIP_CODE_BUSY, "%" PRIu32 " recorded graph%s of the context %s alive; slip_graph_destroy() each, then close again",
                    graphs, graphs == 1 ? "" : "s", graphs == 1 ? "is" : "are");
  }
  for (uint32_t round = 1; slip_status_is_ok(status); ++round) {
    (void)slip__tickets_reap(context);
    if (slip__close_quiet(context, out_captured)) break;
    if (round % ASK == 0) status = slip__lanes_ask_bound(context);
    (void)slip__signal_sleep(&context->signal, &key, POLL_NS);
  }
  slip__signal_leave(&context->signal);
  return status;
}

// What no host function will finish (lane.h).
static slip_status_t slip__close_abandoned(slip_context_t *context) {
  if (atomic_load_explicit(&context->abandoned_count, memory_order_seq_cst) == 0) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__lanes_synchronize(context));
  slip__tickets_retire_abandoned(context);
  return slip_ok_status();
}

static slip_status_t slip__close_drain(slip_context_t *context) {
  if (!context->registry.places) return slip_ok_status();
  uint32_t captured = 0;
  SLIP_RETURN_IF_ERROR(slip__close_wait_quiet(context, &captured));
  if (captured > 0) {
    return SLIP_STATUS(SLIP_CODE_BUSY,
                       "%" PRIu32
                       " captured launch%s to graphs that are alive or being replayed; destroy the graphs and wait for the streams that "
                       "replay them, then close again",
                       captured, captured == 1 ? " belongs" : "es belong");
  }
  SLIP_RETURN_IF_ERROR(slip__close_abandoned(context));
  // Device sides that have finished their ticket may still be on their last lines. Acquire: pairs with their release.
  while (atomic_load_explicit(&context->left, memory_order_acquire) != atomic_load_explicit(&context->admitted, memory_order_relaxed)) {
    slip__cpu_relax();
  }
  return slip_ok_status();
}

static slip_status_t slip__close_callables(slip_context_t *context) {
  return context->registry.places ? slip__registry_sweep(context) : slip_ok_status();
}

static slip_status_t slip__close_engine(slip_context_t *context) {
  for (uint32_t i = 0; context->slots && i < context->slot_count; ++i) {
    slip__workspace_destroy(context->slots[i].workspace);
    context->slots[i].workspace = NULL;
  }
  slip__engine_destroy(context->engine);
  context->engine = NULL;
  return slip_ok_status();
}

static slip_status_t slip__close_device_block(slip_context_t *context) {
  if (!context->device_block) return slip_ok_status();
  if ((slip__platform_capabilities(context->platform) & SLIP_PLATFORM_HOST_MEMORY) != 0) {
    SLIP_RETURN_IF_ERROR_ANNOTATED(
        slip__context_given_back(context, slip_memory_free(context->platform, context->device.ordinal, context->device_block)),
        "freeing the argument blocks of the run slots");
  } else {
    slip__free_aligned(context->allocator, context->device_block, context->device_block_bytes, 64);
  }
  context->device_block = NULL;
  return slip_ok_status();
}

static slip_status_t slip__close_device(slip_context_t *context) {
  return slip_status_join(slip__arguments_free(context), slip__close_device_block(context));
}

static slip_status_t slip__close_host(slip_context_t *context) {
  slip__free_aligned(context->allocator, context->slots, context->slot_count * sizeof(slip__slot_t), _Alignof(slip__slot_t));
  context->slots = NULL;
  return slip_ok_status();
}

typedef struct slip__close_stage_t {
  const char *name;
  slip_status_t (*run)(slip_context_t *context);
} slip__close_stage_t;

static const slip__close_stage_t slip__close_stages[] = {
    {"stopping admission", slip__close_admission},  {"draining", slip__close_drain},
    {"unloading callables", slip__close_callables}, {"destroying streams and events", slip__lanes_destroy},
    {"stopping the engine", slip__close_engine},    {"freeing device memory", slip__close_device},
    {"freeing host memory", slip__close_host},
};

static const uint32_t slip__close_stage_count = (uint32_t)(sizeof(slip__close_stages) / sizeof(slip__close_stages[0]));

// A platform that cannot tell is asked once more. If it still cannot, close goes on, as nothing else does: an open, a prepare or a drain
// that is refused costs nothing, but a close that can never begin would keep the device for the life of the process. If there was a capture
// after all, the platform refuses or breaks it itself, and close is owed.
static slip_status_t slip__close_refuse_capture(const slip_context_t *context) {
  slip_status_t status = slip_ok_status();
  for (int asked = 0; asked < 2; ++asked) {
    slip_status_free(status);
    status = slip__context_refuse_capture(context->platform, "close");
    if (slip_status_is_ok(status) || slip_status_code(status) == SLIP_CODE_CAPTURE_UNSUPPORTED) return status;
  }
  slip_status_free(status);
  return slip_ok_status();
}

static slip_status_t slip__close_stages_run(slip_context_t *context) {
  const uint32_t count = slip__close_stage_count;
  for (; context->close_stage < count; ++context->close_stage) {
    // Draining may have taken long: what somebody has begun to capture meanwhile, giving back would break.
    if (context->platform_used && context->close_stage > 0) SLIP_RETURN_IF_ERROR(slip__close_refuse_capture(context));
    const slip__close_stage_t *stage = &slip__close_stages[context->close_stage];
    SLIP_RETURN_IF_ERROR_ANNOTATED(stage->run(context), "while %s (stage %" PRIu32 " of %" PRIu32 "); what is left is kept, close again",
                                   stage->name, context->close_stage + 1, count);
  }
  return slip_ok_status();
}

slip_status_t slip__context_teardown(slip_context_t *context) {
  slip_status_t status = slip_ok_status();
  // Nothing is left but, perhaps, that the last attempt of this thread could not unbind the device.
  if (context->close_stage == slip__close_stage_count) return slip__context_bound(context) ? slip__context_unbind(context) : status;
  // Whoever took nothing from the platform does not touch it: not even its device binding, which is somebody else's.
  if (!context->platform_used) return slip__close_stages_run(context);
  SLIP__CONTEXT_BOUND(status, context, slip__close_stages_run(context));
  return status;
}

// The context is closed; what its caller should know all the same.
static slip_status_t slip__close_tell_stale(const slip_context_t *context) {
  slip_status_t first = slip_status_clone(atomic_load_explicit(&context->staled, memory_order_acquire));
  if (slip_status_is_ok(first)) return first;
  return slip_status_join(
      SLIP_STATUS(SLIP_CODE_DEVICE,
                  "the context of %s:%d is closed, but the platform no longer knew %" PRIu32
                  " of its resources: somebody reset the device under it; there is nothing left to close (the first answer follows)",
                  context->platform_name, context->device.ordinal, atomic_load_explicit(&context->stale, memory_order_relaxed)),
      first);
}

// While launches are still admitted: those that the hook hands over are part of what is drained.
static slip_status_t slip__close_flush(slip_context_t *context) {
  if (!context->options.synchronize_hook) return slip_ok_status();
  slip_status_t status = context->options.synchronize_hook(context->options.synchronize_user);
  if (slip_status_is_ok(status)) return status;
  if (atomic_load_explicit(&context->poison, memory_order_acquire) == NULL) {
    return slip_status_annotate(status, "in the synchronize hook, before the context of %s:%d was closed; it is still open, close it again",
                                context->platform_name, context->device.ordinal);
  }
  slip_status_free(status);  // poisoned: the hook's launches were refused
  return slip_ok_status();
}

// |closing| is ours. On success the context is CLOSED, which is the last access to it: whoever sees that may give the last reference back.
static slip_status_t slip__close_run(slip_context_t *context) {
  slip_context_state_e state = slip__context_state(context);
  if (state == SLIP_CONTEXT_INITIALIZING) {
    slip_status_t refusal = slip__context_refuse_state(context, "close");
    atomic_store_explicit(&context->closing, 0, memory_order_release);
    return refusal;
  }
  slip__context_inside_begin(context);
  slip_status_t status = state == SLIP_CONTEXT_READY ? slip__close_flush(context) : slip_ok_status();
  if (slip_status_is_ok(status)) {
    atomic_store_explicit(&context->state, SLIP_CONTEXT_CLOSING, memory_order_seq_cst);
    status = slip__context_teardown(context);
    if (!slip_status_is_ok(status))
      status = slip_status_annotate(status, "closing the context of %s:%d", context->platform_name, context->device.ordinal);
  }
  slip__context_inside_end(context);
  if (!slip_status_is_ok(status)) {
    atomic_store_explicit(&context->closing, 0, memory_order_release);
    return status;
  }
  status = slip__close_tell_stale(context);
  // Gone from the table before it is CLOSED, so that an open after this close finds the device free.
  slip__context_forget(context);
  atomic_store_explicit(&context->state, SLIP_CONTEXT_CLOSED, memory_order_release);
  return status;
}

slip_status_t slip_context_close(slip_context_t *context) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("slip_context_close"));
  if (!context) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "context is NULL, expected one that slip_context_open has given");
  if (slip__context_inside() == context) {
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE, "close was called from inside another call on the same context; return from it first");
  }
  if (slip__context_state(context) == SLIP_CONTEXT_CLOSED) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__close_refuse_capture(context));
  uint32_t idle = 0;
  if (atomic_compare_exchange_strong_explicit(&context->closing, &idle, 1, memory_order_acq_rel, memory_order_relaxed))
    return slip__close_run(context);
  if (slip__context_state(context) == SLIP_CONTEXT_CLOSED) return slip_ok_status();  // the other one has just finished
  return SLIP_STATUS(SLIP_CODE_BUSY, "another close of the context of %s:%d is running; wait for it", context->platform_name,
                     context->device.ordinal);
}
