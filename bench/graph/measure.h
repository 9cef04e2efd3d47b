// SPDX-License-Identifier: Apache-2.0
// Our side of the measurements: the engine under the workloads of shapes.h, each run checked against the plain loop.
#ifndef SLIP_BENCH_GRAPH_MEASURE_H_
#define SLIP_BENCH_GRAPH_MEASURE_H_

#include "graph/engine.h"
#include "work.h"

typedef struct bench_case_t bench_case_t;
struct bench_case_t {
  const char *name;
  const char *what;
  bench_workload_t workload;  // |name| unused; |plain| NULL: leaves the array as it is
  uint32_t entry;             // of bench_object, or a bench_recorded_e
  uint32_t repeats;           // runs of the entry that count as one; their plain loop is |plain| with the size times |repeats|
  // Runs once and returns the nanoseconds that count.
  double (*run)(const bench_case_t *test, uint64_t *v);
};
extern const bench_case_t bench_cases[];
extern const int bench_case_count;
const bench_case_t *bench_find_case(const char *name);  // NULL: there is none

// Starts an engine with |threads| (0: as many as the process may use) and one workspace, of which the functions below make use.
void bench_engine_start(uint32_t threads);
void bench_engine_stop(void);
uint32_t bench_engine_threads(void);
double bench_committed_mb(void);

// Runs |test| |runs| times, before that once for warmth if |warm|, and stores the ns a task of each. Returns the number of wrong results.
int bench_measure(const bench_case_t *test, bool warm, int runs, double *out_ns);

// Ends the program with the message of a failure.
void bench_require(slip_status_t status);

// Cost and memory from 10^2 to 10^7 tasks: a table.
int bench_print_curves(int64_t most);
double bench_smallest_ours(int runs);  // see bench_smallest()
// Median microseconds to open and close a context of the cpu platform.
double bench_open_close_us(int runs);

#endif  // SLIP_BENCH_GRAPH_MEASURE_H_
