// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/glue.h"

#include <inttypes.h>
#include <string.h>

#include "base/allocator.h"
#include "base/string_builder.h"
#include "slipstream/kernel/tile.h"

static slip_status_t slip__glue_finish(slip__string_builder_t *text, slip__arena_t *arena, const char **out) {
  slip_allocator_t allocator = text->allocator;
  slip_bytes_t bytes;
  *out = NULL;
  SLIP_RETURN_IF_ERROR(slip__string_builder_take(text, &bytes));
  slip_status_t status = slip__arena_copy(arena, (const char *)bytes.data, bytes.size, out);
  slip__free(allocator, bytes.data, bytes.size + 1);
  return status;
}

// Several names may share one symbol; it is declared once.
static bool slip__glue_kernel_declared(const slip__manifest_t *m, size_t index) {
  for (size_t i = 0; i < index; ++i) {
    if (strcmp(m->kernels[i].symbol, m->kernels[index].symbol) == 0) return true;
  }
  return false;
}

static bool slip__glue_entry_declared(const slip__manifest_t *m, size_t index) {
  for (size_t i = 0; i < index; ++i) {
    if (strcmp(m->entries[i].symbol, m->entries[index].symbol) == 0) return true;
  }
  return false;
}

slip_status_t slip__glue_header(const slip__manifest_t *m, slip__arena_t *arena, const char **out) {
  slip__string_builder_t text;
  slip__string_builder_initialize(&text, arena->allocator);
  slip__string_builder_printf(&text,
                              "// Made by slip compile from the manifest of '%s'.\n"
                              "#ifndef SLIP_PROGRAM_H_\n"
                              "#define SLIP_PROGRAM_H_\n\n"
                              "#include \"slipstream/kernel/orch.h\"\n\n"
                              "// Numbers for slip_task_begin().\nenum {\n",
                              m->name);
  for (size_t i = 0; i < m->kernel_count; ++i) {
    slip__string_builder_printf(&text, "  SLIP_KERNEL_%s = %zu,  // %s\n", m->kernels[i].name, i, m->kernels[i].signature_text);
  }
  slip__string_builder_printf(&text, "  SLIP_PROGRAM_KERNEL_COUNT = %zu\n};\n\n", m->kernel_count);
  for (size_t i = 0; i < m->kernel_count; ++i) {
    if (!slip__glue_kernel_declared(m, i)) {
      slip__string_builder_printf(&text, "void %s(const slip_kargs_t *args, slip_block_t block);\n", m->kernels[i].symbol);
    }
  }
  for (size_t i = 0; i < m->entry_count; ++i) {
    if (!slip__glue_entry_declared(m, i)) {
      slip__string_builder_printf(&text, "void %s(slip_orch_t *o, const slip_oargs_t *args);\n", m->entries[i].symbol);
    }
  }
  slip__string_builder_printf(&text, "\n#endif  // SLIP_PROGRAM_H_\n");
  return slip__glue_finish(&text, arena, out);
}

// Compilers turn struct copies and loops into calls of these four, also without the C library. The object must have no undefined symbols,
// so they are here, hidden. 32-byte vectors: the compiler splits them where the target has less. __assert_fail makes assert() usable in
// debug builds.
static const char slip__glue_library[] =
    "typedef unsigned char slip_glue_v __attribute__((vector_size(32), aligned(1), may_alias));\n"
    "#define SLIP_GLUE_HIDDEN __attribute__((visibility(\"hidden\"), used))\n\n"
    "SLIP_GLUE_HIDDEN void *memcpy(void *restrict target, const void *restrict source, size_t size) {\n"
    "  unsigned char *t = target;\n"
    "  const unsigned char *s = source;\n"
    "  for (; size >= 32; size -= 32, t += 32, s += 32) *(slip_glue_v *)(void *)t = *(const slip_glue_v *)(const void *)s;\n"
    "  for (; size; --size) *t++ = *s++;\n"
    "  return target;\n"
    "}\n\n"
    "SLIP_GLUE_HIDDEN void *memmove(void *target, const void *source, size_t size) {\n"
    "  unsigned char *t = target;\n"
    "  const unsigned char *s = source;\n"
    "  if ((uintptr_t)t - (uintptr_t)s >= size) return memcpy(target, source, size);\n"
    "  while (size >= 32) {\n"
    "    size -= 32;\n"
    "    *(slip_glue_v *)(void *)(t + size) = *(const slip_glue_v *)(const void *)(s + size);\n"
    "  }\n"
    "  while (size) {\n"
    "    --size;\n"
    "    t[size] = s[size];\n"
    "  }\n"
    "  return target;\n"
    "}\n\n"
    "SLIP_GLUE_HIDDEN void *memset(void *target, int value, size_t size) {\n"
    "  unsigned char *t = target;\n"
    "  const slip_glue_v v = (slip_glue_v){0} + (unsigned char)value;\n"
    "  for (; size >= 32; size -= 32, t += 32) *(slip_glue_v *)(void *)t = v;\n"
    "  for (; size; --size) *t++ = (unsigned char)value;\n"
    "  return target;\n"
    "}\n\n"
    "SLIP_GLUE_HIDDEN int memcmp(const void *a, const void *b, size_t size) {\n"
    "  const unsigned char *x = a, *y = b;\n"
    "  for (; size && *x == *y; --size, ++x, ++y) {\n"
    "  }\n"
    "  return size ? *x - *y : 0;\n"
    "}\n\n"
    "void __assert_fail(const char *condition, const char *file, unsigned line, const char *function);\n"
    "SLIP_GLUE_HIDDEN void __assert_fail(const char *condition, const char *file, unsigned line, const char *function) {\n"
    "  (void)condition, (void)file, (void)line, (void)function;\n"
    "  __builtin_trap();\n"
    "}\n\n";

// Numbers the symbols of a kernel as they first appear in its tensors.
typedef struct slip__glue_symbols_t {
  const char *names[SLIP_KERNEL_MAX_TENSORS * SLIP_MAX_RANK];
  int count;
} slip__glue_symbols_t;

static int64_t slip__glue_dim(slip__glue_symbols_t *symbols, const slip_param_t *param, uint32_t d) {
  if (param->dims[d] != SLIP_DIM_DYNAMIC || !param->dim_names[d]) return param->dims[d];
  int i = 0;
  while (i < symbols->count && strcmp(symbols->names[i], param->dim_names[d]) != 0) ++i;
  if (i == symbols->count) symbols->names[symbols->count++] = param->dim_names[d];
  return -2 - (int64_t)i;
}

// The tensors of kernel |index| as it declares them, for the check of a submit.
static void slip__glue_params(slip__string_builder_t *text, const slip__manifest_kernel_t *kernel, size_t index) {
  slip__glue_symbols_t symbols = {{NULL}, 0};
  slip__string_builder_printf(text, "static const slip_object_param_t slip_glue_params_%zu[] = {\n", index);
  for (size_t i = 0; i < slip_signature_param_count(kernel->signature); ++i) {
    const slip_param_t *param = slip_signature_param(kernel->signature, i);
    if (param->direction == SLIP_DIRECTION_SCALAR) continue;
    slip__string_builder_printf(text, "    {\"%s\", %u, %u, %u, {0}, {", param->name, param->direction, param->dtype, param->rank);
    for (uint32_t d = 0; d < SLIP_MAX_RANK; ++d) {
      int64_t dim = d < param->rank ? slip__glue_dim(&symbols, param, d) : -1;
      slip__string_builder_printf(text, "%s%" PRId64, d ? ", " : "", dim);
    }
    slip__string_builder_printf(text, "}},\n");
  }
  slip__string_builder_printf(text, "};\n");
}

static void slip__glue_kernels(slip__string_builder_t *text, const slip__manifest_t *m) {
  if (m->kernel_count == 0) return;
  for (size_t i = 0; i < m->kernel_count; ++i) {
    if (m->kernels[i].tensor_count) slip__glue_params(text, &m->kernels[i], i);
  }
  slip__string_builder_printf(text, "static const slip_object_param_t *const slip_glue_params[] = {\n");
  for (size_t i = 0; i < m->kernel_count; ++i) {
    if (m->kernels[i].tensor_count) {
      slip__string_builder_printf(text, "    slip_glue_params_%zu,\n", i);
    } else {
      slip__string_builder_printf(text, "    0,\n");
    }
  }
  slip__string_builder_printf(text, "};\nstatic const slip_object_kernel_t slip_glue_kernels[] = {\n");
  for (size_t i = 0; i < m->kernel_count; ++i) {
    const slip__manifest_kernel_t *k = &m->kernels[i];
    slip__string_builder_printf(text, "    {\"%s\", %s, %u, %u, %u, %u},\n", k->name, k->symbol, k->core, k->scratch_bytes, k->tensor_count,
                                k->scalar_count);
  }
  slip__string_builder_printf(text, "};\n\n");
}

slip_status_t slip__glue_source(const slip__manifest_t *m, slip__arena_t *arena, const char **out) {
  slip__string_builder_t text;
  slip__string_builder_initialize(&text, arena->allocator);
  slip__string_builder_printf(&text,
                              "// Made by slip compile from the manifest of '%s'.\n"
                              "#include \"slip_program.h\"\n"
                              "#include \"slipstream/kernel/object.h\"\n\n",
                              m->name);
  slip__string_builder_printf(&text, "%s", slip__glue_library);
  slip__string_builder_printf(&text, "static const slip_object_entry_t slip_glue_entries[] = {\n");
  for (size_t i = 0; i < m->entry_count; ++i) {
    const slip__manifest_entry_t *e = &m->entries[i];
    slip__string_builder_printf(&text, "    {\"%s\", %s, %u, %u},\n", e->name, e->symbol, e->tensor_count, e->scalar_count);
  }
  slip__string_builder_printf(&text, "};\n\n");
  slip__glue_kernels(&text, m);
  slip__string_builder_printf(&text,
                              "extern const slip_object_t slip_object;\n"
                              "__attribute__((visibility(\"default\"), used)) const slip_object_t slip_object = {\n"
                              "    SLIP_OBJECT_MAGIC, sizeof(slip_object_t), SLIP_ORCH_ABI_VERSION, slip_glue_entries, %s, %zu, %zu, %s,\n"
                              "};\n",
                              m->kernel_count ? "slip_glue_kernels" : "0", m->entry_count, m->kernel_count,
                              m->kernel_count ? "slip_glue_params" : "0");
  return slip__glue_finish(&text, arena, out);
}
