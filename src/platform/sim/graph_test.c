// SPDX-License-Identifier: Apache-2.0
#include "slip_test_sim.h"

// --- order

typedef struct sim_item_t {
  _Atomic uint64_t *clock;
  uint64_t at;  // when it ran last
} sim_item_t;

static void sim_item_run(void *user) {
  sim_item_t *item = user;
  item->at = 1 + atomic_fetch_add(item->clock, 1);
}

// origin: a, then fork; side: b, c; origin: d; joined: e. Captured by |order| of submission, which must not matter.
typedef struct sim_diamond_t {
  _Atomic uint64_t clock;
  sim_item_t items[5];
  slip_stream_t origin, side;
  slip_event_t fork, join;
  slip_graph_exec_t graph;
} sim_diamond_t;

static void sim_diamond_capture(sim_diamond_t *diamond) {
  for (int i = 0; i < 5; ++i) diamond->items[i] = (sim_item_t){&diamond->clock, 0};
  diamond->origin = sim_stream();
  diamond->side = sim_stream();
  diamond->fork = sim_event();
  diamond->join = sim_event();
  SLIP_CHECK_OK(slip__sim_capture_begin(diamond->origin, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  SLIP_CHECK_OK(slip__sim_stream_launch(diamond->origin, sim_item_run, &diamond->items[0]));
  sim_order(diamond->side, diamond->origin, diamond->fork);
  SLIP_CHECK_OK(slip__sim_stream_launch(diamond->side, sim_item_run, &diamond->items[1]));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(diamond->side, sim_item_run, &diamond->items[2]));
  SLIP_CHECK_OK(slip__sim_stream_launch(diamond->origin, sim_item_run, &diamond->items[3]));
  sim_order(diamond->origin, diamond->side, diamond->join);
  SLIP_CHECK_OK(slip__sim_stream_launch(diamond->origin, sim_item_run, &diamond->items[4]));
  SLIP_CHECK_OK(slip__sim_capture_end(diamond->origin, &diamond->graph));
}

static void sim_diamond_destroy(sim_diamond_t *diamond) {
  if (diamond->graph) SLIP_CHECK_OK(slip__sim_graph_destroy(diamond->graph));
  SLIP_CHECK_OK(slip__sim_event_destroy(diamond->fork));
  SLIP_CHECK_OK(slip__sim_event_destroy(diamond->join));
  SLIP_CHECK_OK(slip__sim_stream_destroy(diamond->origin));
  SLIP_CHECK_OK(slip__sim_stream_destroy(diamond->side));
}

SLIP_TEST(sim_graph_keeps_its_order_and_no_other_under_many_seeds) {
  uint32_t seen = 0;  // bit: place of d among b, c
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    sim_diamond_t diamond = {0};
    sim_power_on(seed & 1 ? SLIP_SIM_FLAVOUR_CUDA : SLIP_SIM_FLAVOUR_ASCEND, seed);
    sim_diamond_capture(&diamond);
    for (uint64_t run = 1; run <= 3; ++run) {
      SLIP_CHECK_OK(slip__sim_graph_launch(diamond.graph, diamond.side));
      SLIP_CHECK_OK(slip__sim_stream_synchronize(diamond.side));
      SLIP_CHECK_EQ(atomic_load(&diamond.clock), 5 * run);
      const sim_item_t *items = diamond.items;
      SLIP_CHECK_EQ(items[0].at, 5 * run - 4);
      SLIP_CHECK(items[1].at < items[2].at);
      SLIP_CHECK_EQ(items[4].at, 5 * run);
      seen |= 1u << (items[3].at - (5 * run - 3));
    }
    sim_diamond_destroy(&diamond);
  }
  SLIP_CHECK_EQ(seen, 7);  // before b, between b and c, after c
}

SLIP_TEST(sim_graph_order_is_the_seeds) {
  uint64_t at[2][8];
  for (int round = 0; round < 2; ++round) {
    sim_diamond_t diamond = {0};
    sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 77);
    sim_diamond_capture(&diamond);
    for (int run = 0; run < 8; ++run) {
      SLIP_CHECK_OK(slip__sim_graph_launch(diamond.graph, diamond.origin));
      SLIP_CHECK_OK(slip__sim_stream_synchronize(diamond.origin));
      at[round][run] = diamond.items[3].at;
    }
    sim_diamond_destroy(&diamond);
  }
  for (int run = 0; run < 8; ++run) SLIP_CHECK_EQ(at[0][run], at[1][run]);
}

// --- executions

typedef struct sim_solo_t {
  _Atomic uint32_t inside;
  uint64_t runs;
} sim_solo_t;

static void sim_solo_enter(void *user) {
  sim_solo_t *solo = user;
  SLIP_CHECK_EQ(atomic_fetch_add(&solo->inside, 1), 0);
}

static void sim_solo_leave(void *user) {
  sim_solo_t *solo = user;
  ++solo->runs;
  SLIP_CHECK_EQ(atomic_fetch_sub(&solo->inside, 1), 1);
}

SLIP_TEST(sim_graph_executions_never_overlap) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 5);
  sim_solo_t solo = {0};
  slip_graph_exec_t graph = NULL;
  slip_stream_t streams[4];
  for (int i = 0; i < 4; ++i) streams[i] = sim_stream();
  SLIP_CHECK_OK(slip__sim_capture_begin(streams[0], SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(streams[0], sim_solo_enter, &solo));
  SLIP_CHECK_OK(slip__sim_stream_launch(streams[0], sim_solo_leave, &solo));
  SLIP_CHECK_OK(slip__sim_capture_end(streams[0], &graph));
  for (int i = 0; i < 200; ++i) SLIP_CHECK_OK(slip__sim_graph_launch(graph, streams[i % 4]));
  for (int i = 0; i < 4; ++i) SLIP_CHECK_OK(slip__sim_stream_destroy(streams[i]));
  SLIP_CHECK_EQ(solo.runs, 200);
  SLIP_CHECK_OK(slip__sim_graph_destroy(graph));
}

typedef struct sim_meeting_t {
  sim_gate_t *mine, *others;
} sim_meeting_t;

static void sim_meet(void *user) {
  sim_meeting_t *meeting = user;
  sim_gate_open(meeting->mine);
  sim_gate_pass(meeting->others);
}

// Each waits for the other one: only possible at the same time.
SLIP_TEST(sim_graph_different_ones_run_at_the_same_time) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 6);
  sim_gate_t gates[2] = {{0}, {0}};
  sim_meeting_t meetings[2] = {{&gates[0], &gates[1]}, {&gates[1], &gates[0]}};
  slip_graph_exec_t graphs[2];
  slip_stream_t streams[2];
  for (int i = 0; i < 2; ++i) {
    streams[i] = sim_stream();
    SLIP_CHECK_OK(slip__sim_capture_begin(streams[i], SLIP_CAPTURE_MODE_THREAD_LOCAL));
    SLIP_CHECK_OK(slip__sim_stream_launch(streams[i], sim_meet, &meetings[i]));
    SLIP_CHECK_OK(slip__sim_capture_end(streams[i], &graphs[i]));
  }
  for (int i = 0; i < 2; ++i) SLIP_CHECK_OK(slip__sim_graph_launch(graphs[i], streams[i]));
  for (int i = 0; i < 2; ++i) SLIP_CHECK_OK(slip__sim_stream_destroy(streams[i]));
  for (int i = 0; i < 2; ++i) SLIP_CHECK_OK(slip__sim_graph_destroy(graphs[i]));
}

SLIP_TEST(sim_graph_takes_its_place_in_the_stream) {
  sim_power_on(SLIP_SIM_FLAVOUR_ASCEND, 7);
  _Atomic uint64_t clock = 0;
  sim_item_t before = {&clock, 0}, inside = {&clock, 0}, after = {&clock, 0}, elsewhere = {&clock, 0};
  slip_graph_exec_t graph = NULL;
  slip_stream_t stream = sim_stream(), other = sim_stream();
  slip_event_t event = sim_event();
  SLIP_CHECK_OK(slip__sim_capture_begin(stream, SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip__sim_stream_launch(stream, sim_item_run, &inside));
  SLIP_CHECK_OK(slip__sim_capture_end(stream, &graph));
  SLIP_CHECK_OK(slip__sim_stream_launch(stream, sim_item_run, &before));
  SLIP_CHECK_OK(slip__sim_graph_launch(graph, stream));
  sim_order(other, stream, event);
  SLIP_CHECK_OK(slip__sim_stream_launch(other, sim_item_run, &elsewhere));
  SLIP_CHECK_OK(slip__sim_stream_synchronize(other));
  SLIP_CHECK_OK(slip__sim_stream_launch(stream, sim_item_run, &after));
  SLIP_CHECK_OK(slip__sim_stream_synchronize(stream));
  SLIP_CHECK_EQ(before.at, 1);
  SLIP_CHECK_EQ(inside.at, 2);
  SLIP_CHECK_EQ(elsewhere.at, 3);
  SLIP_CHECK_EQ(after.at, 4);
  SLIP_CHECK_OK(slip__sim_graph_destroy(graph));
  SLIP_CHECK_OK(slip__sim_event_destroy(event));
  SLIP_CHECK_OK(slip__sim_stream_destroy(stream));
  SLIP_CHECK_OK(slip__sim_stream_destroy(other));
}

SLIP_TEST(sim_graph_copies_anew_each_time) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 8);
  void *memory = NULL, *in = NULL, *out = NULL;
  slip_graph_exec_t graph = NULL;
  slip_stream_t stream = sim_stream();
  SLIP_CHECK_OK(slip__sim_memory_allocate(0, 64, &memory));
  SLIP_CHECK_OK(slip__sim_host_allocate(64, &in));
  SLIP_CHECK_OK(slip__sim_host_allocate(64, &out));
  SLIP_CHECK_OK(slip__sim_capture_begin(stream, SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip__sim_memory_copy_async(stream, memory, in, 64, SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(slip__sim_memory_copy_async(stream, out, memory, 64, SLIP_COPY_DEVICE_TO_HOST));
  SLIP_CHECK_OK(slip__sim_capture_end(stream, &graph));
  for (int i = 1; i <= 3; ++i) {
    memset(in, i, 64);
    memset(out, 0, 64);
    SLIP_CHECK_OK(slip__sim_graph_launch(graph, stream));
    SLIP_CHECK_OK(slip__sim_stream_synchronize(stream));
    SLIP_CHECK(memcmp(in, out, 64) == 0);
  }
  SLIP_CHECK_OK(slip__sim_graph_destroy(graph));
  SLIP_CHECK_OK(slip__sim_stream_destroy(stream));
  SLIP_CHECK_OK(slip__sim_memory_free(0, memory));
  SLIP_CHECK_OK(slip__sim_host_free(in));
  SLIP_CHECK_OK(slip__sim_host_free(out));
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
}

SLIP_TEST(sim_graph_and_copies_that_wait_keep_memory_in_use) {
  sim_gate_t gate = {0};
  void *memory[3] = {NULL}, *pinned = NULL;
  slip_graph_exec_t graph = NULL;
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 12);
  slip_stream_t stream = sim_stream();
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip__sim_memory_allocate(0, 64, &memory[i]));
  SLIP_CHECK_OK(slip__sim_host_allocate(64, &pinned));
  memset(pinned, 1, 64);
  SLIP_CHECK_OK(slip__sim_capture_begin(stream, SLIP_CAPTURE_MODE_GLOBAL));
  SLIP_CHECK_OK(slip__sim_memory_copy_async(stream, memory[0], pinned, 64, SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(slip__sim_capture_end(stream, &graph));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(stream, sim_gate_pass, &gate));
  SLIP_CHECK_OK(slip__sim_graph_launch(graph, stream));
  SLIP_CHECK_OK(slip__sim_memory_copy_async(stream, memory[1], pinned, 64, SLIP_COPY_HOST_TO_DEVICE));
  SLIP_CHECK_OK(slip__sim_memory_free(0, memory[2]));
  SLIP_CHECK_EQ(slip_sim_violation_count(), 0);
  SLIP_CHECK_OK(slip__sim_memory_free(0, memory[0]));
  SLIP_CHECK_EQ(slip_sim_violation_count(), 1);
  SLIP_CHECK_OK(slip__sim_memory_free(0, memory[1]));
  SLIP_CHECK_EQ(slip_sim_violation_count(), 2);
  sim_gate_open(&gate);
  SIM_CHECK_ERROR(slip__sim_stream_synchronize(stream), ILLEGAL_ADDRESS);  // the copies wrote what was freed
  SLIP_CHECK(slip_sim_violation_count() > 2);
  slip__sim_stream_reset(0);
  SLIP_CHECK_OK(slip__sim_host_free(pinned));  // nothing uses it any more
}

// --- lifetime

typedef struct sim_keeper_t {
  _Atomic uint32_t released;
  _Atomic uint32_t refused;
} sim_keeper_t;

static void sim_keeper_release(void *user) {
  sim_keeper_t *keeper = user;
  slip_stream_t stream = NULL;
  slip_status_t status = slip__sim_stream_create(0, &stream);  // must not call the platform: told so
  atomic_fetch_add(&keeper->refused, slip_status_platform_code(status) == slip__sim_error_number(SLIP__SIM_NOT_PERMITTED));
  slip_status_free(status);
  atomic_fetch_add(&keeper->released, 1);
}

static slip_graph_exec_t sim_keeper_graph(slip_stream_t stream, sim_keeper_t *keeper, void (*function)(void *user), void *user) {
  slip_graph_exec_t graph = NULL;
  SLIP_CHECK_OK(slip__sim_capture_begin(stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  SLIP_CHECK_OK(slip__sim_capture_retain(stream, sim_keeper_release, keeper));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(stream, function, user));
  SLIP_CHECK_OK(slip__sim_capture_retain(stream, sim_keeper_release, keeper));
  SLIP_CHECK_OK(slip__sim_capture_end(stream, &graph));
  return graph;
}

SLIP_TEST(sim_graph_lets_go_once_when_destroyed_and_through) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 9);
  sim_keeper_t keeper = {0};
  sim_gate_t gate = {0};
  uint64_t runs = 0;
  slip_stream_t stream = sim_stream(), other = sim_stream();
  slip_graph_exec_t graph = sim_keeper_graph(stream, &keeper, sim_count, &runs);
  SLIP_CHECK_OK(slip__sim_graph_destroy(graph));  // never launched
  SLIP_CHECK_EQ(atomic_load(&keeper.released), 2);
  SIM_CHECK_ERROR(slip__sim_graph_destroy(graph), INVALID_HANDLE);
  SIM_CHECK_ERROR(slip__sim_graph_launch(graph, stream), INVALID_HANDLE);
  SLIP_CHECK_EQ(atomic_load(&keeper.refused), 2);

  graph = sim_keeper_graph(stream, &keeper, sim_count, &runs);
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(stream, sim_gate_pass, &gate));
  SLIP_CHECK_OK(slip__sim_graph_launch(graph, stream));
  SLIP_CHECK_OK(slip__sim_graph_launch(graph, other));
  SLIP_CHECK_OK(slip__sim_graph_destroy(graph));
  SIM_CHECK_ERROR(slip__sim_graph_launch(graph, stream), INVALID_HANDLE);
  SLIP_CHECK_EQ(atomic_load(&keeper.released), 2);
  SLIP_CHECK_EQ(sim_alive().graphs, 1);  // with executions to come
  sim_gate_open(&gate);
  SLIP_CHECK_OK(slip__sim_stream_synchronize(stream));
  SLIP_CHECK_OK(slip__sim_stream_synchronize(other));
  SLIP_CHECK_EQ(runs, 2);
  SLIP_CHECK_EQ(atomic_load(&keeper.released), 4);
  SLIP_CHECK_EQ(sim_alive().graphs, 0);

  graph = sim_keeper_graph(stream, &keeper, sim_count, &runs);
  SLIP_CHECK_OK(slip__sim_graph_launch(graph, stream));
  slip__sim_stream_reset(0);
  SLIP_CHECK_EQ(atomic_load(&keeper.released), 6);
  SIM_CHECK_ERROR(slip__sim_graph_destroy(graph), INVALID_HANDLE);
  SLIP_CHECK_OK(slip__sim_graph_destroy(NULL));
}

static void sim_break(void *user) {
  (void)user;
  slip__sim_violation(0, true, SLIP__SIM_ILLEGAL_ADDRESS, "on purpose");
}

SLIP_TEST(sim_graph_on_a_broken_device_runs_host_functions_only) {
  sim_power_on(SLIP_SIM_FLAVOUR_ASCEND, 11);
  sim_keeper_t keeper = {0};
  sim_gate_t gate = {0};
  uint64_t host = 0, device = 0;
  slip_graph_exec_t graph = NULL;
  slip_stream_t stream = sim_stream();
  SLIP_CHECK_OK(slip__sim_capture_begin(stream, SLIP_CAPTURE_MODE_THREAD_LOCAL));
  SLIP_CHECK_OK(slip__sim_capture_retain(stream, sim_keeper_release, &keeper));
  SLIP_CHECK_OK(slip__sim_stream_launch(stream, sim_count, &device));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(stream, sim_count, &host));
  SLIP_CHECK_OK(slip__sim_stream_launch(stream, sim_break, NULL));
  SLIP_CHECK_OK(slip__sim_capture_end(stream, &graph));
  SLIP_CHECK_OK(slip__sim_stream_enqueue_host(stream, sim_gate_pass, &gate));
  SLIP_CHECK_OK(slip__sim_graph_launch(graph, stream));
  SLIP_CHECK_OK(slip__sim_graph_launch(graph, stream));
  sim_gate_open(&gate);
  SIM_CHECK_ERROR(slip__sim_stream_synchronize(stream), ILLEGAL_ADDRESS);
  SIM_CHECK_ERROR(slip__sim_graph_launch(graph, stream), ILLEGAL_ADDRESS);
  SIM_CHECK_ERROR(slip__sim_graph_destroy(graph), ILLEGAL_ADDRESS);
  slip__sim_stream_reset(0);
  SLIP_CHECK_EQ(device, 1);
  SLIP_CHECK_EQ(host, 2);
  SLIP_CHECK_EQ(atomic_load(&keeper.released), 1);
  SLIP_CHECK_EQ(sim_alive().graphs, 0);
}

typedef struct sim_user_t {
  slip_stream_t stream;
  slip_event_t event;
  uint64_t *runs;
  sim_keeper_t *keeper;
} sim_user_t;

// Captures, launches and destroys on its own, at the same time as others.
static void sim_use(void *user) {
  sim_user_t *self = user;
  for (int i = 0; i < 20; ++i) {
    slip_graph_exec_t graph = sim_keeper_graph(self->stream, self->keeper, sim_count, self->runs);
    for (int k = 0; k < 3; ++k) SLIP_CHECK_OK(slip__sim_graph_launch(graph, self->stream));
    SLIP_CHECK_OK(slip__sim_event_record(self->event, self->stream));
    SLIP_CHECK_OK(slip__sim_graph_destroy(graph));
    if (i % 4 == 0) SLIP_CHECK_OK(slip__sim_event_synchronize(self->event));
  }
  SLIP_CHECK_OK(slip__sim_stream_synchronize(self->stream));
}

SLIP_TEST(sim_graph_capture_launch_and_destroy_from_many_threads) {
  sim_power_on(SLIP_SIM_FLAVOUR_CUDA, 10);
  sim_keeper_t keeper = {0};
  sim_user_t users[4];
  uint64_t runs[4] = {0};
  slip__thread_t threads[4];
  for (int i = 0; i < 4; ++i) users[i] = (sim_user_t){sim_stream(), sim_event(), &runs[i], &keeper};
  for (int i = 0; i < 4; ++i) SLIP_CHECK_OK(slip__thread_start(&threads[i], "user", sim_use, &users[i]));
  for (int i = 0; i < 4; ++i) slip__thread_join(&threads[i]);
  for (int i = 0; i < 4; ++i) {
    SLIP_CHECK_EQ(runs[i], 60);
    SLIP_CHECK_OK(slip__sim_stream_destroy(users[i].stream));
    SLIP_CHECK_OK(slip__sim_event_destroy(users[i].event));
  }
  SLIP_CHECK_EQ(atomic_load(&keeper.released), 160);
  SLIP_CHECK_EQ(sim_alive().graphs, 0);
}
