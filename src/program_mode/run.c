// SPDX-License-Identifier: Apache-2.0
// The order of runs. The list of unfinished runs is the order of acceptance; its first one is what executes, if |executing|.
//
//   submit                               executor (the runner, or slip_worker_run() on its caller's thread)
//   plan                                 |executing| = true, for the first run
//   wait: not |preparing|, and room      execute, finish
//   |preparing| = true; ++unfinished     out of the list, |done|; then |executing| = false, --unfinished
//   materialise
//   into the list, with its number
//   |preparing| = false
//
// A place is taken before the run is prepared, so that at most one executes while one is prepared. A slip_worker_run() whose turn is not
// there executes what is before it rather than sleep.
#include "program_mode/run.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/allocator.h"
#include "kernel_mode/launch.h"

// --- execution ---------------------------------------------------------------------------------------------------------------------------

// On a stream the launch has to be waited for. A capture that somebody else has begun in global mode forbids this thread to wait, but the
// run's memory is in use until the launch has retired: so it tries again.
static slip_status_t slip__run_wait_launch(slip_ticket_t *ticket) {
  const struct timespec pause = {0, 100000};
  slip_status_t status = slip_ticket_wait(ticket, -1);
  while (slip_status_code(status) == SLIP_CODE_CAPTURE_UNSUPPORTED) {
    slip_status_free(status);
    (void)nanosleep(&pause, NULL);
    status = slip_ticket_wait(ticket, -1);
  }
  return status;
}

// Whether the device may still use the memory of a launch that failed: enqueued in part, which poisons the context, or not retired.
static bool slip__run_may_be_under_way(const slip_run_t *run, slip_ticket_t *ticket, slip_status_t status) {
  if (!ticket) {
    // POISONED itself is a refusal, before anything.
    return slip_status_code(status) != SLIP_CODE_POISONED && atomic_load_explicit(&run->worker->context->poison, memory_order_acquire);
  }
  slip_status_t result = slip_ticket_query(ticket);
  bool retired = slip_status_code(result) != SLIP_CODE_NOT_READY;
  slip_status_free(result);
  return !retired;
}

static slip_status_t slip__run_launch(slip_run_t *run) {
  const slip_worker_t *worker = run->worker;
  slip_ticket_t *ticket = NULL;
  slip_launch_record_t record = {.struct_size = (uint32_t)sizeof(record),
                                 .id = run->callable->id,
                                 .context = worker->context,
                                 .frame = &run->frame,
                                 .stream = worker->stream ? worker->stream : SLIP_STREAM_INLINE};
  slip_status_t status = slip_launch(&record, worker->stream ? &ticket : NULL);
  if (slip_status_is_ok(status) && ticket) {
    status = slip__run_wait_launch(ticket);
    slip__launch_poison_if_undefined(worker->context, status);
  }
  if (!slip_status_is_ok(status) && worker->stream) run->under_way = slip__run_may_be_under_way(run, ticket, status);
  slip_ticket_release(ticket);
  return status;
}

static slip_status_t slip__run_execute(slip_run_t *run) {
  slip_status_t status = run->deferred ? slip__run_upload(run) : slip_ok_status();
  if (slip_status_is_ok(status)) status = slip__run_launch(run);
  if (slip_status_is_ok(status)) status = slip__run_download(run);
  return slip_status_annotate(status, "run %" PRIu64 " (%.128s)", run->number, run->callable->name);
}

static void slip__run_count_bytes(const slip_run_t *run, bool ok) {
  slip_worker_t *worker = run->worker;
  for (uint32_t i = 0; i < run->count; ++i) {
    if (run->bindings[i].upload) worker->uploaded_bytes += run->bindings[i].bytes;
    if (run->bindings[i].download && ok) worker->downloaded_bytes += run->bindings[i].bytes;
  }
}

// Lock held on entry and on return. Executes the first run, which nobody else does.
static void slip__runs_step(slip_worker_t *worker) {
  slip_run_t *run = worker->first;
  worker->executing = true;
  pthread_mutex_unlock(&worker->lock);
  slip_status_t status = slip__run_execute(run);
  bool ok = slip_status_is_ok(status);
  pthread_mutex_lock(&worker->lock);
  slip__run_count_bytes(run, ok);
  pthread_mutex_unlock(&worker->lock);
  slip__run_unbind(run);
  slip__callable_unpin(worker, run->callable);
  run->callable = NULL;

  pthread_mutex_lock(&worker->lock);
  worker->first = run->next;
  if (!worker->first) worker->last = NULL;
  ++worker->completed;
  worker->failed += !ok;
  run->status = status;
  // Release: results and status; pairs with the acquire of who asks without the lock.
  atomic_store_explicit(&run->done, 1, memory_order_release);
  pthread_mutex_unlock(&worker->lock);
  // Before the place is free and the next run begins: close waits for the one, and the other may need the memory.
  slip__run_unreference(run);
  pthread_mutex_lock(&worker->lock);
  worker->executing = false;
  --worker->unfinished;
  pthread_cond_broadcast(&worker->changed);
  if (worker->first) pthread_cond_signal(&worker->work);
}

void slip__runner_main(void *user) {
  slip_worker_t *worker = user;
  pthread_mutex_lock(&worker->lock);
  for (;;) {
    if (worker->first && !worker->executing) {
      slip__runs_step(worker);
    } else if (worker->stopping && !worker->first) {
      break;
    } else {
      pthread_cond_wait(&worker->work, &worker->lock);
    }
  }
  pthread_mutex_unlock(&worker->lock);
}

// Until |run| is done; executes whatever is first and nobody's.
static void slip__run_drive(slip_run_t *run) {
  slip_worker_t *worker = run->worker;
  pthread_mutex_lock(&worker->lock);
  while (!atomic_load_explicit(&run->done, memory_order_relaxed)) {
    if (worker->first && !worker->executing) {
      slip__runs_step(worker);
    } else {
      pthread_cond_wait(&worker->changed, &worker->lock);
    }
  }
  pthread_mutex_unlock(&worker->lock);
}

// --- acceptance --------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__run_create(slip_worker_t *worker, int32_t id, uint32_t flags, slip_run_t **out) {
  void *memory = NULL;
  pthread_mutex_lock(&worker->lock);
  slip__callable_t *callable = slip__callable_pin(worker, id);
  pthread_mutex_unlock(&worker->lock);
  if (!callable)
    return SLIP_STATUS(SLIP_CODE_NOT_PREPARED, "callable %" PRId32 " is unknown, unregistered or of another worker; register it first", id);
  size_t count = slip_signature_param_count(callable->params),
         bytes = sizeof(slip_run_t) + count * (sizeof(slip__binding_t) + sizeof(slip_arg_t));
  slip_status_t status = slip__alloc(worker->allocator, bytes, &memory);
  if (!slip_status_is_ok(status)) {
    slip__callable_unpin(worker, callable);
    return slip_status_annotate(status, "%.128s: making a run", callable->name);
  }
  slip_run_t *run = memory;
  atomic_init(&run->references, 2);
  run->worker = worker;
  run->callable = callable;
  run->params = callable->params;
  run->flags = flags;
  run->block_bytes = bytes;
  run->count = (uint32_t)count;
  run->bindings = (slip__binding_t *)(void *)(run + 1);
  run->args = (slip_arg_t *)(void *)(run->bindings + count);
  slip_signature_retain(run->params);
  atomic_fetch_add_explicit(&worker->shell, 1, memory_order_relaxed);
  *out = run;
  return slip_ok_status();
}

// What was not accepted.
static void slip__run_destroy(slip_run_t *run) {
  slip__run_discard(run);
  slip__callable_unpin(run->worker, run->callable);
  slip__run_unreference(run);
  slip__run_unreference(run);
}

// Takes a place, and the turn to prepare.
static slip_status_t slip__run_take_place(slip_worker_t *worker, bool no_wait) {
  slip_status_t status = slip_ok_status();
  pthread_mutex_lock(&worker->lock);
  for (;;) {
    if (slip__worker_state(worker) != SLIP_WORKER_READY) {
      status = slip__worker_refuse_state(worker, "submit");
    } else if (!worker->preparing && worker->unfinished < SLIP_WORKER_DEPTH) {
      break;
    } else if (no_wait) {
      status = SLIP_STATUS(SLIP_CODE_BUSY,
                           "%d runs are accepted and not done; wait for one, or submit without SLIP_RUN_NO_WAIT, which waits for room",
                           SLIP_WORKER_DEPTH);
    }
    if (!slip_status_is_ok(status)) break;
    pthread_cond_wait(&worker->changed, &worker->lock);
  }
  if (slip_status_is_ok(status)) {
    worker->preparing = true;
    ++worker->unfinished;
  }
  pthread_mutex_unlock(&worker->lock);
  return status;
}

// Lock held.
static void slip__run_accept(slip_run_t *run) {
  slip_worker_t *worker = run->worker;
  run->number = ++worker->accepted;
  for (uint32_t i = 0; i < run->count; ++i) {
    if (run->bindings[i].block) run->bindings[i].block->last_run = run->number;
  }
  if (worker->last) {
    worker->last->next = run;
  } else {
    worker->first = run;
  }
  worker->last = run;
}

// |drives|: the calling thread is going to execute it, so that the runner may sleep on.
static slip_status_t slip__run_admit(slip_run_t *run, bool drives) {
  slip_worker_t *worker = run->worker;
  SLIP_RETURN_IF_ERROR(slip__run_take_place(worker, (run->flags & SLIP_RUN_NO_WAIT) != 0));
  slip_status_t status = slip__run_materialise(run);
  pthread_mutex_lock(&worker->lock);
  if (slip_status_is_ok(status)) {
    slip__run_accept(run);
    if (!drives && !worker->executing) pthread_cond_signal(&worker->work);
  } else {
    --worker->unfinished;
  }
  worker->preparing = false;
  pthread_cond_broadcast(&worker->changed);
  pthread_mutex_unlock(&worker->lock);
  return status;
}

static slip_status_t slip__run_check_flags(uint32_t flags) {
  const uint32_t known = SLIP_RUN_NO_WAIT | SLIP_RUN_ZERO_OUTPUTS;
  if ((flags & ~known) == 0) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "flags is 0x%" PRIx32 ", of which 0x%" PRIx32 " is unknown; known are 0x%" PRIx32, flags,
                     flags & ~known, known);
}

// The worker is entered.
static slip_status_t slip__run_submit(slip_worker_t *worker, int32_t id, const slip_arg_t *args, size_t arg_count, uint32_t flags,
                                      bool drives, slip_run_t **out) {
  slip_run_t *run = NULL;
  slip_status_t status = slip__run_check_flags(flags);
  if (slip_status_is_ok(status)) status = slip__run_create(worker, id, flags, &run);
  if (slip_status_is_ok(status)) status = slip__run_plan(run, args, arg_count);
  if (slip_status_is_ok(status)) status = slip__run_admit(run, drives);
  if (slip_status_is_ok(status)) {
    *out = run;
    return status;
  }
  if (run) slip__run_destroy(run);
  pthread_mutex_lock(&worker->lock);
  ++worker->refused;
  pthread_mutex_unlock(&worker->lock);
  return status;
}

slip_status_t slip_worker_submit(slip_worker_t *worker, int32_t callable, const slip_arg_t *args, size_t arg_count, uint32_t flags,
                                 slip_run_t **out) {
  if (out) *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "submit"));
  if (!out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out is NULL, expected where to put the run; slip_worker_run() does without");
  SLIP_RETURN_IF_ERROR(slip__worker_enter(worker, "submit", true));
  slip_status_t status = slip__run_submit(worker, callable, args, arg_count, flags, false, out);
  slip__worker_leave(worker);
  return status;
}

slip_status_t slip_worker_run(slip_worker_t *worker, int32_t callable, const slip_arg_t *args, size_t arg_count, uint32_t flags,
                              slip_run_t **out) {
  slip_run_t *run = NULL;
  if (out) *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__worker_enter(worker, "run", true));
  slip_status_t status = slip__run_submit(worker, callable, args, arg_count, flags, true, &run);
  if (slip_status_is_ok(status)) {
    slip__run_drive(run);
    status = slip_run_error(run);
    if (slip_status_is_ok(status) && out) {
      *out = run;
    } else {
      slip__run_unreference(run);
    }
  }
  slip__worker_leave(worker);
  return status;
}
