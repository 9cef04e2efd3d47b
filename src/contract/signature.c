// SPDX-License-Identifier: Apache-2.0
// Signatures: checking, building, comparing. Text and JSON forms are in files of their own.
//
// A signature is one block: structure, parameters, frame rules, aliases, name table, canonical encoding, strings. The size is measured
// first, so that creation allocates exactly twice (the block, and the table of dim symbols, which is gone at the end).
#include "contract/signature.h"

#include <string.h>

#include "base/allocator.h"
#include "base/hash.h"
#include "contract/scalar.h"

#define SLIP__SIGNATURE_MAX_PARAMS (1u << 20)
// Version of the canonical encoding; part of it, so that hashes of different encodings never meet.
#define SLIP__ENCODING_VERSION 1

bool slip__is_identifier(const char *name) {
  if (!name || !slip__is_identifier_start(*name)) return false;
  while (slip__is_identifier_part(*name)) ++name;
  return *name == '\0';
}

const char *slip__direction_name(uint32_t direction) {
  static const char *const names[] = {"", "in", "out", "inout", "scalar"};
  return direction < sizeof(names) / sizeof(names[0]) ? names[direction] : "";
}

const char *slip__layout_name(uint32_t layout) {
  static const char *const names[] = {"", "nd", "nz"};
  return layout < sizeof(names) / sizeof(names[0]) ? names[layout] : "";
}

// --- rules of one parameter -----------------------------------------------------------------------------------------------------------

static slip_status_t slip__param_check_scalar(const slip_param_t *param) {
  if (param->rank != 0 || param->layout != 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "a scalar has no dims and no layout; rank is %u and layout %u, expected 0 and 0",
                       param->rank, param->layout);
  }
  if (!slip__dtype_is_scalar(param->dtype)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "dtype %u '%s' is no scalar type; scalars are bool, i8..i64, u8..u64, f16, bf16, f32, f64", param->dtype,
                       slip_dtype_name(param->dtype));
  }
  return slip_ok_status();
}

static slip_status_t slip__param_check_tensor(const slip_param_t *param) {
  if (*slip__layout_name(param->layout) == '\0') {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "layout %u is unknown; pass SLIP_LAYOUT_ND or SLIP_LAYOUT_NZ", param->layout);
  }
  if (param->rank > SLIP_MAX_RANK) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "rank %u is above %d; reshape the parameter", param->rank, SLIP_MAX_RANK);
  }
  for (uint32_t i = 0; i < param->rank; ++i) {
    if (param->dims[i] < 1 && param->dims[i] != SLIP_DIM_DYNAMIC) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dim %u is %lld; dims are above 0, or -1 for a dynamic one", i,
                         (long long)param->dims[i]);
    }
    if (!param->dim_names[i]) continue;
    if (param->dims[i] != SLIP_DIM_DYNAMIC) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dim %u has the name '%.64s' and the static size %lld; only a dynamic dim has a name",
                         i, param->dim_names[i], (long long)param->dims[i]);
    }
    if (!slip__is_identifier(param->dim_names[i])) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dim %u has the name '%.64s', which is no identifier; use letters, digits and _", i,
                         param->dim_names[i]);
    }
  }
  return slip_ok_status();
}

static slip_status_t slip__param_check(const slip_param_t *param) {
  if (!param->name || *param->name == '\0') return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the name is empty; name every parameter");
  if (!slip__is_identifier(param->name)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the name '%.64s' is no identifier; use letters, digits and _", param->name);
  }
  if (*slip__direction_name(param->direction) == '\0') {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "direction %u is unknown; pass one of slip_direction_e", param->direction);
  }
  if (slip_dtype_size_bytes(param->dtype) == 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "dtype %u is unknown; pass one of slip_dtype_e", param->dtype);
  }
  return param->direction == SLIP_DIRECTION_SCALAR ? slip__param_check_scalar(param) : slip__param_check_tensor(param);
}

static slip_status_t slip__alias_check_index(const slip_param_t *params, size_t param_count, size_t position, int32_t index) {
  if (index < 0 || (size_t)index >= param_count) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "return alias %zu is %d, out of range for %zu parameters; name an OUT or INOUT tensor",
                       position, index, param_count);
  }
  uint32_t direction = params[index].direction;
  if (direction == SLIP_DIRECTION_SCALAR) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "return alias %zu names parameter %d '%s', a scalar; name an OUT or INOUT tensor",
                       position, index, params[index].name);
  }
  if (direction == SLIP_DIRECTION_IN) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "return alias %zu names parameter %d '%s', an IN tensor; name an OUT or INOUT tensor",
                       position, index, params[index].name);
  }
  return slip_ok_status();
}

// --- canonical encoding ---------------------------------------------------------------------------------------------------------------
// Every field with a tag or a length before it, little-endian, nothing stringified. Written twice by the same code: measured (|bytes|
// NULL), then filled.

typedef struct slip__encoder_t {
  uint8_t *bytes;
  size_t size;
} slip__encoder_t;

static void slip__encode_integer(slip__encoder_t *encoder, uint64_t value, uint32_t size) {
  for (uint32_t i = 0; i < size; ++i) {
    if (encoder->bytes) encoder->bytes[encoder->size] = (uint8_t)(value >> (8 * i));
    ++encoder->size;
  }
}

static void slip__encode_string(slip__encoder_t *encoder, const char *text) {
  size_t length = strlen(text);
  slip__encode_integer(encoder, 's', 1);
  slip__encode_integer(encoder, length, 8);
  if (encoder->bytes) memcpy(encoder->bytes + encoder->size, text, length);
  encoder->size += length;
}

static void slip__encode_signature(slip__encoder_t *encoder, const slip_param_t *params, size_t param_count, const int32_t *aliases,
                                   size_t alias_count) {
  slip__encode_integer(encoder, SLIP__ENCODING_VERSION, 4);
  slip__encode_integer(encoder, 'p', 1);
  slip__encode_integer(encoder, param_count, 8);
  for (size_t i = 0; i < param_count; ++i) {
    const slip_param_t *param = &params[i];
    slip__encode_string(encoder, param->name);
    slip__encode_integer(encoder, param->direction, 1);
    slip__encode_integer(encoder, param->layout, 1);
    slip__encode_integer(encoder, param->dtype, 1);
    slip__encode_integer(encoder, param->rank, 1);
    for (uint32_t d = 0; d < param->rank; ++d) {
      slip__encode_integer(encoder, 'd', 1);
      slip__encode_integer(encoder, (uint64_t)param->dims[d], 8);
      if (param->dim_names[d]) {
        slip__encode_string(encoder, param->dim_names[d]);
      } else {
        slip__encode_integer(encoder, 'n', 1);
      }
    }
  }
  slip__encode_integer(encoder, 'a', 1);
  slip__encode_integer(encoder, alias_count, 8);
  for (size_t i = 0; i < alias_count; ++i) slip__encode_integer(encoder, (uint32_t)aliases[i], 4);
}

// --- tables of names ------------------------------------------------------------------------------------------------------------------

// Slots for |count| names at a load of at most one half.
static size_t slip__table_size(size_t count) {
  size_t size = 4;
  while (size < 2 * count) size *= 2;
  return size;
}

static uint32_t slip__name_hash(const char *name) {
  return (uint32_t)slip__hash64((slip_const_bytes_t){(const uint8_t *)name, strlen(name)});
}

// The slot of |name|, or the free one where it belongs.
static uint32_t *slip__name_slot(uint32_t *table, uint32_t mask, const slip_param_t *params, const char *name) {
  uint32_t at = slip__name_hash(name) & mask;
  while (table[at] && strcmp(params[table[at] - 1].name, name) != 0) at = (at + 1) & mask;
  return &table[at];
}

static slip_status_t slip__signature_index_names(slip_signature_t *signature) {
  for (uint32_t i = 0; i < signature->param_count; ++i) {
    uint32_t *slot = slip__name_slot(signature->table, signature->table_mask, signature->params, signature->params[i].name);
    if (*slot) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "parameters %u and %u are both called '%s'; give each its own name", *slot - 1, i,
                         signature->params[i].name);
    }
    *slot = i + 1;
  }
  return slip_ok_status();
}

// A dim symbol and the first dim that carries it.
typedef struct slip__symbol_t {
  const char *name;
  uint32_t first;  // tensor slot * 8 + dim
} slip__symbol_t;

static void slip__rule_fill_peers(slip__param_rule_t *rule, const slip_param_t *param, slip__symbol_t *symbols, uint32_t mask) {
  for (uint32_t d = 0; d < SLIP_MAX_RANK; ++d) {
    rule->peers[d] = SLIP__NO_PEER;
    if (d >= param->rank || !param->dim_names[d]) continue;
    uint32_t at = slip__name_hash(param->dim_names[d]) & mask;
    while (symbols[at].name && strcmp(symbols[at].name, param->dim_names[d]) != 0) at = (at + 1) & mask;
    if (symbols[at].name) {
      rule->peers[d] = symbols[at].first;
    } else {
      symbols[at].name = param->dim_names[d];
      symbols[at].first = rule->slot * 8 + d;
    }
  }
}

static void slip__signature_fill_rules(slip_signature_t *signature, slip__symbol_t *symbols, uint32_t mask) {
  for (uint32_t i = 0; i < signature->param_count; ++i) {
    const slip_param_t *param = &signature->params[i];
    slip__param_rule_t *rule = &signature->rules[i];
    bool scalar = param->direction == SLIP_DIRECTION_SCALAR;
    rule->slot = scalar ? signature->scalar_count++ : signature->tensor_count++;
    rule->direction = (uint8_t)param->direction;
    rule->dtype = param->dtype;
    rule->rank = param->rank;
    rule->size_bytes = (uint8_t)slip_dtype_size_bytes(param->dtype);
    memcpy(rule->dims, param->dims, sizeof(rule->dims));
    slip__rule_fill_peers(rule, param, symbols, mask);
    if (scalar) rule->head = slip__scalar_mask(param->dtype);
    if (param->layout == SLIP_LAYOUT_ND) {
      slip__tensor_head_t head = {(uint32_t)sizeof(slip_tensor_t), param->dtype, param->rank, SLIP_FORMAT_ND, SLIP_TENSOR_NONE};
      memcpy(&rule->head, &head, sizeof(head));
      rule->plain = true;
    }
  }
}

// --- creation -------------------------------------------------------------------------------------------------------------------------

typedef struct slip__signature_sizes_t {
  size_t params, rules, aliases, table, encoding, strings, block;
} slip__signature_sizes_t;

static size_t slip__round16(size_t size) {
  return (size + 15) & ~(size_t)15;
}

// All counts are below 2^20 and the strings are in memory already: the sums cannot overflow 64 bits.
static slip__signature_sizes_t slip__signature_measure(const slip_param_t *params, size_t param_count, const int32_t *aliases,
                                                       size_t alias_count) {
  slip__signature_sizes_t sizes = {0};
  slip__encoder_t encoder = {NULL, 0};
  slip__encode_signature(&encoder, params, param_count, aliases, alias_count);
  for (size_t i = 0; i < param_count; ++i) {
    sizes.strings += strlen(params[i].name) + 1;
    for (uint32_t d = 0; d < params[i].rank; ++d) sizes.strings += params[i].dim_names[d] ? strlen(params[i].dim_names[d]) + 1 : 0;
  }
  sizes.params = slip__round16(param_count * sizeof(slip_param_t));
  sizes.rules = slip__round16(param_count * sizeof(slip__param_rule_t));
  sizes.aliases = slip__round16(alias_count * sizeof(int32_t));
  sizes.table = slip__round16(slip__table_size(param_count) * sizeof(uint32_t));
  sizes.encoding = slip__round16(encoder.size);
  sizes.block =
      slip__round16(sizeof(slip_signature_t)) + sizes.params + sizes.rules + sizes.aliases + sizes.table + sizes.encoding + sizes.strings;
  return sizes;
}

static const char *slip__signature_copy_string(char **inout_at, const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = memcpy(*inout_at, text, size);
  *inout_at += size;
  return copy;
}

// Fills |param| with owned copies; entries at and above the rank are 1 and unnamed.
static void slip__signature_copy_param(slip_param_t *param, const slip_param_t *source, char **inout_strings) {
  *param = (slip_param_t){.direction = source->direction, .layout = source->layout, .dtype = source->dtype, .rank = source->rank};
  param->name = slip__signature_copy_string(inout_strings, source->name);
  for (uint32_t d = 0; d < SLIP_MAX_RANK; ++d) {
    bool used = d < source->rank;
    param->dims[d] = used ? source->dims[d] : 1;
    if (used && source->dim_names[d]) param->dim_names[d] = slip__signature_copy_string(inout_strings, source->dim_names[d]);
  }
}

static void slip__signature_lay_out(slip_signature_t *signature, const slip__signature_sizes_t *sizes) {
  uint8_t *at = (uint8_t *)signature + slip__round16(sizeof(*signature));
  signature->params = (slip_param_t *)(void *)at;
  signature->rules = (slip__param_rule_t *)(void *)(at += sizes->params);
  signature->aliases = (int32_t *)(void *)(at += sizes->rules);
  signature->table = (uint32_t *)(void *)(at += sizes->aliases);
  signature->encoding = at += sizes->table;
  signature->strings = (char *)(at + sizes->encoding);
}

static slip_status_t slip__signature_fill(slip_signature_t *signature, const slip_param_t *params, const int32_t *aliases) {
  char *strings = signature->strings;
  size_t symbol_count = 0;
  for (uint32_t i = 0; i < signature->param_count; ++i) {
    slip__signature_copy_param(&signature->params[i], &params[i], &strings);
    for (uint32_t d = 0; d < SLIP_MAX_RANK; ++d) symbol_count += signature->params[i].dim_names[d] != NULL;
  }
  if (signature->alias_count) memcpy(signature->aliases, aliases, signature->alias_count * sizeof(int32_t));
  SLIP_RETURN_IF_ERROR(slip__signature_index_names(signature));

  size_t table_size = slip__table_size(symbol_count);
  void *symbols = NULL;
  SLIP_RETURN_IF_ERROR(slip__alloc_array(signature->allocator, table_size, sizeof(slip__symbol_t), &symbols));
  slip__signature_fill_rules(signature, symbols, (uint32_t)table_size - 1);
  slip__free(signature->allocator, symbols, table_size * sizeof(slip__symbol_t));

  slip__encoder_t encoder = {signature->encoding, 0};
  slip__encode_signature(&encoder, signature->params, signature->param_count, signature->aliases, signature->alias_count);
  signature->encoding_size = encoder.size;
  signature->hash = slip__hash64((slip_const_bytes_t){signature->encoding, encoder.size});
  return slip_ok_status();
}

slip_status_t slip_signature_create(const slip_param_t *params, size_t param_count, const int32_t *return_aliases, size_t alias_count,
                                    slip_allocator_t allocator, slip_signature_t **out) {
  *out = NULL;
  if (param_count > SLIP__SIGNATURE_MAX_PARAMS || alias_count > SLIP__SIGNATURE_MAX_PARAMS) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%zu parameters and %zu return aliases; a signature has at most %u of each", param_count,
                       alias_count, SLIP__SIGNATURE_MAX_PARAMS);
  }
  for (size_t i = 0; i < param_count; ++i) SLIP_RETURN_IF_ERROR_ANNOTATED(slip__param_check(&params[i]), "parameter %zu", i);
  for (size_t i = 0; i < alias_count; ++i) {
    SLIP_RETURN_IF_ERROR(slip__alias_check_index(params, param_count, i, return_aliases[i]));
  }
  slip__signature_sizes_t sizes = slip__signature_measure(params, param_count, return_aliases, alias_count);
  void *block = NULL;
  allocator = slip__allocator_or_system(allocator);
  SLIP_RETURN_IF_ERROR_ANNOTATED(slip__alloc(allocator, sizes.block, &block), "creating a signature of %zu parameters", param_count);
  slip_signature_t *signature = block;
  signature->block_size = sizes.block;
  signature->allocator = allocator;
  signature->param_count = (uint32_t)param_count;
  signature->alias_count = (uint32_t)alias_count;
  signature->table_mask = (uint32_t)slip__table_size(param_count) - 1;
  atomic_init(&signature->references, 1);
  slip__signature_lay_out(signature, &sizes);
  slip_status_t status = slip__signature_fill(signature, params, return_aliases);
  if (slip_status_is_ok(status)) {
    *out = signature;
  } else {
    slip_signature_release(signature);
  }
  return status;
}

void slip_signature_retain(slip_signature_t *signature) {
  // Relaxed: whoever retains already holds a reference.
  atomic_fetch_add_explicit(&signature->references, 1, memory_order_relaxed);
}

void slip_signature_release(slip_signature_t *signature) {
  if (!signature) return;
  // Acquire-release: the last holder sees what the others did before it frees.
  if (atomic_fetch_sub_explicit(&signature->references, 1, memory_order_acq_rel) != 1) return;
  slip__free(signature->allocator, signature, signature->block_size);
}

// --- accessors ------------------------------------------------------------------------------------------------------------------------

size_t slip_signature_param_count(const slip_signature_t *signature) {
  return signature->param_count;
}
size_t slip_signature_tensor_count(const slip_signature_t *signature) {
  return signature->tensor_count;
}
size_t slip_signature_scalar_count(const slip_signature_t *signature) {
  return signature->scalar_count;
}

const slip_param_t *slip_signature_param(const slip_signature_t *signature, size_t index) {
  return index < signature->param_count ? &signature->params[index] : NULL;
}

int32_t slip_signature_find(const slip_signature_t *signature, const char *name) {
  if (!name) return -1;
  return (int32_t)*slip__name_slot(signature->table, signature->table_mask, signature->params, name) - 1;
}

size_t slip_signature_return_aliases(const slip_signature_t *signature, const int32_t **out_indices) {
  *out_indices = signature->aliases;
  return signature->alias_count;
}

uint64_t slip_signature_hash(const slip_signature_t *signature) {
  return signature->hash;
}

bool slip_signature_equal(const slip_signature_t *a, const slip_signature_t *b) {
  if (a == b) return true;
  return a && b && a->encoding_size == b->encoding_size && memcmp(a->encoding, b->encoding, a->encoding_size) == 0;
}

slip_status_t slip_signature_check_capacity(const slip_signature_t *signature) {
  if (signature->tensor_count > SLIP_ENTRY_MAX_TENSORS) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "%u tensors; a chip entry takes %d: pass fewer or pack several into one",
                       signature->tensor_count, SLIP_ENTRY_MAX_TENSORS);
  }
  if (signature->scalar_count > SLIP_ENTRY_MAX_SCALARS) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "%u scalars; a chip entry takes %d: pass fewer or put them into a tensor",
                       signature->scalar_count, SLIP_ENTRY_MAX_SCALARS);
  }
  return slip_ok_status();
}
