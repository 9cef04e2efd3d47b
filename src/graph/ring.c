// SPDX-License-Identifier: Apache-2.0
#include "graph/ring.h"

#include "os/chaos.h"

#define SLIP__RING_PAGE 4096u

void slip__ring_reset(slip__ring_t *ring) {
  ring->base = ring->next;
  ring->retired = ring->next;
  *ring->retired_task = slip__task_pack(ring->next, ring->index);
  ring->heap_head = 0;
  ring->heap_tail = 0;
  ring->edge_head = 0;
  ring->edge_tail = 0;
  ring->ended_head = 0;
  ring->ended_tail = 0;
}

void slip__ring_retire(slip__ring_t *ring, uint64_t *inout_ran) {
  uint64_t sequence = ring->retired;
  slip__chaos_point(SLIP__CHAOS_RETIRE);
  while (sequence != ring->next) {
    uint32_t index = ring->order[(uint32_t)sequence & ring->mask];
    slip__slot_t *slot = &ring->slots[index];
    if (!slip__slot_is_closed(slot)) break;
    const slip__slot_note_t *note = &ring->notes[index];
    *inout_ran += slot->ran;
    ring->edge_tail = note->edges_end;
    if (__builtin_expect(note->arguments != NULL, 0)) slip__ring_give_block(ring, note->arguments);
    slip__ring_give_slot(ring, index);
    ++sequence;
  }
  ring->retired = sequence;
  *ring->retired_task = slip__task_pack(sequence, ring->index);
}

static bool slip__ring_scope_is_over(const slip__ring_t *rings, const slip__ended_scope_t *scope) {
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) {
    if (rings[i].retired < scope->task_end[i]) return false;
  }
  return true;
}

void slip__ring_reclaim(slip__ring_t *rings, uint32_t index) {
  slip__ring_t *ring = &rings[index];
  while (ring->ended_head != ring->ended_tail) {
    const slip__ended_scope_t *scope = &ring->ended[ring->ended_head % SLIP__ENDED_SCOPES];
    if (!slip__ring_scope_is_over(rings, scope)) break;
    ring->heap_tail = scope->heap_end;
    ++ring->ended_head;
  }
  if (ring->heap_tail == ring->heap_head && ring->ended_head == ring->ended_tail) {
    ring->heap_head = 0;
    ring->heap_tail = 0;
  }
}

void slip__ring_end_scope(slip__ring_t *rings, uint32_t index) {
  slip__ring_t *ring = &rings[index];
  bool empty = ring->ended_head == ring->ended_tail;
  uint64_t before = empty ? ring->heap_tail : ring->ended[(ring->ended_tail - 1) % SLIP__ENDED_SCOPES].heap_end;
  if (before == ring->heap_head) return;  // nothing was allocated since
  if (ring->ended_tail - ring->ended_head == SLIP__ENDED_SCOPES) --ring->ended_tail;
  slip__ended_scope_t *scope = &ring->ended[ring->ended_tail++ % SLIP__ENDED_SCOPES];
  scope->heap_end = ring->heap_head;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) scope->task_end[i] = i < index ? 0 : rings[i].next;
}

void *slip__ring_allocate(slip__ring_t *ring, uint64_t size) {
  size = (size + (SLIP__HEAP_ALIGNMENT - 1)) & ~(uint64_t)(SLIP__HEAP_ALIGNMENT - 1);
  uint64_t start = ring->heap_head;
  uint64_t place = start % ring->heap_capacity;
  if (place + size > ring->heap_capacity) {  // a block is in one piece: the rest of the round stays unused
    start += ring->heap_capacity - place;
    place = 0;
  }
  if (start + size - ring->heap_tail > ring->heap_capacity) return NULL;
  ring->heap_head = start + size;
  if (place + size > ring->heap_high) ring->heap_high = place + size;
  return ring->heap + place;
}

slip__argument_block_t *slip__ring_take_block(slip__ring_t *ring) {
  slip__argument_block_t *block = ring->free_blocks;
  if (!block) return &ring->blocks[ring->block_high++];
  ring->free_blocks = block->next_free;
  return block;
}

static uint64_t slip__ring_pages(uint64_t bytes) {
  return (bytes + SLIP__RING_PAGE - 1) & ~(uint64_t)(SLIP__RING_PAGE - 1);
}

uint64_t slip__ring_committed_bytes(const slip__ring_t *ring) {
  return slip__ring_pages((uint64_t)ring->slot_high * (sizeof(slip__slot_t) + sizeof(slip__slot_note_t) + 8)) +
         slip__ring_pages(ring->heap_high) + slip__ring_pages(ring->edge_high * sizeof(slip__edge_t)) +
         slip__ring_pages((uint64_t)ring->block_high * sizeof(slip__argument_block_t));
}
