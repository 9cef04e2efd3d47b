// SPDX-License-Identifier: Apache-2.0
// Forks while other threads are anywhere inside the library: whatever lock they hold must not matter to the child.
#include <unistd.h>

#include "fork_world.h"

#define FORK_THREADS 6

typedef struct fork_worker_t {
  slip__thread_t thread;
  fork_world_t *world;
  void (*run)(void *user);
  uint64_t rounds;
} fork_worker_t;

static _Atomic uint32_t fork_stop;

static bool fork_goes_on(fork_worker_t *worker) {
  fork_round_end();
  ++worker->rounds;
  fork_round_begin();
  return atomic_load(&fork_stop) == 0;
}

// What |run| does before, between and after its rounds is a round, too.
static void fork_work(void *user) {
  fork_worker_t *worker = user;
  fork_round_begin();
  worker->run(user);
  fork_round_end();
}

static void fork_start(fork_worker_t *workers, void (*const *bodies)(void *user), uint32_t count, fork_world_t *world) {
  atomic_store(&fork_stop, 0);
  for (uint32_t i = 0; i < count; ++i) {
    workers[i] = (fork_worker_t){.world = world, .run = bodies[i]};
    SLIP_CHECK_OK(slip__thread_start(&workers[i].thread, "worker", fork_work, &workers[i]));
  }
}

static void fork_finish(fork_worker_t *workers, uint32_t count) {
  atomic_store(&fork_stop, 1);
  for (uint32_t i = 0; i < count; ++i) {
    slip__thread_join(&workers[i].thread);
    SLIP_CHECK(workers[i].rounds > 0);
  }
}

// --- kernel mode -------------------------------------------------------------------------------------------------------------------------

static void fork_worker_launches(void *user) {
  fork_worker_t *worker = user;
  slip_frame_t frame = {0};
  float x[2] = {1, 2}, y[2] = {3, 4}, z[2];
  slip_fixture_frame_add(&frame, worker->world->context, worker->world->add, x, y, z, 2);
  while (fork_goes_on(worker))
    SLIP_CHECK_OK(slip_context_launch(worker->world->context, worker->world->add, &frame, SLIP_STREAM_INLINE, NULL));
  slip_frame_deinitialize(&frame);
}

static void fork_worker_launches_on_a_stream(void *user) {
  fork_worker_t *worker = user;
  slip_frame_t frame = {0};
  slip_stream_t stream = NULL;
  float x[2] = {1, 2}, y[2] = {3, 4}, z[2];
  slip_fixture_frame_add(&frame, worker->world->context, worker->world->add, x, y, z, 2);
  SLIP_CHECK_OK(slip_stream_create(worker->world->platform, 0, &stream));
  while (fork_goes_on(worker)) {
    slip_ticket_t *ticket = NULL;
    SLIP_CHECK_OK(slip_context_launch(worker->world->context, worker->world->add, &frame, stream, &ticket));
    if (worker->rounds % 8 == 0) SLIP_CHECK_OK(slip_ticket_wait(ticket, -1));
    slip_ticket_release(ticket);
  }
  SLIP_CHECK_OK(slip_stream_destroy(worker->world->platform, stream));
  slip_frame_deinitialize(&frame);
}

static void fork_worker_prepares(void *user) {
  fork_worker_t *worker = user;
  slip_fixture_t fixture = slip_fixture_scratch();
  slip_bytes_t image = slip_fixture_pack(&fixture);
  while (fork_goes_on(worker)) {
    int32_t id = -1;
    slip_code_t code = fork_code(slip_context_prepare(worker->world->context, slip_fixture_bytes(image), &id));
    SLIP_CHECK(code == SLIP_CODE_OK || code == SLIP_CODE_BUSY);  // the first one needs all slots for a moment
    if (code == SLIP_CODE_OK) SLIP_CHECK_OK(slip_context_release(worker->world->context, id));
  }
  slip_fixture_free(image);
}

static void fork_worker_opens(void *user) {
  fork_worker_t *worker = user;
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.scheduler_threads = 2;
  while (fork_goes_on(worker)) {
    slip_context_t *context = NULL;
    SLIP_CHECK_OK(slip_context_open(&options, &context));
    SLIP_CHECK(context == worker->world->context);
    SLIP_CHECK_OK(slip_context_destroy(context));
  }
}

static void fork_worker_asks(void *user) {
  fork_worker_t *worker = user;
  while (fork_goes_on(worker)) {
    slip_context_stats_t stats = {.struct_size = sizeof(stats)};
    slip_signature_t *signature = NULL;
    SLIP_CHECK_OK(slip_context_stats(worker->world->context, &stats));
    SLIP_CHECK_OK(slip_context_signature(worker->world->context, worker->world->add, &signature));
    slip_signature_release(signature);
    SLIP_CHECK_CODE(slip_ticket_query(worker->world->ticket), SLIP_CODE_NOT_READY);
    SLIP_CHECK_CODE(slip_ticket_wait(worker->world->ticket, 1000), SLIP_CODE_TIMEOUT);
  }
}

static void fork_worker_replays(void *user) {
  fork_worker_t *worker = user;
  slip_frame_t frame = {0};
  float x[2] = {1, 2}, y[2] = {3, 4}, z[2];
  slip_fixture_frame_add(&frame, worker->world->context, worker->world->add, x, y, z, 2);
  while (fork_goes_on(worker)) {
    slip_graph_t *graph = NULL;
    SLIP_CHECK_OK(slip_graph_create(worker->world->context, &graph));
    SLIP_CHECK_OK(slip_graph_add(graph, worker->world->add, &frame, NULL));
    SLIP_CHECK_OK(slip_graph_launch(graph, SLIP_STREAM_INLINE, NULL));
    SLIP_CHECK_OK(slip_graph_bind(graph, 0, &frame));
    SLIP_CHECK_OK(slip_graph_destroy(graph));
  }
  slip_frame_deinitialize(&frame);
}

SLIP_TEST_TIMEOUT(fork_while_threads_use_the_context, 600) {
  static void (*const bodies[FORK_THREADS])(void *) = {fork_worker_launches, fork_worker_launches_on_a_stream,
                                                       fork_worker_prepares, fork_worker_opens,
                                                       fork_worker_asks,     fork_worker_replays};
  fork_world_t world;
  fork_worker_t workers[FORK_THREADS];
  uint32_t rounds = fork_rounds(100);
  fork_world_open(&world);
  fork_start(workers, bodies, FORK_THREADS, &world);
  for (uint32_t i = 0; i < rounds; ++i) {
    // exit() would have the address sanitizer look for what only the missing threads could reach.
    fork_run(fork_everything_is_refused, &world, i % 2 ? FORK_END_BY_EXEC : FORK_END_AT_ONCE);
    usleep(i % 7 * 100);
  }
  fork_finish(workers, FORK_THREADS);
  fork_world_check(&world);
  fork_world_close(&world);
  printf("RESULT forks=%llu\n", (unsigned long long)fork_count());
}

// Threads that open and close all the time: the fork meets every state of a context.
static void fork_worker_opens_and_closes(void *user) {
  fork_worker_t *worker = user;
  while (fork_goes_on(worker)) {
    slip_context_t *context = NULL;
    slip_code_t code = fork_code(slip_context_open(NULL, &context));
    SLIP_CHECK(code == SLIP_CODE_OK || code == SLIP_CODE_BUSY);
    if (!context) continue;
    code = fork_code(slip_context_close(context));
    SLIP_CHECK(code == SLIP_CODE_OK || code == SLIP_CODE_BUSY);
    while (fork_code(slip_context_destroy(context)) == SLIP_CODE_INVALID_STATE) usleep(10);
  }
}

SLIP_TEST_TIMEOUT(fork_while_threads_open_and_close, 600) {
  static void (*const bodies[3])(void *) = {fork_worker_opens_and_closes, fork_worker_opens_and_closes, fork_worker_opens_and_closes};
  fork_world_t none = {.add = 0};
  fork_worker_t workers[3];
  slip_context_t *first = NULL;
  uint32_t rounds = fork_rounds(60);
  SLIP_CHECK_OK(slip_context_open(NULL, &first));  // the claim is made before the first fork
  SLIP_CHECK_OK(slip_context_close(first));
  SLIP_CHECK_OK(slip_context_destroy(first));
  fork_start(workers, bodies, 3, NULL);
  for (uint32_t i = 0; i < rounds; ++i) fork_run(fork_everything_is_refused, &none, i % 2 ? FORK_END_BY_EXEC : FORK_END_AT_ONCE);
  fork_finish(workers, 3);
  printf("RESULT forks=%llu\n", (unsigned long long)fork_count());
}

// --- no mode claimed ---------------------------------------------------------------------------------------------------------------------

static void fork_worker_is_refused(void *user) {
  fork_worker_t *worker = user;
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  options.target = "pdp-11";  // refused last, with the whole preflight behind it
  while (fork_goes_on(worker)) {
    slip_context_t *context = NULL;
    SLIP_CHECK_CODE(slip_context_open(&options, &context), SLIP_CODE_UNSUPPORTED);
  }
}

static void fork_nothing(void *user) {
  (void)user;
}

static void fork_worker_uses_the_platform(void *user) {
  fork_worker_t *worker = user;
  slip_platform_t *cpu = NULL;
  SLIP_CHECK_OK(slip_platform_find("cpu", &cpu));
  while (fork_goes_on(worker)) {
    slip_stream_t stream = NULL;
    void *memory = NULL;
    SLIP_CHECK_OK(slip_memory_allocate(cpu, 0, 4096, &memory));
    SLIP_CHECK_OK(slip_stream_create(cpu, 0, &stream));
    SLIP_CHECK_OK(slip_stream_enqueue_host(cpu, stream, fork_nothing, NULL));
    SLIP_CHECK_OK(slip_stream_destroy(cpu, stream));
    SLIP_CHECK_OK(slip_memory_free(cpu, 0, memory));
  }
}

static void fork_worker_makes_statuses(void *user) {
  fork_worker_t *worker = user;
  while (fork_goes_on(worker)) SLIP_CHECK_CODE(slip_context_close(NULL), SLIP_CODE_INVALID_ARGUMENT);
}

SLIP_TEST_TIMEOUT(fork_while_threads_are_refused_starts_afresh, 600) {
  static void (*const bodies[4])(void *) = {fork_worker_is_refused, fork_worker_is_refused, fork_worker_uses_the_platform,
                                            fork_worker_makes_statuses};
  fork_worker_t workers[4];
  uint32_t rounds = fork_rounds(40);
  fork_start(workers, bodies, 4, NULL);
  for (uint32_t i = 0; i < rounds; ++i) fork_run(fork_everything_works_after_threads, NULL, FORK_END_AT_ONCE);
  fork_finish(workers, 4);
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_UNCLAIMED);
  SLIP_CHECK_EQ(fork_everything_works(NULL), 0);
  printf("RESULT forks=%llu\n", (unsigned long long)fork_count());
}
