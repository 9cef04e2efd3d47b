// SPDX-License-Identifier: Apache-2.0
// The single list of element types. Everything that names, sizes, prints, parses or converts a dtype is made from it.
#ifndef SLIPSTREAM_KERNEL_DTYPE_TABLE_H_
#define SLIPSTREAM_KERNEL_DTYPE_TABLE_H_

// X(NAME, text, number, carrier bytes, kind, DLPack code, DLPack bits, DLPack lanes)
// Numbers are stable (they are in images). A packed type's carrier element is one byte that holds two values.
#define SLIP_DTYPE_TABLE(X)                        \
  X(F32, "f32", 1, 4, FLOAT, 2, 32, 1)             \
  X(F16, "f16", 2, 2, FLOAT, 2, 16, 1)             \
  X(BF16, "bf16", 3, 2, FLOAT, 4, 16, 1)           \
  X(F64, "f64", 4, 8, FLOAT, 2, 64, 1)             \
  X(I8, "i8", 5, 1, INT, 0, 8, 1)                  \
  X(I16, "i16", 6, 2, INT, 0, 16, 1)               \
  X(I32, "i32", 7, 4, INT, 0, 32, 1)               \
  X(I64, "i64", 8, 8, INT, 0, 64, 1)               \
  X(U8, "u8", 9, 1, UINT, 1, 8, 1)                 \
  X(U16, "u16", 10, 2, UINT, 1, 16, 1)             \
  X(U32, "u32", 11, 4, UINT, 1, 32, 1)             \
  X(U64, "u64", 12, 8, UINT, 1, 64, 1)             \
  X(BOOL, "bool", 13, 1, BOOL, 6, 8, 1)            \
  X(F8E4M3FN, "f8e4m3fn", 14, 1, FLOAT8, 10, 8, 1) \
  X(F8E5M2, "f8e5m2", 15, 1, FLOAT8, 12, 8, 1)     \
  X(F8E8M0, "f8e8m0", 16, 1, FLOAT8, 14, 8, 1)     \
  X(F4E2M1X2, "f4e2m1x2", 17, 1, FLOAT4, 17, 4, 2)

typedef enum slip_dtype_e {
  SLIP_DTYPE_NONE = 0,
#define SLIP_DTYPE_ENUM(name, text, number, bytes, kind, dl_code, dl_bits, dl_lanes) SLIP_DTYPE_##name = (number),
  SLIP_DTYPE_TABLE(SLIP_DTYPE_ENUM)
#undef SLIP_DTYPE_ENUM
} slip_dtype_e;

// Highest rank of any tensor.
#define SLIP_MAX_RANK 5

#endif  // SLIPSTREAM_KERNEL_DTYPE_TABLE_H_
