// SPDX-License-Identifier: Apache-2.0
// Counts what a stretch of code asks of the C library and the kernel: allocations, lock operations, system calls of the calling thread.
//
// Allocations and locks are counted by standing in for malloc and pthread_mutex_lock in the whole process, the library under test included.
// System calls are counted from outside: the code runs in a traced child, between two marks, so that nothing escapes.
#ifndef SLIP_BENCH_METER_H_
#define SLIP_BENCH_METER_H_

#include <stdint.h>

typedef struct bench_counts_t {
  uint64_t allocations;  // malloc, calloc, realloc, free, memalign and kin
  uint64_t locks;        // mutex and rwlock operations, condition waits
} bench_counts_t;

// Zeroes and starts the calling thread's counters; stop returns them.
void bench_meter_start(void);
bench_counts_t bench_meter_stop(void);

// In the code that bench_meter_system_calls() runs: only what lies between the two is counted.
void bench_meter_mark_begin(void);
void bench_meter_mark_end(void);
// System calls between the marks that |body|, run in a traced child, makes on its main thread; -1 if tracing is not allowed here or |body|
// did not return 0.
int64_t bench_meter_system_calls(int (*body)(void *user), void *user);

#endif  // SLIP_BENCH_METER_H_
