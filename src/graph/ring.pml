// SPDX-License-Identifier: Apache-2.0
// Model of ring.h/ring.c and heap.c: heap rings of scopes, reclaimed when tasks retire in order. Bounds: 2 scope depths with a ring each, 3
// units of heap a ring, blocks of 1 or 2 units, any program of at most 9 steps (begin, end, output with its task), any order of completion;
// 1 ended scope a ring, with which a second one is merged.
//
//   here        code
//   allocate    slip__ring_allocate; when it does not fit, slip__heap_wait: retire all, reclaim, else wait for the oldest ended scope
//   end_scope   slip__ring_end_scope, with the merging when the queue is full
//   retire      slip__ring_retire: in order, as far as complete
//   reclaim     slip__ring_reclaim, with the return to the start when all is free
//   Executor    completes any task at any time
//   sequence    task numbers of a ring start at 0
//
// Shown: a new block never overlaps a block that is alive: its scope has not ended, or a task that was submitted before the end, in its ring
// or a deeper one, is not complete; waiting for room ends unless only open scopes hold the heap, which the code reports as a deadlock.
// Hidden by sequential consistency: that a task's writes precede the reuse (acquire of the load of CLOSED).
//
// check: safety
// mutant: BREAK_OWN_RING        an ended scope waits for its own ring's tasks alone
// mutant: BREAK_OUT_OF_ORDER    retiring skips tasks that are not complete
// mutant: BREAK_NO_WRAP         a block may begin at the end of the ring and go on at its start
// mutant: BREAK_OFF_BY_ONE      one unit more fits than there is
// mutant: BREAK_MERGE_OLD       merged scopes keep the older one's tasks
// mutant: BREAK_RESET_EARLY     the ring returns to its start while ended scopes wait
// unreached: 2  a block of 1 unit always fits before the end of the ring
#define RINGS    2
#define CAPACITY 3
#define STEPS    9
#define ENDED    1
#define BLOCKS   8

byte next[RINGS], retired[RINGS];
byte complete[RINGS];              // a bit for each task
byte head[RINGS], tail[RINGS];     // only grow, but for the return to the start
byte ended_head[RINGS], ended_tail[RINGS];
byte ended_heap[RINGS * ENDED], ended_task0[RINGS * ENDED], ended_task1[RINGS * ENDED];
byte depth = 0;                    // scopes open
bool submitting = true;

// Blocks as the program sees them.
byte blocks = 0;
byte block_ring[BLOCKS], block_place[BLOCKS], block_size[BLOCKS], block_end0[BLOCKS], block_end1[BLOCKS];
bool block_open[BLOCKS];

#define BELOW(count)     ((1 << (count)) - 1)
#define ALL(ring, count) ((complete[ring] & BELOW(count)) == BELOW(count))
#define ALIVE(b)         (block_open[b] || !(block_ring[b] == 1 || ALL(0, block_end0[b])) || !ALL(1, block_end1[b]))
#define ENTRY(ring, at)  ((ring) * ENDED + (at) % ENDED)

inline retire(r) {
  do
#ifdef BREAK_OUT_OF_ORDER
  :: retired[r] < next[r] && (complete[r] >> retired[r]) != 0 -> retired[r]++
#else
  :: retired[r] < next[r] && (complete[r] & (1 << retired[r])) != 0 -> retired[r]++
#endif
  :: else -> break
  od
}

inline reclaim(r) {
  do
  :: ended_head[r] != ended_tail[r] && retired[0] >= ended_task0[ENTRY(r, ended_head[r])] && retired[1] >= ended_task1[ENTRY(r, ended_head[r])] ->
    tail[r] = ended_heap[ENTRY(r, ended_head[r])];
    ended_head[r]++
  :: else -> break
  od;
  if
#ifdef BREAK_RESET_EARLY
  :: ended_head[r] != ended_tail[r] && head[r] == ended_heap[ENTRY(r, ended_tail[r] - 1)]
#else
  :: tail[r] == head[r] && ended_head[r] == ended_tail[r]
#endif
    -> head[r] = 0; tail[r] = 0
  :: else
  fi
}

inline end_scope(r) {
  if
  :: ended_head[r] == ended_tail[r] -> before = tail[r]
  :: else -> before = ended_heap[ENTRY(r, ended_tail[r] - 1)]
  fi;
  if
  :: before == head[r]
  :: else ->
    merged = ended_tail[r] - ended_head[r] == ENDED;
    ended_tail[r] = ended_tail[r] - merged;
    at = ENTRY(r, ended_tail[r]);
    ended_tail[r]++;
    ended_heap[at] = head[r];
#ifdef BREAK_MERGE_OLD
    if
    :: merged -> goto kept
    :: else
    fi;
#endif
    ended_task0[at] = (r == 0 -> next[0] : 0);
    ended_task1[at] = next[1];
#ifdef BREAK_OWN_RING
    ended_task1[at] = (r == 1 -> next[1] : 0);
#endif
  fi;
#ifdef BREAK_MERGE_OLD
kept:
#endif
  for (b : 0 .. BLOCKS - 1) {
    if
    :: b < blocks && block_ring[b] == r && block_open[b] -> block_open[b] = false; block_end0[b] = next[0]; block_end1[b] = next[1]
    :: else
    fi
  }
  before = 0; merged = 0; at = 0; b = 0
}

// Sets |place|, or CAPACITY if it does not fit.
inline allocate(r) {
  start = head[r];
  place = start % CAPACITY;
#ifndef BREAK_NO_WRAP
  if
  :: place + size > CAPACITY -> start = start + CAPACITY - place; place = 0
  :: else
  fi;
#endif
  if
#ifdef BREAK_OFF_BY_ONE
  :: start + size - tail[r] > CAPACITY + 1 -> place = CAPACITY
#else
  :: start + size - tail[r] > CAPACITY -> place = CAPACITY
#endif
  :: else -> head[r] = start + size
  fi;
  start = 0
}

#define OVERLAP(b) (block_place[b] < place + size && place < block_place[b] + block_size[b])

inline output(r) {
  atomic { allocate(r) }
  do
  :: place < CAPACITY -> break
  :: else ->  // slip__heap_wait
    atomic {
      retire(0); retire(1);
      reclaim(r);
      allocate(r)
    }
    if
    :: place < CAPACITY -> break
    :: else ->
      if
      :: ended_head[r] == ended_tail[r] -> goto out  // slip__heap_deadlock: the run fails
      :: else
      fi;
      // slip__wait_retired of both rings.
      atomic { ALL(0, ended_task0[ENTRY(r, ended_head[r])]) -> retire(0) }
      atomic { ALL(1, ended_task1[ENTRY(r, ended_head[r])]) -> retire(1) }
    fi
  od;
  atomic {
    assert(place + size <= CAPACITY);
    for (b : 0 .. BLOCKS - 1) {
      if
      :: b < blocks && block_ring[b] == r -> assert(!ALIVE(b) || !OVERLAP(b))
      :: else
      fi
    }
    block_ring[blocks] = r; block_place[blocks] = place; block_size[blocks] = size; block_open[blocks] = true;
    blocks++;
    next[r]++;  // its task
    b = 0; place = 0
  }
}

proctype Submitter() {
  byte step, size, place, start, before, at, b;
  bit merged;
  for (step : 1 .. STEPS) {
    if
    :: depth < RINGS -> depth++
    :: depth > 0 -> atomic { end_scope(depth - 1); depth-- }
    :: depth > 0 -> size = 1; output(depth - 1)
    :: depth > 0 -> size = 2; output(depth - 1)
    fi;
    size = 0
  }
out:
  submitting = false
}

#define COMPLETE(r, i) atomic { i < next[r] && (complete[r] & (1 << i)) == 0 -> complete[r] = complete[r] | (1 << i) }

proctype Executor() {
end:
  do
  :: COMPLETE(0, 0)
  :: COMPLETE(0, 1)
  :: COMPLETE(0, 2)
  :: COMPLETE(0, 3)
  :: COMPLETE(0, 4)
  :: COMPLETE(0, 5)
  :: COMPLETE(0, 6)
  :: COMPLETE(0, 7)
  :: COMPLETE(1, 0)
  :: COMPLETE(1, 1)
  :: COMPLETE(1, 2)
  :: COMPLETE(1, 3)
  :: COMPLETE(1, 4)
  :: COMPLETE(1, 5)
  :: COMPLETE(1, 6)
  od
}

init {
  atomic { run Submitter(); run Executor() }
  !submitting
}
