// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/ticket.h"

#include <inttypes.h>
#include <string.h>

#include "base/allocator.h"
#include "kernel_mode/graph.h"
#include "kernel_mode/lane.h"
#include "kernel_mode/latch.h"
#include "os/clock.h"

slip_ticket_t slip__ticket_finished = {.state = SLIP__TICKET_RETIRED, .references = 1};

// --- admission ---------------------------------------------------------------------------------------------------------------------------

static bool slip__tickets_count_in(slip_context_t *context) {
  uint32_t pending = atomic_load_explicit(&context->pending, memory_order_seq_cst);
  while (pending < context->options.max_pending) {
    if (atomic_compare_exchange_weak_explicit(&context->pending, &pending, pending + 1, memory_order_seq_cst, memory_order_seq_cst))
      return true;
  }
  return false;
}

static void slip__tickets_count_out(slip_context_t *context, uint32_t epoch) {
  atomic_fetch_sub_explicit(&context->epoch_pending[epoch], 1, memory_order_seq_cst);
  atomic_fetch_sub_explicit(&context->pending, 1, memory_order_seq_cst);
}

// How long a waiting thread sleeps before it asks whether the device still runs: a broken one calls nobody back.
#define SLIP__TICKET_ASK_NS INT64_C(50000000)

static int64_t slip__tickets_slice(const slip_context_t *context, int64_t timeout_ns) {
  if (!slip__context_uses_lanes(context)) return timeout_ns;
  return timeout_ns < 0 || timeout_ns > SLIP__TICKET_ASK_NS ? SLIP__TICKET_ASK_NS : timeout_ns;
}

static slip_status_t slip__tickets_wait_for_room(slip_context_t *context) {
  slip_status_t status = slip_ok_status();
  if (slip__ticket_releasing(context)) {
    return SLIP_STATUS(SLIP_CODE_BUSY,
                       "%" PRIu32
                       " launches are in flight, which is max_pending, and an owner's release cannot wait for room; launch after it",
                       context->options.max_pending);
  }
  uint32_t key = slip__signal_enter(&context->signal);
  for (;;) {
    (void)slip__tickets_reap(context);
    if (slip__context_state(context) != SLIP_CONTEXT_READY) {
      status = slip__context_refuse_state(context, "launch");
    } else if (atomic_load_explicit(&context->poison, memory_order_acquire)) {
      status = slip__context_refuse_poisoned(context, "launch");
    } else if (slip__tickets_count_in(context)) {
      break;
    }
    if (!slip_status_is_ok(status)) break;
    if (slip__signal_sleep(&context->signal, &key, slip__tickets_slice(context, -1))) continue;
    status = slip__lanes_ask(context);
    if (!slip_status_is_ok(status)) break;
  }
  slip__signal_leave(&context->signal);
  return status;
}

// A drain that flips the epoch between the two lines waits for the old one again before it reuses it: see slip__tickets_drain.
static uint32_t slip__tickets_enter_epoch(slip_context_t *context) {
  uint32_t epoch = atomic_load_explicit(&context->epoch, memory_order_seq_cst);
  atomic_fetch_add_explicit(&context->epoch_pending[epoch], 1, memory_order_seq_cst);
  return epoch;
}

bool slip__tickets_try_admit(slip_context_t *context, uint32_t *out_epoch) {
  if (!slip__tickets_count_in(context)) return false;
  *out_epoch = slip__tickets_enter_epoch(context);
  return true;
}

slip_status_t slip__tickets_admit(slip_context_t *context, bool no_wait, uint32_t *out_epoch) {
  (void)slip__tickets_reap(context);
  if (!slip__tickets_count_in(context)) {
    if (no_wait) {
      return SLIP_STATUS(SLIP_CODE_BUSY, "%" PRIu32 " launches are in flight, which is max_pending; wait for a ticket or open with more",
                         context->options.max_pending);
    }
    SLIP_RETURN_IF_ERROR(slip__tickets_wait_for_room(context));
  }
  *out_epoch = slip__tickets_enter_epoch(context);
  return slip_ok_status();
}

void slip__tickets_revoke(slip_context_t *context, uint32_t epoch) {
  slip__tickets_count_out(context, epoch);
  slip__signal_raise(&context->signal);
}

slip_status_t slip__tickets_admit_captured(slip_context_t *context) {
  uint32_t captured = atomic_load_explicit(&context->captured, memory_order_seq_cst);
  do {
    if (captured >= context->options.max_captured) {
      return SLIP_STATUS(SLIP_CODE_BUSY,
                         "%" PRIu32
                         " launches are recorded in graphs, which is max_captured; destroy graphs and drain the context outside of the "
                         "capture, or open with more",
                         captured);
    }
  } while (!atomic_compare_exchange_weak_explicit(&context->captured, &captured, captured + 1, memory_order_seq_cst, memory_order_seq_cst));
  return slip_ok_status();
}

void slip__tickets_revoke_captured(slip_context_t *context) {
  atomic_fetch_sub_explicit(&context->captured, 1, memory_order_seq_cst);
  slip__signal_raise(&context->signal);
}

// --- one ticket --------------------------------------------------------------------------------------------------------------------------

static void slip__ticket_free(slip_ticket_t *ticket) {
  slip_context_t *context = ticket->context;
  slip_status_free(atomic_load_explicit(&ticket->result, memory_order_relaxed));
  if (ticket->from_heap) {
    slip__free(context->allocator, ticket, sizeof(*ticket));
  } else {
    slip__pool_give(&context->tickets, ticket);
  }
}

static void slip__ticket_unreference(slip_ticket_t *ticket) {
  if (atomic_fetch_sub_explicit(&ticket->references, 1, memory_order_acq_rel) == 1) slip__ticket_free(ticket);
}

// Memory for a ticket, all but |from_heap| undefined; NULL with |*out_status|.
static inline slip_ticket_t *slip__ticket_allocate(slip_context_t *context, slip__ticket_kind_e kind, slip_status_t *out_status) {
  void *memory = NULL;
  slip_ticket_t *ticket = slip__pool_take(&context->tickets);
  if (__builtin_expect(ticket != NULL, 1)) {
    ticket->from_heap = false;
    return ticket;
  }
  if (kind == SLIP__TICKET_CAPTURED) {
    *out_status =
        SLIP_STATUS(SLIP_CODE_BUSY, "the caller holds %" PRIu32 " ticket handles, and a launch in a capture allocates none; release some",
                    context->tickets.count);
    return NULL;
  }
  *out_status = slip_status_annotate(slip__alloc(context->allocator, sizeof(*ticket), &memory),
                                     "the caller holds %" PRIu32 " ticket handles; release retired ones", context->tickets.count);
  ticket = memory;
  if (ticket) ticket->from_heap = true;
  return ticket;
}

// Field by field: clearing it all at once would be a string instruction, which takes longer to start than this takes.
static inline void slip__ticket_initialize(slip_ticket_t *ticket, slip_context_t *context, slip__registration_t *registration,
                                           slip__ticket_kind_e kind) {
  atomic_store_explicit(&ticket->state, SLIP__TICKET_PENDING, memory_order_relaxed);
  atomic_store_explicit(&ticket->references, 2, memory_order_relaxed);
  atomic_store_explicit(&ticket->result, NULL, memory_order_relaxed);
  atomic_store_explicit(&ticket->given, 0, memory_order_relaxed);
  ticket->context = context;
  ticket->registration = registration;
  ticket->arguments = NULL;
  ticket->replay = NULL;
  ticket->link.chain = NULL;
  ticket->device_arguments = NULL;
  ticket->lane = NULL;
  ticket->release = NULL;
  ticket->kind = kind;
  ticket->ran = false;
}

slip_status_t slip__ticket_create(slip_context_t *context, slip__registration_t *registration, const slip_launch_record_t *record,
                                  slip__ticket_kind_e kind, bool handle, slip_ticket_t **out) {
  slip_status_t status = slip_ok_status();
  slip_ticket_t *ticket = slip__ticket_allocate(context, kind, &status);
  *out = NULL;
  if (!ticket) return status;
  slip__ticket_initialize(ticket, context, registration, kind);
  if (registration) {
    ticket->release = record->release;
    ticket->user = record->user;
    ticket->argument_class = registration->argument_class;
    ticket->arguments = slip__arguments_take(&context->registry.arguments, ticket->argument_class, &ticket->device_arguments);
    if (__builtin_expect(!ticket->arguments, 0)) {  // abandoned launches hold the others
      slip__ticket_free(ticket);
      return SLIP_STATUS(SLIP_CODE_BUSY, "no argument block is free, since failed launches keep theirs until close");
    }
  }
  if (handle) atomic_fetch_add_explicit(&context->shell, 1, memory_order_relaxed);
  *out = ticket;
  return slip_ok_status();
}

void slip__ticket_discard(slip_ticket_t *ticket, bool handle) {
  slip_context_t *context = ticket->context;
  if (ticket->registration) slip__arguments_give(&context->registry.arguments, ticket->argument_class, ticket->arguments);
  if (ticket->link.chain) slip__chain_unreference(ticket->link.chain);
  slip__ticket_free(ticket);
  if (handle) slip__context_shell_release(context);
}

void slip__ticket_publish(slip_ticket_t *ticket, bool handle) {
  uint32_t pending = SLIP__TICKET_PENDING;
  (void)atomic_compare_exchange_strong_explicit(&ticket->state, &pending, SLIP__TICKET_PUBLISHED, memory_order_relaxed,
                                                memory_order_relaxed);
  if (!handle) slip__ticket_unreference(ticket);
}

void slip__ticket_forsake(slip_ticket_t *ticket, bool handle) {
  slip_context_t *context = ticket->context;
  slip__ticket_unreference(ticket);
  if (handle) slip__context_shell_release(context);
}

void slip__ticket_set_result(slip_ticket_t *ticket, slip_status_t result) {
  slip_status_t none = NULL;
  if (slip_status_is_ok(result)) return;
  // Release: the status is complete; pairs with the acquire of a query.
  if (!atomic_compare_exchange_strong_explicit(&ticket->result, &none, result, memory_order_acq_rel, memory_order_relaxed))
    slip_status_free(result);
}

void slip__ticket_finish(slip_ticket_t *ticket) {
  slip_context_t *context = ticket->context;
  (void)atomic_exchange_explicit(&ticket->state, SLIP__TICKET_DONE, memory_order_release);
  slip_ticket_t *top = atomic_load_explicit(&context->done, memory_order_relaxed);
  do {
    ticket->next = top;
  } while (!atomic_compare_exchange_weak_explicit(&context->done, &top, ticket, memory_order_seq_cst, memory_order_relaxed));
  // The ticket is the reaper's from here on.
  slip__signal_raise(&context->signal);
  // The last access to the context: pairs with the acquire of close, which frees what the lines above use.
  atomic_fetch_add_explicit(&context->left, 1, memory_order_release);
}

void slip__ticket_finish_captured(slip_ticket_t *ticket) {
  // acq_rel: the last one finishes after all that the other did with the ticket.
  if (atomic_fetch_sub_explicit(&ticket->holders, 1, memory_order_acq_rel) == 1) slip__ticket_finish(ticket);
}

static _Thread_local const slip_context_t *slip__releasing;

bool slip__ticket_releasing(const slip_context_t *context) {
  return slip__releasing == context;
}

// Somebody else's code, which may call the library: what would wait there is refused, since the ticket at hand, and those that were reaped
// with it, are counted out only after it.
static void slip__ticket_release_owner(const slip_ticket_t *ticket) {
  const slip_context_t *outer = slip__releasing;
  slip__releasing = ticket->context;
  slip__context_inside_begin(ticket->context);
  ticket->release(ticket->user);
  slip__context_inside_end(ticket->context);
  slip__releasing = outer;
}

void slip__ticket_give_back(slip_ticket_t *ticket) {
  // Only a captured launch that failed early is given back by its own thread, which the end of the capture may race with.
  if (ticket->kind == SLIP__TICKET_CAPTURED && atomic_exchange_explicit(&ticket->given, 1, memory_order_acq_rel) != 0) return;
  if (ticket->release) slip__ticket_release_owner(ticket);
  if (ticket->registration) slip__registry_leave(&ticket->context->registry, ticket->registration);
}

// Reaper. Order matters: what the launch held goes back before the count that close waits for falls, since close then frees it all.
static inline __attribute__((always_inline)) void slip__ticket_retire(slip_ticket_t *ticket) {
  slip_context_t *context = ticket->context;
  uint32_t epoch = ticket->epoch, kind = ticket->kind;
  if (ticket->replay) slip__graph_retire(ticket);
  if (ticket->link.chain) slip__chain_unreference(ticket->link.chain);
  if (ticket->registration) slip__arguments_give(&context->registry.arguments, ticket->argument_class, ticket->arguments);
  ticket->arguments = NULL;
  slip__ticket_give_back(ticket);
  if (atomic_load_explicit(&ticket->result, memory_order_acquire)) atomic_fetch_add_explicit(&context->faulted, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&context->retired, 1, memory_order_relaxed);
  atomic_store_explicit(&ticket->state, SLIP__TICKET_RETIRED, memory_order_release);
  slip__ticket_unreference(ticket);
  if (kind == SLIP__TICKET_EAGER) {
    slip__tickets_count_out(context, epoch);
  } else {
    atomic_fetch_sub_explicit(kind == SLIP__TICKET_CAPTURED ? &context->captured : &context->abandoned_count, 1, memory_order_seq_cst);
  }
}

void slip__ticket_abandon(slip_ticket_t *ticket, slip_status_t why) {
  slip_context_t *context = ticket->context;
  uint32_t epoch = ticket->epoch;
  slip__ticket_set_result(ticket, why);
  ticket->kind = SLIP__TICKET_ABANDONED;
  // Counted here before it leaves |pending|: close never finds it in neither.
  atomic_fetch_add_explicit(&context->abandoned_count, 1, memory_order_seq_cst);
  pthread_mutex_lock(&context->lane_lock);
  ticket->next = context->abandoned;
  context->abandoned = ticket;
  pthread_mutex_unlock(&context->lane_lock);
  slip__tickets_revoke(context, epoch);
}

void slip__tickets_retire_abandoned(slip_context_t *context) {
  pthread_mutex_lock(&context->lane_lock);
  slip_ticket_t *list = context->abandoned;
  context->abandoned = NULL;
  pthread_mutex_unlock(&context->lane_lock);
  while (list) {
    slip_ticket_t *next = list->next;
    atomic_fetch_add_explicit(&context->left, 1, memory_order_release);
    slip__ticket_retire(list);
    list = next;
  }
}

bool slip__tickets_reap(slip_context_t *context) {
  // seq_cst: the look at a condition of those who then sleep (S3 of signal.h).
  if (atomic_load_explicit(&context->done, memory_order_seq_cst) == NULL) return false;
  slip_ticket_t *list = atomic_exchange_explicit(&context->done, NULL, memory_order_seq_cst), *oldest = NULL;
  bool any = list != NULL;
  while (list) {
    slip_ticket_t *next = list->next;
    list->next = oldest;
    oldest = list;
    list = next;
  }
  while (oldest) {
    slip_ticket_t *next = oldest->next;
    slip__ticket_retire(oldest);
    oldest = next;
  }
  if (any) slip__signal_raise(&context->signal);
  return any;
}

void slip__tickets_reap_outside_capture(slip_context_t *context) {
  if (atomic_load_explicit(&context->done, memory_order_relaxed) == NULL) return;
  slip_status_t status = slip__context_refuse_capture(context->platform, "reaping");
  if (slip_status_is_ok(status)) (void)slip__tickets_reap(context);
  slip_status_free(status);
}

// --- waiting -----------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__tickets_wait_zero(slip_context_t *context, _Atomic uint32_t *count) {
  slip_status_t status = slip_ok_status();
  uint32_t key = slip__signal_enter(&context->signal);
  for (;;) {
    (void)slip__tickets_reap(context);
    if (atomic_load_explicit(count, memory_order_seq_cst) == 0) break;
    if (slip__signal_sleep(&context->signal, &key, slip__tickets_slice(context, -1))) continue;
    status = slip__lanes_ask(context);
    if (!slip_status_is_ok(status)) break;
  }
  slip__signal_leave(&context->signal);
  return status;
}

// Inline launches of other threads: each slot busy now must be left once.
static void slip__tickets_drain_slots(slip_context_t *context) {
  for (uint32_t i = 0; i < context->slot_count; ++i) {
    uint64_t bit = UINT64_C(1) << i, uses = atomic_load_explicit(&context->slots[i].uses, memory_order_acquire);
    uint32_t key = slip__signal_enter(&context->slot_signal);
    while ((atomic_load_explicit(&context->free_slots, memory_order_seq_cst) & bit) == 0 &&
           atomic_load_explicit(&context->slots[i].uses, memory_order_acquire) == uses) {
      (void)slip__signal_sleep(&context->slot_signal, &key, -1);
    }
    slip__signal_leave(&context->slot_signal);
  }
}

// Two epochs take turns. New launches count into |epoch|; a drain first sees the other one empty (only launches that read |epoch| just
// before the last flip can still be in it, and they were made before this call), flips, and waits for the one it left. Launches that keep
// coming count elsewhere, so that a drain ends. One drain at a time.
slip_status_t slip__tickets_drain(slip_context_t *context) {
  pthread_mutex_lock(&context->drain_lock);
  uint32_t epoch = atomic_load_explicit(&context->epoch, memory_order_seq_cst);
  slip_status_t status = slip__tickets_wait_zero(context, &context->epoch_pending[1 - epoch]);
  if (slip_status_is_ok(status)) {
    atomic_store_explicit(&context->epoch, 1 - epoch, memory_order_seq_cst);
    status = slip__tickets_wait_zero(context, &context->epoch_pending[epoch]);
  }
  pthread_mutex_unlock(&context->drain_lock);
  if (slip_status_is_ok(status)) slip__tickets_drain_slots(context);
  return status;
}

static slip__ticket_state_e slip__ticket_state(const slip_ticket_t *ticket) {
  return (slip__ticket_state_e)atomic_load_explicit(&ticket->state, memory_order_acquire);
}

// Released callables whose last launch has gone: unloaded here, since wait may block and launch may not. A failure is kept by the registry
// and told by close.
static void slip__ticket_sweep(slip_context_t *context) {
  if (atomic_load_explicit(&context->registry.sweep_wanted, memory_order_acquire) == 0) return;
  // Asked again: a capture may have begun while the caller waited, which unloading would break.
  slip_status_t status = slip__context_enter_outside_capture(context, "sweep");
  if (slip_status_is_ok(status)) {
    SLIP__CONTEXT_BOUND(status, context, slip__registry_sweep(context));
    slip__context_leave(context);
  }
  slip_status_free(status);
}

static slip_status_t slip__ticket_wait_retired(slip_ticket_t *ticket, int64_t timeout_ns) {
  slip_context_t *context = ticket->context;
  uint64_t start = timeout_ns > 0 ? slip__clock_now_ns() : 0;
  slip_status_t status = slip_ok_status();
  if (slip__ticket_releasing(context)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE,
                       "the launch has not retired, and an owner's release cannot wait for launches of its context; wait after it");
  }
  uint32_t key = slip__signal_enter(&context->signal);
  for (;;) {
    (void)slip__tickets_reap(context);
    if (slip__ticket_state(ticket) == SLIP__TICKET_RETIRED) break;
    int64_t left = timeout_ns;
    if (timeout_ns > 0) {
      uint64_t passed = slip__clock_now_ns() - start;
      left = passed >= (uint64_t)timeout_ns ? 0 : timeout_ns - (int64_t)passed;
    }
    if (left == 0) {
      status = SLIP_STATUS(SLIP_CODE_TIMEOUT, "the launch has not retired within %" PRId64 " ns; it goes on", timeout_ns);
      break;
    }
    if (slip__signal_sleep(&context->signal, &key, slip__tickets_slice(context, left))) continue;
    status = slip__lanes_ask(context);
    if (!slip_status_is_ok(status)) break;
  }
  slip__signal_leave(&context->signal);
  return status;
}

static slip_status_t slip__ticket_result(const slip_ticket_t *ticket) {
  return slip_status_clone(atomic_load_explicit(&ticket->result, memory_order_acquire));
}

slip_status_t slip_ticket_wait(slip_ticket_t *ticket, int64_t timeout_ns) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("waiting for a ticket"));
  if (!ticket) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "ticket is NULL, expected a handle from launch");
  if (ticket == &slip__ticket_finished) return slip_ok_status();
  slip_context_t *context = ticket->context;
  SLIP_RETURN_IF_ERROR(slip__context_refuse_capture(context->platform, "waiting for a ticket"));
  if (slip__ticket_state(ticket) != SLIP__TICKET_RETIRED) {
    if (ticket->kind == SLIP__TICKET_CAPTURED) {
      (void)slip__tickets_reap(context);
      if (slip__ticket_state(ticket) != SLIP__TICKET_RETIRED) {
        return SLIP_STATUS(SLIP_CODE_INVALID_STATE,
                           "the launch is recorded in a graph and may run any number of times; wait for the stream that replays it");
      }
    } else {
      SLIP_RETURN_IF_ERROR(slip__ticket_wait_retired(ticket, timeout_ns));
    }
    slip__ticket_sweep(context);
  }
  return slip__ticket_result(ticket);
}

slip_status_t slip_ticket_query(slip_ticket_t *ticket) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("querying a ticket"));
  if (!ticket) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "ticket is NULL, expected a handle from launch");
  if (slip__ticket_state(ticket) != SLIP__TICKET_RETIRED) slip__tickets_reap_outside_capture(ticket->context);
  if (slip__ticket_state(ticket) == SLIP__TICKET_RETIRED) return slip__ticket_result(ticket);
  slip_status_t fault = ticket->kind == SLIP__TICKET_CAPTURED ? slip__ticket_result(ticket) : slip_ok_status();
  if (!slip_status_is_ok(fault)) return fault;
  return SLIP_STATUS(SLIP_CODE_NOT_READY, "the launch has not retired yet");
}

void slip_ticket_release(slip_ticket_t *ticket) {
  if (!ticket || ticket == &slip__ticket_finished || slip__latch_forked()) return;
  slip_context_t *context = ticket->context;
  slip__ticket_unreference(ticket);
  slip__context_shell_release(context);
}
