// SPDX-License-Identifier: Apache-2.0
// A failing program made small.
#include <string.h>
#include <time.h>

#include "dag_program.h"
#include "slip_test.h"

typedef struct dag_shrink_t {
  dag_program_t *best;
  bool (*fails)(void *user, const dag_program_t *program);
  void *user;
  time_t until;
} dag_shrink_t;

static bool keeps_failing(dag_shrink_t *shrink, const dag_program_t *candidate) {
  static dag_facts_t facts;
  if (time(NULL) >= shrink->until) return false;
  dag_interpret(candidate, &facts);
  if (!facts.valid || !shrink->fails(shrink->user, candidate)) return false;
  *shrink->best = *candidate;
  return true;
}

// Ops [from, from + count) leave; a scope's end goes with its begin.
static void drop(dag_program_t *program, uint32_t from, uint32_t count) {
  bool gone[DAG_OPS] = {false};
  uint32_t open[DAG_OPS], depth = 0, kept = 0;
  for (uint32_t i = 0; i < program->op_count; ++i) {
    gone[i] = i >= from && i < from + count;
    if (program->ops[i].what == DAG_SCOPE) open[depth++] = i;
    if (program->ops[i].what == DAG_END) gone[i] = gone[open[--depth]];
  }
  for (uint32_t i = 0; i < program->op_count; ++i) {
    if (!gone[i]) program->ops[kept++] = program->ops[i];
  }
  program->op_count = kept;
}

static bool drop_ops(dag_shrink_t *shrink) {
  static dag_program_t candidate;
  bool any = false;
  for (uint32_t count = shrink->best->op_count / 2; count; count /= 2) {
    for (uint32_t from = 0; from < shrink->best->op_count;) {
      candidate = *shrink->best;
      drop(&candidate, from, count);
      if (candidate.op_count < shrink->best->op_count && keeps_failing(shrink, &candidate)) {
        any = true;
      } else {
        from += count;
      }
    }
  }
  return any;
}

static bool drop_arguments(dag_shrink_t *shrink) {
  static dag_program_t candidate;
  bool any = false;
  for (uint32_t i = 0; i < shrink->best->op_count; ++i) {
    for (uint32_t a = shrink->best->ops[i].arg_count; a-- > 0;) {
      candidate = *shrink->best;
      dag_op_t *op = &candidate.ops[i];
      --op->arg_count;
      memmove(&op->args[a], &op->args[a + 1], (op->arg_count - a) * sizeof(op->args[0]));
      any = keeps_failing(shrink, &candidate) || any;
    }
    for (int detail = 0; detail < 5; ++detail) {
      candidate = *shrink->best;
      dag_op_t *op = &candidate.ops[i];
      if (detail == 0) op->dep_count = 0;
      if (detail == 1) op->predicate_op = 0;
      if (detail == 2) op->blocks = 1, op->gang = false;
      if (detail == 3) op->long_scalars = false;
      if (detail == 4) op->delay = 0;
      if (memcmp(&candidate, shrink->best, sizeof(candidate)) != 0) any = keeps_failing(shrink, &candidate) || any;
    }
  }
  return any;
}

void dag_shrink(dag_program_t *inout_program, bool (*fails)(void *user, const dag_program_t *program), void *user, uint32_t seconds) {
  dag_shrink_t shrink = {.best = inout_program, .fails = fails, .user = user, .until = time(NULL) + (time_t)seconds};
  while (drop_ops(&shrink) || drop_arguments(&shrink)) continue;
}
