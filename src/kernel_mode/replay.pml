// SPDX-License-Identifier: Apache-2.0
// Model of the life of a recorded graph: graph.c, replay.c, close.c. The versions of its arguments: graph.pml.
// Bounds: 2 replays enqueued by one thread; the owner destroys the graph once that thread calls no more, while replays may still be on the
// stream; close and destroy of the context at any time.
//
//   here        code
//   Launcher    the asynchronous half of slip_graph_launch: a reference of the graph and a place in |pending|, then the enqueue
//   Replay      the device side's run, which reads graph and callable; then slip__graph_retire by whoever reaps
//   unreference slip__graph_unreference: the last one leaves the callables' gates and frees the graph
//   Owner       slip_graph_destroy: unreference, the look at |sweep_wanted|, |graphs| as the last access to the context
//   Close       slip__close_drain: BUSY while |graphs| is not 0, then waits for gates and |pending|, unloads
//
// Shown: the graph is freed once, after its last replay; the callable stays loaded until then; nobody touches the context after close and
// destroy; close ends. Hidden by sequential consistency: that close sees the owner's last access (release of |graphs|, acquire in close).
//
// check: safety
// mutant: BREAK_OWNER_FREES        destroy frees the graph although replays are enqueued
// mutant: BREAK_GRAPHS_FIRST       destroy tells close that the graph is gone before it has let go of the context
// mutant: BREAK_GATES_EARLY        destroy leaves the callables' gates itself, and they are released
#define REPLAYS 2

byte references = 1, graphs = 1, users = 1, pending = 0;
bool freed = false, context_gone = false, code = true;
bool calls = true;  // the launching thread may still call with the graph
byte over = 0;

inline unreference() {
  atomic {
    assert(!freed && references > 0);
    references--;
    if
    :: references == 0 -> last = true
    :: else -> last = false
    fi
  }
  if
  :: last ->
#ifndef BREAK_GATES_EARLY
    atomic { assert(!context_gone); users-- }
#endif
    atomic { assert(!context_gone && !freed); freed = true }
  :: else
  fi
}

proctype Replay() {
  bool last;
  assert(!freed && code);
  assert(!freed && code && !context_gone);
  unreference();
  atomic { assert(!context_gone); pending-- }
  over++
}

proctype Launcher() {
  byte i;
  for (i : 1 .. REPLAYS) {
    atomic { assert(!freed && !context_gone); pending++ }
    atomic { references++; run Replay() }
  }
  calls = false;
  over++
}

proctype Owner() {
  bool last;
  !calls;
#ifdef BREAK_GRAPHS_FIRST
  graphs--;
#endif
#ifdef BREAK_OWNER_FREES
  atomic { freed = true; users-- }
#else
#ifdef BREAK_GATES_EARLY
  users--;
#endif
  unreference();
#endif
  assert(!context_gone);  // the look at |sweep_wanted|
#ifndef BREAK_GRAPHS_FIRST
  graphs--;
#endif
  over++
}

#ifdef BREAK_GATES_EARLY
proctype Release() {
  users == 0;
  code = false
}
#endif

proctype Close() {
  graphs == 0;  // BUSY until then
  users == 0;
  pending == 0;
  code = false;
  context_gone = true;
  over++
}

init {
  atomic {
    run Launcher(); run Owner(); run Close();
#ifdef BREAK_GATES_EARLY
    run Release()
#endif
  }
  over == 3 + REPLAYS;
  assert(freed && references == 0 && users == 0 && !code)
}
