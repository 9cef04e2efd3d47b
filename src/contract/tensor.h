// SPDX-License-Identifier: Apache-2.0
// Geometry shared inside the room. All arithmetic is checked: false means that 64 bits do not hold the result.
#ifndef SLIPSTREAM_SRC_CONTRACT_TENSOR_H_
#define SLIPSTREAM_SRC_CONTRACT_TENSOR_H_

#include "contract/text.h"
#include "slipstream/tensor.h"

// Product of |rank| dims; 0 when any is 0. False when a dim is negative or the product passes 63 bits.
bool slip__dims_count(const int64_t *dims, uint32_t rank, int64_t *out_count);
// Row-major strides; a dim of 0 counts as 1 so that strides stay positive. False when they pass 63 bits.
bool slip__dims_strides(const int64_t *dims, uint32_t rank, int64_t *out_strides);
// True if |strides| walk |dims| row-major without gaps: dims of size 1 and empty shapes have any strides.
bool slip__dims_contiguous(const int64_t *dims, const int64_t *strides, uint32_t rank);
// "f32[16,2048]"
void slip__text_add_shape(slip__text_t *text, slip_dtype_t dtype, const int64_t *dims, uint32_t rank);
// "cpu:0"
void slip__text_add_device(slip__text_t *text, slip_device_t device);

#endif  // SLIPSTREAM_SRC_CONTRACT_TENSOR_H_
