// SPDX-License-Identifier: Apache-2.0
// Tickets (30.6): what an asynchronous launch owns from admission to retirement.
//
//   state      entered by                             when                                                   leaves to
//   PENDING    launch                                 created, before the enqueue                            PUBLISHED, DONE, freed
//   PUBLISHED  launch, compare-and-swap from PENDING  the platform took the enqueue                          DONE
//   DONE       device side, exchange                  the callable has run; |result| was set before          RETIRED
//   RETIRED    reaper                                 argument block, registration, owner were given back    -
// The device side may run before launch publishes: then the compare-and-swap fails and DONE stays. A ticket whose device side has not run
// is PENDING or PUBLISHED, hence incomplete. A refused enqueue frees the PENDING ticket.
//
//   kind       counted in                   DONE when                                          result
//   EAGER      |pending|, one of two epochs the callable has run                               its own
//   CAPTURED   |captured|                   the graph is gone and the device through with it   the first fault of any replay
//   ABANDONED  |abandoned_count|            close has synchronised the lanes                   why it was abandoned (lane.h)
// Drain waits for eager ones only: a graph may live for ever. Close refuses while captured ones exist and retires the abandoned.
//
// Reaping. The device side pushes its ticket on the context's |done| stack; whoever next admits, waits, queries, drains or closes takes the
// whole stack in one exchange and retires what it took, oldest first. That is O(1) per launch and never looks at an unfinished ticket. (A
// FIFO per stream would need the stream as a key beyond the call that lent it, and a slow head would hold back finished tickets.) Nobody
// reaps in a capture: an owner's release is somebody else's code, which may make a call that breaks the capture.
//
//   memory order                            pairs with
//   DONE, release (device side)             acquire in query/wait: the tensors' contents and |result|
//   |result|, acq_rel compare-and-swap      acquire in query: a fault of a replay, read while the graph lives
//   push on |done|, seq_cst (release)       exchange by the reaper (acquire): all of the ticket. seq_cst for signal.h
//   RETIRED, release (reaper)               acquire in query/wait: the owner's release callback has returned
//   |pending| decrement, seq_cst (reaper)   close and a full queue: everything the launch held has been given back; |captured| likewise
//   |left| increment, release               close, which waits for |left| = |admitted|: the device side's last access to the context
//
// References: one of the launch (dropped by the reaper), one of the launching thread, which becomes the caller's handle or is dropped once
// published: the device side may be through and reaped before the enqueue has even returned. Each handle also holds the context's memory
// (shell), so that handles may be waited for, queried and released after close and even after destroy. Inline launches have finished when
// they return; their handle is the one static ticket slip__ticket_finished.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_TICKET_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_TICKET_H_

#include "kernel_mode/context.h"
#include "slipstream/graph.h"

typedef enum slip__ticket_state_e {
  SLIP__TICKET_PENDING,
  SLIP__TICKET_PUBLISHED,
  SLIP__TICKET_DONE,
  SLIP__TICKET_RETIRED,
} slip__ticket_state_e;

typedef enum slip__ticket_kind_e {
  SLIP__TICKET_EAGER,
  SLIP__TICKET_CAPTURED,
  SLIP__TICKET_ABANDONED,
} slip__ticket_kind_e;

typedef struct slip__chain_t slip__chain_t;

// The place of a launch among those of a replay (chain.c); |chain| NULL: it is no part of one.
typedef struct slip__chain_link_t {
  slip__chain_t *chain;
  uint32_t node;
} slip__chain_link_t;

struct slip_ticket_t {
  _Atomic uint32_t state;
  _Atomic uint32_t references;
  slip_context_t *context;
  slip__registration_t *registration;
  slip_ticket_t *next;  // on the done stack, or among the abandoned
  _Atomic(slip_status_t) result;
  void *arguments;       // tensors, then scalars; of a replay, the graph's version
  slip_graph_t *replay;  // a whole replay (replay.c) instead of a registration and its arguments; else NULL
  slip__chain_link_t link;
  void *device_arguments;  // the device's copy of them; NULL where |arguments| itself is read
  struct slip__lane_t *lane;
  void (*release)(void *user);
  void *user;
  uint32_t argument_class;
  uint32_t epoch;
  uint32_t kind;             // slip__ticket_kind_e
  _Atomic uint32_t given;    // captured: owner and registration were given back
  _Atomic uint32_t holders;  // captured: the graph, and what the submission may have enqueued beside it; DONE when both are through
  _Atomic uint32_t armed;    // through a lane: step 6 may run (lane.h)
  bool ran;                  // through a lane: step 6 was executed. Ordered by the lane's events
  bool from_heap;            // taken while callers held more handles than the pool has tickets
};

extern slip_ticket_t slip__ticket_finished;

// Waits for room among |max_pending| and counts the launch in. BUSY with |no_wait|; INVALID_STATE when close begins meanwhile, POISONED.
slip_status_t slip__tickets_admit(slip_context_t *context, bool no_wait, uint32_t *out_epoch) SLIP_MUST_USE;
// The same without waiting and without reaping.
bool slip__tickets_try_admit(slip_context_t *context, uint32_t *out_epoch);
// Takes back an admission that came to nothing.
void slip__tickets_revoke(slip_context_t *context, uint32_t epoch);
// Counts a captured launch in. BUSY.
slip_status_t slip__tickets_admit_captured(slip_context_t *context) SLIP_MUST_USE;
void slip__tickets_revoke_captured(slip_context_t *context);
// A PENDING ticket with an argument block for |record|'s registration, whose gate the caller has entered; |handle|: with a reference for
// the caller. OUT_OF_MEMORY only in the from_heap case; BUSY instead of it for a captured launch, which must not allocate.
// |registration| and |record| NULL: for a replay, which the caller enters as |replay|.
slip_status_t slip__ticket_create(slip_context_t *context, slip__registration_t *registration, const slip_launch_record_t *record,
                                  slip__ticket_kind_e kind, bool handle, slip_ticket_t **out) SLIP_MUST_USE;
// Undoes create: the enqueue was refused. Owner and gate stay the caller's.
void slip__ticket_discard(slip_ticket_t *ticket, bool handle);
// The enqueue was accepted. Without |handle| the ticket is out of the caller's hands.
void slip__ticket_publish(slip_ticket_t *ticket, bool handle);
// The launch failed after the device, a graph or close got hold of the ticket: the caller's own reference goes.
void slip__ticket_forsake(slip_ticket_t *ticket, bool handle);
// An eager ticket that nothing will finish, although what was enqueued may still use it: it leaves |pending| and is kept until close.
void slip__ticket_abandon(slip_ticket_t *ticket, slip_status_t why);
// Releases the owner and leaves the gate, once.
void slip__ticket_give_back(slip_ticket_t *ticket);
// Whether the calling thread is in an owner's release of a launch of |context|: it stands in the way of what it would wait for.
bool slip__ticket_releasing(const slip_context_t *context);
// The first failure stays. Consumes |result|.
void slip__ticket_set_result(slip_ticket_t *ticket, slip_status_t result);
// Device side, or the end of a graph: ends with the ticket out of the caller's hands, and with the last access to the context.
void slip__ticket_finish(slip_ticket_t *ticket);
// The same, once both |holders| have called it.
void slip__ticket_finish_captured(slip_ticket_t *ticket);
// Retires all finished tickets; true if there were any. From any thread but a stream's own, outside of captures.
bool slip__tickets_reap(slip_context_t *context);
// The same, or nothing if the calling thread is in a capture.
void slip__tickets_reap_outside_capture(slip_context_t *context);
// Close: retires the abandoned. Nothing that was enqueued may still run.
void slip__tickets_retire_abandoned(slip_context_t *context);
// Blocks until the launches counted in before the call have retired, or the device is known to run no more.
slip_status_t slip__tickets_drain(slip_context_t *context) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_TICKET_H_
