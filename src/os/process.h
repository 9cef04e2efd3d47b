// SPDX-License-Identifier: Apache-2.0
// Child programs, without a shell.
#ifndef SLIPSTREAM_SRC_OS_PROCESS_H_
#define SLIPSTREAM_SRC_OS_PROCESS_H_

#include "slipstream/base.h"
#include "slipstream/status.h"

typedef struct slip__process_result_t {
  int exit_code;        // 128 + signal if it was killed
  slip_bytes_t output;  // stdout and stderr together, terminated (size without the terminator); freed by the caller: size + 1 bytes
} slip__process_result_t;

// Runs |arguments| (NULL-terminated, [0] searched in PATH) with stdin closed and waits. NOT_FOUND: no such program; TIMEOUT: killed after
// |timeout_ns|; IO; OUT_OF_MEMORY. A non-zero exit is OK here: look at |out->exit_code|. Thread-safe (posix_spawn, close-on-exec pipes).
slip_status_t slip__process_run(const char *const *arguments, const char *directory, uint64_t timeout_ns, slip_allocator_t allocator,
                                slip__process_result_t *out) SLIP_MUST_USE;

#endif  // SLIPSTREAM_SRC_OS_PROCESS_H_
