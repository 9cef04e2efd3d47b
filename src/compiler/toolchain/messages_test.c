// SPDX-License-Identifier: Apache-2.0
#include "compiler/toolchain/messages.h"

#include "slip_test.h"

static slip_diagnostics_t *new_list(void) {
  slip_diagnostics_t *list = NULL;
  SLIP_CHECK_OK(slip__diagnostics_create(slip_allocator_system(), &list));
  return list;
}

static void check(const slip_diagnostics_t *list, size_t index, const char *file, uint32_t line, uint32_t column, slip_severity_e severity,
                  const char *message) {
  const slip_diagnostic_t *finding = slip_diagnostics_at(list, index);
  SLIP_CHECK(finding != NULL);
  SLIP_CHECK_STR(finding->file, file);
  SLIP_CHECK_EQ(finding->line, line);
  SLIP_CHECK_EQ(finding->column, column);
  SLIP_CHECK_EQ(finding->severity, severity);
  SLIP_CHECK_STR(finding->message, message);
}

SLIP_TEST(messages_of_gcc_and_clang) {
  static const char output[] =
      "In file included from src/a.c:1:\n"
      "inc/b.h:3:5: error: unknown type name 'foo'\n"
      "    3 | foo bar;\n"
      "      | ^~~\n"
      "src/a.c: In function 'f':\n"
      "/usr/include/x.h:7:1: warning: odd: really [-Wodd]\n"
      "src/a.c:9: note: here\n"
      "/tmp/build/include/slip_program.h:2:6: note: declared\n"
      "cc1: all warnings being treated as errors\n"
      "a.c:1:10: fatal error: none.h: No such file or directory\n";
  slip_diagnostics_t *list = new_list();
  slip__messages_compiler(output, "prog", "/tmp/build", true, list);
  SLIP_CHECK_EQ(slip_diagnostics_count(list), 5);
  check(list, 0, "prog/inc/b.h", 3, 5, SLIP_SEVERITY_ERROR, "unknown type name 'foo'");
  check(list, 1, "/usr/include/x.h", 7, 1, SLIP_SEVERITY_WARNING, "odd: really [-Wodd]");
  check(list, 2, "prog/src/a.c", 9, 0, SLIP_SEVERITY_NOTE, "here");
  check(list, 3, "include/slip_program.h", 2, 6, SLIP_SEVERITY_NOTE, "declared");
  check(list, 4, "prog/a.c", 1, 10, SLIP_SEVERITY_ERROR, "none.h: No such file or directory");
  slip_diagnostics_free(list);
}

SLIP_TEST(messages_a_failure_is_never_silent) {
  slip_diagnostics_t *list = new_list();
  slip__messages_compiler("a.c:1:1: warning: w\nKilled\n", ".", "/tmp/build", true, list);
  SLIP_CHECK_EQ(slip__diagnostics_error_count(list), 1);
  slip_diagnostics_free(list);
  list = new_list();
  slip__messages_compiler("", ".", "/tmp/build", true, list);
  SLIP_CHECK_EQ(slip__diagnostics_error_count(list), 1);
  slip__messages_compiler("", ".", "/tmp/build", false, list);
  SLIP_CHECK_EQ(slip__diagnostics_error_count(list), 1);
  slip_diagnostics_free(list);
  list = new_list();
  slip__messages_compiler("cc1: error: bad value 'x' for '-march=' switch\n", ".", "/tmp/build", true, list);
  check(list, 0, "", 0, 0, SLIP_SEVERITY_ERROR, "bad value 'x' for '-march=' switch");
  slip_diagnostics_free(list);
}

SLIP_TEST(messages_of_the_linker_carry_place_and_remedy) {
  static const char *const sources[] = {"src/a.c", "b.c", "src/c.c", "x/same.c", "y/same.c"};
  const slip__link_names_t names = {"x86-64-v3", "p/m.json", "p", sources, 5};
  static const char output[] =
      "/usr/bin/ld: /tmp/b/0-0.o: in function `tile':\n"
      "a.c:(.text+0x5): undefined reference to `expf'\n"
      "/usr/bin/ld: a.c:(.text+0x9): undefined reference to `expf'\n"
      "/usr/bin/ld: a.c:(.text+0x15): undefined reference to `malloc'\n"
      "/usr/bin/ld: a.c:(.text+0x25): undefined reference to `my_kernel'\n"
      "/usr/bin/ld: /tmp/b/0-5.o:(.data.rel.ro+0x8): undefined reference to `my_kernel'\n"
      "/usr/bin/ld: /home/p/src/c.c:12: undefined reference to `sin'\n"
      "/usr/bin/ld: same.c:(.text.f+0x1): undefined reference to `cos'\n"
      "/usr/bin/ld: /tmp/b/0-9.o: undefined reference to `tan'\n"
      "/usr/bin/ld: /tmp/b/1-4.o:(.data+0x0): undefined reference to `pow'\n"
      "/usr/bin/ld: /tmp/b/0-1.o: in function `twice':\n"
      "b.c:(.text+0x0): multiple definition of `twice'; /tmp/b/0-0.o:a.c:(.text+0x0): first defined here\n";
  slip_diagnostics_t *list = new_list();
  slip__messages_linker(output, &names, list);
  SLIP_CHECK_EQ(slip_diagnostics_count(list), 9);
  check(list, 0, "p/src/a.c", 0, 0, SLIP_SEVERITY_ERROR, "\"expf\" is not defined (linking for x86-64-v3)");
  SLIP_CHECK(strstr(slip_diagnostics_at(list, 0)->hint, "libm") != NULL);
  SLIP_CHECK(strstr(slip_diagnostics_at(list, 1)->hint, "scratch") != NULL);
  SLIP_CHECK(strstr(slip_diagnostics_at(list, 2)->hint, "symbol") != NULL);
  check(list, 3, "p/m.json", 0, 0, SLIP_SEVERITY_ERROR, "\"my_kernel\" is not defined (linking for x86-64-v3)");
  check(list, 4, "p/src/c.c", 12, 0, SLIP_SEVERITY_ERROR, "\"sin\" is not defined (linking for x86-64-v3)");
  check(list, 5, "", 0, 0, SLIP_SEVERITY_ERROR, "\"cos\" is not defined (linking for x86-64-v3)");  // two sources are called so
  check(list, 6, "", 0, 0, SLIP_SEVERITY_ERROR, "\"tan\" is not defined (linking for x86-64-v3)");
  check(list, 7, "p/y/same.c", 0, 0, SLIP_SEVERITY_ERROR, "\"pow\" is not defined (linking for x86-64-v3)");
  check(list, 8, "p/b.c", 0, 0, SLIP_SEVERITY_ERROR, "\"twice\" is defined more than once");
  slip_diagnostics_free(list);
  list = new_list();
  slip__messages_linker("collect2: fatal error: cannot find 'ld'\n", &names, list);
  check(list, 0, "", 0, 0, SLIP_SEVERITY_ERROR, "linking for x86-64-v3 failed: collect2: fatal error: cannot find 'ld'");
  slip_diagnostics_free(list);
}
