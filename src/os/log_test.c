// SPDX-License-Identifier: Apache-2.0
#include "os/log.h"

#include <stdlib.h>
#include <string.h>

#include "slip_test.h"

typedef struct lines_t {
  int count;
  char last[2 * SLIP__LOG_LINE];
} lines_t;

static void keep(void *user, slip__log_level_e level, const char *line) {
  lines_t *lines = user;
  (void)level;
  ++lines->count;
  (void)snprintf(lines->last, sizeof(lines->last), "%s", line);
}

SLIP_TEST(lines_of_the_level_asked_for_are_written) {
  lines_t lines = {0};
  slip__log_capture(SLIP__LOG_WARN, keep, &lines);
  slip__log(SLIP__LOG_INFO, "not this");
  SLIP_CHECK_EQ(lines.count, 0);
  slip__log(SLIP__LOG_WARN, "graph %d", 7);
  SLIP_CHECK_EQ(lines.count, 1);
  SLIP_CHECK_STR(lines.last, "graph 7");
  slip__log_capture(SLIP__LOG_OFF, keep, &lines);
  slip__log(SLIP__LOG_WARN, "nor this");
  SLIP_CHECK_EQ(lines.count, 1);
  slip__log_capture(0, NULL, NULL);
}

SLIP_TEST(a_long_line_is_cut) {
  static char text[2 * SLIP__LOG_LINE];
  lines_t lines = {0};
  memset(text, 'x', sizeof(text) - 1);
  slip__log_capture(SLIP__LOG_INFO, keep, &lines);
  slip__log(SLIP__LOG_INFO, "%s", text);
  SLIP_CHECK_EQ(strlen(lines.last), SLIP__LOG_LINE - 1);
  slip__log_capture(0, NULL, NULL);
}

SLIP_TEST(the_environment_says_what_is_written) {
  static const struct {
    const char *value;
    bool warn, info;
  } cases[] = {{"off", false, false}, {"warn", true, false}, {"info", true, true}, {"loud", true, false}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    SLIP_CHECK_EQ(setenv("SLIP_LOG", cases[i].value, 1), 0);
    slip__log_capture(0, NULL, NULL);
    SLIP_CHECK_EQ(slip__log_wants(SLIP__LOG_WARN), cases[i].warn);
    SLIP_CHECK_EQ(slip__log_wants(SLIP__LOG_INFO), cases[i].info);
  }
  SLIP_CHECK_EQ(unsetenv("SLIP_LOG"), 0);
  slip__log_capture(0, NULL, NULL);
}
