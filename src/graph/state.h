// SPDX-License-Identifier: Apache-2.0
// The engine itself: seats of all threads and what they share.
#ifndef SLIPSTREAM_SRC_GRAPH_STATE_H_
#define SLIPSTREAM_SRC_GRAPH_STATE_H_

#include "graph/seat.h"
#include "os/thread.h"

#define SLIP__MAX_SEATS 1024  // workers and workspaces

struct slip__engine_t {
  slip_allocator_t allocator;
  uint32_t thread_count;  // runnable threads of a run
  uint32_t serial;
  uint32_t scratch_bytes;
  // Under |lock|: taking and giving seats, growing scratch.
  pthread_mutex_t lock;
  uint32_t free_seats[SLIP__MAX_SEATS];  // indices of seats given back
  uint32_t free_count;
  // Seats [0, thread_count - 1) are the workers', the others the submitters'. Release: pairs with the acquire of whoever walks the seats; a
  // seat's content is complete before it is counted.
  _Atomic uint32_t seat_count;
  slip__seat_t *seats[SLIP__MAX_SEATS];
};

#endif  // SLIPSTREAM_SRC_GRAPH_STATE_H_
