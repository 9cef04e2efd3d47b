// SPDX-License-Identifier: Apache-2.0
// Run slots: one bit each of |free_slots|, set while free. Taking one is a compare-and-swap, giving one back a fetch-or; a slot's fields
// are handed over by these two (acquire, release).
#include "kernel_mode/context.h"

static int32_t slip__slot_try(slip_context_t *context) {
  uint64_t free_slots = atomic_load_explicit(&context->free_slots, memory_order_seq_cst);
  while (free_slots != 0) {
    // The lowest one: a single caller always gets slot 0, whose rings are warm.
    if (atomic_compare_exchange_weak_explicit(&context->free_slots, &free_slots, free_slots & (free_slots - 1), memory_order_seq_cst,
                                              memory_order_seq_cst)) {
      return (int32_t)__builtin_ctzll(free_slots);
    }
  }
  return -1;
}

static int32_t slip__slot_wait(slip_context_t *context) {
  enum { SPINS = 200 };  // about 10 us: shorter runs than that are not worth two system calls
  int32_t slot = -1;
  for (int i = 0; i < SPINS && slot < 0; ++i) {
    slip__cpu_relax();
    slot = slip__slot_try(context);
  }
  if (slot >= 0) return slot;
  uint32_t key = slip__signal_enter(&context->slot_signal);
  while ((slot = slip__slot_try(context)) < 0) (void)slip__signal_sleep(&context->slot_signal, &key, -1);
  slip__signal_leave(&context->slot_signal);
  return slot;
}

int32_t slip__slot_acquire(slip_context_t *context, bool wait) {
  int32_t slot = slip__slot_try(context);
  return slot >= 0 || !wait ? slot : slip__slot_wait(context);
}

void slip__slot_release(slip_context_t *context, int32_t slot) {
  _Atomic uint64_t *uses = &context->slots[slot].uses;
  atomic_store_explicit(uses, atomic_load_explicit(uses, memory_order_relaxed) + 1, memory_order_release);
  atomic_fetch_or_explicit(&context->free_slots, UINT64_C(1) << slot, memory_order_seq_cst);
  slip__signal_raise(&context->slot_signal);
}

bool slip__slot_acquire_all(slip_context_t *context) {
  uint64_t expected = context->all_slots;
  return atomic_compare_exchange_strong_explicit(&context->free_slots, &expected, 0, memory_order_seq_cst, memory_order_seq_cst);
}

void slip__slot_release_all(slip_context_t *context) {
  atomic_fetch_or_explicit(&context->free_slots, context->all_slots, memory_order_seq_cst);
  slip__signal_raise(&context->slot_signal);
}
