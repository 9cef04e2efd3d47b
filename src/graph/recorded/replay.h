// SPDX-License-Identifier: Apache-2.0
// One instance of a recorded graph: addresses, counters and lanes of one replay in flight.
//
// A replay runs in one of three ways; all three share the nodes, which lie in the order of the planned layout:
//   serial    the starting thread runs all nodes in the order they were recorded in
//   dynamic   nodes are items of the ready queues like any task; the last producer runs the first consumer it releases itself
//   planned   each lane is walked in order by whichever thread holds it; a lane that needs another's result reads that lane's progress
//
// An item of a ready queue that is no task of a window has low bits set (slots and nodes are 64-aligned): SLIP__ITEM_NODE, SLIP__ITEM_LANE.
//
// Dynamic. A node's |pending| counts its producers still running. It is set back to all of them by the thread that finds it due, before the
// node runs: nobody counts again before the next replay, which starts after this one's end. Nodes with one producer are not counted at all.
//
//   word        operation                            order     pairs with
//   pending     count down (fetch_sub)               acq_rel   each other: the last producer sees what all of them wrote
//               is it 1? then this is the last       acquire   the fetch_subs: they form one release sequence
//               set back (store)                     relaxed   ordered before the next replay by this one's end
//   left        sinks (groups of them, then groups)  acq_rel   as |pending|: the last sees everything the replay wrote
//   finished    the last one sets it (store)         seq_cst   acquire in the waiting submitter; seq_cst with its park word (park.h)
//
// A thread keeps up to SLIP__KEPT_MOST nodes that it has released beyond the one it runs next, if nodes are short, and runs the newest
// first: depth first, with inputs still in its cache, and without a store that others watch. The oldest half goes to the ready queue
// whenever that is found empty between two nodes, so that who looks for work finds some after one node's time. Long nodes are not kept:
// while they run nobody could have what is kept behind them. How long they are says a replay that is timed, the first and then every 64th.
//
// Which way is the fastest is tried: five replays each at first, and two of each again after 512 (then 1024 .. 8192 while it changes
// nothing), since it depends on how far apart the CPUs are, and a host changes that.
//
// Planned. Progress is never reset: it is `epoch << 32 | entries that are over`, and a new epoch makes every lane begin anew. A lane's
// state is `epoch << 2 | free, held or done`: only a lane of the replay under way can be claimed, so that whoever comes late, with an item
// of an earlier one, holds nothing even for a moment. Two such threads could hide both lanes from all who would run them (model:
// lanes.pml).
//
//   lane: done --start (store of the next epoch)--> free --claim (CAS)--> held --progress written, state stored--> free or done
//
//   state       start (store)                        release   the claim: patched arguments, |lanes_left|
//               claim (CAS)                          acquire   the start, and the last holder: |seen| and progress
//               give back (store)                    release   the claim
//   progress    after an entry others wait for,      release   acquire in whoever waits: what the entry wrote
//               and before giving the lane back
//   lanes_left  a lane's end (fetch_sub)             acq_rel   each other: the last sees everything the replay wrote
//   queued      the lane's item is in a queue (exchange by who puts it there, cleared by who takes it)   acq_rel
//   users       threads that came through an item; who destroys waits for 0 after all |queued| are 0     acq_rel
//
// Deadlock freedom does not depend on who runs the lanes. A thread that needs a lane which nobody holds takes it and advances it as far as
// needed; who gives a lane back that is not done puts its item into a queue; and no thread leaves a replay while there is a free lane that
// is not done. The order of all entries is topological, so along any chain of "holds this, waits for that" entries get strictly earlier.
#ifndef SLIPSTREAM_SRC_GRAPH_RECORDED_REPLAY_H_
#define SLIPSTREAM_SRC_GRAPH_RECORDED_REPLAY_H_

#include "graph/recorded/definition.h"
#include "graph/slot.h"
#include "graph/state.h"

#define SLIP__ITEM_NODE ((uintptr_t)1)
#define SLIP__ITEM_LANE ((uintptr_t)2)
#define SLIP__ITEM_MASK ((uintptr_t)7)

typedef struct slip__replay_t slip__replay_t;

typedef enum slip__replay_mode_e {
  SLIP__REPLAY_AUTO = 0,  // the fastest so far, once each has been tried
  SLIP__REPLAY_SERIAL = 1,
  SLIP__REPLAY_DYNAMIC = 2,
  SLIP__REPLAY_PLANNED = 3,  // not possible for graphs with gangs or tasks of several blocks: dynamic then
} slip__replay_mode_e;

typedef enum slip__replay_node_bits_e {
  SLIP__NODE_NO_KERNEL = 1,
  SLIP__NODE_PREDICATE = 2,
  SLIP__NODE_BLOCKS = 4,
  SLIP__NODE_SIGNALS = 8,  // planned: others wait for it
  SLIP__NODE_SCRATCH = 16,
} slip__replay_node_bits_e;
#define SLIP__NODE_COLD (SLIP__NODE_NO_KERNEL | SLIP__NODE_PREDICATE | SLIP__NODE_BLOCKS)

// What the tensors of nodes look like, apart from where they lie. A node carries its form and its addresses, a quarter of what whole views
// take: a large graph is as fast as memory brings it in. The thread that runs it changes the addresses in the views it already has, as it
// does for a task of a window (graph/form.h). A node whose tensors look like the first of a larger form's has that one.
typedef struct slip__replay_form_t {
  uint64_t id;  // as slip__form_t.id
  uint32_t tensor_count;
  const slip_ktensor_t *views;
} slip__replay_form_t;

typedef struct slip__replay_node_t {
  _Alignas(64) _Atomic uint32_t pending;
  uint32_t indegree;
  slip_kernel_fn_t run;
  void *arguments;  // addresses, or of a node without form: tensors; then scalars
  slip__replay_t *replay;
  slip__slot_t *link;        // in a seat's overflow list
  uint32_t first_successor;  // of a sink: its group
  uint32_t successor_count;  // 0: a sink
  uint32_t first_wait;
  uint32_t form;  // index, or SLIP__NONE
  uint8_t tensor_count;
  uint8_t scalar_count;
  uint8_t flags;  // slip__replay_node_bits_e
  uint8_t wait_count;
  uint32_t slot;  // of a node with blocks or a predicate: index into the replay's slots
} slip__replay_node_t;

// In the low bits of a lane's |state|; above them the epoch.
#define SLIP__LANE_FREE  UINT64_C(0)
#define SLIP__LANE_HELD  UINT64_C(1)
#define SLIP__LANE_DONE  UINT64_C(2)
#define SLIP__LANE_BITS  UINT64_C(3)
#define SLIP__LANE_SHIFT 2

typedef struct slip__replay_lane_t {
  _Alignas(128) _Atomic uint64_t progress;
  _Alignas(128) _Atomic uint64_t state;
  _Atomic uint32_t queued;
  slip__replay_t *replay;
  slip__slot_t *link;  // in a seat's overflow list
  uint32_t first_entry, count;
  // The holder's.
  uint64_t seen[SLIP__MAX_LANES];  // progress of the others, as last read
} slip__replay_lane_t;

typedef struct slip__replay_group_t {
  _Alignas(64) _Atomic uint32_t left;
  uint32_t size;
} slip__replay_group_t;

// One word that depends on a boundary: boundary * mul + add.
typedef struct slip__replay_patch_t {
  uint64_t *place;
  uint64_t mul, add;
} slip__replay_patch_t;

struct slip__replay_t {
  // Fixed.
  slip__engine_t *engine;
  slip__definition_t *definition;
  const slip__definition_block_t *block;
  const slip_object_t *object;
  slip__replay_node_t *nodes;
  slip__replay_form_t *forms;
  slip__definition_wait_t *waits;
  uint32_t *successors;  // places in |nodes|
  uint32_t *order;       // recorded order -> place
  slip__slot_t *slots;
  slip__replay_lane_t *lanes;
  slip__replay_group_t *groups;
  char *heap;
  uint64_t bytes;  // of the allocation
  uint32_t group_count;
  uint32_t root_count;
  uint32_t slot_count;
  uint32_t *roots;
  // What to write when a boundary changes: of boundary i, patches [first_patch[i], first_patch[i + 1]); tensors first, then scalars.
  slip__replay_patch_t *patches;
  uint32_t *first_patch;
  uint64_t *boundaries;  // storages and scalars, as last written
  // Of the replay in flight: written by the starting thread before it publishes anything.
  slip__workspace_t *workspace;  // of the run: nothing more is run once it has failed
  uint64_t started_ns;
  uint64_t epoch;  // of the last planned replay
  uint32_t mode;
  uint32_t kept_limit;  // nodes that a thread keeps to itself
  bool timed;           // for the trial of the ways
  bool clocked;         // at all
  // The starting thread's, except |node_ns|: that of whoever ends a replay.
  uint32_t runs, until_trial, patience;
  uint32_t tried;    // the way that was taken before the last trial; 0: there has been one only
  uint64_t node_ns;  // time of all threads for a node, in the last replay that was timed; 0: not known
  // Shared.
  _Alignas(128) _Atomic uint32_t groups_left;
  _Atomic uint32_t lanes_left;
  _Alignas(128) _Atomic uint32_t finished;
  _Alignas(128) _Atomic uint32_t users;
  _Atomic uint32_t skipped;  // nodes whose predicate said no, in this replay
};

// An instance for |object|, whose kernels the definition names. The definition is retained. OUT_OF_MEMORY, CORRUPT, INCOMPATIBLE.
slip_status_t slip__replay_create(slip__engine_t *engine, slip__definition_t *definition, const slip_object_t *object,
                                  slip__replay_t **out) SLIP_MUST_USE;
// Waits for threads that still hold an item of it. |seat|: the calling thread's. NULL is fine.
void slip__replay_destroy(slip__replay_t *replay, slip__seat_t *seat);

// Writes addresses and boundary scalars where they differ from the last ones. No replay of this instance is in flight.
void slip__replay_bind(slip__replay_t *replay, const slip_otensor_t *tensors, const uint64_t *scalars);
// Runs to the end; the calling thread, the submitter of |workspace|, takes part. Returns how many kernels ran.
uint64_t slip__replay_run(slip__replay_t *replay, slip__workspace_t *workspace, slip__replay_mode_e mode);

// --- For the scheduler --------------------------------------------------------------------------------------------------------------

static inline bool slip__item_is_slot(const slip__slot_t *item) {
  return ((uintptr_t)item & SLIP__ITEM_MASK) == 0;
}
// The field by which an item hangs in a seat's overflow list.
slip__slot_t **slip__replay_item_link(slip__slot_t *item);
// Runs a node, and what it releases, or walks a lane. Returns a task to run next, or NULL.
slip__slot_t *slip__replay_execute(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *item);
// All blocks of |slot|, a node's, are over. Returns a task or node to run next, or NULL.
slip__slot_t *slip__replay_blocks_over(slip__engine_t *engine, slip__seat_t *seat, slip__slot_t *slot);

#endif  // SLIPSTREAM_SRC_GRAPH_RECORDED_REPLAY_H_
