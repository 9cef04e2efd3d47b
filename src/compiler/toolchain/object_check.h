// SPDX-License-Identifier: Apache-2.0
// Looks at a linked object without loading it: is it the closed, passive thing that an image may hold?
#ifndef SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_OBJECT_CHECK_H_
#define SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_OBJECT_CHECK_H_

#include "slipstream/status.h"

// Accepts a 64-bit little-endian ELF shared object for |machine| that exports exactly slip_object, needs no library and no symbol, and runs
// nothing when it is loaded (no constructors, no destructors, no text relocations). INVALID_ARGUMENT names the offending symbol or
// property; CORRUPT: no such file at all. |bytes.data| has malloc's alignment or a page's.
slip_status_t slip__object_check(slip_const_bytes_t bytes, uint16_t machine) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_OBJECT_CHECK_H_
