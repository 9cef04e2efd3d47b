// SPDX-License-Identifier: Apache-2.0
// How far are the two CPUs from each other right now? Prints the nanoseconds that a cache line takes from one to the other (one way, the
// median of several stretches). On a virtual machine this changes between one core, one last-level cache and two within seconds.
#include <pthread.h>
#include <stdatomic.h>

#include "work.h"

#define METER_STRETCHES 7
#define METER_TURNS     2000

static _Alignas(128) _Atomic int ball;

// Adds one whenever the value is odd; main does when it is even.
static void *meter_mate(void *user) {
  (void)user;
  for (int turn = 1; turn < METER_TURNS * METER_STRETCHES; turn += 2) {
    while (atomic_load_explicit(&ball, memory_order_acquire) != turn) {
    }
    atomic_store_explicit(&ball, turn + 1, memory_order_release);
  }
  return NULL;
}

int main(void) {
  pthread_t mate;
  double stretches[METER_STRETCHES];
  if (pthread_create(&mate, NULL, meter_mate, NULL) != 0) return 1;
  for (int s = 0; s < METER_STRETCHES; ++s) {
    double from = 0;
    for (int turn = s * METER_TURNS; turn < (s + 1) * METER_TURNS; turn += 2) {
      while (atomic_load_explicit(&ball, memory_order_acquire) != turn) {
      }
      if (from == 0) from = bench_now_ns();
      atomic_store_explicit(&ball, turn + 1, memory_order_release);
    }
    stretches[s] = (bench_now_ns() - from) / METER_TURNS;
  }
  (void)pthread_join(mate, NULL);
  printf("%.1f\n", bench_median(stretches, METER_STRETCHES));
  return 0;
}
