// SPDX-License-Identifier: Apache-2.0
// What a host process may expect of the engine's threads, seen from outside: by /proc, by masks, by signals.
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "os/thread.h"
#include "os/topology.h"
#include "slip_test_graph.h"

#define LANES   16
#define HOSTS   8
#define ENGINES 3

// --- The workers as the system sees them ---

typedef struct host_workers_t {
  uint32_t count, running;
  uint64_t switches;  // context switches so far
  pid_t ids[64];
} host_workers_t;

static bool host_read(const char *task, const char *name, char *buffer, size_t capacity) {
  char path[300];
  (void)snprintf(path, sizeof(path), "/proc/self/task/%s/%s", task, name);
  FILE *file = fopen(path, "re");
  size_t length = file ? fread(buffer, 1, capacity - 1, file) : 0;
  if (file) (void)fclose(file);
  buffer[length] = '\0';
  return length != 0;
}

static host_workers_t host_workers(void) {
  host_workers_t workers = {0};
  DIR *tasks = opendir("/proc/self/task");
  SLIP_CHECK(tasks != NULL);
  for (const struct dirent *task = readdir(tasks); task; task = readdir(tasks)) {
    char text[4096];
    if (!host_read(task->d_name, "comm", text, sizeof(text)) || strncmp(text, "slip-worker", 11) != 0) continue;
    if (!host_read(task->d_name, "status", text, sizeof(text))) continue;
    const char *state = strstr(text, "State:\t"), *voluntary = strstr(text, "\nvoluntary_ctxt_switches:\t"),
               *forced = strstr(text, "nonvoluntary_ctxt_switches:\t");
    SLIP_CHECK(state && voluntary && forced && workers.count < 64);
    workers.ids[workers.count++] = (pid_t)strtol(task->d_name, NULL, 10);
    workers.running += state[7] == 'R';
    workers.switches += strtoull(strchr(voluntary + 1, '\t'), NULL, 10) + strtoull(strchr(forced, '\t'), NULL, 10);
  }
  (void)closedir(tasks);
  return workers;
}

static void host_pause(long milliseconds) {
  const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  (void)nanosleep(&pause, NULL);
}

// A worker that was joined may still be listed for a moment.
static void host_close(graph_test_t *test) {
  graph_test_close(test);
  for (int i = 0; i < 20000 && host_workers().count != 0; ++i) host_pause(1);
  SLIP_CHECK_EQ(host_workers().count, 0);
}

// --- Graphs: chains side by side, blocks over all of them, a gang ---

enum { STEP, BLOCK, MEET };
static void host_step(const slip_kargs_t *args, slip_block_t block) {
  (void)block;
  int64_t *x = args->tensors[0].data;
  *x = (int64_t)((uint64_t)*x * 3 + args->scalars[0]);  // wraps
}
static void host_block(const slip_kargs_t *args, slip_block_t block) {
  ((int64_t *)args->tensors[0].data)[block.index] += block.index;
}
static void host_meet(const slip_kargs_t *args, slip_block_t block) {
  _Atomic uint32_t *met = (_Atomic uint32_t *)(uintptr_t)args->scalars[0];
  uint32_t round = atomic_fetch_add(met, 1) / block.count;
  while (atomic_load(met) < (round + 1) * block.count) (void)sched_yield();
}
static const slip_object_kernel_t host_kernels[] = {{.name = "step", .run = host_step, .tensor_count = 1, .scalar_count = 1},
                                                    {.name = "block", .run = host_block, .tensor_count = 1},
                                                    {.name = "meet", .run = host_meet, .tensor_count = 1, .scalar_count = 1}};

typedef struct host_graph_t {
  graph_test_t test;
  int64_t lanes[LANES];
  _Atomic uint32_t met;
  int64_t phases;
  int runs;
  slip__thread_t thread;
} host_graph_t;

static void host_phases(slip_orch_t *o, const slip_oargs_t *args) {
  host_graph_t *graph = graph_test_user(args);
  slip_task_builder_t task;
  for (int64_t phase = 0; phase < graph->phases; ++phase) {
    for (int64_t lane = 0; lane < LANES; ++lane) {
      slip_otensor_t one = slip_otensor_slice(o, args->tensors[0], 0, lane, 1);
      slip_task_begin(&task, STEP, 1);
      slip_task_inout(&task, &one);
      slip_task_scalar(&task, (uint64_t)phase);
      slip_task_submit(o, &task);
    }
  }
  slip_task_begin(&task, BLOCK, LANES);
  slip_task_inout(&task, &args->tensors[0]);
  slip_task_submit(o, &task);
  slip_task_begin(&task, MEET, o->api->available_cores(o, SLIP_CORE_ANY));
  slip_task_inout(&task, &args->tensors[0]);
  slip_task_scalar(&task, (uint64_t)(uintptr_t)&graph->met);
  slip_task_gang(&task);
  slip_task_submit(o, &task);
}

static void host_run(void *user) {
  host_graph_t *graph = user;
  const int64_t dims[1] = {LANES};
  slip_otensor_t tensor = graph_test_tensor(graph->lanes, SLIP_DTYPE_I64, 1, dims);
  for (int run = 0; run < graph->runs; ++run) {
    memset(graph->lanes, 0, sizeof(graph->lanes));
    SLIP_CHECK_OK(graph_test_run(&graph->test, host_kernels, 3, host_phases, &tensor, 1, graph, 0));
    int64_t expected = 0;
    for (int64_t phase = 0; phase < graph->phases; ++phase) expected = (int64_t)((uint64_t)expected * 3 + (uint64_t)phase);
    for (int64_t lane = 0; lane < LANES; ++lane) SLIP_CHECK_EQ(graph->lanes[lane], expected + lane);
  }
}

static bool host_pins;
static void host_open(host_graph_t *graph, uint32_t threads, int64_t phases, int runs) {
  slip__engine_options_t engine = {.thread_count = threads, .pin_workers = host_pins};
  slip__workspace_options_t workspace = graph_test_options(256, 4096, 1024);
  *graph = (host_graph_t){.phases = phases, .runs = runs};
  SLIP_CHECK_OK(slip__engine_create(&engine, &graph->test.engine));
  SLIP_CHECK_OK(slip__workspace_create(graph->test.engine, &workspace, &graph->test.workspace));
}

// --- Tests ---

SLIP_TEST(workers_keep_to_the_mask_of_the_caller_and_leave_it_alone) {
  uint32_t cores[1024], count = slip__topology_core_list(cores, 1024);
  cpu_set_t mask, after, workers_mask;
  CPU_ZERO(&mask);
  for (uint32_t allowed = 1; allowed <= count && allowed <= 16 && cores[allowed - 1] < CPU_SETSIZE; ++allowed) {
    host_graph_t graph;
    CPU_SET(cores[allowed - 1], &mask);
    SLIP_CHECK_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    uint32_t usable = slip__topology_usable_cores();
    SLIP_CHECK(usable >= 1 && usable <= allowed);
    host_open(&graph, 0, 20, 3);
    SLIP_CHECK_EQ(slip__engine_thread_count(graph.test.engine), usable);
    host_run(&graph);
    host_workers_t workers = host_workers();
    SLIP_CHECK_EQ(workers.count, usable - 1);
    for (uint32_t i = 0; i < workers.count; ++i) {
      SLIP_CHECK_EQ(sched_getaffinity(workers.ids[i], sizeof(workers_mask), &workers_mask), 0);
      CPU_OR(&workers_mask, &workers_mask, &mask);
      SLIP_CHECK(CPU_EQUAL(&workers_mask, &mask));
    }
    host_close(&graph.test);
    SLIP_CHECK_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
    SLIP_CHECK(CPU_EQUAL(&after, &mask));
  }
}

// On request each worker has a core of its own inside the mask, where there is one left for the caller; else all float.
SLIP_TEST(pinned_workers_have_a_core_each) {
  uint32_t cores[1024], count = slip__topology_core_list(cores, 1024);
  cpu_set_t before, after, own, taken;
  CPU_ZERO(&taken);
  SLIP_CHECK_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  host_pins = true;
  for (uint32_t threads = count > 16 ? 16 : count; threads <= count + 2; threads += 2) {
    host_graph_t graph;
    host_open(&graph, threads, 20, 3);
    host_run(&graph);
    host_workers_t workers = host_workers();
    SLIP_CHECK_EQ(workers.count, threads - 1);
    for (uint32_t i = 0; i < workers.count; ++i) {
      SLIP_CHECK_EQ(sched_getaffinity(workers.ids[i], sizeof(own), &own), 0);
      if (threads > count) SLIP_CHECK(CPU_EQUAL(&own, &before));
      if (threads > count) continue;
      SLIP_CHECK_EQ(CPU_COUNT(&own), 1);
      CPU_OR(&taken, &taken, &own);
    }
    if (threads <= count) SLIP_CHECK_EQ(CPU_COUNT(&taken), workers.count);
    CPU_ZERO(&taken);
    host_close(&graph.test);
    SLIP_CHECK_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
    SLIP_CHECK(CPU_EQUAL(&after, &before));
  }
}

SLIP_TEST(idle_workers_sleep_and_wake_for_nothing) {
  host_graph_t graph;
  host_open(&graph, 4, 50, 5);
  host_run(&graph);
  for (int i = 0; i < 1000 && host_workers().running != 0; ++i) host_pause(10);
  host_pause(100);  // a worker that was just awake may be between two looks
  host_workers_t before = host_workers();
  host_pause(300);
  host_workers_t after = host_workers();
  SLIP_CHECK_EQ(before.count, 3);
  SLIP_CHECK_EQ(before.running, 0);
  SLIP_CHECK_EQ(after.running, 0);
  SLIP_CHECK_EQ(after.switches, before.switches);
  graph_test_close(&graph.test);
}

static uint64_t host_resident_bytes(void) {
  unsigned long long total = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  SLIP_CHECK(file && fscanf(file, "%llu %llu", &total, &resident) == 2);
  (void)fclose(file);
  return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

// Stacks, scratch, rings and maps cost address space; memory only where they have been used. (A sanitizer's shadow of it is written at
// once.)
SLIP_TEST(an_engine_commits_what_it_has_used) {
  enum { THREADS = 16, SCRATCH = 1 << 20, WORKSPACES = 4 };
  slip__engine_options_t options = {.thread_count = THREADS, .scratch_bytes = SCRATCH};
  slip__workspace_options_t rings = graph_test_options(16384, 64 << 20, 65536);
  slip__workspace_t *workspaces[WORKSPACES];
  slip__engine_t *engine;
  uint64_t before = host_resident_bytes();
  SLIP_CHECK_OK(slip__engine_create(&options, &engine));
  for (int i = 0; i < WORKSPACES; ++i) SLIP_CHECK_OK(slip__workspace_create(engine, &rings, &workspaces[i]));
  uint64_t grown = host_resident_bytes() - before;
  printf("# %llu KiB for %d threads and %d workspaces\n", (unsigned long long)grown >> 10, THREADS, WORKSPACES);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  SLIP_CHECK(grown < 4u << 20);
#endif
  for (int i = 0; i < WORKSPACES; ++i) slip__workspace_destroy(workspaces[i]);
  slip__engine_destroy(engine);
}

static _Atomic bool host_stop;
static void host_never_sleeps(void *user) {
  (void)user;
  while (!atomic_load_explicit(&host_stop, memory_order_relaxed)) continue;
}

// Threads of the host on all cores, several engines at once, one of them with more workers than cores.
SLIP_TEST_TIMEOUT(graphs_end_beside_threads_that_never_sleep, 300) {
  static host_graph_t graphs[ENGINES];
  slip__thread_t hosts[HOSTS];
  uint32_t usable = slip__topology_usable_cores(), host_count = 2 * usable < HOSTS ? 2 * usable : HOSTS, expected = 0;
  for (uint32_t i = 0; i < host_count; ++i) SLIP_CHECK_OK(slip__thread_start(&hosts[i], "host", host_never_sleeps, NULL));
  for (uint32_t i = 0; i < ENGINES; ++i) {
    host_open(&graphs[i], i == 0 ? 0 : usable + i, 50, 5);
    expected += slip__engine_thread_count(graphs[i].test.engine) - 1;
  }
  for (uint32_t i = 0; i < ENGINES; ++i) SLIP_CHECK_OK(slip__thread_start(&graphs[i].thread, "caller", host_run, &graphs[i]));
  for (int i = 0; i < 20; ++i) {
    host_workers_t workers = host_workers();
    SLIP_CHECK(workers.count <= expected && workers.running <= expected);
    host_pause(1);
  }
  for (uint32_t i = 0; i < ENGINES; ++i) slip__thread_join(&graphs[i].thread);
  for (uint32_t i = 0; i < ENGINES; ++i) {
    SLIP_CHECK_EQ(atomic_load(&graphs[i].met), 5 * slip__engine_thread_count(graphs[i].test.engine));
    graph_test_close(&graphs[i].test);
  }
  atomic_store(&host_stop, true);
  for (uint32_t i = 0; i < host_count; ++i) slip__thread_join(&hosts[i]);
}

static _Atomic int host_handled;
static _Atomic pid_t host_handler_thread;
static void host_handler(int signal_number) {
  (void)signal_number;
  atomic_store(&host_handler_thread, gettid());
  atomic_fetch_add(&host_handled, 1);
}

// A signal to the process that the host's own threads block has nowhere to go; a worker that took it would run the host's handler.
SLIP_TEST(handlers_of_the_host_run_on_no_worker) {
  static const int signals[] = {SIGALRM, SIGUSR1, SIGTERM, SIGCHLD, SIGPROF};
  const int count = sizeof(signals) / sizeof(signals[0]);
  struct sigaction action = {.sa_handler = host_handler};
  sigset_t set, pending;
  host_graph_t graph;
  host_open(&graph, 3, 50, 5);
  sigemptyset(&set);
  for (int i = 0; i < count; ++i) {
    SLIP_CHECK_EQ(sigaction(signals[i], &action, NULL), 0);
    sigaddset(&set, signals[i]);
  }
  SLIP_CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
  for (int i = 0; i < count; ++i) SLIP_CHECK_EQ(kill(getpid(), signals[i]), 0);
  host_run(&graph);
  SLIP_CHECK_EQ(atomic_load(&host_handled), 0);
  SLIP_CHECK_EQ(sigpending(&pending), 0);
  for (int i = 0; i < count; ++i) SLIP_CHECK_EQ(sigismember(&pending, signals[i]), 1);
  SLIP_CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
  SLIP_CHECK_EQ(atomic_load(&host_handled), count);
  SLIP_CHECK_EQ(atomic_load(&host_handler_thread), gettid());
  graph_test_close(&graph.test);
}
