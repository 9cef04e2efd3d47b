// SPDX-License-Identifier: Apache-2.0
// Model of what the dependency map needs to know of tasks that run where they are submitted (slip__orch_submit in submit.c, slip__dispatch
// in schedule.c, balance.h).
// Bounds: 4 tasks, each of which reads or writes the same region; the submitter and a worker.
//
//   here       code
//   Submitter  slip__orch_submit: slip__release_held, then slip__dispatch. The mode is left open: every task may be run alone that is free
//   free       slip__submit_is_free: the map is asked, with the retire marks, and not told
//   now        slip__submit_now, slip__dispatch_now: nothing is in flight; the map is not even asked, and the task retires at once
//   publish    slip__publish: the map is told; the task waits for those it names that the marks call live, then lies in a queue
//   held       the task that came when nothing was in flight: neither the map nor a queue knows of it, until the next submit or the end
//   retire     slip__ring_retire: in order; at any time before a submit
//   begin      a kernel begins: everything before it that it must follow has to be over
//
// Shown: tasks of which one writes begin and end in the order of their submits, although the map never hears of those run alone: they are
// over before it is asked again. All run, once.
// Hidden by sequential consistency: that what a retired task wrote is visible to the submitter (acquire of CLOSED in slip__ring_retire), and
// through the queue to who runs the next.
//
// check: safety
// mutant: BREAK_FREE_READERS     a write is free when the last writer is over, whatever reads
// mutant: BREAK_RETIRE_ANY       the mark passes a task that is not over when a later one is
// mutant: BREAK_NOW_ANY          a task runs in its submit although others are in flight
// mutant: BREAK_ALONE_QUEUED     a free task is queued instead, and the map still not told
// mutant: BREAK_HELD_LATE        the map is asked before it has been told of the held task
// mutant: BREAK_READ_UNTOLD      a read that must wait is not entered either
#define TASKS  4
#define ALL    15
#define BIT(t) (1 << (t))

bool writes[TASKS];
byte waits[TASKS];                       // what a task waits for
byte queued = 0, begun = 0, ended = 0;   // sets of tasks
byte retired = 0;                        // tasks below are over
byte writer = 0, readers = 0;            // the region: sets of tasks

#define LIVE(set)   ((set) >> retired)
#define IS_DUE(t)   ((queued & BIT(t)) && (waits[t] & ~ended) == 0)

inline begin(t) {
  atomic {
    assert(!(begun & BIT(t)));
    j = 0;
    do
    :: j == t -> break
    :: else -> assert((!writes[j] && !writes[t]) || (ended & BIT(j))); j++
    od;
    j = 0;
    begun = begun | BIT(t)
  }
}

inline run_task(t) {
  begin(t);
  ended = ended | BIT(t)
}

proctype Worker() {
  byte t, j;
  do
  :: ended == ALL -> break
  :: atomic {
      if
      :: IS_DUE(0) -> t = 0
      :: IS_DUE(1) -> t = 1
      :: IS_DUE(2) -> t = 2
      :: IS_DUE(3) -> t = 3
      fi;
      queued = queued & ~BIT(t)
    }
    run_task(t)
  od
}

inline publish(t) {
  atomic {  // the map is the submitter's
    waits[t] = LIVE(writer) << retired;
    if
    :: writes[t] -> waits[t] = waits[t] | (LIVE(readers) << retired); writer = BIT(t); readers = 0
    :: else ->
#ifdef BREAK_READ_UNTOLD
      skip
#else
      readers = readers | BIT(t)
#endif
    fi
  }
  queued = queued | BIT(t)
}

inline release_held() {
  if
  :: held > 0 -> publish(held - 1); held = 0
  :: else
  fi
}

inline ask(t) {
#ifdef BREAK_FREE_READERS
  free = LIVE(writer) == 0
#else
  free = LIVE(writer) == 0 && (!writes[t] || LIVE(readers) == 0)
#endif
}

inline retire(end) {
  do
#ifdef BREAK_RETIRE_ANY
  :: retired < end && (ended >> retired) != 0 -> retired++
#else
  :: retired < end && (ended & BIT(retired)) -> retired++
#endif
  :: else -> break
  od
}

proctype Submitter() {
  byte i, j, held;
  bool free;
  for (i : 0 .. TASKS - 1) {
    if
    :: writes[i] = true
    :: writes[i] = false
    fi;
    if
    :: retire(i)
    :: true
    fi;
#ifdef BREAK_HELD_LATE
    ask(i);
    release_held();
#else
    release_held();
    ask(i);
#endif
    if
#ifdef BREAK_NOW_ANY
    :: run_task(i)
#else
    :: retired == i -> run_task(i); retired = i + 1  // now
#endif
    :: free ->
#ifdef BREAK_ALONE_QUEUED
      queued = queued | BIT(i)
#else
      run_task(i)
#endif
    :: true ->
      if
      :: retired == i -> held = i + 1
      :: else -> publish(i)
      fi
    fi;
    free = false
  }
  if
  :: held > 0 -> run_task(held - 1); held = 0
  :: else
  fi;
  do
  :: retired == TASKS -> break
  :: else -> (ended & BIT(retired)) -> retire(TASKS)
  od
}

init {
  atomic { run Worker(); run Submitter() }
  _nr_pr == 1;
  assert(begun == ALL && ended == ALL && queued == 0)
}
