// SPDX-License-Identifier: Apache-2.0
// Stands before the C library's malloc, calloc and realloc in every test program: counts what is asked for and makes requests fail. For
// code that has no slip_allocator_t, and to show that a path asks for nothing. The sanitizers stand there themselves: tests that need this
// skip then.
#ifndef SLIP_TEST_MALLOC_H_
#define SLIP_TEST_MALLOC_H_

#include <stdbool.h>
#include <stdint.h>

// False under a sanitizer: nothing is counted and nothing fails.
bool slip_test_malloc_works(void);
// Requests of all threads so far.
uint64_t slip_test_malloc_count(void);
// The calling thread's |nth| request from now, counted from 1, gives NULL; all later ones too if |persistent|. 0: none.
void slip_test_malloc_fail(uint64_t nth, bool persistent);
// The calling thread's requests that were made to fail since it last asked for that.
uint64_t slip_test_malloc_failed(void);

#endif  // SLIP_TEST_MALLOC_H_
