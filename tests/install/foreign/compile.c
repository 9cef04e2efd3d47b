/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles a program through the installed compiler library. */
#include <slipstream/compile.h>
#include <stdio.h>

int main(int argc, char **argv) {
  slip_compile_options_t options = SLIP_COMPILE_OPTIONS_INIT;
  slip_diagnostics_t *findings = NULL;
  slip_status_t status;
  size_t i;
  if (argc < 3) return 2;
  options.output = argv[2];
  status = slip_compile_manifest(argv[1], &options, &findings);
  for (i = 0; i < slip_diagnostics_count(findings); ++i) fprintf(stderr, "%s\n", slip_diagnostics_at(findings, i)->message);
  slip_diagnostics_free(findings);
  if (!slip_status_is_ok(status)) {
    char text[512];
    slip_status_format(status, text, sizeof(text));
    fprintf(stderr, "%s\n", text);
    slip_status_free(status);
    return 1;
  }
  return 0;
}
