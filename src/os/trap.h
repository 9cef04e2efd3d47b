// SPDX-License-Identifier: Apache-2.0
// The signals that a thread's own code causes: SIGSEGV, SIGBUS, SIGFPE, SIGILL. For processes that ask for it; nothing is installed else.
#ifndef SLIPSTREAM_SRC_OS_TRAP_H_
#define SLIPSTREAM_SRC_OS_TRAP_H_

#include "slipstream/status.h"

typedef struct slip__trap_t {
  const char *signal;       // "SIGSEGV"
  const void *address;      // what was accessed, or executed
  const void *instruction;  // NULL where the machine does not tell
} slip__trap_t;

// Writes a text about |trap| and returns its length. Runs in the handler, on the thread that caused the signal: it only reads, and writes
// to |text|.
typedef size_t (*slip__trap_describe_t)(const slip__trap_t *trap, char *text, size_t capacity);

// From now on such a signal writes what |describe| says to |descriptor|, then takes its default course: it ends the process. Only the first
// one is told. INVALID_ARGUMENT (no descriptor).
slip_status_t slip__trap_install(int descriptor, slip__trap_describe_t describe) SLIP_MUST_USE;
// Gives the calling thread a stack for the handler, so that an overflow of its own can be told. The memory stays with the process.
void slip__trap_thread(void);

#endif  // SLIPSTREAM_SRC_OS_TRAP_H_
