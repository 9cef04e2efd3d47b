// SPDX-License-Identifier: Apache-2.0
// Building a call frame: one pass over the parameters, then one sweep over the memory ranges. On the launch path; the sentences of refusals
// are in frame_refuse.c.
//
// Fast paths, each a filter before the full rule: a tensor's first 8 bytes equal the precomputed head of its rule (struct size, dtype,
// rank, ND, no flag); the storages of the call come in ascending, disjoint order, so nothing can overlap.
#include "slipstream/frame.h"

#include <string.h>

#include "base/allocator.h"
#include "contract/frame_internal.h"

// The ranges of one call while it is checked.
typedef struct slip__frame_ranges_t {
  slip__range_t *storages;  // extent of each non-empty tensor's storage; of its span where the storage is unknown
  uint32_t count;
  bool ascending;  // and disjoint
  uint64_t last_end;
} slip__frame_ranges_t;

static bool slip__frame_dims(const slip__param_rule_t *rule, const slip_otensor_t *tensors, const slip_tensor_t *tensor,
                             slip_ktensor_t *view) {
  bool match = true;
  for (uint32_t d = 0; d < SLIP_MAX_RANK; ++d) {
    if (d >= rule->rank) {
      view->dims[d] = 1;
      view->strides[d] = 0;
      continue;
    }
    int64_t dim = tensor->dims[d];
    view->dims[d] = dim;
    match &= rule->dims[d] == SLIP_DIM_DYNAMIC ? dim >= 0 : dim == rule->dims[d];
    uint32_t peer = rule->peers[d];
    if (peer != SLIP__NO_PEER) match &= dim == tensors[peer >> 3].view.dims[peer & 7];
  }
  return match;
}

// Row-major strides into |view|, compared with the tensor's. |*out_bytes| is the tensor's size. False: gaps, or a size beyond 2^63-1.
static bool slip__frame_strides(const slip__param_rule_t *rule, const slip_tensor_t *tensor, slip_ktensor_t *view, int64_t *out_bytes) {
  int64_t stride = 1;
  bool wrong = false, empty = false;
  for (uint32_t d = rule->rank; d-- > 0;) {
    int64_t dim = view->dims[d];
    view->strides[d] = stride;
    wrong |= dim > 1 && tensor->strides[d] != stride;
    empty |= dim == 0;
    wrong |= __builtin_mul_overflow(stride, dim, &stride);
  }
  wrong |= __builtin_mul_overflow(stride, (int64_t)rule->size_bytes, out_bytes);
  if (!empty) return !wrong;
  *out_bytes = 0;
  return true;
}

// Address and bounds. |*out_begin| is the logical address, |*out_end| its end; equal for an empty tensor, which accesses nothing and only
// needs an offset that is not negative.
static bool slip__frame_address(const slip_tensor_t *tensor, int64_t bytes, uint64_t *out_begin, uint64_t *out_end) {
  uint64_t data = (uint64_t)(uintptr_t)tensor->data, base = (uint64_t)(uintptr_t)tensor->storage_base;
  bool wraps = __builtin_add_overflow(data, tensor->byte_offset, out_begin);
  wraps |= __builtin_add_overflow(*out_begin, (uint64_t)bytes, out_end);
  if (tensor->byte_offset > INT64_MAX) return false;
  if (bytes == 0) return true;
  if (wraps || data == 0) return false;
  return base == 0 || (*out_begin >= base && *out_end - base <= tensor->storage_bytes);
}

static void slip__frame_add_range(slip__frame_ranges_t *ranges, const slip_tensor_t *tensor, const slip__param_rule_t *rule, uint64_t begin,
                                  uint64_t end, slip_otensor_t *out) {
  if (tensor->storage_base) {
    // An extent that wraps is cut at the top: nothing of the tensor lies above it.
    begin = (uint64_t)(uintptr_t)tensor->storage_base;
    if (__builtin_add_overflow(begin, tensor->storage_bytes, &end)) end = UINT64_MAX;
  }
  out->storage = (void *)(uintptr_t)begin;
  out->storage_bytes = end - begin;
  slip__range_t *range = &ranges->storages[ranges->count++];
  range->begin = begin;
  range->end = end;
  range->slot = rule->slot;
  range->writer = rule->direction != SLIP_DIRECTION_IN;
  ranges->ascending &= begin >= ranges->last_end;
  ranges->last_end = end;
}

static inline slip_status_t slip__frame_take_tensor(const slip__frame_build_t *build, uint32_t index, slip__frame_ranges_t *ranges) {
  const slip__param_rule_t *rule = &build->signature->rules[index];
  const slip_arg_t *arg = &build->args[index];
  const slip_tensor_t *tensor = arg->value.tensor;
  if (__builtin_expect(arg->kind != SLIP_ARG_TENSOR || !tensor, 0)) return slip__frame_refuse_kind(build, index);
  uint64_t head;
  memcpy(&head, tensor, sizeof(head));
  bool plain = head == rule->head && rule->plain && tensor->device.platform == build->device.platform &&
               tensor->device.ordinal == build->device.ordinal;
  if (__builtin_expect(!plain, 0)) SLIP_RETURN_IF_ERROR(slip__frame_check_head(build, index));

  slip_otensor_t *out = &build->frame->tensors[rule->slot];
  slip_ktensor_t *view = &out->view;
  int64_t bytes;
  uint64_t begin, end;
  if (__builtin_expect(!slip__frame_dims(rule, build->frame->tensors, tensor, view), 0)) return slip__frame_refuse_shape(build, index);
  if (__builtin_expect(!slip__frame_strides(rule, tensor, view, &bytes), 0)) return slip__frame_refuse_strides(build, index);
  if (__builtin_expect(!slip__frame_address(tensor, bytes, &begin, &end), 0)) return slip__frame_refuse_address(build, index);
  view->data = (void *)(uintptr_t)begin;
  view->dtype = rule->dtype;
  view->rank = rule->rank;
  view->reserved0 = 0;
  view->reserved1 = 0;
  out->storage = view->data;
  out->storage_bytes = 0;
  out->creator = 0;
  out->generation = 0;
  out->depth = rule->direction == SLIP_DIRECTION_IN ? SLIP_OTENSOR_READ_ONLY : 0;
  build->frame->objects[rule->slot] = arg->object;
  if (bytes > 0) slip__frame_add_range(ranges, tensor, rule, begin, end, out);
  return slip_ok_status();
}

// Files every tensor under the joint extent of all storages that overlap its own, so that dependency tracking, which looks for overlap
// inside one storage only, finds every overlap.
static void slip__frame_merge_storages(const slip__frame_build_t *build, slip__frame_ranges_t *ranges) {
  for (size_t first = 0, next; first < ranges->count; first = next) {
    uint64_t begin = ranges->storages[first].begin, end;
    next = slip__ranges_cluster(ranges->storages, ranges->count, first, &end);
    for (size_t i = first; i < next; ++i) {
      slip_otensor_t *tensor = &build->frame->tensors[ranges->storages[i].slot];
      tensor->storage = (void *)(uintptr_t)begin;
      tensor->storage_bytes = end - begin;
    }
  }
}

// From the extent of a tensor's storage to the span that the tensor itself touches.
static void slip__frame_narrow(const slip__frame_build_t *build, slip__range_t *range) {
  const slip_ktensor_t *view = &build->frame->tensors[range->slot].view;
  uint64_t bytes = slip_dtype_size_bytes(view->dtype);
  for (uint32_t d = 0; d < view->rank; ++d) bytes *= (uint64_t)view->dims[d];
  range->begin = (uint64_t)(uintptr_t)view->data;
  range->end = range->begin + bytes;
}

static slip_status_t slip__frame_check_overlaps(const slip__frame_build_t *build, slip__frame_ranges_t *ranges) {
  slip__ranges_sort(ranges->storages, ranges->count);
  bool disjoint = true;
  for (uint32_t i = 1; i < ranges->count; ++i) disjoint &= ranges->storages[i].begin >= ranges->storages[i - 1].end;
  if (disjoint) return slip_ok_status();
  slip__frame_merge_storages(build, ranges);
  for (uint32_t i = 0; i < ranges->count; ++i) slip__frame_narrow(build, &ranges->storages[i]);
  slip__ranges_sort(ranges->storages, ranges->count);
  uint32_t writer, other;
  if (slip__ranges_check(ranges->storages, ranges->count, &writer, &other)) return slip_ok_status();
  return slip__frame_refuse_overlap(build, writer, other);
}

static slip_status_t slip__frame_take_all(const slip__frame_build_t *build, slip__range_t *storages) {
  const slip_signature_t *signature = build->signature;
  slip__frame_ranges_t ranges = {storages, 0, true, 0};
  for (uint32_t i = 0; i < signature->param_count; ++i) {
    const slip__param_rule_t *rule = &signature->rules[i];
    if (rule->direction != SLIP_DIRECTION_SCALAR) {
      SLIP_RETURN_IF_ERROR(slip__frame_take_tensor(build, i, &ranges));
      continue;
    }
    const slip_arg_t *arg = &build->args[i];
    if (__builtin_expect(arg->kind != SLIP_ARG_SCALAR, 0)) return slip__frame_refuse_kind(build, i);
    if (__builtin_expect(arg->value.scalar.dtype != rule->dtype || arg->value.scalar.bits > rule->head, 0)) {
      return slip__frame_refuse_scalar(build, i);
    }
    build->frame->scalars[rule->slot] = arg->value.scalar.bits;
  }
  return ranges.ascending ? slip_ok_status() : slip__frame_check_overlaps(build, &ranges);
}

// One block for a call above the inline capacities.
static slip_status_t slip__frame_reserve(slip__frame_t *frame, slip_signature_t *signature, slip__range_t **out_storages) {
  size_t tensors = signature->tensor_count, scalars = signature->scalar_count;
  frame->heap_bytes = tensors * (sizeof(slip_otensor_t) + sizeof(void *) + sizeof(slip__range_t)) + scalars * sizeof(uint64_t);
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip__alloc(signature->allocator, frame->heap_bytes, &frame->heap),
                                 "call frame of %zu tensors and %zu scalars", tensors, scalars);
  frame->tensors = frame->heap;
  *out_storages = (slip__range_t *)(void *)(frame->tensors + tensors);
  frame->objects = (void **)(*out_storages + tensors);
  frame->scalars = (uint64_t *)(void *)(frame->objects + tensors);
  return slip_ok_status();
}

slip_status_t slip_frame_initialize_hooked(slip_frame_t *frame, slip_signature_t *signature, const char *name, slip_device_t device,
                                           const slip_arg_t *args, size_t arg_count, uint32_t flags, const slip_frame_hooks_t *hooks) {
  slip__frame_t *self = (slip__frame_t *)(void *)frame;
  slip__range_t inline_storages[SLIP_FRAME_INLINE_TENSORS];
  slip__range_t *storages = inline_storages;
  self->magic = 0;
  if (!signature) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: no signature given", name ? name : "call");
  self->signature = signature;
  self->heap = NULL;
  self->device = device;
  self->flags = flags;
  self->tensors = self->inline_tensors;
  self->objects = self->inline_objects;
  self->scalars = self->inline_scalars;
  slip__frame_build_t build = {self, signature, name ? name : "call", args, hooks, device, flags};
  if (__builtin_expect(arg_count != signature->param_count || (arg_count && !args), 0)) {
    return slip__frame_refuse_count(&build, args ? arg_count : 0);
  }
  if (signature->tensor_count > SLIP_FRAME_INLINE_TENSORS || signature->scalar_count > SLIP_FRAME_INLINE_SCALARS) {
    SLIP_RETURN_IF_ERROR(slip__frame_reserve(self, signature, &storages));
  }
  slip_status_t status = slip__frame_take_all(&build, storages);
  if (__builtin_expect(!slip_status_is_ok(status), 0)) {
    slip__free(signature->allocator, self->heap, self->heap_bytes);
    return status;
  }
  slip_signature_retain(signature);
  self->magic = SLIP__FRAME_MAGIC;
  return slip_ok_status();
}

slip_status_t slip_frame_initialize(slip_frame_t *frame, slip_signature_t *signature, const char *name, slip_device_t device,
                                    const slip_arg_t *args, size_t arg_count, uint32_t flags) {
  return slip_frame_initialize_hooked(frame, signature, name, device, args, arg_count, flags, NULL);
}

void slip_frame_deinitialize(slip_frame_t *frame) {
  slip__frame_t *self = (slip__frame_t *)(void *)frame;
  if (self->magic != SLIP__FRAME_MAGIC) return;
  self->magic = 0;
  if (self->heap) slip__free(self->signature->allocator, self->heap, self->heap_bytes);
  slip_signature_release(self->signature);
}

size_t slip_frame_alias(const slip_frame_t *frame, void **out_objects, size_t capacity) {
  const slip__frame_t *self = (const slip__frame_t *)(const void *)frame;
  if (self->magic != SLIP__FRAME_MAGIC) return 0;
  const slip_signature_t *signature = self->signature;
  for (size_t i = 0; i < signature->alias_count && i < capacity; ++i) {
    out_objects[i] = self->objects[signature->rules[signature->aliases[i]].slot];
  }
  return signature->alias_count;
}

bool slip__frame_view(const slip_frame_t *frame, slip__frame_view_t *out) {
  const slip__frame_t *self = (const slip__frame_t *)(const void *)frame;
  if (self->magic != SLIP__FRAME_MAGIC) return false;
  out->signature = self->signature;
  out->signature_hash = self->signature->hash;
  out->device = self->device;
  out->tensor_count = self->signature->tensor_count;
  out->scalar_count = self->signature->scalar_count;
  out->flags = self->flags;
  out->tensors = self->tensors;
  out->scalars = self->scalars;
  return true;
}
