// SPDX-License-Identifier: Apache-2.0
#include "artifact/identity.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"

typedef enum slip__identity_tag_e {
#define SLIP__IDENTITY_TAG_ENUM(name, tag) SLIP__IDENTITY_##name = (tag),
  SLIP__IDENTITY_TAG_TABLE(SLIP__IDENTITY_TAG_ENUM)
#undef SLIP__IDENTITY_TAG_ENUM
} slip__identity_tag_e;

static void slip__identity_put_u64(slip__identity_t *identity, uint64_t value) {
  char bytes[8];
  for (unsigned i = 0; i < 8; ++i) bytes[i] = (char)(uint8_t)(value >> (8 * i));
  slip__string_builder_append(&identity->encoding, bytes, sizeof(bytes));
}

static void slip__identity_item(slip__identity_t *identity, slip__identity_tag_e tag, const char *label, const void *value, size_t size) {
  char tag_byte = (char)tag;
  size_t length = strlen(label);
  slip__string_builder_append(&identity->encoding, &tag_byte, 1);
  slip__identity_put_u64(identity, length);
  slip__string_builder_append(&identity->encoding, label, length);
  slip__identity_put_u64(identity, size);
  if (size) slip__string_builder_append(&identity->encoding, value, size);
}

static void slip__identity_number(slip__identity_t *identity, slip__identity_tag_e tag, const char *label, uint64_t bits) {
  uint8_t bytes[8];
  for (unsigned i = 0; i < 8; ++i) bytes[i] = (uint8_t)(bits >> (8 * i));
  slip__identity_item(identity, tag, label, bytes, sizeof(bytes));
}

void slip__identity_initialize(slip__identity_t *identity, slip_allocator_t allocator) {
  slip__string_builder_initialize(&identity->encoding, allocator);
  identity->depth = 0;
  slip__identity_u64(identity, "slipstream identity", SLIP__IDENTITY_VERSION);
}

void slip__identity_deinitialize(slip__identity_t *identity) {
  slip__string_builder_deinitialize(&identity->encoding);
}

void slip__identity_begin(slip__identity_t *identity, const char *label) {
  slip__identity_item(identity, SLIP__IDENTITY_BEGIN, label, NULL, 0);
  identity->depth++;
}

void slip__identity_end(slip__identity_t *identity) {
  assert(identity->depth > 0);
  identity->depth--;
  slip__identity_item(identity, SLIP__IDENTITY_END, "", NULL, 0);
}

void slip__identity_bool(slip__identity_t *identity, const char *label, bool value) {
  uint8_t byte = value;
  slip__identity_item(identity, SLIP__IDENTITY_BOOL, label, &byte, 1);
}

void slip__identity_u64(slip__identity_t *identity, const char *label, uint64_t value) {
  slip__identity_number(identity, SLIP__IDENTITY_U64, label, value);
}

void slip__identity_i64(slip__identity_t *identity, const char *label, int64_t value) {
  slip__identity_number(identity, SLIP__IDENTITY_I64, label, (uint64_t)value);
}

void slip__identity_f64(slip__identity_t *identity, const char *label, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  slip__identity_number(identity, SLIP__IDENTITY_F64, label, bits);
}

void slip__identity_text(slip__identity_t *identity, const char *label, const char *text) {
  if (text) {
    slip__identity_item(identity, SLIP__IDENTITY_TEXT, label, text, strlen(text));
  } else {
    slip__identity_item(identity, SLIP__IDENTITY_NONE, label, NULL, 0);
  }
}

void slip__identity_bytes(slip__identity_t *identity, const char *label, slip_const_bytes_t bytes) {
  slip__identity_item(identity, SLIP__IDENTITY_BYTES, label, bytes.data, bytes.size);
}

void slip__identity_signature(slip__identity_t *identity, const char *label, const slip_signature_t *signature) {
  const int32_t *aliases = NULL;
  size_t alias_count = slip_signature_return_aliases(signature, &aliases);
  slip__identity_begin(identity, label);
  for (size_t i = 0; i < slip_signature_param_count(signature); ++i) {
    const slip_param_t *param = slip_signature_param(signature, i);
    slip__identity_begin(identity, param->name);
    slip__identity_u64(identity, "direction", param->direction);
    slip__identity_u64(identity, "layout", param->layout);
    slip__identity_u64(identity, "dtype", param->dtype);
    for (uint32_t d = 0; d < param->rank; ++d) {
      slip__identity_i64(identity, "dim", param->dims[d]);
      slip__identity_text(identity, "dim_name", param->dim_names[d]);
    }
    slip__identity_end(identity);
  }
  for (size_t i = 0; i < alias_count; ++i) slip__identity_i64(identity, "return", aliases[i]);
  slip__identity_end(identity);
}

slip_status_t slip__identity_finish(const slip__identity_t *identity, char out_key[33]) {
  assert(identity->depth == 0);
  out_key[0] = '\0';
  if (identity->encoding.failed) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "computing the key of a build");
  slip__hash128_format(slip__hash128((slip_const_bytes_t){(const uint8_t *)identity->encoding.data, identity->encoding.size}), out_key);
  return slip_ok_status();
}
