// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/gate.h"

#include <pthread.h>

#include "slip_test.h"

SLIP_TEST(gate_admits_only_its_open_id) {
  slip__gate_t gate;
  atomic_init(&gate, SLIP__GATE_SHUT);
  bool last = false;
  SLIP_CHECK(!slip__gate_enter(&gate, 0));  // a shut gate admits nobody, id 0 neither
  SLIP_CHECK(!slip__gate_close(&gate, 0, &last));
  slip__gate_open(&gate, 7);
  SLIP_CHECK(!slip__gate_enter(&gate, 6));
  SLIP_CHECK(slip__gate_enter(&gate, 7));
  SLIP_CHECK(slip__gate_enter(&gate, 7));
  SLIP_CHECK_EQ(slip__gate_inside(&gate), 2);
  SLIP_CHECK(!slip__gate_leave(&gate));
  SLIP_CHECK(!slip__gate_close(&gate, 8, &last));
  SLIP_CHECK(slip__gate_close(&gate, 7, &last));
  SLIP_CHECK(!last);
  SLIP_CHECK(!slip__gate_enter(&gate, 7));
  SLIP_CHECK(!slip__gate_close(&gate, 7, &last));
  SLIP_CHECK(slip__gate_leave(&gate));
  slip__gate_open(&gate, 9);
  SLIP_CHECK(slip__gate_close(&gate, 9, &last));
  SLIP_CHECK(last);
}

static slip__gate_t slip_gate_test_gate;
static _Atomic uint32_t slip_gate_test_lasts, slip_gate_test_opened;
static _Atomic uint32_t slip_gate_test_stop;

static void *slip_gate_test_user(void *user) {
  (void)user;
  while (!atomic_load(&slip_gate_test_stop)) {
    uint32_t id = atomic_load(&slip_gate_test_opened);
    if (slip__gate_enter(&slip_gate_test_gate, id) && slip__gate_leave(&slip_gate_test_gate)) atomic_fetch_add(&slip_gate_test_lasts, 1);
  }
  return NULL;
}

// Each life of the gate ends with exactly one "last", whoever it is.
SLIP_TEST(gate_has_exactly_one_last_user) {
  pthread_t threads[3];
  atomic_init(&slip_gate_test_gate, SLIP__GATE_SHUT);
  slip__gate_open(&slip_gate_test_gate, 0);
  for (int i = 0; i < 3; ++i) SLIP_CHECK_EQ(pthread_create(&threads[i], NULL, slip_gate_test_user, NULL), 0);
  for (uint32_t id = 0; id < 3000; ++id) {
    bool last = false;
    SLIP_CHECK(slip__gate_close(&slip_gate_test_gate, id, &last));
    if (last) atomic_fetch_add(&slip_gate_test_lasts, 1);
    while (atomic_load(&slip_gate_test_lasts) != id + 1) {
    }
    SLIP_CHECK_EQ(slip__gate_inside(&slip_gate_test_gate), 0);
    atomic_store(&slip_gate_test_opened, id + 1);
    slip__gate_open(&slip_gate_test_gate, id + 1);
  }
  atomic_store(&slip_gate_test_stop, 1);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  SLIP_CHECK_EQ(atomic_load(&slip_gate_test_lasts), 3000);
}
