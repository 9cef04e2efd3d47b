// SPDX-License-Identifier: Apache-2.0
// The life of a worker: what each state allows, what it claims, how it refuses.
#include <sys/wait.h>
#include <unistd.h>

#include "program_mode/program_world_test.h"

SLIP_TEST(program_create_claims_nothing) {
  slip_worker_t *worker = NULL;
  SLIP_CHECK_OK(slip_worker_create(NULL, &worker));
  SLIP_CHECK_EQ(slip_worker_state(worker), SLIP_WORKER_NEW);
  SLIP_CHECK_EQ(slip_worker_device(worker).platform, SLIP_PLATFORM_NONE);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  SLIP_CHECK_OK(slip_worker_close(worker));
  SLIP_CHECK_EQ(slip_worker_state(worker), SLIP_WORKER_CLOSED);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  SLIP_CHECK_OK(slip_worker_destroy(worker));
  SLIP_CHECK_OK(slip_worker_create(NULL, &worker));
  SLIP_CHECK_OK(slip_worker_destroy(worker));
}

SLIP_TEST(program_create_refuses_wrong_options) {
  slip_worker_t *worker = NULL;
  struct {
    slip_worker_options_t options;
    uint64_t newer;
  } longer = {SLIP_WORKER_OPTIONS_INIT, 7};
#define SLIP_REFUSED(change, code, part)                                 \
  do {                                                                   \
    slip_worker_options_t options = SLIP_WORKER_OPTIONS_INIT;            \
    options.change;                                                      \
    SLIP_CHECK_ERROR(slip_worker_create(&options, &worker), code, part); \
    SLIP_CHECK(worker == NULL);                                          \
  } while (0)
  SLIP_REFUSED(struct_size = 8, SLIP_CODE_INVALID_ARGUMENT, "struct_size is 8");
  SLIP_REFUSED(device = -1, SLIP_CODE_INVALID_ARGUMENT, "device is -1");
  SLIP_REFUSED(flags = 64, SLIP_CODE_INVALID_ARGUMENT, "flags is 0x40");
  SLIP_REFUSED(scheduler_threads = 1, SLIP_CODE_INVALID_ARGUMENT, "SLIP_WORKER_SINGLE_THREAD");
  SLIP_REFUSED(task_window[2] = 5, SLIP_CODE_INVALID_ARGUMENT, "task_window[2] is 5");
  SLIP_REFUSED(heap_bytes[1] = 5, SLIP_CODE_INVALID_ARGUMENT, "heap_bytes[1] is 5");
  SLIP_REFUSED(dependency_pool[0] = 1, SLIP_CODE_INVALID_ARGUMENT, "dependency_pool[0] is 1");
  SLIP_REFUSED(workspace_budget_bytes = 5, SLIP_CODE_INVALID_ARGUMENT, "workspace_budget_bytes is 5");
  SLIP_REFUSED(max_callables = 1u << 20, SLIP_CODE_INVALID_ARGUMENT, "max_callables");
  SLIP_REFUSED(platform = "a name that is much longer than any platform that anybody will ever write", SLIP_CODE_INVALID_ARGUMENT,
               "platform is");
  longer.options.struct_size = sizeof(longer);
  SLIP_CHECK_ERROR(slip_worker_create(&longer.options, &worker), SLIP_CODE_INVALID_ARGUMENT, "upgrade");
  longer.newer = 0;
  SLIP_CHECK_OK(slip_worker_create(&longer.options, &worker));
  SLIP_CHECK_OK(slip_worker_destroy(worker));
  slip_worker_options_t both = SLIP_WORKER_OPTIONS_INIT;
  both.flags = SLIP_WORKER_SINGLE_THREAD;
  both.scheduler_threads = 2;
  SLIP_CHECK_ERROR(slip_worker_create(&both, &worker), SLIP_CODE_INVALID_ARGUMENT, "leave it 0");
}

SLIP_TEST(program_null_is_refused) {
  slip_worker_t *worker = NULL;
  slip_tensor_t tensor;
  void *memory = NULL;
  slip_worker_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_CODE(slip_worker_create(NULL, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_open(NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_close(NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_worker_destroy(NULL));
  SLIP_CHECK_EQ(slip_worker_state(NULL), SLIP_WORKER_NEW);
  SLIP_CHECK_CODE(slip_worker_allocate(NULL, 1, &memory), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_free(NULL, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_copy(NULL, NULL, NULL, 0, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_stats(NULL, &stats), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_run_wait(NULL, -1), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_run_error(NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_run_result(NULL, 0, &tensor), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK(!slip_run_done(NULL));
  SLIP_CHECK_EQ(slip_run_result_count(NULL), 0);
  slip_run_release(NULL);
  slip_run_retain(NULL);
  SLIP_CHECK_OK(slip_worker_create(NULL, &worker));
  SLIP_CHECK_CODE(slip_worker_allocate(worker, 1, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_register(worker, (slip_const_bytes_t){NULL, 0}, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_submit(worker, 0, NULL, 0, 0, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_stats(worker, NULL), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);  // none of them opened it
  SLIP_CHECK_OK(slip_worker_destroy(worker));
}

SLIP_PROGRAM_TEST(opens_and_closes) {
  slip_worker_t *worker = world->worker;
  SLIP_CHECK_OK(slip_worker_open(worker));
  SLIP_CHECK_OK(slip_worker_open(worker));
  SLIP_CHECK_EQ(slip_worker_state(worker), SLIP_WORKER_READY);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_PROGRAM);
  SLIP_CHECK_EQ(slip_worker_device(worker).platform, world->place == SLIP_PROGRAM_CPU ? SLIP_PLATFORM_CPU : SLIP_PLATFORM_SIM);
  SLIP_CHECK_ERROR(slip_worker_destroy(worker), SLIP_CODE_INVALID_STATE, "READY");
  SLIP_CHECK_EQ(slip_program_stats(worker).threads, 1);
  SLIP_CHECK_OK(slip_worker_close(worker));
  SLIP_CHECK_OK(slip_worker_close(worker));
  SLIP_CHECK_EQ(slip_worker_state(worker), SLIP_WORKER_CLOSED);
  SLIP_CHECK_ERROR(slip_worker_open(worker), SLIP_CODE_INVALID_STATE, "CLOSED");
}

// Every call that needs a worker, on one that is gone.
SLIP_PROGRAM_TEST(closed_is_refused) {
  slip_worker_t *worker = world->worker;
  slip_tensor_t tensor;
  slip_signature_t *signature = NULL;
  slip_run_t *run = NULL;
  slip_worker_stats_t stats = {.struct_size = sizeof(stats)};
  void *memory = NULL;
  int32_t callable = 5;
  char byte = 0;
  SLIP_CHECK_OK(slip_worker_allocate(worker, 8, &memory));
  void *gone = memory;
  SLIP_CHECK_OK(slip_worker_close(worker));
  SLIP_CHECK_CODE(slip_worker_allocate(worker, 8, &memory), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK(memory == NULL);
  SLIP_CHECK_CODE(slip_worker_free(worker, gone), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_worker_copy(worker, gone, &byte, 1, SLIP_COPY_HOST_TO_DEVICE), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_worker_tensor_create(worker, SLIP_DTYPE_F32, 0, NULL, 0, &tensor), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_worker_register(worker, (slip_const_bytes_t){NULL, 0}, &callable), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_EQ(callable, -1);
  SLIP_CHECK_CODE(slip_worker_unregister(worker, 0), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_worker_signature(worker, 0, &signature), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_worker_submit(worker, 0, NULL, 0, 0, &run), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_worker_run(worker, 0, NULL, 0, 0, &run), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_CODE(slip_worker_stats(worker, &stats), SLIP_CODE_INVALID_STATE);
}

SLIP_PROGRAM_TEST(new_has_nothing_to_give_back) {
  char byte = 0;
  SLIP_CHECK_CODE(slip_worker_free(world->worker, &byte), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_OK(slip_worker_free(world->worker, NULL));
  SLIP_CHECK_CODE(slip_worker_unregister(world->worker, 0), SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
}

SLIP_PROGRAM_TEST(kernel_mode_is_refused_afterwards) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  options.platform = world->place == SLIP_PROGRAM_CPU ? "cpu" : "sim";
  SLIP_CHECK_OK(slip_worker_open(world->worker));
  SLIP_CHECK_ERROR(slip_context_open(&options, &context), SLIP_CODE_MODE_CONFLICT, "program mode");
  SLIP_CHECK(context == NULL);
  SLIP_CHECK_OK(slip_worker_close(world->worker));
  SLIP_CHECK_CODE(slip_context_open(&options, &context), SLIP_CODE_MODE_CONFLICT);
}

SLIP_PROGRAM_TEST(is_refused_in_kernel_mode) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  void *memory = NULL;
  options.platform = world->place == SLIP_PROGRAM_CPU ? "cpu" : "sim";
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  SLIP_CHECK_ERROR(slip_worker_allocate(world->worker, 8, &memory), SLIP_CODE_MODE_CONFLICT, "kernel mode");
  SLIP_CHECK_EQ(slip_worker_state(world->worker), SLIP_WORKER_NEW);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_KERNEL);
  SLIP_CHECK(slip_context_initialized(context));
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip_context_destroy(context));
}

SLIP_PROGRAM_TEST(open_failures_leave_it_new) {
  slip_worker_options_t options = slip_program_options(world, NULL);
  slip_worker_t *worker = NULL;
  options.platform = "nowhere";
  SLIP_CHECK_OK(slip_worker_create(&options, &worker));
  SLIP_CHECK_ERROR(slip_worker_open(worker), SLIP_CODE_NOT_FOUND, "nowhere");
  SLIP_CHECK_EQ(slip_worker_state(worker), SLIP_WORKER_NEW);
  SLIP_CHECK_OK(slip_worker_destroy(worker));
  options = slip_program_options(world, NULL);
  options.device = 77;
  SLIP_CHECK_OK(slip_worker_create(&options, &worker));
  SLIP_CHECK_ERROR(slip_worker_open(worker), SLIP_CODE_INVALID_ARGUMENT, "77");
  SLIP_CHECK_OK(slip_worker_destroy(worker));
  options.device = 0;
  options.target = "pdp-11";
  SLIP_CHECK_OK(slip_worker_create(&options, &worker));
  SLIP_CHECK_ERROR(slip_worker_open(worker), SLIP_CODE_UNSUPPORTED, "pdp-11");
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  SLIP_CHECK_OK(slip_worker_close(worker));
  SLIP_CHECK_OK(slip_worker_destroy(worker));
}

// Two on one device, each with its own memory.
SLIP_PROGRAM_TEST(workers_stand_side_by_side) {
  slip_worker_options_t options = slip_program_options(world, NULL);
  slip_worker_t *other = NULL;
  void *mine = NULL, *theirs = NULL;
  SLIP_CHECK_OK(slip_worker_create(&options, &other));
  SLIP_CHECK_OK(slip_worker_allocate(world->worker, 64, &mine));
  SLIP_CHECK_OK(slip_worker_allocate(other, 64, &theirs));
  SLIP_CHECK_CODE(slip_worker_free(other, mine), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_worker_free(world->worker, theirs), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_worker_close(other));
  SLIP_CHECK_OK(slip_worker_destroy(other));
  SLIP_CHECK_OK(slip_worker_free(world->worker, mine));
}

// A device that is not the calling thread's current one.
SLIP_TEST(program_second_device) {
  slip_program_world_t world;
  slip_worker_options_t options = SLIP_WORKER_OPTIONS_INIT;
  options.device = 1;
  slip_program_world_open(&world, SLIP_PROGRAM_CUDA, &options);
  float x[8], y[8], z[8];
  slip_program_fill(x, 8, 1, 1);
  slip_program_fill(y, 8, 10, 10);
  int32_t add = slip_program_register(world.worker, slip_fixture_add());
  slip_tensor_t tx = slip_program_host_f32(x, 8), ty = slip_program_host_f32(y, 8), tz = slip_program_host_f32(z, 8);
  slip_arg_t args[3] = {slip_arg_tensor(&tx, NULL), slip_arg_tensor(&ty, NULL), slip_arg_tensor(&tz, NULL)};
  SLIP_CHECK_EQ(slip_worker_device(world.worker).ordinal, 1);
  SLIP_CHECK_OK(slip_worker_run(world.worker, add, args, 3, SLIP_RUN_NONE, NULL));
  slip_program_expect(z, 8, 11, 11);
  slip_program_world_end(&world);
}

SLIP_PROGRAM_TEST(stats_take_any_size) {
  struct {
    slip_worker_stats_t stats;
    uint64_t newer;
  } longer = {.newer = 7};
  uint32_t shortest[2] = {4, 77};
  slip_worker_stats_t none = {.struct_size = 0};
  SLIP_CHECK_OK(slip_worker_open(world->worker));
  longer.stats.struct_size = sizeof(longer);
  SLIP_CHECK_OK(slip_worker_stats(world->worker, &longer.stats));
  SLIP_CHECK_EQ(longer.newer, 0);
  SLIP_CHECK_EQ(longer.stats.struct_size, sizeof(longer));
  SLIP_CHECK_OK(slip_worker_stats(world->worker, (slip_worker_stats_t *)(void *)shortest));
  SLIP_CHECK_EQ(shortest[1], 77);
  SLIP_CHECK_CODE(slip_worker_stats(world->worker, &none), SLIP_CODE_INVALID_ARGUMENT);
}

// A process that ends with a worker open: nothing is torn down, and one line says so.
static slip_worker_t *slip_worker_left_open;

static void slip_worker_leave_open(const int *errors) {
  (void)dup2(errors[1], 2);
  (void)close(errors[0]);
  (void)close(errors[1]);
  SLIP_CHECK_OK(slip_worker_create(NULL, &slip_worker_left_open));
  SLIP_CHECK_OK(slip_worker_open(slip_worker_left_open));
  exit(0);
}

SLIP_TEST(program_exit_tells_of_an_open_worker) {
  int errors[2], state = 0;
  char text[1024];
  size_t used = 0;
  SLIP_CHECK_EQ(pipe(errors), 0);
  (void)fflush(NULL);
  pid_t child = fork();
  SLIP_CHECK(child >= 0);
  if (child == 0) slip_worker_leave_open(errors);
  (void)close(errors[1]);
  for (ssize_t got; used < sizeof(text) - 1 && (got = read(errors[0], text + used, sizeof(text) - 1 - used)) > 0;) used += (size_t)got;
  text[used] = '\0';
  (void)close(errors[0]);
  SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
  SLIP_CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0);
  const char *line = strstr(text, "slipstream: the worker of cpu:0");
  SLIP_CHECK(line && strstr(line, "was not closed before the process ended"));
  SLIP_CHECK(strstr(line + 1, "slipstream:") == NULL);
}
