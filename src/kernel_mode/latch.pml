// SPDX-License-Identifier: Apache-2.0
// Model of latch.h/latch.c and of the fork rules of open.c. Bounds: a process, its fork child, that child's fork child; in each one thread
// that opens a context and one that claims program mode; the fork may happen at any step of its parent's threads.
//
//   here                code
//   claim               slip__latch_claim: one compare-and-swap from UNCLAIMED
//   Opener              slip_context_open: slip__latch_check, the table's lock for the search, claim(KERNEL), the lock for the insertion
//   Programmer          claim(PROGRAM)
//   Fork                fork(): word and lock as they are at that moment, threads gone; then slip__latch_child, single-threaded
//   reset               slip__contexts_reset, registered by slip__latch_on_fork
//
// Shown: one mode wins and stays; nothing is claimed in a child (or grandchild) of a kernel-mode process and its locks are never touched;
// any other child starts afresh and finds no lock held by a thread that does not exist there.
// Hidden by sequential consistency: nothing. The word orders only itself.
//
// check: safety
// mutant: BREAK_CLAIM_APART       load, then store, instead of one exchange
// mutant: BREAK_CHILD_KEEPS       the child callback leaves KERNEL as it is
// mutant: BREAK_NO_RESET          locks are not made anew in the child
// mutant: BREAK_GRANDCHILD        the callback treats FORKED like PROGRAM
// mutant: BREAK_NO_CHECK          open takes the lock before it looks at the latch
#define UNCLAIMED 0
#define PROGRAM   1
#define KERNEL    2
#define FORKED    3

#define PROCESSES 3

byte word[PROCESSES];
bool lock[PROCESSES];
bool won_program[PROCESSES], won_kernel[PROCESSES];
bool of_kernel[PROCESSES];  // an ancestor had claimed kernel mode at the fork
byte threads_left = 6;

inline claim(mode) {
  ok = false;
#ifdef BREAK_CLAIM_APART
  if
  :: word[p] == UNCLAIMED -> word[p] = mode; ok = true
  :: else -> ok = (word[p] == mode)
  fi
#else
  atomic {
    if
    :: word[p] == UNCLAIMED -> word[p] = mode; ok = true
    :: else -> ok = (word[p] == mode)
    fi
  }
#endif
}

proctype Opener(byte p) {
  bool ok;
#ifndef BREAK_NO_CHECK
  if
  :: word[p] == FORKED -> goto out
  :: else
  fi;
#endif
  assert(!of_kernel[p]);
  atomic { !lock[p] -> lock[p] = true }
  lock[p] = false;
  claim(KERNEL);
  if
  :: ok ->
    d_step { won_kernel[p] = true; assert(!of_kernel[p] && !won_program[p] && word[p] == KERNEL) }
    atomic { !lock[p] -> lock[p] = true }
    lock[p] = false
  :: else
  fi;
out:
  threads_left--
}

proctype Programmer(byte p) {
  bool ok;
  claim(PROGRAM);
  if
  :: ok -> d_step { won_program[p] = true; assert(!of_kernel[p] && !won_kernel[p] && word[p] == PROGRAM) }
  :: else
  fi;
  threads_left--
}

// Process |p| forks |p| + 1 once, whenever.
proctype Fork(byte p) {
  atomic {
    byte c = p + 1;
    word[c] = word[p];
    lock[c] = lock[p];
    of_kernel[c] = of_kernel[p] || word[p] == KERNEL;
    if
#ifndef BREAK_CHILD_KEEPS
    :: word[c] == KERNEL -> word[c] = FORKED
#else
    :: word[c] == KERNEL
#endif
#ifndef BREAK_GRANDCHILD
    :: word[c] == FORKED
#endif
    :: else ->
      word[c] = UNCLAIMED;
#ifndef BREAK_NO_RESET
      lock[c] = false
#endif
    fi;
    run Opener(c); run Programmer(c);
    if
    :: c < PROCESSES - 1 -> run Fork(c)
    :: else
    fi
  }
}

init {
  atomic { run Opener(0); run Programmer(0); run Fork(0) }
  threads_left == 0;
  // One of the two modes was won, unless the process is the child of a kernel-mode one.
  byte p;
  for (p : 0 .. PROCESSES - 1) {
    assert(of_kernel[p] -> !won_kernel[p] && !won_program[p] : won_kernel[p] != won_program[p])
  }
}
