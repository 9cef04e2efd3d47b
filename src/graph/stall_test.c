// SPDX-License-Identifier: Apache-2.0
// The backstop. What it is for cannot happen by itself, so the tests break the engine from the inside: a dependency that is never counted
// down, a ready task that is in no queue. And what must not be taken for a stall: long kernels, whosever they are.
#include "graph/stall.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "graph/execute.h"
#include "graph/park.h"
#include "graph/state.h"
#include "os/clock.h"
#include "slip_test_graph.h"

#define STALL_TEST_MS 60

static _Atomic uint64_t ran;
static _Atomic uint32_t go, started;
static void add(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  atomic_fetch_add(&ran, 1);
  *(int64_t *)args->tensors[0].data += 1;
}
static void wait_for_go(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
  atomic_store(&started, 1);
  while (!atomic_load(&go)) (void)sched_yield();
}
static void sleep_ms(uint64_t ms) {
  struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
  (void)nanosleep(&time, NULL);
}
static void slow(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
  sleep_ms(3 * STALL_TEST_MS);
}
static void many(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
}
static const slip_object_kernel_t kernels[] = {{"add", add, 0, 0, 1, 0},
                                               {"wait", wait_for_go, 0, 0, 1, 0},
                                               {"slow", slow, 0, 0, 1, 0},
                                               {"many", many, 0, 0, 0, 0},
                                               {"hold", wait_for_go, 0, 0, 0, 0}};
enum { ADD, WAIT, SLOW, MANY, HOLD, KERNELS };

static slip_task_t submit(slip_orch_t *o, uint32_t kernel, slip_otensor_t t) {
  slip_task_builder_t task;
  slip_task_begin_at(&task, kernel, 1, "stall.c", 10 + kernel);
  if (kernel < MANY) slip_task_inout(&task, &t);
  return slip_task_submit(o, &task);
}
static slip_task_t submit_after(slip_orch_t *o, const slip_task_t *deps, uint32_t count) {
  slip_task_builder_t task;
  slip_task_begin_at(&task, MANY, 1, "stall.c", 10 + MANY);
  for (uint32_t i = 0; i < count; ++i) slip_task_after(&task, deps[i]);
  return slip_task_submit(o, &task);
}

// A task that never becomes ready, in a scope of |depth|, which stays open.
static slip_task_t stick(slip_orch_t *o, slip_otensor_t t, uint32_t depth) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  atomic_store(&go, 0);
  for (uint32_t i = 0; i < depth; ++i) slip_scope_begin(o, SLIP_SCOPE_AUTO);
  submit(o, WAIT, t);
  slip_task_t stuck = submit(o, ADD, t);
  slip__slot_t *slot = slip__ring_slot(&workspace->rings[slip__task_ring(stuck)], slip__task_sequence(stuck));
  // A quiet moment: the producer runs and knows of the consumer, or has not begun.
  SLIP_CHECK_EQ(atomic_fetch_add(&slot->pending, 1), 1);
  atomic_store(&go, 1);
  return stuck;
}
static void unwind(slip_orch_t *o, uint32_t depth) {
  for (uint32_t i = 0; i < depth; ++i) slip_scope_end(o);
}

static uint32_t depth_of(const slip_oargs_t *args) {
  return (uint32_t)args->scalars[0];
}
static void at_the_end(slip_orch_t *o, const slip_oargs_t *args) {
  (void)stick(o, args->tensors[0], depth_of(args));
  for (int i = 0; i < 3; ++i) submit(o, ADD, args->tensors[0]);
  unwind(o, depth_of(args));
}
static void window(slip_orch_t *o, const slip_oargs_t *args) {
  (void)stick(o, args->tensors[0], depth_of(args));
  for (int i = 0; i < 20; ++i) submit(o, MANY, args->tensors[0]);
  unwind(o, depth_of(args));
}
static void heap(slip_orch_t *o, const slip_oargs_t *args) {
  const int64_t dims[1] = {300};  // 2400 of 4096 bytes
  (void)stick(o, args->tensors[0], depth_of(args));
  slip_otensor_t held = slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims);
  submit(o, ADD, held);
  slip_scope_end(o);
  slip_scope_begin(o, SLIP_SCOPE_AUTO);
  (void)slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims);
  unwind(o, depth_of(args));
}
static void pool(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_t deps[24], stuck = stick(o, args->tensors[0], depth_of(args));
  for (int i = 0; i < 24; ++i) deps[i] = submit_after(o, &stuck, 1);
  (void)submit_after(o, deps, 24);
  submit(o, ADD, args->tensors[0]);
  unwind(o, depth_of(args));
}
static void element(slip_orch_t *o, const slip_oargs_t *args) {
  (void)stick(o, args->tensors[0], depth_of(args));
  SLIP_CHECK_EQ(o->api->read_element(o, &args->tensors[0], 0), 0);
  unwind(o, depth_of(args));
}
// A ready task is taken out of the queue and forgotten. The workers take, too: until one was here before them.
static void lost(slip_orch_t *o, const slip_oargs_t *args) {
  slip__queue_t *queue = &((slip__workspace_t *)o)->seat->queue;
  slip__slot_t *forgotten;
  uint32_t taken = 0;
  submit(o, MANY, args->tensors[0]);  // is held back until the next one
  for (uint32_t tries = 0; !taken && tries < 1000000; ++tries) {
    submit(o, MANY, args->tensors[0]);
    slip__queue_publish(queue);
    taken = slip__queue_take(queue, SLIP__QUEUE_CAPACITY, &forgotten);
  }
  SLIP_CHECK_EQ(taken, 1);
}

static graph_test_t stall_open(uint32_t threads, uint32_t window_size, uint32_t pool_size, uint32_t stall_ms, uint32_t element_ms) {
  graph_test_t test;
  slip__engine_options_t engine = {.thread_count = threads, .stall_timeout_ms = stall_ms, .element_timeout_ms = element_ms};
  slip__workspace_options_t workspace = graph_test_options(window_size, 4096, pool_size);
  SLIP_CHECK_OK(slip__engine_create(&engine, &test.engine));
  SLIP_CHECK_OK(slip__workspace_create(test.engine, &workspace, &test.workspace));
  return test;
}

static void good(slip_orch_t *o, const slip_oargs_t *args) {
  for (int i = 0; i < 10; ++i) submit(o, ADD, args->tensors[0]);
}
// Exactly its own ten tasks.
static void check_good(graph_test_t *test) {
  int64_t data[4] = {0};
  const int64_t dims[1] = {4};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  uint64_t before = slip__workspace_task_count(test->workspace);
  SLIP_CHECK_OK(graph_test_run(test, kernels, KERNELS, good, &tensor, 1, NULL, 0));
  SLIP_CHECK_EQ(data[0], 10);
  SLIP_CHECK_EQ(slip__workspace_task_count(test->workspace) - before, 10);
}

// Runs it, and checks code, text, the time it took, and the next runs.
static void stalls(graph_test_t *test, slip_orch_fn_t orchestrate, uint32_t depth, slip_code_t code, const char *const *parts) {
  int64_t data[4] = {0};
  const int64_t dims[1] = {4};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  char text[1024];
  uint64_t start = slip__clock_now_ns();
  slip_status_t status = graph_test_run(test, kernels, KERNELS, orchestrate, &tensor, 1, (void *)(uintptr_t)depth, SLIP__RUN_PROGRAM);
  SLIP_CHECK(slip__clock_now_ns() - start >= (uint64_t)STALL_TEST_MS * 1000000);
  slip_status_format(status, text, sizeof(text));
  for (; *parts; ++parts) {
    if (!strstr(text, *parts)) slip_test_fail(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", *parts, text);
  }
  SLIP_CHECK_CODE(status, code);
  for (int i = 0; i < 30; ++i) check_good(test);
}
#define STALLS(test, orchestrate, depth, code, ...) \
  stalls((test), (orchestrate), (depth), SLIP_CODE_##code, (const char *const[]){__VA_ARGS__, NULL})

SLIP_TEST_TIMEOUT(a_run_that_stands_still_ends, 60) {
  for (uint32_t threads = 2; threads <= 3; ++threads) {
    graph_test_t test = stall_open(threads, 64, 64, STALL_TEST_MS, 0);
    STALLS(&test, at_the_end, 0, GRAPH_STALLED, "waits for the end of the run", "for 60 ms no task", "the oldest of 4 never became ready",
           "(1 dependencies open", "stall_timeout_ms", "task of kernel 0 (add) in ring 0, scope depth 0, submitted at stall.c:10");
    STALLS(&test, lost, 0, GRAPH_STALLED, "or was lost when it was");
    graph_test_close(&test);
  }
}

SLIP_TEST_TIMEOUT(a_stall_names_what_the_submitter_waits_for_in_each_ring, 120) {
  static const char *const rings[] = {"ring 0", "ring 1", "ring 2", "ring 3", "ring 3"};
  static const char *const windows[] = {"task_window[0]", "task_window[1]", "task_window[2]", "task_window[3]", "task_window[3]"};
  graph_test_t test = stall_open(2, 8, 4, STALL_TEST_MS, 0), wide = stall_open(2, 64, 4, STALL_TEST_MS, 0);
  for (uint32_t depth = 0; depth < 5; ++depth) {
    STALLS(&test, window, depth, GRAPH_WINDOW_EXHAUSTED, "of 8 tasks) cannot drain", windows[depth], rings[depth], "stall.c:10");
    if (depth > 0 && depth < 4) STALLS(&test, heap, depth, GRAPH_STALLED, "waits for room in heap ring", rings[depth], "stall.c:10");
    STALLS(&wide, pool, depth, GRAPH_STALLED, "waits for room in the dependency pool of", rings[depth], "stall.c:10");
    STALLS(&test, element, depth, GRAPH_ELEMENT_TIMEOUT, "an element's producer never ends", rings[depth], "stall.c:10");
  }
  graph_test_close(&test);
  graph_test_close(&wide);
}

// --- Others ----------------------------------------------------------------------------------------------------------------------------

typedef struct other_t {
  graph_test_t test;
  _Atomic uint32_t stop;
  bool pauses;
  uint64_t runs;
  slip__thread_t thread;
} other_t;

static void other_main(void *user) {
  other_t *other = user;
  while (!atomic_load(&other->stop)) {
    check_good(&other->test);
    ++other->runs;
    if (other->pauses) sleep_ms(1);
  }
}

// Others run on the same engine without a pause: the stall is seen all the same, and they are not touched.
SLIP_TEST_TIMEOUT(a_stall_beside_other_runs, 120) {
  graph_test_t test = stall_open(2, 8, 64, STALL_TEST_MS, 0);
  slip__workspace_options_t options = graph_test_options(8, 4096, 64);
  for (int round = 0; round < 4; ++round) {
    other_t other = {.test.engine = test.engine, .pauses = round % 2};
    SLIP_CHECK_OK(slip__workspace_create(test.engine, &options, &other.test.workspace));
    SLIP_CHECK_OK(slip__thread_start(&other.thread, "other", other_main, &other));
    STALLS(&test, at_the_end, 1, GRAPH_STALLED, "waits for the end of the run");
    STALLS(&test, window, 2, GRAPH_WINDOW_EXHAUSTED, "task_window[2]");
    atomic_store(&other.stop, 1);
    slip__thread_join(&other.thread);
    SLIP_CHECK(other.runs > 0);
    slip__workspace_destroy(other.test.workspace);
  }
  graph_test_close(&test);
}

static void stalled_main(void *user) {
  other_t *other = user;
  STALLS(&other->test, at_the_end, 0, GRAPH_STALLED, "waits for the end of the run");
  ++other->runs;
}
SLIP_TEST_TIMEOUT(two_stalls_at_the_same_time, 60) {
  graph_test_t test = stall_open(3, 8, 64, STALL_TEST_MS, 0);
  slip__workspace_options_t options = graph_test_options(8, 4096, 64);
  other_t others[2] = {{.test.engine = test.engine}, {.test.engine = test.engine}};
  for (int i = 0; i < 2; ++i) {
    SLIP_CHECK_OK(slip__workspace_create(test.engine, &options, &others[i].test.workspace));
    SLIP_CHECK_OK(slip__thread_start(&others[i].thread, "stalled", stalled_main, &others[i]));
  }
  for (int i = 0; i < 2; ++i) slip__thread_join(&others[i].thread);
  for (int i = 0; i < 2; ++i) SLIP_CHECK_EQ(others[i].runs, 1);
  for (int i = 0; i < 2; ++i) slip__workspace_destroy(others[i].test.workspace);
  graph_test_close(&test);
}

// --- What is no stall
// ---------------------------------------------------------------------------------------------------------------------

static void slow_ones(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  slip_task_begin(&task, SLOW, 2);
  slip_otensor_t t = args->tensors[0];
  slip_task_inout(&task, &t);
  slip_task_submit(o, &task);
  slip_task_submit(o, &task);
  submit(o, ADD, t);
  submit(o, ADD, t);
}
static void slow_main(void *user) {
  other_t *other = user;
  int64_t data[4] = {0};
  const int64_t dims[1] = {4};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  SLIP_CHECK_OK(graph_test_run(&other->test, kernels, KERNELS, slow_ones, &tensor, 1, NULL, 0));
  SLIP_CHECK_EQ(data[0], 2);
  ++other->runs;
}
SLIP_TEST_TIMEOUT(long_kernels_are_no_stall, 120) {
  for (uint32_t threads = 2; threads <= 3; ++threads) {
    graph_test_t test = stall_open(threads, 8, 64, STALL_TEST_MS / 3, 0);
    slip__workspace_options_t options = graph_test_options(8, 4096, 64);
    other_t other = {.test.engine = test.engine};
    SLIP_CHECK_OK(slip__workspace_create(test.engine, &options, &other.test.workspace));
    SLIP_CHECK_OK(slip__thread_start(&other.thread, "slow", slow_main, &other));
    for (int i = 0; i < 20; ++i) {
      check_good(&test);
      sleep_ms(10);
    }
    slip__thread_join(&other.thread);
    SLIP_CHECK_EQ(other.runs, 1);
    slip__workspace_destroy(other.test.workspace);
    graph_test_close(&test);
  }
}

// Takes a ready task that waits for |go| out of the queue, as a finisher would that is on its way to put it there.
static slip__slot_t *on_its_way(slip_orch_t *o, slip_otensor_t t) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  slip__queue_t *queue = &workspace->seat->queue;
  for (;;) {
    atomic_store(&go, 0);
    while (!slip__workers_sleep(workspace->engine)) (void)sched_yield();  // so few tasks are not worth waking it
    slip_task_t task = submit(o, HOLD, t);
    slip__slot_t *slot = slip__ring_slot(&workspace->rings[slip__task_ring(task)], slip__task_sequence(task)), *taken = NULL;
    submit(o, MANY, t);  // the last one is held back
    slip__queue_publish(queue);
    while (taken != slot && slip__queue_take(queue, SLIP__QUEUE_CAPACITY, &taken)) {
      if (taken != slot) slip__execute_chain(workspace->engine, workspace->seat, taken);
    }
    if (taken != slot) atomic_store(&go, 1);  // the worker was here first
    while (slip__help(workspace->engine, workspace->seat)) continue;
    if (taken == slot) return slot;
    while (!slip__slot_is_closed(slot)) (void)sched_yield();
  }
}
// Nothing is to be seen at one look, and the next comes late, when a worker runs what was on its way.
static void late_look(slip_orch_t *o, const slip_oargs_t *args) {
  slip__workspace_t *workspace = (slip__workspace_t *)o;
  slip__slot_t *way = on_its_way(o, args->tensors[0]);
  atomic_store(&started, 0);
  while (workspace->stall.ended == UINT64_MAX) slip__stall_sleep(workspace, way);
  SLIP_CHECK(slip__queue_push(&workspace->seat->queue, way));
  slip__wake_for_queued(workspace->engine, workspace->seat, 1);
  while (!atomic_load(&started)) (void)sched_yield();
  sleep_ms(STALL_TEST_MS);
  slip__stall_sleep(workspace, way);
  SLIP_CHECK(!slip__workspace_failed(workspace));
  atomic_store(&go, 1);
}
SLIP_TEST_TIMEOUT(a_look_that_comes_late_is_no_stall, 60) {
  for (int i = 0; i < 5; ++i) {
    graph_test_t test = stall_open(2, 4096, 64, STALL_TEST_MS / 3, 0);  // new: has not learnt to run tasks at once
    int64_t data[4] = {0};
    const int64_t dims[1] = {4};
    slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
    SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, late_look, &tensor, 1, NULL, 0));
    check_good(&test);
    graph_test_close(&test);
  }
}

static void slow_element(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t t = args->tensors[0];
  submit(o, ADD, t);
  submit(o, SLOW, t);
  SLIP_CHECK_EQ(o->api->read_element(o, &args->tensors[0], 0), 1);
}
// A worker is in the task, so that the submitter cannot run it; it ends when the access has given up.
static void endless_element(slip_orch_t *o, const slip_oargs_t *args) {
  atomic_store(&go, 0);
  atomic_store(&started, 0);
  for (int i = 0; i < 24; ++i) submit(o, WAIT, args->tensors[0]);  // enough to be worth waking a worker
  while (!atomic_load(&started)) (void)sched_yield();
  SLIP_CHECK_EQ(o->api->read_element(o, &args->tensors[0], 0), 0);
  SLIP_CHECK(slip_orch_failed(o));
  atomic_store(&go, 1);
}
SLIP_TEST_TIMEOUT(an_element_access_waits_as_long_as_allowed, 60) {
  static const uint32_t limits[] = {0, 20000, 20};
  for (int i = 0; i < 3; ++i) {
    graph_test_t test = stall_open(2, 64, 64, 20, limits[i]);
    int64_t data[4] = {0};
    const int64_t dims[1] = {4};
    slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
    if (i < 2) SLIP_CHECK_OK(graph_test_run(&test, kernels, KERNELS, slow_element, &tensor, 1, NULL, SLIP__RUN_PROGRAM));
    if (i == 2) {
      char text[1024];
      slip_status_t status = graph_test_run(&test, kernels, KERNELS, endless_element, &tensor, 1, NULL, SLIP__RUN_PROGRAM);
      slip_status_format(status, text, sizeof(text));
      SLIP_CHECK(strstr(text, "task of kernel 1 (wait) in ring 0, scope depth 0, submitted at stall.c:11") != NULL);
      SLIP_CHECK_ERROR(status, SLIP_CODE_GRAPH_ELEMENT_TIMEOUT, "waited 20 ms for a task that is not over");
    }
    for (int k = 0; k < 10; ++k) check_good(&test);
    graph_test_close(&test);
  }
}

SLIP_TEST(a_backstop_can_be_switched_off) {
  graph_test_t test = stall_open(2, 8, 64, SLIP__STALL_NEVER, 0);
  for (int i = 0; i < 100; ++i) check_good(&test);
  graph_test_close(&test);
}
