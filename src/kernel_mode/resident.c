// SPDX-License-Identifier: Apache-2.0
#include "kernel_mode/resident.h"

#include <inttypes.h>
#include <string.h>

#include "platform/dispatch.h"

// The image's tables were validated; the object is code from the same image, but nothing else ties the two together than this check.
static slip_status_t slip__resident_check_entry(const slip_object_entry_t *entry, const slip_image_view_t *view, uint32_t index) {
  const char *name = slip_image_entry_name(view, index);
  if (!entry->run || !entry->name || strcmp(entry->name, name) != 0) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "entry %" PRIu32 " of the object is \"%s\"%s, but the image says \"%s\"; rebuild the image",
                       index, entry->name ? entry->name : "(null)", entry->run ? "" : " without code", name);
  }
  return slip_ok_status();
}

static slip_status_t slip__resident_check_kernel(const slip_object_kernel_t *kernel, const slip_image_view_t *view, uint32_t index) {
  slip_image_kernel_t declared;
  if (!slip_image_kernel(view, index, &declared))
    return SLIP_STATUS(SLIP_CODE_INTERNAL, "the image lost kernel %" PRIu32 " after it was validated", index);
  if (!kernel->run || !kernel->name || strcmp(kernel->name, declared.name) != 0) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "kernel %" PRIu32 " of the object is \"%s\"%s, but the image says \"%s\"; rebuild the image",
                       index, kernel->name ? kernel->name : "(null)", kernel->run ? "" : " without code", declared.name);
  }
  if (kernel->core != declared.core || kernel->tensor_count != declared.tensor_count || kernel->scalar_count != declared.scalar_count ||
      kernel->scratch_bytes != declared.scratch_bytes) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT,
                       "kernel \"%s\" of the object has core %" PRIu32 ", %" PRIu32 " tensors, %" PRIu32 " scalars, %" PRIu32
                       " scratch bytes, but the image says %" PRIu32 ", %" PRIu32 ", %" PRIu32 ", %" PRIu32 "; rebuild the image",
                       declared.name, kernel->core, kernel->tensor_count, kernel->scalar_count, kernel->scratch_bytes, declared.core,
                       declared.tensor_count, declared.scalar_count, declared.scratch_bytes);
  }
  return slip_ok_status();
}

slip_status_t slip__resident_check_object(const slip_object_t *object, const slip_image_view_t *view) {
  if (object->magic != SLIP_OBJECT_MAGIC) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT,
                       "the symbol " SLIP_OBJECT_SYMBOL " of the object starts with 0x%" PRIx64 ", expected 0x%" PRIx64
                       "; rebuild the image",
                       object->magic, (uint64_t)SLIP_OBJECT_MAGIC);
  }
  if (object->abi_version != SLIP_ORCH_ABI_VERSION || object->struct_size < sizeof(slip_object_t)) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE,
                       "the object has orchestration ABI %" PRIu32 " (%" PRIu32
                       " table bytes), this library runs ABI %d (%zu bytes); recompile the program",
                       object->abi_version, object->struct_size, SLIP_ORCH_ABI_VERSION, sizeof(slip_object_t));
  }
  if (object->entry_count != view->entry_count || object->kernel_count != view->kernel_count || (object->entry_count && !object->entries) ||
      (object->kernel_count && !object->kernels)) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT,
                       "the object has %" PRIu32 " entries and %" PRIu32 " kernels, but the image says %" PRIu32 " and %" PRIu32
                       "; rebuild the image",
                       object->entry_count, object->kernel_count, view->entry_count, view->kernel_count);
  }
  for (uint32_t i = 0; i < object->entry_count; ++i) SLIP_RETURN_IF_ERROR(slip__resident_check_entry(&object->entries[i], view, i));
  for (uint32_t i = 0; i < object->kernel_count; ++i) SLIP_RETURN_IF_ERROR(slip__resident_check_kernel(&object->kernels[i], view, i));
  return slip_ok_status();
}

static uint32_t slip__resident_scratch(const slip_object_t *object) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < object->kernel_count; ++i) {
    if (object->kernels[i].scratch_bytes > most) most = object->kernels[i].scratch_bytes;
  }
  return most;
}

slip_status_t slip__resident_load(slip_context_t *context, const slip_image_view_t *view, slip__resident_t *resident) {
  void *symbol = NULL;
  slip_status_t status = slip__platform_module_load(context->platform, context->device.ordinal, view->orchestration, &resident->module);
  if (!slip_status_is_ok(status)) return slip_status_annotate(status, "loading the code of \"%s\"", slip_image_entry_name(view, 0));
  status = slip__platform_module_symbol(context->platform, resident->module, SLIP_OBJECT_SYMBOL, &symbol);
  // An object without its table is a broken image, whatever the loader calls it.
  if (slip_status_code(status) == SLIP_CODE_NOT_FOUND) {
    slip_status_free(status);
    status = SLIP_STATUS(SLIP_CODE_CORRUPT, "the object does not export %s; rebuild the image", SLIP_OBJECT_SYMBOL);
  }
  if (slip_status_is_ok(status)) status = slip__resident_check_object(symbol, view);
  if (!slip_status_is_ok(status)) return slip_status_join(status, slip__resident_unload(context, resident));
  resident->object = symbol;
  resident->scratch_bytes = slip__resident_scratch(resident->object);
  return slip_ok_status();
}

slip_status_t slip__resident_unload(slip_context_t *context, slip__resident_t *resident) {
  if (!resident->module) return slip_ok_status();
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip__context_given_back(context, slip__platform_module_unload(context->platform, resident->module)),
                                 "unloading a callable's code");
  resident->module = NULL;
  resident->object = NULL;
  return slip_ok_status();
}
