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
// Checks tensor |index|.
bool slip__check_argument(slip__workspace_t *workspace, const slip_submit_t *submit, uint32_t index);

// Values of the symbols that a kernel's parameters name, as far as they have been met.
typedef struct slip__symbols_t {
  uint32_t known;
  int64_t bound[SLIP_KERNEL_MAX_TENSORS * SLIP_MAX_RANK];
} slip__symbols_t;
// Checks tensor |index| against what the kernel declares of it (|params| may be NULL) and against what the entry allows.
bool slip__check_declaration(slip__workspace_t *workspace, const slip_submit_t *submit, uint32_t index, const slip_object_param_t *params,
                             slip__symbols_t *symbols);

extern const uint8_t slip__dtype_sizes[256];  // in bytes; 0: no dtype

static inline bool slip__tensor_is_stale(const slip__workspace_t *workspace, const slip_otensor_t *tensor) {
  if (tensor->generation == 0) return false;  // a boundary tensor
  return tensor->depth > workspace->depth || workspace->scopes[tensor->depth].generation != tensor->generation;
}

// True if the argument is good and its bytes are a run in row-major order, |*out_bytes| long. Where it says no, slip__check_argument
// decides.
static inline bool slip__check_is_simple(const slip__workspace_t *workspace, const slip_oarg_t *argument, uint64_t *out_bytes) {
  const slip_otensor_t *tensor = argument->tensor;
  if (!tensor || argument->access - 1u >= SLIP_ACCESS_NO_DEP || tensor->view.rank > SLIP_MAX_RANK) return false;
  const slip_ktensor_t *view = &tensor->view;
  int64_t count = 1, bytes;
  for (uint32_t i = view->rank; i-- > 0;) {
    if ((view->strides[i] != count && view->dims[i] != 1) || view->dims[i] <= 0) return false;
    if (__builtin_mul_overflow(count, view->dims[i], &count)) return false;
  }
  if (__builtin_mul_overflow(count, (int64_t)slip__dtype_sizes[view->dtype], &bytes)) return false;
  if (bytes == 0 || !view->data || slip__tensor_is_stale(workspace, tensor)) return false;
  *out_bytes = (uint64_t)bytes;
  uint64_t offset = (uint64_t)((uintptr_t)view->data - (uintptr_t)tensor->storage);
  return tensor->storage_bytes == 0 || (offset <= tensor->storage_bytes && (uint64_t)bytes <= tensor->storage_bytes - offset);
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
