// SPDX-License-Identifier: Apache-2.0
// A small program on disk, for the tests of this room: m.json, src/a.c, src/k.c, inc/scale.h.
#ifndef SLIPSTREAM_SRC_COMPILER_PROGRAM_TEST_H_
#define SLIPSTREAM_SRC_COMPILER_PROGRAM_TEST_H_

extern const char test_program_kernel[];  // src/k.c
extern const char test_program_header[];  // inc/scale.h

// Makes the program in the directory |name| of the running test, with |kernel_text| as its kernel. Returns the directory; static storage,
// eight at a time.
const char *test_program_make(const char *name, const char *kernel_text);
// Writes a new file of it.
void test_program_write(const char *directory, const char *name, const char *text);

#endif  // SLIPSTREAM_SRC_COMPILER_PROGRAM_TEST_H_
