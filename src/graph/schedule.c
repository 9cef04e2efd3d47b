// SPDX-License-Identifier: Apache-2.0
// The submitter's half of scheduling: dependencies of a new task, hand-over, and waiting, which is helping.
#include "graph/schedule.h"

#include <inttypes.h>

#include "graph/execute.h"
#include "graph/fault.h"
#include "graph/link.h"
#include "graph/park.h"
#include "graph/stall.h"
#include "graph/state.h"
#include "os/clock.h"

// Small constants with a large effect; measured on two cores (docs/design/engine.md).
#define SLIP__SUBMIT_LOOK    16    // submits between two looks at what has become of the earlier ones
#define SLIP__SUBMIT_BACKLOG 256   // ready tasks in the own queue from which the submitter helps: more would only grow the memory in use
#define SLIP__SUBMIT_LIVE    1024  // tasks in flight from which it helps if it can
#define SLIP__SUBMIT_WAKE    8     // a run of this many tasks is worth waking somebody for even if only one is ready

// --- Waiting ------------------------------------------------------------------------------------------------------------------------

// One step of waiting for |slot| to end.
static void slip__wait_step(slip__workspace_t *workspace, slip__slot_t *slot, slip__idle_t *idle) {
  slip__stall_turn(workspace->seat);
  if (slip__help(workspace->engine, workspace->seat)) {
    *idle = (slip__idle_t){0};
  } else if (slip__idle_spin(idle)) {
    slip__stall_sleep(workspace, slot);
    *idle = (slip__idle_t){0};
  }
}

void slip__wait_retired(slip__workspace_t *workspace, uint32_t index, uint64_t sequence) {
  slip__ring_t *ring = &workspace->rings[index];
  slip__idle_t idle = {0};
  if (sequence <= ring->retired) return;
  slip__release_held(workspace);
  for (slip__ring_retire(ring, &workspace->ran); ring->retired < sequence; slip__ring_retire(ring, &workspace->ran)) {
    slip__wait_step(workspace, slip__ring_slot(ring, ring->retired), &idle);
  }
}

void slip__retire_all(slip__workspace_t *workspace) {
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) slip__ring_retire(&workspace->rings[i], &workspace->ran);
}

slip__edge_t *slip__linker_wait(slip__linker_t *linker, slip__slot_t *producer) {
  slip__ring_t *ring = linker->ring;
  slip__idle_t idle = {0};
  linker->workspace->stall.waits_for = SLIP__WAITS_FOR_POOL;
  linker->workspace->stall.linked = linker->slot;
  bool full = true;
  while (full && !slip__slot_is_closed(producer)) {
    slip__ring_retire(ring, &linker->workspace->ran);
    full = ring->edge_head - ring->edge_tail >= ring->edge_capacity;
    if (full) slip__wait_step(linker->workspace, producer, &idle);
  }
  linker->workspace->stall.linked = NULL;
  return full ? NULL : slip__linker_edge(linker, linker->count);
}

typedef struct slip__element_wait_t {
  slip__workspace_t *workspace;
  uint64_t started_ns;
} slip__element_wait_t;

static void slip__wait_task(void *user, slip_task_t task) {
  slip__element_wait_t *wait = user;
  if (!slip__task_is_live(wait->workspace, task)) return;
  slip__ring_t *ring = &wait->workspace->rings[slip__task_ring(task)];
  slip__stall_wait_element(wait->workspace, slip__ring_slot(ring, slip__task_sequence(task)), wait->started_ns);
}

void slip__wait_element(slip__workspace_t *workspace, const slip_otensor_t *tensor, const void *address, bool is_write) {
  slip_ktensor_t element = {.data = (void *)(uintptr_t)address, .dtype = tensor->view.dtype};
  slip__element_wait_t wait = {workspace, slip__clock_now_ns()};
  slip__box_t box;
  if (slip__box_from_view(&element, &box)) slip__region_map_visit(&workspace->map, tensor->storage, &box, is_write, slip__wait_task, &wait);
}

// --- Dependencies -------------------------------------------------------------------------------------------------------------------

static bool slip__infer(slip__workspace_t *workspace, slip__linker_t *linker, uint32_t access_count) {
  bool manual = workspace->scopes[workspace->depth].mode == SLIP_SCOPE_MANUAL;
  for (uint32_t i = 0; i < access_count; ++i) {
    if (!slip__region_map_access(&workspace->map, linker, &workspace->accesses[i], manual)) return false;
  }
  return true;
}

// The map is full. Once everything earlier is over it knows nothing that matters, and the task starts on an empty one, with nothing to wait
// for.
__attribute__((noinline, cold)) static void slip__infer_anew(slip__workspace_t *workspace, slip__linker_t *linker, uint32_t access_count) {
  uint32_t own = slip__task_ring(linker->task);
  workspace->stall.waits_for = SLIP__WAITS_FOR_POOL;
  workspace->stall.linked = linker->slot;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) {
    slip__wait_retired(workspace, i, i == own ? slip__task_sequence(linker->task) : workspace->rings[i].next);
  }
  workspace->stall.linked = NULL;
  slip__region_map_reset(&workspace->map);
  linker->count = 0;
  linker->ring->edge_head = linker->first_extra;
  if (slip__infer(workspace, linker, access_count)) return;
  slip_status_t status =
      SLIP_STATUS(SLIP_CODE_GRAPH_DEPENDENCY_POOL,
                  "a task with %" PRIu32 " tensors needs more dependency records than the pool of ring %" PRIu32
                  " holds even with nothing else in flight (the pools of all rings hold %" PRIu32 "); raise dependency_pool[%" PRIu32 "]",
                  access_count, own, workspace->map.capacity, own);
  slip__workspace_fail(workspace, slip__fault_at_task(linker->slot, status));
}

// Links the collected edges. True if the task is ready now.
static bool slip__link(slip__linker_t *linker) {
  uint32_t late = 0;
  if (linker->count == 0) return true;
  atomic_store_explicit(&linker->slot->pending, linker->count, memory_order_relaxed);
  for (uint32_t i = 0; i < linker->count; ++i) {
    slip__edge_t *edge = slip__linker_edge(linker, i);
    slip__slot_t *producer = (slip__slot_t *)(void *)edge->next;
    uintptr_t list = atomic_load_explicit(&producer->successors, memory_order_acquire);
    do {
      if (list == SLIP__SUCCESSORS_CLOSED) {
        ++late;
        break;
      }
      edge->next = (slip__edge_t *)list;
    } while (
        !atomic_compare_exchange_weak_explicit(&producer->successors, &list, (uintptr_t)edge, memory_order_release, memory_order_acquire));
  }
  return late && atomic_fetch_sub_explicit(&linker->slot->pending, late, memory_order_acq_rel) == late;
}

static void slip__publish(slip__workspace_t *workspace, slip__slot_t *slot, slip_task_t task, uint32_t access_count,
                          const slip_task_t *deps, uint32_t dep_count) {
  slip__ring_t *ring = &workspace->rings[slip__task_ring(task)];
  slip__linker_t linker = {.workspace = workspace, .slot = slot, .ring = ring, .task = task, .first_extra = ring->edge_head};
  for (uint32_t i = 0; i < dep_count; ++i) slip__linker_add(&linker, deps[i]);
  if (__builtin_expect(!slip__infer(workspace, &linker, access_count), 0)) slip__infer_anew(workspace, &linker, access_count);
  slot->edges_end = ring->edge_head;
  if (!slip__link(&linker)) return;
  slip__make_ready(workspace->seat, slot);
}

// After a submit: who should run what is ready?
static void slip__submit_balance(slip__workspace_t *workspace, slip__ring_t *ring) {
  slip__engine_t *engine = workspace->engine;
  slip__queue_t *queue = &workspace->seat->queue;
  uint64_t submitted = ring->next - ring->base;
  if (__builtin_expect(slip__workers_sleep(engine), 0)) {
    uint64_t size = slip__queue_size(queue);
    if (size >= 2 || (size == 1 && submitted % SLIP__SUBMIT_WAKE == 0)) slip__wake_workers(engine, 1);
  }
  if (submitted % SLIP__SUBMIT_LOOK != 0) return;
  slip__ring_retire(ring, &workspace->ran);
  while (slip__queue_size(queue) > SLIP__SUBMIT_BACKLOG && slip__help(engine, workspace->seat)) continue;
  if (slip__ring_live(ring) > SLIP__SUBMIT_LIVE) (void)slip__help(engine, workspace->seat);
}

static bool slip__nothing_in_flight(const slip__workspace_t *workspace, uint64_t own) {
  uint64_t live = 0;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) live += slip__ring_live(&workspace->rings[i]);
  return live == own;
}

void slip__dispatch(slip__workspace_t *workspace, slip__slot_t *slot, slip_task_t task, uint32_t access_count, const slip_task_t *deps,
                    uint32_t dep_count) {
  slip__ring_t *ring = &workspace->rings[slip__task_ring(task)];
  slot->ran = 0;
  slot->last_consumer = 0;
  slot->edges_end = ring->edge_head;
  // Relaxed: whoever sees the slot has synchronised with the submitter through a queue or an edge.
  atomic_store_explicit(&slot->successors, 0, memory_order_relaxed);
  ++ring->next;
  if (workspace->engine->worker_count == 0) {  // alone: submission order is a right order
    slip__execute_alone(slot, workspace->seat);
    slip__ring_retire(ring, &workspace->ran);
  } else if (slip__nothing_in_flight(workspace, 1)) {
    workspace->held = slot;
    workspace->held_task = task;
    workspace->held_access_count = access_count;
  } else {
    slip__publish(workspace, slot, task, access_count, deps, dep_count);
    slip__submit_balance(workspace, ring);
  }
}

// What the held task depended on is over; the later ones must find its accesses.
void slip__release_held_slow(slip__workspace_t *workspace) {
  slip__slot_t *slot = workspace->held;
  workspace->held = NULL;
  slip__publish(workspace, slot, workspace->held_task, workspace->held_access_count, NULL, 0);
}

// --- Runs ---------------------------------------------------------------------------------------------------------------------------

void slip__schedule_begin(slip__workspace_t *workspace) {
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) slip__ring_reset(&workspace->rings[i]);
  slip__region_map_reset(&workspace->map);
}

void slip__schedule_finish(slip__workspace_t *workspace) {
  slip__slot_t *held = workspace->held;
  if (held) {  // the last task, or the only one: nobody will ask what it touched
    workspace->held = NULL;
    if (held->block_count == 1) {
      slip__execute_alone(held, workspace->seat);
    } else {
      slip__execute_chain(workspace->engine, workspace->seat, held);
    }
  }
  workspace->stall.waits_for = SLIP__WAITS_FOR_END;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) slip__wait_retired(workspace, i, workspace->rings[i].next);
  // What this thread took over from other runs and could not put where others find it.
  while (workspace->seat->overflow) (void)slip__help(workspace->engine, workspace->seat);
}
