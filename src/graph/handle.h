// SPDX-License-Identifier: Apache-2.0
// A task's handle: sequence number in its ring, counted over the workspace's life, and the ring. 0 names no task.
#ifndef SLIPSTREAM_SRC_GRAPH_HANDLE_H_
#define SLIPSTREAM_SRC_GRAPH_HANDLE_H_

#include "slipstream/kernel/orch.h"

#define SLIP__RING_COUNT 4

static inline slip_task_t slip__task_pack(uint64_t sequence, uint32_t ring) {
  return (sequence << 2) | ring;
}
static inline uint64_t slip__task_sequence(slip_task_t task) {
  return task >> 2;
}
static inline uint32_t slip__task_ring(slip_task_t task) {
  return (uint32_t)(task & 3u);
}

#endif  // SLIPSTREAM_SRC_GRAPH_HANDLE_H_
