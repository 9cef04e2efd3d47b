// SPDX-License-Identifier: Apache-2.0
// Prepares that fail at the same time (30.4): each caller is told of its own image's failure, and failures cost no ids.
#include <unistd.h>

#include "fixture.h"
#include "kernel_mode/context.h"
#include "os/thread.h"

typedef struct slip_race_case_t {
  const char *name;
  slip_code_t code;
  const char *part;  // of the message; NULL: succeeds
} slip_race_case_t;

enum { KERNEL_NAME, KERNEL_SHAPE, ENTRY_NAME, CONTRACT, PLATFORM, DAMAGED, SCRATCH, GOOD, CASES };
static const slip_race_case_t slip_race_cases[CASES] = {
    [KERNEL_NAME] = {"another kernel", SLIP_CODE_CORRUPT, "but the image says \"renamed\""},
    [KERNEL_SHAPE] = {"another shape", SLIP_CODE_CORRUPT, "but the image says 0, 3, 0, 77"},
    [ENTRY_NAME] = {"another entry", SLIP_CODE_CORRUPT, "entry 0 of the object is \"add\""},
    [CONTRACT] = {"program contract", SLIP_CODE_INCOMPATIBLE, "compiled for the program contract"},
    [PLATFORM] = {"another platform", SLIP_CODE_INCOMPATIBLE, "the image is for platform \"sim\""},
    [DAMAGED] = {"damaged", SLIP_CODE_CORRUPT, NULL},
    [SCRATCH] = {"busy", SLIP_CODE_BUSY, "launches are running"},
    [GOOD] = {"good", SLIP_CODE_OK, NULL},
};

static slip_bytes_t slip_race_pack(int index) {
  slip_fixture_t fixture = index == SCRATCH ? slip_fixture_scratch() : slip_fixture_add();
  if (index == KERNEL_NAME) fixture.kernel.name = "renamed";
  if (index == KERNEL_SHAPE) fixture.kernel.scratch_bytes = 77;
  if (index == ENTRY_NAME) fixture.entry.name = "renamed";
  if (index == CONTRACT) fixture.image.contract = SLIP_CONTRACT_PROGRAM;
  if (index == PLATFORM) fixture.image.platform = SLIP_PLATFORM_SIM;
  slip_bytes_t image = slip_fixture_pack(&fixture);
  if (index == DAMAGED) ((unsigned char *)image.data)[image.size / 2] ^= 1;
  return image;
}

static slip_context_t *slip_race_open(void) {
  slip_context_options_t options = SLIP_CONTEXT_OPTIONS_INIT;
  slip_context_t *context = NULL;
  options.flags = SLIP_CONTEXT_SINGLE_THREAD;
  SLIP_CHECK_OK(slip_context_open(&options, &context));
  return context;
}

static void slip_race_end(slip_context_t *context) {
  SLIP_CHECK_OK(slip_context_close(context));
  SLIP_CHECK_OK(slip_context_destroy(context));
}

typedef struct slip_race_worker_t {
  slip__thread_t thread;
  slip_context_t *context;
  slip_const_bytes_t image;
  int index;
  _Atomic uint32_t *go;
  int32_t id;
  slip_status_t status;
} slip_race_worker_t;

// --- many rounds -------------------------------------------------------------------------------------------------------------------------

enum { ROUNDS = 60 };

static void slip_race_rounds(void *user) {
  slip_race_worker_t *w = user;
  const slip_race_case_t *expected = &slip_race_cases[w->index];
  while (atomic_load(w->go) == 0) slip__cpu_relax();
  for (int32_t round = 0; round < ROUNDS; ++round) {
    w->id = 55;
    w->status = slip_context_prepare(w->context, w->image, &w->id);
    slip_test_check_status(w->status, expected->code, expected->part, expected->name, __FILE__, __LINE__);
    SLIP_CHECK_EQ(w->id, expected->code == SLIP_CODE_OK ? round : -1);  // no other success mints one, and no failure
    if (expected->code == SLIP_CODE_OK) SLIP_CHECK_OK(slip_context_release(w->context, w->id));
  }
}

SLIP_TEST(registry_failures_at_the_same_time_are_told_apart) {
  enum { WORKERS = 2 * CASES - 1 };  // two for each image, but one for the good one, which counts the ids
  slip_context_t *context = slip_race_open();
  slip_race_worker_t workers[WORKERS];
  slip_bytes_t images[CASES];
  _Atomic uint32_t go = 0;
  for (int i = 0; i < CASES; ++i) images[i] = slip_race_pack(i);
  int32_t slot = slip__slot_acquire(context, false);  // as a launch that runs
  SLIP_CHECK(slot >= 0);
  for (int i = 0; i < WORKERS; ++i) {
    workers[i] = (slip_race_worker_t){.context = context, .image = slip_fixture_bytes(images[i % CASES]), .index = i % CASES, .go = &go};
    SLIP_CHECK_OK(slip__thread_start(&workers[i].thread, "prepare", slip_race_rounds, &workers[i]));
  }
  atomic_store(&go, 1);
  for (int i = 0; i < WORKERS; ++i) slip__thread_join(&workers[i].thread);
  slip__slot_release(context, slot);
  int32_t id = -1;
  SLIP_CHECK_OK(slip_context_prepare(context, slip_fixture_bytes(images[SCRATCH]), &id));  // not busy any more
  SLIP_CHECK_EQ(id, ROUNDS);
  slip_context_stats_t stats = {.struct_size = sizeof(stats)};
  SLIP_CHECK_OK(slip_context_stats(context, &stats));
  SLIP_CHECK_EQ(stats.callables, 1);
  SLIP_CHECK_EQ(stats.resident_bytes, images[SCRATCH].size);  // what failed is not resident
  for (int i = 0; i < CASES; ++i) slip_fixture_free(images[i]);
  slip_race_end(context);
}

// --- two loads at once, each with others waiting for its result --------------------------------------------------------------------------

// Both loaders stay in their load until one of them has seen all six callers inside.
static _Atomic uint32_t slip_race_all_inside;
static void slip_race_hold(void *user, const char *platform, slip__platform_call_e call, slip_code_t code) {
  slip_context_t *context = user;
  (void)platform;
  (void)code;
  while (call == SLIP__PLATFORM_CALL_MODULE_LOAD && atomic_load(&slip_race_all_inside) == 0) {
    uint32_t inside = 0;
    pthread_mutex_lock(&context->registry.lock);
    for (const slip__resident_t *r = context->registry.residents; r; r = r->next) inside += r->references;
    pthread_mutex_unlock(&context->registry.lock);
    if (inside == 6) atomic_store(&slip_race_all_inside, 1);
    usleep(200);
  }
}

static void slip_race_once(void *user) {
  slip_race_worker_t *w = user;
  w->id = 55;
  w->status = slip_context_prepare(w->context, w->image, &w->id);
}

SLIP_TEST(registry_waiters_are_told_the_failure_of_their_own_load) {
  slip_context_t *context = slip_race_open();
  slip_race_worker_t workers[6];
  slip_bytes_t images[2] = {slip_race_pack(KERNEL_NAME), slip_race_pack(ENTRY_NAME)};
  char texts[6][1024];
  slip__platform_counters_reset();
  slip__platform_log_set(slip_race_hold, context);
  for (int i = 0; i < 6; ++i) {
    workers[i] = (slip_race_worker_t){.context = context, .image = slip_fixture_bytes(images[i % 2])};
    SLIP_CHECK_OK(slip__thread_start(&workers[i].thread, "prepare", slip_race_once, &workers[i]));
  }
  for (int i = 0; i < 6; ++i) {
    slip__thread_join(&workers[i].thread);
    SLIP_CHECK_EQ(workers[i].id, -1);
    SLIP_CHECK_EQ(slip_status_code(workers[i].status), SLIP_CODE_CORRUPT);
    slip_status_format(workers[i].status, texts[i], sizeof(texts[i]));
    slip_status_free(workers[i].status);
    SLIP_CHECK(strstr(texts[i], i % 2 ? "entry 0 of the object" : "kernel 0 of the object") != NULL);
    if (i >= 2) SLIP_CHECK_STR(texts[i], texts[i - 2]);
  }
  slip__platform_log_set(NULL, NULL);
  SLIP_CHECK(strcmp(texts[0], texts[1]) != 0);
  SLIP_CHECK_EQ(slip__platform_counter(SLIP__PLATFORM_CALL_MODULE_LOAD), 2);
  SLIP_CHECK_EQ(slip__platform_counter(SLIP__PLATFORM_CALL_MODULE_UNLOAD), 2);
  slip__platform_counters_stop();
  SLIP_CHECK_EQ(slip_fixture_prepare(context, slip_fixture_add()), 0);
  slip_fixture_free(images[0]);
  slip_fixture_free(images[1]);
  slip_race_end(context);
}
