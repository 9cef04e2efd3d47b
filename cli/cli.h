// SPDX-License-Identifier: Apache-2.0
// What the commands share: tables of options, parsing, printing.
#ifndef SLIPSTREAM_CLI_CLI_H_
#define SLIPSTREAM_CLI_CLI_H_

#include <jansson.h>
#include <stdio.h>

#include "slipstream/slipstream.h"

// Exit codes, documented in docs/cli.md.
typedef enum cli_exit_e {
  CLI_EXIT_OK = 0,
  CLI_EXIT_FAILURE = 1,  // the command line was right, the work failed: a status was printed
  CLI_EXIT_USAGE = 2,    // the command line is wrong
  CLI_EXIT_PROGRAM = 3,  // compile: the program has errors, which were printed
} cli_exit_e;

// One option of a command. Tables end with a NULL name.
typedef struct cli_option_t {
  const char *name;
  char letter;        // 0: none
  const char *value;  // name of its value; NULL: it takes none
  const char *help;
  bool repeats;
} cli_option_t;

#define CLI_OPTION_JSON \
  { "json", 0, NULL, "print one JSON document to stdout", false }
#define CLI_OPTION_HELP \
  { "help", 'h', NULL, "show this help", false }
#define CLI_OPTION_END \
  { NULL, 0, NULL, NULL, false }

#define CLI_MAX_OPTIONS   24
#define CLI_MAX_ARGUMENTS 4096

typedef struct cli_given_t {
  const cli_option_t *option;
  const char *value;
} cli_given_t;

typedef struct cli_command_t cli_command_t;

// A parsed command line.
typedef struct cli_invocation_t {
  const cli_command_t *command;
  cli_given_t *given;  // in the order of the command line
  size_t given_count;
  const char **positional;
  size_t positional_count;
  bool json;
} cli_invocation_t;

struct cli_command_t {
  const char *name;
  const char *arguments;  // for the usage line
  size_t positional_minimum, positional_maximum;
  const char *summary;
  const char *details;
  const cli_option_t *options;
  int (*run)(const cli_invocation_t *invocation);
  bool signless;  // -18 is the argument 18, and not options
};

extern const cli_command_t cli_compile_command;
extern const cli_command_t cli_inspect_command;
extern const cli_command_t cli_run_command;
extern const cli_command_t cli_doctor_command;
extern const cli_command_t cli_explain_command;

// Parses |argv|[1..] by the command's table and runs it.
int cli_command_main(const cli_command_t *command, int argc, char **argv);
void cli_command_help(const cli_command_t *command, FILE *out);

// The value of option |name| ("" for one that takes none); NULL if it is not given.
const char *cli_value(const cli_invocation_t *invocation, const char *name);
// The number that option |name| holds, in 0..|maximum|; |absent| if it is not given. INVALID_ARGUMENT names the option.
slip_status_t cli_number(const cli_invocation_t *invocation, const char *name, uint64_t maximum, uint64_t absent,
                         uint64_t *out) SLIP_MUST_USE;

// Prints "slip COMMAND: ..." and the way to the help, to stderr (as JSON to stdout where asked); returns CLI_EXIT_USAGE.
int cli_usage_error(const cli_invocation_t *invocation, const char *format, ...) SLIP_PRINTF(2, 3);
// Ends a command: prints a failure (consuming it) and returns CLI_EXIT_FAILURE, or CLI_EXIT_OK.
int cli_finish(const cli_invocation_t *invocation, slip_status_t status);
// {"code", "number", "platform_code", "message", "text"}
json_t *cli_status_json(slip_status_t status);
// Prints the document to stdout and gives it back. IO if stdout takes it not.
slip_status_t cli_print_json(json_t *document) SLIP_MUST_USE;
// Flushes stdout: a result that could not be written is a failure.
slip_status_t cli_flush(void) SLIP_MUST_USE;

#endif  // SLIPSTREAM_CLI_CLI_H_
