// SPDX-License-Identifier: Apache-2.0
// Dependency files (-MD) of gcc and clang: which files a compilation read.
#ifndef SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_DEPFILE_H_
#define SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_DEPFILE_H_

#include "slipstream/status.h"

// Calls |visit| for each file behind the first target's colon, in order, with make's escapes ("\ ", "$$", "\#") undone. CORRUPT if there is
// no colon; else what |visit| returns.
slip_status_t slip__depfile_read(const char *text, slip_status_t (*visit)(void *user, const char *path), void *user) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_COMPILER_TOOLCHAIN_DEPFILE_H_
