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
#include "os/chaos.h"
#include "os/clock.h"

// Small constants with a large effect; measured on two cores (docs/design/engine.md).
#define SLIP__SUBMIT_LOOK    16    // submits between two looks at what has become of the earlier ones
#define SLIP__SUBMIT_BACKLOG 64    // ready tasks in the own queue from which the submitter runs new ones itself
#define SLIP__SUBMIT_BATCH   8     // ready tasks handed over at once, at most
#define SLIP__SUBMIT_FLUSH   16    // submits after which ready tasks are handed over, however few
#define SLIP__SUBMIT_LIVE    1024  // tasks in flight from which it helps if it can
#define SLIP__SUBMIT_WAKE    8     // a run of this many tasks is worth waking somebody for even if only one is ready

// --- Waiting ------------------------------------------------------------------------------------------------------------------------

// What this thread has queued must not be missed by a worker that is about to sleep (park.h): it may have nothing else to do.
static void slip__wait_begin(slip__workspace_t *workspace) {
  slip__queue_t *queue = &workspace->seat->queue;
  slip__queue_publish(queue);
  uint64_t size = slip__queue_size(queue);
  if (size > 1) slip__wake_for_queued(workspace->engine, workspace->seat, (uint32_t)(size - 1));
}

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
  slip__ring_retire(ring, &workspace->ran);
  if (ring->retired < sequence) slip__wait_begin(workspace);
  for (; ring->retired < sequence; slip__ring_retire(ring, &workspace->ran)) {
    slip__wait_step(workspace, slip__ring_slot(ring, ring->retired), &idle);
  }
}

void slip__retire_all(slip__workspace_t *workspace) {
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) slip__ring_retire(&workspace->rings[i], &workspace->ran);
}

// A place for one more edge when the pool is full: helps until |producer| is over. NULL: no edge is needed any more.
__attribute__((noinline)) static slip__edge_t *slip__linker_wait(slip__linker_t *linker, slip__slot_t *producer) {
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

static slip__edge_t *slip__linker_extra_edge(slip__linker_t *linker, slip__slot_t *producer) {
  slip__ring_t *ring = linker->ring;
  slip__edge_t *edge = ring->edge_head - ring->edge_tail < ring->edge_capacity ? slip__linker_edge(linker, linker->count)
                                                                               : slip__linker_wait(linker, producer);
  if (!edge) return NULL;
  ++ring->edge_head;
  if (ring->edge_head > ring->edge_high) ring->edge_high = ring->edge_head < ring->edge_capacity ? ring->edge_head : ring->edge_capacity;
  return edge;
}

void slip__linker_drain(slip__producers_t *producers) {
  slip__linker_t *linker = (slip__linker_t *)(void *)producers;
  slip__workspace_t *workspace = linker->workspace;
  for (uint32_t i = 0; i < producers->count; ++i) {
    slip_task_t producer = producers->list[i];
    slip__ring_t *ring = &workspace->rings[slip__task_ring(producer)];
    uint64_t sequence = slip__task_sequence(producer);
    if (sequence < ring->retired) continue;  // since it was found
    slip__slot_note_t *note = slip__ring_note(ring, sequence);
    if (note->last_consumer == producers->task) continue;
    slip__slot_t *slot = slip__ring_slot(ring, sequence);
    slip__edge_t *edge =
        __builtin_expect(linker->count < SLIP__SLOT_EDGES, 1) ? &linker->slot->edges[linker->count] : slip__linker_extra_edge(linker, slot);
    if (!edge) continue;
    note->last_consumer = producers->task;
    edge->consumer = linker->slot;
    edge->next = (slip__edge_t *)(void *)slot;
    ++linker->count;
  }
  producers->count = 0;
}

typedef struct slip__element_wait_t {
  slip__workspace_t *workspace;
  uint64_t started_ns;
} slip__element_wait_t;

static void slip__wait_task(void *user, slip_task_t task) {
  slip__element_wait_t *wait = user;
  slip__ring_t *ring = &wait->workspace->rings[slip__task_ring(task)];
  uint64_t sequence = slip__task_sequence(task);
  if (sequence < ring->retired) return;
  slip__wait_begin(wait->workspace);
  slip__stall_wait_element(wait->workspace, slip__ring_slot(ring, sequence), wait->started_ns);
}

void slip__wait_element(slip__workspace_t *workspace, const slip_otensor_t *tensor, const void *address, bool is_write) {
  slip__element_wait_t wait = {workspace, slip__clock_now_ns()};
  slip__region_map_visit(&workspace->map, tensor->storage, address, (uint64_t)slip_dtype_carrier_bytes(tensor->view.dtype), is_write,
                         slip__wait_task, &wait);
}

static void slip__wait_over(void *user, slip_task_t task) {
  slip__workspace_t *workspace = user;
  slip__ring_t *ring = &workspace->rings[slip__task_ring(task)];
  uint64_t sequence = slip__task_sequence(task);
  if (sequence < ring->retired) return;
  slip__slot_t *slot = slip__ring_slot(ring, sequence);
  slip__idle_t idle = {0};
  slip__wait_begin(workspace);
  while (!slip__slot_is_closed(slot)) slip__wait_step(workspace, slot, &idle);
}

void slip__wait_region(slip__workspace_t *workspace, const void *storage, const void *address, uint64_t bytes, bool is_write) {
  slip__release_held(workspace);
  workspace->stall.waits_for = SLIP__WAITS_FOR_GRAPH;
  slip__region_map_visit(&workspace->map, storage, address, bytes, is_write, slip__wait_over, workspace);
}

// --- Dependencies -------------------------------------------------------------------------------------------------------------------

static inline bool slip__infer(slip__workspace_t *workspace, uint32_t access_count) {
  bool manual = workspace->scopes[workspace->depth].mode == SLIP_SCOPE_MANUAL;
  for (uint32_t i = 0; i < access_count; ++i) {
    if (!slip__region_map_access(&workspace->map, &workspace->linker.producers, &workspace->accesses[i], manual)) return false;
  }
  return true;
}

// The map is full. Once everything earlier is over it knows nothing that matters, and the task starts on an empty one, with nothing to wait
// for.
__attribute__((noinline, cold)) static void slip__infer_anew(slip__workspace_t *workspace, uint32_t access_count) {
  slip__linker_t *linker = &workspace->linker;
  slip_task_t task = linker->producers.task;
  uint32_t own = slip__task_ring(task);
  workspace->stall.waits_for = SLIP__WAITS_FOR_POOL;
  workspace->stall.linked = linker->slot;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) {
    slip__wait_retired(workspace, i, i == own ? slip__task_sequence(task) : workspace->rings[i].next);
  }
  workspace->stall.linked = NULL;
  slip__region_map_reset(&workspace->map);
  linker->ring->edge_head = linker->first_extra;
  slip__linker_begin(linker, workspace, linker->slot, task);
  if (slip__infer(workspace, access_count)) return;
  slip_status_t status =
      SLIP_STATUS(SLIP_CODE_GRAPH_DEPENDENCY_POOL,
                  "a task with %" PRIu32 " tensors needs more dependency records than the pool of ring %" PRIu32
                  " holds even with nothing else in flight (the pools of all rings hold %" PRIu32 "); raise dependency_pool[%" PRIu32 "]",
                  access_count, own, workspace->map.capacity, own);
  slip__workspace_fail(workspace, slip__fault_at_task(linker->slot, status));
}

// Links the collected edges. True if the task is ready now.
static bool slip__link(slip__linker_t *linker) {
  uint32_t late = 0, count = linker->count;
  if (count == 0) {
    atomic_store_explicit(&linker->slot->pending, 0, memory_order_relaxed);
    return true;
  }
  atomic_store_explicit(&linker->slot->pending, count, memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    slip__edge_t *edge = slip__linker_edge(linker, i);
    slip__slot_t *producer = (slip__slot_t *)(void *)edge->next;
    uintptr_t list = atomic_load_explicit(&producer->successors, memory_order_acquire);
    do {
      if (list == SLIP__SUCCESSORS_CLOSED) {
        ++late;
        break;
      }
      edge->next = (slip__edge_t *)list;
      slip__chaos_point(SLIP__CHAOS_LINK);
    } while (
        !atomic_compare_exchange_weak_explicit(&producer->successors, &list, (uintptr_t)edge, memory_order_release, memory_order_acquire));
  }
  slip__chaos_point(SLIP__CHAOS_LINKED);
  if (late == count) {  // nobody else knows of the task
    atomic_store_explicit(&linker->slot->pending, 0, memory_order_relaxed);
    return true;
  }
  return late && atomic_fetch_sub_explicit(&linker->slot->pending, late, memory_order_acq_rel) == late;
}

// A task that is ready as it is submitted. While the others have enough to do, the submitter runs it itself, which moves no cache line;
// else it is handed over, several at a time, since each time costs the others' sight of the queue.
static inline void slip__submit_ready(slip__workspace_t *workspace, slip__slot_t *slot) {
  slip__queue_t *queue = &workspace->seat->queue;
  if (queue->tail - queue->top_seen >= SLIP__SUBMIT_BACKLOG) {
    queue->top_seen = atomic_load_explicit(&queue->top, memory_order_acquire);
    if (queue->tail - queue->top_seen >= SLIP__SUBMIT_BACKLOG) {
      slip__queue_publish(queue);
      slip__execute_chain(workspace->engine, workspace->seat, slot);
      return;
    }
  }
  (void)slip__queue_append(queue, slot);  // there is room: the backlog is less than the capacity
  if (slip__queue_unpublished(queue) >= SLIP__SUBMIT_BATCH) slip__queue_publish(queue);
}

static inline void slip__publish(slip__workspace_t *workspace, slip__slot_t *slot, slip_task_t task, uint32_t access_count,
                                 const slip_task_t *deps, uint32_t dep_count) {
  slip__linker_t *linker = &workspace->linker;
  slip__linker_begin(linker, workspace, slot, task);
  for (uint32_t i = 0; i < dep_count; ++i) slip__producers_add(&linker->producers, deps[i]);
  if (__builtin_expect(!slip__infer(workspace, access_count), 0)) slip__infer_anew(workspace, access_count);
  if (linker->producers.count) slip__linker_drain(&linker->producers);
  slip__ring_note(linker->ring, slip__task_sequence(task))->edges_end = linker->ring->edge_head;
  if (slip__link(linker)) slip__submit_ready(workspace, slot);
}

// After a submit: who should run what is ready?
static void slip__submit_balance(slip__workspace_t *workspace, slip__ring_t *ring) {
  slip__engine_t *engine = workspace->engine;
  slip__queue_t *queue = &workspace->seat->queue;
  uint64_t submitted = ring->next - ring->base;
  if (__builtin_expect(slip__workers_sleep(engine), 0)) {
    slip__queue_publish(queue);
    uint64_t size = slip__queue_size(queue);
    if (size >= 2 || (size == 1 && submitted % SLIP__SUBMIT_WAKE == 0)) slip__wake_workers(engine, 1);
  }
  if (slip__queue_unpublished(queue) &&
      (submitted % SLIP__SUBMIT_FLUSH == 0 || atomic_load_explicit(&engine->hungry, memory_order_relaxed) != 0)) {
    slip__queue_publish(queue);
  }
  if (submitted % SLIP__SUBMIT_LOOK != 0) return;
  slip__ring_retire(ring, &workspace->ran);
  if (slip__ring_live(ring) > SLIP__SUBMIT_LIVE) (void)slip__help(engine, workspace->seat);
}

// True if nothing in flight concerns the task: it may run here and now, and the map need not hear of it, since whatever it did is over.
static inline bool slip__submit_is_free(slip__workspace_t *workspace, uint32_t access_count, const slip_task_t *deps, uint32_t dep_count) {
  const slip__producers_t *producers = &workspace->linker.producers;
  for (uint32_t i = 0; i < dep_count; ++i) {
    if (slip__producer_is_live(producers, deps[i])) return false;
  }
  if (__builtin_expect(workspace->scopes[workspace->depth].mode == SLIP_SCOPE_MANUAL, 0)) return true;
  for (uint32_t i = 0; i < access_count; ++i) {
    if (!slip__region_map_is_free(&workspace->map, producers, &workspace->accesses[i])) return false;
  }
  return true;
}

// Nothing else is in flight: the task has nothing to follow, and who comes later finds it over, so that neither the map nor another thread
// hears of it.
static void slip__dispatch_now(slip__workspace_t *workspace, slip__ring_t *ring, slip__slot_t *slot) {
  uint32_t index = (uint32_t)(slot - ring->slots);
  ++ring->next;
  slip__execute_here(slot, workspace->seat);
  workspace->ran += slot->ran;
  if (ring->notes[index].arguments) slip__ring_give_block(ring, ring->notes[index].arguments);
  slip__ring_give_slot(ring, index);
  slip__ring_retire_newest(ring);
}

void slip__dispatch(slip__workspace_t *workspace, slip__slot_t *slot, slip_task_t task, uint32_t access_count, const slip_task_t *deps,
                    uint32_t dep_count, bool alone) {
  slip__ring_t *ring = workspace->ring;
  bool small = slot->block_count == 1 && slot->flags <= SLIP__SLOT_BLOCK && slot->predicate_op == 0,
       first = slip__nothing_in_flight(workspace);
  if (alone && first && (small || workspace->engine->worker_count == 0)) {
    slip__dispatch_now(workspace, ring, slot);
    return;
  }
  slip__slot_note_t *note = slip__ring_note(ring, ring->next);
  note->last_consumer = 0;
  note->edges_end = ring->edge_head;
  // Relaxed: whoever sees the slot has synchronised with the submitter through a queue or an edge.
  atomic_store_explicit(&slot->successors, 0, memory_order_relaxed);
  ++ring->next;
  if (first) {
    workspace->held = slot;
    workspace->held_task = task;
    workspace->held_access_count = access_count;
  } else if (alone && small && slip__submit_is_free(workspace, access_count, deps, dep_count)) {
    if (slip__queue_unpublished(&workspace->seat->queue)) slip__queue_publish(&workspace->seat->queue);  // this may take long
    slip__execute_alone(slot, workspace->seat);
    slip__submit_balance(workspace, ring);
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
  slip__balance_pause(&workspace->balance);
  if (slip__forms_begin(&workspace->forms, workspace->map.shape_used)) slip__region_map_drop_shapes(&workspace->map);
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
