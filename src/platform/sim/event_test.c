// SPDX-License-Identifier: Apache-2.0
#include "slip_test_sim.h"

SLIP_TEST(sim_event_last_record_counts_and_waits_bind_at_the_call) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 1);
  sim_gate_t first = {0}, later = {0};
  uint64_t runs = 0;
  slip_stream_t a = sim_stream(), b = sim_stream(), waiter = sim_stream();
  slip_event_t event = sim_event();
  SLIP_CHECK_OK(slip__sim_event_query(event));  // never recorded
  SLIP_CHECK_OK(slip__sim_event_synchronize(event));
  SLIP_CHECK_OK(slip__sim_stream_wait_event(waiter, event));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(a, sim_gate_pass, &first));
  SLIP_CHECK_OK(slip__sim_event_record(event, a));
  SLIP_CHECK_OK(slip__sim_stream_wait_event(waiter, event));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(waiter, sim_count, &runs));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(b, sim_gate_pass, &later));
  SLIP_CHECK_OK(slip__sim_event_record(event, b));
  SLIP_CHECK_CODE(slip__sim_event_query(event), SLIP_CODE_NOT_READY);
  sim_gate_open(&first);
  SLIP_CHECK_OK(slip__sim_stream_synchronize(waiter));
  SLIP_CHECK_EQ(runs, 1);
  SLIP_CHECK_CODE(slip__sim_event_query(event), SLIP_CODE_NOT_READY);
  SLIP_CHECK_OK(slip__sim_stream_wait_event(waiter, event));
  SLIP_CHECK_OK(slip__sim_event_destroy(event));  // the wait keeps its record
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(waiter, sim_count, &runs));
  SIM_CHECK_ERROR(slip__sim_event_query(event), INVALID_HANDLE);
  SIM_CHECK_ERROR(slip__sim_stream_wait_event(waiter, event), INVALID_HANDLE);
  SIM_CHECK_ERROR(slip__sim_event_record(event, a), INVALID_HANDLE);
  SIM_CHECK_ERROR(slip__sim_event_destroy(event), INVALID_HANDLE);
  SLIP_CHECK_CODE(slip__sim_stream_query(waiter), SLIP_CODE_NOT_READY);
  sim_gate_open(&later);
  SLIP_CHECK_OK(slip__sim_stream_destroy(waiter));
  SLIP_CHECK_EQ(runs, 2);
  SLIP_CHECK_OK(slip__sim_stream_destroy(a));
  SLIP_CHECK_OK(slip__sim_stream_destroy(b));
}

SLIP_TEST(sim_event_records_on_its_device_and_is_waited_for_on_any) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 1);
  sim_gate_t gate = {0};
  uint64_t runs = 0;
  slip_stream_t stream = sim_stream(), other = NULL;
  slip_event_t event = sim_event();
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(stream, sim_gate_pass, &gate));
  SLIP_CHECK_OK(slip__sim_event_record(event, stream));
  SLIP_CHECK_OK(slip__sim_device_push(1));
  SLIP_CHECK_OK(slip__sim_stream_create(1, &other));
  SIM_CHECK_ERROR(slip__sim_event_record(event, other), INVALID_HANDLE);
  SLIP_CHECK_OK(slip__sim_stream_wait_event(other, event));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(other, sim_count, &runs));
  SLIP_CHECK_CODE(slip__sim_stream_query(other), SLIP_CODE_NOT_READY);
  sim_gate_open(&gate);
  SLIP_CHECK_OK(slip__sim_stream_destroy(other));
  SLIP_CHECK_EQ(runs, 1);
  SLIP_CHECK_OK(slip__sim_device_pop(1));
  SLIP_CHECK_OK(slip__sim_stream_destroy(stream));
  SLIP_CHECK_OK(slip__sim_event_synchronize(event));  // outlives the stream
  SLIP_CHECK_OK(slip__sim_event_destroy(event));
}

SLIP_TEST(sim_event_count_is_bounded) {
  sim_power_on(SLIP_SIM_FLAVOUR_ASCEND, 1);
  slip_event_t events[32], more = NULL;
  for (int i = 0; i < 32; ++i) events[i] = sim_event();
  SIM_CHECK_ERROR(slip__sim_event_create(0, &more), OUT_OF_RESOURCES);
  SLIP_CHECK(more == NULL);
  SLIP_CHECK_EQ(sim_alive().events, 32);
  for (int i = 0; i < 32; ++i) SLIP_CHECK_OK(slip__sim_event_destroy(events[i]));
  SLIP_CHECK_EQ(sim_alive().events, 0);
}

typedef struct sim_item_t {
  _Atomic bool done;
  struct sim_item_t *before[2];
} sim_item_t;

static void sim_item_run(void *user) {
  sim_item_t *item = user;
  for (int i = 0; i < 2; ++i) SLIP_CHECK(!item->before[i] || atomic_load(&item->before[i]->done));
  atomic_store(&item->done, true);
}

SLIP_TEST(sim_event_random_orders_hold_under_many_seeds) {
  uint64_t random = slip_test_seed();
  static sim_item_t items[200];
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    sim_power_on(seed & 1 ? SLIP_SIM_FLAVOUR_CUDA : SLIP_SIM_FLAVOUR_ASCEND, seed);
    slip_stream_t streams[4];
    slip_event_t events[8];
    sim_item_t *recorded[8] = {NULL}, *last[4] = {NULL}, *waited[4] = {NULL};
    for (int i = 0; i < 4; ++i) streams[i] = sim_stream();
    for (int i = 0; i < 8; ++i) events[i] = sim_event();
    for (size_t n = 0; n < 200; ++n) {
      size_t s = slip_test_random(&random) % 4, e = slip_test_random(&random) % 8;
      if (slip_test_random(&random) % 2) {
        SLIP_CHECK_OK(slip__sim_stream_wait_event(streams[s], events[e]));
        waited[s] = recorded[e];
      }
      atomic_store(&items[n].done, false);
      items[n].before[0] = last[s];
      items[n].before[1] = waited[s];
      SLIP_CHECK_OK(slip__sim_stream_launch(streams[s], sim_item_run, &items[n]));
      last[s] = &items[n];
      e = slip_test_random(&random) % 8;
      SLIP_CHECK_OK(slip__sim_event_record(events[e], streams[s]));
      recorded[e] = last[s];
    }
    for (int i = 0; i < 4; ++i) SLIP_CHECK_OK(slip__sim_stream_destroy(streams[i]));
    for (int i = 0; i < 8; ++i) SLIP_CHECK_OK(slip__sim_event_destroy(events[i]));
    for (size_t n = 0; n < 200; ++n) SLIP_CHECK(atomic_load(&items[n].done));
  }
}
