// SPDX-License-Identifier: Apache-2.0
#include "graph/board.h"

#include <sched.h>

#include "graph/execute.h"
#include "graph/state.h"
#include "graph/workspace.h"
#include "slip_test_graph.h"

// The moment in which the next task's fields are written while the claim word is still that of the last one.
SLIP_TEST(an_exhausted_entry_gives_no_blocks_whatever_its_fields_say) {
  graph_test_t test = graph_test_open(1, 8, 4096, 64);
  slip__board_t *board = &test.engine->board;
  slip__board_entry_t *entry = &board->entries[3];
  slip__slot_t *next = (slip__slot_t *)(uintptr_t)1;
  atomic_store(&entry->claim, UINT64_C(7) << 32);
  atomic_store(&entry->block_count, 100);
  atomic_store(&board->open, 1u << 3);
  SLIP_CHECK(!slip__board_join(test.engine, test.workspace->seat, &next));
  SLIP_CHECK(next == NULL);
  SLIP_CHECK_EQ(atomic_load(&board->open), 0);
  SLIP_CHECK_EQ(atomic_load(&entry->claim), (long long)(UINT64_C(7) << 32));
  graph_test_close(&test);
}

// --- Kernels that meet each other; whoever waits gives up its core, there may be fewer than threads ---

enum { WAIT, WHO, UNEVEN, GATHER };
typedef struct board_place_t {
  _Atomic uint32_t arrived, done, go;
  _Atomic uint64_t producer, first;
} board_place_t;

static board_place_t *board_place(const slip_kargs_t *args) {
  return (board_place_t *)(uintptr_t)args->scalars[0];
}
static void board_wait(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  board_place_t *place = board_place(args);
  while (!atomic_load(&place->go)) (void)sched_yield();
  atomic_store(&place->producer, (uint64_t)pthread_self());
}
static void board_who(const slip_kargs_t *args, slip_block_t block) {
  if (block.index == 0) atomic_store(&board_place(args)->first, (uint64_t)pthread_self());
}
// The first block lasts until all are over that were not claimed with it, but for the last two; those last until both have begun.
static void board_uneven(const slip_kargs_t *args, slip_block_t block) {
  board_place_t *place = board_place(args);
  uint32_t share = block.count / 4;  // two threads
  if (block.index == 0) {
    while (atomic_load(&place->done) < block.count - share - 2) (void)sched_yield();
  }
  if (block.index >= block.count - 2) {
    atomic_fetch_add(&place->arrived, 1);
    while (atomic_load(&place->arrived) < 2) (void)sched_yield();
  }
  atomic_fetch_add(&place->done, 1);
}
// A barrier of the gang, then a wait for the word to go.
static void board_gather(const slip_kargs_t *args, slip_block_t block) {
  board_place_t *place = board_place(args);
  uint32_t round = atomic_fetch_add(&place->arrived, 1) / block.count;
  while (atomic_load(&place->arrived) < (round + 1) * block.count || !atomic_load(&place->go)) (void)sched_yield();
  atomic_fetch_add(&place->done, 1);
}
static const slip_object_kernel_t board_kernels[] = {{"wait", board_wait, 0, 0, 1, 1},
                                                     {"who", board_who, 0, 0, 1, 1},
                                                     {"uneven", board_uneven, 0, 0, 1, 1},
                                                     {"gather", board_gather, 0, 0, 1, 1}};

static void board_submit(slip_orch_t *o, const slip_oargs_t *args, uint32_t kernel, uint32_t blocks, uint32_t flags) {
  slip_task_builder_t task;
  slip_task_begin(&task, kernel, blocks);
  slip_task_inout(&task, &args->tensors[0]);
  slip_task_scalar(&task, args->scalars[0]);
  task.submit.flags = flags;
  slip_task_submit(o, &task);
}
static void board_run(graph_test_t *test, slip_orch_fn_t orchestrate, board_place_t *place) {
  const int64_t dims[1] = {1};
  int64_t data = 0;
  slip_otensor_t tensor = graph_test_tensor(&data, SLIP_DTYPE_I64, 1, dims);
  SLIP_CHECK_OK(graph_test_run(test, board_kernels, 4, orchestrate, &tensor, 1, place, 0));
}

static void board_released(slip_orch_t *o, const slip_oargs_t *args) {
  board_submit(o, args, WAIT, 1, 0);
  board_submit(o, args, WHO, 40, 0);
  atomic_store(&((board_place_t *)graph_test_user(args))->go, 1);
}
SLIP_TEST(the_thread_that_releases_blocks_starts_them) {
  for (uint32_t threads = 2; threads <= 4; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 4096, 64);
    for (int round = 0; round < 200; ++round) {
      board_place_t place = {0};
      board_run(&test, board_released, &place);
      SLIP_CHECK(atomic_load(&place.producer) != 0);
      SLIP_CHECK_EQ(atomic_load(&place.first), atomic_load(&place.producer));
    }
    graph_test_close(&test);
  }
}

static void board_long(slip_orch_t *o, const slip_oargs_t *args) {
  board_submit(o, args, UNEVEN, 100, 0);
}
SLIP_TEST_TIMEOUT(long_blocks_are_claimed_in_shrinking_ranges, 60) {
  graph_test_t test = graph_test_open(2, 64, 4096, 64);
  for (int round = 0; round < 50; ++round) {
    board_place_t place = {0};
    board_run(&test, board_long, &place);
    SLIP_CHECK_EQ(atomic_load(&place.done), 100);
  }
  graph_test_close(&test);
}

// A gang of each kind of core, as large as it may be; blocks of each kind on all threads.
static void board_cores(slip_orch_t *o, const slip_oargs_t *args) {
  static const uint32_t kinds[] = {SLIP_CORE_ANY, SLIP_CORE_MATRIX, SLIP_CORE_VECTOR, SLIP_CORE_MIXED};
  for (int i = 0; i < 4; ++i) {
    slip_task_builder_t task;
    uint32_t cores = slip_orch_available_cores(o, kinds[i]);
    SLIP_CHECK_EQ(cores, slip_orch_available_cores(o, SLIP_CORE_ANY));
    for (uint32_t kernel = WHO; kernel <= GATHER; kernel += GATHER - WHO) {
      slip_task_begin(&task, kernel, cores);
      slip_task_inout(&task, &args->tensors[0]);
      slip_task_scalar(&task, args->scalars[0]);
      if (kernel == GATHER) slip_task_gang(&task);
      task.submit.core = kinds[i];
      slip_task_submit(o, &task);
    }
  }
  SLIP_CHECK_EQ(slip_orch_available_cores(o, SLIP_CORE_MIXED + 1), 0);
}
SLIP_TEST_TIMEOUT(every_thread_runs_every_kind_of_core, 120) {
  for (uint32_t threads = 1; threads <= 4; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 4096, 64);
    for (int round = 0; round < 20; ++round) {
      board_place_t place = {.go = 1};
      board_run(&test, board_cores, &place);
      SLIP_CHECK_EQ(atomic_load(&place.done), 4 * threads);
      SLIP_CHECK(atomic_load(&place.first) != 0);
    }
    graph_test_close(&test);
  }
}

// --- Gangs of several runs ---

typedef struct board_caller_t {
  graph_test_t test;
  board_place_t place;
  int rounds;
  slip__thread_t thread;
} board_caller_t;

static void board_gang(slip_orch_t *o, const slip_oargs_t *args) {
  board_submit(o, args, GATHER, o->api->available_cores(o, SLIP_CORE_ANY), SLIP_SUBMIT_GANG);
}
static void board_call(void *user) {
  board_caller_t *caller = user;
  for (int round = 0; round < caller->rounds; ++round) board_run(&caller->test, board_gang, &caller->place);
}
static void board_start(board_caller_t *caller, slip__engine_t *engine, int rounds) {
  slip__workspace_options_t options = graph_test_options(64, 4096, 64);
  caller->rounds = rounds;
  caller->test.engine = engine;
  SLIP_CHECK_OK(slip__workspace_create(engine, &options, &caller->test.workspace));
  SLIP_CHECK_OK(slip__thread_start(&caller->thread, "caller", board_call, caller));
}

// The second gang is opened by the thread that ends the first one, long after its submitter has gone to sleep; without that submitter it
// has one thread too few.
SLIP_TEST_TIMEOUT(a_gang_that_waited_for_another_wakes_its_submitter, 60) {
  slip__engine_options_t options = {.thread_count = 2};
  slip__engine_t *engine;
  SLIP_CHECK_OK(slip__engine_create(&options, &engine));
  for (int round = 0; round < 20; ++round) {
    board_caller_t callers[2] = {0};
    atomic_store(&callers[1].place.go, 1);
    board_start(&callers[0], engine, 1);
    while (atomic_load(&callers[0].place.arrived) < 2) (void)sched_yield();
    board_start(&callers[1], engine, 1);
    while (!atomic_load(&callers[1].test.workspace->seat->parked)) (void)sched_yield();
    atomic_store(&callers[0].place.go, 1);
    for (int i = 0; i < 2; ++i) slip__thread_join(&callers[i].thread);
    for (int i = 0; i < 2; ++i) SLIP_CHECK_EQ(atomic_load(&callers[i].place.done), 2);
    for (int i = 0; i < 2; ++i) slip__workspace_destroy(callers[i].test.workspace);
  }
  slip__engine_destroy(engine);
}

SLIP_TEST_TIMEOUT(gangs_of_several_runs_and_engines_all_end, 300) {
  enum { ENGINES = 2, CALLERS = 4, ROUNDS = 50 };
  slip__engine_t *engines[ENGINES];
  static board_caller_t callers[CALLERS];
  for (uint32_t i = 0; i < ENGINES; ++i) {
    slip__engine_options_t options = {.thread_count = 2 + i};
    SLIP_CHECK_OK(slip__engine_create(&options, &engines[i]));
  }
  for (int i = 0; i < CALLERS; ++i) {
    atomic_store(&callers[i].place.go, 1);
    board_start(&callers[i], engines[i % ENGINES], ROUNDS);
  }
  for (int i = 0; i < CALLERS; ++i) {
    slip__thread_join(&callers[i].thread);
    SLIP_CHECK_EQ(atomic_load(&callers[i].place.done), ROUNDS * slip__engine_thread_count(callers[i].test.engine));
    slip__workspace_destroy(callers[i].test.workspace);
  }
  for (int i = 0; i < ENGINES; ++i) slip__engine_destroy(engines[i]);
}
