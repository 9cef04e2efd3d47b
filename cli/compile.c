// SPDX-License-Identifier: Apache-2.0
#include "slipstream/compile.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const cli_option_t cli_compile_options[] = {
    {"output", 'o', "DIR", "artifact directory to make (default: NAME.slipc of the manifest NAME.json)", false},
    {"target", 't', "LIST", "comma-separated targets: cpu (all of this architecture), x86-64-v2, x86-64-v3, x86-64-v4, aarch64", false},
    {"contract", 'c', "NAME", "kernel or program (default: the manifest's)", false},
    {"compiler", 0, "PROGRAM", "C compiler (default: $SLIP_CC, gcc, clang, cc)", false},
    {"jobs", 'j', "N", "compilations at once (default: usable cores)", false},
    {"force", 'f', NULL, "replace an existing artifact, atomically", false},
    {"debug", 'g', NULL, "debugging information, -O1, assertions", false},
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    CLI_OPTION_END,
};

static void cli_compile_progress(void *user, uint32_t done, uint32_t total, const char *step) {
  (void)user;
  fprintf(stderr, "\r\033[K[%u/%u] %s", done, total, step);
  fflush(stderr);
}

// The source line with a caret under the column, where the file can be read.
static void cli_compile_excerpt(const slip_diagnostic_t *finding) {
  char line[512];
  FILE *file = finding->line ? fopen(finding->file, "r") : NULL;
  if (!file) return;
  bool start = true;
  uint32_t number = 1;
  while (number <= finding->line && fgets(line, sizeof(line), file)) {
    size_t length = strlen(line);
    bool end = length > 0 && line[length - 1] == '\n';
    if (end) line[length - 1] = '\0';
    if (number == finding->line && start) {
      fprintf(stderr, "%6u | %s\n       | ", number, line);
      for (uint32_t i = 0; i + 1 < finding->column && line[i]; ++i) fputc(line[i] == '\t' ? '\t' : ' ', stderr);
      fprintf(stderr, "%s\n", finding->column ? "^" : "");
      break;
    }
    start = end;
    number += end;
  }
  fclose(file);
}

static const char *cli_compile_severity(uint32_t severity) {
  return severity == SLIP_SEVERITY_ERROR ? "error" : severity == SLIP_SEVERITY_WARNING ? "warning" : "note";
}

static void cli_compile_print(const slip_diagnostic_t *finding) {
  if (finding->file[0]) fprintf(stderr, "%s:", finding->file);
  if (finding->line) fprintf(stderr, "%u:", finding->line);
  if (finding->column) fprintf(stderr, "%u:", finding->column);
  fprintf(stderr, "%s%s: %s [%s]\n", finding->file[0] ? " " : "", cli_compile_severity(finding->severity), finding->message, finding->code);
  cli_compile_excerpt(finding);
  if (finding->hint[0]) fprintf(stderr, "  hint: %s\n", finding->hint);
}

static json_t *cli_compile_findings(const slip_diagnostics_t *list) {
  json_t *array = json_array();
  for (size_t i = 0; i < slip_diagnostics_count(list); ++i) {
    const slip_diagnostic_t *finding = slip_diagnostics_at(list, i);
    json_array_append_new(array, json_pack("{s:s,s:s,s:I,s:I,s:s,s:s,s:s}", "severity", cli_compile_severity(finding->severity), "file",
                                           finding->file, "line", (json_int_t)finding->line, "column", (json_int_t)finding->column, "code",
                                           finding->code, "message", finding->message, "hint", finding->hint));
  }
  return array;
}

static size_t cli_compile_errors(const slip_diagnostics_t *list) {
  size_t count = 0;
  for (size_t i = 0; i < slip_diagnostics_count(list); ++i) count += slip_diagnostics_at(list, i)->severity == SLIP_SEVERITY_ERROR;
  return count;
}

static int cli_compile_report(const cli_invocation_t *invocation, const char *output, slip_status_t status, slip_diagnostics_t *list) {
  size_t errors = cli_compile_errors(list);
  int code = slip_status_is_ok(status) ? CLI_EXIT_OK : errors ? CLI_EXIT_PROGRAM : CLI_EXIT_FAILURE;
  slip_status_t printed = slip_ok_status();
  if (invocation->json) {
    json_t *document = json_pack("{s:s,s:o}", "artifact", output, "diagnostics", cli_compile_findings(list));
    if (!slip_status_is_ok(status)) json_object_set_new(document, "error", cli_status_json(status));
    printed = cli_print_json(document);
  } else {
    for (size_t i = 0; i < slip_diagnostics_count(list); ++i) cli_compile_print(slip_diagnostics_at(list, i));
    if (errors) fprintf(stderr, "slip: %zu error%s\n", errors, errors == 1 ? "" : "s");
    if (code == CLI_EXIT_OK) printf("%s\n", output);
    if (code == CLI_EXIT_FAILURE) {
      cli_finish(invocation, status);
      status = slip_ok_status();
    }
    printed = cli_flush();
  }
  slip_status_free(status);
  slip_diagnostics_free(list);
  return slip_status_is_ok(printed) ? code : cli_finish(invocation, printed);
}

// "dir/axpy.json" -> "axpy.slipc", in memory of malloc.
static char *cli_compile_default_output(const char *manifest) {
  const char *base = strrchr(manifest, '/') ? strrchr(manifest, '/') + 1 : manifest;
  size_t length = strlen(base);
  if (length > 5 && strcmp(base + length - 5, ".json") == 0) length -= 5;
  char *name = malloc(length + sizeof(".slipc"));
  if (name) snprintf(name, length + sizeof(".slipc"), "%.*s.slipc", (int)length, base);
  return name;
}

// The signal that asked to stop; 0: none. A second one ends the process at once.
static volatile sig_atomic_t cli_compile_signal;

static void cli_compile_interrupt(int number) {
  cli_compile_signal = number;
}

static bool cli_compile_cancelled(void *user) {
  (void)user;
  return cli_compile_signal != 0;
}

static void cli_compile_watch(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = cli_compile_interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART}, old;
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i) {
    if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) (void)sigaction(numbers[i], &action, NULL);
  }
}

static int cli_compile_run(const cli_invocation_t *invocation) {
  slip_compile_options_t options = SLIP_COMPILE_OPTIONS_INIT;
  uint64_t jobs = 0;
  const char *contract = cli_value(invocation, "contract"), *output = cli_value(invocation, "output");
  slip_status_t status = cli_number(invocation, "jobs", 4096, 0, &jobs);
  if (!slip_status_is_ok(status)) return cli_finish(invocation, status);
  if (contract && strcmp(contract, "kernel") != 0 && strcmp(contract, "program") != 0) {
    return cli_usage_error(invocation, "--contract is kernel or program, not '%s'", contract);
  }
  char *made = output ? NULL : cli_compile_default_output(invocation->positional[0]);
  options.output = output ? output : made;
  options.contract = !contract ? 0 : contract[0] == 'k' ? SLIP_CONTRACT_KERNEL : SLIP_CONTRACT_PROGRAM;
  options.targets = cli_value(invocation, "target");
  options.compiler = cli_value(invocation, "compiler");
  options.jobs = (uint32_t)jobs;
  options.replace = cli_value(invocation, "force") != NULL;
  options.debug = cli_value(invocation, "debug") != NULL;
  if (!invocation->json && isatty(2)) options.progress = cli_compile_progress;
  options.cancelled = cli_compile_cancelled;
  cli_compile_watch();
  slip_diagnostics_t *diagnostics = NULL;
  status = slip_compile_manifest(invocation->positional[0], &options, &diagnostics);
  if (options.progress) fprintf(stderr, "\r\033[K");
  int code = cli_compile_report(invocation, options.output ? options.output : "", status, diagnostics);
  free(made);
  if (cli_compile_signal && code != CLI_EXIT_OK) {  // everything is cleared away: end as the signal would have ended us
    (void)signal(cli_compile_signal, SIG_DFL);
    (void)raise(cli_compile_signal);
  }
  return code;
}

const cli_command_t cli_compile_command = {
    .name = "compile",
    .arguments = "MANIFEST.json [-o DIR] [OPTIONS]",
    .positional_minimum = 1,
    .positional_maximum = 1,
    .summary = "Compile an all-C program into an artifact directory.",
    .details =
        "The manifest names the entry with its signature, the kernels and the sources; its format is in docs/manifest.md\n(installed: "
        "share/doc/slipstream/manifest.md).\n",
    .options = cli_compile_options,
    .run = cli_compile_run,
};
