// SPDX-License-Identifier: Apache-2.0
// Telling which kernel crashed, in a process that exists to run one program.
//
// On "cpu" and "sim" kernels are host code: a wild pointer or a division by zero is a signal to the process. The library never installs a
// signal handler by itself, since the process is somebody else's, with a crash reporter or a debugger of its own. A process of which
// nothing is lost when it dies, such as a child made for the purpose (`slip run --isolate`), may ask for the report below.
#ifndef SLIPSTREAM_CRASH_H_
#define SLIPSTREAM_CRASH_H_

#include "slipstream/status.h"

SLIP_EXTERN_C_BEGIN

// The first character of a report.
#define SLIP_CRASH_KERNEL "kernel "   // a kernel caused the signal: number, name, block and submit follow
#define SLIP_CRASH_OTHER  "process "  // something else did

// Installs handlers for SIGSEGV, SIGBUS, SIGFPE and SIGILL, replacing those there are. The first such signal writes one report, a sentence
// without a line's end, to |descriptor|, which stays the caller's and open; then the process ends by the signal.
//
// To be called once, before any context is opened: contexts of before name no kernels. They cost a few nanoseconds a block from then on.
// Not thread-safe. Status: INVALID_ARGUMENT (|descriptor| is not open), INVALID_STATE (the process has claimed kernel mode already),
// FORKED.
SLIP_API slip_status_t slip_crash_report_to(int descriptor) SLIP_MUST_USE;

SLIP_EXTERN_C_END

#endif  // SLIPSTREAM_CRASH_H_
