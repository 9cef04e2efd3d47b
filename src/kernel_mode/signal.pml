// SPDX-License-Identifier: Apache-2.0
// Model of signal.h: the event count. Bounds: 2 changers, 2 sleepers that each wait for one change; one store buffer entry a thread.
//
//   here                 signal.h
//   C1 .. C3             the changer: its own read-modify-write, then slip__signal_raise
//   S1, S2               slip__signal_enter
//   S3                   the sleeper's look at its condition
//   S4                   slip__signal_sleep: the futex compares and falls asleep in one step; then the next key is read
//   leave                slip__signal_leave
//
// Shown: no wake-up is lost: nobody is asleep when all changes were made and all changers have returned. A futex wait without a time-out
// that ends for nothing (a signal of the system) is the S4 that does not sleep.
//
// Why C1, C2, S1 and S2 are seq_cst. With STORE_BUFFER each store of C1 or S1 first goes to the thread's own buffer and reaches memory at any
// later time, as release/acquire would allow; a seq_cst operation empties the buffer. With both (the plain STORE_BUFFER check)
// nothing is lost; without one of the two, C2 and S3 both see the old values, and a sleeper sleeps for ever.
//
// check: safety
// check: STORE_BUFFER
// mutant: STORE_BUFFER BREAK_C1_RELEASE     the change is a release store
// mutant: STORE_BUFFER BREAK_S1_RELEASE     |waiters| is raised by a release operation
// mutant: BREAK_KEY_LATE                    S2 after S3
// mutant: BREAK_NO_SEQUENCE                 C3 wakes without changing |sequence|
// mutant: BREAK_WAITERS_FIRST               C2 before C1
#define CHANGERS 2
#define SLEEPERS 2

byte condition = 0;            // changes made
byte waiters = 0, sequence = 0;
bool asleep[SLEEPERS];
byte sleepers_done = 0;

#ifdef STORE_BUFFER
byte buffered_condition[CHANGERS], buffered_waiters[SLEEPERS];  // additions that have not reached memory
proctype Memory() {
end:
  do
  :: atomic { buffered_condition[0] > 0 -> buffered_condition[0] = 0; condition++ }
  :: atomic { buffered_condition[1] > 0 -> buffered_condition[1] = 0; condition++ }
  :: atomic { buffered_waiters[0] > 0 -> buffered_waiters[0] = 0; waiters++ }
  :: atomic { buffered_waiters[1] > 0 -> buffered_waiters[1] = 0; waiters++ }
  od
}
#endif

proctype Changer(byte me) {
  byte seen;
#ifdef BREAK_WAITERS_FIRST
  seen = waiters;
#endif
#ifdef STORE_BUFFER
  buffered_condition[me] = 1;  // C1
#ifndef BREAK_C1_RELEASE
  buffered_condition[me] == 0;  // seq_cst
#endif
#else
  condition++;  // C1
#endif
#ifndef BREAK_WAITERS_FIRST
  seen = waiters;  // C2
#endif
  if
  :: seen == 0
  :: else ->
#ifndef BREAK_NO_SEQUENCE
    sequence++;  // C3
#endif
    d_step { asleep[0] = false; asleep[1] = false }
  fi
}

proctype Sleeper(byte me) {
  byte key;
#ifdef STORE_BUFFER
  buffered_waiters[me] = 1;  // S1
#ifndef BREAK_S1_RELEASE
  buffered_waiters[me] == 0;  // seq_cst
#endif
#else
  waiters++;  // S1
#endif
#ifndef BREAK_KEY_LATE
  key = sequence;  // S2
#endif
  do
  :: condition > me -> break  // S3: the first sleeper waits for one change, the second for both
  :: condition <= me ->
#ifdef BREAK_KEY_LATE
    key = sequence;
#endif
    atomic {  // S4
      if
      :: sequence == key -> asleep[me] = true
      :: else
      fi
    }
    !asleep[me];
    key = sequence
  od;
#ifdef STORE_BUFFER
  atomic { buffered_waiters[me] == 0 -> waiters-- }
#else
  waiters--;
#endif
  sleepers_done++
}

init {
  atomic {
#ifdef STORE_BUFFER
    run Memory();
#endif
    run Changer(0); run Changer(1); run Sleeper(0); run Sleeper(1)
  }
  sleepers_done == SLEEPERS;
  (_nr_pr == 1
#ifdef STORE_BUFFER
   + 1
#endif
  );
  assert(waiters == 0)
}
