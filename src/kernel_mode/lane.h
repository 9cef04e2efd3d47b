// SPDX-License-Identifier: Apache-2.0
// Lanes: the helper streams and events through which launches run on a platform without SLIP_PLATFORM_DIRECT_LAUNCH (30.3).
//
// A lane is a control stream, a hidden compute stream and five events, made at open, destroyed at close. |max_in_flight| lanes serve eager
// launches; |max_captures| more serve captures, since a stream that took part in a capture belongs to it until the capture ends, and an
// eager launch on it would be recorded into a stranger's graph.
//
//   step  call                                  on           event   why
//   1     event_record(IN)                      caller       IN      marks the caller's earlier work
//   2     stream_wait_event(IN)                 control              forks control off the caller (in a capture: joins it)
//   3     memory_copy_async(device <- pinned)   control              the argument block reaches the device
//   4     event_record(STAGED)                  control      STAGED
//   5     stream_wait_event(STAGED)             compute              forks compute off control
//   6     stream_launch(run)                    compute              the callable itself
//   7     event_record(RAN)                     compute      RAN
//   8     stream_wait_event(RAN)                control              joins compute
//   9     stream_enqueue_host(finish)           control              eager only: the ticket becomes DONE
//   10    event_record(OUT)                     control      OUT
//   11    stream_wait_event(OUT)                caller               joins control: the caller's later work sees the results
//   12    event_record(QUIET)                   control      QUIET   eager only: what close waits for. Never part of a capture, so that it
//                                                                    may be queried at any time
//
// Every wait is for a record that the same launch made just before it: no dependency ever crosses into or out of a capture, and reuse of
// the events by the next launch is safe, since a wait binds to the record that is last when it is called. One launch at a time submits to a
// lane: bit |i| of |free_lanes| is clear meanwhile. Submitting takes microseconds and never waits for the device; the launches of a lane
// run in its streams' order, which is how a launch waits for a slot on the device side.
//
//   which eager lane: one that still has launches of the same stream (they are in order anyway), else one that has none, else the one with
//   the fewest. So a stream that is held up holds up no other while there are at least as many lanes as busy streams. |affinity| is a hash
//   that is compared, never a handle that is used. A lane with SLIP__LANE_DEPTH launches attracts no more: platforms bound their queues,
//   and an enqueue that finds one full waits for the device.
//
//   captures: a capture lane is LEASED to one capture id from its first launch to the capture's end, which is noticed when the next capture
//   looks for a lane: the control stream no longer captures. Further launches of the same capture use the same lane. A captured launch
//   hands its ticket to the graph (capture_retain) before step 1; a graph's end is the only thing that finishes it.
//
// Half-failed launches. A failure is told after the helper streams touched so far are joined to the caller's stream (RAN recorded on
// compute, OUT on control, each waited for by the caller), so that the caller's stream stays ordered and his capture can be ended. If the
// joining fails too, the status says so.
//
//   failed step   device may use the ticket   the ticket                                                context
//   1, 2          no                          eager: freed. Captured: the owner is released at once, a  as it was
//   3             no                          place among |max_captured| is held until the capture ends poisoned
//   4 to 9        its argument block, and     eager: *abandoned*, kept until close has synchronised     poisoned
//                 from 6 on its tensors       the lanes. Captured: the graph's, as if all was well
//   10 to 12      yes                         retires as if all was well                                poisoned
// In no case is there a handle, and the owner is released exactly once. Where the table says poisoned: not if the step failed since the
// capture of the caller's stream was begun, ended or broken by another thread (INVALID_STATE).
//
// Captures that change under a launch. Nothing locks a stream's capture, so questions find out, asked where the answer stays true:
//
//   asked                    about             tells
//   before 11, eager         caller's stream   whether it captures by now: the wait would break that capture. (A capture that begins
//   between
//                                              the question and 11 is broken all the same.)
//   between 1 and 2          caller's stream   whether IN belongs to the launch's capture (eager: to none), hence what control joins at 2.
//                                              Of a capture that was over by then the wait itself is refused
//   between 10 and 11, or    control           captured: whether 3 to 10 were all recorded, since a stream leaves its capture only with the
//   before joining                             capture's end. Then the ticket is *armed*; the capture cannot have ended well before 11
// An unarmed ticket does not run: steps that came too late for the capture were executed at once, perhaps without the arguments. The
// device may still use it then, so that it is finished behind them on control (settle) as well as by the graph: |holders| counts the two.
//
// A broken device may run host functions without what came before them: a ticket whose step 6 did not run is DEVICE. Or it calls nobody
// back: whoever waits therefore asks now and then (slip__lanes_ask). It asks for the control stream's capture, which is legal at any time,
// and not for an event, which would break a capture that forbids other threads such calls.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_LANE_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_LANE_H_

#include "contract/call_frame.h"
#include "kernel_mode/context.h"
#include "kernel_mode/ticket.h"

#define SLIP__LANE_DEPTH 512u

typedef enum slip__lane_event_e {
  SLIP__LANE_IN,
  SLIP__LANE_STAGED,
  SLIP__LANE_RAN,
  SLIP__LANE_OUT,
  SLIP__LANE_QUIET,
  SLIP__LANE_EVENT_COUNT
} slip__lane_event_e;

typedef enum slip__lane_step_e {
  SLIP__LANE_RECORD_IN = 1,
  SLIP__LANE_WAIT_IN,
  SLIP__LANE_STAGE,
  SLIP__LANE_RECORD_STAGED,
  SLIP__LANE_WAIT_STAGED,
  SLIP__LANE_LAUNCH,
  SLIP__LANE_RECORD_RAN,
  SLIP__LANE_WAIT_RAN,
  SLIP__LANE_FINISH,
  SLIP__LANE_RECORD_OUT,
  SLIP__LANE_WAIT_OUT,
  SLIP__LANE_RECORD_QUIET,
  SLIP__LANE_DONE,  // all steps were taken
} slip__lane_step_e;

typedef struct slip__lane_t {
  slip_stream_t control;  // NULL: not made, or destroyed
  slip_stream_t compute;
  slip_event_t events[SLIP__LANE_EVENT_COUNT];
  uint64_t capture;              // leased to; 0: to none. Under |lane_lock|, as is
  bool busy;                     // somebody submits to this leased lane
  bool rough;                    // a submission failed half way: QUIET does not cover what was enqueued. The submitter's, then close's
  _Atomic uint32_t outstanding;  // eager launches submitted and not finished
  _Atomic uint32_t affinity;     // of the stream that submitted last; relaxed, a hint
} slip__lane_t;

// Open: all lanes. On failure those made so far are kept for slip__lanes_destroy().
slip_status_t slip__lanes_create(slip_context_t *context) SLIP_MUST_USE;
// Close: waits for the lanes, then destroys what they have. The first failure; what could not be destroyed is kept for the
// next call.
slip_status_t slip__lanes_destroy(slip_context_t *context) SLIP_MUST_USE;
// Waits until nothing of ours is enqueued on any lane: for QUIET, or for both streams of a lane with a half-failed launch. What is on
// capture lanes runs in graphs only.
slip_status_t slip__lanes_synchronize(slip_context_t *context) SLIP_MUST_USE;
// Whether no thread is submitting to a lane.
bool slip__lanes_idle(slip_context_t *context);
// DEVICE if a lane with launches under way can no longer tell of its progress. OK without lanes, and once close destroys them: no launch
// is under way then. Any thread, also one that only waits for a ticket and that close does not know of.
slip_status_t slip__lanes_ask(slip_context_t *context) SLIP_MUST_USE;
// The same for close, which has the device bound. Bindings of one device are never nested: an inner one that cannot be undone would be
// taken for the outer one's, and the thread would keep the device.
slip_status_t slip__lanes_ask_bound(slip_context_t *context) SLIP_MUST_USE;

// A lane to submit to, until it is given back. May wait for another thread's submission.
slip__lane_t *slip__lane_take(slip_context_t *context, slip_stream_t stream);
void slip__lane_give(slip_context_t *context, slip__lane_t *lane);
// The lane of capture |id|. BUSY: |max_captures| others hold launches.
slip_status_t slip__lane_lease(slip_context_t *context, uint64_t id, slip__lane_t **out) SLIP_MUST_USE;
void slip__lane_return(slip_context_t *context, slip__lane_t *lane);

// One launch's steps. The calling thread has the device bound and the lane taken or leased.
typedef struct slip__submission_t {
  slip_context_t *context;
  slip__lane_t *lane;
  slip_stream_t stream;  // the caller's
  slip_ticket_t *ticket;
  uint64_t capture;  // the id; 0: eager
  // out; zero at first
  slip__lane_step_e step;  // that failed, or SLIP__LANE_DONE
  bool torn;               // the capture ended in between: the ticket is settled behind what was executed at once
  bool moved;              // it failed since the stream's capture was begun, ended or broken meanwhile: nothing is wrong with the device
} slip__submission_t;

// Takes the steps, or those up to one that fails, and joins.
slip_status_t slip__lane_submit(slip__submission_t *submission) SLIP_MUST_USE;

// Steps 6 and 9 (lane_run.c): on the compute and on the control stream. |user| is the ticket.
void slip__lane_run(void *user);
void slip__lane_finish(void *user);
// One holder of a captured launch is done with |user|, the ticket: the capture or its graph, when it is gone; or control, behind what a
// capture that ended too early left there. Any thread; the platform may not be called.
void slip__lane_end_captured(void *user);

// The asynchronous launch of a platform with lanes (lane_launch.c). |*out_enqueued|: the gate and the owner are no longer the caller's
// concern, also on failure.
slip_status_t slip__lane_launch(slip_context_t *context, slip__registration_t *registration, const slip_launch_record_t *record,
                                const slip__frame_view_t *view, const slip__chain_link_t *link, slip_ticket_t **out_ticket,
                                bool *out_enqueued) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_LANE_H_
