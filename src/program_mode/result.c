// SPDX-License-Identifier: Apache-2.0
// Handles of runs: waiting, results, the end.
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/allocator.h"
#include "kernel_mode/latch.h"
#include "os/clock.h"
#include "os/fork.h"
#include "program_mode/run.h"

static bool slip__run_done(const slip_run_t *run) {
  return atomic_load_explicit(&run->done, memory_order_acquire) != 0;
}

static slip_status_t slip__run_check(const slip_run_t *run, const char *what) {
  SLIP_RETURN_IF_ERROR(slip__latch_check(what));
  if (!run) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: run is NULL, expected a handle of submit or run", what);
  return slip__worker_check(run->worker, what);
}

static bool slip__run_foreign(const slip_run_t *run) {
  return slip__latch_forked() || run->worker->fork_epoch != slip__fork_epoch();
}

// --- references --------------------------------------------------------------------------------------------------------------------------

// Outputs that nobody took. A worker that is not READY gives them back in close.
static void slip__run_free_outputs(slip_run_t *run) {
  slip_worker_t *worker = run->worker;
  for (uint32_t i = 0; i < run->count; ++i) {
    slip__binding_t *binding = &run->bindings[i];
    if (binding->kind != SLIP__BINDING_OUTPUT || binding->taken || !binding->block) continue;
    pthread_mutex_lock(&worker->lock);
    bool ours = slip__worker_enter_quietly(worker), last = ours && slip__block_kill(worker, binding->block);
    pthread_mutex_unlock(&worker->lock);
    if (last) slip_status_free(slip__block_return(worker, binding->block));  // kept in the table, and told by close
    if (ours) slip__worker_leave(worker);
    binding->block = NULL;
  }
}

void slip__run_unreference(slip_run_t *run) {
  if (atomic_fetch_sub_explicit(&run->references, 1, memory_order_acq_rel) != 1) return;
  slip_worker_t *worker = run->worker;
  slip__run_free_outputs(run);
  slip_signature_release(run->params);
  slip_status_free(run->status);
  slip__free(worker->allocator, run, run->block_bytes);
  slip__worker_shell_release(worker);
}

void slip_run_retain(slip_run_t *run) {
  if (run && !slip__run_foreign(run)) atomic_fetch_add_explicit(&run->references, 1, memory_order_relaxed);
}

void slip_run_release(slip_run_t *run) {
  if (run && !slip__run_foreign(run)) slip__run_unreference(run);
}

// --- waiting -----------------------------------------------------------------------------------------------------------------------------

bool slip_run_done(const slip_run_t *run) {
  return run && slip__run_done(run);
}

slip_status_t slip_run_error(slip_run_t *run) {
  SLIP_RETURN_IF_ERROR(slip__run_check(run, "error"));
  if (!slip__run_done(run)) return SLIP_STATUS(SLIP_CODE_NOT_READY, "the run is not done yet");
  return slip_status_clone(run->status);
}

// Lock held. False once |timeout_ns| from |start| is over.
static bool slip__run_sleep(slip_worker_t *worker, uint64_t start, int64_t timeout_ns) {
  if (timeout_ns < 0) {
    pthread_cond_wait(&worker->changed, &worker->lock);
    return true;
  }
  uint64_t end = start + (uint64_t)timeout_ns;
  struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
  if (slip__clock_now_ns() >= end) return false;
  (void)pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
  return true;
}

slip_status_t slip_run_wait(slip_run_t *run, int64_t timeout_ns) {
  SLIP_RETURN_IF_ERROR(slip__run_check(run, "wait"));
  slip_worker_t *worker = run->worker;
  uint64_t start = timeout_ns > 0 ? slip__clock_now_ns() : 0;
  bool late = false;
  pthread_mutex_lock(&worker->lock);
  while (!slip__run_done(run) && !late) late = !slip__run_sleep(worker, start, timeout_ns);
  pthread_mutex_unlock(&worker->lock);
  if (slip__run_done(run)) return slip_status_clone(run->status);
  return SLIP_STATUS(SLIP_CODE_TIMEOUT, "the run is not done within %" PRId64 " ns; it goes on", timeout_ns);
}

// --- results -----------------------------------------------------------------------------------------------------------------------------

size_t slip_run_result_count(const slip_run_t *run) {
  const int32_t *indices = NULL;
  return run ? slip_signature_return_aliases(run->params, &indices) : 0;
}

// A run that is done and well, and a parameter of it that is a tensor.
static slip_status_t slip__run_require(slip_run_t *run, size_t index) {
  if (!slip__run_done(run)) return SLIP_STATUS(SLIP_CODE_NOT_READY, "the run is not done yet; wait for it");
  if (!slip_status_is_ok(run->status)) return slip_status_clone(run->status);
  if (index >= run->count) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "parameter %zu does not exist; the callable has %" PRIu32 ", counted from 0", index,
                       run->count);
  }
  const slip_param_t *param = slip_signature_param(run->params, index);
  if (param->direction == SLIP_DIRECTION_SCALAR)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "parameter %zu '%.128s' is a scalar, expected a tensor", index, param->name);
  return slip_ok_status();
}

static slip_status_t slip__run_refuse_closed(const slip_run_t *run, size_t index) {
  return SLIP_STATUS(SLIP_CODE_INVALID_STATE,
                     "parameter %zu '%.128s' was an output in the worker's memory, which went with the worker; read results before close",
                     index, slip_signature_param(run->params, index)->name);
}

slip_status_t slip_run_tensor(slip_run_t *run, size_t index, slip_tensor_t *out) {
  if (out) memset(out, 0, sizeof(*out));
  SLIP_RETURN_IF_ERROR(slip__run_check(run, "result"));
  if (!out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out is NULL, expected where to put the tensor");
  SLIP_RETURN_IF_ERROR(slip__run_require(run, index));
  const slip__binding_t *binding = &run->bindings[index];
  if (binding->kind == SLIP__BINDING_OUTPUT && slip__worker_state(run->worker) != SLIP_WORKER_READY)
    return slip__run_refuse_closed(run, index);
  *out = binding->given;
  return slip_ok_status();
}

slip_status_t slip_run_result(slip_run_t *run, size_t index, slip_tensor_t *out) {
  const int32_t *indices = NULL;
  if (out) memset(out, 0, sizeof(*out));
  SLIP_RETURN_IF_ERROR(slip__run_check(run, "result"));
  size_t count = slip_signature_return_aliases(run->params, &indices);
  if (index >= count)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "result %zu does not exist; the callable returns %zu, counted from 0", index, count);
  return slip_run_tensor(run, (size_t)indices[index], out);
}

slip_status_t slip_run_take(slip_run_t *run, size_t index, slip_tensor_t *out) {
  SLIP_RETURN_IF_ERROR(slip_run_tensor(run, index, out));
  slip_worker_t *worker = run->worker;
  slip__binding_t *binding = &run->bindings[index];
  const char *name = slip_signature_param(run->params, index)->name;
  slip_status_t status = slip_ok_status();
  pthread_mutex_lock(&worker->lock);
  if (binding->kind != SLIP__BINDING_OUTPUT) {
    status = SLIP_STATUS(SLIP_CODE_INVALID_STATE, "parameter %zu '%.128s' was passed by the caller, who has it", index, name);
  } else if (binding->taken) {
    status = SLIP_STATUS(SLIP_CODE_INVALID_STATE, "parameter %zu '%.128s' was taken before", index, name);
  } else if (slip__worker_state(worker) != SLIP_WORKER_READY) {
    status = slip__run_refuse_closed(run, index);
  } else {
    binding->taken = true;
    if (binding->block) binding->block->owner = SLIP__BLOCK_CALLER;
  }
  pthread_mutex_unlock(&worker->lock);
  if (!slip_status_is_ok(status)) memset(out, 0, sizeof(*out));
  return status;
}
