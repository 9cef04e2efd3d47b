// SPDX-License-Identifier: Apache-2.0
#include "npy.h"

#include "slip_test.h"

// A .npy file in memory: header text, version, data of |size| bytes.
static slip_const_bytes_t make(int version, const char *dictionary, size_t data_size) {
  static uint8_t bytes[4096];
  size_t length = strlen(dictionary), start = version == 1 ? 10 : 12;
  memset(bytes, 0, sizeof(bytes));
  memcpy(bytes, "\x93NUMPY", 6);
  bytes[6] = (uint8_t)version;
  bytes[8] = (uint8_t)(length & 0xff);
  bytes[9] = (uint8_t)(length >> 8);
  memcpy(bytes + start, dictionary, length);
  for (size_t i = 0; i < data_size; ++i) bytes[start + length + i] = (uint8_t)i;
  return (slip_const_bytes_t){bytes, start + length + data_size};
}

static void check_refused(const char *dictionary, size_t data_size, slip_code_t code, const char *part) {
  cli_array_t array;
  SLIP_CHECK_ERROR(cli_npy_parse(make(1, dictionary, data_size), SLIP_DTYPE_F32, &array), code, part);
  SLIP_CHECK(array.data.data == NULL);
}

SLIP_TEST(npy_reads_what_numpy_writes) {
  cli_array_t array;
  for (int version = 1; version <= 3; ++version) {
    slip_const_bytes_t bytes = make(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }       \n", 24);
    SLIP_CHECK_OK(cli_npy_parse(bytes, SLIP_DTYPE_F32, &array));
    SLIP_CHECK_EQ(array.dtype, SLIP_DTYPE_F32);
    SLIP_CHECK_EQ(array.rank, 2);
    SLIP_CHECK_EQ(array.dims[0], 2);
    SLIP_CHECK_EQ(array.dims[1], 3);
    SLIP_CHECK_EQ(array.data.size, 24);
    SLIP_CHECK_EQ(array.data.data[5], 5);
  }
  SLIP_CHECK_OK(cli_npy_parse(make(1, "{'shape': (), 'descr': '|b1', 'fortran_order': False}", 1), SLIP_DTYPE_NONE, &array));
  SLIP_CHECK_EQ(array.rank, 0);
  SLIP_CHECK_EQ(array.dtype, SLIP_DTYPE_BOOL);
  SLIP_CHECK_OK(cli_npy_parse(make(1, "{\"descr\": \"<i8\", 'fortran_order': True, 'shape': (3L,)}", 24), SLIP_DTYPE_NONE, &array));
  SLIP_CHECK_EQ(array.dims[0], 3);
  SLIP_CHECK_OK(
      cli_npy_parse(make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 0)}", 0), SLIP_DTYPE_NONE, &array));
  SLIP_CHECK_EQ(array.data.size, 0);
}

SLIP_TEST(npy_untyped_data_needs_a_declaration) {
  static const char text[] = "{'descr': '<V2', 'fortran_order': False, 'shape': (2,)}";
  cli_array_t array;
  SLIP_CHECK_ERROR(cli_npy_parse(make(1, text, 4), SLIP_DTYPE_F32, &array), SLIP_CODE_UNSUPPORTED, "bf16");
  SLIP_CHECK_OK(cli_npy_parse(make(1, text, 4), SLIP_DTYPE_BF16, &array));
  SLIP_CHECK_EQ(array.dtype, SLIP_DTYPE_BF16);
}

#define ORDER "'fortran_order': False, "

SLIP_TEST(npy_refuses_each_fault) {
  check_refused("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", 24, SLIP_CODE_UNSUPPORTED, "ascontiguousarray");
  check_refused("{'descr': '>f4', " ORDER "'shape': (2,)}", 8, SLIP_CODE_UNSUPPORTED, "big-endian");
  check_refused("{'descr': '<c8', " ORDER "'shape': (2,)}", 16, SLIP_CODE_UNSUPPORTED, "<c8");
  check_refused("{'descr': [('a', '<f4')], " ORDER "'shape': (2,)}", 8, SLIP_CODE_UNSUPPORTED, "structured");
  check_refused("{'descr': '<f4', " ORDER "'shape': (1, 1, 1, 1, 1, 1)}", 4, SLIP_CODE_UNSUPPORTED, "rank 6");
  check_refused("{'descr': '<f4', " ORDER "'shape': (2,)}", 7, SLIP_CODE_CORRUPT, "promises 8 bytes of data, the file has 7");
  check_refused("{'descr': '<f4', " ORDER "'shape': (2,)}", 9, SLIP_CODE_CORRUPT, "has 9");
  check_refused("{'descr': '<f4', " ORDER "'shape': (-2,)}", 8, SLIP_CODE_CORRUPT, "dimension");
  check_refused("{'descr': '<f4', " ORDER "'shape': (9223372036854775808,)}", 8, SLIP_CODE_CORRUPT, "dimension");
  check_refused("{'descr': '<f4', " ORDER "'shape': (4611686018427387904, 4)}", 8, SLIP_CODE_CORRUPT, "2^63-1");
  check_refused("{'descr': '<f4', " ORDER "'shape': 2}", 8, SLIP_CODE_CORRUPT, "tuple");
  check_refused("{'descr': '<f4', " ORDER "'shape': (2,", 8, SLIP_CODE_CORRUPT, "dimension");
  check_refused("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", 8, SLIP_CODE_CORRUPT, "fortran_order");
  check_refused("{'descr': '<f4', " ORDER "}", 8, SLIP_CODE_CORRUPT, "lacks");
  check_refused("{'descr': '<f4', 'descr': '<f4', " ORDER "'shape': (2,)}", 8, SLIP_CODE_CORRUPT, "repeated");
  check_refused("{'descr': '<f4', " ORDER "'shape': (2,), 'x': 1}", 8, SLIP_CODE_CORRUPT, "unknown");
  check_refused("{'descr': '<f4', " ORDER "'shape': (2,)} x", 8, SLIP_CODE_CORRUPT, "behind");
  check_refused("", 8, SLIP_CODE_CORRUPT, "dictionary");
}

SLIP_TEST(npy_refuses_wrong_frames) {
  cli_array_t array;
  slip_const_bytes_t good = make(1, "{'descr': '<f4', " ORDER "'shape': (2,)}", 8);
  for (size_t size = 0; size < good.size; ++size) {
    SLIP_CHECK_CODE(cli_npy_parse((slip_const_bytes_t){good.data, size}, SLIP_DTYPE_F32, &array), SLIP_CODE_CORRUPT);
  }
  SLIP_CHECK_ERROR(cli_npy_parse(make(4, "{}", 0), SLIP_DTYPE_F32, &array), SLIP_CODE_UNSUPPORTED, "version 4.0");
  slip_const_bytes_t huge = make(2, "{}", 0);
  memset((uint8_t *)(uintptr_t)huge.data + 8, 0xff, 4);
  SLIP_CHECK_ERROR(cli_npy_parse(huge, SLIP_DTYPE_F32, &array), SLIP_CODE_CORRUPT, "4294967295");
}

SLIP_TEST(npy_round_trip_of_each_dtype_and_rank) {
  char path[512];
  uint8_t data[64];
  snprintf(path, sizeof(path), "%s/a.npy", slip_test_temporary_directory());
  for (size_t i = 0; i < sizeof(data); ++i) data[i] = (uint8_t)(i * 7);
  for (slip_dtype_t dtype = 1; dtype <= SLIP_DTYPE_F4E2M1X2; ++dtype) {
    for (uint8_t rank = 0; rank <= SLIP_MAX_RANK; ++rank) {
      cli_array_t array = {.dtype = dtype, .rank = rank}, back;
      uint64_t size = 0;
      for (uint8_t d = 0; d < rank; ++d) array.dims[d] = d < 2 ? 2 : 1;
      SLIP_CHECK(cli_array_size(dtype, rank, array.dims, &size));
      array.data = (slip_const_bytes_t){data, (size_t)size};
      SLIP_CHECK_OK(cli_npy_write(path, &array));
      slip_const_bytes_t bytes;
      SLIP_CHECK_OK(cli_file_map(path, &bytes));
      SLIP_CHECK_OK(cli_npy_parse(bytes, dtype, &back));
      SLIP_CHECK_EQ(back.dtype, dtype);
      SLIP_CHECK_EQ(back.rank, rank);
      SLIP_CHECK(memcmp(back.dims, array.dims, sizeof(back.dims)) == 0);
      SLIP_CHECK_EQ(back.data.size, size);
      SLIP_CHECK(memcmp(back.data.data, data, size) == 0);
      SLIP_CHECK_EQ((back.data.data - bytes.data) % 64, 0);
      cli_file_unmap(bytes);
    }
  }
}

SLIP_TEST(npy_write_says_what_went_wrong) {
  char path[512];
  uint8_t data[4] = {0};
  const cli_array_t array = {.dtype = SLIP_DTYPE_F32, .data = {data, 4}};
  SLIP_CHECK_ERROR(cli_npy_write("/dev/full", &array), SLIP_CODE_IO, "No space left on device");
  SLIP_CHECK_ERROR(cli_npy_write(slip_test_temporary_directory(), &array), SLIP_CODE_IO, "is a directory");
  snprintf(path, sizeof(path), "%s/none/a.npy", slip_test_temporary_directory());
  SLIP_CHECK_ERROR(cli_npy_write(path, &array), SLIP_CODE_NOT_FOUND, "none/a.npy");
}
