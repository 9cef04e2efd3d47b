// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/ticket.h"

#include <inttypes.h>
#include <string.h>

#include "base/allocator.h"
#include "kernel_mode/graph.h"
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

static slip_status_t slip__tickets_wait_for_room(slip_context_t *context) {
  slip_status_t status = slip_ok_status();
  uint32_t key = slip__signal_enter(&context->signal);
  for (;;) {
    (void)slip__tickets_reap(context);
    if (slip__context_state(context) != SLIP_CONTEXT_READY) {
      status = slip__context_refuse_state(context, "launch");
      break;
    }
    if (slip__tickets_count_in(context)) break;
    (void)slip__signal_sleep(&context->signal, &key, -1);
  }
  slip__signal_leave(&context->signal);
  return status;
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
  // A drain that flips the epoch between these two lines waits for the old one again before it reuses it: see slip__tickets_drain.
  *out_epoch = atomic_load_explicit(&context->epoch, memory_order_seq_cst);
  atomic_fetch_add_explicit(&context->epoch_pending[*out_epoch], 1, memory_order_seq_cst);
  return slip_ok_status();
}

void slip__tickets_revoke(slip_context_t *context, uint32_t epoch) {
  slip__tickets_count_out(context, epoch);
  slip__signal_raise(&context->signal);
}

// --- one ticket --------------------------------------------------------------------------------------------------------------------------

static void slip__ticket_free(slip_ticket_t *ticket) {
  slip_context_t *context = ticket->context;
  slip_status_free(ticket->result);
  if (ticket->from_heap) {
    slip__free(context->allocator, ticket, sizeof(*ticket));
  } else {
    slip__pool_give(&context->tickets, ticket);
  }
}

static void slip__ticket_unreference(slip_ticket_t *ticket) {
  if (atomic_fetch_sub_explicit(&ticket->references, 1, memory_order_acq_rel) == 1) slip__ticket_free(ticket);
}

slip_status_t slip__ticket_create(slip_context_t *context, slip__registration_t *registration, bool handle, slip_ticket_t **out) {
  bool from_heap = false;
  *out = NULL;
  slip_ticket_t *ticket = slip__pool_take(&context->tickets);
  if (!ticket) {
    void *memory = NULL;
    SLIP_RETURN_IF_ERROR_ANNOTATED(slip__alloc(context->allocator, sizeof(*ticket), &memory),
                                   "the caller holds %" PRIu32 " ticket handles; release retired ones", context->tickets.count);
    ticket = memory;
    from_heap = true;
  }
  memset(ticket, 0, sizeof(*ticket));
  ticket->from_heap = from_heap;
  ticket->context = context;
  ticket->registration = registration;
  // Never empty: as many blocks as launches that may be pending.
  if (registration) ticket->arguments = slip__pool_take(&context->registry.arguments[registration->argument_class]);
  atomic_store_explicit(&ticket->state, SLIP__TICKET_PENDING, memory_order_relaxed);
  atomic_store_explicit(&ticket->references, 2, memory_order_relaxed);
  if (handle) atomic_fetch_add_explicit(&context->shell, 1, memory_order_relaxed);
  *out = ticket;
  return slip_ok_status();
}

void slip__ticket_discard(slip_ticket_t *ticket, bool handle) {
  slip_context_t *context = ticket->context;
  if (ticket->registration) slip__pool_give(&context->registry.arguments[ticket->registration->argument_class], ticket->arguments);
  slip__ticket_free(ticket);
  if (handle) slip__context_shell_release(context);
}

void slip__ticket_publish(slip_ticket_t *ticket, bool handle) {
  uint32_t pending = SLIP__TICKET_PENDING;
  (void)atomic_compare_exchange_strong_explicit(&ticket->state, &pending, SLIP__TICKET_PUBLISHED, memory_order_relaxed,
                                                memory_order_relaxed);
  if (!handle) slip__ticket_unreference(ticket);
}

void slip__ticket_finish(slip_ticket_t *ticket, slip_status_t result) {
  slip_context_t *context = ticket->context;
  ticket->result = result;
  (void)atomic_exchange_explicit(&ticket->state, SLIP__TICKET_DONE, memory_order_release);
  slip_ticket_t *top = atomic_load_explicit(&context->done, memory_order_relaxed);
  do {
    ticket->next = top;
  } while (!atomic_compare_exchange_weak_explicit(&context->done, &top, ticket, memory_order_seq_cst, memory_order_relaxed));
  // The ticket is the reaper's from here on.
  slip__signal_raise(&context->signal);
}

// Reaper. Order matters: what the launch held goes back before |pending| falls, because close frees it all once |pending| is 0.
static void slip__ticket_retire(slip_ticket_t *ticket) {
  slip_context_t *context = ticket->context;
  slip__registration_t *registration = ticket->registration;
  uint32_t epoch = ticket->epoch;
  if (ticket->replay) slip__graph_retire(ticket);
  if (registration) slip__pool_give(&context->registry.arguments[registration->argument_class], ticket->arguments);
  ticket->arguments = NULL;
  ticket->registration = NULL;
  if (ticket->release) ticket->release(ticket->user);
  if (!slip_status_is_ok(ticket->result)) atomic_fetch_add_explicit(&context->faulted, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&context->retired, 1, memory_order_relaxed);
  atomic_store_explicit(&ticket->state, SLIP__TICKET_RETIRED, memory_order_release);
  slip__ticket_unreference(ticket);
  if (registration) slip__registry_leave(&context->registry, registration);
  slip__tickets_count_out(context, epoch);
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

// --- waiting -----------------------------------------------------------------------------------------------------------------------------

static void slip__tickets_wait_zero(slip_context_t *context, _Atomic uint32_t *count) {
  uint32_t key = slip__signal_enter(&context->signal);
  for (;;) {
    (void)slip__tickets_reap(context);
    if (atomic_load_explicit(count, memory_order_seq_cst) == 0) break;
    (void)slip__signal_sleep(&context->signal, &key, -1);
  }
  slip__signal_leave(&context->signal);
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
void slip__tickets_drain(slip_context_t *context, bool all) {
  if (all) {
    slip__tickets_wait_zero(context, &context->pending);
    return;
  }
  pthread_mutex_lock(&context->drain_lock);
  uint32_t epoch = atomic_load_explicit(&context->epoch, memory_order_seq_cst);
  slip__tickets_wait_zero(context, &context->epoch_pending[1 - epoch]);
  atomic_store_explicit(&context->epoch, 1 - epoch, memory_order_seq_cst);
  slip__tickets_wait_zero(context, &context->epoch_pending[epoch]);
  pthread_mutex_unlock(&context->drain_lock);
  slip__tickets_drain_slots(context);
}

static slip__ticket_state_e slip__ticket_state(const slip_ticket_t *ticket) {
  return (slip__ticket_state_e)atomic_load_explicit(&ticket->state, memory_order_acquire);
}

// Released callables whose last launch has gone: unloaded here, since wait may block and launch may not. A failure is kept by the registry
// and told by close.
static void slip__ticket_sweep(slip_context_t *context) {
  if (atomic_load_explicit(&context->registry.sweep_wanted, memory_order_acquire) == 0) return;
  slip_status_t status = slip__context_enter(context, "sweep");
  if (slip_status_is_ok(status)) {
    status = slip__registry_sweep(context);
    slip__context_leave(context);
  }
  slip_status_free(status);
}

static bool slip__ticket_wait_retired(slip_ticket_t *ticket, int64_t timeout_ns) {
  slip_context_t *context = ticket->context;
  uint64_t start = timeout_ns > 0 ? slip__clock_now_ns() : 0;
  bool retired = false;
  uint32_t key = slip__signal_enter(&context->signal);
  for (;;) {
    (void)slip__tickets_reap(context);
    retired = slip__ticket_state(ticket) == SLIP__TICKET_RETIRED;
    if (retired || timeout_ns == 0) break;
    int64_t left = timeout_ns;
    if (timeout_ns > 0) {
      uint64_t passed = slip__clock_now_ns() - start;
      if (passed >= (uint64_t)timeout_ns) break;
      left = timeout_ns - (int64_t)passed;
    }
    (void)slip__signal_sleep(&context->signal, &key, left);
  }
  slip__signal_leave(&context->signal);
  return retired;
}

slip_status_t slip_ticket_wait(slip_ticket_t *ticket, int64_t timeout_ns) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("waiting for a ticket"));
  if (!ticket) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "ticket is NULL, expected a handle from launch");
  if (slip__ticket_state(ticket) != SLIP__TICKET_RETIRED) {
    if (!slip__ticket_wait_retired(ticket, timeout_ns)) {
      return SLIP_STATUS(SLIP_CODE_TIMEOUT, "the launch has not retired within %" PRId64 " ns; it goes on", timeout_ns);
    }
    slip__ticket_sweep(ticket->context);
  }
  return slip_status_clone(ticket->result);
}

slip_status_t slip_ticket_query(slip_ticket_t *ticket) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("querying a ticket"));
  if (!ticket) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "ticket is NULL, expected a handle from launch");
  if (slip__ticket_state(ticket) != SLIP__TICKET_RETIRED) (void)slip__tickets_reap(ticket->context);
  if (slip__ticket_state(ticket) != SLIP__TICKET_RETIRED) return SLIP_STATUS(SLIP_CODE_NOT_READY, "the launch has not retired yet");
  return slip_status_clone(ticket->result);
}

void slip_ticket_release(slip_ticket_t *ticket) {
  if (!ticket || ticket == &slip__ticket_finished || slip__latch_forked()) return;
  slip_context_t *context = ticket->context;
  slip__ticket_unreference(ticket);
  slip__context_shell_release(context);
}
