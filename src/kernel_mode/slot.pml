// SPDX-License-Identifier: Apache-2.0
// Model of slot.c and of slip__tickets_drain_slots in ticket.c: run slots as bits of one word. Bounds: a prepare that needs all slots and 1
// slot, 2 launches, a drain; or (TWO_SLOTS) 2 slots, 3 launches.
//
//   here           code
//   try            slip__slot_try: load, then compare-and-swap until it takes the lowest bit or finds none (the spins before sleeping are
//                  the same step repeated)
//   Launch         slip__slot_acquire(wait), the run, slip__slot_release: |uses| by its one writer, the bit, raise
//   Prepare        slip__slot_acquire_all and _release_all
//   Drain          slip__tickets_drain_slots
//   raise, sleep   signal.h, see signal.pml
//
// Shown: one holder a slot; all slots are nobody's while a prepare has them; each run that held a slot when a drain began has left it when
// the drain ends; nobody sleeps for ever.
// Hidden by sequential consistency: that the next holder sees the slot's fields as the last one left them (seq_cst implies it).
//
// check: safety
// check: TWO_SLOTS
// mutant: BREAK_TRY_STORE          the bit is taken by a store
// mutant: BREAK_ALL_NO_RAISE       release_all wakes nobody
// mutant: BREAK_USES_LATE          |uses| grows after the slot was given back
// mutant: BREAK_DRAIN_LOOKS_ONCE   the drain looks at the bit before it is counted as a waiter
#ifdef TWO_SLOTS
#define SLOTS    2
#define LAUNCHES 3
#define ALL      3
#else
#define SLOTS    1
#define LAUNCHES 2
#define ALL      1
#endif
#define DRAIN    3  // its place among the sleepers

byte free_slots = ALL;
byte uses[SLOTS], held[SLOTS], finished[SLOTS];
bool running[SLOTS];
bool all_taken = false;
byte waiters = 0, sequence = 0;
bool asleep[4];
byte over = 0;

inline raise() {
  if
  :: waiters == 0
  :: else -> d_step { sequence++; asleep[0] = false; asleep[1] = false; asleep[2] = false; asleep[3] = false }
  fi
}
inline enter() { waiters++; key = sequence }
inline sleep(me) {
  atomic {
    if
    :: sequence == key -> asleep[me] = true
    :: else
    fi
  }
  !asleep[me];
  key = sequence
}

#define LOWEST(word) ((word) & 1 -> 0 : 1)

inline try() {
#ifdef BREAK_TRY_STORE
  word = free_slots;
#endif
  atomic {
#ifndef BREAK_TRY_STORE
    word = free_slots;
#endif
    if
    :: word == 0 -> slot = SLOTS
    :: else ->
      slot = LOWEST(word);
      free_slots = word & ~(1 << slot);
      held[slot]++; running[slot] = true;
      assert(held[slot] == 1 && !all_taken)
    fi;
    word = 0
  }
}

proctype Launch(byte me) {
  byte slot, word, key;
  try();
  if
  :: slot < SLOTS
  :: else ->
    enter();
    do
    :: try();
      if
      :: slot < SLOTS -> break
      :: else -> sleep(me)
      fi
    od;
    waiters--;
    key = 0
  fi;
#ifdef BREAK_USES_LATE
  atomic { held[slot]--; finished[slot]++; running[slot] = false; free_slots = free_slots | (1 << slot) }
  word = uses[slot];
  uses[slot] = word + 1;
#else
  atomic { finished[slot]++; running[slot] = false; word = uses[slot] }
  uses[slot] = word + 1;
  atomic { held[slot]--; free_slots = free_slots | (1 << slot) }
#endif
  raise();
  over++
}

proctype Prepare() {
  atomic {
    if
    :: free_slots == ALL -> free_slots = 0; all_taken = true
    :: else -> goto out  // BUSY
    fi
  }
  atomic { all_taken = false; free_slots = free_slots | ALL }
#ifndef BREAK_ALL_NO_RAISE
  raise();
#endif
out:
  over++
}

proctype Drain() {
  byte i, seen, key, begun[SLOTS];
  atomic {
    for (i : 0 .. SLOTS - 1) { begun[i] = (running[i] -> finished[i] + 1 : 0) }
    i = 0
  }
  for (i : 0 .. SLOTS - 1) {
    seen = uses[i];
#ifdef BREAK_DRAIN_LOOKS_ONCE
    if
    :: (free_slots & (1 << i)) == 0 && uses[i] == seen -> enter(); sleep(DRAIN); waiters--
    :: else
    fi
#else
    enter();
    do
    :: (free_slots & (1 << i)) != 0 -> break
    :: else ->
      if
      :: uses[i] != seen -> break
      :: else -> sleep(DRAIN)
      fi
    od;
    waiters--
#endif
  }
  atomic {
    for (i : 0 .. SLOTS - 1) { assert(finished[i] >= begun[i]) }
  }
  over++
}

init {
  byte i;
  atomic {
    run Launch(0); run Launch(1); run Prepare();
#ifdef TWO_SLOTS
    run Launch(2)
#else
    run Drain()
#endif
  }
  over == 4;
  assert(free_slots == ALL && waiters == 0);
  for (i : 0 .. SLOTS - 1) { assert(held[i] == 0 && uses[i] == finished[i]) }
}
