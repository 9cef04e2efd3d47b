// SPDX-License-Identifier: Apache-2.0
// A gate: one word that says which id lives here, whether it still admits users, and how many are inside. It decides launch versus release
// versus close without a lock.
//
//   bits 63..32  id of the occupant
//   bit  31      CLOSED: nobody may enter
//   bits 30..0   users inside
//
//   operation  from                  to                          who                      order
//   open(id)   CLOSED, 0 inside      id, open, 0 inside          prepare, registry lock   release: publishes the occupant's fields
//   enter(id)  id matches and open   +1 inside                   launch, any thread       acquire: pairs with open
//   share      n > 0 inside          n+1                         whoever is inside        relaxed: it adds nothing to its own enter
//   leave      n inside              n-1; last: CLOSED and 0     whoever entered          acq_rel: users' work precedes the last return
//   close(id)  id matches and open   CLOSED; last: 0 inside      release, close           acq_rel: the same when nobody is inside
//
// Invariants (each step is one compare-and-swap or fetch-and-sub on the word, so a model checker needs no more than this table):
//   - after close() no enter() succeeds: only who is inside can bring others in, hence a count of 0 stays 0;
//   - exactly one call of {close, leave} returns last = true per open(): the one that makes the word CLOSED with 0 inside;
//   - an id is compared in the same step that counts the user in: a word reused for another id in between is not entered (no ABA);
//   - a zeroed word is not a valid gate: initialise with SLIP__GATE_SHUT.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_GATE_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_GATE_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SLIP__GATE_CLOSED     (UINT64_C(1) << 31)
#define SLIP__GATE_COUNT_MASK (SLIP__GATE_CLOSED - 1)
#define SLIP__GATE_SHUT       SLIP__GATE_CLOSED

typedef _Atomic uint64_t slip__gate_t;

static inline uint64_t slip__gate_word(uint32_t id) {
  return (uint64_t)id << 32;
}
static inline bool slip__gate_admits(uint64_t word, uint32_t id) {
  return (word >> 32) == id && (word & SLIP__GATE_CLOSED) == 0;
}

static inline void slip__gate_open(slip__gate_t *gate, uint32_t id) {
  atomic_store_explicit(gate, slip__gate_word(id), memory_order_release);
}

static inline bool slip__gate_enter(slip__gate_t *gate, uint32_t id) {
  uint64_t word = atomic_load_explicit(gate, memory_order_relaxed);
  do {
    if (__builtin_expect(!slip__gate_admits(word, id), 0)) return false;
  } while (!atomic_compare_exchange_weak_explicit(gate, &word, word + 1, memory_order_acquire, memory_order_relaxed));
  return true;
}

// For a caller who is inside: one more user, also after close().
static inline void slip__gate_share(slip__gate_t *gate) {
  atomic_fetch_add_explicit(gate, 1, memory_order_relaxed);
}

// True for the last user of a closed gate.
static inline bool slip__gate_leave(slip__gate_t *gate) {
  uint64_t before = atomic_fetch_sub_explicit(gate, 1, memory_order_acq_rel);
  return (before & (SLIP__GATE_CLOSED | SLIP__GATE_COUNT_MASK)) == (SLIP__GATE_CLOSED | 1);
}

// False if |id| does not live here or was closed before. |*out_last| says whether nobody is inside.
static inline bool slip__gate_close(slip__gate_t *gate, uint32_t id, bool *out_last) {
  uint64_t word = atomic_load_explicit(gate, memory_order_relaxed);
  do {
    if (!slip__gate_admits(word, id)) return false;
  } while (!atomic_compare_exchange_weak_explicit(gate, &word, word | SLIP__GATE_CLOSED, memory_order_acq_rel, memory_order_relaxed));
  *out_last = (word & SLIP__GATE_COUNT_MASK) == 0;
  return true;
}

// For statistics and for the closer that waits: users inside at this moment.
static inline uint32_t slip__gate_inside(const slip__gate_t *gate) {
  return (uint32_t)(atomic_load_explicit(gate, memory_order_acquire) & SLIP__GATE_COUNT_MASK);
}

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_GATE_H_
