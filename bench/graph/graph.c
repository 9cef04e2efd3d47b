// SPDX-License-Identifier: Apache-2.0
// Our own figures, for a person who tunes and for the driver that compares with the peers. See README.md.
#include "measure.h"

#define MAX_RUNS 1001

static double times[MAX_RUNS];

// For people: all workloads, or the named one, in turns.
static int bench_table(int runs, const char *only) {
  static double all[32][MAX_RUNS];
  int wrong = 0;
  for (int r = 0; r < runs; ++r) {
    for (int i = 0; i < bench_case_count; ++i) {
      if (!only || strcmp(only, bench_cases[i].name) == 0) wrong += bench_measure(&bench_cases[i], true, 1, &all[i][r]);
    }
  }
  printf("%u threads, %d runs, ns a task (work included, about 47): median best worst\n", bench_engine_threads(), runs);
  for (int i = 0; i < bench_case_count; ++i) {
    if (only && strcmp(only, bench_cases[i].name) != 0) continue;
    double median = bench_median(all[i], runs);
    printf("%-10s %-20s %8.1f %8.1f %8.1f\n", bench_cases[i].name, bench_cases[i].what, median, all[i][0], all[i][runs - 1]);
  }
  printf("workspace %.1f MB committed\nRESULT wrong=%d", bench_committed_mb(), wrong);
  for (int i = 0; i < bench_case_count; ++i) {
    if (!only || strcmp(only, bench_cases[i].name) == 0) printf(" %s_ns=%.1f", bench_cases[i].name, all[i][runs / 2]);
  }
  printf("\n");
  return wrong;
}

// For the driver: a row for each run of |name|.
static int bench_print_rows(const char *name, int runs) {
  if (strcmp(name, "smallest") == 0) return bench_report(name, bench_smallest_ours(runs), 1);
  if (strcmp(name, "open_close") == 0) return bench_report(name, 1e3 * bench_open_close_us(runs), 1);
  const bench_case_t *test = bench_find_case(name);
  int wrong = bench_measure(test, true, runs, times);
  for (int r = 0; r < runs; ++r) (void)bench_report(name, times[r], wrong == 0);
  return wrong;
}

// Names that bench_print_rows() knows.
static int bench_known(const char *name) {
  return bench_find_case(name) || strcmp(name, "smallest") == 0 || strcmp(name, "open_close") == 0;
}

static int bench_usage(void) {
  fprintf(stderr,
          "usage: bench_graph [THREADS [RUNS [WORKLOAD]]]   table of all workloads or one; THREADS 0: as many as there are\n"
          "       bench_graph --rows WORKLOAD RUNS          a line for each run\n"
          "       bench_graph --curves [MOST]               cost and memory from 100 to MOST (10000000) tasks\n");
  return 2;
}

int main(int argc, char **argv) {
  int rows = argc == 4 && strcmp(argv[1], "--rows") == 0, curves = argc > 1 && strcmp(argv[1], "--curves") == 0;
  if (argc > 1 && argv[1][0] == '-' && !rows && !curves) return bench_usage();
  uint32_t threads = argc > 1 && !rows && !curves ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
  int runs = rows ? (int)strtol(argv[3], NULL, 10) : argc > 2 ? (int)strtol(argv[2], NULL, 10) : 21;
  if (!curves && (runs < 1 || runs > MAX_RUNS)) return bench_usage();
  const char *only = argc > 3 ? argv[3] : NULL;
  if (rows ? !bench_known(argv[2]) : only && !bench_find_case(only)) {
    fprintf(stderr, "there is no workload '%s'\n", rows ? argv[2] : only);
    return 2;
  }
  bench_engine_start(threads);
  int wrong = rows     ? bench_print_rows(argv[2], runs)
              : curves ? bench_print_curves(argc > 2 ? strtoll(argv[2], NULL, 10) : 10000000)
                       : bench_table(runs, only);
  bench_engine_stop();
  return wrong != 0;
}
