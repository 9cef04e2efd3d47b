// SPDX-License-Identifier: Apache-2.0
// The C flags a manifest may ask for: those that change how code is optimised or checked, none that reads, writes or loads anything
// (-include, -fplugin, -B, -specs, -Wl, ...) or changes the ABI of the object (-m32, -fshort-enums, -march).
#include <string.h>

#include "compiler/front/manifest.h"

static const char *const slip__cflags_exact[] = {
    "-O1",
    "-O2",
    "-O3",
    "-ffast-math",
    "-fno-fast-math",
    "-funroll-loops",
    "-fno-unroll-loops",
    "-fassociative-math",
    "-freciprocal-math",
    "-ffinite-math-only",
    "-fno-signed-zeros",
    "-fsigned-zeros",
    "-ftrapping-math",
    "-fno-trapping-math",
    "-fmath-errno",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-ffp-contract=on",
    "-ffp-contract=fast",
    "-fstrict-aliasing",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fopenmp-simd",
    "-ftree-vectorize",
    "-fno-tree-vectorize",
    "-fvectorize",
    "-fno-vectorize",
    "-fslp-vectorize",
    "-fno-slp-vectorize",
    "-fomit-frame-pointer",
    "-fno-omit-frame-pointer",
    "-mprefer-vector-width=128",
    "-mprefer-vector-width=256",
    "-mprefer-vector-width=512",
    "-std=c11",
    "-std=c17",
    "-std=gnu11",
    "-std=gnu17",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pedantic",
};

// With a lower-case word behind: "-Wshadow", "-Wno-unused-parameter"; a comma would hand the rest to the assembler or linker.
static bool slip__cflag_is_warning(const char *flag) {
  if (strncmp(flag, "-W", 2) != 0 || flag[2] == '\0') return false;
  return strspn(flag + 2, "abcdefghijklmnopqrstuvwxyz0123456789+-=") == strlen(flag + 2);
}

bool slip__cflag_allowed(const char *flag) {
  for (size_t i = 0; i < sizeof(slip__cflags_exact) / sizeof(slip__cflags_exact[0]); ++i) {
    if (strcmp(flag, slip__cflags_exact[i]) == 0) return true;
  }
  return slip__cflag_is_warning(flag);
}
