// SPDX-License-Identifier: Apache-2.0
// The engine itself: seats of all threads and what they share.
#ifndef SLIPSTREAM_SRC_GRAPH_STATE_H_
#define SLIPSTREAM_SRC_GRAPH_STATE_H_

#include "graph/board.h"
#include "graph/seat.h"

#define SLIP__MAX_WORKERS 512
#define SLIP__IDLE_WORDS  (SLIP__MAX_WORKERS / 64)

struct slip__engine_t {
  slip_allocator_t allocator;
  uint32_t thread_count;  // runnable threads of a run
  uint32_t worker_count;
  uint32_t idle_words;  // of |idle| in use
  uint32_t stall_timeout_ms;
  uint32_t element_timeout_ms;
  _Atomic uint32_t
      scratch_bytes;  // every seat has that much. Relaxed: whoever relies on a growth has been told of it (reserve_scratch has returned)
  // Set by destroy, read by workers before they park. seq_cst with the idle bits, as a task made ready is (park.h); nothing travels with
  // it.
  _Atomic uint32_t stop;
  // Seats [0, worker_count) are the workers', the others the submitters'. Release: pairs with the acquire of whoever walks the seats; a
  // seat's content is complete before it is counted.
  _Atomic uint32_t seat_count;
  slip__seat_t *seats[SLIP__MAX_SEATS];
  // Workers that have found nothing to do for a while and still look (relaxed: only a hint to submitters).
  _Alignas(128) _Atomic uint32_t hungry;
  // A bit for each worker that sleeps or is about to (park.h).
  _Alignas(128) _Atomic uint64_t idle[SLIP__IDLE_WORDS];
  _Alignas(128) slip__board_t board;
  struct slip__record_back_t *recorded;  // fixed
  // Under |lock|: taking and giving seats, growing scratch.
  pthread_mutex_t lock;
  uint64_t form_spaces;  // id spaces of forms given out
  uint32_t free_count;
  uint32_t free_seats[SLIP__MAX_SEATS];  // indices of seats given back
};

#endif  // SLIPSTREAM_SRC_GRAPH_STATE_H_
