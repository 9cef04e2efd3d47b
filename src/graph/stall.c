// SPDX-License-Identifier: Apache-2.0
#include "graph/stall.h"

#include <inttypes.h>
#include <stdio.h>

#include "graph/execute.h"
#include "graph/fault.h"
#include "graph/park.h"
#include "graph/state.h"
#include "os/clock.h"

#define SLIP__STALL_LOOKS 5u  // in a time-out; stall.h says why no fewer

// --- Looking -------------------------------------------------------------------------------------------------------------------------

// The oldest task that is not over, and how many there are; the one being linked does not count. |*out_ended| is how many of all runs are
// over: it only grows, so that two looks with the same number have seen no progress, whatever the submitter did in between.
static slip__slot_t *slip__stall_oldest(slip__workspace_t *workspace, uint64_t *out_open, uint64_t *out_ended) {
  slip__slot_t *oldest = NULL;
  uint64_t open = 0, submitted = 0;
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) {
    slip__ring_t *ring = &workspace->rings[i];
    submitted += ring->next;
    for (uint64_t sequence = ring->retired; sequence != ring->next; ++sequence) {
      slip__slot_t *slot = slip__ring_slot(ring, sequence);
      if (slot == workspace->stall.linked || slip__slot_is_closed(slot)) continue;
      if (!oldest) oldest = slot;
      ++open;
    }
  }
  *out_open = open;
  *out_ended = submitted - open - (workspace->stall.linked ? 1 : 0);
  return oldest;
}

static bool slip__stall_is_own(const slip__workspace_t *workspace, uintptr_t slot) {
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) {
    const slip__ring_t *ring = &workspace->rings[i];
    if (slot >= (uintptr_t)ring->slots && slot < (uintptr_t)(ring->slots + ring->mask + 1)) return true;
  }
  return false;
}

// A task of the run lies in a queue or on the board, or a gang is about. Items are compared, never followed: theirs may be gone.
static bool slip__stall_is_visible(const slip__workspace_t *workspace) {
  slip__engine_t *engine = workspace->engine;
  slip__board_t *board = &engine->board;
  uint32_t open = atomic_load_explicit(&board->open, memory_order_acquire);
  if (slip__board_has_gang(board)) return true;
  for (; open; open &= open - 1) {
    slip__board_entry_t *entry = &board->entries[__builtin_ctz(open)];
    if (slip__stall_is_own(workspace, (uintptr_t)atomic_load_explicit(&entry->slot, memory_order_relaxed))) return true;
  }
  uint32_t count = atomic_load_explicit(&engine->seat_count, memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    slip__queue_t *queue = &engine->seats[i]->queue;
    uint64_t top = atomic_load_explicit(&queue->top, memory_order_acquire);
    uint64_t bottom = atomic_load_explicit(&queue->bottom, memory_order_seq_cst);
    for (; top < bottom; ++top) {
      uintptr_t item = (uintptr_t)atomic_load_explicit(&queue->items[top % SLIP__QUEUE_CAPACITY], memory_order_relaxed);
      if (slip__stall_is_own(workspace, item)) return true;
    }
  }
  return false;
}

// Every thread but this one has been without a task since the last look, which is noted anew.
static bool slip__stall_all_turned(slip__workspace_t *workspace) {
  slip__engine_t *engine = workspace->engine;
  uint32_t count = atomic_load_explicit(&engine->seat_count, memory_order_acquire);
  bool all = true;
  for (uint32_t i = 0; i < count; ++i) {
    slip__seat_t *seat = engine->seats[i];
    uint32_t turns = atomic_load_explicit(&seat->turns, memory_order_acquire);
    bool turned = turns != workspace->stall.turns[i] || seat == workspace->seat;
    workspace->stall.turns[i] = turns;
    if (i < engine->worker_count) {
      turned |= (atomic_load_explicit(&engine->idle[i / 64], memory_order_seq_cst) >> (i % 64) & 1) != 0;
    } else {
      turned |= atomic_load_explicit(&seat->active, memory_order_acquire) == 0;
    }
    all &= turned;
  }
  return all;
}

// --- Failing -------------------------------------------------------------------------------------------------------------------------

// Nobody has a task of the run: they are over as they are. Consumers and edges go with them.
static void slip__stall_abandon(slip__workspace_t *workspace) {
  for (uint32_t i = 0; i < SLIP__RING_COUNT; ++i) {
    slip__ring_t *ring = &workspace->rings[i];
    for (uint64_t sequence = ring->retired; sequence != ring->next; ++sequence) {
      slip__slot_t *slot = slip__ring_slot(ring, sequence);
      if (slot == workspace->stall.linked || slip__slot_is_closed(slot)) continue;
      slot->ran = 0;
      atomic_store_explicit(&slot->successors, SLIP__SUCCESSORS_CLOSED, memory_order_release);
    }
  }
}

static slip_code_t slip__stall_what(const slip__workspace_t *workspace, char *text, size_t capacity) {
  uint32_t index = slip__workspace_ring_of(workspace->depth);
  const slip__ring_t *ring = &workspace->rings[index];
  switch (workspace->stall.waits_for) {
    case SLIP__WAITS_FOR_WINDOW:
      (void)snprintf(text, capacity,
                     "the task window of ring %" PRIu32 " (%" PRIu64 " of %" PRIu64
                     " tasks) cannot drain, so that a larger task_window[%" PRIu32 "] would only put this off",
                     index, slip__ring_live(ring), (uint64_t)ring->mask + 1, index);
      return SLIP_CODE_GRAPH_WINDOW_EXHAUSTED;
    case SLIP__WAITS_FOR_ELEMENT:
      (void)snprintf(text, capacity, "an element's producer never ends");
      return SLIP_CODE_GRAPH_ELEMENT_TIMEOUT;
    case SLIP__WAITS_FOR_GRAPH:
      (void)snprintf(text, capacity, "a recorded graph waits for the tasks that it must follow");
      return SLIP_CODE_GRAPH_STALLED;
    case SLIP__WAITS_FOR_HEAP:
      (void)snprintf(text, capacity, "the submitter waits for room in heap ring %" PRIu32, index);
      return SLIP_CODE_GRAPH_STALLED;
    case SLIP__WAITS_FOR_POOL:
      (void)snprintf(text, capacity, "the submitter waits for room in the dependency pool of ring %" PRIu32, index);
      return SLIP_CODE_GRAPH_STALLED;
    default:
      (void)snprintf(text, capacity, "the submitter waits for the end of the run");
      return SLIP_CODE_GRAPH_STALLED;
  }
}

static void slip__stall_fail(slip__workspace_t *workspace, slip__slot_t *oldest, uint64_t open) {
  char what[192];
  slip_code_t code = slip__stall_what(workspace, what, sizeof(what));
  slip_status_t status =
      SLIP_STATUS(code,
                  "%s: for %" PRIu32 " ms no task of the run has ended, none is running and none can start; the oldest of %" PRIu64
                  " never became ready, or was lost when it was (%" PRIu32
                  " dependencies open when last counted). A kernel has written where it must not, or the engine has a "
                  "defect: try SLIP_CONTEXT_SINGLE_THREAD and a memory checker; stall_timeout_ms sets the time",
                  what, workspace->engine->stall_timeout_ms, open, atomic_load_explicit(&oldest->pending, memory_order_relaxed));
  slip__workspace_fail(workspace, slip__fault_at_task(oldest, status));
  slip__stall_abandon(workspace);
}

static void slip__stall_look(slip__workspace_t *workspace) {
  slip__stall_t *stall = &workspace->stall;
  uint64_t open, ended;
  slip__slot_t *oldest = slip__stall_oldest(workspace, &open, &ended);
  bool turned = slip__stall_all_turned(workspace);
  if (ended != stall->ended || !turned || slip__stall_is_visible(workspace)) {
    stall->ended = ended;
    stall->quiet = 0;
  } else if (++stall->quiet >= SLIP__STALL_LOOKS && oldest) {
    slip__stall_fail(workspace, oldest, open);
  }
}

// --- Waiting -------------------------------------------------------------------------------------------------------------------------

static void slip__stall_sleep_for(slip__workspace_t *workspace, slip__slot_t *slot, int64_t longest_ns) {
  uint32_t timeout_ms = workspace->engine->stall_timeout_ms;
  int64_t period_ns = timeout_ms == SLIP__STALL_NEVER ? -1 : (int64_t)timeout_ms * 1000000 / SLIP__STALL_LOOKS;
  bool looks = period_ns >= 0 && (longest_ns < 0 || period_ns <= longest_ns);
  slip__stall_end(workspace);
  bool woken = slip__park_submitter(workspace->seat, slot, looks ? period_ns : longest_ns);
  if (!woken && looks) slip__stall_look(workspace);
  slip__stall_begin(workspace);
}

void slip__stall_sleep(slip__workspace_t *workspace, slip__slot_t *slot) {
  slip__stall_sleep_for(workspace, slot, -1);
}

__attribute__((noinline, cold)) static void slip__stall_element_late(slip__workspace_t *workspace, const slip__slot_t *slot) {
  slip_status_t status = SLIP_STATUS(SLIP_CODE_GRAPH_ELEMENT_TIMEOUT,
                                     "an element access has waited %" PRIu32
                                     " ms for a task that is not over; make the task shorter, or raise element_timeout_ms",
                                     workspace->engine->element_timeout_ms);
  slip__workspace_fail(workspace, slip__fault_at_task(slot, status));
}

void slip__stall_wait_element(slip__workspace_t *workspace, slip__slot_t *slot, uint64_t started_ns) {
  uint64_t limit_ns = (uint64_t)workspace->engine->element_timeout_ms * 1000000;
  slip__idle_t idle = {0};
  workspace->stall.waits_for = SLIP__WAITS_FOR_ELEMENT;
  while (!slip__slot_is_closed(slot) && !slip__workspace_failed(workspace)) {
    uint64_t waited_ns = limit_ns ? slip__clock_now_ns() - started_ns : 0;
    if (limit_ns && waited_ns >= limit_ns) {
      slip__stall_element_late(workspace, slot);
    } else if (slip__help(workspace->engine, workspace->seat)) {
      idle = (slip__idle_t){0};
    } else if (slip__idle_spin(&idle)) {
      slip__stall_sleep_for(workspace, slot, limit_ns ? (int64_t)(limit_ns - waited_ns) : -1);
      idle = (slip__idle_t){0};
    }
  }
}
