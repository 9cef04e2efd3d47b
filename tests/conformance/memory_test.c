// SPDX-License-Identifier: Apache-2.0
// Memory: allocation, copies in stream order, fills, what a pointer tells.
#include "conformance.h"

SLIP_TEST(memory_is_aligned_and_copies_round_trip) {
  slip_platform_t *platform = conform_platform();
  uint64_t random = slip_test_seed();
  for (uint64_t size = 1; size < 100000; size = size * 3 + 1) {
    unsigned char *source = malloc(size), *back = calloc(1, size);
    void *a = conform_memory(platform, size), *b = conform_memory(platform, size);
    SLIP_CHECK_EQ((uintptr_t)a % 64, 0);
    for (uint64_t i = 0; i < size; ++i) source[i] = (unsigned char)slip_test_random(&random);
    CONFORM_OK(slip_memory_copy(platform, 0, a, source, size, SLIP_COPY_HOST_TO_DEVICE));
    CONFORM_OK(slip_memory_copy(platform, 0, b, a, size, SLIP_COPY_DEVICE_TO_DEVICE));
    CONFORM_OK(slip_memory_copy(platform, 0, back, b, size, SLIP_COPY_DEVICE_TO_HOST));
    SLIP_CHECK(memcmp(source, back, size) == 0);
    SLIP_CHECK_OK(slip_memory_free(platform, 0, a));
    SLIP_CHECK_OK(slip_memory_free(platform, 0, b));
    free(source);
    free(back);
  }
}

SLIP_TEST(memory_fill) {
  slip_platform_t *platform = conform_platform();
  unsigned char back[1000];
  char *memory = conform_memory(platform, 1000);
  CONFORM_OK(slip__platform_memory_fill(platform, 0, memory, 0xab, 1000));
  CONFORM_OK(slip__platform_memory_fill(platform, 0, memory + 3, 0xcd, 5));
  SLIP_CHECK_OK(slip_memory_copy(platform, 0, back, memory, 1000, SLIP_COPY_DEVICE_TO_HOST));
  for (int i = 0; i < 1000; ++i) SLIP_CHECK_EQ(back[i], i >= 3 && i < 8 ? 0xcd : 0xab);
  SLIP_CHECK_OK(slip_memory_free(platform, 0, memory));
}

static void conform_cell_write(void *user) {
  *(uint64_t *)user += 7;
}

SLIP_TEST(memory_copies_keep_the_streams_order) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  uint64_t *value = conform_pinned(platform, sizeof(uint64_t)), *seen = conform_pinned(platform, sizeof(uint64_t));
  conform_gate_t gate = {0};
  void *memory = conform_memory(platform, sizeof(uint64_t));
  *value = *seen = 0;
  CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_gate_pass, &gate));
  for (int i = 0; i < 50; ++i) {
    CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_cell_write, value));
    CONFORM_OK(slip_memory_copy_async(platform, stream, memory, value, sizeof(uint64_t), SLIP_COPY_HOST_TO_DEVICE));
    CONFORM_OK(slip_memory_copy_async(platform, stream, seen, memory, sizeof(uint64_t), SLIP_COPY_DEVICE_TO_HOST));
  }
  SLIP_CHECK_EQ(*seen, 0);
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
  SLIP_CHECK_EQ(*seen, 350);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, memory));
  SLIP_CHECK_OK(slip_host_free(platform, value));
  SLIP_CHECK_OK(slip_host_free(platform, seen));
}

SLIP_TEST(memory_pointers_tell_their_allocation) {
  slip_platform_t *platform = conform_platform();
  slip_pointer_info_t info;
  int local = 0;
  char *memory = conform_memory(platform, 4096);
  SLIP_CHECK_OK(slip__platform_pointer_info(platform, memory + 100, &info));
  SLIP_CHECK_EQ(info.kind, SLIP_POINTER_DEVICE);
  SLIP_CHECK_EQ(info.device, 0);
  SLIP_CHECK(info.base == memory && info.size_bytes >= 4096);
  SLIP_CHECK_OK(slip_memory_free(platform, 0, memory));
  SLIP_CHECK_OK(slip__platform_pointer_info(platform, &local, &info));
  SLIP_CHECK(info.kind == SLIP_POINTER_UNKNOWN || info.kind == SLIP_POINTER_HOST);
}

SLIP_TEST(memory_wrong_frees_are_refused) {
  slip_platform_t *platform = conform_platform();
  int local = 0;
  char *memory = conform_memory(platform, 256);
  SLIP_CHECK_CODE(slip_memory_free(platform, 0, &local), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_free(platform, 0, memory + 64), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_memory_free(platform, 0, memory));
  SLIP_CHECK_CODE(slip_memory_free(platform, 0, memory), SLIP_CODE_INVALID_ARGUMENT);
}

SLIP_TEST(memory_sizes_at_the_edge) {
  slip_platform_t *platform = conform_platform();
  void *memory = conform_memory(platform, 1);
  SLIP_CHECK_OK(slip_memory_free(platform, 0, memory));
  SLIP_CHECK_OK(slip_memory_allocate(platform, 0, 0, &memory));
  SLIP_CHECK(memory == NULL);
  const uint64_t huge[] = {UINT64_MAX, (uint64_t)INT64_MAX, (uint64_t)1 << 60};
  for (int i = 0; i < 3; ++i) {
    memory = platform;
    SLIP_CHECK_CODE(slip_memory_allocate(platform, 0, huge[i], &memory), SLIP_CODE_OUT_OF_MEMORY);
    SLIP_CHECK(memory == NULL);
  }
}

// --- page-locked memory

SLIP_TEST(memory_pinned_is_the_hosts_own) {
  slip_platform_t *platform = conform_platform();
  slip_pointer_info_t info;
  char *pinned = conform_pinned(platform, 1000), *other = conform_pinned(platform, 1);
  SLIP_CHECK_EQ((uintptr_t)pinned % 64, 0);
  memset(pinned, 0x5a, 1000);
  SLIP_CHECK_OK(slip__platform_pointer_info(platform, pinned + 999, &info));
  bool host = (slip__platform_capabilities(platform) & SLIP_PLATFORM_HOST_MEMORY) != 0;
  SLIP_CHECK(info.kind == SLIP_POINTER_HOST_PINNED || (host && info.kind == SLIP_POINTER_DEVICE));
  SLIP_CHECK(info.base == pinned && info.size_bytes >= 1000);
  for (int i = 0; i < 1000; ++i) SLIP_CHECK_EQ(pinned[i], 0x5a);
  SLIP_CHECK_OK(slip_host_free(platform, pinned));
  SLIP_CHECK_OK(slip_host_free(platform, other));
}

SLIP_TEST(memory_pinned_wrong_frees_are_refused) {
  slip_platform_t *platform = conform_platform();
  int local = 0;
  char *pinned = conform_pinned(platform, 256);
  void *none = platform;
  SLIP_CHECK_CODE(slip_host_free(platform, &local), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_host_free(platform, pinned + 64), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_host_free(platform, pinned));
  SLIP_CHECK_CODE(slip_host_free(platform, pinned), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_host_allocate(platform, 0, &none));
  SLIP_CHECK(none == NULL);
}

SLIP_TEST(memory_pinned_that_cannot_be_had) {
  slip_platform_t *platform = conform_platform();
  void *memory = conform_pinned(platform, 1);
  SLIP_CHECK_OK(slip_host_free(platform, memory));
  memory = platform;
  SLIP_CHECK_CODE(slip_host_allocate(platform, (uint64_t)1 << 60, &memory), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK(memory == NULL);
  SLIP_CHECK_CODE(slip_host_allocate(platform, UINT64_MAX, &memory), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK(memory == NULL);
}

// --- every kind of copy

typedef struct conform_copier_t {
  slip_platform_t *platform;
  slip_stream_t stream;
  bool async;
} conform_copier_t;

static void conform_copy(const conform_copier_t *copier, void *target, const void *source, uint64_t size, slip_copy_e kind) {
  if (copier->async) {
    CONFORM_OK(slip_memory_copy_async(copier->platform, copier->stream, target, source, size, kind));
  } else {
    CONFORM_OK(slip_memory_copy(copier->platform, 0, target, source, size, kind));
  }
}

// Host to device to device to host, from and to the middle of allocations; what lies beside stays.
static void conform_round_trip(const conform_copier_t *copier, unsigned char *out, unsigned char *back, uint64_t *random) {
  slip_platform_t *platform = copier->platform;
  unsigned char *a = conform_memory(platform, 3000), *b = conform_memory(platform, 3000);
  uint64_t from = slip_test_random(random) % 900, to = slip_test_random(random) % 900, size = 1 + slip_test_random(random) % 2000;
  for (int i = 0; i < 3000; ++i) out[i] = (unsigned char)slip_test_random(random);
  memset(back, 0x33, 3000);
  CONFORM_OK(slip__platform_memory_fill(platform, 0, b, 0x77, 3000));
  conform_copy(copier, a + from, out, size, SLIP_COPY_HOST_TO_DEVICE);
  conform_copy(copier, b + to, a + from, size, SLIP_COPY_DEVICE_TO_DEVICE);
  conform_copy(copier, back, b, 3000, SLIP_COPY_DEVICE_TO_HOST);
  SLIP_CHECK_OK(slip_stream_synchronize(platform, copier->stream));
  for (uint64_t i = 0; i < 3000; ++i) SLIP_CHECK_EQ(back[i], i >= to && i < to + size ? out[i - to] : 0x77);
  SLIP_CHECK_OK(slip_memory_free(platform, 0, a));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, b));
}

SLIP_TEST(memory_every_kind_of_copy) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  unsigned char *pinned[2] = {conform_pinned(platform, 3000), conform_pinned(platform, 3000)};
  static unsigned char pageable[2][3000];
  uint64_t random = slip_test_seed();
  for (int round = 0; round < 20; ++round) {
    for (int async = 0; async < 2; ++async) {
      conform_copier_t copier = {platform, stream, async != 0};
      conform_round_trip(&copier, pinned[0], pinned[1], &random);
      conform_round_trip(&copier, pageable[0], pageable[1], &random);
    }
  }
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  for (int i = 0; i < 2; ++i) SLIP_CHECK_OK(slip_host_free(platform, pinned[i]));
}

SLIP_TEST(memory_copies_of_nothing_are_fine) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  char *memory = conform_memory(platform, 64), *pinned = conform_pinned(platform, 64);
  CONFORM_OK(slip_memory_copy(platform, 0, memory, pinned, 0, SLIP_COPY_HOST_TO_DEVICE));
  CONFORM_OK(slip_memory_copy_async(platform, stream, pinned, memory, 0, SLIP_COPY_DEVICE_TO_HOST));
  CONFORM_OK(slip__platform_memory_fill(platform, 0, memory, 1, 0));
  SLIP_CHECK_CODE(slip_memory_copy(platform, 0, memory, NULL, 4, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_copy(platform, 0, memory, pinned, 4, 0), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_copy_async(platform, stream, memory, pinned, 4, 4), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, memory));
  SLIP_CHECK_OK(slip_host_free(platform, pinned));
}

// A producer's and a consumer's stream hand one buffer to and fro.
SLIP_TEST(memory_copies_are_ordered_across_streams_by_events) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t writer = conform_stream(platform), reader = conform_stream(platform);
  slip_event_t written = conform_event(platform), taken = conform_event(platform);
  uint64_t *source = conform_pinned(platform, 100 * sizeof(uint64_t)), *target = conform_pinned(platform, 100 * sizeof(uint64_t));
  void *cell = conform_memory(platform, sizeof(uint64_t));
  for (uint64_t i = 0; i < 100; ++i) source[i] = i * i;
  for (uint64_t i = 0; i < 100; ++i) {
    SLIP_CHECK_OK(slip_stream_wait_event(platform, writer, taken));
    CONFORM_OK(slip_memory_copy_async(platform, writer, cell, &source[i], sizeof(uint64_t), SLIP_COPY_HOST_TO_DEVICE));
    SLIP_CHECK_OK(slip_event_record(platform, written, writer));
    SLIP_CHECK_OK(slip_stream_wait_event(platform, reader, written));
    CONFORM_OK(slip_memory_copy_async(platform, reader, &target[i], cell, sizeof(uint64_t), SLIP_COPY_DEVICE_TO_HOST));
    SLIP_CHECK_OK(slip_event_record(platform, taken, reader));
  }
  SLIP_CHECK_OK(slip_stream_destroy(platform, writer));
  SLIP_CHECK_OK(slip_stream_destroy(platform, reader));
  for (uint64_t i = 0; i < 100; ++i) SLIP_CHECK_EQ(target[i], i * i);
  SLIP_CHECK_OK(slip_event_destroy(platform, written));
  SLIP_CHECK_OK(slip_event_destroy(platform, taken));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, cell));
  SLIP_CHECK_OK(slip_host_free(platform, source));
  SLIP_CHECK_OK(slip_host_free(platform, target));
}

static void conform_memory_churn(void *user) {
  slip_platform_t *platform = user;
  for (uint64_t i = 0; i < 200; ++i) {
    uint64_t value = i * 977, back = 0;
    void *memory = conform_memory(platform, 64 + i * 8);
    CONFORM_OK(slip_memory_copy(platform, 0, memory, &value, sizeof(value), SLIP_COPY_HOST_TO_DEVICE));
    CONFORM_OK(slip_memory_copy(platform, 0, &back, memory, sizeof(back), SLIP_COPY_DEVICE_TO_HOST));
    SLIP_CHECK_EQ(back, value);
    SLIP_CHECK_OK(slip_memory_free(platform, 0, memory));
  }
}

SLIP_TEST(memory_is_used_by_many_threads) {
  slip_platform_t *platform = conform_platform();
  slip__thread_t threads[4];
  void *probe = conform_memory(platform, 1);  // unsupported without memory
  for (int i = 0; i < 4; ++i) SLIP_CHECK_OK(slip__thread_start(&threads[i], "churn", conform_memory_churn, platform));
  for (int i = 0; i < 4; ++i) slip__thread_join(&threads[i]);
  SLIP_CHECK_OK(slip_memory_free(platform, 0, probe));
}
