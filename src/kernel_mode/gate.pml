// SPDX-License-Identifier: Apache-2.0
// Model of gate.h with registry.h/registry.c: prepare, release, launch, sweep of callables that share one image.
// Bounds: 1 place, hence each id comes back to the same gate; 2 threads that prepare and release, 2 that launch one guessed id each; one
// unload may fail.
//
//   here                         code
//   gate_id, closed, inside      the one word of gate.h; each step on it is one compare-and-swap or fetch-and-sub
//   prepare                      slip__registry_reserve, _obtain, _commit or _abandon
//   release                      slip__registry_release: slip__registry_close_gate under the lock, then the sweep
//   launch                       slip__registry_enter, use, slip__registry_leave, slip__launch_sweep
//   sweep                        slip__registry_sweep: _collect under the lock, then _unload without it
//
// Shown: whoever is inside finds its own registration with its code loaded; an old id never enters its successor's gate; of the calls of
// close and leave exactly one is the last; code is unloaded once and only when unused; when all is over nothing waits to be swept.
// Hidden by sequential consistency: that whoever enters sees the registration's fields (release in open, acquire in enter), and that the
// sweeper sees the users' work (acq_rel in leave). Not hidden: BREAK_WANTED_STORE delays the sweeper's store of 0 to |sweep_wanted| as a
// store buffer does, for which reason it is an exchange.
//
// check: safety
// mutant: BREAK_ID_APART          enter compares the id in one step and counts in another
// mutant: BREAK_SWEEP_INSIDE      collect does not ask whether somebody is inside
// mutant: BREAK_WANTED_LATE       the sweeper clears |sweep_wanted| after it looked at the gates
// mutant: BREAK_WANTED_STORE      the sweeper clears it with a store that may be delayed
// mutant: BREAK_FIND_UNLOADING    prepare shares a resident that is being unloaded
// mutant: BREAK_OPEN_FIRST        commit opens the gate before it sets the fields
// unreached: 2 a sweep never drops a FAILED resident: no registration has one
#define PLACES    1
#define RESIDENTS 3
#define NO_ID     9

// residents
#define NONE      0
#define LOADING   1
#define LOADED    2
#define FAILED    3
#define UNLOADING 4
#define OWED      5

#ifdef BREAK_FIND_UNLOADING
#define SHARES_UNLOADING true
#else
#define SHARES_UNLOADING false
#endif

bool lock = false;
byte gate_id = 0, inside = 0;
bool closed = true;
bool used = false, on_closed_list = false, object_set = false;
byte registered_id = NO_ID, registered_resident;
byte next_id = 0, callables = 0;
byte sweep_wanted = 0;
#ifdef BREAK_WANTED_STORE
bool delayed_zero = false;
#endif

byte state[RESIDENTS], references[RESIDENTS];
bool code[RESIDENTS];  // what the platform has loaded
bool unload_fails = true;  // once
byte done = 0, lasts = 0, opened = 0;

inline acquire() { atomic { !lock -> lock = true } }
#ifdef BREAK_WANTED_STORE
inline release_lock() { atomic { !delayed_zero -> lock = false } }
proctype Memory() {
end:
  do
  :: atomic { delayed_zero -> sweep_wanted = 0; delayed_zero = false }
  od
}
#else
inline release_lock() { lock = false }
#endif

// Lock held. |mine|: residents that this thread must unload.
inline drop(r) {
  references[r]--;
  if
  :: references[r] > 0
  :: else ->
    if
    :: state[r] == LOADED -> state[r] = UNLOADING; mine = mine | (1 << r)
    :: else -> state[r] = NONE  // FAILED
    fi
  fi
}

inline unload_mine() {
  do
  :: mine == 0 -> break
  :: else ->
    atomic {
      r = (mine & 1 -> 0 : (mine & 2 -> 1 : 2));
      mine = mine & ~(1 << r);
      assert(state[r] == UNLOADING && references[r] == 0);
      assert(code[r]);
      failed = false;
      if
      :: unload_fails -> unload_fails = false; failed = true
      :: code[r] = false
      fi
    }
    acquire();
    d_step { state[r] = (failed -> OWED : NONE); r = 0 }
    release_lock()
  od
}

inline sweep() {
  acquire();
#ifndef BREAK_WANTED_LATE
#ifdef BREAK_WANTED_STORE
  delayed_zero = true;
#else
  sweep_wanted = 0;
#endif
#endif
  atomic {  // guarded by the lock, but for the gate, which is read once
    for (r : 0 .. RESIDENTS - 1) {
      if
      :: state[r] == OWED -> state[r] = UNLOADING; mine = mine | (1 << r)
      :: else
      fi
    }
    if
#ifdef BREAK_SWEEP_INSIDE
    :: on_closed_list ->
#else
    :: on_closed_list && inside == 0 ->
#endif
      on_closed_list = false;
      used = false; object_set = false; registered_id = NO_ID;
      r = registered_resident;
      drop(r)
    :: else
    fi;
    r = 0
  }
#ifdef BREAK_WANTED_LATE
  sweep_wanted = 0;
#endif
  release_lock();
  unload_mine()
}

inline reserve() {
  atomic {
    !lock ->  // one step: only what the lock guards
    resident = RESIDENTS;
    for (r : 0 .. RESIDENTS - 1) {
      if
      :: state[r] == LOADING || state[r] == LOADED || SHARES_UNLOADING && state[r] == UNLOADING -> resident = r
      :: else
      fi
    }
    owner = resident == RESIDENTS;
    if
    :: owner ->
      for (r : 0 .. RESIDENTS - 1) {
        if
        :: state[r] == NONE && resident == RESIDENTS -> resident = r
        :: else
        fi
      }
      assert(resident < RESIDENTS);
      state[resident] = LOADING
    :: else
    fi;
    references[resident]++; callables++; r = 0
  }
}

inline obtain() {
  if
  :: owner ->
    atomic {
      assert(!code[resident]);
      failed = false;
      if
      :: code[resident] = true
      :: failed = true
      fi
    }
    atomic { !lock -> state[resident] = (failed -> FAILED : LOADED) }
  :: else ->
    atomic { !lock && state[resident] != LOADING -> failed = state[resident] == FAILED }
  fi
}

inline commit() {
  id = NO_ID;
  acquire();
  if
  :: used  // BUSY: the place is held by a released callable whose launches have not left
  :: else ->
    id = next_id; next_id++; opened++;
#ifdef BREAK_OPEN_FIRST
    d_step { gate_id = id; closed = false; inside = 0 }
#endif
    d_step { used = true; object_set = true; registered_id = id; registered_resident = resident }
#ifndef BREAK_OPEN_FIRST
    d_step { assert(closed && inside == 0); gate_id = id; closed = false }
#endif
  fi;
  release_lock()
}

inline abandon() {
  atomic { !lock -> callables--; drop(resident) }
  unload_mine()
}

proctype Preparer() {
  byte id, resident, r, mine;
  bool owner, failed;
  reserve();
  obtain();
  if
  :: failed -> id = NO_ID
  :: else -> commit()
  fi;
  if
  :: id == NO_ID -> abandon()
  :: else ->
    acquire();
    atomic {
      assert(gate_id == id && !closed);  // slip__gate_close finds it open: this thread alone releases it
      closed = true; lasts = lasts + (inside == 0 -> 1 : 0);
      on_closed_list = true; callables--
    }
    release_lock();
    sweep()
  fi;
  done++
}

proctype Launcher() {
  byte id, r, mine;
  bool failed, last;
  if
  :: id = 0
  :: id = 1
  fi;
#ifdef BREAK_ID_APART
  if
  :: gate_id == id && !closed
  :: else -> goto out
  fi;
  inside++;
#else
  atomic {
    if
    :: gate_id == id && !closed -> inside++
    :: else -> goto out
    fi
  }
#endif
  assert(used && object_set && registered_id == id && code[registered_resident]);
  assert(used && object_set && registered_id == id && code[registered_resident]);
  atomic { inside--; last = closed && inside == 0; lasts = lasts + (last -> 1 : 0) }
  if
  :: last -> sweep_wanted = 1
  :: else
  fi;
  if
  :: sweep_wanted == 1 -> sweep()
  :: else
  fi;
out:
  done++
}

init {
  byte r;
  atomic {
#ifdef BREAK_WANTED_STORE
    run Memory();
#endif
    run Preparer(); run Preparer(); run Launcher(); run Launcher()
  }
  done == 4;
  assert(!on_closed_list && !used && closed && inside == 0 && callables == 0 && lasts == opened);
  for (r : 0 .. RESIDENTS - 1) { assert(references[r] == 0 && (state[r] == NONE && !code[r] || state[r] == OWED && code[r])) }
}
