// SPDX-License-Identifier: Apache-2.0
// Model of captured and abandoned launches: lane.c (leases), lane_launch.c, ticket.c, close.c. Eager tickets: ticket.pml.
// Bounds: close at any time, and 1 capture of one launch, 1 eager launch that fails halfway and is abandoned, a thread that holds a
// handle and reaps; or
// (LEASES) 1 capture lane and 2 captures on threads of their own, of one launch and of two. Each captured launch may fail before anything
// was recorded, or later.
//
//   here          code
//   Capture       slip__lane_captured: slip__tickets_admit_captured, _create, slip__lane_lease, capture_retain, the steps,
//                 slip__lane_captured_failed or slip__ticket_publish, slip__lane_return; then the capture ends, the graph is destroyed
//   |recorded|    the capture that the control stream takes part in, from step 2 to the capture's end
//   GraphGone     slip__lane_end_captured: slip__ticket_finish by the platform, when the graph is gone and the device through with it
//   Eager         slip__lane_eager_failed from step 4 on: slip__ticket_abandon, slip__ticket_forsake; |device_reads| until the lanes are
//                 synchronised
//   retire        slip__ticket_retire with slip__ticket_give_back
//   Close         slip__close_drain; BUSY is a step that waits until another try would show something else
//
// Shown: a lane is recorded into one capture at a time; owner and gate of a ticket are given back once, and not while a graph or the device
// may use it; a ticket is freed once and not touched afterwards; close takes nothing away while a captured or abandoned launch is alive or
// a thread is in launch; and it ends once the graphs are gone.
// Hidden by sequential consistency: as in ticket.pml.
//
// check: safety
// check: LEASES
// mutant: LEASES BREAK_FIND_BUSY    a lane counts as free although another thread is about to record through it
// mutant: LEASES BREAK_FIND_ENDED   a lease ends with the launch, not with the capture
// mutant: BREAK_GIVE_TWICE       giving back does not look whether that was done
// mutant: BREAK_CLOSE_CAPTURED   close does not mind captured launches
// mutant: BREAK_NO_SYNCHRONIZE   close retires the abandoned without waiting for the lanes
// mutant: BREAK_ABANDONED_LATE   close reads |abandoned_count| after |users| and |pending|
// mutant: BREAK_COUNTED_FIRST    a captured launch is counted out before it has given back what it holds
// unreached: 1  the eager ticket is not counted in |captured|
#ifdef LEASES
#define PROCESSES 3
#else
#define PROCESSES 4
#endif
#define TICKETS  4
#define EAGER    3
#define NOBODY   0

bool capturing[3];  // by capture id, 1 and 2
byte lane_capture = NOBODY, recorded = NOBODY;
bool lane_busy = false, lane_lock = false;

byte references[TICKETS], given[TICKETS], owner[TICKETS], next[TICKETS];
bool made[TICKETS], freed[TICKETS], block_out[TICKETS];
byte tied[TICKETS];                 // capture whose graph may run the ticket
bool device_reads = false;

byte done = 0, captured = 0, pending = 0, abandoned = 0, users = 0;
byte admitted = 0, left = 0;
bool abandoned_list = false, gates_shut = false, pools = true;
byte over = 0;

#define TICKET(t) assert(made[t] && !freed[t])  // its memory outlives close (ticket.pml)

inline unreference(t) {
  atomic {
    TICKET(t);
    references[t]--;
    freed[t] = references[t] == 0
  }
}

inline give_back(t) {
  atomic {
    TICKET(t);
#ifdef BREAK_GIVE_TWICE
    given[t] = 0;
#endif
    if
    :: given[t] == 0 ->
      given[t] = 1; owner[t]++;
      assert(owner[t] == 1 && !(t == EAGER && device_reads));
      users--
    :: else
    fi
  }
}

inline count_out(t) {
  atomic {
    assert(pools);
    if
    :: t == EAGER -> abandoned--
    :: else -> captured--
    fi
  }
}

inline retire(t) {
#ifdef BREAK_COUNTED_FIRST
  count_out(t);
#endif
  atomic { TICKET(t); assert(pools && block_out[t] && !(t == EAGER && device_reads)); block_out[t] = false }
  give_back(t);
  unreference(t);
#ifndef BREAK_COUNTED_FIRST
  count_out(t)
#endif
}

inline reap() {
  atomic { list = done; done = 0 }
  do
  :: list == 0 -> break
  :: else ->
    atomic { t = list - 1; list = next[t]; next[t] = 0 }
    retire(t)
  od;
  t = 0
}

proctype GraphGone(byte me) {
  atomic { TICKET(me); next[me] = done; done = me + 1 }
  atomic { assert(pools); left++ }
}

inline lane_locked() { atomic { !lane_lock -> lane_lock = true } }

#define MINE     (lane_capture == id)
#ifdef BREAK_FIND_BUSY
#define ENDED    (recorded == NOBODY)
#else
#ifdef BREAK_FIND_ENDED
#define ENDED    (!lane_busy)
#else
#define ENDED    (!lane_busy && (lane_capture == NOBODY || recorded == NOBODY))
#endif
#endif

// One launch of ticket |me| in capture |id|. |stop|: refused.
inline launch() {
  atomic {
    if
    :: gates_shut -> stop = true
    :: else -> users++
    fi
  }
  if
  :: stop
  :: else ->
    captured++;
    atomic { assert(pools); made[me] = true; block_out[me] = true; references[me] = 2; admitted++ }
    // slip__lane_lease
    atomic {
      !lane_lock ->
      if
      :: MINE || ENDED -> lane_capture = id; lane_busy = true
      :: else -> stop = true
      fi
    }
    if
    :: stop ->  // BUSY: max_captures
      atomic { TICKET(me); admitted--; block_out[me] = false; freed[me] = true }
      captured--;
      users--
    :: else ->
      atomic { tied[me] = id; assert(capturing[id]) }  // capture_retain
      if
      :: give_back(me)  // step 1 or 2 failed: the owner is released at once
      :: atomic { assert(recorded == NOBODY || recorded == id); recorded = id }  // steps 2 and further, to the end or a failure
      fi;
      unreference(me);
      atomic { !lane_lock -> lane_busy = false }
    fi
  fi
}

proctype Capture(byte id; byte first; byte last) {
  byte me;
  bool stop;
  capturing[id] = true;
  for (me : first .. last) {
    if
    :: !stop -> launch()
    :: else
    fi
  }
  atomic { capturing[id] = false; recorded = (recorded == id -> NOBODY : recorded) }
  // A replay runs while the graph is alive.
  for (me : first .. last) {
    atomic {
      if
      :: tied[me] == id -> TICKET(me); assert(block_out[me])
      :: else
      fi
    }
  }
  for (me : first .. last) {
    atomic {
      if
      :: tied[me] == id -> run GraphGone(me)
      :: else
      fi
    }
  }
  over++
}

proctype Eager() {
  byte me = EAGER;
  atomic {
    if
    :: gates_shut -> goto out
    :: else -> users++
    fi
  }
  pending++;
  atomic { assert(pools); made[me] = true; block_out[me] = true; references[me] = 2; admitted++; device_reads = true }
  abandoned++;
  abandoned_list = true;
  pending--;
  unreference(me);
out:
  over++
}

// Asks for a ticket of which it has a handle: close does not wait for it.
proctype Reaper() {
  byte list, t;
  if
  :: gates_shut
  :: done != 0 -> reap()
  fi;
  over++
}

proctype Close() {
  byte list, t, inside, count;
  gates_shut = true;
  do
  ::
#ifdef BREAK_CLOSE_CAPTURED
    (done != 0 || pending == 0);
#else
    (done != 0 || users <= abandoned + captured && pending == 0 && captured == 0);
#endif
    reap();
    // slip__close_quiet
#ifndef BREAK_ABANDONED_LATE
    count = abandoned;
#endif
    inside = users;
    if
    :: pending != 0
    :: else ->
#ifdef BREAK_ABANDONED_LATE
      count = abandoned;
#endif
      if
#ifdef BREAK_CLOSE_CAPTURED
      :: inside <= count + captured -> break
#else
      :: inside <= count + captured && captured == 0 -> break
#endif
      :: else
      fi
    fi
  od;
  if
  :: abandoned == 0
  :: else ->
#ifndef BREAK_NO_SYNCHRONIZE
    device_reads = false;
#endif
    atomic { list = abandoned_list; abandoned_list = false }
    if
    :: list -> left++; retire(EAGER); list = 0
    :: else
    fi
  fi;
  left == admitted;
  pools = false;
  over++
}

init {
  byte t;
  atomic {
#ifdef LEASES
    run Capture(1, 0, 0); run Capture(2, 1, 2); run Close()
#else
    run Capture(1, 0, 0); run Eager(); run Reaper(); run Close()
#endif
  }
  over == PROCESSES && _nr_pr == 1;
  assert(users == 0 && captured == 0 && pending == 0 && abandoned == 0 && left == admitted);
  for (t : 0 .. TICKETS - 1) { assert(made[t] == freed[t] && !block_out[t]) }
}
