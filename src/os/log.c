// SPDX-License-Identifier: Apache-2.0
#include "os/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// 0: the environment has not been asked. Relaxed: whoever asks gets the same answer. |slip__log_sink| changes only while no line is under
// way.
static _Atomic uint32_t slip__log_level;
static slip__log_sink_fn_t slip__log_sink;
static void *slip__log_user;

static uint32_t slip__log_asked(void) {
  const char *text = getenv("SLIP_LOG");
  if (text && strcmp(text, "off") == 0) return SLIP__LOG_OFF;
  return text && strcmp(text, "info") == 0 ? SLIP__LOG_INFO : SLIP__LOG_WARN;
}

bool slip__log_wants(slip__log_level_e level) {
  uint32_t wanted = atomic_load_explicit(&slip__log_level, memory_order_relaxed);
  if (wanted == 0) {
    wanted = slip__log_asked();
    atomic_store_explicit(&slip__log_level, wanted, memory_order_relaxed);
  }
  return (uint32_t)level <= wanted;
}

void slip__log(slip__log_level_e level, const char *format, ...) {
  char line[SLIP__LOG_LINE];
  if (!slip__log_wants(level)) return;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  if (slip__log_sink) {
    slip__log_sink(slip__log_user, level, line);
  } else {
    (void)fprintf(stderr, "slipstream: %s\n", line);  // one call: lines of several threads stay apart
  }
}

void slip__log_capture(slip__log_level_e level, slip__log_sink_fn_t sink, void *user) {
  slip__log_sink = sink;
  slip__log_user = user;
  atomic_store_explicit(&slip__log_level, (uint32_t)level, memory_order_relaxed);
}
