// SPDX-License-Identifier: Apache-2.0
// Racing claims in children: an open and a program's claim share one latch, one of them wins, the other has touched nothing.
#include <unistd.h>

#include "fork_world.h"
#include "kernel_mode/latch.h"
#include "platform/dispatch.h"

typedef struct fork_race_t {
  slip__thread_t program;
  uint32_t delay;  // spins of the program's side before it claims; UINT32_MAX: until the open has returned
  _Atomic uint32_t go, opened;
  slip_code_t claimed;
} fork_race_t;

static void fork_race_program(void *user) {
  fork_race_t *race = user;
  while (atomic_load(&race->go) == 0) slip__cpu_relax();
  if (race->delay == UINT32_MAX) {
    while (atomic_load(&race->opened) == 0) slip__cpu_relax();
  } else {
    for (uint32_t i = 0; i < race->delay; ++i) slip__cpu_relax();
  }
  race->claimed = fork_code(slip__latch_claim(SLIP_MODE_PROGRAM));
}

// 100: kernel mode won; 0 is not an answer.
static int fork_race_child(uint32_t delay) {
  fork_race_t race = {.delay = delay};
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  slip__platform_counters_reset();
  if (fork_code(slip__thread_start(&race.program, "program", fork_race_program, &race)) != SLIP_CODE_OK) return 1;
  atomic_store(&race.go, 1);
  if (delay == 0) slip__thread_join(&race.program);
  slip_code_t opened = fork_code(slip_context_open(&options, &context));
  atomic_store(&race.opened, 1);
  if (delay != 0) slip__thread_join(&race.program);
  if (opened == SLIP_CODE_OK) {
    if (race.claimed != SLIP_CODE_MODE_CONFLICT || !context || slip_process_mode() != SLIP_MODE_KERNEL) return 2;
    return fork_code(slip_context_close(context)) == SLIP_CODE_OK && fork_code(slip_context_destroy(context)) == SLIP_CODE_OK ? 100 : 3;
  }
  if (opened != SLIP_CODE_MODE_CONFLICT || race.claimed != SLIP_CODE_OK || context || slip_process_mode() != SLIP_MODE_PROGRAM) return 4;
  // The loser had not begun with anything native.
  return slip__platform_counter(SLIP__PLATFORM_CALL_MEMORY_ALLOCATE) == 0 && slip__platform_counter(SLIP__PLATFORM_CALL_DEVICE_PUSH) == 0
             ? 101
             : 5;
}

typedef struct fork_claim_t {
  uint32_t delay;
  int wanted;  // which answer; 0: either
  uint32_t *kernel_wins;
} fork_claim_t;

static int fork_claim_body(void *user) {
  fork_claim_t *claim = user;
  int answer = fork_race_child(claim->delay);
  if (answer < 100) return answer;
  *claim->kernel_wins += answer == 100;
  return claim->wanted == 0 || claim->wanted == answer ? 0 : 6;
}

SLIP_TEST_TIMEOUT(fork_children_race_for_the_latch, 900) {
  uint32_t rounds = fork_rounds(1000);
  uint64_t seed = slip_test_seed();
  uint32_t *wins = fork_shared_word();
  fork_claim_t claim = {.kernel_wins = wins};
  claim.delay = 0;  // these two are no races: either side must be able to win
  claim.wanted = 101;
  fork_run(fork_claim_body, &claim, FORK_END_AT_ONCE);
  claim.delay = UINT32_MAX;
  claim.wanted = 100;
  fork_run(fork_claim_body, &claim, FORK_END_AT_ONCE);
  claim.wanted = 0;
  for (uint32_t i = 0; i < rounds; ++i) {
    claim.delay = 1 + (uint32_t)(slip_test_random(&seed) % 4000);
    fork_run(fork_claim_body, &claim, FORK_END_AT_ONCE);
  }
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  printf("# kernel mode won %u of %u races\n", *wins - 1, rounds);
  printf("RESULT forks=%llu\n", (unsigned long long)fork_count());
}
