// SPDX-License-Identifier: Apache-2.0
#include "graph/execute.h"

#include "base/prefetch.h"
#include "graph/crash.h"
#include "graph/fault.h"
#include "graph/park.h"
#include "graph/recorded/replay.h"
#include "graph/stall.h"
#include "os/chaos.h"

#include <string.h>

// The element's value, sign- or zero-extended. (Objects are little-endian on every platform this engine runs on.)
static int64_t slip__predicate_read(const void *address, uint8_t dtype) {
  uint64_t bits = 0;
  size_t size = (size_t)slip_dtype_carrier_bytes(dtype);
  memcpy(&bits, address, size);
  bool is_signed = dtype >= SLIP_DTYPE_I8 && dtype <= SLIP_DTYPE_I64;
  if (!is_signed) return (int64_t)bits;
  uint32_t unused = 64 - 8 * (uint32_t)size;
  return (int64_t)(bits << unused) >> unused;
}

bool slip__predicate_holds(const slip__slot_t *slot) {
  int64_t value = slip__predicate_read(slot->predicate_address, slot->predicate_dtype);
  int64_t literal = slot->predicate_literal;
  // The literal is signed: what an u64 holds above INT64_MAX is greater than any literal.
  int order = slot->predicate_dtype == SLIP_DTYPE_U64 && value < 0 ? 1 : (value > literal) - (value < literal);
  switch (slot->predicate_op) {
    case SLIP_PREDICATE_EQ:
      return order == 0;
    case SLIP_PREDICATE_NE:
      return order != 0;
    case SLIP_PREDICATE_LT:
      return order < 0;
    case SLIP_PREDICATE_LE:
      return order <= 0;
    case SLIP_PREDICATE_GT:
      return order > 0;
    default:
      return order >= 0;
  }
}

// False once the run has failed, or if the predicate says no.
static bool slip__execute_wanted(const slip__slot_t *slot) {
  if (__builtin_expect(slip__workspace_failed(slot->workspace), 0)) return false;
  return __builtin_expect(slot->predicate_op == 0, 1) || slip__predicate_holds(slot);
}

// The tensors of |slot| as its kernel sees them. The seat keeps the views of the form it met last, and only their addresses change.
static inline const slip_ktensor_t *slip__execute_tensors(const slip__slot_t *slot, slip__seat_t *seat, const uint64_t **out_scalars) {
  const slip__form_t *form = slot->form;
  if (__builtin_expect(!form, 0)) {
    const slip_ktensor_t *tensors = slot->arguments;
    *out_scalars = (const uint64_t *)(const void *)(tensors + slot->kernel->tensor_count);
    return tensors;
  }
  void *const *data = slot->arguments;
  *out_scalars = (const uint64_t *)(const void *)(data + (slot->flags & SLIP__SLOT_BLOCK ? SLIP_KERNEL_MAX_TENSORS : SLIP__SLOT_TENSORS));
  return slip__execute_views(form, seat, data);
}

void slip__execute_blocks(const slip__slot_t *slot, slip__seat_t *seat, uint32_t first, uint32_t count) {
  const uint64_t *scalars;
  const slip_ktensor_t *tensors = slip__execute_tensors(slot, seat, &scalars);
  slip_kargs_t arguments = slip__execute_arguments(slot->kernel, seat, tensors, scalars);
  slip_kernel_fn_t run = slot->kernel->run;
  for (uint32_t i = 0; i < count; ++i) {
    if (__builtin_expect(seat->notes, 0)) slip__crash_note(slot, first + i);
    run(&arguments, (slip_block_t){.index = first + i, .count = slot->block_count});
    if (__builtin_expect(arguments.fault != 0, 0)) {
      slip__kernel_fault(slot, arguments.fault, first + i);
      break;
    }
  }
  if (__builtin_expect(seat->notes, 0)) slip__crash_note(NULL, 0);
}

void slip__execute_here(slip__slot_t *slot, slip__seat_t *seat) {
  slot->ran = slot->kernel && slip__execute_wanted(slot);
  if (slot->ran) slip__execute_blocks(slot, seat, 0, slot->block_count);
}

void slip__execute_alone(slip__slot_t *slot, slip__seat_t *seat) {
  slip__execute_here(slot, seat);
  // Nobody else has seen the task; release only because all readers of the word acquire.
  atomic_store_explicit(&slot->successors, SLIP__SUCCESSORS_CLOSED, memory_order_release);
}

static inline slip__slot_t **slip__item_link(slip__slot_t *item) {
  return slip__item_is_slot(item) ? &item->next : slip__replay_item_link(item);
}

void slip__make_ready(slip__seat_t *seat, slip__slot_t *slot) {
  if (__builtin_expect(slip__queue_push(&seat->queue, slot), 1)) return;
  *slip__item_link(slot) = seat->overflow;
  seat->overflow = slot;
}

slip__slot_t *slip__complete(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *slot) {
  slip__seat_t *submitter = slot->workspace->seat;  // before the exchange: from then on slot and workspace may be gone
  slip__chaos_point(SLIP__CHAOS_CLOSE);
  uintptr_t list = atomic_exchange_explicit(&slot->successors, SLIP__SUCCESSORS_CLOSED, memory_order_seq_cst);
  slip__chaos_point(SLIP__CHAOS_CLOSED);
  slip__wake_submitter(submitter);
  slip__slot_t *next = NULL;
  uint32_t queued = 0;
  for (slip__edge_t *edge = (slip__edge_t *)list; edge;) {
    slip__slot_t *consumer = edge->consumer;
    edge = edge->next;  // before the count: the consumer may run and its edges be used again
    slip__chaos_point(SLIP__CHAOS_COUNT_DOWN);
    if (atomic_fetch_sub_explicit(&consumer->pending, 1, memory_order_acq_rel) != 1) continue;
    if (next) {
      slip__make_ready(seat, next);
      ++queued;
    }
    next = consumer;  // the list runs from the newest to the oldest: the oldest runs here, its inputs still in this core's cache
  }
  if (queued) slip__wake_for_queued(engine, seat, queued);
  return next;
}

// The consumer that will most likely run next: its lines travel while this task's kernel runs.
static void slip__execute_prefetch(slip__slot_t *slot) {
  uintptr_t list = atomic_load_explicit(&slot->successors, memory_order_relaxed);
  if (list <= SLIP__SUCCESSORS_CLOSED) return;
  const char *line = (const char *)(list & ~(uintptr_t)63);
  __builtin_prefetch(line);
  slip__prefetch_write(line - offsetof(slip__slot_t, edges));  // the slot's first line, where the edge lies in the slot itself
  __builtin_prefetch(line - offsetof(slip__slot_t, edges) + 64);
}

static slip__slot_t *slip__execute_task(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *slot) {
  bool wanted = slot->kernel && slip__execute_wanted(slot);
  if (wanted) {
    slip__execute_prefetch(slot);
    if (__builtin_expect(slot->block_count > 1 && engine->worker_count, 0)) return slip__board_run(engine, seat, slot);
    slip__execute_blocks(slot, seat, 0, slot->block_count);
  }
  slot->ran = wanted;
  return slip__complete(engine, seat, slot);
}

__attribute__((noinline)) void slip__execute_gang(slip__engine_t *engine, slip__seat_t *seat) {
  slip__slot_t *next;
  if (slip__board_join(engine, seat, &next) && next) slip__make_ready(seat, next);
}

void slip__execute_chain(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *slot) {
  while (slot) {
    if (__builtin_expect(!slip__item_is_slot(slot), 0)) {
      slot = slip__replay_execute(engine, seat, slot);
      continue;
    }
    if (__builtin_expect(slip__board_gang_waits(&engine->board), 0)) slip__execute_gang(engine, seat);
    slot = slip__execute_task(engine, seat, slot);
  }
}

// Takes tasks out of the queue of |from| and runs them.
static bool slip__help_from(slip__engine_t *engine, slip__seat_t *seat, slip__seat_t *from) {
  slip__slot_t *batch[SLIP__QUEUE_BATCH];
  uint32_t count = slip__queue_take(&from->queue, engine->thread_count, batch);
  for (uint32_t i = 0; i < count; ++i) {
    slip__prefetch_write(batch[i]);
    __builtin_prefetch((const char *)batch[i] + 64);
  }
  for (uint32_t i = 0; i < count; ++i) slip__execute_chain(engine, seat, batch[i]);
  return count != 0;
}

bool slip__help(slip__engine_t *engine, slip__seat_t *seat) {
  slip__slot_t *next;
  if (slip__board_join(engine, seat, &next)) {
    slip__execute_chain(engine, seat, next);
    return true;
  }
  if (__builtin_expect(seat->overflow != NULL, 0)) {
    next = seat->overflow;
    seat->overflow = *slip__item_link(next);
    slip__execute_chain(engine, seat, next);
    return true;
  }
  if (slip__queue_unpublished(&seat->queue)) slip__queue_publish(&seat->queue);
  if (slip__help_from(engine, seat, seat)) return true;
  // Acquire: pairs with the release in slip__engine_add_seat.
  uint32_t count = atomic_load_explicit(&engine->seat_count, memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    if (++seat->victim >= count) seat->victim = 0;
    if (seat->victim == seat->index || !slip__help_from(engine, seat, engine->seats[seat->victim])) continue;
    if (seat->victim-- == 0) seat->victim = count - 1;  // there may be more where this came from
    return true;
  }
  return false;
}

bool slip__work_is_visible(slip__engine_t *engine) {
  if (atomic_load_explicit(&engine->board.open, memory_order_seq_cst) != 0) return true;
  uint32_t count = atomic_load_explicit(&engine->seat_count, memory_order_seq_cst);
  for (uint32_t i = 0; i < count; ++i) {
    if (slip__queue_size(&engine->seats[i]->queue) != 0) return true;
  }
  return false;
}

#define SLIP__HUNGRY_ROUNDS 16u  // a microsecond or two

void slip__worker_main(void *user) {
  slip__seat_t *seat = user;
  slip__engine_t *engine = seat->engine;
  slip__idle_t idle = {0};
  bool hungry = false;
  while (!atomic_load_explicit(&engine->stop, memory_order_acquire)) {
    slip__stall_turn(seat);
    bool helped = slip__help(engine, seat);
    if (__builtin_expect(hungry ? helped : idle.rounds >= SLIP__HUNGRY_ROUNDS && !helped, 0)) {
      (void)atomic_fetch_add_explicit(&engine->hungry, helped ? UINT32_MAX : 1u, memory_order_relaxed);
      hungry = !helped;
    }
    if (helped) {
      idle = (slip__idle_t){0};
    } else if (slip__idle_spin(&idle)) {
      slip__park_worker(engine, seat);
      idle = (slip__idle_t){0};
    }
  }
}
