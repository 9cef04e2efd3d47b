// SPDX-License-Identifier: Apache-2.0
// What one launch of a trivial three-tensor callable costs: frame built with full validation, launched inline; the enqueue on an
// asynchronous stream, of the cpu and of the simulator; and the same launch as a node of a recorded graph.
//
//   bench_launch               times (medians of batches) and counts
//   bench_launch --budget      counts only; exit 1 if an inline launch or replay allocates, locks or calls the system at all
//   bench_launch --loop N      N launches and nothing else: for callgrind and perf
//   bench_launch --replay-loop N   N replays of BENCH_NODES nodes, likewise
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meter.h"
#include "slipstream/sim.h"
#include "subject.h"

#define BENCH_BATCHES 301
#define BENCH_BATCH   2000
#define BENCH_ASYNC   256
#define BENCH_COUNTED 10000
#define BENCH_REPLAYS (BENCH_COUNTED / BENCH_NODES)

// --- times -------------------------------------------------------------------------------------------------------------------------------

static double bench_time_inline(bench_t *b) {
  static double batches[BENCH_BATCHES];
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (int i = 0; i < BENCH_BATCH; ++i) bench_call(b, SLIP_STREAM_INLINE);
    batches[batch] = (double)(bench_now_ns() - start) / BENCH_BATCH;
  }
  bench_verify(b);
  return bench_median(batches, BENCH_BATCHES);
}

static double bench_time_frame(bench_t *b) {
  static double batches[BENCH_BATCHES];
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (int i = 0; i < BENCH_BATCH; ++i) {
      slip_frame_t frame;
      bench_frame(b, &frame);
      slip_frame_deinitialize(&frame);
    }
    batches[batch] = (double)(bench_now_ns() - start) / BENCH_BATCH;
  }
  return bench_median(batches, BENCH_BATCHES);
}

// Per node, inline.
static double bench_time_replay(bench_t *b) {
  static double batches[BENCH_BATCHES];
  enum { REPLAYS = BENCH_BATCH / BENCH_NODES };
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (int i = 0; i < REPLAYS; ++i) bench_replay(b, SLIP_STREAM_INLINE);
    batches[batch] = (double)(bench_now_ns() - start) / (REPLAYS * BENCH_NODES);
  }
  bench_verify(b);
  return bench_median(batches, BENCH_BATCHES);
}

// Per replay: the launching thread's cost of an enqueue, and that of giving one node other arguments (frame not included).
static double bench_time_replay_enqueue(bench_t *b, slip_stream_t stream) {
  static double batches[BENCH_BATCHES];
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (int i = 0; i < BENCH_ASYNC; ++i) bench_replay(b, stream);
    batches[batch] = (double)(bench_now_ns() - start) / BENCH_ASYNC;
    bench_check(slip_context_drain(b->context), "drain");
  }
  bench_verify(b);
  return bench_median(batches, BENCH_BATCHES);
}
static double bench_time_bind(bench_t *b) {
  static double batches[BENCH_BATCHES];
  slip_frame_t frame;
  bench_frame(b, &frame);
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (uint32_t i = 0; i < BENCH_BATCH; ++i) bench_check(slip_graph_bind(b->graph, i % BENCH_NODES, &frame), "bind");
    batches[batch] = (double)(bench_now_ns() - start) / BENCH_BATCH;
  }
  slip_frame_deinitialize(&frame);
  return bench_median(batches, BENCH_BATCHES);
}

// The launching thread's cost alone; the stream works the batch off between batches.
static double bench_time_enqueue(bench_t *b, slip_stream_t stream, double *out_total) {
  static double batches[BENCH_BATCHES], totals[BENCH_BATCHES];
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns();
    for (int i = 0; i < BENCH_ASYNC; ++i) bench_call(b, stream);
    batches[batch] = (double)(bench_now_ns() - start) / BENCH_ASYNC;
    bench_check(slip_context_drain(b->context), "drain");
    totals[batch] = (double)(bench_now_ns() - start) / BENCH_ASYNC;
  }
  bench_verify(b);
  *out_total = bench_median(totals, BENCH_BATCHES);
  return bench_median(batches, BENCH_BATCHES);
}

// A counter that the library does not reach would read 0 for ever: the first load of a platform takes a lock, a signature allocates.
static void bench_check_meter(void) {
  slip_platform_t *null = NULL;
  slip_signature_t *signature = NULL;
  bench_meter_start();
  slip_status_t found = slip_platform_find("null", &null),
                parsed = slip_signature_parse("(in x: f32[N])", 14, slip_allocator_system(), &signature);
  bench_counts_t counts = bench_meter_stop();
  bench_check(found, "the null platform");
  bench_check(parsed, "signature");
  slip_signature_release(signature);
  if (counts.allocations > 0 && counts.locks > 0) return;
  fprintf(stderr, "the meter does not see the library: %" PRIu64 " allocations and %" PRIu64 " locks where there are some\n",
          counts.allocations, counts.locks);
  exit(1);
}

static bench_counts_t bench_count(bench_t *b, slip_stream_t stream, int launches) {
  for (int i = 0; i < launches; ++i) bench_call(b, stream);  // whatever is done once has been done
  bench_check(slip_context_drain(b->context), "drain");
  bench_meter_start();
  for (int i = 0; i < launches; ++i) bench_call(b, stream);
  return bench_meter_stop();
}

static bench_counts_t bench_count_replays(bench_t *b, slip_stream_t stream, int replays) {
  for (int i = 0; i < replays; ++i) bench_replay(b, stream);
  bench_check(slip_context_drain(b->context), "drain");
  bench_meter_start();
  for (int i = 0; i < replays; ++i) bench_replay(b, stream);
  return bench_meter_stop();
}

// --- the simulator -----------------------------------------------------------------------------------------------------------------------

typedef struct bench_sim_t {
  bool there;
  double enqueue_ns, total_ns, replay_ns;  // of a launch; of its captured form, enqueued
  double calls, replay_calls;              // to the platform, each
  bench_counts_t counts;
} bench_sim_t;

static uint64_t bench_sim_calls(void) {
  slip_sim_statistics_t statistics = {.struct_size = (uint32_t)sizeof(statistics)};
  bench_check(slip_sim_statistics(&statistics), "statistics");
  return statistics.calls;
}

// Captured once, replayed in batches.
static void bench_sim_replays(bench_t *b, slip_stream_t stream, bench_sim_t *out) {
  static double batches[BENCH_BATCHES];
  slip_graph_exec_t graph = NULL;
  bench_check(slip_stream_capture_begin(b->platform, stream, SLIP_CAPTURE_MODE_GLOBAL), "capture");
  bench_call(b, stream);
  bench_check(slip_stream_capture_end(b->platform, stream, &graph), "capture end");
  for (int batch = 0; batch < BENCH_BATCHES; ++batch) {
    uint64_t start = bench_now_ns(), calls = bench_sim_calls();
    for (int i = 0; i < BENCH_ASYNC; ++i) bench_check(slip_graph_exec_launch(b->platform, graph, stream), "replay");
    batches[batch] = (double)(bench_now_ns() - start) / BENCH_ASYNC;
    out->replay_calls = (double)(bench_sim_calls() - calls) / BENCH_ASYNC;
    bench_check(slip_stream_synchronize(b->platform, stream), "synchronize");
  }
  bench_check(slip_graph_exec_destroy(b->platform, graph), "graph");
  out->replay_ns = bench_median(batches, BENCH_BATCHES);
}

// Without the random delays, which are no cost of a launch.
static void bench_sim(bench_sim_t *out) {
  bench_t b;
  slip_stream_t stream = NULL;
  slip_platform_t *platform = NULL;
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  *out = (bench_sim_t){0};
  slip_status_t found = slip_platform_find("sim", &platform);
  out->there = slip_status_is_ok(found);
  slip_status_free(found);
  if (!out->there) return;
  options.delay_ns = UINT64_MAX;
  bench_check(slip_sim_reset(&options), "reset");
  bench_open(&b, "sim", 0);
  bench_check(slip_stream_create(platform, 0, &stream), "stream");
  out->enqueue_ns = bench_time_enqueue(&b, stream, &out->total_ns);
  uint64_t calls = bench_sim_calls();
  for (int i = 0; i < BENCH_ASYNC; ++i) bench_call(&b, stream);
  out->calls = (double)(bench_sim_calls() - calls) / BENCH_ASYNC;
  out->counts = bench_count(&b, stream, BENCH_ASYNC);
  bench_check(slip_context_drain(b.context), "drain");
  bench_sim_replays(&b, stream, out);
  bench_verify(&b);
  bench_close(&b);
  bench_check(slip_stream_destroy(platform, stream), "stream");
  if (slip_sim_violation_count() == 0) return;
  char text[512];
  (void)slip_sim_violation(0, text, sizeof(text));
  fprintf(stderr, "the simulator found a violation: %s\n", text);
  exit(1);
}

static void bench_print_sim(const bench_sim_t *sim) {
  if (!sim->there) return;
  printf("  enqueue on the simulator          %8.1f ns with %.1f platform calls; until it has run and retired %.1f ns\n", sim->enqueue_ns,
         sim->calls, sim->total_ns);
  printf("  enqueue of a captured launch there%8.1f ns with %.1f platform calls\n", sim->replay_ns, sim->replay_calls);
  printf("  of %d enqueues there:               %" PRIu64 " allocations, %" PRIu64 " locks\n", BENCH_ASYNC, sim->counts.allocations,
         sim->counts.locks);
}

// --- counts of the inline path -----------------------------------------------------------------------------------------------------------

static int bench_traced_replays(void *user) {
  (void)user;
  bench_t b;
  bench_open(&b, "cpu", 0);
  for (int i = 0; i < BENCH_REPLAYS; ++i) bench_replay(&b, SLIP_STREAM_INLINE);
  bench_meter_mark_begin();
  for (int i = 0; i < BENCH_REPLAYS; ++i) bench_replay(&b, SLIP_STREAM_INLINE);
  bench_meter_mark_end();
  return 0;
}

static int bench_traced(void *user) {
  (void)user;
  bench_t b;
  bench_open(&b, "cpu", 0);
  for (int i = 0; i < BENCH_COUNTED; ++i) bench_call(&b, SLIP_STREAM_INLINE);
  bench_meter_mark_begin();
  for (int i = 0; i < BENCH_COUNTED; ++i) bench_call(&b, SLIP_STREAM_INLINE);
  bench_meter_mark_end();
  return 0;
}

static int bench_loop(int64_t count) {
  bench_t b;
  bench_open(&b, "cpu", SLIP_CONTEXT_SINGLE_THREAD);
  for (int64_t i = 0; i < count; ++i) bench_call(&b, SLIP_STREAM_INLINE);
  bench_verify(&b);
  bench_close(&b);
  return 0;
}

// What must be 0, all of it.
typedef struct bench_budget_t {
  bench_counts_t launches, replays;
  int64_t launch_calls, replay_calls;  // system calls; -1: tracing is not possible here
} bench_budget_t;

// Before this process claims kernel mode: the children claim it for themselves.
static void bench_trace(bench_budget_t *budget) {
  bench_check_meter();
  budget->launch_calls = bench_meter_system_calls(bench_traced, NULL);
  budget->replay_calls = bench_meter_system_calls(bench_traced_replays, NULL);
}
static void bench_count_inline(bench_t *b, bench_budget_t *budget) {
  budget->launches = bench_count(b, SLIP_STREAM_INLINE, BENCH_COUNTED);
  budget->replays = bench_count_replays(b, SLIP_STREAM_INLINE, BENCH_REPLAYS);
}
static void bench_print_budget(const bench_budget_t *budget) {
  printf("  of %d inline launches:            %" PRIu64 " allocations, %" PRIu64 " locks, %" PRId64 " system calls%s\n", BENCH_COUNTED,
         budget->launches.allocations, budget->launches.locks, budget->launch_calls,
         budget->launch_calls < 0 ? " (tracing is not possible here)" : "");
  printf("  of %d inline replays of %d nodes:   %" PRIu64 " allocations, %" PRIu64 " locks, %" PRId64 " system calls\n", BENCH_REPLAYS,
         BENCH_NODES, budget->replays.allocations, budget->replays.locks, budget->replay_calls);
}

static int bench_budget(void) {
  bench_t b;
  bench_budget_t budget;
  bench_trace(&budget);
  bench_open(&b, "cpu", 0);
  bench_count_inline(&b, &budget);
  bench_close(&b);
  bench_print_budget(&budget);
  uint64_t allocations = budget.launches.allocations + budget.replays.allocations, locks = budget.launches.locks + budget.replays.locks;
  bool kept = allocations == 0 && locks == 0 && budget.launch_calls <= 0 && budget.replay_calls <= 0;
  printf("RESULT allocs=%" PRIu64 " locks=%" PRIu64 " syscalls=%" PRId64 " replay_syscalls=%" PRId64 "\n", allocations, locks,
         budget.launch_calls, budget.replay_calls);
  return kept ? 0 : 1;
}

static int bench_all(void) {
  bench_t b;
  bench_budget_t budget;
  bench_sim_t sim;
  slip_stream_t stream = NULL;
  double async_total_ns = 0;
  bench_trace(&budget);
  bench_open(&b, "cpu", SLIP_CONTEXT_SINGLE_THREAD);
  double single_ns = bench_time_inline(&b), single_node_ns = bench_time_replay(&b);
  bench_close(&b);
  bench_open(&b, "cpu", 0);
  bench_check(slip_stream_create(b.platform, 0, &stream), "stream");
  double launch_ns = bench_time_inline(&b), node_ns = bench_time_replay(&b), frame_ns = bench_time_frame(&b);
  double enqueue_ns = bench_time_enqueue(&b, stream, &async_total_ns), replay_enqueue_ns = bench_time_replay_enqueue(&b, stream);
  double bind_ns = bench_time_bind(&b);
  bench_count_inline(&b, &budget);
  bench_counts_t async = bench_count(&b, stream, BENCH_ASYNC);
  bench_check(slip_context_drain(b.context), "drain");
  bench_close(&b);
  bench_check(slip_stream_destroy(b.platform, stream), "stream");
  bench_sim(&sim);
  printf("three tensors of %d f32, one task, frame with full validation; medians of %d batches\n", BENCH_ELEMENTS, BENCH_BATCHES);
  printf("  inline launch, all cores          %8.1f ns, of which the frame %.1f ns\n", launch_ns, frame_ns);
  printf("  inline launch, single thread      %8.1f ns\n", single_ns);
  printf("  enqueue on an asynchronous stream %8.1f ns; until it has run and retired %.1f ns\n", enqueue_ns, async_total_ns);
  printf("  inline replay of %d nodes         %8.1f ns per node, all cores; single thread %.1f ns\n", BENCH_NODES, node_ns, single_node_ns);
  printf("  enqueue of a replay of %d nodes   %8.1f ns; binding a node %.1f ns\n", BENCH_NODES, replay_enqueue_ns, bind_ns);
  bench_print_sim(&sim);
  bench_print_budget(&budget);
  printf("  of %d enqueues:                     %" PRIu64 " allocations, %" PRIu64 " locks\n", BENCH_ASYNC, async.allocations, async.locks);
  printf("RESULT launch_ns=%.1f allocs=%" PRIu64 " locks=%" PRIu64 " syscalls=%" PRId64
         " frame_ns=%.1f launch_single_thread_ns=%.1f enqueue_ns=%.1f async_total_ns=%.1f async_allocs=%" PRIu64 " async_locks=%" PRIu64
         " replay_node_ns=%.1f replay_node_single_thread_ns=%.1f replay_enqueue_ns=%.1f bind_ns=%.1f replay_allocs=%" PRIu64
         " replay_locks=%" PRIu64 " replay_syscalls=%" PRId64
         " sim_enqueue_ns=%.1f sim_total_ns=%.1f sim_replay_enqueue_ns=%.1f sim_calls=%.1f\n",
         launch_ns, budget.launches.allocations, budget.launches.locks, budget.launch_calls, frame_ns, single_ns, enqueue_ns,
         async_total_ns, async.allocations, async.locks, node_ns, single_node_ns, replay_enqueue_ns, bind_ns, budget.replays.allocations,
         budget.replays.locks, budget.replay_calls, sim.enqueue_ns, sim.total_ns, sim.replay_ns, sim.calls);
  return 0;
}

static int bench_replay_loop(int64_t count) {
  bench_t b;
  bench_open(&b, "cpu", SLIP_CONTEXT_SINGLE_THREAD);
  for (int64_t i = 0; i < count; ++i) bench_replay(&b, SLIP_STREAM_INLINE);
  bench_verify(&b);
  bench_close(&b);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--loop") == 0) return bench_loop(strtoll(argv[2], NULL, 10));
  if (argc == 3 && strcmp(argv[1], "--replay-loop") == 0) return bench_replay_loop(strtoll(argv[2], NULL, 10));
  if (argc == 2 && strcmp(argv[1], "--budget") == 0) return bench_budget();
  if (argc == 1) return bench_all();
  fprintf(stderr, "usage: bench_launch [--budget | --loop N | --replay-loop N]\n");
  return 2;
}
