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

typedef struct conform_cell_t {
  uint64_t value;
  uint64_t seen;
} conform_cell_t;

static void conform_cell_write(void *user) {
  conform_cell_t *cell = user;
  cell->value += 7;
}

SLIP_TEST(memory_copies_keep_the_streams_order) {
  slip_platform_t *platform = conform_platform();
  slip_stream_t stream = conform_stream(platform);
  conform_gate_t gate = {0};
  void *memory = conform_memory(platform, sizeof(uint64_t)), *host = NULL;
  CONFORM_OK(slip_host_allocate(platform, sizeof(conform_cell_t), &host));  // pageable memory may be read at the call
  conform_cell_t *cell = host;
  *cell = (conform_cell_t){0, 0};
  CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_gate_pass, &gate));
  for (int i = 0; i < 50; ++i) {
    CONFORM_OK(slip_stream_enqueue_host(platform, stream, conform_cell_write, cell));
    CONFORM_OK(slip_memory_copy_async(platform, stream, memory, &cell->value, sizeof(uint64_t), SLIP_COPY_HOST_TO_DEVICE));
    CONFORM_OK(slip_memory_copy_async(platform, stream, &cell->seen, memory, sizeof(uint64_t), SLIP_COPY_DEVICE_TO_HOST));
  }
  conform_gate_open(&gate);
  SLIP_CHECK_OK(slip_stream_synchronize(platform, stream));
  SLIP_CHECK_EQ(cell->seen, 350);
  SLIP_CHECK_OK(slip_stream_destroy(platform, stream));
  SLIP_CHECK_OK(slip_memory_free(platform, 0, memory));
  SLIP_CHECK_OK(slip_host_free(platform, host));
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
