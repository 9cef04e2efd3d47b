// SPDX-License-Identifier: Apache-2.0
// Recording a run while it executes.
//
// The run is an ordinary one: its tasks execute as they are submitted, and everything it does or fails at is as always. Its calls go
// through another function table (slip__recorder_api), which hands them on and notes what they did: nodes with their arguments as base and
// offset, dependencies inferred anew with nothing retired (infer.h), intermediates placed in a heap of the definition's own. What cannot be
// recorded (an element access, a limit, a tensor of unknown origin) ends the recording, not the run.
//
// Heap: intermediates lie one behind the other while there is room below SLIP__RECORD_HEAP_FRESH, so that reuse orders nothing; then the
// places of scopes that are over are taken again. Their bytes are one storage for inference: whoever takes a place follows its last users.
#ifndef SLIPSTREAM_SRC_GRAPH_RECORDED_RECORDER_H_
#define SLIPSTREAM_SRC_GRAPH_RECORDED_RECORDER_H_

#include "graph/recorded/definition.h"
#include "graph/workspace.h"

#define SLIP__RECORD_HEAP_FRESH (UINT64_C(8) << 20)

typedef struct slip__recorder_t slip__recorder_t;

// A boundary tensor of a graph inside of a run (begin.h): its bytes, and the group of tensors with which it shares some.
typedef struct slip__bound_t {
  uintptr_t low, end;  // end == low: it is empty
  uintptr_t base;      // lowest byte of the group
  uint32_t root;       // the group's first tensor
} slip__bound_t;

// Such a graph's boundary: outlives the recorder. |read| and |written| are set by the recorder, a bit for each tensor.
typedef struct slip__boundary_t {
  slip__bound_t *bounds;
  const uint64_t *scalars;
  uint32_t tensor_count, scalar_count;
  uint32_t read, written;
} slip__boundary_t;

extern const slip_orch_api_t slip__recorder_api;

// A recorder for |run|, which |workspace| is about to start. OUT_OF_MEMORY.
slip_status_t slip__recorder_create(slip__workspace_t *workspace, const slip__run_t *run, const slip__builder_limits_t *limits,
                                    slip__recorder_t **out) SLIP_MUST_USE;
// A recorder for the part of a run that has |boundary|: what it does with other tensors, or with tasks from before, ends the recording.
slip_status_t slip__recorder_create_part(slip__workspace_t *workspace, slip__boundary_t *boundary, const slip__builder_limits_t *limits,
                                         slip__recorder_t **out) SLIP_MUST_USE;
// Ends the recording; |why| is constant text.
void slip__recorder_refuse(slip__recorder_t *recorder, const char *why);
// The task scalar at |place| will be boundary scalar |index| * mul + add.
void slip__recorder_derive(slip__recorder_t *recorder, const uint64_t *place, uint32_t index, uint64_t mul, uint64_t add);
// The definition, or NULL with the reason in |*out_reason| (constant text) if the run could not be recorded. The recorder is gone.
slip__definition_t *slip__recorder_finish(slip__recorder_t *recorder, uint32_t lane_count, const char **out_reason);

#endif  // SLIPSTREAM_SRC_GRAPH_RECORDED_RECORDER_H_
