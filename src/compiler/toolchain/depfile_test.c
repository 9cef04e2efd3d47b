// SPDX-License-Identifier: Apache-2.0
#include "compiler/toolchain/depfile.h"

#include "slip_test.h"

static slip_status_t collect(void *user, const char *path) {
  char *text = user;
  size_t used = strlen(text);
  snprintf(text + used, 512 - used, "%s|", path);
  return slip_ok_status();
}

static slip_status_t refuse(void *user, const char *path) {
  (void)user;
  return SLIP_STATUS(SLIP_CODE_CANCELLED, "%s", path);
}

SLIP_TEST(depfile_reads_escapes_and_continuations) {
  char text[512] = "";
  SLIP_CHECK_OK(slip__depfile_read("/tmp/b/0-0.o: a.c \\\n my\\ dir/b.h \\\n ../c$$d.h e\\#f.h\n\na.h:\n", collect, text));
  SLIP_CHECK_STR(text, "a.c|my dir/b.h|../c$d.h|e#f.h|");
}

SLIP_TEST(depfile_refuses_what_is_none_and_passes_failures_on) {
  char text[512] = "";
  SLIP_CHECK_CODE(slip__depfile_read("nothing here", collect, text), SLIP_CODE_CORRUPT);
  SLIP_CHECK_CODE(slip__depfile_read("a.o: a.c b.h", refuse, NULL), SLIP_CODE_CANCELLED);
  SLIP_CHECK_OK(slip__depfile_read("a.o: \n", refuse, NULL));
}
