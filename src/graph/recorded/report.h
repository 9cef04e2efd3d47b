// SPDX-License-Identifier: Apache-2.0
// What is said about graphs that are not replayed: once for each key of a callable's entry, through os/log.h.
//
// Cold, but for slip__report_once() of a key that has been said, which is asked at every begin of a graph that does not fit.
#ifndef SLIPSTREAM_SRC_GRAPH_RECORDED_REPORT_H_
#define SLIPSTREAM_SRC_GRAPH_RECORDED_REPORT_H_

#include "graph/recorded/definition.h"
#include "graph/workspace.h"

#define SLIP__REPORT_LINES 256u  // of an engine; what comes after is counted only
#define SLIP__REPORT_TEXT  320u

typedef enum slip__report_kind_e {
  SLIP__REPORT_REFUSED = 1,   // it is never replayed
  SLIP__REPORT_MISMATCH = 2,  // its key came with another contract
  SLIP__REPORT_UNFIT = 3,     // it cannot be recorded where it is
} slip__report_kind_e;

// What has been said; of an engine, under the lock of its recordings (cache.c).
typedef struct slip__report_said_t {
  uint32_t count;
  bool full_said;
  uint64_t ids[SLIP__REPORT_LINES];
} slip__report_said_t;

// Of a workspace: what it need not ask for again. By the id's low bits.
typedef struct slip__report_memo_t {
  uint64_t ids[16];
} slip__report_memo_t;

// True the first time for |key| of the run's entry and |kind|, in all workspaces of the engine.
bool slip__report_once(slip__workspace_t *workspace, slip__report_memo_t *memo, uint64_t key, slip__report_kind_e kind);
// The line: |what| happened to graph |key|, |why|, and what happens now.
void slip__report_graph(const slip__workspace_t *workspace, uint64_t key, const char *what, const char *why, const char *now);
// Writes the first difference between two recordings of one graph, as text that begins with a space; empty if there is none.
void slip__report_difference(const slip__definition_block_t *first, const slip__definition_block_t *second, const slip_object_t *object,
                             char *text, size_t capacity);
// Writes dtype, dims and strides, as "i64 [4, 8] with strides (8, 1)".
void slip__report_shape(uint32_t dtype, uint32_t rank, const int64_t *dims, const int64_t *strides, char *text, size_t capacity);

#endif  // SLIPSTREAM_SRC_GRAPH_RECORDED_REPORT_H_
