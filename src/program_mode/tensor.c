// SPDX-License-Identifier: Apache-2.0
// Tensors in memory of the worker.
#include <inttypes.h>
#include <string.h>

#include "program_mode/worker.h"

static slip_status_t slip__tensor_zero(slip_worker_t *worker, const slip__block_t *block) {
  slip_status_t status = slip_ok_status();
  SLIP__CONTEXT_BOUND(status, worker->context,
                      slip__platform_memory_fill(worker->platform, worker->device.ordinal, block->address, 0, block->bytes));
  return status;
}

static slip_status_t slip__tensor_create(slip_worker_t *worker, uint32_t flags, slip_tensor_t *tensor) {
  slip__block_t *block = NULL;
  if (tensor->storage_bytes > 0)
    SLIP_RETURN_IF_ERROR(slip__block_allocate(worker, tensor->storage_bytes, SLIP__BLOCK_CALLER, false, &block));
  if (block && (flags & SLIP_WORKER_TENSOR_ZERO) != 0) {
    slip_status_t status = slip__tensor_zero(worker, block);
    if (!slip_status_is_ok(status)) {
      pthread_mutex_lock(&worker->lock);
      bool last = slip__block_kill(worker, block);
      pthread_mutex_unlock(&worker->lock);
      return last ? slip_status_join(status, slip__block_return(worker, block)) : status;
    }
  }
  tensor->data = tensor->storage_base = block ? block->address : NULL;
  tensor->device = worker->device;
  tensor->flags = SLIP_TENSOR_WORKER_OWNED;
  return slip_ok_status();
}

slip_status_t slip_worker_tensor_create(slip_worker_t *worker, slip_dtype_t dtype, uint8_t rank, const int64_t *dims, uint32_t flags,
                                        slip_tensor_t *out) {
  slip_device_t nowhere = {SLIP_PLATFORM_NONE, 0};
  slip_tensor_t tensor;
  if (out) memset(out, 0, sizeof(*out));
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "tensor_create"));
  if (!out) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "out is NULL, expected where to put the tensor");
  if ((flags & ~(uint32_t)SLIP_WORKER_TENSOR_ZERO) != 0)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "flags is 0x%" PRIx32 ", known is 0x%x", flags, (unsigned)SLIP_WORKER_TENSOR_ZERO);
  SLIP_RETURN_IF_ERROR(slip_tensor_initialize(&tensor, dtype, rank, dims, NULL, nowhere));
  SLIP_RETURN_IF_ERROR(slip__worker_enter(worker, "tensor_create", true));
  slip_status_t status = slip__tensor_create(worker, flags, &tensor);
  if (slip_status_is_ok(status)) *out = tensor;
  slip__worker_leave(worker);
  return status;
}

// Malformed, or not of this worker as far as the descriptor itself says.
static slip_status_t slip__tensor_check(const slip_worker_t *worker, const slip_tensor_t *tensor, const char *what) {
  if (!tensor) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: tensor is NULL, expected one of slip_worker_tensor_create()", what);
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_tensor_validate(tensor), "%s", what);
  if ((tensor->flags & SLIP_TENSOR_WORKER_OWNED) != 0 && tensor->device.platform == worker->device.platform &&
      tensor->device.ordinal == worker->device.ordinal)
    return slip_ok_status();
  char text[160];
  (void)slip_tensor_format(tensor, text, sizeof(text));
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: expected a tensor of this worker, came %s%s; pass one of slip_worker_tensor_create()",
                     what, text, (tensor->flags & SLIP_TENSOR_WORKER_OWNED) != 0 ? "" : ", which no worker owns");
}

slip_status_t slip_worker_tensor_free(slip_worker_t *worker, const slip_tensor_t *tensor) {
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "tensor_free"));
  if (slip__worker_state(worker) != SLIP_WORKER_READY) return slip__worker_refuse_state(worker, "tensor_free");
  SLIP_RETURN_IF_ERROR(slip__tensor_check(worker, tensor, "tensor_free"));
  return slip_status_annotate(slip_worker_free(worker, tensor->storage_base), "freeing a tensor");
}

// The bytes of a whole contiguous tensor at |*out_address|.
static slip_status_t slip__tensor_span(const slip_worker_t *worker, const slip_tensor_t *tensor, const char *what, const void *host,
                                       uint64_t size_bytes, void **out_address) {
  uint64_t begin = 0, end = 0;
  if (slip__worker_state(worker) != SLIP_WORKER_READY) return slip__worker_refuse_state(worker, what);
  SLIP_RETURN_IF_ERROR(slip__tensor_check(worker, tensor, what));
  if (!slip_tensor_is_contiguous(tensor)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "%s: the tensor is a view with gaps; copy its parts, or the whole that it is a view of, instead", what);
  }
  if (!slip_tensor_byte_span(tensor, &begin, &end) || end - begin != size_bytes) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "%s: the tensor has %" PRIu64 " bytes, but size_bytes is %" PRIu64 "; pass exactly the tensor's size", what,
                       end - begin, size_bytes);
  }
  if (size_bytes > 0 && !host)
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: the host address is NULL, expected %" PRIu64 " bytes there", what, size_bytes);
  *out_address = (void *)(uintptr_t)begin;
  return slip_ok_status();
}

slip_status_t slip_worker_tensor_write(slip_worker_t *worker, const slip_tensor_t *tensor, const void *source, uint64_t size_bytes) {
  void *address = NULL;
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "tensor_write"));
  SLIP_RETURN_IF_ERROR(slip__tensor_span(worker, tensor, "tensor_write", source, size_bytes, &address));
  return slip_worker_copy(worker, address, source, size_bytes, SLIP_COPY_HOST_TO_DEVICE);
}

slip_status_t slip_worker_tensor_read(slip_worker_t *worker, const slip_tensor_t *tensor, void *target, uint64_t size_bytes) {
  void *address = NULL;
  SLIP_RETURN_IF_ERROR(slip__worker_check(worker, "tensor_read"));
  SLIP_RETURN_IF_ERROR(slip__tensor_span(worker, tensor, "tensor_read", target, size_bytes, &address));
  return slip_worker_copy(worker, target, address, size_bytes, SLIP_COPY_DEVICE_TO_HOST);
}
