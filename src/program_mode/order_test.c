// SPDX-License-Identifier: Apache-2.0
// The pipeline: two places, order, memory that runs share with the host and with each other, several threads.
#include <sched.h>

#include "program_mode/program_world_test.h"

SLIP_PROGRAM_TEST(order_two_places) {
  slip_worker_t *w = world->worker;
  slip_program_door_t door;
  slip_run_t *second = NULL, *third = NULL;
  int64_t state[4] = {3, 3, 3, 3};
  slip_tensor_t tensor = slip_program_host_i64(state, 4);
  int32_t affine = slip_program_register(w, slip_fixture_affine());
  slip_program_hold(world, &door);
  SLIP_CHECK_OK(slip_program_submit_affine(w, affine, &tensor, 10, 1, SLIP_RUN_NO_WAIT, &second));
  SLIP_CHECK_ERROR(slip_program_submit_affine(w, affine, &tensor, 10, 2, SLIP_RUN_NO_WAIT, &third), SLIP_CODE_BUSY, "2 runs");
  SLIP_CHECK(third == NULL);
  SLIP_CHECK(!slip_run_done(second));
  SLIP_CHECK_CODE(slip_run_error(second), SLIP_CODE_NOT_READY);
  slip_tensor_t result;
  SLIP_CHECK_CODE(slip_run_result(second, 0, &result), SLIP_CODE_NOT_READY);
  SLIP_CHECK_CODE(slip_run_wait(second, 0), SLIP_CODE_TIMEOUT);
  SLIP_CHECK_ERROR(slip_run_wait(second, 1000000), SLIP_CODE_TIMEOUT, "it goes on");
  // Prepared while the first one executes: its input is on the device.
  SLIP_CHECK_EQ(slip_program_stats(w).memory_bytes, world->place == SLIP_PROGRAM_CPU ? 0 : 2 * sizeof(state));
  slip_program_let_go(&door);
  SLIP_CHECK_OK(slip_run_wait(second, -1));
  SLIP_CHECK_EQ(state[0], 31);
  slip_run_release(second);
}

typedef struct slip_order_third_t {
  slip_worker_t *worker;
  int32_t affine;
  slip_tensor_t tensor;
  slip_run_t *run;
  _Atomic uint32_t accepted;
} slip_order_third_t;

static void slip_order_third(void *user) {
  slip_order_third_t *third = user;
  SLIP_CHECK_OK(slip_program_submit_affine(third->worker, third->affine, &third->tensor, 10, 2, SLIP_RUN_NONE, &third->run));
  atomic_store(&third->accepted, 1);
}

SLIP_PROGRAM_TEST(order_the_third_waits) {
  slip_worker_t *w = world->worker;
  slip_program_door_t door;
  slip_run_t *second = NULL;
  slip__thread_t thread = {0};
  int64_t state[4] = {3, 3, 3, 3};
  slip_order_third_t third = {
      .worker = w, .affine = slip_program_register(w, slip_fixture_affine()), .tensor = slip_program_host_i64(state, 4)};
  slip_program_hold(world, &door);
  SLIP_CHECK_OK(slip_program_submit_affine(w, third.affine, &third.tensor, 10, 1, SLIP_RUN_NONE, &second));
  SLIP_CHECK_OK(slip__thread_start(&thread, "third", slip_order_third, &third));
  for (int i = 0; i < 200; ++i) (void)sched_yield();
  SLIP_CHECK_EQ(atomic_load(&third.accepted), 0);  // nothing lets it in while the door is shut
  slip_program_let_go(&door);
  slip__thread_join(&thread);
  SLIP_CHECK_OK(slip_run_wait(third.run, -1));
  SLIP_CHECK(slip_run_done(second));
  SLIP_CHECK_EQ(state[0], 312);
  slip_run_release(second);
  slip_run_release(third.run);
}

// What one run writes to the host the next one reads, although it was prepared before.
SLIP_PROGRAM_TEST(order_host_memory_between_runs) {
  slip_worker_t *w = world->worker;
  slip_run_t *runs[2] = {NULL, NULL};
  int64_t state[6] = {1, 1, 1, 1, 1, 1}, expected = 1;
  int32_t affine = slip_program_register(w, slip_fixture_affine());
  slip_tensor_t whole = slip_program_host_i64(state, 4), part = slip_program_host_i64(state + 2, 4);
  for (int64_t i = 0; i < 20; ++i) {
    SLIP_CHECK_OK(slip_program_submit_affine(w, affine, &whole, 3, i, SLIP_RUN_NONE, &runs[0]));
    SLIP_CHECK_OK(slip_program_submit_affine(w, affine, &part, 5, i, SLIP_RUN_NONE, &runs[1]));
    slip_run_release(runs[0]);
    SLIP_CHECK_OK(slip_run_wait(runs[1], -1));
    slip_run_release(runs[1]);
    expected = (int64_t)(((uint64_t)expected * 3 + (uint64_t)i) * 5 + (uint64_t)i);
    SLIP_CHECK_EQ(state[2], expected);
    SLIP_CHECK_EQ(state[3], expected);
  }
}

// Copies are behind the runs that were accepted before them; memory that was freed meanwhile goes when they are done.
SLIP_PROGRAM_TEST(order_copies_and_frees) {
  slip_worker_t *w = world->worker;
  slip_program_door_t door;
  slip_run_t *run = NULL;
  slip_tensor_t tensor;
  int64_t state[4] = {1, 1, 1, 1}, dims[1] = {4}, back[4];
  int32_t affine = slip_program_register(w, slip_fixture_affine());
  SLIP_CHECK_OK(slip_worker_tensor_create(w, SLIP_DTYPE_I64, 1, dims, 0, &tensor));
  SLIP_CHECK_OK(slip_worker_tensor_write(w, &tensor, state, sizeof(state)));
  for (int i = 1; i <= 10; ++i) {
    SLIP_CHECK_OK(slip_program_submit_affine(w, affine, &tensor, 1, 1, SLIP_RUN_NONE, &run));
    slip_run_release(run);
    SLIP_CHECK_OK(slip_worker_tensor_read(w, &tensor, back, sizeof(back)));
    SLIP_CHECK_EQ(back[0], 1 + i);
  }
  slip_program_hold(world, &door);
  SLIP_CHECK_OK(slip_program_submit_affine(w, affine, &tensor, 1, 1, SLIP_RUN_NONE, &run));
  SLIP_CHECK_OK(slip_worker_unregister(w, affine));  // the run has it
  SLIP_CHECK_OK(slip_worker_tensor_free(w, &tensor));
  SLIP_CHECK_CODE(slip_worker_tensor_free(w, &tensor), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK(slip_program_stats(w).memory_bytes >= sizeof(state));
  slip_run_t *refused = NULL;
  SLIP_CHECK_CODE(slip_program_submit_affine(w, affine, &tensor, 1, 1, SLIP_RUN_NO_WAIT, &refused), SLIP_CODE_NOT_PREPARED);
  slip_program_let_go(&door);
  SLIP_CHECK_OK(slip_run_wait(run, -1));
  slip_run_release(run);
  SLIP_CHECK_EQ(slip_program_stats(w).memory_bytes, 0);
  SLIP_CHECK_EQ(slip_program_stats(w).callables, 0);
}

// Released before it is done: the run goes on, and its output goes with it.
SLIP_PROGRAM_TEST(order_released_early) {
  slip_worker_t *w = world->worker;
  slip_program_door_t door;
  float x[4] = {1, 2, 3, 4};
  slip_tensor_t tensor = slip_program_host_f32(x, 4);
  slip_arg_t args[3] = {slip_arg_tensor(&tensor, NULL), slip_arg_tensor(&tensor, NULL), slip_arg_omitted()};
  slip_run_t *run = NULL;
  int32_t add = slip_program_register(w, slip_fixture_add());
  slip_program_hold(world, &door);
  SLIP_CHECK_OK(slip_worker_submit(w, add, args, 3, SLIP_RUN_NONE, &run));
  slip_run_release(run);
  slip_program_let_go(&door);
  SLIP_CHECK_OK(slip_worker_run(w, add, args, 3, SLIP_RUN_NONE, NULL));  // in order: the one before is done
  SLIP_CHECK_EQ(slip_program_stats(w).memory_bytes, 0);
}

// Close waits for what was accepted, and the thread that waits for room gets its answer.
static void slip_order_close(void *user) {
  SLIP_CHECK_OK(slip_worker_close(user));
}

SLIP_PROGRAM_TEST(order_close_waits) {
  slip_worker_t *w = world->worker;
  slip_run_t *run = NULL;
  slip__thread_t thread = {0};
  int64_t state[4] = {3, 3, 3, 3};
  slip_program_door_t door;
  slip_tensor_t tensor = slip_program_host_i64(state, 4);
  int32_t affine = slip_program_register(w, slip_fixture_affine());
  slip_program_hold(world, &door);
  SLIP_CHECK_OK(slip_program_submit_affine(w, affine, &tensor, 10, 1, SLIP_RUN_NONE, &run));
  SLIP_CHECK_OK(slip__thread_start(&thread, "closer", slip_order_close, w));
  SLIP_PROGRAM_UNTIL(slip_worker_state(w) == SLIP_WORKER_CLOSING);
  slip_run_t *refused = NULL;
  SLIP_CHECK_CODE(slip_program_submit_affine(w, affine, &tensor, 10, 1, SLIP_RUN_NONE, &refused), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_worker_close(w), SLIP_CODE_BUSY);
  SLIP_CHECK_CODE(slip_worker_destroy(w), SLIP_CODE_INVALID_STATE);
  if (w->stream) {
    atomic_store(&door.open, 1);
    slip__futex_wake(&door.open, INT32_MAX);
  } else {
    __atomic_store_n(&door.state[1], 1, __ATOMIC_SEQ_CST);
  }
  SLIP_CHECK_OK(slip_run_wait(run, -1));
  slip__thread_join(&thread);
  SLIP_CHECK_OK(slip_run_error(door.run));
  SLIP_CHECK_EQ(state[0], 31);
  slip_run_release(run);
  slip_run_release(door.run);
}

// --- threads -----------------------------------------------------------------------------------------------------------------------------

enum { SLIP_ORDER_THREADS = 4, SLIP_ORDER_RUNS = 25 };

typedef struct slip_order_thread_t {
  slip__thread_t thread;
  slip_program_world_t *world;
  slip_run_t *shared;
  int64_t total;
} slip_order_thread_t;

static void slip_order_waits(void *user) {
  slip_order_thread_t *self = user;
  SLIP_CHECK_ERROR(slip_run_wait(self->shared, -1), SLIP_CODE_GRAPH_USER_FAIL, "asked to fail");
  slip_run_release(self->shared);
}

// Each of several waiters gets the error.
SLIP_PROGRAM_TEST(order_waiters_share_the_error) {
  slip_worker_t *w = world->worker;
  slip_order_thread_t threads[SLIP_ORDER_THREADS] = {0};
  slip_program_door_t door;
  slip_run_t *run = NULL;
  int64_t state[4] = {3, 3, 3, 3};
  slip_tensor_t tensor = slip_program_host_i64(state, 4);
  int32_t affine = slip_program_register(w, slip_fixture_affine());
  slip_program_hold(world, &door);
  SLIP_CHECK_OK(slip_program_submit_affine(w, affine, &tensor, 0, -1, SLIP_RUN_NONE, &run));
  for (int i = 0; i < SLIP_ORDER_THREADS; ++i) {
    slip_run_retain(run);
    threads[i].shared = run;
    SLIP_CHECK_OK(slip__thread_start(&threads[i].thread, "waiter", slip_order_waits, &threads[i]));
  }
  slip_program_let_go(&door);
  for (int i = 0; i < SLIP_ORDER_THREADS; ++i) slip__thread_join(&threads[i].thread);
  slip_run_release(run);
}

// Registers, allocates, runs and submits, each with its own memory and all with one callable.
static void slip_order_everything(void *user) {
  slip_order_thread_t *self = user;
  slip_worker_t *w = self->world->worker;
  int64_t dims[1] = {4}, state[4], host[4] = {0};
  slip_tensor_t tensor, on_host = slip_program_host_i64(host, 4);
  int32_t affine = slip_program_register(w, slip_fixture_affine());
  SLIP_CHECK_OK(slip_worker_tensor_create(w, SLIP_DTYPE_I64, 1, dims, SLIP_WORKER_TENSOR_ZERO, &tensor));
  for (int i = 0; i < SLIP_ORDER_RUNS; ++i) {
    slip_run_t *run = NULL;
    SLIP_CHECK_OK(slip_program_submit_affine(w, affine, &tensor, 1, 1, SLIP_RUN_NONE, &run));
    SLIP_CHECK_OK(slip_program_run_affine(w, affine, &on_host, 1, 2));
    if (i % 2 == 0) SLIP_CHECK_OK(slip_run_wait(run, -1));
    slip_run_release(run);
  }
  SLIP_CHECK_OK(slip_worker_tensor_read(w, &tensor, state, sizeof(state)));
  SLIP_CHECK_EQ(host[3], 2 * SLIP_ORDER_RUNS);
  self->total = state[3];
  SLIP_CHECK_OK(slip_worker_tensor_free(w, &tensor));
  SLIP_CHECK_OK(slip_worker_unregister(w, affine));
}

SLIP_PROGRAM_TEST(order_threads) {
  slip_order_thread_t threads[SLIP_ORDER_THREADS] = {0};
  for (int i = 0; i < SLIP_ORDER_THREADS; ++i) {
    threads[i].world = world;
    SLIP_CHECK_OK(slip__thread_start(&threads[i].thread, "user", slip_order_everything, &threads[i]));
  }
  for (int i = 0; i < SLIP_ORDER_THREADS; ++i) {
    slip__thread_join(&threads[i].thread);
    SLIP_CHECK_EQ(threads[i].total, SLIP_ORDER_RUNS);
  }
  slip_worker_stats_t stats = slip_program_stats(world->worker);
  SLIP_CHECK_EQ(stats.runs, 2 * SLIP_ORDER_THREADS * SLIP_ORDER_RUNS);
  SLIP_CHECK_EQ(stats.completed, stats.runs);
  SLIP_CHECK_EQ(stats.callables, 0);
  SLIP_CHECK_EQ(stats.memory_bytes, 0);
}

static void slip_order_opens(void *user) {
  slip_order_thread_t *self = user;
  SLIP_CHECK_OK(slip_worker_open(self->world->worker));
}

SLIP_PROGRAM_TEST(order_concurrent_opens) {
  slip_order_thread_t threads[SLIP_ORDER_THREADS] = {0};
  for (int i = 0; i < SLIP_ORDER_THREADS; ++i) {
    threads[i].world = world;
    SLIP_CHECK_OK(slip__thread_start(&threads[i].thread, "opener", slip_order_opens, &threads[i]));
  }
  for (int i = 0; i < SLIP_ORDER_THREADS; ++i) slip__thread_join(&threads[i].thread);
  SLIP_CHECK_EQ(world->worker->open_attempts, 1);
}
