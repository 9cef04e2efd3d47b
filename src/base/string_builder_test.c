// SPDX-License-Identifier: Apache-2.0
#include "base/string_builder.h"

#include "base/allocator.h"
#include "slip_test.h"
#include "slip_test_allocator.h"

static slip_status_t string_builder_write(slip_allocator_t allocator, void *user) {
  slip__string_builder_t builder;
  slip_bytes_t text;
  (void)user;
  slip__string_builder_initialize(&builder, allocator);
  for (int i = 0; i < 100; ++i) {
    slip__string_builder_printf(&builder, "%d", i % 10);
    slip__string_builder_append_text(&builder, "ab");
    slip__string_builder_append(&builder, "cut", 1);
  }
  SLIP_RETURN_IF_ERROR(slip__string_builder_take(&builder, &text));
  SLIP_CHECK_EQ(text.size, 400);
  SLIP_CHECK(memcmp(text.data, "0abc1abc2abc", 12) == 0);
  SLIP_CHECK_EQ(text.data[400], 0);
  slip__free(allocator, text.data, text.size + 1);
  return slip_ok_status();
}

SLIP_TEST(string_builder_grows_and_remembers_failures) {
  SLIP_CHECK(slip_test_allocator_loop(string_builder_write, NULL) > 3);
}

SLIP_TEST(string_builder_empty_text) {
  slip__string_builder_t builder;
  slip_bytes_t text;
  slip__string_builder_initialize(&builder, slip_allocator_system());
  slip__string_builder_printf(&builder, "%s", "");
  SLIP_CHECK_OK(slip__string_builder_take(&builder, &text));
  SLIP_CHECK_STR((char *)text.data, "");
  free(text.data);
  slip__string_builder_append_text(&builder, "dropped");
  slip__string_builder_deinitialize(&builder);
}
