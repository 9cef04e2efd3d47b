// SPDX-License-Identifier: Apache-2.0
// The bytes a view touches, as a strided box, and whether two boxes share a byte. Pure functions.
//
// A box is a run of |run| bytes repeated in up to five directions, each with a stride of at least the extent of all inner ones in the usual
// case (views of one row-major parent, transposed or not, with steps or not). For such boxes the test is exact; otherwise it may say yes
// too often, never no. Where a box lies is not part of it.
#ifndef SLIPSTREAM_SRC_GRAPH_BOX_H_
#define SLIPSTREAM_SRC_GRAPH_BOX_H_

#include "slipstream/base.h"
#include "slipstream/kernel/tile.h"

typedef struct slip__box_t {
  int64_t extent;  // from the first byte to one past the last
  int64_t run;     // contiguous bytes
  int32_t rank;    // directions left
  int32_t reserved;
  int64_t counts[SLIP_MAX_RANK];   // all > 1
  int64_t strides[SLIP_MAX_RANK];  // in bytes, positive, largest first
} slip__box_t;

// |*out_low| is the address of the first byte. False if the view is empty: it touches nothing. The view has passed the checks of a submit
// (no overflow).
bool slip__box_from_view(const slip_ktensor_t *view, slip__box_t *out, int64_t *out_low);
// True if the boxes, with |b| lying |offset| bytes after |a|, share a byte, or if that cannot be excluded.
bool slip__box_overlaps(const slip__box_t *a, const slip__box_t *b, int64_t offset);
// True if boxes of this shape whose offsets are whole multiples of counts * strides and |run| cut memory into parts, so that two such boxes
// are the same or share no byte.
bool slip__box_is_tile(const slip__box_t *box);
// True if |offset|, >= 0, is one of those. Only for tiles.
bool slip__box_is_aligned(const slip__box_t *box, int64_t offset);

static inline slip__box_t slip__box_of_run(int64_t bytes) {
  return (slip__box_t){.extent = bytes, .run = bytes};
}

#endif  // SLIPSTREAM_SRC_GRAPH_BOX_H_
