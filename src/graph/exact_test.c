// SPDX-License-Identifier: Apache-2.0
// Sentences about dependencies, each with the one task graph that would show it to be false.
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "slip_test_graph.h"

// --- What tasks do ------------------------------------------------------------------------------------------------------------------

static _Thread_local bool is_submitter;
static _Atomic uint32_t arrived;

// Takes long on a worker and no time on the submitter.
static void slow_on_workers(const slip_kargs_t *args, slip_block_t block) {
  (void)args, (void)block;
  if (!is_submitter) (void)usleep(2000);
}
// All blocks wait for each other.
static void together(const slip_kargs_t *args, slip_block_t block) {
  atomic_fetch_add(&arrived, 1);
  while (atomic_load(&arrived) < args->scalars[0] + block.count) (void)sched_yield();
}
static const slip_object_kernel_t gang_kernels[] = {{"slow", slow_on_workers, 0, 0, 1, 0}, {"together", together, 0, 0, 1, 1}};

// --- Gangs --------------------------------------------------------------------------------------------------------------------------

// The submitter sleeps in front of a full window when the gang becomes ready, and the gang needs it.
static void gang_of_all(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_builder_t task;
  uint32_t cores = o->api->available_cores(o, SLIP_CORE_ANY);
  is_submitter = true;
  for (int64_t i = 0; i < 6; ++i) {
    slip_otensor_t one = slip_otensor_slice(o, args->tensors[0], 0, i, 1);
    slip_task_begin(&task, 0, 1);
    slip_task_inout(&task, &one);
    slip_task_submit(o, &task);
  }
  slip_task_begin(&task, 1, cores);
  slip_task_inout(&task, &args->tensors[0]);
  slip_task_scalar(&task, 0);
  slip_task_gang(&task);
  slip_task_submit(o, &task);
  for (int i = 0; i < 6; ++i) {
    slip_task_begin(&task, 0, 1);
    slip_task_inout(&task, &args->tensors[0]);
    slip_task_submit(o, &task);
  }
}
SLIP_TEST(a_gang_of_all_threads_wakes_its_submitter) {
  graph_test_t test = graph_test_open(3, 8, 4096, 64);
  int64_t data[6] = {0};
  const int64_t dims[1] = {6};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  for (int round = 0; round < 30; ++round) {
    atomic_store(&arrived, 0);
    SLIP_CHECK_OK(graph_test_run(&test, gang_kernels, 2, gang_of_all, &tensor, 1, NULL, 0));
    SLIP_CHECK_EQ(atomic_load(&arrived), 3);
  }
  graph_test_close(&test);
}

// --- Who saw whom -------------------------------------------------------------------------------------------------------------------

// A probe notes which probes had ended when it began; it may take its time, or wait for others that must be able to run beside it.
static _Atomic uint64_t ended, seen[64], alone;

static void probe(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  uint64_t id = args->scalars[0], beside = args->scalars[2];
  atomic_store(&seen[id], atomic_load(&ended));
  // On the submitter, before all is submitted, nobody could come.
  for (int i = 0; i < 200000 && beside && !is_submitter && (atomic_load(&ended) & beside) != beside; ++i) (void)usleep(50);
  if (beside && !is_submitter && (atomic_load(&ended) & beside) != beside) atomic_fetch_or(&alone, UINT64_C(1) << id);
  if (args->scalars[1]) (void)usleep((useconds_t)args->scalars[1]);
  atomic_fetch_or(&ended, UINT64_C(1) << id);
}
static const slip_object_kernel_t probes[] = {{"probe0", probe, 0, 0, 0, 3},
                                              {"probe1", probe, 0, 0, 1, 3},
                                              {"probe2", probe, 0, 0, 2, 3},
                                              {"probe3", probe, 0, 0, 3, 3},
                                              {"probe8", probe, 0, 0, 8, 3}};

typedef struct probe_t {
  uint32_t id, delay_us;
  uint64_t beside;  // ids, as bits
  slip_task_t after, after_too;
  const slip_predicate_t *only_if;
} probe_t;
typedef struct use_t {
  uint32_t access;
  slip_otensor_t tensor;
} use_t;

static slip_task_t submit_probe(slip_orch_t *o, probe_t p, uint32_t count, use_t *uses) {
  slip_task_builder_t task;
  slip_task_begin(&task, count == 8 ? 4 : count, 1);
  for (uint32_t i = 0; i < count; ++i) slip_task_tensor(&task, uses[i].access, &uses[i].tensor);
  slip_task_scalar(&task, p.id);
  slip_task_scalar(&task, p.delay_us);
  slip_task_scalar(&task, p.beside);
  if (p.after) slip_task_after(&task, p.after);
  if (p.after_too) slip_task_after(&task, p.after_too);
  if (p.only_if) slip_task_if(&task, p.only_if);
  return slip_task_submit(o, &task);
}
#define PROBE(o, probe, ...) submit_probe((o), (probe_t)probe, sizeof((use_t[]){__VA_ARGS__}) / sizeof(use_t), (use_t[]){__VA_ARGS__})
#define P(...) \
  { __VA_ARGS__ }
#define READ    SLIP_ACCESS_IN
#define WRITE   SLIP_ACCESS_OUT_EXISTING
#define UPDATE  SLIP_ACCESS_INOUT
#define NO_DEP  SLIP_ACCESS_NO_DEP
#define SLOW    500
#define BIT(id) (UINT64_C(1) << (id))

static slip_otensor_t part(slip_orch_t *o, const slip_oargs_t *args, int64_t start, int64_t length) {
  return slip_otensor_slice(o, args->tensors[0], 0, start, length);
}
static bool is_after(uint32_t later, uint32_t earlier) {
  return atomic_load(&seen[later]) >> earlier & 1;
}
static bool has_ended(uint32_t id) {
  return atomic_load(&ended) >> id & 1;
}

static void (*traced)(slip_orch_t *o, const slip_oargs_t *args);
static void trace(slip_orch_t *o, const slip_oargs_t *args) {
  is_submitter = true;
  traced(o, args);
  is_submitter = false;
}

// Runs |orchestrate| on 64 values of i64, which are 0, with four threads; then |judge| looks. Twenty times.
static void expect(void (*orchestrate)(slip_orch_t *o, const slip_oargs_t *args), void (*judge)(void), uint32_t flags) {
  graph_test_t test = graph_test_open(4, 64, 4096, 256);
  const int64_t dims[1] = {64};
  traced = orchestrate;
  for (int round = 0; round < 20; ++round) {
    int64_t data[64] = {0};
    slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
    atomic_store(&ended, 0);
    atomic_store(&alone, 0);
    SLIP_CHECK_OK(graph_test_run(&test, probes, 5, trace, &tensor, 1, NULL, flags));
    SLIP_CHECK_EQ(atomic_load(&alone), 0);  // somebody was kept waiting who need not have been
    judge();
  }
  graph_test_close(&test);
}
#define ORDER(name, judgement)                                        \
  static void name##_graph(slip_orch_t *o, const slip_oargs_t *args); \
  static void name##_judge(void){judgement} SLIP_TEST(name) {         \
    expect(name##_graph, name##_judge, 0);                            \
  }                                                                   \
  static void name##_graph(slip_orch_t *o, __attribute__((unused)) const slip_oargs_t *args)

// --- Readers and writers ------------------------------------------------------------------------------------------------------------

ORDER(a_writer_waits_for_every_reader, for (uint32_t i = 0; i < 8; ++i) SLIP_CHECK(is_after(8, i));) {
  for (uint32_t i = 0; i < 8; ++i) PROBE(o, P(.id = i, .delay_us = SLOW - 50 * i), {READ, part(o, args, i, 8)});
  PROBE(o, P(.id = 8), {WRITE, part(o, args, 7, 1)});
}

ORDER(readers_run_beside_readers, SLIP_CHECK(has_ended(1));) {
  PROBE(o, P(.id = 0, .beside = BIT(1)), {READ, part(o, args, 0, 8)});
  PROBE(o, P(.id = 1), {READ, part(o, args, 0, 8)});
  PROBE(o, P(.id = 2), {READ, part(o, args, 4, 8)});
}

ORDER(an_overwrite_waits_for_readers_and_writers, SLIP_CHECK(is_after(3, 0) && is_after(3, 1) && is_after(3, 2));) {
  PROBE(o, P(.id = 0, .delay_us = SLOW), {WRITE, part(o, args, 0, 4)});
  PROBE(o, P(.id = 1, .delay_us = SLOW), {READ, part(o, args, 8, 4)});
  PROBE(o, P(.id = 2, .delay_us = SLOW), {UPDATE, part(o, args, 16, 4)});
  PROBE(o, P(.id = 3), {WRITE, part(o, args, 3, 14)});
}

ORDER(a_partial_write_leaves_the_rest_to_the_earlier_writer, SLIP_CHECK(is_after(2, 0) && is_after(3, 0) && is_after(3, 1));) {
  PROBE(o, P(.id = 0, .delay_us = SLOW), {WRITE, part(o, args, 0, 8)});
  PROBE(o, P(.id = 1, .delay_us = SLOW), {WRITE, part(o, args, 2, 2)});
  PROBE(o, P(.id = 2), {READ, part(o, args, 4, 2)});
  PROBE(o, P(.id = 3), {READ, part(o, args, 3, 2)});
}

ORDER(one_task_may_use_the_same_bytes_twice, SLIP_CHECK(is_after(1, 0) && is_after(2, 1));) {
  PROBE(o, P(.id = 0, .delay_us = SLOW), {WRITE, part(o, args, 0, 8)});
  PROBE(o, P(.id = 1, .delay_us = SLOW), {READ, part(o, args, 0, 8)}, {UPDATE, part(o, args, 4, 8)}, {READ, part(o, args, 6, 1)});
  PROBE(o, P(.id = 2), {READ, part(o, args, 11, 1)});
}

ORDER(an_empty_view_touches_nothing, SLIP_CHECK(has_ended(1));) {
  PROBE(o, P(.id = 0, .beside = BIT(1)), {UPDATE, part(o, args, 0, 64)});
  PROBE(o, P(.id = 1), {UPDATE, part(o, args, 8, 0)}, {READ, part(o, args, 64, 0)});
  PROBE(o, P(.id = 2), {READ, part(o, args, 64, 0)});
}

// What is known of a tile may be forgotten when its tasks are over: a reader that still runs is not over, though nobody has written. The
// 440 new tiles are neighbours, so that some of them come to every bucket of the map.
ORDER(many_new_tiles_do_not_displace_a_reader, SLIP_CHECK(is_after(1, 0) && is_after(2, 0) && is_after(3, 0));) {
  const int64_t dims[1] = {1000};
  slip_otensor_t bytes = slip_otensor_create(o, SLIP_DTYPE_U8, 1, dims);
  use_t uses[8];
  PROBE(o, P(.id = 4), {READ, part(o, args, 0, 1)});
  for (int64_t i = 0; i < 3; ++i) uses[i] = (use_t){READ, slip_otensor_slice(o, bytes, 0, i, 1)};
  submit_probe(o, (probe_t){.id = 0, .delay_us = 20 * SLOW}, 3, uses);
  for (int64_t first = 300; first < 740; first += 8) {
    for (int64_t i = 0; i < 8; ++i) uses[i] = (use_t){WRITE, slip_otensor_slice(o, bytes, 0, first + i, 1)};
    submit_probe(o, (probe_t){.id = 5}, 8, uses);
  }
  for (uint32_t i = 0; i < 3; ++i) PROBE(o, P(.id = 1 + i), {WRITE, slip_otensor_slice(o, bytes, 0, i, 1)});
}

// --- Shapes -------------------------------------------------------------------------------------------------------------------------

static slip_otensor_t every(slip_orch_t *o, const slip_oargs_t *args, int64_t start, int64_t step, int64_t count) {
  slip_otensor_t t = part(o, args, start, 1);
  t.view.dims[0] = count;
  t.view.strides[0] = step;
  return t;
}

ORDER(every_second_element_and_the_others_are_apart, SLIP_CHECK(is_after(3, 0) && is_after(3, 1));) {
  PROBE(o, P(.id = 0, .beside = BIT(1), .delay_us = SLOW), {UPDATE, every(o, args, 0, 2, 32)});
  PROBE(o, P(.id = 1), {UPDATE, every(o, args, 1, 2, 32)});
  PROBE(o, P(.id = 2), {UPDATE, every(o, args, 1, 4, 16)});
  PROBE(o, P(.id = 3), {UPDATE, every(o, args, 0, 3, 21)});
}

ORDER(a_reversed_view_is_the_same_bytes, SLIP_CHECK(is_after(1, 0) && is_after(2, 1));) {
  PROBE(o, P(.id = 0, .delay_us = SLOW), {WRITE, part(o, args, 8, 8)});
  PROBE(o, P(.id = 1, .delay_us = SLOW), {UPDATE, every(o, args, 15, -2, 4)});
  PROBE(o, P(.id = 2), {READ, part(o, args, 9, 1)});
}

ORDER(a_repeated_element_is_read_once_and_waited_for, SLIP_CHECK(is_after(1, 0) && is_after(2, 1));) {
  PROBE(o, P(.id = 0, .delay_us = SLOW), {WRITE, part(o, args, 8, 1)});
  PROBE(o, P(.id = 1, .delay_us = SLOW), {READ, every(o, args, 8, 0, 5)});
  PROBE(o, P(.id = 2), {WRITE, part(o, args, 8, 1)});
}

static slip_otensor_t tile5(slip_orch_t *o, const slip_oargs_t *args, uint32_t axis, int64_t start) {
  const int64_t dims[5] = {2, 2, 2, 2, 4};
  return slip_otensor_slice(o, slip_otensor_reshape(o, args->tensors[0], 5, dims), axis, start, 1);
}

ORDER(boxes_of_five_axes_are_told_apart, SLIP_CHECK(is_after(5, 0) && is_after(6, 5));) {
  PROBE(o, P(.id = 0, .beside = BIT(1) | BIT(3), .delay_us = SLOW), {UPDATE, tile5(o, args, 3, 0)});
  PROBE(o, P(.id = 1), {UPDATE, tile5(o, args, 3, 1)});
  slip_otensor_t corner = slip_otensor_slice(o, tile5(o, args, 3, 1), 4, 2, 2);
  PROBE(o, P(.id = 3), {READ, slip_otensor_transpose(o, corner, 1, 4)});
  PROBE(o, P(.id = 5, .delay_us = SLOW), {UPDATE, tile5(o, args, 4, 2)});
  PROBE(o, P(.id = 6), {READ, slip_otensor_transpose(o, tile5(o, args, 1, 1), 0, 4)});
}

ORDER(the_same_bytes_under_another_dtype_are_the_same, SLIP_CHECK(is_after(1, 0) && is_after(2, 1));) {
  slip_otensor_t bytes = part(o, args, 4, 1), halves = part(o, args, 4, 1);
  bytes.view.dtype = SLIP_DTYPE_U8;
  bytes.view.data = (char *)bytes.view.data + 7;
  halves.view.dtype = SLIP_DTYPE_F32;
  halves.view.data = (char *)halves.view.data + 4;
  PROBE(o, P(.id = 0, .delay_us = SLOW), {WRITE, part(o, args, 0, 8)});
  PROBE(o, P(.id = 1, .delay_us = SLOW, .beside = BIT(3)), {UPDATE, bytes});
  halves.view.data = (char *)halves.view.data - 4;
  PROBE(o, P(.id = 3), {UPDATE, halves});
  halves.view.data = (char *)halves.view.data + 4;
  PROBE(o, P(.id = 2), {UPDATE, halves});
}

// --- Storages -----------------------------------------------------------------------------------------------------------------------

ORDER(tensors_that_begin_apart_in_one_storage_meet, SLIP_CHECK(is_after(1, 0));) {
  const int64_t dims[1] = {8};
  slip_otensor_t other = slip_otensor_describe(SLIP_DTYPE_I64, 1, dims);
  other.view.data = (char *)args->tensors[0].view.data + 24;
  other.storage = args->tensors[0].storage;
  other.storage_bytes = args->tensors[0].storage_bytes;
  PROBE(o, P(.id = 0, .delay_us = SLOW), {WRITE, part(o, args, 0, 4)});
  PROBE(o, P(.id = 1), {READ, other});
}

ORDER(intermediates_meet_in_themselves_only, SLIP_CHECK(is_after(2, 0) && has_ended(1));) {
  const int64_t dims[1] = {8};
  slip_otensor_t a = slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims), b = slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims);
  PROBE(o, P(.id = 0, .beside = BIT(1), .delay_us = SLOW), {WRITE, a});
  PROBE(o, P(.id = 1), {WRITE, b});
  PROBE(o, P(.id = 2), {READ, slip_otensor_slice(o, a, 0, 7, 1)});
}

// The heap holds one of them: the second comes to lie where the first was read.
ORDER(memory_is_kept_while_a_task_uses_it, SLIP_CHECK(is_after(1, 0));) {
  const int64_t dims[1] = {400};
  for (uint32_t i = 0; i < 2; ++i) {
    slip_scope_begin(o, SLIP_SCOPE_AUTO);
    PROBE(o, P(.id = i, .delay_us = SLOW), {WRITE, slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims)}, {READ, part(o, args, 0, 1)});
    slip_scope_end(o);
  }
  PROBE(o, P(.id = 2), {READ, part(o, args, 0, 1)});
}

// The same, used only by tasks of a deeper scope.
ORDER(memory_is_kept_while_a_deeper_task_uses_it, SLIP_CHECK(is_after(1, 0));) {
  const int64_t dims[1] = {400};
  for (uint32_t i = 0; i < 2; ++i) {
    slip_scope_begin(o, SLIP_SCOPE_AUTO);
    slip_otensor_t made = slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims);
    slip_scope_begin(o, SLIP_SCOPE_AUTO);
    slip_scope_begin(o, SLIP_SCOPE_AUTO);
    PROBE(o, P(.id = i, .delay_us = SLOW), {WRITE, made});
    slip_scope_end(o);
    slip_scope_end(o);
    slip_scope_end(o);
  }
  PROBE(o, P(.id = 2), {READ, part(o, args, 0, 1)});
}

// --- no_dep -------------------------------------------------------------------------------------------------------------------------

ORDER(no_dep_waits_for_the_creator_alone, SLIP_CHECK(is_after(1, 0) && is_after(2, 0));) {
  const int64_t dims[1] = {8};
  use_t made[1] = {{SLIP_ACCESS_OUT, slip_otensor_describe(SLIP_DTYPE_I64, 1, dims)}};
  PROBE(o, P(.id = 3), {READ, part(o, args, 0, 1)});
  submit_probe(o, (probe_t){.id = 0, .delay_us = SLOW}, 1, made);
  PROBE(o, P(.id = 1, .beside = BIT(2) | BIT(4)), {UPDATE, made[0].tensor});
  PROBE(o, P(.id = 2), {NO_DEP, slip_otensor_slice(o, made[0].tensor, 0, 2, 2)});
  PROBE(o, P(.id = 4), {NO_DEP, made[0].tensor});
}

ORDER(nobody_waits_for_a_no_dep_argument, SLIP_CHECK(has_ended(1) && has_ended(2));) {
  PROBE(o, P(.id = 0, .beside = BIT(1) | BIT(2)), {NO_DEP, part(o, args, 0, 8)});
  PROBE(o, P(.id = 1), {WRITE, part(o, args, 0, 8)});
  PROBE(o, P(.id = 2), {READ, part(o, args, 0, 8)});
}

ORDER(no_dep_opts_one_argument_out, SLIP_CHECK(is_after(1, 0));) {
  PROBE(o, P(.id = 0, .delay_us = SLOW), {WRITE, part(o, args, 0, 8)});
  PROBE(o, P(.id = 1), {NO_DEP, part(o, args, 0, 4)}, {READ, part(o, args, 7, 1)});
}

// --- Explicit dependencies and manual scopes ----------------------------------------------------------------------------------------

ORDER(named_tasks_are_waited_for, SLIP_CHECK(is_after(2, 0) && is_after(2, 1) && is_after(3, 2) && is_after(4, 0));) {
  slip_task_t a = PROBE(o, P(.id = 0, .delay_us = SLOW), {READ, part(o, args, 0, 1)});
  slip_task_t b = PROBE(o, P(.id = 1, .delay_us = SLOW), {READ, part(o, args, 1, 1)});
  const slip_task_t both[4] = {a, b, a, 0};
  slip_task_t joined = slip_task_join(o, both, 4), nothing = slip_task_join(o, NULL, 0);
  const slip_task_t again[2] = {joined, nothing};
  slip_task_t c = PROBE(o, P(.id = 2, .delay_us = SLOW, .after = slip_task_join(o, again, 2)), {READ, part(o, args, 2, 1)});
  PROBE(o, P(.id = 3, .after = c, .after_too = c), {READ, part(o, args, 3, 1)});
  PROBE(o, P(.id = 4, .after = a, .after_too = nothing), {READ, part(o, args, 4, 1)});
}

ORDER(a_manual_scope_infers_nothing, SLIP_CHECK(is_after(3, 0) && is_after(4, 0) && is_after(4, 1) && is_after(4, 2));) {
  slip_scope_begin(o, SLIP_SCOPE_MANUAL);
  PROBE(o, P(.id = 0, .beside = BIT(1) | BIT(2), .delay_us = SLOW), {UPDATE, part(o, args, 0, 8)});
  PROBE(o, P(.id = 1), {UPDATE, part(o, args, 0, 8)});
  PROBE(o, P(.id = 2), {READ, part(o, args, 4, 8)});
  slip_scope_end(o);
  PROBE(o, P(.id = 3), {READ, part(o, args, 7, 1)});    // after the writers of the manual scope
  PROBE(o, P(.id = 4), {UPDATE, part(o, args, 4, 4)});  // and its readers
}

ORDER(a_scope_inside_a_manual_one_infers_again, SLIP_CHECK(is_after(1, 0) && is_after(2, 0) && is_after(2, 1));) {
  slip_scope_begin(o, SLIP_SCOPE_MANUAL);
  PROBE(o, P(.id = 0, .delay_us = SLOW), {UPDATE, part(o, args, 0, 8)});
  slip_scope_begin(o, SLIP_SCOPE_AUTO);
  PROBE(o, P(.id = 1, .delay_us = SLOW), {READ, part(o, args, 0, 8)});
  PROBE(o, P(.id = 2), {WRITE, part(o, args, 0, 8)});
  slip_scope_end(o);
  slip_scope_end(o);
}

ORDER(a_retired_task_is_a_satisfied_dependency, SLIP_CHECK(has_ended(1) && has_ended(2));) {
  slip_task_t first = PROBE(o, P(.id = 0), {READ, part(o, args, 0, 1)});
  for (int i = 0; i < 200; ++i) PROBE(o, P(.id = 3), {UPDATE, part(o, args, 1, 1)});  // three windows full
  PROBE(o, P(.id = 1, .after = first), {READ, part(o, args, 2, 1)});
  slip_scope_begin(o, SLIP_SCOPE_MANUAL);
  PROBE(o, P(.id = 2, .after = first, .after_too = slip_task_join(o, &first, 1)), {READ, part(o, args, 3, 1)});
  slip_scope_end(o);
}

ORDER(the_end_of_a_scope_waits_for_nobody, SLIP_CHECK(has_ended(1));) {
  slip_scope_begin(o, SLIP_SCOPE_AUTO);
  PROBE(o, P(.id = 0, .beside = BIT(1)), {UPDATE, part(o, args, 0, 1)});
  PROBE(o, P(.id = 2), {READ, part(o, args, 8, 1)});
  slip_scope_end(o);
  PROBE(o, P(.id = 1), {UPDATE, part(o, args, 1, 1)});
}

// --- Predicates ---------------------------------------------------------------------------------------------------------------------

ORDER(a_predicate_is_read_like_an_argument, SLIP_CHECK(is_after(1, 0) && is_after(2, 1));) {
  slip_otensor_t flag = part(o, args, 0, 1);
  slip_predicate_t zero = {.tensor = &flag, .literal = 0, .op = SLIP_PREDICATE_EQ};
  PROBE(o, P(.id = 0, .delay_us = SLOW), {WRITE, flag});
  PROBE(o, P(.id = 1, .delay_us = SLOW, .only_if = &zero), {READ, part(o, args, 8, 1)});
  PROBE(o, P(.id = 2), {WRITE, flag});
}

ORDER(a_false_predicate_hands_the_order_on, SLIP_CHECK(!has_ended(1) && is_after(2, 0));) {
  slip_otensor_t flag = part(o, args, 0, 1);
  slip_predicate_t one = {.tensor = &flag, .literal = 1, .op = SLIP_PREDICATE_EQ};
  PROBE(o, P(.id = 0, .delay_us = SLOW), {READ, part(o, args, 8, 1)});
  PROBE(o, P(.id = 1, .only_if = &one), {WRITE, part(o, args, 8, 1)});
  PROBE(o, P(.id = 2), {READ, part(o, args, 8, 1)});
}

// --- What is refused ----------------------------------------------------------------------------------------------------------------

static void refuse(void (*orchestrate)(slip_orch_t *o, const slip_oargs_t *args), uint32_t flags, slip_code_t code, const char *part_of) {
  graph_test_t test = graph_test_open(3, 8, 4096, 64);
  int64_t data[64] = {0};
  const int64_t dims[1] = {64};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  for (int round = 0; round < 5; ++round)
    SLIP_CHECK_ERROR(graph_test_run(&test, probes, 5, orchestrate, &tensor, 1, NULL, flags), code, part_of);
  graph_test_close(&test);
}

static slip_task_t kept_task;
static void keep_task(slip_orch_t *o, const slip_oargs_t *args) {
  for (int i = 0; i < 3; ++i) kept_task = PROBE(o, P(.id = 0), {READ, part(o, args, 0, 1)});
}
static void use_kept_task(slip_orch_t *o, const slip_oargs_t *args) {
  slip_scope_begin(o, SLIP_SCOPE_MANUAL);
  PROBE(o, P(.id = 0, .after = kept_task), {READ, part(o, args, 0, 1)});
  slip_scope_end(o);
}
static void wait_for_the_next(slip_orch_t *o, const slip_oargs_t *args) {
  slip_task_t task = PROBE(o, P(.id = 0), {READ, part(o, args, 0, 1)});
  slip_scope_begin(o, SLIP_SCOPE_MANUAL);
  PROBE(o, P(.id = 0, .after = task + 4), {READ, part(o, args, 0, 1)});  // a task that ring 0 has not had yet
  slip_scope_end(o);
}
SLIP_TEST(a_dependency_that_cannot_be_met_is_an_error) {
  refuse(wait_for_the_next, 0, SLIP_CODE_GRAPH_INVALID_TASK, "has not submitted");
  graph_test_t test = graph_test_open(3, 8, 4096, 64);
  int64_t data[64] = {0};
  const int64_t dims[1] = {64};
  slip_otensor_t tensor = graph_test_tensor(data, SLIP_DTYPE_I64, 1, dims);
  for (int round = 0; round < 5; ++round) {
    SLIP_CHECK_OK(graph_test_run(&test, probes, 5, keep_task, &tensor, 1, NULL, 0));
    SLIP_CHECK_ERROR(graph_test_run(&test, probes, 5, use_kept_task, &tensor, 1, NULL, 0), SLIP_CODE_GRAPH_INVALID_TASK,
                     "has not submitted");
  }
  graph_test_close(&test);
}

// A tensor of a scope that has ended, five scopes deep: used in each way that a tensor can be.
static int way_of_use;
static slip_otensor_t escaped(slip_orch_t *o) {
  const int64_t dims[1] = {8};
  slip_otensor_t made = {0};
  for (int i = 0; i < 5; ++i) slip_scope_begin(o, SLIP_SCOPE_AUTO);
  made = slip_otensor_create(o, SLIP_DTYPE_I64, 1, dims);
  PROBE(o, P(.id = 0), {WRITE, made});
  slip_scope_end(o);
  if (way_of_use & 1) slip_scope_begin(o, SLIP_SCOPE_AUTO);  // one as deep as the first
  return made;
}
static void use_escaped(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t made = escaped(o);
  slip_predicate_t zero = {.tensor = &made, .literal = 0, .op = SLIP_PREDICATE_EQ};
  switch (way_of_use >> 1) {
    case 0:
      PROBE(o, P(.id = 1), {READ, made});
      break;
    case 1:
      PROBE(o, P(.id = 1), {UPDATE, slip_otensor_slice(o, made, 0, 2, 2)});
      break;
    case 2:
      PROBE(o, P(.id = 1), {NO_DEP, made});
      break;
    case 3:
      PROBE(o, P(.id = 1, .only_if = &zero), {READ, part(o, args, 0, 1)});
      break;
    default:
      (void)o->api->read_element(o, &made, 0);
  }
}
SLIP_TEST(a_tensor_is_not_used_after_its_scope) {
  for (way_of_use = 0; way_of_use < 10; ++way_of_use) refuse(use_escaped, SLIP__RUN_PROGRAM, SLIP_CODE_GRAPH_STALE_TENSOR, "has ended");
}

// --- Elements -----------------------------------------------------------------------------------------------------------------------

// What the host read or wrote while a task was there.
static uint64_t host_saw[2];
static void elements(slip_orch_t *o, const slip_oargs_t *args) {
  slip_otensor_t four = part(o, args, 0, 4);
  PROBE(o, P(.id = 0, .delay_us = SLOW), {WRITE, part(o, args, 0, 2)});
  PROBE(o, P(.id = 1, .delay_us = SLOW), {READ, part(o, args, 2, 4)});
  PROBE(o, P(.id = 2, .delay_us = 20 * SLOW), {UPDATE, part(o, args, 8, 4)});
  (void)o->api->read_element(o, &four, 1);
  host_saw[0] = atomic_load(&ended);
  o->api->write_element(o, &four, 3, 1);
  host_saw[1] = atomic_load(&ended);
}
static void elements_judge(void) {
  SLIP_CHECK(host_saw[0] & BIT(0));
  SLIP_CHECK(host_saw[1] & BIT(1));
}
SLIP_TEST(the_host_waits_for_writers_and_writes_after_readers) {
  expect(elements, elements_judge, SLIP__RUN_PROGRAM);
}
