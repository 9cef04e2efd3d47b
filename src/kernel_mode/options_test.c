// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/options.h"

#include "slip_test.h"

static slip_context_options_t slip_options_test_resolved(void) {
  slip_context_options_t resolved;
  SLIP_CHECK_OK(slip__options_resolve(NULL, &resolved));
  return resolved;
}

SLIP_TEST(options_defaults_are_those_of_the_header) {
  slip_context_options_t o = slip_options_test_resolved();
  SLIP_CHECK_STR(o.platform, "cpu");
  for (int i = 0; i < SLIP_RING_COUNT; ++i) {
    SLIP_CHECK_EQ(o.task_window[i], 16384);
    SLIP_CHECK_EQ(o.heap_bytes[i], 64 << 20);
    SLIP_CHECK_EQ(o.dependency_pool[i], 65536);
  }
  SLIP_CHECK_EQ(o.max_in_flight, 2);
  SLIP_CHECK_EQ(o.max_pending, 1024);
  SLIP_CHECK_EQ(o.max_callables, 1024);
  SLIP_CHECK_EQ(o.max_resident_bytes, 1 << 30);
  SLIP_CHECK_EQ(o.max_image_bytes, 256 << 20);
  SLIP_CHECK(o.allocator.control != NULL);
  SLIP_CHECK_OK(slip__options_check(&o));
}

SLIP_TEST(options_struct_size_is_checked) {
  slip_context_options_t given = SLIP_CONTEXT_OPTIONS_INIT, resolved;
  given.struct_size = 0;
  SLIP_CHECK_ERROR(slip__options_resolve(&given, &resolved), SLIP_CODE_INVALID_ARGUMENT, "struct_size is 0");
  struct {
    slip_context_options_t options;
    uint64_t newer;
  } large = {SLIP_CONTEXT_OPTIONS_INIT, 0};
  large.options.struct_size = (uint32_t)sizeof(large);
  SLIP_CHECK_OK(slip__options_resolve(&large.options, &resolved));
  SLIP_CHECK_EQ(resolved.struct_size, sizeof(resolved));
  large.newer = 1;
  SLIP_CHECK_ERROR(slip__options_resolve(&large.options, &resolved), SLIP_CODE_INVALID_ARGUMENT, "upgrade it");
}

typedef struct slip_options_test_case_t {
  size_t offset;
  size_t size;
  uint64_t value;
  slip_code_t code;
  const char *part;
} slip_options_test_case_t;

#define SLIP_OPTIONS_CASE(field, value, code, part) \
  { offsetof(slip_context_options_t, field), sizeof(((slip_context_options_t *)0)->field), (value), SLIP_CODE_##code, (part) }

SLIP_TEST(options_out_of_range_are_refused_by_name) {
  static const slip_options_test_case_t cases[] = {
      SLIP_OPTIONS_CASE(task_window[0], 2, INVALID_ARGUMENT, "task_window[0] is 2"),
      SLIP_OPTIONS_CASE(task_window[2], 12, INVALID_ARGUMENT, "task_window[2] is 12"),
      SLIP_OPTIONS_CASE(task_window[3], 0x80000000u, INVALID_ARGUMENT, "task_window[3]"),
      SLIP_OPTIONS_CASE(task_window[1], 4, OK, NULL),
      SLIP_OPTIONS_CASE(task_window[1], 1u << 30, OK, NULL),
      SLIP_OPTIONS_CASE(heap_bytes[1], 1023, INVALID_ARGUMENT, "heap_bytes[1] is 1023"),
      SLIP_OPTIONS_CASE(heap_bytes[1], 1024, OK, NULL),
      SLIP_OPTIONS_CASE(dependency_pool[0], 3, INVALID_ARGUMENT, "dependency_pool[0] is 3"),
      SLIP_OPTIONS_CASE(dependency_pool[0], 0x80000000u, INVALID_ARGUMENT, "dependency_pool[0]"),
      SLIP_OPTIONS_CASE(dependency_pool[0], INT32_MAX, OK, NULL),
      SLIP_OPTIONS_CASE(scheduler_threads, 1, INVALID_ARGUMENT, "SLIP_CONTEXT_SINGLE_THREAD"),
      SLIP_OPTIONS_CASE(scheduler_threads, 2, OK, NULL),
      SLIP_OPTIONS_CASE(scheduler_threads, 1025, INVALID_ARGUMENT, "scheduler_threads is 1025"),
      SLIP_OPTIONS_CASE(workspace_budget_bytes, 1023, INVALID_ARGUMENT, "workspace_budget_bytes is 1023"),
      SLIP_OPTIONS_CASE(workspace_budget_bytes, 1024, OK, NULL),
      SLIP_OPTIONS_CASE(max_in_flight, 65, INVALID_ARGUMENT, "max_in_flight is 65"),
      SLIP_OPTIONS_CASE(max_pending, SLIP__MAX_PENDING + 1, INVALID_ARGUMENT, "max_pending"),
      SLIP_OPTIONS_CASE(max_callables, SLIP__MAX_CALLABLES + 1, INVALID_ARGUMENT, "max_callables"),
      SLIP_OPTIONS_CASE(generation, (uint64_t)INT64_MAX + 1, INVALID_ARGUMENT, "generation is"),
      SLIP_OPTIONS_CASE(generation, INT64_MAX, OK, NULL),
      SLIP_OPTIONS_CASE(flags, 0x80, INVALID_ARGUMENT, "0x80 is unknown"),
      SLIP_OPTIONS_CASE(stall_timeout_ms, 1, OK, NULL),
      SLIP_OPTIONS_CASE(stall_timeout_ms, UINT32_MAX, OK, NULL),
      SLIP_OPTIONS_CASE(diagnostics, 1, INVALID_ARGUMENT, "output_directory"),
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    slip_context_options_t o = slip_options_test_resolved();
    memcpy((char *)&o + cases[i].offset, &cases[i].value, cases[i].size);
    SLIP_CHECK_ERROR(slip__options_check(&o), cases[i].code, cases[i].part);
  }
}

SLIP_TEST(options_combinations_are_refused) {
  slip_context_options_t o = slip_options_test_resolved();
  o.flags = SLIP_CONTEXT_SINGLE_THREAD;
  SLIP_CHECK_OK(slip__options_check(&o));
  o.scheduler_threads = 2;
  SLIP_CHECK_ERROR(slip__options_check(&o), SLIP_CODE_INVALID_ARGUMENT, "together with SLIP_CONTEXT_SINGLE_THREAD");
  o = slip_options_test_resolved();
  o.diagnostics = 1;
  o.output_directory = "out";
  SLIP_CHECK_ERROR(slip__options_check(&o), SLIP_CODE_UNSUPPORTED, "no collectors");
}

static slip_status_t slip_options_test_hook(void *user) {
  (void)user;
  return slip_ok_status();
}

SLIP_TEST(options_difference_names_the_first_field) {
  slip_context_options_t a = slip_options_test_resolved(), b = a;
  char name[64];
  SLIP_CHECK(!slip__options_differ(&a, &b, name, sizeof(name)));
  b.platform = "null";
  b.max_pending = 7;
  SLIP_CHECK(slip__options_differ(&a, &b, name, sizeof(name)));
  SLIP_CHECK_STR(name, "platform");
  b = a;
  b.max_pending = 7;
  SLIP_CHECK(slip__options_differ(&a, &b, name, sizeof(name)));
  SLIP_CHECK_STR(name, "max_pending");
  b = a;
  b.heap_bytes[2] = 4096;
  SLIP_CHECK(slip__options_differ(&a, &b, name, sizeof(name)));
  SLIP_CHECK_STR(name, "heap_bytes[2]");
  b = a;
  b.synchronize_hook = slip_options_test_hook;
  SLIP_CHECK(slip__options_differ(&a, &b, name, sizeof(name)));
  SLIP_CHECK_STR(name, "synchronize_hook");
  char copy[] = "cpu";  // another pointer, the same text
  b = a;
  b.platform = copy;
  SLIP_CHECK(!slip__options_differ(&a, &b, name, sizeof(name)));
}

// --- every field of the table ------------------------------------------------------------------------------------------------------------

typedef struct slip_options_test_field_t {
  const char *name;
  size_t offset;
  size_t size;
} slip_options_test_field_t;

// The table's fields as they are reported, rings apart.
static size_t slip_options_test_fields(slip_options_test_field_t *fields) {
  size_t count = 0;
#define SLIP_OPTIONS_ONE(field) \
  fields[count++] =             \
      (slip_options_test_field_t){#field, offsetof(slip_context_options_t, field), sizeof(((slip_context_options_t *)0)->field)};
#define SLIP_OPTIONS_NUMBER(field)             SLIP_OPTIONS_ONE(field)
#define SLIP_OPTIONS_TEXT(field)               SLIP_OPTIONS_ONE(field)
#define SLIP_OPTIONS_ADDRESS(field)            SLIP_OPTIONS_ONE(field)
#define SLIP_OPTIONS_RING(field)               SLIP_OPTIONS_ONE(field[0]) SLIP_OPTIONS_ONE(field[1]) SLIP_OPTIONS_ONE(field[2]) SLIP_OPTIONS_ONE(field[3])
#define SLIP_OPTIONS_FIELD(kind, field, value) SLIP_OPTIONS_##kind(field)
  SLIP__OPTION_TABLE(SLIP_OPTIONS_FIELD)
  return count;
}

SLIP_TEST(options_table_covers_the_whole_struct) {
  slip_options_test_field_t fields[64];
  bool covered[sizeof(slip_context_options_t)] = {false};
  size_t count = slip_options_test_fields(fields);
  for (size_t i = 0; i < count; ++i) {
    for (size_t byte = 0; byte < fields[i].size; ++byte) {
      SLIP_CHECK(!covered[fields[i].offset + byte]);
      covered[fields[i].offset + byte] = true;
    }
  }
  memset(covered + offsetof(slip_context_options_t, struct_size), true, sizeof(uint32_t));
  for (size_t byte = 0; byte < sizeof(covered); ++byte) {
    if (!covered[byte]) slip_test_fail(__FILE__, __LINE__, "byte %zu of the options is in no row of SLIP__OPTION_TABLE", byte);
  }
}

SLIP_TEST(options_difference_in_any_field_is_named_first) {
  slip_options_test_field_t fields[64];
  size_t count = slip_options_test_fields(fields);
  SLIP_CHECK(count >= 34);
  static char text[] = "differs";
  const void *pointer = text;  // a text for text, an address for addresses, some bits for numbers
  slip_context_options_t a = slip_options_test_resolved(), b = a;
  for (size_t i = count; i-- > 0;) {  // this field and all later ones differ
    char name[64];
    memcpy((char *)&b + fields[i].offset, &pointer, fields[i].size);
    SLIP_CHECK(slip__options_differ(&a, &b, name, sizeof(name)));
    SLIP_CHECK_STR(name, fields[i].name);
    slip_context_options_t alone = a;
    memcpy((char *)&alone + fields[i].offset, &pointer, fields[i].size);
    SLIP_CHECK(slip__options_differ(&a, &alone, name, sizeof(name)));
    SLIP_CHECK_STR(name, fields[i].name);
  }
}

// A program built with the first release passes its own, shorter struct; what lies behind it is not ours to read.
SLIP_TEST(options_of_the_first_release_keep_their_meaning) {
  const size_t first = SLIP__OPTIONS_FIRST_SIZE;
  slip_context_options_t whole = SLIP_CONTEXT_OPTIONS_INIT, resolved, expected;
  whole.max_pending = 7;
  whole.synchronize_user = &whole;
  SLIP_CHECK_OK(slip__options_resolve(&whole, &expected));
  for (size_t size = first; size <= sizeof(whole); size += 4) {
    slip_context_options_t *given = malloc(size);  // exactly so long: a read beyond it is an error under the address sanitizer
    memcpy(given, &whole, size);
    given->struct_size = (uint32_t)size;
    SLIP_CHECK_OK(slip__options_resolve(given, &resolved));
    SLIP_CHECK_EQ(memcmp(&resolved, &expected, sizeof(resolved)), 0);
    given->struct_size = (uint32_t)first - 1;
    SLIP_CHECK_ERROR(slip__options_resolve(given, &resolved), SLIP_CODE_INVALID_ARGUMENT, "expected at least");
    free(given);
  }
  SLIP_CHECK_EQ(resolved.max_captured, 0);  // nothing is resolved on failure
}
