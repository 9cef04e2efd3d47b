// SPDX-License-Identifier: Apache-2.0
// Model of ticket.h/ticket.c with the asynchronous half of launch.c and the end of close.c: what an asynchronous launch owns.
// Bounds: 2 launches on threads of their own, and close at any time. max_pending is 1, hence one may have to wait for room; one keeps a
// handle and waits; each enqueue may be refused. Or (ROOM_FOR_BOTH) max_pending is 2, and neither keeps a handle or is refused.
//
//   here          code
//   admit         slip__tickets_admit and slip__tickets_wait_for_room (|epoch|: see drain.pml)
//   Launch        slip__launch_async: create, enqueue, publish or discard and revoke; then slip_ticket_wait, slip_ticket_release
//   Device        slip__ticket_finish and the last line of slip__launch_device_side
//   reap, retire  slip__tickets_reap, slip__ticket_retire: by admit, by wait and by close
//   Close         slip__close_drain, what comes after it as |pools| = false, slip_context_destroy; each thread destroys its reference
//   raise, S1..   signal.h, see signal.pml
//
// Shown: a ticket is freed once and not touched afterwards; its argument block and its owner are given back once, before anybody sees
// RETIRED; PUBLISHED never hides DONE or RETIRED; nothing is used after close has freed it, nor the context's memory after destroy; nobody
// sleeps for ever. Close polls; as a step that waits until a poll would show something, so that a close that would not end is a deadlock.
// Hidden by sequential consistency: that result and tensors are visible with RETIRED (release by the device side, acquire by query).
//
// check: safety
// check: ROOM_FOR_BOTH
// mutant: BREAK_PUBLISH_STORE     publish stores PUBLISHED instead of exchanging PENDING for it
// mutant: BREAK_NO_LEFT           close does not wait for |left|
// mutant: BREAK_ONE_REFERENCE     the launching thread has no reference of its own
// mutant: BREAK_PENDING_FIRST     retire counts out before it has given the argument block back
// mutant: BREAK_NO_RAISE          the reaper does not raise the signal: a launch waits for room that is there
#define TICKETS 2
#ifdef ROOM_FOR_BOTH
#define MAX_PENDING 2
#define HANDLE      false
#else
#define MAX_PENDING 1
#define HANDLE      true
#endif

// ticket states
#define PENDING   0
#define PUBLISHED 1
#define DONE      2
#define RETIRED   3

byte state[TICKETS], references[TICKETS], next[TICKETS];
byte blocks_out[TICKETS], released[TICKETS];
bool made[TICKETS], freed[TICKETS];

byte blocks_free = MAX_PENDING;
byte done = 0;  // top of the stack, ticket + 1
byte pending = 0, admitted = 0, left = 0;
byte users = 0;       // inside the gates of callables
bool gates_shut = false, closing = false;
bool pools = true;    // argument pools, slots: what close frees
byte shell = 1;       // references to the context's memory; one for all of |opens|
byte opens = TICKETS + 1;  // each thread keeps its reference of open while it is in a call, but for a wait, which needs none
byte waiters = 0, sequence = 0;
bool asleep[TICKETS];
byte over = 0;

#define CONTEXT() assert(shell > 0)
#define TICKET(t) assert(made[t] && !freed[t])

inline raise() {
  if
  :: atomic { waiters == 0 -> CONTEXT() }
  :: atomic { waiters > 0 -> CONTEXT() }
    atomic { CONTEXT(); sequence++; asleep[0] = false; asleep[1] = false }
  fi
}
inline sleep() {
  atomic {
    if
    :: sequence == key -> asleep[me] = true
    :: else
    fi
  }
  !asleep[me];
  key = sequence
}

inline destroy() {
  atomic {
    opens--;
    if
    :: opens == 0 -> shell--
    :: else
    fi
  }
}

inline unreference(t) {
  atomic {
    TICKET(t);
    references[t]--;
    if
    :: references[t] == 0 -> freed[t] = true; CONTEXT()
    :: else
    fi
  }
}

inline give_block(t) {
  TICKET(t); assert(pools && blocks_out[t] == 1); blocks_out[t] = 0; blocks_free++
}

inline retire(t) {
#ifdef BREAK_PENDING_FIRST
  atomic { CONTEXT(); pending-- }
#endif
  atomic { give_block(t); released[t]++; assert(released[t] == 1) }
  atomic { TICKET(t); assert(state[t] == DONE); state[t] = RETIRED }
  unreference(t);
  atomic { CONTEXT(); users-- }
#ifndef BREAK_PENDING_FIRST
  atomic { CONTEXT(); assert(pending > 0); pending-- }
#endif
}

inline reap() {
  if
  :: atomic { done == 0 -> CONTEXT() }
  :: done != 0 ->
    atomic { CONTEXT(); list = done; done = 0 }
    if
    :: list == 0
    :: else ->
      do
      :: list == 0 -> break
      :: else ->
        atomic { t = list - 1; list = next[t]; next[t] = 0 }
        retire(t)
      od;
#ifndef BREAK_NO_RAISE
      raise();
#endif
      t = 0
    fi
  fi
}

// To |refused| if close begins meanwhile.
inline admit() {
  reap();
  atomic {
    if
    :: pending < MAX_PENDING -> pending++; goto admitted_now
    :: else
    fi
  }
  waiters++;
  key = sequence;
  do
  ::
    reap();
    if
    :: closing -> waiters--; goto refused
    :: else
    fi;
    atomic {
      if
      :: pending < MAX_PENDING -> pending++; break
      :: else
      fi
    }
    sleep()
  od;
  waiters--;
admitted_now:
  key = 0
}

proctype Device(byte me) {
  byte top;
  atomic { TICKET(me); state[me] = DONE }
  top = done;
  do
  ::
    atomic { TICKET(me); next[me] = top }
    atomic {
      if
      :: done == top -> done = me + 1; break
      :: else -> top = done
      fi
    }
  od;
  raise();
  atomic { CONTEXT(); left++ }
}

proctype Launch(byte me; bool handle) {
  byte list, t, key;
  if
  :: closing -> goto over_now
  :: else
  fi;
  atomic {
    if
    :: gates_shut -> goto over_now
    :: else -> users++
    fi
  }
  admit();
  atomic {
    assert(pools && blocks_free > 0);
    blocks_free--;
    made[me] = true; blocks_out[me] = 1; state[me] = PENDING;
    shell = shell + handle;
#ifdef BREAK_ONE_REFERENCE
    references[me] = 1 + handle;
#else
    references[me] = 2;
#endif
    admitted++
  }
  if
#ifndef ROOM_FOR_BOTH
  :: atomic { admitted--; give_block(me); freed[me] = true; shell = shell - handle; CONTEXT() }  // the platform refused
    atomic { CONTEXT(); pending-- }
    raise();
    goto refused
#endif
  :: run Device(me)
  fi;
#ifdef BREAK_PUBLISH_STORE
  atomic { TICKET(me); state[me] = PUBLISHED }
#else
  atomic {
    TICKET(me);
    if
    :: state[me] == PENDING -> state[me] = PUBLISHED
    :: else
    fi
  }
#endif
#ifdef BREAK_ONE_REFERENCE
  if
  :: !handle -> goto over_now
  :: else
  fi;
#else
  if
  :: !handle -> unreference(me); goto over_now
  :: else
  fi;
#endif
  destroy();
  // slip_ticket_wait
  atomic { CONTEXT(); waiters++ }
  key = sequence;
  do
  ::
    reap();
    if
    :: atomic { state[me] == RETIRED -> TICKET(me); assert(released[me] == 1 && blocks_out[me] == 0); break }
    :: atomic { state[me] != RETIRED -> TICKET(me) }
    fi;
    sleep()
  od;
  atomic { CONTEXT(); waiters--; key = 0 }
  unreference(me);
  atomic { CONTEXT(); shell-- }
  goto out;
refused:
  atomic { CONTEXT(); users-- }
over_now:
  destroy();
out:
  over++
}

proctype Close() {
  byte list, t;
  closing = true;
  raise();
  gates_shut = true;
  do
  ::
    (done != 0 || users == 0 && pending == 0);
    reap();
    if
    :: users != 0
    :: else ->
      if
      :: pending == 0 -> break
      :: else
      fi
    fi
  od;
#ifndef BREAK_NO_LEFT
  left == admitted;
#endif
  pools = false;
  destroy();
  over++
}

init {
  byte t;
  atomic { run Launch(0, HANDLE); run Launch(1, false); run Close() }
  over == TICKETS + 1 && _nr_pr == 1;
  assert(shell == 0 && users == 0 && pending == 0 && left == admitted && waiters == 0);
  for (t : 0 .. TICKETS - 1) { assert(made[t] == freed[t] && blocks_out[t] == 0) }
}
