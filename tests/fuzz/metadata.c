// SPDX-License-Identifier: Apache-2.0
// compiled_meta.json: refused as CORRUPT or INCOMPATIBLE, or consistent in itself.
#include "artifact/metadata.h"
#include "slip_fuzz.h"
#include "image/image_hash.h"
#include "slipstream/tensor.h"

static void slip_fuzz_check_entry(const slip__metadata_t *metadata, const slip__metadata_entry_t *entry) {
  const int32_t *aliases = NULL, *lowered = NULL;
  SLIP_FUZZ_CHECK(entry->params && entry->lowered_params);
  size_t count = slip_signature_return_aliases(entry->params, &aliases);
  SLIP_FUZZ_CHECK(slip_signature_return_aliases(entry->lowered_params, &lowered) == count);
  for (size_t i = 0; i < count; ++i) {
    const slip_param_t *a = slip_signature_param(entry->params, (size_t)aliases[i]);
    const slip_param_t *b = slip_signature_param(entry->lowered_params, (size_t)lowered[i]);
    SLIP_FUZZ_CHECK(a && b && strcmp(a->name, b->name) == 0);
  }
  if (metadata->contract == SLIP_CONTRACT_KERNEL) {
    SLIP_FUZZ_CHECK(slip_signature_param_count(entry->params) == slip_signature_param_count(entry->lowered_params));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  slip__metadata_t metadata;
  slip_code_t code = slip_fuzz_code(slip__metadata_parse((slip_const_bytes_t){data, size}, slip_allocator_system(), &metadata));
  if (code != SLIP_CODE_OK) {
    SLIP_FUZZ_CHECK(code == SLIP_CODE_CORRUPT || code == SLIP_CODE_INCOMPATIBLE);
    SLIP_FUZZ_CHECK(metadata.entries == NULL && metadata.arena.blocks == NULL);
    return 0;
  }
  SLIP_FUZZ_CHECK(slip__metadata_name_valid(metadata.name));
  SLIP_FUZZ_CHECK(*slip_platform_name(metadata.platform));
  SLIP_FUZZ_CHECK(metadata.target_count > 0 && metadata.entry_count > 0);
  SLIP_FUZZ_CHECK(metadata.contract == SLIP_CONTRACT_PROGRAM || metadata.schema == 3);
  SLIP_FUZZ_CHECK(metadata.contract != SLIP_CONTRACT_KERNEL || (metadata.capabilities & SLIP__CAPABILITY_KERNEL));
  for (size_t i = 0; i < metadata.target_count; ++i) {
    SLIP_FUZZ_CHECK(slip__image_is_target((const uint8_t *)metadata.targets[i], strlen(metadata.targets[i])));
  }
  for (size_t i = 0; i < metadata.entry_count; ++i) slip_fuzz_check_entry(&metadata, &metadata.entries[i]);
  slip__metadata_deinitialize(&metadata);
  return 0;
}
