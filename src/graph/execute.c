// SPDX-License-Identifier: Apache-2.0
#include "graph/execute.h"

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

static bool slip__predicate_holds(const slip__slot_t *slot) {
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

bool slip__execute_wanted(const slip__slot_t *slot) {
  if (__builtin_expect(slip__workspace_failed(slot->workspace), 0)) return false;
  return __builtin_expect(slot->predicate_op == 0, 1) || slip__predicate_holds(slot);
}

void slip__execute_blocks(const slip__slot_t *slot, slip__seat_t *seat, uint32_t first, uint32_t count) {
  slip_kargs_t arguments = {
      .tensors = slot->tensors,
      .scalars = slot->scalars,
      // Acquire: pairs with the release in slip__seat_grow_scratch.
      .scratch = atomic_load_explicit(&seat->scratch, memory_order_acquire),
      .tensor_count = slot->tensor_count,
      .scalar_count = slot->scalar_count,
      .scratch_bytes = slot->scratch_bytes,
  };
  for (uint32_t i = 0; i < count; ++i) slot->run(&arguments, (slip_block_t){.index = first + i, .count = slot->block_count});
}

void slip__execute_serial(slip__slot_t *slot, slip__seat_t *seat) {
  slot->ran = slot->run && slip__execute_wanted(slot);
  if (slot->ran) slip__execute_blocks(slot, seat, 0, slot->block_count);
  // Release: no other thread has seen the task, but the slot's next life reads the word in the same way as always.
  atomic_store_explicit(&slot->successors, SLIP__SUCCESSORS_CLOSED, memory_order_release);
}
