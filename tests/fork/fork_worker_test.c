// SPDX-License-Identifier: Apache-2.0
// Forks of a process in program mode: in the child every function of worker.h refuses the parent's worker and runs, at once, and the child
// may make workers of its own, or open kernel mode. The parent goes on.
#include <inttypes.h>

#include "fork_world.h"
#include "platform/build.h"
#include "slipstream/worker.h"

typedef struct fork_program_t {
  slip_worker_t *worker;
  int32_t add, control;
  void *memory;
  slip_tensor_t tensor;
  slip_run_t *run;  // waits at |door|
  int64_t door[4];
} fork_program_t;

static int32_t fork_program_register(slip_worker_t *worker, slip_fixture_t fixture) {
  int32_t callable = -1;
  fixture.image.contract = SLIP_CONTRACT_PROGRAM;
  slip_bytes_t image = slip_fixture_pack(&fixture);
  SLIP_CHECK_OK(slip_worker_register(worker, slip_fixture_bytes(image), &callable));
  slip_fixture_free(image);
  return callable;
}

static void fork_program_submit(fork_program_t *program) {
  slip_tensor_t tensor = slip_fixture_tensor(SLIP_DTYPE_I64, program->door, 4, slip_device_cpu());
  slip_scalar_t zero;
  SLIP_CHECK_OK(slip_scalar_from_i64(SLIP_DTYPE_I64, 0, &zero));
  slip_arg_t args[3] = {slip_arg_tensor(&tensor, NULL), slip_arg_scalar(zero), slip_arg_scalar(zero)};
  SLIP_CHECK_OK(slip_worker_submit(program->worker, program->control, args, 3, SLIP_RUN_NONE, &program->run));
}

static void fork_program_sum(slip_worker_t *worker, int32_t add) {
  float x[4] = {1, 2, 3, 4}, z[4] = {0};
  slip_tensor_t tx = slip_fixture_tensor(SLIP_DTYPE_F32, x, 4, slip_device_cpu()),
                tz = slip_fixture_tensor(SLIP_DTYPE_F32, z, 4, slip_device_cpu());
  slip_arg_t args[3] = {slip_arg_tensor(&tx, NULL), slip_arg_tensor(&tx, NULL), slip_arg_tensor(&tz, NULL)};
  SLIP_CHECK_OK(slip_worker_run(worker, add, args, 3, SLIP_RUN_NONE, NULL));
  for (int i = 0; i < 4; ++i) SLIP_CHECK(z[i] == 2 * x[i]);
}

static slip_worker_t *fork_program_worker(const char *platform) {
  slip_worker_options_t options = SLIP_WORKER_OPTIONS_INIT;
  slip_worker_t *worker = NULL;
  options.platform = platform;
  options.flags = SLIP_WORKER_SINGLE_THREAD;
  SLIP_CHECK_OK(slip_worker_create(&options, &worker));
  return worker;
}

// With a run that executes, on the cpu, until its door is opened.
static void fork_program_open(fork_program_t *program, const char *platform) {
  int64_t dims[1] = {4};
  *program = (fork_program_t){.worker = fork_program_worker(platform)};
  bool passes = strcmp(platform, "cpu") != 0;  // elsewhere the kernel sees a copy of the door
  program->door[1] = passes;
  program->add = fork_program_register(program->worker, slip_fixture_add());
  program->control = fork_program_register(program->worker, slip_fixture_control());
  SLIP_CHECK_OK(slip_worker_allocate(program->worker, 64, &program->memory));
  SLIP_CHECK_OK(slip_worker_tensor_create(program->worker, SLIP_DTYPE_F32, 1, dims, 0, &program->tensor));
  fork_program_submit(program);
  // A run that only passes is over before anybody forks: the sanitizers' allocators hold locks (fork_world.h).
  if (passes) SLIP_CHECK_OK(slip_run_wait(program->run, -1));
}

static void fork_program_close(fork_program_t *program) {
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_PROGRAM);
  __atomic_store_n(&program->door[1], 1, __ATOMIC_SEQ_CST);
  SLIP_CHECK_OK(slip_run_wait(program->run, -1));
  slip_run_release(program->run);
  fork_program_sum(program->worker, program->add);
  SLIP_CHECK_OK(slip_worker_free(program->worker, program->memory));
  SLIP_CHECK_OK(slip_worker_close(program->worker));
  SLIP_CHECK_OK(slip_worker_destroy(program->worker));
}

// --- every public function of worker.h: X(name, condition that holds in a forked child)

#define FORK_REFUSED(call) (fork_code(call) == SLIP_CODE_FORKED)

#define FORK_WORKER_TABLE(X)                                                                                            \
  X(slip_worker_create, own != NULL)                                                                                    \
  X(slip_worker_open, FORK_REFUSED(slip_worker_open(p->worker)))                                                        \
  X(slip_worker_state, slip_worker_state(p->worker) == SLIP_WORKER_READY)                                               \
  X(slip_worker_device, slip_worker_device(p->worker).ordinal == 0)                                                     \
  X(slip_worker_allocate, FORK_REFUSED(slip_worker_allocate(p->worker, 8, &memory)) && !memory)                         \
  X(slip_worker_free, FORK_REFUSED(slip_worker_free(p->worker, p->memory)))                                             \
  X(slip_worker_copy, FORK_REFUSED(slip_worker_copy(p->worker, p->memory, bytes, 8, SLIP_COPY_HOST_TO_DEVICE)))         \
  X(slip_worker_tensor_create, FORK_REFUSED(slip_worker_tensor_create(p->worker, SLIP_DTYPE_F32, 0, NULL, 0, &tensor))) \
  X(slip_worker_tensor_free, FORK_REFUSED(slip_worker_tensor_free(p->worker, &p->tensor)))                              \
  X(slip_worker_tensor_write, FORK_REFUSED(slip_worker_tensor_write(p->worker, &p->tensor, bytes, 16)))                 \
  X(slip_worker_tensor_read, FORK_REFUSED(slip_worker_tensor_read(p->worker, &p->tensor, bytes, 16)))                   \
  X(slip_worker_register, FORK_REFUSED(slip_worker_register(p->worker, nothing, &id)) && id == -1)                      \
  X(slip_worker_register_artifact, FORK_REFUSED(slip_worker_register_artifact(p->worker, NULL, &id)) && id == -1)       \
  X(slip_worker_unregister, FORK_REFUSED(slip_worker_unregister(p->worker, p->add)))                                    \
  X(slip_worker_signature, FORK_REFUSED(slip_worker_signature(p->worker, p->add, &signature)) && !signature)            \
  X(slip_worker_submit, FORK_REFUSED(slip_worker_submit(p->worker, p->add, NULL, 0, 0, &run)) && !run)                  \
  X(slip_worker_run, FORK_REFUSED(slip_worker_run(p->worker, p->add, NULL, 0, 0, &run)) && !run)                        \
  X(slip_worker_stats, FORK_REFUSED(slip_worker_stats(p->worker, &stats)))                                              \
  X(slip_run_retain, (slip_run_retain(p->run), true))                                                                   \
  X(slip_run_release, (slip_run_release(p->run), true))                                                                 \
  X(slip_run_done, (slip_run_done(p->run), true))                                                                       \
  X(slip_run_wait, FORK_REFUSED(slip_run_wait(p->run, -1)))                                                             \
  X(slip_run_error, FORK_REFUSED(slip_run_error(p->run)))                                                               \
  X(slip_run_result_count, slip_run_result_count(p->run) == 1)                                                          \
  X(slip_run_result, FORK_REFUSED(slip_run_result(p->run, 0, &tensor)))                                                 \
  X(slip_run_tensor, FORK_REFUSED(slip_run_tensor(p->run, 0, &tensor)))                                                 \
  X(slip_run_take, FORK_REFUSED(slip_run_take(p->run, 0, &tensor)))                                                     \
  X(slip_worker_close, FORK_REFUSED(slip_worker_close(p->worker)))                                                      \
  X(slip_worker_destroy, FORK_REFUSED(slip_worker_destroy(p->worker)))

static int fork_program_is_refused(void *user) {
  fork_program_t *p = user;
  slip_worker_t *own = fork_program_worker("cpu");
  void *memory = NULL;
  slip_tensor_t tensor;
  slip_signature_t *signature = NULL;
  slip_run_t *run = NULL;
  slip_worker_stats_t stats = {.struct_size = sizeof(stats)};
  slip_const_bytes_t nothing = {NULL, 0};
  int32_t id = 7;
  char bytes[16] = {0};
  if (slip_process_mode() != SLIP_MODE_UNCLAIMED) return 1;
#define FORK_CALL_CHECK(name, condition)                                                    \
  if (!(condition)) {                                                                       \
    (void)fprintf(stderr, "%s does not do in a forked child what the table says\n", #name); \
    return 2;                                                                               \
  }
  FORK_WORKER_TABLE(FORK_CALL_CHECK)
  return fork_code(slip_worker_destroy(own)) == SLIP_CODE_OK ? 0 : 3;
}

static bool fork_is_of_workers(const char *symbol) {
  return strncmp(symbol, "slip_worker_", 12) == 0 || strncmp(symbol, "slip_run_", 9) == 0;
}

// Each exported symbol of worker.h is in the table.
SLIP_TEST(fork_worker_table_is_complete) {
  static const char *const names[] = {
#define FORK_CALL_NAME(name, condition) #name,
      FORK_WORKER_TABLE(FORK_CALL_NAME)};
  fork_check_symbols("FORK_WORKER_TABLE", names, sizeof(names) / sizeof(names[0]), fork_is_of_workers, 29);
}

// --- afresh ------------------------------------------------------------------------------------------------------------------------------

// The thread sanitizer does not know threads that the child of a process with threads starts, and a worker has one.
static bool fork_program_may_start_threads(void) {
  return SLIP__PLATFORM_SANITIZER != 2;
}

static int fork_program_works(void *user) {
  slip_worker_t *worker = fork_program_worker(user);
  int32_t add = fork_program_register(worker, slip_fixture_add());
  fork_program_sum(worker, add);
  if (slip_process_mode() != SLIP_MODE_PROGRAM) return 1;
  SLIP_CHECK_OK(slip_worker_close(worker));
  SLIP_CHECK_OK(slip_worker_destroy(worker));
  return 0;
}

static int fork_program_opens_kernel_mode(void *user) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  (void)user;
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  if (fork_code(slip_context_open(&options, &context)) != SLIP_CODE_OK) return 1;
  if (slip_process_mode() != SLIP_MODE_KERNEL) return 2;
  return fork_code(slip_context_close(context)) == SLIP_CODE_OK && fork_code(slip_context_destroy(context)) == SLIP_CODE_OK ? 0 : 3;
}

static void fork_program_on(const char *platform) {
  fork_program_t program;
  char name[8];
  (void)snprintf(name, sizeof(name), "%s", platform);
  fork_program_open(&program, platform);
  for (int end = 0; end < FORK_END_COUNT; ++end) {
    fork_run(fork_program_is_refused, &program, (fork_end_e)end);
    fork_run(fork_program_opens_kernel_mode, NULL, (fork_end_e)end);
    if (fork_program_may_start_threads()) fork_run(fork_program_works, name, (fork_end_e)end);
  }
  fork_program_close(&program);
  printf("RESULT forks=%" PRIu64 "\n", fork_count());
}

SLIP_TEST_TIMEOUT(fork_worker_cpu, 300) {
  fork_program_on("cpu");
}

SLIP_TEST_TIMEOUT(fork_worker_sim, 300) {
  slip_platform_t *platform = NULL;
  slip_status_t status = slip_platform_find("sim", &platform);
  if (!slip_status_is_ok(status)) {
    slip_status_free(status);
    slip_test_skip("this build has no platform \"sim\"");
  }
  fork_program_on("sim");
}

// --- while threads use the worker --------------------------------------------------------------------------------------------------------

typedef struct fork_program_thread_t {
  slip__thread_t thread;
  fork_program_t *program;
  _Atomic uint32_t *stop;
} fork_program_thread_t;

static void fork_program_uses(void *user) {
  fork_program_thread_t *self = user;
  slip_worker_t *worker = self->program->worker;
  while (!atomic_load(self->stop)) {
    void *memory = NULL;
    fork_round_begin();
    fork_program_sum(worker, self->program->add);
    SLIP_CHECK_OK(slip_worker_allocate(worker, 256, &memory));
    SLIP_CHECK_OK(slip_worker_free(worker, memory));
    fork_round_end();
  }
}

SLIP_TEST_TIMEOUT(fork_worker_while_threads_use_it, 900) {
  // One alone executes its runs itself. With two, the worker's thread executes some, and goes on for a moment after a round is over.
  const int count = SLIP__PLATFORM_SANITIZER != 0 ? 1 : 2;
  fork_program_t program;
  fork_program_thread_t threads[2] = {{.thread = {0}}};
  _Atomic uint32_t stop;
  char name[] = "cpu";
  uint32_t rounds = fork_rounds(40);
  atomic_init(&stop, 0);
  fork_program_open(&program, "cpu");
  __atomic_store_n(&program.door[1], 1, __ATOMIC_SEQ_CST);
  SLIP_CHECK_OK(slip_run_wait(program.run, -1));
  for (int i = 0; i < count; ++i) {
    threads[i].program = &program;
    threads[i].stop = &stop;
    SLIP_CHECK_OK(slip__thread_start(&threads[i].thread, "user", fork_program_uses, &threads[i]));
  }
  for (uint32_t i = 0; i < rounds; ++i) {
    fork_run(fork_program_is_refused, &program, FORK_END_AT_ONCE);
    if (fork_program_may_start_threads()) fork_run(fork_program_works, name, FORK_END_AT_ONCE);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < count; ++i) slip__thread_join(&threads[i].thread);
  fork_program_close(&program);
  printf("RESULT forks=%" PRIu64 "\n", fork_count());
}
