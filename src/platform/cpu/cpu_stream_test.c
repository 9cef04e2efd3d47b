// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/fault.h"
#include "os/thread.h"
#include "platform/build.h"
#include "platform/cpu/cpu.h"
#include "platform/dispatch.h"
#include "slip_test.h"
#include "slip_test_malloc.h"

static slip_platform_t *stream_cpu(void) {
  slip_platform_t *platform = NULL;
  SLIP_CHECK_OK(slip_platform_find("cpu", &platform));
  return platform;
}

static slip_stream_t stream_make(slip_platform_t *cpu) {
  slip_stream_t stream = NULL;
  SLIP_CHECK_OK(slip_stream_create(cpu, 0, &stream));
  return stream;
}

// A gate that holds a stream until it is opened.
typedef struct stream_gate_t {
  _Atomic uint32_t open;
} stream_gate_t;

static void stream_gate_pass(void *user) {
  stream_gate_t *gate = user;
  while (!atomic_load(&gate->open)) (void)slip__futex_wait(&gate->open, 0, -1);
}

static void stream_gate_open(stream_gate_t *gate) {
  atomic_store(&gate->open, 1);
  slip__futex_wake(&gate->open, INT32_MAX);
}

static void stream_count(void *user) {
  ++*(uint64_t *)user;
}

// More records than the ring holds, from several threads: all run, each thread's in its order.
typedef struct stream_producer_t {
  slip_platform_t *cpu;
  slip_stream_t stream;
  uint64_t *last;  // of this producer; touched by the stream's thread alone
  uint64_t count;
} stream_producer_t;

typedef struct stream_item_t {
  uint64_t *last;
  uint64_t number;
} stream_item_t;

static void stream_item_run(void *user) {
  stream_item_t *item = user;
  SLIP_CHECK_EQ(*item->last + 1, item->number);
  *item->last = item->number;
}

static void stream_produce(void *user) {
  stream_producer_t *producer = user;
  static _Thread_local stream_item_t items[20000];
  for (uint64_t i = 0; i < producer->count; ++i) {
    items[i] = (stream_item_t){producer->last, i + 1};
    SLIP_CHECK_OK(slip_stream_enqueue_host(producer->cpu, producer->stream, stream_item_run, &items[i]));
  }
  SLIP_CHECK_OK(slip_stream_synchronize(producer->cpu, producer->stream));
  SLIP_CHECK_EQ(*producer->last, producer->count);
}

SLIP_TEST(cpu_stream_keeps_each_producers_order_when_full) {
  slip_platform_t *cpu = stream_cpu();
  slip_stream_t stream = stream_make(cpu);
  slip__thread_t threads[4];
  stream_producer_t producers[4];
  uint64_t last[4] = {0};
  for (int i = 0; i < 4; ++i) {
    producers[i] = (stream_producer_t){cpu, stream, &last[i], 20000};
    SLIP_CHECK_OK(slip__thread_start(&threads[i], "producer", stream_produce, &producers[i]));
  }
  for (int i = 0; i < 4; ++i) slip__thread_join(&threads[i]);
  SLIP_CHECK_OK(slip_stream_destroy(cpu, stream));
}

SLIP_TEST(cpu_stream_enqueue_does_not_wait_for_the_work) {
  slip_platform_t *cpu = stream_cpu();
  slip_stream_t stream = stream_make(cpu);
  stream_gate_t gate = {0};
  uint64_t runs = 0;
  SLIP_CHECK_OK(slip_stream_query(cpu, stream));
  SLIP_CHECK_OK(slip_stream_enqueue_host(cpu, stream, stream_gate_pass, &gate));
  for (uint32_t i = 0; i < SLIP__CPU_RING - 1; ++i) SLIP_CHECK_OK(slip_stream_enqueue_host(cpu, stream, stream_count, &runs));
  SLIP_CHECK_CODE(slip_stream_query(cpu, stream), SLIP_CODE_NOT_READY);
  stream_gate_open(&gate);
  SLIP_CHECK_OK(slip_stream_destroy(cpu, stream));
  SLIP_CHECK_EQ(runs, SLIP__CPU_RING - 1);
}

typedef struct stream_reenter_t {
  slip_platform_t *cpu;
  slip_stream_t stream;
  slip_event_t event;
  uint64_t runs;
  slip_code_t synchronize, destroy, overflow, event_wait, inline_wait;
} stream_reenter_t;

static slip_code_t stream_code(slip_status_t status) {
  slip_code_t code = slip_status_code(status);
  slip_status_free(status);
  return code;
}

static void stream_reenter(void *user) {
  stream_reenter_t *state = user;
  state->synchronize = stream_code(slip_stream_synchronize(state->cpu, state->stream));
  state->destroy = stream_code(slip_stream_destroy(state->cpu, state->stream));
  SLIP_CHECK_OK(slip_event_record(state->cpu, state->event, state->stream));
  state->event_wait = stream_code(slip_event_synchronize(state->cpu, state->event));
  state->inline_wait = stream_code(slip_stream_wait_event(state->cpu, SLIP_STREAM_INLINE, state->event));
  slip_status_t status = slip_ok_status();
  while (slip_status_is_ok(status)) status = slip_stream_enqueue_host(state->cpu, state->stream, stream_count, &state->runs);
  state->overflow = stream_code(status);
}

SLIP_TEST(cpu_stream_callbacks_cannot_deadlock_their_stream) {
  stream_reenter_t state = {.cpu = stream_cpu()};
  state.stream = stream_make(state.cpu);
  SLIP_CHECK_OK(slip_event_create(state.cpu, 0, &state.event));
  SLIP_CHECK_OK(slip_stream_enqueue_host(state.cpu, state.stream, stream_reenter, &state));
  SLIP_CHECK_OK(slip_stream_synchronize(state.cpu, state.stream));
  SLIP_CHECK_OK(slip_stream_synchronize(state.cpu, state.stream));
  SLIP_CHECK_EQ(state.synchronize, SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_EQ(state.destroy, SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_EQ(state.event_wait, SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_EQ(state.inline_wait, SLIP_CODE_INVALID_STATE);
  SLIP_CHECK_EQ(state.overflow, SLIP_CODE_BUSY);
  SLIP_CHECK_EQ(state.runs, SLIP__CPU_RING);
  SLIP_CHECK_OK(slip_event_destroy(state.cpu, state.event));
  SLIP_CHECK_OK(slip_stream_destroy(state.cpu, state.stream));
}

SLIP_TEST(cpu_stream_foreign_and_stale_handles_are_told) {
  slip_platform_t *cpu = stream_cpu();
  slip_stream_t stream = stream_make(cpu);
  slip_event_t event = NULL;
  int32_t device = 5;
  int local = 0;
  SLIP_CHECK_OK(slip_event_create(cpu, 0, &event));
  void *const foreign[] = {&local, cpu, event, (char *)stream + 1, (char *)stream + (1ll << 32), (void *)(uintptr_t)2, (void *)UINTPTR_MAX};
  for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); ++i) {
    SLIP_CHECK_CODE(slip_stream_synchronize(cpu, foreign[i]), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip__platform_stream_device(cpu, foreign[i], &device), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_EQ(device, 0);
  }
  void *const no_event[] = {&local, stream, (char *)event + 2, (char *)event + (1ll << 32), (void *)UINTPTR_MAX};
  for (size_t i = 0; i < sizeof(no_event) / sizeof(no_event[0]); ++i) {
    SLIP_CHECK_CODE(slip_event_query(cpu, no_event[i]), SLIP_CODE_INVALID_ARGUMENT);
    SLIP_CHECK_CODE(slip_event_destroy(cpu, no_event[i]), SLIP_CODE_INVALID_ARGUMENT);
  }
  SLIP_CHECK_OK(slip_stream_destroy(cpu, stream));
  SLIP_CHECK_OK(slip_event_destroy(cpu, event));
  slip_stream_t next = stream_make(cpu);
  SLIP_CHECK(next != stream);
  SLIP_CHECK_CODE(slip_stream_query(cpu, stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_stream_destroy(cpu, stream), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_CODE(slip_event_record(cpu, event, next), SLIP_CODE_INVALID_ARGUMENT);
  SLIP_CHECK_OK(slip_stream_destroy(cpu, next));
}

SLIP_TEST(cpu_stream_slots_are_used_again) {
  slip_platform_t *cpu = stream_cpu();
  uint64_t runs = 0;
  slip_event_t event = NULL;
  SLIP_CHECK_OK(slip_event_create(cpu, 0, &event));
  for (int i = 0; i < 3000; ++i) {
    slip_stream_t stream = stream_make(cpu);
    SLIP_CHECK_OK(slip_stream_enqueue_host(cpu, stream, stream_count, &runs));
    SLIP_CHECK_OK(slip_event_record(cpu, event, stream));
    SLIP_CHECK_OK(slip_stream_destroy(cpu, stream));
    SLIP_CHECK_OK(slip_event_query(cpu, event));
    SLIP_CHECK_OK(slip_event_synchronize(cpu, event));
  }
  SLIP_CHECK_EQ(runs, 3000);
  SLIP_CHECK_OK(slip_event_destroy(cpu, event));
}

SLIP_TEST(cpu_stream_creation_fails_cleanly) {
  slip_platform_t *cpu = stream_cpu();
  slip_stream_t stream = &stream;
  slip__os_fault_plan_t plan = {.kinds = SLIP__OS_CALL_BIT(THREAD), .nth = 1, .error = EAGAIN};
  slip__os_fault_set(&plan);
  SLIP_CHECK_CODE(slip_stream_create(cpu, 0, &stream), SLIP_CODE_OUT_OF_MEMORY);
  SLIP_CHECK(stream == NULL);
  slip__os_fault_set(NULL);
  stream = stream_make(cpu);
  SLIP_CHECK_OK(slip_stream_destroy(cpu, stream));
}

// Pairs of streams that wait for each other's steps in turn: every increment sees the one before.
SLIP_TEST(cpu_event_orders_streams) {
  slip_platform_t *cpu = stream_cpu();
  slip_stream_t streams[3];
  slip_event_t event = NULL;
  uint64_t plain = 0;  // not atomic: only the events order it
  for (int i = 0; i < 3; ++i) streams[i] = stream_make(cpu);
  SLIP_CHECK_OK(slip_event_create(cpu, 0, &event));
  for (int i = 0; i < 6000; ++i) {
    SLIP_CHECK_OK(slip_stream_enqueue_host(cpu, streams[i % 3], stream_count, &plain));
    SLIP_CHECK_OK(slip_event_record(cpu, event, streams[i % 3]));
    SLIP_CHECK_OK(slip_stream_wait_event(cpu, streams[(i + 1) % 3], event));
  }
  SLIP_CHECK_OK(slip_event_synchronize(cpu, event));
  SLIP_CHECK_EQ(plain, 6000);
  SLIP_CHECK_OK(slip_event_destroy(cpu, event));
  for (int i = 0; i < 3; ++i) SLIP_CHECK_OK(slip_stream_destroy(cpu, streams[i]));
}

static int stream_child(slip_platform_t *cpu, slip_stream_t stream, slip_event_t event) {
  uint64_t runs = 0;
  if (stream_code(slip_stream_synchronize(cpu, stream)) != SLIP_CODE_FORKED) return 1;
  if (stream_code(slip_stream_enqueue_host(cpu, stream, stream_count, &runs)) != SLIP_CODE_FORKED) return 2;
  if (stream_code(slip_stream_destroy(cpu, stream)) != SLIP_CODE_FORKED) return 3;
  if (stream_code(slip_event_synchronize(cpu, event)) != SLIP_CODE_FORKED) return 4;
  if (stream_code(slip_stream_wait_event(cpu, SLIP_STREAM_INLINE, event)) != SLIP_CODE_FORKED) return 5;
  // The thread sanitizer cannot start threads in the child of a process that has several.
  if (SLIP__PLATFORM_SANITIZER == 2u) return 0;
  slip_stream_t own = NULL;
  if (stream_code(slip_stream_create(cpu, 0, &own)) != SLIP_CODE_OK) return 6;
  if (stream_code(slip_stream_wait_event(cpu, own, event)) != SLIP_CODE_FORKED) return 7;
  if (stream_code(slip_stream_enqueue_host(cpu, own, stream_count, &runs)) != SLIP_CODE_OK) return 8;
  if (stream_code(slip_stream_destroy(cpu, own)) != SLIP_CODE_OK || runs != 1) return 9;
  return 0;
}

SLIP_TEST(cpu_stream_of_the_parent_does_not_hang_the_child) {
  slip_platform_t *cpu = stream_cpu();
  slip_stream_t stream = stream_make(cpu);
  slip_event_t event = NULL;
  stream_gate_t gate = {0};
  SLIP_CHECK_OK(slip_event_create(cpu, 0, &event));
  SLIP_CHECK_OK(slip_stream_enqueue_host(cpu, stream, stream_gate_pass, &gate));
  SLIP_CHECK_OK(slip_event_record(cpu, event, stream));
  pid_t child = fork();
  if (child == 0) _exit(stream_child(cpu, stream, event));
  int state = -1;
  SLIP_CHECK_EQ(waitpid(child, &state, 0), child);
  SLIP_CHECK_EQ(WEXITSTATUS(state), 0);
  stream_gate_open(&gate);
  SLIP_CHECK_OK(slip_stream_destroy(cpu, stream));
  SLIP_CHECK_OK(slip_event_destroy(cpu, event));
}

SLIP_TEST(cpu_stream_enqueue_and_query_allocate_nothing) {
  if (!slip_test_malloc_works()) slip_test_skip("allocations are counted in builds without sanitizers");
  slip_platform_t *cpu = stream_cpu();
  slip_stream_t stream = stream_make(cpu);
  slip_event_t event = NULL;
  stream_gate_t gate = {0};
  uint64_t runs = 0, other = 0;
  SLIP_CHECK_OK(slip_event_create(cpu, 0, &event));
  uint64_t before = slip_test_malloc_count();
  SLIP_CHECK_CODE(slip_stream_query(cpu, &gate), SLIP_CODE_INVALID_ARGUMENT);  // has a text, so it is seen
  SLIP_CHECK(slip_test_malloc_count() > before);
  before = slip_test_malloc_count();
  SLIP_CHECK_OK(slip_stream_enqueue_host(cpu, stream, stream_gate_pass, &gate));
  for (int i = 0; i < 300; ++i) {
    SLIP_CHECK_OK(slip_stream_enqueue_host(cpu, SLIP_STREAM_INLINE, stream_count, &other));
    SLIP_CHECK_OK(slip_stream_enqueue_host(cpu, stream, stream_count, &runs));
    SLIP_CHECK_OK(slip_event_record(cpu, event, stream));
    SLIP_CHECK_OK(slip_stream_wait_event(cpu, stream, event));
    SLIP_CHECK_CODE(slip_stream_query(cpu, stream), SLIP_CODE_NOT_READY);
    SLIP_CHECK_CODE(slip_event_query(cpu, event), SLIP_CODE_NOT_READY);
  }
  SLIP_CHECK_EQ(slip_test_malloc_count(), before);
  stream_gate_open(&gate);
  SLIP_CHECK_OK(slip_stream_destroy(cpu, stream));
  SLIP_CHECK_OK(slip_event_destroy(cpu, event));
  SLIP_CHECK_EQ(runs + other, 600);
}

// Every request for memory of creating streams and events made to fail, each in turn.
SLIP_TEST(cpu_stream_and_event_creation_survive_short_memory) {
  if (!slip_test_malloc_works()) slip_test_skip("requests are made to fail in builds without sanitizers");
  slip_platform_t *cpu = stream_cpu();
  uint32_t failures = 0;
  for (uint64_t nth = 1; nth <= 4; ++nth) {
    slip_event_t event = &event;
    slip_test_malloc_fail(nth, true);
    slip_status_t status = slip_event_create(cpu, 0, &event);
    slip_test_malloc_fail(0, false);
    failures += !slip_status_is_ok(status);
    SLIP_CHECK_EQ(event == NULL, !slip_status_is_ok(status));
    SLIP_CHECK_CODE(status, event ? SLIP_CODE_OK : SLIP_CODE_OUT_OF_MEMORY);
    if (event) SLIP_CHECK_OK(slip_event_destroy(cpu, event));
  }
  SLIP_CHECK_EQ(failures, 1);  // the chunk; later events find one
}

// A stream, and what has run on it.
typedef struct stream_known_t {
  slip_platform_t *cpu;
  slip_stream_t stream;
  _Atomic uint64_t *runs;
  _Atomic uint64_t *strays;
} stream_known_t;

typedef struct stream_rival_t {
  slip_platform_t *cpu;
  _Atomic(stream_known_t *) *known;
  _Atomic uint32_t *stop;
  uint64_t accepted;
  uint64_t destroyed;
} stream_rival_t;

// A handle is good as long as its stream's thread runs: one that is stale here was taken for that of a later stream.
static void stream_count_known(void *user) {
  const stream_known_t *known = user;
  atomic_fetch_add(known->runs, 1);
  if (stream_code(slip_stream_query(known->cpu, known->stream)) == SLIP_CODE_INVALID_ARGUMENT) atomic_fetch_add(known->strays, 1);
}

// Enqueues on whatever stream there is at the moment, and every now and then destroys it under the others.
static void stream_rival(void *user) {
  stream_rival_t *rival = user;
  for (uint32_t i = 0; !atomic_load(rival->stop); ++i) {
    stream_known_t *known = atomic_load(rival->known);
    if (!known) continue;
    slip_code_t code = i % 64 == 63 ? stream_code(slip_stream_destroy(rival->cpu, known->stream))
                                    : stream_code(slip_stream_enqueue_host(rival->cpu, known->stream, stream_count_known, known));
    SLIP_CHECK(code == SLIP_CODE_OK || code == SLIP_CODE_INVALID_ARGUMENT);
    if (code != SLIP_CODE_OK) continue;
    if (i % 64 == 63) {
      ++rival->destroyed;
    } else {
      ++rival->accepted;
    }
  }
}

// Destroying races with enqueuing and with another destroy: one destroy wins, what was accepted before it has run, and nothing of it on
// the stream that has the slot next.
SLIP_TEST(cpu_stream_destroy_races_with_use) {
  enum { RIVALS = 3, STREAMS = 400 };
  static stream_known_t all[STREAMS];
  _Atomic(stream_known_t *) current = NULL;
  _Atomic uint32_t stop = 0;
  _Atomic uint64_t runs = 0, strays = 0;
  stream_rival_t rivals[RIVALS];
  slip__thread_t threads[RIVALS];
  slip_platform_t *cpu = stream_cpu();
  for (int i = 0; i < RIVALS; ++i) {
    rivals[i] = (stream_rival_t){cpu, &current, &stop, 0, 0};
    SLIP_CHECK_OK(slip__thread_start(&threads[i], "rival", stream_rival, &rivals[i]));
  }
  for (int i = 0; i < STREAMS; ++i) {
    all[i] = (stream_known_t){cpu, stream_make(cpu), &runs, &strays};
    atomic_store(&current, &all[i]);
    while (stream_code(slip_stream_query(cpu, all[i].stream)) != SLIP_CODE_INVALID_ARGUMENT) {
    }
  }
  atomic_store(&stop, 1);
  uint64_t accepted = 0, destroyed = 0;
  for (int i = 0; i < RIVALS; ++i) {
    slip__thread_join(&threads[i]);
    accepted += rivals[i].accepted;
    destroyed += rivals[i].destroyed;
  }
  SLIP_CHECK_EQ(atomic_load(&runs), accepted);
  SLIP_CHECK_EQ(atomic_load(&strays), 0);
  SLIP_CHECK_EQ(destroyed, STREAMS);
}

typedef struct stream_last_t {
  slip_platform_t *cpu;
  slip_stream_t stream;
  stream_gate_t gate;
  slip_code_t code;
  uint64_t runs;
} stream_last_t;

static void stream_enqueue_last(void *user) {
  stream_last_t *last = user;
  stream_gate_pass(&last->gate);
  do {
    last->code = stream_code(slip_stream_enqueue_host(last->cpu, last->stream, stream_count, &last->runs));
  } while (last->code == SLIP_CODE_OK);
}

static void stream_open_gate_later(void *user) {
  stream_gate_open(&((stream_last_t *)user)->gate);
}

// A callback that goes on enqueuing while its stream is being destroyed is told; nothing is lost and nothing waits for ever.
SLIP_TEST(cpu_stream_callback_enqueues_during_destroy) {
  stream_last_t last = {.cpu = stream_cpu()};
  slip__thread_t opener;
  last.stream = stream_make(last.cpu);
  SLIP_CHECK_OK(slip_stream_enqueue_host(last.cpu, last.stream, stream_enqueue_last, &last));
  SLIP_CHECK_OK(slip__thread_start(&opener, "opener", stream_open_gate_later, &last));
  SLIP_CHECK_OK(slip_stream_destroy(last.cpu, last.stream));
  slip__thread_join(&opener);
  SLIP_CHECK(last.code == SLIP_CODE_INVALID_ARGUMENT || last.code == SLIP_CODE_BUSY);
}
