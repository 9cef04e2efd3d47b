// SPDX-License-Identifier: Apache-2.0
// An allocator for tests: counts what lives, checks every size and alignment it is given back, fails the n-th request. Thread-safe.
#ifndef SLIP_TEST_ALLOCATOR_H_
#define SLIP_TEST_ALLOCATOR_H_

#include <pthread.h>

#include "slip_test.h"
#include "slipstream/base.h"

typedef struct slip_test_allocator_t {
  pthread_mutex_t lock;
  uint64_t requests;  // allocations and resizes so far
  uint64_t failed;    // requests made to fail
  uint64_t live_blocks;
  uint64_t live_bytes;
  uint64_t peak_bytes;
  uint64_t fail_nth;  // the request to fail, counted from 1 since slip_test_allocator_fail; 0: none
  bool fail_persistent;
} slip_test_allocator_t;

#define SLIP_TEST_ALLOCATOR_INIT \
  { .lock = PTHREAD_MUTEX_INITIALIZER }

// Fresh memory is filled with 0xcd, and what is freed with 0xdd. A resize always moves.
slip_allocator_t slip_test_allocator(slip_test_allocator_t *state);
// Counts requests from here: the |nth| fails, and all after it if |persistent|. 0: none fails.
void slip_test_allocator_fail(slip_test_allocator_t *state, uint64_t nth, bool persistent);
// Fails the test unless everything was given back.
void slip_test_allocator_check_empty(slip_test_allocator_t *state);

// Runs |body| once to count its requests, then once for each of them failing alone and once for each failing together with all later ones.
// |body| must return OK at first, then OUT_OF_MEMORY (or OK, if it can do without) and leave nothing allocated each time. Returns the
// number of runs.
uint64_t slip_test_allocator_loop(slip_status_t (*body)(slip_allocator_t allocator, void *user), void *user);

#endif  // SLIP_TEST_ALLOCATOR_H_
