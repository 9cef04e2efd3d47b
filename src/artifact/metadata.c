// SPDX-License-Identifier: Apache-2.0
#include "artifact/metadata.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "artifact/artifact_json.h"
#include "base/allocator.h"
#include "base/checked.h"
#include "image/image_hash.h"
#include "slipstream/tensor.h"

// --- the fields -----------------------------------------------------------------------------------------------------------------------

typedef enum slip__schema_bits_e {
  SLIP__SCHEMA_1 = 1,
  SLIP__SCHEMA_2 = 2,
  SLIP__SCHEMA_3 = 4,
  SLIP__SCHEMA_OLD = SLIP__SCHEMA_1 | SLIP__SCHEMA_2,
  SLIP__SCHEMA_ANY = SLIP__SCHEMA_OLD | SLIP__SCHEMA_3,
} slip__schema_bits_e;

// X(key, JSON type, type in words, schemas that have it, schemas that must have it). "target" is a list from schema 3 on: see below.
#define SLIP__METADATA_FIELD_TABLE(X)                                                                      \
  X("schema", JSON_INTEGER, "an integer", SLIP__SCHEMA_ANY, SLIP__SCHEMA_ANY)                              \
  X("name", JSON_STRING, "a string", SLIP__SCHEMA_ANY, SLIP__SCHEMA_ANY)                                   \
  X("platform", JSON_STRING, "a string", SLIP__SCHEMA_ANY, SLIP__SCHEMA_ANY)                               \
  X("target", JSON_STRING, "a string", SLIP__SCHEMA_OLD, SLIP__SCHEMA_OLD)                                 \
  X("target", JSON_ARRAY, "an array of strings", SLIP__SCHEMA_3, SLIP__SCHEMA_3)                           \
  X("params", JSON_ARRAY, "an array of parameters", SLIP__SCHEMA_ANY, SLIP__SCHEMA_ANY)                    \
  X("lowered_params", JSON_ARRAY, "an array of parameters", SLIP__SCHEMA_3, SLIP__SCHEMA_3)                \
  X("return_count", JSON_INTEGER, "an integer", SLIP__SCHEMA_3, SLIP__SCHEMA_3)                            \
  X("return_aliases", JSON_ARRAY, "an array of integers", SLIP__SCHEMA_2 | SLIP__SCHEMA_3, SLIP__SCHEMA_3) \
  X("contract", JSON_STRING, "a string", SLIP__SCHEMA_3, SLIP__SCHEMA_3)                                   \
  X("execution_mode", JSON_STRING, "a string", SLIP__SCHEMA_3, SLIP__SCHEMA_3)                             \
  X("capabilities", JSON_ARRAY, "an array of strings", SLIP__SCHEMA_3, SLIP__SCHEMA_3)                     \
  X("entries", JSON_ARRAY, "an array of entries", SLIP__SCHEMA_3, 0)                                       \
  X("toolchain", JSON_OBJECT, "an object of strings", SLIP__SCHEMA_2 | SLIP__SCHEMA_3, SLIP__SCHEMA_3)     \
  X("key", JSON_STRING, "a string", SLIP__SCHEMA_2 | SLIP__SCHEMA_3, SLIP__SCHEMA_3)

typedef struct slip__metadata_field_t {
  const char *key;
  json_type type;
  const char *type_text;
  uint32_t allowed;
  uint32_t required;
} slip__metadata_field_t;

static const slip__metadata_field_t slip__metadata_fields[] = {
#define SLIP__METADATA_FIELD(key, type, text, allowed, required) {key, type, text, allowed, required},
    SLIP__METADATA_FIELD_TABLE(SLIP__METADATA_FIELD)
#undef SLIP__METADATA_FIELD
};
#define SLIP__METADATA_FIELD_COUNT (sizeof(slip__metadata_fields) / sizeof(slip__metadata_fields[0]))

static slip_status_t slip__metadata_refuse(const char *field, const char *format, ...) SLIP_PRINTF(2, 3);
static slip_status_t slip__metadata_refuse(const char *field, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, SLIP__METADATA_NAME ", field '%.64s': %s; recompile", field, text);
}

// The field of |key| in a file of |schema| (a bit); NULL if it has none.
static const slip__metadata_field_t *slip__metadata_field(const char *key, uint32_t schema) {
  for (size_t i = 0; i < SLIP__METADATA_FIELD_COUNT; ++i) {
    if ((slip__metadata_fields[i].allowed & schema) && strcmp(slip__metadata_fields[i].key, key) == 0) return &slip__metadata_fields[i];
  }
  return NULL;
}

// All keys known, all of the right type, none missing.
static slip_status_t slip__metadata_check_fields(json_t *root, uint32_t schema) {
  const char *key;
  json_t *value;
  json_object_foreach(root, key, value) {
    const slip__metadata_field_t *field = slip__metadata_field(key, schema);
    if (!field && slip__metadata_field(key, SLIP__SCHEMA_ANY)) return slip__metadata_refuse(key, "this schema does not have it");
    if (!field) return slip__metadata_refuse(key, "unknown");
    if (json_typeof(value) != field->type) {
      return slip__metadata_refuse(key, "expected %s, came %s", field->type_text, slip__json_type_name(value));
    }
  }
  for (size_t i = 0; i < SLIP__METADATA_FIELD_COUNT; ++i) {
    const slip__metadata_field_t *field = &slip__metadata_fields[i];
    if ((field->required & schema) && !json_object_get(root, field->key)) return slip__metadata_refuse(field->key, "missing");
  }
  return slip_ok_status();
}

bool slip__metadata_name_valid(const char *name) {
  size_t length = strnlen(name, 256);
  if (length == 0 || length > 255 || name[0] == '.' || name[0] == '-') return false;
  return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == length;
}

bool slip__metadata_key_valid(const char *key) {
  return strlen(key) == 32 && strspn(key, "0123456789abcdef") == 32;
}

// --- signatures -----------------------------------------------------------------------------------------------------------------------

// What contract/signature_json refuses becomes a refusal of |field|.
static slip_status_t slip__metadata_signature_refusal(slip_status_t status, const char *field) {
  if (slip_status_is_ok(status) || slip_status_code(status) == SLIP_CODE_OUT_OF_MEMORY) return status;
  char text[384];
  (void)slip_status_format(status, text, sizeof(text));
  slip_status_free(status);
  return slip__metadata_refuse(field, "%s", text);
}

// A signature of the arrays |params| and |aliases| (NULL: no aliases).
static slip_status_t slip__metadata_read_signature(json_t *params, json_t *aliases, const char *field, slip__metadata_t *metadata,
                                                   slip_signature_t **out) {
  slip_allocator_t allocator = metadata->arena.allocator;
  slip_bytes_t text;
  json_t *object =
      aliases ? json_pack("{sOsO}", "params", params, "return_aliases", aliases) : json_pack("{sOs[]}", "params", params, "return_aliases");
  *out = NULL;
  if (!object) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "reading " SLIP__METADATA_NAME);
  slip_status_t status = slip__artifact_json_text(object, false, allocator, &text);
  json_decref(object);
  SLIP_RETURN_IF_ERROR(status);
  status = slip_signature_from_json((const char *)text.data, text.size, allocator, out);
  slip__free(allocator, text.data, text.size + 1);
  return slip__metadata_signature_refusal(status, field);
}

// Return aliases are stored once, for |params|; those of the lowered signature are found by name. |*out| is a new array of indices.
static slip_status_t slip__metadata_lower_aliases(const slip_signature_t *params, const slip_signature_t *lowered, json_t **out) {
  const int32_t *aliases = NULL;
  size_t count = slip_signature_return_aliases(params, &aliases);
  *out = json_array();
  for (size_t i = 0; i < count && *out; ++i) {
    const char *name = slip_signature_param(params, (size_t)aliases[i])->name;
    int32_t index = slip_signature_find(lowered, name);
    if (index < 0) {
      json_decref(*out);
      *out = NULL;
      return slip__metadata_refuse("lowered_params", "return %zu is parameter '%.64s', which is not among them", i, name);
    }
    if (json_array_append_new(*out, json_integer(index)) != 0) {
      json_decref(*out);
      *out = NULL;
    }
  }
  return *out ? slip_ok_status() : SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "reading " SLIP__METADATA_NAME);
}

// True if both describe the same bytes, whatever their shape: equal products of the static dims (checked for overflow), the same dynamic
// dims in the same order (lowering may drop their names). A blocked shape with padding has another product.
static bool slip__metadata_same_storage(const slip_param_t *a, const slip_param_t *b) {
  const slip_param_t *sides[2] = {a, b};
  const char *names[2][SLIP_MAX_RANK];
  uint32_t dynamic[2] = {0, 0};
  int64_t product[2] = {1, 1};
  for (uint32_t side = 0; side < 2; ++side) {
    for (uint32_t d = 0; d < sides[side]->rank; ++d) {
      if (sides[side]->dims[d] != SLIP_DIM_DYNAMIC) {
        if (!slip__checked_mul(product[side], sides[side]->dims[d], &product[side])) return false;
      } else {
        names[side][dynamic[side]++] = sides[side]->dim_names[d];
      }
    }
  }
  if (product[0] != product[1] || dynamic[0] != dynamic[1]) return false;
  for (uint32_t i = 0; i < dynamic[0]; ++i) {
    if (names[0][i] && names[1][i] && strcmp(names[0][i], names[1][i]) != 0) return false;
  }
  return true;
}

// The external interface of a kernel is the same before and after lowering: count, order, names, directions, element types, storage.
static slip_status_t slip__metadata_check_kernel_entry(const slip__metadata_entry_t *entry) {
  size_t count = slip_signature_param_count(entry->params);
  if (slip_signature_param_count(entry->lowered_params) != count) {
    return slip__metadata_refuse("lowered_params", "a kernel has the same parameters before and after lowering, not %zu and %zu", count,
                                 slip_signature_param_count(entry->lowered_params));
  }
  for (size_t i = 0; i < count; ++i) {
    const slip_param_t *a = slip_signature_param(entry->params, i), *b = slip_signature_param(entry->lowered_params, i);
    if (strcmp(a->name, b->name) != 0 || a->direction != b->direction || a->dtype != b->dtype) {
      return slip__metadata_refuse("lowered_params", "parameter %zu '%.64s' has another name, direction or dtype than in 'params'", i,
                                   b->name);
    }
    if (!slip__metadata_same_storage(a, b)) {
      return slip__metadata_refuse("lowered_params", "parameter %zu '%.64s' describes other bytes than in 'params'", i, b->name);
    }
  }
  return slip_ok_status();
}

static slip_status_t slip__metadata_read_entry(json_t *object, slip__metadata_t *metadata, slip__metadata_entry_t *entry) {
  json_t *params = json_object_get(object, "params"), *lowered = json_object_get(object, "lowered_params");
  json_t *aliases = json_object_get(object, "return_aliases"), *lowered_aliases = NULL;
  slip_signature_t *unaliased = NULL;
  SLIP_RETURN_IF_ERROR(slip__metadata_read_signature(params, aliases, "params", metadata, &entry->params));
  if (!lowered) {  // schema 1 and 2 have one list
    slip_signature_retain(entry->params);
    entry->lowered_params = entry->params;
    return slip_ok_status();
  }
  SLIP_RETURN_IF_ERROR(slip__metadata_read_signature(lowered, NULL, "lowered_params", metadata, &unaliased));
  slip_status_t status = slip__metadata_lower_aliases(entry->params, unaliased, &lowered_aliases);
  if (slip_status_is_ok(status)) {
    status = slip__metadata_read_signature(lowered, lowered_aliases, "lowered_params", metadata, &entry->lowered_params);
  }
  json_decref(lowered_aliases);
  slip_signature_release(unaliased);
  return status;
}

static slip_status_t slip__metadata_read_further_entry(json_t *object, size_t index, slip__metadata_t *metadata,
                                                       slip__metadata_entry_t *entry) {
  static const char *const keys[] = {"name", "params", "lowered_params", "return_aliases"};
  json_t *name = json_object_get(object, "name");
  char *copy = NULL;
  if (!json_is_object(object) || json_object_size(object) != 4) {
    return slip__metadata_refuse("entries", "entry %zu is no object of name, params, lowered_params, return_aliases", index);
  }
  for (size_t i = 0; i < 4; ++i) {
    json_t *value = json_object_get(object, keys[i]);
    if (i == 0 ? !json_is_string(value) : !json_is_array(value)) {
      return slip__metadata_refuse("entries", "entry %zu: '%s' is %s, expected %s", index, keys[i], slip__json_type_name(value),
                                   i == 0 ? "a string" : "an array");
    }
  }
  SLIP_RETURN_IF_ERROR(slip__arena_strndup(&metadata->arena, json_string_value(name), json_string_length(name), &copy));
  entry->name = copy;
  return slip_status_annotate(slip__metadata_read_entry(object, metadata, entry), "entry %zu of 'entries'", index);
}

static slip_status_t slip__metadata_read_entries(json_t *root, slip__metadata_t *metadata) {
  json_t *entries = json_object_get(root, "entries");
  size_t further = json_array_size(entries);
  void *memory = NULL;
  if (entries && (further == 0 || further >= SLIP_IMAGE_MAX_ENTRIES)) {
    return slip__metadata_refuse("entries", "%zu further entries, expected 1 to %d", further, SLIP_IMAGE_MAX_ENTRIES - 1);
  }
  if (entries && metadata->contract == SLIP_CONTRACT_KERNEL) return slip__metadata_refuse("entries", "a kernel has one entry");
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&metadata->arena, further + 1, sizeof(slip__metadata_entry_t), &memory));
  metadata->entries = memory;
  metadata->entry_count = further + 1;
  SLIP_RETURN_IF_ERROR(slip__metadata_read_entry(root, metadata, &metadata->entries[0]));
  for (size_t i = 0; i < further; ++i) {
    SLIP_RETURN_IF_ERROR(slip__metadata_read_further_entry(json_array_get(entries, i), i, metadata, &metadata->entries[i + 1]));
  }
  return metadata->contract == SLIP_CONTRACT_KERNEL ? slip__metadata_check_kernel_entry(&metadata->entries[0]) : slip_ok_status();
}

// --- the other fields -----------------------------------------------------------------------------------------------------------------

static slip_status_t slip__metadata_copy_string(json_t *value, slip__metadata_t *metadata, const char **out) {
  char *copy = NULL;
  SLIP_RETURN_IF_ERROR(slip__arena_strndup(&metadata->arena, json_string_value(value), json_string_length(value), &copy));
  *out = copy;
  return slip_ok_status();
}

static slip_status_t slip__metadata_read_targets(json_t *root, slip__metadata_t *metadata) {
  json_t *list = json_object_get(root, "target");
  size_t count = json_is_array(list) ? json_array_size(list) : 1;
  void *memory = NULL;
  if (count == 0 || count > SLIP__METADATA_MAX_TARGETS) {
    return slip__metadata_refuse("target", "%zu targets, expected 1 to %d", count, SLIP__METADATA_MAX_TARGETS);
  }
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&metadata->arena, count, sizeof(char *), &memory));
  metadata->targets = memory;
  metadata->target_count = count;
  for (size_t i = 0; i < count; ++i) {
    json_t *value = json_is_array(list) ? json_array_get(list, i) : list;
    if (!json_is_string(value)) return slip__metadata_refuse("target", "entry %zu is %s", i, slip__json_type_name(value));
    if (!slip__image_is_target((const uint8_t *)json_string_value(value), json_string_length(value))) {
      return slip__metadata_refuse("target", "'%.64s' is no target", json_string_value(value));
    }
    SLIP_RETURN_IF_ERROR(slip__metadata_copy_string(value, metadata, &metadata->targets[i]));
    if (i > 0 && strcmp(metadata->targets[i - 1], metadata->targets[i]) >= 0) {
      return slip__metadata_refuse("target", "'%.64s' is out of order or there twice", metadata->targets[i]);
    }
  }
  return slip_ok_status();
}

static slip_status_t slip__metadata_read_contract(json_t *root, slip__metadata_t *metadata) {
  const char *contract = json_string_value(json_object_get(root, "contract"));
  const char *mode = json_string_value(json_object_get(root, "execution_mode"));
  json_t *capabilities = json_object_get(root, "capabilities");
  metadata->contract = SLIP_CONTRACT_PROGRAM;
  metadata->capabilities = SLIP__CAPABILITY_PROGRAM;
  if (metadata->schema < 3) return slip_ok_status();  // never kernel rights by inference
  if (strcmp(contract, "program") != 0 && strcmp(contract, "kernel") != 0) {
    return slip__metadata_refuse("contract", "expected program or kernel, came '%.32s'", contract);
  }
  bool sim = metadata->platform == SLIP_PLATFORM_SIM;
  if (strcmp(mode, sim ? "sim" : "onboard") != 0) {
    return slip__metadata_refuse("execution_mode", "expected '%s' for platform %s, came '%.32s'", sim ? "sim" : "onboard",
                                 slip_platform_name(metadata->platform), mode);
  }
  metadata->capabilities = 0;
  for (size_t i = 0; i < json_array_size(capabilities); ++i) {
    json_t *value = json_array_get(capabilities, i);
    const char *name = json_is_string(value) ? json_string_value(value) : "";
    uint32_t bit = strcmp(name, "program") == 0 ? SLIP__CAPABILITY_PROGRAM : strcmp(name, "kernel") == 0 ? SLIP__CAPABILITY_KERNEL : 0;
    if (bit == 0 || (metadata->capabilities & bit)) {
      return slip__metadata_refuse("capabilities", "entry %zu is none of 'program' and 'kernel', or there twice", i);
    }
    metadata->capabilities |= bit;
  }
  if (strcmp(contract, "kernel") == 0) metadata->contract = SLIP_CONTRACT_KERNEL;
  uint32_t needed = metadata->contract == SLIP_CONTRACT_KERNEL ? SLIP__CAPABILITY_KERNEL : SLIP__CAPABILITY_PROGRAM;
  if (!(metadata->capabilities & needed))
    return slip__metadata_refuse("capabilities", "'%s' is not among them, but is the contract", contract);
  return slip_ok_status();
}

static slip_status_t slip__metadata_read_toolchain(json_t *root) {
  json_t *toolchain = json_object_get(root, "toolchain"), *value;
  const char *key;
  if (toolchain && json_object_size(toolchain) == 0) return slip__metadata_refuse("toolchain", "empty");
  json_object_foreach(toolchain, key, value) {
    if (!json_is_string(value)) {
      return slip__metadata_refuse("toolchain", "'%.64s' is %s, expected a string", key, slip__json_type_name(value));
    }
  }
  return slip_ok_status();
}

static slip_status_t slip__metadata_read_schema(json_t *root, slip__metadata_t *metadata) {
  json_t *schema = json_object_get(root, "schema");
  if (!json_is_object(root)) return slip__metadata_refuse("schema", "the file is %s, expected an object", slip__json_type_name(root));
  if (!schema) return slip__metadata_refuse("schema", "missing");
  if (!json_is_integer(schema)) return slip__metadata_refuse("schema", "expected an integer, came %s", slip__json_type_name(schema));
  json_int_t number = json_integer_value(schema);
  if (number < 1 || number > SLIP__METADATA_SCHEMA) {
    return slip__metadata_refuse("schema", "%lld is unknown, this library reads 1 to %d", (long long)number, SLIP__METADATA_SCHEMA);
  }
  metadata->schema = (uint32_t)number;
  return slip__metadata_check_fields(root, 1u << (metadata->schema - 1));
}

static slip_status_t slip__metadata_read(json_t *root, slip__metadata_t *metadata) {
  SLIP_RETURN_IF_ERROR(slip__metadata_read_schema(root, metadata));
  json_t *name = json_object_get(root, "name"), *platform = json_object_get(root, "platform"), *key = json_object_get(root, "key");
  json_t *return_count = json_object_get(root, "return_count");
  if (!slip__metadata_name_valid(json_string_value(name))) {
    return slip__metadata_refuse("name", "'%.64s' is no name: letters, digits, _ . -", json_string_value(name));
  }
  metadata->platform = slip_platform_from_name(json_string_value(platform));
  if (metadata->platform == SLIP_PLATFORM_NONE) {
    return slip__metadata_refuse("platform", "'%.32s' is unknown", json_string_value(platform));
  }
  metadata->key = "";
  if (key && !slip__metadata_key_valid(json_string_value(key))) return slip__metadata_refuse("key", "expected 32 hexadecimal digits");
  if (key) SLIP_RETURN_IF_ERROR(slip__metadata_copy_string(key, metadata, &metadata->key));
  SLIP_RETURN_IF_ERROR(slip__metadata_copy_string(name, metadata, &metadata->name));
  SLIP_RETURN_IF_ERROR(slip__metadata_read_targets(root, metadata));
  SLIP_RETURN_IF_ERROR(slip__metadata_read_contract(root, metadata));
  SLIP_RETURN_IF_ERROR(slip__metadata_read_toolchain(root));
  SLIP_RETURN_IF_ERROR(slip__metadata_read_entries(root, metadata));
  const int32_t *aliases = NULL;
  size_t returns = slip_signature_return_aliases(metadata->entries[0].params, &aliases);
  if (return_count && (json_integer_value(return_count) < 0 || (size_t)json_integer_value(return_count) != returns)) {
    return slip__metadata_refuse("return_count", "%lld, but 'return_aliases' has %zu", (long long)json_integer_value(return_count),
                                 returns);
  }
  return slip_ok_status();
}

slip_status_t slip__metadata_parse(slip_const_bytes_t text, slip_allocator_t allocator, slip__metadata_t *out) {
  json_t *root = NULL;
  memset(out, 0, sizeof(*out));
  SLIP_RETURN_IF_ERROR(slip__artifact_json_load(text, SLIP__METADATA_NAME, &root));
  slip__arena_initialize(&out->arena, allocator, 0);
  slip_status_t status = slip__metadata_read(root, out);
  json_decref(root);
  if (!slip_status_is_ok(status)) slip__metadata_deinitialize(out);
  return status;
}

void slip__metadata_deinitialize(slip__metadata_t *metadata) {
  for (size_t i = 0; metadata->entries && i < metadata->entry_count; ++i) {
    slip_signature_release(metadata->entries[i].params);
    slip_signature_release(metadata->entries[i].lowered_params);
  }
  slip__arena_deinitialize(&metadata->arena);
  memset(metadata, 0, sizeof(*metadata));
}
