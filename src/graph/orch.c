// SPDX-License-Identifier: Apache-2.0
// The orchestration table: scopes, intermediates, elements, errors. submit() and join() are in submit.c.
#include "graph/orch.h"

#include <inttypes.h>
#include <string.h>

#include "graph/fault.h"
#include "graph/recorded/begin.h"
#include "graph/schedule.h"

// Latches |status| with the place of the call.
static void slip__orch_refuse(slip__workspace_t *workspace, slip_status_t status) {
  slip__workspace_fail(workspace, slip__fault_here(workspace, status));
}

void slip__scope_open(slip__workspace_t *workspace, uint32_t depth, uint32_t mode) {
  if (++workspace->generation == 0) ++workspace->generation;  // 0 marks boundary tensors
  slip__workspace_set_depth(workspace, depth);
  workspace->scopes[depth].generation = workspace->generation;
  workspace->scopes[depth].mode = mode;
}

static void slip__orch_scope_begin(slip_orch_t *o, uint32_t mode) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  if (slip__workspace_failed(workspace)) return;
  if (mode > SLIP_SCOPE_MANUAL || workspace->depth == SLIP__MAX_SCOPE_DEPTH) {
    slip__orch_refuse(workspace, SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                                             "scope_begin() with mode %" PRIu32 " at depth %" PRIu32
                                             "; expected SLIP_SCOPE_AUTO or _MANUAL and a depth below %d",
                                             mode, workspace->depth, SLIP__MAX_SCOPE_DEPTH));
    return;
  }
  slip__scope_open(workspace, workspace->depth + 1, mode);
}

static void slip__orch_scope_end(slip_orch_t *o) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  if (slip__workspace_failed(workspace)) return;
  if (workspace->depth == 0) {
    slip__orch_refuse(workspace, SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK, "scope_end() without a scope_begin(); end each scope once"));
    return;
  }
  // Scopes below the last ring's first one share its heap: their memory goes with that one.
  if (workspace->depth < SLIP__RING_COUNT) slip__ring_end_scope(workspace->rings, workspace->depth);
  slip__workspace_set_depth(workspace, workspace->depth - 1);
}

static void slip__orch_create(slip_orch_t *o, slip_otensor_t *tensor) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  uint64_t bytes;
  if (slip__workspace_failed(workspace)) return;
  if (!tensor || !slip__tensor_bytes(&tensor->view, &bytes)) {
    slip__orch_refuse(workspace,
                      SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                                  "create() was given %s; expected a known dtype, rank <= %d, dims >= 0 and a size that fits 63 bits",
                                  tensor ? "a tensor that cannot be allocated" : "NULL", SLIP_MAX_RANK));
    return;
  }
  (void)slip__heap_allocate(workspace, tensor, bytes, NULL);
}

static uint32_t slip__orch_available_cores(slip_orch_t *o, uint32_t core) {
  // Every thread is a core of each kind; nothing is one of a kind that does not exist.
  return core <= SLIP_CORE_MIXED ? slip__engine_thread_count(((slip__workspace_t *)o)->engine) : 0;
}

// Checks an element access and waits for the tasks that it must follow. NULL: the error is latched.
static void *slip__orch_element(slip__workspace_t *workspace, const slip_otensor_t *tensor, int64_t index, bool is_write) {
  const char *what = is_write ? "write_element()" : "read_element()";
  if (slip__workspace_failed(workspace)) return NULL;
  if (!(workspace->run->flags & SLIP__RUN_PROGRAM)) {
    slip__orch_refuse(workspace, SLIP_STATUS(SLIP_CODE_UNSUPPORTED,
                                             "%s is for PROGRAM callables; a callable for launches must not look at tensor data", what));
    return NULL;
  }
  if (!slip__check_element(workspace, tensor, index, what)) return NULL;
  slip__release_held(workspace);
  slip__wait_element(workspace, tensor, slip__element_address(&tensor->view, index), is_write);
  // Tasks that were in flight may have failed the run meanwhile; the bytes are then undefined.
  return slip__workspace_failed(workspace) ? NULL : slip__element_address(&tensor->view, index);
}

static uint64_t slip__orch_read_element(slip_orch_t *o, const slip_otensor_t *tensor, int64_t index) {
  uint64_t bits = 0;
  const void *address = slip__orch_element((slip__workspace_t *)o, tensor, index, false);
  if (address) memcpy(&bits, address, (size_t)slip_dtype_carrier_bytes(tensor->view.dtype));
  return bits;
}

static void slip__orch_write_element(slip_orch_t *o, const slip_otensor_t *tensor, int64_t index, uint64_t bits) {
  void *address = slip__orch_element((slip__workspace_t *)o, tensor, index, true);
  if (address) memcpy(address, &bits, (size_t)slip_dtype_carrier_bytes(tensor->view.dtype));
}

static void slip__orch_fail(slip_orch_t *o, int32_t code, const char *text) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  if (slip__workspace_failed(workspace)) return;
  slip__orch_refuse(workspace, SLIP_STATUS(SLIP_CODE_GRAPH_USER_FAIL, "the orchestration failed with code %" PRId32 ": %s", code,
                                           text ? text : "no text"));
}

static int32_t slip__orch_failed(slip_orch_t *o) {
  return slip__workspace_failed((slip__workspace_t *)o);
}

const slip_orch_api_t slip__orch_api = {
    .struct_size = sizeof(slip_orch_api_t),
    .abi_version = SLIP_ORCH_ABI_VERSION,
    .submit = slip__orch_submit,
    .scope_begin = slip__orch_scope_begin,
    .scope_end = slip__orch_scope_end,
    .create = slip__orch_create,
    .join = slip__orch_join,
    .available_cores = slip__orch_available_cores,
    .read_element = slip__orch_read_element,
    .write_element = slip__orch_write_element,
    .fail = slip__orch_fail,
    .failed = slip__orch_failed,
    .graph_begin = slip__begin_graph,
    .graph_end = slip__begin_end,
    .graph_scalar = slip__begin_scalar,
};
