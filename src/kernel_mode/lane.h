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
//   captures: a capture lane is LEASED to one capture id from its first launch to the capture's end, which is noticed when the next capture
//   looks for a lane: the control stream no longer captures. Further launches of the same capture use the same lane.
//
// Half-failed launches. Steps 1 and 2 leave nothing behind (a failed step 2 has enqueued nothing of ours). A failure from step 3 on: the
// helper streams touched so far are joined to the caller first (their last record, waited for by the caller), so that the caller's stream
// stays ordered and his capture can be ended; then the error is reported and the context poisoned with it. If what was enqueued may still
// use the ticket's argument block (step 3 succeeded, step 9 was not reached), the ticket is *abandoned*: kept until close has synchronised
// the lanes. If the joining fails too, the status says so.
#ifndef SLIPSTREAM_SRC_KERNEL_MODE_LANE_H_
#define SLIPSTREAM_SRC_KERNEL_MODE_LANE_H_

#include "kernel_mode/context.h"

typedef enum slip__lane_event_e {
  SLIP__LANE_IN,
  SLIP__LANE_STAGED,
  SLIP__LANE_RAN,
  SLIP__LANE_OUT,
  SLIP__LANE_QUIET,
  SLIP__LANE_EVENT_COUNT
} slip__lane_event_e;

#endif  // SLIPSTREAM_SRC_KERNEL_MODE_LANE_H_
