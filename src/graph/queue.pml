// SPDX-License-Identifier: Apache-2.0
// Model of queue.h: one thread puts in, any thread takes out. Bounds: capacity 2, 4 tasks, the owner and 2 thieves; batches of 1 or 2.
//
//   here    queue.h
//   push    slip__queue_push: |top| is read only when |top_seen| leaves no room; the item, then |bottom|
//   take    slip__queue_take: |top|, |bottom|, the items, then the compare-and-swap of |top|. How many is left open: any number the code
//           could choose is among those tried
//
// Shown: each task is taken once and none twice; an item is overwritten only after its claimer has read it; what is claimed was put in.
// Hidden by sequential consistency: that an item and its slot are visible to who sees |bottom| (release/acquire), and that its reader is
// done with it for who sees |top|.
//
// check: safety
// mutant: BREAK_READ_LATE       take reads the items after it has claimed them
// mutant: BREAK_BOTTOM_FIRST    push moves |bottom| before it writes the item
// mutant: BREAK_TAKE_STORE      take stores |top| instead of exchanging it
// mutant: BREAK_NO_ROOM_CHECK   push does not look whether there is room
#define CAPACITY 2
#define TASKS    4
#define THIEVES  2

byte top = 0, bottom = 0;
byte items[CAPACITY];
byte taken[TASKS + 1];
byte total = 0, over = 0;

inline take() {
  position = top;
  last = bottom;
  if
  :: last <= position -> count = 0
  :: else ->
    if
    :: count = 1
    :: last - position >= 2 -> count = 2
    fi;
#ifndef BREAK_READ_LATE
    first = items[position % CAPACITY];
    if
    :: count == 2 -> second = items[(position + 1) % CAPACITY]
    :: else
    fi;
#endif
    atomic {
#ifdef BREAK_TAKE_STORE
      top = position + count;
#else
      if
      :: top == position -> top = position + count
      :: else -> count = 0
      fi
#endif
    }
#ifdef BREAK_READ_LATE
    if
    :: count > 0 -> first = items[position % CAPACITY]
    :: else
    fi;
    if
    :: count == 2 -> second = items[(position + 1) % CAPACITY]
    :: else
    fi;
#endif
  fi;
  atomic {
    if
    :: count >= 1 -> assert(first > 0 && taken[first] == 0); taken[first]++; total++
    :: else
    fi;
    if
    :: count == 2 -> assert(second > 0 && taken[second] == 0); taken[second]++; total++
    :: else
    fi;
    first = 0; second = 0; count = 0; position = 0; last = 0
  }
}

proctype Owner() {
  byte position, last, count, first, second, at, top_seen, i;
  for (i : 1 .. TASKS) {
    at = bottom;
#ifndef BREAK_NO_ROOM_CHECK
    do
    :: at - top_seen >= CAPACITY ->
      top_seen = top;
      if
      :: at - top_seen >= CAPACITY -> take()  // the code keeps it in |overflow|, and helps
      :: else
      fi
    :: else -> break
    od;
#endif
#ifdef BREAK_BOTTOM_FIRST
    bottom = at + 1;
    items[at % CAPACITY] = i
#else
    items[at % CAPACITY] = i;
    bottom = at + 1
#endif
  }
  over++
}

proctype Thief() {
  byte position, last, count, first, second;
  do
  :: total == TASKS -> break
  :: top < bottom -> take()
  od;
  over++
}

init {
  byte i;
  atomic {
    run Owner();
    for (i : 1 .. THIEVES) { run Thief() }
  }
  over == THIEVES + 1;
  for (i : 1 .. TASKS) { assert(taken[i] == 1) }
}
