// SPDX-License-Identifier: Apache-2.0
// Model of park.h/park.c: workers and a submitter fall asleep and are woken. Bounds: 2 workers, 1 submitter, 2 tasks, then the end of the
// engine; with STORE_BUFFER 1 worker, and a buffer of one store for the two words that are stored and not exchanged; with GANG 1 worker, and
// the last task is a gang that needs both threads.
//
//   here              code
//   Worker            slip__worker_main: slip__help, else slip__park_worker (the spinning before it changes nothing)
//   kernel            a task may last until the other has begun: if anybody slept through that one, both would stand still
//   complete          slip__complete: |successors| closed by an exchange, slip__wake_submitter
//   Submitter         slip__dispatch: slip__queue_append; slip__queue_publish now, or later with others; slip__submit_balance; then
//                     slip__wait_begin with slip__wake_for_queued, and slip__wait_step: slip__help, else slip__park_submitter
//   publish, settle   slip__queue_publish (release), slip__queue_settle (seq_cst)
//   gang              the gang's bit of the board: slip__board_open by who took it, slip__board_join by the other
//   visible           slip__work_is_visible
//   sleep             slip__futex_wait(&parked, 1): compares and falls asleep in one step
//   the end           slip__engine_destroy: |stop|, then wakes
//
// Shown: once a submitter waits, nobody sleeps through a task, though a publish before may have missed a worker that was falling asleep;
// the submitter never sleeps while its own queue holds a task; nobody sleeps through a gang that needs it, through the end of the task it
// waits for, or through the end of the engine; a wake that comes late does no harm; a worker that goes back to work leaves no idle bit
// behind, which would draw a wake that another needs.
// Not hidden: why the stores of |bottom| in slip__queue_settle and of the submitter's |parked| are seq_cst, and that publish need not be.
// With STORE_BUFFER they reach memory later unless that order empties the buffer.
// Not shown: that a worker is woken while the submitter goes on submitting, which is only a matter of time lost.
//
// check: safety
// check: STORE_BUFFER
// check: GANG
// mutant: BREAK_NO_LOOK                       the worker does not look again after it has set its bit
// mutant: BREAK_NO_STOP_LOOK                  nor at |stop|
// mutant: BREAK_BIT_LATE                      it sets the bit after it has looked
// mutant: BREAK_WAKE_STAYS                    the waker does not clear |parked|
// mutant: BREAK_NO_SUBMITTER_LOOK             the submitter does not look at its oldest task again
// mutant: BREAK_NO_QUEUE_LOOK                 nor at the queues: it has just lost a claim to another thread, and more is there
// mutant: BREAK_NO_WAIT_WAKE                  it begins to wait without a look at the idle bits
// mutant: GANG BREAK_NO_GANG_WAKE             whoever opens a gang wakes workers only
// mutant: GANG BREAK_NO_GANG_LOOK             the submitter does not look at the board again
// mutant: STORE_BUFFER BREAK_NO_SETTLE        the submitter begins to wait with a release store of |bottom|
// mutant: STORE_BUFFER BREAK_PARKED_RELEASE   the submitter's |parked| by a release store
#define TASKS 2
#if defined(STORE_BUFFER) || defined(GANG)
#define WORKERS 1
#else
#define WORKERS 2
#endif
#define SUBMITTER WORKERS

byte top = 0, bottom = 0, tail = 0;  // of the submitter's queue; |tail| is its own
byte begun = 0, closed = 0;          // tasks
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
byte buffered_bottom = 0;  // 0: nothing
bool buffered_parked = false;
proctype Memory() {
end:
  do
  :: atomic { buffered_bottom > 0 -> bottom = buffered_bottom; buffered_bottom = 0 }
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
  :: GANG_VISIBLE || bottom > top
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
    :: took -> futex_wake(SUBMITTER)
    :: else
    fi;
    took = false
  :: else
  fi
}

inline run_task(number) {
  begun++;
#ifdef GANG
  if
  :: number == TASKS ->
    gang = true;
    wake_worker();
#ifndef BREAK_NO_GANG_WAKE
    wake_submitter();
#endif
    met  // the gang's blocks wait for each other
  :: else
  fi;
#endif
  if
  :: true
  :: true -> begun == TASKS
  fi;
  closed++;
  wake_submitter()
}

// A task of the submitter's queue, of which the caller sees |end|. |took|: it has run one.
inline help(end) {
  atomic { position = top; took = end > position }
  if
  :: took ->
    atomic {
      took = top == position;
      if
      :: took -> top++
      :: else
      fi
    }
  :: else
  fi;
  if
  :: took -> took = false; run_task(position + 1); helped = true
  :: else -> helped = false
  fi;
  position = 0
}

proctype Worker(byte me) {
  byte bits, worker, position;
  bool had, took, helped;
  do
  :: stop -> break
#ifdef GANG
  :: atomic { gang && !stop -> gang = false; met = true }
#endif
  :: else ->
    help(bottom);
    if
    :: helped -> helped = false
    :: else -> park_worker()
    fi
  od;
  over++
}

// At once, if there is no buffer.
inline publish() {
#ifdef STORE_BUFFER
  buffered_bottom = tail
#else
  bottom = tail
#endif
}

inline settle() {
  publish();
#ifdef STORE_BUFFER
#ifndef BREAK_NO_SETTLE
  buffered_bottom == 0;  // seq_cst
#endif
#endif
}

inline submit() {
  tail++;
  if
  :: publish()  // the batch is full, a worker is hungry, or it is time
  :: true
  fi;
  if
  :: idle != 0 ->
    publish();
    if
    :: tail - top >= 1 -> wake_worker()
    :: tail - top < 2  // one alone is worth a wake now and then
    fi
  :: else
  fi
}

inline wait_begin() {
  publish();
#ifndef BREAK_NO_WAIT_WAKE
  if
  :: tail - top > 1 -> settle(); wake_worker()
  :: else
  fi
#endif
}

inline park_submitter() {
#ifdef STORE_BUFFER
  atomic { !buffered_parked -> buffered_parked = true }
#ifndef BREAK_PARKED_RELEASE
  !buffered_parked;  // seq_cst
#endif
#else
  parked[SUBMITTER] = true;
#endif
  if
#ifndef BREAK_NO_SUBMITTER_LOOK
  :: closed == TASKS
#endif
#ifndef BREAK_NO_QUEUE_LOOK
  :: tail > top
#endif
#ifndef BREAK_NO_GANG_LOOK
  :: GANG_VISIBLE
#endif
  :: else ->
#ifdef STORE_BUFFER
    !buffered_parked;  // a thread sees its own store, and the futex is a system call
#endif
    assert(tail == top);
    sleep(SUBMITTER)
  fi;
  parked[SUBMITTER] = false
}

proctype Submitter() {
  byte bits, worker, position, i;
  bool had, took, helped;
  for (i : 1 .. TASKS) { submit() }
  wait_begin();
  do
  :: closed == TASKS -> break
#ifdef GANG
  :: atomic { gang && closed != TASKS -> gang = false; met = true }
#endif
  :: closed != TASKS && !GANG_VISIBLE ->
    publish();  // slip__help: its own queue
    help(tail);
    if
    :: helped -> helped = false
    :: else -> park_submitter()
    fi
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
  assert(idle == 0 && top == tail)
}
