// SPDX-License-Identifier: Apache-2.0
// A random task graph as data: drawn from a seed, interpreted in plain C, executed by an engine, shrunk and printed.
//
// Everything is counted in bytes of *buffers*: the storages that the caller lends and the intermediates that the program makes. The
// interpreter knows nothing of the engine's regions: which tasks conflict is found out byte by byte.
#ifndef SLIP_TESTS_DAG_PROGRAM_H_
#define SLIP_TESTS_DAG_PROGRAM_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "slipstream/kernel/object.h"

#define DAG_STORAGES     4
#define DAG_BUFFERS      48  // storages first, then intermediates
#define DAG_OPS          96
#define DAG_ARGS         8
#define DAG_DEPS         8  // drawn at random; those that a manual scope or NO_DEP needs come on top
#define DAG_DEPTH        6
#define DAG_BYTES        16384  // of all buffers together
#define DAG_WORDS        (DAG_BYTES / 64)
#define DAG_LONG_SCALARS 6  // tasks with more scalars than fit a slot

typedef struct dag_view_t {
  uint8_t buffer, dtype, rank;
  int32_t offset;  // in bytes, of the element with index 0
  int32_t dims[SLIP_MAX_RANK];
  int32_t strides[SLIP_MAX_RANK];  // in elements
} dag_view_t;

// What the kernel does with an argument.
typedef enum dag_kind_e { DAG_READS, DAG_OVERWRITES, DAG_UPDATES } dag_kind_e;

typedef struct dag_arg_t {
  dag_view_t view;
  uint8_t access;  // slip_access_e
  uint8_t kind;    // dag_kind_e
} dag_arg_t;

typedef enum dag_what_e { DAG_TASK, DAG_CREATE, DAG_JOIN, DAG_SCOPE, DAG_END, DAG_READ_ELEMENT, DAG_WRITE_ELEMENT } dag_what_e;

typedef struct dag_op_t {
  uint8_t what;  // dag_what_e
  uint8_t mode;  // DAG_SCOPE: slip_scope_mode_e
  bool graph;    // DAG_SCOPE: the scope of a named graph, from slip_graph_begin() to slip_graph_end()
  uint8_t arg_count, dep_count;
  uint16_t id;              // its number, stable while the program is shrunk
  uint16_t deps[DAG_DEPS];  // ids of earlier tasks and joins
  uint8_t predicate_op;     // 0: none
  uint8_t buffer;           // DAG_CREATE
  bool gang, long_scalars;
  uint32_t blocks;
  uint32_t delay;
  uint64_t salt;
  int64_t index, literal;  // of the predicate, or of the element and its new value
  dag_view_t flag;         // of the predicate, or of the element
  dag_arg_t args[DAG_ARGS];
} dag_op_t;

typedef struct dag_buffer_t {
  int32_t bytes, base;  // |base|: where it lies among all bytes
  uint8_t dtype, rank;
  int32_t dims[3];
} dag_buffer_t;

// Programs whose views are plain boxes of their buffer.
typedef enum dag_simple_e { DAG_NOT_SIMPLE, DAG_TILES, DAG_HALOS, DAG_SLICES, DAG_SHIFTED } dag_simple_e;

typedef struct dag_program_t {
  uint64_t seed;
  // Of one execution: what tasks mix with their salts, and what the storages are filled with.
  uint32_t variant;
  uint32_t fill;
  uint32_t storage_count, buffer_count, op_count;
  int32_t bytes;
  uint8_t simple;  // dag_simple_e: nothing but what conflicts may be ordered
  bool elements;   // reads or writes elements: PROGRAM
  uint32_t window, heap, pool;
  dag_buffer_t buffers[DAG_BUFFERS];
  dag_op_t ops[DAG_OPS];
} dag_program_t;

typedef struct dag_bits_t {
  uint64_t words[DAG_WORDS];
} dag_bits_t;

// What is true of a program, found by interpreting it.
typedef struct dag_facts_t {
  bool valid;                       // else it reads what nobody wrote or uses what is not there
  bool skipped[DAG_OPS];            // the predicate is false
  uint64_t digests[DAG_OPS];        // of what the task read, or the element's value
  bool conflict[DAG_OPS][DAG_OPS];  // [earlier][later]: they share bytes that one of them writes, if they run
  bool must[DAG_OPS][DAG_OPS];      // [earlier][later]: they run and really share bytes that one of them writes
  bool explicit[DAG_OPS][DAG_OPS];  // the program has to order them itself
  bool reach[DAG_OPS][DAG_OPS];     // ordered, by way of others or not, because of what the program says
  uint8_t expected[DAG_BYTES];      // storages at the end
  // Arguments' bytes, all of them and those that are inferred from.
  dag_bits_t reads[DAG_OPS], writes[DAG_OPS], inferred_reads[DAG_OPS], inferred_writes[DAG_OPS];
} dag_facts_t;

static inline uint64_t dag_mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x632be59bd9b4e019);
  return x ^ (x >> 31);
}
int32_t dag_dtype_bytes(uint8_t dtype);
int64_t dag_view_count(const dag_view_t *view);
// Sets the view's bytes. False if the view touches a byte twice.
bool dag_view_bits(const dag_program_t *program, const dag_view_t *view, dag_bits_t *inout_bits);
bool dag_bits_meet(const dag_bits_t *a, const dag_bits_t *b);
// First contents of the storages.
void dag_fill(const dag_program_t *program, uint8_t *bytes);
uint64_t dag_long_scalar(uint64_t salt, uint32_t index);

void dag_generate(uint64_t seed, dag_program_t *out);
void dag_interpret(const dag_program_t *program, dag_facts_t *out);
// Brings the facts of a program up to date of which only |variant| and |fill| are others.
void dag_interpret_again(const dag_program_t *program, dag_facts_t *inout_facts);
// What a task hashes first.
static inline uint64_t dag_salt(const dag_program_t *program, const dag_op_t *op) {
  return program->variant ? dag_mix(op->salt, program->variant) : op->salt;
}
// The end of the scope that op |index| begins.
uint32_t dag_end_of(const dag_program_t *program, uint32_t index);
void dag_print(const dag_program_t *program, FILE *file);
// Drops ops, arguments and other detail while |fails| says yes and the program stays valid.
void dag_shrink(dag_program_t *inout_program, bool (*fails)(void *user, const dag_program_t *program), void *user, uint32_t seconds);

#endif  // SLIP_TESTS_DAG_PROGRAM_H_
