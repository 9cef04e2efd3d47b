// SPDX-License-Identifier: Apache-2.0
#include "slipstream/dtype.h"

#include "slip_test.h"
#include "slipstream/tensor.h"

SLIP_TEST(dtype_table_maps_both_ways){
#define CHECK_ROW(name, text, number, bytes, kind, dl_code, dl_bits, dl_lanes)             \
  {                                                                                        \
    uint8_t code, bits;                                                                    \
    uint16_t lanes;                                                                        \
    SLIP_CHECK_STR(slip_dtype_name(SLIP_DTYPE_##name), text);                              \
    SLIP_CHECK_EQ(slip_dtype_from_name(text "tail", sizeof(text) - 1), SLIP_DTYPE_##name); \
    SLIP_CHECK_EQ(slip_dtype_from_name(text "tail", sizeof(text)), SLIP_DTYPE_NONE);       \
    SLIP_CHECK_EQ(slip_dtype_size_bytes(SLIP_DTYPE_##name), bytes);                        \
    SLIP_CHECK_EQ(slip_dtype_kind(SLIP_DTYPE_##name), SLIP_DTYPE_KIND_##kind);             \
    SLIP_CHECK(slip_dtype_to_dlpack(SLIP_DTYPE_##name, &code, &bits, &lanes));             \
    SLIP_CHECK(code == dl_code && bits == dl_bits && lanes == dl_lanes);                   \
    SLIP_CHECK_EQ(slip_dtype_from_dlpack(dl_code, dl_bits, dl_lanes), SLIP_DTYPE_##name);  \
    SLIP_CHECK(8 * (bytes) == (dl_bits) * (dl_lanes));                                     \
  }
    SLIP_DTYPE_TABLE(CHECK_ROW)
#undef CHECK_ROW
}

SLIP_TEST(dtype_numbers_are_stable) {
  SLIP_CHECK_EQ(SLIP_DTYPE_F32, 1);
  SLIP_CHECK_EQ(SLIP_DTYPE_BF16, 3);
  SLIP_CHECK_EQ(SLIP_DTYPE_BOOL, 13);
  SLIP_CHECK_EQ(SLIP_DTYPE_F4E2M1X2, 17);
}

SLIP_TEST(dtype_unknown_codes_are_harmless) {
  for (int i = 0; i < 256; ++i) {
    slip_dtype_t dtype = (slip_dtype_t)i;
    bool known = i >= 1 && i <= 17;
    uint8_t code, bits;
    uint16_t lanes;
    SLIP_CHECK_EQ(slip_dtype_size_bytes(dtype) > 0, known);
    SLIP_CHECK_EQ(slip_dtype_name(dtype)[0] != '\0', known);
    SLIP_CHECK_EQ(slip_dtype_kind(dtype) != SLIP_DTYPE_KIND_NONE, known);
    SLIP_CHECK_EQ(slip_dtype_to_dlpack(dtype, &code, &bits, &lanes), known);
    SLIP_CHECK(known || (code == 0 && bits == 0 && lanes == 0));
  }
  SLIP_CHECK_EQ(slip_dtype_from_name("float", 5), SLIP_DTYPE_NONE);
  SLIP_CHECK_EQ(slip_dtype_from_name("", 0), SLIP_DTYPE_NONE);
  SLIP_CHECK_EQ(slip_dtype_from_name(NULL, 3), SLIP_DTYPE_NONE);
  SLIP_CHECK_EQ(slip_dtype_from_dlpack(2, 32, 4), SLIP_DTYPE_NONE);
  SLIP_CHECK_EQ(slip_dtype_from_dlpack(5, 64, 1), SLIP_DTYPE_NONE);
  SLIP_CHECK_EQ(slip_dtype_from_dlpack(17, 4, 1), SLIP_DTYPE_NONE);
}

SLIP_TEST(platform_names_map_both_ways) {
  for (uint16_t i = 1; i <= 5; ++i) SLIP_CHECK_EQ(slip_platform_from_name(slip_platform_name(i)), i);
  SLIP_CHECK_STR(slip_platform_name(SLIP_PLATFORM_ASCEND), "ascend");
  SLIP_CHECK_STR(slip_platform_name(0), "");
  SLIP_CHECK_STR(slip_platform_name(6), "");
  SLIP_CHECK_EQ(slip_platform_from_name("npu"), SLIP_PLATFORM_NONE);
  SLIP_CHECK_EQ(slip_platform_from_name(""), SLIP_PLATFORM_NONE);
  SLIP_CHECK_EQ(slip_platform_from_name(NULL), SLIP_PLATFORM_NONE);
}
