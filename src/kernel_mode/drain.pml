// SPDX-License-Identifier: Apache-2.0
// Model of slip__tickets_drain in ticket.c: two epochs take turns. Bounds: 2 launches, 3 drains by threads of their own; with FOREVER
// 2 threads that launch and a thread that drains, without end.
//
//   here                 ticket.c
//   epoch read, count    slip__tickets_admit: two steps, between which a drain may flip
//   Launch returned      what a drain must wait for if it came before the call
//   retired, count out   slip__ticket_retire, slip__tickets_count_out; may come before the launch has returned
//   wait for 0           slip__tickets_wait_zero; how it sleeps is signal.pml's
//   Drain                slip__tickets_drain
//
// Shown: when a drain returns, each launch that returned before the call has retired; and (FOREVER) a drain ends although launches keep
// coming, each thread getting its turn now and then. What |drain_lock| adds, that each of
// several drains ends, is beyond weak fairness and not shown. Hidden by sequential consistency: nothing, all steps are seq_cst.
//
// check: safety
// check: FOREVER progress
// mutant: BREAK_NO_FIRST_WAIT          the drain does not look at the other epoch before it flips
// mutant: FOREVER BREAK_ONE_EPOCH progress   it waits for both counts at once, as without epochs
#define LAUNCHES 2

byte epoch = 0;
byte epoch_pending[2];
bool lock = false;
bool returned[LAUNCHES], retired[LAUNCHES];
byte ended = 0;

inline drain() {
#ifndef BREAK_NO_LOCK
  atomic { !lock -> lock = true }
#endif
#ifdef BREAK_ONE_EPOCH
  epoch_pending[0] + epoch_pending[1] == 0;
#else
  e = epoch;
#ifndef BREAK_NO_FIRST_WAIT
  epoch_pending[1 - e] == 0;
#endif
  epoch = 1 - e;
  epoch_pending[e] == 0;
#endif
#ifndef BREAK_NO_LOCK
  lock = false
#endif
}

#ifdef FOREVER
active [2] proctype Launches() {
  byte e;
  do
  ::
    e = epoch;
    epoch_pending[e]++;
    epoch_pending[e]--
  od
}

active proctype Drains() {
  byte e;
  do
  :: drain();
progress:
    skip
  od
}
#else
proctype Retire(byte me; byte e) {
  atomic { retired[me] = true; epoch_pending[e]-- }
  ended++
}

proctype Launch(byte me) {
  byte e;
  e = epoch;
  epoch_pending[e]++;
  run Retire(me, e);
  returned[me] = true
}

proctype Drain() {
  byte e, before, i;
  atomic {
    for (i : 0 .. LAUNCHES - 1) { before = before | (returned[i] << i) }
    i = 0
  }
  drain();
  atomic {
    for (i : 0 .. LAUNCHES - 1) { assert((before & (1 << i)) == 0 || retired[i]) }
    i = 0; before = 0; e = 0
  }
  ended++
}

init {
  atomic { run Launch(0); run Launch(1); run Drain(); run Drain(); run Drain() }
  ended == LAUNCHES + 3;
  assert(epoch_pending[0] == 0 && epoch_pending[1] == 0)
}
#endif
