// SPDX-License-Identifier: Apache-2.0
// Dependencies of a graph that is being recorded: who last wrote and who has since read which bytes, with nothing ever retired, so that no
// edge is lost because a producer was over before its consumer came. The rules are those of region_map.h; bytes are named by a storage's
// number and an offset, since addresses are what a recording must not depend on. Single-owner.
#ifndef SLIPSTREAM_SRC_GRAPH_RECORDED_INFER_H_
#define SLIPSTREAM_SRC_GRAPH_RECORDED_INFER_H_

#include "graph/recorded/definition.h"

typedef struct slip__infer_t slip__infer_t;

// For at most |region_count| distinct regions. OUT_OF_MEMORY.
slip_status_t slip__infer_create(slip_allocator_t allocator, uint32_t region_count, slip__infer_t **out) SLIP_MUST_USE;
void slip__infer_destroy(slip__infer_t *infer);  // NULL is fine
// Makes |node|, the builder's last, wait for what its access of |view| must follow (nothing if |manual|), and notes the access. |view|'s
// data is its offset in |storage|. False if this or the builder is full.
bool slip__infer_access(slip__infer_t *infer, slip__builder_t *builder, uint32_t node, uint32_t storage, const slip_ktensor_t *view,
                        bool writes, bool manual);

#endif  // SLIPSTREAM_SRC_GRAPH_RECORDED_INFER_H_
