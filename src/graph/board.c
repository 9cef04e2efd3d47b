// SPDX-License-Identifier: Apache-2.0
#include "graph/board.h"

#include "graph/execute.h"
#include "graph/park.h"
#include "graph/recorded/replay.h"
#include "graph/state.h"
#include "os/chaos.h"

void slip__board_initialize(slip__board_t *board) {
  atomic_store_explicit(&board->free, ((1u << SLIP__BOARD_ENTRIES) - 1u) & ~(1u << SLIP__BOARD_GANG), memory_order_relaxed);
}

static void slip__board_lock(slip__board_t *board) {
  // Held for a few instructions; if it takes longer its holder has lost its core, perhaps to this thread.
  for (uint32_t spins = 1; atomic_exchange_explicit(&board->gang_lock, 1, memory_order_acquire); ++spins) {
    slip__cpu_relax();
    if (spins % 64 == 0) slip__thread_yield();
  }
}
static void slip__board_unlock(slip__board_t *board) {
  atomic_store_explicit(&board->gang_lock, 0, memory_order_release);
}

bool slip__board_has_gang(slip__board_t *board) {
  slip__board_lock(board);
  bool active = board->gang_active;
  slip__board_unlock(board);
  return active;
}

// The index of an entry for the calling thread to fill, or 0 if all are in use.
static uint32_t slip__board_take_entry(slip__board_t *board) {
  uint32_t free = atomic_load_explicit(&board->free, memory_order_relaxed);
  while (free) {
    uint32_t bit = free & (~free + 1u);
    if (atomic_compare_exchange_weak_explicit(&board->free, &free, free & ~bit, memory_order_acquire, memory_order_relaxed)) {
      return (uint32_t)__builtin_ctz(bit);
    }
  }
  return 0;
}

// The blocks of |slot|, a task's or a recorded node's, are over.
static slip__slot_t *slip__board_complete(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *slot) {
  if (__builtin_expect((slot->flags & SLIP__SLOT_OF_NODE) != 0, 0)) return slip__replay_blocks_over(engine, seat, slot);
  return slip__complete(engine, seat, slot);
}

// Puts |slot| on the board. The caller keeps the first |taken| blocks, less than all, to run them itself: the thread that released a task
// starts it, whoever else looks.
static void slip__board_open(slip__engine_t *engine, uint32_t index, slip__slot_t *slot, uint32_t taken) {
  slip__board_entry_t *entry = &engine->board.entries[index];
  uint64_t epoch = (atomic_load_explicit(&entry->claim, memory_order_relaxed) >> 32) + 1;
  // Before the entry is open: if no block is the caller's, others may complete the task, and its slot be filled again.
  uint32_t blocks = slot->block_count;
  slip__seat_t *submitter = slot->workspace->seat;
  atomic_store_explicit(&entry->slot, slot, memory_order_relaxed);
  atomic_store_explicit(&entry->block_count, blocks, memory_order_relaxed);
  atomic_store_explicit(&entry->left, blocks, memory_order_relaxed);
  atomic_store_explicit(&entry->claim, epoch << 32 | (blocks - taken), memory_order_release);
  slip__chaos_point(SLIP__CHAOS_BOARD_OPEN);
  (void)atomic_fetch_or_explicit(&engine->board.open, 1u << index, memory_order_seq_cst);
  slip__wake_workers(engine, blocks - taken);
  // A gang may need every thread of its run. A submitter that sleeps waits for a task to end, and blocks that wait for its share never do.
  if (index == SLIP__BOARD_GANG) slip__wake_submitter(submitter);
}

// The next gang takes the entry over, or it stands empty.
static void slip__board_end_gang(slip__engine_t *engine) {
  slip__board_t *board = &engine->board;
  slip__board_lock(board);
  slip__slot_t *next = board->gang_first;
  if (next) board->gang_first = next->next;
  board->gang_active = next != NULL;
  slip__board_unlock(board);
  if (next) slip__board_open(engine, SLIP__BOARD_GANG, next, 0);
}

// Takes down the sign of an exhausted entry. The entry may have been opened again meanwhile, with its sign just taken down: then it is put
// up again. The acquire pairs with the release of slip__board_open's fetch_or, which comes after its store of the claim.
static void slip__board_close(slip__board_t *board, uint32_t index) {
  slip__board_entry_t *entry = &board->entries[index];
  slip__chaos_point(SLIP__CHAOS_BOARD_CLOSE);
  (void)atomic_fetch_and_explicit(&board->open, ~(1u << index), memory_order_acq_rel);
  if ((uint32_t)atomic_load_explicit(&entry->claim, memory_order_acquire) == 0) return;
  (void)atomic_fetch_or_explicit(&board->open, 1u << index, memory_order_seq_cst);
}

// How many of |unclaimed| blocks to claim at once: large ranges first, single blocks last, so that long and uneven blocks end together.
static uint32_t slip__board_share(const slip__engine_t *engine, uint32_t index, uint32_t unclaimed) {
  uint32_t count = index == SLIP__BOARD_GANG ? 1 : unclaimed / (2 * engine->thread_count);
  return count ? count : 1;
}

// Runs claimed blocks. The thread that ends the last one completes the task; |*out_next| is then its consumer to run next.
static void slip__board_execute(slip__engine_t *engine, slip__seat_t *seat, uint32_t index, slip__slot_t *slot, uint32_t first,
                                uint32_t count, slip__slot_t **out_next) {
  // A gang that has started runs to its end: its blocks may wait for each other.
  if (index == SLIP__BOARD_GANG || !slip__workspace_failed(slot->workspace)) slip__execute_blocks(slot, seat, first, count);
  slip__chaos_point(SLIP__CHAOS_BOARD_DONE);
  if (atomic_fetch_sub_explicit(&engine->board.entries[index].left, count, memory_order_acq_rel) != count) return;
  slot->ran = 1;
  if (index == SLIP__BOARD_GANG) {
    slip__board_end_gang(engine);
  } else {
    (void)atomic_fetch_or_explicit(&engine->board.free, 1u << index, memory_order_release);
  }
  *out_next = slip__board_complete(engine, seat, slot);
}

// Claims blocks of entry |index| once. False if there were none.
static bool slip__board_work(slip__engine_t *engine, slip__seat_t *seat, uint32_t index, slip__slot_t **out_next) {
  slip__board_entry_t *entry = &engine->board.entries[index];
  uint64_t claim = atomic_load_explicit(&entry->claim, memory_order_acquire);
  uint32_t first, count;
  slip__slot_t *slot;
  *out_next = NULL;
  do {
    uint32_t unclaimed = (uint32_t)claim;
    if (unclaimed == 0) {
      slip__board_close(&engine->board, index);
      return false;
    }
    count = slip__board_share(engine, index, unclaimed);
    first = atomic_load_explicit(&entry->block_count, memory_order_relaxed) - unclaimed;
    slot = atomic_load_explicit(&entry->slot, memory_order_relaxed);
    slip__chaos_point(SLIP__CHAOS_BOARD_CLAIM);
  } while (!atomic_compare_exchange_weak_explicit(&entry->claim, &claim, claim - count, memory_order_acquire, memory_order_acquire));
  slip__board_execute(engine, seat, index, slot, first, count, out_next);
  return true;
}

// Opens entry |index| for |slot| and runs the first of its blocks.
static slip__slot_t *slip__board_start(slip__engine_t *engine, slip__seat_t *seat, uint32_t index, slip__slot_t *slot) {
  slip__slot_t *next = NULL;
  uint32_t taken = slip__board_share(engine, index, slot->block_count);
  slip__board_open(engine, index, slot, taken);
  slip__board_execute(engine, seat, index, slot, 0, taken, &next);
  return next;
}

static slip__slot_t *slip__board_run_gang(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *slot) {
  slip__board_t *board = &engine->board;
  slip__board_lock(board);
  bool first = !board->gang_active;
  if (first) {
    board->gang_active = true;
  } else {
    slot->next = NULL;
    if (board->gang_first) board->gang_last->next = slot;
    if (!board->gang_first) board->gang_first = slot;
    board->gang_last = slot;
  }
  slip__board_unlock(board);
  return first ? slip__board_start(engine, seat, SLIP__BOARD_GANG, slot) : NULL;
}

slip__slot_t *slip__board_run(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *slot) {
  if (slot->flags & SLIP_SUBMIT_GANG) return slip__board_run_gang(engine, seat, slot);
  uint32_t index = slip__board_take_entry(&engine->board);
  if (index == 0) {  // more tasks with blocks are running than anyone could help with
    slip__execute_blocks(slot, seat, 0, slot->block_count);
    slot->ran = 1;
    return slip__board_complete(engine, seat, slot);
  }
  slip__slot_t *next = slip__board_start(engine, seat, index, slot);
  // A waiting gang comes first even here: the blocks are on the board, somebody will take them.
  while (!next && !slip__board_gang_waits(&engine->board) && slip__board_work(engine, seat, index, &next)) continue;
  return next;
}

bool slip__board_join(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t **out_next) {
  uint32_t open = atomic_load_explicit(&engine->board.open, memory_order_seq_cst);
  *out_next = NULL;
  while (open) {
    uint32_t index = (uint32_t)__builtin_ctz(open);
    if (slip__board_work(engine, seat, index, out_next)) return true;
    open &= open - 1;
  }
  return false;
}
