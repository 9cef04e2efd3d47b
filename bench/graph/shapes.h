// SPDX-License-Identifier: Apache-2.0
// The workloads as orchestrations: what a user of the engine writes. Tasks and their plain loops are those of work.h.
#ifndef SLIP_BENCH_GRAPH_SHAPES_H_
#define SLIP_BENCH_GRAPH_SHAPES_H_

#include "slipstream/kernel/object.h"

#define BENCH_SUBMIT 8192  // tasks of the submit workload: fewer than the window, so that the submitter never has to help

// Entries of bench_object. Each has one scalar, the size of the workload.
typedef enum bench_entry_e {
  BENCH_ENTRY_INDEPENDENT,
  BENCH_ENTRY_BLOCKS,
  BENCH_ENTRY_CHAIN,
  BENCH_ENTRY_WAVEFRONT,
  BENCH_ENTRY_PHASES,
  BENCH_ENTRY_NODES,  // once through the random graph
  BENCH_ENTRY_HALOS,
  BENCH_ENTRY_SUBMIT,
  BENCH_ENTRY_SINGLE,
  BENCH_ENTRY_COUNT,
} bench_entry_e;

extern const slip_object_t bench_object;
extern const slip_object_t bench_decoder_object;  // one entry: the graph of decoder.h

// Kernels of bench_object for recordings: the node of the random graph with that many predecessors (tensors: its word, theirs; scalar: its
// number), and the cell of the wavefront (tensors: above, left, itself).
uint32_t bench_node_kernel(int parent_count);
uint32_t bench_cell_kernel(void);

// Call once, before any other: makes the random graph.
void bench_shapes_initialize(void);

// ns that the loop of the last BENCH_ENTRY_SUBMIT took, without what came after it.
double bench_submit_ns(void);

// Rounds of the unit of work in every kernel: as bench_rounds, which is each file's own.
void bench_shapes_set_rounds(int rounds);

#endif  // SLIP_BENCH_GRAPH_SHAPES_H_
