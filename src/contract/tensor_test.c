// SPDX-License-Identifier: Apache-2.0
#include "slipstream/tensor.h"

#include "slip_test.h"

#define INVALID SLIP_CODE_INVALID_ARGUMENT

static float memory[4096];

static slip_tensor_t make(uint8_t rank, const int64_t *dims) {
  slip_tensor_t tensor;
  SLIP_CHECK_OK(slip_tensor_initialize(&tensor, SLIP_DTYPE_F32, rank, dims, memory, slip_device_cpu()));
  return tensor;
}

static void has(const slip_tensor_t *tensor, uint8_t rank, const int64_t *dims, const int64_t *strides) {
  SLIP_CHECK_EQ(tensor->rank, rank);
  for (uint32_t i = 0; i < rank; ++i) {
    SLIP_CHECK_EQ(tensor->dims[i], dims[i]);
    if (strides) SLIP_CHECK_EQ(tensor->strides[i], strides[i]);
  }
}
#define LIST(...)     \
  (const int64_t[]) { \
    __VA_ARGS__       \
  }

SLIP_TEST(tensor_initialize_is_row_major) {
  slip_tensor_t tensor = make(3, LIST(2, 3, 4));
  has(&tensor, 3, LIST(2, 3, 4), LIST(12, 4, 1));
  SLIP_CHECK_EQ(tensor.struct_size, 128);
  SLIP_CHECK_EQ(tensor.format, SLIP_FORMAT_ND);
  SLIP_CHECK_EQ(tensor.storage_bytes, 96);
  SLIP_CHECK(tensor.storage_base == memory && tensor.data == memory);
  SLIP_CHECK_EQ(slip_tensor_element_count(&tensor), 24);
  SLIP_CHECK(slip_tensor_is_contiguous(&tensor));
  SLIP_CHECK_OK(slip_tensor_validate(&tensor));
}

SLIP_TEST(tensor_rank_0_and_empty) {
  slip_tensor_t tensor = make(0, NULL);
  SLIP_CHECK_EQ(slip_tensor_element_count(&tensor), 1);
  SLIP_CHECK_EQ(tensor.storage_bytes, 4);
  tensor = make(2, LIST(0, 4));
  SLIP_CHECK_EQ(slip_tensor_element_count(&tensor), 0);
  SLIP_CHECK(slip_tensor_is_contiguous(&tensor));
  uint64_t begin = 1, end = 1;
  SLIP_CHECK(slip_tensor_byte_span(&tensor, &begin, &end));
  SLIP_CHECK(begin == 0 && end == 0);
  // An empty shape stays empty however large its other dims are.
  SLIP_CHECK_OK(slip_tensor_initialize(&tensor, SLIP_DTYPE_F64, 3, LIST(0, 1ll << 30, 1ll << 30), NULL, slip_device_cpu()));
  SLIP_CHECK_EQ(slip_tensor_element_count(&tensor), 0);
}

static void initialize_refused(slip_dtype_t dtype, uint8_t rank, const int64_t *dims, void *data, const char *part) {
  slip_tensor_t tensor;
  memset(&tensor, 7, sizeof(tensor));
  SLIP_CHECK_ERROR(slip_tensor_initialize(&tensor, dtype, rank, dims, data, slip_device_cpu()), INVALID, part);
  const slip_tensor_t zero = {0};
  SLIP_CHECK(memcmp(&tensor, &zero, sizeof(zero)) == 0);
}

SLIP_TEST(tensor_initialize_refuses) {
  initialize_refused(0, 1, LIST(1), memory, "dtype 0 is unknown");
  initialize_refused(99, 1, LIST(1), memory, "dtype 99 is unknown");
  initialize_refused(SLIP_DTYPE_F32, 6, LIST(1, 1, 1, 1, 1, 1), memory, "rank 6 is above 5");
  initialize_refused(SLIP_DTYPE_F32, 1, NULL, memory, "dims are missing for rank 1");
  initialize_refused(SLIP_DTYPE_F32, 2, LIST(2, -1), memory, "dim 1 is -1");
  initialize_refused(SLIP_DTYPE_F32, 2, LIST(1ll << 31, 1ll << 30), memory, "passes 2^63-1 bytes");
  initialize_refused(SLIP_DTYPE_U8, 3, LIST(1ll << 31, 1ll << 31, 2), memory, "passes 2^63-1 bytes");
  initialize_refused(SLIP_DTYPE_U8, 1, LIST(16), (void *)(uintptr_t)(UINT64_MAX - 8), "end of the address space");
}

SLIP_TEST(tensor_validate_refuses) {
  slip_tensor_t good = make(2, LIST(2, 4)), bad = good;
  bad.struct_size = 100;
  SLIP_CHECK_ERROR(slip_tensor_validate(&bad), INVALID, "struct_size is 100, expected 128");
  bad = good;
  bad.dtype = 0;
  SLIP_CHECK_ERROR(slip_tensor_validate(&bad), INVALID, "dtype 0 is unknown");
  bad = good;
  bad.rank = 6;
  SLIP_CHECK_ERROR(slip_tensor_validate(&bad), INVALID, "rank 6 is above 5");
  SLIP_CHECK_EQ(slip_tensor_element_count(&bad), -1);
  SLIP_CHECK(!slip_tensor_is_contiguous(&bad));
  bad = good;
  bad.dims[1] = -4;
  SLIP_CHECK_ERROR(slip_tensor_validate(&bad), INVALID, "dim 1 is -4");
  bad = good;
  bad.byte_offset = (uint64_t)-4;
  SLIP_CHECK_ERROR(slip_tensor_validate(&bad), INVALID, "byte offset -4 is negative");
  bad = good;
  bad.dims[0] = bad.strides[0] = INT64_MAX;
  SLIP_CHECK_ERROR(slip_tensor_validate(&bad), INVALID, "pass 64 bits");
  SLIP_CHECK_EQ(slip_tensor_element_count(&bad), -1);
  bad = good;
  bad.strides[0] = INT64_MAX / 4;
  SLIP_CHECK_ERROR(slip_tensor_validate(&bad), INVALID, "pass 64 bits");
  bad = good;
  bad.strides[0] = INT64_MIN / 2;
  SLIP_CHECK_ERROR(slip_tensor_validate(&bad), INVALID, "pass 64 bits");
  bad = good;
  bad.strides[0] = 5;
  SLIP_CHECK_ERROR(slip_tensor_validate(&bad), INVALID, "the view accesses bytes [0,36) of a storage of 32 bytes");
  bad = good;
  bad.strides[0] = -4;
  SLIP_CHECK_ERROR(slip_tensor_validate(&bad), INVALID, "bytes [-16,16) of a storage");
  bad = good;
  bad.byte_offset = 4;
  SLIP_CHECK_ERROR(slip_tensor_validate(&bad), INVALID, "bytes [4,36)");
  bad.storage_base = NULL;  // unknown storage: not checked
  SLIP_CHECK_OK(slip_tensor_validate(&bad));
  bad = good;
  bad.dims[0] = 0;
  bad.byte_offset = 4000;  // empty: only the offset's sign counts
  SLIP_CHECK_OK(slip_tensor_validate(&bad));
}

SLIP_TEST(tensor_span_of_odd_strides) {
  slip_tensor_t tensor = make(2, LIST(4, 8));
  uint64_t begin, end, base = (uint64_t)(uintptr_t)memory;
  tensor.strides[0] = -8;
  tensor.byte_offset = 3 * 32;
  SLIP_CHECK(slip_tensor_byte_span(&tensor, &begin, &end));
  SLIP_CHECK(begin == base && end == base + 128);
  tensor.strides[0] = 0;  // broadcast
  SLIP_CHECK(slip_tensor_byte_span(&tensor, &begin, &end));
  SLIP_CHECK(begin == base + 96 && end == base + 128);
  tensor.data = (void *)(uintptr_t)4;
  tensor.byte_offset = 0;
  tensor.strides[0] = -8;  // below address 0
  SLIP_CHECK(!slip_tensor_byte_span(&tensor, &begin, &end));
  SLIP_CHECK(begin == 0 && end == 0);
}

SLIP_TEST(tensor_contiguity) {
  slip_tensor_t tensor = make(3, LIST(2, 1, 4));
  tensor.strides[1] = 999;
  SLIP_CHECK(slip_tensor_is_contiguous(&tensor));
  tensor.strides[2] = 2;
  SLIP_CHECK(!slip_tensor_is_contiguous(&tensor));
}

SLIP_TEST(tensor_slice) {
  slip_tensor_t tensor = make(2, LIST(4, 8)), view;
  SLIP_CHECK_OK(slip_tensor_slice(&tensor, 0, 1, 2, 1, &view));
  has(&view, 2, LIST(2, 8), LIST(8, 1));
  SLIP_CHECK_EQ(view.byte_offset, 32);
  SLIP_CHECK(slip_tensor_is_contiguous(&view));
  SLIP_CHECK_OK(slip_tensor_slice(&view, 1, 1, 3, 3, &view));  // in place
  has(&view, 2, LIST(2, 3), LIST(8, 3));
  SLIP_CHECK_EQ(view.byte_offset, 36);
  SLIP_CHECK_OK(slip_tensor_slice(&tensor, 1, 8, 0, 1, &view));
  has(&view, 2, LIST(4, 0), NULL);
  SLIP_CHECK_OK(slip_tensor_validate(&view));
  SLIP_CHECK_OK(slip_tensor_slice(&tensor, 1, 7, 1, INT64_MAX, &view));  // one element: the step does not matter
}

SLIP_TEST(tensor_slice_of_a_reversed_view_moves_down) {
  slip_tensor_t tensor = make(1, LIST(8)), view;
  tensor.data = memory + 7;
  tensor.strides[0] = -1;
  SLIP_CHECK_OK(slip_tensor_slice(&tensor, 0, 2, 3, 2, &view));
  uint64_t begin, end;
  SLIP_CHECK(slip_tensor_byte_span(&view, &begin, &end));
  SLIP_CHECK(begin == (uint64_t)(uintptr_t)(memory + 1) && end == (uint64_t)(uintptr_t)(memory + 6));
}

SLIP_TEST(tensor_slice_refuses) {
  slip_tensor_t tensor = make(2, LIST(4, 8)), view = tensor;
  SLIP_CHECK_ERROR(slip_tensor_slice(&tensor, 2, 0, 1, 1, &view), INVALID, "slice: axis 2 of a tensor of rank 2");
  SLIP_CHECK_ERROR(slip_tensor_slice(&tensor, 0, -1, 1, 1, &view), INVALID,
                   "slice: start -1, length 1, step 1 do not lie in dim 0 of size 4");
  SLIP_CHECK_ERROR(slip_tensor_slice(&tensor, 0, 0, 5, 1, &view), INVALID, "length 5");
  SLIP_CHECK_ERROR(slip_tensor_slice(&tensor, 0, 5, 0, 1, &view), INVALID, "start 5");
  SLIP_CHECK_ERROR(slip_tensor_slice(&tensor, 0, 0, -1, 1, &view), INVALID, "length -1");
  SLIP_CHECK_ERROR(slip_tensor_slice(&tensor, 0, 0, 2, 0, &view), INVALID, "step 0");
  SLIP_CHECK_ERROR(slip_tensor_slice(&tensor, 0, 0, 2, 4, &view), INVALID, "step 4");
  SLIP_CHECK_ERROR(slip_tensor_slice(&tensor, 0, 0, 4, INT64_MAX, &view), INVALID, "slice:");
  SLIP_CHECK(memcmp(&view, &tensor, sizeof(view)) == 0);
  tensor.dtype = 0;
  SLIP_CHECK_ERROR(slip_tensor_slice(&tensor, 0, 0, 1, 1, &view), INVALID, "in slice");
}

SLIP_TEST(tensor_transpose_and_permute) {
  slip_tensor_t tensor = make(3, LIST(2, 3, 4)), view;
  SLIP_CHECK_OK(slip_tensor_transpose(&tensor, 0, 2, &view));
  has(&view, 3, LIST(4, 3, 2), LIST(1, 4, 12));
  SLIP_CHECK_OK(slip_tensor_transpose(&view, 2, 0, &view));
  has(&view, 3, LIST(2, 3, 4), LIST(12, 4, 1));
  SLIP_CHECK_OK(slip_tensor_permute(&tensor, (uint32_t[]){1, 2, 0}, &view));
  has(&view, 3, LIST(3, 4, 2), LIST(4, 1, 12));
  SLIP_CHECK_ERROR(slip_tensor_transpose(&tensor, 0, 3, &view), INVALID, "transpose: axes 0 and 3 of a tensor of rank 3");
  SLIP_CHECK_ERROR(slip_tensor_permute(&tensor, (uint32_t[]){1, 1, 0}, &view), INVALID, "permute: entry 1 is 1");
  SLIP_CHECK_ERROR(slip_tensor_permute(&tensor, (uint32_t[]){0, 1, 3}, &view), INVALID, "permute: entry 2 is 3");
  has(&view, 3, LIST(3, 4, 2), LIST(4, 1, 12));
}

SLIP_TEST(tensor_reshape) {
  slip_tensor_t tensor = make(3, LIST(2, 3, 4)), view;
  SLIP_CHECK_OK(slip_tensor_reshape(&tensor, 2, LIST(6, 4), &view));
  has(&view, 2, LIST(6, 4), LIST(4, 1));
  SLIP_CHECK_OK(slip_tensor_reshape(&tensor, 5, LIST(1, 4, 1, -1, 2), &view));
  has(&view, 5, LIST(1, 4, 1, 3, 2), LIST(24, 6, 6, 2, 1));
  SLIP_CHECK_OK(slip_tensor_reshape(&tensor, 1, LIST(-1), &view));
  has(&view, 1, LIST(24), LIST(1));
  // A view that splits or keeps the dims of a transposed tensor needs no copy.
  SLIP_CHECK_OK(slip_tensor_transpose(&tensor, 0, 2, &view));  // [4,3,2] strides [1,4,12]
  SLIP_CHECK_OK(slip_tensor_reshape(&view, 5, LIST(2, 2, 3, 1, 2), &view));
  has(&view, 5, LIST(2, 2, 3, 1, 2), LIST(2, 1, 4, 24, 12));
  slip_tensor_t scalar = make(0, NULL);
  SLIP_CHECK_OK(slip_tensor_reshape(&scalar, 3, LIST(1, 1, 1), &view));
  has(&view, 3, LIST(1, 1, 1), NULL);
  SLIP_CHECK_OK(slip_tensor_reshape(&view, 0, NULL, &view));
  has(&view, 0, NULL, NULL);
  slip_tensor_t empty = make(2, LIST(0, 4));
  SLIP_CHECK_OK(slip_tensor_reshape(&empty, 3, LIST(7, 0, 9), &view));
  has(&view, 3, LIST(7, 0, 9), NULL);
}

SLIP_TEST(tensor_reshape_refuses) {
  slip_tensor_t tensor = make(3, LIST(2, 3, 4)), view = tensor;
  SLIP_CHECK_ERROR(slip_tensor_reshape(&tensor, 6, LIST(1, 1, 1, 1, 1, 24), &view), INVALID, "reshape: rank 6");
  SLIP_CHECK_ERROR(slip_tensor_reshape(&tensor, 2, LIST(5, 5), &view), INVALID, "holds 25 elements and the tensor has 24");
  SLIP_CHECK_ERROR(slip_tensor_reshape(&tensor, 2, LIST(-1, 5), &view), INVALID, "holds 20 elements and the tensor has 24");
  SLIP_CHECK_ERROR(slip_tensor_reshape(&tensor, 2, LIST(-1, -1), &view), INVALID, "dim 1 is -1");
  SLIP_CHECK_ERROR(slip_tensor_reshape(&tensor, 2, LIST(-2, -12), &view), INVALID, "dim 0 is -2");
  SLIP_CHECK_ERROR(slip_tensor_reshape(&tensor, 2, LIST(1ll << 62, 4), &view), INVALID, "passes 2^63-1 elements");
  SLIP_CHECK(memcmp(&view, &tensor, sizeof(view)) == 0);
  slip_tensor_t turned;
  SLIP_CHECK_OK(slip_tensor_transpose(&tensor, 1, 2, &turned));
  SLIP_CHECK_ERROR(slip_tensor_reshape(&turned, 1, LIST(24), &view), INVALID,
                   "reshape: strides [12,1,4] of shape [2,4,3] cannot be viewed as [24] without a copy; make the tensor contiguous first");
  slip_tensor_t empty = make(2, LIST(0, 4));
  SLIP_CHECK_ERROR(slip_tensor_reshape(&empty, 2, LIST(-1, 0), &view), INVALID, "-1 beside a dim of 0");
  SLIP_CHECK_ERROR(slip_tensor_reshape(&empty, 1, LIST(3), &view), INVALID, "holds 3 elements and the tensor has 0");
}

SLIP_TEST(tensor_format_text) {
  slip_tensor_t tensor = make(2, LIST(16, 128));
  char buffer[128];
  SLIP_CHECK_EQ(slip_tensor_format(&tensor, buffer, sizeof(buffer)), 36);
  SLIP_CHECK_STR(buffer, "f32[16,128] strides [128,1] at cpu:0");
  tensor.rank = 77;
  tensor.dtype = 0;
  tensor.device.platform = 9;
  slip_tensor_format(&tensor, buffer, sizeof(buffer));
  SLIP_CHECK_STR(buffer, "dtype 0[16,128,0,0,0] strides [128,1,0,0,0] at platform 9:0");
  SLIP_CHECK(slip_tensor_format(&tensor, NULL, 0) > 0);
}
