// SPDX-License-Identifier: Apache-2.0
#include "dag_execute.h"

#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"

#define HOLD_NS      UINT64_C(300000000)  // longer than any other thread is kept waiting
#define GRAPH_SCALAR UINT64_C(7)          // plus the variant: what named graphs are given
#define LINGER_NS    UINT64_C(40000)      // for what ought to wait, to betray itself

// What the kernels leave behind. |start| and |end| are moments of the run's one clock: the first block's begin and the last block's end.
typedef struct dag_record_t {
  _Atomic uint64_t start, end;
  _Atomic uint32_t begun, done, index_sum;
  _Atomic uint32_t blocks;  // as the kernel sees it
  uint64_t digest;          // block 0's
  bool digested;
  _Atomic uint32_t wrong;
} dag_record_t;

typedef struct dag_run_t {
  const dag_program_t *program;
  const dag_facts_t *facts;
  const dag_how_t *how;
  dag_outcome_t *outcome;
  _Alignas(64) _Atomic uint64_t clock;
  dag_record_t records[DAG_OPS];
  // Of a held task: what may run meanwhile.
  bool beside[DAG_OPS];
  uint32_t beside_count;
  uint32_t faulty;  // the op whose kernel reports a fault, or none
  _Atomic uint32_t beside_done;
  // The orchestration's.
  slip_otensor_t tensors[DAG_BUFFERS];
  uintptr_t address[DAG_BUFFERS];  // of intermediates, as they were made; 0: not made
  slip_task_t handles[DAG_OPS];    // by id
  uint64_t element_wrong;          // 1 + op
  bool orchestrated;               // else the run was replayed
  uint32_t graph_depth;            // of open graphs whose body runs
  bool graph_ends[DAG_OPS];
  uint64_t graph_scalars[1];
  uint8_t *places[DAG_STORAGES];
} dag_run_t;

static _Thread_local bool orchestrating;

__attribute__((format(printf, 2, 3))) static void complain(dag_outcome_t *outcome, const char *format, ...) {
  va_list arguments;
  if (outcome->failed) return;
  outcome->failed = true;
  va_start(arguments, format);
  (void)vsnprintf(outcome->why, sizeof(outcome->why), format, arguments);
  va_end(arguments);
}

// --- Kernels ------------------------------------------------------------------------------------------------------------------------

static void pass_time(uint32_t delay) {
  if (delay == 100000) {
    (void)sched_yield();
  } else if (delay == 100001) {
    (void)usleep(50);
  } else {
    for (volatile uint32_t i = 0; i < delay % 100000; ++i) continue;
  }
}

static void hold(dag_run_t *run) {
  if (orchestrating) return;  // what could run beside it is not submitted yet
  uint64_t until = slip__clock_now_ns() + HOLD_NS;
  while (atomic_load(&run->beside_done) < run->beside_count && slip__clock_now_ns() < until) (void)usleep(10);
  run->outcome->held = run->beside_count;
  run->outcome->overordered = run->beside_count - atomic_load(&run->beside_done);
  for (until = slip__clock_now_ns() + LINGER_NS; slip__clock_now_ns() < until;) (void)sched_yield();
}

static char *element(const slip_ktensor_t *t, int64_t size, const int64_t *at) {
  char *place = t->data;
  for (int i = 0; i < t->rank; ++i) place += at[i] * t->strides[i] * size;
  return place;
}

static bool next_element(const slip_ktensor_t *t, int64_t *at) {
  for (int i = t->rank; i-- > 0;) {
    if (++at[i] < t->dims[i]) return true;
    at[i] = 0;
  }
  return false;
}

static bool is_empty(const slip_ktensor_t *t) {
  for (int i = 0; i < t->rank; ++i) {
    if (t->dims[i] == 0) return true;
  }
  return false;
}

static uint64_t read_all(const slip_ktensor_t *t, uint64_t hash) {
  int64_t at[SLIP_MAX_RANK] = {0}, size = slip_dtype_carrier_bytes(t->dtype);
  if (is_empty(t)) return hash;
  do {
    uint64_t value = 0;
    memcpy(&value, element(t, size, at), (size_t)size);
    hash = dag_mix(hash, value);
  } while (next_element(t, at));
  return hash;
}

static void write_share(const slip_ktensor_t *t, uint64_t hash, bool updates, slip_block_t block) {
  int64_t at[SLIP_MAX_RANK] = {0}, size = slip_dtype_carrier_bytes(t->dtype);
  uint64_t number = 0;
  if (is_empty(t)) return;
  do {
    if (number % block.count == block.index) {
      char *place = element(t, size, at);
      uint64_t value = 7;
      if (updates) {
        value = 0;
        memcpy(&value, place, (size_t)size);
      }
      value = dag_mix(dag_mix(hash, number), value);
      memcpy(place, &value, (size_t)size);
    }
    ++number;
  } while (next_element(t, at));
}

static void lower_to(_Atomic uint64_t *word, uint64_t value) {
  uint64_t old = atomic_load(word);
  while (value < old && !atomic_compare_exchange_weak(word, &old, value)) continue;
}
static void raise_to(_Atomic uint64_t *word, uint64_t value) {
  uint64_t old = atomic_load(word);
  while (value > old && !atomic_compare_exchange_weak(word, &old, value)) continue;
}

// Scalars: the run, the op's index and the variant, and for some tasks more of them.
static void stir(const slip_kargs_t *args, slip_block_t block) {
  dag_run_t *run = (dag_run_t *)(uintptr_t)args->scalars[0];
  uint32_t index = (uint32_t)args->scalars[1], variant = (uint32_t)(args->scalars[1] >> 32);
  const dag_op_t *op = &run->program->ops[index];
  dag_record_t *record = &run->records[index];
  lower_to(&record->start, atomic_fetch_add(&run->clock, 1));
  atomic_store(&record->blocks, block.count);
  atomic_fetch_add(&record->begun, 1);
  if (variant != run->program->variant || args->tensor_count != op->arg_count ||
      args->scalar_count != (op->long_scalars ? DAG_LONG_SCALARS : 2))
    atomic_store(&record->wrong, 1);
  for (uint32_t i = 2; i < args->scalar_count; ++i) {
    if (args->scalars[i] != dag_long_scalar(op->salt, i)) atomic_store(&record->wrong, 1);
  }
  if (op->gang) {  // its blocks wait for each other
    while (atomic_load(&record->begun) < block.count) (void)sched_yield();
  }
  if ((int32_t)index == run->how->hold && block.index == 0) hold(run);
  if (index == run->faulty && block.index == 0) {
    slip_kernel_fault(args, 9);
    return;
  }
  pass_time(op->delay);
  uint64_t hash = dag_salt(run->program, op);
  for (uint32_t a = 0; a < args->tensor_count; ++a) {
    if (op->args[a].kind == DAG_READS) hash = read_all(&args->tensors[a], hash);
  }
  if (block.index == 0) {
    record->digest = hash;
    record->digested = true;
  }
  for (uint32_t a = 0; a < args->tensor_count; ++a) {
    if (op->args[a].kind != DAG_READS) write_share(&args->tensors[a], hash, op->args[a].kind == DAG_UPDATES, block);
  }
  atomic_fetch_add(&record->index_sum, block.index);
  raise_to(&record->end, atomic_fetch_add(&run->clock, 1));
  if (atomic_fetch_add(&record->done, 1) + 1 == block.count && run->beside[index]) atomic_fetch_add(&run->beside_done, 1);
}

#define ROW(n)                                        \
  {"stir" #n, stir, 0, 0, n, 2}, {                    \
    "stir" #n "long", stir, 0, 0, n, DAG_LONG_SCALARS \
  }
static const slip_object_kernel_t kernels[2 * (DAG_ARGS + 1)] = {ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7), ROW(8)};
#undef ROW

// --- Orchestration ------------------------------------------------------------------------------------------------------------------

static slip_otensor_t tensor_of(const dag_run_t *run, const dag_view_t *view) {
  slip_otensor_t tensor = run->tensors[view->buffer];
  tensor.view.data = (char *)tensor.view.data + view->offset;
  tensor.view.dtype = view->dtype;
  tensor.view.rank = view->rank;
  for (int i = 0; i < SLIP_MAX_RANK; ++i) {
    tensor.view.dims[i] = i < view->rank ? view->dims[i] : 1;
    tensor.view.strides[i] = i < view->rank ? view->strides[i] : 0;
  }
  return tensor;
}

static slip_otensor_t described(const dag_program_t *program, uint32_t buffer) {
  const dag_buffer_t *b = &program->buffers[buffer];
  int64_t dims[3] = {b->dims[0], b->dims[1], b->dims[2]};
  return slip_otensor_describe(b->dtype, b->rank, dims);
}

static void made(dag_run_t *run, uint32_t buffer, const slip_otensor_t *tensor) {
  run->tensors[buffer] = *tensor;
  run->address[buffer] = (uintptr_t)tensor->view.data;
}

// What the program has to order itself: each task by name, or some of them through a join.
static void explicit_deps(dag_run_t *run, slip_orch_t *o, slip_task_builder_t *builder, uint32_t index) {
  const dag_op_t *op = &run->program->ops[index];
  slip_task_t deps[DAG_OPS];
  uint32_t count = 0;
  for (uint32_t i = 0; i < index; ++i) {
    if (run->facts->explicit[i][index]) deps[count++] = run->handles[run->program->ops[i].id];
  }
  if (count > 40 || (count > 1 && (op->salt & 3) == 0)) {
    uint32_t joined = count > 64 ? 64 : count;
    deps[joined - 1] = o->api->join(o, deps, joined);
    for (uint32_t i = joined - 1; i < count; ++i) slip_task_after(builder, deps[i]);
  } else {
    for (uint32_t i = 0; i < count; ++i) slip_task_after(builder, deps[i]);
  }
}

static void do_task(dag_run_t *run, slip_orch_t *o, uint32_t index) {
  const dag_op_t *op = &run->program->ops[index];
  slip_task_builder_t builder;
  slip_otensor_t tensors[DAG_ARGS], flag;
  slip_predicate_t predicate = {.tensor = &flag, .index = op->index, .literal = op->literal, .op = op->predicate_op};
  uint32_t cores = o->api->available_cores(o, SLIP_CORE_ANY), blocks = op->gang && op->blocks > cores ? cores : op->blocks;
  slip_task_begin_at(&builder, 2u * op->arg_count + op->long_scalars, blocks, "program", op->id);
  if (op->gang) slip_task_gang(&builder);
  for (uint32_t a = 0; a < op->arg_count; ++a) {
    const dag_arg_t *arg = &op->args[a];
    tensors[a] = arg->access == SLIP_ACCESS_OUT ? described(run->program, arg->view.buffer) : tensor_of(run, &arg->view);
    slip_task_tensor(&builder, arg->access, &tensors[a]);
  }
  slip_task_scalar(&builder, (uint64_t)(uintptr_t)run);
  if (run->graph_depth) {
    slip_task_scalar_from(o, &builder, 0, UINT64_C(1) << 32, index - (GRAPH_SCALAR << 32));
  } else {
    slip_task_scalar(&builder, index | (uint64_t)run->program->variant << 32);
  }
  for (uint32_t i = 2; op->long_scalars && i < DAG_LONG_SCALARS; ++i) slip_task_scalar(&builder, dag_long_scalar(op->salt, i));
  if (op->predicate_op) {
    flag = tensor_of(run, &op->flag);
    slip_task_if(&builder, &predicate);
  }
  for (uint32_t d = 0; d < op->dep_count; ++d) slip_task_after(&builder, run->handles[op->deps[d]]);
  explicit_deps(run, o, &builder, index);
  run->handles[op->id] = slip_task_submit(o, &builder);
  for (uint32_t a = 0; a < op->arg_count; ++a) {
    if (op->args[a].access == SLIP_ACCESS_OUT && run->handles[op->id]) made(run, op->args[a].view.buffer, &tensors[a]);
  }
}

static bool uses(const dag_op_t *op, uint32_t buffer) {
  if (op->what != DAG_TASK) return false;
  for (uint32_t a = 0; a < op->arg_count; ++a) {
    if (op->args[a].view.buffer == buffer) return true;
  }
  return op->predicate_op && op->flag.buffer == buffer;
}

// Its boundary: what its ops use of what is there, some of it twice, as overlapping parts. Returns false if it has been replayed.
static bool do_graph(dag_run_t *run, slip_orch_t *o, uint32_t index) {
  const dag_program_t *program = run->program;
  const dag_op_t *op = &program->ops[index];
  uint32_t end = dag_end_of(program, index), count = 0;
  bool made_inside[DAG_BUFFERS] = {false};
  slip_otensor_t tensors[2 * DAG_BUFFERS];
  for (uint32_t i = index; i < end; ++i) {
    const dag_op_t *inner = &program->ops[i];
    if (inner->what == DAG_CREATE) made_inside[inner->buffer] = true;
    for (uint32_t a = 0; a < inner->arg_count; ++a) {
      if (inner->what == DAG_TASK && inner->args[a].access == SLIP_ACCESS_OUT) made_inside[inner->args[a].view.buffer] = true;
    }
  }
  for (uint32_t b = 0; b < program->buffer_count; ++b) {
    bool used = false;
    for (uint32_t i = index; i < end && !made_inside[b]; ++i) used = used || uses(&program->ops[i], b);
    if (!used) continue;
    const slip_otensor_t *whole = &run->tensors[b];
    if ((op->salt >> b % 60 & 1) && whole->view.rank &&
        whole->view.dims[0] > 1) {  // its second half first: what lies in there is found there
      int64_t half = whole->view.dims[0] / 2;
      slip_ktensor_t *view = &tensors[count].view;
      tensors[count++] = *whole;
      view->data = (char *)view->data + half * view->strides[0] * slip_dtype_carrier_bytes(view->dtype);
      view->dims[0] -= half;
    }
    tensors[count++] = *whole;
  }
  run->graph_scalars[0] = GRAPH_SCALAR + program->variant;
  return slip_graph_begin(o, op->id, tensors, count, run->graph_scalars, 1) != 0;
}

// Returns the op that it came to: of a graph that was replayed, its end.
static uint32_t do_op(dag_run_t *run, slip_orch_t *o, uint32_t index) {
  const dag_op_t *op = &run->program->ops[index];
  if (op->what == DAG_TASK) {
    do_task(run, o, index);
  } else if (op->what == DAG_CREATE) {
    slip_otensor_t tensor = described(run->program, op->buffer);
    o->api->create(o, &tensor);
    made(run, op->buffer, &tensor);
  } else if (op->what == DAG_JOIN) {
    slip_task_t deps[DAG_DEPS];
    for (uint32_t d = 0; d < op->dep_count; ++d) deps[d] = run->handles[op->deps[d]];
    run->handles[op->id] = slip_task_join(o, deps, op->dep_count);
  } else if (op->what == DAG_SCOPE) {
    if (!op->graph) {
      slip_scope_begin(o, op->mode);
    } else if (do_graph(run, o, index)) {
      ++run->graph_depth;
    } else {
      return dag_end_of(run->program, index);
    }
  } else if (op->what == DAG_END) {
    if (run->graph_ends[index]) {
      --run->graph_depth;
      slip_graph_end(o);
    } else {
      slip_scope_end(o);
    }
  } else {
    slip_otensor_t tensor = tensor_of(run, &op->flag);
    if (op->what == DAG_WRITE_ELEMENT) {
      o->api->write_element(o, &tensor, op->index, (uint64_t)op->literal);
    } else if (o->api->read_element(o, &tensor, op->index) != run->facts->digests[index] && !o->api->failed(o) && !run->element_wrong) {
      run->element_wrong = index + 1;
    }
  }
  return index;
}

static void use(slip_orch_t *o, slip_otensor_t *tensor, slip_task_t after, uint32_t kernel) {
  slip_task_builder_t builder;
  slip_task_begin(&builder, kernel, 1);
  slip_task_inout(&builder, tensor);
  slip_task_scalar(&builder, 0);
  slip_task_scalar(&builder, 0);
  if (after) slip_task_after(&builder, after);
  slip_task_submit(o, &builder);
}

static void do_fault(dag_run_t *run, slip_orch_t *o) {
  int64_t dims[1] = {4};
  slip_otensor_t storage = run->tensors[0], inner;
  switch (run->how->fault) {
    case DAG_FAULT_USER:
      slip_orch_fail(o, 77, "on purpose");
      break;
    case DAG_FAULT_INVALID_TASK:
      use(o, &storage, 0, 1000);
      break;
    case DAG_FAULT_STALE_TENSOR:
      slip_scope_begin(o, SLIP_SCOPE_AUTO);
      inner = slip_otensor_create(o, SLIP_DTYPE_U8, 1, dims);
      slip_scope_end(o);
      use(o, &inner, 0, 2);
      break;
    case DAG_FAULT_SCOPE_DEADLOCK:
      slip_scope_begin(o, SLIP_SCOPE_AUTO);
      dims[0] = run->program->heap / 4;
      while (!o->api->failed(o)) (void)slip_otensor_create(o, SLIP_DTYPE_U8, 1, dims);
      break;
    case DAG_FAULT_HEAP:
      dims[0] = (int64_t)run->program->heap + 1;
      (void)slip_otensor_create(o, SLIP_DTYPE_U8, 1, dims);
      break;
    default:
      use(o, &storage, UINT64_C(1) << 60, 2);
  }
}

static const slip_code_t fault_codes[DAG_FAULTS] = {SLIP_CODE_OK,
                                                    SLIP_CODE_GRAPH_USER_FAIL,
                                                    SLIP_CODE_GRAPH_INVALID_TASK,
                                                    SLIP_CODE_GRAPH_STALE_TENSOR,
                                                    SLIP_CODE_GRAPH_SCOPE_DEADLOCK,
                                                    SLIP_CODE_GRAPH_HEAP_EXHAUSTED,
                                                    SLIP_CODE_GRAPH_INVALID_TASK,
                                                    SLIP_CODE_GRAPH_INVALID_TASK,
                                                    SLIP_CODE_GRAPH_KERNEL_FAULT};

static void orchestrate(slip_orch_t *o, const slip_oargs_t *args) {
  dag_run_t *run = graph_test_user(args);
  orchestrating = true;
  run->orchestrated = true;
  for (uint32_t i = 0; i < args->tensor_count; ++i) run->tensors[i] = args->tensors[i];
  bool fails = run->how->fault && run->how->fault != DAG_FAULT_SCOPE_LEFT_OPEN && run->how->fault != DAG_FAULT_KERNEL;
  for (uint32_t i = 0; i < run->program->op_count; ++i) {
    if (fails && run->how->fault_at == i) do_fault(run, o);
    uint32_t last = do_op(run, o, i);
    if (last == i) continue;
    // A graph was replayed: what its tasks are called is of no use, since all of them are over.
    for (uint32_t skipped = i; skipped <= last; ++skipped) run->handles[run->program->ops[skipped].id] = 0;
    slip_graph_end(o);
    if (fails && run->how->fault_at > i && run->how->fault_at <= last) do_fault(run, o);
    i = last;
  }
  if (run->how->fault == DAG_FAULT_SCOPE_LEFT_OPEN) slip_scope_begin(o, SLIP_SCOPE_MANUAL);
  orchestrating = false;
}

// --- Judgement ----------------------------------------------------------------------------------------------------------------------

static bool ran(const dag_run_t *run, uint32_t index) {
  return atomic_load(&run->records[index].begun) != 0;
}

static bool is_before(const dag_run_t *run, uint32_t earlier, uint32_t later) {
  return atomic_load(&run->records[earlier].end) < atomic_load(&run->records[later].start);
}

// A run that fails may leave blocks of a task out; whether that task counts as one that ran is not said.
static void check_tasks(dag_run_t *run, bool all, uint64_t counted) {
  uint64_t least = 0, most = 0;
  for (uint32_t i = 0; i < run->program->op_count; ++i) {
    const dag_record_t *record = &run->records[i];
    const dag_op_t *op = &run->program->ops[i];
    uint32_t blocks = atomic_load(&record->blocks), begun = atomic_load(&record->begun);
    bool expected = op->what == DAG_TASK && !run->facts->skipped[i];
    least += begun != 0;
    most += begun != 0 || (!all && expected && op->blocks > 1);
    if ((begun != 0) != expected && (all || begun))
      complain(run->outcome, "task %u %s", op->id, begun ? "ran against its predicate" : "did not run");
    if (begun == 0) continue;
    if (all && (begun != blocks || atomic_load(&record->done) != blocks || atomic_load(&record->index_sum) != blocks * (blocks - 1) / 2 ||
                (!op->gang && blocks != op->blocks)))
      complain(run->outcome, "task %u of %u blocks ran %u of %u", op->id, op->blocks, begun, blocks);
    if (atomic_load(&record->wrong)) complain(run->outcome, "task %u had wrong arguments", op->id);
  }
  if (counted < least || counted > most)
    complain(run->outcome, "%llu tasks counted, %llu ran", (unsigned long long)counted, (unsigned long long)least);
}

static void check_order(dag_run_t *run) {
  for (uint32_t j = 0; j < run->program->op_count; ++j) {
    for (uint32_t i = 0; i < j; ++i) {
      if (!run->facts->must[i][j] || !ran(run, j) || (ran(run, i) && is_before(run, i, j))) continue;
      complain(run->outcome, "task %u %s, though it shares bytes with task %u", run->program->ops[j].id,
               ran(run, i) ? "began before the end" : "ran alone", run->program->ops[i].id);
    }
  }
}

static bool touches(const dag_op_t *op, uint32_t buffer) {
  for (uint32_t a = 0; a < op->arg_count; ++a) {
    if (op->args[a].view.buffer == buffer) return true;
  }
  return false;
}

// Two intermediates in one place: no task of the older one may still be there.
static void check_memory(dag_run_t *run) {
  const dag_program_t *program = run->program;
  for (uint32_t b = program->storage_count; b < program->buffer_count; ++b) {
    for (uint32_t a = program->storage_count; a < b; ++a) {
      if (!run->address[a] || !run->address[b] || run->address[a] >= run->address[b] + (uintptr_t)program->buffers[b].bytes ||
          run->address[b] >= run->address[a] + (uintptr_t)program->buffers[a].bytes)
        continue;
      for (uint32_t j = 0; j < program->op_count; ++j) {
        for (uint32_t i = 0; i < j; ++i) {
          if (!ran(run, i) || !ran(run, j) || !touches(&program->ops[i], a) || !touches(&program->ops[j], b) || is_before(run, i, j))
            continue;
          complain(run->outcome, "task %u began in the memory of T%u before task %u had left it to T%u", program->ops[j].id, a,
                   program->ops[i].id, b);
        }
      }
    }
  }
}

static void check_values(dag_run_t *run, bool all) {
  const dag_program_t *program = run->program;
  for (uint32_t i = 0; i < program->op_count; ++i) {
    if (program->ops[i].what == DAG_TASK && run->records[i].digested && run->records[i].digest != run->facts->digests[i])
      complain(run->outcome, "task %u read other values", program->ops[i].id);
  }
  if (run->element_wrong) complain(run->outcome, "op %u read another element", program->ops[run->element_wrong - 1].id);
  for (uint32_t s = 0; all && s < program->storage_count; ++s) {
    const dag_buffer_t *b = &program->buffers[s];
    for (int32_t i = b->base; i < b->base + b->bytes; ++i) {
      if (run->places[s][i - b->base] == run->facts->expected[i]) continue;
      complain(run->outcome, "byte %d of S%u differs", i - b->base, s);
      break;
    }
  }
}

static void prepare(dag_run_t *run) {
  const dag_program_t *program = run->program;
  static _Thread_local uint8_t bytes[DAG_BYTES];
  static _Thread_local _Alignas(64) uint8_t places[DAG_PLACES][DAG_BYTES];
  dag_fill(program, bytes);
  for (uint32_t s = 0; s < program->storage_count; ++s) {  // in one of the places the other way round
    const dag_buffer_t *b = &program->buffers[s];
    int32_t at = run->how->place == 1 ? DAG_BYTES - (b->base + (b->bytes + 63) / 64 * 64) : b->base;
    run->places[s] = &places[run->how->place][at];
    memcpy(run->places[s], &bytes[b->base], (size_t)b->bytes);
  }
  for (uint32_t i = 0; i < program->op_count; ++i) {
    if (program->ops[i].what == DAG_SCOPE && program->ops[i].graph) run->graph_ends[dag_end_of(program, i)] = true;
  }
  run->faulty = DAG_OPS;
  for (uint32_t i = program->op_count; run->how->fault == DAG_FAULT_KERNEL && i-- > run->how->fault_at;) {
    if (program->ops[i].what == DAG_TASK && !run->facts->skipped[i]) run->faulty = i;
  }
  for (uint32_t i = 0; i < program->op_count; ++i) atomic_store(&run->records[i].start, UINT64_MAX);
  if (run->how->hold < 0) return;
  for (uint32_t i = 0; i < program->op_count; ++i) {
    uint32_t held = (uint32_t)run->how->hold;
    run->beside[i] = i != held && program->ops[i].what == DAG_TASK && !run->facts->skipped[i] &&
                     !(i < held ? run->facts->reach[i][held] : run->facts->reach[held][i]);
    run->beside_count += run->beside[i];
  }
}

slip__workspace_options_t dag_workspace_options(const dag_program_t *program, bool roomy) {
  return roomy ? graph_test_options(1024, 1 << 20, 4096) : graph_test_options(program->window, program->heap, program->pool);
}

// The variant is a scalar of the run's contract; kernels find the run itself by an address that stays the same.
static slip_status_t run_program(dag_run_t *run, slip__workspace_t *workspace, slip_otensor_t *tensors) {
  const dag_program_t *program = run->program;
  slip_object_entry_t entry = {"program", orchestrate, program->storage_count, 2};
  slip_object_t object = {.magic = SLIP_OBJECT_MAGIC,
                          .struct_size = sizeof(slip_object_t),
                          .abi_version = SLIP_ORCH_ABI_VERSION,
                          .entries = &entry,
                          .kernels = kernels,
                          .entry_count = 1,
                          .kernel_count = sizeof(kernels) / sizeof(kernels[0])};
  const uint64_t scalars[2] = {(uint64_t)(uintptr_t)run, program->variant};
  slip__run_t call = {.object = &object,
                      .tensor_count = program->storage_count,
                      .tensors = tensors,
                      .scalars = scalars,
                      .scalar_count = 2,
                      .flags = program->elements ? SLIP__RUN_PROGRAM : 0,
                      .site = run->how->site};
  return slip__engine_run(run->how->engine, workspace, &call);
}

void dag_execute(const dag_program_t *program, const dag_facts_t *facts, slip__workspace_t *workspace, const dag_how_t *how,
                 dag_outcome_t *out) {
  static _Thread_local dag_run_t run;
  slip_otensor_t tensors[DAG_STORAGES];
  memset(&run, 0, sizeof(run));
  memset(out, 0, sizeof(*out));
  run.program = program;
  run.facts = facts;
  run.how = how;
  run.outcome = out;
  prepare(&run);
  uint32_t fault = how->fault == DAG_FAULT_KERNEL && run.faulty == DAG_OPS ? DAG_NO_FAULT : how->fault;
  for (uint32_t i = 0; i < program->storage_count; ++i) {
    const dag_buffer_t *b = &program->buffers[i];
    int64_t dims[3] = {b->dims[0], b->dims[1], b->dims[2]};
    const int64_t flat[1] = {b->bytes};
    tensors[i] =
        how->flat ? graph_test_tensor(run.places[i], SLIP_DTYPE_U8, 1, flat) : graph_test_tensor(run.places[i], b->dtype, b->rank, dims);
  }
  uint64_t before = slip__workspace_task_count(workspace);
  slip_status_t status = run_program(&run, workspace, tensors);
  if (!run.orchestrated && fault != DAG_FAULT_KERNEL) fault = DAG_NO_FAULT;  // what only an orchestration can do wrong
  if (slip_status_code(status) != fault_codes[fault]) {
    char text[400];
    (void)slip_status_format(status, text, sizeof(text));
    complain(out, "the run ended with: %s", slip_status_is_ok(status) ? "OK, though a fault was put in" : text);
  }
  slip_status_free(status);
  check_tasks(&run, fault == DAG_NO_FAULT, slip__workspace_task_count(workspace) - before);
  check_order(&run);
  check_memory(&run);
  check_values(&run, fault == DAG_NO_FAULT);
}
