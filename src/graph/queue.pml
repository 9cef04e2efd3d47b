// SPDX-License-Identifier: Apache-2.0
// Model of queue.h: one thread puts in, any thread takes out. Bounds: capacity 2, 4 tasks, the owner and 2 thieves; batches of 1 or 2; one
// or two items published at once.
//
//   here     queue.h
//   append   slip__queue_append: |top| is read only when |top_seen| leaves no room; the item, then |tail|, which is the owner's
//   publish  slip__queue_publish: |bottom| is set to |tail|; whether after one item or after several is left open. slip__queue_settle stores
//            the same value (its order matters to sleepers only: park.pml)
//   take     slip__queue_take: |top|, |bottom|, the items, then the compare-and-swap of |top|. How many is left open: any number the code
//            could choose is among those tried
//
// Shown: each task is taken once and none twice; an item is overwritten only after its claimer has read it; what is claimed was put in and
// published; nothing stays unpublished once the owner helps, which publishes first.
// Hidden by sequential consistency: that an item and its slot are visible to who sees |bottom| (release/acquire), and that its reader is
// done with it for who sees |top|.
//
// check: safety
// mutant: BREAK_READ_LATE       take reads the items after it has claimed them
// mutant: BREAK_BOTTOM_FIRST    append moves |bottom| before it writes the item
// mutant: BREAK_TAKE_STORE      take stores |top| instead of exchanging it
// mutant: BREAK_NO_ROOM_CHECK   append does not look whether there is room
// mutant: BREAK_PUBLISH_AHEAD   publish counts an item that is still to be appended
// mutant: BREAK_HELP_UNPUBLISHED  the owner does not publish before it helps: when the room is full of what nobody sees, nobody makes any
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

inline publish() {
#ifdef BREAK_PUBLISH_AHEAD
  bottom = tail + (i < TASKS -> 1 : 0)
#else
  bottom = tail
#endif
}

// slip__help on the owner's own queue
inline help() {
#ifndef BREAK_HELP_UNPUBLISHED
  publish();
#endif
  take()
}

proctype Owner() {
  byte position, last, count, first, second, tail, top_seen, i;
  for (i : 1 .. TASKS) {
#ifndef BREAK_NO_ROOM_CHECK
    do
    :: tail - top_seen >= CAPACITY ->
      top_seen = top;
      if
      :: tail - top_seen >= CAPACITY ->
#ifdef BREAK_HELP_UNPUBLISHED
        top != top_seen || bottom > top;  // there is something to help with
#endif
        help()  // the code keeps the task in |overflow| meanwhile
      :: else
      fi
    :: else -> break
    od;
#endif
#ifdef BREAK_BOTTOM_FIRST
    bottom = tail + 1;
    items[tail % CAPACITY] = i;
#else
    items[tail % CAPACITY] = i;
#endif
    tail++;
    if
    :: publish()
    :: i < TASKS  // later, together with the next
    fi
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
