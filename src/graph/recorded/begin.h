// SPDX-License-Identifier: Apache-2.0
// Graphs that an orchestration names itself: slip_graph_begin(), slip_graph_end(), slip_task_scalar_from() (kernel/orch.h).
//
// A contract is the object and its entry, the user's key, and of the tensors: which of them share bytes and how these lie to each other,
// dims, strides, dtypes, and which are read-only. Where a tensor lies in its storage is not part of it: the next layer's slice is the same
// graph. Boundary scalars are not part of it either, once that is known to be right. Per contract:
//
//   first call    the body runs and is recorded             -> what it did cannot be recorded: never again
//   second call   the body runs, is recorded and compared   -> another graph than before: never again
//   from then     replayed, if each scalar is free or has the value it was recorded with; else the body runs, is recorded and compared
//
// A scalar becomes free once two calls in which it alone of those not free yet had another value, each time a new one, made the same graph:
// C code is opaque, and a value that went into the graph other than by slip_task_scalar_from() shows in the comparison. One at a time,
// since what two scalars have in common would not show where both change alike. For the same reason a recording is refused in which a plain
// task scalar has the bits of a boundary scalar (0 and 1 apart). A contract is given up whose scalars, over SLIP__BEGIN_PATIENCE
// recordings, do not become free.
//
// A replay waits for the tasks that it must follow, and is run to its end before the orchestration goes on; so nothing that comes later has
// to wait for it, and its instance is never in flight when it is bound again or given up.
//
// Everything here belongs to the workspace: single-owner, the submitter. Bodies run in a scope of their own, whether recorded or not, so
// that an intermediate used behind its end is refused in the first call as it would be in the last. While a whole run is being recorded
// (cache.h) bodies simply are part of it.
#ifndef SLIPSTREAM_SRC_GRAPH_RECORDED_BEGIN_H_
#define SLIPSTREAM_SRC_GRAPH_RECORDED_BEGIN_H_

#include "graph/recorded/recorder.h"

#define SLIP__BEGIN_COUNT    16u                    // contracts of a workspace
#define SLIP__BEGIN_BYTES    (UINT64_C(128) << 20)  // of all their definitions and instances
#define SLIP__BEGIN_LEVELS   16u                    // begins inside each other
#define SLIP__BEGIN_TENSORS  32u
#define SLIP__BEGIN_SCALARS  64u
#define SLIP__BEGIN_PATIENCE 64u

typedef struct slip__begins_t slip__begins_t;

typedef struct slip__begin_stats_t {
  uint64_t recorded;  // bodies, each time
  uint64_t replayed;
  uint64_t refused;  // contracts that cannot be replayed
  uint64_t evicted;
  uint64_t bytes;
  const char *reason;  // of the last refusal; NULL: none so far
} slip__begin_stats_t;

// The table's functions.
int32_t slip__begin_graph(slip_orch_t *o, uint64_t key, const slip_otensor_t *tensors, uint32_t tensor_count, const uint64_t *scalars,
                          uint32_t scalar_count);
void slip__begin_end(slip_orch_t *o);
uint64_t slip__begin_scalar(slip_orch_t *o, const uint64_t *place, uint32_t index, uint64_t mul, uint64_t add);

// The orchestration has returned: latches an error if a graph is still open, and ends its recording.
void slip__begins_end_run(slip__workspace_t *workspace);
void slip__begins_destroy(slip__workspace_t *workspace);
slip__begin_stats_t slip__begin_stats(const slip__workspace_t *workspace);

// The bytes of |tensor|, as a group of its own. False if it has none, or they do not lie inside its storage.
bool slip__bound_of(const slip_otensor_t *tensor, slip__bound_t *out);

#endif  // SLIPSTREAM_SRC_GRAPH_RECORDED_BEGIN_H_
