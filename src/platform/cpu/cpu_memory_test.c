// SPDX-License-Identifier: Apache-2.0
#include "platform/dispatch.h"
#include "slip_test.h"
#include "slip_test_malloc.h"

static slip_platform_t *memory_cpu(void) {
  slip_platform_t *platform = NULL;
  SLIP_CHECK_OK(slip_platform_find("cpu", &platform));
  return platform;
}

// Random allocations and frees against a plain list: every pointer tells its allocation.
SLIP_TEST(cpu_memory_is_tracked) {
  slip_platform_t *cpu = memory_cpu();
  uint64_t random = slip_test_seed();
  struct {
    char *base;
    uint64_t size;
  } live[300] = {{0}};
  for (int step = 0; step < 4000; ++step) {
    size_t i = slip_test_random(&random) % 300;
    if (live[i].base) {
      SLIP_CHECK_OK(slip_memory_free(cpu, 0, live[i].base));
      live[i].base = NULL;
    } else {
      void *memory = NULL;
      live[i].size = 1 + slip_test_random(&random) % 2000;
      SLIP_CHECK_OK(slip_memory_allocate(cpu, 0, live[i].size, &memory));
      SLIP_CHECK_EQ((uintptr_t)memory % 64, 0);
      live[i].base = memory;
    }
    size_t k = slip_test_random(&random) % 300;
    if (!live[k].base) continue;
    slip_pointer_info_t info;
    SLIP_CHECK_OK(slip__platform_pointer_info(cpu, live[k].base + slip_test_random(&random) % live[k].size, &info));
    SLIP_CHECK_EQ(info.kind, SLIP_POINTER_DEVICE);
    SLIP_CHECK(info.base == live[k].base && info.size_bytes == live[k].size);
  }
  for (size_t i = 0; i < 300; ++i) SLIP_CHECK_OK(slip_memory_free(cpu, 0, live[i].base));
}

SLIP_TEST(cpu_memory_of_others_is_unknown) {
  slip_platform_t *cpu = memory_cpu();
  slip_pointer_info_t info;
  void *memory = NULL;
  int local = 0;
  SLIP_CHECK_OK(slip__platform_pointer_info(cpu, &local, &info));
  SLIP_CHECK_EQ(info.kind, SLIP_POINTER_UNKNOWN);
  SLIP_CHECK_OK(slip__platform_pointer_info(cpu, NULL, &info));
  SLIP_CHECK_EQ(info.kind, SLIP_POINTER_UNKNOWN);
  SLIP_CHECK_CODE(slip_memory_free(cpu, 0, &local), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_memory_allocate(cpu, 0, 128, &memory));
  SLIP_CHECK_OK(slip__platform_pointer_info(cpu, (char *)memory + 127, &info));
  SLIP_CHECK(info.base == memory);
  SLIP_CHECK_OK(slip__platform_pointer_info(cpu, (char *)memory + 128, &info));
  SLIP_CHECK(info.base != memory);
  SLIP_CHECK_CODE(slip_memory_free(cpu, 0, (char *)memory + 8), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_memory_free(cpu, 0, memory));
  SLIP_CHECK_CODE(slip_memory_free(cpu, 0, memory), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_memory_allocate(cpu, 0, INT64_MAX, &memory), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK(memory == NULL);
}

SLIP_TEST(cpu_memory_survives_a_table_that_cannot_grow) {
  if (!slip_test_malloc_works()) slip_test_skip("requests are made to fail in builds without sanitizers");
  slip_platform_t *cpu = memory_cpu();
  void *memory = cpu;
  slip_test_malloc_fail(1, true);  // the block itself comes from posix_memalign
  slip_status_t status = slip_memory_allocate(cpu, 0, 64, &memory);
  slip_test_malloc_fail(0, false);
  SLIP_CHECK_CODE(status, SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK(memory == NULL);
  SLIP_CHECK_OK(slip_memory_allocate(cpu, 0, 64, &memory));
  SLIP_CHECK_OK(slip_memory_free(cpu, 0, memory));
}
