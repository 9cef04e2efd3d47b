// SPDX-License-Identifier: Apache-2.0
#include "slip_test_allocator.h"

#define SLIP_TEST_BLOCK_MAGIC 0x51707465u

// Stands directly before the block; the allocation begins |lead| bytes before the block, so that any alignment is kept.
typedef struct slip_test_block_t {
  size_t size;
  size_t alignment;
  size_t lead;
  uint32_t magic;
  uint32_t reserved;
} slip_test_block_t;

static slip_test_block_t *slip_test_block_of(void *ptr, size_t old_size, size_t alignment) {
  slip_test_block_t *block = (slip_test_block_t *)ptr - 1;
  if (block->magic != SLIP_TEST_BLOCK_MAGIC) slip_test_fail(__FILE__, __LINE__, "%p is not a live block of the test allocator", ptr);
  if (block->size != old_size)
    slip_test_fail(__FILE__, __LINE__, "a block of %zu bytes was given back as %zu bytes", block->size, old_size);
  if (block->alignment != alignment) {
    slip_test_fail(__FILE__, __LINE__, "a block aligned to %zu was given back as aligned to %zu", block->alignment, alignment);
  }
  return block;
}

static void slip_test_block_free(slip_test_allocator_t *state, slip_test_block_t *block) {
  state->live_blocks -= 1;
  state->live_bytes -= block->size;
  void *base = (char *)(block + 1) - block->lead;
  block->magic = 0;
  memset(block + 1, 0xdd, block->size);
  free(base);
}

static void *slip_test_block_make(slip_test_allocator_t *state, size_t size, size_t alignment) {
  void *base = NULL;
  size_t lead = (sizeof(slip_test_block_t) + alignment - 1) & ~(alignment - 1);
  if (posix_memalign(&base, alignment < sizeof(void *) ? sizeof(void *) : alignment, lead + size) != 0) return NULL;
  char *ptr = (char *)base + lead;
  memset(ptr, 0xcd, size);
  ((slip_test_block_t *)ptr)[-1] = (slip_test_block_t){size, alignment, lead, SLIP_TEST_BLOCK_MAGIC, 0};
  state->live_blocks += 1;
  state->live_bytes += size;
  if (state->live_bytes > state->peak_bytes) state->peak_bytes = state->live_bytes;
  return ptr;
}

static void *slip_test_allocator_control(void *self, void *ptr, size_t old_size, size_t new_size, size_t alignment) {
  slip_test_allocator_t *state = self;
  void *result = NULL;
  pthread_mutex_lock(&state->lock);
  slip_test_block_t *block = ptr ? slip_test_block_of(ptr, old_size, alignment) : NULL;
  if (new_size == 0) {
    if (block) slip_test_block_free(state, block);
  } else {
    state->requests += 1;
    bool fails = state->fail_nth != 0 && (state->fail_persistent ? state->requests >= state->fail_nth : state->requests == state->fail_nth);
    if (fails) state->failed += 1;
    if (!fails) result = slip_test_block_make(state, new_size, alignment);
    if (result && block) {
      memcpy(result, ptr, old_size < new_size ? old_size : new_size);
      slip_test_block_free(state, block);
    }
  }
  pthread_mutex_unlock(&state->lock);
  return result;
}

slip_allocator_t slip_test_allocator(slip_test_allocator_t *state) {
  return (slip_allocator_t){state, slip_test_allocator_control};
}

void slip_test_allocator_fail(slip_test_allocator_t *state, uint64_t nth, bool persistent) {
  pthread_mutex_lock(&state->lock);
  state->requests = 0;
  state->failed = 0;
  state->fail_nth = nth;
  state->fail_persistent = persistent;
  pthread_mutex_unlock(&state->lock);
}

void slip_test_allocator_check_empty(slip_test_allocator_t *state) {
  if (state->live_blocks == 0 && state->live_bytes == 0) return;
  slip_test_fail(__FILE__, __LINE__, "%llu blocks with %llu bytes were not given back", (unsigned long long)state->live_blocks,
                 (unsigned long long)state->live_bytes);
}

uint64_t slip_test_allocator_loop(slip_status_t (*body)(slip_allocator_t allocator, void *user), void *user) {
  slip_test_allocator_t state = SLIP_TEST_ALLOCATOR_INIT;
  slip_allocator_t allocator = slip_test_allocator(&state);
  SLIP_CHECK_OK(body(allocator, user));
  slip_test_allocator_check_empty(&state);
  uint64_t count = state.requests;
  for (uint64_t run = 0; run < 2 * count; ++run) {
    slip_test_allocator_fail(&state, run / 2 + 1, run % 2 == 1);
    slip_status_t status = body(allocator, user);
    if (!slip_status_is_ok(status) && slip_status_code(status) != SLIP_CODE_OUT_OF_MEMORY) {
      char text[1024];
      slip_status_format(status, text, sizeof(text));
      slip_test_fail(__FILE__, __LINE__, "with request %llu failing the body gave %s", (unsigned long long)(run / 2 + 1), text);
    }
    slip_status_free(status);
    slip_test_allocator_check_empty(&state);
  }
  return 1 + 2 * count;
}
