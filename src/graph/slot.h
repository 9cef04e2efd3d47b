// SPDX-License-Identifier: Apache-2.0
// A task in flight: one slot of a task window.
//
// States of a slot, and who moves it (submitter: the thread inside slip__engine_run; executor: whichever thread runs the task):
//
//   free --submit--> filled --last producer done, or none--> ready --taken from a queue--> running --complete--> closed --retire--> free
//        submitter          executor of that producer              executor               executor           submitter
//
// A task that is submitted while nothing is in flight may run in its submit (submit.c, schedule.c): filled, running, free, all of them the
// submitter's; it is not closed, since nobody else knows of it.
//
// Two words are shared between threads, all other fields have one writer at a time:
//
//   word         operation                          order             pairs with
//   successors   submitter links an edge (CAS)      release           the exchange in complete: the finisher sees the consumer's fields
//                submitter reads it (CAS failure)   acquire           the exchange: CLOSED means that the task's results are visible
//                executor closes it (exchange)      seq_cst           the two above (acquire + release); seq_cst orders it before
//                                                                     the look at the submitter's park word (park.h)
//                submitter ran the task in its      release           its own loads, and those of stall.c: no other thread knew of it;
//                  submit, and closes it (store)                      such a task is never linked or queued
//                submitter retires (load)           acquire           the exchange: the executor is done with the slot
//   pending      set before the first link (store)  relaxed           ordered by the release of the link
//                all links came too late: 0 (store) relaxed           nobody else knows of the task; ordered by the queue's publish
//                finisher counts down (fetch_sub)   acq_rel           the other finishers: the last one sees what all of them wrote
//                submitter counts the edges that    acq_rel           the finishers
//                  found a closed list
//
// |pending| counts the edges still open, set to all of them before the first is linked, so that a task cannot start while it is being
// linked: it reaches zero either in a finisher, or in the submitter's final subtraction of the links that came too late. After its last
// link the submitter touches the slot no more, except for that subtraction.
#ifndef SLIPSTREAM_SRC_GRAPH_SLOT_H_
#define SLIPSTREAM_SRC_GRAPH_SLOT_H_

#include <stdatomic.h>

#include "graph/handle.h"
#include "graph/form.h"
#include "slipstream/kernel/object.h"
#include "slipstream/base.h"

#define SLIP__SLOT_TENSORS 4  // arguments that fit the slot itself; tasks with more take an argument block
#define SLIP__SLOT_SCALARS 4
#define SLIP__SLOT_OF_NODE 0x80u  // in |flags|: no task of a window
#define SLIP__SLOT_BLOCK   0x40u  // in |flags|: the arguments lie in an argument block
#define SLIP__SLOT_EDGES   4

typedef struct slip__slot_t slip__slot_t;
typedef struct slip__workspace_t slip__workspace_t;

// One thing a task waits for. Lies in the consumer's slot or, beyond SLIP__SLOT_EDGES, in its ring's edge pool; linked into the producer's
// list.
typedef struct slip__edge_t {
  struct slip__edge_t *next;  // written by the submitter before the link, read by the producer's finisher
  slip__slot_t *consumer;
} slip__edge_t;

// The value of |successors| once the task is over.
#define SLIP__SUCCESSORS_CLOSED ((uintptr_t)1)

// Arguments of a task that has more than a slot holds, and its form if it cannot stay (form.h).
#define SLIP__OWN_FORM_BYTES \
  ((sizeof(slip__form_t) + SLIP_KERNEL_MAX_TENSORS * (sizeof(slip_ktensor_t) + sizeof(slip__form_tensor_t)) + 63) / 64 * 64)
typedef struct slip__argument_block_t {
  struct slip__argument_block_t *next_free;
  void *data[SLIP_KERNEL_MAX_TENSORS];
  uint64_t scalars[SLIP_KERNEL_MAX_SCALARS];
  _Alignas(64) char form[SLIP__OWN_FORM_BYTES];
} slip__argument_block_t;

// Laid out by who touches which cache line when: three lines for most tasks.
struct slip__slot_t {
  // Shared by submitter, finishers and executor.
  _Alignas(64) _Atomic(uintptr_t) successors;  // slip__edge_t list, or SLIP__SUCCESSORS_CLOSED
  _Atomic uint32_t pending;
  uint32_t block_count;
  const slip_object_kernel_t *kernel;  // NULL: a join
  slip__workspace_t *workspace;
  const slip__form_t *form;  // NULL: |arguments| are whole tensors, and the scalars follow them
  const void *arguments;     // addresses of the tensors; the scalars follow them, or SLIP__SLOT_BLOCK says where they are
  slip__slot_t *next;        // in an overflow or gang list
  uint8_t flags;             // slip_submit_bits_e, SLIP__SLOT_*
  uint8_t predicate_op;      // 0: none
  uint8_t predicate_dtype;
  uint8_t ran;     // the kernel ran (executor, before the list closes)
  uint16_t depth;  // of the scope, for messages
  uint16_t reserved;
  // Read by the executor.
  void *own_data[SLIP__SLOT_TENSORS];
  uint64_t own_scalars[SLIP__SLOT_SCALARS];
  // Written by the submitter, |next| read by finishers of producers.
  slip__edge_t edges[SLIP__SLOT_EDGES];
  // Predicate: only where |predicate_op| is not 0.
  const void *predicate_address;
  int64_t predicate_literal;
  // With SLIP__SLOT_OF_NODE: the recorded node whose blocks this slot stands for (recorded/replay.h), and for messages its index and
  // kernel.
  slip__slot_t *node;
  uint32_t node_index;
  uint32_t node_kernel;
};

// What only the submitter needs to know of the task in a slot.
typedef struct slip__slot_note_t {
  slip_task_t last_consumer;          // the task that linked here last: keeps a pair of tasks to one edge
  slip__argument_block_t *arguments;  // NULL: the slot's own
  uint64_t edges_end;                 // the ring's edge position after this task's edges
  const char *file;                   // where the submit stands, for messages; any thread may read it while the task is in flight
  uint32_t line;
} slip__slot_note_t;

// Acquire: pairs with the exchange in slip__complete; the task's results are visible.
static inline bool slip__slot_is_closed(slip__slot_t *slot) {
  return atomic_load_explicit(&slot->successors, memory_order_acquire) == SLIP__SUCCESSORS_CLOSED;
}

#endif  // SLIPSTREAM_SRC_GRAPH_SLOT_H_
