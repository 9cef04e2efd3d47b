// SPDX-License-Identifier: Apache-2.0
// Overlap of memory ranges: the alias rule of a call, and the storage each tensor is filed under.
#ifndef SLIPSTREAM_SRC_CONTRACT_ALIAS_H_
#define SLIPSTREAM_SRC_CONTRACT_ALIAS_H_

#include "slipstream/base.h"

// A half-open, non-empty range of addresses, touched by tensor |slot| of a call.
typedef struct slip__range_t {
  uint64_t begin;
  uint64_t end;
  uint32_t slot;
  uint32_t writer;
} slip__range_t;

// Sorts by begin, then end, then slot. In place, no allocation, O(n log n) from 33 ranges on.
void slip__ranges_sort(slip__range_t *ranges, size_t count);

// The rule of 10.5 over sorted |ranges|: two ranges of which one is written may be identical or disjoint, nothing between. Returns false
// and a pair of slots that breaks it;
// |*out_writer| is a writer of the pair.
bool slip__ranges_check(const slip__range_t *ranges, size_t count, uint32_t *out_writer, uint32_t *out_other);

// The end of the cluster (ranges connected by overlaps) that starts at sorted |ranges[first]|; |*out_end| is the cluster's last address.
// Touching ranges do not overlap.
size_t slip__ranges_cluster(const slip__range_t *ranges, size_t count, size_t first, uint64_t *out_end);

#endif  // SLIPSTREAM_SRC_CONTRACT_ALIAS_H_
