// SPDX-License-Identifier: Apache-2.0
// The campaign: programs drawn from seeds, on engines of one to eight threads, some with faults before, some several at once.
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "dag_execute.h"
#include "graph/recorded/begin.h"
#include "graph/recorded/cache.h"
#include "os/chaos.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/thread.h"

#define ENGINES     6  // the first is serial
#define CLIENTS     3
#define HOLD_ENGINE 5
#define REPLAYED    6  // one program in so many is executed often enough to be replayed
#define ROUNDS      10
#define HOLD_OPS    31  // so few that nobody takes several ready tasks at once

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define DEFAULT_DAGS 500
#else
#define DEFAULT_DAGS 5000
#endif

static const uint32_t thread_counts[ENGINES] = {1, 1, 2, 3, 4, 8};

typedef struct campaign_t {
  slip__engine_t *engines[ENGINES];
  uint64_t first, count;
  uint64_t until_ns;
  _Atomic uint64_t next, done, errors, held, overordered;
  _Atomic uint64_t sites;  // programs executed again and again
  _Atomic uint64_t run_replays, graph_replays, not_replayed;
  pthread_mutex_t failing;  // one failure is shrunk at a time
} campaign_t;

typedef struct client_t {
  campaign_t *campaign;
  uint32_t index;
  slip__thread_t thread;
} client_t;

static uint64_t environment(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

// --- Seeds for the record -----------------------------------------------------------------------------------------------------------

static _Atomic uint64_t seeds_now[CLIENTS];

// A crash or a program that never ends: its seed is all there is to say.
static void on_death(int signal_number) {
  static const char text[] = "\n# dead or stuck with one of: SLIP_DAG_SEED=";
  for (int i = 0; i < CLIENTS; ++i) {
    char digits[24];
    int at = sizeof(digits);
    digits[--at] = '\n';
    for (uint64_t seed = atomic_load(&seeds_now[i]); at > 0; seed /= 10) {
      digits[--at] = (char)('0' + seed % 10);
      if (seed < 10) break;
    }
    if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0 || write(STDOUT_FILENO, digits + at, sizeof(digits) - (size_t)at) < 0) break;
  }
  (void)signal(signal_number, SIG_DFL);
  (void)raise(signal_number == SIGALRM ? SIGABRT : signal_number);
}

static void watch(void) {
  (void)signal(SIGALRM, on_death);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  (void)signal(SIGSEGV, on_death);
  (void)signal(SIGBUS, on_death);
  (void)signal(SIGABRT, on_death);
#endif
}

// --- One program --------------------------------------------------------------------------------------------------------------------

// How a program is run, drawn from its seed: kept apart, so that a shrunk one is run in the same way.
typedef struct way_t {
  campaign_t *campaign;
  uint32_t engine;
  uint32_t fault;
  uint64_t random;
  uint64_t chaos;  // 0: none
  bool serial, held;
  bool again;  // executed often, with other addresses, contents and scalars, so that it is replayed
  bool named;  // then: if it names graphs, these and not all of it
  uint32_t rounds;
} way_t;

static way_t draw_way(campaign_t *campaign, uint64_t seed) {
  uint64_t state = seed ^ 0xca3;
  way_t way = {.campaign = campaign, .rounds = 2};
  way.random = slip_test_random(&state);
  way.engine = 1 + (uint32_t)(slip_test_random(&state) % 8);
  if (way.engine >= ENGINES) way.engine = 2;  // two threads most often
  way.fault = slip_test_random(&state) % 4 == 0 ? 1 + (uint32_t)(slip_test_random(&state) % (DAG_FAULTS - 1)) : 0;
  way.serial = slip_test_random(&state) % 8 == 0;
  way.held = slip_test_random(&state) % 4 == 0;
  way.chaos = slip_test_random(&state) % 3 == 0 ? slip_test_random(&state) | 1 : 0;
  way.again = slip_test_random(&state) % REPLAYED == 0;
  way.named = slip_test_random(&state) % 4 != 0;
  return way;
}

static void run_once(const dag_program_t *program, const dag_facts_t *facts, dag_how_t how, dag_outcome_t *out) {
  slip__workspace_options_t options = dag_workspace_options(program, how.hold >= 0);
  slip__workspace_t *workspace;
  SLIP_CHECK_OK(slip__workspace_create(how.engine, &options, &workspace));
  dag_execute(program, facts, workspace, &how, out);
  slip__workspace_destroy(workspace);
}

// A fault first, if there is one, in the same workspace.
static void run_rounds(const way_t *way, const dag_program_t *program, const dag_facts_t *facts, dag_outcome_t *out) {
  slip__workspace_options_t options = dag_workspace_options(program, false);
  slip__workspace_t *workspace;
  dag_how_t how = {.engine = way->campaign->engines[way->engine], .hold = -1};
  SLIP_CHECK_OK(slip__workspace_create(how.engine, &options, &workspace));
  for (uint32_t round = 0; round < way->rounds && !out->failed; ++round) {
    slip__chaos_start(way->chaos ? way->chaos + round * 2 : 0);
    how.fault = program->op_count ? way->fault : 0;
    how.fault_at = program->op_count ? (uint32_t)((way->random >> 8) + round) % program->op_count : 0;
    if (how.fault) dag_execute(program, facts, workspace, &how, out);
    how.fault = DAG_NO_FAULT;
    if (!out->failed) dag_execute(program, facts, workspace, &how, out);
  }
  slip__chaos_start(0);
  slip__workspace_destroy(workspace);
}

// The first task from op |from| on that can be held; -1: none.
static int32_t find_held(const dag_program_t *program, const dag_facts_t *facts, uint32_t from) {
  for (uint32_t i = 0; i < program->op_count; ++i) {
    uint32_t index = (from + i) % program->op_count;
    if (program->ops[index].what == DAG_TASK && !program->ops[index].gang && !facts->skipped[index]) return (int32_t)index;
  }
  return -1;
}

// What had to run beside the held task and did not may have been kept off by the machine: asked again, it must.
static void run_held(const way_t *way, const dag_program_t *program, const dag_facts_t *facts, uint32_t number, dag_outcome_t *out) {
  if (!(way->held || program->simple) || program->elements || program->op_count > HOLD_OPS) return;
  uint32_t from = (uint32_t)(way->random >> (16 * number) & 0xffff);
  dag_how_t how = {.engine = way->campaign->engines[HOLD_ENGINE], .hold = find_held(program, facts, from)};
  if (how.hold < 0) return;
  run_once(program, facts, how, out);
  for (int again = 0; again < 5 && program->simple && out->overordered && !out->failed; ++again) run_once(program, facts, how, out);
  atomic_fetch_add(&way->campaign->held, out->held);
  atomic_fetch_add(&way->campaign->overordered, out->overordered);
  if (!program->simple || out->overordered == 0 || out->failed) return;
  out->failed = true;
  (void)snprintf(out->why, sizeof(out->why), "%u of %u tasks waited for task %u, which has nothing to do with them", out->overordered,
                 out->held, program->ops[how.hold].id);
}

// One contract until it is replayed, then another one in between. The engine compares two recordings before it believes them.
static const uint8_t contracts[ROUNDS] = {0, 0, 0, 0, 1, 0, 1, 1, 1, 0};

// Runs that come again: of one site, so that they are recorded and replayed, or only the graphs in them. Each finds other contents at other
// addresses; predicates may answer otherwise.
static void run_again(const way_t *way, const dag_program_t *program, const dag_facts_t *facts, dag_outcome_t *out) {
  campaign_t *campaign = way->campaign;
  slip__workspace_options_t options =
      dag_workspace_options(program, !way->fault && (way->random >> 60 & 1));  // faults know how large heaps are
  slip__workspace_t *workspace;
  slip__run_site_t site = {.id = 1 + atomic_fetch_add(&campaign->sites, 1)};
  bool flat = way->random >> 61 & 1, named = false;
  for (uint32_t i = 0; i < program->op_count; ++i) named = named || (way->named && program->ops[i].graph);
  dag_how_t how = {.engine = campaign->engines[way->engine], .hold = -1, .site = &site};
  if (program->op_count == 0) return;
  SLIP_CHECK_OK(slip__workspace_create(how.engine, &options, &workspace));
  dag_program_t *again = malloc(sizeof(*again));  // too large for the stack, or for each thread to have its own
  dag_facts_t *known = malloc(sizeof(*known));
  SLIP_CHECK(again && known);
  *again = *program;
  *known = *facts;
  for (uint32_t round = 0; round < ROUNDS && !out->failed; ++round) {
    uint64_t random = dag_mix(way->random, round);
    slip__chaos_start(way->chaos ? way->chaos + round * 2 : 0);
    again->fill = round;
    again->variant = named ? round % 4 : flat ? 0 : contracts[round];
    dag_interpret_again(again, known);
    how.flat = !named && flat && contracts[round];
    how.place = (uint32_t)(random % DAG_PLACES);
    how.fault = round >= 2 && (random >> 8) % 4 == 0 ? way->fault : 0;
    how.fault_at = (uint32_t)(random >> 16) % program->op_count;
    // Relaxed: nobody else knows the site.
    atomic_store_explicit(&site.worth, !named, memory_order_relaxed);
    dag_execute(again, known, workspace, &how, out);
  }
  slip__chaos_start(0);
  slip__begin_stats_t stats = slip__begin_stats(workspace);
  atomic_fetch_add(&campaign->run_replays, slip__record_replays(workspace));
  atomic_fetch_add(&campaign->graph_replays, stats.replayed);
  atomic_fetch_add(&campaign->not_replayed, stats.refused);
  free(again);
  free(known);
  slip__workspace_destroy(workspace);
}

static void run_all_ways(const way_t *way, const dag_program_t *program, const dag_facts_t *facts, dag_outcome_t *out) {
  memset(out, 0, sizeof(*out));
  if (way->serial) run_once(program, facts, (dag_how_t){.engine = way->campaign->engines[0], .hold = -1}, out);
  if (!out->failed) run_rounds(way, program, facts, out);
  if (way->again && !out->failed) run_again(way, program, facts, out);
  for (uint32_t i = 0; i < 3 && !out->failed; ++i) run_held(way, program, facts, i, out);
}

static bool still_fails(void *user, const dag_program_t *program) {
  static dag_facts_t facts;
  const way_t *way = user;
  dag_outcome_t outcome;
  dag_interpret(program, &facts);
  for (int i = 0; i < 40; ++i) {
    run_all_ways(way, program, &facts, &outcome);
    if (outcome.failed) return true;
  }
  return false;
}

static void report(campaign_t *campaign, const way_t *way, const dag_program_t *program, const dag_outcome_t *outcome) {
  static dag_program_t small;
  pthread_mutex_lock(&campaign->failing);
  if (atomic_fetch_add(&campaign->errors, 1) < 5) {
    printf("# SLIP_DAG_SEED=%llu: %s (%u threads)\n", (unsigned long long)program->seed, outcome->why, thread_counts[way->engine]);
    small = *program;
    dag_shrink(&small, still_fails, (void *)(uintptr_t)way, (uint32_t)environment("SLIP_DAG_SHRINK", 15));
    dag_print(&small, stdout);
    (void)fflush(stdout);
  }
  pthread_mutex_unlock(&campaign->failing);
}

static void one_program(campaign_t *campaign, uint64_t seed) {
  static _Thread_local dag_program_t program;
  static _Thread_local dag_facts_t facts;
  dag_outcome_t outcome;
  way_t way = draw_way(campaign, seed);
  dag_generate(seed, &program);
  dag_interpret(&program, &facts);
  if (!facts.valid && program.elements) {  // the host would touch what a NO_DEP argument touches
    for (uint32_t i = 0; i < program.op_count; ++i) {
      if (program.ops[i].what >= DAG_READ_ELEMENT) program.ops[i].what = DAG_JOIN;
    }
    program.elements = false;
    dag_interpret(&program, &facts);
  }
  SLIP_CHECK(facts.valid);
  run_all_ways(&way, &program, &facts, &outcome);
  if (outcome.failed) report(campaign, &way, &program, &outcome);
}

// --- Campaigns ----------------------------------------------------------------------------------------------------------------------

static void client_main(void *user) {
  client_t *client = user;
  campaign_t *campaign = client->campaign;
  for (;;) {
    uint64_t number = atomic_fetch_add(&campaign->next, 1);
    if (number >= campaign->count || (campaign->until_ns && slip__clock_now_ns() > campaign->until_ns)) break;
    atomic_store(&seeds_now[client->index], campaign->first + number);
    one_program(campaign, campaign->first + number);
    (void)alarm(100);
    atomic_fetch_add(&campaign->done, 1);
  }
}

static void run_campaign(uint32_t client_count, uint64_t default_count, uint64_t offset) {
  static campaign_t campaign;
  client_t clients[CLIENTS] = {0};
  uint64_t seconds = environment("SLIP_DAG_SECONDS", 60);
  campaign.first = environment("SLIP_DAG_SEED", slip_test_seed() + offset);
  campaign.count = getenv("SLIP_DAG_SEED") && !getenv("SLIP_DAGS") ? 1 : environment("SLIP_DAGS", default_count);
  campaign.until_ns = seconds ? slip__clock_now_ns() + seconds * UINT64_C(1000000000) / 2 : 0;
  pthread_mutex_init(&campaign.failing, NULL);
  for (uint32_t i = 0; i < ENGINES; ++i) {
    slip__engine_options_t options = {
        .serial = i == 0, .thread_count = thread_counts[i], .scratch_bytes = 64, .stall_timeout_ms = UINT32_MAX};
    SLIP_CHECK_OK(slip__engine_create(&options, &campaign.engines[i]));
  }
  slip__log_capture(SLIP__LOG_OFF, NULL, NULL);  // many of its graphs cannot be recorded
  watch();
  (void)alarm(100);
  for (uint32_t i = 0; i < client_count; ++i) {
    clients[i] = (client_t){.campaign = &campaign, .index = i};
    SLIP_CHECK_OK(slip__thread_start(&clients[i].thread, "client", client_main, &clients[i]));
  }
  for (uint32_t i = 0; i < client_count; ++i) slip__thread_join(&clients[i].thread);
  (void)alarm(0);
  for (uint32_t i = 0; i < ENGINES; ++i) slip__engine_destroy(campaign.engines[i]);
  uint64_t replays = campaign.run_replays + campaign.graph_replays;
  printf(
      "RESULT dags=%llu errors=%llu dag_held_pairs=%llu dag_overordered=%llu dag_replays=%llu dag_graph_replays=%llu "
      "dag_graphs_refused=%llu\n",
      (unsigned long long)campaign.done, (unsigned long long)campaign.errors, (unsigned long long)campaign.held,
      (unsigned long long)campaign.overordered, (unsigned long long)replays, (unsigned long long)campaign.graph_replays,
      (unsigned long long)campaign.not_replayed);
  SLIP_CHECK_EQ(campaign.errors, 0);
  // So many that some of each kind have come, wherever the campaign began.
  if (campaign.sites >= 60) SLIP_CHECK(campaign.run_replays > 0);
  if (campaign.sites >= 100) SLIP_CHECK(campaign.graph_replays > 0);
}

SLIP_TEST_TIMEOUT(random_graphs_keep_their_order, 86400) {
  run_campaign(1, DEFAULT_DAGS, 0);
}

SLIP_TEST_TIMEOUT(random_graphs_of_several_runs_at_once, 86400) {
  run_campaign(CLIENTS, DEFAULT_DAGS / 4, 1u << 30);
}
