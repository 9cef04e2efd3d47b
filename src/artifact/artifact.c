// SPDX-License-Identifier: Apache-2.0
// An opened artifact: immutable after open, but for the image that is read on first use.
#include "slipstream/artifact.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "artifact/file_list.h"
#include "artifact/metadata.h"
#include "base/allocator.h"
#include "os/file.h"
#include "os/thread.h"
#include "os/topology.h"
#include "slipstream/tensor.h"

// The JSON files are far smaller than this. Other files may be larger than listed by as much, so that they are refused for what they hold.
#define SLIP__ARTIFACT_SLACK (64ull << 20)

struct slip_artifact_t {
  atomic_uint references;
  slip_allocator_t allocator;
  slip__metadata_t metadata;
  slip__file_list_t files;
  const char *target;  // effective; in |metadata|
  char *path;
  char *json;
  size_t json_size;
  // Guards |mapping|. Nothing else is taken while it is held.
  pthread_mutex_t lock;
  slip__mapping_t mapping;
  // Release: pairs with acquire in slip_artifact_image. True once |mapping| is checked and final.
  atomic_bool published;
};

// The most that is read of a listed file.
static uint64_t slip__artifact_limit(const slip__file_record_t *record) {
  return record->size + SLIP__ARTIFACT_SLACK;  // sizes come from JSON: below 2^63
}

// --- opening --------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__artifact_read_files(slip_artifact_t *artifact) {
  slip__mapping_t mapping;
  uint32_t mode;
  SLIP_RETURN_IF_ERROR(slip__file_map_beneath(artifact->path, SLIP__FILE_LIST_NAME, SLIP__ARTIFACT_SLACK, &mapping, &mode));
  slip_status_t status = slip__file_list_parse(mapping.bytes, artifact->allocator, &artifact->files);
  slip__file_unmap(&mapping);
  return status;
}

// The metadata are judged before their hash, so that a refusal names the field; that the file was changed is added then.
static slip_status_t slip__artifact_check_metadata_file(slip_artifact_t *artifact, slip_const_bytes_t text) {
  const slip__file_record_t *record = slip__file_list_find(&artifact->files, SLIP__METADATA_NAME);
  slip_status_t changed = record ? slip__file_record_check(record, text)
                                 : SLIP_STATUS(SLIP_CODE_CORRUPT, SLIP__FILE_LIST_NAME " does not list " SLIP__METADATA_NAME "; recompile");
  slip_status_t status = slip__metadata_parse(text, artifact->allocator, &artifact->metadata);
  return slip_status_join(status, changed);
}

static slip_status_t slip__artifact_read_metadata(slip_artifact_t *artifact) {
  slip__mapping_t mapping;
  uint32_t mode;
  SLIP_RETURN_IF_ERROR(slip__file_map_beneath(artifact->path, SLIP__METADATA_NAME, SLIP__ARTIFACT_SLACK, &mapping, &mode));
  slip_status_t status = slip__artifact_check_metadata_file(artifact, mapping.bytes);
  if (slip_status_is_ok(status)) {
    artifact->json_size = mapping.bytes.size + 1;
    status = slip__strndup(artifact->allocator, (const char *)mapping.bytes.data, mapping.bytes.size, &artifact->json);
  }
  slip__file_unmap(&mapping);
  return status;
}

static void slip__artifact_image_path(const char *target, char out[SLIP_IMAGE_MAX_TARGET + 16]) {
  (void)snprintf(out, SLIP_IMAGE_MAX_TARGET + 16, "image/%s.img", target);
}

// Each target has its image in the list, and no image is there for another one.
static slip_status_t slip__artifact_check_images_listed(const slip_artifact_t *artifact) {
  size_t images = 0;
  char path[SLIP_IMAGE_MAX_TARGET + 16];
  for (size_t i = 0; i < artifact->files.count; ++i) images += strncmp(artifact->files.records[i].path, "image/", 6) == 0;
  for (size_t i = 0; i < artifact->metadata.target_count; ++i) {
    slip__artifact_image_path(artifact->metadata.targets[i], path);
    if (!slip__file_list_find(&artifact->files, path)) {
      return SLIP_STATUS(SLIP_CODE_CORRUPT, SLIP__FILE_LIST_NAME " does not list \"%s\", an image that the metadata name; recompile", path);
    }
  }
  if (images != artifact->metadata.target_count) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, SLIP__FILE_LIST_NAME " lists %zu images, the metadata name %zu targets; recompile", images,
                       artifact->metadata.target_count);
  }
  return slip_ok_status();
}

static const char *slip__artifact_find_target(const slip__metadata_t *metadata, const char *target) {
  for (size_t i = 0; i < metadata->target_count; ++i) {
    if (strcmp(metadata->targets[i], target) == 0) return metadata->targets[i];
  }
  return NULL;
}

static slip_status_t slip__artifact_no_target(const slip__metadata_t *metadata, const char *wanted) {
  char list[256] = "";
  size_t length = 0;
  for (size_t i = 0; i < metadata->target_count && length < sizeof(list); ++i) {
    int written = snprintf(list + length, sizeof(list) - length, "%s%s", i ? ", " : "", metadata->targets[i]);
    length += written > 0 ? (size_t)written : 0;
  }
  if (wanted) {
    return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE, "artifact \"%s\" has no image for target '%.64s'; it has %s: recompile for it",
                       metadata->name, wanted, list);
  }
  return SLIP_STATUS(SLIP_CODE_INCOMPATIBLE,
                     "artifact \"%s\" has images for %s, none of which this machine runs (it runs %s); recompile, or name a target to look "
                     "at it",
                     metadata->name, list, *slip__cpu_target_best() ? slip__cpu_target_best() : "none of the known targets");
}

// Images of host code go by the processor; an image of a device is chosen where the device is known, so the first one stands for all.
static slip_status_t slip__artifact_choose_target(slip_artifact_t *artifact, const char *wanted) {
  const slip__metadata_t *metadata = &artifact->metadata;
  if (wanted) {
    artifact->target = slip__artifact_find_target(metadata, wanted);
    return artifact->target ? slip_ok_status() : slip__artifact_no_target(metadata, wanted);
  }
  for (size_t i = slip__cpu_target_count(); i-- > 0;) {
    const char *candidate = slip__cpu_target_at(i);
    if (!slip__cpu_target_supported(candidate)) continue;
    artifact->target = slip__artifact_find_target(metadata, candidate);
    if (artifact->target) return slip_ok_status();
  }
  if (metadata->platform == SLIP_PLATFORM_CPU || metadata->platform == SLIP_PLATFORM_SIM) return slip__artifact_no_target(metadata, NULL);
  artifact->target = metadata->targets[0];
  return slip_ok_status();
}

static void slip__artifact_destroy(slip_artifact_t *artifact) {
  slip_allocator_t allocator = artifact->allocator;
  slip__file_unmap(&artifact->mapping);
  (void)pthread_mutex_destroy(&artifact->lock);
  slip__metadata_deinitialize(&artifact->metadata);
  slip__file_list_deinitialize(&artifact->files);
  slip__free(allocator, artifact->json, artifact->json_size);
  slip__free(allocator, artifact->path, artifact->path ? strlen(artifact->path) + 1 : 0);
  slip__free(allocator, artifact, sizeof(*artifact));
}

slip_status_t slip_artifact_open(const char *path, const slip_artifact_options_t *options, slip_allocator_t allocator,
                                 slip_artifact_t **out) {
  void *memory = NULL;
  *out = NULL;
  if (!path) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "no path of an artifact given");
  if (options && options->struct_size != sizeof(*options)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "struct_size of the artifact options is %u, expected %zu; start from SLIP_ARTIFACT_OPTIONS_INIT",
                       options->struct_size, sizeof(*options));
  }
  allocator = slip__allocator_or_system(allocator);
  SLIP_RETURN_IF_ERROR(slip__alloc(allocator, sizeof(slip_artifact_t), &memory));
  slip_artifact_t *artifact = memory;
  artifact->allocator = allocator;
  atomic_init(&artifact->references, 1);
  atomic_init(&artifact->published, false);
  (void)pthread_mutex_init(&artifact->lock, NULL);  // cannot fail with default attributes
  slip_status_t status = slip__strndup(allocator, path, strlen(path), &artifact->path);
  if (slip_status_is_ok(status)) status = slip__artifact_read_files(artifact);
  if (slip_status_is_ok(status)) status = slip__artifact_read_metadata(artifact);
  if (slip_status_is_ok(status)) status = slip__artifact_check_images_listed(artifact);
  if (slip_status_is_ok(status)) status = slip__artifact_choose_target(artifact, options ? options->target : NULL);
  if (slip_status_is_ok(status)) {
    *out = artifact;
  } else {
    slip__artifact_destroy(artifact);
  }
  return slip_status_annotate(status, "opening the artifact \"%s\"", path);
}

void slip_artifact_retain(slip_artifact_t *artifact) {
  // Relaxed: whoever retains already holds a reference.
  atomic_fetch_add_explicit(&artifact->references, 1, memory_order_relaxed);
}

void slip_artifact_release(slip_artifact_t *artifact) {
  if (!artifact) return;
  // Acquire-release: the last holder sees what the others did before it frees.
  if (atomic_fetch_sub_explicit(&artifact->references, 1, memory_order_acq_rel) == 1) slip__artifact_destroy(artifact);
}

// --- accessors ------------------------------------------------------------------------------------------------------------------------

const char *slip_artifact_name(const slip_artifact_t *artifact) {
  return artifact->metadata.name;
}
uint16_t slip_artifact_platform(const slip_artifact_t *artifact) {
  return artifact->metadata.platform;
}
const char *slip_artifact_target(const slip_artifact_t *artifact) {
  return artifact->target;
}
uint32_t slip_artifact_contract(const slip_artifact_t *artifact) {
  return artifact->metadata.contract;
}
size_t slip_artifact_target_count(const slip_artifact_t *artifact) {
  return artifact->metadata.target_count;
}
const char *slip_artifact_target_at(const slip_artifact_t *artifact, size_t index) {
  return index < artifact->metadata.target_count ? artifact->metadata.targets[index] : NULL;
}
slip_signature_t *slip_artifact_params(const slip_artifact_t *artifact) {
  return artifact->metadata.entries[0].params;
}
slip_signature_t *slip_artifact_lowered_params(const slip_artifact_t *artifact) {
  return artifact->metadata.entries[0].lowered_params;
}
const char *slip_artifact_key(const slip_artifact_t *artifact) {
  return artifact->metadata.key;
}
const char *slip_artifact_metadata_json(const slip_artifact_t *artifact) {
  return artifact->json;
}

// --- image ----------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__artifact_image_differs(const char *what) {
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "the image has another %s than the metadata; the artifact is of two builds, recompile", what);
}

static slip_status_t slip__artifact_check_image_entry(const slip_artifact_t *artifact, const slip_image_view_t *view, uint32_t index) {
  const slip__metadata_entry_t *entry = &artifact->metadata.entries[index];
  slip_signature_t *signature = NULL;
  SLIP_RETURN_IF_ERROR(slip_image_entry_signature(view, index, artifact->allocator, &signature));
  bool same = slip_signature_equal(signature, entry->lowered_params);
  slip_signature_release(signature);
  if (!same) return slip__artifact_image_differs("signature ('lowered_params')");
  if (entry->name && strcmp(entry->name, slip_image_entry_name(view, index)) != 0) return slip__artifact_image_differs("entry name");
  return slip_ok_status();
}

static slip_status_t slip__artifact_check_image(const slip_artifact_t *artifact, slip_const_bytes_t bytes) {
  slip_image_view_t view;
  SLIP_RETURN_IF_ERROR(slip_image_open(bytes, &view));
  if (view.contract != artifact->metadata.contract) return slip__artifact_image_differs("contract");
  if (view.platform != artifact->metadata.platform) return slip__artifact_image_differs("platform");
  if (strcmp(view.target, artifact->target) != 0) return slip__artifact_image_differs("target");
  if (view.entry_count != artifact->metadata.entry_count) return slip__artifact_image_differs("number of entries");
  for (uint32_t i = 0; i < view.entry_count; ++i) SLIP_RETURN_IF_ERROR(slip__artifact_check_image_entry(artifact, &view, i));
  return slip_ok_status();
}

// Under the lock. On failure nothing is mapped, so that the next call starts afresh.
static slip_status_t slip__artifact_load_image(slip_artifact_t *artifact) {
  char path[SLIP_IMAGE_MAX_TARGET + 16];
  slip__mapping_t mapping;
  uint32_t mode;
  slip__artifact_image_path(artifact->target, path);
  const slip__file_record_t *record = slip__file_list_find(&artifact->files, path);
  SLIP_RETURN_IF_ERROR(slip__file_map_beneath(artifact->path, path, slip__artifact_limit(record), &mapping, &mode));
  slip_status_t status = slip__file_record_check(record, mapping.bytes);
  if (slip_status_is_ok(status)) status = slip__artifact_check_image(artifact, mapping.bytes);
  if (slip_status_is_ok(status)) {
    artifact->mapping = mapping;
  } else {
    slip__file_unmap(&mapping);
  }
  return slip_status_annotate(status, "loading %s of \"%s\"", path, artifact->path);
}

slip_status_t slip_artifact_image(slip_artifact_t *artifact, slip_const_bytes_t *out_bytes) {
  *out_bytes = (slip_const_bytes_t){NULL, 0};
  // Acquire: pairs with the release below; the mapping is final then.
  if (!atomic_load_explicit(&artifact->published, memory_order_acquire)) {
    slip_status_t status = slip_ok_status();
    (void)pthread_mutex_lock(&artifact->lock);
    if (!atomic_load_explicit(&artifact->published, memory_order_relaxed)) {
      status = slip__artifact_load_image(artifact);
      if (slip_status_is_ok(status)) atomic_store_explicit(&artifact->published, true, memory_order_release);
    }
    (void)pthread_mutex_unlock(&artifact->lock);
    SLIP_RETURN_IF_ERROR(status);
  }
  *out_bytes = artifact->mapping.bytes;
  return slip_ok_status();
}

// --- verify ---------------------------------------------------------------------------------------------------------------------------

static slip_status_t slip__artifact_verify_file(const slip_artifact_t *artifact, const slip__file_record_t *record) {
  slip__mapping_t mapping;
  uint32_t mode;
  SLIP_RETURN_IF_ERROR(slip__file_map_beneath(artifact->path, record->path, slip__artifact_limit(record), &mapping, &mode));
  slip_status_t status = slip__file_record_check(record, mapping.bytes);
  slip__file_unmap(&mapping);
  // Copying and umasks change the other bits; whether a file is a program is part of what it is.
  if (slip_status_is_ok(status) && (mode & 0100u) != (record->mode & 0100u)) {
    status = SLIP_STATUS(SLIP_CODE_CORRUPT, "\"%s\" has mode %04o, manifest.json says %04o; recompile", record->path, mode, record->mode);
  }
  return status;
}

// One directory on the walk for files that nobody listed.
typedef struct slip__artifact_walk_t {
  const slip_artifact_t *artifact;
  const char *prefix;  // "" or "src/"
} slip__artifact_walk_t;

static slip_status_t slip__artifact_walk(const slip_artifact_t *artifact, const char *prefix);

static slip_status_t slip__artifact_visit(void *user, const char *name, bool is_directory) {
  const slip__artifact_walk_t *walk = user;
  char path[SLIP__FILE_PATH_MAX + 2];
  int length = snprintf(path, sizeof(path), "%s%s%s", walk->prefix, name, is_directory ? "/" : "");
  if (length < 0 || (size_t)length >= sizeof(path)) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "\"%s%.32s...\" is not in manifest.json", walk->prefix, name);
  }
  if (is_directory) return slip__artifact_walk(walk->artifact, path);
  if (strcmp(path, SLIP__FILE_LIST_NAME) == 0 || slip__file_list_find(&walk->artifact->files, path)) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "\"%s\" is not in manifest.json; an artifact is not changed after its build: remove it", path);
}

static slip_status_t slip__artifact_walk(const slip_artifact_t *artifact, const char *prefix) {
  slip__artifact_walk_t walk = {artifact, prefix};
  char *directory = NULL;
  SLIP_RETURN_IF_ERROR(slip__path_join(artifact->path, prefix, artifact->allocator, &directory));
  slip_status_t status = slip__directory_list(directory, slip__artifact_visit, &walk);
  slip__free(artifact->allocator, directory, strlen(directory) + 1);
  return status;
}

slip_status_t slip_artifact_verify(slip_artifact_t *artifact) {
  slip_status_t status = slip_ok_status();
  for (size_t i = 0; i < artifact->files.count && slip_status_is_ok(status); ++i) {
    status = slip__artifact_verify_file(artifact, &artifact->files.records[i]);
  }
  if (slip_status_is_ok(status)) status = slip__artifact_walk(artifact, "");
  return slip_status_annotate(status, "verifying \"%s\"", artifact->path);
}
