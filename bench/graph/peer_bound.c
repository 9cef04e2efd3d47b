// SPDX-License-Identifier: Apache-2.0
// Bounds: what the work alone costs. loop_*: plain calls on one thread. fixed_*: two threads that were told beforehand what to do when,
// with flags that they spin on; no runtime that decides anything can be expected to be faster.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "decoder.h"
#include "work.h"

typedef struct bound_flag_t {
  _Alignas(128) _Atomic int64_t value;
} bound_flag_t;

static bound_flag_t bound_rows[BENCH_SIDE + 1], bound_arrived[2];
static _Atomic int64_t bound_done[BENCH_NODES];
static uint64_t *bound_words;
static int64_t bound_size;
static void (*bound_half)(int self);

static void bound_wait(_Atomic int64_t *flag, int64_t value) {
  while (atomic_load_explicit(flag, memory_order_acquire) < value) {
  }
}
// Both have come here for the |turn|-th time.
static void bound_meet(int self, int64_t turn) {
  atomic_store_explicit(&bound_arrived[self].value, turn, memory_order_release);
  bound_wait(&bound_arrived[!self].value, turn);
}

static void bound_independent(int self) {
  for (int64_t i = self ? bound_size / 2 : 0, end = self ? bound_size : bound_size / 2; i < end; ++i) bench_task_own(bound_words, i);
}
// A link here, a link there: the chain if every link changes the thread.
static void bound_chain(int self) {
  for (int64_t i = self; i < bound_size; i += 2) {
    bound_wait(&bound_rows[0].value, i);
    bench_task_link(bound_words);
    atomic_store_explicit(&bound_rows[0].value, i + 1, memory_order_release);
  }
}
// Every other row; a row follows the one above.
static void bound_wavefront(int self) {
  for (int64_t i = 1 + self; i <= bound_size; i += 2) {
    for (int64_t j = 1; j <= bound_size; ++j) {
      if (i > 1) bound_wait(&bound_rows[i - 1].value, j);
      bench_task_cell(bound_words, bound_size, i, j);
      atomic_store_explicit(&bound_rows[i].value, j, memory_order_release);
    }
  }
}
static void bound_phases(int self) {
  const int64_t first = self ? BENCH_LANES / 2 : 0;
  for (int64_t p = 1; p <= bound_size; ++p) {
    for (int64_t i = first; i < first + BENCH_LANES / 2; ++i) bench_task_own(bound_words, i);
    bound_meet(self, p);
  }
}
// Even tasks here, odd tasks there.
static void bound_random_graph(int self) {
  for (int64_t r = 1; r <= bound_size; ++r) {
    for (int i = self; i < BENCH_NODES; i += 2) {
      for (int k = 0; k < bench_nodes[i].parent_count; ++k) bound_wait(&bound_done[bench_nodes[i].parents[k]], r);
      bench_task_node(bound_words, i);
      atomic_store_explicit(&bound_done[i], r, memory_order_release);
    }
    bound_meet(self, r);
  }
}

// The second thread waits here for work, so that its start is not measured.
static _Atomic int64_t bound_round, bound_finished;
static void *bound_mate(void *user) {
  (void)user;
  for (int64_t round = 1;; ++round) {
    bound_wait(&bound_round, round);
    if (!bound_half) return NULL;
    bound_half(1);
    atomic_store_explicit(&bound_finished, round, memory_order_release);
  }
}
static void bound_run(uint64_t *v, int64_t size) {
  for (int i = 0; i <= BENCH_SIDE; ++i) atomic_store_explicit(&bound_rows[i].value, 0, memory_order_relaxed);
  for (int i = 0; i < BENCH_NODES; ++i) atomic_store_explicit(&bound_done[i], 0, memory_order_relaxed);
  for (int i = 0; i < 2; ++i) atomic_store_explicit(&bound_arrived[i].value, 0, memory_order_relaxed);
  bound_words = v;
  bound_size = size;
  int64_t round = atomic_load_explicit(&bound_round, memory_order_relaxed) + 1;
  atomic_store_explicit(&bound_round, round, memory_order_release);
  bound_half(0);
  bound_wait(&bound_finished, round);
}

static void bound_decoder(uint64_t *v, int64_t size) {
  (void)size;
  decoder_reset();
  for (int i = 0; i < DECODER_TASKS; ++i) decoder_run_task(i);
  v[0] = decoder_hash();
}

static int bound_fixed(const char *name, const bench_workload_t *workload, int runs, void (*half)(int self)) {
  pthread_t mate;
  bound_half = half;
  if (pthread_create(&mate, NULL, bound_mate, NULL) != 0) return 1;
  int wrong = bench_rows(name, workload, runs, bound_run);
  bound_half = NULL;
  (void)atomic_fetch_add_explicit(&bound_round, 1, memory_order_release);
  (void)pthread_join(mate, NULL);
  return wrong;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const char *name = argv[1];
  int runs = (int)strtol(argv[2], NULL, 10);
  static void (*const halves[])(int) = {bound_independent, bound_chain, bound_wavefront, bound_phases, bound_random_graph};
  const bench_workload_t decoder = {"decoder", 0, DECODER_TASKS, 1, bound_decoder};
  (void)bench_make_nodes();
  decoder_initialize();
  if (strcmp(name, "loop_decoder") == 0) return bench_rows(name, &decoder, runs, bound_decoder) != 0;
  for (int i = BENCH_W1; i <= BENCH_W5; ++i) {
    const bench_workload_t *w = &bench_workloads[i];
    if (strncmp(name, "loop_", 5) == 0 && strcmp(name + 5, w->name) == 0) return bench_rows(name, w, runs, w->plain) != 0;
    if (strncmp(name, "fixed_", 6) == 0 && strcmp(name + 6, w->name) == 0) return bound_fixed(name, w, runs, halves[i]) != 0;
  }
  return 2;
}
