// SPDX-License-Identifier: Apache-2.0
// Register: the content is looked up, and if it is new, prepared on the context without the lock. Two registers of one new content may both
// prepare it (the context loads the code once, and gives two ids): the one that comes second to the table takes the record of the first and
// releases its own id.
#include "program_mode/callable.h"

#include <inttypes.h>
#include <string.h>

#include "base/allocator.h"
#include "program_mode/worker.h"

// --- records -----------------------------------------------------------------------------------------------------------------------------

static void slip__callable_free(const slip_worker_t *worker, slip__callable_t *callable) {
  if (!callable) return;
  slip_signature_release(callable->params);
  slip_signature_release(callable->lowered);
  if (callable->name) slip__free(worker->allocator, callable->name, strlen(callable->name) + 1);
  slip__free(worker->allocator, callable, sizeof(*callable));
}

// |params| NULL: what the image takes.
static slip_status_t slip__callable_describe(const slip_worker_t *worker, const slip_image_view_t *view, slip_signature_t *params,
                                             slip__callable_t *callable) {
  const char *name = slip_image_entry_name(view, 0);
  memcpy(callable->content_hash, view->content_hash, sizeof(callable->content_hash));
  callable->image_bytes = view->bytes.size;
  callable->references = 1;
  SLIP_RETURN_IF_ERROR(slip__strndup(worker->allocator, name, strlen(name), &callable->name));
  SLIP_RETURN_IF_ERROR(slip_image_entry_signature(view, 0, worker->allocator, &callable->lowered));
  callable->params = params ? params : callable->lowered;
  slip_signature_retain(callable->params);
  return slip_ok_status();
}

// Lock held. What is called differently is another callable, also with the same code.
static slip__callable_t *slip__callable_find(const slip_worker_t *worker, const slip__callable_t *like) {
  for (slip__callable_t *c = worker->callables; c; c = c->next) {
    if (c->references > 0 && c->image_bytes == like->image_bytes &&
        memcmp(c->content_hash, like->content_hash, sizeof(c->content_hash)) == 0 && slip_signature_equal(c->params, like->params))
      return c;
  }
  return NULL;
}

// Lock held. NULL: unknown, or nobody's any more.
static slip__callable_t *slip__callable_at(const slip_worker_t *worker, int32_t id) {
  slip__callable_t *callable = worker->callables;
  while (callable && (callable->id != id || callable->references == 0)) callable = callable->next;
  return callable;
}

// Lock held. True if nobody needs it any more: then it is out of the list, and the caller's to retire.
static bool slip__callable_drop(slip_worker_t *worker, slip__callable_t *callable) {
  if (callable->references > 0 || callable->pins > 0) return false;
  slip__callable_t **link = &worker->callables;
  while (*link != callable) link = &(*link)->next;
  *link = callable->next;
  return true;
}

static slip_status_t slip__callable_retire(slip_worker_t *worker, slip__callable_t *callable) {
  slip_status_t status = slip_context_release(worker->context, callable->id);
  slip__callable_free(worker, callable);
  return status;
}

slip__callable_t *slip__callable_pin(slip_worker_t *worker, int32_t id) {
  slip__callable_t *callable = slip__callable_at(worker, id);
  if (callable) ++callable->pins;
  return callable;
}

void slip__callable_unpin(slip_worker_t *worker, slip__callable_t *callable) {
  pthread_mutex_lock(&worker->lock);
  --callable->pins;
  bool last = slip__callable_drop(worker, callable);
  pthread_mutex_unlock(&worker->lock);
  if (last) slip_status_free(slip__callable_retire(worker, callable));
}

void slip__callables_clear(slip_worker_t *worker) {
  while (worker->callables) {
    slip__callable_t *callable = worker->callables;
    worker->callables = callable->next;
    slip__callable_free(worker, callable);
  }
}

// --- register ----------------------------------------------------------------------------------------------------------------------------

// More scratch than is reserved is BUSY while a run executes: wait until none does, and keep the next from beginning.
static slip_status_t slip__callable_prepare_alone(slip_worker_t *worker, slip_const_bytes_t image, int32_t *out_id) {
  pthread_mutex_lock(&worker->lock);
  while (worker->executing) pthread_cond_wait(&worker->changed, &worker->lock);
  worker->executing = true;
  pthread_mutex_unlock(&worker->lock);
  slip_status_t status = slip_context_prepare(worker->context, image, out_id);
  pthread_mutex_lock(&worker->lock);
  worker->executing = false;
  pthread_cond_broadcast(&worker->changed);
  if (worker->first) pthread_cond_signal(&worker->work);
  pthread_mutex_unlock(&worker->lock);
  return status;
}

static slip_status_t slip__callable_prepare(slip_worker_t *worker, slip_const_bytes_t image, int32_t *out_id) {
  slip_status_t status = slip_context_prepare(worker->context, image, out_id);
  if (slip_status_code(status) != SLIP_CODE_BUSY) return status;
  slip_status_free(status);
  return slip__callable_prepare_alone(worker, image, out_id);
}

// The id of a callable like |fresh|, with one more reference; -1: there is none.
static int32_t slip__callable_reuse(slip_worker_t *worker, const slip__callable_t *fresh) {
  pthread_mutex_lock(&worker->lock);
  slip__callable_t *found = slip__callable_find(worker, fresh);
  if (found) ++found->references;
  int32_t id = found ? found->id : -1;
  pthread_mutex_unlock(&worker->lock);
  return id;
}

// |fresh| is in the list on success with |*out_taken|.
static slip_status_t slip__callable_enlist(slip_worker_t *worker, slip_const_bytes_t image, slip__callable_t *fresh, bool *out_taken,
                                           int32_t *out_id) {
  *out_id = slip__callable_reuse(worker, fresh);
  if (*out_id >= 0) return slip_ok_status();
  SLIP_RETURN_IF_ERROR(slip__callable_prepare(worker, image, &fresh->id));
  pthread_mutex_lock(&worker->lock);
  slip__callable_t *found = slip__callable_find(worker, fresh);
  *out_taken = found == NULL;
  if (found) {
    ++found->references;
  } else {
    fresh->next = worker->callables;
    worker->callables = fresh;
  }
  *out_id = found ? found->id : fresh->id;
  pthread_mutex_unlock(&worker->lock);
  // The other one's id serves; a failure to release ours is the context's to repeat.
  if (found) slip_status_free(slip_context_release(worker->context, fresh->id));
  return slip_ok_status();
}

static slip_status_t slip__callable_register(slip_worker_t *worker, slip_const_bytes_t image, slip_signature_t *params, int32_t *out_id) {
  slip_image_view_t view;
  void *memory = NULL;
  bool taken = false;
  SLIP_RETURN_IF_ERROR(slip_image_open(image, &view));
  SLIP_RETURN_IF_ERROR(slip__alloc(worker->allocator, sizeof(slip__callable_t), &memory));
  slip__callable_t *fresh = memory;
  slip_status_t status = slip__callable_describe(worker, &view, params, fresh);
  if (slip_status_is_ok(status)) status = slip__callable_enlist(worker, image, fresh, &taken, out_id);
  if (!taken) slip__callable_free(worker, fresh);
  return status;
}

slip_status_t slip_worker_register(slip_worker_t *worker, slip_const_bytes_t image, int32_t *out_callable) {
  if (out_callable) *out_callable = -1;
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "register"));
  if (!out_callable) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out_callable is NULL, expected where to put the handle");
  SLIP_RETURN_IF_ERROR(slip__worker_enter(worker, "register", true));
  slip_status_t status = slip__callable_register(worker, image, NULL, out_callable);
  slip__worker_leave(worker);
  return slip_status_annotate(status, "registering a callable on %s:%d", worker->platform_name, worker->device.ordinal);
}

// The image must take what the artifact's params promise, parameter by parameter.
static slip_status_t slip__callable_check_params(slip_signature_t *params, slip_signature_t *lowered) {
  size_t count = slip_signature_param_count(params);
  if (count != slip_signature_param_count(lowered)) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "params has %zu parameters, but lowered_params %zu; recompile it", count,
                       slip_signature_param_count(lowered));
  }
  for (size_t i = 0; i < count; ++i) {
    const slip_param_t *a = slip_signature_param(params, i), *b = slip_signature_param(lowered, i);
    if (a->direction == b->direction && a->dtype == b->dtype && a->rank == b->rank) continue;
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "parameter %zu '%.128s' differs between params and lowered_params; recompile it", i,
                       a->name);
  }
  return slip_ok_status();
}

static slip_status_t slip__callable_register_artifact(slip_worker_t *worker, slip_artifact_t *artifact, int32_t *out_id) {
  slip_const_bytes_t image = {NULL, 0};
  if (slip_artifact_contract(artifact) != SLIP_CONTRACT_PROGRAM) {  // told from the metadata, before the image is even read
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "it was compiled for the kernel contract, expected the program contract; recompile it");
  }
  SLIP_RETURN_IF_ERROR(slip_artifact_image(artifact, &image));
  slip_signature_t *params = slip_artifact_params(artifact);
  SLIP_RETURN_IF_ERROR(slip__callable_check_params(params, slip_artifact_lowered_params(artifact)));
  return slip__callable_register(worker, image, params, out_id);
}

slip_status_t slip_worker_register_artifact(slip_worker_t *worker, slip_artifact_t *artifact, int32_t *out_callable) {
  if (out_callable) *out_callable = -1;
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "register"));
  if (!out_callable) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out_callable is NULL, expected where to put the handle");
  if (!artifact) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "artifact is NULL, expected one that slip_artifact_open() has given");
  SLIP_RETURN_IF_ERROR(slip__worker_enter(worker, "register", true));
  slip_status_t status = slip__callable_register_artifact(worker, artifact, out_callable);
  slip__worker_leave(worker);
  return slip_status_annotate(status, "registering artifact \"%s\" on %s:%d", slip_artifact_name(artifact), worker->platform_name,
                              worker->device.ordinal);
}

// --- the rest ----------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__callable_refuse(int32_t id) {
  return SLIP_STATUS(SLIP_CODE_NOT_PREPARED, "callable %" PRId32 " is unknown, unregistered or of another worker; register it first", id);
}

slip_status_t slip_worker_unregister(slip_worker_t *worker, int32_t id) {
  bool last = false;
  SLIP_RETURN_IF_ERROR(slip__worker_enter(worker, "unregister", false));
  pthread_mutex_lock(&worker->lock);
  slip__callable_t *callable = slip__callable_at(worker, id);
  if (callable) {
    --callable->references;
    last = slip__callable_drop(worker, callable);
  }
  pthread_mutex_unlock(&worker->lock);
  slip_status_t status = callable ? slip_ok_status() : slip__callable_refuse(id);
  if (last) status = slip__callable_retire(worker, callable);
  slip__worker_leave(worker);
  return status;
}

slip_status_t slip_worker_signature(slip_worker_t *worker, int32_t id, slip_signature_t **out) {
  if (out) *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "signature"));
  if (!out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out is NULL, expected where to put the signature");
  SLIP_RETURN_IF_ERROR(slip__worker_enter(worker, "signature", false));
  pthread_mutex_lock(&worker->lock);
  slip__callable_t *callable = slip__callable_at(worker, id);
  if (callable) {
    slip_signature_retain(callable->params);
    *out = callable->params;
  }
  pthread_mutex_unlock(&worker->lock);
  slip__worker_leave(worker);
  return callable ? slip_ok_status() : slip__callable_refuse(id);
}
