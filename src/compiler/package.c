// SPDX-License-Identifier: Apache-2.0
// Linked objects to an artifact: images, content key, copies of the sources, the directory.
#include <stdlib.h>
#include <string.h>

#include "artifact/artifact_writer.h"
#include "artifact/identity.h"
#include "base/allocator.h"
#include "base/hash.h"
#include "compiler/build.h"
#include "slipstream/kernel/orch.h"
#include "slipstream/tensor.h"

// What images name as their maker. Images of another one are refused by default: an ABI is more than its number.
#define SLIP__PACKAGE_TEXT(x)  #x
#define SLIP__PACKAGE_VALUE(x) SLIP__PACKAGE_TEXT(x)
#define SLIP__PACKAGE_BUILD_ID "slipc " SLIP_VERSION_STRING " abi " SLIP__PACKAGE_VALUE(SLIP_ORCH_ABI_VERSION)

typedef struct slip__package_t {
  slip__build_t *build;
  slip_bytes_t images[SLIP__BUILD_MAX_TARGETS];
  slip__mapping_t *sources;  // of the closure, one for each file
  char key[33];
} slip__package_t;

// --- Images ----------------------------------------------------------------------------------------------------------

static slip_status_t slip__package_image(slip__package_t *p, size_t index) {
  slip__build_t *build = p->build;
  const slip__manifest_t *m = build->manifest;
  slip_image_entry_t *entries = NULL;
  slip_image_kernel_t *kernels = NULL;
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&build->arena, m->entry_count, sizeof(*entries), (void **)&entries));
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&build->arena, m->kernel_count, sizeof(*kernels), (void **)&kernels));
  for (size_t i = 0; i < m->entry_count; ++i) entries[i] = (slip_image_entry_t){m->entries[i].name, m->entries[i].signature};
  for (size_t i = 0; i < m->kernel_count; ++i) {
    const slip__manifest_kernel_t *k = &m->kernels[i];
    kernels[i] = (slip_image_kernel_t){.name = k->name,
                                       .function_id = (uint32_t)i,
                                       .core = k->core,
                                       .tensor_count = k->tensor_count,
                                       .scalar_count = k->scalar_count,
                                       .scratch_bytes = k->scratch_bytes};
  }
  const slip_image_desc_t desc = {
      .platform = SLIP_PLATFORM_CPU,
      .contract = m->contract,
      .runtime_kind = SLIP_RUNTIME_HOST_NATIVE,
      .entry_count = (uint32_t)m->entry_count,
      .target = build->targets[index].target->name,
      .build_id = SLIP__PACKAGE_BUILD_ID,
      .entries = entries,
      .kernels = kernels,
      .kernel_count = (uint32_t)m->kernel_count,
      .orchestration = build->targets[index].object.bytes,
  };
  return slip_image_pack(&desc, build->allocator, &p->images[index]);
}

// --- Key -------------------------------------------------------------------------------------------------------------

static void slip__package_key_program(slip__identity_t *id, const slip__manifest_t *m) {
  slip__identity_text(id, "name", m->name);
  slip__identity_u64(id, "contract", m->contract);
  slip__identity_begin(id, "entries");
  for (size_t i = 0; i < m->entry_count; ++i) {
    slip__identity_text(id, "name", m->entries[i].name);
    slip__identity_text(id, "symbol", m->entries[i].symbol);
    slip__identity_signature(id, "signature", m->entries[i].signature);
  }
  slip__identity_end(id);
  slip__identity_begin(id, "kernels");
  for (size_t i = 0; i < m->kernel_count; ++i) {
    const slip__manifest_kernel_t *k = &m->kernels[i];
    slip__identity_text(id, "name", k->name);
    slip__identity_text(id, "symbol", k->symbol);
    slip__identity_text(id, "signature", k->signature_text);
    slip__identity_u64(id, "core", k->core);
    slip__identity_u64(id, "scratch_bytes", k->scratch_bytes);
  }
  slip__identity_end(id);
  slip__identity_begin(id, "defines");
  for (size_t i = 0; i < m->define_count; ++i) slip__identity_text(id, m->defines[i].name, m->defines[i].value);
  slip__identity_end(id);
  slip__identity_begin(id, "cflags");
  for (size_t i = 0; i < m->cflag_count; ++i) slip__identity_text(id, "", m->cflags[i]);
  slip__identity_end(id);
  slip__identity_begin(id, "sources");
  for (size_t i = 0; i < m->source_count; ++i) slip__identity_text(id, "", m->sources[i]);
  slip__identity_end(id);
}

static void slip__package_key_toolchain(slip__identity_t *id, const slip__build_t *build) {
  size_t count = 0;
  const char *const *flags = slip__compiler_flags(&count);
  slip__identity_text(id, "slipc", SLIP__PACKAGE_BUILD_ID);
  slip__identity_text(id, "compiler", build->compiler.identity);
  slip__identity_text(id, "machine", build->compiler.machine);
  slip__identity_bool(id, "debug", build->options->debug != 0);
  slip__identity_begin(id, "flags");
  for (size_t i = 0; i < count; ++i) slip__identity_text(id, "", flags[i]);
  slip__identity_end(id);
  slip__identity_begin(id, "targets");
  for (size_t i = 0; i < build->target_count; ++i) {
    const slip__target_t *target = build->targets[i].target;
    slip__identity_text(id, "", target->name);
    for (size_t j = 0; j < SLIP__TARGET_MAX_FLAGS && target->flags[j]; ++j) slip__identity_text(id, "flag", target->flags[j]);
  }
  slip__identity_end(id);
}

static int slip__package_hash_order(const void *a, const void *b) {
  const slip__hash128_t *x = a, *y = b;
  if (x->high != y->high) return x->high < y->high ? -1 : 1;
  return x->low < y->low ? -1 : x->low > y->low;
}

// The program's own files by name and content; the others, which lie where the machine has them, by content alone, in the order of their
// hashes.
static slip_status_t slip__package_key_closure(slip__identity_t *id, const slip__package_t *p) {
  slip__build_t *build = p->build;
  slip__hash128_t *hashes = NULL;
  size_t count = 0;
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&build->arena, build->closure_count, sizeof(*hashes), (void **)&hashes));
  slip__identity_begin(id, "closure");
  for (size_t i = 0; i < build->closure_count; ++i) {
    if (build->closure[i].name) {
      slip__identity_bytes(id, build->closure[i].name, p->sources[i].bytes);
    } else {
      hashes[count++] = slip__hash128(p->sources[i].bytes);
    }
  }
  if (count) qsort(hashes, count, sizeof(*hashes), slip__package_hash_order);
  for (size_t i = 0; i < count; ++i) slip__identity_bytes(id, "", (slip_const_bytes_t){(const uint8_t *)&hashes[i], sizeof(hashes[i])});
  slip__identity_end(id);
  return slip_ok_status();
}

static slip_status_t slip__package_make_key(slip__package_t *p) {
  slip__identity_t id;
  slip__identity_initialize(&id, p->build->allocator);
  slip__package_key_toolchain(&id, p->build);
  slip__package_key_program(&id, p->build->manifest);
  slip_status_t status = slip__package_key_closure(&id, p);
  if (slip_status_is_ok(status)) status = slip__identity_finish(&id, p->key);
  slip__identity_deinitialize(&id);
  return status;
}

// --- Directory -------------------------------------------------------------------------------------------------------

// "../common/x.h" -> "src/program/_up/common/x.h".
static slip_status_t slip__package_source_path(slip__build_t *build, const char *name, const char **out) {
  const char *prefix = "src/program/";
  static const char *const up[] = {"src/program/_up/", "src/program/_up/_up/"};
  for (size_t level = 0; level < 2 && strncmp(name, "../", 3) == 0; ++level) {
    name += 3;
    prefix = up[level];
  }
  return slip__arena_format(&build->arena, out, "%s%s", prefix, name);
}

static slip_const_bytes_t slip__package_text(const char *text) {
  return (slip_const_bytes_t){(const uint8_t *)text, strlen(text)};
}

static slip_status_t slip__package_files(slip__package_t *p, slip__artifact_file_t **out, size_t *out_count) {
  slip__build_t *build = p->build;
  slip__artifact_file_t *files = NULL;
  size_t count = 0;
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&build->arena, build->closure_count + 3, sizeof(*files), (void **)&files));
  files[count++] = (slip__artifact_file_t){"src/manifest.json", build->manifest->text};
  files[count++] = (slip__artifact_file_t){"src/generated/slip_program.h", slip__package_text(build->header_text)};
  files[count++] = (slip__artifact_file_t){"src/generated/slip_glue.c", slip__package_text(build->glue_text)};
  for (size_t i = 0; i < build->closure_count; ++i) {
    if (!build->closure[i].name) continue;
    SLIP_RETURN_IF_ERROR(slip__package_source_path(build, build->closure[i].name, &files[count].path));
    files[count++].bytes = p->sources[i].bytes;
  }
  *out = files;
  *out_count = count;
  return slip_ok_status();
}

static slip_status_t slip__package_join(slip__build_t *build, const char *const *items, size_t count, const char **out) {
  *out = "";
  for (size_t i = 0; i < count; ++i) SLIP_RETURN_IF_ERROR(slip__arena_format(&build->arena, out, "%s%s%s", *out, i ? " " : "", items[i]));
  return slip_ok_status();
}

static slip_status_t slip__package_write(slip__package_t *p) {
  slip__build_t *build = p->build;
  const slip__manifest_t *m = build->manifest;
  slip__artifact_image_t images[SLIP__BUILD_MAX_TARGETS];
  slip__artifact_entry_t *entries = NULL;
  slip__artifact_file_t *files = NULL;
  const char *flags = NULL, *cflags = NULL;
  size_t flag_count = 0, file_count = 0;
  const char *const *flag_items = slip__compiler_flags(&flag_count);
  SLIP_RETURN_IF_ERROR(slip__package_join(build, flag_items, flag_count, &flags));
  SLIP_RETURN_IF_ERROR(slip__package_join(build, m->cflags, m->cflag_count, &cflags));
  SLIP_RETURN_IF_ERROR(slip__package_files(p, &files, &file_count));
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&build->arena, m->entry_count, sizeof(*entries), (void **)&entries));
  for (size_t i = 0; i < m->entry_count; ++i) {
    entries[i] = (slip__artifact_entry_t){m->entries[i].name, m->entries[i].signature, m->entries[i].signature};
  }
  for (size_t i = 0; i < build->target_count; ++i) {
    images[i] = (slip__artifact_image_t){build->targets[i].target->name, {p->images[i].data, p->images[i].size}};
  }
  const slip__artifact_fact_t toolchain[] = {
      {"slipc", SLIP__PACKAGE_BUILD_ID},
      {"compiler", build->compiler.version_line},
      {"machine", build->compiler.machine},
      {"flags", flags},
      {"cflags", cflags},
      {"build", build->options->debug ? "debug" : "release"},
  };
  const slip__artifact_desc_t desc = {
      .name = m->name,
      .platform = SLIP_PLATFORM_CPU,
      .contract = m->contract,
      .key = p->key,
      .entries = entries,
      .entry_count = m->entry_count,
      .toolchain = toolchain,
      .toolchain_count = sizeof(toolchain) / sizeof(toolchain[0]),
      .images = images,
      .image_count = build->target_count,
      .files = files,
      .file_count = file_count,
  };
  return slip__artifact_write(&desc, build->options->output, build->options->replace != 0, build->allocator);
}

static slip_status_t slip__package_run(slip__package_t *p) {
  slip__build_t *build = p->build;
  SLIP_RETURN_IF_ERROR(slip__arena_alloc_array(&build->arena, build->closure_count, sizeof(*p->sources), (void **)&p->sources));
  for (size_t i = 0; i < build->closure_count; ++i) SLIP_RETURN_IF_ERROR(slip__file_map(build->closure[i].path, &p->sources[i]));
  for (size_t i = 0; i < build->target_count; ++i) SLIP_RETURN_IF_ERROR(slip__package_image(p, i));
  SLIP_RETURN_IF_ERROR(slip__package_make_key(p));
  return slip__package_write(p);
}

slip_status_t slip__build_package(slip__build_t *build) {
  slip__package_t package = {.build = build};
  slip_status_t status = slip__package_run(&package);
  for (size_t i = 0; package.sources && i < build->closure_count; ++i) slip__file_unmap(&package.sources[i]);
  for (size_t i = 0; i < build->target_count; ++i) {
    slip__free_aligned(build->allocator, package.images[i].data, package.images[i].size, SLIP_IMAGE_ALIGNMENT);
  }
  return status;
}
