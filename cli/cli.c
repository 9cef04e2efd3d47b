// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static size_t cli_option_count(const cli_option_t *options) {
  size_t count = 0;
  while (options[count].name) ++count;
  return count;
}

void cli_command_help(const cli_command_t *command, FILE *out) {
  fprintf(out, "Usage: slip %s %s\n%s\n\n%s\nOptions:\n", command->name, command->arguments, command->summary, command->details);
  for (const cli_option_t *option = command->options; option->name; ++option) {
    char left[64];
    char letter[8] = "    ";
    if (option->letter) snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    snprintf(left, sizeof(left), "%s--%s%s%s", letter, option->name, option->value ? " " : "", option->value ? option->value : "");
    fprintf(out, "  %-34s %s%s\n", left, option->help, option->repeats ? " (may be repeated)" : "");
  }
}

// getopt's tables, made from the command's own. Values of long options are 256 + index.
static void cli_getopt_tables(const cli_option_t *options, struct option *longs, char *shorts) {
  size_t used = 0;
  shorts[used++] = ':';  // tell a missing value from an unknown option, and print nothing yourself
  for (size_t i = 0; i < cli_option_count(options); ++i) {
    longs[i] = (struct option){options[i].name, options[i].value ? required_argument : no_argument, NULL, 256 + (int)i};
    if (!options[i].letter) continue;
    shorts[used++] = options[i].letter;
    if (options[i].value) shorts[used++] = ':';
  }
  shorts[used] = '\0';
}

static const cli_option_t *cli_option_of(const cli_option_t *options, int result) {
  if (result >= 256) return &options[result - 256];
  for (; options->name; ++options) {
    if (options->letter == result) return options;
  }
  return NULL;
}

// True if |text| has the form that the option's table gives its value: NAME=..., NAME=@... or N. What it says is checked by the command.
static bool cli_has_form(const cli_option_t *option, const char *text) {
  if (!option->value) return true;
  if (strncmp(option->value, "NAME=", 5) == 0) {
    const char *equals = strchr(text, '=');
    bool file = option->value[5] == '@';
    return equals && equals != text && equals[1] && (!file || (equals[1] == '@' && equals[2]));
  }
  return strcmp(option->value, "N") != 0 || (text[0] && strspn(text, "0123456789") == strlen(text));
}

// Says what is wrong with the long option |text|: its name is unknown, a prefix of several, or it takes no value.
static int cli_option_error(const cli_invocation_t *invocation, const char *text) {
  size_t length = strcspn(text, "="), count = 0;
  char fits[256] = "";
  for (const cli_option_t *option = invocation->command->options; option->name && length > 2; ++option) {
    if (strncmp(option->name, text + 2, length - 2) != 0) continue;
    ++count;
    snprintf(fits + strlen(fits), sizeof(fits) - strlen(fits), "%s--%s", count > 1 ? ", " : "", option->name);
  }
  if (count == 0) return cli_usage_error(invocation, "there is no option '%s'", text);
  if (count > 1) return cli_usage_error(invocation, "option '%.*s' is ambiguous: %s", (int)length, text, fits);
  return cli_usage_error(invocation, "option %s takes no value", fits);
}

static int cli_parse_one(cli_invocation_t *invocation, int result, char **argv) {
  const cli_option_t *options = invocation->command->options;
  if (result == ':') return cli_usage_error(invocation, "option '%s' needs a value", argv[optind - 1]);
  const cli_option_t *option = result == '?' ? NULL : cli_option_of(options, result);
  if (!option && optopt > 0 && optopt < 256) return cli_usage_error(invocation, "there is no option '-%c'", optopt);
  if (!option) return cli_option_error(invocation, argv[optind - 1]);
  for (size_t i = 0; i < invocation->given_count && !option->repeats; ++i) {
    if (invocation->given[i].option == option) return cli_usage_error(invocation, "option --%s is given twice", option->name);
  }
  if (optarg && !cli_has_form(option, optarg)) {
    return cli_usage_error(invocation, "--%s '%s' has not the form %s", option->name, optarg,
                           strcmp(option->value, "N") == 0 ? "of a whole number" : option->value);
  }
  invocation->given[invocation->given_count++] = (cli_given_t){option, optarg ? optarg : ""};
  return CLI_EXIT_OK;
}

static bool cli_is_negative(const char *text) {
  return text[0] == '-' && text[1] && strspn(text + 1, "0123456789") == strlen(text + 1);
}

static int cli_parse(cli_invocation_t *invocation, int argc, char **argv) {
  struct option longs[CLI_MAX_OPTIONS + 1] = {0};
  char shorts[2 * CLI_MAX_OPTIONS + 2];
  cli_getopt_tables(invocation->command->options, longs, shorts);
  // The sign of a status code may be left out, and getopt would take it for an option.
  for (int i = 1; i < argc && invocation->command->signless; ++i) argv[i] += cli_is_negative(argv[i]);
  opterr = 0;
  optind = 1;
  for (int result; (result = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
    int code = cli_parse_one(invocation, result, argv);
    if (code != CLI_EXIT_OK) return code;
  }
  for (; optind < argc; ++optind) invocation->positional[invocation->positional_count++] = argv[optind];
  return CLI_EXIT_OK;
}

static int cli_dispatch(cli_invocation_t *invocation, int argc, char **argv) {
  const cli_command_t *command = invocation->command;
  for (int i = 1; i < argc; ++i) invocation->json = invocation->json || strcmp(argv[i], "--json") == 0;  // also for errors of parsing
  int code = cli_parse(invocation, argc, argv);
  if (code != CLI_EXIT_OK) return code;
  if (cli_value(invocation, "help")) {
    cli_command_help(command, stdout);
    return cli_finish(invocation, cli_flush());
  }
  if (invocation->positional_count < command->positional_minimum) return cli_usage_error(invocation, "expected %s", command->arguments);
  if (invocation->positional_count > command->positional_maximum) {
    return cli_usage_error(invocation, "unexpected argument '%s'", invocation->positional[command->positional_maximum]);
  }
  return command->run(invocation);
}

int cli_command_main(const cli_command_t *command, int argc, char **argv) {
  cli_invocation_t invocation = {.command = command};
  if (argc > CLI_MAX_ARGUMENTS) return cli_usage_error(&invocation, "more than %d arguments", CLI_MAX_ARGUMENTS);
  invocation.given = calloc((size_t)argc + 1, sizeof(*invocation.given));
  invocation.positional = calloc((size_t)argc + 1, sizeof(*invocation.positional));
  int code = CLI_EXIT_FAILURE;
  if (invocation.given && invocation.positional) {
    code = cli_dispatch(&invocation, argc, argv);
  } else {
    code = cli_finish(&invocation, SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for %d arguments", argc));
  }
  free(invocation.given);
  free(invocation.positional);
  return code;
}

const char *cli_value(const cli_invocation_t *invocation, const char *name) {
  for (size_t i = 0; i < invocation->given_count; ++i) {
    if (strcmp(invocation->given[i].option->name, name) == 0) return invocation->given[i].value;
  }
  return NULL;
}

slip_status_t cli_number(const cli_invocation_t *invocation, const char *name, uint64_t maximum, uint64_t absent, uint64_t *out) {
  const char *text = cli_value(invocation, name);
  char *end = NULL;
  *out = absent;
  if (!text) return slip_ok_status();
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && number <= maximum) {
    *out = number;
    return slip_ok_status();
  }
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "--%s: '%s' is no integer in 0..%llu", name, text, (unsigned long long)maximum);
}

int cli_usage_error(const cli_invocation_t *invocation, const char *format, ...) {
  char message[1024];
  const char *name = invocation->command ? invocation->command->name : NULL;
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof(message), format, list);
  va_end(list);
  if (invocation->json) {
    slip_status_free(cli_print_json(json_pack("{s:{s:s,s:s}}", "error", "code", "USAGE", "message", message)));
  } else {
    fprintf(stderr, "slip%s%s: %s\nslip help%s%s shows the usage.\n", name ? " " : "", name ? name : "", message, name ? " " : "",
            name ? name : "");
  }
  return CLI_EXIT_USAGE;
}

// The status as text, in memory of malloc; NULL when that is short.
static char *cli_status_text(slip_status_t status) {
  size_t length = slip_status_format(status, NULL, 0);
  char *text = malloc(length + 1);
  if (text) slip_status_format(status, text, length + 1);
  return text;
}

json_t *cli_status_json(slip_status_t status) {
  char *text = cli_status_text(status);
  json_t *object = json_pack("{s:s,s:i,s:I,s:s,s:s}", "code", slip_code_name(slip_status_code(status)), "number",
                             (int)slip_status_code(status), "platform_code", (json_int_t)slip_status_platform_code(status), "message",
                             slip_status_message(status), "text", text ? text : "");
  free(text);
  return object;
}

int cli_finish(const cli_invocation_t *invocation, slip_status_t status) {
  if (slip_status_is_ok(status)) return CLI_EXIT_OK;
  if (invocation->json) {
    slip_status_free(cli_print_json(json_pack("{s:o}", "error", cli_status_json(status))));
  } else {
    char *text = cli_status_text(status);
    fprintf(stderr, "slip: %s\n", text ? text : slip_code_name(slip_status_code(status)));
    free(text);
  }
  slip_status_free(status);
  return CLI_EXIT_FAILURE;
}

slip_status_t cli_flush(void) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return slip_ok_status();
  return SLIP_STATUS_PLATFORM(SLIP_CODE_IO, errno, "cannot write to stdout: %s", strerror(errno));
}

slip_status_t cli_print_json(json_t *document) {
  if (!document) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for the JSON document");
  int result = json_dumpf(document, stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
  json_decref(document);
  fputc('\n', stdout);
  slip_status_t status = cli_flush();
  if (slip_status_is_ok(status) && result != 0) status = SLIP_STATUS(SLIP_CODE_IO, "cannot write JSON to stdout");
  return status;
}
