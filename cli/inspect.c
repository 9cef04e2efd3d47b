// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "io/array.h"

static const cli_option_t cli_inspect_options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTION_END};

static const char *cli_contract_name(uint32_t contract) {
  return contract == SLIP_CONTRACT_KERNEL ? "kernel" : contract == SLIP_CONTRACT_PROGRAM ? "program" : "?";
}

static const char *cli_core_name(uint32_t core) {
  static const char *const names[] = {"any", "matrix", "vector", "mixed"};
  return core < sizeof(names) / sizeof(names[0]) ? names[core] : "?";
}

// The text form of |signature| as a JSON string.
static json_t *cli_signature_json(slip_signature_t *signature) {
  size_t length = slip_signature_format(signature, NULL, 0);
  char *text = malloc(length + 1);
  if (!text) return NULL;
  slip_signature_format(signature, text, length + 1);
  json_t *value = json_string(text);
  free(text);
  return value;
}

static slip_status_t cli_entries_json(const slip_image_view_t *view, json_t *out) {
  for (uint32_t i = 0; i < view->entry_count; ++i) {
    slip_signature_t *signature = NULL;
    SLIP_RETURN_IF_ERROR(slip_image_entry_signature(view, i, slip_allocator_system(), &signature));
    json_array_append_new(out, json_pack("{s:s,s:o}", "name", slip_image_entry_name(view, i), "signature", cli_signature_json(signature)));
    slip_signature_release(signature);
  }
  return slip_ok_status();
}

// Everything an image says of itself.
static slip_status_t cli_image_json(slip_const_bytes_t bytes, json_t **out) {
  slip_image_view_t view;
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip_image_open(bytes, &view));
  char hash[40];
  snprintf(hash, sizeof(hash), "%016llx%016llx", (unsigned long long)view.content_hash[1], (unsigned long long)view.content_hash[0]);
  json_t *entries = json_array(), *kernels = json_array();
  slip_status_t status = cli_entries_json(&view, entries);
  slip_image_kernel_t kernel;
  for (uint32_t i = 0; slip_image_kernel(&view, i, &kernel); ++i) {
    json_array_append_new(kernels, json_pack("{s:s,s:I,s:s,s:I,s:I,s:I,s:I}", "name", kernel.name, "id", (json_int_t)kernel.function_id,
                                             "core", cli_core_name(kernel.core), "tensors", (json_int_t)kernel.tensor_count, "scalars",
                                             (json_int_t)kernel.scalar_count, "scratch_bytes", (json_int_t)kernel.scratch_bytes,
                                             "binary_bytes", (json_int_t)kernel.binary.size));
  }
  json_t *document =
      json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:o,s:o}", "platform", slip_platform_name(view.platform), "target", view.target, "contract",
                cli_contract_name(view.contract), "build_id", view.build_id, "content_hash", hash, "size_bytes", (json_int_t)bytes.size,
                "object_bytes", (json_int_t)view.orchestration.size, "entries", entries, "kernels", kernels);
  if (slip_status_is_ok(status) && document) {
    *out = document;
    return status;
  }
  json_decref(document);
  return slip_status_is_ok(status) ? SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for the description of the image") : status;
}

// One target of an artifact: its image, or why it is none.
static json_t *cli_target_json(const char *path, const char *target) {
  const slip_artifact_options_t options = {(uint32_t)sizeof(options), 0, target};
  slip_artifact_t *artifact = NULL;
  slip_const_bytes_t bytes = {NULL, 0};
  json_t *image = NULL;
  slip_status_t status = slip_artifact_open(path, &options, slip_allocator_system(), &artifact);
  if (slip_status_is_ok(status)) status = slip_artifact_image(artifact, &bytes);
  if (slip_status_is_ok(status)) status = cli_image_json(bytes, &image);
  if (!slip_status_is_ok(status)) image = json_pack("{s:s,s:o}", "target", target, "error", cli_status_json(status));
  slip_status_free(status);
  slip_artifact_release(artifact);
  return image;
}

// Opens an artifact that has nothing for this machine by one of its images' names.
static slip_artifact_t *cli_artifact_open_foreign(const char *path) {
  char folder[4096], target[256];
  slip_artifact_t *artifact = NULL;
  snprintf(folder, sizeof(folder), "%s/image", path);
  DIR *directory = opendir(folder);
  for (struct dirent *entry = directory ? readdir(directory) : NULL; entry && !artifact; entry = readdir(directory)) {
    const char *dot = strrchr(entry->d_name, '.');
    if (!dot || strcmp(dot, ".img") != 0) continue;
    snprintf(target, sizeof(target), "%.*s", (int)(dot - entry->d_name), entry->d_name);
    const slip_artifact_options_t options = {(uint32_t)sizeof(options), 0, target};
    slip_status_free(slip_artifact_open(path, &options, slip_allocator_system(), &artifact));
  }
  if (directory) closedir(directory);
  return artifact;
}

static slip_status_t cli_artifact_json(const char *path, json_t **out) {
  slip_artifact_t *artifact = NULL;
  *out = NULL;
  slip_status_t status = slip_artifact_open(path, NULL, slip_allocator_system(), &artifact);
  bool runs_here = slip_status_is_ok(status);
  if (slip_status_code(status) == SLIP_CODE_INCOMPATIBLE) artifact = cli_artifact_open_foreign(path);
  if (!artifact) return status;
  slip_status_free(status);
  json_t *images = json_array();
  for (size_t i = 0; i < slip_artifact_target_count(artifact); ++i) {
    json_array_append_new(images, cli_target_json(path, slip_artifact_target_at(artifact, i)));
  }
  *out = json_pack("{s:s,s:s,s:s,s:b,s:s,s:s,s:o,s:o,s:o,s:o}", "name", slip_artifact_name(artifact), "platform",
                   slip_platform_name(slip_artifact_platform(artifact)), "target", slip_artifact_target(artifact), "runs_here",
                   (int)runs_here, "contract", cli_contract_name(slip_artifact_contract(artifact)), "key", slip_artifact_key(artifact),
                   "params", cli_signature_json(slip_artifact_params(artifact)), "lowered_params",
                   cli_signature_json(slip_artifact_lowered_params(artifact)), "images", images, "metadata",
                   json_loads(slip_artifact_metadata_json(artifact), 0, NULL));
  slip_artifact_release(artifact);
  return *out ? slip_ok_status() : SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for the description of %s", path);
}

static const char *cli_text(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static long long cli_integer(const json_t *object, const char *key) {
  return (long long)json_integer_value(json_object_get(object, key));
}

static void cli_print_image(const json_t *image) {
  size_t i;
  const json_t *item;
  printf("image %-12s %s contract, %lld bytes (code %lld), hash %s\n", cli_text(image, "target"), cli_text(image, "contract"),
         cli_integer(image, "size_bytes"), cli_integer(image, "object_bytes"), cli_text(image, "content_hash"));
  json_array_foreach(json_object_get(image, "entries"), i, item)
      printf("  entry %s%s\n", cli_text(item, "name"), cli_text(item, "signature"));
  json_array_foreach(json_object_get(image, "kernels"), i, item) {
    printf("  kernel %-3lld %-24s %-6s %lld tensors, %lld scalars, %lld scratch bytes\n", cli_integer(item, "id"), cli_text(item, "name"),
           cli_text(item, "core"), cli_integer(item, "tensors"), cli_integer(item, "scalars"), cli_integer(item, "scratch_bytes"));
  }
}

// The kernels are the same in every image of an artifact: the effective target's are listed, of the others the head line.
static void cli_print_artifact(const json_t *artifact) {
  size_t i;
  const json_t *image;
  printf(
      "%s: %s contract, platform %s, %s %s\n", cli_text(artifact, "name"), cli_text(artifact, "contract"), cli_text(artifact, "platform"),
      json_is_true(json_object_get(artifact, "runs_here")) ? "runs here as" : "does not run here, only on", cli_text(artifact, "target"));
  printf("params  %s\n", cli_text(artifact, "params"));
  if (strcmp(cli_text(artifact, "params"), cli_text(artifact, "lowered_params")) != 0)
    printf("lowered %s\n", cli_text(artifact, "lowered_params"));
  printf("key     %s\n", cli_text(artifact, "key"));
  json_array_foreach(json_object_get(artifact, "images"), i, image) {
    const json_t *error = json_object_get(image, "error");
    if (error) {
      printf("image %-12s not usable: %s\n", cli_text(image, "target"), cli_text(error, "text"));
    } else if (strcmp(cli_text(image, "target"), cli_text(artifact, "target")) == 0) {
      cli_print_image(image);
    } else {
      printf("image %-12s %lld bytes, hash %s\n", cli_text(image, "target"), cli_integer(image, "size_bytes"),
             cli_text(image, "content_hash"));
    }
  }
}

static int cli_inspect_run(const cli_invocation_t *invocation) {
  const char *path = invocation->positional[0];
  struct stat info;
  json_t *document = NULL;
  slip_const_bytes_t bytes = {NULL, 0};
  bool artifact = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
  slip_status_t status = artifact ? cli_artifact_json(path, &document) : cli_file_map(path, &bytes);
  if (slip_status_is_ok(status) && !artifact && (bytes.size < 8 || memcmp(bytes.data, "\x89SLPIMG\n", 8) != 0)) {
    status = SLIP_STATUS(SLIP_CODE_CORRUPT, "\"%s\" is neither an artifact directory nor a callable image", path);
  } else if (slip_status_is_ok(status) && !artifact) {
    status = cli_image_json(bytes, &document);
    if (!slip_status_is_ok(status)) status = slip_status_annotate(status, "reading \"%s\" as a callable image", path);
  }
  if (slip_status_is_ok(status) && invocation->json) {
    status = cli_print_json(document);
    document = NULL;
  } else if (slip_status_is_ok(status)) {
    if (artifact) cli_print_artifact(document);
    if (!artifact) cli_print_image(document);
    status = cli_flush();
  }
  json_decref(document);
  cli_file_unmap(bytes);
  return cli_finish(invocation, status);
}

const cli_command_t cli_inspect_command = {
    .name = "inspect",
    .arguments = "ARTIFACT|IMAGE [OPTIONS]",
    .positional_minimum = 1,
    .positional_maximum = 1,
    .summary = "Show what an artifact or image holds; runs none of its code.",
    .details = "Shows name, contract, targets, signature, kernels, sizes and the content key.\n",
    .options = cli_inspect_options,
    .run = cli_inspect_run,
};
