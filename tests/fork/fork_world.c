// SPDX-License-Identifier: Apache-2.0
#include "fork_world.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel_mode/latch.h"
#include "platform/build.h"

#define FORK_HANG_SECONDS 40

static uint64_t fork_counted;
static pthread_rwlock_t fork_rest = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;  // the forking thread must not starve

void fork_round_begin(void) {
  if (SLIP__PLATFORM_SANITIZER != 0) pthread_rwlock_rdlock(&fork_rest);
}
void fork_round_end(void) {
  if (SLIP__PLATFORM_SANITIZER != 0) pthread_rwlock_unlock(&fork_rest);
}

uint64_t fork_count(void) {
  return fork_counted;
}

slip_code_t fork_code(slip_status_t status) {
  slip_code_t code = slip_status_code(status);
  slip_status_free(status);
  return code;
}

uint32_t *fork_shared_word(void) {
  uint32_t *word = mmap(NULL, sizeof(*word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SLIP_CHECK(word != MAP_FAILED);
  return word;
}

uint32_t fork_rounds(uint32_t usual) {
  const char *given = getenv("SLIP_FORK_ROUNDS");
  uint32_t rounds = given ? (uint32_t)strtoul(given, NULL, 10) : usual;
  return rounds < usual ? rounds : usual;
}

// --- the parent --------------------------------------------------------------------------------------------------------------------------

void fork_world_open(fork_world_t *world) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_frame_t waiting = {0};
  memset(world, 0, sizeof(*world));
  options.scheduler_threads = 2;
  SLIP_CHECK_OK(slip_context_open(&options, &world->context));
  world->add = slip_fixture_prepare(world->context, slip_fixture_add());
  world->control = slip_fixture_prepare(world->context, slip_fixture_control());
  SLIP_CHECK_OK(slip_platform_find("cpu", &world->platform));
  SLIP_CHECK_OK(slip_stream_create(world->platform, 0, &world->stream));
  for (int i = 0; i < 4; ++i) world->x[i] = 1.0f + (float)i;
  for (int i = 0; i < 4; ++i) world->y[i] = 10.0f;
  slip_fixture_frame_add(&world->frame, world->context, world->add, world->x, world->y, world->z, 4);
  SLIP_CHECK_OK(slip_graph_create(world->context, &world->graph));
  SLIP_CHECK_OK(slip_graph_add(world->graph, world->add, &world->frame, NULL));
  slip_fixture_frame_control(&waiting, world->context, world->control, world->door, 3, 0);
  SLIP_CHECK_OK(slip_context_launch(world->context, world->control, &waiting, world->stream, &world->ticket));
  slip_frame_deinitialize(&waiting);
}

static void fork_world_check_sum(fork_world_t *world) {
  for (int i = 0; i < 4; ++i) SLIP_CHECK(world->z[i] == 11.0f + (float)i);
  memset(world->z, 0, sizeof(world->z));
}

void fork_world_check(fork_world_t *world) {
  SLIP_CHECK_EQ(slip_process_mode(), SLIP_MODE_KERNEL);
  SLIP_CHECK_EQ(slip_context_state(world->context), SLIP_CONTEXT_READY);
  SLIP_CHECK_CODE(slip_ticket_query(world->ticket), SLIP_CODE_NOT_READY);
  memset(world->z, 0, sizeof(world->z));
  SLIP_CHECK_OK(slip_context_launch(world->context, world->add, &world->frame, SLIP_STREAM_INLINE, NULL));
  fork_world_check_sum(world);
  SLIP_CHECK_OK(slip_graph_launch(world->graph, SLIP_STREAM_INLINE, NULL));
  fork_world_check_sum(world);
  __atomic_store_n(&world->door[1], 1, __ATOMIC_SEQ_CST);
  SLIP_CHECK_OK(slip_ticket_wait(world->ticket, -1));
  SLIP_CHECK_EQ(world->door[0], 1);
  SLIP_CHECK_EQ(world->door[3], 3);
}

void fork_world_close(fork_world_t *world) {
  slip_ticket_release(world->ticket);
  slip_frame_deinitialize(&world->frame);
  SLIP_CHECK_OK(slip_graph_destroy(world->graph));
  SLIP_CHECK_OK(slip_context_close(world->context));
  SLIP_CHECK_OK(slip_context_destroy(world->context));
  SLIP_CHECK_OK(slip_stream_destroy(world->platform, world->stream));
}

// --- children ----------------------------------------------------------------------------------------------------------------------------

// Where it hangs, then the signal's own way.
static void fork_hangs(int signal) {
  void *frames[32];
  backtrace_symbols_fd(frames, backtrace(frames, 32), 2);
  (void)raise(signal);
}

_Noreturn static void fork_child(int (*body)(void *user), void *user, fork_end_e end, const int *errors) {
  struct sigaction action = {.sa_handler = fork_hangs, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
  (void)sigaction(SIGALRM, &action, NULL);
  (void)alarm(FORK_HANG_SECONDS);
  (void)dup2(errors[1], 2);
  (void)close(errors[0]);
  (void)close(errors[1]);
  int code = body(user);
  // At exit the address sanitizer looks for leaks in threads that are not here, and says so.
  if (code == 0 && end == FORK_END_NORMALLY && SLIP__PLATFORM_SANITIZER != 1) exit(0);
  if (code == 0 && end == FORK_END_BY_EXEC) {
    (void)execl("/bin/true", "true", (char *)NULL);
    code = 99;
  }
  _exit(code);
}

void fork_run(int (*body)(void *user), void *user, fork_end_e end) {
  int errors[2], state = 0;
  char text[2048];
  size_t used = 0;
  SLIP_CHECK_EQ(pipe(errors), 0);
  (void)fflush(NULL);
  (void)backtrace((void *[1]){NULL}, 1);  // loads what it needs, which a child in trouble could not
  if (SLIP__PLATFORM_SANITIZER != 0) pthread_rwlock_wrlock(&fork_rest);
  pid_t child = fork();
  if (SLIP__PLATFORM_SANITIZER != 0 && child != 0) pthread_rwlock_unlock(&fork_rest);
  if (child == 0) (void)pthread_rwlock_init(&fork_rest, NULL);
  SLIP_CHECK(child >= 0);
  if (child == 0) fork_child(body, user, end, errors);
  ++fork_counted;
  (void)close(errors[1]);
  for (ssize_t got; used < sizeof(text) - 1 && (got = read(errors[0], text + used, sizeof(text) - 1 - used)) > 0;) used += (size_t)got;
  text[used] = '\0';
  (void)close(errors[0]);
  SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
  if (WIFSIGNALED(state) && WTERMSIG(state) == SIGALRM) slip_test_fail(__FILE__, __LINE__, "a child hangs (ending %d): %s", (int)end, text);
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0 || used != 0)
    slip_test_fail(__FILE__, __LINE__, "a child ended with state 0x%x (ending %d): %s", (unsigned)state, (int)end, text);
}

// --- every public function of context.h and graph.h: X(name, condition that holds in a forked child)

#define FORK_REFUSED(call) (fork_code(call) == SLIP_CODE_FORKED)

#define FORK_CALL_TABLE(X)                                                                                                            \
  X(slip_context_open, FORK_REFUSED(slip_context_open(NULL, &out.context)))                                                           \
  X(slip_context_state, slip_context_state(NULL) == SLIP_CONTEXT_UNINITIALIZED && slip_context_state(w->context) < 6)                 \
  X(slip_context_initialized, !slip_context_initialized(w->context))                                                                  \
  X(slip_context_generation, (slip_context_generation(w->context) != 0) == (w->context != NULL))                                      \
  X(slip_context_device, slip_context_device(w->context).ordinal == 0)                                                                \
  X(slip_context_prepare, FORK_REFUSED(slip_context_prepare(w->context, nothing, &out.id)) && out.id == -1 &&                         \
                              FORK_REFUSED(slip_context_prepare(w->context, nothing, NULL)))                                          \
  X(slip_context_prepare_artifact, FORK_REFUSED(slip_context_prepare_artifact(w->context, NULL, &out.id)) && out.id == -1 &&          \
                                       FORK_REFUSED(slip_context_prepare_artifact(w->context, NULL, NULL)))                           \
  X(slip_context_release, FORK_REFUSED(slip_context_release(w->context, w->add)))                                                     \
  X(slip_context_signature, FORK_REFUSED(slip_context_signature(w->context, w->add, &out.signature)) &&                               \
                                FORK_REFUSED(slip_context_signature(w->context, w->add, NULL)))                                       \
  X(slip_context_launch, FORK_REFUSED(slip_context_launch(w->context, w->add, &w->frame, SLIP_STREAM_INLINE, &out.ticket)) &&         \
                             FORK_REFUSED(slip_context_launch(w->context, w->add, &w->frame, w->stream, &out.ticket)))                \
  X(slip_launch, FORK_REFUSED(slip_launch(&record, &out.ticket)) && released == 1 && FORK_REFUSED(slip_launch(NULL, NULL)) &&         \
                     FORK_REFUSED(slip_launch(&shorter, NULL)) && released == 1 && FORK_REFUSED(slip_launch(&longer.record, NULL)) && \
                     released == 2)                                                                                                   \
  X(slip_ticket_wait, FORK_REFUSED(slip_ticket_wait(w->ticket, -1)))                                                                  \
  X(slip_ticket_query, FORK_REFUSED(slip_ticket_query(w->ticket)))                                                                    \
  X(slip_ticket_release, (slip_ticket_release(w->ticket), true))                                                                      \
  X(slip_context_drain, FORK_REFUSED(slip_context_drain(w->context)))                                                                 \
  X(slip_context_stats, FORK_REFUSED(slip_context_stats(w->context, &stats)))                                                         \
  X(slip_graph_create, FORK_REFUSED(slip_graph_create(w->context, &out.graph)))                                                       \
  X(slip_graph_add, FORK_REFUSED(slip_graph_add(w->graph, w->add, &w->frame, NULL)))                                                  \
  X(slip_graph_node_count, slip_graph_node_count(w->graph) == 0)                                                                      \
  X(slip_graph_bind, FORK_REFUSED(slip_graph_bind(w->graph, 0, &w->frame)))                                                           \
  X(slip_graph_launch, FORK_REFUSED(slip_graph_launch(w->graph, w->stream, &out.ticket)))                                             \
  X(slip_graph_destroy, FORK_REFUSED(slip_graph_destroy(w->graph)))                                                                   \
  X(slip_context_close, FORK_REFUSED(slip_context_close(w->context)))                                                                 \
  X(slip_context_destroy, FORK_REFUSED(slip_context_destroy(w->context)))                                                             \
  X(slip_process_mode, slip_process_mode() == SLIP_MODE_KERNEL)

typedef struct fork_outputs_t {
  slip_context_t *context;
  slip_ticket_t *ticket;
  slip_graph_t *graph;
  slip_signature_t *signature;
  int32_t id;
} fork_outputs_t;

static void fork_released(void *user) {
  ++*(uint32_t *)user;
}

int fork_everything_is_refused(void *user) {
  fork_world_t *w = user;
  fork_outputs_t out = {NULL, NULL, NULL, NULL, 7};
  uint32_t released = 0;
  slip_const_bytes_t nothing = {NULL, 0};
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  slip_launch_record_t record = {.struct_size = sizeof(record),
                                 .id = w->add,
                                 .context = w->context,
                                 .frame = &w->frame,
                                 .stream = SLIP_STREAM_INLINE,
                                 .release = fork_released,
                                 .user = &released};
  slip_launch_record_t shorter = {.struct_size = 4};
  struct {
    slip_launch_record_t record;
    uint64_t newer;
  } longer = {record, 7};
  longer.record.struct_size = sizeof(longer);
#define FORK_CALL_CHECK(name, condition)                                    \
  if (!(condition)) {                                                       \
    (void)fprintf(stderr, "%s does not refuse in a forked child\n", #name); \
    return 1;                                                               \
  }
  FORK_CALL_TABLE(FORK_CALL_CHECK)
  if (out.context || out.ticket || out.graph || out.signature) return 2;
  return fork_code(slip__latch_claim(SLIP_MODE_PROGRAM)) == SLIP_CODE_FORKED ? 0 : 3;
}

static bool fork_names_have(const char *const *names, size_t count, const char *symbol) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(names[i], symbol) == 0) return true;
  }
  return false;
}

void fork_check_symbols(const char *table, const char *const *names, size_t count, bool (*ours)(const char *symbol), uint32_t minimum) {
  char path[1024], line[256];
  uint32_t found = 0;
  (void)snprintf(path, sizeof(path), "%s", __FILE__);
  char *source = strstr(path, "tests/fork/fork_world.c");
  SLIP_CHECK(source != NULL);
  (void)snprintf(source, sizeof(path) - (size_t)(source - path), "docs/abi/slipstream.txt");
  FILE *file = fopen(path, "r");
  SLIP_CHECK(file != NULL);
  while (fgets(line, sizeof(line), file)) {
    char *end = strchr(line, ' ');
    if (end) *end = '\0';
    if (!ours(line)) continue;
    ++found;
    if (!fork_names_have(names, count, line))
      slip_test_fail(__FILE__, __LINE__, "%s is not in %s: what does it do in a forked child?", line, table);
  }
  (void)fclose(file);
  SLIP_CHECK(found >= minimum);
}

// What belongs to a context: what a child must not be able to use.
static bool fork_is_of_contexts(const char *symbol) {
  return strncmp(symbol, "slip_context_", 13) == 0 || strncmp(symbol, "slip_ticket_", 12) == 0 || strcmp(symbol, "slip_launch") == 0 ||
         (strncmp(symbol, "slip_graph_", 11) == 0 && strncmp(symbol, "slip_graph_exec_", 16) != 0);
}

void fork_check_table(void) {
  static const char *const names[] = {
#define FORK_CALL_NAME(name, condition) #name,
      FORK_CALL_TABLE(FORK_CALL_NAME)};
  fork_check_symbols("FORK_CALL_TABLE", names, sizeof(names) / sizeof(names[0]), fork_is_of_contexts, 24);
}

// --- afresh ------------------------------------------------------------------------------------------------------------------------------

static int fork_grandchild(fork_world_t *world) {
  int state = 0;
  pid_t child = fork();
  if (child == 0) _exit(fork_everything_is_refused(world));
  if (waitpid(child, &state, 0) != child || !WIFEXITED(state)) return 40;
  return WEXITSTATUS(state);
}

int fork_everything_works(void *user) {
  fork_world_t world;
  (void)user;
  if (slip_process_mode() != SLIP_MODE_UNCLAIMED) return 30;
  fork_world_open(&world);
  int code = fork_grandchild(&world);
  fork_world_check(&world);
  fork_world_close(&world);
  return code;
}

// No threads: inline launches only.
static int fork_inline_works(void) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  fork_world_t world = {.add = 0};
  float x[2] = {1, 2}, y[2] = {3, 4}, z[2] = {0, 0};
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  SLIP_CHECK_OK(slip_context_open(&options, &world.context));
  world.add = slip_fixture_prepare(world.context, slip_fixture_add());
  slip_fixture_frame_add(&world.frame, world.context, world.add, x, y, z, 2);
  SLIP_CHECK_OK(slip_context_launch(world.context, world.add, &world.frame, SLIP_STREAM_INLINE, NULL));
  SLIP_CHECK(z[0] == 4 && z[1] == 6);
  int code = fork_grandchild(&world);
  slip_frame_deinitialize(&world.frame);
  SLIP_CHECK_OK(slip_context_close(world.context));
  SLIP_CHECK_OK(slip_context_destroy(world.context));
  return code;
}

int fork_everything_works_after_threads(void *user) {
  if (slip_process_mode() != SLIP_MODE_UNCLAIMED) return 30;
  return SLIP__PLATFORM_SANITIZER == 2 ? fork_inline_works() : fork_everything_works(user);
}
