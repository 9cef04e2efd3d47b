// SPDX-License-Identifier: Apache-2.0
// Model of board.h/board.c: blocks of tasks claimed by whoever has time. Bounds: 1 entry, a task of 1 block, then one of 2 blocks, 3 threads.
//
//   here        code
//   take, open  slip__board_take_entry, slip__board_open: fields, |left|, claim, then the sign
//   work        slip__board_work: claim read, fields read, compare-and-swap; on an exhausted entry slip__board_close
//   execute     slip__board_execute
//   Thread      opens a task if there is one and the entry is free. A task of 2 blocks: keeps the first and runs it (slip__board_start). Or it
//               keeps none, as slip__board_end_gang, and claims one. All other blocks must be found by slip__board_join, by way of the sign
//
// Shown: each block runs once, as a block of the task that was opened and within its count; each task is completed once, by the thread that
// did the last block; while blocks are unclaimed the sign is found, however often the entry was opened and closed: nobody waits for ever.
// Hidden by sequential consistency: that who claims sees this epoch's fields (release of open, acquire of the claim), and the last one the
// results of all blocks (acq_rel of |left|). That the sign is also ordered with the idle bits: park.pml.
//
// check: safety
// mutant: BREAK_NO_EPOCH         the claim holds the count alone
// mutant: BREAK_NO_REOPEN        close does not put the sign up again
// mutant: BREAK_CLAIM_FIRST      open stores the claim before the fields
// mutant: BREAK_FREE_EARLY       the entry is free when its last block is claimed, not when it is done
// mutant: BREAK_COUNT_UP         the claim holds the next block, compared with |block_count|
// mutant: BREAK_KEPT_CLAIMABLE   open stores all blocks, the kept one too
#define TASKS   2
#define THREADS 3

#define BLOCKS(task) ((task) == 0 -> 1 : 2)
#ifdef BREAK_COUNT_UP
#define EXHAUSTED(number) ((number) >= entry_count)
#else
#define EXHAUSTED(number) ((number) == 0)
#endif
#ifdef BREAK_NO_EPOCH
#define SAME() (claim == number)
#else
#define SAME() (claim == number && claim_epoch == epoch)
#endif

byte claim = 0, claim_epoch = 0;  // one word
byte entry_slot, entry_count = 0, left;
bool sign = false, free = true;
byte next_task = 0, over = 0;
byte block_ran[TASKS * 2];
byte completed[TASKS];
byte completed_total = 0;

#ifdef BREAK_KEPT_CLAIMABLE
#define UNCLAIMED(task) BLOCKS(task)
#else
#define UNCLAIMED(task) (BLOCKS(task) - kept)
#endif

inline open(task) {
  if
  :: kept = 0
  :: BLOCKS(task) == 2 -> kept = 1
  fi;
  epoch = claim_epoch + 1;
#ifdef BREAK_CLAIM_FIRST
  atomic { claim = UNCLAIMED(task); claim_epoch = epoch }
#endif
  atomic { entry_slot = task; entry_count = BLOCKS(task); left = BLOCKS(task) }
#ifndef BREAK_CLAIM_FIRST
#ifdef BREAK_COUNT_UP
  atomic { claim = kept; claim_epoch = epoch }
#else
  atomic { claim = UNCLAIMED(task); claim_epoch = epoch }
#endif
#endif
  sign = true;
  epoch = 0
}

// Block |first| of |task|, of |count|; |last_claimed|: no block is left to be claimed.
inline execute(last_claimed) {
#ifdef BREAK_FREE_EARLY
  atomic {
    if
    :: last_claimed -> free = true
    :: else
    fi
  }
#endif
  atomic {
    assert(count == BLOCKS(task) && first < count && block_ran[task * 2 + first] == 0);
    block_ran[task * 2 + first]++
  }
  atomic { left--; ran = left == 0 }
  if
  :: ran ->
#ifndef BREAK_FREE_EARLY
    free = true;
#endif
    atomic {
      completed[task]++; completed_total++;
      assert(completed[task] == 1 && block_ran[task * 2] == 1 && block_ran[task * 2 + BLOCKS(task) - 1] == 1)
    }
  :: else
  fi
}

inline work() {
  ran = false;
  atomic { number = claim; epoch = claim_epoch }
  do
  :: EXHAUSTED(number) ->  // slip__board_close
    sign = false;
    if
    :: EXHAUSTED(claim)
#ifdef BREAK_NO_REOPEN
    :: else
#else
    :: else -> sign = true
#endif
    fi;
    break
  :: else ->
    count = entry_count;
    task = entry_slot;
    atomic {
      if
      :: SAME() -> ran = true;
#ifdef BREAK_COUNT_UP
        claim++
#else
        claim--
#endif
      :: else -> number = claim; epoch = claim_epoch
      fi
    }
    if
    :: ran -> break
    :: else
    fi
  od;
  if
  :: ran ->
#ifdef BREAK_COUNT_UP
    first = number;
#else
    first = count - number;
#endif
    execute(number == 1)
  :: else
  fi;
  ran = false; number = 0; epoch = 0; count = 0; task = 0; first = 0
}

proctype Thread() {
  byte number, epoch, count, task, first, kept;
  bool ran;
  do
  :: completed_total == TASKS -> break
  :: next_task < TASKS && free ->
    atomic {
      if
      :: next_task < TASKS && free -> free = false; task = next_task; next_task++; ran = true
      :: else
      fi
    }
    if
    :: ran ->
      ran = false;
      open(task);
      if
      :: kept == 1 -> count = BLOCKS(task); first = 0; execute(false); ran = false; count = 0; task = 0; kept = 0
      :: else -> work()
      fi
    :: else
    fi
  :: sign -> work()
  od;
  over++
}

init {
  byte i;
  atomic {
    for (i : 1 .. THREADS) { run Thread() }
  }
  over == THREADS;
  assert(free && completed_total == TASKS)
}
