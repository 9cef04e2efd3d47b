// SPDX-License-Identifier: Apache-2.0
#include "compiler/toolchain/depfile.h"

#include <string.h>

#define SLIP__DEPFILE_PATH 4096

// One path from |text| into |path|; returns what is behind it, NULL at the end of the rule.
static const char *slip__depfile_path(const char *text, char *path, size_t *out_length) {
  size_t length = 0;
  while (*text == ' ' || *text == '\t' || (*text == '\\' && (text[1] == '\n' || text[1] == '\r'))) ++text, text += *text == '\n';
  if (*text == '\0' || *text == '\n' || *text == '\r') return NULL;
  while (*text && !strchr(" \t\r\n", *text)) {
    if (*text == '\\' && (text[1] == '\n' || text[1] == '\r')) break;
    if (*text == '\\' && (text[1] == ' ' || text[1] == '#' || text[1] == '\\')) ++text;
    if (*text == '$' && text[1] == '$') ++text;
    if (length < SLIP__DEPFILE_PATH - 1) path[length++] = *text;
    ++text;
  }
  path[length] = '\0';
  *out_length = length;
  return text;
}

slip_status_t slip__depfile_read(const char *text, slip_status_t (*visit)(void *user, const char *path), void *user) {
  char path[SLIP__DEPFILE_PATH];
  size_t length = 0;
  const char *rest = strstr(text, ": ");
  if (!rest) return SLIP_STATUS(SLIP_CODE_CORRUPT, "the C compiler's dependency file has no rule");
  for (rest = slip__depfile_path(rest + 1, path, &length); rest; rest = slip__depfile_path(rest, path, &length)) {
    if (length == SLIP__DEPFILE_PATH - 1)
      return SLIP_STATUS(SLIP_CODE_CORRUPT, "a path in the C compiler's dependency file is longer than %d bytes", SLIP__DEPFILE_PATH);
    SLIP_RETURN_IF_ERROR(visit(user, path));
  }
  return slip_ok_status();
}
