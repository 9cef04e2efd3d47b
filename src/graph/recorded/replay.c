// SPDX-License-Identifier: Apache-2.0
// Running an instance. Protocol and memory orders: replay.h.
#include "graph/recorded/replay.h"

#include "base/prefetch.h"
#include "graph/execute.h"
#include "graph/fault.h"
#include "graph/park.h"
#include "graph/stall.h"
#include "graph/workspace.h"
#include "os/chaos.h"
#include "os/clock.h"

#include <string.h>

// Measured on two cores (docs/design/engine.md).
#define SLIP__LANE_PATIENCE          32    // looks at a lane that nobody holds before this thread takes it, while others are awake
#define SLIP__LANE_AHEAD             16    // entries that a lane taken on the way may be advanced beyond what was needed
#define SLIP__KEPT_MOST              64    // nodes that a thread keeps
#define SLIP__KEPT_NODE_NS           2000  // of nodes that take longer on average, none are kept
#define SLIP__ROOTS_PUBLISHED        16    // at once
#define SLIP__SERIAL_AHEAD           4     // nodes lie in the order of the plan, not in the recorded one
#define SLIP__LANE_GANGS             31    // mask: entries between two looks for a gang
#define SLIP__EPOCH(epoch, position) ((uint64_t)(epoch) << 32 | (position))

// --- Nodes --------------------------------------------------------------------------------------------------------------------------

__attribute__((noinline, cold)) static void slip__node_fault(const slip__replay_node_t *node, uint32_t code) {
  const slip__replay_t *replay = node->replay;
  uint32_t index = slip__definition_entries(replay->block)[node - replay->nodes].node;
  slip__kernel_fault_in_node(replay->workspace, slip__definition_nodes(replay->block)[index].kernel, index, code);
}

__attribute__((noinline)) static uint32_t slip__node_scratch_bytes(const slip__replay_t *replay, const slip__replay_node_t *node) {
  uint32_t index = slip__definition_entries(replay->block)[node - replay->nodes].node;
  return replay->object->kernels[slip__definition_nodes(replay->block)[index].kernel].scratch_bytes;
}

// The tensors of |node| as its kernel sees them.
static inline const slip_ktensor_t *slip__node_tensors(const slip__replay_t *replay, const slip__replay_node_t *node, slip__seat_t *seat,
                                                       const uint64_t **out_scalars) {
  if (__builtin_expect(node->form == SLIP__NONE, 0)) {
    const slip_ktensor_t *tensors = node->arguments;
    *out_scalars = (const uint64_t *)(const void *)(tensors + node->tensor_count);
    return tensors;
  }
  const slip__replay_form_t *form = &replay->forms[node->form];
  slip_ktensor_t *view = seat->views;
  if (__builtin_expect(seat->form_id != form->id, 0)) {
    seat->form_id = form->id;
    memcpy(view, form->views, form->tensor_count * sizeof(*view));
  }
  void *const *data = node->arguments, *const *end = data + node->tensor_count;
  *out_scalars = (const uint64_t *)(const void *)end;
  for (; data != end; ++data, ++view) view->data = *data;
  return seat->views;
}

static inline void slip__node_call(const slip__replay_t *replay, const slip__replay_node_t *node, slip__seat_t *seat, void *scratch) {
  const uint64_t *scalars;
  const slip_ktensor_t *tensors = slip__node_tensors(replay, node, seat, &scalars);
  slip_kargs_t arguments = {
      .tensors = tensors,
      .scalars = scalars,
      .scratch = scratch,
      .tensor_count = node->tensor_count,
      .scalar_count = node->scalar_count,
      .scratch_bytes = __builtin_expect(node->flags & SLIP__NODE_SCRATCH, 0) ? slip__node_scratch_bytes(replay, node) : 0,
  };
  node->run(&arguments, (slip_block_t){.index = 0, .count = 1});
  if (__builtin_expect(arguments.fault != 0, 0)) slip__node_fault(node, arguments.fault);
}

// The run has failed: the node is not run. Relaxed: a late sight runs a task more, submitted before the error.
static inline bool slip__replay_failed(slip__replay_t *replay) {
  if (__builtin_expect(!slip__workspace_failed(replay->workspace), 1)) return false;
  atomic_fetch_add_explicit(&replay->skipped, 1, memory_order_relaxed);
  return true;
}

// Acquire: pairs with the release in slip__seat_grow_scratch.
static inline void *slip__seat_scratch(slip__seat_t *seat) {
  return atomic_load_explicit(&seat->scratch, memory_order_acquire);
}

// False if the node has no kernel, its predicate says no, or the run has failed.
static bool slip__node_is_wanted(slip__replay_t *replay, const slip__replay_node_t *node) {
  if ((node->flags & SLIP__NODE_NO_KERNEL) || slip__replay_failed(replay)) return false;
  if (!(node->flags & SLIP__NODE_PREDICATE) || slip__predicate_holds(&replay->slots[node->slot])) return true;
  atomic_fetch_add_explicit(&replay->skipped, 1, memory_order_relaxed);
  return false;
}

// --- Ends ---------------------------------------------------------------------------------------------------------------------------

static void slip__replay_note_time(slip__replay_t *replay);

// The last node is over. Nothing of the replay may be touched afterwards: it may be in use again.
static void slip__replay_finish(slip__replay_t *replay) {
  slip__seat_t *waiter = replay->workspace->seat;
  slip__chaos_point(SLIP__CHAOS_REPLAY_OVER);
  if (__builtin_expect(replay->clocked, 0)) slip__replay_note_time(replay);
  atomic_store_explicit(&replay->finished, 1, memory_order_seq_cst);
  slip__wake_submitter(waiter);
}

// A sink is over. True: it was the last, and the replay is to be finished.
static inline bool slip__replay_sink_over(slip__replay_t *replay, uint32_t group_index) {
  slip__replay_group_t *group = &replay->groups[group_index];
  slip__chaos_point(SLIP__CHAOS_SINK);
  if (atomic_fetch_sub_explicit(&group->left, 1, memory_order_acq_rel) != 1) return false;
  atomic_store_explicit(&group->left, group->size, memory_order_relaxed);
  if (atomic_fetch_sub_explicit(&replay->groups_left, 1, memory_order_acq_rel) != 1) return false;
  atomic_store_explicit(&replay->groups_left, replay->group_count, memory_order_relaxed);
  return true;
}

// --- Dynamic ------------------------------------------------------------------------------------------------------------------------

static inline slip__slot_t *slip__node_item(slip__replay_node_t *node) {
  return (slip__slot_t *)((uintptr_t)node | SLIP__ITEM_NODE);
}

// Others would find nothing in |queue|, which is the calling thread's. Relaxed: a late sight shares one node more or later.
static inline bool slip__queue_is_low(slip__queue_t *queue) {
  return atomic_load_explicit(&queue->top, memory_order_relaxed) == queue->published;
}

// The consumers that will most likely be counted next: their lines travel while the kernel runs.
static inline void slip__node_prefetch(const slip__replay_t *replay, const slip__replay_node_t *node) {
  if (node->successor_count == 0) return;
  const uint32_t *successors = replay->successors + node->first_successor;
  slip__prefetch_write(&replay->nodes[successors[0]]);
  slip__prefetch_write(&replay->nodes[successors[node->successor_count - 1]]);
}

// One producer of |node| is over. True: it was the last.
static inline bool slip__node_is_due(slip__replay_node_t *node) {
  slip__chaos_point(SLIP__CHAOS_NODE_COUNT_DOWN);
  if (node->indegree == 1) return true;
  if (atomic_load_explicit(&node->pending, memory_order_acquire) != 1 &&
      atomic_fetch_sub_explicit(&node->pending, 1, memory_order_acq_rel) != 1) {
    return false;
  }
  atomic_store_explicit(&node->pending, node->indegree, memory_order_relaxed);
  return true;
}

// Nodes that one thread has released and runs itself, the last one first, unless others take them: see "kept" in replay.h.
typedef struct slip__kept_t {
  uint32_t count, limit;                        // |limit| 0: nothing is kept
  slip__replay_node_t *nodes[SLIP__KEPT_MOST];  // the oldest first
} slip__kept_t;

// The |count| oldest go to the ready queue.
__attribute__((noinline)) static void slip__kept_share(slip__kept_t *kept, slip__engine_t *engine, slip__seat_t *seat, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) slip__make_ready(seat, slip__node_item(kept->nodes[i]));
  kept->count -= count;
  memmove(kept->nodes, kept->nodes + count, kept->count * sizeof(kept->nodes[0]));
  slip__wake_for_queued(engine, seat, count);
}

// Releases the consumers of a node that is over and is no sink: the first one due is returned, the others are kept or queued.
static inline slip__replay_node_t *slip__node_release(slip__replay_t *replay, slip__engine_t *engine, slip__seat_t *seat,
                                                      const slip__replay_node_t *node, slip__kept_t *kept) {
  // Copies: after the last count the replay may be over and gone.
  slip__replay_node_t *nodes = replay->nodes, *next = NULL;
  const uint32_t *successors = replay->successors + node->first_successor;
  uint32_t count = node->successor_count, queued = 0;
  for (uint32_t i = 0; i < count; ++i) {
    slip__replay_node_t *consumer = &nodes[successors[i]];
    if (!slip__node_is_due(consumer)) continue;
    if (!next) {
      next = consumer;
    } else if (kept->count < kept->limit) {
      kept->nodes[kept->count++] = consumer;
    } else {
      slip__make_ready(seat, slip__node_item(consumer));
      ++queued;
    }
  }
  if (queued) slip__wake_for_queued(engine, seat, queued);
  return next;
}

slip__slot_t *slip__replay_blocks_over(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *slot) {
  const slip__replay_node_t *node = (const slip__replay_node_t *)((uintptr_t)slot->node & ~SLIP__ITEM_MASK);
  slip__replay_t *replay = node->replay;
  slip__kept_t none = {.count = 0, .limit = 0};
  if (node->successor_count == 0) {
    if (slip__replay_sink_over(replay, node->first_successor)) slip__replay_finish(replay);
    return NULL;
  }
  slip__replay_node_t *next = slip__node_release(replay, engine, seat, node, &none);
  return next ? slip__node_item(next) : NULL;
}

// What is not simply run: true if |node| is to be run here, by a call. Else |*out_item| is what the blocks' end has released, if there are
// any, and NULL if the node is over.
static bool slip__node_cold(slip__replay_t *replay, slip__engine_t *engine, slip__seat_t *seat, slip__replay_node_t *node,
                            slip__kept_t *kept, bool *out_blocks, slip__slot_t **out_item) {
  *out_blocks = false;
  if (!slip__node_is_wanted(replay, node)) return false;
  if (!(node->flags & SLIP__NODE_BLOCKS)) return true;
  *out_blocks = true;
  if (kept->count) slip__kept_share(kept, engine, seat, kept->count);  // this may take long
  *out_item = slip__board_run(engine, seat, &replay->slots[node->slot]);
  return false;
}

static slip__slot_t *slip__replay_chain(slip__engine_t *engine, slip__seat_t *seat, slip__replay_node_t *node) {
  slip__replay_t *replay = node->replay;
  void *scratch = slip__seat_scratch(seat);
  slip__kept_t kept;
  kept.count = 0;
  kept.limit = replay->kept_limit;
  for (;;) {
    if (__builtin_expect(slip__board_gang_waits(&engine->board), 0)) {
      if (kept.count) slip__kept_share(&kept, engine, seat, kept.count);
      slip__execute_gang(engine, seat);
    }
    slip__node_prefetch(replay, node);
    if (__builtin_expect((node->flags & SLIP__NODE_COLD) != 0, 0)) {
      bool blocks;
      slip__slot_t *item;
      if (slip__node_cold(replay, engine, seat, node, &kept, &blocks, &item)) {
        slip__node_call(replay, node, seat, scratch);
      } else if (blocks) {
        if (!item || slip__item_is_slot(item)) return item;
        // Whoever helps with blocks may come to those that lie on the board next, and end them: another replay's node. Nothing is kept now.
        node = (slip__replay_node_t *)((uintptr_t)item & ~SLIP__ITEM_MASK);
        replay = node->replay;
        kept.limit = replay->kept_limit;
        continue;
      }
    } else if (!slip__replay_failed(replay)) {
      slip__node_call(replay, node, seat, scratch);
    }
    if (node->successor_count) {
      node = slip__node_release(replay, engine, seat, node, &kept);
    } else {
      if (slip__replay_sink_over(replay, node->first_successor)) {
        slip__replay_finish(replay);
        return NULL;
      }
      node = NULL;
    }
    if (kept.count == 0) {
      if (!node) return NULL;
      continue;
    }
    if (!node) node = kept.nodes[--kept.count];
    if (kept.count && slip__queue_is_low(&seat->queue)) slip__kept_share(&kept, engine, seat, (kept.count + 1) / 2);
  }
}

static slip__slot_t *slip__replay_start_dynamic(slip__replay_t *replay, slip__seat_t *seat) {
  slip__replay_node_t *first = &replay->nodes[replay->roots[0]];
  uint32_t others = replay->root_count - 1;
  // The first root runs last here, and nothing can be over before it has: the rest may be read until then.
  for (uint32_t i = 1; i <= others; ++i) {
    slip__slot_t *item = slip__node_item(&replay->nodes[replay->roots[i]]);
    if (!slip__queue_append(&seat->queue, item)) slip__make_ready(seat, item);
    if (i % SLIP__ROOTS_PUBLISHED == 0) slip__queue_publish(&seat->queue);
  }
  if (others) slip__wake_for_queued(replay->engine, seat, others);
  return slip__replay_chain(replay->engine, seat, first);
}

// --- Planned ------------------------------------------------------------------------------------------------------------------------

static inline slip__slot_t *slip__lane_item(slip__replay_lane_t *lane) {
  return (slip__slot_t *)((uintptr_t)lane | SLIP__ITEM_LANE);
}

static void slip__lane_queue(slip__seat_t *seat, slip__replay_lane_t *lane) {
  if (atomic_exchange_explicit(&lane->queued, 1, memory_order_acq_rel) == 0) slip__make_ready(seat, slip__lane_item(lane));
}

// Claims |lane| if it is free and not done; |*out_epoch| is then the replay it is in.
static bool slip__lane_claim(slip__replay_lane_t *lane, uint64_t *out_epoch) {
  uint64_t state = atomic_load_explicit(&lane->state, memory_order_relaxed);
  if ((state & SLIP__LANE_BITS) != SLIP__LANE_FREE) return false;
  *out_epoch = state >> SLIP__LANE_SHIFT;
  slip__chaos_point(SLIP__CHAOS_LANE_CLAIM);
  return atomic_compare_exchange_strong_explicit(&lane->state, &state, state | SLIP__LANE_HELD, memory_order_acquire, memory_order_relaxed);
}

static bool slip__lane_advance(slip__replay_lane_t *lane, slip__seat_t *seat, uint64_t epoch, uint64_t target);

// Waits until |other| has come to |target|, and advances it if nobody else does. Cold: the lane is not there yet.
__attribute__((noinline)) static uint64_t slip__lane_wait(slip__replay_lane_t *other, slip__seat_t *seat, uint64_t epoch, uint64_t target) {
  slip__engine_t *engine = other->replay->engine;
  slip__idle_t idle = {0};
  for (uint32_t looks = 0;; ++looks) {
    uint64_t progress = atomic_load_explicit(&other->progress, memory_order_acquire);
    if (progress >= target) return progress;
    if (__builtin_expect(slip__board_gang_waits(&engine->board), 0)) slip__execute_gang(engine, seat);
    bool nobody_comes = looks >= SLIP__LANE_PATIENCE || (engine->worker_count < 2 && slip__workers_sleep(engine));
    uint64_t same;
    if (nobody_comes && slip__lane_claim(other, &same)) {  // the caller's own lane keeps the epoch from ending
      (void)slip__lane_advance(other, seat, epoch, target);
    } else if (looks < 4 * SLIP__LANE_PATIENCE) {
      slip__cpu_relax();
    } else if (slip__idle_spin(&idle)) {
      slip__thread_yield();  // whoever holds the lane may want this core
    }
  }
}

// What |node| of |lane| waits for is there. False: it is not, and this thread does |not_wait|: it may itself hold what would have to come.
static inline bool slip__lane_inputs(slip__replay_lane_t *lane, const slip__replay_node_t *node, slip__seat_t *seat, uint64_t epoch,
                                     bool not_wait) {
  slip__replay_t *replay = lane->replay;
  for (uint32_t w = 0; w < node->wait_count; ++w) {
    const slip__definition_wait_t *wait = &replay->waits[node->first_wait + w];
    uint64_t needed = SLIP__EPOCH(epoch, wait->position);
    if (lane->seen[wait->lane] >= needed) continue;
    slip__replay_lane_t *other = &replay->lanes[wait->lane];
    uint64_t seen = atomic_load_explicit(&other->progress, memory_order_acquire);
    if (__builtin_expect(seen < needed, 0)) {
      if (not_wait) return false;
      seen = slip__lane_wait(other, seat, epoch, needed);
    }
    lane->seen[wait->lane] = seen;
  }
  return true;
}

// Runs |lane|, which this thread holds, to |target| and perhaps a little further, and gives it back. True: this was the last lane's end.
static bool slip__lane_advance(slip__replay_lane_t *lane, slip__seat_t *seat, uint64_t epoch, uint64_t target) {
  slip__replay_t *replay = lane->replay;
  uint64_t begin = SLIP__EPOCH(epoch, 0), progress = atomic_load_explicit(&lane->progress, memory_order_relaxed);
  uint32_t position = progress < begin ? 0 : (uint32_t)progress, count = lane->count, needed = (uint32_t)target;
  uint32_t end = count - needed > SLIP__LANE_AHEAD ? needed + SLIP__LANE_AHEAD : count;
  slip__replay_node_t *node = &replay->nodes[lane->first_entry + position];
  void *scratch = slip__seat_scratch(seat);
  for (; position < end; ++node) {
    if (node->wait_count && !slip__lane_inputs(lane, node, seat, epoch, position >= needed)) break;
    if (__builtin_expect((node->flags & SLIP__NODE_COLD) != 0, 0)) {
      if (slip__node_is_wanted(replay, node)) slip__node_call(replay, node, seat, scratch);
    } else if (!slip__replay_failed(replay)) {
      slip__node_call(replay, node, seat, scratch);
    }
    ++position;
    slip__chaos_point(SLIP__CHAOS_LANE_PROGRESS);
    if (node->flags & SLIP__NODE_SIGNALS) atomic_store_explicit(&lane->progress, begin + position, memory_order_release);
    if ((position & SLIP__LANE_GANGS) == 0 && __builtin_expect(slip__board_gang_waits(&replay->engine->board), 0))
      slip__execute_gang(replay->engine, seat);
  }
  atomic_store_explicit(&lane->progress, begin + position, memory_order_release);
  slip__chaos_point(SLIP__CHAOS_LANE_BACK);
  bool done = position == count;
  atomic_store_explicit(&lane->state, epoch << SLIP__LANE_SHIFT | (done ? SLIP__LANE_DONE : SLIP__LANE_FREE), memory_order_release);
  if (!done) {
    slip__chaos_point(SLIP__CHAOS_LANE_QUEUE);
    slip__lane_queue(seat, lane);
    return false;
  }
  return atomic_fetch_sub_explicit(&replay->lanes_left, 1, memory_order_acq_rel) == 1;
}

// Advances lanes that nobody holds, |first| before the others, until there is none that is not done. Returns a task to run next, or NULL.
static slip__slot_t *slip__replay_sweep(slip__replay_t *replay, slip__seat_t *seat, uint32_t first) {
  uint32_t count = replay->block->lane_count;
  for (bool found = true; found;) {
    found = false;
    for (uint32_t i = 0; i < count; ++i) {
      slip__replay_lane_t *lane = &replay->lanes[first + i < count ? first + i : first + i - count];
      uint64_t epoch;
      if (!slip__lane_claim(lane, &epoch)) continue;
      found = true;
      if (slip__lane_advance(lane, seat, epoch, lane->count)) {
        slip__replay_finish(replay);
        return NULL;
      }
    }
  }
  return NULL;
}

static slip__slot_t *slip__lane_visit(slip__replay_lane_t *lane, slip__seat_t *seat) {
  slip__replay_t *replay = lane->replay;
  atomic_fetch_add_explicit(&replay->users, 1, memory_order_acq_rel);
  atomic_store_explicit(&lane->queued, 0, memory_order_release);  // after |users|: who destroys looks at this first
  slip__slot_t *next = slip__replay_sweep(replay, seat, (uint32_t)(lane - replay->lanes));
  atomic_fetch_sub_explicit(&replay->users, 1, memory_order_acq_rel);
  return next;
}

static slip__slot_t *slip__replay_start_planned(slip__replay_t *replay, slip__seat_t *seat) {
  uint32_t count = replay->block->lane_count, others = 0;
  atomic_fetch_add_explicit(&replay->users, 1, memory_order_acq_rel);
  for (uint32_t i = 0; i < count; ++i) others += replay->lanes[i].count != 0;
  atomic_store_explicit(&replay->lanes_left, others--, memory_order_relaxed);
  uint64_t free_state = ++replay->epoch << SLIP__LANE_SHIFT | SLIP__LANE_FREE;
  for (uint32_t i = 0; i < count; ++i) {
    if (replay->lanes[i].count) atomic_store_explicit(&replay->lanes[i].state, free_state, memory_order_release);
  }
  for (uint32_t i = 1; i < count; ++i) {
    if (replay->lanes[i].count) slip__lane_queue(seat, &replay->lanes[i]);
  }
  if (others) slip__wake_for_queued(replay->engine, seat, others);
  slip__slot_t *next = slip__replay_sweep(replay, seat, 0);
  atomic_fetch_sub_explicit(&replay->users, 1, memory_order_acq_rel);
  return next;
}

// --- Serial -------------------------------------------------------------------------------------------------------------------------

static void slip__replay_run_serial(slip__replay_t *replay, slip__seat_t *seat) {
  void *scratch = slip__seat_scratch(seat);
  uint32_t count = replay->block->node_count;
  for (uint32_t i = 0; i < count; ++i) {
    const slip__replay_node_t *node = &replay->nodes[replay->order[i]];
    if (i + SLIP__SERIAL_AHEAD < count) __builtin_prefetch(&replay->nodes[replay->order[i + SLIP__SERIAL_AHEAD]]);
    if (__builtin_expect((node->flags & SLIP__NODE_COLD) != 0, 0)) {
      if (!slip__node_is_wanted(replay, node)) continue;
      if (node->flags & SLIP__NODE_BLOCKS) {
        slip__execute_blocks(&replay->slots[node->slot], seat, 0, replay->slots[node->slot].block_count);
        continue;
      }
      slip__node_call(replay, node, seat, scratch);
    } else if (!slip__replay_failed(replay)) {
      slip__node_call(replay, node, seat, scratch);
    }
  }
}

// --- Choice -------------------------------------------------------------------------------------------------------------------------

#define SLIP__TRIALS       5u    // of each way, at first
#define SLIP__TRIALS_AGAIN 2u    // of each way, later
#define SLIP__TRIAL_LEAST  512u  // replays of an instance between two trials; doubled while they change nothing
#define SLIP__TRIAL_MOST   8192u
#define SLIP__CLOCKED      64u  // of so many replays one is timed

// The last trial was long ago, and said |mode|. True: it is repeated, since what is fastest depends on where the host has put the CPUs, and
// that changes.
__attribute__((noinline, cold)) static bool slip__replay_try_again(slip__replay_t *replay, uint32_t mode) {
  slip__definition_trials_t *trials = &replay->definition->trials;
  bool first = replay->patience == 0;
  if (first || mode != replay->tried) {
    replay->patience = SLIP__TRIAL_LEAST;
  } else if (replay->patience < SLIP__TRIAL_MOST) {
    replay->patience *= 2;
  }
  replay->until_trial = replay->patience;
  if (first) return false;
  replay->tried = mode;
  for (uint32_t i = 0; i < 4; ++i) atomic_store_explicit(&trials->best_ns[i], 0, memory_order_relaxed);
  atomic_store_explicit(&trials->count, 0, memory_order_relaxed);
  atomic_store_explicit(&trials->mode, SLIP__REPLAY_AUTO, memory_order_relaxed);
  return true;
}

static slip__replay_mode_e slip__replay_choose(slip__replay_t *replay, slip__replay_mode_e mode) {
  const slip__definition_block_t *block = replay->block;
  slip__definition_trials_t *trials = &replay->definition->trials;
  if (replay->engine->worker_count == 0) return SLIP__REPLAY_SERIAL;
  if (block->special) return SLIP__REPLAY_DYNAMIC;
  if (mode != SLIP__REPLAY_AUTO) return mode;
  mode = (slip__replay_mode_e)atomic_load_explicit(&trials->mode, memory_order_relaxed);
  if (__builtin_expect(mode != SLIP__REPLAY_AUTO, 1)) {
    if (__builtin_expect(replay->until_trial-- != 0, 1) || !slip__replay_try_again(replay, mode)) return mode;
  }
  replay->timed = true;
  return (slip__replay_mode_e)(1 + atomic_fetch_add_explicit(&trials->count, 1, memory_order_relaxed) % 3);
}

static void slip__replay_note_trial(slip__replay_t *replay, uint64_t ns) {
  slip__definition_trials_t *trials = &replay->definition->trials;
  uint32_t wanted = SLIP__TRIALS;
  if (replay->tried) {
    wanted = SLIP__TRIALS_AGAIN;
    if (replay->mode != replay->tried) ns += ns / 8;  // not for a trifle, which may be chance
  }
  // Values are stored inverted, so that the zeros of a new definition are the worst.
  if (~ns > atomic_load_explicit(&trials->best_ns[replay->mode], memory_order_relaxed)) {
    atomic_store_explicit(&trials->best_ns[replay->mode], ~ns, memory_order_relaxed);
  }
  if (atomic_load_explicit(&trials->count, memory_order_relaxed) < 3 * wanted) return;
  uint32_t best = SLIP__REPLAY_SERIAL;
  for (uint32_t mode = SLIP__REPLAY_DYNAMIC; mode <= SLIP__REPLAY_PLANNED; ++mode) {
    if (atomic_load_explicit(&trials->best_ns[mode], memory_order_relaxed) >
        atomic_load_explicit(&trials->best_ns[best], memory_order_relaxed))
      best = mode;
  }
  atomic_store_explicit(&trials->mode, best, memory_order_relaxed);
}

// The last node of a timed replay is over.
__attribute__((noinline, cold)) static void slip__replay_note_time(slip__replay_t *replay) {
  uint64_t ns = slip__clock_now_ns() - replay->started_ns;
  replay->node_ns = ns * replay->engine->thread_count / replay->block->node_count + 1;
  if (replay->timed) slip__replay_note_trial(replay, ns);
}

// --- Start and wait -----------------------------------------------------------------------------------------------------------------

// What executors read of a replay, before anything of it is published.
static void slip__replay_prepare(slip__replay_t *replay, slip__workspace_t *workspace, slip__replay_mode_e mode) {
  replay->timed = false;
  replay->mode = slip__replay_choose(replay, mode);
  replay->clocked = replay->timed || replay->runs++ % SLIP__CLOCKED == 0;
  replay->kept_limit = replay->node_ns && replay->node_ns < SLIP__KEPT_NODE_NS ? SLIP__KEPT_MOST : 0;
  replay->workspace = workspace;
  for (uint32_t i = 0; i < replay->slot_count; ++i) replay->slots[i].workspace = workspace;
  atomic_store_explicit(&replay->skipped, 0, memory_order_relaxed);
  atomic_store_explicit(&replay->finished, 0, memory_order_relaxed);
  if (replay->clocked) replay->started_ns = slip__clock_now_ns();
}

static void slip__replay_park(slip__replay_t *replay, slip__seat_t *seat) {
  atomic_store_explicit(&seat->parked, 1, memory_order_seq_cst);
  if (!atomic_load_explicit(&replay->finished, memory_order_seq_cst) && !slip__work_is_visible(seat->engine)) {
    while (atomic_load_explicit(&seat->parked, memory_order_acquire)) (void)slip__futex_wait(&seat->parked, 1, -1);
  }
  atomic_store_explicit(&seat->parked, 0, memory_order_relaxed);
}

static void slip__replay_wait(slip__replay_t *replay, slip__seat_t *seat) {
  slip__idle_t idle = {0};
  for (uint32_t looks = 0; !atomic_load_explicit(&replay->finished, memory_order_acquire); ++looks) {
    if (replay->mode == SLIP__REPLAY_PLANNED && looks < 2 * SLIP__LANE_PATIENCE) {
      slip__cpu_relax();
    } else if (slip__help(replay->engine, seat)) {
      idle = (slip__idle_t){0};
    } else if (slip__idle_spin(&idle)) {
      slip__replay_park(replay, seat);
      idle = (slip__idle_t){0};
    }
  }
}

uint64_t slip__replay_run(slip__replay_t *replay, slip__workspace_t *workspace, slip__replay_mode_e mode) {
  slip__seat_t *seat = workspace->seat;
  if (replay->block->node_count == 0) return 0;
  slip__stall_begin(workspace);  // while it helps, this thread holds tasks of other runs too
  slip__replay_prepare(replay, workspace, mode);
  if (replay->mode == SLIP__REPLAY_SERIAL) {
    slip__replay_run_serial(replay, seat);
    if (replay->clocked) slip__replay_note_time(replay);
  } else {
    slip__slot_t *next =
        replay->mode == SLIP__REPLAY_PLANNED ? slip__replay_start_planned(replay, seat) : slip__replay_start_dynamic(replay, seat);
    if (next) slip__execute_chain(replay->engine, seat, next);
    slip__replay_wait(replay, seat);
    // What this thread took over from other runs and could not put where others find it.
    while (seat->overflow) (void)slip__help(replay->engine, seat);
  }
  slip__stall_end(workspace);
  return replay->block->runnable - atomic_load_explicit(&replay->skipped, memory_order_relaxed);
}

slip__slot_t **slip__replay_item_link(slip__slot_t *item) {
  uintptr_t kind = (uintptr_t)item & SLIP__ITEM_MASK, address = (uintptr_t)item & ~SLIP__ITEM_MASK;
  return kind == SLIP__ITEM_NODE ? &((slip__replay_node_t *)address)->link : &((slip__replay_lane_t *)address)->link;
}

slip__slot_t *slip__replay_execute(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *item) {
  uintptr_t kind = (uintptr_t)item & SLIP__ITEM_MASK, address = (uintptr_t)item & ~SLIP__ITEM_MASK;
  if (kind == SLIP__ITEM_NODE) return slip__replay_chain(engine, seat, (slip__replay_node_t *)address);
  return slip__lane_visit((slip__replay_lane_t *)address, seat);
}
