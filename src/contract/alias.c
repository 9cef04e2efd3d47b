// SPDX-License-Identifier: Apache-2.0
#include "contract/alias.h"

// Up to here insertion wins over a heap, and a call's tensors are nearly always nearly sorted.
#define SLIP__RANGES_INSERTION_MAX 32

static bool slip__range_before(const slip__range_t *a, const slip__range_t *b) {
  if (a->begin != b->begin) return a->begin < b->begin;
  if (a->end != b->end) return a->end < b->end;
  return a->slot < b->slot;
}

static void slip__ranges_insertion(slip__range_t *ranges, size_t count) {
  for (size_t i = 1; i < count; ++i) {
    slip__range_t moved = ranges[i];
    size_t at = i;
    for (; at > 0 && slip__range_before(&moved, &ranges[at - 1]); --at) ranges[at] = ranges[at - 1];
    ranges[at] = moved;
  }
}

static void slip__ranges_sift(slip__range_t *ranges, size_t count, size_t at) {
  slip__range_t moved = ranges[at];
  for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && slip__range_before(&ranges[child], &ranges[child + 1])) ++child;
    if (!slip__range_before(&moved, &ranges[child])) break;
    ranges[at] = ranges[child];
    at = child;
  }
  ranges[at] = moved;
}

// A heap sort and not qsort: glibc's qsort may allocate.
static void slip__ranges_heap(slip__range_t *ranges, size_t count) {
  for (size_t i = count / 2; i-- > 0;) slip__ranges_sift(ranges, count, i);
  for (size_t last = count; last-- > 1;) {
    slip__range_t largest = ranges[0];
    ranges[0] = ranges[last];
    ranges[last] = largest;
    slip__ranges_sift(ranges, last, 0);
  }
}

void slip__ranges_sort(slip__range_t *ranges, size_t count) {
  if (count <= SLIP__RANGES_INSERTION_MAX) {
    slip__ranges_insertion(ranges, count);
  } else {
    slip__ranges_heap(ranges, count);
  }
}

// Identical ranges stand together after the sort and are one item of the sweep, written if any of them is. Two different items conflict
// when they overlap and one is written: against all earlier items at once, that is "begins before the furthest end of a written one", or,
// for a written item, "before the furthest end of any".
bool slip__ranges_check(const slip__range_t *ranges, size_t count, uint32_t *out_writer, uint32_t *out_other) {
  uint64_t any_end = 0, written_end = 0;
  uint32_t any_slot = 0, written_slot = 0;
  for (size_t i = 0, next; i < count; i = next) {
    const slip__range_t *item = &ranges[i];
    bool written = false;
    uint32_t slot = item->slot;
    for (next = i; next < count && ranges[next].begin == item->begin && ranges[next].end == item->end; ++next) {
      if (ranges[next].writer && !written) slot = ranges[next].slot;
      written |= ranges[next].writer != 0;
    }
    if (item->begin < written_end || (written && item->begin < any_end)) {
      *out_writer = written ? slot : written_slot;
      *out_other = written ? (item->begin < written_end ? written_slot : any_slot) : slot;
      return false;
    }
    if (item->end > any_end) {
      any_end = item->end;
      any_slot = slot;
    }
    if (written && item->end > written_end) {
      written_end = item->end;
      written_slot = slot;
    }
  }
  return true;
}

size_t slip__ranges_cluster(const slip__range_t *ranges, size_t count, size_t first, uint64_t *out_end) {
  uint64_t end = ranges[first].end;
  size_t next = first + 1;
  for (; next < count && ranges[next].begin < end; ++next) {
    if (ranges[next].end > end) end = ranges[next].end;
  }
  *out_end = end;
  return next;
}
