// SPDX-License-Identifier: Apache-2.0
// The first error of a run: latching it from any thread, and saying where it happened.
//
//   word     operation                              order     pairs with
//   failed   fail: 0 -> 1 (CAS)                     relaxed   nothing: the winner alone writes |status|
//            executors and submitter look (load)    relaxed   a late sight runs one task more, submitted before the error
//   status   the winner writes                      plain     the task that the winner is running, or the call that it is in, ends later
//            the submitter reads at the run's end   plain     than the write, and the submitter has seen every task's end (slot.h)
//
// A message is three facts: what happened, where (task, kernel, ring, scope depth, source line), and which option or change helps. The
// place is an annotation made here, so that all read alike.
#ifndef SLIPSTREAM_SRC_GRAPH_FAULT_H_
#define SLIPSTREAM_SRC_GRAPH_FAULT_H_

#include "graph/workspace.h"

// Adds the place of the task that |submit| describes: it is being submitted in the innermost scope.
slip_status_t slip__fault_at_submit(const slip__workspace_t *workspace, const slip_submit_t *submit, slip_status_t status) SLIP_MUST_USE;
// Writes the place of a submitted task: kernel, ring, scope depth, source line. Any thread that may look into the slot; allocates nothing.
void slip__fault_place(const slip__slot_t *slot, char *text, size_t capacity);
// Adds the place of a submitted task. Any thread that may look into the slot.
slip_status_t slip__fault_at_task(const slip__slot_t *slot, slip_status_t status) SLIP_MUST_USE;
// Adds the place of a call that is no submit: ring, scope depth, and the last task before it in that ring.
slip_status_t slip__fault_here(slip__workspace_t *workspace, slip_status_t status) SLIP_MUST_USE;

// Adds the place of a node of a recorded graph. Any thread that runs the node.
slip_status_t slip__fault_at_node(const slip__workspace_t *workspace, uint32_t kernel, uint32_t node, slip_status_t status) SLIP_MUST_USE;

// A node of a recorded graph, of one block, has reported |code|. The executing thread.
void slip__kernel_fault_in_node(slip__workspace_t *workspace, uint32_t kernel, uint32_t node, uint32_t code);
// A block of |slot| has reported |code| (slip_kernel_fault). The executing thread.
void slip__kernel_fault(const slip__slot_t *slot, uint32_t code, uint32_t block);

#endif  // SLIPSTREAM_SRC_GRAPH_FAULT_H_
