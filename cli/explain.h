// SPDX-License-Identifier: Apache-2.0
// What `slip explain` knows of a status code, taken from its page in docs/status-codes.
#ifndef SLIPSTREAM_CLI_EXPLAIN_H_
#define SLIPSTREAM_CLI_EXPLAIN_H_

#include "cli.h"

// Texts of one line per paragraph or list item ("- ...").
typedef struct cli_explain_page_t {
  slip_code_t code;
  const char *means;
  const char *state;
  const char *remedy;
} cli_explain_page_t;

extern const cli_explain_page_t cli_explain_pages[];
extern const size_t cli_explain_page_count;

#endif  // SLIPSTREAM_CLI_EXPLAIN_H_
