// SPDX-License-Identifier: Apache-2.0
// CPU targets: name, architecture, compiler flags.
#ifndef SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_TARGET_H_
#define SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_TARGET_H_

#include <stddef.h>
#include <stdint.h>

#define SLIP__TARGET_MAX_FLAGS 4

typedef struct slip__target_t {
  const char *name;
  const char *architecture;  // as the compiler's -dumpmachine begins
  uint16_t elf_machine;
  const char *flags[SLIP__TARGET_MAX_FLAGS];  // NULL-terminated where shorter
} slip__target_t;

size_t slip__target_count(void);
const slip__target_t *slip__target_at(size_t index);
// NULL if there is none.
const slip__target_t *slip__target_find(const char *name);

#endif  // SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_TARGET_H_
