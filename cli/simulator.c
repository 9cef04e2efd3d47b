// SPDX-License-Identifier: Apache-2.0
#include "simulator.h"

#include <stdlib.h>

#include "slipstream/sim.h"

// As in slipstream/sim.h.
static const struct {
  const char *name, *meaning, *initial;
} cli_simulator_table[] = {
    {"SLIP_SIM_DEVICES", "virtual devices, 1 to 16", "2"},
    {"SLIP_SIM_FLAVOUR", "whose capture rules and error numbers apply: cuda or ascend", "cuda"},
    {"SLIP_SIM_SEED", "of every random decision: delays, yields, poison", "1"},
    {"SLIP_SIM_DELAY_NS", "longest random delay before an operation of a stream; 0: none", "20000"},
    {"SLIP_SIM_MEMORY", "bytes of a device", "1073741824"},
};

json_t *cli_simulator_variables(void) {
  json_t *variables = json_array();
  for (size_t i = 0; i < sizeof(cli_simulator_table) / sizeof(cli_simulator_table[0]); ++i) {
    json_array_append_new(variables,
                          json_pack("{s:s,s:s,s:s,s:s?}", "name", cli_simulator_table[i].name, "meaning", cli_simulator_table[i].meaning,
                                    "default", cli_simulator_table[i].initial, "value", getenv(cli_simulator_table[i].name)));
  }
  return variables;
}

static void cli_simulator_left(json_t *findings) {
  slip_sim_statistics_t s = {.struct_size = (uint32_t)sizeof(s)};
  slip_status_t status = slip_sim_statistics(&s);
  if (slip_status_is_ok(status) && (s.streams || s.events || s.allocations || s.host_allocations || s.modules || s.graphs || s.captures)) {
    char text[256];
    snprintf(text, sizeof(text),
             "not given back: %u streams, %u events, %u allocations, %u host allocations, %u modules, %u graphs, %u captures", s.streams,
             s.events, s.allocations, s.host_allocations, s.modules, s.graphs, s.captures);
    json_array_append_new(findings, json_string(text));
  }
  slip_status_free(status);
}

json_t *cli_simulator_findings(void) {
  json_t *findings = json_array();
  uint64_t count = slip_sim_violation_count();
  char text[1024];
  for (uint64_t i = 0; i < count; ++i) {
    if (slip_sim_violation(i, text, sizeof(text)) == 0) {  // not all are kept
      snprintf(text, sizeof(text), "and %llu violations more", (unsigned long long)(count - i));
      json_array_append_new(findings, json_string(text));
      break;
    }
    json_array_append_new(findings, json_string(text));
  }
  cli_simulator_left(findings);
  return findings;
}
