// SPDX-License-Identifier: Apache-2.0
// The bytes a view touches, as a strided box, and whether two boxes share a byte. Pure functions.
//
// A box is a run of |run| bytes repeated in up to five directions, each with a stride of at least the extent of all inner ones in the usual
// case (views of one row-major parent, transposed or not, with steps or not). For such boxes the test is exact; otherwise it may say yes
// too often, never no.
#ifndef SLIPSTREAM_SRC_GRAPH_BOX_H_
#define SLIPSTREAM_SRC_GRAPH_BOX_H_

#include "slipstream/base.h"
#include "slipstream/kernel/tile.h"

typedef struct slip__box_t {
  int64_t low;   // address of the first byte
  int64_t high;  // one past the last byte
  int64_t run;   // contiguous bytes
  int32_t rank;  // directions left
  int32_t reserved;
  int64_t counts[SLIP_MAX_RANK];   // all > 1
  int64_t strides[SLIP_MAX_RANK];  // in bytes, positive, largest first
} slip__box_t;

// False if the view is empty: it touches nothing. The view has passed the checks of a submit (no overflow).
bool slip__box_from_view(const slip_ktensor_t *view, slip__box_t *out);
// True if the boxes share a byte, or if that cannot be excluded.
bool slip__box_overlaps(const slip__box_t *a, const slip__box_t *b);
// True if every byte of |inner| is certainly in |outer|.
static inline bool slip__box_covers(const slip__box_t *outer, const slip__box_t *inner) {
  return outer->rank == 0 && outer->low <= inner->low && inner->high <= outer->high;
}

#endif  // SLIPSTREAM_SRC_GRAPH_BOX_H_
