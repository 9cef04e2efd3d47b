// SPDX-License-Identifier: Apache-2.0
#include "explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CLI_EXPLAIN_WIDTH 100

static const cli_option_t cli_explain_options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTION_END};

// By name, in any case, with or without SLIP_CODE_; or by number, whose sign a shell user may leave out.
static const cli_explain_page_t *cli_explain_find(const char *text) {
  char *end = NULL;
  errno = 0;
  long number = strtol(text, &end, 10);
  bool is_number = end != text && *end == '\0' && errno == 0;
  const char *name = strncasecmp(text, "SLIP_CODE_", 10) == 0 ? text + 10 : text;
  for (size_t i = 0; i < cli_explain_page_count; ++i) {
    const cli_explain_page_t *page = &cli_explain_pages[i];
    if (is_number ? page->code == number || page->code == -number : strcasecmp(slip_code_name(page->code), name) == 0) return page;
  }
  return NULL;
}

// One line of a page, broken at spaces.
static void cli_explain_print_line(const char *line, size_t length) {
  const size_t indent = length > 1 && line[0] == '-' && line[1] == ' ' ? 4 : 2;
  size_t column = 0;
  for (size_t at = 0, word; at < length; at += word + 1) {
    word = 0;
    while (at + word < length && line[at + word] != ' ') ++word;
    if (column > 0 && column + 1 + word > CLI_EXPLAIN_WIDTH) {
      printf("\n");
      column = 0;
    }
    size_t gap = column > 0 ? 1 : at > 0 ? indent : 2;
    printf("%*s%.*s", (int)gap, "", (int)word, line + at);
    column += gap + word;
  }
  printf("\n");
}

static void cli_explain_print_section(const char *title, const char *text) {
  printf("\n%s\n", title);
  while (*text) {
    size_t length = strcspn(text, "\n");
    if (length > 0) cli_explain_print_line(text, length);
    text += length + (text[length] == '\n');
  }
}

static int cli_explain_run(const cli_invocation_t *invocation) {
  const cli_explain_page_t *page = cli_explain_find(invocation->positional[0]);
  if (!page) {
    return cli_finish(invocation,
                      SLIP_STATUS(SLIP_CODE_NOT_FOUND, "there is no status code \"%s\"; slip explain OK shows the form of names",
                                  invocation->positional[0]));
  }
  const char *name = slip_code_name(page->code);
  if (invocation->json) {
    return cli_finish(invocation, cli_print_json(json_pack("{s:s,s:i,s:s,s:s,s:s,s:s}", "code", name, "number", (int)page->code, "meaning",
                                                           slip_code_meaning(page->code), "explanation", page->means, "state", page->state,
                                                           "remedy", page->remedy)));
  }
  printf("%s (%d): %s\n", name, (int)page->code, slip_code_meaning(page->code));
  cli_explain_print_section("What it means", page->means);
  cli_explain_print_section("State after it", page->state);
  cli_explain_print_section("What to do", page->remedy);
  printf("\nMore, with an example: docs/status-codes/%s.md (installed: share/doc/slipstream/status-codes)\n", name);
  return cli_finish(invocation, cli_flush());
}

const cli_command_t cli_explain_command = {
    .name = "explain",
    .arguments = "CODE [OPTIONS]",
    .positional_minimum = 1,
    .positional_maximum = 1,
    .summary = "Explain a status code, given by name or number.",
    .details = "CODE is a name (BUSY, SLIP_CODE_BUSY) or a number (-18, or 18).\n",
    .options = cli_explain_options,
    .run = cli_explain_run,
    .signless = true,
};
