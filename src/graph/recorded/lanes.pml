// SPDX-License-Identifier: Apache-2.0
// Model of the planned replays of replay.h: lanes, their states, items. Bounds: 2 lanes of 2 entries that need each other crosswise, 2
// replays one after the other, the starter and 2 workers, each of which may take an item at any time, or leave for good whenever it holds
// nothing.
//
//   here     replay.c
//   start    slip__replay_start_planned: |lanes_left|, then the lanes' states, then the items of all lanes but the first
//   claim    slip__lane_claim: one word says epoch, free, held, done; here |state|, |claimed| and |done|, looked at together
//   advance  slip__lane_advance: entry by entry; |progress| after each
//   aid      slip__lane_wait: looks at the other lane, and takes it if nobody holds it (here only as far as needed)
//   sweep    slip__replay_sweep: lanes that are free and not done, until there is none
//   visit    slip__lane_visit, through an item; the starter, too, takes items while it waits (slip__replay_wait)
//
// Shown: each entry runs once in each replay, after what it needs; each replay ends, whoever comes; it ends when all entries are over.
// Hidden by sequential consistency: that what an entry wrote is visible to who reads |progress| or ends the replay (release/acquire).
//
// check: safety
// mutant: BREAK_TWO_WORDS       claim takes the lane first and then looks whether it is done in this replay
// mutant: BREAK_NO_AID          who waits does not take a lane that nobody holds
// mutant: BREAK_FORGET          nobody looks at a second lane, and no lane's item is queued
// mutant: BREAK_LEFT_LATE       start frees the lanes before it sets |lanes_left|
// mutant: BREAK_STATE_EARLY     advance gives the lane back before it writes |progress|
#define LANES    2
#define ENTRIES  2
#define REPLAYS  2
#define AT(e, p) ((e) * 4 + (p))

byte epoch = 0;
byte progress[LANES] = ENTRIES;  // done in epoch 0
bool claimed[LANES];
bool done[LANES] = true;
byte state[LANES];  // epoch
bool queued[LANES];
byte lanes_left = 0;
bool finished = true;
byte ran[4];  // how often each entry has run

// |got|: |lane| is held, in replay |era|.
inline claim() {
  got = false;
#ifdef BREAK_TWO_WORDS
  atomic {
    if
    :: !claimed[lane] -> claimed[lane] = true; got = true
    :: else
    fi
  }
  if
  :: got ->
    era = epoch;
    if
    :: progress[lane] == AT(era, ENTRIES) -> claimed[lane] = false; got = false
    :: else
    fi
  :: else
  fi
#else
  atomic {
    if
    :: !claimed[lane] && !done[lane] -> claimed[lane] = true; got = true; era = state[lane]
    :: else
    fi
  }
#endif
}

inline perform(which, position) {
  atomic {
    assert(ran[which * ENTRIES + position] == era - 1);
    assert(position == 0 || ran[(1 - which) * ENTRIES] == era);
    assert(!finished);
    ran[which * ENTRIES + position]++
  }
}

// Entry 0 of the other lane is needed. It needs nothing itself.
inline aid() {
  other = 1 - lane;
  do
  :: progress[other] >= AT(era, 1) -> break
#ifndef BREAK_NO_AID
  :: atomic { progress[other] < AT(era, 1) && !claimed[other] && !done[other] -> claimed[other] = true };
    if
    :: progress[other] < AT(era, 1) -> perform(other, 0); progress[other] = AT(era, 1)
    :: else
    fi;
    claimed[other] = false;
#ifndef BREAK_FORGET
    queued[other] = true
#endif
#endif
  od
}

// |lane| is held.
inline advance() {
  if
  :: progress[lane] < AT(era, 1) -> perform(lane, 0); progress[lane] = AT(era, 1)
  :: else
  fi;
  aid();
  perform(lane, 1);
#ifdef BREAK_STATE_EARLY
  claimed[lane] = false;
  atomic { progress[lane] = AT(era, ENTRIES); done[lane] = true };
#else
  progress[lane] = AT(era, ENTRIES);
  atomic { claimed[lane] = false; done[lane] = true };
#endif
  atomic { lanes_left--; last = lanes_left == 0 };
  if
  :: last ->
    assert(ran[0] == era && ran[1] == era && ran[2] == era && ran[3] == era);
    finished = true
  :: else
  fi
}

// |lane| first, then the other, until neither was to be had.
inline sweep() {
  tries = 0;
  do
  :: tries < LANES ->
    claim();
    tries++;
    if
    :: got -> advance(); tries = 0
    :: else
    fi;
#ifdef BREAK_FORGET
    tries = LANES;
#else
    lane = 1 - lane
#endif
  :: else -> break
  od
}

active proctype starter() {
  byte era = 0, replays = 0, lane = 0, other = 0, tries = 0;
  bool got = false, last = false;
  do
  :: if
    :: finished && replays == REPLAYS -> goto over
    :: finished && replays < REPLAYS ->
      replays++;
      finished = false;
#ifndef BREAK_LEFT_LATE
      lanes_left = LANES;
#endif
      atomic { epoch++; state[0] = epoch; done[0] = false };
      atomic { state[1] = epoch; done[1] = false };
#ifdef BREAK_LEFT_LATE
      lanes_left = LANES;
#endif
#ifndef BREAK_FORGET
      queued[1] = true;
#endif
      lane = 0
    :: atomic { !finished && queued[0] -> queued[0] = false; lane = 0 }
    :: atomic { !finished && queued[1] -> queued[1] = false; lane = 1 }
    fi;
    sweep()
  od;
over:
  skip
}

active [2] proctype worker() {
  byte era = 0, lane = 0, other = 0, tries = 0;
  bool got = false, last = false;
  do
  :: if
    :: goto over
    :: atomic { queued[0] -> queued[0] = false; lane = 0 }
    :: atomic { queued[1] -> queued[1] = false; lane = 1 }
    fi;
    sweep()
  od;
over:
  skip
}
