// SPDX-License-Identifier: Apache-2.0
#include "compiler/front/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "compiler/front/reader.h"
#include "os/file.h"
#include "slipstream/kernel/orch.h"

// The C library's names that the glue unit defines, and the object's own symbol.
static void slip__manifest_symbol(slip__reader_t *r, const slip__path_t *path, const char *symbol) {
  static const char *const reserved[] = {"slip_object", "memcpy", "memmove", "memset", "memcmp", "__assert_fail"};
  slip__path_t at = slip__member(path, "symbol");
  for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); ++i) {
    if (strcmp(symbol, reserved[i]) == 0) {
      slip__reader_error(r, &at, "manifest-symbol", "name the function differently", "\"%s\" is defined by the generated unit", symbol);
    }
  }
}

// The signature of |object|, created; NULL if it is absent or wrong. Released by whoever gets it.
static slip_signature_t *slip__manifest_signature(slip__reader_t *r, const slip__path_t *path, const json_t *object,
                                                  const char **out_text) {
  const char *text = slip__reader_string(r, path, object, "signature", true);
  *out_text = text;
  if (!text) return NULL;
  slip_signature_t *signature = NULL;
  slip_status_t status = slip_signature_parse(text, strlen(text), r->arena->allocator, &signature);
  if (slip_status_code(status) == SLIP_CODE_OUT_OF_MEMORY) {
    slip__reader_keep(r, status);
  } else if (!slip_status_is_ok(status)) {
    slip__path_t at = slip__member(path, "signature");
    slip__reader_error(r, &at, "manifest-signature", "the form is \"(in x: f32[N], out y: f32[N], alpha: f32) -> (y)\"", "%s",
                       slip_status_message(status));
    slip_status_free(status);
  }
  return signature;
}

static void slip__manifest_layouts(slip__reader_t *r, const slip__path_t *at, const slip_signature_t *signature) {
  for (size_t i = 0; i < slip_signature_param_count(signature); ++i) {
    const slip_param_t *param = slip_signature_param(signature, i);
    if (param->layout != SLIP_LAYOUT_NZ) continue;
    slip__reader_error(r, at, "manifest-layout", "use the ND layout", "parameter '%s' has layout nz, which only the ascend platform has",
                       param->name);
  }
}

static void slip__manifest_entry(slip__reader_t *r, const slip__path_t *path, json_t *object, slip__manifest_entry_t *entry) {
  static const char *const keys[] = {"name", "symbol", "signature", NULL};
  if (!slip__reader_type(r, path, object, JSON_OBJECT, "an object")) return;
  slip__reader_keys(r, path, object, keys);
  entry->name = slip__reader_identifier(r, path, object, "name", true);
  entry->symbol = slip__reader_identifier(r, path, object, "symbol", false);
  if (!entry->symbol) entry->symbol = entry->name;
  if (entry->symbol) slip__manifest_symbol(r, path, entry->symbol);
  const char *text;
  entry->signature = slip__manifest_signature(r, path, object, &text);
  if (!entry->signature) return;
  slip__path_t at = slip__member(path, "signature");
  entry->tensor_count = (uint32_t)slip_signature_tensor_count(entry->signature);
  entry->scalar_count = (uint32_t)slip_signature_scalar_count(entry->signature);
  slip__manifest_layouts(r, &at, entry->signature);
  slip_status_t status = slip_signature_check_capacity(entry->signature);
  if (!slip_status_is_ok(status)) slip__reader_error(r, &at, "manifest-capacity", NULL, "%s", slip_status_message(status));
  slip_status_free(status);
}

static uint32_t slip__manifest_core(slip__reader_t *r, const slip__path_t *path, json_t *object) {
  static const char *const names[] = {"any", "matrix", "vector", "mixed"};  // by slip_core_e
  const char *text = slip__reader_string(r, path, object, "core", false);
  if (!text) return SLIP_CORE_ANY;
  for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    if (strcmp(text, names[i]) == 0) return i;
  }
  slip__path_t at = slip__member(path, "core");
  slip__reader_error(r, &at, "manifest-core", "the core types are any, matrix, vector and mixed", "\"%s\" is no core type", text);
  return SLIP_CORE_ANY;
}

static void slip__manifest_kernel(slip__reader_t *r, const slip__path_t *path, json_t *object, slip__manifest_kernel_t *kernel) {
  static const char *const keys[] = {"name", "symbol", "signature", "core", "scratch_bytes", NULL};
  if (!slip__reader_type(r, path, object, JSON_OBJECT, "an object")) return;
  slip__reader_keys(r, path, object, keys);
  kernel->name = slip__reader_identifier(r, path, object, "name", true);
  kernel->symbol = slip__reader_identifier(r, path, object, "symbol", false);
  if (!kernel->symbol) kernel->symbol = kernel->name;
  if (kernel->symbol) slip__manifest_symbol(r, path, kernel->symbol);
  kernel->core = slip__manifest_core(r, path, object);
  kernel->scratch_bytes = slip__reader_integer(r, path, object, "scratch_bytes", 1 << 30, 0);
  kernel->signature = slip__manifest_signature(r, path, object, &kernel->signature_text);
  const slip_signature_t *signature = kernel->signature;
  if (!signature) return;
  size_t tensors = slip_signature_tensor_count(signature), scalars = slip_signature_scalar_count(signature);
  slip__path_t at = slip__member(path, "signature");
  if (tensors > SLIP_KERNEL_MAX_TENSORS || scalars > SLIP_KERNEL_MAX_SCALARS) {
    slip__reader_error(r, &at, "manifest-capacity", "split the kernel, or pack its scalars into a tensor",
                       "%zu tensors and %zu scalars are more than the %d and %d a kernel takes", tensors, scalars, SLIP_KERNEL_MAX_TENSORS,
                       SLIP_KERNEL_MAX_SCALARS);
  }
  const int32_t *aliases = NULL;
  if (slip_signature_return_aliases(signature, &aliases) > 0) {
    slip__reader_error(r, &at, "manifest-signature", "leave out the arrow and what follows", "a kernel returns nothing");
  }
  kernel->tensor_count = (uint32_t)tensors;
  kernel->scalar_count = (uint32_t)scalars;
}

// A path that goes onto the compiler's command line: relative (the same program gives the same key wherever it lies), no option in
// disguise.
static bool slip__manifest_path(slip__reader_t *r, const slip__path_t *at, const char *path) {
  const char *fault = NULL;
  if (path[0] == '\0') fault = "is empty";
  if (path[0] == '/') fault = "is absolute";
  if (path[0] == '-' || path[0] == '@') fault = "looks like a compiler option";
  for (const char *c = path; *c; ++c) {
    if ((unsigned char)*c < 0x20 || *c == 0x7f) fault = "has a control character";
  }
  if (!fault) return true;
  slip__reader_error(r, at, "manifest-path", "paths are relative to the manifest's directory", "the path \"%s\" %s", path, fault);
  return false;
}

static void slip__manifest_sources(slip__manifest_t *m, slip__reader_t *r, json_t *root) {
  slip__reader_strings(r, NULL, root, "sources", true, 1, SLIP__MANIFEST_MAX_SOURCES, &m->sources, &m->source_count);
  slip__path_t list = slip__member(NULL, "sources");
  for (size_t i = 0; slip__reader_ok(r) && i < m->source_count; ++i) {
    slip__path_t at = slip__item(&list, i);
    const char *source = m->sources[i], *whole = NULL;
    if (!slip__manifest_path(r, &at, source)) continue;
    size_t length = strlen(source);
    if (length < 3 || strcmp(source + length - 2, ".c") != 0) {
      slip__reader_error(r, &at, "manifest-source", NULL, "\"%s\" is no C source (a name that ends in .c)", source);
      continue;
    }
    slip__reader_keep(r, slip__arena_format(&m->arena, &whole, "%s/%s", m->directory, source));
    if (!whole) return;
    if (!slip__path_exists(whole)) slip__reader_error(r, &at, "manifest-source", NULL, "there is no file %s", whole);
    if (slip__path_is_directory(whole)) slip__reader_error(r, &at, "manifest-source", NULL, "%s is a directory, not a file", whole);
  }
}

static void slip__manifest_include_dirs(slip__manifest_t *m, slip__reader_t *r, json_t *root) {
  slip__reader_strings(r, NULL, root, "include_dirs", false, 0, SLIP__MANIFEST_MAX_SOURCES, &m->include_dirs, &m->include_dir_count);
  slip__path_t list = slip__member(NULL, "include_dirs");
  for (size_t i = 0; slip__reader_ok(r) && i < m->include_dir_count; ++i) {
    slip__path_t at = slip__item(&list, i);
    const char *whole = NULL;
    if (!slip__manifest_path(r, &at, m->include_dirs[i])) continue;
    slip__reader_keep(r, slip__arena_format(&m->arena, &whole, "%s/%s", m->directory, m->include_dirs[i]));
    if (whole && !slip__path_is_directory(whole)) {
      slip__reader_error(r, &at, "manifest-include-dir", NULL, "there is no directory %s", whole);
    }
  }
}

static int slip__define_order(const void *a, const void *b) {
  return strcmp(((const slip__manifest_define_t *)a)->name, ((const slip__manifest_define_t *)b)->name);
}

static void slip__manifest_define(slip__manifest_t *m, slip__reader_t *r, const slip__path_t *at, const char *key, const json_t *value) {
  slip__manifest_define_t define = {NULL, NULL};
  if (!slip__reader_is_identifier(key)) {
    slip__reader_error(r, at, "manifest-identifier", NULL, "\"%s\" is not a C identifier", key);
    return;
  }
  slip__reader_keep(r, slip__arena_copy(&m->arena, key, strlen(key), &define.name));
  if (!define.name) return;
  if (json_is_string(value)) {
    slip__reader_keep(r, slip__arena_copy(&m->arena, json_string_value(value), json_string_length(value), &define.value));
  } else if (json_is_integer(value)) {
    slip__reader_keep(r, slip__arena_format(&m->arena, &define.value, "%lld", (long long)json_integer_value(value)));
  } else if (!json_is_null(value)) {
    slip__reader_error(r, at, "manifest-type", NULL, "expected a string, an integer or null, found %s", slip__json_type_name(value));
  }
  if (define.value && strpbrk(define.value, "\r\n")) {
    slip__reader_error(r, at, "manifest-define", NULL, "the value has a line break");
  }
  m->defines[m->define_count++] = define;
}

static void slip__manifest_defines(slip__manifest_t *m, slip__reader_t *r, json_t *root) {
  json_t *object = json_object_get(root, "defines");
  slip__path_t list = slip__member(NULL, "defines");
  if (!object || !slip__reader_ok(r) || !slip__reader_type(r, &list, object, JSON_OBJECT, "an object")) return;
  slip__reader_keep(r, slip__arena_alloc(&m->arena, json_object_size(object) * sizeof(*m->defines), (void **)&m->defines));
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    slip__path_t at = slip__member(&list, key);
    if (slip__reader_ok(r)) slip__manifest_define(m, r, &at, key, value);
  }
  if (m->define_count) qsort(m->defines, m->define_count, sizeof(*m->defines), slip__define_order);
}

static void slip__manifest_options(slip__manifest_t *m, slip__reader_t *r, json_t *root) {
  static const char *const keys[] = {"cflags", NULL};
  json_t *object = json_object_get(root, "options");
  slip__path_t at = slip__member(NULL, "options");
  if (!object || !slip__reader_type(r, &at, object, JSON_OBJECT, "an object")) return;
  slip__reader_keys(r, &at, object, keys);
  slip__reader_strings(r, &at, object, "cflags", false, 0, 64, &m->cflags, &m->cflag_count);
  slip__path_t list = slip__member(&at, "cflags");
  for (size_t i = 0; i < m->cflag_count; ++i) {
    slip__path_t flag = slip__item(&list, i);
    if (slip__cflag_allowed(m->cflags[i])) continue;
    slip__reader_error(r, &flag, "manifest-cflag", "the flags are listed in docs/manifest.md; macros belong into \"defines\"",
                       "the flag \"%s\" is not allowed", m->cflags[i]);
  }
}

static void slip__manifest_contract(slip__manifest_t *m, slip__reader_t *r, json_t *root, uint32_t override) {
  const char *text = slip__reader_string(r, NULL, root, "contract", false);
  slip__path_t at = slip__member(NULL, "contract");
  m->contract = SLIP_CONTRACT_KERNEL;
  if (text && strcmp(text, "program") == 0) {
    m->contract = SLIP_CONTRACT_PROGRAM;
  } else if (text && strcmp(text, "kernel") != 0) {
    slip__reader_error(r, &at, "manifest-contract", NULL, "expected \"kernel\" or \"program\", found \"%s\"", text);
  }
  if (override) m->contract = override;
}

static void slip__manifest_entries(slip__manifest_t *m, slip__reader_t *r, json_t *root) {
  json_t *one = json_object_get(root, "entry");
  void *items = NULL;
  if (one && json_object_get(root, "entries")) {
    slip__path_t at = slip__member(NULL, "entries");
    slip__reader_error(r, &at, "manifest-entry", NULL, "there are both \"entry\" and \"entries\"");
    return;
  }
  if (one) {
    slip__path_t at = slip__member(NULL, "entry");
    slip__reader_keep(r, slip__arena_alloc(&m->arena, sizeof(*m->entries), &items));
    m->entries = items;
    if (!items) return;
    m->entry_count = 1;
    slip__manifest_entry(r, &at, one, &m->entries[0]);
    return;
  }
  if (!json_object_get(root, "entries")) {
    slip__reader_error(r, NULL, "manifest-missing-key", NULL, "the key \"entry\" is missing");
    return;
  }
  json_t *array = slip__reader_array(r, NULL, root, "entries", true, 1, SLIP_IMAGE_MAX_ENTRIES, sizeof(*m->entries), &items);
  slip__path_t list = slip__member(NULL, "entries");
  m->entries = items;
  for (size_t i = 0; array && slip__reader_ok(r) && i < json_array_size(array); ++i) {
    slip__path_t at = slip__item(&list, i);
    m->entry_count = i + 1;
    slip__manifest_entry(r, &at, json_array_get(array, i), &m->entries[i]);
    for (size_t j = 0; j < i; ++j) {
      if (m->entries[j].name && m->entries[i].name && strcmp(m->entries[j].name, m->entries[i].name) == 0) {
        slip__reader_error(r, &at, "manifest-duplicate", NULL, "an earlier entry is called \"%s\" too", m->entries[i].name);
      }
    }
  }
  if (m->contract == SLIP_CONTRACT_KERNEL && m->entry_count > 1) {
    slip__reader_error(r, &list, "kernel-contract", "keep one entry, or compile it under the program contract",
                       "the kernel contract takes one entry, here are %zu", m->entry_count);
  }
}

static void slip__manifest_kernels(slip__manifest_t *m, slip__reader_t *r, json_t *root) {
  void *items = NULL;
  json_t *array = slip__reader_array(r, NULL, root, "kernels", true, 0, SLIP_IMAGE_MAX_KERNELS, sizeof(*m->kernels), &items);
  slip__path_t list = slip__member(NULL, "kernels");
  m->kernels = items;
  for (size_t i = 0; array && slip__reader_ok(r) && i < json_array_size(array); ++i) {
    slip__path_t at = slip__item(&list, i);
    m->kernel_count = i + 1;
    slip__manifest_kernel(r, &at, json_array_get(array, i), &m->kernels[i]);
    for (size_t j = 0; j < i; ++j) {
      if (m->kernels[j].name && m->kernels[i].name && strcmp(m->kernels[j].name, m->kernels[i].name) == 0) {
        slip__reader_error(r, &at, "manifest-duplicate", NULL, "an earlier kernel is called \"%s\" too", m->kernels[i].name);
      }
    }
  }
}

static void slip__manifest_root(slip__manifest_t *m, slip__reader_t *r, json_t *root, uint32_t contract) {
  static const char *const keys[] = {"slip",    "name",         "contract", "entry",   "entries", "kernels",
                                     "sources", "include_dirs", "defines",  "options", "targets", NULL};
  if (!slip__reader_type(r, NULL, root, JSON_OBJECT, "an object")) return;
  const json_t *version = json_object_get(root, "slip");
  slip__path_t at = slip__member(NULL, "slip");
  if (!version) {
    slip__reader_error(r, NULL, "manifest-version", "begin with {\"slip\": 1, ...}", "the key \"slip\" (version of the format) is missing");
  } else if (!json_is_integer(version) || json_integer_value(version) != SLIP__MANIFEST_VERSION) {
    slip__reader_error(r, &at, "manifest-version", NULL, "only version %d of the format is known", SLIP__MANIFEST_VERSION);
    return;  // another version's keys would only add noise
  }
  slip__reader_keys(r, NULL, root, keys);
  m->name = slip__reader_identifier(r, NULL, root, "name", true);
  slip__manifest_contract(m, r, root, contract);
  slip__manifest_entries(m, r, root);
  slip__manifest_kernels(m, r, root);
  slip__manifest_sources(m, r, root);
  slip__manifest_include_dirs(m, r, root);
  slip__manifest_defines(m, r, root);
  slip__manifest_options(m, r, root);
  slip__reader_strings(r, NULL, root, "targets", false, 1, 16, &m->targets, &m->target_count);
}

static slip_status_t slip__manifest_directory(slip__manifest_t *m) {
  const char *slash = strrchr(m->path, '/');
  if (!slash) return slip__arena_copy(&m->arena, ".", 1, &m->directory);
  return slip__arena_copy(&m->arena, m->path, slash == m->path ? 1 : (size_t)(slash - m->path), &m->directory);
}

void slip__manifest_initialize(slip__manifest_t *manifest, slip_allocator_t allocator) {
  *manifest = (slip__manifest_t){.allocator = allocator};
  slip__arena_initialize(&manifest->arena, allocator, 0);
}

slip_status_t slip__manifest_read(const char *path, uint32_t contract, slip_diagnostics_t *diagnostics, slip__manifest_t *out) {
  SLIP_RETURN_IF_ERROR(slip__arena_copy(&out->arena, path, strlen(path), &out->path));
  SLIP_RETURN_IF_ERROR(slip__manifest_directory(out));
  slip_bytes_t bytes;
  SLIP_RETURN_IF_ERROR(slip__file_read(path, SLIP__MANIFEST_LIMIT_BYTES, out->allocator, &bytes));
  const char *copy = NULL;
  slip_status_t status = slip__arena_copy(&out->arena, (const char *)bytes.data, bytes.size, &copy);
  slip__free(out->allocator, bytes.data, bytes.size + 1);
  SLIP_RETURN_IF_ERROR(status);
  out->text = (slip_const_bytes_t){(const uint8_t *)copy, bytes.size};

  json_error_t error = {.line = 0};  // left untouched when memory is short at once
  json_t *root = json_loadb(copy, bytes.size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  if (root) {
    slip__reader_t reader = {out->path, out->text, &out->arena, diagnostics, slip_ok_status()};
    slip__manifest_root(out, &reader, root, contract);
    json_decref(root);
    SLIP_RETURN_IF_ERROR(reader.status);
  } else {
    if (json_error_code(&error) == json_error_out_of_memory) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory to parse %s", path);
    slip__finding_t finding = {SLIP_SEVERITY_ERROR,
                               out->path,
                               error.line > 0 ? (uint32_t)error.line : 1,
                               error.column > 0 ? (uint32_t)error.column : 1,
                               "manifest-json",
                               "the manifest is strict JSON"};
    slip__diagnostics_add(diagnostics, &finding, "%s", error.text);
  }
  return slip__diagnostics_status(diagnostics, path);
}

void slip__manifest_deinitialize(slip__manifest_t *manifest) {
  for (size_t i = 0; i < manifest->entry_count; ++i) slip_signature_release(manifest->entries[i].signature);
  for (size_t i = 0; i < manifest->kernel_count; ++i) slip_signature_release(manifest->kernels[i].signature);
  slip__arena_deinitialize(&manifest->arena);
  slip__manifest_initialize(manifest, manifest->allocator);
}
