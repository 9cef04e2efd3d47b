// SPDX-License-Identifier: Apache-2.0
// Model of graph.h with graph.c: versions of a recorded graph's arguments. Bounds: 3 versions, 2 replaying threads of 2 replays each, 2
// binding threads of 2 binds each.
//
//   here                      code
//   current, acquired         the one word |current| of slip_graph_t
//   replay                    slip__graph_acquire, the reads of slip__replay_run, slip__graph_release
//   bind                      slip_graph_bind: slip__graph_find_free, _refresh, _write, _publish under |lock|
//
// Shown: a replay reads what one bind left, all of it; a version is written only while no replay reads it and it is not current; a bind
// that waits for a version gets one once the replays are through; no acquisition is lost: at the end every version but the current one is
// free, and that one has been released as often as acquired.
// Hidden by sequential consistency: that a replay sees the version as bind wrote it (acquire in acquire, release in publish), and that bind
// writes after the last read (release in release, acquire in find_free).
//
// check: safety
// mutant: BREAK_ACQUIRE_APART     a replay reads the index in one step and counts in another
// mutant: BREAK_NO_TRANSFER       publish does not hand the acquisitions over to the version it replaces
// mutant: BREAK_TRANSFER_LATE     publish hands them over after it has let go of the lock
// mutant: BREAK_USES_IGNORED      bind takes any version that is not current
// mutant: BREAK_IN_PLACE          bind writes into the current version
#define VERSIONS 3
#define ROUNDS   2

byte current = 0, acquired = 0;
short uses[VERSIONS];
bool lock = false;

// The arguments are two words, written one after the other; both hold the number of the bind that wrote them.
byte low[VERSIONS], high[VERSIONS];
byte reading[VERSIONS];
bool writing[VERSIONS];
byte binds = 0, done = 0;

proctype Replay() {
  byte v, round = 0, seen;
  do
  :: round == ROUNDS -> break
  :: else ->
#ifdef BREAK_ACQUIRE_APART
    v = current;
    d_step { acquired++; reading[v]++ }
#else
    d_step { v = current; acquired++; reading[v]++ }
#endif
    d_step { assert(!writing[v]); seen = low[v] }
    d_step { assert(!writing[v] && low[v] == seen && high[v] == seen) }
    d_step { reading[v]--; uses[v]--; round++; seen = 0 }
  od;
  atomic { v = 0; done++ }
}

#ifdef BREAK_USES_IGNORED
#define FREE(v) ((v) != current)
#else
#ifdef BREAK_IN_PLACE
#define FREE(v) ((v) == current)
#else
#define FREE(v) ((v) != current && uses[v] == 0)
#endif
#endif

proctype Bind() {
  byte v, old, count, round = 0;
  do
  :: round == ROUNDS -> break
  :: else ->
    atomic { !lock -> lock = true }
    if  // waits until there is one
    :: FREE(0) -> v = 0
    :: FREE(1) -> v = 1
    :: FREE(2) -> v = 2
    fi;
    d_step { assert(reading[v] == 0); writing[v] = true; binds++; low[v] = binds }
    d_step { high[v] = binds; writing[v] = false }
    d_step { old = current; count = acquired; current = v; acquired = 0 }
#ifdef BREAK_TRANSFER_LATE
    lock = false;
#endif
#ifndef BREAK_NO_TRANSFER
    d_step { uses[old] = uses[old] + count; old = 0; count = 0 }
#endif
#ifndef BREAK_TRANSFER_LATE
    lock = false;
#endif
    round++
  od;
  atomic { v = 0; done++ }
}

init {
  byte v = 0;
  atomic { run Replay(); run Replay(); run Bind(); run Bind() }
  done == 4;
  do
  :: v == VERSIONS -> break
  :: else ->
    assert(uses[v] == (v == current -> -acquired : 0));
    v++
  od;
  assert(binds == 2 * ROUNDS && low[current] == binds)
}
