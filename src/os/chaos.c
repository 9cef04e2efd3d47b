// SPDX-License-Identifier: Apache-2.0
#include "os/chaos.h"

#include <sched.h>
#include <unistd.h>

#include "os/thread.h"

#ifdef SLIP_CHAOS

_Atomic uint64_t slip__chaos_seed;

static uint64_t slip__chaos_draw(uint64_t seed) {
  static _Atomic uint64_t threads;
  static _Thread_local uint64_t seen, state, number;
  if (number == 0) number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
  if (seen != seed) {
    seen = seed;
    state = seed ^ number * UINT64_C(0x9e3779b97f4a7c15);
  }
  state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t x = (state ^ (state >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  return x ^ (x >> 31);
}

void slip__chaos_act(slip__chaos_point_e point) {
  uint64_t seed = atomic_load_explicit(&slip__chaos_seed, memory_order_relaxed);
  uint64_t drawn = slip__chaos_draw(seed), what = drawn % 32, length = drawn >> 8 & 127;
  bool is_hot = seed % SLIP__CHAOS_POINTS == point || (seed >> 16) % SLIP__CHAOS_POINTS == point;
  if (is_hot && what < 8) {
    (void)usleep((useconds_t)length + 1);
  } else if (what < (is_hot ? 24u : 2u)) {
    (void)sched_yield();
  } else if (what == 24) {
    for (uint64_t i = 0; i < length; ++i) slip__cpu_relax();
  }
}

#endif  // SLIP_CHAOS
