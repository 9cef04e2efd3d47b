// SPDX-License-Identifier: Apache-2.0
// One run slot: rings, region map, scopes and the state of the run in it. Single-owner: the submitter, except where a field says otherwise.
#ifndef SLIPSTREAM_SRC_GRAPH_WORKSPACE_H_
#define SLIPSTREAM_SRC_GRAPH_WORKSPACE_H_

#include "graph/balance.h"
#include "graph/region_map.h"
#include "graph/ring.h"
#include "graph/seat.h"

#define SLIP__MAX_SCOPE_DEPTH 255
#define SLIP__MAX_ACCESSES    (SLIP_KERNEL_MAX_TENSORS + 1)  // the arguments and the predicate

// The task being submitted: edges 0 .. |count| to what it waits for.
typedef struct slip__linker_t {
  slip__producers_t producers;  // first: its drain gets the linker by its address
  slip__workspace_t *workspace;
  slip__slot_t *slot;
  slip__ring_t *ring;    // the task's
  uint64_t first_extra;  // position in the ring's edge pool
  uint32_t count;
} slip__linker_t;

typedef struct slip__scope_t {
  uint32_t generation;
  uint32_t mode;  // slip_scope_mode_e
} slip__scope_t;

// What the submitter waits for, when it waits.
typedef enum slip__waits_for_e {
  SLIP__WAITS_FOR_END = 0,
  SLIP__WAITS_FOR_WINDOW = 1,
  SLIP__WAITS_FOR_HEAP = 2,
  SLIP__WAITS_FOR_POOL = 3,
  SLIP__WAITS_FOR_ELEMENT = 4,
  SLIP__WAITS_FOR_GRAPH = 5,
} slip__waits_for_e;

// The backstop's (stall.h).
typedef struct slip__stall_t {
  uint64_t ended;                   // tasks of all runs that were over at the last look
  uint32_t quiet;                   // looks in a row since then that saw nothing happen
  slip__slot_t *linked;             // the task being linked, while that waits
  uint32_t waits_for;               // slip__waits_for_e
  uint32_t turns[SLIP__MAX_SEATS];  // of each seat, at the last look
} slip__stall_t;

struct slip__workspace_t {
  slip_orch_t orch;  // first: the table's functions get the workspace by its address
  slip__engine_t *engine;
  slip__seat_t *seat;  // of the submitter; lives as long as the engine
  const slip__run_t *run;
  // The first error, latched by whichever thread meets it (fault.h).
  _Atomic uint32_t failed;
  slip_status_t status;
  // Scopes. |depth| is that of the innermost open one; 0 is the run's own.
  uint32_t depth;
  uint32_t generation;  // last one given out
  slip__ring_t *ring;   // of the innermost scope
  // Run so far.
  slip__slot_t *held;  // a submitted task that no other thread knows of yet
  uint64_t ran;        // kernels that ran, over all runs
  // Runs and named graphs replayed so far: written by the submitter, read by statistics (relaxed: nothing travels with it).
  _Atomic uint64_t replays;
  uint64_t object_serial;  // of the run's object, for forms: its site's id, or the run's own number
  uint64_t run_serial;     // counts runs without a site
  slip_task_t held_task;
  uint32_t held_access_count;
  slip__access_t accesses[SLIP__MAX_ACCESSES];  // of the task being submitted, or held
  slip__linker_t linker;
  slip__forms_t forms;
  slip__balance_t balance;
  slip__region_map_t map;
  slip__ring_t rings[SLIP__RING_COUNT];
  slip__scope_t scopes[SLIP__MAX_SCOPE_DEPTH + 1];
  slip__stall_t stall;
  uint64_t budget_bytes;
  struct slip__recorder_t *recorder;      // of the run, if it is recorded
  struct slip__record_front_t *recorded;  // what this workspace replays; NULL until there is something
  struct slip__begins_t *begins;          // graphs that orchestrations name; NULL until there is one
  size_t reserved_bytes;
};

static inline uint32_t slip__workspace_ring_of(uint32_t depth) {
  return depth < SLIP__RING_COUNT ? depth : SLIP__RING_COUNT - 1;
}
// |depth| is the innermost scope's now.
static inline void slip__workspace_set_depth(slip__workspace_t *workspace, uint32_t depth) {
  workspace->depth = depth;
  workspace->ring = &workspace->rings[slip__workspace_ring_of(depth)];
}
static inline bool slip__workspace_failed(slip__workspace_t *workspace) {
  return atomic_load_explicit(&workspace->failed, memory_order_relaxed) != 0;
}

static inline void slip__workspace_count_replay(slip__workspace_t *workspace) {
  atomic_store_explicit(&workspace->replays, atomic_load_explicit(&workspace->replays, memory_order_relaxed) + 1, memory_order_relaxed);
}

// Latches |status| as the run's error unless there is one already; then it is freed. Any thread of the run. (fault.c)
void slip__workspace_fail(slip__workspace_t *workspace, slip_status_t status);

#endif  // SLIPSTREAM_SRC_GRAPH_WORKSPACE_H_
