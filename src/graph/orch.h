// SPDX-License-Identifier: Apache-2.0
// The function table an orchestration is given, and what its functions share.
#ifndef SLIPSTREAM_SRC_GRAPH_ORCH_H_
#define SLIPSTREAM_SRC_GRAPH_ORCH_H_

#include "graph/workspace.h"

extern const slip_orch_api_t slip__orch_api;

// Checks |submit|, but not its tensors, against the object, the ABI and the scopes. NULL: the error is latched. (submit_check.c)
const slip_object_kernel_t *slip__check_submit(slip__workspace_t *workspace, const slip_submit_t *submit);
// Explicit dependencies, of |submit| or (NULL) of a join, must name tasks of this run; 0 names none.
bool slip__check_deps(slip__workspace_t *workspace, const slip_submit_t *submit, const slip_task_t *deps, uint32_t dep_count);
// Checks tensor |index| but for what the kernel declares of it. False: the error is latched.
bool slip__check_tensor(slip__workspace_t *workspace, const slip_submit_t *submit, uint32_t index);

static inline bool slip__tensor_is_stale(const slip__workspace_t *workspace, const slip_otensor_t *tensor) {
  if (tensor->generation == 0) return false;  // a boundary tensor
  return tensor->depth > workspace->depth || workspace->scopes[tensor->depth].generation != tensor->generation;
}

// Bytes of a tensor to be allocated: dims and dtype checked, overflow refused. False: |*out_bytes| is undefined. At least 1.
bool slip__tensor_bytes(const slip_ktensor_t *view, uint64_t *out_bytes);
// Allocates |tensor|, an output of |submit| or (NULL) an intermediate, in the innermost scope; helps until there is room. False: the error
// is latched. (heap.c)
bool slip__heap_allocate(slip__workspace_t *workspace, slip_otensor_t *tensor, uint64_t bytes, const slip_submit_t *submit);

// Opens the scope of |depth| as the innermost one.
void slip__scope_open(slip__workspace_t *workspace, uint32_t depth, uint32_t mode);
// Checks an element access of |what|, named in the message. False: the error is latched. (submit_check.c)
bool slip__check_element(slip__workspace_t *workspace, const slip_otensor_t *tensor, int64_t index, const char *what);
// Address of element |index| of the flattened row-major view; |index| must be inside.
void *slip__element_address(const slip_ktensor_t *view, int64_t index);

slip_task_t slip__orch_submit(slip_orch_t *o, const slip_submit_t *submit);
slip_task_t slip__orch_join(slip_orch_t *o, const slip_task_t *deps, uint32_t dep_count);

#endif  // SLIPSTREAM_SRC_GRAPH_ORCH_H_
