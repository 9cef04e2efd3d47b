// SPDX-License-Identifier: Apache-2.0
// What operations do in a world, and what must hold after any of them.
#ifndef SLIP_FAULT_USE_H_
#define SLIP_FAULT_USE_H_

#include "fault_world.h"

// Launches |frame| of add on |stream|; the owner's release is counted.
slip_status_t fault_launch(fault_world_t *world, const slip_frame_t *frame, slip_stream_t stream, slip_ticket_t **out_ticket) SLIP_MUST_USE;
// z = -1, ..., so that what a launch writes can be told from what was there.
void fault_blank(fault_world_t *world);
// z must be |factor| * (x + y), that is |factor| * 11 * (i + 1); the caller's stream is waited for.
void fault_expect(fault_world_t *world, float x_factor, float y_factor, const char *what);
void fault_expect_sum(fault_world_t *world, const char *what);
slip_context_stats_t fault_stats(fault_world_t *world);

// The caller's stream copies, in order.
void fault_use_stream(fault_world_t *world);
// Launches, eagerly and inline where the platform can, and looks at the results; |poisoned|: every use but close is POISONED instead.
void fault_use(fault_world_t *world, bool poisoned);
// The capture that world->capturing tells of must be as it was.
void fault_check_capture(fault_world_t *world);

#endif  // SLIP_FAULT_USE_H_
