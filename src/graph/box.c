// SPDX-License-Identifier: Apache-2.0
#include "graph/box.h"

#include "slipstream/kernel/orch.h"

// Sorted insertion, largest stride first. A negative stride is the same set of bytes seen from its other end; a stride of 0 adds none.
static void slip__box_add(slip__box_t *box, int64_t *inout_low, int64_t count, int64_t stride) {
  if (count == 1 || stride == 0) return;
  if (stride < 0) {
    *inout_low += (count - 1) * stride;
    stride = -stride;
  }
  int32_t at = box->rank++;
  for (; at > 0 && box->strides[at - 1] < stride; --at) {
    box->strides[at] = box->strides[at - 1];
    box->counts[at] = box->counts[at - 1];
  }
  box->strides[at] = stride;
  box->counts[at] = count;
}

bool slip__box_from_view(const slip_ktensor_t *view, slip__box_t *out, int64_t *out_low) {
  int64_t size = slip_dtype_carrier_bytes(view->dtype);
  int64_t low = (int64_t)(uintptr_t)view->data;
  out->run = size;
  out->rank = 0;
  out->reserved = 0;
  for (uint32_t i = 0; i < view->rank; ++i) {
    if (view->dims[i] == 0) return false;
    slip__box_add(out, &low, view->dims[i], view->strides[i] * size);
  }
  // Inner directions that leave no gap belong to the run.
  while (out->rank > 0 && out->strides[out->rank - 1] <= out->run) {
    --out->rank;
    out->run += (out->counts[out->rank] - 1) * out->strides[out->rank];
  }
  out->extent = out->run;
  for (int32_t i = 0; i < out->rank; ++i) out->extent += (out->counts[i] - 1) * out->strides[i];
  *out_low = low;
  return true;
}

// Bytes from the first to the last of directions |level| and inner.
static int64_t slip__box_extent(const slip__box_t *box, int32_t level) {
  int64_t extent = box->run;
  for (int32_t i = level; i < box->rank; ++i) extent += (box->counts[i] - 1) * box->strides[i];
  return extent;
}

static int64_t slip__floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && a < 0);
}

// True if directions |level| and inner of |box|, placed at |base|, have a byte in [low, high).
static bool slip__box_meets_run(const slip__box_t *box, int32_t level, int64_t base, int64_t low, int64_t high) {
  int64_t extent = slip__box_extent(box, level);
  if (base >= high || base + extent <= low) return false;
  if (level == box->rank) return true;
  int64_t stride = box->strides[level], inner = slip__box_extent(box, level + 1);
  if (inner > stride) return true;  // rows that reach into each other: not decided
  // Rows that could meet the run; all but the outer two of them lie inside it.
  int64_t first = slip__floor_div(low - base - inner, stride) + 1, last = slip__floor_div(high - 1 - base, stride);
  if (first < 0) first = 0;
  if (last > box->counts[level] - 1) last = box->counts[level] - 1;
  if (first > last) return false;
  if (last - first >= 2) return true;
  return slip__box_meets_run(box, level + 1, base + first * stride, low, high) ||
         (last > first && slip__box_meets_run(box, level + 1, base + last * stride, low, high));
}

// |a| at address 0 and |b| at address |offset|, directions |level_a| and |level_b| and inner.
//
// The largest stride S of both cuts memory into rows. Where a cut is possible that divides neither box's inner part, a byte is shared
// exactly if a row is shared and the inner parts share a byte within a row.
static bool slip__box_meets(const slip__box_t *a, int32_t level_a, const slip__box_t *b, int32_t level_b, int64_t offset) {
  int64_t extent_a = slip__box_extent(a, level_a), extent_b = slip__box_extent(b, level_b);
  if (offset >= extent_a || offset + extent_b <= 0) return false;
  if (level_a == a->rank) return slip__box_meets_run(b, level_b, offset, 0, extent_a);
  if (level_b == b->rank) return slip__box_meets_run(a, level_a, 0, offset, offset + extent_b);
  int64_t stride = a->strides[level_a] > b->strides[level_b] ? a->strides[level_a] : b->strides[level_b];
  int64_t rows_a = 1, rows_b = 1;
  if (a->strides[level_a] == stride) rows_a = a->counts[level_a++];
  if (b->strides[level_b] == stride) rows_b = b->counts[level_b++];
  int64_t inner_a = slip__box_extent(a, level_a), inner_b = slip__box_extent(b, level_b);
  if (inner_a > stride || inner_b > stride) return true;
  int64_t row_b = slip__floor_div(offset, stride), place_b = offset - row_b * stride;
  if (place_b + inner_b <= stride) {  // rows that begin where |a| does
    if (row_b >= rows_a || row_b + rows_b <= 0) return false;
    return slip__box_meets(a, level_a, b, level_b, place_b);
  }
  int64_t place_a = stride - place_b;  // rows that begin where |b| does; |a| begins in row -row_b - 1
  if (place_a + inner_a > stride) return true;
  int64_t row_a = -row_b - 1;
  if (row_a >= rows_b || row_a + rows_a <= 0) return false;
  return slip__box_meets(b, level_b, a, level_a, place_a);
}

bool slip__box_overlaps(const slip__box_t *a, const slip__box_t *b, int64_t offset) {
  if (offset >= a->extent || offset + b->extent <= 0) return false;
  if (a->rank == 0 && b->rank == 0) return true;
  return slip__box_meets(a, 0, b, 0, offset);
}

// Each stride a whole number of the blocks inside it: then an offset has one digit per direction, and an aligned box fills one block.
bool slip__box_is_tile(const slip__box_t *box) {
  int64_t block = box->run;
  for (int32_t i = box->rank - 1; i >= 0; --i) {
    int64_t next;
    if (box->strides[i] % block != 0 || __builtin_mul_overflow(box->counts[i], box->strides[i], &next)) return false;
    block = next;
  }
  return true;
}

bool slip__box_is_aligned(const slip__box_t *box, int64_t offset) {
  for (int32_t i = 0; i < box->rank; ++i) {
    offset %= box->counts[i] * box->strides[i];
    if (offset >= box->strides[i]) return false;
  }
  return offset % box->run == 0;
}
