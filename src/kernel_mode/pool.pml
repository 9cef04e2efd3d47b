// SPDX-License-Identifier: Apache-2.0
// Model of pool.h/pool.c: free list of indices with a tag in the head's high half. Bounds: 3 threads, 2 blocks, 2 takes each.
//
//   here                                     pool.c
//   take: head read                          the load at the start of slip__pool_take, or what a failed exchange returned
//   take: next read                          the load of next[top - 1], perhaps stale
//   take: exchange                           the compare-and-swap of |head| (a weak one may fail for nothing: the loop covers it)
//   give: head read, next store, exchange    slip__pool_give
//
// Shown: a block has one owner at a time; no block is lost; a taker gets NULL only when it saw an empty pool.
// Hidden by sequential consistency: that the taker sees the block as its last owner left it (release in give, acquire in take).
//
// check: safety
// mutant: BREAK_NO_TAG            the head is an index alone: ABA
// mutant: BREAK_NEXT_ONCE         give writes next[] before the loop only
// mutant: BREAK_TAKE_STORE        take stores the head instead of exchanging it
#define THREADS 3
#define BLOCKS  2
#define ROUNDS  2

byte head_top = 1, head_tag = 0;  // one word in the code
byte next[BLOCKS];
byte owned[BLOCKS];
byte done = 0;

#ifdef BREAK_NO_TAG
#define SAME(top, tag) (head_top == top)
#else
#define SAME(top, tag) (head_top == top && head_tag == tag)
#endif

inline take() {
  d_step { top = head_top; tag = head_tag }
  do
  :: top == 0 -> break
  :: else ->
    fresh = next[top - 1];
    atomic {
#ifndef BREAK_TAKE_STORE
      if
      :: SAME(top, tag) ->
#endif
        head_top = fresh; head_tag = head_tag + 1;
        owned[top - 1]++;
        assert(owned[top - 1] == 1);
        break
#ifndef BREAK_TAKE_STORE
      :: else -> top = head_top; tag = head_tag
      fi
#endif
    }
  od
}

inline give() {
  d_step { fresh = head_top; tag = head_tag; owned[top - 1]-- }
#ifdef BREAK_NEXT_ONCE
  next[top - 1] = fresh;
#endif
  do
  ::
#ifndef BREAK_NEXT_ONCE
    next[top - 1] = fresh;
#endif
    atomic {
      if
      :: SAME(fresh, tag) -> head_top = top; head_tag = head_tag + 1; break
      :: else -> fresh = head_top; tag = head_tag
      fi
    }
  od
}

proctype Thread() {
  byte top, tag, fresh, round;
  for (round : 1 .. ROUNDS) {
    take();
    if
    :: top == 0
    :: else -> give()
    fi;
    top = 0; tag = 0; fresh = 0
  }
  done++
}

init {
  byte i;
  atomic {
    for (i : 0 .. BLOCKS - 1) { next[i] = (i + 1 < BLOCKS -> i + 2 : 0) }
    for (i : 1 .. THREADS) { run Thread() }
  }
  done == THREADS;
  // All blocks are back, each once.
  i = head_top;
  byte found = 0;
  do
  :: i == 0 -> break
  :: else -> found++; assert(found <= BLOCKS); i = next[i - 1]
  od;
  assert(found == BLOCKS)
}
