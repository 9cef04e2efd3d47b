// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

#include "interleave.h"

static uint64_t interleave_number(const char *name, uint64_t standard) {
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : standard;
}

SLIP_TEST_TIMEOUT(threads_and_serial_oracle_agree, 1500) {
  static interleave_world_t world;
  uint64_t first = interleave_number("SLIP_INTERLEAVE_FIRST", 0), seeds = interleave_number("SLIP_INTERLEAVE_SEEDS", 1000);
  uint64_t mismatches = 0, launches = 0, refused = 0, captures = 0, replays = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    interleave_world_open(&world, seed);
    for (uint32_t i = 0; i < INTERLEAVE_THREADS; ++i)
      SLIP_CHECK_OK(slip__thread_start(&world.threads[i].thread, "interleave", interleave_thread_run, &world.threads[i]));
    for (uint32_t i = 0; i < INTERLEAVE_THREADS; ++i) slip__thread_join(&world.threads[i].thread);
    for (uint32_t i = 0; i < INTERLEAVE_THREADS; ++i) {
      launches += world.threads[i].launched;
      refused += world.threads[i].refused;
      captures += world.threads[i].captures;
      replays += world.threads[i].replays;
    }
    uint32_t different = interleave_world_close(&world);
    if (different > 0) printf("seed %llu: %u buffers differ from the oracle\n", (unsigned long long)seed, different);
    mismatches += different > 0;
  }
  printf("RESULT seeds=%llu mismatches=%llu launches=%llu captures=%llu replays=%llu refused=%llu\n", (unsigned long long)seeds,
         (unsigned long long)mismatches, (unsigned long long)launches, (unsigned long long)captures, (unsigned long long)replays,
         (unsigned long long)refused);
  fflush(stdout);
  SLIP_CHECK_EQ(mismatches, 0);
  if (seeds >= 100) SLIP_CHECK(launches > 4 * seeds && captures > seeds && replays > seeds && refused > 0);
}
