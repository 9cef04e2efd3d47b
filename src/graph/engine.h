// SPDX-License-Identifier: Apache-2.0
// Task-graph engine: runs the orchestration of a host-native object and the tasks it submits.
//
// slip__engine_t (thread-safe) owns the worker threads, shared by all runs of a context. slip__workspace_t (single-owner while a run uses
// it) owns the rings, heaps and dependency tables of one run slot. A run uses the calling thread as submitter and worker; it allocates
// nothing and, when no other worker is needed, takes no lock and makes no system call.
#ifndef SLIPSTREAM_SRC_GRAPH_ENGINE_H_
#define SLIPSTREAM_SRC_GRAPH_ENGINE_H_

#include <stdatomic.h>

#include "graph/handle.h"
#include "slipstream/kernel/object.h"
#include "slipstream/status.h"

typedef struct slip__engine_t slip__engine_t;
typedef struct slip__workspace_t slip__workspace_t;

typedef struct slip__engine_options_t {
  uint32_t thread_count;        // runnable threads of a run, the calling one included; 0: as many as the process may use
  uint32_t serial;              // 1: every task runs inside its submit, in submission order (the oracle); no threads
  uint32_t scratch_bytes;       // per-thread kernel scratch to start with; grown by slip__engine_reserve_scratch
  uint32_t stall_timeout_ms;    // a run in which nothing has happened and nothing can happen for so long fails; 0: 500, UINT32_MAX: never
  uint32_t element_timeout_ms;  // an element access that waits longer fails its run; 0: no limit
  uint32_t pin_workers;         // 1: each worker to a core of its own, if the caller's mask has more cores than there are workers
  slip_allocator_t allocator;
} slip__engine_options_t;

typedef struct slip__workspace_options_t {
  uint32_t task_window[SLIP__RING_COUNT];  // power of two
  uint64_t heap_bytes[SLIP__RING_COUNT];   // reserved, committed as used
  uint32_t dependency_pool[SLIP__RING_COUNT];
  uint32_t reserved[2];
  uint64_t budget_bytes;  // committed limit over all rings; 0: none
} slip__workspace_options_t;

// Starts the workers. OUT_OF_MEMORY, UNSUPPORTED (no thread could be made). |*out| is NULL on failure.
slip_status_t slip__engine_create(const slip__engine_options_t *options, slip__engine_t **out) SLIP_MUST_USE;
// Stops and joins the workers. No run may be in flight; workspaces must be gone. NULL is fine.
void slip__engine_destroy(slip__engine_t *engine);
uint32_t slip__engine_thread_count(const slip__engine_t *engine);
// Makes sure that every thread's scratch holds |bytes|. Called at prepare; no run may start before it returns. OUT_OF_MEMORY.
slip_status_t slip__engine_reserve_scratch(slip__engine_t *engine, uint32_t bytes) SLIP_MUST_USE;

// Reserves one run slot's rings at stable addresses. OUT_OF_MEMORY, CAPACITY_BYTES (more than |budget_bytes|).
slip_status_t slip__workspace_create(slip__engine_t *engine, const slip__workspace_options_t *options,
                                     slip__workspace_t **out) SLIP_MUST_USE;
void slip__workspace_destroy(slip__workspace_t *workspace);
uint64_t slip__workspace_committed_bytes(const slip__workspace_t *workspace);
uint64_t slip__workspace_task_count(const slip__workspace_t *workspace);  // tasks executed so far
// Runs, and graphs that orchestrations name, that were replayed so far. Thread-safe.
uint64_t slip__workspace_replay_count(const slip__workspace_t *workspace);

// Where runs come from, one for each prepared callable: runs of one site with the same contract may be replayed (recorded/cache.h). Zeroed
// but for |id|. Thread-safe.
typedef struct slip__run_site_t {
  uint64_t id;             // of no other site of the engine, ever
  _Atomic uint32_t worth;  // it has had runs of enough tasks
} slip__run_site_t;

// One call. |tensors| have |view| and |storage|/|storage_bytes| filled in, the other fields zero.
typedef struct slip__run_t {
  const slip_object_t *object;
  uint32_t entry;
  uint32_t tensor_count;
  slip_otensor_t *tensors;
  const uint64_t *scalars;
  uint32_t scalar_count;
  uint32_t flags;          // slip__run_bits_e
  slip__run_site_t *site;  // NULL: never replayed
} slip__run_t;

typedef enum slip__run_bits_e {
  SLIP__RUN_NONE = 0,
  SLIP__RUN_PROGRAM = 1,  // element reads and writes allowed
} slip__run_bits_e;

// Runs the entry to completion. Blocks; the calling thread takes part. On a failure (GRAPH_* codes) all submitted tasks have drained, no
// further user task has run after the first error, and the workspace is as new. May be called from several threads at once with different
// workspaces.
slip_status_t slip__engine_run(slip__engine_t *engine, slip__workspace_t *workspace, const slip__run_t *run) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_GRAPH_ENGINE_H_
