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

extern const slip_orch_api_t slip__recorder_api;

// A recorder for |run|, which |workspace| is about to start. OUT_OF_MEMORY.
slip_status_t slip__recorder_create(slip__workspace_t *workspace, const slip__run_t *run, const slip__builder_limits_t *limits,
                                    slip__recorder_t **out) SLIP_MUST_USE;
// The definition, or NULL with the reason in |*out_reason| (constant text) if the run could not be recorded. The recorder is gone.
slip__definition_t *slip__recorder_finish(slip__recorder_t *recorder, uint32_t lane_count, const char **out_reason);

#endif  // SLIPSTREAM_SRC_GRAPH_RECORDED_RECORDER_H_
