// SPDX-License-Identifier: Apache-2.0
#include "artifact/artifact_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "artifact/artifact_json.h"
#include "artifact/file_list.h"
#include "artifact/metadata.h"
#include "base/allocator.h"
#include "os/file.h"
#include "slipstream/tensor.h"

// All that goes into the directory, sorted by path.
typedef struct slip__artifact_plan_t {
  const slip__artifact_desc_t *desc;
  slip_allocator_t allocator;
  slip__arena_t arena;
  slip__artifact_file_t *files;
  slip__file_record_t *records;
  size_t file_count;
  slip_bytes_t manifest;  // in the arena's allocator
  const char **targets;   // sorted
} slip__artifact_plan_t;

#define SLIP__ARTIFACT_WRONG(...) SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "this artifact cannot be written: " __VA_ARGS__)

// --- metadata -------------------------------------------------------------------------------------------------------------------------

// The arrays of |signature|'s JSON form, as new references.
static slip_status_t slip__artifact_signature_json(const slip_signature_t *signature, slip_allocator_t allocator, json_t **out_params,
                                                   json_t **out_aliases) {
  slip_bytes_t text;
  json_t *root = NULL;
  *out_params = *out_aliases = NULL;
  SLIP_RETURN_IF_ERROR(slip_signature_to_json(signature, allocator, &text));
  slip_status_t status = slip__artifact_json_load((slip_const_bytes_t){text.data, text.size}, "a signature", &root);
  slip__free(allocator, text.data, text.size + 1);
  SLIP_RETURN_IF_ERROR(status);
  *out_params = json_incref(json_object_get(root, "params"));
  *out_aliases = json_incref(json_object_get(root, "return_aliases"));
  json_decref(root);
  return slip_ok_status();
}

// Adds params, lowered_params and return_aliases of |entry| to |object|.
static slip_status_t slip__artifact_entry_json(const slip__artifact_entry_t *entry, slip_allocator_t allocator, json_t *object) {
  json_t *params = NULL, *aliases = NULL, *lowered = NULL, *lowered_aliases = NULL;
  SLIP_RETURN_IF_ERROR(slip__artifact_signature_json(entry->params, allocator, &params, &aliases));
  slip_status_t status = slip__artifact_signature_json(entry->lowered_params, allocator, &lowered, &lowered_aliases);
  json_decref(lowered_aliases);
  // set_new takes the reference also when it fails.
  int failed = json_object_set_new(object, "params", params);
  failed |= json_object_set_new(object, "lowered_params", lowered);
  failed |= json_object_set_new(object, "return_aliases", aliases);
  if (slip_status_is_ok(status) && failed) status = SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "writing " SLIP__METADATA_NAME);
  return status;
}

// NULL where memory is short, as of the next one.
static json_t *slip__artifact_targets_json(const slip__artifact_plan_t *plan) {
  json_t *targets = json_array();
  int failed = 0;
  for (size_t i = 0; i < plan->desc->image_count; ++i) failed |= json_array_append_new(targets, json_string(plan->targets[i]));
  if (!failed) return targets;
  json_decref(targets);
  return NULL;
}

static json_t *slip__artifact_toolchain_json(const slip__artifact_desc_t *desc) {
  json_t *toolchain = json_object();
  int failed = 0;
  for (size_t i = 0; i < desc->toolchain_count; ++i) {
    failed |= json_object_set_new(toolchain, desc->toolchain[i].key, json_string(desc->toolchain[i].value));
  }
  if (!failed) return toolchain;
  json_decref(toolchain);
  return NULL;
}

static slip_status_t slip__artifact_metadata_json(const slip__artifact_plan_t *plan, json_t **out) {
  const slip__artifact_desc_t *desc = plan->desc;
  const char *contract = desc->contract == SLIP_CONTRACT_KERNEL ? "kernel" : "program";
  const int32_t *aliases = NULL;
  size_t returns = slip_signature_return_aliases(desc->entries[0].params, &aliases);
  json_t *root = json_pack("{s:i, s:s, s:s, s:s, s:o, s:I}", "schema", SLIP__METADATA_SCHEMA, "name", desc->name, "platform",
                           slip_platform_name(desc->platform), "contract", contract, "target", slip__artifact_targets_json(plan),
                           "return_count", (json_int_t)returns);
  *out = NULL;
  if (!root) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "writing " SLIP__METADATA_NAME);
  slip_status_t status = slip__artifact_entry_json(&desc->entries[0], plan->allocator, root);
  json_t *entries = desc->entry_count > 1 ? json_array() : NULL;
  int entries_failed = 0;
  for (size_t i = 1; i < desc->entry_count && slip_status_is_ok(status); ++i) {
    json_t *entry = json_pack("{ss}", "name", desc->entries[i].name);
    status = slip__artifact_entry_json(&desc->entries[i], plan->allocator, entry);
    entries_failed |= json_array_append_new(entries, entry);
  }
  int failed = entries_failed;
  failed |= entries ? json_object_set_new(root, "entries", entries) : 0;
  failed |= json_object_set_new(root, "execution_mode", json_string(desc->platform == SLIP_PLATFORM_SIM ? "sim" : "onboard"));
  failed |= json_object_set_new(root, "capabilities", json_pack("[s]", contract));
  failed |= json_object_set_new(root, "toolchain", slip__artifact_toolchain_json(desc));
  failed |= json_object_set_new(root, "key", json_string(desc->key));
  if (slip_status_is_ok(status) && failed) status = SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "writing " SLIP__METADATA_NAME);
  if (slip_status_is_ok(status)) {
    *out = root;
  } else {
    json_decref(root);
  }
  return status;
}

// The reader's verdict on what was made of the description.
static slip_status_t slip__artifact_check_metadata(const slip__artifact_plan_t *plan, slip_const_bytes_t text) {
  const slip__artifact_desc_t *desc = plan->desc;
  slip__metadata_t metadata;
  slip_status_t status = slip__metadata_parse(text, plan->allocator, &metadata);
  if (slip_status_code(status) == SLIP_CODE_OUT_OF_MEMORY) return status;
  if (!slip_status_is_ok(status)) {
    slip_status_t wrong = SLIP__ARTIFACT_WRONG("%s", slip_status_message(status));
    slip_status_free(status);
    return wrong;
  }
  bool same = metadata.target_count == desc->image_count && metadata.entry_count == desc->entry_count;
  for (size_t i = 0; same && i < desc->entry_count; ++i) {
    same = slip_signature_equal(metadata.entries[i].params, desc->entries[i].params) &&
           slip_signature_equal(metadata.entries[i].lowered_params, desc->entries[i].lowered_params);
  }
  if (!same) {
    status = SLIP__ARTIFACT_WRONG("targets repeat, or the lowered parameters return others than the parameters of the same names do");
  }
  slip__metadata_deinitialize(&metadata);
  return status;
}

// --- plan -----------------------------------------------------------------------------------------------------------------------------

static int slip__artifact_compare_files(const void *a, const void *b) {
  return strcmp(((const slip__artifact_file_t *)a)->path, ((const slip__artifact_file_t *)b)->path);
}

static int slip__artifact_compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static slip_status_t slip__artifact_check_desc(const slip__artifact_desc_t *desc) {
  if (!desc->name || !desc->key || !desc->entries || desc->entry_count == 0 || !desc->images || desc->image_count == 0) {
    return SLIP__ARTIFACT_WRONG("name, key, an entry and an image are needed");
  }
  if (!slip__metadata_name_valid(desc->name)) return SLIP__ARTIFACT_WRONG("'%.64s' is no name: letters, digits, _ . -", desc->name);
  if (!slip__metadata_key_valid(desc->key)) return SLIP__ARTIFACT_WRONG("the key is not 32 hexadecimal digits");
  for (size_t i = 0; i < desc->entry_count; ++i) {
    if (!desc->entries[i].name || !desc->entries[i].params || !desc->entries[i].lowered_params) {
      return SLIP__ARTIFACT_WRONG("entry %zu has no name or no signatures", i);
    }
  }
  for (size_t i = 0; i < desc->toolchain_count; ++i) {
    json_error_t error = {.line = 0};  // left untouched by success, and when memory is short at once
    json_t *probe = json_pack_ex(&error, 0, "[s,s]", desc->toolchain[i].key, desc->toolchain[i].value);
    bool wrong = json_error_code(&error) == json_error_invalid_utf8 || json_error_code(&error) == json_error_null_value;
    if (!probe && wrong) return SLIP__ARTIFACT_WRONG("fact %zu of the toolchain is not UTF-8", i);
    if (!probe) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "writing " SLIP__METADATA_NAME);
    json_decref(probe);
  }
  if (desc->toolchain_count == 0) return SLIP__ARTIFACT_WRONG("the toolchain's identity is missing");
  return slip_ok_status();
}

// The image says the same as the description.
static slip_status_t slip__artifact_check_image(const slip__artifact_desc_t *desc, size_t index, slip_allocator_t allocator) {
  const slip__artifact_image_t *image = &desc->images[index];
  slip_image_view_t view;
  slip_status_t status = slip_image_open(image->bytes, &view);
  if (!slip_status_is_ok(status)) {
    slip_status_t wrong = SLIP__ARTIFACT_WRONG("image %zu: %s", index, slip_status_message(status));
    slip_status_free(status);
    return wrong;
  }
  if (!image->target || strcmp(view.target, image->target) != 0 || view.platform != desc->platform || view.contract != desc->contract ||
      view.entry_count != desc->entry_count) {
    return SLIP__ARTIFACT_WRONG("image %zu is of target %s, platform %s, contract %u with %u entries, unlike the description", index,
                                view.target, slip_platform_name(view.platform), view.contract, view.entry_count);
  }
  for (uint32_t i = 0; i < view.entry_count; ++i) {
    slip_signature_t *signature = NULL;
    SLIP_RETURN_IF_ERROR(slip_image_entry_signature(&view, i, allocator, &signature));
    bool same = slip_signature_equal(signature, desc->entries[i].lowered_params) &&
                strcmp(slip_image_entry_name(&view, i), desc->entries[i].name) == 0;
    slip_signature_release(signature);
    if (!same) return SLIP__ARTIFACT_WRONG("entry %u of image %zu has another name or signature than the description", i, index);
  }
  return slip_ok_status();
}

static slip_status_t slip__artifact_add(slip__artifact_plan_t *plan, const char *path, slip_const_bytes_t bytes) {
  plan->files[plan->file_count++] = (slip__artifact_file_t){path, bytes};
  return slip_ok_status();
}

static slip_status_t slip__artifact_plan_files(slip__artifact_plan_t *plan) {
  const slip__artifact_desc_t *desc = plan->desc;
  for (size_t i = 0; i < desc->image_count; ++i) {
    void *path = NULL;
    SLIP_RETURN_IF_ERROR(slip__artifact_check_image(desc, i, plan->allocator));
    size_t size = strlen(desc->images[i].target) + sizeof("image/.img");
    SLIP_RETURN_IF_ERROR(slip__arena_alloc(&plan->arena, size, &path));
    (void)snprintf(path, size, "image/%s.img", desc->images[i].target);
    SLIP_RETURN_IF_ERROR(slip__artifact_add(plan, path, desc->images[i].bytes));
    plan->targets[i] = desc->images[i].target;
  }
  qsort(plan->targets, desc->image_count, sizeof(char *), slip__artifact_compare_texts);
  for (size_t i = 0; i < desc->file_count; ++i) {
    const char *path = desc->files[i].path;
    if (!path || !slip__file_path_valid(path) || strncmp(path, "image/", 6) == 0 || strcmp(path, SLIP__FILE_LIST_NAME) == 0) {
      return SLIP__ARTIFACT_WRONG("file path '%.128s' is not plain and relative, or one of the artifact's own", path ? path : "");
    }
    SLIP_RETURN_IF_ERROR(slip__artifact_add(plan, path, desc->files[i].bytes));
  }
  return slip_ok_status();
}

static slip_status_t slip__artifact_plan_metadata(slip__artifact_plan_t *plan) {
  json_t *root = NULL;
  slip_bytes_t text;
  void *copy = NULL;
  SLIP_RETURN_IF_ERROR(slip__artifact_metadata_json(plan, &root));
  slip_status_t status = slip__artifact_json_text(root, true, plan->allocator, &text);
  json_decref(root);
  SLIP_RETURN_IF_ERROR(status);
  status = slip__arena_alloc(&plan->arena, text.size, &copy);
  if (slip_status_is_ok(status)) {
    memcpy(copy, text.data, text.size);
    status = slip__artifact_check_metadata(plan, (slip_const_bytes_t){copy, text.size});
  }
  slip_const_bytes_t bytes = {copy, text.size};
  slip__free(plan->allocator, text.data, text.size + 1);
  SLIP_RETURN_IF_ERROR(status);
  return slip__artifact_add(plan, SLIP__METADATA_NAME, bytes);
}

static slip_status_t slip__artifact_plan_manifest(slip__artifact_plan_t *plan) {
  slip__file_list_t list;
  qsort(plan->files, plan->file_count, sizeof(*plan->files), slip__artifact_compare_files);
  for (size_t i = 0; i < plan->file_count; ++i) {
    plan->records[i] = (slip__file_record_t){plan->files[i].path, plan->files[i].bytes.size, slip__hash128(plan->files[i].bytes), 0644};
  }
  SLIP_RETURN_IF_ERROR(slip__file_list_write(plan->records, plan->file_count, plan->allocator, &plan->manifest));
  slip_status_t status = slip__file_list_parse((slip_const_bytes_t){plan->manifest.data, plan->manifest.size}, plan->allocator, &list);
  if (slip_status_is_ok(status)) {
    slip__file_list_deinitialize(&list);
  } else if (slip_status_code(status) != SLIP_CODE_OUT_OF_MEMORY) {
    slip_status_t wrong = SLIP__ARTIFACT_WRONG("%s", slip_status_message(status));
    slip_status_free(status);
    status = wrong;
  }
  return status;
}

static void slip__artifact_plan_deinitialize(slip__artifact_plan_t *plan) {
  if (plan->manifest.data) slip__free(plan->allocator, plan->manifest.data, plan->manifest.size + 1);
  slip__arena_deinitialize(&plan->arena);
}

static slip_status_t slip__artifact_plan(slip__artifact_plan_t *plan) {
  const slip__artifact_desc_t *desc = plan->desc;
  void *files = NULL, *records = NULL, *targets = NULL;
  SLIP_RETURN_IF_ERROR(slip__artifact_check_desc(desc));
  if (desc->file_count > SLIP__FILE_LIST_MAX_FILES || desc->image_count > SLIP__METADATA_MAX_TARGETS) {
    return SLIP__ARTIFACT_WRONG("%zu files and %zu images are too many", desc->file_count, desc->image_count);
  }
  size_t most = desc->file_count + desc->image_count + 1;
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&plan->arena, most, sizeof(slip__artifact_file_t), &files));
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&plan->arena, most, sizeof(slip__file_record_t), &records));
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&plan->arena, desc->image_count, sizeof(char *), &targets));
  plan->files = files;
  plan->records = records;
  plan->targets = targets;
  SLIP_RETURN_IF_ERROR(slip__artifact_plan_files(plan));
  SLIP_RETURN_IF_ERROR(slip__artifact_plan_metadata(plan));
  return slip__artifact_plan_manifest(plan);
}

// --- writing --------------------------------------------------------------------------------------------------------------------------

// Writes |bytes| to |directory|/|path|, making the directories between.
static slip_status_t slip__artifact_write_file(const slip__artifact_plan_t *plan, const char *directory, const char *path,
                                               slip_const_bytes_t bytes) {
  char *full = NULL;
  SLIP_RETURN_IF_ERROR(slip__path_join(directory, path, plan->allocator, &full));
  slip_status_t status = slip_ok_status();
  char *slash = strrchr(full, '/');
  if (strchr(path, '/')) {
    *slash = '\0';
    status = slip__directory_make_all(full, 0755);
    *slash = '/';
  }
  if (slip_status_is_ok(status)) status = slip__file_write(full, bytes, 0644, true);
  slip__free(plan->allocator, full, strlen(full) + 1);
  return status;
}

// Syncs each directory below |directory| that holds files (they come in order, so equal parents follow each other), then itself.
static slip_status_t slip__artifact_sync(const slip__artifact_plan_t *plan, const char *directory) {
  slip_status_t status = slip_ok_status();
  const char *before = "";
  size_t before_length = 0;
  for (size_t i = 0; i < plan->file_count && slip_status_is_ok(status); ++i) {
    const char *path = plan->files[i].path;
    for (const char *slash = strchr(path, '/'); slash && slip_status_is_ok(status); slash = strchr(slash + 1, '/')) {
      size_t length = (size_t)(slash - path);
      char *full = NULL;
      if (length <= before_length && strncmp(before, path, length + 1) == 0) continue;
      status = slip__path_join(directory, path, plan->allocator, &full);
      if (!slip_status_is_ok(status)) break;
      size_t size = strlen(full) + 1;
      full[strlen(directory) + 1 + length] = '\0';
      status = slip__directory_sync(full);
      slip__free(plan->allocator, full, size);
    }
    const char *last = strrchr(path, '/');
    before = path;
    before_length = last ? (size_t)(last - path) : 0;
  }
  return slip_status_is_ok(status) ? slip__directory_sync(directory) : status;
}

static slip_status_t slip__artifact_fill(const slip__artifact_plan_t *plan, const char *directory) {
  SLIP_RETURN_IF_ERROR(slip__directory_make(directory, 0755));
  for (size_t i = 0; i < plan->file_count; ++i) {
    SLIP_RETURN_IF_ERROR(slip__artifact_write_file(plan, directory, plan->files[i].path, plan->files[i].bytes));
  }
  slip_const_bytes_t manifest = {plan->manifest.data, plan->manifest.size};
  SLIP_RETURN_IF_ERROR(slip__artifact_write_file(plan, directory, SLIP__FILE_LIST_NAME, manifest));
  return slip__artifact_sync(plan, directory);
}

// An artifact, or something that could lose what is not ours?
static slip_status_t slip__artifact_require_artifact(const char *output, slip_allocator_t allocator) {
  char *path = NULL;
  SLIP_RETURN_IF_ERROR(slip__path_join(output, SLIP__METADATA_NAME, allocator, &path));
  bool is = slip__path_exists(path);
  slip__free(allocator, path, strlen(path) + 1);
  if (is) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_CONFLICT, "\"%s\" exists and is no artifact; it is not replaced: remove it or choose another path", output);
}

// Moves |made| to |output|; after a failure of the last sync it is taken back, so that failure means absence.
static slip_status_t slip__artifact_publish(const char *made, const char *parent, const char *output, bool replace,
                                            slip_allocator_t allocator) {
  bool exchanged = false;
  slip_status_t status = slip__path_publish(made, output);
  if (slip_status_code(status) == SLIP_CODE_CONFLICT && replace) {
    slip_status_free(status);
    SLIP_RETURN_IF_ERROR(slip__artifact_require_artifact(output, allocator));
    status = slip__path_exchange(made, output);
    exchanged = true;
  }
  SLIP_RETURN_IF_ERROR(status);
  status = slip__directory_sync(parent);
  if (slip_status_is_ok(status)) return status;
  return slip_status_join(status, exchanged ? slip__path_exchange(made, output) : slip__path_publish(output, made));
}

// |output| without trailing slashes, and the directory above it.
static slip_status_t slip__artifact_split(const char *output, slip__arena_t *arena, const char **out_output, const char **out_parent) {
  size_t length = strlen(output);
  char *copy = NULL, *parent = NULL;
  while (length > 1 && output[length - 1] == '/') --length;
  SLIP_RETURN_IF_ERROR(slip__arena_strndup(arena, output, length, &copy));
  const char *slash = strrchr(copy, '/'), *name = slash ? slash + 1 : copy;
  if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "\"%s\" is no path for an artifact; give a name to make", output);
  }
  size_t parent_length = slash ? (slash == copy ? 1 : (size_t)(slash - copy)) : 1;
  SLIP_RETURN_IF_ERROR(slip__arena_strndup(arena, slash ? copy : ".", parent_length, &parent));
  *out_output = copy;
  *out_parent = parent;
  return slip_ok_status();
}

static slip_status_t slip__artifact_write_plan(slip__artifact_plan_t *plan, const char *output, bool replace) {
  const char *path = NULL, *parent = NULL;
  char *temporary = NULL, *made = NULL;
  SLIP_RETURN_IF_ERROR(slip__artifact_split(output, &plan->arena, &path, &parent));
  // Early and cheap; the rename decides.
  if (slip__path_exists(path)) {
    if (!replace) return SLIP_STATUS(SLIP_CODE_CONFLICT, "\"%s\" exists; remove it, choose another path, or ask to replace it", path);
    SLIP_RETURN_IF_ERROR(slip__artifact_require_artifact(path, plan->allocator));
  }
  SLIP_RETURN_IF_ERROR(slip__directory_make_temporary(parent, ".slipc-", plan->allocator, &temporary));
  slip_status_t status = slip__path_join(temporary, "artifact", plan->allocator, &made);
  if (slip_status_is_ok(status)) status = slip__artifact_fill(plan, made);
  if (slip_status_is_ok(status)) status = slip__artifact_publish(made, parent, path, replace, plan->allocator);
  status = slip_status_join(status, slip__directory_remove_all(temporary));
  if (made) slip__free(plan->allocator, made, strlen(made) + 1);
  slip__free(plan->allocator, temporary, strlen(temporary) + 1);
  return status;
}

slip_status_t slip__artifact_write(const slip__artifact_desc_t *desc, const char *output, bool replace, slip_allocator_t allocator) {
  slip__artifact_plan_t plan = {.desc = desc, .allocator = slip__allocator_or_system(allocator)};
  slip__arena_initialize(&plan.arena, plan.allocator, 0);
  slip_status_t status = slip__artifact_plan(&plan);
  if (slip_status_is_ok(status)) status = slip__artifact_write_plan(&plan, output, replace);
  slip__artifact_plan_deinitialize(&plan);
  return slip_status_annotate(status, "writing the artifact \"%s\"", output);
}
