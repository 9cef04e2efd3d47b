// SPDX-License-Identifier: Apache-2.0
// Numbers of the image format, version 1 (docs/image.md shows it as tables).
//
// The format is canonical: header, then eight sections in fixed order, each at the next multiple of 64, zeros between; strings lie in the
// order in which the records name them. So a valid image can be unpacked and packed again to the very same bytes, and the parser checks
// exactly that: any freedom in the layout would be a place to hide something in.
#ifndef SLIPSTREAM_SRC_IMAGE_IMAGE_FORMAT_H_
#define SLIPSTREAM_SRC_IMAGE_IMAGE_FORMAT_H_

#include <string.h>

#include "slipstream/image.h"

#define SLIP__IMAGE_MAGIC          "\x89SLPIMG\n"  // 8 bytes: the high bit and the newline show a transfer that changed bytes
#define SLIP__IMAGE_MAGIC_SIZE     8
#define SLIP__IMAGE_FORMAT_VERSION 1
// The version of the records inside may not change without a new format version.

// X(NAME, text, record bytes): the sections in their order. Record bytes 0: no fixed records.
#define SLIP__IMAGE_SECTION_TABLE(X)          \
  X(ENTRIES, "entry table", 32)               \
  X(SIGNATURES, "signatures", 96)             \
  X(ORCHESTRATION, "orchestration binary", 0) \
  X(KERNELS, "kernel table", 48)              \
  X(KERNEL_BINARIES, "kernel binaries", 0)    \
  X(STRINGS, "string table", 0)               \
  X(TARGET, "target record", 24)              \
  X(BUILD_ID, "build id", 0)

typedef enum slip__image_section_e {
#define SLIP__IMAGE_SECTION_ENUM(name, text, record) SLIP__IMAGE_##name,
  SLIP__IMAGE_SECTION_TABLE(SLIP__IMAGE_SECTION_ENUM)
#undef SLIP__IMAGE_SECTION_ENUM
      SLIP__IMAGE_SECTION_COUNT
} slip__image_section_e;

typedef enum slip__image_record_bytes_e {
#define SLIP__IMAGE_SECTION_BYTES(name, text, record) SLIP__IMAGE_##name##_RECORD = (record),
  SLIP__IMAGE_SECTION_TABLE(SLIP__IMAGE_SECTION_BYTES)
#undef SLIP__IMAGE_SECTION_BYTES
} slip__image_record_bytes_e;

// Header: offsets from the image's start.
#define SLIP__HEADER_MAGIC         0   // 8 bytes
#define SLIP__HEADER_VERSION       8   // u32
#define SLIP__HEADER_BYTES         12  // u32: SLIP__IMAGE_HEADER_BYTES
#define SLIP__HEADER_TOTAL         16  // u64: size of the image
#define SLIP__HEADER_HASH          24  // 2 x u64, low half first: XXH3-128 of the image with these 16 bytes zero
#define SLIP__HEADER_SECTION_COUNT 40  // u32: SLIP__IMAGE_SECTION_COUNT
#define SLIP__HEADER_RESERVED      44  // u32: 0
#define SLIP__HEADER_SECTIONS      48  // section descriptors
#define SLIP__IMAGE_HEADER_BYTES   256

// Section descriptor.
#define SLIP__SECTION_KIND   0   // u32: index of the section + 1
#define SLIP__SECTION_COUNT  4   // u32: records
#define SLIP__SECTION_OFFSET 8   // u64 from the image's start
#define SLIP__SECTION_SIZE   16  // u64, padding not counted
#define SLIP__SECTION_BYTES  24

// A string reference is {u32 offset into the string table, u32 length without the terminator}.
#define SLIP__STRING_REF_BYTES 8

// Entry record. Parameters and aliases of the entries follow each other in the signature section.
#define SLIP__ENTRY_NAME         0   // string
#define SLIP__ENTRY_FIRST_PARAM  8   // u32
#define SLIP__ENTRY_PARAM_COUNT  12  // u32
#define SLIP__ENTRY_FIRST_ALIAS  16  // u32
#define SLIP__ENTRY_ALIAS_COUNT  20  // u32
#define SLIP__ENTRY_TENSOR_COUNT 24  // u32
#define SLIP__ENTRY_SCALAR_COUNT 28  // u32

// Parameter record; after the last one the section holds the aliases, i32 each.
#define SLIP__PARAM_NAME      0   // string
#define SLIP__PARAM_DIRECTION 8   // u8
#define SLIP__PARAM_LAYOUT    9   // u8
#define SLIP__PARAM_DTYPE     10  // u8
#define SLIP__PARAM_RANK      11  // u8
#define SLIP__PARAM_RESERVED  12  // u32: 0
#define SLIP__PARAM_DIMS      16  // 5 x i64; 0 at and above the rank
#define SLIP__PARAM_DIM_NAMES 56  // 5 x string; {0, 0} where there is no name
#define SLIP__ALIAS_BYTES     4

// Kernel record.
#define SLIP__KERNEL_NAME          0   // string
#define SLIP__KERNEL_FUNCTION_ID   8   // u32: index in the table
#define SLIP__KERNEL_CORE          12  // u32: slip_core_e
#define SLIP__KERNEL_TENSOR_COUNT  16  // u32
#define SLIP__KERNEL_SCALAR_COUNT  20  // u32
#define SLIP__KERNEL_SCRATCH_BYTES 24  // u32
#define SLIP__KERNEL_RESERVED      28  // u32: 0
#define SLIP__KERNEL_BINARY_OFFSET 32  // u64 from the start of the kernel binaries; 0 if empty
#define SLIP__KERNEL_BINARY_SIZE   40  // u64

// Target record.
#define SLIP__TARGET_PLATFORM     0   // u16: slip_platform_e
#define SLIP__TARGET_RESERVED0    2   // u16: 0
#define SLIP__TARGET_CONTRACT     4   // u32: slip_contract_e
#define SLIP__TARGET_RUNTIME_KIND 8   // u32: slip_runtime_kind_e
#define SLIP__TARGET_RESERVED1    12  // u32: 0
#define SLIP__TARGET_NAME         16  // string

// The first 64 bytes of a 64-bit little-endian ELF file, which a host-native orchestration binary is.
#define SLIP__ELF_HEADER_BYTES 64
#define SLIP__ELF_IDENT \
  "\x7f"                \
  "ELF\x02\x01"
#define SLIP__ELF_IDENT_BYTES 6

// Indices into slip_image_view_t.internal.
enum {
  SLIP__VIEW_ENTRIES,
  SLIP__VIEW_PARAMS,
  SLIP__VIEW_ALIASES,
  SLIP__VIEW_KERNELS,
  SLIP__VIEW_KERNEL_BINARIES,
  SLIP__VIEW_STRINGS,
};

// Little-endian values at any alignment, on any machine.
static inline uint16_t slip__load_u16(const uint8_t *at) {
  return (uint16_t)(at[0] | at[1] << 8);
}
static inline uint32_t slip__load_u32(const uint8_t *at) {
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
static inline uint64_t slip__load_u64(const uint8_t *at) {
  return slip__load_u32(at) | (uint64_t)slip__load_u32(at + 4) << 32;
}
static inline void slip__store_u16(uint8_t *at, uint16_t value) {
  for (unsigned i = 0; i < 2; ++i) at[i] = (uint8_t)(value >> (8 * i));
}
static inline void slip__store_u32(uint8_t *at, uint32_t value) {
  for (unsigned i = 0; i < 4; ++i) at[i] = (uint8_t)(value >> (8 * i));
}
static inline void slip__store_u64(uint8_t *at, uint64_t value) {
  for (unsigned i = 0; i < 8; ++i) at[i] = (uint8_t)(value >> (8 * i));
}

#endif  // SLIPSTREAM_SRC_IMAGE_IMAGE_FORMAT_H_
