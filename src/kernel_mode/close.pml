// SPDX-License-Identifier: Apache-2.0
// Model of close.c against launch, prepare and a second close. Bounds: one callable prepared before and one prepared meanwhile, 2 inline
// launches (each of either callable), 2 threads that close until it succeeds; one unload may fail. Asynchronous launches: ticket.pml.
//
//   here         code
//   Prepare      slip__context_enter (state, then the operations' gate), load, slip__gate_open, slip__context_leave
//   Launch       slip__launch: state, slip__registry_enter, the run, slip__registry_leave
//   Close        slip_context_close and its stages; a wait is one step that goes on when the condition holds, as the poll would
//   users        slip__gate_inside of each gate; |operations| the gate of slow operations
//
// Shown: code and engine are used only while they are there; everything is given back once, in order; of two closers one works at a time and
// both end with OK; a failed stage is repeated and those after it wait; who sees CLOSED finds the device free for the next open; close ends.
// Hidden by sequential consistency: that closers see what users did (acq_rel of the gates).
//
// check: safety
// mutant: BREAK_SHUT_FIRST          gates are shut before the operations have left
// mutant: BREAK_NO_CLOSING          nothing keeps two closers apart
// mutant: BREAK_STAGE_FORGOTTEN     a failed stage counts as done
// mutant: BREAK_FORGET_LATE         CLOSED before the context has left the process table
// mutant: BREAK_NO_OPERATIONS_GATE  prepare looks at the state only
#define CALLABLES 2

#define READY   0
#define CLOSING 1
#define CLOSED  2

// stages
#define ADMISSION 0
#define DRAIN     1
#define UNLOAD    2
#define ENGINE    3
#define ALL       4

byte state = READY, closing = 0, stage = ADMISSION;
byte operations = 0, users[CALLABLES];
bool operations_shut = false, open[CALLABLES], code[CALLABLES];
bool engine = true, in_table = true, unload_fails = true;
byte done = 0;

proctype Prepare() {
  if
  :: state != READY -> goto out
  :: else
  fi;
#ifdef BREAK_NO_OPERATIONS_GATE
  operations = operations;
#else
  atomic {
    if
    :: operations_shut -> goto out
    :: else -> operations++
    fi
  }
#endif
  atomic { assert(stage < UNLOAD && state != CLOSED); code[1] = true }  // loading
  atomic { assert(stage < UNLOAD && state != CLOSED); open[1] = true }
#ifndef BREAK_NO_OPERATIONS_GATE
  operations--;
#endif
out:
  done++
}

proctype Launch() {
  byte id;
  if
  :: id = 0
  :: id = 1
  fi;
  if
  :: state != READY -> goto out
  :: else
  fi;
  atomic {
    if
    :: open[id] -> users[id]++
    :: else -> goto out
    fi
  }
  assert(engine && code[id]);
  atomic { assert(engine && code[id]); users[id]-- }
out:
  done++
}

// One run of slip__close_run with |closing| held. |ok|: nothing failed.
inline teardown() {
  ok = true;
  if
  :: stage == ADMISSION -> operations_shut = true; stage = DRAIN
  :: else
  fi;
  if
  :: stage == DRAIN ->
#ifndef BREAK_SHUT_FIRST
    operations == 0;
#endif
    open[0] = false;
    open[1] = false;
#ifdef BREAK_SHUT_FIRST
    operations == 0;
#endif
    users[0] == 0;
    users[1] == 0;
    stage = UNLOAD
  :: else
  fi;
  if
  :: stage == UNLOAD ->
    atomic {
      if
      :: unload_fails -> unload_fails = false; ok = false
      :: code[0] = false; code[1] = false
      fi;
      assert(users[0] == 0 && users[1] == 0 && engine);
#ifdef BREAK_STAGE_FORGOTTEN
      stage = ENGINE; ok = true
#else
      stage = (ok -> ENGINE : UNLOAD)
#endif
    }
  :: else
  fi;
  if
  :: ok && stage == ENGINE -> atomic { assert(engine); engine = false }
    stage = ALL
  :: else
  fi
}

proctype Close() {
  bool ok;
  do
  ::
    if
    :: state == CLOSED -> break
    :: else
    fi;
#ifndef BREAK_NO_CLOSING
    atomic {
      closing == 0 ->  // else BUSY: asks again when the other has returned
      closing = 1
    }
#endif
    if
    :: state == CLOSED -> ok = true
    :: else ->
      state = CLOSING;
      teardown();
      if
      :: ok ->
#ifdef BREAK_FORGET_LATE
        state = CLOSED;
        in_table = false
#else
        in_table = false;
        state = CLOSED
#endif
      :: else
      fi
    fi;
    closing = 0
  od;
  assert(!in_table && !engine && !code[0] && !code[1] && !open[0] && !open[1]);
  done++
}

init {
  atomic {
    open[0] = true; code[0] = true;
    run Prepare(); run Launch(); run Launch(); run Close(); run Close()
  }
  done == 5;
  assert(stage == ALL && users[0] == 0 && users[1] == 0 && operations == 0)
}
