// SPDX-License-Identifier: Apache-2.0
// Reading a validated image. Nothing is checked again.
#include "base/allocator.h"
#include "image/image_format.h"

static const char *slip__view_string(const slip_image_view_t *view, const uint8_t *reference) {
  return (const char *)view->internal[SLIP__VIEW_STRINGS] + slip__load_u32(reference);
}

static const uint8_t *slip__view_entry(const slip_image_view_t *view, uint32_t index) {
  return (const uint8_t *)view->internal[SLIP__VIEW_ENTRIES] + (size_t)index * SLIP__IMAGE_ENTRIES_RECORD;
}

const char *slip_image_entry_name(const slip_image_view_t *view, uint32_t index) {
  return index < view->entry_count ? slip__view_string(view, slip__view_entry(view, index) + SLIP__ENTRY_NAME) : NULL;
}

bool slip_image_kernel(const slip_image_view_t *view, uint32_t index, slip_image_kernel_t *out) {
  memset(out, 0, sizeof(*out));
  if (index >= view->kernel_count) return false;
  const uint8_t *record = (const uint8_t *)view->internal[SLIP__VIEW_KERNELS] + (size_t)index * SLIP__IMAGE_KERNELS_RECORD;
  out->name = slip__view_string(view, record + SLIP__KERNEL_NAME);
  out->function_id = slip__load_u32(record + SLIP__KERNEL_FUNCTION_ID);
  out->core = slip__load_u32(record + SLIP__KERNEL_CORE);
  out->tensor_count = slip__load_u32(record + SLIP__KERNEL_TENSOR_COUNT);
  out->scalar_count = slip__load_u32(record + SLIP__KERNEL_SCALAR_COUNT);
  out->scratch_bytes = slip__load_u32(record + SLIP__KERNEL_SCRATCH_BYTES);
  out->binary.size = (size_t)slip__load_u64(record + SLIP__KERNEL_BINARY_SIZE);
  if (out->binary.size != 0) {
    out->binary.data =
        (const uint8_t *)view->internal[SLIP__VIEW_KERNEL_BINARIES] + (size_t)slip__load_u64(record + SLIP__KERNEL_BINARY_OFFSET);
  }
  return true;
}

static void slip__view_param(const slip_image_view_t *view, const uint8_t *record, slip_param_t *out) {
  memset(out, 0, sizeof(*out));
  out->name = slip__view_string(view, record + SLIP__PARAM_NAME);
  out->direction = record[SLIP__PARAM_DIRECTION];
  out->layout = record[SLIP__PARAM_LAYOUT];
  out->dtype = record[SLIP__PARAM_DTYPE];
  out->rank = record[SLIP__PARAM_RANK];
  for (uint32_t d = 0; d < out->rank; ++d) {
    const uint8_t *name = record + SLIP__PARAM_DIM_NAMES + d * SLIP__STRING_REF_BYTES;
    out->dims[d] = (int64_t)slip__load_u64(record + SLIP__PARAM_DIMS + 8 * d);
    if (slip__load_u64(name) != 0) out->dim_names[d] = slip__view_string(view, name);
  }
}

slip_status_t slip_image_entry_signature(const slip_image_view_t *view, uint32_t index, slip_allocator_t allocator,
                                         slip_signature_t **out) {
  *out = NULL;
  if (index >= view->entry_count) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "entry %u does not exist; the image has %u", index, view->entry_count);
  }
  const uint8_t *entry = slip__view_entry(view, index);
  uint32_t param_count = slip__load_u32(entry + SLIP__ENTRY_PARAM_COUNT), alias_count = slip__load_u32(entry + SLIP__ENTRY_ALIAS_COUNT);
  const uint8_t *params = (const uint8_t *)view->internal[SLIP__VIEW_PARAMS] +
                          (size_t)slip__load_u32(entry + SLIP__ENTRY_FIRST_PARAM) * SLIP__IMAGE_SIGNATURES_RECORD;
  const uint8_t *aliases =
      (const uint8_t *)view->internal[SLIP__VIEW_ALIASES] + (size_t)slip__load_u32(entry + SLIP__ENTRY_FIRST_ALIAS) * SLIP__ALIAS_BYTES;
  void *param_block = NULL, *alias_block = NULL;
  allocator = slip__allocator_or_system(allocator);
  slip_status_t status = slip__alloc_array(allocator, param_count, sizeof(slip_param_t), &param_block);
  if (slip_status_is_ok(status)) status = slip__alloc_array(allocator, alias_count, sizeof(int32_t), &alias_block);
  if (slip_status_is_ok(status)) {
    for (uint32_t i = 0; i < param_count; ++i) {
      slip__view_param(view, params + (size_t)i * SLIP__IMAGE_SIGNATURES_RECORD, (slip_param_t *)param_block + i);
    }
    for (uint32_t i = 0; i < alias_count; ++i) ((int32_t *)alias_block)[i] = (int32_t)slip__load_u32(aliases + 4 * (size_t)i);
    status = slip_signature_create(param_block, param_count, alias_block, alias_count, allocator, out);
  }
  slip__free(allocator, alias_block, alias_count * sizeof(int32_t));
  slip__free(allocator, param_block, param_count * sizeof(slip_param_t));
  return status;
}
