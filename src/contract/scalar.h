// SPDX-License-Identifier: Apache-2.0
// What the rest of the room needs of scalars.
#ifndef SLIPSTREAM_SRC_CONTRACT_SCALAR_H_
#define SLIPSTREAM_SRC_CONTRACT_SCALAR_H_

#include "slipstream/scalar.h"

// True for bool, i8..i64, u8..u64, f16, bf16, f32, f64.
bool slip__dtype_is_scalar(slip_dtype_t dtype);
// The largest bits a scalar of |dtype| has: 1 for bool.
uint64_t slip__scalar_mask(slip_dtype_t dtype);
// True for a scalar dtype whose bits above the dtype's size are zero (bool: 0 or 1).
bool slip__scalar_is_wellformed(slip_scalar_t scalar);
// The value of an integer scalar, sign-extended or zero-extended.
int64_t slip__scalar_signed(slip_scalar_t scalar);
uint64_t slip__scalar_unsigned(slip_scalar_t scalar);
// |value| in half precision and bfloat16: nearest even, overflow to infinity, NaN to the quiet NaN of its sign.
uint64_t slip__f16_bits(double value);
uint64_t slip__bf16_bits(double value);

#endif  // SLIPSTREAM_SRC_CONTRACT_SCALAR_H_
