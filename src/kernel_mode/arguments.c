// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/arguments.h"

#include "kernel_mode/context.h"
#include "platform/dispatch.h"

uint32_t slip__arguments_class(uint32_t tensors, uint32_t scalars) {
  size_t bytes = tensors * sizeof(slip_otensor_t) + scalars * sizeof(uint64_t), size = SLIP__ARGUMENT_MIN_BYTES;
  uint32_t class = 0;
  for (; size < bytes; size *= 2) ++class;
  return class;
}

// Page-locked and device memory of |class|; each part is kept once it is there.
static slip_status_t slip__arguments_fit_pair(slip_context_t *context, slip__argument_class_t *class, uint32_t count, size_t block_bytes) {
  size_t stride = 0, bytes = 0;
  SLIP_RETURN_IF_ERROR(slip__pool_bytes(count, block_bytes, &stride, &bytes));
  if (!class->pinned) SLIP_RETURN_IF_ERROR(slip_host_allocate(context->platform, bytes, &class->pinned));
  if (!class->device) SLIP_RETURN_IF_ERROR(slip_memory_allocate(context->platform, context->device.ordinal, bytes, &class->device));
  return slip__pool_initialize_over(&class->pool, count, block_bytes, class->pinned, context->allocator);
}

static slip_status_t slip__arguments_free_class(slip_context_t *context, slip__argument_class_t *class) {
  if (class->device)
    SLIP_RETURN_IF_ERROR(slip__context_given_back(context, slip_memory_free(context->platform, context->device.ordinal, class->device)));
  class->device = NULL;
  if (class->pinned) SLIP_RETURN_IF_ERROR(slip__context_given_back(context, slip_host_free(context->platform, class->pinned)));
  class->pinned = NULL;
  return slip_ok_status();
}

slip_status_t slip__arguments_fit(slip_context_t *context, uint32_t index) {
  slip__arguments_t *arguments = &context->registry.arguments;
  slip__argument_class_t *class = &arguments->classes[index];
  size_t block_bytes = (size_t)SLIP__ARGUMENT_MIN_BYTES << index;
  uint32_t count = slip__context_max_tickets(context);
  slip_status_t status = slip_ok_status();
  pthread_mutex_lock(&arguments->lock);
  if (!class->pool.blocks && !slip__context_uses_lanes(context)) {
    status = slip__pool_initialize(&class->pool, count, block_bytes, context->allocator);
  } else if (!class->pool.blocks) {
    status = slip__arguments_fit_pair(context, class, count, block_bytes);
    if (!slip_status_is_ok(status)) status = slip_status_join(status, slip__arguments_free_class(context, class));
  }
  pthread_mutex_unlock(&arguments->lock);
  return slip_status_annotate(status, "making %u argument blocks of %zu bytes", count, block_bytes);
}

slip_status_t slip__arguments_free(slip_context_t *context) {
  slip__arguments_t *arguments = &context->registry.arguments;
  slip_status_t status = slip_ok_status();
  for (int i = 0; i < SLIP__ARGUMENT_CLASSES; ++i) {
    slip__pool_deinitialize(&arguments->classes[i].pool, context->allocator);
    status = slip_status_join(status, slip__arguments_free_class(context, &arguments->classes[i]));
  }
  return slip_status_annotate(status, "freeing argument blocks");
}
