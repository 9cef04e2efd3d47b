// SPDX-License-Identifier: Apache-2.0
#include "graph/balance.h"

#include "os/clock.h"

#define SLIP__BALANCE_WINDOW   128u           // submits of a measurement
#define SLIP__BALANCE_PATIENCE 8u             // measurements between two trials, at first
#define SLIP__BALANCE_LONGEST  1024u          // and at most
#define SLIP__BALANCE_SMALL    (2000u * 16u)  // submits that cost more are not worth a trial: their tasks are long
#define SLIP__BALANCE_TRIAL_NS 60000u         // the longest trial
#define SLIP__BALANCE_STEP     4u             // submits between two looks at the clock in a trial
#define SLIP__BALANCE_LONG_NS  60000u         // alone: this long for one step of a measurement is too long
// Submits between two looks at the clock while alone, at most: 1, 2, 4 .. at first, for a run may have only a few tasks, all of them long.
#define SLIP__BALANCE_ALONE 16u

static void slip__balance_begin(slip__balance_t *balance, slip__balance_mode_e mode, bool trial, uint64_t now) {
  balance->mode = mode;
  balance->trial = trial;
  balance->began_ns = now;
  balance->counted = 0;
  balance->look_at = mode == SLIP__SHARE ? SLIP__BALANCE_WINDOW : 1;
}

static void slip__balance_learn(slip__balance_t *balance, uint64_t elapsed_ns) {
  uint64_t cost = elapsed_ns * 16 / balance->counted + 1, *known = &balance->cost[balance->mode];
  *known = *known && !balance->trial ? (3 * *known + cost) / 4 : cost;
}

// A measurement is complete: what next?
static void slip__balance_decide(slip__balance_t *balance, uint64_t now) {
  const uint64_t *cost = balance->cost;
  slip__balance_mode_e best = cost[SLIP__ALONE] && cost[SLIP__ALONE] < cost[SLIP__SHARE] ? SLIP__ALONE : SLIP__SHARE;
  if (balance->trial) {
    bool failed = best != balance->mode;
    balance->patience = !failed                                     ? SLIP__BALANCE_PATIENCE
                        : balance->patience < SLIP__BALANCE_LONGEST ? balance->patience * 2
                                                                    : balance->patience;
    balance->until_trial = balance->patience;
    slip__balance_begin(balance, best, false, now);
    return;
  }
  if (best == SLIP__ALONE || cost[SLIP__SHARE] < SLIP__BALANCE_SMALL) {
    if (balance->until_trial == 0) {
      slip__balance_begin(balance, balance->mode == SLIP__SHARE ? SLIP__ALONE : SLIP__SHARE, true, now);
      return;
    }
    --balance->until_trial;
  }
  slip__balance_begin(balance, best, false, now);
}

void slip__balance_look(slip__balance_t *balance) {
  uint64_t now = slip__clock_now_ns();
  uint32_t submits = balance->submits;
  balance->submits = 0;
  if (balance->began_ns == 0) {
    if (balance->patience == 0) balance->patience = SLIP__BALANCE_PATIENCE;
    slip__balance_begin(balance, balance->mode, balance->trial, now);
    return;
  }
  balance->counted += submits;
  uint64_t elapsed = now - balance->began_ns;
  bool early = false;
  if (balance->mode == SLIP__ALONE) {
    uint32_t most = balance->trial ? SLIP__BALANCE_STEP : SLIP__BALANCE_ALONE;
    early = elapsed > (balance->trial ? SLIP__BALANCE_TRIAL_NS : SLIP__BALANCE_LONG_NS);
    balance->look_at = balance->counted < most ? balance->counted : most;
  }
  if (balance->counted < SLIP__BALANCE_WINDOW && !early) return;
  slip__balance_learn(balance, elapsed);
  slip__balance_decide(balance, now);
}
