// SPDX-License-Identifier: Apache-2.0
// Graphs built by hand, run in every way, against a serial oracle.
#include "graph/recorded/replay.h"

#include <sched.h>

#include "graph/workspace.h"
#include "os/thread.h"
#include "slip_test_graph.h"

#define CELLS     64
#define MAX_NODES 400

// Tensors are cells; the last one is written. value = value * 31 + sum of the others + scalar.
static void mix(const slip_kargs_t *args, slip_block_t block) {
  uint64_t sum = args->scalars[0];
  uint32_t last = args->tensor_count - 1;
  for (uint32_t i = 0; i < last; ++i) sum += *(const uint64_t *)args->tensors[i].data;
  uint64_t *to = (uint64_t *)args->tensors[last].data + block.index;
  *to = *to * 31 + sum;
}
static _Atomic uint32_t arrived;
static void meet(const slip_kargs_t *args, slip_block_t block) {
  uint32_t target = (atomic_fetch_add(&arrived, 1) / block.count + 1) * block.count;
  while (atomic_load(&arrived) < target) (void)sched_yield();
  ((uint64_t *)args->tensors[0].data)[block.index] += 1;
}
static const slip_object_kernel_t kernels[] = {
    {"mix1", mix, 0, 0, 1, 1}, {"mix2", mix, 0, 0, 2, 1}, {"mix3", mix, 0, 0, 3, 1}, {"mix4", mix, 0, 0, 4, 1}, {"meet", meet, 0, 0, 1, 0}};
enum { MEET = 4 };
static const slip_object_t object = {SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, NULL, kernels, 0, 5, NULL};
static const slip__builder_limits_t limits = {.max_nodes = 100000, .max_edges = 1000000, .max_bytes = 1 << 28};

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

// A random program over cells of two boundary tensors and the heap.
typedef struct step_t {
  uint32_t count;
  uint32_t cells[4];  // the last is written
  uint64_t scalar;    // of symbolic ones: the factor of the boundary scalar
  bool symbolic;
  int predicate_cell;  // -1: none
  int64_t literal;
  uint32_t blocks;
} step_t;
typedef struct program_t {
  uint32_t count;
  step_t steps[MAX_NODES];
} program_t;

static void make_program(program_t *program, uint32_t count, uint64_t *random, bool special) {
  program->count = count;
  for (uint32_t i = 0; i < count; ++i) {
    step_t *step = &program->steps[i];
    step->count = 1 + (uint32_t)(next_random(random) >> 20) % 4;
    for (uint32_t k = 0; k < step->count; ++k) step->cells[k] = (uint32_t)(next_random(random) >> 20) % (3 * CELLS);
    for (uint32_t k = 0; k + 1 < step->count; ++k) {
      if (step->cells[k] == step->cells[step->count - 1]) step->count = 1, step->cells[0] = step->cells[k];
    }
    step->scalar = next_random(random) >> 40;
    step->symbolic = next_random(random) >> 33 & 1;
    step->predicate_cell = special && (next_random(random) >> 20) % 4 == 0 ? (int)((next_random(random) >> 20) % (3 * CELLS)) : -1;
    step->literal = (int64_t)next_random(random);
    step->blocks = 1;
  }
}

static uint64_t *cell_of(uint64_t *tensors[3], uint32_t cell) {
  return tensors[cell / CELLS] + cell % CELLS;
}

static uint64_t run_serially(const program_t *program, uint64_t *tensors[3], uint64_t scalar) {
  uint64_t ran = 0;
  for (uint32_t i = 0; i < program->count; ++i) {
    const step_t *step = &program->steps[i];
    if (step->predicate_cell >= 0 && (int64_t)*cell_of(tensors, (uint32_t)step->predicate_cell) >= step->literal) continue;
    uint64_t sum = step->symbolic ? scalar * step->scalar + 1 : step->scalar;
    for (uint32_t k = 0; k + 1 < step->count; ++k) sum += *cell_of(tensors, step->cells[k]);
    uint64_t *to = cell_of(tensors, step->cells[step->count - 1]);
    *to = *to * 31 + sum;
    ++ran;
  }
  return ran;
}

static slip__definition_tensor_t cell_tensor(uint32_t cell) {
  slip__definition_tensor_t t = {.offset = cell % CELLS * 8, .base = cell / CELLS, .dtype = SLIP_DTYPE_I64, .rank = 1};
  for (int i = 0; i < SLIP_MAX_RANK; ++i) t.dims[i] = 1;
  t.strides[0] = 1;
  if (t.base == 2) t.base = SLIP__BASE_HEAP;
  return t;
}

static slip__definition_t *build(const program_t *program, uint32_t lanes) {
  slip__builder_t *builder;
  SLIP_CHECK_OK(slip__builder_create(slip_allocator_system(), &limits, 2, 1, &builder));
  slip__builder_set_heap(builder, CELLS * 8);
  static uint32_t writer[3 * CELLS], readers[3 * CELLS][4 * MAX_NODES], reader_count[3 * CELLS];
  for (uint32_t c = 0; c < 3 * CELLS; ++c) writer[c] = SLIP__NONE, reader_count[c] = 0;
  for (uint32_t i = 0; i < program->count; ++i) {
    const step_t *step = &program->steps[i];
    slip__definition_tensor_t tensors[4];
    for (uint32_t k = 0; k < step->count; ++k) tensors[k] = cell_tensor(step->cells[k]);
    slip__definition_scalar_t scalar = {.add = step->scalar, .source = SLIP__NONE};
    if (step->symbolic) scalar = (slip__definition_scalar_t){.mul = step->scalar, .add = 1, .source = 0};
    slip__definition_predicate_t predicate = {.op = SLIP_PREDICATE_LT, .dtype = SLIP_DTYPE_I64, .literal = step->literal};
    if (step->predicate_cell >= 0) {
      slip__definition_tensor_t t = cell_tensor((uint32_t)step->predicate_cell);
      predicate.offset = t.offset;
      predicate.base = t.base;
    }
    slip__builder_node_t node = {.kernel = step->count - 1,
                                 .block_count = step->blocks,
                                 .tensors = tensors,
                                 .scalars = &scalar,
                                 .predicate = step->predicate_cell >= 0 ? &predicate : NULL,
                                 .tensor_count = step->count,
                                 .scalar_count = 1};
    SLIP_CHECK_EQ(slip__builder_add(builder, &node), i);
    uint32_t written = step->cells[step->count - 1];
    for (uint32_t k = 0; k < step->count + (step->predicate_cell >= 0); ++k) {
      uint32_t cell = k < step->count ? step->cells[k] : (uint32_t)step->predicate_cell;
      if (writer[cell] != SLIP__NONE && writer[cell] != i) SLIP_CHECK(slip__builder_depend(builder, writer[cell]));
      if (cell != written) readers[cell][reader_count[cell]++] = i;
    }
    for (uint32_t r = 0; r < reader_count[written]; ++r) SLIP_CHECK(slip__builder_depend(builder, readers[written][r]));
    writer[written] = i;
    reader_count[written] = 0;
  }
  slip__definition_t *definition;
  SLIP_CHECK_OK(slip__builder_finish(builder, lanes, &definition));
  SLIP_CHECK_OK(slip__definition_verify(definition->block));
  return definition;
}

static void fill(uint64_t *values, uint64_t seed) {
  for (uint32_t i = 0; i < CELLS; ++i) values[i] = seed * 1000003 + i * 7919;
}

// Replays |program| with two sets of addresses and several scalars, in |mode|.
static void check_program(graph_test_t *test, const program_t *program, uint32_t lanes, slip__replay_mode_e mode, int rounds) {
  slip__definition_t *definition = build(program, lanes);
  slip__replay_t *replay;
  SLIP_CHECK_OK(slip__replay_create(test->engine, definition, &object, &replay));
  slip__definition_release(definition);
  const int64_t dims[1] = {CELLS};
  uint64_t heap[CELLS] = {0};  // what the last replay left in the replay's heap
  memset(replay->heap, 0, sizeof(heap));
  for (int round = 0; round < rounds; ++round) {
    uint64_t data[4][CELLS], expected[2][CELLS];
    int set = round / 2 % 2;
    for (int i = 0; i < 2; ++i) {
      fill(data[2 * set + i], (uint64_t)round * 2 + (uint64_t)i);
      memcpy(expected[i], data[2 * set + i], sizeof(expected[i]));
    }
    slip_otensor_t tensors[2] = {graph_test_tensor(data[2 * set], SLIP_DTYPE_I64, 1, dims),
                                 graph_test_tensor(data[2 * set + 1], SLIP_DTYPE_I64, 1, dims)};
    uint64_t scalar = (uint64_t)(round / 3), *oracle[3] = {expected[0], expected[1], heap};
    slip__replay_bind(replay, tensors, &scalar);
    replay->node_ns = round & 1 ? 100 : 100000;  // with and without nodes that a thread keeps to itself
    uint64_t ran = slip__replay_run(replay, test->workspace, mode);
    SLIP_CHECK_EQ(ran, run_serially(program, oracle, scalar));
    SLIP_CHECK(memcmp(data[2 * set], expected[0], sizeof(expected[0])) == 0);
    SLIP_CHECK(memcmp(data[2 * set + 1], expected[1], sizeof(expected[1])) == 0);
    SLIP_CHECK(memcmp(replay->heap, heap, sizeof(heap)) == 0);
  }
  slip__replay_destroy(replay, test->workspace->seat);
}

SLIP_TEST(random_graphs_replay_like_the_oracle_in_every_way) {
  static program_t program;
  uint64_t random = 88172645463325252u;
  for (uint32_t threads = 1; threads <= 4; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 1 << 16, 64);
    for (int graph = 0; graph < 60; ++graph) {
      make_program(&program, 1 + (uint32_t)(next_random(&random) >> 20) % (graph % 4 ? 40 : MAX_NODES), &random, graph & 1);
      for (uint32_t mode = SLIP__REPLAY_AUTO; mode <= SLIP__REPLAY_PLANNED; ++mode) {
        check_program(&test, &program, 1 + (uint32_t)(next_random(&random) >> 20) % 5, (slip__replay_mode_e)mode, mode ? 6 : 20);
      }
    }
    graph_test_close(&test);
  }
}

// --- Blocks and gangs ---------------------------------------------------------------------------------------------------------------

// Cells 0 .. 15 by a task of 16 blocks, then a gang of all threads, then one sum.
static slip__definition_t *build_blocks(uint32_t rounds, uint32_t gang) {
  slip__builder_t *builder;
  SLIP_CHECK_OK(slip__builder_create(slip_allocator_system(), &limits, 1, 0, &builder));
  slip__definition_scalar_t scalar = {.add = 1, .source = SLIP__NONE};
  slip__definition_tensor_t whole = cell_tensor(0);
  whole.dims[0] = 16;
  for (uint32_t i = 0; i < rounds; ++i) {
    slip__builder_node_t blocks = {
        .kernel = 0, .block_count = 16, .tensors = &whole, .scalars = &scalar, .tensor_count = 1, .scalar_count = 1};
    slip__builder_node_t together = {.kernel = MEET, .block_count = gang, .flags = SLIP_SUBMIT_GANG, .tensors = &whole, .tensor_count = 1};
    slip__builder_node_t join = {.kernel = SLIP__NONE};
    uint32_t before = slip__builder_node_count(builder);
    SLIP_CHECK_EQ(slip__builder_add(builder, &blocks), before);
    if (before) SLIP_CHECK(slip__builder_depend(builder, before - 1));
    SLIP_CHECK_EQ(slip__builder_add(builder, &together), before + 1);
    SLIP_CHECK(slip__builder_depend(builder, before));
    SLIP_CHECK_EQ(slip__builder_add(builder, &join), before + 2);
    SLIP_CHECK(slip__builder_depend(builder, before + 1));
    SLIP_CHECK(slip__builder_depend(builder, before));  // goes: a path has it already
  }
  slip__definition_t *definition;
  SLIP_CHECK_OK(slip__builder_finish(builder, 2, &definition));
  SLIP_CHECK_EQ(definition->block->successor_count, 3 * rounds - 1);
  return definition;
}

SLIP_TEST(blocks_gangs_and_joins_replay) {
  const int64_t dims[1] = {CELLS};
  for (uint32_t threads = 1; threads <= 3; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 1 << 16, 64);
    slip__definition_t *definition = build_blocks(20, threads);
    slip__replay_t *replay;
    SLIP_CHECK_OK(slip__replay_create(test.engine, definition, &object, &replay));
    slip__definition_release(definition);
    for (int round = 0; round < 20; ++round) {
      uint64_t data[CELLS] = {0}, expected[CELLS] = {0};
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
      slip__replay_bind(replay, &tensor, NULL);
      SLIP_CHECK_EQ(slip__replay_run(replay, test.workspace, SLIP__REPLAY_PLANNED), 40);  // joins run no kernel
      for (int i = 0; i < 20; ++i) {
        for (uint32_t c = 0; c < 16; ++c) expected[c] = expected[c] * 31 + 1 + (c < threads);
      }
      SLIP_CHECK(memcmp(data, expected, sizeof(data)) == 0);
    }
    slip__replay_destroy(replay, test.workspace->seat);
    graph_test_close(&test);
  }
}

// --- What kernels are given ---------------------------------------------------------------------------------------------------------

static uint64_t hash_of(uint64_t hash, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) hash = (hash ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
  return hash;
}
static uint64_t hash_of_view(uint64_t hash, const int64_t *dims, const int64_t *strides, uint8_t dtype, uint8_t rank) {
  hash = hash_of(hash, dims, SLIP_MAX_RANK * sizeof(dims[0]));
  hash = hash_of(hash, strides, SLIP_MAX_RANK * sizeof(strides[0]));
  return hash_of(hash_of(hash, &dtype, 1), &rank, 1);
}
// The last tensor's element block.index += 1 if everything is as recorded; first scalar: the hash of all views, second: scratch bytes.
static void look(const slip_kargs_t *args, slip_block_t block) {
  uint64_t hash = 7;
  for (uint32_t i = 0; i < args->tensor_count; ++i) {
    const slip_ktensor_t *view = &args->tensors[i];
    hash = hash_of_view(hash, view->dims, view->strides, view->dtype, view->rank);
  }
  uint64_t *to = args->tensors[args->tensor_count - 1].data;
  to[block.index] += hash == args->scalars[0] && args->scratch_bytes == args->scalars[1] ? 1 : 1000000;
}
static const slip_object_kernel_t look_kernels[] = {{"look1", look, 0, 0, 1, 2}, {"look2", look, 0, 64, 2, 2}, {"look3", look, 0, 0, 3, 2}};
static const slip_object_t look_object = {SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, NULL, look_kernels, 0, 3, NULL};

// |shapes| kinds of tensors in turns, so that there are more forms than an instance tells apart, or few; every seventh node has blocks.
static slip__definition_t *build_looks(uint32_t count, uint32_t shapes) {
  slip__builder_t *builder;
  SLIP_CHECK_OK(slip__builder_create(slip_allocator_system(), &limits, 1, 0, &builder));
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t hash = 7;
    uint32_t tensor_count = 1 + i % 3;
    slip__definition_tensor_t tensors[3];
    for (uint32_t k = 0; k < tensor_count; ++k) {
      tensors[k] = cell_tensor(k + 1 == tensor_count ? i % CELLS : (i * 5 + k) % CELLS);
      tensors[k].dims[0] = 1 + (i * (k + 1)) % shapes;
      hash = hash_of_view(hash, tensors[k].dims, tensors[k].strides, tensors[k].dtype, tensors[k].rank);
    }
    const slip__definition_scalar_t scalars[2] = {{.add = hash, .source = SLIP__NONE},
                                                  {.add = look_kernels[tensor_count - 1].scratch_bytes, .source = SLIP__NONE}};
    const slip__builder_node_t node = {.kernel = tensor_count - 1,
                                       .block_count = i % 7 == 6 ? 2 : 1,
                                       .tensors = tensors,
                                       .scalars = scalars,
                                       .tensor_count = tensor_count,
                                       .scalar_count = 2};
    SLIP_CHECK_EQ(slip__builder_add(builder, &node), i);
    if (i) SLIP_CHECK(slip__builder_depend(builder, i - 1));  // blocks write their neighbour
  }
  slip__definition_t *definition;
  SLIP_CHECK_OK(slip__builder_finish(builder, 2, &definition));
  return definition;
}

SLIP_TEST(kernels_see_their_tensors_as_recorded) {
  const int64_t dims[1] = {CELLS + 1};
  for (uint32_t shapes = 1; shapes <= 61; shapes += 20) {
    graph_test_t test = graph_test_open(2, 64, 1 << 16, 64);
    slip__definition_t *definition = build_looks(210, shapes);
    slip__replay_t *replay;
    SLIP_CHECK_OK(slip__replay_create(test.engine, definition, &look_object, &replay));
    slip__definition_release(definition);
    for (uint32_t round = 0; round < 8; ++round) {
      uint64_t data[CELLS + 1] = {0}, expected[CELLS + 1] = {0};
      slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
      slip__replay_bind(replay, &tensor, NULL);
      SLIP_CHECK_EQ(slip__replay_run(replay, test.workspace, (slip__replay_mode_e)(round % 4)), 210);
      for (uint32_t i = 0; i < 210; ++i) {
        ++expected[i % CELLS];
        if (i % 7 == 6) ++expected[i % CELLS + 1];
      }
      SLIP_CHECK(memcmp(data, expected, sizeof(data)) == 0);
    }
    slip__replay_destroy(replay, test.workspace->seat);
    graph_test_close(&test);
  }
}

SLIP_TEST(forms_keep_an_instance_small) {
  graph_test_t test = graph_test_open(1, 64, 1 << 16, 64);
  static program_t program;
  uint64_t random = 31;
  make_program(&program, MAX_NODES, &random, false);
  slip__definition_t *definition = build(&program, 2);
  slip__replay_t *replay;
  SLIP_CHECK_OK(slip__replay_create(test.engine, definition, &object, &replay));
  for (uint32_t i = 0; i < MAX_NODES; ++i) SLIP_CHECK_EQ(replay->nodes[i].form, 0);  // one to four cells: one form
  SLIP_CHECK_EQ(replay->forms[0].tensor_count, 4);
  SLIP_CHECK(replay->bytes < (uint64_t)definition->block->tensor_count * sizeof(slip_ktensor_t));
  slip__definition_release(definition);
  slip__replay_destroy(replay, test.workspace->seat);
  graph_test_close(&test);
}

// --- Nodes that a thread keeps ------------------------------------------------------------------------------------------------------

SLIP_TEST(more_nodes_become_ready_than_a_thread_keeps) {
  static program_t program = {.count = MAX_NODES};
  const uint32_t width = 180;  // cell 0, then cells 1 .. |width| from it, then the same again, then all of them into cell 0
  for (uint32_t i = 0; i < 2 * width + 2; ++i) program.steps[i] = (step_t){.count = 2, .predicate_cell = -1, .blocks = 1, .scalar = i};
  for (uint32_t part = 0; part < 2; ++part) {
    program.steps[part * (width + 1)] = (step_t){.count = 1, .cells = {0}, .predicate_cell = -1, .blocks = 1, .scalar = part};
    for (uint32_t i = 1; i <= width; ++i) {
      program.steps[part * (width + 1) + i].cells[0] = 0;
      program.steps[part * (width + 1) + i].cells[1] = i;
    }
  }
  program.count = 2 * (width + 1);
  for (uint32_t threads = 1; threads <= 4; ++threads) {
    graph_test_t test = graph_test_open(threads, 64, 1 << 16, 64);
    check_program(&test, &program, 3, SLIP__REPLAY_DYNAMIC, 20);
    graph_test_close(&test);
  }
}

// --- The choice of the way ----------------------------------------------------------------------------------------------------------

SLIP_TEST(the_trial_of_the_ways_is_repeated) {
  static program_t program;
  uint64_t random = 5;
  make_program(&program, 20, &random, false);
  graph_test_t test = graph_test_open(2, 64, 1 << 16, 64);
  slip__definition_t *definition = build(&program, 2);
  slip__replay_t *replay;
  SLIP_CHECK_OK(slip__replay_create(test.engine, definition, &object, &replay));
  uint64_t data[2][CELLS] = {{0}}, expected[2][CELLS] = {{0}}, heap[CELLS] = {0}, *oracle[3] = {expected[0], expected[1], heap}, scalar = 3;
  const int64_t dims[1] = {CELLS};
  memset(replay->heap, 0, sizeof(heap));
  slip_otensor_t tensors[2] = {graph_test_tensor(data[0], SLIP_DTYPE_I64, 1, dims), graph_test_tensor(data[1], SLIP_DTYPE_I64, 1, dims)};
  slip__replay_bind(replay, tensors, &scalar);
  uint32_t trials = 0, chosen = 0;
  for (uint32_t round = 0; round < 2300; ++round) {
    SLIP_CHECK_EQ(slip__replay_run(replay, test.workspace, SLIP__REPLAY_AUTO), run_serially(&program, oracle, scalar));
    uint32_t mode = atomic_load(&definition->trials.mode);
    trials += chosen && !mode;  // a new one has begun
    chosen = mode;
    if (round == 14) SLIP_CHECK(mode >= SLIP__REPLAY_SERIAL && mode <= SLIP__REPLAY_PLANNED);
  }
  // After 512 replays, after 512 more, then after 512 or 1024, and so on.
  SLIP_CHECK(trials >= 3 && trials <= 5);
  SLIP_CHECK(memcmp(data, expected, sizeof(data)) == 0);
  slip__definition_release(definition);
  slip__replay_destroy(replay, test.workspace->seat);
  graph_test_close(&test);
}

// --- Two threads, one definition ----------------------------------------------------------------------------------------------------

typedef struct side_t {
  graph_test_t test;
  slip__definition_t *definition;
  const program_t *program;
  uint32_t seed;
} side_t;

static void run_side(void *user) {
  side_t *side = user;
  const int64_t dims[1] = {CELLS};
  slip__replay_t *replay;
  SLIP_CHECK_OK(slip__replay_create(side->test.engine, side->definition, &object, &replay));
  uint64_t heap[CELLS] = {0};
  memset(replay->heap, 0, sizeof(heap));
  for (uint32_t round = 0; round < 60; ++round) {
    uint64_t data[2][CELLS], expected[2][CELLS];
    for (uint32_t i = 0; i < 2; ++i) {
      fill(data[i], side->seed + round * 2 + i);
      memcpy(expected[i], data[i], sizeof(expected[i]));
    }
    slip_otensor_t tensors[2] = {graph_test_tensor(data[0], SLIP_DTYPE_I64, 1, dims), graph_test_tensor(data[1], SLIP_DTYPE_I64, 1, dims)};
    uint64_t scalar = round, *oracle[3] = {expected[0], expected[1], heap};
    slip__replay_bind(replay, tensors, &scalar);
    SLIP_CHECK_EQ(slip__replay_run(replay, side->test.workspace, (slip__replay_mode_e)(round % 4)),
                  run_serially(side->program, oracle, scalar));
    SLIP_CHECK(memcmp(data, expected, sizeof(data)) == 0);
  }
  slip__replay_destroy(replay, side->test.workspace->seat);
}

SLIP_TEST(two_threads_replay_one_definition_at_once) {
  static program_t program;
  uint64_t random = 4711;
  graph_test_t test = graph_test_open(3, 64, 1 << 16, 64);
  slip__workspace_options_t options = graph_test_options(64, 1 << 16, 64);
  make_program(&program, 200, &random, true);
  side_t sides[2] = {{.test = test, .program = &program, .seed = 1}, {.test = test, .program = &program, .seed = 1000}};
  sides[0].definition = sides[1].definition = build(&program, 3);
  SLIP_CHECK_OK(slip__workspace_create(test.engine, &options, &sides[1].test.workspace));
  slip__thread_t thread;
  SLIP_CHECK_OK(slip__thread_start(&thread, "side", run_side, &sides[1]));
  run_side(&sides[0]);
  slip__thread_join(&thread);
  slip__definition_release(sides[0].definition);
  slip__workspace_destroy(sides[1].test.workspace);
  graph_test_close(&test);
}

// --- Refusals -----------------------------------------------------------------------------------------------------------------------

SLIP_TEST(a_definition_that_was_touched_is_refused) {
  static program_t program;
  uint64_t random = 99;
  make_program(&program, 30, &random, false);
  graph_test_t test = graph_test_open(1, 64, 1 << 16, 64);
  slip__definition_t *definition = build(&program, 2);
  slip__replay_t *replay;
  uint8_t *bytes = (uint8_t *)definition->block;
  for (uint64_t at = 0; at < definition->block->bytes; at += 37) {
    if (at >= 8 && at < 16) continue;  // its size: a larger one would be read past its end
    bytes[at] ^= 4;
    SLIP_CHECK_CODE(slip__replay_create(test.engine, definition, &object, &replay), SLIP_CODE_CORRUPT);
    bytes[at] ^= 4;
  }
  slip_object_t other = object;
  other.kernel_count = 1;
  SLIP_CHECK_CODE(slip__replay_create(test.engine, definition, &other, &replay), SLIP_CODE_INCOMPATIBLE);
  slip__definition_release(definition);
  graph_test_close(&test);
}

SLIP_TEST(a_builder_stops_at_its_limits) {
  const slip__builder_limits_t small = {.max_nodes = 3, .max_edges = 1, .max_bytes = 1 << 20};
  slip__builder_t *builder;
  slip__builder_node_t join = {.kernel = SLIP__NONE};
  SLIP_CHECK_OK(slip__builder_create(slip_allocator_system(), &small, 0, 0, &builder));
  for (uint32_t i = 0; i < 3; ++i) SLIP_CHECK_EQ(slip__builder_add(builder, &join), i);
  SLIP_CHECK_EQ(slip__builder_add(builder, &join), SLIP__NONE);
  SLIP_CHECK(!slip__builder_depend(builder, 2));  // itself
  SLIP_CHECK(slip__builder_depend(builder, 0));
  SLIP_CHECK(!slip__builder_depend(builder, 1));
  slip__builder_destroy(builder);
}
