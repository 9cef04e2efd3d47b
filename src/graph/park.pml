// SPDX-License-Identifier: Apache-2.0
// Model of park.h/park.c: workers and a submitter fall asleep and are woken. Bounds: 2 workers, 1 submitter, 2 tasks, then the end of the
// engine; with STORE_BUFFER 1 worker, and a buffer of one store for the two words that are stored and not exchanged; with GANG 1 worker, and
// the last task is a gang that needs the submitter's thread too.
//
//   here              code
//   Worker            slip__worker_main: slip__help, else slip__park_worker (the spinning before it changes nothing)
//   complete          slip__complete: |successors| closed by an exchange, slip__wake_submitter
//   Submitter         slip__queue_push, slip__wake_workers; then waits without helping, as for a task that only others can run (a gang)
//   gang              the gang's bit of the board: slip__board_open by the worker, slip__board_join by the submitter
//   visible           slip__work_is_visible
//   sleep             slip__futex_wait(&parked, 1): compares and falls asleep in one step
//   the end           slip__engine_destroy: |stop|, then wakes
//
// Shown: nobody sleeps through a task, through a gang that needs it, through the end of the task it waits for, or through the end of the engine; a wake that comes late
// does no harm; a worker that goes back to work leaves no idle bit behind, which would draw a wake that another needs.
// Not hidden: why the stores of |bottom| and of the submitter's |parked| are seq_cst. With STORE_BUFFER they reach memory later unless
// that order empties the buffer.
//
// check: safety
// check: STORE_BUFFER
// check: GANG
// mutant: BREAK_NO_LOOK                       the worker does not look again after it has set its bit
// mutant: BREAK_NO_STOP_LOOK                  nor at |stop|
// mutant: BREAK_BIT_LATE                      it sets the bit after it has looked
// mutant: BREAK_WAKE_STAYS                    the waker does not clear |parked|
// mutant: BREAK_NO_SUBMITTER_LOOK             the submitter does not look again
// mutant: GANG BREAK_NO_GANG_WAKE             whoever opens a gang wakes workers only
// mutant: GANG BREAK_NO_GANG_LOOK             the submitter does not look at the board again
// mutant: STORE_BUFFER BREAK_PUSH_RELEASE     |bottom| by a release store
// mutant: STORE_BUFFER BREAK_PARKED_RELEASE   the submitter's |parked| by a release store
#define TASKS 2
#if defined(STORE_BUFFER) || defined(GANG)
#define WORKERS 1
#else
#define WORKERS 2
#endif
#define SUBMITTER WORKERS

byte queue = 0;              // tasks put in and not taken
byte closed = 0;             // tasks that are over
byte idle = 0;
bool stop = false;
bool parked[WORKERS + 1], asleep[WORKERS + 1];
byte over = 0;
#ifdef GANG
bool gang = false, met = false;
#define GANG_VISIBLE gang
#else
#define GANG_VISIBLE false
#endif

#ifdef STORE_BUFFER
byte buffered_queue = 0;
bool buffered_parked = false;
proctype Memory() {
end:
  do
  :: atomic { buffered_queue > 0 -> queue = queue + buffered_queue; buffered_queue = 0 }
  :: atomic { buffered_parked -> buffered_parked = false; parked[SUBMITTER] = true }
  od
}
#endif

inline futex_wake(who) { asleep[who] = false }
inline sleep(who) {
  do
  :: !parked[who] -> break
  :: else ->
    atomic {
      if
      :: parked[who] -> asleep[who] = true
      :: else
      fi
    }
    !asleep[who]
  od
}

inline unpark(who) {
#ifndef BREAK_WAKE_STAYS
  parked[who] = false;
#endif
  futex_wake(who)
}

// Wakes one worker.
inline wake_worker() {
  bits = idle;
  do
  :: bits == 0 -> break
  :: else ->
    worker = (bits & 1 -> 0 : 1);
    bits = bits & ~(1 << worker);
    atomic { had = (idle & (1 << worker)) != 0; idle = idle & ~(1 << worker) }
    if
    :: had -> unpark(worker); break
    :: else
    fi
  od;
  bits = 0; worker = 0; had = false
}

inline park_worker() {
  parked[me] = true;
#ifndef BREAK_BIT_LATE
  idle = idle | (1 << me);
#endif
#ifdef BREAK_NO_LOOK
  sleep(me);
#else
  if
  :: queue != 0
  :: else ->
#ifdef BREAK_NO_STOP_LOOK
    sleep(me)
#else
    if
    :: stop
    :: else ->
#ifdef BREAK_BIT_LATE
      idle = idle | (1 << me);
#endif
      sleep(me)
    fi
#endif
  fi;
#endif
  if
  :: (idle & (1 << me)) != 0 -> idle = idle & ~(1 << me)
  :: else
  fi;
  parked[me] = false
}

inline wake_submitter() {
  if
  :: parked[SUBMITTER] ->
    atomic { took = parked[SUBMITTER]; parked[SUBMITTER] = false }
    if
    :: took -> futex_wake(SUBMITTER); took = false
    :: else
    fi
  :: else
  fi
}

proctype Worker(byte me) {
  bool took;
  do
  :: stop -> break
  :: else ->
    atomic { took = queue > 0; queue = queue - took }
    if
    :: took ->
      took = false;
#ifdef GANG
      if
      :: closed == TASKS - 1 ->
        gang = true;
#ifndef BREAK_NO_GANG_WAKE
        wake_submitter();
#endif
        met  // the gang's blocks wait for each other
      :: else
      fi;
#endif
      closed++;
      wake_submitter()
    :: else -> park_worker()
    fi
  od;
  over++
}

proctype Submitter() {
  byte bits, worker, i;
  bool had;
  for (i : 1 .. TASKS) {
#ifdef STORE_BUFFER
    atomic { buffered_queue == 0 -> buffered_queue = 1 }
#ifndef BREAK_PUSH_RELEASE
    buffered_queue == 0;  // seq_cst
#endif
#else
    queue++;
#endif
    wake_worker()
  }
  do
  :: closed == TASKS -> break
#ifdef GANG
  :: gang -> gang = false; met = true
#endif
  :: closed != TASKS && !GANG_VISIBLE ->
#ifdef STORE_BUFFER
    atomic { !buffered_parked -> buffered_parked = true }
#ifndef BREAK_PARKED_RELEASE
    !buffered_parked;  // seq_cst
#endif
#else
    parked[SUBMITTER] = true;
#endif
#ifdef BREAK_NO_SUBMITTER_LOOK
    sleep(SUBMITTER);
#else
    if
    :: closed == TASKS
#ifndef BREAK_NO_GANG_LOOK
    :: GANG_VISIBLE
#endif
    :: else ->
#ifdef STORE_BUFFER
      !buffered_parked;  // a thread sees its own store, and the futex is a system call
#endif
      sleep(SUBMITTER)
    fi;
#endif
    parked[SUBMITTER] = false
  od;
  // The engine ends.
  stop = true;
  for (i : 0 .. WORKERS - 1) { wake_worker() }
  over++
}

init {
  byte i;
  atomic {
#ifdef STORE_BUFFER
    run Memory();
#endif
    for (i : 0 .. WORKERS - 1) { run Worker(i) }
    run Submitter()
  }
  over == WORKERS + 1;
  assert(idle == 0 && queue == 0)
}
