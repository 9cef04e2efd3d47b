// SPDX-License-Identifier: Apache-2.0
// Memory of the simulator: what it gives, refuses, and finds out.
#include "platform/sim/sim.h"
#include "slip_test.h"
#include "slip_test_malloc.h"

static char *memory_new(uint64_t size_bytes) {
  void *memory = NULL;
  SLIP_CHECK_OK(slip__sim_memory_allocate(0, size_bytes, &memory));
  SLIP_CHECK(memory != NULL);
  return memory;
}

// The last violation contains |part|, and there are |count|.
static void memory_violation(uint64_t count, const char *part) {
  char text[600] = "";
  SLIP_CHECK_EQ(slip__sim_violation_total(), count);
  (void)slip__sim_violation_text(count - 1, text, sizeof(text));
  if (!strstr(text, part)) slip_test_fail(__FILE__, __LINE__, "violation \"%s\" does not say \"%s\"", text, part);
}

static void memory_in_function(bool inside) {
  slip__sim_role = inside ? SLIP__SIM_ROLE_DEVICE_FUNCTION : SLIP__SIM_ROLE_HOST;
  slip__sim_running_device = inside ? 0 : -1;
}

static void *memory_map(void *address, uint64_t size_bytes, uint32_t access) {
  void *view = NULL;
  memory_in_function(true);
  SLIP_CHECK_OK(slip__sim_device_map(0, address, size_bytes, access, &view));
  memory_in_function(false);
  SLIP_CHECK(view != NULL && view != address);
  return view;
}

static slip_status_t memory_unmap(void *address, uint64_t size_bytes, uint32_t access) {
  memory_in_function(true);
  slip_status_t status = slip__sim_device_unmap(0, address, size_bytes, access);
  memory_in_function(false);
  return status;
}

static slip_status_t memory_read(void *host, const void *device, uint64_t size_bytes) {
  return slip__sim_memory_copy(0, host, device, size_bytes, SLIP_COPY_DEVICE_TO_HOST);
}

static slip_status_t memory_write(void *device, const void *host, uint64_t size_bytes) {
  return slip__sim_memory_copy(0, device, host, size_bytes, SLIP_COPY_HOST_TO_DEVICE);
}

// --- addresses and bounds

SLIP_TEST(sim_memory_is_tracked) {
  uint64_t random = slip_test_seed();
  struct {
    char *base;
    uint64_t size;
    unsigned char mark;
  } live[100] = {{0}};
  for (int step = 0; step < 5000; ++step) {
    size_t i = slip_test_random(&random) % 100;
    unsigned char back[2001];
    if (live[i].base) {
      SLIP_CHECK_OK(memory_read(back, live[i].base, live[i].size));
      for (uint64_t k = 0; k < live[i].size; ++k) SLIP_CHECK_EQ(back[k], live[i].mark);
      SLIP_CHECK_OK(slip__sim_memory_free(0, live[i].base));
      live[i].base = NULL;
    } else {
      live[i].size = 1 + slip_test_random(&random) % 2000;
      live[i].mark = (unsigned char)step;
      live[i].base = memory_new(live[i].size);
      SLIP_CHECK_EQ((uintptr_t)live[i].base % 256, 0);
      SLIP_CHECK_OK(slip__sim_memory_fill(0, live[i].base, live[i].mark, live[i].size));
    }
    size_t k = slip_test_random(&random) % 100;
    slip_pointer_info_t info = {0};
    if (!live[k].base) continue;
    SLIP_CHECK_OK(slip__sim_pointer_info(live[k].base + slip_test_random(&random) % live[k].size, &info));
    SLIP_CHECK_EQ(info.kind, SLIP_POINTER_DEVICE);
    SLIP_CHECK(info.base == live[k].base && info.size_bytes == live[k].size && info.device == 0);
  }
  slip_sim_statistics_t statistics = {.struct_size = sizeof(statistics)};
  uint64_t count = 0, bytes = 0;
  for (size_t i = 0; i < 100; ++i) count += live[i].base != NULL, bytes += live[i].base ? live[i].size : 0;
  SLIP_CHECK_OK(slip_sim_statistics(&statistics));
  SLIP_CHECK_EQ(statistics.allocations, count);
  SLIP_CHECK_EQ(statistics.device_bytes, bytes);
  for (size_t i = 0; i < 100; ++i) {
    if (live[i].base) SLIP_CHECK_OK(slip__sim_memory_free(0, live[i].base));
  }
  SLIP_CHECK_EQ(slip__sim_violation_total(), 0);
}

SLIP_TEST(sim_memory_is_bounded_and_addresses_come_back_late) {
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  void *none = &options;
  options.memory_bytes = 1 << 20;
  SLIP_CHECK_OK(slip_sim_reset(&options));
  char *first = memory_new(1 << 20);
  SLIP_CHECK_ERROR(slip__sim_memory_allocate(0, 1, &none), SLIP_CODE_OUT_OF_MEMORY, "device 0 has 1048576 bytes");
  SLIP_CHECK(none == NULL);
  SLIP_CHECK_OK(slip__sim_memory_free(0, first));
  SLIP_CHECK_CODE(slip__sim_memory_allocate(0, (1 << 20) + 1, &none), SLIP_CODE_OUT_OF_MEMORY);
  // More than the range of addresses holds: they are used again, but not soon.
  for (int i = 0; i < 200; ++i) {
    char *next = memory_new(1 << 20);
    SLIP_CHECK((next == first) <= (i > 50));
    SLIP_CHECK_OK(slip__sim_memory_free(0, next));
  }
  SLIP_CHECK_OK(slip__sim_device_push(1));  // the other device has memory of its own
  SLIP_CHECK_OK(slip__sim_memory_allocate(1, 1 << 20, &none));
  SLIP_CHECK_OK(slip__sim_memory_free(1, none));
  SLIP_CHECK_OK(slip__sim_device_pop(1));
  SLIP_CHECK_EQ(slip__sim_violation_total(), 0);
}

SLIP_TEST(sim_memory_survives_a_host_without_memory) {
  if (!slip_test_malloc_works()) slip_test_skip("requests are made to fail in builds without sanitizers");
  for (uint64_t nth = 1;; ++nth) {
    void *memory = &nth;
    slip_test_malloc_fail(nth, false);
    slip_status_t status = slip__sim_memory_allocate(0, 64, &memory);
    slip_test_malloc_fail(0, false);
    if (slip_status_is_ok(status)) {
      SLIP_CHECK(nth > 2);
      SLIP_CHECK_OK(slip__sim_memory_free(0, memory));
      break;
    }
    SLIP_CHECK_CODE(status, SLIP_CODE_OUT_OF_MEMORY);
    SLIP_CHECK(memory == NULL);
  }
}

SLIP_TEST(sim_memory_says_what_a_wrong_pointer_is) {
  char local[64] = {0};
  char *memory = memory_new(64);
  void *pinned = NULL, *other = NULL;
  SLIP_CHECK_OK(slip__sim_host_allocate(64, &pinned));
  SLIP_CHECK_OK(slip__sim_device_push(1));
  SLIP_CHECK_OK(slip__sim_memory_allocate(1, 64, &other));
  SLIP_CHECK_OK(slip__sim_device_pop(1));
  const uint32_t to = SLIP_COPY_HOST_TO_DEVICE, from = SLIP_COPY_DEVICE_TO_HOST, within = SLIP_COPY_DEVICE_TO_DEVICE;
  const struct {
    void *target;
    const void *source;
    uint32_t kind;
    const char *say;
  } wrong[] = {
      {local, local, to, "the target"},
      {local, local, to, "is pageable host memory where memory of device 0 is needed"},
      {pinned, local, to, "is page-locked host memory where memory of device 0 is needed"},
      {memory, memory, to, "is memory of device 0 where host memory is needed"},
      {memory, memory, from, "the target"},
      {local, other, from, "is memory of device 1 where memory of device 0 is needed"},
      {memory, local, within, "the source"},
      {memory, memory + 1, within, "leave its allocation of 64 bytes"},
      {memory + 64, local, to, "is an address of device 0, but in no allocation"},
      {memory, (char *)pinned + 1, to, "leave its allocation of 64 bytes"},
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
    slip_status_t status = slip__sim_memory_copy(0, wrong[i].target, wrong[i].source, 64, wrong[i].kind);
    SLIP_CHECK_EQ(slip_status_platform_code(status), 1);
    SLIP_CHECK_ERROR(status, SLIP_CODE_INVALID_ARGUMENT, wrong[i].say);
  }
  SLIP_CHECK_ERROR(slip__sim_memory_copy(0, other, local, 64, to), SLIP_CODE_INVALID_ARGUMENT, "device 1");
  SLIP_CHECK_ERROR(slip__sim_memory_fill(0, pinned, 0, 1), SLIP_CODE_INVALID_ARGUMENT, "page-locked");
  SLIP_CHECK_ERROR(slip__sim_memory_free(0, pinned), SLIP_CODE_INVALID_ARGUMENT, "page-locked");
  SLIP_CHECK_ERROR(slip__sim_memory_free(0, memory + 8), SLIP_CODE_INVALID_ARGUMENT, "points 8 bytes into an allocation of 64");
  SLIP_CHECK_ERROR(slip__sim_memory_free(0, local), SLIP_CODE_INVALID_ARGUMENT, "pageable");
  SLIP_CHECK_ERROR(slip__sim_host_free(local), SLIP_CODE_INVALID_ARGUMENT, "did not make");
  SLIP_CHECK_ERROR(slip__sim_host_free(memory), SLIP_CODE_INVALID_ARGUMENT, "memory of device 0");
  SLIP_CHECK_ERROR(slip__sim_memory_free(1, other), SLIP_CODE_INVALID_ARGUMENT, "device is 0: slip_sim_set_device(1) first");
  slip_status_t status = slip__sim_memory_free(1, other);  // not the current device
  SLIP_CHECK_EQ(slip_status_platform_code(status), 201);
  SLIP_CHECK_CODE(status, SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_EQ(slip__sim_violation_total(), 0);
  SLIP_CHECK_OK(slip__sim_host_free(pinned));
  SLIP_CHECK_ERROR(slip__sim_host_free(pinned), SLIP_CODE_INVALID_ARGUMENT, "freed by host_free");
}

SLIP_TEST(sim_memory_page_locked_is_the_hosts) {
  slip_pointer_info_t info = {0};
  void *pinned = NULL;
  SLIP_CHECK_OK(slip__sim_host_allocate(1000, &pinned));
  SLIP_CHECK_EQ((uintptr_t)pinned % 256, 0);
  memset(pinned, 7, 1000);
  SLIP_CHECK_OK(slip__sim_pointer_info((char *)pinned + 999, &info));
  SLIP_CHECK_EQ(info.kind, SLIP_POINTER_HOST_PINNED);
  SLIP_CHECK(info.base == pinned && info.size_bytes == 1000);
  info = (slip_pointer_info_t){0};
  SLIP_CHECK_OK(slip__sim_pointer_info((char *)pinned + 1000, &info));
  SLIP_CHECK_EQ(info.kind, SLIP_POINTER_UNKNOWN);
  SLIP_CHECK_OK(slip__sim_pointer_info(&info, &info));
  SLIP_CHECK_EQ(info.kind, SLIP_POINTER_UNKNOWN);
  ((char *)pinned)[1000] = 1;
  SLIP_CHECK_OK(slip__sim_host_free(pinned));
  memory_violation(1, "byte 1000 of the page-locked allocation of 1000 bytes");
  SLIP_CHECK_OK(slip__sim_check_device(0));
  SLIP_CHECK_OK(slip__sim_host_allocate(64, &pinned));
  slip__sim_memory_hold((char *)pinned + 5);
  SLIP_CHECK_OK(slip__sim_host_free(pinned));
  memory_violation(2, "freed while in flight, 0 running and 1 enqueued operation uses it");
  slip__sim_memory_release((char *)pinned + 5);
}

// --- what was never written

SLIP_TEST(sim_memory_reading_what_was_never_written_is_a_violation) {
  char host[100];
  char *a = memory_new(100), *b = memory_new(100);
  memset(host, 1, sizeof(host));
  SLIP_CHECK_OK(memory_read(host, a, 100));
  memory_violation(1, "memory_copy read 100 bytes");
  memory_violation(1, "(offset 0 of an allocation of 100), but the byte at offset 0 was never written");
  SLIP_CHECK_OK(memory_write(a + 10, host, 80));
  SLIP_CHECK_OK(memory_read(host, a + 10, 80));
  SLIP_CHECK_EQ(slip__sim_violation_total(), 1);
  SLIP_CHECK_OK(memory_read(host, a + 10, 81));
  memory_violation(2, "the byte at offset 90 was never written");
  SLIP_CHECK_OK(slip__sim_memory_copy(0, b, a, 100, SLIP_COPY_DEVICE_TO_DEVICE));  // copies what is not defined, too
  SLIP_CHECK_EQ(slip__sim_violation_total(), 2);
  SLIP_CHECK_OK(memory_read(host, b + 10, 80));
  SLIP_CHECK_EQ(slip__sim_violation_total(), 2);
  SLIP_CHECK_OK(memory_read(host, b + 9, 10));
  memory_violation(3, "the byte at offset 9 was never written");
  SLIP_CHECK_OK(slip__sim_memory_copy(0, b + 5, b + 11, 79, SLIP_COPY_DEVICE_TO_DEVICE));  // an overlap
  SLIP_CHECK_OK(memory_read(host, b + 5, 79));
  SLIP_CHECK_EQ(slip__sim_violation_total(), 3);
  SLIP_CHECK_OK(slip__sim_memory_fill(0, b, 0, 100));
  SLIP_CHECK_OK(memory_read(host, b, 100));
  SLIP_CHECK_EQ(slip__sim_violation_total(), 3);
  SLIP_CHECK_OK(slip__sim_check_device(0));  // the host's mistake does not break the device
}

// Random writes by every means against a plain model of what is defined.
SLIP_TEST(sim_memory_definedness_is_exact_to_the_byte) {
  uint64_t random = slip_test_seed(), seen = 0;
  static char host[512];
  bool model[512] = {false};
  char *memory = memory_new(512), *source = memory_new(512);
  SLIP_CHECK_OK(slip__sim_memory_fill(0, source, 3, 512));
  for (int step = 0; step < 3000; ++step) {
    uint64_t at = slip_test_random(&random) % 512, size = 1 + slip_test_random(&random) % (512 - at > 40 ? 40 : 512 - at);
    switch (slip_test_random(&random) % 6) {
      case 0:
        SLIP_CHECK_OK(memory_write(memory + at, host, size));
        memset(model + at, true, size);
        break;
      case 1:
        SLIP_CHECK_OK(slip__sim_memory_copy(0, memory + at, source + at, size, SLIP_COPY_DEVICE_TO_DEVICE));
        memset(model + at, true, size);
        break;
      case 2: {  // holes wander
        uint64_t from = slip_test_random(&random) % (513 - size);
        SLIP_CHECK_OK(slip__sim_memory_copy(0, memory + at, memory + from, size, SLIP_COPY_DEVICE_TO_DEVICE));
        memmove(model + at, model + from, size);
        break;
      }
      default: {
        bool defined = !memchr(model + at, false, size);
        SLIP_CHECK_OK(memory_read(host, memory + at, size));
        seen += !defined;
        SLIP_CHECK_EQ(slip__sim_violation_total(), seen);
      }
    }
    if (step % 100 != 99) continue;
    SLIP_CHECK_OK(slip__sim_memory_free(0, memory));
    memory = memory_new(512);
    memset(model, false, sizeof(model));
  }
  SLIP_CHECK(seen > 100);
}

// --- device functions

SLIP_TEST(sim_memory_outputs_left_unwritten_stay_undefined) {
  float host[64] = {0};
  char *memory = memory_new(sizeof(host));
  float *view = memory_map(memory, sizeof(host), SLIP_MAP_WRITE);
  SLIP_CHECK_EQ((uintptr_t)view % 256, 0);
  for (int i = 0; i < 64; ++i) {
    if (i != 20 && i != 21) view[i] = (float)i;
  }
  SLIP_CHECK_OK(memory_unmap(memory, sizeof(host), SLIP_MAP_WRITE));
  SLIP_CHECK_OK(memory_read(host, memory, 80));
  SLIP_CHECK_OK(memory_read(host, memory + 88, sizeof(host) - 88));
  SLIP_CHECK_EQ(slip__sim_violation_total(), 0);
  SLIP_CHECK_OK(memory_read(host, memory, sizeof(host)));
  memory_violation(1, "the byte at offset 80 was never written");
  // A function that reads them breaks the device.
  void *none = view;
  memory_in_function(true);
  slip_status_t status = slip__sim_device_map(0, memory, sizeof(host), SLIP_MAP_READ | SLIP_MAP_WRITE, &none);
  memory_in_function(false);
  SLIP_CHECK_ERROR(status, SLIP_CODE_DEVICE, "a device function read 256 bytes");
  SLIP_CHECK(none == NULL);
  memory_violation(2, "the device is broken now");
  SLIP_CHECK_ERROR(memory_read(host, memory, 4), SLIP_CODE_DEVICE, "never written");
}

SLIP_TEST(sim_memory_views_of_one_allocation_may_overlap) {
  char host[128];
  char *memory = memory_new(128);
  char *a = memory_map(memory, 128, SLIP_MAP_WRITE), *b = memory_map(memory + 64, 64, SLIP_MAP_WRITE);
  SLIP_CHECK(b == a + 64);
  memset(a, 1, 64);
  SLIP_CHECK_OK(memory_unmap(memory, 128, SLIP_MAP_WRITE));
  memset(b, 2, 64);
  SLIP_CHECK_OK(memory_unmap(memory + 64, 64, SLIP_MAP_WRITE));
  SLIP_CHECK_OK(memory_read(host, memory, 128));
  SLIP_CHECK(host[63] == 1 && host[64] == 2);
  (void)memory_map(memory, 128, SLIP_MAP_READ);
  SLIP_CHECK_OK(memory_unmap(memory, 128, SLIP_MAP_READ));
  SLIP_CHECK_EQ(slip__sim_violation_total(), 0);
}

SLIP_TEST(sim_memory_writes_out_of_bounds_break_the_device) {
  char *memory = memory_new(100);
  for (int side = 0; side < 2; ++side) {
    char *view = memory_map(memory, 100, SLIP_MAP_WRITE);
    view[side == 0 ? 100 : -3] = 0;
    slip_status_t status = memory_unmap(memory, 100, SLIP_MAP_WRITE);
    SLIP_CHECK_EQ(slip_status_platform_code(status), 700);
    SLIP_CHECK_ERROR(status, SLIP_CODE_DEVICE, side == 0 ? "byte 100 of the device allocation of 100 bytes" : "byte -3 of the device");
    memory_violation((uint64_t)side + 1, "out of bounds");
    slip__sim_device_heal(0);
  }
  SLIP_CHECK_OK(slip__sim_memory_free(0, memory));
  SLIP_CHECK_EQ(slip__sim_violation_total(), 2);  // mended: reported once
}

SLIP_TEST(sim_memory_functions_map_only_what_is_theirs) {
  char *memory = memory_new(64), *freed = memory_new(64);
  void *view = NULL;
  SLIP_CHECK_OK(slip__sim_memory_free(0, freed));
  slip_status_t status = slip__sim_device_map(0, memory, 64, SLIP_MAP_WRITE, &view);
  SLIP_CHECK_EQ(slip_status_platform_code(status), 800);
  SLIP_CHECK_ERROR(status, SLIP_CODE_DEVICE, "outside device functions");
  memory_in_function(true);
  SLIP_CHECK_ERROR(slip__sim_device_map(1, memory, 64, SLIP_MAP_WRITE, &view), SLIP_CODE_DEVICE, "a function of another device");
  SLIP_CHECK_EQ(slip__sim_violation_total(), 2);
  const struct {
    char *address;
    const char *say;
  } wrong[] = {{memory + 1, "leave its allocation"}, {freed, "freed by memory_free"}, {(char *)&view, "pageable host memory"}};
  for (size_t i = 0; i < 3; ++i) {
    status = slip__sim_device_map(0, wrong[i].address, 64, SLIP_MAP_WRITE, &view);
    SLIP_CHECK_EQ(slip_status_platform_code(status), 700);
    SLIP_CHECK_ERROR(status, SLIP_CODE_DEVICE, wrong[i].say);
    SLIP_CHECK(view == NULL && slip__sim_device_broken(0));
    slip__sim_device_heal(0);
  }
  SLIP_CHECK_ERROR(slip__sim_device_unmap(0, memory, 64, SLIP_MAP_WRITE), SLIP_CODE_DEVICE, "not mapped");
  SLIP_CHECK_EQ(slip__sim_violation_total(), 6);
  memory_in_function(false);
}

// --- freed memory

SLIP_TEST(sim_memory_use_after_free_is_named) {
  char host[64] = {0};
  char *memory = memory_new(64);
  SLIP_CHECK_OK(slip__sim_memory_free(0, memory));
  slip__sim_count(0);
  SLIP_CHECK_ERROR(memory_write(memory, host, 64), SLIP_CODE_INVALID_ARGUMENT, "freed by memory_free, 1 call ago: use after free");
  slip__sim_count(0);
  SLIP_CHECK_ERROR(memory_write(memory, host, 64), SLIP_CODE_INVALID_ARGUMENT, "freed by memory_free, 2 calls ago: use after free");
  memory_violation(2, "use after free");
  SLIP_CHECK_ERROR(slip__sim_memory_fill(0, memory + 3, 0, 1), SLIP_CODE_INVALID_ARGUMENT, "use after free");
  SLIP_CHECK_EQ(slip__sim_violation_total(), 3);
  SLIP_CHECK_ERROR(slip__sim_memory_free(0, memory), SLIP_CODE_INVALID_ARGUMENT, "freed by memory_free");
  SLIP_CHECK_EQ(slip__sim_violation_total(), 3);  // a second free is refused, and harms nobody
  SLIP_CHECK_OK(slip__sim_check_device(0));
}

SLIP_TEST(sim_memory_freed_while_in_flight_is_a_violation) {
  char *memory = memory_new(64);
  char *view = memory_map(memory, 64, SLIP_MAP_WRITE);
  slip__sim_memory_hold(memory + 60);
  SLIP_CHECK_OK(slip__sim_memory_free(0, memory));
  memory_violation(1, "freed while in flight, 1 running and 1 enqueued");
  memset(view, 1, 64);  // still there for those who run
  SLIP_CHECK_OK(memory_unmap(memory, 64, SLIP_MAP_WRITE));
  slip__sim_memory_release(memory + 60);
  SLIP_CHECK_EQ(slip__sim_violation_total(), 1);
  // Through a view after its end:
  view[9] = 1;
  SLIP_CHECK_OK(slip_sim_reset_device(0));
  slip__sim_memory_reset(-1);
  memory_violation(2, "byte 9 of the allocation of 64 bytes");
  memory_violation(2, "was written after memory_free had freed it");
}

SLIP_TEST(sim_memory_large_blocks_give_back_their_bytes_but_not_their_name) {
  const uint64_t size = (uint64_t)17 << 20;
  char host[8] = {0};
  char *large = memory_new(size), *held = memory_new(size);
  slip__sim_memory_hold(held);
  SLIP_CHECK_OK(slip__sim_memory_free(0, large));
  SLIP_CHECK_OK(slip__sim_memory_free(0, held));
  memory_violation(1, "freed while in flight, 0 running and 1 enqueued");
  SLIP_CHECK_ERROR(memory_write(large + 5, host, 8), SLIP_CODE_INVALID_ARGUMENT, "17825792 bytes");
  memory_violation(2, "freed by memory_free");
  for (int i = 0; i < 300; ++i) SLIP_CHECK_OK(slip__sim_memory_free(0, memory_new(64)));
  SLIP_CHECK_ERROR(memory_write(large, host, 8), SLIP_CODE_INVALID_ARGUMENT, "in no allocation");
  SLIP_CHECK_ERROR(memory_write(held, host, 8), SLIP_CODE_INVALID_ARGUMENT, "freed by memory_free");  // in use, so still there
  slip__sim_memory_release(held);
  for (int i = 0; i < 2; ++i) SLIP_CHECK_OK(slip__sim_memory_free(0, memory_new(64)));
  SLIP_CHECK_ERROR(memory_write(held, host, 8), SLIP_CODE_INVALID_ARGUMENT, "in no allocation");
}

static void memory_work(void *user) {
  uint64_t random = (uint64_t)(uintptr_t)user;
  for (int turn = 0; turn < 400; ++turn) {
    unsigned char host[700], back[700];
    uint64_t size = 1 + slip_test_random(&random) % 700;
    void *pinned = NULL;
    char *memory = memory_new(size);
    memset(host, (int)turn, size);
    SLIP_CHECK_OK(slip__sim_host_allocate(size, &pinned));
    SLIP_CHECK_OK(memory_write(memory, host, size));
    unsigned char *view = memory_map(memory, size, SLIP_MAP_READ | SLIP_MAP_WRITE);
    for (uint64_t i = 0; i < size; ++i) view[i] ^= 0xff;
    SLIP_CHECK_OK(memory_unmap(memory, size, SLIP_MAP_READ | SLIP_MAP_WRITE));
    SLIP_CHECK_OK(memory_read(pinned, memory, size));
    SLIP_CHECK_OK(memory_read(back, memory, size));
    SLIP_CHECK(memcmp(pinned, back, size) == 0 && back[0] == (host[0] ^ 0xff));
    SLIP_CHECK_OK(slip__sim_memory_free(0, memory));
    SLIP_CHECK_OK(slip__sim_host_free(pinned));
  }
}

SLIP_TEST(sim_memory_is_thread_safe) {
  slip__thread_t threads[4] = {{0}};
  slip_sim_statistics_t statistics = {.struct_size = sizeof(statistics)};
  for (uintptr_t i = 0; i < 4; ++i) SLIP_CHECK_OK(slip__thread_start(&threads[i], "memory", memory_work, (void *)(i + 1)));
  for (int i = 0; i < 4; ++i) slip__thread_join(&threads[i]);
  SLIP_CHECK_EQ(slip__sim_violation_total(), 0);
  SLIP_CHECK_OK(slip_sim_statistics(&statistics));
  SLIP_CHECK(statistics.allocations == 0 && statistics.host_allocations == 0 && statistics.device_bytes == 0);
}

// --- copies in streams

SLIP_TEST(sim_memory_copies_are_checked_when_enqueued_and_when_run) {
  char host[64];
  char *memory = memory_new(64);
  memset(host, 5, sizeof(host));
  slip__sim_copy_t in = {.target = memory, .source = host, .size_bytes = 64, .kind = SLIP_COPY_HOST_TO_DEVICE};
  SLIP_CHECK_OK(slip__sim_copy_prepare(0, &in, false));
  memset(host, 0, sizeof(host));  // pageable memory was read at once
  slip__sim_copy_execute(0, &in);
  slip__sim_copy_discard(&in);
  slip__sim_copy_t out = {.target = host, .source = memory, .size_bytes = 64, .kind = SLIP_COPY_DEVICE_TO_HOST};
  SLIP_CHECK_ERROR(slip__sim_copy_prepare(0, &out, true), SLIP_CODE_DEVICE, "a replay needs page-locked memory");
  SLIP_CHECK_ERROR(slip__sim_copy_prepare(0, &in, true), SLIP_CODE_DEVICE, "a replay needs page-locked memory");
  SLIP_CHECK_OK(slip__sim_copy_prepare(0, &out, false));
  slip__sim_copy_execute(0, &out);
  SLIP_CHECK(host[0] == 5 && host[63] == 5);
  SLIP_CHECK_EQ(slip__sim_violation_total(), 0);
  SLIP_CHECK_OK(slip__sim_memory_free(0, memory));
  slip__sim_copy_execute(0, &out);
  memory_violation(1, "a copy in a stream: the source");
  SLIP_CHECK(slip__sim_device_broken(0));
  slip__sim_device_heal(0);
  SLIP_CHECK_ERROR(slip__sim_copy_prepare(0, &out, false), SLIP_CODE_INVALID_ARGUMENT, "use after free");
  memory_violation(2, "use after free");
}
