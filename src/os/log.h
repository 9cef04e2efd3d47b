// SPDX-License-Identifier: Apache-2.0
// Lines for people: what the library has to say that no status carries, one event a line on the standard error, "slipstream: " before it.
//
//   SLIP_LOG   what is written
//   off        nothing
//   warn       (also if not set, or set to something else) what a user has asked for and does not get
//   info       also what happens without being asked for
//
// Cold: a line formats, takes the stream's lock and makes a system call. The environment is read at the first line. Thread-safe.
#ifndef SLIPSTREAM_SRC_OS_LOG_H_
#define SLIPSTREAM_SRC_OS_LOG_H_

#include "slipstream/base.h"

typedef enum slip__log_level_e {
  SLIP__LOG_OFF = 1,
  SLIP__LOG_WARN = 2,
  SLIP__LOG_INFO = 3,
} slip__log_level_e;

#define SLIP__LOG_LINE 1024u  // longer lines are cut

// Whether a line of |level| would be written: asked before a text is put together at some cost.
bool slip__log_wants(slip__log_level_e level);
void slip__log(slip__log_level_e level, const char *format, ...) SLIP_PRINTF(2, 3);

// For tests: from now on |level| counts instead of the environment, and lines go to |sink| (NULL: the standard error), without the prefix
// and the newline. |level| 0: as at the start. No line may be under way.
typedef void (*slip__log_sink_fn_t)(void *user, slip__log_level_e level, const char *line);
void slip__log_capture(slip__log_level_e level, slip__log_sink_fn_t sink, void *user);

#endif  // SLIPSTREAM_SRC_OS_LOG_H_
