// SPDX-License-Identifier: Apache-2.0
// One scope-depth ring: task window, heap ring, edge pool. Single-owner: only the submitter touches it; other threads reach the slots
// alone.
//
//   task window   |next| is the sequence number of the next task, everything below |retired| has completed. Retiring is in order, so that a
//   handle is
//                 compared with one number. |order| leads from a sequence number to its slot: free slots are a stack, the last one given
//                 back is the next one filled, so that a flood keeps to as many slots as it has tasks in flight, warm in the cache.
//   heap ring     intermediates in order of creation; offsets only grow (the place is the offset modulo the capacity). A block lives until
//   its
//                 scope has ended and all tasks submitted until then, in this ring and the deeper ones, have retired: ended scopes wait in
//                 a queue in order, and each that is due moves |heap_tail| to where the heap stood at its end.
//   edge pool     edges beyond those in the slots, first in first out with the slots.
//
// Between runs everything is empty, and a run starts at the beginning of slots and heap, so that small runs keep using the same warm
// memory.
#ifndef SLIPSTREAM_SRC_GRAPH_RING_H_
#define SLIPSTREAM_SRC_GRAPH_RING_H_

#include "base/prefetch.h"
#include "graph/engine.h"
#include "graph/slot.h"

#define SLIP__HEAP_ALIGNMENT 64
#define SLIP__SLOT_AHEAD     6    // how many submits before its use a slot is fetched for writing
#define SLIP__ENDED_SCOPES   256  // waiting for their tasks; when there are more, the newest two count as one (a power of two)

// A scope of this ring that is over: its heap may be freed when the rings have retired that far.
typedef struct slip__ended_scope_t {
  uint64_t heap_end;
  uint64_t task_end[SLIP__RING_COUNT];
} slip__ended_scope_t;

typedef struct slip__ring_t {
  // Task window.
  slip__slot_t *slots;
  slip__slot_note_t *notes;  // parallel to |slots|
  uint32_t *order;           // sequence & mask -> slot
  uint32_t *free_slots;      // stack
  uint32_t free_count;
  uint32_t slot_high;  // slots ever filled
  uint32_t mask;
  uint32_t index;  // which ring this is
  uint64_t base;   // sequence number of the run's first task
  uint64_t next;
  uint64_t retired;
  slip_task_t *retired_task;  // the same as a handle, where the dependency map looks
  // Heap ring.
  char *heap;
  uint64_t heap_capacity;
  uint64_t heap_head;
  uint64_t heap_tail;
  // Edge pool.
  slip__edge_t *edges;
  uint64_t edge_capacity;
  uint64_t edge_head;
  uint64_t edge_tail;
  // Argument blocks.
  slip__argument_block_t *blocks;
  slip__argument_block_t *free_blocks;
  uint32_t block_high;  // blocks ever handed out
  // High water, for the committed bytes.
  uint64_t heap_high;
  uint64_t edge_high;
  uint32_t ended_head;
  uint32_t ended_tail;
  slip__ended_scope_t ended[SLIP__ENDED_SCOPES];
} slip__ring_t;

static inline slip__slot_t *slip__ring_slot(slip__ring_t *ring, uint64_t sequence) {
  return &ring->slots[ring->order[(uint32_t)sequence & ring->mask]];
}
static inline slip__slot_note_t *slip__ring_note(slip__ring_t *ring, uint64_t sequence) {
  return &ring->notes[ring->order[(uint32_t)sequence & ring->mask]];
}
static inline uint64_t slip__ring_live(const slip__ring_t *ring) {
  return ring->next - ring->retired;
}
static inline bool slip__ring_window_full(const slip__ring_t *ring) {
  return slip__ring_live(ring) > ring->mask;
}

// The place of the slot that the next task will take, which stays free until then; the window is not full.
static inline uint32_t slip__ring_free_slot(slip__ring_t *ring) {
  if (__builtin_expect(ring->free_count == 0, 0)) ring->free_slots[ring->free_count++] = ring->slot_high++;
  return ring->free_slots[ring->free_count - 1];
}
// Takes it. |next| moves only when the task is certain to come: until then the slot can be given back.
static inline void slip__ring_take_slot(slip__ring_t *ring, uint32_t slot) {
  uint32_t count = ring->free_count--;
  if (count > SLIP__SLOT_AHEAD) {  // one that comes soon: other threads have its first two lines
    const char *ahead = (const char *)&ring->slots[ring->free_slots[count - 1 - SLIP__SLOT_AHEAD]];
    slip__prefetch_write(ahead);
    slip__prefetch_write(ahead + 64);
  }
  ring->order[(uint32_t)ring->next & ring->mask] = slot;
}
static inline void slip__ring_give_slot(slip__ring_t *ring, uint32_t slot) {
  ring->free_slots[ring->free_count++] = slot;
}
// Takes an argument block back: of a task that is over, or never came to be.
static inline void slip__ring_give_block(slip__ring_t *ring, slip__argument_block_t *block) {
  block->next_free = ring->free_blocks;
  ring->free_blocks = block;
}
// Retires the newest task, which is over; all others have retired.
static inline void slip__ring_retire_newest(slip__ring_t *ring) {
  ring->retired = ring->next;
  *ring->retired_task = slip__task_pack(ring->next, ring->index);
}
// Starts a run: everything empty.
void slip__ring_reset(slip__ring_t *ring);
// Retires the oldest tasks as far as they are complete, and adds the kernels that ran to |inout_ran|.
void slip__ring_retire(slip__ring_t *ring, uint64_t *inout_ran);
// Frees the heap of the ended scopes of ring |index| whose tasks have retired.
void slip__ring_reclaim(slip__ring_t *rings, uint32_t index);
// Notes that a scope of ring |index| has ended now.
void slip__ring_end_scope(slip__ring_t *rings, uint32_t index);
// |size| bytes, aligned to SLIP__HEAP_ALIGNMENT, or NULL if they do not fit at the moment. |size| is at least 1 and at most the capacity.
void *slip__ring_allocate(slip__ring_t *ring, uint64_t size);
// An argument block; there is one for each slot, so this cannot fail.
slip__argument_block_t *slip__ring_take_block(slip__ring_t *ring);
// Bytes of memory touched so far, in whole pages.
uint64_t slip__ring_committed_bytes(const slip__ring_t *ring);

#endif  // SLIPSTREAM_SRC_GRAPH_RING_H_
