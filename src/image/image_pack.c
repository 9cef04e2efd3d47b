// SPDX-License-Identifier: Apache-2.0
// The writer: measures, allocates once, fills the sections in order, seals, and lets the parser judge the result.
#include "base/allocator.h"
#include "base/checked.h"
#include "image/image_hash.h"
#include "slipstream/tensor.h"

typedef struct slip__image_writer_t {
  const slip_image_desc_t *desc;
  uint8_t *data;
  uint64_t offsets[SLIP__IMAGE_SECTION_COUNT];
  uint64_t sizes[SLIP__IMAGE_SECTION_COUNT];
  uint32_t counts[SLIP__IMAGE_SECTION_COUNT];
  uint64_t total;
  uint32_t string_cursor;
} slip__image_writer_t;

slip__hash128_t slip__image_hash(slip_const_bytes_t image) {
  static const uint8_t zeros[16];
  const slip_const_bytes_t parts[3] = {
      {image.data, SLIP__HEADER_HASH},
      {zeros, sizeof(zeros)},
      {image.data + SLIP__HEADER_HASH + sizeof(zeros), image.size - SLIP__HEADER_HASH - sizeof(zeros)},
  };
  return slip__hash128_parts(parts, 3);
}

void slip__image_seal(slip_bytes_t image) {
  slip__hash128_t hash = slip__image_hash((slip_const_bytes_t){image.data, image.size});
  slip__store_u64(image.data + SLIP__HEADER_HASH, hash.low);
  slip__store_u64(image.data + SLIP__HEADER_HASH + 8, hash.high);
}

// --- measuring ------------------------------------------------------------------------------------------------------------------------
// Only what could go wrong while writing is looked at here (null pointers, unbounded sizes); every rule of the format is the parser's.

static slip_status_t slip__image_measure_string(slip__image_writer_t *writer, const char *text, const char *what, uint32_t index) {
  if (!text) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s %u has no name", what, index);
  size_t length = strnlen(text, SLIP_IMAGE_MAX_NAME + 1);
  if (length > SLIP_IMAGE_MAX_NAME) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "name '%.32s...' of %s %u is longer than %d bytes", text, what, index,
                       SLIP_IMAGE_MAX_NAME);
  }
  writer->sizes[SLIP__IMAGE_STRINGS] += length + 1;
  writer->counts[SLIP__IMAGE_STRINGS]++;
  return slip_ok_status();
}

static slip_status_t slip__image_measure_entry(slip__image_writer_t *writer, uint32_t index) {
  const slip_image_entry_t *entry = &writer->desc->entries[index];
  const int32_t *aliases = NULL;
  SLIP_RETURN_IF_ERROR(slip__image_measure_string(writer, entry->name, "entry", index));
  if (!entry->signature) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "entry %u '%s' has no signature", index, entry->name);
  slip_status_t status = slip_signature_check_capacity(entry->signature);
  if (!slip_status_is_ok(status)) {
    slip_status_free(status);
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "entry %u '%s' has %zu tensors and %zu scalars; an image takes at most %d and %d", index,
                       entry->name, slip_signature_tensor_count(entry->signature), slip_signature_scalar_count(entry->signature),
                       SLIP_ENTRY_MAX_TENSORS, SLIP_ENTRY_MAX_SCALARS);
  }
  size_t param_count = slip_signature_param_count(entry->signature);
  size_t alias_count = slip_signature_return_aliases(entry->signature, &aliases);
  if (alias_count > SLIP_IMAGE_MAX_RETURNS) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "entry %u '%s' has %zu return aliases; an image takes at most %d", index, entry->name,
                       alias_count, SLIP_IMAGE_MAX_RETURNS);
  }
  writer->counts[SLIP__IMAGE_SIGNATURES] += (uint32_t)param_count;
  writer->sizes[SLIP__IMAGE_SIGNATURES] += param_count * SLIP__IMAGE_SIGNATURES_RECORD + alias_count * SLIP__ALIAS_BYTES;
  for (uint32_t i = 0; i < param_count; ++i) {
    const slip_param_t *param = slip_signature_param(entry->signature, i);
    SLIP_RETURN_IF_ERROR(slip__image_measure_string(writer, param->name, "parameter", i));
    for (uint32_t d = 0; d < param->rank; ++d) {
      if (param->dim_names[d]) SLIP_RETURN_IF_ERROR(slip__image_measure_string(writer, param->dim_names[d], "dim", d));
    }
  }
  return slip_ok_status();
}

static slip_status_t slip__image_measure_kernel(slip__image_writer_t *writer, uint32_t index) {
  const slip_image_kernel_t *kernel = &writer->desc->kernels[index];
  SLIP_RETURN_IF_ERROR(slip__image_measure_string(writer, kernel->name, "kernel", index));
  if (kernel->binary.size == 0) return slip_ok_status();
  uint64_t *size = &writer->sizes[SLIP__IMAGE_KERNEL_BINARIES];
  bool fits =
      kernel->binary.data && slip__checked_align(*size, SLIP_IMAGE_ALIGNMENT, size) && slip__checked_add(*size, kernel->binary.size, size);
  if (!fits) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "kernel %u '%s' has a binary of %zu bytes, which cannot be in memory", index,
                       kernel->name, kernel->binary.size);
  }
  writer->counts[SLIP__IMAGE_KERNEL_BINARIES]++;
  return slip_ok_status();
}

static slip_status_t slip__image_place(slip__image_writer_t *writer) {
  uint64_t end = SLIP__IMAGE_HEADER_BYTES;
  bool fits = true;
  for (unsigned i = 0; i < SLIP__IMAGE_SECTION_COUNT; ++i) {
    fits = fits && slip__checked_align(end, SLIP_IMAGE_ALIGNMENT, &writer->offsets[i]) &&
           slip__checked_add(writer->offsets[i], writer->sizes[i], &end);
  }
  fits = fits && slip__checked_align(end, SLIP_IMAGE_ALIGNMENT, &writer->total) && writer->total <= PTRDIFF_MAX;
  return fits ? slip_ok_status() : SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the binaries are larger than any memory");
}

static slip_status_t slip__image_measure(slip__image_writer_t *writer) {
  const slip_image_desc_t *desc = writer->desc;
  if (desc->entry_count > SLIP_IMAGE_MAX_ENTRIES || (desc->entry_count && !desc->entries)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%u entries; an image has 1 to %d", desc->entry_count, SLIP_IMAGE_MAX_ENTRIES);
  }
  if (desc->kernel_count > SLIP_IMAGE_MAX_KERNELS || (desc->kernel_count && !desc->kernels)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%u kernels; an image has at most %d", desc->kernel_count, SLIP_IMAGE_MAX_KERNELS);
  }
  if (desc->orchestration.size && !desc->orchestration.data) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "orchestration binary has %zu bytes at NULL", desc->orchestration.size);
  }
  size_t build_id = desc->build_id ? strnlen(desc->build_id, SLIP_IMAGE_MAX_NAME + 1) : 0;
  if (build_id == 0 || build_id > SLIP_IMAGE_MAX_NAME) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "build id is missing, empty or longer than %d bytes", SLIP_IMAGE_MAX_NAME);
  }
  for (uint32_t i = 0; i < desc->entry_count; ++i) SLIP_RETURN_IF_ERROR(slip__image_measure_entry(writer, i));
  for (uint32_t i = 0; i < desc->kernel_count; ++i) SLIP_RETURN_IF_ERROR(slip__image_measure_kernel(writer, i));
  SLIP_RETURN_IF_ERROR(slip__image_measure_string(writer, desc->target, "target", 0));
  writer->counts[SLIP__IMAGE_ENTRIES] = desc->entry_count;
  writer->counts[SLIP__IMAGE_ORCHESTRATION] = 1;
  writer->counts[SLIP__IMAGE_KERNELS] = desc->kernel_count;
  writer->counts[SLIP__IMAGE_TARGET] = 1;
  writer->counts[SLIP__IMAGE_BUILD_ID] = 1;
  writer->sizes[SLIP__IMAGE_ENTRIES] = (uint64_t)desc->entry_count * SLIP__IMAGE_ENTRIES_RECORD;
  writer->sizes[SLIP__IMAGE_ORCHESTRATION] = desc->orchestration.size;
  writer->sizes[SLIP__IMAGE_KERNELS] = (uint64_t)desc->kernel_count * SLIP__IMAGE_KERNELS_RECORD;
  writer->sizes[SLIP__IMAGE_TARGET] = SLIP__IMAGE_TARGET_RECORD;
  writer->sizes[SLIP__IMAGE_BUILD_ID] = build_id + 1;
  return slip__image_place(writer);
}

// --- writing --------------------------------------------------------------------------------------------------------------------------

static void slip__image_write_header(slip__image_writer_t *writer) {
  uint8_t *data = writer->data;
  memcpy(data + SLIP__HEADER_MAGIC, SLIP__IMAGE_MAGIC, SLIP__IMAGE_MAGIC_SIZE);
  slip__store_u32(data + SLIP__HEADER_VERSION, SLIP__IMAGE_FORMAT_VERSION);
  slip__store_u32(data + SLIP__HEADER_BYTES, SLIP__IMAGE_HEADER_BYTES);
  slip__store_u64(data + SLIP__HEADER_TOTAL, writer->total);
  slip__store_u32(data + SLIP__HEADER_SECTION_COUNT, SLIP__IMAGE_SECTION_COUNT);
  for (uint32_t i = 0; i < SLIP__IMAGE_SECTION_COUNT; ++i) {
    uint8_t *record = data + SLIP__HEADER_SECTIONS + i * SLIP__SECTION_BYTES;
    slip__store_u32(record + SLIP__SECTION_KIND, i + 1);
    slip__store_u32(record + SLIP__SECTION_COUNT, writer->counts[i]);
    slip__store_u64(record + SLIP__SECTION_OFFSET, writer->offsets[i]);
    slip__store_u64(record + SLIP__SECTION_SIZE, writer->sizes[i]);
  }
}

static void slip__image_write_string(slip__image_writer_t *writer, uint8_t *reference, const char *text) {
  size_t length = strlen(text);
  memcpy(writer->data + writer->offsets[SLIP__IMAGE_STRINGS] + writer->string_cursor, text, length);
  slip__store_u32(reference, writer->string_cursor);
  slip__store_u32(reference + 4, (uint32_t)length);
  writer->string_cursor += (uint32_t)length + 1;
}

static void slip__image_write_entries(slip__image_writer_t *writer) {
  uint8_t *record = writer->data + writer->offsets[SLIP__IMAGE_ENTRIES];
  uint32_t params = 0, alias_total = 0;
  for (uint32_t i = 0; i < writer->desc->entry_count; ++i, record += SLIP__IMAGE_ENTRIES_RECORD) {
    const slip_signature_t *signature = writer->desc->entries[i].signature;
    const int32_t *aliases = NULL;
    uint32_t param_count = (uint32_t)slip_signature_param_count(signature);
    uint32_t alias_count = (uint32_t)slip_signature_return_aliases(signature, &aliases);
    slip__image_write_string(writer, record + SLIP__ENTRY_NAME, writer->desc->entries[i].name);
    slip__store_u32(record + SLIP__ENTRY_FIRST_PARAM, params);
    slip__store_u32(record + SLIP__ENTRY_PARAM_COUNT, param_count);
    slip__store_u32(record + SLIP__ENTRY_FIRST_ALIAS, alias_total);
    slip__store_u32(record + SLIP__ENTRY_ALIAS_COUNT, alias_count);
    slip__store_u32(record + SLIP__ENTRY_TENSOR_COUNT, (uint32_t)slip_signature_tensor_count(signature));
    slip__store_u32(record + SLIP__ENTRY_SCALAR_COUNT, (uint32_t)slip_signature_scalar_count(signature));
    params += param_count;
    alias_total += alias_count;
  }
}

static void slip__image_write_param(slip__image_writer_t *writer, uint8_t *record, const slip_param_t *param) {
  slip__image_write_string(writer, record + SLIP__PARAM_NAME, param->name);
  record[SLIP__PARAM_DIRECTION] = (uint8_t)param->direction;
  record[SLIP__PARAM_LAYOUT] = (uint8_t)param->layout;
  record[SLIP__PARAM_DTYPE] = param->dtype;
  record[SLIP__PARAM_RANK] = param->rank;
  for (uint32_t d = 0; d < param->rank; ++d) {
    slip__store_u64(record + SLIP__PARAM_DIMS + 8 * d, (uint64_t)param->dims[d]);
    if (!param->dim_names[d]) continue;
    slip__image_write_string(writer, record + SLIP__PARAM_DIM_NAMES + d * SLIP__STRING_REF_BYTES, param->dim_names[d]);
  }
}

static void slip__image_write_signatures(slip__image_writer_t *writer) {
  uint8_t *record = writer->data + writer->offsets[SLIP__IMAGE_SIGNATURES];
  uint8_t *alias_record = record + (size_t)writer->counts[SLIP__IMAGE_SIGNATURES] * SLIP__IMAGE_SIGNATURES_RECORD;
  for (uint32_t i = 0; i < writer->desc->entry_count; ++i) {
    const slip_signature_t *signature = writer->desc->entries[i].signature;
    const int32_t *aliases = NULL;
    size_t alias_count = slip_signature_return_aliases(signature, &aliases);
    for (size_t p = 0; p < slip_signature_param_count(signature); ++p, record += SLIP__IMAGE_SIGNATURES_RECORD) {
      slip__image_write_param(writer, record, slip_signature_param(signature, p));
    }
    for (size_t a = 0; a < alias_count; ++a, alias_record += SLIP__ALIAS_BYTES) slip__store_u32(alias_record, (uint32_t)aliases[a]);
  }
}

static void slip__image_write_kernels(slip__image_writer_t *writer) {
  uint8_t *record = writer->data + writer->offsets[SLIP__IMAGE_KERNELS];
  uint64_t end = 0;
  for (uint32_t i = 0; i < writer->desc->kernel_count; ++i, record += SLIP__IMAGE_KERNELS_RECORD) {
    const slip_image_kernel_t *kernel = &writer->desc->kernels[i];
    slip__image_write_string(writer, record + SLIP__KERNEL_NAME, kernel->name);
    slip__store_u32(record + SLIP__KERNEL_FUNCTION_ID, kernel->function_id);
    slip__store_u32(record + SLIP__KERNEL_CORE, kernel->core);
    slip__store_u32(record + SLIP__KERNEL_TENSOR_COUNT, kernel->tensor_count);
    slip__store_u32(record + SLIP__KERNEL_SCALAR_COUNT, kernel->scalar_count);
    slip__store_u32(record + SLIP__KERNEL_SCRATCH_BYTES, kernel->scratch_bytes);
    if (kernel->binary.size == 0) continue;
    (void)slip__checked_align(end, SLIP_IMAGE_ALIGNMENT, &end);  // measured before
    slip__store_u64(record + SLIP__KERNEL_BINARY_OFFSET, end);
    slip__store_u64(record + SLIP__KERNEL_BINARY_SIZE, kernel->binary.size);
    memcpy(writer->data + writer->offsets[SLIP__IMAGE_KERNEL_BINARIES] + end, kernel->binary.data, kernel->binary.size);
    end += kernel->binary.size;
  }
}

static void slip__image_write(slip__image_writer_t *writer) {
  const slip_image_desc_t *desc = writer->desc;
  slip__image_write_header(writer);
  slip__image_write_entries(writer);
  slip__image_write_signatures(writer);
  if (desc->orchestration.size) {
    memcpy(writer->data + writer->offsets[SLIP__IMAGE_ORCHESTRATION], desc->orchestration.data, desc->orchestration.size);
  }
  slip__image_write_kernels(writer);
  uint8_t *target = writer->data + writer->offsets[SLIP__IMAGE_TARGET];
  slip__store_u16(target + SLIP__TARGET_PLATFORM, desc->platform);
  slip__store_u32(target + SLIP__TARGET_CONTRACT, desc->contract);
  slip__store_u32(target + SLIP__TARGET_RUNTIME_KIND, desc->runtime_kind);
  slip__image_write_string(writer, target + SLIP__TARGET_NAME, desc->target);
  memcpy(writer->data + writer->offsets[SLIP__IMAGE_BUILD_ID], desc->build_id, writer->sizes[SLIP__IMAGE_BUILD_ID]);
  slip__image_seal((slip_bytes_t){writer->data, (size_t)writer->total});
}

// The description's fault, told in the words of the parser.
static slip_status_t slip__image_judge(slip_bytes_t image) {
  slip_image_view_t view;
  slip_status_t status = slip_image_open((slip_const_bytes_t){image.data, image.size}, &view);
  if (slip_status_is_ok(status)) return status;
  const char *message = slip_status_message(status), *remedy = strstr(message, SLIP__IMAGE_REMEDY);
  slip_status_t refused = SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "this description cannot be packed: %.*s",
                                      (int)(remedy ? (size_t)(remedy - message) : strlen(message)), message);
  slip_status_free(status);
  return refused;
}

slip_status_t slip_image_pack(const slip_image_desc_t *desc, slip_allocator_t allocator, slip_bytes_t *out) {
  *out = (slip_bytes_t){NULL, 0};
  slip__image_writer_t writer = {.desc = desc};
  void *data = NULL;
  allocator = slip__allocator_or_system(allocator);
  SLIP_RETURN_IF_ERROR(slip__image_measure(&writer));
  SLIP_RETURN_IF_ERROR(slip__alloc_aligned(allocator, (size_t)writer.total, SLIP_IMAGE_ALIGNMENT, &data));
  writer.data = data;
  slip__image_write(&writer);
  slip_status_t status = slip__image_judge((slip_bytes_t){data, (size_t)writer.total});
  if (slip_status_is_ok(status)) {
    *out = (slip_bytes_t){data, (size_t)writer.total};
  } else {
    slip__free_aligned(allocator, data, (size_t)writer.total, SLIP_IMAGE_ALIGNMENT);
  }
  return status;
}
