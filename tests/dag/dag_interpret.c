// SPDX-License-Identifier: Apache-2.0
// What a program means: its ops one after the other on plain bytes, and which of its tasks touch the same ones.
#include <string.h>

#include "dag_program.h"
#include "slip_test.h"

int32_t dag_dtype_bytes(uint8_t dtype) {
  switch (dtype) {
    case SLIP_DTYPE_I8:
    case SLIP_DTYPE_U8:
      return 1;
    case SLIP_DTYPE_I16:
    case SLIP_DTYPE_U16:
      return 2;
    case SLIP_DTYPE_I32:
    case SLIP_DTYPE_U32:
    case SLIP_DTYPE_F32:
      return 4;
    default:
      return 8;
  }
}

int64_t dag_view_count(const dag_view_t *view) {
  int64_t count = 1;
  for (int i = 0; i < view->rank; ++i) count *= view->dims[i];
  return count;
}

uint64_t dag_long_scalar(uint64_t salt, uint32_t index) {
  return dag_mix(salt, index + 100);
}

void dag_fill(const dag_program_t *program, uint8_t *bytes) {
  uint64_t random = program->seed ^ 0x5eed ^ (uint64_t)program->fill << 40;
  for (int32_t i = 0; i < DAG_BYTES; ++i) bytes[i] = (uint8_t)slip_test_random(&random);
}

// Where element |number|, counted in row-major order, lies among all bytes.
static int32_t place_of(const dag_program_t *program, const dag_view_t *view, int64_t number) {
  int64_t offset = 0;
  for (int axis = view->rank - 1; axis >= 0; --axis) {
    offset += number % view->dims[axis] * view->strides[axis];
    number /= view->dims[axis];
  }
  return program->buffers[view->buffer].base + view->offset + (int32_t)offset * dag_dtype_bytes(view->dtype);
}

bool dag_view_bits(const dag_program_t *program, const dag_view_t *view, dag_bits_t *inout_bits) {
  int32_t size = dag_dtype_bytes(view->dtype);
  bool distinct = true;
  int64_t count = dag_view_count(view);
  for (int64_t i = 0; i < count; ++i) {
    int32_t place = place_of(program, view, i);
    for (int32_t byte = place; byte < place + size; ++byte) {
      uint64_t bit = UINT64_C(1) << (byte % 64), *word = &inout_bits->words[byte / 64];
      distinct = distinct && !(*word & bit);
      *word |= bit;
    }
  }
  return distinct;
}

bool dag_bits_meet(const dag_bits_t *a, const dag_bits_t *b) {
  for (int i = 0; i < DAG_WORDS; ++i) {
    if (a->words[i] & b->words[i]) return true;
  }
  return false;
}

// --- Values -------------------------------------------------------------------------------------------------------------------------

typedef struct dag_machine_t {
  const dag_program_t *program;
  dag_facts_t *facts;
  uint8_t bytes[DAG_BYTES], written[DAG_BYTES];
  int32_t depth_of[DAG_BUFFERS];  // -1: not there
  int32_t depth;
} dag_machine_t;

static uint64_t load(const dag_machine_t *machine, int32_t place, int32_t size) {
  uint64_t value = 0;
  memcpy(&value, &machine->bytes[place], (size_t)size);
  return value;
}

// The view's buffer is there, all of the view lies inside, and it is written if it is to be read.
static bool view_is_good(const dag_machine_t *machine, const dag_view_t *view, bool reads) {
  const dag_buffer_t *buffer = &machine->program->buffers[view->buffer];
  int32_t size = dag_dtype_bytes(view->dtype);
  if (view->buffer >= machine->program->buffer_count || machine->depth_of[view->buffer] < 0) return false;
  int64_t count = dag_view_count(view);
  for (int64_t i = 0; i < count; ++i) {
    int32_t place = place_of(machine->program, view, i);
    if (place < buffer->base || place + size > buffer->base + buffer->bytes) return false;
    for (int32_t byte = place; reads && byte < place + size; ++byte) {
      if (!machine->written[byte]) return false;
    }
  }
  return true;
}

// The one element of |op->flag| that is looked at.
static dag_view_t element_of(const dag_program_t *program, const dag_op_t *op) {
  int32_t place = place_of(program, &op->flag, op->index);
  return (dag_view_t){.buffer = op->flag.buffer, .dtype = op->flag.dtype, .offset = place - program->buffers[op->flag.buffer].base};
}

static bool predicate_holds(const dag_machine_t *machine, const dag_op_t *op) {
  int32_t size = dag_dtype_bytes(op->flag.dtype);
  uint64_t bits = load(machine, place_of(machine->program, &op->flag, op->index), size);
  bool is_signed = op->flag.dtype == SLIP_DTYPE_I8 || op->flag.dtype == SLIP_DTYPE_I16 || op->flag.dtype == SLIP_DTYPE_I32 ||
                   op->flag.dtype == SLIP_DTYPE_I64;
  __int128 value = (__int128)bits;
  if (is_signed && (bits >> (8 * size - 1) & 1)) value -= (__int128)1 << (8 * size);
  __int128 literal = op->literal;
  bool answers[7] = {true, value == literal, value != literal, value<literal, value <= literal, value> literal, value >= literal};
  return answers[op->predicate_op];
}

static void run_task(dag_machine_t *machine, const dag_op_t *op, uint32_t index) {
  uint64_t hash = dag_salt(machine->program, op);
  for (uint32_t a = 0; a < op->arg_count; ++a) {
    const dag_view_t *view = &op->args[a].view;
    if (op->args[a].kind != DAG_READS) continue;
    int64_t count = dag_view_count(view);
    for (int64_t i = 0; i < count; ++i) {
      hash = dag_mix(hash, load(machine, place_of(machine->program, view, i), dag_dtype_bytes(view->dtype)));
    }
  }
  machine->facts->digests[index] = hash;
  for (uint32_t a = 0; a < op->arg_count; ++a) {
    const dag_view_t *view = &op->args[a].view;
    if (op->args[a].kind == DAG_READS) continue;
    int64_t count = dag_view_count(view);
    int32_t size = dag_dtype_bytes(view->dtype);
    for (int64_t i = 0; i < count; ++i) {
      int32_t place = place_of(machine->program, view, i);
      uint64_t old = op->args[a].kind == DAG_UPDATES ? load(machine, place, size) : 7;
      uint64_t value = dag_mix(dag_mix(hash, (uint64_t)i), old);
      memcpy(&machine->bytes[place], &value, (size_t)size);
      memset(&machine->written[place], 1, (size_t)size);
    }
  }
}

static bool interpret_task(dag_machine_t *machine, const dag_op_t *op, uint32_t index) {
  dag_facts_t *facts = machine->facts;
  for (uint32_t a = 0; a < op->arg_count; ++a) {
    const dag_arg_t *arg = &op->args[a];
    if (arg->access == SLIP_ACCESS_OUT) {
      if (machine->depth_of[arg->view.buffer] >= 0) return false;
      machine->depth_of[arg->view.buffer] = machine->depth;
    }
    if (!view_is_good(machine, &arg->view, arg->kind != DAG_OVERWRITES)) return false;
    bool inferred = arg->access != SLIP_ACCESS_NO_DEP;
    (void)dag_view_bits(machine->program, &arg->view, arg->kind == DAG_READS ? &facts->reads[index] : &facts->writes[index]);
    if (inferred)
      (void)dag_view_bits(machine->program, &arg->view,
                          arg->kind == DAG_READS ? &facts->inferred_reads[index] : &facts->inferred_writes[index]);
  }
  if (op->predicate_op) {
    if (!view_is_good(machine, &op->flag, true)) return false;
    dag_view_t element = element_of(machine->program, op);
    (void)dag_view_bits(machine->program, &op->flag, &facts->inferred_reads[index]);
    (void)dag_view_bits(machine->program, &element, &facts->reads[index]);
    facts->skipped[index] = !predicate_holds(machine, op);
  }
  if (!facts->skipped[index]) run_task(machine, op, index);
  return true;
}

static bool interpret_element(dag_machine_t *machine, const dag_op_t *op, uint32_t index) {
  if (!view_is_good(machine, &op->flag, op->what == DAG_READ_ELEMENT)) return false;
  int32_t size = dag_dtype_bytes(op->flag.dtype), place = place_of(machine->program, &op->flag, op->index);
  dag_view_t element = element_of(machine->program, op);
  if (op->what == DAG_READ_ELEMENT) {
    machine->facts->digests[index] = load(machine, place, size);
    (void)dag_view_bits(machine->program, &element, &machine->facts->reads[index]);
    return true;
  }
  memcpy(&machine->bytes[place], &op->literal, (size_t)size);
  memset(&machine->written[place], 1, (size_t)size);
  (void)dag_view_bits(machine->program, &element, &machine->facts->writes[index]);
  return true;
}

static bool interpret_op(dag_machine_t *machine, const dag_op_t *op, uint32_t index) {
  switch (op->what) {
    case DAG_TASK:
      return interpret_task(machine, op, index);
    case DAG_CREATE:
      if (machine->depth_of[op->buffer] >= 0) return false;
      machine->depth_of[op->buffer] = machine->depth;
      return true;
    case DAG_SCOPE:
      ++machine->depth;
      return true;
    case DAG_END:
      if (machine->depth == 0) return false;
      for (uint32_t i = 0; i < machine->program->buffer_count; ++i) {
        if (machine->depth_of[i] == machine->depth) machine->depth_of[i] = -1;
      }
      --machine->depth;
      return true;
    case DAG_JOIN:
      return true;
    default:
      return interpret_element(machine, op, index);
  }
}

// --- Order --------------------------------------------------------------------------------------------------------------------------

static bool share(const dag_bits_t *reads_a, const dag_bits_t *writes_a, const dag_bits_t *reads_b, const dag_bits_t *writes_b) {
  for (int i = 0; i < DAG_WORDS; ++i) {
    if ((writes_a->words[i] & (reads_b->words[i] | writes_b->words[i])) | (reads_a->words[i] & writes_b->words[i])) return true;
  }
  return false;
}

static bool names(const dag_op_t *later, uint16_t id) {
  for (uint32_t i = 0; i < later->dep_count; ++i) {
    if (later->deps[i] == id) return true;
  }
  return false;
}

// |later| has a NO_DEP argument in what |earlier| made.
static bool creator_edge(const dag_op_t *earlier, const dag_op_t *later) {
  for (uint32_t a = 0; a < earlier->arg_count; ++a) {
    if (earlier->args[a].access != SLIP_ACCESS_OUT) continue;
    for (uint32_t b = 0; b < later->arg_count; ++b) {
      if (later->args[b].access == SLIP_ACCESS_NO_DEP && later->args[b].view.buffer == earlier->args[a].view.buffer) return true;
    }
  }
  return false;
}

static void relate(const dag_program_t *program, dag_facts_t *facts, uint32_t i, uint32_t j, bool manual) {
  const dag_op_t *earlier = &program->ops[i], *later = &program->ops[j];
  bool is_task = earlier->what == DAG_TASK, is_later_task = later->what == DAG_TASK;
  bool direct = names(later, earlier->id);
  bool touches = is_task || earlier->what >= DAG_READ_ELEMENT, later_touches = is_later_task || later->what >= DAG_READ_ELEMENT;
  if (touches && later_touches) {
    bool conflict = share(&facts->reads[i], &facts->writes[i], &facts->reads[j], &facts->writes[j]);
    bool inferred = share(&facts->inferred_reads[i], &facts->inferred_writes[i], &facts->inferred_reads[j], &facts->inferred_writes[j]);
    bool creator = is_task && is_later_task && creator_edge(earlier, later);
    bool automatic = !manual && (inferred || creator);
    // An element access looks at what inference knows, in any scope; what it cannot know is not drawn.
    if (is_task && !is_later_task) {
      inferred = share(&facts->inferred_reads[i], &facts->inferred_writes[i], &facts->reads[j], &facts->writes[j]);
      if (conflict && !inferred) facts->valid = false;
      automatic = inferred;
    }
    facts->conflict[i][j] = conflict && is_task && is_later_task;
    bool needed = conflict || (manual && inferred);
    facts->explicit[i][j] = needed && is_task && is_later_task && !automatic;
    direct = direct || automatic || creator || facts->explicit[i][j];
  }
  facts->reach[i][j] = direct;
}

static void find_musts(const dag_program_t *program, dag_facts_t *facts) {
  for (uint32_t j = 0; j < program->op_count; ++j) {
    for (uint32_t i = 0; i < j; ++i) facts->must[i][j] = facts->conflict[i][j] && !facts->skipped[i] && !facts->skipped[j];
  }
}

static void order(const dag_program_t *program, dag_facts_t *facts, const bool *manual) {
  for (uint32_t j = 0; j < program->op_count; ++j) {
    for (uint32_t i = 0; i < j; ++i) relate(program, facts, i, j, manual[j]);
    for (uint32_t i = j; i-- > 0;) {
      for (uint32_t k = i + 1; k < j && !facts->reach[i][j]; ++k) facts->reach[i][j] = facts->reach[i][k] && facts->reach[k][j];
    }
  }
}

// Runs the program; |manual|: which ops are in manual scopes.
static void interpret_values(const dag_program_t *program, dag_facts_t *out, bool *manual) {
  static _Thread_local dag_machine_t machine;
  bool modes[DAG_DEPTH + 2] = {false};
  uint32_t depth = 0;
  memset(machine.written, 0, sizeof(machine.written));
  machine.program = program;
  machine.facts = out;
  machine.depth = 0;
  dag_fill(program, machine.bytes);
  for (uint32_t i = 0; i < DAG_BUFFERS; ++i) machine.depth_of[i] = i < program->storage_count ? 0 : -1;
  for (uint32_t i = 0; i < program->storage_count; ++i)
    memset(&machine.written[program->buffers[i].base], 1, (size_t)program->buffers[i].bytes);
  out->valid = true;
  for (uint32_t i = 0; i < program->op_count && out->valid; ++i) {
    const dag_op_t *op = &program->ops[i];
    if (op->what == DAG_SCOPE) modes[++depth] = op->mode == SLIP_SCOPE_MANUAL;
    manual[i] = modes[depth];
    out->valid = interpret_op(&machine, op, i);
    if (op->what == DAG_END) --depth;
  }
  out->valid = out->valid && machine.depth == 0;
  if (out->valid) memcpy(out->expected, machine.bytes, sizeof(out->expected));
}

void dag_interpret(const dag_program_t *program, dag_facts_t *out) {
  bool manual[DAG_OPS] = {false};
  memset(out, 0, sizeof(*out));
  interpret_values(program, out, manual);
  if (!out->valid) return;
  order(program, out, manual);
  find_musts(program, out);
}

void dag_interpret_again(const dag_program_t *program, dag_facts_t *inout_facts) {
  bool manual[DAG_OPS] = {false};
  memset(inout_facts->skipped, 0, sizeof(inout_facts->skipped));
  interpret_values(program, inout_facts, manual);
  find_musts(program, inout_facts);
}

uint32_t dag_end_of(const dag_program_t *program, uint32_t index) {
  uint32_t depth = 1;
  while (depth) {
    ++index;
    depth += program->ops[index].what == DAG_SCOPE;
    depth -= program->ops[index].what == DAG_END;
  }
  return index;
}

// --- Text ---------------------------------------------------------------------------------------------------------------------------

static void print_view(const dag_program_t *program, const dag_view_t *view, FILE *file) {
  static const char *const letters[] = {"i8", "u8", "i16", "u16", "i32", "u32", "f32", "i64", "u64", "f64"};
  static const uint8_t dtypes[] = {SLIP_DTYPE_I8,  SLIP_DTYPE_U8,  SLIP_DTYPE_I16, SLIP_DTYPE_U16, SLIP_DTYPE_I32,
                                   SLIP_DTYPE_U32, SLIP_DTYPE_F32, SLIP_DTYPE_I64, SLIP_DTYPE_U64, SLIP_DTYPE_F64};
  const char *name = "?";
  for (int i = 0; i < 10; ++i) {
    if (dtypes[i] == view->dtype) name = letters[i];
  }
  fprintf(file, "%c%d+%d:%s[", view->buffer < program->storage_count ? 'S' : 'T', view->buffer, view->offset, name);
  for (int i = 0; i < view->rank; ++i) fprintf(file, "%s%d", i ? "," : "", view->dims[i]);
  fprintf(file, "]/(");
  for (int i = 0; i < view->rank; ++i) fprintf(file, "%s%d", i ? "," : "", view->strides[i]);
  fprintf(file, ")");
}

static void print_task(const dag_program_t *program, const dag_op_t *op, FILE *file) {
  static const char *const accesses[] = {"?", "in", "out", "out_existing", "inout", "no_dep"};
  static const char *const operators[] = {"?", "==", "!=", "<", "<=", ">", ">="};
  fprintf(file, "task");
  if (op->blocks > 1 || op->gang) fprintf(file, " %s of %u", op->gang ? "gang" : "blocks", op->blocks);
  if (op->long_scalars) fprintf(file, " long scalars");
  if (op->delay) fprintf(file, " delay %u", op->delay);
  for (uint32_t a = 0; a < op->arg_count; ++a) {
    fprintf(file, " %s", accesses[op->args[a].access]);
    if (op->args[a].access == SLIP_ACCESS_NO_DEP) fprintf(file, "%s", op->args[a].kind == DAG_READS ? " read" : " write");
    fputc(' ', file);
    print_view(program, &op->args[a].view, file);
  }
  if (!op->predicate_op) return;
  fprintf(file, " if ");
  print_view(program, &op->flag, file);
  fprintf(file, "[%lld] %s %lld", (long long)op->index, operators[op->predicate_op], (long long)op->literal);
}

void dag_print(const dag_program_t *program, FILE *file) {
  int indent = 1;
  fprintf(file, "# program of seed %llu: window %u, heap %u, pool %u\n", (unsigned long long)program->seed, program->window, program->heap,
          program->pool);
  for (uint32_t i = 0; i < program->storage_count; ++i) fprintf(file, "#  S%u: %d bytes\n", i, program->buffers[i].bytes);
  for (uint32_t i = 0; i < program->op_count; ++i) {
    const dag_op_t *op = &program->ops[i];
    if (op->what == DAG_END) --indent;
    fprintf(file, "# %*s%u: ", 2 * indent, "", op->id);
    if (op->what == DAG_TASK) print_task(program, op, file);
    if (op->what == DAG_CREATE) fprintf(file, "create T%u of %d bytes", op->buffer, program->buffers[op->buffer].bytes);
    if (op->what == DAG_JOIN) fprintf(file, "join");
    if (op->what == DAG_END) fprintf(file, "end");
    if (op->what == DAG_SCOPE) {
      fprintf(file, "%s", op->graph ? "graph" : op->mode == SLIP_SCOPE_MANUAL ? "manual scope" : "auto scope");
      ++indent;
    }
    if (op->what >= DAG_READ_ELEMENT) {
      fprintf(file, "%s ", op->what == DAG_READ_ELEMENT ? "read" : "write");
      print_view(program, &op->flag, file);
      fprintf(file, "[%lld]", (long long)op->index);
    }
    for (uint32_t d = 0; d < op->dep_count; ++d) fprintf(file, "%s %u", d ? "," : " after", op->deps[d]);
    fputc('\n', file);
  }
}
