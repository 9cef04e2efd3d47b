// SPDX-License-Identifier: Apache-2.0
#include "slipstream/dlpack.h"

#include "slip_test.h"
#include "slip_test_allocator.h"

#define INVALID     SLIP_CODE_INVALID_ARGUMENT
#define UNSUPPORTED SLIP_CODE_UNSUPPORTED

static float memory[64];
static int64_t shape[8] = {4, 8, 1, 1, 1, 1, 1, 1};
static int64_t strides[8] = {8, 1, 1, 1, 1, 1, 1, 1};

static slip_dl_managed_t source_of_f32(void) {
  slip_dl_managed_t source = {
      .version = {1, 0}, .tensor = {.data = memory, .device = {1, 0}, .ndim = 2, .dtype = {2, 32, 1}, .shape = shape, .strides = strides}};
  return source;
}

SLIP_TEST(dlpack_reads_a_tensor) {
  slip_dl_managed_t source = source_of_f32();
  slip_tensor_t tensor;
  source.tensor.byte_offset = 16;
  SLIP_CHECK_OK(slip_tensor_from_dlpack(&source.tensor, sizeof(memory), &tensor));
  SLIP_CHECK_EQ(tensor.dtype, SLIP_DTYPE_F32);
  SLIP_CHECK(tensor.rank == 2 && tensor.dims[0] == 4 && tensor.dims[1] == 8 && tensor.strides[0] == 8 && tensor.strides[1] == 1);
  SLIP_CHECK(tensor.data == memory && tensor.byte_offset == 16 && tensor.storage_base == memory && tensor.storage_bytes == sizeof(memory));
  SLIP_CHECK(tensor.device.platform == SLIP_PLATFORM_CPU && tensor.device.ordinal == 0 && tensor.flags == 0);
  source.tensor.strides = NULL;  // compact row-major
  SLIP_CHECK_OK(slip_tensor_from_dlpack(&source.tensor, 0, &tensor));
  SLIP_CHECK(tensor.strides[0] == 8 && tensor.strides[1] == 1 && tensor.storage_base == NULL && tensor.storage_bytes == 0);
}

SLIP_TEST(dlpack_devices_map) {
  static const struct {
    int32_t type, id;
    uint16_t platform;
    int16_t ordinal;
  } rows[] = {{1, 0, SLIP_PLATFORM_CPU, 0},  {3, 2, SLIP_PLATFORM_CPU, 0},   {11, 2, SLIP_PLATFORM_CPU, 0},
              {2, 3, SLIP_PLATFORM_CUDA, 3}, {13, 1, SLIP_PLATFORM_CUDA, 1}, {12, 4, SLIP_PLATFORM_ASCEND, 4}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    slip_dl_managed_t source = source_of_f32();
    slip_tensor_t tensor;
    source.tensor.device.device_type = rows[i].type;
    source.tensor.device.device_id = rows[i].id;
    SLIP_CHECK_OK(slip_tensor_from_dlpack(&source.tensor, 0, &tensor));
    SLIP_CHECK(tensor.device.platform == rows[i].platform && tensor.device.ordinal == rows[i].ordinal);
  }
}

static void read_refused(const slip_dl_managed_t *source, slip_code_t code, const char *part) {
  slip_tensor_t tensor;
  const slip_tensor_t zero = {0};
  memset(&tensor, 7, sizeof(tensor));
  SLIP_CHECK_ERROR(slip_tensor_from_dlpack_managed(source, &tensor), code, part);
  SLIP_CHECK(memcmp(&tensor, &zero, sizeof(zero)) == 0);
}

SLIP_TEST(dlpack_refuses_nonsense) {
  slip_dl_managed_t source = source_of_f32();
  source.version.major = 2;
  read_refused(&source, SLIP_CODE_INCOMPATIBLE, "DLPack version 2.0; expected 1.x: only its deleter may be called");
  source = source_of_f32();
  source.tensor.ndim = -1;
  read_refused(&source, INVALID, "DLPack ndim is -1");
  source.tensor.ndim = 6;
  read_refused(&source, INVALID, "DLPack ndim is 6");
  source = source_of_f32();
  source.tensor.shape = NULL;
  read_refused(&source, INVALID, "DLPack shape is null for ndim 2");
  source = source_of_f32();
  source.tensor.dtype.lanes = 0;
  read_refused(&source, INVALID, "0 lanes");
  source = source_of_f32();
  source.tensor.dtype.lanes = 4;
  read_refused(&source, UNSUPPORTED, "DLPack dtype {code 2, bits 32, lanes 4} has no name here");
  source = source_of_f32();
  source.tensor.dtype.code = 5;  // complex
  read_refused(&source, UNSUPPORTED, "code 5");
  source = source_of_f32();
  source.tensor.device.device_type = 8;
  read_refused(&source, UNSUPPORTED, "DLPack device type 8 has no platform here");
  source = source_of_f32();
  source.tensor.device.device_id = -1;
  read_refused(&source, INVALID, "DLPack device id -1 is out of range");
  source.tensor.device.device_id = 70000;
  read_refused(&source, INVALID, "DLPack device id 70000");
  source = source_of_f32();
  source.tensor.data = NULL;
  read_refused(&source, INVALID, "DLPack data is null");
  source = source_of_f32();
  source.tensor.byte_offset = UINT64_MAX;
  read_refused(&source, INVALID, "byte offset -1 is negative");
  source = source_of_f32();
  int64_t bad[] = {4, -8};
  source.tensor.shape = bad;
  read_refused(&source, INVALID, "DLPack dim 1 is -8");
  int64_t huge[] = {INT64_MAX, INT64_MAX};
  source.tensor.shape = huge;
  read_refused(&source, INVALID, NULL);
  source.tensor.strides = NULL;
  read_refused(&source, INVALID, "passes 2^63-1 elements");
  read_refused(NULL, INVALID, "no DLPack tensor given");
  slip_tensor_t tensor;
  source = source_of_f32();
  SLIP_CHECK_ERROR(slip_tensor_from_dlpack(&source.tensor, 127, &tensor), INVALID,
                   "the view accesses bytes [0,128) of a storage of 127 bytes");
  SLIP_CHECK_ERROR(slip_tensor_from_dlpack(NULL, 0, &tensor), INVALID, "no DLPack tensor given");
}

SLIP_TEST(dlpack_reads_empty_and_scalar_tensors) {
  slip_dl_managed_t source = source_of_f32();
  slip_tensor_t tensor;
  int64_t empty[] = {0, 8};
  source.tensor.data = NULL;
  source.tensor.shape = empty;
  SLIP_CHECK_OK(slip_tensor_from_dlpack_managed(&source, &tensor));
  source = source_of_f32();
  source.tensor.ndim = 0;
  source.tensor.shape = source.tensor.strides = NULL;
  SLIP_CHECK_OK(slip_tensor_from_dlpack_managed(&source, &tensor));
  SLIP_CHECK_EQ(tensor.rank, 0);
}

SLIP_TEST(dlpack_read_only_is_kept) {
  slip_dl_managed_t source = source_of_f32();
  slip_tensor_t tensor;
  source.flags = SLIP_DL_READ_ONLY | SLIP_DL_IS_COPIED;
  SLIP_CHECK_OK(slip_tensor_from_dlpack_managed(&source, &tensor));
  SLIP_CHECK_EQ(tensor.flags, SLIP_TENSOR_READ_ONLY);
}

SLIP_TEST(dlpack_packed_types) {
  slip_dl_managed_t source = source_of_f32();
  slip_tensor_t tensor;
  source.tensor.dtype.code = 17;
  source.tensor.dtype.bits = 4;
  source.tensor.dtype.lanes = 2;
  SLIP_CHECK_OK(slip_tensor_from_dlpack_managed(&source, &tensor));
  SLIP_CHECK(tensor.dtype == SLIP_DTYPE_F4E2M1X2 && tensor.dims[1] == 8);
  source.flags = SLIP_DL_SUBBYTE_PADDED;
  read_refused(&source, UNSUPPORTED, "padded to bytes");
}

static void count_release(void *user) {
  ++*(int *)user;
}

SLIP_TEST(dlpack_gives_a_tensor_away) {
  slip_test_allocator_t state = SLIP_TEST_ALLOCATOR_INIT;
  slip_tensor_t tensor, back;
  slip_dl_managed_t *managed;
  int released = 0;
  SLIP_CHECK_OK(slip_tensor_initialize(&tensor, SLIP_DTYPE_BF16, 2, (int64_t[]){4, 8}, memory, slip_device_cpu()));
  SLIP_CHECK_OK(slip_tensor_transpose(&tensor, 0, 1, &tensor));
  tensor.flags = SLIP_TENSOR_READ_ONLY;
  tensor.byte_offset = 2;
  tensor.storage_bytes = sizeof(memory);
  SLIP_CHECK_OK(slip_tensor_to_dlpack(&tensor, slip_test_allocator(&state), count_release, &released, &managed));
  SLIP_CHECK(managed->version.major == 1 && managed->flags == SLIP_DL_READ_ONLY && managed->tensor.strides != NULL);
  SLIP_CHECK_OK(slip_tensor_from_dlpack_managed(managed, &back));
  back.storage_base = tensor.storage_base;  // DLPack does not carry it
  back.storage_bytes = tensor.storage_bytes;
  SLIP_CHECK(memcmp(&back, &tensor, sizeof(back)) == 0);
  SLIP_CHECK_EQ(released, 0);
  managed->deleter(managed);
  SLIP_CHECK_EQ(released, 1);
  slip_test_allocator_check_empty(&state);
  SLIP_CHECK_OK(slip_tensor_to_dlpack(&tensor, slip_allocator_system(), NULL, NULL, &managed));
  managed->deleter(managed);
}

static void write_refused(slip_tensor_t tensor, slip_code_t code, const char *part) {
  slip_dl_managed_t *managed = (slip_dl_managed_t *)(uintptr_t)1;
  int released = 0;
  SLIP_CHECK_ERROR(slip_tensor_to_dlpack(&tensor, slip_allocator_system(), count_release, &released, &managed), code, part);
  SLIP_CHECK(managed == NULL && released == 0);
}

SLIP_TEST(dlpack_refuses_to_give_away) {
  slip_tensor_t good, bad;
  SLIP_CHECK_OK(slip_tensor_initialize(&good, SLIP_DTYPE_BF16, 2, (int64_t[]){4, 8}, memory, slip_device_cpu()));
  bad = good;
  bad.flags = SLIP_TENSOR_CONJ;
  write_refused(bad, INVALID, "a conj, neg or fake tensor");
  bad = good;
  bad.format = SLIP_FORMAT_NZ;
  write_refused(bad, UNSUPPORTED, "NZ format has no DLPack form");
  bad = good;
  bad.device.platform = SLIP_PLATFORM_SIM;
  write_refused(bad, UNSUPPORTED, "platform 3 'sim' has no DLPack device number");
  bad = good;
  bad.dims[0] = -1;
  write_refused(bad, INVALID, "giving a tensor to DLPack");
}

static slip_status_t export_body(slip_allocator_t allocator, void *user) {
  slip_tensor_t tensor;
  slip_dl_managed_t *managed;
  int released = 0;
  (void)user;
  SLIP_CHECK_OK(slip_tensor_initialize(&tensor, SLIP_DTYPE_BF16, 2, (int64_t[]){4, 8}, memory, slip_device_cpu()));
  slip_status_t status = slip_tensor_to_dlpack(&tensor, allocator, count_release, &released, &managed);
  SLIP_CHECK_EQ(released, 0);
  SLIP_RETURN_IF_ERROR(status);
  managed->deleter(managed);
  return NULL;
}
SLIP_TEST(dlpack_survives_failing_allocations) {
  SLIP_CHECK(slip_test_allocator_loop(export_body, NULL) > 1);
}
