// SPDX-License-Identifier: Apache-2.0
// Model of slot.h with slip__link (schedule.c), slip__complete (execute.c) and slip__ring_retire: ready publication versus completion, the
// closing of a successor list, and the reuse of a slot and of its edges.
// Bounds: 2 producers; 3 consumers, each waiting for both, through 2 slots for consumers, so that the third fills the slot of the first one
// that has retired; one executor a producer, one for consumers.
//
//   here              code
//   Submitter         slip__dispatch: the slot is filled, slip__link: |pending| stored, then per producer the compare-and-swap of
//                     |successors| or the count of late links, then the final subtraction, or, where all links came late, a plain store;
//                     slip__submit_ready; slip__ring_retire
//   alone             slip__execute_alone: what the task waits for has retired; it runs in its submit and stores CLOSED
//   complete          slip__complete: exchange of |successors|, then the list, |next| of an edge before the count
//   ready             the queue (queue.pml): a set of slots here
//   an edge           slot * 2 + producer + 2, so that it is neither 0 nor SLIP__SUCCESSORS_CLOSED
//
// Shown: a consumer becomes ready once, and only when both producers are over; none is forgotten; nobody follows an edge or counts down a
// slot that has been filled again; after its last link the submitter touches a slot only for the final subtraction, and none at all by an
// atomic operation if nobody else has heard of it; a task run alone is neither linked nor queued, and its slot is filled again like any.
// Hidden by sequential consistency: that the finisher sees the consumer's fields and edge (release of the link), the consumer all results
// (acq_rel of |pending|), and that a retired slot's executor is done with it (acquire of the load of CLOSED).
//
// check: safety
// mutant: BREAK_NEXT_LATE        complete reads |next| after it has counted the consumer down
// mutant: BREAK_PENDING_GROWS    |pending| grows link by link instead of being set before the first
// mutant: BREAK_CLOSE_APART      the list is read, then closed
// mutant: BREAK_LINK_STORE       a link is stored instead of exchanged: two may meet the closing
// mutant: BREAK_RETIRE_READY     a slot retires when it was taken, not when its list is closed
// mutant: BREAK_STORE_ALWAYS     |pending| is stored, not counted down, although some links were made
// mutant: BREAK_ALONE_EARLY      a task runs alone when one of its producers has retired
#define PRODUCERS 2
#define CONSUMERS 3
#define SLOTS     2
#define CLOSED    1
#define UNLINKED  99
#define EDGE(slot, producer) ((slot) * 2 + (producer) + 2)

byte successors[PRODUCERS];
bool over_producer[PRODUCERS];
byte pending[SLOTS];
byte next[2 * SLOTS + 2];  // by edge
byte task[SLOTS];          // generation of the slot: consumer + 1, 0 free
bool ready[SLOTS], closed[SLOTS], taken[SLOTS];
byte made_ready[CONSUMERS], ran[CONSUMERS];
byte over = 0;

inline make_ready(slot) {
  atomic {
    made_ready[task[slot] - 1]++;
    assert(made_ready[task[slot] - 1] == 1 && over_producer[0] && over_producer[1]);
    ready[slot] = true
  }
}

proctype Producer(byte me) {
  byte edge, slot, generation, before;
  atomic { over_producer[me] = true }  // it has run
#ifdef BREAK_CLOSE_APART
  edge = successors[me];
  successors[me] = CLOSED;
#else
  atomic { edge = successors[me]; successors[me] = CLOSED }
#endif
  do
  :: edge == 0 -> break
  :: else ->
    atomic {
      slot = (edge - 2) / 2;
      generation = task[slot];
      assert(generation != 0 && ((edge - 2) & 1) == me)
    }
#ifndef BREAK_NEXT_LATE
    atomic { edge = next[edge]; assert(task[slot] == generation && edge != UNLINKED) }
#endif
    atomic { assert(task[slot] == generation); before = pending[slot]; pending[slot]-- }
    if
    :: before == 1 -> make_ready(slot)
    :: else
    fi;
#ifdef BREAK_NEXT_LATE
    atomic { edge = next[edge]; assert(edge != UNLINKED) }
#endif
    before = 0
  od;
  over++
}

// Executes consumers; nothing waits for them here.
proctype Executor() {
  byte slot;
  do
  :: ran[0] + ran[1] + ran[2] == CONSUMERS -> break
  :: atomic {
      if
      :: ready[0] -> slot = 0
      :: ready[1] -> slot = 1
      fi;
      ready[slot] = false; taken[slot] = true
    }
    atomic { assert(task[slot] != 0); ran[task[slot] - 1]++ }
    closed[slot] = true
  od;
  over++
}

inline link(slot, producer) {
  list = successors[producer];
  do
  :: list == CLOSED -> late++; break
  :: else ->
    next[EDGE(slot, producer)] = list;
#ifdef BREAK_LINK_STORE
    successors[producer] = EDGE(slot, producer);
    break
#else
    atomic {
#ifdef BREAK_PENDING_GROWS
      if
      :: successors[producer] == list -> pending[slot]++
      :: else
      fi;
#endif
      if
      :: successors[producer] == list -> successors[producer] = EDGE(slot, producer); break
      :: else -> list = successors[producer]
      fi
    }
#endif
  od
}

inline publish() {
#ifdef BREAK_PENDING_GROWS
  pending[slot] = 0;
#else
  pending[slot] = PRODUCERS;
#endif
  late = 0;
  link(slot, 0);
  link(slot, 1);
  if
  :: late == 0
#if defined(BREAK_PENDING_GROWS)
  :: late > 0 && late < PRODUCERS
#elif defined(BREAK_STORE_ALWAYS)
  :: late > 0 && late < PRODUCERS -> pending[slot] = 0; make_ready(slot)
#else
  :: late > 0 && late < PRODUCERS ->
    atomic { assert(task[slot] == i); before = pending[slot]; pending[slot] = pending[slot] - late }
    if
    :: before == late -> make_ready(slot)
    :: else
    fi
#endif
  :: late == PRODUCERS -> pending[slot] = 0; make_ready(slot)  // nobody else knows of the task
  fi
}

// Both producers have retired, so the task may run in its submit.
inline ask() {
#ifdef BREAK_ALONE_EARLY
  alone = successors[0] == CLOSED || successors[1] == CLOSED
#else
  alone = successors[0] == CLOSED && successors[1] == CLOSED
#endif
}

inline execute_alone(slot) {
  atomic { assert(over_producer[0] && over_producer[1]); made_ready[task[slot] - 1]++; ran[task[slot] - 1]++ }
  closed[slot] = true
}

proctype Submitter() {
  byte i, slot, list, late, before;
  bool alone;
  for (i : 1 .. CONSUMERS) {
    // A slot of a task that has retired, or a fresh one.
    slot = (i - 1) % SLOTS;
    if
    :: task[slot] == 0
    :: else ->
#ifdef BREAK_RETIRE_READY
      taken[slot];
#else
      closed[slot];
#endif
    fi;
    atomic { task[slot] = i; closed[slot] = false; taken[slot] = false }
    next[EDGE(slot, 0)] = UNLINKED;  // where the edges' producers stand until they are linked
    next[EDGE(slot, 1)] = UNLINKED;
    ask();
    if
    :: alone -> execute_alone(slot)
    :: true -> publish()  // the mode is left open
    fi;
    alone = false;
    list = 0; late = 0; before = 0
  }
  over++
}

init {
  byte i;
  atomic { run Producer(0); run Producer(1); run Executor(); run Submitter() }
  over == 4;
  for (i : 0 .. CONSUMERS - 1) { assert(made_ready[i] == 1 && ran[i] == 1) }
}
