// SPDX-License-Identifier: Apache-2.0
// Shared objects: from a library name, or from bytes in memory through a sealed memfd (never a file with a guessable name).
#ifndef SLIPSTREAM_SRC_OS_DYLIB_H_
#define SLIPSTREAM_SRC_OS_DYLIB_H_

#include "slipstream/base.h"
#include "slipstream/status.h"

typedef struct slip__dylib_t slip__dylib_t;

// RTLD_NOW | RTLD_LOCAL. NOT_FOUND with the loader's sentence.
slip_status_t slip__dylib_open(const char *name, slip_allocator_t allocator, slip__dylib_t **out) SLIP_MUST_USE;
// |label| names the object for debuggers. |bytes| may be freed after return. CORRUPT with the loader's sentence, IO, OUT_OF_MEMORY.
slip_status_t slip__dylib_open_memory(slip_const_bytes_t bytes, const char *label, slip_allocator_t allocator,
                                      slip__dylib_t **out) SLIP_MUST_USE;
// NOT_FOUND names symbol and object.
slip_status_t slip__dylib_symbol(slip__dylib_t *library, const char *name, void **out) SLIP_MUST_USE;
// The directory of the object (program or shared library) that holds |address|, as the loader knows it. NOT_FOUND.
slip_status_t slip__dylib_directory_of(const void *address, slip_allocator_t allocator, char **out) SLIP_MUST_USE;
// NULL is fine. IO with the loader's sentence: the object stays open and close may be repeated.
slip_status_t slip__dylib_close(slip__dylib_t *library) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_OS_DYLIB_H_
