// SPDX-License-Identifier: Apache-2.0
// Runs: the two call styles, results, what is refused, faults.
#include "program_mode/program_world_test.h"

typedef struct slip_run_sum_t {
  float x[8], y[8], z[8];
  slip_tensor_t tx, ty, tz;
  slip_arg_t args[3];
  int32_t add;
} slip_run_sum_t;

static void slip_run_sum(slip_program_world_t *world, slip_run_sum_t *sum) {
  slip_program_fill(sum->x, 8, 1, 1);
  slip_program_fill(sum->y, 8, 10, 10);
  slip_program_fill(sum->z, 8, -1, 0);
  sum->tx = slip_program_host_f32(sum->x, 8);
  sum->ty = slip_program_host_f32(sum->y, 8);
  sum->tz = slip_program_host_f32(sum->z, 8);
  sum->args[0] = slip_arg_tensor(&sum->tx, NULL);
  sum->args[1] = slip_arg_tensor(&sum->ty, NULL);
  sum->args[2] = slip_arg_tensor(&sum->tz, NULL);
  sum->add = slip_program_register(world->worker, slip_fixture_add());
}

SLIP_PROGRAM_TEST(run_with_host_tensors) {
  slip_run_sum_t s;
  slip_run_sum(world, &s);
  SLIP_CHECK_OK(slip_worker_run(world->worker, s.add, s.args, 3, SLIP_RUN_NONE, NULL));
  slip_program_expect(s.z, 8, 11, 11);
  slip_worker_stats_t stats = slip_program_stats(world->worker);
  SLIP_CHECK_EQ(stats.runs, 1);
  SLIP_CHECK_EQ(stats.completed, 1);
  SLIP_CHECK_EQ(stats.failed, 0);
  SLIP_CHECK_EQ(stats.memory_bytes, 0);
  SLIP_CHECK_EQ(stats.uploaded_bytes, world->place == SLIP_PROGRAM_CPU ? 0 : 2 * sizeof(s.x));
  SLIP_CHECK_EQ(stats.downloaded_bytes, world->place == SLIP_PROGRAM_CPU ? 0 : sizeof(s.z));
}

SLIP_PROGRAM_TEST(run_with_resident_tensors) {
  slip_run_sum_t s;
  slip_worker_t *w = world->worker;
  slip_tensor_t weights, sum, part;
  int64_t dims[1] = {16};
  float wide[16], back[8];
  slip_run_sum(world, &s);
  slip_program_fill(wide, 16, 100, 100);
  SLIP_CHECK_OK(slip_worker_tensor_create(w, SLIP_DTYPE_F32, 1, dims, 0, &weights));
  SLIP_CHECK_OK(slip_worker_tensor_write(w, &weights, wide, sizeof(wide)));
  dims[0] = 8;
  SLIP_CHECK_OK(slip_worker_tensor_create(w, SLIP_DTYPE_F32, 1, dims, 0, &sum));
  SLIP_CHECK_OK(slip_tensor_slice(&weights, 0, 8, 8, 1, &part));  // a view: 900, 1000, ...
  s.args[1] = slip_arg_tensor(&part, NULL);
  s.args[2] = slip_arg_tensor(&sum, NULL);
  SLIP_CHECK_OK(slip_worker_run(w, s.add, s.args, 3, SLIP_RUN_NONE, NULL));
  SLIP_CHECK_OK(slip_worker_tensor_read(w, &sum, back, sizeof(back)));
  slip_program_expect(back, 8, 901, 101);
  // In place: a range that is both input and output.
  s.args[1] = slip_arg_tensor(&sum, NULL);
  SLIP_CHECK_OK(slip_worker_run(w, s.add, s.args, 3, SLIP_RUN_NONE, NULL));
  SLIP_CHECK_OK(slip_worker_tensor_read(w, &sum, back, sizeof(back)));
  slip_program_expect(back, 8, 902, 102);
  SLIP_CHECK_OK(slip_worker_tensor_free(w, &sum));
  SLIP_CHECK_ERROR(slip_worker_run(w, s.add, s.args, 3, SLIP_RUN_NONE, NULL), SLIP_CODE_INVALID_ARGUMENT, "parameter 1 'y' (in)");
}

// The same range of the host as input and output is one range on the device too.
SLIP_PROGRAM_TEST(run_in_place_on_the_host) {
  slip_run_sum_t s;
  slip_run_sum(world, &s);
  s.args[2] = s.args[1];
  SLIP_CHECK_OK(slip_worker_run(world->worker, s.add, s.args, 3, SLIP_RUN_NONE, NULL));
  slip_program_expect(s.y, 8, 11, 11);
  slip_program_expect(s.z, 8, -1, 0);
  s.args[0] = s.args[1];
  SLIP_CHECK_OK(slip_worker_run(world->worker, s.add, s.args, 3, SLIP_RUN_NONE, NULL));
  slip_program_expect(s.y, 8, 22, 22);
}

SLIP_PROGRAM_TEST(run_returns_what_was_omitted) {
  slip_run_sum_t s;
  slip_worker_t *w = world->worker;
  slip_run_t *run = NULL;
  slip_tensor_t result, again, input;
  float back[8];
  slip_run_sum(world, &s);
  s.args[2] = slip_arg_omitted();
  SLIP_CHECK_OK(slip_worker_run(w, s.add, s.args, 3, SLIP_RUN_NONE, &run));
  SLIP_CHECK(slip_run_done(run));
  SLIP_CHECK_EQ(slip_run_result_count(run), 1);
  SLIP_CHECK_OK(slip_run_result(run, 0, &result));
  SLIP_CHECK_EQ(result.flags, SLIP_TENSOR_WORKER_OWNED);
  SLIP_CHECK_EQ(result.dims[0], 8);
  SLIP_CHECK_OK(slip_worker_tensor_read(w, &result, back, sizeof(back)));
  slip_program_expect(back, 8, 11, 11);
  SLIP_CHECK_ERROR(slip_run_result(run, 1, &again), SLIP_CODE_INVALID_ARGUMENT, "result 1");
  SLIP_CHECK_ERROR(slip_run_tensor(run, 3, &again), SLIP_CODE_INVALID_ARGUMENT, "parameter 3");
  SLIP_CHECK_OK(slip_run_tensor(run, 0, &input));
  SLIP_CHECK(input.data == s.x);
  SLIP_CHECK_ERROR(slip_worker_tensor_free(w, &result), SLIP_CODE_INVALID_ARGUMENT, "run still holds");
  // It serves as an argument of the next run while the first one holds it.
  s.args[1] = slip_arg_tensor(&result, NULL);
  s.args[2] = slip_arg_tensor(&s.tz, NULL);
  SLIP_CHECK_OK(slip_worker_run(w, s.add, s.args, 3, SLIP_RUN_NONE, NULL));
  slip_program_expect(s.z, 8, 12, 12);
  SLIP_CHECK_EQ(slip_program_stats(w).allocations, 1);
  slip_run_release(run);
  SLIP_CHECK_EQ(slip_program_stats(w).allocations, 0);
  SLIP_CHECK_CODE(slip_worker_run(w, s.add, s.args, 3, SLIP_RUN_NONE, NULL), SLIP_CODE_INVALID_ARGUMENT);
}

SLIP_PROGRAM_TEST(run_results_are_taken) {
  slip_run_sum_t s;
  slip_worker_t *w = world->worker;
  slip_run_t *run = NULL;
  slip_tensor_t mine, again;
  float back[8];
  slip_run_sum(world, &s);
  s.args[2] = slip_arg_omitted();
  SLIP_CHECK_OK(slip_worker_run(w, s.add, s.args, 3, SLIP_RUN_NONE, &run));
  SLIP_CHECK_ERROR(slip_run_take(run, 0, &mine), SLIP_CODE_INVALID_STATE, "passed by the caller");
  SLIP_CHECK_EQ(mine.struct_size, 0);
  SLIP_CHECK_OK(slip_run_take(run, 2, &mine));
  SLIP_CHECK_ERROR(slip_run_take(run, 2, &again), SLIP_CODE_INVALID_STATE, "taken before");
  slip_run_release(run);
  SLIP_CHECK_OK(slip_worker_tensor_read(w, &mine, back, sizeof(back)));
  slip_program_expect(back, 8, 11, 11);
  SLIP_CHECK_OK(slip_worker_tensor_free(w, &mine));
  SLIP_CHECK_EQ(slip_program_stats(w).allocations, 0);
}

SLIP_PROGRAM_TEST(run_results_outlive_the_worker) {
  slip_run_sum_t s;
  slip_worker_t *w = world->worker;
  slip_run_t *omitted = NULL, *given = NULL;
  slip_tensor_t result;
  slip_run_sum(world, &s);
  SLIP_CHECK_OK(slip_worker_run(w, s.add, s.args, 3, SLIP_RUN_NONE, &given));
  s.args[2] = slip_arg_omitted();
  SLIP_CHECK_OK(slip_worker_run(w, s.add, s.args, 3, SLIP_RUN_NONE, &omitted));
  SLIP_CHECK_OK(slip_worker_close(w));
  SLIP_CHECK_ERROR(slip_run_result(omitted, 0, &result), SLIP_CODE_INVALID_STATE, "went with the worker");
  SLIP_CHECK_CODE(slip_run_take(omitted, 2, &result), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_OK(slip_run_result(given, 0, &result));
  SLIP_CHECK(result.data == s.z);
  SLIP_CHECK_OK(slip_run_wait(omitted, 0));
  SLIP_CHECK_OK(slip_run_error(omitted));
  SLIP_CHECK_OK(slip_worker_destroy(w));
  SLIP_CHECK_OK(slip_run_wait(given, -1));
  slip_run_release(omitted);
  slip_run_release(given);
  slip_program_world_check(world);
  slip_worker_options_t options = slip_program_options(world, NULL);
  SLIP_CHECK_OK(slip_worker_create(&options, &world->worker));
}

SLIP_PROGRAM_TEST(run_zeroes_outputs_if_asked) {
  slip_fixture_t fixture = slip_fixture_affine();
  slip_worker_t *w = world->worker;
  slip_run_t *run = NULL;
  slip_tensor_t result;
  slip_scalar_t factor, term;
  int64_t back[4];
  fixture.signature = "(out state: i64[4], in factor: i64, term: i64) -> (state, state)";
  int32_t affine = slip_program_register(w, fixture);
  SLIP_CHECK_OK(slip_scalar_from_i64(SLIP_DTYPE_I64, 5, &factor));
  SLIP_CHECK_OK(slip_scalar_from_i64(SLIP_DTYPE_I64, 7, &term));
  slip_arg_t args[3] = {slip_arg_omitted(), slip_arg_scalar(factor), slip_arg_scalar(term)};
  SLIP_CHECK_OK(slip_worker_run(w, affine, args, 3, SLIP_RUN_ZERO_OUTPUTS, &run));
  SLIP_CHECK_EQ(slip_run_result_count(run), 2);
  SLIP_CHECK_OK(slip_run_result(run, 1, &result));
  SLIP_CHECK_OK(slip_worker_tensor_read(w, &result, back, sizeof(back)));
  for (int i = 0; i < 4; ++i) SLIP_CHECK_EQ(back[i], 7);
  slip_run_release(run);
  // Nobody wants the result.
  SLIP_CHECK_OK(slip_worker_run(w, affine, args, 3, SLIP_RUN_ZERO_OUTPUTS, NULL));
  SLIP_CHECK_EQ(slip_program_stats(w).allocations, 0);
}

SLIP_PROGRAM_TEST(run_empty_tensors) {
  slip_run_sum_t s;
  slip_run_t *run = NULL;
  slip_tensor_t result;
  slip_run_sum(world, &s);
  s.tx = slip_program_host_f32(s.x, 0);
  s.ty = slip_program_host_f32(NULL, 0);
  s.args[2] = slip_arg_omitted();
  SLIP_CHECK_OK(slip_worker_run(world->worker, s.add, s.args, 3, SLIP_RUN_ZERO_OUTPUTS, &run));
  SLIP_CHECK_OK(slip_run_result(run, 0, &result));
  SLIP_CHECK_EQ(result.dims[0], 0);
  slip_run_release(run);
}

// --- refusals ----------------------------------------------------------------------------------------------------------------------------

#define SLIP_RUN_REFUSED(part) \
  SLIP_CHECK_ERROR(slip_worker_run(world->worker, s.add, s.args, 3, SLIP_RUN_NONE, NULL), SLIP_CODE_INVALID_ARGUMENT, part)

SLIP_PROGRAM_TEST(run_refuses_wrong_arguments) {
  slip_run_sum_t s;
  slip_scalar_t one;
  slip_run_t *run = NULL;
  slip_run_sum(world, &s);
  SLIP_CHECK_OK(slip_scalar_from_f64(SLIP_DTYPE_F32, 1, &one));
  SLIP_CHECK_ERROR(slip_worker_run(world->worker, s.add, s.args, 2, 0, NULL), SLIP_CODE_INVALID_ARGUMENT, "2 arguments came, expected 3");
  SLIP_CHECK_CODE(slip_worker_run(world->worker, s.add, NULL, 3, 0, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_ERROR(slip_worker_run(world->worker, s.add, s.args, 3, 64, NULL), SLIP_CODE_INVALID_ARGUMENT, "flags is 0x40");
  SLIP_CHECK_CODE(slip_worker_submit(world->worker, 77, s.args, 3, 0, &run), SLIP_CODE_NOT_PREPARED);
  SLIP_CHECK(run == NULL);
  s.args[0] = slip_arg_omitted();
  SLIP_RUN_REFUSED("parameter 0 'x' (in)");
  s.args[0] = slip_arg_scalar(one);
  SLIP_RUN_REFUSED("came a scalar");
  s.args[0] = slip_arg_tensor(NULL, NULL);
  SLIP_RUN_REFUSED("came nothing");
  s.args[0] = slip_arg_tensor(&s.tx, NULL);
  s.tx.dims[0] = 7;
  SLIP_RUN_REFUSED("parameter 1 'y' (in): dim 0");
  s.tx.dims[0] = 9;
  SLIP_RUN_REFUSED("'x'");
  s.tx.dims[0] = 8;
  s.tx.struct_size = 8;
  SLIP_RUN_REFUSED("struct_size");
  s.tx.struct_size = sizeof(s.tx);
  s.tx.flags = SLIP_TENSOR_FAKE;
  SLIP_RUN_REFUSED("fake");
  s.tx.flags = 0;
  s.tx.device.ordinal = 1;
  SLIP_RUN_REFUSED("does not own");
  s.tx.device = (slip_device_t){SLIP_PLATFORM_CUDA, 0};
  SLIP_RUN_REFUSED("cuda:0");
  s.tx.device = slip_device_cpu();
  s.tx.flags = SLIP_TENSOR_WORKER_OWNED;
  SLIP_RUN_REFUSED("parameter 0 'x' (in): expected");
  s.tx.flags = 0;
  s.tz = slip_program_host_f32(s.x + 2, 6);
  s.tx.dims[0] = s.ty.dims[0] = 6;
  SLIP_RUN_REFUSED("overlap");
  slip_worker_stats_t stats = slip_program_stats(world->worker);
  SLIP_CHECK_EQ(stats.runs, 0);
  SLIP_CHECK_EQ(stats.refused, 15);
  SLIP_CHECK_EQ(stats.memory_peak_bytes, 0);
}

// Where outputs cannot be derived the sentence names parameter and dim; where another argument is wrong, that.
SLIP_PROGRAM_TEST(run_refuses_dims_that_cannot_be_derived) {
  slip_run_sum_t s;
  slip_fixture_t named = slip_fixture_add(), anonymous = slip_fixture_add();
  slip_run_sum(world, &s);
  named.signature = "(in x: f32[N], y: f32[N], out z: f32[M]) -> (z)";
  anonymous.signature = "(in x: f32[N], y: f32[N], out z: f32[?]) -> (z)";
  int32_t add = s.add;
  s.args[2] = slip_arg_omitted();
  s.add = slip_program_register(world->worker, named);
  SLIP_RUN_REFUSED("add: parameter 2 'z' (out): omitted, but its dim 0 'M' cannot be derived");
  s.add = slip_program_register(world->worker, anonymous);
  SLIP_RUN_REFUSED("add: parameter 2 'z' (out): omitted, but dim 0 is dynamic and has no name");
  s.tx.dtype = SLIP_DTYPE_I32;
  SLIP_RUN_REFUSED("parameter 0 'x' (in): dtype differs");
  s.tx.dtype = SLIP_DTYPE_F32;
  s.tx.rank = 2;
  s.tx.dims[1] = 1;
  s.tx.strides[1] = 1;
  s.add = add;
  SLIP_RUN_REFUSED("parameter 0 'x' (in): rank differs");
}

SLIP_PROGRAM_TEST(run_outputs_that_no_device_has) {
  slip_fixture_t fixture = slip_fixture_add();
  slip_run_sum_t s;
  slip_run_t *run = NULL;
  slip_run_sum(world, &s);
  fixture.signature = "(in x: f32[N], y: f32[N], out z: f32[1000000000000000000]) -> (z)";
  s.add = slip_program_register(world->worker, fixture);
  s.args[2] = slip_arg_omitted();
  SLIP_CHECK_ERROR(slip_worker_submit(world->worker, s.add, s.args, 3, SLIP_RUN_NONE, &run), SLIP_CODE_OUT_OF_MEMORY, "'z'");
  SLIP_CHECK(run == NULL);
  SLIP_CHECK_EQ(slip_program_stats(world->worker).memory_bytes, 0);
}

static void slip_run_budget(slip_program_place_e place) {
  slip_program_world_t world;
  slip_worker_options_t options = SLIP_WORKER_OPTIONS_INIT;
  slip_run_sum_t s;
  slip_run_t *run = NULL;
  options.memory_budget_bytes = 31;
  slip_program_world_open(&world, place, &options);
  slip_run_sum(&world, &s);
  s.args[2] = slip_arg_omitted();
  SLIP_CHECK_ERROR(slip_worker_run(world.worker, s.add, s.args, 3, SLIP_RUN_NONE, &run), SLIP_CODE_OUT_OF_MEMORY, "memory_budget_bytes");
  SLIP_CHECK(run == NULL);
  slip_program_world_end(&world);
}
SLIP_TEST(program_run_budget_cpu) {
  slip_run_budget(SLIP_PROGRAM_CPU);
}
SLIP_TEST(program_run_budget_sim) {
  slip_run_budget(SLIP_PROGRAM_CUDA);
}

// --- faults ------------------------------------------------------------------------------------------------------------------------------

SLIP_PROGRAM_TEST(run_faults_end_with_the_run) {
  slip_worker_t *w = world->worker;
  int64_t state[4] = {1, 2, 3, 4};
  slip_tensor_t tensor = slip_program_host_i64(state, 4), result;
  int32_t affine = slip_program_register(w, slip_fixture_affine());
  slip_run_t *runs[2] = {NULL, NULL};
  SLIP_CHECK_ERROR(slip_program_run_affine(w, affine, &tensor, 0, -1), SLIP_CODE_GRAPH_USER_FAIL, "asked to fail");
  SLIP_CHECK_OK(slip_program_run_affine(w, affine, &tensor, 2, 1));
  SLIP_CHECK_EQ(state[3], 9);
  SLIP_CHECK_OK(slip_program_submit_affine(w, affine, &tensor, 0, -1, SLIP_RUN_NONE, &runs[0]));
  SLIP_CHECK_OK(slip_program_submit_affine(w, affine, &tensor, 2, 1, SLIP_RUN_NONE, &runs[1]));
  SLIP_CHECK_OK(slip_run_wait(runs[1], -1));
  SLIP_CHECK(slip_run_done(runs[0]));  // in order
  SLIP_CHECK_ERROR(slip_run_wait(runs[0], -1), SLIP_CODE_GRAPH_USER_FAIL, "asked to fail");
  SLIP_CHECK_ERROR(slip_run_error(runs[0]), SLIP_CODE_GRAPH_USER_FAIL, "affine");
  SLIP_CHECK_CODE(slip_run_result(runs[0], 0, &result), SLIP_CODE_GRAPH_USER_FAIL);
  SLIP_CHECK_EQ(result.struct_size, 0);
  SLIP_CHECK_OK(slip_run_result(runs[1], 0, &result));
  SLIP_CHECK_EQ(state[3], 19);
  slip_run_release(runs[0]);
  slip_run_release(runs[1]);
  slip_worker_stats_t stats = slip_program_stats(w);
  SLIP_CHECK_EQ(stats.failed, 2);
  SLIP_CHECK_EQ(stats.completed, 4);
}

// A kernel that faults: the device is as before.
SLIP_PROGRAM_TEST(run_kernel_faults_do_not_poison) {
  slip_worker_t *w = world->worker;
  int64_t state[4] = {0};
  slip_tensor_t tensor = slip_program_host_i64(state, 4);
  int32_t faults = slip_program_register(w, slip_fixture_faults());
  SLIP_CHECK_CODE(slip_program_run_affine(w, faults, &tensor, 1111, 0), SLIP_CODE_GRAPH_KERNEL_FAULT);
  SLIP_CHECK_CODE(slip_program_run_affine(w, faults, &tensor, 1105, 0), SLIP_CODE_GRAPH_INVALID_TASK);
  state[0] = 0;
  SLIP_CHECK_OK(slip_program_run_affine(w, faults, &tensor, 0, 0));
  SLIP_CHECK_EQ(state[0], 10);
}
