// SPDX-License-Identifier: Apache-2.0
// From a caller's arguments to the frame of a launch (run.h has the steps).
//
// Plan shows the arguments to the call frame's own checks as if they all were on the device: host tensors with their host addresses,
// outputs with addresses that nobody has. So every rule and every sentence is the frame's, and nothing is allocated for a call that is
// refused. Host and device addresses never meet by chance: where they differ in kind, the platform keeps them apart.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "contract/signature.h"
#include "program_mode/run.h"

// Where outputs lie while the call is only checked: above every user address, and half of what is left for sizes.
#define SLIP__PLAN_OUTPUTS (UINT64_C(1) << 62)

#define SLIP__BIND_REFUSE(run, index, code, format, ...)                                                                \
  SLIP_STATUS((code), "%.128s: parameter %" PRIu32 " '%.128s' (%s): " format, (run)->callable->name, (uint32_t)(index), \
              slip_signature_param((run)->params, (index))->name,                                                       \
              slip__direction_name(slip_signature_param((run)->params, (index))->direction), __VA_ARGS__)

// --- tensors that the caller passed ------------------------------------------------------------------------------------------------------

static slip_status_t slip__bind_refuse_owned(const slip_run_t *run, uint32_t index, uint64_t begin, uint64_t bytes) {
  return SLIP__BIND_REFUSE(run, index, SLIP_CODE_INVALID_ARGUMENT,
                           "expected memory of this worker, came %" PRIu64 " bytes at 0x%" PRIx64
                           ", which it never gave out, has freed, or which leave their allocation; pass a live tensor of this worker",
                           bytes, begin);
}

// Memory of the worker: pinned until the run is done.
static slip_status_t slip__bind_owned(slip_run_t *run, uint32_t index) {
  slip_worker_t *worker = run->worker;
  slip__binding_t *binding = &run->bindings[index];
  uint64_t begin = 0, end = 0;
  if (binding->given.device.platform != worker->device.platform || binding->given.device.ordinal != worker->device.ordinal) {
    return SLIP__BIND_REFUSE(run, index, SLIP_CODE_INVALID_ARGUMENT,
                             "expected a tensor of this worker, on %s:%d, came one of a worker on %s:%d; copy it through the host",
                             worker->platform_name, worker->device.ordinal, slip_platform_name(binding->given.device.platform),
                             binding->given.device.ordinal);
  }
  binding->kind = SLIP__BINDING_OWNED;
  binding->device.flags &= (uint8_t)~SLIP_TENSOR_WORKER_OWNED;
  if (!slip_tensor_byte_span(&binding->given, &begin, &end) || begin == end) return slip_ok_status();
  pthread_mutex_lock(&worker->lock);
  slip__block_t *block = slip__block_find(worker, begin, end - begin);
  if (block) {
    ++block->pins;
    binding->block = block;
    binding->device.storage_base = block->address;
    binding->device.storage_bytes = block->bytes;
  }
  pthread_mutex_unlock(&worker->lock);
  return block ? slip_ok_status() : slip__bind_refuse_owned(run, index, begin, end - begin);
}

static void slip__bind_host(slip_run_t *run, uint32_t index) {
  slip__binding_t *binding = &run->bindings[index];
  uint64_t begin = 0, end = 0;
  binding->device.device = run->worker->device;
  binding->kind = SLIP__BINDING_IN_PLACE;
  if (run->worker->host_memory) return;
  run->reframe = true;
  binding->kind = SLIP__BINDING_STAGED;
  binding->leader = index;
  if (!slip_tensor_byte_span(&binding->given, &begin, &end)) return;  // the frame refuses it
  binding->host = (void *)(uintptr_t)begin;
  binding->bytes = end - begin;
}

static slip_status_t slip__bind_tensor(slip_run_t *run, uint32_t index, const slip_tensor_t *tensor) {
  slip__binding_t *binding = &run->bindings[index];
  if (tensor->struct_size < sizeof(*tensor)) return slip_ok_status();  // the frame refuses it; it may be shorter than what we would copy
  slip_status_t status = slip_tensor_validate(tensor);
  if (!slip_status_is_ok(status)) {
    return slip_status_annotate(status, "%.128s: parameter %" PRIu32 " '%.128s'", run->callable->name, index,
                                slip_signature_param(run->params, index)->name);
  }
  binding->given = *tensor;
  binding->given.struct_size = (uint32_t)sizeof(*tensor);
  binding->device = binding->given;
  run->args[index] = slip_arg_tensor(&binding->device, NULL);
  if ((tensor->flags & SLIP_TENSOR_FAKE) != 0) return slip_ok_status();  // the frame refuses it
  if ((tensor->flags & SLIP_TENSOR_WORKER_OWNED) != 0) return slip__bind_owned(run, index);
  if (tensor->device.platform == SLIP_PLATFORM_CPU && tensor->device.ordinal == 0) {
    slip__bind_host(run, index);
    return slip_ok_status();
  }
  return SLIP__BIND_REFUSE(
      run, index, SLIP_CODE_INVALID_ARGUMENT,
      "expected a tensor of this worker or of the host (cpu:0), came memory on %s:%d that the worker does not own; copy "
      "it through the host",
      slip_platform_name(tensor->device.platform), tensor->device.ordinal);
}

// --- omitted outputs ---------------------------------------------------------------------------------------------------------------------

// The dim called |symbol| of the first tensor that the caller passed; false if none has it.
static bool slip__bind_derive(const slip_run_t *run, const char *symbol, int64_t *out) {
  for (uint32_t i = 0; i < run->count; ++i) {
    const slip_param_t *param = slip_signature_param(run->params, i);
    const slip__binding_t *binding = &run->bindings[i];
    bool passed = binding->kind != SLIP__BINDING_NONE && binding->kind != SLIP__BINDING_OUTPUT && binding->given.rank == param->rank;
    for (uint32_t d = 0; passed && d < param->rank; ++d) {
      if (param->dims[d] != SLIP_DIM_DYNAMIC || !param->dim_names[d] || strcmp(param->dim_names[d], symbol) != 0) continue;
      *out = binding->given.dims[d];
      return true;
    }
  }
  return false;
}

static slip_status_t slip__bind_refuse_dim(const slip_run_t *run, uint32_t index, uint32_t dim) {
  const char *symbol = slip_signature_param(run->params, index)->dim_names[dim];
  if (!symbol) {
    return SLIP__BIND_REFUSE(run, index, SLIP_CODE_INVALID_ARGUMENT,
                             "omitted, but dim %" PRIu32 " is dynamic and has no name to derive its size by; pass the tensor", dim);
  }
  return SLIP__BIND_REFUSE(run, index, SLIP_CODE_INVALID_ARGUMENT,
                           "omitted, but its dim %" PRIu32
                           " '%.64s' cannot be derived, since no tensor that was passed has a dim of that "
                           "name; pass the tensor",
                           dim, symbol);
}

// |*inout_unknown|: why a dim could not be derived; it is 0 then, so that the frame can still look at the other arguments.
static slip_status_t slip__bind_output(slip_run_t *run, uint32_t index, uint64_t *inout_address, slip_status_t *inout_unknown) {
  const slip_param_t *param = slip_signature_param(run->params, index);
  slip__binding_t *binding = &run->bindings[index];
  slip_tensor_t *tensor = &binding->device;
  int64_t dims[SLIP_MAX_RANK] = {0};
  for (uint32_t d = 0; d < param->rank; ++d) {
    dims[d] = param->dims[d];
    if (dims[d] != SLIP_DIM_DYNAMIC) continue;
    dims[d] = 0;
    if (param->dim_names[d] && slip__bind_derive(run, param->dim_names[d], &dims[d])) continue;
    if (slip_status_is_ok(*inout_unknown)) *inout_unknown = slip__bind_refuse_dim(run, index, d);
  }
  slip_status_t status =
      slip_tensor_initialize(tensor, param->dtype, param->rank, dims, (void *)(uintptr_t)*inout_address, run->worker->device);
  if (slip_status_is_ok(status) && tensor->storage_bytes > UINT64_MAX - *inout_address - 64)
    status = SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "the outputs need more memory than any device has");
  if (!slip_status_is_ok(status))
    return slip_status_annotate(status, "%.128s: allocating parameter %" PRIu32 " '%.128s'", run->callable->name, index, param->name);
  binding->kind = SLIP__BINDING_OUTPUT;
  binding->bytes = tensor->storage_bytes;
  run->args[index] = slip_arg_tensor(tensor, NULL);
  run->reframe = true;
  *inout_address += (tensor->storage_bytes + 63) & ~UINT64_C(63);
  return slip_ok_status();
}

// --- plan --------------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__plan_bind(slip_run_t *run, const slip_arg_t *args, slip_status_t *inout_unknown) {
  uint64_t address = SLIP__PLAN_OUTPUTS;
  for (uint32_t i = 0; i < run->count; ++i) {
    run->args[i] = args[i];
    bool tensor = slip_signature_param(run->params, i)->direction != SLIP_DIRECTION_SCALAR;
    if (tensor && args[i].kind == SLIP_ARG_TENSOR && args[i].value.tensor)
      SLIP_RETURN_IF_ERROR(slip__bind_tensor(run, i, args[i].value.tensor));
  }
  for (uint32_t i = 0; i < run->count; ++i) {
    if (args[i].kind == SLIP_ARG_MISSING && slip_signature_param(run->params, i)->direction == SLIP_DIRECTION_OUT)
      SLIP_RETURN_IF_ERROR(slip__bind_output(run, i, &address, inout_unknown));
  }
  return slip_ok_status();
}

slip_status_t slip__run_plan(slip_run_t *run, const slip_arg_t *args, size_t arg_count) {
  const char *name = run->callable->name;
  slip_device_t device = run->worker->device;
  slip_status_t unknown = slip_ok_status();
  // The count first: the rest looks at each argument.
  if (arg_count != run->count || (arg_count > 0 && !args)) {
    slip_status_t refusal = slip_frame_initialize(&run->frame, run->params, name, device, args, args ? arg_count : 0, SLIP_FRAME_NONE);
    return slip_status_is_ok(refusal) ? SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: the arguments do not match", name) : refusal;
  }
  run->reframe = slip_signature_hash(run->params) != slip_signature_hash(run->callable->lowered);
  slip_status_t status = slip__plan_bind(run, args, &unknown);
  if (slip_status_is_ok(status))
    status = slip_frame_initialize(&run->frame, run->params, name, device, run->args, run->count, SLIP_FRAME_NONE);
  // A wrong argument is the better answer: the dim may be unknown because of it.
  if (slip_status_is_ok(status)) return unknown;
  slip_status_free(unknown);
  return status;
}

// --- materialise -------------------------------------------------------------------------------------------------------------------------

static void slip__binding_place(slip__binding_t *binding, const slip__block_t *block) {
  binding->device.data = binding->device.storage_base = block->address;
  binding->device.byte_offset = 0;
  binding->device.storage_bytes = binding->bytes;
}

static slip_status_t slip__materialise_output(slip_run_t *run, slip__binding_t *binding) {
  slip_worker_t *worker = run->worker;
  slip_status_t status = slip_ok_status();
  binding->device.data = binding->device.storage_base = NULL;
  if (binding->bytes > 0) {
    SLIP_RETURN_IF_ERROR(slip__block_allocate(worker, binding->bytes, SLIP__BLOCK_RUN, true, &binding->block));
    slip__binding_place(binding, binding->block);
  }
  binding->given = binding->device;
  binding->given.flags = SLIP_TENSOR_WORKER_OWNED;
  if (binding->bytes > 0 && (run->flags & SLIP_RUN_ZERO_OUTPUTS) != 0) {
    SLIP__CONTEXT_BOUND(status, worker->context,
                        slip__platform_memory_fill(worker->platform, worker->device.ordinal, binding->block->address, 0, binding->bytes));
  }
  return status;
}

// The device's copy of a host tensor. Arguments of one range share it, so that what is written through one is read through the other, as
// in place.
static slip_status_t slip__materialise_copy(slip_run_t *run, uint32_t index) {
  slip__binding_t *binding = &run->bindings[index];
  uint32_t direction = slip_signature_param(run->params, index)->direction;
  binding->device.data = binding->device.storage_base = NULL;
  binding->device.byte_offset = 0;
  binding->device.storage_bytes = 0;
  if (binding->bytes == 0) return slip_ok_status();
  for (uint32_t i = 0; i < index && binding->leader == index; ++i) {
    const slip__binding_t *other = &run->bindings[i];
    if (other->kind == SLIP__BINDING_STAGED && other->host == binding->host && other->bytes == binding->bytes)
      binding->leader = other->leader;
  }
  slip__binding_t *leader = &run->bindings[binding->leader];
  if (!leader->block) SLIP_RETURN_IF_ERROR(slip__block_allocate(run->worker, binding->bytes, SLIP__BLOCK_STAGING, true, &leader->block));
  leader->upload |= direction != SLIP_DIRECTION_OUT;
  leader->download |= direction != SLIP_DIRECTION_IN;
  slip__binding_place(binding, leader->block);
  return slip_ok_status();
}

// Whether an unfinished run is going to write host memory that |run| reads.
static bool slip__materialise_must_wait(slip_run_t *run) {
  bool wait = false;
  slip_worker_t *worker = run->worker;
  pthread_mutex_lock(&worker->lock);
  for (const slip_run_t *before = worker->first; before && !wait; before = before->next) {
    for (uint32_t i = 0; i < run->count; ++i) {
      const slip__binding_t *reads = &run->bindings[i];
      for (uint32_t k = 0; reads->upload && k < before->count; ++k) {
        const slip__binding_t *writes = &before->bindings[k];
        uintptr_t a = (uintptr_t)reads->host, b = (uintptr_t)writes->host;
        wait |= writes->download && (a < b ? b - a < reads->bytes : a - b < writes->bytes);
      }
    }
  }
  pthread_mutex_unlock(&worker->lock);
  return wait;
}

static slip_status_t slip__materialise_frame(slip_run_t *run) {
  if (!run->reframe) return slip_ok_status();
  slip_frame_deinitialize(&run->frame);
  return slip_frame_initialize(&run->frame, run->callable->lowered, run->callable->name, run->worker->device, run->args, run->count,
                               SLIP_FRAME_NONE);
}

slip_status_t slip__run_materialise(slip_run_t *run) {
  for (uint32_t i = 0; i < run->count; ++i) {
    slip__binding_t *binding = &run->bindings[i];
    slip_status_t status = slip_ok_status();
    if (binding->kind == SLIP__BINDING_OUTPUT) status = slip__materialise_output(run, binding);
    if (binding->kind == SLIP__BINDING_STAGED) status = slip__materialise_copy(run, i);
    SLIP_RETURN_IF_ERROR_ANNOTATED(status, "%.128s: parameter %" PRIu32 " '%.128s'", run->callable->name, i,
                                   slip_signature_param(run->params, i)->name);
  }
  SLIP_RETURN_IF_ERROR(slip__materialise_frame(run));
  run->deferred = slip__materialise_must_wait(run);
  return run->deferred ? slip_ok_status() : slip__run_upload(run);
}

static slip_status_t slip__run_transfer(slip_run_t *run, bool upload) {
  for (uint32_t i = 0; i < run->count; ++i) {
    const slip__binding_t *b = &run->bindings[i];
    slip_status_t status = slip_ok_status();
    if (upload && b->upload) status = slip__worker_transfer(run->worker, b->block->address, b->host, b->bytes, SLIP_COPY_HOST_TO_DEVICE);
    if (!upload && b->download) status = slip__worker_transfer(run->worker, b->host, b->block->address, b->bytes, SLIP_COPY_DEVICE_TO_HOST);
    SLIP_RETURN_IF_ERROR_ANNOTATED(status, "%.128s: copying parameter %" PRIu32 " '%.128s' %s the device", run->callable->name, i,
                                   slip_signature_param(run->params, i)->name, upload ? "to" : "from");
  }
  return slip_ok_status();
}

slip_status_t slip__run_upload(slip_run_t *run) {
  return slip__run_transfer(run, true);
}

slip_status_t slip__run_download(slip_run_t *run) {
  return slip__run_transfer(run, false);
}

// --- the end -----------------------------------------------------------------------------------------------------------------------------

static void slip__run_let_go(slip_run_t *run, bool outputs) {
  slip_worker_t *worker = run->worker;
  for (uint32_t i = 0; i < run->count; ++i) {
    slip__binding_t *binding = &run->bindings[i];
    slip__block_t *block = binding->block;
    if (!block) continue;
    pthread_mutex_lock(&worker->lock);
    if (binding->kind == SLIP__BINDING_STAGED || (outputs && binding->kind == SLIP__BINDING_OUTPUT)) block->dead = true;
    bool last = slip__block_unpin(worker, block);
    pthread_mutex_unlock(&worker->lock);
    // What cannot be given back is kept in the table, and close tells.
    if (last) slip_status_free(slip__block_return(worker, block));
    if (outputs || binding->kind != SLIP__BINDING_OUTPUT) binding->block = NULL;
  }
}

void slip__run_unbind(slip_run_t *run) {
  slip_frame_deinitialize(&run->frame);
  if (!run->under_way) slip__run_let_go(run, false);
}

void slip__run_discard(slip_run_t *run) {
  slip_frame_deinitialize(&run->frame);
  slip__run_let_go(run, true);
}
