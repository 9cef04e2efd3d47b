// SPDX-License-Identifier: Apache-2.0
// Board of tasks with several blocks: whoever has time claims a range of blocks. One entry of it is for the gang: one gang at a time, so
// that two gangs never hold half of the threads each.
//
// The board outlives every workspace: a thread may look at an entry whose task is long over. The claim word makes that harmless.
//
//   claim = epoch << 32 | unclaimed blocks
//
// Epoch and count in one word: a claim succeeds only for the task whose fields were read. The count runs down, so that an exhausted entry
// shows as such by this word alone: were it a next block to be compared with |block_count|, the next task's count, written while the word
// is still the old one, would let a thread claim blocks that do not exist.
//
//   entry: free --take (CAS on |free|)--> filling --open (store claim, epoch + 1)--> open --last block claimed--> exhausted
//               open stores what its thread does not keep for itself: it runs the first blocks, those of a task's producer on its core
//               --last block done (|left| is 0)--> free, and the task is completed by that thread
//
//   word     operation                  order     pairs with
//   free     take an entry (CAS)        acquire   the release of the thread that freed it
//            free it (fetch_or)         release   the take
//   claim    open (store)               release   acquire load in join: the entry's fields and the slot
//            join (load)                acquire   see above
//            claim blocks (CAS)         acquire   as the load before it; success proves that the fields are this epoch's: the
//                                                 next one's are written only after all blocks of this one are done
//   left     blocks done (fetch_sub)    acq_rel   each other: the last thread sees the results of all blocks
//   open     set (fetch_or)             seq_cst   the idle bits, as bottom of a queue (park.h)
//            clear (fetch_and)          acq_rel   the set: whoever takes down the sign of a reopened entry sees its claim, and
//                                                 puts the sign up again
//   gang_lock                           acquire on taking, release on giving back; held for a few instructions
#ifndef SLIPSTREAM_SRC_GRAPH_BOARD_H_
#define SLIPSTREAM_SRC_GRAPH_BOARD_H_

#include "graph/slot.h"

#define SLIP__BOARD_ENTRIES 16
#define SLIP__BOARD_GANG    0  // the gang's entry

typedef struct slip__seat_t slip__seat_t;
typedef struct slip__engine_t slip__engine_t;

typedef struct slip__board_entry_t {
  _Alignas(128) _Atomic uint64_t claim;
  // Written while the entry is filling; atomic (relaxed) because a late look may coincide.
  _Atomic(slip__slot_t *) slot;
  _Atomic uint32_t block_count;
  _Alignas(128) _Atomic uint32_t left;  // blocks not done yet
} slip__board_entry_t;

typedef struct slip__board_t {
  _Atomic uint32_t open;  // entries that have unclaimed blocks
  _Alignas(128) _Atomic uint32_t free;
  _Atomic uint32_t gang_lock;
  // Under |gang_lock|.
  bool gang_active;
  slip__slot_t *gang_first;  // gangs waiting for the active one
  slip__slot_t *gang_last;
  slip__board_entry_t entries[SLIP__BOARD_ENTRIES];
} slip__board_t;

void slip__board_initialize(slip__board_t *board);
// Runs the blocks of |slot|, which this thread has taken, together with whoever joins. Returns the consumer to run next if this thread was
// the one that completed the task, else NULL. A gang that must wait for another returns NULL too.
slip__slot_t *slip__board_run(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *slot);
// Claims blocks of open tasks, the gang's first, and runs them. True if it ran any; |*out_next| is then as above.
bool slip__board_join(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t **out_next);
// True while a gang runs or waits. Takes the gang lock: for rare looks.
bool slip__board_has_gang(slip__board_t *board);
// True while a gang has blocks that nobody has claimed. Checked between tasks: a gang waits for threads, and holds those it has.
static inline bool slip__board_gang_waits(slip__board_t *board) {
  return (atomic_load_explicit(&board->open, memory_order_relaxed) & (1u << SLIP__BOARD_GANG)) != 0;
}

#endif  // SLIPSTREAM_SRC_GRAPH_BOARD_H_
