// SPDX-License-Identifier: Apache-2.0
#include "compiler/toolchain/target.h"

#include <elf.h>
#include <string.h>

// -mno-outline-atomics: libgcc's outlined atomics read a variable that only a C library start-up sets.
static const slip__target_t slip__targets[] = {
    {"x86-64-v2", "x86_64", EM_X86_64, {"-march=x86-64-v2"}},
    {"x86-64-v3", "x86_64", EM_X86_64, {"-march=x86-64-v3"}},
    {"x86-64-v4", "x86_64", EM_X86_64, {"-march=x86-64-v4"}},
    {"aarch64", "aarch64", EM_AARCH64, {"-march=armv8-a", "-mno-outline-atomics"}},
};

size_t slip__target_count(void) {
  return sizeof(slip__targets) / sizeof(slip__targets[0]);
}

const slip__target_t *slip__target_at(size_t index) {
  return index < slip__target_count() ? &slip__targets[index] : NULL;
}

const slip__target_t *slip__target_find(const char *name) {
  for (size_t i = 0; i < slip__target_count(); ++i) {
    if (strcmp(slip__targets[i].name, name) == 0) return &slip__targets[i];
  }
  return NULL;
}
