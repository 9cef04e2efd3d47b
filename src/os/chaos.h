// SPDX-License-Identifier: Apache-2.0
// Randomised schedules for tests: at marked points of the concurrent core a thread dawdles, so that others get between two of its steps.
//
// In builds with SLIP_CHAOS (all presets that run tests) a point is one relaxed load until a test gives a seed; in others it is nothing.
// Each seed chooses two points where threads often sleep; elsewhere they seldom spin or give the core away. What a thread draws follows
// from the seed and from how many threads drew before it first did: a seed is a mood, not a schedule that could be had again.
#ifndef SLIPSTREAM_SRC_OS_CHAOS_H_
#define SLIPSTREAM_SRC_OS_CHAOS_H_

#include <stdatomic.h>
#include <stdint.h>

typedef enum slip__chaos_point_e {
  SLIP__CHAOS_LINK,             // a submitter has read a producer's list and is about to link
  SLIP__CHAOS_LINKED,           // has linked all and is about to count down the edges that came late
  SLIP__CHAOS_CLOSE,            // a finisher is about to close its task's list
  SLIP__CHAOS_CLOSED,           // has closed it and is about to look at the submitter's park word
  SLIP__CHAOS_COUNT_DOWN,       // is about to count a consumer's edges down
  SLIP__CHAOS_QUEUE_PUSH,       // an item is written and not yet published
  SLIP__CHAOS_QUEUE_CLAIM,      // items are read and not yet claimed
  SLIP__CHAOS_PARK,             // a thread has announced its sleep and not looked for work yet
  SLIP__CHAOS_SLEEP,            // has found no work and goes to sleep
  SLIP__CHAOS_WAKE,             // a waker has a sleeper's bit and not woken it yet
  SLIP__CHAOS_RETIRE,           // a submitter is about to retire what has ended
  SLIP__CHAOS_BOARD_OPEN,       // an entry is open and not yet on the list of open ones
  SLIP__CHAOS_BOARD_CLAIM,      // an entry is read and its blocks are not yet claimed
  SLIP__CHAOS_BOARD_DONE,       // blocks are done and not yet counted
  SLIP__CHAOS_BOARD_CLOSE,      // an exhausted entry is not yet off the list
  SLIP__CHAOS_NODE_COUNT_DOWN,  // a node of a replay is over and its consumer not counted down yet
  SLIP__CHAOS_SINK,             // a sink of a replay is over and not counted yet
  SLIP__CHAOS_REPLAY_OVER,      // a replay is over and nobody has been told
  SLIP__CHAOS_LANE_CLAIM,       // a free lane is seen and not yet claimed
  SLIP__CHAOS_LANE_PROGRESS,    // an entry that others wait for is over and its lane's progress not written yet
  SLIP__CHAOS_LANE_BACK,        // a lane's progress is written and the lane not given back yet
  SLIP__CHAOS_LANE_QUEUE,       // a lane is free and its item not queued yet
  SLIP__CHAOS_RECORDED,         // a recording is complete and nobody knows of it
  SLIP__CHAOS_REPLAY_BIND,      // an instance is found and not bound yet
  SLIP__CHAOS_POINTS
} slip__chaos_point_e;

#ifdef SLIP_CHAOS
// 0: off. Relaxed: nothing travels with it.
extern _Atomic uint64_t slip__chaos_seed;
void slip__chaos_act(slip__chaos_point_e point);
#endif

static inline void slip__chaos_point(slip__chaos_point_e point) {
#ifdef SLIP_CHAOS
  if (__builtin_expect(atomic_load_explicit(&slip__chaos_seed, memory_order_relaxed) != 0, 0)) slip__chaos_act(point);
#else
  (void)point;
#endif
}
// From now on all threads follow |seed|; 0 ends it. Thread-safe.
static inline void slip__chaos_start(uint64_t seed) {
#ifdef SLIP_CHAOS
  atomic_store_explicit(&slip__chaos_seed, seed, memory_order_relaxed);
#else
  (void)seed;
#endif
}

#endif  // SLIPSTREAM_SRC_OS_CHAOS_H_
