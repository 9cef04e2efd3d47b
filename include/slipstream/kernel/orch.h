// SPDX-License-Identifier: Apache-2.0
// Orchestration ABI: what the control program of a callable is given.
//
// An orchestration runs on one thread, submits tasks and returns; the tasks run concurrently, ordered by the dependencies inferred from the
// regions they read and write (read after write, write after write, write after read) plus the explicit ones. It may slice, reshape and
// allocate tensors, loop and branch, but never touches tensor data (read_element/write_element are for PROGRAM callables).
//
// Errors are sticky: after the first failure (of a submit, a create, a scope, or fail()) every further call is a no-op that returns 0 or a
// null tensor, no further task runs, and the launch reports that first error. An orchestration therefore needs no error checks of its own.
//
// The binary has no undefined symbols: everything is reached through the function table, whose address is the first word of slip_orch_t.
#ifndef SLIPSTREAM_KERNEL_ORCH_H_
#define SLIPSTREAM_KERNEL_ORCH_H_

#include "slipstream/kernel/tile.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLIP_ORCH_ABI_VERSION 1
#define SLIP_TASK_MAX_DEPS    64
#define SLIP_TASK_MAX_BLOCKS  (1u << 24)  // more is a mistake in the arithmetic: a block is worth microseconds, so many take minutes

// Depth of a boundary tensor that the entry declares as IN: tasks only read it.
#define SLIP_OTENSOR_READ_ONLY UINT32_MAX

// A tensor as an orchestration holds it: a value, freely copied. |view| is what a kernel will see.
// The fields after |view| belong to the runtime: which storage it lies in, and for an intermediate the scope that owns it.
typedef struct slip_otensor_t {
  slip_ktensor_t view;
  void *storage;           // base of the storage: overlap is looked for inside one storage only
  uint64_t storage_bytes;  // size of the storage
  uint64_t creator;        // task that allocated it (its ticket in the ring); 0 for a boundary tensor
  uint32_t generation;     // generation of the owning scope; 0 for a boundary tensor
  uint32_t depth;          // depth of the owning scope; of a boundary tensor 0, or SLIP_OTENSOR_READ_ONLY
} slip_otensor_t;

// Names a submitted task; 0 names none.
typedef uint64_t slip_task_t;

typedef enum slip_access_e {
  SLIP_ACCESS_IN = 1,   // read
  SLIP_ACCESS_OUT = 2,  // runtime allocates from the heap ring: |tensor| holds dtype, rank, dims on entry and is completed by submit
  SLIP_ACCESS_OUT_EXISTING = 3,  // overwrite of an existing tensor or view; ordered after its earlier readers and writers
  SLIP_ACCESS_INOUT = 4,         // read and write
  SLIP_ACCESS_NO_DEP = 5,        // no inferred dependency; only the edge to the tensor's creator is kept
} slip_access_e;

typedef struct slip_oarg_t {
  slip_otensor_t *tensor;  // borrowed for the call; written for SLIP_ACCESS_OUT
  uint32_t access;         // slip_access_e
  uint32_t reserved;
} slip_oarg_t;

typedef enum slip_predicate_op_e {
  SLIP_PREDICATE_EQ = 1,
  SLIP_PREDICATE_NE = 2,
  SLIP_PREDICATE_LT = 3,
  SLIP_PREDICATE_LE = 4,
  SLIP_PREDICATE_GT = 5,
  SLIP_PREDICATE_GE = 6,
} slip_predicate_op_e;

// The task runs only if `tensor[index] op literal`, read when the task is dispatched (the read is a dependency like any IN).
// Integer dtypes and bool only; |index| counts elements of the flattened row-major view. A false predicate retires the task unrun and
// releases its consumers.
typedef struct slip_predicate_t {
  const slip_otensor_t *tensor;
  int64_t index;
  int64_t literal;
  uint32_t op;  // slip_predicate_op_e
  uint32_t reserved;
} slip_predicate_t;

typedef enum slip_submit_bits_e {
  SLIP_SUBMIT_NONE = 0,
  SLIP_SUBMIT_GANG = 1,  // all blocks start together (they may wait for each other); needs block_count cores
} slip_submit_bits_e;

typedef struct slip_submit_t {
  uint32_t struct_size;
  uint32_t kernel;             // index into the object's kernel table
  const slip_oarg_t *tensors;  // in the kernel's declared order
  const uint64_t *scalars;
  uint32_t tensor_count;              // <= SLIP_KERNEL_MAX_TENSORS
  uint32_t scalar_count;              // <= SLIP_KERNEL_MAX_SCALARS
  uint32_t block_count;               // SPMD blocks, <= SLIP_TASK_MAX_BLOCKS; 0 means 1
  uint32_t core;                      // slip_core_e
  uint32_t flags;                     // slip_submit_bits_e
  uint32_t dep_count;                 // <= SLIP_TASK_MAX_DEPS
  const slip_task_t *deps;            // explicit dependencies, on top of the inferred ones (the only ones in a manual scope)
  const slip_predicate_t *predicate;  // NULL: always run
  const char *file;                   // where the submit stands, for messages: lives as long as the run; may be NULL
  uint32_t line;
  uint32_t derived;  // bit i: scalar i came from graph_scalar() with this place; 0 where that is not used
} slip_submit_t;

typedef enum slip_scope_mode_e {
  SLIP_SCOPE_AUTO = 0,    // dependencies inferred
  SLIP_SCOPE_MANUAL = 1,  // explicit dependencies only
} slip_scope_mode_e;

typedef struct slip_orch_api_t slip_orch_api_t;

// The running orchestration; opaque beyond its first word.
typedef struct slip_orch_t {
  const slip_orch_api_t *api;
} slip_orch_t;

struct slip_orch_api_t {
  uint32_t struct_size;
  uint32_t abi_version;  // SLIP_ORCH_ABI_VERSION
  slip_task_t (*submit)(slip_orch_t *o, const slip_submit_t *submit);
  // Intermediates made inside a scope die when it ends and all their users have run. Scopes nest; the deepest rings are shared from depth 4
  // on.
  void (*scope_begin)(slip_orch_t *o, uint32_t mode);
  void (*scope_end)(slip_orch_t *o);
  // Allocates an uninitialised intermediate from |tensor|'s dtype, rank and dims.
  void (*create)(slip_orch_t *o, slip_otensor_t *tensor);
  // A task that runs nothing and is complete when |deps| are: names a set of tasks by one handle.
  slip_task_t (*join)(slip_orch_t *o, const slip_task_t *deps, uint32_t dep_count);
  uint32_t (*available_cores)(slip_orch_t *o, uint32_t core);
  // PROGRAM callables only; wait for the producer. |index| counts elements of the flattened view; the value is bits zero-extended to 64.
  uint64_t (*read_element)(slip_orch_t *o, const slip_otensor_t *tensor, int64_t index);
  void (*write_element)(slip_orch_t *o, const slip_otensor_t *tensor, int64_t index, uint64_t bits);
  // Ends the run with SLIP_CODE_GRAPH_USER_FAIL; |code| and |text| go into the message (|text| is copied, may be NULL).
  void (*fail)(slip_orch_t *o, int32_t code, const char *text);
  // True once an error is latched: lets a long loop stop early.
  int32_t (*failed)(slip_orch_t *o);
  // From here on entries are in the table if |struct_size| says so; the conveniences look. See slip_graph_begin().
  int32_t (*graph_begin)(slip_orch_t *o, uint64_t key, const slip_otensor_t *tensors, uint32_t tensor_count, const uint64_t *scalars,
                         uint32_t scalar_count);
  void (*graph_end)(slip_orch_t *o);
  // The value of boundary scalar |index| * mul + add of the innermost graph, for the task scalar at |place|.
  uint64_t (*graph_scalar)(slip_orch_t *o, const uint64_t *place, uint32_t index, uint64_t mul, uint64_t add);
};

// The boundary arguments of one call: the entry's tensors and scalars, each in declared order. The orchestration may copy and view the
// tensors.
typedef struct slip_oargs_t {
  slip_otensor_t *tensors;
  const uint64_t *scalars;
  uint32_t tensor_count;
  uint32_t scalar_count;
} slip_oargs_t;

// An entry of a callable.
typedef void (*slip_orch_fn_t)(slip_orch_t *o, const slip_oargs_t *args);

// --- Conveniences over the table (all inline; no symbols) -------------------------------------------------------------------------------

// A growing submit: start with slip_task_begin(), add arguments in the kernel's declared order, end with slip_task_submit().
typedef struct slip_task_builder_t {
  slip_submit_t submit;
  slip_oarg_t tensors[SLIP_KERNEL_MAX_TENSORS];
  uint64_t scalars[SLIP_KERNEL_MAX_SCALARS];
  slip_task_t deps[SLIP_TASK_MAX_DEPS];
} slip_task_builder_t;

static inline void slip_task_begin_at(slip_task_builder_t *b, uint32_t kernel, uint32_t block_count, const char *file, uint32_t line) {
  b->submit.struct_size = (uint32_t)sizeof(slip_submit_t);
  b->submit.kernel = kernel;
  b->submit.tensors = b->tensors;
  b->submit.scalars = b->scalars;
  b->submit.tensor_count = 0;
  b->submit.scalar_count = 0;
  b->submit.block_count = block_count;
  b->submit.core = SLIP_CORE_ANY;
  b->submit.flags = SLIP_SUBMIT_NONE;
  b->submit.dep_count = 0;
  b->submit.deps = b->deps;
  b->submit.predicate = NULL;
  b->submit.file = file;
  b->submit.line = line;
  b->submit.derived = 0;
}
#define slip_task_begin(builder, kernel, block_count) slip_task_begin_at((builder), (kernel), (block_count), __FILE__, __LINE__)

// An argument too many is counted but not stored, so that submit refuses it.
static inline void slip_task_tensor(slip_task_builder_t *b, uint32_t access, slip_otensor_t *tensor) {
  uint32_t n = b->submit.tensor_count++;
  if (n < SLIP_KERNEL_MAX_TENSORS) {
    b->tensors[n].tensor = tensor;
    b->tensors[n].access = access;
    b->tensors[n].reserved = 0;
  }
}
static inline void slip_task_in(slip_task_builder_t *b, slip_otensor_t *t) {
  slip_task_tensor(b, SLIP_ACCESS_IN, t);
}
static inline void slip_task_out(slip_task_builder_t *b, slip_otensor_t *t) {
  slip_task_tensor(b, SLIP_ACCESS_OUT, t);
}
static inline void slip_task_out_existing(slip_task_builder_t *b, slip_otensor_t *t) {
  slip_task_tensor(b, SLIP_ACCESS_OUT_EXISTING, t);
}
static inline void slip_task_inout(slip_task_builder_t *b, slip_otensor_t *t) {
  slip_task_tensor(b, SLIP_ACCESS_INOUT, t);
}
static inline void slip_task_no_dep(slip_task_builder_t *b, slip_otensor_t *t) {
  slip_task_tensor(b, SLIP_ACCESS_NO_DEP, t);
}
static inline void slip_task_scalar(slip_task_builder_t *b, uint64_t bits) {
  uint32_t n = b->submit.scalar_count++;
  if (n < SLIP_KERNEL_MAX_SCALARS) b->scalars[n] = bits;
}
static inline void slip_task_after(slip_task_builder_t *b, slip_task_t task) {
  uint32_t n = b->submit.dep_count++;
  if (n < SLIP_TASK_MAX_DEPS) b->deps[n] = task;
}
// Runs the task only where |predicate|, borrowed until the submit, holds.
static inline void slip_task_if(slip_task_builder_t *b, const slip_predicate_t *predicate) {
  b->submit.predicate = predicate;
}
// All blocks start together; needs that many cores (see slip_orch_available_cores()).
static inline void slip_task_gang(slip_task_builder_t *b) {
  b->submit.flags |= SLIP_SUBMIT_GANG;
}
static inline slip_task_t slip_task_submit(slip_orch_t *o, slip_task_builder_t *b) {
  return o->api->submit(o, &b->submit);
}

static inline void slip_scope_begin(slip_orch_t *o, uint32_t mode) {
  o->api->scope_begin(o, mode);
}
static inline void slip_scope_end(slip_orch_t *o) {
  o->api->scope_end(o);
}
// One handle for a set of tasks: done when all of |deps| are.
static inline slip_task_t slip_task_join(slip_orch_t *o, const slip_task_t *deps, uint32_t dep_count) {
  return o->api->join(o, deps, dep_count);
}

// A part of the orchestration that is recorded and then replayed, with other addresses and scalars:
//
//   if (slip_graph_begin(o, key, tensors, 3, scalars, 1)) {
//     ... submits, scopes, intermediates ...
//   }
//   slip_graph_end(o);
//
// begin returns 1 if the body must run, and 0 if it was replayed, or an error is latched. The first two calls with a contract run the body
// and record it; if both made the same graph, later ones replay it: no submit, no dependency lookup. A replay waits for the earlier tasks
// that it must follow and is over when begin returns. The contract is the callable's entry, |key|, and of the |tensor_count| tensors:
// shapes, strides, dtypes, which are read-only, and how those that share bytes lie to each other. Another contract is another graph; a
// context keeps some, and records anew what it has given up.
//
// The body must depend on nothing else: whatever else shapes it (a layer's kind, a number of rounds) belongs into |key|. It uses no tensors
// but the |tensors| and what it allocates; it looks at no element; explicit dependencies name tasks of the body. What it allocates and
// submits is not used after graph_end: it runs in a scope of its own. A body that breaks this in a way that can be seen is never replayed.
// |scalars| reach tasks by slip_task_scalar_from(). A value computed from them in any other way makes two recordings differ, or equals one
// of them, and the graph is then not replayed; until calls with changed values have shown that there is none, a replay needs the values
// that were recorded. That comparison is evidence, not proof: a plain scalar such as |s / 1000| that stays the same while it is compared
// cannot be told from a constant, so do not use one.
//
// Graphs may nest: the outer one is then not recorded, the inner ones are. Inside SLIP_SCOPE_MANUAL, with a workspace budget, with
// reports of crashes, and with more than 32 tensors or 64 scalars the body runs every time. |tensors| is borrowed for the call, |scalars|
// until graph_end; each may be NULL if its count is 0. A graph that is not recorded or never replayed, or that comes with another contract
// than before, runs its body and says so once for each key, on the standard error (environment SLIP_LOG=off: it does not). Without recorded
// graphs in the library begin returns 1.
static inline int32_t slip_graph_begin(slip_orch_t *o, uint64_t key, const slip_otensor_t *tensors, uint32_t tensor_count,
                                       const uint64_t *scalars, uint32_t scalar_count) {
  if (o->api->struct_size < sizeof(slip_orch_api_t)) return 1;
  return o->api->graph_begin(o, key, tensors, tensor_count, scalars, scalar_count);
}
// Once for each begin, whatever that returned.
static inline void slip_graph_end(slip_orch_t *o) {
  if (o->api->struct_size >= sizeof(slip_orch_api_t)) o->api->graph_end(o);
}
// The task's next scalar: boundary scalar |index| of the innermost open graph * mul + add, modulo 2^64 on the bits (so for integers of 64
// bits, signed or not, and of narrower ones the low bits; any type if mul is 1 and add 0). Ends the run outside of a graph, or if the graph
// has no such scalar.
static inline void slip_task_scalar_from(slip_orch_t *o, slip_task_builder_t *b, uint32_t index, uint64_t mul, uint64_t add) {
  uint32_t n = b->submit.scalar_count++;
  if (n >= SLIP_KERNEL_MAX_SCALARS) return;
  if (o->api->struct_size < sizeof(slip_orch_api_t)) {
    o->api->fail(o, -4, "slip_task_scalar_from() needs a library with recorded graphs");
    return;
  }
  b->scalars[n] = o->api->graph_scalar(o, &b->scalars[n], index, mul, add);
  b->submit.derived |= 1u << n;
}

// Threads that run tasks of |core|, for choosing the number of blocks; 0 for a kind that does not exist. Where the engine runs on CPU
// threads (cpu, sim) every thread runs every kind, so all kinds give the same number.
static inline uint32_t slip_orch_available_cores(slip_orch_t *o, uint32_t core) {
  return o->api->available_cores(o, core);
}
// True once an error is latched: lets a long loop stop early.
static inline int32_t slip_orch_failed(slip_orch_t *o) {
  return o->api->failed(o);
}
static inline void slip_orch_fail(slip_orch_t *o, int32_t code, const char *text) {
  o->api->fail(o, code, text);
}

// A description for slip_task_out() and create(): contiguous row-major, no storage yet.
static inline slip_otensor_t slip_otensor_describe(uint8_t dtype, uint8_t rank, const int64_t *dims) {
  slip_otensor_t t;
  int64_t stride = 1;
  t.view.data = NULL;
  t.view.dtype = dtype;
  t.view.rank = rank;
  t.view.reserved0 = 0;
  t.view.reserved1 = 0;
  for (int i = SLIP_MAX_RANK - 1; i >= 0; --i) {
    t.view.dims[i] = i < rank ? dims[i] : 1;
    t.view.strides[i] = i < rank ? stride : 0;
    if (i < rank) stride *= dims[i];
  }
  t.storage = NULL;
  t.storage_bytes = 0;
  t.creator = 0;
  t.generation = 0;
  t.depth = 0;
  return t;
}
static inline slip_otensor_t slip_otensor_create(slip_orch_t *o, uint8_t dtype, uint8_t rank, const int64_t *dims) {
  slip_otensor_t t = slip_otensor_describe(dtype, rank, dims);
  o->api->create(o, &t);
  return t;
}

static inline int64_t slip_dtype_carrier_bytes(uint8_t dtype) {
  switch (dtype) {
#define SLIP_DTYPE_BYTES(name, text, number, bytes, kind, dl_code, dl_bits, dl_lanes) \
  case number:                                                                        \
    return bytes;
    SLIP_DTYPE_TABLE(SLIP_DTYPE_BYTES)
#undef SLIP_DTYPE_BYTES
    default:
      return 0;
  }
}

// Ends the run with |file|:|line| and |text|, whose '%'s stand for the |numbers| in turn.
static __attribute__((noinline, cold, unused)) void slip_orch_fail_at(slip_orch_t *o, const char *file, uint32_t line, const char *text,
                                                                      const int64_t *numbers) {
  const int64_t place = (int64_t)line, *number = &place;
  char buffer[256], digits[20];
  uint32_t used = 0;
  for (int part = 0; part < 3; ++part) {
    for (const char *c = part == 0 ? file : part == 1 ? ":%: " : text; *c && used + 24 < sizeof(buffer); ++c) {
      if (*c != '%' || part == 0) {
        buffer[used++] = *c;
        continue;
      }
      uint32_t count = 0;
      uint64_t value = *number < 0 ? 0 - (uint64_t)*number : (uint64_t)*number;
      if (*number < 0) buffer[used++] = '-';
      do digits[count++] = (char)('0' + value % 10);
      while (value /= 10);
      while (count) buffer[used++] = digits[--count];
      number = part == 1 ? numbers : number + 1;
    }
  }
  buffer[used] = 0;
  o->api->fail(o, -4, buffer);
}

// View: |length| elements of dimension |axis| from |start|. Out of range ends the run.
#define slip_otensor_slice(...) slip_otensor_slice_at(__FILE__, __LINE__, __VA_ARGS__)
static inline slip_otensor_t slip_otensor_slice_at(const char *file, uint32_t line, slip_orch_t *o, slip_otensor_t t, uint32_t axis,
                                                   int64_t start, int64_t length) {
  if (axis >= t.view.rank || start < 0 || length < 0 || start > t.view.dims[axis] || length > t.view.dims[axis] - start) {
    const int64_t numbers[4] = {length, start, axis, axis < t.view.rank ? t.view.dims[axis] : t.view.rank};
    slip_orch_fail_at(o, file, line,
                      axis < t.view.rank ? "slice of % elements from % leaves dimension %, which has %"
                                         : "slice of % elements from % of dimension % of a tensor of rank %",
                      numbers);
    return t;
  }
  t.view.data = (char *)t.view.data + start * t.view.strides[axis] * slip_dtype_carrier_bytes(t.view.dtype);
  t.view.dims[axis] = length;
  return t;
}
// View: dimensions |a| and |b| exchanged.
#define slip_otensor_transpose(...) slip_otensor_transpose_at(__FILE__, __LINE__, __VA_ARGS__)
static inline slip_otensor_t slip_otensor_transpose_at(const char *file, uint32_t line, slip_orch_t *o, slip_otensor_t t, uint32_t a,
                                                       uint32_t b) {
  int64_t dim, stride;
  if (a >= t.view.rank || b >= t.view.rank) {
    const int64_t numbers[3] = {a, b, t.view.rank};
    slip_orch_fail_at(o, file, line, "transpose of dimensions % and % of a tensor of rank %", numbers);
    return t;
  }
  dim = t.view.dims[a];
  stride = t.view.strides[a];
  t.view.dims[a] = t.view.dims[b];
  t.view.strides[a] = t.view.strides[b];
  t.view.dims[b] = dim;
  t.view.strides[b] = stride;
  return t;
}
// View: same elements in row-major order under other dims. Only a contiguous tensor can be reshaped; the element count must agree.
#define slip_otensor_reshape(...) slip_otensor_reshape_at(__FILE__, __LINE__, __VA_ARGS__)
static inline slip_otensor_t slip_otensor_reshape_at(const char *file, uint32_t line, slip_orch_t *o, slip_otensor_t t, uint8_t rank,
                                                     const int64_t *dims) {
  int64_t expected = 1, count = 1, wanted = 1;
  int bad = rank > SLIP_MAX_RANK;
  for (int i = t.view.rank - 1; i >= 0; --i) {
    if (t.view.dims[i] != 1 && t.view.strides[i] != expected) bad = 1;
    expected *= t.view.dims[i];
    count *= t.view.dims[i];
  }
  for (int i = 0; !bad && i < rank; ++i) {
    if (dims[i] < 0 || __builtin_mul_overflow(wanted, dims[i], &wanted)) bad = 1;
  }
  if (bad || wanted != count) {
    const int64_t numbers[2] = {count, wanted};
    slip_orch_fail_at(
        o, file, line,
        bad ? "reshape needs a contiguous tensor, rank <= 5 and dims >= 0" : "reshape of % elements to %: the element count must stay",
        numbers);
    return t;
  }
  {
    slip_otensor_t r = slip_otensor_describe(t.view.dtype, rank, dims);
    r.view.data = t.view.data;
    r.storage = t.storage;
    r.storage_bytes = t.storage_bytes;
    r.creator = t.creator;
    r.generation = t.generation;
    r.depth = t.depth;
    return r;
  }
}

#ifdef __cplusplus
}
#endif

#endif  // SLIPSTREAM_KERNEL_ORCH_H_
