// SPDX-License-Identifier: Apache-2.0
// Each kind of dependency alone, with the earlier task made slow: a missing edge shows as a wrong value.
#include <sched.h>
#include <stdatomic.h>

#include "slip_test_graph.h"

static void spin(uint64_t rounds) {
  for (volatile uint64_t i = 0; i < rounds; ++i) continue;
}
// Scalars: value, delay before. Writes all elements.
static void put(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  spin(args->scalars[1]);
  const slip_ktensor_t *t = &args->tensors[0];
  for (int64_t i = 0; i < t->dims[0]; ++i) ((int64_t *)t->data)[i * t->strides[0]] = (int64_t)args->scalars[0];
}
// Copies the first element of tensor 0 to the first of tensor 1, after a delay.
static void copy(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  spin(args->scalars[0]);
  *(int64_t *)args->tensors[1].data = *(const int64_t *)args->tensors[0].data;
}
static const slip_object_kernel_t kernels[] = {{"put", put, 0, 0, 1, 2}, {"copy", copy, 0, 0, 2, 1}};
enum { PUT, COPY };
#define SLOW 100000

static slip_task_t do_put(slip_orch_t *o, slip_otensor_t t, uint32_t access, uint64_t value, uint64_t delay, slip_task_t after) {
  slip_task_builder_t task;
  slip_task_begin(&task, PUT, 1);
  slip_task_tensor(&task, access, &t);
  slip_task_scalar(&task, value);
  slip_task_scalar(&task, delay);
  if (after) slip_task_after(&task, after);
  return slip_task_submit(o, &task);
}
static slip_task_t do_copy(slip_orch_t *o, slip_otensor_t from, uint32_t access, slip_otensor_t to, uint64_t delay, slip_task_t after) {
  slip_task_builder_t task;
  slip_task_begin(&task, COPY, 1);
  slip_task_tensor(&task, access, &from);
  slip_task_out_existing(&task, &to);
  slip_task_scalar(&task, delay);
  if (after) slip_task_after(&task, after);
  return slip_task_submit(o, &task);
}

// Runs an orchestration many times on data = 0..15; |check| looks at the result.
static void repeat(slip_orch_fn_t orchestrate, int rounds, void (*check)(const int64_t *data)) {
  graph_test_t test = graph_test_open(3, 64, 1 << 16, 64);
  const int64_t dims[1] = {16};
  for (int round = 0; round < rounds; ++round) {
    int64_t data[16];
    for (int i = 0; i < 16; ++i) data[i] = i;
    slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
    SLIP_CHECK_OK(graph_test_run(&test, kernels, 2, orchestrate, &tensor, 1, NULL, 0));
    check(data);
  }
  graph_test_close(&test);
}

// A first task keeps the run from being a single held one, and gives the worker something to wake up for.
static void warm_up(slip_orch_t *o, const slip_oargs_t *args) {
  for (int i = 12; i < 16; ++i) do_put(o, slip_otensor_slice(o, args->tensors[0], 0, i, 1), SLIP_ACCESS_OUT_EXISTING, 1, 100, 0);
}
static slip_otensor_t part(slip_orch_t *o, const slip_oargs_t *args, int64_t start, int64_t length) {
  return slip_otensor_slice(o, args->tensors[0], 0, start, length);
}

static void raw(slip_orch_t *o, const slip_oargs_t *args) {
  warm_up(o, args);
  do_put(o, part(o, args, 0, 4), SLIP_ACCESS_OUT_EXISTING, 7, SLOW, 0);
  do_copy(o, part(o, args, 2, 4), SLIP_ACCESS_IN, part(o, args, 8, 1), 0, 0);
}
static void raw_check(const int64_t *data) {
  SLIP_CHECK_EQ(data[8], 7);
}
SLIP_TEST(read_after_write_of_an_overlapping_slice) {
  repeat(raw, 100, raw_check);
}

static void war(slip_orch_t *o, const slip_oargs_t *args) {
  warm_up(o, args);
  do_copy(o, part(o, args, 0, 4), SLIP_ACCESS_IN, part(o, args, 8, 1), SLOW, 0);
  do_copy(o, part(o, args, 0, 2), SLIP_ACCESS_IN, part(o, args, 9, 1), SLOW / 2, 0);
  do_put(o, part(o, args, 0, 1), SLIP_ACCESS_OUT_EXISTING, 7, 0, 0);
}
static void war_check(const int64_t *data) {
  SLIP_CHECK_EQ(data[0], 7);
  SLIP_CHECK_EQ(data[8], 0);
  SLIP_CHECK_EQ(data[9], 0);
}
SLIP_TEST(write_after_all_readers) {
  repeat(war, 100, war_check);
}

static void waw(slip_orch_t *o, const slip_oargs_t *args) {
  warm_up(o, args);
  do_put(o, part(o, args, 0, 6), SLIP_ACCESS_OUT_EXISTING, 7, SLOW, 0);
  do_put(o, part(o, args, 4, 4), SLIP_ACCESS_OUT_EXISTING, 9, 0, 0);
}
static void waw_check(const int64_t *data) {
  for (int i = 0; i < 4; ++i) SLIP_CHECK_EQ(data[i], 7);
  for (int i = 4; i < 8; ++i) SLIP_CHECK_EQ(data[i], 9);
}
SLIP_TEST(write_after_write) {
  repeat(waw, 100, waw_check);
}

// A writer of the whole supersedes its parts: the later reader of a part still waits.
static void covered(slip_orch_t *o, const slip_oargs_t *args) {
  warm_up(o, args);
  do_put(o, part(o, args, 0, 2), SLIP_ACCESS_OUT_EXISTING, 3, SLOW / 4, 0);
  do_put(o, part(o, args, 2, 2), SLIP_ACCESS_OUT_EXISTING, 4, SLOW / 4, 0);
  do_put(o, part(o, args, 0, 4), SLIP_ACCESS_OUT_EXISTING, 5, SLOW / 2, 0);
  do_copy(o, part(o, args, 2, 2), SLIP_ACCESS_IN, part(o, args, 8, 1), 0, 0);
  do_put(o, part(o, args, 2, 2), SLIP_ACCESS_OUT_EXISTING, 6, 0, 0);
}
static void covered_check(const int64_t *data) {
  SLIP_CHECK_EQ(data[8], 5);
  SLIP_CHECK_EQ(data[0], 5);
  SLIP_CHECK_EQ(data[3], 6);
}
SLIP_TEST(a_covering_write_takes_the_place_of_its_parts) {
  repeat(covered, 100, covered_check);
}

// In a manual scope only the named task is waited for; afterwards inference knows what happened in it.
static void manual(slip_orch_t *o, const slip_oargs_t *args) {
  warm_up(o, args);
  slip_task_t first = do_put(o, part(o, args, 0, 2), SLIP_ACCESS_OUT_EXISTING, 3, SLOW / 2, 0);
  slip_scope_begin(o, SLIP_SCOPE_MANUAL);
  slip_task_t second = do_copy(o, part(o, args, 0, 1), SLIP_ACCESS_IN, part(o, args, 2, 1), SLOW / 2, first);
  slip_task_t third = do_put(o, part(o, args, 4, 2), SLIP_ACCESS_OUT_EXISTING, 8, SLOW / 2, 0);
  const slip_task_t both[2] = {second, third};
  slip_task_t joined = o->api->join(o, both, 2);
  do_copy(o, part(o, args, 4, 1), SLIP_ACCESS_IN, part(o, args, 6, 1), 0, joined);
  slip_scope_end(o);
  do_copy(o, part(o, args, 2, 1), SLIP_ACCESS_IN, part(o, args, 8, 1), 0, 0);
  do_copy(o, part(o, args, 4, 1), SLIP_ACCESS_IN, part(o, args, 9, 1), 0, 0);
}
static void manual_check(const int64_t *data) {
  SLIP_CHECK_EQ(data[2], 3);
  SLIP_CHECK_EQ(data[6], 8);
  SLIP_CHECK_EQ(data[8], 3);
  SLIP_CHECK_EQ(data[9], 8);
}
SLIP_TEST(manual_scopes_wait_for_what_is_named) {
  repeat(manual, 100, manual_check);
}

// Only no_dep lets a reader overlap a writer: two tasks that wait for each other can then both run.
static _Atomic int met;
static void meet(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
  atomic_fetch_add(&met, 1);
  while (atomic_load(&met) < 2) (void)sched_yield();
}
static const slip_object_kernel_t meeting[] = {{"meet", meet, 0, 0, 1, 0}};
static void no_dep(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  for (int i = 0; i < 2; ++i) {
    slip_task_begin(&task, 0, 1);
    slip_task_tensor(&task, i ? SLIP_ACCESS_NO_DEP : SLIP_ACCESS_INOUT, &args->tensors[0]);
    slip_task_submit(o, &task);
  }
}
SLIP_TEST(no_dep_does_not_wait) {
  graph_test_t test = graph_test_open(2, 64, 1 << 16, 64);
  int64_t data = 0;
  const int64_t dims[1] = {1};
  slip_otensor_t tensor = graph_test_tensor(&data, SLIP_DTYPE_I64, 1, dims);
  for (int round = 0; round < 20; ++round) {
    atomic_store(&met, 0);
    SLIP_CHECK_OK(graph_test_run(&test, meeting, 1, no_dep, &tensor, 1, NULL, 0));
  }
  graph_test_close(&test);
}

// A no_dep argument still waits for the task that made the tensor.
static void creator(slip_orch_t *o, const slip_oargs_t *args) {
  const int64_t dims[1] = {2};
  slip_otensor_t made = slip_otensor_describe(SLIP_DTYPE_I64, 1, dims);
  slip_task_builder_t task;
  warm_up(o, args);
  slip_task_begin(&task, PUT, 1);
  slip_task_out(&task, &made);
  slip_task_scalar(&task, 5);
  slip_task_scalar(&task, SLOW);
  slip_task_submit(o, &task);
  do_copy(o, made, SLIP_ACCESS_NO_DEP, part(o, args, 8, 1), 0, 0);
}
static void creator_check(const int64_t *data) {
  SLIP_CHECK_EQ(data[8], 5);
}
SLIP_TEST(no_dep_keeps_the_edge_to_the_creator) {
  repeat(creator, 100, creator_check);
}

// More producers than a slot has edges, and more than a small pool holds: the submitter waits for the rest itself.
static void many_producers(slip_orch_t *o, const slip_oargs_t *args) {
  for (int i = 0; i < 12; ++i) do_put(o, part(o, args, i, 1), SLIP_ACCESS_OUT_EXISTING, (uint64_t)i + 100, 200, 0);
  slip_task_builder_t task;
  slip_otensor_t all = args->tensors[0];
  slip_task_begin(&task, COPY, 1);
  slip_task_in(&task, &all);
  slip_otensor_t last = part(o, args, 15, 1);
  slip_task_out_existing(&task, &last);
  slip_task_scalar(&task, 0);
  slip_task_submit(o, &task);
  do_put(o, part(o, args, 0, 12), SLIP_ACCESS_INOUT, 1, 0, 0);
}
SLIP_TEST(a_task_with_more_producers_than_edges) {
  const int64_t dims[1] = {16};
  for (uint32_t pool = 8; pool <= 64; pool *= 8) {
    graph_test_t test = graph_test_open(2, 64, 1 << 16, pool);
    for (int round = 0; round < 200; ++round) {
      int64_t data[16] = {0};
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
      SLIP_CHECK_OK(graph_test_run(&test, kernels, 2, many_producers, &tensor, 1, NULL, 0));
      SLIP_CHECK_EQ(data[15], 100);
      for (int i = 0; i < 12; ++i) SLIP_CHECK_EQ(data[i], 1);
    }
    graph_test_close(&test);
  }
}

// Tasks that wait for each other can only end if nothing orders them: neighbours of one parent, though their byte ranges interleave.
static void disjoint(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_otensor_t parts[2];
  const int64_t dims[2] = {4, 4};
  slip_otensor_t square = slip_otensor_reshape(o, args->tensors[0], 2, dims);
  for (int64_t i = 0; i < 2; ++i) parts[i] = slip_otensor_slice(o, square, 1, 2 * i, 2);
  // What covers only a part of a region must not order that region's other part.
  do_put(o, args->tensors[0], SLIP_ACCESS_OUT_EXISTING, 1, 0, 0);
  for (int i = 0; i < 2; ++i) {
    slip_task_begin(&task, 2, 1);
    slip_task_inout(&task, &parts[i]);
    slip_task_submit(o, &task);
  }
}
SLIP_TEST(interleaved_slices_are_not_ordered) {
  static const slip_object_kernel_t with_meet[] = {{"put", put, 0, 0, 1, 2}, {"copy", copy, 0, 0, 2, 1}, {"meet", meet, 0, 0, 1, 0}};
  graph_test_t test = graph_test_open(2, 64, 1 << 16, 64);
  int64_t data[16];
  const int64_t dims[1] = {16};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  for (int round = 0; round < 20; ++round) {
    atomic_store(&met, 0);
    SLIP_CHECK_OK(graph_test_run(&test, with_meet, 3, disjoint, &tensor, 1, NULL, 0));
  }
  graph_test_close(&test);
}
