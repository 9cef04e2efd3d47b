// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <string.h>

#include "cli.h"

static const cli_command_t *const cli_commands[] = {
    &cli_compile_command, &cli_inspect_command, &cli_run_command, &cli_doctor_command, &cli_explain_command,
};
#define CLI_COMMAND_COUNT (sizeof(cli_commands) / sizeof(cli_commands[0]))

static const cli_command_t *cli_find(const char *name) {
  for (size_t i = 0; i < CLI_COMMAND_COUNT; ++i) {
    if (strcmp(cli_commands[i]->name, name) == 0) return cli_commands[i];
  }
  return NULL;
}

static void cli_help(FILE *out) {
  fprintf(out, "Usage: slip COMMAND [OPTIONS]\n\nCommands:\n");
  for (size_t i = 0; i < CLI_COMMAND_COUNT; ++i) fprintf(out, "  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
  fprintf(out, "  %-10s %s\n\nslip help COMMAND shows a command's options; slip --version the version.\n", "help",
          "Show this or a command's help.");
}

static int cli_help_main(int argc, char **argv) {
  const cli_invocation_t invocation = {0};
  if (argc < 2) {
    cli_help(stdout);
  } else if (!cli_find(argv[1])) {
    return cli_usage_error(&invocation, "there is no command '%s'", argv[1]);
  } else {
    cli_command_help(cli_find(argv[1]), stdout);
  }
  return cli_finish(&invocation, cli_flush());
}

static int cli_version(bool json) {
  const cli_invocation_t invocation = {.json = json};
  if (json) return cli_finish(&invocation, cli_print_json(json_pack("{s:s}", "version", slip_version())));
  printf("slip %s\n", slip_version());
  return cli_finish(&invocation, cli_flush());
}

int main(int argc, char **argv) {
  const cli_invocation_t invocation = {0};
  signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write with a sentence, not a silent death
  if (argc < 2) {
    cli_help(stderr);
    return CLI_EXIT_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return cli_help_main(argc - 1, argv + 1);
  if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) return cli_version(argc > 2 && strcmp(argv[2], "--json") == 0);
  const cli_command_t *command = cli_find(name);
  if (!command) return cli_usage_error(&invocation, "there is no command '%s'", name);
  return cli_command_main(command, argc - 1, argv + 1);
}
