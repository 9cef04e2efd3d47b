// SPDX-License-Identifier: Apache-2.0
#include "compiler/diagnostics.h"

#include "slip_test.h"

SLIP_TEST(diagnostics_keep_order_and_drop_repeats) {
  slip_diagnostics_t *list = NULL;
  SLIP_CHECK_OK(slip__diagnostics_create(slip_allocator_system(), &list));
  const slip__finding_t warning = {SLIP_SEVERITY_WARNING, "a.c", 3, 4, "c-compiler", NULL};
  const slip__finding_t error = {SLIP_SEVERITY_ERROR, NULL, 0, 0, "linker", "do this"};
  for (int i = 0; i < 3; ++i) {
    slip__diagnostics_add(list, &warning, "unused '%s'", "x");
    slip__diagnostics_add(list, &error, "no such symbol");
  }
  SLIP_CHECK_EQ(slip_diagnostics_count(list), 2);
  SLIP_CHECK_EQ(slip__diagnostics_error_count(list), 1);
  SLIP_CHECK_STR(slip_diagnostics_at(list, 0)->message, "unused 'x'");
  SLIP_CHECK_STR(slip_diagnostics_at(list, 1)->file, "");
  SLIP_CHECK_STR(slip_diagnostics_at(list, 1)->hint, "do this");
  SLIP_CHECK(slip_diagnostics_at(list, 2) == NULL);
  SLIP_CHECK_ERROR(slip__diagnostics_status(list, "m.json"), SLIP_CODE_INVALID_ARGUMENT, "m.json: no such symbol");
  slip_diagnostics_free(list);
}

SLIP_TEST(diagnostics_without_errors_are_no_failure) {
  slip_diagnostics_t *list = NULL;
  SLIP_CHECK_OK(slip__diagnostics_create(slip_allocator_system(), &list));
  const slip__finding_t warning = {SLIP_SEVERITY_WARNING, "a.c", 3, 4, "c-compiler", NULL};
  slip__diagnostics_add(list, &warning, "w");
  SLIP_CHECK_OK(slip__diagnostics_status(list, "m.json"));
  slip_diagnostics_free(list);
  slip_diagnostics_free(NULL);
  SLIP_CHECK_EQ(slip_diagnostics_count(NULL), 0);
}

SLIP_TEST(diagnostics_are_bounded) {
  slip_diagnostics_t *list = NULL;
  SLIP_CHECK_OK(slip__diagnostics_create(slip_allocator_system(), &list));
  for (uint32_t i = 1; i < 2000; ++i) {
    const slip__finding_t error = {SLIP_SEVERITY_ERROR, "a.c", i, 0, "c-compiler", NULL};
    slip__diagnostics_add(list, &error, "e");
  }
  SLIP_CHECK_EQ(slip_diagnostics_count(list), 500);
  slip_diagnostics_free(list);
}
