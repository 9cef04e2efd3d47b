// SPDX-License-Identifier: Apache-2.0
#include "slip_test_malloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLIP_TEST_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SLIP_TEST_MALLOC 0
#endif
#endif
#ifndef SLIP_TEST_MALLOC
#define SLIP_TEST_MALLOC 1
#endif

static _Atomic uint64_t slip_test_malloc_requests;
static _Thread_local uint64_t slip_test_malloc_left;  // requests until the one that fails; 0: none
static _Thread_local bool slip_test_malloc_persistent;
static _Thread_local uint64_t slip_test_malloc_hits;

bool slip_test_malloc_works(void) {
  return SLIP_TEST_MALLOC;
}

uint64_t slip_test_malloc_count(void) {
  return atomic_load(&slip_test_malloc_requests);
}

void slip_test_malloc_fail(uint64_t nth, bool persistent) {
  if (nth != 0) slip_test_malloc_hits = 0;
  slip_test_malloc_left = nth;
  slip_test_malloc_persistent = persistent;
}

uint64_t slip_test_malloc_failed(void) {
  return slip_test_malloc_hits;
}

#if SLIP_TEST_MALLOC
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);

static bool slip_test_malloc_fails(void) {
  atomic_fetch_add_explicit(&slip_test_malloc_requests, 1, memory_order_relaxed);
  if (slip_test_malloc_left == 0) return false;
  if (slip_test_malloc_left > 1) {
    --slip_test_malloc_left;
    return false;
  }
  if (!slip_test_malloc_persistent) slip_test_malloc_left = 0;
  ++slip_test_malloc_hits;
  errno = ENOMEM;
  return true;
}

#define SLIP_TEST_VISIBLE __attribute__((visibility("default")))
SLIP_TEST_VISIBLE void *malloc(size_t size) {
  return slip_test_malloc_fails() ? NULL : __libc_malloc(size);
}
SLIP_TEST_VISIBLE void *calloc(size_t count, size_t size) {
  return slip_test_malloc_fails() ? NULL : __libc_calloc(count, size);
}
SLIP_TEST_VISIBLE void *realloc(void *ptr, size_t size) {
  return slip_test_malloc_fails() ? NULL : __libc_realloc(ptr, size);
}
#endif
