// SPDX-License-Identifier: Apache-2.0
// What device functions map: reads that must stay reads, names in messages, maps that are left behind, and patterns that a seed fixes.
#include "os/memory.h"
#include "platform/label.h"
#include "platform/sim/block.h"
#include "slip_test.h"

enum { LARGE = 9 << 20 };

static char *map_memory(uint64_t size_bytes) {
  void *memory = NULL;
  SLIP_CHECK_OK(slip__sim_memory_allocate(0, size_bytes, &memory));
  SLIP_CHECK_OK(slip__sim_memory_fill(0, memory, 1, size_bytes));
  return memory;
}

static void map_role(bool inside) {
  slip__sim_role = inside ? SLIP__SIM_ROLE_DEVICE_FUNCTION : SLIP__SIM_ROLE_HOST;
  slip__sim_running_device = inside ? 0 : -1;
}

static char *map_begin(char *memory, uint64_t size_bytes, uint32_t access, const char *tensor) {
  void *view = NULL;
  slip__platform_label = (slip__platform_label_t){.callable = tensor ? "add" : NULL, .tensor = tensor};
  map_role(true);
  SLIP_CHECK_OK(slip__sim_device_map(0, memory, size_bytes, access, &view));
  map_role(false);
  slip__platform_label = (slip__platform_label_t){0};
  return view;
}

static slip_status_t map_end(char *memory, uint64_t size_bytes, uint32_t access) {
  map_role(true);
  slip_status_t status = slip__sim_device_unmap(0, memory, size_bytes, access);
  map_role(false);
  return status;
}

static void map_violation(uint64_t count, const char *part) {
  char text[700] = "";
  SLIP_CHECK_EQ(slip__sim_violation_total(), count);
  (void)slip__sim_violation_text(count - 1, text, sizeof(text));
  if (!strstr(text, part)) slip_test_fail(__FILE__, __LINE__, "violation \"%s\" does not say \"%s\"", text, part);
}

SLIP_TEST(sim_map_a_write_through_a_map_for_reading_breaks_the_device) {
  static const uint64_t sizes[] = {1, 7, 64, 5000, LARGE};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    for (int end = 0; end < 2; ++end) {
      char *memory = map_memory(sizes[i] + 16);
      char *view = map_begin(memory + 8, sizes[i], SLIP_MAP_READ, "x");
      SLIP_CHECK_OK(map_end(memory + 8, sizes[i], SLIP_MAP_READ));  // only read
      view = map_begin(memory + 8, sizes[i], SLIP_MAP_READ, "x");
      view[end ? sizes[i] - 1 : 0] ^= 4;
      slip_status_t status = map_end(memory + 8, sizes[i], SLIP_MAP_READ);
      SLIP_CHECK_EQ(slip_status_platform_code(status), 700);
      SLIP_CHECK_ERROR(status, SLIP_CODE_DEVICE, "(tensor \"x\" of callable \"add\") wrote what it has for reading only");
      map_violation(2 * i + (uint64_t)end + 1, "(offset 8 of an allocation of");
      SLIP_CHECK_ERROR(slip__sim_check_device(0), SLIP_CODE_DEVICE, "tensor \"x\" of callable \"add\"");
      slip__sim_device_heal(0);
      SLIP_CHECK_OK(slip__sim_memory_free(0, memory));
    }
  }
}

// Everything that may write while somebody reads, before the map for reading and during it.
SLIP_TEST(sim_map_changes_by_rightful_writers_are_excused) {
  char host[64] = {5};
  char *memory = map_memory(256);
  for (int order = 0; order < 2; ++order) {
    char *writer = order == 0 ? map_begin(memory + 60, 8, SLIP_MAP_WRITE, "y") : NULL;
    (void)map_begin(memory, 64, SLIP_MAP_READ, "x");
    if (order == 1) writer = map_begin(memory + 60, 8, SLIP_MAP_READ | SLIP_MAP_WRITE, "y");
    writer[0] = (char)(7 + order);
    if (order == 0) SLIP_CHECK_OK(map_end(memory + 60, 8, SLIP_MAP_WRITE));
    SLIP_CHECK_OK(map_end(memory, 64, SLIP_MAP_READ));
    if (order == 1) SLIP_CHECK_OK(map_end(memory + 60, 8, SLIP_MAP_READ | SLIP_MAP_WRITE));
  }
  (void)map_begin(memory, 64, SLIP_MAP_READ, "x");
  SLIP_CHECK_OK(slip__sim_memory_copy(0, memory + 32, host, 64, SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(map_end(memory, 64, SLIP_MAP_READ));
  (void)map_begin(memory, 64, SLIP_MAP_READ, "x");
  SLIP_CHECK_OK(slip__sim_memory_fill(0, memory + 63, 9, 1));
  SLIP_CHECK_OK(map_end(memory, 64, SLIP_MAP_READ));
  SLIP_CHECK_EQ(slip__sim_violation_total(), 0);
  // A writer next to the range excuses nothing in it.
  char *reader = map_begin(memory, 64, SLIP_MAP_READ, "x");
  char *writer = map_begin(memory + 64, 64, SLIP_MAP_WRITE, "y");
  writer[-1] ^= 1;
  SLIP_CHECK(reader + 64 == writer);
  SLIP_CHECK_OK(map_end(memory + 64, 64, SLIP_MAP_WRITE));
  SLIP_CHECK_ERROR(map_end(memory, 64, SLIP_MAP_READ), SLIP_CODE_DEVICE, "64 bytes");
  map_violation(1, "tensor \"x\"");
}

SLIP_TEST(sim_map_messages_name_the_tensor_and_its_callable) {
  char *memory = map_memory(100), host[64] = {0};
  void *view = NULL;
  char *mapped = map_begin(memory, 100, SLIP_MAP_WRITE, "z");
  mapped[100] = 0;
  SLIP_CHECK_ERROR(map_end(memory, 100, SLIP_MAP_WRITE), SLIP_CODE_DEVICE,
                   "(tensor \"z\" of callable \"add\") found a write out of bounds: byte 100 of the device allocation of 100 bytes");
  map_violation(1, "correct the code that writes past");
  slip__sim_device_heal(0);
  map_role(true);
  slip__platform_label = (slip__platform_label_t){.callable = "add", .tensor = "x"};
  SLIP_CHECK_ERROR(slip__sim_device_map(0, host, 64, SLIP_MAP_READ, &view), SLIP_CODE_DEVICE,
                   "a device function (tensor \"x\" of callable");
  map_violation(2, "is pageable host memory where memory of device 0 is needed: allocate that with slip_memory_allocate()");
  slip__sim_device_heal(0);
  slip__platform_label.tensor = NULL;
  SLIP_CHECK_ERROR(slip__sim_device_map(0, host, 64, SLIP_MAP_READ, &view), SLIP_CODE_DEVICE, "(arguments of callable \"add\")");
  slip__platform_label = (slip__platform_label_t){0};
  map_role(false);
}

// --- maps that are left behind

static void map_forget(void *user) {
  void *view = NULL;
  SLIP_CHECK_OK(slip__sim_device_map(0, user, 64, SLIP_MAP_WRITE, &view));
  memset(view, 3, 64);
  SLIP_CHECK_OK(slip__sim_device_map(0, (char *)user + 64, 64, SLIP_MAP_READ, &view));
}

static void map_forget_and_write(void *user) {
  void *view = NULL;
  SLIP_CHECK_OK(slip__sim_device_map(0, user, 64, SLIP_MAP_READ, &view));
  *(char *)view ^= 1;
}

static void map_run(void (*function)(void *user), void *memory) {
  slip_stream_t stream = NULL;
  SLIP_CHECK_OK(slip__sim_stream_create(0, &stream));
  SLIP_CHECK_OK(slip__sim_stream_launch(stream, function, memory));
  for (slip_code_t code = SLIP_CODE_NOT_READY; code == SLIP_CODE_NOT_READY;) {
    slip_status_t status = slip__sim_stream_query(stream);
    code = slip_status_code(status);
    slip_status_free(status);
  }
}

SLIP_TEST(sim_map_ends_with_its_function) {
  char host[64];
  char *memory = map_memory(128);
  map_run(map_forget, memory);
  SLIP_CHECK_OK(slip__sim_memory_copy(0, host, memory, 64, SLIP_COPY_DEVICE_TO_HOST));
  SLIP_CHECK(host[0] == 3 && host[63] == 3);
  SLIP_CHECK_OK(slip__sim_memory_free(0, memory));  // nobody uses it any more
  SLIP_CHECK_EQ(slip__sim_violation_total(), 0);
  map_run(map_forget_and_write, map_memory(64));  // and is judged all the same
  map_violation(1, "wrote what it has for reading only");
  SLIP_CHECK(slip__sim_device_broken(0));
}

// --- patterns

SLIP_TEST(sim_map_patterns_depend_on_the_seed_and_not_on_the_address) {
  unsigned char bytes[3][64];
  void *memory = NULL, *first = NULL, *in_the_way = NULL;
  for (int i = 0; i < 3; ++i) {
    slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
    options.seed = i < 2 ? 1 : 2;
    options.memory_bytes = i == 1 ? (uint64_t)2 << 30 : (uint64_t)1 << 30;  // another range
    SLIP_CHECK_OK(slip_sim_reset(&options));
    if (i == 1) SLIP_CHECK_OK(slip__memory_reserve_unreachable((uint64_t)4 << 30, &in_the_way));
    SLIP_CHECK_OK(slip__sim_memory_allocate(0, 64, &memory));
    if (i == 0) first = memory;
    if (i == 1) SLIP_CHECK(memory != first);
    SLIP_CHECK_OK(slip__sim_memory_copy(0, bytes[i], memory, 64, SLIP_COPY_DEVICE_TO_HOST));
    SLIP_CHECK_EQ(slip__sim_violation_total(), 1);
    SLIP_CHECK_OK(slip__sim_memory_free(0, memory));
  }
  SLIP_CHECK(memcmp(bytes[0], bytes[1], 64) == 0);
  SLIP_CHECK(memcmp(bytes[0], bytes[2], 64) != 0);
  slip__memory_release(in_the_way, (uint64_t)4 << 30);
}
