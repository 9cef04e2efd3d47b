// SPDX-License-Identifier: Apache-2.0
// Close: stages in a fixed order, each remembered by |close_stage|, as those of a context (kernel_mode/close.c), which are one of them.
//
//   stage      does                                                       fails by      afterwards
//   ADMISSION  state CLOSING; waits for the operations inside             -             everything but close is refused
//   RUNS       waits for the accepted runs, ends the runner               -             no thread of the worker's uses what follows
//   CONTEXT    closes the context: callables, lanes, engine, its memory   its stages    nothing that a failed run left behind is executed
//   STREAM     destroys the worker's stream                               platform      -
//   MEMORY     frees all blocks                                           free          nothing of the platform is held
//   HOST       destroys the context, frees the records of callables       -             only the shell is left
//
// A failed stage keeps what it could not give back; the next close begins with it. A failed open runs the same stages over what it had
// made: each skips what is not there. Device errors change nothing here: there is no reset to try.
#include <inttypes.h>

#include "base/allocator.h"
#include "kernel_mode/latch.h"
#include "program_mode/worker.h"

static slip_status_t slip__worker_close_admission(slip_worker_t *worker) {
  pthread_mutex_lock(&worker->lock);
  pthread_cond_broadcast(&worker->changed);  // who waits for room looks at the state
  while (worker->inside > 0) pthread_cond_wait(&worker->changed, &worker->lock);
  pthread_mutex_unlock(&worker->lock);
  return slip_ok_status();
}

static slip_status_t slip__worker_close_runs(slip_worker_t *worker) {
  pthread_mutex_lock(&worker->lock);
  while (worker->unfinished > 0) pthread_cond_wait(&worker->changed, &worker->lock);
  worker->stopping = true;
  pthread_cond_broadcast(&worker->work);
  pthread_mutex_unlock(&worker->lock);
  slip__thread_join(&worker->runner);
  return slip_ok_status();
}

static slip_status_t slip__worker_close_stream(slip_worker_t *worker) {
  if (!worker->stream) return slip_ok_status();
  slip_context_t *context = worker->context;
  slip_status_t status = slip__context_bind(context);
  if (!slip_status_is_ok(status)) return status;
  status = slip__context_given_back(context, slip_stream_destroy(worker->platform, worker->stream));
  if (slip_status_is_ok(status)) worker->stream = NULL;
  return slip_status_join(status, slip__context_unbind(context));
}

static slip_status_t slip__worker_close_context(slip_worker_t *worker) {
  if (!worker->context) return slip_ok_status();
  return slip_context_close(worker->context);
}

static slip_status_t slip__worker_close_host(slip_worker_t *worker) {
  SLIP_RETURN_IF_ERROR(slip_context_destroy(worker->context));
  worker->context = NULL;
  slip__callables_clear(worker);
  slip__free(worker->allocator, worker->memory.blocks, worker->memory.capacity * sizeof(*worker->memory.blocks));
  worker->memory.blocks = NULL;
  worker->memory.capacity = 0;
  return slip_ok_status();
}

typedef struct slip__worker_stage_t {
  const char *name;
  slip_status_t (*run)(slip_worker_t *worker);
} slip__worker_stage_t;

static const slip__worker_stage_t slip__worker_stages[] = {
    {"stopping admission", slip__worker_close_admission}, {"waiting for runs", slip__worker_close_runs},
    {"closing the context", slip__worker_close_context},  {"destroying the stream", slip__worker_close_stream},
    {"freeing device memory", slip__memory_clear},        {"freeing host memory", slip__worker_close_host},
};
static const uint32_t slip__worker_stage_count = (uint32_t)(sizeof(slip__worker_stages) / sizeof(slip__worker_stages[0]));

// The context is CLOSED with a failure: its device was reset. That is told, and nothing is left to repeat.
static bool slip__worker_stage_only_tells(const slip_worker_t *worker) {
  return slip__worker_stages[worker->close_stage].run == slip__worker_close_context &&
         slip_context_state(worker->context) == SLIP_CONTEXT_CLOSED;
}

slip_status_t slip__worker_teardown(slip_worker_t *worker) {
  slip_status_t told = slip_ok_status();
  for (; worker->close_stage < slip__worker_stage_count; ++worker->close_stage) {
    const slip__worker_stage_t *stage = &slip__worker_stages[worker->close_stage];
    slip_status_t status = stage->run(worker);
    if (slip_status_is_ok(status)) continue;
    if (slip__worker_stage_only_tells(worker)) {
      told = status;
      continue;
    }
    status = slip_status_join(status, told);
    return slip_status_annotate(status, "while %s (stage %" PRIu32 " of %" PRIu32 "); what is left is kept, close again", stage->name,
                                worker->close_stage + 1, slip__worker_stage_count);
  }
  return told;
}

// |closing| is ours.
static slip_status_t slip__worker_close_run(slip_worker_t *worker) {
  slip_status_t status = slip__worker_teardown(worker);
  bool closed = worker->close_stage == slip__worker_stage_count;
  if (!slip_status_is_ok(status))
    status = slip_status_annotate(status, "closing the worker of %s:%" PRId32, worker->platform_name, worker->options.device);
  pthread_mutex_lock(&worker->lock);
  worker->closing = false;
  if (closed) atomic_store_explicit(&worker->state, SLIP_WORKER_CLOSED, memory_order_release);
  pthread_cond_broadcast(&worker->changed);
  pthread_mutex_unlock(&worker->lock);
  return status;
}

// Lock held. OK: |closing| is ours, or (|*out_closed|) there is nothing to do.
static slip_status_t slip__worker_close_begin(slip_worker_t *worker, bool *out_closed) {
  slip_worker_state_e state = slip__worker_state(worker);
  *out_closed = state == SLIP_WORKER_CLOSED || state == SLIP_WORKER_NEW;
  if (*out_closed) {
    atomic_store_explicit(&worker->state, SLIP_WORKER_CLOSED, memory_order_release);
    return slip_ok_status();
  }
  if (state == SLIP_WORKER_INITIALIZING)
    return SLIP_STATUS(SLIP_CODE_INVALID_STATE, "close: the worker of %s:%" PRId32 " is being opened; close it when open has returned",
                       worker->platform_name, worker->options.device);
  if (worker->closing)
    return SLIP_STATUS(SLIP_CODE_BUSY, "another close of the worker of %s:%" PRId32 " is running; wait for it", worker->platform_name,
                       worker->options.device);
  worker->closing = true;
  atomic_store_explicit(&worker->state, SLIP_WORKER_CLOSING, memory_order_release);
  return slip_ok_status();
}

slip_status_t slip_worker_close(slip_worker_t *worker) {
  bool closed = false;
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "slip_worker_close"));
  pthread_mutex_lock(&worker->lock);
  slip_status_t status = slip__worker_close_begin(worker, &closed);
  pthread_mutex_unlock(&worker->lock);
  return closed || !slip_status_is_ok(status) ? status : slip__worker_close_run(worker);
}
