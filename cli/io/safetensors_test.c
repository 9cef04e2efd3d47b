// SPDX-License-Identifier: Apache-2.0
#include "safetensors.h"

#include "slip_test.h"

static slip_const_bytes_t make(const char *header, size_t data_size) {
  static uint8_t bytes[4096];
  size_t length = strlen(header);
  memset(bytes, 0, sizeof(bytes));
  for (int i = 0; i < 8; ++i) bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
  memcpy(bytes + 8, header, length);
  for (size_t i = 0; i < data_size; ++i) bytes[8 + length + i] = (uint8_t)i;
  return (slip_const_bytes_t){bytes, 8 + length + data_size};
}

static void check_refused(const char *header, size_t data_size, const char *part) {
  cli_safetensors_t file;
  SLIP_CHECK_ERROR(cli_safetensors_parse(make(header, data_size), &file), SLIP_CODE_CORRUPT, part);
  SLIP_CHECK(file.items == NULL && file.header == NULL);
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

SLIP_TEST(safetensors_reads_tensors_by_name) {
  cli_safetensors_t file;
  cli_array_t array;
  SLIP_CHECK_OK(cli_safetensors_parse(
      make("{\"b.w\":{\"dtype\":\"BF16\",\"shape\":[1,3],\"data_offsets\":[8,14]}," A
           ",\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[14,22]},"
           "\"e\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[22,22]},\"__metadata__\":{\"format\":\"pt\"}}   ",
           22),
      &file));
  SLIP_CHECK_EQ(file.count, 4);
  SLIP_CHECK(cli_safetensors_find(&file, "none") == NULL);
  SLIP_CHECK_OK(cli_safetensors_array(&file, cli_safetensors_find(&file, "b.w"), &array));
  SLIP_CHECK_EQ(array.dtype, SLIP_DTYPE_BF16);
  SLIP_CHECK_EQ(array.rank, 2);
  SLIP_CHECK_EQ(array.dims[1], 3);
  SLIP_CHECK_EQ(array.data.size, 6);
  SLIP_CHECK_EQ(array.data.data[0], 8);
  SLIP_CHECK_OK(cli_safetensors_array(&file, cli_safetensors_find(&file, "s"), &array));
  SLIP_CHECK_EQ(array.rank, 0);
  cli_safetensors_deinitialize(&file);
  SLIP_CHECK_OK(cli_safetensors_parse(make("{}", 0), &file));
  cli_safetensors_deinitialize(&file);
}

SLIP_TEST(safetensors_what_has_no_counterpart_is_refused_at_use_only) {
  cli_safetensors_t file;
  cli_array_t array;
  SLIP_CHECK_OK(cli_safetensors_parse(make("{" A ",\"x\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[8,11]},"
                                           "\"r\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1],\"data_offsets\":[11,12]}}",
                                           12),
                                      &file));
  SLIP_CHECK_OK(cli_safetensors_array(&file, cli_safetensors_find(&file, "a"), &array));
  SLIP_CHECK_ERROR(cli_safetensors_array(&file, cli_safetensors_find(&file, "x"), &array), SLIP_CODE_UNSUPPORTED, "F6_E2M3");
  SLIP_CHECK_ERROR(cli_safetensors_array(&file, cli_safetensors_find(&file, "r"), &array), SLIP_CODE_UNSUPPORTED, "rank 6");
  cli_safetensors_deinitialize(&file);
}

SLIP_TEST(safetensors_refuses_each_fault) {
  check_refused("{" A "}", 7, "cut short");
  check_refused("{" A "}", 9, "the file has 9");
  check_refused("{" A "," A "}", 8, "duplicate");
  check_refused("{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, "overlap");
  check_refused("{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}", 16, "hole");
  check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "3 elements of 4 bytes");
  check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "ascending");
  check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8.0]}}", 8, "ascending");
  check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4,8]}}", 8, "ascending");
  check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "shape");
  check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "shape");
  check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", 4, "elements");
  check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "exactly");
  check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8, "exactly");
  check_refused("{\"a\":{\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "exactly");
  check_refused("{\"a\":3}", 0, "exactly");
  check_refused("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__");
  check_refused("{\"__metadata__\":[]}", 0, "__metadata__");
  check_refused("[]", 0, "object");
  check_refused("{" A, 8, "no JSON");
}

SLIP_TEST(safetensors_refuses_wrong_lengths) {
  cli_safetensors_t file;
  slip_const_bytes_t good = make("{" A "}", 8);
  for (size_t size = 0; size < good.size; ++size) {
    SLIP_CHECK_CODE(cli_safetensors_parse((slip_const_bytes_t){good.data, size}, &file), SLIP_CODE_CORRUPT);
  }
  uint8_t *bytes = (uint8_t *)(uintptr_t)good.data;
  for (int i = 0; i < 8; ++i) {
    bytes[i] ^= 0x80;
    SLIP_CHECK_CODE(cli_safetensors_parse(good, &file), SLIP_CODE_CORRUPT);
    bytes[i] ^= 0x80;
  }
  cli_safetensors_t again;
  SLIP_CHECK_OK(cli_safetensors_parse(good, &again));
  cli_safetensors_deinitialize(&again);
}
