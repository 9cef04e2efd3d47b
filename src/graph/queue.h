// SPDX-License-Identifier: Apache-2.0
// Queue of ready tasks: one thread puts in, any thread takes out, oldest first. Single-producer, multi-consumer, bounded. An item
// is a pointer to a slot.
//
// A position is claimed by moving |top|; positions never come back (64 bits), so there is no ABA. The owner takes like everybody else:
// first in, first out is the order in which slots retire, and it lets a thief claim several tasks by one exchange.
//
//   word    operation                     order      pairs with
//   bottom  publish, after items (store)  release    the load in take: the item and its slot are visible
//           settle (store of the same)    seq_cst    a pusher that then finds no sleeper, and a sleeper that finds no task, cannot
//                                                    both be (park.h). Apart from publish, since it waits for the line
//           take (load)                   seq_cst    see above
//   top     take claims (CAS)             acq_rel    release: the acquire in append; an item is overwritten only after its
//                                                    claimer has read it
//           append looks for room (load)  acquire    the CAS in take
//   items   load and store                relaxed    ordered by the two words; a value read before a failed claim is thrown away
#ifndef SLIPSTREAM_SRC_GRAPH_QUEUE_H_
#define SLIPSTREAM_SRC_GRAPH_QUEUE_H_

#include "graph/slot.h"
#include "os/chaos.h"

#define SLIP__QUEUE_CAPACITY 2048  // a power of two; what does not fit goes to the owner's overflow list
#define SLIP__QUEUE_BATCH    8     // most tasks taken at once

typedef struct slip__queue_t {
  _Alignas(128) _Atomic(uint64_t) top;     // consumers
  _Alignas(128) _Atomic(uint64_t) bottom;  // the owner
  _Alignas(128) uint64_t tail;             // the owner's own: where the next item goes
  uint64_t published;                      // the same as |bottom|
  uint64_t top_seen;                       // a |top| it has read
  _Alignas(128) _Atomic(slip__slot_t *) items[SLIP__QUEUE_CAPACITY];
} slip__queue_t;

// Owner only. Puts |item| behind those not yet published; false if there is no room. Nobody else sees it before slip__queue_publish.
static inline bool slip__queue_append(slip__queue_t *queue, slip__slot_t *item) {
  uint64_t tail = queue->tail;
  if (__builtin_expect(tail - queue->top_seen >= SLIP__QUEUE_CAPACITY, 0)) {
    queue->top_seen = atomic_load_explicit(&queue->top, memory_order_acquire);
    if (tail - queue->top_seen >= SLIP__QUEUE_CAPACITY) return false;
  }
  atomic_store_explicit(&queue->items[tail % SLIP__QUEUE_CAPACITY], item, memory_order_relaxed);
  queue->tail = tail + 1;
  return true;
}
// Owner only. How many are not published.
static inline uint64_t slip__queue_unpublished(const slip__queue_t *queue) {
  return queue->tail - queue->published;
}
// Owner only.
static inline void slip__queue_publish(slip__queue_t *queue) {
  queue->published = queue->tail;
  slip__chaos_point(SLIP__CHAOS_QUEUE_PUSH);
  atomic_store_explicit(&queue->bottom, queue->tail, memory_order_release);
}
// Owner only. False if there is no room.
static inline bool slip__queue_push(slip__queue_t *queue, slip__slot_t *item) {
  if (!slip__queue_append(queue, item)) return false;
  slip__queue_publish(queue);
  return true;
}

// Owner only. Everything appended is published, and visible to whoever is seen not to sleep after this.
static inline void slip__queue_settle(slip__queue_t *queue) {
  queue->published = queue->tail;
  atomic_store_explicit(&queue->bottom, queue->tail, memory_order_seq_cst);
}

// Tasks waiting, at some recent moment.
static inline uint64_t slip__queue_size(slip__queue_t *queue) {
  uint64_t top = atomic_load_explicit(&queue->top, memory_order_relaxed);
  uint64_t bottom = atomic_load_explicit(&queue->bottom, memory_order_seq_cst);
  return bottom > top ? bottom - top : 0;
}

// Takes at most SLIP__QUEUE_BATCH tasks, and no more than 1/(2 |threads|) of what is there, so that a long task never hides others behind
// it while somebody is idle. Returns how many; 0 if there were none or another thread was faster.
static inline uint32_t slip__queue_take(slip__queue_t *queue, uint32_t threads, slip__slot_t **out) {
  uint64_t top = atomic_load_explicit(&queue->top, memory_order_acquire);
  uint64_t bottom = atomic_load_explicit(&queue->bottom, memory_order_seq_cst);
  if (bottom <= top) return 0;
  uint64_t count = (bottom - top) / (2 * (uint64_t)threads);
  if (count < 1) count = 1;
  if (count > SLIP__QUEUE_BATCH) count = SLIP__QUEUE_BATCH;
  for (uint64_t i = 0; i < count; ++i) {
    out[i] = atomic_load_explicit(&queue->items[(top + i) % SLIP__QUEUE_CAPACITY], memory_order_relaxed);
  }
  slip__chaos_point(SLIP__CHAOS_QUEUE_CLAIM);
  bool claimed = atomic_compare_exchange_strong_explicit(&queue->top, &top, top + count, memory_order_acq_rel, memory_order_relaxed);
  return claimed ? (uint32_t)count : 0;
}

#endif  // SLIPSTREAM_SRC_GRAPH_QUEUE_H_
