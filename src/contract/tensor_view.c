// SPDX-License-Identifier: Apache-2.0
// Views: new descriptors over the same storage. |out| may be |tensor|, so each function builds a copy and assigns it last.
#include "contract/tensor.h"

// A view of something malformed would only move the mistake.
static slip_status_t slip__view_require(const slip_tensor_t *tensor, const char *view) {
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip_tensor_validate(tensor), "in %s", view);
  return slip_ok_status();
}

// Moves the address by |bytes|. The offset stays non-negative: where it would not, |data| itself is moved.
static bool slip__view_move(slip_tensor_t *view, int64_t bytes) {
  int64_t offset;
  if (__builtin_add_overflow((int64_t)view->byte_offset, bytes, &offset)) return false;
  if (offset < 0) {
    uint64_t data = (uint64_t)(uintptr_t)view->data;
    if (data < 0 - (uint64_t)offset) return false;
    view->data = (void *)(uintptr_t)(data + (uint64_t)offset);
    offset = 0;
  }
  view->byte_offset = (uint64_t)offset;
  return true;
}

slip_status_t slip_tensor_slice(const slip_tensor_t *tensor, uint32_t axis, int64_t start, int64_t length, int64_t step,
                                slip_tensor_t *out) {
  SLIP_RETURN_IF_ERROR(slip__view_require(tensor, "slice"));
  if (axis >= tensor->rank) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "slice: axis %u of a tensor of rank %u; pass an axis below the rank", axis,
                       tensor->rank);
  }
  int64_t dim = tensor->dims[axis], last = start;
  bool inside = start >= 0 && start <= dim && length >= 0 && step >= 1;
  if (inside && length > 0) {
    inside = !__builtin_mul_overflow(length - 1, step, &last) && !__builtin_add_overflow(last, start, &last) && last < dim;
  }
  if (!inside) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "slice: start %lld, length %lld, step %lld do not lie in dim %u of size %lld; pass a range inside it",
                       (long long)start, (long long)length, (long long)step, axis, (long long)dim);
  }
  slip_tensor_t view = *tensor;
  view.dims[axis] = length;
  // With at most one element the stride is never used; with none the address is not either, and stays where it was.
  int64_t size = (int64_t)slip_dtype_size_bytes(tensor->dtype), bytes = 0;
  bool fits = length <= 1 || !__builtin_mul_overflow(tensor->strides[axis], step, &view.strides[axis]);
  if (fits && length > 0) {
    fits = !__builtin_mul_overflow(start, tensor->strides[axis], &bytes) && !__builtin_mul_overflow(bytes, size, &bytes) &&
           slip__view_move(&view, bytes);
  }
  if (!fits) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "slice: the view's offset passes 64 bits; slice a smaller tensor");
  *out = view;
  return slip_ok_status();
}

slip_status_t slip_tensor_transpose(const slip_tensor_t *tensor, uint32_t a, uint32_t b, slip_tensor_t *out) {
  SLIP_RETURN_IF_ERROR(slip__view_require(tensor, "transpose"));
  if (a >= tensor->rank || b >= tensor->rank) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "transpose: axes %u and %u of a tensor of rank %u; pass axes below the rank", a, b,
                       tensor->rank);
  }
  slip_tensor_t view = *tensor;
  view.dims[a] = tensor->dims[b];
  view.strides[a] = tensor->strides[b];
  view.dims[b] = tensor->dims[a];
  view.strides[b] = tensor->strides[a];
  *out = view;
  return slip_ok_status();
}

slip_status_t slip_tensor_permute(const slip_tensor_t *tensor, const uint32_t *order, slip_tensor_t *out) {
  SLIP_RETURN_IF_ERROR(slip__view_require(tensor, "permute"));
  slip_tensor_t view = *tensor;
  uint32_t seen = 0;
  for (uint32_t i = 0; i < tensor->rank; ++i) {
    if (order[i] >= tensor->rank || (seen >> order[i] & 1)) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "permute: entry %u is %u, twice or not below rank %u; pass a permutation", i, order[i],
                         tensor->rank);
    }
    seen |= 1u << order[i];
    view.dims[i] = tensor->dims[order[i]];
    view.strides[i] = tensor->strides[order[i]];
  }
  *out = view;
  return slip_ok_status();
}

// Replaces a single -1 in |dims| by what |count| leaves for it, and checks that the counts agree.
static slip_status_t slip__reshape_complete(int64_t count, uint8_t rank, const int64_t *dims, int64_t *out_dims) {
  int64_t known = 1, wanted;
  int32_t inferred = -1;
  for (uint32_t i = 0; i < rank; ++i) {
    out_dims[i] = dims[i];
    if (dims[i] == -1 && inferred < 0) {
      inferred = (int32_t)i;
      out_dims[i] = 1;
    } else if (dims[i] < 0) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "reshape: dim %u is %lld; dims are 0 or more, and one may be -1", i,
                         (long long)dims[i]);
    }
  }
  if (!slip__dims_count(out_dims, rank, &known)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "reshape: the new shape passes 2^63-1 elements; the tensor has %lld", (long long)count);
  }
  if (inferred >= 0) {
    if (known == 0) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "reshape: -1 beside a dim of 0 has no single value; give all dims");
    out_dims[inferred] = count / known;
  }
  if (!slip__dims_count(out_dims, rank, &wanted) || wanted != count) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "reshape: the new shape holds %lld elements and the tensor has %lld; give a shape of equal size", (long long)wanted,
                       (long long)count);
  }
  return slip_ok_status();
}

// Strides of |dims| over the elements of a non-empty |tensor|; false where only a copy would do.
//
// The old dims (those of 1 left out) are cut into the shortest runs whose product equals that of a run of new dims. Inside an old run the
// strides must already be those of one contiguous row, and the new dims of the run then divide that row.
static bool slip__reshape_strides(const slip_tensor_t *tensor, uint8_t rank, const int64_t *dims, int64_t *out_strides) {
  int64_t old_dims[SLIP_MAX_RANK], old_strides[SLIP_MAX_RANK];
  uint32_t old_rank = 0;
  for (uint32_t i = 0; i < tensor->rank; ++i) {
    if (tensor->dims[i] == 1) continue;
    old_dims[old_rank] = tensor->dims[i];
    old_strides[old_rank++] = tensor->strides[i];
  }
  uint32_t o = 0, n = 0;
  while (o < old_rank && n < rank) {
    uint32_t old_end = o + 1, new_end = n + 1;
    int64_t old_run = old_dims[o], new_run = dims[n];
    while (old_run != new_run) {
      if (new_run < old_run) {
        if (new_end == rank) return false;
        new_run *= dims[new_end++];
      } else {
        if (old_end == old_rank) return false;
        old_run *= old_dims[old_end++];
      }
    }
    for (uint32_t i = o; i + 1 < old_end; ++i) {
      int64_t row;
      if (__builtin_mul_overflow(old_strides[i + 1], old_dims[i + 1], &row) || old_strides[i] != row) return false;
    }
    int64_t stride = old_strides[old_end - 1];
    for (uint32_t i = new_end; i-- > n;) {
      out_strides[i] = stride;
      if (dims[i] > 1 && __builtin_mul_overflow(stride, dims[i], &stride) && i > n) return false;
    }
    o = old_end;
    n = new_end;
  }
  // What is left of the new dims are ones.
  for (; n < rank; ++n) out_strides[n] = 1;
  return true;
}

slip_status_t slip_tensor_reshape(const slip_tensor_t *tensor, uint8_t rank, const int64_t *dims, slip_tensor_t *out) {
  SLIP_RETURN_IF_ERROR(slip__view_require(tensor, "reshape"));
  if (rank > SLIP_MAX_RANK) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "reshape: rank %u is above %d", rank, SLIP_MAX_RANK);
  int64_t new_dims[SLIP_MAX_RANK] = {0}, new_strides[SLIP_MAX_RANK] = {0};
  int64_t count = slip_tensor_element_count(tensor);
  SLIP_RETURN_IF_ERROR(slip__reshape_complete(count, rank, dims, new_dims));
  if (count == 0) {
    (void)slip__dims_strides(new_dims, rank, new_strides);  // never used to reach an element
  } else if (!slip__reshape_strides(tensor, rank, new_dims, new_strides)) {
    char shape[160];
    slip__text_t text = slip__text(shape, sizeof(shape));
    slip__text_add_list(&text, tensor->strides, tensor->rank);
    slip__text_add(&text, " of shape ");
    slip__text_add_list(&text, tensor->dims, tensor->rank);
    slip__text_add(&text, " cannot be viewed as ");
    slip__text_add_list(&text, new_dims, rank);
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "reshape: strides %s without a copy; make the tensor contiguous first", shape);
  }
  slip_tensor_t view = *tensor;
  view.rank = rank;
  for (uint32_t i = 0; i < SLIP_MAX_RANK; ++i) {
    view.dims[i] = new_dims[i];
    view.strides[i] = new_strides[i];
  }
  *out = view;
  return slip_ok_status();
}
