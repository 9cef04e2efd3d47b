// SPDX-License-Identifier: Apache-2.0
// One run: from the entry's arguments to the last task's end, and back to a workspace as new.
#include <inttypes.h>

#include "graph/fault.h"
#include "graph/orch.h"
#include "graph/recorded/begin.h"
#include "graph/recorded/cache.h"
#include "graph/recorded/recorder.h"
#include "graph/schedule.h"
#include "graph/stall.h"

__attribute__((noinline, cold)) static slip_status_t slip__run_refuse(const slip__run_t *run) {
  const slip_object_t *object = run->object;
  if (!object || object->magic != SLIP_OBJECT_MAGIC || object->struct_size < sizeof(slip_object_t)) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "the object is no table of a callable (magic or size differ); recompile it");
  }
  if (object->abi_version != SLIP_ORCH_ABI_VERSION) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "the object has orchestration ABI %" PRIu32 ", this library has %d; recompile it",
                       object->abi_version, SLIP_ORCH_ABI_VERSION);
  }
  if (run->entry >= object->entry_count) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "entry %" PRIu32 " does not exist: the object has %" PRIu32, run->entry,
                       object->entry_count);
  }
  const slip_object_entry_t *entry = &object->entries[run->entry];
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                     "entry \"%s\" takes %" PRIu32 " tensors and %" PRIu32 " scalars, %" PRIu32 " and %" PRIu32 " were given",
                     entry->name ? entry->name : "?", entry->tensor_count, entry->scalar_count, run->tensor_count, run->scalar_count);
}

static bool slip__run_is_good(const slip__run_t *run) {
  const slip_object_t *object = run->object;
  if (!object || object->magic != SLIP_OBJECT_MAGIC || object->struct_size < sizeof(slip_object_t) ||
      object->abi_version != SLIP_ORCH_ABI_VERSION || run->entry >= object->entry_count) {
    return false;
  }
  const slip_object_entry_t *entry = &object->entries[run->entry];
  return entry->tensor_count == run->tensor_count && entry->scalar_count == run->scalar_count;
}

// What a run with a site was like.
static void slip__run_note(slip__workspace_t *workspace, const slip__run_t *run) {
  uint64_t tasks = 0;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) tasks += workspace->rings[i].next - workspace->rings[i].base;
  workspace->orch.api = &slip__orch_api;
  if (tasks >= SLIP__RECORD_MIN_TASKS || workspace->recorder) slip__record_end(workspace, run, tasks);
}

slip_status_t slip__engine_run(slip__engine_t *engine, slip__workspace_t *workspace, const slip__run_t *run) {
  (void)engine;
  if (__builtin_expect(!slip__run_is_good(run), 0)) return slip__run_refuse(run);
  slip__run_site_t *site = run->site;
  // Relaxed: a hint. A site of small runs costs this much.
  if (site && atomic_load_explicit(&site->worth, memory_order_relaxed) && slip__record_begin(workspace, run)) return workspace->status;
  workspace->run = run;
  workspace->object_serial = site ? site->id : ++workspace->run_serial | UINT64_C(1) << 63;
  workspace->status = slip_ok_status();
  atomic_store_explicit(&workspace->failed, 0, memory_order_relaxed);
  workspace->stall.ended = UINT64_MAX;  // what an earlier run's looks saw says nothing of this one
  slip__stall_begin(workspace);
  slip__schedule_begin(workspace);
  slip__scope_open(workspace, 0, SLIP_SCOPE_AUTO);

  slip_oargs_t arguments = {
      .tensors = run->tensors, .scalars = run->scalars, .tensor_count = run->tensor_count, .scalar_count = run->scalar_count};
  if (__builtin_expect(workspace->recorder != NULL, 0)) workspace->orch.api = &slip__recorder_api;
  run->object->entries[run->entry].run(&workspace->orch, &arguments);
  if (__builtin_expect(workspace->begins != NULL, 0)) slip__begins_end_run(workspace);
  if (__builtin_expect(workspace->depth != 0, 0) && !slip__workspace_failed(workspace)) {
    slip_status_t status =
        SLIP_STATUS(SLIP_CODE_GRAPH_INVALID_TASK,
                    "the orchestration returned with %" PRIu32 " scopes still open; end each scope that it begins", workspace->depth);
    slip__workspace_fail(workspace, slip__fault_here(workspace, status));
  }
  slip__schedule_finish(workspace);
  slip__stall_end(workspace);
  if (site) slip__run_note(workspace, run);
  workspace->run = NULL;
  return workspace->status;
}
