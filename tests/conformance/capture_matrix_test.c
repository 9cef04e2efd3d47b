// SPDX-License-Identifier: Apache-2.0
// The table of docs/capture.md: every rule of capture with the simulator's answer in both flavours, produced by running the rules. The test
// fails when the document says anything else.
//
//   build/dev/test_capture_matrix                                prints the table and compares the document
//   SLIP_CAPTURE_MATRIX_UPDATE=1 build/dev/test_capture_matrix   writes it into the document
#include "capture_rules.h"
#include "os/file.h"
#include "slip_test.h"
#include "slipstream/sim.h"

#define CONFORM_DOCUMENT SLIP_TEST_SOURCE_DIRECTORY "/docs/capture.md"
#define CONFORM_FROM     "<!-- matrix: begin -->\n"
#define CONFORM_TO       "<!-- matrix: end -->\n"

static conform_answer_t conform_matrix_answer(const conform_rule_t *rule, uint32_t flavour) {
  slip_sim_options_t options = SLIP_SIM_OPTIONS_INIT;
  slip_platform_t *platform = NULL;
  conform_answer_t answer;
  char problem[512];
  options.flavour = flavour;
  options.seed = 1;
  SLIP_CHECK_OK(slip_sim_reset(&options));
  SLIP_CHECK_OK(slip_platform_find("sim", &platform));
  if (!conform_rule_run(rule, platform, &answer, problem, sizeof(problem))) {
    slip_test_fail(__FILE__, __LINE__, "rule \"%s\": %s", rule->text, problem);
  }
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
  return answer;
}

// The calls without their marks; the one that is asked about in bold.
static void conform_matrix_calls(const conform_rule_t *rule, FILE *out) {
  char text[256];
  const char *separator = "";
  (void)snprintf(text, sizeof(text), "%s", rule->calls);
  for (char *rest = text, *step = strsep(&rest, ";"); step; step = strsep(&rest, ";")) {
    step += strspn(step, " ");
    const char *bold = *step == '!' ? "**" : "";
    fprintf(out, "%s%s%s%s", separator, bold, step + (*step == '!' || *step == '?'), bold);
    separator = "; ";
    if (*step == '!') break;  // what follows tidies up
  }
}

static void conform_matrix_print(FILE *out) {
  char answers[2][96];
  const conform_rule_t *rule;
  fprintf(out, "| # | rule | calls | cuda | ascend | source |\n|---|---|---|---|---|---|\n");
  for (size_t i = 0; (rule = conform_rule_at(i)) != NULL; ++i) {
    (void)conform_answer_format(conform_matrix_answer(rule, SLIP_SIM_FLAVOUR_CUDA), answers[0], sizeof(answers[0]));
    (void)conform_answer_format(conform_matrix_answer(rule, SLIP_SIM_FLAVOUR_ASCEND), answers[1], sizeof(answers[1]));
    fprintf(out, "| %zu | %s | ", i + 1, rule->text);
    conform_matrix_calls(rule, out);
    fprintf(out, " | %s | %s | %s |\n", answers[0], answers[1], rule->source);
  }
}

static char *conform_matrix_read(void) {
  slip_bytes_t bytes = {NULL, 0};
  SLIP_CHECK_OK(slip__file_read(CONFORM_DOCUMENT, 1u << 20, slip_allocator_system(), &bytes));
  return (char *)bytes.data;
}

static void conform_matrix_write(const char *before, size_t before_length, const char *table, const char *after) {
  FILE *file = fopen(CONFORM_DOCUMENT, "w");
  SLIP_CHECK(file != NULL);
  fprintf(file, "%.*s%s%s", (int)before_length, before, table, after);
  SLIP_CHECK_EQ(fclose(file), 0);
}

SLIP_TEST_TIMEOUT(capture_matrix_document_is_current, 120) {
  char *table = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&table, &length);
  SLIP_CHECK(out != NULL);
  conform_matrix_print(out);
  SLIP_CHECK_EQ(fclose(out), 0);
  fputs(table, stdout);
  char *document = conform_matrix_read(), *from = strstr(document, CONFORM_FROM), *to = strstr(document, CONFORM_TO);
  SLIP_CHECK(from && to && from < to);
  from += strlen(CONFORM_FROM);
  bool current = (size_t)(to - from) == length && memcmp(from, table, length) == 0;
  if (!current && getenv("SLIP_CAPTURE_MATRIX_UPDATE")) {
    conform_matrix_write(document, (size_t)(from - document), table, to);
    current = true;
  }
  free(document);
  free(table);
  if (!current) {
    slip_test_fail(__FILE__, __LINE__, "docs/capture.md is out of date; run SLIP_CAPTURE_MATRIX_UPDATE=1 build/dev/test_capture_matrix");
  }
}
