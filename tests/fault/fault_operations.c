// SPDX-License-Identifier: Apache-2.0
#include "fault_operations.h"

const fault_operation_t *fault_operation_find(const char *name) {
  const fault_operation_t *const tables[] = {fault_context_operations, fault_launch_operations, fault_graph_operations};
  for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); ++i) {
    for (const fault_operation_t *operation = tables[i]; operation->name; ++operation) {
      if (strcmp(operation->name, name) == 0) return operation;
    }
  }
  return NULL;
}
