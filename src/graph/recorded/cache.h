// SPDX-License-Identifier: Apache-2.0
// Which runs are replayed: by entry and contract, without being asked.
//
// A run with a *site* (one for each prepared callable, slip__run_t) takes part, unless the workspace has a budget or crashes are reported.
// Its contract is everything an orchestration can see besides tensor data: which tensors share a storage and where in it they lie, shapes,
// strides, dtypes, directions, and all boundary scalars: C code is opaque, so a scalar may have shaped any number of the graph. Per
// contract:
//
//   first run    as always; few tasks: the site is left alone until it has many
//   second       as always, and recorded            -> what it did cannot be recorded: never again, and said once
//   third        as always, and recorded again      -> another graph than before: never again, and said once
//   from then    replayed
//
// A site's very first run only tells how many tasks it has: with few, it counts for no contract.
//
//   front   per workspace, single-owner: contract -> instance. A replay looks here only: no lock, no allocation, no system call.
//   back    per engine, under a lock: contract -> definition, shared by the workspaces. Least recently used go first; bounded in
//           number and bytes. An entry that leaves here lives on in the fronts that hold it until they need the place.
#ifndef SLIPSTREAM_SRC_GRAPH_RECORDED_CACHE_H_
#define SLIPSTREAM_SRC_GRAPH_RECORDED_CACHE_H_

#include "graph/engine.h"

#define SLIP__RECORD_MIN_TASKS   4u  // with fewer tasks a run is as fast as a replay
#define SLIP__RECORD_MAX_NODES   16384u
#define SLIP__RECORD_MAX_EDGES   (1u << 18)
#define SLIP__RECORD_MAX_BYTES   (UINT64_C(64) << 20)  // of one definition with its heap
#define SLIP__RECORD_BACK_COUNT  64u
#define SLIP__RECORD_BACK_BYTES  (UINT64_C(64) << 20)  // of all definitions of an engine
#define SLIP__RECORD_FRONT_COUNT 16u
#define SLIP__RECORD_FRONT_BYTES (UINT64_C(128) << 20)  // of all instances of a workspace

typedef struct slip__record_back_t slip__record_back_t;
typedef struct slip__record_front_t slip__record_front_t;

typedef struct slip__record_stats_t {
  uint64_t recorded;  // definitions made
  uint64_t refused;   // contracts that cannot be replayed
  uint64_t evicted;   // definitions that left
  uint64_t bytes;     // of the definitions kept
  uint32_t count;
  const char *reason;  // of the last refusal; NULL: none so far
} slip__record_stats_t;

slip_status_t slip__record_back_create(slip_allocator_t allocator, slip__record_back_t **out) SLIP_MUST_USE;
void slip__record_back_destroy(slip__record_back_t *back);  // NULL is fine; all fronts are gone
// Thread-safe; takes the lock.
slip__record_stats_t slip__record_stats(slip__engine_t *engine);

// Of all runs and named graphs. Each number by itself: relaxed.
typedef struct slip__record_counts_t {
  _Atomic uint64_t recorded;  // recordings that another one was compared with, or will be
  _Atomic uint64_t refused;   // contracts that are never replayed
} slip__record_counts_t;
slip__record_counts_t *slip__record_counts(const slip__engine_t *engine);
// True the first time for |id|, while there is room in what an engine remembers (report.h). Thread-safe; takes the lock.
bool slip__record_says(slip__engine_t *engine, uint64_t id);

// Before a run with a site. True: it has been replayed, |workspace->status| is its result. False: it is to be run; |workspace->recorder| is
// then set if it is to be recorded.
bool slip__record_begin(slip__workspace_t *workspace, const slip__run_t *run);
// After such a run; |task_count| is how many tasks it submitted.
void slip__record_end(slip__workspace_t *workspace, const slip__run_t *run, uint64_t task_count);
void slip__record_front_destroy(slip__workspace_t *workspace);
uint64_t slip__record_front_bytes(const slip__workspace_t *workspace);
uint64_t slip__record_replays(const slip__workspace_t *workspace);  // runs replayed so far, named graphs not counted

#endif  // SLIPSTREAM_SRC_GRAPH_RECORDED_CACHE_H_
