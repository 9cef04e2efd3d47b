// SPDX-License-Identifier: Apache-2.0
#include "program_mode/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/versioned.h"
#include "kernel_mode/latch.h"
#include "kernel_mode/open.h"
#include "os/fork.h"

// What the struct of the first release had. Whatever is appended later is zero for its callers.
#define SLIP__WORKER_OPTIONS_FIRST_SIZE sizeof(slip_worker_options_t)

static const char *slip__worker_state_name(slip_worker_state_e state) {
  static const char *const names[] = {"NEW", "INITIALIZING", "READY", "FAILED", "CLOSING", "CLOSED"};
  return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

slip_status_t slip__worker_check(const slip_worker_t *worker, const char *what) {
  SLIP_RETURN_IF_ERROR(slip__latch_check(what));
  if (!worker) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: worker is NULL, expected one that slip_worker_create has given", what);
  if (worker->fork_epoch == slip__fork_epoch()) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_FORKED,
                     "%s: the worker belongs to the process that this one was forked from, where its device and threads stayed; create a "
                     "worker here",
                     what);
}

slip_status_t slip__worker_refuse_state(const slip_worker_t *worker, const char *what) {
  return SLIP_STATUS(SLIP_CODE_INVALID_STATE, "%s needs a READY worker, but that of %s:%" PRId32 " is %s", what, worker->platform_name,
                     worker->options.device, slip__worker_state_name(slip__worker_state(worker)));
}

// --- options -----------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__worker_copy_name(const char *field, const char *text, char *out, size_t capacity) {
  if (snprintf(out, capacity, "%s", text) < (int)capacity) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s is \"%.32s...\" of %zu characters, expected at most %zu", field, text, strlen(text),
                     capacity - 1);
}

// The context that the worker runs on: one run at a time, no captures.
static void slip__worker_context_options(const slip_worker_t *worker, slip_context_options_t *out) {
  const slip_worker_options_t *options = &worker->options;
  *out = (slip_context_options_t){.struct_size = sizeof(*out),
                                  .device = options->device,
                                  .platform = worker->platform_name,
                                  .target = options->target,
                                  .scheduler_threads = options->scheduler_threads,
                                  .max_in_flight = 1,
                                  .max_pending = SLIP_WORKER_DEPTH,
                                  .max_callables = options->max_callables,
                                  .workspace_budget_bytes = options->workspace_budget_bytes,
                                  .flags = options->flags,
                                  .stall_timeout_ms = options->stall_timeout_ms,
                                  .allocator = worker->allocator,
                                  .max_captured = 1,
                                  .max_captures = 1};
  memcpy(out->task_window, options->task_window, sizeof(out->task_window));
  memcpy(out->heap_bytes, options->heap_bytes, sizeof(out->heap_bytes));
  memcpy(out->dependency_pool, options->dependency_pool, sizeof(out->dependency_pool));
}
_Static_assert((int)SLIP_WORKER_SINGLE_THREAD == (int)SLIP_CONTEXT_SINGLE_THREAD &&
                   (int)SLIP_WORKER_SKIP_BUILD_CHECK == (int)SLIP_CONTEXT_SKIP_BUILD_CHECK &&
                   (int)SLIP_WORKER_PIN_WORKERS == (int)SLIP_CONTEXT_PIN_WORKERS,
               "a worker's flags are its context's");

// What a context would say in the words of its own options.
static slip_status_t slip__worker_check_options(const slip_worker_t *worker) {
  const slip_worker_options_t *options = &worker->options;
  if (options->device < 0)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "device is %" PRId32 ", expected the ordinal of a device, 0 or more", options->device);
  if (options->scheduler_threads == 1) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "scheduler_threads is 1, expected 0 (as many as the process may use) or at least 2; for no scheduler threads set "
                       "SLIP_WORKER_SINGLE_THREAD");
  }
  if ((options->flags & SLIP_WORKER_SINGLE_THREAD) != 0 && options->scheduler_threads != 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "scheduler_threads is %" PRIu32 " together with SLIP_WORKER_SINGLE_THREAD, which has none; leave it 0",
                       options->scheduler_threads);
  }
  slip_context_options_t context, resolved;
  slip__worker_context_options(worker, &context);
  SLIP_RETURN_IF_ERROR(slip__options_resolve(&context, &resolved));
  return slip__options_check(&resolved);
}

static slip_status_t slip__worker_take_options(slip_worker_t *worker) {
  slip_worker_options_t *options = &worker->options;
  SLIP_RETURN_IF_ERROR(slip__worker_copy_name("platform", options->platform ? options->platform : "cpu", worker->platform_name,
                                              sizeof(worker->platform_name)));
  options->platform = worker->platform_name;
  if (options->target) {
    SLIP_RETURN_IF_ERROR(slip__worker_copy_name("target", options->target, worker->target, sizeof(worker->target)));
    options->target = worker->target;
  }
  return slip__worker_check_options(worker);
}

// --- create, destroy ---------------------------------------------------------------------------------------------------------------------

void slip__worker_shell_release(slip_worker_t *worker) {
  if (atomic_fetch_sub_explicit(&worker->shell, 1, memory_order_acq_rel) != 1) return;
  slip_allocator_t allocator = worker->allocator;
  pthread_mutex_destroy(&worker->lock);
  pthread_cond_destroy(&worker->changed);
  pthread_cond_destroy(&worker->work);
  slip_status_free(worker->open_result);
  slip__free_aligned(allocator, worker, sizeof(*worker), _Alignof(slip_worker_t));
}

static void slip__worker_make_locks(slip_worker_t *worker) {
  pthread_condattr_t monotonic;
  pthread_mutex_init(&worker->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&worker->changed, &monotonic);
  pthread_cond_init(&worker->work, NULL);
  pthread_condattr_destroy(&monotonic);
}

slip_status_t slip_worker_create(const slip_worker_options_t *options, slip_worker_t **out) {
  slip_worker_options_t copy;
  void *memory = NULL;
  if (out) *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__latch_check("slip_worker_create"));
  if (!out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out is NULL, expected where to put the worker");
  SLIP_RETURN_IF_ERROR(slip__versioned_take("slip_worker_options_t", "SLIP_WORKER_OPTIONS_INIT", options, SLIP__WORKER_OPTIONS_FIRST_SIZE,
                                            &copy, sizeof(copy)));
  slip_allocator_t allocator = slip__allocator_or_system(copy.allocator);
  SLIP_RETURN_IF_ERROR(slip__alloc_aligned(allocator, sizeof(slip_worker_t), _Alignof(slip_worker_t), &memory));
  slip_worker_t *worker = memory;
  worker->allocator = allocator;
  worker->options = copy;
  worker->fork_epoch = slip__fork_epoch();
  atomic_init(&worker->shell, 1);
  atomic_init(&worker->state, SLIP_WORKER_NEW);
  slip__worker_make_locks(worker);
  slip_status_t status = slip__worker_take_options(worker);
  if (!slip_status_is_ok(status)) {
    slip__worker_shell_release(worker);
    return slip_status_annotate(status, "creating a worker");
  }
  *out = worker;
  return slip_ok_status();
}

slip_status_t slip_worker_destroy(slip_worker_t *worker) {
  SLIP_RETURN_IF_ERROR(slip__latch_check("slip_worker_destroy"));
  if (!worker) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "slip_worker_destroy"));
  slip_worker_state_e state = slip__worker_state(worker);
  if (state != SLIP_WORKER_NEW && state != SLIP_WORKER_CLOSED) {
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE,
                       "the worker of %s:%" PRId32 " is given back while it is %s; close it first (nothing was freed)",
                       worker->platform_name, worker->options.device, slip__worker_state_name(state));
  }
  slip__worker_shell_release(worker);
  return slip_ok_status();
}

slip_worker_state_e slip_worker_state(const slip_worker_t *worker) {
  return worker ? slip__worker_state(worker) : SLIP_WORKER_NEW;
}

slip_device_t slip_worker_device(const slip_worker_t *worker) {
  slip_device_t none = {SLIP_PLATFORM_NONE, 0};
  slip_worker_state_e state = slip_worker_state(worker);
  return state == SLIP_WORKER_NEW || state == SLIP_WORKER_INITIALIZING ? none : worker->device;
}

// --- open --------------------------------------------------------------------------------------------------------------------------------

// Behind the context: what only the worker needs.
static slip_status_t slip__worker_open_rest(slip_worker_t *worker) {
  slip_context_t *context = worker->context;
  slip_status_t status = slip_ok_status();
  worker->platform = context->platform;
  worker->device = context->device;
  worker->host_memory = (slip__platform_capabilities(worker->platform) & SLIP_PLATFORM_HOST_MEMORY) != 0;
  if (!context->inline_stream) {
    SLIP__CONTEXT_BOUND(status, context, slip_stream_create(worker->platform, worker->device.ordinal, &worker->stream));
    SLIP_RETURN_IF_ERROR_ANNOTATED(status, "creating the worker's stream");
  }
  return slip_status_annotate(slip__thread_start(&worker->runner, "slip-runner", slip__runner_main, worker),
                              "starting the worker's thread");
}

// INITIALIZING is ours. |*out_owed|: close must be called.
static slip_status_t slip__worker_open_device(slip_worker_t *worker, bool *out_owed) {
  slip_context_options_t options;
  slip__worker_context_options(worker, &options);
  worker->stopping = false;
  worker->close_stage = 0;
  slip_status_t status = slip__context_open_program(&options, &worker->context);
  *out_owed = worker->context != NULL;
  if (!slip_status_is_ok(status)) return status;
  status = slip__worker_open_rest(worker);
  *out_owed = false;
  if (slip_status_is_ok(status)) return status;
  slip_status_t undo = slip__worker_teardown(worker);
  *out_owed = !slip_status_is_ok(undo);
  if (*out_owed) undo = slip_status_annotate(undo, "the teardown is owed: close the worker, repeatedly if need be");
  return slip_status_join(status, undo);
}

// Lock held, given up while opening.
static slip_status_t slip__worker_open_first(slip_worker_t *worker) {
  bool owed = false;
  atomic_store_explicit(&worker->state, SLIP_WORKER_INITIALIZING, memory_order_release);
  pthread_mutex_unlock(&worker->lock);
  slip_status_t status = slip__worker_open_device(worker, &owed);
  bool ready = slip_status_is_ok(status);
  if (!ready) status = slip_status_annotate(status, "opening the worker of %s:%" PRId32, worker->platform_name, worker->options.device);
  pthread_mutex_lock(&worker->lock);
  slip_status_free(worker->open_result);
  worker->open_result = slip_status_clone(status);
  ++worker->open_attempts;
  atomic_store_explicit(&worker->state, ready ? SLIP_WORKER_READY : owed ? SLIP_WORKER_FAILED : SLIP_WORKER_NEW, memory_order_release);
  pthread_cond_broadcast(&worker->changed);
  return status;
}

// Lock held.
static slip_status_t slip__worker_open_locked(slip_worker_t *worker, const char *what) {
  if (slip__worker_state(worker) == SLIP_WORKER_INITIALIZING) {
    uint64_t attempts = worker->open_attempts;
    while (worker->open_attempts == attempts) pthread_cond_wait(&worker->changed, &worker->lock);
    if (slip__worker_state(worker) != SLIP_WORKER_READY && !slip_status_is_ok(worker->open_result))
      return slip_status_clone(worker->open_result);
  }
  slip_worker_state_e state = slip__worker_state(worker);
  if (state == SLIP_WORKER_READY) return slip_ok_status();
  return state == SLIP_WORKER_NEW ? slip__worker_open_first(worker) : slip__worker_refuse_state(worker, what);
}

slip_status_t slip_worker_open(slip_worker_t *worker) {
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "open"));
  pthread_mutex_lock(&worker->lock);
  slip_status_t status = slip__worker_open_locked(worker, "open");
  pthread_mutex_unlock(&worker->lock);
  return status;
}

// --- operations --------------------------------------------------------------------------------------------------------------------------

slip_status_t slip__worker_enter(slip_worker_t *worker, const char *what, bool opens) {
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, what));
  pthread_mutex_lock(&worker->lock);
  slip_status_t status = opens                                             ? slip__worker_open_locked(worker, what)
                         : slip__worker_state(worker) == SLIP_WORKER_READY ? slip_ok_status()
                                                                           : slip__worker_refuse_state(worker, what);
  if (slip_status_is_ok(status) && slip__worker_state(worker) != SLIP_WORKER_READY) status = slip__worker_refuse_state(worker, what);
  if (slip_status_is_ok(status) && atomic_load_explicit(&worker->context->poison, memory_order_acquire))
    status = slip__context_refuse_poisoned(worker->context, what);
  if (slip_status_is_ok(status)) ++worker->inside;
  pthread_mutex_unlock(&worker->lock);
  return status;
}

bool slip__worker_enter_quietly(slip_worker_t *worker) {
  if (slip__worker_state(worker) != SLIP_WORKER_READY) return false;
  ++worker->inside;
  return true;
}

void slip__worker_leave(slip_worker_t *worker) {
  pthread_mutex_lock(&worker->lock);
  if (--worker->inside == 0) pthread_cond_broadcast(&worker->changed);
  pthread_mutex_unlock(&worker->lock);
}

// --- statistics --------------------------------------------------------------------------------------------------------------------------

static void slip__stats_worker(slip_worker_t *worker, slip_worker_stats_t *stats) {
  pthread_mutex_lock(&worker->lock);
  for (const slip__callable_t *c = worker->callables; c; c = c->next) stats->callables += c->references > 0;
  stats->memory_bytes = worker->memory.bytes;
  stats->memory_peak_bytes = worker->memory.peak_bytes;
  for (size_t i = 0; i < worker->memory.count; ++i) stats->allocations += !worker->memory.blocks[i]->dead;
  stats->runs = worker->accepted;
  stats->refused = worker->refused;
  stats->completed = worker->completed;
  stats->failed = worker->failed;
  stats->uploaded_bytes = worker->uploaded_bytes;
  stats->downloaded_bytes = worker->downloaded_bytes;
  pthread_mutex_unlock(&worker->lock);
}

slip_status_t slip_worker_stats(slip_worker_t *worker, slip_worker_stats_t *out) {
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "stats"));
  if (!out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out is NULL, expected where to put the statistics");
  if (out->struct_size < sizeof(uint32_t))
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "slip_worker_stats_t.struct_size is %" PRIu32 ", expected its size", out->struct_size);
  slip_context_stats_t context = {.struct_size = sizeof(context)};
  slip_worker_stats_t stats = {0};
  pthread_mutex_lock(&worker->lock);
  bool entered = slip__worker_enter_quietly(worker);
  pthread_mutex_unlock(&worker->lock);
  if (!entered) return slip__worker_refuse_state(worker, "stats");
  slip_status_t status = slip_context_stats(worker->context, &context);
  slip__stats_worker(worker, &stats);
  slip__worker_leave(worker);
  SLIP_RETURN_IF_ERROR(status);
  stats.resident_bytes = context.resident_bytes;
  stats.tasks = context.tasks;
  stats.workspace_bytes = context.workspace_bytes;
  stats.threads = context.workers;
  slip__versioned_give(&stats, sizeof(stats), out);
  return slip_ok_status();
}
