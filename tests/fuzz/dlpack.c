// SPDX-License-Identifier: Apache-2.0
// A DLPack tensor with every field from the input. The memory is never touched, so any address will do.
#include "slip_fuzz.h"
#include "slipstream/dlpack.h"

// The input, field by field; what is missing is zero.
typedef struct input_t {
  int64_t shape[SLIP_MAX_RANK];
  int64_t strides[SLIP_MAX_RANK];
  uint64_t data;
  uint64_t byte_offset;
  uint64_t storage_bytes;
  uint32_t flags;
  int32_t ndim;
  int32_t device_type;
  int32_t device_id;
  uint16_t lanes;
  uint8_t code;
  uint8_t bits;
  uint8_t major;
  uint8_t has_shape;
  uint8_t has_strides;
  uint8_t pick;
  int64_t start, length, step;
} input_t;

// Whatever view is made of a sound tensor is sound itself or refused, and never has more elements.
static void try_views(const slip_tensor_t *tensor, const input_t *input) {
  slip_tensor_t view = *tensor;
  int64_t count = slip_tensor_element_count(tensor);
  SLIP_FUZZ_CHECK(count >= 0);
  slip_status_t status = slip_tensor_slice(tensor, input->pick % 6, input->start, input->length, input->step, &view);
  if (slip_status_is_ok(status)) {
    SLIP_FUZZ_OK(slip_tensor_validate(&view));
    SLIP_FUZZ_CHECK(slip_tensor_element_count(&view) <= count);
  } else {
    SLIP_FUZZ_CHECK(memcmp(&view, tensor, sizeof(view)) == 0);
  }
  slip_status_free(status);
  status = slip_tensor_reshape(tensor, input->pick % 6, input->strides, &view);
  if (slip_status_is_ok(status)) {
    SLIP_FUZZ_OK(slip_tensor_validate(&view));
    SLIP_FUZZ_CHECK(slip_tensor_element_count(&view) == count);
  }
  slip_status_free(status);
  char text[64];
  (void)slip_tensor_format(tensor, text, sizeof(text));
}

static void round_trip(const slip_tensor_t *tensor) {
  slip_dl_managed_t *managed;
  slip_tensor_t back;
  SLIP_FUZZ_OK(slip_tensor_to_dlpack(tensor, slip_allocator_system(), NULL, NULL, &managed));
  SLIP_FUZZ_OK(slip_tensor_from_dlpack_managed(managed, &back));
  back.storage_base = tensor->storage_base;
  back.storage_bytes = tensor->storage_bytes;
  SLIP_FUZZ_CHECK(memcmp(&back, tensor, sizeof(back)) == 0);
  managed->deleter(managed);
}

static void check(slip_status_t status, const slip_tensor_t *tensor, const input_t *input) {
  static const slip_tensor_t zero;
  if (slip_status_is_ok(status)) {
    SLIP_FUZZ_OK(slip_tensor_validate(tensor));
    try_views(tensor, input);
    round_trip(tensor);
    return;
  }
  slip_code_t code = slip_status_code(status);
  SLIP_FUZZ_CHECK(code == SLIP_CODE_INVALID_ARGUMENT || code == SLIP_CODE_UNSUPPORTED || code == SLIP_CODE_INCOMPATIBLE);
  SLIP_FUZZ_CHECK(memcmp(tensor, &zero, sizeof(zero)) == 0);
  slip_status_free(status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input_t input;
  memset(&input, 0, sizeof(input));
  if (size > 0) memcpy(&input, data, size < sizeof(input) ? size : sizeof(input));
  slip_dl_managed_t managed;
  memset(&managed, 0, sizeof(managed));
  managed.version.major = input.major;
  managed.flags = input.flags;
  managed.tensor.data = (void *)(uintptr_t)input.data;
  managed.tensor.device.device_type = input.device_type;
  managed.tensor.device.device_id = input.device_id;
  managed.tensor.ndim = input.ndim;
  managed.tensor.dtype.code = input.code;
  managed.tensor.dtype.bits = input.bits;
  managed.tensor.dtype.lanes = input.lanes;
  managed.tensor.shape = input.has_shape & 1 ? input.shape : NULL;
  managed.tensor.strides = input.has_strides & 1 ? input.strides : NULL;
  managed.tensor.byte_offset = input.byte_offset;
  slip_tensor_t tensor;
  check(slip_tensor_from_dlpack(&managed.tensor, input.storage_bytes, &tensor), &tensor, &input);
  check(slip_tensor_from_dlpack_managed(&managed, &tensor), &tensor, &input);
  return 0;
}
