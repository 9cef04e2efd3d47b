// SPDX-License-Identifier: Apache-2.0
// A program on an engine, and whether that did what the interpreter says.
#ifndef SLIP_TESTS_DAG_EXECUTE_H_
#define SLIP_TESTS_DAG_EXECUTE_H_

#include "dag_program.h"
#include "slip_test_graph.h"

// How the orchestration fails on purpose.
typedef enum dag_fault_e {
  DAG_NO_FAULT,
  DAG_FAULT_USER,
  DAG_FAULT_INVALID_TASK,
  DAG_FAULT_STALE_TENSOR,
  DAG_FAULT_SCOPE_DEADLOCK,
  DAG_FAULT_HEAP,
  DAG_FAULT_SCOPE_LEFT_OPEN,
  DAG_FAULT_DEPENDENCY,
  DAG_FAULT_KERNEL,  // the first task from |fault_at| on that runs reports it
  DAG_FAULTS
} dag_fault_e;

typedef struct dag_how_t {
  slip__engine_t *engine;
  uint32_t fault;     // dag_fault_e
  uint32_t fault_at;  // op before which it comes
  // Index of a task that is held until every task that nothing orders after it has run; -1: none. In a workspace where nothing is short.
  int32_t hold;
  // Where runs come from (NULL: they are never replayed), and which of DAG_PLACES places the storages are at.
  slip__run_site_t *site;
  uint32_t place;
  bool flat;  // the boundary tensors are shown as rows of bytes: another contract
} dag_how_t;

#define DAG_PLACES 3

typedef struct dag_outcome_t {
  bool failed;
  char why[512];
  uint32_t held, overordered;  // tasks that had to run beside the held one, and those that did not
} dag_outcome_t;

// Runs |program| in |test->workspace|. |facts| are the program's. Thread-safe.
void dag_execute(const dag_program_t *program, const dag_facts_t *facts, slip__workspace_t *workspace, const dag_how_t *how,
                 dag_outcome_t *out);
slip__workspace_options_t dag_workspace_options(const dag_program_t *program, bool roomy);

#endif  // SLIP_TESTS_DAG_EXECUTE_H_
