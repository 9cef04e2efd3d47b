// SPDX-License-Identifier: Apache-2.0
// Who runs a task that is ready as it is submitted: another thread, or the submitter at once.
//
// Handing a task to another core moves cache lines, which takes anything from a third to many times of what a small task does, depends on
// where the host has put the two, and changes within seconds. So it is measured: the submitter counts what a submit costs in both modes,
// over some hundred submits each, keeps to the cheaper one, and now and then tries the other.
//
//   SHARE   ready tasks go to the queue (schedule.c)
//   ALONE   a ready task runs inside its submit. While nothing is in flight every task is ready, and retires with its submit: the
//           dependency map and the queue have no part in it. Else the map is asked, but need not know of the task
//
// A trial of ALONE ends early when its tasks turn out to be long, for the other threads have nothing to do meanwhile. Single-owner: the
// submitter's. Kept across runs.
#ifndef SLIPSTREAM_SRC_GRAPH_BALANCE_H_
#define SLIPSTREAM_SRC_GRAPH_BALANCE_H_

#include <stdbool.h>
#include <stdint.h>

typedef enum slip__balance_mode_e { SLIP__SHARE, SLIP__ALONE } slip__balance_mode_e;

typedef struct slip__balance_t {
  uint32_t mode;         // slip__balance_mode_e
  uint32_t trial;        // this is a trial
  uint32_t submits;      // since the last look
  uint32_t look_at;      // a look when |submits| has come to this
  uint32_t counted;      // submits since |began_ns|
  uint32_t until_trial;  // measurements before the next trial
  uint32_t patience;     // what |until_trial| is set to: doubles while trials fail
  uint64_t began_ns;     // of this measurement; 0: it has not begun
  uint64_t cost[2];      // of a submit, in 1/16 ns, by mode; 0: not known
} slip__balance_t;

// A new measurement begins with the next submit: the time until then is not the submits' own.
static inline void slip__balance_pause(slip__balance_t *balance) {
  balance->began_ns = 0;
  balance->submits = 0;
  balance->look_at = 1;
}
void slip__balance_look(slip__balance_t *balance);
// Once a submit. True: run it here if it is ready.
static inline bool slip__balance_alone(slip__balance_t *balance) {
  if (__builtin_expect(++balance->submits >= balance->look_at, 0)) slip__balance_look(balance);
  return balance->mode == SLIP__ALONE;
}

#endif  // SLIPSTREAM_SRC_GRAPH_BALANCE_H_
